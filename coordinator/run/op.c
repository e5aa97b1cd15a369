/* See op.h. */
#include "coordinator/run/op.h"

#include "common/clock.h"

static const co_op_table *const tables[] = {
#define OP(name, text) &co_op_##text##_table,
#include "coordinator/plan/ops.def"
};

hd_status co_op_build(co_run *run, co_op **last_out) {
    co_op *ops;
    HD_ALLOC(ops, run->arena, run->plan->step_count);
    for (uint32_t i = 0; i < run->plan->step_count; i++) {
        ops[i] = (co_op){.table = tables[run->plan->steps[i].op],
                         .step = &run->plan->steps[i],
                         .run = run,
                         .input = i > 0 ? &ops[i - 1] : NULL,
                         .rows_max = UINT32_MAX};
        co_rows_init(&ops[i].out, run->arena, run->query->var_count + 1);
    }
    *last_out = &ops[run->plan->step_count - 1];
    return HD_OK;
}

/* `us` of an operator holds what its inputs took, until the answer subtracts it (answer.c). */
hd_status co_op_next(co_op *op) {
    uint64_t began_us = hd_clock_monotonic_us();
    co_rows_clear(&op->out);
    if (!op->is_open) {
        op->is_open = true;
        HD_TRY(op->table->open(op));
    }
    if (!op->is_end) HD_TRY(op->table->next(op));
    co_profile *profile = &op->run->profiles[op->step->number - 1];
    profile->us += hd_clock_monotonic_us() - began_us;
    profile->rows_out += op->out.count;
    if (op->step->number < op->run->plan->step_count) profile[1].rows_in += op->out.count;
    hd_budget_peak(op->run->budget, HD_CAP_ROWS, op->out.count);
    return HD_OK;
}

hd_status co_op_pull(co_op *op, co_cursor *cursor, const uint32_t **row_out) {
    co_op *input = op->input;
    while (!input->is_open || cursor->next == input->out.count) {
        if (input->is_open && input->is_end) {
            *row_out = NULL;
            return HD_OK;
        }
        HD_TRY(co_op_next(input));
        cursor->next = 0;
    }
    *row_out = co_rows_get(&input->out, cursor->next++);
    return HD_OK;
}
