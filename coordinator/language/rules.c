/* What a START argument and a relation's parameter may be: type, range, words (language.md sections 1 and 3). One check for literals
 * (when a query is bound, `grammar`) and for parameters (when they are known, `params`). */
#include <float.h>
#include <inttypes.h>
#include <math.h>

#include "common/clock.h"
#include "common/text.h"
#include "coordinator/language/language_private.h"

/* ---- operands ---- */

co_operand co_operand_of(const co_checker *checker, const hd_expr *expr) {
    co_operand operand = {.expr = expr};
    if (expr->kind == HD_EXPR_LITERAL || expr->kind == HD_EXPR_LIST) operand.value = &expr->literal;
    if (expr->kind == HD_EXPR_PARAM && checker->params && !checker->is_missing[expr->index])
        operand.value = &checker->params[expr->index];
    return operand;
}

bool co_operand_is_list(const co_checker *checker, const hd_expr *expr, uint32_t *count_out, bool *is_known_out) {
    *is_known_out = true;
    if (expr->kind == HD_EXPR_LIST) {
        *count_out = expr->arg_count;
        return true;
    }
    const hd_value *value = co_operand_of(checker, expr).value;
    *is_known_out = value != NULL;
    *count_out = value && value->type == HD_TYPE_LIST ? value->list.count : 0;
    return !value || value->type == HD_TYPE_LIST;
}

co_operand co_operand_item(const co_checker *checker, const hd_expr *expr, uint32_t index) {
    if (expr->kind == HD_EXPR_LIST) return co_operand_of(checker, expr->args[index]);
    const hd_value *value = co_operand_of(checker, expr).value;
    return (co_operand){.value = &value->list.items[index], .expr = expr};
}

/* ---- what is expected, in words ---- */

static hd_status describe_range(hd_arena *arena, const co_rule *rule, hd_str *text_out) {
    const char *type = rule->kind == CO_RULE_INT ? "an integer" : "a number";
    if (isinf(rule->max)) return hd_arena_printf(arena, text_out, "%s of at least %g", type, rule->min);
    return hd_arena_printf(arena, text_out, "%s from %g to %g", type, rule->min, rule->max);
}

static hd_status describe_words(hd_arena *arena, const co_rule *rule, hd_str *text_out) {
    HD_TRY(hd_arena_printf(arena, text_out, "'%s'", rule->words[0]));
    for (size_t i = 1; rule->words[i]; i++) {
        HD_TRY(hd_arena_printf(arena, text_out, HD_STR_FMT " or '%s'", HD_STR_ARG(*text_out), rule->words[i]));
    }
    return HD_OK;
}

static hd_status describe_rule(hd_arena *arena, const co_rule *rule, hd_str *text_out) {
    switch (rule->kind) {
    case CO_RULE_INT:
    case CO_RULE_FLOAT: return describe_range(arena, rule, text_out);
    case CO_RULE_BOOL: *text_out = HD_STR("true or false"); return HD_OK;
    case CO_RULE_WORD: return describe_words(arena, rule, text_out);
    case CO_RULE_TEXT: *text_out = HD_STR("a string that is not empty"); return HD_OK;
    case CO_RULE_INSTANT: *text_out = HD_STR("a string with an ISO 8601 date or date-time"); return HD_OK;
    case CO_RULE_NAMES: *text_out = HD_STR("a name or an id (a string that is not empty), or a list of at least one"); return HD_OK;
    case CO_RULE_NAME_LIST: *text_out = HD_STR("a list of at least one name or id (strings that are not empty)"); return HD_OK;
    case CO_RULE_IDS: *text_out = HD_STR("a list of event ids (strings)"); return HD_OK;
    case CO_RULE_VECTOR: *text_out = HD_STR("a list of 1 to 4096 finite 32-bit numbers that are not all zero"); return HD_OK;
    }
    hd_panic(__FILE__, __LINE__, "a rule of a known kind");
}

