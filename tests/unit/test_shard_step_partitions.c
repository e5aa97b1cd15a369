/* sh_step_run over partitions of a real store: what the graph says, texts from disk, and each refusal of a partition as its verdict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/codec.h"
#include "shard/step.h"
#include "tests/support/shard_fixture.h"

enum { ORG = 7, EVENTS = 40, PARTS = 2 };

static const sh_check NO_DEADLINE = {.deadline_us = UINT64_MAX};

typedef struct setup {
    fixture f;
    hd_arena *arena;
    hd_partition_ref refs[PARTS];
    hd_step steps[2];
    hd_step_request request;
    hd_step_reply reply;
} setup;

static hd_str number_text(char text[32], const char *format, int n) {
    snprintf(text, 32, format, n);
    return hd_str_of(text);
}

static void save_event(setup *s, int n, const char *format, bool is_replace) {
    char id[32], summary[32];
    answer a;
    hd_entity_ref entity = {.name = HD_STR("Anna")};
    hd_write_item item = {.kind = HD_WRITE_SAVE, .epoch = 1, .is_replace = is_replace};
    item.event = (hd_event_record){.id = number_text(id, "e%02d", n),
                                   .summary = number_text(summary, format, n),
                                   .content = HD_STR("more"),
                                   .timestamp_us = 1000 + n,
                                   .entities = &entity,
                                   .entity_count = 1};
    item.partition = 1 + hd_event_partition(item.event.id, PARTS);
    assert_int_equal(fixture_write_one(&s->f, ORG, &item, &a).code, HD_OK);
}

/* The newest events of Anna, then their texts. */
static void setup_new(setup *s) {
    memset(s, 0, sizeof(*s));
    fixture_new(&s->f);
    for (uint32_t p = 0; p < PARTS; p++) fixture_create(&s->f, ORG, 1 + p, 2);
    for (int n = 0; n < EVENTS; n++) save_event(s, n, "first %d", false);
    s->arena = hd_arena_new(0);
    hd_id128 *id = hd_arena_alloc(s->arena, sizeof(*id));
    hd_name_group *group = hd_arena_alloc_zero(s->arena, 1, sizeof(*group));
    *id = hd_name_id(HD_STR("Anna"));
    *group = (hd_name_group){.ids = id, .count = 1};
    for (uint32_t p = 0; p < PARTS; p++) s->refs[p] = (hd_partition_ref){.id = 1 + p, .ordinal = p, .epoch = 1};
    s->steps[0] = (hd_step){.kind = HD_STEP_START, .number = 1, .from_result = -1};
    s->steps[0].start = (hd_start){.mode = HD_START_NEWEST, .k = EVENTS, .entities = group, .entity_groups = 1};
    s->steps[1] = (hd_step){.kind = HD_STEP_FACTS, .number = 2, .frontier_label = HD_LABEL_EVENT};
    s->steps[1].facets = HD_FACET_ID | HD_FACET_SUMMARY | HD_FACET_CONTENT;
    s->request = (hd_step_request){.org = ORG,
                                   .partitions = s->refs,
                                   .partition_count = PARTS,
                                   .is_whole_org = true,
                                   .org_partitions = PARTS,
                                   .frontier_max = 1000,
                                   .scanned_max = 1000,
                                   .measured_max = 1000,
                                   .steps = s->steps,
                                   .step_count = 2};
}

static void setup_end(setup *s) {
    hd_arena_free(s->arena);
    fixture_end(&s->f);
}

static void run(setup *s) {
    sh_step_run(s->f.partitions, &s->request, &NO_DEADLINE, s->arena, &s->reply);
    assert_int_equal(s->reply.status, HD_OK);
    assert_int_equal(hd_codec_check_reply(&s->request, &s->reply), HD_OK);
}

static void check_summaries(setup *s, const char *format) {
    const hd_event_batch *events = &s->reply.results[1].events;
    assert_int_equal(s->reply.result_count, 2);
    assert_int_equal(events->count, EVENTS);
    for (int n = 0; n < EVENTS; n++) {
        char id[32], summary[32];
        uint32_t row = (uint32_t)(EVENTS - 1 - n); /* newest first */
        assert_true(hd_str_is_equal(events->ids[row], number_text(id, "e%02d", n)));
        assert_true(hd_str_is_equal(events->summaries[row], number_text(summary, format, n)));
        assert_true(hd_str_is_equal(events->contents[row], HD_STR("more")));
    }
}

/* A state that was fixed is seen as it was, texts of replaced versions too; without one, the newest is. */
static void test_one_state(void **state) {
    setup s;
    setup_new(&s);
    run(&s);
    check_summaries(&s, "first %d");
    hd_partition_ref fixed[PARTS];
    memcpy(fixed, s.reply.partitions, sizeof(fixed));
    for (int n = 0; n < EVENTS; n++) save_event(&s, n, "second %d", true);
    run(&s);
    check_summaries(&s, "second %d");
    memcpy(s.refs, fixed, sizeof(fixed));
    run(&s);
    check_summaries(&s, "first %d");
    /* The reply is its own: nothing in it is lent by a partition that could go. */
    setup kept = s;
    fixture_reopen(&s.f);
    kept.f = s.f;
    check_summaries(&kept, "first %d");
    setup_end(&s);
}

static void check_refusal(setup *s, hd_status code) {
    run(s);
    const hd_step_result *result = &s->reply.results[0];
    assert_int_equal(s->reply.result_count, 1);
    assert_int_equal(result->verdicts[0].reach, HD_REACH_COMPLETE);
    assert_int_equal(result->verdicts[1].reach, HD_REACH_FAILED);
    assert_int_equal(result->verdicts[1].code, code);
    assert_true(result->events.count > 0 && result->events.count < EVENTS);
}

static void test_refusals(void **state) {
    setup s;
    setup_new(&s);
    run(&s);
    hd_partition_ref fixed = s.reply.partitions[1];
    s.refs[1].epoch = 2;
    check_refusal(&s, HD_MAP_STALE);
    s.refs[1] = (hd_partition_ref){.id = 99, .ordinal = 1, .epoch = 1};
    check_refusal(&s, HD_MAP_STALE);
    s.refs[1] = fixed;
    s.refs[1].incarnation++;
    check_refusal(&s, HD_SNAPSHOT_GONE);
    s.refs[1] = fixed;
    s.refs[1].sequence += 1000;
    check_refusal(&s, HD_SNAPSHOT_GONE);
    s.refs[1] = fixed;
    run(&s);
    check_summaries(&s, "first %d");

    s.request.org = ORG + 1; /* another org's name opens nothing */
    run(&s);
    for (uint32_t p = 0; p < PARTS; p++) assert_int_equal(s.reply.results[0].verdicts[p].code, HD_FORBIDDEN);
    assert_int_equal(s.reply.results[0].events.count, 0);
    setup_end(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_state),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests_name("shard step partitions", tests, NULL, NULL);
}
