/* Text to tokens. Reads every byte once; never fails on a text: what cannot be read becomes a last token CO_TOK_BAD, which is told
 * when the parser gets there, so that the first fault in the text is the one told. */
#include "coordinator/language/language_private.h"

typedef struct lexer {
    hd_arena *arena;
    const char *begin, *at, *end;
    co_tokens *tokens;
} lexer;

typedef struct keyword_row {
    const char *text;
    size_t size;
    const char *title, *hint;
} keyword_row;

static const keyword_row keyword_rows[] = {
    [CO_KW_NONE] = {"", 0, NULL, NULL},
#define KEYWORD(name, text) [CO_KW_##name] = {text, sizeof(text) - 1, NULL, NULL},
#define CONSTRUCT(name, text, title, hint) [CO_KW_##name] = {text, sizeof(text) - 1, title, hint},
#include "coordinator/language/keywords.def"
};

const char *co_keyword_name(co_keyword keyword) {
    return keyword_rows[keyword].text;
}

bool co_keyword_construct(co_keyword keyword, const char **title_out, const char **hint_out) {
    *title_out = keyword_rows[keyword].title;
    *hint_out = keyword_rows[keyword].hint;
    return *title_out != NULL;
}

static co_keyword find_keyword(hd_str word) {
    for (co_keyword keyword = CO_KW_NONE + 1; keyword < CO_KW_END; keyword++) {
        const keyword_row *row = &keyword_rows[keyword];
        if (row->size == word.size && hd_str_is_equal_nocase(word, (hd_str){row->text, row->size})) return keyword;
    }
    return CO_KW_NONE;
}

static bool is_name_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_name_char(char c) {
    return is_name_start(c) || is_digit(c);
}

/* The code point at `at` of valid UTF-8, and how many bytes it has. */
static uint32_t code_point_at(const char *at, const char *end, uint32_t *size_out) {
    unsigned char c = (unsigned char)*at;
    uint32_t size = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    HD_CHECK((size_t)(end - at) >= size);
    uint32_t code = size == 1 ? c : c & (0x7Fu >> size);
    for (uint32_t i = 1; i < size; i++) code = (code << 6) | ((unsigned char)at[i] & 0x3Fu);
    *size_out = size;
    return code;
}

/* openCypher's white space. */
static bool is_space(uint32_t code) {
    return code == ' ' || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F) || code == 0xA0 || code == 0x1680 ||
           code == 0x180E || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F ||
           code == 0x205F || code == 0x3000 || code == 0xFEFF;
}

static hd_status add_token(lexer *lex, co_token_kind kind, const char *from, const char *to, hd_str text) {
    co_tokens *tokens = lex->tokens;
    HD_TRY(co_push(lex->arena, (void *)&tokens->items, &tokens->count, &tokens->capacity, sizeof *tokens->items));
    tokens->items[tokens->count - 1] =
        (co_token){.kind = kind, .offset = (uint32_t)(from - lex->begin), .size = (uint32_t)(to - from), .text = text};
    return HD_OK;
}

/* Ends the tokens with one that says why. */
static hd_status add_bad(lexer *lex, const char *from, hd_str detail, hd_str hint) {
    lex->tokens->bad_detail = detail;
    lex->tokens->bad_hint = hint;
    lex->at = lex->end;
    return add_token(lex, CO_TOK_BAD, from, from, HD_STR(""));
}

/* White space and comments. */
static hd_status skip_space(lexer *lex) {
    while (lex->at < lex->end) {
        const char *at = lex->at;
        if (at[0] == '/' && lex->end - at > 1 && at[1] == '/') {
            while (lex->at < lex->end && *lex->at != '\n') lex->at++;
            continue;
        }
        if (at[0] == '/' && lex->end - at > 1 && at[1] == '*') {
            const char *close = at + 2;
            while (lex->end - close >= 2 && (close[0] != '*' || close[1] != '/')) close++;
            if (lex->end - close < 2)
                return add_bad(lex, at, HD_STR("the comment is not closed"), HD_STR("Close the comment with */."));
            lex->at = close + 2;
            continue;
        }
        uint32_t size;
        if (!is_space(code_point_at(at, lex->end, &size))) return HD_OK;
        lex->at += size;
    }
    return HD_OK;
}

