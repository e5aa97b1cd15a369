/* See merge.h. Tables of the pieces are united first: every distinct node gets one row, found by its local or its id; edges then point to united
 * rows. Aligned tables (FACTS, POSTINGS, MEASURE) have the step's rows instead. Nodes come in the order of pieces and rows. */
#define _GNU_SOURCE /* qsort_r */
#include "coordinator/run/merge.h"

#include <math.h>
#include <stdlib.h>

#include "common/map.h"

/* ---- uniting tables ---- */

/* Where a united row has its columns. */
typedef struct row_ref {
    uint32_t piece, row;
} row_ref;

typedef struct united {
    row_ref *refs;
    uint32_t count;
    uint32_t **place_of; /* [piece][row of the piece] → row here */
} united;

static uint32_t rows_of(const co_piece *piece, bool is_names) {
    return is_names ? piece->result->names.count : piece->result->events.count;
}

typedef struct places {
    hd_map of_name;
    hd_map64 of_event;
} places;

static hd_status find_place(places *known, const co_piece *piece, bool is_names, uint32_t row, uint32_t next, uint32_t *place_out,
                            bool *is_new_out) {
    if (!is_names) return hd_map64_put(&known->of_event, piece->result->events.locals[row], next, place_out, is_new_out);
    hd_str id = {(const char *)piece->result->names.ids[row].bytes, sizeof(hd_id128)};
    return hd_map_put(&known->of_name, id, next, place_out, is_new_out);
}

static hd_status unite(const co_merge *merge, bool is_names, united *table) {
    uint32_t total = 0;
    *table = (united){0};
    for (uint32_t p = 0; p < merge->piece_count; p++) total += rows_of(&merge->pieces[p], is_names);
    HD_ALLOC(table->refs, merge->scratch, total);
    HD_ALLOC(table->place_of, merge->scratch, merge->piece_count);
    bool is_distinct = !is_names && merge->are_pieces_disjoint; /* an event is its partition's, and a piece has each once */
    places known;
    hd_map_init(&known.of_name, merge->scratch);
    hd_map64_init(&known.of_event, merge->scratch);
    if (is_names) HD_TRY(hd_map_reserve(&known.of_name, total));
    if (!is_names && !is_distinct) HD_TRY(hd_map64_reserve(&known.of_event, total));
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const co_piece *piece = &merge->pieces[p];
        uint32_t count = rows_of(piece, is_names);
        HD_ALLOC(table->place_of[p], merge->scratch, count);
        for (uint32_t row = 0; row < count; row++) {
            uint32_t place = table->count;
            bool is_new = true;
            if (!is_distinct) HD_TRY(find_place(&known, piece, is_names, row, table->count, &place, &is_new));
            table->place_of[p][row] = place;
            if (is_new) table->refs[table->count++] = (row_ref){p, row};
        }
    }
    return HD_OK;
}

/* ---- columns of events ---- */

static hd_status alloc_events(hd_arena *arena, uint32_t count, uint32_t facets, uint32_t dimension, hd_event_batch *batch) {
    *batch = (hd_event_batch){.count = count};
    HD_ALLOC(batch->locals, arena, count);
    HD_ALLOC(batch->flags, arena, count);
    if (facets & (HD_FACET_ID | HD_FACET_ID_FEW)) HD_ALLOC(batch->ids, arena, count);
    if (facets & HD_FACET_TIME) HD_ALLOC(batch->timestamp_us, arena, count);
    if (facets & HD_FACET_ORDER) HD_ALLOC(batch->order_index, arena, count);
    if (facets & HD_FACET_THREAD) HD_ALLOC(batch->threads, arena, count);
    if (facets & HD_FACET_PREVIOUS) HD_ALLOC(batch->previous, arena, count);
    if (facets & HD_FACET_SUMMARY) HD_ALLOC(batch->summaries, arena, count);
    if (facets & HD_FACET_CONTENT) HD_ALLOC(batch->contents, arena, count);
    if (facets & HD_FACET_VECTOR) {
        HD_ALLOC(batch->vectors, arena, (size_t)count * dimension);
        batch->dimension = dimension;
    }
    return HD_OK;
}

