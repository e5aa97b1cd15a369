/* Memories on their way, against a server that keeps the coordinator's rules in a few lines (ids once, predecessors first, each item for
 * itself) and misbehaves on purpose: refuses as busy, answers late, breaks off before or after the work was done, loses items. Whatever
 * it does, every memory has to arrive once, be told once, and none may be refused for the order of things. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/call.h"
#include "client/import/sender.h"
#include "common/buf.h"
#include "common/map.h"
#include "tests/support/seed.h"

enum { MEMORIES_MAX = 2000, THREADS_MAX = 64 };

static uint64_t seed;

/* ---- the server ---- */

typedef struct server {
    int listener;
    unsigned port;
    pthread_t thread;
    pthread_mutex_t mutex; /* of all below */
    pthread_t connections[THREADS_MAX];
    size_t connection_count;
    test_random random;
    uint32_t fault_percent; /* of calls */
    bool is_always_busy, is_quota_used, is_stopped;
    uint32_t calls, in_flight, in_flight_most, items_most;
    bool is_saved[MEMORIES_MAX];
    uint32_t saves[MEMORIES_MAX], order_next;
    uint32_t order[MEMORIES_MAX]; /* when each was saved, from 1 */
} server;

static server fake;

/* The number in "m12"; MEMORIES_MAX for another id. */
static uint32_t parse_id(const char *id) {
    if (id == NULL || id[0] != 'm') return MEMORIES_MAX;
    return (uint32_t)strtoul(id + 1, NULL, 10);
}

static json_t *make_problem(const char *reason, const char *detail) {
    return json_pack("{s:s, s:s, s:s}", "status", "error", "reason", reason, "detail", detail);
}

/* As tools.md has it: each for itself, a predecessor of the same call has to have been saved by it. */
static json_t *save_item(const json_t *items, size_t i) {
    const json_t *item = json_array_get(items, i);
    const char *id = json_string_value(json_object_get(item, "event_id")),
               *previous = json_string_value(json_object_get(item, "prev_event_id"));
    char detail[128];
    uint32_t number = parse_id(id);
    if (json_object_get(item, "bad") != NULL) {
        snprintf(detail, sizeof(detail), "item %zu: \"bad\" is bad", i + 1);
        return make_problem("invalid_argument", detail);
    }
    if (previous != NULL) {
        bool is_earlier = false, is_saved_here = false;
        for (size_t k = 0; k < i; k++) {
            if (strcmp(json_string_value(json_object_get(json_array_get(items, k), "event_id")), previous) != 0) continue;
            is_earlier = true;
            is_saved_here = json_object_get(json_array_get(items, k), "saved_here") != NULL;
        }
        if (is_earlier ? !is_saved_here : !fake.is_saved[parse_id(previous)])
            return make_problem("invalid_argument", "prev_event_id is not there");
    }
    if (fake.is_saved[number]) return make_problem("already_exists", "there is one");
    uint32_t dice = fake.fault_percent > 0 ? test_random_below(&fake.random, 1000) : 1000;
    if (dice < 20) return make_problem("shard_unavailable", "not done");
    fake.is_saved[number] = true;
    fake.saves[number]++;
    fake.order[number] = ++fake.order_next;
    json_object_set_new((json_t *)(uintptr_t)item, "saved_here", json_true());
    if (dice < 40) return make_problem("shard_unavailable", "done, and nobody knows");
    return json_pack("{s:s, s:b}", "status", "ok", "created", 1);
}

typedef struct reply {
    int status; /* 0: break off */
    json_t *json;
    const char *raw;
} reply;

