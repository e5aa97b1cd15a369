/* What a memory may look like (tools.md, "Writing"), edge by edge; and that the schemas tell the same limits as the checks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/graph.h"
#include "common/ids.h"
#include "coordinator/tools/memory_input.h"

static hd_arena *arena;
static const co_org org = {.id = 7, .name = "acme", .dimension = 3, .embedding = CO_EMBEDDING_NONE, .partition_count = 1};
static co_memory memory;
static co_fault fault;
static json_t *held[4096]; /* what the memories borrow from */
static size_t held_count;

static int begin(void **state) {
    arena = hd_arena_new(0);
    return 0;
}
static int end(void **state) {
    hd_arena_free(arena);
    while (held_count > 0) json_decref(held[--held_count]);
    return 0;
}

static hd_status read_json(json_t *json) {
    assert_non_null(json);
    held[held_count++] = json;
    fault = (co_fault){0};
    hd_status status = co_memory_read(arena, &org, json, "the memory", &memory, &fault);
    assert_true((status == HD_OK) == (fault.error.code == HD_OK));
    return status;
}

static hd_status read_text(const char *text) {
    return read_json(json_loads(text, 0, NULL));
}

static void expect_refused(const char *text, const char *because) {
    assert_int_equal(read_text(text), HD_ARGUMENT);
    if (strstr(fault.error.message, because) == NULL) fail_msg("\"%s\" does not say \"%s\"", fault.error.message, because);
}

/* {"summary": "s", NAME: VALUE} */
static json_t *with(const char *name, json_t *value) {
    json_t *object = json_pack("{s:s}", "summary", "s");
    assert_int_equal(json_object_set_new(object, name, value), 0);
    return object;
}

/* `count` times `unit`. */
static json_t *repeat(const char *unit, size_t count) {
    size_t size = strlen(unit);
    char *text = hd_alloc(size * count + 1);
    for (size_t i = 0; i < count; i++) memcpy(text + i * size, unit, size);
    json_t *string = json_stringn(text, size * count);
    hd_free(text);
    return string;
}

static void test_the_least(void **state) {
    hd_clock_use_scripted(1, 1735689600000000);
    assert_int_equal(read_text("{\"summary\": \"s\"}"), HD_OK);
    assert_true(hd_str_is_equal(memory.event.summary, HD_STR("s")));
    assert_null(memory.event.content.data);
    assert_int_equal(memory.event.id.size, 26);
    assert_true(hd_event_id_is_valid(memory.event.id));
    assert_true(memory.event.timestamp_us == 1735689600000000);
    assert_false(memory.event.has_order);
    assert_null(memory.event.thread.data);
    assert_null(memory.event.previous.data);
    assert_null(memory.event.vector);
    assert_int_equal(memory.event.entity_count + memory.event.tag_count + memory.warning_count, 0);
    assert_false(memory.is_replace);
    assert_null(memory.idempotency_key.data);
    /* null stands for absent, everywhere */
    assert_int_equal(
        read_text("{\"summary\":\"s\",\"content\":null,\"entities\":null,\"tags\":null,\"timestamp\":null,\"thread\":null,"
                  "\"order_index\":null,\"prev_event_id\":null,\"event_id\":null,\"vector\":null,\"replace\":null,"
                  "\"idempotency_key\":null,\"allow_truncation_marker\":null,\"payload\":null}"),
        HD_OK);
    hd_clock_use_real();
}

