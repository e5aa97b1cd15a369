/* The types of expressions: what compares with what (language.md section 5). Runs twice over the same trees: when a query is bound
 * (parameters have any type; faults are `grammar`) and when its parameters are known (what is then found is a parameter's fault,
 * `params`). A type is what an expression gives when it is not null; null itself goes with everything.
 *
 * A string that is compared with a timestamp and names no moment is refused, as a literal and as a parameter: its comparison could
 * only ever be null. */
#include <stdarg.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/text.h"
#include "coordinator/language/language_private.h"

static const char *type_name(co_type type) {
    static const char *const names[] = {
        [CO_TYPE_ANY] = "the value of a parameter",
        [CO_TYPE_NULL] = "null",
        [CO_TYPE_BOOL] = "a boolean",
        [CO_TYPE_NUMBER] = "a number",
        [CO_TYPE_STRING] = "a string",
        [CO_TYPE_INSTANT] = "a timestamp",
        [CO_TYPE_RELATION] = "a relation",
        [CO_TYPE_LIST] = "a list",
    };
    if (type.kind != CO_TYPE_NODE) return names[type.kind];
    return type.label == HD_LABEL_ENTITY ? "an Entity" : type.label == HD_LABEL_TAG ? "a Tag" : "an Event";
}

static co_type type_of_value(const hd_value *value) {
    switch (value->type) {
    case HD_TYPE_NULL: return (co_type){.kind = CO_TYPE_NULL};
    case HD_TYPE_BOOL: return (co_type){.kind = CO_TYPE_BOOL};
    case HD_TYPE_INT:
    case HD_TYPE_FLOAT: return (co_type){.kind = CO_TYPE_NUMBER};
    case HD_TYPE_STRING: return (co_type){.kind = CO_TYPE_STRING};
    default: return (co_type){.kind = CO_TYPE_LIST};
    }
}

enum { REPORT_MAX = 400 };

static const hd_expr *find_param(const hd_expr *expr) {
    if (expr->kind == HD_EXPR_PARAM) return expr;
    for (uint32_t i = 0; i < expr->arg_count; i++) {
        const hd_expr *found = find_param(expr->args[i]);
        if (found) return found;
    }
    return NULL;
}

/* Reports that two expressions do not go together: at the parameter in the second, else in the first, once parameters are known; and
 * at the second as it stands before. */
static hd_status report(const co_checker *checker, const hd_expr *first, const hd_expr *second, hd_str hint, const char *format,
                        ...) HD_PRINTF(5, 6);

static hd_status report(const co_checker *checker, const hd_expr *first, const hd_expr *second, hd_str hint, const char *format,
                        ...) {
    char message[REPORT_MAX];
    co_advice advice = {.hint = hint};
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    HD_CHECK(size >= 0 && (size_t)size < sizeof message);
    if (!checker->params) return co_fault(checker->faults, CO_BLOCKED_GRAMMAR, second->offset, &advice, "%s", message);
    const hd_expr *param = find_param(second);
    if (!param) param = find_param(first);
    if (!param) return co_fault(checker->faults, CO_BLOCKED_PARAMS, second->offset, &advice, "%s", message);
    return co_fault(checker->faults, CO_BLOCKED_PARAMS, param->offset, &advice, "%s, in the parameter $" HD_STR_FMT, message,
                    HD_STR_ARG(co_excerpt(checker->query->params[param->index])));
}

/* ---- comparisons ---- */

static bool has_no_comparison(co_type type) {
    return type.kind == CO_TYPE_RELATION || type.kind == CO_TYPE_LIST;
}

static bool is_comparable(co_type a, co_type b, bool is_equality) {
    if (has_no_comparison(a) || has_no_comparison(b)) return false;
    if (a.kind == CO_TYPE_NULL || b.kind == CO_TYPE_NULL) return true;
    if (a.kind == CO_TYPE_NODE || b.kind == CO_TYPE_NODE) return a.kind == b.kind && a.label == b.label && is_equality;
    if (a.kind == CO_TYPE_ANY || b.kind == CO_TYPE_ANY) return true;
    if (a.kind == CO_TYPE_INSTANT) return b.kind == CO_TYPE_INSTANT || b.kind == CO_TYPE_STRING;
    if (b.kind == CO_TYPE_INSTANT) return a.kind == CO_TYPE_STRING;
    return a.kind == b.kind;
}

