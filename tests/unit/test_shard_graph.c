/* The graph of a partition against a naive model: every version in a list, every question answered by going over all of it. Random
 * batches of saves, replacements and deletions; views at the newest and at older sequences. The seed is printed; give it as the first
 * argument to replay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/ids.h"
#include "proto/step.h"
#include "shard/graph.h"
#include "shard/vectors/vector_index.h"
#include "tests/support/seed.h"

enum { DIMENSION = 4, IDS = 40, ENTITIES = 12, TAGS = 6, THREADS = 4, TYPES = 3, LIST_MAX = 6, VERSIONS_MAX = 6000 };

/* -- random numbers of one's own: the same everywhere ---------------------------------------------------------------------------- */

static uint64_t seed_now;

static uint32_t roll(uint32_t below) {
    seed_now += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = seed_now;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) % below);
}

static uint64_t seed_given;

/* -- the model ---------------------------------------------------------------------------------------------------------------------- */

typedef struct version {
    uint64_t born, died;
    uint32_t id;
    int64_t timestamp_us, order_index;
    bool has_order, has_vector, has_previous;
    int thread; /* −1: none */
    uint32_t previous;
    uint32_t entities[LIST_MAX];
    int types[LIST_MAX]; /* −1: none */
    uint32_t entity_count;
    uint32_t tags[LIST_MAX];
    uint8_t kinds[LIST_MAX];
    uint32_t tag_count; /* distinct tags */
    float vector[DIMENSION];
    uint64_t record;
} version;

typedef struct model {
    version versions[VERSIONS_MAX];
    uint32_t count;
} model;

static const char *const ids[IDS] = {"e-00",  "e-01",  "e-02",  "e-03",  "e-04",  "e-05",  "e-06",  "e-07",  "e-08",  "e-09",
                                     "e:10",  "e:11",  "e:12",  "e:13",  "e:14",  "e:15",  "e:16",  "e:17",  "e:18",  "e:19",
                                     "a",     "A",     "ab",    "a.b",   "Z",     "z",     "0",     "00",    "000",   "1",
                                     "git:0", "git:1", "git:2", "git:3", "git:4", "git:5", "git:6", "git:7", "git:8", "git:9"};
static const char *const entity_names[ENTITIES] = {"Anna", "anna", "ANNA", "Straße", "STRASSE", "strasse",
                                                   "db",   "DB",   "x",    "Ж",      "ж",       "a much longer name of something"};
static const char *const tag_names[TAGS] = {"ops/backup", "Ops/Backup", "ops", "dev", "db", "Ж"};
static const char *const thread_names[THREADS] = {"alpha", "beta", "Alpha", "γ"};
static const char *const type_names[TYPES] = {"person", "system", "file"};

static bool is_visible(const version *v, uint64_t sequence) {
    return v->born <= sequence && sequence < v->died;
}

static int model_find(const model *m, uint32_t id, uint64_t sequence) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->versions[i].id == id && is_visible(&m->versions[i], sequence)) return (int)i;
    return -1;
}

static int model_live(const model *m, uint32_t id) {
    for (uint32_t i = 0; i < m->count; i++)
        if (m->versions[i].id == id && m->versions[i].died == SH_ALIVE) return (int)i;
    return -1;
}

static bool has_entity(const version *v, uint32_t entity) {
    for (uint32_t i = 0; i < v->entity_count; i++)
        if (v->entities[i] == entity) return true;
    return false;
}

static uint8_t kinds_of(const version *v, uint32_t tag) {
    for (uint32_t i = 0; i < v->tag_count; i++)
        if (v->tags[i] == tag) return v->kinds[i];
    return 0;
}

static sh_place place_of(const version *v) {
    return (sh_place){v->has_order, v->order_index, v->timestamp_us, hd_str_of(ids[v->id])};
}

