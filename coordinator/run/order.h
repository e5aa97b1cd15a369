/* The total order of rows (language.md section 6). */
#ifndef CO_RUN_ORDER_H
#define CO_RUN_ORDER_H

#include "coordinator/run/run.h"

/* The start's order, then the ids of all nodes in order of appearance, then kinds, as far as the first `var_end` variables decide it
 * (plan.h, order_end); with all of them 0 only for the same row. */
int co_order_compare_rows(co_run *run, const uint32_t *a, const uint32_t *b, uint32_t var_end);
/* By the ORDER BY keys (order_count values each), then as above. */
int co_order_compare(co_run *run, const hd_value *a_keys, const uint32_t *a, const hd_value *b_keys, const uint32_t *b,
                     uint32_t var_end);

#endif
