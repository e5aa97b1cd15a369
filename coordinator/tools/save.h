/* Saving a batch of memories: what save_memory (a batch of one) and save_memories share. Each item stands or falls alone. */
#ifndef CO_TOOLS_SAVE_H
#define CO_TOOLS_SAVE_H

#include "coordinator/tools/memory_input.h"

enum { CO_SAVE_ITEMS_MAX = 500 };

typedef struct co_saved {
    hd_status status; /* HD_OK: saved, and `outcome` says how; else `fault` says why not */
    co_memory memory;
    co_fault fault;
    hd_write_outcome outcome;
} co_saved;

/* Reads, embeds, checks and writes `count` memories; *saved_out (in the call's arena) holds one result each, in order. The status is
 * HD_OK also where every single one was refused; HD_MEMORY where the call as a whole could not go on. */
HD_MUST_USE hd_status co_save_all(co_tool_call *call, const json_t *const *objects, uint32_t count, co_saved **saved_out);

/* The members of one result without the braces: of a saved one, or of its error. */
void co_save_write_members(co_json *json, const co_saved *saved);

#endif
