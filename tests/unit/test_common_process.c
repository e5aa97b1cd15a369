/* config, log, metrics: what a process shows of itself. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/log.h"
#include "common/metrics.h"

/* --- settings --- */

static const char *data;
static hd_config_list shards, labels;
static uint64_t count, bytes, time_ms;
static bool is_loud, is_json;

static const hd_config_option options[] = {
    {"data", 'd', HD_CONFIG_TEXT, &data, "DIR", "where the data is"},
    {"shard-url", 's', HD_CONFIG_LIST, &shards, "URL", "a shard"},
    {"label", 0, HD_CONFIG_LIST, &labels, "NAME", "a label"},
    {"count", 'n', HD_CONFIG_COUNT, &count, "N", "how many"},
    {"cache-bytes", 0, HD_CONFIG_BYTES, &bytes, "SIZE", "room"},
    {"drain", 0, HD_CONFIG_MS, &time_ms, "TIME", "patience"},
    {"loud", 'l', HD_CONFIG_SWITCH, &is_loud, NULL, "speak up"},
    {"json", 'j', HD_CONFIG_SWITCH, &is_json, NULL, "for machines"},
};

static hd_config_list words;
static bool is_done;
static hd_error error;

static int reset_settings(void **state) {
    data = "/default";
    shards = labels = (hd_config_list){0};
    count = 7;
    bytes = 1 << 20;
    time_ms = 1500;
    is_loud = is_json = false;
    error = (hd_error){0};
    static const char *const variables[] = {"HEDDLE_DATA", "HEDDLE_SHARD_URL", "HEDDLE_COUNT", "HEDDLE_CACHE_BYTES",
                                            "HEDDLE_LOUD", "HEDDLE_CONFIG",    "HEDDLE_DRAIN"};
    for (size_t i = 0; i < HD_COUNT_OF(variables); i++) unsetenv(variables[i]);
    return 0;
}

static hd_status parse_words(const char *const *given, int given_count) {
    char *argv[40] = {(char[]){"program"}};
    for (int i = 0; i < given_count; i++) argv[i + 1] = hd_strdup(given[i]);
    error = (hd_error){0};
    hd_status status = hd_config_parse("program", "Usage: program [options]", options, HD_COUNT_OF(options), given_count + 1, argv,
                                       &words, &is_done, &error);
    assert_int_equal(error.code, status);
    static char kept[4096]; /* words are borrowed from argv, which ends here */
    size_t used = 0;
    for (size_t i = 0; i < words.count; i++) {
        size_t size = strlen(words.items[i]) + 1;
        assert_true(used + size <= sizeof(kept));
        memcpy(kept + used, words.items[i], size);
        words.items[i] = kept + used;
        used += size;
    }
    for (int i = 0; i < given_count; i++) hd_free(argv[i + 1]);
    return status;
}
#define PARSE(...) parse_words((const char *const[]){__VA_ARGS__}, HD_COUNT_OF(((const char *const[]){__VA_ARGS__})))
#define assert_refused(status, text)                                                                 \
    do {                                                                                             \
        assert_int_equal((status), HD_ARGUMENT);                                                     \
        if (strstr(error.message, (text)) == NULL) fail_msg("\"%s\" in: %s", (text), error.message); \
    } while (0)

static char file_name[64];
static const char *write_file(const char *text, size_t size) {
    snprintf(file_name, sizeof(file_name), "/tmp/heddle-test-config-%ld", (long)getpid());
    FILE *file = fopen(file_name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, size, file), size);
    fclose(file);
    return file_name;
}
#define FILE_OF(text) write_file(text, sizeof(text) - 1)

