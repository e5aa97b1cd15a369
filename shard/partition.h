/* Partitions of this shard: which there are, loading one on first use, letting the least recently used leave memory, and finding
 * one for a step or a write with the checks that keep orgs apart. */
#ifndef SH_PARTITION_H
#define SH_PARTITION_H

#include "proto/control.h"
#include "proto/step.h"
#include "shard/graph.h"
#include "shard/store.h"

typedef struct sh_partitions sh_partitions;

typedef struct sh_partition {
    hd_partition_spec spec;
    uint64_t incarnation; /* random, new at each load: what local numbers and sequences are valid for */
    sh_graph *graph;      /* never NULL between acquire and release */
} sh_partition;

HD_MUST_USE hd_status sh_partitions_new(sh_store *store, uint64_t memory_max, sh_partitions **partitions_out, hd_error *error);
void sh_partitions_free(sh_partitions *partitions);

HD_MUST_USE hd_status sh_partitions_create(sh_partitions *partitions, const hd_partition_spec *spec, hd_error *error);
HD_MUST_USE hd_status sh_partitions_drop(sh_partitions *partitions, uint64_t org, uint64_t id, hd_error *error);

/* The partition, loaded and pinned in memory until released. HD_MAP_STALE: not here, or of another epoch; HD_FORBIDDEN: of another
 * org; HD_SNAPSHOT_GONE: `incarnation` is not 0 and not the loaded one. */
HD_MUST_USE hd_status sh_partitions_acquire(sh_partitions *partitions, uint64_t org, uint64_t id, uint64_t epoch,
                                            uint64_t incarnation, sh_partition **partition_out, hd_error *error);
void sh_partitions_release(sh_partitions *partitions, sh_partition *partition);

/* Summary and content of a version that a view of this partition sees. Either out pointer may be NULL. */
HD_MUST_USE hd_status sh_partition_get_text(sh_partitions *partitions, const sh_partition *partition, uint64_t record,
                                            hd_arena *arena, hd_str *summary_out, hd_str *content_out, hd_error *error);

/* For STATS: one entry a partition (of `org` alone when not 0), in the arena. */
HD_MUST_USE hd_status sh_partitions_stats(sh_partitions *partitions, uint64_t org, hd_arena *arena, hd_partition_stats **stats_out,
                                          uint32_t *count_out);

#endif
