/* NEXT*min..max, by distance (language.md section 4.4): from each start a breadth-first search over the direct neighbours; one end per event,
 * `hops` the fewest steps, `source` that of the last step from the nearer neighbour with the smallest id.
 *
 * All starts of a batch are searched level by level together, so that a level is one round trip. A node whose neighbours were cut makes what
 * lies behind it uncertain: with such a node at distance d, an event first met further on may truly be d + 1 away. Where that is below
 * the range asked for, the event does not come back; else its `hops` is an upper bound, and a note says so. */
#include "coordinator/run/expand.h"

enum { CHECK_STARTS = 64 };

typedef struct walk_state {
    co_expand expand; /* first; its edges are the walk's ends */
    co_adjacency *neighbours;
    uint32_t hops_min, hops_max;
    uint32_t *visited_by; /* by handle: number of the search that met it last … */
    uint32_t *met_at;     /* … and its place among the events met */
    uint32_t visited_capacity, met_capacity, visited_end, search;
} walk_state;

/* The events met by one search, level after level. */
typedef struct met_events {
    uint32_t *handles;
    uint8_t *sources;
    uint32_t *parents; /* the nearer neighbour that the last step is counted from */
    uint32_t capacity, source_capacity, parent_capacity;
    uint32_t level_first[5]; /* of levels 0..HOPS_MAX, and the end */
} met_events;

static hd_status mark_visited(co_op *op, walk_state *state, uint32_t handle, bool *is_new_out) {
    HD_TRY(CO_GROW(op->run->arena, state->visited_by, state->visited_capacity, handle));
    HD_TRY(CO_GROW(op->run->arena, state->met_at, state->met_capacity, handle));
    for (; state->visited_end <= handle; state->visited_end++) state->visited_by[state->visited_end] = 0;
    *is_new_out = state->visited_by[handle] != state->search;
    state->visited_by[handle] = state->search;
    return HD_OK;
}

static hd_status add_met(co_op *op, met_events *met, uint32_t index, uint32_t handle, uint32_t parent, uint8_t source) {
    HD_TRY(CO_GROW(op->run->arena, met->handles, met->capacity, index));
    HD_TRY(CO_GROW(op->run->arena, met->sources, met->source_capacity, index));
    HD_TRY(CO_GROW(op->run->arena, met->parents, met->parent_capacity, index));
    met->handles[index] = handle;
    met->sources[index] = source;
    met->parents[index] = parent;
    return HD_OK;
}

/* Event `at` of the level being filled was met again: the last step is counted from the neighbour with the smaller id. */
static void prefer_smaller_parent(co_op *op, met_events *met, uint32_t at, uint32_t parent, uint8_t source) {
    if (co_nodes_compare(&op->run->nodes, HD_LABEL_EVENT, parent, met->parents[at]) >= 0) return;
    met->parents[at] = parent;
    met->sources[at] = source;
}

/* Fills level `level` of the search from its neighbours as far as known; *is_cut_out: some of the level before have cut neighbours. */
static hd_status fill_level(co_op *op, walk_state *state, met_events *met, uint32_t level, bool *is_cut_out) {
    const co_adjacency *neighbours = state->neighbours;
    uint32_t first = met->level_first[level], end = first;
    *is_cut_out = false;
    for (uint32_t i = met->level_first[level - 1]; i < first; i++) {
        uint32_t from = met->handles[i];
        uint8_t state_of = co_adjacency_state(neighbours, from);
        if (state_of != CO_NODE_WHOLE) *is_cut_out = true;
        if (state_of == CO_NODE_UNKNOWN) continue;
        for (uint32_t k = neighbours->first[from]; k < neighbours->first[from] + neighbours->count[from]; k++) {
            bool is_new;
            uint32_t to = neighbours->to[k];
            HD_TRY(mark_visited(op, state, to, &is_new));
            if (is_new) {
                state->met_at[to] = end;
                HD_TRY(add_met(op, met, end++, to, from, neighbours->kinds[k]));
            } else if (state->met_at[to] >= first) {
                prefer_smaller_parent(op, met, state->met_at[to], from, neighbours->kinds[k]);
            }
        }
    }
    met->level_first[level + 1] = end;
    return HD_OK;
}

