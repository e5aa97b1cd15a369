/* Expressions: the precedence of openCypher, loosest first.
 *
 *   or         = and { "OR" and }
 *   and        = not { "AND" not }
 *   not        = "NOT" not | comparison
 *   comparison = predicate { ( "=" | "<>" | "<" | "<=" | ">" | ">=" ) predicate }       a < b < c means a < b AND b < c
 *   predicate  = atom { "IN" atom | "CONTAINS" atom | "IS" [ "NOT" ] "NULL" }
 *   atom       = value | "(" or ")" | var [ "." property ] | function "(" … ")"
 *
 * Brackets, NOT and chained predicates count towards CO_NESTING_MAX, so that neither this file nor the evaluator recurses deeper.
 * The middle of a chained comparison stands in both of its halves (one node, two parents); TREE_SIZE_MAX keeps such chains from
 * being nested until walking the tree takes for ever. */
#include "coordinator/language/language_private.h"

/* No text of CO_QUERY_BYTES_MAX has as many nodes unless chains are nested in chains. */
enum { TREE_SIZE_MAX = 2 * CO_QUERY_BYTES_MAX };

static hd_status parse_or(co_parser *parser, hd_expr **expr_out);

static hd_status enter(co_parser *parser, uint32_t offset) {
    if (++parser->depth <= CO_NESTING_MAX) return HD_OK;
    return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, offset, CO_HINT("Take brackets away, or ask with several queries."),
                     "brackets and NOT nest deeper than the limit of %d", CO_NESTING_MAX);
}

/* A node over `count` operands, from the first one's beginning to the last token read. */
static hd_status make_node(co_parser *parser, hd_expr_kind kind, uint32_t offset, hd_expr *const *operands, uint32_t count,
                           hd_expr **expr_out) {
    HD_TRY(co_term_new(parser->faults->arena, kind, offset, parser->end - offset, expr_out));
    hd_expr *expr = *expr_out;
    HD_ALLOC(expr->args, parser->faults->arena, count);
    expr->arg_count = count;
    uint32_t *tree_size = &co_term_of(expr)->tree_size;
    for (uint32_t i = 0; i < count; i++) {
        expr->args[i] = operands[i];
        *tree_size += co_term_of(operands[i])->tree_size;
    }
    if (*tree_size <= TREE_SIZE_MAX) return HD_OK;
    return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, offset, CO_HINT("Write a < b AND b < c in place of a < b < c."),
                     "chained comparisons nest within chained comparisons beyond the limit of %d terms", TREE_SIZE_MAX);
}

/* ---- atoms ---- */

static bool find_aggregate(hd_str name, hd_aggregate *aggregate_out) {
    static const struct {
        const char *name;
        hd_aggregate aggregate;
    } rows[] = {{"count", HD_AGG_COUNT}, {"min", HD_AGG_MIN}, {"max", HD_AGG_MAX},
                {"sum", HD_AGG_SUM},     {"avg", HD_AGG_AVG}, {"collect", HD_AGG_COLLECT}};
    for (size_t i = 0; i < HD_COUNT_OF(rows); i++) {
        if (!hd_str_is_equal_nocase(name, hd_str_of(rows[i].name))) continue;
        *aggregate_out = rows[i].aggregate;
        return true;
    }
    return false;
}

/* (count|min|max|sum|avg|collect) "(" [ "DISTINCT" ] expr ")" | count(*) */
static hd_status parse_aggregate(co_parser *parser, uint32_t offset, hd_aggregate aggregate, hd_expr **expr_out) {
    hd_expr *argument = NULL;
    bool is_distinct = false;
    if (co_parse_peek(parser, 0)->kind == CO_TOK_STAR) {
        if (aggregate != HD_AGG_COUNT) {
            return co_parse_unexpected(parser, "an expression", false, CO_HINT("Only count takes *: count(*)."));
        }
        co_parse_next(parser);
    } else {
        is_distinct = co_parse_accept_word(parser, CO_KW_DISTINCT);
        if (co_parse_peek(parser, 0)->kind == CO_TOK_RPAREN) {
            return co_parse_unexpected(parser, "an expression", false,
                                       CO_HINT("Say what to aggregate, as in count(*) or max(b.timestamp)."));
        }
        HD_TRY(parse_or(parser, &argument));
    }
    HD_TRY(co_parse_expect(parser, CO_TOK_RPAREN, "`)` of the aggregate", CO_HINT("An aggregate takes one expression.")));
    HD_TRY(make_node(parser, HD_EXPR_AGGREGATE, offset, &argument, argument ? 1 : 0, expr_out));
    (*expr_out)->aggregate = aggregate;
    (*expr_out)->is_distinct = is_distinct;
    return HD_OK;
}

