/* Store and key layouts: what is written is read back, also after reopening; what is not ours is refused; a full disk stops writes and
 * nothing else, and once there is room they go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/graph.h"
#include "shard/keys.h"
#include "shard/store.h"
#include "tests/support/shard_fixture.h"

static uint64_t seed;

static void put_one(sh_store *store, sh_family family, hd_str key, hd_str value) {
    hd_error error = {0};
    sh_batch *batch = sh_batch_new();
    sh_batch_put(batch, store, family, key, value);
    ASSERT_OK(sh_store_write(store, batch, true, &error), error);
    sh_batch_free(batch);
}

static hd_status get_one(sh_store *store, sh_family family, hd_str key, char *value_out, size_t room) {
    hd_error error = {0};
    hd_arena *arena = hd_arena_new(0);
    hd_str value = {0};
    hd_status status = sh_store_get(store, family, key, arena, &value, &error);
    if (status == HD_OK) snprintf(value_out, room, HD_STR_FMT, HD_STR_ARG(value));
    hd_arena_free(arena);
    return status;
}

static uint32_t count_rows(sh_store *store, sh_family family, hd_str prefix) {
    hd_error error = {0};
    sh_scan *scan = NULL;
    ASSERT_OK(sh_scan_open(store, family, prefix, &scan, &error), error);
    hd_str key, value, before = {0};
    char last[64] = "";
    uint32_t count = 0;
    while (sh_scan_next(scan, &key, &value)) {
        assert_true(key.size >= prefix.size && memcmp(key.data, prefix.data, prefix.size) == 0);
        if (count > 0) assert_true(hd_str_compare(before, key) < 0);
        memcpy(last, key.data, HD_MIN(key.size, sizeof(last)));
        before = (hd_str){last, HD_MIN(key.size, sizeof(last))};
        count++;
    }
    assert_false(sh_scan_next(scan, &key, &value)); /* the end stays the end */
    ASSERT_OK(sh_scan_status(scan, &error), error);
    sh_scan_close(scan);
    return count;
}

static void test_read_back(void **state) {
    char folder[64], text[64] = "";
    fixture_folder(folder);
    sh_store *store = NULL;
    hd_error error = {0};
    ASSERT_OK(sh_store_open(folder, FIXTURE_CACHE, &store, &error), error);
    put_one(store, SH_FAMILY_EVENT, HD_STR("a1"), HD_STR("one"));
    put_one(store, SH_FAMILY_EVENT, HD_STR("a2"), HD_STR("two"));
    put_one(store, SH_FAMILY_EVENT, HD_STR("b1"), HD_STR("three"));
    put_one(store, SH_FAMILY_TEXT, HD_STR("a1"), HD_STR(""));
    assert_int_equal(get_one(store, SH_FAMILY_EVENT, HD_STR("a2"), text, sizeof(text)), HD_OK);
    assert_string_equal(text, "two");
    assert_int_equal(get_one(store, SH_FAMILY_VECTOR, HD_STR("a2"), text, sizeof(text)), HD_NOT_FOUND);
    assert_int_equal(get_one(store, SH_FAMILY_TEXT, HD_STR("a1"), text, sizeof(text)), HD_OK);
    assert_string_equal(text, "");
    assert_int_equal(count_rows(store, SH_FAMILY_EVENT, HD_STR("a")), 2);
    assert_int_equal(count_rows(store, SH_FAMILY_EVENT, HD_STR("")), 3);
    assert_int_equal(count_rows(store, SH_FAMILY_EVENT, HD_STR("c")), 0);
    assert_int_equal(count_rows(store, SH_FAMILY_ONCE, HD_STR("")), 0);
    sh_store_close(store);
    ASSERT_OK(sh_store_open(folder, FIXTURE_CACHE, &store, &error), error);
    assert_int_equal(get_one(store, SH_FAMILY_EVENT, HD_STR("b1"), text, sizeof(text)), HD_OK);
    assert_string_equal(text, "three");
    sh_batch *batch = sh_batch_new();
    sh_batch_delete_range(batch, store, SH_FAMILY_EVENT, HD_STR("a"), HD_STR("b"));
    sh_batch_delete(batch, store, SH_FAMILY_TEXT, HD_STR("a1"));
    assert_true(sh_batch_bytes(batch) > 0);
    ASSERT_OK(sh_store_write(store, batch, true, &error), error);
    sh_batch_free(batch);
    assert_int_equal(count_rows(store, SH_FAMILY_EVENT, HD_STR("")), 1);
    assert_int_equal(count_rows(store, SH_FAMILY_TEXT, HD_STR("")), 0);
    assert_true(sh_store_disk_bytes(store) > 0);
    sh_store_close(store);
    fixture_remove(folder);
}

