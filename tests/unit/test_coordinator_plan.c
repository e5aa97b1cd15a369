/* Plans, from query text: each operator of ops.def stands in one of them, and each rule shows what it does. With HEDDLE_GOLDEN=rewrite
 * the test prints the plans that it made, for pasting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/buf.h"
#include "coordinator/language/language.h"
#include "coordinator/plan/plan.h"
#include "coordinator/run/accumulate.h"
#include "coordinator/run/rows.h"

typedef struct golden_plan {
    const char *query;
    bool are_rules_on;
    const char *plan;
} golden_plan;

/* clang-format off */
static const golden_plan golden_plans[] = {
    {"START a = events(k: 5) RETURN a", true,
     "1 start a facets=time,order,summary\n"
     "2 sort top\n"
     "3 limit\n"
     "4 return\n"},
    {"START a = events(k: 5) RETURN a", false,
     "1 start a\n"
     "2 sort\n"
     "3 limit\n"
     "4 return\n"},
    {"START a = events(entity: 'x') MATCH (a)-[s:SHARES {min_w: 0.1}]-(b)-[:FAR]-(a) WHERE b.timestamp > "
     "'2025-01-01' RETURN a, s, b", true,
     "1 start a\n"
     "2 shares SHARES a>b rides facets=time\n"
     "3 filter b.timestamp > '2025-01-01'\n"
     "4 measure FAR b~a\n"
     "5 sort top late_ids\n"
     "6 limit\n"
     "7 return\n"},
    {"START a = events(entity: 'x') MATCH (a)-[s:SHARES {min_w: 0.1}]-(b)-[:FAR]-(a) WHERE b.timestamp > "
     "'2025-01-01' RETURN a, s, b", false,
     "1 start a\n"
     "2 shares SHARES a>b\n"
     "3 measure FAR b~a\n"
     "4 facts b facets=time\n"
     "5 filter b.timestamp > '2025-01-01'\n"
     "6 sort late_ids\n"
     "7 limit\n"
     "8 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:SIMILAR {k: 3}]-(b)-[:NEXT]->(c), (c)-[s:SIMILAR]-(a) WHERE b.thread = 'x' "
     "RETURN c, s.cos", true,
     "1 start a\n"
     "2 similar SIMILAR a>b rides facets=time,order,thread,previous\n"
     "3 filter b.thread = 'x'\n"
     "4 expand NEXT b>c forward\n"
     "5 similar SIMILAR c=a distinct_from=0\n"
     "6 sort top\n"
     "7 limit\n"
     "8 return\n"},
    {"START a = events(ids: ['x']) MATCH (a)-[n:NEXT*1..3]->(b) RETURN b, n.hops ORDER BY n.hops", true,
     "1 start a facets=time,order,thread,previous\n"
     "2 next_walk NEXT a>b forward rides\n"
     "3 sort top\n"
     "4 limit\n"
     "5 return\n"},
    {"START a = events(k: 5) MATCH (a)-[s:SHARES*..2 {min: 2}]-(b)-[:SHARES]-(c) RETURN c, s.hops ORDER BY b.timestamp", true,
     "1 start a\n"
     "2 shares_walk SHARES a>b rides facets=time\n"
     "3 shares SHARES b>c\n"
     "4 sort top late_ids\n"
     "5 limit\n"
     "6 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:SHARES]-(b), (b)-[:SHARES*2]-(a) RETURN b", true,
     "1 start a\n"
     "2 shares SHARES a>b rides\n"
     "3 shares_walk SHARES b=a\n"
     "4 sort top late_ids\n"
     "5 limit\n"
     "6 return\n"},
    {"START a = events(k: 5) MATCH (b)-[:NEXT]->(a) RETURN b", true,
     "1 start a facets=time,order,thread,previous\n"
     "2 expand NEXT a>b backward rides\n"
     "3 sort top\n"
     "4 limit\n"
     "5 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:NEXT]->(b), (b)<-[:NEXT*2]-(a) RETURN b", true,
     "1 start a facets=time,order,thread,previous\n"
     "2 expand NEXT a>b forward rides facets=time,order,thread,previous\n"
     "3 next_walk NEXT b=a backward\n"
     "4 sort top\n"
     "5 limit\n"
     "6 return\n"},
    {"START a = events(entity: 'x') MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b) RETURN e, "
     "count(DISTINCT b) AS n ORDER BY n DESC, e.event_count", true,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e rides\n"
     "3 expand PARTICIPATED_IN e>b rides distinct_from=0\n"
     "4 facts e facets=event_count\n"
     "5 aggregate order_end=3\n"
     "6 sort top\n"
     "7 limit\n"
     "8 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e)-[c:CONNECTED {min: 2}]-(f)-[:PARTICIPATED_IN]-(b) "
     "WHERE c.event_count < 9 RETURN b.id",
     true,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e rides\n"
     "3 expand CONNECTED e>f rides\n"
     "4 filter c.event_count < 9\n"
     "5 expand PARTICIPATED_IN f>b distinct_from=0\n"
     "6 sort top late_ids\n"
     "7 limit\n"
     "8 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e), (a)-[:PARTICIPATED_IN]-(f) RETURN e, f", true,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e rides\n"
     "3 expand PARTICIPATED_IN a>f distinct_from=0\n"
     "4 sort top\n"
     "5 limit\n"
     "6 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e) MATCH (a)-[:PARTICIPATED_IN]-(f) RETURN e, f", true,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e rides\n"
     "3 expand PARTICIPATED_IN a>f\n"
     "4 sort top\n"
     "5 limit\n"
     "6 return\n"},
    {"START a = events(k: 5) MATCH (a)-[m:MEMBER_OF]->(t:Tag) RETURN t.name, collect(a.id) AS ids", true,
     "1 start a\n"
     "2 expand MEMBER_OF a>t rides\n"
     "3 sort whole\n"
     "4 aggregate order_end=3\n"
     "5 sort top\n"
     "6 limit\n"
     "7 return\n"},
    {"START a = events(k: 5) MATCH (a)-[s:SHARES]-(b) RETURN DISTINCT b.thread, sum(s.count) AS c", true,
     "1 start a\n"
     "2 shares SHARES a>b rides facets=id,thread\n"
     "3 aggregate order_end=3\n"
     "4 distinct order_end=3\n"
     "5 sort top\n"
     "6 limit\n"
     "7 return\n"},
    {"START a = events(k: 5) MATCH (a)-[s:SHARES]-(b) RETURN avg(s.weight) AS w", true,
     "1 start a\n"
     "2 shares SHARES a>b rides\n"
     "3 sort whole late_ids\n"
     "4 aggregate order_end=0\n"
     "5 sort top\n"
     "6 limit\n"
     "7 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:SHARES]-(b) WHERE cos(a, b) > 0.5 AND a.summary <> b.summary "
     "RETURN b, cos(b, a) AS c", true,
     "1 start a\n"
     "2 shares SHARES a>b rides\n"
     "3 facts a facets=summary\n"
     "4 facts b facets=summary\n"
     "5 measure a~b\n"
     "6 filter cos(a, b) > 0.5; a.summary <> b.summary\n"
     "7 sort top late_ids\n"
     "8 limit\n"
     "9 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:SHARES]-(b) RETURN cos(a, b) AS c", true,
     "1 start a\n"
     "2 shares SHARES a>b rides\n"
     "3 sort top late_ids\n"
     "4 limit\n"
     "5 measure a~b\n"
     "6 return\n"},
    {"START a = events(k: 5) WHERE a.order_index = 1 AND $x = 2 RETURN a", true,
     "1 start a facets=order\n"
     "2 filter a.order_index = 1; $x = 2\n"
     "3 sort top\n"
     "4 limit\n"
     "5 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b) RETURN e.name, count(DISTINCT b) AS n "
     "ORDER BY n DESC, e.name", true,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e rides\n"
     "3 expand PARTICIPATED_IN e>b rides distinct_from=0\n"
     "4 aggregate order_end=0\n"
     "5 sort top\n"
     "6 limit\n"
     "7 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b) RETURN b, e.name ORDER BY b.timestamp", true,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e rides\n"
     "3 expand PARTICIPATED_IN e>b rides facets=time distinct_from=0\n"
     "4 sort top late_ids\n"
     "5 limit\n"
     "6 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b) WHERE b <> a RETURN b.thread, collect(e.name)", true,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e rides\n"
     "3 expand PARTICIPATED_IN e>b rides facets=id,thread distinct_from=0\n"
     "4 filter b <> a\n"
     "5 sort whole\n"
     "6 aggregate order_end=5\n"
     "7 sort top\n"
     "8 limit\n"
     "9 return\n"},
    {"START a = events(k: 5) MATCH (a)-[:PARTICIPATED_IN]-(e)-[:PARTICIPATED_IN]-(b)-[m:MEMBER_OF]->(t) RETURN DISTINCT m.kind", false,
     "1 start a\n"
     "2 expand PARTICIPATED_IN a>e\n"
     "3 expand PARTICIPATED_IN e>b distinct_from=0\n"
     "4 expand MEMBER_OF b>t\n"
     "5 facts b facets=id\n"
     "6 distinct order_end=7\n"
     "7 sort\n"
     "8 limit\n"
     "9 return\n"},
};
/* clang-format on */

