/* text, clock, ids. */
#define _GNU_SOURCE 1
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/ids.h"
#include "common/text.h"
#include "tests/support/seed.h"

static uint64_t seed;
static hd_arena *arena;

static int start_arena(void **state) {
    arena = hd_arena_new(0);
    return 0;
}

static int end_arena(void **state) {
    hd_arena_free(arena);
    return 0;
}

#define assert_str_equal(got, want) assert_str_equal_at((got), (want), __LINE__)
static void assert_str_equal_at(hd_str got, hd_str want, int line) {
    if (hd_str_is_equal(got, want)) return;
    fail_msg("line %d: \"" HD_STR_FMT "\" should be \"" HD_STR_FMT "\"", line, HD_STR_ARG(got), HD_STR_ARG(want));
}

static hd_str fold(const char *text) {
    hd_str folded;
    assert_int_equal(hd_text_fold(arena, hd_str_of(text), &folded), HD_OK);
    return folded;
}

static hd_str name(const char *text) {
    hd_str named;
    assert_int_equal(hd_text_name(arena, hd_str_of(text), &named), HD_OK);
    return named;
}

/* Code points in hex, as UTF-8. */
static hd_str decode_hex(const char *text, const char *end) {
    char *bytes = hd_arena_alloc(arena, (size_t)(end - text) * 4 + 4);
    size_t size = 0;
    while (text < end) {
        char *after;
        uint32_t c = (uint32_t)strtoul(text, &after, 16);
        if (after == text) break;
        if (c < 0x80) {
            bytes[size++] = (char)c;
        } else {
            int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
            bytes[size++] = (char)((0xff00u >> (more + 1)) | (c >> (6 * more)));
            while (more-- > 0) bytes[size++] = (char)(0x80 | ((c >> (6 * more)) & 0x3f));
        }
        text = after;
    }
    return (hd_str){bytes, size};
}

/* Well-formedness from the definition: decode by arithmetic, then look at the number. */
static bool is_utf8_by_definition(const uint8_t *bytes, size_t size) {
    for (size_t at = 0; at < size;) {
        size_t more = bytes[at] < 0x80             ? 0
                      : (bytes[at] & 0xe0) == 0xc0 ? 1
                      : (bytes[at] & 0xf0) == 0xe0 ? 2
                      : (bytes[at] & 0xf8) == 0xf0 ? 3
                                                   : 9;
        if (more == 9 || at + more >= size) return false;
        uint32_t c = more == 0 ? bytes[at] : bytes[at] & (0x3fu >> more);
        for (size_t i = 1; i <= more; i++) {
            if ((bytes[at + i] & 0xc0) != 0x80) return false;
            c = c << 6 | (bytes[at + i] & 0x3f);
        }
        static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
        if (c < least[more] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) return false;
        at += more + 1;
    }
    return true;
}

static void utf8_is_checked(void **state) {
    assert_true(hd_text_is_utf8((hd_str){NULL, 0}));
    assert_true(hd_text_is_utf8(HD_STR("a\0b")));
    assert_false(hd_text_is_utf8(HD_STR("\xed\xa0\x80")));     /* a surrogate */
    assert_false(hd_text_is_utf8(HD_STR("\xc0\x80")));         /* overlong NUL */
    assert_false(hd_text_is_utf8(HD_STR("\xf4\x90\x80\x80"))); /* U+110000 */
    assert_false(hd_text_is_utf8(HD_STR("abcdefgh\xe2\x82"))); /* cut */
    assert_true(hd_text_is_utf8(HD_STR("abcdefgh\xf4\x8f\xbf\xbf")));
    test_random random = {seed};
    static const uint8_t likely[] = {0x00, 0x41, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2,
                                     0xdf, 0xe0, 0xe1, 0xed, 0xee, 0xef, 0xf0, 0xf1, 0xf3, 0xf4, 0xf5, 0xff};
    unsigned good = 0;
    for (int round = 0; round < 300000; round++) {
        uint8_t bytes[24];
        size_t size = 1 + test_random_below(&random, 6), ascii = test_random_below(&random, 2) * test_random_below(&random, 17);
        memset(bytes, 'x', ascii);
        for (size_t i = 0; i < size; i++) bytes[ascii + i] = likely[test_random_below(&random, sizeof(likely))];
        size += ascii;
        hd_str text = {(const char *)bytes, size};
        bool is_good = is_utf8_by_definition(bytes, size);
        assert_int_equal(hd_text_is_utf8(text), is_good);
        good += is_good;
        size_t bad_size, valid = hd_text_valid_prefix(text, &bad_size);
        assert_true(is_utf8_by_definition(bytes, valid));
        assert_int_equal(bad_size == 0, is_good);
        assert_true(bad_size <= 3 && valid + bad_size <= size);
        for (size_t more = valid + 1; more <= size; more++) assert_int_equal(is_utf8_by_definition(bytes, more), false);
        hd_str repaired;
        assert_int_equal(hd_text_repair(arena, text, &repaired), HD_OK);
        assert_true(hd_text_is_utf8(repaired));
        if (is_good) assert_ptr_equal(repaired.data, text.data);
        hd_arena_reset(arena);
    }
    assert_true(good > 1000);
}

