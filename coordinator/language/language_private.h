/* What the files of this room share: faults, tokens, the parse tree, the vocabulary, types and value rules. Nobody else includes it.
 *
 *   text --lex--> tokens --parse--> co_tree (names as written) --bind--> co_query (names resolved) --resolve--> co_resolved
 *
 * A *fault* is one thing that is wrong with a query. Any number may be reported; the one told is chosen in refuse.c: syntax before
 * grammar before params, and of those the first in the text. So whoever finds a fault reports it and goes on where it can. */
#ifndef CO_LANGUAGE_PRIVATE_H
#define CO_LANGUAGE_PRIVATE_H

#include "coordinator/language/language.h"

/* ---- refuse.c ------------------------------------------------------------------------------------------------------------- */

/* The faults of one call: only the one to be told is kept, in *refusal. */
typedef struct co_faults {
    hd_arena *arena;
    hd_str text;
    co_refusal *refusal; /* blocked_by is 0 while there is none */
    uint32_t offset;     /* of the fault that is kept */
} co_faults;

/* What helps to mend: both parts may be missing. */
typedef struct co_advice {
    hd_str hint;
    const char *allowed_key;
    const char *const *allowed;
} co_advice;

#define CO_HINT(text) (&(co_advice){.hint = HD_STR(text)})
#define CO_ALLOWED(key, list, text) (&(co_advice){.hint = HD_STR(text), .allowed_key = (key), .allowed = (list)})

void co_faults_init(co_faults *faults, hd_arena *arena, hd_str text, co_refusal *refusal_out);
/* Reports a fault at a byte of the text; `advice` may be NULL and is copied. HD_OK, so that the caller can go on; or HD_MEMORY. */
HD_MUST_USE hd_status co_fault(co_faults *faults, co_blocked_by blocked_by, uint32_t offset, const co_advice *advice,
                               const char *format, ...) HD_PRINTF(5, 6);
/* The same, for a caller that cannot go on: returns the status of the fault that is kept. */
HD_MUST_USE hd_status co_refuse(co_faults *faults, co_blocked_by blocked_by, uint32_t offset, const co_advice *advice,
                                const char *format, ...) HD_PRINTF(5, 6);
/* HD_OK while nothing was reported, else HD_SYNTAX, HD_GRAMMAR or HD_PARAMS. */
HD_MUST_USE hd_status co_faults_status(const co_faults *faults);
/* The word of a NULL-terminated list that `word` most likely means, or NULL. Another case is always a near miss. */
const char *co_nearest(hd_str word, const char *const *words);
/* "Did you mean X?" where something is near, else `fallback` (which may be absent), with the allowed list either way. */
HD_MUST_USE hd_status co_advise(co_faults *faults, hd_str word, const char *allowed_key, const char *const *allowed,
                                hd_str fallback, co_advice *advice_out);
/* At most 40 code points of a piece of query text, for messages. */
hd_str co_excerpt(hd_str text);
/* A value in words, for messages: the string 'abc', the integer 3, a list of 4. */
HD_MUST_USE hd_status co_describe(hd_arena *arena, const hd_value *value, hd_str *text_out);
/* Line and column (from 1, in code points) of a byte of the text. */
void co_position(hd_str text, uint32_t offset, uint32_t *line_out, uint32_t *column_out);

/* ---- lex.c ---------------------------------------------------------------------------------------------------------------- */

typedef enum co_keyword {
    CO_KW_NONE,
#define KEYWORD(name, text) CO_KW_##name,
#define CONSTRUCT(name, text, title, hint) CO_KW_##name,
#include "coordinator/language/keywords.def"
    CO_KW_END
} co_keyword;

const char *co_keyword_name(co_keyword keyword);
/* The refused construct that begins with this word; false for a keyword of the language. */
bool co_keyword_construct(co_keyword keyword, const char **title_out, const char **hint_out);

typedef enum co_token_kind {
    CO_TOK_END,
    CO_TOK_BAD, /* the text cannot be read on from here: co_tokens says why */
    CO_TOK_NAME,
    CO_TOK_KEYWORD,
    CO_TOK_PARAM,
    CO_TOK_STRING,
    CO_TOK_INT,
    CO_TOK_FLOAT,
    CO_TOK_LPAREN,
    CO_TOK_RPAREN,
    CO_TOK_LBRACKET,
    CO_TOK_RBRACKET,
    CO_TOK_LBRACE,
    CO_TOK_RBRACE,
    CO_TOK_COMMA,
    CO_TOK_COLON,
    CO_TOK_SEMICOLON,
    CO_TOK_DOT,
    CO_TOK_DOTDOT,
    CO_TOK_PIPE,
    CO_TOK_EQ,
    CO_TOK_MATCHES, /* =~ */
    CO_TOK_NE,
    CO_TOK_LT,
    CO_TOK_LE,
    CO_TOK_GT,
    CO_TOK_GE,
    CO_TOK_PLUS,
    CO_TOK_MINUS,
    CO_TOK_STAR,
    CO_TOK_SLASH,
    CO_TOK_PERCENT,
    CO_TOK_CARET,
} co_token_kind;

