/* Which shards there are, by uuid, at which endpoints; found by asking each configured endpoint who it is (HELLO), and asked again
 * while one does not answer. Also the coordinator's way to talk to one shard outside of a query. Thread-safe. */
#ifndef CO_CLUSTER_TOPOLOGY_H
#define CO_CLUSTER_TOPOLOGY_H

#include "coordinator/cluster/catalog.h"
#include "proto/codec.h"
#include "proto/wire.h"

typedef struct co_topology co_topology;

typedef struct co_shard_info {
    char uuid[40]; /* "" while it never answered */
    char endpoint[256];
    bool is_alive; /* answered its last HELLO */
} co_shard_info;

HD_MUST_USE hd_status co_topology_new(const char *const *endpoints, uint32_t endpoint_count, co_topology **topology_out,
                                      hd_error *error);
void co_topology_free(co_topology *topology);
/* Waits until every endpoint has said who it is, or the deadline; how many have. */
uint32_t co_topology_wait(co_topology *topology, uint64_t deadline_us);
/* All shards as they are now; array in the arena. */
HD_MUST_USE hd_status co_topology_list(co_topology *topology, hd_arena *arena, co_shard_info **shards_out, uint32_t *count_out);
/* The endpoint of a shard, copied to `endpoint_out` (256 bytes). HD_SHARD_DOWN: no endpoint has said it is this one, or it has said
 * nothing for three seconds, so that nobody waits out a deadline for it. */
HD_MUST_USE hd_status co_topology_find(co_topology *topology, const char *uuid, char *endpoint_out);

/* One request to one shard, one reply, through the caller's wire client; fills in the request's id and remaining_ms. The reply
 * lives in `arena`. HD_SHARD_DOWN on no answer by the deadline; error->outcome is then "unknown" for a write that was sent. Replies
 * to other requests that arrive meanwhile are dropped. A reply whose own status is a failure is HD_OK here. */
HD_MUST_USE hd_status co_topology_call(co_topology *topology, hd_wire_client *wire, const char *uuid, hd_request *request,
                                       uint64_t deadline_us, hd_arena *arena, hd_reply *reply_out, hd_error *error);
/* The next request id, unique in this process. */
uint64_t co_topology_request_id(co_topology *topology);

#endif
