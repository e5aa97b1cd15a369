/* Expressions and their one evaluator. Trees are read-only once bound; parameters are references, resolved at run time.
 * Variables, properties, cos() and aggregates are asked of an environment, so the same trees run over the coordinator's rows and
 * over a shard's columns. */
#ifndef HD_COMMON_EXPR_H
#define HD_COMMON_EXPR_H

#include "common/value.h"

typedef enum hd_expr_kind {
    HD_EXPR_LITERAL,  /* .literal (scalars and lists of literals) */
    HD_EXPR_PARAM,    /* .index into the query's parameter names */
    HD_EXPR_LIST,     /* .args: a list with parameters inside */
    HD_EXPR_VAR,      /* .index into the query's variables (node or relation) */
    HD_EXPR_PROPERTY, /* .index variable, .property */
    HD_EXPR_COS,      /* .index, .index2: two event variables */
    HD_EXPR_NOT,      /* args[0] */
    HD_EXPR_AND,      /* args, 2 or more (flat) */
    HD_EXPR_OR,       /* args, 2 or more (flat) */
    HD_EXPR_EQ,
    HD_EXPR_NE,
    HD_EXPR_LT,
    HD_EXPR_LE,
    HD_EXPR_GT,
    HD_EXPR_GE,       /* args[0], args[1] */
    HD_EXPR_IN,       /* args[0] in list args[1] */
    HD_EXPR_CONTAINS, /* args[0] contains args[1]; NFKC_Casefold on both sides */
    HD_EXPR_IS_NULL,
    HD_EXPR_IS_NOT_NULL, /* args[0] */
    HD_EXPR_AGGREGATE,   /* .aggregate, .is_distinct, args[0] or none for count(*); .index: number of the aggregate in the query */
} hd_expr_kind;

typedef enum hd_aggregate { HD_AGG_COUNT, HD_AGG_MIN, HD_AGG_MAX, HD_AGG_SUM, HD_AGG_AVG, HD_AGG_COLLECT } hd_aggregate;

typedef struct hd_expr hd_expr;
struct hd_expr {
    hd_expr_kind kind;
    uint32_t offset, size; /* the bytes of the query text it came from */
    uint32_t index, index2;
    hd_property property;
    hd_aggregate aggregate;
    bool is_distinct;
    hd_value literal;
    hd_expr **args;
    uint32_t arg_count;
};

/* Where an expression gets its leaves. `get` answers VAR, PROPERTY, COS and AGGREGATE nodes for the current row; borrowed values
 * live at least until the next row. `params` holds the query's parameters in the order of their names. */
typedef struct hd_expr_env {
    void *self;
    hd_status (*get)(void *self, const hd_expr *leaf, hd_value *value_out);
    const hd_value *params;
    hd_arena *arena; /* scratch for folded text and lists; the caller rolls it back */
} hd_expr_env;

/* The value of the expression. Type mismatches give null, never an error; a status comes only from `get` and from memory. */
HD_MUST_USE hd_status hd_expr_eval(const hd_expr *expr, hd_expr_env *env, hd_value *value_out);
/* True only when the expression is true (null and false are not). */
HD_MUST_USE hd_status hd_expr_is_true(const hd_expr *expr, hd_expr_env *env, bool *is_true_out);
/* Calls `visit` for every node, parents first. */
void hd_expr_visit(hd_expr *expr, void (*visit)(hd_expr *node, void *context), void *context);

#endif
