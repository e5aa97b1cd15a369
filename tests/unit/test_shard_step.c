/* Steps against a naive model: random graphs in one and in four partitions, at the newest and at an older sequence; each step kind
 * whole, split over requests, under every cap from nothing to just enough, and gone on with until it is complete.
 * The seed is printed first and may be given as an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/buf.h"
#include "common/clock.h"
#include "common/figure.h"
#include "common/ids.h"
#include "common/text.h"
#include "proto/codec.h"
#include "shard/step_private.h"
#include "tests/support/seed.h"

enum { EVENTS = 90, ENTITIES = 10, TAGS = 5, THREADS = 3, DIMENSION = 4, PARTS = 4, NAMES_MAX = 16, LISTS_MAX = 6 };
enum { ALL = 1 << 30 };

/* -- random --------------------------------------------------------------------------------------------------------------------- */
static test_random randomness;

static uint32_t below(uint32_t end) {
    return test_random_below(&randomness, end);
}

/* -- the model ------------------------------------------------------------------------------------------------------------------ */
static const char *ENTITY_NAMES[ENTITIES] = {"Anna", "ANNA", "anna", "Bo", "Cleo", "disk", "Etcd", "Finn", "Gus", "Straße"};
static const char *TAG_NAMES[TAGS] = {"ops", "ops/backup", "OPS", "plan", "risk"};
static const char *THREAD_NAMES[THREADS] = {"t0", "t1", "t2"};
static const char *TYPES[3] = {NULL, "person", "system"};

typedef struct model_event {
    bool is_live;
    char id[16];
    int64_t timestamp_us, order_index;
    bool has_order, has_vector;
    int thread, previous; /* −1: none */
    int entities[LISTS_MAX], types[LISTS_MAX], entity_count;
    int tags[LISTS_MAX], tag_count;
    uint8_t kinds[LISTS_MAX];
    float vector[DIMENSION];
    uint64_t record;
} model_event;

typedef struct model {
    model_event events[EVENTS];
    uint64_t record;
} model;

typedef struct model_world {
    uint32_t parts;
    sh_graph *graphs[PARTS];
    uint64_t sequences[PARTS];
} model_world;

typedef struct fixture {
    model now, old;
    model_world worlds[2]; /* the same events in one partition, and in four */
    uint64_t old_sequences[2][PARTS];
} fixture;

static hd_str str(const char *text) {
    return hd_str_of(text);
}

static void make_event(model_event *event) {
    event->is_live = true;
    event->timestamp_us = 1000 + below(40);
    event->has_order = below(3) > 0;
    event->order_index = event->has_order ? (int64_t)below(12) - 4 : 0;
    event->thread = (int)below(THREADS + 1) - 1;
    event->previous = below(3) > 0 ? (int)below(EVENTS) : -1;
    event->entity_count = event->tag_count = 0;
    for (int e = 0, skew = (int)below(ENTITIES) + 1; e < ENTITIES && event->entity_count < LISTS_MAX; e++) {
        if ((int)below(ENTITIES) >= skew || below(2)) continue;
        event->entities[event->entity_count] = (e + 3) % ENTITIES;
        event->types[event->entity_count++] = (int)below(3);
    }
    for (int t = 0; t < TAGS && event->tag_count + 2 <= LISTS_MAX; t++) {
        uint8_t kinds = (uint8_t)below(6);
        for (uint8_t kind = 1; kind <= 2; kind++)
            if (kinds & kind && kinds < 4) event->tags[event->tag_count] = t, event->kinds[event->tag_count++] = kind;
    }
    event->has_vector = below(4) > 0;
    for (int d = 0; d < DIMENSION; d++) event->vector[d] = (float)((int)below(5) - 2);
    event->vector[0] += 3;
}

static void apply_save(model_world *world, const model_event *event) {
    hd_entity_ref entities[LISTS_MAX];
    hd_tag_ref tags[LISTS_MAX];
    char previous[16];
    for (int e = 0; e < event->entity_count; e++)
        entities[e] = (hd_entity_ref){str(ENTITY_NAMES[event->entities[e]]), str(TYPES[event->types[e]])};
    for (int t = 0; t < event->tag_count; t++) tags[t] = (hd_tag_ref){str(TAG_NAMES[event->tags[t]]), event->kinds[t]};
    snprintf(previous, sizeof(previous), "e%02d", event->previous);
    hd_event_record record = {.id = str(event->id),
                              .timestamp_us = event->timestamp_us,
                              .has_order = event->has_order,
                              .order_index = event->order_index,
                              .thread = event->thread >= 0 ? str(THREAD_NAMES[event->thread]) : (hd_str){0},
                              .previous = event->previous >= 0 ? str(previous) : (hd_str){0},
                              .entities = entities,
                              .entity_count = (uint32_t)event->entity_count,
                              .tags = tags,
                              .tag_count = (uint32_t)event->tag_count,
                              .vector = event->has_vector ? (float *)event->vector : NULL,
                              .dimension = event->has_vector ? DIMENSION : 0};
    uint32_t part = hd_event_partition(record.id, world->parts);
    sh_graph_apply_save(world->graphs[part], &record, event->record, ++world->sequences[part]);
    sh_graph_publish(world->graphs[part], world->sequences[part]);
}

static void apply_delete(model_world *world, const model_event *event) {
    uint32_t part = hd_event_partition(str(event->id), world->parts);
    assert_true(sh_graph_apply_delete(world->graphs[part], str(event->id), ++world->sequences[part]));
    sh_graph_publish(world->graphs[part], world->sequences[part]);
}