/* Copies the columns that both have. */
static void copy_event(hd_event_batch *to, uint32_t to_row, const hd_event_batch *from, uint32_t from_row) {
    to->locals[to_row] = from->locals[from_row];
    if (to->ids != NULL && from->ids != NULL) to->ids[to_row] = from->ids[from_row];
    to->flags[to_row] = from->flags[from_row];
    if (to->timestamp_us != NULL && from->timestamp_us != NULL) to->timestamp_us[to_row] = from->timestamp_us[from_row];
    if (to->order_index != NULL && from->order_index != NULL) to->order_index[to_row] = from->order_index[from_row];
    if (to->threads != NULL && from->threads != NULL) to->threads[to_row] = from->threads[from_row];
    if (to->previous != NULL && from->previous != NULL) to->previous[to_row] = from->previous[from_row];
    if (to->summaries != NULL && from->summaries != NULL) to->summaries[to_row] = from->summaries[from_row];
    if (to->contents != NULL && from->contents != NULL) to->contents[to_row] = from->contents[from_row];
    if (to->scores != NULL && from->scores != NULL) to->scores[to_row] = from->scores[from_row];
    if (to->vectors != NULL && from->vectors != NULL) {
        memcpy(to->vectors + (size_t)to_row * to->dimension, from->vectors + (size_t)from_row * to->dimension,
               to->dimension * sizeof(float));
    }
}

static hd_status gather_events(const co_merge *merge, const row_ref *refs, uint32_t count, uint32_t facets, hd_event_batch *batch) {
    HD_TRY(alloc_events(merge->arena, count, facets, merge->step->dimension, batch));
    for (uint32_t i = 0; i < count; i++) copy_event(batch, i, &merge->pieces[refs[i].piece].result->events, refs[i].row);
    return HD_OK;
}

/* ---- columns of names ---- */

static hd_status alloc_names(hd_arena *arena, uint32_t count, bool has_types, hd_name_batch *batch) {
    *batch = (hd_name_batch){.count = count};
    HD_ALLOC(batch->ids, arena, count);
    HD_ALLOC(batch->names, arena, count);
    HD_ALLOC(batch->event_count, arena, count);
    if (!has_types) return HD_OK;
    HD_ALLOC(batch->types, arena, count);
    HD_ALLOC(batch->type_at_us, arena, count);
    HD_ALLOC(batch->type_events, arena, count);
    return HD_OK;
}

static bool is_type_earlier(const hd_name_batch *a, uint32_t a_row, const hd_name_batch *b, uint32_t b_row) {
    if (b->types[b_row].data == NULL) return true;
    if (a->type_at_us[a_row] != b->type_at_us[b_row]) return a->type_at_us[a_row] < b->type_at_us[b_row];
    return hd_str_compare(a->type_events[a_row], b->type_events[b_row]) < 0;
}

/* Adds what one piece knows of a name to what others did. */
static void add_name(hd_name_batch *to, uint32_t to_row, const hd_name_batch *from, uint32_t from_row) {
    to->ids[to_row] = from->ids[from_row];
    if (to->names[to_row].data == NULL) to->names[to_row] = from->names[from_row];
    to->event_count[to_row] += from->event_count[from_row];
    if (to->types == NULL || from->types == NULL || from->types[from_row].data == NULL) return;
    if (!is_type_earlier(from, from_row, to, to_row)) return;
    to->types[to_row] = from->types[from_row];
    to->type_at_us[to_row] = from->type_at_us[from_row];
    to->type_events[to_row] = from->type_events[from_row];
}

static hd_status gather_names(const co_merge *merge, const united *table, hd_name_batch *batch) {
    HD_TRY(alloc_names(merge->arena, table->count, false, batch));
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_name_batch *from = &merge->pieces[p].result->names;
        for (uint32_t row = 0; row < from->count; row++) add_name(batch, table->place_of[p][row], from, row);
    }
    return HD_OK;
}

/* names[i] is frontier node i, known to the pieces or not. */
static hd_status align_names(const co_merge *merge, hd_name_batch *batch) {
    HD_TRY(alloc_names(merge->arena, merge->frontier_count, merge->step->facets & HD_FACET_TYPE, batch));
    const hd_name_batch *asked = &merge->step->names;
    for (uint32_t i = 0; i < HD_MIN(asked->count, batch->count); i++) batch->ids[i] = asked->ids[i];
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_name_batch *from = &merge->pieces[p].result->names;
        for (uint32_t row = 0; row < from->count; row++) add_name(batch, row, from, row);
    }
    return HD_OK;
}

/* ---- edges ---- */

