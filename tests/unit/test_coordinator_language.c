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
#include "tests/support/seed.h"

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

/* ---- limits ---- */

/* Binds; on a refusal checks what must always hold of one. */
static hd_status bind(hd_arena *arena, hd_str text, const co_query **query_out, co_refusal *refusal_out) {
    hd_status status = co_language_bind(arena, text, query_out, refusal_out);
    if (status == HD_OK || status == HD_MEMORY) return status;
    assert_true(status == HD_SYNTAX || status == HD_GRAMMAR);
    assert_int_equal(refusal_out->blocked_by, status == HD_SYNTAX ? CO_BLOCKED_SYNTAX : CO_BLOCKED_GRAMMAR);
    assert_true(refusal_out->line >= 1 && refusal_out->column >= 1);
    assert_true(refusal_out->detail.size > 0 && hd_text_is_utf8(refusal_out->detail));
    assert_true(!refusal_out->hint.data || (refusal_out->hint.size > 0 && hd_text_is_utf8(refusal_out->hint)));
    assert_int_equal(refusal_out->allowed_key != NULL, refusal_out->allowed != NULL);
    return status;
}

static void assert_refused(hd_str text, hd_status expected, uint32_t line, uint32_t column, const char *piece) {
    hd_arena *arena = hd_arena_new(0);
    const co_query *query;
    co_refusal refusal;
    assert_int_equal(bind(arena, text, &query, &refusal), expected);
    assert_null(query);
    assert_int_equal(refusal.line, line);
    assert_int_equal(refusal.column, column);
    if (!hd_text_contains(refusal.detail, hd_str_of(piece))) fail_msg(HD_STR_FMT, HD_STR_ARG(refusal.detail));
    hd_arena_free(arena);
}

static void assert_accepted(hd_str text) {
    hd_arena *arena = hd_arena_new(0);
    const co_query *query;
    co_refusal refusal;
    hd_status status = bind(arena, text, &query, &refusal);
    if (status != HD_OK) fail_msg(HD_STR_FMT ": " HD_STR_FMT, HD_STR_ARG(text), HD_STR_ARG(refusal.detail));
    hd_arena_free(arena);
}

static void repeat(hd_buf *out, const char *text, size_t count) {
    for (size_t i = 0; i < count; i++) hd_buf_add_str(out, hd_str_of(text));
}

static void text_that_is_no_text(void **state) {
    assert_refused((hd_str){NULL, 0}, HD_SYNTAX, 1, 1, "START");
    assert_refused(HD_STR("START a = events(text: 'é\xFF') RETURN a"), HD_SYNTAX, 1, 26, "UTF-8");
    assert_refused(HD_STR("\xC3"), HD_SYNTAX, 1, 1, "UTF-8");
    assert_refused(HD_STR("START a\n= \xED\xA0\x80"), HD_SYNTAX, 2, 3, "UTF-8"); /* a surrogate in UTF-8 */
    assert_refused(HD_STR("START a = events(text: 'x\0y') RETURN a"), HD_SYNTAX, 1, 26, "NUL");
    assert_refused(HD_STR("START a = events(k: 1) RETURN a \x01"), HD_SYNTAX, 1, 33, "U+0001");
}

static void text_as_long_as_it_may_be(void **state) {
    hd_buf text = {0};
    hd_buf_printf(&text, "START a = events(k: 1) RETURN a");
    repeat(&text, " ", CO_QUERY_BYTES_MAX - text.size);
    assert_accepted(hd_buf_get(&text));
    hd_buf_add_char(&text, ' ');
    assert_refused(hd_buf_get(&text), HD_GRAMMAR, 1, CO_QUERY_BYTES_MAX + 1, "8192");
    hd_buf_fini(&text);
}

