/* Expressions: variables, properties and aliases resolved in place; lists without parameters become literals. */
#include "common/text.h"
#include "coordinator/language/language_private.h"

/* ---- names ---- */

/* The nearest name of a variable, for a hint. */
static hd_status advise_variable(co_binder *binder, hd_str name, co_advice *advice_out) {
    const co_query *query = binder->query;
    const char **names;
    uint32_t count = 0;
    HD_ALLOC(names, binder->faults->arena, query->var_count + 1);
    for (uint32_t i = 0; i < query->var_count; i++) {
        hd_str copy;
        if (!query->vars[i].name.data) continue;
        HD_TRY(hd_arena_dup(binder->faults->arena, query->vars[i].name, &copy));
        names[count++] = copy.data;
    }
    *advice_out = (co_advice){.hint = HD_STR("Bind it in START or MATCH first; texts go in quotes.")};
    const char *near = co_nearest(name, names);
    return near ? hd_arena_printf(binder->faults->arena, &advice_out->hint, "Did you mean %s?", near) : HD_OK;
}

static hd_status bind_name(co_binder *binder, const co_name *name, uint32_t *var_out) {
    *var_out = co_bind_find(binder, name->text);
    if (*var_out != UINT32_MAX) return HD_OK;
    co_advice advice;
    HD_TRY(advise_variable(binder, name->text, &advice));
    return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, name->offset, &advice, "there is no variable " HD_STR_FMT,
                    HD_STR_ARG(co_excerpt(name->text)));
}

static hd_status report_property(co_binder *binder, const co_var *var, const co_name *name, const char *const *allowed) {
    co_advice advice;
    hd_str hint = {0};
    if (!var->is_relation) hint = co_words_property_hint(var->label, name->text);
    HD_TRY(co_advise(
        binder->faults, name->text, "allowed_properties", allowed,
        allowed[0] ? HD_STR("Use one of its properties.") : HD_STR("Leave its name out: there is nothing to ask of it."), &advice));
    if (hint.data) advice.hint = hint;
    if (hd_property_parse(name->text) == HD_PROP_SCORE) advice.hint = HD_STR("Write cos(a, b) for the similarity of two events.");
    const char *what = var->is_relation ? hd_relation_name(var->relation) : hd_label_name(var->label);
    if (!var->is_relation && hd_property_parse(name->text) == HD_PROP_SCORE && var->label == HD_LABEL_EVENT) {
        return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, name->offset, &advice, "score belongs to the variable of START alone");
    }
    if (!var->is_relation && hd_property_parse(name->text) == HD_PROP_SIDE) {
        advice.hint = HD_STR("Leave it out: at home there is one side.");
        return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, name->offset, &advice,
                        "side exists in queries across a partner link alone");
    }
    return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, name->offset, &advice, "%s has no property " HD_STR_FMT, what,
                    HD_STR_ARG(co_excerpt(name->text)));
}

hd_status co_bind_property(co_binder *binder, hd_expr *expr) {
    const co_var *var = &binder->query->vars[expr->index];
    const co_name *name = &co_term_of(expr)->name2;
    bool is_unknown = var->is_relation ? var->relation == HD_REL_NONE : var->label == HD_LABEL_NONE;
    if (is_unknown) {
        co_term_of(expr)->is_poisoned = true;
        return HD_OK;
    }
    const char *const *allowed =
        var->is_relation ? co_relation_rule_of(var->relation)->property_names : co_words_properties(var->label, expr->index == 0);
    expr->property = hd_property_parse(name->text);
    if (co_words_has(allowed, name->text)) return HD_OK;
    co_term_of(expr)->is_poisoned = true;
    return report_property(binder, var, name, allowed);
}

static hd_status bind_cos(co_binder *binder, hd_expr *expr) {
    co_term *term = co_term_of(expr);
    const co_name *names[2] = {&term->name, &term->name2};
    uint32_t *indexes[2] = {&expr->index, &expr->index2};
    for (int i = 0; i < 2; i++) {
        HD_TRY(bind_name(binder, names[i], indexes[i]));
        if (*indexes[i] == UINT32_MAX) {
            term->is_poisoned = true;
            continue;
        }
        const co_var *var = &binder->query->vars[*indexes[i]];
        if (!var->is_relation && (var->label == HD_LABEL_EVENT || var->label == HD_LABEL_NONE)) continue;
        term->is_poisoned = true;
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, names[i]->offset, CO_HINT("Give cos two variables that are events."),
                        "cos measures two events, and " HD_STR_FMT " is none", HD_STR_ARG(co_excerpt(names[i]->text))));
    }
    return HD_OK;
}

/* An alias of RETURN in ORDER BY: the item's expression takes the place of the name. False: it is none. */
static hd_status bind_alias(co_binder *binder, hd_expr **slot, bool *is_alias_out) {
    co_term *term = co_term_of(*slot);
    const co_tree *tree = binder->tree;
    *is_alias_out = false;
    for (uint32_t i = 0; i < tree->item_count; i++) {
        hd_expr *item = tree->items[i].expr;
        if (!tree->items[i].alias.text.data || !hd_str_is_equal(tree->items[i].alias.text, term->name.text)) continue;
        *is_alias_out = true;
        term->is_bound = true;
        if ((*slot)->kind == HD_EXPR_VAR) {
            term->replacement = item;
            *slot = item;
            return HD_OK;
        }
        if (item->kind == HD_EXPR_VAR) {
            (*slot)->index = item->index;
            return co_term_of(item)->is_poisoned ? HD_OK : co_bind_property(binder, *slot);
        }
        term->is_poisoned = true;
        return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, term->name.offset,
                        CO_HINT("Order by the alias itself, or rename it in RETURN."),
                        HD_STR_FMT " is the alias of a value, which has no properties", HD_STR_ARG(co_excerpt(term->name.text)));
    }
    return HD_OK;
}

