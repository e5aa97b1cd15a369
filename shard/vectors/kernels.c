/* See kernels.h. Each kind is one function over four rows at once (four sums share one load of the query, and are added up across
 * in one go), expanded into the two loops.
 *
 * Sums cannot overflow: 127² · 4096 < 2²⁷. AVX2 multiplies |query| (unsigned) by the row with the query's signs; a pair of products
 * is at most 2 · 127² = 32,258 and fits 16 bits without saturating. VNNI wants one side unsigned: the row's codes are raised by 128
 * (their top bit turned), and 128 · Σ query is taken off the sum. */
#include "shard/vectors/kernels.h"

#if defined(__x86_64__)
#include <immintrin.h>
#define HAS_X86 1
#else
#define HAS_X86 0
#endif

/* Rows that follow each other are asked for this far ahead of their use: some 10 % on a processor whose own prefetching stops at
 * pages (README.md). */
enum { AHEAD_BYTES = 768 };

/* The loops of one kind: `dot4` takes four row pointers. A last group of fewer repeats its last row. */
#define KERNEL_LOOPS(kind, attributes, make_context)                                                                              \
    attributes static void dot_rows_##kind(const int8_t *query, const int8_t *rows, uint32_t row_count, uint32_t stride,          \
                                           int32_t *dots_out) {                                                                   \
        int32_t context = make_context(query, stride);                                                                            \
        uint32_t i = 0;                                                                                                           \
        for (; i + 4 <= row_count; i += 4) {                                                                                      \
            const int8_t *row = rows + (size_t)i * stride;                                                                        \
            dot4_##kind(query, context, row, row + stride, row + 2 * (size_t)stride, row + 3 * (size_t)stride, stride,            \
                        AHEAD_BYTES, dots_out + i);                                                                               \
        }                                                                                                                         \
        for (; i < row_count; i++) {                                                                                              \
            const int8_t *row = rows + (size_t)i * stride;                                                                        \
            int32_t dots[4];                                                                                                      \
            dot4_##kind(query, context, row, row, row, row, stride, 0, dots);                                                     \
            dots_out[i] = dots[0];                                                                                                \
        }                                                                                                                         \
    }                                                                                                                             \
    attributes static void dot_gather_##kind(const int8_t *query, const int8_t *const *rows, uint32_t row_count, uint32_t stride, \
                                             int32_t *dots_out) {                                                                 \
        int32_t context = make_context(query, stride);                                                                            \
        uint32_t i = 0;                                                                                                           \
        for (; i + 4 <= row_count; i += 4)                                                                                        \
            dot4_##kind(query, context, rows[i], rows[i + 1], rows[i + 2], rows[i + 3], stride, 0, dots_out + i);                 \
        for (; i < row_count; i++) {                                                                                              \
            int32_t dots[4];                                                                                                      \
            dot4_##kind(query, context, rows[i], rows[i], rows[i], rows[i], stride, 0, dots);                                     \
            dots_out[i] = dots[0];                                                                                                \
        }                                                                                                                         \
    }

/* -- plain C ------------------------------------------------------------------------------------------------------------------ */

static int32_t no_context(const int8_t *query, uint32_t stride) {
    (void)query;
    (void)stride;
    return 0;
}

static inline void dot4_plain(const int8_t *query, int32_t context, const int8_t *a, const int8_t *b, const int8_t *c,
                              const int8_t *d, uint32_t stride, uint32_t ahead, int32_t *dots_out) {
    (void)context;
    (void)ahead;
    int32_t sums[4] = {0};
    for (uint32_t j = 0; j < stride; j++) {
        int32_t q = query[j];
        sums[0] += q * a[j];
        sums[1] += q * b[j];
        sums[2] += q * c[j];
        sums[3] += q * d[j];
    }
    memcpy(dots_out, sums, sizeof(sums));
}

KERNEL_LOOPS(plain, , no_context)

static const sh_kernels plain = {"plain", dot_rows_plain, dot_gather_plain};

#if HAS_X86

static inline void fetch_ahead(const int8_t *a, const int8_t *b, const int8_t *c, const int8_t *d, uint32_t ahead) {
    _mm_prefetch((const char *)a + ahead, _MM_HINT_T0);
    _mm_prefetch((const char *)b + ahead, _MM_HINT_T0);
    _mm_prefetch((const char *)c + ahead, _MM_HINT_T0);
    _mm_prefetch((const char *)d + ahead, _MM_HINT_T0);
}

/* -- AVX2 ----------------------------------------------------------------------------------------------------------------------- */

#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i add_products_avx2(__m256i sum, __m256i query, __m256i magnitude, const int8_t *row) {
    __m256i codes = _mm256_loadu_si256((const __m256i *)row);
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(codes, query));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

