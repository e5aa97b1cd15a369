#include "client/progress.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "client/terminal.h"
#include "common/clock.h"
#include "common/text.h"

enum {
    BAR_EVERY_MS = 200,
    LINE_EVERY_MS = 5000,
    BAR_WIDTH_MAX = 30,
    BAR_WIDTH_MIN = 10,
    PLAIN_WIDTH = 1000,
    FRACTION_MIN_PERCENT = 1, /* below, what is left cannot be told from what is done */
};
static const double rate_window_s = 5.0;

void cl_progress_init(cl_progress *progress, const char *unit, uint64_t total) {
    uint64_t now_us = hd_clock_monotonic_us();
    *progress = (cl_progress){.unit = unit,
                              .total = total,
                              .is_bar = cl_terminal_is(STDERR_FILENO),
                              .began_us = now_us,
                              .shown_us = now_us,
                              .rate = -1,
                              .rate_us = now_us};
}

void cl_progress_format(hd_buf *out, const char *unit, uint64_t done, uint64_t total, double fraction, double rate,
                        uint64_t left_ms, size_t width, bool has_bar) {
    hd_buf facts = {0};
    fraction = HD_MIN(fraction, 1.0);
    if (fraction >= 0) hd_buf_printf(&facts, "%3d%%  ", (int)(fraction * 100));
    cl_add_number(&facts, done);
    if (total > 0) {
        hd_buf_add_str(&facts, HD_STR(" of "));
        cl_add_number(&facts, total);
    }
    hd_buf_printf(&facts, " %s", unit);
    if (rate >= 0) {
        hd_buf_add_str(&facts, HD_STR("  "));
        cl_add_number(&facts, (uint64_t)(rate + 0.5));
        hd_buf_add_str(&facts, HD_STR("/s"));
    }
    if (left_ms != UINT64_MAX) {
        hd_buf_add_str(&facts, HD_STR("  "));
        cl_add_duration(&facts, HD_MAX(left_ms, (uint64_t)1000));
        hd_buf_add_str(&facts, HD_STR(" left"));
    }
    size_t used = hd_text_width(hd_buf_get(&facts)) + 3; /* brackets and a blank */
    if (has_bar && fraction >= 0 && width >= used + BAR_WIDTH_MIN) {
        size_t bar = HD_MIN(width - used, (size_t)BAR_WIDTH_MAX), full = (size_t)(fraction * (double)bar + 0.5);
        hd_buf_add_char(out, '[');
        for (size_t i = 0; i < bar; i++) hd_buf_add_char(out, i < full ? '#' : '.');
        hd_buf_add_str(out, HD_STR("] "));
    }
    cl_add_cut(out, hd_buf_get(&facts), width);
    hd_buf_fini(&facts);
}

static void update_rate(cl_progress *progress, uint64_t done, uint64_t now_us) {
    double seconds = (double)(now_us - progress->rate_us) / 1e6;
    if (seconds < 0.05 || done < progress->rate_done) return;
    double rate = (double)(done - progress->rate_done) / seconds;
    double weight = progress->rate < 0 ? 1 : 1 - exp(-seconds / rate_window_s);
    progress->rate = progress->rate < 0 ? rate : progress->rate + weight * (rate - progress->rate);
    progress->rate_done = done;
    progress->rate_us = now_us;
}

static void take_bar_away(cl_progress *progress) {
    if (progress->is_drawn) fputs("\r\x1b[K", stderr);
    progress->is_drawn = false;
}

void cl_progress_update(cl_progress *progress, uint64_t done, double fraction) {
    uint64_t now_us = hd_clock_monotonic_us();
    if (now_us - progress->shown_us < (progress->is_bar ? BAR_EVERY_MS : LINE_EVERY_MS) * 1000ull) return;
    progress->shown_us = now_us;
    update_rate(progress, done, now_us);
    if (fraction < 0 && progress->total > 0) fraction = (double)done / (double)progress->total;
    uint64_t elapsed_ms = (now_us - progress->began_us) / 1000, left_ms = UINT64_MAX;
    if (fraction * 100 >= FRACTION_MIN_PERCENT) left_ms = (uint64_t)((double)elapsed_ms * (1 - HD_MIN(fraction, 1.0)) / fraction);
    hd_buf line = {0};
    if (progress->is_bar) {
        /* The last column stays free: writing there moves some terminals to the next line. */
        hd_buf_add_str(&line, HD_STR("\r"));
        cl_progress_format(&line, progress->unit, done, progress->total, fraction, progress->rate, left_ms,
                           cl_terminal_width(STDERR_FILENO) - 1, true);
        hd_buf_add_str(&line, HD_STR("\x1b[K"));
        progress->is_drawn = true;
    } else {
        cl_progress_format(&line, progress->unit, done, progress->total, fraction, progress->rate, left_ms, PLAIN_WIDTH, false);
        hd_buf_add_char(&line, '\n');
    }
    fwrite(line.data, 1, line.size, stderr);
    fflush(stderr);
    hd_buf_fini(&line);
}

void cl_progress_say(cl_progress *progress, hd_str line) {
    take_bar_away(progress);
    fprintf(stderr, HD_STR_FMT "\n", HD_STR_ARG(line));
    progress->shown_us = progress->is_bar ? 0 : progress->shown_us;
}

void cl_progress_end(cl_progress *progress) {
    take_bar_away(progress);
    fflush(stderr);
}
