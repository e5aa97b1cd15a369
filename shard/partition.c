/* Which partitions there are, and which of them are in memory.
 *
 *   entry  ── one a partition the store holds; lives as long as the table
 *     └ load ── one building of its graph; the newest hangs on the entry, older ones live on until their last holder lets go
 *
 * Locks: `commit_lock` before `lock`; `lock` is never held over store reads, graph building or freeing. */
#include "shard/partition.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/ids.h"
#include "common/log.h"
#include "common/map.h"

enum { SUMMARY_BYTES = 2048 }; /* holds any summary that the tools let pass: 500 characters of 4 bytes, and its size */

typedef struct entry entry;

typedef struct load {
    sh_partition partition; /* first: what callers hold */
    entry *owner;
    uint32_t pins;
    bool is_detached; /* no longer the entry's: freed with the last pin */
    uint64_t bytes;   /* of the graph, at the last commit */
    uint64_t used_at; /* number of the last release, for the order of leaving */
    struct load *next_free;
} load;

struct entry {
    hd_partition_spec spec;
    sh_commit commit; /* as stored with the last group */
    load *current;    /* NULL: not in memory */
    bool is_here, is_loading, is_dropping;
};

struct sh_partitions {
    sh_store *store;
    uint64_t memory_max;
    pthread_mutex_t commit_lock;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    hd_map64 by_id; /* index in entries */
    entry **entries;
    uint32_t count, capacity;
    uint64_t generation; /* of the store: grows when all loads are let go; a load begun before is built again */
    uint64_t uses, memory_bytes, loaded, loads, evictions;
};

static entry *find_entry(const sh_partitions *p, uint64_t id) {
    uint32_t index = id == UINT64_MAX ? HD_MAP_NONE : hd_map64_get(&p->by_id, id);
    return index == HD_MAP_NONE || !p->entries[index]->is_here ? NULL : p->entries[index];
}

/* The entry of `id`, made where there is none (also one whose partition was dropped). */
static entry *make_entry(sh_partitions *p, uint64_t id) {
    uint32_t index = 0;
    bool is_new = false;
    HD_CHECK(hd_map64_put(&p->by_id, id, p->count, &index, &is_new) == HD_OK); /* on the heap, so it cannot fail */
    if (!is_new) return p->entries[index];
    if (p->count == p->capacity) {
        p->capacity = HD_MAX(64u, p->capacity * 2);
        p->entries = hd_realloc(p->entries, p->capacity * sizeof(*p->entries));
    }
    p->entries[p->count] = hd_alloc_zero(1, sizeof(entry));
    return p->entries[p->count++];
}

/* -- building a graph from the store --------------------------------------------------------------------------------------------- */

typedef struct builder {
    sh_store *store;
    uint64_t id;
    hd_partition_spec spec;
    sh_commit stored;
    hd_arena *arena;
    uint64_t *dead; /* record numbers, ascending */
    size_t dead_count, dead_capacity, dead_at;
    sh_scan *vectors;
    uint64_t vector_record; /* of the row the vector scan stands on; UINT64_MAX: at its end */
    hd_str vector_value;
    float *vector;
    sh_graph *graph;
    uint64_t events, vector_count;
} builder;

static hd_status damaged(const builder *b, uint64_t record, const char *what, hd_error *error) {
    return hd_error_set(error, HD_STORE_CORRUPT, "partition", "partition %" PRIu64 ", record %" PRIu64 ": %s does not decode",
                        b->id, record, what);
}

static hd_status read_meta(builder *b, hd_error *error) {
    char key[SH_KEY_META_SIZE];
    sh_key_of_meta(b->id, key);
    hd_str value = {0};
    HD_TRY(sh_store_get(b->store, SH_FAMILY_META, (hd_str){key, sizeof(key)}, b->arena, &value, error));
    if (!sh_value_read_meta(value, &b->spec, &b->stored)) return damaged(b, 0, "its description", error);
    b->spec.id = b->id;
    return HD_OK;
}

