/* What EXPAND, SHARES, SIMILAR and the walks of variable length have in common: from the rows of a batch to the nodes they stand on,
 * under the frontier cap; then from each row along its node's edges to new rows. */
#ifndef CO_RUN_EXPAND_H
#define CO_RUN_EXPAND_H

#include "coordinator/run/adjacency.h"
#include "coordinator/run/op.h"

typedef struct co_expand {
    co_adjacency *edges;
    /* Makes the edges of these nodes known. They are distinct, and new to this operator. */
    hd_status (*fetch)(co_op *op, const uint32_t *frontier, uint32_t count);
    /* Makes the edges of a row's node known; those of other nodes may go. NULL: they are since they were fetched. */
    hd_status (*prepare)(co_op *op, uint32_t handle);
    /* Does the edge belong to the relation asked for? NULL: all do. */
    bool (*is_wanted)(const co_op *op, uint32_t edge);
    uint8_t *admitted; /* by handle: FRONTIER_* */
    uint32_t admitted_capacity, admitted_end;
    uint64_t frontier_count, frontier_wanted;
    uint32_t row, edge; /* where the input batch was left; edge CO_CELL_NONE: at the row's first */
} co_expand;

HD_MUST_USE hd_status co_expand_open(co_op *op, co_expand *expand);
HD_MUST_USE hd_status co_expand_next(co_op *op);

#endif
