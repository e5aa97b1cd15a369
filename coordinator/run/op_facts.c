/* FACTS: properties of one variable's nodes that what follows looks at. A row whose event could not be looked up is left out (the cut says
 * so); of an entity or tag, figures that could not be had stay null. */
#include "coordinator/run/op.h"

static hd_status open_facts(co_op *op) {
    (void)op;
    return HD_OK;
}

static hd_status next_facts(co_op *op) {
    co_run *run = op->run;
    hd_label label = run->query->vars[op->step->to].label;
    HD_TRY(co_op_next(op->input));
    op->is_end = op->input->is_end;
    const co_rows *rows = &op->input->out;
    if (rows->count == 0) return HD_OK;
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    uint32_t *handles, *added;
    HD_ALLOC(handles, run->scratch, rows->count);
    for (uint32_t i = 0; i < rows->count; i++) handles[i] = co_rows_get(rows, i)[op->step->to];
    if (label == HD_LABEL_EVENT)
        HD_TRY(co_run_fetch_events(run, op->step, handles, rows->count, op->step->facets));
    else
        HD_TRY(co_run_fetch_names(run, op->step, label, handles, rows->count, op->step->facets));
    for (uint32_t i = 0; i < rows->count; i++) {
        if (label == HD_LABEL_EVENT && (op->step->facets & ~co_nodes_event(&run->nodes, handles[i])->known)) continue;
        HD_TRY(co_rows_append(&op->out, co_rows_get(rows, i), &added));
    }
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}

const co_op_table co_op_facts_table = {open_facts, next_facts, NULL};
