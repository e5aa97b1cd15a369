/* The table of routes, and the handlers that are a few lines: health, metrics, the tools. */
#include "coordinator/front/routes.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/metrics.h"
#include "common/text.h"

/* ---- health and metrics ---- */

static void show_health(co_exchange *exchange, co_front *front) {
    (void)front;
    hd_buf_add_str(&exchange->answer, HD_STR("{\"status\":\"ok\"}"));
}

/* Ready: every shard has said who it is and is alive, and this process is not on its way out. */
static void show_ready(co_exchange *exchange, co_front *front) {
    hd_arena *arena = hd_arena_new(0);
    co_shard_info *shards;
    uint32_t count = 0, alive = 0;
    if (co_topology_list(front->services->topology, arena, &shards, &count) == HD_OK)
        for (uint32_t i = 0; i < count; i++) alive += shards[i].is_alive && shards[i].uuid[0] != '\0';
    bool is_ready = count > 0 && alive == count && !front->is_draining;
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", is_ready ? "ok" : "error");
    if (!is_ready) {
        const char *reason = front->is_draining ? "busy" : "shard_unavailable";
        co_json_member_text(&json, "error", reason);
        co_json_member_text(&json, "reason", reason);
        co_json_member_text(&json, "detail", front->is_draining ? "stopping" : "not every shard answers");
        exchange->status = 503;
        exchange->is_passing = true;
    }
    co_json_member_uint(&json, "shards", count);
    co_json_member_uint(&json, "shards_alive", alive);
    co_json_end_object(&json);
    hd_arena_free(arena);
}

static void show_metrics(co_exchange *exchange, co_front *front) {
    (void)front;
    exchange->content_type = "text/plain; version=0.0.4; charset=utf-8";
    hd_metrics_write(&exchange->answer);
}

/* ---- tools ---- */

static void list_tools(co_exchange *exchange, co_front *front) {
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_key(&json, "tools");
    co_tool_write_list(front->services, &json);
    co_json_end_object(&json);
}

enum { TOOLS_MAX = 64 };
static hd_metric *tool_seconds[TOOLS_MAX], *tool_errors[TOOLS_MAX]; /* by the tool's place in the list; written once, at start */

void co_routes_register_metrics(void) {
    HD_CHECK(co_tool_count <= TOOLS_MAX);
    for (size_t i = 0; i < co_tool_count; i++) {
        char labels[96];
        snprintf(labels, sizeof(labels), "tool=\"%s\"", co_tools[i]->name);
        tool_seconds[i] =
            hd_metrics_histogram_us("heddle_tool_seconds", labels, "How long calls of a tool took, once a worker had them.");
        tool_errors[i] = hd_metrics_counter("heddle_tool_errors_total", labels, "Calls of a tool that ended in an error.");
    }
}

static void count_call(const co_tool *tool, const co_exchange *exchange, uint64_t began_us) {
    size_t i = 0;
    while (co_tools[i] != tool) i++;
    hd_metric_observe_us(tool_seconds[i], hd_clock_monotonic_us() - began_us);
    if (exchange->status >= 400) hd_metric_add(tool_errors[i], 1);
}

static void run_tool(co_exchange *exchange, co_front *front, const co_tool *tool) {
    co_tool_call call = {.services = front->services,
                         .wire = front->wire,
                         .principal = exchange->principal,
                         .org = exchange->org,
                         .arena = front->arena,
                         .out = &exchange->answer,
                         .status_http = 200,
                         .is_client_gone = exchange->is_client_gone,
                         .self = exchange->self};
    json_t *arguments = NULL;
    hd_status status = co_exchange_parse_body(exchange, &arguments, &call.fault.error);
    call.arguments = arguments;
    if (status == HD_OK) status = tool->run(&call);
    if (status == HD_OK) {
        exchange->status = call.status_http;
        exchange->is_passing = call.status_http == 429 || call.status_http == 503;
    } else {
        co_exchange_fail(exchange, status, &call.fault);
    }
    json_decref(arguments);
}

static void call_tool(co_exchange *exchange, co_front *front) {
    const co_tool *tool = co_tool_find(exchange->words[0]);
    if (tool == NULL || !co_tool_is_on(front->services, tool)) {
        co_exchange_fail_text(exchange, HD_NOT_FOUND, "there is no tool \"" HD_STR_FMT "\"; GET /v1/tools lists them",
                              HD_STR_ARG(hd_text_prefix(exchange->words[0], 64)));
        return;
    }
    if ((exchange->principal.roles & tool->role) != tool->role) {
        co_exchange_fail_text(exchange, HD_FORBIDDEN, "%s needs a key with the role %s", tool->name,
                              tool->role == CO_ROLE_WRITE ? "write" : "read");
        return;
    }
    uint64_t began_us = hd_clock_monotonic_us();
    run_tool(exchange, front, tool);
    count_call(tool, exchange, began_us);
}

