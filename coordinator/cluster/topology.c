/* A thread of its own says HELLO to every configured endpoint once a second (more often while one is unknown) and keeps what they
 * answer. Everybody else reads the table under a mutex that is never held over a send or a wait. */
#define _GNU_SOURCE
#include "coordinator/cluster/topology.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/ids.h"
#include "common/log.h"
#include "common/metrics.h"

enum {
    HELLO_EVERY_US = 1000000,
    HELLO_UNKNOWN_US = 100000, /* while an endpoint has not said who it is … */
    HELLO_FIRST_US = 20000,    /* … and in the first second, so that a start is not slowed down */
    SILENT_US = 3000000,       /* longer than this without an answer: down */
    STOP_CHECK_US = 50000,     /* how long a stop may go unnoticed */
    ANSWER_BYTES_MAX = 64 << 20
};

typedef struct shard_entry {
    co_shard_info info;
    uint32_t wire;        /* index in the thread's client */
    uint64_t asked;       /* id of the HELLO that waits for its answer, 0: none */
    uint64_t asked_us;    /* when it was sent */
    uint64_t answered_us; /* when the last answer came, 0: never */
    bool is_disputed;     /* claims the uuid of another endpoint … */
    bool is_nameless;     /* … or none that can be one; each said once */
} shard_entry;

struct co_topology {
    shard_entry *entries; /* endpoints are set once; the rest is guarded by the mutex (wire and asked are the thread's own) */
    uint32_t count;
    hd_wire_client *wire; /* the thread's */
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_bool is_stopping;
    _Atomic uint64_t next_id;
    uint64_t started_us;
    hd_metric *alive, *dropped;
};

uint64_t co_topology_request_id(co_topology *topology) {
    uint64_t id;
    do {
        id = atomic_fetch_add(&topology->next_id, 1);
    } while (id == 0); /* 0 is no id */
    return id;
}

/* ---- the thread ---- */

static void say_hello(co_topology *topology, shard_entry *entry, uint64_t now) {
    if (entry->asked != 0 && entry->info.is_alive) {
        hd_log(HD_LOG_WARN, "topology", "shard %s at %s does not answer", entry->info.uuid, entry->info.endpoint);
    }
    if (entry->asked != 0) {
        pthread_mutex_lock(&topology->mutex);
        entry->info.is_alive = false;
        pthread_mutex_unlock(&topology->mutex);
    }
    hd_request request = {.id = co_topology_request_id(topology),
                          .kind = HD_MESSAGE_CONTROL,
                          .control = {.kind = HD_CONTROL_HELLO, .remaining_ms = HELLO_EVERY_US / 1000}};
    hd_buf bytes = {0};
    hd_codec_encode_request(&request, &bytes);
    bool is_sent = hd_wire_client_try_send(topology->wire, entry->wire, hd_buf_get(&bytes)) == HD_OK;
    hd_buf_fini(&bytes);
    entry->asked_us = now;
    entry->asked = request.id;
    if (!is_sent && entry->info.is_alive) { /* away: no answer will come */
        pthread_mutex_lock(&topology->mutex);
        entry->info.is_alive = false;
        pthread_mutex_unlock(&topology->mutex);
        hd_log(HD_LOG_WARN, "topology", "shard %s at %s is away", entry->info.uuid, entry->info.endpoint);
    }
}

/* Another endpoint that has said it is this shard. */
static shard_entry *find_entry(co_topology *topology, const char *uuid) {
    for (uint32_t i = 0; i < topology->count; i++) {
        if (strcmp(topology->entries[i].info.uuid, uuid) == 0) return &topology->entries[i];
    }
    return NULL;
}

static void take_answer(co_topology *topology, shard_entry *entry, hd_str uuid, uint64_t now) {
    char text[sizeof(entry->info.uuid)];
    if (uuid.size == 0 || uuid.size >= sizeof(text) || memchr(uuid.data, '\0', uuid.size) != NULL) {
        if (!entry->is_nameless) {
            hd_log(HD_LOG_ERROR, "topology", "%s answers with a shard id of %zu bytes", entry->info.endpoint, uuid.size);
        }
        entry->is_nameless = true;
        return;
    }
    entry->is_nameless = false;
    memcpy(text, uuid.data, uuid.size);
    text[uuid.size] = '\0';
    pthread_mutex_lock(&topology->mutex);
    shard_entry *holder = find_entry(topology, text);
    bool is_news = false, was_disputed = entry->is_disputed;
    entry->is_disputed = holder != NULL && holder != entry;
    if (entry->is_disputed) {
        entry->info.uuid[0] = '\0';
        entry->info.is_alive = false;
    } else {
        is_news = !entry->info.is_alive || holder == NULL;
        memcpy(entry->info.uuid, text, uuid.size + 1);
        entry->info.is_alive = true;
        entry->answered_us = now;
        pthread_cond_broadcast(&topology->changed);
    }
    bool is_disputed = entry->is_disputed;
    pthread_mutex_unlock(&topology->mutex);
    if (is_disputed && !was_disputed) {
        hd_log(HD_LOG_ERROR, "topology", "%s says it is shard %s, which %s is already: ignored", entry->info.endpoint, text,
               holder->info.endpoint);
    }
    if (is_news) hd_log(HD_LOG_INFO, "topology", "shard %s is at %s", text, entry->info.endpoint);
}

