/* See groups.h. */
#include "coordinator/run/groups.h"

#include "coordinator/run/order.h"

void co_groups_init(co_groups *groups, co_run *run, uint32_t key_count, uint32_t order_end) {
    *groups = (co_groups){.run = run, .key_count = key_count, .order_end = order_end};
    hd_map64_init(&groups->head_of_hash, run->arena);
    co_rows_init(&groups->rows, run->arena, run->query->var_count + 1);
}

static uint64_t hash_keys(const hd_value *keys, uint32_t count) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < count; i++) hash = (hash ^ hd_value_hash(&keys[i])) * 0xff51afd7ed558ccdu + (hash >> 29);
    return hash >> 1; /* never the one key that the map refuses */
}

static bool are_same(const co_groups *groups, uint32_t group, const hd_value *keys) {
    const hd_value *stored = groups->keys + (size_t)group * groups->key_count;
    for (uint32_t i = 0; i < groups->key_count; i++)
        if (!hd_value_is_same(&stored[i], &keys[i])) return false;
    return true;
}

static hd_status add_group(co_groups *groups, uint64_t hash, const hd_value *keys, const uint32_t *row) {
    hd_arena *arena = groups->run->arena;
    uint32_t group = groups->count, *stored_row;
    HD_TRY(CO_GROW(arena, groups->hashes, groups->hash_capacity, group));
    HD_TRY(CO_GROW(arena, groups->chain, groups->chain_capacity, group));
    if (groups->key_count > 0)
        HD_TRY(co_grow(arena, (void **)&groups->keys, &groups->key_capacity, group, groups->key_count * sizeof(hd_value)));
    groups->hashes[group] = hash;
    groups->chain[group] = CO_CELL_NONE;
    for (uint32_t i = 0; i < groups->key_count; i++)
        HD_TRY(hd_value_dup(arena, &keys[i], &groups->keys[(size_t)group * groups->key_count + i]));
    if (row != NULL) HD_TRY(co_rows_append(&groups->rows, row, &stored_row));
    groups->count++;
    return HD_OK;
}

void co_groups_offer(co_groups *groups, uint32_t group, const uint32_t *row) {
    uint32_t *first = co_rows_get(&groups->rows, group);
    if (co_order_compare_rows(groups->run, row, first, groups->order_end) < 0)
        memcpy(first, row, groups->rows.width * sizeof(uint32_t));
}

hd_status co_groups_put(co_groups *groups, const hd_value *keys, const uint32_t *row, uint32_t groups_max, uint32_t *group_out,
                        bool *is_new_out) {
    uint64_t hash = hash_keys(keys, groups->key_count);
    uint32_t head = hd_map64_get(&groups->head_of_hash, hash), last = CO_CELL_NONE;
    *is_new_out = false;
    for (uint32_t group = head; group != CO_CELL_NONE; last = group, group = groups->chain[group]) {
        if (groups->hashes[group] != hash || !are_same(groups, group, keys)) continue;
        if (row != NULL) co_groups_offer(groups, group, row);
        *group_out = group;
        return HD_OK;
    }
    *group_out = CO_CELL_NONE;
    if (groups->count >= groups_max) return HD_OK;
    uint32_t group = groups->count;
    HD_TRY(add_group(groups, hash, keys, row));
    if (last != CO_CELL_NONE) {
        groups->chain[last] = group;
    } else {
        uint32_t value;
        bool is_new;
        HD_TRY(hd_map64_put(&groups->head_of_hash, hash, group, &value, &is_new));
    }
    *group_out = group;
    *is_new_out = true;
    return HD_OK;
}
