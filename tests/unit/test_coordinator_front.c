/* Routes, access, Authorization headers and bodies, without a socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/front/auth.h"
#include "coordinator/front/routes.h"

static hd_status find(const char *method, const char *path, co_exchange *exchange) {
    *exchange = (co_exchange){.path = (char *)(uintptr_t)path};
    return co_routes_find(exchange, method);
}

static void test_paths(void **state) {
    co_exchange x;
    assert_int_equal(find("GET", "/healthz", &x), HD_OK);
    assert_int_equal(x.route->access, CO_ACCESS_ALL);
    assert_int_equal(find("HEAD", "/healthz", &x), HD_OK);
    assert_int_equal(find("POST", "/v1/tools/save_memory", &x), HD_OK);
    assert_true(hd_str_is_equal(x.words[0], HD_STR("save_memory")));
    assert_int_equal(find("DELETE", "/v1/admin/orgs/acme/keys/17", &x), HD_OK);
    assert_true(hd_str_is_equal(x.words[0], HD_STR("acme")));
    assert_true(hd_str_is_equal(x.words[1], HD_STR("17")));
    static const char *const nowhere[] = {"",
                                          "/",
                                          "/healthz/",
                                          "/healthzz",
                                          "/v1/tools/",
                                          "/v1/tools/a/b",
                                          "/v1/admin/orgs//keys",
                                          "/v1/admin/orgs/a/keys/",
                                          "/v1/admin",
                                          "v1/tools",
                                          "/V1/tools"};
    for (size_t i = 0; i < HD_COUNT_OF(nowhere); i++) assert_int_equal(find("GET", nowhere[i], &x), HD_NOT_FOUND);
}

static void expect_allow(const char *method, const char *path, const char *allow) {
    co_exchange x;
    assert_int_equal(find(method, path, &x), HD_ARGUMENT);
    assert_string_equal(x.allow, allow);
}

static void test_methods(void **state) {
    expect_allow("POST", "/healthz", "GET, HEAD");
    expect_allow("GET", "/v1/tools/save_memory", "POST");
    expect_allow("get", "/metrics", "GET, HEAD");
    expect_allow("PUT", "/v1/admin/orgs", "GET, HEAD, POST");
    expect_allow("POST", "/v1/admin/orgs/acme", "GET, HEAD, DELETE");
    expect_allow("DELETE", "/v1/admin/orgs/acme/keys", "GET, HEAD, POST");
    expect_allow("GET", "/v1/admin/orgs/acme/keys/1", "DELETE");
}

static void test_access(void **state) {
    static const struct {
        const char *method, *path;
        co_principal who;
        hd_status status;
    } cases[] = {
        {"POST", "/v1/tools/save_memory", {.org = 1, .roles = CO_ROLE_READ}, HD_OK}, /* the role is the tool's to ask for */
        {"POST", "/v1/tools/save_memory", {.is_cluster_admin = true}, HD_FORBIDDEN},
        {"GET", "/v1/tools", {.is_cluster_admin = true}, HD_OK},
        {"GET", "/v1/admin/orgs", {.is_cluster_admin = true}, HD_OK},
        {"GET", "/v1/admin/orgs", {.org = 1, .roles = CO_ROLE_READ | CO_ROLE_WRITE}, HD_FORBIDDEN},
        {"GET", "/v1/admin/orgs/a/keys", {.org = 1, .roles = CO_ROLE_ADMIN}, HD_OK}, /* whose keys: the handler asks */
    };
    for (size_t i = 0; i < HD_COUNT_OF(cases); i++) {
        co_exchange x;
        hd_error error = {0};
        assert_int_equal(find(cases[i].method, cases[i].path, &x), HD_OK);
        x.principal = cases[i].who;
        assert_int_equal(co_routes_check_access(&x, &error), cases[i].status);
    }
}

