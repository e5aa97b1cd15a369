/* SORT: the rows in order: by ORDER BY and then the total order, or (in front of aggregates that feel it) by the total order alone. Under
 * LIMIT it keeps the best rows only: some more than wanted are gathered, then sorted and cut back, and what is no better than the worst
 * one kept is dropped on sight. Rows beyond the `rows` cap are cut, and the report says so.
 *
 * Ids of events that the walk did not bring are looked up as late as can be: rows are first put in order by what is known (ORDER BY, the
 * start's order, and the variables below ids_end), and only where rows that are alike in that stand within, or across, the best ones,
 * their ids are asked for. A row whose id could not be had then has no place, and is left out, as the cut says. */
#define _GNU_SOURCE /* qsort_r */
#include <stdlib.h>

#include "coordinator/run/op.h"
#include "coordinator/run/order.h"

/* Rows gathered beyond the best before ids are asked for; doubled each time, so that few trips are made for many alike. */
enum { ALIKE_FIRST = 1024, ALIKE_MAX = 16384 };

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
    bool is_lazy;   /* some ids may have to be looked up */
    uint32_t spare; /* is_lazy: how many rows beyond those kept are gathered */
    bool is_sorted;
    uint32_t emitted;
} sort_state;

typedef struct sort_context {
    co_op *op;
    const sort_state *state;
    uint32_t var_end; /* how far the total order is compared */
} sort_context;

static const hd_value *keys_of(const sort_state *state, uint32_t index) {
    return state->keys + (size_t)index * state->key_count;
}

static int compare(const sort_context *context, const hd_value *a_keys, const uint32_t *a, const hd_value *b_keys,
                   const uint32_t *b) {
    if (context->op->step->is_whole_order) return co_order_compare_rows(context->op->run, a, b, context->var_end);
    return co_order_compare(context->op->run, a_keys, a, b_keys, b, context->var_end);
}

static int compare_indexes(const void *left, const void *right, void *opaque) {
    const sort_context *context = opaque;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return compare(context, keys_of(context->state, a), co_rows_get(&context->state->rows, a), keys_of(context->state, b),
                   co_rows_get(&context->state->rows, b));
}

static void sort_places(co_op *op, sort_state *state, uint32_t first, uint32_t end, uint32_t var_end) {
    sort_context context = {op, state, var_end};
    if (end - first > 1) qsort_r(state->order + first, end - first, sizeof(*state->order), compare_indexes, &context);
}

/* Puts all rows in order as far as it is known without looking anything up. */
static hd_status sort_rows(co_op *op, sort_state *state) {
    if (state->rows.count == 0) return HD_OK;
    HD_TRY(CO_GROW(op->run->arena, state->order, state->order_capacity, state->rows.count - 1));
    for (uint32_t i = 0; i < state->rows.count; i++) state->order[i] = i;
    sort_places(op, state, 0, state->rows.count, op->step->ids_end);
    return HD_OK;
}

/* -- ids, late -------------------------------------------------------------------------------------------------------------------- */

/* The end of the rows that are alike with the one at place `first`, as far as is known. */
static uint32_t end_of_alike(co_op *op, const sort_state *state, uint32_t first) {
    sort_context context = {op, state, op->step->ids_end};
    uint32_t end = first + 1;
    while (end < state->rows.count && compare_indexes(&state->order[first], &state->order[end], &context) == 0) end++;
    return end;
}

static bool is_id_lacking(const co_op *op, const uint32_t *row, uint32_t var) {
    const co_query *query = op->run->query;
    if (query->vars[var].is_relation || query->vars[var].label != HD_LABEL_EVENT) return false;
    return !(co_nodes_event(&op->run->nodes, row[var])->known & HD_FACET_ID);
}

/* Adds the events of the rows at places first..end−1 whose ids the order needs and nobody knows. */
static hd_status want_ids(co_op *op, const sort_state *state, uint32_t first, uint32_t end, uint32_t **handles, uint32_t *capacity,
                          uint32_t *count) {
    for (uint32_t i = first; i < end; i++) {
        const uint32_t *row = co_rows_get(&state->rows, state->order[i]);
        for (uint32_t v = HD_MAX(op->step->ids_end, 1u); v < op->step->order_end; v++) {
            if (!is_id_lacking(op, row, v)) continue;
            HD_TRY(CO_GROW(op->run->arena, *handles, *capacity, *count));
            (*handles)[(*count)++] = row[v];
        }
    }
    return HD_OK;
}

/* Puts the rows at places first..end−1, which are alike and whose ids were asked for, in their order; those without a place go to the
 * end. How many have one. */
