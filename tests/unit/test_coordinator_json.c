/* The JSON writer: commas, escapes, numbers that read back; and the way from JSON to the language's values. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "coordinator/front/json.h"
#include "tests/support/seed.h"

static test_random random_source;

static void expect_text(hd_buf *out, const char *text) {
    assert_string_equal(out->data, text);
    hd_buf_fini(out);
}

static void test_nesting_and_commas(void **state) {
    hd_buf out = {0};
    co_json json;
    co_json_init(&json, &out);
    co_json_object(&json);
    co_json_key(&json, "a");
    co_json_array(&json);
    co_json_end_array(&json);
    co_json_key(&json, "b");
    co_json_array(&json);
    co_json_int(&json, -1);
    co_json_int(&json, INT64_MIN);
    co_json_uint(&json, UINT64_MAX);
    co_json_object(&json);
    co_json_end_object(&json);
    co_json_array(&json);
    co_json_null(&json);
    co_json_bool(&json, true);
    co_json_end_array(&json);
    co_json_raw(&json, HD_STR("{\"x\":1}"));
    co_json_end_array(&json);
    co_json_member_text(&json, "c", "d");
    co_json_member_bool(&json, "e", false);
    co_json_member_uint(&json, "f", 0);
    co_json_end_object(&json);
    expect_text(
        &out,
        "{\"a\":[],\"b\":[-1,-9223372036854775808,18446744073709551615,{},[null,true],{\"x\":1}],\"c\":\"d\",\"e\":false,\"f\":0}");
}

static void test_strings(void **state) {
    hd_buf out = {0};
    co_json json;
    co_json_init(&json, &out);
    co_json_array(&json);
    co_json_str(&json, HD_STR("plain"));
    co_json_str(&json, HD_STR("\"\\/\n\r\t\x01\x1f\x7f"));
    co_json_str(&json, HD_STR("gr\xc3\xbc\xc3\x9f"));
    co_json_str(&json, HD_STR("a\0b"));
    co_json_str(&json, (hd_str){0});
    co_json_end_array(&json);
    expect_text(&out, "[\"plain\",\"\\\"\\\\/\\n\\r\\t\\u0001\\u001f\x7f\",\"gr\xc3\xbc\xc3\x9f\",\"a\\u0000b\",\"\"]");
}

/* Whatever is written is JSON that reads back as what it was. */
static void test_random_strings_read_back(void **state) {
    for (int round = 0; round < 2000; round++) {
        char text[64];
        size_t size = 0;
        for (int i = 0; i < 20; i++) {
            uint32_t c = (uint32_t)test_random_u64(&random_source);
            if (c & 1)
                text[size++] = (char)(1 + (c >> 1) % 127);
            else {
                text[size++] = (char)(0xc2 + (c >> 1) % 30);
                text[size++] = (char)(0x80 + (c >> 8) % 64);
            }
        }
        hd_buf out = {0};
        co_json json;
        co_json_init(&json, &out);
        co_json_array(&json);
        co_json_str(&json, (hd_str){text, size});
        co_json_end_array(&json);
        json_t *read = json_loadb(out.data, out.size, 0, NULL);
        assert_non_null(read);
        assert_int_equal(json_string_length(json_array_get(read, 0)), size);
        assert_memory_equal(json_string_value(json_array_get(read, 0)), text, size);
        json_decref(read);
        hd_buf_fini(&out);
    }
}

static void expect_double(double x, const char *text) {
    hd_buf out = {0};
    co_json json;
    co_json_init(&json, &out);
    co_json_double(&json, x);
    expect_text(&out, text);
}

static void test_doubles(void **state) {
    expect_double(0.0, "0.0");
    expect_double(1.0, "1.0");
    expect_double(-3.0, "-3.0");
    expect_double(0.1, "0.1");
    expect_double(0.123457, "0.123457");
    expect_double(1e15, "1e+15");
    expect_double(123456789012345.0, "123456789012345.0");
    expect_double(0.1 + 0.2, "0.30000000000000004");
    expect_double(DBL_MAX, "1.7976931348623157e+308");
    expect_double(5e-324, "4.94065645841247e-324");
}