static uint32_t row_in_step(const co_piece *piece, uint32_t row) {
    return piece->rows != NULL ? piece->rows[row] : row;
}

/* Turns counts in offsets[1..] into offsets and gives each node's first place as a cursor. */
static hd_status open_offsets(hd_arena *scratch, uint32_t *offsets, uint32_t count, uint32_t **cursor_out) {
    for (uint32_t i = 0; i < count; i++) offsets[i + 1] += offsets[i];
    HD_ALLOC(*cursor_out, scratch, count);
    memcpy(*cursor_out, offsets, count * sizeof(*offsets));
    return HD_OK;
}

/* The `via` runs of all edges, each at its edge's new place. */
static hd_status unite_via(const co_merge *merge, const united *names, uint32_t *const *edge_place, hd_edges *edges) {
    uint32_t count = hd_edges_count(edges);
    HD_ALLOC(edges->via_offsets, merge->arena, count + 1);
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_edges *from = &merge->pieces[p].result->edges;
        for (uint32_t e = 0; e < hd_edges_count(from); e++) {
            edges->via_offsets[edge_place[p][e] + 1] = from->via_offsets[e + 1] - from->via_offsets[e];
        }
    }
    uint32_t *cursor;
    HD_TRY(open_offsets(merge->scratch, edges->via_offsets, count, &cursor));
    HD_ALLOC(edges->via, merge->arena, edges->via_offsets[count]);
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_edges *from = &merge->pieces[p].result->edges;
        for (uint32_t e = 0; e < hd_edges_count(from); e++) {
            uint32_t at = cursor[edge_place[p][e]];
            for (uint32_t v = from->via_offsets[e]; v < from->via_offsets[e + 1]; v++) {
                edges->via[at++] = names->place_of[p][from->via[v]];
            }
        }
    }
    return HD_OK;
}

/* The edges of all pieces, to the rows of `targets`; with `via` into `names` where that is given. */
static hd_status unite_edges(const co_merge *merge, const united *targets, const united *names, bool has_kinds, hd_edges *edges) {
    bool has_cos = merge->step->kind == HD_STEP_SIMILAR;
    *edges = (hd_edges){.from_count = merge->frontier_count};
    HD_ALLOC(edges->offsets, merge->arena, (size_t)merge->frontier_count + 1);
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_edges *from = &merge->pieces[p].result->edges;
        for (uint32_t i = 0; from->offsets != NULL && i < from->from_count; i++) {
            edges->offsets[row_in_step(&merge->pieces[p], i) + 1] += from->offsets[i + 1] - from->offsets[i];
        }
    }
    uint32_t *cursor, **edge_place;
    HD_TRY(open_offsets(merge->scratch, edges->offsets, merge->frontier_count, &cursor));
    HD_ALLOC(edge_place, merge->scratch, merge->piece_count);
    HD_ALLOC(edges->to, merge->arena, hd_edges_count(edges));
    bool has_counts = merge->step->kind == HD_STEP_CONNECTED;
    if (has_kinds) HD_ALLOC(edges->kinds, merge->arena, hd_edges_count(edges));
    if (has_counts) HD_ALLOC(edges->counts, merge->arena, hd_edges_count(edges));
    if (has_cos) HD_ALLOC(edges->cos, merge->arena, hd_edges_count(edges));
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_edges *from = &merge->pieces[p].result->edges;
        HD_ALLOC(edge_place[p], merge->scratch, hd_edges_count(from));
        for (uint32_t i = 0; from->offsets != NULL && i < from->from_count; i++) {
            uint32_t row = row_in_step(&merge->pieces[p], i);
            for (uint32_t e = from->offsets[i]; e < from->offsets[i + 1]; e++) {
                uint32_t at = cursor[row]++;
                edge_place[p][e] = at;
                edges->to[at] = targets->place_of[p][from->to[e]];
                if (has_kinds) edges->kinds[at] = from->kinds != NULL ? from->kinds[e] : 0;
                if (has_counts) edges->counts[at] = from->counts[e];
                if (has_cos) edges->cos[at] = from->cos[e];
            }
        }
    }
    return names != NULL ? unite_via(merge, names, edge_place, edges) : HD_OK;
}

/* ---- the kinds of step ---- */