static void bottomless_text(void **state) {
    static const char *const pieces[] = {"(", "NOT ", "[", "a = ", "count(", "-", "1, ", "x OR ", "/*", "'", "`", "{"};
    for (size_t i = 0; i < HD_COUNT_OF(pieces); i++) {
        for (size_t count = 100000; count > 0; count = count == 100000 ? 7000 / strlen(pieces[i]) : 0) {
            hd_arena *arena = hd_arena_new(0);
            hd_buf text = {0};
            const co_query *query;
            co_refusal refusal;
            hd_buf_printf(&text, "START a = events(k: 1) RETURN ");
            repeat(&text, pieces[i], count);
            assert_int_not_equal(bind(arena, hd_buf_get(&text), &query, &refusal), HD_OK);
            assert_true(hd_arena_bytes_used(arena) < 8u << 20);
            hd_buf_fini(&text);
            hd_arena_free(arena);
        }
    }
}

static void nesting(void **state) {
    static const struct {
        const char *open, *core, *close;
    } rows[] = {{"(", "true", ")"}, {"NOT ", "true", ""}, {"NOT (", "true", ")"}, {"[", "", "]"}};
    for (size_t i = 0; i < HD_COUNT_OF(rows); i++) {
        uint32_t per = rows[i].open[0] == 'N' && rows[i].open[4] == '(' ? 2 : 1;
        for (uint32_t levels = CO_NESTING_MAX / per; levels <= CO_NESTING_MAX / per + 1; levels++) {
            hd_arena *arena = hd_arena_new(0);
            hd_buf text = {0};
            const co_query *query;
            co_refusal refusal;
            hd_buf_printf(&text, "START a = events(k: 1) RETURN ");
            repeat(&text, rows[i].open, levels);
            hd_buf_printf(&text, "%s", rows[i].core);
            repeat(&text, rows[i].close, levels);
            hd_buf_printf(&text, " AS x");
            hd_status status = bind(arena, hd_buf_get(&text), &query, &refusal);
            bool is_deep = status == HD_GRAMMAR && hd_text_contains(refusal.detail, HD_STR("nest deeper than the limit of 32"));
            assert_int_equal(is_deep, levels > CO_NESTING_MAX / per);
            hd_buf_fini(&text);
            hd_arena_free(arena);
        }
    }
}

static void flat_chains(void **state) {
    static const char *const words[] = {" OR ", " AND "};
    for (int i = 0; i < 2; i++) {
        hd_arena *arena = hd_arena_new(0);
        hd_buf text = {0};
        const co_query *query;
        co_refusal refusal;
        hd_buf_printf(&text, "START a = events(k: 1) WHERE a.id = 'x'");
        uint32_t count = 1;
        for (; text.size < CO_QUERY_BYTES_MAX - 40; count++) hd_buf_printf(&text, "%sa.id = 'x'", words[i]);
        hd_buf_printf(&text, " RETURN a");
        assert_int_equal(bind(arena, hd_buf_get(&text), &query, &refusal), HD_OK);
        assert_int_equal(query->where_count, i == 0 ? 1 : count);
        if (i == 0) assert_int_equal(query->where[0]->arg_count, count);
        hd_buf_fini(&text);
        hd_arena_free(arena);
    }
}

/* The middle of a chained comparison is shared by its halves: nested, that doubles with every level. */
static void chains_within_chains(void **state) {
    const uint32_t levels_accepted = 11; /* 2¹¹ times the innermost half is within the limit, 2¹² is not */
    for (uint32_t levels = 1; levels <= 30; levels++) {
        hd_arena *arena = hd_arena_new(0);
        hd_buf text = {0};
        const co_query *query;
        co_refusal refusal;
        hd_buf_printf(&text, "START a = events(k: 1) WHERE ");
        repeat(&text, "true = (", levels);
        hd_buf_printf(&text, "true");
        repeat(&text, ") = true", levels);
        hd_buf_printf(&text, " RETURN a");
        hd_status status = bind(arena, hd_buf_get(&text), &query, &refusal);
        assert_int_equal(status, levels <= levels_accepted ? HD_OK : HD_GRAMMAR);
        hd_buf_fini(&text);
        hd_arena_free(arena);
    }
}

