/* The embedded catalog: one SQLite file, held by one coordinator. This is sqlite3.h's only includer.
 *
 * The file is the truth: a change is committed (WAL, synchronous=FULL) before the memory shows it and before it is answered. Reads
 * never touch the file. One mutex serialises changes; the memory's own lock is taken inside it, after the commit, for the moment that
 * the change of memory takes.
 *
 *     counters(name, next)      ids that were handed out are never handed out again, whatever became of them; they begin at a random
 *                               place, so that another catalog (this one lost, or a second cluster on the same shards by mistake)
 *                               does not take partitions that shards hold already for its own
 *     orgs, partitions, keys    what catalog.h says of them
 *     drops                     partitions that a shard may hold and no org has
 *     admin(hash)               of the cluster's admin key
 *
 * The file's format is its user_version; a newer one is refused, and so is a file that another program made. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/log.h"
#include "common/text.h"
#include "coordinator/cluster/catalog_cache.h"

enum { CATALOG_FORMAT = 1, CATALOG_APPLICATION = 0x48444c31 /* "HDL1" */, KEY_RANDOM_SIZE = 32, ADMIN_KEY_FILE_MAX = 512 };

struct co_catalog {
    sqlite3 *db;
    pthread_mutex_t lock; /* over db */
    co_catalog_cache *cache;
};

static const char catalog_schema[] =
    "CREATE TABLE counters (name TEXT PRIMARY KEY, next INTEGER NOT NULL) STRICT;"
    "CREATE TABLE orgs (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, dimension INTEGER NOT NULL, embedding INTEGER NOT NULL,"
    " is_suspended INTEGER NOT NULL DEFAULT 0, events_max INTEGER NOT NULL, bytes_max INTEGER NOT NULL,"
    " created_at_us INTEGER NOT NULL) STRICT;"
    "CREATE TABLE partitions (id INTEGER PRIMARY KEY, org INTEGER NOT NULL REFERENCES orgs ON DELETE CASCADE,"
    " position INTEGER NOT NULL, epoch INTEGER NOT NULL, shard TEXT NOT NULL, UNIQUE (org, position)) STRICT;"
    "CREATE TABLE keys (id INTEGER PRIMARY KEY, org INTEGER NOT NULL REFERENCES orgs ON DELETE CASCADE, name TEXT NOT NULL,"
    " roles INTEGER NOT NULL, hash BLOB NOT NULL UNIQUE, created_at_us INTEGER NOT NULL, UNIQUE (org, name)) STRICT;"
    "CREATE TABLE drops (partition INTEGER PRIMARY KEY, org INTEGER NOT NULL, epoch INTEGER NOT NULL, dimension INTEGER NOT NULL,"
    " shard TEXT NOT NULL) STRICT;"
    "CREATE TABLE admin (hash BLOB NOT NULL) STRICT;";

/* ---- SQLite ---- */

static hd_status translate(sqlite3 *db, int code, hd_error *error, const char *doing) {
    const char *text = db != NULL ? sqlite3_errmsg(db) : sqlite3_errstr(code);
    switch (code & 0xff) {
    case SQLITE_FULL: return hd_error_set(error, HD_STORE_FULL, "catalog", "the disk has no room while %s", doing);
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return hd_error_set(error, HD_UNAVAILABLE, "catalog", "the catalog is in use by another process (while %s)", doing);
    case SQLITE_NOTADB:
        return hd_error_set(error, HD_STORE_CORRUPT, "catalog", "the file is no catalog: %s (while %s)", text, doing);
    case SQLITE_CORRUPT:
        return hd_error_set(error, HD_STORE_CORRUPT, "catalog", "the catalog is damaged: %s (while %s)", text, doing);
    default: return hd_error_set(error, HD_STORE_IO, "catalog", "%s (while %s)", text, doing);
    }
}

static hd_status prepare(co_catalog *catalog, const char *sql, sqlite3_stmt **statement_out, hd_error *error, const char *doing) {
    int code = sqlite3_prepare_v2(catalog->db, sql, -1, statement_out, NULL);
    return code == SQLITE_OK ? HD_OK : translate(catalog->db, code, error, doing);
}

