/* Orgs stand in an array sorted by id (ids only grow, so a new one goes to the end). Keys stand in an open-addressing table by the
 * first eight bytes of their hash; the whole hash is compared in constant time. Both change rarely and are read by every request.
 *
 * Lock: one rwlock, held for the look-up alone. An org that was handed out is counted and outlives its removal. */
#include "coordinator/cluster/catalog_cache.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct counted_org {
    co_org org; /* first, so that a co_org handed out leads back here */
    atomic_uint holders;
    co_partition partitions[];
} counted_org;

struct co_catalog_cache {
    pthread_rwlock_t lock;
    uint8_t admin[CO_KEY_HASH_SIZE];
    counted_org **orgs; /* by ascending id; one holder each is the cache */
    uint32_t org_count, org_capacity;
    co_catalog_key *keys; /* in no order; a removed one is overwritten by the last */
    uint32_t key_count, key_capacity;
    uint32_t *slots; /* key index + 1; 0: empty */
    uint32_t slot_count;
};

co_catalog_cache *co_catalog_cache_new(void) {
    HD_CHECK(sodium_init() >= 0);
    co_catalog_cache *cache = hd_alloc_zero(1, sizeof(*cache));
    HD_CHECK(pthread_rwlock_init(&cache->lock, NULL) == 0);
    return cache;
}

void co_catalog_cache_free(co_catalog_cache *cache) {
    if (cache == NULL) return;
    for (uint32_t i = 0; i < cache->org_count; i++) co_org_release(&cache->orgs[i]->org);
    for (uint32_t i = 0; i < cache->key_count; i++) hd_free((char *)cache->keys[i].name);
    hd_free(cache->orgs);
    hd_free(cache->keys);
    hd_free(cache->slots);
    pthread_rwlock_destroy(&cache->lock);
    hd_free(cache);
}

void co_catalog_cache_hash_key(hd_str key, uint8_t hash_out[CO_KEY_HASH_SIZE]) {
    crypto_generichash(hash_out, CO_KEY_HASH_SIZE, (const unsigned char *)key.data, key.size, NULL, 0);
}

void co_catalog_cache_set_admin(co_catalog_cache *cache, const uint8_t hash[CO_KEY_HASH_SIZE]) {
    pthread_rwlock_wrlock(&cache->lock);
    memcpy(cache->admin, hash, CO_KEY_HASH_SIZE);
    pthread_rwlock_unlock(&cache->lock);
}

void co_org_hold(const co_org *org) {
    atomic_fetch_add(&((counted_org *)(uintptr_t)org)->holders, 1);
}

void co_org_release(const co_org *org) {
    if (org == NULL) return;
    counted_org *counted = (counted_org *)(uintptr_t)org;
    if (atomic_fetch_sub(&counted->holders, 1) != 1) return;
    for (uint32_t i = 0; i < counted->org.partition_count; i++) hd_free((char *)(uintptr_t)counted->partitions[i].shard);
    hd_free((char *)(uintptr_t)counted->org.name);
    hd_free(counted);
}

static counted_org *copy_org(const co_org *org) {
    counted_org *copy = hd_alloc_zero(1, sizeof(*copy) + org->partition_count * sizeof(co_partition));
    copy->org = *org;
    copy->org.name = hd_strdup(org->name);
    copy->org.partitions = copy->partitions;
    for (uint32_t i = 0; i < org->partition_count; i++) {
        copy->partitions[i] = org->partitions[i];
        copy->partitions[i].shard = hd_strdup(org->partitions[i].shard);
    }
    atomic_init(&copy->holders, 1);
    return copy;
}

