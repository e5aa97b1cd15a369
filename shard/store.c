/* The store over RocksDB's C API (7.8, as Debian builds it: with assertions, so every column-family handle is destroyed before its
 * database is closed).
 *
 * Durability: the write-ahead log carries every family; a synced write is on disk when it returns. Families are flushed by size, all
 * memtables together staying under MEMTABLES_BYTES.
 *
 * Failure: after a write error RocksDB refuses further writes, and its C API has no way to resume. So the database is closed and
 * opened again (sh_store_recover), for which `lock` is held for writing; everything else holds it for reading. Where opening fails for
 * want of room, the database is opened read-only, so that reads go on. */
#include "shard/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rocksdb/c.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"

enum { FAMILY_DEFAULT = SH_FAMILY_COUNT, HANDLE_COUNT }; /* RocksDB's own "default" must be opened too; it stays empty */

static const char *const family_names[HANDLE_COUNT] = {"meta", "event", "text", "vector", "dead", "once", "default"};

/* A shard carries many small partitions; what is written is mostly in memory twice anyway (memtable and graph). 64 MB in all is some
 * five seconds of import at full speed between flushes. */
static const size_t MEMTABLES_BYTES = 64u << 20;
static const uint64_t LOG_BYTES = 256u << 20;     /* of write-ahead log before the family that holds it back is flushed */
static const uint64_t ROOM_BYTES = 8u << 20;      /* free room, beyond the log's size, before reopening is worth trying */
static const uint64_t RECOVER_PAUSE_US = 1000000; /* between two attempts, each of which closes and opens the database */
enum { LOG_NOTHING = 6 };                         /* one above RocksDB's highest level */
enum { OPEN_FILES_MAX = 400, BLOOM_BITS = 10 };   /* the usual soft limit of descriptors is 1,024 */

struct sh_store {
    pthread_rwlock_t lock;
    rocksdb_t *db; /* NULL when even opening read-only failed */
    rocksdb_column_family_handle_t *handles[HANDLE_COUNT];
    rocksdb_options_t *options, *family_options[HANDLE_COUNT];
    rocksdb_cache_t *cache;
    rocksdb_writeoptions_t *write_synced, *write_plain;
    rocksdb_readoptions_t *read;
    char *folder, *db_folder;
    atomic_bool is_failed;
    pthread_mutex_t failure_lock; /* the three below */
    hd_status failure_code;
    uint64_t tried_us;
};

struct sh_batch {
    rocksdb_writebatch_t *rocks;
    bool is_lost; /* something was added while the database was closed */
};

struct sh_scan {
    sh_store *store;
    rocksdb_iterator_t *at;
    char *prefix;
    size_t prefix_size;
    bool is_started, is_ended; /* RocksDB's iterator must not be moved on from its end */
};

/* -- errors --------------------------------------------------------------------------------------------------------------------- */

static bool has_text(const char *text, const char *piece) {
    return strstr(text, piece) != NULL;
}

static hd_status code_of(const char *text) {
    if (has_text(text, "No space left on device") || has_text(text, "File too large") || has_text(text, "Disk quota exceeded"))
        return HD_STORE_FULL;
    if (has_text(text, "Corruption") || has_text(text, "checksum mismatch")) return HD_STORE_CORRUPT;
    return HD_STORE_IO;
}

/* RocksDB's words name this machine's files: they go to the log, and ours to whoever asked. Takes `text`. */
static hd_status translate(char *text, const char *doing, hd_error *error) {
    hd_status code = code_of(text);
    hd_log(HD_LOG_ERROR, "store", "%s: %s", doing, text);
    (void)hd_error_set(error, code, "store", "%s: %s", doing, hd_status_meaning(code));
    rocksdb_free(text);
    return code;
}