/* Best first: by score or time, then by id. */
static int compare_starts(const void *left, const void *right, void *self) {
    const co_merge *merge = self;
    const row_ref *a = left, *b = right;
    const hd_event_batch *a_events = &merge->pieces[a->piece].result->events, *b_events = &merge->pieces[b->piece].result->events;
    if (merge->step->start.mode == HD_START_CLOSEST) {
        double a_score = a_events->scores[a->row], b_score = b_events->scores[b->row];
        if (a_score != b_score) return a_score > b_score ? -1 : 1;
    } else {
        int64_t a_time = a_events->timestamp_us[a->row], b_time = b_events->timestamp_us[b->row];
        if (a_time != b_time) return a_time > b_time ? -1 : 1;
    }
    return hd_str_compare(a_events->ids[a->row], b_events->ids[b->row]);
}

static hd_status merge_start(const co_merge *merge, hd_step_result *result) {
    const hd_start *start = &merge->step->start;
    united table;
    HD_TRY(unite(merge, false, &table));
    qsort_r(table.refs, table.count, sizeof(*table.refs), compare_starts, (void *)(uintptr_t)merge);
    uint32_t count = HD_MIN(table.count, start->k);
    result->has_more = table.count > start->k;
    HD_TRY(gather_events(merge, table.refs, count, start->facets | merge->step->facets | HD_FACET_ID | HD_FACET_TIME,
                         &result->events));
    if (start->mode == HD_START_CLOSEST) {
        HD_ALLOC(result->events.scores, merge->arena, count);
        for (uint32_t i = 0; i < count; i++) {
            result->events.scores[i] = merge->pieces[table.refs[i].piece].result->events.scores[table.refs[i].row];
        }
    }
    for (uint32_t g = 0; g < start->entity_groups; g++) result->group_count_count += start->entities[g].count;
    for (uint32_t g = 0; g < start->tag_groups; g++) result->group_count_count += start->tags[g].count;
    HD_ALLOC(result->group_counts, merge->arena, result->group_count_count);
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_step_result *from = merge->pieces[p].result;
        result->has_more |= from->has_more;
        for (uint32_t i = 0; i < from->group_count_count; i++) result->group_counts[i] += from->group_counts[i];
    }
    return HD_OK;
}

static hd_status merge_facts(const co_merge *merge, hd_step_result *result) {
    const hd_step *step = merge->step;
    if (step->frontier_label != HD_LABEL_EVENT) return align_names(merge, &result->names);
    bool is_by_id = step->events.locals == NULL; /* then ids come back, also of what nobody knows */
    uint32_t facets = step->facets | (is_by_id ? HD_FACET_ID : 0);
    HD_TRY(alloc_events(merge->arena, merge->frontier_count, facets, step->dimension, &result->events));
    for (uint32_t i = 0; i < merge->frontier_count; i++) result->events.locals[i] = HD_LOCAL_NONE;
    for (uint32_t i = 0; is_by_id && i < HD_MIN(step->events.count, merge->frontier_count); i++)
        result->events.ids[i] = step->events.ids[i];
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_event_batch *from = &merge->pieces[p].result->events;
        for (uint32_t i = 0; i < from->count; i++) {
            if (from->flags[i] & HD_EVENT_EXISTS) copy_event(&result->events, row_in_step(&merge->pieces[p], i), from, i);
        }
    }
    if (!(step->facets & (HD_FACET_ENTITIES | HD_FACET_TAGS))) return HD_OK;
    united names;
    HD_TRY(unite(merge, true, &names));
    HD_TRY(gather_names(merge, &names, &result->names));
    return unite_edges(merge, &names, NULL, step->facets & HD_FACET_TAGS, &result->edges);
}

static hd_status merge_postings(const co_merge *merge, hd_step_result *result) {
    united events;
    HD_TRY(align_names(merge, &result->names));
    HD_TRY(unite(merge, false, &events));
    HD_TRY(gather_events(merge, events.refs, events.count, merge->step->facets, &result->events));
    return unite_edges(merge, &events, NULL, merge->step->frontier_label == HD_LABEL_TAG, &result->edges);
}

static hd_status merge_shares(const co_merge *merge, hd_step_result *result) {
    united events, names;
    HD_TRY(unite(merge, false, &events));
    HD_TRY(unite(merge, true, &names));
    HD_TRY(gather_events(merge, events.refs, events.count, merge->step->facets, &result->events));
    HD_TRY(gather_names(merge, &names, &result->names));
    return unite_edges(merge, &events, &names, false, &result->edges);
}

