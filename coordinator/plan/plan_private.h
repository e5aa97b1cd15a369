/* What plan_build.c and plan_rules.c share: editing a plan while it is made. */
#ifndef CO_PLAN_PLAN_PRIVATE_H
#define CO_PLAN_PLAN_PRIVATE_H

#include "common/arena.h"
#include "coordinator/plan/needs.h"

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

#endif
