/* Tokens to a tree: clauses, patterns, values. Expressions are in parse_expr.c. Recursive descent, one function a production of
 * section 2, its production above it.
 *
 * - A syntax fault stops the reading at once. So does a construct of openCypher that is known and refused by name (keywords.def,
 *   `(a)--(b)`, arithmetic, …): section 2 cannot say what the text after it means. It is therefore told unless a syntax fault
 *   stands before it; faults of binding that stand before it are told first (bind.c binds what was read).
 * - Names of the vocabulary (labels, relations, START keys, functions) that do not exist are reported and read over.
 * - Nothing recurses deeper than CO_NESTING_MAX. */
#include <errno.h>
#include <stdlib.h>

#include "coordinator/language/language_private.h"

static const char *const clauses_first[] = {"EXPLAIN", "START", NULL};
static const char *const clauses_after_start[] = {"MATCH", "WHERE", "RETURN", NULL};
static const char *const clauses_after_match[] = {"MATCH", "WHERE", "RETURN", NULL};
static const char *const clauses_after_where[] = {"RETURN", NULL};
static const char *const clauses_after_return[] = {"ORDER BY", "LIMIT", NULL};
static const char *const clauses_after_order[] = {"LIMIT", NULL};
static const char *const clauses_after_limit[] = {NULL};

hd_status co_push(hd_arena *arena, void *items_inout, uint32_t *count, uint32_t *capacity, size_t item_size) {
    void **items = items_inout;
    if (*count == *capacity) {
        uint32_t capacity_new = *capacity ? *capacity * 2 : 8;
        void *grown = *items ? hd_arena_grow(arena, *items, *capacity * item_size, capacity_new * item_size)
                             : hd_arena_alloc(arena, capacity_new * item_size);
        if (!grown) return HD_MEMORY;
        *items = grown;
        *capacity = capacity_new;
    }
    memset((char *)*items + *count * item_size, 0, item_size);
    (*count)++;
    return HD_OK;
}

/* ---- tokens ---- */

const co_token *co_parse_peek(const co_parser *parser, uint32_t ahead) {
    uint32_t last = parser->tokens->count - 1;
    return &parser->tokens->items[HD_MIN(parser->at + ahead, last)];
}

const co_token *co_parse_next(co_parser *parser) {
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind == CO_TOK_END || token->kind == CO_TOK_BAD) return token;
    parser->at++;
    parser->end = token->offset + token->size;
    return token;
}

bool co_parse_accept(co_parser *parser, co_token_kind kind) {
    if (co_parse_peek(parser, 0)->kind != kind) return false;
    co_parse_next(parser);
    return true;
}

bool co_parse_accept_word(co_parser *parser, co_keyword keyword) {
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind != CO_TOK_KEYWORD || token->keyword != keyword) return false;
    co_parse_next(parser);
    return true;
}

static hd_status describe_token(const co_parser *parser, const co_token *token, hd_str *text_out) {
    hd_str written = co_excerpt((hd_str){parser->faults->text.data + token->offset, token->size});
    switch (token->kind) {
    case CO_TOK_END: *text_out = HD_STR("the end of the query"); return HD_OK;
    case CO_TOK_KEYWORD: return hd_arena_printf(parser->faults->arena, text_out, "the keyword " HD_STR_FMT, HD_STR_ARG(written));
    case CO_TOK_STRING: return hd_arena_printf(parser->faults->arena, text_out, "the string " HD_STR_FMT, HD_STR_ARG(written));
    default: *text_out = written; return HD_OK;
    }
}

hd_status co_parse_unexpected(co_parser *parser, const char *expected, bool can_construct, const co_advice *advice) {
    const co_token *token = co_parse_peek(parser, 0);
    const char *title, *hint;
    if (token->kind == CO_TOK_BAD) {
        co_advice mend = {.hint = parser->tokens->bad_hint};
        return co_refuse(parser->faults, CO_BLOCKED_SYNTAX, token->offset, &mend, HD_STR_FMT,
                         HD_STR_ARG(parser->tokens->bad_detail));
    }
    if (can_construct && token->kind == CO_TOK_KEYWORD && co_keyword_construct(token->keyword, &title, &hint)) {
        co_advice instead = {.hint = hd_str_of(hint)};
        if (advice) {
            instead.allowed_key = advice->allowed_key;
            instead.allowed = advice->allowed;
        }
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, token->offset, &instead, "%s is not in this language", title);
    }
    hd_str found;
    HD_TRY(describe_token(parser, token, &found));
    return co_refuse(parser->faults, CO_BLOCKED_SYNTAX, token->offset, advice, "expected %s, found " HD_STR_FMT, expected,
                     HD_STR_ARG(found));
}

