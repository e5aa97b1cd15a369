/* get_memory_content: one event with everything that is its own, its neighbours in its thread, and its text page by page.
 *
 * Three steps: the facts of the event (its owner), what follows and precedes it (all partitions), the types of its entities (all
 * partitions). Where the last two could not be asked of all, the answer says so in `notes` and gives null for what it does not know. */
#include "common/clock.h"
#include "common/ids.h"
#include "common/text.h"
#include "coordinator/run/fanout.h"
#include "coordinator/tools/memory_schema.h"
#include "coordinator/tools/tool.h"

enum { PAGE_CHARACTERS = 16000 };

static const char *const known[] = {"event_id", "page", NULL};

/* The event and what belongs to it, as it was gathered. */
typedef struct reading {
    co_tool_call *call;
    co_fanout *fanout;
    hd_step_result event, next, previous, types;
    hd_step_result tags;
    bool is_next_known, is_previous_known, are_types_known;
} reading;

static hd_status fail(reading *r, const co_step_outcome *outcome) {
    const struct co_cut *cut = outcome->cut_count > 0 ? &outcome->cuts[0] : NULL;
    bool is_late = cut != NULL && cut->cap == HD_CAP_DEADLINE;
    hd_str detail = cut != NULL ? cut->detail : (hd_str){0};
    return hd_error_set(&r->call->fault.error, is_late ? HD_DEADLINE : HD_SHARD_DOWN, "tools",
                        "the event's shard gave no answer%s" HD_STR_FMT, detail.size > 0 ? ": " : "", HD_STR_ARG(detail));
}

/* The facts of the event; *is_found_out. */
static hd_status read_event(reading *r, hd_str *id, bool *is_found_out) {
    hd_step step = {.kind = HD_STEP_FACTS,
                    .number = 1,
                    .from_result = -1,
                    .frontier_label = HD_LABEL_EVENT,
                    .events = {.count = 1, .ids = id},
                    .facets = HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS | HD_FACET_SUMMARY |
                              HD_FACET_CONTENT | HD_FACET_ENTITIES};
    co_step_outcome outcome = {0};
    HD_TRY(co_fanout_run(r->fanout, &step, &r->event, &outcome));
    *is_found_out = r->event.events.flags != NULL && r->event.events.flags[0] & HD_EVENT_EXISTS;
    if (!outcome.is_complete) return fail(r, &outcome);
    if (!*is_found_out) return HD_OK;
    step.number = 2;
    step.facets = HD_FACET_TAGS;
    HD_TRY(co_fanout_run(r->fanout, &step, &r->tags, &outcome));
    return outcome.is_complete ? HD_OK : fail(r, &outcome);
}

static hd_status read_neighbours(reading *r, bool is_backward, hd_step_result *result_out, bool *is_known_out) {
    hd_step step = {.kind = HD_STEP_NEXT,
                    .number = is_backward ? 4 : 3,
                    .from_result = -1,
                    .frontier_label = HD_LABEL_EVENT,
                    .relation = HD_REL_NEXT,
                    .events = r->event.events,
                    .facets = HD_FACET_TIME | HD_FACET_ORDER,
                    .is_backward = is_backward};
    step.events.summaries = step.events.contents = NULL; /* they need not travel */
    co_step_outcome outcome = {0};
    HD_TRY(co_fanout_run(r->fanout, &step, result_out, &outcome));
    *is_known_out = outcome.is_complete;
    return HD_OK;
}

static hd_status read_types(reading *r) {
    hd_step step = {.kind = HD_STEP_FACTS,
                    .number = 5,
                    .from_result = -1,
                    .frontier_label = HD_LABEL_ENTITY,
                    .names = {.count = r->event.names.count, .ids = r->event.names.ids},
                    .facets = HD_FACET_TYPE};
    r->are_types_known = true;
    if (step.names.count == 0) return HD_OK;
    co_step_outcome outcome = {0};
    HD_TRY(co_fanout_run(r->fanout, &step, &r->types, &outcome));
    r->are_types_known = outcome.is_complete && r->types.names.count == step.names.count;
    return HD_OK;
}

/* ---- writing ---- */

