/* NEXT*min..max and SHARES*min..max, by distance (language.md section 4.4): from each start a breadth-first search over the direct
 * neighbours; one end per event, `hops` the fewest steps, the other properties those of the last step. Of several nearer neighbours it is
 * counted from the one with the largest weight (SHARES), then the smallest id.
 *
 * All starts of a batch have their neighbours fetched level by level together, so that a level is one round trip and no event is asked
 * twice. The search itself runs when a row comes to its start: ends are many more than edges, and rows keep what they need of them in
 * their cell. A node whose neighbours were cut makes what lies behind it uncertain: with such a node at distance d, an event first met
 * further on may truly be d + 1 away. Where that is below the range asked for, the event does not come back; else its `hops` is an upper
 * bound, and a note says so.
 *
 * A weight that is not known (a partition could not be asked) comes after those that are, and is like any other such: the smallest id then
 * decides. Its node counts as cut, so the note covers the choice. */
#include <math.h>

#include "coordinator/run/expand.h"

enum { CHECK_EDGES = 1 << 20 }; /* walked between two looks at the clock */
enum { ENDS_KEPT = 1 << 22 };   /* of starts whose rows may come again */

/* The events met by one search, level after level. */
typedef struct met_events {
    uint32_t *handles;
    uint32_t *parents; /* the nearer neighbour that the last step is counted from … */
    uint32_t *edges;   /* … and that step, among its edges */
    uint32_t capacity, parent_capacity, edge_capacity;
    uint32_t level_first[CO_HOPS_MAX + 2]; /* of levels 0..HOPS_MAX, and the end */
} met_events;

typedef struct walk_state {
    co_expand expand; /* first; its edges are the walk's ends */
    co_adjacency *neighbours;
    uint32_t hops_min, hops_max;
    double min_weight;       /* SHARES; 0: none asked */
    bool is_last_step_shown; /* the query can look at properties of the last step */
    bool is_over;            /* no time is left */
    uint32_t edges_walked;   /* since the last look at the clock */
    met_events met;
    uint32_t *visited_by; /* by handle: number of the search that met it last … */
    uint32_t *met_at;     /* … and its place among the events met */
    uint32_t visited_capacity, met_capacity, visited_end, search;
} walk_state;

static hd_status mark_visited(co_op *op, walk_state *state, uint32_t handle, bool *is_new_out) {
    HD_TRY(CO_GROW(op->run->arena, state->visited_by, state->visited_capacity, handle));
    HD_TRY(CO_GROW(op->run->arena, state->met_at, state->met_capacity, handle));
    for (; state->visited_end <= handle; state->visited_end++) state->visited_by[state->visited_end] = 0;
    *is_new_out = state->visited_by[handle] != state->search;
    state->visited_by[handle] = state->search;
    return HD_OK;
}

static hd_status add_met(co_op *op, met_events *met, uint32_t index, uint32_t handle, uint32_t parent, uint32_t edge) {
    HD_TRY(CO_GROW(op->run->arena, met->handles, met->capacity, index));
    HD_TRY(CO_GROW(op->run->arena, met->parents, met->parent_capacity, index));
    HD_TRY(CO_GROW(op->run->arena, met->edges, met->edge_capacity, index));
    met->handles[index] = handle;
    met->parents[index] = parent;
    met->edges[index] = edge;
    return HD_OK;
}

/* <0: the first weight is the larger one, or the only one known; 0: they tell nothing. */
static int compare_weights(double a, double b) {
    if (isnan(a) || isnan(b)) return (int)isnan(a) - (int)isnan(b);
    return a > b ? -1 : a < b;
}

static bool has_id(const co_op *op, uint32_t event) {
    return co_nodes_event(&op->run->nodes, event)->known & HD_FACET_ID;
}

/* Event `at` of the level being filled was met again, from `parent` along `edge`: which of the two is the last step? */
static void prefer_parent(co_op *op, walk_state *state, uint32_t at, uint32_t parent, uint32_t edge) {
    met_events *met = &state->met;
    const double *weight = state->neighbours->weight;
    int order = weight != NULL ? compare_weights(weight[edge], weight[met->edges[at]]) : 0;
    if (order == 0 && has_id(op, parent) && has_id(op, met->parents[at]))
        order = co_nodes_compare(&op->run->nodes, HD_LABEL_EVENT, parent, met->parents[at]);
    else if (order == 0) /* an id could not be had, which is in the truncations; the first one met stays */
        op->run->notable.is_walk_cut = true;
    if (order >= 0) return;
    met->parents[at] = parent;
    met->edges[at] = edge;
}

static bool is_wanted(const walk_state *state, uint32_t edge) {
    return state->neighbours->sort != CO_EDGES_SHARES || co_adjacency_is_heavy(state->neighbours, edge, state->min_weight);
}

/* Enters what lies one step beyond event `from` into the level that begins at `first` and ends at *end. */
static hd_status meet_neighbours(co_op *op, walk_state *state, uint32_t from, uint32_t first, uint32_t *end) {
    const co_adjacency *neighbours = state->neighbours;
    for (uint32_t k = neighbours->first[from]; k < neighbours->first[from] + neighbours->count[from]; k++) {
        bool is_new;
        uint32_t to = neighbours->to[k];
        if (!is_wanted(state, k)) continue;
        HD_TRY(mark_visited(op, state, to, &is_new));
        if (is_new) {
            state->met_at[to] = *end;
            HD_TRY(add_met(op, &state->met, (*end)++, to, from, k));
        } else if (state->met_at[to] >= first && state->is_last_step_shown) {
            prefer_parent(op, state, state->met_at[to], from, k);
        }
    }
    state->edges_walked += neighbours->count[from];
    return HD_OK;
}

