/* The passes over a plan, in order. Optional ones make it cheaper and never change the answer (plan and budget aside); the others
 * make it runnable. No pass may make a plan cost more than the walk as written would. */
#include "coordinator/plan/plan_private.h"
#include "proto/step.h"

/* Facets that come back with the nodes of a step for nothing; the others take a FACTS step. */
enum {
    FACETS_OF_PLACES = HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS,
    FACETS_OF_EVENTS = FACETS_OF_PLACES | HD_FACET_ID,
};

static bool does_bind(const co_plan_step *step) {
    if (step->op == CO_OP_START) return true;
    bool is_walk = step->op == CO_OP_NEXT_WALK || step->op == CO_OP_SHARES_WALK;
    return (step->op == CO_OP_EXPAND || step->op == CO_OP_SHARES || step->op == CO_OP_SIMILAR || is_walk) && !step->is_filter;
}

static bool is_walk(const co_plan_step *step) {
    return step->rel != CO_PLAN_NONE;
}

/* Marks what is bound once `step` has run. */
static void mark_bound(const co_plan *plan, const co_plan_step *step, bool *bound) {
    if (does_bind(step)) bound[step->to] = true;
    if (is_walk(step)) bound[plan->query->rels[step->rel].var] = true;
}

static bool are_bound(const co_plan *plan, const co_needs *needs, const bool *bound) {
    for (uint32_t v = 0; v < plan->query->var_count; v++)
        if (needs->vars[v] && !bound[v]) return false;
    return true;
}

/* Index of the first step after which every variable of `expr` is bound. */
static hd_status find_place(hd_arena *arena, const co_plan *plan, hd_expr *expr, uint32_t *place_out) {
    co_needs needs;
    bool *bound;
    HD_TRY(co_needs_init(&needs, arena, plan->query));
    HD_TRY(co_needs_add(&needs, expr));
    HD_ALLOC(bound, arena, plan->query->var_count);
    for (uint32_t i = 0; i < plan->step_count; i++) {
        mark_bound(plan, &plan->steps[i], bound);
        if (!are_bound(plan, &needs, bound)) continue;
        *place_out = i;
        return HD_OK;
    }
    HD_CHECK(!"a condition on a variable that no step binds");
    return HD_INTERNAL;
}

/* place_filters: rows that WHERE refuses should cost no further step, so each condition moves to right behind the step that binds the
 * last of its variables. Conditions of one place stay together, in the order written. */
static hd_status place_filters(hd_arena *arena, co_plan *plan) {
    uint32_t at = 0;
    while (at < plan->step_count && plan->steps[at].op != CO_OP_FILTER) at++;
    if (at == plan->step_count) return HD_OK;
    co_plan_step all = plan->steps[at];
    co_plan_remove(plan, at);
    uint32_t *places;
    HD_ALLOC(places, arena, all.filter_count);
    for (uint32_t i = 0; i < all.filter_count; i++) HD_TRY(find_place(arena, plan, all.filters[i], &places[i]));
    for (uint32_t place = at; place-- > 0;) { /* from the back, so that earlier places keep their index */
        co_plan_step filter = co_plan_step_of(CO_OP_FILTER);
        HD_ALLOC(filter.filters, arena, all.filter_count);
        for (uint32_t i = 0; i < all.filter_count; i++)
            if (places[i] == place) filter.filters[filter.filter_count++] = all.filters[i];
        if (filter.filter_count > 0) HD_TRY(co_plan_insert(arena, plan, place + 1, &filter));
    }
    return HD_OK;
}

static bool is_integer_property(hd_property property) {
    return property == HD_PROP_ORDER_INDEX || property == HD_PROP_EVENT_COUNT || property == HD_PROP_COUNT ||
           property == HD_PROP_HOPS;
}

/* Does the result hang on the order in which rows come? Sums of integers are exact in any order, sums of floats are not. */
static bool is_order_sensitive(const hd_expr *aggregate) {
    switch (aggregate->aggregate) {
    case HD_AGG_COLLECT: return true;
    case HD_AGG_SUM:
    case HD_AGG_AVG: {
        const hd_expr *argument = aggregate->args[0];
        if (argument->kind == HD_EXPR_PROPERTY) return !is_integer_property(argument->property);
        return !(argument->kind == HD_EXPR_LITERAL && argument->literal.type == HD_TYPE_INT);
    }
    default: return false;
    }
}

