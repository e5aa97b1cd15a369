/* The queue's fairness, and a whole shard over its wire: hello, partitions, writes, steps, stats, refusals, cancelling, malformed
 * messages, draining; and the HTTP side. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <sys/socket.h>

#include "common/metrics.h"
#include "proto/codec.h"
#include "proto/wire.h"
#include "shard/health.h"
#include "shard/queue.h"
#include "shard/server.h"
#include "tests/support/shard_fixture.h"

static uint64_t seed;

/* -- the queue ------------------------------------------------------------------------------------------------------------------------ */

static sh_job *make_job(uint64_t org, uint64_t query) {
    hd_request_head head = {.id = 1, .kind = HD_MESSAGE_STEP, .org = org, .query = query, .remaining_ms = 5};
    hd_wire_peer peer = {.size = 0};
    return sh_job_new(&head, &peer, HD_STR("payload"), 1000);
}

static void add(sh_queue *q, uint64_t org, uint64_t query) {
    assert_null(sh_queue_add(q, make_job(org, query)));
}

static uint64_t take(sh_queue *q) {
    sh_job *job = sh_queue_take(q);
    assert_non_null(job);
    uint64_t query = job->head.query;
    sh_queue_finish(q, job);
    return query;
}

static void test_turns(void **state) {
    sh_queue *q = sh_queue_new(100);
    for (uint64_t i = 1; i <= 4; i++) add(q, 7, i);
    add(q, 8, 11);
    add(q, 9, 21);
    add(q, 8, 12);
    static const uint64_t expected[] = {1, 11, 21, 2, 12, 3, 4};
    for (size_t i = 0; i < HD_COUNT_OF(expected); i++) assert_int_equal(take(q), expected[i]);
    assert_true(sh_queue_is_idle(q));
    sh_job *job = make_job(1, 1);
    assert_true(job->deadline_us == 6000 && job->arrived_us == 1000);
    assert_true(hd_str_is_equal(hd_buf_get(&job->payload), HD_STR("payload")));
    assert_null(sh_queue_add(q, job));
    assert_false(sh_queue_is_idle(q));
    assert_ptr_equal(sh_queue_take(q), job);
    assert_false(sh_queue_is_idle(q));
    sh_queue_finish(q, job);
    sh_queue_stop(q);
    assert_null(sh_queue_take(q));
    job = make_job(1, 1);
    assert_ptr_equal(sh_queue_add(q, job), job);
    sh_job_free(job);
    sh_queue_free(q);
}

static void test_full_queue(void **state) {
    sh_queue *q = sh_queue_new(4);
    for (uint64_t i = 1; i <= 4; i++) add(q, 7, i);
    sh_job *job = make_job(7, 5);
    assert_ptr_equal(sh_queue_add(q, job), job); /* an org does not push itself out */
    sh_job_free(job);
    job = sh_queue_add(q, make_job(8, 11)); /* another takes the place of its newest */
    assert_non_null(job);
    assert_int_equal(job->head.query, 4);
    sh_job_free(job);
    job = sh_queue_add(q, make_job(8, 12)); /* and again: then it is two and two */
    assert_int_equal(job->head.query, 3);
    sh_job_free(job);
    job = make_job(8, 13);
    assert_ptr_equal(sh_queue_add(q, job), job);
    sh_job_free(job);
    job = sh_queue_add(q, make_job(9, 21)); /* a third org still gets its first one in */
    assert_true(job->head.query == 2 || job->head.query == 12);
    bool is_first_hit = job->head.query == 2;
    sh_job_free(job);
    assert_int_equal(sh_queue_waiting(q), 4);
    assert_int_equal(take(q), 1);
    assert_int_equal(take(q), 11);
    assert_int_equal(take(q), 21);
    assert_int_equal(take(q), is_first_hit ? 12 : 2);
    sh_queue_free(q);
}

