/* See graph_memory.h. */
#include "shard/graph_memory.h"

struct sh_chunk {
    sh_chunk *next;
    size_t size;
};

enum {
    CHUNK_MIN = 2 * 1024,
    CHUNK_MAX = 256 * 1024, /* at most this much of the newest chunk is unused */
    CACHE_LINE = 64,
};

void sh_memory_init(sh_memory *memory) {
    *memory = (sh_memory){.chunk_size = CHUNK_MIN};
}

void sh_memory_fini(sh_memory *memory) {
    while (memory->chunks) {
        sh_chunk *chunk = memory->chunks;
        memory->chunks = chunk->next;
        hd_free(chunk);
    }
    memory->at = NULL;
    memory->left = 0;
}

static void count(sh_memory *memory, size_t size) {
    atomic_fetch_add_explicit(&memory->bytes, size, memory_order_relaxed);
}

static uint8_t *add_chunk(sh_memory *memory, size_t size) {
    sh_chunk *chunk = hd_alloc(sizeof(*chunk) + size);
    chunk->size = size;
    chunk->next = memory->chunks;
    memory->chunks = chunk;
    count(memory, sizeof(*chunk) + size);
    return (uint8_t *)(chunk + 1);
}

void *sh_memory_bump(sh_memory *memory, size_t size) {
    size = (size + 7) & ~(size_t)7;
    if (size > memory->left) {
        /* A large piece gets a chunk of its own, so that it does not throw away the rest of the current one. */
        if (size > memory->chunk_size / 4) return add_chunk(memory, size);
        memory->at = add_chunk(memory, memory->chunk_size);
        memory->left = memory->chunk_size;
        if (memory->chunk_size < CHUNK_MAX) memory->chunk_size *= 2;
    }
    void *piece = memory->at;
    memory->at += size;
    memory->left -= size;
    return piece;
}

hd_str sh_memory_copy(sh_memory *memory, hd_str text) {
    if (!text.data) return (hd_str){NULL, 0};
    if (text.size == 0) return HD_STR("");
    char *copy = sh_memory_bump(memory, text.size);
    memcpy(copy, text.data, text.size);
    return (hd_str){copy, text.size};
}

void *sh_memory_take(sh_memory *memory, size_t size) {
    count(memory, size);
    return hd_alloc(size);
}

void sh_memory_give(sh_memory *memory, void *block, size_t size) {
    if (!block) return;
    atomic_fetch_sub_explicit(&memory->bytes, size, memory_order_relaxed);
    hd_free(block);
}

/* The heap's own pointer stands in the word before the aligned block. */
enum { ALIGNED_EXTRA = CACHE_LINE + sizeof(void *) };

void *sh_memory_take_aligned(sh_memory *memory, size_t size) {
    uint8_t *raw = sh_memory_take(memory, size + ALIGNED_EXTRA);
    uint8_t *block = raw + sizeof(void *);
    block += (CACHE_LINE - (uintptr_t)block % CACHE_LINE) % CACHE_LINE;
    memcpy(block - sizeof(void *), &raw, sizeof(raw));
    return block;
}

void sh_memory_give_aligned(sh_memory *memory, void *block, size_t size) {
    if (!block) return;
    void *raw;
    memcpy(&raw, (uint8_t *)block - sizeof(void *), sizeof(raw));
    sh_memory_give(memory, raw, size + ALIGNED_EXTRA);
}
