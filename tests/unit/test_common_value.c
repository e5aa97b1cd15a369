/* value, expr, figure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#include "common/expr.h"
#include "common/figure.h"
#include "common/text.h"
#include "tests/support/seed.h"

static uint64_t seed;
static hd_arena *arena;

static int start_arena(void **state) {
    arena = hd_arena_new(0);
    return 0;
}

static int end_arena(void **state) {
    hd_arena_free(arena);
    return 0;
}

/* --- makers --- */

#define N HD_VALUE_NULL
#define I(n) hd_value_int(n)
#define F(x) hd_value_float(x)
#define S(text) hd_value_text(HD_STR(text))
#define B(b) hd_value_bool(b)

static hd_value make_node(hd_label label, const char *id) {
    return (hd_value){.type = HD_TYPE_NODE, .node = {.label = label, .id = hd_str_of(id)}};
}

static hd_value make_list(const hd_value *items, uint32_t count) {
    hd_value *copy = hd_arena_alloc_zero(arena, count, sizeof(*copy));
    if (count > 0) memcpy(copy, items, count * sizeof(*copy));
    return (hd_value){.type = HD_TYPE_LIST, .list = {.items = copy, .count = count}};
}
#define L(...) make_list((const hd_value[]){__VA_ARGS__}, HD_COUNT_OF(((const hd_value[]){__VA_ARGS__})))
#define EMPTY make_list(NULL, 0)

static hd_value make_map(const char *key, hd_value item) {
    hd_str *keys = hd_arena_alloc_zero(arena, 1, sizeof(*keys));
    hd_value *items = hd_arena_alloc_zero(arena, 1, sizeof(*items));
    keys[0] = hd_str_of(key);
    items[0] = item;
    return (hd_value){.type = HD_TYPE_MAP, .map = {.keys = keys, .items = items, .count = 1}};
}

static hd_expr *make_literal(hd_value value) {
    hd_expr *expr = hd_arena_alloc_zero(arena, 1, sizeof(*expr));
    expr->kind = HD_EXPR_LITERAL;
    expr->literal = value;
    return expr;
}

static hd_expr *make_expr(hd_expr_kind kind, hd_expr *const *args, uint32_t count) {
    hd_expr *expr = hd_arena_alloc_zero(arena, 1, sizeof(*expr));
    expr->kind = kind;
    expr->args = hd_arena_alloc_zero(arena, count, sizeof(*expr->args));
    if (count > 0) memcpy(expr->args, args, count * sizeof(*args));
    expr->arg_count = count;
    return expr;
}
#define E(kind, ...) make_expr(HD_EXPR_##kind, (hd_expr *const[]){__VA_ARGS__}, HD_COUNT_OF(((hd_expr *const[]){__VA_ARGS__})))
#define V(value) make_literal(value)

static unsigned gets;
/* A leaf answers with its literal; one with .index2 = 1 fails. */
static hd_status get_leaf(void *self, const hd_expr *leaf, hd_value *value_out) {
    gets++;
    if (leaf->index2 == 1) return HD_SHARD_DOWN;
    *value_out = leaf->literal;
    return HD_OK;
}

static hd_value params[3];

static hd_truth eval(hd_expr *expr) {
    hd_expr_env env = {.get = get_leaf, .params = params, .arena = arena};
    hd_value value;
    bool is_true;
    assert_int_equal(hd_expr_eval(expr, &env, &value), HD_OK);
    assert_int_equal(hd_expr_is_true(expr, &env, &is_true), HD_OK);
    assert_int_equal(is_true, value.type == HD_TYPE_BOOL && value.boolean);
    if (value.type == HD_TYPE_NULL) return HD_UNKNOWN;
    assert_int_equal(value.type, HD_TYPE_BOOL);
    return value.boolean ? HD_TRUE : HD_FALSE;
}

/* --- values --- */

