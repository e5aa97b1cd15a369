/* The walk's steps: POSTINGS (entity or tag → events), SHARES (event – event by common entities), NEXT (event → event).
 *
 * None keeps anything between two pieces of a cut step: what a token says is enough to go on without giving an edge twice. */
#include <stdlib.h>

#include "shard/step_private.h"

/* Beyond any frontier or list: a token from elsewhere just finds nothing left. */
static uint32_t index_of(uint64_t at) {
    return (uint32_t)HD_MIN(at, (uint64_t)UINT32_MAX);
}

/* -- POSTINGS: token {frontier index, offset in its postings} ----------------------------------------------------------------- */
static hd_status open_postings(sh_run *run, sh_work *work) {
    return sh_work_align_names(run, work, work->frontier.names, false);
}

/* One edge for each kind that is wanted and that the event carries the tag in. */
static hd_status add_tag_edges(sh_run *run, sh_work *work, uint32_t from, uint32_t part, sh_slot slot, uint32_t tag) {
    sh_event event;
    sh_view_get_event(&run->parts[part].view, slot, &event);
    uint8_t wanted = work->step->kinds ? work->step->kinds : HD_KIND_CONTAINS | HD_KIND_REFERS, kinds = 0;
    for (uint32_t t = 0; t < event.tag_count; t++)
        if (event.tags[t].tag == tag) kinds = event.tags[t].kinds & wanted;
    if (kinds == 0) return HD_OK;
    uint32_t row;
    HD_TRY(sh_work_row(run, work, sh_where(run, part, slot), &row));
    if (kinds & HD_KIND_CONTAINS) HD_TRY(sh_work_edge(run, work, from, row, HD_KIND_CONTAINS));
    if (kinds & HD_KIND_REFERS) HD_TRY(sh_work_edge(run, work, from, row, HD_KIND_REFERS));
    return HD_OK;
}

static sh_postings postings_of(const sh_view *view, bool is_tag, uint32_t number) {
    return is_tag ? sh_view_tag_postings(view, number) : sh_view_entity_postings(view, number);
}

/* How many slots a plain array of rows may have for each entry that is read; below that a map is cheaper. */
enum { SLOTS_AN_ENTRY = 16 };

/* Makes room for what `entries` postings can bring. */
static hd_status expect_entries(sh_run *run, sh_work *work, const sh_view *view, uint64_t entries) {
    work->row_at = NULL;
    if (view->slot_end / SLOTS_AN_ENTRY < entries) HD_ALLOC(work->row_at, run->arena, view->slot_end);
    uint64_t rows = HD_MIN(entries, sh_view_live_events(view));
    if (!work->row_at) HD_TRY(hd_map64_reserve(&work->row_of, (uint32_t)rows));
    HD_TRY(sh_grow(run->arena, &work->where, &work->capacity, work->count + (uint32_t)rows, sizeof(*work->where)));
    if (entries > UINT32_MAX / 2) return HD_OK;
    return sh_grow(run->arena, &work->edges, &work->edge_capacity, work->edge_count + (uint32_t)entries, sizeof(*work->edges));
}

static hd_status visit_postings(sh_run *run, sh_work *work, uint32_t part) {
    const sh_view *view = &run->parts[part].view;
    const sh_token *token = &run->parts[part].token;
    bool is_tag = work->frontier.label == HD_LABEL_TAG;
    uint64_t entries = 0;
    /* Counts belong to all of the frontier, also where a cap ends the visit early. */
    uint32_t *numbers;
    HD_ALLOC(numbers, run->arena, work->frontier.count);
    for (uint32_t i = 0; i < work->frontier.count; i++) {
        uint64_t count;
        HD_TRY(sh_work_meet_name(run, work, part, is_tag, i, &numbers[i], &count));
        if (numbers[i] != SH_NONE) entries += postings_of(view, is_tag, numbers[i]).count;
    }
    HD_TRY(expect_entries(run, work, view, HD_MIN(entries, run->request->scanned_max - run->scanned)));
    for (uint32_t i = index_of(token->at[0]); i < work->frontier.count; i++) {
        if (!sh_run_go_on(run, 1)) return sh_run_cut(run, part, &(sh_token){{i, 0}});
        if (numbers[i] == SH_NONE) continue;
        sh_postings postings = postings_of(view, is_tag, numbers[i]);
        for (uint32_t p = i == token->at[0] ? index_of(token->at[1]) : 0; p < postings.count; p++) {
            if (!sh_run_take_scanned(run)) return sh_run_cut(run, part, &(sh_token){{i, p}});
            sh_slot slot = postings.slots[p];
            if (!sh_view_is_visible(view, slot)) continue;
            if (is_tag) {
                HD_TRY(add_tag_edges(run, work, i, part, slot, numbers[i]));
                continue;
            }
            uint32_t row;
            HD_TRY(sh_work_row(run, work, sh_where(run, part, slot), &row));
            HD_TRY(sh_work_edge(run, work, i, row, 0));
        }
    }
    return HD_OK;
}

