/* Memories on their way to save_memories: batches, several calls in flight, order kept where it matters, what failed sent again.
 *
 * A batch waits while an earlier one that is not answered yet holds an event that it names (as its own id or as prev_event_id): so a
 * successor is never there before what it follows, and two versions of one event keep their order. What is sent again is safe to be
 * sent again: every memory has an id (or a key) of its own. Single-threaded. */
#ifndef CL_IMPORT_SENDER_H
#define CL_IMPORT_SENDER_H

#include <jansson.h>

#include "client/http.h"

typedef struct cl_sender cl_sender;

typedef enum cl_outcome { CL_OUTCOME_ADDED, CL_OUTCOME_REPLACED, CL_OUTCOME_ALREADY_THERE, CL_OUTCOME_REFUSED } cl_outcome;

/* One memory. `json` is the object's text, sound JSON without duplicate members; `id` and `previous` as in it, absent where there are
 * none; `place` says to people where it came from ("line 17"). */
typedef struct cl_memory {
    hd_str json, id, previous, place;
    uint64_t number; /* the line's; 0 where there is none */
} cl_memory;

/* Told once for every memory. `why` is the reason of a refusal, else NULL; `warnings` the coordinator's, may be NULL. */
typedef void cl_sender_told(void *self, const cl_memory *memory, cl_outcome outcome, const char *why, const json_t *warnings);

typedef struct cl_sender_options {
    uint32_t batch_items_max; /* 1..500 */
    uint32_t in_flight_max;
    uint64_t retry_ms;   /* how long a failing batch is tried again before all is given up */
    uint32_t backoff_ms; /* the first wait before that; doubled up to 32 times it */
} cl_sender_options;

/* `http` and `self` are borrowed until cl_sender_free. */
cl_sender *cl_sender_new(cl_http *http, const cl_sender_options *options, cl_sender_told *told, void *self);
void cl_sender_free(cl_sender *sender);
/* Copies the memory. Sends when enough has come together; waits while too much is in flight. A failure is the end of the import: the
 * coordinator is away for too long, the key is wrong, the quota is used up. */
HD_MUST_USE hd_status cl_sender_add(cl_sender *sender, const cl_memory *memory, hd_error *error);
/* Sends what is left and waits for all answers. */
HD_MUST_USE hd_status cl_sender_finish(cl_sender *sender, hd_error *error);
/* Starts nothing more, and waits for what is in flight: after a failure, so that what was saved is counted. */
void cl_sender_drain(cl_sender *sender);

#endif