/* `name`, a backtick inside doubled. On success *text_out is set and the lexer stands behind it; false: not closed, or empty. */
static hd_status lex_backticks(lexer *lex, const char *from, hd_str *text_out, bool *is_good_out) {
    const char *begin = lex->at + 1, *at = begin;
    *is_good_out = false;
    while (at < lex->end && (*at != '`' || (lex->end - at > 1 && at[1] == '`'))) at += *at == '`' ? 2 : 1;
    if (at == lex->end) {
        return add_bad(lex, from, HD_STR("the name in backticks is not closed"), HD_STR("Close the name with a backtick."));
    }
    if (at == begin) {
        return add_bad(lex, from, HD_STR("the name in backticks is empty"), HD_STR("Write a name between the backticks."));
    }
    char *text = hd_arena_alloc(lex->arena, (size_t)(at - begin));
    if (!text) return HD_MEMORY;
    size_t size = 0;
    for (const char *c = begin; c < at; c += *c == '`' ? 2 : 1) text[size++] = *c;
    lex->at = at + 1;
    *text_out = (hd_str){text, size};
    *is_good_out = true;
    return HD_OK;
}

static hd_status lex_name(lexer *lex) {
    const char *from = lex->at;
    while (lex->at < lex->end && is_name_char(*lex->at)) lex->at++;
    hd_str word = {from, (size_t)(lex->at - from)};
    co_keyword keyword = find_keyword(word);
    HD_TRY(add_token(lex, keyword == CO_KW_NONE ? CO_TOK_NAME : CO_TOK_KEYWORD, from, lex->at, word));
    lex->tokens->items[lex->tokens->count - 1].keyword = keyword;
    return HD_OK;
}

static hd_status lex_param(lexer *lex) {
    const char *from = lex->at++;
    if (lex->at < lex->end && *lex->at == '`') {
        hd_str text;
        bool is_good;
        HD_TRY(lex_backticks(lex, from, &text, &is_good));
        return is_good ? add_token(lex, CO_TOK_PARAM, from, lex->at, text) : HD_OK;
    }
    const char *name = lex->at;
    if (name == lex->end || !is_name_start(*name)) {
        return add_bad(lex, from, HD_STR("$ is not followed by the name of a parameter"),
                       HD_STR("Write $ and a name of letters, digits and _ that does not begin with a digit, such as $q."));
    }
    while (lex->at < lex->end && is_name_char(*lex->at)) lex->at++;
    hd_str word = {name, (size_t)(lex->at - name)};
    if (find_keyword(word) != CO_KW_NONE) {
        hd_str detail, hint;
        HD_TRY(hd_arena_printf(lex->arena, &detail, "the parameter's name " HD_STR_FMT " is a keyword", HD_STR_ARG(word)));
        HD_TRY(hd_arena_printf(lex->arena, &hint, "Rename the parameter, or write it in backticks: $`" HD_STR_FMT "`.",
                               HD_STR_ARG(word)));
        return add_bad(lex, from, detail, hint);
    }
    return add_token(lex, CO_TOK_PARAM, from, lex->at, word);
}

/* int = digits; float = [digits] "." digits [exponent] | digits exponent. A dot that another dot follows belongs to "..". */
static hd_status lex_number(lexer *lex) {
    const char *from = lex->at, *at = from, *end = lex->end;
    bool is_float = false;
    while (at < end && is_digit(*at)) at++;
    size_t digits = (size_t)(at - from);
    if (end - at > 1 && at[0] == '.' && is_digit(at[1])) {
        is_float = true;
        for (at++; at < end && is_digit(*at);) at++;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        const char *exponent = at + 1;
        if (exponent < end && (*exponent == '+' || *exponent == '-')) exponent++;
        if (exponent < end && is_digit(*exponent)) {
            is_float = true;
            for (at = exponent; at < end && is_digit(*at);) at++;
        }
    }
    if (at < end && is_name_char(*at)) {
        return add_bad(lex, from, HD_STR("a number runs into letters"),
                       HD_STR("Write numbers in decimal (12, 0.5, 1e-3), and names that begin with a digit in backticks."));
    }
    if (digits > 1 && from[0] == '0') {
        return add_bad(lex, from, HD_STR("a number begins with a needless 0"), HD_STR("Write the number without leading zeros."));
    }
    lex->at = at;
    return add_token(lex, is_float ? CO_TOK_FLOAT : CO_TOK_INT, from, at, (hd_str){from, (size_t)(at - from)});
}