static void change_at_random(fixture *f, uint32_t count) {
    for (uint32_t c = 0; c < count; c++) {
        uint32_t index = below(EVENTS);
        model_event *event = &f->now.events[index];
        bool is_delete = event->is_live && below(3) == 0;
        if (is_delete)
            event->is_live = false;
        else
            make_event(event);
        event->record = ++f->now.record;
        snprintf(event->id, sizeof(event->id), "e%02u", index);
        for (uint32_t w = 0; w < 2; w++) is_delete ? apply_delete(&f->worlds[w], event) : apply_save(&f->worlds[w], event);
    }
}

static void build(fixture *f) {
    memset(f, 0, sizeof(*f));
    for (uint32_t w = 0; w < 2; w++) {
        f->worlds[w].parts = w == 0 ? 1 : PARTS;
        for (uint32_t p = 0; p < f->worlds[w].parts; p++) {
            f->worlds[w].graphs[p] = sh_graph_new(DIMENSION);
            sh_graph_publish(f->worlds[w].graphs[p], f->worlds[w].sequences[p] = 1);
        }
    }
    change_at_random(f, 20 + below(120));
    f->old = f->now;
    for (uint32_t w = 0; w < 2; w++) memcpy(f->old_sequences[w], f->worlds[w].sequences, sizeof(f->old_sequences[w]));
    change_at_random(f, 60);
}

static void tear_down(fixture *f) {
    for (uint32_t w = 0; w < 2; w++)
        for (uint32_t p = 0; p < f->worlds[w].parts; p++) sh_graph_free(f->worlds[w].graphs[p]);
}

static int find_event(hd_str id) {
    char text[16];
    snprintf(text, sizeof(text), HD_STR_FMT, HD_STR_ARG(id));
    return (int)strtol(text + 1, NULL, 10);
}

static bool has_entity(const model_event *event, int entity) {
    for (int e = 0; e < event->entity_count; e++)
        if (event->entities[e] == entity) return true;
    return false;
}

static uint8_t tag_kinds(const model_event *event, int tag) {
    uint8_t kinds = 0;
    for (int t = 0; t < event->tag_count; t++)
        if (event->tags[t] == tag) kinds |= event->kinds[t];
    return kinds;
}

static uint64_t count_of(const model *m, bool is_tag, int name) {
    uint64_t count = 0;
    for (int i = 0; i < EVENTS; i++)
        count += m->events[i].is_live && (is_tag ? tag_kinds(&m->events[i], name) != 0 : has_entity(&m->events[i], name));
    return count;
}

static const char *name_text(bool is_tag, int name) {
    return is_tag ? TAG_NAMES[name] : ENTITY_NAMES[name];
}

/* The number of a name by its id; −1: the id that nothing has. */
static int name_of_id(bool is_tag, hd_id128 id) {
    for (int n = 0; n < (is_tag ? TAGS : ENTITIES); n++)
        if (hd_id128_is_equal(hd_name_id(str(name_text(is_tag, n))), id)) return n;
    return -1;
}

static int place_order(const model_event *a, const model_event *b) {
    if (a->has_order != b->has_order) return a->has_order ? -1 : 1;
    if (a->has_order && a->order_index != b->order_index) return a->order_index < b->order_index ? -1 : 1;
    if (a->timestamp_us != b->timestamp_us) return a->timestamp_us < b->timestamp_us ? -1 : 1;
    return strcmp(a->id, b->id);
}

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
    case HD_STEP_RESOLVE: expect_resolve(m, step, l); break;
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

