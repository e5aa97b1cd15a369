/* Random input for unit tests that can be had again: the seed is printed first and taken from the command line or
 * HEDDLE_TEST_SEED. */
#ifndef HD_TESTS_SUPPORT_SEED_H
#define HD_TESTS_SUPPORT_SEED_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct test_random {
    uint64_t state;
} test_random;

/* The seed of this run: argv[1], else HEDDLE_TEST_SEED, else a fixed one. */
static inline uint64_t test_seed(int argc, char **argv) {
    const char *given = argc > 1 ? argv[1] : getenv("HEDDLE_TEST_SEED");
    uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : 20250131;
    fprintf(stderr, "seed %" PRIu64 "\n", seed);
    return seed;
}

/* splitmix64: every seed is a good one. */
static inline uint64_t test_random_u64(test_random *r) {
    uint64_t z = (r->state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 ≤ result < bound; bound ≥ 1. */
static inline uint32_t test_random_below(test_random *r, uint32_t bound) {
    return (uint32_t)((test_random_u64(r) >> 32) * bound >> 32);
}

#endif
