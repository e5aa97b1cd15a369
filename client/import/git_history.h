/* A repository's history, oldest first (the only user of libgit2, with the command above it): which commits there are, which of them
 * are the first-parent chain, what each of them changed. Reads objects alone: no working tree, no configuration is obeyed. */
#ifndef CL_IMPORT_GIT_HISTORY_H
#define CL_IMPORT_GIT_HISTORY_H

#include "client/import/git_memory.h"

typedef struct cl_git_history cl_git_history;

/* Everything reachable from `ref` (a branch, tag or commit; NULL: HEAD) in the repository that holds `path`. HD_ARGUMENT: no
 * repository, no such ref, no commits; HD_STORE_CORRUPT: the newest commit cannot be read. */
HD_MUST_USE hd_status cl_git_history_open(const char *path, const char *ref, cl_git_history **history_out, hd_error *error);
void cl_git_history_free(cl_git_history *history);

uint32_t cl_git_history_count(const cl_git_history *history);
/* Parents that are named and not there (a shallow clone): their children stand as if they had none. */
uint32_t cl_git_history_missing(const cl_git_history *history);
/* "repository/branch": the default name of the thread. */
const char *cl_git_history_name(const cl_git_history *history);

/* Commit `index`, parents before children: its hash (NUL-terminated, 41 bytes). */
void cl_git_history_hash(const cl_git_history *history, uint32_t index, char hash_out[CL_GIT_HASH_TEXT + 1]);
/* Fills the event (but for `thread`, whose presence is *is_on_chain_out; order_index is its place in the chain, 1 the oldest). What
 * cannot be read is left out and said by `warn`. All in the arena. */
HD_MUST_USE hd_status cl_git_history_read(cl_git_history *history, uint32_t index, hd_arena *arena, cl_git_warn *warn, void *self,
                                          cl_git_event *event_out, bool *is_on_chain_out);

#endif
