/* From query text to a bound query, or to a refusal that a model can mend its query by. */
#ifndef CO_LANGUAGE_LANGUAGE_H
#define CO_LANGUAGE_LANGUAGE_H

#include "coordinator/language/ast.h"

typedef enum co_blocked_by { CO_BLOCKED_SYNTAX = 1, CO_BLOCKED_GRAMMAR, CO_BLOCKED_PARAMS } co_blocked_by;

/* Why nothing ran (language.md section 7, "Rejection"). Strings live in the arena, or are static. */
typedef struct co_refusal {
    co_blocked_by blocked_by;
    uint32_t line, column; /* from 1; columns count code points */
    hd_str detail;
    hd_str hint;                /* absent string where none */
    const char *allowed_key;    /* "allowed_relations", …; NULL where no list fits the place */
    const char *const *allowed; /* NULL-terminated */
} co_refusal;

/* Parses and binds. HD_OK; HD_SYNTAX or HD_GRAMMAR with *refusal_out filled; HD_MEMORY. `text` is borrowed for the call: what the
 * query keeps of it is a copy in the arena. Never reads a text of more than CO_QUERY_BYTES_MAX. */
HD_MUST_USE hd_status co_language_bind(hd_arena *arena, hd_str text, const co_query **query_out, co_refusal *refusal_out);

/* Parameters as they came: names without '$', values converted from JSON. What could not be converted (too deep, of no type of the
 * language) comes with the reason, so that it is refused where the query uses it, and only there. */
typedef struct co_params {
    const hd_str *names;
    const hd_value *values;
    uint32_t count;
    size_t json_bytes;    /* size of the JSON they came in, for the limit */
    const hd_str *faults; /* by name: why it has no value; absent string where it has one. NULL: all have. */
} co_params;

/* Everything of the query that had to wait for parameters, resolved and checked: types, ranges, instants. */
typedef struct co_resolved_rel {
    uint32_t min;       /* SHARES, default 1 */
    double min_w;       /* SHARES, default 0 */
    double far_max;     /* FAR, default 0.5 */
    uint32_t similar_k; /* SIMILAR, default 10 */
    double similar_min; /* SIMILAR, default -1 */
    uint8_t sources;    /* NEXT: HD_SOURCE_* bits */
    uint8_t kinds;      /* MEMBER_OF: HD_KIND_* bits */
} co_resolved_rel;

typedef enum co_start_kind {
    CO_START_IDS,
    CO_START_TEXT,
    CO_START_VECTOR,
    CO_START_ENTITY,
    CO_START_TAG,
    CO_START_ENTITY_TAG,
    CO_START_NEWEST,
    CO_START_SCOPED,
} co_start_kind;

typedef struct co_resolved {
    const hd_value *params; /* by HD_EXPR_PARAM's .index */
    uint32_t limit;
    bool is_limit_default;
    co_start_kind start_kind;
    uint32_t k;        /* clamped; 0 for ids */
    hd_str start_text; /* absent string where none */
    const float *start_vector;
    uint32_t start_vector_size;
    hd_str *ids; /* in order, doubles once; strings that are no valid event id are kept (they match nothing) */
    uint32_t id_count;
    hd_str *entities, *tags; /* trimmed, NFC, in order, doubles once */
    uint32_t entity_count, tag_count;
    bool is_entity_all, is_tag_all;
    bool has_since, has_until;
    int64_t since_us, until_us;
    bool is_exact;
    co_resolved_rel *rels; /* by relation */
    hd_str *notes;         /* k clamped, unused parameters */
    uint32_t note_count;
} co_resolved;

/* HD_OK; HD_PARAMS with *refusal_out (literals were checked by co_language_bind); HD_MEMORY. The values of `params` are borrowed as
 * long as *resolved_out is used. Of the arrays that may be empty, those of a START argument that is absent are NULL. */
HD_MUST_USE hd_status co_language_resolve(hd_arena *arena, const co_query *query, const co_params *params,
                                          co_resolved *resolved_out, co_refusal *refusal_out);

#endif
