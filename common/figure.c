/* The lanes are a vector of eight doubles, so that the compiler may use registers of any width and the result stays the same to the
 * last bit: each lane sees its own additions in their order, and nothing is contracted (the build says -ffp-contract=off). */
#include "common/figure.h"

#include <math.h>

enum { LANES = 8 };

typedef double lanes_double __attribute__((vector_size(LANES * sizeof(double))));
typedef float lanes_float __attribute__((vector_size(LANES * sizeof(float)), aligned(4)));

double hd_figure_round(double x) {
    double rounded = rint(x * 1e6) / 1e6;
    return rounded == 0 ? 0 : rounded;
}

double hd_figure_dot(const float *a, const float *b, uint32_t dimension) {
    lanes_double sums = {0};
    uint32_t whole = dimension - dimension % LANES;
    for (uint32_t i = 0; i < whole; i += LANES) {
        lanes_float a_part, b_part;
        memcpy(&a_part, a + i, sizeof(a_part));
        memcpy(&b_part, b + i, sizeof(b_part));
        sums += __builtin_convertvector(a_part, lanes_double) * __builtin_convertvector(b_part, lanes_double);
    }
    for (uint32_t i = whole; i < dimension; i++) sums[i % LANES] += (double)a[i] * (double)b[i];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

double hd_figure_norm(const float *a, uint32_t dimension) {
    return sqrt(hd_figure_dot(a, a, dimension));
}

double hd_figure_cos(const float *a, const float *b, uint32_t dimension) {
    double norms = hd_figure_norm(a, dimension) * hd_figure_norm(b, dimension);
    return hd_figure_round(hd_figure_dot(a, b, dimension) / norms);
}

double hd_figure_lift(uint64_t n, uint64_t df) {
    return log(1.0 + (double)n / (double)df);
}