static hd_status read_dead(builder *b, hd_str prefix, hd_error *error) {
    sh_scan *scan = NULL;
    HD_TRY(sh_scan_open(b->store, SH_FAMILY_DEAD, prefix, &scan, error));
    hd_status status = HD_OK;
    hd_str key, value;
    uint64_t partition = 0, record = 0;
    while (sh_scan_next(scan, &key, &value)) {
        if (!sh_key_parse_record(key, &partition, &record)) HD_GOTO(damaged(b, 0, "a mark of death", error));
        if (b->dead_count == b->dead_capacity) {
            b->dead_capacity = HD_MAX((size_t)64, b->dead_capacity * 2);
            b->dead = hd_realloc(b->dead, b->dead_capacity * sizeof(*b->dead));
        }
        b->dead[b->dead_count++] = record;
    }
    status = sh_scan_status(scan, error);
out:
    sh_scan_close(scan);
    return status;
}

static bool is_dead(builder *b, uint64_t record) {
    while (b->dead_at < b->dead_count && b->dead[b->dead_at] < record) b->dead_at++;
    return b->dead_at < b->dead_count && b->dead[b->dead_at] == record;
}

/* Both scans go up by record number, so the vector of a record is found by moving on. */
static hd_status find_vector(builder *b, uint64_t record, hd_error *error) {
    while (b->vector_record < record) {
        hd_str key;
        uint64_t partition;
        if (!sh_scan_next(b->vectors, &key, &b->vector_value)) {
            b->vector_record = UINT64_MAX;
            HD_TRY(sh_scan_status(b->vectors, error));
        } else if (!sh_key_parse_record(key, &partition, &b->vector_record)) {
            return damaged(b, record, "the key of its vector", error);
        }
    }
    if (b->vector_record != record || !sh_value_read_vector(b->vector_value, b->spec.dimension, b->vector))
        return damaged(b, record, "its vector", error);
    return HD_OK;
}

static hd_status apply_row(builder *b, hd_str key, hd_str value, hd_error *error) {
    uint64_t partition = 0, number = 0, born = 0;
    bool has_vector = false;
    hd_event_record record;
    if (!sh_key_parse_record(key, &partition, &number)) return damaged(b, 0, "a key", error);
    if (is_dead(b, number)) return HD_OK;
    if (sh_value_read_event(b->arena, value, &record, &born, &has_vector) != HD_OK || number >= b->stored.record_next ||
        born > b->stored.sequence)
        return damaged(b, number, "it", error);
    if (has_vector) {
        HD_TRY(find_vector(b, number, error));
        record.vector = b->vector;
        record.dimension = b->spec.dimension;
        b->vector_count++;
    }
    b->events++;
    (void)sh_graph_apply_save(b->graph, &record, number, b->stored.sequence);
    return HD_OK;
}

/* Versions marked dead are left out: nobody can hold a sequence from before this load. */
static hd_status apply_rows(builder *b, hd_str prefix, hd_error *error) {
    sh_scan *scan = NULL;
    hd_status status = HD_OK;
    hd_str key, value;
    hd_arena_mark mark = hd_arena_get_mark(b->arena);
    HD_GOTO(sh_scan_open(b->store, SH_FAMILY_EVENT, prefix, &scan, error));
    HD_GOTO(sh_scan_open(b->store, SH_FAMILY_VECTOR, prefix, &b->vectors, error));
    while (sh_scan_next(scan, &key, &value)) {
        HD_GOTO(apply_row(b, key, value, error));
        hd_arena_rollback(b->arena, mark);
    }
    status = sh_scan_status(scan, error);
out:
    sh_scan_close(scan);
    sh_scan_close(b->vectors);
    return status;
}

/* What is alive now, counted, against what was stored: the truth is what was read. */
static void check_counts(builder *b, sh_commit *commit_out) {
    sh_view view;
    *commit_out = b->stored;
    HD_CHECK(sh_view_enter(b->graph, 0, &view));
    commit_out->events = sh_view_live_events(&view);
    commit_out->vectors = sh_view_live_vectors(&view);
    commit_out->entities = sh_view_entity_numbers(&view); /* none but live ones were applied */
    commit_out->tags = sh_view_tag_numbers(&view);
    sh_view_leave(&view);
    if (commit_out->events != b->stored.events || commit_out->vectors != b->stored.vectors || commit_out->events != b->events ||
        commit_out->entities != b->stored.entities || commit_out->tags != b->stored.tags)
        hd_log(HD_LOG_WARN, "partition",
               "partition %" PRIu64 ": counted %" PRIu64 " events (%" PRIu64 " rows), %" PRIu64 " vectors, %" PRIu64
               " entities, %" PRIu64 " tags; stored were %" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64,
               b->id, commit_out->events, b->events, commit_out->vectors, commit_out->entities, commit_out->tags, b->stored.events,
               b->stored.vectors, b->stored.entities, b->stored.tags);
}

