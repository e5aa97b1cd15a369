/* Columns between our structs and generated ones. A column of strings is one blob and one column of sizes plus one, so that the
 * absent string (0) and the empty one (1) stay apart. */
#include "proto/codec_private.h"

HdPb__Strings *hd_codec_put_strings(hd_arena *scratch, const hd_str *strings, size_t count) {
    if (strings == NULL || count == 0) return NULL;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) total += strings[i].size;
    HdPb__Strings *message;
    HD_CODEC_NEW(message, scratch, strings);
    message->sizes = hd_arena_alloc(scratch, count * sizeof(uint32_t));
    message->blob.data = hd_arena_alloc(scratch, total);
    HD_CHECK(message->sizes != NULL && message->blob.data != NULL);
    message->n_sizes = count;
    message->blob.len = total;
    uint8_t *at = message->blob.data;
    for (size_t i = 0; i < count; i++) {
        HD_CHECK(strings[i].size < UINT32_MAX);
        message->sizes[i] = strings[i].data == NULL ? 0 : (uint32_t)strings[i].size + 1;
        if (strings[i].size > 0) memcpy(at, strings[i].data, strings[i].size);
        at += strings[i].size;
    }
    return message;
}

HdPb__Strings *hd_codec_put_string(hd_arena *scratch, hd_str text) {
    return text.data == NULL ? NULL : hd_codec_put_strings(scratch, &text, 1);
}

ProtobufCBinaryData hd_codec_put_bytes(const void *bytes, size_t size) {
    if (bytes == NULL || size == 0) return (ProtobufCBinaryData){0, NULL};
    return (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)bytes};
}

/* Cuts `count` strings off the blob. The blob is used up by exactly these. */
static hd_status cut_strings(const HdPb__Strings *message, size_t count, hd_codec_rule rule, hd_str *strings_out) {
    const char *at = message->blob.data != NULL ? (const char *)message->blob.data : "";
    size_t left = message->blob.len;
    for (size_t i = 0; i < count; i++) {
        if (message->sizes[i] == 0) {
            if (!rule.is_absent_allowed) return HD_WIRE;
            strings_out[i] = (hd_str){NULL, 0};
            continue;
        }
        size_t size = message->sizes[i] - 1;
        if (size > left || size < rule.size_min || size > rule.size_max) return HD_WIRE;
        strings_out[i] = (hd_str){at, size};
        at += size;
        left -= size;
    }
    return left == 0 ? HD_OK : HD_WIRE;
}

hd_status hd_codec_get_strings(hd_arena *arena, const HdPb__Strings *message, size_t count, hd_codec_rule rule,
                               hd_str **strings_out) {
    *strings_out = NULL;
    if (message == NULL) return HD_OK;
    if (message->n_sizes != count) return HD_WIRE;
    if (count == 0) return message->blob.len == 0 ? HD_OK : HD_WIRE;
    hd_str *strings = hd_arena_alloc(arena, count * sizeof(*strings));
    if (strings == NULL) return HD_MEMORY;
    HD_TRY(cut_strings(message, count, rule, strings));
    *strings_out = strings;
    return HD_OK;
}

hd_status hd_codec_get_string(const HdPb__Strings *message, hd_codec_rule rule, hd_str *text_out) {
    *text_out = (hd_str){NULL, 0};
    if (message == NULL) return rule.is_absent_allowed ? HD_OK : HD_WIRE;
    if (message->n_sizes != 1) return HD_WIRE;
    return cut_strings(message, 1, rule, text_out);
}

hd_status hd_codec_get_bytes(const ProtobufCBinaryData *bytes, size_t count, size_t unit, void *column_out) {
    void *column = NULL;
    if (bytes->len != 0) {
        if (bytes->len % unit != 0 || bytes->len / unit != count) return HD_WIRE;
        column = bytes->data;
    }
    memcpy(column_out, &column, sizeof(column));
    return HD_OK;
}

bool hd_codec_are_floats_finite(const float *values, size_t count) {
    uint32_t bad = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof(bits));
        bad |= (uint32_t)((bits & 0x7f800000U) == 0x7f800000U);
    }
    return bad == 0;
}
