/* Writer and partitions: random writes against a model, in memory and after reopening; groups; idempotency keys; sweeping; eviction;
 * dropping; a store that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>

#include "common/graph.h"
#include "shard/keys.h"
#include "shard/vectors/vector_index.h"
#include "tests/support/shard_fixture.h"

static uint64_t seed;

/* -- the model --------------------------------------------------------------------------------------------------------------------- */

enum { PARTITIONS = 4, IDS = 40, NAMES = 12, DIMENSION = 4, ENTITIES_MAX = 5, TAGS_MAX = 4 };

/* One event as it should stand; all small enough to copy. */
typedef struct model_event {
    bool is_live;
    char summary[24], content[24];
    int64_t timestamp_us;
    bool has_order, has_thread, has_previous, has_vector, has_content;
    uint32_t entity_count, tag_count;
    uint32_t entities[ENTITIES_MAX], tags[TAGS_MAX]; /* numbers of names */
    uint8_t kinds[TAGS_MAX];
    float vector[DIMENSION];
} model_event;

typedef struct model {
    model_event events[PARTITIONS][IDS];
} model;

static char entity_names[NAMES][8], tag_names[NAMES][8], event_ids[IDS][8];

static void make_names(void) {
    for (int i = 0; i < NAMES; i++) snprintf(entity_names[i], sizeof(entity_names[i]), "ent%d", i);
    for (int i = 0; i < NAMES; i++) snprintf(tag_names[i], sizeof(tag_names[i]), "tag/%d", i);
    for (int i = 0; i < IDS; i++) snprintf(event_ids[i], sizeof(event_ids[i]), "ev:%d", i);
}

static uint64_t org_of(uint32_t partition) {
    return 1 + partition / 2;
}

/* A write in flight: the request and everything it points to. */
typedef struct flight {
    hd_write_request request;
    hd_write_item items[64];
    model_event events[64];
    hd_entity_ref entities[64][ENTITIES_MAX];
    hd_tag_ref tags[64][TAGS_MAX];
    hd_write_outcome expected[64];
    answer answer;
} flight;

static void draw_names(test_random *r, model_event *e) {
    for (uint32_t wanted = test_random_below(r, ENTITIES_MAX + 1); e->entity_count < wanted;) {
        uint32_t name = test_random_below(r, NAMES), i = 0;
        while (i < e->entity_count && e->entities[i] != name) i++;
        if (i == e->entity_count) e->entities[e->entity_count++] = name;
    }
    for (uint32_t wanted = test_random_below(r, TAGS_MAX + 1); e->tag_count < wanted;) {
        uint32_t name = test_random_below(r, NAMES / 2), i = 0;
        uint8_t kind = test_random_below(r, 2) ? HD_KIND_CONTAINS : HD_KIND_REFERS;
        while (i < e->tag_count && (e->tags[i] != name || e->kinds[i] != kind)) i++;
        if (i < e->tag_count) continue;
        e->kinds[e->tag_count] = kind;
        e->tags[e->tag_count++] = name;
    }
}

static void draw_event(test_random *r, model_event *e) {
    *e = (model_event){.is_live = true, .timestamp_us = (int64_t)test_random_below(r, 1000)};
    snprintf(e->summary, sizeof(e->summary), "s%u", test_random_below(r, 1000000));
    snprintf(e->content, sizeof(e->content), "c%u", test_random_below(r, 1000000));
    e->has_order = test_random_below(r, 2);
    e->has_thread = test_random_below(r, 2);
    e->has_previous = test_random_below(r, 3) == 0;
    e->has_vector = test_random_below(r, 3) > 0;
    e->has_content = test_random_below(r, 2);
    for (int i = 0; i < DIMENSION; i++) e->vector[i] = (float)test_random_below(r, 100) + 1;
    draw_names(r, e);
}

static void fill_item(flight *f, uint32_t at, const model_event *e, uint32_t id, uint32_t partition) {
    hd_write_item *item = &f->items[at];
    *item = (hd_write_item){.kind = HD_WRITE_SAVE, .partition = partition, .epoch = 1};
    hd_event_record *record = &item->event;
    *record = (hd_event_record){.id = hd_str_of(event_ids[id]),
                                .summary = hd_str_of(e->summary),
                                .content = e->has_content ? hd_str_of(e->content) : (hd_str){0},
                                .timestamp_us = e->timestamp_us,
                                .has_order = e->has_order,
                                .order_index = e->has_order ? e->timestamp_us * 3 : 0,
                                .entities = f->entities[at],
                                .entity_count = e->entity_count,
                                .tags = f->tags[at],
                                .tag_count = e->tag_count};
    if (e->has_thread) record->thread = HD_STR("the thread");
    if (e->has_previous) record->previous = hd_str_of(event_ids[(id + 1) % IDS]);
    if (e->has_vector) record->vector = f->events[at].vector;
    if (e->has_vector) record->dimension = DIMENSION;
    for (uint32_t i = 0; i < e->entity_count; i++)
        f->entities[at][i] = (hd_entity_ref){hd_str_of(entity_names[e->entities[i]]), i % 2 ? HD_STR("person") : (hd_str){0}};
    for (uint32_t i = 0; i < e->tag_count; i++) f->tags[at][i] = (hd_tag_ref){hd_str_of(tag_names[e->tags[i]]), e->kinds[i]};
}

