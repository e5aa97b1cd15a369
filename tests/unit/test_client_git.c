/* From a repository to memories: made here object by object, with what tools refuse to make: odd headers, other encodings, paths that
 * are no text. Every memory is checked against all limits of save_memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include <git2.h>

#include "client/import/git_history.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/text.h"
#include "tests/support/seed.h"

static test_random random_source;

/* ---- a repository, object by object ---- */

typedef struct fixture {
    char folder[64];
    git_repository *repository;
    git_odb *objects;
} fixture;

static fixture repo;

#define GIT(call)                                                              \
    do {                                                                       \
        if ((call) != 0) fail_msg("%s: %s", #call, git_error_last()->message); \
    } while (0)

static int make_repository(void **state) {
    git_libgit2_init();
    snprintf(repo.folder, sizeof(repo.folder), "/tmp/heddle-git-XXXXXX");
    assert_non_null(mkdtemp(repo.folder));
    hd_buf path = {0};
    hd_buf_printf(&path, "%s/loom", repo.folder);
    GIT(git_repository_init(&repo.repository, path.data, 0));
    GIT(git_repository_odb(&repo.objects, repo.repository));
    GIT(git_repository_set_head(repo.repository, "refs/heads/main"));
    hd_buf_fini(&path);
    return 0;
}

static int remove_repository(void **state) {
    char command[128];
    git_odb_free(repo.objects);
    git_repository_free(repo.repository);
    snprintf(command, sizeof(command), "rm -r %s", repo.folder);
    assert_int_equal(system(command), 0);
    git_libgit2_shutdown();
    return 0;
}

typedef struct file {
    const char *path;
    hd_str content;
    unsigned mode; /* 0: a plain file */
} file;

static git_oid make_tree(const file *files, size_t count) {
    git_index *index;
    git_oid tree;
    GIT(git_index_new(&index));
    for (size_t i = 0; i < count; i++) {
        git_index_entry entry = {.path = files[i].path, .mode = files[i].mode != 0 ? files[i].mode : GIT_FILEMODE_BLOB};
        if (entry.mode == GIT_FILEMODE_COMMIT)
            GIT(git_oid_fromstr(&entry.id, "1234567890123456789012345678901234567890"));
        else
            GIT(git_odb_write(&entry.id, repo.objects, files[i].content.data, files[i].content.size, GIT_OBJECT_BLOB));
        GIT(git_index_add(index, &entry));
    }
    GIT(git_index_write_tree_to(&tree, index, repo.repository));
    git_index_free(index);
    return tree;
}

static git_oid write_commit(const hd_buf *object) {
    git_oid oid;
    GIT(git_odb_write(&oid, repo.objects, object->data, object->size, GIT_OBJECT_COMMIT));
    return oid;
}

static const char person[] = "Ada <ada@example.org> 1700000000 +0100";

/* `headers` are whole lines after the parents, or NULL for plain ones. */
static git_oid make_commit(const git_oid *tree, const git_oid *parents, size_t parent_count, const char *headers, hd_str message) {
    hd_buf object = {0};
    char hex[GIT_OID_HEXSZ + 1];
    hd_buf_printf(&object, "tree %s\n", git_oid_tostr(hex, sizeof(hex), tree));
    for (size_t i = 0; i < parent_count; i++) hd_buf_printf(&object, "parent %s\n", git_oid_tostr(hex, sizeof(hex), &parents[i]));
    if (headers != NULL)
        hd_buf_add_str(&object, hd_str_of(headers));
    else
        hd_buf_printf(&object, "author %s\ncommitter %s\n", person, person);
    hd_buf_add_char(&object, '\n');
    hd_buf_add_str(&object, message);
    git_oid oid = write_commit(&object);
    hd_buf_fini(&object);
    return oid;
}

static void set_head(const git_oid *oid) {
    git_reference *reference;
    GIT(git_reference_create(&reference, repo.repository, "refs/heads/main", oid, 1, NULL));
    git_reference_free(reference);
}

/* ---- reading it ---- */

typedef struct reading {
    cl_git_history *history;
    hd_arena *arena;
    hd_buf warnings; /* a line each */
} reading;

static reading open_history(void) {
    hd_error error = {0};
    reading r = {.arena = hd_arena_new(0)};
    hd_buf path = {0};
    hd_buf_printf(&path, "%s/loom", repo.folder);
    if (cl_git_history_open(path.data, NULL, &r.history, &error) != HD_OK) fail_msg("%s", error.message);
    hd_buf_fini(&path);
    return r;
}

static void close_history(reading *r) {
    cl_git_history_free(r->history);
    hd_arena_free(r->arena);
    hd_buf_fini(&r->warnings);
}

static void take_warning(void *self, hd_str warning) {
    hd_buf *warnings = self;
    hd_buf_add_str(warnings, warning);
    hd_buf_add_char(warnings, '\n');
}

static const char *get_text(const json_t *object, const char *name) {
    return json_string_value(json_object_get(object, name));
}

static void check_name(const char *name, size_t max) {
    hd_str text = hd_str_of(name);
    assert_non_null(name);
    assert_true(hd_text_is_utf8(text) && !hd_text_has_control(text, false));
    assert_true(hd_text_trim(text).size > 0 && hd_text_length(text) <= max);
}

/* Everything that save_memory would refuse. */
static void check_memory(const json_t *memory) {
    size_t i;
    json_t *item;
    int64_t at;
    hd_str summary = hd_str_of(get_text(memory, "summary"));
    assert_true(hd_event_id_is_valid(hd_str_of(get_text(memory, "event_id"))));
    assert_true(hd_text_trim(summary).size > 0 && hd_text_length(summary) <= 500);
    if (json_object_get(memory, "content") != NULL) assert_true(hd_text_length(hd_str_of(get_text(memory, "content"))) <= 50000);
    assert_true(hd_instant_parse(hd_str_of(get_text(memory, "timestamp")), &at));
    assert_true(json_array_size(json_object_get(memory, "entities")) <= 64);
    assert_true(json_array_size(json_object_get(memory, "tags")) <= 32);
    json_array_foreach(json_object_get(memory, "entities"), i, item) {
        check_name(get_text(item, "name"), 512);
        check_name(get_text(item, "type"), 64);
    }
    json_array_foreach(json_object_get(memory, "tags"), i, item) {
        check_name(get_text(item, "name"), 512);
        assert_true(strcmp(get_text(item, "kind"), "contains") == 0 || strcmp(get_text(item, "kind"), "refers") == 0);
    }
    assert_true(json_is_true(json_object_get(memory, "allow_truncation_marker")));
    hd_str thread = hd_str_of(get_text(memory, "thread"));
    if (thread.data != NULL) check_name(thread.data, 200);
    /* In a thread or after another, never both. */
    assert_false(thread.data != NULL && json_object_get(memory, "prev_event_id") != NULL);
    assert_int_equal(thread.data != NULL, json_object_get(memory, "order_index") != NULL);
}

/* The memory of commit `index`; its warnings in r->warnings. */
static json_t *make_memory(reading *r, uint32_t index) {
    cl_git_event event;
    bool is_on_chain;
    json_t *memory;
    hd_buf_clear(&r->warnings);
    assert_int_equal(cl_git_history_read(r->history, index, r->arena, take_warning, &r->warnings, &event, &is_on_chain), HD_OK);
    if (is_on_chain) event.thread = HD_STR("loom/main");
    assert_int_equal(cl_git_memory_make(r->arena, &event, take_warning, &r->warnings, &memory), HD_OK);
    check_memory(memory);
    return memory;
}

/* The memory of the newest commit. */
static json_t *make_newest(reading *r) {
    *r = open_history();
    return make_memory(r, cl_git_history_count(r->history) - 1);
}

static bool has_entity(const json_t *memory, const char *name, const char *type) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(memory, "entities"), i, item) if (strcmp(get_text(item, "name"), name) == 0 &&
                                                                         strcmp(get_text(item, "type"), type) == 0) return true;
    return false;
}