static hd_status build_load(sh_store *store, uint64_t id, load **load_out, hd_error *error) {
    builder b = {.store = store, .id = id, .arena = hd_arena_new(0)};
    hd_status status = HD_OK;
    load *made = NULL;
    uint64_t start_us = hd_clock_monotonic_us();
    char prefix_bytes[SH_KEY_PARTITION_SIZE];
    sh_key_of_partition(id, prefix_bytes);
    hd_str prefix = {prefix_bytes, sizeof(prefix_bytes)};
    HD_GOTO(read_meta(&b, error));
    HD_GOTO(read_dead(&b, prefix, error)); /* before the rows, which a sweep may be removing meanwhile */
    b.graph = sh_graph_new(b.spec.dimension);
    b.vector = hd_alloc(b.spec.dimension * sizeof(float));
    HD_GOTO(apply_rows(&b, prefix, error));
    sh_graph_publish(b.graph, b.stored.sequence);
    made = hd_alloc_zero(1, sizeof(*made));
    made->partition.spec = b.spec;
    made->partition.graph = b.graph;
    do made->partition.incarnation = hd_random_u64();
    while (made->partition.incarnation == 0);
    check_counts(&b, &made->partition.commit);
    made->bytes = sh_graph_memory_bytes(b.graph);
    *load_out = made;
    if (b.events > 0)
        hd_log(HD_LOG_INFO, "partition", "loaded partition %" PRIu64 ": %" PRIu64 " events, %" PRIu64 " bytes, %" PRIu64 " ms", id,
               b.events, made->bytes, (hd_clock_monotonic_us() - start_us) / 1000);
out:
    if (status != HD_OK && b.graph) sh_graph_free(b.graph);
    if (status == HD_NOT_FOUND)
        status = hd_error_set(error, HD_STORE_CORRUPT, "partition", "partition %" PRIu64 " has lost its description", id);
    hd_free(b.vector);
    hd_free(b.dead);
    hd_arena_free(b.arena);
    return status;
}

/* -- memory ------------------------------------------------------------------------------------------------------------------------ */

static void free_loads(load *list) {
    while (list) {
        load *next = list->next_free;
        sh_graph_free(list->partition.graph);
        hd_free(list);
        list = next;
    }
}

/* Takes the load off its entry; puts it on `list` when nobody holds it. Locked. */
static void detach(sh_partitions *p, entry *e, load **list) {
    load *l = e->current;
    if (!l) return;
    e->current = NULL;
    l->is_detached = true;
    p->memory_bytes -= l->bytes;
    p->loaded--;
    if (l->pins == 0) {
        l->next_free = *list;
        *list = l;
    }
}

/* Lets the least recently used go until the rest fits, or is in use. Locked. */
static void evict(sh_partitions *p, load **list) {
    while (p->memory_bytes > p->memory_max) {
        entry *oldest = NULL;
        for (uint32_t i = 0; i < p->count; i++) {
            load *l = p->entries[i]->current;
            if (l && l->pins == 0 && (!oldest || l->used_at < oldest->current->used_at)) oldest = p->entries[i];
        }
        if (!oldest) break;
        detach(p, oldest, list);
        p->evictions++;
    }
}

static void install(sh_partitions *p, entry *e, load *l) {
    l->owner = e;
    l->used_at = ++p->uses;
    e->current = l;
    e->commit = l->partition.commit;
    p->memory_bytes += l->bytes;
    p->loaded++;
    p->loads++;
}

/* -- the table ------------------------------------------------------------------------------------------------------------------------ */

static hd_status read_entries(sh_partitions *p, hd_error *error) {
    sh_scan *scan = NULL;
    HD_TRY(sh_scan_open(p->store, SH_FAMILY_META, sh_key_meta_prefix(), &scan, error));
    hd_status status = HD_OK;
    hd_str key, value;
    while (sh_scan_next(scan, &key, &value)) {
        uint64_t id = 0;
        hd_partition_spec spec;
        sh_commit commit;
        if (!sh_key_parse_meta(key, &id) || id == UINT64_MAX || !sh_value_read_meta(value, &spec, &commit))
            HD_GOTO(
                hd_error_set(error, HD_STORE_CORRUPT, "partition", "the description of partition %" PRIu64 " does not decode", id));
        spec.id = id;
        entry *e = make_entry(p, id);
        e->spec = spec;
        e->commit = commit;
        e->is_here = true;
    }
    status = sh_scan_status(scan, error);
out:
    sh_scan_close(scan);
    return status;
}

