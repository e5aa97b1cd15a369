/* See chain.h. Which steps ride along is the plan's to say (they start from all that the step before them binds); what only a run knows is
 * checked here: a SHARES that drops edges by weight, a SIMILAR by cosine or a CONNECTED by count lets nothing ride behind it. */
#include "coordinator/run/chain.h"

#include "coordinator/run/cosines.h"

static void add_link(co_chain *chain, const co_plan_step *plan_step, co_adjacency *edges, int32_t from_link) {
    HD_CHECK(chain->link_count < CO_CHAIN_MAX);
    chain->links[chain->link_count++] = (co_link){plan_step, edges, from_link};
}

/* The links of one plan step; *last_out is then the link whose nodes it binds. */
static hd_status add_plan_step(co_run *run, co_chain *chain, const co_plan_step *step, int32_t *last_out) {
    co_adjacency *edges;
    if (step->op == CO_OP_MEASURE) {
        add_link(chain, step, NULL, *last_out);
        return HD_OK;
    }
    HD_TRY(co_adjacency_of_step(run, step, &edges));
    uint32_t hops = step->op == CO_OP_NEXT_WALK ? run->query->rels[step->rel].hops_max : 1;
    if (step->op == CO_OP_SHARES ||
        step->op == CO_OP_SHARES_WALK) { /* of a walk the first step: the next would ask again for what is known */
        co_adjacency *entities;
        HD_TRY(co_adjacency_get(run, CO_EDGES_ENTITIES, 0, 0, &entities));
        add_link(chain, step, entities, *last_out);
        add_link(chain, step, edges, (int32_t)chain->link_count - 1);
    } else {
        for (uint32_t hop = 0; hop < hops; hop++)
            add_link(chain, step, edges, hop == 0 ? *last_out : (int32_t)chain->link_count - 1);
    }
    *last_out = (int32_t)chain->link_count - 1;
    return HD_OK;
}

static hd_status build_chain(co_run *run, co_chain *chain) {
    int32_t last = -1;
    chain->link_count = chain->fetched_count = 0;
    if (run->is_chain_off || !co_fanout_can_chain(run->fanout)) return HD_OK;
    for (uint32_t i = 1; i < run->plan->step_count && run->plan->steps[i].rides_along; i++) {
        const co_plan_step *step = &run->plan->steps[i];
        HD_TRY(add_plan_step(run, chain, step, &last));
        if (step->op == CO_OP_SHARES && run->resolved->rels[step->rel].min_w > 0) break;
        bool is_connected = step->op == CO_OP_EXPAND && run->query->rels[step->rel].relation == HD_REL_CONNECTED;
        if (is_connected && run->resolved->rels[step->rel].min > 1) break;
        if (step->op == CO_OP_SIMILAR && run->resolved->rels[step->rel].similar_min > -1) break;
    }
    return HD_OK;
}

/* A chain is for walks that are small, where trips are what they cost. It runs under these caps (or the query's, where they are lower): a
 * large walk is left to the operators, who ask in pieces, so that what came back in time is not lost with what did not. */
enum { CHAIN_SCANNED = 50000, CHAIN_MEASURED = 20000, CHAIN_FRONTIER = 2000 };

static hd_budget lower_caps(hd_budget *budget, bool is_start_measured) {
    hd_budget before = *budget;
    budget->caps[HD_CAP_SCANNED] = HD_MIN(budget->caps[HD_CAP_SCANNED], budget->used[HD_CAP_SCANNED] + CHAIN_SCANNED);
    if (!is_start_measured) /* a search measures what it has to, with or without a chain; asking for it twice would cost most of all */
        budget->caps[HD_CAP_MEASURED] = HD_MIN(budget->caps[HD_CAP_MEASURED], budget->used[HD_CAP_MEASURED] + CHAIN_MEASURED);
    budget->caps[HD_CAP_FRONTIER] = HD_MIN(budget->caps[HD_CAP_FRONTIER], (uint64_t)CHAIN_FRONTIER);
    return before;
}

/* Was the step stopped by a cap of the chain alone, so that it can still be had as a whole? Then its cost is taken back too. */
static bool take_back(co_run *run, const hd_step_result *result, const co_step_outcome *outcome) {
    hd_budget *budget = run->budget;
    bool is_stopped = false;
    for (uint32_t i = 0; i < outcome->cut_count; i++) {
        hd_cap cap = outcome->cuts[i].cap;
        if (cap != HD_CAP_SCANNED && cap != HD_CAP_MEASURED) return false;
        is_stopped |= hd_budget_left(budget, cap) > 0;
    }
    if (!is_stopped) return false;
    budget->used[HD_CAP_SCANNED] -= HD_MIN(budget->used[HD_CAP_SCANNED], result->used_scanned);
    budget->used[HD_CAP_MEASURED] -= HD_MIN(budget->used[HD_CAP_MEASURED], result->used_measured);
    return true;
}

static hd_status make_steps(co_run *run, const co_chain *chain, const co_plan_step *plan_step, const hd_step *start,
                            hd_step **steps_out) {
    hd_step *steps;
    HD_ALLOC(steps, run->arena, chain->link_count + 1);
    steps[0] = *start;
    co_run_address(run, plan_step, &steps[0]);
    for (uint32_t i = 0; i < chain->link_count; i++) {
        const co_link *link = &chain->links[i];
        hd_step *step = &steps[i + 1];
        if (link->edges != NULL)
            *step = co_adjacency_step(link->edges);
        else
            *step = (hd_step){.kind = HD_STEP_MEASURE, .frontier_label = HD_LABEL_EVENT};
        step->dimension = run->input->org->dimension;
        co_run_address(run, link->plan_step, step);
        step->from_result = link->from_link + 1;
    }
    *steps_out = steps;
    return HD_OK;
}

