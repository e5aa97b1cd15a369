/* See postings.h. */
#include "shard/postings.h"

struct sh_postings_block {
    uint32_t capacity;
    atomic_uint count;
    uint32_t slots[];
};

enum { CAPACITY_MIN = 4 }; /* with its header 24 bytes: the smallest block of the heap. Most names have few events. */

static size_t block_size(uint32_t capacity) {
    return sizeof(sh_postings_block) + (size_t)capacity * sizeof(uint32_t);
}

void sh_postings_init(sh_postings_list *list) {
    atomic_init(&list->block, NULL);
}

void sh_postings_fini(sh_postings_list *list, sh_memory *memory) {
    sh_postings_block *block = atomic_load_explicit(&list->block, memory_order_relaxed);
    if (block) sh_memory_give(memory, block, block_size(block->capacity));
    atomic_store_explicit(&list->block, NULL, memory_order_relaxed);
}

void sh_postings_add(sh_postings_list *list, sh_epoch *epoch, uint32_t slot) {
    sh_postings_block *block = atomic_load_explicit(&list->block, memory_order_relaxed);
    uint32_t count = block ? atomic_load_explicit(&block->count, memory_order_relaxed) : 0;
    if (!block || count == block->capacity) {
        uint32_t capacity = block ? 2 * block->capacity : CAPACITY_MIN;
        sh_postings_block *grown = sh_memory_take(epoch->memory, block_size(capacity));
        grown->capacity = capacity;
        atomic_init(&grown->count, count + 1);
        if (block) memcpy(grown->slots, block->slots, count * sizeof(uint32_t));
        grown->slots[count] = slot;
        atomic_store_explicit(&list->block, grown, memory_order_release);
        if (block) sh_epoch_retire(epoch, block, block_size(block->capacity));
        return;
    }
    block->slots[count] = slot;
    atomic_store_explicit(&block->count, count + 1, memory_order_release);
}

uint32_t sh_postings_get(const sh_postings_list *list, const uint32_t **slots_out) {
    const sh_postings_block *block = atomic_load_explicit(&list->block, memory_order_acquire);
    *slots_out = block ? block->slots : NULL;
    return block ? atomic_load_explicit(&block->count, memory_order_acquire) : 0;
}

uint32_t sh_postings_count_below(const uint32_t *slots, uint32_t count, uint32_t slot_end) {
    if (count == 0 || slots[count - 1] < slot_end) return count;
    uint32_t low = 0, high = count; /* all below `low` are below slot_end, none at or above `high` is */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (slots[middle] < slot_end)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}