hd_status sh_partitions_new(sh_store *store, uint64_t memory_max, sh_partitions **partitions_out, hd_error *error) {
    sh_partitions *p = hd_alloc_zero(1, sizeof(*p));
    p->store = store;
    p->memory_max = memory_max;
    pthread_mutex_init(&p->commit_lock, NULL);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    hd_map64_init(&p->by_id, NULL);
    hd_status status = read_entries(p, error);
    if (status != HD_OK) {
        sh_partitions_free(p);
        p = NULL;
    }
    *partitions_out = p;
    return status;
}

void sh_partitions_free(sh_partitions *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->count; i++) {
        load *list = NULL;
        HD_CHECK(!p->entries[i]->current || p->entries[i]->current->pins == 0);
        detach(p, p->entries[i], &list);
        free_loads(list);
        hd_free(p->entries[i]);
    }
    hd_free(p->entries);
    hd_map64_fini(&p->by_id);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->commit_lock);
    hd_free(p);
}

/* Builds the entry's graph; called and returning locked, unlocked while it builds. `victims`: what had to go for it, to be freed once
 * unlocked. */
static hd_status load_entry(sh_partitions *p, entry *e, load **victims, hd_error *error) {
    load *made = NULL;
    uint64_t generation = p->generation;
    e->is_loading = true;
    pthread_mutex_unlock(&p->lock);
    hd_status status = build_load(p->store, e->spec.id, &made, error);
    pthread_mutex_lock(&p->lock);
    e->is_loading = false;
    pthread_cond_broadcast(&p->changed);
    if (status != HD_OK) return status;
    if (generation != p->generation) { /* built from a store that has since been opened anew: the caller tries again */
        made->next_free = *victims;
        *victims = made;
        return HD_OK;
    }
    install(p, e, made);
    made->pins++;
    evict(p, victims);
    made->pins--;
    return HD_OK;
}

static hd_status stale(uint64_t id, hd_error *error) {
    return hd_error_set(error, HD_MAP_STALE, "partition", "partition %" PRIu64 " is not here at this epoch", id);
}

hd_status sh_partitions_acquire(sh_partitions *p, uint64_t org, uint64_t id, uint64_t epoch, uint64_t incarnation,
                                sh_partition **partition_out, hd_error *error) {
    hd_status status = HD_OK;
    load *victims = NULL;
    *partition_out = NULL;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        entry *e = find_entry(p, id);
        if (!e || e->is_dropping) HD_GOTO(stale(id, error));
        if (e->spec.org != org)
            HD_GOTO(hd_error_set(error, HD_FORBIDDEN, "partition", "partition %" PRIu64 " belongs to another org", id));
        if (e->spec.epoch != epoch) HD_GOTO(stale(id, error));
        if (incarnation != 0 && (!e->current || e->current->partition.incarnation != incarnation))
            HD_GOTO(hd_error_set(error, HD_SNAPSHOT_GONE, "partition", "partition %" PRIu64 " has been loaded again since", id));
        if (e->current) {
            e->current->pins++;
            *partition_out = &e->current->partition;
            break;
        }
        if (e->is_loading) {
            pthread_cond_wait(&p->changed, &p->lock);
        } else {
            HD_GOTO(load_entry(p, e, &victims, error));
        }
    }
out:
    pthread_mutex_unlock(&p->lock);
    free_loads(victims);
    return status;
}

void sh_partitions_release(sh_partitions *p, sh_partition *partition) {
    load *l = (load *)partition, *list = NULL;
    pthread_mutex_lock(&p->lock);
    HD_CHECK(l->pins > 0);
    l->used_at = ++p->uses;
    if (--l->pins == 0) {
        if (l->is_detached) {
            l->next_free = NULL;
            list = l;
        } else {
            if (l->owner->is_dropping) pthread_cond_broadcast(&p->changed);
            evict(p, &list);
        }
    }
    pthread_mutex_unlock(&p->lock);
    free_loads(list);
}

/* -- commits ---------------------------------------------------------------------------------------------------------------------------- */

static void forget_all(sh_partitions *p) {
    load *list = NULL;
    pthread_mutex_lock(&p->lock);
    p->generation++;
    for (uint32_t i = 0; i < p->count; i++) detach(p, p->entries[i], &list);
    pthread_mutex_unlock(&p->lock);
    free_loads(list);
}

