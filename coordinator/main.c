/* heddle-coordinator: settings, the order in which things start, and the order in which they stop. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/budget.h"
#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "coordinator/front/admin.h"
#include "coordinator/front/http.h"

enum {
    EXIT_OK = 0,
    EXIT_FAILED = 1,
    EXIT_SETTINGS = 2,
    SHARDS_WAIT_MS = 100, /* one look whether all shards are known, between looks at signals */
    SWEEP_EVERY_US = 15000000,
};

typedef struct settings {
    const char *listen, *data, *log_level;
    hd_config_list shards, tools_off;
    uint64_t workers, deadline_ms, write_timeout_ms, queue_max, org_queue_max, org_running_max, drain_ms, ready_fd;
    bool allow_public_http;
} settings;

static hd_status read_settings(int argc, char **argv, settings *s, bool *is_done_out, hd_error *error) {
    const hd_config_option options[] = {
        {"listen", 0, HD_CONFIG_TEXT, &s->listen, "HOST:PORT", "where to serve HTTP"},
        {"shard", 0, HD_CONFIG_LIST, &s->shards, "ENDPOINT", "a shard, ipc://PATH or tcp://HOST:PORT; once for each"},
        {"data", 0, HD_CONFIG_TEXT, &s->data, "DIR", "folder of the catalog and of admin.key"},
        {"workers", 0, HD_CONFIG_COUNT, &s->workers, "N", "threads that run calls; by default twice the cores, at least 4"},
        {"deadline", 0, HD_CONFIG_MS, &s->deadline_ms, "TIME", "ceiling of a query's deadline"},
        {"write-timeout", 0, HD_CONFIG_MS, &s->write_timeout_ms, "TIME", "how long a write may take before its outcome is unknown"},
        {"queue-max", 0, HD_CONFIG_COUNT, &s->queue_max, "N", "calls that may wait for a worker; more are refused as busy"},
        {"org-queue-max", 0, HD_CONFIG_COUNT, &s->org_queue_max, "N", "the same for one org"},
        {"org-running-max", 0, HD_CONFIG_COUNT, &s->org_running_max, "N",
         "calls of one org that run at once; 0: three quarters of the workers"},
        {"tools-off", 0, HD_CONFIG_LIST, &s->tools_off, "NAME", "a tool that is neither listed nor served; once for each"},
        {"drain", 0, HD_CONFIG_MS, &s->drain_ms, "TIME", "how long running calls may take to end when stopping"},
        {"allow-public-http", 0, HD_CONFIG_SWITCH, &s->allow_public_http, NULL, "listen beyond loopback, with TLS in front"},
        {"log-level", 0, HD_CONFIG_TEXT, &s->log_level, "LEVEL", "debug, info, warn or error"},
        {"ready-fd", 0, HD_CONFIG_COUNT, &s->ready_fd, "N", "write the URL to this file descriptor once ready"},
    };
    hd_config_list words = {0};
    HD_TRY(hd_config_parse("heddle-coordinator", "heddle-coordinator --data DIR --shard ENDPOINT [--shard ENDPOINT …]", options,
                           HD_COUNT_OF(options), argc, argv, &words, is_done_out, error));
    if (*is_done_out) return HD_OK;
    if (words.count > 0) return hd_error_set(error, HD_ARGUMENT, "main", "unexpected word \"%s\"", words.items[0]);
    if (s->data == NULL) return hd_error_set(error, HD_ARGUMENT, "main", "--data is missing: the folder of the catalog");
    if (s->shards.count == 0)
        return hd_error_set(error, HD_ARGUMENT, "main", "--shard is missing: give the endpoint of each shard");
    if (s->ready_fd > INT32_MAX) return hd_error_set(error, HD_ARGUMENT, "main", "--ready-fd is no file descriptor");
    if (s->workers < 1 || s->workers > 512) return hd_error_set(error, HD_ARGUMENT, "main", "--workers is 1 to 512");
    if (s->deadline_ms < 1 || s->deadline_ms > 600000) return hd_error_set(error, HD_ARGUMENT, "main", "--deadline is 1ms to 10m");
    if (s->write_timeout_ms < 1 || s->write_timeout_ms > 600000)
        return hd_error_set(error, HD_ARGUMENT, "main", "--write-timeout is 1ms to 10m");
    if (s->queue_max > UINT32_MAX || s->org_queue_max > UINT32_MAX || s->org_running_max > UINT32_MAX)
        return hd_error_set(error, HD_ARGUMENT, "main", "a queue of more than 4,294,967,295 calls");
    for (size_t i = 0; i < s->tools_off.count; i++)
        if (co_tool_find(hd_str_of(s->tools_off.items[i])) == NULL)
            return hd_error_set(error, HD_ARGUMENT, "main", "--tools-off: there is no tool \"%s\"", s->tools_off.items[i]);
    return HD_OK;
}

static settings default_settings(void) {
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    return (settings){.listen = "127.0.0.1:7700",
                      .log_level = "info",
                      .workers = (uint64_t)HD_MAX(4, cores * 2),
                      .deadline_ms = 2000,
                      .write_timeout_ms = 10000,
                      .queue_max = 1024,
                      .org_queue_max = 256,
                      .drain_ms = 5000};
}

/* Every connection takes a file descriptor: as many as the system lets this process have. */
static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        hd_log(HD_LOG_WARN, "main", "cannot raise the limit of open files: %s", strerror(errno));
}

/* What the process may have open beside HTTP connections: each worker, and the two threads that look after the shards, reach every
 * shard through a socket of their own, which takes two descriptors, and two more while a lost one is replaced. */
