/* MEASURE: the cosine of every edge, in the partition that holds its `to` end. The `from` vector comes with the step, or is looked up
 * among the partitions of the request.
 *
 * An edge is answered where its `to` end is visible and it is known whether `from` has a vector; the cosine is NAN where either has
 * none. Token: {edge index}. */
#include <math.h>

#include "shard/step_private.h"
#include "shard/vectors/vector_index.h"

typedef enum vector_state { VECTOR_UNKNOWN, VECTOR_NONE, VECTOR_THERE } vector_state;

/* The vector of a `from` end. */
typedef struct measure_from {
    vector_state state;
    const float *vector; /* VECTOR_THERE */
    uint32_t part, row;  /* where it is stored; part UINT32_MAX: it came with the step */
} measure_from;

typedef struct measure_state {
    measure_from *from; /* by index in the frontier */
    const uint64_t *to; /* where each `to` end is, or SH_NOWHERE */
} measure_state;

static uint32_t row_of(const sh_view *view, sh_slot slot) {
    sh_event event;
    sh_view_get_event(view, slot, &event);
    return event.vector;
}

static void find_from(sh_run *run, const sh_frontier *frontier, uint32_t dimension, uint32_t i, measure_from *from) {
    const hd_event_batch *batch = frontier->batch;
    from->part = UINT32_MAX;
    if (batch && batch->vectors && batch->flags && (batch->flags[i] & HD_EVENT_EXISTS)) {
        from->state = (batch->flags[i] & HD_EVENT_HAS_VECTOR) ? VECTOR_THERE : VECTOR_NONE;
        from->vector = batch->vectors + (size_t)i * dimension;
        return;
    }
    if (!sh_run_go_on(run, 1)) return; /* the visits will find it late, too */
    for (uint32_t p = 0; p < run->part_count && from->state == VECTOR_UNKNOWN; p++) {
        if (run->parts[p].code != HD_OK) continue;
        const sh_view *view = &run->parts[p].view;
        sh_slot slot = sh_frontier_slot(run, frontier, i, p);
        if (slot == SH_NONE) continue;
        from->part = p;
        from->row = row_of(view, slot);
        from->state = from->row == SH_NONE ? VECTOR_NONE : VECTOR_THERE;
        if (from->state == VECTOR_THERE) from->vector = sh_vector_index_get(sh_view_vectors(view), from->row);
    }
}

/* Where explicit `to` ends are: each in one partition of the request, or in none. */
static hd_status find_to_ends(sh_run *run, const hd_event_batch *ends, const uint64_t **where_out) {
    uint64_t *where;
    if (ends->locals) return sh_run_check_locals(run, ends->locals, ends->count, where_out);
    HD_ALLOC(where, run->arena, ends->count);
    for (uint32_t t = 0; t < ends->count; t++) {
        where[t] = SH_NOWHERE;
        if (!sh_run_go_on(run, 1)) continue; /* the visits will find it late, too */
        for (uint32_t p = 0; p < run->part_count && where[t] == SH_NOWHERE; p++) {
            if (run->parts[p].code != HD_OK) continue;
            sh_slot slot = sh_view_find_event(&run->parts[p].view, ends->ids[t]);
            if (slot != SH_NONE) where[t] = sh_where(run, p, slot);
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
    work->state = state;
    for (uint32_t i = 0; i < frontier->count; i++) find_from(run, frontier, work->step->dimension, i, &state->from[i]);
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

/* Both norms are known where both vectors are stored in the same partition. */
static double cosine(const sh_view *view, uint32_t part, const measure_from *from, uint32_t row) {
    const sh_vector_index *index = sh_view_vectors(view);
    return from->part == part ? sh_vector_index_cos_rows(index, row, from->row) : sh_vector_index_cos(index, row, from->vector);
}

/* The edges of one frontier event from edge `begin` on; *end_out: how far it came. False: a cap or the deadline. */
static bool measure_one(sh_run *run, sh_work *work, uint32_t part, uint32_t i, uint32_t begin, uint32_t *end_out) {
    const measure_state *state = work->state;
    const measure_from *from = &state->from[i];
    const sh_view *view = &run->parts[part].view;
    hd_edges *edges = &work->result->edges;
    for (uint32_t e = *end_out = begin; e < edges->offsets[i + 1]; *end_out = ++e) {
        uint64_t where = state->to[edges->to[e]];
        if (where == SH_NOWHERE || sh_where_part(run, where) != part) continue;
        uint32_t row = from->state == VECTOR_THERE ? row_of(view, sh_where_slot(where)) : (uint32_t)SH_NONE;
        if (row == SH_NONE ? !sh_run_go_on(run, 1) : !sh_run_take_measured(run)) return false;
        if (row != SH_NONE) edges->cos[e] = cosine(view, part, from, row);
        edges->is_answered[e] = 1;
    }
    return true;
}

static hd_status visit_measure(sh_run *run, sh_work *work, uint32_t part) {
    const measure_state *state = work->state;
    const hd_edges *edges = &work->result->edges;
    uint64_t resumed_at = run->parts[part].token.at[0];
    for (uint32_t i = 0; i < edges->from_count; i++) {
        uint32_t end;
        if (edges->offsets[i + 1] <= resumed_at || state->from[i].state == VECTOR_UNKNOWN) continue;
        uint32_t begin = (uint32_t)HD_MAX((uint64_t)edges->offsets[i], resumed_at);
        if (!measure_one(run, work, part, i, begin, &end)) return sh_run_cut(run, part, &(sh_token){{end}});
    }
    return HD_OK;
}

static hd_status close_measure(sh_run *run, sh_work *work) {
    (void)run, (void)work;
    return HD_OK;
}

const sh_step_ops sh_measure_ops = {.open = open_measure, .visit = visit_measure, .close = close_measure};