static uint32_t settle_alike(co_op *op, sort_state *state, uint32_t first, uint32_t end) {
    uint32_t settled = first;
    for (uint32_t i = first; i < end; i++) {
        uint32_t index = state->order[i];
        bool is_lacking = false;
        for (uint32_t v = HD_MAX(op->step->ids_end, 1u); v < op->step->order_end; v++)
            is_lacking = is_lacking || is_id_lacking(op, co_rows_get(&state->rows, index), v);
        if (is_lacking) continue;
        state->order[i] = state->order[settled];
        state->order[settled++] = index;
    }
    sort_places(op, state, first, settled, op->step->order_end);
    return settled - first;
}

/* Of the rows in order the first keep_max, and those that are alike with the last of them as long as they are not too many; then ids tell.
 * *count_out: how many places of `order` are kept. */
static hd_status choose_lazily(co_op *op, sort_state *state, uint32_t *count_out) {
    uint32_t first = 0, end = 0;
    while (end < state->keep_max) {
        first = end;
        end = end_of_alike(op, state, first);
    }
    *count_out = end;
    if (end - state->keep_max < state->spare / 2) return HD_OK;
    uint32_t *handles = NULL, capacity = 0, count = 0;
    HD_TRY(want_ids(op, state, first, end, &handles, &capacity, &count));
    HD_TRY(co_run_fetch_ids(op->run, op->step, handles, count));
    *count_out = HD_MIN(first + settle_alike(op, state, first, end), state->keep_max);
    state->spare = HD_MIN(state->spare * 2, (uint32_t)ALIKE_MAX);
    return HD_OK;
}

/* Tells apart all rows among the best that are alike, asking once for all their ids; what stands behind the best goes. */
static hd_status settle_all(co_op *op, sort_state *state) {
    uint32_t *handles = NULL, capacity = 0, count = 0, kept = 0;
    for (uint32_t first = 0, end; first < HD_MIN(state->rows.count, state->keep_max); first = end) {
        end = end_of_alike(op, state, first);
        if (end - first > 1) HD_TRY(want_ids(op, state, first, end, &handles, &capacity, &count));
    }
    if (count > 0) HD_TRY(co_run_fetch_ids(op->run, op->step, handles, count));
    for (uint32_t first = 0, end; first < state->rows.count && kept < state->keep_max; first = end) {
        end = end_of_alike(op, state, first);
        uint32_t settled = end - first > 1 ? settle_alike(op, state, first, end) : 1;
        memmove(state->order + kept, state->order + first, settled * sizeof(*state->order));
        kept += settled;
    }
    state->rows.count = kept;
    return HD_OK;
}

/* -- gathering ---------------------------------------------------------------------------------------------------------------------- */

/* Sorts and keeps the best keep_max, in order; of a lazy sort also what may yet turn out to be among them. */
static hd_status cut_back(co_op *op, sort_state *state) {
    uint32_t keep = state->keep_max;
    HD_TRY(sort_rows(op, state));
    if (state->is_lazy) HD_TRY(choose_lazily(op, state, &keep));
    hd_arena_mark mark = hd_arena_get_mark(op->run->scratch);
    size_t row_bytes = state->rows.width * sizeof(uint32_t), key_bytes = state->key_count * sizeof(hd_value);
    char *rows, *keys;
    HD_ALLOC(rows, op->run->scratch, keep * row_bytes);
    HD_ALLOC(keys, op->run->scratch, keep * key_bytes);
    for (uint32_t i = 0; i < keep; i++) {
        memcpy(rows + i * row_bytes, co_rows_get(&state->rows, state->order[i]), row_bytes);
        if (key_bytes > 0) memcpy(keys + i * key_bytes, keys_of(state, state->order[i]), key_bytes);
    }
    memcpy(state->rows.cells, rows, keep * row_bytes);
    if (key_bytes > 0) memcpy(state->keys, keys, keep * key_bytes);
    state->rows.count = state->kept = keep;
    state->has_worst = keep >= state->keep_max;
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
        sort_context context = {op, state, op->step->ids_end};
        const hd_value *keys = state->keys + (size_t)index * state->key_count;
        int order = compare(&context, keys, row, keys_of(state, state->kept - 1), co_rows_get(&state->rows, state->kept - 1));
        if (state->is_lazy ? order > 0 : order >= 0) return HD_OK;
    }
    HD_TRY(co_rows_append(&state->rows, row, &added));
    uint64_t room = state->is_lazy ? (uint64_t)state->kept + HD_MAX(state->spare, state->keep_max) : state->keep_max;
    return state->rows.count >= state->keep_max + room ? cut_back(op, state) : HD_OK;
}

static hd_status take_all(co_op *op, sort_state *state) {
    for (;;) {
        const uint32_t *row;
        HD_TRY(co_op_pull(op, &state->cursor, &row));
        if (row == NULL) break;
        HD_TRY(add_row(op, state, row));
    }
    HD_TRY(sort_rows(op, state));
    if (state->is_lazy) HD_TRY(settle_all(op, state));
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
    state->is_lazy = op->step->ids_end < op->step->order_end;
    state->spare = ALIKE_FIRST;
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