hd_status co_parse_expect(co_parser *parser, co_token_kind kind, const char *expected, const co_advice *advice) {
    return co_parse_accept(parser, kind) ? HD_OK : co_parse_unexpected(parser, expected, false, advice);
}

hd_status co_parse_name(co_parser *parser, const char *expected, const co_advice *advice, co_name *name_out) {
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind == CO_TOK_KEYWORD) {
        co_advice quote = {0};
        hd_str written = token->text;
        HD_TRY(hd_arena_printf(parser->faults->arena, &quote.hint, "Take another name, or write it in backticks: `" HD_STR_FMT "`.",
                               HD_STR_ARG(written)));
        return co_parse_unexpected(parser, expected, false, &quote);
    }
    if (token->kind != CO_TOK_NAME) return co_parse_unexpected(parser, expected, false, advice);
    co_parse_next(parser);
    *name_out = (co_name){token->text, token->offset, token->size};
    return HD_OK;
}

/* ---- values ---- */

hd_status co_term_new(hd_arena *arena, hd_expr_kind kind, uint32_t offset, uint32_t size, hd_expr **expr_out) {
    co_term *term;
    HD_ALLOC(term, arena, 1);
    term->expr.kind = kind;
    term->expr.offset = offset;
    term->expr.size = size;
    term->tree_size = 1;
    *expr_out = &term->expr;
    return HD_OK;
}

static hd_status report_out_of_range(co_parser *parser, uint32_t offset) {
    hd_str written = {parser->faults->text.data + offset, parser->end - offset};
    return co_fault(parser->faults, CO_BLOCKED_GRAMMAR, offset,
                    CO_HINT("Integers go from -9223372036854775808 to 9223372036854775807, floats to about 1.8e308."),
                    "the literal " HD_STR_FMT " is out of range", HD_STR_ARG(co_excerpt(written)));
}

/* [ "-" ] int | [ "-" ] float */
static hd_status parse_number(co_parser *parser, hd_value *value_out) {
    uint32_t offset = co_parse_peek(parser, 0)->offset;
    bool is_negative = co_parse_accept(parser, CO_TOK_MINUS);
    const co_token *token = co_parse_next(parser);
    if (token->kind == CO_TOK_INT) {
        uint64_t number = 0, most = is_negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
        for (size_t i = 0; i < token->text.size; i++) {
            uint64_t digit = (uint64_t)(token->text.data[i] - '0');
            if (number > (most - digit) / 10) return report_out_of_range(parser, offset);
            number = number * 10 + digit;
        }
        *value_out = hd_value_int(is_negative ? (int64_t)(0 - number) : (int64_t)number);
        return HD_OK;
    }
    char *copy = hd_arena_alloc(parser->faults->arena, token->text.size + 1);
    if (!copy) return HD_MEMORY;
    memcpy(copy, token->text.data, token->text.size);
    copy[token->text.size] = '\0';
    double number = strtod(copy, NULL);
    if (number > 1.7976931348623157e308) return report_out_of_range(parser, offset);
    *value_out = hd_value_float(is_negative ? -number : number);
    return HD_OK;
}

static hd_status find_param(co_parser *parser, const co_token *token, uint32_t *index_out) {
    co_tree *tree = parser->tree;
    for (uint32_t i = 0; i < tree->param_count; i++) {
        if (!hd_str_is_equal(tree->params[i].text, token->text)) continue;
        *index_out = i;
        return HD_OK;
    }
    HD_TRY(CO_PUSH(parser->faults->arena, tree, param));
    *index_out = tree->param_count - 1;
    tree->params[*index_out] = (co_name){token->text, token->offset, token->size};
    return HD_OK;
}

