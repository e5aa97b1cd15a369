/* Vectors of one partition and exact search over them (vector_index.h has the contract).
 *
 * A row is kept twice: as floats, and as 8-bit codes of its direction. With v = s·c + r (c the codes, s the largest element / 127,
 * r what rounding left) and the query q = t·d + u in the same way,
 *
 *     q·v = t·s·(d·c) + q·r + u·(s·c),   so   |q·v − t·s·(d·c)| ≤ ‖q‖‖r‖ + ‖u‖(‖v‖ + ‖r‖)
 *
 * and over ‖q‖‖v‖:   |cos − (t/‖q‖)(s/‖v‖)(d·c)| ≤ R + U(1 + R)   with R = ‖r‖/‖v‖ of the row, U = ‖u‖/‖q‖ of the query.
 *
 * A search goes over the codes, block by block, and gives each row a lower and an upper bound. A row whose upper bound is below the
 * k-th best lower bound of accepted rows cannot be among the best and is left; the others are candidates. Those that still stand
 * against the final threshold are measured in double precision and ranked by (rounded cosine, ties). So the answer is that of
 * measuring every row, and depends neither on the kernel nor on blocks.
 *
 * One writer; a row is seen by readers who learned its number from it. Rows stand in bucket arrays and never move. */
#include "shard/vectors/vector_index.h"

#include <math.h>
#include <stdlib.h>

#include "common/figure.h"
#include "shard/buckets.h"
#include "shard/crew.h"
#include "shard/vectors/kernels.h"

enum {
    ROWS_BASE_LOG2 = 4,
    BLOCK_ROWS = 256,       /* rows between two looks at the threshold; their dots and pointers stay in the first-level cache */
    STOP_ROWS = 4096,       /* codes scanned between two questions whether to stop: some 50 µs at 256 dimensions */
    STOP_EXACT_ROWS = 512,  /* rows measured between two such questions */
    DIRECT_ROWS_MAX = 24,   /* up to here measuring at once is as fast (README.md) */
    MEMBERS_MAX = 8,        /* threads on one search: fewer than these fill the way to the memory */
    SHARED_BYTES = 1 << 21, /* of codes, from which on a second thread is worth its waking */
    FETCH_BYTES = 512,      /* of scattered codes: asked for while pointers are collected */
};

/* Rounding of the bounds themselves: a handful of float operations on values below 2. */
#define BOUND_SLACK 2e-6f
/* Scores are rounded to 10⁻⁶ before they are ranked: two rows closer than that may tie. */
#define ROUNDING_SLACK 1.1e-6

/* What bounds the cosine of a row, with the codes. */
typedef struct bound_parts {
    float scale;    /* s / ‖v‖ */
    float residual; /* R, rounded up */
} bound_parts;

typedef struct row_facts {
    double norm;
    uint32_t slot;
} row_facts;

struct sh_vector_index {
    sh_memory memory;
    uint32_t dimension;
    uint32_t stride; /* of codes */
    const sh_kernels *kernels;
    atomic_uint row_count;
    sh_buckets floats; /* dimension floats a row */
    sh_buckets codes;  /* stride codes a row */
    sh_buckets bounds; /* bound_parts */
    sh_buckets facts;  /* row_facts */
};

/* -- rows -------------------------------------------------------------------------------------------------------------------- */

sh_vector_index *sh_vector_index_new(uint32_t dimension) {
    sh_vector_index *index = hd_alloc_zero(1, sizeof(*index));
    sh_memory_init(&index->memory);
    index->dimension = dimension;
    index->stride = (dimension + SH_CODES_STRIDE - 1) / SH_CODES_STRIDE * SH_CODES_STRIDE;
    index->kernels = sh_kernels_best();
    sh_buckets_init(&index->floats, ROWS_BASE_LOG2, dimension * sizeof(float));
    sh_buckets_init(&index->codes, ROWS_BASE_LOG2, index->stride);
    sh_buckets_init(&index->bounds, ROWS_BASE_LOG2, sizeof(bound_parts));
    sh_buckets_init(&index->facts, ROWS_BASE_LOG2, sizeof(row_facts));
    return index;
}

void sh_vector_index_free(sh_vector_index *index) {
    if (!index) return;
    sh_buckets_fini(&index->floats, &index->memory);
    sh_buckets_fini(&index->codes, &index->memory);
    sh_buckets_fini(&index->bounds, &index->memory);
    sh_buckets_fini(&index->facts, &index->memory);
    sh_memory_fini(&index->memory);
    hd_free(index);
}

