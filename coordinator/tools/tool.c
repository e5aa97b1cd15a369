/* What all tools share: the list of them, the check of arguments, the form of an error. */
#include "coordinator/tools/tool.h"

#include "common/ids.h"
#include "common/text.h"

#define TOOL(name) extern const co_tool co_tool_##name;
#include "coordinator/tools/tools.def"
#undef TOOL

const co_tool *const co_tools[] = {
#define TOOL(name) &co_tool_##name,
#include "coordinator/tools/tools.def"
#undef TOOL
};
const size_t co_tool_count = HD_COUNT_OF(co_tools);

const co_tool *co_tool_find(hd_str name) {
    for (size_t i = 0; i < co_tool_count; i++)
        if (hd_str_is_equal(hd_str_of(co_tools[i]->name), name)) return co_tools[i];
    return NULL;
}

bool co_tool_is_on(const co_services *services, const co_tool *tool) {
    for (size_t i = 0; i < services->tools_off_count; i++)
        if (strcmp(services->tools_off[i], tool->name) == 0) return false;
    return true;
}

void co_tool_write_list(const co_services *services, co_json *json) {
    co_json_array(json);
    for (size_t i = 0; i < co_tool_count; i++) {
        const co_tool *tool = co_tools[i];
        if (!co_tool_is_on(services, tool)) continue;
        co_json_object(json);
        co_json_member_text(json, "name", tool->name);
        co_json_member_text(json, "title", tool->title);
        co_json_member_text(json, "description", tool->description);
        co_json_key(json, "inputSchema");
        co_json_raw(json, hd_str_of(tool->input_schema));
        co_json_key(json, "outputSchema");
        co_json_raw(json, hd_str_of(tool->output_schema));
        co_json_key(json, "annotations");
        co_json_object(json);
        co_json_member_bool(json, "readOnlyHint", tool->is_read_only);
        co_json_member_bool(json, "idempotentHint", tool->is_idempotent);
        co_json_member_bool(json, "destructiveHint", tool->is_destructive);
        co_json_end_object(json);
        co_json_end_object(json);
    }
    co_json_end_array(json);
}

void co_fault_write_members(co_json *json, hd_status status, const co_fault *fault) {
    const char *reason = fault->reason != NULL ? fault->reason : hd_status_reason(status);
    co_json_member_text(json, "status", "error");
    co_json_member_text(json, "error", reason);
    co_json_member_text(json, "reason", reason);
    co_json_member_text(json, "detail", fault->error.message[0] != '\0' ? fault->error.message : hd_status_meaning(status));
    if (fault->hint != NULL) co_json_member_text(json, "hint", fault->hint);
    if (fault->error.outcome != NULL) co_json_member_text(json, "outcome", fault->error.outcome);
    if (fault->event_id.data != NULL) co_json_member_str(json, "event_id", fault->event_id);
}

void co_fault_write(hd_buf *out, hd_status status, const co_fault *fault) {
    co_json json;
    co_json_init(&json, out);
    co_json_object(&json);
    co_fault_write_members(&json, status, fault);
    co_json_end_object(&json);
}

/* "query, params, budget" */
static void list_known(const char *const *known, char *text_out, size_t size) {
    size_t at = 0;
    text_out[0] = '\0';
    for (size_t i = 0; known[i] != NULL; i++) {
        size_t length = strlen(known[i]);
        if (at + length + 3 > size) return;
        if (i > 0) {
            text_out[at++] = ',';
            text_out[at++] = ' ';
        }
        memcpy(text_out + at, known[i], length + 1);
        at += length;
    }
}

hd_status co_arguments_check(const json_t *object, const char *const *known, const char *what, hd_error *error) {
    const char *key;
    json_t *value;
    /* jansson's iteration takes a non-const object; nothing here changes it. */
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        bool is_known = false;
        for (size_t i = 0; known[i] != NULL && !is_known; i++) is_known = strcmp(known[i], key) == 0;
        if (is_known) continue;
        char list[256];
        list_known(known, list, sizeof(list));
        hd_str shown = hd_text_prefix(hd_str_of(key), 64);
        return hd_error_set(error, HD_ARGUMENT, "tools", "%s: unknown argument \"" HD_STR_FMT "\"; %s%s", what, HD_STR_ARG(shown),
                            list[0] != '\0' ? "the known ones are " : "there are none", list);
    }
    return HD_OK;
}

const json_t *co_arguments_get(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return value == NULL || json_is_null(value) ? NULL : value;
}

hd_status co_tool_check_known(co_tool_call *call, const char *const *known) {
    return co_arguments_check(call->arguments, known, "the call", &call->fault.error);
}

const json_t *co_tool_get(const co_tool_call *call, const char *name) {
    return co_arguments_get(call->arguments, name);
}

hd_status co_tool_get_string(co_tool_call *call, const char *name, hd_str *text_out) {
    const json_t *value = co_tool_get(call, name);
    if (value == NULL) return hd_error_set(&call->fault.error, HD_ARGUMENT, "tools", "the argument \"%s\" is missing", name);
    if (!json_is_string(value)) return hd_error_set(&call->fault.error, HD_ARGUMENT, "tools", "\"%s\" has to be a string", name);
    *text_out = (hd_str){json_string_value(value), json_string_length(value)};
    return HD_OK;
}

hd_status co_tool_get_event_id(co_tool_call *call, const char *name, hd_str *id_out) {
    HD_TRY(co_tool_get_string(call, name, id_out));
    if (hd_event_id_is_valid(*id_out)) return HD_OK;
    return hd_error_set(&call->fault.error, HD_ARGUMENT, "tools",
                        "\"%s\" is no event id: 1 to %d characters of A-Z a-z 0-9 . _ : -", name, HD_EVENT_ID_MAX);
}