hd_status sh_partitions_begin_commit(sh_partitions *p, hd_error *error) {
    pthread_mutex_lock(&p->commit_lock);
    if (!sh_store_is_failed(p->store)) return HD_OK;
    hd_status status = sh_store_recover(p->store, error);
    if (status == HD_OK)
        forget_all(p);
    else
        pthread_mutex_unlock(&p->commit_lock);
    return status;
}

void sh_partitions_end_commit(sh_partitions *p) {
    pthread_mutex_unlock(&p->commit_lock);
}

void sh_partitions_note_commit(sh_partitions *p, sh_partition *partition) {
    load *l = (load *)partition;
    uint64_t bytes = sh_graph_memory_bytes(partition->graph);
    pthread_mutex_lock(&p->lock);
    l->owner->commit = partition->commit;
    if (!l->is_detached) p->memory_bytes += bytes - l->bytes;
    l->bytes = bytes;
    pthread_mutex_unlock(&p->lock);
}

static hd_status write_meta(sh_partitions *p, const hd_partition_spec *spec, const sh_commit *commit, hd_error *error) {
    char key[SH_KEY_META_SIZE];
    sh_key_of_meta(spec->id, key);
    hd_buf value = {0};
    sh_value_add_meta(&value, spec, commit);
    sh_batch *batch = sh_batch_new();
    sh_batch_put(batch, p->store, SH_FAMILY_META, (hd_str){key, sizeof(key)}, hd_buf_get(&value));
    hd_status status = sh_store_write(p->store, batch, true, error);
    sh_batch_free(batch);
    hd_buf_fini(&value);
    return status;
}

static hd_status check_existing(const entry *e, const hd_partition_spec *spec, hd_error *error) {
    if (e->spec.org == spec->org && e->spec.dimension == spec->dimension && e->spec.epoch == spec->epoch && !e->is_dropping)
        return HD_OK;
    return hd_error_set(error, HD_ALREADY_EXISTS, "partition", "partition %" PRIu64 " is here already, and is not the same",
                        spec->id);
}

hd_status sh_partitions_create(sh_partitions *p, const hd_partition_spec *spec, hd_error *error) {
    if (spec->id == UINT64_MAX || spec->org == 0 || spec->dimension < 1 || spec->dimension > 4096)
        return hd_error_set(error, HD_ARGUMENT, "partition",
                            "a partition needs an id below 2^64-1, an org, and a dimension of 1..4096, not %" PRIu32,
                            spec->dimension);
    HD_TRY(sh_partitions_begin_commit(p, error)); /* two creations of one id come one after the other */
    pthread_mutex_lock(&p->lock);
    entry *e = find_entry(p, spec->id);
    hd_status status = e ? check_existing(e, spec, error) : HD_OK;
    pthread_mutex_unlock(&p->lock);
    if (!e) {
        sh_commit commit = {.record_next = 1, .sequence = 1};
        status = write_meta(p, spec, &commit, error);
        if (status == HD_OK) {
            pthread_mutex_lock(&p->lock);
            e = make_entry(p, spec->id);
            e->spec = *spec;
            e->commit = commit;
            e->is_here = true;
            pthread_mutex_unlock(&p->lock);
        }
    }
    sh_partitions_end_commit(p);
    return status;
}

static hd_status erase(sh_partitions *p, uint64_t id, hd_error *error) {
    HD_TRY(sh_partitions_begin_commit(p, error));
    char from[SH_KEY_PARTITION_SIZE], to[SH_KEY_PARTITION_SIZE], meta[SH_KEY_META_SIZE];
    sh_key_of_partition(id, from);
    sh_key_after_partition(id, to);
    sh_key_of_meta(id, meta);
    sh_batch *batch = sh_batch_new();
    for (int family = SH_FAMILY_EVENT; family < SH_FAMILY_COUNT; family++)
        sh_batch_delete_range(batch, p->store, (sh_family)family, (hd_str){from, sizeof(from)}, (hd_str){to, sizeof(to)});
    sh_batch_delete(batch, p->store, SH_FAMILY_META, (hd_str){meta, sizeof(meta)});
    hd_status status = sh_store_write(p->store, batch, true, error);
    sh_batch_free(batch);
    sh_partitions_end_commit(p);
    return status;
}

