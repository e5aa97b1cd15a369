/* The answer object of language.md section 7, written key by key in the order given there. */
#ifndef CO_RUN_ANSWER_H
#define CO_RUN_ANSWER_H

#include "coordinator/run/run.h"

/* What a run found: `rows` as RETURN gave them. Applies the `bytes` cap. */
HD_MUST_USE hd_status co_answer_write(co_run *run, const co_rows *rows, hd_buf *json_out);
/* EXPLAIN: the plan, and nothing that ran. */
void co_answer_write_plan(const co_run *run, hd_buf *json_out);
void co_answer_write_refusal(const co_refusal *refusal, hd_buf *json_out);
void co_answer_write_error(hd_status status, const hd_error *error, hd_buf *json_out);

#endif