static void numbers_compare_exactly(void **state) {
    const int64_t two53 = INT64_C(1) << 53;
    static const struct {
        int64_t n;
        double x;
        int order;
    } cases[] = {
        {1, 1.0, 0},
        {0, 0.0, 0},
        {1, 1.5, -1},
        {-1, -1.5, 1},
        {2, 1.5, 1},
        {-2, -1.5, -1},
        {(INT64_C(1) << 53) + 1, 0x1p53, 1},
        {(INT64_C(1) << 53) - 1, 0x1p53, -1},
        {-(INT64_C(1) << 53) - 1, -0x1p53, -1},
        {INT64_MAX, 0x1p63, -1},
        {INT64_MIN, -0x1p63, 0},
        {INT64_MIN + 1, -0x1p63, 1},
        {INT64_MAX, 0x1.fffffffffffffp62, 1},
        {INT64_MAX, INFINITY, -1},
        {INT64_MIN, -INFINITY, 1},
        {0, 5e-324, -1},
        {0, -5e-324, 1},
    };
    for (size_t i = 0; i < HD_COUNT_OF(cases); i++) {
        hd_value n = I(cases[i].n), x = F(cases[i].x);
        int order;
        assert_true(hd_value_compare(&n, &x, &order));
        assert_int_equal(order, cases[i].order);
        assert_true(hd_value_compare(&x, &n, &order));
        assert_int_equal(order, -cases[i].order);
        assert_int_equal(hd_value_equal(&n, &x), cases[i].order == 0 ? HD_TRUE : HD_FALSE);
        assert_int_equal(hd_value_is_same(&n, &x), cases[i].order == 0);
        if (cases[i].order == 0) assert_true(hd_value_hash(&n) == hd_value_hash(&x));
    }
    hd_value a = I(two53), b = I(two53 + 1);
    assert_int_equal(hd_value_equal(&a, &b), HD_FALSE);
    hd_value zero = F(-0.0);
    assert_false(signbit(zero.number));
    assert_int_equal(F(NAN).type, HD_TYPE_NULL);
}

/* One of each kind: what compares with what. */
static void types_compare_with_their_own(void **state) {
    hd_value noon;
    noon = hd_value_instant(1738324800000000);
    hd_value values[] = {N,       B(true),
                         I(1),    F(2.5),
                         S("x"),  S("2025-01-31T12:00:00Z"),
                         noon,    make_node(HD_LABEL_EVENT, "x"),
                         L(I(1)), make_map("k", I(1))};
    for (size_t i = 0; i < HD_COUNT_OF(values); i++) {
        for (size_t j = 0; j < HD_COUNT_OF(values); j++) {
            const hd_value *a = &values[i], *b = &values[j];
            bool is_number =
                (a->type == HD_TYPE_INT || a->type == HD_TYPE_FLOAT) && (b->type == HD_TYPE_INT || b->type == HD_TYPE_FLOAT);
            bool is_own =
                a->type == b->type && (a->type == HD_TYPE_STRING || a->type == HD_TYPE_BOOL || a->type == HD_TYPE_INSTANT);
            bool is_moment = (i == 5 && j == 6) || (i == 6 && j == 5);
            bool is_ordered = is_number || is_own || is_moment, is_node = a->type == HD_TYPE_NODE && b->type == HD_TYPE_NODE;
            int order;
            assert_int_equal(hd_value_compare(a, b, &order), is_ordered);
            hd_truth equal = hd_value_equal(a, b);
            assert_int_equal(equal != HD_UNKNOWN, is_ordered || is_node);
            if (equal != HD_UNKNOWN) assert_int_equal(equal == HD_TRUE, i == j || is_moment);
        }
    }
    hd_value event = make_node(HD_LABEL_EVENT, "a"), other = make_node(HD_LABEL_EVENT, "b"),
             entity = make_node(HD_LABEL_ENTITY, "a");
    assert_int_equal(hd_value_equal(&event, &other), HD_FALSE);
    assert_int_equal(hd_value_equal(&event, &entity), HD_UNKNOWN);
    assert_false(hd_value_is_same(&event, &entity));
    hd_value date = S("2025-02-01"), offset = S("2025-01-31T21:00+09:00");
    int order;
    assert_true(hd_value_compare(&noon, &date, &order));
    assert_int_equal(order, -1);
    assert_int_equal(hd_value_equal(&noon, &offset), HD_TRUE);
    assert_false(hd_value_is_same(&noon, &offset));
}

