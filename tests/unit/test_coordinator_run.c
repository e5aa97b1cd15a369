/* What operators stand on, without shards: nodes, adjacencies, the total order, groups, names of a start, uniqueness, expressions over rows.
 * Random parts go against naive models and print their seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/ids.h"
#include "coordinator/run/adjacency.h"
#include "coordinator/run/groups.h"
#include "coordinator/run/order.h"
#include "coordinator/run/start_names.h"
#include "tests/support/seed.h"

static uint64_t seed;

enum { EVENTS = 12, TAGS = 5 };

static uint64_t local_of(uint32_t number) {
    return hd_local(number % 3, number);
}

/* A run over a bound query, with some nodes in it: events "e0" .. in an order of handles that is not that of their ids. */
typedef struct bench {
    hd_arena *arena;
    co_run run;
    co_resolved resolved;
    hd_error error;
    uint32_t events[EVENTS], tags[TAGS]; /* handles by number */
} bench;

static void set_up(bench *b, const char *text) {
    *b = (bench){.arena = hd_arena_new(0)};
    co_refusal refusal;
    hd_status status = co_language_bind(b->arena, hd_str_of(text), &b->run.query, &refusal);
    if (status != HD_OK) fail_msg("%s: " HD_STR_FMT, text, HD_STR_ARG(refusal.detail));
    co_params none = {0};
    assert_int_equal(co_language_resolve(b->arena, b->run.query, &none, &b->resolved, &refusal), HD_OK);
    b->run.arena = b->arena;
    b->run.scratch = hd_arena_new(0);
    b->run.resolved = &b->resolved;
    b->run.error = &b->error;
    co_nodes_init(&b->run.nodes, b->arena);
    hd_map64_init(&b->run.cos_of_pair, b->arena);
    b->run.rel_edges = hd_arena_alloc_zero(b->arena, CO_RELATIONS_MAX, sizeof(*b->run.rel_edges));
    for (uint32_t i = 0; i < EVENTS; i++) {
        uint32_t n = (i * 7 + 3) % EVENTS;
        hd_str id;
        assert_int_equal(hd_arena_printf(b->arena, &id, "e%02u", n), HD_OK);
        assert_int_equal(co_nodes_intern_event(&b->run.nodes, local_of(n), &b->events[n]), HD_OK);
        co_nodes_event(&b->run.nodes, b->events[n])->id = id;
        co_nodes_event(&b->run.nodes, b->events[n])->known = HD_FACET_ID;
    }
    for (uint32_t i = 0; i < TAGS; i++) {
        hd_id128 *id = hd_arena_alloc_zero(b->arena, 1, sizeof(*id));
        id->bytes[0] = (uint8_t)(0xf0 - i * 16);
        assert_int_equal(co_nodes_intern_name(&b->run.nodes, HD_LABEL_TAG, id, &b->tags[i]), HD_OK);
    }
}

static void tear_down(bench *b) {
    hd_arena_free(b->run.scratch);
    hd_arena_free(b->arena);
}

/* -- nodes ------------------------------------------------------------------------------------------------------------------------ */

static void nodes_are_interned_once_and_only_learn(void **state) {
    bench b;
    set_up(&b, "START a = events(k: 5) RETURN a");
    uint32_t again, *handles;
    assert_int_equal(co_nodes_intern_event(&b.run.nodes, local_of(3), &again), HD_OK);
    assert_int_equal(again, b.events[3]);
    assert_int_equal(b.run.nodes.event_count, EVENTS);
    uint64_t locals[] = {local_of(3), hd_local(200, 3)};
    hd_str ids[] = {{NULL, 0}, HD_STR("new")}, threads[] = {HD_STR("t"), {NULL, 0}};
    int64_t times[] = {7, 8}, orders[] = {5, 6};
    uint8_t flags[] = {HD_EVENT_EXISTS | HD_EVENT_HAS_THREAD, HD_EVENT_EXISTS | HD_EVENT_HAS_ORDER};
    hd_event_batch batch = {
        .count = 2, .locals = locals, .ids = ids, .flags = flags, .timestamp_us = times, .order_index = orders, .threads = threads};
    assert_int_equal(co_nodes_learn_events(&b.run.nodes, &batch, HD_FACET_TIME | HD_FACET_ORDER, &handles), HD_OK);
    const co_event *known = co_nodes_event(&b.run.nodes, handles[0]), *fresh = co_nodes_event(&b.run.nodes, handles[1]);
    assert_int_equal(handles[0], b.events[3]);
    assert_int_equal(handles[1], EVENTS);
    uint32_t facets = HD_FACET_ID | HD_FACET_TIME | HD_FACET_ORDER; /* what was not asked for is not taken over, but for ids */
    assert_int_equal(known->known, facets);
    assert_int_equal(fresh->known, facets);
    assert_true(hd_str_is_equal(known->id, HD_STR("e03")) && hd_str_is_equal(fresh->id, HD_STR("new")));
    assert_int_equal(known->facts->timestamp_us, 7);
    assert_false(known->flags & HD_EVENT_HAS_ORDER);
    assert_true(fresh->flags & HD_EVENT_HAS_ORDER);
    assert_int_equal(fresh->facts->order_index, 6);
    tear_down(&b);
}

