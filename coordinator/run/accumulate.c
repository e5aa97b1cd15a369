/* See accumulate.h. */
#include "coordinator/run/accumulate.h"

#include "coordinator/run/rows.h"

static void add_number(co_accumulator *a, const hd_value *value) {
    if (value->type == HD_TYPE_INT && !a->has_float) {
        a->integers += value->integer;
    } else {
        if (!a->has_float) a->floats = (double)a->integers;
        a->has_float = true;
        a->floats += value->type == HD_TYPE_INT ? (double)value->integer : value->number;
    }
    a->count++;
}

static hd_status add_item(hd_arena *arena, co_accumulator *a, const hd_value *value) {
    if (a->item_count == CO_COLLECT_MAX) {
        a->is_capped = true;
        return HD_OK;
    }
    HD_TRY(CO_GROW(arena, a->items, a->item_capacity, a->item_count));
    return hd_value_dup(arena, value, &a->items[a->item_count++]);
}

static hd_status keep_best(hd_arena *arena, co_accumulator *a, const hd_value *value, int sign) {
    if (a->count++ > 0 && hd_value_order(value, &a->best) * sign <= 0) return HD_OK;
    return hd_value_dup(arena, value, &a->best);
}

hd_status co_accumulate(hd_arena *arena, co_accumulator *accumulator, hd_aggregate aggregate, const hd_value *value) {
    switch (aggregate) {
    case HD_AGG_COUNT: accumulator->count++; return HD_OK;
    case HD_AGG_MIN: return keep_best(arena, accumulator, value, -1);
    case HD_AGG_MAX: return keep_best(arena, accumulator, value, 1);
    case HD_AGG_SUM:
    case HD_AGG_AVG:
        if (value->type == HD_TYPE_INT || value->type == HD_TYPE_FLOAT) add_number(accumulator, value);
        return HD_OK;
    case HD_AGG_COLLECT: return add_item(arena, accumulator, value);
    }
    HD_CHECK(!"an aggregate that is none");
    return HD_INTERNAL;
}

static hd_value sum_of(const co_accumulator *a) {
    if (a->has_float) return hd_value_float(a->floats);
    if (a->integers > INT64_MAX || a->integers < INT64_MIN) return hd_value_float((double)a->integers);
    return hd_value_int((int64_t)a->integers);
}

hd_value co_accumulator_value(const co_accumulator *accumulator, hd_aggregate aggregate) {
    switch (aggregate) {
    case HD_AGG_COUNT: return hd_value_int((int64_t)accumulator->count);
    case HD_AGG_COLLECT: return (hd_value){.type = HD_TYPE_LIST, .list = {accumulator->items, accumulator->item_count}};
    default: break;
    }
    if (accumulator->count == 0) return HD_VALUE_NULL;
    if (aggregate == HD_AGG_SUM) return sum_of(accumulator);
    if (aggregate != HD_AGG_AVG) return accumulator->best;
    double sum = accumulator->has_float ? accumulator->floats : (double)accumulator->integers;
    return hd_value_float(sum / (double)accumulator->count);
}
