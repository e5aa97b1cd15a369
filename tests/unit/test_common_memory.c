/* base, status, arena, buf, map, budget, truncation, graph. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/arena.h"
#include "common/buf.h"
#include "common/map.h"
#include "common/text.h"
#include "common/truncation.h"
#include "tests/support/seed.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

static uint64_t seed;

static void strings_compare_by_bytes(void **state) {
    assert_true(hd_str_is_equal(HD_STR(""), (hd_str){NULL, 0}));
    assert_true(hd_str_compare(HD_STR("a"), HD_STR("b")) < 0);
    assert_true(hd_str_compare(HD_STR("a"), HD_STR("ab")) < 0);
    assert_true(hd_str_compare(HD_STR("ab"), HD_STR("a")) > 0);
    assert_true(hd_str_compare(HD_STR("\xff"), HD_STR("a")) > 0);
    assert_int_equal(hd_str_compare(HD_STR("a\0b"), HD_STR("a\0b")), 0);
    assert_true(hd_str_compare((hd_str){NULL, 0}, HD_STR("a")) < 0);
    assert_true(hd_str_is_equal_nocase(HD_STR("Match"), HD_STR("mATCH")));
    assert_false(hd_str_is_equal_nocase(HD_STR("Match"), HD_STR("Matc")));
    assert_false(hd_str_is_equal_nocase(HD_STR("@"), HD_STR("`"))); /* one bit apart, as letters are */
    assert_false(hd_str_is_equal_nocase(HD_STR("\xc3\x84"), HD_STR("\xc3\xa4")));
    assert_null(hd_str_of(NULL).data);
    char *copy = hd_str_to_c(HD_STR("abc"));
    assert_string_equal(copy, "abc");
    hd_free(copy);
    hd_free(NULL);
    void *memory = hd_alloc(0);
    assert_non_null(memory);
    hd_free(memory);
}