/* Narrow and wide tables in turn, of partitions that are met in large part or hardly: a local is one handle however it is found. */
static void wide_tables_are_interned_like_narrow_ones(void **state) {
    enum { NUMBERS = 20000, ORDINALS = 3, ROWS_MAX = 4000 };
    test_random rng = {seed};
    for (int round = 0; round < 10; round++) {
        bench b;
        set_up(&b, "START a = events(k: 5) RETURN a");
        uint32_t *known = hd_alloc(sizeof(*known) * ORDINALS * NUMBERS), count = EVENTS;
        memset(known, 0xff, sizeof(*known) * ORDINALS * NUMBERS);
        for (uint32_t n = 0; n < EVENTS; n++) known[n % 3 * NUMBERS + n] = b.events[n];
        for (int table = 0; table < 12; table++) {
            uint64_t *locals = hd_alloc(sizeof(*locals) * ROWS_MAX);
            uint8_t *flags = hd_alloc_zero(ROWS_MAX, 1);
            uint32_t *handles, rows = test_random_below(&rng, 2) ? 1 + test_random_below(&rng, 30) : ROWS_MAX;
            uint32_t end = table < 6 ? 3000 : NUMBERS; /* later ones know numbers beyond those of the first */
            for (uint32_t i = 0; i < rows; i++) {
                uint32_t ordinal = test_random_below(&rng, 300) == 0 ? 2 : test_random_below(&rng, 2);
                locals[i] = hd_local(ordinal, test_random_below(&rng, end));
            }
            hd_event_batch batch = {.count = rows, .locals = locals, .flags = flags};
            assert_int_equal(co_nodes_learn_events(&b.run.nodes, &batch, 0, &handles), HD_OK);
            for (uint32_t i = 0; i < rows; i++) {
                uint32_t *expected = &known[hd_local_ordinal(locals[i]) * NUMBERS + (uint32_t)locals[i]];
                if (*expected == UINT32_MAX) *expected = count++;
                assert_int_equal(handles[i], *expected);
                assert_true(co_nodes_event(&b.run.nodes, handles[i])->local == locals[i]);
            }
            assert_int_equal(b.run.nodes.event_count, count);
            hd_free(flags);
            hd_free(locals);
        }
        hd_free(known);
        tear_down(&b);
    }
}

/* -- adjacency -------------------------------------------------------------------------------------------------------------------- */

/* Lists of 0 to 100 edges, so short and indexed ones; a tag may be there in both kinds. */
static void edges_are_found_like_in_a_list(void **state) {
    test_random rng = {seed};
    for (int round = 0; round < 50; round++) {
        bench b;
        co_adjacency *edges;
        set_up(&b, "START a = events(k: 5) RETURN a");
        assert_int_equal(co_adjacency_get(&b.run, CO_EDGES_TAG_EVENTS, 3, 0, &edges), HD_OK);
        uint32_t counts[6] = {0};
        for (uint32_t from = 0; from < 6; from++) {
            assert_int_equal(co_adjacency_begin(edges, from * 3, CO_NODE_WHOLE), HD_OK);
            uint32_t count = test_random_below(&rng, 101);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t to = test_random_below(&rng, 40);
                uint8_t kind = test_random_below(&rng, 2) ? HD_KIND_CONTAINS : HD_KIND_REFERS;
                bool is_there = false;
                for (uint32_t k = edges->first[from * 3]; k < edges->edge_count; k++)
                    is_there |= edges->to[k] == to && edges->kinds[k] == kind;
                if (!is_there) assert_int_equal(co_adjacency_add(edges, from * 3, to, kind), HD_OK);
            }
            counts[from] = edges->count[from * 3];
        }
        for (uint32_t from = 0; from < 6; from++) {
            uint32_t handle = from * 3;
            for (uint32_t to = 0; to < 41; to++) {
                uint32_t at = 0, edge, expected = edges->first[handle], end = expected + counts[from];
                for (;;) { /* every edge to `to`, in order, and then no more */
                    while (expected < end && edges->to[expected] != to) expected++;
                    assert_int_equal(co_adjacency_find(edges, handle, to, at, &edge), HD_OK);
                    assert_int_equal(edge, expected < end ? expected : CO_CELL_NONE);
                    if (edge == CO_CELL_NONE) break;
                    at = edge + 1;
                    expected++;
                }
            }
        }
        uint32_t edge;
        assert_int_equal(co_adjacency_find(edges, 1, 0, 0, &edge), HD_OK); /* never begun */
        assert_true(edge == CO_CELL_NONE);
        assert_int_equal(co_adjacency_state(edges, 1), CO_NODE_UNKNOWN);
        assert_int_equal(co_adjacency_state(edges, 1000), CO_NODE_UNKNOWN);
        tear_down(&b);
    }
}

