/* Valid text is mostly ASCII; every function here that must be fast has a path for that which never leaves the bytes. */
#define _GNU_SOURCE 1 /* memmem */
#include "common/text.h"

#include <utf8proc.h>

enum { DISTANCE_BYTES_MAX = 255, STACK_CODE_POINTS = 512 };

/* The well-formed sequence at the beginning of `bytes` (size ≥ 1): its size and *code_point_out. At an ill-formed one 0, and
 * *bad_size_out says how many bytes are its maximal subpart (Unicode, table 3-7). */
static size_t decode_one(const uint8_t *bytes, size_t size, uint32_t *code_point_out, size_t *bad_size_out) {
    uint8_t lead = bytes[0];
    *bad_size_out = 0;
    if (lead < 0x80) {
        *code_point_out = lead;
        return 1;
    }
    *bad_size_out = 1;
    if (lead < 0xc2 || lead > 0xf4) return 0;
    size_t wanted = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    /* The second byte has a narrower range where the sequence would be overlong, a surrogate, or beyond U+10FFFF. */
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    uint32_t code_point = lead & (0x7fu >> wanted);
    for (size_t i = 1; i < wanted; i++) {
        if (i >= size || bytes[i] < low || bytes[i] > high) {
            *bad_size_out = i;
            return 0;
        }
        code_point = code_point << 6 | (bytes[i] & 0x3f);
        low = 0x80;
        high = 0xbf;
    }
    *bad_size_out = 0;
    *code_point_out = code_point;
    return wanted;
}

/* Bytes below 0x80 at the beginning. */
static size_t count_ascii(const char *bytes, size_t size) {
    size_t i = 0;
    for (; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        if ((word & UINT64_C(0x8080808080808080)) != 0) break;
    }
    while (i < size && (uint8_t)bytes[i] < 0x80) i++;
    return i;
}

size_t hd_text_valid_prefix(hd_str text, size_t *bad_size_out) {
    size_t at = 0;
    *bad_size_out = 0;
    for (;;) {
        at += count_ascii(text.data + at, text.size - at);
        if (at == text.size) return at;
        uint32_t code_point;
        size_t size = decode_one((const uint8_t *)text.data + at, text.size - at, &code_point, bad_size_out);
        if (size == 0) return at;
        at += size;
    }
}

bool hd_text_is_utf8(hd_str text) {
    size_t bad_size;
    return text.size == 0 || hd_text_valid_prefix(text, &bad_size) == text.size;
}

bool hd_text_has_control(hd_str text, bool allow_layout) {
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = (uint8_t)text.data[i];
        if (byte < 0x20) {
            if (!allow_layout || (byte != '\t' && byte != '\n' && byte != '\r')) return true;
        } else if (byte == 0x7f) {
            return true;
        } else if (byte == 0xc2 && i + 1 < text.size && (uint8_t)text.data[i + 1] >= 0x80 && (uint8_t)text.data[i + 1] < 0xa0) {
            return true;
        }
    }
    return false;
}

static bool is_continuation(char c) {
    return ((uint8_t)c & 0xc0) == 0x80;
}

size_t hd_text_length(hd_str text) {
    size_t length = 0;
    for (size_t i = 0; i < text.size; i++) length += !is_continuation(text.data[i]);
    return length;
}

hd_str hd_text_prefix(hd_str text, size_t count) {
    for (size_t i = 0; i < text.size; i++) {
        if (is_continuation(text.data[i])) continue;
        if (count-- == 0) return (hd_str){text.data, i};
    }
    return text;
}