static void bad_bytes_are_replaced_by_maximal_subparts(void **state) {
    hd_str repaired;
    /* The example of the Unicode standard, section 3.9. */
    assert_int_equal(hd_text_repair(arena, HD_STR("\x61\xf1\x80\x80\xe1\x80\xc2\x62\x80\x63\x80\xbf\x64"), &repaired), HD_OK);
    assert_str_equal(repaired, HD_STR("a\ufffd\ufffd\ufffdb\ufffdc\ufffd\ufffdd"));
    assert_int_equal(hd_text_repair(arena, HD_STR("\xed\xa0\x80"), &repaired), HD_OK);
    assert_str_equal(repaired, HD_STR("\ufffd\ufffd\ufffd"));
    hd_arena *small = hd_arena_new(16);
    assert_int_equal(hd_text_repair(small, HD_STR("\xff\xff\xff\xff\xff\xff"), &repaired), HD_MEMORY);
    hd_arena_free(small);
}

static void controls_are_seen(void **state) {
    for (unsigned c = 0; c < 0x80; c++) {
        char byte = (char)c;
        bool is_layout = c == '\t' || c == '\n' || c == '\r';
        bool is_control = c < 0x20 || c == 0x7f;
        assert_int_equal(hd_text_has_control((hd_str){&byte, 1}, false), is_control);
        assert_int_equal(hd_text_has_control((hd_str){&byte, 1}, true), is_control && !is_layout);
    }
    assert_true(hd_text_has_control(HD_STR("a\xc2\x85"), true));
    assert_true(hd_text_has_control(HD_STR("\xc2\x9f"), true));
    assert_false(hd_text_has_control(HD_STR("\u00a0\u00e9\u4e2d\U0001f642"), false));
    assert_false(hd_text_has_control(HD_STR(""), false));
}

static void lengths_are_code_points(void **state) {
    hd_str text = HD_STR("a\u00e9\u4e2d\U0001f642z");
    assert_int_equal(hd_text_length(text), 5);
    assert_int_equal(hd_text_prefix(text, 0).size, 0);
    assert_int_equal(hd_text_prefix(text, 1).size, 1);
    assert_int_equal(hd_text_prefix(text, 2).size, 3);
    assert_int_equal(hd_text_prefix(text, 3).size, 6);
    assert_int_equal(hd_text_prefix(text, 4).size, 10);
    assert_int_equal(hd_text_prefix(text, 5).size, 11);
    assert_int_equal(hd_text_prefix(text, SIZE_MAX).size, 11);
    assert_int_equal(hd_text_length(HD_STR("")), 0);
}

static void white_space_is_trimmed(void **state) {
    assert_str_equal(hd_text_trim(HD_STR(" \t\u00a0\u2003\u3000x y\u2028\u205f\u1680\xc2\x85\r\n")), HD_STR("x y"));
    assert_str_equal(hd_text_trim(HD_STR(" \u3000 ")), HD_STR(""));
    assert_str_equal(hd_text_trim(HD_STR("")), HD_STR(""));
    assert_str_equal(hd_text_trim(HD_STR("\u200bx\u180e")), HD_STR("\u200bx\u180e")); /* not White_Space */
    assert_str_equal(hd_text_trim(HD_STR("\x80\x80\x80 ")), HD_STR("\x80\x80\x80"));
}

