/* ZeroMQ, owned by this file. A server is one ROUTER whose loop thread alone touches the socket: replies of other threads wait in a
 * queue under a mutex, and an eventfd wakes the loop. Both the socket and the queue are drained at each wake-up. A client is a
 * set of DEALER sockets of one thread. Nothing queues for a peer that is not connected (ZMQ_IMMEDIATE), and nothing waits at close.
 *
 * No encryption here: ipc stays on the machine, and tcp beyond loopback has to be asked for where the endpoint comes from. */
#define _GNU_SOURCE /* gettid */
#include "proto/wire.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"

enum {
    QUEUE_MESSAGES_MAX = 10000, /* high-water mark, each way and peer: far over what deadlines let pile up */
    RECONNECT_MIN_MS = 50,
    RECONNECT_MAX_MS = 1000,
    HEARTBEAT_MS = 1000, /* tcp only: ipc notices a dead peer by its closed socket */
    HEARTBEAT_TIMEOUT_MS = 3000,
    CONNECT_WAIT_MS = 250,    /* a fresh connection's handshake; loopback needs under 1 ms, a far network some round trips */
    RECONNECT_AFTER_MS = 100, /* between two attempts of our own to reach a peer that is away */
    SOCKETS_MAX = 16384,
    RECEIVE_BURST = 256, /* messages taken before queued replies get their turn */
    ENDPOINT_MAX = 256
};

static void *wire_context;

void hd_wire_init(void) {
    HD_CHECK(wire_context == NULL);
    wire_context = zmq_ctx_new();
    HD_CHECK(wire_context != NULL);
    HD_CHECK(zmq_ctx_set(wire_context, ZMQ_MAX_SOCKETS, SOCKETS_MAX) == 0);
}

void hd_wire_fini(void) {
    while (zmq_ctx_term(wire_context) != 0 && errno == EINTR) {}
    wire_context = NULL;
}

/* ---- endpoints and sockets ---- */

static bool is_ipc(const char *endpoint) {
    return strncmp(endpoint, "ipc://", 6) == 0;
}

/* Only ipc and tcp, and within the sizes that the system takes; says which is broken. */
static hd_status check_endpoint(const char *endpoint, hd_error *error) {
    const size_t path_max = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (!is_ipc(endpoint) && strncmp(endpoint, "tcp://", 6) != 0) {
        return hd_error_set(error, HD_ARGUMENT, "wire", "endpoint '%s' is neither ipc://PATH nor tcp://HOST:PORT", endpoint);
    }
    const char *rest = endpoint + 6;
    if (is_ipc(endpoint)) {
        if (rest[0] == '\0') return hd_error_set(error, HD_ARGUMENT, "wire", "endpoint '%s' has no path", endpoint);
        if (strlen(rest) > path_max) {
            return hd_error_set(error, HD_ARGUMENT, "wire",
                                "the socket path '%s' is %zu bytes long; the system takes %zu at most, so choose a shorter folder",
                                rest, strlen(rest), path_max);
        }
        return HD_OK;
    }
    const char *colon = strrchr(rest, ':');
    if (colon == NULL || colon == rest || colon[1] == '\0' || strlen(endpoint) >= ENDPOINT_MAX) {
        return hd_error_set(error, HD_ARGUMENT, "wire", "endpoint '%s' is not tcp://HOST:PORT", endpoint);
    }
    return HD_OK;
}

static void set_int(void *socket, int option, int value) {
    HD_CHECK(zmq_setsockopt(socket, option, &value, sizeof(value)) == 0);
}

static void *open_socket(int type, const char *endpoint) {
    void *socket = zmq_socket(wire_context, type);
    HD_CHECK(socket != NULL);
    set_int(socket, ZMQ_LINGER, 0);
    set_int(socket, ZMQ_SNDHWM, QUEUE_MESSAGES_MAX);
    set_int(socket, ZMQ_RCVHWM, QUEUE_MESSAGES_MAX);
    int64_t frame_max = HD_WIRE_FRAME_MAX;
    HD_CHECK(zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &frame_max, sizeof(frame_max)) == 0);
    if (!is_ipc(endpoint)) {
        set_int(socket, ZMQ_HEARTBEAT_IVL, HEARTBEAT_MS);
        set_int(socket, ZMQ_HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT_MS);
        if (strchr(endpoint, '[') != NULL) set_int(socket, ZMQ_IPV6, 1);
    }
    return socket;
}

