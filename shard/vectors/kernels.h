/* Dot products of 8-bit codes: the first pass of a vector search. Every implementation gives the same integers. */
#ifndef SH_VECTORS_KERNELS_H
#define SH_VECTORS_KERNELS_H

#include "common/base.h"

/* Codes are −127..127. Rows and queries are padded with zeros to a multiple of this. */
enum { SH_CODES_STRIDE = 32 };

typedef struct sh_kernels {
    const char *name;
    /* dots_out[i] = Σ query[j] · rows[i · stride + j] over row_count rows. */
    void (*dot_rows)(const int8_t *query, const int8_t *rows, uint32_t row_count, uint32_t stride, int32_t *dots_out);
    /* The same over rows that stand anywhere. */
    void (*dot_gather)(const int8_t *query, const int8_t *const *rows, uint32_t row_count, uint32_t stride, int32_t *dots_out);
} sh_kernels;

/* What this processor runs, best first; the last is plain C. */
uint32_t sh_kernels_list(const sh_kernels *kernels_out[3]);
const sh_kernels *sh_kernels_best(void);

#endif