static void test_everything(void **state) {
    assert_int_equal(
        read_text("{\"summary\":\" S \",\"content\":\"c\\nd\",\"entities\":[{\"name\":\"  Ada "
                  "\",\"type\":\"person\"},{\"name\":\"e\\u0301\"}],"
                  "\"tags\":[\"t\",{\"name\":\"t\",\"kind\":\"refers\"},{\"name\":\"u\",\"kind\":null}],"
                  "\"timestamp\":\"2025-01-31T10:20:30.5+09:00\",\"thread\":\" th \",\"order_index\":-3,\"prev_event_id\":\"p:1\","
                  "\"event_id\":\"A.b_c:d-9\",\"vector\":[1,-2.5,0],\"replace\":true,\"idempotency_key\":\"k\"}"),
        HD_OK);
    const hd_event_record *e = &memory.event;
    assert_true(hd_str_is_equal(e->summary, HD_STR(" S ")));
    assert_true(hd_str_is_equal(e->content, HD_STR("c\nd")));
    assert_int_equal(e->entity_count, 2);
    assert_true(hd_str_is_equal(e->entities[0].name, HD_STR("Ada")));
    assert_true(hd_str_is_equal(e->entities[0].type, HD_STR("person")));
    assert_true(hd_str_is_equal(e->entities[1].name, HD_STR("\xc3\xa9"))); /* NFC */
    assert_null(e->entities[1].type.data);
    assert_int_equal(e->tag_count, 3);
    assert_int_equal(e->tags[0].kind, HD_KIND_CONTAINS);
    assert_int_equal(e->tags[1].kind, HD_KIND_REFERS);
    assert_int_equal(e->tags[2].kind, HD_KIND_CONTAINS);
    char text[HD_INSTANT_TEXT_MAX];
    hd_instant_format(e->timestamp_us, text);
    assert_string_equal(text, "2025-01-31T01:20:30.5Z");
    assert_true(hd_str_is_equal(e->thread, HD_STR("th")));
    assert_true(e->has_order && e->order_index == -3);
    assert_true(hd_str_is_equal(e->previous, HD_STR("p:1")));
    assert_true(hd_str_is_equal(e->id, HD_STR("A.b_c:d-9")));
    assert_int_equal(e->dimension, 3);
    assert_true(e->vector[0] == 1 && e->vector[1] == -2.5f && e->vector[2] == 0);
    assert_true(memory.is_replace);
    assert_true(hd_str_is_equal(memory.idempotency_key, HD_STR("k")));
}

static void test_unknown_and_mistyped(void **state) {
    expect_refused("{\"summary\":\"s\",\"sumary\":1}", "unknown argument \"sumary\"; the known ones are summary, content");
    expect_refused("{}", "\"summary\" is missing");
    expect_refused("{\"summary\":null}", "\"summary\" is missing");
    expect_refused("[]", "has to be an object");
    static const char *const strings[] = {"content", "timestamp", "thread", "prev_event_id", "event_id", "idempotency_key"};
    for (size_t i = 0; i < HD_COUNT_OF(strings); i++) {
        assert_int_equal(read_json(with(strings[i], json_integer(5))), HD_ARGUMENT);
        assert_non_null(strstr(fault.error.message, strings[i]));
        assert_non_null(strstr(fault.error.message, "string"));
    }
    expect_refused("{\"summary\":5}", "\"summary\" has to be a string");
    expect_refused("{\"summary\":\"s\",\"replace\":1}", "true or false");
    expect_refused("{\"summary\":\"s\",\"allow_truncation_marker\":\"yes\"}", "true or false");
    expect_refused("{\"summary\":\"s\",\"order_index\":1.5}", "whole number");
    expect_refused("{\"summary\":\"s\",\"order_index\":\"1\"}", "whole number");
    expect_refused("{\"summary\":\"s\",\"entities\":{}}", "list");
    expect_refused("{\"summary\":\"s\",\"entities\":[\"Ada\"]}", "object");
    assert_non_null(fault.hint);
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"type\":\"x\"}]}", "entity 1 has no \"name\"");
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"name\":\"x\",\"typ\":\"y\"}]}", "unknown argument \"typ\"");
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"name\":\"x\",\"type\":1}]}", "the type of entity 1");
    expect_refused("{\"summary\":\"s\",\"tags\":\"t\"}", "list");
    expect_refused("{\"summary\":\"s\",\"tags\":[1]}", "tag 1");
    expect_refused("{\"summary\":\"s\",\"tags\":[{\"name\":\"t\",\"kind\":\"has\"}]}", "\"contains\" or \"refers\"");
}

static void test_lengths(void **state) {
    /* characters, not bytes: 500 of three bytes each are fine */
    assert_int_equal(read_json(json_pack("{s:o}", "summary", repeat("\xe2\x82\xac", 500))), HD_OK);
    assert_int_equal(read_json(json_pack("{s:o}", "summary", repeat("\xe2\x82\xac", 501))), HD_ARGUMENT);
    assert_non_null(strstr(fault.error.message, "501 characters; 500"));
    assert_non_null(strstr(fault.hint, "prev_event_id"));
    assert_int_equal(read_json(with("content", repeat("\xf0\x9f\x98\x80", 50000))), HD_OK);
    assert_int_equal(read_json(with("content", repeat("x", 50001))), HD_ARGUMENT);
    assert_non_null(strstr(fault.hint, "prev_event_id"));
    expect_refused("{\"summary\":\"\"}", "empty");
    expect_refused("{\"summary\":\" \\t\\n\"}", "empty");
    assert_int_equal(read_text("{\"summary\":\"s\",\"content\":\"\"}"), HD_OK);
    assert_int_equal(read_json(with("thread", repeat("\xc3\xa4", CO_THREAD_MAX))), HD_OK);
    assert_int_equal(read_json(with("thread", repeat("\xc3\xa4", CO_THREAD_MAX + 1))), HD_ARGUMENT);
    assert_int_equal(read_json(with("idempotency_key", repeat("k", CO_IDEMPOTENCY_KEY_MAX))), HD_OK);
    assert_int_equal(read_json(with("idempotency_key", repeat("k", CO_IDEMPOTENCY_KEY_MAX + 1))), HD_ARGUMENT);
    expect_refused("{\"summary\":\"s\",\"idempotency_key\":\"\"}", "idempotency_key");
    assert_int_equal(read_json(with("event_id", repeat("x", 64))), HD_OK);
    assert_int_equal(read_json(with("event_id", repeat("x", 65))), HD_ARGUMENT);
    expect_refused("{\"summary\":\"s\",\"event_id\":\"\"}", "event_id");
    expect_refused("{\"summary\":\"s\",\"event_id\":\"a b\"}", "event_id");
    expect_refused("{\"summary\":\"s\",\"event_id\":\"\\u00e4\"}", "event_id");
    expect_refused("{\"summary\":\"s\",\"prev_event_id\":\"a/b\"}", "prev_event_id");
    expect_refused("{\"summary\":\"s\",\"prev_event_id\":\"a\",\"event_id\":\"a\"}", "follow itself");
}