static hd_value random_value(test_random *random, int depth) {
    static const char *const texts[] = {"", "a", "b", "ab", "\xc3\xa9", "2025-01-31"};
    const char *text = texts[test_random_below(random, HD_COUNT_OF(texts))];
    switch (test_random_below(random, depth > 0 ? 10 : 8)) {
    case 0: return N;
    case 1: return B(test_random_below(random, 2));
    case 2: return I((int64_t)test_random_below(random, 5) - 2);
    case 3: return F(((double)test_random_below(random, 9) - 4) / 2);
    case 4:
        return test_random_below(random, 2) ? I((INT64_C(1) << 53) + test_random_below(random, 3))
                                            : F(0x1p53 + 2 * test_random_below(random, 2));
    case 5: return hd_value_text(hd_str_of(text));
    case 6: return hd_value_instant((int64_t)test_random_below(random, 3) - 1);
    case 7: return make_node(test_random_below(random, 2) ? HD_LABEL_EVENT : HD_LABEL_TAG, text);
    case 8: {
        hd_value items[3];
        uint32_t count = test_random_below(random, 4);
        for (uint32_t i = 0; i < count; i++) items[i] = random_value(random, depth - 1);
        return make_list(items, count);
    }
    default: return make_map(text, random_value(random, depth - 1));
    }
}

static void the_order_is_total(void **state) {
    test_random random = {seed};
    enum { COUNT = 120 };
    hd_value values[COUNT];
    for (int i = 0; i < COUNT; i++) values[i] = random_value(&random, 2);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(hd_value_order(&values[i], &values[i]), 0);
        for (int j = 0; j < COUNT; j++) {
            const hd_value *a = &values[i], *b = &values[j];
            int order = hd_value_order(a, b);
            assert_in_range(order + 1, 0, 2);
            assert_int_equal(order, -hd_value_order(b, a));
            assert_int_equal(hd_value_is_same(a, b), order == 0);
            if (order == 0) assert_true(hd_value_hash(a) == hd_value_hash(b));
            int compared;
            if (a->type != HD_TYPE_INSTANT && b->type != HD_TYPE_INSTANT && hd_value_compare(a, b, &compared)) {
                assert_int_equal(compared, order);
            }
            bool has_null = a->type == HD_TYPE_NULL || b->type == HD_TYPE_NULL;
            assert_int_equal(hd_value_order_key(a, b, false), order);
            assert_int_equal(hd_value_order_key(a, b, true), has_null ? order : -order);
            for (int k = 0; k < COUNT; k++) {
                if (order <= 0 && hd_value_order(b, &values[k]) <= 0) assert_true(hd_value_order(a, &values[k]) <= 0);
            }
        }
    }
}

static void types_are_ordered(void **state) {
    hd_value ordered[] = {F(-INFINITY),
                          I(INT64_MIN),
                          F(-1.5),
                          I(0),
                          F(0.5),
                          I(1),
                          F(INFINITY),
                          S(""),
                          S("A"),
                          S("a"),
                          S("\xf0\x9f\x99\x82"),
                          B(false),
                          B(true),
                          hd_value_instant(-1),
                          hd_value_instant(0),
                          make_node(HD_LABEL_EVENT, "a"),
                          make_node(HD_LABEL_EVENT, "b"),
                          EMPTY,
                          L(I(1)),
                          L(I(1), I(0)),
                          L(I(2)),
                          L(N),
                          make_map("a", I(1)),
                          make_map("a", I(2)),
                          make_map("b", I(0)),
                          N};
    for (size_t i = 0; i < HD_COUNT_OF(ordered); i++) {
        for (size_t j = 0; j < HD_COUNT_OF(ordered); j++) {
            assert_int_equal(hd_value_order(&ordered[i], &ordered[j]), (i > j) - (i < j));
        }
    }
}