static bool has_tag(const json_t *memory, const char *name, const char *kind) {
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(memory, "tags"), i, item) if (strcmp(get_text(item, "name"), name) == 0 &&
                                                                     strcmp(get_text(item, "kind"), kind) == 0) return true;
    return false;
}

static void expect_warning(const reading *r, const char *piece) {
    if (r->warnings.size == 0 || strstr(r->warnings.data, piece) == NULL)
        fail_msg("no warning says \"%s\": %s", piece, r->warnings.size > 0 ? r->warnings.data : "");
}

static void expect_text(const json_t *memory, const char *name, const char *text) {
    const char *found = get_text(memory, name);
    assert_non_null(found);
    assert_string_equal(found, text);
}

/* ---- one commit ---- */

static void test_plain(void **state) {
    static const file files[] = {
        {"README.md", {"hello", 5}, 0}, {"src/loom.c", {"int x;", 6}, 0}, {"src/deep/er.c", {"int y;", 6}, 0}};
    git_oid tree = make_tree(files, 3);
    git_oid commit = make_commit(
        &tree, NULL, 0, NULL,
        HD_STR("\nWeave: a first\n  cloth\n\nCloses #12, and #7 (not repo#5, &#39;, #0, #12ab, /#8).\n\n"
               "Co-authored-by: Zoë Ångström <zoe@example.org>\nCO-AUTHORED-BY:  <only@mail>\nCo-authored-by: Ada <a@b>\n"));
    reading r;
    char id[64] = "git:";
    set_head(&commit);
    json_t *memory = make_newest(&r);
    git_oid_tostr(id + 4, 41, &commit);
    expect_text(memory, "event_id", id);
    expect_text(memory, "summary", "Weave: a first cloth");
    expect_text(memory, "timestamp", "2023-11-14T22:13:20Z");
    expect_text(memory, "thread", "loom/main");
    assert_int_equal(json_integer_value(json_object_get(memory, "order_index")), 1);
    assert_non_null(strstr(get_text(memory, "content"), "Weave: a first\n  cloth\n\nCloses #12"));
    assert_non_null(strstr(get_text(memory, "content"), "\n\nFiles:\nA README.md\nA src/deep/er.c\nA src/loom.c"));
    assert_true(has_entity(memory, "Ada", "person") && has_entity(memory, "Zoë Ångström", "person"));
    assert_true(has_entity(memory, "only@mail", "person"));
    assert_true(has_entity(memory, "#12", "issue") && has_entity(memory, "#7", "issue"));
    assert_true(has_entity(memory, "README.md", "file") && has_entity(memory, "src/deep/er.c", "file"));
    assert_int_equal(json_array_size(json_object_get(memory, "entities")), 8); /* and nothing else */
    assert_true(has_tag(memory, "src", "contains"));
    assert_int_equal(json_array_size(json_object_get(memory, "tags")), 1);
    assert_int_equal(r.warnings.size, 0);
    json_decref(memory);
    close_history(&r);
}

