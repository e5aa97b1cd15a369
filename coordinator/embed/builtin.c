/* The built-in embedder: signed feature hashing of words, word pairs and character n-grams. Lexical: texts are close when they are
 * spelled alike, whatever they mean.
 *
 * The text goes through NFKC_Casefold and is cut into tokens: runs of letters, digits and symbols; in scripts that write no spaces
 * (Han, kana, Hangul) every character is a token. Features and their weights (whole numbers, so that sums are exact and the order of
 * addition never shows):
 *     token                 8    (an English stop word: 1, and it has no n-grams)
 *     two tokens in a row   4    (1 when either is a stop word)
 *     characters 3, 4, 5    1, 2, 2   of "^token$"
 * Each feature's XXH3-64 chooses an element and a sign. Then vector[i] = (float)(sum[i] / √Σ sum²): the square root and the division
 * are correctly rounded by IEEE 754, so every machine gets the same bytes. */
#include <math.h>

#include "common/buf.h"
#include "common/ids.h"
#include "common/text.h"
#include "coordinator/embed/provider.h"

enum {
    WEIGHT_TOKEN = 8,
    WEIGHT_PAIR = 4,
    WEIGHT_STOP = 1,
    GRAM_MIN = 3,
    GRAM_MAX = 5,
    FEATURE_BYTES_MAX = 256, /* longer features are hashed by their first bytes and their size */
};

/* The words of English that say least; sorted, for a binary search. */
static const char *const stop_words[] = {
    "a",     "about",  "after", "all",   "also", "an",   "and",   "any",  "are",  "as",   "at",   "be",   "because",
    "been",  "before", "but",   "by",    "can",  "did",  "do",    "does", "for",  "from", "had",  "has",  "have",
    "he",    "her",    "his",   "how",   "i",    "if",   "in",    "into", "is",   "it",   "its",  "my",   "no",
    "not",   "of",     "on",    "or",    "our",  "she",  "so",    "some", "such", "than", "that", "the",  "their",
    "them",  "then",   "there", "these", "they", "this", "to",    "was",  "we",   "were", "what", "when", "where",
    "which", "while",  "who",   "why",   "will", "with", "would", "you",  "your",
};

typedef struct embedder {
    int32_t *sums;
    uint32_t dimension;
    hd_buf feature; /* the feature being hashed: its kind, then its text */
} embedder;

typedef struct token {
    hd_str text;
    bool is_stop;
} token;

static bool is_stop_word(hd_str word) {
    size_t low = 0, high = HD_COUNT_OF(stop_words);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = hd_str_compare(word, hd_str_of(stop_words[middle]));
        if (order == 0) return true;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return false;
}

/* The code point at `at` of valid UTF-8, and its size. */
static uint32_t read_code_point(const char *at, size_t *size_out) {
    const unsigned char *b = (const unsigned char *)at;
    if (b[0] < 0x80) {
        *size_out = 1;
        return b[0];
    }
    if (b[0] < 0xe0) {
        *size_out = 2;
        return (uint32_t)(b[0] & 0x1f) << 6 | (b[1] & 0x3f);
    }
    if (b[0] < 0xf0) {
        *size_out = 3;
        return (uint32_t)(b[0] & 0x0f) << 12 | (uint32_t)(b[1] & 0x3f) << 6 | (b[2] & 0x3f);
    }
    *size_out = 4;
    return (uint32_t)(b[0] & 0x07) << 18 | (uint32_t)(b[1] & 0x3f) << 12 | (uint32_t)(b[2] & 0x3f) << 6 | (b[3] & 0x3f);
}

typedef enum char_class { CHAR_SPACE, CHAR_PUNCTUATION, CHAR_WORD, CHAR_IDEOGRAPH } char_class;

static char_class classify_ascii(uint32_t c) {
    if (c <= 0x20 || c == 0x7f) return CHAR_SPACE;
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return CHAR_WORD;
    /* Unicode's symbols among ASCII, as against its punctuation, tell something: "c++", "$5", "a=b". */
    return strchr("$+<=>^`|~#", (int)c) ? CHAR_WORD : CHAR_PUNCTUATION;
}

static char_class classify(uint32_t c) {
    if (c < 0x80) return classify_ascii(c);
    if (c <= 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
        c == 0x3000)
        return CHAR_SPACE;
    if (c == 0xa1 || c == 0xa7 || c == 0xab || c == 0xb6 || c == 0xb7 || c == 0xbb || c == 0xbf) return CHAR_PUNCTUATION;
    if ((c >= 0x2010 && c <= 0x2027) || (c >= 0x2030 && c <= 0x205e)) return CHAR_PUNCTUATION;
    if ((c >= 0x3001 && c <= 0x3003) || (c >= 0x3008 && c <= 0x3011) || (c >= 0x3014 && c <= 0x301f)) return CHAR_PUNCTUATION;
    if ((c >= 0x2e80 && c <= 0x2fdf) || (c >= 0x3005 && c <= 0x30ff) || (c >= 0x3100 && c <= 0x9fff) ||
        (c >= 0xac00 && c <= 0xd7a3) || (c >= 0xf900 && c <= 0xfaff) || (c >= 0x20000 && c <= 0x3ffff))
        return CHAR_IDEOGRAPH;
    return CHAR_WORD;
}

