/* Open-addressing hash maps on the process heap or in an arena: bytes → u32 and u64 → u32. Insert and find only, which is all that
 * interning needs. Single-threaded. Bytes are hashed with XXH3-64. Keys are borrowed: they must outlive the map. A map in an arena
 * leaves its smaller tables behind when it grows. HD_MAP_NONE is not allowed as a value. */
#ifndef HD_COMMON_MAP_H
#define HD_COMMON_MAP_H

#include "common/arena.h"

enum { HD_MAP_NONE = UINT32_MAX };

typedef struct hd_map_slot hd_map_slot;
typedef struct hd_map {
    hd_arena *arena; /* NULL: process heap */
    hd_map_slot *slots;
    uint32_t count, capacity;
} hd_map;

void hd_map_init(hd_map *map, hd_arena *arena_or_null);
void hd_map_fini(hd_map *map); /* heap memory only; a no-op in an arena */
/* The value of `key`, or HD_MAP_NONE. */
uint32_t hd_map_get(const hd_map *map, hd_str key);
/* Makes room for `count` keys more at once: what would grow step by step hashes everything anew at each. */
HD_MUST_USE hd_status hd_map_reserve(hd_map *map, uint32_t count);
/* Inserts `value` unless the key is there; *value_out is what the key now stands for, *is_new_out whether it was inserted. */
HD_MUST_USE hd_status hd_map_put(hd_map *map, hd_str key, uint32_t value, uint32_t *value_out, bool *is_new_out);

typedef struct hd_map64_slot hd_map64_slot;
/* u64 key → u32 value, for pairs of handles. Key UINT64_MAX is not allowed. */
typedef struct hd_map64 {
    hd_arena *arena;
    hd_map64_slot *slots;
    uint32_t count, capacity;
} hd_map64;
void hd_map64_init(hd_map64 *map, hd_arena *arena_or_null);
void hd_map64_fini(hd_map64 *map);
uint32_t hd_map64_get(const hd_map64 *map, uint64_t key);
HD_MUST_USE hd_status hd_map64_reserve(hd_map64 *map, uint32_t count);
HD_MUST_USE hd_status hd_map64_put(hd_map64 *map, uint64_t key, uint32_t value, uint32_t *value_out, bool *is_new_out);

#endif