static void random_version(version *v) {
    *v = (version){.id = roll(IDS), .died = SH_ALIVE, .thread = -1};
    /* Few values, so that all kinds of ties happen. */
    v->timestamp_us = (int64_t)roll(12) - 4;
    if (roll(50) == 0) v->timestamp_us = roll(2) ? INT64_MAX : INT64_MIN;
    v->has_order = roll(2);
    if (v->has_order) v->order_index = roll(20) ? (int64_t)roll(4) - 1 : INT64_MAX;
    if (roll(4)) v->thread = (int)roll(THREADS);
    v->has_previous = roll(3) == 0;
    v->previous = roll(IDS);
    uint32_t entities = roll(LIST_MAX + 1);
    for (uint32_t i = 0; i < entities; i++) {
        uint32_t entity = roll(ENTITIES);
        if (has_entity(v, entity)) continue;
        v->types[v->entity_count] = roll(3) ? -1 : (int)roll(TYPES);
        v->entities[v->entity_count++] = entity;
    }
    uint32_t tags = roll(LIST_MAX + 1);
    for (uint32_t i = 0; i < tags; i++) {
        uint32_t tag = roll(TAGS);
        if (kinds_of(v, tag)) continue;
        v->kinds[v->tag_count] = (uint8_t)(1 + roll(3));
        v->tags[v->tag_count++] = tag;
    }
    v->has_vector = roll(3) > 0;
    for (uint32_t i = 0; i < DIMENSION; i++) v->vector[i] = (float)roll(5) + 1;
}

/* -- the same event for the graph --------------------------------------------------------------------------------------------------- */

static void apply_save(sh_graph *graph, model *m, const version *v, uint64_t sequence) {
    hd_entity_ref entities[LIST_MAX];
    hd_tag_ref tags[2 * LIST_MAX];
    uint32_t tag_count = 0;
    for (uint32_t i = 0; i < v->entity_count; i++)
        entities[i] = (hd_entity_ref){hd_str_of(entity_names[v->entities[i]]),
                                      v->types[i] < 0 ? (hd_str){NULL, 0} : hd_str_of(type_names[v->types[i]])};
    /* Both kinds of a tag come as two refs, not always side by side. */
    for (uint32_t i = 0; i < v->tag_count; i++)
        tags[tag_count++] = (hd_tag_ref){hd_str_of(tag_names[v->tags[i]]), v->kinds[i] & HD_KIND_CONTAINS ? 1 : 2};
    for (uint32_t i = 0; i < v->tag_count; i++)
        if (v->kinds[i] == 3) tags[tag_count++] = (hd_tag_ref){hd_str_of(tag_names[v->tags[i]]), HD_KIND_REFERS};
    float vector[DIMENSION];
    memcpy(vector, v->vector, sizeof(vector));
    hd_event_record record = {
        .id = hd_str_of(ids[v->id]),
        .timestamp_us = v->timestamp_us,
        .has_order = v->has_order,
        .order_index = v->order_index,
        .thread = v->thread < 0 ? (hd_str){NULL, 0} : hd_str_of(thread_names[v->thread]),
        .previous = v->has_previous ? hd_str_of(ids[v->previous]) : (hd_str){NULL, 0},
        .entities = entities,
        .entity_count = v->entity_count,
        .tags = tags,
        .tag_count = tag_count,
        .vector = v->has_vector ? vector : NULL,
        .dimension = DIMENSION,
    };
    int live = model_live(m, v->id);
    if (live >= 0) m->versions[live].died = sequence;
    assert_true(m->count < VERSIONS_MAX);
    m->versions[m->count] = *v;
    m->versions[m->count].born = sequence;
    m->versions[m->count].record = 1000 + m->count;
    sh_slot slot = sh_graph_apply_save(graph, &record, 1000 + m->count, sequence);
    assert_int_equal(slot, m->count);
    m->count++;
    assert_int_equal(sh_graph_find_live(graph, hd_str_of(ids[v->id])), slot);
}

static void apply_delete(sh_graph *graph, model *m, uint32_t id, uint64_t sequence) {
    int live = model_live(m, id);
    if (live >= 0) m->versions[live].died = sequence;
    assert_int_equal(sh_graph_apply_delete(graph, hd_str_of(ids[id]), sequence), live >= 0);
    assert_int_equal(sh_graph_find_live(graph, hd_str_of(ids[id])), SH_NONE);
}

static void random_batch(sh_graph *graph, model *m, uint32_t size, uint64_t sequence) {
    for (uint32_t i = 0; i < size; i++) {
        if (roll(4) == 0) {
            apply_delete(graph, m, roll(IDS), sequence);
            continue;
        }
        version v;
        random_version(&v);
        apply_save(graph, m, &v, sequence);
    }
}

