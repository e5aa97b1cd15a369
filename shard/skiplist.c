/* See skiplist.h. */
#include "shard/skiplist.h"

struct sh_skipnode {
    int64_t first, second;
    uint32_t slot, group;
    _Atomic(sh_skipnode *) next[]; /* as many as its height */
};

void sh_skiplist_init(sh_skiplist *list, hd_str (*id_of)(const void *self, uint32_t slot), const void *self) {
    list->id_of = id_of;
    list->self = self;
    atomic_init(&list->height, 1);
    for (int level = 0; level < SH_SKIPLIST_HEIGHT; level++) atomic_init(&list->heads[level], NULL);
}

static uint32_t height_of(uint32_t slot) {
    uint64_t x = (slot + 1) * UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    uint32_t height = 1 + (uint32_t)__builtin_ctzll(x | (UINT64_C(1) << 62)) / 2;
    return HD_MIN(height, (uint32_t)SH_SKIPLIST_HEIGHT);
}

static int compare(const sh_skiplist *list, const sh_skipnode *node, const sh_skipkey *key) {
    if (node->group != key->group) return node->group < key->group ? -1 : 1;
    if (node->first != key->first) return node->first < key->first ? -1 : 1;
    if (node->second != key->second) return node->second < key->second ? -1 : 1;
    int by_id = hd_str_compare(list->id_of(list->self, node->slot), key->id);
    if (by_id != 0) return by_id;
    return (node->slot > key->slot) - (node->slot < key->slot);
}

/* Goes down to the last node whose key is below (or, with `or_equal`, at) the given one; NULL: none is. Where `links_out` is given
 * it gets, for each level, the link behind that node. */
static sh_skipnode *descend(const sh_skiplist *list, const sh_skipkey *key, bool or_equal, _Atomic(sh_skipnode *) **links_out) {
    sh_skipnode *before = NULL;
    for (uint32_t level = atomic_load_explicit(&list->height, memory_order_acquire); level-- > 0;) {
        const _Atomic(sh_skipnode *) *link = before ? &before->next[level] : &list->heads[level];
        for (;;) {
            sh_skipnode *node = atomic_load_explicit(link, memory_order_acquire);
            if (!node || compare(list, node, key) >= (or_equal ? 1 : 0)) break;
            before = node;
            link = &node->next[level];
        }
        if (links_out) links_out[level] = (_Atomic(sh_skipnode *) *)link;
    }
    return before;
}

void sh_skiplist_insert(sh_skiplist *list, sh_memory *memory, const sh_skipkey *key) {
    _Atomic(sh_skipnode *) *links[SH_SKIPLIST_HEIGHT];
    uint32_t height = height_of(key->slot);
    uint32_t height_now = atomic_load_explicit(&list->height, memory_order_relaxed);
    for (uint32_t level = height_now; level < height; level++) links[level] = &list->heads[level];
    descend(list, key, false, links);

    sh_skipnode *node = sh_memory_bump(memory, sizeof(*node) + height * sizeof(node->next[0]));
    node->first = key->first;
    node->second = key->second;
    node->slot = key->slot;
    node->group = key->group;
    for (uint32_t level = 0; level < height; level++)
        atomic_init(&node->next[level], atomic_load_explicit(links[level], memory_order_relaxed));
    /* From below: a node that is seen at a level is linked at all lower ones. */
    for (uint32_t level = 0; level < height; level++) atomic_store_explicit(links[level], node, memory_order_release);
    if (height > height_now) atomic_store_explicit(&list->height, height, memory_order_release);
}

const sh_skipnode *sh_skiplist_above(const sh_skiplist *list, const sh_skipkey *key) {
    const sh_skipnode *before = descend(list, key, true, NULL);
    return before ? sh_skipnode_next(before) : sh_skiplist_first(list);
}

const sh_skipnode *sh_skiplist_below(const sh_skiplist *list, const sh_skipkey *key) {
    return descend(list, key, false, NULL);
}

const sh_skipnode *sh_skiplist_first(const sh_skiplist *list) {
    return atomic_load_explicit(&list->heads[0], memory_order_acquire);
}

const sh_skipnode *sh_skipnode_next(const sh_skipnode *node) {
    return atomic_load_explicit(&node->next[0], memory_order_acquire);
}

uint32_t sh_skipnode_slot(const sh_skipnode *node) {
    return node->slot;
}

uint32_t sh_skipnode_group(const sh_skipnode *node) {
    return node->group;
}

sh_skipkey sh_skiplist_key(const sh_skiplist *list, const sh_skipnode *node) {
    return (sh_skipkey){.group = node->group,
                        .slot = node->slot,
                        .first = node->first,
                        .second = node->second,
                        .id = list->id_of(list->self, node->slot)};
}