static void make_plan(hd_arena *arena, const char *text, bool are_rules_on, hd_buf *out) {
    const co_query *query;
    const co_plan *plan;
    co_refusal refusal;
    hd_status status = co_language_bind(arena, hd_str_of(text), &query, &refusal);
    if (status != HD_OK) fail_msg("%s: " HD_STR_FMT, text, HD_STR_ARG(refusal.detail));
    assert_int_equal(co_plan_build(arena, query, are_rules_on, &plan), HD_OK);
    co_plan_print(plan, out);
}

static void plans_are_golden(void **state) {
    const char *rewrite = getenv("HEDDLE_GOLDEN");
    for (size_t i = 0; i < HD_COUNT_OF(golden_plans); i++) {
        hd_arena *arena = hd_arena_new(0);
        hd_buf text = {0};
        make_plan(arena, golden_plans[i].query, golden_plans[i].are_rules_on, &text);
        if (rewrite != NULL)
            printf("%s\n%s\n", golden_plans[i].query, text.data);
        else
            assert_string_equal(text.data, golden_plans[i].plan);
        hd_buf_fini(&text);
        hd_arena_free(arena);
    }
}

/* An operator that no golden plan shows is one that nobody has looked at. */
static void each_operator_has_a_golden_plan(void **state) {
    for (co_op_kind op = 0; op < CO_OP_COUNT; op++) {
        char word[32];
        bool is_shown = false;
        snprintf(word, sizeof(word), " %s", co_op_name(op));
        for (size_t i = 0; i < HD_COUNT_OF(golden_plans); i++) is_shown |= strstr(golden_plans[i].plan, word) != NULL;
        if (!is_shown) fail_msg("no golden plan shows the operator %s", co_op_name(op));
    }
}

