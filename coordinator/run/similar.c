/* See similar.h: the two trips. */
#include "coordinator/run/similar.h"

hd_status co_similar_take(co_run *run, co_adjacency *edges, co_fetched *fetched) {
    const hd_edges *from = &fetched->result.edges;
    HD_TRY(co_nodes_learn_events(&run->nodes, &fetched->result.events, edges->facets | HD_FACET_ID, &fetched->to));
    if (!fetched->outcome.is_complete) run->notable.is_similar_cut = true;
    if (fetched->result.is_approximate) run->notable.is_similar_approximate = true;
    for (uint32_t i = 0; i < fetched->count; i++) {
        uint32_t handle = fetched->handles[i];
        if (handle == CO_CELL_NONE) continue;
        HD_TRY(co_adjacency_begin(edges, handle, co_fetched_state(edges, fetched, i)));
        if (from->offsets == NULL || i >= from->from_count) continue;
        for (uint32_t k = from->offsets[i]; k < from->offsets[i + 1]; k++) {
            HD_TRY(CO_GROW(edges->arena, edges->cos, edges->cos_capacity, edges->edge_count));
            edges->cos[edges->edge_count] = from->cos[k];
            HD_TRY(co_adjacency_add(edges, handle, fetched->to[from->to[k]], 0));
        }
    }
    return HD_OK;
}

/* Asks the owners for the vectors of the frontier and keeps the events that have one. The others are settled: without a vector there
 * are no neighbours; where the owner did not answer, nobody knows. */
static hd_status fetch_vectors(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, const co_fetched *wanted,
                               co_fetched *known, hd_event_batch *batch) {
    uint32_t dimension = run->input->org->dimension;
    hd_step facts = {.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_VECTOR, .dimension = dimension};
    hd_step_result result;
    co_step_outcome outcome;
    HD_TRY(co_fetched_frontier(run, wanted, &facts));
    HD_TRY(co_run_step(run, plan_step, "expand", &facts, &result, &outcome));
    HD_ALLOC(known->handles, run->arena, wanted->count);
    HD_ALLOC(batch->flags, run->arena, wanted->count);
    for (uint32_t i = 0; i < wanted->count; i++) {
        uint8_t flags = i < result.events.count ? result.events.flags[i] : 0;
        if (!(flags & HD_EVENT_HAS_VECTOR) || result.events.vectors == NULL) {
            HD_TRY(co_adjacency_begin(edges, wanted->handles[i], flags & HD_EVENT_EXISTS ? CO_NODE_WHOLE : CO_NODE_CUT));
            continue;
        }
        if (known->count != i) /* the vectors are this step's own: they close up where they are */
            memcpy(result.events.vectors + (size_t)known->count * dimension, result.events.vectors + (size_t)i * dimension,
                   dimension * sizeof(float));
        batch->flags[known->count] = flags;
        known->handles[known->count++] = wanted->handles[i];
    }
    batch->vectors = result.events.vectors;
    batch->dimension = dimension;
    return HD_OK;
}

/* Two trips: what vectors the events have (their owners know), then who is closest to them (everybody is asked). */
hd_status co_similar_fetch(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, co_fetched *wanted) {
    /* Once the budget ended a search, the cut is entered, and no further search would get anywhere. */
    if (run->notable.is_similar_cut && hd_budget_left(run->budget, HD_CAP_MEASURED) == 0) {
        for (uint32_t i = 0; i < wanted->count; i++) HD_TRY(co_adjacency_begin(edges, wanted->handles[i], CO_NODE_CUT));
        return HD_OK;
    }
    co_fetched known = {0};
    hd_step step = co_adjacency_step(edges);
    step.dimension = run->input->org->dimension;
    HD_TRY(fetch_vectors(run, plan_step, edges, wanted, &known, &step.events));
    if (known.count == 0) return HD_OK;
    HD_TRY(co_fetched_frontier(run, &known, &step));
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &known.result, &known.outcome));
    return co_similar_take(run, edges, &known);
}
