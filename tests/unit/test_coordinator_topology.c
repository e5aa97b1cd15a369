/* Finding shards: who is where, two that claim to be one, one that becomes another, and calls that get no answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "coordinator/cluster/topology.h"

static char folder[64];

typedef struct fake_shard {
    char endpoint[128], uuid[48];
    hd_wire_server *server;
    pthread_t thread;
    atomic_bool is_mute, is_stray; /* stray: an answer to nobody's request comes first */
} fake_shard;

static void answer(void *self, const hd_wire_peer *peer, hd_str payload) {
    fake_shard *shard = self;
    hd_arena *arena = hd_arena_new(0);
    hd_request request;
    if (hd_codec_decode_request(arena, payload, &request) != HD_OK) abort();
    hd_reply reply = {.id = request.id, .kind = request.kind};
    if (request.kind == HD_MESSAGE_CONTROL) reply.control.shard_uuid = hd_str_of(shard->uuid);
    for (int strays = atomic_load(&shard->is_stray); strays >= 0 && !atomic_load(&shard->is_mute); strays--) {
        hd_buf bytes = {0};
        reply.id = request.id + (uint64_t)strays;
        hd_codec_encode_reply(&reply, &bytes);
        hd_wire_server_send(shard->server, peer, &bytes);
    }
    hd_arena_free(arena);
}

static void *run_shard(void *self) {
    fake_shard *shard = self;
    if (hd_wire_server_run(shard->server, answer, shard) != HD_OK) abort();
    return NULL;
}

static void start(fake_shard *shard, const char *name, const char *uuid) {
    hd_error error = {0};
    memset(shard, 0, sizeof(*shard));
    snprintf(shard->endpoint, sizeof(shard->endpoint), "ipc://%s/%s", folder, name);
    snprintf(shard->uuid, sizeof(shard->uuid), "%s", uuid);
    assert_int_equal(hd_wire_server_new(shard->endpoint, &shard->server, &error), HD_OK);
    assert_int_equal(pthread_create(&shard->thread, NULL, run_shard, shard), 0);
}

static void stop(fake_shard *shard) {
    hd_wire_server_stop(shard->server);
    pthread_join(shard->thread, NULL);
    hd_wire_server_free(shard->server);
}

static uint64_t in_ms(uint64_t ms) {
    return hd_clock_monotonic_us() + ms * 1000;
}

static co_topology *open_topology(const char *const *endpoints, uint32_t count) {
    co_topology *topology;
    hd_error error = {0};
    assert_int_equal(co_topology_new(endpoints, count, &topology, &error), HD_OK);
    return topology;
}

static bool is_at(co_topology *topology, const char *uuid, const char *endpoint) {
    char found[256];
    return co_topology_find(topology, uuid, found) == HD_OK && strcmp(found, endpoint) == 0;
}

static void await_at(co_topology *topology, const char *uuid, const char *endpoint) {
    uint64_t until = in_ms(20000);
    while (!is_at(topology, uuid, endpoint)) {
        assert_true(hd_clock_monotonic_us() < until);
        usleep(5000);
    }
}

static void shards_are_found_when_they_come(void **state) {
    fake_shard a, b;
    start(&a, "a", "uuid-a");
    const char *endpoints[] = {a.endpoint, b.endpoint, a.endpoint};
    snprintf(b.endpoint, sizeof(b.endpoint), "ipc://%s/b", folder);
    co_topology *topology = open_topology(endpoints, 3); /* an endpoint given twice is one */
    assert_int_equal(co_topology_wait(topology, in_ms(300)), 1);
    char found[256];
    assert_int_equal(co_topology_find(topology, "uuid-b", found), HD_SHARD_DOWN);
    start(&b, "b", "uuid-b");
    assert_int_equal(co_topology_wait(topology, in_ms(20000)), 2);
    assert_true(is_at(topology, "uuid-a", a.endpoint) && is_at(topology, "uuid-b", b.endpoint));
    hd_arena *arena = hd_arena_new(0);
    co_shard_info *infos;
    uint32_t count;
    assert_int_equal(co_topology_list(topology, arena, &infos, &count), HD_OK);
    assert_int_equal(count, 2);
    assert_string_equal(infos[0].uuid, "uuid-a");
    assert_true(infos[0].is_alive && infos[1].is_alive);
    hd_arena_free(arena);
    /* The endpoint is reused by another shard: the old one is nowhere then. */
    stop(&b);
    start(&b, "b", "uuid-c");
    await_at(topology, "uuid-c", b.endpoint);
    assert_int_equal(co_topology_find(topology, "uuid-b", found), HD_SHARD_DOWN);
    co_topology_free(topology);
    stop(&a);
    stop(&b);
}