static hd_str comparison_hint(co_type a, co_type b) {
    if (a.kind == CO_TYPE_RELATION || b.kind == CO_TYPE_RELATION)
        return HD_STR("Compare a property of the relation, such as r.count.");
    if (a.kind == CO_TYPE_LIST || b.kind == CO_TYPE_LIST) return HD_STR("Test a single value with IN [..].");
    if (a.kind == CO_TYPE_NODE && b.kind == CO_TYPE_NODE && a.label == b.label)
        return HD_STR("Compare nodes with = or <>, or their properties.");
    if (a.kind == CO_TYPE_NODE || b.kind == CO_TYPE_NODE) return HD_STR("Compare a property of the node, such as a.id or e.name.");
    if (a.kind == CO_TYPE_INSTANT || b.kind == CO_TYPE_INSTANT) {
        return HD_STR("Compare a timestamp with a string such as '2025-01-31' or '2025-01-31T10:00:00Z'.");
    }
    if ((a.kind == CO_TYPE_NUMBER && b.kind == CO_TYPE_STRING) || (a.kind == CO_TYPE_STRING && b.kind == CO_TYPE_NUMBER)) {
        return HD_STR("Write numbers without quotes, and texts in quotes.");
    }
    return HD_STR("Compare two values of one type.");
}

/* A string beside a timestamp must name a moment. `other` is where the string stands, `value` what it is (NULL: not known). */
static hd_status check_instant(const co_checker *checker, const hd_expr *other, const hd_value *value) {
    static const char hint[] = "Write an ISO 8601 date or date-time, such as '2025-01-31' or '2025-01-31T10:00:00Z'.";
    if (!value || value->type != HD_TYPE_STRING) {
        return report(checker, other, other, hd_str_of(hint),
                      "a timestamp compares with a timestamp, a string in quotes "
                      "or a parameter, not with another property");
    }
    int64_t us;
    if (hd_instant_parse(value->text, &us)) return HD_OK;
    return report(checker, other, other, hd_str_of(hint), "the string '" HD_STR_FMT "' names no moment in time",
                  HD_STR_ARG(co_excerpt(value->text)));
}

/* One operand of a comparison: its type, where it stands, and its value where that is known. */
typedef struct side {
    co_type type;
    const hd_expr *expr;
    const hd_value *value;
} side;

static hd_status check_sides(const co_checker *checker, side a, side b, bool is_equality) {
    if (!is_comparable(a.type, b.type, is_equality)) {
        hd_str hint = comparison_hint(a.type, b.type);
        if (a.type.kind == CO_TYPE_NODE && b.type.kind == CO_TYPE_NODE && a.type.label == b.type.label) {
            return report(checker, a.expr, b.expr, hint, "nodes have no order: they compare with = and <> alone");
        }
        return report(checker, a.expr, b.expr, hint, "%s does not compare with %s", type_name(a.type), type_name(b.type));
    }
    if (a.type.kind == CO_TYPE_INSTANT && b.type.kind == CO_TYPE_STRING) return check_instant(checker, b.expr, b.value);
    if (b.type.kind == CO_TYPE_INSTANT && a.type.kind == CO_TYPE_STRING) return check_instant(checker, a.expr, a.value);
    return HD_OK;
}

static hd_status side_of(const co_checker *checker, const hd_expr *expr, side *side_out) {
    HD_TRY(co_type_check(checker, expr, &side_out->type));
    side_out->expr = expr;
    side_out->value = co_operand_of(checker, expr).value;
    return HD_OK;
}

static hd_status check_comparison(const co_checker *checker, const hd_expr *expr) {
    side a, b;
    HD_TRY(side_of(checker, expr->args[0], &a));
    HD_TRY(side_of(checker, expr->args[1], &b));
    return check_sides(checker, a, b, expr->kind == HD_EXPR_EQ || expr->kind == HD_EXPR_NE);
}

