/* SIMILAR: to the k events closest by vector (asked of the shards), then those of them under a least cosine left out. With both ends
 * bound it keeps the rows whose second end is among the closest of the first. */
#include "coordinator/run/expand.h"

typedef struct similar_state {
    co_expand expand; /* first */
    double min_cosine;
} similar_state;

static hd_status fetch_edges(co_op *op, const uint32_t *frontier, uint32_t count) {
    return co_adjacency_fetch(op->run, op->step, ((similar_state *)op->state)->expand.edges, frontier, count);
}

static bool is_close(const co_op *op, uint32_t edge) {
    const similar_state *state = op->state;
    return state->expand.edges->cos[edge] >= state->min_cosine;
}

static hd_status open_similar(co_op *op) {
    similar_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    op->state = state;
    state->min_cosine = op->run->resolved->rels[op->step->rel].similar_min;
    state->expand.fetch = fetch_edges;
    state->expand.is_wanted = state->min_cosine > -1 ? is_close : NULL;
    HD_TRY(co_adjacency_of_step(op->run, op->step, &state->expand.edges));
    return co_expand_open(op, &state->expand);
}

const co_op_table co_op_similar_table = {open_similar, co_expand_next, NULL};
