/* Frames over ZeroMQ (this file's .c is zmq.h's only includer): a server side (ROUTER) for shards, a client side (DEALER) for
 * coordinators. One message is one frame of payload; the ROUTER's identity frame is handled here.
 * Ownership: after a successful send the library owns the bytes; here that never shows, since payloads are copied in or handed over
 * as an hd_buf that is empty afterwards in either case. */
#ifndef HD_PROTO_WIRE_H
#define HD_PROTO_WIRE_H

#include "common/buf.h"
#include "common/status.h"

typedef struct hd_wire_server hd_wire_server;
typedef struct hd_wire_client hd_wire_client;

enum { HD_WIRE_FRAME_MAX = 64 << 20 }; /* larger incoming frames end that connection */

/* Who sent a message and gets the reply: the ROUTER identity, copied. */
typedef struct hd_wire_peer {
    uint8_t bytes[256];
    uint32_t size;
} hd_wire_peer;

/* Binds "ipc://PATH" or "tcp://HOST:PORT" (port 0 or "*" picks one; *endpoint_out is what it became, owned by the server).
 * HD_ARGUMENT names the endpoint and the reason (in use, malformed). */
HD_MUST_USE hd_status hd_wire_server_new(const char *endpoint, hd_wire_server **server_out, hd_error *error);
void hd_wire_server_free(hd_wire_server *server);
const char *hd_wire_server_endpoint(const hd_wire_server *server);
/* One thread runs this loop until hd_wire_server_stop (from any thread, also a signal handler's). `receive` gets each message in
 * that thread; payload borrowed for the call. */
HD_MUST_USE hd_status hd_wire_server_run(hd_wire_server *server,
                                         void (*receive)(void *self, const hd_wire_peer *peer, hd_str payload), void *self);
void hd_wire_server_stop(hd_wire_server *server);
/* Queues a reply from any thread; the loop thread sends it. Takes the buffer's contents (buf is empty after). */
void hd_wire_server_send(hd_wire_server *server, const hd_wire_peer *peer, hd_buf *payload);

/* A client is one thread's own set of DEALER sockets, one per endpoint, opened on first use; it may be passed between threads but
 * not used by two at a time. */
hd_wire_client *hd_wire_client_new(void);
void hd_wire_client_free(hd_wire_client *client);
/* Index of the endpoint in this client (the same endpoint gives the same index). HD_ARGUMENT on a malformed one. */
HD_MUST_USE hd_status hd_wire_client_connect(hd_wire_client *client, const char *endpoint, uint32_t *index_out);
/* HD_SHARD_DOWN when the peer is away or its queue is full; waits a fresh connection's first quarter of a second at the most.
 * Nothing is queued for a peer that is away. */
HD_MUST_USE hd_status hd_wire_client_send(hd_wire_client *client, uint32_t index, hd_str payload);
/* The same without any wait: HD_SHARD_DOWN also while the connection is being made, which goes on meanwhile. */
HD_MUST_USE hd_status hd_wire_client_try_send(hd_wire_client *client, uint32_t index, hd_str payload);
/* The next message from any endpoint into *payload_out (cleared first). HD_DEADLINE when none came by `deadline_us` (monotonic). */
HD_MUST_USE hd_status hd_wire_client_receive(hd_wire_client *client, uint64_t deadline_us, uint32_t *index_out,
                                             hd_buf *payload_out);
/* Closes and reopens the socket of an endpoint, dropping what waits in its queues. */
void hd_wire_client_reset(hd_wire_client *client, uint32_t index);

/* Process-wide ZeroMQ context; called once before and after everything else here. */
void hd_wire_init(void);
void hd_wire_fini(void);

#endif
