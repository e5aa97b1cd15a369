/* A query's text and its parameters through parse, bind, resolve and plan. The input: the text, a NUL, the parameters as JSON (no NUL:
 * no parameters; the last NUL counts, so that texts with NUL are tried too).
 *
 * Beyond not crashing:
 *   - what is refused is refused with a place in the text and words that a client can be sent;
 *   - what is taken was understood whole: with one more token at its end it is refused, and EXPLAIN before it changes nothing;
 *   - what is bound stays within its tables and its text; a plan can be built and printed with and without the optional rules. */
#include "coordinator/language/language.h"
#include "coordinator/plan/plan.h"
#include "tests/fuzz/fuzz.h"

#include "coordinator/front/json.h"

static void check_refusal(hd_status status, hd_str text, const co_refusal *refusal) {
    co_blocked_by expected = status == HD_SYNTAX    ? CO_BLOCKED_SYNTAX
                             : status == HD_GRAMMAR ? CO_BLOCKED_GRAMMAR
                                                    : CO_BLOCKED_PARAMS;
    FUZZ_CHECK(status == HD_SYNTAX || status == HD_GRAMMAR || status == HD_PARAMS);
    FUZZ_CHECK(refusal->blocked_by == expected);
    FUZZ_CHECK(refusal->line >= 1 && refusal->column >= 1);
    FUZZ_CHECK(refusal->line <= text.size + 1 && refusal->column <= text.size + 1);
    FUZZ_CHECK(refusal->detail.size > 0 && hd_text_is_utf8(refusal->detail));
    FUZZ_CHECK(refusal->hint.data == NULL || hd_text_is_utf8(refusal->hint));
    FUZZ_CHECK((refusal->allowed_key == NULL) == (refusal->allowed == NULL));
}

static void check_node(hd_expr *expr, void *context) {
    const co_query *query = context;
    FUZZ_CHECK((size_t)expr->offset + expr->size <= query->text.size);
    switch (expr->kind) {
    case HD_EXPR_PARAM: FUZZ_CHECK(expr->index < query->param_count); break;
    case HD_EXPR_COS: FUZZ_CHECK(expr->index2 < query->var_count); /* fall through */
    case HD_EXPR_VAR:
    case HD_EXPR_PROPERTY: FUZZ_CHECK(expr->index < query->var_count); break;
    case HD_EXPR_AGGREGATE: FUZZ_CHECK(expr->index < query->aggregate_count); break;
    default: break;
    }
}

static void check_expr(const co_query *query, hd_expr *expr) {
    if (expr != NULL) hd_expr_visit(expr, check_node, (void *)(uintptr_t)query);
}

/* The walk goes over every relation once and never begins where it has not been. */
static void check_walk(const co_query *query) {
    FUZZ_CHECK(query->var_count >= 1 && query->rel_count <= CO_RELATIONS_MAX);
    bool is_bound[CO_VARIABLES_MAX + 4 * CO_RELATIONS_MAX + 4] = {true}, is_walked[CO_RELATIONS_MAX] = {false};
    FUZZ_CHECK(query->var_count <= HD_COUNT_OF(is_bound));
    for (uint32_t i = 0; i < query->rel_count; i++) {
        const co_walk_step *step = &query->walk[i];
        FUZZ_CHECK(step->rel < query->rel_count && !is_walked[step->rel]);
        FUZZ_CHECK(step->from < query->var_count && step->to < query->var_count);
        FUZZ_CHECK(is_bound[step->from] && is_bound[step->to] == step->is_filter);
        is_bound[step->to] = is_walked[step->rel] = true;
    }
    for (uint32_t i = 0; i < query->var_count; i++) {
        const co_var *var = &query->vars[i];
        FUZZ_CHECK(var->offset <= query->text.size);
        if (var->is_relation)
            FUZZ_CHECK(var->rel < query->rel_count && query->rels[var->rel].var == i && var->relation != HD_REL_NONE);
        else
            FUZZ_CHECK(var->label != HD_LABEL_NONE && is_bound[i]);
    }
}

