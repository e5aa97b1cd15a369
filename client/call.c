#include "client/call.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "client/command.h"
#include "client/data_folder.h"
#include "client/terminal.h"
#include "common/text.h"

static const char url_default[] = "http://127.0.0.1:7700";

enum { KEY_FILE_MAX = 4096 };

/* ---- options ---- */

/* --json among the words, for an error that comes before the options are read. */
static bool is_json_asked(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--json") == 0) return true;
    return false;
}

bool cl_options_read(const char *usage, const hd_config_option *options, size_t option_count, size_t words_min, size_t words_max,
                     const cl_target *target, int argc, char **argv, hd_config_list *words_out, int *code_out) {
    hd_error error = {0};
    bool is_done = false;
    *code_out = CL_EXIT_OK;
    hd_status status = hd_config_parse("heddle", usage, options, option_count, argc, argv, words_out, &is_done, &error);
    if (status == HD_OK && is_done) return false;
    if (status == HD_OK && words_out->count > words_max)
        status = hd_error_set(&error, HD_ARGUMENT, "options", "unexpected word \"%s\"; --help shows how it goes",
                              words_out->items[words_max]);
    if (status == HD_OK && words_out->count < words_min)
        status =
            hd_error_set(&error, HD_ARGUMENT, "options", "something is missing; it goes: %.*s", (int)strcspn(usage, "\n"), usage);
    if (status == HD_OK) return true;
    *code_out = cl_fail(target->is_json || is_json_asked(argc, argv), &error);
    return false;
}

/* ---- where and who ---- */

static hd_status read_key_file(const char *path, hd_buf *key_out, hd_error *error) {
    FILE *file = fopen(path, "rbe");
    if (file == NULL) return hd_error_set(error, HD_UNAUTHORIZED, "key", "cannot read the admin key %s: %s", path, strerror(errno));
    hd_buf text = {0};
    text.size = fread(hd_buf_reserve(&text, KEY_FILE_MAX), 1, KEY_FILE_MAX, file);
    bool is_bad = ferror(file) != 0 || text.size == KEY_FILE_MAX;
    fclose(file);
    hd_str key = hd_text_trim(hd_buf_get(&text));
    hd_buf_add_str(key_out, key);
    bool is_empty = key.size == 0;
    hd_buf_fini(&text);
    if (is_bad || is_empty || memchr(key_out->data, '\0', key_out->size) != NULL)
        return hd_error_set(error, HD_UNAUTHORIZED, "key", "%s holds no admin key", path);
    return HD_OK;
}

static hd_status read_admin_key(const cl_target *target, hd_buf *key_out, hd_error *error) {
    if (target->admin_key_file != NULL) return read_key_file(target->admin_key_file, key_out, error);
    if (target->data != NULL) {
        hd_buf path = {0};
        hd_buf_printf(&path, "%s/admin.key", target->data);
        hd_status status = read_key_file(path.data, key_out, error);
        hd_buf_fini(&path);
        return status;
    }
    const char *key = getenv("HEDDLE_ADMIN_KEY");
    if (key == NULL || key[0] == '\0')
        return hd_error_set(error, HD_UNAUTHORIZED, "key",
                            "the admin key is missing: give --data DIR (the folder of `heddle serve`), --admin-key-file FILE or "
                            "HEDDLE_ADMIN_KEY");
    hd_buf_add_str(key_out, hd_text_trim(hd_str_of(key)));
    return HD_OK;
}

static hd_status connect_with(const cl_target *target, const char *key, cl_http **http_out, hd_error *error) {
    hd_buf url = {0};
    if (target->url != NULL)
        hd_buf_add_str(&url, hd_str_of(target->url));
    else if (target->data == NULL || !cl_data_folder_read_url(target->data, &url))
        hd_buf_add_str(&url, hd_str_of(url_default));
    hd_status status = cl_http_new(url.data != NULL ? url.data : "", key, http_out, error);
    hd_buf_fini(&url);
    return status;
}

hd_status cl_target_connect(const cl_target *target, cl_http **http_out, hd_error *error) {
    *http_out = NULL;
    if (target->key == NULL || target->key[0] == '\0')
        return hd_error_set(error, HD_UNAUTHORIZED, "key",
                            "the org's key is missing: give --key or HEDDLE_KEY (`heddle admin org create` prints it)");
    return connect_with(target, target->key, http_out, error);
}

