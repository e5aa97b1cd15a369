/* query_memory_graph: arguments in, run/query.h does the rest. */
#include "common/text.h"
#include "coordinator/run/query.h"
#include "coordinator/tools/memory_schema.h"
#include "coordinator/tools/tool.h"

static const char *const known[] = {"query", "params", "budget", NULL};

/* Names of the caps, for a refusal. */
#define CAP(name, text, initial, kind) text ", "
static const char cap_names[] =
#include "common/budget.def"
    ;
#undef CAP

/* The caps that hold for this call: the operator's, lowered by what the caller asks for; raising one is refused. */
static hd_status read_budget(co_tool_call *call, hd_budget *budget) {
    hd_error *error = &call->fault.error;
    hd_budget_init(budget);
    budget->caps[HD_CAP_DEADLINE] = call->services->query_deadline_ms;
    const json_t *object = co_tool_get(call, "budget");
    if (object == NULL) return HD_OK;
    if (!json_is_object(object)) return hd_error_set(error, HD_ARGUMENT, "tools", "\"budget\" has to be an object of caps");
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        if (json_is_null(value)) continue;
        hd_cap cap = hd_cap_parse(hd_str_of(key));
        if (cap >= HD_CAP_COUNT) {
            return hd_error_set(error, HD_ARGUMENT, "tools", "\"budget\": there is no cap \"" HD_STR_FMT "\"; the caps are %.*s",
                                HD_STR_ARG(hd_text_prefix(hd_str_of(key), 64)), (int)sizeof(cap_names) - 3, cap_names);
        }
        json_int_t limit = json_is_integer(value) ? json_integer_value(value) : -1;
        int least = cap == HD_CAP_DEADLINE || cap == HD_CAP_ROWS; /* operators hand on one row at least */
        if (limit < least)
            return hd_error_set(error, HD_ARGUMENT, "tools", "\"budget\": %s has to be a whole number, %d or more", key, least);
        if ((uint64_t)limit > budget->caps[cap]) {
            return hd_error_set(error, HD_ARGUMENT, "tools", "\"budget\": %s can be lowered, not raised; its limit is %llu", key,
                                (unsigned long long)budget->caps[cap]);
        }
        budget->caps[cap] = (uint64_t)limit;
    }
    return HD_OK;
}

/* A parameter that is no value of the language is a fault of the query, where the query uses it. */
static hd_status read_params(co_tool_call *call, co_params *params_out) {
    *params_out = (co_params){0};
    const json_t *object = co_tool_get(call, "params");
    if (object == NULL) return HD_OK;
    if (!json_is_object(object))
        return hd_error_set(&call->fault.error, HD_ARGUMENT, "tools", "\"params\" has to be an object, names without $ to values");
    hd_str *names, *faults;
    hd_value *values;
    HD_ALLOC(names, call->arena, json_object_size(object));
    HD_ALLOC(values, call->arena, json_object_size(object));
    HD_ALLOC(faults, call->arena, json_object_size(object));
    *params_out =
        (co_params){.names = names, .values = values, .json_bytes = json_dumpb(object, NULL, 0, JSON_COMPACT), .faults = faults};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        hd_error problem = {0};
        uint32_t i = params_out->count++;
        names[i] = hd_str_of(key);
        hd_status status = co_json_to_value(call->arena, value, CO_NESTING_MAX, &values[i], &problem);
        if (status == HD_PARAMS)
            HD_TRY(hd_arena_dup(call->arena, hd_str_of(problem.message), &faults[i]));
        else
            HD_TRY(status);
    }
    return HD_OK;
}

static hd_status run(co_tool_call *call) {
    co_query_input input = {.topology = call->services->topology,
                            .wire = call->wire,
                            .org = call->org,
                            .is_client_gone = call->is_client_gone,
                            .self = call->self};
    HD_TRY(co_tool_check_known(call, known));
    HD_TRY(co_tool_get_string(call, "query", &input.text));
    HD_TRY(read_budget(call, &input.budget));
    HD_TRY(read_params(call, &input.params));
    return co_query_run(&input, call->out, &call->status_http);
}

const co_tool co_tool_query_memory_graph = {
    .name = "query_memory_graph",
    .title = "Query the memory graph",
    .description =
        "Runs one read-only query of Heddle's language (a subset of openCypher that begins with START) over the org's "
        "memory: START finds events, MATCH walks from them, RETURN gives rows. describe_memory_graph has the language on "
        "one page. The answer says whether it is complete: look at `partial`, `truncated` and `notes`.",
    .role = CO_ROLE_READ,
    .is_read_only = true,
    .is_idempotent = true,
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"query\"],\"properties\":{"
        "\"query\":{\"type\":\"string\",\"description\":\"START a = events(...) MATCH ... WHERE ... RETURN ... LIMIT n\"},"
        "\"params\":{\"type\":[\"object\",\"null\"],\"description\":\"Values of the $names, without the $.\"},"
        "\"budget\":{\"type\":[\"object\",\"null\"],\"description\":\"Caps to lower for this call, by their names in "
        "budget.caps.\",\"additionalProperties\":{\"type\":\"integer\"}}}}",
    .output_schema =
        "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{\"enum\":[\"ok\",\"error\"]},"
        "\"columns\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
        "\"rows\":{\"type\":\"array\",\"items\":{\"type\":\"array\"}},\"row_count\":{\"type\":\"integer\"},"
        "\"start\":{\"type\":\"object\"},\"partial\":{\"type\":\"boolean\"},"
        "\"truncated\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"
        "\"plan\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},\"budget\":{\"type\":\"object\"},"
        "\"notes\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
        "\"blocked_by\":{\"enum\":[\"syntax\",\"grammar\",\"params\"]},\"line\":{\"type\":\"integer\"},"
        "\"column\":{\"type\":\"integer\"}," CO_ERROR_PROPERTIES "}}",
    .run = run,
};
