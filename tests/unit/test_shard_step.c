/* Steps against a naive model: random graphs in one and in four partitions, at the newest and at an older sequence; each step kind
 * whole, split over requests, under every cap from nothing to just enough, and gone on with until it is complete.
 * The seed is printed first and may be given as an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/step_model.h"

/* -- lines: what is compared ------------------------------------------------------------------------------------------------------ */
typedef struct lines {
    char *items[4000];
    uint32_t count;
} lines;

static void add_line(lines *l, const char *format, ...) HD_PRINTF(2, 3);
static void add_line(lines *l, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    assert_true(l->count < HD_COUNT_OF(l->items));
    l->items[l->count++] = hd_strdup(text);
}

static int compare_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_lines(lines *l) {
    for (uint32_t i = 0; i < l->count; i++) hd_free(l->items[i]);
    l->count = 0;
}

static void check_same(lines *got, lines *expected, const char *what) {
    qsort(got->items, got->count, sizeof(char *), compare_text);
    qsort(expected->items, expected->count, sizeof(char *), compare_text);
    for (uint32_t i = 0; i < HD_MAX(got->count, expected->count); i++) {
        const char *g = i < got->count ? got->items[i] : "(nothing)", *e = i < expected->count ? expected->items[i] : "(nothing)";
        if (strcmp(g, e) != 0) fail_msg("%s: got %s, expected %s (line %u of %u/%u)", what, g, e, i, got->count, expected->count);
    }
}

/* Every line got is among those expected, as often as there at the most. */
static void check_among(lines *got, lines *expected, const char *what) {
    qsort(got->items, got->count, sizeof(char *), compare_text);
    qsort(expected->items, expected->count, sizeof(char *), compare_text);
    for (uint32_t g = 0, e = 0; g < got->count; g++, e++) {
        while (e < expected->count && strcmp(expected->items[e], got->items[g]) < 0) e++;
        if (e == expected->count || strcmp(expected->items[e], got->items[g]) != 0)
            fail_msg("%s: %s is not in the full answer", what, got->items[g]);
    }
}

/* -- the naive evaluation ----------------------------------------------------------------------------------------------------------- */
static void expect_names(const model *m, const hd_step *step, bool is_tag, lines *l) {
    for (uint32_t i = 0; i < step->names.count; i++) {
        int name = name_of_id(is_tag, step->names.ids[i]);
        uint64_t count = name < 0 ? 0 : count_of(m, is_tag, name);
        add_line(l, "name %u %s %lu", i, count > 0 ? name_text(is_tag, name) : "-", count);
    }
}

static void expect_postings(const model *m, const hd_step *step, lines *l) {
    bool is_tag = step->frontier_label == HD_LABEL_TAG;
    expect_names(m, step, is_tag, l);
    for (uint32_t i = 0; i < step->names.count; i++)
        for (int b = 0, name = name_of_id(is_tag, step->names.ids[i]); b < EVENTS && name >= 0; b++) {
            const model_event *event = &m->events[b];
            if (!event->is_live) continue;
            if (!is_tag && has_entity(event, name)) add_line(l, "edge %u %s 0", i, event->id);
            for (uint8_t kind = 1; kind <= 2 && is_tag; kind++)
                if (tag_kinds(event, name) & kind && (step->kinds == 0 || step->kinds & kind))
                    add_line(l, "edge %u %s %u", i, event->id, kind);
        }
}

static void expect_shares(const model *m, const hd_step *step, lines *l) {
    expect_names(m, step, false, l);
    for (uint32_t i = 0; i < step->events.count; i++)
        for (int b = 0; b < EVENTS; b++) {
            const model_event *event = &m->events[b];
            uint32_t mask = 0;
            if (!event->is_live || hd_str_is_equal(str(event->id), step->events.ids[i])) continue;
            for (uint32_t e = step->edges.offsets[i]; e < step->edges.offsets[i + 1]; e++)
                if (has_entity(event, name_of_id(false, step->names.ids[step->edges.to[e]]))) mask |= 1u << step->edges.to[e];
            if ((uint32_t)__builtin_popcount(mask) >= step->shares_min) add_line(l, "edge %u %s via %x", i, event->id, mask);
        }
}

static void expect_connected(const model *m, const hd_step *step, lines *l) {
    for (uint32_t i = 0; i < step->names.count; i++)
        for (int other = 0, name = name_of_id(false, step->names.ids[i]); other < ENTITIES && name >= 0; other++) {
            uint64_t count = 0;
            for (int b = 0; b < EVENTS; b++)
                count += m->events[b].is_live && has_entity(&m->events[b], name) && has_entity(&m->events[b], other);
            if (other != name && count > 0) add_line(l, "edge %u %s in %lu", i, ENTITY_NAMES[other], count);
        }
}