/* Fills level `level` of the search from its neighbours as far as known; *is_cut_out: some of the level before have cut neighbours, or
 * time was over before all of them were looked at. */
static hd_status fill_level(co_op *op, walk_state *state, uint32_t level, bool *is_cut_out) {
    met_events *met = &state->met;
    uint32_t first = met->level_first[level], end = first;
    *is_cut_out = false;
    for (uint32_t i = met->level_first[level - 1]; i < first; i++) {
        if (state->edges_walked >= CHECK_EDGES && !state->is_over) {
            state->edges_walked = 0;
            HD_TRY(co_run_check(op->run, op->step, "expand", &state->is_over));
        }
        uint8_t state_of = co_adjacency_state(state->neighbours, met->handles[i]);
        if (state_of != CO_NODE_WHOLE || state->is_over) *is_cut_out = true;
        if (state->is_over) break;
        if (state_of != CO_NODE_UNKNOWN) HD_TRY(meet_neighbours(op, state, met->handles[i], first, &end));
    }
    met->level_first[level + 1] = end;
    return HD_OK;
}

static hd_status add_ends(walk_state *state, uint32_t start, uint32_t level) {
    co_adjacency *ends = state->expand.edges;
    const met_events *met = &state->met;
    for (uint32_t i = met->level_first[level]; i < met->level_first[level + 1]; i++) {
        HD_TRY(CO_GROW(ends->arena, ends->records, ends->record_capacity, ends->edge_count));
        ends->records[ends->edge_count] = co_walk_record(level, met->edges[i]);
        HD_TRY(co_adjacency_add(ends, start, met->handles[i], 0));
    }
    return HD_OK;
}

/* Searches from one start and enters its ends. Runs when the neighbours of all levels are fetched. */
static hd_status search_from(co_op *op, walk_state *state, uint32_t start) {
    met_events *met = &state->met;
    bool is_new, is_walk_cut = false, is_range_unsure = false;
    state->search++;
    HD_TRY(mark_visited(op, state, start, &is_new));
    state->met_at[start] = 0;
    HD_TRY(add_met(op, met, 0, start, start, 0));
    met->level_first[0] = 0;
    met->level_first[1] = 1;
    for (uint32_t level = 1; level <= state->hops_max; level++) {
        bool is_cut;
        HD_TRY(fill_level(op, state, level, &is_cut));
        is_walk_cut |= is_cut;
        if (is_cut && level < state->hops_min) is_range_unsure = true;
    }
    if (is_walk_cut) op->run->notable.is_walk_cut = true;
    HD_TRY(co_adjacency_begin(state->expand.edges, start, is_walk_cut ? CO_NODE_CUT : CO_NODE_WHOLE));
    for (uint32_t level = state->hops_min; level <= state->hops_max && !is_range_unsure; level++)
        HD_TRY(add_ends(state, start, level));
    return HD_OK;
}

static hd_status prepare_ends(co_op *op, uint32_t start) {
    walk_state *state = op->state;
    co_adjacency *ends = state->expand.edges;
    if (co_adjacency_state(ends, start) != CO_NODE_UNKNOWN) return HD_OK;
    if (ends->edge_count >= ENDS_KEPT) co_adjacency_clear(ends);
    return search_from(op, state, start);
}

/* Fetches the neighbours of `level` (distinct nodes) and gives the distinct nodes one step on that no level had. Where last steps may be
 * told apart by id, these are fetched too. */
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
    if (state->is_last_step_shown && state->hops_max > 1) HD_TRY(co_run_fetch_events(run, op->step, *level, *count, HD_FACET_ID));
    uint32_t *further = NULL, capacity = 0, further_count = 0;
    for (uint32_t i = 0; i < *count; i++) {
        uint32_t from = (*level)[i];
        for (uint32_t k = neighbours->first[from]; k < neighbours->first[from] + neighbours->count[from]; k++) {
            bool is_new;
            if (!is_wanted(state, k)) continue;
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

static hd_status fetch_levels(co_op *op, const uint32_t *frontier, uint32_t count) {
    walk_state *state = op->state;
    uint32_t *level, level_count = count;
    HD_ALLOC(level, op->run->arena, count);
    memcpy(level, frontier, count * sizeof(*level));
    state->search++;
    for (uint32_t i = 0; i < count; i++) {
        bool is_new;
        HD_TRY(mark_visited(op, state, frontier[i], &is_new));
    }
    for (uint32_t hop = 1; hop <= state->hops_max && level_count > 0; hop++) HD_TRY(fetch_level(op, state, &level, &level_count));
    return HD_OK;
}

static hd_status open_walk(co_op *op) {
    walk_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    op->state = state;
    const co_rel *rel = &op->run->query->rels[op->step->rel];
    state->hops_min = rel->hops_min;
    state->hops_max = rel->hops_max;
    state->min_weight = op->run->resolved->rels[op->step->rel].min_w;
    state->is_last_step_shown = op->run->query->vars[rel->var].name.data != NULL;
    state->expand.fetch = fetch_levels;
    state->expand.prepare = prepare_ends;
    HD_CHECK(state->hops_max <= CO_HOPS_MAX && state->hops_min >= 1);
    HD_TRY(co_adjacency_of_step(op->run, op->step, &state->neighbours));
    HD_TRY(co_adjacency_new(op->run, CO_EDGES_WALK, &state->expand.edges));
    HD_TRY(co_expand_open(op, &state->expand));
    op->run->rel_edges[op->step->rel] = state->neighbours; /* where the records of the rows point to */
    return HD_OK;
}

const co_op_table co_op_next_walk_table = {open_walk, co_expand_next, NULL};
const co_op_table co_op_shares_walk_table = {open_walk, co_expand_next, NULL};
