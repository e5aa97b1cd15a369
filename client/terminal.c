#include "client/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/text.h"

enum { WIDTH_MIN = 20, WIDTH_MAX = 10000, WIDTH_DEFAULT = 100 };

uint32_t cl_terminal_width(int fd) {
    const char *columns = getenv("COLUMNS");
    char *end;
    unsigned long width = columns != NULL ? strtoul(columns, &end, 10) : 0;
    if (width > 0 && *end == '\0') return (uint32_t)HD_MIN(HD_MAX(width, (unsigned long)WIDTH_MIN), (unsigned long)WIDTH_MAX);
    struct winsize size;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return HD_MAX(size.ws_col, (unsigned)WIDTH_MIN);
    return WIDTH_DEFAULT;
}

bool cl_terminal_is(int fd) {
    return isatty(fd) == 1;
}

void cl_add_number(hd_buf *out, uint64_t number) {
    char digits[24];
    int count = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)number);
    for (int i = 0; i < count; i++) {
        if (i > 0 && (count - i) % 3 == 0) hd_buf_add_char(out, ',');
        hd_buf_add_char(out, digits[i]);
    }
}

void cl_add_bytes(hd_buf *out, uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double amount = (double)bytes;
    size_t unit = 0;
    while (amount >= 1023.95 && unit + 1 < HD_COUNT_OF(units)) {
        amount /= 1024;
        unit++;
    }
    hd_buf_printf(out, unit == 0 ? "%.0f %s" : "%.1f %s", amount, units[unit]);
}

void cl_add_duration(hd_buf *out, uint64_t ms) {
    uint64_t s = (ms + 500) / 1000;
    if (ms < 1000)
        hd_buf_printf(out, "%llu ms", (unsigned long long)ms);
    else if (s < 60)
        hd_buf_printf(out, "%llu s", (unsigned long long)s);
    else if (s < 3600)
        hd_buf_printf(out, "%llu min %llu s", (unsigned long long)s / 60, (unsigned long long)s % 60);
    else if (s < 86400)
        hd_buf_printf(out, "%llu h %llu min", (unsigned long long)s / 3600, (unsigned long long)s / 60 % 60);
    else
        hd_buf_printf(out, "%llu d %llu h", (unsigned long long)s / 86400, (unsigned long long)s / 3600 % 24);
}

void cl_add_real(hd_buf *out, double number) {
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof(text), "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    hd_buf_add_str(out, hd_str_of(text));
    if (strspn(text, "-0123456789") == strlen(text)) hd_buf_add_str(out, HD_STR(".0"));
}

/* Bytes of the character at the beginning of valid UTF-8. */
static size_t character_size(hd_str text) {
    unsigned char lead = (unsigned char)text.data[0];
    size_t size = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    return HD_MIN(size, text.size);
}

void cl_add_line(hd_buf *out, hd_str text) {
    for (size_t at = 0; at < text.size;) {
        hd_str rest = {text.data + at, text.size - at};
        hd_str character = {rest.data, character_size(rest)};
        hd_buf_add_str(out, hd_text_has_control(character, false) ? HD_STR(" ") : character);
        at += character.size;
    }
}

bool cl_add_cut(hd_buf *out, hd_str text, size_t width) {
    hd_buf line = {0};
    cl_add_line(&line, text);
    hd_str whole = hd_buf_get(&line);
    bool is_cut = hd_text_width(whole) > width;
    if (!is_cut) {
        hd_buf_add_str(out, whole);
    } else if (width > 0) {
        size_t used = 0, at = 0;
        while (at < whole.size) {
            hd_str rest = {whole.data + at, whole.size - at};
            hd_str character = {rest.data, character_size(rest)};
            size_t columns = hd_text_width(character);
            if (used + columns > width - 1) break;
            used += columns;
            at += character.size;
        }
        hd_buf_add(out, whole.data, at);
        hd_buf_add_str(out, HD_STR("\xe2\x80\xa6"));
        /* A wide character that did not fit leaves a column free: it is filled, so that what follows stands where it should. */
        for (used++; used < width; used++) hd_buf_add_char(out, ' ');
    }
    hd_buf_fini(&line);
    return is_cut;
}

void cl_write(int fd, const hd_buf *text) {
    size_t done = 0;
    while (done < text->size) {
        ssize_t written = write(fd, text->data + done, text->size - done);
        if (written < 0 && errno == EINTR) continue;
        if (written <= 0) return;
        done += (size_t)written;
    }
}