/* `count` entities e0, e1, …, then `doubles` times e0 again. */
static json_t *entities(size_t count, size_t doubles) {
    json_t *list = json_array();
    for (size_t i = 0; i < count + doubles; i++)
        json_array_append_new(list, json_pack("{s:o}", "name", json_sprintf("e%zu", i < count ? i : 0)));
    return with("entities", list);
}

static void test_entities(void **state) {
    assert_int_equal(read_json(entities(64, 0)), HD_OK);
    assert_int_equal(memory.event.entity_count, 64);
    assert_int_equal(read_json(entities(65, 0)), HD_ARGUMENT);
    assert_non_null(strstr(fault.error.message, "65 entities were given; 64"));
    assert_int_equal(read_json(entities(64, 3)), HD_OK); /* doubles fold away before they are counted */
    assert_int_equal(memory.event.entity_count, 64);
    assert_int_equal(memory.warning_count, 3);
    assert_int_equal(read_json(entities(5000, 0)), HD_ARGUMENT);
    /* one name: after trimming and NFC; the first type that is given stays */
    assert_int_equal(read_text("{\"summary\":\"s\",\"entities\":[{\"name\":\"\\u00e9\"},{\"name\":\" e\\u0301 \",\"type\":\"a\"},"
                               "{\"name\":\"\\u00e9\",\"type\":\"b\"},{\"name\":\"\\u00c9\"}]}"),
                     HD_OK);
    assert_int_equal(memory.event.entity_count, 2); /* case tells names apart */
    assert_true(hd_str_is_equal(memory.event.entities[0].type, HD_STR("a")));
    assert_int_equal(memory.warning_count, 3);
    assert_non_null(strstr(memory.warnings[2].data, "two types"));
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"name\":\"a\"},{\"name\":\" \"}]}", "entity 2 is empty");
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"name\":\"a\\u0007b\"}]}", "control character");
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"name\":\"a\\nb\"}]}", "control character");
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"name\":\"a\\u0085b\"}]}", "control character");
    expect_refused("{\"summary\":\"s\",\"entities\":[{\"name\":\"a\",\"type\":\"x\\u0001\"}]}", "control character");
    expect_refused("{\"summary\":\"s\",\"thread\":\"a\\tb\"}", "control character");
    json_t *list = json_pack("[{s:o}]", "name", repeat("\xe2\x82\xac", CO_ENTITY_NAME_MAX));
    assert_int_equal(read_json(with("entities", list)), HD_OK);
    list = json_pack("[{s:o}]", "name", repeat("\xe2\x82\xac", CO_ENTITY_NAME_MAX + 1));
    assert_int_equal(read_json(with("entities", list)), HD_ARGUMENT);
}

static void test_tags(void **state) {
    json_t *list = json_array();
    for (int i = 0; i < 32; i++) json_array_append_new(list, json_sprintf("t%d", i));
    json_t *more = json_deep_copy(list);
    json_array_append_new(list, json_string(" t5 "));
    assert_int_equal(read_json(with("tags", list)), HD_OK);
    assert_int_equal(memory.event.tag_count, 32);
    assert_int_equal(memory.warning_count, 1);
    json_array_append_new(more, json_pack("{s:s,s:s}", "name", "t5", "kind", "refers")); /* another kind is another tag */
    assert_int_equal(read_json(with("tags", more)), HD_ARGUMENT);
    assert_non_null(strstr(fault.error.message, "33 tags were given; 32"));
    expect_refused("{\"summary\":\"s\",\"tags\":[\"\"]}", "tag 1 is empty");
}

