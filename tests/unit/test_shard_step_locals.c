/* Frontiers by locals: as good as by ids, and nothing at all where a local is of no event that the request can see.
 * The seed is printed first and may be given as an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/step_model.h"

static setting make_setting(const model_world *world, uint32_t first, uint32_t count) {
    return (setting){.world = world,
                     .sequences = world->sequences,
                     .first = first,
                     .count = count,
                     .scanned_max = ALL,
                     .measured_max = ALL,
                     .what = "locals"};
}

static const hd_step_result *run_one(const setting *s, const hd_step *step, hd_arena *arena) {
    hd_step_reply *reply = take(arena, 1, sizeof(*reply));
    run_request(s, step, 1, NULL, arena, reply);
    assert_int_equal(reply->result_count, 1);
    return &reply->results[0];
}

/* Leaves the events that are there, by their locals; where *ids was is where they were. */
static void name_by_locals(const setting *s, hd_event_batch *batch, hd_arena *arena) {
    hd_step facts = {.kind = HD_STEP_FACTS, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    facts.events = (hd_event_batch){.count = batch->count, .ids = batch->ids};
    const hd_event_batch *found = &run_one(s, &facts, arena)->events;
    for (uint32_t i = 0; i < batch->count; i++) {
        assert_true(hd_str_is_equal(found->ids[i], batch->ids[i]));
        assert_int_equal(found->locals[i] != HD_LOCAL_NONE, found->flags[i] != 0);
        if (found->flags[i])
            assert_int_equal(hd_local_ordinal(found->locals[i]), hd_event_partition(batch->ids[i], s->world->parts));
    }
    batch->locals = found->locals;
    batch->ids = NULL;
}

static void check_same(const hd_step_result *got, const hd_step_result *wanted) {
    const hd_edges *a = &got->edges, *b = &wanted->edges;
    uint32_t count = hd_edges_count(a);
    assert_int_equal(got->events.count, wanted->events.count);
    assert_int_equal(count, hd_edges_count(b));
    assert_int_equal(got->used_scanned, wanted->used_scanned);
    assert_int_equal(got->used_measured, wanted->used_measured);
    for (uint32_t i = 0; i < got->events.count; i++) {
        assert_true(got->events.locals[i] == wanted->events.locals[i]);
        assert_int_equal(got->events.flags[i], wanted->events.flags[i]);
        if (got->events.flags[i]) assert_true(hd_str_is_equal(got->events.ids[i], wanted->events.ids[i]));
    }
    if (b->offsets != NULL) assert_memory_equal(a->offsets, b->offsets, (b->from_count + 1) * sizeof(*b->offsets));
    if (count > 0) assert_memory_equal(a->to, b->to, count * sizeof(*b->to));
    if (b->via_offsets != NULL) assert_memory_equal(a->via, b->via, b->via_offsets[count] * sizeof(*b->via));
    for (uint32_t e = 0; b->cos != NULL && e < count; e++) {
        assert_int_equal(a->is_answered[e], b->is_answered[e]);
        assert_true(a->cos[e] == b->cos[e] || (isnan(a->cos[e]) && isnan(b->cos[e])));
    }
}

static void locals_are_as_good_as_ids(void **state) {
    for (uint32_t round = 0; round < 40; round++) {
        fixture *f = hd_alloc(sizeof(*f));
        hd_arena *arena = hd_arena_new(0);
        build(f);
        for (uint32_t w = 0; w < 2; w++) {
            setting all = make_setting(&f->worlds[w], 0, f->worlds[w].parts), some = all;
            if (w == 1) some = make_setting(&f->worlds[w], below(PARTS), 1);
            for (uint32_t which = 0; which < 3; which++) {
                hd_step by_id = which == 0   ? make_facts(arena, &f->now, HD_LABEL_EVENT)
                                : which == 1 ? make_shares(arena, &f->now)
                                             : make_measure(arena, &f->now);
                by_id.facets |= HD_FACET_ID;
                hd_step by_local = by_id;
                name_by_locals(&all, &by_local.events, arena);
                if (which == 2) name_by_locals(&all, &by_local.to_events, arena);
                check_same(run_one(&all, &by_local, arena), run_one(&all, &by_id, arena));
                check_same(run_one(&some, &by_local, arena), run_one(&some, &by_id, arena)); /* those elsewhere are not here */
            }
        }
        hd_arena_free(arena);
        tear_down(f);
        hd_free(f);
    }
}

/* Ids come only where they are asked for, or are few. */
static void ids_come_when_asked_for(void **state) {
    fixture *f = hd_alloc(sizeof(*f));
    hd_arena *arena = hd_arena_new(0);
    build(f);
    setting all = make_setting(&f->worlds[1], 0, PARTS);
    for (uint32_t round = 0; round < 3; round++) {
        hd_step step = make_postings(arena, false);
        step.facets = round == 0 ? 0 : round == 1 ? HD_FACET_ID : HD_FACET_ID_FEW;
        const hd_event_batch *events = &run_one(&all, &step, arena)->events;
        assert_true(events->count > 0 && events->count <= HD_IDS_FEW);
        assert_int_equal(events->ids != NULL, round > 0);
        for (uint32_t i = 0; i < events->count; i++) assert_true(events->flags[i] & HD_EVENT_EXISTS);
    }
    hd_arena_free(arena);
    tear_down(f);
    hd_free(f);
}

static void bad_locals_are_nobody(void **state) {
    fixture *f = hd_alloc(sizeof(*f));
    hd_arena *arena = hd_arena_new(0);
    build(f);
    model_world *world = &f->worlds[1];
    uint32_t alive = 0;
    for (uint32_t p = 0; p < PARTS; p++) { /* every number up to a few beyond the last, and of an ordinal that is not asked */
        setting s = make_setting(world, p, 1);
        uint64_t locals[400];
        for (uint32_t i = 0; i < 200; i++) {
            locals[i] = hd_local(p, i < 190 ? i : UINT32_MAX - (i - 190));
            locals[200 + i] = hd_local(i % 7 == 0 ? 255 : i % 7 == 1 ? UINT32_MAX - 1 : (p + 1) % PARTS, i);
        }
        locals[399] = HD_LOCAL_NONE;
        hd_step step = {.kind = HD_STEP_FACTS, .from_result = -1, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ID};
        step.events = (hd_event_batch){.count = 400, .locals = locals};
        const hd_event_batch *events = &run_one(&s, &step, arena)->events;
        for (uint32_t i = 0; i < 400; i++) {
            assert_true(events->locals[i] == (events->flags[i] ? locals[i] : HD_LOCAL_NONE));
            if (!events->flags[i]) continue;
            assert_true(i < 200);
            const model_event *event = &f->now.events[find_event(events->ids[i])]; /* only the version that lives */
            assert_true(event->is_live && hd_str_is_equal(events->ids[i], str(event->id)));
            alive++;
        }
    }
    uint32_t live = 0;
    for (uint32_t e = 0; e < EVENTS; e++) live += f->now.events[e].is_live;
    assert_int_equal(alive, live);
    hd_arena_free(arena);
    tear_down(f);
    hd_free(f);
}

/* Who does not say which incarnation the numbers are of may mean anything by them. */
static void locals_without_an_incarnation_are_nobody(void **state) {
    fixture *f = hd_alloc(sizeof(*f));
    hd_arena *arena = hd_arena_new(0);
    build(f);
    setting all = make_setting(&f->worlds[0], 0, 1);
    hd_step step = make_facts(arena, &f->now, HD_LABEL_EVENT);
    hd_id128 id = hd_name_id(str("Anna"));
    hd_step postings = {.kind = HD_STEP_POSTINGS, .from_result = -1, .frontier_label = HD_LABEL_ENTITY};
    postings.names = (hd_name_batch){.count = 1, .ids = &id};
    step.events = run_one(&all, &postings, arena)->events;
    step.facets = HD_FACET_ID;
    assert_true(step.events.count > 0);
    for (uint64_t incarnation = 77; incarnation != 1; incarnation = incarnation == 77 ? 0 : 1) {
        hd_partition_ref ref = {.id = 100, .epoch = 1, .incarnation = incarnation, .sequence = f->worlds[0].sequences[0]};
        sh_source source = {.graph = f->worlds[0].graphs[0], .incarnation = 77, .get_text = text_of_record};
        hd_step_request request = {.org = 1,
                                   .partitions = &ref,
                                   .partition_count = 1,
                                   .is_whole_org = true,
                                   .org_partitions = 1,
                                   .frontier_max = ALL,
                                   .scanned_max = ALL,
                                   .measured_max = ALL,
                                   .steps = &step,
                                   .step_count = 1};
        hd_step_reply reply;
        sh_step_run_over(&source, &request, &NO_DEADLINE, arena, &reply);
        assert_int_equal(reply.status, HD_OK);
        for (uint32_t i = 0; i < step.events.count; i++) assert_int_equal(reply.results[0].events.flags[i] != 0, incarnation == 77);
    }
    hd_arena_free(arena);
    tear_down(f);
    hd_free(f);
}

int main(int argc, char **argv) {
    randomness.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(locals_are_as_good_as_ids),
        cmocka_unit_test(ids_come_when_asked_for),
        cmocka_unit_test(bad_locals_are_nobody),
        cmocka_unit_test(locals_without_an_incarnation_are_nobody),
    };
    return cmocka_run_group_tests_name("shard step locals", tests, NULL, NULL);
}