/* Index of the first org whose id is not below `id`. */
static uint32_t lower_bound(const co_catalog_cache *cache, uint64_t id) {
    uint32_t low = 0, high = cache->org_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (cache->orgs[middle]->org.id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static counted_org *find_by_id(const co_catalog_cache *cache, uint64_t id) {
    uint32_t at = lower_bound(cache, id);
    return at < cache->org_count && cache->orgs[at]->org.id == id ? cache->orgs[at] : NULL;
}

void co_catalog_cache_add_org(co_catalog_cache *cache, const co_org *org) {
    counted_org *copy = copy_org(org);
    pthread_rwlock_wrlock(&cache->lock);
    if (cache->org_count == cache->org_capacity) {
        cache->org_capacity = HD_MAX(16u, cache->org_capacity * 2);
        cache->orgs = hd_realloc(cache->orgs, cache->org_capacity * sizeof(*cache->orgs));
    }
    uint32_t at = lower_bound(cache, org->id);
    memmove(cache->orgs + at + 1, cache->orgs + at, (cache->org_count - at) * sizeof(*cache->orgs));
    cache->orgs[at] = copy;
    cache->org_count++;
    pthread_rwlock_unlock(&cache->lock);
}

static uint32_t first_slot(const co_catalog_cache *cache, const uint8_t hash[CO_KEY_HASH_SIZE]) {
    uint64_t head;
    memcpy(&head, hash, sizeof(head));
    return (uint32_t)(head & (cache->slot_count - 1));
}

static void put_slot(co_catalog_cache *cache, uint32_t key) {
    uint32_t at = first_slot(cache, cache->keys[key].hash);
    while (cache->slots[at] != 0) at = (at + 1) & (cache->slot_count - 1);
    cache->slots[at] = key + 1;
}

static void rebuild_slots(co_catalog_cache *cache) {
    cache->slot_count = 16;
    while (cache->slot_count < cache->key_count * 2 + 2) cache->slot_count *= 2;
    hd_free(cache->slots);
    cache->slots = hd_alloc_zero(cache->slot_count, sizeof(*cache->slots));
    for (uint32_t i = 0; i < cache->key_count; i++) put_slot(cache, i);
}

void co_catalog_cache_add_key(co_catalog_cache *cache, const co_catalog_key *key) {
    pthread_rwlock_wrlock(&cache->lock);
    if (cache->key_count == cache->key_capacity) {
        cache->key_capacity = HD_MAX(16u, cache->key_capacity * 2);
        cache->keys = hd_realloc(cache->keys, cache->key_capacity * sizeof(*cache->keys));
    }
    cache->keys[cache->key_count] = *key;
    cache->keys[cache->key_count].name = hd_strdup(key->name);
    cache->key_count++;
    if (cache->key_count * 2 > cache->slot_count)
        rebuild_slots(cache);
    else
        put_slot(cache, cache->key_count - 1);
    pthread_rwlock_unlock(&cache->lock);
}

/* Removes the keys of `org` (the one of `key_id` alone where that is not 0). */
static void remove_keys(co_catalog_cache *cache, uint64_t org, uint64_t key_id) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cache->key_count; i++) {
        co_catalog_key *key = &cache->keys[i];
        if (key->org == org && (key_id == 0 || key->id == key_id))
            hd_free((char *)(uintptr_t)key->name);
        else
            cache->keys[kept++] = *key;
    }
    cache->key_count = kept;
    rebuild_slots(cache);
}

void co_catalog_cache_remove_key(co_catalog_cache *cache, uint64_t org, uint64_t key_id) {
    pthread_rwlock_wrlock(&cache->lock);
    remove_keys(cache, org, key_id);
    pthread_rwlock_unlock(&cache->lock);
}

void co_catalog_cache_remove_org(co_catalog_cache *cache, uint64_t id) {
    pthread_rwlock_wrlock(&cache->lock);
    uint32_t at = lower_bound(cache, id);
    if (at < cache->org_count && cache->orgs[at]->org.id == id) {
        remove_keys(cache, id, 0);
        co_org_release(&cache->orgs[at]->org);
        cache->org_count--;
        memmove(cache->orgs + at, cache->orgs + at + 1, (cache->org_count - at) * sizeof(*cache->orgs));
    }
    pthread_rwlock_unlock(&cache->lock);
}

/* Finds the key of this hash among all; every compare of a whole hash takes the same time. */
static const co_catalog_key *find_key(const co_catalog_cache *cache, const uint8_t hash[CO_KEY_HASH_SIZE]) {
    if (cache->slot_count == 0) return NULL;
    for (uint32_t at = first_slot(cache, hash); cache->slots[at] != 0; at = (at + 1) & (cache->slot_count - 1)) {
        const co_catalog_key *key = &cache->keys[cache->slots[at] - 1];
        if (sodium_memcmp(key->hash, hash, CO_KEY_HASH_SIZE) == 0) return key;
    }
    return NULL;
}

