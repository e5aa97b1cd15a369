/* Where new partitions go: rendezvous hashing over live shards, evened out within one org so that its partitions spread. */
#ifndef CO_CLUSTER_PLACEMENT_H
#define CO_CLUSTER_PLACEMENT_H

#include "coordinator/cluster/topology.h"

/* shards_out[i] = uuid (borrowed from `shards`) for partition_ids[i]. The load of the most and the least loaded shard differ by one
 * at the most. HD_UNAVAILABLE: no shard is alive. */
HD_MUST_USE hd_status co_placement_choose(const co_shard_info *shards, uint32_t shard_count, const uint64_t *partition_ids,
                                          uint32_t partition_count, const char **shards_out);

#endif
