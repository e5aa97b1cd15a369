/* The contract of step.h between the parts of one request, and between a request and its reply. Works on our own structs, so that a
 * sender can ask before it sends. What single columns promise was checked when they were decoded. */
#include <math.h>

#include "common/ids.h"
#include "proto/codec.h"

enum { FACETS_ALL = 4095, KINDS_ALL = HD_KIND_CONTAINS | HD_KIND_REFERS, FACETS_NAMES = HD_FACET_ENTITIES | HD_FACET_TAGS };

/* ---- requests ---- */

/* Which nodes the table has that a later step would take its frontier from; HD_LABEL_NONE: there is none. */
static hd_label names_label(const hd_step *step) {
    switch (step->kind) {
    case HD_STEP_FACTS:
        if (step->frontier_label != HD_LABEL_EVENT) return step->frontier_label;
        if (step->facets & HD_FACET_ENTITIES) return HD_LABEL_ENTITY;
        return step->facets & HD_FACET_TAGS ? HD_LABEL_TAG : HD_LABEL_NONE;
    case HD_STEP_POSTINGS:
    case HD_STEP_RESOLVE: return step->frontier_label;
    case HD_STEP_CONNECTED: return HD_LABEL_ENTITY;
    default: return HD_LABEL_NONE;
    }
}

static bool has_events(const hd_step *step) {
    switch (step->kind) {
    case HD_STEP_START:
    case HD_STEP_POSTINGS:
    case HD_STEP_SHARES:
    case HD_STEP_SIMILAR:
    case HD_STEP_NEXT: return true;
    case HD_STEP_FACTS: return step->frontier_label == HD_LABEL_EVENT;
    default: return false;
    }
}

/* An earlier step of the chain that has what this one needs. */
static bool is_source_sound(const hd_step *steps, uint32_t index) {
    const hd_step *step = &steps[index];
    if (step->from_result < 0 || (uint32_t)step->from_result >= index) return false;
    const hd_step *source = &steps[step->from_result];
    if (step->kind == HD_STEP_MEASURE) return source->kind == HD_STEP_SHARES || source->kind == HD_STEP_NEXT;
    if (step->kind == HD_STEP_SHARES)
        return source->kind == HD_STEP_FACTS && names_label(source) == HD_LABEL_ENTITY && has_events(source);
    if (step->frontier_label == HD_LABEL_EVENT) return has_events(source);
    return names_label(source) == step->frontier_label;
}

static bool are_targets_below(const uint32_t *targets, uint32_t count, uint32_t end) {
    if (count == 0) return true;
    if (targets == NULL) return false;
    uint32_t largest = 0;
    for (uint32_t i = 0; i < count; i++) largest = HD_MAX(largest, targets[i]);
    return largest < end;
}

static bool are_sizes_sound(const hd_event_batch *batch) {
    if (batch->count > 0 && batch->ids == NULL && batch->locals == NULL) return false;
    return batch->vectors == NULL || (batch->dimension >= 1 && batch->dimension <= HD_DIMENSION_MAX);
}

static bool is_start_sound(const hd_start *start) {
    if (start->k < 1 || start->k > HD_START_K_MAX || start->facets > FACETS_ALL) return false;
    if (start->mode == HD_START_NEWEST) return start->vector == NULL;
    if (start->mode != HD_START_CLOSEST || start->vector == NULL) return false;
    return start->dimension >= 1 && start->dimension <= HD_DIMENSION_MAX;
}

/* The explicit frontier of a step, and what must stand beside it. */
static bool is_frontier_sound(const hd_step *step) {
    const hd_event_batch *events = &step->events;
    const hd_edges *edges = &step->edges;
    uint32_t edge_count = hd_edges_count(edges);
    switch (step->kind) {
    case HD_STEP_SHARES:
        if (edges->offsets != NULL && edges->from_count != events->count) return false;
        return are_targets_below(edges->to, edge_count, step->names.count);
    case HD_STEP_MEASURE:
        if (edges->offsets != NULL && edges->from_count != events->count) return false;
        if (events->vectors != NULL && events->dimension != step->dimension) return false;
        return are_targets_below(edges->to, edge_count, step->to_events.count);
    case HD_STEP_SIMILAR:
        if (events->count == 0) return true;
        return events->flags != NULL && events->vectors != NULL && events->dimension == step->dimension;
    case HD_STEP_NEXT:
        return events->count == 0 || (events->ids != NULL && events->flags != NULL && events->timestamp_us != NULL &&
                                      events->order_index != NULL && events->threads != NULL && events->previous != NULL);
    default: return true;
    }
}