/* Draws one item, and says what the model makes of it. */
static void draw_item(test_random *r, model *m, flight *f, uint32_t at, uint64_t org) {
    uint32_t partition = (uint32_t)(org - 1) * 2 + test_random_below(r, 2), id = test_random_below(r, IDS);
    model_event *stands = &m->events[partition][id];
    hd_write_outcome *expected = &f->expected[at];
    *expected = (hd_write_outcome){.code = HD_OK};
    if (test_random_below(r, 4) == 0) {
        f->items[at] = (hd_write_item){.kind = HD_WRITE_DELETE, .partition = partition, .epoch = 1};
        f->items[at].event.id = hd_str_of(event_ids[id]);
        expected->is_deleted = stands->is_live;
        stands->is_live = false;
        return;
    }
    draw_event(r, &f->events[at]);
    fill_item(f, at, &f->events[at], id, partition);
    f->items[at].is_replace = test_random_below(r, 2);
    uint32_t fault = test_random_below(r, 20);
    if (fault == 0) f->items[at].epoch = 2;
    if (fault == 1) f->items[at].event.vector = f->events[at].vector, f->items[at].event.dimension = DIMENSION + 1;
    if (fault < 2) {
        expected->code = fault == 0 ? HD_MAP_STALE : HD_ARGUMENT;
    } else if (stands->is_live && !f->items[at].is_replace) {
        expected->code = HD_ALREADY_EXISTS;
    } else {
        expected->is_created = !stands->is_live;
        expected->is_replaced = stands->is_live;
        *stands = f->events[at];
    }
}

static void check_answer(const flight *f) {
    assert_int_equal(f->answer.status, HD_OK);
    assert_int_equal(f->answer.count, f->request.item_count);
    for (uint32_t i = 0; i < f->request.item_count; i++) {
        const hd_write_outcome *got = &f->answer.outcomes[i], *expected = &f->expected[i];
        assert_int_equal(got->code, expected->code);
        assert_true(got->is_created == expected->is_created && got->is_replaced == expected->is_replaced &&
                    got->is_deleted == expected->is_deleted && !got->is_repeat);
    }
}

/* -- a partition against the model ------------------------------------------------------------------------------------------------- */

static void check_event(fixture *f, const sh_partition *p, const sh_view *view, const model_event *m, uint32_t id) {
    sh_slot slot = sh_view_find_event(view, hd_str_of(event_ids[id]));
    assert_true((slot != SH_NONE) == m->is_live);
    if (slot == SH_NONE) return;
    sh_event e;
    sh_view_get_event(view, slot, &e);
    assert_true(e.timestamp_us == m->timestamp_us && ((e.flags & HD_EVENT_HAS_ORDER) != 0) == m->has_order);
    assert_true((e.thread != SH_NONE) == m->has_thread && ((e.flags & HD_EVENT_HAS_VECTOR) != 0) == m->has_vector);
    assert_true((e.previous.data != NULL) == m->has_previous);
    assert_int_equal(e.entity_count, m->entity_count);
    for (uint32_t i = 0; i < m->entity_count; i++) {
        assert_true(hd_str_is_equal(sh_view_entity_name(view, e.entities[i]), hd_str_of(entity_names[m->entities[i]])));
        sh_postings postings = sh_view_entity_postings(view, e.entities[i]);
        uint32_t found = 0;
        for (uint32_t j = 0; j < postings.count; j++) found += postings.slots[j] == slot;
        assert_int_equal(found, 1);
    }
    if (m->has_vector) assert_memory_equal(sh_vector_index_get(sh_view_vectors(view), e.vector), m->vector, sizeof(m->vector));
    hd_arena *arena = hd_arena_new(0);
    hd_error error = {0};
    hd_str summary, content;
    ASSERT_OK(sh_partition_get_text(f->partitions, p, e.record, arena, &summary, &content, &error), error);
    assert_true(hd_str_is_equal(summary, hd_str_of(m->summary)) && (content.data != NULL) == m->has_content);
    if (m->has_content) assert_true(hd_str_is_equal(content, hd_str_of(m->content)));
    ASSERT_OK(sh_partition_get_text(f->partitions, p, e.record, arena, &summary, NULL, &error), error);
    assert_true(hd_str_is_equal(summary, hd_str_of(m->summary)));
    hd_arena_free(arena);
}

