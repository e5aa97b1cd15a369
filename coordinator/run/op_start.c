/* START: the anchor events, in order. Names are first taken as they are: the step carries the ids they would have, and says how many events
 * each id has. Only where a name has none anywhere is it looked for by folding, and the start run again. */
#include "common/ids.h"
#include "coordinator/run/chain.h"
#include "coordinator/run/op.h"
#include "coordinator/run/start_names.h"

typedef struct start_state {
    uint32_t *handles;
    uint32_t count, emitted;
    bool is_started;
    co_start_names entities, tags;
    co_chain chain; /* what came along with the start */
    bool is_unsure; /* which of the names match nothing is not known */
} start_state;

static hd_status open_start(co_op *op) {
    co_run *run = op->run;
    start_state *state;
    HD_ALLOC(state, run->arena, 1);
    op->state = state;
    const co_resolved *r = run->resolved;
    HD_TRY(co_start_names_init(&state->entities, run->arena, HD_LABEL_ENTITY, r->entities, r->entity_count, r->is_entity_all));
    return co_start_names_init(&state->tags, run->arena, HD_LABEL_TAG, r->tags, r->tag_count, r->is_tag_all);
}

static hd_status add_unresolved(co_run *run, hd_str text) {
    co_start_report *report = &run->start;
    for (uint32_t i = 0; i < report->unresolved_count; i++)
        if (hd_str_is_equal(report->unresolved[i], text)) return HD_OK;
    report->unresolved[report->unresolved_count++] = text;
    return HD_OK;
}

/* Row `row` of what the start gave; its id came with it. */
static hd_status add_event(co_op *op, start_state *state, const hd_event_batch *events, uint32_t row, uint32_t *handle_out) {
    co_nodes *nodes = &op->run->nodes;
    HD_TRY(co_nodes_intern_event(nodes, events->locals[row], handle_out));
    HD_TRY(co_nodes_learn_event(nodes, *handle_out, events, row, HD_FACET_ID | HD_FACET_TIME | op->step->facets));
    co_nodes_event(nodes, *handle_out)->start_index = state->count;
    state->handles[state->count++] = *handle_out;
    return HD_OK;
}

/* -- ids ------------------------------------------------------------------------------------------------------------------------ */

/* An id whose owner did not answer is neither there nor known to be absent. */
static bool is_owner_known(const co_step_outcome *outcome, const hd_step_result *result, uint32_t index) {
    return outcome->is_complete || (result->events.flags[index] & HD_EVENT_EXISTS);
}

static hd_status start_with_ids(co_op *op, start_state *state) {
    co_run *run = op->run;
    const co_resolved *resolved = run->resolved;
    HD_ALLOC(run->start.unresolved, run->arena, resolved->id_count);
    HD_ALLOC(state->handles, run->arena, resolved->id_count);
    hd_step step = {.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_TIME | op->step->facets};
    HD_ALLOC(step.events.ids, run->arena, resolved->id_count);
    uint32_t *asked;
    HD_ALLOC(asked, run->arena, resolved->id_count);
    for (uint32_t i = 0; i < resolved->id_count; i++) { /* what is no event id matches nothing, and no shard is bothered with it */
        asked[i] = CO_CELL_NONE;
        if (!hd_event_id_is_valid(resolved->ids[i])) continue;
        asked[i] = step.events.count;
        step.events.ids[step.events.count++] = resolved->ids[i];
    }
    hd_step_result result = {0};
    co_step_outcome outcome = {.is_complete = true};
    if (step.events.count > 0) HD_TRY(co_chain_ask(run, op->step, &step, &result, &outcome, &state->chain));
    HD_TRY(co_run_enter_cuts(run, op->step, "start", &outcome));
    run->start.is_cut = !outcome.is_complete;
    uint32_t *handle_of_row;
    HD_ALLOC(handle_of_row, run->arena, step.events.count);
    for (uint32_t i = 0; i < resolved->id_count; i++) {
        uint32_t handle = CO_CELL_NONE, row = asked[i];
        if (row != CO_CELL_NONE && (result.events.flags[row] & HD_EVENT_EXISTS)) {
            HD_TRY(add_event(op, state, &result.events, row, &handle));
        } else if (row == CO_CELL_NONE || is_owner_known(&outcome, &result, row)) {
            HD_TRY(add_unresolved(run, resolved->ids[i]));
        }
        if (row != CO_CELL_NONE) handle_of_row[row] = handle;
    }
    return co_chain_take(run, &state->chain, handle_of_row, step.events.count);
}

