#include "common/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/text.h"

enum { PROCESS_NAME_MAX = 64 };

static const char *const level_names[] = {
    [HD_LOG_DEBUG] = "debug",
    [HD_LOG_INFO] = "info",
    [HD_LOG_WARN] = "warn",
    [HD_LOG_ERROR] = "error",
};

/* Written by hd_log_init, before other threads are started. */
static char process_name[PROCESS_NAME_MAX] = "heddle";
static atomic_int level_least = HD_LOG_INFO;

void hd_log_hold_descriptors(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
        /* The lower ones are open by now, so this gets `fd`; opened the wrong way round, so that it can hide nothing. */
        int held = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        HD_CHECK(held == fd || held < 0);
    }
}

void hd_log_init(const char *process, hd_log_level level_min) {
    hd_log_hold_descriptors();
    snprintf(process_name, sizeof(process_name), "%s", process);
    atomic_store(&level_least, (int)level_min);
}

bool hd_log_level_parse(hd_str text, hd_log_level *level_out) {
    for (unsigned level = 0; level < HD_COUNT_OF(level_names); level++) {
        if (hd_str_is_equal(text, hd_str_of(level_names[level]))) {
            *level_out = level;
            return true;
        }
    }
    return false;
}

static void add_escaped_char(hd_buf *line, char c) {
    switch (c) {
    case '"': hd_buf_add_str(line, HD_STR("\\\"")); break;
    case '\\': hd_buf_add_str(line, HD_STR("\\\\")); break;
    case '\b': hd_buf_add_str(line, HD_STR("\\b")); break;
    case '\f': hd_buf_add_str(line, HD_STR("\\f")); break;
    case '\n': hd_buf_add_str(line, HD_STR("\\n")); break;
    case '\r': hd_buf_add_str(line, HD_STR("\\r")); break;
    case '\t': hd_buf_add_str(line, HD_STR("\\t")); break;
    default:
        if ((unsigned char)c < 0x20) {
            hd_buf_printf(line, "\\u%04x", (unsigned char)c);
        } else {
            hd_buf_add_char(line, c);
        }
    }
}

static void add_json_string(hd_buf *line, hd_str text) {
    hd_buf_add_char(line, '"');
    for (size_t at = 0; at < text.size;) {
        size_t bad_size;
        size_t valid = hd_text_valid_prefix((hd_str){text.data + at, text.size - at}, &bad_size);
        for (size_t i = 0; i < valid; i++) add_escaped_char(line, text.data[at + i]);
        if (bad_size > 0) hd_buf_add_str(line, HD_STR("\xef\xbf\xbd")); /* U+FFFD */
        at += valid + bad_size;
    }
    hd_buf_add_char(line, '"');
}

/* One write(2), so that lines of several threads and processes do not mix; more only where the system takes a part. Where stderr
 * takes nothing there is no one to tell. */
static void write_line(const hd_buf *line) {
    size_t done = 0;
    while (done < line->size) {
        ssize_t written = write(STDERR_FILENO, line->data + done, line->size - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        done += (size_t)written;
    }
}

void hd_log(hd_log_level level, const char *module, const char *format, ...) {
    if ((int)level < atomic_load_explicit(&level_least, memory_order_relaxed)) return;
    int errno_before = errno;
    hd_buf message = {0}, line = {0};
    va_list args;
    va_start(args, format);
    int size = vsnprintf(hd_buf_reserve(&message, 1024), 1024, format, args);
    va_end(args);
    if (size >= 1024) {
        va_start(args, format);
        size = vsnprintf(hd_buf_reserve(&message, (size_t)size), (size_t)size + 1, format, args);
        va_end(args);
    }
    message.size = size < 0 ? 0 : (size_t)size;

    char ts[HD_INSTANT_TEXT_MAX];
    hd_instant_format(hd_clock_wall_us(), ts);
    hd_buf_printf(&line, "{\"ts\":\"%s\",\"level\":\"%s\",\"process\":", ts, level_names[level]);
    add_json_string(&line, hd_str_of(process_name));
    hd_buf_printf(&line, ",\"pid\":%ld,\"module\":", (long)getpid());
    add_json_string(&line, hd_str_of(module));
    hd_buf_add_str(&line, HD_STR(",\"msg\":"));
    add_json_string(&line, hd_buf_get(&message));
    hd_buf_add_str(&line, HD_STR("}\n"));
    write_line(&line);
    hd_buf_fini(&message);
    hd_buf_fini(&line);
    errno = errno_before;
}