static hd_status close_postings(sh_run *run, sh_work *work) {
    HD_TRY(sh_work_put_events(run, work, work->step->facets, false));
    return sh_work_put_edges(run, work, work->frontier.count, work->frontier.label == HD_LABEL_TAG, false);
}

const sh_step_ops sh_postings_ops = {.open = open_postings, .visit = visit_postings, .close = close_postings};

/* -- SHARES: token {frontier index, list in the event's order of scanning, offset in it} -------------------------------------- */
/* For a frontier event `a` its entities that exist in the partition are put in order, rarest first. An event that shares `min` of
 * n must stand in the postings of one of the n − min + 1 rarest (leaving out min − 1 of the commonest leaves out no such event), so
 * only these are read. Each event met there is judged by its own entity list, which also gives the exact `via`; it counts only
 * where it is met first, that is, in the rarest entity that it has in common with `a`. */
typedef struct shared_entity {
    uint32_t number, index; /* in the partition; in the result's names */
    uint64_t count;
} shared_entity;

typedef struct shares_state {
    uint32_t *numbers; /* by index in names: the number in the partition visited, or SH_NONE */
    uint64_t *counts;
    shared_entity *lists; /* of the event at hand, in the order of scanning */
    struct by_number {
        uint32_t number, rank;
    } * by_number; /* the same, ascending by number */
} shares_state;