/* cos(var, var) */
static hd_status parse_cos(co_parser *parser, uint32_t offset, hd_expr **expr_out) {
    const co_advice *advice = CO_HINT("cos takes two event variables: cos(a, b).");
    co_name left = {0}, right = {0};
    HD_TRY(co_parse_name(parser, "a variable in cos(…)", advice, &left));
    HD_TRY(co_parse_expect(parser, CO_TOK_COMMA, "`,` and a second variable", advice));
    HD_TRY(co_parse_name(parser, "a second variable in cos(…)", advice, &right));
    HD_TRY(co_parse_expect(parser, CO_TOK_RPAREN, "`)` of cos(…)", advice));
    HD_TRY(make_node(parser, HD_EXPR_COS, offset, NULL, 0, expr_out));
    co_term_of(*expr_out)->name = left;
    co_term_of(*expr_out)->name2 = right;
    return HD_OK;
}

/* A function that does not exist: reported, and read over with its arguments. */
static hd_status parse_unknown_function(co_parser *parser, const co_name *name, hd_expr **expr_out) {
    co_advice advice;
    hd_str hint = co_words_function_hint(name->text);
    HD_TRY(co_advise(parser->faults, name->text, "allowed_functions", co_words_functions,
                     HD_STR("Return the properties, and work the rest out where the answer is read."), &advice));
    if (hint.data) advice.hint = hint;
    HD_TRY(co_fault(parser->faults, CO_BLOCKED_GRAMMAR, name->offset, &advice, "there is no function " HD_STR_FMT,
                    HD_STR_ARG(co_excerpt(name->text))));
    hd_expr *argument;
    if (!co_parse_accept(parser, CO_TOK_STAR) && co_parse_peek(parser, 0)->kind != CO_TOK_RPAREN) {
        co_parse_accept_word(parser, CO_KW_DISTINCT);
        do {
            HD_TRY(parse_or(parser, &argument));
        } while (co_parse_accept(parser, CO_TOK_COMMA));
    }
    HD_TRY(co_parse_expect(parser, CO_TOK_RPAREN, "`,` or `)` of the function", CO_HINT("Close the bracket with `)`.")));
    HD_TRY(make_node(parser, HD_EXPR_LITERAL, name->offset, NULL, 0, expr_out));
    co_term_of(*expr_out)->is_poisoned = true;
    return HD_OK;
}

static hd_status parse_function(co_parser *parser, const co_name *name, hd_expr **expr_out) {
    hd_aggregate aggregate;
    HD_TRY(enter(parser, name->offset));
    co_parse_next(parser);
    if (hd_str_is_equal_nocase(name->text, HD_STR("cos")))
        HD_TRY(parse_cos(parser, name->offset, expr_out));
    else if (find_aggregate(name->text, &aggregate))
        HD_TRY(parse_aggregate(parser, name->offset, aggregate, expr_out));
    else
        HD_TRY(parse_unknown_function(parser, name, expr_out));
    parser->depth--;
    return HD_OK;
}

/* var | var "." property | function "(" … ")" */
static hd_status parse_named(co_parser *parser, hd_expr **expr_out) {
    co_name name, property = {0};
    HD_TRY(co_parse_name(parser, "a variable", NULL, &name));
    if (co_parse_peek(parser, 0)->kind == CO_TOK_LPAREN) return parse_function(parser, &name, expr_out);
    bool has_property = co_parse_accept(parser, CO_TOK_DOT);
    if (has_property)
        HD_TRY(
            co_parse_name(parser, "a property after the dot", CO_HINT("Write a property after the dot, such as a.id."), &property));
    HD_TRY(make_node(parser, has_property ? HD_EXPR_PROPERTY : HD_EXPR_VAR, name.offset, NULL, 0, expr_out));
    co_term_of(*expr_out)->name = name;
    co_term_of(*expr_out)->name2 = property;
    return HD_OK;
}

static hd_status refuse_arithmetic(co_parser *parser) {
    const co_token *token = co_parse_peek(parser, 0);
    return co_refuse(
        parser->faults, CO_BLOCKED_GRAMMAR, token->offset,
        CO_HINT(
            "Return the values and calculate where the answer is read; compare a property with a number worked out beforehand."),
        "arithmetic (" HD_STR_FMT ") is not in this language", HD_STR_ARG(token->text));
}

