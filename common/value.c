#include "common/value.h"

#include <math.h>

#include "common/clock.h"
#include "common/ids.h"

hd_value hd_value_bool(bool b) {
    return (hd_value){.type = HD_TYPE_BOOL, .boolean = b};
}

hd_value hd_value_int(int64_t n) {
    return (hd_value){.type = HD_TYPE_INT, .integer = n};
}

hd_value hd_value_float(double x) {
    if (isnan(x)) return HD_VALUE_NULL;
    return (hd_value){.type = HD_TYPE_FLOAT, .number = x == 0 ? 0 : x};
}

hd_value hd_value_text(hd_str text) {
    return (hd_value){.type = HD_TYPE_STRING, .text = text};
}

hd_value hd_value_instant(int64_t us) {
    return (hd_value){.type = HD_TYPE_INSTANT, .instant_us = us};
}

const char *hd_type_name(hd_type type) {
    static const char *const names[] = {
        [HD_TYPE_NULL] = "null",   [HD_TYPE_BOOL] = "boolean",  [HD_TYPE_INT] = "int",
        [HD_TYPE_FLOAT] = "float", [HD_TYPE_STRING] = "string", [HD_TYPE_INSTANT] = "instant",
        [HD_TYPE_NODE] = "node",   [HD_TYPE_LIST] = "list",     [HD_TYPE_MAP] = "map",
    };
    HD_CHECK((size_t)type < HD_COUNT_OF(names));
    return names[type];
}

static bool is_number(const hd_value *v) {
    return v->type == HD_TYPE_INT || v->type == HD_TYPE_FLOAT;
}

/* Is `x` a whole number that an int64 holds? Both bounds are exact doubles. */
static bool is_whole(double x) {
    return x >= -0x1p63 && x < 0x1p63 && trunc(x) == x;
}

/* Without going through a double, which has no room for every int64: 2⁵³ + 1 is greater than 2⁵³ as a float. */
static int compare_int_float(int64_t n, double x) {
    if (x >= 0x1p63) return -1;
    if (x < -0x1p63) return 1;
    double whole = trunc(x);
    int64_t m = (int64_t)whole;
    if (n != m) return n < m ? -1 : 1;
    return (whole > x) - (whole < x);
}

static int compare_numbers(const hd_value *a, const hd_value *b) {
    if (a->type == HD_TYPE_INT && b->type == HD_TYPE_INT) return (a->integer > b->integer) - (a->integer < b->integer);
    if (a->type == HD_TYPE_INT) return compare_int_float(a->integer, b->number);
    if (b->type == HD_TYPE_INT) return -compare_int_float(b->integer, a->number);
    return (a->number > b->number) - (a->number < b->number);
}

static int sign_of(int order) {
    return (order > 0) - (order < 0);
}

/* The instant of a value, or of a string that names one. */
static bool get_instant(const hd_value *v, int64_t *us_out) {
    if (v->type == HD_TYPE_STRING) return hd_instant_parse(v->text, us_out);
    *us_out = v->instant_us;
    return v->type == HD_TYPE_INSTANT;
}

bool hd_value_compare(const hd_value *a, const hd_value *b, int *order_out) {
    if (is_number(a) && is_number(b)) {
        *order_out = compare_numbers(a, b);
        return true;
    }
    if (a->type == HD_TYPE_STRING && b->type == HD_TYPE_STRING) {
        *order_out = sign_of(hd_str_compare(a->text, b->text));
        return true;
    }
    if (a->type == HD_TYPE_BOOL && b->type == HD_TYPE_BOOL) {
        *order_out = a->boolean - b->boolean;
        return true;
    }
    if (a->type != HD_TYPE_INSTANT && b->type != HD_TYPE_INSTANT) return false;
    int64_t a_us, b_us;
    if (!get_instant(a, &a_us) || !get_instant(b, &b_us)) return false;
    *order_out = (a_us > b_us) - (a_us < b_us);
    return true;
}

hd_truth hd_value_equal(const hd_value *a, const hd_value *b) {
    if (a->type == HD_TYPE_NODE && b->type == HD_TYPE_NODE) {
        if (a->node.label != b->node.label) return HD_UNKNOWN;
        return hd_str_is_equal(a->node.id, b->node.id) ? HD_TRUE : HD_FALSE;
    }
    int order;
    if (!hd_value_compare(a, b, &order)) return HD_UNKNOWN;
    return order == 0 ? HD_TRUE : HD_FALSE;
}

static int get_rank(hd_type type) {
    switch (type) {
    case HD_TYPE_INT:
    case HD_TYPE_FLOAT: return 0;
    case HD_TYPE_STRING: return 1;
    case HD_TYPE_BOOL: return 2;
    case HD_TYPE_INSTANT: return 3;
    case HD_TYPE_NODE: return 4;
    case HD_TYPE_LIST: return 5;
    case HD_TYPE_MAP: return 6;
    case HD_TYPE_NULL: return 7;
    }
    hd_panic(__FILE__, __LINE__, "a value has one of the types of hd_type");
}

/* Item by item, then the shorter first. */
static int order_lists(const hd_value *a, const hd_value *b) {
    uint32_t a_count = a->list.count, b_count = b->list.count;
    for (uint32_t i = 0; i < a_count && i < b_count; i++) {
        int order = hd_value_order(&a->list.items[i], &b->list.items[i]);
        if (order != 0) return order;
    }
    return (a_count > b_count) - (a_count < b_count);
}

