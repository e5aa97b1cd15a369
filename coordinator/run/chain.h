/* Where one shard holds the whole org, the steps that ride along with the start are asked for in the same trip: a chain. What comes back fills
 * the adjacencies and cosines that the operators would have asked for, so that these find everything known. The answer does not
 * depend on it: whatever the chain did not do, the operators do. */
#ifndef CO_RUN_CHAIN_H
#define CO_RUN_CHAIN_H

#include "coordinator/run/adjacency.h"

enum { CO_CHAIN_MAX = 2 * CO_RELATIONS_MAX + CO_HOPS_MAX + 1 };

/* One step of a chain behind the start. */
typedef struct co_link {
    const co_plan_step *plan_step;
    co_adjacency *edges; /* what it fills; NULL: cosines of the edges of `from_link` */
    int32_t from_link;   /* whose nodes are its frontier; −1: the start's */
} co_link;

typedef struct co_chain {
    co_link links[CO_CHAIN_MAX];
    uint32_t link_count;
    co_fetched fetched[CO_CHAIN_MAX];
    const uint32_t *rows[CO_CHAIN_MAX]; /* handles of each link's frontier, known or not */
    uint32_t fetched_count;             /* links that were run */
} co_chain;

/* Runs the start's step, with the chain behind it where there can be one. As co_run_ask, of the start. */
HD_MUST_USE hd_status co_chain_ask(co_run *run, const co_plan_step *plan_step, hd_step *start, hd_step_result *result_out,
                                   co_step_outcome *outcome_out, co_chain *chain);
/* Takes what the chain brought; start_handles[i] is the event of row i of the start's result, CO_CELL_NONE where there is none. */
HD_MUST_USE hd_status co_chain_take(co_run *run, co_chain *chain, const uint32_t *start_handles, uint32_t start_count);

#endif
