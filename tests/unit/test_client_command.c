/* The commands, their help and the man page say the same; words that are nearly right are understood; the data folder of serve refuses
 * what it should. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/child.h"
#include "client/command.h"
#include "client/data_folder.h"
#include "common/buf.h"

/* ---- what a command prints ---- */

static void read_file(const char *path, hd_buf *text_out) {
    FILE *file = fopen(path, "rb");
    if (file == NULL) fail_msg("cannot open %s", path);
    size_t size;
    while ((size = fread(hd_buf_reserve(text_out, 65536), 1, 65535, file)) > 0) text_out->size += size;
    text_out->data[text_out->size] = '\0';
    fclose(file);
}

/* Runs `heddle` with these words (blanks part them); its exit code, and what it printed on either stream. */
static int run(const char *words, hd_buf *out, hd_buf *err) {
    char text[256], *argv[16] = {(char *)(uintptr_t) "heddle"};
    char path_out[] = "/tmp/heddle-out-XXXXXX", path_err[] = "/tmp/heddle-err-XXXXXX";
    int argc = 1, files[2] = {mkstemp(path_out), mkstemp(path_err)}, kept[2] = {dup(1), dup(2)};
    snprintf(text, sizeof(text), "%s", words);
    for (char *at = text, *word; (word = strsep(&at, " ")) != NULL;)
        if (*word != '\0') argv[argc++] = word;
    fflush(NULL);
    dup2(files[0], 1);
    dup2(files[1], 2);
    int code = cl_main(argc, argv);
    fflush(NULL);
    for (int i = 0; i < 2; i++) {
        dup2(kept[i], 1 + i);
        close(kept[i]);
        close(files[i]);
    }
    hd_buf_clear(out);
    hd_buf_clear(err);
    read_file(path_out, out);
    read_file(path_err, err);
    unlink(path_out);
    unlink(path_err);
    return code;
}

static void expect_run(const char *words, int code, const char *piece_out, const char *piece_err) {
    hd_buf out = {0}, err = {0};
    int found = run(words, &out, &err);
    if (found != code) fail_msg("heddle %s: exit %d, not %d: %s", words, found, code, err.data);
    if (strstr(out.data, piece_out) == NULL) fail_msg("heddle %s prints no \"%s\" but: %s", words, piece_out, out.data);
    if (strstr(err.data, piece_err) == NULL) fail_msg("heddle %s says no \"%s\" but: %s", words, piece_err, err.data);
    hd_buf_fini(&out);
    hd_buf_fini(&err);
}

/* "\-" as "-": the man page as it reads. */
static void read_man_page(hd_buf *text_out) {
    hd_buf raw = {0};
    read_file(HD_SOURCE_DIR "/docs/man/heddle.1", &raw);
    for (size_t i = 0; i < raw.size; i++)
        if (raw.data[i] != '\\' || raw.data[i + 1] != '-') hd_buf_add_char(text_out, raw.data[i]);
    hd_buf_fini(&raw);
}

/* The flags ("--url") that a text names, one after the other; NULL at the end. `room` holds 64 bytes. */
static const char *next_flag(const char *at, char *room) {
    while ((at = strstr(at, "--")) != NULL) {
        size_t size = 2 + strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
        if (size > 3 && size < 64) {
            memcpy(room, at, size);
            room[size] = '\0';
            return at + size;
        }
        at += size;
    }
    return NULL;
}

/* `flag` as a whole word. */
static bool has_flag(const char *text, const char *flag) {
    size_t size = strlen(flag);
    for (const char *at = text; (at = strstr(at, flag)) != NULL; at += size)
        if (strchr("abcdefghijklmnopqrstuvwxyz-", at[size]) == NULL || at[size] == '\0') return true;
    return false;
}