/* ---- the table ---- */

static const co_route routes[] = {
    {"GET", "/healthz", CO_ACCESS_ALL, true, show_health},
    {"GET", "/readyz", CO_ACCESS_ALL, true, show_ready},
    {"GET", "/metrics", CO_ACCESS_ALL, true, show_metrics},
    {"GET", "/v1/tools", CO_ACCESS_ANY_KEY, true, list_tools},
    {"POST", "/v1/tools/{}", CO_ACCESS_ORG_KEY, false, call_tool},
    {"GET", "/v1/admin/orgs", CO_ACCESS_ADMIN, false, co_admin_list_orgs},
    {"POST", "/v1/admin/orgs", CO_ACCESS_ADMIN, false, co_admin_create_org},
    {"GET", "/v1/admin/orgs/{}", CO_ACCESS_ADMIN, false, co_admin_show_org},
    {"DELETE", "/v1/admin/orgs/{}", CO_ACCESS_ADMIN, false, co_admin_delete_org},
    {"GET", "/v1/admin/orgs/{}/keys", CO_ACCESS_ADMIN, false, co_admin_list_keys},
    {"POST", "/v1/admin/orgs/{}/keys", CO_ACCESS_ADMIN, false, co_admin_create_key},
    {"DELETE", "/v1/admin/orgs/{}/keys/{}", CO_ACCESS_ADMIN, false, co_admin_revoke_key},
    {"GET", "/v1/admin/stats", CO_ACCESS_ADMIN, false, co_stats_show},
};

/* Does the path fit the pattern? The words that stand for "{}" go to words_out. */
static bool match_path(const char *pattern, const char *path, hd_str words_out[CO_ROUTE_WORDS_MAX]) {
    uint32_t count = 0;
    while (*pattern != '\0') {
        if (pattern[0] != '{') {
            if (*pattern++ != *path++) return false;
            continue;
        }
        size_t size = strcspn(path, "/");
        if (size == 0) return false;
        HD_CHECK(count < CO_ROUTE_WORDS_MAX);
        words_out[count++] = (hd_str){path, size};
        pattern += 2;
        path += size;
    }
    return *path == '\0';
}

/* "GET, POST" of the routes with this pattern; those of one path stand together in the table. */
static const char *list_methods(const char *pattern) {
    const char *methods = NULL;
    for (size_t i = 0; i < HD_COUNT_OF(routes); i++) {
        if (strcmp(routes[i].path, pattern) != 0) continue;
        if (methods == NULL)
            methods = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method;
        else
            methods = strcmp(routes[i].method, "POST") == 0 ? "GET, HEAD, POST" : "GET, HEAD, DELETE";
    }
    return methods;
}

hd_status co_routes_find(co_exchange *exchange, const char *method) {
    if (strcmp(method, "HEAD") == 0) method = "GET"; /* the answer's body is left off by the library */
    hd_status status = HD_NOT_FOUND;
    for (size_t i = 0; i < HD_COUNT_OF(routes); i++) {
        if (!match_path(routes[i].path, exchange->path, exchange->words)) continue;
        if (strcmp(routes[i].method, method) == 0) {
            exchange->route = &routes[i];
            return HD_OK;
        }
        exchange->allow = list_methods(routes[i].path);
        status = HD_ARGUMENT;
    }
    return status;
}

hd_status co_routes_check_access(const co_exchange *exchange, hd_error *error) {
    const co_principal *who = &exchange->principal;
    switch (exchange->route->access) {
    case CO_ACCESS_ALL:
    case CO_ACCESS_ANY_KEY: return HD_OK;
    case CO_ACCESS_ORG_KEY:
        if (!who->is_cluster_admin) return HD_OK;
        return hd_error_set(error, HD_FORBIDDEN, "auth",
                            "this key administers the cluster and belongs to no org; use a key of the org");
    case CO_ACCESS_ADMIN: break;
    }
    if (who->is_cluster_admin || (who->roles & CO_ROLE_ADMIN)) return HD_OK;
    return hd_error_set(error, HD_FORBIDDEN, "auth", "administration needs the cluster's admin key, or a key with the role admin");
}
