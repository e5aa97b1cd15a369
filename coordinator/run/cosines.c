/* See cosines.h. The partition that owns the `to` event measures; where the org is spread over shards, the vectors of the `from` events
 * travel there. So the side with fewer events is `from`. */
#include "coordinator/run/cosines.h"

#include <stdlib.h>

enum { VECTOR_BYTES_MAX = 16 << 20 }; /* vectors sent along with one step */

static uint64_t key_of(uint32_t a, uint32_t b) {
    return (uint64_t)HD_MIN(a, b) << 32 | HD_MAX(a, b);
}

uint32_t co_cosines_find(const co_run *run, uint32_t a, uint32_t b) {
    return hd_map64_get(&run->cos_of_pair, key_of(a, b));
}

typedef struct pair {
    uint32_t from, to;
} pair;

static int compare_pairs(const void *left, const void *right) {
    const pair *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

static int compare_handles(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return a < b ? -1 : a > b;
}

static uint32_t count_distinct(uint32_t *handles, uint32_t count) {
    uint32_t distinct = 0;
    qsort(handles, count, sizeof(*handles), compare_handles);
    for (uint32_t i = 0; i < count; i++) distinct += i == 0 || handles[i] != handles[i - 1];
    return distinct;
}

/* The pairs not known yet, each once, with the smaller side as `from`, sorted. */
static hd_status collect_pairs(co_run *run, const uint32_t *from, const uint32_t *to, uint32_t count, pair **pairs_out,
                               uint32_t *count_out) {
    pair *pairs;
    uint32_t *left, *right, unknown = 0, distinct = 0;
    HD_ALLOC(pairs, run->scratch, count);
    HD_ALLOC(left, run->scratch, count);
    HD_ALLOC(right, run->scratch, count);
    for (uint32_t i = 0; i < count; i++) {
        if (co_cosines_find(run, from[i], to[i]) != HD_MAP_NONE) continue;
        left[unknown] = from[i];
        right[unknown] = to[i];
        pairs[unknown++] = (pair){from[i], to[i]};
    }
    bool is_turned = count_distinct(right, unknown) < count_distinct(left, unknown);
    for (uint32_t i = 0; i < unknown && is_turned; i++) pairs[i] = (pair){pairs[i].to, pairs[i].from};
    qsort(pairs, unknown, sizeof(*pairs), compare_pairs);
    hd_map64 seen; /* (a, b) and (b, a) may both be there */
    hd_map64_init(&seen, run->scratch);
    for (uint32_t i = 0; i < unknown; i++) {
        uint32_t value;
        bool is_new;
        HD_TRY(hd_map64_put(&seen, key_of(pairs[i].from, pairs[i].to), i, &value, &is_new));
        if (is_new) pairs[distinct++] = pairs[i];
    }
    *pairs_out = pairs;
    *count_out = distinct;
    return HD_OK;
}

/* The step for some pairs, sorted by from: ends once each, edges between them. */
static hd_status make_step(co_run *run, const pair *pairs, uint32_t count, hd_step *step) {
    *step = (hd_step){.kind = HD_STEP_MEASURE, .frontier_label = HD_LABEL_EVENT, .dimension = run->input->org->dimension};
    hd_arena *arena = run->scratch;
    HD_ALLOC(step->events.locals, arena, count);
    HD_ALLOC(step->events.flags, arena, count);
    HD_ALLOC(step->to_events.locals, arena, count);
    HD_ALLOC(step->edges.offsets, arena, count + 1);
    HD_ALLOC(step->edges.to, arena, count);
    hd_map64 row_of;
    hd_map64_init(&row_of, arena);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || pairs[i].from != pairs[i - 1].from) {
            step->events.flags[step->events.count] = HD_EVENT_EXISTS;
            step->events.locals[step->events.count++] = co_nodes_event(&run->nodes, pairs[i].from)->local;
        }
        bool is_new;
        HD_TRY(hd_map64_put(&row_of, pairs[i].to, step->to_events.count, &step->edges.to[i], &is_new));
        if (is_new) step->to_events.locals[step->to_events.count++] = co_nodes_event(&run->nodes, pairs[i].to)->local;
        step->edges.offsets[step->events.count] = i + 1;
    }
    step->edges.from_count = step->events.count;
    return HD_OK;
}