/* Runs one statement that gives no rows. `types`, one letter an argument: i (uint64_t), t (hd_str), h (a key's hash). */
static hd_status execute(co_catalog *catalog, hd_error *error, const char *doing, const char *sql, const char *types, ...) {
    sqlite3_stmt *statement = NULL;
    HD_TRY(prepare(catalog, sql, &statement, error, doing));
    va_list arguments;
    va_start(arguments, types);
    int code = SQLITE_OK;
    for (int i = 0; types[i] != '\0' && code == SQLITE_OK; i++) {
        if (types[i] == 'i') {
            code = sqlite3_bind_int64(statement, i + 1, (sqlite3_int64)va_arg(arguments, uint64_t));
        } else if (types[i] == 't') {
            hd_str text = va_arg(arguments, hd_str);
            code = sqlite3_bind_text(statement, i + 1, text.data, (int)text.size, SQLITE_TRANSIENT);
        } else {
            code = sqlite3_bind_blob(statement, i + 1, va_arg(arguments, const uint8_t *), CO_KEY_HASH_SIZE, SQLITE_TRANSIENT);
        }
    }
    va_end(arguments);
    if (code == SQLITE_OK) code = sqlite3_step(statement);
    hd_status status = code == SQLITE_DONE || code == SQLITE_ROW ? HD_OK : translate(catalog->db, code, error, doing);
    sqlite3_finalize(statement);
    return status;
}

static hd_status execute_script(co_catalog *catalog, hd_error *error, const char *doing, const char *sql) {
    int code = sqlite3_exec(catalog->db, sql, NULL, NULL, NULL);
    return code == SQLITE_OK ? HD_OK : translate(catalog->db, code, error, doing);
}

/* Begins a change: one at a time; on success the lock is held until leave_change. */
static hd_status begin_change(co_catalog *catalog, hd_error *error) {
    pthread_mutex_lock(&catalog->lock);
    hd_status status = execute_script(catalog, error, "beginning a change", "BEGIN IMMEDIATE");
    if (status != HD_OK) pthread_mutex_unlock(&catalog->lock);
    return status;
}

/* Commits where `status` is OK, else takes everything back. The memory follows before the lock is given up, so that whoever holds the
 * lock finds the memory as the file is. */
static hd_status finish_change(co_catalog *catalog, hd_status status, hd_error *error) {
    if (status == HD_OK) status = execute_script(catalog, error, "committing a change", "COMMIT");
    if (status != HD_OK) sqlite3_exec(catalog->db, "ROLLBACK", NULL, NULL, NULL);
    return status;
}

static void leave_change(co_catalog *catalog) {
    pthread_mutex_unlock(&catalog->lock);
}

static hd_status read_number(co_catalog *catalog, hd_error *error, const char *doing, const char *sql, uint64_t *number_out) {
    sqlite3_stmt *statement = NULL;
    HD_TRY(prepare(catalog, sql, &statement, error, doing));
    int code = sqlite3_step(statement);
    if (code == SQLITE_ROW) *number_out = (uint64_t)sqlite3_column_int64(statement, 0);
    hd_status status = code == SQLITE_ROW ? HD_OK
                       : code == SQLITE_DONE
                           ? hd_error_set(error, HD_STORE_CORRUPT, "catalog", "the catalog lacks a row (while %s)", doing)
                           : translate(catalog->db, code, error, doing);
    sqlite3_finalize(statement);
    return status;
}

static const char *column_text(sqlite3_stmt *statement, int column) {
    const unsigned char *text = sqlite3_column_text(statement, column);
    return text != NULL ? (const char *)text : "";
}

/* ---- opening ---- */

static hd_status open_file(co_catalog *catalog, const char *path, hd_error *error) {
    /* Made here first, so that hashes of keys are nobody else's to read; SQLite gives its WAL the same mode. */
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) {
        return hd_error_set(error, errno == ENOSPC ? HD_STORE_FULL : HD_STORE_IO, "catalog", "%s: %s", path, strerror(errno));
    }
    close(file);
    int code = sqlite3_open_v2(path, &catalog->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code != SQLITE_OK) return translate(catalog->db, code, error, "opening the catalog");
    sqlite3_extended_result_codes(catalog->db, 1);
    return execute_script(catalog, error, "opening the catalog",
                          "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;"
                          "BEGIN EXCLUSIVE; COMMIT;");
}

