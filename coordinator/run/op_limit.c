/* LIMIT: the first rows. Not a budget cut: it never makes an answer partial. */
#include "coordinator/run/op.h"

typedef struct limit_state {
    co_cursor cursor;
    uint32_t passed;
} limit_state;

static hd_status open_limit(co_op *op) {
    limit_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    op->state = state;
    if (op->input->table->bound != NULL) op->input->table->bound(op->input, op->run->resolved->limit);
    return HD_OK;
}

static hd_status next_limit(co_op *op) {
    limit_state *state = op->state;
    uint32_t batch_max = co_run_batch_max(op->run), *added;
    while (op->out.count < batch_max) {
        const uint32_t *row;
        HD_TRY(co_op_pull(op, &state->cursor, &row));
        co_run_end_walk(op->run); /* a row that comes through the sort below says that the walk is over */
        if (row != NULL && state->passed == op->run->resolved->limit) {
            op->run->notable.is_limit_cut = true;
            row = NULL;
        }
        if (row == NULL) {
            op->is_end = true;
            return HD_OK;
        }
        HD_TRY(co_rows_append(&op->out, row, &added));
        state->passed++;
    }
    return HD_OK;
}

const co_op_table co_op_limit_table = {open_limit, next_limit, NULL};