static void memory_that_runs_out(void **state) {
    static const char text[] =
        "START a = events(entity: ['x', $p], text: $q) MATCH (a)-[r:SHARES {min: 2}]-(b {thread: 't'}), (a)-[:MEMBER_OF]-(t) "
        "WHERE NOT b.id IN ['x', 'y'] AND cos(a, b) < 0.5 RETURN DISTINCT a.id AS x, count(*) AS n, collect(r.via) ORDER BY n DESC "
        "LIMIT $n";
    const hd_str names[] = {HD_STR("p"), HD_STR("q"), HD_STR("n")};
    const hd_value values[] = {hd_value_text(HD_STR("y")), hd_value_text(HD_STR("z")), hd_value_int(3)};
    const co_params params = {.names = names, .values = values, .count = 3, .json_bytes = 50};
    bool is_enough = false;
    for (size_t bytes = 64; !is_enough; bytes += 256) {
        hd_arena *arena = hd_arena_new(bytes);
        const co_query *query;
        co_refusal refusal;
        co_resolved resolved;
        hd_status status = bind(arena, hd_str_of(text), &query, &refusal);
        if (status == HD_OK) status = co_language_resolve(arena, query, &params, &resolved, &refusal);
        assert_true(status == HD_OK || status == HD_MEMORY);
        is_enough = status == HD_OK;
        hd_arena_free(arena);
        assert_true(bytes < 1u << 20);
    }
}

/* ---- parameters ---- */

static hd_status resolve_one(hd_arena *arena, const char *text, const char *name, hd_value value, size_t json_bytes,
                             co_resolved *resolved_out, co_refusal *refusal_out) {
    const co_query *query;
    hd_str names[] = {hd_str_of(name)};
    co_params params = {.names = names, .values = &value, .count = 1, .json_bytes = json_bytes};
    assert_int_equal(bind(arena, hd_str_of(text), &query, refusal_out), HD_OK);
    return co_language_resolve(arena, query, &params, resolved_out, refusal_out);
}

static void lists_in_parameters(void **state) {
    static const char ids[] = "START a = events(ids: $v) RETURN a", vector[] = "START a = events(vector: $v) RETURN a";
    hd_arena *arena = hd_arena_new(0);
    co_resolved resolved;
    co_refusal refusal;
    static hd_value texts[201], numbers[4097];
    for (size_t i = 0; i < HD_COUNT_OF(texts); i++) texts[i] = hd_value_text(HD_STR("x"));
    for (size_t i = 0; i < HD_COUNT_OF(numbers); i++) numbers[i] = hd_value_float(0.5);
    hd_value list = {.type = HD_TYPE_LIST, .list = {texts, 200}};
    assert_int_equal(resolve_one(arena, ids, "v", list, 0, &resolved, &refusal), HD_OK);
    assert_int_equal(resolved.id_count, 1);
    list.list.count = 201;
    assert_int_equal(resolve_one(arena, ids, "v", list, 0, &resolved, &refusal), HD_PARAMS);
    assert_true(hd_text_contains(refusal.detail, HD_STR("limit of 200")));
    assert_int_equal(refusal.column, 23);
    list = (hd_value){.type = HD_TYPE_LIST, .list = {numbers, 4096}};
    assert_int_equal(resolve_one(arena, vector, "v", list, 0, &resolved, &refusal), HD_OK);
    assert_int_equal(resolved.start_vector_size, 4096);
    assert_true(resolved.start_vector[4095] == 0.5f);
    list.list.count = 4097;
    assert_int_equal(resolve_one(arena, vector, "v", list, 0, &resolved, &refusal), HD_PARAMS);
    hd_arena_free(arena);
}

static void size_of_parameters(void **state) {
    hd_arena *arena = hd_arena_new(0);
    co_resolved resolved;
    co_refusal refusal;
    const char *text = "START a = events(text: $q) RETURN a";
    assert_int_equal(resolve_one(arena, text, "q", hd_value_text(HD_STR("x")), CO_PARAMS_BYTES_MAX, &resolved, &refusal), HD_OK);
    assert_int_equal(resolve_one(arena, text, "q", hd_value_text(HD_STR("x")), CO_PARAMS_BYTES_MAX + 1, &resolved, &refusal),
                     HD_PARAMS);
    assert_true(hd_text_contains(refusal.detail, HD_STR("262144")));
    hd_arena_free(arena);
}

