/* Threads and the way of a request through them.
 *
 *               ┌ HELLO, CANCEL: at once
 *   ROUTER loop ┼ STEP, other CONTROL ─▶ queue (fair by org) ─▶ workers ─┐
 *    (1 thread) └ WRITE ─▶ decoded here ─▶ writer (1 thread) ───────────▶┴─▶ hd_wire_server_send
 *
 * The loop reads a request's head only; workers decode the rest into an arena of their own. A write is decoded in the loop, so that it
 * never waits behind steps. What does not decode is counted and dropped: an honest peer sends none, and another gets nothing. */
#include "shard/server.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "proto/codec.h"
#include "proto/wire.h"
#include "shard/crew.h"
#include "shard/queue.h"
#include "shard/step.h"

enum { SWEEP_PERIOD_US = 10 * 1000000 };
enum { DRAIN_POLL_US = 5000, FAREWELL_US = 50000 }; /* FAREWELL: the last replies are with the kernel by then */
enum { MALFORMED_LOGS_MAX = 20 };                   /* log lines about malformed messages; the counter goes on */

typedef struct worker {
    sh_server *server;
    pthread_t thread;
    hd_arena *arena;
} worker;

struct sh_server {
    sh_partitions *partitions;
    sh_writer *writer;
    sh_admin *admin;
    hd_wire_server *wire;
    sh_queue *queue;
    sh_crew *crew; /* helps the workers: as many threads as these, less one */
    uint64_t step_bytes_max;
    pthread_t loop;
    bool has_loop;
    worker *workers;
    uint32_t worker_count;
    atomic_bool is_draining;
    atomic_uint writes; /* submitted and not yet answered */
    uint64_t swept_us, evictions_seen, loads_seen;
    hd_metric *requests[HD_MESSAGE_CONTROL + 1], *malformed, *refused, *late, *step_us, *waiting;
    hd_metric *loads, *evictions, *partitions_here, *partitions_loaded, *graph_bytes;
};

/* A write on its way: owns the decoded request. */
typedef struct write_job {
    sh_server *server;
    hd_wire_peer peer;
    uint64_t id;
    hd_arena *arena;
    hd_request request;
} write_job;

/* -- replies ------------------------------------------------------------------------------------------------------------------------ */

static void send_reply(sh_server *s, const hd_wire_peer *peer, const hd_reply *reply) {
    hd_buf bytes;
    hd_buf_init(&bytes);
    hd_codec_encode_reply(reply, &bytes);
    hd_wire_server_send(s->wire, peer, &bytes);
    hd_buf_fini(&bytes);
}

/* A reply that carries only how the request as a whole failed. */
static void send_refusal(sh_server *s, const hd_wire_peer *peer, const hd_request_head *head, hd_status status, hd_str message) {
    hd_reply reply = {.id = head->id, .kind = head->kind};
    switch (head->kind) {
    case HD_MESSAGE_STEP: reply.step = (hd_step_reply){.status = status, .message = message}; break;
    case HD_MESSAGE_WRITE: reply.write = (hd_write_reply){.status = status, .message = message}; break;
    case HD_MESSAGE_CONTROL: reply.control = (hd_control_reply){.status = status, .message = message}; break;
    }
    hd_metric_add(s->refused, 1);
    send_reply(s, peer, &reply);
}

static void drop_malformed(sh_server *s, const char *what, size_t size) {
    hd_metric_add(s->malformed, 1);
    if (hd_metric_get(s->malformed) <= MALFORMED_LOGS_MAX)
        hd_log(HD_LOG_WARN, "server", "dropped a malformed %s of %zu bytes", what, size);
}

/* -- workers -------------------------------------------------------------------------------------------------------------------------- */

/* Sends the reply unless it is larger than a frame may be. */
static void send_step(sh_server *s, const sh_job *job, const hd_reply *reply) {
    hd_buf bytes;
    hd_buf_init(&bytes);
    hd_codec_encode_reply(reply, &bytes);
    if (bytes.size <= HD_WIRE_FRAME_MAX)
        hd_wire_server_send(s->wire, &job->peer, &bytes);
    else
        send_refusal(s, &job->peer, &job->head, HD_TOO_LARGE, HD_STR("the step's answer is larger than a message may be"));
    hd_buf_fini(&bytes);
}

