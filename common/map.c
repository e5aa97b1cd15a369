/* Linear probing over a power of two of slots, at most 7/10 full. Nothing is ever removed, so a free slot ends every probe. */
#include "common/map.h"

#include "common/ids.h"

enum { CAPACITY_MIN = 16, CAPACITY_MAX = 1 << 30 };

/* A slot is free while its value is HD_MAP_NONE. */
struct hd_map_slot {
    hd_str key;
    uint32_t hash; /* upper half of the key's hash; the lower half chooses the slot */
    uint32_t value;
};

struct hd_map64_slot {
    uint64_t key; /* UINT64_MAX: free */
    uint32_t value;
};

/* Is there no room for one key more beside `count`? */
static bool is_full(uint64_t count, uint32_t capacity) {
    return (count + 1) * 10 > (uint64_t)capacity * 7;
}

/* Memory for the next larger table that can hold `count` keys, every byte 0xff, which is a free slot of either kind. */
static hd_status grow_slots(hd_arena *arena, uint32_t capacity, uint64_t count, size_t slot_size, uint32_t *capacity_out,
                            void **slots_out) {
    do {
        if (capacity >= CAPACITY_MAX) return HD_MEMORY;
        capacity = capacity == 0 ? CAPACITY_MIN : capacity * 2;
    } while (is_full(count, capacity));
    *capacity_out = capacity;
    size_t size = *capacity_out * slot_size;
    *slots_out = arena == NULL ? hd_alloc(size) : hd_arena_alloc(arena, size);
    if (*slots_out == NULL) return HD_MEMORY;
    memset(*slots_out, 0xff, size);
    return HD_OK;
}

void hd_map_init(hd_map *map, hd_arena *arena_or_null) {
    *map = (hd_map){.arena = arena_or_null};
}

void hd_map_fini(hd_map *map) {
    if (map->arena == NULL) hd_free(map->slots);
    *map = (hd_map){.arena = map->arena};
}

/* The slot of `key`, or the free one where it would go. The table has at least one free slot. */
static hd_map_slot *find_slot(const hd_map *map, hd_str key, uint64_t hash) {
    uint32_t mask = map->capacity - 1;
    for (uint32_t i = (uint32_t)hash & mask;; i = (i + 1) & mask) {
        hd_map_slot *slot = &map->slots[i];
        if (slot->value == HD_MAP_NONE) return slot;
        if (slot->hash == (uint32_t)(hash >> 32) && hd_str_is_equal(slot->key, key)) return slot;
    }
}

uint32_t hd_map_get(const hd_map *map, hd_str key) {
    return map->count == 0 ? HD_MAP_NONE : find_slot(map, key, hd_hash64(key.data, key.size))->value;
}

static hd_status grow_map(hd_map *map, uint64_t count) {
    hd_map grown = {.arena = map->arena, .count = map->count};
    void *slots;
    HD_TRY(grow_slots(map->arena, map->capacity, count, sizeof(hd_map_slot), &grown.capacity, &slots));
    grown.slots = slots;
    for (uint32_t i = 0; i < map->capacity; i++) {
        const hd_map_slot *old = &map->slots[i];
        if (old->value == HD_MAP_NONE) continue;
        *find_slot(&grown, old->key, hd_hash64(old->key.data, old->key.size)) = *old;
    }
    hd_map_fini(map);
    *map = grown;
    return HD_OK;
}

hd_status hd_map_reserve(hd_map *map, uint32_t count) {
    uint64_t last = (uint64_t)map->count + count;
    return count == 0 || !is_full(last - 1, map->capacity) ? HD_OK : grow_map(map, last - 1);
}

hd_status hd_map_put(hd_map *map, hd_str key, uint32_t value, uint32_t *value_out, bool *is_new_out) {
    HD_CHECK(value != HD_MAP_NONE);
    uint64_t hash = hd_hash64(key.data, key.size);
    if (map->count > 0) {
        const hd_map_slot *found = find_slot(map, key, hash);
        if (found->value != HD_MAP_NONE) {
            *value_out = found->value;
            *is_new_out = false;
            return HD_OK;
        }
    }
    if (is_full(map->count, map->capacity)) HD_TRY(grow_map(map, map->count));
    *find_slot(map, key, hash) = (hd_map_slot){.key = key, .hash = (uint32_t)(hash >> 32), .value = value};
    map->count++;
    *value_out = value;
    *is_new_out = true;
    return HD_OK;
}

void hd_map64_init(hd_map64 *map, hd_arena *arena_or_null) {
    *map = (hd_map64){.arena = arena_or_null};
}

void hd_map64_fini(hd_map64 *map) {
    if (map->arena == NULL) hd_free(map->slots);
    *map = (hd_map64){.arena = map->arena};
}

static hd_map64_slot *find_slot64(const hd_map64 *map, uint64_t key) {
    /* Handles are small and dense: the multiplication spreads them, the shift brings the well-mixed upper bits down. */
    uint64_t hash = (key ^ (key >> 32)) * 0x9e3779b97f4a7c15u;
    uint32_t mask = map->capacity - 1;
    for (uint32_t i = (uint32_t)(hash >> 32) & mask;; i = (i + 1) & mask) {
        hd_map64_slot *slot = &map->slots[i];
        if (slot->key == key || slot->key == UINT64_MAX) return slot;
    }
}

uint32_t hd_map64_get(const hd_map64 *map, uint64_t key) {
    return map->count == 0 ? HD_MAP_NONE : find_slot64(map, key)->value;
}

static hd_status grow_map64(hd_map64 *map, uint64_t count) {
    hd_map64 grown = {.arena = map->arena, .count = map->count};
    void *slots;
    HD_TRY(grow_slots(map->arena, map->capacity, count, sizeof(hd_map64_slot), &grown.capacity, &slots));
    grown.slots = slots;
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].key != UINT64_MAX) *find_slot64(&grown, map->slots[i].key) = map->slots[i];
    }
    hd_map64_fini(map);
    *map = grown;
    return HD_OK;
}

hd_status hd_map64_reserve(hd_map64 *map, uint32_t count) {
    uint64_t last = (uint64_t)map->count + count;
    return count == 0 || !is_full(last - 1, map->capacity) ? HD_OK : grow_map64(map, last - 1);
}

hd_status hd_map64_put(hd_map64 *map, uint64_t key, uint32_t value, uint32_t *value_out, bool *is_new_out) {
    HD_CHECK(key != UINT64_MAX && value != HD_MAP_NONE);
    if (map->count > 0) {
        const hd_map64_slot *found = find_slot64(map, key);
        if (found->key == key) {
            *value_out = found->value;
            *is_new_out = false;
            return HD_OK;
        }
    }
    if (is_full(map->count, map->capacity)) HD_TRY(grow_map64(map, map->count));
    *find_slot64(map, key) = (hd_map64_slot){.key = key, .value = value};
    map->count++;
    *value_out = value;
    *is_new_out = true;
    return HD_OK;
}
