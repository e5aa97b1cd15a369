/* See hash_index.h. */
#include "shard/hash_index.h"

#include "common/ids.h"

struct sh_hash_table {
    uint32_t capacity; /* a power of two */
    atomic_ullong entries[];
};

enum { CAPACITY_MIN = 16 };

static size_t table_size(uint32_t capacity) {
    return sizeof(sh_hash_table) + (size_t)capacity * sizeof(atomic_ullong);
}

void sh_hash_index_init(sh_hash_index *index) {
    *index = (sh_hash_index){.count = 0};
}

void sh_hash_index_fini(sh_hash_index *index, sh_memory *memory) {
    sh_hash_table *table = atomic_load_explicit(&index->table, memory_order_relaxed);
    if (table) sh_memory_give(memory, table, table_size(table->capacity));
    atomic_store_explicit(&index->table, NULL, memory_order_relaxed);
}

uint32_t sh_hash_index_find(const sh_hash_index *index, uint32_t hash, sh_hash_is_key is_key, const void *self, const void *key) {
    const sh_hash_table *table = atomic_load_explicit(&index->table, memory_order_acquire);
    if (!table) return UINT32_MAX;
    uint32_t mask = table->capacity - 1;
    for (uint32_t at = hash & mask;; at = (at + 1) & mask) {
        uint64_t entry = atomic_load_explicit(&table->entries[at], memory_order_acquire);
        if (entry == 0) return UINT32_MAX;
        if ((uint32_t)(entry >> 32) == hash && is_key(self, key, (uint32_t)entry - 1)) return (uint32_t)entry - 1;
    }
}

/* Twice the table, published when it is full. */
static void grow(sh_hash_index *index, sh_epoch *epoch) {
    sh_hash_table *old = atomic_load_explicit(&index->table, memory_order_relaxed);
    HD_CHECK(!old || old->capacity < UINT32_MAX / 2);
    uint32_t capacity = old ? 2 * old->capacity : CAPACITY_MIN;
    sh_hash_table *table = sh_memory_take(epoch->memory, table_size(capacity));
    table->capacity = capacity;
    for (uint32_t i = 0; i < capacity; i++) atomic_init(&table->entries[i], 0);
    for (uint32_t i = 0; old && i < old->capacity; i++) {
        uint64_t entry = atomic_load_explicit(&old->entries[i], memory_order_relaxed);
        if (entry == 0) continue;
        uint32_t at = (uint32_t)(entry >> 32) & (capacity - 1);
        while (atomic_load_explicit(&table->entries[at], memory_order_relaxed)) at = (at + 1) & (capacity - 1);
        atomic_store_explicit(&table->entries[at], entry, memory_order_relaxed);
    }
    atomic_store_explicit(&index->table, table, memory_order_release);
    if (old) sh_epoch_retire(epoch, old, table_size(old->capacity));
}

void sh_hash_index_put(sh_hash_index *index, sh_epoch *epoch, uint32_t hash, sh_hash_is_key is_key, const void *self,
                       const void *key, uint32_t value) {
    sh_hash_table *table = atomic_load_explicit(&index->table, memory_order_relaxed);
    if (!table || index->count >= table->capacity / 4 * 3) {
        grow(index, epoch);
        table = atomic_load_explicit(&index->table, memory_order_relaxed);
    }
    uint32_t mask = table->capacity - 1;
    uint32_t at = hash & mask;
    for (;; at = (at + 1) & mask) {
        uint64_t entry = atomic_load_explicit(&table->entries[at], memory_order_relaxed);
        if (entry == 0) {
            index->count++;
            break;
        }
        if ((uint32_t)(entry >> 32) == hash && is_key(self, key, (uint32_t)entry - 1)) break;
    }
    atomic_store_explicit(&table->entries[at], (uint64_t)hash << 32 | (value + 1), memory_order_release);
}

uint32_t sh_hash_text(hd_str text) {
    return (uint32_t)(hd_hash64(text.data, text.size) >> 32);
}
