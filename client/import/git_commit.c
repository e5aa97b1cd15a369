#define _GNU_SOURCE
#include "client/import/git_commit.h"

#include <errno.h>
#include <iconv.h>
#include <stdio.h>

#include "common/buf.h"
#include "common/text.h"

enum { PARENTS_MAX = 65536, ENCODING_NAME_MAX = 64 };

static const hd_str replacement = {"\xef\xbf\xbd", 3};

/* ---- the object ---- */

static bool is_hash(hd_str text) {
    if (text.size != CL_GIT_HASH_TEXT) return false;
    for (size_t i = 0; i < text.size; i++)
        if (strchr("0123456789abcdef", text.data[i]) == NULL || text.data[i] == '\0') return false;
    return true;
}

static hd_str trim_blanks(hd_str text) {
    while (text.size > 0 && (unsigned char)text.data[0] <= ' ') {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && (unsigned char)text.data[text.size - 1] <= ' ') text.size--;
    return text;
}

/* person = name "<" email ">" time zone; any of them may be missing. */
static void parse_person(hd_str value, hd_str *name_out, hd_str *email_out, int64_t *time_out, bool *has_time_out) {
    const char *open = memchr(value.data, '<', value.size), *close = NULL;
    if (open != NULL) close = memrchr(open, '>', value.size - (size_t)(open - value.data));
    *name_out = trim_blanks((hd_str){value.data, open != NULL ? (size_t)(open - value.data) : value.size});
    *email_out = (hd_str){"", 0};
    if (open != NULL && close != NULL) *email_out = trim_blanks((hd_str){open + 1, (size_t)(close - open) - 1});
    const char *at = close != NULL ? close + 1 : value.data + value.size, *end = value.data + value.size;
    bool is_negative = false, has_digits = false;
    int64_t time = 0;
    while (at < end && *at == ' ') at++;
    if (at < end && *at == '-') {
        is_negative = true;
        at++;
    }
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(time, 10, &time) || __builtin_add_overflow(time, *at - '0', &time)) return;
        has_digits = true;
    }
    if (!has_digits) return;
    *time_out = is_negative ? -time : time;
    *has_time_out = true;
}

/* Does the line begin with "key "? Then its value. */
static bool take_header(hd_str line, const char *key, hd_str *value_out) {
    size_t size = strlen(key);
    if (line.size <= size || memcmp(line.data, key, size) != 0 || line.data[size] != ' ') return false;
    *value_out = (hd_str){line.data + size + 1, line.size - size - 1};
    return true;
}

typedef struct headers {
    cl_git_commit *commit;
    hd_str *parents;
    bool has_author, has_author_time;
    int64_t author_time;
} headers;

static void read_header(headers *h, hd_str line) {
    cl_git_commit *commit = h->commit;
    hd_str value, name, email;
    if (take_header(line, "tree", &value)) {
        if (is_hash(value) && commit->tree.data == NULL) commit->tree = value;
    } else if (take_header(line, "parent", &value)) {
        if (is_hash(value)) h->parents[commit->parent_count++] = value;
    } else if (take_header(line, "author", &value) && !h->has_author) {
        h->has_author = true;
        parse_person(value, &commit->author_name, &commit->author_email, &h->author_time, &h->has_author_time);
    } else if (take_header(line, "committer", &value) && !commit->has_time) {
        parse_person(value, &name, &email, &commit->time_s, &commit->has_time);
    } else if (take_header(line, "encoding", &value) && commit->encoding.data == NULL) {
        commit->encoding = trim_blanks(value);
    }
}

