#include "common/budget.h"

static const char *const names[] = {
#define CAP(name, text, initial, kind) [HD_CAP_##name] = text,
#include "common/budget.def"
#undef CAP
    [HD_CAP_SHARD_UNAVAILABLE] = "shard_unavailable",
    [HD_CAP_SNAPSHOT] = "snapshot",
    [HD_CAP_MEMORY] = "memory",
    [HD_CAP_STORE] = "store",
    [HD_CAP_NONE] = "none",
};

void hd_budget_init(hd_budget *budget) {
    *budget = (hd_budget){
        .caps =
            {
#define CAP(name, text, initial, kind) [HD_CAP_##name] = (initial),
#include "common/budget.def"
#undef CAP
            },
    };
}

const char *hd_cap_name(hd_cap cap) {
    HD_CHECK(cap <= HD_CAP_NONE);
    return names[cap];
}

hd_cap hd_cap_parse(hd_str text) {
    for (unsigned cap = 0; cap < HD_CAP_COUNT; cap++) {
        if (hd_str_is_equal(hd_str_of(names[cap]), text)) return cap;
    }
    return HD_CAP_NONE;
}
