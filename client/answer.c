#include "client/answer.h"

#include <stdio.h>

#include "client/call.h"
#include "client/table.h"
#include "client/terminal.h"
#include "common/text.h"

enum { DEPTH_MAX = 8, CUT_TEXT_MAX = 1000 };

/* ---- values ---- */

static void add_text(hd_buf *out, const json_t *string) {
    hd_buf_add(out, json_string_value(string), json_string_length(string));
}

/* "2025-03-14T10:20:30Z" → "2025-03-14 10:20" */
static void add_minute(hd_buf *out, const char *timestamp) {
    size_t size = strlen(timestamp);
    if (size < 16 || timestamp[10] != 'T') {
        hd_buf_add_str(out, hd_str_of(timestamp));
        return;
    }
    hd_buf_printf(out, "%.10s %.5s", timestamp, timestamp + 11);
}

static void add_value(hd_buf *out, const json_t *value, int depth);

static void add_object(hd_buf *out, const json_t *object, int depth) {
    const json_t *summary = json_object_get(object, "summary"), *name = json_object_get(object, "name");
    const char *key;
    json_t *value;
    bool is_first = true;
    if (json_is_string(summary) && json_object_get(object, "id") != NULL) {
        add_text(out, summary);
        hd_buf_add_str(out, HD_STR(" ("));
        add_minute(out, cl_json_text(object, "timestamp"));
        hd_buf_add_char(out, ')');
        return;
    }
    if (json_is_string(name) && json_object_get(object, "id") != NULL) {
        add_text(out, name);
        return;
    }
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (!is_first) hd_buf_add_str(out, HD_STR(", "));
        is_first = false;
        hd_buf_printf(out, "%s ", key);
        bool is_list = json_is_array(value) && json_array_size(value) != 1;
        if (is_list) hd_buf_add_char(out, '[');
        add_value(out, value, depth + 1);
        if (is_list) hd_buf_add_char(out, ']');
    }
}

static void add_value(hd_buf *out, const json_t *value, int depth) {
    size_t i;
    json_t *item;
    if (depth > DEPTH_MAX) {
        cl_json_add(out, value);
        return;
    }
    switch (json_typeof(value)) {
    case JSON_NULL: hd_buf_add_str(out, HD_STR("null")); break;
    case JSON_TRUE: hd_buf_add_str(out, HD_STR("true")); break;
    case JSON_FALSE: hd_buf_add_str(out, HD_STR("false")); break;
    case JSON_INTEGER: hd_buf_printf(out, "%lld", (long long)json_integer_value(value)); break;
    case JSON_REAL: cl_add_real(out, json_real_value(value)); break;
    case JSON_STRING: add_text(out, value); break;
    case JSON_OBJECT: add_object(out, value, depth); break;
    case JSON_ARRAY:
        json_array_foreach((json_t *)(uintptr_t)value, i, item) {
            if (i > 0) hd_buf_add_str(out, HD_STR(", "));
            add_value(out, item, depth + 1);
        }
        break;
    }
}

void cl_answer_add_value(hd_buf *out, const json_t *value) {
    if (value != NULL) add_value(out, value, 0);
}

/* ---- tables ---- */

bool cl_answer_add_table(hd_buf *out, const json_t *answer, size_t width) {
    const json_t *columns = json_object_get(answer, "columns"), *rows = json_object_get(answer, "rows");
    cl_table *table = cl_table_new();
    size_t r, c;
    json_t *row, *column;
    json_array_foreach((json_t *)(uintptr_t)columns, c, column)
        cl_table_add_column(table, (hd_str){json_string_value(column), json_string_length(column)});
    size_t count = json_array_size(columns);
    hd_buf text = {0};
    json_array_foreach((json_t *)(uintptr_t)rows, r, row) {
        for (c = 0; c < count; c++) { /* a row that is too short still fills its line */
            const json_t *value = json_array_get(row, c);
            hd_buf_clear(&text);
            cl_answer_add_value(&text, value);
            cl_table_add_cell(table, hd_buf_get(&text), json_is_number(value));
        }
    }
    hd_buf_fini(&text);
    bool is_cut = cl_table_write(table, width, out);
    cl_table_free(table);
    return is_cut;
}