static void test_man_page_has_all_of_help(void **state) {
    hd_buf man = {0}, all = {0};
    read_man_page(&man);
    for (size_t i = 0; i < cl_command_count; i++) {
        hd_buf words = {0}, out = {0}, err = {0}, name = {0};
        hd_buf_printf(&words, "%s --help", cl_commands[i].name);
        assert_int_equal(run(words.data, &out, &err), 0);
        assert_int_equal(err.size, 0);
        assert_int_equal(strncmp(out.data, "heddle ", 7), 0);
        assert_int_equal(strncmp(out.data + 7, cl_commands[i].name, strlen(cl_commands[i].name)), 0);
        char flag[64];
        size_t count = 0;
        for (const char *at = out.data; (at = next_flag(at, flag)) != NULL; count++) {
            if (!has_flag(man.data, flag) && strcmp(flag, "--listen-url") != 0)
                fail_msg("%s has %s, the man page has not", cl_commands[i].name, flag);
        }
        assert_true(count >= 4);
        /* `heddle help COMMAND` is the same page. */
        hd_buf again = {0};
        hd_buf_clear(&words);
        hd_buf_printf(&words, "help %s", cl_commands[i].name);
        assert_int_equal(run(words.data, &again, &err), 0);
        assert_string_equal(again.data, out.data);
        hd_buf_add_str(&all, hd_buf_get(&out));
        hd_buf_fini(&again);
        hd_buf_fini(&words);
        hd_buf_fini(&out);
        hd_buf_fini(&err);
        hd_buf_fini(&name);
    }
    char flag[64];
    for (const char *at = man.data; (at = next_flag(at, flag)) != NULL;)
        if (!has_flag(all.data, flag)) fail_msg("the man page has %s, no command has", flag);
    hd_buf_fini(&man);
    hd_buf_fini(&all);
}

static void test_words(void **state) {
    expect_run("", 1, "", "Commands:");
    expect_run("help", 0, "heddle import git", "");
    expect_run("--help", 0, "heddle status", "");
    expect_run("--version", 0, "heddle " HD_VERSION, "");
    expect_run("quey START", 1, "", "there is no command \"quey\"; did you mean `heddle query`?");
    expect_run("import gti .", 1, "", "there is no command \"import gti\"; did you mean `heddle import git`?");
    expect_run("admin org lits", 1, "", "did you mean `heddle admin org list`?");
    expect_run("frobnicate", 1, "", "`heddle help` lists them");
    expect_run("admin", 1, "", "admin key revoke");
    expect_run("admin key --help", 0, "admin key revoke", "");
    expect_run("help admin org", 0, "admin org create", "");
    expect_run("help frobnicate", 1, "", "there is no command");
    expect_run("--json status", 1, "", "a command comes first");
    expect_run("query", 1, "", "something is missing");
    expect_run("query a b", 1, "", "unexpected word \"b\"");
    expect_run("query x --fromat csv", 1, "", "did you mean --format?");
    expect_run("query x --format xml", 1, "", "one of table, json, csv");
    expect_run("query x -p noequals --key k", 1, "", "name=value");
    expect_run("query - --params -", 1, "", "standard input");
    expect_run("query x --json --budget rows=many --key k", 1, "\"reason\":\"invalid_argument\"", "");
    expect_run("import jsonl /nonexistent --key k", 1, "", "cannot open /nonexistent");
    expect_run("import jsonl / --key k", 1, "", "is a folder");
    expect_run("import jsonl /dev/null --batch 0 --key k", 1, "", "--batch");
    expect_run("import jsonl /dev/null", 1, "", "the org's key is missing");
    expect_run("import jsonl /dev/null --json", 1, "\"status\":\"error\"", "");
    expect_run("import jsonl /dev/null --key k", 0, "0 events added, 0 already there, 0 refused", "");
    expect_run("import git /nonexistent --key k", 1, "", "no git repository");
    expect_run("admin org list", 1, "", "the admin key is missing");
    expect_run("admin org list --data /nonexistent", 1, "", "cannot read the admin key /nonexistent/admin.key");
    expect_run("admin org delete x", 1, "", "--yes");
    expect_run("status --url nonsense:// ", 1, "", "no URL of a coordinator");
    expect_run("serve", 1, "", "--data DIR is missing");
    expect_run("serve --data /nonexistent/deep", 1, "", "cannot make the folder");
    expect_run("serve --data /tmp/x --shards 65", 1, "", "from 1 to 64");
}

/* ---- the data folder ---- */

static char base[64];