static hd_status translate_open(const sh_store *store, char *text, hd_error *error) {
    hd_status code = code_of(text);
    if (has_text(text, "lock hold by current process") ||
        (has_text(text, "LOCK") && has_text(text, "Resource temporarily unavailable"))) {
        code = hd_error_set(error, HD_UNAVAILABLE, "store",
                            "data folder %s is in use by another process; stop it, or give this one a folder of its own",
                            store->folder);
    } else if (has_text(text, "Permission denied") || has_text(text, "Read-only file system")) {
        code = hd_error_set(error, HD_STORE_IO, "store",
                            "data folder %s cannot be written by this user (%s); change its owner or mode", store->folder, text);
    } else if (code == HD_STORE_FULL) {
        code = hd_error_set(error, code, "store", "no room on the disk of data folder %s (%s); free some and start again",
                            store->folder, text);
    } else if (code == HD_STORE_CORRUPT) {
        code = hd_error_set(error, code, "store", "data folder %s is damaged (%s); restore it from a backup", store->folder, text);
    } else {
        code = hd_error_set(error, code, "store", "data folder %s cannot be opened: %s", store->folder, text);
    }
    rocksdb_free(text);
    return code;
}

static hd_status folder_error(const char *folder, int number, const char *what, hd_error *error) {
    hd_status code = number == ENOSPC || number == EDQUOT ? HD_STORE_FULL : HD_STORE_IO;
    return hd_error_set(error, code, "store", "data folder %s: cannot %s: %s", folder, what, strerror(number));
}

/* -- the folder and its format ---------------------------------------------------------------------------------------------------- */

static char *join_path(const char *folder, const char *name) {
    hd_buf path = {0};
    hd_buf_printf(&path, "%s/%s", folder, name);
    return path.data;
}

static hd_status sync_folder(const char *folder, hd_error *error) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return folder_error(folder, errno, "open it", error);
    int failed = fsync(fd) != 0 ? errno : 0;
    close(fd);
    return failed ? folder_error(folder, failed, "sync it", error) : HD_OK;
}

/* The format file appears whole or not at all. */
static hd_status write_format(const char *folder, hd_error *error) {
    hd_status status = HD_OK;
    char *path = join_path(folder, "format"), *path_new = join_path(folder, "format.new");
    hd_buf text = {0};
    hd_buf_printf(&text, "heddle-shard %d\n", SH_STORE_FORMAT);
    ssize_t written = 0;
    int fd = open(path_new, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) HD_GOTO(folder_error(folder, errno, "create a file in it", error));
    written = write(fd, text.data, text.size);
    if (written != (ssize_t)text.size) HD_GOTO(folder_error(folder, written < 0 ? errno : ENOSPC, "write its format file", error));
    if (fsync(fd) != 0) HD_GOTO(folder_error(folder, errno, "sync its format file", error));
    if (rename(path_new, path) != 0) HD_GOTO(folder_error(folder, errno, "name its format file", error));
    status = sync_folder(folder, error);
out:
    if (fd >= 0) close(fd);
    hd_buf_fini(&text);
    hd_free(path);
    hd_free(path_new);
    return status;
}

/* A folder without a format file may be taken when nothing is in it but what a mount point or a broken-off start leaves there. */
static hd_status claim_folder(const char *folder, hd_error *error) {
    DIR *dir = opendir(folder);
    if (!dir) return folder_error(folder, errno, "read it", error);
    char stranger[128] = "";
    for (struct dirent *entry = readdir(dir); entry && !stranger[0]; entry = readdir(dir)) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0 && strcmp(name, "lost+found") != 0 &&
            strcmp(name, "format.new") != 0) {
            size_t size = HD_MIN(strlen(name), sizeof(stranger) - 1);
            memcpy(stranger, name, size);
            stranger[size] = 0;
        }
    }
    closedir(dir);
    if (stranger[0])
        return hd_error_set(
            error, HD_ARGUMENT, "store",
            "data folder %s is not a Heddle shard's: it holds \"%s\" and no format file; give an empty or a new folder", folder,
            stranger);
    return write_format(folder, error);
}

