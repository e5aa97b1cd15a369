/* heddle query: one query, its answer in the form asked for. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "client/answer.h"
#include "client/call.h"
#include "client/command.h"
#include "client/terminal.h"
#include "common/text.h"

enum { TEXT_BYTES_MAX = 1 << 20, PARAMS_BYTES_MAX = 8 << 20 };

typedef struct settings {
    cl_target target;
    hd_config_list params, budget;
    const char *params_file, *format;
    bool is_plan_wanted;
} settings;

/* ---- what is sent ---- */

/* All of a file, or of the standard input for "-". */
static hd_status read_all(const char *path, size_t bytes_max, hd_buf *text_out, hd_error *error) {
    bool is_stdin = strcmp(path, "-") == 0;
    FILE *file = is_stdin ? stdin : fopen(path, "rbe");
    if (file == NULL) return hd_error_set(error, HD_ARGUMENT, "query", "cannot open %s: %s", path, strerror(errno));
    hd_status status = HD_OK;
    for (;;) {
        size_t size = fread(hd_buf_reserve(text_out, 65536), 1, 65536, file);
        text_out->size += size;
        if (text_out->size > bytes_max)
            status = hd_error_set(error, HD_TOO_LARGE, "query", "%s is over %zu KiB", path, bytes_max >> 10);
        if (size < 65536 || status != HD_OK) break;
    }
    if (status == HD_OK && ferror(file))
        status = hd_error_set(error, HD_ARGUMENT, "query", "cannot read %s: %s", path, strerror(errno));
    if (!is_stdin) fclose(file);
    return status;
}