/* -- checks: all that a view can be asked ---------------------------------------------------------------------------------------------- */

#define assert_text_equal(actual, expected)                                    \
    do {                                                                       \
        hd_str a_ = (actual), e_ = (expected);                                 \
        if (!hd_str_is_equal(a_, e_)) {                                        \
            print_error("%.*s is not %.*s\n", HD_STR_ARG(a_), HD_STR_ARG(e_)); \
            fail();                                                            \
        }                                                                      \
    } while (0)

static void check_events(const sh_view *view, const model *m) {
    uint64_t live = 0, vectors = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        const version *v = &m->versions[i];
        assert_int_equal(sh_view_is_visible(view, i), is_visible(v, view->sequence));
        if (!is_visible(v, view->sequence)) continue;
        live++;
        vectors += v->has_vector;
        sh_event event;
        sh_view_get_event(view, i, &event);
        assert_text_equal(event.id, hd_str_of(ids[v->id]));
        assert_true(event.timestamp_us == v->timestamp_us && sh_view_timestamp(view, i) == v->timestamp_us);
        assert_int_equal((event.flags & HD_EVENT_HAS_ORDER) != 0, v->has_order);
        if (v->has_order) assert_true(event.order_index == v->order_index);
        assert_int_equal((event.flags & HD_EVENT_HAS_THREAD) != 0, v->thread >= 0);
        assert_int_equal(event.flags & ~15, 0);
        if (v->thread >= 0)
            assert_text_equal(sh_view_thread_name(view, event.thread), hd_str_of(thread_names[v->thread]));
        else
            assert_int_equal(event.thread, SH_NONE);
        assert_int_equal(event.previous.data != NULL, v->has_previous);
        if (v->has_previous) assert_text_equal(event.previous, hd_str_of(ids[v->previous]));
        assert_int_equal(event.record, v->record);
        assert_int_equal(event.entity_count, v->entity_count);
        for (uint32_t e = 0; e < v->entity_count; e++) {
            assert_text_equal(sh_view_entity_name(view, event.entities[e]), hd_str_of(entity_names[v->entities[e]]));
            if (e > 0) assert_true(event.entities_sorted[e] > event.entities_sorted[e - 1]);
            assert_true(has_entity(v, v->entities[e]));
        }
        assert_int_equal(event.tag_count, v->tag_count);
        for (uint32_t t = 0; t < v->tag_count; t++) {
            assert_text_equal(sh_view_tag_name(view, event.tags[t].tag), hd_str_of(tag_names[v->tags[t]]));
            assert_int_equal(event.tags[t].kinds, v->kinds[t]);
        }
        assert_int_equal((event.flags & HD_EVENT_HAS_VECTOR) != 0, v->has_vector);
        if (v->has_vector) {
            assert_true(event.vector < sh_view_vector_row_end(view));
            assert_memory_equal(sh_vector_index_get(sh_view_vectors(view), event.vector), v->vector, sizeof(v->vector));
            assert_int_equal(sh_vector_index_slot(sh_view_vectors(view), event.vector), i);
        } else {
            assert_int_equal(event.vector, SH_NONE);
        }
    }
    assert_int_equal(sh_view_live_events(view), live);
    assert_int_equal(sh_view_live_vectors(view), vectors);
    for (uint32_t id = 0; id < IDS; id++) {
        int found = model_find(m, id, view->sequence);
        assert_int_equal(sh_view_find_event(view, hd_str_of(ids[id])), found < 0 ? SH_NONE : (uint32_t)found);
    }
    assert_int_equal(sh_view_find_event(view, HD_STR("never saved")), SH_NONE);
}

static void check_postings(const sh_view *view, const model *m, sh_postings postings, uint64_t counted,
                           bool (*has)(const version *v, uint32_t name), uint32_t name) {
    uint32_t at = 0, visible = 0;
    for (uint32_t i = 0; i < m->count && m->versions[i].born <= view->sequence; i++) {
        if (!has(&m->versions[i], name)) continue;
        assert_true(at < postings.count && postings.slots[at] == i);
        at++;
        visible += is_visible(&m->versions[i], view->sequence);
    }
    assert_int_equal(at, postings.count);
    assert_int_equal(counted, visible);
}

