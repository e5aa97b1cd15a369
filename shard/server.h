/* The shard as a server: messages in, replies out, and the threads between. */
#ifndef SH_SERVER_H
#define SH_SERVER_H

#include "shard/admin.h"
#include "shard/write.h"

typedef struct sh_server sh_server;

typedef struct sh_server_options {
    const char *endpoint;
    uint32_t threads;        /* step workers, at least 1 */
    uint32_t queue_max;      /* requests that may wait for them */
    uint64_t step_bytes_max; /* memory of one request and its reply */
} sh_server_options;

/* Binds and starts the threads; requests are taken from now on. All that is passed is borrowed until sh_server_free. */
HD_MUST_USE hd_status sh_server_new(const sh_server_options *options, sh_partitions *partitions, sh_writer *writer, sh_admin *admin,
                                    sh_server **server_out, hd_error *error);
const char *sh_server_endpoint(const sh_server *server);
bool sh_server_is_ready(const sh_server *server); /* takes requests: neither draining nor stopped */
/* Refuses new requests (HD_UNAVAILABLE), lets what runs and waits finish for up to `bound_ms`, then cancels what is left. */
void sh_server_drain(sh_server *server, uint32_t bound_ms);
/* Brings the gauges up to date; now and then sweeps the store. Called about once a second, by one thread. */
void sh_server_tick(sh_server *server);
void sh_server_free(sh_server *server);

#endif
