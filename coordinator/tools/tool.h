/* A tool: its name, its words for a model, its schemas, its checks, its answer. One file a tool; tools.def lists them. */
#ifndef CO_TOOLS_TOOL_H
#define CO_TOOLS_TOOL_H

#include "coordinator/cluster/topology.h"
#include "coordinator/front/json.h"

/* What the process has, for any thread. */
typedef struct co_services {
    co_catalog *catalog;
    co_topology *topology;
    uint64_t write_timeout_ms;
    uint64_t query_deadline_ms;   /* the operator's ceiling */
    uint64_t started_us;          /* monotonic */
    const char *const *tools_off; /* names of tools that the operator switched off */
    size_t tools_off_count;
} co_services;

/* Why a call (or one item of it) was refused or failed, in full: the error object of tools.md. Zero it before use. */
typedef struct co_fault {
    hd_error error;
    const char *reason; /* static; where it is more telling than the status's own, else NULL */
    const char *hint;   /* static; what to do instead, else NULL */
    hd_str event_id;    /* to ask or save again with, where the outcome is unknown; else absent */
} co_fault;
/* The members of the error object, without the braces: status, error, reason, detail, and hint, outcome, event_id where known. */
void co_fault_write_members(co_json *json, hd_status status, const co_fault *fault);
/* The whole object. */
void co_fault_write(hd_buf *out, hd_status status, const co_fault *fault);

typedef struct co_tool_call {
    const co_services *services;
    hd_wire_client *wire; /* this thread's */
    co_principal principal;
    const co_org *org;       /* the caller's, held for the call */
    const json_t *arguments; /* an object; borrowed until the call is over, its strings too */
    hd_arena *arena;         /* of the call */
    hd_buf *out;             /* the answer: one JSON object */
    int status_http;         /* 200 unless the tool says otherwise */
    co_fault fault;
    bool (*is_client_gone)(void *self);
    void *self;
} co_tool_call;

typedef struct co_tool {
    const char *name, *title, *description;
    uint32_t role; /* co_role the caller needs */
    bool is_read_only, is_idempotent, is_destructive;
    const char *input_schema;  /* JSON text */
    const char *output_schema; /* JSON text */
    /* Writes the answer to call->out. On a status that is not OK nothing was written that counts: the caller clears it and writes
     * call->fault instead. */
    hd_status (*run)(co_tool_call *call);
} co_tool;

extern const co_tool *const co_tools[];
extern const size_t co_tool_count;
/* NULL: no such tool. */
const co_tool *co_tool_find(hd_str name);
/* The list that clients are shown: name, title, description, inputSchema, outputSchema, annotations of every tool that is on. */
void co_tool_write_list(const co_services *services, co_json *json);
bool co_tool_is_on(const co_services *services, const co_tool *tool);

/* Every tool's first check: every member of the arguments is one of `known` (NULL-terminated), else HD_ARGUMENT that names it and
 * lists the known ones. A JSON null stands for absent: co_tool_get gives NULL for it. */
HD_MUST_USE hd_status co_tool_check_known(co_tool_call *call, const char *const *known);
const json_t *co_tool_get(const co_tool_call *call, const char *name);
/* The same for any object. `what` names it in the message: "item 3", "an entity". */
HD_MUST_USE hd_status co_arguments_check(const json_t *object, const char *const *known, const char *what, hd_error *error);
const json_t *co_arguments_get(const json_t *object, const char *name);

/* A string argument, borrowed; HD_ARGUMENT where it is missing or no string. */
HD_MUST_USE hd_status co_tool_get_string(co_tool_call *call, const char *name, hd_str *text_out);
/* An event's id, checked for its form. */
HD_MUST_USE hd_status co_tool_get_event_id(co_tool_call *call, const char *name, hd_str *id_out);

#endif