/* Unicode's White_Space, which is closed. */
static bool is_white_space(uint32_t c) {
    return (c >= 0x09 && c <= 0x0d) || c == 0x20 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

hd_str hd_text_trim(hd_str text) {
    uint32_t code_point;
    size_t bad_size;
    while (text.size > 0) {
        size_t size = decode_one((const uint8_t *)text.data, text.size, &code_point, &bad_size);
        if (size == 0 || !is_white_space(code_point)) break;
        text.data += size;
        text.size -= size;
    }
    while (text.size > 0) {
        size_t last = text.size - 1;
        while (last > 0 && text.size - last < 4 && is_continuation(text.data[last])) last--;
        size_t size = decode_one((const uint8_t *)text.data + last, text.size - last, &code_point, &bad_size);
        if (size != text.size - last || !is_white_space(code_point)) break;
        text.size = last;
    }
    return text;
}

/* utf8proc drops the default ignorables that are assigned; Unicode reserves more (Default_Ignorable_Code_Point, stable). Those become
 * a zero width space here, which utf8proc then drops. */
static utf8proc_int32_t replace_reserved_ignorable(utf8proc_int32_t c, void *unused) {
    (void)unused;
    bool is_ignorable = c == 0x2065 || (c >= 0xfff0 && c <= 0xfff8) || (c >= 0xe0000 && c <= 0xe0fff);
    return is_ignorable ? 0x200b : c;
}

/* One pass through utf8proc; the result is copied into the arena. HD_ARGUMENT: not valid UTF-8. */
static hd_status map_text(hd_arena *arena, hd_str text, utf8proc_option_t options, hd_str *mapped_out) {
    utf8proc_int32_t on_stack[STACK_CODE_POINTS], *code_points = on_stack;
    const utf8proc_uint8_t *bytes = (const utf8proc_uint8_t *)text.data;
    utf8proc_ssize_t size = (utf8proc_ssize_t)text.size;
    /* One place more is asked for than is used: reencoding works in place and ends its result with a NUL. */
    utf8proc_custom_func custom = (options & UTF8PROC_IGNORE) != 0 ? replace_reserved_ignorable : NULL;
    utf8proc_ssize_t count = utf8proc_decompose_custom(bytes, size, code_points, STACK_CODE_POINTS - 1, options, custom, NULL);
    if (count > STACK_CODE_POINTS - 1) {
        code_points = hd_alloc(((size_t)count + 1) * sizeof(*code_points));
        count = utf8proc_decompose_custom(bytes, size, code_points, count, options, custom, NULL);
    }
    if (count >= 0) count = utf8proc_reencode(code_points, count, options);
    hd_status status = HD_ARGUMENT;
    if (count >= 0) status = hd_arena_dup(arena, (hd_str){(const char *)code_points, (size_t)count}, mapped_out);
    if (code_points != on_stack) hd_free(code_points);
    return status;
}

hd_status hd_text_name(hd_arena *arena, hd_str text, hd_str *name_out) {
    *name_out = (hd_str){NULL, 0};
    hd_str trimmed = hd_text_trim(text);
    if (trimmed.size == 0) trimmed.data = ""; /* the empty name, not the absent one */
    if (count_ascii(trimmed.data, trimmed.size) == trimmed.size) return hd_arena_dup(arena, trimmed, name_out);
    if (!hd_text_is_utf8(text)) return HD_ARGUMENT;
    return map_text(arena, trimmed, UTF8PROC_STABLE | UTF8PROC_COMPOSE, name_out);
}

static hd_status fold_ascii(hd_arena *arena, hd_str text, hd_str *folded_out) {
    char *folded = hd_arena_alloc(arena, text.size + 1);
    if (folded == NULL) return HD_MEMORY;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        folded[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
    }
    folded[text.size] = '\0';
    *folded_out = (hd_str){folded, text.size};
    return HD_OK;
}

hd_status hd_text_fold(hd_arena *arena, hd_str text, hd_str *folded_out) {
    *folded_out = (hd_str){NULL, 0};
    if (count_ascii(text.data, text.size) == text.size) return fold_ascii(arena, text, folded_out);
    if (!hd_text_is_utf8(text)) return HD_ARGUMENT;
    return map_text(arena, text, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT | UTF8PROC_CASEFOLD | UTF8PROC_IGNORE,
                    folded_out);
}

bool hd_text_contains(hd_str haystack, hd_str needle) {
    if (needle.size == 0) return true;
    return haystack.size >= needle.size && memmem(haystack.data, haystack.size, needle.data, needle.size) != NULL;
}

hd_status hd_text_repair(hd_arena *arena, hd_str bytes, hd_str *text_out) {
    static const char replacement[3] = {'\xef', '\xbf', '\xbd'}; /* U+FFFD */
    *text_out = bytes;
    if (hd_text_is_utf8(bytes)) return HD_OK;
    /* Every bad piece has one byte at least and becomes three. */
    size_t bad_size;
    size_t valid = hd_text_valid_prefix(bytes, &bad_size);
    if (bytes.size > SIZE_MAX / 4) return HD_MEMORY;
    char *text = hd_arena_alloc(arena, valid + (bytes.size - valid) * sizeof(replacement) + 1);
    if (text == NULL) return HD_MEMORY;
    size_t size = 0;
    for (size_t at = 0; at < bytes.size;) {
        valid = hd_text_valid_prefix((hd_str){bytes.data + at, bytes.size - at}, &bad_size);
        memcpy(text + size, bytes.data + at, valid);
        size += valid;
        at += valid + bad_size;
        if (bad_size == 0) break;
        memcpy(text + size, replacement, sizeof(replacement));
        size += sizeof(replacement);
    }
    text[size] = '\0';
    *text_out = (hd_str){text, size};
    return HD_OK;
}

uint32_t hd_text_distance(hd_str a, hd_str b, uint32_t max) {
    if (a.size > DISTANCE_BYTES_MAX || b.size > DISTANCE_BYTES_MAX) return max + 1;
    /* Three rows of the table of distances between the beginnings of the two words; row r is of the first r bytes of `a`. */
    uint32_t rows[3][DISTANCE_BYTES_MAX + 1];
    for (uint32_t j = 0; j <= b.size; j++) rows[0][j] = j;
    for (uint32_t i = 1; i <= a.size; i++) {
        uint32_t *row = rows[i % 3], *row1 = rows[(i + 2) % 3], *row2 = rows[(i + 1) % 3];
        row[0] = i;
        for (uint32_t j = 1; j <= b.size; j++) {
            uint32_t replaced = row1[j - 1] + (a.data[i - 1] != b.data[j - 1]);
            row[j] = HD_MIN(replaced, HD_MIN(row1[j], row[j - 1]) + 1);
            bool is_swap = i > 1 && j > 1 && a.data[i - 1] == b.data[j - 2] && a.data[i - 2] == b.data[j - 1];
            if (is_swap) row[j] = HD_MIN(row[j], row2[j - 2] + 1);
        }
    }
    return HD_MIN(rows[a.size % 3][b.size], max + 1);
}

size_t hd_text_width(hd_str text) {
    size_t width = 0;
    for (size_t at = 0; at < text.size;) {
        uint32_t code_point;
        size_t bad_size;
        size_t size = decode_one((const uint8_t *)text.data + at, text.size - at, &code_point, &bad_size);
        width += size == 0 ? 1 : (size_t)utf8proc_charwidth((utf8proc_int32_t)code_point);
        at += size + bad_size;
    }
    return width;
}