typedef struct counts {
    uint64_t events, vectors, entities, tags;
} counts;

static counts count_model(const model *m, uint32_t partition) {
    counts c = {0};
    uint64_t entities[NAMES] = {0}, tags[NAMES] = {0};
    for (uint32_t i = 0; i < IDS; i++) {
        const model_event *e = &m->events[partition][i];
        if (!e->is_live) continue;
        c.events++;
        c.vectors += e->has_vector;
        for (uint32_t j = 0; j < e->entity_count; j++) entities[e->entities[j]]++;
        for (uint32_t j = 0; j < e->tag_count; j++) tags[e->tags[j]]++;
    }
    for (uint32_t i = 0; i < NAMES; i++) c.entities += entities[i] > 0;
    for (uint32_t i = 0; i < NAMES; i++) c.tags += tags[i] > 0;
    return c;
}

static void check_stats(fixture *f, const model *m, bool is_loaded) {
    hd_arena *arena = hd_arena_new(0);
    hd_partition_stats *stats;
    uint32_t count;
    assert_int_equal(sh_partitions_stats(f->partitions, 0, arena, &stats, &count), HD_OK);
    assert_int_equal(count, PARTITIONS);
    for (uint32_t i = 0; i < count; i++) {
        counts c = count_model(m, i);
        assert_true(stats[i].id == i && stats[i].org == org_of(i) && stats[i].is_loaded == is_loaded);
        assert_int_equal(stats[i].events, c.events);
        assert_int_equal(stats[i].vectors, c.vectors);
        assert_int_equal(stats[i].entities, c.entities);
        assert_int_equal(stats[i].tags, c.tags);
        assert_true((stats[i].memory_bytes > 0) == is_loaded);
    }
    assert_int_equal(sh_partitions_stats(f->partitions, 2, arena, &stats, &count), HD_OK);
    assert_int_equal(count, 2);
    hd_arena_free(arena);
}

static void check_all(fixture *f, const model *m) {
    hd_error error = {0};
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        sh_partition *p;
        sh_view view;
        ASSERT_OK(sh_partitions_acquire(f->partitions, org_of(i), i, 1, 0, &p, &error), error);
        assert_true(sh_view_enter(p->graph, 0, &view));
        counts c = count_model(m, i);
        assert_int_equal(sh_view_live_events(&view), c.events);
        assert_int_equal(sh_view_live_vectors(&view), c.vectors);
        for (uint32_t id = 0; id < IDS; id++) check_event(f, p, &view, &m->events[i][id], id);
        sh_view_leave(&view);
        sh_partitions_release(f->partitions, p);
    }
    check_stats(f, m, true);
}

static uint32_t count_rows(fixture *f, sh_family family, uint64_t partition) {
    hd_error error = {0};
    sh_scan *scan = NULL;
    char prefix[SH_KEY_PARTITION_SIZE];
    sh_key_of_partition(partition, prefix);
    ASSERT_OK(sh_scan_open(f->store, family, (hd_str){prefix, sizeof(prefix)}, &scan, &error), error);
    hd_str key, value;
    uint32_t count = 0;
    while (sh_scan_next(scan, &key, &value)) count++;
    sh_scan_close(scan);
    return count;
}

/* Every live version has its rows once; every other row belongs to a version marked dead. */
static void check_rows(fixture *f, const model *m, bool is_swept) {
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        counts c = count_model(m, i);
        uint32_t dead = count_rows(f, SH_FAMILY_DEAD, i);
        if (is_swept) assert_int_equal(dead, 0);
        assert_int_equal(count_rows(f, SH_FAMILY_EVENT, i), c.events + dead);
        assert_int_equal(count_rows(f, SH_FAMILY_TEXT, i), c.events + dead);
        if (is_swept) assert_int_equal(count_rows(f, SH_FAMILY_VECTOR, i), c.vectors);
    }
}

/* -- tests ---------------------------------------------------------------------------------------------------------------------------- */

static void open_four(fixture *f) {
    fixture_new(f);
    for (uint32_t i = 0; i < PARTITIONS; i++) fixture_create(f, org_of(i), i, DIMENSION);
}

/* Requests are queued without waiting, so that groups form as they like; one submitter, so that their order is the model's. */
static void run_flights(fixture *f, test_random *r, model *m, int rounds) {
    enum { FLIGHTS = 16 };
    flight *flights = calloc(FLIGHTS, sizeof(*flights));
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < FLIGHTS; i++) {
            flight *one = &flights[i];
            uint64_t org = 1 + test_random_below(r, 2);
            uint32_t count = 1 + test_random_below(r, 20);
            answer_init(&one->answer);
            one->request = (hd_write_request){.org = org, .remaining_ms = 60000, .items = one->items, .item_count = count};
            for (uint32_t j = 0; j < count; j++) draw_item(r, m, one, j, org);
            assert_int_equal(sh_writer_submit(f->writer, &one->request, answer_keep, &one->answer), HD_OK);
        }
        for (int i = 0; i < FLIGHTS; i++) answer_wait(&flights[i].answer);
        for (int i = 0; i < FLIGHTS; i++) check_answer(&flights[i]);
    }
    free(flights);
}