static hd_status merge_measure(const co_merge *merge, hd_step_result *result) {
    hd_edges *edges = &result->edges;
    *edges = merge->step->edges;
    edges->from_count = merge->frontier_count;
    HD_ALLOC(edges->cos, merge->arena, merge->edge_count);
    HD_ALLOC(edges->is_answered, merge->arena, merge->edge_count);
    for (uint32_t e = 0; e < merge->edge_count; e++) edges->cos[e] = NAN;
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const co_piece *piece = &merge->pieces[p];
        const hd_edges *from = &piece->result->edges;
        for (uint32_t e = 0; e < hd_edges_count(from); e++) {
            if (!from->is_answered[e]) continue;
            uint32_t at = piece->edge_rows != NULL ? piece->edge_rows[e] : e;
            edges->cos[at] = from->cos[e];
            edges->is_answered[at] = 1;
        }
    }
    return HD_OK;
}

static hd_status merge_resolve(const co_merge *merge, hd_step_result *result) {
    united names;
    HD_TRY(unite(merge, true, &names));
    HD_TRY(gather_names(merge, &names, &result->names));
    HD_ALLOC(result->fold_of, merge->arena, names.count);
    for (uint32_t i = 0; i < names.count; i++) {
        result->fold_of[i] = merge->pieces[names.refs[i].piece].result->fold_of[names.refs[i].row];
    }
    return HD_OK;
}

/* Several pieces may have counted for a pair: one edge stays, with the sum. */
static hd_status sum_pairs(const co_merge *merge, uint32_t name_count, hd_edges *edges) {
    uint32_t *mark, *place, count = 0; /* by name: 1 + the last node that has an edge to it; that edge */
    HD_ALLOC(mark, merge->scratch, name_count);
    HD_ALLOC(place, merge->scratch, name_count);
    for (uint32_t i = 0, e = 0; i < edges->from_count; i++) {
        for (uint32_t end = edges->offsets[i + 1]; e < end; e++) {
            uint32_t to = edges->to[e];
            uint64_t counted = edges->counts[e];
            if (mark[to] == i + 1) {
                edges->counts[place[to]] += counted;
                continue;
            }
            mark[to] = i + 1;
            place[to] = count;
            edges->to[count] = to;
            edges->counts[count++] = counted;
        }
        edges->offsets[i + 1] = count;
    }
    return HD_OK;
}

static hd_status merge_connected(const co_merge *merge, hd_step_result *result) {
    united names;
    HD_TRY(unite(merge, true, &names));
    HD_TRY(gather_names(merge, &names, &result->names));
    HD_TRY(unite_edges(merge, &names, NULL, false, &result->edges));
    return sum_pairs(merge, names.count, &result->edges);
}

/* ---- NEXT ---- */

/* Thread order: by order_index, events without one last; then by time; then by id. */
static int compare_places(const hd_event_batch *a, uint32_t a_row, const hd_event_batch *b, uint32_t b_row) {
    bool a_has = a->flags[a_row] & HD_EVENT_HAS_ORDER, b_has = b->flags[b_row] & HD_EVENT_HAS_ORDER;
    if (a_has != b_has) return a_has ? -1 : 1;
    if (a_has && a->order_index[a_row] != b->order_index[b_row]) return a->order_index[a_row] < b->order_index[b_row] ? -1 : 1;
    if (a->timestamp_us[a_row] != b->timestamp_us[b_row]) return a->timestamp_us[a_row] < b->timestamp_us[b_row] ? -1 : 1;
    return hd_str_compare(a->ids[a_row], b->ids[b_row]);
}

typedef struct next_merge {
    const co_merge *merge;
    united events;
    hd_edges candidates;   /* to the united events */
    uint32_t *thread_mark; /* by united event: 1 + the last frontier node that it is a thread candidate of */
    uint32_t *taken_mark;  /* by united event: 1 + the last frontier node that got an edge to it */
} next_merge;

