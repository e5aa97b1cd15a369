#include "common/buf.h"

#include <stdarg.h>
#include <stdio.h>

enum { CAPACITY_MIN = 64, VARINT_BYTES_MAX = 10 };

void hd_buf_init(hd_buf *buf) {
    *buf = (hd_buf){0};
}

void hd_buf_fini(hd_buf *buf) {
    hd_free(buf->data);
    *buf = (hd_buf){0};
}

void hd_buf_clear(hd_buf *buf) {
    buf->size = 0;
    if (buf->data != NULL) buf->data[0] = '\0';
}

void *hd_buf_reserve(hd_buf *buf, size_t size) {
    HD_CHECK(size < SIZE_MAX / 4 && buf->size < SIZE_MAX / 4);
    size_t needed = buf->size + size + 1; /* the NUL */
    if (needed > buf->capacity) {
        size_t capacity = HD_MAX(buf->capacity, (size_t)CAPACITY_MIN);
        while (capacity < needed) capacity *= 2;
        buf->data = hd_realloc(buf->data, capacity);
        buf->capacity = capacity;
        buf->data[buf->size] = '\0';
    }
    return buf->data + buf->size;
}

void hd_buf_add(hd_buf *buf, const void *bytes, size_t size) {
    char *at = hd_buf_reserve(buf, size);
    if (size > 0) memcpy(at, bytes, size);
    at[size] = '\0';
    buf->size += size;
}

void hd_buf_add_str(hd_buf *buf, hd_str text) {
    hd_buf_add(buf, text.data, text.size);
}

void hd_buf_add_char(hd_buf *buf, char c) {
    hd_buf_add(buf, &c, 1);
}

void hd_buf_printf(hd_buf *buf, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    char *at = hd_buf_reserve(buf, CAPACITY_MIN);
    size_t room = buf->capacity - buf->size;
    int size = vsnprintf(at, room, format, args);
    va_end(args);
    HD_CHECK(size >= 0);
    if ((size_t)size >= room) {
        at = hd_buf_reserve(buf, (size_t)size);
        vsnprintf(at, (size_t)size + 1, format, again);
    }
    va_end(again);
    buf->size += (size_t)size;
}

void hd_buf_add_u8(hd_buf *buf, uint8_t v) {
    hd_buf_add(buf, &v, 1);
}

static void add_little_endian(hd_buf *buf, uint64_t v, size_t size) {
    uint8_t bytes[8];
    for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(v >> (8 * i));
    hd_buf_add(buf, bytes, size);
}

void hd_buf_add_u32(hd_buf *buf, uint32_t v) {
    add_little_endian(buf, v, 4);
}

void hd_buf_add_u64(hd_buf *buf, uint64_t v) {
    add_little_endian(buf, v, 8);
}

void hd_buf_add_u64_be(hd_buf *buf, uint64_t v) {
    add_little_endian(buf, __builtin_bswap64(v), 8);
}

void hd_buf_add_varint(hd_buf *buf, uint64_t v) {
    uint8_t bytes[VARINT_BYTES_MAX];
    size_t size = 0;
    while (v >= 0x80) {
        bytes[size++] = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    bytes[size++] = (uint8_t)v;
    hd_buf_add(buf, bytes, size);
}

void hd_buf_add_sized(hd_buf *buf, hd_str text) {
    hd_buf_add_varint(buf, text.size);
    hd_buf_add_str(buf, text);
}

hd_reader hd_reader_of(const void *data, size_t size) {
    const uint8_t *at = data == NULL ? (const uint8_t *)"" : data;
    return (hd_reader){.at = at, .end = at + (data == NULL ? 0 : size)};
}

const void *hd_reader_bytes(hd_reader *r, size_t size) {
    if (HD_UNLIKELY(size > hd_reader_left(r))) {
        r->is_bad = true;
        r->at = r->end; /* so that every later read is short as well */
        return NULL;
    }
    const uint8_t *bytes = r->at;
    r->at += size;
    return bytes;
}

static uint64_t read_little_endian(hd_reader *r, size_t size) {
    const uint8_t *bytes = hd_reader_bytes(r, size);
    uint64_t v = 0;
    for (size_t i = 0; bytes != NULL && i < size; i++) v |= (uint64_t)bytes[i] << (8 * i);
    return v;
}

uint8_t hd_reader_u8(hd_reader *r) {
    return (uint8_t)read_little_endian(r, 1);
}

uint32_t hd_reader_u32(hd_reader *r) {
    return (uint32_t)read_little_endian(r, 4);
}

uint64_t hd_reader_u64(hd_reader *r) {
    return read_little_endian(r, 8);
}

uint64_t hd_reader_u64_be(hd_reader *r) {
    return __builtin_bswap64(read_little_endian(r, 8));
}

uint64_t hd_reader_varint(hd_reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        const uint8_t *byte = hd_reader_bytes(r, 1);
        if (byte == NULL) return 0;
        if (shift == 63 && *byte > 1) break; /* more than 64 bits */
        v |= (uint64_t)(*byte & 0x7f) << shift;
        if (*byte < 0x80) return v;
    }
    r->is_bad = true;
    r->at = r->end;
    return 0;
}

hd_str hd_reader_sized(hd_reader *r) {
    uint64_t size = hd_reader_varint(r);
    const void *bytes = size > hd_reader_left(r) ? hd_reader_bytes(r, SIZE_MAX) : hd_reader_bytes(r, (size_t)size);
    return r->is_bad ? (hd_str){NULL, 0} : (hd_str){bytes, (size_t)size};
}
