/* START: the anchor events. The newest, or the closest to a vector; of all, or of a scope: events that take part in at least one
 * entity (tag) of every group, within a span of time.
 *
 * A scope is enumerated either along the timeline (no groups) or along the postings of the group with the fewest of them; the other
 * groups are asked of each event. An event that stands in the postings of several ids of that group counts at the first of them,
 * which needs no memory of what was seen and so survives a cut. In the token: at[0], at[1] the next entry to read (list, offset).
 * NEWEST: at[2] how many events in scope the earlier pieces found. CLOSEST: at[2], at[3] how far entries were read by an earlier piece
 * whose search was cut: up to there they were charged, and their candidates counted.
 *
 * What a scope costs does not depend on how it was cut into pieces, nor on what other partitions found: so a budget that is just enough
 * for the whole is enough for its pieces. */
#include <stdlib.h>

#include "shard/step_private.h"
#include "shard/vectors/vector_index.h"

typedef struct best_hit {
    double score; /* CLOSEST */
    int64_t timestamp_us;
    hd_str id;
    uint64_t where;
} best_hit;

/* Of the whole step. */
typedef struct start_state {
    bool is_closest, has_groups, has_scope;
    best_hit *best; /* a heap of at most k, the last of them at the root */
    uint32_t best_count;
    uint64_t in_scope; /* events seen to be in scope, as far as the walk went */
} start_state;

/* One group in one partition. */
typedef struct group_set {
    struct group_number {
        uint32_t number, order; /* order: first position in the group as it was given */
    } * sorted;                 /* by number, distinct */
    uint32_t count;
    const uint32_t *given; /* the number of every id, or SH_NONE */
    uint32_t given_count;
    uint64_t postings; /* of all of them */
    bool is_tag;
} group_set;

typedef struct scope_walk {
    sh_run *run;
    const sh_view *view;
    const hd_start *start;
    group_set *sets;
    uint32_t set_count;
    const group_set *driver;         /* NULL: along the timeline */
    bool is_plain;                   /* one group of one id: what is in its postings is in scope */
    uint64_t list, offset;           /* the next entry to read */
    uint64_t paid_list, paid_offset; /* entries before this one were charged when an earlier piece read them */
    sh_postings postings;            /* of `list` */
    sh_timeline timeline;
} scope_walk;

typedef enum scope_outcome { SCOPE_FOUND, SCOPE_END, SCOPE_CUT } scope_outcome;

/* -- the k best ------------------------------------------------------------------------------------------------------------------ */
static bool is_before(const start_state *state, const best_hit *a, const best_hit *b) {
    if (state->is_closest && a->score != b->score) return a->score > b->score;
    if (!state->is_closest && a->timestamp_us != b->timestamp_us) return a->timestamp_us > b->timestamp_us;
    return hd_str_compare(a->id, b->id) < 0;
}

