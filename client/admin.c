/* heddle admin …: one call each to /v1/admin/…, with the cluster's admin key (or an org's key with the role admin, by HEDDLE_ADMIN_KEY). */
#include <stdio.h>
#include <unistd.h>

#include "client/call.h"
#include "client/command.h"
#include "client/table.h"
#include "client/terminal.h"
#include "common/text.h"

/* One command's run: options read, one call, its answer. */
typedef struct admin_call {
    cl_target target;
    cl_http *http;
    cl_answer answer;
    hd_buf path;
} admin_call;

#define ADMIN_OPTIONS(c) \
    CL_OPTION_URL((c).target), CL_OPTION_DATA((c).target), CL_OPTION_ADMIN_KEY_FILE((c).target), CL_OPTION_JSON((c).target)

/* "/v1/admin/orgs/NAME", the name as a path's piece. */
static void add_path_word(hd_buf *path, const char *word) {
    hd_buf_add_char(path, '/');
    for (const char *at = word; *at != '\0'; at++) {
        bool is_plain =
            (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || strchr("-._~", *at);
        if (is_plain)
            hd_buf_add_char(path, *at);
        else
            hd_buf_printf(path, "%%%02X", (unsigned char)*at);
    }
}

/* Connects and calls; `body` is taken, may be NULL. Returns whether the answer is fine; else *code_out is the exit code, told already. */
static bool call_admin(admin_call *c, const char *method, json_t *body, int *code_out) {
    hd_error error = {0};
    hd_status status = cl_target_connect_admin(&c->target, &c->http, &error);
    if (status == HD_OK) status = cl_call(c->http, method, c->path.data, body, &c->answer, &error);
    json_decref(body);
    *code_out = CL_EXIT_OK;
    if (status != HD_OK)
        *code_out = cl_fail(c->target.is_json, &error);
    else if (!cl_answer_is_ok(&c->answer))
        *code_out = cl_fail_answer(c->target.is_json, &c->answer);
    return *code_out == CL_EXIT_OK;
}

static int end_call(admin_call *c, int code) {
    cl_answer_fini(&c->answer);
    cl_http_free(c->http);
    hd_buf_fini(&c->path);
    return code;
}

static void print_json(const json_t *json) {
    hd_buf text = {0};
    cl_json_add(&text, json);
    printf("%s\n", text.data);
    hd_buf_fini(&text);
}

static void print_body(const admin_call *c) {
    hd_str body = hd_buf_get(&c->answer.body);
    fwrite(body.data, 1, body.size, stdout);
    putchar('\n');
}

static void print_table(cl_table *table) {
    hd_buf text = {0};
    cl_table_write(table, cl_terminal_width(STDOUT_FILENO), &text);
    fwrite(text.data, 1, text.size, stdout);
    hd_buf_fini(&text);
    cl_table_free(table);
}

static void add_uint_cell(cl_table *table, const json_t *value) {
    hd_buf text = {0};
    if (json_is_integer(value)) hd_buf_printf(&text, "%lld", (long long)json_integer_value(value));
    cl_table_add_cell(table, hd_buf_get(&text), true);
    hd_buf_fini(&text);
}

/* ---- orgs ---- */

static void add_org_columns(cl_table *table) {
    static const char *const names[] = {"org", "partitions", "dimension", "embedding", "events max", "created"};
    for (size_t i = 0; i < HD_COUNT_OF(names); i++) cl_table_add_column(table, hd_str_of(names[i]));
}

static void add_org_row(cl_table *table, const json_t *org) {
    cl_table_add_cell(table, hd_str_of(cl_json_text(org, "name")), false);
    add_uint_cell(table, json_object_get(org, "partitions"));
    add_uint_cell(table, json_object_get(org, "dimension"));
    cl_table_add_cell(table, hd_str_of(cl_json_text(org, "embedding")), false);
    add_uint_cell(table, json_object_get(org, "events_max"));
    cl_table_add_cell(table, hd_str_of(cl_json_text(org, "created_at")), false);
}

/* {"org": NAME, "key": KEY} and nothing else: what a script needs, by names that stay. */
static void print_created(const admin_call *c) {
    const char *name = cl_json_text(json_object_get(c->answer.json, "org"), "name"), *key = cl_json_text(c->answer.json, "key");
    if (!c->target.is_json) {
        fprintf(stderr, "The org %s is made. Its key, shown this once:\n", name);
        printf("%s\n", key);
        return;
    }
    json_t *line = json_pack("{s:s, s:s}", "org", name, "key", key);
    if (line != NULL) print_json(line);
    json_decref(line);
}

int cl_org_create_run(int argc, char **argv) {
    static const char usage[] =
        "heddle admin org create NAME [--partitions P] [--dimension D] [--embedding builtin|none]\n\n"
        "Makes an org and prints its first key (roles read and write), once: only its hash is kept.";
    admin_call c = {0};
    uint64_t partitions = 1, dimension = 256, events_max = 0;
    const char *embedding = "builtin";
    const hd_config_option options[] = {
        {"partitions", 'P', HD_CONFIG_COUNT, &partitions, "P", "parts the org is spread over: a power of two, 1 to 256"},
        {"dimension", 'D', HD_CONFIG_COUNT, &dimension, "D", "length of the org's vectors, 1 to 4096"},
        {"embedding", 'e', HD_CONFIG_TEXT, &embedding, "PROVIDER", "builtin (lexical, in process), or none: callers bring vectors"},
        {"events-max", 0, HD_CONFIG_COUNT, &events_max, "N", "the most events it may hold; 0: no limit"},
        ADMIN_OPTIONS(c),
    };
    hd_config_list words = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 1, 1, &c.target, argc, argv, &words, &code)) return code;
    hd_error error = {0};
    if (!hd_text_is_utf8(hd_str_of(words.items[0])) || !hd_text_is_utf8(hd_str_of(embedding))) {
        (void)hd_error_set(&error, HD_ARGUMENT, "admin", "what was given is not valid UTF-8");
        return cl_fail(c.target.is_json, &error);
    }
    json_t *body =
        json_pack("{s:s, s:I, s:I, s:s}", "name", words.items[0], "partitions", (json_int_t)HD_MIN(partitions, (uint64_t)INT32_MAX),
                  "dimension", (json_int_t)HD_MIN(dimension, (uint64_t)INT32_MAX), "embedding", embedding);
    if (events_max > 0) json_object_set_new(body, "events_max", json_integer((json_int_t)HD_MIN(events_max, (uint64_t)INT64_MAX)));
    hd_buf_add_str(&c.path, HD_STR("/v1/admin/orgs"));
    if (call_admin(&c, "POST", body, &code)) print_created(&c);
    return end_call(&c, code);
}