/* name=value: the value is JSON where it is valid JSON, else the text as it stands. */
static hd_status add_param(json_t *params, const char *given, hd_error *error) {
    const char *equals = strchr(given, '=');
    if (equals == NULL || equals == given)
        return hd_error_set(error, HD_ARGUMENT, "query", "-p %s: a parameter is given as name=value", given);
    if (!hd_text_is_utf8(hd_str_of(given))) return hd_error_set(error, HD_ARGUMENT, "query", "a parameter is not valid UTF-8");
    const char *name = given[0] == '$' ? given + 1 : given;
    json_t *value = json_loads(equals + 1, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (value == NULL) value = json_string(equals + 1);
    HD_CHECK(json_object_setn_new(params, name, (size_t)(equals - name), value) == 0);
    return HD_OK;
}

static hd_status read_params(const settings *s, json_t **params_out, hd_error *error) {
    hd_buf text = {0};
    json_t *params = NULL;
    hd_status status = HD_OK;
    if (s->params_file != NULL) {
        json_error_t problem;
        HD_GOTO(read_all(s->params_file, PARAMS_BYTES_MAX, &text, error));
        params = json_loadb(hd_buf_get(&text).data, text.size, JSON_REJECT_DUPLICATES, &problem);
        if (params == NULL)
            HD_GOTO(hd_error_set(error, HD_ARGUMENT, "query", "--params %s: no JSON, at line %d, column %d", s->params_file,
                                 problem.line, problem.column));
        if (!json_is_object(params))
            HD_GOTO(
                hd_error_set(error, HD_ARGUMENT, "query", "--params %s holds no JSON object of names and values", s->params_file));
    } else {
        params = json_object();
    }
    for (size_t i = 0; i < s->params.count; i++) HD_GOTO(add_param(params, s->params.items[i], error));
out:
    hd_buf_fini(&text);
    if (status == HD_OK)
        *params_out = params;
    else
        json_decref(params);
    return status;
}

/* cap=number */
static hd_status read_budget(const settings *s, json_t **budget_out, hd_error *error) {
    json_t *budget = json_object();
    for (size_t i = 0; i < s->budget.count; i++) {
        const char *given = s->budget.items[i], *equals = strchr(given, '=');
        json_t *value = equals != NULL ? json_loads(equals + 1, JSON_DECODE_ANY, NULL) : NULL;
        if (!json_is_integer(value) || equals == given || !hd_text_is_utf8(hd_str_of(given))) {
            json_decref(value);
            json_decref(budget);
            return hd_error_set(error, HD_ARGUMENT, "query", "--budget %s: a cap is lowered by cap=number, such as scanned=1000",
                                hd_text_is_utf8(hd_str_of(given)) ? given : "?");
        }
        HD_CHECK(json_object_setn_new(budget, given, (size_t)(equals - given), value) == 0);
    }
    *budget_out = budget;
    return HD_OK;
}

static hd_status make_body(const settings *s, hd_str text, json_t **body_out, hd_error *error) {
    json_t *params = NULL, *budget = NULL;
    if (!hd_text_is_utf8(text) || memchr(text.data, '\0', text.size) != NULL)
        return hd_error_set(error, HD_ARGUMENT, "query", "the query is not valid UTF-8, or holds a NUL");
    HD_TRY(read_params(s, &params, error));
    hd_status status = read_budget(s, &budget, error);
    if (status != HD_OK) {
        json_decref(params);
        return status;
    }
    json_t *body = json_object();
    json_object_set_new(body, "query", json_stringn(text.data, text.size));
    json_object_set_new(body, "params", params);
    json_object_set_new(body, "budget", budget);
    *body_out = body;
    return HD_OK;
}

/* ---- what comes back ---- */

static void print_buf(FILE *file, hd_buf *text) {
    if (text->size > 0) fwrite(text->data, 1, text->size, file);
    fflush(file);
    hd_buf_clear(text);
}

static void show_rows(const settings *s, const json_t *answer) {
    hd_buf text = {0};
    size_t width = cl_terminal_width(STDOUT_FILENO);
    if (strcmp(s->format, "csv") == 0) {
        cl_answer_add_csv(&text, answer);
        print_buf(stdout, &text);
        cl_answer_add_completeness(&text, answer);
        print_buf(stderr, &text);
    } else {
        bool is_explained = json_object_get(answer, "start") == NULL, is_cut = false;
        if (!is_explained) is_cut = cl_answer_add_table(&text, answer, width);
        if (s->is_plan_wanted && !is_explained) hd_buf_add_char(&text, '\n');
        if (s->is_plan_wanted || is_explained) cl_answer_add_plan(&text, answer, width);
        hd_buf_add_char(&text, '\n');
        cl_answer_add_completeness(&text, answer);
        if (is_cut)
            hd_buf_printf(&text, "cells cut to fit %zu columns end in \xe2\x80\xa6; --format json or csv shows all\n", width);
        print_buf(stdout, &text);
    }
    hd_buf_fini(&text);
}

static int show(const settings *s, hd_str query, const cl_answer *answer) {
    bool is_rejected = strcmp(cl_json_text(answer->json, "reason"), "rejected") == 0;
    if (strcmp(s->format, "json") == 0) {
        hd_str body = hd_buf_get(&answer->body);
        fwrite(body.data, 1, body.size, stdout);
        putchar('\n');
        fflush(stdout);
    } else if (cl_answer_is_ok(answer)) {
        show_rows(s, answer->json);
    } else if (is_rejected) {
        hd_buf text = {0};
        cl_answer_add_rejection(&text, answer->json, query, cl_terminal_width(STDERR_FILENO));
        print_buf(stderr, &text);
        hd_buf_fini(&text);
    } else {
        return cl_fail_answer(false, answer);
    }
    if (is_rejected) return CL_EXIT_REJECTED;
    if (!cl_answer_is_ok(answer)) return CL_EXIT_FAILED;
    return json_is_true(json_object_get(answer->json, "partial")) ? CL_EXIT_PARTIAL : CL_EXIT_OK;
}

/* The text is kept as it was sent, for the line that a rejection shows. */
static int run_query(const settings *s, const char *word) {
    hd_error error = {0};
    hd_buf text = {0};
    json_t *body = NULL;
    cl_http *http = NULL;
    cl_answer answer = {0};
    int code = CL_EXIT_FAILED;
    hd_status status = HD_OK;
    if (strcmp(word, "-") == 0)
        HD_GOTO(read_all(word, TEXT_BYTES_MAX, &text, &error));
    else
        hd_buf_add_str(&text, hd_str_of(word));
    HD_GOTO(make_body(s, hd_buf_get(&text), &body, &error));
    HD_GOTO(cl_target_connect(&s->target, &http, &error));
    HD_GOTO(cl_call(http, "POST", "/v1/tools/query_memory_graph", body, &answer, &error));
    code = show(s, hd_buf_get(&text), &answer);
out:
    if (status != HD_OK) code = cl_fail(strcmp(s->format, "json") == 0, &error);
    cl_answer_fini(&answer);
    cl_http_free(http);
    json_decref(body);
    hd_buf_fini(&text);
    return code;
}

int cl_query_run(int argc, char **argv) {
    static const char usage[] =
        "heddle query QUERY|- [-p NAME=VALUE …] [--format table|json|csv]\n\n"
        "Runs one query (from the argument, or from the standard input with -) and shows its rows, whether they are complete, and\n"
        "what was left out if not. A parameter's value is JSON where it is valid JSON (5, [1,2], \"5\"), else a string as it "
        "stands.\n"
        "Exit: 0 complete, 3 partial, 2 rejected, 1 anything else.";
    settings s = {.format = "table"};
    const hd_config_option options[] = {
        {"param", 'p', HD_CONFIG_LIST, &s.params, "NAME=VALUE", "a parameter ($NAME in the query); once for each"},
        {"params", 0, HD_CONFIG_TEXT, &s.params_file, "FILE", "a JSON object of parameters (- reads it from the standard input)"},
        {"format", 'f', HD_CONFIG_TEXT, &s.format, "FORMAT", "table, json (the whole answer), or csv (rows; the rest on stderr)"},
        {"plan", 0, HD_CONFIG_SWITCH, &s.is_plan_wanted, NULL, "show the steps below the table, with rows and times"},
        {"budget", 'b', HD_CONFIG_LIST, &s.budget, "CAP=N", "lower a cap for this query, such as scanned=1000; once for each"},
        CL_OPTION_URL(s.target),
        CL_OPTION_KEY(s.target),
        CL_OPTION_JSON(s.target),
    };
    hd_config_list words = {0};
    hd_error error = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 1, 1, &s.target, argc, argv, &words, &code)) return code;
    if (s.target.is_json) s.format = "json";
    bool is_stdin_twice = strcmp(words.items[0], "-") == 0 && s.params_file != NULL && strcmp(s.params_file, "-") == 0;
    if (strcmp(s.format, "table") != 0 && strcmp(s.format, "json") != 0 && strcmp(s.format, "csv") != 0)
        (void)hd_error_set(&error, HD_ARGUMENT, "query", "--format %s: one of table, json, csv", s.format);
    else if (is_stdin_twice)
        (void)hd_error_set(&error, HD_ARGUMENT, "query", "the query and the parameters cannot both come from the standard input");
    if (error.code != HD_OK) return cl_fail(s.target.is_json, &error);
    return run_query(&s, words.items[0]);
}
