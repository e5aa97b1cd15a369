/* The built-in embedder: the same bytes everywhere, unit length, near for texts that are spelled alike. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/figure.h"
#include "common/ids.h"
#include "coordinator/embed/provider.h"
#include "tests/support/seed.h"

static hd_arena *arena;
static test_random random_source;

static int make_arena(void **state) {
    arena = hd_arena_new(0);
    return 0;
}
static int drop_arena(void **state) {
    hd_arena_free(arena);
    return 0;
}

static float *embed(const char *text, uint32_t dimension) {
    float *vector = hd_arena_alloc_zero(arena, dimension, sizeof(float));
    assert_int_equal(co_embed_builtin(arena, hd_str_of(text), dimension, vector), HD_OK);
    return vector;
}

static double cosine(const char *a, const char *b) {
    return hd_figure_cos(embed(a, 256), embed(b, 256), 256);
}

/* Byte for byte what it was when orgs were first embedded: stored vectors are never computed again. */
static void test_fixed_bytes(void **state) {
    static const struct {
        const char *text;
        uint32_t dimension;
        uint64_t hash;
    } fixed[] = {
        {"The deploy failed because the schema migration ran twice.", 256, 0x67ac23ff1d637044ull},
        {"Gr\xc3\xbc\xc3\x9f"
         "e aus M\xc3\xbcnchen",
         256, 0x33bf9c57cab47270ull},
        {"\xe6\x9d\xb1\xe4\xba\xac\xe3\x82\xbf\xe3\x83\xaf\xe3\x83\xbc", 64, 0x2aadd2813f8164c1ull},
        {"?!", 16, 0x997b74fa3f24df39ull},
    };
    bool is_same = true;
    for (size_t i = 0; i < HD_COUNT_OF(fixed); i++) {
        float *vector = embed(fixed[i].text, fixed[i].dimension);
        uint64_t hash = hd_hash64(vector, fixed[i].dimension * sizeof(float));
        if (hash != fixed[i].hash) print_message("%s: 0x%llxull\n", fixed[i].text, (unsigned long long)hash);
        is_same = is_same && hash == fixed[i].hash;
    }
    assert_true(is_same);
}

static void test_unit_length(void **state) {
    static const uint32_t dimensions[] = {16, 17, 64, 256, 1000, 4096};
    char text[400];
    for (int round = 0; round < 500; round++) {
        size_t size = 1 + test_random_u64(&random_source) % (sizeof(text) - 1);
        for (size_t i = 0; i < size; i++) text[i] = (char)(32 + test_random_u64(&random_source) % 95);
        text[0] = 'x';
        uint32_t dimension = dimensions[round % 6];
        float *vector = hd_arena_alloc_zero(arena, dimension, sizeof(float));
        assert_int_equal(co_embed_builtin(arena, (hd_str){text, size}, dimension, vector), HD_OK);
        assert_true(fabs(hd_figure_norm(vector, dimension) - 1.0) < 1e-6);
        for (uint32_t i = 0; i < dimension; i++) assert_true(isfinite(vector[i]));
    }
}

static void test_what_is_the_same(void **state) {
    assert_true(cosine("Deploy FAILED", "deploy failed") == 1.0);
    assert_true(cosine("deploy, failed!", "  deploy   failed\n") == 1.0);
    assert_true(cosine("stra\xc3\x9f"
                       "e",
                       "STRASSE") == 1.0);
    assert_true(cosine("\xef\xbd\x81\xef\xbd\x82\xef\xbd\x83", "abc") == 1.0); /* full width */
    assert_true(cosine("caf\xc3\xa9", "cafe\xcc\x81") == 1.0);                 /* composed, decomposed */
    assert_true(cosine("soft\xc2\xadware", "software") == 1.0);                /* soft hyphen */
}

