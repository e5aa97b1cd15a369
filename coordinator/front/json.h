/* The only JSON writer of the coordinator, and the way from JSON to the language's values. Reading is jansson's. */
#ifndef CO_FRONT_JSON_H
#define CO_FRONT_JSON_H

#include <jansson.h>

#include "common/buf.h"
#include "common/value.h"

/* Writes to a buffer; keeps track of commas. Strings must be valid UTF-8. */
typedef struct co_json {
    hd_buf *out;
    uint32_t depth;
    uint64_t has_item; /* bit per depth, up to 64 */
    bool is_after_key;
} co_json;
void co_json_init(co_json *json, hd_buf *out);
void co_json_object(co_json *json); /* { */
void co_json_end_object(co_json *json);
void co_json_array(co_json *json);
void co_json_end_array(co_json *json);
void co_json_key(co_json *json, const char *key);
void co_json_key_str(co_json *json, hd_str key);
void co_json_str(co_json *json, hd_str text);
void co_json_text(co_json *json, const char *text);
void co_json_int(co_json *json, int64_t n);
void co_json_uint(co_json *json, uint64_t n);
/* The shortest text that reads back as the same double; a whole number keeps ".0". Not for NaN or infinity. */
void co_json_double(co_json *json, double x);
void co_json_bool(co_json *json, bool b);
void co_json_null(co_json *json);
void co_json_instant(co_json *json, int64_t us);
/* One value that is JSON text already (a tool's schema). */
void co_json_raw(co_json *json, hd_str text);
/* A value of the language that holds no node (nodes are written by whoever knows them). */
void co_json_value(co_json *json, const hd_value *value);
/* Members `key: value` in one go. */
void co_json_member_str(co_json *json, const char *key, hd_str text);
void co_json_member_text(co_json *json, const char *key, const char *text);
void co_json_member_uint(co_json *json, const char *key, uint64_t n);
void co_json_member_bool(co_json *json, const char *key, bool b);

/* JSON from a client to a value: null, booleans, integers (64 bit), reals, strings, lists of these nested at most `depth_max`.
 * HD_PARAMS with the reason in `error`. */
HD_MUST_USE hd_status co_json_to_value(hd_arena *arena, const json_t *json, uint32_t depth_max, hd_value *value_out,
                                       hd_error *error);

#endif