static hd_status check_format(const char *folder, hd_error *error) {
    char *path = join_path(folder, "format");
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int number = errno;
    hd_free(path);
    if (fd < 0) return number == ENOENT ? claim_folder(folder, error) : folder_error(folder, number, "read its format file", error);
    char text[64] = "";
    ssize_t size = read(fd, text, sizeof(text) - 1);
    number = errno;
    close(fd);
    if (size < 0) return folder_error(folder, number, "read its format file", error);
    static const char magic[] = "heddle-shard ";
    char *end = text;
    unsigned long format = 0;
    if (strncmp(text, magic, sizeof(magic) - 1) == 0) format = strtoul(text + sizeof(magic) - 1, &end, 10);
    if (format == 0 || *end != '\n')
        return hd_error_set(error, HD_ARGUMENT, "store",
                            "data folder %s is not a Heddle shard's: its format file says something else", folder);
    if (format > SH_STORE_FORMAT)
        return hd_error_set(error, HD_ARGUMENT, "store",
                            "data folder %s has format %lu, this program knows up to %d; start the newer version that wrote it",
                            folder, format, SH_STORE_FORMAT);
    return HD_OK;
}

/* -- opening ------------------------------------------------------------------------------------------------------------------------ */

static void set_family_options(sh_store *store, int family, rocksdb_options_t *options) {
    static const size_t buffer_bytes[HANDLE_COUNT] = {
        [SH_FAMILY_META] = 2 << 20, [SH_FAMILY_EVENT] = 16 << 20, [SH_FAMILY_TEXT] = 16 << 20, [SH_FAMILY_VECTOR] = 16 << 20,
        [SH_FAMILY_DEAD] = 2 << 20, [SH_FAMILY_ONCE] = 4 << 20,   [FAMILY_DEFAULT] = 1 << 20,
    };
    rocksdb_options_set_write_buffer_size(options, buffer_bytes[family]);
    rocksdb_options_set_level_compaction_dynamic_level_bytes(options, 1);
    bool is_compressed = family == SH_FAMILY_EVENT || family == SH_FAMILY_TEXT;
    rocksdb_options_set_compression(options, is_compressed ? rocksdb_lz4_compression : rocksdb_no_compression);
    rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();
    rocksdb_block_based_options_set_block_cache(table, store->cache);
    rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(BLOOM_BITS));
    rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1); /* so that the cache's size bounds all of it */
    rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
    rocksdb_options_set_block_based_table_factory(options, table);
    rocksdb_block_based_options_destroy(table);
}

static void set_options(sh_store *store, uint64_t cache_bytes) {
    store->cache = rocksdb_cache_create_lru(cache_bytes);
    store->options = rocksdb_options_create();
    rocksdb_options_t *o = store->options;
    rocksdb_options_set_create_if_missing(o, 1);
    rocksdb_options_set_create_missing_column_families(o, 1);
    rocksdb_options_set_paranoid_checks(o, 1);
    rocksdb_options_set_db_write_buffer_size(o, MEMTABLES_BYTES);
    rocksdb_options_set_max_total_wal_size(o, LOG_BYTES);
    rocksdb_options_set_max_open_files(o, OPEN_FILES_MAX);
    rocksdb_options_set_max_background_jobs(o, 2);
    /* RocksDB's own log file is kept empty: on a full disk this build's second failed line in it fails an assertion and takes the
     * process down. What matters of it comes back as the status of a call. */
    rocksdb_options_set_info_log_level(o, LOG_NOTHING);
    rocksdb_options_set_keep_log_file_num(o, 1);
    rocksdb_options_set_stats_dump_period_sec(o, 0);
    for (int i = 0; i < HANDLE_COUNT; i++) {
        store->family_options[i] = rocksdb_options_create();
        set_family_options(store, i, store->family_options[i]);
    }
    store->write_synced = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(store->write_synced, 1);
    store->write_plain = rocksdb_writeoptions_create();
    store->read = rocksdb_readoptions_create();
}

static char *open_db(sh_store *store, bool is_read_only) {
    char *text = NULL;
    const rocksdb_options_t *const *options = (const rocksdb_options_t *const *)store->family_options;
    store->db = is_read_only ? rocksdb_open_for_read_only_column_families(store->options, store->db_folder, HANDLE_COUNT,
                                                                          family_names, options, store->handles, 0, &text)
                             : rocksdb_open_column_families(store->options, store->db_folder, HANDLE_COUNT, family_names, options,
                                                            store->handles, &text);
    if (text) store->db = NULL;
    return text;
}