/* What is no value of the language is told in its turn among the faults of parameters, and only where the query uses it. */
static void parameters_without_a_value(void **state) {
    static const struct {
        const char *text;
        uint32_t column; /* 0: accepted */
        const char *detail;
    } rows[] = {
        {"START a = events(k: 1) WHERE a.id = $bad RETURN a", 37, "cannot be used: it is a map"},
        {"START a = events(k: $low) WHERE a.id = $bad RETURN a", 21, "at least 1"},
        {"START a = events(k: 1) WHERE a.id = $bad RETURN a LIMIT $low", 37, "cannot be used"},
        {"START a = events(k: 1) WHERE a.id = $none AND a.id = $bad RETURN a", 37, "$none is missing"},
        {"START a = events(ids: $bad) WHERE a.order_index IN $bad RETURN a", 23, "cannot be used"},
        {"START a = events(k: 1) RETURN a", 0, NULL},
    };
    hd_arena *arena = hd_arena_new(0);
    hd_str names[] = {HD_STR("low"), HD_STR("bad")}, faults[] = {{NULL, 0}, HD_STR("it is a map")};
    hd_value values[] = {hd_value_int(0), HD_VALUE_NULL};
    co_params params = {.names = names, .values = values, .count = 2, .faults = faults};
    for (size_t i = 0; i < HD_COUNT_OF(rows); i++) {
        const co_query *query;
        co_resolved resolved;
        co_refusal refusal;
        assert_int_equal(bind(arena, hd_str_of(rows[i].text), &query, &refusal), HD_OK);
        hd_status status = co_language_resolve(arena, query, &params, &resolved, &refusal);
        assert_int_equal(status, rows[i].column > 0 ? HD_PARAMS : HD_OK);
        if (status == HD_OK) continue;
        assert_int_equal(refusal.column, rows[i].column);
        assert_true(hd_text_contains(refusal.detail, hd_str_of(rows[i].detail)));
    }
    hd_arena_free(arena);
}

static void names_are_normalised(void **state) {
    hd_arena *arena = hd_arena_new(0);
    co_resolved resolved;
    co_refusal refusal;
    /* e and a combining acute accent, between an ideographic space and a tab */
    hd_value name =
        hd_value_text(HD_STR("\xE3\x80\x80"
                             "e\xCC\x81\t"));
    assert_int_equal(resolve_one(arena, "START a = events(tag: ['\\u00e9', $t]) RETURN a", "t", name, 0, &resolved, &refusal),
                     HD_OK);
    assert_int_equal(resolved.tag_count, 1);
    assert_true(hd_str_is_equal(resolved.tags[0], HD_STR("\xC3\xA9")));
    hd_arena_free(arena);
}

/* ---- what a refusal offers works ---- */

static void allowed_lists_are_true(void **state) {
    static const char *const frames[] = {
        "START a = events(k: 1) RETURN a.%s",
        "START a = events(k: 1) MATCH (a)-[:NEXT]->(b) RETURN b.%s",
        "START a = events(k: 1) MATCH (a)-[:PARTICIPATED_IN]-(b) RETURN b.%s",
        "START a = events(k: 1) MATCH (a)-[:MEMBER_OF]->(b) RETURN b.%s",
        "START a = events(k: 1) MATCH (a)-[r:SHARES]-(b) RETURN r.%s",
        "START a = events(k: 1) MATCH (a)-[r:FAR]-(a) RETURN r.%s",
        "START a = events(k: 1) MATCH (a)-[r:NEXT]->(b) RETURN r.%s",
        "START a = events(k: 1) MATCH (a)-[r:MEMBER_OF]->(b) RETURN r.%s",
        "START a = events(%s: $p) RETURN a",
        "START a = events(k: 1) MATCH (a)-[:SHARES {%s: $p}]-(b) RETURN b",
        "START a = events(k: 1) MATCH (a)-[:FAR {%s: $p}]-(a) RETURN a",
        "START a = events(k: 1) MATCH (a)-[:NEXT {%s: $p}]->(b) RETURN b",
        "START a = events(k: 1) MATCH (a)-[:MEMBER_OF {%s: $p}]->(b) RETURN b",
        "START a = events(k: 1) MATCH (a)-[:NEXT {source: '%s'}]->(b) RETURN b",
        "START a = events(k: 1) MATCH (a)-[:MEMBER_OF {kind: '%s'}]->(b) RETURN b",
    };
    for (size_t i = 0; i < HD_COUNT_OF(frames); i++) {
        hd_arena *arena = hd_arena_new(0);
        hd_buf text = {0};
        const co_query *query;
        co_refusal refusal;
        const char *at = strstr(frames[i], "%s");
        hd_buf_printf(&text, "%.*szzz%s", (int)(at - frames[i]), frames[i], at + 2);
        assert_int_equal(bind(arena, hd_buf_get(&text), &query, &refusal), HD_GRAMMAR);
        assert_non_null(refusal.allowed);
        assert_non_null(refusal.allowed[0]);
        for (size_t k = 0; refusal.allowed[k]; k++) {
            if (strcmp(refusal.allowed[k], "exact") == 0) continue; /* needs text or vector beside it */
            hd_buf_clear(&text);
            hd_buf_printf(&text, "%.*s%s%s", (int)(at - frames[i]), frames[i], refusal.allowed[k], at + 2);
            assert_accepted(hd_buf_get(&text));
        }
        hd_buf_fini(&text);
        hd_arena_free(arena);
    }
}