/* Would a bind take the path away from a living server, or from a file that is none of ours? ZeroMQ unlinks without asking. */
static hd_status check_path_is_free(const char *path, hd_error *error) {
    struct stat info;
    if (lstat(path, &info) != 0) return HD_OK;
    if (!S_ISSOCK(info.st_mode)) return hd_error_set(error, HD_ARGUMENT, "wire", "cannot listen on '%s': a file is there", path);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe < 0) return hd_error_set(error, HD_ARGUMENT, "wire", "cannot open a socket (errno %d)", errno);
    bool is_taken = connect(probe, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(probe);
    if (is_taken) return hd_error_set(error, HD_ARGUMENT, "wire", "cannot listen on '%s': in use by another process", path);
    return HD_OK;
}

/* ---- server ---- */

typedef struct queued_reply {
    hd_wire_peer peer;
    hd_buf payload;
} queued_reply;

struct hd_wire_server {
    void *socket;
    int wake; /* eventfd: replies are queued, or is_stopping was set */
    atomic_bool is_stopping;
    atomic_int loop_thread; /* its gettid, 0 while nobody runs the loop */
    char endpoint[ENDPOINT_MAX];
    hd_metric *malformed;
    pthread_mutex_t mutex; /* guards what follows */
    queued_reply *queue;
    size_t queue_count, queue_capacity;
};

hd_status hd_wire_server_new(const char *endpoint, hd_wire_server **server_out, hd_error *error) {
    *server_out = NULL;
    HD_TRY(check_endpoint(endpoint, error));
    if (is_ipc(endpoint)) HD_TRY(check_path_is_free(endpoint + 6, error));
    void *socket = open_socket(ZMQ_ROUTER, endpoint);
    if (zmq_bind(socket, endpoint) != 0) {
        int reason = errno;
        zmq_close(socket);
        return hd_error_set(error, HD_ARGUMENT, "wire", "cannot listen on '%s': %s", endpoint,
                            reason == EADDRINUSE ? "the address is in use" : zmq_strerror(reason));
    }
    hd_wire_server *server = hd_alloc_zero(1, sizeof(*server));
    server->socket = socket;
    server->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (server->wake < 0) {
        zmq_close(socket);
        hd_free(server);
        return hd_error_set(error, HD_UNAVAILABLE, "wire", "cannot listen on '%s': too few file descriptors", endpoint);
    }
    size_t size = sizeof(server->endpoint);
    HD_CHECK(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, server->endpoint, &size) == 0);
    HD_CHECK(pthread_mutex_init(&server->mutex, NULL) == 0);
    server->malformed =
        hd_metrics_counter("heddle_wire_malformed_frames_total", NULL, "Messages that were not one frame of payload");
    *server_out = server;
    return HD_OK;
}

void hd_wire_server_free(hd_wire_server *server) {
    if (server == NULL) return;
    zmq_close(server->socket);
    if (is_ipc(server->endpoint)) unlink(server->endpoint + 6);
    close(server->wake);
    for (size_t i = 0; i < server->queue_count; i++) hd_buf_fini(&server->queue[i].payload);
    hd_free(server->queue);
    pthread_mutex_destroy(&server->mutex);
    hd_free(server);
}

const char *hd_wire_server_endpoint(const hd_wire_server *server) {
    return server->endpoint;
}

static void free_payload(void *data, void *hint) {
    (void)hint;
    hd_free(data);
}

