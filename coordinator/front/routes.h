/* Which paths there are, which methods they take, who may call them, and what answers. */
#ifndef CO_FRONT_ROUTES_H
#define CO_FRONT_ROUTES_H

#include "coordinator/front/exchange.h"

typedef enum co_access { CO_ACCESS_ALL, CO_ACCESS_ANY_KEY, CO_ACCESS_ORG_KEY, CO_ACCESS_ADMIN } co_access;

struct co_route {
    const char *method;
    const char *path; /* "{}" stands for one word: no slash, not empty */
    co_access access;
    bool is_inline; /* quick, waits for nothing: answered in the thread that read the request */
    void (*handle)(co_exchange *exchange, co_front *front);
};

/* Once, before the first request. */
void co_routes_register_metrics(void);

/* The route of a request, its words filled in. HD_NOT_FOUND: no such path. HD_ARGUMENT: not this method (exchange->allow lists those
 * that there are). */
HD_MUST_USE hd_status co_routes_find(co_exchange *exchange, const char *method);
/* May the exchange's principal use its route? HD_FORBIDDEN with the reason. */
HD_MUST_USE hd_status co_routes_check_access(const co_exchange *exchange, hd_error *error);

/* admin.c's. */
void co_admin_create_org(co_exchange *exchange, co_front *front);
void co_admin_list_orgs(co_exchange *exchange, co_front *front);
void co_admin_show_org(co_exchange *exchange, co_front *front);
void co_admin_delete_org(co_exchange *exchange, co_front *front);
void co_admin_create_key(co_exchange *exchange, co_front *front);
void co_admin_list_keys(co_exchange *exchange, co_front *front);
void co_admin_revoke_key(co_exchange *exchange, co_front *front);
/* stats.c's. */
void co_stats_show(co_exchange *exchange, co_front *front);

#endif
