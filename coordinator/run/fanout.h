/* One step (or chain of steps) of one query: whom to ask, sending, gathering, merging, sharing out what the budget leaves, asking
 * again, and a verdict for every partition asked. Operators see one merged result and what it is worth.
 *
 * A fanout belongs to one query and is used by one thread. Snapshots are kept here: the first reply of a partition fixes its
 * sequence and incarnation, later steps carry them. */
#ifndef CO_RUN_FANOUT_H
#define CO_RUN_FANOUT_H

#include "common/budget.h"
#include "coordinator/cluster/topology.h"
#include "proto/step.h"

typedef struct co_fanout co_fanout;

/* What a merged step is worth. Everything is computed from verdicts, not guessed from missing rows. */
typedef struct co_step_outcome {
    bool is_complete;
    /* Each thing that was not examined, in a stable order; empty when complete. */
    struct co_cut {
        hd_cap cap;          /* a COUNT or LEVEL cap, or HD_CAP_SHARD_UNAVAILABLE, HD_CAP_SNAPSHOT, HD_CAP_STORE */
        uint64_t partitions; /* how many partitions it concerns */
        hd_str detail;       /* for people: "partition 3 of 4 (shard …): no answer by the deadline" */
    } * cuts;
    uint32_t cut_count;
    bool is_any_missing;        /* some partition gave nothing at all: figures that need every partition are not known */
    uint32_t done;              /* CONNECTED: the frontier nodes below it were wholly read by every partition that answered */
    uint64_t n_live, n_vectors; /* sums over the partitions that answered; meaningful when !is_any_missing */
    uint32_t partitions_asked;
    uint64_t us; /* wall time of the step, as the coordinator saw it */
} co_step_outcome;

/* `topology`, `wire`, `org` and `budget` are borrowed for the fanout's life; results live in `arena`. `deadline_us` is
 * monotonic. */
HD_MUST_USE hd_status co_fanout_new(hd_arena *arena, co_topology *topology, hd_wire_client *wire, const co_org *org,
                                    hd_budget *budget, uint64_t deadline_us, co_fanout **fanout_out);

/* Runs one step, with explicit frontier. *result_out is merged over all partitions that had to be asked:
 *   FACTS of events and MEASURE: aligned with the frontier as given (flags / is_answered tell what no partition answered);
 *   FACTS of names, POSTINGS: names[] aligned with the frontier, counts summed, edges of all partitions, `events` distinct;
 *   SHARES: edges of all partitions, per frontier event in no particular order; names[] distinct, counts summed;
 *   NEXT: per frontier event the edges of the merged thread order and explicit ones; one edge per pair, `thread` wins. Where some
 *   partition is missing or was cut, thread edges are left out altogether, and so is an explicit edge that could be one;
 *   START: the k best over all, in order; sums of candidates and group counts; has_more;
 *   CONNECTED: an edge a pair, counts summed; names[] distinct, without counts;
 *   RESOLVE: names[] distinct, counts summed;
 *   SIMILAR: per frontier event the k best over all, closest first.
 * A step stopped by its share of a COUNT cap is gone on with, as long as the query's budget has something left. Charges the budget.
 * HD_SNAPSHOT_GONE: the query has to start again (only before co_fanout_restart was called once; after that it is a cut).
 * Other statuses: HD_MEMORY, HD_CANCELLED, HD_INTERNAL. A dead shard or a passed deadline is no status: it is in *outcome_out. */
HD_MUST_USE hd_status co_fanout_run(co_fanout *fanout, const hd_step *step, hd_step_result *result_out,
                                    co_step_outcome *outcome_out);

/* Can a chain be run in one round trip: does one shard hold all partitions of the org? */
bool co_fanout_can_chain(const co_fanout *fanout);
/* Runs a chain on that shard, which gets all that the budget has left, so that nothing is left to go on with after a cut.
 * *count_out results come back, at least one: as many as the shard ran complete, and one that was not at the most; the caller runs
 * the rest step by step. */
HD_MUST_USE hd_status co_fanout_run_chain(co_fanout *fanout, const hd_step *steps, uint32_t step_count, hd_step_result *results_out,
                                          co_step_outcome *outcomes_out, uint32_t *count_out);

/* Moves the deadline: the walk stops a little early, so that the rows it found can still be fetched and answered. */
void co_fanout_set_deadline(co_fanout *fanout, uint64_t deadline_us);
/* Forgets the snapshots and what was charged, for the one restart after HD_SNAPSHOT_GONE. */
void co_fanout_restart(co_fanout *fanout);
/* Tells the shards to stop what they still do for this query. */
void co_fanout_cancel(co_fanout *fanout);

/* Asked now and then while waiting for shards; true ends the step with HD_CANCELLED, and the shards are told. NULL: never. */
void co_fanout_set_gone(co_fanout *fanout, bool (*is_client_gone)(void *self), void *self);

/* Tests: replies are held back until all have come, and taken in another order (real transport underneath). NULL fields: off. */
typedef struct co_fanout_faults {
    uint32_t (*pick_next)(void *self, uint32_t waiting); /* which of the waiting replies is taken next: below `waiting` */
    void *self;
} co_fanout_faults;
void co_fanout_set_faults(co_fanout *fanout, const co_fanout_faults *faults);

#endif
