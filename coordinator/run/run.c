/* See run.h: steps with their truncations, the checks of loops, and fetching facts. */
#include "coordinator/run/run.h"

#include "common/clock.h"
#include "coordinator/run/adjacency.h"

/* Which steps are asked of every partition of the org, so that their counts are the org's. */
static bool is_asked_of_all(const hd_step *step) {
    switch (step->kind) {
    case HD_STEP_FACTS: return step->frontier_label != HD_LABEL_EVENT;
    case HD_STEP_MEASURE: return false;
    default: return true;
    }
}

/* Caps that are spent: a partition that met one has answered with what it had. */
static bool is_count_cap(hd_cap cap) {
    return cap == HD_CAP_SCANNED || cap == HD_CAP_MEASURED || cap == HD_CAP_FRONTIER;
}

static uint64_t elapsed_ms(const co_run *run) {
    return (hd_clock_monotonic_us() - run->start_us) / 1000;
}

static hd_status add_cut(co_run *run, const co_plan_step *plan_step, const char *stage, hd_cap cap, uint64_t reached,
                         hd_str detail) {
    hd_truncation record = {.stage = stage,
                            .step = plan_step->number,
                            .relation = plan_step->rel == CO_PLAN_NONE ? HD_REL_NONE : run->query->rels[plan_step->rel].relation,
                            .cap = cap,
                            .detail = detail};
    if (cap < HD_CAP_COUNT) {
        record.limit = run->budget->caps[cap];
        record.reached = reached;
    }
    return hd_truncations_add(&run->truncations, run->arena, &record);
}

hd_status co_run_cut(co_run *run, const co_plan_step *plan_step, const char *stage, hd_cap cap, uint64_t reached) {
    return add_cut(run, plan_step, stage, cap, reached, (hd_str){NULL, 0});
}

void co_run_address(const co_run *run, const co_plan_step *plan_step, hd_step *step) {
    step->number = plan_step->number;
    step->from_result = -1;
    step->relation = plan_step->rel == CO_PLAN_NONE ? HD_REL_NONE : run->query->rels[plan_step->rel].relation;
}

void co_run_note(co_run *run, const co_plan_step *plan_step, const hd_step *step, const co_step_outcome *outcome) {
    co_profile *profile = &run->profiles[plan_step->number - 1];
    profile->partitions = HD_MAX(profile->partitions, outcome->partitions_asked);
    if (!outcome->is_any_missing && is_asked_of_all(step)) {
        run->n_live = outcome->n_live;
        run->n_vectors = outcome->n_vectors;
        run->has_org_counts = true;
    }
    uint64_t silent = 0; /* partitions that gave nothing, at the most */
    for (uint32_t i = 0; i < outcome->cut_count; i++)
        if (!is_count_cap(outcome->cuts[i].cap)) silent += outcome->cuts[i].partitions;
    if (outcome->partitions_asked > silent) run->is_any_answer = true;
}

hd_status co_run_ask(co_run *run, const co_plan_step *plan_step, hd_step *step, hd_step_result *result_out,
                     co_step_outcome *outcome_out) {
    *result_out = (hd_step_result){0};
    *outcome_out = (co_step_outcome){0};
    if (run->input->is_client_gone != NULL && run->input->is_client_gone(run->input->self)) return HD_CANCELLED;
    co_run_address(run, plan_step, step);
    HD_TRY(co_fanout_run(run->fanout, step, result_out, outcome_out));
    co_run_note(run, plan_step, step, outcome_out);
    return HD_OK;
}

hd_status co_run_enter_cuts(co_run *run, const co_plan_step *plan_step, const char *stage, const co_step_outcome *outcome) {
    for (uint32_t i = 0; i < outcome->cut_count; i++) {
        const struct co_cut *cut = &outcome->cuts[i];
        uint64_t reached = 0;
        if (cut->cap == HD_CAP_DEADLINE)
            reached = elapsed_ms(run);
        else if (cut->cap < HD_CAP_COUNT)
            reached = run->budget->used[cut->cap];
        HD_TRY(add_cut(run, plan_step, stage, cut->cap, reached, cut->detail));
    }
    return HD_OK;
}

hd_status co_run_step(co_run *run, const co_plan_step *plan_step, const char *stage, hd_step *step, hd_step_result *result_out,
                      co_step_outcome *outcome_out) {
    HD_TRY(co_run_ask(run, plan_step, step, result_out, outcome_out));
    return co_run_enter_cuts(run, plan_step, stage, outcome_out);
}

hd_status co_run_check(co_run *run, const co_plan_step *plan_step, const char *stage, bool *is_over_out) {
    *is_over_out = false;
    if (run->input->is_client_gone != NULL && run->input->is_client_gone(run->input->self)) return HD_CANCELLED;
    if (hd_clock_monotonic_us() < run->walk_deadline_us) return HD_OK;
    *is_over_out = true;
    return co_run_cut(run, plan_step, stage, HD_CAP_DEADLINE, elapsed_ms(run));
}

void co_run_end_walk(co_run *run) {
    run->walk_deadline_us = run->deadline_us;
    co_fanout_set_deadline(run->fanout, run->deadline_us);
}

uint32_t co_run_rows_max(const co_run *run) {
    uint64_t cap = run->budget->caps[HD_CAP_ROWS];
    return cap > UINT32_MAX - 1 ? UINT32_MAX - 1 : HD_MAX((uint32_t)cap, 1u);
}

uint32_t co_run_batch_max(const co_run *run) {
    return HD_MIN(co_run_rows_max(run), (uint32_t)CO_BATCH_ROWS);
}

