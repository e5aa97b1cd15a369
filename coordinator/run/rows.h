/* Rows of one query: a flat table of 32-bit cells, one row after the other. Cell v is what variable v stands for: a node's handle
 * (nodes.h), or for a relation its record (an edge of an adjacency, a walk's end, a cosine; the plan step knows which). The last cell
 * is the row's group once AGGREGATE made groups. */
#ifndef CO_RUN_ROWS_H
#define CO_RUN_ROWS_H

#include "common/arena.h"

enum { CO_BATCH_ROWS = 16384 }; /* large enough for one round trip to serve thousands of nodes, small enough to stay in the cache */

#define CO_CELL_NONE UINT32_MAX

typedef struct co_rows {
    hd_arena *arena;
    uint32_t *cells;
    uint32_t width, count, capacity;
} co_rows;

void co_rows_init(co_rows *rows, hd_arena *arena, uint32_t width);
static inline void co_rows_clear(co_rows *rows) {
    rows->count = 0;
}
static inline uint32_t *co_rows_get(const co_rows *rows, uint32_t index) {
    return rows->cells + (size_t)index * rows->width;
}
/* A copy of `row` at the end (cells unset where `row` is NULL); lent until the next append. HD_MEMORY. */
HD_MUST_USE hd_status co_rows_append(co_rows *rows, const uint32_t *row, uint32_t **row_out);

/* Grows an array in an arena so that index `count` fits; doubles. `size` is that of one item. HD_MEMORY. */
HD_MUST_USE hd_status co_grow(hd_arena *arena, void **items, uint32_t *capacity, uint32_t count, size_t size);
#define CO_GROW(arena, items, capacity, count) co_grow((arena), (void **)&(items), &(capacity), (count), sizeof(*(items)))

#endif
