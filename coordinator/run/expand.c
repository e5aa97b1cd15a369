/* See expand.h. op->state of an operator that uses this begins with its co_expand. */
#include "coordinator/run/expand.h"

enum { FRONTIER_NEW, FRONTIER_ADMITTED, FRONTIER_REFUSED };
enum { CHECK_ROWS = 4096 };

hd_status co_expand_open(co_op *op, co_expand *expand) {
    expand->row = 0;
    expand->edge = CO_CELL_NONE;
    op->run->rel_edges[op->step->rel] = expand->edges;
    return HD_OK;
}

/* The batch's distinct nodes that are new, in the order of its rows, as many as the frontier cap lets in. */
static hd_status admit_frontier(co_op *op, co_expand *expand) {
    co_run *run = op->run;
    const co_rows *rows = &op->input->out;
    uint32_t *frontier, count = 0;
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    HD_ALLOC(frontier, run->scratch, rows->count);
    uint64_t cap = run->budget->caps[HD_CAP_FRONTIER];
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t handle = co_rows_get(rows, i)[op->step->from];
        HD_TRY(CO_GROW(run->arena, expand->admitted, expand->admitted_capacity, handle));
        for (; expand->admitted_end <= handle; expand->admitted_end++) expand->admitted[expand->admitted_end] = FRONTIER_NEW;
        if (expand->admitted[handle] != FRONTIER_NEW) continue;
        expand->frontier_wanted++;
        if (expand->frontier_count < cap) {
            expand->frontier_count++;
            expand->admitted[handle] = FRONTIER_ADMITTED;
            frontier[count++] = handle;
        } else {
            expand->admitted[handle] = FRONTIER_REFUSED;
            HD_TRY(co_run_cut(run, op->step, "expand", HD_CAP_FRONTIER, expand->frontier_wanted));
        }
    }
    hd_budget_peak(run->budget, HD_CAP_FRONTIER, expand->frontier_count);
    if (count > 0) HD_TRY(expand->fetch(op, frontier, count));
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}

static bool is_distinct(const co_op *op, const uint32_t *row) {
    for (uint32_t i = 0; i < op->step->distinct_from_count; i++)
        if (co_run_is_same_relation(op->run, row, op->step->rel, op->step->distinct_from[i])) return false;
    return true;
}

/* Adds the row that goes on over `edge`, where it may. */
static hd_status add_row(co_op *op, const co_expand *expand, const uint32_t *row, uint32_t edge) {
    uint32_t *added;
    if (expand->is_wanted != NULL && !expand->is_wanted(op, edge)) return HD_OK;
    HD_TRY(co_rows_append(&op->out, row, &added));
    added[op->step->to] = expand->edges->to[edge];
    added[op->run->query->rels[op->step->rel].var] = expand->edges->records != NULL ? expand->edges->records[edge] : edge;
    if (!is_distinct(op, added)) op->out.count--;
    return HD_OK;
}

/* Goes on over the edges of one row until they end or the batch is full; is it done? */
static hd_status expand_row(co_op *op, co_expand *expand, const uint32_t *row, uint32_t batch_max, bool *is_done_out) {
    co_adjacency *edges = expand->edges;
    uint32_t handle = row[op->step->from];
    *is_done_out = true;
    if (expand->admitted[handle] != FRONTIER_ADMITTED) return HD_OK;
    if (expand->edge == CO_CELL_NONE && expand->prepare != NULL) HD_TRY(expand->prepare(op, handle));
    uint32_t first = edges->first[handle], end = first + edges->count[handle];
    uint32_t at = expand->edge == CO_CELL_NONE ? first : expand->edge;
    if (op->step->is_filter) HD_TRY(co_adjacency_find(edges, handle, row[op->step->to], at, &at));
    while (at < end) {
        if (op->out.count == batch_max) {
            expand->edge = at;
            *is_done_out = false;
            return HD_OK;
        }
        HD_TRY(add_row(op, expand, row, at));
        at++;
        if (op->step->is_filter) HD_TRY(co_adjacency_find(edges, handle, row[op->step->to], at, &at));
    }
    return HD_OK;
}

/* Is there a row to go on with? Pulls the next batch where the last one is used up. */
static hd_status find_row(co_op *op, co_expand *expand, bool *has_row_out) {
    co_op *input = op->input;
    while (!input->is_open || expand->row == input->out.count) {
        if (input->is_open && input->is_end) {
            *has_row_out = false;
            return HD_OK;
        }
        HD_TRY(co_op_next(input));
        expand->row = 0;
        expand->edge = CO_CELL_NONE;
        HD_TRY(admit_frontier(op, expand));
    }
    *has_row_out = true;
    return HD_OK;
}

hd_status co_expand_next(co_op *op) {
    co_expand *expand = op->state;
    uint32_t batch_max = co_run_batch_max(op->run);
    for (uint32_t rows = 0;; rows++) {
        bool is_done, has_row, is_over = false;
        HD_TRY(find_row(op, expand, &has_row));
        if (has_row && rows % CHECK_ROWS == 0) HD_TRY(co_run_check(op->run, op->step, "expand", &is_over));
        if (!has_row || is_over) {
            op->is_end = true;
            return HD_OK;
        }
        HD_TRY(expand_row(op, expand, co_rows_get(&op->input->out, expand->row), batch_max, &is_done));
        if (!is_done) return HD_OK;
        expand->row++;
        expand->edge = CO_CELL_NONE;
    }
}