/* ---- random expressions against how they were made ---- */

static uint64_t seed;

static void add_space(test_random *r, hd_buf *text) {
    static const char *const spaces[] = {" ", "  ", "\n", "\t ", " /* x */ ", " // y\n"};
    hd_buf_add_str(text, hd_str_of(spaces[test_random_below(r, HD_COUNT_OF(spaces))]));
}

/* A keyword in random case. */
static void add_word(test_random *r, hd_buf *text, const char *word) {
    add_space(r, text);
    for (; *word; word++)
        hd_buf_add_char(text, test_random_below(r, 2) && *word >= 'A' && *word <= 'Z' ? (char)(*word + 32) : *word);
    add_space(r, text);
}

/* A condition in `text` and what write_expr makes of its tree in `tree`. `tightness`: 0 OR, 1 AND, 2 NOT, 3 comparison, 4 atom. */
static void make_condition(test_random *r, uint32_t depth, uint32_t tightness, hd_buf *text, hd_buf *tree) {
    uint32_t kind = depth == 0 ? 3 + test_random_below(r, 2) : test_random_below(r, 5);
    bool has_brackets = kind < tightness || (kind == tightness && kind < 2) || test_random_below(r, 5) == 0;
    if (has_brackets) hd_buf_add_char(text, '(');
    if (kind < 2) {
        uint32_t count = 2 + test_random_below(r, 3);
        hd_buf_printf(tree, kind == 0 ? "(or" : "(and");
        for (uint32_t i = 0; i < count; i++) {
            if (i > 0) add_word(r, text, kind == 0 ? "OR" : "AND");
            hd_buf_add_char(tree, ' ');
            make_condition(r, depth - 1, kind, text, tree);
        }
        hd_buf_add_char(tree, ')');
    } else if (kind == 2) {
        add_word(r, text, "NOT");
        hd_buf_printf(tree, "(not ");
        make_condition(r, depth - 1, 2, text, tree);
        hd_buf_add_char(tree, ')');
    } else if (kind == 3) {
        static const char *const operators[] = {"=", "<>", "<", "<=", ">", ">="};
        const char *operator= operators[test_random_below(r, 6)];
        int64_t number = (int64_t)test_random_u64(r);
        hd_buf_printf(text, "a.order_index %s%lld", operator,(long long) number);
        hd_buf_printf(tree, "(%s a:Event.order_index %lld)", operator,(long long) number);
    } else if (test_random_below(r, 2)) {
        hd_buf_printf(text, "a.thread");
        add_word(r, text, "IS");
        add_word(r, text, "NOT");
        add_word(r, text, "NULL");
        hd_buf_printf(tree, "(some? a:Event.thread)");
    } else {
        hd_buf_printf(text, "a.id");
        add_word(r, text, "IN");
        hd_buf_printf(text, "['x',\"y\"]");
        hd_buf_printf(tree, "(in a:Event.id ['x' 'y'])");
    }
    if (has_brackets) hd_buf_add_char(text, ')');
}