static void an_adjacency_is_shared_by_what_it_holds(void **state) {
    bench b;
    co_adjacency *first, *second, *third;
    set_up(&b, "START a = events(k: 5) RETURN a");
    assert_int_equal(co_adjacency_get(&b.run, CO_EDGES_NEXT, 1, HD_FACET_TIME, &first), HD_OK);
    assert_int_equal(co_adjacency_get(&b.run, CO_EDGES_NEXT, 1, HD_FACET_THREAD, &second), HD_OK);
    assert_int_equal(co_adjacency_get(&b.run, CO_EDGES_NEXT, 3, HD_FACET_THREAD, &third), HD_OK);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, third);
    assert_int_equal(first->facets, HD_FACET_TIME | HD_FACET_THREAD);
    tear_down(&b);
}

/* -- the total order and groups --------------------------------------------------------------------------------------------------- */

#define ORDER_QUERY "START a = events(k: 5) MATCH (a)-[:NEXT]->(b), (b)-[m:MEMBER_OF]->(t) RETURN a"

static uint32_t var_of(const co_query *query, const char *name) {
    for (uint32_t v = 0; v < query->var_count; v++)
        if (hd_str_is_equal(query->vars[v].name, hd_str_of(name))) return v;
    fail_msg("no variable %s", name);
    return 0;
}

/* A row as the numbers that the order goes by. */
typedef struct key {
    uint32_t start, a, b, tag, kind;
} key;

static int compare_keys(const key *x, const key *y) {
    const uint32_t *p = &x->start, *q = &y->start;
    for (int i = 0; i < 5; i++)
        if (p[i] != q[i]) return p[i] < q[i] ? -1 : 1;
    return 0;
}

static int sign_of(int order) {
    return (order > 0) - (order < 0);
}

static void make_row(bench *b, test_random *rng, uint32_t *row, key *k) {
    const co_query *query = b->run.query;
    memset(row, 0, (query->var_count + 1) * sizeof(*row));
    uint32_t a = test_random_below(rng, 4), to = test_random_below(rng, EVENTS), tag = test_random_below(rng, TAGS),
             kind = test_random_below(rng, 2);
    row[0] = b->events[a];
    row[var_of(query, "b")] = b->events[to];
    row[var_of(query, "t")] = b->tags[tag];
    row[var_of(query, "m")] = kind; /* edge 0 contains, edge 1 refers */
    row[query->var_count] = CO_CELL_NONE;
    /* the start's order is the reverse of the ids here; tags' ids go down as their numbers go up */
    *k = (key){3 - a, a, to, TAGS - tag, kind};
}

static void give_kinds(bench *b) {
    co_adjacency *edges;
    assert_int_equal(co_adjacency_get(&b->run, CO_EDGES_TAGS, 3, 0, &edges), HD_OK);
    assert_int_equal(co_adjacency_begin(edges, 0, CO_NODE_WHOLE), HD_OK);
    assert_int_equal(co_adjacency_add(edges, 0, 0, HD_KIND_CONTAINS), HD_OK);
    assert_int_equal(co_adjacency_add(edges, 0, 0, HD_KIND_REFERS), HD_OK);
    b->run.rel_edges[0] = b->run.rel_edges[1] = edges;
    for (uint32_t a = 0; a < 4; a++) co_nodes_event(&b->run.nodes, b->events[a])->start_index = 3 - a;
}

static void rows_have_a_total_order(void **state) {
    test_random rng = {seed};
    bench b;
    set_up(&b, ORDER_QUERY);
    give_kinds(&b);
    for (int i = 0; i < 20000; i++) {
        uint32_t x[16], y[16];
        key kx, ky;
        make_row(&b, &rng, x, &kx);
        make_row(&b, &rng, y, &ky);
        assert_int_equal(sign_of(co_order_compare_rows(&b.run, x, y, b.run.query->var_count)), compare_keys(&kx, &ky));
        assert_int_equal(sign_of(co_order_compare_rows(&b.run, y, x, b.run.query->var_count)), compare_keys(&ky, &kx));
    }
    tear_down(&b);
}

