/* What the commands that talk to a coordinator share: where it is, who asks, one call with JSON in and out, and how a failure is told. */
#ifndef CL_CALL_H
#define CL_CALL_H

#include <jansson.h>

#include "client/http.h"
#include "common/config.h"

/* Filled by the options below. `url` NULL means: what `data` says, else http://127.0.0.1:7700. */
typedef struct cl_target {
    const char *url, *key, *data, *admin_key_file;
    bool is_json;
} cl_target;

/* Rows for a command's table of options. */
#define CL_OPTION_URL(t) \
    { "url", 'u', HD_CONFIG_TEXT, &(t).url, "URL", "the coordinator (default: http://127.0.0.1:7700)" }
#define CL_OPTION_KEY(t) \
    { "key", 'k', HD_CONFIG_TEXT, &(t).key, "KEY", "the org's key; HEDDLE_KEY keeps it out of the list of processes" }
#define CL_OPTION_JSON(t) \
    { "json", 0, HD_CONFIG_SWITCH, &(t).is_json, NULL, "machine-readable output: one JSON object" }
#define CL_OPTION_DATA(t)                                                                                        \
    {                                                                                                            \
        "data", 'd', HD_CONFIG_TEXT, &(t).data, "DIR",                                                           \
            "the folder of `heddle serve` on this machine: its admin.key, and its URL unless --url says another" \
    }
#define CL_OPTION_ADMIN_KEY_FILE(t)                                                         \
    {                                                                                       \
        "admin-key-file", 0, HD_CONFIG_TEXT, &(t).admin_key_file, "FILE",                   \
            "a file that holds the cluster's admin key; HEDDLE_ADMIN_KEY is the key itself" \
    }

/* Reads a command's options; `words_max` words may stand beside them. Returns whether the command is to go on: else *code_out is its
 * exit code, and what there was to say has been said. */
bool cl_options_read(const char *usage, const hd_config_option *options, size_t option_count, size_t words_min, size_t words_max,
                     const cl_target *target, int argc, char **argv, hd_config_list *words_out, int *code_out);

/* A connection with the org's key (HD_UNAUTHORIZED: none was given), or with the admin key, which comes from --admin-key-file, --data
 * or HEDDLE_ADMIN_KEY, in this order. *http_out is the caller's to free. */
HD_MUST_USE hd_status cl_target_connect(const cl_target *target, cl_http **http_out, hd_error *error);
HD_MUST_USE hd_status cl_target_connect_admin(const cl_target *target, cl_http **http_out, hd_error *error);

typedef struct cl_answer {
    int status;   /* of HTTP */
    json_t *json; /* an object */
    hd_buf body;  /* as it came */
} cl_answer;

/* `body` may be NULL: no body. HD_OK when a JSON object came back, also one that tells an error; HD_UNAVAILABLE; HD_WIRE: something
 * else answers there. *answer_out is to be released with cl_answer_fini in every case. */
HD_MUST_USE hd_status cl_call(cl_http *http, const char *method, const char *path, const json_t *body, cl_answer *answer_out,
                              hd_error *error);
void cl_answer_fini(cl_answer *answer);
static inline bool cl_answer_is_ok(const cl_answer *answer) {
    return answer->status >= 200 && answer->status < 300;
}

/* Appends compact JSON in the order of insertion. */
void cl_json_add(hd_buf *out, const json_t *json);
/* The text of a member, "" where it is no string. Borrowed from `object`. */
const char *cl_json_text(const json_t *object, const char *name);

/* Tell a failure, of this side or of the coordinator's, and return the exit code 1: one line (and a hint) on stderr, or with `is_json`
 * the error object on stdout. */
int cl_fail(bool is_json, const hd_error *error);
int cl_fail_answer(bool is_json, const cl_answer *answer);
/* What the coordinator's error says in one line: its detail, and its hint where it has one. */
void cl_add_problem(hd_buf *out, const json_t *error);

#endif
