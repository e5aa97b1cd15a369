/* Frames over real sockets: replies from the loop thread and from others, addresses that are taken or malformed, large payloads, a
 * peer that goes and comes back, messages that are not ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/clock.h"
#include "proto/wire.h"

static char folder[64];

static uint64_t soon(void) {
    return hd_clock_monotonic_us() + 10 * UINT64_C(1000000);
}

/* ---- an echo server ---- */

typedef struct echo {
    hd_wire_server *server;
    pthread_t thread;
    bool is_from_other_thread; /* replies are sent by a thread made for each */
    atomic_int received;
} echo;

typedef struct late_reply {
    hd_wire_server *server;
    hd_wire_peer peer;
    hd_buf payload;
} late_reply;

static void *reply_late(void *self) {
    late_reply *late = self;
    hd_wire_server_send(late->server, &late->peer, &late->payload);
    assert_null(late->payload.data);
    hd_free(late);
    return NULL;
}

static void echo_back(void *self, const hd_wire_peer *peer, hd_str payload) {
    echo *e = self;
    atomic_fetch_add(&e->received, 1);
    hd_buf copy = {0};
    hd_buf_add_str(&copy, payload);
    if (!e->is_from_other_thread) {
        hd_wire_server_send(e->server, peer, &copy);
        assert_null(copy.data);
        assert_int_equal(copy.size, 0);
        return;
    }
    late_reply *late = hd_alloc(sizeof(*late));
    *late = (late_reply){e->server, *peer, copy};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, reply_late, late), 0);
    pthread_join(thread, NULL);
}

static void *run_echo(void *self) {
    echo *e = self;
    assert_int_equal(hd_wire_server_run(e->server, echo_back, e), HD_OK);
    return NULL;
}

static void start_echo(echo *e, const char *endpoint, bool is_from_other_thread) {
    *e = (echo){.is_from_other_thread = is_from_other_thread};
    hd_error error = {0};
    assert_int_equal(hd_wire_server_new(endpoint, &e->server, &error), HD_OK);
    assert_int_equal(pthread_create(&e->thread, NULL, run_echo, e), 0);
}

static void stop_echo(echo *e) {
    hd_wire_server_stop(e->server);
    pthread_join(e->thread, NULL);
    hd_wire_server_free(e->server);
}

static const char *ipc_endpoint(const char *name) {
    static char text[128];
    snprintf(text, sizeof(text), "ipc://%s/%s", folder, name);
    return text;
}

static void ask_and_compare(hd_wire_client *client, uint32_t index, hd_str payload) {
    hd_buf reply = {0};
    uint32_t from = 99;
    assert_int_equal(hd_wire_client_send(client, index, payload), HD_OK);
    assert_int_equal(hd_wire_client_receive(client, soon(), &from, &reply), HD_OK);
    assert_int_equal(from, index);
    assert_int_equal(reply.size, payload.size);
    assert_memory_equal(hd_buf_get(&reply).data, payload.data, payload.size);
    hd_buf_fini(&reply);
}

static void talk(const char *endpoint, bool is_from_other_thread) {
    echo e;
    start_echo(&e, endpoint, is_from_other_thread);
    hd_wire_client *client = hd_wire_client_new();
    uint32_t index, again;
    assert_int_equal(hd_wire_client_connect(client, hd_wire_server_endpoint(e.server), &index), HD_OK);
    assert_int_equal(hd_wire_client_connect(client, hd_wire_server_endpoint(e.server), &again), HD_OK);
    assert_int_equal(index, again);
    ask_and_compare(client, index, HD_STR("hello"));
    ask_and_compare(client, index, HD_STR(""));
    /* Many in flight, in order. */
    for (uint32_t i = 0; i < 2000; i++)
        assert_int_equal(hd_wire_client_send(client, index, (hd_str){(char *)&i, sizeof(i)}), HD_OK);
    hd_buf reply = {0};
    for (uint32_t i = 0; i < 2000; i++) {
        uint32_t from;
        assert_int_equal(hd_wire_client_receive(client, soon(), &from, &reply), HD_OK);
        assert_memory_equal(reply.data, &i, sizeof(i));
    }
    assert_int_equal(hd_wire_client_receive(client, hd_clock_monotonic_us() + 2000, &index, &reply), HD_DEADLINE);
    hd_buf_fini(&reply);
    hd_wire_client_free(client);
    stop_echo(&e);
}

static void replies_come_from_the_loop_and_from_other_threads(void **state) {
    talk("tcp://127.0.0.1:0", false);
    talk("tcp://127.0.0.1:*", true);
    talk(ipc_endpoint("talk"), false);
    talk(ipc_endpoint("talk"), true);
}

static void a_large_payload_goes_through(void **state) {
    echo e;
    start_echo(&e, ipc_endpoint("large"), false);
    hd_wire_client *client = hd_wire_client_new();
    uint32_t index;
    assert_int_equal(hd_wire_client_connect(client, hd_wire_server_endpoint(e.server), &index), HD_OK);
    size_t size = 20 << 20;
    char *bytes = hd_alloc(size);
    for (size_t i = 0; i < size; i++) bytes[i] = (char)(i * 31 >> 3);
    ask_and_compare(client, index, (hd_str){bytes, size});
    hd_free(bytes);
    hd_wire_client_free(client);
    stop_echo(&e);
}

