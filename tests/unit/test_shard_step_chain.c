/* Chains are their steps; what ends a chain; partitions that fail, texts that cannot be read, deadlines, tokens from anywhere, too
 * little memory. The seed is printed first and may be given as an argument. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/step_model.h"

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
        hd_step entities = {
            .kind = HD_STEP_FACTS, .number = 2, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ID | HD_FACET_ENTITIES};
        hd_step tags = entities;
        tags.facets = HD_FACET_ID | HD_FACET_TAGS;
        hd_step shares = {.kind = HD_STEP_SHARES,
                          .number = 3,
                          .from_result = 1,
                          .frontier_label = HD_LABEL_EVENT,
                          .facets = HD_FACET_ID,
                          .shares_min = 1};
        hd_step measure = {.kind = HD_STEP_MEASURE, .number = 4, .from_result = 2, .frontier_label = HD_LABEL_EVENT};
        hd_step next = {.kind = HD_STEP_NEXT, .number = 2, .frontier_label = HD_LABEL_EVENT, .facets = NEXT_FACETS};
        hd_step next2 = next, measure_next = measure;
        next2.from_result = 1;
        measure_next.from_result = 1;
        hd_step postings = {
            .kind = HD_STEP_POSTINGS, .number = 3, .from_result = 1, .frontier_label = HD_LABEL_TAG, .facets = HD_FACET_ID};
        hd_step facts = {
            .kind = HD_STEP_FACTS, .from_result = 2, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ID | HD_FACET_SUMMARY};
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
        b->refs[p] = (hd_partition_ref){.id = 1 + p, .ordinal = p, .epoch = 1};
    }
    b->steps[0] = (hd_step){.kind = HD_STEP_START, .from_result = -1, .start = {.mode = HD_START_NEWEST, .k = 5}};
    b->steps[1] = (hd_step){.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ID | HD_FACET_SUMMARY};
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
        cmocka_unit_test(test_chain_is_its_steps),      cmocka_unit_test(test_chain_ends),
        cmocka_unit_test(test_partition_fails_alone),   cmocka_unit_test(test_text_that_cannot_be_read),
        cmocka_unit_test(test_deadline_and_cancel),     cmocka_unit_test(test_bad_tokens),
        cmocka_unit_test(test_little_memory),           cmocka_unit_test(test_shares_reads_the_rarest),
        cmocka_unit_test(test_facts_count_their_names), cmocka_unit_test(test_candidates_stay_exact),
        cmocka_unit_test(test_wrong_dimension),
    };
    return cmocka_run_group_tests_name("shard step chain", tests, NULL, NULL);
}