/* Takes the payload. A peer that is gone, or whose queue is full, loses it: ROUTER drops, the caller's deadline tells. */
static void send_now(hd_wire_server *server, const hd_wire_peer *peer, hd_buf *payload) {
    zmq_msg_t message;
    if (payload->data != NULL) {
        HD_CHECK(zmq_msg_init_data(&message, payload->data, payload->size, free_payload, NULL) == 0);
    } else {
        zmq_msg_init(&message);
    }
    hd_buf_init(payload); /* the message owns the bytes now */
    int rc;
    while ((rc = zmq_send(server->socket, peer->bytes, peer->size, ZMQ_SNDMORE | ZMQ_DONTWAIT)) < 0 && errno == EINTR) {}
    if (rc >= 0) {
        while ((rc = zmq_msg_send(&message, server->socket, ZMQ_DONTWAIT)) < 0 && errno == EINTR) {}
    }
    if (rc < 0) zmq_msg_close(&message);
}

static void wake_loop(hd_wire_server *server) {
    uint64_t one = 1;
    ssize_t written = write(server->wake, &one, sizeof(one)); /* a full counter wakes just as well */
    (void)written;
}

void hd_wire_server_stop(hd_wire_server *server) {
    int saved = errno; /* may run in a signal handler */
    atomic_store(&server->is_stopping, true);
    wake_loop(server);
    errno = saved;
}

void hd_wire_server_send(hd_wire_server *server, const hd_wire_peer *peer, hd_buf *payload) {
    if (atomic_load_explicit(&server->loop_thread, memory_order_relaxed) == (int)gettid()) {
        send_now(server, peer, payload);
        return;
    }
    pthread_mutex_lock(&server->mutex);
    if (server->queue_count == server->queue_capacity) {
        server->queue_capacity = HD_MAX(64, server->queue_capacity * 2);
        server->queue = hd_realloc(server->queue, server->queue_capacity * sizeof(*server->queue));
    }
    bool was_empty = server->queue_count == 0;
    server->queue[server->queue_count++] = (queued_reply){*peer, *payload};
    pthread_mutex_unlock(&server->mutex);
    hd_buf_init(payload);
    if (was_empty) wake_loop(server);
}

/* Sends everything queued. The queue is swapped out, so that senders never wait for the socket. */
static void drain_queue(hd_wire_server *server, queued_reply **spare, size_t *spare_capacity) {
    pthread_mutex_lock(&server->mutex);
    queued_reply *taken = server->queue;
    size_t count = server->queue_count, capacity = server->queue_capacity;
    server->queue = *spare;
    server->queue_capacity = *spare_capacity;
    server->queue_count = 0;
    pthread_mutex_unlock(&server->mutex);
    for (size_t i = 0; i < count; i++) send_now(server, &taken[i].peer, &taken[i].payload);
    *spare = taken;
    *spare_capacity = capacity;
}

/* One message, if there is one: identity, payload, nothing else. False: none waits. */
static bool receive_one(hd_wire_server *server, void (*receive)(void *self, const hd_wire_peer *peer, hd_str payload), void *self) {
    hd_wire_peer peer;
    zmq_msg_t part, payload;
    zmq_msg_init(&part);
    int size = zmq_msg_recv(&part, server->socket, ZMQ_DONTWAIT);
    if (size < 0) {
        zmq_msg_close(&part);
        return errno == EINTR;
    }
    bool is_sound = (size_t)size <= sizeof(peer.bytes) && zmq_msg_more(&part);
    peer.size = is_sound ? (uint32_t)size : 0;
    memcpy(peer.bytes, zmq_msg_data(&part), peer.size);
    bool has_more = zmq_msg_more(&part);
    zmq_msg_init(&payload);
    for (int parts = 0; has_more; parts++) {
        zmq_msg_t *into = parts == 0 ? &payload : &part;
        /* The parts of a message arrive together; only a signal can come between. */
        while (zmq_msg_recv(into, server->socket, 0) < 0) HD_CHECK(errno == EINTR);
        has_more = zmq_msg_more(into);
        if (parts > 0) is_sound = false;
    }
    if (is_sound) {
        receive(self, &peer, (hd_str){zmq_msg_data(&payload), zmq_msg_size(&payload)});
    } else {
        hd_metric_add(server->malformed, 1);
    }
    zmq_msg_close(&payload);
    zmq_msg_close(&part);
    return true;
}