static void sift_down(start_state *state) {
    best_hit *heap = state->best, moved = heap[0];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < state->best_count; at = child) {
        if (child + 1 < state->best_count && is_before(state, &heap[child], &heap[child + 1])) child++;
        if (!is_before(state, &moved, &heap[child])) break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

/* False: it is not among the k best of those seen so far. */
static bool offer_hit(start_state *state, uint32_t k, const best_hit *hit) {
    if (state->best_count < k) {
        uint32_t at = state->best_count++;
        for (; at > 0 && is_before(state, &state->best[(at - 1) / 2], hit); at = (at - 1) / 2)
            state->best[at] = state->best[(at - 1) / 2];
        state->best[at] = *hit;
        return true;
    }
    if (k == 0 || !is_before(state, hit, &state->best[0])) return false;
    state->best[0] = *hit;
    sift_down(state);
    return true;
}

static best_hit hit_of(const sh_run *run, uint32_t part, sh_slot slot, double score) {
    const sh_view *view = &run->parts[part].view;
    return (best_hit){.score = score,
                      .timestamp_us = sh_view_timestamp(view, slot),
                      .id = sh_view_event_id(view, slot),
                      .where = sh_where(run, part, slot)};
}

/* -- groups ----------------------------------------------------------------------------------------------------------------------- */
static int compare_numbers(const void *a, const void *b) {
    const struct group_number *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static const struct group_number *find_number(const group_set *set, uint32_t number) {
    uint32_t low = 0, high = set->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (set->sorted[middle].number < number)
            low = middle + 1;
        else
            high = middle;
    }
    return low < set->count && set->sorted[low].number == number ? &set->sorted[low] : NULL;
}

static sh_postings postings_of(const sh_view *view, bool is_tag, uint32_t number) {
    return is_tag ? sh_view_tag_postings(view, number) : sh_view_entity_postings(view, number);
}

static hd_status open_set(sh_run *run, const sh_view *view, const hd_name_group *group, bool is_tag, group_set *set) {
    uint32_t *given;
    HD_ALLOC(given, run->arena, group->count);
    HD_ALLOC(set->sorted, run->arena, group->count);
    *set = (group_set){.sorted = set->sorted, .given = given, .given_count = group->count, .is_tag = is_tag};
    uint32_t count = 0;
    for (uint32_t i = 0; i < group->count; i++) {
        given[i] = is_tag ? sh_view_find_tag(view, group->ids[i]) : sh_view_find_entity(view, group->ids[i]);
        if (given[i] != SH_NONE) set->sorted[count++] = (struct group_number){given[i], i};
    }
    qsort(set->sorted, count, sizeof(*set->sorted), compare_numbers);
    for (uint32_t i = 0; i < count; i++) {
        if (set->count > 0 && set->sorted[set->count - 1].number == set->sorted[i].number) continue;
        set->sorted[set->count++] = set->sorted[i];
        set->postings += postings_of(view, is_tag, set->sorted[i].number).count;
    }
    return HD_OK;
}

/* The first position in the group, as it was given, of anything the event has; UINT32_MAX: nothing. */
static uint32_t first_of_set(const group_set *set, const sh_event *event) {
    uint32_t first = UINT32_MAX, count = set->is_tag ? event->tag_count : event->entity_count;
    for (uint32_t i = 0; i < count; i++) {
        const struct group_number *found = find_number(set, set->is_tag ? event->tags[i].tag : event->entities[i]);
        if (found) first = HD_MIN(first, found->order);
    }
    return first;
}

/* -- the scope, one event after the other ----------------------------------------------------------------------------------------- */
/* Opens the lists of `scope->list`, passing over ids that have none here or stood earlier in the group. False: no more lists. */
static bool open_list(scope_walk *scope) {
    const group_set *set = scope->driver;
    for (; scope->list < set->given_count; scope->list++, scope->offset = 0) {
        uint32_t number = set->given[scope->list];
        if (number == SH_NONE || find_number(set, number)->order != scope->list) continue;
        scope->postings = postings_of(scope->view, set->is_tag, number);
        if (scope->offset < scope->postings.count) return true;
    }
    scope->postings = (sh_postings){0};
    return false;
}

static hd_status open_scope(sh_run *run, const sh_view *view, const hd_start *start, const sh_token *token, scope_walk *scope) {
    uint32_t count = start->entity_groups + start->tag_groups;
    *scope =
        (scope_walk){.run = run, .view = view, .start = start, .set_count = count, .list = token->at[0], .offset = token->at[1]};
    HD_ALLOC(scope->sets, run->arena, count);
    for (uint32_t g = 0; g < count; g++) {
        bool is_tag = g >= start->entity_groups;
        const hd_name_group *group = is_tag ? &start->tags[g - start->entity_groups] : &start->entities[g];
        HD_TRY(open_set(run, view, group, is_tag, &scope->sets[g]));
        if (!scope->driver || scope->sets[g].postings < scope->driver->postings) scope->driver = &scope->sets[g];
    }
    if (scope->driver) {
        scope->is_plain = count == 1 && scope->driver->count == 1;
        (void)open_list(scope);
        return HD_OK;
    }
    sh_view_timeline_start(view, start->has_until, start->until_us, &scope->timeline);
    /* What was born after the view is not among the entries, so the place is the same as when the token was written. */
    for (uint64_t skipped = 0; skipped < scope->offset; skipped++)
        if (sh_view_timeline_next(view, &scope->timeline) == SH_NONE) break;
    return HD_OK;
}

static bool is_position_before(uint64_t list, uint64_t offset, uint64_t other_list, uint64_t other_offset) {
    return list != other_list ? list < other_list : offset < other_offset;
}

static bool is_in_time(const hd_start *start, int64_t timestamp_us) {
    return (!start->has_since || timestamp_us >= start->since_us) && (!start->has_until || timestamp_us < start->until_us);
}

/* May the next entry be read? What an earlier piece read costs nothing again. */
static bool take_entry(scope_walk *scope) {
    if (is_position_before(scope->list, scope->offset, scope->paid_list, scope->paid_offset)) return sh_run_go_on(scope->run, 1);
    return sh_run_take_scanned(scope->run);
}

static scope_outcome next_in_timeline(scope_walk *scope, sh_slot *slot_out) {
    for (;;) {
        sh_slot slot = sh_view_timeline_next(scope->view, &scope->timeline);
        if (slot == SH_NONE) return SCOPE_END;
        if (!is_in_time(scope->start, sh_view_timestamp(scope->view, slot))) return SCOPE_END;
        if (!take_entry(scope)) return SCOPE_CUT;
        scope->offset++;
        if (!sh_view_is_visible(scope->view, slot)) continue;
        *slot_out = slot;
        return SCOPE_FOUND;
    }
}

static bool is_in_groups(const scope_walk *scope, sh_slot slot) {
    sh_event event;
    sh_view_get_event(scope->view, slot, &event);
    for (uint32_t g = 0; g < scope->set_count; g++) {
        uint32_t first = first_of_set(&scope->sets[g], &event);
        if (first == UINT32_MAX || (&scope->sets[g] == scope->driver && first != scope->list)) return false;
    }
    return true;
}

static scope_outcome next_in_postings(scope_walk *scope, sh_slot *slot_out) {
    for (;;) {
        if (scope->offset >= scope->postings.count) {
            if (scope->postings.slots) scope->list++;
            scope->offset = 0;
            if (!open_list(scope)) return SCOPE_END;
        }
        if (!take_entry(scope)) return SCOPE_CUT;
        sh_slot slot = scope->postings.slots[scope->offset++];
        if (!sh_view_is_visible(scope->view, slot)) continue;
        if (!is_in_time(scope->start, sh_view_timestamp(scope->view, slot))) continue;
        if (!scope->is_plain && !is_in_groups(scope, slot)) continue;
        *slot_out = slot;
        return SCOPE_FOUND;
    }
}

static scope_outcome next_in_scope(scope_walk *scope, sh_slot *slot_out) {
    return scope->driver ? next_in_postings(scope, slot_out) : next_in_timeline(scope, slot_out);
}

/* -- NEWEST ----------------------------------------------------------------------------------------------------------------------- */
static hd_status visit_newest(sh_run *run, sh_work *work, uint32_t part) {
    start_state *state = work->state;
    const hd_start *start = &work->step->start;
    const sh_view *view = &run->parts[part].view;
    scope_walk scope;
    HD_TRY(open_scope(run, view, start, &run->parts[part].token, &scope));
    /* Along the timeline all that follows is older; one more than k says that there are more. */
    for (uint64_t found = run->parts[part].token.at[2]; scope.driver || found <= start->k; found++) {
        sh_slot slot;
        scope_outcome outcome = next_in_scope(&scope, &slot);
        if (outcome == SCOPE_CUT) return sh_run_cut(run, part, &(sh_token){{scope.list, scope.offset, found}});
        if (outcome == SCOPE_END) return HD_OK;
        state->in_scope++;
        best_hit hit = hit_of(run, part, slot, 0);
        (void)offer_hit(state, start->k, &hit);
    }
    return HD_OK;
}

/* -- CLOSEST ---------------------------------------------------------------------------------------------------------------------- */
typedef struct search_self {
    sh_run *run;
    const sh_view *view;
    bool is_filtered; /* the rows searched are known to be wanted */
} search_self;

static bool accepts_slot(void *self, uint32_t slot) {
    const search_self *search = self;
    return search->is_filtered || sh_view_is_visible(search->view, slot);
}

static int compare_ids(void *self, uint32_t a, uint32_t b) {
    const search_self *search = self;
    return hd_str_compare(sh_view_event_id(search->view, a), sh_view_event_id(search->view, b));
}

static bool should_stop(void *self) {
    return !sh_run_check(((search_self *)self)->run);
}

/* Searches `rows`, which are known to be wanted (NULL: all of the partition), from `begin` to `count`, and offers what it finds. Where
 * it was stopped, those before *rows_done_out are done. */
static hd_status search_rows(sh_run *run, sh_work *work, uint32_t part, const uint32_t *rows, uint32_t begin, uint32_t count,
                             bool *is_done_out, uint32_t *rows_done_out) {
    start_state *state = work->state;
    const hd_start *start = &work->step->start;
    const sh_view *view = &run->parts[part].view;
    *is_done_out = true;
    *rows_done_out = begin;
    if (begin == count) return HD_OK;
    if (!sh_run_go_on(run, 1)) {
        *is_done_out = false;
        return HD_OK;
    }
    search_self self = {.run = run, .view = view, .is_filtered = rows != NULL};
    sh_search search = {.query = start->vector,
                        .k = HD_MIN(start->k, count - begin),
                        .row_start = begin,
                        .row_end = rows ? sh_view_vector_row_end(view) : count,
                        .accepts = accepts_slot,
                        .compare_ties = compare_ids,
                        .should_stop = should_stop,
                        .self = &self,
                        .rows = rows,
                        .row_count = rows ? count : 0,
                        .crew = run->check->crew,
                        .measured_max = run->request->measured_max - run->measured};
    sh_search_result result = {0};
    HD_ALLOC(result.hits, run->arena, search.k);
    sh_vector_index_search(sh_view_vectors(view), &search, &result);
    run->measured += result.measured;
    for (uint32_t h = 0; h < result.hit_count; h++) {
        best_hit hit = hit_of(run, part, result.hits[h].slot, result.hits[h].score);
        (void)offer_hit(state, start->k, &hit);
    }
    work->result->is_approximate |= result.is_approximate;
    *is_done_out = !result.is_stopped;
    *rows_done_out = result.rows_done;
    if (result.is_stopped) run->stop = result.is_over_budget ? HD_CAP_MEASURED : HD_CAP_DEADLINE;
    return HD_OK;
}

static hd_status visit_closest_of_all(sh_run *run, sh_work *work, uint32_t part) {
    uint32_t count = sh_view_vector_row_end(&run->parts[part].view), rows_done;
    uint32_t begin = (uint32_t)HD_MIN(run->parts[part].token.at[1], (uint64_t)count);
    bool is_done;
    HD_TRY(search_rows(run, work, part, NULL, begin, count, &is_done, &rows_done));
    return is_done ? HD_OK : sh_run_cut(run, part, &(sh_token){{0, rows_done}});
}

/* An event in scope that has a vector, and where the scope's walk came upon it. */
typedef struct candidate {
    uint64_t list, offset;
    uint32_t row;
} candidate;

static hd_status visit_closest_in_scope(sh_run *run, sh_work *work, uint32_t part) {
    const sh_view *view = &run->parts[part].view;
    const sh_token *token = &run->parts[part].token;
    start_state *state = work->state;
    candidate *candidates = NULL;
    uint32_t count = 0, capacity = 0, *rows, rows_done;
    scope_walk scope;
    sh_slot slot;
    scope_outcome outcome;
    HD_TRY(open_scope(run, view, &work->step->start, token, &scope));
    scope.paid_list = token->at[2];
    scope.paid_offset = token->at[3];
    while ((outcome = next_in_scope(&scope, &slot)) == SCOPE_FOUND) {
        sh_event event;
        sh_view_get_event(view, slot, &event);
        if (event.vector == SH_NONE) continue;
        HD_TRY(sh_grow(run->arena, &candidates, &capacity, count + 1, sizeof(*candidates)));
        candidates[count++] = (candidate){.list = scope.list, .offset = scope.offset - 1, .row = event.vector};
        state->in_scope++;
        bool is_counted_before = is_position_before(scope.list, scope.offset - 1, token->at[2], token->at[3]);
        if (!is_counted_before) work->result->candidates++;
    }
    hd_cap stop = run->stop;
    HD_ALLOC(rows, run->arena, count);
    for (uint32_t c = 0; c < count; c++) rows[c] = candidates[c].row;
    bool is_searched;
    HD_TRY(search_rows(run, work, part, rows, 0, count, &is_searched, &rows_done));
    bool is_counted = outcome == SCOPE_END || token->at[2] == UINT64_MAX;
    if (!is_counted) work->result->is_candidates_exact = false;
    if (is_searched && outcome == SCOPE_END) return HD_OK;
    sh_token next = {{scope.list, scope.offset, scope.list, scope.offset}};
    if (outcome == SCOPE_END) next.at[2] = UINT64_MAX;
    if (is_position_before(next.at[2], next.at[3], token->at[2], token->at[3]))
        next.at[2] = token->at[2], next.at[3] = token->at[3];
    if (is_searched)
        run->stop = stop;
    else
        next.at[0] = candidates[rows_done].list, next.at[1] = candidates[rows_done].offset;
    return sh_run_cut(run, part, &next);
}

/* -- the step --------------------------------------------------------------------------------------------------------------------- */
static hd_status open_start(sh_run *run, sh_work *work) {
    const hd_start *start = &work->step->start;
    start_state *state;
    if (start->mode != HD_START_NEWEST && start->mode != HD_START_CLOSEST) return HD_WIRE;
    if (start->mode == HD_START_CLOSEST && !start->vector) return HD_WIRE;
    HD_ALLOC(state, run->arena, 1);
    HD_ALLOC(state->best, run->arena, start->k);
    work->state = state;
    state->is_closest = start->mode == HD_START_CLOSEST;
    state->has_groups = start->entity_groups + start->tag_groups > 0;
    state->has_scope = state->has_groups || start->has_since || start->has_until;
    hd_step_result *result = work->result;
    result->is_candidates_exact = true;
    for (uint32_t g = 0; g < start->entity_groups; g++) result->group_count_count += start->entities[g].count;
    for (uint32_t g = 0; g < start->tag_groups; g++) result->group_count_count += start->tags[g].count;
    HD_ALLOC(result->group_counts, run->arena, result->group_count_count);
    return HD_OK;
}

static void add_group_counts(const hd_start *start, const sh_view *view, uint64_t *counts) {
    for (uint32_t g = 0; g < start->entity_groups; g++)
        for (uint32_t i = 0; i < start->entities[g].count; i++, counts++) {
            uint32_t number = sh_view_find_entity(view, start->entities[g].ids[i]);
            if (number != SH_NONE) *counts += sh_view_entity_count(view, number);
        }
    for (uint32_t g = 0; g < start->tag_groups; g++)
        for (uint32_t i = 0; i < start->tags[g].count; i++, counts++) {
            uint32_t number = sh_view_find_tag(view, start->tags[g].ids[i]);
            if (number != SH_NONE) *counts += sh_view_tag_count(view, number);
        }
}

static hd_status visit_start(sh_run *run, sh_work *work, uint32_t part) {
    const start_state *state = work->state;
    if (!run->parts[part].is_resumed) add_group_counts(&work->step->start, &run->parts[part].view, work->result->group_counts);
    if (!state->is_closest) return visit_newest(run, work, part);
    return state->has_scope ? visit_closest_in_scope(run, work, part) : visit_closest_of_all(run, work, part);
}

/* From a heap with the last at the root to an array, best first. */
static void sort_hits(start_state *state) {
    uint32_t count = state->best_count;
    while (state->best_count > 1) {
        best_hit last = state->best[0];
        state->best[0] = state->best[--state->best_count];
        sift_down(state);
        state->best[state->best_count] = last;
    }
    state->best_count = count;
}

static hd_status close_start(sh_run *run, sh_work *work) {
    start_state *state = work->state;
    const hd_start *start = &work->step->start;
    hd_step_result *result = work->result;
    sort_hits(state);
    if (state->is_closest) HD_ALLOC(result->events.scores, run->arena, state->best_count);
    for (uint32_t h = 0; h < state->best_count; h++) {
        uint32_t row;
        HD_TRY(sh_work_row(run, work, state->best[h].where, &row));
        if (state->is_closest) result->events.scores[row] = state->best[h].score;
    }
    uint64_t in_scope = state->in_scope;
    for (uint32_t p = 0; p < run->part_count; p++) {
        if (run->parts[p].code != HD_OK)
            result->is_candidates_exact = false;
        else if (state->is_closest && !state->has_scope)
            in_scope += result->verdicts[p].n_vectors;
    }
    result->has_more = in_scope > start->k;
    return sh_work_put_events(run, work, start->facets | work->step->facets | HD_FACET_ID | HD_FACET_TIME, false);
}

const sh_step_ops sh_start_ops = {.open = open_start, .visit = visit_start, .close = close_start};
