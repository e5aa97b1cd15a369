/* The life of one request:
 *
 *     on_request, first call     route and key are checked from the headers alone; a refusal is kept until the body is through, so
 *                                that the client reads it and the connection stays usable
 *     on_request, body           collected up to 16 MiB; what is over is read and thrown away
 *     on_request, end            inline routes answer at once; others are queued (admission), the connection is suspended
 *     work (a worker thread)     takes it, runs the route's handler, resumes the connection
 *     on_request, once more      the answer is sent
 *     on_completed               everything of the request is released
 *
 * A suspended connection is not looked at by the library: whether its client is still there is asked of the socket itself. */
#define _GNU_SOURCE
#include "coordinator/front/http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/metrics.h"
#include "common/text.h"
#include "coordinator/front/auth.h"
#include "coordinator/front/routes.h"

enum {
    CONNECTIONS_MAX = 4096, /* fewer where the process may not open so many files */
    CONNECTIONS_MIN = 16,
    IDLE_S = 60,                   /* a connection on which nothing moves is closed */
    CONNECTION_MEMORY = 64 * 1024, /* of the library, for headers and one piece of body */
    DISCARD_MAX = 64 << 20,        /* of a body that is over the limit; beyond it the connection is closed */
    CALL_BYTES_MAX = 512 << 20,    /* a call's arena */
    STOP_CHECK_US = 2000,
    FLUSH_MS = 2000, /* at the end, for answers that are still being sent */
};
static const uint64_t bodies_max = 512ull << 20; /* of all requests together */

struct co_http {
    co_http_settings settings;
    const co_services *services;
    co_admin *admin;
    co_admission *admission;
    struct MHD_Daemon *daemon;
    int socket;
    char url[300];
    pthread_t *workers;
    atomic_bool is_draining;   /* nothing new is taken */
    atomic_bool is_cancelling; /* what still runs is to end */
    atomic_uint open;          /* requests that are not completed */
    _Atomic uint64_t body_bytes;
    hd_metric *answers[6]; /* by the first digit of the status */
};

typedef struct pending {
    co_exchange exchange; /* first: a job leads back here */
    co_http *http;
    struct MHD_Connection *connection;
    int socket;
    uint64_t body_reserved; /* its share of http->body_bytes */
    uint64_t discarded;
    bool is_length_unclear; /* where the body ends can be read in two ways */
    bool is_refused;        /* the answer stands already; the body is thrown away */
    bool is_ready;          /* the answer stands */
    uint64_t began_us;
} pending;

/* ---- one request ---- */

