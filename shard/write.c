/* The writer's thread: takes what waits, makes one group of it, commits, answers.
 *
 *   submit ─▶ queue ─▶ take_group ─▶ plan each item ─▶ one batch, one sync ─▶ graphs, publish ─▶ done(…) for each request
 *
 * The longer a sync takes, the more waits for the next, so groups grow by themselves under load. */
#include "shard/write.h"

#include <inttypes.h>
#include <pthread.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "shard/write_private.h"

enum { GROUP_ITEMS_MAX = 1000, GROUP_BYTES_MAX = 16 << 20 };      /* of one batch; a single larger request is a group of its own */
enum { WAITING_ITEMS_MAX = 10000, WAITING_BYTES_MAX = 64 << 20 }; /* beyond: busy */
enum { ITEM_BYTES = 256 };                                        /* an item's keys and small parts, roughly */

/* A dead version stays readable for whoever began before it died: the longest deadline there is, with room to spare. */
static const int64_t SWEEP_AGE_US = 60 * 1000000;
enum { SWEEP_COUNT_MAX = 10000 }; /* versions removed in one batch */

typedef struct waiting {
    const hd_write_request *request;
    void (*done)(void *self, const hd_write_reply *reply);
    void *self;
    uint64_t arrived_us;
    size_t bytes;
    hd_write_reply reply;
    struct waiting *next;
} waiting;

struct sh_writer {
    sh_store *store;
    sh_partitions *partitions;
    sh_group group; /* the thread's alone */
    pthread_t thread;
    pthread_mutex_t lock; /* all below */
    pthread_cond_t changed;
    waiting *first, **last;
    size_t waiting_items, waiting_bytes;
    bool is_stopping;
    hd_metric *items_total, *groups_total, *failures_total, *swept_total, *waiting_now, *commit_us;
};

static size_t request_bytes(const hd_write_request *request) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < request->item_count; i++) {
        const hd_event_record *e = &request->items[i].event;
        bytes += ITEM_BYTES + e->summary.size + e->content.size + (e->vector ? (size_t)e->dimension * sizeof(float) : 0);
        for (uint32_t j = 0; j < e->entity_count; j++) bytes += e->entities[j].name.size + e->entities[j].type.size;
        for (uint32_t j = 0; j < e->tag_count; j++) bytes += e->tags[j].name.size;
    }
    return bytes;
}

hd_status sh_writer_submit(sh_writer *w, const hd_write_request *request, void (*done)(void *self, const hd_write_reply *reply),
                           void *self) {
    waiting *item = hd_alloc_zero(1, sizeof(*item));
    *item = (waiting){.request = request, .done = done, .self = self, .arrived_us = hd_clock_monotonic_us()};
    item->bytes = request_bytes(request);
    pthread_mutex_lock(&w->lock);
    hd_status status = HD_OK;
    /* A request that is larger than the queue passes when nothing else waits, else it never would. */
    bool is_full = w->waiting_items > 0 && (w->waiting_items + request->item_count > WAITING_ITEMS_MAX ||
                                            w->waiting_bytes + item->bytes > WAITING_BYTES_MAX);
    if (w->is_stopping) {
        status = HD_UNAVAILABLE;
    } else if (is_full) {
        status = HD_BUSY;
    } else {
        *w->last = item;
        w->last = &item->next;
        w->waiting_items += request->item_count;
        w->waiting_bytes += item->bytes;
        hd_metric_set(w->waiting_now, (int64_t)w->waiting_items);
        pthread_cond_signal(&w->changed);
    }
    pthread_mutex_unlock(&w->lock);
    if (status != HD_OK) hd_free(item);
    return status;
}

/* The oldest requests, as many as make a group; NULL: stopped and empty. */
static waiting *take_group(sh_writer *w) {
    pthread_mutex_lock(&w->lock);
    while (!w->first && !w->is_stopping) pthread_cond_wait(&w->changed, &w->lock);
    waiting *group = w->first, **end = &w->first;
    size_t items = 0, bytes = 0;
    while (*end &&
           (items == 0 || (items + (*end)->request->item_count <= GROUP_ITEMS_MAX && bytes + (*end)->bytes <= GROUP_BYTES_MAX))) {
        items += (*end)->request->item_count;
        bytes += (*end)->bytes;
        end = &(*end)->next;
    }
    if (group) {
        w->first = *end;
        *end = NULL;
        if (!w->first) w->last = &w->first;
    }
    w->waiting_items -= items;
    w->waiting_bytes -= bytes;
    hd_metric_set(w->waiting_now, (int64_t)w->waiting_items);
    pthread_mutex_unlock(&w->lock);
    return group;
}