static void names_are_trimmed_nfc(void **state) {
    assert_str_equal(name("  Zoe\u0308 \n"), HD_STR("Zo\u00eb"));
    assert_str_equal(name("Zo\u00eb"), HD_STR("Zo\u00eb"));
    assert_str_equal(name("\u1112\u1161\u11ab\u1100\u1173\u11af"), HD_STR("\ud55c\uae00"));
    assert_str_equal(name("\u212b"), HD_STR("\u00c5"));                         /* the Angstrom sign */
    assert_str_equal(name("\uff21\u00df\ufb01"), HD_STR("\uff21\u00df\ufb01")); /* compatibility is kept */
    assert_str_equal(name("a\u0323\u0307"), name("a\u0307\u0323"));             /* marks in any order */
    assert_str_equal(name("   "), HD_STR(""));
    assert_non_null(name("   ").data);
    hd_str named;
    assert_int_equal(hd_text_name(arena, HD_STR("a\xff"), &named), HD_ARGUMENT);
    assert_int_equal(hd_text_name(arena, HD_STR("\xed\xa0\x80"), &named), HD_ARGUMENT);
    hd_arena *small = hd_arena_new(8);
    assert_int_equal(hd_text_name(small, HD_STR("abc"), &named), HD_MEMORY);
    assert_int_equal(hd_text_name(small, HD_STR("\u00e9"), &named), HD_MEMORY);
    hd_arena_free(small);
}

static void folding_is_nfkc_casefold(void **state) {
    assert_str_equal(fold("AZaz[`@{09"), HD_STR("azaz[`@{09"));
    assert_str_equal(fold("Stra\u00dfe \u1e9e"), HD_STR("strasse ss"));
    assert_str_equal(fold("\u0130"), HD_STR("i\u0307"));
    assert_str_equal(fold("I\u0131"), HD_STR("i\u0131"));
    assert_str_equal(fold("\uff28\uff45\uff4c\uff4c\uff4f\u3000\uff11"), HD_STR("hello 1"));
    assert_str_equal(fold("\u1112\u1161\u11ab"), HD_STR("\ud55c"));
    assert_str_equal(fold("\u3131\uff76\uff9e"), HD_STR("\u1100\u30ac"));
    assert_str_equal(fold("co\u00adop\u200b\ufe0f\u2060\ufeff"), HD_STR("coop"));
    assert_str_equal(fold("a\u2065\ufff0\U000e0fffb"), HD_STR("ab")); /* reserved, and ignorable all the same */
    assert_str_equal(fold("\ufb03 \u2460 \u00bd \u2122"), HD_STR("ffi 1 1\u20442 tm"));
    assert_str_equal(fold("\u03a3\u03c2\u03c3"), HD_STR("\u03c3\u03c3\u03c3"));
    assert_str_equal(fold("\u1f80"), HD_STR("\u1f00\u03b9"));
    assert_str_equal(fold("E\u0301"), fold("\u00c9"));
    assert_str_equal(fold(""), HD_STR(""));
    hd_str folded;
    assert_int_equal(hd_text_fold(arena, HD_STR("\xff"), &folded), HD_ARGUMENT);
    hd_arena *small = hd_arena_new(8);
    assert_int_equal(hd_text_fold(small, HD_STR("A"), &folded), HD_MEMORY);
    assert_int_equal(hd_text_fold(small, HD_STR("\u00c4"), &folded), HD_MEMORY);
    hd_arena_free(small);
}

/* Past the room on the stack, and where one code point becomes eighteen. */
static void long_text_is_folded(void **state) {
    for (size_t count = 500; count < 520; count++) {
        char *text = hd_arena_alloc(arena, count * 2 + 1);
        for (size_t i = 0; i < count; i++) memcpy(text + 2 * i, "\xc3\x84", 2); /* Ä */
        hd_str folded;
        assert_int_equal(hd_text_fold(arena, (hd_str){text, count * 2}, &folded), HD_OK);
        assert_int_equal(folded.size, count * 2);
        for (size_t i = 0; i < count; i++) assert_memory_equal(folded.data + 2 * i, "\xc3\xa4", 2);
        assert_int_equal(hd_text_name(arena, (hd_str){text, count * 2}, &folded), HD_OK);
        assert_memory_equal(folded.data, text, count * 2);
    }
    char text[3 * 400];
    for (size_t i = 0; i < 400; i++) memcpy(text + 3 * i, "\xef\xb7\xba", 3); /* U+FDFA */
    hd_str folded;
    assert_int_equal(hd_text_fold(arena, (hd_str){text, sizeof(text)}, &folded), HD_OK);
    assert_int_equal(hd_text_length(folded), 400 * 18);
}