static void hashes_differ(void **state) {
    hd_value different[] = {N,
                            B(false),
                            B(true),
                            I(0),
                            I(1),
                            F(0.5),
                            S(""),
                            S("a"),
                            hd_value_instant(0),
                            EMPTY,
                            L(N),
                            L(I(0)),
                            L(I(0), I(0)),
                            L(L(I(0))),
                            make_map("a", I(0)),
                            make_map("a", I(1)),
                            make_node(HD_LABEL_EVENT, "a"),
                            make_node(HD_LABEL_TAG, "a")};
    for (size_t i = 0; i < HD_COUNT_OF(different); i++) {
        for (size_t j = 0; j < i; j++) assert_true(hd_value_hash(&different[i]) != hd_value_hash(&different[j]));
    }
}

static void copies_are_deep(void **state) {
    test_random random = {seed};
    for (int round = 0; round < 500; round++) {
        hd_arena *from = arena;
        arena = hd_arena_new(0);
        hd_value value = random_value(&random, 3), copy, again;
        assert_int_equal(hd_value_dup(from, &value, &copy), HD_OK);
        assert_int_equal(hd_value_dup(from, &copy, &again), HD_OK);
        assert_true(hd_value_is_same(&value, &copy));
        uint64_t hash = hd_value_hash(&value);
        hd_arena_free(arena); /* under the address sanitizer, anything still pointing there would now fail */
        arena = from;
        assert_true(hd_value_hash(&copy) == hash);
        assert_true(hd_value_is_same(&again, &copy));
    }
    hd_arena *small = hd_arena_new(64);
    hd_value value = L(S("0123456789"), S("0123456789"), S("0123456789")), copy;
    assert_int_equal(hd_value_dup(small, &value, &copy), HD_MEMORY);
    value = S("0123456789012345678901234567890123456789012345678901234567890123");
    assert_int_equal(hd_value_dup(small, &value, &copy), HD_MEMORY);
    hd_arena_free(small);
}

static void types_have_names(void **state) {
    assert_string_equal(hd_type_name(HD_TYPE_NULL), "null");
    assert_string_equal(hd_type_name(HD_TYPE_INT), "int");
    assert_string_equal(hd_type_name(HD_TYPE_MAP), "map");
}

/* --- expressions --- */

/* The truth tables of openCypher; a value that is no boolean counts as unknown. */
static void logic_is_three_valued(void **state) {
    const hd_value values[] = {B(false), B(true), N};
    static const hd_truth and_table[3][3] = {
        {HD_FALSE, HD_FALSE, HD_FALSE}, {HD_FALSE, HD_TRUE, HD_UNKNOWN}, {HD_FALSE, HD_UNKNOWN, HD_UNKNOWN}};
    static const hd_truth or_table[3][3] = {
        {HD_FALSE, HD_TRUE, HD_UNKNOWN}, {HD_TRUE, HD_TRUE, HD_TRUE}, {HD_UNKNOWN, HD_TRUE, HD_UNKNOWN}};
    static const hd_truth not_table[3] = {HD_TRUE, HD_FALSE, HD_UNKNOWN};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(eval(E(NOT, V(values[i]))), not_table[i]);
        for (int j = 0; j < 3; j++) {
            assert_int_equal(eval(E(AND, V(values[i]), V(values[j]))), and_table[i][j]);
            assert_int_equal(eval(E(OR, V(values[i]), V(values[j]))), or_table[i][j]);
            for (int k = 0; k < 3; k++) { /* three in one are two and one */
                assert_int_equal(eval(E(AND, V(values[i]), V(values[j]), V(values[k]))),
                                 eval(E(AND, E(AND, V(values[i]), V(values[j])), V(values[k]))));
                assert_int_equal(eval(E(OR, V(values[i]), V(values[j]), V(values[k]))),
                                 eval(E(OR, E(OR, V(values[i]), V(values[j])), V(values[k]))));
            }
        }
    }
    assert_int_equal(eval(E(AND, V(I(1)), V(B(true)))), HD_UNKNOWN);
    assert_int_equal(eval(E(OR, V(S("true")), V(B(false)))), HD_UNKNOWN);
    assert_int_equal(eval(E(NOT, V(I(0)))), HD_UNKNOWN);
}

