/* What expressions and steps stand on: variables, properties of their nodes, cosines. Asked by the rules, and by operators that look their
 * nodes up themselves. */
#ifndef CO_PLAN_NEEDS_H
#define CO_PLAN_NEEDS_H

#include "common/arena.h"
#include "coordinator/plan/plan.h"

/* What an expression stands on. `facets[v]`: properties of node variable v; `pairs`: cos() pairs. Filled by adding up. */
typedef struct co_needs {
    const co_query *query;
    bool *vars;       /* by variable, nodes and relations */
    uint32_t *facets; /* by variable */
    uint32_t (*pairs)[2];
    uint32_t pair_count, pair_capacity;
    bool is_out_of_memory;
    bool is_counted; /* while an expression is read: the next variable is the argument of a count */
    hd_arena *arena;
} co_needs;
HD_MUST_USE hd_status co_needs_init(co_needs *needs, hd_arena *arena, const co_query *query);
HD_MUST_USE hd_status co_needs_add(co_needs *needs, hd_expr *expr);
/* Adds what `step` looks at: its expressions, and for NEXT the places of the events it starts from. */
HD_MUST_USE hd_status co_needs_add_step(co_needs *needs, const co_query *query, const co_plan_step *step);

#endif
