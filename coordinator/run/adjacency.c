/* See adjacency.h: making, filling and searching adjacencies. One fetch function a sort of edge. */
#include "coordinator/run/adjacency.h"

#include <math.h>
#include <stdlib.h>

#include "common/figure.h"

hd_status co_adjacency_new(co_run *run, co_edge_sort sort, co_adjacency **edges_out) {
    co_adjacency *edges;
    HD_ALLOC(edges, run->arena, 1);
    edges->sort = sort;
    edges->arena = run->arena;
    hd_map64_init(&edges->first_edge[0], run->arena);
    hd_map64_init(&edges->first_edge[1], run->arena);
    *edges_out = edges;
    return HD_OK;
}

hd_status co_adjacency_get(co_run *run, co_edge_sort sort, uint32_t detail, uint32_t facets, co_adjacency **edges_out) {
    for (co_adjacency *edges = run->adjacencies; edges != NULL; edges = edges->next) {
        if (edges->sort != sort || edges->detail != detail) continue;
        edges->facets |= facets;
        *edges_out = edges;
        return HD_OK;
    }
    co_adjacency *edges;
    HD_TRY(co_adjacency_new(run, sort, &edges));
    edges->detail = detail;
    edges->facets = facets;
    edges->next = run->adjacencies;
    run->adjacencies = edges;
    *edges_out = edges;
    return HD_OK;
}

hd_status co_adjacency_begin(co_adjacency *edges, uint32_t handle, uint8_t state) {
    HD_TRY(CO_GROW(edges->arena, edges->state, edges->state_capacity, handle));
    HD_TRY(CO_GROW(edges->arena, edges->first, edges->first_capacity, handle));
    HD_TRY(CO_GROW(edges->arena, edges->count, edges->count_capacity, handle));
    for (; edges->node_end <= handle; edges->node_end++) edges->state[edges->node_end] = CO_NODE_UNKNOWN;
    edges->state[handle] = state;
    edges->first[handle] = edges->edge_count;
    edges->count[handle] = 0;
    return HD_OK;
}

static bool has_kinds(const co_adjacency *edges) {
    return edges->sort == CO_EDGES_TAGS || edges->sort == CO_EDGES_TAG_EVENTS || edges->sort == CO_EDGES_NEXT ||
           edges->sort == CO_EDGES_PREVIOUS || edges->sort == CO_EDGES_WALK;
}

hd_status co_adjacency_add(co_adjacency *edges, uint32_t handle, uint32_t to, uint8_t kind) {
    HD_TRY(CO_GROW(edges->arena, edges->to, edges->to_capacity, edges->edge_count));
    edges->to[edges->edge_count] = to;
    if (has_kinds(edges)) {
        HD_TRY(CO_GROW(edges->arena, edges->kinds, edges->kinds_capacity, edges->edge_count));
        edges->kinds[edges->edge_count] = kind;
    }
    edges->edge_count++;
    edges->count[handle]++;
    return HD_OK;
}

enum { LIST_LONG = 32 }; /* longer lists are found in by a map */

static uint64_t pair_key(uint32_t from, uint32_t to) {
    return (uint64_t)from << 32 | to;
}

static hd_map64 *map_of_kind(co_adjacency *edges, uint32_t edge) {
    return &edges->first_edge[has_kinds(edges) && edges->kinds[edge] == HD_KIND_REFERS];
}

static hd_status index_list(co_adjacency *edges, uint32_t handle) {
    HD_TRY(CO_GROW(edges->arena, edges->is_indexed, edges->indexed_capacity, handle));
    for (; edges->indexed_end <= handle; edges->indexed_end++) edges->is_indexed[edges->indexed_end] = 0;
    if (edges->is_indexed[handle]) return HD_OK;
    for (uint32_t i = edges->first[handle]; i < edges->first[handle] + edges->count[handle]; i++) {
        uint32_t value;
        bool is_new;
        HD_TRY(hd_map64_put(map_of_kind(edges, i), pair_key(handle, edges->to[i]), i, &value, &is_new));
    }
    edges->is_indexed[handle] = 1;
    return HD_OK;
}