void cl_answer_add_plan(hd_buf *out, const json_t *answer, size_t width) {
    static const char *const names[] = {"step", "op", "relation", "from", "to", "rows_in", "rows_out", "partitions", "ms"};
    cl_table *table = cl_table_new();
    size_t i;
    json_t *step;
    hd_buf text = {0};
    for (size_t n = 0; n < HD_COUNT_OF(names); n++) cl_table_add_column(table, hd_str_of(names[n]));
    json_array_foreach(json_object_get(answer, "plan"), i, step) {
        for (size_t n = 0; n < HD_COUNT_OF(names); n++) {
            const json_t *value = json_object_get(step, names[n]);
            hd_buf_clear(&text);
            cl_answer_add_value(&text, value);
            cl_table_add_cell(table, hd_buf_get(&text), json_is_number(value));
        }
    }
    cl_table_write(table, width, out);
    hd_buf_fini(&text);
    cl_table_free(table);
}

/* ---- CSV ---- */

/* field = plain | '"' { any, '"' doubled } '"' */
static void add_field(hd_buf *out, hd_str text) {
    bool is_quoted = false;
    for (size_t i = 0; i < text.size && !is_quoted; i++) is_quoted = memchr("\",\r\n", text.data[i], 4) != NULL;
    if (text.size > 0) is_quoted = is_quoted || text.data[0] == ' ' || text.data[text.size - 1] == ' ';
    if (!is_quoted) {
        hd_buf_add_str(out, text);
        return;
    }
    hd_buf_add_char(out, '"');
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] == '"') hd_buf_add_char(out, '"');
        hd_buf_add_char(out, text.data[i]);
    }
    hd_buf_add_char(out, '"');
}

static void add_record(hd_buf *out, const json_t *values) {
    size_t i;
    json_t *value;
    hd_buf text = {0};
    json_array_foreach((json_t *)(uintptr_t)values, i, value) {
        hd_buf_clear(&text);
        if (json_is_object(value) || json_is_array(value))
            cl_json_add(&text, value);
        else if (!json_is_null(value))
            add_value(&text, value, 0);
        if (i > 0) hd_buf_add_char(out, ',');
        /* An empty string is "", so that it is told from null. */
        if (json_is_string(value) && text.size == 0)
            hd_buf_add_str(out, HD_STR("\"\""));
        else
            add_field(out, hd_buf_get(&text));
    }
    hd_buf_add_char(out, '\n');
    hd_buf_fini(&text);
}

void cl_answer_add_csv(hd_buf *out, const json_t *answer) {
    size_t i;
    json_t *row;
    add_record(out, json_object_get(answer, "columns"));
    json_array_foreach(json_object_get(answer, "rows"), i, row) add_record(out, row);
}

/* ---- completeness ---- */

/* A cap in words; `limit` is its value. */
static void add_cap(hd_buf *out, const char *cap, uint64_t limit) {
    static const struct {
        const char *cap, *before, *after;
    } words[] = {
        {"deadline", "the deadline of ", " ms passed"},
        {"frontier", "more than ", " nodes to go on from (cap frontier)"},
        {"scanned", "the limit of ", " postings and edges read was reached (cap scanned)"},
        {"measured", "the limit of ", " cosines measured was reached (cap measured)"},
        {"rows", "more than ", " rows alive at once (cap rows)"},
        {"bytes", "the answer would be over ", " bytes (cap bytes)"},
        {"vectors_exact", "only the index was searched: over ", " vectors (cap vectors_exact)"},
    };
    for (size_t i = 0; i < HD_COUNT_OF(words); i++) {
        if (strcmp(words[i].cap, cap) != 0) continue;
        hd_buf_add_str(out, hd_str_of(words[i].before));
        cl_add_number(out, limit);
        hd_buf_add_str(out, hd_str_of(words[i].after));
        return;
    }
    if (strcmp(cap, "shard_unavailable") == 0)
        hd_buf_add_str(out, HD_STR("a shard did not answer (shard_unavailable)"));
    else if (strcmp(cap, "snapshot") == 0)
        hd_buf_add_str(out, HD_STR("the state that the query began on is gone (snapshot)"));
    else if (strcmp(cap, "memory") == 0)
        hd_buf_add_str(out, HD_STR("memory for the query was used up (memory)"));
    else if (strcmp(cap, "store") == 0)
        hd_buf_add_str(out, HD_STR("a shard could not read its store (store)"));
    else
        hd_buf_add_str(out, hd_str_of(cap));
}

