/* From a bound query to the plan as it stands before any rule: the walk of language.md section 4.1 as written, then WHERE, then what
 * RETURN asks for. Knows what an expression stands on; the rules (plan_rules.c) decide from that what goes where. */
#include "common/buf.h"
#include "coordinator/plan/plan_private.h"
#include "proto/step.h"

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

/* -- what an expression stands on ------------------------------------------------------------------------------------------ */

hd_status co_needs_init(co_needs *needs, hd_arena *arena, const co_query *query) {
    *needs = (co_needs){.query = query, .arena = arena};
    HD_ALLOC(needs->vars, arena, query->var_count);
    HD_ALLOC(needs->facets, arena, query->var_count);
    return HD_OK;
}

static uint32_t facet_of_property(hd_property property) {
    switch (property) {
    case HD_PROP_TIMESTAMP: return HD_FACET_TIME;
    case HD_PROP_ORDER_INDEX: return HD_FACET_ORDER;
    case HD_PROP_THREAD: return HD_FACET_THREAD;
    case HD_PROP_SUMMARY: return HD_FACET_SUMMARY;
    case HD_PROP_TYPE: return HD_FACET_TYPE;
    case HD_PROP_EVENT_COUNT: return CO_FACET_EVENT_COUNT;
    default: return 0; /* id, name, score and what relations carry come with the node or the edge */
    }
}

static void add_pair(co_needs *needs, uint32_t left, uint32_t right) {
    if (needs->pair_count == needs->pair_capacity) {
        uint32_t capacity = needs->pair_capacity ? needs->pair_capacity * 2 : 4;
        void *pairs = hd_arena_grow(needs->arena, needs->pairs, needs->pair_capacity * sizeof(*needs->pairs),
                                    capacity * sizeof(*needs->pairs));
        if (pairs == NULL) {
            needs->is_out_of_memory = true;
            return;
        }
        needs->pairs = pairs;
        needs->pair_capacity = capacity;
    }
    needs->pairs[needs->pair_count][0] = left;
    needs->pairs[needs->pair_count][1] = right;
    needs->pair_count++;
}

static void add_node_needs(hd_expr *node, void *context) {
    co_needs *needs = context;
    switch (node->kind) {
    case HD_EXPR_VAR: needs->vars[node->index] = true; break;
    case HD_EXPR_PROPERTY:
        needs->vars[node->index] = true;
        if (!needs->query->vars[node->index].is_relation) needs->facets[node->index] |= facet_of_property(node->property);
        break;
    case HD_EXPR_COS:
        needs->vars[node->index] = true;
        needs->vars[node->index2] = true;
        add_pair(needs, node->index, node->index2);
        break;
    default: break;
    }
}

hd_status co_needs_add(co_needs *needs, hd_expr *expr) {
    hd_expr_visit(expr, add_node_needs, needs);
    return needs->is_out_of_memory ? HD_MEMORY : HD_OK;
}

static hd_status add_items(co_needs *needs, const co_query *query) {
    for (uint32_t i = 0; i < query->item_count; i++) HD_TRY(co_needs_add(needs, query->items[i].expr));
    return HD_OK;
}

hd_status co_needs_add_step(co_needs *needs, const co_query *query, const co_plan_step *step) {
    switch (step->op) {
    case CO_OP_FILTER:
        for (uint32_t i = 0; i < step->filter_count; i++) HD_TRY(co_needs_add(needs, step->filters[i]));
        break;
    case CO_OP_AGGREGATE:
        HD_TRY(add_items(needs, query));
        for (uint32_t i = 0; i < query->order_count; i++) HD_TRY(co_needs_add(needs, query->orders[i].expr));
        break;
    case CO_OP_DISTINCT: HD_TRY(add_items(needs, query)); break;
    case CO_OP_SORT:
        for (uint32_t i = 0; i < query->order_count && !step->is_whole_order; i++)
            HD_TRY(co_needs_add(needs, query->orders[i].expr));
        break;
    case CO_OP_EXPAND:
    case CO_OP_NEXT_WALK:
        if (query->rels[step->rel].relation == HD_REL_NEXT)
            needs->facets[step->from] |= HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS;
        break;
    case CO_OP_RETURN: HD_TRY(add_items(needs, query)); break;
    default: break;
    }
    return HD_OK;
}

/* -- the plan as written ------------------------------------------------------------------------------------------------------ */

static co_plan_step make_walk_step(const co_query *query, const co_walk_step *walk) {
    const co_rel *rel = &query->rels[walk->rel];
    co_op_kind op = CO_OP_EXPAND;
    if (rel->relation == HD_REL_SHARES) op = CO_OP_SHARES;
    if (rel->relation == HD_REL_FAR) op = CO_OP_MEASURE;
    if (rel->relation == HD_REL_NEXT && rel->is_variable_length) op = CO_OP_NEXT_WALK;
    co_plan_step step = co_plan_step_of(op);
    step.rel = walk->rel;
    step.from = walk->from;
    step.to = walk->to;
    step.is_filter = walk->is_filter;
    if (op == CO_OP_NEXT_WALK && walk->is_filter) { /* with both ends bound it counts from the left one (section 4.4) */
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