static void run_step(sh_server *s, sh_job *job, const hd_request *request, hd_arena *arena) {
    hd_reply reply = {.id = job->head.id, .kind = HD_MESSAGE_STEP};
    sh_check check = {.deadline_us = job->deadline_us, .is_cancelled = &job->is_cancelled, .crew = s->crew};
    uint64_t start_us = hd_clock_monotonic_us();
    sh_step_run(s->partitions, &request->step, &check, arena, &reply.step);
    hd_metric_observe_us(s->step_us, hd_clock_monotonic_us() - start_us);
    if (!__atomic_load_n(&job->is_cancelled, __ATOMIC_RELAXED)) send_step(s, job, &reply);
}

static void run_job(sh_server *s, sh_job *job, hd_arena *arena) {
    if (__atomic_load_n(&job->is_cancelled, __ATOMIC_RELAXED)) return;
    if (hd_clock_monotonic_us() >= job->deadline_us) {
        hd_metric_add(s->late, 1);
        send_refusal(s, &job->peer, &job->head, HD_DEADLINE, HD_STR("the deadline passed while the request waited"));
        return;
    }
    hd_request request;
    hd_status status = hd_codec_decode_request(arena, hd_buf_get(&job->payload), &request);
    if (status == HD_MEMORY) {
        send_refusal(s, &job->peer, &job->head, HD_MEMORY, HD_STR("the request is larger than a step's memory"));
    } else if (status != HD_OK) {
        drop_malformed(s, job->head.kind == HD_MESSAGE_STEP ? "step" : "control request", job->payload.size);
    } else if (request.kind == HD_MESSAGE_STEP) {
        run_step(s, job, &request, arena);
    } else {
        hd_reply reply = {.id = request.id, .kind = HD_MESSAGE_CONTROL};
        sh_admin_run(s->admin, &request.control, arena, &reply.control);
        send_reply(s, &job->peer, &reply);
    }
}

static void *run_worker(void *self) {
    worker *w = self;
    for (sh_job *job = sh_queue_take(w->server->queue); job; job = sh_queue_take(w->server->queue)) {
        run_job(w->server, job, w->arena);
        hd_arena_reset(w->arena);
        sh_queue_finish(w->server->queue, job);
    }
    return NULL;
}

/* -- writes ------------------------------------------------------------------------------------------------------------------------------ */

static void free_write(write_job *job) {
    atomic_fetch_sub(&job->server->writes, 1);
    hd_arena_free(job->arena);
    hd_free(job);
}

static void answer_write(void *self, const hd_write_reply *write) {
    write_job *job = self;
    hd_reply reply = {.id = job->id, .kind = HD_MESSAGE_WRITE, .write = *write};
    send_reply(job->server, &job->peer, &reply);
    free_write(job);
}

static void receive_write(sh_server *s, const hd_wire_peer *peer, const hd_request_head *head, hd_str payload) {
    write_job *job = hd_alloc_zero(1, sizeof(*job));
    job->server = s;
    job->peer = *peer;
    job->id = head->id;
    job->arena = hd_arena_new(0); /* a frame's size bounds it */
    atomic_fetch_add(&s->writes, 1);
    hd_status status = hd_codec_decode_request(job->arena, payload, &job->request);
    if (status != HD_OK) {
        drop_malformed(s, "write", payload.size);
        free_write(job);
        return;
    }
    status = sh_writer_submit(s->writer, &job->request.write, answer_write, job);
    if (status == HD_OK) return;
    send_refusal(s, peer, head, status, status == HD_BUSY ? HD_STR("too many writes wait") : HD_STR("the shard is stopping"));
    free_write(job);
}

/* -- the loop ------------------------------------------------------------------------------------------------------------------------------ */

static void enqueue(sh_server *s, const hd_wire_peer *peer, const hd_request_head *head, hd_str payload) {
    sh_job *job = sh_job_new(head, peer, payload, hd_clock_monotonic_us());
    sh_job *refused = sh_queue_add(s->queue, job);
    if (!refused) return;
    send_refusal(s, &refused->peer, &refused->head, HD_BUSY, HD_STR("too many requests wait"));
    sh_job_free(refused);
}

