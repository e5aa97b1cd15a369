/* Strings with dense numbers: thread names, types, targets of prev_event_id. Numbers are never given back. */
#include "shard/graph_private.h"

void sh_texts_init(sh_texts *texts) {
    *texts = (sh_texts){.count = 0};
    sh_buckets_init(&texts->rows, SMALL_BASE_LOG2, sizeof(hd_str));
    sh_hash_index_init(&texts->by_text);
}

void sh_texts_fini(sh_texts *texts, sh_memory *memory) {
    sh_buckets_fini(&texts->rows, memory);
    sh_hash_index_fini(&texts->by_text, memory);
}

static bool is_text(const void *self, const void *key, uint32_t number) {
    return hd_str_is_equal(sh_texts_get(self, number), *(const hd_str *)key);
}

uint32_t sh_texts_find(const sh_texts *texts, hd_str text) {
    return sh_hash_index_find(&texts->by_text, sh_hash_text(text), is_text, texts, &text);
}

uint32_t sh_texts_intern(sh_texts *texts, sh_epoch *epoch, hd_str text) {
    uint32_t hash = sh_hash_text(text);
    uint32_t number = sh_hash_index_find(&texts->by_text, hash, is_text, texts, &text);
    if (number != SH_NONE) return number;
    number = atomic_load_explicit(&texts->count, memory_order_relaxed);
    sh_buckets_reserve(&texts->rows, epoch->memory, number);
    hd_str *row = sh_buckets_at(&texts->rows, number, sizeof(hd_str));
    *row = sh_memory_copy(epoch->memory, text);
    atomic_store_explicit(&texts->count, number + 1, memory_order_release);
    sh_hash_index_put(&texts->by_text, epoch, hash, is_text, texts, &text, number);
    return number;
}

hd_str sh_texts_get(const sh_texts *texts, uint32_t number) {
    return *(const hd_str *)sh_buckets_at(&texts->rows, number, sizeof(hd_str));
}