static bool has_tag(const version *v, uint32_t tag) {
    return kinds_of(v, tag) != 0;
}

static bool follows(const version *v, uint32_t id) {
    return v->has_previous && v->previous == id;
}

static void check_type(const sh_view *view, const model *m, uint32_t entity, uint32_t number) {
    int best = -1, best_type = -1;
    for (uint32_t i = 0; i < m->count; i++) {
        const version *v = &m->versions[i];
        if (!is_visible(v, view->sequence)) continue;
        for (uint32_t e = 0; e < v->entity_count; e++) {
            if (v->entities[e] != entity || v->types[e] < 0) continue;
            const version *b = best < 0 ? NULL : &m->versions[best];
            if (b &&
                (v->timestamp_us > b->timestamp_us || (v->timestamp_us == b->timestamp_us && strcmp(ids[v->id], ids[b->id]) > 0)))
                continue;
            best = (int)i;
            best_type = v->types[e];
        }
    }
    hd_str type, event;
    int64_t at_us;
    bool is_typed = sh_view_entity_type(view, number, &type, &at_us, &event);
    assert_int_equal(is_typed, best >= 0);
    if (best < 0) return;
    assert_text_equal(type, hd_str_of(type_names[best_type]));
    assert_text_equal(event, hd_str_of(ids[m->versions[best].id]));
    assert_true(at_us == m->versions[best].timestamp_us);
}

static void check_names(const sh_view *view, const model *m) {
    for (uint32_t entity = 0; entity < ENTITIES; entity++) {
        hd_str name = hd_str_of(entity_names[entity]);
        uint32_t number = sh_view_find_entity(view, hd_name_id(name));
        /* A name saved by then is known; one saved since may be or not. */
        bool was_saved = false, is_saved = false;
        for (uint32_t i = 0; i < m->count; i++) {
            is_saved = is_saved || has_entity(&m->versions[i], entity);
            was_saved = was_saved || (has_entity(&m->versions[i], entity) && m->versions[i].born <= view->sequence);
        }
        if (was_saved) assert_true(number != SH_NONE);
        if (!is_saved) assert_true(number == SH_NONE);
        if (number == SH_NONE) continue;
        assert_true(number < sh_view_entity_numbers(view));
        assert_text_equal(sh_view_entity_name(view, number), name);
        hd_id128 id = hd_name_id(name), stored = sh_view_entity_id(view, number);
        assert_memory_equal(&stored, &id, sizeof(id));
        check_postings(view, m, sh_view_entity_postings(view, number), sh_view_entity_count(view, number), has_entity, entity);
        check_type(view, m, entity, number);
    }
    for (uint32_t tag = 0; tag < TAGS; tag++) {
        hd_str name = hd_str_of(tag_names[tag]);
        uint32_t number = sh_view_find_tag(view, hd_name_id(name));
        if (number == SH_NONE) continue;
        assert_true(number < sh_view_tag_numbers(view));
        assert_text_equal(sh_view_tag_name(view, number), name);
        check_postings(view, m, sh_view_tag_postings(view, number), sh_view_tag_count(view, number), has_tag, tag);
    }
    for (uint32_t id = 0; id < IDS; id++) {
        sh_postings followers = sh_view_followers(view, hd_str_of(ids[id]));
        uint32_t visible = 0;
        for (uint32_t i = 0; i < followers.count; i++) visible += sh_view_is_visible(view, followers.slots[i]);
        check_postings(view, m, followers, visible, follows, id);
    }
}

