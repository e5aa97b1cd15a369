/* A tree to a bound query: names resolved, labels inferred, types checked. START and LIMIT here, patterns in bind_match.c,
 * expressions and RETURN in bind_expr.c.
 *
 * Goes through the clauses in the order of the text and stops after the first one that has a fault: whatever a later one holds
 * stands later in the text. Within a clause it goes on after a fault, because the checks of a clause do not come in text order. */
#include <inttypes.h>

#include "common/text.h"
#include "coordinator/language/language_private.h"

/* ---- START ---- */

static hd_expr **start_field(co_start *start, const co_rule *rule) {
    return (hd_expr **)(void *)((char *)start + rule->field);
}

static const co_rule *find_start_rule(hd_str key) {
    for (uint32_t i = 0; i < co_start_rule_count; i++) {
        if (hd_str_is_equal(key, hd_str_of(co_start_rules[i].name))) return &co_start_rules[i];
    }
    return NULL;
}

static const co_name *find_arg(const co_binder *binder, const char *key) {
    for (uint32_t i = 0; i < binder->tree->start_args.count; i++) {
        const co_name *name = &binder->tree->start_args.items[i].name;
        if (hd_str_is_equal(name->text, hd_str_of(key))) return name;
    }
    return NULL;
}

/* Two keys that cannot stand together: the later one in the text is at fault. */
static hd_status refuse_pair(co_binder *binder, const char *key, const char *other, const char *hint) {
    const co_name *a = find_arg(binder, key), *b = find_arg(binder, other);
    if (!a || !b) return HD_OK;
    co_advice advice = {.hint = hd_str_of(hint)};
    return co_fault(binder->faults, CO_BLOCKED_GRAMMAR, HD_MAX(a->offset, b->offset), &advice,
                    "events(…) takes one of %s and %s, not both", key, other);
}

/* Which keys go together (section 3). */
static hd_status check_start_keys(co_binder *binder) {
    const co_start *start = &binder->query->start;
    HD_TRY(refuse_pair(binder, "text", "vector", "Keep the one that says what is searched for."));
    HD_TRY(refuse_pair(binder, "entity", "entity_all",
                       "Keep entity: [..] for events with any of them, or entity_all: [..] for events with all."));
    HD_TRY(
        refuse_pair(binder, "tag", "tag_all", "Keep tag: [..] for events with any of them, or tag_all: [..] for events with all."));
    const co_pairs *args = &binder->tree->start_args;
    if (start->ids && args->count > 1) {
        /* What stands beside ids is at fault, or ids where it comes later. */
        bool is_first = hd_str_is_equal(args->items[0].name.text, HD_STR("ids"));
        const co_name *second = is_first ? &args->items[1].name : find_arg(binder, "ids");
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, second->offset,
                        CO_HINT("Write events(ids: [..]) with nothing beside it, and filter with WHERE."),
                        "ids stands alone in events(…)"));
    }
    if (start->exact && !start->text && !start->vector) {
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, find_arg(binder, "exact")->offset,
                        CO_HINT("Leave exact out, or add text: or vector:."), "exact goes with text or vector"));
    }
    return HD_OK;
}

static hd_status bind_start(co_binder *binder) {
    co_tree *tree = binder->tree;
    co_query *query = binder->query;
    uint32_t var;
    HD_TRY(co_bind_add_var(binder, &tree->start_var, tree->start_var.offset, &var));
    query->vars[var].label = HD_LABEL_EVENT;
    query->start.offset = tree->start_offset;
    query->start.size = tree->start_size;
    for (uint32_t i = 0; i < tree->start_args.count; i++) {
        co_pair *pair = &tree->start_args.items[i];
        const co_rule *rule = find_start_rule(pair->name.text);
        if (!rule) {
            co_advice advice;
            HD_TRY(co_advise(binder->faults, pair->name.text, "allowed_start_keys", co_words_start_keys,
                             HD_STR("Filter by other things in WHERE."), &advice));
            hd_str hint = co_words_start_hint(pair->name.text);
            if (hint.data) advice.hint = hint;
            HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, pair->name.offset, &advice, "events(…) does not know " HD_STR_FMT,
                            HD_STR_ARG(co_excerpt(pair->name.text))));
            continue;
        }
        hd_expr **field = start_field(&query->start, rule);
        if (*field) {
            HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, pair->name.offset,
                            CO_HINT("Write each key once; several values go into a list."), "%s stands twice in events(…)",
                            rule->name));
        }
        *field = pair->value;
        HD_TRY(co_rule_check(&binder->checker, rule, "events(…)", pair->value));
        HD_TRY(co_bind_fold(binder, pair->value));
    }
    return check_start_keys(binder);
}

/* ---- variables ---- */

uint32_t co_bind_find(const co_binder *binder, hd_str name) {
    for (uint32_t i = 0; i < binder->query->var_count; i++) {
        if (binder->query->vars[i].name.data && hd_str_is_equal(binder->query->vars[i].name, name)) return i;
    }
    return UINT32_MAX;
}

hd_status co_bind_add_var(co_binder *binder, const co_name *name, uint32_t offset, uint32_t *var_out) {
    co_query *query = binder->query;
    if (name->text.data && ++binder->named_count > CO_VARIABLES_MAX) {
        HD_TRY(co_fault(binder->faults, CO_BLOCKED_GRAMMAR, name->offset,
                        CO_HINT("Leave out the names of what is not used again: (), -[:NEXT]->."),
                        "a query has at most %d named variables, and " HD_STR_FMT " is one more", CO_VARIABLES_MAX,
                        HD_STR_ARG(co_excerpt(name->text))));
    }
    HD_TRY(co_push(binder->faults->arena, (void *)&query->vars, &query->var_count, &binder->var_capacity, sizeof *query->vars));
    *var_out = query->var_count - 1;
    query->vars[*var_out] = (co_var){.name = name->text, .offset = offset};
    return HD_OK;
}

