/* See start_names.h. */
#include "coordinator/run/start_names.h"

#include <stdlib.h>

#include "common/ids.h"
#include "common/text.h"

hd_status co_start_names_init(co_start_names *names, hd_arena *arena, hd_label label, const hd_str *texts, uint32_t count,
                              bool is_all) {
    *names = (co_start_names){.label = label, .is_all = is_all, .count = count};
    HD_ALLOC(names->names, arena, count);
    for (uint32_t i = 0; i < count; i++) {
        co_start_name *name = &names->names[i];
        hd_id128 id;
        name->text = texts[i];
        name->ids[name->id_count++] = hd_name_id(texts[i]);
        bool is_id = label == HD_LABEL_ENTITY ? hd_entity_id_parse(texts[i], &id) : hd_tag_id_parse(texts[i], &id);
        if (is_id) name->ids[name->id_count++] = id;
    }
    return HD_OK;
}

hd_status co_start_names_groups(const co_start_names *names, hd_arena *arena, hd_name_group **groups_out,
                                uint32_t *group_count_out) {
    hd_name_group *groups;
    uint32_t total = 0;
    *group_count_out = names->count == 0 ? 0 : names->is_all ? names->count : 1;
    for (uint32_t i = 0; i < names->count; i++) total += names->names[i].id_count;
    HD_ALLOC(groups, arena, *group_count_out);
    *groups_out = groups;
    if (names->count == 0) return HD_OK;
    hd_id128 *ids;
    HD_ALLOC(ids, arena, total);
    groups[0].ids = ids;
    for (uint32_t i = 0; i < names->count; i++) {
        const co_start_name *name = &names->names[i];
        hd_name_group *group = &groups[names->is_all ? i : 0];
        if (names->is_all) group->ids = ids;
        memcpy(ids, name->ids, name->id_count * sizeof(*ids));
        ids += name->id_count;
        group->count += name->id_count;
    }
    return HD_OK;
}

uint32_t co_start_names_count(co_start_names *names, const uint64_t *counts) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < names->count; i++)
        for (uint32_t k = 0; k < names->names[i].id_count; k++)
            if (counts[at++] > 0) names->names[i].is_found = true;
    return at;
}

/* -- the fallback ------------------------------------------------------------------------------------------------------------ */

typedef struct candidate {
    uint64_t event_count;
    hd_id128 id;
    uint32_t fold;
} candidate;

/* By name asked for, then most events, then the smaller id. */
static int compare_candidates(const void *left, const void *right) {
    const candidate *a = left, *b = right;
    if (a->fold != b->fold) return a->fold < b->fold ? -1 : 1;
    if (a->event_count != b->event_count) return a->event_count > b->event_count ? -1 : 1;
    return memcmp(a->id.bytes, b->id.bytes, sizeof(a->id.bytes));
}

/* The distinct folds of the names not found; fold_of[i] is name i's. */
static hd_status make_folds(co_run *run, const co_start_names *names, hd_str **folds_out, uint32_t *count_out, uint32_t *fold_of) {
    hd_str *folds;
    uint32_t count = 0;
    HD_ALLOC(folds, run->arena, names->count);
    for (uint32_t i = 0; i < names->count; i++) {
        if (names->names[i].is_found) continue;
        hd_str fold;
        HD_TRY(hd_text_fold(run->arena, names->names[i].text, &fold));
        uint32_t k = 0;
        while (k < count && !hd_str_is_equal(folds[k], fold)) k++;
        if (k == count) folds[count++] = fold;
        fold_of[i] = k;
    }
    *folds_out = folds;
    *count_out = count;
    return HD_OK;
}

static void take_matches(co_start_names *names, co_start_name *name, const candidate *candidates, uint32_t count, uint32_t fold) {
    uint32_t matches = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (candidates[i].fold != fold) continue;
        if (matches == CO_NAME_MATCHES_MAX) {
            names->is_truncated = true;
            break;
        }
        name->ids[matches++] = candidates[i].id;
    }
    if (matches == 0) return;
    name->id_count = matches;
    name->is_found = true;
}

hd_status co_start_names_fold(co_run *run, const co_plan_step *plan_step, co_start_names *names, bool *is_changed_out) {
    uint32_t *fold_of;
    hd_step step = {.kind = HD_STEP_RESOLVE, .frontier_label = names->label};
    HD_ALLOC(fold_of, run->arena, names->count);
    HD_TRY(make_folds(run, names, &step.folded, &step.folded_count, fold_of));
    if (step.folded_count == 0) return HD_OK;
    hd_step_result result;
    co_step_outcome outcome;
    HD_TRY(co_run_step(run, plan_step, "start", &step, &result, &outcome));
    if (!outcome.is_complete) { /* another partition may have a better match, or the only exact one */
        names->is_unsure = true;
        return HD_OK;
    }
    candidate *candidates;
    HD_ALLOC(candidates, run->arena, result.names.count); /* a valid pointer for none, as qsort wants one */
    for (uint32_t i = 0; i < result.names.count; i++)
        candidates[i] = (candidate){result.names.event_count[i], result.names.ids[i], result.fold_of[i]};
    qsort(candidates, result.names.count, sizeof(*candidates), compare_candidates);
    for (uint32_t i = 0; i < names->count; i++) {
        co_start_name *name = &names->names[i];
        if (name->is_found) continue;
        take_matches(names, name, candidates, result.names.count, fold_of[i]);
        if (name->is_found)
            *is_changed_out = true;
        else if (names->is_all)
            names->is_impossible = true;
    }
    return HD_OK;
}
