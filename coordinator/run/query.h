/* The life of one query: read query.c first. */
#ifndef CO_RUN_QUERY_H
#define CO_RUN_QUERY_H

#include "common/budget.h"
#include "coordinator/cluster/topology.h"
#include "coordinator/language/language.h"

typedef struct co_query_input {
    co_topology *topology;
    hd_wire_client *wire; /* this thread's */
    const co_org *org;
    hd_str text;
    co_params params;
    hd_budget budget;                   /* caps as they hold for this call; nothing used */
    bool (*is_client_gone)(void *self); /* asked between and during steps; NULL: never */
    void *self;
} co_query_input;

/* Runs the query and appends the answer object of language.md section 7 to `json_out`: an answer, a rejection or an error, always one
 * whole JSON object. Returns the HTTP status that goes with it (status_http_out), and HD_OK also for a refused query. */
HD_MUST_USE hd_status co_query_run(const co_query_input *input, hd_buf *json_out, int *status_http_out);

#endif
