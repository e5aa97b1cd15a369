/* What both imports share: their options, the count of what became of each memory, reports on stderr, the summary. */
#ifndef CL_IMPORT_IMPORT_H
#define CL_IMPORT_IMPORT_H

#include "client/call.h"
#include "client/import/sender.h"
#include "client/progress.h"

typedef struct cl_import_options {
    cl_target target;
    bool is_strict;
    uint64_t batch, in_flight, retry_ms;
} cl_import_options;

/* The defaults, and rows for a command's table of options. */
#define CL_IMPORT_DEFAULTS \
    { .batch = 200, .in_flight = 4, .retry_ms = 60000 }
#define CL_IMPORT_OPTIONS(o)                                                                                              \
    {"strict", 0, HD_CONFIG_SWITCH, &(o).is_strict, NULL, "stop at the first memory that is refused"},                    \
        {"batch", 0, HD_CONFIG_COUNT, &(o).batch, "N", "memories a call, 1 to 500"},                                      \
        {"in-flight", 0, HD_CONFIG_COUNT, &(o).in_flight, "N", "calls at once, 1 to 16"},                                 \
        {"retry", 0, HD_CONFIG_MS, &(o).retry_ms, "TIME", "how long to try again while the coordinator is away or busy"}, \
        CL_OPTION_URL((o).target), CL_OPTION_KEY((o).target), CL_OPTION_JSON((o).target)

typedef struct cl_import cl_import;

/* Connects. `unit` is a static plural ("events"); `total` 0: not known. */
HD_MUST_USE hd_status cl_import_new(const cl_import_options *options, const char *unit, uint64_t total, cl_import **import_out,
                                    hd_error *error);
/* Passes one memory on; copied. `fraction` (0..1, or below 0) is how far the source is read. HD_CANCELLED: stop, --strict says so;
 * other failures are the end too. */
HD_MUST_USE hd_status cl_import_add(cl_import *import, const cl_memory *memory, double fraction, hd_error *error);
/* One that is refused on this side already. HD_CANCELLED as above. */
HD_MUST_USE hd_status cl_import_refuse(cl_import *import, hd_str place, uint64_t number, const char *why, hd_error *error);
/* `count` memories that need not be sent, because they are there. */
void cl_import_skip(cl_import *import, uint64_t count);
void cl_import_warn(cl_import *import, hd_str place, uint64_t number, hd_str what);
/* Waits for what is under way (all of it where `status` is HD_OK), prints the summary, frees the import (which may be NULL) and
 * returns the exit code. `status` and `error` are how the reading went. */
int cl_import_finish(cl_import *import, const cl_import_options *options, hd_status status, hd_error *error);

#endif