static reply save_all(const char *body, size_t size) {
    json_t *request = json_loadb(body, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *items = json_object_get(request, "memories");
    if (request == NULL) return (reply){400, make_problem("invalid_argument", "the body is no JSON"), NULL};
    for (size_t i = 0; i < json_array_size(items); i++) {
        if (json_object_get(json_array_get(items, i), "poison") == NULL)
            continue; /* the call as a whole is refused for one of its items */
        json_decref(request);
        return (reply){413, make_problem("too_large", "too much"), NULL};
    }
    json_t *results = json_array();
    for (size_t i = 0; i < json_array_size(items); i++) json_array_append_new(results, save_item(items, i));
    fake.items_most = HD_MAX(fake.items_most, (uint32_t)json_array_size(items));
    json_decref(request);
    return (reply){200, json_pack("{s:s, s:o}", "status", "ok", "results", results), NULL};
}

static reply decide(const char *body, size_t size) {
    uint32_t dice = test_random_below(&fake.random, 100);
    fake.calls++;
    if (fake.is_always_busy) return (reply){429, make_problem("busy", "too much is waiting"), NULL};
    if (fake.is_quota_used) return (reply){429, make_problem("quota_exceeded", "the org is full"), NULL};
    if (dice >= fake.fault_percent) return save_all(body, size);
    switch (test_random_below(&fake.random, 5)) {
    case 0: return (reply){503, make_problem("shard_unavailable", "starting"), NULL};
    case 1: return (reply){502, NULL, "<html>bad gateway</html>"};
    case 2: return (reply){0, NULL, NULL};
    case 3: {
        reply done = save_all(body, size);
        json_decref(done.json);
        return (reply){0, NULL, NULL};
    }
    default: return (reply){504, make_problem("timeout", "late"), NULL};
    }
}

static bool read_request(int socket, hd_buf *in, size_t *body_at_out, size_t *size_out) {
    for (;;) {
        const char *end = in->size > 0 ? strstr(in->data, "\r\n\r\n") : NULL;
        if (end != NULL) {
            const char *length = strcasestr(in->data, "content-length:");
            *body_at_out = (size_t)(end - in->data) + 4;
            *size_out = length != NULL && length < end ? strtoul(length + 15, NULL, 10) : 0;
            if (in->size >= *body_at_out + *size_out) return true;
        }
        ssize_t size = recv(socket, hd_buf_reserve(in, 65536), 65535, 0);
        if (size <= 0) return false;
        in->size += (size_t)size;
        in->data[in->size] = '\0';
    }
}

static void send_reply(int socket, const reply *answer) {
    hd_buf body = {0}, out = {0};
    if (answer->json != NULL)
        cl_json_add(&body, answer->json);
    else
        hd_buf_add_str(&body, hd_str_of(answer->raw));
    hd_buf_printf(&out, "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n", answer->status,
                  body.size);
    hd_buf_add(&out, body.data, body.size);
    for (size_t done = 0; done < out.size;) {
        ssize_t size = send(socket, out.data + done, out.size - done, MSG_NOSIGNAL);
        if (size <= 0) break;
        done += (size_t)size;
    }
    hd_buf_fini(&body);
    hd_buf_fini(&out);
}

static void *serve_connection(void *self) {
    int socket = (int)(intptr_t)self;
    hd_buf in = {0};
    size_t body_at, size;
    while (read_request(socket, &in, &body_at, &size)) {
        pthread_mutex_lock(&fake.mutex);
        fake.in_flight++;
        fake.in_flight_most = HD_MAX(fake.in_flight_most, fake.in_flight);
        uint32_t before_us = test_random_below(&fake.random, 2000), after_us = test_random_below(&fake.random, 2000);
        pthread_mutex_unlock(&fake.mutex);
        usleep(before_us);
        pthread_mutex_lock(&fake.mutex);
        reply answer = decide(in.data + body_at, size);
        pthread_mutex_unlock(&fake.mutex);
        usleep(after_us);
        pthread_mutex_lock(&fake.mutex);
        fake.in_flight--;
        pthread_mutex_unlock(&fake.mutex);
        if (answer.status == 0) break;
        send_reply(socket, &answer);
        json_decref(answer.json);
        memmove(in.data, in.data + body_at + size, in.size - body_at - size);
        in.size -= body_at + size;
        in.data[in.size] = '\0';
    }
    hd_buf_fini(&in);
    close(socket);
    return NULL;
}

static void *serve(void *self) {
    for (;;) {
        int socket = accept(fake.listener, NULL, NULL);
        if (socket < 0) return NULL;
        pthread_mutex_lock(&fake.mutex);
        if (fake.connection_count == THREADS_MAX) { /* the oldest ones have ended long ago */
            pthread_join(fake.connections[0], NULL);
            memmove(fake.connections, fake.connections + 1, (THREADS_MAX - 1) * sizeof(pthread_t));
            fake.connection_count--;
        }
        assert_int_equal(
            pthread_create(&fake.connections[fake.connection_count++], NULL, serve_connection, (void *)(intptr_t)socket), 0);
        pthread_mutex_unlock(&fake.mutex);
    }
}

static void start_server(uint64_t random_seed, uint32_t fault_percent) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    fake = (server){.mutex = PTHREAD_MUTEX_INITIALIZER, .random = {random_seed}, .fault_percent = fault_percent};
    fake.listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fake.listener, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fake.listener, 64), 0);
    assert_int_equal(getsockname(fake.listener, (struct sockaddr *)&address, &size), 0);
    fake.port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&fake.thread, NULL, serve, NULL), 0);
}