static void of_two_with_one_id_the_first_counts(void **state) {
    fake_shard a, b;
    start(&a, "a", "same");
    snprintf(b.endpoint, sizeof(b.endpoint), "ipc://%s/b", folder);
    const char *endpoints[] = {a.endpoint, b.endpoint};
    co_topology *topology = open_topology(endpoints, 2);
    await_at(topology, "same", a.endpoint);
    start(&b, "b", "same");
    assert_int_equal(co_topology_wait(topology, in_ms(500)), 1);
    assert_true(is_at(topology, "same", a.endpoint));
    co_topology_free(topology);
    stop(&a);
    stop(&b);
}

static void an_id_that_is_none_is_not_taken(void **state) {
    fake_shard a, b;
    start(&a, "a", "");
    start(&b, "b", "0123456789012345678901234567890123456789");
    const char *endpoints[] = {a.endpoint, b.endpoint};
    co_topology *topology = open_topology(endpoints, 2);
    assert_int_equal(co_topology_wait(topology, in_ms(300)), 0);
    co_topology_free(topology);
    stop(&a);
    stop(&b);
}

static void calls_get_their_own_reply_or_say_what_happened(void **state) {
    fake_shard a;
    start(&a, "a", "uuid-a");
    const char *endpoints[] = {a.endpoint};
    co_topology *topology = open_topology(endpoints, 1);
    assert_int_equal(co_topology_wait(topology, in_ms(20000)), 1);
    hd_wire_client *wire = hd_wire_client_new();
    hd_arena *arena = hd_arena_new(0);
    hd_request request = {.kind = HD_MESSAGE_CONTROL, .control = {.kind = HD_CONTROL_STATS}};
    hd_reply reply;
    hd_error error = {0};
    atomic_store(&a.is_stray, true);
    assert_int_equal(co_topology_call(topology, wire, "uuid-a", &request, in_ms(20000), arena, &reply, &error), HD_OK);
    assert_true(reply.id == request.id && request.control.remaining_ms > 1000);
    assert_true(hd_str_is_equal(reply.control.shard_uuid, HD_STR("uuid-a")));
    atomic_store(&a.is_mute, true);
    assert_int_equal(co_topology_call(topology, wire, "uuid-a", &request, in_ms(50), arena, &reply, &error), HD_SHARD_DOWN);
    assert_null(error.outcome);
    error = (hd_error){0};
    hd_request write = {.kind = HD_MESSAGE_WRITE, .write = {.org = 1}};
    assert_int_equal(co_topology_call(topology, wire, "uuid-a", &write, in_ms(50), arena, &reply, &error), HD_SHARD_DOWN);
    assert_string_equal(error.outcome, "unknown"); /* it was sent */
    error = (hd_error){0};
    assert_int_equal(co_topology_call(topology, wire, "nobody", &write, in_ms(50), arena, &reply, &error), HD_SHARD_DOWN);
    assert_null(error.outcome); /* it never was */
    assert_non_null(strstr(error.message, "nobody"));
    hd_arena_free(arena);
    hd_wire_client_free(wire);
    co_topology_free(topology);
    stop(&a);
}

static void malformed_endpoints_are_named(void **state) {
    const char *endpoints[] = {"http://example"};
    co_topology *topology;
    hd_error error = {0};
    assert_int_equal(co_topology_new(endpoints, 1, &topology, &error), HD_ARGUMENT);
    assert_null(topology);
    assert_non_null(strstr(error.message, "http://example"));
}

int main(void) {
    snprintf(folder, sizeof(folder), "/tmp/heddle-topology-%d", (int)getpid());
    mkdir(folder, 0700);
    hd_wire_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_are_found_when_they_come), cmocka_unit_test(of_two_with_one_id_the_first_counts),
        cmocka_unit_test(an_id_that_is_none_is_not_taken), cmocka_unit_test(calls_get_their_own_reply_or_say_what_happened),
        cmocka_unit_test(malformed_endpoints_are_named),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hd_wire_fini();
    rmdir(folder);
    return failed;
}
