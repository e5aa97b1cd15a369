/* A hash index from keys to u32 values (slots, numbers), open addressing, insert and replace only. The keys stay with the caller.
 * One writer, readers without a lock: an entry is one atomic word, (hash << 32 | value + 1), and a table that was outgrown is
 * retired. A reader inside an epoch finds every key that was inserted before it entered. */
#ifndef SH_HASH_INDEX_H
#define SH_HASH_INDEX_H

#include "shard/epoch.h"

typedef struct sh_hash_table sh_hash_table;

typedef struct sh_hash_index {
    _Atomic(sh_hash_table *) table;
    uint32_t count; /* the writer's */
} sh_hash_index;

/* Does `value` stand for the key that is looked for? */
typedef bool (*sh_hash_is_key)(const void *self, const void *key, uint32_t value);

void sh_hash_index_init(sh_hash_index *index);
void sh_hash_index_fini(sh_hash_index *index, sh_memory *memory);
/* The value, or UINT32_MAX. */
uint32_t sh_hash_index_find(const sh_hash_index *index, uint32_t hash, sh_hash_is_key is_key, const void *self, const void *key);
/* Inserts, or replaces the value of an equal key. What `value` leads to is written already. value < UINT32_MAX. */
void sh_hash_index_put(sh_hash_index *index, sh_epoch *epoch, uint32_t hash, sh_hash_is_key is_key, const void *self,
                       const void *key, uint32_t value);

/* 32 bits of a string for the index. Not the low ones: those chose the partition, and are equal within one. */
uint32_t sh_hash_text(hd_str text);

#endif