static hd_status check_format(co_catalog *catalog, hd_error *error) {
    uint64_t format = 0, application = 0, tables = 0;
    HD_TRY(read_number(catalog, error, "reading the format", "PRAGMA user_version", &format));
    HD_TRY(read_number(catalog, error, "reading the format", "PRAGMA application_id", &application));
    HD_TRY(read_number(catalog, error, "reading the format", "SELECT count(*) FROM sqlite_master", &tables));
    if (application == CATALOG_APPLICATION && format == CATALOG_FORMAT) return HD_OK;
    if (application == CATALOG_APPLICATION) {
        return hd_error_set(error, HD_STORE_CORRUPT, "catalog",
                            "the catalog has format %llu and this program knows format %d; use the version of Heddle that made it",
                            (unsigned long long)format, CATALOG_FORMAT);
    }
    if (application != 0 || format != 0 || tables != 0) {
        return hd_error_set(error, HD_STORE_CORRUPT, "catalog", "the file is a database of another program, not a catalog");
    }
    /* 2^32 places to begin at, 2^20 ids apart, and all below 2^53: JSON readers that know doubles alone read them exactly. */
    uint64_t first = ((hd_random_u64() >> 32) << 20) + 1;
    char script[sizeof(catalog_schema) + 256];
    snprintf(script, sizeof(script),
             "BEGIN; %s INSERT INTO counters VALUES ('id', %llu); PRAGMA application_id=%d; PRAGMA user_version=%d; COMMIT;",
             catalog_schema, (unsigned long long)first, CATALOG_APPLICATION, CATALOG_FORMAT);
    return execute_script(catalog, error, "making the catalog", script);
}

static hd_status load_partitions(co_catalog *catalog, uint64_t org, co_partition *partitions, uint32_t count, hd_error *error) {
    sqlite3_stmt *statement = NULL;
    HD_TRY(prepare(catalog, "SELECT position, id, epoch, shard FROM partitions WHERE org = ? ORDER BY position", &statement, error,
                   "reading partitions"));
    sqlite3_bind_int64(statement, 1, (sqlite3_int64)org);
    uint32_t seen = 0;
    while (sqlite3_step(statement) == SQLITE_ROW && seen < count && (uint32_t)sqlite3_column_int64(statement, 0) == seen) {
        partitions[seen++] = (co_partition){.id = (uint64_t)sqlite3_column_int64(statement, 1),
                                            .epoch = (uint64_t)sqlite3_column_int64(statement, 2),
                                            .shard = hd_strdup(column_text(statement, 3))};
    }
    sqlite3_finalize(statement);
    if (seen == count) return HD_OK;
    return hd_error_set(error, HD_STORE_CORRUPT, "catalog", "org %llu has not the partitions it should have",
                        (unsigned long long)org);
}

static hd_status load_org(co_catalog *catalog, sqlite3_stmt *row, hd_error *error) {
    co_org org = {.id = (uint64_t)sqlite3_column_int64(row, 0),
                  .name = column_text(row, 1),
                  .dimension = (uint32_t)sqlite3_column_int64(row, 2),
                  .embedding = (co_embedding)sqlite3_column_int64(row, 3),
                  .is_suspended = sqlite3_column_int64(row, 4) != 0,
                  .events_max = (uint64_t)sqlite3_column_int64(row, 5),
                  .bytes_max = (uint64_t)sqlite3_column_int64(row, 6),
                  .created_at_us = sqlite3_column_int64(row, 7),
                  .partition_count = (uint32_t)sqlite3_column_int64(row, 8)};
    if (org.partition_count < 1 || org.partition_count > HD_PARTITIONS_MAX ||
        (org.partition_count & (org.partition_count - 1)) != 0 || org.dimension < 1 || org.dimension > CO_DIMENSION_MAX) {
        return hd_error_set(error, HD_STORE_CORRUPT, "catalog", "org %s has impossible figures", org.name);
    }
    co_partition partitions[HD_PARTITIONS_MAX] = {0};
    org.partitions = partitions;
    hd_status status = load_partitions(catalog, org.id, partitions, org.partition_count, error);
    if (status == HD_OK) co_catalog_cache_add_org(catalog->cache, &org);
    for (uint32_t i = 0; i < org.partition_count; i++) hd_free((char *)(uintptr_t)partitions[i].shard);
    return status;
}

