/* See rows.h. */
#include "coordinator/run/rows.h"

void co_rows_init(co_rows *rows, hd_arena *arena, uint32_t width) {
    *rows = (co_rows){.arena = arena, .width = width};
}

hd_status co_grow(hd_arena *arena, void **items, uint32_t *capacity, uint32_t count, size_t size) {
    if (HD_LIKELY(count < *capacity)) return HD_OK;
    uint32_t larger = *capacity < 16 ? 16 : *capacity * 2;
    if (larger <= count) larger = count + 1;
    void *grown = hd_arena_grow(arena, *items, *capacity * size, larger * size);
    if (grown == NULL) return HD_MEMORY;
    *items = grown;
    *capacity = larger;
    return HD_OK;
}

hd_status co_rows_append(co_rows *rows, const uint32_t *row, uint32_t **row_out) {
    HD_TRY(co_grow(rows->arena, (void **)&rows->cells, &rows->capacity, rows->count, rows->width * sizeof(uint32_t)));
    uint32_t *added = co_rows_get(rows, rows->count++);
    if (row != NULL)
        memcpy(added, row, rows->width * sizeof(uint32_t));
    else
        memset(added, 0xff, rows->width * sizeof(uint32_t));
    *row_out = added;
    return HD_OK;
}
