/* Counters, gauges and histograms in Prometheus text form. Registered once at start; updates are atomic and lock-free. */
#ifndef HD_COMMON_METRICS_H
#define HD_COMMON_METRICS_H

#include "common/buf.h"

typedef struct hd_metric hd_metric;

/* Names and help are static strings; `labels` is NULL or `tool="save_memory"` (see hd_metrics_add_label), copied. Registering the same
 * name and labels again gives the same metric; at most 512 in all. */
hd_metric *hd_metrics_counter(const char *name, const char *labels, const char *help);
hd_metric *hd_metrics_gauge(const char *name, const char *labels, const char *help);
hd_metric *hd_metrics_histogram_us(const char *name, const char *labels, const char *help); /* exported in seconds */
void hd_metric_add(hd_metric *metric, uint64_t n);
void hd_metric_set(hd_metric *metric, int64_t value);
void hd_metric_observe_us(hd_metric *metric, uint64_t us);
uint64_t hd_metric_get(const hd_metric *metric); /* a histogram's is the sum of what was observed, in microseconds */
/* Appends `name="value"` with the value escaped, after a comma where there is something already. */
void hd_metrics_add_label(hd_buf *labels, const char *name, hd_str value);
void hd_metrics_write(hd_buf *text_out); /* appends */

#endif
