/* An ordered list of slots, insert only: one writer, readers without a lock or an epoch (nodes live as long as the graph). The key
 * is (group, first, second, id, slot); the id is asked from the owner, since it stands in the event. Heights are a hash of the
 * slot, so that a list depends on what it holds alone.
 *
 *   head ──────────────────▶ n ──────────▶ ∅      level 1
 *   head ───▶ n ───▶ n ────▶ n ───▶ n ───▶ ∅      level 0: all, ascending                                                       */
#ifndef SH_SKIPLIST_H
#define SH_SKIPLIST_H

#include "shard/graph_memory.h"

enum { SH_SKIPLIST_HEIGHT = 14 }; /* one node in four goes up: 4^14 is beyond any slot count that matters */

typedef struct sh_skipnode sh_skipnode;

typedef struct sh_skipkey {
    uint32_t group;
    uint32_t slot;
    int64_t first, second;
    hd_str id;
} sh_skipkey;

typedef struct sh_skiplist {
    hd_str (*id_of)(const void *self, uint32_t slot);
    const void *self;
    atomic_uint height; /* levels in use */
    _Atomic(sh_skipnode *) heads[SH_SKIPLIST_HEIGHT];
} sh_skiplist;

void sh_skiplist_init(sh_skiplist *list, hd_str (*id_of)(const void *self, uint32_t slot), const void *self);
/* Writer. The key is not in the list; the event behind key->slot is written already. */
void sh_skiplist_insert(sh_skiplist *list, sh_memory *memory, const sh_skipkey *key);

/* The first node whose key is above (the last one whose key is below) the given one, or NULL. */
const sh_skipnode *sh_skiplist_above(const sh_skiplist *list, const sh_skipkey *key);
const sh_skipnode *sh_skiplist_below(const sh_skiplist *list, const sh_skipkey *key);
const sh_skipnode *sh_skiplist_first(const sh_skiplist *list);
const sh_skipnode *sh_skipnode_next(const sh_skipnode *node);
uint32_t sh_skipnode_slot(const sh_skipnode *node);
uint32_t sh_skipnode_group(const sh_skipnode *node);
/* The key of a node, its id included. */
sh_skipkey sh_skiplist_key(const sh_skiplist *list, const sh_skipnode *node);

#endif
