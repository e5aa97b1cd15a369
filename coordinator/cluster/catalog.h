/* The catalog: orgs, keys, partitions and where they are. One interface; catalog_local.c keeps it in a SQLite file (several
 * coordinators over etcd come with their own file). Thread-safe. Reads are served from memory; a change is on disk before it is
 * answered. */
#ifndef CO_CLUSTER_CATALOG_H
#define CO_CLUSTER_CATALOG_H

#include "common/arena.h"

typedef enum co_role { CO_ROLE_READ = 1, CO_ROLE_WRITE = 2, CO_ROLE_ADMIN = 4 } co_role;
typedef enum co_embedding { CO_EMBEDDING_BUILTIN = 1, CO_EMBEDDING_HTTP, CO_EMBEDDING_NONE } co_embedding;

typedef struct co_partition {
    uint64_t id, epoch;
    const char *shard; /* uuid of the shard that holds it */
} co_partition;

/* One state of an org. Immutable and counted: a change makes a new one. Hold with co_org_hold, give back with co_org_release. */
typedef struct co_org {
    uint64_t id;
    const char *name;
    uint32_t dimension;
    co_embedding embedding;
    uint32_t partition_count;       /* P, a power of two */
    const co_partition *partitions; /* by event hash: partition i owns the events with hd_event_partition(id, P) == i */
    bool is_suspended;
    uint64_t events_max, bytes_max; /* quotas; 0: none */
    int64_t created_at_us;
} co_org;

typedef struct co_catalog co_catalog;

typedef struct co_principal {
    bool is_cluster_admin;
    uint64_t org;   /* 0 for the cluster's admin */
    uint32_t roles; /* co_role bits; write includes read */
    uint64_t key;
} co_principal;

/* Opens or makes `path` (a file). Makes the cluster's admin key at the first start and writes it to `admin_key_path`, mode 0600; a key
 * that stands in that file already (at least CO_ADMIN_KEY_MIN characters) is taken instead. HD_STORE_CORRUPT: not a catalog, or one of
 * another version; HD_UNAVAILABLE: another process has it open; HD_STORE_IO, HD_STORE_FULL. */
enum { CO_ADMIN_KEY_MIN = 32, CO_NAME_MAX = 64, CO_DIMENSION_MAX = 4096 };
HD_MUST_USE hd_status co_catalog_open_local(const char *path, const char *admin_key_path, co_catalog **catalog_out,
                                            hd_error *error);
void co_catalog_close(co_catalog *catalog);

/* Who holds this key: HD_UNAUTHORIZED when nobody. Compared by hash, in constant time. */
HD_MUST_USE hd_status co_catalog_authenticate(co_catalog *catalog, hd_str key, co_principal *principal_out);

/* HD_NOT_FOUND. Returned held. */
HD_MUST_USE hd_status co_catalog_get_org(co_catalog *catalog, uint64_t id, const co_org **org_out);
HD_MUST_USE hd_status co_catalog_find_org(co_catalog *catalog, hd_str name, const co_org **org_out);
void co_org_hold(const co_org *org);
void co_org_release(const co_org *org);
/* All orgs, held each; array in the arena. */
HD_MUST_USE hd_status co_catalog_list_orgs(co_catalog *catalog, hd_arena *arena, const co_org ***orgs_out, uint32_t *count_out);

/* Names of orgs and keys: 1..CO_NAME_MAX of A-Za-z0-9._-. `what` is "an org" or "a key", for the message. */
HD_MUST_USE hd_status co_catalog_check_name(hd_str name, const char *what, hd_error *error);

typedef struct co_org_spec {
    hd_str name;         /* 1..64 of A-Za-z0-9._- */
    uint32_t partitions; /* power of two, 1..256 */
    uint32_t dimension;  /* 1..4096 */
    co_embedding embedding;
    uint64_t events_max, bytes_max;
    const char *const *shards; /* for each partition, the uuid of the shard it was placed on */
} co_org_spec;
/* Reserves ids for the org and its partitions (never reused), so that shards can be told before the catalog says the org is there. */
HD_MUST_USE hd_status co_catalog_reserve_ids(co_catalog *catalog, uint32_t count, uint64_t *first_out, hd_error *error);
/* HD_ALREADY_EXISTS by name. `org_id` and `partition_ids` were reserved. */
HD_MUST_USE hd_status co_catalog_create_org(co_catalog *catalog, const co_org_spec *spec, uint64_t org_id,
                                            const uint64_t *partition_ids, hd_error *error);
/* The org and its keys are gone at once; its partitions become drops. */
HD_MUST_USE hd_status co_catalog_delete_org(co_catalog *catalog, uint64_t org_id, hd_error *error);

/* A partition that some shard may hold and no org has: left of a deleted org, or of one that could not be made whole. It stays listed
 * until the shard has said that it dropped it. Creating an org lists its partitions here first, and co_catalog_create_org takes them
 * off in the transaction that makes the org, so that a crash in between leaves nothing behind for good. */
typedef struct co_drop {
    uint64_t partition, org, epoch;
    uint32_t dimension;
    hd_str shard;
} co_drop;
HD_MUST_USE hd_status co_catalog_add_drops(co_catalog *catalog, const co_drop *drops, uint32_t count, hd_error *error);
HD_MUST_USE hd_status co_catalog_list_drops(co_catalog *catalog, hd_arena *arena, co_drop **drops_out, uint32_t *count_out,
                                            hd_error *error);
HD_MUST_USE hd_status co_catalog_forget_drop(co_catalog *catalog, uint64_t partition, hd_error *error);

typedef struct co_key_info {
    uint64_t id;
    hd_str name;
    uint32_t roles;
    int64_t created_at_us;
} co_key_info;
/* The key's text is given once, here; only its hash is kept. `name` is 1..64 of A-Za-z0-9._-, unique within the org. HD_NOT_FOUND: no
 * such org. */
HD_MUST_USE hd_status co_catalog_create_key(co_catalog *catalog, uint64_t org_id, hd_str name, uint32_t roles, hd_arena *arena,
                                            uint64_t *id_out, hd_str *key_out, hd_error *error);
HD_MUST_USE hd_status co_catalog_list_keys(co_catalog *catalog, uint64_t org_id, hd_arena *arena, co_key_info **keys_out,
                                           uint32_t *count_out);
HD_MUST_USE hd_status co_catalog_revoke_key(co_catalog *catalog, uint64_t org_id, uint64_t key_id, hd_error *error);

#endif
