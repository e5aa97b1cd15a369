/* heddle serve: starts the shards, then the coordinator, says when they are ready, starts again what dies, and stops the coordinator
 * before the shards, so that what is running can end.
 *
 * One thread, one poll. Children are in process groups of their own, so that Ctrl-C reaches this process alone and the order of
 * stopping holds; they die with this process whatever kills it. Their logs come through pipes: a line is never broken by another, and
 * the reason why one did not start can be told to the person at the terminal. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/call.h"
#include "client/child.h"
#include "client/command.h"
#include "client/data_folder.h"
#include "client/terminal.h"
#include "common/clock.h"
#include "common/log.h"

enum {
    START_MS = 300000, /* a shard reads its log of writes first; after a crash under load that may take a while */
    COORDINATOR_STOP_MS = 15000,
    SHARD_STOP_MS = 20000,
    BACKOFF_FIRST_MS = 100,
    BACKOFF_MAX_MS = 10000,
    HEALTHY_MS = 30000, /* one that ran this long starts again without a longer wait */
    POLL_MAX_MS = 60000,
    LISTEN_WORD = 1, /* of the coordinator's argv */
};

typedef struct settings {
    cl_target target; /* data and json alone */
    const char *listen, *log_file, *log_level;
    uint64_t shards, memory_bytes;
    bool is_public_allowed;
} settings;

typedef struct serving {
    const settings *settings;
    cl_data_folder *folder;
    cl_child *shards;
    uint32_t shard_count;
    cl_child coordinator;
    int signals;     /* a signalfd */
    int console;     /* where the person at the terminal reads; -1 until it is known */
    bool is_serving; /* all were ready once: from now on what ends is started again */
    uint32_t stop_requests;
    uint32_t killed; /* children that did not end in time */
} serving;

/* ---- one child ---- */

/* The program beside this one, else what PATH has. */
static void add_program(cl_child *child, const char *name) {
    char self[4096];
    ssize_t size = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = size > 0 ? memrchr(self, '/', (size_t)size) : NULL;
    if (slash != NULL) {
        hd_buf path = {0};
        hd_buf_printf(&path, "%.*s/%s", (int)(slash - self), self, name);
        if (access(path.data, X_OK) == 0) name = hd_strdup(path.data);
        cl_child_add_word(child, "%s", name);
        if (strchr(name, '/') != NULL) hd_free((char *)(uintptr_t)name);
        hd_buf_fini(&path);
    } else {
        cl_child_add_word(child, "%s", name);
    }
}

/* In the child, until the program takes over. */
static void become(const cl_child *child, pid_t parent, int ready, int log) HD_NORETURN;
static void become(const cl_child *child, pid_t parent, int ready, int log) {
    sigset_t none;
    sigemptyset(&none);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0) _exit(127);
    fcntl(ready, F_SETFD, 0);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(child->argv[0], child->argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", child->argv[0], strerror(errno));
    _exit(127);
}

/* --ready-fd is the last word, a new number each time. */
static void set_ready_word(cl_child *child, int ready) {
    hd_buf word = {0};
    hd_buf_printf(&word, "--ready-fd=%d", ready);
    hd_free(child->argv[child->argc - 1]);
    child->argv[child->argc - 1] = word.data;
}

static hd_status start_child(cl_child *child, hd_error *error) {
    int ready[2] = {-1, -1}, log[2] = {-1, -1};
    if (pipe2(ready, O_CLOEXEC) != 0 || pipe2(log, O_CLOEXEC) != 0) {
        if (ready[0] >= 0) close(ready[0]);
        if (ready[1] >= 0) close(ready[1]);
        return hd_error_set(error, HD_UNAVAILABLE, "serve", "cannot start %s: %s", child->name, strerror(errno));
    }
    fcntl(ready[0], F_SETFL, O_NONBLOCK);
    fcntl(log[0], F_SETFL, O_NONBLOCK);
    set_ready_word(child, ready[1]);
    child->last_error[0] = '\0';
    child->is_ready = false;
    hd_buf_clear(&child->ready_line);
    child->started_us = hd_clock_monotonic_us();
    pid_t self = getpid(), pid = fork();
    if (pid == 0) become(child, self, ready[1], log[1]);
    int fork_errno = errno;
    close(ready[1]);
    close(log[1]);
    if (pid < 0) {
        close(ready[0]);
        close(log[0]);
        return hd_error_set(error, HD_UNAVAILABLE, "serve", "cannot start %s: %s", child->name, strerror(fork_errno));
    }
    child->pid = pid;
    child->ready = ready[0];
    child->log = log[0];
    return HD_OK;
}

