/* SORT: the rows in order: by ORDER BY and then the total order, or (in front of aggregates that feel it) by the total order alone. Under
 * LIMIT it keeps the best rows only: twice as many as wanted are gathered, then sorted and cut back, and what is no better than the
 * worst one kept is dropped on sight. Rows beyond the `rows` cap are cut, and the report says so. */
#define _GNU_SOURCE /* qsort_r */
#include <stdlib.h>

#include "coordinator/run/op.h"
#include "coordinator/run/order.h"

typedef struct sort_state {
    co_cursor cursor;
    co_rows rows;
    hd_value *keys; /* key_count a row */
    uint32_t key_capacity, key_count;
    uint32_t *order; /* indexes of rows, once sorted */
    uint32_t order_capacity;
    uint32_t keep_max;
    bool has_worst; /* the last of `rows` as cut back is the worst that is kept */
    uint32_t kept;
    bool is_sorted;
    uint32_t emitted;
} sort_state;

typedef struct sort_context {
    co_op *op;
    const sort_state *state;
} sort_context;

static const hd_value *keys_of(const sort_state *state, uint32_t index) {
    return state->keys + (size_t)index * state->key_count;
}

static int compare(const sort_context *context, const hd_value *a_keys, const uint32_t *a, const hd_value *b_keys,
                   const uint32_t *b) {
    if (context->op->step->is_whole_order) return co_order_compare_rows(context->op->run, a, b);
    return co_order_compare(context->op->run, a_keys, a, b_keys, b);
}

static int compare_indexes(const void *left, const void *right, void *opaque) {
    const sort_context *context = opaque;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return compare(context, keys_of(context->state, a), co_rows_get(&context->state->rows, a), keys_of(context->state, b),
                   co_rows_get(&context->state->rows, b));
}

static hd_status sort_rows(co_op *op, sort_state *state) {
    if (state->rows.count == 0) return HD_OK;
    HD_TRY(CO_GROW(op->run->arena, state->order, state->order_capacity, state->rows.count - 1));
    for (uint32_t i = 0; i < state->rows.count; i++) state->order[i] = i;
    sort_context context = {op, state};
    qsort_r(state->order, state->rows.count, sizeof(*state->order), compare_indexes, &context);
    return HD_OK;
}

/* Sorts and keeps the best keep_max, in order. */
static hd_status cut_back(co_op *op, sort_state *state) {
    HD_TRY(sort_rows(op, state));
    hd_arena_mark mark = hd_arena_get_mark(op->run->scratch);
    size_t row_bytes = state->rows.width * sizeof(uint32_t), key_bytes = state->key_count * sizeof(hd_value);
    char *rows, *keys;
    HD_ALLOC(rows, op->run->scratch, state->keep_max * row_bytes);
    HD_ALLOC(keys, op->run->scratch, state->keep_max * key_bytes);
    for (uint32_t i = 0; i < state->keep_max; i++) {
        memcpy(rows + i * row_bytes, co_rows_get(&state->rows, state->order[i]), row_bytes);
        if (key_bytes > 0) memcpy(keys + i * key_bytes, keys_of(state, state->order[i]), key_bytes);
    }
    memcpy(state->rows.cells, rows, state->keep_max * row_bytes);
    if (key_bytes > 0) memcpy(state->keys, keys, state->keep_max * key_bytes);
    state->rows.count = state->kept = state->keep_max;
    state->has_worst = true;
    hd_arena_rollback(op->run->scratch, mark);
    return HD_OK;
}

/* Rows are left behind: by LIMIT, which is no cut, or by the rows cap, which is one. */
static hd_status note_left_behind(co_op *op, const sort_state *state) {
    if (op->step->is_top && state->keep_max == op->rows_max) {
        op->run->notable.is_limit_cut = true;
        return HD_OK;
    }
    return co_run_cut(op->run, op->step, "rows", HD_CAP_ROWS, (uint64_t)state->keep_max + 1);
}

static hd_status add_row(co_op *op, sort_state *state, const uint32_t *row) {
    uint32_t *added, index = state->rows.count;
    if (state->key_count > 0)
        HD_TRY(co_grow(op->run->arena, (void **)&state->keys, &state->key_capacity, index, state->key_count * sizeof(hd_value)));
    hd_arena_mark mark = hd_arena_get_mark(op->run->scratch);
    for (uint32_t i = 0; i < state->key_count; i++)
        HD_TRY(co_run_eval(op->run, row, op->run->query->orders[i].expr, &state->keys[(size_t)index * state->key_count + i]));
    hd_arena_rollback(op->run->scratch, mark);
    if (index >= state->keep_max) HD_TRY(note_left_behind(op, state));
    if (state->has_worst) {
        sort_context context = {op, state};
        const hd_value *keys = state->keys + (size_t)index * state->key_count;
        if (compare(&context, keys, row, keys_of(state, state->kept - 1), co_rows_get(&state->rows, state->kept - 1)) >= 0)
            return HD_OK;
    }
    HD_TRY(co_rows_append(&state->rows, row, &added));
    return state->rows.count >= (uint64_t)state->keep_max * 2 ? cut_back(op, state) : HD_OK;
}

static hd_status take_all(co_op *op, sort_state *state) {
    for (;;) {
        const uint32_t *row;
        HD_TRY(co_op_pull(op, &state->cursor, &row));
        if (row == NULL) break;
        HD_TRY(add_row(op, state, row));
    }
    HD_TRY(sort_rows(op, state));
    state->rows.count = HD_MIN(state->rows.count, state->keep_max);
    state->is_sorted = true;
    hd_budget_peak(op->run->budget, HD_CAP_ROWS, state->rows.count);
    return HD_OK;
}

static hd_status open_sort(co_op *op) {
    sort_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    op->state = state;
    co_rows_init(&state->rows, op->run->arena, op->run->query->var_count + 1);
    state->key_count = op->step->is_whole_order ? 0 : op->run->query->order_count;
    state->keep_max = co_run_rows_max(op->run);
    if (op->step->is_top) state->keep_max = HD_MIN(state->keep_max, op->rows_max);
    return HD_OK;
}

static hd_status next_sort(co_op *op) {
    sort_state *state = op->state;
    if (!state->is_sorted) HD_TRY(take_all(op, state));
    uint32_t batch_max = co_run_batch_max(op->run), *added;
    for (; state->emitted < state->rows.count && op->out.count < batch_max; state->emitted++)
        HD_TRY(co_rows_append(&op->out, co_rows_get(&state->rows, state->order[state->emitted]), &added));
    op->is_end = state->emitted == state->rows.count;
    return HD_OK;
}

static void bound_sort(co_op *op, uint32_t rows_max) {
    op->rows_max = rows_max;
}

const co_op_table co_op_sort_table = {open_sort, next_sort, bound_sort};