static void random_conditions(void **state) {
    test_random r = {seed};
    for (int i = 0; i < 2000; i++) {
        hd_arena *arena = hd_arena_new(0);
        hd_buf text = {0}, tree = {0}, got = {0};
        const co_query *query;
        co_refusal refusal;
        hd_buf_printf(&text, "START a = events(k: 1) RETURN ");
        make_condition(&r, 4, 0, &text, &tree);
        hd_buf_printf(&text, " AS x");
        if (text.size <= CO_QUERY_BYTES_MAX) {
            hd_status status = bind(arena, hd_buf_get(&text), &query, &refusal);
            if (status != HD_OK) fail_msg(HD_STR_FMT "\n" HD_STR_FMT, HD_STR_ARG(hd_buf_get(&text)), HD_STR_ARG(refusal.detail));
            write_expr(&got, query, query->items[0].expr);
            if (!hd_str_is_equal(hd_buf_get(&got), hd_buf_get(&tree)))
                fail_msg("%s\nexpected %s\ngot %s", text.data, tree.data, got.data);
        }
        hd_buf_fini(&text);
        hd_buf_fini(&tree);
        hd_buf_fini(&got);
        hd_arena_free(arena);
    }
}

/* ---- random damage ---- */

static const char *const sound_queries[] = {
    "START a = events(text: $q, k: 3) MATCH (a)-[r:SHARES {min: 2}]-(b), (a)-[:FAR {max: 0.4}]-(b) RETURN a, r.via, r.count AS n "
    "ORDER BY n",
    "EXPLAIN START a = events(ids: ['x', $y]) MATCH (a)-[n:NEXT*1..3 {source: 'thread'}]->(b {id: $z}) WHERE b.timestamp > $t "
    "RETURN b;",
    "START a = events(entity: $e) MATCH (a)-[:PARTICIPATED_IN]-(e:Entity)-[:PARTICIPATED_IN]-(b) WHERE e.name CONTAINS $c AND NOT "
    "(e.type IN [$d, 'x'] OR a.score < -1.5e-3) RETURN DISTINCT e.name, count(DISTINCT b) AS `n o` ORDER BY `n o` DESC LIMIT $l",
    "START a = events(vector: $v, since: '2025-01-31', exact: true) MATCH (a)-[m:MEMBER_OF]-(t:Tag) RETURN t, collect(a.id), "
    "max(cos(a, a))",
};
static const char *const scraps[] = {
    "(",      ")",       "[",      "]",      "{",      "}",         "-",    "->",        "<-",   ",",     ":",    ".", "..",
    "*",      "'",       "\"",     "`",      "$",      "$q",        "1",    "1e9",       "NOT ", " AND ", " OR ", "=", "<>",
    " IN ",   "é",       "\xFF",   "/*",     "*/",     "//",        "\\u",  "null",      "a",    "b",     "r",    "t", "WITH ",
    "MATCH ", "RETURN ", "WHERE ", "LIMIT ", "count(", "cos(a, b)", "a.id", " IS NULL ", "'x'",  "SKIP ", "|",    ";"};

static hd_value random_value(test_random *r, hd_arena *arena, uint32_t depth) {
    switch (test_random_below(r, depth ? 8 : 7)) {
    case 0: return HD_VALUE_NULL;
    case 1: return hd_value_bool(test_random_below(r, 2));
    case 2: return hd_value_int((int64_t)test_random_below(r, 9) - 2);
    case 3: return hd_value_float((double)test_random_below(r, 100) / 7 - 3);
    case 4: return hd_value_text(HD_STR("2025-01-31T10:00:00Z"));
    case 5: return hd_value_text(HD_STR("contains"));
    case 6: return hd_value_text(HD_STR(" "));
    default: break;
    }
    uint32_t count = test_random_below(r, 4);
    hd_value *items = hd_arena_alloc(arena, (count + 1) * sizeof *items);
    for (uint32_t i = 0; i < count; i++) items[i] = random_value(r, arena, depth - 1);
    return (hd_value){.type = HD_TYPE_LIST, .list = {items, count}};
}