void cl_answer_add_cut(hd_buf *out, const json_t *record) {
    const json_t *step = json_object_get(record, "step"), *limit = json_object_get(record, "limit");
    const json_t *reached = json_object_get(record, "reached"), *detail = json_object_get(record, "detail");
    const char *relation = cl_json_text(record, "relation");
    hd_buf_add_str(out, hd_str_of(cl_json_text(record, "stage")));
    if (json_is_integer(step))
        hd_buf_printf(out, " (step %lld%s%s)", (long long)json_integer_value(step), relation[0] ? ", " : "", relation);
    hd_buf_add_str(out, HD_STR(": "));
    add_cap(out, cl_json_text(record, "cap"), (uint64_t)HD_MAX(json_integer_value(limit), 0));
    if (json_integer_value(reached) > json_integer_value(limit)) {
        hd_buf_add_str(out, HD_STR(", reached "));
        cl_add_number(out, (uint64_t)json_integer_value(reached));
    }
    if (!json_is_string(detail)) return;
    hd_buf_add_str(out, HD_STR("; "));
    hd_str text = hd_text_prefix((hd_str){json_string_value(detail), json_string_length(detail)}, CUT_TEXT_MAX);
    cl_add_line(out, text);
}

static void add_names(hd_buf *out, const char *before, const json_t *names) {
    size_t i;
    json_t *name;
    hd_buf list = {0};
    if (json_array_size(names) == 0) return;
    json_array_foreach((json_t *)(uintptr_t)names, i, name) {
        if (i > 0) hd_buf_add_str(&list, HD_STR(", "));
        cl_answer_add_value(&list, name);
    }
    hd_buf_add_str(out, hd_str_of(before));
    cl_add_line(out, hd_buf_get(&list)); /* as they were given, and so with whatever controls they hold */
    hd_buf_add_char(out, '\n');
    hd_buf_fini(&list);
}

static void add_start(hd_buf *out, const json_t *start) {
    add_names(out, "start: nothing is called ", json_object_get(start, "unresolved"));
    if (json_is_true(json_object_get(start, "entities_truncated")) || json_is_true(json_object_get(start, "tags_truncated")))
        hd_buf_add_str(out, HD_STR("start: a name stands for more than 20 nodes; the 20 with most events were taken\n"));
    if (json_is_false(json_object_get(start, "filled")))
        hd_buf_add_str(out, HD_STR("start: fewer events than asked for were found before the budget ended; there may be more\n"));
    /* Of the newest events of an org there are always more: that is no news. */
    bool is_newest = strcmp(cl_json_text(start, "kind"), "newest") == 0;
    if (!is_newest && (json_is_true(json_object_get(start, "has_more")) || json_is_true(json_object_get(start, "hub")))) {
        hd_buf_add_str(out, HD_STR("start: there are more events than the "));
        cl_add_number(out, (uint64_t)HD_MAX(json_integer_value(json_object_get(start, "count")), 0));
        hd_buf_add_str(out, HD_STR(" that were taken (k)\n"));
    }
}

void cl_answer_add_completeness(hd_buf *out, const json_t *answer) {
    uint64_t rows = (uint64_t)HD_MAX(json_integer_value(json_object_get(answer, "row_count")), 0);
    bool is_partial = json_is_true(json_object_get(answer, "partial"));
    size_t i;
    json_t *item;
    if (json_object_get(answer, "start") == NULL) {
        hd_buf_add_str(out, HD_STR("the plan alone; nothing was run\n"));
    } else {
        hd_buf_add_str(out, is_partial ? HD_STR("partial: ") : HD_STR("complete: "));
        cl_add_number(out, rows);
        hd_buf_add_str(out, rows == 1 ? HD_STR(" row") : HD_STR(" rows"));
        hd_buf_add_str(out, is_partial ? HD_STR(", and there may be more; what was left out:\n") : HD_STR("\n"));
    }
    json_array_foreach(json_object_get(answer, "truncated"), i, item) {
        hd_buf_add_str(out, HD_STR("  - "));
        cl_answer_add_cut(out, item);
        hd_buf_add_char(out, '\n');
    }
    add_start(out, json_object_get(answer, "start"));
    json_array_foreach(json_object_get(answer, "notes"), i, item) {
        hd_buf_add_str(out, HD_STR("note: "));
        cl_add_line(out, (hd_str){json_string_value(item), json_string_length(item)});
        hd_buf_add_char(out, '\n');
    }
}

