/* What people read: tables fitted to a width, answers and rejections in words, progress lines, numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/answer.h"
#include "client/call.h"
#include "client/progress.h"
#include "client/table.h"
#include "client/terminal.h"
#include "common/text.h"
#include "tests/support/seed.h"

static test_random random_source;

static void expect_text(hd_buf *out, const char *text) {
    assert_string_equal(out->data != NULL ? out->data : "", text);
    hd_buf_fini(out);
}

static json_t *parse(const char *text) {
    json_error_t problem;
    json_t *json = json_loads(text, JSON_DECODE_ANY, &problem);
    if (json == NULL) fail_msg("%s: %s", text, problem.text);
    return json;
}

/* ---- numbers and lines ---- */

static void test_numbers(void **state) {
    hd_buf out = {0};
    static const uint64_t numbers[] = {0, 7, 999, 1000, 123456, 1234567, UINT64_MAX};
    for (size_t i = 0; i < HD_COUNT_OF(numbers); i++) {
        cl_add_number(&out, numbers[i]);
        hd_buf_add_char(&out, ' ');
    }
    expect_text(&out, "0 7 999 1,000 123,456 1,234,567 18,446,744,073,709,551,615 ");
    static const uint64_t sizes[] = {0, 1023, 1024, 1536, 1048575, 1048576, UINT64_C(5) << 40};
    for (size_t i = 0; i < HD_COUNT_OF(sizes); i++) {
        cl_add_bytes(&out, sizes[i]);
        hd_buf_add_char(&out, ' ');
    }
    expect_text(&out, "0 B 1023 B 1.0 KiB 1.5 KiB 1.0 MiB 1.0 MiB 5.0 TiB ");
    static const uint64_t times[] = {0, 999, 1000, 59499, 60000, 200000, 3600000, 90061000};
    for (size_t i = 0; i < HD_COUNT_OF(times); i++) {
        cl_add_duration(&out, times[i]);
        hd_buf_add_char(&out, ',');
    }
    expect_text(&out, "0 ms,999 ms,1 s,59 s,1 min 0 s,3 min 20 s,1 h 0 min,1 d 1 h,");
}

static void test_reals(void **state) {
    static const double numbers[] = {0, 1, -2.5, 0.1, 0.693147, 1e21, 1e-7, 123456789012.0, 1.0 / 3, 5e-324};
    static const char *const texts[] = {
        "0.0", "1.0", "-2.5", "0.1", "0.693147", "1e+21", "1e-07", "123456789012.0", "0.3333333333333333", "4.94065645841247e-324"};
    for (size_t i = 0; i < HD_COUNT_OF(numbers); i++) {
        hd_buf out = {0};
        cl_add_real(&out, numbers[i]);
        assert_true(strtod(out.data, NULL) == numbers[i]);
        expect_text(&out, texts[i]);
    }
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = test_random_u64(&random_source);
        double number;
        memcpy(&number, &bits, sizeof(number));
        if (number != number || number - number != 0) continue;
        hd_buf out = {0};
        cl_add_real(&out, number);
        assert_true(strtod(out.data, NULL) == number);
        json_t *read = parse(out.data);
        assert_true(json_is_real(read) && json_real_value(read) == number);
        json_decref(read);
        hd_buf_fini(&out);
    }
}

static void expect_cut(const char *text, size_t width, const char *wanted, bool is_cut) {
    hd_buf out = {0};
    assert_int_equal(cl_add_cut(&out, hd_str_of(text), width), is_cut);
    expect_text(&out, wanted);
}

static void test_cut(void **state) {
    expect_cut("abc", 3, "abc", false);
    expect_cut("abcd", 3, "ab…", true);
    expect_cut("abcd", 1, "…", true);
    expect_cut("abcd", 0, "", true);
    expect_cut("", 0, "", false);
    expect_cut("a\nb\tc\x1b[31m", 20, "a b c [31m", false);
    expect_cut("가나다", 6, "가나다", false);
    expect_cut("가나다", 5, "가나…", true);
    expect_cut("가나다", 4, "가… ", true); /* the free column is filled */
    expect_cut(
        "e\xcc\x81"
        "fgh",
        3,
        "e\xcc\x81"
        "f…",
        true); /* a combining mark takes no column */
}

/* ---- tables ---- */

static void add_row(cl_table *table, const char *a, const char *b, bool is_number) {
    cl_table_add_cell(table, hd_str_of(a), false);
    cl_table_add_cell(table, hd_str_of(b), is_number);
}