static void test_random_writes(void **state) {
    test_random r = {seed};
    model *m = calloc(1, sizeof(*m));
    fixture f;
    open_four(&f);
    check_stats(&f, m, false);
    for (int i = 0; i < 6; i++) {
        run_flights(&f, &r, m, 5);
        check_all(&f, m);
        check_rows(&f, m, false);
        fixture_reopen(&f);
        check_stats(&f, m, false); /* those stored with it */
        check_all(&f, m);
    }
    hd_error error = {0};
    ASSERT_OK(sh_writer_sweep(f.writer, &error), error);
    check_rows(&f, m, false); /* nothing is old enough yet */
    hd_clock_use_scripted(hd_clock_monotonic_us(), hd_clock_wall_us() + 61 * 1000000);
    ASSERT_OK(sh_writer_sweep(f.writer, &error), error);
    hd_clock_use_real();
    check_rows(&f, m, true);
    check_all(&f, m);
    fixture_reopen(&f);
    check_all(&f, m);
    fixture_end(&f);
    free(m);
}

static hd_write_item simple_item(uint64_t partition, const char *id) {
    return (hd_write_item){.kind = HD_WRITE_SAVE,
                           .partition = partition,
                           .epoch = 1,
                           .event = {.id = hd_str_of(id), .summary = HD_STR("a summary"), .timestamp_us = 1}};
}

static void expect_refused(fixture *f, const hd_write_item *item, hd_status code, const char *piece) {
    answer a;
    hd_write_outcome outcome = fixture_write_one(f, 1, item, &a);
    assert_int_equal(outcome.code, code);
    if (!strstr(a.messages[0], piece)) print_error("message: %s\n", a.messages[0]);
    assert_non_null(strstr(a.messages[0], piece));
}

static void test_refusals(void **state) {
    fixture f;
    open_four(&f);
    float good[DIMENSION + 1] = {1, 2, 3, 4, 5};
    hd_write_item item = simple_item(0, "e");
    item.event.vector = good;
    item.event.dimension = DIMENSION + 1;
    expect_refused(&f, &item, HD_ARGUMENT, "the vector has 5 elements, the org's vectors have 4");
    item.event.dimension = DIMENSION;
    good[2] = __builtin_nanf("");
    expect_refused(&f, &item, HD_ARGUMENT, "element 2 of the vector is not finite");
    good[2] = -__builtin_inff();
    expect_refused(&f, &item, HD_ARGUMENT, "not finite");
    memset(good, 0, sizeof(good));
    good[DIMENSION] = 1;
    expect_refused(&f, &item, HD_ARGUMENT, "all zero");
    item = simple_item(0, "no spaces");
    expect_refused(&f, &item, HD_ARGUMENT, "an event id is");
    item = simple_item(2, "e");
    expect_refused(&f, &item, HD_FORBIDDEN, "another org");
    item = simple_item(9, "e");
    expect_refused(&f, &item, HD_MAP_STALE, "not here");
    item = simple_item(UINT64_MAX, "e");
    expect_refused(&f, &item, HD_MAP_STALE, "not here");
    item = simple_item(0, "e");
    hd_entity_ref twice[] = {{HD_STR("a"), {0}}, {HD_STR("b"), {0}}, {HD_STR("a"), HD_STR("t")}};
    item.event.entities = twice;
    item.event.entity_count = 3;
    expect_refused(&f, &item, HD_ARGUMENT, "entities 0 and 2");
    hd_entity_ref many[SH_ENTITIES_MAX + 1] = {{{0}, {0}}};
    item.event.entities = many;
    item.event.entity_count = SH_ENTITIES_MAX + 1;
    expect_refused(&f, &item, HD_ARGUMENT, "at most");
    item = simple_item(0, "e");
    hd_tag_ref odd[] = {{HD_STR("a"), 3}};
    item.event.tags = odd;
    item.event.tag_count = 1;
    expect_refused(&f, &item, HD_ARGUMENT, "tag 0");
    item = simple_item(0, "e");
    item.kind = (hd_write_kind)7;
    expect_refused(&f, &item, HD_WIRE, "7");
    assert_int_equal(count_rows(&f, SH_FAMILY_EVENT, 0), 0);
    fixture_end(&f);
}

