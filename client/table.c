#include "client/table.h"

#include "client/terminal.h"
#include "common/text.h"

enum { COLUMN_WIDTH_MIN = 3, GAP = 3 /* " | " */ };

typedef struct cell {
    char *text; /* owned */
    size_t width;
    bool is_number;
} cell;

struct cl_table {
    cell *columns;
    size_t column_count;
    cell *cells; /* row by row */
    size_t cell_count, cell_capacity;
};

cl_table *cl_table_new(void) {
    return hd_alloc_zero(1, sizeof(cl_table));
}

void cl_table_free(cl_table *table) {
    if (table == NULL) return;
    for (size_t i = 0; i < table->column_count; i++) hd_free(table->columns[i].text);
    for (size_t i = 0; i < table->cell_count; i++) hd_free(table->cells[i].text);
    hd_free(table->columns);
    hd_free(table->cells);
    hd_free(table);
}

static cell make_cell(hd_str text, bool is_number) {
    hd_buf line = {0};
    cl_add_line(&line, text);
    cell made = {.text = hd_str_to_c(hd_buf_get(&line)), .width = hd_text_width(hd_buf_get(&line)), .is_number = is_number};
    hd_buf_fini(&line);
    return made;
}

void cl_table_add_column(cl_table *table, hd_str name) {
    HD_CHECK(table->cell_count == 0);
    table->columns = hd_realloc(table->columns, (table->column_count + 1) * sizeof(cell));
    table->columns[table->column_count++] = make_cell(name, false);
}

void cl_table_add_cell(cl_table *table, hd_str text, bool is_number) {
    HD_CHECK(table->column_count > 0);
    if (table->cell_count == table->cell_capacity) {
        table->cell_capacity = HD_MAX((size_t)64, table->cell_capacity * 2);
        table->cells = hd_realloc(table->cells, table->cell_capacity * sizeof(cell));
    }
    table->cells[table->cell_count++] = make_cell(text, is_number);
}

/* The largest cap on single widths under which the sum of all is at most `room`. */
static size_t find_cap(const size_t *widths, size_t count, size_t room) {
    size_t low = COLUMN_WIDTH_MIN, high = COLUMN_WIDTH_MIN;
    for (size_t i = 0; i < count; i++) high = HD_MAX(high, widths[i]);
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2, sum = 0;
        for (size_t i = 0; i < count; i++) sum += HD_MIN(widths[i], middle);
        if (sum <= room)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* Cuts the widest columns to one common width; what is left over after that goes to them from the left, a column each. */
static void fit_widths(size_t *widths, size_t count, size_t room) {
    size_t cap = find_cap(widths, count, room), sum = 0;
    for (size_t i = 0; i < count; i++) sum += HD_MIN(widths[i], cap);
    size_t spare = room > sum ? room - sum : 0;
    for (size_t i = 0; i < count; i++) {
        if (widths[i] <= cap) continue;
        widths[i] = cap + (spare > 0);
        if (spare > 0) spare--;
    }
}

static bool write_cell(const cell *c, size_t width, bool is_right, bool is_last, hd_buf *out) {
    size_t padding = c->width < width ? width - c->width : 0;
    if (is_right) hd_buf_printf(out, "%*s", (int)padding, "");
    bool is_cut = cl_add_cut(out, hd_str_of(c->text), width);
    if (!is_right && !is_last) hd_buf_printf(out, "%*s", (int)padding, "");
    return is_cut;
}

static bool write_row(const cl_table *table, const cell *cells, const size_t *widths, const bool *is_right, hd_buf *out) {
    bool is_cut = false;
    for (size_t i = 0; i < table->column_count; i++) {
        if (i > 0) hd_buf_add_str(out, HD_STR(" | "));
        is_cut |= write_cell(&cells[i], widths[i], is_right[i], i + 1 == table->column_count, out);
    }
    while (out->size > 0 && out->data[out->size - 1] == ' ') out->data[--out->size] = '\0';
    hd_buf_add_char(out, '\n');
    return is_cut;
}

static void write_rule(const cl_table *table, const size_t *widths, hd_buf *out) {
    for (size_t i = 0; i < table->column_count; i++) {
        if (i > 0) hd_buf_add_str(out, HD_STR("-+-"));
        for (size_t n = 0; n < widths[i]; n++) hd_buf_add_char(out, '-');
    }
    hd_buf_add_char(out, '\n');
}

bool cl_table_write(const cl_table *table, size_t width, hd_buf *out) {
    size_t count = table->column_count;
    if (count == 0) return false;
    HD_CHECK(table->cell_count % count == 0);
    size_t *widths = hd_alloc_zero(count, sizeof(*widths)), sum = 0;
    bool *is_right = hd_alloc_zero(count, sizeof(*is_right));
    for (size_t i = 0; i < count; i++) {
        widths[i] = table->columns[i].width;
        is_right[i] = table->cell_count > 0;
    }
    for (size_t i = 0; i < table->cell_count; i++) {
        const cell *c = &table->cells[i];
        widths[i % count] = HD_MAX(widths[i % count], c->width);
        if (!c->is_number && c->width > 0) is_right[i % count] = false;
    }
    for (size_t i = 0; i < count; i++) sum += widths[i];
    size_t gaps = (count - 1) * GAP, room = width > gaps ? width - gaps : 0;
    if (sum > room) fit_widths(widths, count, room);
    bool is_cut = write_row(table, table->columns, widths, is_right, out);
    write_rule(table, widths, out);
    for (size_t at = 0; at < table->cell_count; at += count) is_cut |= write_row(table, table->cells + at, widths, is_right, out);
    hd_free(widths);
    hd_free(is_right);
    return is_cut;
}