/* ---- all of them ---- */

static size_t child_count(const serving *s) {
    return s->shard_count + 1;
}
static cl_child *get_child(serving *s, size_t i) {
    return i < s->shard_count ? &s->shards[i] : &s->coordinator;
}

/* A child is gone. In service it is to be started again, after a wait that grows while it keeps dying. */
static void note_end(serving *s, cl_child *child, int end) {
    child->pid = 0;
    child->end = end;
    cl_child_read_ready(child);
    cl_child_read_log(child, STDERR_FILENO);
    if (!s->is_serving) return;
    uint64_t now_us = hd_clock_monotonic_us();
    bool was_healthy = now_us - child->started_us >= HEALTHY_MS * 1000ull;
    child->backoff_ms =
        was_healthy || child->backoff_ms == 0 ? BACKOFF_FIRST_MS : HD_MIN(child->backoff_ms * 2, (uint32_t)BACKOFF_MAX_MS);
    child->restart_at_us = now_us + child->backoff_ms * 1000ull;
    hd_buf how = {0};
    cl_child_add_end(child, &how);
    hd_log(HD_LOG_WARN, "serve", "%s %s; it is started again in %u ms", child->name, how.data, child->backoff_ms);
    hd_buf_fini(&how);
}

static void reap(serving *s) {
    int end;
    pid_t pid;
    while ((pid = waitpid(-1, &end, WNOHANG)) > 0)
        for (size_t i = 0; i < child_count(s); i++)
            if (get_child(s, i)->pid == pid) note_end(s, get_child(s, i), end);
}

static void read_signals(serving *s) {
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof(info)) == (ssize_t)sizeof(info))
        if (info.ssi_signo != SIGCHLD) s->stop_requests++;
    reap(s);
}

/* Waits for something to happen, `wait_ms` at the most, and takes it in. */
static void wait_for_events(serving *s, uint64_t wait_ms) {
    struct pollfd polls[1 + 2 * (CL_SHARDS_MAX + 1)];
    nfds_t count = 0;
    polls[count++] = (struct pollfd){.fd = s->signals, .events = POLLIN};
    for (size_t i = 0; i < child_count(s); i++) { /* poll leaves out descriptor −1 */
        polls[count++] = (struct pollfd){.fd = get_child(s, i)->ready, .events = POLLIN};
        polls[count++] = (struct pollfd){.fd = get_child(s, i)->log, .events = POLLIN};
    }
    if (poll(polls, count, (int)HD_MIN(wait_ms, (uint64_t)POLL_MAX_MS)) <= 0) return;
    for (size_t i = 0; i < child_count(s); i++) {
        if (polls[1 + 2 * i].revents != 0) cl_child_read_ready(get_child(s, i));
        if (polls[2 + 2 * i].revents != 0) cl_child_read_log(get_child(s, i), STDERR_FILENO);
    }
    if (polls[0].revents != 0) read_signals(s);
}

/* ---- starting ---- */

static hd_status tell_not_started(const cl_child *child, hd_error *error) {
    if (child->last_error[0] != '\0')
        return hd_error_set(error, HD_UNAVAILABLE, "serve", "%s did not start: %s", child->name, child->last_error);
    if (child->pid != 0)
        return hd_error_set(error, HD_UNAVAILABLE, "serve", "%s was not ready after %d s", child->name, START_MS / 1000);
    hd_buf how = {0};
    cl_child_add_end(child, &how);
    hd_status status = hd_error_set(error, HD_UNAVAILABLE, "serve", "%s did not start: it %s", child->name, how.data);
    hd_buf_fini(&how);
    return status;
}

/* Until the children [from, to) are ready. HD_CANCELLED: asked to stop meanwhile. */
static hd_status wait_until_ready(serving *s, size_t from, size_t to, hd_error *error) {
    uint64_t deadline_us = hd_clock_monotonic_us() + START_MS * 1000ull;
    for (;;) {
        bool is_all = true;
        uint64_t now_us = hd_clock_monotonic_us();
        for (size_t i = from; i < to; i++) {
            const cl_child *child = get_child(s, i);
            is_all = is_all && child->is_ready;
            if (child->pid == 0 || (!child->is_ready && now_us >= deadline_us)) return tell_not_started(child, error);
        }
        if (is_all) return HD_OK;
        if (s->stop_requests > 0) return HD_CANCELLED;
        wait_for_events(s, (deadline_us - now_us) / 1000 + 1);
    }
}

