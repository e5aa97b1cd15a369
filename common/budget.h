/* What a query may cost, and what it has cost. DEADLINE is in milliseconds. LEVEL caps: `used` is the largest seen. */
#ifndef HD_COMMON_BUDGET_H
#define HD_COMMON_BUDGET_H

#include "common/base.h"

typedef enum hd_cap {
#define CAP(name, text, initial, kind) HD_CAP_##name,
#include "common/budget.def"
#undef CAP
    HD_CAP_COUNT,
    /* Not spent but named in `truncated`, where something other than a cap stopped the walk. */
    HD_CAP_SHARD_UNAVAILABLE = HD_CAP_COUNT,
    HD_CAP_SNAPSHOT,
    HD_CAP_MEMORY,
    HD_CAP_STORE,
    HD_CAP_NONE,
} hd_cap;

typedef struct hd_budget {
    uint64_t caps[HD_CAP_COUNT];
    uint64_t used[HD_CAP_COUNT];
} hd_budget;

void hd_budget_init(hd_budget *budget); /* the defaults of budget.def, nothing used */
const char *hd_cap_name(hd_cap cap);    /* "scanned", "shard_unavailable", … */
hd_cap hd_cap_parse(hd_str text);       /* a cap of budget.def, else HD_CAP_NONE */
static inline uint64_t hd_budget_left(const hd_budget *b, hd_cap cap) {
    return b->used[cap] >= b->caps[cap] ? 0 : b->caps[cap] - b->used[cap];
}
static inline void hd_budget_peak(hd_budget *b, hd_cap cap, uint64_t level) {
    if (level > b->used[cap]) b->used[cap] = level;
}

#endif
