/* When may memory that readers could still hold be freed? Readers take no lock: they enter and leave. The writer unlinks a block,
 * then retires it; it is freed once every reader that entered before the unlinking has left.
 *
 * Two counters of readers, one per parity of the epoch number e. What is retired during e can be held by readers of e and of e − 1.
 * The writer moves on from e to e + 1 only when no reader of e − 1 is left, and then frees what was retired during e − 1: its own
 * readers (of e − 2 and e − 1) are gone, and readers of e entered after it was unlinked. */
#ifndef SH_EPOCH_H
#define SH_EPOCH_H

#include "shard/graph_memory.h"

typedef struct sh_retired {
    void *block;
    size_t size;
} sh_retired;

typedef struct sh_retired_list {
    sh_retired *items;
    uint32_t count, capacity;
} sh_retired_list;

typedef struct sh_epoch {
    atomic_uint number;
    atomic_uint readers[2];
    /* The writer's own: */
    sh_memory *memory;
    sh_retired_list retired[2]; /* by parity */
    size_t retired_bytes;
} sh_epoch;

void sh_epoch_init(sh_epoch *epoch, sh_memory *memory);
void sh_epoch_fini(sh_epoch *epoch); /* frees all that is retired; no reader may be inside */

/* Any thread. What enter gives is what leave wants. Wait-free but for a writer that moves on in just that moment. */
uint32_t sh_epoch_enter(sh_epoch *epoch);
void sh_epoch_leave(sh_epoch *epoch, uint32_t number);

/* Writer. `block` (of sh_memory_take) is unlinked already: a reader that enters from now on cannot find it. */
void sh_epoch_retire(sh_epoch *epoch, void *block, size_t size);
/* Writer. Frees what can be freed by now; never waits. */
void sh_epoch_advance(sh_epoch *epoch);

#endif
