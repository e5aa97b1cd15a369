/* See needs.h. */
#include "coordinator/plan/needs.h"

#include "proto/step.h"

hd_status co_needs_init(co_needs *needs, hd_arena *arena, const co_query *query) {
    *needs = (co_needs){.query = query, .arena = arena};
    HD_ALLOC(needs->vars, arena, query->var_count);
    HD_ALLOC(needs->facets, arena, query->var_count);
    return HD_OK;
}

static uint32_t facet_of_property(hd_property property) {
    switch (property) {
    case HD_PROP_ID: return HD_FACET_ID;
    case HD_PROP_TIMESTAMP: return HD_FACET_TIME;
    case HD_PROP_ORDER_INDEX: return HD_FACET_ORDER;
    case HD_PROP_THREAD: return HD_FACET_THREAD;
    case HD_PROP_SUMMARY: return HD_FACET_SUMMARY;
    case HD_PROP_TYPE: return HD_FACET_TYPE;
    case HD_PROP_EVENT_COUNT: return CO_FACET_EVENT_COUNT;
    default: return 0; /* name, score and what relations carry come with the node or the edge */
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

static bool is_node(const co_needs *needs, uint32_t var) {
    return !needs->query->vars[var].is_relation;
}

/* Entities and tags bring their ids along. */
static void add_facets(co_needs *needs, uint32_t var, uint32_t facets) {
    if (!is_node(needs, var)) return;
    if (needs->query->vars[var].label != HD_LABEL_EVENT) facets &= ~(uint32_t)HD_FACET_ID;
    needs->facets[var] |= facets;
}

/* Parents come first: a node that is only counted is looked at before its variable, and told apart without its id. */
static void add_node_needs(hd_expr *node, void *context) {
    co_needs *needs = context;
    switch (node->kind) {
    case HD_EXPR_AGGREGATE:
        needs->is_counted = node->aggregate == HD_AGG_COUNT && node->arg_count == 1 && node->args[0]->kind == HD_EXPR_VAR;
        break;
    case HD_EXPR_VAR:
        needs->vars[node->index] = true;
        if (!needs->is_counted) add_facets(needs, node->index, HD_FACET_ID);
        needs->is_counted = false;
        break;
    case HD_EXPR_PROPERTY:
        needs->vars[node->index] = true;
        add_facets(needs, node->index, facet_of_property(node->property));
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

/* The order of groups and rows stands on ids of events; of the start's, on its own order. */
static void add_order_needs(co_needs *needs, uint32_t var_end) {
    for (uint32_t v = 1; v < var_end; v++) add_facets(needs, v, HD_FACET_ID);
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
        add_order_needs(needs, step->order_end);
        break;
    case CO_OP_DISTINCT:
        HD_TRY(add_items(needs, query));
        add_order_needs(needs, step->order_end);
        break;
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