static hd_status describe_shard(serving *s, uint32_t i, hd_error *error) {
    enum { CACHE_MIN = 32 << 20, CACHE_MAX = 256 << 20 };
    const settings *o = s->settings;
    cl_child *shard = &s->shards[i];
    hd_buf endpoint = {0};
    char name[32];
    snprintf(name, sizeof(name), "shard %u", i);
    cl_child_init(shard, name);
    HD_TRY(cl_data_folder_endpoint(s->folder, i, &endpoint, error));
    uint64_t share = o->memory_bytes / s->shard_count, cache = HD_MIN(HD_MAX(share / 8, (uint64_t)CACHE_MIN), (uint64_t)CACHE_MAX);
    add_program(shard, "heddle-shard");
    cl_child_add_word(shard, "--data=%s/shard-%u", cl_data_folder_path(s->folder), i);
    cl_child_add_word(shard, "--listen=%s", endpoint.data);
    cl_child_add_word(shard, "--memory=%llu", (unsigned long long)(share - cache));
    cl_child_add_word(shard, "--cache=%llu", (unsigned long long)cache);
    cl_child_add_word(shard, "--log-level=%s", o->log_level);
    cl_child_add_word(shard, "--ready-fd=0");
    hd_buf_fini(&endpoint);
    return HD_OK;
}

static hd_status describe_coordinator(serving *s, hd_error *error) {
    cl_child *coordinator = &s->coordinator;
    add_program(coordinator, "heddle-coordinator");
    cl_child_add_word(coordinator, "--listen=%s", s->settings->listen);
    HD_CHECK(coordinator->argc == LISTEN_WORD + 1);
    cl_child_add_word(coordinator, "--data=%s", cl_data_folder_path(s->folder));
    cl_child_add_word(coordinator, "--log-level=%s", s->settings->log_level);
    if (s->settings->is_public_allowed) cl_child_add_word(coordinator, "--allow-public-http");
    for (uint32_t i = 0; i < s->shard_count; i++) {
        hd_buf endpoint = {0};
        hd_status status = cl_data_folder_endpoint(s->folder, i, &endpoint, error);
        if (status == HD_OK) cl_child_add_word(coordinator, "--shard=%s", endpoint.data);
        hd_buf_fini(&endpoint);
        HD_TRY(status);
    }
    cl_child_add_word(coordinator, "--ready-fd=0");
    return HD_OK;
}

/* Where the logs go, and where the person reads. */
static hd_status open_log(serving *s, hd_error *error) {
    s->console = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (s->settings->log_file == NULL) return HD_OK;
    int log = open(s->settings->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0 || dup2(log, STDERR_FILENO) < 0)
        return hd_error_set(error, HD_STORE_IO, "serve", "--log-file %s: %s", s->settings->log_file, strerror(errno));
    close(log);
    return HD_OK;
}

static hd_status prepare(serving *s, hd_error *error) {
    /* What is this command's own must not reach the programs it starts: a file of its settings, a place for one process alone. */
    static const char *const own[] = {"HEDDLE_CONFIG", "HEDDLE_METRICS_LISTEN", "HEDDLE_READY_FD"};
    for (size_t i = 0; i < HD_COUNT_OF(own); i++) unsetenv(own[i]);
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGHUP);
    sigaddset(&taken, SIGCHLD);
    sigprocmask(SIG_BLOCK, &taken, NULL);
    signal(SIGPIPE, SIG_IGN);
    s->signals = signalfd(-1, &taken, SFD_NONBLOCK | SFD_CLOEXEC);
    if (s->signals < 0) return hd_error_set(error, HD_UNAVAILABLE, "serve", "cannot wait for signals: %s", strerror(errno));
    HD_TRY(cl_data_folder_open(s->settings->target.data, s->settings->shards, &s->folder, error));
    HD_TRY(open_log(s, error));
    s->shards = hd_alloc_zero(cl_data_folder_shards(s->folder), sizeof(*s->shards));
    while (s->shard_count < cl_data_folder_shards(s->folder)) cl_child_init(&s->shards[s->shard_count++], "shard");
    for (uint32_t i = 0; i < s->shard_count; i++) HD_TRY(describe_shard(s, i, error));
    return describe_coordinator(s, error);
}

