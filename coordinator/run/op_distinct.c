/* DISTINCT: rows that would come back the same are one, and stand where the first of them stands. Takes all its input before it gives a
 * row, since a later row may stand earlier. */
#include "coordinator/run/groups.h"
#include "coordinator/run/op.h"

typedef struct distinct_state {
    co_cursor cursor;
    co_groups groups;
    hd_value *values; /* of the current row */
    bool is_taken;
    uint32_t emitted;
} distinct_state;

static hd_status open_distinct(co_op *op) {
    distinct_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    HD_ALLOC(state->values, op->run->arena, op->run->query->item_count);
    co_groups_init(&state->groups, op->run, op->run->query->item_count, op->step->order_end);
    op->state = state;
    return HD_OK;
}

static hd_status take_row(co_op *op, distinct_state *state, const uint32_t *row) {
    co_run *run = op->run;
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    for (uint32_t i = 0; i < run->query->item_count; i++)
        HD_TRY(co_run_eval(run, row, run->query->items[i].expr, &state->values[i]));
    uint32_t group;
    bool is_new;
    HD_TRY(co_groups_put(&state->groups, state->values, row, co_run_rows_max(run), &group, &is_new));
    hd_arena_rollback(run->scratch, mark);
    if (group == CO_CELL_NONE) return co_run_cut(run, op->step, "rows", HD_CAP_ROWS, (uint64_t)state->groups.count + 1);
    return HD_OK;
}

static hd_status next_distinct(co_op *op) {
    distinct_state *state = op->state;
    while (!state->is_taken) {
        const uint32_t *row;
        HD_TRY(co_op_pull(op, &state->cursor, &row));
        state->is_taken = row == NULL;
        if (row != NULL) HD_TRY(take_row(op, state, row));
    }
    hd_budget_peak(op->run->budget, HD_CAP_ROWS, state->groups.count);
    uint32_t batch_max = co_run_batch_max(op->run), *added;
    for (; state->emitted < state->groups.count && op->out.count < batch_max; state->emitted++)
        HD_TRY(co_rows_append(&op->out, co_rows_get(&state->groups.rows, state->emitted), &added));
    op->is_end = state->emitted == state->groups.count;
    return HD_OK;
}

const co_op_table co_op_distinct_table = {open_distinct, next_distinct, NULL};