/* A frontier event as the step gives it. */
static model_event event_of_batch(const hd_event_batch *batch, uint32_t i) {
    model_event event = {.timestamp_us = batch->timestamp_us[i],
                         .order_index = batch->order_index[i],
                         .has_order = batch->flags[i] & HD_EVENT_HAS_ORDER,
                         .thread = -1,
                         .previous = batch->previous[i].data ? find_event(batch->previous[i]) : -1};
    snprintf(event.id, sizeof(event.id), HD_STR_FMT, HD_STR_ARG(batch->ids[i]));
    for (int t = 0; t < THREADS && (batch->flags[i] & HD_EVENT_HAS_THREAD); t++)
        if (hd_str_is_equal(str(THREAD_NAMES[t]), batch->threads[i])) event.thread = t;
    return event;
}

static void expect_next(const model *m, const hd_step *step, lines *l) {
    for (uint32_t i = 0; i < step->events.count; i++) {
        if (!(step->events.flags[i] & HD_EVENT_EXISTS)) continue;
        const model_event *best = NULL;
        model_event from = event_of_batch(&step->events, i), *a = &from;
        for (int b = 0; b < EVENTS && a->thread >= 0; b++) {
            const model_event *event = &m->events[b];
            if (!event->is_live || event->thread != a->thread) continue;
            int turn = step->is_backward ? -1 : 1;
            if (place_order(a, event) * turn >= 0) continue;
            if (!best || place_order(event, best) * turn < 0) best = event;
        }
        if (best && (!step->kinds || step->kinds & HD_SOURCE_THREAD)) add_line(l, "edge %u %s %d", i, best->id, HD_SOURCE_THREAD);
        for (int b = 0; b < EVENTS; b++) {
            const model_event *event = &m->events[b];
            bool is_edge = step->is_backward ? a->previous == b : event->previous == find_event(step->events.ids[i]);
            if (!event->is_live || !is_edge || event == best || (step->kinds && !(step->kinds & HD_SOURCE_EXPLICIT))) continue;
            add_line(l, "edge %u %s %d", i, event->id, HD_SOURCE_EXPLICIT);
        }
    }
}

static bool is_in_scope(const model_event *event, const hd_start *start) {
    if (!event->is_live) return false;
    if (start->has_since && event->timestamp_us < start->since_us) return false;
    if (start->has_until && event->timestamp_us >= start->until_us) return false;
    for (uint32_t g = 0; g < start->entity_groups + start->tag_groups; g++) {
        bool is_tag = g >= start->entity_groups, is_in = false;
        const hd_name_group *group = is_tag ? &start->tags[g - start->entity_groups] : &start->entities[g];
        for (uint32_t n = 0; n < group->count; n++) {
            int name = name_of_id(is_tag, group->ids[n]);
            if (name >= 0) is_in |= is_tag ? tag_kinds(event, name) != 0 : has_entity(event, name);
        }
        if (!is_in) return false;
    }
    return true;
}

typedef struct model_hit {
    const model_event *event;
    double score;
    bool by_score;
} model_hit;

static int compare_model_hits(const void *a, const void *b) {
    const model_hit *x = a, *y = b;
    if (x->by_score && x->score != y->score) return x->score > y->score ? -1 : 1;
    if (!x->by_score && x->event->timestamp_us != y->event->timestamp_us)
        return x->event->timestamp_us > y->event->timestamp_us ? -1 : 1;
    return strcmp(x->event->id, y->event->id);
}

static void expect_start(const model *m, const hd_step *step, lines *l) {
    const hd_start *start = &step->start;
    bool is_closest = start->mode == HD_START_CLOSEST;
    bool has_scope = start->entity_groups + start->tag_groups > 0 || start->has_since || start->has_until;
    model_hit hits[EVENTS];
    uint32_t count = 0;
    for (int b = 0; b < EVENTS; b++) {
        const model_event *event = &m->events[b];
        if (!is_in_scope(event, start) || (is_closest && !event->has_vector)) continue;
        hits[count++] = (model_hit){event, is_closest ? hd_figure_cos(event->vector, start->vector, DIMENSION) : 0, is_closest};
    }
    qsort(hits, count, sizeof(*hits), compare_model_hits);
    for (uint32_t h = 0; h < HD_MIN(count, start->k); h++)
        add_line(l, "hit %03u %s %ld %.6f", h, hits[h].event->id, hits[h].event->timestamp_us, hits[h].score);
    add_line(l, "more %d", count > start->k);
    if (is_closest && has_scope) add_line(l, "candidates %u exact 1", count);
    uint32_t index = 0;
    for (uint32_t g = 0; g < start->entity_groups + start->tag_groups; g++) {
        bool is_tag = g >= start->entity_groups;
        const hd_name_group *group = is_tag ? &start->tags[g - start->entity_groups] : &start->entities[g];
        for (uint32_t n = 0; n < group->count; n++, index++) {
            int name = name_of_id(is_tag, group->ids[n]);
            add_line(l, "group %u %lu", index, name < 0 ? 0 : count_of(m, is_tag, name));
        }
    }
}