/* "[" [ value { "," value } ] "]" */
static hd_status parse_list(co_parser *parser, hd_expr **list_out) {
    static const char expected[] = "a value of the list (a string, a number, true, false, null or a $parameter)";
    uint32_t offset = co_parse_next(parser)->offset;
    hd_expr **items = NULL;
    uint32_t count = 0, capacity = 0;
    if (++parser->depth > CO_NESTING_MAX) {
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, offset, CO_HINT("Take brackets away, or ask with several queries."),
                         "brackets and NOT nest deeper than the limit of %d", CO_NESTING_MAX);
    }
    if (co_parse_peek(parser, 0)->kind != CO_TOK_RBRACKET) {
        do {
            if (count == CO_LIST_MAX) {
                HD_TRY(co_fault(parser->faults, CO_BLOCKED_GRAMMAR, co_parse_peek(parser, 0)->offset,
                                CO_HINT("Ask with several queries; a long vector goes in as a parameter: events(vector: $v)."),
                                "a list has more items than the limit of %d", CO_LIST_MAX));
            }
            co_token_kind kind = co_parse_peek(parser, 0)->kind;
            if (kind == CO_TOK_NAME) {
                return co_parse_unexpected(
                    parser, expected, true,
                    CO_HINT("A list holds values: put texts in quotes, and compare with another property by =."));
            }
            HD_TRY(co_push(parser->faults->arena, (void *)&items, &count, &capacity, sizeof *items));
            HD_TRY(co_parse_value(parser, NULL, &items[count - 1]));
        } while (co_parse_accept(parser, CO_TOK_COMMA));
    }
    HD_TRY(co_parse_expect(parser, CO_TOK_RBRACKET, "`,` or `]` in the list", CO_HINT("Close the list with `]`.")));
    parser->depth--;
    HD_TRY(co_term_new(parser->faults->arena, HD_EXPR_LIST, offset, parser->end - offset, list_out));
    (*list_out)->args = items;
    /* What is known before its items are: that it is a list, and of how many. */
    (*list_out)->literal = (hd_value){.type = HD_TYPE_LIST, .list = {.count = count}};
    (*list_out)->arg_count = count;
    co_term_of(*list_out)->tree_size += count;
    return HD_OK;
}

/* value = string | [ "-" ] int | [ "-" ] float | true | false | null | "[" … "]" | param */
hd_status co_parse_value(co_parser *parser, const co_advice *advice, hd_expr **value_out) {
    const co_token *token = co_parse_peek(parser, 0);
    hd_value value = HD_VALUE_NULL;
    bool is_signed = token->kind == CO_TOK_MINUS &&
                     (co_parse_peek(parser, 1)->kind == CO_TOK_INT || co_parse_peek(parser, 1)->kind == CO_TOK_FLOAT);
    if (token->kind == CO_TOK_LBRACKET) return parse_list(parser, value_out);
    if (token->kind == CO_TOK_PARAM) {
        co_parse_next(parser);
        HD_TRY(co_term_new(parser->faults->arena, HD_EXPR_PARAM, token->offset, token->size, value_out));
        return find_param(parser, token, &(*value_out)->index);
    }
    if (token->kind == CO_TOK_STRING) {
        co_parse_next(parser);
        value = hd_value_text(token->text);
    } else if (token->kind == CO_TOK_INT || token->kind == CO_TOK_FLOAT || is_signed) {
        HD_TRY(parse_number(parser, &value));
    } else if (co_parse_accept_word(parser, CO_KW_TRUE) || co_parse_accept_word(parser, CO_KW_FALSE)) {
        value = hd_value_bool(token->keyword == CO_KW_TRUE);
    } else if (!co_parse_accept_word(parser, CO_KW_NULL)) {
        return co_parse_unexpected(parser, "a value (a string, a number, true, false, null, a [list] or a $parameter)", true,
                                   advice);
    }
    HD_TRY(co_term_new(parser->faults->arena, HD_EXPR_LITERAL, token->offset, parser->end - token->offset, value_out));
    (*value_out)->literal = value;
    return HD_OK;
}

hd_status co_parse_pairs(co_parser *parser, const char *expected, co_pairs *pairs_out) {
    do {
        co_pair pair = {0};
        HD_TRY(co_parse_name(parser, expected, CO_HINT("Write name: value there, or take the comma or the brackets out."),
                             &pair.name));
        HD_TRY(co_parse_expect(parser, CO_TOK_COLON, "`:` and a value", CO_HINT("Write name: value.")));
        HD_TRY(co_parse_value(parser, CO_HINT("Put a text in quotes, or pass it as a $parameter."), &pair.value));
        HD_TRY(co_push(parser->faults->arena, (void *)&pairs_out->items, &pairs_out->count, &pairs_out->capacity, sizeof pair));
        pairs_out->items[pairs_out->count - 1] = pair;
    } while (co_parse_accept(parser, CO_TOK_COMMA));
    return HD_OK;
}

/* ---- START ---- */

