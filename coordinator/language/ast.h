/* A query, bound: parsed, names resolved, labels inferred, arrows filled, every rule of language.md that needs no parameter
 * checked. Read-only from here on; parameters stay references. Lives in the query's arena. */
#ifndef CO_LANGUAGE_AST_H
#define CO_LANGUAGE_AST_H

#include "common/expr.h"
#include "common/graph.h"

enum {
    CO_QUERY_BYTES_MAX = 8192,
    CO_RELATIONS_MAX = 8,
    CO_VARIABLES_MAX = 12, /* named */
    CO_NESTING_MAX = 32,
    CO_LIST_MAX = 200,
    CO_PARAMS_BYTES_MAX = 256 * 1024,
    CO_LIMIT_MAX = 200,
    CO_LIMIT_DEFAULT = 20,
    CO_HOPS_MAX = 3,
};

/* A node or relation variable, named or anonymous, in order of appearance in the text. vars[0] is the start's. */
typedef struct co_var {
    hd_str name; /* absent string where anonymous */
    bool is_relation;
    hd_label label;       /* of a node; never NONE after binding */
    hd_relation relation; /* of a relation */
    uint32_t rel;         /* of a relation: index into rels */
    uint32_t offset;      /* first appearance in the text */
} co_var;

typedef enum co_arrow { CO_ARROW_NONE, CO_ARROW_RIGHT, CO_ARROW_LEFT } co_arrow;

/* One relation of a MATCH. `left` and `right` are as written. Parameters hold an expression (literal or parameter) or NULL. */
typedef struct co_rel {
    uint32_t var; /* its variable (every relation has one, maybe anonymous) */
    hd_relation relation;
    uint32_t left, right; /* node variables */
    co_arrow arrow;       /* MEMBER_OF: filled in where it was left out. PARTICIPATED_IN without one: NONE */
    bool is_variable_length;
    uint32_t hops_min, hops_max; /* 1, 1 for a fixed one */
    hd_expr *min, *max, *min_w, *k, *exact, *source, *kind, *resolved_relation;
    uint32_t clause; /* number of its MATCH clause, for uniqueness */
    uint32_t offset, size;
} co_rel;

/* One move of the walk of section 4.1. */
typedef struct co_walk_step {
    uint32_t rel;
    uint32_t from, to; /* node variables; `from` is bound when the walk gets here */
    bool is_filter;    /* `to` is bound too */
} co_walk_step;

/* START's arguments; NULL where absent. `names_*` are single values or lists (expression of either). */
typedef struct co_start {
    hd_expr *text, *vector, *k, *ids, *entity, *entity_all, *tag, *tag_all, *since, *until, *exact;
    uint32_t offset, size;
} co_start;

/* An equality condition of a node's {…}: bound into `where` as an expression, nothing is left in the pattern. */

typedef struct co_item {
    hd_expr *expr;
    hd_str column; /* alias, else the item's text as written */
    bool has_aggregate;
} co_item;

typedef struct co_order {
    hd_expr *expr; /* an alias was replaced by its item's expression … */
    int32_t item;  /* … and the item's index stands here; −1: not an item */
    bool is_descending;
} co_order;

typedef struct co_query {
    hd_str text;
    bool is_explain;
    co_var *vars;
    uint32_t var_count;
    co_start start;
    co_rel *rels;
    uint32_t rel_count;
    co_walk_step *walk; /* rel_count of them */
    hd_expr **where;    /* conjuncts of WHERE and of node property maps, in the order written */
    uint32_t where_count;
    bool is_distinct;
    co_item *items;
    uint32_t item_count;
    bool has_aggregates;
    hd_expr **aggregates; /* every HD_EXPR_AGGREGATE of RETURN and ORDER BY, by its .index */
    uint32_t aggregate_count;
    co_order *orders;
    uint32_t order_count;
    hd_expr *limit;          /* NULL: the default */
    hd_str *params;          /* names of the parameters it uses, without '$', by HD_EXPR_PARAM's .index */
    uint32_t *param_offsets; /* first use in the text */
    uint32_t param_count;
    hd_str *notes; /* of binding: arrows that were filled in */
    uint32_t note_count;
} co_query;

#endif