uint32_t sh_vector_index_rows(const sh_vector_index *index) {
    return atomic_load_explicit(&index->row_count, memory_order_acquire);
}

/* What rows use, not what their buckets reserve: pages that nobody wrote to take no memory. */
size_t sh_vector_index_memory_bytes(const sh_vector_index *index) {
    size_t row = index->dimension * sizeof(float) + index->stride + sizeof(bound_parts) + sizeof(row_facts);
    return sizeof(*index) + row * sh_vector_index_rows(index);
}

const float *sh_vector_index_get(const sh_vector_index *index, uint32_t row) {
    return sh_buckets_at(&index->floats, row, index->floats.item_size);
}

static const int8_t *codes_of(const sh_vector_index *index, uint32_t row) {
    return sh_buckets_at(&index->codes, row, index->stride);
}

static const bound_parts *bounds_of(const sh_vector_index *index, uint32_t row) {
    return sh_buckets_at(&index->bounds, row, sizeof(bound_parts));
}

static const row_facts *facts_of(const sh_vector_index *index, uint32_t row) {
    return sh_buckets_at(&index->facts, row, sizeof(row_facts));
}

uint32_t sh_vector_index_slot(const sh_vector_index *index, uint32_t row) {
    return facts_of(index, row)->slot;
}

/* Writes the codes of `vector`, padded with zeros, and what bounds the error of taking them for it. */
static bound_parts quantise(const float *vector, double norm, uint32_t dimension, uint32_t stride, int8_t *codes) {
    float largest = 0;
    for (uint32_t i = 0; i < dimension; i++) largest = HD_MAX(largest, fabsf(vector[i]));
    double step = largest / 127.0, codes_per_unit = largest > 0 ? 127.0 / largest : 0, squares = 0;
    memset(codes, 0, stride);
    for (uint32_t i = 0; i < dimension; i++) {
        double scaled = vector[i] * codes_per_unit;
        /* To the nearest, |code| ≤ 127 by the choice of the step. However it is rounded, the residual is what it left. */
        int32_t code = (int32_t)(scaled + (scaled < 0 ? -0.5 : 0.5));
        double residual = vector[i] - step * code;
        squares += residual * residual;
        codes[i] = (int8_t)code;
    }
    return (bound_parts){.scale = (float)(step / norm), .residual = (float)(sqrt(squares) / norm * (1 + 1e-6))};
}

uint32_t sh_vector_index_add(sh_vector_index *index, uint32_t slot, const float *vector) {
    uint32_t row = atomic_load_explicit(&index->row_count, memory_order_relaxed);
    sh_buckets_reserve(&index->floats, &index->memory, row);
    sh_buckets_reserve(&index->codes, &index->memory, row);
    sh_buckets_reserve(&index->bounds, &index->memory, row);
    sh_buckets_reserve(&index->facts, &index->memory, row);
    memcpy((float *)sh_vector_index_get(index, row), vector, index->dimension * sizeof(float));
    *(row_facts *)facts_of(index, row) = (row_facts){hd_figure_norm(vector, index->dimension), slot};
    *(bound_parts *)bounds_of(index, row) =
        quantise(vector, facts_of(index, row)->norm, index->dimension, index->stride, (int8_t *)codes_of(index, row));
    atomic_store_explicit(&index->row_count, row + 1, memory_order_release);
    return row;
}

/* hd_figure_cos with the norms known: the same operations in the same order. */
static double cos_with_norms(const sh_vector_index *index, uint32_t row, const float *other, double other_norm) {
    double dot = hd_figure_dot(sh_vector_index_get(index, row), other, index->dimension);
    return hd_figure_round(dot / (facts_of(index, row)->norm * other_norm));
}

double sh_vector_index_cos_rows(const sh_vector_index *index, uint32_t a, uint32_t b) {
    return cos_with_norms(index, a, sh_vector_index_get(index, b), facts_of(index, b)->norm);
}

double sh_vector_index_cos(const sh_vector_index *index, uint32_t row, const float *query) {
    return cos_with_norms(index, row, query, hd_figure_norm(query, index->dimension));
}

/* -- search: the best so far ----------------------------------------------------------------------------------------------------- */