/* object = { header "\n" { " " continuation "\n" } } "\n" message */
hd_status cl_git_commit_parse(hd_arena *arena, hd_str object, cl_git_commit *commit_out) {
    *commit_out = (cl_git_commit){.author_name = HD_STR(""), .author_email = HD_STR(""), .message = HD_STR("")};
    headers h = {.commit = commit_out};
    uint32_t parents_max = 0;
    for (size_t i = 0; i + 7 < object.size && parents_max < PARENTS_MAX; i++)
        parents_max += memcmp(object.data + i, "parent ", 7) == 0;
    HD_ALLOC(h.parents, arena, parents_max);
    commit_out->parents = h.parents;
    for (size_t at = 0; at < object.size;) {
        const char *end = memchr(object.data + at, '\n', object.size - at);
        hd_str line = {object.data + at, end != NULL ? (size_t)(end - object.data) - at : object.size - at};
        at += line.size + 1;
        if (line.size == 0) {
            if (at <= object.size) commit_out->message = (hd_str){object.data + at, object.size - at};
            break;
        }
        bool is_full = commit_out->parent_count == parents_max && memcmp(line.data, "parent ", HD_MIN(line.size, (size_t)7)) == 0;
        if (line.data[0] != ' ' && !is_full) read_header(&h, line);
    }
    if (!commit_out->has_time && h.has_author_time) {
        commit_out->time_s = h.author_time;
        commit_out->has_time = true;
    }
    return HD_OK;
}

/* ---- texts ---- */

static bool is_utf8_name(hd_str encoding) {
    return encoding.size == 0 || hd_str_is_equal_nocase(encoding, HD_STR("utf-8")) ||
           hd_str_is_equal_nocase(encoding, HD_STR("utf8"));
}

/* Converts as far as it goes; a byte that does not convert becomes U+FFFD and the rest goes on. */
static void convert_all(iconv_t converter, hd_str bytes, hd_buf *text_out, bool *is_repaired_out) {
    char *in = (char *)(uintptr_t)bytes.data;
    size_t in_left = bytes.size;
    while (in_left > 0) {
        size_t room = in_left * 2 + 64;
        char *out = hd_buf_reserve(text_out, room), *start = out;
        size_t out_left = room;
        size_t result = iconv(converter, &in, &in_left, &out, &out_left);
        text_out->size += (size_t)(out - start);
        if (result != (size_t)-1 || errno == E2BIG) continue;
        hd_buf_add_str(text_out, replacement);
        *is_repaired_out = true;
        in++;
        in_left--;
    }
}

static hd_status convert(hd_arena *arena, hd_str bytes, hd_str encoding, hd_str *text_out, bool *is_known_out,
                         bool *is_repaired_out) {
    char name[ENCODING_NAME_MAX];
    snprintf(name, sizeof(name), HD_STR_FMT, HD_STR_ARG(encoding));
    iconv_t converter = encoding.size < sizeof(name) ? iconv_open("UTF-8", name) : (iconv_t)-1;
    *is_known_out = converter != (iconv_t)-1;
    if (!*is_known_out) return HD_OK;
    hd_buf text = {0};
    convert_all(converter, bytes, &text, is_repaired_out);
    iconv_close(converter);
    hd_status status = hd_arena_dup(arena, hd_buf_get(&text), text_out);
    hd_buf_fini(&text);
    return status;
}

static hd_status replace_nuls(hd_arena *arena, hd_str *text) {
    hd_buf clean = {0};
    for (size_t i = 0; i < text->size; i++) {
        if (text->data[i] == '\0')
            hd_buf_add_str(&clean, replacement);
        else
            hd_buf_add_char(&clean, text->data[i]);
    }
    hd_status status = hd_arena_dup(arena, hd_buf_get(&clean), text);
    hd_buf_fini(&clean);
    return status;
}

hd_status cl_git_text(hd_arena *arena, hd_str bytes, hd_str encoding, hd_str *text_out, bool *is_repaired_out) {
    hd_str text = bytes;
    bool is_known = true;
    *is_repaired_out = false;
    if (!is_utf8_name(encoding)) HD_TRY(convert(arena, bytes, encoding, &text, &is_known, is_repaired_out));
    if (!hd_text_is_utf8(text)) {
        HD_TRY(hd_text_repair(arena, text, &text));
        *is_repaired_out = true;
    }
    if (text.size > 0 && memchr(text.data, '\0', text.size) != NULL) {
        HD_TRY(replace_nuls(arena, &text));
        *is_repaired_out = true;
    }
    *text_out = text;
    return HD_OK;
}
