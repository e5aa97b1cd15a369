#include "client/import/import.h"

#include <stdio.h>
#include <unistd.h>

#include "client/command.h"
#include "client/terminal.h"
#include "common/clock.h"
#include "common/text.h"

enum {
    REPORTS_MAX = 10000, /* kept for --json; all are told on stderr */
    BACKOFF_MS = 200,
};

struct cl_import {
    const cl_import_options *options;
    cl_http *http;
    cl_sender *sender;
    cl_progress progress;
    const char *unit;
    uint64_t added, replaced, already_there, refused, warned;
    double fraction;
    bool is_stopped; /* --strict met a refusal */
    json_t *refusals, *warnings;
    uint64_t began_us;
};

/* ---- reports ---- */

static void keep_report(json_t *list, hd_str place, uint64_t number, const char *name, hd_str text) {
    if (json_array_size(list) >= REPORTS_MAX) return;
    json_t *report = json_object();
    json_object_set_new(report, "at", json_stringn(place.data, place.size));
    if (number > 0) json_object_set_new(report, "line", json_integer((json_int_t)number));
    json_object_set_new(report, name, json_stringn(text.data, text.size));
    json_array_append_new(list, report);
}

static void say(cl_import *import, hd_str place, const char *kind, hd_str text) {
    hd_buf line = {0};
    cl_add_line(&line, place);
    hd_buf_printf(&line, ": %s", kind);
    cl_add_line(&line, text);
    cl_progress_say(&import->progress, hd_buf_get(&line));
    hd_buf_fini(&line);
}

void cl_import_warn(cl_import *import, hd_str place, uint64_t number, hd_str what) {
    import->warned++;
    say(import, place, "warning: ", what);
    keep_report(import->warnings, place, number, "warning", what);
}

static void note_refusal(cl_import *import, hd_str place, uint64_t number, const char *why) {
    import->refused++;
    say(import, place, "refused: ", hd_str_of(why));
    keep_report(import->refusals, place, number, "detail", hd_str_of(why));
    if (import->options->is_strict) import->is_stopped = true;
}

static uint64_t count_done(const cl_import *import) {
    return import->added + import->replaced + import->already_there + import->refused;
}

static void take_outcome(void *self, const cl_memory *memory, cl_outcome outcome, const char *why, const json_t *warnings) {
    cl_import *import = self;
    size_t i;
    json_t *warning;
    switch (outcome) {
    case CL_OUTCOME_ADDED: import->added++; break;
    case CL_OUTCOME_REPLACED: import->replaced++; break;
    case CL_OUTCOME_ALREADY_THERE: import->already_there++; break;
    case CL_OUTCOME_REFUSED: note_refusal(import, memory->place, memory->number, why); break;
    }
    json_array_foreach((json_t *)(uintptr_t)warnings, i, warning)
        cl_import_warn(import, memory->place, memory->number, (hd_str){json_string_value(warning), json_string_length(warning)});
    cl_progress_update(&import->progress, count_done(import), import->fraction);
}

/* ---- the import ---- */

static hd_status check_options(const cl_import_options *o, hd_error *error) {
    if (o->batch < 1 || o->batch > 500) return hd_error_set(error, HD_ARGUMENT, "import", "--batch is 1 to 500");
    if (o->in_flight < 1 || o->in_flight > 16) return hd_error_set(error, HD_ARGUMENT, "import", "--in-flight is 1 to 16");
    return HD_OK;
}

hd_status cl_import_new(const cl_import_options *options, const char *unit, uint64_t total, cl_import **import_out,
                        hd_error *error) {
    cl_http *http;
    *import_out = NULL;
    HD_TRY(check_options(options, error));
    HD_TRY(cl_target_connect(&options->target, &http, error));
    cl_import *import = hd_alloc_zero(1, sizeof(*import));
    cl_sender_options sending = {.batch_items_max = (uint32_t)options->batch,
                                 .in_flight_max = (uint32_t)options->in_flight,
                                 .retry_ms = options->retry_ms,
                                 .backoff_ms = BACKOFF_MS};
    *import = (cl_import){.options = options,
                          .http = http,
                          .unit = unit,
                          .fraction = -1,
                          .refusals = json_array(),
                          .warnings = json_array(),
                          .began_us = hd_clock_monotonic_us()};
    import->sender = cl_sender_new(http, &sending, take_outcome, import);
    cl_progress_init(&import->progress, unit, total);
    *import_out = import;
    return HD_OK;
}