static void test_renames(void **state) {
    static const char text[] = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\ntwelve\n";
    static const char like[] = "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\nnine\nten\neleven\nTWELVE\n";
    static const file before[] = {{"old/a.c", {text, sizeof(text) - 1}, 0},
                                  {"old/gone.c", {"g", 1}, 0},
                                  {"kept/c.c", {"1", 1}, 0},
                                  {"kept/link", {"2", 1}, 0},
                                  {"sub", {"", 0}, GIT_FILEMODE_COMMIT}};
    static const file after[] = {
        {"new/a.c", {like, sizeof(like) - 1}, 0}, {"kept/c.c", {"2", 1}, 0}, {"kept/link", {"2", 1}, GIT_FILEMODE_LINK}};
    git_oid first_tree = make_tree(before, 5), second_tree = make_tree(after, 3);
    git_oid first = make_commit(&first_tree, NULL, 0, NULL, HD_STR("First\n"));
    git_oid second = make_commit(&second_tree, &first, 1, NULL, HD_STR("Second\n"));
    reading r;
    set_head(&second);
    json_t *memory = make_newest(&r);
    expect_text(memory, "content", "Second\n\nFiles:\nM kept/c.c\nT kept/link\nR old/a.c -> new/a.c\nD old/gone.c\nD sub");
    assert_true(has_entity(memory, "new/a.c", "file") && has_entity(memory, "old/a.c", "file") &&
                has_entity(memory, "sub", "file"));
    assert_true(has_tag(memory, "new", "contains") && has_tag(memory, "kept", "contains") && has_tag(memory, "old", "contains"));
    assert_true(has_tag(memory, "old", "refers"));
    assert_int_equal(json_array_size(json_object_get(memory, "tags")), 4);
    assert_int_equal(json_integer_value(json_object_get(memory, "order_index")), 2);
    json_decref(memory);
    memory = make_memory(&r, 0);
    assert_non_null(strstr(get_text(memory, "content"), "A sub"));
    json_decref(memory);
    close_history(&r);
}

static void test_empty_subject(void **state) {
    static const char *const messages[] = {"", "\n\n \t\n", "\xe2\x80\x83\n", NULL};
    for (size_t i = 0; messages[i] != NULL; i++) {
        git_oid tree = make_tree(NULL, 0), commit = make_commit(&tree, NULL, 0, NULL, hd_str_of(messages[i]));
        reading r;
        set_head(&commit);
        json_t *memory = make_newest(&r);
        expect_text(memory, "summary", "(no subject)");
        assert_int_equal(r.warnings.size, 0);
        json_decref(memory);
        close_history(&r);
    }
}