/* -- facts ---------------------------------------------------------------------------------------------------------------------- */

/* One step for events that are distinct; `facets` of each is learnt. */
static hd_status fetch_event_facts(co_run *run, const co_plan_step *plan_step, const uint32_t *wanted, uint32_t wanted_count,
                                   uint32_t facets) {
    hd_step step = {
        .kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = facets, .dimension = run->input->org->dimension};
    step.events.count = wanted_count;
    HD_ALLOC(step.events.locals, run->scratch, wanted_count);
    for (uint32_t i = 0; i < wanted_count; i++) step.events.locals[i] = co_nodes_event(&run->nodes, wanted[i])->local;
    hd_step_result result;
    co_step_outcome outcome;
    HD_TRY(co_run_step(run, plan_step, "facts", &step, &result, &outcome));
    for (uint32_t i = 0; i < result.events.count && i < wanted_count; i++)
        if (result.events.flags[i] & HD_EVENT_EXISTS)
            HD_TRY(co_nodes_learn_event(&run->nodes, wanted[i], &result.events, i, facets));
    return HD_OK;
}

hd_status co_run_fetch_events(co_run *run, const co_plan_step *plan_step, const uint32_t *handles, uint32_t count,
                              uint32_t facets) {
    uint32_t *wanted;
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    HD_ALLOC(wanted, run->scratch, count);
    uint32_t wanted_count = 0, missing = 0;
    for (uint32_t i = 0; i < count; i++) {
        co_event *event = co_nodes_event(&run->nodes, handles[i]);
        uint32_t lacking = facets & ~(event->known | event->asked);
        if (lacking == 0) continue;
        event->asked |= facets;
        missing |= lacking;
        wanted[wanted_count++] = handles[i];
    }
    if (wanted_count > 0) HD_TRY(fetch_event_facts(run, plan_step, wanted, wanted_count, missing));
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}

hd_status co_run_fetch_ids(co_run *run, const co_plan_step *plan_step, const uint32_t *handles, uint32_t count) {
    co_fanout_set_deadline(run->fanout, run->deadline_us);
    hd_status status = co_run_fetch_events(run, plan_step, handles, count, HD_FACET_ID);
    co_fanout_set_deadline(run->fanout, run->walk_deadline_us);
    return status;
}

hd_status co_run_fetch_names(co_run *run, const co_plan_step *plan_step, hd_label label, const uint32_t *handles, uint32_t count,
                             uint32_t facets) {
    uint32_t wanted_count = 0, missing = 0, *learnt;
    hd_step step = {.kind = HD_STEP_FACTS, .frontier_label = label};
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    HD_ALLOC(step.names.ids, run->scratch, count);
    for (uint32_t i = 0; i < count; i++) {
        co_name *name = co_nodes_name(&run->nodes, label, handles[i]);
        uint32_t lacking = facets & ~(name->known | name->asked);
        if (lacking == 0) continue;
        name->asked |= facets;
        missing |= lacking;
        step.names.ids[wanted_count++] = name->id;
    }
    if (wanted_count > 0) {
        step.names.count = wanted_count;
        step.facets = missing & HD_FACET_TYPE;
        hd_step_result result;
        co_step_outcome outcome;
        HD_TRY(co_run_step(run, plan_step, "facts", &step, &result, &outcome));
        HD_TRY(co_nodes_learn_names(&run->nodes, label, &result.names, outcome.is_complete && !outcome.is_any_missing, &learnt));
    }
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}

hd_status co_run_fetch_org_counts(co_run *run, const co_plan_step *plan_step) {
    if (run->has_org_counts) return HD_OK;
    hd_id128 nobody = {{0}}; /* the hash of no name that anyone could find; what counts is the verdicts */
    hd_step step = {.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_ENTITY};
    step.names.count = 1;
    step.names.ids = &nobody;
    hd_step_result result;
    co_step_outcome outcome;
    return co_run_ask(run, plan_step, &step, &result, &outcome); /* only a note hangs on it: no cut of the answer */
}

/* -- uniqueness ------------------------------------------------------------------------------------------------------------------- */

static void get_ends(const co_run *run, const uint32_t *row, const co_rel *rel, uint32_t *first_out, uint32_t *second_out) {
    uint32_t left = row[rel->left], right = row[rel->right];
    bool is_swapped = false;
    switch (rel->relation) {
    case HD_REL_SHARES:
    case HD_REL_CONNECTED:
    case HD_REL_SIMILAR:
    case HD_REL_FAR: is_swapped = left > right; break; /* no arrow: the ends in either order are one relation */
    case HD_REL_NEXT: is_swapped = rel->arrow == CO_ARROW_LEFT; break;
    default: is_swapped = run->query->vars[rel->left].label == HD_LABEL_EVENT; break; /* the event stands second */
    }
    *first_out = is_swapped ? right : left;
    *second_out = is_swapped ? left : right;
}

bool co_run_is_same_relation(const co_run *run, const uint32_t *row, uint32_t rel_a, uint32_t rel_b) {
    const co_rel *a = &run->query->rels[rel_a], *b = &run->query->rels[rel_b];
    uint32_t a_first, a_second, b_first, b_second;
    get_ends(run, row, a, &a_first, &a_second);
    get_ends(run, row, b, &b_first, &b_second);
    if (a_first != b_first || a_second != b_second) return false;
    return a->relation != HD_REL_MEMBER_OF ||
           run->rel_edges[rel_a]->kinds[row[a->var]] == run->rel_edges[rel_b]->kinds[row[b->var]];
}
