/* One line of a JSONL import: what is sent is what was there, ids come out the same each time, vectors are read over but never lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <jansson.h>

#include "client/import/jsonl.h"
#include "common/ids.h"
#include "tests/support/seed.h"

static test_random random_source;

/* Reads; returns the text to send, and the ids in *line_out, which the caller releases. */
static const char *read_line(const char *text, cl_jsonl_line *line_out) {
    hd_error error = {0};
    *line_out = (cl_jsonl_line){0};
    if (cl_jsonl_read(hd_str_of(text), line_out, &error) != HD_OK) fail_msg("%s: %s", text, error.message);
    return line_out->json.data;
}

static void expect_refused(const char *text, size_t size, const char *piece) {
    cl_jsonl_line line = {0};
    hd_error error = {0};
    assert_int_equal(cl_jsonl_read((hd_str){text, size}, &line, &error), HD_ARGUMENT);
    if (strstr(error.message, piece) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, piece);
    cl_jsonl_line_fini(&line);
}

static void test_as_it_stands(void **state) {
    cl_jsonl_line line;
    static const char text[] = "{\"event_id\": \"e1\", \"summary\": \"x\", \"vector\": [0.10, 1E5,-2] , \"prev_event_id\":\"e0\"}";
    assert_string_equal(read_line(text, &line), text); /* numbers keep their form */
    assert_string_equal(line.id.data, "e1");
    assert_string_equal(line.previous.data, "e0");
    cl_jsonl_line_fini(&line);
    assert_string_equal(read_line("  {\"idempotency_key\": \"k\", \"summary\": \"x\"}\r", &line),
                        "{\"idempotency_key\": \"k\", \"summary\": \"x\"}");
    assert_int_equal(line.id.size, 0);
    assert_int_equal(line.previous.size, 0);
    cl_jsonl_line_fini(&line);
    assert_string_equal(read_line("{}", &line), "{}"); /* the coordinator says what is missing */
    cl_jsonl_line_fini(&line);
}

static void test_made_id(void **state) {
    cl_jsonl_line a, b, c;
    const char *sent = read_line("{\"summary\": \"x\", \"vector\": [1, 2]}", &a);
    assert_int_equal(strncmp(sent, "{\"event_id\":\"line:", 18), 0);
    json_t *object = json_loads(sent, JSON_REJECT_DUPLICATES, NULL);
    assert_string_equal(json_string_value(json_object_get(object, "event_id")), a.id.data);
    assert_int_equal(json_array_size(json_object_get(object, "vector")), 2);
    assert_true(hd_event_id_is_valid(hd_buf_get(&a.id)));
    read_line(" {\"summary\": \"x\", \"vector\": [1, 2]} ", &b); /* the same line */
    assert_string_equal(a.id.data, b.id.data);
    read_line("{\"summary\": \"x\", \"vector\": [1, 3]}", &c);
    assert_string_not_equal(a.id.data, c.id.data);
    json_decref(object);
    cl_jsonl_line_fini(&a);
    cl_jsonl_line_fini(&b);
    cl_jsonl_line_fini(&c);
}

/* Where the id cannot be put in front, the object is written anew, with its vector. */
static void test_rewritten(void **state) {
    static const char *const texts[] = {"{\"event_id\": null, \"summary\": \"x\", \"vector\": [0.1, -2e3]}",
                                        "{\"payload\": {\"summary\": \"x\", \"vector\": [0.1, -2e3]}}",
                                        "{\"payload\": \"{\\\"summary\\\": \\\"x\\\", \\\"vector\\\": [0.1, -2e3]}\"}"};
    for (size_t i = 0; i < HD_COUNT_OF(texts); i++) {
        cl_jsonl_line line;
        json_t *object = json_loads(read_line(texts[i], &line), JSON_REJECT_DUPLICATES, NULL);
        assert_string_equal(json_string_value(json_object_get(object, "summary")), "x");
        assert_string_equal(json_string_value(json_object_get(object, "event_id")), line.id.data);
        assert_true(line.id.size > 0);
        assert_true(json_real_value(json_array_get(json_object_get(object, "vector"), 0)) == 0.1);
        assert_true(json_real_value(json_array_get(json_object_get(object, "vector"), 1)) == -2000);
        json_decref(object);
        cl_jsonl_line_fini(&line);
    }
    cl_jsonl_line line; /* a payload's own ids are seen */
    json_t *object = json_loads(read_line("{\"payload\": {\"event_id\": \"p\", \"prev_event_id\": \"o\"}}", &line), 0, NULL);
    assert_string_equal(line.id.data, "p");
    assert_string_equal(line.previous.data, "o");
    assert_int_equal(json_object_size(object), 2);
    json_decref(object);
    cl_jsonl_line_fini(&line);
}