static void gather(gathered *g, const hd_step *step, const hd_step_result *r) {
    g->scanned += r->used_scanned;
    g->measured += r->used_measured;
    bool is_of_names = step->frontier_label != HD_LABEL_EVENT && step->kind == HD_STEP_FACTS;
    if (is_of_names || step->kind == HD_STEP_POSTINGS || step->kind == HD_STEP_SHARES) gather_names(g, &r->names);
    if (step->kind == HD_STEP_START)
        gather_start(g, r);
    else if (step->kind == HD_STEP_NEXT)
        gather_next(g, r);
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
typedef struct setting {
    const model_world *world;
    const uint64_t *sequences;
    uint32_t first, count; /* partitions asked */
    uint64_t scanned_max, measured_max;
    const char *what;
} setting;

static hd_status text_of_record(void *self, uint64_t record, hd_arena *arena, hd_str *summary_out, hd_str *content_out) {
    (void)self;
    if (summary_out) HD_TRY(hd_arena_printf(arena, summary_out, "s%lu", record));
    return content_out ? hd_arena_printf(arena, content_out, "c%lu", record) : HD_OK;
}

static const sh_check NO_DEADLINE = {.deadline_us = UINT64_MAX};

static void run_request(const setting *s, const hd_step *steps, uint32_t step_count, const hd_str *resume, hd_arena *arena,
                        hd_step_reply *reply) {
    sh_source sources[PARTS];
    hd_partition_ref refs[PARTS] = {0};
    for (uint32_t p = 0; p < s->count; p++) {
        sources[p] = (sh_source){.graph = s->world->graphs[s->first + p], .incarnation = 77 + p, .get_text = text_of_record};
        refs[p] = (hd_partition_ref){.id = 100 + s->first + p, .epoch = 1, .sequence = s->sequences[s->first + p]};
        if (resume) refs[p].resume = resume[p];
    }
    hd_step_request request = {.query = 1,
                               .org = 1,
                               .partitions = refs,
                               .partition_count = s->count,
                               .is_whole_org = s->count == s->world->parts,
                               .org_partitions = s->world->parts,
                               .frontier_max = ALL,
                               .scanned_max = s->scanned_max,
                               .measured_max = s->measured_max,
                               .steps = (hd_step *)steps,
                               .step_count = step_count};
    assert_int_equal(hd_codec_check_request(&request), HD_OK);
    sh_step_run_over(sources, &request, &NO_DEADLINE, arena, reply);
    if (reply->status != HD_OK) fail_msg("%s: status %s", s->what, hd_status_name(reply->status));
    assert_int_equal(hd_codec_check_reply(&request, reply), HD_OK);
    for (uint32_t p = 0; p < s->count; p++) {
        assert_int_equal(reply->partitions[p].sequence, s->sequences[s->first + p]);
        assert_int_equal(reply->partitions[p].incarnation, 77 + p);
    }
}

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
            bool may_be_whole = which == 1 && step->kind == HD_STEP_START;
            if (g->is_cut != (cap < need) && !(may_be_whole && !g->is_cut))
                fail_msg("%s: cap %lu of %lu: cut %d", s->what, cap, need, g->is_cut);
            /* Nothing is left of a cap that ended a step. */
            if (g->is_cut && (which == 0 ? g->scanned : g->measured) != cap)
                fail_msg("%s: cut with %lu and %lu used of %lu", s->what, g->scanned, g->measured, cap);
            if (!g->is_cut || (step->kind != HD_STEP_START && step->kind != HD_STEP_NEXT)) merge(g, step);
            if (!g->is_cut) check_same(&g->l, expected, s->what);
            /* The counts of RESOLVE are those of the partitions that were reached. */
            else if (step->kind != HD_STEP_RESOLVE)
                check_among(&g->l, expected, s->what);
            run_pieces(&capped, step, 1 + below(12), whole);
            merge(whole, step);
            check_same(&whole->l, expected, "gone on with");
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

/* -- random steps ----------------------------------------------------------------------------------------------------------------- */
static void *take(hd_arena *arena, size_t count, size_t size) {
    void *memory = hd_arena_alloc_zero(arena, count, size);
    assert_non_null(memory);
    return memory;
}

/* Some events of the model (dead ones too, each once), with the columns that NEXT wants. */
static void make_events(hd_arena *arena, const model *m, hd_event_batch *b, bool has_columns) {
    uint32_t start = below(EVENTS), stride = 1 + below(9);
    b->count = 1 + below(8);
    b->ids = take(arena, b->count, sizeof(*b->ids));
    b->flags = take(arena, b->count, 1);
    b->timestamp_us = take(arena, b->count, sizeof(int64_t));
    b->order_index = take(arena, b->count, sizeof(int64_t));
    b->threads = take(arena, b->count, sizeof(hd_str));
    b->previous = take(arena, b->count, sizeof(hd_str));
    for (uint32_t i = 0; i < b->count; i++) {
        const model_event *event = &m->events[(start + i * stride) % EVENTS];
        hd_str previous;
        char id[16];
        snprintf(id, sizeof(id), "e%02u", (start + i * stride) % EVENTS);
        assert_int_equal(hd_arena_dup(arena, str(id), &b->ids[i]), HD_OK);
        if (!event->id[0] || !has_columns) continue;
        b->flags[i] = (uint8_t)(HD_EVENT_EXISTS | (event->thread >= 0 ? HD_EVENT_HAS_THREAD : 0) |
                                (event->has_order ? HD_EVENT_HAS_ORDER : 0) | (event->has_vector ? HD_EVENT_HAS_VECTOR : 0));
        b->timestamp_us[i] = event->timestamp_us;
        b->order_index[i] = event->order_index;
        if (event->thread >= 0) b->threads[i] = str(THREAD_NAMES[event->thread]);
        if (event->previous < 0) continue;
        assert_int_equal(hd_arena_printf(arena, &previous, "e%02d", event->previous), HD_OK);
        b->previous[i] = previous;
    }
    if (has_columns) return;
    memset(b->flags, 0, b->count);
}

static void make_names(hd_arena *arena, bool is_tag, hd_id128 **ids, uint32_t *count) {
    uint32_t all = is_tag ? TAGS : ENTITIES, skip = below(all);
    *ids = take(arena, all + 1, sizeof(hd_id128));
    *count = 0;
    for (uint32_t n = 0; n < all; n++)
        if (n != skip || below(2)) (*ids)[(*count)++] = hd_name_id(str(name_text(is_tag, (int)((n * 7 + skip) % all))));
    (*ids)[(*count)++] = hd_name_id(str("nobody has this"));
}

static hd_step make_postings(hd_arena *arena, bool is_tag) {
    hd_step step = {.kind = HD_STEP_POSTINGS, .number = 3, .from_result = -1, .kinds = is_tag ? (uint8_t)below(4) : 0};
    step.frontier_label = is_tag ? HD_LABEL_TAG : HD_LABEL_ENTITY;
    make_names(arena, is_tag, &step.names.ids, &step.names.count);
    return step;
}

static hd_step make_shares(hd_arena *arena, const model *m) {
    hd_step step = {.kind = HD_STEP_SHARES, .number = 4, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    step.shares_min = 1 + below(3);
    make_events(arena, m, &step.events, false);
    make_names(arena, false, &step.names.ids, &step.names.count);
    step.edges.from_count = step.events.count;
    step.edges.offsets = take(arena, step.events.count + 1, sizeof(uint32_t));
    step.edges.to = take(arena, (size_t)step.events.count * step.names.count, sizeof(uint32_t));
    for (uint32_t i = 0, at = 0; i < step.events.count; i++) {
        const model_event *event = &m->events[find_event(step.events.ids[i])];
        for (uint32_t n = 0; n < step.names.count; n++) {
            int name = name_of_id(false, step.names.ids[n]);
            if (name < 0 ? below(2) : has_entity(event, name)) step.edges.to[at++] = n;
        }
        step.edges.offsets[i + 1] = at;
    }
    return step;
}

static hd_step make_next(hd_arena *arena, const model *m) {
    hd_step step = {.kind = HD_STEP_NEXT, .number = 5, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    step.is_backward = below(2);
    step.kinds = (uint8_t)below(4);
    make_events(arena, m, &step.events, true);
    return step;
}

static void make_groups(hd_arena *arena, bool is_tag, hd_name_group **groups, uint32_t *count) {
    *count = below(3);
    *groups = take(arena, *count, sizeof(**groups));
    for (uint32_t g = 0; g < *count; g++) {
        hd_name_group *group = &(*groups)[g];
        group->count = 1 + below(3);
        group->ids = take(arena, group->count, sizeof(hd_id128));
        for (uint32_t n = 0; n < group->count; n++) { /* doubles too, and names that nothing has */
            uint32_t all = is_tag ? TAGS : ENTITIES, name = below(all + 1);
            group->ids[n] = hd_name_id(str(name < all ? name_text(is_tag, (int)name) : "nobody has this"));
        }
    }
}

static hd_step make_start(hd_arena *arena, hd_start_mode mode) {
    hd_step step = {.kind = HD_STEP_START, .number = 1, .from_result = -1, .start = {.mode = mode, .k = 1 + below(12)}};
    hd_start *start = &step.start;
    if (below(3) > 0) make_groups(arena, false, &start->entities, &start->entity_groups);
    if (below(3) == 0) make_groups(arena, true, &start->tags, &start->tag_groups);
    if (below(10) == 0) start->k = 200;
    start->has_since = below(4) == 0;
    start->has_until = below(4) == 0;
    start->since_us = 1000 + below(20);
    start->until_us = 1020 + below(25);
    if (mode == HD_START_NEWEST) return step;
    start->dimension = DIMENSION;
    start->vector = take(arena, DIMENSION, sizeof(float));
    for (int d = 0; d < DIMENSION; d++) start->vector[d] = (float)((int)below(5) - 2);
    start->vector[0] += 3;
    return step;
}

static hd_step make_facts(hd_arena *arena, const model *m, hd_label label) {
    hd_step step = {.kind = HD_STEP_FACTS, .number = 2, .from_result = -1, .frontier_label = label, .dimension = DIMENSION};
    if (label != HD_LABEL_EVENT) {
        step.facets = label == HD_LABEL_ENTITY ? HD_FACET_TYPE : 0;
        make_names(arena, label == HD_LABEL_TAG, &step.names.ids, &step.names.count);
        return step;
    }
    make_events(arena, m, &step.events, false);
    const uint32_t edges[3] = {0, HD_FACET_ENTITIES, HD_FACET_TAGS};
    step.facets = HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS | HD_FACET_SUMMARY | HD_FACET_CONTENT |
                  HD_FACET_VECTOR | edges[below(3)];
    step.kinds = step.facets & HD_FACET_TAGS ? (uint8_t)below(4) : 0;
    return step;
}

static hd_step make_resolve(hd_arena *arena, bool is_tag) {
    hd_step step = {.kind = HD_STEP_RESOLVE, .from_result = -1, .frontier_label = is_tag ? HD_LABEL_TAG : HD_LABEL_ENTITY};
    static const hd_str FOLDED[] = {HD_STR("anna"), HD_STR("strasse"), HD_STR("none"),
                                    HD_STR("ops"),  HD_STR("anna"),    HD_STR("risk")};
    step.folded_count = 1 + below(HD_COUNT_OF(FOLDED));
    step.folded = take(arena, step.folded_count, sizeof(hd_str));
    for (uint32_t i = 0; i < step.folded_count; i++) step.folded[i] = FOLDED[(i + below(2)) % HD_COUNT_OF(FOLDED)];
    return step;
}

static hd_step make_measure(hd_arena *arena, const model *m) {
    hd_step step = {.kind = HD_STEP_MEASURE, .from_result = -1, .frontier_label = HD_LABEL_EVENT, .dimension = DIMENSION};
    make_events(arena, m, &step.events, true);
    make_events(arena, m, &step.to_events, false);
    step.edges.from_count = step.events.count;
    step.edges.offsets = take(arena, step.events.count + 1, sizeof(uint32_t));
    step.edges.to = take(arena, (size_t)step.events.count * step.to_events.count, sizeof(uint32_t));
    for (uint32_t i = 0, at = 0; i < step.events.count; i++) {
        for (uint32_t t = 0; t < step.to_events.count; t++)
            if (below(3)) step.edges.to[at++] = t;
        step.edges.offsets[i + 1] = at;
    }
    /* From ends are only known without their vectors where the request covers the whole org. */
    step.events.vectors = take(arena, (size_t)step.events.count * DIMENSION, sizeof(float));
    step.events.dimension = DIMENSION;
    for (uint32_t i = 0; i < step.events.count; i++) {
        step.events.flags[i] |= HD_EVENT_EXISTS;
        memcpy(step.events.vectors + (size_t)i * DIMENSION, m->events[find_event(step.events.ids[i])].vector,
               sizeof(float) * DIMENSION);
    }
    return step;
}

static hd_step make_step(hd_arena *arena, const model *m, uint32_t which, const char **what_out) {
    switch (which) {
    case 0: *what_out = "postings of entities"; return make_postings(arena, false);
    case 1: *what_out = "postings of tags"; return make_postings(arena, true);
    case 2: *what_out = "shares"; return make_shares(arena, m);
    case 3: *what_out = "next"; return make_next(arena, m);
    case 4: *what_out = "start newest"; return make_start(arena, HD_START_NEWEST);
    case 5: *what_out = "start closest"; return make_start(arena, HD_START_CLOSEST);
    case 6: *what_out = "facts of events"; return make_facts(arena, m, HD_LABEL_EVENT);
    case 7: *what_out = "facts of entities"; return make_facts(arena, m, HD_LABEL_ENTITY);
    case 8: *what_out = "facts of tags"; return make_facts(arena, m, HD_LABEL_TAG);
    case 9: *what_out = "resolve entities"; return make_resolve(arena, false);
    case 10: *what_out = "resolve tags"; return make_resolve(arena, true);
    default: *what_out = "measure"; return make_measure(arena, m);
    }
}

enum { STEP_MAKERS = 12, ROUNDS = 10 };

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

/* -- chains ------------------------------------------------------------------------------------------------------------------------- */
/* One text for a whole result: tables in order, so that equal texts mean equal results. */
static void print_result(hd_buf *buf, const hd_step_result *r, bool has_counts) {
    hd_buf_printf(buf, "step %u more %d\n", r->number, r->has_more);
    for (uint32_t i = 0; i < r->events.count; i++)
        hd_buf_printf(buf, " event " HD_STR_FMT " %u\n", HD_STR_ARG(r->events.ids[i]), r->events.flags[i]);
    for (uint32_t i = 0; i < r->names.count; i++)
        hd_buf_printf(buf, " name " HD_STR_FMT " %lu\n", HD_STR_ARG(r->names.names[i]), has_counts ? r->names.event_count[i] : 0);
    for (uint32_t e = 0; e < hd_edges_count(&r->edges); e++) {
        hd_buf_printf(buf, " edge %u kind %d cos %.6f via", r->edges.to[e], r->edges.kinds ? r->edges.kinds[e] : 0,
                      r->edges.cos ? r->edges.cos[e] : 0);
        for (uint32_t v = r->edges.via_offsets ? r->edges.via_offsets[e] : 0; r->edges.via && v < r->edges.via_offsets[e + 1]; v++)
            hd_buf_printf(buf, " %u", r->edges.via[v]);
        hd_buf_printf(buf, "\n");
    }
    for (uint32_t i = 0; i <= r->edges.from_count && r->edges.offsets; i++) hd_buf_printf(buf, " %u", r->edges.offsets[i]);
}

/* Gives each step of a chain, run alone, the tables that it would have taken from the results before it. */
static hd_step make_explicit(const hd_step *step, const hd_step_result *results, const hd_step *steps) {
    hd_step alone = *step;
    if (step->from_result < 0) return alone;
    const hd_step_result *source = &results[step->from_result];
    alone.from_result = -1;
    if (step->kind == HD_STEP_MEASURE) {
        alone.events = results[steps[step->from_result].from_result].events;
        alone.events.vectors = NULL;
        alone.to_events = source->events;
        alone.edges = source->edges;
        return alone;
    }
    alone.events = source->events;
    alone.names = source->names;
    alone.edges = source->edges;
    return alone;
}

static void check_chain(const setting *s, const hd_step *steps, uint32_t count) {
    hd_arena *arena = hd_arena_new(0);
    hd_step_reply chain, one;
    hd_step_result results[8];
    run_request(s, steps, count, NULL, arena, &chain);
    assert_int_equal(chain.result_count, count);
    for (uint32_t i = 0; i < count; i++) {
        hd_step alone = make_explicit(&steps[i], results, steps);
        hd_buf of_chain = {0}, of_one = {0};
        run_request(s, &alone, 1, NULL, arena, &one);
        results[i] = one.results[0];
        print_result(&of_chain, &chain.results[i], true);
        print_result(&of_one, &results[i], true);
        assert_string_equal(of_chain.data, of_one.data);
        assert_int_equal(chain.results[i].used_scanned, results[i].used_scanned);
        assert_int_equal(chain.results[i].used_measured, results[i].used_measured);
        hd_buf_fini(&of_chain);
        hd_buf_fini(&of_one);
    }
    hd_arena_free(arena);
}

enum { NEXT_FACETS = HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS };

static void test_chain_is_its_steps(void **state) {
    for (uint32_t round = 0; round < ROUNDS; round++) {
        fixture *f = hd_alloc(sizeof(*f));
        hd_arena *arena = hd_arena_new(0);
        build(f);
        hd_step start = make_start(arena, round % 2 ? HD_START_NEWEST : HD_START_CLOSEST);
        start.start.facets = NEXT_FACETS;
        hd_step entities = {.kind = HD_STEP_FACTS, .number = 2, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ENTITIES};
        hd_step tags = entities;
        tags.facets = HD_FACET_TAGS;
        hd_step shares = {.kind = HD_STEP_SHARES, .number = 3, .from_result = 1, .frontier_label = HD_LABEL_EVENT, .shares_min = 1};
        hd_step measure = {.kind = HD_STEP_MEASURE, .number = 4, .from_result = 2, .frontier_label = HD_LABEL_EVENT};
        hd_step next = {.kind = HD_STEP_NEXT, .number = 2, .frontier_label = HD_LABEL_EVENT, .facets = NEXT_FACETS};
        hd_step next2 = next, measure_next = measure;
        next2.from_result = 1;
        measure_next.from_result = 1;
        hd_step postings = {.kind = HD_STEP_POSTINGS, .number = 3, .from_result = 1, .frontier_label = HD_LABEL_TAG};
        hd_step facts = {.kind = HD_STEP_FACTS, .from_result = 2, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_SUMMARY};
        for (uint32_t w = 0; w < 2; w++) {
            setting s = {.world = &f->worlds[w],
                         .sequences = f->worlds[w].sequences,
                         .count = f->worlds[w].parts,
                         .scanned_max = ALL,
                         .measured_max = ALL,
                         .what = "chain"};
            check_chain(&s, (hd_step[]){start, entities, shares, measure}, 4);
            check_chain(&s, (hd_step[]){start, next, next2, measure_next}, 4);
            check_chain(&s, (hd_step[]){start, tags, postings, facts}, 4);
        }
        tear_down(f);
        hd_free(f);
        hd_arena_free(arena);
    }
}

/* -- what ends a chain, and failures ------------------------------------------------------------------------------------------------- */
typedef struct bench {
    fixture f;
    hd_arena *arena;
    sh_source sources[PARTS];
    hd_partition_ref refs[PARTS];
    hd_step steps[2];
    hd_step_request request;
    hd_step_reply reply;
} bench;

/* START of the newest five and FACTS of their summaries, over four partitions. */
static bench *bench_new(void) {
    bench *b = hd_alloc_zero(1, sizeof(*b));
    build(&b->f);
    b->arena = hd_arena_new(0);
    for (uint32_t p = 0; p < PARTS; p++) {
        b->sources[p] = (sh_source){.graph = b->f.worlds[1].graphs[p], .incarnation = 5, .get_text = text_of_record};
        b->refs[p] = (hd_partition_ref){.id = 1 + p, .epoch = 1};
    }
    b->steps[0] = (hd_step){.kind = HD_STEP_START, .from_result = -1, .start = {.mode = HD_START_NEWEST, .k = 5}};
    b->steps[1] = (hd_step){.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_SUMMARY};
    b->request = (hd_step_request){.org = 1,
                                   .partitions = b->refs,
                                   .partition_count = PARTS,
                                   .is_whole_org = true,
                                   .org_partitions = PARTS,
                                   .frontier_max = ALL,
                                   .scanned_max = ALL,
                                   .measured_max = ALL,
                                   .steps = b->steps,
                                   .step_count = 2};
    return b;
}

static void bench_free(bench *b) {
    tear_down(&b->f);
    hd_arena_free(b->arena);
    hd_free(b);
}

static void bench_run(bench *b, const sh_check *check) {
    sh_step_run_over(b->sources, &b->request, check ? check : &NO_DEADLINE, b->arena, &b->reply);
    if (b->reply.status == HD_OK) assert_int_equal(hd_codec_check_reply(&b->request, &b->reply), HD_OK);
}

static void test_chain_ends(void **state) {
    bench *b = bench_new();
    bench_run(b, NULL);
    assert_int_equal(b->reply.result_count, 2);
    assert_int_equal(b->reply.results[1].events.count, 5);
    for (uint32_t p = 0; p < PARTS; p++) assert_int_equal(b->reply.partitions[p].sequence, b->f.worlds[1].sequences[p]);

    b->request.frontier_max = 4; /* one more event than that was found */
    bench_run(b, NULL);
    assert_int_equal(b->reply.result_count, 1);
    b->request.frontier_max = 5;
    bench_run(b, NULL);
    assert_int_equal(b->reply.result_count, 2);

    b->request.scanned_max = 1; /* START is cut */
    bench_run(b, NULL);
    assert_int_equal(b->reply.result_count, 1);
    assert_int_equal(b->reply.results[0].verdicts[PARTS - 1].reach, HD_REACH_CUT);
    b->request.scanned_max = ALL;

    b->request.is_whole_org = false;
    bench_run(b, NULL);
    assert_int_equal(b->reply.result_count, 1);
    bench_free(b);
}

static void test_partition_fails_alone(void **state) {
    bench *b = bench_new();
    b->sources[2] = (sh_source){.code = HD_MAP_STALE};
    b->refs[1].sequence = b->f.worlds[1].sequences[1] + 1000;
    bench_run(b, NULL);
    assert_int_equal(b->reply.status, HD_OK);
    assert_int_equal(b->reply.result_count, 1);
    const hd_step_result *r = &b->reply.results[0];
    assert_int_equal(r->verdicts[0].reach, HD_REACH_COMPLETE);
    assert_int_equal(r->verdicts[1].reach, HD_REACH_FAILED);
    assert_int_equal(r->verdicts[1].code, HD_SNAPSHOT_GONE);
    assert_int_equal(r->verdicts[2].reach, HD_REACH_FAILED);
    assert_int_equal(r->verdicts[2].code, HD_MAP_STALE);
    assert_int_equal(r->verdicts[3].reach, HD_REACH_COMPLETE);
    for (uint32_t i = 0; i < r->events.count; i++) {
        uint32_t part = hd_event_partition(r->events.ids[i], PARTS);
        assert_true(part == 0 || part == 3);
    }
    bench_free(b);
}

static hd_status no_text(void *self, uint64_t record, hd_arena *arena, hd_str *summary_out, hd_str *content_out) {
    return *(hd_status *)self;
}

static void test_text_that_cannot_be_read(void **state) {
    bench *b = bench_new();
    hd_status code = HD_STORE_IO;
    b->sources[1].get_text = no_text;
    b->sources[1].self = &code;
    b->steps[0].start.k = 200;
    bench_run(b, NULL);
    assert_int_equal(b->reply.result_count, 2);
    const hd_step_result *r = &b->reply.results[1];
    assert_int_equal(r->verdicts[1].reach, HD_REACH_FAILED);
    assert_int_equal(r->verdicts[1].code, HD_STORE_IO);
    for (uint32_t i = 0; i < r->events.count; i++) {
        bool is_there = hd_event_partition(r->events.ids[i], PARTS) != 1;
        assert_int_equal(is_there, (r->events.flags[i] & HD_EVENT_EXISTS) != 0);
        assert_int_equal(is_there, r->events.summaries[i].data != NULL);
    }
    bench_free(b);
}

static void test_deadline_and_cancel(void **state) {
    bench *b = bench_new();
    hd_clock_use_scripted(1000000, 0);
    bench_run(b, &(sh_check){.deadline_us = 1000001});
    assert_int_equal(b->reply.result_count, 2);
    /* Every kind of step, late from its first unit on. */
    volatile bool is_cancelled = true;
    for (uint32_t which = 0; which < STEP_MAKERS; which++) {
        const char *what;
        hd_step step = make_step(b->arena, &b->f.now, which, &what);
        b->request.steps = &step;
        b->request.step_count = 1;
        sh_run run = {.request = &b->request, .check = &(sh_check){.deadline_us = 1000000}, .until_check = 1};
        assert_false(sh_run_go_on(&run, 1));
        assert_int_equal(run.stop, HD_CAP_DEADLINE);
        run = (sh_run){.request = &b->request,
                       .until_check = 1,
                       .check = &(sh_check){.deadline_us = UINT64_MAX, .is_cancelled = &is_cancelled}};
        assert_false(sh_run_take_scanned(&run) || sh_run_take_measured(&run) || sh_run_take_list(&run, 1));
        bench_run(b, &(sh_check){.deadline_us = 1000000});
        assert_int_equal(b->reply.result_count, 1);
        for (uint32_t p = 0; p < PARTS; p++) {
            const hd_verdict *verdict = &b->reply.results[0].verdicts[p];
            assert_true(verdict->reach == HD_REACH_CUT || verdict->reach == HD_REACH_COMPLETE);
            if (verdict->reach == HD_REACH_CUT) assert_int_equal(verdict->cap, HD_CAP_DEADLINE);
            assert_null(verdict->resume.data);
        }
        assert_int_equal(b->reply.results[0].used_scanned + b->reply.results[0].used_measured, 0);
        /* The others may have had nothing to do. */
        if (which < 4 || (which >= 6 && which <= 8)) assert_int_equal(b->reply.results[0].verdicts[0].reach, HD_REACH_CUT);
    }
    hd_clock_use_real();
    bench_free(b);
}

static void test_bad_tokens(void **state) {
    bench *b = bench_new();
    const hd_str bad[] = {HD_STR(""),
                          HD_STR("\x01"),
                          HD_STR("\x02\x01\0\0\0\0"),
                          HD_STR("\x01\x02\0\0\0\0"),
                          HD_STR("\x01\x01\0\0\0"),
                          HD_STR("\x01\x01\0\0\0\0\0")};
    b->request.step_count = 1;
    for (uint32_t t = 0; t < HD_COUNT_OF(bad); t++) {
        b->refs[3].resume = bad[t];
        bench_run(b, NULL);
        assert_int_equal(b->reply.status, HD_WIRE);
        assert_int_equal(b->reply.result_count, 0);
    }
    b->refs[3].resume = HD_STR("\x01\x01\0\0\0\0");
    bench_run(b, NULL);
    assert_int_equal(b->reply.status, HD_OK);
    b->request.step_count = 2; /* only a chain of one step goes on */
    bench_run(b, NULL);
    assert_int_equal(b->reply.status, HD_WIRE);
    /* Any numbers in a token of the right form: nothing found, or something, but no harm. */
    b->request.step_count = 1;
    for (uint32_t round = 0; round < 4000; round++) {
        const char *what;
        hd_arena *arena = hd_arena_new(0);
        hd_step step = make_step(arena, &b->f.now, round % STEP_MAKERS, &what);
        hd_buf buf = {0};
        hd_buf_add_u8(&buf, 1);
        hd_buf_add_u8(&buf, (uint8_t)step.kind);
        for (uint32_t i = 0; i < 4; i++) hd_buf_add_varint(&buf, below(3) ? below(12) : UINT64_MAX >> below(64));
        b->refs[below(PARTS)].resume = hd_buf_get(&buf);
        b->request.steps = &step;
        sh_step_run_over(b->sources, &b->request, &NO_DEADLINE, arena, &b->reply);
        assert_true(b->reply.status == HD_OK || b->reply.status == HD_WIRE);
        for (uint32_t p = 0; p < PARTS; p++) b->refs[p].resume = (hd_str){0};
        hd_buf_fini(&buf);
        hd_arena_free(arena);
    }
    bench_free(b);
}

static void test_little_memory(void **state) {
    bench *b = bench_new();
    b->request.step_count = 1;
    for (uint32_t which = 0; which < STEP_MAKERS; which++) {
        const char *what;
        hd_step step = make_step(b->arena, &b->f.now, which, &what);
        b->request.steps = &step;
        bool is_enough = false;
        for (size_t bytes = 64; !is_enough; bytes += bytes / 6) {
            hd_arena *arena = hd_arena_new(bytes);
            assert_true(bytes < 64 << 20);
            sh_step_run_over(b->sources, &b->request, &NO_DEADLINE, arena, &b->reply);
            is_enough = b->reply.status == HD_OK;
            if (!is_enough) assert_int_equal(b->reply.status, HD_MEMORY);
            if (!is_enough) assert_int_equal(b->reply.result_count, 0);
            hd_arena_free(arena);
        }
    }
    bench_free(b);
}

/* Lists that cannot decide are not read: of an event with a rare and a common entity only the rare one's, when both must be shared. */
static void test_shares_reads_the_rarest(void **state) {
    bench *b = bench_new();
    hd_step step = make_shares(b->arena, &b->f.now);
    uint32_t count = 0, existing = 0;
    step.events.count = step.edges.from_count = 1;
    for (uint32_t n = 0; n < step.names.count; n++) step.edges.to[count++] = n;
    step.edges.offsets[1] = count;
    step.shares_min = 1;
    b->request.steps = &step;
    b->request.step_count = 1;
    bench_run(b, NULL);
    uint64_t before = b->reply.results[0].used_scanned;
    for (uint32_t n = 0; n < count; n++) existing += b->reply.results[0].names.event_count[n] > 0;
    for (step.shares_min = 2; step.shares_min <= existing; step.shares_min++) {
        bench_run(b, NULL);
        /* A partition without so many of them reads nothing at all. */
        assert_true(b->reply.results[0].used_scanned < before || before == 0);
        before = b->reply.results[0].used_scanned;
    }
    step.shares_min = existing + 1;
    bench_run(b, NULL);
    assert_int_equal(b->reply.results[0].used_scanned, 0);
    bench_free(b);
}

static void test_facts_count_their_names(void **state) {
    bench *b = bench_new();
    for (uint32_t is_tag = 0; is_tag < 2; is_tag++) {
        hd_step step = make_facts(b->arena, &b->f.now, HD_LABEL_EVENT);
        step.facets = is_tag ? HD_FACET_TAGS : HD_FACET_ENTITIES;
        b->request.steps = &step;
        b->request.step_count = 1;
        for (uint32_t is_resumed = 0; is_resumed < 2; is_resumed++) {
            for (uint32_t p = 0; p < PARTS && is_resumed; p++) b->refs[p].resume = HD_STR("\x01\x02\0\0\0\0");
            bench_run(b, NULL);
            const hd_name_batch *names = &b->reply.results[0].names;
            for (uint32_t n = 0; n < names->count; n++) {
                int name = name_of_id(is_tag, names->ids[n]);
                assert_int_equal(names->event_count[n], is_resumed ? 0 : count_of(&b->f.now, is_tag, name));
                assert_true(hd_str_is_equal(names->names[n], str(name_text(is_tag, name))));
            }
            for (uint32_t p = 0; p < PARTS; p++) b->refs[p].resume = (hd_str){0};
        }
    }
    bench_free(b);
}

/* A piece whose candidates were all counted before is exact, though it may read no more than one entry. */
static void test_candidates_stay_exact(void **state) {
    bench *b = bench_new();
    b->steps[0].start = (hd_start){.mode = HD_START_CLOSEST,
                                   .k = 3,
                                   .vector = (float[]){1, 2, 3, 4},
                                   .dimension = DIMENSION,
                                   .has_since = true,
                                   .since_us = 0};
    b->request.step_count = 1;
    bench_run(b, NULL);
    uint64_t candidates = b->reply.results[0].candidates, first = 0;
    b->request.measured_max = 2;
    bench_run(b, NULL);
    first = b->reply.results[0].candidates;
    assert_int_equal(first, candidates);
    assert_true(b->reply.results[0].is_candidates_exact);
    for (uint32_t p = 0; p < PARTS; p++) b->refs[p].resume = b->reply.results[0].verdicts[p].resume;
    assert_non_null(b->refs[PARTS - 1].resume.data);
    b->request.scanned_max = 1;
    bench_run(b, NULL);
    assert_int_equal(b->reply.results[0].verdicts[PARTS - 1].reach, HD_REACH_CUT);
    assert_int_equal(b->reply.results[0].candidates, 0);
    assert_true(b->reply.results[0].is_candidates_exact);
    bench_free(b);
}

static void test_wrong_dimension(void **state) {
    bench *b = bench_new();
    b->steps[0].start = (hd_start){.mode = HD_START_CLOSEST, .k = 3, .vector = (float[]){1, 2, 3}, .dimension = 3};
    bench_run(b, NULL);
    for (uint32_t p = 0; p < PARTS; p++) assert_int_equal(b->reply.results[0].verdicts[p].code, HD_ARGUMENT);
    bench_free(b);
}

int main(int argc, char **argv) {
    randomness.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain_ends),
        cmocka_unit_test(test_partition_fails_alone),
        cmocka_unit_test(test_text_that_cannot_be_read),
        cmocka_unit_test(test_deadline_and_cancel),
        cmocka_unit_test(test_bad_tokens),
        cmocka_unit_test(test_little_memory),
        cmocka_unit_test(test_wrong_dimension),
        cmocka_unit_test(test_shares_reads_the_rarest),
        cmocka_unit_test(test_facts_count_their_names),
        cmocka_unit_test(test_candidates_stay_exact),
        cmocka_unit_test(test_steps_against_the_model),
        cmocka_unit_test(test_chain_is_its_steps),
    };
    return cmocka_run_group_tests_name("shard step", tests, NULL, NULL);
}
