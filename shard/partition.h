/* Partitions of this shard: which there are, loading one on first use, letting the least recently used leave memory, and finding
 * one for a step or a write with the checks that keep orgs apart.
 *
 * A partition in memory is one *load* of it: the graph built from what the store held, with an incarnation of its own. Whoever holds a
 * load keeps it, even when the partition has meanwhile been let go and loaded again (after a failed write, the newest load is built
 * from what is really on disk). Thread-safe, but for what is said to be the writer's. */
#ifndef SH_PARTITION_H
#define SH_PARTITION_H

#include "proto/control.h"
#include "proto/step.h"
#include "shard/graph.h"
#include "shard/keys.h"
#include "shard/store.h"

typedef struct sh_partitions sh_partitions;

typedef struct sh_partition {
    hd_partition_spec spec;
    uint64_t incarnation; /* random, new at each load: what local numbers and sequences are valid for */
    sh_graph *graph;      /* never NULL between acquire and release */
    sh_commit commit;     /* the writer's alone, inside sh_partitions_begin_commit … end_commit */
} sh_partition;

/* `memory_max` bounds the graphs in memory; partitions in use may go beyond it. `store` is borrowed. */
HD_MUST_USE hd_status sh_partitions_new(sh_store *store, uint64_t memory_max, sh_partitions **partitions_out, hd_error *error);
void sh_partitions_free(sh_partitions *partitions); /* nothing may be acquired any more */

/* HD_OK also when it is there already with the same org, dimension and epoch; HD_ALREADY_EXISTS with others; HD_ARGUMENT. */
HD_MUST_USE hd_status sh_partitions_create(sh_partitions *partitions, const hd_partition_spec *spec, hd_error *error);
/* Waits for those who hold it, then removes it with its data. HD_NOT_FOUND; HD_FORBIDDEN: of another org. */
HD_MUST_USE hd_status sh_partitions_drop(sh_partitions *partitions, uint64_t org, uint64_t id, hd_error *error);

/* The partition, loaded and pinned in memory until released. HD_MAP_STALE: not here, or of another epoch; HD_FORBIDDEN: of another
 * org; HD_SNAPSHOT_GONE: `incarnation` is not 0 and not the loaded one. May wait for a load. */
HD_MUST_USE hd_status sh_partitions_acquire(sh_partitions *partitions, uint64_t org, uint64_t id, uint64_t epoch,
                                            uint64_t incarnation, sh_partition **partition_out, hd_error *error);
void sh_partitions_release(sh_partitions *partitions, sh_partition *partition);

/* Summary and content of a version that a view of this partition sees. Either out pointer may be NULL. HD_SNAPSHOT_GONE: it was swept
 * meanwhile, which takes a view held far beyond any deadline. */
HD_MUST_USE hd_status sh_partition_get_text(sh_partitions *partitions, const sh_partition *partition, uint64_t record,
                                            hd_arena *arena, hd_str *summary_out, hd_str *content_out, hd_error *error);

/* Whoever reads numbers from partitions and writes what follows from them does it between these two; one at a time. Begin recovers a
 * store whose last write failed, and lets go of everything loaded from before. On failure there is nothing to end. */
HD_MUST_USE hd_status sh_partitions_begin_commit(sh_partitions *partitions, hd_error *error);
void sh_partitions_end_commit(sh_partitions *partitions);
/* The writer, inside a commit, after the store took it: `partition->commit` is what stands now. */
void sh_partitions_note_commit(sh_partitions *partitions, sh_partition *partition);

/* For STATS: one entry a partition (of `org` alone when not 0), in the arena, ascending by id. */
HD_MUST_USE hd_status sh_partitions_stats(sh_partitions *partitions, uint64_t org, hd_arena *arena, hd_partition_stats **stats_out,
                                          uint32_t *count_out);

typedef struct sh_partitions_totals {
    uint64_t partitions, loaded, memory_bytes, loads, evictions;
} sh_partitions_totals;
void sh_partitions_get_totals(sh_partitions *partitions, sh_partitions_totals *totals_out);

#endif
