/* openCypher's three-valued logic. What is no boolean counts as unknown where a truth is wanted. The tree's depth is bounded by the
 * parser (nesting 32), so recursion is too. */
#include "common/expr.h"

#include "common/text.h"

static hd_truth truth_of(const hd_value *value) {
    return value->type != HD_TYPE_BOOL ? HD_UNKNOWN : value->boolean ? HD_TRUE : HD_FALSE;
}

static hd_value value_of(hd_truth truth) {
    return truth == HD_UNKNOWN ? HD_VALUE_NULL : hd_value_bool(truth == HD_TRUE);
}

static hd_truth turn(hd_truth truth) {
    return truth == HD_UNKNOWN ? HD_UNKNOWN : truth == HD_TRUE ? HD_FALSE : HD_TRUE;
}

/* AND (`decider` false) and OR (`decider` true): one argument that is the decider decides, and nothing after it is looked at; else
 * an unknown one makes it unknown. */
static hd_status eval_junction(const hd_expr *expr, hd_truth decider, hd_expr_env *env, hd_truth *truth_out) {
    *truth_out = turn(decider);
    for (uint32_t i = 0; i < expr->arg_count; i++) {
        hd_value arg;
        HD_TRY(hd_expr_eval(expr->args[i], env, &arg));
        hd_truth truth = truth_of(&arg);
        if (truth == HD_UNKNOWN) *truth_out = HD_UNKNOWN;
        if (truth == decider) {
            *truth_out = decider;
            return HD_OK;
        }
    }
    return HD_OK;
}

static hd_truth compare(hd_expr_kind kind, const hd_value *a, const hd_value *b) {
    int order;
    if (!hd_value_compare(a, b, &order)) return HD_UNKNOWN;
    bool is_true = false;
    switch (kind) {
    case HD_EXPR_LT: is_true = order < 0; break;
    case HD_EXPR_LE: is_true = order <= 0; break;
    case HD_EXPR_GT: is_true = order > 0; break;
    case HD_EXPR_GE: is_true = order >= 0; break;
    default: hd_panic(__FILE__, __LINE__, "a comparison is one of < <= > >=");
    }
    return is_true ? HD_TRUE : HD_FALSE;
}

/* `item IN list`. Nothing is in the empty list, not even null; a null list is unknown. */
static hd_truth find_in_list(const hd_value *item, const hd_value *list) {
    if (list->type != HD_TYPE_LIST) return HD_UNKNOWN;
    hd_truth truth = HD_FALSE;
    for (uint32_t i = 0; i < list->list.count; i++) {
        hd_truth equal = hd_value_equal(item, &list->list.items[i]);
        if (equal == HD_TRUE) return HD_TRUE;
        if (equal == HD_UNKNOWN) truth = HD_UNKNOWN;
    }
    return truth;
}

/* The folded copies go again before this returns. Ill-formed text contains nothing and is in nothing. */
static hd_status eval_contains(const hd_value *text, const hd_value *piece, hd_arena *arena, hd_truth *truth_out) {
    *truth_out = HD_UNKNOWN;
    if (text->type != HD_TYPE_STRING || piece->type != HD_TYPE_STRING) return HD_OK;
    hd_arena_mark mark = hd_arena_get_mark(arena);
    hd_str folded_text, folded_piece;
    hd_status status = hd_text_fold(arena, text->text, &folded_text);
    if (status == HD_OK) status = hd_text_fold(arena, piece->text, &folded_piece);
    if (status == HD_OK) *truth_out = hd_text_contains(folded_text, folded_piece) ? HD_TRUE : HD_FALSE;
    hd_arena_rollback(arena, mark);
    return status == HD_ARGUMENT ? HD_OK : status;
}

static hd_status eval_binary(const hd_expr *expr, hd_expr_env *env, hd_truth *truth_out) {
    hd_value a, b;
    HD_TRY(hd_expr_eval(expr->args[0], env, &a));
    HD_TRY(hd_expr_eval(expr->args[1], env, &b));
    switch (expr->kind) {
    case HD_EXPR_EQ: *truth_out = hd_value_equal(&a, &b); break;
    case HD_EXPR_NE: *truth_out = turn(hd_value_equal(&a, &b)); break;
    case HD_EXPR_IN: *truth_out = find_in_list(&a, &b); break;
    case HD_EXPR_CONTAINS: return eval_contains(&a, &b, env->arena, truth_out);
    default: *truth_out = compare(expr->kind, &a, &b); break;
    }
    return HD_OK;
}

static hd_status eval_unary(const hd_expr *expr, hd_expr_env *env, hd_truth *truth_out) {
    hd_value arg;
    HD_TRY(hd_expr_eval(expr->args[0], env, &arg));
    bool is_null = arg.type == HD_TYPE_NULL;
    if (expr->kind == HD_EXPR_NOT) {
        *truth_out = turn(truth_of(&arg));
    } else {
        *truth_out = is_null == (expr->kind == HD_EXPR_IS_NULL) ? HD_TRUE : HD_FALSE;
    }
    return HD_OK;
}

static hd_status eval_list(const hd_expr *expr, hd_expr_env *env, hd_value *value_out) {
    hd_value *items;
    HD_ALLOC(items, env->arena, expr->arg_count);
    for (uint32_t i = 0; i < expr->arg_count; i++) HD_TRY(hd_expr_eval(expr->args[i], env, &items[i]));
    *value_out = (hd_value){.type = HD_TYPE_LIST, .list = {.items = items, .count = expr->arg_count}};
    return HD_OK;
}

hd_status hd_expr_eval(const hd_expr *expr, hd_expr_env *env, hd_value *value_out) {
    hd_truth truth = HD_UNKNOWN;
    switch (expr->kind) {
    case HD_EXPR_LITERAL: *value_out = expr->literal; return HD_OK;
    case HD_EXPR_PARAM: *value_out = env->params[expr->index]; return HD_OK;
    case HD_EXPR_LIST: return eval_list(expr, env, value_out);
    case HD_EXPR_VAR:
    case HD_EXPR_PROPERTY:
    case HD_EXPR_COS:
    case HD_EXPR_AGGREGATE: return env->get(env->self, expr, value_out);
    case HD_EXPR_AND: HD_TRY(eval_junction(expr, HD_FALSE, env, &truth)); break;
    case HD_EXPR_OR: HD_TRY(eval_junction(expr, HD_TRUE, env, &truth)); break;
    case HD_EXPR_NOT:
    case HD_EXPR_IS_NULL:
    case HD_EXPR_IS_NOT_NULL: HD_TRY(eval_unary(expr, env, &truth)); break;
    case HD_EXPR_EQ:
    case HD_EXPR_NE:
    case HD_EXPR_LT:
    case HD_EXPR_LE:
    case HD_EXPR_GT:
    case HD_EXPR_GE:
    case HD_EXPR_IN:
    case HD_EXPR_CONTAINS: HD_TRY(eval_binary(expr, env, &truth)); break;
    }
    *value_out = value_of(truth);
    return HD_OK;
}

hd_status hd_expr_is_true(const hd_expr *expr, hd_expr_env *env, bool *is_true_out) {
    hd_value value;
    *is_true_out = false;
    HD_TRY(hd_expr_eval(expr, env, &value));
    *is_true_out = truth_of(&value) == HD_TRUE;
    return HD_OK;
}

void hd_expr_visit(hd_expr *expr, void (*visit)(hd_expr *node, void *context), void *context) {
    visit(expr, context);
    for (uint32_t i = 0; i < expr->arg_count; i++) hd_expr_visit(expr->args[i], visit, context);
}