/* ---- the whole ---- */

hd_status co_bind_conjuncts(co_binder *binder, hd_expr *expr) {
    co_query *query = binder->query;
    if (expr->kind == HD_EXPR_AND) {
        for (uint32_t i = 0; i < expr->arg_count; i++) HD_TRY(co_bind_conjuncts(binder, expr->args[i]));
        return HD_OK;
    }
    HD_TRY(
        co_push(binder->faults->arena, (void *)&query->where, &query->where_count, &binder->where_capacity, sizeof *query->where));
    query->where[query->where_count - 1] = expr;
    return HD_OK;
}

static hd_status bind_where(co_binder *binder) {
    if (!binder->tree->where) return HD_OK;
    HD_TRY(co_bind_expr(binder, &binder->tree->where, false, false));
    HD_TRY(co_type_check_condition(&binder->checker, binder->tree->where));
    HD_TRY(co_bind_fold(binder, binder->tree->where));
    return co_bind_conjuncts(binder, binder->tree->where);
}

static hd_status bind_limit(co_binder *binder) {
    binder->query->limit = binder->tree->limit;
    return binder->query->limit ? co_rule_check(&binder->checker, &co_limit_rule, NULL, binder->query->limit) : HD_OK;
}

static hd_status bind_params(co_binder *binder) {
    const co_tree *tree = binder->tree;
    co_query *query = binder->query;
    query->param_count = tree->param_count;
    HD_ALLOC(query->params, binder->faults->arena, tree->param_count);
    HD_ALLOC(query->param_offsets, binder->faults->arena, tree->param_count);
    for (uint32_t i = 0; i < tree->param_count; i++) {
        query->params[i] = tree->params[i].text;
        query->param_offsets[i] = tree->params[i].offset;
    }
    return HD_OK;
}

/* Binds what was read; HD_OK, or the status of the fault that is kept. */
static hd_status bind_tree(co_binder *binder) {
    static hd_status (*const clauses[])(co_binder * binder) = {bind_params, bind_start,     co_bind_match,
                                                               bind_where,  co_bind_return, bind_limit};
    if (!binder->tree->start_var.text.data) return co_faults_status(binder->faults);
    uint32_t reported_at = binder->faults->refusal->blocked_by ? binder->faults->offset : UINT32_MAX;
    for (size_t i = 0; i < HD_COUNT_OF(clauses); i++) {
        HD_TRY(clauses[i](binder));
        /* Parsing may have reported a later fault; only one from here ends the binding. */
        if (binder->faults->refusal->blocked_by && binder->faults->offset < reported_at) break;
    }
    return co_faults_status(binder->faults);
}

static uint32_t first_invalid(hd_str text) {
    uint32_t low = 0, high = (uint32_t)text.size; /* the first `low` bytes end at a character that is well-formed */
    for (uint32_t size = 1; low < high; size = 1) {
        while (size <= 4 && low + size <= high && !hd_text_is_utf8((hd_str){text.data + low, size})) size++;
        if (size > 4 || low + size > high) break;
        low += size;
    }
    return low;
}

/* What makes a text no text: too long, not UTF-8, NUL, nothing. */
static hd_status check_text(co_faults *faults) {
    hd_str text = faults->text;
    if (text.size > CO_QUERY_BYTES_MAX) {
        return co_refuse(faults, CO_BLOCKED_GRAMMAR, CO_QUERY_BYTES_MAX,
                         CO_HINT("Pass long texts and lists as $parameters, or send several queries."),
                         "the query is %zu bytes long, over the limit of %d", text.size, CO_QUERY_BYTES_MAX);
    }
    if (!hd_text_is_utf8(text)) {
        return co_refuse(faults, CO_BLOCKED_SYNTAX, first_invalid(text), CO_HINT("Send the query in UTF-8."),
                         "the query is not valid UTF-8");
    }
    const char *nul = text.size ? memchr(text.data, '\0', text.size) : NULL;
    if (nul) {
        return co_refuse(faults, CO_BLOCKED_SYNTAX, (uint32_t)(nul - text.data), CO_HINT("Take the NUL character out."),
                         "the query has a NUL character");
    }
    return HD_OK;
}

hd_status co_language_bind(hd_arena *arena, hd_str text, const co_query **query_out, co_refusal *refusal_out) {
    co_faults faults;
    co_tokens tokens;
    co_tree tree;
    co_query *query;
    if (!text.data) text = HD_STR("");
    *query_out = NULL;
    co_faults_init(&faults, arena, text, refusal_out);
    HD_TRY(check_text(&faults));
    HD_TRY(hd_arena_dup(arena, text, &faults.text));
    text = faults.text;
    HD_TRY(co_lex(arena, text, &tokens));
    hd_status status = co_parse(&faults, &tokens, &tree);
    if (status != HD_OK && status != HD_GRAMMAR) return status;
    HD_ALLOC(query, arena, 1);
    query->text = text;
    query->is_explain = tree.is_explain;
    co_binder binder = {.faults = &faults, .tree = &tree, .query = query, .checker = {.faults = &faults, .query = query}};
    HD_TRY(bind_tree(&binder));
    *query_out = query;
    return HD_OK;
}