static hd_status load_orgs(co_catalog *catalog, hd_error *error) {
    sqlite3_stmt *row = NULL;
    HD_TRY(prepare(catalog,
                   "SELECT id, name, dimension, embedding, is_suspended, events_max, bytes_max, created_at_us,"
                   " (SELECT count(*) FROM partitions WHERE partitions.org = orgs.id) FROM orgs ORDER BY id",
                   &row, error, "reading orgs"));
    hd_status status = HD_OK;
    int code;
    while (status == HD_OK && (code = sqlite3_step(row)) != SQLITE_DONE) {
        status = code == SQLITE_ROW ? load_org(catalog, row, error) : translate(catalog->db, code, error, "reading orgs");
    }
    sqlite3_finalize(row);
    return status;
}

static hd_status load_keys(co_catalog *catalog, hd_error *error) {
    sqlite3_stmt *row = NULL;
    HD_TRY(prepare(catalog, "SELECT id, org, name, roles, hash, created_at_us FROM keys", &row, error, "reading keys"));
    hd_status status = HD_OK;
    int code;
    while (status == HD_OK && (code = sqlite3_step(row)) != SQLITE_DONE) {
        if (code != SQLITE_ROW) {
            status = translate(catalog->db, code, error, "reading keys");
        } else if (sqlite3_column_bytes(row, 4) != CO_KEY_HASH_SIZE) {
            status = hd_error_set(error, HD_STORE_CORRUPT, "catalog", "a key's hash has the wrong size");
        } else {
            co_catalog_key key = {.id = (uint64_t)sqlite3_column_int64(row, 0),
                                  .org = (uint64_t)sqlite3_column_int64(row, 1),
                                  .name = column_text(row, 2),
                                  .roles = (uint32_t)sqlite3_column_int64(row, 3),
                                  .created_at_us = sqlite3_column_int64(row, 5)};
            memcpy(key.hash, sqlite3_column_blob(row, 4), CO_KEY_HASH_SIZE);
            co_catalog_cache_add_key(catalog->cache, &key);
        }
    }
    sqlite3_finalize(row);
    return status;
}

/* ---- keys ---- */

/* "hd_", a letter for the strongest role, 64 hex digits. */
static void make_key(char letter, hd_buf *text_out) {
    uint8_t random[KEY_RANDOM_SIZE];
    hd_random_bytes(random, sizeof(random));
    hd_buf_printf(text_out, "hd_%c", letter);
    for (size_t i = 0; i < sizeof(random); i++) hd_buf_printf(text_out, "%02x", random[i]);
    explicit_bzero(random, sizeof(random));
}

static char role_letter(uint32_t roles) {
    return roles & CO_ROLE_ADMIN ? 'a' : roles & CO_ROLE_WRITE ? 'w' : 'r';
}

static hd_status write_admin_key(const char *path, hd_str key, hd_error *error) {
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return hd_error_set(error, HD_STORE_IO, "catalog", "%s: %s", path, strerror(errno));
    bool is_written = write(file, key.data, key.size) == (ssize_t)key.size && write(file, "\n", 1) == 1 && fsync(file) == 0;
    int problem = errno;
    close(file);
    if (is_written) return HD_OK;
    unlink(path);
    return hd_error_set(error, problem == ENOSPC ? HD_STORE_FULL : HD_STORE_IO, "catalog", "%s: %s", path, strerror(problem));
}

/* The key that stands in the file. HD_NOT_FOUND: there is no file. */
static hd_status read_admin_key(const char *path, hd_buf *key_out, hd_error *error) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 && errno == ENOENT) return HD_NOT_FOUND;
    if (file < 0) return hd_error_set(error, HD_STORE_IO, "catalog", "%s: %s", path, strerror(errno));
    char *room = hd_buf_reserve(key_out, ADMIN_KEY_FILE_MAX);
    ssize_t size = read(file, room, ADMIN_KEY_FILE_MAX);
    close(file);
    if (size < 0) return hd_error_set(error, HD_STORE_IO, "catalog", "%s: %s", path, strerror(errno));
    while (size > 0 && (room[size - 1] == '\n' || room[size - 1] == '\r' || room[size - 1] == ' ')) size--;
    key_out->size = (size_t)size;
    bool is_plain = true;
    for (ssize_t i = 0; i < size; i++) is_plain = is_plain && room[i] > 0x20 && room[i] < 0x7f;
    if (is_plain && size >= CO_ADMIN_KEY_MIN && size < ADMIN_KEY_FILE_MAX) return HD_OK;
    return hd_error_set(error, HD_ARGUMENT, "catalog", "%s: an admin key is one line of %d or more printable ASCII characters",
                        path, CO_ADMIN_KEY_MIN);
}

