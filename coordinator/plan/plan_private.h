/* What plan_build.c and plan_rules.c share: editing a plan while it is made. */
#ifndef CO_PLAN_PLAN_PRIVATE_H
#define CO_PLAN_PLAN_PRIVATE_H

#include "common/arena.h"
#include "coordinator/plan/plan.h"

/* One pass over the plan. Passes run in the order of the list in plan_rules.c. */
typedef struct co_plan_rule {
    const char *name;
    bool is_optional; /* the answer is the same without it */
    hd_status (*apply)(hd_arena *arena, co_plan *plan);
} co_plan_rule;

extern const co_plan_rule co_plan_rules[];
extern const size_t co_plan_rule_count;

/* Puts `step` in at `index`, moving what stands there and after it back. */
HD_MUST_USE hd_status co_plan_insert(hd_arena *arena, co_plan *plan, uint32_t index, const co_plan_step *step);
/* Takes the step at `index` out. */
void co_plan_remove(co_plan *plan, uint32_t index);
/* A step of this kind with everything else empty. */
co_plan_step co_plan_step_of(co_op_kind op);

/* What an expression stands on. `facets[v]`: properties of node variable v; `pairs`: cos() pairs. Filled by adding up. */
typedef struct co_needs {
    const co_query *query;
    bool *vars;       /* by variable, nodes and relations */
    uint32_t *facets; /* by variable */
    uint32_t (*pairs)[2];
    uint32_t pair_count, pair_capacity;
    bool is_out_of_memory;
    hd_arena *arena;
} co_needs;
HD_MUST_USE hd_status co_needs_init(co_needs *needs, hd_arena *arena, const co_query *query);
HD_MUST_USE hd_status co_needs_add(co_needs *needs, hd_expr *expr);
/* Adds what `step` has to know before it runs. `next`: the LIMIT .. RETURN steps know what they need themselves. */
HD_MUST_USE hd_status co_needs_add_step(co_needs *needs, const co_query *query, const co_plan_step *step);

#endif