typedef struct co_token {
    co_token_kind kind;
    co_keyword keyword;
    uint32_t offset, size;
    hd_str text; /* names, parameters and strings without their quotes and escapes; else the bytes as written */
} co_token;

/* `count` tokens, the last one CO_TOK_END or CO_TOK_BAD. */
typedef struct co_tokens {
    co_token *items;
    uint32_t count, capacity;
    hd_str bad_detail, bad_hint;
} co_tokens;

/* Cuts a text of at most CO_QUERY_BYTES_MAX bytes of valid UTF-8 into tokens. HD_OK also where it ends in CO_TOK_BAD. */
HD_MUST_USE hd_status co_lex(hd_arena *arena, hd_str text, co_tokens *tokens_out);

/* ---- parse.c, parse_expr.c ------------------------------------------------------------------------------------------------ */

/* A name as written; the absent string where there is none. */
typedef struct co_name {
    hd_str text;
    uint32_t offset, size;
} co_name;

/* Every expression of this room is a co_term: what the evaluator knows, and what only binding needs. */
typedef struct co_term {
    hd_expr expr;       /* first: a co_term is its hd_expr */
    co_name name;       /* VAR, PROPERTY, COS: the variable */
    co_name name2;      /* PROPERTY: the property; COS: the second variable */
    uint32_t tree_size; /* nodes below and including this one, a shared one counted each time */
    bool is_bound;
    bool is_poisoned;     /* a fault was reported about it: it has any type, and nothing more is said */
    hd_expr *replacement; /* ORDER BY: the item that this alias stands for */
} co_term;
static inline co_term *co_term_of(hd_expr *expr) {
    return (co_term *)(void *)expr;
}

typedef struct co_pair {
    co_name name;
    hd_expr *value;
} co_pair;

typedef struct co_pairs {
    co_pair *items;
    uint32_t count, capacity;
} co_pairs;

typedef struct co_tree_node {
    co_name var, label_name;
    hd_label label; /* HD_LABEL_NONE: none written, or none that is known */
    co_pairs props;
    uint32_t offset, size;
} co_tree_node;

typedef struct co_tree_rel {
    co_name var, relation_name;
    hd_relation relation; /* HD_REL_NONE: not known (reported) */
    co_arrow arrow;
    bool is_variable_length;
    uint32_t hops_offset;        /* of the `*` */
    uint64_t hops_min, hops_max; /* as written, defaults filled in */
    co_pairs props;
    uint32_t offset, size;
} co_tree_rel;

/* nodes[0] rels[0] nodes[1] … */
typedef struct co_tree_path {
    co_tree_node *nodes;
    uint32_t node_count, node_capacity;
    co_tree_rel *rels;
    uint32_t rel_count, rel_capacity;
    uint32_t clause;
    uint32_t offset;
} co_tree_path;

typedef struct co_tree_item {
    hd_expr *expr;
    co_name alias;
    uint32_t offset, size;
} co_tree_item;

typedef struct co_tree_order {
    hd_expr *expr;
    bool is_descending;
} co_tree_order;

/* The query as written. Where a refused construct ended the reading, what stood whole before it (a path, an item, …). */
typedef struct co_tree {
    bool is_explain;
    co_name start_var;
    co_pairs start_args;
    uint32_t start_offset, start_size;
    co_tree_path *paths;
    uint32_t path_count, path_capacity;
    hd_expr *where;
    bool is_distinct;
    co_tree_item *items;
    uint32_t item_count, item_capacity;
    co_tree_order *orders;
    uint32_t order_count, order_capacity;
    hd_expr *limit;
    co_name *params;
    uint32_t param_count, param_capacity;
} co_tree;

typedef struct co_parser {
    co_faults *faults;
    const co_tokens *tokens;
    uint32_t at;
    uint32_t end;   /* where the last token that was read ends */
    uint32_t depth; /* of brackets, NOT and the like */
    co_tree *tree;
} co_parser;

