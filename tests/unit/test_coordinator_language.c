/* The language: golden refusals and bindings (tests/golden/refusals.txt), and what does not fit on a line of text there.
 *
 * The golden file is cases of `query>` (further lines `>`), any number of `param> name = value` (a value in the query language), and
 * the answer, which this test compares. HEDDLE_GOLDEN_WRITE=1 rewrites the answers: read the difference before you keep it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/buf.h"
#include "common/text.h"
#include "coordinator/language/language.h"

#define GOLDEN HD_SOURCE_DIR "/tests/golden/refusals.txt"

/* ---- answers as text ---- */

static void write_refusal(hd_buf *out, const co_refusal *refusal) {
    static const char *const names[] = {"", "syntax", "grammar", "params"};
    hd_buf_printf(out, "answer> %s %u:%u\n", names[refusal->blocked_by], refusal->line, refusal->column);
    hd_buf_printf(out, "detail> " HD_STR_FMT "\n", HD_STR_ARG(refusal->detail));
    assert_true(refusal->hint.size > 0); /* every refusal says what would mend it */
    hd_buf_printf(out, "hint> " HD_STR_FMT "\n", HD_STR_ARG(refusal->hint));
    if (!refusal->allowed_key) return;
    hd_buf_printf(out, "%s>", refusal->allowed_key);
    for (size_t i = 0; refusal->allowed[i]; i++) hd_buf_printf(out, "%s %s", i ? "," : "", refusal->allowed[i]);
    hd_buf_add_char(out, '\n');
}

static void write_var(hd_buf *out, const co_query *query, uint32_t index) {
    const co_var *var = &query->vars[index];
    if (var->name.data)
        hd_buf_add_str(out, var->name);
    else
        hd_buf_printf(out, "#%u", index);
    hd_buf_printf(out, ":%s", var->is_relation ? hd_relation_name(var->relation) : hd_label_name(var->label));
}

static void write_expr(hd_buf *out, const co_query *query, const hd_expr *expr);

static void write_value(hd_buf *out, const hd_value *value) {
    switch (value->type) {
    case HD_TYPE_NULL: hd_buf_printf(out, "null"); return;
    case HD_TYPE_BOOL: hd_buf_printf(out, value->boolean ? "true" : "false"); return;
    case HD_TYPE_INT: hd_buf_printf(out, "%lld", (long long)value->integer); return;
    case HD_TYPE_FLOAT: hd_buf_printf(out, "%g", value->number); return;
    case HD_TYPE_STRING: hd_buf_printf(out, "'" HD_STR_FMT "'", HD_STR_ARG(value->text)); return;
    default: break;
    }
    assert_int_equal(value->type, HD_TYPE_LIST);
    hd_buf_add_char(out, '[');
    for (uint32_t i = 0; i < value->list.count; i++) {
        if (i) hd_buf_add_char(out, ' ');
        write_value(out, &value->list.items[i]);
    }
    hd_buf_add_char(out, ']');
}

static void write_leaf(hd_buf *out, const co_query *query, const hd_expr *expr) {
    switch (expr->kind) {
    case HD_EXPR_LITERAL: write_value(out, &expr->literal); return;
    case HD_EXPR_PARAM: hd_buf_printf(out, "$" HD_STR_FMT, HD_STR_ARG(query->params[expr->index])); return;
    case HD_EXPR_COS:
        hd_buf_printf(out, "cos(");
        write_var(out, query, expr->index);
        hd_buf_add_char(out, ' ');
        write_var(out, query, expr->index2);
        hd_buf_add_char(out, ')');
        return;
    default: break;
    }
    write_var(out, query, expr->index);
    if (expr->kind == HD_EXPR_PROPERTY) hd_buf_printf(out, ".%s", hd_property_name(expr->property));
}