/* sort_before_aggregates: aggregates run in the total order. Those that feel it get their rows sorted; the others find a group's
 * first row by comparing, and let rows stream. */
static hd_status sort_before_aggregates(hd_arena *arena, co_plan *plan) {
    bool is_needed = false;
    for (uint32_t i = 0; i < plan->query->aggregate_count; i++)
        if (is_order_sensitive(plan->query->aggregates[i])) is_needed = true;
    for (uint32_t i = 0; i < plan->step_count && is_needed; i++) {
        if (plan->steps[i].op != CO_OP_AGGREGATE) continue;
        co_plan_step sort = co_plan_step_of(CO_OP_SORT);
        sort.is_whole_order = true;
        return co_plan_insert(arena, plan, i, &sort);
    }
    return HD_OK;
}

/* top_rows: under LIMIT a sort keeps the best rows only, so that it holds hundreds instead of hundreds of thousands. */
static hd_status top_rows(hd_arena *arena, co_plan *plan) {
    (void)arena;
    for (uint32_t i = 0; i + 1 < plan->step_count; i++)
        if (plan->steps[i].op == CO_OP_SORT && plan->steps[i + 1].op == CO_OP_LIMIT) plan->steps[i].is_top = true;
    return HD_OK;
}

/* The variables below which two values of `expr` find their nodes different: it stands on these nodes, on the ends of these relations,
 * and (a tag may be carried in both kinds) on what the order compares last. */
static hd_status order_end_of(hd_arena *arena, const co_query *query, hd_expr *expr, uint32_t *end) {
    co_needs needs;
    HD_TRY(co_needs_init(&needs, arena, query));
    HD_TRY(co_needs_add(&needs, expr));
    for (uint32_t v = 0; v < query->var_count; v++) {
        if (!needs.vars[v]) continue;
        const co_var *var = &query->vars[v];
        if (!var->is_relation)
            *end = HD_MAX(*end, v + 1);
        else if (var->relation == HD_REL_MEMBER_OF)
            *end = query->var_count;
        else
            *end = HD_MAX(*end, HD_MAX(query->rels[var->rel].left, query->rels[var->rel].right) + 1);
    }
    return HD_OK;
}

static bool is_ordered_by(const co_query *query, uint32_t item) {
    for (uint32_t i = 0; i < query->order_count; i++)
        if (query->orders[i].item == (int32_t)item) return true;
    return false;
}

/* end_order: how far the total order has to go. Rows are all different, groups and DISTINCT rows are so in what they are grouped by; and
 * where ORDER BY has all of that, nothing comes down to the total order. */
static hd_status end_order(hd_arena *arena, co_plan *plan) {
    const co_query *query = plan->query;
    uint32_t end = query->var_count;
    if (query->has_aggregates || query->is_distinct) {
        end = 0;
        bool is_told_apart = true;
        for (uint32_t i = 0; i < query->item_count; i++) {
            if (query->items[i].has_aggregate) continue;
            is_told_apart = is_told_apart && is_ordered_by(query, i);
            HD_TRY(order_end_of(arena, query, query->items[i].expr, &end));
        }
        if (is_told_apart) end = 0;
    }
    for (uint32_t i = 0; i < plan->step_count; i++) {
        co_plan_step *step = &plan->steps[i];
        if (step->op == CO_OP_AGGREGATE || step->op == CO_OP_DISTINCT || step->op == CO_OP_SORT)
            step->order_end = step->is_whole_order ? query->var_count : end;
    }
    return HD_OK;
}

/* Events of a start, those next to another and those close to another come with their ids. */
static bool does_bring_ids(const co_plan *plan, const co_plan_step *step) {
    if (!does_bind(step)) return false;
    return step->op == CO_OP_START || step->op == CO_OP_SIMILAR || plan->query->rels[step->rel].relation == HD_REL_NEXT;
}