static void close_db(sh_store *store) {
    if (!store->db) return;
    for (int i = 0; i < HANDLE_COUNT; i++) rocksdb_column_family_handle_destroy(store->handles[i]);
    rocksdb_close(store->db);
    store->db = NULL;
}

static hd_status open_first(sh_store *store, hd_error *error) {
    char *text = open_db(store, false);
    if (text && has_text(text, "not linked")) { /* a RocksDB without LZ4 */
        hd_log(HD_LOG_WARN, "store", "this RocksDB has no LZ4; records and texts are stored uncompressed");
        rocksdb_free(text);
        for (int i = 0; i < HANDLE_COUNT; i++) rocksdb_options_set_compression(store->family_options[i], rocksdb_no_compression);
        text = open_db(store, false);
    }
    return text ? translate_open(store, text, error) : HD_OK;
}

hd_status sh_store_open(const char *folder, uint64_t cache_bytes, sh_store **store_out, hd_error *error) {
    *store_out = NULL;
    bool is_new = mkdir(folder, 0700) == 0;
    if (!is_new && errno != EEXIST) return folder_error(folder, errno, "create it", error);
    HD_TRY(check_format(folder, error));
    sh_store *store = hd_alloc_zero(1, sizeof(*store));
    pthread_rwlock_init(&store->lock, NULL);
    pthread_mutex_init(&store->failure_lock, NULL);
    store->folder = hd_strdup(folder);
    store->db_folder = join_path(folder, "db");
    set_options(store, cache_bytes);
    hd_status status = open_first(store, error);
    if (status != HD_OK) {
        sh_store_close(store);
        return status;
    }
    *store_out = store;
    return HD_OK;
}

void sh_store_close(sh_store *store) {
    if (!store) return;
    close_db(store);
    for (int i = 0; i < HANDLE_COUNT; i++) rocksdb_options_destroy(store->family_options[i]);
    rocksdb_options_destroy(store->options);
    rocksdb_cache_destroy(store->cache);
    rocksdb_writeoptions_destroy(store->write_synced);
    rocksdb_writeoptions_destroy(store->write_plain);
    rocksdb_readoptions_destroy(store->read);
    pthread_rwlock_destroy(&store->lock);
    pthread_mutex_destroy(&store->failure_lock);
    hd_free(store->folder);
    hd_free(store->db_folder);
    hd_free(store);
}

/* Bytes of the database's files whose names end so ("" for all). Files come and go under RocksDB; what is gone counts nothing. */
static uint64_t file_bytes(const sh_store *store, const char *ending) {
    uint64_t bytes = 0;
    DIR *dir = opendir(store->db_folder);
    if (!dir) return 0;
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        size_t size = strlen(entry->d_name), ending_size = strlen(ending);
        struct stat info;
        if (size < ending_size || strcmp(entry->d_name + size - ending_size, ending) != 0) continue;
        if (fstatat(dirfd(dir), entry->d_name, &info, 0) == 0 && S_ISREG(info.st_mode)) bytes += (uint64_t)info.st_size;
    }
    closedir(dir);
    return bytes;
}

uint64_t sh_store_disk_bytes(const sh_store *store) {
    return file_bytes(store, "");
}

/* -- failure and recovery ------------------------------------------------------------------------------------------------------------- */

bool sh_store_is_failed(const sh_store *store) {
    return atomic_load(&store->is_failed);
}

static void note_failure(sh_store *store, hd_status code, const char *message) {
    pthread_mutex_lock(&store->failure_lock);
    store->failure_code = code;
    pthread_mutex_unlock(&store->failure_lock);
    if (!atomic_exchange(&store->is_failed, true)) hd_log(HD_LOG_ERROR, "store", "writes stop, reads go on: %s", message);
}

static hd_status report_failure(sh_store *store, hd_error *error) {
    pthread_mutex_lock(&store->failure_lock);
    hd_status code = hd_error_set(error, store->failure_code, "store", "the shard takes no writes at present: %s",
                                  hd_status_meaning(store->failure_code));
    pthread_mutex_unlock(&store->failure_lock);
    return code;
}

