/* Vector search against measuring every row in double precision and sorting: the same rows, scores and order, whatever the data. The
 * seed is printed; give it as the first argument to replay. */
#define _GNU_SOURCE /* qsort_r */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/figure.h"
#include "common/ids.h"
#include "shard/crew.h"
#include "shard/vectors/kernels.h"
#include "shard/vectors/vector_index.h"
#include "tests/support/seed.h"

static uint64_t seed_now, seed_given;

static uint32_t roll(uint32_t below) {
    seed_now += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = seed_now;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((x ^ (x >> 31)) % below);
}

static float unit(void) { /* −1 … 1 */
    return (float)((double)roll(2000001) / 1e6 - 1);
}

static float bell(void) {
    float sum = 0;
    for (int i = 0; i < 6; i++) sum += unit();
    return sum;
}

/* -- data ------------------------------------------------------------------------------------------------------------------------- */

typedef enum data_kind {
    DATA_BELL,
    DATA_CLUSTERS,
    DATA_DOUBLES,    /* a handful of distinct vectors */
    DATA_NEAR,       /* one vector, trembling in the seventh digit */
    DATA_SCALED,     /* one direction, lengths from 10⁻³⁰ to 10³⁰ */
    DATA_SPIKES,     /* one element outweighs the rest */
    DATA_SPARSE,     /* most elements zero */
    DATA_SMALL_INTS, /* many exact ties */
    DATA_ASCENDING,  /* each row closer to the query than the one before: nothing can be left out early */
    DATA_TINY,       /* the smallest floats there are */
    DATA_GRID,       /* codes without residual, so that bounds are as tight as can be, and scores a hair apart */
    DATA_KINDS
} data_kind;

static void fill(float *vector, uint32_t dimension, data_kind kind, const float *query, uint32_t row, uint32_t rows) {
    static const float lengths[] = {1e-30f, 1e-3f, 1, 7, 1e30f};
    float length = lengths[roll(HD_COUNT_OF(lengths))];
    uint32_t spike = roll(dimension);
    uint64_t kept = seed_now;
    if (kind == DATA_DOUBLES) seed_now = seed_given + roll(5);
    if (kind == DATA_CLUSTERS) seed_now = seed_given + roll(4);
    for (uint32_t i = 0; i < dimension; i++) {
        switch (kind) {
        case DATA_SPIKES: vector[i] = i == spike ? 50 : unit() / 10; break;
        case DATA_SPARSE: vector[i] = roll(10) ? 0 : bell(); break;
        case DATA_SMALL_INTS: vector[i] = (float)roll(3) - 1; break;
        case DATA_NEAR: vector[i] = query[i] * (1 + unit() * 3e-7f); break;
        case DATA_SCALED: vector[i] = query[i] * length; break;
        case DATA_ASCENDING: vector[i] = query[i] * (float)row / (float)rows + bell() / 20; break;
        case DATA_GRID: vector[i] = query[i]; break;
        case DATA_TINY: vector[i] = FLT_TRUE_MIN * (float)roll(5); break;
        default: vector[i] = bell(); break;
        }
    }
    for (uint32_t i = roll(12); i > 0 && kind == DATA_GRID && dimension > 1; i--)
        vector[1 + roll(dimension - 1)] += (float)roll(3) - 1;
    if (kind == DATA_DOUBLES) seed_now = kept;
    if (kind == DATA_CLUSTERS) {
        seed_now = kept + 1;
        for (uint32_t i = 0; i < dimension; i++) vector[i] += bell() / 30;
    }
    if (hd_figure_norm(vector, dimension) == 0) vector[spike] = kind == DATA_TINY ? FLT_TRUE_MIN : 1;
}

/* -- one case: an index, a question, and the naive answer --------------------------------------------------------------------------- */

