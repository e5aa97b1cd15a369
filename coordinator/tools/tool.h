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
    uint64_t query_deadline_ms; /* the operator's ceiling */
} co_services;

typedef struct co_tool_call {
    const co_services *services;
    hd_wire_client *wire; /* this thread's */
    co_principal principal;
    const co_org *org;       /* the caller's, held for the call */
    const json_t *arguments; /* an object */
    hd_arena *arena;         /* of the call */
    hd_buf *out;             /* the answer: one JSON object */
    int status_http;         /* 200 unless the tool says otherwise */
    hd_error *error;
    bool (*is_client_gone)(void *self);
    void *self;
} co_tool_call;

typedef struct co_tool {
    const char *name, *title, *description;
    uint32_t role; /* co_role the caller needs */
    bool is_read_only, is_idempotent, is_destructive;
    const char *input_schema;  /* JSON text */
    const char *output_schema; /* JSON text */
    /* On a status that is not OK the caller writes {status: "error", error, reason, detail} from call->error. */
    hd_status (*run)(co_tool_call *call);
} co_tool;

extern const co_tool *const co_tools[];
extern const size_t co_tool_count;
/* NULL: no such tool. */
const co_tool *co_tool_find(hd_str name);

/* Every tool's first check: every member of the arguments is one of `known` (NULL-terminated), else HD_ARGUMENT that names it and
 * lists the known ones. A JSON null stands for absent: co_tool_get gives NULL for it. */
HD_MUST_USE hd_status co_tool_check_known(const co_tool_call *call, const char *const *known);
const json_t *co_tool_get(const co_tool_call *call, const char *name);

#endif
