/* heddle import git: a repository's history, a commit an event. Commits that are there already are asked for 200 at a time, and
 * neither compared nor sent again: a second run costs a query for every 200. */
#include <stdio.h>
#include <unistd.h>

#include "client/command.h"
#include "client/import/git_history.h"
#include "client/import/import.h"
#include "client/terminal.h"
#include "common/text.h"

enum {
    ASK_MAX = 200, /* ids that one query takes */
    SHORT_HASH = 10,
};

typedef struct git_import {
    cl_git_history *history;
    cl_import *import;
    cl_http *asking; /* a connection of its own, as the import's may be busy */
    hd_arena *arena; /* of one commit */
    hd_str thread;
    hd_buf json;
    char place[32]; /* of the commit at hand: "commit 0123456789" */
} git_import;

static void take_warning(void *self, hd_str warning) {
    git_import *g = self;
    cl_import_warn(g->import, hd_str_of(g->place), 0, warning);
}

/* ---- what is there already ---- */

/* Marks those of the `count` commits from `first` on that the org has. Where that cannot be had, none: they are sent, and found there. */
static void ask_known(git_import *g, uint32_t first, uint32_t count, bool *is_known_out) {
    json_t *ids = json_array();
    for (uint32_t i = 0; i < count; i++) {
        char id[4 + CL_GIT_HASH_TEXT + 1] = "git:";
        cl_git_history_hash(g->history, first + i, id + 4);
        json_array_append_new(ids, json_string(id));
        is_known_out[i] = false;
    }
    json_t *body = json_pack("{s:s, s:{s:o}}", "query", "START a = events(ids: $ids) RETURN a.id LIMIT 200", "params", "ids", ids);
    cl_answer answer = {0};
    hd_error ignored = {0};
    size_t r;
    json_t *row;
    if (body != NULL && cl_call(g->asking, "POST", "/v1/tools/query_memory_graph", body, &answer, &ignored) == HD_OK) {
        uint32_t at = 0; /* rows come in the order of the ids */
        json_array_foreach(json_object_get(answer.json, "rows"), r, row) {
            const char *id = json_string_value(json_array_get(row, 0));
            char hash[CL_GIT_HASH_TEXT + 1];
            for (bool is_found = false; id != NULL && !is_found && at < count; at++) {
                cl_git_history_hash(g->history, first + at, hash);
                is_found = is_known_out[at] = strcmp(id + HD_MIN(strlen(id), (size_t)4), hash) == 0;
            }
        }
    }
    cl_answer_fini(&answer);
    json_decref(body);
}

/* ---- one commit ---- */

static hd_status send_commit(git_import *g, const cl_git_event *event, hd_error *error) {
    json_t *object;
    char id[64], previous[64];
    HD_TRY(cl_git_memory_make(g->arena, event, take_warning, g, &object));
    hd_buf_clear(&g->json);
    cl_json_add(&g->json, object);
    json_decref(object);
    snprintf(id, sizeof(id), "git:%s", event->hash);
    cl_memory memory = {.json = hd_buf_get(&g->json), .id = hd_str_of(id), .place = hd_str_of(g->place)};
    if (event->thread.data == NULL && event->first_parent != NULL) {
        snprintf(previous, sizeof(previous), "git:%s", event->first_parent);
        memory.previous = hd_str_of(previous);
    }
    return cl_import_add(g->import, &memory, -1, error);
}

static hd_status import_commit(git_import *g, uint32_t index, hd_error *error) {
    char hash[CL_GIT_HASH_TEXT + 1];
    cl_git_event event;
    bool is_on_chain;
    cl_git_history_hash(g->history, index, hash);
    snprintf(g->place, sizeof(g->place), "commit %.*s", SHORT_HASH, hash);
    hd_status status = cl_git_history_read(g->history, index, g->arena, take_warning, g, &event, &is_on_chain);
    if (status == HD_STORE_CORRUPT) return cl_import_refuse(g->import, hd_str_of(g->place), 0, "it cannot be read any more", error);
    if (status == HD_OK && is_on_chain) event.thread = g->thread;
    if (status == HD_OK) status = send_commit(g, &event, error);
    if (status == HD_MEMORY) return hd_error_set(error, status, "git", "commit %s takes too much memory", hash);
    return status;
}