static bool is_label_fit(const hd_step *step) {
    bool is_name = step->frontier_label == HD_LABEL_ENTITY || step->frontier_label == HD_LABEL_TAG;
    switch (step->kind) {
    case HD_STEP_START: return true;
    case HD_STEP_FACTS: return is_name || step->frontier_label == HD_LABEL_EVENT;
    case HD_STEP_POSTINGS:
    case HD_STEP_RESOLVE: return is_name;
    case HD_STEP_CONNECTED: return step->frontier_label == HD_LABEL_ENTITY;
    default: return step->frontier_label == HD_LABEL_EVENT;
    }
}

static bool are_facets_fit(const hd_step *step) {
    if (step->facets > FACETS_ALL || step->kinds > KINDS_ALL) return false;
    if (((step->facets | step->start.facets) & HD_FACET_VECTOR) && step->dimension < 1) return false;
    if (step->kind != HD_STEP_FACTS) return (step->facets & FACETS_NAMES) == 0;
    if (step->frontier_label != HD_LABEL_EVENT) return (step->facets & ~(uint32_t)HD_FACET_TYPE) == 0;
    return (step->facets & FACETS_NAMES) != FACETS_NAMES && (step->facets & HD_FACET_TYPE) == 0;
}

static bool is_step_sound(const hd_step *steps, uint32_t index) {
    const hd_step *step = &steps[index];
    if (step->kind < HD_STEP_START || step->kind > HD_STEP_SIMILAR || step->dimension > HD_DIMENSION_MAX) return false;
    if (!is_label_fit(step) || !are_facets_fit(step)) return false;
    if (!are_sizes_sound(&step->events) || !are_sizes_sound(&step->to_events)) return false;
    if (step->names.count > 0 && step->names.ids == NULL) return false;
    if (step->kind == HD_STEP_SHARES && step->shares_min < 1) return false;
    if (step->kind == HD_STEP_SIMILAR && (step->similar_k < 1 || step->similar_k > HD_SIMILAR_K_MAX)) return false;
    if (step->kind == HD_STEP_START) return step->from_result == -1 && is_start_sound(&step->start);
    if (step->kind == HD_STEP_RESOLVE) return step->from_result == -1 && (step->folded_count == 0 || step->folded != NULL);
    return step->from_result == -1 ? is_frontier_sound(step) : is_source_sound(steps, index);
}

/* Sets of ordinals, a bit each. False: it was in the set. */
static bool add_ordinal(uint64_t *set, uint32_t ordinal) {
    uint64_t bit = UINT64_C(1) << ordinal % 64;
    if (set[ordinal / 64] & bit) return false;
    set[ordinal / 64] |= bit;
    return true;
}

hd_status hd_codec_check_request(const hd_step_request *request) {
    uint32_t all = request->org_partitions;
    if (all < 1 || all > HD_PARTITIONS_MAX || (all & (all - 1)) != 0) return HD_WIRE;
    if (request->partition_count < 1 || request->partition_count > all) return HD_WIRE;
    if (request->is_whole_org && request->partition_count != all) return HD_WIRE;
    uint64_t ordinals[HD_PARTITIONS_MAX / 64] = {0};
    for (uint32_t i = 0; i < request->partition_count; i++) {
        if (request->partitions[i].ordinal >= all || !add_ordinal(ordinals, request->partitions[i].ordinal)) return HD_WIRE;
        for (uint32_t j = 0; j < i; j++) {
            if (request->partitions[i].id == request->partitions[j].id) return HD_WIRE;
        }
    }
    if (request->step_count < 1 || request->step_count > HD_STEPS_MAX) return HD_WIRE;
    for (uint32_t i = 0; i < request->step_count; i++) {
        if (!is_step_sound(request->steps, i)) return HD_WIRE;
    }
    return HD_OK;
}

/* ---- replies ---- */

/* What a step started from: how many nodes, and for MEASURE how many edges. */
typedef struct frontier {
    uint32_t count, edge_count;
} frontier;

static frontier frontier_of(const hd_step *step, const hd_step_result *results) {
    bool is_event = step->frontier_label == HD_LABEL_EVENT;
    if (step->from_result < 0) {
        return (frontier){is_event ? step->events.count : step->names.count, hd_edges_count(&step->edges)};
    }
    const hd_step_result *source = &results[step->from_result];
    if (step->kind == HD_STEP_MEASURE) return (frontier){source->edges.from_count, hd_edges_count(&source->edges)};
    return (frontier){is_event ? source->events.count : source->names.count, 0};
}

