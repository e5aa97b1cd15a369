/* heddle-bench: sends the queries of a file to a coordinator over HTTP, from one or more clients at once, and says how long they took.
 *
 *     heddle-bench --queries FILE [--kind NAME] [--clients 1] [--warm 100] [--count 500] [--url …] [--key …]
 *
 * FILE: a line is KIND, a tab, and the body of POST /v1/tools/query_memory_graph (bench/gen.py writes such files). A client is a thread
 * with a connection of its own that stays open; it sends the next query as soon as it has the whole answer to the one before (a closed
 * loop). A latency is from the first byte sent to the last byte received. The first --warm queries of a kind are not counted; the
 * counted ones go on where these ended, and begin again at the first when the file has no more.
 *
 * One line of JSON a kind on stdout. An answer that is not 200, or is partial, is counted as such: figures of a run with any are not
 * figures of the query. Exit: 0 all were answered with 200, 1 not. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/config.h"

enum { KINDS_MAX = 32, CLIENTS_MAX = 256, HEAD_MAX = 16384 };

typedef struct settings {
    const char *file, *kind, *url, *key;
    uint64_t clients, warm, count;
} settings;

typedef struct queries {
    char *text; /* the whole file */
    struct query {
        hd_str kind, body;
    } * items;
    size_t count, capacity;
} queries;

/* The run of one kind. */
typedef struct run {
    const settings *settings;
    const char *host, *port;
    const hd_str *bodies;
    size_t body_count, begin, count; /* queries [begin, begin + count) are sent, modulo body_count */
    size_t next;                     /* atomic */
    uint32_t *latencies_us;          /* by query */
    uint64_t failed, partial, bytes; /* atomic */
} run;

/* ---- the file ---- */

static bool read_file(const char *path, queries *q) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL) return false;
    hd_buf text = {0};
    size_t size;
    do {
        size = fread(hd_buf_reserve(&text, 1 << 16), 1, 1 << 16, file);
        text.size += size;
    } while (size > 0);
    bool is_read = ferror(file) == 0;
    fclose(file);
    q->text = text.data;
    for (size_t at = 0; at < text.size;) {
        const char *line = text.data + at, *end = memchr(line, '\n', text.size - at);
        size_t length = end != NULL ? (size_t)(end - line) : text.size - at;
        const char *tab = memchr(line, '\t', length);
        at += length + 1;
        if (tab == NULL) continue;
        if (q->count == q->capacity) {
            q->capacity = HD_MAX(1024, q->capacity * 2);
            q->items = hd_realloc(q->items, q->capacity * sizeof(*q->items));
        }
        q->items[q->count++] = (struct query){{line, (size_t)(tab - line)}, {tab + 1, length - (size_t)(tab + 1 - line)}};
    }
    return is_read && q->count > 0;
}

/* ---- one client ---- */

static int open_connection(const run *r) {
    struct addrinfo *list, hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int fd = -1, on = 1;
    if (getaddrinfo(r->host, r->port, &hints, &list) != 0) return -1;
    for (struct addrinfo *at = list; at != NULL && fd < 0; at = at->ai_next) {
        fd = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC, at->ai_protocol);
        if (fd >= 0 && connect(fd, at->ai_addr, at->ai_addrlen) == 0) break;
        if (fd >= 0) close(fd);
        fd = -1;
    }
    freeaddrinfo(list);
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    return fd;
}

static bool send_all(int fd, hd_str bytes) {
    while (bytes.size > 0) {
        ssize_t sent = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return false;
        bytes.data += sent;
        bytes.size -= (size_t)sent;
    }
    return true;
}

/* The length that the head announces; false: the head is not complete or has none. */
static bool find_length(const hd_buf *answer, size_t *head_out, size_t *length_out) {
    static const char name[] = "\r\ncontent-length:";
    const char *end = memmem(answer->data, HD_MIN(answer->size, (size_t)HEAD_MAX), "\r\n\r\n", 4);
    if (end == NULL) return false;
    *head_out = (size_t)(end - answer->data) + 4;
    for (const char *at = answer->data; at + sizeof(name) <= end; at++) {
        if (!hd_str_is_equal_nocase((hd_str){at, sizeof(name) - 1}, (hd_str){name, sizeof(name) - 1})) continue;
        *length_out = strtoul(at + sizeof(name) - 1, NULL, 10);
        return true;
    }
    return false;
}