static bool is_client_gone(void *self) {
    const pending *p = self;
    if (atomic_load_explicit(&p->http->is_cancelling, memory_order_relaxed)) return true;
    char byte;
    ssize_t size = recv(p->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return size == 0 || (size < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static co_front make_front(co_http *http, hd_wire_client *wire, hd_arena *arena) {
    return (co_front){.services = http->services,
                      .admin = http->admin,
                      .wire = wire,
                      .arena = arena,
                      .is_draining = atomic_load(&http->is_draining)};
}

static void refuse(pending *p, hd_status status, const hd_error *error) {
    co_fault fault = {.error = *error};
    co_exchange_fail(&p->exchange, status, &fault);
    p->is_refused = p->is_ready = true;
}

/* The library is to leave escapes as they are: after decoding, a "/" of the path and one within a name could not be told apart. */
static size_t keep_escapes(void *self, struct MHD_Connection *connection, char *text) {
    (void)self;
    (void)connection;
    return strlen(text);
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes %XX in place. False: an escape that is none, or one of a NUL or a "/", which no name of ours holds. */
static bool decode_path(char *path) {
    char *to = path;
    for (const char *at = path; *at != '\0'; at++) {
        char c = *at;
        if (c == '%') {
            int high = hex_digit(at[1]), low = high >= 0 ? hex_digit(at[2]) : -1;
            if (low < 0) return false;
            c = (char)(high << 4 | low);
            if (c == '\0' || c == '/') return false;
            at += 2;
        }
        *to++ = c;
    }
    *to = '\0';
    return true;
}

typedef struct header_counts {
    uint32_t lengths, encodings, keys;
    bool is_encoding_unknown;
} header_counts;

static enum MHD_Result count_header(void *self, enum MHD_ValueKind kind, const char *name, const char *value) {
    header_counts *counts = self;
    (void)kind;
    hd_str header = hd_str_of(name);
    bool is_encoding = hd_str_is_equal_nocase(header, HD_STR(MHD_HTTP_HEADER_TRANSFER_ENCODING));
    counts->encodings += is_encoding;
    counts->is_encoding_unknown |= is_encoding && !hd_str_is_equal_nocase(hd_str_of(value), HD_STR("chunked"));
    counts->lengths += hd_str_is_equal_nocase(header, HD_STR(MHD_HTTP_HEADER_CONTENT_LENGTH));
    counts->keys += hd_str_is_equal_nocase(header, HD_STR(MHD_HTTP_HEADER_AUTHORIZATION));
    return MHD_YES;
}

/* Headers that a proxy before us may read otherwise than the library does: where the body ends, and whose key it is. */
static bool is_ambiguous(pending *p) {
    header_counts counts = {0};
    MHD_get_connection_values(p->connection, MHD_HEADER_KIND, count_header, &counts);
    p->is_length_unclear = counts.lengths + counts.encodings > 1 || counts.is_encoding_unknown;
    return p->is_length_unclear || counts.keys > 1;
}

/* From the headers: is there such a route, and may this caller use it? */
static void check_headers(pending *p, const char *method) {
    co_exchange *x = &p->exchange;
    hd_error error = {0};
    hd_status status;
    if (is_ambiguous(p)) {
        refuse(
            p,
            hd_error_set(&error, HD_ARGUMENT, "http",
                         "a request has one Content-Length or \"Transfer-Encoding: chunked\", and one Authorization, at the most"),
            &error);
        return;
    }
    if (!decode_path(x->path)) {
        refuse(p, hd_error_set(&error, HD_ARGUMENT, "http", "the path holds a %% that is no escape, or one of \"/\" or NUL"),
               &error);
        return;
    }
    if (!hd_text_is_utf8(hd_str_of(x->path))) {
        refuse(p, hd_error_set(&error, HD_ARGUMENT, "http", "the path is not valid UTF-8"), &error);
        return;
    }
    status = co_routes_find(x, method);
    if (status == HD_NOT_FOUND) {
        refuse(p,
               hd_error_set(&error, status, "http", "there is nothing at " HD_STR_FMT,
                            HD_STR_ARG(hd_text_prefix(hd_str_of(x->path), 100))),
               &error);
    } else if (status != HD_OK) {
        refuse(p, hd_error_set(&error, status, "http", "this path takes %s", x->allow), &error);
        x->status = MHD_HTTP_METHOD_NOT_ALLOWED;
    }
    if (p->is_refused || x->route->access == CO_ACCESS_ALL) return;
    const char *header = MHD_lookup_connection_value(p->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_AUTHORIZATION);
    status = co_auth_check(p->http->services->catalog, header, &x->principal, &x->org, &error);
    if (status == HD_OK) status = co_routes_check_access(x, &error);
    if (status != HD_OK) refuse(p, status, &error);
}

static void refuse_body(pending *p) {
    hd_error error = {0};
    refuse(p, hd_error_set(&error, HD_TOO_LARGE, "http", "the body is over %d MiB", CO_BODY_MAX >> 20), &error);
    hd_buf_fini(&p->exchange.body);
}

/* The size that Content-Length promises; 0 where it does not. */
static uint64_t read_content_length(struct MHD_Connection *connection) {
    const char *text = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
    return text != NULL ? strtoull(text, NULL, 10) : 0;
}

static pending *begin_request(co_http *http, struct MHD_Connection *connection, const char *path, const char *method) {
    pending *p = hd_alloc_zero(1, sizeof(*p));
    p->http = http;
    p->connection = connection;
    p->began_us = hd_clock_monotonic_us();
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    p->socket = info != NULL ? info->connect_fd : -1;
    p->exchange.path = hd_strdup(path);
    p->exchange.status = MHD_HTTP_OK;
    p->exchange.content_type = "application/json";
    p->exchange.is_client_gone = is_client_gone;
    p->exchange.self = p;
    atomic_fetch_add(&http->open, 1);
    check_headers(p, method);
    if (!p->is_refused && read_content_length(connection) > CO_BODY_MAX) refuse_body(p);
    return p;
}

/* A refusal that need not wait for the body: the client waits for leave to send it, or it is too much to read for nothing. */
static bool is_to_answer_before_body(const pending *p) {
    if (!p->is_refused) return false;
    if (p->is_length_unclear) return true; /* and with it the connection is closed */
    if (read_content_length(p->connection) > DISCARD_MAX) return true;
    return MHD_lookup_connection_value(p->connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_EXPECT) != NULL;
}

/* False: the connection is to be closed. */
static bool take_body(pending *p, const char *data, size_t size) {
    hd_buf *body = &p->exchange.body;
    if (!p->is_refused && body->size + size > CO_BODY_MAX) refuse_body(p);
    if (!p->is_refused) {
        uint64_t all = atomic_fetch_add(&p->http->body_bytes, size) + size;
        p->body_reserved += size;
        hd_error error = {0};
        if (all > bodies_max) refuse(p, hd_error_set(&error, HD_BUSY, "http", "too many large requests at once"), &error);
    }
    if (!p->is_refused) {
        hd_buf_add(body, data, size);
        return true;
    }
    p->discarded += size;
    return p->discarded <= DISCARD_MAX;
}

static enum MHD_Result send_answer(pending *p) {
    co_exchange *x = &p->exchange;
    hd_str answer = hd_buf_get(&x->answer);
    /* The library takes the buffer's memory over; hd_alloc's is free()'s. */
    struct MHD_Response *response = x->answer.data != NULL
                                        ? MHD_create_response_from_buffer_with_free_callback(answer.size, x->answer.data, hd_free)
                                        : MHD_create_response_from_buffer(0, (void *)"", MHD_RESPMEM_PERSISTENT);
    if (response == NULL) return MHD_NO;
    x->answer = (hd_buf){0};
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, x->content_type);
    MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (x->status == MHD_HTTP_UNAUTHORIZED) MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    if (x->is_passing) MHD_add_response_header(response, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    if (x->allow != NULL && x->status == MHD_HTTP_METHOD_NOT_ALLOWED)
        MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, x->allow);
    if (atomic_load(&p->http->is_draining)) MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
    enum MHD_Result result = MHD_queue_response(p->connection, (unsigned)x->status, response);
    MHD_destroy_response(response);
    hd_metric_add(p->http->answers[x->status / 100 % 6], 1);
    return result;
}

/* The whole request is there: answer it, or see that a worker does. */
static enum MHD_Result dispatch(pending *p) {
    co_http *http = p->http;
    co_exchange *x = &p->exchange;
    if (x->route->is_inline) {
        co_front front = make_front(http, NULL, NULL);
        x->route->handle(x, &front);
        p->is_ready = true;
        return send_answer(p);
    }
    x->job.org = x->org != NULL ? x->org->id : 0;
    /* Suspended first: once it is queued, a worker may be done with it at any moment. */
    MHD_suspend_connection(p->connection);
    hd_status status = co_admission_submit(http->admission, &x->job);
    if (status == HD_OK) return MHD_YES;
    if (status == HD_BUSY)
        co_exchange_fail_text(x, status, "too many calls are waiting; try again in a moment");
    else
        co_exchange_fail_text(x, status, "the coordinator is stopping");
    p->is_ready = true;
    MHD_resume_connection(p->connection);
    return MHD_YES;
}

static enum MHD_Result on_request(void *self, struct MHD_Connection *connection, const char *path, const char *method,
                                  const char *version, const char *data, size_t *size, void **state) {
    (void)version;
    pending *p = *state;
    if (p == NULL) {
        *state = p = begin_request(self, connection, path, method);
        return is_to_answer_before_body(p) ? send_answer(p) : MHD_YES;
    }
    if (*size > 0) {
        bool is_fine = take_body(p, data, *size);
        *size = 0;
        return is_fine ? MHD_YES : MHD_NO;
    }
    return p->is_ready ? send_answer(p) : dispatch(p);
}

static void on_completed(void *self, struct MHD_Connection *connection, void **state, enum MHD_RequestTerminationCode why) {
    co_http *http = self;
    pending *p = *state;
    (void)connection;
    (void)why;
    if (p == NULL) return;
    co_org_release(p->exchange.org);
    atomic_fetch_sub(&http->body_bytes, p->body_reserved);
    hd_buf_fini(&p->exchange.body);
    hd_buf_fini(&p->exchange.answer);
    hd_free(p->exchange.path);
    hd_free(p);
    *state = NULL;
    atomic_fetch_sub(&http->open, 1);
}

/* ---- workers ---- */

static void run_job(co_http *http, co_job *job, hd_wire_client *wire, hd_arena *arena) {
    pending *p = (pending *)job;
    co_exchange *x = &p->exchange;
    if (is_client_gone(p)) {
        co_exchange_fail(x, HD_CANCELLED, NULL);
    } else {
        co_front front = make_front(http, wire, arena);
        x->route->handle(x, &front);
    }
    hd_log(HD_LOG_DEBUG, "http", "%s %s: %d in %llu us", x->route->method, x->path, x->status,
           (unsigned long long)(hd_clock_monotonic_us() - p->began_us));
    hd_arena_reset(arena);
    p->is_ready = true;
    co_admission_done(http->admission, job);
    /* From here on the request may be completed and gone. */
    MHD_resume_connection(p->connection);
}

static void *work(void *self) {
    co_http *http = self;
    hd_wire_client *wire = hd_wire_client_new();
    hd_arena *arena = hd_arena_new(CALL_BYTES_MAX);
    co_job *job;
    while ((job = co_admission_take(http->admission)) != NULL) run_job(http, job, wire, arena);
    hd_arena_free(arena);
    hd_wire_client_free(wire);
    return NULL;
}

/* ---- starting and stopping ---- */

static void log_library(void *self, const char *format, va_list arguments) {
    (void)self;
    char text[256];
    vsnprintf(text, sizeof(text), format, arguments);
    text[strcspn(text, "\r\n")] = '\0';
    hd_log(HD_LOG_DEBUG, "http", "%s", text);
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24) == 127;
    if (address->sa_family != AF_INET6) return false;
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
}

/* "HOST:PORT" or "[HOST]:PORT" → its two parts, in `room`. */
static bool split_address(const char *listen, char *room, size_t room_size, const char **host_out, const char **port_out) {
    size_t size = strlen(listen);
    if (size + 1 > room_size) return false;
    memcpy(room, listen, size + 1);
    char *colon = strrchr(room, ':');
    if (colon == NULL || colon == room || colon[1] == '\0' || colon[1 + strspn(colon + 1, "0123456789")] != '\0') return false;
    *colon = '\0';
    *port_out = colon + 1;
    if (strlen(*port_out) > 5 || strtoul(*port_out, NULL, 10) > 65535) return false;
    *host_out = room;
    if (room[0] != '[') return strchr(room, ':') == NULL;
    if (colon[-1] != ']') return false;
    colon[-1] = '\0';
    *host_out = room + 1;
    return true;
}

static hd_status bind_socket(co_http *http, const struct addrinfo *address, hd_error *error) {
    const char *listen_text = http->settings.listen;
    if (!is_loopback(address->ai_addr) && !http->settings.is_public_allowed) {
        return hd_error_set(
            error, HD_ARGUMENT, "http",
            "%s is not a loopback address: keys would travel unencrypted. Put TLS in front, and say --allow-public-http",
            listen_text);
    }
    int one = 1;
    http->socket = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (http->socket < 0) return hd_error_set(error, HD_UNAVAILABLE, "http", "%s: %s", listen_text, strerror(errno));
    setsockopt(http->socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(http->socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* accepted sockets inherit it */
    if (bind(http->socket, address->ai_addr, address->ai_addrlen) == 0 && listen(http->socket, 1024) == 0) return HD_OK;
    if (errno == EADDRINUSE)
        return hd_error_set(error, HD_ARGUMENT, "http", "%s is in use by another process; choose another address with --listen",
                            listen_text);
    return hd_error_set(error, HD_ARGUMENT, "http", "cannot listen at %s: %s", listen_text, strerror(errno));
}

static hd_status open_socket(co_http *http, hd_error *error) {
    char room[256];
    const char *host, *port;
    if (!split_address(http->settings.listen, room, sizeof(room), &host, &port))
        return hd_error_set(error, HD_ARGUMENT, "http", "%s is not of the form HOST:PORT or [HOST]:PORT", http->settings.listen);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV}, *addresses = NULL;
    int code = getaddrinfo(host, port, &hints, &addresses);
    if (code != 0) return hd_error_set(error, HD_ARGUMENT, "http", "%s: %s", http->settings.listen, gai_strerror(code));
    hd_status status = bind_socket(http, addresses, error);
    freeaddrinfo(addresses);
    HD_TRY(status);
    struct sockaddr_storage bound;
    socklen_t size = sizeof(bound);
    if (getsockname(http->socket, (struct sockaddr *)&bound, &size) != 0)
        return hd_error_set(error, HD_UNAVAILABLE, "http", "%s: %s", http->settings.listen, strerror(errno));
    unsigned actual =
        ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port : ((struct sockaddr_in *)&bound)->sin_port);
    bool is_bracketed = strchr(host, ':') != NULL;
    snprintf(http->url, sizeof(http->url), "http://%s%s%s:%u", is_bracketed ? "[" : "", host, is_bracketed ? "]" : "", actual);
    return HD_OK;
}

/* As many connections as leave the rest of the process its file descriptors: without them it could not reach a shard again. */
static hd_status count_connections(const co_http *http, unsigned *connections_out, hd_error *error) {
    struct rlimit files = {.rlim_cur = RLIM_INFINITY};
    uint64_t reserved = http->settings.descriptors_reserved;
    *connections_out = CONNECTIONS_MAX;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= reserved + CONNECTIONS_MAX) return HD_OK;
    if (files.rlim_cur < reserved + CONNECTIONS_MIN)
        return hd_error_set(error, HD_UNAVAILABLE, "http",
                            "%llu open files are too few: with so many workers and shards it takes %llu (ulimit -n)",
                            (unsigned long long)files.rlim_cur, (unsigned long long)(reserved + CONNECTIONS_MIN));
    *connections_out = (unsigned)(files.rlim_cur - reserved);
    return HD_OK;
}

static hd_status start_daemon(co_http *http, hd_error *error) {
    unsigned connections;
    HD_TRY(count_connections(http, &connections, error));
    http->daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC | MHD_USE_ERROR_LOG, 0, NULL, NULL,
                         on_request, http, MHD_OPTION_EXTERNAL_LOGGER, log_library, NULL, MHD_OPTION_LISTEN_SOCKET, http->socket,
                         MHD_OPTION_NOTIFY_COMPLETED, on_completed, http, MHD_OPTION_UNESCAPE_CALLBACK, keep_escapes, NULL,
                         MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_S,
                         MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_END);
    if (http->daemon != NULL) return HD_OK;
    return hd_error_set(error, HD_UNAVAILABLE, "http", "the HTTP server does not start (too few file descriptors, or no memory)");
}