static void write_entities(co_json *json, const reading *r) {
    const hd_edges *edges = &r->event.edges;
    co_json_array(json);
    for (uint32_t i = 0; i < hd_edges_count(edges); i++) {
        uint32_t at = edges->to[i];
        hd_str type = r->are_types_known && r->types.names.types != NULL ? r->types.names.types[at] : (hd_str){0};
        char id[37];
        hd_entity_id_format(r->event.names.ids[at], id);
        co_json_object(json);
        co_json_member_text(json, "id", id);
        co_json_member_str(json, "name", r->event.names.names[at]);
        co_json_key(json, "type");
        if (type.data != NULL)
            co_json_str(json, type);
        else
            co_json_null(json);
        co_json_end_object(json);
    }
    co_json_end_array(json);
}

static void write_tags(co_json *json, const reading *r) {
    const hd_edges *edges = &r->tags.edges;
    co_json_array(json);
    for (uint32_t i = 0; i < hd_edges_count(edges); i++) {
        uint32_t at = edges->to[i];
        char id[37];
        hd_tag_id_format(r->tags.names.ids[at], id);
        co_json_object(json);
        co_json_member_text(json, "id", id);
        co_json_member_str(json, "name", r->tags.names.names[at]);
        co_json_member_text(json, "kind", edges->kinds[i] & HD_KIND_REFERS ? "refers" : "contains");
        co_json_end_object(json);
    }
    co_json_end_array(json);
}

static void write_neighbours(co_json *json, const hd_step_result *result, bool is_known) {
    if (!is_known) {
        co_json_null(json);
        return;
    }
    co_json_array(json);
    for (uint32_t i = 0; i < hd_edges_count(&result->edges); i++) {
        co_json_object(json);
        co_json_member_str(json, "id", result->events.ids[result->edges.to[i]]);
        co_json_member_text(json, "source", result->edges.kinds[i] & HD_SOURCE_THREAD ? "thread" : "explicit");
        co_json_end_object(json);
    }
    co_json_end_array(json);
}

static void write_event(co_json *json, const reading *r, hd_str id) {
    const hd_event_batch *e = &r->event.events;
    co_json_object(json);
    co_json_member_str(json, "id", id);
    co_json_member_str(json, "summary", e->summaries[0]);
    co_json_key(json, "timestamp");
    co_json_instant(json, e->timestamp_us[0]);
    co_json_key(json, "order_index");
    if (e->flags[0] & HD_EVENT_HAS_ORDER)
        co_json_int(json, e->order_index[0]);
    else
        co_json_null(json);
    co_json_key(json, "thread");
    if (e->flags[0] & HD_EVENT_HAS_THREAD)
        co_json_str(json, e->threads[0]);
    else
        co_json_null(json);
    co_json_key(json, "entities");
    write_entities(json, r);
    co_json_key(json, "tags");
    write_tags(json, r);
    co_json_key(json, "prev");
    write_neighbours(json, &r->previous, r->is_previous_known);
    co_json_key(json, "next");
    write_neighbours(json, &r->next, r->is_next_known);
    co_json_key(json, "resolved_by");
    co_json_array(json);
    co_json_end_array(json);
    co_json_end_object(json);
}

/* The characters of page `page` (from 1), or HD_ARGUMENT past the last. */
static hd_status cut_page(co_tool_call *call, hd_str content, uint64_t page, hd_str *text_out, uint64_t *pages_out) {
    size_t length = hd_text_length(content);
    uint64_t pages = length == 0 ? 1 : (length + PAGE_CHARACTERS - 1) / PAGE_CHARACTERS;
    *pages_out = pages;
    if (page > pages) {
        return hd_error_set(&call->fault.error, HD_ARGUMENT, "tools", "\"page\" is %llu, and the content has %llu",
                            (unsigned long long)page, (unsigned long long)pages);
    }
    size_t skip = hd_text_prefix(content, (size_t)(page - 1) * PAGE_CHARACTERS).size;
    *text_out = hd_text_prefix((hd_str){content.data + skip, content.size - skip}, PAGE_CHARACTERS);
    return HD_OK;
}

