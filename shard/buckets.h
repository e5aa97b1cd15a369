/* An array that grows without moving: bucket k holds base << k items and, once there, stays where it is. Readers may use every
 * item whose index they learned from the writer through an atomic (a published count, a slot in a list); the bucket was written
 * before. Buckets are aligned to 64 and not zeroed.
 *
 *   index + base:  [base, 2·base)      [2·base, 4·base)            …
 *   bucket:        0: base items       1: 2·base items             …                                                           */
#ifndef SH_BUCKETS_H
#define SH_BUCKETS_H

#include "shard/graph_memory.h"

enum { SH_BUCKETS_MAX = 32 };

typedef struct sh_buckets {
    uint32_t base_log2;
    uint32_t bucket_count;
    size_t item_size;
    void *buckets[SH_BUCKETS_MAX];
} sh_buckets;

static inline void sh_buckets_init(sh_buckets *array, uint32_t base_log2, size_t item_size) {
    *array = (sh_buckets){.base_log2 = base_log2, .item_size = item_size};
}

static inline size_t sh_buckets_bucket_items(const sh_buckets *array, uint32_t bucket) {
    return (size_t)1 << (array->base_log2 + bucket);
}

static inline void sh_buckets_fini(sh_buckets *array, sh_memory *memory) {
    for (uint32_t i = 0; i < array->bucket_count; i++)
        sh_memory_give_aligned(memory, array->buckets[i], sh_buckets_bucket_items(array, i) * array->item_size);
    array->bucket_count = 0;
}

/* Which bucket an index is in, and where in it. */
static inline uint32_t sh_buckets_find(const sh_buckets *array, uint32_t index, size_t *offset_out) {
    uint64_t place = (uint64_t)index + ((uint64_t)1 << array->base_log2);
    uint32_t top = 63 - (uint32_t)__builtin_clzll(place);
    *offset_out = (size_t)(place - ((uint64_t)1 << top));
    return top - array->base_log2;
}

/* Writer: makes room for an index that is at most one bucket beyond what there is. */
static inline void sh_buckets_reserve(sh_buckets *array, sh_memory *memory, uint32_t index) {
    size_t offset;
    uint32_t bucket = sh_buckets_find(array, index, &offset);
    if (bucket < array->bucket_count) return;
    HD_CHECK(bucket == array->bucket_count && bucket < SH_BUCKETS_MAX);
    array->buckets[bucket] = sh_memory_take_aligned(memory, sh_buckets_bucket_items(array, bucket) * array->item_size);
    array->bucket_count++;
}

/* `item_size` is given again so that the compiler sees a constant. */
static inline void *sh_buckets_at(const sh_buckets *array, uint32_t index, size_t item_size) {
    size_t offset;
    uint32_t bucket = sh_buckets_find(array, index, &offset);
    return (uint8_t *)array->buckets[bucket] + offset * item_size;
}

#endif