/* Marks the thread candidates of frontier node `node` and gives the nearest; UINT32_MAX: there is none. */
static uint32_t find_nearest(next_merge *next, uint32_t node) {
    const hd_edges *candidates = &next->candidates;
    const co_piece *pieces = next->merge->pieces;
    uint32_t nearest = UINT32_MAX;
    for (uint32_t e = candidates->offsets[node]; e < candidates->offsets[node + 1]; e++) {
        uint32_t to = candidates->to[e];
        if (candidates->kinds[e] != HD_SOURCE_THREAD) continue;
        next->thread_mark[to] = node + 1;
        if (nearest != UINT32_MAX) {
            row_ref a = next->events.refs[to], b = next->events.refs[nearest];
            int order = compare_places(&pieces[a.piece].result->events, a.row, &pieces[b.piece].result->events, b.row);
            if (next->merge->step->is_backward ? order <= 0 : order >= 0) continue;
        }
        nearest = to;
    }
    return nearest;
}

static void add_edge(next_merge *next, hd_edges *edges, uint32_t node, uint32_t to, uint8_t source) {
    uint8_t wanted = next->merge->step->kinds;
    if (next->taken_mark[to] == node + 1) return;
    next->taken_mark[to] = node + 1;
    if (wanted != 0 && !(wanted & source)) return;
    edges->to[edges->offsets[node + 1]] = to;
    edges->kinds[edges->offsets[node + 1]++] = source;
}

/* Of the candidates of one frontier event the nearest stands as `thread`, and an explicit edge to it is dropped; other thread
 * candidates go. Where the thread's order is not wholly known, nothing that is or could be `thread` stays. */
static void settle_node(next_merge *next, hd_edges *edges, uint32_t node) {
    const hd_edges *candidates = &next->candidates;
    uint32_t nearest = find_nearest(next, node);
    edges->offsets[node + 1] = edges->offsets[node];
    if (nearest != UINT32_MAX && next->merge->is_whole) add_edge(next, edges, node, nearest, HD_SOURCE_THREAD);
    for (uint32_t e = candidates->offsets[node]; e < candidates->offsets[node + 1]; e++) {
        uint32_t to = candidates->to[e];
        if (candidates->kinds[e] == HD_SOURCE_THREAD) continue;
        if (!next->merge->is_whole && next->thread_mark[to] == node + 1) continue;
        add_edge(next, edges, node, to, HD_SOURCE_EXPLICIT);
    }
}

/* Keeps the events that edges still point to, in their order. */
static hd_status drop_unused(const co_merge *merge, united *events, hd_edges *edges) {
    uint32_t *place, count = 0;
    HD_ALLOC(place, merge->scratch, events->count);
    for (uint32_t e = 0; e < hd_edges_count(edges); e++) place[edges->to[e]] = 1;
    for (uint32_t i = 0; i < events->count; i++) {
        if (place[i] == 0) continue;
        events->refs[count] = events->refs[i];
        place[i] = count++;
    }
    events->count = count;
    for (uint32_t e = 0; e < hd_edges_count(edges); e++) edges->to[e] = place[edges->to[e]];
    return HD_OK;
}

static hd_status merge_next(const co_merge *merge, hd_step_result *result) {
    next_merge next = {.merge = merge};
    co_merge of_candidates = *merge; /* they need not outlive the merge */
    of_candidates.arena = merge->scratch;
    HD_TRY(unite(merge, false, &next.events));
    HD_TRY(unite_edges(&of_candidates, &next.events, NULL, true, &next.candidates));
    HD_ALLOC(next.thread_mark, merge->scratch, next.events.count);
    HD_ALLOC(next.taken_mark, merge->scratch, next.events.count);
    hd_edges *edges = &result->edges;
    edges->from_count = merge->frontier_count;
    HD_ALLOC(edges->offsets, merge->arena, (size_t)merge->frontier_count + 1);
    HD_ALLOC(edges->to, merge->arena, hd_edges_count(&next.candidates));
    HD_ALLOC(edges->kinds, merge->arena, hd_edges_count(&next.candidates));
    for (uint32_t node = 0; node < merge->frontier_count; node++) settle_node(&next, edges, node);
    HD_TRY(drop_unused(merge, &next.events, edges));
    uint32_t facets = merge->step->facets | HD_FACET_ID | HD_FACET_TIME | HD_FACET_ORDER;
    return gather_events(merge, next.events.refs, next.events.count, facets, &result->events);
}

/* ---- SIMILAR ---- */

typedef struct similar_merge {
    const co_merge *merge;
    united events;
    hd_edges found; /* what the pieces found, to the united events */
} similar_merge;