static int compare_rarity(const void *a, const void *b) {
    const shared_entity *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static int compare_by_number(const void *a, const void *b) {
    const struct by_number *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

static hd_status open_shares(sh_run *run, sh_work *work) {
    const sh_frontier *frontier = &work->frontier;
    shares_state *state;
    uint32_t widest = 0;
    for (uint32_t i = 0; frontier->edges->offsets && i < frontier->count; i++)
        widest = HD_MAX(widest, frontier->edges->offsets[i + 1] - frontier->edges->offsets[i]);
    HD_ALLOC(state, run->arena, 1);
    HD_ALLOC(state->numbers, run->arena, frontier->names->count);
    HD_ALLOC(state->counts, run->arena, frontier->names->count);
    HD_ALLOC(state->lists, run->arena, widest);
    HD_ALLOC(state->by_number, run->arena, widest);
    work->state = state;
    return sh_work_align_names(run, work, frontier->names, false);
}

/* Puts the entities of frontier event `i` in order; returns how many there are, each once. */
static uint32_t order_entities(const sh_work *work, uint32_t i) {
    shares_state *state = work->state;
    const hd_edges *edges = work->frontier.edges;
    uint32_t count = 0, distinct = 0;
    if (!edges->offsets) return 0;
    for (uint32_t e = edges->offsets[i]; e < edges->offsets[i + 1]; e++) {
        uint32_t index = edges->to[e];
        if (state->numbers[index] == SH_NONE) continue;
        state->lists[count++] = (shared_entity){.number = state->numbers[index], .index = index, .count = state->counts[index]};
    }
    qsort(state->lists, count, sizeof(*state->lists), compare_rarity);
    for (uint32_t l = 0; l < count; l++)
        if (distinct == 0 || state->lists[distinct - 1].number != state->lists[l].number)
            state->lists[distinct++] = state->lists[l];
    for (uint32_t l = 0; l < distinct; l++) state->by_number[l] = (struct by_number){state->lists[l].number, l};
    qsort(state->by_number, distinct, sizeof(*state->by_number), compare_by_number);
    return distinct;
}

/* Adds the edge to the event in `slot`, if it shares enough and was not met in an earlier list. */
static hd_status judge_candidate(sh_run *run, sh_work *work, uint32_t part, uint32_t i, uint32_t list_count, uint32_t list,
                                 sh_slot slot) {
    const shares_state *state = work->state;
    uint32_t via = work->via_count, shared = 0, entity_count;
    const uint32_t *entities = sh_view_entities_sorted(&run->parts[part].view, slot, &entity_count);
    HD_TRY(sh_grow(run->arena, &work->via, &work->via_capacity, via + list_count, sizeof(*work->via)));
    for (uint32_t a = 0, b = 0; a < list_count && b < entity_count;) {
        uint32_t number_a = state->by_number[a].number, number_b = entities[b];
        if (number_a == number_b) {
            uint32_t rank = state->by_number[a].rank;
            if (rank < list) return HD_OK; /* it was met there */
            work->via[via + shared++] = state->lists[rank].index;
        }
        a += number_a <= number_b;
        b += number_b <= number_a;
    }
    if (shared < work->step->shares_min) return HD_OK;
    uint32_t row;
    HD_TRY(sh_work_row(run, work, sh_where(run, part, slot), &row));
    HD_TRY(sh_work_edge(run, work, i, row, 0));
    work->edges[work->edge_count - 1].via = via;
    work->edges[work->edge_count - 1].via_count = shared;
    work->via_count += shared;
    return HD_OK;
}

/* Events of a list lie anywhere in memory: their rows are sent for in time, and from the rows their entities. */
static void prefetch_candidates(const sh_view *view, const sh_postings *postings, uint64_t offset) {
    enum { ROWS_AHEAD = 24, ENTITIES_AHEAD = 12 };
    if (offset + ROWS_AHEAD < postings->count) sh_view_prefetch_row(view, postings->slots[offset + ROWS_AHEAD]);
    if (offset + ENTITIES_AHEAD < postings->count) sh_view_prefetch_entities(view, postings->slots[offset + ENTITIES_AHEAD]);
}

/* All lists of one frontier event that have to be read, from (`list`, `offset`) on. */
static hd_status share_one(sh_run *run, sh_work *work, uint32_t part, uint32_t i, uint64_t list, uint64_t offset) {
    const shares_state *state = work->state;
    const sh_view *view = &run->parts[part].view;
    uint32_t count = order_entities(work, i);
    if (count < work->step->shares_min) return HD_OK;
    sh_slot self = sh_frontier_slot(run, &work->frontier, i, part);
    for (; list < count - work->step->shares_min + 1; list++, offset = 0) {
        sh_postings postings = sh_view_entity_postings(view, state->lists[list].number);
        for (; offset < postings.count; offset++) {
            if (!sh_run_take_scanned(run)) return sh_run_cut(run, part, &(sh_token){{i, list, offset}});
            sh_slot slot = postings.slots[offset];
            prefetch_candidates(view, &postings, offset);
            if (slot == self || !sh_view_is_visible(view, slot)) continue;
            HD_TRY(judge_candidate(run, work, part, i, count, (uint32_t)list, slot));
        }
    }
    return HD_OK;
}

static hd_status visit_shares(sh_run *run, sh_work *work, uint32_t part) {
    shares_state *state = work->state;
    const sh_token *token = &run->parts[part].token;
    for (uint32_t n = 0; n < work->result->names.count; n++)
        HD_TRY(sh_work_meet_name(run, work, part, false, n, &state->numbers[n], &state->counts[n]));
    for (uint32_t i = index_of(token->at[0]); i < work->frontier.count; i++) {
        bool is_first = i == token->at[0];
        if (!sh_run_go_on(run, 1)) return sh_run_cut(run, part, &(sh_token){{i}});
        HD_TRY(share_one(run, work, part, i, is_first ? token->at[1] : 0, is_first ? token->at[2] : 0));
        if (run->parts[part].verdict->reach != HD_REACH_COMPLETE) break;
    }
    return HD_OK;
}

static hd_status close_shares(sh_run *run, sh_work *work) {
    HD_TRY(sh_work_put_events(run, work, work->step->facets, false));
    return sh_work_put_edges(run, work, work->frontier.count, false, true);
}

const sh_step_ops sh_shares_ops = {.open = open_shares, .visit = visit_shares, .close = close_shares};

/* -- NEXT: token {frontier index, 0: before its thread neighbour; 1: in its explicit edges, offset in them} ------------------- */
/* A frontier event's own place, the same for every partition. */
typedef struct next_from {
    bool is_known;
    sh_place place;
    hd_str thread, previous; /* absent where none */
    uint64_t neighbour;      /* the nearest in its thread of all partitions visited, or SH_NOWHERE */
    sh_place neighbour_place;
} next_from;

typedef struct next_state {
    next_from *from;
    sh_edge *explicits; /* from → index in `wheres` */
    uint64_t *wheres;
    uint32_t explicit_count, explicit_capacity, where_capacity;
} next_state;

static sh_place place_of(const sh_event *event) {
    return (sh_place){.has_order = event->flags & HD_EVENT_HAS_ORDER,
                      .order_index = event->order_index,
                      .timestamp_us = event->timestamp_us,
                      .id = event->id};
}

static void read_from_view(const sh_run *run, uint64_t where, next_from *from) {
    if (where == SH_NOWHERE) return;
    const sh_view *view = &run->parts[sh_where_part(run, where)].view;
    sh_event event;
    sh_view_get_event(view, sh_where_slot(where), &event);
    from->is_known = true;
    from->place = place_of(&event);
    from->previous = event.previous;
    if (event.thread != SH_NONE) from->thread = sh_view_thread_name(view, event.thread);
}

static void read_from_batch(const hd_event_batch *batch, uint32_t i, next_from *from) {
    uint8_t flags = batch->flags[i];
    from->is_known = flags & HD_EVENT_EXISTS;
    from->place = (sh_place){.has_order = flags & HD_EVENT_HAS_ORDER,
                             .order_index = batch->order_index[i],
                             .timestamp_us = batch->timestamp_us[i],
                             .id = batch->ids[i]};
    from->previous = batch->previous[i];
    if (flags & HD_EVENT_HAS_THREAD) from->thread = batch->threads[i];
}

static hd_status open_next(sh_run *run, sh_work *work) {
    const sh_frontier *frontier = &work->frontier;
    next_state *state;
    HD_ALLOC(state, run->arena, 1);
    HD_ALLOC(state->from, run->arena, frontier->count);
    work->state = state;
    const hd_event_batch *batch = frontier->batch;
    bool has_columns = batch && batch->flags && batch->order_index && batch->timestamp_us && batch->previous && batch->threads;
    bool is_explicit = work->step->from_result < 0; /* then its columns tell its places, since its owner may be elsewhere */
    if (is_explicit && !(has_columns && frontier->ids) && frontier->count > 0) return HD_WIRE;
    for (uint32_t i = 0; i < frontier->count; i++) {
        state->from[i].neighbour = SH_NOWHERE;
        if (is_explicit)
            read_from_batch(batch, i, &state->from[i]);
        else
            read_from_view(run, frontier->where[i], &state->from[i]);
    }
    return HD_OK;
}

static hd_status add_explicit(sh_run *run, next_state *state, uint32_t i, uint64_t where) {
    uint32_t count = state->explicit_count;
    HD_TRY(sh_grow(run->arena, &state->explicits, &state->explicit_capacity, count + 1, sizeof(*state->explicits)));
    HD_TRY(sh_grow(run->arena, &state->wheres, &state->where_capacity, count + 1, sizeof(*state->wheres)));
    state->explicits[count] = (sh_edge){.from = i, .to = count};
    state->wheres[count] = where;
    state->explicit_count++;
    return HD_OK;
}

/* The thread neighbour that this partition has to offer. False: a cap or the deadline. */
static bool find_neighbour(sh_run *run, bool is_backward, uint32_t part, next_from *from) {
    const sh_view *view = &run->parts[part].view;
    uint32_t thread = from->thread.data ? sh_view_find_thread(view, from->thread) : (uint32_t)SH_NONE;
    if (thread == SH_NONE) return true;
    uint64_t read = 0;
    sh_slot slot = is_backward ? sh_view_thread_before(view, thread, &from->place, &read)
                               : sh_view_thread_after(view, thread, &from->place, &read);
    if (!sh_run_take_list(run, read)) return false;
    if (slot == SH_NONE) return true;
    sh_event event;
    sh_view_get_event(view, slot, &event);
    sh_place place = place_of(&event);
    int order = from->neighbour == SH_NOWHERE ? -1 : sh_place_compare(&place, &from->neighbour_place);
    if (from->neighbour != SH_NOWHERE && is_backward) order = -order;
    if (order >= 0) return true;
    from->neighbour = sh_where(run, part, slot);
    from->neighbour_place = place;
    return true;
}

/* The explicit edges of frontier event `i` in this partition, from `offset` on. *offset_out: how far it came. */
static hd_status add_explicits(sh_run *run, sh_work *work, uint32_t part, uint32_t i, uint64_t *offset, bool *is_done_out) {
    next_state *state = work->state;
    const sh_view *view = &run->parts[part].view;
    const next_from *from = &state->from[i];
    *is_done_out = false;
    if (work->step->is_backward) {
        sh_slot slot = from->previous.data ? sh_view_find_event(view, from->previous) : (sh_slot)SH_NONE;
        if (slot != SH_NONE && *offset == 0) {
            if (!sh_run_take_scanned(run)) return HD_OK;
            HD_TRY(add_explicit(run, state, i, sh_where(run, part, slot)));
        }
        *is_done_out = true;
        return HD_OK;
    }
    sh_postings followers = sh_view_followers(view, from->place.id);
    for (; *offset < followers.count; ++*offset) {
        if (!sh_run_take_scanned(run)) return HD_OK;
        sh_slot slot = followers.slots[*offset];
        if (sh_view_is_visible(view, slot)) HD_TRY(add_explicit(run, state, i, sh_where(run, part, slot)));
    }
    *is_done_out = true;
    return HD_OK;
}

static hd_status visit_next(sh_run *run, sh_work *work, uint32_t part) {
    next_state *state = work->state;
    const sh_token *token = &run->parts[part].token;
    for (uint32_t i = index_of(token->at[0]); i < work->frontier.count; i++) {
        next_from *from = &state->from[i];
        bool is_first = i == token->at[0], is_done;
        uint64_t offset = is_first ? token->at[2] : 0;
        if (!sh_run_go_on(run, 1)) return sh_run_cut(run, part, &(sh_token){{i}});
        if (!from->is_known) continue;
        bool has_neighbour = is_first && token->at[1] > 0; /* an earlier piece gave it */
        if (!has_neighbour && !find_neighbour(run, work->step->is_backward, part, from))
            return sh_run_cut(run, part, &(sh_token){{i}});
        HD_TRY(add_explicits(run, work, part, i, &offset, &is_done));
        if (!is_done) return sh_run_cut(run, part, &(sh_token){{i, 1, offset}});
    }
    return HD_OK;
}

/* Is what was found all there is? Then edges are final: one a pair, of the sources asked for. Otherwise every candidate goes out, a
 * pair that is both as two edges: only who has them all can tell which is the thread's. */
static bool is_next_final(const sh_run *run, const sh_work *work) {
    if (!run->request->is_whole_org) return false;
    for (uint32_t p = 0; p < run->part_count; p++)
        if (run->parts[p].is_resumed || work->result->verdicts[p].reach != HD_REACH_COMPLETE) return false;
    return true;
}

static hd_status close_next(sh_run *run, sh_work *work) {
    next_state *state = work->state;
    bool is_final = is_next_final(run, work);
    uint8_t wanted = is_final && work->step->kinds ? work->step->kinds : HD_SOURCE_THREAD | HD_SOURCE_EXPLICIT;
    uint32_t row;
    for (uint32_t i = 0; i < work->frontier.count; i++) {
        if (state->from[i].neighbour == SH_NOWHERE || !(wanted & HD_SOURCE_THREAD)) continue;
        HD_TRY(sh_work_row(run, work, state->from[i].neighbour, &row));
        HD_TRY(sh_work_edge(run, work, i, row, HD_SOURCE_THREAD));
    }
    for (uint32_t e = 0; e < state->explicit_count && (wanted & HD_SOURCE_EXPLICIT); e++) {
        const sh_edge *edge = &state->explicits[e];
        if (is_final && state->from[edge->from].neighbour == state->wheres[edge->to]) continue;
        HD_TRY(sh_work_row(run, work, state->wheres[edge->to], &row));
        HD_TRY(sh_work_edge(run, work, edge->from, row, HD_SOURCE_EXPLICIT));
    }
    HD_TRY(sh_work_put_events(run, work, work->step->facets | HD_FACET_ID | HD_FACET_TIME | HD_FACET_ORDER, false));
    return sh_work_put_edges(run, work, work->frontier.count, true, false);
}

const sh_step_ops sh_next_ops = {.open = open_next, .visit = visit_next, .close = close_next};