static void comparisons_with_null_are_null(void **state) {
    static const hd_expr_kind kinds[] = {HD_EXPR_EQ, HD_EXPR_NE, HD_EXPR_LT, HD_EXPR_LE, HD_EXPR_GT, HD_EXPR_GE, HD_EXPR_CONTAINS};
    for (size_t i = 0; i < HD_COUNT_OF(kinds); i++) {
        hd_expr *pairs[][2] = {{V(N), V(I(1))}, {V(S("a")), V(N)}, {V(N), V(N)}, {V(I(1)), V(S("1"))}, {V(B(true)), V(I(1))}};
        for (size_t j = 0; j < HD_COUNT_OF(pairs); j++) assert_int_equal(eval(make_expr(kinds[i], pairs[j], 2)), HD_UNKNOWN);
    }
    assert_int_equal(eval(E(IS_NULL, V(N))), HD_TRUE);
    assert_int_equal(eval(E(IS_NULL, V(B(false)))), HD_FALSE);
    assert_int_equal(eval(E(IS_NOT_NULL, V(N))), HD_FALSE);
    assert_int_equal(eval(E(IS_NOT_NULL, V(S("")))), HD_TRUE);
}

static void comparisons_compare(void **state) {
    const hd_value pairs[][2] = {{I(1), F(1.5)}, {S("a"), S("b")}, {B(false), B(true)}, {hd_value_instant(0), S("1970-01-02")}};
    for (size_t i = 0; i < HD_COUNT_OF(pairs); i++) {
        for (int turned = 0; turned < 3; turned++) { /* less, greater, equal */
            hd_expr *a = V(pairs[i][turned == 1]), *b = V(pairs[i][turned == 0]);
            if (turned == 2) b = a = V(pairs[i][0]);
            assert_int_equal(eval(E(LT, a, b)), turned == 0 ? HD_TRUE : HD_FALSE);
            assert_int_equal(eval(E(LE, a, b)), turned != 1 ? HD_TRUE : HD_FALSE);
            assert_int_equal(eval(E(GT, a, b)), turned == 1 ? HD_TRUE : HD_FALSE);
            assert_int_equal(eval(E(GE, a, b)), turned != 0 ? HD_TRUE : HD_FALSE);
            assert_int_equal(eval(E(EQ, a, b)), turned == 2 ? HD_TRUE : HD_FALSE);
            assert_int_equal(eval(E(NE, a, b)), turned != 2 ? HD_TRUE : HD_FALSE);
        }
    }
}

static void membership_is_three_valued(void **state) {
    assert_int_equal(eval(E(IN, V(I(1)), V(L(I(1), I(2))))), HD_TRUE);
    assert_int_equal(eval(E(IN, V(F(2)), V(L(I(1), I(2))))), HD_TRUE);
    assert_int_equal(eval(E(IN, V(I(3)), V(L(I(1), I(2))))), HD_FALSE);
    assert_int_equal(eval(E(IN, V(I(3)), V(L(I(1), N)))), HD_UNKNOWN);
    assert_int_equal(eval(E(IN, V(I(1)), V(L(N, I(1))))), HD_TRUE);
    assert_int_equal(eval(E(IN, V(N), V(L(I(1))))), HD_UNKNOWN);
    assert_int_equal(eval(E(IN, V(N), V(L(N)))), HD_UNKNOWN);
    assert_int_equal(eval(E(IN, V(N), V(EMPTY))), HD_FALSE);
    assert_int_equal(eval(E(IN, V(I(1)), V(EMPTY))), HD_FALSE);
    assert_int_equal(eval(E(IN, V(I(1)), V(N))), HD_UNKNOWN);
    assert_int_equal(eval(E(IN, V(I(1)), V(I(1)))), HD_UNKNOWN);
    assert_int_equal(eval(E(IN, V(I(1)), V(L(S("1"))))), HD_UNKNOWN);
    assert_int_equal(eval(E(NOT, E(IN, V(I(3)), V(L(I(1), N))))), HD_UNKNOWN);
    hd_expr param = {.kind = HD_EXPR_PARAM, .index = 2};
    params[2] = I(7);
    assert_int_equal(eval(E(IN, V(I(7)), E(LIST, V(I(1)), &param))), HD_TRUE);
    params[2] = N;
    assert_int_equal(eval(E(IN, V(I(7)), E(LIST, V(I(1)), &param))), HD_UNKNOWN);
    params[2] = L(I(7));
    assert_int_equal(eval(E(IN, V(I(7)), &param)), HD_TRUE);
}