static void test_timestamps(void **state) {
    static const char *const good[] = {"2025-01-31", "2025-01-31T10:20:30Z", "2025-01-31 10:20:30.123456+02:00", "0001-01-01"};
    static const char *const bad[] = {"",           "yesterday",  "2025-02-30", "2025-13-01", "2025-01-31T25:00:00Z",
                                      "1735689600", "2025-01-31T"};
    for (size_t i = 0; i < HD_COUNT_OF(good); i++) assert_int_equal(read_json(with("timestamp", json_string(good[i]))), HD_OK);
    for (size_t i = 0; i < HD_COUNT_OF(bad); i++) {
        assert_int_equal(read_json(with("timestamp", json_string(bad[i]))), HD_ARGUMENT);
        assert_non_null(fault.hint);
    }
}

static void test_vectors(void **state) {
    expect_refused("{\"summary\":\"s\",\"vector\":[1,2]}", "2 numbers; the org's vectors have 3");
    expect_refused("{\"summary\":\"s\",\"vector\":[1,2,3,4]}", "4 numbers; the org's vectors have 3");
    expect_refused("{\"summary\":\"s\",\"vector\":[]}", "0 numbers");
    expect_refused("{\"summary\":\"s\",\"vector\":[0,0.0,-0.0]}", "all zero");
    expect_refused("{\"summary\":\"s\",\"vector\":[1e-60,0,0]}", "all zero"); /* as 32-bit floats it is */
    expect_refused("{\"summary\":\"s\",\"vector\":[1,1e39,0]}", "not finite as a 32-bit float, at place 2");
    expect_refused("{\"summary\":\"s\",\"vector\":[1,2,\"3\"]}", "no number, at place 3");
    expect_refused("{\"summary\":\"s\",\"vector\":[1,2,null]}", "no number");
    expect_refused("{\"summary\":\"s\",\"vector\":\"1,2,3\"}", "list");
    assert_int_equal(read_text("{\"summary\":\"s\",\"vector\":[0,1e-40,0]}"), HD_OK); /* a subnormal has a direction */
    assert_int_equal(read_text("{\"summary\":\"s\",\"vector\":[3.4e38,0,9007199254740993]}"), HD_OK);
}

static void test_truncation_markers(void **state) {
    static const char *const marked[] = {"a [truncated]", "[Truncated] b", "x<response clipped>y",
                                         "\xe2\x80\xa6"
                                         "12 tokens truncated\xe2\x80\xa6",
                                         "\xe2\x80\xa6\xe2\x80\xa6"
                                         "1 tokens truncated\xe2\x80\xa6"};
    static const char *const clean[] = {"truncated",
                                        "[ truncated]",
                                        "[truncate]",
                                        "<response  clipped>",
                                        "\xe2\x80\xa6 tokens truncated\xe2\x80\xa6",
                                        "\xe2\x80\xa6"
                                        "12 tokens truncated",
                                        "\xe2\x80\xa6",
                                        "\xe2\x80\xa6"
                                        "12",
                                        "[truncated",
                                        "12 tokens truncated\xe2\x80\xa6"};
    for (size_t i = 0; i < HD_COUNT_OF(marked); i++) {
        assert_non_null(co_memory_find_marker(hd_str_of(marked[i])).data);
        assert_int_equal(read_json(with("content", json_string(marked[i]))), HD_ARGUMENT);
        assert_string_equal(fault.reason, "truncation_marker_detected");
        assert_int_equal(read_json(json_pack("{s:s}", "summary", marked[i])), HD_ARGUMENT);
        assert_int_equal(read_json(json_pack("{s:s,s:b}", "summary", marked[i], "allow_truncation_marker", 1)), HD_OK);
    }
    for (size_t i = 0; i < HD_COUNT_OF(clean); i++) assert_int_equal(read_json(json_pack("{s:s}", "summary", clean[i])), HD_OK);
    assert_null(fault.reason);
}