/* carry_facets: what later steps ask of an event comes back with the step that binds it, where it costs no trip of its own. RETURN looks at
 * few of them, and ids are dear where they are many: it looks them up with what else it shows. Stands before insert_facts, which fetches
 * what is then still missing. */
static hd_status carry_facets(hd_arena *arena, co_plan *plan) {
    co_needs needs, shown;
    HD_TRY(co_needs_init(&needs, arena, plan->query));
    HD_TRY(co_needs_init(&shown, arena, plan->query));
    for (uint32_t i = 0; i < plan->step_count; i++)
        HD_TRY(co_needs_add_step(plan->steps[i].op == CO_OP_RETURN ? &shown : &needs, plan->query, &plan->steps[i]));
    for (uint32_t v = 0; v < plan->query->var_count; v++) needs.facets[v] |= shown.facets[v] & ~(uint32_t)HD_FACET_ID;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        co_plan_step *step = &plan->steps[i];
        if (does_bind(step) && plan->query->vars[step->to].label == HD_LABEL_EVENT)
            step->facets |= needs.facets[step->to] & (does_bring_ids(plan, step) ? FACETS_OF_PLACES : FACETS_OF_EVENTS);
    }
    return HD_OK;
}

/* What a FACTS step in front of `step` has to fetch: RETURN and the walk look their nodes up themselves, in one trip for all. */
static bool is_served_by_facts(const co_plan_step *step) {
    return step->op == CO_OP_FILTER || step->op == CO_OP_AGGREGATE || step->op == CO_OP_DISTINCT || step->op == CO_OP_SORT;
}

static bool is_pair_known(const co_plan *plan, uint32_t end, uint32_t left, uint32_t right) {
    for (uint32_t i = 0; i < end; i++) {
        const co_plan_step *step = &plan->steps[i];
        if (step->op != CO_OP_MEASURE) continue;
        if ((step->from == left && step->to == right) || (step->from == right && step->to == left)) return true;
    }
    return false;
}

static uint32_t facets_known(const co_plan *plan, uint32_t end, uint32_t var) {
    uint32_t facets = 0;
    for (uint32_t i = 0; i < end; i++) {
        if (plan->steps[i].to != var) continue;
        facets |= plan->steps[i].facets;
        if (does_bring_ids(plan, &plan->steps[i])) facets |= HD_FACET_ID;
    }
    return facets;
}

/* insert_facts: puts a FACTS or MEASURE step in front of each step that looks at something no step before it has learnt. */
static hd_status insert_facts(hd_arena *arena, co_plan *plan) {
    for (uint32_t i = 0; i < plan->step_count; i++) {
        co_needs needs;
        HD_TRY(co_needs_init(&needs, arena, plan->query));
        co_plan_step consumer = plan->steps[i];
        HD_TRY(co_needs_add_step(&needs, plan->query, &consumer));
        for (uint32_t v = 0; v < plan->query->var_count && is_served_by_facts(&consumer); v++) {
            uint32_t missing = needs.facets[v] & ~facets_known(plan, i, v);
            if (missing == 0) continue;
            co_plan_step facts = co_plan_step_of(CO_OP_FACTS);
            facts.to = v;
            facts.facets = missing;
            HD_TRY(co_plan_insert(arena, plan, i++, &facts));
        }
        for (uint32_t p = 0; p < needs.pair_count; p++) {
            if (is_pair_known(plan, i, needs.pairs[p][0], needs.pairs[p][1])) continue;
            co_plan_step measure = co_plan_step_of(CO_OP_MEASURE);
            measure.from = needs.pairs[p][0];
            measure.to = needs.pairs[p][1];
            HD_TRY(co_plan_insert(arena, plan, i++, &measure));
        }
    }
    return HD_OK;
}