static void check_threads(const sh_view *view, const model *m) {
    for (int thread = 0; thread < THREADS; thread++) {
        uint32_t number = sh_view_find_thread(view, hd_str_of(thread_names[thread]));
        if (number == SH_NONE) continue;
        for (uint32_t p = 0; p < 6; p++) {
            /* The place of some version, of this thread or not, or of none. */
            version any;
            if (p < 4 && m->count)
                any = m->versions[roll(m->count)];
            else
                random_version(&any);
            sh_place place = place_of(&any);
            int after = -1, before = -1;
            for (uint32_t i = 0; i < m->count; i++) {
                const version *v = &m->versions[i];
                if (v->thread != thread || !is_visible(v, view->sequence)) continue;
                sh_place here = place_of(v);
                int side = sh_place_compare(&here, &place);
                sh_place best;
                if (side > 0) {
                    if (after >= 0) best = place_of(&m->versions[after]);
                    if (after < 0 || sh_place_compare(&here, &best) < 0) after = (int)i;
                } else if (side < 0) {
                    if (before >= 0) best = place_of(&m->versions[before]);
                    if (before < 0 || sh_place_compare(&here, &best) > 0) before = (int)i;
                }
            }
            uint64_t scanned = 0;
            assert_int_equal(sh_view_thread_after(view, number, &place, &scanned), after < 0 ? SH_NONE : (uint32_t)after);
            assert_int_equal(sh_view_thread_before(view, number, &place, &scanned), before < 0 ? SH_NONE : (uint32_t)before);
            assert_true(scanned >= (uint64_t)((after >= 0) + (before >= 0)) && scanned <= 2 * (uint64_t)m->count);
        }
    }
}

static void check_timeline(const sh_view *view, const model *m, bool has_until, int64_t until_us) {
    sh_timeline timeline;
    sh_view_timeline_start(view, has_until, until_us, &timeline);
    uint32_t seen = 0, expected = 0;
    const version *before = NULL;
    for (sh_slot slot; (slot = sh_view_timeline_next(view, &timeline)) != SH_NONE;) {
        const version *v = &m->versions[slot];
        if (has_until) assert_true(v->timestamp_us < until_us);
        if (before) {
            assert_true(v->timestamp_us <= before->timestamp_us);
            if (v->timestamp_us == before->timestamp_us) assert_true(strcmp(ids[before->id], ids[v->id]) <= 0);
        }
        before = v;
        seen += is_visible(v, view->sequence);
    }
    for (uint32_t i = 0; i < m->count; i++)
        expected += is_visible(&m->versions[i], view->sequence) && (!has_until || m->versions[i].timestamp_us < until_us);
    assert_int_equal(seen, expected);
}

static void check_view(const sh_view *view, const model *m) {
    check_events(view, m);
    check_names(view, m);
    check_threads(view, m);
    check_timeline(view, m, false, 0);
    check_timeline(view, m, true, (int64_t)roll(14) - 5);
    check_timeline(view, m, true, INT64_MAX);
    check_timeline(view, m, true, INT64_MIN);
}

/* -- tests -------------------------------------------------------------------------------------------------------------------------------- */

static void test_histories(void **state) {
    model *m = calloc(1, sizeof(*m));
    for (uint32_t round = 0; round < 12; round++) {
        m->count = 0;
        sh_graph *graph = sh_graph_new(DIMENSION);
        uint64_t base = 1 + roll(1000), sequence = base;
        random_batch(graph, m, roll(60), sequence);
        sh_graph_publish(graph, sequence);
        sh_view held = {0};
        for (uint32_t turn = 0; turn < 60; turn++) {
            if (!held.graph && roll(4) == 0) assert_true(sh_view_enter(graph, sequence, &held));
            uint64_t next = sequence + 1 + (roll(5) == 0 ? roll(3) : 0);
            random_batch(graph, m, 1 + roll(8), next);
            sh_view view;
            /* Not published: nothing of it is seen. */
            assert_false(sh_view_enter(graph, next, &view));
            assert_true(sh_view_enter(graph, 0, &view));
            assert_int_equal(view.sequence, sequence);
            if (roll(4) == 0) check_view(&view, m);
            sh_graph_publish(graph, next);
            sequence = next;
            if (roll(4) == 0) check_view(&view, m);
            sh_view_leave(&view);

            assert_true(sh_view_enter(graph, 0, &view));
            assert_int_equal(view.sequence, sequence);
            check_view(&view, m);
            sh_view_leave(&view);
            assert_true(sh_view_enter(graph, base + roll((uint32_t)(sequence - base) + 1), &view));
            check_view(&view, m);
            sh_view_leave(&view);
            if (base > 1) assert_false(sh_view_enter(graph, base - 1, &view)); /* 0 would mean the newest */
            if (held.graph && roll(4) == 0) {
                check_view(&held, m);
                sh_view_leave(&held);
            }
        }
        if (held.graph) sh_view_leave(&held);
        sh_graph_free(graph);
    }
    free(m);
}