typedef struct fixture {
    sh_vector_index *index;
    uint32_t dimension, rows;
    float *query;
    uint32_t *slots;    /* of the rows */
    uint32_t *ranks;    /* by slot: the order among equal scores */
    uint8_t *is_wanted; /* by slot */
    uint32_t *scope;    /* or NULL */
    uint32_t scope_count;
    uint32_t asked, stop_at; /* should_stop says so when asked for the stop_at-th time; 0: never */
} fixture;

static bool accepts(void *self, uint32_t slot) {
    return ((fixture *)self)->is_wanted[slot];
}

static int compare_ties(void *self, uint32_t a, uint32_t b) {
    const uint32_t *ranks = ((fixture *)self)->ranks;
    return (ranks[a] > ranks[b]) - (ranks[a] < ranks[b]);
}

static bool should_stop(void *self) {
    fixture *f = self;
    return ++f->asked == f->stop_at;
}

static void shuffle(uint32_t *items, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = roll(i), item = items[i - 1];
        items[i - 1] = items[j];
        items[j] = item;
    }
}

static fixture *fixture_new(uint32_t dimension, uint32_t rows, data_kind kind) {
    fixture *f = calloc(1, sizeof(*f));
    *f = (fixture){.index = sh_vector_index_new(dimension), .dimension = dimension, .rows = rows};
    f->query = calloc(dimension, sizeof(float));
    fill(f->query, dimension, DATA_BELL, NULL, 0, 1);
    for (uint32_t i = 0; i < dimension && kind == DATA_GRID; i++) f->query[i] = i ? rintf(f->query[i] * 20) : 127;
    f->slots = calloc(rows + 1, sizeof(uint32_t));
    f->ranks = calloc(2 * rows + 1, sizeof(uint32_t));
    f->is_wanted = calloc(2 * rows + 1, 1);
    for (uint32_t i = 0; i < 2 * rows; i++) f->ranks[i] = i;
    shuffle(f->ranks, 2 * rows);
    uint32_t one_in = 1 + roll(3) * roll(3);
    for (uint32_t i = 0; i < 2 * rows; i++) f->is_wanted[i] = roll(one_in) == 0;
    float *vector = calloc(dimension, sizeof(float));
    for (uint32_t row = 0; row < rows; row++) {
        f->slots[row] = 2 * row + roll(2);
        fill(vector, dimension, kind, f->query, row, rows);
        assert_int_equal(sh_vector_index_add(f->index, f->slots[row], vector), row);
        assert_memory_equal(sh_vector_index_get(f->index, row), vector, dimension * sizeof(float));
        assert_int_equal(sh_vector_index_slot(f->index, row), f->slots[row]);
    }
    assert_int_equal(sh_vector_index_rows(f->index), rows);
    if (kind == DATA_NEAR || kind == DATA_TINY) memcpy(f->query, vector, dimension * sizeof(float));
    free(vector);
    return f;
}

static void fixture_free(fixture *f) {
    sh_vector_index_free(f->index);
    free(f->query);
    free(f->slots);
    free(f->ranks);
    free(f->is_wanted);
    free(f->scope);
    free(f);
}

static int compare_hits(const void *a, const void *b, void *self) {
    const sh_hit *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return compare_ties(self, x->slot, y->slot);
}

/* The hits among positions [start, end), best first; how many. */
static uint32_t search_naively(fixture *f, uint32_t start, uint32_t end, sh_hit *hits) {
    uint32_t count = 0;
    for (uint32_t position = start; position < end; position++) {
        uint32_t row = f->scope ? f->scope[position] : position;
        if (!f->is_wanted[f->slots[row]]) continue;
        double score = hd_figure_cos(sh_vector_index_get(f->index, row), f->query, f->dimension);
        assert_true(score == sh_vector_index_cos(f->index, row, f->query));
        hits[count++] = (sh_hit){f->slots[row], score};
    }
    qsort_r(hits, count, sizeof(*hits), compare_hits, f);
    return count;
}

static sh_search search_of(fixture *f, uint32_t k) {
    return (sh_search){.query = f->query,
                       .k = k,
                       .row_end = f->rows,
                       .accepts = accepts,
                       .compare_ties = compare_ties,
                       .should_stop = should_stop,
                       .self = f,
                       .rows = f->scope,
                       .row_count = f->scope_count,
                       .measured_max = UINT64_MAX};
}