static void write_expr(hd_buf *out, const co_query *query, const hd_expr *expr) {
    static const char *const names[] = {[HD_EXPR_LIST] = "list",     [HD_EXPR_NOT] = "not",
                                        [HD_EXPR_AND] = "and",       [HD_EXPR_OR] = "or",
                                        [HD_EXPR_EQ] = "=",          [HD_EXPR_NE] = "<>",
                                        [HD_EXPR_LT] = "<",          [HD_EXPR_LE] = "<=",
                                        [HD_EXPR_GT] = ">",          [HD_EXPR_GE] = ">=",
                                        [HD_EXPR_IN] = "in",         [HD_EXPR_CONTAINS] = "contains",
                                        [HD_EXPR_IS_NULL] = "null?", [HD_EXPR_IS_NOT_NULL] = "some?",
                                        [HD_EXPR_AGGREGATE] = "agg"};
    static const char *const aggregates[] = {[HD_AGG_COUNT] = "count", [HD_AGG_MIN] = "min", [HD_AGG_MAX] = "max",
                                             [HD_AGG_SUM] = "sum",     [HD_AGG_AVG] = "avg", [HD_AGG_COLLECT] = "collect"};
    if (!names[expr->kind]) {
        write_leaf(out, query, expr);
        return;
    }
    hd_buf_printf(out, "(%s", expr->kind == HD_EXPR_AGGREGATE ? aggregates[expr->aggregate] : names[expr->kind]);
    if (expr->kind == HD_EXPR_AGGREGATE) hd_buf_printf(out, "#%u%s", expr->index, expr->is_distinct ? " distinct" : "");
    for (uint32_t i = 0; i < expr->arg_count; i++) {
        hd_buf_add_char(out, ' ');
        write_expr(out, query, expr->args[i]);
    }
    hd_buf_add_char(out, ')');
}

static void write_walk(hd_buf *out, const co_query *query) {
    static const char *const arrows[] = {[CO_ARROW_NONE] = "--", [CO_ARROW_RIGHT] = "->", [CO_ARROW_LEFT] = "<-"};
    for (uint32_t i = 0; i < query->rel_count; i++) {
        const co_walk_step *step = &query->walk[i];
        const co_rel *rel = &query->rels[step->rel];
        hd_buf_printf(out, "walk> ");
        write_var(out, query, step->from);
        hd_buf_printf(out, " to ");
        write_var(out, query, step->to);
        hd_buf_printf(out, "%s by ", step->is_filter ? " (filter)" : "");
        write_var(out, query, rel->var);
        hd_buf_printf(out, " %s", arrows[rel->arrow]);
        if (rel->is_variable_length) hd_buf_printf(out, " *%u..%u", rel->hops_min, rel->hops_max);
        hd_buf_printf(out, " clause %u\n", rel->clause);
    }
}

static void write_query(hd_buf *out, const co_query *query) {
    hd_buf_printf(out, "vars>");
    for (uint32_t i = 0; i < query->var_count; i++) {
        hd_buf_add_char(out, ' ');
        write_var(out, query, i);
    }
    hd_buf_add_char(out, '\n');
    write_walk(out, query);
    for (uint32_t i = 0; i < query->where_count; i++) {
        hd_buf_printf(out, "where> ");
        write_expr(out, query, query->where[i]);
        hd_buf_add_char(out, '\n');
    }
    for (uint32_t i = 0; i < query->item_count; i++) {
        hd_buf_printf(out, "column> " HD_STR_FMT " = ", HD_STR_ARG(query->items[i].column));
        write_expr(out, query, query->items[i].expr);
        hd_buf_printf(out, "%s\n", query->items[i].has_aggregate ? " (aggregate)" : "");
    }
    for (uint32_t i = 0; i < query->order_count; i++) {
        hd_buf_printf(out, "order> ");
        write_expr(out, query, query->orders[i].expr);
        hd_buf_printf(out, " item %d%s\n", query->orders[i].item, query->orders[i].is_descending ? " descending" : "");
    }
    for (uint32_t i = 0; i < query->note_count; i++) hd_buf_printf(out, "note> " HD_STR_FMT "\n", HD_STR_ARG(query->notes[i]));
}