static bool is_worth_trying(sh_store *store) {
    struct statvfs room;
    if (statvfs(store->folder, &room) != 0) return false;
    if ((uint64_t)room.f_bavail * room.f_frsize < ROOM_BYTES + file_bytes(store, ".log")) return false;
    uint64_t now_us = hd_clock_monotonic_us();
    pthread_mutex_lock(&store->failure_lock);
    bool is_time = store->tried_us == 0 || now_us - store->tried_us >= RECOVER_PAUSE_US;
    if (is_time) store->tried_us = now_us;
    pthread_mutex_unlock(&store->failure_lock);
    return is_time;
}

hd_status sh_store_recover(sh_store *store, hd_error *error) {
    if (!sh_store_is_failed(store)) return HD_OK;
    if (!is_worth_trying(store) || pthread_rwlock_trywrlock(&store->lock) != 0) return report_failure(store, error);
    close_db(store);
    char *text = open_db(store, false);
    if (text) {
        note_failure(store, code_of(text), text);
        rocksdb_free(text);
        text = open_db(store, true);
        if (text) hd_log(HD_LOG_ERROR, "store", "reads stop too: %s", text);
        if (text) rocksdb_free(text);
    } else {
        atomic_store(&store->is_failed, false);
        hd_log(HD_LOG_INFO, "store", "opened anew; writes go on");
    }
    pthread_rwlock_unlock(&store->lock);
    return sh_store_is_failed(store) ? report_failure(store, error) : HD_OK;
}

/* -- reading and writing ---------------------------------------------------------------------------------------------------------------- */

hd_status sh_store_get(sh_store *store, sh_family family, hd_str key, hd_arena *arena, hd_str *value_out, hd_error *error) {
    return sh_store_get_head(store, family, key, SIZE_MAX, arena, value_out, error);
}

hd_status sh_store_get_head(sh_store *store, sh_family family, hd_str key, size_t size_max, hd_arena *arena, hd_str *value_out,
                            hd_error *error) {
    hd_status status = HD_OK;
    char *text = NULL;
    rocksdb_pinnableslice_t *slice = NULL;
    pthread_rwlock_rdlock(&store->lock);
    if (!store->db) HD_GOTO(report_failure(store, error));
    slice = rocksdb_get_pinned_cf(store->db, store->read, store->handles[family], key.data, key.size, &text);
    if (text) HD_GOTO(translate(text, "the store cannot read", error));
    if (!slice) HD_GOTO(HD_NOT_FOUND);
    hd_str lent;
    lent.data = rocksdb_pinnableslice_value(slice, &lent.size);
    lent.size = HD_MIN(lent.size, size_max);
    status = hd_arena_dup(arena, lent, value_out);
    if (status != HD_OK) (void)hd_error_set(error, status, "store", "no memory left for a stored value of %zu bytes", lent.size);
out:
    if (slice) rocksdb_pinnableslice_destroy(slice);
    pthread_rwlock_unlock(&store->lock);
    return status;
}

sh_batch *sh_batch_new(void) {
    sh_batch *batch = hd_alloc_zero(1, sizeof(*batch));
    batch->rocks = rocksdb_writebatch_create();
    return batch;
}

void sh_batch_free(sh_batch *batch) {
    if (!batch) return;
    rocksdb_writebatch_destroy(batch->rocks);
    hd_free(batch);
}

void sh_batch_clear(sh_batch *batch) {
    rocksdb_writebatch_clear(batch->rocks);
    batch->is_lost = false;
}

size_t sh_batch_bytes(const sh_batch *batch) {
    size_t size = 0;
    (void)rocksdb_writebatch_data(batch->rocks, &size);
    return size;
}

/* A batch holds families by number, so it outlives a reopening; the handle is needed only here. */
static rocksdb_column_family_handle_t *lock_handle(sh_batch *batch, sh_store *store, sh_family family) {
    pthread_rwlock_rdlock(&store->lock);
    if (store->db) return store->handles[family];
    batch->is_lost = true;
    return NULL;
}

