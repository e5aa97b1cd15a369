#define _GNU_SOURCE
#include "client/child.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/terminal.h"

enum { READ_SIZE = 16384, LINE_MAX_BYTES = 1 << 20 };

void cl_child_init(cl_child *child, const char *name) {
    *child = (cl_child){.ready = -1, .log = -1};
    snprintf(child->name, sizeof(child->name), "%s", name);
}

static void close_pipe(int *pipe) {
    if (*pipe >= 0) close(*pipe);
    *pipe = -1;
}

void cl_child_fini(cl_child *child) {
    for (size_t i = 0; i < child->argc; i++) hd_free(child->argv[i]);
    hd_free(child->argv);
    close_pipe(&child->ready);
    close_pipe(&child->log);
    hd_buf_fini(&child->ready_line);
    hd_buf_fini(&child->log_line);
}

void cl_child_add_word(cl_child *child, const char *format, ...) {
    hd_buf word = {0};
    char text[8192];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    hd_buf_add_str(&word, hd_str_of(text));
    child->argv = hd_realloc(child->argv, (child->argc + 2) * sizeof(*child->argv));
    child->argv[child->argc++] = hd_str_to_c(hd_buf_get(&word));
    child->argv[child->argc] = NULL;
    hd_buf_fini(&word);
}

/* ---- its log ---- */

hd_str cl_child_find_error(hd_str line, char *room, size_t room_size) {
    json_t *object = line.size > 0 && line.data[0] == '{' ? json_loadb(line.data, line.size, 0, NULL) : NULL;
    const char *level = json_string_value(json_object_get(object, "level"));
    const char *message = json_string_value(json_object_get(object, "msg"));
    int size = -1;
    if (object == NULL && line.size > 0)
        size = snprintf(room, room_size, HD_STR_FMT, HD_STR_ARG(line));
    else if (level != NULL && strcmp(level, "error") == 0 && message != NULL)
        size = snprintf(room, room_size, "%s", message);
    json_decref(object);
    if (size < 0) return (hd_str){0};
    return (hd_str){room, HD_MIN((size_t)size, room_size - 1)};
}

static void note_lines(cl_child *child, hd_str lines) {
    for (size_t at = 0; at < lines.size;) {
        const char *end = memchr(lines.data + at, '\n', lines.size - at);
        size_t size = (size_t)(end - lines.data) - at;
        char room[CL_CHILD_ERROR_MAX];
        hd_str told = cl_child_find_error((hd_str){lines.data + at, size}, room, sizeof(room));
        if (told.size > 0) snprintf(child->last_error, sizeof(child->last_error), HD_STR_FMT, HD_STR_ARG(told));
        at += size + 1;
    }
}

/* Whole lines go on; a line without an end waits for it (but not for ever). */
static void pass_lines(cl_child *child, int log, bool is_end) {
    hd_buf *line = &child->log_line;
    if (line->size > 0 && (is_end || line->size > LINE_MAX_BYTES)) hd_buf_add_char(line, '\n');
    const char *last = line->size > 0 ? memrchr(line->data, '\n', line->size) : NULL;
    if (last == NULL) return;
    size_t size = (size_t)(last - line->data) + 1;
    hd_buf whole = {.data = line->data, .size = size};
    cl_write(log, &whole);
    note_lines(child, hd_buf_get(&whole));
    memmove(line->data, line->data + size, line->size - size);
    line->size -= size;
}

void cl_child_read_log(cl_child *child, int log) {
    while (child->log >= 0) {
        ssize_t size = read(child->log, hd_buf_reserve(&child->log_line, READ_SIZE), READ_SIZE);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) break;
        if (size <= 0) close_pipe(&child->log);
        if (size > 0) child->log_line.size += (size_t)size;
        pass_lines(child, log, size <= 0);
    }
}

void cl_child_read_ready(cl_child *child) {
    while (child->ready >= 0) {
        ssize_t size = read(child->ready, hd_buf_reserve(&child->ready_line, READ_SIZE), READ_SIZE);
        if (size < 0 && errno == EINTR) continue;
        if (size < 0 && errno == EAGAIN) return;
        if (size > 0) child->ready_line.size += (size_t)size;
        const char *end = child->ready_line.size > 0 ? memchr(child->ready_line.data, '\n', child->ready_line.size) : NULL;
        if (end != NULL) {
            child->ready_line.size = (size_t)(end - child->ready_line.data);
            child->ready_line.data[child->ready_line.size] = '\0';
            child->is_ready = true;
        }
        if (end != NULL || size <= 0) close_pipe(&child->ready);
    }
}

void cl_child_add_end(const cl_child *child, hd_buf *out) {
    if (WIFSIGNALED(child->end))
        hd_buf_printf(out, "was killed by signal %d", WTERMSIG(child->end));
    else
        hd_buf_printf(out, "ended with code %d", WEXITSTATUS(child->end));
}
