#include "common/status.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/text.h"

typedef struct status_row {
    hd_status status;
    const char *name, *reason, *meaning;
    int http;
    hd_retry retry;
} status_row;

static const status_row rows[] = {
#define X(name, number, http, retry, reason, meaning) {HD_##name, #name, reason, meaning, http, HD_RETRY_##retry},
#include "common/status.def"
#undef X
};

/* A number that is no row can only be a status made of a raw number, which hd_status_from_wire prevents. */
static const status_row *find_row(hd_status status) {
    for (size_t i = 0; i < HD_COUNT_OF(rows); i++) {
        if (rows[i].status == status) return &rows[i];
    }
    return NULL;
}

static const status_row *get_row(hd_status status) {
    const status_row *row = find_row(status);
    HD_CHECK(row != NULL);
    return row;
}

const char *hd_status_name(hd_status status) {
    return get_row(status)->name;
}

const char *hd_status_reason(hd_status status) {
    return get_row(status)->reason;
}

const char *hd_status_meaning(hd_status status) {
    return get_row(status)->meaning;
}

int hd_status_http(hd_status status) {
    return get_row(status)->http;
}

hd_retry hd_status_retry(hd_status status) {
    return get_row(status)->retry;
}

hd_status hd_status_from_wire(uint32_t number) {
    for (size_t i = 0; i < HD_COUNT_OF(rows); i++) {
        if ((uint32_t)rows[i].status == number) return rows[i].status;
    }
    return HD_WIRE;
}

/* Writes at `at` and leaves valid UTF-8: a character cut in two at the end goes, any other bad byte (a foreign library's text, a
 * path) becomes '?'. */
static void write_message(char *message, size_t at, const char *format, va_list args) {
    size_t room = HD_ERROR_MESSAGE_MAX - at;
    int wanted = vsnprintf(message + at, room, format, args);
    if (wanted < 0) {
        message[at] = '\0';
        return;
    }
    bool is_cut = (size_t)wanted >= room;
    size_t size = at + HD_MIN((size_t)wanted, room - 1);
    for (size_t valid = at; valid < size;) {
        size_t bad;
        valid += hd_text_valid_prefix((hd_str){message + valid, size - valid}, &bad);
        if (bad == 0) break;
        if (is_cut && valid + bad == size) {
            size = valid;
        } else {
            memset(message + valid, '?', bad);
        }
    }
    message[size] = '\0';
}

hd_status hd_error_set(hd_error *error, hd_status code, const char *module, const char *format, ...) {
    if (error == NULL || error->code != HD_OK) return code;
    error->code = code;
    error->module = module;
    va_list args;
    va_start(args, format);
    write_message(error->message, 0, format, args);
    va_end(args);
    return code;
}

void hd_error_add_context(hd_error *error, const char *format, ...) {
    if (error == NULL || error->code == HD_OK) return;
    char context[HD_ERROR_MESSAGE_MAX];
    va_list args;
    va_start(args, format);
    write_message(context, 0, format, args);
    va_end(args);
    static const char before[] = " (while ";
    size_t size = strlen(error->message), context_size = strlen(context);
    /* " (while …)" goes on whole or not at all, so that the bracket is always closed and the first message never suffers. */
    if (size + context_size + sizeof(before) + 1 > HD_ERROR_MESSAGE_MAX) return;
    char *at = error->message + size;
    memcpy(at, before, sizeof(before) - 1);
    memcpy(at + sizeof(before) - 1, context, context_size);
    memcpy(at + sizeof(before) - 1 + context_size, ")", 2);
}