hd_status co_adjacency_find(co_adjacency *edges, uint32_t handle, uint32_t to, uint32_t from, uint32_t *edge_out) {
    *edge_out = CO_CELL_NONE;
    if (co_adjacency_state(edges, handle) == CO_NODE_UNKNOWN) return HD_OK;
    if (edges->count[handle] > LIST_LONG) {
        HD_TRY(index_list(edges, handle));
        for (int i = 0; i < 2; i++) {
            uint32_t edge = hd_map64_get(&edges->first_edge[i], pair_key(handle, to));
            if (edge != HD_MAP_NONE && edge >= from) *edge_out = HD_MIN(*edge_out, edge);
        }
        return HD_OK;
    }
    uint32_t end = edges->first[handle] + edges->count[handle];
    for (uint32_t i = HD_MAX(from, edges->first[handle]); i < end && *edge_out == CO_CELL_NONE; i++)
        if (edges->to[i] == to) *edge_out = i;
    return HD_OK;
}

/* -- fetching ------------------------------------------------------------------------------------------------------------------ */

/* The nodes of one fetch, and what came back for them. */
typedef struct fetch {
    const uint32_t *handles;
    uint32_t count;
    uint32_t *to; /* handle by row of the table that came back */
    hd_step_result result;
    co_step_outcome outcome;
} fetch;

static hd_status set_event_frontier(co_run *run, const fetch *wanted, hd_step *step) {
    step->frontier_label = HD_LABEL_EVENT;
    step->events.count = wanted->count;
    HD_ALLOC(step->events.ids, run->arena, wanted->count);
    for (uint32_t i = 0; i < wanted->count; i++) step->events.ids[i] = co_nodes_event(&run->nodes, wanted->handles[i])->id;
    return HD_OK;
}

static hd_status set_name_frontier(co_run *run, const fetch *wanted, hd_label label, hd_step *step) {
    step->frontier_label = label;
    step->names.count = wanted->count;
    HD_ALLOC(step->names.ids, run->arena, wanted->count);
    for (uint32_t i = 0; i < wanted->count; i++) step->names.ids[i] = co_nodes_name(&run->nodes, label, wanted->handles[i])->id;
    return HD_OK;
}

/* Did everything come that this node has? An event's own lists come whole, where its owner answered at all. */
static uint8_t state_of(const co_adjacency *edges, const fetch *got, uint32_t index) {
    if (got->outcome.is_complete) return CO_NODE_WHOLE;
    bool is_of_owner = edges->sort == CO_EDGES_ENTITIES || edges->sort == CO_EDGES_TAGS;
    if (is_of_owner && index < got->result.events.count && (got->result.events.flags[index] & HD_EVENT_EXISTS))
        return CO_NODE_WHOLE;
    return CO_NODE_CUT;
}

static hd_status take_edges(co_adjacency *edges, const fetch *got) {
    const hd_edges *from = &got->result.edges;
    for (uint32_t i = 0; i < got->count; i++) {
        HD_TRY(co_adjacency_begin(edges, got->handles[i], state_of(edges, got, i)));
        if (from->offsets == NULL || i >= from->from_count) continue;
        for (uint32_t k = from->offsets[i]; k < from->offsets[i + 1]; k++)
            HD_TRY(co_adjacency_add(edges, got->handles[i], got->to[from->to[k]], from->kinds != NULL ? from->kinds[k] : 0));
    }
    return HD_OK;
}

/* event → entities, event → tags: FACTS, answered by each event's owner. */
static hd_status fetch_names_of_events(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, fetch *wanted) {
    bool is_tags = edges->sort == CO_EDGES_TAGS;
    hd_step step = {.kind = HD_STEP_FACTS, .facets = is_tags ? HD_FACET_TAGS : HD_FACET_ENTITIES};
    if (is_tags) step.kinds = (uint8_t)edges->detail;
    HD_TRY(set_event_frontier(run, wanted, &step));
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &wanted->result, &wanted->outcome));
    HD_TRY(co_nodes_learn_names(&run->nodes, is_tags ? HD_LABEL_TAG : HD_LABEL_ENTITY, &wanted->result.names, false, &wanted->to));
    return take_edges(edges, wanted);
}

