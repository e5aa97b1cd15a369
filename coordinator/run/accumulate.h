/* One aggregate over the rows of one group (language.md sections 2 and 6). */
#ifndef CO_RUN_ACCUMULATE_H
#define CO_RUN_ACCUMULATE_H

#include "common/expr.h"

enum { CO_COLLECT_MAX = 100 };

typedef struct co_accumulator {
    uint64_t count;    /* values that were not null */
    __int128 integers; /* sum and avg while every value is an integer: exact in any order */
    double floats;     /* sum and avg from the first float on, in the order of the rows */
    bool has_float;
    hd_value best;   /* min, max; copied */
    hd_value *items; /* collect; copied */
    uint32_t item_count, item_capacity;
    bool is_capped; /* collect met more than CO_COLLECT_MAX */
} co_accumulator;

/* `value` is not null, except for count(*), which has none. sum and avg pass over what is no number. */
HD_MUST_USE hd_status co_accumulate(hd_arena *arena, co_accumulator *accumulator, hd_aggregate aggregate, const hd_value *value);
/* A sum of integers beyond 64 bits becomes a float, the nearest one. */
hd_value co_accumulator_value(const co_accumulator *accumulator, hd_aggregate aggregate);

#endif