static void contains_folds_both_sides(void **state) {
    assert_int_equal(eval(E(CONTAINS, V(S("Stra\u00dfe")), V(S("RASSE")))), HD_TRUE);
    assert_int_equal(eval(E(CONTAINS, V(S("\uff26\uff55\uff4c\uff4c")), V(S("full")))), HD_TRUE);
    assert_int_equal(eval(E(CONTAINS, V(S("Zoe\u0308")), V(S("ZO\u00cb")))), HD_TRUE);
    assert_int_equal(eval(E(CONTAINS, V(S("abc")), V(S("ac")))), HD_FALSE);
    assert_int_equal(eval(E(CONTAINS, V(S("abc")), V(S("")))), HD_TRUE);
    assert_int_equal(eval(E(CONTAINS, V(S("\xff")), V(S("a")))), HD_UNKNOWN);
    assert_int_equal(eval(E(CONTAINS, V(L(S("a"))), V(S("a")))), HD_UNKNOWN);
    size_t used = hd_arena_bytes_used(arena);
    hd_expr *expr = E(CONTAINS, V(S("\u00c4bc")), V(S("\u00e4")));
    used = hd_arena_bytes_used(arena);
    assert_int_equal(eval(expr), HD_TRUE);
    assert_int_equal(hd_arena_bytes_used(arena), used); /* nothing stays behind */
}

static void leaves_are_asked_of_the_environment(void **state) {
    static const hd_expr_kind kinds[] = {HD_EXPR_VAR, HD_EXPR_PROPERTY, HD_EXPR_COS, HD_EXPR_AGGREGATE};
    hd_expr_env env = {.get = get_leaf, .params = params, .arena = arena};
    for (size_t i = 0; i < HD_COUNT_OF(kinds); i++) {
        hd_expr leaf = {.kind = kinds[i], .literal = B(true)}, failing = {.kind = kinds[i], .index2 = 1};
        gets = 0;
        assert_int_equal(eval(&leaf), HD_TRUE);
        assert_int_equal(gets, 2);
        hd_value value;
        bool is_true = true;
        assert_int_equal(hd_expr_eval(E(EQ, V(I(1)), &failing), &env, &value), HD_SHARD_DOWN);
        assert_int_equal(hd_expr_eval(E(NOT, &failing), &env, &value), HD_SHARD_DOWN);
        assert_int_equal(hd_expr_eval(E(LIST, &failing), &env, &value), HD_SHARD_DOWN);
        assert_int_equal(hd_expr_is_true(E(AND, &leaf, &failing), &env, &is_true), HD_SHARD_DOWN);
        assert_false(is_true);
        assert_int_equal(eval(E(OR, &leaf, &failing)), HD_TRUE); /* decided before it was asked */
        assert_int_equal(eval(E(AND, V(B(false)), &failing)), HD_FALSE);
        assert_int_equal(hd_expr_eval(E(OR, V(N), &failing), &env, &value), HD_SHARD_DOWN);
    }
    hd_arena *small = hd_arena_new(16);
    env.arena = small;
    hd_value value;
    assert_int_equal(hd_expr_eval(E(LIST, V(I(1))), &env, &value), HD_MEMORY);
    assert_int_equal(hd_expr_eval(E(CONTAINS, V(S("01234567890123456789")), V(S("a"))), &env, &value), HD_MEMORY);
    hd_arena_free(small);
}

static void note_kind(hd_expr *node, void *context) {
    hd_buf_printf(context, "%d ", node->kind);
}