static void test_encodings(void **state) {
    static const struct {
        const char *encoding, *message, *summary, *author;
        bool is_warned;
    } cases[] = {
        {"encoding ISO-8859-1\n", "Gr\xfc\xdf Gott", "Grüß Gott", "J\xfcrgen", false},
        {"encoding EUC-KR\n", "\xc7\xd1\xb1\xdb", "한글", "x", false},
        {"encoding UTF-8\n", "Grüß", "Grüß", "x", false},
        {"", "Gr\xfc\xdf Gott", "Gr\xef\xbf\xbd\xef\xbf\xbd Gott", "J\xfcrgen", true},
        {"encoding EUC-KR\n", "a\xff\xff z", "a\xef\xbf\xbd\xef\xbf\xbd z", "x", true},
        {"encoding klingon-7\n", "Gr\xfc Gott", "Gr\xef\xbf\xbd Gott", "x", true},
        {"encoding klingon-7\n", "plain", "plain", "x", false},
    };
    for (size_t i = 0; i < HD_COUNT_OF(cases); i++) {
        git_oid tree = make_tree(NULL, 0);
        char headers[256];
        snprintf(headers, sizeof(headers), "author %s <a@b> 1700000000 +0000\ncommitter %s <a@b> 1700000000 +0000\n%s",
                 cases[i].author, cases[i].author, cases[i].encoding);
        git_oid commit = make_commit(&tree, NULL, 0, headers, hd_str_of(cases[i].message));
        reading r;
        set_head(&commit);
        json_t *memory = make_newest(&r);
        expect_text(memory, "summary", cases[i].summary);
        if (i == 0) assert_true(has_entity(memory, "Jürgen", "person"));
        if (i == 3) assert_true(has_entity(memory, "J\xef\xbf\xbdrgen", "person"));
        assert_int_equal(r.warnings.size > 0, cases[i].is_warned);
        json_decref(memory);
        close_history(&r);
    }
}

static void test_controls(void **state) {
    static const char message[] = "A\0B\x1b[31m \xc2\x85subject\n\nbo\0dy \t text";
    git_oid tree = make_tree(NULL, 0), commit = make_commit(&tree, NULL, 0, NULL, (hd_str){message, sizeof(message) - 1});
    reading r;
    set_head(&commit);
    json_t *memory = make_newest(&r);
    expect_text(memory, "summary",
                "A\xef\xbf\xbd"
                "B\xef\xbf\xbd[31m \xef\xbf\xbdsubject");
    assert_non_null(strstr(get_text(memory, "content"),
                           "bo\xef\xbf\xbd"
                           "dy \t text"));
    json_decref(memory);
    close_history(&r);
}

/* What git itself would not write, and old tools have written. */
static void test_odd_headers(void **state) {
    static const struct {
        const char *headers, *person, *timestamp;
        bool is_warned;
    } cases[] = {
        {"author Ada\ncommitter Ada <x> 86400 +0000\n", "Ada", "1970-01-02T00:00:00Z", false},
        {"author Ada <x 86400 +0000\n", "Ada", "1970-01-01T00:00:00Z", true},
        {"author Ada <x> 86400 +0000\ncommitter Bob <y> nonsense\n", "Ada", "1970-01-02T00:00:00Z", false},
        {"author  <x@y> 0 +0000\ncommitter Bob <y> 0 +0000\n", "x@y", "1970-01-01T00:00:00Z", false},
        {"author Ada <a> b> 0 +0000\ncommitter B <y> -86400 +0000\n", "Ada", "1969-12-31T00:00:00Z", false},
        {"author Ada <a> 0 +0000\ncommitter B <y> 99999999999999999999999 +0000\n", "Ada", "1970-01-01T00:00:00Z", false},
        {"author Ada <a> 0 +0000\ncommitter B <y> 999999999999999 +0000\n", "Ada", "9999-12-31T23:59:59Z", true},
        {"", NULL, "1970-01-01T00:00:00Z", true},
        {"author Ada\x07 Lovelace <a> 0 +0000\ngpgsig -----BEGIN\n author Eve <e> 9 +0000\n -----END\ncommitter B <y> 0 +0000\n",
         "Ada\xef\xbf\xbd Lovelace", "1970-01-01T00:00:00Z", false},
        {"author <> 0 +0000\ncommitter <> 0 +0000\n", NULL, "1970-01-01T00:00:00Z", true},
        {"parent 123\nauthor Ada <a> 0 +0000\nauthor Eve <a> 0 +0000\n", "Ada", "1970-01-01T00:00:00Z", false},
    };
    for (size_t i = 0; i < HD_COUNT_OF(cases); i++) {
        git_oid tree = make_tree(NULL, 0), commit = make_commit(&tree, NULL, 0, cases[i].headers, HD_STR("S\n"));
        reading r;
        set_head(&commit);
        json_t *memory = make_newest(&r);
        expect_text(memory, "timestamp", cases[i].timestamp);
        if (cases[i].person != NULL) assert_true(has_entity(memory, cases[i].person, "person"));
        assert_int_equal(json_array_size(json_object_get(memory, "entities")), cases[i].person != NULL);
        assert_int_equal(r.warnings.size > 0, cases[i].is_warned);
        json_decref(memory);
        close_history(&r);
    }
}

