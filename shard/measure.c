/* MEASURE: the cosine of every edge, in the partition that holds its `to` end. The `from` vector comes with the step, or is looked up
 * among the partitions of the request.
 *
 * An edge is answered where its `to` end is visible and it is known whether `from` has a vector; the cosine is NAN where either has
 * none. Token: {edge index}. */
#include <math.h>

#include "common/figure.h"
#include "shard/step_private.h"
#include "shard/vectors/vector_index.h"

typedef enum vector_state { VECTOR_UNKNOWN, VECTOR_NONE, VECTOR_THERE } vector_state;

typedef struct measure_state {
    const float **from; /* by index in the frontier; VECTOR_THERE */
    uint8_t *from_state;
    const uint64_t *to; /* where each `to` end is, or SH_NOWHERE */
} measure_state;

static const float *vector_of(const sh_view *view, sh_slot slot) {
    sh_event event;
    sh_view_get_event(view, slot, &event);
    return event.vector == SH_NONE ? NULL : sh_vector_index_get(sh_view_vectors(view), event.vector);
}

static void find_from(sh_run *run, const sh_frontier *frontier, uint32_t dimension, measure_state *state, uint32_t i) {
    const hd_event_batch *batch = frontier->batch;
    if (batch && batch->vectors && batch->flags && (batch->flags[i] & HD_EVENT_EXISTS)) {
        bool has_vector = batch->flags[i] & HD_EVENT_HAS_VECTOR;
        state->from_state[i] = has_vector ? VECTOR_THERE : VECTOR_NONE;
        state->from[i] = batch->vectors + (size_t)i * dimension;
        return;
    }
    if (!sh_run_go_on(run, 1)) return; /* the visits will find it late, too */
    for (uint32_t p = 0; p < run->part_count && state->from_state[i] == VECTOR_UNKNOWN; p++) {
        if (run->parts[p].code != HD_OK) continue;
        sh_slot slot = sh_frontier_slot(run, frontier, i, p);
        if (slot == SH_NONE) continue;
        state->from[i] = vector_of(&run->parts[p].view, slot);
        state->from_state[i] = state->from[i] ? VECTOR_THERE : VECTOR_NONE;
    }
}

/* Where explicit `to` ends are: each in one partition of the request, or in none. */
static hd_status find_to_ends(sh_run *run, const hd_event_batch *ends, const uint64_t **where_out) {
    uint64_t *where;
    HD_ALLOC(where, run->arena, ends->count);
    for (uint32_t t = 0; t < ends->count; t++) {
        where[t] = SH_NOWHERE;
        if (!sh_run_go_on(run, 1)) continue; /* the visits will find it late, too */
        for (uint32_t p = 0; p < run->part_count && where[t] == SH_NOWHERE; p++) {
            if (run->parts[p].code != HD_OK) continue;
            sh_slot slot = sh_view_find_event(&run->parts[p].view, ends->ids[t]);
            if (slot != SH_NONE) where[t] = sh_where(p, slot);
        }
    }
    *where_out = where;
    return HD_OK;
}

static hd_status open_measure(sh_run *run, sh_work *work) {
    const sh_frontier *frontier = &work->frontier;
    const hd_edges *asked = frontier->edges;
    hd_edges *edges = &work->result->edges;
    uint32_t count = hd_edges_count(asked);
    measure_state *state;
    if (asked->offsets && asked->from_count != frontier->count) return HD_WIRE;
    HD_ALLOC(state, run->arena, 1);
    HD_ALLOC(state->from, run->arena, frontier->count);
    HD_ALLOC(state->from_state, run->arena, frontier->count);
    work->state = state;
    for (uint32_t i = 0; i < frontier->count; i++) find_from(run, frontier, work->step->dimension, state, i);
    if (work->step->from_result >= 0)
        state->to = run->works[work->step->from_result].where;
    else
        HD_TRY(find_to_ends(run, &work->step->to_events, &state->to));
    edges->from_count = frontier->count;
    HD_ALLOC(edges->offsets, run->arena, (size_t)frontier->count + 1);
    if (asked->offsets) memcpy(edges->offsets, asked->offsets, ((size_t)frontier->count + 1) * sizeof(*edges->offsets));
    HD_ALLOC(edges->to, run->arena, count);
    if (count > 0) memcpy(edges->to, asked->to, count * sizeof(*edges->to));
    HD_ALLOC(edges->cos, run->arena, count);
    HD_ALLOC(edges->is_answered, run->arena, count);
    for (uint32_t e = 0; e < count; e++) edges->cos[e] = NAN;
    return HD_OK;
}

static hd_status visit_measure(sh_run *run, sh_work *work, uint32_t part) {
    const measure_state *state = work->state;
    const sh_view *view = &run->parts[part].view;
    hd_edges *edges = &work->result->edges;
    uint64_t from_edge = run->parts[part].token.at[0];
    for (uint32_t i = 0; i < edges->from_count; i++) {
        if (edges->offsets[i + 1] <= from_edge || state->from_state[i] == VECTOR_UNKNOWN) continue;
        for (uint32_t e = (uint32_t)HD_MAX((uint64_t)edges->offsets[i], from_edge); e < edges->offsets[i + 1]; e++) {
            uint64_t where = state->to[edges->to[e]];
            if (where == SH_NOWHERE || sh_where_part(where) != part) continue;
            const float *vector = state->from_state[i] == VECTOR_THERE ? vector_of(view, sh_where_slot(where)) : NULL;
            if (vector) {
                if (!sh_run_take_measured(run)) return sh_run_cut(run, part, &(sh_token){{e}});
                edges->cos[e] = hd_figure_cos(state->from[i], vector, sh_view_dimension(view));
            } else if (!sh_run_go_on(run, 1)) {
                return sh_run_cut(run, part, &(sh_token){{e}});
            }
            edges->is_answered[e] = 1;
        }
    }
    return HD_OK;
}

static hd_status close_measure(sh_run *run, sh_work *work) {
    (void)run, (void)work;
    return HD_OK;
}

const sh_step_ops sh_measure_ops = {.open = open_measure, .visit = visit_measure, .close = close_measure};
