/* A table of text cells, fitted to a width. */
#ifndef CL_TABLE_H
#define CL_TABLE_H

#include "common/buf.h"

typedef struct cl_table cl_table;

/* Returned owned; free with cl_table_free. */
cl_table *cl_table_new(void);
void cl_table_free(cl_table *table);
/* All columns come before the first cell. Texts are copied; line ends and other controls in them are shown as blanks. */
void cl_table_add_column(cl_table *table, hd_str name);
/* Cells go row by row, left to right. A column whose cells are all numbers (or empty) stands to the right. */
void cl_table_add_cell(cl_table *table, hd_str text, bool is_number);
/* Appends header, rule and rows to `out`. Columns keep their natural width where the sum fits `width`; else the widest are cut first,
 * never below 3 columns (so that a table of very many columns goes beyond the width). Returns whether a cell was cut. */
bool cl_table_write(const cl_table *table, size_t width, hd_buf *out);

#endif