/* Puts the vectors of the from ends into the step. A from end whose owner did not answer, or that has no vector, goes without; for
 * the first *is_absent_out says that its cosines cannot be had. */
static hd_status add_vectors(co_run *run, const co_plan_step *plan_step, hd_step *step, bool **is_absent_out) {
    hd_step facts = {.kind = HD_STEP_FACTS,
                     .frontier_label = HD_LABEL_EVENT,
                     .facets = HD_FACET_VECTOR,
                     .dimension = step->dimension,
                     .events = {.count = step->events.count, .locals = step->events.locals}};
    hd_step_result result;
    co_step_outcome outcome;
    HD_TRY(co_run_step(run, plan_step, "measure", &facts, &result, &outcome));
    HD_ALLOC(*is_absent_out, run->scratch, step->events.count);
    for (uint32_t i = 0; i < step->events.count; i++) {
        uint8_t flags = i < result.events.count ? result.events.flags[i] : 0;
        (*is_absent_out)[i] = !(flags & HD_EVENT_EXISTS);
        step->events.flags[i] = flags | HD_EVENT_EXISTS;
    }
    step->events.vectors = result.events.vectors;
    return HD_OK;
}

hd_status co_cosines_add(co_run *run, uint32_t a, uint32_t b, double cosine) {
    uint32_t record;
    bool is_new;
    HD_TRY(CO_GROW(run->arena, run->cosines, run->cosine_capacity, run->cosine_count));
    HD_TRY(hd_map64_put(&run->cos_of_pair, key_of(a, b), run->cosine_count, &record, &is_new));
    if (is_new) run->cosines[run->cosine_count++] = cosine;
    return HD_OK;
}

static hd_status measure_some(co_run *run, const co_plan_step *plan_step, const pair *pairs, uint32_t count) {
    hd_step step;
    bool *is_absent = NULL;
    HD_TRY(make_step(run, pairs, count, &step));
    if (!co_fanout_can_chain(run->fanout)) HD_TRY(add_vectors(run, plan_step, &step, &is_absent));
    hd_step_result result;
    co_step_outcome outcome;
    HD_TRY(co_run_step(run, plan_step, "measure", &step, &result, &outcome));
    const hd_edges *edges = &result.edges;
    if (edges->cos == NULL) return HD_OK;
    for (uint32_t from = 0; from < step.events.count; from++) {
        if (is_absent != NULL && is_absent[from]) continue;
        for (uint32_t i = step.edges.offsets[from]; i < step.edges.offsets[from + 1]; i++)
            if (edges->is_answered == NULL || edges->is_answered[i])
                HD_TRY(co_cosines_add(run, pairs[i].from, pairs[i].to, edges->cos[i]));
    }
    return HD_OK;
}

hd_status co_cosines_measure(co_run *run, const co_plan_step *plan_step, const uint32_t *from, const uint32_t *to, uint32_t count) {
    pair *pairs;
    uint32_t pair_count;
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    HD_TRY(collect_pairs(run, from, to, count, &pairs, &pair_count));
    uint32_t from_max = HD_MAX((uint32_t)(VECTOR_BYTES_MAX / sizeof(float)) / run->input->org->dimension, 1u);
    for (uint32_t first = 0, end = 0; first < pair_count; first = end) {
        uint32_t from_count = 0;
        for (; end < pair_count; end++) {
            bool is_next = end == first || pairs[end].from != pairs[end - 1].from;
            if (is_next && from_count++ == from_max) break;
        }
        HD_TRY(measure_some(run, plan_step, pairs + first, end - first));
    }
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}
