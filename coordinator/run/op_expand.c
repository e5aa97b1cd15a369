/* EXPAND: one hop along PARTICIPATED_IN, MEMBER_OF, NEXT or CONNECTED. With both ends bound it keeps the rows whose ends are joined, and
 * of CONNECTED those with enough common events: a count that is only known to be at least so much may be enough. */
#include "coordinator/run/expand.h"

static hd_status fetch_edges(co_op *op, const uint32_t *frontier, uint32_t count) {
    return co_adjacency_fetch(op->run, op->step, ((co_expand *)op->state)->edges, frontier, count);
}

static bool is_often(const co_op *op, uint32_t edge) {
    const co_expand *expand = op->state;
    return (expand->edges->counts[edge] & ~CO_COUNT_LEAST) >= op->run->resolved->rels[op->step->rel].min;
}

static hd_status open_expand(co_op *op) {
    co_expand *expand;
    HD_ALLOC(expand, op->run->arena, 1);
    op->state = expand;
    expand->fetch = fetch_edges;
    if (op->run->query->rels[op->step->rel].relation == HD_REL_CONNECTED) expand->is_wanted = is_often;
    HD_TRY(co_adjacency_of_step(op->run, op->step, &expand->edges));
    return co_expand_open(op, expand);
}

const co_op_table co_op_expand_table = {open_expand, co_expand_next, NULL};
