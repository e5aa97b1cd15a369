/* HTTP to one coordinator (the only includer of libcurl here): one call at a time, or several in flight. Nothing is sent again here:
 * what may be repeated is the caller's to know. Single-threaded. */
#ifndef CL_HTTP_H
#define CL_HTTP_H

#include "common/buf.h"
#include "common/status.h"

typedef struct cl_http cl_http;

typedef struct cl_http_reply {
    int status; /* of HTTP */
    hd_buf body;
    uint32_t retry_after_s; /* 0: the server did not say */
} cl_http_reply;

/* A call that is over. `status` is HD_OK when there is an answer, whatever it says; else HD_UNAVAILABLE (not reached, broken off, too
 * slow: the request may have been done all the same). */
typedef struct cl_http_done {
    void *tag;
    hd_status status;
    hd_error error;
    cl_http_reply reply; /* the caller's to release, with cl_http_reply_fini */
} cl_http_done;

/* `url` is http(s)://HOST[:PORT][/PREFIX]; `key` is sent as a Bearer key where it is not NULL. Both are copied. HD_ARGUMENT: no such
 * URL, or a key that no header can hold. */
HD_MUST_USE hd_status cl_http_new(const char *url, const char *key, cl_http **http_out, hd_error *error);
void cl_http_free(cl_http *http); /* calls in flight are broken off; NULL is fine */
const char *cl_http_url(const cl_http *http);

/* One call, waiting for its answer. `body` may be absent. HD_UNAVAILABLE as above. */
HD_MUST_USE hd_status cl_http_call(cl_http *http, const char *method, const char *path, hd_str body, cl_http_reply *reply_out,
                                   hd_error *error);
void cl_http_reply_fini(cl_http_reply *reply);

/* Sends a POST and returns at once. The bytes of `body` are borrowed until its cl_http_done came. */
void cl_http_post(cl_http *http, const char *path, hd_str body, void *tag);
/* Lets calls in flight go on; waits up to `timeout_ms` for one to end. True: *done_out is one that ended. */
bool cl_http_wait(cl_http *http, uint32_t timeout_ms, cl_http_done *done_out);

#endif
