/* SHARES: to the events that have entities in common, under a least count (asked of the shards) and a least weight (known here, once every
 * partition has told its share of each entity's event_count). A weight that is not known passes only where none is asked. */
#include "coordinator/run/expand.h"

typedef struct shares_state {
    co_expand expand; /* first */
    double min_weight;
} shares_state;

static hd_status fetch_edges(co_op *op, const uint32_t *frontier, uint32_t count) {
    return co_adjacency_fetch(op->run, op->step, ((shares_state *)op->state)->expand.edges, frontier, count);
}

static bool is_heavy(const co_op *op, uint32_t edge) {
    const shares_state *state = op->state;
    return co_adjacency_is_heavy(state->expand.edges, edge, state->min_weight);
}

static hd_status open_shares(co_op *op) {
    shares_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    op->state = state;
    const co_resolved_rel *wanted = &op->run->resolved->rels[op->step->rel];
    state->min_weight = wanted->min_w;
    state->expand.fetch = fetch_edges;
    state->expand.is_wanted = wanted->min_w > 0 ? is_heavy : NULL;
    HD_TRY(co_adjacency_of_step(op->run, op->step, &state->expand.edges));
    return co_expand_open(op, &state->expand);
}

const co_op_table co_op_shares_table = {open_shares, co_expand_next, NULL};
