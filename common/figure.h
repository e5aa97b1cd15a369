/* The figures of the language, computed one way everywhere (language.md section 7, "Figures"). */
#ifndef HD_COMMON_FIGURE_H
#define HD_COMMON_FIGURE_H

#include "common/base.h"

/* rint(x · 10⁶) / 10⁶, never −0. */
double hd_figure_round(double x);

/* Σ a[i]·b[i] in double precision: element i is added to lane i mod 8, the lanes are then added pairwise
 * ((0+1)+(2+3))+((4+5)+(6+7)). */
double hd_figure_dot(const float *a, const float *b, uint32_t dimension);
/* √(dot(a, a)). 0 for the zero vector. */
double hd_figure_norm(const float *a, uint32_t dimension);
/* Rounded cosine: dot / (√(a·a) · √(b·b)). Neither vector is zero. */
double hd_figure_cos(const float *a, const float *b, uint32_t dimension);
/* ln(1 + n / df), not rounded. df ≥ 1. */
double hd_figure_lift(uint64_t n, uint64_t df);

#endif