static void expect_body(const char *body, size_t size, hd_status status, const char *says) {
    co_exchange x = {0};
    json_t *object = NULL;
    hd_error error = {0};
    if (size > 0) hd_buf_add(&x.body, body, size);
    assert_int_equal(co_exchange_parse_body(&x, &object, &error), status);
    if (status == HD_OK)
        assert_true(json_is_object(object));
    else if (strstr(error.message, says) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", error.message, says);
    json_decref(object);
    hd_buf_fini(&x.body);
}
#define EXPECT_BODY(text, status, says) expect_body(text, sizeof(text) - 1, status, says)

static void test_bodies(void **state) {
    EXPECT_BODY("", HD_OK, "");
    EXPECT_BODY(" \r\n\t ", HD_OK, "");
    EXPECT_BODY("{\"a\": [1, 2.5, \"\\ud83d\\ude00\"]}", HD_OK, "");
    EXPECT_BODY("{\"a\": ", HD_ARGUMENT, "ends too early");
    EXPECT_BODY("{\n\"a\": x}", HD_ARGUMENT, "line 2, column 6");
    EXPECT_BODY("{\"a\": \"\xff\"}", HD_ARGUMENT, "not valid UTF-8");
    EXPECT_BODY("{\"a\": \"\xed\xa0\x80\"}", HD_ARGUMENT, "not valid UTF-8");
    EXPECT_BODY("{\"a\": \"\\u0000\"}", HD_ARGUMENT, "U+0000");
    EXPECT_BODY("{\"a\\u0000\": 1}", HD_ARGUMENT, "U+0000");
    EXPECT_BODY("{\"a\": \"\0\"}", HD_ARGUMENT, "control character");
    EXPECT_BODY("\0", HD_ARGUMENT, "no JSON");
    EXPECT_BODY("{\"a\": \"\\ud800\"}", HD_ARGUMENT, "lone surrogate");
    EXPECT_BODY("{\"a\": \"\\udc00\\ud800\"}", HD_ARGUMENT, "lone surrogate");
    EXPECT_BODY("{\"a\": 1, \"a\": 1}", HD_ARGUMENT, "twice");
    EXPECT_BODY("{\"a\": 1e999}", HD_ARGUMENT, "too large");
    EXPECT_BODY("{\"a\": 18446744073709551616}", HD_ARGUMENT, "too large");
    EXPECT_BODY("{\"a\": NaN}", HD_ARGUMENT, "no JSON");
    EXPECT_BODY("{} {}", HD_ARGUMENT, "no JSON");
    EXPECT_BODY("[]", HD_ARGUMENT, "object");
    enum { DEEP = 100000 };
    char *deep = hd_alloc(DEEP);
    memset(deep, '[', DEEP);
    expect_body(deep, DEEP, HD_ARGUMENT, "too deep");
    hd_free(deep);
}

static void test_failures_read_back(void **state) {
    co_exchange x = {0};
    co_exchange_fail_text(&x, HD_BUSY, "a \"%s\"", "quote");
    assert_int_equal(x.status, 429);
    assert_true(x.is_passing);
    assert_string_equal(x.answer.data,
                        "{\"status\":\"error\",\"error\":\"busy\",\"reason\":\"busy\",\"detail\":\"a \\\"quote\\\"\"}");
    co_fault fault = {.reason = "truncation_marker_detected", .hint = "h", .event_id = HD_STR("e1")};
    fault.error.outcome = "unknown";
    co_exchange_fail(&x, HD_ARGUMENT, &fault); /* in place of the first, not behind it */
    assert_int_equal(x.status, 400);
    assert_false(x.is_passing);
    assert_string_equal(x.answer.data,
                        "{\"status\":\"error\",\"error\":\"truncation_marker_detected\",\"reason\":\"truncation_marker_detected\","
                        "\"detail\":\"a tool's argument is missing, unknown, of the wrong type or out of range\",\"hint\":\"h\","
                        "\"outcome\":\"unknown\",\"event_id\":\"e1\"}");
    hd_buf_fini(&x.answer);
}

static void test_authorization(void **state) {
    char folder[] = "/tmp/heddle-front-XXXXXX", path[64], key_path[64], header[160];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/catalog.db", folder);
    snprintf(key_path, sizeof(key_path), "%s/admin.key", folder);
    static const char key[] = "an-admin-key-of-thirty-two-chars";
    FILE *file = fopen(key_path, "w");
    fputs(key, file);
    fclose(file);
    co_catalog *catalog;
    hd_error error = {0};
    assert_int_equal(co_catalog_open_local(path, key_path, &catalog, &error), HD_OK);
    static const struct {
        const char *before, *after;
        hd_status status;
    } cases[] = {{"Bearer ", "", HD_OK},           {"bEARER   ", "  ", HD_OK}, {"Bearer", "", HD_UNAUTHORIZED},
                 {"Basic ", "", HD_UNAUTHORIZED},  {"", "", HD_UNAUTHORIZED},  {"Bearer x", "", HD_UNAUTHORIZED},
                 {"Bearer ", "x", HD_UNAUTHORIZED}};
    for (size_t i = 0; i < HD_COUNT_OF(cases); i++) {
        co_principal who = {0};
        const co_org *org;
        snprintf(header, sizeof(header), "%s%s%s", cases[i].before, key, cases[i].after);
        assert_int_equal(co_auth_check(catalog, header, &who, &org, &(hd_error){0}), cases[i].status);
        assert_int_equal(who.is_cluster_admin, cases[i].status == HD_OK);
        assert_null(org);
    }
    co_principal who;
    const co_org *org;
    assert_int_equal(co_auth_check(catalog, NULL, &who, &org, &(hd_error){0}), HD_UNAUTHORIZED);
    assert_int_equal(co_auth_check(catalog, "Bearer ", &who, &org, &(hd_error){0}), HD_UNAUTHORIZED);
    co_catalog_close(catalog);
    unlink(path);
    unlink(key_path);
    rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_methods),
        cmocka_unit_test(test_access),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_failures_read_back),
        cmocka_unit_test(test_authorization),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