typedef struct candidate {
    uint32_t position, row;
    float upper;
} candidate;

/* What one member of a search has found among the codes it scanned. */
typedef struct sieve {
    float *lowers; /* min-heap of the best lower bounds of accepted rows, hits_max at most */
    uint32_t lower_count;
    candidate *candidates; /* in order of position */
    uint32_t candidate_count, candidate_capacity;
    uint32_t pruned_count; /* candidates left by the last pruning */
} sieve;

/* One search under way. Positions count rows from 0, or entries of search->rows. Members read it; all they write is their own sieve,
 * `taken` and `is_stopped`. */
typedef struct scan {
    const sh_vector_index *index;
    const sh_search *search;
    sh_search_result *result;
    double query_norm;
    int8_t *query_codes;
    bound_parts query; /* scale t/‖q‖ and U */
    uint32_t hits_max;
    uint32_t end;
    atomic_uint taken; /* positions below it are scanned, or being scanned */
    atomic_bool is_stopped;
    sieve sieves[MEMBERS_MAX];
} scan;

static uint32_t row_at(const scan *s, uint32_t position) {
    return s->search->rows ? s->search->rows[position] : position;
}

static bool is_accepted(const scan *s, uint32_t row) {
    return !s->search->accepts || s->search->accepts(s->search->self, sh_vector_index_slot(s->index, row));
}

static bool is_stop_asked(const scan *s) {
    return s->search->should_stop && s->search->should_stop(s->search->self);
}

/* Does hit a come before hit b in the answer? */
static bool is_better(const scan *s, const sh_hit *a, const sh_hit *b) {
    if (a->score != b->score) return a->score > b->score;
    return s->search->compare_ties(s->search->self, a->slot, b->slot) < 0;
}

/* Restores the heap (the worst hit on top) below `at`. */
static void sift_down(const scan *s, uint32_t at, uint32_t count) {
    sh_hit *hits = s->result->hits;
    for (;;) {
        uint32_t worst = at, left = 2 * at + 1;
        if (left < count && is_better(s, &hits[worst], &hits[left])) worst = left;
        if (left + 1 < count && is_better(s, &hits[worst], &hits[left + 1])) worst = left + 1;
        if (worst == at) return;
        sh_hit hit = hits[at];
        hits[at] = hits[worst];
        hits[worst] = hit;
        at = worst;
    }
}

static void add_hit(scan *s, sh_hit hit) {
    sh_search_result *result = s->result;
    sh_hit *hits = result->hits;
    if (result->hit_count == s->hits_max) {
        if (!is_better(s, &hit, &hits[0])) return;
        hits[0] = hit;
        sift_down(s, 0, result->hit_count);
        return;
    }
    uint32_t at = result->hit_count++;
    for (; at > 0 && is_better(s, &hits[(at - 1) / 2], &hit); at = (at - 1) / 2) hits[at] = hits[(at - 1) / 2];
    hits[at] = hit;
}

/* From the heap to best first. */
static void sort_hits(scan *s) {
    sh_hit *hits = s->result->hits;
    for (uint32_t count = s->result->hit_count; count > 1; count--) {
        sh_hit worst = hits[0];
        hits[0] = hits[count - 1];
        hits[count - 1] = worst;
        sift_down(s, 0, count - 1);
    }
}

static void measure(scan *s, uint32_t row) {
    double score = cos_with_norms(s->index, row, s->search->query, s->query_norm);
    if (isfinite(score)) add_hit(s, (sh_hit){sh_vector_index_slot(s->index, row), score});
}

/* -- search: the pass over the codes --------------------------------------------------------------------------------------------- */

/* The k-th best lower bound, less what rounding could hide: below it a row is out. */
static float threshold(const scan *s, const sieve *found) {
    return found->lower_count < s->hits_max ? -INFINITY : found->lowers[0] - (float)ROUNDING_SLACK - BOUND_SLACK;
}