static void test_random_doubles_read_back(void **state) {
    for (int round = 0; round < 20000; round++) {
        uint64_t bits = test_random_u64(&random_source);
        double x, read;
        memcpy(&x, &bits, sizeof(x));
        if (!isfinite(x)) continue;
        hd_buf out = {0};
        co_json json;
        co_json_init(&json, &out);
        co_json_double(&json, x);
        read = strtod(out.data, NULL);
        assert_true(read == x);
        /* and jansson reads it as a real, not as an integer */
        json_t *value = json_loadb(out.data, out.size, JSON_DECODE_ANY, NULL);
        assert_true(json_is_real(value));
        json_decref(value);
        hd_buf_fini(&out);
    }
}

static void test_values(void **state) {
    hd_value items[] = {hd_value_int(1), HD_VALUE_NULL, hd_value_float(2.5), hd_value_text(HD_STR("x")), hd_value_instant(1500000)};
    hd_str keys[] = {HD_STR("id"), HD_STR("name")};
    hd_value map = {.type = HD_TYPE_MAP, .map = {.keys = keys, .items = items + 2, .count = 2}};
    hd_value list[] = {{.type = HD_TYPE_LIST, .list = {.items = items, .count = 5}}, map, hd_value_bool(true)};
    hd_value all = {.type = HD_TYPE_LIST, .list = {.items = list, .count = 3}};
    hd_buf out = {0};
    co_json json;
    co_json_init(&json, &out);
    co_json_value(&json, &all);
    expect_text(&out, "[[1,null,2.5,\"x\",\"1970-01-01T00:00:01.5Z\"],{\"id\":2.5,\"name\":\"x\"},true]");
}

static hd_status read_value(hd_arena *arena, const char *text, uint32_t depth_max, hd_value *value_out) {
    hd_error error = {0};
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(json);
    hd_status status = co_json_to_value(arena, json, depth_max, value_out, &error);
    assert_true(status == HD_OK || error.message[0] != '\0');
    json_decref(json); /* the value must not borrow from it */
    return status;
}

static void test_to_value(void **state) {
    hd_arena *arena = hd_arena_new(0);
    hd_value value;
    assert_int_equal(read_value(arena, "null", 0, &value), HD_OK);
    assert_int_equal(value.type, HD_TYPE_NULL);
    assert_int_equal(read_value(arena, "9223372036854775807", 0, &value), HD_OK);
    assert_int_equal(value.type, HD_TYPE_INT);
    assert_true(value.integer == INT64_MAX);
    assert_int_equal(read_value(arena, "1.0", 0, &value), HD_OK);
    assert_int_equal(value.type, HD_TYPE_FLOAT);
    assert_int_equal(read_value(arena, "-0.0", 0, &value), HD_OK);
    assert_false(signbit(value.number));
    assert_int_equal(read_value(arena, "\"gr\\u00fc\\u00dfe\"", 0, &value), HD_OK);
    assert_true(hd_str_is_equal(value.text, HD_STR("gr\xc3\xbc\xc3\x9f"
                                                   "e")));
    assert_int_equal(read_value(arena, "[true, [\"x\"]]", 2, &value), HD_OK);
    assert_int_equal(value.list.count, 2);
    assert_true(hd_str_is_equal(value.list.items[1].list.items[0].text, HD_STR("x")));
    assert_int_equal(read_value(arena, "[]", 1, &value), HD_OK);
    assert_int_equal(value.list.count, 0);
    assert_int_equal(read_value(arena, "[]", 0, &value), HD_PARAMS);
    assert_int_equal(read_value(arena, "[[]]", 1, &value), HD_PARAMS);
    assert_int_equal(read_value(arena, "{}", 9, &value), HD_PARAMS);
    assert_int_equal(read_value(arena, "[1, {\"a\": 1}]", 9, &value), HD_PARAMS);
    hd_arena_free(arena);
    /* a cap that is reached is a status */
    arena = hd_arena_new(64);
    json_t *json = json_loads("[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]", 0, NULL);
    assert_int_equal(co_json_to_value(arena, json, 1, &value, &(hd_error){0}), HD_MEMORY);
    json_decref(json);
    hd_arena_free(arena);
}

int main(int argc, char **argv) {
    random_source.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nesting_and_commas),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_random_strings_read_back),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_random_doubles_read_back),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_to_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
