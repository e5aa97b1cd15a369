/* SIMILAR: of every event of the frontier the k events closest to it by cosine, the event itself left out. Its vector comes with the
 * step, or (behind another step of a chain) is looked up among the partitions of the request. An event without a vector has no
 * neighbours and is nobody's.
 *
 * Each partition is searched for one frontier event after the other, and what it finds is merged into the best of the partitions before.
 * Token: {frontier index, rows of the vector index that were searched for it}. */
#include "shard/step_private.h"
#include "shard/vectors/vector_index.h"

typedef struct neighbour {
    double cos;
    hd_str id; /* lent by the view */
    uint64_t where;
} neighbour;

/* A frontier event and the best found so far, closest first. */
typedef struct similar_from {
    const float *vector; /* NULL: it has none */
    neighbour *best;
    uint32_t best_count;
} similar_from;

typedef struct similar_state {
    similar_from *from; /* by index in the frontier */
    sh_hit *hits;       /* of the search at hand */
} similar_state;

static const float *find_vector(const sh_run *run, const sh_work *work, uint32_t i) {
    const sh_frontier *frontier = &work->frontier;
    const hd_event_batch *batch = frontier->batch;
    if (batch) return (batch->flags[i] & HD_EVENT_HAS_VECTOR) ? batch->vectors + (size_t)i * work->step->dimension : NULL;
    uint64_t where = frontier->where[i];
    if (where == SH_NOWHERE) return NULL;
    const sh_view *view = &run->parts[sh_where_part(run, where)].view;
    sh_event event;
    sh_view_get_event(view, sh_where_slot(where), &event);
    return event.vector == SH_NONE ? NULL : sh_vector_index_get(sh_view_vectors(view), event.vector);
}

static hd_status open_similar(sh_run *run, sh_work *work) {
    const hd_event_batch *batch = work->frontier.batch;
    uint32_t count = work->frontier.count, k = work->step->similar_k;
    similar_state *state;
    if (k < 1 || k > HD_SIMILAR_K_MAX || (batch && count > 0 && (!batch->flags || !batch->vectors))) return HD_WIRE;
    HD_ALLOC(state, run->arena, 1);
    HD_ALLOC(state->from, run->arena, count);
    HD_ALLOC(state->hits, run->arena, k);
    work->state = state;
    for (uint32_t i = 0; i < count; i++) {
        state->from[i].vector = find_vector(run, work, i);
        if (state->from[i].vector) HD_ALLOC(state->from[i].best, run->arena, k);
    }
    return HD_OK;
}

typedef struct search_self {
    sh_run *run;
    const sh_view *view;
    sh_slot anchor; /* SH_NONE: it is in another partition */
} search_self;

static bool accepts_slot(void *self, uint32_t slot) {
    const search_self *search = self;
    return slot != search->anchor && sh_view_is_visible(search->view, slot);
}

static int compare_ids(void *self, uint32_t a, uint32_t b) {
    const search_self *search = self;
    return hd_str_compare(sh_view_event_id(search->view, a), sh_view_event_id(search->view, b));
}

static bool should_stop(void *self) {
    return !sh_run_check(((search_self *)self)->run);
}

static bool is_closer(const neighbour *a, const neighbour *b) {
    return a->cos != b->cos ? a->cos > b->cos : hd_str_compare(a->id, b->id) < 0;
}

/* Puts a neighbour in its place among the k best. */
static void offer(similar_from *from, uint32_t k, neighbour found) {
    uint32_t at = from->best_count;
    if (at == k && !is_closer(&found, &from->best[k - 1])) return;
    if (at == k)
        at--;
    else
        from->best_count++;
    for (; at > 0 && is_closer(&found, &from->best[at - 1]); at--) from->best[at] = from->best[at - 1];
    from->best[at] = found;
}

/* Searches the rows from `begin` on for one frontier event; false: a cap or the deadline stopped it, and those before
 * *rows_done_out are done. */
static bool search_one(sh_run *run, sh_work *work, uint32_t part, uint32_t i, uint32_t begin, uint32_t *rows_done_out) {
    similar_state *state = work->state;
    const sh_view *view = &run->parts[part].view;
    uint32_t row_end = sh_view_vector_row_end(view), k = work->step->similar_k;
    *rows_done_out = begin;
    if (!sh_run_go_on(run, row_end - begin + 1)) return false;
    search_self self = {.run = run, .view = view, .anchor = sh_frontier_slot(run, &work->frontier, i, part)};
    sh_search search = {.query = state->from[i].vector,
                        .k = HD_MIN(k, row_end - begin),
                        .row_start = begin,
                        .row_end = row_end,
                        .accepts = accepts_slot,
                        .compare_ties = compare_ids,
                        .should_stop = should_stop,
                        .self = &self,
                        .crew = run->check->crew,
                        .measured_max = run->request->measured_max - run->measured};
    sh_search_result result = {.hits = state->hits};
    sh_vector_index_search(sh_view_vectors(view), &search, &result);
    run->measured += result.measured;
    for (uint32_t h = 0; h < result.hit_count; h++) {
        const sh_hit *hit = &result.hits[h];
        offer(&state->from[i], k, (neighbour){hit->score, sh_view_event_id(view, hit->slot), sh_where(run, part, hit->slot)});
    }
    work->result->is_approximate |= result.is_approximate;
    *rows_done_out = result.rows_done;
    if (result.is_stopped) run->stop = result.is_over_budget ? HD_CAP_MEASURED : HD_CAP_DEADLINE;
    return !result.is_stopped;
}

static hd_status visit_similar(sh_run *run, sh_work *work, uint32_t part) {
    const similar_state *state = work->state;
    const sh_token *token = &run->parts[part].token;
    uint64_t row_end = sh_view_vector_row_end(&run->parts[part].view);
    for (uint64_t i = token->at[0]; i < work->frontier.count; i++) {
        uint64_t begin = i == token->at[0] ? HD_MIN(token->at[1], row_end) : 0;
        uint32_t rows_done;
        if (!state->from[i].vector || begin == row_end) continue;
        if (!search_one(run, work, part, (uint32_t)i, (uint32_t)begin, &rows_done))
            return sh_run_cut(run, part, &(sh_token){{i, rows_done}});
    }
    return HD_OK;
}

static hd_status close_similar(sh_run *run, sh_work *work) {
    const similar_state *state = work->state;
    uint32_t count = 0, edge = 0;
    double *cos;
    for (uint32_t i = 0; i < work->frontier.count; i++) count += state->from[i].best_count;
    HD_ALLOC(cos, run->arena, count);
    for (uint32_t i = 0; i < work->frontier.count; i++)
        for (uint32_t b = 0; b < state->from[i].best_count; b++) {
            uint32_t row;
            HD_TRY(sh_work_row(run, work, state->from[i].best[b].where, &row));
            HD_TRY(sh_work_edge(run, work, i, row, 0));
            cos[edge++] = state->from[i].best[b].cos;
        }
    HD_TRY(sh_work_put_events(run, work, work->step->facets | HD_FACET_ID, false));
    HD_TRY(sh_work_put_edges(run, work, work->frontier.count, false, false));
    work->result->edges.cos = cos; /* the edges were added in the order of the frontier, so they stand as they were added */
    return HD_OK;
}

const sh_step_ops sh_similar_ops = {.open = open_similar, .visit = visit_similar, .close = close_similar};