/* start = "START" var "=" "events" "(" arg { "," arg } ")" */
static hd_status parse_start(co_parser *parser) {
    co_tree *tree = parser->tree;
    co_advice advice = {
        .hint = HD_STR("Begin with START a = events(text: $q), or with entity:, tag:, ids: or k: in the place of text:."),
        .allowed_key = "allowed_clauses",
        .allowed = clauses_first};
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind == CO_TOK_KEYWORD && token->keyword == CO_KW_MATCH) {
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, token->offset, &advice,
                         "a query does not begin with MATCH but with START");
    }
    if (token->kind == CO_TOK_NAME) {
        hd_str hint = co_words_clause_hint(token->text);
        HD_TRY(co_advise(parser->faults, token->text, "allowed_clauses", clauses_first, advice.hint, &advice));
        if (hint.data) advice.hint = hint;
    }
    if (!co_parse_accept_word(parser, CO_KW_START)) {
        return co_parse_unexpected(parser, tree->is_explain ? "START" : "START (or EXPLAIN START)", true, &advice);
    }
    tree->start_offset = token->offset;
    HD_TRY(co_parse_name(parser, "a variable for the start's events", CO_HINT("Write START a = events(…)."), &tree->start_var));
    HD_TRY(co_parse_expect(parser, CO_TOK_EQ, "`=` and events(…)", CO_HINT("Write START a = events(…).")));
    token = co_parse_peek(parser, 0);
    if (token->kind != CO_TOK_NAME || !hd_str_is_equal_nocase(token->text, HD_STR("events"))) {
        return co_parse_unexpected(parser, "events(…)", false,
                                   CO_HINT("A start is always a set of events: write events(entity: …) for those of an entity."));
    }
    co_parse_next(parser);
    HD_TRY(co_parse_expect(parser, CO_TOK_LPAREN, "`(` after events", CO_HINT("Write events(…).")));
    if (co_parse_peek(parser, 0)->kind == CO_TOK_RPAREN) {
        return co_parse_unexpected(
            parser, "an argument of events(…)", false,
            CO_ALLOWED("allowed_start_keys", co_words_start_keys, "For the newest events of all write events(k: 5)."));
    }
    if (co_parse_peek(parser, 0)->kind != CO_TOK_NAME) {
        return co_parse_unexpected(parser, "an argument of events(…)", false,
                                   CO_ALLOWED("allowed_start_keys", co_words_start_keys, "Write key: value, such as text: $q."));
    }
    HD_TRY(co_parse_pairs(parser, "an argument of events(…)", &tree->start_args));
    HD_TRY(co_parse_expect(parser, CO_TOK_RPAREN, "`,` or `)` after the argument",
                           CO_HINT("Close events(…) with `)`, or go on with `,` and the next argument.")));
    tree->start_size = parser->end - tree->start_offset;
    return HD_OK;
}

/* ---- patterns ---- */

/* `:A|B` and what resembles it, after a label or a relation's name. */
static hd_status check_single(co_parser *parser, const char *what, const char *hint) {
    co_advice advice = {.hint = hd_str_of(hint)};
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind == CO_TOK_PIPE) {
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, token->offset, &advice,
                         "%s is one name: alternatives (:A|B) are not in "
                         "this language",
                         what);
    }
    return HD_OK;
}

/* node = "(" [ var ] [ ":" label ] [ props ] ")" */
static hd_status parse_node(co_parser *parser, co_tree_node *node) {
    node->offset = co_parse_peek(parser, 0)->offset;
    HD_TRY(co_parse_expect(parser, CO_TOK_LPAREN, "a node in parentheses", CO_HINT("Write a pattern such as (a)-[:SHARES]-(b).")));
    co_token_kind kind = co_parse_peek(parser, 0)->kind;
    if (kind != CO_TOK_COLON && kind != CO_TOK_LBRACE && kind != CO_TOK_RPAREN) {
        HD_TRY(co_parse_name(parser, "a variable, `:`, `{` or `)` in the node",
                             CO_HINT("Write a node as (a), (a:Entity), (a {name: 'x'}) or ()."), &node->var));
    }
    if (co_parse_accept(parser, CO_TOK_COLON)) {
        HD_TRY(
            co_parse_name(parser, "a label",
                          CO_ALLOWED("allowed_labels", co_words_labels, "Write a label after the colon, or leave the colon out."),
                          &node->label_name));
        HD_TRY(check_single(parser, "a label", "Write one label, or none: labels follow from the relations."));
        node->label = hd_label_parse(node->label_name.text);
        if (node->label == HD_LABEL_NONE) {
            co_advice advice;
            HD_TRY(co_advise(parser->faults, node->label_name.text, "allowed_labels", co_words_labels,
                             HD_STR("Leave the label out: labels follow from the relations."), &advice));
            HD_TRY(co_fault(parser->faults, CO_BLOCKED_GRAMMAR, node->label_name.offset, &advice, "there is no label " HD_STR_FMT,
                            HD_STR_ARG(co_excerpt(node->label_name.text))));
        }
    }
    if (co_parse_accept(parser, CO_TOK_LBRACE)) {
        HD_TRY(co_parse_pairs(parser, "a property", &node->props));
        HD_TRY(co_parse_expect(parser, CO_TOK_RBRACE, "`,` or `}` after the property", CO_HINT("Close the braces with `}`.")));
    }
    const co_token *token = co_parse_peek(parser, 0);
    co_advice advice = {.hint = HD_STR("Close the node with `)`.")};
    if (token->kind == CO_TOK_COLON) advice.hint = HD_STR("Write one label, or none: labels follow from the relations.");
    if (token->kind == CO_TOK_KEYWORD && token->keyword == CO_KW_WHERE)
        advice.hint = HD_STR("Put the condition into WHERE, after MATCH.");
    HD_TRY(co_parse_expect(parser, CO_TOK_RPAREN, "`)` of the node", &advice));
    node->size = parser->end - node->offset;
    return HD_OK;
}