hd_status hd_wire_server_run(hd_wire_server *server, void (*receive)(void *self, const hd_wire_peer *peer, hd_str payload),
                             void *self) {
    queued_reply *spare = NULL;
    size_t spare_capacity = 0;
    atomic_store(&server->loop_thread, (int)gettid());
    hd_status status = HD_OK;
    bool has_waiting = false; /* the burst ended before the socket was empty */
    for (;;) {
        zmq_pollitem_t items[2] = {{.socket = server->socket, .events = ZMQ_POLLIN}, {.fd = server->wake, .events = ZMQ_POLLIN}};
        if (zmq_poll(items, 2, has_waiting ? 0 : -1) < 0 && errno != EINTR) {
            hd_log(HD_LOG_ERROR, "wire", "waiting on '%s' failed: %s", server->endpoint, zmq_strerror(errno));
            status = HD_INTERNAL;
            break;
        }
        uint64_t ignored;
        ssize_t got = read(server->wake, &ignored, sizeof(ignored));
        (void)got;
        drain_queue(server, &spare, &spare_capacity);
        if (atomic_load(&server->is_stopping)) break;
        has_waiting = false;
        for (int i = 0; i < RECEIVE_BURST; i++) {
            if (!(has_waiting = receive_one(server, receive, self))) break;
        }
    }
    atomic_store(&server->loop_thread, 0);
    hd_free(spare);
    return status;
}

/* ---- client ---- */

typedef struct client_peer {
    char endpoint[ENDPOINT_MAX];
    void *socket;
    uint64_t opened_us; /* when the socket was opened last */
} client_peer;

struct hd_wire_client {
    client_peer *peers;
    zmq_pollitem_t *items; /* one a peer */
    uint32_t count, capacity;
    uint32_t next; /* whose turn it is to be received from first */
};

hd_wire_client *hd_wire_client_new(void) {
    return hd_alloc_zero(1, sizeof(hd_wire_client));
}

void hd_wire_client_free(hd_wire_client *client) {
    if (client == NULL) return;
    for (uint32_t i = 0; i < client->count; i++) zmq_close(client->peers[i].socket);
    hd_free(client->peers);
    hd_free(client->items);
    hd_free(client);
}

/* NULL: ZeroMQ does not take the endpoint. */
static void *open_dealer(const char *endpoint) {
    void *socket = open_socket(ZMQ_DEALER, endpoint);
    set_int(socket, ZMQ_IMMEDIATE, 1);
    set_int(socket, ZMQ_RECONNECT_IVL, RECONNECT_MIN_MS);
    set_int(socket, ZMQ_RECONNECT_IVL_MAX, RECONNECT_MAX_MS);
    if (zmq_connect(socket, endpoint) == 0) return socket;
    zmq_close(socket);
    return NULL;
}

hd_status hd_wire_client_connect(hd_wire_client *client, const char *endpoint, uint32_t *index_out) {
    for (uint32_t i = 0; i < client->count; i++) {
        if (strcmp(client->peers[i].endpoint, endpoint) == 0) {
            *index_out = i;
            return HD_OK;
        }
    }
    HD_TRY(check_endpoint(endpoint, NULL));
    void *socket = open_dealer(endpoint);
    if (socket == NULL) return HD_ARGUMENT;
    if (client->count == client->capacity) {
        client->capacity = HD_MAX(8, client->capacity * 2);
        client->peers = hd_realloc(client->peers, client->capacity * sizeof(*client->peers));
        client->items = hd_realloc(client->items, client->capacity * sizeof(*client->items));
    }
    client_peer *peer = &client->peers[client->count];
    snprintf(peer->endpoint, sizeof(peer->endpoint), "%s", endpoint);
    peer->socket = socket;
    peer->opened_us = hd_clock_monotonic_us();
    client->items[client->count] = (zmq_pollitem_t){.socket = socket, .events = ZMQ_POLLIN};
    *index_out = client->count++;
    return HD_OK;
}

