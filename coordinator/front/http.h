/* The HTTP server (its .c is one of microhttpd.h's two includers): one thread reads requests and writes answers, worker threads do
 * what a request asks for, admission stands between them. */
#ifndef CO_FRONT_HTTP_H
#define CO_FRONT_HTTP_H

#include "coordinator/front/exchange.h"

typedef struct co_http co_http;

typedef struct co_http_settings {
    const char *listen;     /* "HOST:PORT", "[::1]:PORT"; port 0 picks one */
    bool is_public_allowed; /* listening beyond loopback has to be asked for */
    uint32_t workers;
    co_admission_limits limits;
    uint32_t
        descriptors_reserved; /* file descriptors that the rest of the process may come to need; connections get none of them */
    uint64_t drain_ms;        /* how long running calls may take to end when the server stops */
} co_http_settings;

/* Listens and serves from here on. `services` and `admin` are borrowed until co_http_stop returns. HD_ARGUMENT: the address is
 * malformed, in use, or not loopback without leave; the message names it. */
HD_MUST_USE hd_status co_http_start(const co_http_settings *settings, const co_services *services, co_admin *admin,
                                    co_http **http_out, hd_error *error);
/* "http://127.0.0.1:7700"; owned by the server. */
const char *co_http_url(const co_http *http);
/* Accepts no more, lets what runs end (bounded), answers, closes, frees. */
void co_http_stop(co_http *http);

#endif