static hd_status write_answer(reading *r, hd_str id, uint64_t page) {
    hd_str content = r->event.events.contents[0], text;
    if (content.data == NULL) content = HD_STR("");
    uint64_t pages;
    HD_TRY(cut_page(r->call, content, page, &text, &pages));
    co_json json;
    co_json_init(&json, r->call->out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_member_bool(&json, "found", true);
    co_json_key(&json, "event");
    write_event(&json, r, id);
    co_json_member_str(&json, "content", text);
    co_json_member_uint(&json, "page", page);
    co_json_member_uint(&json, "pages", pages);
    co_json_key(&json, "notes");
    co_json_array(&json);
    if (!r->is_previous_known || !r->is_next_known)
        co_json_text(&json, "not every partition could be asked: prev and next that are null are not known");
    if (!r->are_types_known) co_json_text(&json, "not every partition could be asked: the types of the entities are not known");
    co_json_end_array(&json);
    co_json_end_object(&json);
    return HD_OK;
}

static void write_not_found(co_tool_call *call, hd_str id) {
    co_json json;
    co_json_init(&json, call->out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_member_bool(&json, "found", false);
    co_json_member_str(&json, "event_id", id);
    co_json_end_object(&json);
}

static hd_status read_page(co_tool_call *call, uint64_t *page_out) {
    const json_t *value = co_tool_get(call, "page");
    *page_out = value == NULL ? 1 : (uint64_t)json_integer_value(value);
    if (value == NULL || (json_is_integer(value) && json_integer_value(value) >= 1)) return HD_OK;
    return hd_error_set(&call->fault.error, HD_ARGUMENT, "tools", "\"page\" has to be a whole number, 1 or more");
}

/* All steps, over one state of the graph. */
static hd_status read_all(reading *r, hd_str *id, bool *is_found_out) {
    HD_TRY(read_event(r, id, is_found_out));
    if (!*is_found_out) return HD_OK;
    HD_TRY(read_neighbours(r, false, &r->next, &r->is_next_known));
    HD_TRY(read_neighbours(r, true, &r->previous, &r->is_previous_known));
    return read_types(r);
}

static hd_status run(co_tool_call *call) {
    reading r = {.call = call};
    hd_str id;
    uint64_t page;
    HD_TRY(co_tool_check_known(call, known));
    HD_TRY(co_tool_get_event_id(call, "event_id", &id));
    HD_TRY(read_page(call, &page));
    hd_budget budget;
    hd_budget_init(&budget);
    uint64_t deadline_us = hd_clock_monotonic_us() + call->services->query_deadline_ms * 1000;
    HD_TRY(co_fanout_new(call->arena, call->services->topology, call->wire, call->org, &budget, deadline_us, &r.fanout));
    bool is_found = false;
    hd_status status = read_all(&r, &id, &is_found);
    if (status == HD_SNAPSHOT_GONE) { /* a shard restarted in between: once more, over its new state */
        co_fanout_restart(r.fanout);
        status = read_all(&r, &id, &is_found);
    }
    HD_TRY(status);
    if (is_found) return write_answer(&r, id, page);
    write_not_found(call, id);
    return HD_OK;
}

const co_tool co_tool_get_memory_content = {
    .name = "get_memory_content",
    .title = "Read one memory",
    .description =
        "One event in full: its entities, tags, thread, neighbours and text, 16,000 characters a page. `found` is false "
        "where there is no such event.",
    .role = CO_ROLE_READ,
    .is_read_only = true,
    .is_idempotent = true,
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"event_id\"],\"properties\":{"
        "\"event_id\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9._:-]{1,64}$\"},"
        "\"page\":{\"type\":[\"integer\",\"null\"],\"minimum\":1,\"default\":1}}}",
    .output_schema =
        "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{\"enum\":[\"ok\",\"error\"]},"
        "\"found\":{\"type\":\"boolean\"},\"event\":{\"type\":\"object\"},\"content\":{\"type\":\"string\"},"
        "\"page\":{\"type\":\"integer\"},\"pages\":{\"type\":\"integer\"},"
        "\"notes\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}," CO_ERROR_PROPERTIES "}}",
    .run = run,
};