/* What is written of "*" [ int ] [ ".." [ int ] ]; a number too large for 64 bits stands as the largest. */
static uint64_t parse_hops(co_parser *parser) {
    const co_token *token = co_parse_next(parser);
    uint64_t number = 0;
    for (size_t i = 0; i < token->text.size; i++) {
        if (number > (UINT64_MAX - 9) / 10) return UINT64_MAX;
        number = number * 10 + (uint64_t)(token->text.data[i] - '0');
    }
    return number;
}

static hd_status parse_star(co_parser *parser, co_tree_rel *rel) {
    const co_token *star = co_parse_peek(parser, 0);
    if (!co_parse_accept(parser, CO_TOK_STAR)) return HD_OK;
    rel->is_variable_length = true;
    rel->hops_offset = star->offset;
    rel->hops_min = 1;
    rel->hops_max = CO_HOPS_MAX;
    bool has_min = co_parse_peek(parser, 0)->kind == CO_TOK_INT;
    if (has_min) rel->hops_min = rel->hops_max = parse_hops(parser);
    if (co_parse_accept(parser, CO_TOK_DOTDOT)) {
        rel->hops_max = CO_HOPS_MAX;
        if (co_parse_peek(parser, 0)->kind == CO_TOK_INT) rel->hops_max = parse_hops(parser);
    }
    return HD_OK;
}

static hd_status find_relation(co_parser *parser, co_tree_rel *rel) {
    hd_str name = rel->relation_name.text;
    rel->relation = hd_relation_parse(name);
    co_advice advice;
    if (rel->relation != HD_REL_NONE) {
        if (co_relation_rule_of(rel->relation)->is_running) return HD_OK;
        advice = (co_advice){co_words_relation_hint(rel->relation), "allowed_relations", co_words_relations_running};
        return co_fault(parser->faults, CO_BLOCKED_GRAMMAR, rel->relation_name.offset, &advice,
                        "the relation " HD_STR_FMT " is not available yet in this version", HD_STR_ARG(name));
    }
    HD_TRY(co_advise(parser->faults, name, "allowed_relations", co_words_relations_running,
                     HD_STR("SHARES, SIMILAR, FAR and NEXT join events, PARTICIPATED_IN an Entity and an Event, MEMBER_OF an Event "
                            "and a Tag, CONNECTED two Entities."),
                     &advice));
    const char *near = co_nearest(name, co_words_relations);
    if (near && !co_relation_rule_of(hd_relation_parse(hd_str_of(near)))->is_running) {
        HD_TRY(hd_arena_printf(parser->faults->arena, &advice.hint, "%s is not available yet in this version; use one that is.",
                               near));
    }
    return co_fault(parser->faults, CO_BLOCKED_GRAMMAR, rel->relation_name.offset, &advice, "there is no relation " HD_STR_FMT,
                    HD_STR_ARG(co_excerpt(name)));
}