static void test_cancel_in_queue(void **state) {
    sh_queue *q = sh_queue_new(100);
    add(q, 7, 1);
    add(q, 7, 2);
    add(q, 7, 1);
    add(q, 8, 1);
    sh_job *running = sh_queue_take(q);
    assert_int_equal(running->head.query, 1);
    sh_queue_cancel(q, 7, 1);
    assert_true(running->is_cancelled);
    assert_int_equal(sh_queue_waiting(q), 2); /* org 8 has a query of the same number, which is not the same */
    sh_queue_finish(q, running);
    assert_int_equal(take(q), 1);
    sh_queue_cancel(q, 0, 2);
    assert_int_equal(sh_queue_waiting(q), 0);
    add(q, 7, 3);
    add(q, 9, 4);
    sh_queue_free(q); /* with jobs inside: nothing leaks */
}

/* Against a naive queue: per org a list, orgs in turn. */
static void test_random_queue(void **state) {
    enum { ORGS = 5, MAX = 200 };
    test_random r = {seed};
    sh_queue *q = sh_queue_new(100000);
    uint64_t lists[ORGS][MAX], turns[ORGS], next = 1;
    uint32_t counts[ORGS] = {0}, turn_count = 0;
    for (int i = 0; i < 20000; i++) {
        uint32_t org = test_random_below(&r, ORGS);
        if (test_random_below(&r, 2) && counts[org] < MAX) {
            if (counts[org] == 0) turns[turn_count++] = org;
            lists[org][counts[org]++] = next;
            add(q, org, next++);
        } else if (turn_count > 0) {
            org = (uint32_t)turns[0];
            memmove(turns, turns + 1, (--turn_count) * sizeof(*turns));
            assert_int_equal(take(q), lists[org][0]);
            memmove(lists[org], lists[org] + 1, (--counts[org]) * sizeof(**lists));
            if (counts[org] > 0) turns[turn_count++] = org;
        }
    }
    sh_queue_free(q);
}

/* -- a shard over the wire -------------------------------------------------------------------------------------------------------------- */

typedef struct shard {
    fixture f;
    sh_admin *admin;
    sh_server *server;
    hd_wire_client *client;
    uint32_t peer;
    uint64_t id;
    hd_arena *arena;
} shard;

static void shard_start(shard *s, uint32_t threads, uint32_t queue_max) {
    hd_error error = {0};
    char endpoint[128];
    hd_wire_init();
    memset(s, 0, sizeof(*s));
    fixture_new(&s->f);
    snprintf(endpoint, sizeof(endpoint), "ipc://%s/socket", s->f.folder);
    sh_server_options options = {.endpoint = endpoint, .threads = threads, .queue_max = queue_max, .step_bytes_max = 64 << 20};
    ASSERT_OK(sh_admin_new(s->f.store, s->f.partitions, &s->admin, &error), error);
    ASSERT_OK(sh_server_new(&options, s->f.partitions, s->f.writer, s->admin, &s->server, &error), error);
    s->client = hd_wire_client_new();
    ASSERT_OK(hd_wire_client_connect(s->client, sh_server_endpoint(s->server), &s->peer), error);
    s->arena = hd_arena_new(0);
}

static void shard_stop(shard *s) {
    hd_wire_client_free(s->client);
    sh_server_free(s->server);
    sh_admin_free(s->admin);
    fixture_end(&s->f);
    hd_arena_free(s->arena);
    hd_wire_fini();
}

static uint64_t send_request(shard *s, hd_request *request) {
    hd_buf bytes = {0};
    hd_error error = {0};
    request->id = ++s->id;
    hd_codec_encode_request(request, &bytes);
    ASSERT_OK(hd_wire_client_send(s->client, s->peer, hd_buf_get(&bytes)), error);
    hd_buf_fini(&bytes);
    return request->id;
}

static void send_bytes(shard *s, hd_str bytes) {
    hd_error error = {0};
    ASSERT_OK(hd_wire_client_send(s->client, s->peer, bytes), error);
}

static hd_reply receive_reply(shard *s) {
    hd_buf bytes = {0};
    hd_error error = {0};
    hd_reply reply;
    uint32_t from;
    ASSERT_OK(hd_wire_client_receive(s->client, hd_clock_monotonic_us() + 20000000, &from, &bytes), error);
    ASSERT_OK(hd_codec_decode_reply(s->arena, hd_buf_get(&bytes), &reply), error);
    hd_buf_fini(&bytes);
    return reply;
}

static hd_reply ask(shard *s, hd_request *request) {
    uint64_t id = send_request(s, request);
    hd_reply reply = receive_reply(s);
    assert_true(reply.id == id && reply.kind == request->kind);
    return reply;
}