static void visits_go_parents_first(void **state) {
    hd_buf kinds = {0}, want = {0};
    hd_expr_visit(E(AND, E(NOT, V(N)), E(IN, V(N), V(N))), note_kind, &kinds);
    hd_buf_printf(&want, "%d %d %d %d %d %d ", HD_EXPR_AND, HD_EXPR_NOT, HD_EXPR_LITERAL, HD_EXPR_IN, HD_EXPR_LITERAL,
                  HD_EXPR_LITERAL);
    assert_string_equal(kinds.data, want.data);
    hd_buf_fini(&kinds);
    hd_buf_fini(&want);
}

/* --- figures --- */

static void dots_follow_the_lane_rule(void **state) {
    test_random random = {seed};
    float a[300], b[300];
    for (int round = 0; round < 400; round++) {
        uint32_t dimension = round < 40 ? (uint32_t)round : test_random_below(&random, 299) + 1;
        uint32_t shift = test_random_below(&random, 2); /* not aligned either */
        for (uint32_t i = 0; i < 300; i++) {
            a[i] = ((float)test_random_below(&random, 2000001) - 1000000) * (test_random_below(&random, 9) == 0 ? 1e9f : 1e-6f);
            b[i] = ((float)test_random_below(&random, 2000001) - 1000000) * 1e-6f;
        }
        if (dimension + shift > 300) dimension = 300 - shift;
        double lanes[8] = {0};
        for (uint32_t i = 0; i < dimension; i++) {
            volatile double product = (double)a[shift + i] * (double)b[shift + i];
            lanes[i % 8] += product;
        }
        double want = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
        double got = hd_figure_dot(a + shift, b + shift, dimension);
        assert_memory_equal(&got, &want, sizeof(got)); /* to the last bit */
        double norm = hd_figure_norm(a + shift, dimension);
        assert_true(norm == sqrt(hd_figure_dot(a + shift, a + shift, dimension)));
    }
}

static void figures_are_rounded(void **state) {
    assert_true(hd_figure_round(0.12345649) == 0.123456);
    assert_true(hd_figure_round(0.12345651) == 0.123457);
    assert_true(hd_figure_round(-0.12345651) == -0.123457);
    assert_true(hd_figure_round(2.5e-6) == 2e-6); /* ties to even */
    assert_false(signbit(hd_figure_round(-1e-9)));
    assert_false(signbit(hd_figure_round(-0.0)));
    assert_true(hd_figure_round(1e300) > 9e299);
    const float x[] = {3, 4}, y[] = {4, 3}, z[] = {-3, -4}, w[] = {-4, 3}, zero[] = {0, 0};
    assert_true(hd_figure_cos(x, y, 2) == 0.96);
    assert_true(hd_figure_cos(x, x, 2) == 1.0);
    assert_true(hd_figure_cos(x, z, 2) == -1.0);
    assert_true(hd_figure_cos(x, w, 2) == 0.0);
    assert_true(hd_figure_norm(x, 2) == 5.0);
    assert_true(hd_figure_norm(zero, 2) == 0.0);
    const float large[] = {3e38f, 3e38f}, small[] = {1e-45f, 1e-45f};
    assert_true(hd_figure_cos(large, small, 2) == 1.0);
    assert_true(hd_figure_lift(0, 1) == 0);
    assert_true(fabs(hd_figure_lift(100, 4) - 3.258096538021482) < 1e-12);
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_compare_exactly),
        cmocka_unit_test_setup_teardown(types_compare_with_their_own, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(the_order_is_total, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(types_are_ordered, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(hashes_differ, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(copies_are_deep, start_arena, end_arena),
        cmocka_unit_test(types_have_names),
        cmocka_unit_test_setup_teardown(logic_is_three_valued, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(comparisons_with_null_are_null, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(comparisons_compare, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(membership_is_three_valued, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(contains_folds_both_sides, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(leaves_are_asked_of_the_environment, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(visits_go_parents_first, start_arena, end_arena),
        cmocka_unit_test(dots_follow_the_lane_rule),
        cmocka_unit_test(figures_are_rounded),
    };
    return cmocka_run_group_tests_name("common value", tests, NULL, NULL);
}
