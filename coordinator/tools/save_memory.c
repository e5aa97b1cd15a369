/* save_memory: one memory, all or nothing. */
#include "coordinator/tools/memory_schema.h"
#include "coordinator/tools/save.h"

static hd_status run(co_tool_call *call) {
    co_saved *saved;
    HD_TRY(co_save_all(call, &call->arguments, 1, &saved));
    if (saved->status != HD_OK) {
        call->fault = saved->fault;
        return saved->status;
    }
    co_json json;
    co_json_init(&json, call->out);
    co_json_object(&json);
    co_save_write_members(&json, saved);
    co_json_end_object(&json);
    return HD_OK;
}

const co_tool co_tool_save_memory = {
    .name = "save_memory",
    .title = "Save a memory",
    .description =
        "Saves one event: what happened, when, who and what took part, and what it belongs to. Name entities the way "
        "they were named before, for it is shared names that connect events. The answer means that it is on disk.",
    .role = CO_ROLE_WRITE,
    .input_schema = CO_MEMORY_SCHEMA,
    .output_schema = CO_SAVED_SCHEMA,
    .run = run,
};