/* One answer into `answer`; false: the connection broke. */
static bool receive_answer(int fd, hd_buf *answer, int *status_out) {
    size_t head = 0, length = 0;
    answer->size = 0;
    while (head == 0 || answer->size < head + length) {
        ssize_t got = recv(fd, hd_buf_reserve(answer, 1 << 16), 1 << 16, 0);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        answer->size += (size_t)got;
        if (head == 0) (void)find_length(answer, &head, &length);
        if (head == 0 && answer->size > HEAD_MAX) return false;
    }
    *status_out = answer->size > 12 ? (int)strtol(answer->data + 9, NULL, 10) : 0;
    return true;
}

static void make_request(const run *r, hd_str body, hd_buf *request) {
    request->size = 0;
    hd_buf_printf(request,
                  "POST /v1/tools/query_memory_graph HTTP/1.1\r\nHost: %s:%s\r\nAuthorization: Bearer %s\r\n"
                  "Content-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                  r->host, r->port, r->settings->key, body.size);
    hd_buf_add_str(request, body);
}

static void *run_client(void *self) {
    static const char partial[] = "\"partial\":true";
    run *r = self;
    hd_buf request = {0}, answer = {0};
    int fd = open_connection(r);
    for (size_t i; (i = __atomic_fetch_add(&r->next, 1, __ATOMIC_RELAXED)) < r->count;) {
        int status = 0;
        make_request(r, r->bodies[(r->begin + i) % r->body_count], &request);
        uint64_t began_us = hd_clock_monotonic_us();
        bool is_answered = fd >= 0 && send_all(fd, hd_buf_get(&request)) && receive_answer(fd, &answer, &status);
        r->latencies_us[i] = (uint32_t)(hd_clock_monotonic_us() - began_us);
        if (!is_answered || status != 200) {
            if (__atomic_fetch_add(&r->failed, 1, __ATOMIC_RELAXED) == 0)
                fprintf(stderr, "heddle-bench: status %d: %.*s\n", status, (int)HD_MIN(answer.size, (size_t)600),
                        answer.size > 0 ? answer.data : "");
            if (fd >= 0) close(fd);
            fd = open_connection(r);
            continue;
        }
        __atomic_fetch_add(&r->bytes, answer.size, __ATOMIC_RELAXED);
        if (memmem(answer.data, answer.size, partial, sizeof(partial) - 1) != NULL)
            __atomic_fetch_add(&r->partial, 1, __ATOMIC_RELAXED);
    }
    if (fd >= 0) close(fd);
    hd_buf_fini(&request);
    hd_buf_fini(&answer);
    return NULL;
}

/* ---- a kind ---- */

static uint64_t run_all(run *r) {
    pthread_t threads[CLIENTS_MAX];
    uint64_t began_us = hd_clock_monotonic_us();
    r->next = 0;
    for (uint64_t c = 0; c < r->settings->clients; c++) HD_CHECK(pthread_create(&threads[c], NULL, run_client, r) == 0);
    for (uint64_t c = 0; c < r->settings->clients; c++) pthread_join(threads[c], NULL);
    return hd_clock_monotonic_us() - began_us;
}

static int compare_latencies(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The value that `share` of all are not above. */
static double quantile_ms(const run *r, double share) {
    size_t at = (size_t)(share * (double)r->count);
    return r->latencies_us[HD_MIN(at, r->count - 1)] / 1000.0;
}

/* True: all were answered with 200. */
static bool run_kind(const settings *s, const char *host, const char *port, const queries *q, hd_str kind) {
    hd_str *bodies = hd_alloc_zero(q->count, sizeof(*bodies));
    size_t count = 0;
    for (size_t i = 0; i < q->count; i++)
        if (hd_str_is_equal(q->items[i].kind, kind)) bodies[count++] = q->items[i].body;
    run r = {.settings = s, .host = host, .port = port, .bodies = bodies, .body_count = count};
    r.latencies_us = hd_alloc_zero(HD_MAX(HD_MAX(s->warm, s->count), 1), sizeof(*r.latencies_us));
    r.count = s->warm;
    (void)run_all(&r);
    r.begin = s->warm;
    r.count = s->count;
    r.failed = r.partial = r.bytes = 0;
    uint64_t took_us = HD_MAX(run_all(&r), 1);
    double sum = 0;
    for (size_t i = 0; i < r.count; i++) sum += r.latencies_us[i];
    qsort(r.latencies_us, r.count, sizeof(*r.latencies_us), compare_latencies);
    printf("{\"kind\": \"" HD_STR_FMT
           "\", \"clients\": %llu, \"count\": %zu, \"p50_ms\": %.3f, \"p95_ms\": %.3f, \"p99_ms\": %.3f, "
           "\"max_ms\": %.3f, \"mean_ms\": %.3f, \"per_s\": %.1f, \"answer_bytes\": %llu, \"partial\": %llu, \"failed\": %llu}\n",
           HD_STR_ARG(kind), (unsigned long long)s->clients, r.count, quantile_ms(&r, 0.5), quantile_ms(&r, 0.95),
           quantile_ms(&r, 0.99), quantile_ms(&r, 1), sum / 1000 / (double)r.count, (double)r.count * 1e6 / (double)took_us,
           (unsigned long long)(r.bytes / r.count), (unsigned long long)r.partial, (unsigned long long)r.failed);
    fflush(stdout);
    bool is_good = r.failed == 0;
    hd_free(r.latencies_us);
    hd_free(bodies);
    return is_good;
}

/* ---- settings ---- */

static hd_status read_settings(int argc, char **argv, settings *s, bool *is_done_out, hd_error *error) {
    const hd_config_option options[] = {
        {"queries", 'q', HD_CONFIG_TEXT, &s->file, "FILE", "what to send"},
        {"kind", 0, HD_CONFIG_TEXT, &s->kind, "NAME", "this kind alone"},
        {"clients", 'c', HD_CONFIG_COUNT, &s->clients, "N", "clients at once"},
        {"warm", 0, HD_CONFIG_COUNT, &s->warm, "N", "queries of a kind that are sent first and not counted"},
        {"count", 'n', HD_CONFIG_COUNT, &s->count, "N", "queries of a kind that are counted"},
        {"url", 'u', HD_CONFIG_TEXT, &s->url, "URL", "the coordinator"},
        {"key", 'k', HD_CONFIG_TEXT, &s->key, "KEY", "the org's key"},
    };
    hd_config_list words = {0};
    HD_TRY(hd_config_parse("heddle-bench", "heddle-bench --queries FILE --key KEY", options, HD_COUNT_OF(options), argc, argv,
                           &words, is_done_out, error));
    if (*is_done_out) return HD_OK;
    if (s->file == NULL || s->key == NULL) return hd_error_set(error, HD_ARGUMENT, "bench", "--queries and --key are needed");
    if (s->clients < 1 || s->clients > CLIENTS_MAX)
        return hd_error_set(error, HD_ARGUMENT, "bench", "--clients is 1 to %d", CLIENTS_MAX);
    if (s->count < 1) return hd_error_set(error, HD_ARGUMENT, "bench", "--count is 1 at least");
    return HD_OK;
}

/* http://HOST:PORT; false: something else. */
static bool split_url(const char *url, char host_out[256], char port_out[16]) {
    static const char scheme[] = "http://";
    if (strncmp(url, scheme, sizeof(scheme) - 1) != 0) return false;
    return sscanf(url + sizeof(scheme) - 1, "%255[^:/]:%15[0-9]", host_out, port_out) == 2;
}

int main(int argc, char **argv) {
    settings s = {.url = "http://127.0.0.1:7700", .clients = 1, .warm = 100, .count = 500};
    hd_error error = {0};
    bool is_done = false, is_good = true;
    char host[256], port[16];
    queries q = {0};
    if (read_settings(argc, argv, &s, &is_done, &error) != HD_OK) {
        fprintf(stderr, "heddle-bench: %s\n", error.message);
        return 2;
    }
    if (is_done) return 0;
    if (!split_url(s.url, host, port)) {
        fprintf(stderr, "heddle-bench: --url %s: it has to be http://HOST:PORT\n", s.url);
        return 2;
    }
    if (!read_file(s.file, &q)) {
        fprintf(stderr, "heddle-bench: %s holds no queries, or cannot be read\n", s.file);
        return 2;
    }
    hd_str kinds[KINDS_MAX];
    size_t kind_count = 0;
    for (size_t i = 0; i < q.count; i++) { /* in the order of the file */
        size_t k = 0;
        while (k < kind_count && !hd_str_is_equal(kinds[k], q.items[i].kind)) k++;
        if (k == kind_count && kind_count < KINDS_MAX) kinds[kind_count++] = q.items[i].kind;
    }
    for (size_t k = 0; k < kind_count; k++) {
        if (s.kind != NULL && !hd_str_is_equal(kinds[k], hd_str_of(s.kind))) continue;
        is_good &= run_kind(&s, host, port, &q, kinds[k]);
    }
    hd_free(q.items);
    hd_free(q.text);
    return is_good ? 0 : 1;
}