/* atom = value | "(" expr ")" | var [ "." property ] | function "(" … ")" */
static hd_status parse_atom(co_parser *parser, hd_expr **expr_out) {
    const co_token *token = co_parse_peek(parser, 0), *next = co_parse_peek(parser, 1);
    if (token->kind == CO_TOK_NAME) return parse_named(parser, expr_out);
    if (token->kind == CO_TOK_LPAREN) {
        HD_TRY(enter(parser, token->offset));
        co_parse_next(parser);
        HD_TRY(parse_or(parser, expr_out));
        co_advice advice = {.hint = HD_STR("Close the bracket with `)`.")};
        if (co_parse_peek(parser, 0)->kind == CO_TOK_COLON) advice.hint = HD_STR("Write labels and patterns in MATCH.");
        if (co_parse_peek(parser, 0)->kind != CO_TOK_RPAREN)
            return co_parse_unexpected(parser, "an operator or `)`", true, &advice);
        co_parse_next(parser);
        parser->depth--;
        return HD_OK;
    }
    bool is_number = token->kind == CO_TOK_MINUS && (next->kind == CO_TOK_INT || next->kind == CO_TOK_FLOAT);
    if ((token->kind == CO_TOK_MINUS || token->kind == CO_TOK_PLUS) && !is_number) return refuse_arithmetic(parser);
    co_advice advice = {.hint = HD_STR("Write a value there, such as a.id, 'text', 3, $q or count(*).")};
    if (token->kind == CO_TOK_LBRACE) advice.hint = HD_STR("There are no maps in expressions: return the values as columns.");
    if (token->kind == CO_TOK_STAR) advice.hint = HD_STR("* stands in count(*) alone.");
    bool can_be_value = token->kind == CO_TOK_LBRACKET || token->kind == CO_TOK_PARAM || token->kind == CO_TOK_STRING ||
                        token->kind == CO_TOK_INT || token->kind == CO_TOK_FLOAT || is_number ||
                        (token->kind == CO_TOK_KEYWORD &&
                         (token->keyword == CO_KW_TRUE || token->keyword == CO_KW_FALSE || token->keyword == CO_KW_NULL));
    if (!can_be_value) return co_parse_unexpected(parser, "an expression", true, &advice);
    return co_parse_value(parser, &advice, expr_out);
}

/* ---- operators ---- */

/* What cannot follow an operand but often does in other languages. */
static hd_status check_operator(co_parser *parser) {
    const co_token *token = co_parse_peek(parser, 0), *next = co_parse_peek(parser, 1);
    switch (token->kind) {
    case CO_TOK_MINUS:
        if (next->kind == CO_TOK_LBRACKET || next->kind == CO_TOK_MINUS) {
            return co_parse_unexpected(parser, "an operator", false,
                                       CO_HINT("Write the pattern in MATCH; conditions compare values."));
        }
        return refuse_arithmetic(parser);
    case CO_TOK_PLUS:
    case CO_TOK_STAR:
    case CO_TOK_SLASH:
    case CO_TOK_PERCENT:
    case CO_TOK_CARET: return refuse_arithmetic(parser);
    case CO_TOK_MATCHES:
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, token->offset,
                         CO_HINT("Use CONTAINS, which finds a piece anywhere in the name of an Entity or a Tag."),
                         "=~ is not in this language");
    case CO_TOK_KEYWORD:
        if (token->keyword == CO_KW_STARTS || token->keyword == CO_KW_ENDS || token->keyword == CO_KW_XOR) {
            return co_parse_unexpected(parser, "an operator", true, NULL);
        }
        return HD_OK;
    default: return HD_OK;
    }
}

/* predicate = atom { "IN" atom | "CONTAINS" atom | "IS" [ "NOT" ] "NULL" } */
static hd_status parse_predicate(co_parser *parser, hd_expr **expr_out) {
    uint32_t offset = co_parse_peek(parser, 0)->offset, depth = parser->depth;
    HD_TRY(parse_atom(parser, expr_out));
    for (;;) {
        hd_expr_kind kind;
        hd_expr *operands[2] = {*expr_out, NULL};
        uint32_t operator_offset = co_parse_peek(parser, 0)->offset;
        if (co_parse_accept_word(parser, CO_KW_IN))
            kind = HD_EXPR_IN;
        else if (co_parse_accept_word(parser, CO_KW_CONTAINS))
            kind = HD_EXPR_CONTAINS;
        else if (co_parse_accept_word(parser, CO_KW_IS))
            kind = HD_EXPR_IS_NULL;
        else
            break;
        HD_TRY(enter(parser, operator_offset));
        if (kind == HD_EXPR_IS_NULL) {
            if (co_parse_accept_word(parser, CO_KW_NOT)) kind = HD_EXPR_IS_NOT_NULL;
            if (!co_parse_accept_word(parser, CO_KW_NULL)) {
                return co_parse_unexpected(parser, "NULL (or NOT NULL) after IS", false,
                                           CO_HINT("Write IS NULL or IS NOT NULL; compare with =."));
            }
        } else {
            HD_TRY(parse_atom(parser, &operands[1]));
        }
        HD_TRY(make_node(parser, kind, offset, operands, operands[1] ? 2 : 1, expr_out));
    }
    parser->depth = depth;
    return check_operator(parser);
}