static void receive_control(sh_server *s, const hd_wire_peer *peer, const hd_request_head *head, hd_str payload) {
    hd_reply reply = {.id = head->id, .kind = HD_MESSAGE_CONTROL};
    switch (head->control) {
    case HD_CONTROL_HELLO:
        sh_admin_hello(s->admin, &reply.control);
        send_reply(s, peer, &reply);
        break;
    case HD_CONTROL_CANCEL:
        if (head->query != 0) sh_queue_cancel(s->queue, head->org, head->query);
        break;
    default: enqueue(s, peer, head, payload); break;
    }
}

static void receive(void *self, const hd_wire_peer *peer, hd_str payload) {
    sh_server *s = self;
    hd_request_head head;
    if (hd_codec_peek_request(payload, &head) != HD_OK) {
        drop_malformed(s, "message", payload.size);
        return;
    }
    hd_metric_add(s->requests[head.kind], 1);
    bool is_cancel = head.kind == HD_MESSAGE_CONTROL && head.control == HD_CONTROL_CANCEL;
    if (atomic_load(&s->is_draining) && !is_cancel) {
        send_refusal(s, peer, &head, HD_UNAVAILABLE, HD_STR("the shard is stopping"));
        return;
    }
    switch (head.kind) {
    case HD_MESSAGE_STEP: enqueue(s, peer, &head, payload); break;
    case HD_MESSAGE_WRITE: receive_write(s, peer, &head, payload); break;
    case HD_MESSAGE_CONTROL: receive_control(s, peer, &head, payload); break;
    }
}

static void *run_loop(void *self) {
    sh_server *s = self;
    hd_status status = hd_wire_server_run(s->wire, receive, s);
    if (status != HD_OK) hd_log(HD_LOG_ERROR, "server", "the loop ended: %s", hd_status_meaning(status));
    atomic_store(&s->is_draining, true);
    return NULL;
}

/* -- lifetime -------------------------------------------------------------------------------------------------------------------------------- */

static void register_metrics(sh_server *s) {
    static const char *const labels[] = {NULL, "kind=\"step\"", "kind=\"write\"", "kind=\"control\""};
    for (int kind = HD_MESSAGE_STEP; kind <= HD_MESSAGE_CONTROL; kind++)
        s->requests[kind] = hd_metrics_counter("heddle_shard_requests_total", labels[kind], "Requests received.");
    s->malformed = hd_metrics_counter("heddle_shard_malformed_total", NULL, "Messages dropped because they do not decode.");
    s->refused = hd_metrics_counter("heddle_shard_refused_total", NULL, "Requests answered by a refusal: busy, late, stopping.");
    s->late = hd_metrics_counter("heddle_shard_late_total", NULL, "Requests whose deadline passed before their turn.");
    s->step_us = hd_metrics_histogram_us("heddle_shard_step_seconds", NULL, "Time to run one step request.");
    s->waiting = hd_metrics_gauge("heddle_shard_queue_waiting", NULL, "Requests waiting for a worker.");
    s->loads = hd_metrics_counter("heddle_shard_partition_loads_total", NULL, "Partitions loaded into memory.");
    s->evictions = hd_metrics_counter("heddle_shard_partition_evictions_total", NULL, "Partitions that left memory to make room.");
    s->partitions_here = hd_metrics_gauge("heddle_shard_partitions", NULL, "Partitions held.");
    s->partitions_loaded = hd_metrics_gauge("heddle_shard_partitions_loaded", NULL, "Partitions in memory.");
    s->graph_bytes = hd_metrics_gauge("heddle_shard_graph_bytes", NULL, "Memory of the loaded partitions' graphs and vectors.");
}