/* -- accumulators ----------------------------------------------------------------------------------------------------------------- */

static hd_value accumulate_all(hd_arena *arena, hd_aggregate aggregate, const hd_value *values, size_t count) {
    co_accumulator accumulator = {0};
    for (size_t i = 0; i < count; i++) assert_int_equal(co_accumulate(arena, &accumulator, aggregate, &values[i]), HD_OK);
    return co_accumulator_value(&accumulator, aggregate);
}

static void sums_of_integers_stay_integers(void **state) {
    hd_arena *arena = hd_arena_new(0);
    hd_value values[] = {hd_value_int(INT64_MAX), hd_value_int(INT64_MAX), hd_value_int(-INT64_MAX), hd_value_int(-5)};
    hd_value sum = accumulate_all(arena, HD_AGG_SUM, values, 4);
    assert_int_equal(sum.type, HD_TYPE_INT);
    assert_true(sum.integer == INT64_MAX - 5);
    sum = accumulate_all(arena, HD_AGG_SUM, values, 2); /* beyond 64 bits: the nearest float */
    assert_int_equal(sum.type, HD_TYPE_FLOAT);
    assert_true(sum.number == 18446744073709551614.0);
    hd_value average = accumulate_all(arena, HD_AGG_AVG, values, 2);
    assert_int_equal(average.type, HD_TYPE_FLOAT);
    assert_true(average.number == 9223372036854775807.0);
    hd_value mixed[] = {hd_value_int(1), hd_value_float(0.5), hd_value_int(2), hd_value_text(HD_STR("no number"))};
    sum = accumulate_all(arena, HD_AGG_SUM, mixed, 4);
    assert_int_equal(sum.type, HD_TYPE_FLOAT);
    assert_true(sum.number == 3.5);
    hd_arena_free(arena);
}

