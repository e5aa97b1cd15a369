/* EXPAND: one hop along PARTICIPATED_IN, MEMBER_OF or NEXT. With both ends bound it keeps the rows whose ends are joined. */
#include "coordinator/run/expand.h"

static hd_status fetch_edges(co_op *op, const uint32_t *frontier, uint32_t count) {
    return co_adjacency_fetch(op->run, op->step, ((co_expand *)op->state)->edges, frontier, count);
}

static hd_status open_expand(co_op *op) {
    co_expand *expand;
    HD_ALLOC(expand, op->run->arena, 1);
    op->state = expand;
    expand->fetch = fetch_edges;
    HD_TRY(co_adjacency_of_step(op->run, op->step, &expand->edges));
    return co_expand_open(op, expand);
}

const co_op_table co_op_expand_table = {open_expand, co_expand_next, NULL};