static void check_query(const co_query *query) {
    check_walk(query);
    for (uint32_t i = 0; i < query->rel_count; i++) {
        const co_rel *rel = &query->rels[i];
        FUZZ_CHECK((size_t)rel->offset + rel->size <= query->text.size);
        FUZZ_CHECK(rel->hops_min >= 1 && rel->hops_min <= rel->hops_max && rel->hops_max <= CO_HOPS_MAX);
        hd_expr *params[] = {rel->min, rel->max, rel->min_w, rel->k, rel->exact, rel->source, rel->kind, rel->resolved_relation};
        for (size_t p = 0; p < HD_COUNT_OF(params); p++) check_expr(query, params[p]);
    }
    const co_start *s = &query->start;
    hd_expr *arguments[] = {s->text, s->vector,  s->k,     s->ids,   s->entity, s->entity_all,
                            s->tag,  s->tag_all, s->since, s->until, s->exact};
    for (size_t i = 0; i < HD_COUNT_OF(arguments); i++) check_expr(query, arguments[i]);
    for (uint32_t i = 0; i < query->where_count; i++) check_expr(query, query->where[i]);
    FUZZ_CHECK(query->item_count > 0);
    for (uint32_t i = 0; i < query->item_count; i++) {
        check_expr(query, query->items[i].expr);
        FUZZ_CHECK(query->items[i].column.size > 0 && hd_text_is_utf8(query->items[i].column));
    }
    for (uint32_t i = 0; i < query->order_count; i++) {
        check_expr(query, query->orders[i].expr);
        FUZZ_CHECK(query->orders[i].item >= -1 && query->orders[i].item < (int32_t)query->item_count);
    }
    for (uint32_t i = 0; i < query->aggregate_count; i++) FUZZ_CHECK(query->aggregates[i]->kind == HD_EXPR_AGGREGATE);
    check_expr(query, query->limit);
    for (uint32_t i = 0; i < query->note_count; i++) FUZZ_CHECK(hd_text_is_utf8(query->notes[i]));
}

static void print_plan(hd_arena *arena, const co_query *query, bool are_rules_on, hd_buf *text_out) {
    const co_plan *plan = NULL;
    FUZZ_CHECK(co_plan_build(arena, query, are_rules_on, &plan) == HD_OK);
    FUZZ_CHECK(plan->step_count >= 3 && plan->steps[0].op == CO_OP_START);
    FUZZ_CHECK(plan->steps[plan->step_count - 1].op == CO_OP_RETURN);
    for (uint32_t i = 0; i < plan->step_count; i++) FUZZ_CHECK(plan->steps[i].number == i + 1);
    co_plan_print(plan, text_out);
    FUZZ_CHECK(text_out->size > 0 && hd_text_is_utf8(hd_buf_get(text_out)));
}

/* The same text between `before` and `after`. */
static hd_status bind_between(hd_arena *arena, const char *before, hd_str text, const char *after, const co_query **query_out) {
    hd_buf longer = {0};
    hd_buf_printf(&longer, "%s", before);
    hd_buf_add_str(&longer, text);
    hd_buf_printf(&longer, "%s", after);
    co_refusal refusal = {0};
    hd_status status = HD_MEMORY;
    if (longer.size <= CO_QUERY_BYTES_MAX) {
        hd_str copy = fuzz_copy(longer.data, longer.size);
        status = co_language_bind(arena, copy, query_out, &refusal);
        if (status != HD_OK) check_refusal(status, copy, &refusal);
        hd_free((void *)(uintptr_t)copy.data);
    }
    hd_buf_fini(&longer);
    return status; /* HD_MEMORY: not tried */
}

static void check_understood_whole(hd_arena *arena, const co_query *query, hd_str text, const hd_buf *plan) {
    const co_query *again = NULL;
    FUZZ_CHECK(bind_between(arena, "", text, "\n)", &again) != HD_OK);
    if (query->is_explain) return;
    hd_status status = bind_between(arena, "EXPLAIN ", text, "", &again);
    if (status == HD_MEMORY) return;
    FUZZ_CHECK(status == HD_OK && again->is_explain);
    hd_buf explained = {0};
    print_plan(arena, again, true, &explained);
    FUZZ_CHECK(hd_str_is_equal(hd_buf_get(&explained), hd_buf_get(plan)));
    hd_buf_fini(&explained);
}

