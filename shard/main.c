/* heddle-shard: settings, the order in which things start and stop, and signals. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "common/config.h"
#include "common/log.h"
#include "proto/wire.h"
#include "shard/health.h"
#include "shard/server.h"

enum { EXIT_FAILED = 1, EXIT_SETTINGS = 2 };
enum { DRAIN_MS = 5000, TICK_S = 1 };

typedef struct settings {
    const char *endpoint, *data, *metrics_address, *log_level;
    uint64_t memory_bytes, cache_bytes, step_bytes, threads, queue_max, ready_fd;
    bool is_plain_tcp_allowed;
} settings;

/* Everything that runs, in the order it is started; stopped the other way round. */
typedef struct shard {
    sh_store *store;
    sh_partitions *partitions;
    sh_writer *writer;
    sh_admin *admin;
    sh_server *server;
    sh_health *health;
} shard;

enum { NO_FD = 0 }; /* descriptor 0 is the standard input: nobody waits for a line there */

static bool is_loopback(hd_str host) {
    return hd_str_is_equal(host, HD_STR("localhost")) || hd_str_is_equal(host, HD_STR("[::1]")) ||
           (host.size >= 4 && memcmp(host.data, "127.", 4) == 0);
}

/* The part before the last colon. */
static hd_str host_of(const char *address) {
    const char *colon = strrchr(address, ':');
    return colon ? (hd_str){address, (size_t)(colon - address)} : hd_str_of(address);
}

static hd_status check_exposure(const settings *s, hd_error *error) {
    static const char tcp[] = "tcp://";
    if (s->is_plain_tcp_allowed) return HD_OK;
    bool is_tcp = strncmp(s->endpoint, tcp, sizeof(tcp) - 1) == 0;
    if (is_tcp && !is_loopback(host_of(s->endpoint + sizeof(tcp) - 1)))
        return hd_error_set(
            error, HD_ARGUMENT, "main",
            "--listen %s: whoever reaches this address reads and writes everything; use an address of 127.0.0.1 or ipc://, or "
            "--allow-plain-tcp inside a network of your own",
            s->endpoint);
    if (s->metrics_address && !is_loopback(host_of(s->metrics_address)))
        return hd_error_set(error, HD_ARGUMENT, "main",
                            "--metrics-listen %s is not a loopback address; --allow-plain-tcp permits it", s->metrics_address);
    return HD_OK;
}

static hd_status check_settings(const settings *s, const hd_config_list *words, hd_log_level *level_out, hd_error *error) {
    if (words->count > 0) return hd_error_set(error, HD_ARGUMENT, "main", "\"%s\" is no setting; see --help", words->items[0]);
    if (!s->data) return hd_error_set(error, HD_ARGUMENT, "main", "--data DIR is missing: the folder for this shard's data");
    if (!hd_log_level_parse(hd_str_of(s->log_level), level_out))
        return hd_error_set(error, HD_ARGUMENT, "main", "--log-level %s: one of debug, info, warn, error", s->log_level);
    if (s->threads < 1 || s->threads > 256)
        return hd_error_set(error, HD_ARGUMENT, "main", "--threads %" PRIu64 ": from 1 to 256", s->threads);
    if (s->queue_max < 1 || s->queue_max > 100000)
        return hd_error_set(error, HD_ARGUMENT, "main", "--queue-max %" PRIu64 ": from 1 to 100000", s->queue_max);
    if (s->step_bytes < 1 << 20) return hd_error_set(error, HD_ARGUMENT, "main", "--step-memory: at least 1M");
    if (s->cache_bytes < 1 << 20) return hd_error_set(error, HD_ARGUMENT, "main", "--cache: at least 1M");
    if (s->ready_fd != NO_FD && s->ready_fd > 1 << 20)
        return hd_error_set(error, HD_ARGUMENT, "main", "--ready-fd %" PRIu64 " is no file descriptor", s->ready_fd);
    return check_exposure(s, error);
}

/* *is_done_out: --help or --version was asked and answered. */
static hd_status read_settings(int argc, char **argv, settings *s, hd_log_level *level_out, bool *is_done_out, hd_error *error) {
    const hd_config_option options[] = {
        {"listen", 'l', HD_CONFIG_TEXT, &s->endpoint, "ENDPOINT",
         "where coordinators reach this shard: tcp://HOST:PORT or ipc://PATH"},
        {"data", 'd', HD_CONFIG_TEXT, &s->data, "DIR", "folder for the data; made where it does not exist"},
        {"memory", 'm', HD_CONFIG_BYTES, &s->memory_bytes, "BYTES",
         "memory for loaded partitions; the least recently used leave it"},
        {"cache", 0, HD_CONFIG_BYTES, &s->cache_bytes, "BYTES", "memory for blocks read from disk"},
        {"step-memory", 0, HD_CONFIG_BYTES, &s->step_bytes, "BYTES", "memory that one request and its answer may take"},
        {"threads", 't', HD_CONFIG_COUNT, &s->threads, "N", "workers that run steps; one a core by default"},
        {"queue-max", 0, HD_CONFIG_COUNT, &s->queue_max, "N", "requests that may wait for a worker before more are refused"},
        {"metrics-listen", 0, HD_CONFIG_TEXT, &s->metrics_address, "HOST:PORT", "serve /healthz, /readyz and /metrics over HTTP"},
        {"allow-plain-tcp", 0, HD_CONFIG_SWITCH, &s->is_plain_tcp_allowed, NULL, "listen beyond this machine without encryption"},
        {"ready-fd", 0, HD_CONFIG_COUNT, &s->ready_fd, "N",
         "write the endpoint and a newline to this descriptor when ready, and close it"},
        {"log-level", 0, HD_CONFIG_TEXT, &s->log_level, "LEVEL", "debug, info, warn or error"},
    };
    hd_config_list words = {0};
    HD_TRY(hd_config_parse("heddle-shard", "heddle-shard --data DIR [--listen ENDPOINT]", options, HD_COUNT_OF(options), argc, argv,
                           &words, is_done_out, error));
    return *is_done_out ? HD_OK : check_settings(s, &words, level_out, error);
}

