/* A posting list: slots in ascending order, contiguous, growing only. One writer, readers without a lock; a block that was
 * outgrown is retired. */
#ifndef SH_POSTINGS_H
#define SH_POSTINGS_H

#include "shard/epoch.h"

typedef struct sh_postings_block sh_postings_block;

typedef struct sh_postings_list {
    _Atomic(sh_postings_block *) block; /* NULL: empty */
} sh_postings_list;

void sh_postings_init(sh_postings_list *list);
void sh_postings_fini(sh_postings_list *list, sh_memory *memory);
/* `slot` is above all that are in the list. */
void sh_postings_add(sh_postings_list *list, sh_epoch *epoch, uint32_t slot);
/* All that is there; *slots_out is lent as long as the epoch. */
uint32_t sh_postings_get(const sh_postings_list *list, const uint32_t **slots_out);
/* How many of `count` ascending slots are below `slot_end`. */
uint32_t sh_postings_count_below(const uint32_t *slots, uint32_t count, uint32_t slot_end);

#endif