/* body = "[" [ var ] ":" RELATION [ "*" [ int ] [ ".." [ int ] ] ] [ props ] "]" */
static hd_status parse_body(co_parser *parser, co_tree_rel *rel) {
    static const char nameless[] = "a relation needs its name: (a)--(b) and -[r]- are not in this language";
    const co_advice *advice = CO_ALLOWED("allowed_relations", co_words_relations_running,
                                         "Name the relation, as in (a)-[:SHARES]-(b); for several, ask several queries.");
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind == CO_TOK_MINUS || (token->kind == CO_TOK_GT && rel->arrow == CO_ARROW_NONE)) {
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, rel->offset, advice, "%s", nameless);
    }
    HD_TRY(co_parse_expect(parser, CO_TOK_LBRACKET, "`[` and a relation", advice));
    co_token_kind kind = co_parse_peek(parser, 0)->kind;
    if (kind == CO_TOK_NAME || kind == CO_TOK_KEYWORD) {
        HD_TRY(co_parse_name(parser, "a variable or `:` in the relation", advice, &rel->var));
        kind = co_parse_peek(parser, 0)->kind;
    }
    if (kind != CO_TOK_COLON && hd_relation_parse(rel->var.text) != HD_REL_NONE) {
        return co_parse_unexpected(parser, "`:` and the relation's name", false,
                                   CO_HINT("Put a colon before the relation's name: [:NEXT]."));
    }
    if (kind == CO_TOK_RBRACKET || kind == CO_TOK_STAR || kind == CO_TOK_LBRACE) {
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, rel->offset, advice, "%s", nameless);
    }
    HD_TRY(co_parse_expect(parser, CO_TOK_COLON, "`:` and the relation's name", advice));
    HD_TRY(co_parse_name(parser, "the relation's name", advice, &rel->relation_name));
    HD_TRY(check_single(parser, "a relation", "Ask one relation a pattern; for two, write two patterns or two queries."));
    HD_TRY(find_relation(parser, rel));
    HD_TRY(parse_star(parser, rel));
    if (co_parse_accept(parser, CO_TOK_LBRACE)) {
        HD_TRY(co_parse_pairs(parser, "a parameter of the relation", &rel->props));
        HD_TRY(co_parse_expect(parser, CO_TOK_RBRACE, "`,` or `}` after the parameter", CO_HINT("Close the braces with `}`.")));
    }
    return co_parse_expect(parser, CO_TOK_RBRACKET,
                           rel->is_variable_length ? "`]` after the length (`*`, `*2`, `*1..3`, `*..3`, `*2..`)"
                                                   : "`*`, `{` or `]` after the relation",
                           CO_HINT("Close the relation with `]`, as in -[:NEXT]-> or -[:NEXT*1..3]->."));
}

/* rel = "-" body "-" | "-" body "->" | "<-" body "-" */
static hd_status parse_rel(co_parser *parser, co_tree_rel *rel) {
    rel->offset = co_parse_peek(parser, 0)->offset;
    if (co_parse_accept(parser, CO_TOK_LT)) rel->arrow = CO_ARROW_LEFT;
    HD_TRY(co_parse_expect(parser, CO_TOK_MINUS, "`-` of a relation", CO_HINT("Write -[:NAME]-, -[:NAME]-> or <-[:NAME]-.")));
    HD_TRY(parse_body(parser, rel));
    HD_TRY(co_parse_expect(parser, CO_TOK_MINUS, "`-` or `->` after the relation",
                           CO_HINT("Write -[:NAME]-, -[:NAME]-> or <-[:NAME]-.")));
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind == CO_TOK_GT && rel->arrow == CO_ARROW_LEFT) {
        return co_parse_unexpected(parser, "a node after the relation", false, CO_HINT("A relation has one arrow at the most."));
    }
    if (co_parse_accept(parser, CO_TOK_GT)) rel->arrow = CO_ARROW_RIGHT;
    rel->size = parser->end - rel->offset;
    return HD_OK;
}

/* path = node { rel node } */
static hd_status parse_path(co_parser *parser, uint32_t clause) {
    hd_arena *arena = parser->faults->arena;
    co_tree_path path = {.clause = clause, .offset = co_parse_peek(parser, 0)->offset};
    if (co_parse_peek(parser, 0)->kind == CO_TOK_NAME) {
        return co_parse_unexpected(parser, "a node in parentheses", false,
                                   CO_HINT("Paths have no names and no functions: write a pattern such as (a)-[:SHARES]-(b)."));
    }
    HD_TRY(CO_PUSH(arena, &path, node));
    HD_TRY(parse_node(parser, &path.nodes[0]));
    for (;;) {
        co_token_kind kind = co_parse_peek(parser, 0)->kind;
        if (kind != CO_TOK_MINUS && kind != CO_TOK_LT) break;
        HD_TRY(CO_PUSH(arena, &path, rel));
        HD_TRY(parse_rel(parser, &path.rels[path.rel_count - 1]));
        HD_TRY(CO_PUSH(arena, &path, node));
        HD_TRY(parse_node(parser, &path.nodes[path.node_count - 1]));
    }
    HD_TRY(CO_PUSH(arena, parser->tree, path));
    parser->tree->paths[parser->tree->path_count - 1] = path;
    return HD_OK;
}