hd_status co_catalog_cache_authenticate(co_catalog_cache *cache, hd_str key, co_principal *principal_out) {
    uint8_t hash[CO_KEY_HASH_SIZE];
    co_catalog_cache_hash_key(key, hash);
    hd_status status = HD_OK;
    pthread_rwlock_rdlock(&cache->lock);
    const co_catalog_key *found = find_key(cache, hash);
    if (sodium_memcmp(cache->admin, hash, CO_KEY_HASH_SIZE) == 0)
        *principal_out = (co_principal){.is_cluster_admin = true};
    else if (found != NULL)
        *principal_out = (co_principal){.org = found->org, .roles = found->roles, .key = found->id};
    else
        status = HD_UNAUTHORIZED;
    pthread_rwlock_unlock(&cache->lock);
    return status;
}

hd_status co_catalog_cache_get_org(co_catalog_cache *cache, uint64_t id, const co_org **org_out) {
    pthread_rwlock_rdlock(&cache->lock);
    counted_org *found = find_by_id(cache, id);
    if (found != NULL) co_org_hold(&found->org);
    pthread_rwlock_unlock(&cache->lock);
    *org_out = found != NULL ? &found->org : NULL;
    return found != NULL ? HD_OK : HD_NOT_FOUND;
}

hd_status co_catalog_cache_find_org(co_catalog_cache *cache, hd_str name, const co_org **org_out) {
    *org_out = NULL;
    pthread_rwlock_rdlock(&cache->lock);
    for (uint32_t i = 0; i < cache->org_count && *org_out == NULL; i++)
        if (hd_str_is_equal(hd_str_of(cache->orgs[i]->org.name), name)) *org_out = &cache->orgs[i]->org;
    if (*org_out != NULL) co_org_hold(*org_out);
    pthread_rwlock_unlock(&cache->lock);
    return *org_out != NULL ? HD_OK : HD_NOT_FOUND;
}

hd_status co_catalog_cache_list_orgs(co_catalog_cache *cache, hd_arena *arena, const co_org ***orgs_out, uint32_t *count_out) {
    *count_out = 0;
    pthread_rwlock_rdlock(&cache->lock);
    const co_org **orgs = hd_arena_alloc_zero(arena, cache->org_count, sizeof(*orgs));
    for (uint32_t i = 0; orgs != NULL && i < cache->org_count; i++) {
        orgs[i] = &cache->orgs[i]->org;
        co_org_hold(orgs[i]);
        *count_out = i + 1;
    }
    pthread_rwlock_unlock(&cache->lock);
    *orgs_out = orgs;
    return orgs != NULL ? HD_OK : HD_MEMORY;
}

static int compare_key_ids(const void *a, const void *b) {
    uint64_t x = ((const co_key_info *)a)->id, y = ((const co_key_info *)b)->id;
    return x < y ? -1 : x > y;
}

static hd_status copy_keys(const co_catalog_cache *cache, uint64_t org, hd_arena *arena, co_key_info **keys_out,
                           uint32_t *count_out) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < cache->key_count; i++) count += cache->keys[i].org == org;
    HD_ALLOC(*keys_out, arena, count);
    count = 0;
    for (uint32_t i = 0; i < cache->key_count; i++) {
        const co_catalog_key *key = &cache->keys[i];
        if (key->org != org) continue;
        co_key_info *info = &(*keys_out)[count++];
        *info = (co_key_info){.id = key->id, .roles = key->roles, .created_at_us = key->created_at_us};
        HD_TRY(hd_arena_dup(arena, hd_str_of(key->name), &info->name));
    }
    *count_out = count;
    qsort(*keys_out, count, sizeof(**keys_out), compare_key_ids);
    return HD_OK;
}

hd_status co_catalog_cache_list_keys(co_catalog_cache *cache, uint64_t org, hd_arena *arena, co_key_info **keys_out,
                                     uint32_t *count_out) {
    pthread_rwlock_rdlock(&cache->lock);
    hd_status status = find_by_id(cache, org) == NULL ? HD_NOT_FOUND : copy_keys(cache, org, arena, keys_out, count_out);
    pthread_rwlock_unlock(&cache->lock);
    return status;
}