static void test_empty(void **state) {
    sh_graph *graph = sh_graph_new(DIMENSION);
    sh_view view;
    for (int published = 0; published < 2; published++) {
        assert_true(sh_view_enter(graph, 0, &view));
        assert_int_equal(view.sequence, published ? 7 : 0);
        assert_int_equal(sh_view_live_events(&view), 0);
        assert_int_equal(sh_view_live_vectors(&view), 0);
        assert_int_equal(sh_view_vector_row_end(&view), 0);
        assert_int_equal(sh_view_entity_numbers(&view), 0);
        assert_int_equal(sh_view_find_entity(&view, hd_name_id(HD_STR("x"))), SH_NONE);
        assert_int_equal(sh_view_find_thread(&view, HD_STR("x")), SH_NONE);
        assert_int_equal(sh_view_followers(&view, HD_STR("x")).count, 0);
        assert_int_equal(sh_view_find_entity_folded(&view, HD_STR("x"), SH_NONE), SH_NONE);
        assert_false(sh_view_is_visible(&view, 0));
        assert_false(sh_view_is_visible(&view, SH_NONE));
        sh_timeline timeline;
        sh_view_timeline_start(&view, false, 0, &timeline);
        assert_int_equal(sh_view_timeline_next(&view, &timeline), SH_NONE);
        sh_view_leave(&view);
        sh_graph_publish(graph, 7);
    }
    assert_false(sh_view_enter(graph, 6, &view));
    assert_false(sh_view_enter(graph, 8, &view));
    assert_false(sh_graph_apply_delete(graph, HD_STR("x"), 8));
    sh_graph_free(graph);
    sh_graph_free(NULL);
}

/* Saved twice and deleted within one batch: only what stands at its end is ever seen. */
static void test_one_batch(void **state) {
    sh_graph *graph = sh_graph_new(DIMENSION);
    hd_event_record record = {.id = HD_STR("e"), .timestamp_us = 5, .thread = HD_STR("t")};
    sh_graph_publish(graph, 1);
    sh_graph_apply_save(graph, &record, 1, 2);
    sh_slot second = sh_graph_apply_save(graph, &record, 2, 2);
    sh_graph_publish(graph, 2);
    sh_view view;
    assert_true(sh_view_enter(graph, 2, &view));
    assert_int_equal(sh_view_live_events(&view), 1);
    assert_int_equal(sh_view_find_event(&view, record.id), second);
    sh_view_leave(&view);
    assert_true(sh_view_enter(graph, 1, &view));
    assert_int_equal(sh_view_live_events(&view), 0);
    assert_int_equal(sh_view_find_event(&view, record.id), SH_NONE);
    sh_view_leave(&view);

    assert_true(sh_graph_apply_delete(graph, record.id, 3));
    sh_graph_apply_save(graph, &record, 3, 3);
    assert_true(sh_graph_apply_delete(graph, record.id, 3));
    assert_false(sh_graph_apply_delete(graph, record.id, 3));
    sh_graph_publish(graph, 3);
    assert_true(sh_view_enter(graph, 0, &view));
    assert_int_equal(sh_view_live_events(&view), 0);
    assert_int_equal(sh_view_find_event(&view, record.id), SH_NONE);
    sh_view_leave(&view);
    assert_true(sh_view_enter(graph, 2, &view));
    assert_int_equal(sh_view_find_event(&view, record.id), second);
    sh_view_leave(&view);
    sh_graph_free(graph);
}