static hd_status check_stopped(const cl_import *import, hd_error *error) {
    if (!import->is_stopped) return HD_OK;
    return hd_error_set(error, HD_CANCELLED, "import", "stopped at the first refusal, as --strict asks");
}

hd_status cl_import_add(cl_import *import, const cl_memory *memory, double fraction, hd_error *error) {
    import->fraction = fraction;
    HD_TRY(cl_sender_add(import->sender, memory, error));
    cl_progress_update(&import->progress, count_done(import), fraction);
    return check_stopped(import, error);
}

static hd_status settle(cl_import *import, hd_error *error) {
    HD_TRY(cl_sender_finish(import->sender, error));
    return check_stopped(import, error);
}

hd_status cl_import_refuse(cl_import *import, hd_str place, uint64_t number, const char *why, hd_error *error) {
    /* The first refusal is the first in the source: what stands before it has its answer by then. */
    if (import->options->is_strict) HD_TRY(settle(import, error));
    note_refusal(import, place, number, why);
    return check_stopped(import, error);
}

void cl_import_skip(cl_import *import, uint64_t count) {
    import->already_there += count;
    cl_progress_update(&import->progress, count_done(import), import->fraction);
}

/* ---- the end ---- */

static void print_summary(const cl_import *import, uint64_t ms) {
    hd_buf text = {0};
    cl_add_number(&text, import->added);
    hd_buf_printf(&text, " %s added", import->unit);
    if (import->replaced > 0) {
        hd_buf_add_str(&text, HD_STR(", "));
        cl_add_number(&text, import->replaced);
        hd_buf_add_str(&text, HD_STR(" replaced"));
    }
    hd_buf_add_str(&text, HD_STR(", "));
    cl_add_number(&text, import->already_there);
    hd_buf_add_str(&text, HD_STR(" already there, "));
    cl_add_number(&text, import->refused);
    hd_buf_add_str(&text, HD_STR(" refused"));
    if (import->warned > 0) {
        hd_buf_add_str(&text, HD_STR(", "));
        cl_add_number(&text, import->warned);
        hd_buf_add_str(&text, import->warned == 1 ? HD_STR(" warning") : HD_STR(" warnings"));
    }
    hd_buf_printf(&text, "; %.1f s, ", (double)ms / 1000);
    cl_add_number(&text, ms > 0 ? count_done(import) * 1000 / ms : 0);
    hd_buf_add_str(&text, HD_STR("/s"));
    printf("%s\n", text.data);
    fflush(stdout);
    hd_buf_fini(&text);
}

static void print_json(const cl_import *import, hd_status status, const hd_error *error, uint64_t ms) {
    json_t *object =
        json_pack("{s:s, s:I, s:I, s:I, s:I, s:O, s:I, s:O, s:f}", "status", status == HD_OK ? "ok" : "error", "added",
                  (json_int_t)import->added, "replaced", (json_int_t)import->replaced, "already_there",
                  (json_int_t)import->already_there, "refused", (json_int_t)import->refused, "refusals", import->refusals, "warned",
                  (json_int_t)import->warned, "warnings", import->warnings, "seconds", (double)ms / 1000);
    HD_CHECK(object != NULL);
    if (status != HD_OK) {
        json_object_set_new(object, "error", json_string(hd_status_reason(status)));
        json_object_set_new(object, "reason", json_string(hd_status_reason(status)));
        json_object_set_new(object, "detail", json_string(error->message));
    }
    hd_buf text = {0};
    cl_json_add(&text, object);
    printf("%s\n", text.data);
    fflush(stdout);
    hd_buf_fini(&text);
    json_decref(object);
}

int cl_import_finish(cl_import *import, const cl_import_options *options, hd_status status, hd_error *error) {
    if (import == NULL) return cl_fail(options->target.is_json, error);
    if (status == HD_OK) status = settle(import, error);
    if (status != HD_OK) cl_sender_drain(import->sender);
    cl_progress_end(&import->progress);
    uint64_t ms = (hd_clock_monotonic_us() - import->began_us) / 1000;
    if (status != HD_OK && !options->target.is_json) fprintf(stderr, "heddle: %s\n", error->message);
    if (options->target.is_json)
        print_json(import, status, error, ms);
    else
        print_summary(import, ms);
    int code = status == HD_OK && import->refused == 0 ? CL_EXIT_OK : CL_EXIT_FAILED;
    cl_http_free(import->http); /* first: what is in flight borrows from the sender */
    cl_sender_free(import->sender);
    json_decref(import->refusals);
    json_decref(import->warnings);
    hd_free(import);
    return code;
}
