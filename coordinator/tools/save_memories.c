/* save_memories: up to 500 memories; one result each, in order. */
#include "coordinator/tools/memory_schema.h"
#include "coordinator/tools/save.h"

static const char *const known[] = {"memories", NULL};

static hd_status get_memories(co_tool_call *call, const json_t ***objects_out, uint32_t *count_out) {
    hd_error *error = &call->fault.error;
    HD_TRY(co_tool_check_known(call, known));
    const json_t *list = co_tool_get(call, "memories");
    if (list == NULL) return hd_error_set(error, HD_ARGUMENT, "tools", "the argument \"memories\" is missing");
    if (!json_is_array(list)) return hd_error_set(error, HD_ARGUMENT, "tools", "\"memories\" has to be a list of memories");
    size_t count = json_array_size(list);
    if (count > CO_SAVE_ITEMS_MAX) {
        call->fault.hint = "Save them in several calls.";
        return hd_error_set(error, HD_ARGUMENT, "tools", "%zu memories were given; %d are allowed in one call", count,
                            CO_SAVE_ITEMS_MAX);
    }
    HD_ALLOC(*objects_out, call->arena, count);
    for (size_t i = 0; i < count; i++) (*objects_out)[i] = json_array_get(list, i);
    *count_out = (uint32_t)count;
    return HD_OK;
}

static hd_status run(co_tool_call *call) {
    const json_t **objects = NULL;
    uint32_t count = 0;
    co_saved *saved;
    HD_TRY(get_memories(call, &objects, &count));
    HD_TRY(co_save_all(call, objects, count, &saved));
    co_json json;
    co_json_init(&json, call->out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_key(&json, "results");
    co_json_array(&json);
    for (uint32_t i = 0; i < count; i++) {
        co_json_object(&json);
        co_save_write_members(&json, &saved[i]);
        co_json_end_object(&json);
    }
    co_json_end_array(&json);
    co_json_end_object(&json);
    return HD_OK;
}

const co_tool co_tool_save_memories = {
    .name = "save_memories",
    .title = "Save many memories",
    .description =
        "Saves up to 500 events in one call. Each stands or falls alone: look at every result. prev_event_id may name an "
        "earlier item of the same call.",
    .role = CO_ROLE_WRITE,
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"memories\"],\"properties\":{\"memories\":{"
        "\"type\":\"array\",\"maxItems\":500,\"items\":" CO_MEMORY_SCHEMA "}}}",
    .output_schema =
        "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{\"enum\":[\"ok\",\"error\"]},\"results\":{"
        "\"type\":\"array\",\"items\":" CO_SAVED_SCHEMA "}," CO_ERROR_PROPERTIES "}}",
    .run = run,
};
