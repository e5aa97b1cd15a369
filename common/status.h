/* Failure, and only failure: what could not be done. Every function that can fail returns one and is marked HD_MUST_USE. How far something got is an outcome (truncation.h), never a status.
 * The codes live once, in status.def; names, wire numbers and HTTP statuses are expanded from it. */
#ifndef HD_COMMON_STATUS_H
#define HD_COMMON_STATUS_H

#include "common/base.h"

typedef enum hd_retry { HD_RETRY_NEVER, HD_RETRY_SAME, HD_RETRY_REFRESH } hd_retry;

typedef enum hd_status {
#define X(name, number, http, retry, reason, meaning) HD_##name = (number),
#include "common/status.def"
#undef X
} hd_status;

const char *hd_status_name(hd_status status);   /* "SHARD_DOWN" */
const char *hd_status_reason(hd_status status); /* as tools.md spells it: "shard_unavailable" */
const char *hd_status_meaning(hd_status status);
int hd_status_http(hd_status status);
hd_retry hd_status_retry(hd_status status);
/* The code of a wire number; HD_WIRE for one that this build does not know. */
hd_status hd_status_from_wire(uint32_t number);

enum { HD_ERROR_MESSAGE_MAX = 480 };

/* The details of the first failure of one query, write or command. Caller's memory; zero it before use (hd_error e = {0}). */
typedef struct hd_error {
    hd_status code;
    const char *module;                 /* static string: "parse" */
    char message[HD_ERROR_MESSAGE_MAX]; /* UTF-8, cut at a character */
    uint32_t line, column;              /* in the query text, from 1; 0 where it has none. Columns count code points. */
    const char *outcome;                /* "unknown" for a write that may have happened, else NULL */
} hd_error;

/* Records a failure where it is detected and returns `code`. The first error wins: when `error` already holds one, only the
 * returned code matters to the caller. `error` may be NULL. */
hd_status hd_error_set(hd_error *error, hd_status code, const char *module, const char *format, ...) HD_PRINTF(4, 5);
/* Adds " (while …)" to the message already there. */
void hd_error_add_context(hd_error *error, const char *format, ...) HD_PRINTF(2, 3);

/* The two macros of error flow. Everything that `out:` reads is declared and given a value before the first HD_GOTO. */
#define HD_TRY(expression)                                               \
    do {                                                                 \
        hd_status hd_try_status_ = (expression);                         \
        if (HD_UNLIKELY(hd_try_status_ != HD_OK)) return hd_try_status_; \
    } while (0)
#define HD_GOTO(expression)                         \
    do {                                            \
        status = (expression);                      \
        if (HD_UNLIKELY(status != HD_OK)) goto out; \
    } while (0)

#endif