/* -- searches -------------------------------------------------------------------------------------------------------------------- */

static hd_status make_search(co_op *op, const start_state *state, hd_step *step) {
    co_run *run = op->run;
    const co_resolved *resolved = run->resolved;
    *step = (hd_step){.kind = HD_STEP_START, .facets = HD_FACET_TIME | op->step->facets};
    hd_start *start = &step->start;
    start->mode = run->start_vector != NULL ? HD_START_CLOSEST : HD_START_NEWEST;
    start->k = resolved->k;
    start->has_since = resolved->has_since;
    start->has_until = resolved->has_until;
    start->since_us = resolved->since_us;
    start->until_us = resolved->until_us;
    start->is_exact = resolved->is_exact;
    start->vectors_exact = run->budget->caps[HD_CAP_VECTORS_EXACT];
    start->facets = step->facets;
    if (run->start_vector != NULL) {
        start->dimension = step->dimension = run->input->org->dimension;
        HD_ALLOC(start->vector, run->arena, start->dimension);
        memcpy(start->vector, run->start_vector, start->dimension * sizeof(float));
    }
    HD_TRY(co_start_names_groups(&state->entities, run->arena, &start->entities, &start->entity_groups));
    return co_start_names_groups(&state->tags, run->arena, &start->tags, &start->tag_groups);
}

/* Looks for the names that nothing live has. Where a partition did not answer, nobody knows which these are. */
static hd_status resolve_names(co_op *op, start_state *state, const hd_step_result *result, const co_step_outcome *outcome,
                               bool *is_changed_out) {
    *is_changed_out = false;
    if (result->group_counts != NULL) {
        uint32_t taken = co_start_names_count(&state->entities, result->group_counts);
        taken += co_start_names_count(&state->tags, result->group_counts + taken);
        HD_CHECK(taken == result->group_count_count);
    }
    if (outcome->is_any_missing || result->group_counts == NULL) {
        state->is_unsure = true;
        return HD_OK;
    }
    HD_TRY(co_start_names_fold(op->run, op->step, &state->entities, is_changed_out));
    return co_start_names_fold(op->run, op->step, &state->tags, is_changed_out);
}

static hd_status list_unresolved(co_run *run, const start_state *state, const co_start_names *names) {
    if (state->is_unsure || names->is_unsure) return HD_OK;
    for (uint32_t i = 0; i < names->count; i++)
        if (!names->names[i].is_found) HD_TRY(add_unresolved(run, names->names[i].text));
    return HD_OK;
}

static hd_status report_names(co_run *run, const start_state *state) {
    const co_start *start = &run->query->start;
    const hd_expr *entity = start->entity != NULL ? start->entity : start->entity_all;
    const hd_expr *tag = start->tag != NULL ? start->tag : start->tag_all;
    bool are_tags_first = entity != NULL && tag != NULL && tag->offset < entity->offset;
    HD_ALLOC(run->start.unresolved, run->arena, state->entities.count + state->tags.count);
    HD_TRY(list_unresolved(run, state, are_tags_first ? &state->tags : &state->entities));
    HD_TRY(list_unresolved(run, state, are_tags_first ? &state->entities : &state->tags));
    run->start.are_entities_truncated = state->entities.is_truncated;
    run->start.are_tags_truncated = state->tags.is_truncated;
    return HD_OK;
}

