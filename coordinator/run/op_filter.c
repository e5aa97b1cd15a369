/* FILTER: the rows for which all its conditions are true. A condition that needs a value which could not be had is not true. */
#include "coordinator/run/op.h"

static hd_status open_filter(co_op *op) {
    co_cursor *cursor;
    HD_ALLOC(cursor, op->run->arena, 1);
    op->state = cursor;
    return HD_OK;
}

static hd_status does_pass(co_op *op, const uint32_t *row, bool *passes_out) {
    *passes_out = true;
    for (uint32_t i = 0; i < op->step->filter_count && *passes_out; i++)
        HD_TRY(co_run_is_true(op->run, row, op->step->filters[i], passes_out));
    return HD_OK;
}

static hd_status next_filter(co_op *op) {
    uint32_t batch_max = co_run_batch_max(op->run);
    while (op->out.count < batch_max) { /* fills its batch, so that what follows makes no trip for a few rows */
        const uint32_t *row;
        HD_TRY(co_op_pull(op, op->state, &row));
        if (row == NULL) {
            op->is_end = true;
            return HD_OK;
        }
        bool passes;
        uint32_t *added;
        HD_TRY(does_pass(op, row, &passes));
        if (passes) HD_TRY(co_rows_append(&op->out, row, &added));
    }
    return HD_OK;
}

const co_op_table co_op_filter_table = {open_filter, next_filter, NULL};