/* Four hex digits at `at`; false where they are not there. */
static bool read_hex4(const char *at, const char *end, uint32_t *code_out) {
    if (end - at < 4) return false;
    uint32_t code = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit;
        if (is_digit(c))
            digit = (uint32_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (uint32_t)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (uint32_t)(c - 'A') + 10;
        else
            return false;
        code = code << 4 | digit;
    }
    *code_out = code;
    return true;
}

static size_t put_utf8(char *out, uint32_t code) {
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* \uXXXX at `at` (the backslash), a surrogate pair taken together. What is wrong with it, or NULL; *size_out bytes were read. */
static const char *read_unicode_escape(const char *at, const char *end, uint32_t *code_out, size_t *size_out) {
    uint32_t code, low;
    if (!read_hex4(at + 2, end, &code)) return "\\u is not followed by four hex digits";
    *size_out = 6;
    if (code == 0) return "\\u0000 is not a character of a text";
    if (code >= 0xDC00 && code <= 0xDFFF) return "a lone surrogate is not a character";
    if (code >= 0xD800 && code <= 0xDBFF) {
        bool has_low = end - at >= 12 && at[6] == '\\' && at[7] == 'u' && read_hex4(at + 8, end, &low);
        if (!has_low || low < 0xDC00 || low > 0xDFFF) return "a lone surrogate is not a character";
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        *size_out = 12;
    }
    *code_out = code;
    return NULL;
}

/* One escape of \\ \" \' \n \t \r \uXXXX. NULL and the bytes, or what is wrong. */
static const char *read_escape(const char *at, const char *end, char *out, size_t *out_size, size_t *size_out) {
    static const char from[] = "\\\"'ntr", to[] = "\\\"'\n\t\r";
    *size_out = 2;
    *out_size = 1;
    if (end - at < 2) return "the string is not closed";
    const char *found = at[1] ? strchr(from, at[1]) : NULL;
    if (found) {
        out[0] = to[found - from];
        return NULL;
    }
    if (at[1] != 'u') return "the string has an escape that does not exist";
    uint32_t code = 0;
    const char *wrong = read_unicode_escape(at, end, &code, size_out);
    if (!wrong) *out_size = put_utf8(out, code);
    return wrong;
}

static hd_status lex_string(lexer *lex) {
    const char *from = lex->at, *at = from + 1, *end = lex->end, *close = at;
    while (close < end && *close != *from) close += *close == '\\' && end - close > 1 ? 2 : 1;
    char *text = hd_arena_alloc(lex->arena, (size_t)(close - from)); /* escapes only make it shorter */
    if (!text) return HD_MEMORY;
    size_t size = 0;
    while (at < end && *at != *from) {
        if (*at == '\\') {
            size_t out_size, in_size;
            const char *wrong = read_escape(at, end, text + size, &out_size, &in_size);
            if (wrong) {
                return add_bad(
                    lex, at, hd_str_of(wrong),
                    HD_STR("Strings know the escapes \\\\ \\\" \\' \\n \\t \\r and \\uXXXX (a pair of them above U+FFFF)."));
            }
            at += in_size;
            size += out_size;
        } else {
            text[size++] = *at++;
        }
    }
    if (at == end)
        return add_bad(lex, from, HD_STR("the string is not closed"), HD_STR("Close the string with the quote that opens it."));
    lex->at = at + 1;
    return add_token(lex, CO_TOK_STRING, from, lex->at, (hd_str){text, size});
}

typedef struct mark_row {
    char text[3];
    co_token_kind kind;
} mark_row;

/* Longer ones first. */
static const mark_row mark_rows[] = {
    {"=~", CO_TOK_MATCHES}, {"<>", CO_TOK_NE},    {"<=", CO_TOK_LE},      {">=", CO_TOK_GE},       {"..", CO_TOK_DOTDOT},
    {"(", CO_TOK_LPAREN},   {")", CO_TOK_RPAREN}, {"[", CO_TOK_LBRACKET}, {"]", CO_TOK_RBRACKET},  {"{", CO_TOK_LBRACE},
    {"}", CO_TOK_RBRACE},   {",", CO_TOK_COMMA},  {":", CO_TOK_COLON},    {";", CO_TOK_SEMICOLON}, {".", CO_TOK_DOT},
    {"|", CO_TOK_PIPE},     {"=", CO_TOK_EQ},     {"<", CO_TOK_LT},       {">", CO_TOK_GT},        {"+", CO_TOK_PLUS},
    {"-", CO_TOK_MINUS},    {"*", CO_TOK_STAR},   {"/", CO_TOK_SLASH},    {"%", CO_TOK_PERCENT},   {"^", CO_TOK_CARET},
};

typedef struct stray_row {
    uint32_t first, last;
    const char *hint;
} stray_row;

/* Characters of other languages and of word processors, and what to write for them. */
static const stray_row stray_rows[] = {
    {'!', '!', "Write <> for \"not equal\" and NOT for negation."},
    {'&', '&', "Write AND."},
    {'~', '~', "Use CONTAINS on the name of an Entity or a Tag; there are no patterns."},
    {0xAB, 0xAB, "Write straight quotes: ' or \"."},
    {0xBB, 0xBB, "Write straight quotes: ' or \"."},
    {0x2010, 0x2015, "Write the plain minus sign: -."},
    {0x2018, 0x201F, "Write straight quotes: ' or \"."},
    {0x2190, 0x2190, "Write <-."},
    {0x2192, 0x2192, "Write ->."},
    {0x2212, 0x2212, "Write the plain minus sign: -."},
    {0x2260, 0x2260, "Write <>."},
    {0x2264, 0x2264, "Write <=."},
    {0x2265, 0x2265, "Write >=."},
    {0xFF01, 0xFF5E, "Write the half-width (ASCII) character."},
    {0x80, 0x10FFFF, "Write names with other characters than letters, digits and _ in backticks."},
};

static hd_status lex_stray(lexer *lex) {
    uint32_t size, code = code_point_at(lex->at, lex->end, &size);
    hd_str detail, hint = HD_STR("Take the character out.");
    if (code < 0x20 || code == 0x7F) {
        HD_TRY(hd_arena_printf(lex->arena, &detail, "a control character (U+%04X) cannot stand here", code));
    } else {
        HD_TRY(hd_arena_printf(lex->arena, &detail, "the character %.*s cannot stand here", (int)size, lex->at));
    }
    for (size_t i = 0; i < HD_COUNT_OF(stray_rows); i++) {
        if (code < stray_rows[i].first || code > stray_rows[i].last) continue;
        hint = hd_str_of(stray_rows[i].hint);
        break;
    }
    return add_bad(lex, lex->at, detail, hint);
}

static hd_status lex_mark(lexer *lex) {
    const char *from = lex->at;
    for (size_t i = 0; i < HD_COUNT_OF(mark_rows); i++) {
        hd_str text = {mark_rows[i].text, mark_rows[i].text[1] ? 2 : 1};
        if (*from != text.data[0] || (size_t)(lex->end - from) < text.size || from[text.size - 1] != text.data[text.size - 1])
            continue;
        lex->at += text.size;
        return add_token(lex, mark_rows[i].kind, from, lex->at, text);
    }
    return lex_stray(lex);
}

static hd_status lex_token(lexer *lex) {
    char c = *lex->at;
    if (is_name_start(c)) return lex_name(lex);
    if (is_digit(c) || (c == '.' && lex->end - lex->at > 1 && is_digit(lex->at[1]))) return lex_number(lex);
    if (c == '\'' || c == '"') return lex_string(lex);
    if (c == '$') return lex_param(lex);
    if (c == '`') {
        const char *from = lex->at;
        hd_str text;
        bool is_good;
        HD_TRY(lex_backticks(lex, from, &text, &is_good));
        return is_good ? add_token(lex, CO_TOK_NAME, from, lex->at, text) : HD_OK;
    }
    return lex_mark(lex);
}

hd_status co_lex(hd_arena *arena, hd_str text, co_tokens *tokens_out) {
    *tokens_out = (co_tokens){0};
    lexer lex = {.arena = arena, .begin = text.data, .at = text.data, .end = text.data + text.size, .tokens = tokens_out};
    for (;;) {
        HD_TRY(skip_space(&lex));
        if (lex.at == lex.end) break;
        HD_TRY(lex_token(&lex));
    }
    if (tokens_out->count > 0 && tokens_out->items[tokens_out->count - 1].kind == CO_TOK_BAD) return HD_OK;
    return add_token(&lex, CO_TOK_END, lex.end, lex.end, HD_STR(""));
}