static uint32_t count_own_descriptors(const settings *s) {
    enum { ELSEWHERE = 64, A_SOCKET = 4, WATCHERS = 2 };
    return ELSEWHERE + (uint32_t)((s->workers + WATCHERS) * s->shards.count * A_SOCKET);
}

/* ---- what runs ---- */

typedef struct process {
    settings settings;
    co_services services;
    co_admin *admin;
    co_http *http;
} process;

static hd_status open_catalog(process *p, hd_error *error) {
    char catalog_path[4096], key_path[4096];
    if (mkdir(p->settings.data, 0700) != 0 && errno != EEXIST)
        return hd_error_set(error, HD_STORE_IO, "main", "%s: %s", p->settings.data, strerror(errno));
    int size = snprintf(catalog_path, sizeof(catalog_path), "%s/catalog.db", p->settings.data);
    if (size < 0 || (size_t)size >= sizeof(catalog_path))
        return hd_error_set(error, HD_ARGUMENT, "main", "--data is too long a path");
    snprintf(key_path, sizeof(key_path), "%s/admin.key", p->settings.data);
    return co_catalog_open_local(catalog_path, key_path, &p->services.catalog, error);
}

static hd_status start(process *p, hd_error *error) {
    const settings *s = &p->settings;
    uint64_t org_running_max = s->org_running_max > 0 ? s->org_running_max : (s->workers * 3 + 3) / 4;
    p->services.write_timeout_ms = s->write_timeout_ms;
    p->services.query_deadline_ms = s->deadline_ms;
    p->services.started_us = hd_clock_monotonic_us();
    p->services.tools_off = s->tools_off.items;
    p->services.tools_off_count = s->tools_off.count;
    HD_TRY(open_catalog(p, error));
    HD_TRY(co_topology_new(s->shards.items, (uint32_t)s->shards.count, &p->services.topology, error));
    p->admin = co_admin_new(&p->services);
    co_http_settings http = {.listen = s->listen,
                             .is_public_allowed = s->allow_public_http,
                             .workers = (uint32_t)s->workers,
                             .descriptors_reserved = count_own_descriptors(s),
                             .limits = {.waiting_max = (uint32_t)s->queue_max,
                                        .org_waiting_max = (uint32_t)s->org_queue_max,
                                        .org_running_max = (uint32_t)org_running_max},
                             .drain_ms = s->drain_ms};
    return co_http_start(&http, &p->services, p->admin, &p->http, error);
}

static void stop(process *p) {
    co_http_stop(p->http);
    co_admin_free(p->admin);
    co_topology_free(p->services.topology);
    co_catalog_close(p->services.catalog);
}

static void tell_ready(const process *p) {
    hd_log(HD_LOG_INFO, "main", "ready: %s", co_http_url(p->http));
    if (p->settings.ready_fd == 0) return; /* standard input is nobody's to be told on */
    int fd = (int)p->settings.ready_fd;
    char line[320];
    int size = snprintf(line, sizeof(line), "%s\n", co_http_url(p->http));
    if (write(fd, line, (size_t)size) != size) hd_log(HD_LOG_WARN, "main", "--ready-fd %d: %s", fd, strerror(errno));
    close(fd);
}

/* Until a signal says stop: says when all shards are known, and drops now and then what no org has any more. */
static void watch(process *p, const sigset_t *signals) {
    hd_wire_client *wire = hd_wire_client_new();
    bool is_ready = false;
    uint64_t swept_us = 0;
    for (;;) {
        struct timespec wait = {.tv_sec = is_ready ? 1 : 0, .tv_nsec = is_ready ? 0 : 1000000};
        int number = sigtimedwait(signals, NULL, &wait);
        if (number > 0) {
            hd_log(HD_LOG_INFO, "main", "stopping on signal %d", number);
            break;
        }
        uint64_t now_us = hd_clock_monotonic_us();
        if (!is_ready) {
            is_ready = co_topology_wait(p->services.topology, now_us + SHARDS_WAIT_MS * 1000) == p->settings.shards.count;
            if (is_ready) tell_ready(p);
        } else if (now_us - swept_us >= SWEEP_EVERY_US) {
            co_admin_sweep(p->admin, wire);
            swept_us = now_us;
        }
    }
    hd_wire_client_free(wire);
}

int main(int argc, char **argv) {
    process p = {.settings = default_settings()};
    hd_error error = {0};
    bool is_done = false;
    hd_log_level level = HD_LOG_INFO;
    hd_alloc_stay_warm();
    hd_log_init("heddle-coordinator", level);
    hd_status status = read_settings(argc, argv, &p.settings, &is_done, &error);
    if (status == HD_OK && !is_done && !hd_log_level_parse(hd_str_of(p.settings.log_level), &level))
        status = hd_error_set(&error, HD_ARGUMENT, "main", "--log-level is debug, info, warn or error");
    if (status != HD_OK) {
        fprintf(stderr, "heddle-coordinator: %s\n", error.message);
        return EXIT_SETTINGS;
    }
    if (is_done) return EXIT_OK;
    hd_log_init("heddle-coordinator", level);
    raise_file_limit();

    /* Blocked before any thread starts, so that only this one takes them. */
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);

    hd_wire_init();
    status = start(&p, &error);
    if (status == HD_OK)
        watch(&p, &signals);
    else
        hd_log(HD_LOG_ERROR, "main", "%s", error.message);
    stop(&p);
    hd_wire_fini();
    return status == HD_OK ? EXIT_OK : EXIT_FAILED;
}