/* Searches from one start and enters its ends. Runs when the neighbours of all levels are fetched. */
static hd_status search_from(co_op *op, walk_state *state, met_events *met, uint32_t start) {
    co_adjacency *ends = state->expand.edges;
    bool is_new, is_walk_cut = false, is_range_unsure = false;
    state->search++;
    HD_TRY(mark_visited(op, state, start, &is_new));
    state->met_at[start] = 0;
    HD_TRY(add_met(op, met, 0, start, start, 0));
    met->level_first[0] = 0;
    met->level_first[1] = 1;
    for (uint32_t level = 1; level <= state->hops_max; level++) {
        bool is_cut;
        HD_TRY(fill_level(op, state, met, level, &is_cut));
        is_walk_cut |= is_cut;
        if (is_cut && level < state->hops_min) is_range_unsure = true;
    }
    if (is_walk_cut) op->run->notable.is_walk_cut = true;
    HD_TRY(co_adjacency_begin(ends, start, is_walk_cut ? CO_NODE_CUT : CO_NODE_WHOLE));
    for (uint32_t level = state->hops_min; level <= state->hops_max && !is_range_unsure; level++) {
        for (uint32_t i = met->level_first[level]; i < met->level_first[level + 1]; i++) {
            HD_TRY(CO_GROW(ends->arena, ends->hops, ends->hops_capacity, ends->edge_count));
            ends->hops[ends->edge_count] = (uint8_t)level;
            HD_TRY(co_adjacency_add(ends, start, met->handles[i], met->sources[i]));
        }
    }
    return HD_OK;
}

/* Fetches the neighbours of `level` (distinct nodes) and gives the distinct nodes one step on that were not fetched yet. */
static hd_status fetch_level(co_op *op, walk_state *state, uint32_t **level, uint32_t *count) {
    co_run *run = op->run;
    co_adjacency *neighbours = state->neighbours;
    uint64_t cap = run->budget->caps[HD_CAP_FRONTIER];
    if (*count > cap) {
        HD_TRY(co_run_cut(run, op->step, "expand", HD_CAP_FRONTIER, *count));
        *count = (uint32_t)cap;
    }
    hd_budget_peak(run->budget, HD_CAP_FRONTIER, *count);
    HD_TRY(co_adjacency_fetch(run, op->step, neighbours, *level, *count));
    uint32_t *further = NULL, capacity = 0, further_count = 0;
    state->search++;
    for (uint32_t i = 0; i < *count; i++) {
        uint32_t from = (*level)[i];
        for (uint32_t k = neighbours->first[from]; k < neighbours->first[from] + neighbours->count[from]; k++) {
            bool is_new;
            HD_TRY(mark_visited(op, state, neighbours->to[k], &is_new));
            if (!is_new) continue;
            HD_TRY(CO_GROW(run->arena, further, capacity, further_count));
            further[further_count++] = neighbours->to[k];
        }
    }
    *level = further;
    *count = further_count;
    return HD_OK;
}

static hd_status walk_frontier(co_op *op, const uint32_t *frontier, uint32_t count) {
    walk_state *state = op->state;
    uint32_t *level, level_count = count;
    HD_ALLOC(level, op->run->arena, count);
    memcpy(level, frontier, count * sizeof(*level));
    for (uint32_t hop = 1; hop <= state->hops_max && level_count > 0; hop++) HD_TRY(fetch_level(op, state, &level, &level_count));
    met_events met = {0};
    bool is_over = false;
    for (uint32_t i = 0; i < count; i++) {
        if (i % CHECK_STARTS == 0 && !is_over) HD_TRY(co_run_check(op->run, op->step, "expand", &is_over));
        if (is_over) /* what is left has no ends that anybody knows of */
            HD_TRY(co_adjacency_begin(state->expand.edges, frontier[i], CO_NODE_CUT));
        else
            HD_TRY(search_from(op, state, &met, frontier[i]));
    }
    return HD_OK;
}

static hd_status open_walk(co_op *op) {
    walk_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    op->state = state;
    const co_rel *rel = &op->run->query->rels[op->step->rel];
    state->hops_min = rel->hops_min;
    state->hops_max = rel->hops_max;
    state->expand.fetch = walk_frontier;
    HD_CHECK(state->hops_max <= CO_HOPS_MAX && state->hops_min >= 1);
    HD_TRY(co_adjacency_of_step(op->run, op->step, &state->neighbours));
    HD_TRY(co_adjacency_new(op->run, CO_EDGES_WALK, &state->expand.edges));
    return co_expand_open(op, &state->expand);
}

const co_op_table co_op_next_walk_table = {open_walk, co_expand_next, NULL};
