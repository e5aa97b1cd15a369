/* What waits for a worker, fairly by org: the orgs with something waiting take turns, each with its oldest job. Bounded: when it is
 * full, the org with most waiting gives way. Also knows what is running, so that a query can be cancelled wherever it is.
 * Thread-safe. */
#ifndef SH_QUEUE_H
#define SH_QUEUE_H

#include "common/buf.h"
#include "proto/codec.h"
#include "proto/wire.h"

typedef struct sh_job {
    hd_request_head head;
    hd_wire_peer peer;
    hd_buf payload;                   /* owned: the whole request */
    uint64_t arrived_us, deadline_us; /* monotonic */
    volatile bool is_cancelled;       /* set by sh_queue_cancel, asked by the step */
    struct sh_job *next, *previous;   /* the queue's */
} sh_job;

typedef struct sh_queue sh_queue;

sh_job *sh_job_new(const hd_request_head *head, const hd_wire_peer *peer, hd_str payload, uint64_t now_us);
void sh_job_free(sh_job *job);

sh_queue *sh_queue_new(uint32_t jobs_max);
void sh_queue_free(sh_queue *queue); /* frees what still waits */

/* Takes the job. Returns the job that has to be refused for it: NULL, the newest of the org with most waiting, or `job` itself. */
sh_job *sh_queue_add(sh_queue *queue, sh_job *job);
/* The next job, lent to the caller until sh_queue_finish; waits for one. NULL: stopped, and nothing waits. */
sh_job *sh_queue_take(sh_queue *queue);
void sh_queue_finish(sh_queue *queue, sh_job *job); /* frees it */
/* Jobs of `query` (not 0) that wait are forgotten, running ones are told to stop; of that org alone unless it is 0. */
void sh_queue_cancel(sh_queue *queue, uint64_t org, uint64_t query);
void sh_queue_cancel_all(sh_queue *queue);
uint32_t sh_queue_waiting(sh_queue *queue);
bool sh_queue_is_idle(sh_queue *queue); /* nothing waits, nothing runs */
void sh_queue_stop(sh_queue *queue);    /* takers go home once it is empty */

#endif