int cl_org_list_run(int argc, char **argv) {
    static const char usage[] = "heddle admin org list\n\nLists the orgs.";
    admin_call c = {0};
    const hd_config_option options[] = {ADMIN_OPTIONS(c)};
    hd_config_list words = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 0, 0, &c.target, argc, argv, &words, &code)) return code;
    hd_buf_add_str(&c.path, HD_STR("/v1/admin/orgs"));
    if (!call_admin(&c, "GET", NULL, &code)) return end_call(&c, code);
    if (c.target.is_json) {
        print_body(&c);
        return end_call(&c, code);
    }
    cl_table *table = cl_table_new();
    add_org_columns(table);
    size_t i;
    json_t *org;
    json_array_foreach(json_object_get(c.answer.json, "orgs"), i, org) add_org_row(table, org);
    print_table(table);
    return end_call(&c, code);
}

int cl_org_show_run(int argc, char **argv) {
    static const char usage[] = "heddle admin org show NAME\n\nShows one org.";
    admin_call c = {0};
    const hd_config_option options[] = {ADMIN_OPTIONS(c)};
    hd_config_list words = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 1, 1, &c.target, argc, argv, &words, &code)) return code;
    hd_buf_add_str(&c.path, HD_STR("/v1/admin/orgs"));
    add_path_word(&c.path, words.items[0]);
    if (!call_admin(&c, "GET", NULL, &code)) return end_call(&c, code);
    if (c.target.is_json) {
        print_body(&c);
        return end_call(&c, code);
    }
    cl_table *table = cl_table_new();
    add_org_columns(table);
    add_org_row(table, json_object_get(c.answer.json, "org"));
    print_table(table);
    return end_call(&c, code);
}

int cl_org_delete_run(int argc, char **argv) {
    static const char usage[] =
        "heddle admin org delete NAME --yes\n\n"
        "Deletes an org, its keys and all its data. There is no way back, so it has to be said twice: --yes.";
    admin_call c = {0};
    bool is_sure = false;
    const hd_config_option options[] = {
        {"yes", 'y', HD_CONFIG_SWITCH, &is_sure, NULL, "yes, delete all of it"},
        ADMIN_OPTIONS(c),
    };
    hd_config_list words = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 1, 1, &c.target, argc, argv, &words, &code)) return code;
    if (!is_sure) {
        hd_error error = {0};
        (void)hd_error_set(&error, HD_ARGUMENT, "admin", "this deletes the org %s with all its data, for good; add --yes to do it",
                           words.items[0]);
        return cl_fail(c.target.is_json, &error);
    }
    hd_buf_add_str(&c.path, HD_STR("/v1/admin/orgs"));
    add_path_word(&c.path, words.items[0]);
    if (!call_admin(&c, "DELETE", NULL, &code)) return end_call(&c, code);
    if (c.target.is_json)
        print_body(&c);
    else
        printf("The org %s is deleted.\n", words.items[0]);
    return end_call(&c, code);
}

