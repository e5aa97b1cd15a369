/* Blocks in a list, newest first; an allocation is a bump in the newest. Blocks double up to BLOCK_MAX, larger requests get a
 * block of their own size. One block given back by a rollback or reset is kept as the spare, so that a loop of mark and rollback at
 * the edge of a block does not allocate each time.
 *
 *   arena ─ block ──▶ newest ──before──▶ older ──before──▶ oldest
 *         ─ cleanups ─▶ last registered ─▶ … (the records lie in the blocks themselves)
 *
 * The cap counts the bytes handed out (rounded up to 16), not the unused ends of blocks. */
#include "common/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define POISON(memory, size) ASAN_POISON_MEMORY_REGION(memory, size)
#define UNPOISON(memory, size) ASAN_UNPOISON_MEMORY_REGION(memory, size)
#else
#define POISON(memory, size) ((void)(memory), (void)(size))
#define UNPOISON(memory, size) ((void)(memory), (void)(size))
#endif

enum { ALIGNMENT = 16, BLOCK_MIN = 4096, BLOCK_MAX = 1 << 20 };

typedef struct arena_block arena_block;
struct arena_block {
    arena_block *before;
    size_t capacity, used;
    alignas(ALIGNMENT) char data[];
};

typedef struct arena_cleanup arena_cleanup;
struct arena_cleanup {
    arena_cleanup *before;
    void (*release)(void *object);
    void *object;
};

struct hd_arena {
    arena_block *block, *spare;
    arena_cleanup *cleanups;
    size_t bytes_max, bytes_used;
    size_t block_next; /* capacity of the next block */
};

/* What was handed out from `used` on is no longer anyone's. What lies beyond block->used is so already. */
static void retire_bytes(arena_block *block, size_t used) {
    size_t size = block->used - used;
#ifdef HD_DEBUG
    UNPOISON(block->data + used, size);
    memset(block->data + used, 0xdd, size);
#endif
    POISON(block->data + used, size);
    block->used = used;
}

static arena_block *new_block(hd_arena *arena, size_t size) {
    size_t capacity = HD_MAX(size, arena->block_next - sizeof(arena_block));
    arena_block *block = hd_alloc(sizeof(arena_block) + capacity);
    block->capacity = capacity;
    block->used = 0;
    POISON(block->data, capacity);
    arena->block_next = HD_MIN(arena->block_next * 2, (size_t)BLOCK_MAX);
    return block;
}

static void free_block(arena_block *block) {
    if (block == NULL) return;
    UNPOISON(block->data, block->capacity);
    hd_free(block);
}

/* Takes the newest block off; it becomes the spare when it is the larger one and not out of size. */
static void pop_block(hd_arena *arena) {
    arena_block *block = arena->block;
    arena->block = block->before;
    bool is_better = arena->spare == NULL || block->capacity > arena->spare->capacity;
    if (is_better && block->capacity <= BLOCK_MAX) {
        free_block(arena->spare);
        retire_bytes(block, 0);
        arena->spare = block;
    } else {
        free_block(block);
    }
}

static void run_cleanups(hd_arena *arena, const arena_cleanup *until) {
    while (arena->cleanups != until) {
        arena_cleanup *last = arena->cleanups;
        arena->cleanups = last->before;
        last->release(last->object);
    }
}

hd_arena *hd_arena_new(size_t bytes_max) {
    hd_arena *arena = hd_alloc_zero(1, sizeof(*arena));
    arena->bytes_max = bytes_max == 0 ? SIZE_MAX : bytes_max;
    arena->block_next = BLOCK_MIN;
    return arena;
}

void hd_arena_free(hd_arena *arena) {
    if (arena == NULL) return;
    run_cleanups(arena, NULL);
    while (arena->block != NULL) pop_block(arena);
    free_block(arena->spare);
    hd_free(arena);
}

void hd_arena_reset(hd_arena *arena) {
    run_cleanups(arena, NULL);
    while (arena->block != NULL) pop_block(arena);
    arena->bytes_used = 0;
}

