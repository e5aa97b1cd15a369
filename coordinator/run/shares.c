/* See shares.h: the two trips, and the figures of an edge. */
#include "coordinator/run/shares.h"

#include <math.h>
#include <stdlib.h>

#include "common/figure.h"

/* An entity of the names table of a SHARES result, with its place in the order of `via`. */
typedef struct ranked_name {
    uint64_t df; /* 0 for all where the counts are not whole: the order is then by name alone */
    hd_str name;
    uint32_t index; /* into the names table */
} ranked_name;

static int compare_ranked(const void *left, const void *right) {
    const ranked_name *a = left, *b = right;
    if (a->df != b->df) return a->df < b->df ? -1 : 1;
    return hd_str_compare(a->name, b->name); /* names are distinct: an entity is its name */
}

/* ranks_out[index into names] = place in the order; lifts_out likewise (0 where not known). */
static hd_status rank_names(co_run *run, const co_fetched *got, uint32_t **ranks_out, double **lifts_out) {
    const hd_name_batch *names = &got->result.names;
    bool are_counts_whole = !got->outcome.is_any_missing;
    ranked_name *order;
    HD_ALLOC(order, run->arena, names->count);
    HD_ALLOC(*ranks_out, run->arena, names->count);
    HD_ALLOC(*lifts_out, run->arena, names->count);
    for (uint32_t i = 0; i < names->count; i++)
        order[i] = (ranked_name){are_counts_whole ? names->event_count[i] : 0, names->names[i], i};
    qsort(order, names->count, sizeof(*order), compare_ranked);
    for (uint32_t i = 0; i < names->count; i++) {
        (*ranks_out)[order[i].index] = i;
        if (order[i].df > 0) (*lifts_out)[order[i].index] = hd_figure_lift(got->outcome.n_live, order[i].df);
    }
    return HD_OK;
}

/* Insertion sort: a pair of events rarely shares more than a handful. */
static void sort_by_rank(uint32_t *via, uint32_t count, const uint32_t *ranks) {
    for (uint32_t i = 1; i < count; i++) {
        uint32_t moving = via[i], k = i;
        for (; k > 0 && ranks[via[k - 1]] > ranks[moving]; k--) via[k] = via[k - 1];
        via[k] = moving;
    }
}

/* Enters the `via` of the edge added last and its weight: ln(1 + N / df) summed in the order of via. */
static hd_status add_via(co_adjacency *edges, const co_fetched *got, uint32_t edge, const uint32_t *ranks, const double *lifts,
                         const uint32_t *entity_of) {
    const hd_edges *from = &got->result.edges;
    uint32_t added = edges->edge_count - 1, count = from->via_offsets[edge + 1] - from->via_offsets[edge];
    uint32_t *via = from->via + from->via_offsets[edge];
    HD_TRY(CO_GROW(edges->arena, edges->weight, edges->weight_capacity, added));
    HD_TRY(CO_GROW(edges->arena, edges->via_first, edges->via_first_capacity, added));
    HD_TRY(CO_GROW(edges->arena, edges->via_count, edges->via_count_capacity, added));
    HD_TRY(CO_GROW(edges->arena, edges->via, edges->via_capacity, edges->via_size + count));
    sort_by_rank(via, count, ranks);
    double weight = 0;
    for (uint32_t i = 0; i < count; i++) {
        weight += lifts[via[i]];
        edges->via[edges->via_size + i] = entity_of[via[i]];
    }
    edges->weight[added] = got->outcome.is_any_missing ? (double)NAN : hd_figure_round(weight);
    edges->via_first[added] = edges->via_size;
    edges->via_count[added] = count;
    edges->via_size += count;
    return HD_OK;
}

hd_status co_shares_take(co_run *run, co_adjacency *edges, co_fetched *got) {
    uint32_t *ranks, *entity_of;
    double *lifts;
    HD_TRY(co_nodes_learn_events(&run->nodes, &got->result.events, edges->facets, &got->to));
    HD_TRY(co_nodes_learn_names(&run->nodes, HD_LABEL_ENTITY, &got->result.names, !got->outcome.is_any_missing, &entity_of));
    HD_TRY(rank_names(run, got, &ranks, &lifts));
    const hd_edges *from = &got->result.edges;
    for (uint32_t i = 0; i < got->count; i++) {
        uint32_t handle = got->handles[i];
        if (handle == CO_CELL_NONE) continue;
        HD_TRY(co_adjacency_begin(edges, handle, co_fetched_state(edges, got, i)));
        if (from->offsets == NULL || i >= from->from_count) continue;
        for (uint32_t k = from->offsets[i]; k < from->offsets[i + 1]; k++) {
            HD_TRY(co_adjacency_add(edges, handle, got->to[from->to[k]], 0));
            HD_TRY(add_via(edges, got, k, ranks, lifts, entity_of));
        }
    }
    return HD_OK;
}

/* The frontier's entity lists as a step wants them: edges into a table of distinct entities. */
static hd_status set_entity_lists(co_run *run, const co_fetched *wanted, const co_adjacency *entities, hd_step *step) {
    hd_edges *lists = &step->edges;
    uint32_t total = 0;
    for (uint32_t i = 0; i < wanted->count; i++) total += entities->count[wanted->handles[i]];
    lists->from_count = wanted->count;
    HD_ALLOC(lists->offsets, run->arena, wanted->count + 1);
    HD_ALLOC(lists->to, run->arena, total);
    HD_ALLOC(step->names.ids, run->arena, total);
    uint32_t *row_of; /* by entity handle: its row in the names table + 1 */
    HD_ALLOC(row_of, run->arena, run->nodes.entities.count);
    uint32_t at = 0;
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint32_t first = entities->first[wanted->handles[i]], count = entities->count[wanted->handles[i]];
        for (uint32_t k = first; k < first + count; k++) {
            uint32_t entity = entities->to[k];
            if (row_of[entity] == 0) {
                step->names.ids[step->names.count++] = run->nodes.entities.items[entity].id;
                row_of[entity] = step->names.count;
            }
            lists->to[at++] = row_of[entity] - 1;
        }
        lists->offsets[i + 1] = at;
    }
    return HD_OK;
}

/* Two trips: what entities the events have (their owners know), then who else has them (everybody is asked). */
hd_status co_shares_fetch(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, co_fetched *wanted) {
    co_adjacency *entities;
    HD_TRY(co_adjacency_get(run, CO_EDGES_ENTITIES, 0, 0, &entities));
    HD_TRY(co_adjacency_fetch(run, plan_step, entities, wanted->handles, wanted->count));
    uint32_t *listed;
    HD_ALLOC(listed, run->arena, wanted->count);
    co_fetched known = {.handles = listed};
    for (uint32_t i = 0; i < wanted->count; i++) { /* a list that did not come whole would give counts that are too low */
        if (co_adjacency_state(entities, wanted->handles[i]) == CO_NODE_WHOLE)
            listed[known.count++] = wanted->handles[i];
        else
            HD_TRY(co_adjacency_begin(edges, wanted->handles[i], CO_NODE_CUT));
    }
    if (known.count == 0) return HD_OK;
    hd_step step = co_adjacency_step(edges);
    HD_TRY(co_fetched_frontier(run, &known, &step));
    HD_TRY(set_entity_lists(run, &known, entities, &step));
    if (step.names.count == 0) {
        known.outcome.is_complete = true; /* no entities, so nothing shared */
        return co_shares_take(run, edges, &known);
    }
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &known.result, &known.outcome));
    return co_shares_take(run, edges, &known);
}