/* HD_OK: read to the end (faults may have been reported). HD_SYNTAX, HD_GRAMMAR: stopped; the fault is reported. */
HD_MUST_USE hd_status co_parse(co_faults *faults, const co_tokens *tokens, co_tree *tree_out);

const co_token *co_parse_peek(const co_parser *parser, uint32_t ahead);
const co_token *co_parse_next(co_parser *parser);
bool co_parse_accept(co_parser *parser, co_token_kind kind);
bool co_parse_accept_word(co_parser *parser, co_keyword keyword);
/* Refuses the next token: where the text cannot be read, with the reason; where a refused construct begins and `can_construct` says
 * that a clause or an expression could stand here, by its name; else "expected …, found …". */
HD_MUST_USE hd_status co_parse_unexpected(co_parser *parser, const char *expected, bool can_construct, const co_advice *advice);
HD_MUST_USE hd_status co_parse_expect(co_parser *parser, co_token_kind kind, const char *expected, const co_advice *advice);
HD_MUST_USE hd_status co_parse_name(co_parser *parser, const char *expected, const co_advice *advice, co_name *name_out);
/* name ":" value { "," name ":" value }, up to and without what closes it. */
HD_MUST_USE hd_status co_parse_pairs(co_parser *parser, const char *expected, co_pairs *pairs_out);
HD_MUST_USE hd_status co_parse_value(co_parser *parser, const co_advice *advice, hd_expr **value_out);
HD_MUST_USE hd_status co_parse_expr(co_parser *parser, hd_expr **expr_out);
HD_MUST_USE hd_status co_term_new(hd_arena *arena, hd_expr_kind kind, uint32_t offset, uint32_t size, hd_expr **expr_out);