hd_status cl_target_connect_admin(const cl_target *target, cl_http **http_out, hd_error *error) {
    hd_buf key = {0};
    *http_out = NULL;
    hd_status status = read_admin_key(target, &key, error);
    if (status == HD_OK) status = connect_with(target, key.data, http_out, error);
    hd_buf_fini(&key);
    return status;
}

/* ---- one call ---- */

static int add_json_bytes(const char *bytes, size_t size, void *self) {
    hd_buf_add(self, bytes, size);
    return 0;
}

/* The library writes reals with 17 digits; here they have as many as it takes. */
void cl_json_add(hd_buf *out, const json_t *json) {
    const char *key;
    json_t *item;
    size_t i, count = 0;
    switch (json_typeof(json)) {
    case JSON_REAL: cl_add_real(out, json_real_value(json)); break;
    case JSON_ARRAY:
        hd_buf_add_char(out, '[');
        json_array_foreach((json_t *)(uintptr_t)json, i, item) {
            if (i > 0) hd_buf_add_char(out, ',');
            cl_json_add(out, item);
        }
        hd_buf_add_char(out, ']');
        break;
    case JSON_OBJECT:
        hd_buf_add_char(out, '{');
        json_object_foreach((json_t *)(uintptr_t)json, key, item) {
            json_t *name = json_string(key);
            if (count++ > 0) hd_buf_add_char(out, ',');
            cl_json_add(out, name);
            hd_buf_add_char(out, ':');
            cl_json_add(out, item);
            json_decref(name);
        }
        hd_buf_add_char(out, '}');
        break;
    default: HD_CHECK(json_dump_callback(json, add_json_bytes, out, JSON_COMPACT | JSON_ENCODE_ANY) == 0);
    }
}

const char *cl_json_text(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text != NULL ? text : "";
}

hd_status cl_call(cl_http *http, const char *method, const char *path, const json_t *body, cl_answer *answer_out, hd_error *error) {
    hd_buf text = {0};
    cl_http_reply reply = {0};
    *answer_out = (cl_answer){0};
    if (body != NULL) cl_json_add(&text, body);
    hd_status status = cl_http_call(http, method, path, body != NULL ? hd_buf_get(&text) : (hd_str){0}, &reply, error);
    hd_buf_fini(&text);
    HD_TRY(status);
    answer_out->status = reply.status;
    answer_out->body = reply.body;
    answer_out->json = json_loadb(hd_buf_get(&reply.body).data, reply.body.size, 0, NULL);
    if (json_is_object(answer_out->json)) return HD_OK;
    return hd_error_set(error, HD_WIRE, "http", "what answers at %s is no Heddle coordinator (HTTP %d)", cl_http_url(http),
                        reply.status);
}

void cl_answer_fini(cl_answer *answer) {
    json_decref(answer->json);
    hd_buf_fini(&answer->body);
}

/* ---- failures ---- */

int cl_fail(bool is_json, const hd_error *error) {
    const char *reason = hd_status_reason(error->code);
    if (!is_json) {
        fprintf(stderr, "heddle: %s\n", error->message);
        return CL_EXIT_FAILED;
    }
    json_t *object =
        json_pack("{s:s, s:s, s:s, s:s}", "status", "error", "error", reason, "reason", reason, "detail", error->message);
    hd_buf line = {0};
    if (object != NULL) cl_json_add(&line, object);
    printf("%s\n", line.data != NULL ? line.data : "{\"status\":\"error\"}");
    hd_buf_fini(&line);
    json_decref(object);
    return CL_EXIT_FAILED;
}

void cl_add_problem(hd_buf *out, const json_t *error) {
    const char *detail = cl_json_text(error, "detail"), *hint = cl_json_text(error, "hint");
    const char *reason = cl_json_text(error, "reason");
    cl_add_line(out, hd_str_of(detail[0] != '\0' ? detail : reason[0] != '\0' ? reason : "no reason was given"));
    if (hint[0] == '\0') return;
    hd_buf_add_str(out, HD_STR(". "));
    cl_add_line(out, hd_str_of(hint));
}

int cl_fail_answer(bool is_json, const cl_answer *answer) {
    if (is_json) {
        printf(HD_STR_FMT "\n", HD_STR_ARG(hd_buf_get(&answer->body)));
        return CL_EXIT_FAILED;
    }
    hd_buf line = {0};
    cl_add_problem(&line, answer->json);
    fprintf(stderr, "heddle: %s\n", line.data);
    hd_buf_fini(&line);
    return CL_EXIT_FAILED;
}