static uint32_t group_ids(const hd_start *start) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < start->entity_groups; i++) count += start->entities[i].count;
    for (uint32_t i = 0; i < start->tag_groups; i++) count += start->tags[i].count;
    return count;
}

/* Edges of a result: from each frontier node, to a table of `to_count`, via a table of `via_count`. */
static bool are_edges_sound(const hd_edges *edges, uint32_t from_count, uint32_t to_count, uint32_t via_count) {
    if (edges->offsets == NULL) return true;
    uint32_t count = hd_edges_count(edges);
    if (edges->from_count != from_count || !are_targets_below(edges->to, count, to_count)) return false;
    return edges->via_offsets == NULL || are_targets_below(edges->via, edges->via_offsets[count], via_count);
}

static bool are_facts_sound(const hd_step *step, const hd_step_result *result, frontier from) {
    if (step->frontier_label != HD_LABEL_EVENT) return result->names.count == from.count;
    uint32_t count = hd_edges_count(&result->edges);
    if (result->events.count != from.count || (count > 0 && !(step->facets & FACETS_NAMES))) return false;
    if ((step->facets & HD_FACET_TAGS) && count > 0 && result->edges.kinds == NULL) return false;
    return are_edges_sound(&result->edges, from.count, result->names.count, 0);
}

/* At most k of each, every one with its cosine. */
static bool is_similar_sound(const hd_step *step, const hd_step_result *result, frontier from) {
    const hd_edges *edges = &result->edges;
    uint32_t count = hd_edges_count(edges);
    if (!are_edges_sound(edges, from.count, result->events.count, 0)) return false;
    if (count > 0 && edges->cos == NULL) return false;
    for (uint32_t i = 0; i < count; i++)
        if (isnan(edges->cos[i])) return false;
    for (uint32_t i = 0; count > 0 && i < from.count; i++)
        if (edges->offsets[i + 1] - edges->offsets[i] > step->similar_k) return false;
    return true;
}

static bool is_measure_sound(const hd_edges *edges, frontier from) {
    if (hd_edges_count(edges) != from.edge_count) return false;
    return from.edge_count == 0 || (edges->cos != NULL && edges->is_answered != NULL);
}

/* One edge a pair, of at least one event; nobody is connected to itself (ids are compared where the frontier stands in the step). */
static bool is_connected_sound(const hd_step *step, const hd_step_result *result, frontier from) {
    const hd_edges *edges = &result->edges;
    uint32_t count = hd_edges_count(edges);
    for (uint32_t p = 0; p < result->verdict_count; p++)
        if (result->verdicts[p].done > from.count) return false;
    if (result->events.count > 0 || !are_edges_sound(edges, from.count, result->names.count, 0)) return false;
    if (count > 0 && edges->counts == NULL) return false;
    for (uint32_t e = 0; e < count; e++)
        if (edges->counts[e] < 1 || edges->counts[e] > INT64_MAX) return false;
    for (uint32_t i = 0; count > 0 && step->from_result < 0 && i < from.count; i++)
        for (uint32_t e = edges->offsets[i]; e < edges->offsets[i + 1]; e++)
            if (hd_id128_is_equal(step->names.ids[i], result->names.ids[edges->to[e]])) return false;
    return true;
}

static bool is_start_result_sound(const hd_start *start, const hd_step_result *result) {
    if (result->events.count > start->k || result->group_count_count != group_ids(start)) return false;
    if (result->events.count == 0) return true;
    return result->events.timestamp_us != NULL && (start->mode == HD_START_NEWEST || result->events.scores != NULL);
}

static bool is_resolve_sound(const hd_step *step, const hd_step_result *result) {
    return result->names.count == 0 || are_targets_below(result->fold_of, result->names.count, step->folded_count);
}

/* Every event is of a partition that was asked; only FACTS gives rows of events that do not exist. */
static bool are_locals_sound(const hd_event_batch *batch, const uint64_t *ordinals, bool is_none_allowed) {
    uint32_t bad = 0;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t ordinal = hd_local_ordinal(batch->locals[i]);
        bool is_none = batch->locals[i] == HD_LOCAL_NONE;
        bool is_asked = ordinal < HD_PARTITIONS_MAX && ordinals[ordinal / 64] >> ordinal % 64 & 1;
        bad |= !(is_asked || (is_none && is_none_allowed));
    }
    return bad == 0;
}