static void expect_refused(const char *folder, hd_status code, const char *piece) {
    sh_store *store = NULL;
    hd_error error = {0};
    assert_int_equal(sh_store_open(folder, FIXTURE_CACHE, &store, &error), code);
    assert_null(store);
    assert_non_null(strstr(error.message, folder));
    if (!strstr(error.message, piece)) print_error("message: %s\n", error.message);
    assert_non_null(strstr(error.message, piece));
}

static void write_file(const char *folder, const char *name, const char *text) {
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_strange_folders(void **state) {
    char folder[64], path[128];
    fixture_folder(folder);
    write_file(folder, "holiday.jpg", "x");
    expect_refused(folder, HD_ARGUMENT, "holiday.jpg");
    snprintf(path, sizeof(path), "%s/holiday.jpg", folder);
    unlink(path);
    write_file(folder, "format", "heddle-shard 2\n");
    expect_refused(folder, HD_ARGUMENT, "format 2");
    write_file(folder, "format", "heddle-shard 1x\n");
    expect_refused(folder, HD_ARGUMENT, "says something else");
    write_file(folder, "format", "");
    expect_refused(folder, HD_ARGUMENT, "says something else");
    snprintf(path, sizeof(path), "%s/format", folder);
    unlink(path);
    write_file(folder, "format.new", "heddle-sh"); /* a start that was broken off */
    sh_store *store = NULL, *other = NULL;
    hd_error error = {0};
    ASSERT_OK(sh_store_open(folder, FIXTURE_CACHE, &store, &error), error);
    assert_int_equal(sh_store_open(folder, FIXTURE_CACHE, &other, &error), HD_UNAVAILABLE);
    assert_non_null(strstr(error.message, "in use by another process"));
    sh_store_close(store);
    fixture_remove(folder);
    expect_refused("/proc/no/such/place", HD_STORE_IO, "create it");
}

static void test_damaged_database(void **state) {
    char folder[64];
    fixture_folder(folder);
    sh_store *store = NULL;
    hd_error error = {0};
    ASSERT_OK(sh_store_open(folder, FIXTURE_CACHE, &store, &error), error);
    sh_store_close(store);
    write_file(folder, "db/CURRENT", "MANIFEST-999999\n");
    assert_int_not_equal(sh_store_open(folder, FIXTURE_CACHE, &store, &error), HD_OK);
    assert_null(store);
    assert_non_null(strstr(error.message, folder));
    fixture_remove(folder);
}

/* Files may not grow beyond the limit: what a full disk does, without one. */
static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_full_disk(void **state) {
    char folder[64], key[16], text[64] = "";
    char *big = calloc(1, 64 << 10);
    fixture_folder(folder);
    signal(SIGXFSZ, SIG_IGN);
    hd_clock_use_scripted(1000000000, 0);
    sh_store *store = NULL;
    hd_error error = {0};
    ASSERT_OK(sh_store_open(folder, FIXTURE_CACHE, &store, &error), error);
    sh_batch *batch = sh_batch_new();
    limit_files(1 << 20);
    int written = 0;
    hd_status status = HD_OK;
    for (; status == HD_OK && written < 200; written++) {
        snprintf(key, sizeof(key), "k%04d", written);
        sh_batch_clear(batch);
        sh_batch_put(batch, store, SH_FAMILY_TEXT, hd_str_of(key), (hd_str){big, 64 << 10});
        sh_batch_put(batch, store, SH_FAMILY_META, hd_str_of(key), HD_STR("kept"));
        status = sh_store_write(store, batch, true, &error);
    }
    written--; /* the last one failed */
    assert_int_equal(status, HD_STORE_FULL);
    assert_true(written > 5 && written < 199);
    assert_true(sh_store_is_failed(store));
    limit_files(512);                               /* now nothing goes, a new log and manifest neither */
    for (int attempt = 0; attempt < 3; attempt++) { /* reads go on, writes do not, however often it is tried */
        hd_error again = {0};
        assert_int_equal(sh_store_write(store, batch, true, &again), HD_STORE_FULL);
        assert_int_equal(get_one(store, SH_FAMILY_META, HD_STR("k0000"), text, sizeof(text)), HD_OK);
        assert_true((int)count_rows(store, SH_FAMILY_META, HD_STR("k")) >= written);
        hd_error recovery = {0};
        assert_int_not_equal(sh_store_recover(store, &recovery), HD_OK);
        hd_clock_advance(2000000);
    }
    limit_files(RLIM_INFINITY);
    hd_error recovery = {0};
    sh_scan *scan = NULL;
    ASSERT_OK(sh_scan_open(store, SH_FAMILY_META, HD_STR(""), &scan, &recovery), recovery);
    assert_int_equal(sh_store_recover(store, &recovery), HD_STORE_FULL); /* not under a scan */
    sh_scan_close(scan);
    hd_clock_advance(2000000);
    memset(&recovery, 0, sizeof(recovery));
    ASSERT_OK(sh_store_recover(store, &recovery), recovery);
    assert_false(sh_store_is_failed(store));
    put_one(store, SH_FAMILY_META, HD_STR("after"), HD_STR("room"));
    sh_store_close(store);
    ASSERT_OK(sh_store_open(folder, FIXTURE_CACHE, &store, &recovery), recovery);
    for (int i = 0; i < written; i++) { /* what was acknowledged */
        snprintf(key, sizeof(key), "k%04d", i);
        assert_int_equal(get_one(store, SH_FAMILY_META, hd_str_of(key), text, sizeof(text)), HD_OK);
        assert_int_equal(get_one(store, SH_FAMILY_TEXT, hd_str_of(key), text, sizeof(text)), HD_OK);
    }
    assert_int_equal(get_one(store, SH_FAMILY_META, HD_STR("after"), text, sizeof(text)), HD_OK);
    hd_clock_use_real();
    sh_batch_free(batch);
    sh_store_close(store);
    fixture_remove(folder);
    free(big);
}

/* -- layouts ------------------------------------------------------------------------------------------------------------------------- */

static void test_keys(void **state) {
    test_random r = {seed};
    for (int i = 0; i < 2000; i++) {
        uint64_t p[2], n[2];
        char key[2][SH_KEY_RECORD_SIZE];
        for (int j = 0; j < 2; j++) {
            p[j] = test_random_below(&r, 3) ? test_random_below(&r, 4) : test_random_u64(&r) >> test_random_below(&r, 64);
            n[j] = test_random_u64(&r) >> test_random_below(&r, 64);
            sh_key_of_record(p[j], n[j], key[j]);
            uint64_t p_back, n_back;
            assert_true(sh_key_parse_record((hd_str){key[j], sizeof(key[j])}, &p_back, &n_back));
            assert_true(p_back == p[j] && n_back == n[j]);
        }
        int bytes = memcmp(key[0], key[1], sizeof(key[0]));
        int numbers = p[0] != p[1] ? (p[0] < p[1] ? -1 : 1) : n[0] < n[1] ? -1 : n[0] > n[1];
        assert_true((bytes < 0) == (numbers < 0) && (bytes > 0) == (numbers > 0));
        char from[SH_KEY_PARTITION_SIZE], to[SH_KEY_PARTITION_SIZE];
        sh_key_of_partition(p[0] & ~(uint64_t)1, from);
        sh_key_after_partition(p[0] & ~(uint64_t)1, to);
        assert_true(memcmp(from, to, sizeof(from)) < 0);
    }
    uint64_t a, b;
    assert_false(sh_key_parse_record(HD_STR("short"), &a, &b));
    assert_false(sh_key_parse_meta(sh_key_meta_uuid(), &a));
    char once[2][SH_KEY_ONCE_SIZE];
    sh_key_of_once(1, HD_STR("k"), once[0]);
    sh_key_of_once(1, HD_STR("K"), once[1]);
    assert_memory_not_equal(once[0], once[1], sizeof(once[0]));
    assert_memory_equal(once[0], once[1], 8);
}

static hd_str random_text(test_random *r, hd_arena *arena, uint32_t size_max) {
    uint32_t size = test_random_below(r, size_max + 1);
    char *text = hd_arena_alloc(arena, size + 1);
    for (uint32_t i = 0; i < size; i++) text[i] = "abcdefghij.:-_"[test_random_below(r, 14)];
    return (hd_str){text, size};
}

static void make_record(test_random *r, hd_arena *arena, hd_event_record *e) {
    static float vector[3] = {1, 2, 3};
    *e = (hd_event_record){.timestamp_us = (int64_t)test_random_u64(r)};
    do e->id = random_text(r, arena, 64);
    while (e->id.size == 0);
    e->has_order = test_random_below(r, 2);
    if (e->has_order) e->order_index = (int64_t)test_random_u64(r);
    if (test_random_below(r, 2)) e->thread = random_text(r, arena, 20);
    if (test_random_below(r, 2)) e->previous = random_text(r, arena, 20);
    if (test_random_below(r, 2)) e->vector = vector;
    e->dimension = e->vector ? 3 : 0;
    e->entity_count = test_random_below(r, SH_ENTITIES_MAX + 1);
    e->entities = hd_arena_alloc_zero(arena, e->entity_count, sizeof(*e->entities));
    for (uint32_t i = 0; i < e->entity_count; i++) {
        e->entities[i].name = random_text(r, arena, 30);
        if (test_random_below(r, 2)) e->entities[i].type = random_text(r, arena, 5);
    }
    e->tag_count = test_random_below(r, SH_TAGS_MAX + 1);
    e->tags = hd_arena_alloc_zero(arena, e->tag_count, sizeof(*e->tags));
    for (uint32_t i = 0; i < e->tag_count; i++)
        e->tags[i] = (hd_tag_ref){random_text(r, arena, 30), test_random_below(r, 2) ? HD_KIND_CONTAINS : HD_KIND_REFERS};
}

static bool is_same(hd_str a, hd_str b) {
    return (a.data == NULL) == (b.data == NULL) && hd_str_is_equal(a, b);
}

static void assert_same_record(const hd_event_record *a, const hd_event_record *b) {
    assert_true(is_same(a->id, b->id) && is_same(a->thread, b->thread) && is_same(a->previous, b->previous));
    assert_true(a->timestamp_us == b->timestamp_us && a->has_order == b->has_order && a->order_index == b->order_index);
    assert_int_equal(a->entity_count, b->entity_count);
    assert_int_equal(a->tag_count, b->tag_count);
    for (uint32_t i = 0; i < a->entity_count; i++)
        assert_true(is_same(a->entities[i].name, b->entities[i].name) && is_same(a->entities[i].type, b->entities[i].type));
    for (uint32_t i = 0; i < a->tag_count; i++)
        assert_true(is_same(a->tags[i].name, b->tags[i].name) && a->tags[i].kind == b->tags[i].kind);
}

static void test_event_layout(void **state) {
    test_random r = {seed};
    for (int i = 0; i < 300; i++) {
        hd_arena *arena = hd_arena_new(0);
        hd_event_record e, back;
        hd_buf buf = {0};
        uint64_t born = test_random_u64(&r) >> test_random_below(&r, 64), born_back = 0;
        bool has_vector = false;
        make_record(&r, arena, &e);
        sh_value_add_event(&buf, &e, born);
        assert_int_equal(sh_value_read_event(arena, hd_buf_get(&buf), &back, &born_back, &has_vector), HD_OK);
        assert_same_record(&e, &back);
        assert_true(born == born_back && has_vector == (e.vector != NULL));
        for (size_t cut = 0; cut < buf.size; cut += 1 + buf.size / 50)
            assert_int_equal(sh_value_read_event(arena, (hd_str){buf.data, cut}, &back, &born_back, &has_vector), HD_STORE_CORRUPT);
        hd_buf_add_u8(&buf, 0);
        assert_int_equal(sh_value_read_event(arena, hd_buf_get(&buf), &back, &born_back, &has_vector), HD_STORE_CORRUPT);
        for (int flip = 0; flip < 50; flip++) { /* any bytes: an answer, and no harm */
            hd_arena_mark mark = hd_arena_get_mark(arena);
            char *copy = hd_arena_alloc(arena, buf.size);
            memcpy(copy, buf.data, buf.size);
            copy[test_random_below(&r, (uint32_t)buf.size)] ^= (char)(1 << test_random_below(&r, 8));
            (void)!sh_value_read_event(arena, (hd_str){copy, buf.size}, &back, &born_back, &has_vector);
            hd_arena_rollback(arena, mark);
        }
        hd_buf_fini(&buf);
        hd_arena_free(arena);
    }
}

static void test_other_layouts(void **state) {
    hd_buf buf = {0};
    hd_partition_spec spec = {.id = 7, .org = 3, .epoch = 9, .dimension = 4096}, spec_back = {0};
    sh_commit commit = {.record_next = 1, .sequence = UINT64_MAX >> 1, .events = 2, .vectors = 3, .entities = 4, .tags = 5},
              commit_back;
    sh_value_add_meta(&buf, &spec, &commit);
    assert_true(sh_value_read_meta(hd_buf_get(&buf), &spec_back, &commit_back));
    assert_true(spec_back.org == 3 && spec_back.epoch == 9 && spec_back.dimension == 4096);
    assert_memory_equal(&commit, &commit_back, sizeof(commit));
    for (size_t cut = 0; cut < buf.size; cut++) assert_false(sh_value_read_meta((hd_str){buf.data, cut}, &spec_back, &commit_back));

    hd_str summary, content;
    hd_buf_clear(&buf);
    sh_value_add_text(&buf, HD_STR("sum"), (hd_str){0});
    assert_true(sh_value_read_text(hd_buf_get(&buf), &summary, &content));
    assert_true(is_same(summary, HD_STR("sum")) && content.data == NULL);
    assert_true(sh_value_read_summary((hd_str){buf.data, 5}, &summary) && is_same(summary, HD_STR("sum")));
    assert_false(sh_value_read_summary((hd_str){buf.data, 4}, &summary));
    for (size_t cut = 0; cut < buf.size; cut++) assert_false(sh_value_read_text((hd_str){buf.data, cut}, &summary, &content));
    hd_buf_clear(&buf);
    sh_value_add_text(&buf, HD_STR(""), HD_STR("body"));
    assert_true(sh_value_read_text(hd_buf_get(&buf), &summary, &content));
    assert_true(is_same(summary, HD_STR("")) && is_same(content, HD_STR("body")));

    float vector[3] = {1.5f, -0.0f, 3e-40f}, vector_back[3];
    hd_buf_clear(&buf);
    sh_value_add_vector(&buf, vector, 3);
    assert_true(sh_value_read_vector(hd_buf_get(&buf), 3, vector_back));
    assert_memory_equal(vector, vector_back, sizeof(vector));
    assert_false(sh_value_read_vector(hd_buf_get(&buf), 4, vector_back));

    uint64_t died;
    int64_t wall;
    hd_buf_clear(&buf);
    sh_value_add_dead(&buf, 300, -5);
    assert_true(sh_value_read_dead(hd_buf_get(&buf), &died, &wall) && died == 300 && wall == -5);
    for (size_t cut = 0; cut < buf.size; cut++) assert_false(sh_value_read_dead((hd_str){buf.data, cut}, &died, &wall));

    sh_once once = {.is_replaced = true, .fingerprint = UINT64_MAX, .event = HD_STR("e:1")}, once_back;
    hd_buf_clear(&buf);
    sh_value_add_once(&buf, &once);
    assert_true(sh_value_read_once(hd_buf_get(&buf), &once_back));
    assert_true(!once_back.is_created && once_back.is_replaced && once_back.fingerprint == UINT64_MAX);
    assert_true(is_same(once_back.event, once.event));
    for (size_t cut = 0; cut < buf.size; cut++) assert_false(sh_value_read_once((hd_str){buf.data, cut}, &once_back));
    hd_buf_fini(&buf);
}

static void test_fingerprint(void **state) {
    hd_event_record a = {.id = HD_STR("e"), .summary = HD_STR("ab"), .content = HD_STR("c"), .timestamp_us = 1}, b = a;
    b.timestamp_us = 2;
    b.vector = (float[]){1};
    assert_true(sh_record_fingerprint(&a) == sh_record_fingerprint(&b));
    b.summary = HD_STR("a");
    b.content = HD_STR("bc");
    assert_true(sh_record_fingerprint(&a) != sh_record_fingerprint(&b));
    b = a;
    b.thread = HD_STR("");
    assert_true(sh_record_fingerprint(&a) != sh_record_fingerprint(&b));
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read_back),
        cmocka_unit_test(test_strange_folders),
        cmocka_unit_test(test_damaged_database),
        cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_event_layout),
        cmocka_unit_test(test_other_layouts),
        cmocka_unit_test(test_fingerprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
