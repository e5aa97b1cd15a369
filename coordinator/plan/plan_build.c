/* From a bound query to the plan as it stands before any rule: the walk of language.md section 4.1 as written, then WHERE, then what
 * RETURN asks for. The rules (plan_rules.c) decide what goes where. */
#include "common/buf.h"
#include "coordinator/plan/plan_private.h"

co_plan_step co_plan_step_of(co_op_kind op) {
    return (co_plan_step){.op = op, .rel = CO_PLAN_NONE, .from = CO_PLAN_NONE, .to = CO_PLAN_NONE};
}

hd_status co_plan_insert(hd_arena *arena, co_plan *plan, uint32_t index, const co_plan_step *step) {
    HD_CHECK(index <= plan->step_count);
    if (plan->step_count == plan->step_capacity) {
        uint32_t capacity = plan->step_capacity ? plan->step_capacity * 2 : 16;
        co_plan_step *steps = hd_arena_grow(arena, plan->steps, plan->step_capacity * sizeof(*steps), capacity * sizeof(*steps));
        if (steps == NULL) return HD_MEMORY;
        plan->steps = steps;
        plan->step_capacity = capacity;
    }
    memmove(&plan->steps[index + 1], &plan->steps[index], (plan->step_count - index) * sizeof(*step));
    plan->steps[index] = *step;
    plan->step_count++;
    return HD_OK;
}

void co_plan_remove(co_plan *plan, uint32_t index) {
    HD_CHECK(index < plan->step_count);
    plan->step_count--;
    memmove(&plan->steps[index], &plan->steps[index + 1], (plan->step_count - index) * sizeof(co_plan_step));
}

/* -- the plan as written ------------------------------------------------------------------------------------------------------ */

static co_plan_step make_walk_step(const co_query *query, const co_walk_step *walk) {
    const co_rel *rel = &query->rels[walk->rel];
    co_op_kind op = CO_OP_EXPAND;
    if (rel->relation == HD_REL_SHARES) op = rel->is_variable_length ? CO_OP_SHARES_WALK : CO_OP_SHARES;
    if (rel->relation == HD_REL_SIMILAR) op = CO_OP_SIMILAR;
    if (rel->relation == HD_REL_FAR) op = CO_OP_MEASURE;
    if (rel->relation == HD_REL_NEXT && rel->is_variable_length) op = CO_OP_NEXT_WALK;
    co_plan_step step = co_plan_step_of(op);
    step.rel = walk->rel;
    step.from = walk->from;
    step.to = walk->to;
    step.is_filter = walk->is_filter;
    /* With both ends bound they count from the left one (sections 1 and 4.4). */
    if ((rel->is_variable_length || op == CO_OP_SIMILAR) && walk->is_filter) {
        step.from = rel->left;
        step.to = rel->right;
    }
    step.is_forward = (step.from == rel->left) == (rel->arrow == CO_ARROW_RIGHT);
    return step;
}

static hd_status append(hd_arena *arena, co_plan *plan, co_plan_step step) {
    return co_plan_insert(arena, plan, plan->step_count, &step);
}

static hd_status build_as_written(hd_arena *arena, co_plan *plan) {
    const co_query *query = plan->query;
    co_plan_step start = co_plan_step_of(CO_OP_START);
    start.to = 0;
    HD_TRY(append(arena, plan, start));
    for (uint32_t i = 0; i < query->rel_count; i++) HD_TRY(append(arena, plan, make_walk_step(query, &query->walk[i])));
    if (query->where_count > 0) {
        co_plan_step filter = co_plan_step_of(CO_OP_FILTER);
        filter.filters = query->where;
        filter.filter_count = query->where_count;
        HD_TRY(append(arena, plan, filter));
    }
    if (query->has_aggregates) HD_TRY(append(arena, plan, co_plan_step_of(CO_OP_AGGREGATE)));
    if (query->is_distinct) HD_TRY(append(arena, plan, co_plan_step_of(CO_OP_DISTINCT)));
    HD_TRY(append(arena, plan, co_plan_step_of(CO_OP_SORT)));
    HD_TRY(append(arena, plan, co_plan_step_of(CO_OP_LIMIT)));
    return append(arena, plan, co_plan_step_of(CO_OP_RETURN));
}

hd_status co_plan_build(hd_arena *arena, const co_query *query, bool are_rules_on, const co_plan **plan_out) {
    co_plan *plan;
    HD_ALLOC(plan, arena, 1);
    plan->query = query;
    HD_TRY(build_as_written(arena, plan));
    for (size_t i = 0; i < co_plan_rule_count; i++)
        if (are_rules_on || !co_plan_rules[i].is_optional) HD_TRY(co_plan_rules[i].apply(arena, plan));
    *plan_out = plan;
    return HD_OK;
}
