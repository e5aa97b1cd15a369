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
 * to stay the caller's and must live until `done` returns. HD_BUSY, without calling `done`, when too much is waiting. */
HD_MUST_USE hd_status sh_writer_submit(sh_writer *writer, const hd_write_request *request,
                                       void (*done)(void *self, const hd_write_reply *reply), void *self);

/* Removes from the store the dead versions that no deadline can still see. Called now and then by the server's thread. */
HD_MUST_USE hd_status sh_writer_sweep(sh_writer *writer);

#endif