static hd_control_reply ask_control(shard *s, hd_control_kind kind, hd_partition_spec spec, uint64_t org) {
    hd_request request = {.kind = HD_MESSAGE_CONTROL,
                          .control = {.kind = kind, .remaining_ms = 20000, .partition = spec, .org = org, .query = 0}};
    return ask(s, &request).control;
}

static void create(shard *s, uint64_t org, uint64_t id) {
    hd_partition_spec spec = {.id = id, .org = org, .epoch = 1, .dimension = 4};
    assert_int_equal(ask_control(s, HD_CONTROL_CREATE_PARTITION, spec, 0).status, HD_OK);
}

static hd_write_reply save_many(shard *s, uint64_t org, uint64_t partition, uint32_t first, uint32_t count) {
    hd_write_item *items = hd_arena_alloc_zero(s->arena, count, sizeof(*items));
    for (uint32_t i = 0; i < count; i++) {
        hd_str id;
        assert_int_equal(hd_arena_printf(s->arena, &id, "e%u", first + i), HD_OK);
        items[i] = (hd_write_item){.kind = HD_WRITE_SAVE, .partition = partition, .epoch = 1};
        items[i].event = (hd_event_record){.id = id, .summary = HD_STR("a summary"), .timestamp_us = first + i};
    }
    hd_request request = {.kind = HD_MESSAGE_WRITE,
                          .write = {.org = org, .remaining_ms = 20000, .items = items, .item_count = count}};
    return ask(s, &request).write;
}