static void statuses_round_trip(void **state) {
    unsigned count = 0;
#define X(name, number, http, retry, reason, meaning)                          \
    assert_int_equal(hd_status_from_wire(number), HD_##name);                  \
    assert_string_equal(hd_status_name(HD_##name), #name);                     \
    assert_string_equal(hd_status_reason(HD_##name), reason);                  \
    assert_int_equal(hd_status_http(HD_##name), http);                         \
    assert_int_equal(hd_status_retry(HD_##name), HD_RETRY_##retry);            \
    assert_true(strlen(hd_status_meaning(HD_##name)) > 0);                     \
    for (unsigned n = 0; n < count; n++) assert_int_not_equal(n, (int)number); \
    count++;
#include "common/status.def"
#undef X
    assert_int_equal(hd_status_from_wire(count), HD_WIRE);
    assert_int_equal(hd_status_from_wire(UINT32_MAX), HD_WIRE);
}

static void the_first_error_wins(void **state) {
    hd_error error = {0};
    assert_int_equal(hd_error_set(&error, HD_BUSY, "first", "%d too many", 3), HD_BUSY);
    assert_int_equal(hd_error_set(&error, HD_WIRE, "second", "later"), HD_WIRE);
    assert_int_equal(error.code, HD_BUSY);
    assert_string_equal(error.module, "first");
    assert_string_equal(error.message, "3 too many");
    hd_error_add_context(&error, "asking %s", "shard 2");
    assert_string_equal(error.message, "3 too many (while asking shard 2)");
    assert_int_equal(hd_error_set(NULL, HD_BUSY, "x", "y"), HD_BUSY);
    hd_error none = {0};
    hd_error_add_context(&none, "nothing");
    assert_string_equal(none.message, "");
}

static void error_messages_are_cut_at_a_character(void **state) {
    char text[1200];
    for (size_t shift = 0; shift < 4; shift++) {
        size_t size = 0;
        while (size < shift) text[size++] = 'x';
        while (size + 4 < sizeof(text)) {
            memcpy(text + size, "\xf0\x9f\x99\x82", 4);
            size += 4;
        }
        text[size] = '\0';
        hd_error error = {0};
        assert_int_equal(hd_error_set(&error, HD_ARGUMENT, "m", "%s", text), HD_ARGUMENT);
        size_t kept = strlen(error.message);
        assert_true(hd_text_is_utf8(hd_str_of(error.message)));
        assert_memory_equal(error.message, text, kept);
        assert_true(kept + 4 >= HD_ERROR_MESSAGE_MAX && kept < HD_ERROR_MESSAGE_MAX);
        hd_error_add_context(&error, "there is no room for this");
        assert_int_equal(strlen(error.message), kept);
    }
    hd_error error = {0};
    assert_int_equal(hd_error_set(&error, HD_ARGUMENT, "m", "a\xff\xc3-%s", "\xe2\x82"), HD_ARGUMENT);
    assert_string_equal(error.message,
                        "a?\?-?"
                        "?");
}

static void arenas_align_and_zero(void **state) {
    hd_arena *arena = hd_arena_new(0);
    for (size_t size = 0; size < 300; size++) {
        unsigned char *memory = hd_arena_alloc_zero(arena, size, 1);
        assert_non_null(memory);
        assert_int_equal((uintptr_t)memory % 16, 0);
        for (size_t i = 0; i < size; i++) assert_int_equal(memory[i], 0);
        memset(memory, 0xab, size);
    }
    assert_null(hd_arena_alloc_zero(arena, SIZE_MAX / 2, 3));
    volatile size_t size_most = SIZE_MAX - 8; /* volatile: the compiler would refuse to build this */
    assert_null(hd_arena_alloc(arena, size_most));
    unsigned char *large = hd_arena_alloc(arena, 5 << 20);
    assert_non_null(large);
    memset(large, 1, 5 << 20);
    hd_arena_reset(arena);
    assert_int_equal(hd_arena_bytes_used(arena), 0);
    hd_arena_free(arena);
    hd_arena_free(NULL);
}

static hd_status alloc_typed(hd_arena *arena, size_t count, uint64_t **out) {
    HD_ALLOC(*out, arena, count);
    return HD_OK;
}

static void the_cap_is_a_status(void **state) {
    hd_arena *arena = hd_arena_new(1000);
    size_t total = 0;
    while (hd_arena_alloc(arena, 48) != NULL) total += 48;
    assert_int_equal(total, 960);
    assert_int_equal(hd_arena_bytes_used(arena), total);
    uint64_t *numbers;
    assert_int_equal(alloc_typed(arena, 6, &numbers), HD_MEMORY);
    assert_int_equal(alloc_typed(arena, SIZE_MAX / 4, &numbers), HD_MEMORY);
    hd_str copy = HD_STR("unset");
    assert_int_equal(hd_arena_dup(arena, HD_STR("0123456789012345678901234567890123456789"), &copy), HD_MEMORY);
    assert_null(copy.data);
    assert_int_equal(hd_arena_printf(arena, &copy, "%0100d", 1), HD_MEMORY);
    assert_non_null(hd_arena_alloc(arena, 32)); /* what is left */
    assert_null(hd_arena_alloc(arena, 9));
    assert_int_equal(hd_arena_on_release(arena, hd_free, NULL), HD_MEMORY);
    hd_arena_reset(arena);
    assert_non_null(hd_arena_alloc(arena, 992));
    assert_null(hd_arena_alloc(arena, 16));
    hd_arena_free(arena);
}

static void growing_keeps_the_content(void **state) {
    hd_arena *arena = hd_arena_new(1 << 20);
    char *memory = hd_arena_grow(arena, NULL, 0, 10);
    memcpy(memory, "0123456789", 10);
    char *grown = hd_arena_grow(arena, memory, 10, 100);
    assert_ptr_equal(grown, memory); /* it was the last */
    assert_int_equal(hd_arena_bytes_used(arena), 112);
    assert_non_null(hd_arena_alloc(arena, 1));
    char *moved = hd_arena_grow(arena, grown, 100, 200);
    assert_ptr_not_equal(moved, grown);
    assert_memory_equal(moved, "0123456789", 10);
    assert_null(hd_arena_grow(arena, moved, 200, 1 << 20));
    assert_memory_equal(moved, "0123456789", 10);
    assert_ptr_equal(hd_arena_grow(arena, moved, 200, 50), moved);
    hd_arena_free(arena);
}

static void text_is_copied(void **state) {
    hd_arena *arena = hd_arena_new(0);
    hd_str copy;
    assert_int_equal(hd_arena_dup(arena, (hd_str){"a\0b...", 3}, &copy), HD_OK);
    assert_int_equal(copy.size, 3);
    assert_memory_equal(copy.data, "a\0b\0", 4);
    assert_int_equal(hd_arena_dup(arena, HD_STR(""), &copy), HD_OK);
    assert_non_null(copy.data);
    assert_int_equal(hd_arena_dup(arena, (hd_str){NULL, 0}, &copy), HD_OK);
    assert_null(copy.data);
    assert_int_equal(hd_arena_printf(arena, &copy, "%s-%05d", "x", 42), HD_OK);
    assert_true(hd_str_is_equal(copy, HD_STR("x-00042")));
    hd_arena_free(arena);
}

static char released[32];
static char names[4][2] = {"a", "b", "c", "d"};
static void note_release(void *object) {
    size_t size = strlen(released);
    assert_true(size + 2 <= sizeof(released));
    released[size] = *(const char *)object;
    released[size + 1] = '\0';
}

static void clean_ups_run_last_first(void **state) {
    hd_arena *arena = hd_arena_new(0);
    released[0] = '\0';
    assert_int_equal(hd_arena_on_release(arena, note_release, names[0]), HD_OK);
    hd_arena_mark mark = hd_arena_get_mark(arena);
    assert_int_equal(hd_arena_on_release(arena, note_release, names[1]), HD_OK);
    assert_non_null(hd_arena_alloc(arena, 100000));
    assert_int_equal(hd_arena_on_release(arena, note_release, names[2]), HD_OK);
    hd_arena_rollback(arena, mark);
    assert_string_equal(released, "cb");
    hd_arena_rollback(arena, mark);
    assert_string_equal(released, "cb");
    hd_arena_reset(arena);
    assert_string_equal(released, "cba");
    assert_int_equal(hd_arena_on_release(arena, note_release, names[3]), HD_OK);
    hd_arena_free(arena);
    assert_string_equal(released, "cbad");
}

static void marks_nest(void **state) {
    test_random random = {seed};
    hd_arena *arena = hd_arena_new(0);
    enum { DEPTH = 12 };
    for (int round = 0; round < 200; round++) {
        hd_arena_mark marks[DEPTH];
        unsigned char *blocks[DEPTH];
        size_t sizes[DEPTH], used[DEPTH];
        for (int i = 0; i < DEPTH; i++) {
            used[i] = hd_arena_bytes_used(arena);
            marks[i] = hd_arena_get_mark(arena);
            sizes[i] = 1 + test_random_below(&random, test_random_below(&random, 10) == 0 ? 70000 : 900);
            blocks[i] = hd_arena_alloc(arena, sizes[i]);
            memset(blocks[i], i + 1, sizes[i]);
        }
        for (int i = DEPTH; i-- > 0;) {
            for (int j = 0; j <= i; j++) {
                assert_int_equal(blocks[j][0], j + 1);
                assert_int_equal(blocks[j][sizes[j] - 1], j + 1);
            }
            if (test_random_below(&random, 3) == 0 && i > 0) continue; /* two levels at once next time */
            hd_arena_rollback(arena, marks[i]);
            assert_int_equal(hd_arena_bytes_used(arena), used[i]);
        }
        assert_int_equal(hd_arena_bytes_used(arena), 0);
        if (round % 20 == 0) hd_arena_reset(arena);
    }
    hd_arena_free(arena);
}

static void stale_memory_is_poisoned(void **state) {
#if defined(__SANITIZE_ADDRESS__)
    hd_arena *arena = hd_arena_new(0);
    char *kept = hd_arena_alloc(arena, 20);
    assert_int_equal(__asan_address_is_poisoned(kept + 19), 0);
    assert_int_equal(__asan_address_is_poisoned(kept + 20), 1);
    hd_arena_mark mark = hd_arena_get_mark(arena);
    char *gone = hd_arena_alloc(arena, 20);
    hd_arena_rollback(arena, mark);
    assert_int_equal(__asan_address_is_poisoned(kept), 0);
    assert_int_equal(__asan_address_is_poisoned(gone), 1);
    hd_arena_reset(arena);
    assert_int_equal(__asan_address_is_poisoned(kept), 1);
    hd_arena_free(arena);
#else
    skip();
#endif
}

static void buffers_grow_and_end_in_nul(void **state) {
    hd_buf buf = {0};
    assert_int_equal(hd_buf_get(&buf).size, 0);
    assert_non_null(hd_buf_get(&buf).data);
    hd_buf_add(&buf, NULL, 0);
    for (int i = 0; i < 1000; i++) {
        hd_buf_printf(&buf, "%d,", i);
        assert_int_equal(buf.data[buf.size], 0);
    }
    assert_memory_equal(buf.data, "0,1,2,3,", 8);
    assert_string_equal(buf.data + buf.size - 4, "999,");
    hd_buf_clear(&buf);
    hd_buf_printf(&buf, "%0*d", 5000, 7);
    assert_int_equal(buf.size, 5000);
    assert_int_equal(buf.data[4999], '7');
    hd_buf_clear(&buf);
    for (size_t width = 55; width < 75; width++) { /* around the room that is first tried */
        hd_buf_fini(&buf);
        hd_buf_printf(&buf, "%0*d", (int)width, 7);
        assert_int_equal(buf.size, width);
        assert_int_equal(strlen(buf.data), width);
    }
    hd_buf_fini(&buf);
    hd_buf_fini(&buf);
}

static void numbers_round_trip(void **state) {
    test_random random = {seed};
    hd_buf buf;
    hd_buf_init(&buf);
    for (int round = 0; round < 2000; round++) {
        uint64_t v = test_random_u64(&random) >> test_random_below(&random, 64);
        if (round == 0) v = UINT64_MAX;
        if (round == 1) v = 0;
        hd_buf_clear(&buf);
        hd_buf_add_u8(&buf, (uint8_t)v);
        hd_buf_add_u32(&buf, (uint32_t)v);
        hd_buf_add_u64(&buf, v);
        hd_buf_add_u64_be(&buf, v);
        hd_buf_add_varint(&buf, v);
        hd_buf_add_sized(&buf, HD_STR("text"));
        hd_buf_add_sized(&buf, HD_STR(""));
        hd_reader r = hd_reader_of(buf.data, buf.size);
        assert_int_equal(hd_reader_u8(&r), (uint8_t)v);
        assert_int_equal(hd_reader_u32(&r), (uint32_t)v);
        assert_true(hd_reader_u64(&r) == v);
        assert_true(hd_reader_u64_be(&r) == v);
        assert_true(hd_reader_varint(&r) == v);
        assert_true(hd_str_is_equal(hd_reader_sized(&r), HD_STR("text")));
        assert_int_equal(hd_reader_sized(&r).size, 0);
        assert_false(r.is_bad);
        assert_int_equal(hd_reader_left(&r), 0);
        for (size_t cut = 0; cut < buf.size; cut++) { /* every shorter piece is bad, and harmless */
            r = hd_reader_of(buf.data, cut);
            hd_reader_u8(&r);
            hd_reader_u32(&r);
            hd_reader_u64(&r);
            hd_reader_u64_be(&r);
            hd_reader_varint(&r);
            hd_reader_sized(&r);
            hd_reader_sized(&r);
            assert_true(r.is_bad);
            assert_int_equal(hd_reader_u64(&r), 0);
        }
    }
    hd_buf_clear(&buf);
    hd_buf_add_u32(&buf, 0x01020304);
    hd_buf_add_u64_be(&buf, 0x0102030405060708);
    assert_memory_equal(buf.data, "\4\3\2\1\1\2\3\4\5\6\7\10", 12);
    hd_buf_fini(&buf);
}

static void bad_varints_are_refused(void **state) {
    static const hd_str bad[] = {
        {"", 0},
        {"\x80", 1},
        {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02", 10},     /* bit 65 */
        {"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", 11}, /* eleven bytes */
    };
    for (size_t i = 0; i < HD_COUNT_OF(bad); i++) {
        hd_reader r = hd_reader_of(bad[i].data, bad[i].size);
        assert_int_equal(hd_reader_varint(&r), 0);
        assert_true(r.is_bad);
    }
    hd_reader r = hd_reader_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 10);
    assert_true(hd_reader_varint(&r) == UINT64_MAX);
    assert_false(r.is_bad);
    r = hd_reader_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01 abc", 14); /* a size that no memory has */
    assert_null(hd_reader_sized(&r).data);
    assert_true(r.is_bad);
    r = hd_reader_of(NULL, 0);
    assert_non_null(hd_reader_bytes(&r, 0));
    assert_false(r.is_bad);
    assert_null(hd_reader_bytes(&r, 1));
    assert_true(r.is_bad);
}

/* Keys of a small space, against a plain array. */
static void run_map_model(hd_arena *arena) {
    enum { KEYS = 3000 };
    static char keys[KEYS][12];
    static uint32_t model[KEYS], model64[KEYS];
    test_random random = {seed};
    hd_map map;
    hd_map64 map64;
    hd_map_init(&map, arena);
    hd_map64_init(&map64, arena);
    assert_int_equal(hd_map_get(&map, HD_STR("")), HD_MAP_NONE);
    assert_int_equal(hd_map64_get(&map64, 0), HD_MAP_NONE);
    for (uint32_t i = 0; i < KEYS; i++) {
        snprintf(keys[i], sizeof(keys[i]), "%x", i * 7919);
        model[i] = model64[i] = HD_MAP_NONE;
    }
    keys[0][0] = '\0'; /* the empty key */
    uint32_t count = 0;
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t i = test_random_below(&random, KEYS), value, value64;
        uint64_t key64 = (uint64_t)(i % 50) << 32 | i / 50;
        bool is_new, is_new64;
        assert_int_equal(hd_map_get(&map, hd_str_of(keys[i])), model[i]);
        assert_int_equal(hd_map64_get(&map64, key64), model64[i]);
        if (test_random_below(&random, 2) == 0) continue;
        if (test_random_below(&random, 50) == 0) { /* room for that many is room for that many */
            uint32_t more = test_random_below(&random, 300);
            assert_int_equal(hd_map_reserve(&map, more), HD_OK);
            assert_int_equal(hd_map64_reserve(&map64, more), HD_OK);
            assert_true((map.count + more) * 10 <= map.capacity * 7 && (map64.count + more) * 10 <= map64.capacity * 7);
        }
        assert_int_equal(hd_map_put(&map, hd_str_of(keys[i]), step, &value, &is_new), HD_OK);
        assert_int_equal(hd_map64_put(&map64, key64, step, &value64, &is_new64), HD_OK);
        assert_int_equal(is_new, model[i] == HD_MAP_NONE);
        assert_int_equal(is_new64, is_new);
        if (is_new) {
            model[i] = model64[i] = step;
            count++;
        }
        assert_int_equal(value, model[i]);
        assert_int_equal(value64, model64[i]);
        assert_int_equal(map.count, count);
        assert_int_equal(map64.count, count);
        assert_true(map.count * 10 <= map.capacity * 7);
    }
    hd_map_fini(&map);
    hd_map64_fini(&map64);
    assert_int_equal(hd_map_get(&map, hd_str_of(keys[1])), HD_MAP_NONE);
}

static void maps_are_a_model_of_an_array(void **state) {
    run_map_model(NULL);
    hd_arena *arena = hd_arena_new(0);
    run_map_model(arena);
    hd_arena_free(arena);
}

static void a_full_arena_leaves_the_map_as_it_was(void **state) {
    hd_arena *arena = hd_arena_new(2000);
    hd_map64 map;
    hd_map64_init(&map, arena);
    uint32_t value, put = 0;
    bool is_new;
    while (hd_map64_put(&map, put, put, &value, &is_new) == HD_OK) put++;
    assert_true(put > 10);
    assert_int_equal(map.count, put);
    for (uint32_t i = 0; i < put; i++) assert_int_equal(hd_map64_get(&map, i), i);
    assert_int_equal(hd_map64_put(&map, 0, 9, &value, &is_new), HD_OK); /* one that is there needs no room */
    assert_int_equal(value, 0);
    hd_arena_free(arena);
}

static void caps_have_names(void **state) {
    hd_budget budget;
    hd_budget_init(&budget);
    assert_int_equal(budget.caps[HD_CAP_DEADLINE], 2000);
    assert_int_equal(budget.caps[HD_CAP_BYTES], 262144);
    for (unsigned cap = 0; cap < HD_CAP_COUNT; cap++) {
        assert_int_equal(budget.used[cap], 0);
        assert_int_equal(hd_cap_parse(hd_str_of(hd_cap_name(cap))), cap);
    }
    assert_int_equal(hd_cap_parse(HD_STR("shard_unavailable")), HD_CAP_NONE);
    assert_int_equal(hd_cap_parse(HD_STR("")), HD_CAP_NONE);
    assert_string_equal(hd_cap_name(HD_CAP_SHARD_UNAVAILABLE), "shard_unavailable");
    assert_string_equal(hd_cap_name(HD_CAP_SNAPSHOT), "snapshot");
    budget.used[HD_CAP_ROWS] = budget.caps[HD_CAP_ROWS] + 5;
    assert_int_equal(hd_budget_left(&budget, HD_CAP_ROWS), 0);
    hd_budget_peak(&budget, HD_CAP_ROWS, 1);
    assert_int_equal(budget.used[HD_CAP_ROWS], budget.caps[HD_CAP_ROWS] + 5);
}

static void truncations_fold(void **state) {
    hd_arena *arena = hd_arena_new(4096);
    hd_truncations list = {0};
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t step = 0; step < 6; step++) {
            hd_truncation record = {
                .stage = "expand", .step = step, .cap = HD_CAP_SCANNED, .limit = 10, .reached = round == 1 ? 30 : 20};
            if (round == 2) record.detail = HD_STR("shard 1");
            assert_int_equal(hd_truncations_add(&list, arena, &record), HD_OK);
        }
    }
    assert_int_equal(list.count, 6);
    assert_int_equal(list.items[5].reached, 30);
    assert_true(hd_str_is_equal(list.items[5].detail, HD_STR("shard 1")));
    hd_truncation other = {.stage = "expand", .step = 5, .cap = HD_CAP_ROWS};
    assert_int_equal(hd_truncations_add(&list, arena, &other), HD_OK);
    other.stage = "facts";
    assert_int_equal(hd_truncations_add(&list, arena, &other), HD_OK);
    assert_int_equal(list.count, 8);
    hd_status status = HD_OK;
    while (status == HD_OK) {
        other.step++;
        status = hd_truncations_add(&list, arena, &other);
    }
    assert_int_equal(status, HD_MEMORY);
    hd_arena_free(arena);
}

static void the_vocabulary_parses(void **state) {
    for (unsigned i = 1; i < HD_LABEL_END; i++) assert_int_equal(hd_label_parse(hd_str_of(hd_label_name(i))), i);
    for (unsigned i = 1; i < HD_REL_END; i++) assert_int_equal(hd_relation_parse(hd_str_of(hd_relation_name(i))), i);
    for (unsigned i = 1; i < HD_PROP_END; i++) assert_int_equal(hd_property_parse(hd_str_of(hd_property_name(i))), i);
    assert_int_equal(hd_label_parse(HD_STR("event")), HD_LABEL_NONE);
    assert_int_equal(hd_relation_parse(HD_STR("")), HD_REL_NONE);
    assert_int_equal(hd_relation_parse(HD_STR("SHARE")), HD_REL_NONE);
    assert_string_equal(hd_relation_name(HD_REL_MEMBER_OF), "MEMBER_OF");
    assert_string_equal(hd_property_name(HD_PROP_ORDER_INDEX), "order_index");
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strings_compare_by_bytes),
        cmocka_unit_test(statuses_round_trip),
        cmocka_unit_test(the_first_error_wins),
        cmocka_unit_test(error_messages_are_cut_at_a_character),
        cmocka_unit_test(arenas_align_and_zero),
        cmocka_unit_test(the_cap_is_a_status),
        cmocka_unit_test(growing_keeps_the_content),
        cmocka_unit_test(text_is_copied),
        cmocka_unit_test(clean_ups_run_last_first),
        cmocka_unit_test(marks_nest),
        cmocka_unit_test(stale_memory_is_poisoned),
        cmocka_unit_test(buffers_grow_and_end_in_nul),
        cmocka_unit_test(numbers_round_trip),
        cmocka_unit_test(bad_varints_are_refused),
        cmocka_unit_test(maps_are_a_model_of_an_array),
        cmocka_unit_test(a_full_arena_leaves_the_map_as_it_was),
        cmocka_unit_test(caps_have_names),
        cmocka_unit_test(truncations_fold),
        cmocka_unit_test(the_vocabulary_parses),
    };
    return cmocka_run_group_tests_name("common memory", tests, NULL, NULL);
}
