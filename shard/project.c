/* FACTS: what is known of given events, entities or tags. RESOLVE: which entities or tags have a folded name.
 *
 * FACTS of events is aligned with the frontier; an event that is not visible in any partition visited, or that a cut kept from being
 * read, has flags 0. An event's list of entities (or tags) comes whole or not at all, since `count` and `via` of SHARES are taken
 * from it. Token: {frontier index}. RESOLVE reads names, neither postings nor edges: only the deadline cuts it. */
#include "shard/step_private.h"

static bool is_of_events(const sh_work *work) {
    return work->frontier.label == HD_LABEL_EVENT;
}

static hd_status open_facts(sh_run *run, sh_work *work) {
    const hd_step *step = work->step;
    if (!is_of_events(work)) return sh_work_align_names(run, work, work->frontier.names, step->facets & HD_FACET_TYPE);
    if ((step->facets & HD_FACET_ENTITIES) && (step->facets & HD_FACET_TAGS)) return HD_WIRE;
    work->count = work->frontier.count;
    HD_ALLOC(work->where, run->arena, work->count);
    for (uint32_t i = 0; i < work->count; i++) work->where[i] = SH_NOWHERE;
    return HD_OK;
}

/* -- of events ------------------------------------------------------------------------------------------------------------------ */
static uint8_t wanted_kinds(const hd_step *step, const sh_tag_mark *mark) {
    return mark->kinds & (step->kinds ? step->kinds : HD_KIND_CONTAINS | HD_KIND_REFERS);
}

static uint32_t count_edges(const hd_step *step, const sh_event *event) {
    if (step->facets & HD_FACET_ENTITIES) return event->entity_count;
    uint32_t count = 0;
    if (step->facets & HD_FACET_TAGS)
        for (uint32_t t = 0; t < event->tag_count; t++) count += (uint32_t)__builtin_popcount(wanted_kinds(step, &event->tags[t]));
    return count;
}

static hd_status add_edges(sh_run *run, sh_work *work, uint32_t part, uint32_t i, const sh_event *event) {
    const hd_step *step = work->step;
    uint32_t name;
    if (step->facets & HD_FACET_ENTITIES)
        for (uint32_t e = 0; e < event->entity_count; e++) {
            HD_TRY(sh_work_name(run, work, part, false, event->entities[e], &name));
            HD_TRY(sh_work_edge(run, work, i, name, 0));
        }
    if (step->facets & HD_FACET_TAGS)
        for (uint32_t t = 0; t < event->tag_count; t++) {
            uint8_t kinds = wanted_kinds(step, &event->tags[t]);
            if (kinds == 0) continue;
            HD_TRY(sh_work_name(run, work, part, true, event->tags[t].tag, &name));
            if (kinds & HD_KIND_CONTAINS) HD_TRY(sh_work_edge(run, work, i, name, HD_KIND_CONTAINS));
            if (kinds & HD_KIND_REFERS) HD_TRY(sh_work_edge(run, work, i, name, HD_KIND_REFERS));
        }
    return HD_OK;
}

static hd_status visit_events(sh_run *run, sh_work *work, uint32_t part) {
    const sh_view *view = &run->parts[part].view;
    for (uint64_t at = run->parts[part].token.at[0]; at < work->count; at++) {
        uint32_t i = (uint32_t)at;
        if (!sh_run_go_on(run, 1)) return sh_run_cut(run, part, &(sh_token){{at}});
        sh_slot slot = work->where[i] == SH_NOWHERE ? sh_frontier_slot(run, &work->frontier, i, part) : (sh_slot)SH_NONE;
        if (slot == SH_NONE) continue;
        sh_event event;
        sh_view_get_event(view, slot, &event);
        uint32_t count = count_edges(work->step, &event);
        if (count > 0 && !sh_run_take_list(run, count)) return sh_run_cut(run, part, &(sh_token){{at}});
        work->where[i] = sh_where(run, part, slot);
        HD_TRY(add_edges(run, work, part, i, &event));
    }
    return HD_OK;
}

/* event_count of the names met, over all partitions of the request that can tell. */
static void count_names(sh_run *run, sh_work *work, bool is_tag) {
    for (uint32_t n = 0; n < work->name_count; n++)
        for (uint32_t p = 0; p < run->part_count; p++) {
            if (run->parts[p].code != HD_OK || run->parts[p].is_resumed) continue;
            const sh_view *view = &run->parts[p].view;
            hd_id128 id = work->names[n].id;
            uint32_t number = is_tag ? sh_view_find_tag(view, id) : sh_view_find_entity(view, id);
            if (number == SH_NONE) continue;
            work->names[n].event_count += is_tag ? sh_view_tag_count(view, number) : sh_view_entity_count(view, number);
        }
}