/* -- one group ----------------------------------------------------------------------------------------------------------------------- */

static hd_str keep_message(sh_writer *w, const char *message) {
    hd_str kept = {0};
    HD_CHECK(hd_arena_dup(w->group.arena, hd_str_of(message), &kept) == HD_OK);
    return kept;
}

static void plan_request(sh_writer *w, waiting *item) {
    const hd_write_request *request = item->request;
    if (hd_clock_monotonic_us() - item->arrived_us > (uint64_t)request->remaining_ms * 1000) {
        item->reply.status = HD_DEADLINE;
        item->reply.message = HD_STR("the deadline passed while the write waited; nothing was written");
        return;
    }
    item->reply.outcomes = hd_arena_alloc_zero(w->group.arena, request->item_count, sizeof(hd_write_outcome));
    HD_CHECK(item->reply.outcomes != NULL);
    item->reply.outcome_count = request->item_count;
    for (uint32_t i = 0; i < request->item_count; i++)
        sh_group_plan(&w->group, request->org, &request->items[i], &item->reply.outcomes[i]);
}

/* Nothing of the group stands. What an item was answered by its own fault stays; what rested on the group does not. */
static void fail_request(waiting *item, hd_status code, hd_str message) {
    for (uint32_t i = 0; i < item->reply.outcome_count; i++) {
        hd_write_outcome *outcome = &item->reply.outcomes[i];
        if (outcome->code == HD_OK || outcome->code == HD_ALREADY_EXISTS)
            *outcome = (hd_write_outcome){.code = code, .message = message};
    }
}

static void commit_group(sh_writer *w, waiting *group) {
    sh_group *g = &w->group;
    hd_error error = {0};
    hd_status status = sh_partitions_begin_commit(w->partitions, &error);
    if (status != HD_OK) {
        hd_str message = keep_message(w, error.message);
        for (waiting *item = group; item; item = item->next) item->reply = (hd_write_reply){.status = status, .message = message};
        hd_metric_add(w->failures_total, 1);
        return;
    }
    for (waiting *item = group; item; item = item->next) plan_request(w, item);
    if (g->change_count > 0) {
        uint64_t start_us = hd_clock_monotonic_us();
        sh_group_close(g);
        status = sh_store_write(w->store, g->batch, true, &error);
        hd_metric_observe_us(w->commit_us, hd_clock_monotonic_us() - start_us);
    }
    if (status != HD_OK) {
        hd_str message = keep_message(w, error.message);
        for (waiting *item = group; item; item = item->next) fail_request(item, status, message);
        hd_metric_add(w->failures_total, 1);
    } else if (g->change_count > 0) {
        sh_group_apply(g);
        hd_metric_add(w->groups_total, 1);
        hd_metric_add(w->items_total, g->change_count);
    }
    sh_group_end(g);
    sh_partitions_end_commit(w->partitions);
}

static void *run_writer(void *self) {
    sh_writer *w = self;
    for (waiting *group = take_group(w); group; group = take_group(w)) {
        sh_group_begin(&w->group);
        commit_group(w, group);
        while (group) {
            waiting *next = group->next;
            group->done(group->self, &group->reply);
            hd_free(group);
            group = next;
        }
    }
    return NULL;
}

/* -- lifetime --------------------------------------------------------------------------------------------------------------------------- */

static void register_metrics(sh_writer *w) {
    w->items_total = hd_metrics_counter("heddle_shard_written_events_total", NULL, "Events saved and deleted.");
    w->groups_total = hd_metrics_counter("heddle_shard_write_groups_total", NULL, "Batches synced to the store.");
    w->failures_total = hd_metrics_counter("heddle_shard_write_failures_total", NULL, "Batches that the store refused.");
    w->swept_total = hd_metrics_counter("heddle_shard_swept_versions_total", NULL, "Dead versions removed from the store.");
    w->waiting_now = hd_metrics_gauge("heddle_shard_writes_waiting", NULL, "Items in the writer's queue.");
    w->commit_us = hd_metrics_histogram_us("heddle_shard_commit_seconds", NULL, "Time to write and sync one batch.");
}

