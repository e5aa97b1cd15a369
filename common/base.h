/* The smallest shared vocabulary: borrowed strings, assertions, attributes.
 * Knows nothing of wire, RocksDB or HTTP; everything else may include it. */
#ifndef HD_COMMON_BASE_H
#define HD_COMMON_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HD_MUST_USE __attribute__((warn_unused_result))
#define HD_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define HD_NORETURN __attribute__((noreturn))
#define HD_LIKELY(x) __builtin_expect(!!(x), 1)
#define HD_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HD_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define HD_MIN(a, b) ((a) < (b) ? (a) : (b))
#define HD_MAX(a, b) ((a) > (b) ? (a) : (b))

/* An invariant, checked in every build. Nothing that a user, a peer or a disk can cause may reach one. */
#define HD_CHECK(condition) (HD_LIKELY(condition) ? (void)0 : hd_panic(__FILE__, __LINE__, #condition))

/* Says on stderr what was false and where, and aborts. */
void hd_panic(const char *file, int line, const char *what) HD_NORETURN;

/* Bytes borrowed from someone else; not NUL-terminated. {NULL, 0} is the absent string, {"", 0} the empty one. */
typedef struct hd_str {
    const char *data;
    size_t size;
} hd_str;

#define HD_STR(literal) ((hd_str){"" literal, sizeof(literal) - 1})
#define HD_STR_FMT "%.*s"
#define HD_STR_ARG(s) (int)(s).size, (s).data

/* The NUL-terminated `text` (or NULL, giving the absent string) as a borrowed string. */
hd_str hd_str_of(const char *text);

static inline bool hd_str_is_equal(hd_str a, hd_str b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

/* Byte order, which for UTF-8 is code point order: <0, 0, >0. */
int hd_str_compare(hd_str a, hd_str b);

/* Equality of ASCII letters without regard to case; other bytes as they are. For keywords. */
bool hd_str_is_equal_nocase(hd_str a, hd_str b);

/* A 128-bit identity (entity, tag); all zero is "none". */
typedef struct hd_id128 {
    uint8_t bytes[16];
} hd_id128;

static inline bool hd_id128_is_equal(hd_id128 a, hd_id128 b) {
    return memcmp(a.bytes, b.bytes, 16) == 0;
}

/* Process heap. These never return NULL: running out of memory ends the process with a clear line (a query's own memory is an
 * arena with a cap, and reaching that cap is a status). Free with hd_free. */
void *hd_alloc(size_t size);
void *hd_alloc_zero(size_t count, size_t size);
void *hd_realloc(void *memory, size_t size);
char *hd_strdup(const char *text);
char *hd_str_to_c(hd_str text); /* owned NUL-terminated copy */
void hd_free(void *memory);
/* For a server, once, at its start: blocks up to 32 MiB come from the heap and freed ones stay in it (up to 128 MiB a heap), so that
 * one request after another does not have the kernel map and clear the same pages. */
void hd_alloc_stay_warm(void);

#endif
