/* Memory by lifetime: everything of a query (or a step, or a request) is allocated here and released at once.
 * The arena is always a visible parameter. Not thread-safe: one arena, one thread at a time. */
#ifndef HD_COMMON_ARENA_H
#define HD_COMMON_ARENA_H

#include "common/status.h"

typedef struct hd_arena hd_arena;
typedef struct hd_arena_mark {
    void *block;
    size_t used;
    size_t total;
    void *cleanups;
} hd_arena_mark;

/* `bytes_max`: what may be allocated in all; 0 means no cap. Returned owned; free with hd_arena_free. */
hd_arena *hd_arena_new(size_t bytes_max);
void hd_arena_free(hd_arena *arena); /* runs clean-ups, last registered first; NULL is fine */
/* Back to empty, keeping one block for reuse. Debug builds poison what was there. */
void hd_arena_reset(hd_arena *arena);

/* Uninitialised memory aligned to 16; NULL when the cap is reached. `size` 0 gives a valid pointer. */
void *hd_arena_alloc(hd_arena *arena, size_t size) __attribute__((alloc_size(2)));
void *hd_arena_alloc_zero(hd_arena *arena, size_t count, size_t size);
/* Grows `memory` (the result of an allocation of `size_old`, or NULL) to `size_new`, in place where it was the last one. NULL when
 * the cap is reached; the old memory is then as it was. */
void *hd_arena_grow(hd_arena *arena, void *memory, size_t size_old, size_t size_new);
size_t hd_arena_bytes_used(const hd_arena *arena);

/* HD_ALLOC(out, arena, count): typed, zeroed, HD_MEMORY returned from the calling function when the cap is reached. */
#define HD_ALLOC(out, arena, count)                                            \
    do {                                                                       \
        (out) = hd_arena_alloc_zero((arena), (size_t)(count), sizeof(*(out))); \
        if (HD_UNLIKELY((out) == NULL)) return HD_MEMORY;                      \
    } while (0)

/* Copies into the arena; the results live as long as it does. On a reached cap: HD_MEMORY. The absent string stays absent. */
HD_MUST_USE hd_status hd_arena_dup(hd_arena *arena, hd_str text, hd_str *copy_out); /* NUL follows the copy, not counted */
HD_MUST_USE hd_status hd_arena_printf(hd_arena *arena, hd_str *text_out, const char *format, ...) HD_PRINTF(3, 4);

/* Runs `release(object)` when the arena is reset, rolled back past here or freed. HD_MEMORY: nothing registered. */
HD_MUST_USE hd_status hd_arena_on_release(hd_arena *arena, void (*release)(void *object), void *object);

/* Scratch inside a step: everything allocated after `mark` goes, clean-ups included. */
hd_arena_mark hd_arena_get_mark(hd_arena *arena);
void hd_arena_rollback(hd_arena *arena, hd_arena_mark mark);

#endif