/* entity → events, tag → events: POSTINGS of every partition. */
static hd_status fetch_postings(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, fetch *wanted) {
    hd_label label = edges->sort == CO_EDGES_TAG_EVENTS ? HD_LABEL_TAG : HD_LABEL_ENTITY;
    hd_step step = {.kind = HD_STEP_POSTINGS, .facets = edges->facets};
    if (label == HD_LABEL_TAG) step.kinds = (uint8_t)edges->detail;
    HD_TRY(set_name_frontier(run, wanted, label, &step));
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &wanted->result, &wanted->outcome));
    HD_TRY(co_nodes_learn_events(&run->nodes, &wanted->result.events, edges->facets, &wanted->to));
    return take_edges(edges, wanted);
}

enum { NEXT_FACETS = HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS };

static hd_status set_places(co_run *run, const fetch *wanted, hd_event_batch *events) {
    HD_ALLOC(events->flags, run->arena, wanted->count);
    HD_ALLOC(events->timestamp_us, run->arena, wanted->count);
    HD_ALLOC(events->order_index, run->arena, wanted->count);
    HD_ALLOC(events->threads, run->arena, wanted->count);
    HD_ALLOC(events->previous, run->arena, wanted->count);
    for (uint32_t i = 0; i < wanted->count; i++) {
        const co_event *event = co_nodes_event(&run->nodes, wanted->handles[i]);
        events->flags[i] = event->flags | HD_EVENT_EXISTS;
        events->timestamp_us[i] = event->timestamp_us;
        events->order_index[i] = event->order_index;
        events->threads[i] = event->thread;
        events->previous[i] = event->previous;
    }
    return HD_OK;
}

/* The direct neighbours along threads and prev_event_id. An event whose place is not known (its owner did not answer) has none. */
static hd_status fetch_next(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, fetch *wanted) {
    HD_TRY(co_run_fetch_events(run, plan_step, wanted->handles, wanted->count, NEXT_FACETS));
    uint32_t *placed;
    HD_ALLOC(placed, run->arena, wanted->count);
    uint32_t placed_count = 0;
    for (uint32_t i = 0; i < wanted->count; i++) {
        if ((co_nodes_event(&run->nodes, wanted->handles[i])->known & NEXT_FACETS) == NEXT_FACETS)
            placed[placed_count++] = wanted->handles[i];
        else
            HD_TRY(co_adjacency_begin(edges, wanted->handles[i], CO_NODE_CUT));
    }
    if (placed_count == 0) return HD_OK;
    fetch known = {.handles = placed, .count = placed_count};
    hd_step step = {.kind = HD_STEP_NEXT,
                    .facets = NEXT_FACETS | edges->facets,
                    .is_backward = edges->sort == CO_EDGES_PREVIOUS,
                    .kinds = (uint8_t)edges->detail};
    HD_TRY(set_event_frontier(run, &known, &step));
    HD_TRY(set_places(run, &known, &step.events));
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &known.result, &known.outcome));
    HD_TRY(co_nodes_learn_events(&run->nodes, &known.result.events, step.facets, &known.to));
    return take_edges(edges, &known);
}