hd_status sh_writer_new(sh_store *store, sh_partitions *partitions, sh_writer **writer_out, hd_error *error) {
    sh_writer *w = hd_alloc_zero(1, sizeof(*w));
    w->store = store;
    w->partitions = partitions;
    w->group = (sh_group){.store = store, .partitions = partitions, .batch = sh_batch_new(), .arena = hd_arena_new(0)};
    w->last = &w->first;
    register_metrics(w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    *writer_out = w;
    int failed = pthread_create(&w->thread, NULL, run_writer, w);
    if (failed == 0) return HD_OK;
    w->is_stopping = true;
    *writer_out = NULL;
    sh_batch_free(w->group.batch);
    hd_arena_free(w->group.arena);
    hd_free(w);
    return hd_error_set(error, HD_UNAVAILABLE, "write", "cannot start the writer's thread: %s", strerror(failed));
}

void sh_writer_free(sh_writer *w) {
    if (!w) return;
    pthread_mutex_lock(&w->lock);
    w->is_stopping = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    sh_batch_free(w->group.batch);
    hd_buf_fini(&w->group.value);
    hd_arena_free(w->group.arena);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    hd_free(w);
}

/* -- the sweep ---------------------------------------------------------------------------------------------------------------------------- */

/* Up to SWEEP_COUNT_MAX keys of versions dead for long enough; marks that do not decode are left for the load to complain about. */
static hd_status find_swept(sh_writer *w, char (*keys_out)[SH_KEY_RECORD_SIZE], size_t *count_out, hd_error *error) {
    sh_scan *scan = NULL;
    HD_TRY(sh_scan_open(w->store, SH_FAMILY_DEAD, HD_STR(""), &scan, error));
    int64_t before_us = hd_clock_wall_us() - SWEEP_AGE_US;
    size_t count = 0;
    hd_str key, value;
    while (count < SWEEP_COUNT_MAX && sh_scan_next(scan, &key, &value)) {
        uint64_t died;
        int64_t wall_us;
        if (key.size != SH_KEY_RECORD_SIZE || !sh_value_read_dead(value, &died, &wall_us) || wall_us > before_us) continue;
        memcpy(keys_out[count++], key.data, SH_KEY_RECORD_SIZE);
    }
    hd_status status = sh_scan_status(scan, error);
    sh_scan_close(scan);
    *count_out = count;
    return status;
}

/* Not synced: what a crash brings back is dead, and swept again. */
static hd_status remove_swept(sh_writer *w, sh_batch *batch, char (*keys)[SH_KEY_RECORD_SIZE], size_t count, hd_error *error) {
    static const sh_family families[] = {SH_FAMILY_EVENT, SH_FAMILY_TEXT, SH_FAMILY_VECTOR, SH_FAMILY_DEAD};
    HD_TRY(sh_partitions_begin_commit(w->partitions, error));
    sh_batch_clear(batch);
    for (size_t i = 0; i < count; i++)
        for (size_t f = 0; f < HD_COUNT_OF(families); f++)
            sh_batch_delete(batch, w->store, families[f], (hd_str){keys[i], SH_KEY_RECORD_SIZE});
    hd_status status = sh_store_write(w->store, batch, false, error);
    sh_partitions_end_commit(w->partitions);
    if (status == HD_OK) hd_metric_add(w->swept_total, count);
    return status;
}

hd_status sh_writer_sweep(sh_writer *w, hd_error *error) {
    char(*keys)[SH_KEY_RECORD_SIZE] = hd_alloc(SWEEP_COUNT_MAX * sizeof(*keys));
    sh_batch *batch = sh_batch_new();
    size_t count = 0;
    hd_status status = HD_OK;
    do {
        HD_GOTO(find_swept(w, keys, &count, error));
        if (count > 0) HD_GOTO(remove_swept(w, batch, keys, count, error));
    } while (count == SWEEP_COUNT_MAX);
out:
    sh_batch_free(batch);
    hd_free(keys);
    return status;
}