/* The steps whose events come with their ids in any case. */
static uint32_t ids_facet(const hd_step *step) {
    bool is_by_id = step->kind == HD_STEP_FACTS && step->from_result < 0 && step->events.locals == NULL;
    bool is_ranked = step->kind == HD_STEP_START || step->kind == HD_STEP_NEXT || step->kind == HD_STEP_SIMILAR;
    return is_ranked || is_by_id ? HD_FACET_ID : 0;
}

/* The columns that were asked for are there; without them a reader would meet NULL. */
static bool has_facets(const hd_event_batch *batch, uint32_t facets) {
    if (batch->count == 0) return true;
    if ((facets & HD_FACET_ID_FEW) && batch->count <= HD_IDS_FEW) facets |= HD_FACET_ID;
    const struct {
        uint32_t facet;
        const void *column;
    } columns[] = {{HD_FACET_ID, batch->ids},           {HD_FACET_TIME, batch->timestamp_us}, {HD_FACET_ORDER, batch->order_index},
                   {HD_FACET_THREAD, batch->threads},   {HD_FACET_PREVIOUS, batch->previous}, {HD_FACET_SUMMARY, batch->summaries},
                   {HD_FACET_CONTENT, batch->contents}, {HD_FACET_VECTOR, batch->vectors}};
    if (batch->flags == NULL || batch->locals == NULL) return false;
    for (size_t i = 0; i < HD_COUNT_OF(columns); i++) {
        if ((facets & columns[i].facet) && columns[i].column == NULL) return false;
    }
    return true;
}

static bool is_result_sound(const hd_step *step, const hd_step_result *results, uint32_t index, const uint64_t *ordinals) {
    const hd_step_result *result = &results[index];
    frontier from = frontier_of(step, results);
    if (result->number != step->number) return false;
    if (!has_facets(&result->events, (step->kind == HD_STEP_START ? step->start.facets : step->facets) | ids_facet(step)))
        return false;
    if (!are_locals_sound(&result->events, ordinals, step->kind == HD_STEP_FACTS)) return false;
    uint32_t edge_count = hd_edges_count(&result->edges);
    switch (step->kind) {
    case HD_STEP_START: return edge_count == 0 && is_start_result_sound(&step->start, result);
    case HD_STEP_FACTS: return are_facts_sound(step, result, from);
    case HD_STEP_POSTINGS:
        if (result->names.count != from.count) return false;
        if (step->frontier_label == HD_LABEL_TAG && edge_count > 0 && result->edges.kinds == NULL) return false;
        return are_edges_sound(&result->edges, from.count, result->events.count, 0);
    case HD_STEP_SHARES:
        if (edge_count > 0 && result->edges.via_offsets == NULL) return false;
        return are_edges_sound(&result->edges, from.count, result->events.count, result->names.count);
    case HD_STEP_NEXT:
        if (edge_count > 0 && result->edges.kinds == NULL) return false;
        return are_edges_sound(&result->edges, from.count, result->events.count, 0);
    case HD_STEP_MEASURE: return is_measure_sound(&result->edges, from);
    case HD_STEP_RESOLVE: return edge_count == 0 && is_resolve_sound(step, result);
    case HD_STEP_CONNECTED: return is_connected_sound(step, result, from);
    case HD_STEP_SIMILAR: return is_similar_sound(step, result, from);
    }
    return false;
}

hd_status hd_codec_check_reply(const hd_step_request *request, const hd_step_reply *reply) {
    if (reply->partition_count != request->partition_count || reply->result_count > request->step_count) return HD_WIRE;
    uint64_t ordinals[HD_PARTITIONS_MAX / 64] = {0};
    for (uint32_t i = 0; i < request->partition_count; i++) {
        if (reply->partitions[i].id != request->partitions[i].id) return HD_WIRE;
        (void)add_ordinal(ordinals, request->partitions[i].ordinal); /* below 256: the request was checked before it was sent */
    }
    for (uint32_t i = 0; i < reply->result_count; i++) {
        const hd_step_result *result = &reply->results[i];
        if (result->verdict_count != request->partition_count) return HD_WIRE;
        for (uint32_t p = 0; p < request->partition_count; p++) {
            if (result->verdicts[p].partition != request->partitions[p].id) return HD_WIRE;
        }
        if (!is_result_sound(&request->steps[i], reply->results, i, ordinals)) return HD_WIRE;
    }
    return HD_OK;
}