static hd_status start_all(serving *s, hd_error *error) {
    for (uint32_t i = 0; i < s->shard_count; i++) HD_TRY(start_child(&s->shards[i], error));
    HD_TRY(wait_until_ready(s, 0, s->shard_count, error));
    HD_TRY(start_child(&s->coordinator, error));
    return wait_until_ready(s, s->shard_count, child_count(s), error);
}

/* A port that the system chose (--listen HOST:0) stays the same when the coordinator is started again. */
static void keep_address(serving *s) {
    const char *address = strstr(s->coordinator.ready_line.data, "://");
    hd_buf word = {0};
    if (address == NULL) return;
    hd_buf_printf(&word, "--listen=%s", address + 3);
    hd_free(s->coordinator.argv[LISTEN_WORD]);
    s->coordinator.argv[LISTEN_WORD] = word.data;
}

static void tell_ready(serving *s) {
    const char *url = s->coordinator.ready_line.data, *data = cl_data_folder_path(s->folder);
    cl_data_folder_write_url(s->folder, url);
    keep_address(s);
    if (s->settings->target.is_json) {
        json_t *line = json_pack("{s:s, s:s, s:i, s:s, s:i}", "status", "ready", "url", url, "shards", (int)s->shard_count, "data",
                                 data, "pid", (int)getpid());
        hd_buf text = {0};
        if (line != NULL) cl_json_add(&text, line);
        printf("%s\n", text.data != NULL ? text.data : "{\"status\":\"ready\"}");
        hd_buf_fini(&text);
        json_decref(line);
    } else {
        printf("Heddle is ready at %s (%u shard%s, data in %s)\n", url, s->shard_count, s->shard_count == 1 ? "" : "s", data);
    }
    fflush(stdout);
}

/* ---- serving and stopping ---- */

static void restart_due(serving *s) {
    uint64_t now_us = hd_clock_monotonic_us();
    for (size_t i = 0; i < child_count(s); i++) {
        cl_child *child = get_child(s, i);
        hd_error error = {0};
        if (child->pid != 0 || child->restart_at_us > now_us) continue;
        if (start_child(child, &error) == HD_OK) {
            hd_log(HD_LOG_INFO, "serve", "%s started again, process %ld", child->name, (long)child->pid);
        } else {
            hd_log(HD_LOG_ERROR, "serve", "%s", error.message);
            child->restart_at_us = now_us + BACKOFF_MAX_MS * 1000ull;
        }
    }
}

static void watch(serving *s) {
    s->is_serving = true;
    while (s->stop_requests == 0) {
        uint64_t now_us = hd_clock_monotonic_us(), next_us = now_us + POLL_MAX_MS * 1000ull;
        for (size_t i = 0; i < child_count(s); i++) {
            const cl_child *child = get_child(s, i);
            if (child->pid == 0) next_us = HD_MIN(next_us, HD_MAX(child->restart_at_us, now_us));
        }
        wait_for_events(s, (next_us - now_us + 999) / 1000);
        if (s->stop_requests == 0) restart_due(s);
    }
}

/* Asks the children [from, to) to end, waits, and ends those that do not. A second request to stop shortens the wait. */
static void stop_children(serving *s, size_t from, size_t to, uint64_t wait_ms) {
    uint64_t deadline_us = hd_clock_monotonic_us() + wait_ms * 1000;
    uint32_t requests = s->stop_requests;
    for (size_t i = from; i < to; i++)
        if (get_child(s, i)->pid != 0) kill(get_child(s, i)->pid, SIGTERM);
    bool is_killed = false;
    for (;;) {
        size_t left = 0;
        for (size_t i = from; i < to; i++) left += get_child(s, i)->pid != 0;
        if (left == 0) return;
        uint64_t now_us = hd_clock_monotonic_us();
        if (!is_killed && (now_us >= deadline_us || s->stop_requests > HD_MAX(requests, 1u))) {
            is_killed = true;
            for (size_t i = from; i < to; i++) {
                cl_child *child = get_child(s, i);
                if (child->pid == 0) continue;
                hd_log(HD_LOG_WARN, "serve", "%s does not end; it is killed", child->name);
                kill(child->pid, SIGKILL);
                s->killed++;
            }
        }
        wait_for_events(s, is_killed ? POLL_MAX_MS : (deadline_us - now_us) / 1000 + 1);
    }
}