static int make_base(void **state) {
    snprintf(base, sizeof(base), "/tmp/heddle-data-XXXXXX");
    unsetenv("HEDDLE_URL");
    unsetenv("HEDDLE_KEY");
    unsetenv("HEDDLE_ADMIN_KEY");
    unsetenv("XDG_RUNTIME_DIR");
    return mkdtemp(base) == NULL;
}

static int remove_base(void **state) {
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", base);
    return system(command);
}

static void make_path(char path_out[256], const char *name) {
    snprintf(path_out, 256, "%s/%s", base, name);
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[320];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_refused(const char *path, uint64_t shards, hd_status status, const char *piece) {
    cl_data_folder *folder;
    hd_error error = {0};
    assert_int_equal(cl_data_folder_open(path, shards, &folder, &error), status);
    assert_null(folder);
    if (strstr(error.message, piece) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, piece);
}

static cl_data_folder *open_folder(const char *path, uint64_t shards) {
    cl_data_folder *folder;
    hd_error error = {0};
    if (cl_data_folder_open(path, shards, &folder, &error) != HD_OK) fail_msg("%s", error.message);
    return folder;
}

static void test_data_folder(void **state) {
    char path[256];
    struct stat facts;
    make_path(path, "memory");
    cl_data_folder *folder = open_folder(path, 0);
    assert_int_equal(cl_data_folder_shards(folder), 1);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0700);
    expect_refused(path, 0, HD_UNAVAILABLE, "in use by another `heddle serve`, process ");
    cl_data_folder_close(folder);
    folder = open_folder(path, 3);
    assert_int_equal(cl_data_folder_shards(folder), 3);
    cl_data_folder_close(folder);
    folder = open_folder(path, 0);
    assert_int_equal(cl_data_folder_shards(folder), 3);
    cl_data_folder_close(folder);
    expect_refused(path, 2, HD_ARGUMENT, "has 3 shards");
    expect_refused(path, 65, HD_ARGUMENT, "from 1 to 64");
    write_file(path, "heddle.json", "{\"format\": 2, \"shards\": 3}");
    expect_refused(path, 0, HD_ARGUMENT, "another version");
    write_file(path, "heddle.json", "{\"format\": 1, \"shards\": 0}");
    expect_refused(path, 0, HD_ARGUMENT, "how many shards");
    write_file(path, "heddle.json", "");
    expect_refused(path, 0, HD_ARGUMENT, "does not say");
    make_path(path, "memory/heddle.json");
    unlink(path);
    make_path(path, "memory");
    write_file(path, "catalog.db", "x");
    expect_refused(path, 0, HD_ARGUMENT, "without heddle.json");
}

static void test_foreign_folder(void **state) {
    char path[256];
    make_path(path, "home");
    assert_int_equal(mkdir(path, 0755), 0);
    write_file(path, "admin.key", "chosen beforehand");
    write_file(path, "serve.log", "");
    cl_data_folder_close(open_folder(path, 2));
    make_path(path, "other");
    assert_int_equal(mkdir(path, 0755), 0);
    write_file(path, "letter.txt", "dear");
    expect_refused(path, 0, HD_ARGUMENT, "letter.txt");
    make_path(path, "other/letter.txt");
    expect_refused(path, 0, HD_STORE_IO, "Not a directory");
}

