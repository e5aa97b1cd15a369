/* heddle status: what /v1/admin/stats tells, as tables; without an admin key, whether the shards answer. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/call.h"
#include "client/command.h"
#include "client/table.h"
#include "client/terminal.h"

static uint64_t get_uint(const json_t *object, const char *name) {
    return (uint64_t)HD_MAX(json_integer_value(json_object_get(object, name)), 0);
}

/* A figure; nothing where it is not known. */
static void add_figure(cl_table *table, const json_t *object, const char *name, void (*add)(hd_buf *out, uint64_t number)) {
    hd_buf text = {0};
    if (json_is_integer(json_object_get(object, name)))
        add(&text, get_uint(object, name));
    else if (json_object_get(object, name) != NULL)
        hd_buf_add_str(&text, HD_STR("?"));
    cl_table_add_cell(table, hd_buf_get(&text), true);
    hd_buf_fini(&text);
}

static void add_seconds(hd_buf *out, uint64_t s) {
    if (s == 0)
        hd_buf_add_str(out, HD_STR("0 s"));
    else
        cl_add_duration(out, s * 1000);
}

static void add_columns(cl_table *table, const char *const *names, size_t count) {
    for (size_t i = 0; i < count; i++) cl_table_add_column(table, hd_str_of(names[i]));
}

static void finish_table(cl_table *table, hd_buf *out) {
    cl_table_write(table, cl_terminal_width(STDOUT_FILENO), out);
    cl_table_free(table);
}

static void add_shards(hd_buf *out, const json_t *shards) {
    static const char *const names[] = {"shard", "alive", "partitions", "memory", "disk", "up", "endpoint"};
    cl_table *table = cl_table_new();
    size_t i;
    json_t *shard;
    add_columns(table, names, HD_COUNT_OF(names));
    json_array_foreach((json_t *)(uintptr_t)shards, i, shard) {
        const char *uuid = cl_json_text(shard, "uuid");
        cl_table_add_cell(table, (hd_str){uuid, HD_MIN(strlen(uuid), (size_t)8)}, false);
        cl_table_add_cell(table, json_is_true(json_object_get(shard, "alive")) ? HD_STR("yes") : HD_STR("no"), false);
        add_figure(table, shard, "partitions", cl_add_number);
        add_figure(table, shard, "memory_bytes", cl_add_bytes);
        add_figure(table, shard, "disk_bytes", cl_add_bytes);
        add_figure(table, shard, "uptime_s", add_seconds);
        cl_table_add_cell(table, hd_str_of(cl_json_text(shard, "endpoint")), false);
    }
    finish_table(table, out);
}

static void add_orgs(hd_buf *out, const json_t *orgs) {
    static const char *const names[] = {"org", "events", "vectors", "partitions", "dimension", "embedding", "memory"};
    cl_table *table = cl_table_new();
    size_t i;
    json_t *org;
    bool is_unknown = false;
    add_columns(table, names, HD_COUNT_OF(names));
    json_array_foreach((json_t *)(uintptr_t)orgs, i, org) {
        cl_table_add_cell(table, hd_str_of(cl_json_text(org, "name")), false);
        add_figure(table, org, "events", cl_add_number);
        add_figure(table, org, "vectors", cl_add_number);
        add_figure(table, org, "partitions", cl_add_number);
        add_figure(table, org, "dimension", cl_add_number);
        cl_table_add_cell(table, hd_str_of(cl_json_text(org, "embedding")), false);
        add_figure(table, org, "memory_bytes", cl_add_bytes);
        is_unknown = is_unknown || json_is_null(json_object_get(org, "events"));
    }
    finish_table(table, out);
    if (is_unknown) hd_buf_add_str(out, HD_STR("?: a shard that holds a part of the org did not answer\n"));
}