static hd_status start_threads(sh_server *s, uint32_t threads, hd_error *error) {
    s->workers = hd_alloc_zero(threads, sizeof(*s->workers));
    for (uint32_t i = 0; i < threads; i++) {
        worker *w = &s->workers[i];
        w->server = s;
        w->arena = hd_arena_new(s->step_bytes_max);
        int failed = pthread_create(&w->thread, NULL, run_worker, w);
        if (failed != 0) {
            hd_arena_free(w->arena);
            return hd_error_set(error, HD_UNAVAILABLE, "server", "cannot start worker %" PRIu32 ": %s", i, strerror(failed));
        }
        s->worker_count++;
    }
    int failed = pthread_create(&s->loop, NULL, run_loop, s);
    if (failed != 0) return hd_error_set(error, HD_UNAVAILABLE, "server", "cannot start the loop: %s", strerror(failed));
    s->has_loop = true;
    return HD_OK;
}

hd_status sh_server_new(const sh_server_options *options, sh_partitions *partitions, sh_writer *writer, sh_admin *admin,
                        sh_server **server_out, hd_error *error) {
    sh_server *s = hd_alloc_zero(1, sizeof(*s));
    *server_out = NULL;
    s->partitions = partitions;
    s->writer = writer;
    s->admin = admin;
    s->step_bytes_max = options->step_bytes_max;
    s->queue = sh_queue_new(options->queue_max);
    s->crew = sh_crew_new(options->threads);
    register_metrics(s);
    hd_status status = hd_wire_server_new(options->endpoint, &s->wire, error);
    if (status == HD_OK) status = start_threads(s, options->threads, error);
    if (status != HD_OK) {
        sh_server_free(s);
        return status;
    }
    *server_out = s;
    return HD_OK;
}

const char *sh_server_endpoint(const sh_server *s) {
    return hd_wire_server_endpoint(s->wire);
}

bool sh_server_is_ready(const sh_server *s) {
    return !atomic_load(&s->is_draining);
}

static bool is_quiet(sh_server *s) {
    return sh_queue_is_idle(s->queue) && atomic_load(&s->writes) == 0;
}

void sh_server_drain(sh_server *s, uint32_t bound_ms) {
    atomic_store(&s->is_draining, true);
    uint64_t end_us = hd_clock_monotonic_us() + (uint64_t)bound_ms * 1000;
    while (!is_quiet(s) && hd_clock_monotonic_us() < end_us) usleep(DRAIN_POLL_US);
    if (!is_quiet(s)) {
        hd_log(HD_LOG_WARN, "server", "requests still running after %" PRIu32 " ms are cancelled", bound_ms);
        sh_queue_cancel_all(s->queue);
    }
    usleep(FAREWELL_US);
}

void sh_server_tick(sh_server *s) {
    sh_partitions_totals totals;
    sh_partitions_get_totals(s->partitions, &totals);
    hd_metric_set(s->waiting, sh_queue_waiting(s->queue));
    hd_metric_set(s->partitions_here, (int64_t)totals.partitions);
    hd_metric_set(s->partitions_loaded, (int64_t)totals.loaded);
    hd_metric_set(s->graph_bytes, (int64_t)totals.memory_bytes);
    hd_metric_add(s->loads, totals.loads - s->loads_seen);
    hd_metric_add(s->evictions, totals.evictions - s->evictions_seen);
    s->loads_seen = totals.loads;
    s->evictions_seen = totals.evictions;
    uint64_t now_us = hd_clock_monotonic_us();
    if (now_us - s->swept_us < SWEEP_PERIOD_US) return;
    s->swept_us = now_us;
    hd_error error = {0};
    if (sh_writer_sweep(s->writer, &error) != HD_OK) hd_log(HD_LOG_WARN, "server", "the sweep waits: %s", error.message);
}

void sh_server_free(sh_server *s) {
    if (!s) return;
    sh_queue_stop(s->queue);
    for (uint32_t i = 0; i < s->worker_count; i++) {
        pthread_join(s->workers[i].thread, NULL);
        hd_arena_free(s->workers[i].arena);
    }
    sh_crew_free(s->crew);
    if (s->has_loop) {
        hd_wire_server_stop(s->wire);
        pthread_join(s->loop, NULL);
    }
    while (atomic_load(&s->writes) > 0) usleep(DRAIN_POLL_US); /* the writer still answers through us */
    hd_wire_server_free(s->wire);
    sh_queue_free(s->queue);
    hd_free(s->workers);
    hd_free(s);
}