static void test_idempotency_key_names_the_event(void **state) {
    assert_int_equal(read_text("{\"summary\":\"s\",\"idempotency_key\":\"k\"}"), HD_OK);
    hd_str first = memory.event.id;
    assert_int_equal(read_text("{\"summary\":\"other\",\"idempotency_key\":\"k\"}"), HD_OK);
    assert_true(hd_str_is_equal(first, memory.event.id));
    assert_int_equal(read_text("{\"summary\":\"s\",\"idempotency_key\":\"l\"}"), HD_OK);
    assert_false(hd_str_is_equal(first, memory.event.id));
    assert_int_equal(read_text("{\"summary\":\"s\",\"idempotency_key\":\"k\",\"event_id\":\"mine\"}"), HD_OK);
    assert_true(hd_str_is_equal(memory.event.id, HD_STR("mine")));
    /* the id is known even when the rest is refused, so that what depends on it can be told */
    assert_int_equal(read_text("{\"summary\":\"\",\"event_id\":\"mine\"}"), HD_ARGUMENT);
    assert_true(hd_str_is_equal(memory.event.id, HD_STR("mine")));
}

static void test_payload(void **state) {
    assert_int_equal(read_text("{\"payload\":{\"summary\":\"s\",\"event_id\":\"x\"}}"), HD_OK);
    assert_true(hd_str_is_equal(memory.event.id, HD_STR("x")));
    assert_int_equal(read_text("{\"payload\":\"{\\\"summary\\\":\\\"gr\\u00fc\\u00dfe\\\"}\",\"content\":null}"), HD_OK);
    assert_true(hd_str_is_equal(memory.event.summary, HD_STR("gr\xc3\xbc\xc3\x9f"
                                                             "e")));
    expect_refused("{\"payload\":{\"summary\":\"s\"},\"content\":\"c\"}", "stands alone; \"content\"");
    expect_refused("{\"payload\":\"{\"}", "no JSON");
    expect_refused("{\"payload\":\"[]\"}", "object");
    expect_refused("{\"payload\":\"{\\\"summary\\\":\\\"a\\\",\\\"summary\\\":\\\"b\\\"}\"}", "no JSON");
    expect_refused("{\"payload\":5}", "object");
    expect_refused("{\"payload\":{\"payload\":{}}}", "holds a \"payload\"");
    expect_refused("{\"payload\":{\"summary\":\"s\",\"what\":1}}", "unknown argument \"what\"");
}

/* The number of `name`'s member `limit` in the schema. */
static json_int_t schema_limit(const json_t *properties, const char *name, const char *limit) {
    return json_integer_value(json_object_get(json_object_get(properties, name), limit));
}

/* Every tool's schemas are JSON; save_memory's names every argument and the same limits as the checks. */
static void test_schemas(void **state) {
    for (size_t i = 0; i < co_tool_count; i++) {
        json_error_t problem;
        json_t *input = json_loads(co_tools[i]->input_schema, JSON_REJECT_DUPLICATES, &problem);
        json_t *output = json_loads(co_tools[i]->output_schema, JSON_REJECT_DUPLICATES, &problem);
        if (input == NULL || output == NULL) fail_msg("%s: %s", co_tools[i]->name, problem.text);
        assert_ptr_equal(co_tool_find(hd_str_of(co_tools[i]->name)), co_tools[i]);
        json_decref(input);
        json_decref(output);
    }
    json_t *schema = json_loads(co_tool_find(HD_STR("save_memory"))->input_schema, 0, NULL);
    const json_t *properties = json_object_get(schema, "properties");
    size_t count = 0;
    for (; co_memory_known[count] != NULL; count++) assert_non_null(json_object_get(properties, co_memory_known[count]));
    assert_int_equal(json_object_size(properties), count);
    assert_int_equal(schema_limit(properties, "summary", "maxLength"), CO_SUMMARY_MAX);
    assert_int_equal(schema_limit(properties, "content", "maxLength"), CO_CONTENT_MAX);
    assert_int_equal(schema_limit(properties, "entities", "maxItems"), CO_ENTITIES_MAX);
    assert_int_equal(schema_limit(properties, "tags", "maxItems"), CO_TAGS_MAX);
    assert_int_equal(schema_limit(properties, "thread", "maxLength"), CO_THREAD_MAX);
    assert_int_equal(schema_limit(properties, "idempotency_key", "maxLength"), CO_IDEMPOTENCY_KEY_MAX);
    const json_t *entity = json_object_get(json_object_get(json_object_get(properties, "entities"), "items"), "properties");
    assert_int_equal(schema_limit(entity, "name", "maxLength"), CO_ENTITY_NAME_MAX);
    assert_int_equal(schema_limit(entity, "type", "maxLength"), CO_TYPE_MAX);
    json_decref(schema);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(test_the_least),
        TEST(test_everything),
        TEST(test_unknown_and_mistyped),
        TEST(test_lengths),
        TEST(test_entities),
        TEST(test_tags),
        TEST(test_timestamps),
        TEST(test_vectors),
        TEST(test_truncation_markers),
        TEST(test_idempotency_key_names_the_event),
        TEST(test_payload),
        TEST(test_schemas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