static void show_stats(const cl_http *http, const json_t *stats) {
    hd_buf out = {0};
    const json_t *coordinator = json_object_get(stats, "coordinator"), *shards = json_object_get(stats, "shards");
    const json_t *orgs = json_object_get(stats, "orgs");
    if (coordinator != NULL) {
        hd_buf_printf(&out, "coordinator %s, version %s, memory ", cl_http_url(http), cl_json_text(coordinator, "version"));
        cl_add_bytes(&out, get_uint(coordinator, "memory_bytes"));
        hd_buf_add_str(&out, HD_STR(", up "));
        add_seconds(&out, get_uint(coordinator, "uptime_s"));
        hd_buf_add_str(&out, HD_STR("\n\n"));
    }
    if (shards != NULL) {
        add_shards(&out, shards);
        hd_buf_add_char(&out, '\n');
    }
    if (json_array_size(orgs) > 0)
        add_orgs(&out, orgs);
    else
        hd_buf_add_str(&out, HD_STR("no orgs yet; `heddle admin org create NAME` makes one\n"));
    fwrite(out.data, 1, out.size, stdout);
    hd_buf_fini(&out);
}

/* All there is to see without an admin key. */
static void show_ready(const cl_http *http, const json_t *ready) {
    printf("coordinator %s, %llu of %llu shards alive\n", cl_http_url(http), (unsigned long long)get_uint(ready, "shards_alive"),
           (unsigned long long)get_uint(ready, "shards"));
    printf("orgs, events and memory: with --data DIR, --admin-key-file FILE or HEDDLE_ADMIN_KEY\n");
}

/* Who asks: the cluster's administrator where there is a key for it, else the holder of an org's key, else nobody. */
static hd_status connect_somehow(const cl_target *target, cl_http **http_out, bool *has_key_out, hd_error *error) {
    const char *admin_key = getenv("HEDDLE_ADMIN_KEY");
    bool is_admin = target->data != NULL || target->admin_key_file != NULL || (admin_key != NULL && admin_key[0] != '\0');
    *has_key_out = is_admin || target->key != NULL;
    if (is_admin) return cl_target_connect_admin(target, http_out, error);
    if (target->key != NULL) return cl_target_connect(target, http_out, error);
    return cl_http_new(target->url != NULL ? target->url : "http://127.0.0.1:7700", NULL, http_out, error);
}

int cl_status_run(int argc, char **argv) {
    static const char usage[] =
        "heddle status [--data DIR]\n\n"
        "Shows the shards, the orgs, their events and the memory they take, with the admin key; with an org's key of the role "
        "admin,\n"
        "that org alone; without a key, whether the shards are alive. Exit 1 where one is not.";
    cl_target target = {0};
    const hd_config_option options[] = {
        CL_OPTION_URL(target), CL_OPTION_DATA(target), CL_OPTION_ADMIN_KEY_FILE(target),
        CL_OPTION_KEY(target), CL_OPTION_JSON(target),
    };
    hd_config_list words = {0};
    hd_error error = {0};
    cl_http *http = NULL;
    cl_answer answer = {0};
    bool has_key;
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 0, 0, &target, argc, argv, &words, &code)) return code;
    hd_status status = connect_somehow(&target, &http, &has_key, &error);
    if (status == HD_OK) status = cl_call(http, "GET", has_key ? "/v1/admin/stats" : "/readyz", NULL, &answer, &error);
    if (status != HD_OK) {
        code = cl_fail(target.is_json, &error);
    } else if (has_key && !cl_answer_is_ok(&answer)) {
        code = cl_fail_answer(target.is_json, &answer);
    } else {
        size_t i;
        json_t *shard;
        if (!cl_answer_is_ok(&answer)) code = CL_EXIT_FAILED;
        json_array_foreach(json_object_get(answer.json, "shards"), i, shard) if (!json_is_true(json_object_get(shard, "alive")))
            code = CL_EXIT_FAILED;
        if (target.is_json)
            printf(HD_STR_FMT "\n", HD_STR_ARG(hd_buf_get(&answer.body)));
        else if (has_key)
            show_stats(http, answer.json);
        else
            show_ready(http, answer.json);
    }
    cl_answer_fini(&answer);
    cl_http_free(http);
    return code;
}
