/* Rows grouped by values: what DISTINCT keeps and AGGREGATE adds up over. A group stands where the first of its rows in the total order
 * stands, and shows that row's values. */
#ifndef CO_RUN_GROUPS_H
#define CO_RUN_GROUPS_H

#include "coordinator/run/run.h"

typedef struct co_groups {
    co_run *run;
    uint32_t key_count;
    uint32_t order_end;    /* groups are told apart by the variables below it (plan.h) */
    hd_map64 head_of_hash; /* hash → first group; groups of one hash are chained */
    uint64_t *hashes;
    uint32_t *chain;
    hd_value *keys; /* key_count each, copied */
    uint32_t hash_capacity, chain_capacity, key_capacity, count;
    co_rows rows; /* by group: its first row so far */
} co_groups;

void co_groups_init(co_groups *groups, co_run *run, uint32_t key_count, uint32_t order_end);
/* The group of `keys`, made when there is none and count < groups_max; *group_out is CO_CELL_NONE when it may not be made. `row` takes
 * the place of the group's row when it comes before it; NULL where rows do not matter. */
HD_MUST_USE hd_status co_groups_put(co_groups *groups, const hd_value *keys, const uint32_t *row, uint32_t groups_max,
                                    uint32_t *group_out, bool *is_new_out);
/* `row` belongs to that group: it takes the place of the group's row when it comes before it. */
void co_groups_offer(co_groups *groups, uint32_t group, const uint32_t *row);

#endif