static void assert_hits_equal(const sh_hit *hits, uint32_t hit_count, const sh_hit *expected, uint32_t expected_count) {
    assert_int_equal(hit_count, expected_count);
    for (uint32_t i = 0; i < hit_count; i++) {
        if (hits[i].slot != expected[i].slot || hits[i].score != expected[i].score) {
            print_error("hit %u: slot %u with %.17g, expected %u with %.17g\n", i, hits[i].slot, hits[i].score, expected[i].slot,
                        expected[i].score);
            fail();
        }
    }
}

static void check(fixture *f, uint32_t k) {
    uint32_t count = f->scope ? f->scope_count : f->rows;
    sh_hit *expected = calloc(count + 1, sizeof(*expected)), *hits = calloc(2 * (size_t)k + 1, sizeof(*hits));
    uint32_t found = search_naively(f, 0, count, expected);
    sh_search search = search_of(f, k);
    sh_search_result result = {.hits = hits};
    sh_vector_index_search(f->index, &search, &result);
    assert_hits_equal(hits, result.hit_count, expected, HD_MIN(k, found));
    assert_false(result.is_stopped || result.is_over_budget || result.is_approximate);
    assert_int_equal(result.measured, k ? count : 0);
    assert_int_equal(result.rows_done, k ? count : 0);

    /* A budget: the best of the positions it reaches; a cut only where a wanted row is left. */
    uint32_t budget = roll(count + 2);
    search.measured_max = budget;
    sh_vector_index_search(f->index, &search, &result);
    uint32_t reached = HD_MIN(budget, count);
    uint32_t found_first = search_naively(f, 0, reached, expected);
    if (k > 0) {
        assert_hits_equal(hits, result.hit_count, expected, HD_MIN(k, found_first));
        assert_int_equal(result.measured, reached);
        assert_int_equal(result.rows_done, reached);
        assert_int_equal(result.is_over_budget, found_first < found);
        assert_int_equal(result.is_stopped, found_first < found);
    }
    free(expected);
    free(hits);
}

static void check_scoped(fixture *f, uint32_t scope_count, uint32_t k) {
    f->scope = calloc(f->rows + 1, sizeof(uint32_t));
    for (uint32_t i = 0; i < f->rows; i++) f->scope[i] = i;
    shuffle(f->scope, f->rows);
    f->scope_count = HD_MIN(scope_count, f->rows);
    check(f, k);
    free(f->scope);
    f->scope = NULL;
}

/* -- tests ---------------------------------------------------------------------------------------------------------------------------- */

static void test_against_naive(void **state) {
    static const uint32_t dimensions[] = {1, 2, 3, 7, 8, 9, 31, 32, 33, 64, 96, 256, 1000, 4096};
    static const uint32_t sizes[] = {0, 1, 2, 15, 16, 17, 24, 25, 300, 700, 2500};
    for (uint32_t d = 0; d < HD_COUNT_OF(dimensions); d++)
        for (uint32_t s = 0; s < HD_COUNT_OF(sizes); s++) {
            if ((uint64_t)dimensions[d] * sizes[s] > 800000) continue;
            for (data_kind kind = 0; kind < DATA_KINDS; kind++) {
                fixture *f = fixture_new(dimensions[d], sizes[s], kind);
                static const uint32_t ks[] = {0, 1, 5, 20, 50};
                check(f, ks[roll(5)]);
                check(f, 1 + roll(30));
                if (kind == s % DATA_KINDS) check(f, sizes[s] + roll(3) * 5);
                check_scoped(f, roll(sizes[s] + 1), 1 + roll(20));
                check_scoped(f, sizes[s], 1 + roll(20));
                fixture_free(f);
            }
        }
}