static void test_once(void **state) {
    fixture f;
    answer a;
    open_four(&f);
    hd_write_item items[3] = {simple_item(0, "e"), simple_item(0, "e"), simple_item(0, "other")};
    for (int i = 0; i < 3; i++) items[i].idempotency_key = HD_STR("key");
    items[1].event.timestamp_us = 99; /* as a second sending without a timestamp has it */
    hd_write_request request = {.org = 1, .remaining_ms = 60000, .items = items, .item_count = 3};
    fixture_write(&f, &request, &a);
    assert_true(a.outcomes[0].code == HD_OK && a.outcomes[0].is_created && !a.outcomes[0].is_repeat);
    assert_true(a.outcomes[1].code == HD_OK && a.outcomes[1].is_created && a.outcomes[1].is_repeat);
    assert_string_equal(a.messages[1], "");
    assert_true(a.outcomes[2].code == HD_OK && a.outcomes[2].is_created && a.outcomes[2].is_repeat);
    assert_non_null(strstr(a.messages[2], "for another record"));
    assert_true(a.events[0][0] == 0 && !strcmp(a.events[1], "e") && !strcmp(a.events[2], "e")); /* of the first time, not of this */
    fixture_reopen(&f);
    for (int i = 0; i < 3; i++) {
        hd_write_outcome again = fixture_write_one(&f, 1, &items[i], &a);
        assert_true(again.code == HD_OK && again.is_created && again.is_repeat);
        assert_string_equal(a.events[0], "e");
    }
    hd_write_item gone = simple_item(0, "e");
    gone.kind = HD_WRITE_DELETE;
    assert_true(fixture_write_one(&f, 1, &gone, &a).is_deleted);
    assert_false(fixture_write_one(&f, 1, &gone, &a).is_deleted);
    assert_true(fixture_write_one(&f, 1, &items[0], &a).is_repeat); /* answered as the first time, not done again */
    assert_int_equal(count_rows(&f, SH_FAMILY_EVENT, 0), 1);
    hd_write_item fresh = simple_item(0, "f");
    fresh.idempotency_key = HD_STR("key 2");
    fresh.event.dimension = 2;
    fresh.event.vector = (float[]){1, 2};
    assert_int_equal(fixture_write_one(&f, 1, &fresh, &a).code, HD_ARGUMENT);
    fresh.event.vector = NULL; /* a refusal uses no key up */
    assert_true(fixture_write_one(&f, 1, &fresh, &a).is_created);
    fresh.partition = 1; /* another partition's keys are its own */
    assert_false(fixture_write_one(&f, 1, &fresh, &a).is_repeat);
    fixture_end(&f);
}

/* Holds the writer inside `done` until told to go on. */
typedef struct gate {
    sem_t entered, go;
} gate;

static void wait_at_gate(void *self, const hd_write_reply *reply) {
    gate *g = self;
    sem_post(&g->entered);
    sem_wait(&g->go);
}

static uint64_t sequence_of(fixture *f, uint64_t org, uint64_t partition) {
    hd_error error = {0};
    sh_partition *p;
    sh_view view;
    ASSERT_OK(sh_partitions_acquire(f->partitions, org, partition, 1, 0, &p, &error), error);
    assert_true(sh_view_enter(p->graph, 0, &view));
    uint64_t sequence = view.sequence;
    sh_view_leave(&view);
    sh_partitions_release(f->partitions, p);
    return sequence;
}

static void test_groups(void **state) {
    enum { MANY = 200 };
    fixture f;
    gate g;
    open_four(&f);
    sem_init(&g.entered, 0, 0);
    sem_init(&g.go, 0, 0);
    hd_clock_use_scripted(1000000, 1000000);
    uint64_t before[2] = {sequence_of(&f, 1, 0), sequence_of(&f, 1, 1)};
    hd_write_request empty = {.org = 1, .remaining_ms = 1000};
    assert_int_equal(sh_writer_submit(f.writer, &empty, wait_at_gate, &g), HD_OK);
    sem_wait(&g.entered);
    static hd_write_item items[MANY];
    static hd_write_request requests[MANY];
    static char ids[MANY][8];
    answer *answers = calloc(MANY, sizeof(*answers));
    for (int i = 0; i < MANY; i++) {
        snprintf(ids[i], sizeof(ids[i]), "g%d", i);
        items[i] = simple_item(0, ids[i]);
        requests[i] = (hd_write_request){.org = 1, .remaining_ms = i == 7 ? 10 : 1000, .items = &items[i], .item_count = 1};
        answer_init(&answers[i]);
        assert_int_equal(sh_writer_submit(f.writer, &requests[i], answer_keep, &answers[i]), HD_OK);
    }
    hd_write_item *lots = calloc(10000, sizeof(*lots));
    hd_write_request too_many = {.org = 1, .remaining_ms = 1000, .items = lots, .item_count = 10000};
    assert_int_equal(sh_writer_submit(f.writer, &too_many, answer_keep, NULL), HD_BUSY);
    hd_clock_advance(11000);
    sem_post(&g.go);
    for (int i = 0; i < MANY; i++) answer_wait(&answers[i]);
    for (int i = 0; i < MANY; i++) assert_int_equal(answers[i].status, i == 7 ? HD_DEADLINE : HD_OK);
    assert_int_equal(sequence_of(&f, 1, 0), before[0] + 1);
    assert_int_equal(sequence_of(&f, 1, 1), before[1]);
    assert_int_equal(count_rows(&f, SH_FAMILY_EVENT, 0), MANY - 1);
    hd_clock_use_real();
    free(lots);
    free(answers);
    fixture_end(&f);
}

