/* Who is let in, and whose turn it is: a bounded queue of jobs in front of the worker threads, fair by org. Overload is refused at
 * once, not queued without end. Thread-safe. */
#ifndef CO_FRONT_ADMISSION_H
#define CO_FRONT_ADMISSION_H

#include "common/status.h"

typedef struct co_admission co_admission;

/* Part of whatever is queued. Its memory is the caller's, from submit until done. */
typedef struct co_job co_job;
struct co_job {
    co_job *next;
    struct co_lane *lane; /* admission's own */
    uint64_t org;         /* whose turn it takes; 0: the cluster's administrator */
};

typedef struct co_admission_limits {
    uint32_t waiting_max;     /* jobs waiting in all */
    uint32_t org_waiting_max; /* of one org */
    uint32_t org_running_max; /* jobs of one org that may run at once, so that one org never takes all workers */
} co_admission_limits;

co_admission *co_admission_new(const co_admission_limits *limits);
void co_admission_free(co_admission *admission); /* nothing waits or runs any more */

/* HD_BUSY: too much is waiting, of this org or in all. HD_UNAVAILABLE: stopped. The job is not queued then. */
HD_MUST_USE hd_status co_admission_submit(co_admission *admission, co_job *job);
/* The next job, one org after the other; waits for one. NULL: stopped, and nothing waits any more. */
co_job *co_admission_take(co_admission *admission);
/* The job that was taken is over. Its memory is free to go from here on. */
void co_admission_done(co_admission *admission, co_job *job);
/* Nothing is let in any more; what waits is still given out. */
void co_admission_stop(co_admission *admission);

#endif