static void folding_agrees_with_another_implementation(void **state) {
    FILE *file = fopen(HD_SOURCE_DIR "/tests/golden/text/nfkc_casefold.txt", "r");
    assert_non_null(file);
    char line[1024];
    unsigned count = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        if (line[0] == '#') continue;
        const char *second = strchr(line, '|'), *third = strchr(second + 1, '|');
        hd_str text = decode_hex(line, second), got, again;
        assert_int_equal(hd_text_fold(arena, text, &got), HD_OK);
        assert_str_equal(got, decode_hex(second + 1, third));
        assert_int_equal(hd_text_fold(arena, got, &again), HD_OK);
        assert_str_equal(again, got);
        assert_int_equal(hd_text_name(arena, text, &got), HD_OK);
        assert_str_equal(got, hd_text_trim(decode_hex(third + 1, line + strlen(line))));
        count++;
        hd_arena_reset(arena);
    }
    fclose(file);
    assert_int_equal(count, 700);
}

static void pieces_are_found(void **state) {
    assert_true(hd_text_contains(HD_STR("abc"), HD_STR("")));
    assert_true(hd_text_contains(HD_STR(""), HD_STR("")));
    assert_true(hd_text_contains((hd_str){NULL, 0}, HD_STR("")));
    assert_false(hd_text_contains(HD_STR(""), HD_STR("a")));
    assert_true(hd_text_contains(HD_STR("abc"), HD_STR("bc")));
    assert_false(hd_text_contains(HD_STR("abc"), HD_STR("abcd")));
    assert_true(hd_text_contains(HD_STR("a\0b"), HD_STR("\0b")));
}

/* The distance by its recursive definition. */
static uint32_t distance_by_definition(const char *a, size_t i, const char *b, size_t j) {
    if (i == 0 || j == 0) return (uint32_t)(i + j);
    uint32_t best = distance_by_definition(a, i - 1, b, j - 1) + (a[i - 1] != b[j - 1]);
    best = HD_MIN(best, distance_by_definition(a, i - 1, b, j) + 1);
    best = HD_MIN(best, distance_by_definition(a, i, b, j - 1) + 1);
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        best = HD_MIN(best, distance_by_definition(a, i - 2, b, j - 2) + 1);
    return best;
}

static void distances_are_those_of_the_definition(void **state) {
    assert_int_equal(hd_text_distance(HD_STR("shards"), HD_STR("shrads"), 5), 1);
    assert_int_equal(hd_text_distance(HD_STR("kitten"), HD_STR("sitting"), 5), 3);
    assert_int_equal(hd_text_distance(HD_STR("kitten"), HD_STR("sitting"), 2), 3);
    assert_int_equal(hd_text_distance(HD_STR("kitten"), HD_STR("sitting"), 1), 2);
    assert_int_equal(hd_text_distance(HD_STR(""), HD_STR("abc"), 9), 3);
    char *word = hd_arena_alloc_zero(arena, 256, 1);
    assert_int_equal(hd_text_distance((hd_str){word, 255}, (hd_str){word, 255}, 2), 0);
    assert_int_equal(hd_text_distance((hd_str){word, 255}, (hd_str){word, 0}, 300), 255);
    assert_int_equal(hd_text_distance((hd_str){word, 256}, (hd_str){word, 256}, 2), 3);
    test_random random = {seed};
    for (int round = 0; round < 3000; round++) {
        char a[6], b[6];
        size_t a_size = test_random_below(&random, 6), b_size = test_random_below(&random, 6);
        for (size_t i = 0; i < 6; i++) {
            a[i] = (char)('a' + test_random_below(&random, 3));
            b[i] = (char)('a' + test_random_below(&random, 3));
        }
        uint32_t want = distance_by_definition(a, a_size, b, b_size), max = test_random_below(&random, 7);
        assert_int_equal(hd_text_distance((hd_str){a, a_size}, (hd_str){b, b_size}, max), HD_MIN(want, max + 1));
    }
}

static void widths_are_columns(void **state) {
    assert_int_equal(hd_text_width(HD_STR("abc")), 3);
    assert_int_equal(hd_text_width(HD_STR("\ud55c\uae00")), 4);
    assert_int_equal(hd_text_width(HD_STR("e\u0301")), 1);
    assert_int_equal(hd_text_width(HD_STR("\u200b")), 0);
    assert_int_equal(hd_text_width(HD_STR("\U0001f642")), 2);
    assert_int_equal(hd_text_width(HD_STR("a\xff")), 2);
}