static void flags_are_read(void **state) {
    assert_int_equal(parse_words(NULL, 0), HD_OK);
    assert_string_equal(data, "/default");
    assert_int_equal(words.count, 0);
    assert_false(is_done);
    assert_int_equal(PARSE("serve", "--data", "/a b", "-s", "tcp://x:1,2", "--shard-url=tcp://y", "-n3", "x", "--cache-bytes",
                           "64K", "--drain=2m", "-lj", "-", "--", "--data", "-n"),
                     HD_OK);
    assert_string_equal(data, "/a b");
    assert_int_equal(shards.count, 2);
    assert_string_equal(shards.items[0], "tcp://x:1,2"); /* a flag is one item */
    assert_string_equal(shards.items[1], "tcp://y");
    assert_int_equal(count, 3);
    assert_int_equal(bytes, 65536);
    assert_int_equal(time_ms, 120000);
    assert_true(is_loud && is_json);
    assert_int_equal(words.count, 5);
    assert_string_equal(words.items[0], "serve");
    assert_string_equal(words.items[1], "x");
    assert_string_equal(words.items[2], "-");
    assert_string_equal(words.items[3], "--data");
    assert_string_equal(words.items[4], "-n");
    assert_int_equal(PARSE("--loud=false", "--data="), HD_OK);
    assert_false(is_loud);
    assert_string_equal(data, "");
}

static void values_are_checked(void **state) {
    static const struct {
        const char *text;
        uint64_t number;
    } good_bytes[] = {{"0", 0},
                      {"512", 512},
                      {"1k", 1024},
                      {"256M", 256ull << 20},
                      {"1G", 1ull << 30},
                      {"2T", 2ull << 40},
                      {"18446744073709551615", UINT64_MAX}},
      good_ms[] = {{"0", 0}, {"250ms", 250}, {"250", 250}, {"30s", 30000}, {"5m", 300000}, {"2H", 7200000}};
    for (size_t i = 0; i < HD_COUNT_OF(good_bytes); i++) {
        assert_int_equal(PARSE("--cache-bytes", good_bytes[i].text), HD_OK);
        assert_true(bytes == good_bytes[i].number);
    }
    for (size_t i = 0; i < HD_COUNT_OF(good_ms); i++) {
        assert_int_equal(PARSE("--drain", good_ms[i].text), HD_OK);
        assert_true(time_ms == good_ms[i].number);
    }
    static const char *const bad[] = {
        "",    "x",  "-1", "+1", " 1", "1 ", "1.5", "1e3", "0x10", "K", "18446744073709551616", "99999999999999999999999",
        "1KB", "1KK"};
    for (size_t i = 0; i < HD_COUNT_OF(bad); i++) {
        assert_refused(PARSE("--count", bad[i]), "--count: ");
        assert_refused(PARSE("--cache-bytes", bad[i]), "number of bytes, such as");
        assert_refused(PARSE("--drain", bad[i]), "a time, such as");
    }
    assert_refused(PARSE("--cache-bytes", "16777216T"), "--cache-bytes: \"16777216T\"");
    assert_refused(PARSE("--count", "1K"), "whole number");
    assert_refused(PARSE("--loud=yes"), "true or false");
    assert_int_equal(count, 7);
}

static void unknown_flags_are_refused(void **state) {
    assert_refused(PARSE("--cuont", "3"), "unknown flag --cuont; did you mean --count?");
    assert_refused(PARSE("--shard_url=x"), "did you mean --shard-url?");
    assert_refused(PARSE("--confg=x"), "did you mean --config?");
    assert_refused(PARSE("--hlep"), "did you mean --help?");
    assert_refused(PARSE("--zzzzzz"), "--help lists the flags");
    assert_refused(PARSE("-x"), "unknown flag -x");
    assert_refused(PARSE("-lx"), "unknown flag -x in \"-lx\"");
    assert_refused(PARSE("--data"), "--data needs a value");
    assert_refused(PARSE("--data", "--loud"), "--data needs a value, not the flag --loud");
    assert_refused(PARSE("-n"), "-n needs a value");
    assert_refused(PARSE("--config"), "--config needs a value");
    assert_refused(PARSE("--count", "1", "-n", "2"), "--count is given twice");
    assert_int_equal(PARSE("--data=--loud"), HD_OK);
    assert_string_equal(data, "--loud");
}