/* Stopped anywhere and gone on with, alone or with helping hands: what the parts give together is the answer. */
static void test_stop_and_resume(void **state) {
    enum { ROWS = 90000, K = 20, CORES = 4 };
    sh_crew *crew = sh_crew_new(CORES);
    for (uint32_t round = 0; round < 2 * DATA_KINDS; round++) {
        fixture *f = fixture_new(5, ROWS, (data_kind)(round / 2));
        sh_hit *expected = calloc(ROWS, sizeof(*expected)), hits[2 * K];
        uint32_t found = search_naively(f, 0, ROWS, expected);
        sh_search search = search_of(f, K);
        if (round % 2) search.crew = crew;
        uint32_t kept = 0;
        bool is_stopped = true;
        while (is_stopped) {
            f->asked = 0;
            f->stop_at = 1 + roll(3);
            uint32_t limit = search.row_start + roll(ROWS);
            search.measured_max = limit - search.row_start;
            sh_search_result result = {.hits = hits + kept};
            uint32_t start = search.row_start;
            sh_vector_index_search(f->index, &search, &result);
            assert_int_equal(result.measured, result.rows_done - start);
            assert_true(result.measured <= search.measured_max);
            is_stopped = result.is_stopped;
            search.row_start = result.rows_done;
            kept += result.hit_count;
            qsort_r(hits, kept, sizeof(*hits), compare_hits, f);
            kept = HD_MIN(kept, (uint32_t)K);
        }
        assert_hits_equal(hits, kept, expected, HD_MIN((uint32_t)K, found));
        free(expected);
        fixture_free(f);
    }
    sh_crew_free(crew);
}

/* Several callers at once, who share the hands: each gets the answer it gets alone, whoever scanned which piece. */
typedef struct sharer {
    fixture *f;
    sh_crew *crew;
    const sh_hit *expected;
    uint32_t expected_count, wrong;
} sharer;

static void *search_shared(void *self) {
    enum { SEARCHES = 40, K = 10 };
    sharer *s = self;
    for (uint32_t i = 0; i < SEARCHES; i++) {
        sh_hit hits[K];
        sh_search search = search_of(s->f, K);
        search.should_stop = NULL; /* the fixture counts the questions for one caller */
        search.crew = s->crew;
        sh_search_result result = {.hits = hits};
        sh_vector_index_search(s->f->index, &search, &result);
        bool is_right = result.hit_count == HD_MIN((uint32_t)K, s->expected_count) && !result.is_stopped;
        for (uint32_t h = 0; is_right && h < result.hit_count; h++)
            is_right = hits[h].slot == s->expected[h].slot && hits[h].score == s->expected[h].score;
        s->wrong += !is_right;
    }
    return NULL;
}

static void test_shared_hands(void **state) {
    enum { ROWS = 80000, CALLERS = 3, CORES = 4 };
    fixture *f = fixture_new(32, ROWS, DATA_BELL);
    sh_hit *expected = calloc(ROWS, sizeof(*expected));
    uint32_t found = search_naively(f, 0, ROWS, expected);
    sh_crew *crew = sh_crew_new(CORES);
    sharer sharers[CALLERS];
    pthread_t threads[CALLERS];
    for (uint32_t i = 0; i < CALLERS; i++) {
        sharers[i] = (sharer){.f = f, .crew = crew, .expected = expected, .expected_count = found};
        assert_int_equal(pthread_create(&threads[i], NULL, search_shared, &sharers[i]), 0);
    }
    for (uint32_t i = 0; i < CALLERS; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(sharers[i].wrong, 0);
    }
    sh_crew_free(crew);
    free(expected);
    fixture_free(f);
}

static void test_without_callbacks(void **state) {
    fixture *f = fixture_new(16, 1000, DATA_BELL);
    memset(f->is_wanted, 1, 2000);
    sh_hit expected[1000], hits[7];
    search_naively(f, 0, 1000, expected);
    sh_search search = search_of(f, 7);
    search.accepts = NULL;
    search.should_stop = NULL;
    sh_search_result result = {.hits = hits};
    sh_vector_index_search(f->index, &search, &result);
    assert_hits_equal(hits, result.hit_count, expected, 7);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t a = roll(1000), b = roll(1000);
        double cos = hd_figure_cos(sh_vector_index_get(f->index, a), sh_vector_index_get(f->index, b), 16);
        assert_true(sh_vector_index_cos_rows(f->index, a, b) == cos);
    }
    fixture_free(f);
}

