/* One line of a JSONL file → a memory to send. Pure. */
#ifndef CL_IMPORT_JSONL_H
#define CL_IMPORT_JSONL_H

#include "common/buf.h"
#include "common/status.h"

typedef struct cl_jsonl_line {
    hd_buf json;     /* the text to send: the line as it stands where possible, so that no number changes its form */
    hd_buf id;       /* its event_id; empty where an idempotency_key stands for it */
    hd_buf previous; /* its prev_event_id; empty: none */
} cl_jsonl_line;

/* Reads a line (without its end). Where it has neither an event_id nor an idempotency_key, an id is made from a hash of the line, so
 * that the same line is the same event at the next run. HD_ARGUMENT: no JSON object; the message says where it stops being one.
 * *line_out is zeroed memory, or that of an earlier line; release with cl_jsonl_line_fini. */
HD_MUST_USE hd_status cl_jsonl_read(hd_str line, cl_jsonl_line *line_out, hd_error *error);
void cl_jsonl_line_fini(cl_jsonl_line *line);

#endif
