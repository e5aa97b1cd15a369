/* RocksDB, and its only includer. Column families: `meta` (shard identity, partition specs, sequences), `event` (the record of a
 * version without its long parts), `text` (summary and content), `vector`, `dead` (versions waiting to be swept), `once` (idempotency
 * keys). Keys start with the partition (shard/keys.h). Foreign errors are translated here once. Thread-safe; a batch and a scan
 * belong to one thread.
 *
 *   FOLDER/format    "heddle-shard 1": what wrote the folder; read before anything else is touched
 *   FOLDER/db/       RocksDB's files
 *
 * A failed write leaves open whether its bytes reached the log, so the store takes no other write until sh_store_recover has opened it
 * anew and everything derived from it was read again. Reads go on all the while. */
#ifndef SH_STORE_H
#define SH_STORE_H

#include "common/arena.h"
#include "common/buf.h"

typedef enum sh_family {
    SH_FAMILY_META,
    SH_FAMILY_EVENT,
    SH_FAMILY_TEXT,
    SH_FAMILY_VECTOR,
    SH_FAMILY_DEAD,
    SH_FAMILY_ONCE,
    SH_FAMILY_COUNT
} sh_family;

enum { SH_STORE_FORMAT = 1 }; /* of the data folder: what this program writes, and the newest it reads */

typedef struct sh_store sh_store;
typedef struct sh_batch sh_batch;
typedef struct sh_scan sh_scan;

/* Opens or creates the data folder. Refuses, with an error that names the folder: one in use by another process, one written by a
 * newer format, one that is not ours, one without permission or room. */
HD_MUST_USE hd_status sh_store_open(const char *folder, uint64_t cache_bytes, sh_store **store_out, hd_error *error);
void sh_store_close(sh_store *store);
uint64_t sh_store_disk_bytes(const sh_store *store);

/* *value_out in the arena; HD_NOT_FOUND where there is none. */
HD_MUST_USE hd_status sh_store_get(sh_store *store, sh_family family, hd_str key, hd_arena *arena, hd_str *value_out,
                                   hd_error *error);
/* The same, but at most the first `size_max` bytes of the value. */
HD_MUST_USE hd_status sh_store_get_head(sh_store *store, sh_family family, hd_str key, size_t size_max, hd_arena *arena,
                                        hd_str *value_out, hd_error *error);

/* Did a write fail, and was the store not recovered since? */
bool sh_store_is_failed(const sh_store *store);
/* After a failed write: opens the store anew, once there is room. HD_OK: it takes writes again, and what was in memory of it must be
 * read again. The failure's own code: not yet (no room, or tried a moment ago, or a scan is open); reads go on. Nobody may be
 * building a batch for a write that started out from what was read before. */
HD_MUST_USE hd_status sh_store_recover(sh_store *store, hd_error *error);

sh_batch *sh_batch_new(void);
void sh_batch_free(sh_batch *batch);
void sh_batch_clear(sh_batch *batch);
size_t sh_batch_bytes(const sh_batch *batch);
void sh_batch_put(sh_batch *batch, sh_store *store, sh_family family, hd_str key, hd_str value);
void sh_batch_delete(sh_batch *batch, sh_store *store, sh_family family, hd_str key);
void sh_batch_delete_range(sh_batch *batch, sh_store *store, sh_family family, hd_str from, hd_str to);
/* Atomic. `is_synced`: on disk before it returns. HD_STORE_FULL, HD_STORE_IO; after either the batch may be there or not, and every
 * write gets the same answer until sh_store_recover. */
HD_MUST_USE hd_status sh_store_write(sh_store *store, sh_batch *batch, bool is_synced, hd_error *error);

/* All pairs of a family whose key starts with `prefix`, in key order, as they stood when the scan was opened. Opened, read and closed
 * by one thread. */
HD_MUST_USE hd_status sh_scan_open(sh_store *store, sh_family family, hd_str prefix, sh_scan **scan_out, hd_error *error);
bool sh_scan_next(sh_scan *scan, hd_str *key_out, hd_str *value_out); /* lent until the next call */
HD_MUST_USE hd_status sh_scan_status(sh_scan *scan, hd_error *error); /* after next gave false: did it end well? */
void sh_scan_close(sh_scan *scan);

#endif