void sh_batch_put(sh_batch *batch, sh_store *store, sh_family family, hd_str key, hd_str value) {
    rocksdb_column_family_handle_t *handle = lock_handle(batch, store, family);
    if (handle) rocksdb_writebatch_put_cf(batch->rocks, handle, key.data, key.size, value.data, value.size);
    pthread_rwlock_unlock(&store->lock);
}

void sh_batch_delete(sh_batch *batch, sh_store *store, sh_family family, hd_str key) {
    rocksdb_column_family_handle_t *handle = lock_handle(batch, store, family);
    if (handle) rocksdb_writebatch_delete_cf(batch->rocks, handle, key.data, key.size);
    pthread_rwlock_unlock(&store->lock);
}

void sh_batch_delete_range(sh_batch *batch, sh_store *store, sh_family family, hd_str from, hd_str to) {
    rocksdb_column_family_handle_t *handle = lock_handle(batch, store, family);
    if (handle) rocksdb_writebatch_delete_range_cf(batch->rocks, handle, from.data, from.size, to.data, to.size);
    pthread_rwlock_unlock(&store->lock);
}

hd_status sh_store_write(sh_store *store, sh_batch *batch, bool is_synced, hd_error *error) {
    hd_status status = HD_OK;
    char *text = NULL;
    pthread_rwlock_rdlock(&store->lock);
    if (sh_store_is_failed(store) || batch->is_lost) HD_GOTO(report_failure(store, error));
    rocksdb_write(store->db, is_synced ? store->write_synced : store->write_plain, batch->rocks, &text);
    if (text) {
        note_failure(store, code_of(text), text);
        rocksdb_free(text);
        status = report_failure(store, error);
    }
out:
    pthread_rwlock_unlock(&store->lock);
    return status;
}

/* -- scans ------------------------------------------------------------------------------------------------------------------------------- */

hd_status sh_scan_open(sh_store *store, sh_family family, hd_str prefix, sh_scan **scan_out, hd_error *error) {
    *scan_out = NULL;
    pthread_rwlock_rdlock(&store->lock);
    if (!store->db) {
        pthread_rwlock_unlock(&store->lock);
        return report_failure(store, error);
    }
    sh_scan *scan = hd_alloc_zero(1, sizeof(*scan));
    scan->store = store;
    scan->prefix = hd_str_to_c(prefix);
    scan->prefix_size = prefix.size;
    rocksdb_readoptions_t *options = rocksdb_readoptions_create();
    rocksdb_readoptions_set_fill_cache(options, 0); /* a load would push everything else out */
    rocksdb_readoptions_set_readahead_size(options, 2 << 20);
    scan->at = rocksdb_create_iterator_cf(store->db, options, store->handles[family]);
    rocksdb_readoptions_destroy(options);
    *scan_out = scan;
    return HD_OK;
}

bool sh_scan_next(sh_scan *scan, hd_str *key_out, hd_str *value_out) {
    if (scan->is_ended) return false;
    if (scan->is_started) {
        rocksdb_iter_next(scan->at);
    } else {
        rocksdb_iter_seek(scan->at, scan->prefix, scan->prefix_size);
        scan->is_started = true;
    }
    scan->is_ended = !rocksdb_iter_valid(scan->at);
    if (scan->is_ended) return false;
    key_out->data = rocksdb_iter_key(scan->at, &key_out->size);
    scan->is_ended = key_out->size < scan->prefix_size || memcmp(key_out->data, scan->prefix, scan->prefix_size) != 0;
    if (scan->is_ended) return false;
    value_out->data = rocksdb_iter_value(scan->at, &value_out->size);
    return true;
}

hd_status sh_scan_status(sh_scan *scan, hd_error *error) {
    char *text = NULL;
    rocksdb_iter_get_error(scan->at, &text);
    return text ? translate(text, "the store cannot read", error) : HD_OK;
}

void sh_scan_close(sh_scan *scan) {
    if (!scan) return;
    rocksdb_iter_destroy(scan->at);
    pthread_rwlock_unlock(&scan->store->lock);
    hd_free(scan->prefix);
    hd_free(scan);
}