static void add_lower(const scan *s, sieve *found, float lower) {
    float *heap = found->lowers;
    uint32_t at;
    if (found->lower_count < s->hits_max) {
        at = found->lower_count++;
        for (; at > 0 && heap[(at - 1) / 2] > lower; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
        heap[at] = lower;
        return;
    }
    if (lower <= heap[0]) return;
    for (at = 0;;) {
        uint32_t child = 2 * at + 1;
        if (child >= found->lower_count) break;
        if (child + 1 < found->lower_count && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= lower) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = lower;
}

static void prune_candidates(const scan *s, sieve *found) {
    float limit = threshold(s, found);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < found->candidate_count; i++)
        if (found->candidates[i].upper >= limit) found->candidates[kept++] = found->candidates[i];
    found->candidate_count = found->pruned_count = kept;
}

static void add_candidate(const scan *s, sieve *found, candidate one) {
    if (found->candidate_count == found->candidate_capacity) {
        /* Most of an old crowd falls to today's threshold; room is needed only where it does not. */
        if (found->candidate_count > 2 * found->pruned_count) prune_candidates(s, found);
        if (found->candidate_count >= found->candidate_capacity / 2) {
            found->candidate_capacity = found->candidate_capacity ? 2 * found->candidate_capacity : 1024;
            found->candidates = hd_realloc(found->candidates, found->candidate_capacity * sizeof(*found->candidates));
        }
    }
    found->candidates[found->candidate_count++] = one;
}

/* Bounds from dots; the rows that could be among the best become candidates. */
static void weigh_block(const scan *s, sieve *found, uint32_t position, uint32_t count, const bound_parts *bounds,
                        const int32_t *dots) {
    float uppers[BLOCK_ROWS];
    float scale = s->query.scale, residual = s->query.residual;
    for (uint32_t i = 0; i < count; i++) {
        float error = residual + bounds[i].residual * (1 + residual) + BOUND_SLACK;
        uppers[i] = (float)dots[i] * (scale * bounds[i].scale) + error;
    }
    float limit = threshold(s, found);
    for (uint32_t i = 0; i < count; i++) {
        if (uppers[i] < limit) continue; /* a row without a norm is NaN here: it stays, and is left out when measured */
        uint32_t row = row_at(s, position + i);
        if (!is_accepted(s, row)) continue;
        float error = residual + bounds[i].residual * (1 + residual) + BOUND_SLACK;
        add_candidate(s, found, (candidate){position + i, row, uppers[i]});
        if (isfinite(uppers[i])) add_lower(s, found, uppers[i] - 2 * error);
        limit = threshold(s, found);
    }
}

/* One block, at most BLOCK_ROWS and within one bucket; how many positions it took. */
static uint32_t scan_block(const scan *s, sieve *found, uint32_t position, uint32_t end) {
    const sh_vector_index *index = s->index;
    int32_t dots[BLOCK_ROWS];
    uint32_t count = HD_MIN(end - position, (uint32_t)BLOCK_ROWS);
    if (!s->search->rows) {
        size_t offset;
        uint32_t bucket = sh_buckets_find(&index->codes, position, &offset);
        count = (uint32_t)HD_MIN((size_t)count, sh_buckets_bucket_items(&index->codes, bucket) - offset);
        index->kernels->dot_rows(s->query_codes, codes_of(index, position), count, index->stride, dots);
        weigh_block(s, found, position, count, bounds_of(index, position), dots);
        return count;
    }
    const int8_t *codes[BLOCK_ROWS];
    bound_parts bounds[BLOCK_ROWS];
    for (uint32_t i = 0; i < count; i++) {
        codes[i] = codes_of(index, s->search->rows[position + i]);
        for (uint32_t byte = 0; byte < HD_MIN(index->stride, (uint32_t)FETCH_BYTES); byte += 64)
            __builtin_prefetch(codes[i] + byte);
        bounds[i] = *bounds_of(index, s->search->rows[position + i]);
    }
    index->kernels->dot_gather(s->query_codes, codes, count, index->stride, dots);
    weigh_block(s, found, position, count, bounds, dots);
    return count;
}

/* What a member does: pieces of the codes, one after the other, until none is left. The caller alone (member 0) asks whether to stop; a
 * piece that was taken is finished, so that what is done is all that lies below `taken`. */
static void scan_pieces(void *self, uint32_t member) {
    scan *s = self;
    sieve *found = &s->sieves[member];
    found->lowers = hd_alloc(s->hits_max * sizeof(*found->lowers));
    while (!atomic_load_explicit(&s->is_stopped, memory_order_relaxed)) {
        uint32_t position = atomic_load_explicit(&s->taken, memory_order_relaxed), piece_end;
        do {
            if (position == s->end) return;
            piece_end = position + HD_MIN(s->end - position, (uint32_t)STOP_ROWS);
        } while (!atomic_compare_exchange_weak(&s->taken, &position, piece_end));
        while (position < piece_end) position += scan_block(s, found, position, piece_end);
        if (member == 0 && atomic_load(&s->taken) < s->end && is_stop_asked(s)) atomic_store(&s->is_stopped, true);
    }
}

static int compare_positions(const void *a, const void *b) {
    uint32_t left = ((const candidate *)a)->position, right = ((const candidate *)b)->position;
    return (left > right) - (left < right);
}

/* All that the members found, in the first sieve. */
static sieve *gather_sieves(scan *s) {
    sieve *all = &s->sieves[0];
    bool is_ordered = true;
    for (uint32_t m = 1; m < MEMBERS_MAX; m++) {
        sieve *other = &s->sieves[m];
        for (uint32_t i = 0; i < other->lower_count; i++) add_lower(s, all, other->lowers[i]);
        for (uint32_t i = 0; i < other->candidate_count; i++, is_ordered = false) add_candidate(s, all, other->candidates[i]);
        hd_free(other->lowers);
        hd_free(other->candidates);
    }
    prune_candidates(s, all);
    if (!is_ordered && all->candidate_count > 1)
        qsort(all->candidates, all->candidate_count, sizeof(*all->candidates), compare_positions);
    return all;
}

/* The candidates that still stand, measured. */
static void measure_candidates(scan *s, const sieve *found) {
    uint32_t measured = 0;
    for (uint32_t i = 0; i < found->candidate_count; i++) {
        const candidate *c = &found->candidates[i];
        bool is_full = s->result->hit_count == s->hits_max;
        if (is_full && (double)c->upper + ROUNDING_SLACK < s->result->hits[0].score) continue;
        /* Where the scan was stopped already, what it found is still told: few rows, as a rule. */
        if (++measured % STOP_EXACT_ROWS == 0 && !s->result->is_stopped && is_stop_asked(s)) {
            s->result->is_stopped = true;
            s->result->rows_done = c->position;
            return;
        }
        measure(s, c->row);
    }
}

static void scan_codes(scan *s, uint32_t start, uint32_t end) {
    const sh_vector_index *index = s->index;
    s->query_codes = hd_alloc(index->stride);
    s->query = quantise(s->search->query, s->query_norm, index->dimension, index->stride, s->query_codes);
    s->end = end;
    atomic_init(&s->taken, start);
    bool is_large = (uint64_t)(end - start) * index->stride >= SHARED_BYTES;
    sh_crew_share(s->search->crew, is_large ? MEMBERS_MAX : 1, scan_pieces, s);
    s->result->is_stopped = atomic_load(&s->is_stopped);
    s->result->rows_done = atomic_load(&s->taken);
    sieve *found = gather_sieves(s);
    measure_candidates(s, found);
    hd_free(found->candidates);
    hd_free(found->lowers);
    hd_free(s->query_codes);
}

/* Few rows: measured one by one. */
static void scan_directly(scan *s, uint32_t start, uint32_t end) {
    for (uint32_t position = start; position < end; position++) {
        uint32_t row = row_at(s, position);
        if (is_accepted(s, row)) measure(s, row);
    }
    s->result->rows_done = end;
}

void sh_vector_index_search(const sh_vector_index *index, const sh_search *search, sh_search_result *result) {
    uint32_t count = search->rows ? search->row_count : search->row_end;
    uint32_t start = HD_MIN(search->row_start, count);
    uint32_t end = start + (uint32_t)HD_MIN((uint64_t)(count - start), search->measured_max);
    sh_hit *hits = result->hits;
    *result = (sh_search_result){.hits = hits, .rows_done = start};
    if (search->k == 0) return;

    scan s = {.index = index, .search = search, .result = result, .hits_max = HD_MIN(search->k, end - start)};
    s.query_norm = hd_figure_norm(search->query, index->dimension);
    if (end - start <= DIRECT_ROWS_MAX)
        scan_directly(&s, start, end);
    else
        scan_codes(&s, start, end);
    sort_hits(&s);
    result->measured = result->rows_done - start;

    /* Was something left? Only a row that is wanted counts. */
    for (uint32_t position = end; position < count && !result->is_stopped; position++)
        result->is_over_budget = result->is_stopped = is_accepted(&s, row_at(&s, position));
}