static void flags_win_over_variables_over_the_file(void **state) {
    const char *file = FILE_OF(
        "\xef\xbb\xbf# comment\r\n; another\n\n[heddle]\ncount = 1\r\n  shard_url = a , b,,c  \nshard_url=d\ndata=/from file\nloud "
        "= true\n"
        "cache_bytes=1M");
    assert_int_equal(PARSE("--config", file), HD_OK);
    assert_int_equal(count, 1);
    assert_string_equal(data, "/from file");
    assert_int_equal(shards.count, 4);
    assert_string_equal(shards.items[0], "a");
    assert_string_equal(shards.items[1], "b");
    assert_string_equal(shards.items[2], "c");
    assert_string_equal(shards.items[3], "d");
    assert_true(is_loud);
    setenv("HEDDLE_CONFIG", file, 1);
    setenv("HEDDLE_COUNT", "2", 1);
    setenv("HEDDLE_SHARD_URL", "x,y", 1);
    setenv("HEDDLE_LOUD", "FALSE", 1);
    setenv("HEDDLE_CACHE_BYTES", "", 1); /* empty: not set */
    setenv("HEDDLE_SOMETHING_ELSE", "1", 1);
    assert_int_equal(parse_words(NULL, 0), HD_OK);
    assert_int_equal(count, 2);
    assert_int_equal(bytes, 1 << 20);
    assert_string_equal(data, "/from file");
    assert_int_equal(shards.count, 2);
    assert_string_equal(shards.items[1], "y");
    assert_false(is_loud);
    assert_int_equal(PARSE("-n", "3", "-s", "z"), HD_OK);
    assert_int_equal(count, 3);
    assert_int_equal(shards.count, 1);
    assert_string_equal(shards.items[0], "z");
    setenv("HEDDLE_COUNT", "two", 1);
    assert_refused(parse_words(NULL, 0), "HEDDLE_COUNT: \"two\"");
    unlink(file_name);
}

static void files_are_checked(void **state) {
    assert_refused(PARSE("--config", FILE_OF("count = 1\nshards = 3\n")), "line 2: unknown key shards");
    assert_refused(PARSE("--config", FILE_OF("cuont = 1\n")), "did you mean count?");
    assert_refused(PARSE("--config", FILE_OF("shard-url = 1\n")), "did you mean shard_url?");
    assert_refused(PARSE("--config", FILE_OF("config = x\n")), "unknown key config");
    assert_refused(PARSE("--config", FILE_OF("[heddle]\n[other]\ncount = 1\n")), "line 2: unknown section [other]");
    assert_refused(PARSE("--config", FILE_OF("count\n")), "line 1: a line is \"key = value\"");
    assert_refused(PARSE("--config", FILE_OF("= 1\n")), "unknown key");
    assert_refused(PARSE("--config", FILE_OF("data = a\0b\n")), "line 1: a line is");
    assert_refused(PARSE("--config", FILE_OF("\n\ncount = many\n")), "line 3: count: \"many\"");
    assert_refused(PARSE("--config", FILE_OF("count = 1\ncount = 2\n")), "given twice");
    assert_int_equal(PARSE("--config", FILE_OF("")), HD_OK);
    assert_int_equal(PARSE("--config", FILE_OF("data = a # b\n")), HD_OK); /* comments are whole lines */
    assert_string_equal(data, "a # b");
    char *large = hd_alloc_zero(1, (1 << 20) + 1);
    memset(large, '\n', (1 << 20) + 1);
    assert_int_equal(PARSE("--config", write_file(large, 1 << 20)), HD_OK);
    assert_refused(PARSE("--config", write_file(large, (1 << 20) + 1)), "over 1 MiB");
    hd_free(large);
    unlink(file_name);
    assert_refused(PARSE("--config", file_name), "cannot open the config file");
    assert_refused(PARSE("--config", "/tmp"), "config file /tmp");
}

/* What is written to `fd` while `act` runs, NUL-terminated. */
static char *capture(int fd, void (*act)(void)) {
    fflush(NULL);
    FILE *file = tmpfile();
    assert_non_null(file);
    int kept = dup(fd);
    assert_true(dup2(fileno(file), fd) == fd);
    act();
    fflush(NULL);
    assert_true(dup2(kept, fd) == fd);
    close(kept);
    long size = lseek(fileno(file), 0, SEEK_END);
    char *text = hd_alloc_zero(1, (size_t)size + 1);
    assert_int_equal(pread(fileno(file), text, (size_t)size, 0), size);
    fclose(file);
    return text;
}

static hd_status captured_status;
static void ask_for_help(void) {
    captured_status = PARSE("--config", "/does/not/exist", "-h", "--unknown");
}
static void ask_for_version(void) {
    captured_status = PARSE("--version");
}

