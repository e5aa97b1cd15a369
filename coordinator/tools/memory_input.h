/* One memory as a caller gives it → an event record, checked and normalised (tools.md, "Writing"). What needs other knowledge than the
 * object itself (embedding, prev_event_id's existence, quotas) is save.c's. */
#ifndef CO_TOOLS_MEMORY_INPUT_H
#define CO_TOOLS_MEMORY_INPUT_H

#include "coordinator/tools/tool.h"
#include "proto/write.h"

/* Characters are code points. Name lengths are ours: an entity may be the path of a file, the others are words. */
enum {
    CO_SUMMARY_MAX = 500,
    CO_CONTENT_MAX = 50000,
    CO_ENTITIES_MAX = 64,
    CO_TAGS_MAX = 32,
    CO_ENTITY_NAME_MAX = 512,
    CO_TAG_NAME_MAX = 512,
    CO_TYPE_MAX = 64,
    CO_THREAD_MAX = 200,
    CO_IDEMPOTENCY_KEY_MAX = 200,
};

typedef struct co_memory {
    hd_event_record event; /* strings and lists: in the arena, or borrowed from the JSON */
    bool is_replace;
    hd_str idempotency_key;
    hd_str *warnings;
    uint32_t warning_count;
} co_memory;

extern const char *const co_memory_known[]; /* the arguments of save_memory */

/* `what` names the memory in messages: "the memory", "item 3". event.id is set as soon as it is known, also where the memory is
 * refused later on. HD_ARGUMENT with the fault filled; HD_MEMORY. */
HD_MUST_USE hd_status co_memory_read(hd_arena *arena, const co_org *org, const json_t *object, const char *what,
                                     co_memory *memory_out, co_fault *fault);

/* A truncation marker in the text: "[truncated]", "<response clipped>", "…N tokens truncated…". Absent string where none. */
hd_str co_memory_find_marker(hd_str text);

#endif