static hd_status make_admin(co_catalog *catalog, const char *path, uint8_t hash_out[CO_KEY_HASH_SIZE], hd_error *error) {
    hd_buf key = {0};
    hd_status status = read_admin_key(path, &key, error);
    if (status == HD_NOT_FOUND) {
        hd_buf_clear(&key);
        make_key('c', &key);
        status = write_admin_key(path, hd_buf_get(&key), error);
        if (status == HD_OK) hd_log(HD_LOG_INFO, "catalog", "made the cluster's admin key: %s", path);
    }
    if (status == HD_OK) {
        co_catalog_cache_hash_key(hd_buf_get(&key), hash_out);
        status = execute(catalog, error, "keeping the admin key", "INSERT INTO admin (hash) VALUES (?)", "h", hash_out);
    }
    if (key.data != NULL) explicit_bzero(key.data, key.capacity);
    hd_buf_fini(&key);
    return status;
}

/* The key was made before: says so where the file beside the catalog is no longer that key, or is others' to read. It may well be gone:
 * whoever administers the cluster may keep it elsewhere. */
static void check_admin_file(const char *path, const uint8_t hash[CO_KEY_HASH_SIZE]) {
    hd_buf key = {0};
    hd_error error = {0};
    uint8_t found[CO_KEY_HASH_SIZE];
    struct stat facts;
    hd_status status = read_admin_key(path, &key, &error);
    if (status == HD_OK) {
        co_catalog_cache_hash_key(hd_buf_get(&key), found);
        if (memcmp(found, hash, sizeof(found)) != 0)
            hd_log(HD_LOG_WARN, "catalog", "%s is not the admin key: the one that was made with the catalog stays in force", path);
    } else if (status != HD_NOT_FOUND) {
        hd_log(HD_LOG_WARN, "catalog", "%s; the key that was made with the catalog stays in force", error.message);
    }
    if (stat(path, &facts) == 0 && (facts.st_mode & 077) != 0)
        hd_log(HD_LOG_WARN, "catalog", "%s is others' to read (mode %04o): chmod 600 it", path, facts.st_mode & 07777u);
    if (key.data != NULL) explicit_bzero(key.data, key.capacity);
    hd_buf_fini(&key);
}

static hd_status load_admin(co_catalog *catalog, const char *path, hd_error *error) {
    uint8_t hash[CO_KEY_HASH_SIZE];
    sqlite3_stmt *row = NULL;
    HD_TRY(prepare(catalog, "SELECT hash FROM admin", &row, error, "reading the admin key"));
    bool is_there = sqlite3_step(row) == SQLITE_ROW && sqlite3_column_bytes(row, 0) == CO_KEY_HASH_SIZE;
    if (is_there) memcpy(hash, sqlite3_column_blob(row, 0), CO_KEY_HASH_SIZE);
    sqlite3_finalize(row);
    if (!is_there) HD_TRY(make_admin(catalog, path, hash, error));
    check_admin_file(path, hash);
    co_catalog_cache_set_admin(catalog->cache, hash);
    return HD_OK;
}

hd_status co_catalog_open_local(const char *path, const char *admin_key_path, co_catalog **catalog_out, hd_error *error) {
    co_catalog *catalog = hd_alloc_zero(1, sizeof(*catalog));
    HD_CHECK(pthread_mutex_init(&catalog->lock, NULL) == 0);
    catalog->cache = co_catalog_cache_new();
    hd_status status = open_file(catalog, path, error);
    if (status == HD_OK) status = check_format(catalog, error);
    if (status == HD_OK) status = load_admin(catalog, admin_key_path, error);
    if (status == HD_OK) status = load_orgs(catalog, error);
    if (status == HD_OK) status = load_keys(catalog, error);
    if (status != HD_OK) {
        hd_error_add_context(error, "opening %s", path);
        co_catalog_close(catalog);
        catalog = NULL;
    }
    *catalog_out = catalog;
    return status;
}