static void register_metrics(co_http *http) {
    for (int i = 1; i < 6; i++) {
        char labels[32];
        snprintf(labels, sizeof(labels), "code=\"%dxx\"", i);
        http->answers[i] = hd_metrics_counter("heddle_http_responses_total", labels, "HTTP answers, by class of status.");
    }
    http->answers[0] = http->answers[5];
}

static void start_workers(co_http *http) {
    http->admission = co_admission_new(&http->settings.limits);
    http->workers = hd_alloc_zero(http->settings.workers, sizeof(*http->workers));
    for (uint32_t i = 0; i < http->settings.workers; i++) HD_CHECK(pthread_create(&http->workers[i], NULL, work, http) == 0);
}

static void stop_workers(co_http *http) {
    co_admission_stop(http->admission);
    for (uint32_t i = 0; i < http->settings.workers; i++) pthread_join(http->workers[i], NULL);
}

static void free_server(co_http *http) {
    co_admission_free(http->admission);
    hd_free(http->workers);
    hd_free(http);
}

hd_status co_http_start(const co_http_settings *settings, const co_services *services, co_admin *admin, co_http **http_out,
                        hd_error *error) {
    co_http *http = hd_alloc_zero(1, sizeof(*http));
    http->settings = *settings;
    http->services = services;
    http->admin = admin;
    http->socket = -1;
    register_metrics(http);
    co_routes_register_metrics();
    hd_status status = open_socket(http, error);
    if (status == HD_OK) {
        start_workers(http); /* before the first request can come */
        status = start_daemon(http, error);
        if (status != HD_OK) stop_workers(http);
    }
    if (status != HD_OK) {
        if (http->socket >= 0) close(http->socket);
        free_server(http);
        return status;
    }
    *http_out = http;
    return HD_OK;
}

const char *co_http_url(const co_http *http) {
    return http->url;
}

/* Waits until no request is open, `ms` at the most. */
static void wait_for_requests(co_http *http, uint64_t ms) {
    uint64_t deadline_us = hd_clock_monotonic_us() + ms * 1000;
    while (atomic_load(&http->open) > 0 && hd_clock_monotonic_us() < deadline_us) usleep(STOP_CHECK_US);
}

void co_http_stop(co_http *http) {
    if (http == NULL) return;
    atomic_store(&http->is_draining, true);
    MHD_socket listening = MHD_quiesce_daemon(http->daemon);
    if (listening != MHD_INVALID_SOCKET) close(listening);
    co_admission_stop(http->admission);
    wait_for_requests(http, http->settings.drain_ms);
    atomic_store(&http->is_cancelling, true);
    stop_workers(http);
    wait_for_requests(http, FLUSH_MS);
    MHD_stop_daemon(http->daemon);
    free_server(http);
}