/* -- of entities and tags ------------------------------------------------------------------------------------------------------- */
static hd_status merge_type(sh_run *run, hd_name_batch *batch, uint32_t index, const sh_view *view, uint32_t number) {
    hd_str type, event;
    int64_t at_us;
    if (!sh_view_entity_type(view, number, &type, &at_us, &event)) return HD_OK;
    bool is_first = !batch->types[index].data || at_us < batch->type_at_us[index] ||
                    (at_us == batch->type_at_us[index] && hd_str_compare(event, batch->type_events[index]) < 0);
    if (!is_first) return HD_OK;
    batch->type_at_us[index] = at_us;
    HD_TRY(sh_run_copy(run, type, &batch->types[index]));
    return sh_run_copy(run, event, &batch->type_events[index]);
}

static hd_status visit_names(sh_run *run, sh_work *work, uint32_t part) {
    hd_name_batch *batch = &work->result->names;
    bool is_tag = work->frontier.label == HD_LABEL_TAG;
    for (uint32_t i = 0; i < batch->count; i++) {
        uint32_t number;
        uint64_t count;
        if (!sh_run_go_on(run, 1)) return sh_run_cut(run, part, &(sh_token){{i}});
        HD_TRY(sh_work_meet_name(run, work, part, is_tag, i, &number, &count));
        if (number == SH_NONE || is_tag || !batch->types) continue;
        HD_TRY(merge_type(run, batch, i, &run->parts[part].view, number));
    }
    return HD_OK;
}

static hd_status visit_facts(sh_run *run, sh_work *work, uint32_t part) {
    return is_of_events(work) ? visit_events(run, work, part) : visit_names(run, work, part);
}

static hd_status close_facts(sh_run *run, sh_work *work) {
    const hd_step *step = work->step;
    if (!is_of_events(work)) return HD_OK;
    bool is_tag = step->facets & HD_FACET_TAGS;
    bool is_by_id = step->from_result < 0 && !step->events.locals;
    HD_TRY(sh_work_put_events(run, work, step->facets | (is_by_id ? HD_FACET_ID : 0), true));
    if (!(step->facets & (HD_FACET_ENTITIES | HD_FACET_TAGS))) return HD_OK;
    count_names(run, work, is_tag);
    HD_TRY(sh_work_put_names(run, work));
    return sh_work_put_edges(run, work, work->frontier.count, is_tag, false);
}

const sh_step_ops sh_facts_ops = {.open = open_facts, .visit = visit_facts, .close = close_facts};

/* -- RESOLVE ---------------------------------------------------------------------------------------------------------------------- */
typedef struct resolve_state {
    hd_map wanted;   /* folded name → its first index in step.folded */
    uint32_t *folds; /* by index in work.names */
    uint32_t fold_capacity;
} resolve_state;

static hd_status open_resolve(sh_run *run, sh_work *work) {
    resolve_state *state;
    HD_ALLOC(state, run->arena, 1);
    hd_map_init(&state->wanted, run->arena);
    for (uint32_t f = 0; f < work->step->folded_count; f++) {
        uint32_t first;
        bool is_new;
        HD_TRY(hd_map_put(&state->wanted, work->step->folded[f], f, &first, &is_new));
    }
    work->state = state;
    return HD_OK;
}

/* A name that matches step.folded[fold]; nothing, where no visible event has it. */
static hd_status add_match(sh_run *run, sh_work *work, uint32_t part, bool is_tag, uint32_t number, uint32_t fold) {
    resolve_state *state = work->state;
    const sh_view *view = &run->parts[part].view;
    uint64_t count = is_tag ? sh_view_tag_count(view, number) : sh_view_entity_count(view, number);
    uint32_t index;
    if (count == 0) return HD_OK;
    HD_TRY(sh_work_name(run, work, part, is_tag, number, &index));
    work->names[index].event_count += count;
    HD_TRY(sh_grow(run->arena, &state->folds, &state->fold_capacity, work->name_count, sizeof(*state->folds)));
    state->folds[index] = fold;
    return HD_OK;
}

static hd_status visit_resolve(sh_run *run, sh_work *work, uint32_t part) {
    const resolve_state *state = work->state;
    const hd_step *step = work->step;
    const sh_view *view = &run->parts[part].view;
    bool is_tag = step->frontier_label == HD_LABEL_TAG;
    uint32_t (*find)(const sh_view *, hd_str, uint32_t) = is_tag ? sh_view_find_tag_folded : sh_view_find_entity_folded;
    for (uint32_t f = 0; f < step->folded_count; f++) {
        if (hd_map_get(&state->wanted, step->folded[f]) != f) continue; /* it stood there before */
        for (uint32_t number = SH_NONE; (number = find(view, step->folded[f], number)) != SH_NONE;) {
            if (!sh_run_go_on(run, 1)) return sh_run_cut(run, part, &(sh_token){0});
            HD_TRY(add_match(run, work, part, is_tag, number, f));
        }
    }
    return HD_OK;
}

static hd_status close_resolve(sh_run *run, sh_work *work) {
    const resolve_state *state = work->state;
    HD_TRY(sh_work_put_names(run, work));
    HD_ALLOC(work->result->fold_of, run->arena, work->name_count);
    if (work->name_count > 0) memcpy(work->result->fold_of, state->folds, work->name_count * sizeof(*state->folds));
    return HD_OK;
}

const sh_step_ops sh_resolve_ops = {.open = open_resolve, .visit = visit_resolve, .close = close_resolve};