static void a_frame_over_the_limit_ends_the_connection_only(void **state) {
    echo e;
    start_echo(&e, "tcp://127.0.0.1:0", false);
    hd_wire_client *client = hd_wire_client_new(), *other = hd_wire_client_new();
    uint32_t index, index_other;
    assert_int_equal(hd_wire_client_connect(client, hd_wire_server_endpoint(e.server), &index), HD_OK);
    size_t size = (size_t)HD_WIRE_FRAME_MAX + 1;
    char *bytes = hd_alloc_zero(size, 1);
    assert_int_equal(hd_wire_client_send(client, index, (hd_str){bytes, size}), HD_OK);
    hd_free(bytes);
    hd_buf reply = {0};
    assert_int_equal(hd_wire_client_receive(client, hd_clock_monotonic_us() + 200000, &index, &reply), HD_DEADLINE);
    assert_int_equal(atomic_load(&e.received), 0);
    assert_int_equal(hd_wire_client_connect(other, hd_wire_server_endpoint(e.server), &index_other), HD_OK);
    ask_and_compare(other, index_other, HD_STR("still there"));
    hd_buf_fini(&reply);
    hd_wire_client_free(client);
    hd_wire_client_free(other);
    stop_echo(&e);
}

static void assert_refused(const char *endpoint, const char *reason) {
    hd_wire_server *server;
    hd_error error = {0};
    assert_int_equal(hd_wire_server_new(endpoint, &server, &error), HD_ARGUMENT);
    assert_null(server);
    if (strstr(error.message, reason) == NULL) fail_msg("'%s' does not say '%s'", error.message, reason);
}

static void a_bad_address_is_said_to_be_one(void **state) {
    assert_refused("udp://127.0.0.1:1", "neither ipc://PATH nor tcp://HOST:PORT");
    assert_refused("127.0.0.1:7700", "neither");
    assert_refused("inproc://x", "neither");
    assert_refused("tcp://127.0.0.1", "is not tcp://HOST:PORT");
    assert_refused("tcp://:", "is not tcp://HOST:PORT");
    assert_refused("tcp://127.0.0.1:notaport", "cannot listen");
    assert_refused("ipc://", "has no path");
    char path[200] = "ipc:///tmp/";
    memset(path + 11, 'x', 130);
    path[141] = '\0';
    assert_refused(path, "107 at most");
    assert_refused("ipc:///nonexistent-folder/socket", "cannot listen");
    hd_wire_client *client = hd_wire_client_new();
    uint32_t index;
    assert_int_equal(hd_wire_client_connect(client, "nonsense", &index), HD_ARGUMENT);
    assert_int_equal(hd_wire_client_connect(client, path, &index), HD_ARGUMENT);
    hd_wire_client_free(client);
}

static void an_address_in_use_is_not_taken_over(void **state) {
    hd_wire_server *first, *second;
    hd_error error = {0};
    assert_int_equal(hd_wire_server_new("tcp://127.0.0.1:0", &first, &error), HD_OK);
    assert_int_equal(hd_wire_server_new(hd_wire_server_endpoint(first), &second, &error), HD_ARGUMENT);
    assert_non_null(strstr(error.message, "in use"));
    hd_wire_server_free(first);
    error = (hd_error){0};
    assert_int_equal(hd_wire_server_new(ipc_endpoint("used"), &first, &error), HD_OK);
    assert_int_equal(hd_wire_server_new(ipc_endpoint("used"), &second, &error), HD_ARGUMENT);
    assert_non_null(strstr(error.message, "in use by another process"));
    hd_wire_server_free(first);
    assert_int_equal(access(ipc_endpoint("used") + 6, F_OK), -1); /* the file went with the server */
}

static void a_stale_socket_is_replaced_but_a_file_is_not(void **state) {
    const char *endpoint = ipc_endpoint("stale");
    FILE *file = fopen(endpoint + 6, "w");
    fputs("precious", file);
    fclose(file);
    assert_refused(endpoint, "a file is there");
    assert_int_equal(access(endpoint + 6, F_OK), 0);
    unlink(endpoint + 6);
    pid_t child = fork(); /* leaves its socket behind, as a killed shard does */
    if (child == 0) {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0);
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        memcpy(address.sun_path, endpoint + 6, strlen(endpoint + 6) + 1);
        _exit(bind(listener, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(listener, 1) == 0 ? 0 : 1);
    }
    int left = 1;
    waitpid(child, &left, 0);
    assert_int_equal(left, 0);
    hd_wire_server *server;
    hd_error error = {0};
    assert_int_equal(hd_wire_server_new(endpoint, &server, &error), HD_OK);
    hd_wire_server_free(server);
}

