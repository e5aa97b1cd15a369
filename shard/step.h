/* A step request, answered: the chain over the partitions given. Read step.c first to know the shard. */
#ifndef SH_STEP_H
#define SH_STEP_H

#include "proto/step.h"
#include "shard/partition.h"

/* Can this go on, and who helps? Filled by the server for each request; asked inside every loop that can outlast a batch
 * (sh_check_now). */
typedef struct sh_check {
    uint64_t deadline_us;              /* monotonic */
    const volatile bool *is_cancelled; /* may be NULL */
    struct sh_crew *crew;              /* for long searches; may be NULL */
} sh_check;
bool sh_check_now(const sh_check *check); /* true: stop (deadline passed, or cancelled) */

/* Runs the chain. Always gives a reply; what failed is in it. Everything in the reply lives in `arena`. */
void sh_step_run(sh_partitions *partitions, const hd_step_request *request, const sh_check *check, hd_arena *arena,
                 hd_step_reply *reply_out);

#endif
