/* The memory of one graph, counted: a bump allocator for what lives as long as the graph (strings, list nodes), counted heap blocks
 * for what growth replaces. One writer; the count may be read from any thread. */
#ifndef SH_GRAPH_MEMORY_H
#define SH_GRAPH_MEMORY_H

#include <stdatomic.h>

#include "common/base.h"

typedef struct sh_chunk sh_chunk;

typedef struct sh_memory {
    sh_chunk *chunks; /* newest first; all freed together */
    uint8_t *at;      /* free part of the newest chunk */
    size_t left;
    size_t chunk_size; /* of the next chunk: grows, so that small graphs stay small */
    atomic_size_t bytes;
} sh_memory;

void sh_memory_init(sh_memory *memory);
void sh_memory_fini(sh_memory *memory); /* frees the chunks; heap blocks are freed by who holds them */

/* Lives until fini; aligned to 8. Never NULL. */
void *sh_memory_bump(sh_memory *memory, size_t size);
/* A copy that lives until fini; the absent string stays absent. */
hd_str sh_memory_copy(sh_memory *memory, hd_str text);

/* A heap block, counted. Not zeroed. Given back with the same size. */
void *sh_memory_take(sh_memory *memory, size_t size);
void sh_memory_give(sh_memory *memory, void *block, size_t size);
/* The same, aligned to 64 (a cache line, a SIMD register). */
void *sh_memory_take_aligned(sh_memory *memory, size_t size);
void sh_memory_give_aligned(sh_memory *memory, void *block, size_t size);

#endif