/* know_ids: up to where a sort finds the ids of all events known. Needs what insert_facts put in. */
static hd_status know_ids(hd_arena *arena, co_plan *plan) {
    (void)arena;
    const co_query *query = plan->query;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        co_plan_step *step = &plan->steps[i];
        if (step->op != CO_OP_SORT) continue;
        step->ids_end = step->order_end;
        for (uint32_t v = step->order_end; v-- > 1;) {
            bool is_event = !query->vars[v].is_relation && query->vars[v].label == HD_LABEL_EVENT;
            if (is_event && !(facets_known(plan, i, v) & HD_FACET_ID)) step->ids_end = v;
        }
    }
    return HD_OK;
}

/* keep_distinct: lists for each relation the ones bound before it that it may not be the same as (section 4.2). Runs when the order
 * of the steps is final. */
static hd_status keep_distinct(hd_arena *arena, co_plan *plan) {
    const co_query *query = plan->query;
    for (uint32_t i = 0; i < plan->step_count; i++) {
        co_plan_step *step = &plan->steps[i];
        if (!is_walk(step)) continue;
        const co_rel *rel = &query->rels[step->rel];
        if (rel->is_variable_length) continue;
        HD_ALLOC(step->distinct_from, arena, query->rel_count);
        for (uint32_t k = 0; k < i; k++) {
            if (!is_walk(&plan->steps[k])) continue;
            const co_rel *other = &query->rels[plan->steps[k].rel];
            if (other->relation == rel->relation && other->clause == rel->clause && !other->is_variable_length)
                step->distinct_from[step->distinct_from_count++] = plan->steps[k].rel;
        }
    }
    return HD_OK;
}

static bool is_far_of(const co_plan_step *far, const co_plan_step *edge) {
    return (far->from == edge->from && far->to == edge->to) || (far->from == edge->to && far->to == edge->from);
}

/* ride_along: marks the steps behind the start that can be asked for together with it, where one shard holds the whole org. Each walks on
 * from every node that the one before it binds: so none stands behind a filter, and none behind a relation that has to differ from
 * another one. Needs the final order and what keep_distinct wrote. */
static hd_status ride_along(hd_arena *arena, co_plan *plan) {
    (void)arena;
    for (uint32_t i = 1; i < plan->step_count; i++) {
        co_plan_step *step = &plan->steps[i];
        const co_plan_step *before = &plan->steps[i - 1];
        bool is_expansion = does_bind(step) && step->from == before->to;
        bool is_far =
            step->op == CO_OP_MEASURE && is_walk(step) && i > 1 && is_far_of(step, before) &&
            (before->op == CO_OP_SHARES || (before->op == CO_OP_EXPAND && plan->query->rels[before->rel].relation == HD_REL_NEXT));
        if (!is_expansion && !is_far) break;
        step->rides_along = true;
        bool is_long = step->op == CO_OP_NEXT_WALK || step->op == CO_OP_SHARES_WALK;
        if (is_far || is_long || step->distinct_from_count > 0) break;
    }
    return HD_OK;
}

/* carry_summaries: where there is no walk, the start's events are the answer, and their summaries come with them. */
static hd_status carry_summaries(hd_arena *arena, co_plan *plan) {
    (void)arena;
    const co_query *query = plan->query;
    for (uint32_t i = 0; i < query->item_count && query->rel_count == 0 && query->where_count == 0; i++)
        if (query->items[i].expr->kind == HD_EXPR_VAR) plan->steps[0].facets |= HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_SUMMARY;
    return HD_OK;
}

static hd_status number_steps(hd_arena *arena, co_plan *plan) {
    (void)arena;
    for (uint32_t i = 0; i < plan->step_count; i++) plan->steps[i].number = i + 1;
    return HD_OK;
}

/* clang-format off */
const co_plan_rule co_plan_rules[] = {
    {"place_filters", true, place_filters},
    {"sort_before_aggregates", false, sort_before_aggregates},
    {"end_order", false, end_order},
    {"top_rows", true, top_rows},
    {"carry_facets", true, carry_facets},
    {"carry_summaries", true, carry_summaries},
    {"insert_facts", false, insert_facts},
    {"know_ids", false, know_ids},
    {"keep_distinct", false, keep_distinct},
    {"ride_along", true, ride_along},
    {"number_steps", false, number_steps},
};
/* clang-format on */
const size_t co_plan_rule_count = HD_COUNT_OF(co_plan_rules);