void co_catalog_close(co_catalog *catalog) {
    if (catalog == NULL) return;
    sqlite3_close(catalog->db);
    co_catalog_cache_free(catalog->cache);
    pthread_mutex_destroy(&catalog->lock);
    hd_free(catalog);
}

/* ---- reads ---- */

hd_status co_catalog_authenticate(co_catalog *catalog, hd_str key, co_principal *principal_out) {
    return co_catalog_cache_authenticate(catalog->cache, key, principal_out);
}
hd_status co_catalog_get_org(co_catalog *catalog, uint64_t id, const co_org **org_out) {
    return co_catalog_cache_get_org(catalog->cache, id, org_out);
}
hd_status co_catalog_find_org(co_catalog *catalog, hd_str name, const co_org **org_out) {
    return co_catalog_cache_find_org(catalog->cache, name, org_out);
}
hd_status co_catalog_list_orgs(co_catalog *catalog, hd_arena *arena, const co_org ***orgs_out, uint32_t *count_out) {
    return co_catalog_cache_list_orgs(catalog->cache, arena, orgs_out, count_out);
}
hd_status co_catalog_list_keys(co_catalog *catalog, uint64_t org_id, hd_arena *arena, co_key_info **keys_out, uint32_t *count_out) {
    return co_catalog_cache_list_keys(catalog->cache, org_id, arena, keys_out, count_out);
}

/* ---- changes ---- */

static bool is_name(hd_str name) {
    if (name.size < 1 || name.size > CO_NAME_MAX) return false;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        bool is_fine =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
        if (!is_fine) return false;
    }
    return true;
}

hd_status co_catalog_check_name(hd_str name, const char *what, hd_error *error) {
    if (is_name(name)) return HD_OK;
    return hd_error_set(error, HD_ARGUMENT, "catalog", "the name of %s is 1 to %d characters of A-Z a-z 0-9 . _ -", what,
                        CO_NAME_MAX);
}

static hd_status reserve(co_catalog *catalog, uint32_t count, uint64_t *first_out, hd_error *error) {
    HD_TRY(read_number(catalog, error, "reserving ids", "SELECT next FROM counters WHERE name = 'id'", first_out));
    return execute(catalog, error, "reserving ids", "UPDATE counters SET next = next + ? WHERE name = 'id'", "i", (uint64_t)count);
}

hd_status co_catalog_reserve_ids(co_catalog *catalog, uint32_t count, uint64_t *first_out, hd_error *error) {
    HD_TRY(begin_change(catalog, error));
    hd_status status = finish_change(catalog, reserve(catalog, count, first_out, error), error);
    leave_change(catalog);
    return status;
}

static hd_status insert_org(co_catalog *catalog, const co_org *org, hd_error *error) {
    static const char doing[] = "making an org";
    HD_TRY(execute(catalog, error, doing,
                   "INSERT INTO orgs (id, name, dimension, embedding, events_max, bytes_max, created_at_us) VALUES (?,?,?,?,?,?,?)",
                   "itiiiii", org->id, hd_str_of(org->name), (uint64_t)org->dimension, (uint64_t)org->embedding, org->events_max,
                   org->bytes_max, (uint64_t)org->created_at_us));
    for (uint32_t i = 0; i < org->partition_count; i++) {
        const co_partition *p = &org->partitions[i];
        HD_TRY(execute(catalog, error, doing, "INSERT INTO partitions (id, org, position, epoch, shard) VALUES (?,?,?,?,?)",
                       "iiiit", p->id, org->id, (uint64_t)i, p->epoch, hd_str_of(p->shard)));
        HD_TRY(execute(catalog, error, doing, "DELETE FROM drops WHERE partition = ?", "i", p->id));
    }
    return HD_OK;
}