/* A commit object of any bytes is parsed without harm, also cut off anywhere. */
static void test_damaged_objects(void **state) {
    static const char object[] =
        "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nparent 1234567890123456789012345678901234567890\nauthor A <b> 1 +0000\n"
        "committer A <b> 1 +0000\nencoding latin1\n\nHello\n";
    hd_arena *arena = hd_arena_new(0);
    for (int round = 0; round < 20000; round++) {
        size_t size = test_random_below(&random_source, sizeof(object));
        char *bytes = hd_alloc(size + 1);
        cl_git_commit commit;
        memcpy(bytes, object, size);
        for (uint32_t n = test_random_below(&random_source, 4); n > 0 && size > 0; n--)
            bytes[test_random_below(&random_source, (uint32_t)size)] = (char)test_random_below(&random_source, 256);
        assert_int_equal(cl_git_commit_parse(arena, (hd_str){bytes, size}, &commit), HD_OK);
        assert_true(commit.parent_count <= 1);
        assert_true(commit.message.size <= size && commit.author_name.size <= size);
        hd_str text;
        bool is_repaired;
        assert_int_equal(cl_git_text(arena, commit.message, commit.encoding, &text, &is_repaired), HD_OK);
        assert_true(hd_text_is_utf8(text));
        hd_arena_reset(arena);
        hd_free(bytes);
    }
    hd_arena_free(arena);
}

/* ---- what is too long, too many, or no text ---- */

static void test_long_texts(void **state) {
    hd_buf message = {0};
    for (int i = 0; i < 501; i++) hd_buf_add_str(&message, HD_STR("가"));
    hd_buf_add_str(&message, HD_STR("\n\n"));
    for (int i = 0; i < 60000; i++) hd_buf_add_str(&message, HD_STR("é"));
    static const file files[] = {{"a.c", {"1", 1}, 0}};
    git_oid tree = make_tree(files, 1), commit = make_commit(&tree, NULL, 0, NULL, hd_buf_get(&message));
    reading r;
    set_head(&commit);
    json_t *memory = make_newest(&r);
    hd_str summary = hd_str_of(get_text(memory, "summary")), content = hd_str_of(get_text(memory, "content"));
    assert_int_equal(hd_text_length(summary), 500);
    assert_string_equal(summary.data + summary.size - 6, " […]");
    assert_int_equal(hd_text_length(content), 50000);
    assert_non_null(strstr(content.data, "é […]\n\nFiles:\nA a.c"));
    expect_warning(&r, "subject has 501 characters");
    expect_warning(&r, "message has 60503 characters");
    json_decref(memory);
    close_history(&r);
    hd_buf_fini(&message);
    /* One that just fits is not touched. */
    for (int i = 0; i < 500; i++) hd_buf_add_str(&message, HD_STR("가"));
    tree = make_tree(NULL, 0);
    commit = make_commit(&tree, NULL, 0, NULL, hd_buf_get(&message));
    set_head(&commit);
    memory = make_newest(&r);
    expect_text(memory, "summary", message.data);
    assert_int_equal(r.warnings.size, 0);
    json_decref(memory);
    close_history(&r);
    hd_buf_fini(&message);
}

static void test_markers_land(void **state) {
    git_oid tree = make_tree(NULL, 0);
    git_oid commit =
        make_commit(&tree, NULL, 0, NULL, HD_STR("Refuse [truncated] and <response clipped>\n\n…12 tokens truncated…\n"));
    reading r;
    set_head(&commit);
    json_t *memory = make_newest(&r); /* check_memory asserts allow_truncation_marker */
    expect_text(memory, "summary", "Refuse [truncated] and <response clipped>");
    json_decref(memory);
    close_history(&r);
}