static void test_endpoints(void **state) {
    char path[256];
    for (size_t length = 1; length < 120; length += 7) {
        char name[128];
        memset(name, 'd', length);
        name[length] = '\0';
        make_path(path, name);
        cl_data_folder *folder = open_folder(path, 0);
        hd_buf endpoint = {0}, again = {0};
        hd_error error = {0};
        assert_int_equal(cl_data_folder_endpoint(folder, 63, &endpoint, &error), HD_OK);
        assert_int_equal(strncmp(endpoint.data, "ipc:///", 7), 0);
        assert_true(endpoint.size - 6 <= 107);
        assert_int_equal(cl_data_folder_endpoint(folder, 63, &again, &error), HD_OK);
        assert_string_equal(endpoint.data, again.data);
        bool is_inside = strncmp(endpoint.data + 6, path, strlen(path)) == 0;
        assert_int_equal(is_inside, strlen(path) + strlen("/run/shard-63.sock") <= 107);
        if (!is_inside) {
            struct stat facts;
            *strrchr(endpoint.data, '/') = '\0';
            assert_int_equal(lstat(endpoint.data + 6, &facts), 0);
            assert_int_equal(facts.st_mode & 0777, 0700);
            /* A folder there that others may write to is not used, nor a link to another. */
            hd_buf ignored = {0};
            chmod(endpoint.data + 6, 0777);
            assert_int_equal(cl_data_folder_endpoint(folder, 0, &ignored, &error), HD_ARGUMENT);
            rmdir(endpoint.data + 6);
            assert_int_equal(symlink(base, endpoint.data + 6), 0);
            assert_int_equal(cl_data_folder_endpoint(folder, 0, &ignored, &error), HD_ARGUMENT);
            unlink(endpoint.data + 6);
            hd_buf_fini(&ignored);
        }
        hd_buf_fini(&endpoint);
        hd_buf_fini(&again);
        cl_data_folder_close(folder);
    }
}

static void test_url(void **state) {
    char path[256];
    hd_buf url = {0};
    make_path(path, "url");
    cl_data_folder *folder = open_folder(path, 0);
    assert_false(cl_data_folder_read_url(path, &url));
    cl_data_folder_write_url(folder, "http://127.0.0.1:1234");
    assert_true(cl_data_folder_read_url(path, &url));
    assert_string_equal(url.data, "http://127.0.0.1:1234");
    cl_data_folder_write_url(folder, NULL);
    assert_false(cl_data_folder_read_url(path, &url));
    cl_data_folder_close(folder);
    hd_buf_fini(&url);
}

/* ---- logs of children ---- */

static void expect_told(const char *line, const char *wanted) {
    char room[64];
    hd_str told = cl_child_find_error(hd_str_of(line), room, sizeof(room));
    if (wanted == NULL)
        assert_int_equal(told.size, 0);
    else
        assert_string_equal(told.data, wanted);
}

static void test_log_errors(void **state) {
    expect_told("", NULL);
    expect_told("{\"level\":\"info\",\"msg\":\"ready\"}", NULL);
    expect_told("{\"level\":\"error\",\"msg\":\"the port is \\\"taken\\\"\"}", "the port is \"taken\"");
    expect_told("heddle-shard: --data is missing", "heddle-shard: --data is missing");
    expect_told("{broken", "{broken");
    expect_told("0123456789012345678901234567890123456789012345678901234567890123456789",
                "012345678901234567890123456789012345678901234567890123456789012");
}

static void test_log_lines(void **state) {
    int in[2], out[2];
    char text[256];
    cl_child child;
    assert_int_equal(pipe2(in, O_NONBLOCK), 0);
    assert_int_equal(pipe2(out, O_NONBLOCK), 0);
    cl_child_init(&child, "shard 0");
    child.log = in[0];
    assert_int_equal(write(in[1], "one\ntw", 6), 6);
    cl_child_read_log(&child, out[1]);
    ssize_t size = read(out[0], text, sizeof(text));
    assert_int_equal(size, 4); /* whole lines alone */
    assert_memory_equal(text, "one\n", 4);
    assert_int_equal(write(in[1], "o\n{\"level\":\"error\",\"msg\":\"bad\"}\nrest", 36), 36);
    close(in[1]);
    cl_child_read_log(&child, out[1]);
    size = read(out[0], text, sizeof(text));
    assert_int_equal(size, 39); /* "two\n", the JSON line, "rest\n" */
    assert_memory_equal(text, "two\n{\"level\"", 12);
    assert_int_equal(text[size - 1], '\n');
    assert_int_equal(child.log, -1);
    assert_string_equal(child.last_error, "rest");
    cl_child_fini(&child);
    close(out[0]);
    close(out[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_man_page_has_all_of_help),
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_data_folder),
        cmocka_unit_test(test_foreign_folder),
        cmocka_unit_test(test_endpoints),
        cmocka_unit_test(test_url),
        cmocka_unit_test(test_log_errors),
        cmocka_unit_test(test_log_lines),
    };
    return cmocka_run_group_tests(tests, make_base, remove_base);
}