static void test_table(void **state) {
    hd_buf out = {0};
    cl_table *table = cl_table_new();
    cl_table_add_column(table, HD_STR("name"));
    cl_table_add_column(table, HD_STR("count"));
    assert_false(cl_table_write(table, 80, &out));
    expect_text(&out, "name | count\n-----+------\n");
    add_row(table, "김민서", "5", true);
    add_row(table, "Zoë", "1234567", true);
    add_row(table, "", "", false); /* an empty cell does not make a column one of text */
    out = (hd_buf){0};
    assert_false(cl_table_write(table, 80, &out));
    expect_text(&out,
                "name   |   count\n"
                "-------+--------\n"
                "김민서 |       5\n"
                "Zoë    | 1234567\n"
                "       |\n");
    cl_table_free(table);
}

static void test_table_cut(void **state) {
    hd_buf out = {0};
    cl_table *table = cl_table_new();
    cl_table_add_column(table, HD_STR("a"));
    cl_table_add_column(table, HD_STR("b"));
    cl_table_add_column(table, HD_STR("c"));
    cl_table_add_cell(table, HD_STR("short"), false);
    cl_table_add_cell(table, HD_STR("this one is rather long, longer than all others"), false);
    cl_table_add_cell(table, HD_STR("and this one is long too"), false);
    assert_true(cl_table_write(table, 40, &out));
    expect_text(&out,
                "a     | b               | c\n"
                "------+-----------------+---------------\n"
                "short | this one is ra… | and this one …\n");
    cl_table_free(table);
}

/* Random tables: no line is wider than asked, wherever 3 columns a cell can be had; separators stand below each other; a cell that
 * is not cut is there whole. */
static void check_lines(const char *text, size_t width, size_t columns) {
    size_t bar_of[16] = {0}, bars_first = 0;
    for (int number = 0; *text != '\0'; number++) {
        size_t size = strcspn(text, "\n"), at = 0, bars = 0;
        assert_true(hd_text_width((hd_str){text, size}) <= width);
        for (; at < size; at++) {
            bool is_bar = number == 1 ? text[at] == '+' : text[at] == '|';
            if (!is_bar) continue;
            size_t column = hd_text_width((hd_str){text, at});
            if (number == 0)
                bar_of[bars] = column;
            else if (bars < bars_first)
                assert_int_equal(column, bar_of[bars]);
            bars++;
        }
        if (number == 0) bars_first = bars;
        assert_int_equal(bars, columns - 1);
        text += size + 1;
    }
}

static void test_tables_random(void **state) {
    static const char *const pieces[] = {"a", "bb", "é", "가", "日本", "\xcc\x81", " ", "…", "x\ty", "12"};
    for (int round = 0; round < 2000; round++) {
        size_t columns = 1 + test_random_below(&random_source, 6), rows = test_random_below(&random_source, 5);
        size_t width = columns * 6 + test_random_below(&random_source, 60);
        cl_table *table = cl_table_new();
        hd_buf out = {0};
        for (size_t i = 0; i < columns + columns * rows; i++) {
            hd_buf text = {0};
            for (uint32_t n = test_random_below(&random_source, 20); n > 0; n--)
                hd_buf_add_str(&text, hd_str_of(pieces[test_random_below(&random_source, HD_COUNT_OF(pieces))]));
            if (i < columns)
                cl_table_add_column(table, hd_buf_get(&text));
            else
                cl_table_add_cell(table, hd_buf_get(&text), test_random_below(&random_source, 2));
            hd_buf_fini(&text);
        }
        bool is_cut = cl_table_write(table, width, &out);
        check_lines(out.data, width, columns);
        hd_buf wide = {0};
        cl_table_write(table, 100000, &wide);
        /* Cut exactly when its natural width does not fit. */
        size_t natural = hd_text_width((hd_str){strchr(wide.data, '\n') + 1, strcspn(strchr(wide.data, '\n') + 1, "\n")});
        assert_int_equal(is_cut, natural > width);
        if (!is_cut) assert_string_equal(out.data, wide.data);
        hd_buf_fini(&wide);
        hd_buf_fini(&out);
        cl_table_free(table);
    }
}

/* ---- answers ---- */

static void expect_shown(const char *json, const char *text) {
    json_t *value = parse(json);
    hd_buf out = {0};
    cl_answer_add_value(&out, value);
    json_decref(value);
    expect_text(&out, text);
}