static void test_many_files(void **state) {
    enum { COUNT = 5000 };
    file *files = hd_alloc_zero(COUNT, sizeof(*files));
    char(*paths)[64] = hd_alloc_zero(COUNT, sizeof(*paths));
    for (int i = 0; i < COUNT; i++) {
        snprintf(paths[i], sizeof(paths[i]), "folder%02d/file%04d.c", i % 40, i);
        files[i] = (file){paths[i], {"x", 1}, 0};
    }
    git_oid tree = make_tree(files, COUNT), commit = make_commit(&tree, NULL, 0, NULL, HD_STR("Vendor it all, see #3\n"));
    reading r;
    set_head(&commit);
    json_t *memory = make_newest(&r);
    assert_int_equal(json_array_size(json_object_get(memory, "entities")), 64);
    assert_true(has_entity(memory, "Ada", "person") && has_entity(memory, "#3", "issue")); /* files are left out first */
    assert_int_equal(json_array_size(json_object_get(memory, "tags")), 32);
    expect_warning(&r, "more than 64 entities; 4938 left out: ");
    expect_warning(&r, "more than 32 tags; 8 left out: folder32, ");
    expect_warning(&r, "its list of 5000 files does not fit");
    /* All that is over is named, each once: together with those that are there they are all files. */
    size_t named = 0;
    for (const char *at = r.warnings.data; (at = strstr(at, ".c")) != NULL; at++) named++;
    assert_int_equal(named, 4938);
    assert_non_null(strstr(get_text(memory, "content"), "more files"));
    json_decref(memory);
    close_history(&r);
    hd_free(files);
    hd_free(paths);
}

