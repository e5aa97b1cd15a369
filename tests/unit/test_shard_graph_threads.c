/* One writer and several readers on one graph, for the thread sanitizer above all. The writer keeps invariants that hold at every
 * published sequence and that a torn or early read would break; the readers check them in every view, and that a view, however long
 * it is held, does not change.
 *
 * Sequence s: event "hot-<s mod HOT>" is replaced (its timestamp is s), "flash-<s>" is born, "flash-<s − 1>" is deleted.
 * So at every sequence: HOT + 1 events live from the start on; the newest is flash-s; entity "all" has HOT + 1 events, "now" has one;
 * thread "line" ends in flash-s; "flash-s" follows "flash-<s − 1>". */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/ids.h"
#include "shard/epoch.h"
#include "shard/graph.h"
#include "shard/vectors/vector_index.h"

enum { HOT = 50, READERS = 3, SEQUENCES = 12000, DIMENSION = 8, FIRST = 1 };

typedef struct shared {
    sh_graph *graph;
    atomic_bool is_done;
    atomic_uint views;
} shared;

/* -- the writer -------------------------------------------------------------------------------------------------------------------- */

static void save(sh_graph *graph, const char *id, uint64_t sequence, const char *previous, bool is_flash) {
    char own[32];
    snprintf(own, sizeof(own), "own %llu", (unsigned long long)sequence % 5000);
    hd_entity_ref entities[] = {{HD_STR("all"), HD_STR("thing")}, {hd_str_of(own), {NULL, 0}}, {HD_STR("now"), HD_STR("moment")}};
    hd_tag_ref tag = {HD_STR("tag"), HD_KIND_CONTAINS};
    float vector[DIMENSION];
    for (uint32_t i = 0; i < DIMENSION; i++) vector[i] = (float)((sequence >> i) % 7) + 1;
    hd_event_record record = {.id = hd_str_of(id),
                              .timestamp_us = (int64_t)sequence,
                              .thread = HD_STR("line"),
                              .previous = hd_str_of(previous),
                              .entities = entities,
                              .entity_count = is_flash ? 3 : 2,
                              .tags = &tag,
                              .tag_count = 1,
                              .vector = vector,
                              .dimension = DIMENSION};
    sh_graph_apply_save(graph, &record, sequence, sequence);
}

static void flash_name(char *name_out, size_t size, uint64_t sequence) {
    snprintf(name_out, size, "flash-%llu", (unsigned long long)sequence);
}

static void write_sequence(sh_graph *graph, uint64_t sequence) {
    char id[32], before[32];
    snprintf(id, sizeof(id), "hot-%llu", (unsigned long long)sequence % HOT);
    flash_name(before, sizeof(before), sequence - 1);
    if (sequence > FIRST) {
        assert_true(sh_graph_apply_delete(graph, hd_str_of(before), sequence));
        save(graph, id, sequence, NULL, false);
    } else {
        for (uint32_t i = 0; i < HOT; i++) {
            snprintf(id, sizeof(id), "hot-%u", i);
            save(graph, id, sequence, NULL, false);
        }
    }
    flash_name(id, sizeof(id), sequence);
    save(graph, id, sequence, before, true);
}

static void *write_all(void *self) {
    shared *s = self;
    for (uint64_t sequence = FIRST + 1; sequence <= SEQUENCES; sequence++) {
        write_sequence(s->graph, sequence);
        sh_graph_publish(s->graph, sequence);
    }
    atomic_store(&s->is_done, true);
    return NULL;
}

/* -- the readers ------------------------------------------------------------------------------------------------------------------- */