static void take_message(co_topology *topology, hd_arena *arena, uint32_t wire, hd_str bytes) {
    hd_arena_reset(arena);
    hd_reply reply;
    hd_status status = hd_codec_decode_reply(arena, bytes, &reply);
    shard_entry *entry = NULL;
    for (uint32_t i = 0; status == HD_OK && i < topology->count; i++) {
        if (topology->entries[i].wire == wire && topology->entries[i].asked == reply.id) entry = &topology->entries[i];
    }
    if (entry == NULL || reply.kind != HD_MESSAGE_CONTROL || reply.control.status != HD_OK) {
        hd_metric_add(topology->dropped, 1);
        return;
    }
    entry->asked = 0;
    take_answer(topology, entry, reply.control.shard_uuid, hd_clock_monotonic_us());
}

static void count_alive(co_topology *topology) {
    int64_t alive = 0;
    for (uint32_t i = 0; i < topology->count; i++) alive += topology->entries[i].info.is_alive;
    hd_metric_set(topology->alive, alive);
}

static void *keep_asking(void *self) {
    co_topology *topology = self;
    hd_arena *arena = hd_arena_new(ANSWER_BYTES_MAX);
    hd_buf bytes = {0};
    while (!atomic_load(&topology->is_stopping)) {
        uint64_t now = hd_clock_monotonic_us(), wake = now + STOP_CHECK_US;
        for (uint32_t i = 0; i < topology->count; i++) {
            shard_entry *entry = &topology->entries[i];
            uint64_t unknown = now < topology->started_us + HELLO_EVERY_US ? HELLO_FIRST_US : HELLO_UNKNOWN_US;
            uint64_t due = entry->asked_us + (entry->answered_us == 0 || !entry->info.is_alive ? unknown : HELLO_EVERY_US);
            if (entry->asked_us == 0 || now >= due) say_hello(topology, entry, now);
            wake = HD_MIN(wake, HD_MAX(due, now + HELLO_FIRST_US));
        }
        uint32_t wire;
        while (hd_wire_client_receive(topology->wire, wake, &wire, &bytes) == HD_OK) {
            take_message(topology, arena, wire, hd_buf_get(&bytes));
        }
        count_alive(topology);
    }
    hd_buf_fini(&bytes);
    hd_arena_free(arena);
    return NULL;
}

/* ---- what others ask ---- */

hd_status co_topology_new(const char *const *endpoints, uint32_t endpoint_count, co_topology **topology_out, hd_error *error) {
    *topology_out = NULL;
    co_topology *topology = hd_alloc_zero(1, sizeof(*topology));
    topology->entries = hd_alloc_zero(endpoint_count, sizeof(*topology->entries));
    topology->wire = hd_wire_client_new();
    hd_status status = HD_OK;
    for (uint32_t i = 0; i < endpoint_count && status == HD_OK; i++) {
        shard_entry *entry = &topology->entries[topology->count];
        status = hd_wire_client_connect(topology->wire, endpoints[i], &entry->wire);
        if (status != HD_OK) {
            status =
                hd_error_set(error, status, "topology", "shard endpoint '%s' is not ipc://PATH or tcp://HOST:PORT", endpoints[i]);
        } else if (entry->wire == topology->count) { /* an endpoint given twice is one */
            snprintf(entry->info.endpoint, sizeof(entry->info.endpoint), "%s", endpoints[i]);
            topology->count++;
        }
    }
    if (status != HD_OK) {
        hd_wire_client_free(topology->wire);
        hd_free(topology->entries);
        hd_free(topology);
        return status;
    }
    topology->next_id = hd_random_u64();
    topology->started_us = hd_clock_monotonic_us();
    topology->alive = hd_metrics_gauge("heddle_shards_alive", NULL, "Shards that answered their last HELLO");
    topology->dropped = hd_metrics_counter("heddle_replies_dropped_total", NULL, "Replies that came late or to nobody's request");
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    HD_CHECK(pthread_mutex_init(&topology->mutex, NULL) == 0);
    HD_CHECK(pthread_cond_init(&topology->changed, &attributes) == 0);
    pthread_condattr_destroy(&attributes);
    HD_CHECK(pthread_create(&topology->thread, NULL, keep_asking, topology) == 0);
    *topology_out = topology;
    return HD_OK;
}

void co_topology_free(co_topology *topology) {
    if (topology == NULL) return;
    atomic_store(&topology->is_stopping, true);
    pthread_join(topology->thread, NULL);
    hd_wire_client_free(topology->wire);
    pthread_cond_destroy(&topology->changed);
    pthread_mutex_destroy(&topology->mutex);
    hd_free(topology->entries);
    hd_free(topology);
}