static void test_odd_paths(void **state) {
    char longest[700];
    memset(longest, 'p', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    memcpy(longest, "deep/", 5);
    const file files[] = {{"caf\xe9/men\xfc.txt", {"1", 1}, 0},
                          {"new\nline/tab\there", {"2", 1}, 0},
                          {" ", {"3", 1}, 0},
                          {longest, {"4", 1}, 0},
                          {"  /x", {"5", 1}, 0},
                          {"메뉴/김치.md", {"6", 1}, 0}};
    git_oid tree = make_tree(files, HD_COUNT_OF(files)), commit = make_commit(&tree, NULL, 0, NULL, HD_STR("S"));
    reading r;
    set_head(&commit);
    json_t *memory = make_newest(&r);
    assert_true(has_entity(memory, "caf\xef\xbf\xbd/men\xef\xbf\xbd.txt", "file") &&
                has_tag(memory, "caf\xef\xbf\xbd", "contains"));
    assert_true(has_entity(memory, "new\xef\xbf\xbdline/tab\xef\xbf\xbdhere", "file"));
    assert_true(has_entity(memory, "\" \"", "file") && has_tag(memory, "\"  \"", "contains"));
    assert_true(has_entity(memory, "메뉴/김치.md", "file") && has_tag(memory, "메뉴", "contains"));
    assert_int_equal(json_array_size(json_object_get(memory, "entities")), 7);
    expect_warning(&r, "the name of a file is over 512 characters");
    assert_non_null(strstr(get_text(memory, "content"), longest)); /* the list has it whole */
    json_decref(memory);
    close_history(&r);
}

/* ---- histories ---- */

static json_t *find_memory(reading *r, const git_oid *oid) {
    char wanted[41], hash[41];
    git_oid_tostr(wanted, sizeof(wanted), oid);
    for (uint32_t i = 0; i < cl_git_history_count(r->history); i++) {
        cl_git_history_hash(r->history, i, hash);
        if (strcmp(hash, wanted) == 0) return make_memory(r, i);
    }
    fail_msg("%s is not in the history", wanted);
    return NULL;
}

static void expect_place(reading *r, const git_oid *oid, json_int_t order, const git_oid *previous) {
    json_t *memory = find_memory(r, oid);
    char id[64] = "git:";
    if (order > 0) {
        assert_int_equal(json_integer_value(json_object_get(memory, "order_index")), order);
    } else if (previous != NULL) {
        git_oid_tostr(id + 4, 41, previous);
        expect_text(memory, "prev_event_id", id);
    } else {
        assert_null(json_object_get(memory, "prev_event_id"));
        assert_null(json_object_get(memory, "thread"));
    }
    json_decref(memory);
}

/*      a ── b ── m ── o        m merges d, o is an octopus of e and of f, a second root
 *       \── c ── d /  |
 *        \── e ──────/| f
 */
static void test_merges(void **state) {
    static const file base[] = {{"a.c", {"1", 1}, 0}}, side[] = {{"a.c", {"1", 1}, 0}, {"side/d.c", {"2", 1}, 0}};
    git_oid tree = make_tree(base, 1), side_tree = make_tree(side, 2);
    git_oid a = make_commit(&tree, NULL, 0, NULL, HD_STR("a")), b = make_commit(&tree, &a, 1, NULL, HD_STR("b"));
    git_oid c = make_commit(&tree, &a, 1, NULL, HD_STR("c")), d = make_commit(&side_tree, &c, 1, NULL, HD_STR("d"));
    git_oid m = make_commit(&side_tree, (git_oid[]){b, d}, 2, NULL, HD_STR("m")), e = make_commit(&tree, &a, 1, NULL, HD_STR("e"));
    git_oid f = make_commit(&tree, NULL, 0, NULL, HD_STR("f"));
    git_oid o = make_commit(&side_tree, (git_oid[]){m, e, f}, 3, NULL, HD_STR("o"));
    set_head(&o);
    reading r = open_history();
    assert_int_equal(cl_git_history_count(r.history), 8);
    assert_string_equal(cl_git_history_name(r.history), "loom/main");
    expect_place(&r, &a, 1, NULL);
    expect_place(&r, &b, 2, NULL);
    expect_place(&r, &m, 3, NULL);
    expect_place(&r, &o, 4, NULL);
    expect_place(&r, &c, 0, &a);
    expect_place(&r, &d, 0, &c);
    expect_place(&r, &e, 0, &a);
    expect_place(&r, &f, 0, NULL);
    json_t *memory = find_memory(&r, &m); /* against the first parent: what the branch brought */
    expect_text(memory, "content", "m\n\nFiles:\nA side/d.c");
    assert_true(has_tag(memory, "side", "contains"));
    json_decref(memory);
    memory = find_memory(&r, &o);
    expect_text(memory, "content", "o");
    json_decref(memory);
    close_history(&r);
}

static void test_shallow(void **state) {
    static const file files[] = {{"a.c", {"1", 1}, 0}};
    git_oid tree = make_tree(files, 1), absent;
    GIT(git_oid_fromstr(&absent, "00000000000000000000000000000000000000aa"));
    git_oid a = make_commit(&tree, &absent, 1, NULL, HD_STR("a")), b = make_commit(&tree, &a, 1, NULL, HD_STR("b"));
    git_oid c = make_commit(&tree, (git_oid[]){b, absent}, 2, NULL, HD_STR("c"));
    set_head(&c);
    reading r = open_history();
    assert_int_equal(cl_git_history_count(r.history), 3);
    assert_int_equal(cl_git_history_missing(r.history), 1);
    expect_place(&r, &a, 1, NULL);
    expect_place(&r, &c, 3, NULL);
    json_t *memory = find_memory(&r, &a);
    expect_text(memory, "content", "a\n\nFiles:\nA a.c");
    json_decref(memory);
    close_history(&r);
}

/* A tree that is gone: the commit lands without its files. */
static void test_missing_tree(void **state) {
    git_oid tree;
    GIT(git_oid_fromstr(&tree, "00000000000000000000000000000000000000bb"));
    git_oid commit = make_commit(&tree, NULL, 0, NULL, HD_STR("Lost\n"));
    reading r;
    set_head(&commit);
    json_t *memory = make_newest(&r);
    expect_text(memory, "summary", "Lost");
    expect_warning(&r, "cannot be read");
    json_decref(memory);
    close_history(&r);
}

/* Random histories against a naive look at them: everything reachable, once, parents first, the chain numbered from its root; and
 * the same at a second look. */
static void test_random_histories(void **state) {
    enum { COUNT_MAX = 60 };
    git_oid tree = make_tree(NULL, 0);
    for (int round = 0; round < 200; round++) {
        git_oid oids[COUNT_MAX];
        int parents[COUNT_MAX][4], parent_count[COUNT_MAX];
        int count = 1 + (int)test_random_below(&random_source, COUNT_MAX);
        for (int i = 0; i < count; i++) {
            git_oid chosen[4];
            char message[32];
            parent_count[i] = i == 0 ? 0 : (int)test_random_below(&random_source, 4);
            for (int p = 0; p < parent_count[i]; p++) {
                int back = 1 + (int)test_random_below(&random_source, (uint32_t)HD_MIN(i, 6));
                parents[i][p] = i - back;
                chosen[p] = oids[i - back];
            }
            snprintf(message, sizeof(message), "%d.%d", round, i);
            oids[i] = make_commit(&tree, chosen, (size_t)parent_count[i], NULL, hd_str_of(message));
        }
        set_head(&oids[count - 1]);
        bool is_reachable[COUNT_MAX] = {0};
        int order[COUNT_MAX] = {0}, length = 0;
        is_reachable[count - 1] = true;
        for (int i = count - 1; i >= 0; i--)
            for (int p = 0; is_reachable[i] && p < parent_count[i]; p++) is_reachable[parents[i][p]] = true;
        for (int i = count - 1;; i = parents[i][0]) {
            length++;
            if (parent_count[i] == 0) break;
        }
        for (int i = count - 1, n = length; n > 0; i = parents[i][0], n--) {
            order[i] = n;
            if (parent_count[i] == 0) break;
        }
        reading r = open_history(), again = open_history();
        int place[COUNT_MAX], found = 0;
        for (int i = 0; i < count; i++) place[i] = -1;
        for (uint32_t n = 0; n < cl_git_history_count(r.history); n++) {
            char hash[41], other[41], hex[41];
            cl_git_history_hash(r.history, n, hash);
            cl_git_history_hash(again.history, n, other);
            assert_string_equal(hash, other);
            for (int i = 0; i < count; i++) {
                if (strcmp(git_oid_tostr(hex, sizeof(hex), &oids[i]), hash) != 0) continue;
                assert_int_equal(place[i], -1);
                place[i] = (int)n;
                found++;
            }
        }
        int wanted = 0;
        for (int i = 0; i < count; i++) {
            wanted += is_reachable[i];
            if (!is_reachable[i]) continue;
            for (int p = 0; p < parent_count[i]; p++) assert_true(place[parents[i][p]] < place[i]);
            expect_place(&r, &oids[i], order[i], parent_count[i] > 0 ? &oids[parents[i][0]] : NULL);
        }
        assert_int_equal(found, wanted);
        close_history(&r);
        close_history(&again);
    }
}

/* ---- opening ---- */

static void expect_not_opened(const char *path, const char *ref, const char *piece) {
    cl_git_history *history;
    hd_error error = {0};
    assert_int_equal(cl_git_history_open(path, ref, &history, &error), HD_ARGUMENT);
    assert_null(history);
    if (strstr(error.message, piece) == NULL) fail_msg("\"%s\" does not say \"%s\"", error.message, piece);
}

static void test_opening(void **state) {
    git_oid tree = make_tree(NULL, 0), commit = make_commit(&tree, NULL, 0, NULL, HD_STR("a"));
    char path[128];
    hd_error error = {0};
    cl_git_history *history;
    git_repository *bare;
    set_head(&commit);
    expect_not_opened("/nonexistent/place", NULL, "no git repository");
    snprintf(path, sizeof(path), "%s/loom", repo.folder);
    expect_not_opened(path, "nowhere", "no commit is called \"nowhere\"");
    assert_int_equal(cl_git_history_open(path, "main", &history, &error), HD_OK);
    assert_string_equal(cl_git_history_name(history), "loom/main");
    cl_git_history_free(history);
    GIT(git_repository_set_head_detached(repo.repository, &commit));
    assert_int_equal(cl_git_history_open(path, NULL, &history, &error), HD_OK);
    assert_string_equal(cl_git_history_name(history), "loom/HEAD");
    cl_git_history_free(history);
    GIT(git_repository_set_head(repo.repository, "refs/heads/main"));
    snprintf(path, sizeof(path), "%s/bare.git", repo.folder);
    GIT(git_repository_init(&bare, path, 1));
    expect_not_opened(path, NULL, "no commits yet");
    git_repository_free(bare);
}

int main(int argc, char **argv) {
    random_source.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),           cmocka_unit_test(test_renames),      cmocka_unit_test(test_empty_subject),
        cmocka_unit_test(test_encodings),       cmocka_unit_test(test_controls),     cmocka_unit_test(test_odd_headers),
        cmocka_unit_test(test_damaged_objects), cmocka_unit_test(test_long_texts),   cmocka_unit_test(test_markers_land),
        cmocka_unit_test(test_many_files),      cmocka_unit_test(test_odd_paths),    cmocka_unit_test(test_merges),
        cmocka_unit_test(test_shallow),         cmocka_unit_test(test_missing_tree), cmocka_unit_test(test_random_histories),
        cmocka_unit_test(test_opening),
    };
    return cmocka_run_group_tests(tests, make_repository, remove_repository);
}