static void test_values(void **state) {
    expect_shown("null", "null");
    expect_shown("true", "true");
    expect_shown("-5", "-5");
    expect_shown("0.25", "0.25");
    expect_shown("\"a b\"", "a b");
    expect_shown("[]", "");
    expect_shown("[1, \"x\", null]", "1, x, null");
    expect_shown("{\"id\": \"e1\", \"summary\": \"It broke\", \"timestamp\": \"2025-03-14T10:20:30.5Z\", \"order_index\": 1}",
                 "It broke (2025-03-14 10:20)");
    expect_shown("{\"id\": \"ent_0\", \"name\": \"Jürgen\", \"type\": \"person\"}", "Jürgen");
    expect_shown("[{\"id\": \"ent_0\", \"name\": \"a\"}, {\"id\": \"ent_1\", \"name\": \"b\"}]", "a, b");
    expect_shown(
        "{\"count\": 2, \"weight\": 1.5, \"via\": [{\"id\": \"ent_0\", \"name\": \"a\"}, {\"id\": \"ent_1\", \"name\": \"b\"}], "
        "\"hops\": 1}",
        "count 2, weight 1.5, via [a, b], hops 1");
}

static void test_csv(void **state) {
    json_t *answer = parse(
        "{\"columns\": [\"a\", \"b,c\"], \"rows\": [[1, \"x\\\"y\"], [null, \"\"], [{\"id\": \"i\", \"w\": 0.1}, "
        "\"two\\nlines\"]]}");
    hd_buf out = {0};
    cl_answer_add_csv(&out, answer);
    json_decref(answer);
    expect_text(&out, "a,\"b,c\"\n1,\"x\"\"y\"\n,\"\"\n\"{\"\"id\"\":\"\"i\"\",\"\"w\"\":0.1}\",\"two\nlines\"\n");
}

static void expect_completeness(const char *json, const char *text) {
    json_t *answer = parse(json);
    hd_buf out = {0};
    cl_answer_add_completeness(&out, answer);
    json_decref(answer);
    expect_text(&out, text);
}

static void test_completeness(void **state) {
    expect_completeness(
        "{\"row_count\": 1, \"partial\": false, \"start\": {\"kind\": \"ids\", \"count\": 1}, \"truncated\": [], \"notes\": []}",
        "complete: 1 row\n");
    expect_completeness("{\"row_count\": 0, \"partial\": false, \"plan\": []}", "the plan alone; nothing was run\n");
    expect_completeness(
        "{\"row_count\": 1200, \"partial\": true, \"start\": {\"kind\": \"entity\", \"count\": 5, \"hub\": true, "
        "\"unresolved\": [\"Nobody\", \"No one\"]}, \"truncated\": [{\"stage\": \"expand\", \"step\": 2, \"relation\": "
        "\"SHARES\", \"cap\": \"scanned\", \"limit\": 5000, \"reached\": 5001, \"detail\": \"in 1 of 4\\npartitions\"}, "
        "{\"stage\": \"measure\", \"cap\": \"shard_unavailable\", \"limit\": 0, \"reached\": 0}], \"notes\": [\"n1\"]}",
        "partial: 1,200 rows, and there may be more; what was left out:\n"
        "  - expand (step 2, SHARES): the limit of 5,000 postings and edges read was reached (cap scanned), reached "
        "5,001; in 1 of 4 partitions\n"
        "  - measure: a shard did not answer (shard_unavailable)\n"
        "start: nothing is called Nobody, No one\n"
        "start: there are more events than the 5 that were taken (k)\n"
        "note: n1\n");
}

/* Every cap has words of its own, and names itself. */
static void test_caps(void **state) {
    static const char *const caps[] = {
#define CAP(name, text, initial, kind) text,
#include "common/budget.def"
#undef CAP
        "shard_unavailable",
        "snapshot",
        "memory",
        "store"
    };
    for (size_t i = 0; i < HD_COUNT_OF(caps); i++) {
        json_t *record = json_pack("{s:s, s:s, s:i, s:i}", "stage", "start", "cap", caps[i], "limit", 12, "reached", 12);
        hd_buf out = {0};
        cl_answer_add_cut(&out, record);
        assert_non_null(strstr(out.data, caps[i]));
        assert_true(out.size > strlen("start: ") + strlen(caps[i]) + 5);
        hd_buf_fini(&out);
        json_decref(record);
    }
}

/* ---- rejections ---- */

static void expect_rejection(const char *query, unsigned line, unsigned column, size_t width, const char *place) {
    json_t *answer = json_pack("{s:s, s:s, s:i, s:i}", "blocked_by", "syntax", "detail", "no", "line", line, "column", column);
    hd_buf out = {0}, wanted = {0};
    cl_answer_add_rejection(&out, answer, hd_str_of(query), width);
    hd_buf_printf(&wanted, "rejected (syntax) at line %u, column %u: no\n%s", line, column, place);
    json_decref(answer);
    expect_text(&out, wanted.data);
    hd_buf_fini(&wanted);
}