static void expect_event_facts(const model *m, const hd_step *step, lines *l) {
    for (uint32_t i = 0; i < step->events.count; i++) {
        const model_event *a = &m->events[find_event(step->events.ids[i])];
        if (!a->is_live || !hd_str_is_equal(str(a->id), step->events.ids[i])) continue;
        int flags = HD_EVENT_EXISTS | (a->has_vector ? HD_EVENT_HAS_VECTOR : 0) | (a->thread >= 0 ? HD_EVENT_HAS_THREAD : 0) |
                    (a->has_order ? HD_EVENT_HAS_ORDER : 0);
        add_line(l, "event %u %s %d %ld %ld %s e%02d s%lu c%lu %.1f", i, a->id, flags, a->timestamp_us, a->order_index,
                 a->thread >= 0 ? THREAD_NAMES[a->thread] : "-", a->previous, a->record, a->record,
                 a->has_vector ? (double)a->vector[1] : 0);
        if (step->facets & HD_FACET_ENTITIES)
            for (int e = 0; e < a->entity_count; e++) add_line(l, "edge %u %d %s 0", i, e, ENTITY_NAMES[a->entities[e]]);
        for (int t = 0, at = 0; t < a->tag_count && step->facets & HD_FACET_TAGS; t++)
            if (!step->kinds || step->kinds & a->kinds[t])
                add_line(l, "edge %u %d %s %u", i, at++, TAG_NAMES[a->tags[t]], a->kinds[t]);
    }
}

static void expect_name_facts(const model *m, const hd_step *step, lines *l) {
    bool is_tag = step->frontier_label == HD_LABEL_TAG;
    expect_names(m, step, is_tag, l);
    for (uint32_t i = 0; i < step->names.count && !is_tag; i++) {
        int name = name_of_id(false, step->names.ids[i]);
        const model_event *best = NULL;
        const char *type = NULL;
        for (int b = 0; b < EVENTS; b++) {
            const model_event *event = &m->events[b];
            if (!event->is_live || (best && (event->timestamp_us > best->timestamp_us ||
                                             (event->timestamp_us == best->timestamp_us && strcmp(event->id, best->id) > 0))))
                continue;
            for (int e = 0; e < event->entity_count; e++)
                if (event->entities[e] == name && TYPES[event->types[e]]) best = event, type = TYPES[event->types[e]];
        }
        if (best) add_line(l, "type %u %s %ld %s", i, type, best->timestamp_us, best->id);
    }
}

static void expect_resolve(const model *m, const hd_step *step, lines *l) {
    bool is_tag = step->frontier_label == HD_LABEL_TAG;
    hd_arena *arena = hd_arena_new(0);
    for (int n = 0; n < (is_tag ? TAGS : ENTITIES); n++) {
        hd_str folded;
        assert_int_equal(hd_text_fold(arena, str(name_text(is_tag, n)), &folded), HD_OK);
        uint64_t count = count_of(m, is_tag, n);
        for (uint32_t f = 0; f < step->folded_count && count > 0; f++)
            if (hd_str_is_equal(step->folded[f], folded)) {
                add_line(l, "match %s %u", name_text(is_tag, n), f);
                add_line(l, "count %s %lu", name_text(is_tag, n), count);
                break;
            }
    }
    hd_arena_free(arena);
}

static void expect_measure(const model *m, const hd_step *step, lines *l) {
    for (uint32_t i = 0; i < step->events.count; i++)
        for (uint32_t e = step->edges.offsets[i]; e < step->edges.offsets[i + 1]; e++) {
            const model_event *from = &m->events[find_event(step->events.ids[i])];
            const model_event *to = &m->events[find_event(step->to_events.ids[step->edges.to[e]])];
            bool is_given = step->events.vectors && (step->events.flags[i] & HD_EVENT_EXISTS);
            const float *vector = is_given ? step->events.vectors + (size_t)i * DIMENSION : from->vector;
            bool has_vector = is_given ? (step->events.flags[i] & HD_EVENT_HAS_VECTOR) != 0 : from->has_vector;
            if (!to->is_live || (!is_given && !from->is_live)) continue;
            if (!has_vector || !to->has_vector)
                add_line(l, "edge %u nan", e);
            else
                add_line(l, "edge %u %.6f", e, hd_figure_cos(vector, to->vector, DIMENSION));
        }
}