static void help_is_printed_from_the_table(void **state) {
    char *text = capture(STDOUT_FILENO, ask_for_help);
    assert_int_equal(captured_status, HD_OK);
    assert_true(is_done);
    assert_memory_equal(text, "Usage: program [options]\n", 25);
    for (size_t i = 0; i < HD_COUNT_OF(options); i++) {
        char flag[64];
        snprintf(flag, sizeof(flag), "--%s%s%s ", options[i].name, options[i].value_name ? " " : "",
                 options[i].value_name ? options[i].value_name : "");
        assert_non_null(strstr(text, flag));
        assert_non_null(strstr(text, options[i].help));
    }
    assert_non_null(strstr(text, "-d, --data DIR"));
    assert_non_null(strstr(text, "(default: /default)"));
    assert_non_null(strstr(text, "(default: 1M)"));
    assert_non_null(strstr(text, "(default: 1500ms)"));
    assert_non_null(strstr(text, "--config FILE"));
    hd_free(text);
    text = capture(STDOUT_FILENO, ask_for_version);
    assert_string_equal(text, "program " HD_VERSION "\n");
    assert_true(is_done);
    hd_free(text);
}

/* --- log --- */

static void log_some(void) {
    hd_log_init("test \"process\"", HD_LOG_INFO);
    hd_log(HD_LOG_DEBUG, "m", "dropped");
    hd_log(HD_LOG_INFO, "m", "%s", "\"\\\b\f\n\r\t\x01\x1f\x7f\u00e9\U0001f642");
    hd_log(HD_LOG_ERROR, "m", "%s", "a\xff\xe2\x82-\xed\xa0\x80");
    hd_log(HD_LOG_WARN, "m", "%01500d", 1);
}

static void add_log_head(hd_buf *want, const char *level) {
    hd_buf_printf(want,
                  "{\"ts\":\"2025-01-31T10:20:30.5Z\",\"level\":\"%s\",\"process\":\"test "
                  "\\\"process\\\"\",\"pid\":%ld,\"module\":\"m\",\"msg\":\"",
                  level, (long)getpid());
}

static void log_lines_are_json(void **state) {
    hd_clock_use_scripted(0, 1738318830500000);
    char *text = capture(STDERR_FILENO, log_some);
    hd_clock_use_real();
    hd_buf want = {0};
    add_log_head(&want, "info");
    hd_buf_add_str(&want, HD_STR("\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\u00e9\U0001f642\"}\n"));
    add_log_head(&want, "error");
    hd_buf_add_str(&want, HD_STR("a\ufffd\ufffd-\ufffd\ufffd\ufffd\"}\n"));
    add_log_head(&want, "warn");
    hd_buf_printf(&want, "%01500d\"}\n", 1);
    assert_string_equal(text, want.data);
    hd_buf_fini(&want);
    hd_free(text);
    hd_log_level level;
    assert_true(hd_log_level_parse(HD_STR("warn"), &level));
    assert_int_equal(level, HD_LOG_WARN);
    assert_false(hd_log_level_parse(HD_STR("WARN"), &level));
    assert_false(hd_log_level_parse(HD_STR(""), &level));
}

static void log_within_errno(void) {
    errno = 42;
    hd_log(HD_LOG_ERROR, "m", "x");
    captured_status = errno == 42 ? HD_OK : HD_INTERNAL;
}

static void logging_keeps_errno(void **state) {
    hd_free(capture(STDERR_FILENO, log_within_errno));
    assert_int_equal(captured_status, HD_OK);
}

/* --- metrics --- */