static bool answer_ready(void *self) {
    return sh_server_is_ready(self);
}

static hd_status start(const settings *s, shard *parts, hd_error *error) {
    HD_TRY(sh_store_open(s->data, s->cache_bytes, &parts->store, error));
    HD_TRY(sh_partitions_new(parts->store, s->memory_bytes, &parts->partitions, error));
    HD_TRY(sh_writer_new(parts->store, parts->partitions, &parts->writer, error));
    HD_TRY(sh_admin_new(parts->store, parts->partitions, &parts->admin, error));
    sh_server_options options = {.endpoint = s->endpoint,
                                 .threads = (uint32_t)s->threads,
                                 .queue_max = (uint32_t)s->queue_max,
                                 .step_bytes_max = s->step_bytes};
    HD_TRY(sh_server_new(&options, parts->partitions, parts->writer, parts->admin, &parts->server, error));
    if (s->metrics_address) HD_TRY(sh_health_new(s->metrics_address, answer_ready, parts->server, &parts->health, error));
    return HD_OK;
}

static void stop(shard *parts) {
    if (parts->server) sh_server_drain(parts->server, DRAIN_MS);
    sh_health_free(parts->health);
    sh_server_free(parts->server);
    sh_writer_free(parts->writer);
    sh_admin_free(parts->admin);
    sh_partitions_free(parts->partitions);
    sh_store_close(parts->store);
}

static void tell_ready(const settings *s, const shard *parts) {
    const char *endpoint = sh_server_endpoint(parts->server);
    hd_log(HD_LOG_INFO, "main", "ready: %s, data %s, uuid %s", endpoint, s->data, sh_admin_uuid(parts->admin));
    if (parts->health) hd_log(HD_LOG_INFO, "main", "metrics on port %u", sh_health_port(parts->health));
    if (s->ready_fd == NO_FD) return;
    hd_buf line = {0};
    hd_buf_printf(&line, "%s\n", endpoint);
    if (write((int)s->ready_fd, line.data, line.size) != (ssize_t)line.size)
        hd_log(HD_LOG_WARN, "main", "nobody reads descriptor %" PRIu64 " of --ready-fd", s->ready_fd);
    close((int)s->ready_fd);
    hd_buf_fini(&line);
}

/* Waits for SIGTERM or SIGINT, which are blocked in every thread; ticks meanwhile. False: the server ended by itself. */
static bool wait_for_end(const sigset_t *signals, sh_server *server) {
    const struct timespec period = {.tv_sec = TICK_S};
    for (;;) {
        if (sigtimedwait(signals, NULL, &period) > 0) return true;
        if (!sh_server_is_ready(server)) return false;
        sh_server_tick(server);
    }
}

int main(int argc, char **argv) {
    settings s = {.endpoint = "tcp://127.0.0.1:7701",
                  .log_level = "info",
                  .memory_bytes = (uint64_t)4 << 30,
                  .cache_bytes = 256 << 20,
                  .step_bytes = 256 << 20,
                  .queue_max = 1024,
                  .ready_fd = NO_FD};
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    s.threads = (uint64_t)HD_MIN(HD_MAX(cores, 1), 256);
    hd_alloc_stay_warm();
    hd_log_init("heddle-shard", HD_LOG_INFO);
    hd_error error = {0};
    hd_log_level level = HD_LOG_INFO;
    bool is_done = false;
    if (read_settings(argc, argv, &s, &level, &is_done, &error) != HD_OK) {
        fprintf(stderr, "heddle-shard: %s\n", error.message);
        return EXIT_SETTINGS;
    }
    if (is_done) return 0;
    hd_log_init("heddle-shard", level);

    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGINT);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file-size limit is a full disk, not a death */

    hd_wire_init();
    shard parts = {0};
    int code = EXIT_FAILED;
    if (start(&s, &parts, &error) == HD_OK) {
        tell_ready(&s, &parts);
        if (wait_for_end(&signals, parts.server)) code = 0;
        hd_log(HD_LOG_INFO, "main", "stopping");
    } else {
        hd_log(HD_LOG_ERROR, "main", "%s", error.message);
        if (error.code == HD_ARGUMENT) code = EXIT_SETTINGS;
    }
    stop(&parts);
    hd_wire_fini();
    return code;
}