static void test_what_is_near(void **state) {
    const char *query = "database migration failed";
    double same = cosine(query, "the database migration failed again last night");
    double some = cosine(query, "we migrated the databases to new machines");
    double none = cosine(query, "lunch with the design team about colours");
    print_message("%.3f %.3f %.3f\n", same, some, none);
    assert_true(same > 0.5 && same > some && some > none + 0.05);
    assert_true(none < 0.3);
    assert_true(cosine("deploy", "deployed") > 0.2);
    assert_true(cosine("\xe6\x9d\xb1\xe4\xba\xac\xe9\x83\xbd", "\xe6\x9d\xb1\xe4\xba\xac") >
                0.4);                                       /* shared characters, no spaces */
    assert_true(cosine("the of and", "the of and") == 1.0); /* stop words alone are still a text */
}

/* Every text that is not blank can be embedded; whatever the bytes fold to. */
static void test_odd_texts(void **state) {
    static const char *const odd[] = {"...", "?!",   "\xe2\x80\xa6", "\xf0\x9f\x8e\x89", "\xe2\x80\x8b\xc2\xad", "a", "+",
                                      "-",   "\x01", "\xef\xbb\xbf", "\xcc\x81"};
    for (size_t i = 0; i < HD_COUNT_OF(odd); i++) {
        float *vector = embed(odd[i], 32);
        assert_true(fabs(hd_figure_norm(vector, 32) - 1.0) < 1e-6);
    }
    float vector[32];
    assert_int_equal(co_embed_builtin(arena, HD_STR(""), 32, vector), HD_ARGUMENT);
    assert_int_equal(co_embed_builtin(arena, HD_STR(" \t\r\n\xc2\xa0\xe3\x80\x80"), 32, vector), HD_ARGUMENT);
    assert_true(cosine("...", "?!") < 0.5); /* punctuation alone is told apart */
}

static void test_long_text(void **state) {
    enum { SIZE = 1 << 20 };
    char *text = hd_alloc(SIZE);
    for (uint32_t i = 0; i < SIZE; i++) text[i] = i % 7 == 6 ? ' ' : (char)('a' + i * 31 % 26);
    float vector[256];
    assert_int_equal(co_embed_builtin(arena, (hd_str){text, SIZE}, 256, vector), HD_OK);
    assert_true(fabs(hd_figure_norm(vector, 256) - 1.0) < 1e-6);
    memset(text, 'a', SIZE); /* one word of a megabyte */
    assert_int_equal(co_embed_builtin(arena, (hd_str){text, SIZE}, 256, vector), HD_OK);
    assert_true(fabs(hd_figure_norm(vector, 256) - 1.0) < 1e-6);
    hd_free(text);
}

static void test_providers(void **state) {
    co_org org = {.dimension = 64, .embedding = CO_EMBEDDING_BUILTIN};
    hd_str texts[3] = {HD_STR("one"), HD_STR("two"), HD_STR("one")};
    float vectors[3 * 64], again[64];
    hd_error error = {0};
    assert_int_equal(co_embed(&org, texts, 3, vectors, &error), HD_OK);
    assert_memory_equal(vectors, vectors + 128, 64 * sizeof(float));
    assert_int_equal(co_embed(&org, texts + 1, 1, again, &error), HD_OK);
    assert_memory_equal(vectors + 64, again, sizeof(again)); /* alone or in a batch: the same */
    texts[1] = HD_STR(" ");
    assert_int_equal(co_embed(&org, texts, 3, vectors, &error), HD_ARGUMENT);
    assert_true(error.message[0] != '\0');
    org.embedding = CO_EMBEDDING_NONE;
    error = (hd_error){0};
    assert_int_equal(co_embed(&org, texts, 1, vectors, &error), HD_PARAMS);
    org.embedding = CO_EMBEDDING_HTTP;
    assert_int_equal(co_embed(&org, texts, 1, vectors, &(hd_error){0}), HD_UNAVAILABLE);
}

int main(int argc, char **argv) {
    random_source.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixed_bytes),  cmocka_unit_test(test_unit_length), cmocka_unit_test(test_what_is_the_same),
        cmocka_unit_test(test_what_is_near), cmocka_unit_test(test_odd_texts),   cmocka_unit_test(test_long_text),
        cmocka_unit_test(test_providers),
    };
    return cmocka_run_group_tests(tests, make_arena, drop_arena);
}