static void metrics_are_written_once_per_name(void **state) {
    hd_metric *saved = hd_metrics_counter("test_calls_total", "tool=\"save\"", "Calls.\nBy \\ tool.");
    hd_metric *open = hd_metrics_gauge("test_open", NULL, "Open.");
    hd_buf label = {0};
    hd_metrics_add_label(&label, "tool", HD_STR("a\"b\\c\nd"));
    hd_metrics_add_label(&label, "org", HD_STR("7"));
    assert_string_equal(label.data, "tool=\"a\\\"b\\\\c\\nd\",org=\"7\"");
    hd_metric *odd = hd_metrics_counter("test_calls_total", label.data, "Calls.\nBy \\ tool.");
    hd_buf_fini(&label);
    assert_ptr_equal(hd_metrics_counter("test_calls_total", "tool=\"save\"", "again"), saved);
    assert_ptr_not_equal(odd, saved);
    hd_metric_add(saved, 2);
    hd_metric_add(saved, 3);
    hd_metric_add(odd, 1);
    hd_metric_set(open, -4);
    assert_int_equal(hd_metric_get(saved), 5);
    hd_buf text = {0};
    hd_metrics_write(&text);
    assert_string_equal(text.data,
                        "# HELP test_calls_total Calls.\\nBy \\\\ tool.\n"
                        "# TYPE test_calls_total counter\n"
                        "test_calls_total{tool=\"save\"} 5\n"
                        "test_calls_total{tool=\"a\\\"b\\\\c\\nd\",org=\"7\"} 1\n"
                        "# HELP test_open Open.\n"
                        "# TYPE test_open gauge\n"
                        "test_open -4\n");
    hd_buf_fini(&text);
}

static void histograms_are_cumulative(void **state) {
    hd_metric *plain = hd_metrics_histogram_us("test_seconds", NULL, "Time.");
    hd_metric *labelled = hd_metrics_histogram_us("test_seconds", "step=\"a\"", "Time.");
    static const uint64_t observed[] = {0, 50, 51, 1000, 30000000, 30000001, 1};
    for (size_t i = 0; i < HD_COUNT_OF(observed); i++) hd_metric_observe_us(plain, observed[i]);
    hd_metric_observe_us(labelled, 100);
    hd_buf text = {0};
    hd_metrics_write(&text);
    static const char *const lines[] = {
        "# TYPE test_seconds histogram\n",
        "\ntest_seconds_bucket{le=\"0.00005\"} 3\n",
        "\ntest_seconds_bucket{le=\"0.0001\"} 4\n",
        "\ntest_seconds_bucket{le=\"0.0005\"} 4\n",
        "\ntest_seconds_bucket{le=\"0.001\"} 5\n",
        "\ntest_seconds_bucket{le=\"1\"} 5\n",
        "\ntest_seconds_bucket{le=\"30\"} 6\n",
        "\ntest_seconds_bucket{le=\"+Inf\"} 7\n",
        "\ntest_seconds_sum 60.001103\n",
        "\ntest_seconds_count 7\n",
        "\ntest_seconds_bucket{step=\"a\",le=\"0.0001\"} 1\n",
        "\ntest_seconds_sum{step=\"a\"} 0.0001\n",
        "\ntest_seconds_count{step=\"a\"} 1\n",
    };
    for (size_t i = 0; i < HD_COUNT_OF(lines); i++) {
        if (strstr(text.data, lines[i]) == NULL) fail_msg("no line %s in:\n%s", lines[i], text.data);
    }
    hd_buf_fini(&text);
}

enum { THREADS = 4, ROUNDS = 20000 };
static void *update_metrics(void *unused) {
    hd_metric *metric = hd_metrics_counter("test_threads_total", NULL, "Threads."); /* all of them register it */
    for (int i = 0; i < ROUNDS; i++) hd_metric_add(metric, 1);
    return metric;
}

static void metrics_count_across_threads(void **state) {
    pthread_t threads[THREADS];
    void *metrics[THREADS];
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, update_metrics, NULL), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], &metrics[i]), 0);
    for (int i = 1; i < THREADS; i++) assert_ptr_equal(metrics[i], metrics[0]);
    assert_int_equal(hd_metric_get(metrics[0]), THREADS * ROUNDS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(flags_are_read, reset_settings),
        cmocka_unit_test_setup(values_are_checked, reset_settings),
        cmocka_unit_test_setup(unknown_flags_are_refused, reset_settings),
        cmocka_unit_test_setup(flags_win_over_variables_over_the_file, reset_settings),
        cmocka_unit_test_setup(files_are_checked, reset_settings),
        cmocka_unit_test_setup(help_is_printed_from_the_table, reset_settings),
        cmocka_unit_test(log_lines_are_json),
        cmocka_unit_test(logging_keeps_errno),
        cmocka_unit_test(metrics_are_written_once_per_name),
        cmocka_unit_test(histograms_are_cumulative),
        cmocka_unit_test(metrics_count_across_threads),
    };
    return cmocka_run_group_tests_name("common process", tests, NULL, NULL);
}