/* ---- rejections ---- */

/* The `number`th line (from 1) of the text, without its end; the empty string where there is none. */
static hd_str get_line(hd_str text, uint64_t number) {
    size_t at = 0;
    for (;;) {
        const char *end = at < text.size ? memchr(text.data + at, '\n', text.size - at) : NULL;
        size_t size = end != NULL ? (size_t)(end - text.data) - at : text.size - at;
        if (--number == 0) {
            if (size > 0 && text.data[at + size - 1] == '\r') size--;
            return (hd_str){text.data + at, size};
        }
        if (end == NULL) return HD_STR("");
        at += size + 1;
    }
}

/* Drops characters from the front of `text` until it is at most `width` columns wide. */
static hd_str keep_tail(hd_str text, size_t width) {
    size_t columns = hd_text_width(text);
    while (columns > width && text.size > 0) {
        hd_str first = hd_text_prefix(text, 1);
        columns -= HD_MIN(columns, hd_text_width(first));
        text.data += first.size;
        text.size -= first.size;
    }
    return text;
}

/* The line and, below it, a caret under `column` (from 1, in characters; one past the end is fine). */
static void add_place(hd_buf *out, hd_str raw, uint64_t number, uint64_t column, size_t width) {
    hd_buf line = {0};
    char gutter[32];
    int gutter_size = snprintf(gutter, sizeof(gutter), "%4llu | ", (unsigned long long)number);
    size_t room = width > (size_t)gutter_size + 20 ? width - (size_t)gutter_size : 20;
    cl_add_line(&line, raw); /* characters stay characters: columns count the same */
    hd_str whole = hd_buf_get(&line), before = hd_text_prefix(whole, column - 1);
    hd_str shown = before;
    bool is_head_cut = hd_text_width(whole) > room && hd_text_width(before) > room / 2;
    if (is_head_cut) shown = keep_tail(before, room / 2);
    hd_buf_add_str(out, hd_str_of(gutter));
    if (is_head_cut) hd_buf_add_str(out, HD_STR("\xe2\x80\xa6"));
    hd_buf_add_str(out, shown);
    size_t used = hd_text_width(shown) + is_head_cut;
    cl_add_cut(out, (hd_str){whole.data + before.size, whole.size - before.size}, room - used);
    while (out->data[out->size - 1] == ' ') out->data[--out->size] = '\0';
    hd_buf_printf(out, "\n%*s| %*s^\n", gutter_size - 2, "", (int)used, "");
    hd_buf_fini(&line);
}

/* "allowed_relations": [..] → "allowed relations: a, b" */
static void add_allowed(hd_buf *out, const json_t *answer) {
    const char *key;
    json_t *list;
    json_object_foreach((json_t *)(uintptr_t)answer, key, list) {
        if (strncmp(key, "allowed_", 8) != 0) continue;
        hd_buf before = {0};
        hd_buf_printf(&before, "allowed %s: ", key + 8);
        for (size_t i = 0; i < before.size; i++)
            if (before.data[i] == '_') before.data[i] = ' ';
        add_names(out, before.data, list);
        hd_buf_fini(&before);
    }
}

void cl_answer_add_rejection(hd_buf *out, const json_t *answer, hd_str query, size_t width) {
    json_int_t line = json_integer_value(json_object_get(answer, "line"));
    json_int_t column = json_integer_value(json_object_get(answer, "column"));
    hd_buf_printf(out, "rejected (%s)", cl_json_text(answer, "blocked_by"));
    if (line > 0 && column > 0) hd_buf_printf(out, " at line %lld, column %lld", (long long)line, (long long)column);
    hd_buf_add_str(out, HD_STR(": "));
    cl_add_line(out, hd_str_of(cl_json_text(answer, "detail")));
    hd_buf_add_char(out, '\n');
    if (line > 0 && column > 0 && hd_text_is_utf8(query))
        add_place(out, get_line(query, (uint64_t)line), (uint64_t)line, (uint64_t)column, width);
    const char *hint = cl_json_text(answer, "hint");
    if (hint[0] != '\0') {
        hd_buf_add_str(out, HD_STR("hint: "));
        cl_add_line(out, hd_str_of(hint));
        hd_buf_add_char(out, '\n');
    }
    add_allowed(out, answer);
}