/* The next token at or after *at_inout. `with_punctuation` takes runs of punctuation as tokens too. */
static bool read_token(hd_str text, bool with_punctuation, size_t *at_inout, hd_str *token_out) {
    size_t at = *at_inout, from = 0, size = 0;
    bool is_inside = false;
    while (at < text.size) {
        char_class class = classify(read_code_point(text.data + at, &size));
        bool is_word = class == CHAR_WORD || (with_punctuation && class == CHAR_PUNCTUATION);
        if (is_inside && !is_word) break;
        if (class == CHAR_IDEOGRAPH) {
            *token_out = (hd_str){text.data + at, size};
            *at_inout = at + size;
            return true;
        }
        if (is_word && !is_inside) {
            from = at;
            is_inside = true;
        }
        at += size;
    }
    *at_inout = at;
    *token_out = (hd_str){text.data + from, at - from};
    return is_inside;
}

/* Adds ±weight to the element that the feature in `e->feature` hashes to. */
static void add_feature(embedder *e, int32_t weight) {
    uint64_t hash = hd_hash64(e->feature.data, e->feature.size);
    uint32_t index = (uint32_t)(((hash >> 32) * e->dimension) >> 32);
    e->sums[index] += hash & 1 ? weight : -weight;
}

static void begin_feature(embedder *e, char kind) {
    hd_buf_clear(&e->feature);
    hd_buf_add_char(&e->feature, kind);
}

static void extend_feature(embedder *e, hd_str text) {
    hd_buf_add(&e->feature, text.data, HD_MIN(text.size, (size_t)FEATURE_BYTES_MAX));
    if (text.size > FEATURE_BYTES_MAX) hd_buf_add_u64(&e->feature, text.size);
    hd_buf_add_char(&e->feature, 0);
}

/* Character n-grams of "^token$": `starts` is a window over the beginnings of the last GRAM_MAX characters. */
static void add_grams(embedder *e, hd_buf *padded, hd_str word) {
    static const int32_t weights[GRAM_MAX + 1] = {[3] = 1, [4] = 2, [5] = 2};
    hd_buf_clear(padded);
    hd_buf_add_char(padded, '^');
    hd_buf_add_str(padded, word);
    hd_buf_add_char(padded, '$');
    size_t starts[GRAM_MAX] = {0};
    uint32_t count = 0;
    for (size_t at = 0, size; at < padded->size; at += size) {
        read_code_point(padded->data + at, &size);
        starts[count++ % GRAM_MAX] = at;
        for (uint32_t n = GRAM_MIN; n <= GRAM_MAX && n <= count; n++) {
            size_t from = starts[(count - n) % GRAM_MAX];
            begin_feature(e, (char)('0' + n));
            hd_buf_add(&e->feature, padded->data + from, at + size - from);
            add_feature(e, weights[n]);
        }
    }
}

/* Adds all features of the text; how many tokens there were. */
static uint32_t add_text(embedder *e, hd_str text, bool with_punctuation) {
    hd_buf padded = {0};
    token last = {0};
    uint32_t count = 0;
    hd_str word;
    for (size_t at = 0; read_token(text, with_punctuation, &at, &word); count++) {
        token now = {.text = word, .is_stop = is_stop_word(word)};
        begin_feature(e, 'w');
        extend_feature(e, word);
        add_feature(e, now.is_stop ? WEIGHT_STOP : WEIGHT_TOKEN);
        if (count > 0) {
            begin_feature(e, 'p');
            extend_feature(e, last.text);
            extend_feature(e, word);
            add_feature(e, now.is_stop || last.is_stop ? WEIGHT_STOP : WEIGHT_PAIR);
        }
        if (!now.is_stop) add_grams(e, &padded, word);
        last = now;
    }
    hd_buf_fini(&padded);
    return count;
}

static void scale_to_unit(embedder *e, hd_str text, float *vector_out) {
    int64_t square = 0;
    for (uint32_t i = 0; i < e->dimension; i++) square += (int64_t)e->sums[i] * e->sums[i];
    if (square == 0) { /* the signs cancelled: the text as a whole is the one feature then */
        begin_feature(e, 'z');
        hd_buf_add_str(&e->feature, text);
        add_feature(e, 1);
        square = 1;
    }
    double length = sqrt((double)square);
    for (uint32_t i = 0; i < e->dimension; i++) vector_out[i] = (float)((double)e->sums[i] / length);
}

hd_status co_embed_builtin(hd_arena *arena, hd_str text, uint32_t dimension, float *vector_out) {
    text = hd_text_trim(text);
    if (text.size == 0) return HD_ARGUMENT;
    hd_str folded;
    HD_TRY(hd_text_fold(arena, text, &folded));
    embedder e = {.dimension = dimension};
    HD_ALLOC(e.sums, arena, dimension);
    /* A text of punctuation alone ("…", "?!") is embedded by that, and one that folds to nothing by its own bytes. */
    if (add_text(&e, folded, false) == 0 && add_text(&e, folded, true) == 0) {
        begin_feature(&e, 'z');
        hd_buf_add_str(&e.feature, text);
        add_feature(&e, 1);
    }
    scale_to_unit(&e, folded, vector_out);
    hd_buf_fini(&e.feature);
    return HD_OK;
}