/* ---- keys ---- */

/* "read,write" → a list; what a role may be is for the coordinator to say. */
static json_t *split_roles(const char *roles) {
    json_t *list = json_array();
    for (const char *at = roles;;) {
        size_t size = strcspn(at, ",");
        hd_str role = hd_text_trim((hd_str){at, size});
        if (role.size > 0) json_array_append_new(list, json_stringn(role.data, role.size));
        if (at[size] == '\0') return list;
        at += size + 1;
    }
}

static void add_keys_path(admin_call *c, const char *org) {
    hd_buf_add_str(&c->path, HD_STR("/v1/admin/orgs"));
    add_path_word(&c->path, org);
    hd_buf_add_str(&c->path, HD_STR("/keys"));
}

int cl_key_create_run(int argc, char **argv) {
    static const char usage[] =
        "heddle admin key create ORG NAME [--roles ROLES]\n\n"
        "Makes one more key of an org and prints it, once.";
    admin_call c = {0};
    const char *roles = "read,write";
    const hd_config_option options[] = {
        {"roles", 'r', HD_CONFIG_TEXT, &roles, "ROLES", "what the key may do: read, write, admin, joined by commas"},
        ADMIN_OPTIONS(c),
    };
    hd_config_list words = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 2, 2, &c.target, argc, argv, &words, &code)) return code;
    json_t *body = json_pack("{s:s, s:o}", "name", words.items[1], "roles", split_roles(roles));
    if (body == NULL) body = json_object(); /* a name that is not UTF-8: the coordinator says that it is missing */
    add_keys_path(&c, words.items[0]);
    if (!call_admin(&c, "POST", body, &code)) return end_call(&c, code);
    if (c.target.is_json) {
        print_body(&c);
    } else {
        fprintf(stderr, "Key %lld of %s, named %s, shown this once:\n",
                (long long)json_integer_value(json_object_get(c.answer.json, "key_id")), words.items[0], words.items[1]);
        printf("%s\n", cl_json_text(c.answer.json, "key"));
    }
    return end_call(&c, code);
}

static void add_key_row(cl_table *table, const json_t *key) {
    hd_buf roles = {0};
    size_t i;
    json_t *role;
    json_array_foreach(json_object_get(key, "roles"), i, role)
        hd_buf_printf(&roles, "%s%s", i > 0 ? ", " : "", json_string_value(role));
    add_uint_cell(table, json_object_get(key, "id"));
    cl_table_add_cell(table, hd_str_of(cl_json_text(key, "name")), false);
    cl_table_add_cell(table, hd_buf_get(&roles), false);
    cl_table_add_cell(table, hd_str_of(cl_json_text(key, "created_at")), false);
    hd_buf_fini(&roles);
}

int cl_key_list_run(int argc, char **argv) {
    static const char usage[] = "heddle admin key list ORG\n\nLists the keys of an org; their texts are not kept anywhere.";
    admin_call c = {0};
    const hd_config_option options[] = {ADMIN_OPTIONS(c)};
    static const char *const columns[] = {"id", "name", "roles", "created"};
    hd_config_list words = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 1, 1, &c.target, argc, argv, &words, &code)) return code;
    add_keys_path(&c, words.items[0]);
    if (!call_admin(&c, "GET", NULL, &code)) return end_call(&c, code);
    if (c.target.is_json) {
        print_body(&c);
        return end_call(&c, code);
    }
    cl_table *table = cl_table_new();
    for (size_t i = 0; i < HD_COUNT_OF(columns); i++) cl_table_add_column(table, hd_str_of(columns[i]));
    size_t i;
    json_t *key;
    json_array_foreach(json_object_get(c.answer.json, "keys"), i, key) add_key_row(table, key);
    print_table(table);
    return end_call(&c, code);
}

int cl_key_revoke_run(int argc, char **argv) {
    static const char usage[] =
        "heddle admin key revoke ORG KEY_ID\n\nMakes a key useless at once. `heddle admin key list ORG` tells its id.";
    admin_call c = {0};
    const hd_config_option options[] = {ADMIN_OPTIONS(c)};
    hd_config_list words = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 2, 2, &c.target, argc, argv, &words, &code)) return code;
    add_keys_path(&c, words.items[0]);
    add_path_word(&c.path, words.items[1]);
    if (!call_admin(&c, "DELETE", NULL, &code)) return end_call(&c, code);
    if (c.target.is_json)
        print_body(&c);
    else
        printf("Key %s of %s is revoked.\n", words.items[1], words.items[0]);
    return end_call(&c, code);
}