hd_status co_chain_ask(co_run *run, const co_plan_step *plan_step, hd_step *start, hd_step_result *result_out,
                       co_step_outcome *outcome_out, co_chain *chain) {
    HD_TRY(build_chain(run, chain));
    if (chain->link_count == 0) return co_run_ask(run, plan_step, start, result_out, outcome_out);
    if (run->input->is_client_gone != NULL && run->input->is_client_gone(run->input->self)) return HD_CANCELLED;
    uint32_t count = chain->link_count + 1, done;
    hd_step *steps;
    hd_step_result *results;
    co_step_outcome *outcomes;
    HD_TRY(make_steps(run, chain, plan_step, start, &steps));
    HD_ALLOC(results, run->arena, count);
    HD_ALLOC(outcomes, run->arena, count);
    hd_budget before = lower_caps(run->budget, run->start_vector != NULL);
    hd_status status = co_fanout_run_chain(run->fanout, steps, count, results, outcomes, &done);
    memcpy(run->budget->caps, before.caps, sizeof(before.caps));
    HD_TRY(status);
    if (!outcomes[done - 1].is_complete && take_back(run, &results[done - 1], &outcomes[done - 1])) done--;
    if (done == 0) return co_run_ask(run, plan_step, start, result_out, outcome_out);
    *result_out = results[0];
    *outcome_out = outcomes[0];
    co_run_note(run, plan_step, &steps[0], &outcomes[0]);
    for (uint32_t i = 1; i < done; i++) {
        chain->fetched[i - 1] = (co_fetched){.result = results[i], .outcome = outcomes[i]};
        co_run_note(run, chain->links[i - 1].plan_step, &steps[i], &outcomes[i]);
    }
    chain->fetched_count = done - 1;
    return HD_OK;
}

/* The cosines of all edges of a link. */
static hd_status take_cosines(co_run *run, const co_chain *chain, int32_t source, const co_fetched *measured) {
    const co_fetched *fetched = &chain->fetched[source];
    const hd_edges *pairs = &fetched->result.edges, *edges = &measured->result.edges;
    if (edges->cos == NULL || pairs->offsets == NULL) return HD_OK;
    for (uint32_t i = 0; i < pairs->from_count; i++) {
        if (chain->rows[source][i] == CO_CELL_NONE) continue;
        for (uint32_t k = pairs->offsets[i]; k < pairs->offsets[i + 1]; k++)
            if (edges->is_answered == NULL || edges->is_answered[k])
                HD_TRY(co_cosines_add(run, chain->rows[source][i], fetched->to[pairs->to[k]], edges->cos[k]));
    }
    return HD_OK;
}

/* A link's frontier without the rows whose edges are known already. */
static hd_status claim_rows(co_run *run, co_adjacency *edges, co_fetched *fetched, const uint32_t *rows) {
    HD_ALLOC(fetched->handles, run->arena, fetched->count);
    for (uint32_t i = 0; i < fetched->count; i++) {
        bool is_new = false;
        if (rows[i] != CO_CELL_NONE) HD_TRY(co_adjacency_claim(edges, rows[i], &is_new));
        fetched->handles[i] = is_new ? rows[i] : CO_CELL_NONE;
    }
    return HD_OK;
}

/* The frontier of link `index`: the nodes that its source gave. SHARES stands behind a list of entities and goes on from the list's own
 * events. */
static void find_rows(co_chain *chain, uint32_t index, const uint32_t *start_handles, uint32_t start_count) {
    int32_t source = chain->links[index].from_link;
    co_fetched *fetched = &chain->fetched[index];
    if (source < 0) {
        chain->rows[index] = start_handles;
        fetched->count = start_count;
    } else if (chain->links[index].edges->sort == CO_EDGES_SHARES) {
        chain->rows[index] = chain->rows[source];
        fetched->count = chain->fetched[source].count;
    } else {
        co_edge_sort sort = chain->links[source].edges->sort;
        const hd_step_result *result = &chain->fetched[source].result;
        chain->rows[index] = chain->fetched[source].to;
        bool is_of_names = sort == CO_EDGES_ENTITIES || sort == CO_EDGES_TAGS || sort == CO_EDGES_CONNECTED;
        fetched->count = is_of_names ? result->names.count : result->events.count;
    }
}

hd_status co_chain_take(co_run *run, co_chain *chain, const uint32_t *start_handles, uint32_t start_count) {
    run->has_chained |= chain->fetched_count > 0;
    for (uint32_t i = 0; i < chain->fetched_count; i++) {
        const co_link *link = &chain->links[i];
        co_fetched *fetched = &chain->fetched[i];
        HD_TRY(co_run_enter_cuts(run, link->plan_step, link->edges != NULL ? "expand" : "measure", &fetched->outcome));
        if (link->edges == NULL) {
            HD_TRY(take_cosines(run, chain, link->from_link, fetched));
            continue;
        }
        find_rows(chain, i, start_handles, start_count);
        HD_TRY(claim_rows(run, link->edges, fetched, chain->rows[i]));
        HD_TRY(co_adjacency_take(run, link->edges, fetched));
    }
    return HD_OK;
}