AVX2 static inline void dot4_avx2(const int8_t *query, int32_t context, const int8_t *a, const int8_t *b, const int8_t *c,
                                  const int8_t *d, uint32_t stride, uint32_t ahead, int32_t *dots_out) {
    (void)context;
    __m256i sum_a = _mm256_setzero_si256(), sum_b = sum_a, sum_c = sum_a, sum_d = sum_a;
    for (uint32_t j = 0; j < stride; j += 32) {
        __m256i q = _mm256_loadu_si256((const __m256i *)(query + j));
        __m256i magnitude = _mm256_abs_epi8(q);
        if (ahead && j % 64 == 0) fetch_ahead(a + j, b + j, c + j, d + j, ahead);
        sum_a = add_products_avx2(sum_a, q, magnitude, a + j);
        sum_b = add_products_avx2(sum_b, q, magnitude, b + j);
        sum_c = add_products_avx2(sum_c, q, magnitude, c + j);
        sum_d = add_products_avx2(sum_d, q, magnitude, d + j);
    }
    /* Two rounds of adding neighbours leave, in each half, the four sums side by side. */
    __m256i all = _mm256_hadd_epi32(_mm256_hadd_epi32(sum_a, sum_b), _mm256_hadd_epi32(sum_c, sum_d));
    __m128i dots = _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
    _mm_storeu_si128((__m128i *)dots_out, dots);
}

KERNEL_LOOPS(avx2, AVX2, no_context)

static const sh_kernels avx2 = {"avx2", dot_rows_avx2, dot_gather_avx2};

/* -- AVX-512 VNNI ----------------------------------------------------------------------------------------------------------------- */

#define VNNI __attribute__((target("avx2,avx512f,avx512bw,avx512vl,avx512vnni")))

/* 128 · Σ query: what raising the row's codes by 128 adds to a dot product. */
static int32_t excess(const int8_t *query, uint32_t stride) {
    int32_t sum = 0;
    for (uint32_t j = 0; j < stride; j++) sum += query[j];
    return 128 * sum;
}

VNNI static inline __m512i add_products_vnni(__m512i sum, __m512i query, const int8_t *row, __mmask64 mask) {
    __m512i codes = _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, row), _mm512_set1_epi8((char)0x80));
    return _mm512_dpbusd_epi32(sum, codes, query);
}

VNNI static inline void dot4_vnni(const int8_t *query, int32_t context, const int8_t *a, const int8_t *b, const int8_t *c,
                                  const int8_t *d, uint32_t stride, uint32_t ahead, int32_t *dots_out) {
    __m512i sum_a = _mm512_setzero_si512(), sum_b = sum_a, sum_c = sum_a, sum_d = sum_a;
    for (uint32_t j = 0; j < stride; j += 64) {
        /* The last 32 codes where the stride is no multiple of 64: the query's missing ones are zero, so the row's do not count. */
        __mmask64 mask = j + 64 <= stride ? ~(__mmask64)0 : (__mmask64)0xffffffff;
        if (ahead) fetch_ahead(a + j, b + j, c + j, d + j, ahead);
        __m512i q = _mm512_maskz_loadu_epi8(mask, query + j);
        sum_a = add_products_vnni(sum_a, q, a + j, mask);
        sum_b = add_products_vnni(sum_b, q, b + j, mask);
        sum_c = add_products_vnni(sum_c, q, c + j, mask);
        sum_d = add_products_vnni(sum_d, q, d + j, mask);
    }
    dots_out[0] = _mm512_reduce_add_epi32(sum_a) - context;
    dots_out[1] = _mm512_reduce_add_epi32(sum_b) - context;
    dots_out[2] = _mm512_reduce_add_epi32(sum_c) - context;
    dots_out[3] = _mm512_reduce_add_epi32(sum_d) - context;
}

KERNEL_LOOPS(vnni, VNNI, excess)

static const sh_kernels vnni = {"avx512-vnni", dot_rows_vnni, dot_gather_vnni};

#endif

/* -- which ---------------------------------------------------------------------------------------------------------------------- */

uint32_t sh_kernels_list(const sh_kernels *kernels_out[3]) {
    uint32_t count = 0;
#if HAS_X86
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512vnni"))
        kernels_out[count++] = &vnni;
    if (__builtin_cpu_supports("avx2")) kernels_out[count++] = &avx2;
#endif
    kernels_out[count++] = &plain;
    return count;
}

const sh_kernels *sh_kernels_best(void) {
    const sh_kernels *kernels[3];
    sh_kernels_list(kernels);
    return kernels[0];
}