hd_status co_catalog_create_org(co_catalog *catalog, const co_org_spec *spec, uint64_t org_id, const uint64_t *partition_ids,
                                hd_error *error) {
    HD_TRY(co_catalog_check_name(spec->name, "an org", error));
    HD_CHECK(spec->partitions >= 1 && spec->partitions <= HD_PARTITIONS_MAX);
    co_partition partitions[HD_PARTITIONS_MAX];
    for (uint32_t i = 0; i < spec->partitions; i++)
        partitions[i] = (co_partition){.id = partition_ids[i], .epoch = 1, .shard = spec->shards[i]};
    char *name = hd_str_to_c(spec->name);
    co_org org = {.id = org_id,
                  .name = name,
                  .dimension = spec->dimension,
                  .embedding = spec->embedding,
                  .partition_count = spec->partitions,
                  .partitions = partitions,
                  .events_max = spec->events_max,
                  .bytes_max = spec->bytes_max,
                  .created_at_us = hd_clock_wall_us()};
    const co_org *other = NULL;
    hd_status status = begin_change(catalog, error);
    if (status == HD_OK) {
        bool is_taken = co_catalog_find_org(catalog, spec->name, &other) == HD_OK;
        if (is_taken)
            status = hd_error_set(error, HD_ALREADY_EXISTS, "catalog", "there is an org named %s already", name);
        else
            status = insert_org(catalog, &org, error);
        status = finish_change(catalog, status, error);
        if (status == HD_OK) co_catalog_cache_add_org(catalog->cache, &org);
        leave_change(catalog);
    }
    co_org_release(other);
    hd_free(name);
    return status;
}

hd_status co_catalog_delete_org(co_catalog *catalog, uint64_t org_id, hd_error *error) {
    static const char doing[] = "deleting an org";
    HD_TRY(begin_change(catalog, error));
    hd_status status =
        execute(catalog, error, doing,
                "INSERT INTO drops (partition, org, epoch, dimension, shard) SELECT p.id, p.org, p.epoch, o.dimension,"
                " p.shard FROM partitions p JOIN orgs o ON o.id = p.org WHERE o.id = ?",
                "i", org_id);
    if (status == HD_OK) status = execute(catalog, error, doing, "DELETE FROM orgs WHERE id = ?", "i", org_id);
    if (status == HD_OK && sqlite3_changes(catalog->db) == 0)
        status = hd_error_set(error, HD_NOT_FOUND, "catalog", "there is no such org");
    status = finish_change(catalog, status, error);
    if (status == HD_OK) co_catalog_cache_remove_org(catalog->cache, org_id);
    leave_change(catalog);
    return status;
}

hd_status co_catalog_add_drops(co_catalog *catalog, const co_drop *drops, uint32_t count, hd_error *error) {
    HD_TRY(begin_change(catalog, error));
    hd_status status = HD_OK;
    for (uint32_t i = 0; i < count && status == HD_OK; i++) {
        status = execute(catalog, error, "noting partitions to drop", "INSERT OR REPLACE INTO drops VALUES (?,?,?,?,?)", "iiiit",
                         drops[i].partition, drops[i].org, drops[i].epoch, (uint64_t)drops[i].dimension, drops[i].shard);
    }
    status = finish_change(catalog, status, error);
    leave_change(catalog);
    return status;
}

static hd_status read_drop(sqlite3_stmt *row, hd_arena *arena, co_drop *drop_out) {
    *drop_out = (co_drop){.partition = (uint64_t)sqlite3_column_int64(row, 0),
                          .org = (uint64_t)sqlite3_column_int64(row, 1),
                          .epoch = (uint64_t)sqlite3_column_int64(row, 2),
                          .dimension = (uint32_t)sqlite3_column_int64(row, 3)};
    return hd_arena_dup(arena, hd_str_of(column_text(row, 4)), &drop_out->shard);
}

hd_status co_catalog_list_drops(co_catalog *catalog, hd_arena *arena, co_drop **drops_out, uint32_t *count_out, hd_error *error) {
    static const char doing[] = "reading partitions to drop";
    sqlite3_stmt *row = NULL;
    uint64_t count = 0;
    uint32_t seen = 0;
    pthread_mutex_lock(&catalog->lock);
    hd_status status = read_number(catalog, error, doing, "SELECT count(*) FROM drops", &count);
    co_drop *drops = hd_arena_alloc_zero(arena, count, sizeof(*drops));
    if (status == HD_OK && drops == NULL) status = HD_MEMORY;
    if (status == HD_OK)
        status =
            prepare(catalog, "SELECT partition, org, epoch, dimension, shard FROM drops ORDER BY partition", &row, error, doing);
    while (status == HD_OK && seen < count && sqlite3_step(row) == SQLITE_ROW) status = read_drop(row, arena, &drops[seen++]);
    sqlite3_finalize(row);
    pthread_mutex_unlock(&catalog->lock);
    *drops_out = drops;
    *count_out = seen;
    return status;
}