#define EXPECT(condition)                                                            \
    do {                                                                             \
        if (!(condition)) {                                                          \
            fprintf(stderr, "%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
            abort(); /* cmocka's jumps do not cross threads */                       \
        }                                                                            \
    } while (0)

static uint32_t count_visible(const sh_view *view, sh_postings postings) {
    uint32_t visible = 0;
    for (uint32_t i = 0; i < postings.count; i++) {
        EXPECT(i == 0 || postings.slots[i] > postings.slots[i - 1]);
        visible += sh_view_is_visible(view, postings.slots[i]);
    }
    return visible;
}

static void check_names(const sh_view *view, hd_str flash) {
    uint32_t all = sh_view_find_entity(view, hd_name_id(HD_STR("all"))), now = sh_view_find_entity(view, hd_name_id(HD_STR("now")));
    EXPECT(all != SH_NONE && now != SH_NONE);
    EXPECT(sh_view_entity_count(view, all) == HOT + 1);
    EXPECT(sh_view_entity_count(view, now) == 1);
    EXPECT(sh_view_tag_count(view, sh_view_find_tag(view, hd_name_id(HD_STR("tag")))) == HOT + 1);
    EXPECT(count_visible(view, sh_view_entity_postings(view, all)) == HOT + 1);
    hd_str type, event;
    int64_t at_us;
    EXPECT(sh_view_entity_type(view, now, &type, &at_us, &event));
    EXPECT(hd_str_is_equal(type, HD_STR("moment")) && hd_str_is_equal(event, flash) && at_us == (int64_t)view->sequence);
    EXPECT(sh_view_entity_type(view, all, &type, &at_us, &event) && hd_str_is_equal(type, HD_STR("thing")));
    uint64_t oldest = view->sequence > HOT ? view->sequence - HOT + 1 : FIRST;
    EXPECT(at_us == (int64_t)oldest);
    uint32_t names = sh_view_entity_numbers(view);
    for (uint32_t i = names % 97; i < names; i += 97) EXPECT(sh_view_find_entity(view, sh_view_entity_id(view, i)) == i);
    EXPECT(hd_str_is_equal(sh_view_entity_folded(view, names - 1), sh_view_entity_name(view, names - 1)));
}

static bool accepts(void *self, uint32_t slot) {
    return sh_view_is_visible(self, slot);
}

static int compare_ties(void *self, uint32_t a, uint32_t b) {
    return hd_str_compare(sh_view_event_id(self, a), sh_view_event_id(self, b));
}

static void check_vectors(sh_view *view) {
    float query[DIMENSION] = {1, 2, 3, 4, 5, 6, 7, 8};
    sh_hit hits[HOT + 5];
    sh_search search = {.query = query,
                        .k = HOT + 5,
                        .row_end = sh_view_vector_row_end(view),
                        .accepts = accepts,
                        .compare_ties = compare_ties,
                        .self = view,
                        .measured_max = UINT64_MAX};
    sh_search_result result = {.hits = hits};
    sh_vector_index_search(sh_view_vectors(view), &search, &result);
    EXPECT(result.hit_count == HOT + 1 && !result.is_stopped);
    for (uint32_t i = 1; i < result.hit_count; i++) EXPECT(hits[i - 1].score >= hits[i].score);
}

static void check_view(sh_view *view) {
    char name[32], before[32];
    flash_name(name, sizeof(name), view->sequence);
    flash_name(before, sizeof(before), view->sequence - 1);
    hd_str flash = hd_str_of(name);
    EXPECT(sh_view_live_events(view) == HOT + 1);
    EXPECT(sh_view_live_vectors(view) == HOT + 1);
    sh_slot slot = sh_view_find_event(view, flash);
    EXPECT(slot != SH_NONE && slot < view->slot_end && sh_view_timestamp(view, slot) == (int64_t)view->sequence);
    EXPECT(sh_view_find_event(view, hd_str_of(before)) == SH_NONE);
    sh_event event;
    sh_view_get_event(view, slot, &event);
    EXPECT(event.record == view->sequence && event.entity_count == 3);

    sh_timeline timeline;
    sh_view_timeline_start(view, false, 0, &timeline);
    uint32_t seen = 0;
    for (sh_slot at; seen == 0 && (at = sh_view_timeline_next(view, &timeline)) != SH_NONE;) {
        if (!sh_view_is_visible(view, at)) continue;
        EXPECT(at == slot); /* "flash" comes before "hot", and no visible event is newer */
        seen++;
    }
    EXPECT(seen == 1);

    sh_place end = {.timestamp_us = INT64_MAX, .id = HD_STR("~")};
    uint64_t scanned = 0;
    uint32_t thread = sh_view_find_thread(view, HD_STR("line"));
    sh_slot last = sh_view_thread_before(view, thread, &end, &scanned);
    EXPECT(last != SH_NONE && sh_view_timestamp(view, last) == (int64_t)view->sequence);
    EXPECT(sh_view_thread_after(view, thread, &end, &scanned) == SH_NONE);

    sh_postings followers = sh_view_followers(view, hd_str_of(before));
    EXPECT(followers.count == 1 && followers.slots[0] == slot);
    check_names(view, flash);
    check_vectors(view);
}

static void *read_all(void *self) {
    shared *s = self;
    bool was_done = false;
    for (uint32_t turn = 0; !was_done; turn++) {
        was_done = atomic_load(&s->is_done);
        sh_view view;
        EXPECT(sh_view_enter(s->graph, 0, &view));
        check_view(&view);
        if (turn % 4 == 0) {
            /* Held while the writer goes on, and still the same; an older one is there as well. */
            sh_view older;
            uint64_t back = view.sequence > 200 ? view.sequence - 200 : FIRST;
            EXPECT(sh_view_enter(s->graph, back, &older));
            check_view(&older);
            sh_view_leave(&older);
            check_view(&view);
        }
        sh_view_leave(&view);
        atomic_fetch_add(&s->views, 1);
    }
    return NULL;
}

static void test_writer_and_readers(void **state) {
    shared s = {.graph = sh_graph_new(DIMENSION)};
    write_sequence(s.graph, FIRST);
    sh_graph_publish(s.graph, FIRST);
    pthread_t writer, readers[READERS];
    for (uint32_t i = 0; i < READERS; i++) assert_int_equal(pthread_create(&readers[i], NULL, read_all, &s), 0);
    assert_int_equal(pthread_create(&writer, NULL, write_all, &s), 0);
    pthread_join(writer, NULL);
    for (uint32_t i = 0; i < READERS; i++) pthread_join(readers[i], NULL);
    print_message("%u views\n", atomic_load(&s.views));
    assert_true(atomic_load(&s.views) >= READERS);
    sh_graph_free(s.graph);
}

/* -- epochs alone ---------------------------------------------------------------------------------------------------------------------- */

/* A block that a reader inside could hold stays; it goes once that reader has left, whoever entered since. */
static void test_epochs(void **state) {
    sh_memory memory;
    sh_epoch epoch;
    sh_memory_init(&memory);
    sh_epoch_init(&epoch, &memory);
    uint32_t early = sh_epoch_enter(&epoch);
    sh_epoch_retire(&epoch, sh_memory_take(&memory, 100), 100);
    size_t bytes = atomic_load(&memory.bytes);
    for (int i = 0; i < 5; i++) sh_epoch_advance(&epoch);
    assert_int_equal(atomic_load(&memory.bytes), bytes);
    uint32_t late = sh_epoch_enter(&epoch);
    assert_int_not_equal(late, early);
    sh_epoch_advance(&epoch);
    assert_int_equal(atomic_load(&memory.bytes), bytes);
    sh_epoch_leave(&epoch, early);
    sh_epoch_advance(&epoch);
    assert_int_equal(atomic_load(&memory.bytes), bytes - 100);
    sh_epoch_retire(&epoch, sh_memory_take(&memory, 50), 50);
    for (int i = 0; i < 5; i++) sh_epoch_advance(&epoch);
    assert_int_equal(atomic_load(&memory.bytes), bytes - 50);
    sh_epoch_leave(&epoch, late);
    sh_epoch_advance(&epoch);
    assert_int_equal(atomic_load(&memory.bytes), bytes - 100);
    sh_epoch_fini(&epoch);
    sh_memory_fini(&memory);
    assert_int_equal(atomic_load(&memory.bytes), 0);
}

/* Without a publish between, as in a load, what is outgrown does not pile up. */
static void test_load_frees(void **state) {
    sh_memory memory;
    sh_epoch epoch;
    sh_memory_init(&memory);
    sh_epoch_init(&epoch, &memory);
    for (uint32_t i = 0; i < 10000; i++) sh_epoch_retire(&epoch, sh_memory_take(&memory, 1000), 1000);
    assert_true(atomic_load(&memory.bytes) < 600 * 1000);
    sh_epoch_fini(&epoch);
    assert_int_equal(atomic_load(&memory.bytes), 0);
    sh_memory_fini(&memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_writer_and_readers),
        cmocka_unit_test(test_epochs),
        cmocka_unit_test(test_load_frees),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