static void write_names(hd_buf *out, const char *key, const hd_str *names, uint32_t count, bool is_all) {
    if (!names) return;
    hd_buf_printf(out, " %s%s[", key, is_all ? "_all" : "");
    for (uint32_t i = 0; i < count; i++) hd_buf_printf(out, "%s" HD_STR_FMT, i ? "|" : "", HD_STR_ARG(names[i]));
    hd_buf_add_char(out, ']');
}

static void write_resolved(hd_buf *out, const co_query *query, const co_resolved *resolved) {
    static const char *const kinds[] = {"ids", "text", "vector", "entity", "tag", "entity_tag", "newest", "scoped"};
    hd_buf_printf(out, "start> %s k %u", kinds[resolved->start_kind], resolved->k);
    if (resolved->start_text.data) hd_buf_printf(out, " text '" HD_STR_FMT "'", HD_STR_ARG(resolved->start_text));
    if (resolved->start_vector) hd_buf_printf(out, " vector of %u", resolved->start_vector_size);
    write_names(out, "ids", resolved->ids, resolved->id_count, false);
    write_names(out, "entity", resolved->entities, resolved->entity_count, resolved->is_entity_all);
    write_names(out, "tag", resolved->tags, resolved->tag_count, resolved->is_tag_all);
    if (resolved->has_since) hd_buf_printf(out, " since %lld", (long long)resolved->since_us);
    if (resolved->has_until) hd_buf_printf(out, " until %lld", (long long)resolved->until_us);
    if (resolved->is_exact) hd_buf_printf(out, " exact");
    hd_buf_printf(out, " limit %u%s\n", resolved->limit, resolved->is_limit_default ? " (default)" : "");
    for (uint32_t i = 0; i < query->rel_count; i++) {
        const co_resolved_rel *rel = &resolved->rels[i];
        hd_buf_printf(out, "rel> %s min %u min_w %g max %g sources %u kinds %u\n", hd_relation_name(query->rels[i].relation),
                      rel->min, rel->min_w, rel->far_max, rel->sources, rel->kinds);
    }
    for (uint32_t i = 0; i < resolved->note_count; i++)
        hd_buf_printf(out, "note> " HD_STR_FMT "\n", HD_STR_ARG(resolved->notes[i]));
}

/* ---- one case ---- */

typedef struct golden_case {
    hd_buf query;
    hd_str names[16];
    hd_value values[16];
    co_params params;
} golden_case;

static void answer_case(hd_arena *arena, const golden_case *one, hd_buf *out) {
    const co_query *query;
    co_resolved resolved;
    co_refusal refusal;
    hd_status status = co_language_bind(arena, hd_buf_get(&one->query), &query, &refusal);
    if (status != HD_OK) {
        assert_true(status == HD_SYNTAX || status == HD_GRAMMAR);
        assert_int_equal(refusal.blocked_by, status == HD_SYNTAX ? CO_BLOCKED_SYNTAX : CO_BLOCKED_GRAMMAR);
        write_refusal(out, &refusal);
        return;
    }
    status = co_language_resolve(arena, query, &one->params, &resolved, &refusal);
    if (status != HD_OK) {
        assert_int_equal(status, HD_PARAMS);
        write_refusal(out, &refusal);
        return;
    }
    hd_buf_printf(out, "answer> ok\n");
    write_query(out, query);
    write_resolved(out, query, &resolved);
}

/* A value written in the query language itself. */
static hd_value read_value(hd_arena *arena, hd_str text) {
    hd_str whole;
    const co_query *query;
    co_refusal refusal;
    assert_int_equal(hd_arena_printf(arena, &whole, "START a = events(k: 1) RETURN " HD_STR_FMT " AS x", HD_STR_ARG(text)), HD_OK);
    assert_int_equal(co_language_bind(arena, whole, &query, &refusal), HD_OK);
    assert_int_equal(query->items[0].expr->kind, HD_EXPR_LITERAL);
    return query->items[0].expr->literal;
}