static hd_status import_history(git_import *g, hd_error *error) {
    uint32_t count = cl_git_history_count(g->history);
    bool is_known[ASK_MAX];
    for (uint32_t first = 0; first < count; first += ASK_MAX) {
        uint32_t asked = HD_MIN(count - first, (uint32_t)ASK_MAX);
        ask_known(g, first, asked, is_known);
        for (uint32_t i = 0; i < asked; i++) {
            if (is_known[i]) {
                cl_import_skip(g->import, 1);
                continue;
            }
            HD_TRY(import_commit(g, first + i, error));
            hd_arena_reset(g->arena);
        }
    }
    return HD_OK;
}

/* ---- the command ---- */

static hd_status make_thread(git_import *g, hd_arena *arena, const char *given, hd_error *error) {
    const char *name = given != NULL ? given : cl_git_history_name(g->history);
    bool is_cut;
    if (given != NULL && (!hd_text_is_utf8(hd_str_of(given)) || hd_text_trim(hd_str_of(given)).size == 0))
        return hd_error_set(error, HD_ARGUMENT, "git", "--thread: the name of a thread is text in UTF-8, not blank");
    HD_TRY(cl_git_name(arena, hd_str_of(name), (hd_str){0}, CL_THREAD_MAX, &g->thread, &is_cut));
    if (!is_cut || given == NULL) return HD_OK;
    return hd_error_set(error, HD_ARGUMENT, "git", "--thread: over %d characters", CL_THREAD_MAX);
}

static void tell_missing(git_import *g) {
    uint32_t missing = cl_git_history_missing(g->history);
    char text[160];
    if (missing == 0) return;
    snprintf(text, sizeof(text),
             "%u commits that others name as parents are not here (a shallow clone?); the history begins after them", missing);
    cl_import_warn(g->import, HD_STR("repository"), 0, hd_str_of(text));
}

static hd_status prepare(git_import *g, hd_arena *arena, const cl_import_options *o, const char *path, const char *ref,
                         const char *thread, hd_error *error) {
    HD_TRY(cl_git_history_open(path, ref, &g->history, error));
    HD_TRY(make_thread(g, arena, thread, error));
    HD_TRY(cl_target_connect(&o->target, &g->asking, error));
    HD_TRY(cl_import_new(o, "commits", cl_git_history_count(g->history), &g->import, error));
    tell_missing(g);
    return HD_OK;
}

int cl_import_git_run(int argc, char **argv) {
    static const char usage[] =
        "heddle import git PATH [--ref REF]\n\n"
        "Saves the history of a git repository: every commit reachable from REF becomes an event, oldest first, with its author,\n"
        "co-authors, issues and files as entities and its folders as tags. The first-parent chain is one thread. A second run "
        "adds\n"
        "only what is new. Exit: 0 all is there, 1 something was refused or it stopped.";
    cl_import_options o = CL_IMPORT_DEFAULTS;
    const char *ref = NULL, *thread = NULL;
    const hd_config_option options[] = {
        {"ref", 0, HD_CONFIG_TEXT, &ref, "REF", "the branch, tag or commit to begin from (default: HEAD)"},
        {"thread", 0, HD_CONFIG_TEXT, &thread, "NAME", "the thread of the first-parent chain (default: repository/branch)"},
        CL_IMPORT_OPTIONS(o),
    };
    hd_config_list words = {0};
    hd_error error = {0};
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 1, 1, &o.target, argc, argv, &words, &code)) return code;
    hd_arena *arena = hd_arena_new(0);
    git_import g = {.arena = hd_arena_new(0)};
    hd_status status = prepare(&g, arena, &o, words.items[0], ref, thread, &error);
    if (status == HD_OK) status = import_history(&g, &error);
    code = cl_import_finish(g.import, &o, status, &error);
    cl_http_free(g.asking);
    cl_git_history_free(g.history);
    hd_buf_fini(&g.json);
    hd_arena_free(g.arena);
    hd_arena_free(arena);
    return code;
}