void hd_wire_client_reset(hd_wire_client *client, uint32_t index) {
    HD_CHECK(index < client->count);
    client_peer *peer = &client->peers[index];
    zmq_close(peer->socket);
    peer->socket = open_dealer(peer->endpoint);
    HD_CHECK(peer->socket != NULL); /* it was taken before */
    peer->opened_us = hd_clock_monotonic_us();
    client->items[index].socket = peer->socket;
}

static bool send_try(void *socket, hd_str payload) {
    int rc;
    while ((rc = zmq_send(socket, payload.data, payload.size, ZMQ_DONTWAIT)) < 0 && errno == EINTR) {}
    return rc >= 0;
}

/* A fresh socket connects in the background; until then it takes nothing. One that has been away is in ZeroMQ's back-off, so it is
 * opened anew, which tries at once. */
hd_status hd_wire_client_try_send(hd_wire_client *client, uint32_t index, hd_str payload) {
    HD_CHECK(index < client->count);
    if (send_try(client->peers[index].socket, payload)) return HD_OK;
    uint64_t patience_us = (CONNECT_WAIT_MS + RECONNECT_AFTER_MS) * UINT64_C(1000);
    if (hd_clock_monotonic_us() > client->peers[index].opened_us + patience_us) hd_wire_client_reset(client, index);
    return HD_SHARD_DOWN;
}

hd_status hd_wire_client_send(hd_wire_client *client, uint32_t index, hd_str payload) {
    if (hd_wire_client_try_send(client, index, payload) == HD_OK) return HD_OK;
    uint64_t now = hd_clock_monotonic_us();
    uint64_t until = client->peers[index].opened_us + CONNECT_WAIT_MS * UINT64_C(1000);
    if (until <= now) return HD_SHARD_DOWN; /* tried a moment ago */
    zmq_pollitem_t item = {.socket = client->peers[index].socket, .events = ZMQ_POLLOUT};
    int ready = zmq_poll(&item, 1, (long)((until - now + 999) / 1000));
    return ready > 0 && send_try(item.socket, payload) ? HD_OK : HD_SHARD_DOWN;
}

/* A whole message of one socket into the buffer. False: nothing waits, or what came had several frames and was dropped. */
static bool receive_from(void *socket, hd_buf *payload_out) {
    zmq_msg_t message;
    zmq_msg_init(&message);
    int size;
    while ((size = zmq_msg_recv(&message, socket, ZMQ_DONTWAIT)) < 0 && errno == EINTR) {}
    bool is_one = size >= 0 && !zmq_msg_more(&message);
    if (is_one) hd_buf_add(payload_out, zmq_msg_data(&message), zmq_msg_size(&message));
    while (size >= 0 && zmq_msg_more(&message)) {
        while ((size = zmq_msg_recv(&message, socket, 0)) < 0) HD_CHECK(errno == EINTR);
    }
    zmq_msg_close(&message);
    return is_one;
}

hd_status hd_wire_client_receive(hd_wire_client *client, uint64_t deadline_us, uint32_t *index_out, hd_buf *payload_out) {
    hd_buf_clear(payload_out);
    for (;;) {
        uint64_t now = hd_clock_monotonic_us();
        long wait_ms = deadline_us > now ? (long)HD_MIN((deadline_us - now + 999) / 1000, 60000) : 0;
        int ready = zmq_poll(client->items, (int)client->count, wait_ms);
        for (uint32_t i = 0; ready > 0 && i < client->count; i++) {
            uint32_t index = (client->next + i) % client->count;
            if (!(client->items[index].revents & ZMQ_POLLIN)) continue;
            if (!receive_from(client->items[index].socket, payload_out)) continue;
            client->next = index + 1;
            *index_out = index;
            return HD_OK;
        }
        if (hd_clock_monotonic_us() >= deadline_us) return HD_DEADLINE;
    }
}