static void instants_parse(void **state) {
    static const struct {
        const char *text;
        int64_t us;
        const char *formatted;
    } good[] = {
        {"1970-01-01", 0, "1970-01-01T00:00:00Z"},
        {"2025-01-31", 1738281600000000, "2025-01-31T00:00:00Z"},
        {"2025-01-31T10:20", 1738318800000000, "2025-01-31T10:20:00Z"},
        {"2025-01-31 10:20", 1738318800000000, "2025-01-31T10:20:00Z"},
        {"2025-01-31t10:20:30z", 1738318830000000, "2025-01-31T10:20:30Z"},
        {"2025-01-31T10:20:30.123456+09:00", 1738286430123456, "2025-01-31T01:20:30.123456Z"},
        {"2025-01-31T10:20:30.1234569", 1738318830123456, "2025-01-31T10:20:30.123456Z"},
        {"2025-01-31T10:20:30,5Z", 1738318830500000, "2025-01-31T10:20:30.5Z"},
        {"2025-01-31T10:20:30.000000000000000000000000001Z", 1738318830000000, "2025-01-31T10:20:30Z"},
        {"2025-01-31T10:20:30-08", 1738347630000000, "2025-01-31T18:20:30Z"},
        {"2025-01-31T10:20:30-00:00", 1738318830000000, "2025-01-31T10:20:30Z"},
        {"2024-02-29", 1709164800000000, "2024-02-29T00:00:00Z"},
        {"2000-02-29", 951782400000000, "2000-02-29T00:00:00Z"},
        {"1969-12-31T23:59:59.999999Z", -1, "1969-12-31T23:59:59.999999Z"},
        {"0001-01-01", -62135596800000000, "0001-01-01T00:00:00Z"},
        {"9999-12-31T23:59:59.999999Z", 253402300799999999, "9999-12-31T23:59:59.999999Z"},
        {"1582-10-10", -12219724800000000, "1582-10-10T00:00:00Z"},
    };
    for (size_t i = 0; i < HD_COUNT_OF(good); i++) {
        int64_t us = -7;
        char text[HD_INSTANT_TEXT_MAX];
        if (!hd_instant_parse(hd_str_of(good[i].text), &us)) fail_msg("%s does not parse", good[i].text);
        assert_true(us == good[i].us);
        assert_int_equal(hd_instant_format(us, text), strlen(good[i].formatted));
        assert_string_equal(text, good[i].formatted);
    }
}

static void other_texts_are_no_instants(void **state) {
    static const char *const bad[] = {
        "",
        " ",
        "2025",
        "2025-01",
        "2025-1-31",
        "25-01-31",
        "20250131",
        "2025-02-29",
        "1900-02-29",
        "2025-04-31",
        "2025-13-01",
        "2025-00-01",
        "2025-01-00",
        "2025-01-32",
        "0000-01-01",
        "-001-01-01",
        "2025-01-31T",
        "2025-01-31T10",
        "2025-01-31T24:00",
        "2025-01-31T10:60",
        "2025-01-31T10:20:60",
        "2025-01-31T10:20:30.",
        "2025-01-31T10:20:30.Z",
        "2025-01-31T10:20:3",
        "2025-01-31T10:20:30+9",
        "2025-01-31T10:20:30+0900",
        "2025-01-31T10:20:30+24:00",
        "2025-01-31T10:20:30+09:60",
        "2025-01-31T10:20:30+09:",
        "2025-01-31T10:20:30 Z",
        "2025-01-31Z",
        "2025-01-31+09:00",
        "2025-01-31T10:20ZZ",
        " 2025-01-31",
        "2025-01-31 ",
        "2025/01/31",
        "2025-01-31_10:20",
        "0001-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2025-01-31T1 :20",
        "2025-01-31T+1:20",
        "yesterday",
        "2025-W05-5",
        "2025-031",
    };
    for (size_t i = 0; i < HD_COUNT_OF(bad); i++) {
        int64_t us = -7;
        if (hd_instant_parse(hd_str_of(bad[i]), &us)) fail_msg("\"%s\" parses", bad[i]);
        assert_true(us == -7);
    }
    int64_t us;
    assert_false(hd_instant_parse((hd_str){NULL, 0}, &us));
    assert_false(hd_instant_parse(HD_STR("2025-01-31\0"), &us));
}

