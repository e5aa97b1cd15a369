/* Administration: orgs and their keys. The catalog and the shards are brought along together here, one change at a time. */
#ifndef CO_FRONT_ADMIN_H
#define CO_FRONT_ADMIN_H

#include "coordinator/front/routes.h"

co_admin *co_admin_new(const co_services *services);
void co_admin_free(co_admin *admin);

/* Tells shards to drop partitions that no org has any more, and forgets those that are dropped. What a shard that is away holds stays
 * listed. Called after each change, and now and then. How many are left. */
uint32_t co_admin_sweep(co_admin *admin, hd_wire_client *wire);

#endif