hd_status co_catalog_forget_drop(co_catalog *catalog, uint64_t partition, hd_error *error) {
    HD_TRY(begin_change(catalog, error));
    hd_status status =
        execute(catalog, error, "noting a dropped partition", "DELETE FROM drops WHERE partition = ?", "i", partition);
    status = finish_change(catalog, status, error);
    leave_change(catalog);
    return status;
}

/* Is the name free within the org? Asked of the memory, under the lock. */
static hd_status check_key_name(co_catalog *catalog, uint64_t org_id, hd_str name, hd_arena *arena, hd_error *error) {
    co_key_info *keys;
    uint32_t count;
    hd_status status = co_catalog_list_keys(catalog, org_id, arena, &keys, &count);
    if (status == HD_NOT_FOUND) return hd_error_set(error, status, "catalog", "there is no such org");
    HD_TRY(status);
    for (uint32_t i = 0; i < count; i++) {
        if (hd_str_is_equal(keys[i].name, name)) {
            return hd_error_set(error, HD_ALREADY_EXISTS, "catalog", "the org has a key named " HD_STR_FMT " already",
                                HD_STR_ARG(name));
        }
    }
    return HD_OK;
}

hd_status co_catalog_create_key(co_catalog *catalog, uint64_t org_id, hd_str name, uint32_t roles, hd_arena *arena,
                                uint64_t *id_out, hd_str *key_out, hd_error *error) {
    HD_TRY(co_catalog_check_name(name, "a key", error));
    if (roles & CO_ROLE_WRITE) roles |= CO_ROLE_READ;
    hd_buf text = {0};
    make_key(role_letter(roles), &text);
    co_catalog_key key = {.org = org_id, .roles = roles, .created_at_us = hd_clock_wall_us()};
    co_catalog_cache_hash_key(hd_buf_get(&text), key.hash);
    hd_str key_name = {0};
    hd_status status = hd_arena_dup(arena, hd_buf_get(&text), key_out);
    if (status == HD_OK) status = hd_arena_dup(arena, name, &key_name);
    if (status == HD_OK) status = begin_change(catalog, error);
    if (status == HD_OK) {
        status = check_key_name(catalog, org_id, name, arena, error);
        if (status == HD_OK) status = reserve(catalog, 1, &key.id, error);
        if (status == HD_OK)
            status = execute(catalog, error, "making a key",
                             "INSERT INTO keys (id, org, name, roles, hash, created_at_us) VALUES (?,?,?,?,?,?)", "iitihi", key.id,
                             org_id, name, (uint64_t)roles, key.hash, (uint64_t)key.created_at_us);
        status = finish_change(catalog, status, error);
        key.name = key_name.data; /* hd_arena_dup ends its copies with a NUL */
        if (status == HD_OK) co_catalog_cache_add_key(catalog->cache, &key);
        leave_change(catalog);
    }
    *id_out = key.id;
    explicit_bzero(text.data, text.size);
    hd_buf_fini(&text);
    return status;
}

hd_status co_catalog_revoke_key(co_catalog *catalog, uint64_t org_id, uint64_t key_id, hd_error *error) {
    HD_TRY(begin_change(catalog, error));
    hd_status status = execute(catalog, error, "revoking a key", "DELETE FROM keys WHERE org = ? AND id = ?", "ii", org_id, key_id);
    if (status == HD_OK && sqlite3_changes(catalog->db) == 0)
        status = hd_error_set(error, HD_NOT_FOUND, "catalog", "the org has no such key");
    status = finish_change(catalog, status, error);
    if (status == HD_OK) co_catalog_cache_remove_key(catalog->cache, org_id, key_id);
    leave_change(catalog);
    return status;
}