/* The first sentence that mends it. */
static hd_status advise_rule(hd_arena *arena, const co_rule *rule, const hd_value *value, co_advice *advice_out) {
    *advice_out = (co_advice){0};
    if (rule->kind == CO_RULE_WORD) {
        advice_out->allowed_key = "allowed_values";
        advice_out->allowed = rule->words;
        const char *near = value->type == HD_TYPE_STRING ? co_nearest(value->text, rule->words) : NULL;
        if (near) return hd_arena_printf(arena, &advice_out->hint, "Did you mean '%s'?", near);
        return hd_arena_printf(arena, &advice_out->hint, "Write %s: '%s', or leave it out.", rule->name, rule->words[0]);
    }
    if (rule->kind == CO_RULE_NAME_LIST && value->type == HD_TYPE_STRING) {
        return hd_arena_printf(arena, &advice_out->hint, "Write %s: [..], a list that all of must hold.", rule->name);
    }
    if (rule->kind == CO_RULE_IDS && value->type == HD_TYPE_STRING) {
        advice_out->hint = HD_STR("Put the id into a list: ids: ['..'].");
        return HD_OK;
    }
    if (rule->kind == CO_RULE_INSTANT) {
        advice_out->hint = HD_STR("Write a date or date-time such as '2025-01-31' or '2025-01-31T10:00:00Z'.");
        return HD_OK;
    }
    hd_str expected;
    HD_TRY(describe_rule(arena, rule, &expected));
    return hd_arena_printf(arena, &advice_out->hint, "Give %s " HD_STR_FMT ".", rule->name, HD_STR_ARG(expected));
}

/* The parameter at fault: the expression, or the first one in a list. NULL: it is all literals. */
static const hd_expr *find_param(const hd_expr *expr) {
    if (expr->kind == HD_EXPR_PARAM) return expr;
    for (uint32_t i = 0; i < expr->arg_count; i++) {
        const hd_expr *found = find_param(expr->args[i]);
        if (found) return found;
    }
    return NULL;
}

/* Reports that an operand breaks the rule. `found` says what was found there; absent: the value's description does. */
static hd_status report(const co_checker *checker, const co_rule *rule, const char *owner, co_operand at, hd_str found) {
    hd_arena *arena = checker->faults->arena;
    hd_str expected, where = HD_STR("");
    co_advice advice;
    HD_TRY(describe_rule(arena, rule, &expected));
    if (!found.data) HD_TRY(co_describe(arena, at.value, &found));
    HD_TRY(advise_rule(arena, rule, at.value, &advice));
    const hd_expr *param = checker->params ? find_param(at.expr) : NULL;
    if (param) {
        HD_TRY(hd_arena_printf(arena, &where, " in the parameter $" HD_STR_FMT,
                               HD_STR_ARG(co_excerpt(checker->query->params[param->index]))));
    }
    return co_fault(checker->faults, param ? CO_BLOCKED_PARAMS : CO_BLOCKED_GRAMMAR, param ? param->offset : at.expr->offset,
                    &advice, "%s%s%s must be " HD_STR_FMT "; found " HD_STR_FMT HD_STR_FMT, rule->name, owner ? " of " : "",
                    owner ? owner : "", HD_STR_ARG(expected), HD_STR_ARG(found), HD_STR_ARG(where));
}

/* ---- checks ---- */

static bool is_in_range(const co_rule *rule, const hd_value *value) {
    if (value->type == HD_TYPE_INT) {
        /* Bounds are small whole numbers or open, so that the conversion to double cannot move a value across one. */
        return (double)value->integer >= rule->min && (double)value->integer <= rule->max;
    }
    return rule->kind == CO_RULE_FLOAT && value->type == HD_TYPE_FLOAT && value->number >= rule->min && value->number <= rule->max;
}

static bool is_blank(const hd_value *value) {
    return value->type != HD_TYPE_STRING || hd_text_trim(value->text).size == 0;
}