/* A summary longer than what is read of a text for its sake, and a text that is gone. */
static void test_long_summary(void **state) {
    fixture f;
    answer a;
    hd_error error = {0};
    sh_partition *p;
    static char summary[5000];
    open_four(&f);
    memset(summary, 's', sizeof(summary));
    hd_write_item item = simple_item(0, "long");
    item.event.summary = (hd_str){summary, sizeof(summary)};
    item.event.content = HD_STR("content");
    assert_int_equal(fixture_write_one(&f, 1, &item, &a).code, HD_OK);
    ASSERT_OK(sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &p, &error), error);
    hd_arena *arena = hd_arena_new(0);
    hd_str got, content;
    ASSERT_OK(sh_partition_get_text(f.partitions, p, 1, arena, &got, NULL, &error), error);
    assert_true(hd_str_is_equal(got, item.event.summary));
    ASSERT_OK(sh_partition_get_text(f.partitions, p, 1, arena, NULL, &content, &error), error);
    assert_true(hd_str_is_equal(content, HD_STR("content")));
    assert_int_equal(sh_partition_get_text(f.partitions, p, 2, arena, &got, NULL, &error), HD_SNAPSHOT_GONE);
    hd_arena_free(arena);
    sh_partitions_release(f.partitions, p);
    fixture_end(&f);
}

static void test_eviction(void **state) {
    test_random r = {seed + 1};
    model *m = calloc(1, sizeof(*m));
    fixture f;
    sh_partition *p;
    hd_error error = {0};
    open_four(&f);
    fixture_close(&f);
    f.memory_max = 1; /* nothing stays that is not in use */
    fixture_open(&f);
    run_flights(&f, &r, m, 3);
    check_stats(&f, m, false);
    sh_partitions_totals totals;
    sh_partitions_get_totals(f.partitions, &totals);
    assert_true(totals.partitions == PARTITIONS && totals.loaded == 0 && totals.memory_bytes == 0);
    assert_true(totals.evictions >= PARTITIONS && totals.loads == totals.evictions);
    ASSERT_OK(sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &p, &error), error);
    uint64_t incarnation = p->incarnation;
    sh_partition *same;
    ASSERT_OK(sh_partitions_acquire(f.partitions, 1, 0, 1, incarnation, &same, &error), error);
    assert_ptr_equal(p, same);
    sh_partitions_release(f.partitions, same);
    sh_partitions_release(f.partitions, p);
    assert_int_equal(sh_partitions_acquire(f.partitions, 1, 0, 1, incarnation, &p, &error), HD_SNAPSHOT_GONE);
    assert_null(p);
    ASSERT_OK(sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &p, &error), error);
    assert_true(p->incarnation != incarnation);
    memset(&error, 0, sizeof(error));
    assert_int_equal(sh_partitions_acquire(f.partitions, 1, 0, 1, incarnation, &same, &error), HD_SNAPSHOT_GONE);
    sh_partitions_release(f.partitions, p);
    f.memory_max = (uint64_t)1 << 30;
    fixture_reopen(&f);
    check_all(&f, m);
    fixture_end(&f);
    free(m);
}

