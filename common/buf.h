/* A growing byte buffer on the process heap. Appending never fails (see hd_alloc). */
#ifndef HD_COMMON_BUF_H
#define HD_COMMON_BUF_H

#include "common/base.h"

typedef struct hd_buf {
    char *data; /* NUL follows data[size-1] once anything was appended */
    size_t size, capacity;
} hd_buf;

void hd_buf_init(hd_buf *buf); /* zeroed memory is an initialised buffer too */
void hd_buf_fini(hd_buf *buf);
void hd_buf_clear(hd_buf *buf);                 /* size 0, capacity kept */
void *hd_buf_reserve(hd_buf *buf, size_t size); /* room for `size` more bytes, not yet counted; pointer to it */
void hd_buf_add(hd_buf *buf, const void *bytes, size_t size);
void hd_buf_add_str(hd_buf *buf, hd_str text);
void hd_buf_add_char(hd_buf *buf, char c);
void hd_buf_printf(hd_buf *buf, const char *format, ...) HD_PRINTF(2, 3);
static inline hd_str hd_buf_get(const hd_buf *buf) {
    return (hd_str){buf->data ? buf->data : "", buf->size};
}

/* Little-endian and varint writers, for stored records. */
void hd_buf_add_u8(hd_buf *buf, uint8_t v);
void hd_buf_add_u32(hd_buf *buf, uint32_t v);
void hd_buf_add_u64(hd_buf *buf, uint64_t v);
void hd_buf_add_u64_be(hd_buf *buf, uint64_t v); /* for keys: byte order is number order */
void hd_buf_add_varint(hd_buf *buf, uint64_t v);
void hd_buf_add_sized(hd_buf *buf, hd_str text); /* varint size, then the bytes */

/* A reader over borrowed bytes with a sticky error: read all, then ask is_ok once. Past the end everything reads as 0. */
typedef struct hd_reader {
    const uint8_t *at, *end;
    bool is_bad;
} hd_reader;
hd_reader hd_reader_of(const void *data, size_t size);
uint8_t hd_reader_u8(hd_reader *r);
uint32_t hd_reader_u32(hd_reader *r);
uint64_t hd_reader_u64(hd_reader *r);
uint64_t hd_reader_u64_be(hd_reader *r);
uint64_t hd_reader_varint(hd_reader *r);
hd_str hd_reader_sized(hd_reader *r);
const void *hd_reader_bytes(hd_reader *r, size_t size); /* NULL when short */
static inline size_t hd_reader_left(const hd_reader *r) {
    return (size_t)(r->end - r->at);
}

#endif