/* The strings are the graph's own, a doubled name counts once, and folded names are found one after the other. */
static void test_names(void **state) {
    sh_graph *graph = sh_graph_new(DIMENSION);
    char name[] = "Straße", id[] = "e1";
    hd_entity_ref entities[] = {{hd_str_of(name), HD_STR("place")},
                                {HD_STR("STRASSE"), {NULL, 0}},
                                {HD_STR("Straße"), HD_STR("road")},
                                {HD_STR("plain"), {NULL, 0}}};
    hd_tag_ref tags[] = {{HD_STR("ops"), HD_KIND_CONTAINS}, {HD_STR("Ops"), HD_KIND_REFERS}, {HD_STR("ops"), HD_KIND_REFERS}};
    hd_event_record record = {.id = hd_str_of(id), .entities = entities, .entity_count = 4, .tags = tags, .tag_count = 3};
    sh_graph_apply_save(graph, &record, 1, 1);
    memset(name, '?', sizeof(name) - 1);
    memset(id, '?', sizeof(id) - 1);
    sh_graph_publish(graph, 1);
    sh_view view;
    assert_true(sh_view_enter(graph, 0, &view));
    sh_slot slot = sh_view_find_event(&view, HD_STR("e1"));
    assert_int_equal(slot, 0);
    sh_event event;
    sh_view_get_event(&view, slot, &event);
    assert_int_equal(event.entity_count, 3);
    assert_int_equal(event.tag_count, 2);
    assert_int_equal(event.tags[0].kinds, HD_KIND_CONTAINS | HD_KIND_REFERS);
    assert_int_equal(event.tags[1].kinds, HD_KIND_REFERS);
    assert_int_equal(sh_view_tag_count(&view, event.tags[0].tag), 1);
    assert_text_equal(sh_view_entity_folded(&view, event.entities[0]), HD_STR("strasse"));
    hd_str type, at;
    int64_t at_us;
    assert_true(sh_view_entity_type(&view, event.entities[0], &type, &at_us, &at));
    assert_text_equal(type, HD_STR("place"));

    uint32_t found = sh_view_find_entity_folded(&view, HD_STR("strasse"), SH_NONE);
    uint32_t next = sh_view_find_entity_folded(&view, HD_STR("strasse"), found);
    assert_true(found != SH_NONE && next != SH_NONE && found != next);
    assert_int_equal(sh_view_find_entity_folded(&view, HD_STR("strasse"), next), SH_NONE);
    assert_int_equal(sh_view_find_entity_folded(&view, HD_STR("Straße"), SH_NONE), SH_NONE);
    assert_text_equal(sh_view_entity_folded(&view, sh_view_find_entity_folded(&view, HD_STR("plain"), SH_NONE)), HD_STR("plain"));
    found = sh_view_find_tag_folded(&view, HD_STR("ops"), SH_NONE);
    assert_int_not_equal(sh_view_find_tag_folded(&view, HD_STR("ops"), found), SH_NONE);
    assert_text_equal(sh_view_tag_folded(&view, found), HD_STR("ops"));
    sh_view_leave(&view);
    sh_graph_free(graph);
}

/* The type of an entity whose earliest event dies again and again, asked before, between and after. */
static void test_types_one_by_one(void **state) {
    sh_graph *graph = sh_graph_new(DIMENSION);
    char id[16], type[16];
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "e%02u", i);
        snprintf(type, sizeof(type), "t%02u", i);
        hd_entity_ref entity = {HD_STR("x"), hd_str_of(type)};
        hd_event_record record = {.id = hd_str_of(id), .timestamp_us = i, .entities = &entity, .entity_count = 1};
        sh_graph_apply_save(graph, &record, i, 1);
    }
    sh_graph_publish(graph, 1);
    sh_view first;
    assert_true(sh_view_enter(graph, 0, &first));
    hd_str got, event;
    int64_t at_us;
    for (uint32_t i = 0; i < 100; i++) {
        snprintf(id, sizeof(id), "e%02u", i);
        assert_true(sh_graph_apply_delete(graph, hd_str_of(id), 2 + i));
        sh_graph_publish(graph, 2 + i);
        sh_view view;
        assert_true(sh_view_enter(graph, 0, &view));
        for (int again = 0; again < 2 && i < 99; again++) {
            snprintf(type, sizeof(type), "t%02u", i + 1);
            assert_true(sh_view_entity_type(&view, 0, &got, &at_us, &event));
            assert_text_equal(got, hd_str_of(type));
            assert_int_equal(sh_view_entity_count(&view, 0), 99 - i);
        }
        if (i == 99) assert_false(sh_view_entity_type(&view, 0, &got, &at_us, &event));
        sh_view_leave(&view);
        assert_true(sh_view_entity_type(&first, 0, &got, &at_us, &event));
        assert_text_equal(got, HD_STR("t00"));
        assert_int_equal(sh_view_entity_count(&first, 0), 100);
    }
    sh_view_leave(&first);
    sh_graph_free(graph);
}