uint32_t co_topology_wait(co_topology *topology, uint64_t deadline_us) {
    struct timespec until = {.tv_sec = (time_t)(deadline_us / 1000000), .tv_nsec = (long)(deadline_us % 1000000) * 1000};
    uint32_t known = 0;
    pthread_mutex_lock(&topology->mutex);
    for (;;) {
        known = 0;
        for (uint32_t i = 0; i < topology->count; i++) known += topology->entries[i].info.uuid[0] != '\0';
        if (known == topology->count || pthread_cond_timedwait(&topology->changed, &topology->mutex, &until) != 0) break;
    }
    pthread_mutex_unlock(&topology->mutex);
    return known;
}

hd_status co_topology_list(co_topology *topology, hd_arena *arena, co_shard_info **shards_out, uint32_t *count_out) {
    HD_ALLOC(*shards_out, arena, topology->count);
    *count_out = topology->count;
    pthread_mutex_lock(&topology->mutex);
    for (uint32_t i = 0; i < topology->count; i++) (*shards_out)[i] = topology->entries[i].info;
    pthread_mutex_unlock(&topology->mutex);
    return HD_OK;
}

hd_status co_topology_find(co_topology *topology, const char *uuid, char *endpoint_out) {
    if (uuid[0] == '\0') return HD_SHARD_DOWN;
    uint64_t now = hd_clock_monotonic_us();
    pthread_mutex_lock(&topology->mutex);
    const shard_entry *entry = find_entry(topology, uuid);
    bool is_there = entry != NULL && (entry->info.is_alive || now < entry->answered_us + SILENT_US);
    if (is_there) memcpy(endpoint_out, entry->info.endpoint, sizeof(entry->info.endpoint));
    pthread_mutex_unlock(&topology->mutex);
    return is_there ? HD_OK : HD_SHARD_DOWN;
}

static void set_remaining(hd_request *request, uint64_t deadline_us) {
    uint64_t now = hd_clock_monotonic_us();
    uint32_t remaining_ms = deadline_us > now ? (uint32_t)HD_MIN((deadline_us - now + 999) / 1000, UINT32_MAX) : 1;
    switch (request->kind) {
    case HD_MESSAGE_STEP: request->step.remaining_ms = remaining_ms; break;
    case HD_MESSAGE_WRITE: request->write.remaining_ms = remaining_ms; break;
    case HD_MESSAGE_CONTROL: request->control.remaining_ms = remaining_ms; break;
    }
}

/* The reply to request `id`; what else arrives is dropped. */
static hd_status await_reply(co_topology *topology, hd_wire_client *wire, const hd_request *request, uint64_t deadline_us,
                             hd_arena *arena, hd_reply *reply_out) {
    hd_buf bytes = {0};
    hd_status status;
    uint32_t from;
    while ((status = hd_wire_client_receive(wire, deadline_us, &from, &bytes)) == HD_OK) {
        uint64_t id;
        if (hd_codec_peek_reply(hd_buf_get(&bytes), &id) != HD_OK || id != request->id) {
            hd_metric_add(topology->dropped, 1);
            continue;
        }
        status = hd_codec_decode_reply(arena, hd_buf_get(&bytes), reply_out);
        if (status == HD_OK && reply_out->kind != request->kind) status = HD_WIRE;
        break;
    }
    hd_buf_fini(&bytes);
    return status;
}

hd_status co_topology_call(co_topology *topology, hd_wire_client *wire, const char *uuid, hd_request *request, uint64_t deadline_us,
                           hd_arena *arena, hd_reply *reply_out, hd_error *error) {
    char endpoint[256];
    uint32_t index;
    if (co_topology_find(topology, uuid, endpoint) != HD_OK) {
        return hd_error_set(error, HD_SHARD_DOWN, "topology", "shard %s is not there", uuid);
    }
    HD_TRY(hd_wire_client_connect(wire, endpoint, &index));
    request->id = co_topology_request_id(topology);
    set_remaining(request, deadline_us);
    hd_buf bytes = {0};
    hd_codec_encode_request(request, &bytes);
    hd_status status = hd_wire_client_send(wire, index, hd_buf_get(&bytes));
    hd_buf_fini(&bytes);
    if (status != HD_OK) return hd_error_set(error, status, "topology", "shard %s at %s is away", uuid, endpoint);
    status = await_reply(topology, wire, request, deadline_us, arena, reply_out);
    if (status == HD_OK) return HD_OK;
    if (error != NULL && request->kind == HD_MESSAGE_WRITE) error->outcome = "unknown";
    if (status == HD_DEADLINE) {
        return hd_error_set(error, HD_SHARD_DOWN, "topology", "shard %s at %s gave no answer in time", uuid, endpoint);
    }
    return hd_error_set(error, status, "topology", "the answer of shard %s at %s cannot be read", uuid, endpoint);
}
