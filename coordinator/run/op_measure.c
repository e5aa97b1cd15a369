/* MEASURE: the cosine of two bound events, for FAR (a relation that filters: cos < max) or for the cos() of an expression. A row whose
 * cosine could not be measured is left out, as the cut says; a missing vector is an answer (null), and FAR does not pass it. */
#include <math.h>

#include "coordinator/run/cosines.h"
#include "coordinator/run/op.h"

static hd_status open_measure(co_op *op) {
    if (op->step->rel != CO_PLAN_NONE) op->run->notable.is_far_measured = true;
    return HD_OK;
}

/* Enters FAR's cell and says whether the row passes. */
static bool does_pass(const co_op *op, uint32_t *row, uint32_t record) {
    const co_run *run = op->run;
    if (op->step->rel == CO_PLAN_NONE) return true;
    double cosine = run->cosines[record];
    if (isnan(cosine) || !(cosine < run->resolved->rels[op->step->rel].far_max)) return false;
    row[run->query->rels[op->step->rel].var] = record;
    for (uint32_t i = 0; i < op->step->distinct_from_count; i++)
        if (co_run_is_same_relation(run, row, op->step->rel, op->step->distinct_from[i])) return false;
    return true;
}

static hd_status measure_batch(co_op *op, const co_rows *rows) {
    co_run *run = op->run;
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    uint32_t *from, *to;
    HD_ALLOC(from, run->scratch, rows->count);
    HD_ALLOC(to, run->scratch, rows->count);
    for (uint32_t i = 0; i < rows->count; i++) {
        from[i] = co_rows_get(rows, i)[op->step->from];
        to[i] = co_rows_get(rows, i)[op->step->to];
    }
    HD_TRY(co_cosines_measure(run, op->step, from, to, rows->count));
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t record = co_cosines_find(run, from[i], to[i]), *added;
        if (record == HD_MAP_NONE) continue;
        HD_TRY(co_rows_append(&op->out, co_rows_get(rows, i), &added));
        if (!does_pass(op, added, record)) op->out.count--;
    }
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}

static hd_status next_measure(co_op *op) {
    HD_TRY(co_op_next(op->input));
    op->is_end = op->input->is_end;
    if (op->input->out.count == 0) return HD_OK;
    return measure_batch(op, &op->input->out);
}

const co_op_table co_op_measure_table = {open_measure, next_measure, NULL};
