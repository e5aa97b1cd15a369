#include "common/truncation.h"

enum { CAPACITY_MIN = 4 };

static hd_truncation *find_record(const hd_truncations *list, const hd_truncation *record) {
    for (uint32_t i = 0; i < list->count; i++) {
        hd_truncation *item = &list->items[i];
        if (item->step == record->step && item->cap == record->cap && strcmp(item->stage, record->stage) == 0) return item;
    }
    return NULL;
}

static hd_status add_room(hd_truncations *list, hd_arena *arena) {
    if (list->count < list->capacity) return HD_OK;
    uint32_t capacity = HD_MAX(list->capacity * 2, (uint32_t)CAPACITY_MIN);
    hd_truncation *items =
        hd_arena_grow(arena, list->items, list->capacity * sizeof(hd_truncation), capacity * sizeof(hd_truncation));
    if (items == NULL) return HD_MEMORY;
    list->items = items;
    list->capacity = capacity;
    return HD_OK;
}

hd_status hd_truncations_add(hd_truncations *list, hd_arena *arena, const hd_truncation *record) {
    hd_truncation *item = find_record(list, record);
    if (item != NULL) {
        item->reached = HD_MAX(item->reached, record->reached);
        return item->detail.data == NULL ? hd_arena_dup(arena, record->detail, &item->detail) : HD_OK;
    }
    hd_truncation added = *record;
    HD_TRY(add_room(list, arena));
    HD_TRY(hd_arena_dup(arena, record->detail, &added.detail));
    list->items[list->count++] = added;
    return HD_OK;
}
