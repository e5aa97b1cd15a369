/* Several requests to several shards at once, one reply each: writes of one wave, figures of all shards. Not for steps, which have
 * shares and snapshots (run/fanout.h). */
#ifndef CO_CLUSTER_GATHER_H
#define CO_CLUSTER_GATHER_H

#include "coordinator/cluster/topology.h"

typedef struct co_gather_call {
    const char *shard;  /* uuid, borrowed */
    hd_request request; /* its id is set by co_gather */
    hd_status status;   /* HD_OK: `reply` stands. HD_SHARD_DOWN: no reply. HD_WIRE: a reply that does not decode or fit;
                         HD_MEMORY: one that the arena has no room for */
    bool was_sent;      /* it may have been acted on, even if no reply came */
    hd_reply reply;     /* in the arena */
} co_gather_call;

/* Sends all, waits for all replies or the deadline (monotonic). What became of each stands in the calls. */
void co_gather(co_topology *topology, hd_wire_client *wire, co_gather_call *calls, uint32_t count, uint64_t deadline_us,
               hd_arena *arena);

/* What an org holds, from the shards that hold its partitions. Sums are over those that answered; `is_complete`: all did. */
typedef struct co_org_figures {
    uint64_t events, vectors;
    bool is_complete;
} co_org_figures;
HD_MUST_USE hd_status co_gather_org_figures(co_topology *topology, hd_wire_client *wire, const co_org *org, uint64_t deadline_us,
                                            hd_arena *arena, co_org_figures *figures_out);

#endif