/* Groups of 1 and 1.0 and of null, each standing where its first row stands, whatever the rows' order of arrival. */
static void a_group_stands_where_its_first_row_stands(void **state) {
    test_random rng = {seed};
    bench b;
    set_up(&b, ORDER_QUERY);
    give_kinds(&b);
    co_groups groups;
    co_groups_init(&groups, &b.run, 2, b.run.query->var_count);
    key first[20];
    bool is_met[20] = {false};
    uint32_t group_of[20], met = 0;
    for (int i = 0; i < 3000; i++) {
        uint32_t row[16], n = test_random_below(&rng, 20), group;
        key k;
        bool is_new;
        make_row(&b, &rng, row, &k);
        hd_value keys[2] = {n < 4                        ? HD_VALUE_NULL
                            : test_random_below(&rng, 2) ? hd_value_int(n)
                                                         : hd_value_float(n),
                            n < 4 ? hd_value_int(n) : hd_value_text(HD_STR("same"))};
        assert_int_equal(co_groups_put(&groups, keys, row, UINT32_MAX, &group, &is_new), HD_OK);
        assert_int_equal(is_new, !is_met[n]);
        if (is_new) {
            group_of[n] = group;
            first[n] = k;
            is_met[n] = true;
            met++;
        }
        assert_int_equal(group, group_of[n]);
        if (compare_keys(&k, &first[n]) < 0) first[n] = k;
    }
    assert_int_equal(groups.count, met);
    for (uint32_t n = 0; n < 20; n++) {
        const uint32_t *row = co_rows_get(&groups.rows, group_of[n]);
        assert_int_equal(row[0], b.events[first[n].a]);
        assert_int_equal(row[var_of(b.run.query, "b")], b.events[first[n].b]);
        assert_int_equal(row[var_of(b.run.query, "m")], first[n].kind);
    }
    hd_value more[2] = {hd_value_text(HD_STR("other")), HD_VALUE_NULL};
    uint32_t row[16], group;
    key k;
    bool is_new;
    make_row(&b, &rng, row, &k);
    assert_int_equal(co_groups_put(&groups, more, row, groups.count, &group, &is_new), HD_OK); /* no room for one more */
    assert_true(group == CO_CELL_NONE && !is_new && groups.count == met);
    tear_down(&b);
}

/* -- uniqueness -------------------------------------------------------------------------------------------------------------------- */

typedef struct identity_case {
    const char *match; /* two relations between x and y, and the same pair or another */
    bool is_same;
} identity_case;

static void relations_are_told_apart_by_name_and_ends(void **state) {
    static const identity_case cases[] = {
        {"(a)-[:SHARES]-(b), (a)-[:SHARES {min: 2}]-(c)", true},
        {"(a)-[:SHARES]-(b), (c)-[:SHARES]-(a)", true}, /* no arrow: either order */
        {"(a)-[:NEXT]->(b), (a)-[:NEXT]->(c)", true},
        {"(a)-[:NEXT]->(b), (c)<-[:NEXT]-(a)", true}, /* the same arrow, written from the other end */
        {"(a)-[:NEXT]->(b), (a)<-[:NEXT]-(c)", false},
    };
    for (size_t i = 0; i < HD_COUNT_OF(cases); i++) {
        bench b;
        char text[256];
        snprintf(text, sizeof(text), "START a = events(k: 5) MATCH %s RETURN a", cases[i].match);
        set_up(&b, text);
        uint32_t row[16] = {0};
        row[0] = b.events[1];
        row[var_of(b.run.query, "b")] = row[var_of(b.run.query, "c")] = b.events[2];
        if (co_run_is_same_relation(&b.run, row, 0, 1) != cases[i].is_same) fail_msg("%s", cases[i].match);
        row[var_of(b.run.query, "c")] = b.events[3];
        assert_false(co_run_is_same_relation(&b.run, row, 0, 1));
        tear_down(&b);
    }
}