/* Rows never move, and are counted. */
static void test_rows_stay(void **state) {
    sh_vector_index *index = sh_vector_index_new(3);
    size_t empty = sh_vector_index_memory_bytes(index);
    assert_true(empty < 4096);
    float vector[3] = {1, 2, 3};
    sh_vector_index_add(index, 9, vector);
    const float *first = sh_vector_index_get(index, 0);
    for (uint32_t i = 1; i < 20000; i++) {
        vector[0] = (float)i;
        sh_vector_index_add(index, i, vector);
    }
    assert_ptr_equal(first, sh_vector_index_get(index, 0));
    assert_true(first[0] == 1 && sh_vector_index_get(index, 19999)[0] == 19999);
    assert_true(sh_vector_index_memory_bytes(index) >= empty + 20000 * 3 * sizeof(float));
    sh_vector_index_free(index);
    sh_vector_index_free(NULL);
}

/* All kernels of this machine give the integers of the definition, extremes included. */
static void test_kernels(void **state) {
    const sh_kernels *kernels[3];
    uint32_t kernel_count = sh_kernels_list(kernels);
    assert_ptr_equal(sh_kernels_best(), kernels[0]);
    assert_string_equal(kernels[kernel_count - 1]->name, "plain");
    for (uint32_t turn = 0; turn < 300; turn++) {
        uint32_t stride = SH_CODES_STRIDE * (1 + roll(turn % 10 ? 12 : 128)), rows = roll(14);
        int8_t *query = malloc(stride), *codes = malloc((size_t)stride * (rows + 1));
        bool is_extreme = roll(3) == 0;
        for (uint32_t i = 0; i < stride; i++) query[i] = (int8_t)(is_extreme ? (roll(4) ? 127 : -127) : (int)roll(255) - 127);
        for (uint32_t i = 0; i < stride * rows; i++)
            codes[i] = (int8_t)(is_extreme ? (roll(4) ? 127 : -127) : (int)roll(255) - 127);
        const int8_t *pointers[14];
        for (uint32_t i = 0; i < rows; i++) pointers[i] = codes + (size_t)roll(rows) * stride;
        for (uint32_t k = 0; k < kernel_count; k++) {
            int32_t dots[15], gathered[15];
            dots[rows] = gathered[rows] = 12345;
            kernels[k]->dot_rows(query, codes, rows, stride, dots);
            kernels[k]->dot_gather(query, pointers, rows, stride, gathered);
            for (uint32_t i = 0; i < rows; i++) {
                int64_t dot = 0, dot_gathered = 0;
                for (uint32_t j = 0; j < stride; j++) {
                    dot += query[j] * codes[(size_t)i * stride + j];
                    dot_gathered += query[j] * pointers[i][j];
                }
                assert_int_equal(dots[i], dot);
                assert_int_equal(gathered[i], dot_gathered);
            }
            assert_true(dots[rows] == 12345 && gathered[rows] == 12345);
        }
        free(query);
        free(codes);
    }
    for (uint32_t k = 0; k < kernel_count; k++) print_message("ran %s\n", kernels[k]->name);
}

static int start_seed(void **state) {
    seed_now = seed_given;
    return 0;
}

int main(int argc, char **argv) {
    seed_given = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_against_naive, start_seed),
        cmocka_unit_test_setup(test_stop_and_resume, start_seed),
        cmocka_unit_test_setup(test_shared_hands, start_seed),
        cmocka_unit_test_setup(test_without_callbacks, start_seed),
        cmocka_unit_test(test_rows_stay),
        cmocka_unit_test_setup(test_kernels, start_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
