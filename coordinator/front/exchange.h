/* One HTTP request and its answer, without anything of the HTTP library: what http.c fills in, routes and handlers work on, and http.c
 * sends. */
#ifndef CO_FRONT_EXCHANGE_H
#define CO_FRONT_EXCHANGE_H

#include "common/buf.h"
#include "coordinator/front/admission.h"
#include "coordinator/tools/tool.h"

enum { CO_BODY_MAX = 16 << 20, CO_ROUTE_WORDS_MAX = 2 };

typedef struct co_route co_route;
typedef struct co_admin co_admin;

/* What handlers may use of the process. `wire` and `arena` are the worker's; NULL in handlers that run at once (co_route.is_inline). */
typedef struct co_front {
    const co_services *services;
    co_admin *admin;
    hd_wire_client *wire;
    hd_arena *arena; /* reset after the exchange */
    bool is_draining;
} co_front;

typedef struct co_exchange {
    co_job job; /* first: a job leads back to its exchange */
    const co_route *route;
    hd_str words[CO_ROUTE_WORDS_MAX]; /* what stands for the {…} of the route's path; borrowed from `path` */
    char *path;                       /* owned */
    hd_buf body;
    co_principal principal;
    const co_org *org; /* held; the principal's; NULL for the cluster's administrator */
    bool (*is_client_gone)(void *self);
    void *self;

    int status;      /* of the answer */
    bool is_passing; /* the same call may go well in a moment: Retry-After goes with the answer */
    hd_buf answer;
    const char *content_type;
    const char *allow; /* of a 405: the methods that there are */
} co_exchange;

/* The answer is this failure, in the form of tools.md. `fault` may be NULL. */
void co_exchange_fail(co_exchange *exchange, hd_status status, const co_fault *fault);
/* The same from a text. */
void co_exchange_fail_text(co_exchange *exchange, hd_status status, const char *format, ...) HD_PRINTF(3, 4);
/* The body as a JSON object; an empty body is {}. HD_ARGUMENT with the place where it stops being JSON. Owned by the caller. */
HD_MUST_USE hd_status co_exchange_parse_body(const co_exchange *exchange, json_t **object_out, hd_error *error);

#endif
