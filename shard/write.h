/* The writer: one thread a shard that takes everything waiting, in all partitions, checks each item against the graph, puts what
 * stands into one RocksDB batch, syncs once (group commit), applies it to memory, publishes the new sequences, and answers. */
#ifndef SH_WRITE_H
#define SH_WRITE_H

#include "proto/write.h"
#include "shard/partition.h"

typedef struct sh_writer sh_writer;

HD_MUST_USE hd_status sh_writer_new(sh_store *store, sh_partitions *partitions, sh_writer **writer_out, hd_error *error);
void sh_writer_free(sh_writer *writer); /* finishes what waits, then stops the thread */

/* Queues the request; `done` is called once, in the writer's thread, with the reply borrowed for the call. `request` and all it points
 * to stay the caller's and must live until `done` returns. HD_BUSY (too much is waiting) and HD_UNAVAILABLE (stopping), without calling
 * `done`. The request's deadline counts from here: one that passes before its turn is answered HD_DEADLINE, and nothing was written.
 * On HD_STORE_IO and HD_STORE_FULL of an item, what the store holds is known only after it was recovered: the item may yet be there. */
HD_MUST_USE hd_status sh_writer_submit(sh_writer *writer, const hd_write_request *request,
                                       void (*done)(void *self, const hd_write_reply *reply), void *self);

/* Removes from the store the versions that died so long ago (60 s) that no deadline can still see them. Called now and then, from any
 * one thread. */
HD_MUST_USE hd_status sh_writer_sweep(sh_writer *writer, hd_error *error);

#endif