static void read_param(hd_arena *arena, golden_case *one, hd_str line) {
    const char *equals = memchr(line.data, '=', line.size);
    assert_non_null(equals);
    uint32_t i = one->params.count++;
    assert_true(i < HD_COUNT_OF(one->names));
    one->names[i] = hd_text_trim((hd_str){line.data, (size_t)(equals - line.data)});
    one->values[i] = read_value(arena, (hd_str){equals + 1, line.size - (size_t)(equals + 1 - line.data)});
}

static bool skip_prefix(hd_str *line, const char *prefix) {
    size_t size = strlen(prefix);
    if (line->size < size || memcmp(line->data, prefix, size) != 0) return false;
    *line = (hd_str){line->data + size, line->size - size};
    return true;
}

/* ---- the golden file ---- */

typedef struct golden_run {
    hd_arena *arena;
    golden_case one;
    hd_buf fresh;    /* the file as it would be written now */
    hd_buf expected; /* answer lines of the current case, as they stand in the file */
    uint32_t case_count, wrong_count;
    bool has_case;
} golden_run;

static void finish_case(golden_run *run) {
    if (!run->has_case) return;
    hd_buf answer = {0};
    run->one.params.names = run->one.names;
    run->one.params.values = run->one.values;
    answer_case(run->arena, &run->one, &answer);
    hd_buf_add_str(&run->fresh, hd_buf_get(&answer));
    if (!hd_str_is_equal(hd_buf_get(&answer), hd_buf_get(&run->expected))) {
        run->wrong_count++;
        print_error("query> " HD_STR_FMT "\nexpected:\n" HD_STR_FMT "got:\n" HD_STR_FMT "\n",
                    HD_STR_ARG(hd_buf_get(&run->one.query)), HD_STR_ARG(hd_buf_get(&run->expected)),
                    HD_STR_ARG(hd_buf_get(&answer)));
    }
    hd_buf_fini(&answer);
    hd_buf_fini(&run->one.query);
    hd_buf_clear(&run->expected);
    run->one = (golden_case){0};
    run->has_case = false;
    run->case_count++;
    hd_arena_reset(run->arena);
}

static void read_line(golden_run *run, hd_str line) {
    hd_str rest = line;
    if (line.size == 0 || line.data[0] == '#') { /* ends a case */
        finish_case(run);
    } else if (skip_prefix(&rest, "query> ")) {
        finish_case(run);
        run->has_case = true;
        hd_buf_add_str(&run->one.query, rest);
    } else if (skip_prefix(&rest, "> ")) {
        hd_buf_add_char(&run->one.query, '\n');
        hd_buf_add_str(&run->one.query, rest);
    } else if (skip_prefix(&rest, "param> ")) {
        read_param(run->arena, &run->one, rest);
    } else {
        hd_buf_printf(&run->expected, HD_STR_FMT "\n", HD_STR_ARG(line));
        return;
    }
    hd_buf_printf(&run->fresh, HD_STR_FMT "\n", HD_STR_ARG(line));
}

static char *read_file(const char *path, size_t *size_out) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    hd_buf buf = {0};
    size_t size;
    while ((size = fread(hd_buf_reserve(&buf, 4096), 1, 4096, file)) > 0) buf.size += size;
    fclose(file);
    *size_out = buf.size;
    return buf.data;
}

static void golden_file(void **state) {
    size_t size;
    char *text = read_file(GOLDEN, &size);
    golden_run run = {.arena = hd_arena_new(0)};
    for (const char *at = text, *end = text + size; at < end;) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        assert_non_null(line_end);
        read_line(&run, (hd_str){at, (size_t)(line_end - at)});
        at = line_end + 1;
    }
    finish_case(&run);
    if (getenv("HEDDLE_GOLDEN_WRITE")) {
        FILE *file = fopen(GOLDEN, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(run.fresh.data, 1, run.fresh.size, file), run.fresh.size);
        assert_int_equal(fclose(file), 0);
        run.wrong_count = 0;
    }
    print_message("%u golden cases\n", run.case_count);
    assert_int_equal(run.wrong_count, 0);
    assert_true(run.case_count >= 150);
    hd_buf_fini(&run.fresh);
    hd_buf_fini(&run.expected);
    hd_arena_free(run.arena);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
