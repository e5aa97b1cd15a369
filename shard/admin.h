/* Control requests: who are you, hold this partition, let go of that one, what do you carry. */
#ifndef SH_ADMIN_H
#define SH_ADMIN_H

#include "proto/control.h"
#include "shard/partition.h"

typedef struct sh_admin sh_admin;

/* Reads the shard's uuid from the store, or gives it one. Store and partitions are borrowed until sh_admin_free. */
HD_MUST_USE hd_status sh_admin_new(sh_store *store, sh_partitions *partitions, sh_admin **admin_out, hd_error *error);
void sh_admin_free(sh_admin *admin);
const char *sh_admin_uuid(const sh_admin *admin);

/* HELLO, without touching disk or locks: may be answered in the loop. Strings are the admin's. */
void sh_admin_hello(const sh_admin *admin, hd_control_reply *reply_out);
/* CREATE_PARTITION, DROP_PARTITION, STATS. Always gives a reply, in the arena. Thread-safe; may wait for a commit. */
void sh_admin_run(sh_admin *admin, const hd_control_request *request, hd_arena *arena, hd_control_reply *reply_out);

#endif