static hd_status check_in(const co_checker *checker, const hd_expr *expr) {
    const hd_expr *list = expr->args[1];
    side left, item;
    uint32_t count;
    bool is_known;
    co_type type;
    HD_TRY(side_of(checker, expr->args[0], &left));
    HD_TRY(co_type_check(checker, list, &type));
    if (type.kind == CO_TYPE_NULL || (list->kind == HD_EXPR_LITERAL && co_term_of((hd_expr *)list)->is_poisoned)) return HD_OK;
    bool can_be_list = list->kind == HD_EXPR_LIST || list->kind == HD_EXPR_PARAM || list->kind == HD_EXPR_LITERAL;
    if (!can_be_list || !co_operand_is_list(checker, list, &count, &is_known)) {
        return report(checker, list, list, HD_STR("Write a list, as in a.id IN ['x', 'y'], or a parameter that is one."),
                      "IN needs a list on its right, not %s", type.kind == CO_TYPE_LIST ? "a property" : type_name(type));
    }
    if (left.type.kind == CO_TYPE_NODE || has_no_comparison(left.type)) {
        hd_str hint = comparison_hint(left.type, left.type);
        if (left.type.kind == CO_TYPE_NODE) hint = HD_STR("Test a property of the node, as in a.id IN [..].");
        return report(checker, expr->args[0], expr->args[0], hint, "%s is in no list of values", type_name(left.type));
    }
    for (uint32_t i = 0; is_known && i < count; i++) {
        co_operand operand = co_operand_item(checker, list, i);
        item = (side){.type = {.kind = CO_TYPE_ANY}, .expr = operand.expr, .value = operand.value};
        if (operand.value) item.type = type_of_value(operand.value);
        HD_TRY(check_sides(checker, left, item, true));
    }
    return HD_OK;
}

/* A piece that is all ASCII needs 2 characters; where any is not, one is enough. */
static hd_status check_piece(const co_checker *checker, const hd_expr *expr, const hd_value *value) {
    if (value->type == HD_TYPE_NULL) return HD_OK;
    if (value->type != HD_TYPE_STRING) {
        hd_str text;
        HD_TRY(co_describe(checker->faults->arena, value, &text));
        return report(checker, expr, expr, HD_STR("Put a string in quotes on the right of CONTAINS."),
                      "CONTAINS needs a string on its right, not " HD_STR_FMT, HD_STR_ARG(text));
    }
    bool is_ascii = true;
    for (size_t i = 0; i < value->text.size; i++) is_ascii = is_ascii && (unsigned char)value->text.data[i] < 0x80;
    if (value->text.size > 0 && (!is_ascii || value->text.size >= 2)) return HD_OK;
    return report(checker, expr, expr, HD_STR("Give CONTAINS a longer piece of the name."),
                  "CONTAINS needs at least 2 characters (1 where it is not ASCII), and '" HD_STR_FMT "' has %zu",
                  HD_STR_ARG(value->text), value->text.size);
}

static hd_status check_contains(const co_checker *checker, const hd_expr *expr) {
    const hd_expr *name = expr->args[0], *piece = expr->args[1];
    co_type type;
    HD_TRY(co_type_check(checker, name, &type));
    HD_TRY(co_type_check(checker, piece, &type));
    bool is_poisoned = !checker->params && (co_term_of((hd_expr *)name)->is_poisoned || co_term_of((hd_expr *)piece)->is_poisoned);
    if (is_poisoned) return HD_OK;
    if (name->kind != HD_EXPR_PROPERTY || name->property != HD_PROP_NAME) {
        return report(checker, name, name,
                      HD_STR("Write e.name CONTAINS '..'; to find events by what they say, start with events(text: $q)."),
                      "CONTAINS works on the name of an Entity or a Tag alone");
    }
    if (piece->kind != HD_EXPR_LITERAL && piece->kind != HD_EXPR_PARAM) {
        return report(checker, piece, piece, HD_STR("Write a string in quotes or a $parameter there."),
                      "CONTAINS takes a string or a parameter on its right");
    }
    const hd_value *value = co_operand_of(checker, piece).value;
    return value ? check_piece(checker, piece, value) : HD_OK;
}

/* ---- the rest ---- */

static hd_status check_boolean(const co_checker *checker, const hd_expr *expr, const char *where) {
    co_type type;
    HD_TRY(co_type_check(checker, expr, &type));
    if (type.kind == CO_TYPE_ANY || type.kind == CO_TYPE_NULL || type.kind == CO_TYPE_BOOL) return HD_OK;
    return report(checker, expr, expr, HD_STR("Write a condition there, such as a.thread IS NOT NULL or r.count >= 2."),
                  "%s needs a condition, not %s", where, type_name(type));
}

