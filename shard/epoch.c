/* See epoch.h. */
#include "shard/epoch.h"

enum { ADVANCE_BYTES = 256 * 1024 }; /* a load, which publishes once at its end, must not pile up what it outgrows */

void sh_epoch_init(sh_epoch *epoch, sh_memory *memory) {
    *epoch = (sh_epoch){.memory = memory};
}

static void free_list(sh_epoch *epoch, sh_retired_list *list) {
    for (uint32_t i = 0; i < list->count; i++) {
        epoch->retired_bytes -= list->items[i].size;
        sh_memory_give(epoch->memory, list->items[i].block, list->items[i].size);
    }
    list->count = 0;
}

void sh_epoch_fini(sh_epoch *epoch) {
    HD_CHECK(atomic_load(&epoch->readers[0]) == 0 && atomic_load(&epoch->readers[1]) == 0);
    for (int parity = 0; parity < 2; parity++) {
        sh_retired_list *list = &epoch->retired[parity];
        free_list(epoch, list);
        sh_memory_give(epoch->memory, list->items, list->capacity * sizeof(*list->items));
        *list = (sh_retired_list){0};
    }
}

uint32_t sh_epoch_enter(sh_epoch *epoch) {
    for (;;) {
        /* Count oneself in, then look again: either the writer's look at the counter comes after and sees this reader, or this
         * second look sees that the writer has moved on. Both sides are sequentially consistent for just that. */
        uint32_t number = atomic_load(&epoch->number);
        atomic_fetch_add(&epoch->readers[number & 1], 1);
        if (HD_LIKELY(atomic_load(&epoch->number) == number)) return number;
        atomic_fetch_sub(&epoch->readers[number & 1], 1);
    }
}

void sh_epoch_leave(sh_epoch *epoch, uint32_t number) {
    atomic_fetch_sub(&epoch->readers[number & 1], 1);
}

void sh_epoch_retire(sh_epoch *epoch, void *block, size_t size) {
    if (!block) return;
    sh_retired_list *list = &epoch->retired[atomic_load_explicit(&epoch->number, memory_order_relaxed) & 1];
    if (list->count == list->capacity) {
        uint32_t capacity = list->capacity ? 2 * list->capacity : 16;
        sh_retired *items = sh_memory_take(epoch->memory, capacity * sizeof(*items));
        if (list->count) memcpy(items, list->items, list->count * sizeof(*items));
        sh_memory_give(epoch->memory, list->items, list->capacity * sizeof(*items));
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = (sh_retired){block, size};
    epoch->retired_bytes += size;
    if (epoch->retired_bytes > ADVANCE_BYTES) sh_epoch_advance(epoch);
}

void sh_epoch_advance(sh_epoch *epoch) {
    /* Twice at most: with no reader inside, that frees all there is. */
    for (int turn = 0; turn < 2 && epoch->retired_bytes > 0; turn++) {
        uint32_t number = atomic_load(&epoch->number);
        if (atomic_load(&epoch->readers[(number + 1) & 1]) != 0) return;
        free_list(epoch, &epoch->retired[(number + 1) & 1]);
        atomic_store(&epoch->number, number + 1);
    }
}