static hd_status take_found(co_op *op, start_state *state, const hd_step_result *result) {
    co_run *run = op->run;
    const hd_event_batch *events = &result->events;
    HD_ALLOC(state->handles, run->arena, events->count);
    for (uint32_t i = 0; i < events->count; i++) {
        uint32_t handle;
        HD_TRY(add_event(op, state, events, i, &handle));
        if (events->scores != NULL) HD_TRY(co_nodes_learn_score(&run->nodes, handle, events->scores[i]));
    }
    run->start.has_more = result->has_more;
    run->start.is_approximate = result->is_approximate;
    run->start.candidates = result->candidates;
    run->start.is_candidates_exact = result->is_candidates_exact;
    return HD_OK;
}

static hd_status start_with_search(co_op *op, start_state *state) {
    co_run *run = op->run;
    hd_step step;
    hd_step_result result;
    co_step_outcome outcome;
    uint64_t scanned = run->budget->used[HD_CAP_SCANNED], measured = run->budget->used[HD_CAP_MEASURED];
    HD_TRY(make_search(op, state, &step));
    HD_TRY(co_chain_ask(run, op->step, &step, &result, &outcome, &state->chain));
    bool is_changed = false;
    if (state->entities.count + state->tags.count > 0) HD_TRY(resolve_names(op, state, &result, &outcome, &is_changed));
    if (state->entities.is_impossible || state->tags.is_impossible) {
        result = (hd_step_result){.is_candidates_exact = true};
        state->chain.fetched_count = 0;
        outcome = (co_step_outcome){.is_complete = true};
    } else if (is_changed) { /* the first run was a guess at the names; what it cost is not the walk's */
        run->budget->used[HD_CAP_SCANNED] = scanned;
        run->budget->used[HD_CAP_MEASURED] = measured;
        HD_TRY(make_search(op, state, &step));
        HD_TRY(co_chain_ask(run, op->step, &step, &result, &outcome, &state->chain));
    }
    HD_TRY(co_run_enter_cuts(run, op->step, "start", &outcome));
    run->start.is_cut = !outcome.is_complete;
    HD_TRY(report_names(run, state));
    HD_TRY(take_found(op, state, &result));
    return co_chain_take(run, &state->chain, state->handles, state->count);
}

/* Nothing could be had at all: then there is no answer, not an empty one. */
static hd_status check_answered(co_op *op, const start_state *state) {
    co_run *run = op->run;
    if (state->count > 0 || run->truncations.count == 0 || run->is_any_answer) return HD_OK;
    bool is_deadline = run->truncations.items[0].cap == HD_CAP_DEADLINE;
    hd_str detail = run->truncations.items[0].detail;
    if (is_deadline) return hd_error_set(run->error, HD_DEADLINE, "start", "the deadline passed before anything could be answered");
    return hd_error_set(run->error, HD_SHARD_DOWN, "start", "no partition of the org could be asked: " HD_STR_FMT,
                        HD_STR_ARG(detail));
}

static hd_status next_start(co_op *op) {
    start_state *state = op->state;
    if (!state->is_started) {
        state->is_started = true;
        HD_TRY(op->run->resolved->start_kind == CO_START_IDS ? start_with_ids(op, state) : start_with_search(op, state));
        op->run->start.count = state->count;
        HD_TRY(check_answered(op, state));
    }
    uint32_t batch_max = co_run_batch_max(op->run), *row;
    for (; state->emitted < state->count && op->out.count < batch_max; state->emitted++) {
        HD_TRY(co_rows_append(&op->out, NULL, &row));
        row[op->step->to] = state->handles[state->emitted];
    }
    op->is_end = state->emitted == state->count;
    return HD_OK;
}

const co_op_table co_op_start_table = {open_start, next_start, NULL};
