/* How long one exact search takes, by the way it is done: this decides what the vector index uses (shard/vectors/README.md has the
 * figures). Built with -DHEDDLE_BENCH=ON; run as
 *
 *     micro_vectors [rows] [dimension] [queries]
 *
 * Data: 500 cluster centres in a 32-dimensional space, projected, plus noise, normalised; queries from the same. Times are of the
 * calling thread's processor, p50 over the queries after one that warms up, all ways taking turns, on one thread. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#ifdef HAVE_OPENBLAS
#include <cblas.h>
#endif

#include "common/figure.h"
#include "shard/vectors/kernels.h"
#include "shard/vectors/vector_index.h"

enum { LATENT = 32, CLUSTERS = 500, K = 10, WAYS_MAX = 8 };

static uint64_t seed_now = 1;

static float unit(void) {
    seed_now += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t x = seed_now;
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (float)((double)((x ^ (x >> 31)) >> 11) / (double)(UINT64_C(1) << 52) - 1);
}

static float bell(void) {
    return (unit() + unit() + unit() + unit()) * 0.866f; /* variance 1 */
}

static double now_ms(void) {
    struct timespec at;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e3 + (double)at.tv_nsec / 1e6;
}

/* -- data -------------------------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    uint32_t rows, dimension, query_count;
    float *floats;  /* rows × dimension, contiguous: for the ways that are not the index */
    float *queries; /* query_count × dimension */
    sh_vector_index *index;
    float *scores; /* a score a row */
    int8_t *codes, *query_codes;
    uint32_t stride;
} bench;

static void fill_rows(float *out, uint32_t count, uint32_t dimension, const float *centres, const float *projection) {
    for (uint32_t i = 0; i < count; i++) {
        const float *centre = centres + (size_t)((unit() + 1) / 2 * (CLUSTERS - 1)) * LATENT;
        float latent[LATENT], *row = out + (size_t)i * dimension, norm = 0;
        for (uint32_t l = 0; l < LATENT; l++) latent[l] = centre[l] + 0.3f * bell();
        for (uint32_t j = 0; j < dimension; j++) {
            row[j] = 0.2f * bell();
            for (uint32_t l = 0; l < LATENT; l++) row[j] += latent[l] * projection[(size_t)j * LATENT + l] / 5.7f;
            norm += row[j] * row[j];
        }
        for (uint32_t j = 0; j < dimension; j++) row[j] /= sqrtf(norm);
    }
}

static void make_data(bench *b) {
    float *centres = hd_alloc(CLUSTERS * LATENT * sizeof(float));
    float *projection = hd_alloc((size_t)b->dimension * LATENT * sizeof(float));
    for (uint32_t i = 0; i < CLUSTERS * LATENT; i++) centres[i] = bell();
    for (uint32_t i = 0; i < b->dimension * LATENT; i++) projection[i] = bell();
    b->floats = hd_alloc((size_t)b->rows * b->dimension * sizeof(float));
    b->queries = hd_alloc((size_t)b->query_count * b->dimension * sizeof(float));
    fill_rows(b->floats, b->rows, b->dimension, centres, projection);
    fill_rows(b->queries, b->query_count, b->dimension, centres, projection);
    hd_free(centres);
    hd_free(projection);
    b->scores = hd_alloc(b->rows * sizeof(float));
    b->stride = (b->dimension + SH_CODES_STRIDE - 1) / SH_CODES_STRIDE * SH_CODES_STRIDE;
    b->codes = hd_alloc_zero(b->rows, b->stride);
    b->query_codes = hd_alloc_zero(1, b->stride);
    for (size_t i = 0; i < (size_t)b->rows * b->stride; i++) b->codes[i] = (int8_t)(unit() * 127);
    for (uint32_t i = 0; i < b->stride; i++) b->query_codes[i] = (int8_t)(unit() * 127);
    double start = now_ms();
    b->index = sh_vector_index_new(b->dimension);
    for (uint32_t i = 0; i < b->rows; i++) sh_vector_index_add(b->index, i, b->floats + (size_t)i * b->dimension);
    printf("built in %.0f ms\n", now_ms() - start);
}

/* -- ways --------------------------------------------------------------------------------------------------------------------------- */

static bool accept_all(void *self, uint32_t slot) {
    (void)self;
    (void)slot;
    return true;
}

static int compare_slots(void *self, uint32_t a, uint32_t b) {
    (void)self;
    return (a > b) - (a < b);
}