/* Entry by entry in the order they are kept in, which is fixed for each kind of map; then the shorter first. */
static int order_maps(const hd_value *a, const hd_value *b) {
    uint32_t a_count = a->map.count, b_count = b->map.count;
    for (uint32_t i = 0; i < a_count && i < b_count; i++) {
        int order = hd_str_compare(a->map.keys[i], b->map.keys[i]);
        if (order == 0) order = hd_value_order(&a->map.items[i], &b->map.items[i]);
        if (order != 0) return sign_of(order);
    }
    return (a_count > b_count) - (a_count < b_count);
}

static int order_nodes(const hd_value *a, const hd_value *b) {
    int order = sign_of(hd_str_compare(a->node.id, b->node.id));
    return order != 0 ? order : (a->node.label > b->node.label) - (a->node.label < b->node.label);
}

int hd_value_order(const hd_value *a, const hd_value *b) {
    int a_rank = get_rank(a->type), b_rank = get_rank(b->type);
    if (a_rank != b_rank) return a_rank < b_rank ? -1 : 1;
    int order = 0;
    switch (a->type) {
    case HD_TYPE_NULL: return 0;
    case HD_TYPE_NODE: return order_nodes(a, b);
    case HD_TYPE_LIST: return order_lists(a, b);
    case HD_TYPE_MAP: return order_maps(a, b);
    default: HD_CHECK(hd_value_compare(a, b, &order)); return order;
    }
}

int hd_value_order_key(const hd_value *a, const hd_value *b, bool is_descending) {
    bool has_null = a->type == HD_TYPE_NULL || b->type == HD_TYPE_NULL;
    int order = hd_value_order(a, b);
    return is_descending && !has_null ? -order : order;
}

bool hd_value_is_same(const hd_value *a, const hd_value *b) {
    return hd_value_order(a, b) == 0;
}

static uint64_t mix(uint64_t hash, uint64_t more) {
    hash = (hash ^ more) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ (hash >> 29);
}

/* A float that is a whole number has the hash of the int that it is the same as. */
static uint64_t hash_number(const hd_value *value) {
    if (value->type == HD_TYPE_INT) return (uint64_t)value->integer;
    if (is_whole(value->number)) return (uint64_t)(int64_t)value->number;
    uint64_t bits;
    memcpy(&bits, &value->number, sizeof(bits));
    return bits;
}

uint64_t hd_value_hash(const hd_value *value) {
    uint64_t hash = (uint64_t)get_rank(value->type) + 1;
    switch (value->type) {
    case HD_TYPE_NULL: break;
    case HD_TYPE_BOOL: hash = mix(hash, value->boolean); break;
    case HD_TYPE_INT:
    case HD_TYPE_FLOAT: hash = mix(hash, hash_number(value)); break;
    case HD_TYPE_STRING: hash = mix(hash, hd_hash64(value->text.data, value->text.size)); break;
    case HD_TYPE_INSTANT: hash = mix(hash, (uint64_t)value->instant_us); break;
    case HD_TYPE_NODE: hash = mix(mix(hash, value->node.label), hd_hash64(value->node.id.data, value->node.id.size)); break;
    case HD_TYPE_LIST:
        for (uint32_t i = 0; i < value->list.count; i++) hash = mix(hash, hd_value_hash(&value->list.items[i]));
        break;
    case HD_TYPE_MAP:
        for (uint32_t i = 0; i < value->map.count; i++) {
            hash = mix(hash, hd_hash64(value->map.keys[i].data, value->map.keys[i].size));
            hash = mix(hash, hd_value_hash(&value->map.items[i]));
        }
        break;
    }
    return mix(hash, hash >> 32);
}

static hd_status dup_items(hd_arena *arena, const hd_value *items, uint32_t count, const hd_value **copy_out) {
    hd_value *copy;
    HD_ALLOC(copy, arena, count);
    for (uint32_t i = 0; i < count; i++) HD_TRY(hd_value_dup(arena, &items[i], &copy[i]));
    *copy_out = copy;
    return HD_OK;
}

hd_status hd_value_dup(hd_arena *arena, const hd_value *value, hd_value *copy_out) {
    hd_value copy = *value;
    if (value->type == HD_TYPE_STRING) {
        HD_TRY(hd_arena_dup(arena, value->text, &copy.text));
    } else if (value->type == HD_TYPE_NODE) {
        HD_TRY(hd_arena_dup(arena, value->node.id, &copy.node.id));
    } else if (value->type == HD_TYPE_LIST) {
        HD_TRY(dup_items(arena, value->list.items, value->list.count, &copy.list.items));
    } else if (value->type == HD_TYPE_MAP) {
        hd_str *keys;
        HD_ALLOC(keys, arena, value->map.count);
        for (uint32_t i = 0; i < value->map.count; i++) HD_TRY(hd_arena_dup(arena, value->map.keys[i], &keys[i]));
        copy.map.keys = keys;
        HD_TRY(dup_items(arena, value->map.items, value->map.count, &copy.map.items));
    }
    *copy_out = copy;
    return HD_OK;
}
