/* Where output goes: its width, whether someone watches, and numbers as people read them. */
#ifndef CL_TERMINAL_H
#define CL_TERMINAL_H

#include "common/buf.h"

/* Columns to write into: COLUMNS where it is set and sensible, else the terminal's own, else 100. */
uint32_t cl_terminal_width(int fd);
bool cl_terminal_is(int fd);

/* "1,234,567" */
void cl_add_number(hd_buf *out, uint64_t number);
/* "12.3 MiB" */
void cl_add_bytes(hd_buf *out, uint64_t bytes);
/* "850 ms", "12 s", "3 min 20 s", "5 h 2 min", "3 d 4 h" */
void cl_add_duration(hd_buf *out, uint64_t ms);
/* The shortest decimal form that reads back as the same double; whole numbers keep ".0". */
void cl_add_real(hd_buf *out, double number);
/* The text as one line: control characters (line ends too) become blanks. */
void cl_add_line(hd_buf *out, hd_str text);
/* The same, cut to `width` columns, with … at the end where it was cut. Returns whether it was. */
bool cl_add_cut(hd_buf *out, hd_str text, size_t width);
/* Writes all of it to a descriptor, as far as there is someone who reads. */
void cl_write(int fd, const hd_buf *text);

#endif