/* { "MATCH" path { "," path } } */
static hd_status parse_matches(co_parser *parser) {
    for (uint32_t clause = 0; co_parse_accept_word(parser, CO_KW_MATCH); clause++) {
        do {
            HD_TRY(parse_path(parser, clause));
        } while (co_parse_accept(parser, CO_TOK_COMMA));
    }
    return HD_OK;
}

/* ---- RETURN, ORDER BY, LIMIT ---- */

/* item = expr [ "AS" name ] */
static hd_status parse_item(co_parser *parser) {
    const co_token *token = co_parse_peek(parser, 0);
    if (token->kind == CO_TOK_STAR) {
        return co_refuse(parser->faults, CO_BLOCKED_GRAMMAR, token->offset, CO_HINT("Name what you want: RETURN a, b, r.count."),
                         "RETURN * is not in this language");
    }
    co_tree_item item = {.offset = token->offset};
    HD_TRY(co_parse_expr(parser, &item.expr));
    item.size = parser->end - item.offset;
    if (co_parse_accept_word(parser, CO_KW_AS))
        HD_TRY(co_parse_name(parser, "a name for the column", CO_HINT("Write AS and a name."), &item.alias));
    HD_TRY(CO_PUSH(parser->faults->arena, parser->tree, item));
    parser->tree->items[parser->tree->item_count - 1] = item;
    return HD_OK;
}

/* return = "RETURN" [ "DISTINCT" ] item { "," item } */
static hd_status parse_return(co_parser *parser) {
    parser->tree->is_distinct = co_parse_accept_word(parser, CO_KW_DISTINCT);
    do {
        HD_TRY(parse_item(parser));
    } while (co_parse_accept(parser, CO_TOK_COMMA));
    return HD_OK;
}

/* order = "ORDER" "BY" expr [ "ASC" | "DESC" ] { "," expr [ "ASC" | "DESC" ] } */
static hd_status parse_order(co_parser *parser) {
    if (!co_parse_accept_word(parser, CO_KW_BY))
        return co_parse_unexpected(parser, "BY after ORDER", false, CO_HINT("Write ORDER BY."));
    do {
        co_tree_order order = {0};
        HD_TRY(co_parse_expr(parser, &order.expr));
        order.is_descending = co_parse_accept_word(parser, CO_KW_DESC);
        if (!order.is_descending) co_parse_accept_word(parser, CO_KW_ASC);
        HD_TRY(CO_PUSH(parser->faults->arena, parser->tree, order));
        parser->tree->orders[parser->tree->order_count - 1] = order;
    } while (co_parse_accept(parser, CO_TOK_COMMA));
    return HD_OK;
}

/* limit = "LIMIT" ( int | param ) */
static hd_status parse_limit(co_parser *parser) {
    co_token_kind kind = co_parse_peek(parser, 0)->kind;
    if (kind != CO_TOK_INT && kind != CO_TOK_PARAM) {
        return co_parse_unexpected(parser, "an integer or a $parameter after LIMIT", false,
                                   CO_HINT("Write LIMIT and a number from 1 to 200."));
    }
    return co_parse_value(parser, NULL, &parser->tree->limit);
}

/* ---- the whole ---- */