/* Makes room for one more item (zeroed) at the end of a growing array in the arena and counts it. */
HD_MUST_USE hd_status co_push(hd_arena *arena, void *items_inout, uint32_t *count, uint32_t *capacity, size_t item_size);
#define CO_PUSH(arena, list, name) \
    co_push((arena), (void *)&(list)->name##s, &(list)->name##_count, &(list)->name##_capacity, sizeof(*(list)->name##s))

/* ---- words.c: the vocabulary ---------------------------------------------------------------------------------------------- */

typedef enum co_type_kind {
    CO_TYPE_ANY, /* a parameter before it is known, or a fault that was reported */
    CO_TYPE_NULL,
    CO_TYPE_BOOL,
    CO_TYPE_NUMBER,
    CO_TYPE_STRING,
    CO_TYPE_INSTANT,
    CO_TYPE_NODE,
    CO_TYPE_RELATION,
    CO_TYPE_LIST,
} co_type_kind;

/* What a START argument or a relation's parameter takes. */
typedef enum co_rule_kind {
    CO_RULE_INT,   /* min .. max */
    CO_RULE_FLOAT, /* min .. max; an int will do */
    CO_RULE_BOOL,
    CO_RULE_WORD,    /* one of `words` */
    CO_RULE_TEXT,    /* a string with something in it */
    CO_RULE_INSTANT, /* a string that names a moment */
    CO_RULE_NAMES,   /* a name, or a list of at least one */
    CO_RULE_NAME_LIST,
    CO_RULE_IDS,    /* a list of strings, maybe empty */
    CO_RULE_VECTOR, /* a list of numbers */
} co_rule_kind;

typedef struct co_rule {
    const char *name;
    co_rule_kind kind;
    double min, max; /* ±INFINITY: open */
    const char *const *words;
    size_t field; /* where its hd_expr * stands in co_start or co_rel */
} co_rule;

/* As graph.def calls them. */
typedef enum co_arrow_rule {
    CO_ARROW_RULE_NONE,
    CO_ARROW_RULE_REQUIRED,
    CO_ARROW_RULE_OPTIONAL,
    CO_ARROW_RULE_MEMBER
} co_arrow_rule;

typedef struct co_relation_rule {
    hd_label from, to; /* in the arrow's direction */
    co_arrow_rule arrow;
    bool can_vary;   /* may have a variable length */
    bool is_running; /* available in this version */
    const co_rule *params;
    uint32_t param_count;
    const char *const *param_names; /* NULL-terminated, as are the next two */
    const char *const *property_names;
} co_relation_rule;

enum { CO_VECTOR_SIZE_MAX = 4096 };

extern const co_rule co_start_rules[];
extern const uint32_t co_start_rule_count;
extern const co_rule co_limit_rule;

extern const char *const co_words_labels[];
extern const char *const co_words_relations[];         /* all of the language */
extern const char *const co_words_relations_running[]; /* those of this version */
extern const char *const co_words_functions[];
extern const char *const co_words_start_keys[];

const co_relation_rule *co_relation_rule_of(hd_relation relation);
/* Property names of a label; `is_start` adds `score`. NULL-terminated. */
const char *const *co_words_properties(hd_label label, bool is_start);
bool co_words_has(const char *const *words, hd_str word);
co_type_kind co_property_type(hd_property property);
/* A sentence for a function, a clause or operator, a property, a START key that other systems have and this language has not; the
 * absent string where it is none of those. */
hd_str co_words_function_hint(hd_str function);
hd_str co_words_clause_hint(hd_str word);
hd_str co_words_property_hint(hd_label label, hd_str property);
hd_str co_words_start_hint(hd_str key);
/* What to do without a relation that is not available yet. */
hd_str co_words_relation_hint(hd_relation relation);

/* ---- types.c, rules.c: what holds for values, at bind (parameters not known) and at resolve (known) ----------------------- */

typedef struct co_type {
    co_type_kind kind;
    hd_label label; /* of a node */
} co_type;

typedef struct co_checker {
    co_faults *faults;
    const co_query *query;
    const hd_value *params; /* NULL: not known yet; faults are then `grammar`, else `params` */
    const bool *is_missing; /* with params: those that were not given (reported) */
} co_checker;

/* Finds the type of an expression and reports what does not fit together in it. */
HD_MUST_USE hd_status co_type_check(const co_checker *checker, const hd_expr *expr, co_type *type_out);
/* co_type_check, and that it is a condition: a boolean (or null). */
HD_MUST_USE hd_status co_type_check_condition(const co_checker *checker, const hd_expr *expr);
/* Reports an ORDER BY key that has no order; `offset` is where it stands (an alias is not where its item is). */
HD_MUST_USE hd_status co_type_check_order(const co_checker *checker, const hd_expr *expr, uint32_t offset);
/* Checks a START argument or a relation's parameter as far as it is known. `owner`: "events(…)", "SHARES". */
HD_MUST_USE hd_status co_rule_check(const co_checker *checker, const co_rule *rule, const char *owner, const hd_expr *expr);

/* The items of a list expression (LIST, a list LITERAL, a list PARAM). */
typedef struct co_operand {
    const hd_value *value; /* NULL: not known; a LIST is known to be a list, but its items are asked for one by one */
    const hd_expr *expr;   /* where it stands (the list, where items have no place of their own) */
} co_operand;
co_operand co_operand_of(const co_checker *checker, const hd_expr *expr);
/* False: it is known to be no list. */
bool co_operand_is_list(const co_checker *checker, const hd_expr *expr, uint32_t *count_out, bool *is_known_out);
co_operand co_operand_item(const co_checker *checker, const hd_expr *expr, uint32_t index);

/* ---- bind*.c -------------------------------------------------------------------------------------------------------------- */

typedef struct co_binder {
    co_faults *faults;
    co_tree *tree;
    co_query *query;
    co_checker checker;
    bool is_in_aggregate;
    uint32_t var_capacity, named_count, where_capacity, aggregate_capacity, note_capacity;
} co_binder;

HD_MUST_USE hd_status co_bind_match(co_binder *binder);
/* Resolves the names of an expression in place. Aggregates are reported unless `can_aggregate`; aliases of RETURN are known only
 * with `can_alias`. */
HD_MUST_USE hd_status co_bind_expr(co_binder *binder, hd_expr **slot, bool can_aggregate, bool can_alias);
/* Resolves the property (name2) of a term whose variable (index) is known. */
HD_MUST_USE hd_status co_bind_property(co_binder *binder, hd_expr *expr);
HD_MUST_USE hd_status co_bind_return(co_binder *binder);
/* Adds the conjuncts of an expression to the query's WHERE. */
HD_MUST_USE hd_status co_bind_conjuncts(co_binder *binder, hd_expr *expr);
/* The variable of a name, or UINT32_MAX. */
uint32_t co_bind_find(const co_binder *binder, hd_str name);
HD_MUST_USE hd_status co_bind_add_var(co_binder *binder, const co_name *name, uint32_t offset, uint32_t *var_out);
/* Lists without parameters become literals. */
HD_MUST_USE hd_status co_bind_fold(co_binder *binder, hd_expr *expr);
bool co_expr_is_same(const hd_expr *a, const hd_expr *b);

#endif
