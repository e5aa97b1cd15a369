/* A fixed table: registered metrics stay where they are, so that a pointer to one is good for the life of the process and updates
 * need no lock. Registration takes the one mutex; reading sees the metrics below the published count. */
#include "common/metrics.h"

#include <pthread.h>
#include <stdatomic.h>

enum { METRICS_MAX = 512 };

/* Upper bounds in microseconds: 50 µs, where a cached answer is, to 30 s, the longest deadline. A last bucket holds the rest. */
static const uint64_t bounds_us[] = {50,    100,    250,    500,    1000,    2500,    5000,    10000,    25000,
                                     50000, 100000, 250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000};
enum { BOUNDS = HD_COUNT_OF(bounds_us) };

typedef enum metric_kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM } metric_kind;

struct hd_metric {
    const char *name, *help;
    char *labels; /* "" for none */
    metric_kind kind;
    _Atomic uint64_t value; /* a gauge's is an int64; a histogram's the sum in microseconds */
    _Atomic uint64_t buckets[BOUNDS + 1];
};

static hd_metric metrics[METRICS_MAX];
static atomic_uint metric_count;
static pthread_mutex_t registration = PTHREAD_MUTEX_INITIALIZER;

static hd_metric *find_metric(const char *name, const char *labels, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(metrics[i].name, name) == 0 && strcmp(metrics[i].labels, labels) == 0) return &metrics[i];
    }
    return NULL;
}

static hd_metric *register_metric(metric_kind kind, const char *name, const char *labels_or_null, const char *help) {
    const char *labels = labels_or_null == NULL ? "" : labels_or_null;
    HD_CHECK(pthread_mutex_lock(&registration) == 0);
    unsigned count = atomic_load(&metric_count);
    hd_metric *metric = find_metric(name, labels, count);
    if (metric == NULL) {
        HD_CHECK(count < METRICS_MAX);
        metric = &metrics[count];
        metric->name = name;
        metric->help = help;
        metric->labels = hd_strdup(labels);
        metric->kind = kind;
        atomic_store(&metric_count, count + 1);
    }
    pthread_mutex_unlock(&registration);
    HD_CHECK(metric->kind == kind);
    return metric;
}

hd_metric *hd_metrics_counter(const char *name, const char *labels, const char *help) {
    return register_metric(KIND_COUNTER, name, labels, help);
}

hd_metric *hd_metrics_gauge(const char *name, const char *labels, const char *help) {
    return register_metric(KIND_GAUGE, name, labels, help);
}

hd_metric *hd_metrics_histogram_us(const char *name, const char *labels, const char *help) {
    return register_metric(KIND_HISTOGRAM, name, labels, help);
}

void hd_metric_add(hd_metric *metric, uint64_t n) {
    atomic_fetch_add_explicit(&metric->value, n, memory_order_relaxed);
}

void hd_metric_set(hd_metric *metric, int64_t value) {
    atomic_store_explicit(&metric->value, (uint64_t)value, memory_order_relaxed);
}

void hd_metric_observe_us(hd_metric *metric, uint64_t us) {
    unsigned bucket = 0;
    while (bucket < BOUNDS && us > bounds_us[bucket]) bucket++;
    atomic_fetch_add_explicit(&metric->buckets[bucket], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&metric->value, us, memory_order_relaxed);
}

uint64_t hd_metric_get(const hd_metric *metric) {
    return atomic_load_explicit(&metric->value, memory_order_relaxed);
}

void hd_metrics_add_label(hd_buf *labels, const char *name, hd_str value) {
    hd_buf_printf(labels, "%s%s=\"", labels->size > 0 ? "," : "", name);
    for (size_t i = 0; i < value.size; i++) {
        char c = value.data[i];
        if (c == '\\' || c == '"') hd_buf_add_char(labels, '\\');
        if (c == '\n') {
            hd_buf_add_str(labels, HD_STR("\\n"));
        } else {
            hd_buf_add_char(labels, c);
        }
    }
    hd_buf_add_char(labels, '"');
}

static void write_head(const hd_metric *metric, hd_buf *out) {
    static const char *const kinds[] = {"counter", "gauge", "histogram"};
    hd_buf_printf(out, "# HELP %s ", metric->name);
    for (const char *c = metric->help; *c != '\0'; c++) {
        if (*c == '\\' || *c == '\n') hd_buf_add_char(out, '\\');
        hd_buf_add_char(out, *c == '\n' ? 'n' : *c);
    }
    hd_buf_printf(out, "\n# TYPE %s %s\n", metric->name, kinds[metric->kind]);
}

/* Microseconds as decimal seconds, exactly. */
static void write_seconds(uint64_t us, hd_buf *out) {
    hd_buf_printf(out, "%llu.%06llu", (unsigned long long)(us / 1000000), (unsigned long long)(us % 1000000));
    while (out->data[out->size - 1] == '0') out->size--;
    if (out->data[out->size - 1] == '.') out->size--;
    out->data[out->size] = '\0';
}

static void write_histogram(const hd_metric *metric, hd_buf *out) {
    const char *comma = metric->labels[0] == '\0' ? "" : ",";
    uint64_t count = 0;
    for (unsigned i = 0; i <= BOUNDS; i++) {
        count += atomic_load_explicit(&metric->buckets[i], memory_order_relaxed);
        hd_buf_printf(out, "%s_bucket{%s%sle=\"", metric->name, metric->labels, comma);
        if (i < BOUNDS) {
            write_seconds(bounds_us[i], out);
        } else {
            hd_buf_add_str(out, HD_STR("+Inf"));
        }
        hd_buf_printf(out, "\"} %llu\n", (unsigned long long)count);
    }
    const char *open = metric->labels[0] == '\0' ? "" : "{", *close = metric->labels[0] == '\0' ? "" : "}";
    hd_buf_printf(out, "%s_sum%s%s%s ", metric->name, open, metric->labels, close);
    write_seconds(hd_metric_get(metric), out);
    hd_buf_printf(out, "\n%s_count%s%s%s %llu\n", metric->name, open, metric->labels, close, (unsigned long long)count);
}

static void write_sample(const hd_metric *metric, hd_buf *out) {
    if (metric->kind == KIND_HISTOGRAM) {
        write_histogram(metric, out);
        return;
    }
    hd_buf_printf(out, metric->labels[0] == '\0' ? "%s%s " : "%s{%s} ", metric->name, metric->labels);
    if (metric->kind == KIND_GAUGE) {
        hd_buf_printf(out, "%lld\n", (long long)hd_metric_get(metric));
    } else {
        hd_buf_printf(out, "%llu\n", (unsigned long long)hd_metric_get(metric));
    }
}

/* All metrics of one name together, under one head, where the name first comes. */
void hd_metrics_write(hd_buf *text_out) {
    unsigned count = atomic_load(&metric_count);
    for (unsigned i = 0; i < count; i++) {
        bool is_first = true;
        for (unsigned j = 0; j < i && is_first; j++) is_first = strcmp(metrics[j].name, metrics[i].name) != 0;
        if (!is_first) continue;
        write_head(&metrics[i], text_out);
        for (unsigned j = i; j < count; j++) {
            if (strcmp(metrics[j].name, metrics[i].name) == 0) write_sample(&metrics[j], text_out);
        }
    }
}