static bool accept_comparison(co_parser *parser, hd_expr_kind *kind_out) {
    switch (co_parse_peek(parser, 0)->kind) {
    case CO_TOK_EQ: *kind_out = HD_EXPR_EQ; break;
    case CO_TOK_NE: *kind_out = HD_EXPR_NE; break;
    case CO_TOK_LT: *kind_out = HD_EXPR_LT; break;
    case CO_TOK_LE: *kind_out = HD_EXPR_LE; break;
    case CO_TOK_GT: *kind_out = HD_EXPR_GT; break;
    case CO_TOK_GE: *kind_out = HD_EXPR_GE; break;
    default: return false;
    }
    co_parse_next(parser);
    return true;
}

/* comparison = predicate { op predicate }; of more than one, all must hold. */
static hd_status parse_comparison(co_parser *parser, hd_expr **expr_out) {
    uint32_t offset = co_parse_peek(parser, 0)->offset, count = 0, capacity = 0;
    hd_expr **halves = NULL, *operands[2];
    hd_expr_kind kind;
    HD_TRY(parse_predicate(parser, &operands[0]));
    *expr_out = operands[0];
    while (accept_comparison(parser, &kind)) {
        if (co_parse_peek(parser, 0)->kind == CO_TOK_EQ) {
            return co_parse_unexpected(parser, "an expression", false, CO_HINT("Write one = to compare."));
        }
        HD_TRY(parse_predicate(parser, &operands[1]));
        HD_TRY(co_push(parser->faults->arena, (void *)&halves, &count, &capacity, sizeof *halves));
        HD_TRY(make_node(parser, kind, operands[0]->offset, operands, 2, &halves[count - 1]));
        operands[0] = operands[1];
    }
    if (count == 1) *expr_out = halves[0];
    return count > 1 ? make_node(parser, HD_EXPR_AND, offset, halves, count, expr_out) : HD_OK;
}

/* not = "NOT" not | comparison */
static hd_status parse_not(co_parser *parser, hd_expr **expr_out) {
    uint32_t offset = co_parse_peek(parser, 0)->offset;
    if (!co_parse_accept_word(parser, CO_KW_NOT)) return parse_comparison(parser, expr_out);
    hd_expr *operand;
    HD_TRY(enter(parser, offset));
    HD_TRY(parse_not(parser, &operand));
    parser->depth--;
    return make_node(parser, HD_EXPR_NOT, offset, &operand, 1, expr_out);
}

typedef hd_status (*parse_operand)(co_parser *parser, hd_expr **expr_out);

/* operand { word operand }, as one flat node. */
static hd_status parse_joined(co_parser *parser, co_keyword word, hd_expr_kind kind, parse_operand parse, hd_expr **expr_out) {
    uint32_t offset = co_parse_peek(parser, 0)->offset, count = 0, capacity = 0;
    hd_expr **operands = NULL;
    do {
        HD_TRY(co_push(parser->faults->arena, (void *)&operands, &count, &capacity, sizeof *operands));
        HD_TRY(parse(parser, &operands[count - 1]));
    } while (co_parse_accept_word(parser, word));
    *expr_out = operands[0];
    return count > 1 ? make_node(parser, kind, offset, operands, count, expr_out) : HD_OK;
}

static hd_status parse_and(co_parser *parser, hd_expr **expr_out) {
    return parse_joined(parser, CO_KW_AND, HD_EXPR_AND, parse_not, expr_out);
}

static hd_status parse_or(co_parser *parser, hd_expr **expr_out) {
    return parse_joined(parser, CO_KW_OR, HD_EXPR_OR, parse_and, expr_out);
}

hd_status co_parse_expr(co_parser *parser, hd_expr **expr_out) {
    return parse_or(parser, expr_out);
}
