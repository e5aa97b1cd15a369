/* The catalog's state in memory, whichever store stands behind it: orgs by id, keys by hash. Many readers, one writer. */
#ifndef CO_CLUSTER_CATALOG_CACHE_H
#define CO_CLUSTER_CATALOG_CACHE_H

#include "coordinator/cluster/catalog.h"

enum { CO_KEY_HASH_SIZE = 32 };

typedef struct co_catalog_cache co_catalog_cache;

typedef struct co_catalog_key {
    uint8_t hash[CO_KEY_HASH_SIZE]; /* BLAKE2b-256 of the key's text */
    uint64_t id, org;
    uint32_t roles;
    int64_t created_at_us;
    const char *name; /* copied by co_catalog_cache_add_key */
} co_catalog_key;

co_catalog_cache *co_catalog_cache_new(void);
void co_catalog_cache_free(co_catalog_cache *cache);

void co_catalog_cache_hash_key(hd_str key, uint8_t hash_out[CO_KEY_HASH_SIZE]);
void co_catalog_cache_set_admin(co_catalog_cache *cache, const uint8_t hash[CO_KEY_HASH_SIZE]);
/* Copies the org, its name and its partitions. No org of this id or name is there. */
void co_catalog_cache_add_org(co_catalog_cache *cache, const co_org *org);
/* Takes away the org and its keys; nothing when it is not there. */
void co_catalog_cache_remove_org(co_catalog_cache *cache, uint64_t id);
void co_catalog_cache_add_key(co_catalog_cache *cache, const co_catalog_key *key);
void co_catalog_cache_remove_key(co_catalog_cache *cache, uint64_t org, uint64_t key_id);

/* The reads of catalog.h. */
HD_MUST_USE hd_status co_catalog_cache_authenticate(co_catalog_cache *cache, hd_str key, co_principal *principal_out);
HD_MUST_USE hd_status co_catalog_cache_get_org(co_catalog_cache *cache, uint64_t id, const co_org **org_out);
HD_MUST_USE hd_status co_catalog_cache_find_org(co_catalog_cache *cache, hd_str name, const co_org **org_out);
HD_MUST_USE hd_status co_catalog_cache_list_orgs(co_catalog_cache *cache, hd_arena *arena, const co_org ***orgs_out,
                                                 uint32_t *count_out);
HD_MUST_USE hd_status co_catalog_cache_list_keys(co_catalog_cache *cache, uint64_t org, hd_arena *arena, co_key_info **keys_out,
                                                 uint32_t *count_out);

#endif
