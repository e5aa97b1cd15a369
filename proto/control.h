/* Administration of a shard: who are you, hold this partition, drop that org, what do you carry. */
#ifndef HD_PROTO_CONTROL_H
#define HD_PROTO_CONTROL_H

#include "common/arena.h"
#include "common/status.h"

typedef enum hd_control_kind {
    HD_CONTROL_HELLO = 1,        /* → the shard's uuid, version, format */
    HD_CONTROL_CREATE_PARTITION, /* idempotent for the same org, dimension and epoch; synced before the answer */
    HD_CONTROL_DROP_PARTITION,
    HD_CONTROL_STATS,  /* → hd_shard_stats, and one hd_partition_stats each (of `org` alone when it is not 0) */
    HD_CONTROL_CANCEL, /* stop the steps of `query`; no reply */
} hd_control_kind;

typedef struct hd_partition_spec {
    uint64_t id, org, epoch;
    uint32_t dimension; /* of its vectors, 1..4096 */
} hd_partition_spec;

typedef struct hd_control_request {
    hd_control_kind kind;
    uint32_t remaining_ms;
    hd_partition_spec partition;
    uint64_t org;
    uint64_t query;
} hd_control_request;

typedef struct hd_partition_stats {
    uint64_t id, org;
    bool is_loaded; /* where it is not, the counts are those stored with it */
    uint64_t events, vectors, entities, tags;
    uint64_t memory_bytes;
} hd_partition_stats;

typedef struct hd_control_reply {
    hd_status status;
    hd_str message;
    hd_str shard_uuid, version;
    uint32_t format;       /* of the data folder */
    uint64_t memory_bytes; /* resident, of the process */
    uint64_t disk_bytes;
    uint64_t uptime_s;
    hd_partition_stats *partitions;
    uint32_t partition_count;
} hd_control_reply;

#endif