static void damage(test_random *r, hd_buf *text) {
    uint32_t at = test_random_below(r, (uint32_t)text->size + 1), size = test_random_below(r, 4);
    const char *scrap = scraps[test_random_below(r, HD_COUNT_OF(scraps))];
    if (at + size > text->size) size = (uint32_t)text->size - at;
    hd_buf made = {0};
    hd_buf_add(&made, text->data, at);
    if (test_random_below(r, 3)) hd_buf_add_str(&made, hd_str_of(scrap));
    if (test_random_below(r, 2)) size = 0;
    hd_buf_add(&made, text->data + at + size, text->size - at - size);
    hd_buf_fini(text);
    *text = made;
}

static void damaged_queries(void **state) {
    test_random r = {seed + 1};
    static const hd_str names[] = {HD_STR("q"), HD_STR("y"), HD_STR("z"), HD_STR("t"), HD_STR("e"),
                                   HD_STR("c"), HD_STR("d"), HD_STR("l"), HD_STR("v")};
    uint32_t counts[4] = {0};
    for (int i = 0; i < 60000; i++) {
        hd_arena *arena = hd_arena_new(0);
        hd_buf text = {0};
        const co_query *query;
        co_refusal refusal;
        co_resolved resolved;
        hd_value values[HD_COUNT_OF(names)];
        hd_buf_add_str(&text, hd_str_of(sound_queries[test_random_below(&r, HD_COUNT_OF(sound_queries))]));
        for (uint32_t n = test_random_below(&r, 4); n > 0; n--) damage(&r, &text);
        hd_status status = bind(arena, hd_buf_get(&text), &query, &refusal);
        if (status == HD_OK) {
            for (size_t k = 0; k < HD_COUNT_OF(names); k++) values[k] = random_value(&r, arena, 2);
            co_params params = {.names = names, .values = values, .count = HD_COUNT_OF(names)};
            status = co_language_resolve(arena, query, &params, &resolved, &refusal);
            assert_true(status == HD_OK || (status == HD_PARAMS && refusal.blocked_by == CO_BLOCKED_PARAMS));
            if (status == HD_PARAMS) assert_true(refusal.detail.size > 0 && refusal.line >= 1 && refusal.column >= 1);
        }
        counts[status]++;
        hd_buf_fini(&text);
        hd_arena_free(arena);
    }
    print_message("ok %u, syntax %u, grammar %u, params %u\n", counts[HD_OK], counts[HD_SYNTAX], counts[HD_GRAMMAR],
                  counts[HD_PARAMS]);
    for (int i = 0; i < 4; i++) assert_true(counts[i] > 0);
}

/* Every prefix of a query is refused where it ends or before, and never past its end. */
static void prefixes(void **state) {
    for (size_t i = 0; i < HD_COUNT_OF(sound_queries); i++) {
        hd_str whole = hd_str_of(sound_queries[i]);
        for (size_t size = 0; size <= whole.size; size++) {
            hd_arena *arena = hd_arena_new(0);
            const co_query *query;
            co_refusal refusal;
            char *copy = hd_alloc(size + 1); /* of its own, so that reading past the end is seen */
            memcpy(copy, whole.data, size);
            if (bind(arena, (hd_str){copy, size}, &query, &refusal) != HD_OK) assert_true(refusal.column <= size + 1);
            hd_free(copy);
            hd_arena_free(arena);
        }
    }
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_file),
        cmocka_unit_test(text_that_is_no_text),
        cmocka_unit_test(text_as_long_as_it_may_be),
        cmocka_unit_test(bottomless_text),
        cmocka_unit_test(nesting),
        cmocka_unit_test(flat_chains),
        cmocka_unit_test(chains_within_chains),
        cmocka_unit_test(memory_that_runs_out),
        cmocka_unit_test(lists_in_parameters),
        cmocka_unit_test(size_of_parameters),
        cmocka_unit_test(parameters_without_a_value),
        cmocka_unit_test(names_are_normalised),
        cmocka_unit_test(allowed_lists_are_true),
        cmocka_unit_test(random_conditions),
        cmocka_unit_test(damaged_queries),
        cmocka_unit_test(prefixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