static void test_caret(void **state) {
    expect_rejection("START x", 1, 1, 80, "   1 | START x\n     | ^\n");
    expect_rejection("START x", 1, 7, 80, "   1 | START x\n     |       ^\n");
    expect_rejection("START x", 1, 8, 80, "   1 | START x\n     |        ^\n"); /* the end */
    expect_rejection("a\r\n\tb c\nd", 2, 4, 80, "   2 |  b c\n     |    ^\n");
    expect_rejection("가나 x", 1, 4, 80, "   1 | 가나 x\n     |      ^\n"); /* wide characters take two columns */
    expect_rejection("e\xcc\x81 x", 1, 4, 80, "   1 | e\xcc\x81 x\n     |   ^\n");
    expect_rejection("", 1, 1, 80, "   1 |\n     | ^\n");
    expect_rejection("abc", 5, 1, 80, "   5 |\n     | ^\n"); /* a line that is not there */
}

static void test_caret_of_long_lines(void **state) {
    char query[2001];
    for (size_t i = 0; i < 2000; i++) query[i] = (char)('a' + i % 26);
    query[2000] = '\0';
    for (unsigned column = 1; column <= 2001; column += 37) {
        json_t *answer = json_pack("{s:s, s:s, s:i, s:i}", "blocked_by", "syntax", "detail", "no", "line", 1, "column", column);
        hd_buf out = {0};
        cl_answer_add_rejection(&out, answer, hd_str_of(query), 60);
        const char *shown = strchr(out.data, '\n') + 1, *below = strchr(shown, '\n') + 1;
        size_t caret = strcspn(below, "^");
        assert_true(hd_text_width((hd_str){shown, strcspn(shown, "\n")}) <= 60 && caret < 60);
        /* The character above the caret is the one that is meant. */
        hd_str line = {shown, strcspn(shown, "\n")};
        size_t at = 0;
        while (at < line.size && hd_text_width((hd_str){line.data, at}) < caret)
            at += hd_text_prefix((hd_str){line.data + at, line.size - at}, 1).size;
        if (column <= 2000)
            assert_int_equal(line.data[at], query[column - 1]);
        else
            assert_int_equal(at, line.size);
        hd_buf_fini(&out);
        json_decref(answer);
    }
}

static void test_rejection_lists(void **state) {
    json_t *answer = parse(
        "{\"blocked_by\": \"grammar\", \"detail\": \"there is no relation X\", \"line\": 0, \"column\": 0, \"hint\": \"Use "
        "another.\", "
        "\"allowed_start_keys\": [\"text\", \"ids\"]}");
    hd_buf out = {0};
    cl_answer_add_rejection(&out, answer, HD_STR("q"), 80);
    json_decref(answer);
    expect_text(&out, "rejected (grammar): there is no relation X\nhint: Use another.\nallowed start keys: text, ids\n");
}

/* ---- progress ---- */

static void test_progress(void **state) {
    hd_buf out = {0};
    cl_progress_format(&out, "events", 1000, 2000, 0.5, 510.4, 2000, 80, true);
    expect_text(&out, "[###############...............]  50%  1,000 of 2,000 events  510/s  2 s left");
    out = (hd_buf){0};
    cl_progress_format(&out, "events", 5, 0, -1, -1, UINT64_MAX, 80, true);
    expect_text(&out, "5 events");
    out = (hd_buf){0};
    cl_progress_format(&out, "events", 1000, 2000, 0.5, 510, 2000, 30, true);
    assert_true(hd_text_width(hd_buf_get(&out)) <= 30 && out.data[0] != '[');
    hd_buf_fini(&out);
    for (size_t width = 1; width < 120; width++) {
        out = (hd_buf){0};
        cl_progress_format(&out, "commits", 123456, 999999, 1.7, 12345, 3600000, width, true);
        assert_true(hd_text_width(hd_buf_get(&out)) <= width);
        hd_buf_fini(&out);
    }
}

int main(int argc, char **argv) {
    random_source.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_reals),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_table_cut),
        cmocka_unit_test(test_tables_random),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_completeness),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_caret),
        cmocka_unit_test(test_caret_of_long_lines),
        cmocka_unit_test(test_rejection_lists),
        cmocka_unit_test(test_progress),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