static void test_create_and_drop(void **state) {
    test_random r = {seed + 2};
    model *m = calloc(1, sizeof(*m));
    fixture f;
    hd_error error = {0};
    open_four(&f);
    run_flights(&f, &r, m, 2);
    hd_partition_spec spec = {.id = 0, .org = 1, .epoch = 1, .dimension = DIMENSION};
    assert_int_equal(sh_partitions_create(f.partitions, &spec, &error), HD_OK);
    spec.dimension = 5;
    assert_int_equal(sh_partitions_create(f.partitions, &spec, &error), HD_ALREADY_EXISTS);
    spec.dimension = 4097;
    assert_int_equal(sh_partitions_create(f.partitions, &spec, &error), HD_ARGUMENT);
    spec = (hd_partition_spec){.id = UINT64_MAX, .org = 1, .epoch = 1, .dimension = 1};
    assert_int_equal(sh_partitions_create(f.partitions, &spec, &error), HD_ARGUMENT);
    assert_int_equal(sh_partitions_drop(f.partitions, 2, 0, &error), HD_FORBIDDEN);
    assert_int_equal(sh_partitions_drop(f.partitions, 1, 77, &error), HD_NOT_FOUND);
    assert_int_equal(sh_partitions_drop(f.partitions, 1, 0, &error), HD_OK);
    for (int family = SH_FAMILY_EVENT; family < SH_FAMILY_COUNT; family++)
        assert_int_equal(count_rows(&f, (sh_family)family, 0), 0);
    assert_true(count_rows(&f, SH_FAMILY_EVENT, 1) > 0);
    sh_partition *p;
    assert_int_equal(sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &p, &error), HD_MAP_STALE);
    assert_int_equal(sh_partitions_drop(f.partitions, 1, 0, &error), HD_NOT_FOUND);
    fixture_reopen(&f);
    assert_int_equal(sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &p, &error), HD_MAP_STALE);
    fixture_create(&f, 1, 0, DIMENSION); /* a creation that was rolled back and is made again */
    memset(m->events[0], 0, sizeof(m->events[0]));
    run_flights(&f, &r, m, 2);
    check_all(&f, m);
    fixture_end(&f);
    free(m);
}

typedef struct holder {
    fixture *f;
    sh_partition *p;
} holder;

static void *drop_held(void *self) {
    fixture *f = self;
    hd_error error = {0};
    return (void *)(uintptr_t)sh_partitions_drop(f->partitions, 1, 0, &error);
}

static void test_drop_waits(void **state) {
    fixture f;
    sh_partition *p, *other;
    hd_error error = {0};
    pthread_t thread;
    open_four(&f);
    ASSERT_OK(sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &p, &error), error);
    pthread_create(&thread, NULL, drop_held, &f);
    hd_status status = HD_OK;
    while (status == HD_OK) { /* until the drop has begun: then nobody new gets it */
        status = sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &other, &error);
        if (status == HD_OK) sh_partitions_release(f.partitions, other);
    }
    assert_int_equal(status, HD_MAP_STALE);
    sh_view view; /* who holds it still sees it */
    assert_true(sh_view_enter(p->graph, 0, &view));
    sh_view_leave(&view);
    sh_partitions_release(f.partitions, p);
    void *result;
    pthread_join(thread, &result);
    assert_int_equal((uintptr_t)result, HD_OK);
    fixture_end(&f);
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The disk fills up in the middle of writing: what was acknowledged stays, what was refused is not seen, reads go on; once there is
 * room writes go on, and memory says what the disk says. */
static void test_full_disk(void **state) {
    enum { EVENTS = 64 };
    fixture f;
    answer a;
    hd_error error = {0};
    static char ids[EVENTS][8];
    bool is_acknowledged[EVENTS] = {false};
    hd_status code = HD_OK;
    uint32_t at = 0;
    open_four(&f);
    signal(SIGXFSZ, SIG_IGN);
    hd_clock_use_scripted(1000000000, 1000000);
    char *content = calloc(1, 100 << 10);
    for (uint32_t i = 0; i < 100 << 10; i++) content[i] = (char)('a' + hd_random_u64() % 26);
    limit_files(2 << 20);
    for (; at < EVENTS && code == HD_OK; at++) {
        snprintf(ids[at], sizeof(ids[at]), "d%u", at);
        hd_write_item item = simple_item(at % 2, ids[at]);
        item.event.content = (hd_str){content, 100 << 10};
        code = fixture_write_one(&f, 1, &item, &a).code;
        is_acknowledged[at] = code == HD_OK;
    }
    assert_int_equal(code, HD_STORE_FULL);
    assert_true(at > 2 && at < EVENTS);
    uint32_t refused = at - 1;
    limit_files(512);
    sh_partition *p;
    sh_view view;
    ASSERT_OK(sh_partitions_acquire(f.partitions, 1, refused % 2, 1, 0, &p, &error), error);
    assert_true(sh_view_enter(p->graph, 0, &view));
    assert_int_equal(sh_view_find_event(&view, hd_str_of(ids[refused])), SH_NONE);
    for (int i = 0; i < 3; i++) {
        hd_write_item item = simple_item(0, "later");
        hd_write_request request = {.org = 1, .remaining_ms = 60000, .items = &item, .item_count = 1};
        fixture_write(&f, &request, &a);
        assert_int_equal(a.status, HD_STORE_FULL);
        hd_clock_advance(2000000);
    }
    limit_files(RLIM_INFINITY);
    hd_write_item item = simple_item(0, "later");
    assert_int_equal(fixture_write_one(&f, 1, &item, &a).code, HD_OK);
    sh_view_leave(&view); /* a reader from before holds its own state; the partition itself has been read anew */
    uint64_t incarnation = p->incarnation;
    sh_partitions_release(f.partitions, p);
    memset(&error, 0, sizeof(error));
    assert_int_equal(sh_partitions_acquire(f.partitions, 1, refused % 2, 1, incarnation, &p, &error), HD_SNAPSHOT_GONE);
    uint64_t events[2][2];
    for (int opened = 0; opened < 2; opened++) {
        for (uint32_t i = 0; i < 2; i++) {
            memset(&error, 0, sizeof(error));
            ASSERT_OK(sh_partitions_acquire(f.partitions, 1, i, 1, 0, &p, &error), error);
            assert_true(sh_view_enter(p->graph, 0, &view));
            events[opened][i] = sh_view_live_events(&view);
            for (uint32_t j = 0; j < at; j++) {
                if (j % 2 != i || !is_acknowledged[j]) continue;
                assert_int_not_equal(sh_view_find_event(&view, hd_str_of(ids[j])), SH_NONE);
            }
            sh_view_leave(&view);
            sh_partitions_release(f.partitions, p);
        }
        if (opened == 0) fixture_reopen(&f);
    }
    assert_true(events[0][0] == events[1][0] && events[0][1] == events[1][1]);
    hd_clock_use_real();
    free(content);
    fixture_end(&f);
}

