/* A random graph that is known in plain arrays and stands in one partition and in four; random steps over it; and requests to run
 * them. For the tests of steps; include it after cmocka. */
#ifndef STEP_MODEL_H
#define STEP_MODEL_H

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

static inline hd_str str(const char *text) {
    return hd_str_of(text);
}

static inline void make_event(model_event *event) {
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

static inline void apply_save(model_world *world, const model_event *event) {
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

static inline void apply_delete(model_world *world, const model_event *event) {
    uint32_t part = hd_event_partition(str(event->id), world->parts);
    assert_true(sh_graph_apply_delete(world->graphs[part], str(event->id), ++world->sequences[part]));
    sh_graph_publish(world->graphs[part], world->sequences[part]);
}

static inline void change_at_random(fixture *f, uint32_t count) {
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

static inline void build(fixture *f) {
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

static inline void tear_down(fixture *f) {
    for (uint32_t w = 0; w < 2; w++)
        for (uint32_t p = 0; p < f->worlds[w].parts; p++) sh_graph_free(f->worlds[w].graphs[p]);
}

static inline int find_event(hd_str id) {
    char text[16];
    snprintf(text, sizeof(text), HD_STR_FMT, HD_STR_ARG(id));
    return (int)strtol(text + 1, NULL, 10);
}

static inline bool has_entity(const model_event *event, int entity) {
    for (int e = 0; e < event->entity_count; e++)
        if (event->entities[e] == entity) return true;
    return false;
}

static inline uint8_t tag_kinds(const model_event *event, int tag) {
    uint8_t kinds = 0;
    for (int t = 0; t < event->tag_count; t++)
        if (event->tags[t] == tag) kinds |= event->kinds[t];
    return kinds;
}

static inline uint64_t count_of(const model *m, bool is_tag, int name) {
    uint64_t count = 0;
    for (int i = 0; i < EVENTS; i++)
        count += m->events[i].is_live && (is_tag ? tag_kinds(&m->events[i], name) != 0 : has_entity(&m->events[i], name));
    return count;
}

static inline const char *name_text(bool is_tag, int name) {
    return is_tag ? TAG_NAMES[name] : ENTITY_NAMES[name];
}

/* The number of a name by its id; −1: the id that nothing has. */
static inline int name_of_id(bool is_tag, hd_id128 id) {
    for (int n = 0; n < (is_tag ? TAGS : ENTITIES); n++)
        if (hd_id128_is_equal(hd_name_id(str(name_text(is_tag, n))), id)) return n;
    return -1;
}

static inline int place_order(const model_event *a, const model_event *b) {
    if (a->has_order != b->has_order) return a->has_order ? -1 : 1;
    if (a->has_order && a->order_index != b->order_index) return a->order_index < b->order_index ? -1 : 1;
    if (a->timestamp_us != b->timestamp_us) return a->timestamp_us < b->timestamp_us ? -1 : 1;
    return strcmp(a->id, b->id);
}

/* -- random steps ----------------------------------------------------------------------------------------------------------------- */
static inline void *take(hd_arena *arena, size_t count, size_t size) {
    void *memory = hd_arena_alloc_zero(arena, count, size);
    assert_non_null(memory);
    return memory;
}

/* Some events of the model (dead ones too, each once), with the columns that NEXT wants. */
static inline void make_events(hd_arena *arena, const model *m, hd_event_batch *b, bool has_columns) {
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

static inline void make_names(hd_arena *arena, bool is_tag, hd_id128 **ids, uint32_t *count) {
    uint32_t all = is_tag ? TAGS : ENTITIES, skip = below(all);
    *ids = take(arena, all + 1, sizeof(hd_id128));
    *count = 0;
    for (uint32_t n = 0; n < all; n++)
        if (n != skip || below(2)) (*ids)[(*count)++] = hd_name_id(str(name_text(is_tag, (int)((n * 7 + skip) % all))));
    (*ids)[(*count)++] = hd_name_id(str("nobody has this"));
}

static inline hd_step make_postings(hd_arena *arena, bool is_tag) {
    hd_step step = {.kind = HD_STEP_POSTINGS, .number = 3, .from_result = -1, .facets = HD_FACET_ID};
    step.kinds = is_tag ? (uint8_t)below(4) : 0;
    step.frontier_label = is_tag ? HD_LABEL_TAG : HD_LABEL_ENTITY;
    make_names(arena, is_tag, &step.names.ids, &step.names.count);
    return step;
}

static inline hd_step make_connected(hd_arena *arena) {
    hd_step step = {.kind = HD_STEP_CONNECTED, .number = 6, .from_result = -1, .frontier_label = HD_LABEL_ENTITY};
    make_names(arena, false, &step.names.ids, &step.names.count);
    return step;
}

static inline hd_step make_shares(hd_arena *arena, const model *m) {
    hd_step step = {.kind = HD_STEP_SHARES, .number = 4, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    step.shares_min = 1 + below(3);
    step.facets = HD_FACET_ID;
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

static inline hd_step make_next(hd_arena *arena, const model *m) {
    hd_step step = {.kind = HD_STEP_NEXT, .number = 5, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    step.is_backward = below(2);
    step.kinds = (uint8_t)below(4);
    make_events(arena, m, &step.events, true);
    return step;
}

static inline void make_groups(hd_arena *arena, bool is_tag, hd_name_group **groups, uint32_t *count) {
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

static inline hd_step make_start(hd_arena *arena, hd_start_mode mode) {
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

static inline hd_step make_facts(hd_arena *arena, const model *m, hd_label label) {
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

static inline hd_step make_resolve(hd_arena *arena, bool is_tag) {
    hd_step step = {.kind = HD_STEP_RESOLVE, .from_result = -1, .frontier_label = is_tag ? HD_LABEL_TAG : HD_LABEL_ENTITY};
    static const hd_str FOLDED[] = {HD_STR("anna"), HD_STR("strasse"), HD_STR("none"),
                                    HD_STR("ops"),  HD_STR("anna"),    HD_STR("risk")};
    step.folded_count = 1 + below(HD_COUNT_OF(FOLDED));
    step.folded = take(arena, step.folded_count, sizeof(hd_str));
    for (uint32_t i = 0; i < step.folded_count; i++) step.folded[i] = FOLDED[(i + below(2)) % HD_COUNT_OF(FOLDED)];
    return step;
}

static inline hd_step make_measure(hd_arena *arena, const model *m) {
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

static inline hd_step make_similar(hd_arena *arena, const model *m) {
    hd_step step = {.kind = HD_STEP_SIMILAR,
                    .from_result = -1,
                    .frontier_label = HD_LABEL_EVENT,
                    .dimension = DIMENSION,
                    .similar_k = 1 + below(8)};
    make_events(arena, m, &step.events, true);
    step.events.vectors = take(arena, (size_t)step.events.count * DIMENSION, sizeof(float));
    step.events.dimension = DIMENSION;
    for (uint32_t i = 0; i < step.events.count; i++) {
        const model_event *event = &m->events[find_event(step.events.ids[i])];
        step.events.flags[i] = HD_EVENT_EXISTS | (event->has_vector ? HD_EVENT_HAS_VECTOR : 0);
        memcpy(step.events.vectors + (size_t)i * DIMENSION, event->vector, sizeof(float) * DIMENSION);
    }
    return step;
}

static inline hd_step make_step(hd_arena *arena, const model *m, uint32_t which, const char **what_out) {
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
    case 11: *what_out = "connected"; return make_connected(arena);
    case 12: *what_out = "similar"; return make_similar(arena, m);
    default: *what_out = "measure"; return make_measure(arena, m);
    }
}

enum { STEP_MAKERS = 14, ROUNDS = 10 };

/* -- requests --------------------------------------------------------------------------------------------------------------------- */
typedef struct setting {
    const model_world *world;
    const uint64_t *sequences;
    uint32_t first, count; /* partitions asked */
    uint64_t scanned_max, measured_max;
    const char *what;
} setting;

HD_MUST_USE static inline hd_status text_of_record(void *self, uint64_t record, hd_arena *arena, hd_str *summary_out,
                                                   hd_str *content_out) {
    (void)self;
    if (summary_out) HD_TRY(hd_arena_printf(arena, summary_out, "s%lu", record));
    return content_out ? hd_arena_printf(arena, content_out, "c%lu", record) : HD_OK;
}

static const sh_check NO_DEADLINE = {.deadline_us = UINT64_MAX};

static inline void run_request(const setting *s, const hd_step *steps, uint32_t step_count, const hd_str *resume, hd_arena *arena,
                               hd_step_reply *reply) {
    sh_source sources[PARTS];
    hd_partition_ref refs[PARTS] = {0};
    for (uint32_t p = 0; p < s->count; p++) {
        sources[p] = (sh_source){.graph = s->world->graphs[s->first + p], .incarnation = 77 + p, .get_text = text_of_record};
        refs[p] = (hd_partition_ref){.id = 100 + s->first + p,
                                     .ordinal = s->first + p,
                                     .epoch = 1,
                                     .incarnation = 77 + p,
                                     .sequence = s->sequences[s->first + p]};
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

#endif