/* The client's connections are closed by now, so that every thread comes to its end. */
static void stop_server(void) {
    shutdown(fake.listener, SHUT_RDWR);
    pthread_join(fake.thread, NULL);
    for (size_t i = 0; i < fake.connection_count; i++) pthread_join(fake.connections[i], NULL);
    close(fake.listener);
}

/* ---- the client's side ---- */

typedef struct told {
    uint32_t count[MEMORIES_MAX];
    cl_outcome outcome[MEMORIES_MAX];
    char why[MEMORIES_MAX][96];
} told;

static void take_outcome(void *self, const cl_memory *memory, cl_outcome outcome, const char *why, const json_t *warnings) {
    told *t = self;
    assert_true(memory->number < MEMORIES_MAX);
    t->count[memory->number]++;
    t->outcome[memory->number] = outcome;
    snprintf(t->why[memory->number], sizeof(t->why[0]), "%s", why != NULL ? why : "");
}

typedef struct sending {
    cl_http *http;
    cl_sender *sender;
    told *told;
} sending;

static sending start_sending(uint32_t batch, uint32_t in_flight, uint64_t retry_ms) {
    char url[64];
    hd_error error = {0};
    sending s = {.told = hd_alloc_zero(1, sizeof(told))};
    cl_sender_options options = {.batch_items_max = batch, .in_flight_max = in_flight, .retry_ms = retry_ms, .backoff_ms = 1};
    snprintf(url, sizeof(url), "http://127.0.0.1:%u", fake.port);
    assert_int_equal(cl_http_new(url, "hd_test", &s.http, &error), HD_OK);
    s.sender = cl_sender_new(s.http, &options, take_outcome, s.told);
    return s;
}

static void end_sending(sending *s) {
    cl_http_free(s->http);
    cl_sender_free(s->sender);
    hd_free(s->told);
}

/* `previous` < 0: none. `more` is put into the object. */
static hd_status add(sending *s, uint32_t number, int previous, const char *more, hd_error *error) {
    char id[16], previous_id[16], json[160], place[24];
    snprintf(id, sizeof(id), "m%u", number);
    snprintf(previous_id, sizeof(previous_id), "m%d", previous);
    snprintf(place, sizeof(place), "line %u", number);
    if (previous < 0)
        snprintf(json, sizeof(json), "{\"event_id\":\"%s\"%s}", id, more);
    else
        snprintf(json, sizeof(json), "{\"event_id\":\"%s\",\"prev_event_id\":\"%s\"%s}", id, previous_id, more);
    cl_memory memory = {.json = hd_str_of(json), .id = hd_str_of(id), .place = hd_str_of(place), .number = number};
    if (previous >= 0) memory.previous = hd_str_of(previous_id);
    return cl_sender_add(s->sender, &memory, error);
}

/* ---- tests ---- */

static void test_order_and_faults(void **state) {
    test_random r = {seed};
    for (int round = 0; round < 30; round++) {
        uint32_t count = 1 + test_random_below(&r, 400), batch = 1 + test_random_below(&r, 40),
                 in_flight = 1 + test_random_below(&r, 6);
        uint32_t fault_percent = test_random_below(&r, 3) * 20, chain = 1 + test_random_below(&r, 4);
        start_server(test_random_u64(&r), fault_percent);
        int previous[MEMORIES_MAX];
        for (uint32_t i = 0; i < count; i++)
            previous[i] = i == 0 || test_random_below(&r, chain) == 0 ? -1 : (int)(i - 1 - test_random_below(&r, HD_MIN(i, 30u)));
        /* Some are there already, with all that they follow: what an import that was broken off left. */
        for (uint32_t i = 0; i < count && test_random_below(&r, 60) > 0; i++)
            fake.is_saved[i] = previous[i] < 0 || fake.is_saved[previous[i]] ? test_random_below(&r, 4) > 0 : false;
        bool was_there[MEMORIES_MAX];
        memcpy(was_there, fake.is_saved, sizeof(was_there));
        sending s = start_sending(batch, in_flight, 60000);
        hd_error error = {0};
        for (uint32_t i = 0; i < count; i++)
            if (add(&s, i, previous[i], "", &error) != HD_OK) fail_msg("%s", error.message);
        if (cl_sender_finish(s.sender, &error) != HD_OK) fail_msg("%s", error.message);
        for (uint32_t i = 0; i < count; i++) {
            if (s.told->outcome[i] == CL_OUTCOME_REFUSED) fail_msg("round %d: m%u was refused: %s", round, i, s.told->why[i]);
            assert_int_equal(s.told->count[i], 1);
            assert_true(fake.is_saved[i]);
            assert_int_equal(fake.saves[i], !was_there[i]);
            if (was_there[i]) assert_int_equal(s.told->outcome[i], CL_OUTCOME_ALREADY_THERE);
            if (fault_percent == 0 && !was_there[i]) assert_int_equal(s.told->outcome[i], CL_OUTCOME_ADDED);
            if (!was_there[i] && previous[i] >= 0 && !was_there[previous[i]]) assert_true(fake.order[previous[i]] < fake.order[i]);
        }
        assert_true(fake.items_most <= batch);
        if (fault_percent == 0)
            assert_true(fake.in_flight_most <= in_flight); /* a call that was broken off may still be at work there */
        end_sending(&s);
        stop_server();
    }
}