static void test_refused(void **state) {
    static const char nul[] = "{\"summary\": \"a\0b\"}";
    expect_refused("", 0, "no JSON");
    expect_refused("[1]", 3, "has to be a JSON object");
    expect_refused("7", 1, "no JSON");
    expect_refused("{\"a\": 1", 7, "no JSON, at character");
    expect_refused("{\"a\": 1, \"a\": 2}", 16, "duplicate");
    expect_refused("{\"a\": \"\xff\"}", 9, "decode byte");
    expect_refused("{\"a\": \"\\ud800\"}", 15, "no JSON");
    expect_refused("{\"a\": \"\\u0000\"}", 15, "no JSON");
    expect_refused(nul, sizeof(nul) - 1, "no JSON");
    expect_refused("{\"vector\": [1, 2,]}", 19, "no JSON");
    expect_refused("{\"vector\": [01]}", 16, "no JSON");
    expect_refused("{\"vector\": [1.]}", 16, "no JSON");
    expect_refused("{\"vector\": [.5]}", 16, "no JSON");
    expect_refused("{\"vector\": [1e999]}", 19, "no JSON");
    expect_refused("{\"vector\": [99999999999999999999]}", 34, "no JSON");
    expect_refused("{\"vector\": [NaN]}", 17, "no JSON");
    expect_refused("{[1]: 2}", 8, "no JSON");
    expect_refused("{\"a\": 1} {\"b\": 2}", 17, "no JSON");
}

/* Random lines, sound and damaged: exactly those are taken that the JSON library takes, and what is sent is the same value. */
static void add_random_value(hd_buf *out, int depth) {
    static const char *const scalars[] = {"1",           "-0",    "0.5",       "1e5",       "-1.25E-3",    "null",
                                          "true",        "\"x\"", "\"[1,2]\"", "\"\\\"[\"", "\"\\\\\"",    "[1,2,3]",
                                          "[ 1 , 2.5 ]", "[]",    "[-1]",      "[1,\"2\"]", "[[1,2],[3]]", "18446744073709551616"};
    if (depth > 2 || test_random_below(&random_source, 3) > 0) {
        hd_buf_add_str(out, hd_str_of(scalars[test_random_below(&random_source, HD_COUNT_OF(scalars))]));
        return;
    }
    hd_buf_add_char(out, '{');
    uint32_t count = test_random_below(&random_source, 4);
    for (uint32_t i = 0; i < count; i++) {
        hd_buf_printf(out, "%s\"k%u\":", i > 0 ? "," : "", test_random_below(&random_source, 30));
        add_random_value(out, depth + 1);
    }
    hd_buf_add_char(out, '}');
}

static void test_random_lines(void **state) {
    uint32_t taken = 0, refused = 0;
    for (int round = 0; round < 40000; round++) {
        hd_buf text = {0};
        hd_buf_add_str(&text, HD_STR("{\"event_id\":\"e\",\"v\":"));
        add_random_value(&text, 0);
        hd_buf_add_str(&text, HD_STR(",\"vector\":"));
        add_random_value(&text, 0);
        hd_buf_add_char(&text, '}');
        if (test_random_below(&random_source, 2)) {
            size_t at = test_random_below(&random_source, (uint32_t)text.size);
            text.data[at] = "[]{},\"\\1.-e \t\xff"[test_random_below(&random_source, 14)];
        }
        json_t *wanted = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, NULL);
        cl_jsonl_line line = {0};
        hd_error error = {0};
        hd_status status = cl_jsonl_read(hd_buf_get(&text), &line, &error);
        if ((status == HD_OK) != json_is_object(wanted)) fail_msg("%s: %s", text.data, error.message);
        if (status == HD_OK) {
            json_t *sent = json_loadb(line.json.data, line.json.size, JSON_REJECT_DUPLICATES, NULL);
            assert_non_null(sent);
            if (json_object_get(wanted, "event_id") == NULL) json_object_del(sent, "event_id");
            if (!json_equal(sent, wanted)) fail_msg("%s became %s", text.data, line.json.data);
            json_decref(sent);
            taken++;
        } else {
            refused++;
        }
        cl_jsonl_line_fini(&line);
        json_decref(wanted);
        hd_buf_fini(&text);
    }
    assert_true(taken > 5000 && refused > 5000);
}

int main(int argc, char **argv) {
    random_source.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_it_stands), cmocka_unit_test(test_made_id),      cmocka_unit_test(test_rewritten),
        cmocka_unit_test(test_refused),      cmocka_unit_test(test_random_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
