/* The only JSON writer of the coordinator. Compact text, no white space; commas are kept track of with one bit a depth. */
#include "coordinator/front/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"

enum { JSON_DEPTH_MAX = 64 }; /* bits of has_item; what the coordinator writes nests about a dozen deep */

void co_json_init(co_json *json, hd_buf *out) {
    *json = (co_json){.out = out};
}

/* What stands before a value: nothing after a key, else a comma where the container has an item already. */
static void open_value(co_json *json) {
    if (json->is_after_key) {
        json->is_after_key = false;
        return;
    }
    uint64_t bit = 1ull << json->depth;
    if (json->has_item & bit) hd_buf_add_char(json->out, ',');
    json->has_item |= bit;
}

static void open_container(co_json *json, char brace) {
    open_value(json);
    hd_buf_add_char(json->out, brace);
    HD_CHECK(json->depth + 1 < JSON_DEPTH_MAX);
    json->depth++;
    json->has_item &= ~(1ull << json->depth);
}

static void close_container(co_json *json, char brace) {
    HD_CHECK(json->depth > 0 && !json->is_after_key);
    json->depth--;
    hd_buf_add_char(json->out, brace);
}

void co_json_object(co_json *json) {
    open_container(json, '{');
}
void co_json_end_object(co_json *json) {
    close_container(json, '}');
}
void co_json_array(co_json *json) {
    open_container(json, '[');
}
void co_json_end_array(co_json *json) {
    close_container(json, ']');
}

