/* Operators: each plan step has one, and pulls rows from the one before it. The wrapper here opens on first use, measures, counts rows
 * and asks whether the caller is still there; operators never repeat that. Everything lives in the query's arena, so there is nothing to
 * close. */
#ifndef CO_RUN_OP_H
#define CO_RUN_OP_H

#include "coordinator/run/run.h"

typedef struct co_op co_op;

typedef struct co_op_table {
    /* Builds the state. Once, before the first next. */
    hd_status (*open)(co_op *op);
    /* Appends to op->out (empty on entry), at most co_run_batch_max rows; sets op->is_end when nothing is left. A batch that is not
     * full, or even empty, ends nothing. */
    hd_status (*next)(co_op *op);
    /* No more than `rows_max` rows will be asked for (rows in order: the first ones). NULL where that says nothing. */
    void (*bound)(co_op *op, uint32_t rows_max);
} co_op_table;

struct co_op {
    const co_op_table *table;
    const co_plan_step *step;
    co_run *run;
    co_op *input; /* NULL for START */
    void *state;
    co_rows out;
    uint32_t rows_max; /* as bound() said; UINT32_MAX where it did not */
    bool is_open, is_end;
};

#define OP(name, text) extern const co_op_table co_op_##text##_table;
#include "coordinator/plan/ops.def"

/* One operator per plan step; *last_out is the one to pull from. */
HD_MUST_USE hd_status co_op_build(co_run *run, co_op **last_out);
/* The next batch in op->out. Its rows are lent until the next call. */
HD_MUST_USE hd_status co_op_next(co_op *op);

/* The input's rows one by one, across batches: *row_out is NULL at the end. Lent until the next call. */
typedef struct co_cursor {
    uint32_t next;
} co_cursor;
HD_MUST_USE hd_status co_op_pull(co_op *op, co_cursor *cursor, const uint32_t **row_out);

#endif
