/* The edges of SHARES: found by shards, who know which events have which entities; weighed here, where the event counts of all partitions
 * meet. Only adjacency.c calls this. */
#ifndef CO_RUN_SHARES_H
#define CO_RUN_SHARES_H

#include "coordinator/run/adjacency.h"

/* See co_adjacency_fetch; `wanted` holds claimed nodes. */
HD_MUST_USE hd_status co_shares_fetch(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, co_fetched *wanted);
/* See co_adjacency_take. */
HD_MUST_USE hd_status co_shares_take(co_run *run, co_adjacency *edges, co_fetched *got);

#endif