static void test_damaged_row(void **state) {
    fixture f;
    answer a;
    hd_error error = {0};
    sh_partition *p;
    open_four(&f);
    hd_write_item item = simple_item(0, "e");
    assert_int_equal(fixture_write_one(&f, 1, &item, &a).code, HD_OK);
    char key[SH_KEY_RECORD_SIZE];
    sh_key_of_record(0, 1, key);
    sh_batch *batch = sh_batch_new();
    sh_batch_put(batch, f.store, SH_FAMILY_EVENT, (hd_str){key, sizeof(key)}, HD_STR("\1garbage"));
    ASSERT_OK(sh_store_write(f.store, batch, true, &error), error);
    sh_batch_free(batch);
    fixture_reopen(&f);
    for (int i = 0; i < 2; i++) {
        memset(&error, 0, sizeof(error));
        assert_int_equal(sh_partitions_acquire(f.partitions, 1, 0, 1, 0, &p, &error), HD_STORE_CORRUPT);
        assert_non_null(strstr(error.message, "partition 0, record 1"));
    }
    item = simple_item(0, "f");
    assert_int_equal(fixture_write_one(&f, 1, &item, &a).code, HD_STORE_CORRUPT);
    item = simple_item(1, "f"); /* the others do not care */
    assert_int_equal(fixture_write_one(&f, 1, &item, &a).code, HD_OK);
    fixture_end(&f);
}

/* Readers, a writer and an eviction after every use, all at once: each sees whole states that only grow. */
typedef struct reader {
    fixture *f;
    bool is_done;
    uint32_t reads;
} reader;

static void *read_on(void *self) {
    reader *r = self;
    uint64_t before = 0;
    while (!__atomic_load_n(&r->is_done, __ATOMIC_RELAXED)) {
        hd_error error = {0};
        sh_partition *p;
        sh_view view;
        if (sh_partitions_acquire(r->f->partitions, 1, r->reads % 2, 1, 0, &p, &error) != HD_OK) return (void *)1;
        if (!sh_view_enter(p->graph, 0, &view)) return (void *)2;
        uint64_t events = sh_view_live_events(&view);
        if (r->reads % 2 == 0 && events < before) return (void *)3;
        if (r->reads % 2 == 0) before = events;
        sh_view_leave(&view);
        sh_partitions_release(r->f->partitions, p);
        r->reads++;
    }
    return NULL;
}

static void test_threads(void **state) {
    fixture f;
    answer a;
    reader readers[3] = {{0}};
    pthread_t threads[3];
    open_four(&f);
    fixture_close(&f);
    f.memory_max = 1;
    fixture_open(&f);
    for (int i = 0; i < 3; i++) {
        readers[i].f = &f;
        pthread_create(&threads[i], NULL, read_on, &readers[i]);
    }
    for (int i = 0; i < 150; i++) {
        char id[8];
        snprintf(id, sizeof(id), "t%d", i);
        hd_write_item item = simple_item((uint64_t)i % 2, id);
        assert_int_equal(fixture_write_one(&f, 1, &item, &a).code, HD_OK);
    }
    for (int i = 0; i < 3; i++) __atomic_store_n(&readers[i].is_done, true, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
        assert_true(readers[i].reads > 0);
    }
    fixture_end(&f);
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    make_names();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_writes), cmocka_unit_test(test_refusals),     cmocka_unit_test(test_once),
        cmocka_unit_test(test_groups),        cmocka_unit_test(test_eviction),     cmocka_unit_test(test_create_and_drop),
        cmocka_unit_test(test_drop_waits),    cmocka_unit_test(test_full_disk),    cmocka_unit_test(test_damaged_row),
        cmocka_unit_test(test_threads),       cmocka_unit_test(test_long_summary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