static hd_status check_scalar(const co_checker *checker, const co_rule *rule, const char *owner, co_operand operand) {
    const hd_value *value = operand.value;
    if (!value) return HD_OK;
    int64_t us;
    bool is_good = false;
    switch (rule->kind) {
    case CO_RULE_INT:
    case CO_RULE_FLOAT: is_good = is_in_range(rule, value); break;
    case CO_RULE_BOOL: is_good = value->type == HD_TYPE_BOOL; break;
    case CO_RULE_WORD: is_good = value->type == HD_TYPE_STRING && co_words_has(rule->words, value->text); break;
    case CO_RULE_INSTANT: is_good = value->type == HD_TYPE_STRING && hd_instant_parse(value->text, &us); break;
    case CO_RULE_IDS: is_good = value->type == HD_TYPE_STRING; break;
    default: is_good = !is_blank(value); break;
    }
    if (is_good) return HD_OK;
    bool is_invisible = value->type == HD_TYPE_STRING && is_blank(value);
    return report(checker, rule, owner, operand, is_invisible ? HD_STR("an empty string") : (hd_str){0});
}

static bool is_float32(const hd_value *value, float *number_out) {
    double number = value->type == HD_TYPE_INT ? (double)value->integer : value->type == HD_TYPE_FLOAT ? value->number : NAN;
    if (!(fabs(number) <= DBL_MAX)) return false;
    *number_out = (float)number;
    return isfinite(*number_out);
}

static hd_status check_vector(const co_checker *checker, const co_rule *rule, const char *owner, const hd_expr *expr,
                              uint32_t count) {
    co_operand whole = co_operand_of(checker, expr);
    bool is_zero = true;
    for (uint32_t i = 0; i < count; i++) {
        co_operand item = co_operand_item(checker, expr, i);
        float number = 1;
        if (item.value && !is_float32(item.value, &number)) {
            hd_str found;
            HD_TRY(co_describe(checker->faults->arena, item.value, &found));
            HD_TRY(hd_arena_printf(checker->faults->arena, &found, HD_STR_FMT " as item %" PRIu32, HD_STR_ARG(found), i + 1));
            return report(checker, rule, owner, item, found);
        }
        is_zero = is_zero && number == 0;
    }
    if (count == 0 || count > CO_VECTOR_SIZE_MAX) return report(checker, rule, owner, whole, (hd_str){0});
    return is_zero ? report(checker, rule, owner, whole, HD_STR("nothing but zeros")) : HD_OK;
}

static hd_status check_list(const co_checker *checker, const co_rule *rule, const char *owner, const hd_expr *expr,
                            uint32_t count) {
    if (rule->kind == CO_RULE_VECTOR) return check_vector(checker, rule, owner, expr, count);
    if (count == 0 && rule->kind != CO_RULE_IDS) {
        const hd_value list = {.type = HD_TYPE_LIST};
        return report(checker, rule, owner, (co_operand){&list, expr}, HD_STR("an empty list"));
    }
    for (uint32_t i = 0; i < count; i++) HD_TRY(check_scalar(checker, rule, owner, co_operand_item(checker, expr, i)));
    return HD_OK;
}

hd_status co_rule_check(const co_checker *checker, const co_rule *rule, const char *owner, const hd_expr *expr) {
    uint32_t count;
    bool is_known, is_list = co_operand_is_list(checker, expr, &count, &is_known);
    if (is_list && !is_known) return HD_OK;
    bool can_be_list =
        rule->kind == CO_RULE_NAMES || rule->kind == CO_RULE_NAME_LIST || rule->kind == CO_RULE_IDS || rule->kind == CO_RULE_VECTOR;
    bool can_be_single = rule->kind == CO_RULE_NAMES || !can_be_list;
    co_operand operand = co_operand_of(checker, expr);
    if (is_list && can_be_list) return check_list(checker, rule, owner, expr, count);
    if (!is_list && can_be_single) return check_scalar(checker, rule, owner, operand);
    return report(checker, rule, owner, operand, (hd_str){0});
}