/* Numbers the aggregate; the same one written twice is one. */
static hd_status bind_aggregate(co_binder *binder, hd_expr *expr, bool can_aggregate) {
    co_query *query = binder->query;
    if (expr->arg_count > 0) HD_TRY(co_bind_expr(binder, &expr->args[0], false, false));
    if (!can_aggregate) return HD_OK;
    for (uint32_t i = 0; i < query->aggregate_count; i++) {
        expr->index = query->aggregates[i]->index;
        if (co_expr_is_same(expr, query->aggregates[i])) return HD_OK;
    }
    HD_TRY(co_push(binder->faults->arena, (void *)&query->aggregates, &query->aggregate_count, &binder->aggregate_capacity,
                   sizeof expr));
    query->aggregates[query->aggregate_count - 1] = expr;
    expr->index = query->aggregate_count - 1;
    query->has_aggregates = true;
    return HD_OK;
}

static hd_status report_aggregate(co_binder *binder, const hd_expr *expr, bool is_nested) {
    if (is_nested) {
        return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, expr->offset,
                        CO_HINT("Aggregate once, and the result in a second query."), "an aggregate cannot stand in an aggregate");
    }
    return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, expr->offset,
                    CO_HINT("Return the aggregate and order by it with LIMIT; groups cannot be filtered."),
                    "an aggregate stands in RETURN and ORDER BY alone");
}

hd_status co_bind_expr(co_binder *binder, hd_expr **slot, bool can_aggregate, bool can_alias) {
    co_term *term = co_term_of(*slot);
    hd_expr *expr = *slot;
    bool is_alias = false;
    if (term->replacement) *slot = term->replacement;
    if (term->is_bound) return HD_OK;
    if (can_alias && (expr->kind == HD_EXPR_VAR || expr->kind == HD_EXPR_PROPERTY)) HD_TRY(bind_alias(binder, slot, &is_alias));
    if (is_alias) return HD_OK;
    term->is_bound = true;
    switch (expr->kind) {
    case HD_EXPR_VAR:
    case HD_EXPR_PROPERTY:
        HD_TRY(bind_name(binder, &term->name, &expr->index));
        term->is_poisoned = expr->index == UINT32_MAX;
        return expr->kind == HD_EXPR_PROPERTY && !term->is_poisoned ? co_bind_property(binder, expr) : HD_OK;
    case HD_EXPR_COS: return bind_cos(binder, expr);
    case HD_EXPR_AGGREGATE:
        if (!can_aggregate)
            HD_TRY(report_aggregate(binder, expr, binder->is_in_aggregate));
        else
            binder->is_in_aggregate = true;
        HD_TRY(bind_aggregate(binder, expr, can_aggregate));
        if (can_aggregate) binder->is_in_aggregate = false;
        return HD_OK;
    default:
        for (uint32_t i = 0; i < expr->arg_count; i++) HD_TRY(co_bind_expr(binder, &expr->args[i], can_aggregate, can_alias));
        return HD_OK;
    }
}

/* ---- lists ---- */

hd_status co_bind_fold(co_binder *binder, hd_expr *expr) {
    bool is_literal = expr->kind == HD_EXPR_LIST;
    for (uint32_t i = 0; i < expr->arg_count; i++) {
        HD_TRY(co_bind_fold(binder, expr->args[i]));
        is_literal = is_literal && expr->args[i]->kind == HD_EXPR_LITERAL;
    }
    if (!is_literal) return HD_OK;
    hd_value *items;
    HD_ALLOC(items, binder->faults->arena, expr->arg_count);
    for (uint32_t i = 0; i < expr->arg_count; i++) items[i] = expr->args[i]->literal;
    expr->kind = HD_EXPR_LITERAL;
    expr->literal = (hd_value){.type = HD_TYPE_LIST, .list = {.items = items, .count = expr->arg_count}};
    expr->args = NULL;
    expr->arg_count = 0;
    return HD_OK;
}

/* ---- sameness ---- */

static bool is_same_literal(const hd_value *a, const hd_value *b) {
    if (a->type != b->type) return false;
    if (a->type != HD_TYPE_LIST) return hd_value_is_same(a, b);
    if (a->list.count != b->list.count) return false;
    for (uint32_t i = 0; i < a->list.count; i++) {
        if (!is_same_literal(&a->list.items[i], &b->list.items[i])) return false;
    }
    return true;
}

bool co_expr_is_same(const hd_expr *a, const hd_expr *b) {
    if (a == b) return true;
    if (a->kind != b->kind || a->index != b->index || a->index2 != b->index2 || a->property != b->property ||
        a->aggregate != b->aggregate || a->is_distinct != b->is_distinct || a->arg_count != b->arg_count) {
        return false;
    }
    if (a->kind == HD_EXPR_LITERAL && !is_same_literal(&a->literal, &b->literal)) return false;
    for (uint32_t i = 0; i < a->arg_count; i++) {
        if (!co_expr_is_same(a->args[i], b->args[i])) return false;
    }
    return true;
}