/* START newest of one partition. */
static hd_request newest(hd_partition_ref *ref, hd_step *step, uint64_t org, uint64_t partition, uint32_t remaining_ms) {
    *ref = (hd_partition_ref){.id = partition, .epoch = 1};
    *step = (hd_step){.kind = HD_STEP_START, .number = 1, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    step->start = (hd_start){.mode = HD_START_NEWEST, .k = 5, .facets = HD_FACET_TIME | HD_FACET_SUMMARY};
    step->facets = HD_FACET_TIME | HD_FACET_SUMMARY;
    return (hd_request){.kind = HD_MESSAGE_STEP,
                        .step = {.query = 77,
                                 .org = org,
                                 .partitions = ref,
                                 .partition_count = 1,
                                 .is_whole_org = true,
                                 .org_partitions = 1,
                                 .remaining_ms = remaining_ms,
                                 .frontier_max = 1000,
                                 .scanned_max = 100000,
                                 .measured_max = 1000,
                                 .steps = step,
                                 .step_count = 1}};
}

static void test_conversation(void **state) {
    shard s;
    shard_start(&s, 2, 64);
    hd_control_reply hello = ask_control(&s, HD_CONTROL_HELLO, (hd_partition_spec){0}, 0);
    assert_int_equal(hello.status, HD_OK);
    assert_true(hello.shard_uuid.size == 36 && hello.format == SH_STORE_FORMAT && hello.version.size > 0);
    assert_true(hd_str_is_equal(hello.shard_uuid, hd_str_of(sh_admin_uuid(s.admin))));
    create(&s, 5, 3);
    create(&s, 5, 3);
    create(&s, 6, 4);
    hd_write_reply written = save_many(&s, 5, 3, 0, 300);
    assert_int_equal(written.status, HD_OK);
    assert_int_equal(written.outcome_count, 300);
    for (uint32_t i = 0; i < 300; i++) assert_true(written.outcomes[i].code == HD_OK && written.outcomes[i].is_created);
    assert_int_equal(save_many(&s, 6, 3, 0, 1).outcomes[0].code, HD_FORBIDDEN);

    hd_partition_ref ref;
    hd_step step;
    hd_request request = newest(&ref, &step, 5, 3, 5000);
    hd_step_reply reply = ask(&s, &request).step;
    assert_int_equal(reply.status, HD_OK);
    assert_int_equal(reply.result_count, 1);
    assert_int_equal(reply.results[0].events.count, 5);
    assert_true(hd_str_is_equal(reply.results[0].events.ids[0], HD_STR("e299")));
    assert_true(hd_str_is_equal(reply.results[0].events.summaries[0], HD_STR("a summary")));
    assert_true(reply.results[0].has_more && reply.partitions[0].incarnation != 0 && reply.partitions[0].sequence != 0);
    request = newest(&ref, &step, 6, 3, 5000); /* another org's partition: nothing of it comes back */
    reply = ask(&s, &request).step;
    assert_true(reply.status != HD_OK || (reply.results[0].events.count == 0 && reply.results[0].verdicts[0].code == HD_FORBIDDEN));

    hd_control_reply stats = ask_control(&s, HD_CONTROL_STATS, (hd_partition_spec){0}, 0);
    assert_true(stats.status == HD_OK && stats.memory_bytes > 0 && stats.disk_bytes > 0);
    assert_int_equal(stats.partition_count, 2);
    assert_int_equal(stats.partitions[0].events, 300);
    assert_int_equal(ask_control(&s, HD_CONTROL_STATS, (hd_partition_spec){0}, 6).partition_count, 1);
    hd_partition_spec gone = {.id = 3, .org = 5, .epoch = 1, .dimension = 4};
    assert_int_equal(ask_control(&s, HD_CONTROL_DROP_PARTITION, gone, 5).status, HD_OK);
    assert_int_equal(ask_control(&s, HD_CONTROL_DROP_PARTITION, gone, 5).status, HD_NOT_FOUND);
    assert_int_equal(save_many(&s, 5, 3, 0, 1).outcomes[0].code, HD_MAP_STALE);
    sh_server_tick(s.server);
    shard_stop(&s);
}

/* What is malformed is dropped without an answer, whatever it is, and the next request is answered. */
static void test_malformed(void **state) {
    test_random r = {seed};
    shard s;
    shard_start(&s, 2, 1024);
    create(&s, 5, 3);
    hd_metric *malformed = hd_metrics_counter("heddle_shard_malformed_total", NULL, "Messages dropped because they do not decode.");
    uint64_t before = hd_metric_get(malformed);
    send_bytes(&s, HD_STR(""));
    send_bytes(&s, HD_STR("hello"));
    hd_control_reply hello = ask_control(&s, HD_CONTROL_HELLO, (hd_partition_spec){0}, 0);
    assert_int_equal(hello.status, HD_OK);
    assert_int_equal(hd_metric_get(malformed), before + 2);
    hd_partition_ref ref;
    hd_step step;
    hd_request request = newest(&ref, &step, 5, 3, 5000);
    request.id = 1;
    hd_buf good = {0};
    hd_codec_encode_request(&request, &good);
    for (int i = 0; i < 500; i++) {
        hd_buf bad = {0};
        hd_buf_add_str(&bad, hd_buf_get(&good));
        for (uint32_t j = test_random_below(&r, 4) + 1; j > 0; j--)
            bad.data[test_random_below(&r, (uint32_t)bad.size)] ^= (char)(1 << test_random_below(&r, 8));
        send_bytes(&s, (hd_str){bad.data, i % 2 ? bad.size : test_random_below(&r, (uint32_t)bad.size)});
        hd_buf_fini(&bad);
    }
    hd_buf_fini(&good);
    s.id = 1 << 20;
    request = newest(&ref, &step, 5, 3, 5000);
    uint64_t id = send_request(&s, &request);
    hd_reply reply;
    do reply = receive_reply(&s); /* some of the damaged ones were still requests */
    while (reply.id != id);
    assert_int_equal(reply.step.status, HD_OK);
    shard_stop(&s);
}

/* A shard with a queue of one and one worker, which is held up: what comes then is refused, busy or late; a cancelled one is not
 * answered; and while the shard drains it takes nothing new. */
static void test_refusals(void **state) {
    shard s;
    hd_error error = {0};
    sh_partition *held;
    shard_start(&s, 1, 1);
    create(&s, 5, 3);
    ASSERT_OK(sh_partitions_acquire(s.f.partitions, 5, 3, 1, 0, &held, &error), error);
    hd_request drop = {.kind = HD_MESSAGE_CONTROL,
                       .control = {.kind = HD_CONTROL_DROP_PARTITION, .remaining_ms = 60000, .partition = held->spec, .org = 5}};
    uint64_t drop_id = send_request(&s, &drop); /* the worker waits for us to let go */
    for (hd_status status = HD_OK; status == HD_OK;) {
        sh_partition *other;
        status = sh_partitions_acquire(s.f.partitions, 5, 3, 1, 0, &other, &error);
        if (status == HD_OK) sh_partitions_release(s.f.partitions, other);
    }
    hd_partition_ref ref;
    hd_step step;
    hd_request late = newest(&ref, &step, 5, 3, 1);
    uint64_t late_id = send_request(&s, &late); /* waits, and its deadline passes */
    hd_request busy = newest(&ref, &step, 5, 3, 60000);
    hd_reply reply = ask(&s, &busy);
    assert_int_equal(reply.step.status, HD_BUSY);
    assert_int_equal(ask_control(&s, HD_CONTROL_HELLO, (hd_partition_spec){0}, 0).status, HD_OK); /* the loop is not held up */
    usleep(2000);
    sh_partitions_release(s.f.partitions, held);
    reply = receive_reply(&s);
    assert_true(reply.id == drop_id && reply.control.status == HD_OK);
    reply = receive_reply(&s);
    assert_true(reply.id == late_id && reply.step.status == HD_DEADLINE);

    create(&s, 5, 8);
    ASSERT_OK(sh_partitions_acquire(s.f.partitions, 5, 8, 1, 0, &held, &error), error);
    drop.control.partition = held->spec;
    drop_id = send_request(&s, &drop);
    for (;;) {
        sh_partition *other;
        if (sh_partitions_acquire(s.f.partitions, 5, 8, 1, 0, &other, &error) != HD_OK) break;
        sh_partitions_release(s.f.partitions, other);
    }
    hd_request cancelled = newest(&ref, &step, 5, 8, 60000);
    cancelled.step.query = 4711;
    (void)send_request(&s, &cancelled);
    hd_request cancel = {.kind = HD_MESSAGE_CONTROL, .control = {.kind = HD_CONTROL_CANCEL, .org = 5, .query = 4711}};
    (void)send_request(&s, &cancel);
    assert_int_equal(ask_control(&s, HD_CONTROL_HELLO, (hd_partition_spec){0}, 0).status, HD_OK);
    sh_partitions_release(s.f.partitions, held);
    reply = receive_reply(&s);
    assert_true(reply.id == drop_id && reply.control.status == HD_OK);

    assert_true(sh_server_is_ready(s.server));
    sh_server_drain(s.server, 1000);
    assert_false(sh_server_is_ready(s.server));
    hd_request after = newest(&ref, &step, 5, 8, 60000);
    reply = ask(&s, &after); /* and no answer of the cancelled one came before it */
    assert_int_equal(reply.step.status, HD_UNAVAILABLE);
    assert_int_equal(save_many(&s, 5, 8, 0, 1).status, HD_UNAVAILABLE);
    shard_stop(&s);
}

/* Many clients at once, reads and writes mixed: every request gets its own answer. */
typedef struct caller {
    shard *shard;
    uint32_t number, answered;
    bool is_wrong;
} caller;

static void *call_often(void *self) {
    enum { CALLS = 60 };
    caller *c = self;
    shard own = {.client = hd_wire_client_new(), .arena = hd_arena_new(0), .id = (uint64_t)c->number << 32};
    c->is_wrong = hd_wire_client_connect(own.client, sh_server_endpoint(c->shard->server), &own.peer) != HD_OK;
    for (uint32_t i = 0; i < CALLS && !c->is_wrong; i++) {
        uint64_t org = 1 + c->number % 3;
        if (i % 3 == 0) {
            hd_write_reply written = save_many(&own, org, org, c->number * 100000 + i * 10, 5);
            c->is_wrong = written.status != HD_OK || written.outcomes[4].code != HD_OK;
        } else {
            hd_partition_ref ref;
            hd_step step;
            hd_request request = newest(&ref, &step, org, org, 20000);
            hd_step_reply reply = ask(&own, &request).step;
            c->is_wrong = reply.status != HD_OK || reply.results[0].events.count == 0;
        }
        c->answered++;
    }
    hd_wire_client_free(own.client);
    hd_arena_free(own.arena);
    return NULL;
}

static void test_many_callers(void **state) {
    enum { CALLERS = 6 };
    shard s;
    caller callers[CALLERS];
    pthread_t threads[CALLERS];
    shard_start(&s, 3, 256);
    for (uint64_t org = 1; org <= 3; org++) create(&s, org, org);
    for (uint32_t i = 0; i < CALLERS; i++) {
        callers[i] = (caller){.shard = &s, .number = i + 1};
        pthread_create(&threads[i], NULL, call_often, &callers[i]);
    }
    for (uint32_t i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_false(callers[i].is_wrong);
        assert_int_equal(callers[i].answered, 60);
    }
    hd_control_reply stats = ask_control(&s, HD_CONTROL_STATS, (hd_partition_spec){0}, 0);
    assert_int_equal(stats.partition_count, 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(stats.partitions[i].events, 2 * 20 * 5);
    shard_stop(&s);
}

/* The uuid is the data folder's. */
static void test_uuid_stays(void **state) {
    fixture f;
    sh_admin *admin;
    hd_error error = {0};
    char first[40];
    fixture_new(&f);
    ASSERT_OK(sh_admin_new(f.store, f.partitions, &admin, &error), error);
    snprintf(first, sizeof(first), "%s", sh_admin_uuid(admin));
    sh_admin_free(admin);
    fixture_reopen(&f);
    ASSERT_OK(sh_admin_new(f.store, f.partitions, &admin, &error), error);
    assert_string_equal(sh_admin_uuid(admin), first);
    sh_admin_free(admin);
    fixture_end(&f);
}

/* -- HTTP ------------------------------------------------------------------------------------------------------------------------------- */

static bool health_answer = true;

static bool answer_health(void *self) {
    return __atomic_load_n(&health_answer, __ATOMIC_RELAXED);
}

static void fetch(uint16_t port, const char *request, char *text_out, size_t room) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(write(fd, request, strlen(request)), (ssize_t)strlen(request));
    size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < room - 1; size += (size_t)HD_MAX(got, 0))
        got = read(fd, text_out + size, room - 1 - size);
    text_out[size] = 0;
    close(fd);
}