static void stop_all(serving *s) {
    s->is_serving = false;
    if (s->folder != NULL) cl_data_folder_write_url(s->folder, NULL);
    stop_children(s, s->shard_count, child_count(s), COORDINATOR_STOP_MS);
    stop_children(s, 0, s->shard_count, SHARD_STOP_MS);
    for (size_t i = 0; i < child_count(s); i++) cl_child_fini(get_child(s, i));
    hd_free(s->shards);
    cl_data_folder_close(s->folder);
    if (s->signals >= 0) close(s->signals);
}

/* A person reads it at the terminal also where the logs go to a file. */
static int tell_failure(const serving *s, const hd_error *error) {
    if (s->console >= 0) dup2(s->console, STDERR_FILENO);
    return cl_fail(s->settings->target.is_json, error);
}

static void raise_file_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        hd_log(HD_LOG_WARN, "serve", "cannot raise the limit of open files: %s", strerror(errno));
}

static int serve(const settings *o) {
    hd_error error = {0};
    serving s = {.settings = o, .signals = -1, .console = -1};
    cl_child_init(&s.coordinator, "the coordinator");
    raise_file_limit();
    hd_status status = prepare(&s, &error);
    if (status == HD_OK) status = start_all(&s, &error);
    if (status == HD_OK) {
        tell_ready(&s);
        watch(&s);
    }
    stop_all(&s);
    int code = s.killed == 0 ? CL_EXIT_OK : CL_EXIT_FAILED;
    if (status != HD_OK && status != HD_CANCELLED) code = tell_failure(&s, &error);
    if (s.console >= 0) close(s.console);
    return code;
}

int cl_serve_run(int argc, char **argv) {
    static const char usage[] =
        "heddle serve --data DIR [--shards N] [--listen HOST:PORT]\n\n"
        "Runs a coordinator and N shards on this machine until SIGTERM or SIGINT, with all data in one folder. Prints one line "
        "when\n"
        "ready. A process that dies is started again. The cluster's admin key is made at the first start: DIR/admin.key.";
    settings o = {.listen = "127.0.0.1:7700", .log_level = "info", .memory_bytes = (uint64_t)4 << 30};
    const hd_config_option options[] = {
        {"data", 'd', HD_CONFIG_TEXT, &o.target.data, "DIR", "the folder for all data; made where it does not exist"},
        {"shards", 's', HD_CONFIG_COUNT, &o.shards, "N", "shard processes; 0: as many as DIR has, 1 in a new one"},
        {"listen", 'l', HD_CONFIG_TEXT, &o.listen, "HOST:PORT", "where the coordinator serves HTTP"},
        {"memory", 'm', HD_CONFIG_BYTES, &o.memory_bytes, "BYTES", "memory for data of all shards together"},
        {"log-file", 0, HD_CONFIG_TEXT, &o.log_file, "FILE", "append the logs to this file; else they go to stderr"},
        {"log-level", 0, HD_CONFIG_TEXT, &o.log_level, "LEVEL", "debug, info, warn or error"},
        {"allow-public-http", 0, HD_CONFIG_SWITCH, &o.is_public_allowed, NULL,
         "let --listen be beyond this machine, with TLS in front"},
        CL_OPTION_JSON(o.target),
    };
    hd_config_list words = {0};
    hd_error error = {0};
    hd_log_level level;
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 0, 0, &o.target, argc, argv, &words, &code)) return code;
    hd_status status = HD_OK;
    if (o.target.data == NULL)
        status = hd_error_set(&error, HD_ARGUMENT, "serve", "--data DIR is missing: the folder for all data");
    else if (!hd_log_level_parse(hd_str_of(o.log_level), &level))
        status = hd_error_set(&error, HD_ARGUMENT, "serve", "--log-level %s: one of debug, info, warn, error", o.log_level);
    else if (o.memory_bytes < (uint64_t)64 << 20)
        status = hd_error_set(&error, HD_ARGUMENT, "serve", "--memory: at least 64M");
    if (status != HD_OK) return cl_fail(o.target.is_json, &error);
    hd_log_init("heddle-serve", level);
    return serve(&o);
}
