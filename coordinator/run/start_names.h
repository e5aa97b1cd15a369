/* From the names of a START to groups of entities and tags: exactly or as an id first, by NFKC_Casefold where nothing matches
 * (language.md section 3, "Names"). */
#ifndef CO_RUN_START_NAMES_H
#define CO_RUN_START_NAMES_H

#include "coordinator/run/run.h"

enum { CO_NAME_MATCHES_MAX = 20 };

/* One name of the query, or one of its ids, and what it stands for. */
typedef struct co_start_name {
    hd_str text;
    hd_id128 ids[CO_NAME_MATCHES_MAX];
    uint32_t id_count;
    bool is_found; /* something live has it */
} co_start_name;

/* The names of `entity`/`entity_all` or of `tag`/`tag_all`. */
typedef struct co_start_names {
    hd_label label;
    bool is_all;
    co_start_name *names;
    uint32_t count;
    bool is_truncated;  /* a name matched more than CO_NAME_MATCHES_MAX nodes */
    bool is_unsure;     /* the fallback could not be asked everywhere */
    bool is_impossible; /* an *_all with a name that matches nothing */
} co_start_names;

HD_MUST_USE hd_status co_start_names_init(co_start_names *names, hd_arena *arena, hd_label label, const hd_str *texts,
                                          uint32_t count, bool is_all);
/* The groups for a START step: one for any-of, one a name for all-of. */
HD_MUST_USE hd_status co_start_names_groups(const co_start_names *names, hd_arena *arena, hd_name_group **groups_out,
                                            uint32_t *group_count_out);
/* Takes the event counts that came back for the groups' ids, in order; returns how many counts that were. */
uint32_t co_start_names_count(co_start_names *names, const uint64_t *counts);
/* Looks for those that were not found by folding; *is_changed_out: the groups are now others. Cuts are entered, and make the names unsure. */
HD_MUST_USE hd_status co_start_names_fold(co_run *run, const co_plan_step *plan_step, co_start_names *names, bool *is_changed_out);

#endif