static void nothing_gives_what_the_language_says(void **state) {
    hd_arena *arena = hd_arena_new(0);
    assert_int_equal(accumulate_all(arena, HD_AGG_COUNT, NULL, 0).integer, 0);
    assert_int_equal(accumulate_all(arena, HD_AGG_COLLECT, NULL, 0).type, HD_TYPE_LIST);
    assert_int_equal(accumulate_all(arena, HD_AGG_COLLECT, NULL, 0).list.count, 0);
    for (hd_aggregate a = HD_AGG_MIN; a <= HD_AGG_AVG; a++) assert_int_equal(accumulate_all(arena, a, NULL, 0).type, HD_TYPE_NULL);
    hd_arena_free(arena);
}

static void collect_stops_at_its_cap_and_says_so(void **state) {
    for (uint32_t count = CO_COLLECT_MAX - 1; count <= CO_COLLECT_MAX + 1; count++) {
        hd_arena *arena = hd_arena_new(0);
        co_accumulator accumulator = {0};
        for (uint32_t i = 0; i < count; i++) {
            hd_value value = hd_value_int(i);
            assert_int_equal(co_accumulate(arena, &accumulator, HD_AGG_COLLECT, &value), HD_OK);
        }
        hd_value list = co_accumulator_value(&accumulator, HD_AGG_COLLECT);
        assert_int_equal(list.list.count, HD_MIN(count, (uint32_t)CO_COLLECT_MAX));
        for (uint32_t i = 0; i < list.list.count; i++) assert_int_equal(list.list.items[i].integer, i);
        assert_int_equal(accumulator.is_capped, count > CO_COLLECT_MAX);
        hd_arena_free(arena);
    }
}

static void min_and_max_keep_copies(void **state) {
    hd_arena *arena = hd_arena_new(0);
    char text[] = "beta";
    hd_value value = hd_value_text(hd_str_of(text));
    co_accumulator least = {0}, most = {0};
    assert_int_equal(co_accumulate(arena, &least, HD_AGG_MIN, &value), HD_OK);
    assert_int_equal(co_accumulate(arena, &most, HD_AGG_MAX, &value), HD_OK);
    memset(text, 'z', 4);
    hd_value other = hd_value_text(HD_STR("alpha"));
    assert_int_equal(co_accumulate(arena, &least, HD_AGG_MIN, &other), HD_OK);
    assert_int_equal(co_accumulate(arena, &most, HD_AGG_MAX, &other), HD_OK);
    assert_true(hd_str_is_equal(co_accumulator_value(&least, HD_AGG_MIN).text, HD_STR("alpha")));
    assert_true(hd_str_is_equal(co_accumulator_value(&most, HD_AGG_MAX).text, HD_STR("beta")));
    hd_arena_free(arena);
}

/* -- rows --------------------------------------------------------------------------------------------------------------------------- */

static void rows_grow_and_keep_what_they_hold(void **state) {
    hd_arena *arena = hd_arena_new(0);
    co_rows rows;
    uint32_t *added, row[3];
    co_rows_init(&rows, arena, 3);
    for (uint32_t i = 0; i < 10000; i++) {
        for (uint32_t c = 0; c < 3; c++) row[c] = i * 3 + c;
        assert_int_equal(co_rows_append(&rows, row, &added), HD_OK);
        (void)hd_arena_alloc(arena, 1); /* so that growing has to move */
    }
    for (uint32_t i = 0; i < 10000; i++)
        for (uint32_t c = 0; c < 3; c++) assert_int_equal(co_rows_get(&rows, i)[c], i * 3 + c);
    assert_int_equal(co_rows_append(&rows, NULL, &added), HD_OK);
    for (uint32_t c = 0; c < 3; c++) assert_true(added[c] == CO_CELL_NONE);
    hd_arena_free(arena);
}

static void rows_report_a_full_arena(void **state) {
    hd_arena *arena = hd_arena_new(1 << 16);
    co_rows rows;
    uint32_t *added, row[4] = {0}, count = 0;
    hd_status status;
    co_rows_init(&rows, arena, 4);
    while ((status = co_rows_append(&rows, row, &added)) == HD_OK) count++;
    assert_int_equal(status, HD_MEMORY);
    assert_int_equal(rows.count, count);
    hd_arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_are_golden),
        cmocka_unit_test(each_operator_has_a_golden_plan),
        cmocka_unit_test(sums_of_integers_stay_integers),
        cmocka_unit_test(nothing_gives_what_the_language_says),
        cmocka_unit_test(collect_stops_at_its_cap_and_says_so),
        cmocka_unit_test(min_and_max_keep_copies),
        cmocka_unit_test(rows_grow_and_keep_what_they_hold),
        cmocka_unit_test(rows_report_a_full_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