/* What a word means that stands where a clause should begin: a keyword out of its place, or a slip of the fingers. */
static hd_status advise_clause(co_parser *parser, const char *const *allowed, co_advice *advice_out) {
    const co_token *token = co_parse_peek(parser, 0);
    *advice_out = (co_advice){.allowed_key = allowed[0] ? "allowed_clauses" : NULL, .allowed = allowed[0] ? allowed : NULL};
    if (token->kind == CO_TOK_NAME) {
        advice_out->hint = co_words_clause_hint(token->text);
        if (advice_out->hint.data) return HD_OK;
        hd_str otherwise = allowed == clauses_after_return ? HD_STR("Put a comma between items, and AS before an alias.")
                                                           : HD_STR("Take the word out, or put it in quotes where it is a text.");
        if (allowed[0]) return co_advise(parser->faults, token->text, "allowed_clauses", allowed, otherwise, advice_out);
        advice_out->hint = otherwise;
        return HD_OK;
    }
    switch (token->kind == CO_TOK_KEYWORD ? token->keyword : CO_KW_NONE) {
    case CO_KW_MATCH: advice_out->hint = HD_STR("Put every MATCH before WHERE and RETURN."); break;
    case CO_KW_WHERE:
        advice_out->hint = HD_STR("Write one WHERE, after the last MATCH and before RETURN; join conditions with AND.");
        break;
    case CO_KW_ORDER: advice_out->hint = HD_STR("Put ORDER BY after RETURN and before LIMIT."); break;
    case CO_KW_LIMIT: advice_out->hint = HD_STR("Put LIMIT at the end, after RETURN."); break;
    case CO_KW_START: advice_out->hint = HD_STR("A query has one START, at its beginning; send two queries for two."); break;
    case CO_KW_RETURN: advice_out->hint = HD_STR("A query has one RETURN."); break;
    case CO_KW_NOT: advice_out->hint = HD_STR("Put NOT before the condition: NOT a.id IN [..]."); break;
    case CO_KW_AS: advice_out->hint = HD_STR("Give names with AS in RETURN alone."); break;
    default:
        advice_out->hint = HD_STR("Take out what stands after the end of the query.");
        if (allowed == clauses_after_start || allowed == clauses_after_match || allowed == clauses_after_where) {
            advice_out->hint = HD_STR("Go on with RETURN and what you want back, such as RETURN a.");
        }
        break;
    }
    if (token->kind == CO_TOK_NE || token->kind == CO_TOK_STRING)
        advice_out->hint = HD_STR("Inside a string write \\' and \\\" for quotes.");
    if (token->kind == CO_TOK_EQ) advice_out->hint = HD_STR("Write one = to compare.");
    if (token->kind == CO_TOK_PIPE) advice_out->hint = HD_STR("Write OR between conditions; texts cannot be joined.");
    if (token->kind == CO_TOK_COLON) advice_out->hint = HD_STR("Write a label in the pattern of MATCH, as in (e:Entity).");
    if (token->kind == CO_TOK_LBRACKET) advice_out->hint = HD_STR("Return the list whole: its items cannot be picked.");
    if (token->kind == CO_TOK_DOT) advice_out->hint = HD_STR("Properties have no properties: write one dot, as in a.id.");
    if (token->kind == CO_TOK_RPAREN || token->kind == CO_TOK_RBRACKET)
        advice_out->hint = HD_STR("Take the bracket out, or open one.");
    return HD_OK;
}

static hd_status refuse_clause(co_parser *parser, const char *expected, const char *const *allowed) {
    co_advice advice;
    HD_TRY(advise_clause(parser, allowed, &advice));
    return co_parse_unexpected(parser, expected, true, &advice);
}

/* query = [ "EXPLAIN" ] start { match } [ where ] return [ order ] [ limit ] [ ";" ] */
static hd_status parse_query(co_parser *parser) {
    co_tree *tree = parser->tree;
    tree->is_explain = co_parse_accept_word(parser, CO_KW_EXPLAIN);
    HD_TRY(parse_start(parser));
    HD_TRY(parse_matches(parser));
    bool has_where = co_parse_accept_word(parser, CO_KW_WHERE);
    if (has_where) HD_TRY(co_parse_expr(parser, &tree->where));
    if (!co_parse_accept_word(parser, CO_KW_RETURN)) {
        if (has_where) return refuse_clause(parser, "an operator (AND, OR, =, …) or RETURN", clauses_after_where);
        if (tree->path_count > 0) return refuse_clause(parser, "MATCH, WHERE or RETURN", clauses_after_match);
        return refuse_clause(parser, "MATCH, WHERE or RETURN", clauses_after_start);
    }
    HD_TRY(parse_return(parser));
    const char *expected = "`,`, AS, ORDER BY, LIMIT or the end of the query";
    const char *const *allowed = clauses_after_return;
    if (co_parse_accept_word(parser, CO_KW_ORDER)) {
        HD_TRY(parse_order(parser));
        expected = "`,`, ASC, DESC, LIMIT or the end of the query";
        allowed = clauses_after_order;
    }
    if (co_parse_accept_word(parser, CO_KW_LIMIT)) {
        HD_TRY(parse_limit(parser));
        expected = "the end of the query";
        allowed = clauses_after_limit;
    }
    if (co_parse_accept(parser, CO_TOK_SEMICOLON)) {
        expected = "the end of the query after `;`";
        allowed = clauses_after_limit;
    }
    return co_parse_peek(parser, 0)->kind == CO_TOK_END ? HD_OK : refuse_clause(parser, expected, allowed);
}

hd_status co_parse(co_faults *faults, const co_tokens *tokens, co_tree *tree_out) {
    *tree_out = (co_tree){0};
    co_parser parser = {.faults = faults, .tokens = tokens, .tree = tree_out};
    return parse_query(&parser);
}