/* Runs that need no escape are copied whole. UTF-8 goes as it is; quotes, backslashes and C0 controls are escaped. */
static void write_quoted(hd_buf *out, hd_str text) {
    static const char hex[] = "0123456789abcdef";
    hd_buf_add_char(out, '"');
    size_t from = 0;
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (HD_LIKELY(c >= 0x20 && c != '"' && c != '\\')) continue;
        hd_buf_add(out, text.data + from, i - from);
        from = i + 1;
        switch (c) {
        case '"': hd_buf_add(out, "\\\"", 2); break;
        case '\\': hd_buf_add(out, "\\\\", 2); break;
        case '\n': hd_buf_add(out, "\\n", 2); break;
        case '\r': hd_buf_add(out, "\\r", 2); break;
        case '\t': hd_buf_add(out, "\\t", 2); break;
        default: hd_buf_add(out, (char[]){'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]}, 6); break;
        }
    }
    if (text.size > from) hd_buf_add(out, text.data + from, text.size - from);
    hd_buf_add_char(out, '"');
}

void co_json_key_str(co_json *json, hd_str key) {
    open_value(json);
    write_quoted(json->out, key);
    hd_buf_add_char(json->out, ':');
    json->is_after_key = true;
}

void co_json_key(co_json *json, const char *key) {
    co_json_key_str(json, hd_str_of(key));
}

void co_json_str(co_json *json, hd_str text) {
    open_value(json);
    write_quoted(json->out, text);
}

void co_json_text(co_json *json, const char *text) {
    co_json_str(json, hd_str_of(text));
}

void co_json_raw(co_json *json, hd_str text) {
    open_value(json);
    hd_buf_add_str(json->out, text);
}

void co_json_uint(co_json *json, uint64_t n) {
    char digits[20];
    size_t at = sizeof(digits);
    do {
        digits[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    open_value(json);
    hd_buf_add(json->out, digits + at, sizeof(digits) - at);
}

void co_json_int(co_json *json, int64_t n) {
    if (n >= 0) {
        co_json_uint(json, (uint64_t)n);
        return;
    }
    open_value(json);
    hd_buf_add_char(json->out, '-');
    json->is_after_key = true; /* the digits belong to this value: no comma before them */
    co_json_uint(json, 0 - (uint64_t)n);
}

void co_json_double(co_json *json, double x) {
    HD_CHECK(isfinite(x));
    char text[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, x);
        if (strtod(text, NULL) == x) break;
    }
    open_value(json);
    hd_buf_add_str(json->out, hd_str_of(text));
    if (strpbrk(text, ".e") == NULL) hd_buf_add(json->out, ".0", 2);
}

void co_json_bool(co_json *json, bool b) {
    open_value(json);
    hd_buf_add_str(json->out, b ? HD_STR("true") : HD_STR("false"));
}

void co_json_null(co_json *json) {
    open_value(json);
    hd_buf_add(json->out, "null", 4);
}

void co_json_instant(co_json *json, int64_t us) {
    char text[HD_INSTANT_TEXT_MAX];
    size_t size = hd_instant_format(us, text);
    co_json_str(json, (hd_str){text, size});
}

void co_json_value(co_json *json, const hd_value *value) {
    switch (value->type) {
    case HD_TYPE_NULL: co_json_null(json); return;
    case HD_TYPE_BOOL: co_json_bool(json, value->boolean); return;
    case HD_TYPE_INT: co_json_int(json, value->integer); return;
    case HD_TYPE_FLOAT: co_json_double(json, value->number); return;
    case HD_TYPE_STRING: co_json_str(json, value->text); return;
    case HD_TYPE_INSTANT: co_json_instant(json, value->instant_us); return;
    case HD_TYPE_LIST:
        co_json_array(json);
        for (uint32_t i = 0; i < value->list.count; i++) co_json_value(json, &value->list.items[i]);
        co_json_end_array(json);
        return;
    case HD_TYPE_MAP:
        co_json_object(json);
        for (uint32_t i = 0; i < value->map.count; i++) {
            co_json_key_str(json, value->map.keys[i]);
            co_json_value(json, &value->map.items[i]);
        }
        co_json_end_object(json);
        return;
    case HD_TYPE_NODE: break;
    }
    HD_CHECK(!"a node is written by whoever knows its facts");
}

void co_json_member_str(co_json *json, const char *key, hd_str text) {
    co_json_key(json, key);
    co_json_str(json, text);
}

void co_json_member_text(co_json *json, const char *key, const char *text) {
    co_json_member_str(json, key, hd_str_of(text));
}

void co_json_member_uint(co_json *json, const char *key, uint64_t n) {
    co_json_key(json, key);
    co_json_uint(json, n);
}

void co_json_member_bool(co_json *json, const char *key, bool b) {
    co_json_key(json, key);
    co_json_bool(json, b);
}

hd_status co_json_to_value(hd_arena *arena, const json_t *json, uint32_t depth_max, hd_value *value_out, hd_error *error) {
    switch (json_typeof(json)) {
    case JSON_NULL: *value_out = HD_VALUE_NULL; return HD_OK;
    case JSON_TRUE: *value_out = hd_value_bool(true); return HD_OK;
    case JSON_FALSE: *value_out = hd_value_bool(false); return HD_OK;
    case JSON_INTEGER: *value_out = hd_value_int(json_integer_value(json)); return HD_OK;
    case JSON_REAL: {
        double x = json_real_value(json);
        *value_out = hd_value_float(x == 0 ? 0.0 : x); /* −0 becomes 0 */
        return HD_OK;
    }
    case JSON_STRING: {
        hd_str text;
        HD_TRY(hd_arena_dup(arena, (hd_str){json_string_value(json), json_string_length(json)}, &text));
        *value_out = hd_value_text(text);
        return HD_OK;
    }
    case JSON_ARRAY: break;
    case JSON_OBJECT: return hd_error_set(error, HD_PARAMS, "json", "a JSON object is no value of the language");
    }
    if (depth_max == 0) return hd_error_set(error, HD_PARAMS, "json", "the lists are nested too deep");
    size_t count = json_array_size(json);
    hd_value *items;
    HD_ALLOC(items, arena, count);
    for (size_t i = 0; i < count; i++) HD_TRY(co_json_to_value(arena, json_array_get(json, i), depth_max - 1, &items[i], error));
    *value_out = (hd_value){.type = HD_TYPE_LIST, .list = {.items = items, .count = (uint32_t)count}};
    return HD_OK;
}