/* Closest first, then by id. */
static int compare_neighbours(const void *left, const void *right, void *self) {
    const similar_merge *similar = self;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (similar->found.cos[a] != similar->found.cos[b]) return similar->found.cos[a] > similar->found.cos[b] ? -1 : 1;
    row_ref a_ref = similar->events.refs[similar->found.to[a]], b_ref = similar->events.refs[similar->found.to[b]];
    const co_piece *pieces = similar->merge->pieces;
    return hd_str_compare(pieces[a_ref.piece].result->events.ids[a_ref.row], pieces[b_ref.piece].result->events.ids[b_ref.row]);
}

/* The k best of what the pieces found, each of which has the k best of the rows it searched. */
static hd_status merge_similar(const co_merge *merge, hd_step_result *result) {
    similar_merge similar = {.merge = merge};
    co_merge of_found = *merge; /* they need not outlive the merge */
    of_found.arena = merge->scratch;
    HD_TRY(unite(merge, false, &similar.events));
    HD_TRY(unite_edges(&of_found, &similar.events, NULL, false, &similar.found));
    const hd_edges *found = &similar.found;
    hd_edges *edges = &result->edges;
    uint32_t *order, count = 0;
    edges->from_count = merge->frontier_count;
    HD_ALLOC(edges->offsets, merge->arena, (size_t)merge->frontier_count + 1);
    HD_ALLOC(edges->to, merge->arena, hd_edges_count(found));
    HD_ALLOC(edges->cos, merge->arena, hd_edges_count(found));
    HD_ALLOC(order, merge->scratch, hd_edges_count(found));
    for (uint32_t e = 0; e < hd_edges_count(found); e++) order[e] = e;
    for (uint32_t node = 0; node < merge->frontier_count; node++) {
        uint32_t first = found->offsets[node], of_node = found->offsets[node + 1] - first;
        qsort_r(order + first, of_node, sizeof(*order), compare_neighbours, &similar);
        for (uint32_t i = 0; i < HD_MIN(of_node, merge->step->similar_k); i++) {
            edges->to[count] = found->to[order[first + i]];
            edges->cos[count++] = found->cos[order[first + i]];
        }
        edges->offsets[node + 1] = count;
    }
    HD_TRY(drop_unused(merge, &similar.events, edges));
    return gather_events(merge, similar.events.refs, similar.events.count, merge->step->facets | HD_FACET_ID, &result->events);
}

/* ---- all ---- */

/* Nothing to unite: one piece, for the whole frontier. Of NEXT only where the shard had all candidates: its edges are final. */
static bool is_final(const co_merge *merge) {
    if (merge->piece_count != 1 || merge->pieces[0].rows != NULL || merge->pieces[0].edge_rows != NULL) return false;
    return merge->step->kind != HD_STEP_NEXT || merge->is_whole;
}

static hd_status merge_kind(const co_merge *merge, hd_step_result *result) {
    switch (merge->step->kind) {
    case HD_STEP_START: return merge_start(merge, result);
    case HD_STEP_FACTS: return merge_facts(merge, result);
    case HD_STEP_POSTINGS: return merge_postings(merge, result);
    case HD_STEP_SHARES: return merge_shares(merge, result);
    case HD_STEP_NEXT: return merge_next(merge, result);
    case HD_STEP_MEASURE: return merge_measure(merge, result);
    case HD_STEP_RESOLVE: return merge_resolve(merge, result);
    case HD_STEP_CONNECTED: return merge_connected(merge, result);
    case HD_STEP_SIMILAR: return merge_similar(merge, result);
    }
    return HD_INTERNAL;
}

hd_status co_merge_run(const co_merge *merge, hd_step_result *result_out) {
    *result_out = (hd_step_result){0};
    if (is_final(merge)) {
        *result_out = *merge->pieces[0].result;
    } else {
        HD_TRY(merge_kind(merge, result_out));
    }
    result_out->number = merge->step->number;
    result_out->verdicts = NULL;
    result_out->verdict_count = 0;
    result_out->candidates = result_out->used_scanned = result_out->used_measured = result_out->shard_us = 0;
    for (uint32_t p = 0; p < merge->piece_count; p++) {
        const hd_step_result *from = merge->pieces[p].result;
        result_out->candidates += from->candidates;
        result_out->is_approximate |= from->is_approximate;
        result_out->used_scanned += from->used_scanned;
        result_out->used_measured += from->used_measured;
        result_out->shard_us = HD_MAX(result_out->shard_us, from->shard_us);
    }
    return HD_OK;
}