/* Growth through many buckets and tables; and small graphs stay small. */
static void test_size(void **state) {
    enum { EVENTS = 30000, EACH = 5 };
    sh_graph *graph = sh_graph_new(256);
    size_t empty = sh_graph_memory_bytes(graph);
    assert_true(empty < 32 * 1024);
    char id[32], names[EACH][32];
    for (uint32_t i = 0; i < EVENTS; i++) {
        snprintf(id, sizeof(id), "event-%u", i);
        hd_entity_ref entities[EACH];
        for (uint32_t e = 0; e < EACH; e++) {
            snprintf(names[e], sizeof(names[e]), "Entity %u", (i * (e + 1)) % (i < 200 ? 300 : 5000));
            entities[e] = (hd_entity_ref){hd_str_of(names[e]), HD_STR("thing")};
        }
        hd_tag_ref tag = {HD_STR("all"), HD_KIND_CONTAINS};
        hd_event_record record = {.id = hd_str_of(id),
                                  .timestamp_us = i,
                                  .thread = HD_STR("one"),
                                  .entities = entities,
                                  .entity_count = EACH,
                                  .tags = &tag,
                                  .tag_count = 1};
        sh_graph_apply_save(graph, &record, i, 3);
        if (i + 1 != 200) continue;
        print_message("200 events take %zu KiB\n", sh_graph_memory_bytes(graph) / 1024);
        assert_true(sh_graph_memory_bytes(graph) < 180 * 1024);
    }
    sh_graph_publish(graph, 3);
    print_message("%d events take %zu bytes each\n", EVENTS, sh_graph_memory_bytes(graph) / EVENTS);
    assert_true(sh_graph_memory_bytes(graph) / EVENTS < 600);
    sh_view view;
    assert_true(sh_view_enter(graph, 0, &view));
    assert_int_equal(sh_view_live_events(&view), EVENTS);
    assert_int_equal(sh_view_tag_count(&view, 0), EVENTS);
    for (uint32_t i = 0; i < EVENTS; i += 7) {
        snprintf(id, sizeof(id), "event-%u", i);
        assert_int_equal(sh_view_find_event(&view, hd_str_of(id)), i);
        sh_place place = {false, 0, i, hd_str_of(id)};
        uint64_t scanned = 0;
        assert_int_equal(sh_view_thread_after(&view, 0, &place, &scanned), i + 1 < EVENTS ? i + 1 : SH_NONE);
        assert_int_equal(sh_view_thread_before(&view, 0, &place, &scanned), i > 0 ? i - 1 : SH_NONE);
        assert_true(scanned <= 2);
    }
    sh_timeline timeline;
    sh_view_timeline_start(&view, true, EVENTS / 2, &timeline);
    for (uint32_t i = EVENTS / 2; i-- > 0;) assert_int_equal(sh_view_timeline_next(&view, &timeline), i);
    assert_int_equal(sh_view_timeline_next(&view, &timeline), SH_NONE);
    sh_view_leave(&view);
    sh_graph_free(graph);
}

static void test_place_order(void **state) {
    sh_place places[] = {{true, -1, 9, HD_STR("a")}, {true, 0, 5, HD_STR("b")},         {true, 0, 5, HD_STR("c")},
                         {true, 0, 6, HD_STR("a")},  {true, INT64_MAX, 0, HD_STR("a")}, {false, 7, INT64_MIN, HD_STR("z")},
                         {false, 3, 0, HD_STR("a")}};
    for (uint32_t i = 0; i < HD_COUNT_OF(places); i++)
        for (uint32_t j = 0; j < HD_COUNT_OF(places); j++) {
            int order = sh_place_compare(&places[i], &places[j]);
            assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
}

static int start_seed(void **state) {
    seed_now = seed_given;
    return 0;
}

int main(int argc, char **argv) {
    seed_given = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_histories, start_seed),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_one_batch),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_types_one_by_one),
        cmocka_unit_test(test_size),
        cmocka_unit_test(test_place_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