/* -- SHARES ---------------------------------------------------------------------------------------------------------------------- */

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
static hd_status rank_names(co_run *run, const fetch *got, uint32_t **ranks_out, double **lifts_out) {
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
static hd_status add_via(co_adjacency *edges, const fetch *got, uint32_t edge, const uint32_t *ranks, const double *lifts,
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

static hd_status take_shares(co_run *run, co_adjacency *edges, fetch *got) {
    uint32_t *ranks, *entity_of;
    double *lifts;
    HD_TRY(co_nodes_learn_events(&run->nodes, &got->result.events, edges->facets, &got->to));
    HD_TRY(co_nodes_learn_names(&run->nodes, HD_LABEL_ENTITY, &got->result.names, !got->outcome.is_any_missing, &entity_of));
    HD_TRY(rank_names(run, got, &ranks, &lifts));
    const hd_edges *from = &got->result.edges;
    for (uint32_t i = 0; i < got->count; i++) {
        uint32_t handle = got->handles[i];
        HD_TRY(co_adjacency_begin(edges, handle, got->outcome.is_complete ? CO_NODE_WHOLE : CO_NODE_CUT));
        if (from->offsets == NULL || i >= from->from_count) continue;
        for (uint32_t k = from->offsets[i]; k < from->offsets[i + 1]; k++) {
            HD_TRY(co_adjacency_add(edges, handle, got->to[from->to[k]], 0));
            HD_TRY(add_via(edges, got, k, ranks, lifts, entity_of));
        }
    }
    return HD_OK;
}

/* The frontier's entity lists as a step wants them: edges into a table of distinct entities. */
static hd_status set_entity_lists(co_run *run, const fetch *wanted, const co_adjacency *entities, hd_step *step) {
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
static hd_status fetch_shares(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, fetch *wanted) {
    co_adjacency *entities;
    HD_TRY(co_adjacency_get(run, CO_EDGES_ENTITIES, 0, 0, &entities));
    HD_TRY(co_adjacency_fetch(run, plan_step, entities, wanted->handles, wanted->count));
    uint32_t *listed;
    HD_ALLOC(listed, run->arena, wanted->count);
    fetch known = {.handles = listed};
    for (uint32_t i = 0; i < wanted->count; i++) { /* a list that did not come whole would give counts that are too low */
        if (co_adjacency_state(entities, wanted->handles[i]) == CO_NODE_WHOLE)
            listed[known.count++] = wanted->handles[i];
        else
            HD_TRY(co_adjacency_begin(edges, wanted->handles[i], CO_NODE_CUT));
    }
    if (known.count == 0) return HD_OK;
    hd_step step = {.kind = HD_STEP_SHARES, .shares_min = edges->detail, .facets = edges->facets};
    HD_TRY(set_event_frontier(run, &known, &step));
    HD_TRY(set_entity_lists(run, &known, entities, &step));
    if (step.names.count == 0) {
        known.outcome.is_complete = true;
        return take_edges(edges, &known);
    }
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &known.result, &known.outcome));
    return take_shares(run, edges, &known);
}

hd_status co_adjacency_fetch(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, const uint32_t *handles,
                             uint32_t count) {
    uint32_t *unknown;
    HD_ALLOC(unknown, run->arena, count);
    fetch wanted = {.handles = unknown};
    for (uint32_t i = 0; i < count; i++) { /* begun here already, so that a handle given twice is asked for once */
        if (co_adjacency_state(edges, handles[i]) != CO_NODE_UNKNOWN) continue;
        HD_TRY(co_adjacency_begin(edges, handles[i], CO_NODE_CUT));
        unknown[wanted.count++] = handles[i];
    }
    if (wanted.count == 0) return HD_OK;
    switch (edges->sort) {
    case CO_EDGES_ENTITIES:
    case CO_EDGES_TAGS: return fetch_names_of_events(run, plan_step, edges, &wanted);
    case CO_EDGES_ENTITY_EVENTS:
    case CO_EDGES_TAG_EVENTS: return fetch_postings(run, plan_step, edges, &wanted);
    case CO_EDGES_NEXT:
    case CO_EDGES_PREVIOUS: return fetch_next(run, plan_step, edges, &wanted);
    case CO_EDGES_SHARES: return fetch_shares(run, plan_step, edges, &wanted);
    case CO_EDGES_WALK: break;
    }
    HD_CHECK(!"a walk's ends are found by the walk");
    return HD_INTERNAL;
}
