/* The state of one run of one plan: everything operators share. Lives in the query's arena, used by one thread. */
#ifndef CO_RUN_RUN_H
#define CO_RUN_RUN_H

#include "common/truncation.h"
#include "coordinator/language/language.h"
#include "coordinator/plan/plan.h"
#include "coordinator/run/fanout.h"
#include "coordinator/run/nodes.h"
#include "coordinator/run/query.h"
#include "coordinator/run/rows.h"

typedef struct co_adjacency co_adjacency;

/* What the start says of itself in the answer (language.md section 3). */
typedef struct co_start_report {
    uint32_t count;
    bool has_more, is_approximate, is_cut;
    uint64_t candidates;
    bool is_candidates_exact;
    hd_str *unresolved;
    uint32_t unresolved_count;
    bool are_entities_truncated, are_tags_truncated;
} co_start_report;

/* What a step did, for `plan` in the answer. */
typedef struct co_profile {
    uint64_t rows_in, rows_out, us;
    uint32_t partitions; /* most asked at once */
} co_profile;

/* Things that happened and that notes have to tell; in the order in which they are told. */
typedef struct co_notable {
    bool is_far_measured;
    bool is_walk_cut; /* a variable-length walk was cut */
    bool is_similar_cut, is_similar_approximate;
    bool is_collect_capped;
    bool is_limit_cut; /* more rows than LIMIT */
} co_notable;

typedef struct co_run {
    const co_query_input *input;
    const co_query *query;
    const co_resolved *resolved;
    const co_plan *plan;
    hd_arena *arena;
    hd_arena *scratch; /* of expressions; rolled back after each row */
    co_fanout *fanout;
    hd_budget *budget;
    hd_error *error;
    uint64_t start_us, walk_deadline_us, deadline_us; /* monotonic; the walk stops before the query does */
    const float *start_vector;                        /* of text or vector; NULL where neither */

    co_nodes nodes;
    co_adjacency *adjacencies;      /* list, by what they hold */
    const co_adjacency **rel_edges; /* by rel: where its cells point to */
    hd_map64 cos_of_pair;           /* unordered pair of events → index into cosines */
    double *cosines;                /* NAN: a vector is missing */
    uint32_t cosine_count, cosine_capacity;
    hd_value *group_values; /* group × aggregate, once AGGREGATE ended */
    uint64_t n_live, n_vectors;
    bool has_org_counts; /* n_live and n_vectors are those of the whole org */
    bool is_any_answer;  /* some partition has answered something */

    co_start_report start;
    co_profile *profiles; /* by plan step */
    hd_truncations truncations;
    co_notable notable;
    bool is_unknown_met; /* set by the expression environment: a value that was needed could not be had */
    bool has_chained;    /* a chain brought something (chain.h) */
    bool is_chain_off;   /* no chain is to be asked for */
} co_run;

/* Puts the plan step's number and relation on a wire step. */
void co_run_address(const co_run *run, const co_plan_step *plan_step, hd_step *step);
/* Takes note of what an outcome says beyond its cuts: partitions asked, the org's counts, that somebody answered. */
void co_run_note(co_run *run, const co_plan_step *plan_step, const hd_step *step, const co_step_outcome *outcome);
/* Runs one step, without a word about what was cut. */
HD_MUST_USE hd_status co_run_ask(co_run *run, const co_plan_step *plan_step, hd_step *step, hd_step_result *result_out,
                                 co_step_outcome *outcome_out);
/* Enters what was cut into the truncations, under the plan step's number. `stage` is static. */
HD_MUST_USE hd_status co_run_enter_cuts(co_run *run, const co_plan_step *plan_step, const char *stage,
                                        const co_step_outcome *outcome);
/* Both. */
HD_MUST_USE hd_status co_run_step(co_run *run, const co_plan_step *plan_step, const char *stage, hd_step *step,
                                  hd_step_result *result_out, co_step_outcome *outcome_out);
/* Enters a cut that the coordinator itself made; `reached`: how far it would have gone, as far as is known. */
HD_MUST_USE hd_status co_run_cut(co_run *run, const co_plan_step *plan_step, const char *stage, hd_cap cap, uint64_t reached);
/* Asked in loops with something left to do: has the walk to stop here? Enters the cut when the time is over. HD_CANCELLED when the
 * caller is gone. */
HD_MUST_USE hd_status co_run_check(co_run *run, const co_plan_step *plan_step, const char *stage, bool *is_over_out);
/* The deadline in full, for fetching what is returned. */
void co_run_end_walk(co_run *run);
/* How many rows one operator may hold. */
uint32_t co_run_rows_max(const co_run *run);
uint32_t co_run_batch_max(const co_run *run);

/* Fetches facets (events: HD_FACET_ID, TIME … SUMMARY; entities and tags: HD_FACET_TYPE, CO_FACET_EVENT_COUNT) of the nodes that lack
 * them. Handles may repeat. */
HD_MUST_USE hd_status co_run_fetch_events(co_run *run, const co_plan_step *plan_step, const uint32_t *handles, uint32_t count,
                                          uint32_t facets);
/* The ids of events, for putting in order what the walk has found already: so the deadline in full holds. */
HD_MUST_USE hd_status co_run_fetch_ids(co_run *run, const co_plan_step *plan_step, const uint32_t *handles, uint32_t count);
HD_MUST_USE hd_status co_run_fetch_names(co_run *run, const co_plan_step *plan_step, hd_label label, const uint32_t *handles,
                                         uint32_t count, uint32_t facets);
/* Makes n_live and n_vectors known, asking for them where no step has yet. */
HD_MUST_USE hd_status co_run_fetch_org_counts(co_run *run, const co_plan_step *plan_step);

/* Are these two relations of the row the same one (section 4.2)? */
bool co_run_is_same_relation(const co_run *run, const uint32_t *row, uint32_t rel_a, uint32_t rel_b);

/* -- expressions over rows (env.c) -- */
HD_MUST_USE hd_status co_run_eval(co_run *run, const uint32_t *row, const hd_expr *expr, hd_value *value_out);
/* True and nothing unknown was needed for it. */
HD_MUST_USE hd_status co_run_is_true(co_run *run, const uint32_t *row, const hd_expr *expr, bool *is_true_out);

#endif
