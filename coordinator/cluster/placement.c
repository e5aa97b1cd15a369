/* Rendezvous hashing: of the shards that have room, a partition goes to the one whose hash with it is largest. Room is an equal
 * share for each shard, and one more for as many as the division leaves over. Depends on uuids and ids alone, not on the order in
 * which shards are listed. */
#include "coordinator/cluster/placement.h"

#include <stdio.h>

#include "common/ids.h"

static uint64_t affinity(const char *uuid, uint64_t partition) {
    char key[80];
    int size = snprintf(key, sizeof(key), "%s/%016llx", uuid, (unsigned long long)partition);
    return hd_hash64(key, (size_t)size);
}

/* Equal hashes are not expected; the smaller uuid then decides, so that the choice stays a function of its input. */
static bool is_better(const co_shard_info *a, uint64_t a_affinity, const co_shard_info *b, uint64_t b_affinity) {
    return a_affinity != b_affinity ? a_affinity > b_affinity : strcmp(a->uuid, b->uuid) < 0;
}

hd_status co_placement_choose(const co_shard_info *shards, uint32_t shard_count, const uint64_t *partition_ids,
                              uint32_t partition_count, const char **shards_out) {
    uint32_t alive = 0;
    for (uint32_t s = 0; s < shard_count; s++) alive += shards[s].is_alive && shards[s].uuid[0] != '\0';
    if (alive == 0) return HD_UNAVAILABLE;
    uint32_t share = partition_count / alive, extras_left = partition_count % alive;
    uint32_t *loads = hd_alloc_zero(shard_count, sizeof(*loads));
    for (uint32_t p = 0; p < partition_count; p++) {
        uint32_t best = shard_count;
        uint64_t best_affinity = 0;
        for (uint32_t s = 0; s < shard_count; s++) {
            bool has_room = loads[s] < share || (loads[s] == share && extras_left > 0);
            if (!shards[s].is_alive || shards[s].uuid[0] == '\0' || !has_room) continue;
            uint64_t with = affinity(shards[s].uuid, partition_ids[p]);
            if (best < shard_count && !is_better(&shards[s], with, &shards[best], best_affinity)) continue;
            best = s;
            best_affinity = with;
        }
        HD_CHECK(best < shard_count); /* the rooms add up to the number of partitions */
        if (loads[best]++ == share) extras_left--;
        shards_out[p] = shards[best].uuid;
    }
    hd_free(loads);
    return HD_OK;
}