/* One of all that an event was measured against; `rank` is its place among these. */
typedef struct neighbour {
    uint32_t from;
    char id[16];
    double cos;
} neighbour;

static int compare_neighbours(const void *left, const void *right) {
    const neighbour *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    if (a->cos != b->cos) return a->cos > b->cos ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* The k best of each, with their places. */
static void add_best(lines *l, neighbour *found, uint32_t count, uint32_t k) {
    qsort(found, count, sizeof(*found), compare_neighbours);
    for (uint32_t n = 0, rank = 0; n < count; n++) {
        rank = n > 0 && found[n].from == found[n - 1].from ? rank + 1 : 0;
        if (rank < k) add_line(l, "edge %u %02u %s %.6f", found[n].from, rank, found[n].id, found[n].cos);
    }
}

static void expect_similar(const model *m, const hd_step *step, lines *l) {
    neighbour *found = hd_alloc_zero((size_t)step->events.count * EVENTS, sizeof(*found));
    uint32_t count = 0;
    for (uint32_t i = 0; i < step->events.count; i++)
        for (uint32_t n = 0; n < EVENTS && (step->events.flags[i] & HD_EVENT_HAS_VECTOR); n++) {
            const model_event *to = &m->events[n];
            if (!to->is_live || !to->has_vector || hd_str_is_equal(str(to->id), step->events.ids[i])) continue;
            neighbour *at = &found[count++];
            *at = (neighbour){.from = i, .cos = hd_figure_cos(step->events.vectors + (size_t)i * DIMENSION, to->vector, DIMENSION)};
            snprintf(at->id, sizeof(at->id), "%s", to->id);
        }
    add_best(l, found, count, step->similar_k);
    hd_free(found);
}

static void expect(const model *m, const hd_step *step, lines *l) {
    switch (step->kind) {
    case HD_STEP_START: expect_start(m, step, l); break;
    case HD_STEP_FACTS:
        if (step->frontier_label == HD_LABEL_EVENT)
            expect_event_facts(m, step, l);
        else
            expect_name_facts(m, step, l);
        break;
    case HD_STEP_POSTINGS: expect_postings(m, step, l); break;
    case HD_STEP_SHARES: expect_shares(m, step, l); break;
    case HD_STEP_NEXT: expect_next(m, step, l); break;
    case HD_STEP_MEASURE: expect_measure(m, step, l); break;
    case HD_STEP_SIMILAR: expect_similar(m, step, l); break;
    case HD_STEP_RESOLVE: expect_resolve(m, step, l); break;
    case HD_STEP_CONNECTED: expect_connected(m, step, l); break;
    }
}

/* -- what came back, over the pieces of one or several requests ------------------------------------------------------------------- */
typedef struct candidate_edge {
    uint32_t from;
    char id[16];
    uint8_t kind;
    model_event place;
} candidate_edge;

typedef struct gathered {
    lines l;
    neighbour neighbours[20000];
    uint32_t neighbour_count;
    candidate_edge nexts[1000];
    uint32_t next_count;
    model_event hit_events[1000];
    model_hit hits[1000];
    uint32_t hit_count;
    uint64_t counts[NAMES_MAX * 4], candidates, scanned, measured;
    char names[NAMES_MAX * 4][32];
    model_event types[NAMES_MAX * 4];
    char type_texts[NAMES_MAX * 4][16];
    uint32_t count_count;
    bool has_more, is_candidates_exact, is_cut;
    uint64_t common[NAMES_MAX][ENTITIES]; /* CONNECTED: summed over pieces */
    uint32_t done;                        /* … and how many nodes that is all of, where it was cut */
} gathered;

static void copy_text(char *out, size_t size, hd_str text) {
    snprintf(out, size, HD_STR_FMT, HD_STR_ARG(text));
}

static void gather_names(gathered *g, const hd_name_batch *names) {
    g->count_count = HD_MAX(g->count_count, names->count);
    for (uint32_t n = 0; n < names->count; n++) {
        g->counts[n] += names->event_count[n];
        if (names->names[n].data) copy_text(g->names[n], sizeof(g->names[n]), names->names[n]);
        if (!names->types || !names->types[n].data) continue;
        model_event at = {.timestamp_us = names->type_at_us[n]};
        copy_text(at.id, sizeof(at.id), names->type_events[n]);
        if (g->type_texts[n][0] && place_order(&at, &g->types[n]) > 0) continue;
        g->types[n] = at;
        copy_text(g->type_texts[n], sizeof(g->type_texts[n]), names->types[n]);
    }
}

static void gather_start(gathered *g, const hd_step_result *r) {
    for (uint32_t h = 0; h < r->events.count; h++) {
        model_event *event = &g->hit_events[g->hit_count];
        *event = (model_event){.timestamp_us = r->events.timestamp_us[h]};
        copy_text(event->id, sizeof(event->id), r->events.ids[h]);
        g->hits[g->hit_count++] = (model_hit){event, r->events.scores ? r->events.scores[h] : 0, r->events.scores != NULL};
    }
    g->has_more |= r->has_more;
    g->candidates += r->candidates;
    g->is_candidates_exact = r->is_candidates_exact;
    g->count_count = r->group_count_count;
    for (uint32_t c = 0; c < r->group_count_count; c++) g->counts[c] += r->group_counts[c];
    assert_false(r->is_approximate);
}

static void gather_event_facts(gathered *g, const hd_step_result *r) {
    const hd_event_batch *b = &r->events;
    for (uint32_t i = 0; i < b->count; i++) {
        if (!b->flags[i]) continue;
        add_line(&g->l, "event %u " HD_STR_FMT " %d %ld %ld %.*s %.*s " HD_STR_FMT " " HD_STR_FMT " %.1f", i, HD_STR_ARG(b->ids[i]),
                 b->flags[i], b->timestamp_us[i], b->order_index[i], b->threads[i].data ? (int)b->threads[i].size : 1,
                 b->threads[i].data ? b->threads[i].data : "-", b->previous[i].data ? (int)b->previous[i].size : 4,
                 b->previous[i].data ? b->previous[i].data : "e-1", HD_STR_ARG(b->summaries[i]), HD_STR_ARG(b->contents[i]),
                 (double)b->vectors[(size_t)i * DIMENSION + 1]);
        for (uint32_t e = r->edges.offsets ? r->edges.offsets[i] : 0, at = 0; r->edges.offsets && e < r->edges.offsets[i + 1]; e++)
            add_line(&g->l, "edge %u %u " HD_STR_FMT " %u", i, at++, HD_STR_ARG(r->names.names[r->edges.to[e]]),
                     r->edges.kinds ? r->edges.kinds[e] : 0);
    }
}

static void gather_next(gathered *g, const hd_step_result *r) {
    for (uint32_t i = 0; i < r->edges.from_count; i++)
        for (uint32_t e = r->edges.offsets[i]; e < r->edges.offsets[i + 1]; e++) {
            uint32_t to = r->edges.to[e];
            candidate_edge *edge = &g->nexts[g->next_count++];
            *edge = (candidate_edge){.from = i, .kind = r->edges.kinds[e]};
            copy_text(edge->id, sizeof(edge->id), r->events.ids[to]);
            edge->place = (model_event){.timestamp_us = r->events.timestamp_us[to],
                                        .order_index = r->events.order_index[to],
                                        .has_order = r->events.flags[to] & HD_EVENT_HAS_ORDER};
            copy_text(edge->place.id, sizeof(edge->place.id), r->events.ids[to]);
        }
}

static void gather_similar(gathered *g, const hd_step_result *r) {
    for (uint32_t i = 0; i < r->edges.from_count; i++)
        for (uint32_t e = r->edges.offsets[i]; e < r->edges.offsets[i + 1]; e++) {
            assert_true(g->neighbour_count < HD_COUNT_OF(g->neighbours));
            neighbour *at = &g->neighbours[g->neighbour_count++];
            *at = (neighbour){.from = i, .cos = r->edges.cos[e]};
            copy_text(at->id, sizeof(at->id), r->events.ids[r->edges.to[e]]);
        }
}

static void gather_edges(gathered *g, const hd_step *step, const hd_step_result *r) {
    for (uint32_t i = 0; i < r->edges.from_count; i++)
        for (uint32_t e = r->edges.offsets[i]; e < r->edges.offsets[i + 1]; e++) {
            if (step->kind == HD_STEP_MEASURE) {
                if (r->edges.is_answered[e] && isnan(r->edges.cos[e]))
                    add_line(&g->l, "edge %u nan", e);
                else if (r->edges.is_answered[e])
                    add_line(&g->l, "edge %u %.6f", e, r->edges.cos[e]);
                continue;
            }
            hd_str id = r->events.ids[r->edges.to[e]];
            if (step->kind == HD_STEP_POSTINGS) {
                add_line(&g->l, "edge %u " HD_STR_FMT " %u", i, HD_STR_ARG(id), r->edges.kinds ? r->edges.kinds[e] : 0);
                continue;
            }
            uint32_t mask = 0;
            for (uint32_t v = r->edges.via_offsets[e]; v < r->edges.via_offsets[e + 1]; v++) mask |= 1u << r->edges.via[v];
            assert_int_equal(__builtin_popcount(mask), r->edges.via_offsets[e + 1] - r->edges.via_offsets[e]);
            add_line(&g->l, "edge %u " HD_STR_FMT " via %x", i, HD_STR_ARG(id), mask);
        }
}

static void gather_connected(gathered *g, const hd_step_result *r) {
    g->done = UINT32_MAX;
    for (uint32_t p = 0; p < r->verdict_count; p++)
        if (r->verdicts[p].reach == HD_REACH_CUT) g->done = HD_MIN(g->done, r->verdicts[p].done);
    for (uint32_t i = 0; i < r->edges.from_count; i++) {
        uint32_t seen = 0;
        for (uint32_t e = r->edges.offsets[i]; e < r->edges.offsets[i + 1]; e++) {
            int name = name_of_id(false, r->names.ids[r->edges.to[e]]);
            assert_true(name >= 0 && !(seen & 1u << name));
            assert_true(hd_str_is_equal(r->names.names[r->edges.to[e]], str(ENTITY_NAMES[name])));
            seen |= 1u << name;
            g->common[i][name] += r->edges.counts[e];
        }
    }
}

static void gather(gathered *g, const hd_step *step, const hd_step_result *r) {
    g->scanned += r->used_scanned;
    g->measured += r->used_measured;
    bool is_of_names = step->frontier_label != HD_LABEL_EVENT && step->kind == HD_STEP_FACTS;
    if (is_of_names || step->kind == HD_STEP_POSTINGS || step->kind == HD_STEP_SHARES) gather_names(g, &r->names);
    if (step->kind == HD_STEP_START)
        gather_start(g, r);
    else if (step->kind == HD_STEP_NEXT)
        gather_next(g, r);
    else if (step->kind == HD_STEP_CONNECTED)
        gather_connected(g, r);
    else if (step->kind == HD_STEP_SIMILAR)
        gather_similar(g, r);
    else if (step->kind == HD_STEP_FACTS && !is_of_names)
        gather_event_facts(g, r);
    else if (step->kind != HD_STEP_RESOLVE)
        gather_edges(g, step, r);
    for (uint32_t n = 0; step->kind == HD_STEP_RESOLVE && n < r->names.count; n++) {
        int name = name_of_id(step->frontier_label == HD_LABEL_TAG, r->names.ids[n]);
        assert_true(name >= 0);
        if (g->counts[name] == 0) add_line(&g->l, "match " HD_STR_FMT " %u", HD_STR_ARG(r->names.names[n]), r->fold_of[n]);
        g->counts[name] += r->names.event_count[n];
    }
}

/* The rule of step.h: the nearest stands as `thread`, an explicit edge to the same event goes, then `kinds`. */
static void merge_next(gathered *g, const hd_step *step) {
    for (uint32_t i = 0; i < step->events.count; i++) {
        const candidate_edge *best = NULL;
        for (uint32_t e = 0; e < g->next_count; e++) {
            const candidate_edge *edge = &g->nexts[e];
            if (edge->from != i || edge->kind != HD_SOURCE_THREAD) continue;
            int order = best ? place_order(&edge->place, &best->place) : -1;
            if (!best || (step->is_backward ? -order : order) < 0) best = edge;
        }
        if (best && (!step->kinds || step->kinds & HD_SOURCE_THREAD))
            add_line(&g->l, "edge %u %s %d", i, best->id, HD_SOURCE_THREAD);
        for (uint32_t e = 0; e < g->next_count; e++) {
            const candidate_edge *edge = &g->nexts[e];
            if (edge->from != i || edge->kind != HD_SOURCE_EXPLICIT || (best && strcmp(best->id, edge->id) == 0)) continue;
            if (!step->kinds || step->kinds & HD_SOURCE_EXPLICIT) add_line(&g->l, "edge %u %s %d", i, edge->id, HD_SOURCE_EXPLICIT);
        }
    }
}

static void merge(gathered *g, const hd_step *step) {
    bool is_tag = step->frontier_label == HD_LABEL_TAG;
    if (step->kind == HD_STEP_NEXT) merge_next(g, step);
    for (uint32_t i = 0; step->kind == HD_STEP_CONNECTED && i < HD_MIN(step->names.count, g->done); i++)
        for (int n = 0; n < ENTITIES; n++)
            if (g->common[i][n] > 0) add_line(&g->l, "edge %u %s in %lu", i, ENTITY_NAMES[n], g->common[i][n]);
    if (step->kind == HD_STEP_SIMILAR) add_best(&g->l, g->neighbours, g->neighbour_count, step->similar_k);
    if (step->kind == HD_STEP_RESOLVE)
        for (int n = 0; n < (is_tag ? TAGS : ENTITIES); n++)
            if (g->counts[n]) add_line(&g->l, "count %s %lu", name_text(is_tag, n), g->counts[n]);
    bool has_names = step->kind == HD_STEP_POSTINGS || step->kind == HD_STEP_SHARES ||
                     (step->kind == HD_STEP_FACTS && step->frontier_label != HD_LABEL_EVENT);
    for (uint32_t n = 0; n < g->count_count && has_names; n++) {
        add_line(&g->l, "name %u %s %lu", n, g->names[n][0] ? g->names[n] : "-", g->counts[n]);
        if (g->type_texts[n][0])
            add_line(&g->l, "type %u %s %ld %s", n, g->type_texts[n], g->types[n].timestamp_us, g->types[n].id);
    }
    if (step->kind != HD_STEP_START) return;
    const hd_start *start = &step->start;
    qsort(g->hits, g->hit_count, sizeof(*g->hits), compare_model_hits);
    for (uint32_t h = 0; h < HD_MIN(g->hit_count, start->k); h++)
        add_line(&g->l, "hit %03u %s %ld %.6f", h, g->hits[h].event->id, g->hits[h].event->timestamp_us, g->hits[h].score);
    bool has_scope = start->entity_groups + start->tag_groups > 0 || start->has_since || start->has_until;
    add_line(&g->l, "more %d", g->has_more || g->hit_count > start->k);
    if (start->mode == HD_START_CLOSEST && has_scope)
        add_line(&g->l, "candidates %lu exact %d", g->candidates, g->is_candidates_exact);
    for (uint32_t c = 0; c < g->count_count; c++) add_line(&g->l, "group %u %lu", c, g->counts[c]);
}

/* -- running ---------------------------------------------------------------------------------------------------------------------- */
/* One request, and, where `piece_max` is not 0, all that go on after its cuts under new caps of 1..piece_max. */
static void run_pieces(const setting *s, const hd_step *step, uint32_t piece_max, gathered *g) {
    hd_arena *arena = hd_arena_new(0);
    hd_str resume[PARTS] = {0};
    setting piece = *s;
    bool is_resumed = false;
    for (uint32_t pieces = 0;; pieces++) {
        hd_step_reply reply;
        bool is_cut = false;
        assert_true(pieces < 5000);
        run_request(&piece, step, 1, is_resumed ? resume : NULL, arena, &reply);
        const hd_step_result *result = &reply.results[0];
        assert_true(result->used_scanned <= piece.scanned_max && result->used_measured <= piece.measured_max);
        gather(g, step, result);
        for (uint32_t p = 0; p < result->verdict_count; p++) {
            assert_int_not_equal(result->verdicts[p].reach, HD_REACH_FAILED);
            is_cut |= result->verdicts[p].reach == HD_REACH_CUT;
            assert_int_equal(result->verdicts[p].reach == HD_REACH_CUT, result->verdicts[p].resume.data != NULL);
            hd_str copy = {0};
            if (result->verdicts[p].resume.data) assert_int_equal(hd_arena_dup(arena, result->verdicts[p].resume, &copy), HD_OK);
            resume[p] = copy;
        }
        g->is_cut = is_cut;
        if (!is_cut || piece_max == 0) break;
        is_resumed = true;
        piece.scanned_max = 1 + below(piece_max);
        piece.measured_max = 1 + below(piece_max);
        if (below(8) == 0) piece.scanned_max += 300; /* so that what only comes whole does come */
    }
    hd_arena_free(arena);
}

static gathered *gathered_new(void) {
    return hd_alloc_zero(1, sizeof(gathered));
}

static void gathered_free(gathered *g) {
    free_lines(&g->l);
    hd_free(g);
}

/* Under every cap: cut exactly when it is less than the step takes; what came back is of the full answer; and gone on with, the step
 * comes to the same. */
static void check_caps(const setting *s, const hd_step *step, lines *expected, uint64_t scanned, uint64_t measured) {
    for (uint32_t which = 0; which < 2; which++) {
        uint64_t need = which == 0 ? scanned : measured;
        for (uint64_t cap = 0; cap <= need + 1; cap += need > 60 && cap + 4 < need ? 1 + below((uint32_t)need / 20) : 1) {
            setting capped = *s;
            if (which == 0)
                capped.scanned_max = cap;
            else
                capped.measured_max = cap;
            gathered *g = gathered_new(), *whole = gathered_new();
            run_pieces(&capped, step, 0, g);
            /* Rows of dead versions stand in the vector index: where only such are left, nothing is. */
            bool may_be_whole = which == 1 && (step->kind == HD_STEP_START || step->kind == HD_STEP_SIMILAR);
            if (g->is_cut != (cap < need) && !(may_be_whole && !g->is_cut))
                fail_msg("%s: cap %lu of %lu: cut %d", s->what, cap, need, g->is_cut);
            /* Nothing is left of a cap that ended a step, but where the next list did not fit in what was left. */
            bool is_of_lists = which == 0 && (step->kind == HD_STEP_FACTS || step->kind == HD_STEP_NEXT);
            if (g->is_cut && (which == 0 ? g->scanned : g->measured) != cap && !is_of_lists)
                fail_msg("%s: cut with %lu and %lu used of %lu", s->what, g->scanned, g->measured, cap);
            bool is_best_of_all = step->kind == HD_STEP_START || step->kind == HD_STEP_NEXT || step->kind == HD_STEP_SIMILAR;
            if (!g->is_cut || !is_best_of_all) merge(g, step);
            if (!g->is_cut) check_same(&g->l, expected, s->what);
            /* The counts of RESOLVE are those of the partitions that were reached. */
            else if (step->kind != HD_STEP_RESOLVE)
                check_among(&g->l, expected, s->what);
            run_pieces(&capped, step, 1 + below(12), whole);
            merge(whole, step);
            check_same(&whole->l, expected, "gone on with");
            /* However a budget is shared out, what was enough stays enough. */
            if (whole->scanned > scanned || whole->measured > measured)
                fail_msg("%s: %lu and %lu used in pieces, %lu and %lu at once", s->what, whole->scanned, whole->measured, scanned,
                         measured);
            gathered_free(g);
            gathered_free(whole);
        }
    }
}

static void check_step(const fixture *f, const hd_step *step, const char *what) {
    for (uint32_t w = 0; w < 2; w++)
        for (uint32_t is_old = 0; is_old < 2; is_old++) {
            const model_world *world = &f->worlds[w];
            lines *expected = hd_alloc_zero(1, sizeof(*expected));
            expect(is_old ? &f->old : &f->now, step, expected);
            setting s = {.world = world, .count = world->parts, .scanned_max = ALL, .measured_max = ALL, .what = what};
            s.sequences = is_old ? f->old_sequences[w] : world->sequences;
            gathered *g = gathered_new();
            run_pieces(&s, step, 0, g);
            merge(g, step);
            assert_false(g->is_cut);
            check_same(&g->l, expected, what);
            for (uint32_t split = 0; split < 2 && w == 1; split++) { /* over several requests, as over several shards */
                gathered *parts = gathered_new();
                setting part = s;
                for (part.first = 0; part.first < world->parts; part.first += part.count) {
                    part.count = split == 0 ? 2 : 1;
                    run_pieces(&part, step, 0, parts);
                }
                merge(parts, step);
                check_same(&parts->l, expected, what);
                gathered_free(parts);
            }
            check_caps(&s, step, expected, g->scanned, g->measured);
            gathered_free(g);
            free_lines(expected);
            hd_free(expected);
        }
}

static void test_steps_against_the_model(void **state) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fixture *f = hd_alloc(sizeof(*f));
        build(f);
        for (uint32_t which = 0; which < STEP_MAKERS; which++)
            for (uint32_t again = 0; again < 2; again++) {
                hd_arena *arena = hd_arena_new(0);
                const char *what;
                hd_step step = make_step(arena, again == 0 ? &f->now : &f->old, which, &what);
                check_step(f, &step, what);
                hd_arena_free(arena);
            }
        tear_down(f);
        hd_free(f);
    }
}

int main(int argc, char **argv) {
    randomness.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_against_the_model),
    };
    return cmocka_run_group_tests_name("shard step", tests, NULL, NULL);
}
