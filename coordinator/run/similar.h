/* Edges of SIMILAR: every event to the k events closest to it, closest first, with their cosines. */
#ifndef CO_RUN_SIMILAR_H
#define CO_RUN_SIMILAR_H

#include "coordinator/run/adjacency.h"

/* As one trip of co_adjacency_fetch. */
HD_MUST_USE hd_status co_similar_fetch(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, co_fetched *wanted);
/* Enters what a SIMILAR step gave. */
HD_MUST_USE hd_status co_similar_take(co_run *run, co_adjacency *edges, co_fetched *fetched);

#endif