/* Every day of 9999 years against a calendar that counts one by one; then random instants there and back. */
static void the_calendar_counts_every_day(void **state) {
    int64_t us = -62135596800000000;
    for (int year = 1; year <= 9999; year++) {
        for (int month = 1; month <= 12; month++) {
            int days = month == 2 ? 28 + ((year % 4 == 0 && year % 100 != 0) || year % 400 == 0) : 30 + ((month + month / 8) % 2);
            for (int day = 1; day <= days; day++) {
                char want[32], got[HD_INSTANT_TEXT_MAX];
                int size = snprintf(want, sizeof(want), "%04d-%02d-%02dT00:00:00Z", year, month, day);
                hd_instant_format(us, got);
                int64_t parsed;
                if (strcmp(want, got) != 0) fail_msg("%s is formatted as %s", want, got);
                if (!hd_instant_parse((hd_str){want, (size_t)size}, &parsed) || parsed != us)
                    fail_msg("%s is parsed wrongly", want);
                us += INT64_C(86400000000);
            }
        }
    }
    assert_true(us == 253402300800000000);
    test_random random = {seed};
    for (int round = 0; round < 100000; round++) {
        int64_t instant = -62135596800000000 + (int64_t)(test_random_u64(&random) % 315537897600000000u), back;
        if (round % 3 == 0) instant -= instant % 1000;
        char text[HD_INSTANT_TEXT_MAX];
        size_t size = hd_instant_format(instant, text);
        assert_true(hd_instant_parse((hd_str){text, size}, &back));
        assert_true(back == instant);
    }
    char text[HD_INSTANT_TEXT_MAX]; /* what no calendar of ours holds still fits the room */
    hd_instant_format(INT64_MIN, text);
    assert_string_equal(text, "-290308-12-21T19:59:05.224192Z");
    hd_instant_format(INT64_MAX, text);
    assert_string_equal(text, "+294247-01-10T04:00:54.775807Z");
}

static void clocks_can_be_scripted(void **state) {
    assert_true(hd_clock_wall_us() > 1700000000000000);
    uint64_t before = hd_clock_monotonic_us();
    assert_true(hd_clock_monotonic_us() >= before);
    hd_clock_use_scripted(5, -3);
    assert_int_equal(hd_clock_monotonic_us(), 5);
    assert_int_equal(hd_clock_wall_us(), -3);
    hd_clock_advance(10);
    assert_int_equal(hd_clock_monotonic_us(), 15);
    assert_int_equal(hd_clock_wall_us(), 7);
    hd_clock_use_real();
    assert_true(hd_clock_monotonic_us() >= before);
}

static void event_ids_are_checked(void **state) {
    for (int c = 0; c < 256; c++) {
        char byte = (char)c;
        bool is_good = c < 128 && c != 0 && strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-", c) != NULL;
        assert_int_equal(hd_event_id_is_valid((hd_str){&byte, 1}), is_good);
    }
    char text[65];
    memset(text, 'a', 65);
    assert_false(hd_event_id_is_valid((hd_str){text, 0}));
    assert_true(hd_event_id_is_valid((hd_str){text, 64}));
    assert_false(hd_event_id_is_valid((hd_str){text, 65}));
}

static void fresh_ids_are_ulids(void **state) {
    char a[27], b[27];
    hd_clock_use_scripted(0, 1469918176385000); /* the example of the ULID specification: 01ARYZ6S41 */
    hd_event_id_new(a);
    hd_event_id_new(b);
    assert_memory_equal(a, "01ARYZ6S41", 10);
    assert_memory_equal(b, "01ARYZ6S41", 10);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 26);
    assert_int_equal(strspn(a, "0123456789ABCDEFGHJKMNPQRSTVWXYZ"), 26);
    assert_true(hd_event_id_is_valid(hd_str_of(a)));
    hd_clock_use_real();
}

static void keys_give_the_same_id_again(void **state) {
    char a[27], b[27];
    hd_event_id_from_key(7, HD_STR("key-1"), a);
    assert_string_equal(a, "2ES2809F90KNJHFK7F9CNAFXK1"); /* computed with Python's hashlib */
    hd_event_id_from_key(7, HD_STR("key-1"), b);
    assert_string_equal(a, b);
    hd_event_id_from_key(8, HD_STR("key-1"), b);
    assert_string_not_equal(a, b);
    hd_event_id_from_key(7, HD_STR("key-2"), b);
    assert_string_not_equal(a, b);
}

