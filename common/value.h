/* Run-time values of the language: comparison (three-valued), the total order, hashing for DISTINCT and grouping.
 * Not the wire value (proto/step.h has typed columns) and not the stored one (shard/keys.h). */
#ifndef HD_COMMON_VALUE_H
#define HD_COMMON_VALUE_H

#include "common/arena.h"
#include "common/buf.h"
#include "common/graph.h"
#include "common/status.h"

typedef enum hd_type {
    HD_TYPE_NULL,
    HD_TYPE_BOOL,
    HD_TYPE_INT,
    HD_TYPE_FLOAT,
    HD_TYPE_STRING,
    HD_TYPE_INSTANT,
    HD_TYPE_NODE,
    HD_TYPE_LIST,
    HD_TYPE_MAP, /* a relation's properties, or one {id, name} of `via` */
} hd_type;

typedef struct hd_value hd_value;
struct hd_value {
    hd_type type;
    union {
        bool boolean;
        int64_t integer;
        double number;      /* never NaN, never −0 */
        hd_str text;        /* borrowed; lives as long as its maker says (usually the query arena) */
        int64_t instant_us; /* Unix time */
        struct {
            hd_label label;
            uint32_t handle; /* the query's number for the node (coordinator/run/nodes.h); 0 elsewhere */
            hd_str id;       /* compared by this */
        } node;
        struct {
            const hd_value *items;
            uint32_t count;
        } list;
        struct {
            const hd_str *keys;
            const hd_value *items;
            uint32_t count;
        } map;
    };
};

typedef enum hd_truth { HD_FALSE, HD_TRUE, HD_UNKNOWN } hd_truth;

#define HD_VALUE_NULL ((hd_value){.type = HD_TYPE_NULL})
hd_value hd_value_bool(bool b);
hd_value hd_value_int(int64_t n);
hd_value hd_value_float(double x);
hd_value hd_value_text(hd_str text);
hd_value hd_value_instant(int64_t us);

const char *hd_type_name(hd_type type); /* "string", for messages */

/* openCypher equality: null with anything is unknown; numbers by value (exact between int and float); an instant equals the string
 * that names it; other types differ → unknown (they were refused earlier where the types were known). */
hd_truth hd_value_equal(const hd_value *a, const hd_value *b);
/* −1, 0, 1 in *order_out for two comparable values; false where the comparison is null. Used for < <= > >=. */
bool hd_value_compare(const hd_value *a, const hd_value *b, int *order_out);
/* The total order of section 6: numbers < strings < booleans < instants < nodes (by id) < lists < maps; nulls last of all. For
 * ORDER BY ... DESC the caller turns the sign but keeps nulls last: see hd_value_order_keys. */
int hd_value_order(const hd_value *a, const hd_value *b);
/* One ORDER BY key: like hd_value_order, turned when `is_descending`, nulls last either way. */
int hd_value_order_key(const hd_value *a, const hd_value *b, bool is_descending);
/* Are they the same for DISTINCT and grouping (null is the same as null; 1 and 1.0 are the same)? The hash agrees. */
bool hd_value_is_same(const hd_value *a, const hd_value *b);
uint64_t hd_value_hash(const hd_value *value);
/* A deep copy in the arena (strings and items too). */
HD_MUST_USE hd_status hd_value_dup(hd_arena *arena, const hd_value *value, hd_value *copy_out);

#endif
