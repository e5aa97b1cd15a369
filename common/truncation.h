/* What was cut: incompleteness as data that travels with the rows. A loop that stops for any reason but running out of input
 * writes one of these in the same block. */
#ifndef HD_COMMON_TRUNCATION_H
#define HD_COMMON_TRUNCATION_H

#include "common/arena.h"
#include "common/budget.h"
#include "common/graph.h"

typedef struct hd_truncation {
    const char *stage;    /* static: "start", "expand", "measure", "facts", "rows", "answer" */
    uint32_t step;        /* number of the plan step, 0 where it belongs to none */
    hd_relation relation; /* HD_REL_NONE where there is none */
    hd_cap cap;
    uint64_t limit, reached; /* 0 both where the cap is none of budget.def */
    hd_str detail;           /* may be absent */
} hd_truncation;

typedef struct hd_truncations {
    hd_truncation *items;
    uint32_t count, capacity;
} hd_truncations;

/* Adds a record, or folds it into one of the same stage, step and cap (the larger `reached` and the first `detail` stay).
 * `detail` is copied. */
HD_MUST_USE hd_status hd_truncations_add(hd_truncations *list, hd_arena *arena, const hd_truncation *record);

#endif