static hd_status check_aggregate(const co_checker *checker, const hd_expr *expr, co_type *type_out) {
    static const char *const names[] = {[HD_AGG_COUNT] = "count", [HD_AGG_MIN] = "min", [HD_AGG_MAX] = "max",
                                        [HD_AGG_SUM] = "sum",     [HD_AGG_AVG] = "avg", [HD_AGG_COLLECT] = "collect"};
    co_type type = {.kind = CO_TYPE_ANY};
    if (expr->arg_count > 0) HD_TRY(co_type_check(checker, expr->args[0], &type));
    bool is_number = type.kind == CO_TYPE_NUMBER || type.kind == CO_TYPE_ANY || type.kind == CO_TYPE_NULL;
    switch (expr->aggregate) {
    case HD_AGG_COUNT: type_out->kind = CO_TYPE_NUMBER; return HD_OK;
    case HD_AGG_COLLECT: type_out->kind = CO_TYPE_LIST; return HD_OK;
    case HD_AGG_MIN:
    case HD_AGG_MAX:
        *type_out = type;
        if (!has_no_comparison(type)) return HD_OK;
        break;
    default:
        type_out->kind = CO_TYPE_NUMBER;
        if (is_number) return HD_OK;
    }
    hd_str hint = HD_STR("Aggregate a number, such as r.count or e.event_count.");
    if (has_no_comparison(type)) hint = HD_STR("Aggregate a property, such as r.count.");
    type_out->kind = CO_TYPE_ANY;
    return report(checker, expr->args[0], expr->args[0], hint, "%s cannot be taken of %s", names[expr->aggregate], type_name(type));
}

static co_type type_of_leaf(const co_checker *checker, const hd_expr *expr) {
    if (expr->kind == HD_EXPR_PARAM) {
        const hd_value *value = co_operand_of(checker, expr).value;
        return value ? type_of_value(value) : (co_type){.kind = CO_TYPE_ANY};
    }
    if (!checker->params && co_term_of((hd_expr *)expr)->is_poisoned) return (co_type){.kind = CO_TYPE_ANY};
    if (expr->kind == HD_EXPR_LITERAL) return type_of_value(&expr->literal);
    if (expr->kind == HD_EXPR_PROPERTY) return (co_type){.kind = co_property_type(expr->property)};
    if (expr->kind == HD_EXPR_COS) return (co_type){.kind = CO_TYPE_NUMBER};
    const co_var *var = &checker->query->vars[expr->index];
    if (var->is_relation) return (co_type){.kind = CO_TYPE_RELATION};
    if (var->label == HD_LABEL_NONE) return (co_type){.kind = CO_TYPE_ANY};
    return (co_type){.kind = CO_TYPE_NODE, .label = var->label};
}

hd_status co_type_check(const co_checker *checker, const hd_expr *expr, co_type *type_out) {
    *type_out = (co_type){.kind = CO_TYPE_BOOL};
    co_type type;
    switch (expr->kind) {
    case HD_EXPR_LITERAL:
    case HD_EXPR_PARAM:
    case HD_EXPR_VAR:
    case HD_EXPR_PROPERTY:
    case HD_EXPR_COS: *type_out = type_of_leaf(checker, expr); return HD_OK;
    case HD_EXPR_LIST: type_out->kind = CO_TYPE_LIST; return HD_OK;
    case HD_EXPR_NOT: return check_boolean(checker, expr->args[0], "NOT");
    case HD_EXPR_AND:
    case HD_EXPR_OR:
        for (uint32_t i = 0; i < expr->arg_count; i++) {
            HD_TRY(check_boolean(checker, expr->args[i], expr->kind == HD_EXPR_AND ? "AND" : "OR"));
        }
        return HD_OK;
    case HD_EXPR_IN: return check_in(checker, expr);
    case HD_EXPR_CONTAINS: return check_contains(checker, expr);
    case HD_EXPR_IS_NULL:
    case HD_EXPR_IS_NOT_NULL: return co_type_check(checker, expr->args[0], &type);
    case HD_EXPR_AGGREGATE: return check_aggregate(checker, expr, type_out);
    default: return check_comparison(checker, expr);
    }
}

hd_status co_type_check_condition(const co_checker *checker, const hd_expr *expr) {
    return check_boolean(checker, expr, "WHERE");
}

hd_status co_type_check_order(const co_checker *checker, const hd_expr *expr, uint32_t offset) {
    co_type type;
    HD_TRY(co_type_check(checker, expr, &type));
    if (!has_no_comparison(type)) return HD_OK;
    const hd_str hint = HD_STR("Order by a property, such as r.count or b.timestamp.");
    if (checker->params) return report(checker, expr, expr, hint, "ORDER BY cannot order by %s", type_name(type));
    return co_fault(checker->faults, CO_BLOCKED_GRAMMAR, offset, &(co_advice){.hint = hint}, "ORDER BY cannot order by %s",
                    type_name(type));
}
