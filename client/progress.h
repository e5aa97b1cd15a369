/* How far a long command is: a bar on a terminal (redrawn in place), a plain line every few seconds elsewhere. All on stderr. */
#ifndef CL_PROGRESS_H
#define CL_PROGRESS_H

#include "common/buf.h"

typedef struct cl_progress {
    const char *unit; /* static: "events" */
    uint64_t total;   /* of the unit; 0: not known */
    bool is_bar, is_drawn;
    uint64_t began_us, shown_us;
    /* The rate of late, per second: exponentially weighted over about five seconds. */
    double rate;
    uint64_t rate_done, rate_us;
} cl_progress;

void cl_progress_init(cl_progress *progress, const char *unit, uint64_t total);
/* `fraction` 0..1 is how far it is where that is known, else below 0. Cheap: to be called as often as one likes. */
void cl_progress_update(cl_progress *progress, uint64_t done, double fraction);
/* A line of its own on stderr, above the bar. `line` has no line end. */
void cl_progress_say(cl_progress *progress, hd_str line);
/* Takes the bar away. */
void cl_progress_end(cl_progress *progress);

/* The bar's text, `width` columns at the most: "[#####....] 50%  1,000 of 2,000 events  510/s  2 s left". `left_ms` UINT64_MAX: not
 * known. No bar without `has_bar`, or where `fraction` is below 0. Pure. */
void cl_progress_format(hd_buf *out, const char *unit, uint64_t done, uint64_t total, double fraction, double rate,
                        uint64_t left_ms, size_t width, bool has_bar);

#endif