static void a_tag_carried_in_both_kinds_is_two_relations(void **state) {
    bench b;
    set_up(&b, "START a = events(k: 5) MATCH (a)-[m:MEMBER_OF]->(t), (a)-[n:MEMBER_OF]->(u) RETURN a");
    give_kinds(&b);
    uint32_t row[16] = {0};
    row[0] = b.events[1];
    row[var_of(b.run.query, "t")] = row[var_of(b.run.query, "u")] = b.tags[2];
    row[var_of(b.run.query, "m")] = row[var_of(b.run.query, "n")] = 1;
    assert_true(co_run_is_same_relation(&b.run, row, 0, 1));
    row[var_of(b.run.query, "n")] = 0;
    assert_false(co_run_is_same_relation(&b.run, row, 0, 1));
    tear_down(&b);
}

/* -- expressions -------------------------------------------------------------------------------------------------------------------- */

static bool is_where_true(bench *b, const uint32_t *row, hd_status expected) {
    bool is_true = true;
    assert_int_equal(co_run_is_true(&b->run, row, b->run.query->where[0], &is_true), expected);
    return is_true;
}

/* A value that could not be had makes no condition true, not even IS NULL; and needs a truncation that says why. */
static void what_could_not_be_had_proves_nothing(void **state) {
    static const char *const conditions[] = {"a.order_index IS NULL", "NOT a.order_index = 1", "a.order_index < 5 OR a.id = 'e01'"};
    for (size_t i = 0; i < HD_COUNT_OF(conditions); i++) {
        bench b;
        char text[256];
        snprintf(text, sizeof(text), "START a = events(k: 5) WHERE %s RETURN a", conditions[i]);
        set_up(&b, text);
        uint32_t row[2] = {b.events[1], CO_CELL_NONE};
        (void)is_where_true(&b, row, HD_INTERNAL); /* nobody has reported a cut: a fault of ours */
        hd_truncation cut = {.stage = "facts", .cap = HD_CAP_SHARD_UNAVAILABLE};
        assert_int_equal(hd_truncations_add(&b.run.truncations, b.arena, &cut), HD_OK);
        assert_false(is_where_true(&b, row, HD_OK));
        co_nodes_event(&b.run.nodes, row[0])->known |= HD_FACET_ORDER; /* known to have none */
        assert_int_equal(is_where_true(&b, row, HD_OK), i != 1);
        tear_down(&b);
    }
}

/* -- names of a start ----------------------------------------------------------------------------------------------------------------- */

static void names_become_groups(void **state) {
    hd_arena *arena = hd_arena_new(0);
    char id_text[37];
    hd_id128 bob = hd_name_id(HD_STR("bob"));
    hd_entity_id_format(bob, id_text);
    hd_str texts[] = {HD_STR("ann"), hd_str_of(id_text), HD_STR("carl")};
    for (int is_all = 0; is_all < 2; is_all++) {
        co_start_names names;
        hd_name_group *groups;
        uint32_t group_count;
        assert_int_equal(co_start_names_init(&names, arena, HD_LABEL_ENTITY, texts, 3, is_all), HD_OK);
        assert_int_equal(co_start_names_groups(&names, arena, &groups, &group_count), HD_OK);
        assert_int_equal(group_count, is_all ? 3 : 1);
        uint32_t counts[] = {is_all ? 1 : 4, 2, 1};
        for (uint32_t i = 0; i < group_count; i++) assert_int_equal(groups[i].count, counts[i]);
        const hd_id128 *by_id = is_all ? &groups[1].ids[1] : &groups[0].ids[2];
        assert_true(hd_id128_is_equal(*by_id, bob)); /* an id means itself, beside the name that it may be */
        uint64_t found[] = {0, 0, 5, 0};
        assert_int_equal(co_start_names_count(&names, found), 4);
        assert_false(names.names[0].is_found);
        assert_true(names.names[1].is_found);
        assert_false(names.names[2].is_found);
    }
    co_start_names none;
    hd_name_group *groups;
    uint32_t group_count = 7;
    assert_int_equal(co_start_names_init(&none, arena, HD_LABEL_TAG, NULL, 0, true), HD_OK);
    assert_int_equal(co_start_names_groups(&none, arena, &groups, &group_count), HD_OK);
    assert_int_equal(group_count, 0);
    hd_arena_free(arena);
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_interned_once_and_only_learn),
        cmocka_unit_test(wide_tables_are_interned_like_narrow_ones),
        cmocka_unit_test(edges_are_found_like_in_a_list),
        cmocka_unit_test(an_adjacency_is_shared_by_what_it_holds),
        cmocka_unit_test(rows_have_a_total_order),
        cmocka_unit_test(a_group_stands_where_its_first_row_stands),
        cmocka_unit_test(relations_are_told_apart_by_name_and_ends),
        cmocka_unit_test(a_tag_carried_in_both_kinds_is_two_relations),
        cmocka_unit_test(what_could_not_be_had_proves_nothing),
        cmocka_unit_test(names_become_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