/* As query_memory_graph takes them from a call. */
static json_t *read_params(hd_arena *arena, hd_str bytes, co_params *params_out) {
    *params_out = (co_params){0};
    json_t *object = json_loadb(bytes.data, bytes.size, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object)) return object;
    size_t count = json_object_size(object);
    hd_str *names = hd_arena_alloc(arena, (count + 1) * sizeof(*names)),
           *faults = hd_arena_alloc(arena, (count + 1) * sizeof(*faults));
    hd_value *values = hd_arena_alloc(arena, (count + 1) * sizeof(*values));
    FUZZ_CHECK(names != NULL && values != NULL && faults != NULL);
    *params_out = (co_params){.names = names, .values = values, .json_bytes = bytes.size, .faults = faults};
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value) {
        uint32_t i = params_out->count++;
        names[i] = hd_str_of(key);
        hd_error problem = {0};
        faults[i] = (hd_str){0};
        hd_status status = co_json_to_value(arena, value, CO_NESTING_MAX, &values[i], &problem);
        FUZZ_CHECK(status == HD_OK || status == HD_PARAMS);
        if (status == HD_PARAMS) FUZZ_CHECK(hd_arena_dup(arena, hd_str_of(problem.message), &faults[i]) == HD_OK);
    }
    return object;
}

static void check_resolved(hd_arena *arena, const co_query *query, hd_str text, const co_params *params) {
    co_resolved resolved;
    co_refusal refusal = {0};
    hd_status status = co_language_resolve(arena, query, params, &resolved, &refusal);
    if (status != HD_OK) {
        FUZZ_CHECK(status == HD_PARAMS);
        check_refusal(status, text, &refusal);
        return;
    }
    FUZZ_CHECK(resolved.limit >= 1 && resolved.limit <= CO_LIMIT_MAX);
    FUZZ_CHECK(resolved.start_kind <= CO_START_SCOPED);
    for (uint32_t i = 0; i < resolved.note_count; i++) FUZZ_CHECK(hd_text_is_utf8(resolved.notes[i]));
    for (uint32_t i = 0; i < resolved.entity_count; i++) FUZZ_CHECK(resolved.entities[i].size > 0);
    for (uint32_t i = 0; i < resolved.tag_count; i++) FUZZ_CHECK(resolved.tags[i].size > 0);
    for (uint32_t i = 0; i < query->rel_count; i++) {
        const co_resolved_rel *rel = &resolved.rels[i];
        FUZZ_CHECK(rel->sources != 0 && rel->kinds != 0 && rel->min >= 1 && rel->min_w >= 0);
    }
}

static void run(hd_arena *arena, hd_str text, hd_str params_bytes) {
    const co_query *query = NULL;
    co_refusal refusal = {0};
    hd_str copy = fuzz_copy(text.data, text.size);
    hd_status status = co_language_bind(arena, copy, &query, &refusal);
    hd_free((void *)(uintptr_t)copy.data); /* the query keeps a copy of its own */
    if (status != HD_OK) {
        check_refusal(status, text, &refusal);
        return;
    }
    check_query(query);
    hd_buf plan = {0}, plain = {0};
    print_plan(arena, query, true, &plan);
    print_plan(arena, query, false, &plain);
    check_understood_whole(arena, query, text, &plan);
    hd_buf_fini(&plan);
    hd_buf_fini(&plain);
    co_params params;
    json_t *held = read_params(arena, params_bytes, &params);
    check_resolved(arena, query, text, &params);
    json_decref(held);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    size_t end = size;
    while (end > 0 && data[end - 1] != '\0') end--;
    size_t text_size = end > 0 ? end - 1 : size;
    hd_str text = fuzz_copy(data, text_size), params = fuzz_copy(data + (end > 0 ? end : size), end > 0 ? size - end : 0);
    hd_arena *arena = hd_arena_new(0);
    run(arena, text, params);
    hd_arena_free(arena);
    hd_free((void *)(uintptr_t)text.data);
    hd_free((void *)(uintptr_t)params.data);
    return 0;
}