hd_status sh_partitions_drop(sh_partitions *p, uint64_t org, uint64_t id, hd_error *error) {
    load *list = NULL;
    hd_status status = HD_OK;
    pthread_mutex_lock(&p->lock);
    entry *e = find_entry(p, id);
    if (!e || e->is_dropping) {
        status = hd_error_set(error, HD_NOT_FOUND, "partition", "partition %" PRIu64 " is not here", id);
    } else if (e->spec.org != org) {
        status = hd_error_set(error, HD_FORBIDDEN, "partition", "partition %" PRIu64 " belongs to another org", id);
    } else {
        e->is_dropping = true;
        while (e->is_loading || (e->current && e->current->pins > 0)) pthread_cond_wait(&p->changed, &p->lock);
        detach(p, e, &list);
    }
    pthread_mutex_unlock(&p->lock);
    free_loads(list);
    if (status != HD_OK) return status;
    status = erase(p, id, error);
    pthread_mutex_lock(&p->lock);
    e->is_dropping = false;
    e->is_here = status != HD_OK;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return status;
}

/* -- reading ------------------------------------------------------------------------------------------------------------------------------ */

hd_status sh_partition_get_text(sh_partitions *p, const sh_partition *partition, uint64_t record, hd_arena *arena,
                                hd_str *summary_out, hd_str *content_out, hd_error *error) {
    char key[SH_KEY_RECORD_SIZE];
    sh_key_of_record(partition->spec.id, record, key);
    hd_str value = {0}, summary = {0}, content = {0};
    size_t size_max = content_out ? SIZE_MAX : SUMMARY_BYTES; /* contents are long, and mostly it is the summary that is wanted */
    hd_status status = sh_store_get_head(p->store, SH_FAMILY_TEXT, (hd_str){key, sizeof(key)}, size_max, arena, &value, error);
    if (status == HD_NOT_FOUND)
        return hd_error_set(error, HD_SNAPSHOT_GONE, "partition", "partition %" PRIu64 ", record %" PRIu64 ": its text was swept",
                            partition->spec.id, record);
    HD_TRY(status);
    if (!content_out && sh_value_read_summary(value, &summary)) {
        if (summary_out) *summary_out = summary;
        return HD_OK;
    }
    if (!content_out) HD_TRY(sh_store_get(p->store, SH_FAMILY_TEXT, (hd_str){key, sizeof(key)}, arena, &value, error));
    if (!sh_value_read_text(value, &summary, &content))
        return hd_error_set(error, HD_STORE_CORRUPT, "partition",
                            "partition %" PRIu64 ", record %" PRIu64 ": its text does not decode", partition->spec.id, record);
    if (summary_out) *summary_out = summary;
    if (content_out) *content_out = content;
    return HD_OK;
}

static int compare_stats(const void *a, const void *b) {
    const hd_partition_stats *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

hd_status sh_partitions_stats(sh_partitions *p, uint64_t org, hd_arena *arena, hd_partition_stats **stats_out,
                              uint32_t *count_out) {
    uint32_t count = 0;
    pthread_mutex_lock(&p->lock);
    hd_partition_stats *stats = hd_arena_alloc_zero(arena, HD_MAX(p->count, 1u), sizeof(*stats));
    for (uint32_t i = 0; stats && i < p->count; i++) {
        const entry *e = p->entries[i];
        if (!e->is_here || (org != 0 && e->spec.org != org)) continue;
        stats[count++] = (hd_partition_stats){.id = e->spec.id,
                                              .org = e->spec.org,
                                              .is_loaded = e->current != NULL,
                                              .events = e->commit.events,
                                              .vectors = e->commit.vectors,
                                              .entities = e->commit.entities,
                                              .tags = e->commit.tags,
                                              .memory_bytes = e->current ? e->current->bytes : 0};
    }
    pthread_mutex_unlock(&p->lock);
    if (!stats) return HD_MEMORY;
    qsort(stats, count, sizeof(*stats), compare_stats);
    *stats_out = stats;
    *count_out = count;
    return HD_OK;
}

void sh_partitions_get_totals(sh_partitions *p, sh_partitions_totals *totals_out) {
    *totals_out = (sh_partitions_totals){0};
    pthread_mutex_lock(&p->lock);
    for (uint32_t i = 0; i < p->count; i++) totals_out->partitions += p->entries[i]->is_here;
    totals_out->loaded = p->loaded;
    totals_out->memory_bytes = p->memory_bytes;
    totals_out->loads = p->loads;
    totals_out->evictions = p->evictions;
    pthread_mutex_unlock(&p->lock);
}
