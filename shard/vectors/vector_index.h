/* The vectors of one partition: rows of 32-bit floats, added in order, never moved; search by cosine.
 * This is the interface behind which approximate segments will stand: a mutable tail scanned exactly by our kernels, and later
 * sealed segments under FAISS. Exact means exact: a fast first pass (int8 codes, then floats) keeps every row that its error bound
 * cannot exclude, and what is kept is measured in double precision as common/figure.h says.
 * One writer, many readers, as in graph.h. */
#ifndef SH_VECTORS_VECTOR_INDEX_H
#define SH_VECTORS_VECTOR_INDEX_H

#include "common/base.h"

typedef struct sh_vector_index sh_vector_index;

sh_vector_index *sh_vector_index_new(uint32_t dimension);
void sh_vector_index_free(sh_vector_index *index);
/* Appends a vector (not zero, finite) that belongs to `slot`; returns its row. Not seen by readers before they know the row. */
uint32_t sh_vector_index_add(sh_vector_index *index, uint32_t slot, const float *vector);
uint32_t sh_vector_index_rows(const sh_vector_index *index);
size_t sh_vector_index_memory_bytes(const sh_vector_index *index);
const float *sh_vector_index_get(const sh_vector_index *index, uint32_t row); /* lent, never moves */
uint32_t sh_vector_index_slot(const sh_vector_index *index, uint32_t row);
/* Rounded cosine of two stored rows; of a stored row and a query. */
double sh_vector_index_cos_rows(const sh_vector_index *index, uint32_t a, uint32_t b);
double sh_vector_index_cos(const sh_vector_index *index, uint32_t row, const float *query);

typedef struct sh_hit {
    uint32_t slot;
    double score; /* rounded cosine */
} sh_hit;

typedef struct sh_search {
    const float *query; /* dimension long, not zero */
    uint32_t k;
    uint32_t row_end; /* rows below it are searched */
    /* Is this slot wanted (visible, in time, not the anchor)? Called for rows that could be among the best, before they count,
     * by any member of `crew`. NULL: all are. */
    bool (*accepts)(void *self, uint32_t slot);
    /* <0 when slot a comes before slot b among equal scores (ids ascending). */
    int (*compare_ties)(void *self, uint32_t a, uint32_t b);
    /* Asked every few thousand rows, by the caller's thread alone; true stops the search. NULL: never. */
    bool (*should_stop)(void *self);
    void *self;
    const uint32_t *rows; /* NULL: all rows below row_end; else just these `row_count` distinct rows (a scope), whatever row_end */
    uint32_t row_count;
    uint32_t row_start;   /* position (row, or entry of `rows`) to begin at: the `rows_done` of a search that was stopped; else 0 */
    struct sh_crew *crew; /* hands that may help where there is much to read; NULL: none. They never show in the answer */
    uint64_t measured_max; /* rows that may be searched: each counts once, accepted or not */
} sh_search;

typedef struct sh_search_result {
    sh_hit *hits; /* caller's room for k, filled best first */
    uint32_t hit_count;
    uint64_t measured;   /* rows searched, those that are dead or not accepted included */
    bool is_stopped;     /* should_stop or measured_max ended it before the last row that is accepted */
    bool is_over_budget; /* … it was measured_max */
    uint32_t rows_done;  /* all positions below are searched: what is among the best of all and below is among the hits */
    bool is_approximate;
} sh_search_result;

/* The k accepted rows with the highest rounded cosine, ties by compare_ties. */
void sh_vector_index_search(const sh_vector_index *index, const sh_search *search, sh_search_result *result);

#endif