static void run_index(bench *b, const float *query) {
    sh_hit hits[K];
    sh_search search = {.query = query,
                        .k = K,
                        .row_end = b->rows,
                        .accepts = accept_all,
                        .compare_ties = compare_slots,
                        .measured_max = UINT64_MAX};
    sh_search_result result = {.hits = hits};
    sh_vector_index_search(b->index, &search, &result);
}

static void run_codes(bench *b, const sh_kernels *kernels) {
    int32_t dots[256];
    for (uint32_t i = 0; i < b->rows; i += 256)
        kernels->dot_rows(b->query_codes, b->codes + (size_t)i * b->stride, HD_MIN(256u, b->rows - i), b->stride, dots);
}

typedef float floats8 __attribute__((vector_size(32), aligned(4)));

__attribute__((target_clones("avx512f", "avx2,fma", "default"), optimize("O3", "fp-contract=fast"))) static void run_floats(
    bench *b, const float *query) {
    for (uint32_t i = 0; i < b->rows; i++) {
        const float *row = b->floats + (size_t)i * b->dimension;
        floats8 sums[4] = {0};
        uint32_t j = 0;
        for (; j + 32 <= b->dimension; j += 32)
            for (uint32_t l = 0; l < 4; l++) sums[l] += *(const floats8 *)(row + j + 8 * l) * *(const floats8 *)(query + j + 8 * l);
        floats8 all = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        float sum = all[0] + all[1] + all[2] + all[3] + all[4] + all[5] + all[6] + all[7];
        for (; j < b->dimension; j++) sum += row[j] * query[j];
        b->scores[i] = sum;
    }
}

static void run_doubles(bench *b, const float *query) {
    for (uint32_t i = 0; i < b->rows; i++)
        b->scores[i] = (float)hd_figure_dot(b->floats + (size_t)i * b->dimension, query, b->dimension);
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const char *name, double *times, uint32_t count, size_t bytes) {
    qsort(times, count, sizeof(*times), compare_doubles);
    double p50 = times[count / 2];
    printf("%-34s p50 %8.3f ms   min %8.3f ms   %6.1f GB/s\n", name, p50, times[0], (double)bytes / 1e6 / p50);
}

int main(int argc, char **argv) {
    bench b = {.rows = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 100000,
               .dimension = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 256,
               .query_count = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 60};
    if (b.rows == 0 || b.dimension == 0 || b.query_count == 0) {
        fprintf(stderr, "usage: micro_vectors [rows] [dimension] [queries]\n");
        return 2;
    }
    make_data(&b);
    const sh_kernels *kernels[3];
    uint32_t kernel_count = sh_kernels_list(kernels);
    double *times[WAYS_MAX];
    for (uint32_t way = 0; way < WAYS_MAX; way++) times[way] = hd_alloc_zero(b.query_count, sizeof(double));
    for (uint32_t q = 0; q <= b.query_count; q++) {
        const float *query = b.queries + (size_t)(q ? q - 1 : 0) * b.dimension;
        for (uint32_t way = 0; way < WAYS_MAX; way++) {
            double start = now_ms();
            if (way == 0)
                run_index(&b, query);
            else if (way == 1)
                run_floats(&b, query);
            else if (way == 2)
                run_doubles(&b, query);
#ifdef HAVE_OPENBLAS
            else if (way == 3)
                cblas_sgemv(CblasRowMajor, CblasNoTrans, (int)b.rows, (int)b.dimension, 1, b.floats, (int)b.dimension, query, 1, 0,
                            b.scores, 1);
#endif
            else if (way >= 4 && way - 4 < kernel_count)
                run_codes(&b, kernels[way - 4]);
            if (q > 0) times[way][q - 1] = now_ms() - start;
        }
    }
    size_t floats = (size_t)b.rows * b.dimension * sizeof(float);
    printf("%u rows, %u dimensions, k %d, %u queries\n", b.rows, b.dimension, K, b.query_count);
    report("index (int8, then exact), whole", times[0], b.query_count, (size_t)b.rows * b.stride);
    report("float kernel, scores alone", times[1], b.query_count, floats);
    report("double (hd_figure_dot), scores alone", times[2], b.query_count, floats);
#ifdef HAVE_OPENBLAS
    report("OpenBLAS sgemv, scores alone", times[3], b.query_count, floats);
    printf("(OpenBLAS core: %s, threads: %d)\n", openblas_get_corename(), openblas_get_num_threads());
#endif
    for (uint32_t i = 0; i < kernel_count; i++) {
        char name[64];
        snprintf(name, sizeof(name), "int8 kernel %s, dots alone", kernels[i]->name);
        report(name, times[4 + i], b.query_count, (size_t)b.rows * b.stride);
    }
    return 0;
}
