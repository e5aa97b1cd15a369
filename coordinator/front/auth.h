/* From an Authorization header to a principal and its org. */
#ifndef CO_FRONT_AUTH_H
#define CO_FRONT_AUTH_H

#include "coordinator/cluster/catalog.h"

/* `header` is the value of Authorization, or NULL. HD_UNAUTHORIZED: none, of another scheme, or a key that nobody has. HD_FORBIDDEN: the
 * org is suspended. *org_out is held, NULL for the cluster's administrator. */
HD_MUST_USE hd_status co_auth_check(co_catalog *catalog, const char *header, co_principal *principal_out, const co_org **org_out,
                                    hd_error *error);

#endif