static void a_peer_that_is_away_takes_nothing_and_is_found_again(void **state) {
    char endpoint[128];
    snprintf(endpoint, sizeof(endpoint), "%s", ipc_endpoint("restart"));
    hd_wire_client *client = hd_wire_client_new();
    uint32_t index;
    assert_int_equal(hd_wire_client_connect(client, endpoint, &index), HD_OK);
    assert_int_equal(hd_wire_client_try_send(client, index, HD_STR("nobody")), HD_SHARD_DOWN);
    assert_int_equal(hd_wire_client_send(client, index, HD_STR("nobody")), HD_SHARD_DOWN);
    for (int round = 0; round < 3; round++) {
        echo e;
        start_echo(&e, endpoint, round == 1);
        uint64_t until = soon();
        hd_buf reply = {0};
        uint32_t from;
        /* A message that was taken while the connection was still being made may be lost with it; whoever asks, asks again. */
        hd_status status = HD_DEADLINE;
        while (status != HD_OK) {
            assert_true(hd_clock_monotonic_us() < until);
            if (hd_wire_client_send(client, index, HD_STR("first")) != HD_OK) continue;
            status = hd_wire_client_receive(client, hd_clock_monotonic_us() + 2000000, &from, &reply);
        }
        assert_true(hd_str_is_equal(hd_buf_get(&reply), HD_STR("first"))); /* nothing from before waited in a queue */
        ask_and_compare(client, index, HD_STR("second"));
        hd_buf_fini(&reply);
        stop_echo(&e);
        until = soon();
        while (hd_wire_client_try_send(client, index, HD_STR("gone?")) == HD_OK) assert_true(hd_clock_monotonic_us() < until);
    }
    hd_wire_client_free(client);
}

static void a_reset_drops_what_waits(void **state) {
    echo e;
    start_echo(&e, "tcp://127.0.0.1:0", false);
    hd_wire_client *client = hd_wire_client_new();
    uint32_t index;
    assert_int_equal(hd_wire_client_connect(client, hd_wire_server_endpoint(e.server), &index), HD_OK);
    assert_int_equal(hd_wire_client_send(client, index, HD_STR("old")), HD_OK);
    uint64_t until = soon();
    while (atomic_load(&e.received) == 0) assert_true(hd_clock_monotonic_us() < until);
    hd_wire_client_reset(client, index);
    ask_and_compare(client, index, HD_STR("new"));
    hd_wire_client_free(client);
    stop_echo(&e);
}

/* Bytes that are no ZeroMQ at all, on the port. */
static void noise_is_survived(void **state) {
    echo e;
    start_echo(&e, "tcp://127.0.0.1:0", false);
    const char *endpoint = hd_wire_server_endpoint(e.server);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)strtol(strrchr(endpoint, ':') + 1, NULL, 10));
    for (int round = 0; round < 20; round++) {
        int raw = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(connect(raw, (struct sockaddr *)&address, sizeof(address)), 0);
        char noise[512];
        for (size_t i = 0; i < sizeof(noise); i++) noise[i] = (char)(i * (size_t)(round + 7) ^ (i >> 2));
        if (round % 2 == 0) memcpy(noise, "GET / HTTP/1.1\r\n\r\n", 18);
        ssize_t sent = send(raw, noise, sizeof(noise), MSG_NOSIGNAL);
        assert_true(sent != 0);
        close(raw);
    }
    hd_wire_client *client = hd_wire_client_new();
    uint32_t index;
    assert_int_equal(hd_wire_client_connect(client, endpoint, &index), HD_OK);
    ask_and_compare(client, index, HD_STR("quiet"));
    hd_wire_client_free(client);
    stop_echo(&e);
}

static hd_wire_server *signalled;

static void stop_on_signal(int number) {
    (void)number;
    hd_wire_server_stop(signalled);
}

static void stop_works_from_a_signal_and_before_the_loop(void **state) {
    hd_error error = {0};
    assert_int_equal(hd_wire_server_new("tcp://127.0.0.1:0", &signalled, &error), HD_OK);
    signal(SIGUSR1, stop_on_signal);
    raise(SIGUSR1);
    assert_int_equal(hd_wire_server_run(signalled, echo_back, NULL), HD_OK);
    hd_wire_server_free(signalled);
    signal(SIGUSR1, SIG_DFL);
}

int main(void) {
    snprintf(folder, sizeof(folder), "/tmp/heddle-wire-%d", (int)getpid());
    mkdir(folder, 0700);
    hd_wire_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_come_from_the_loop_and_from_other_threads),
        cmocka_unit_test(a_large_payload_goes_through),
        cmocka_unit_test(a_frame_over_the_limit_ends_the_connection_only),
        cmocka_unit_test(a_bad_address_is_said_to_be_one),
        cmocka_unit_test(an_address_in_use_is_not_taken_over),
        cmocka_unit_test(a_stale_socket_is_replaced_but_a_file_is_not),
        cmocka_unit_test(a_peer_that_is_away_takes_nothing_and_is_found_again),
        cmocka_unit_test(a_reset_drops_what_waits),
        cmocka_unit_test(noise_is_survived),
        cmocka_unit_test(stop_works_from_a_signal_and_before_the_loop),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hd_wire_fini();
    rmdir(folder);
    return failed;
}
