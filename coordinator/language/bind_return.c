/* RETURN and ORDER BY: columns, aggregates and what groups by what, keys of the order (language.md section 6). */
#include "common/text.h"
#include "coordinator/language/language_private.h"

static bool has_aggregate(const hd_expr *expr) {
    if (expr->kind == HD_EXPR_AGGREGATE) return true;
    for (uint32_t i = 0; i < expr->arg_count; i++) {
        if (has_aggregate(expr->args[i])) return true;
    }
    return false;
}

/* An expression as the query has it. */
static hd_str written(const co_query *query, const hd_expr *expr) {
    return (hd_str){query->text.data + expr->offset, expr->size};
}

/* ---- columns ---- */

static hd_status check_columns(co_binder *binder) {
    const co_query *query = binder->query;
    const co_tree *tree = binder->tree;
    for (uint32_t i = 0; i < query->item_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (!hd_str_is_equal(query->items[i].column, query->items[k].column)) continue;
            uint32_t offset = tree->items[i].alias.text.data ? tree->items[i].alias.offset : tree->items[i].offset;
            return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, offset, CO_HINT("Give one of them another name with AS."),
                            "two columns are called " HD_STR_FMT, HD_STR_ARG(co_excerpt(query->items[i].column)));
        }
    }
    return HD_OK;
}

static hd_status bind_items(co_binder *binder) {
    const co_tree *tree = binder->tree;
    co_query *query = binder->query;
    HD_ALLOC(query->items, binder->faults->arena, tree->item_count);
    query->item_count = tree->item_count;
    query->is_distinct = tree->is_distinct;
    for (uint32_t i = 0; i < tree->item_count; i++) {
        co_tree_item *item = &tree->items[i];
        co_type type;
        HD_TRY(co_bind_expr(binder, &item->expr, true, false));
        HD_TRY(co_type_check(&binder->checker, item->expr, &type));
        HD_TRY(co_bind_fold(binder, item->expr));
        hd_str column = {query->text.data + item->offset, item->size};
        query->items[i] = (co_item){.expr = item->expr,
                                    .column = item->alias.text.data ? item->alias.text : column,
                                    .has_aggregate = has_aggregate(item->expr)};
    }
    return check_columns(binder);
}

/* ---- what a group has one value of ---- */

/* Is every leaf of `expr` (aggregates aside) an item of RETURN, or a property of a variable that is one? `items_with_aggregates`:
 * may such items be used whole? The first leaf that is not stands in *loose_out. */
static bool is_covered(const co_query *query, const hd_expr *expr, bool can_use_aggregates, const hd_expr **loose_out) {
    for (uint32_t i = 0; i < query->item_count; i++) {
        const co_item *item = &query->items[i];
        if (item->has_aggregate && !can_use_aggregates) continue;
        if (co_expr_is_same(expr, item->expr)) return true;
        if (item->expr->kind == HD_EXPR_VAR && expr->kind == HD_EXPR_PROPERTY && expr->index == item->expr->index) return true;
    }
    *loose_out = expr;
    switch (expr->kind) {
    case HD_EXPR_LITERAL:
    case HD_EXPR_PARAM: return true;
    case HD_EXPR_VAR:
    case HD_EXPR_PROPERTY: return false;
    case HD_EXPR_AGGREGATE: return !can_use_aggregates;
    case HD_EXPR_COS: {
        bool has_left = false, has_right = false;
        for (uint32_t i = 0; i < query->item_count; i++) {
            if (query->items[i].expr->kind != HD_EXPR_VAR) continue;
            has_left = has_left || query->items[i].expr->index == expr->index;
            has_right = has_right || query->items[i].expr->index == expr->index2;
        }
        return has_left && has_right;
    }
    default: break;
    }
    for (uint32_t i = 0; i < expr->arg_count; i++) {
        if (!is_covered(query, expr->args[i], can_use_aggregates, loose_out)) return false;
    }
    return true;
}

/* An item that mixes an aggregate with something else: the rest must be what the rows are grouped by. */
static hd_status check_mixed_items(co_binder *binder) {
    const co_query *query = binder->query;
    for (uint32_t i = 0; i < query->item_count; i++) {
        const hd_expr *loose;
        const co_item *item = &query->items[i];
        if (!item->has_aggregate || is_covered(query, item->expr, false, &loose)) continue;
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, loose->offset,
                        CO_HINT("Return it as an item of its own too, so that rows are grouped by it."),
                        HD_STR_FMT " stands beside an aggregate, and a group has many values of it",
                        HD_STR_ARG(co_excerpt(written(query, loose)))));
    }
    return HD_OK;
}

/* ---- ORDER BY ---- */

static hd_status check_order_covered(co_binder *binder, const hd_expr *expr) {
    const co_query *query = binder->query;
    const hd_expr *loose;
    bool is_grouped = false;
    for (uint32_t i = 0; i < query->item_count; i++) is_grouped = is_grouped || query->items[i].has_aggregate;
    if (!is_grouped && !query->is_distinct && !has_aggregate(expr)) return HD_OK;
    if (is_covered(query, expr, true, &loose)) return HD_OK;
    if (loose->kind == HD_EXPR_AGGREGATE) {
        return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, loose->offset,
                        CO_HINT("Return it under an alias, and order by the alias."),
                        "ORDER BY uses an aggregate that RETURN does not have");
    }
    return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, loose->offset,
                    CO_HINT("Return it too, or order by something that is returned."),
                    "ORDER BY uses " HD_STR_FMT ", which is not returned, and RETURN %s",
                    HD_STR_ARG(co_excerpt(written(query, loose))), is_grouped ? "aggregates" : "is DISTINCT");
}

static hd_status bind_orders(co_binder *binder) {
    co_tree *tree = binder->tree;
    co_query *query = binder->query;
    HD_ALLOC(query->orders, binder->faults->arena, tree->order_count);
    query->order_count = tree->order_count;
    for (uint32_t i = 0; i < tree->order_count; i++) {
        co_tree_order *key = &tree->orders[i];
        uint32_t offset = key->expr->offset;
        HD_TRY(co_bind_expr(binder, &key->expr, true, true));
        HD_TRY(co_type_check_order(&binder->checker, key->expr, offset));
        HD_TRY(co_bind_fold(binder, key->expr));
        co_order *order = &query->orders[i];
        *order = (co_order){.expr = key->expr, .item = -1, .is_descending = key->is_descending};
        for (uint32_t k = 0; k < query->item_count && order->item < 0; k++) {
            if (!co_expr_is_same(key->expr, query->items[k].expr)) continue;
            order->item = (int32_t)k;
            order->expr = query->items[k].expr;
        }
        if (order->item < 0 && !co_term_of(key->expr)->is_poisoned) HD_TRY(check_order_covered(binder, key->expr));
    }
    return HD_OK;
}

hd_status co_bind_return(co_binder *binder) {
    HD_TRY(bind_items(binder));
    HD_TRY(check_mixed_items(binder));
    return bind_orders(binder);
}