static void name_ids_are_blake2b(void **state) {
    static const struct {
        hd_str name;
        const char *entity;
    } known[] = {
        /* computed with Python's hashlib */
        {HD_STR(""), "ent_cae66941d9efbd404e4d88758ea67670"},
        {HD_STR("ops/backup"), "ent_54526ffb4e32ed77c226ffedcac4b52b"},
        {HD_STR("Zo\u00eb"), "ent_0e8501d04522bf3b4eec8148509079fb"},
    };
    for (size_t i = 0; i < HD_COUNT_OF(known); i++) {
        char text[37];
        hd_id128 id = hd_name_id(known[i].name), back;
        hd_entity_id_format(id, text);
        assert_string_equal(text, known[i].entity);
        assert_true(hd_entity_id_parse(hd_str_of(text), &back));
        assert_true(hd_id128_is_equal(id, back));
        assert_false(hd_tag_id_parse(hd_str_of(text), &back));
        hd_tag_id_format(id, text);
        assert_memory_equal(text, "tag_", 4);
        assert_true(hd_tag_id_parse(hd_str_of(text), &back));
        assert_true(hd_id128_is_equal(id, back));
        assert_false(hd_tag_id_parse((hd_str){text, 35}, &back));
        text[35] = 'G';
        assert_false(hd_tag_id_parse(hd_str_of(text), &back));
        text[35] = 'A';
        assert_false(hd_tag_id_parse(hd_str_of(text), &back));
    }
    hd_id128 id;
    assert_false(hd_entity_id_parse(HD_STR(""), &id));
}

static void partitions_are_the_low_bits(void **state) {
    /* Published vectors of XXH3-64 with seed 0. */
    assert_true(hd_hash64("", 0) == UINT64_C(0x2d06800538d394c2));
    assert_true(hd_hash64("a", 1) == UINT64_C(0xe6c632b61e964e1f));
    assert_true(hd_hash64("abc", 3) == UINT64_C(0x78af5f94892f3950));
    assert_int_equal(hd_event_partition(HD_STR("abc"), 256), 0x50);
    assert_int_equal(hd_event_partition(HD_STR("abc"), 32), 0x10);
    assert_int_equal(hd_event_partition(HD_STR("abc"), 1), 0);
    unsigned counts[4] = {0};
    for (int i = 0; i < 4000; i++) {
        char id[16];
        int size = snprintf(id, sizeof(id), "e%d", i);
        counts[hd_event_partition((hd_str){id, (size_t)size}, 4)]++;
    }
    for (int i = 0; i < 4; i++) assert_in_range(counts[i], 850, 1150);
    assert_true(hd_random_u64() != hd_random_u64());
}

int main(int argc, char **argv) {
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(utf8_is_checked, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(bad_bytes_are_replaced_by_maximal_subparts, start_arena, end_arena),
        cmocka_unit_test(controls_are_seen),
        cmocka_unit_test(lengths_are_code_points),
        cmocka_unit_test(white_space_is_trimmed),
        cmocka_unit_test_setup_teardown(names_are_trimmed_nfc, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(folding_is_nfkc_casefold, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(long_text_is_folded, start_arena, end_arena),
        cmocka_unit_test_setup_teardown(folding_agrees_with_another_implementation, start_arena, end_arena),
        cmocka_unit_test(pieces_are_found),
        cmocka_unit_test_setup_teardown(distances_are_those_of_the_definition, start_arena, end_arena),
        cmocka_unit_test(widths_are_columns),
        cmocka_unit_test(instants_parse),
        cmocka_unit_test(other_texts_are_no_instants),
        cmocka_unit_test(the_calendar_counts_every_day),
        cmocka_unit_test(clocks_can_be_scripted),
        cmocka_unit_test(event_ids_are_checked),
        cmocka_unit_test(fresh_ids_are_ulids),
        cmocka_unit_test(keys_give_the_same_id_again),
        cmocka_unit_test(name_ids_are_blake2b),
        cmocka_unit_test(partitions_are_the_low_bits),
    };
    return cmocka_run_group_tests_name("common text", tests, NULL, NULL);
}
