/* A commit → the memory that is saved for it:
 *
 *     event_id       git:<hash>                       timestamp    commit time
 *     summary        the subject                      content      the whole message and the list of files
 *     thread, order_index   on the first-parent chain; elsewhere prev_event_id is the first parent
 *     entities       author and co-authors (person, by name), issue references (issue), files touched (file): 64 at most, in this order
 *     tags           top-level folders (contains) and top-level folders of files renamed away (refers): 32 at most
 *
 * Every commit gives one: what is too long is cut at a character, with a mark and a warning; what cannot be a name is mended. Pure. */
#ifndef CL_IMPORT_GIT_MEMORY_H
#define CL_IMPORT_GIT_MEMORY_H

#include <jansson.h>

#include "client/import/git_commit.h"

/* The coordinator's limits, in characters and items. */
enum {
    CL_SUMMARY_MAX = 500,
    CL_CONTENT_MAX = 50000,
    CL_ENTITIES_MAX = 64,
    CL_TAGS_MAX = 32,
    CL_NAME_MAX = 512,
    CL_THREAD_MAX = 200
};

typedef struct cl_git_change {
    char status;     /* A added, M modified, D deleted, R renamed, T of another type */
    hd_str path;     /* raw bytes */
    hd_str old_path; /* of a rename; else absent */
} cl_git_change;

typedef struct cl_git_event {
    const char *hash, *first_parent; /* hex; first_parent NULL: there is none, or it is not in this history */
    const cl_git_commit *commit;
    hd_str thread;       /* a name fit to be sent; absent: off the chain */
    int64_t order_index; /* with `thread` */
    const cl_git_change *changes;
    uint32_t change_count;
} cl_git_event;

typedef void cl_git_warn(void *self, hd_str warning);

/* *memory_out: a new reference. HD_MEMORY alone. */
HD_MUST_USE hd_status cl_git_memory_make(hd_arena *arena, const cl_git_event *event, cl_git_warn *warn, void *self,
                                         json_t **memory_out);
/* A name fit to be sent (UTF-8, no controls, not blank, `characters_max` at most). *is_cut_out: it was longer. In the arena. */
HD_MUST_USE hd_status cl_git_name(hd_arena *arena, hd_str bytes, hd_str encoding, size_t characters_max, hd_str *name_out,
                                  bool *is_cut_out);

#endif
