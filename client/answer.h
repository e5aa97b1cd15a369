/* An answer of query_memory_graph (language.md section 7) for people: table, CSV, completeness in words, a rejection with its place.
 * Everything here is text out of JSON: no connection, no terminal. */
#ifndef CL_ANSWER_H
#define CL_ANSWER_H

#include <jansson.h>

#include "common/buf.h"

/* A value on one line, small: an event as its summary and time, an entity or a tag as its name, a list joined, a relation's properties
 * as "count 3, weight 4.5". Not reversible: JSON is for machines. */
void cl_answer_add_value(hd_buf *out, const json_t *value);

/* The rows as a table. Returns whether a cell was cut to the width. */
bool cl_answer_add_table(hd_buf *out, const json_t *answer, size_t width);
/* The steps of the plan as a table. */
void cl_answer_add_plan(hd_buf *out, const json_t *answer, size_t width);
/* RFC 4180 with line feeds: a header, the rows; null is empty, nodes, lists and relations are JSON. */
void cl_answer_add_csv(hd_buf *out, const json_t *answer);

/* "complete: 12 rows", or "partial: …" with each cut in words; then what the start says of itself, then the notes. A line each. */
void cl_answer_add_completeness(hd_buf *out, const json_t *answer);
/* One record of `truncated` in words, without a line end. */
void cl_answer_add_cut(hd_buf *out, const json_t *record);

/* A rejection: what and where, the line of the query with a caret under the place (a long line: the part around it, within `width`),
 * the hint, what is allowed. `query` is the text that was sent. */
void cl_answer_add_rejection(hd_buf *out, const json_t *answer, hd_str query, size_t width);

#endif