static void test_calls_overlap(void **state) {
    start_server(seed, 0);
    sending s = start_sending(5, 4, 1000);
    hd_error error = {0};
    for (uint32_t i = 0; i < 1000; i++) assert_int_equal(add(&s, i, -1, "", &error), HD_OK);
    assert_int_equal(cl_sender_finish(s.sender, &error), HD_OK);
    assert_int_equal(fake.calls, 200);
    assert_true(fake.in_flight_most > 1 && fake.in_flight_most <= 4);
    end_sending(&s);
    stop_server();
}

/* A bad one is told with its reason, without the place in the call; what follows it is refused too, the rest is saved. */
static void test_refusals(void **state) {
    start_server(seed, 0);
    sending s = start_sending(10, 3, 1000);
    hd_error error = {0};
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(add(&s, i, i == 58 ? 57 : -1, i == 57 ? ",\"bad\":1" : "", &error), HD_OK);
    assert_int_equal(cl_sender_finish(s.sender, &error), HD_OK);
    for (uint32_t i = 0; i < 100; i++) {
        bool is_refused = i == 57 || i == 58;
        assert_int_equal(s.told->count[i], 1);
        assert_int_equal(s.told->outcome[i], is_refused ? CL_OUTCOME_REFUSED : CL_OUTCOME_ADDED);
    }
    assert_string_equal(s.told->why[57], "\"bad\" is bad");
    end_sending(&s);
    stop_server();
}

/* A call that is refused as a whole: the memories that it is about are found, and only they are refused. */
static void test_poison(void **state) {
    start_server(seed, 0);
    sending s = start_sending(50, 3, 1000);
    hd_error error = {0};
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(
            add(&s, i, i > 0 && i % 3 == 0 && i != 78 ? (int)i - 1 : -1, i == 77 || i == 130 ? ",\"poison\":1" : "", &error),
            HD_OK);
    assert_int_equal(cl_sender_finish(s.sender, &error), HD_OK);
    for (uint32_t i = 0; i < 200; i++) {
        assert_int_equal(s.told->count[i], 1);
        assert_int_equal(s.told->outcome[i], i == 77 || i == 130 ? CL_OUTCOME_REFUSED : CL_OUTCOME_ADDED);
    }
    assert_string_equal(s.told->why[130], "too much");
    end_sending(&s);
    stop_server();
}

static hd_status send_some(sending *s, hd_error *error) {
    for (uint32_t i = 0; i < 100; i++) HD_TRY(add(s, i, -1, "", error));
    return cl_sender_finish(s->sender, error);
}

static void test_giving_up(void **state) {
    hd_error error = {0};
    start_server(seed, 0);
    fake.is_always_busy = true;
    sending s = start_sending(10, 2, 30);
    assert_int_equal(send_some(&s, &error), HD_UNAVAILABLE);
    assert_non_null(strstr(error.message, "too much is waiting"));
    assert_true(fake.calls > 2); /* it was tried again */
    cl_sender_drain(s.sender);
    end_sending(&s);
    fake.is_always_busy = false;
    fake.is_quota_used = true; /* no use in trying */
    fake.calls = 0;
    error = (hd_error){0};
    s = start_sending(10, 1, 60000);
    assert_int_equal(send_some(&s, &error), HD_QUOTA);
    assert_int_equal(fake.calls, 1);
    end_sending(&s);
    stop_server();
    error = (hd_error){0};
    s = start_sending(10, 2, 20); /* nobody listens there any more */
    assert_int_equal(send_some(&s, &error), HD_UNAVAILABLE);
    assert_non_null(strstr(error.message, "nothing answers"));
    end_sending(&s);
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_and_faults), cmocka_unit_test(test_calls_overlap), cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_poison),           cmocka_unit_test(test_giving_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