static size_t round_up(size_t size) {
    return (HD_MAX(size, 1) + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static bool is_over_cap(const hd_arena *arena, size_t size) {
    return size > arena->bytes_max - arena->bytes_used;
}

static void push_block(hd_arena *arena, size_t size) {
    arena_block *block = arena->spare;
    if (block != NULL && block->capacity >= size) {
        arena->spare = NULL;
    } else {
        block = new_block(arena, size);
    }
    block->before = arena->block;
    arena->block = block;
}

void *hd_arena_alloc(hd_arena *arena, size_t size) {
    if (HD_UNLIKELY(size > SIZE_MAX / 2)) return NULL;
    size_t taken = round_up(size);
    if (HD_UNLIKELY(is_over_cap(arena, taken))) return NULL;
    arena_block *block = arena->block;
    if (HD_UNLIKELY(block == NULL || taken > block->capacity - block->used)) {
        push_block(arena, taken);
        block = arena->block;
    }
    void *memory = block->data + block->used;
    block->used += taken;
    arena->bytes_used += taken;
    UNPOISON(memory, size);
    return memory;
}

void *hd_arena_alloc_zero(hd_arena *arena, size_t count, size_t size) {
    size_t total;
    if (HD_UNLIKELY(__builtin_mul_overflow(count, size, &total))) return NULL;
    void *memory = hd_arena_alloc(arena, total);
    return memory == NULL ? NULL : memset(memory, 0, total);
}

void *hd_arena_grow(hd_arena *arena, void *memory, size_t size_old, size_t size_new) {
    if (memory == NULL) return hd_arena_alloc(arena, size_new);
    if (HD_UNLIKELY(size_new > SIZE_MAX / 2)) return NULL;
    size_t taken_old = round_up(size_old), taken_new = round_up(size_new);
    if (taken_new <= taken_old) {
        UNPOISON(memory, size_new);
        return memory;
    }
    arena_block *block = arena->block;
    bool is_last = (char *)memory + taken_old == block->data + block->used;
    size_t more = taken_new - taken_old;
    if (is_last && more <= block->capacity - block->used) {
        if (HD_UNLIKELY(is_over_cap(arena, more))) return NULL;
        block->used += more;
        arena->bytes_used += more;
        UNPOISON(memory, size_new);
        return memory;
    }
    void *grown = hd_arena_alloc(arena, size_new);
    return grown == NULL ? NULL : memcpy(grown, memory, size_old);
}

size_t hd_arena_bytes_used(const hd_arena *arena) {
    return arena->bytes_used;
}

hd_status hd_arena_dup(hd_arena *arena, hd_str text, hd_str *copy_out) {
    *copy_out = (hd_str){NULL, 0};
    if (text.data == NULL) return HD_OK;
    char *copy = hd_arena_alloc(arena, text.size + 1);
    if (copy == NULL) return HD_MEMORY;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    *copy_out = (hd_str){copy, text.size};
    return HD_OK;
}

hd_status hd_arena_printf(hd_arena *arena, hd_str *text_out, const char *format, ...) {
    *text_out = (hd_str){NULL, 0};
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = size < 0 ? NULL : hd_arena_alloc(arena, (size_t)size + 1);
    if (text != NULL) {
        vsnprintf(text, (size_t)size + 1, format, again);
        *text_out = (hd_str){text, (size_t)size};
    }
    va_end(again);
    return text == NULL ? HD_MEMORY : HD_OK;
}

hd_status hd_arena_on_release(hd_arena *arena, void (*release)(void *object), void *object) {
    arena_cleanup *cleanup = hd_arena_alloc(arena, sizeof(*cleanup));
    if (cleanup == NULL) return HD_MEMORY;
    *cleanup = (arena_cleanup){.before = arena->cleanups, .release = release, .object = object};
    arena->cleanups = cleanup;
    return HD_OK;
}

hd_arena_mark hd_arena_get_mark(hd_arena *arena) {
    return (hd_arena_mark){
        .block = arena->block,
        .used = arena->block == NULL ? 0 : arena->block->used,
        .total = arena->bytes_used,
        .cleanups = arena->cleanups,
    };
}

void hd_arena_rollback(hd_arena *arena, hd_arena_mark mark) {
    run_cleanups(arena, mark.cleanups);
    while (arena->block != mark.block) pop_block(arena);
    if (arena->block != NULL && arena->block->used > mark.used) retire_bytes(arena->block, mark.used);
    arena->bytes_used = mark.total;
}