static void test_health(void **state) {
    sh_health *health = NULL, *other = NULL;
    hd_error error = {0};
    static char text[65536];
    char address[32];
    assert_int_equal(sh_health_new("nonsense", answer_health, NULL, &health, &error), HD_ARGUMENT);
    assert_int_equal(sh_health_new("127.0.0.1:70000", answer_health, NULL, &health, &error), HD_ARGUMENT);
    assert_int_equal(sh_health_new("example.org:1", answer_health, NULL, &health, &error), HD_ARGUMENT);
    memset(&error, 0, sizeof(error));
    ASSERT_OK(sh_health_new("127.0.0.1:0", answer_health, NULL, &health, &error), error);
    uint16_t port = sh_health_port(health);
    snprintf(address, sizeof(address), "localhost:%u", port);
    assert_int_equal(sh_health_new(address, answer_health, NULL, &other, &error), HD_ARGUMENT);
    assert_non_null(strstr(error.message, address));
    fetch(port, "GET /healthz HTTP/1.0\r\n\r\n", text, sizeof(text));
    assert_non_null(strstr(text, " 200 "));
    fetch(port, "GET /readyz HTTP/1.0\r\n\r\n", text, sizeof(text));
    assert_non_null(strstr(text, " 200 "));
    __atomic_store_n(&health_answer, false, __ATOMIC_RELAXED);
    fetch(port, "GET /readyz HTTP/1.0\r\n\r\n", text, sizeof(text));
    assert_non_null(strstr(text, " 503 "));
    fetch(port, "GET /metrics HTTP/1.0\r\n\r\n", text, sizeof(text));
    assert_non_null(strstr(text, "heddle_shard_written_events_total "));
    fetch(port, "GET /else HTTP/1.0\r\n\r\n", text, sizeof(text));
    assert_non_null(strstr(text, " 404 "));
    fetch(port, "POST /healthz HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc", text, sizeof(text));
    assert_non_null(strstr(text, " 405 "));
    sh_health_free(health);
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),        cmocka_unit_test(test_full_queue),   cmocka_unit_test(test_cancel_in_queue),
        cmocka_unit_test(test_random_queue), cmocka_unit_test(test_conversation), cmocka_unit_test(test_malformed),
        cmocka_unit_test(test_refusals),     cmocka_unit_test(test_many_callers), cmocka_unit_test(test_uuid_stays),
        cmocka_unit_test(test_health),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
