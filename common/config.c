/* Three sources, one table. The flags are read first (only they say where the file is, and --help must work with a broken one), and
 * applied last:
 *
 *   argv ──▶ given flags ─┐   file ──▶ set ──▶ environment ──▶ set ──▶ given flags ──▶ set
 *                         └────────────────────────────────────────────────▲
 *
 * What a source sets replaces what a weaker one or the default had; a list too. */
#include "common/config.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/buf.h"
#include "common/text.h"

enum { FILE_BYTES_MAX = 1 << 20, VARIABLE_NAME_MAX = 128, NEAR_MISS_MAX = 3 };

/* Where a setting came from, for messages and for replacing. */
typedef enum source_kind { SOURCE_FILE, SOURCE_ENVIRONMENT, SOURCE_FLAG } source_kind;

typedef struct given_flag {
    const hd_config_option *option;
    const char *value;
} given_flag;

typedef struct config_parser {
    const char *program, *usage;
    const hd_config_option *options;
    size_t option_count;
    int argc, at; /* argv[at] is the next word */
    char **argv;
    given_flag *flags;
    size_t flag_count;
    const char *file;
    bool is_help, is_version;
    bool *is_set; /* per option, by the source that is being applied */
    hd_config_list *words;
    hd_error *error;
} config_parser;

/* What the targets point to lives until the process ends; the list keeps it reachable, so that leak checkers see it is meant. */
typedef struct kept_memory kept_memory;
struct kept_memory {
    kept_memory *before;
    char bytes[] __attribute__((aligned(16)));
};
static kept_memory *kept;

static void *keep(size_t size) {
    kept_memory *memory = hd_alloc(sizeof(*memory) + size);
    memory->before = kept;
    kept = memory;
    return memory->bytes;
}

static const char *keep_text(hd_str text) {
    char *copy = keep(text.size + 1);
    if (text.size > 0) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

/* --- numbers --- */

/* number = digit { digit } [ unit ]; *number_out is it times the unit's factor. False: not of that form, or over 64 bits. */
static bool parse_number(const char *text, const char *const *units, const uint64_t *factors, size_t unit_count,
                         uint64_t *number_out) {
    uint64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number))
            return false;
    }
    if (at == text) return false;
    uint64_t factor = *at == '\0' ? 1 : 0;
    for (size_t i = 0; i < unit_count && factor == 0; i++) {
        if (hd_str_is_equal_nocase(hd_str_of(at), hd_str_of(units[i]))) factor = factors[i];
    }
    return factor != 0 && !__builtin_mul_overflow(number, factor, number_out);
}

static bool parse_bytes(const char *text, uint64_t *bytes_out) {
    static const char *const units[] = {"K", "M", "G", "T"};
    static const uint64_t factors[] = {1ull << 10, 1ull << 20, 1ull << 30, 1ull << 40};
    return parse_number(text, units, factors, HD_COUNT_OF(units), bytes_out);
}

static bool parse_ms(const char *text, uint64_t *ms_out) {
    static const char *const units[] = {"ms", "s", "m", "h"};
    static const uint64_t factors[] = {1, 1000, 60 * 1000, 60 * 60 * 1000};
    return parse_number(text, units, factors, HD_COUNT_OF(units), ms_out);
}

static bool parse_switch(const char *text, bool *is_on_out) {
    hd_str word = hd_str_of(text);
    *is_on_out = hd_str_is_equal_nocase(word, HD_STR("true"));
    return *is_on_out || hd_str_is_equal_nocase(word, HD_STR("false"));
}

/* --- setting a target --- */

static const char *describe_type(hd_config_type type) {
    switch (type) {
    case HD_CONFIG_TEXT:
    case HD_CONFIG_LIST: return "text";
    case HD_CONFIG_COUNT: return "a whole number, such as 4";
    case HD_CONFIG_BYTES: return "a number of bytes, such as 512, 64K, 256M or 1G";
    case HD_CONFIG_MS: return "a time, such as 250ms, 30s or 5m";
    case HD_CONFIG_SWITCH: return "true or false";
    }
    hd_panic(__FILE__, __LINE__, "a setting has one of the types of hd_config_type");
}

static void append_item(hd_config_list *list, const char *item) {
    const char **items = keep((list->count + 1) * sizeof(*items));
    if (list->count > 0) memcpy(items, list->items, list->count * sizeof(*items));
    items[list->count] = item;
    list->items = items;
    list->count++;
}

/* A flag is one item; in the environment and the file commas part them. */
static void set_list(const hd_config_option *option, const char *value, source_kind source, bool is_first) {
    hd_config_list *list = option->target;
    if (is_first) *list = (hd_config_list){0};
    if (source == SOURCE_FLAG) {
        append_item(list, keep_text(hd_str_of(value)));
        return;
    }
    for (const char *at = value;;) {
        size_t size = strcspn(at, ",");
        hd_str item = hd_text_trim((hd_str){at, size});
        if (item.size > 0) append_item(list, keep_text(item));
        if (at[size] == '\0') return;
        at += size + 1;
    }
}

static bool set_target(const hd_config_option *option, const char *value, source_kind source, bool is_first) {
    switch (option->type) {
    case HD_CONFIG_TEXT: *(const char **)option->target = keep_text(hd_str_of(value)); return true;
    case HD_CONFIG_LIST: set_list(option, value, source, is_first); return true;
    case HD_CONFIG_COUNT: return parse_number(value, NULL, NULL, 0, option->target);
    case HD_CONFIG_BYTES: return parse_bytes(value, option->target);
    case HD_CONFIG_MS: return parse_ms(value, option->target);
    case HD_CONFIG_SWITCH: return parse_switch(value, option->target);
    }
    return false;
}

/* `place` names the source for a message: "--shards", "HEDDLE_SHARDS", "heddle.ini line 3: shards". */
static hd_status set_option(config_parser *p, const hd_config_option *option, const char *value, source_kind source,
                            const char *place) {
    bool *is_set = &p->is_set[option - p->options];
    if (*is_set && option->type != HD_CONFIG_LIST) {
        return hd_error_set(p->error, HD_ARGUMENT, "config", "%s is given twice", place);
    }
    if (!set_target(option, value, source, !*is_set)) {
        return hd_error_set(p->error, HD_ARGUMENT, "config", "%s: \"%s\" is not right; it takes %s", place, value,
                            describe_type(option->type));
    }
    *is_set = true;
    return HD_OK;
}

/* --- the table's names --- */

static const hd_config_option *find_by_name(const config_parser *p, hd_str name) {
    for (size_t i = 0; i < p->option_count; i++) {
        if (hd_str_is_equal(hd_str_of(p->options[i].name), name)) return &p->options[i];
    }
    return NULL;
}

static const hd_config_option *find_by_letter(const config_parser *p, char letter) {
    for (size_t i = 0; i < p->option_count; i++) {
        if (p->options[i].letter == letter) return &p->options[i];
    }
    return NULL;
}

/* The known flag nearest in spelling to `name`, or NULL. */
static const char *find_near_miss(const config_parser *p, hd_str name) {
    static const char *const built_in[] = {"config", "help", "version"};
    const char *nearest = NULL;
    uint32_t limit = HD_MIN((uint32_t)NEAR_MISS_MAX, (uint32_t)(name.size + 2) / 3), least = limit + 1;
    for (size_t i = 0; i < p->option_count + HD_COUNT_OF(built_in); i++) {
        const char *known = i < p->option_count ? p->options[i].name : built_in[i - p->option_count];
        uint32_t distance = hd_text_distance(name, hd_str_of(known), limit);
        if (distance < least) {
            least = distance;
            nearest = known;
        }
    }
    return nearest;
}

/* "listen-url" as the file writes it: "listen_url". */
static void copy_with_underscores(const char *name, bool is_upper, char *copy_out, size_t room) {
    size_t i = 0;
    for (; name[i] != '\0'; i++) {
        HD_CHECK(i + 1 < room);
        copy_out[i] = name[i] == '-' ? '_' : is_upper ? (char)toupper((unsigned char)name[i]) : name[i];
    }
    copy_out[i] = '\0';
}

static const hd_config_option *find_by_key(const config_parser *p, hd_str key) {
    for (size_t i = 0; i < p->option_count; i++) {
        char name[VARIABLE_NAME_MAX];
        copy_with_underscores(p->options[i].name, false, name, sizeof(name));
        if (hd_str_is_equal(hd_str_of(name), key)) return &p->options[i];
    }
    return NULL;
}

/* --- flags --- */

static hd_status refuse_flag(config_parser *p, hd_str name) {
    const char *near = find_near_miss(p, name);
    if (near != NULL) {
        return hd_error_set(p->error, HD_ARGUMENT, "config", "unknown flag --" HD_STR_FMT "; did you mean --%s?", HD_STR_ARG(name),
                            near);
    }
    return hd_error_set(p->error, HD_ARGUMENT, "config", "unknown flag --" HD_STR_FMT "; --help lists the flags", HD_STR_ARG(name));
}

/* The word after a flag, as its value. One that looks like a flag is more likely a forgotten value. */
static hd_status take_value(config_parser *p, const char *flag, const char **value_out) {
    if (p->at < p->argc && strncmp(p->argv[p->at], "--", 2) != 0) {
        *value_out = p->argv[p->at++];
        return HD_OK;
    }
    return hd_error_set(p->error, HD_ARGUMENT, "config", "%s needs a value%s%s%s", flag, p->at < p->argc ? ", not the flag " : "",
                        p->at < p->argc ? p->argv[p->at] : "",
                        p->at < p->argc ? "; write --name=value where it begins with --" : "");
}

/* long = "--" name [ "=" value ] */
static hd_status parse_long(config_parser *p, const char *word) {
    const char *equals = strchr(word, '=');
    hd_str name = {word + 2, equals == NULL ? strlen(word + 2) : (size_t)(equals - word - 2)};
    const char *value = equals == NULL ? NULL : equals + 1;
    const hd_config_option *option = find_by_name(p, name);
    if (option == NULL && hd_str_is_equal(name, HD_STR("config"))) {
        if (value == NULL) return take_value(p, word, &p->file);
        p->file = value;
        return HD_OK;
    }
    if (option == NULL) {
        p->is_help = p->is_help || hd_str_is_equal(hd_str_of(word), HD_STR("--help"));
        p->is_version = p->is_version || hd_str_is_equal(hd_str_of(word), HD_STR("--version"));
        return p->is_help || p->is_version ? HD_OK : refuse_flag(p, name);
    }
    if (value == NULL && option->type == HD_CONFIG_SWITCH) value = "true";
    if (value == NULL) HD_TRY(take_value(p, word, &value));
    p->flags[p->flag_count++] = (given_flag){option, value};
    return HD_OK;
}

/* short = "-" { switch letter } [ letter [ value ] ] */
static hd_status parse_short(config_parser *p, const char *word) {
    for (const char *at = word + 1; *at != '\0'; at++) {
        const hd_config_option *option = find_by_letter(p, *at);
        if (option == NULL && *at == 'h') {
            p->is_help = true;
            return HD_OK;
        }
        if (option == NULL) {
            return hd_error_set(p->error, HD_ARGUMENT, "config", "unknown flag -%c in \"%s\"; --help lists the flags", *at, word);
        }
        if (option->type != HD_CONFIG_SWITCH) {
            const char *value = at + 1;
            if (*value == '\0') HD_TRY(take_value(p, word, &value));
            p->flags[p->flag_count++] = (given_flag){option, value};
            return HD_OK;
        }
        p->flags[p->flag_count++] = (given_flag){option, "true"};
    }
    return HD_OK;
}

static hd_status read_words(config_parser *p) {
    bool is_ended = false;
    while (p->at < p->argc && !p->is_help && !p->is_version) {
        const char *word = p->argv[p->at++];
        if (is_ended || word[0] != '-' || word[1] == '\0') {
            append_item(p->words, word);
        } else if (strcmp(word, "--") == 0) {
            is_ended = true;
        } else if (word[1] == '-') {
            HD_TRY(parse_long(p, word));
        } else {
            HD_TRY(parse_short(p, word));
        }
    }
    return HD_OK;
}

/* --- file and environment --- */

static hd_status read_file(config_parser *p, hd_buf *text_out) {
    FILE *file = fopen(p->file, "rb");
    if (file == NULL) {
        return hd_error_set(p->error, HD_ARGUMENT, "config", "cannot open the config file %s: %s", p->file, strerror(errno));
    }
    hd_status status = HD_OK;
    while (status == HD_OK) {
        size_t size = fread(hd_buf_reserve(text_out, 4096), 1, 4096, file);
        text_out->size += size;
        if (text_out->size > FILE_BYTES_MAX) {
            status = hd_error_set(p->error, HD_ARGUMENT, "config", "the config file %s is over 1 MiB", p->file);
        }
        if (size < 4096) break;
    }
    if (status == HD_OK && ferror(file)) {
        status = hd_error_set(p->error, HD_ARGUMENT, "config", "cannot read the config file %s: %s", p->file, strerror(errno));
    }
    fclose(file);
    return status;
}

/* line = [ key "=" value ] | ("#" | ";") anything | "[heddle]" */
static hd_status apply_line(config_parser *p, hd_str line, unsigned number) {
    line = hd_text_trim(line);
    if (line.size == 0 || line.data[0] == '#' || line.data[0] == ';') return HD_OK;
    if (line.data[0] == '[') {
        if (hd_str_is_equal(line, HD_STR("[heddle]"))) return HD_OK;
        return hd_error_set(p->error, HD_ARGUMENT, "config", "%s line %u: unknown section " HD_STR_FMT "; only [heddle] may stand",
                            p->file, number, HD_STR_ARG(line));
    }
    const char *equals = memchr(line.data, '=', line.size);
    if (equals == NULL || memchr(line.data, '\0', line.size) != NULL) {
        return hd_error_set(p->error, HD_ARGUMENT, "config", "%s line %u: a line is \"key = value\"", p->file, number);
    }
    hd_str key = hd_text_trim((hd_str){line.data, (size_t)(equals - line.data)});
    hd_str value = hd_text_trim((hd_str){equals + 1, line.size - (size_t)(equals + 1 - line.data)});
    const hd_config_option *option = find_by_key(p, key);
    if (option == NULL) {
        const char *near = find_near_miss(p, key);
        char near_key[VARIABLE_NAME_MAX] = "";
        if (near != NULL && find_by_name(p, hd_str_of(near)) != NULL)
            copy_with_underscores(near, false, near_key, sizeof(near_key));
        return hd_error_set(p->error, HD_ARGUMENT, "config", "%s line %u: unknown key " HD_STR_FMT "%s%s%s", p->file, number,
                            HD_STR_ARG(key), near_key[0] != '\0' ? "; did you mean " : "", near_key,
                            near_key[0] != '\0' ? "?" : "");
    }
    char place[HD_ERROR_MESSAGE_MAX / 2];
    snprintf(place, sizeof(place), "%s line %u: %s", p->file, number, option->name);
    char *owned = hd_str_to_c(value);
    hd_status status = set_option(p, option, owned, SOURCE_FILE, place);
    hd_free(owned);
    return status;
}

static hd_status apply_lines(config_parser *p, hd_str text) {
    size_t at = text.size >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0 ? 3 : 0; /* a byte order mark */
    for (unsigned number = 1; at < text.size; number++) {
        const char *end = memchr(text.data + at, '\n', text.size - at);
        size_t size = end == NULL ? text.size - at : (size_t)(end - text.data) - at;
        HD_TRY(apply_line(p, (hd_str){text.data + at, size}, number));
        at += size + 1;
    }
    return HD_OK;
}

static hd_status apply_file(config_parser *p) {
    if (p->file == NULL) p->file = getenv("HEDDLE_CONFIG");
    if (p->file == NULL || p->file[0] == '\0') return HD_OK;
    hd_buf text = {0};
    hd_status status = read_file(p, &text);
    if (status == HD_OK) status = apply_lines(p, hd_buf_get(&text));
    hd_buf_fini(&text);
    return status;
}

static hd_status apply_environment(config_parser *p) {
    for (size_t i = 0; i < p->option_count; i++) {
        char name[VARIABLE_NAME_MAX] = "HEDDLE_";
        copy_with_underscores(p->options[i].name, true, name + 7, sizeof(name) - 7);
        const char *value = getenv(name);
        if (value != NULL && value[0] != '\0') HD_TRY(set_option(p, &p->options[i], value, SOURCE_ENVIRONMENT, name));
    }
    return HD_OK;
}

static hd_status apply_flags(config_parser *p) {
    for (size_t i = 0; i < p->flag_count; i++) {
        char place[VARIABLE_NAME_MAX];
        snprintf(place, sizeof(place), "--%s", p->flags[i].option->name);
        HD_TRY(set_option(p, p->flags[i].option, p->flags[i].value, SOURCE_FLAG, place));
    }
    return HD_OK;
}

/* --- help --- */

static void write_default(const hd_config_option *option) {
    if (option->type == HD_CONFIG_TEXT) {
        const char *text = *(const char **)option->target;
        if (text != NULL && text[0] != '\0') printf(" (default: %s)", text);
    } else if (option->type == HD_CONFIG_COUNT) {
        printf(" (default: %llu)", *(unsigned long long *)option->target);
    } else if (option->type == HD_CONFIG_MS) {
        unsigned long long ms = *(unsigned long long *)option->target;
        printf(ms % 1000 == 0 && ms > 0 ? " (default: %llus)" : " (default: %llums)", ms % 1000 == 0 && ms > 0 ? ms / 1000 : ms);
    } else if (option->type == HD_CONFIG_BYTES) {
        unsigned long long bytes = *(unsigned long long *)option->target;
        unsigned unit = 0;
        while (unit < 4 && bytes >= 1024 && bytes % 1024 == 0) {
            bytes /= 1024;
            unit++;
        }
        printf(" (default: %llu%s)", bytes, (const char *const[]){"", "K", "M", "G", "T"}[unit]);
    }
}

static void write_option(char letter, const char *name, const char *value_name, const char *help, const hd_config_option *option) {
    enum { HELP_COLUMN = 30 };
    char letter_text[8] = "    ";
    if (letter != '\0') snprintf(letter_text, sizeof(letter_text), "-%c, ", letter);
    int width = printf("  %s--%s%s%s", letter_text, name, value_name != NULL ? " " : "", value_name != NULL ? value_name : "");
    if (width > HELP_COLUMN - 2) {
        printf("\n");
        width = 0;
    }
    printf("%*s%s", HELP_COLUMN - width, "", help);
    if (option != NULL) write_default(option);
    printf("\n");
}

static void write_help(const config_parser *p) {
    printf("%s\n\nOptions:\n", p->usage);
    for (size_t i = 0; i < p->option_count; i++) {
        const hd_config_option *option = &p->options[i];
        write_option(option->letter, option->name, option->type == HD_CONFIG_SWITCH ? NULL : option->value_name, option->help,
                     option);
    }
    bool has_h = find_by_letter(p, 'h') != NULL;
    write_option('\0', "config", "FILE", "an INI file of these settings (key = value, with _ for -)", NULL);
    write_option(has_h ? '\0' : 'h', "help", NULL, "this page", NULL);
    write_option('\0', "version", NULL, "the version", NULL);
    printf(
        "\nEach setting may also be given as a variable (--listen-url as HEDDLE_LISTEN_URL). Flags win over\n"
        "variables, variables over the file.\n");
    fflush(stdout);
}

/* One source after the other; within one, a setting other than a list may stand once. */
static hd_status apply_all(config_parser *p) {
    static hd_status (*const sources[])(config_parser * p) = {apply_file, apply_environment, apply_flags};
    for (size_t i = 0; i < HD_COUNT_OF(sources); i++) {
        memset(p->is_set, 0, p->option_count * sizeof(*p->is_set));
        HD_TRY(sources[i](p));
    }
    return HD_OK;
}

hd_status hd_config_parse(const char *program, const char *usage, const hd_config_option *options, size_t option_count, int argc,
                          char **argv, hd_config_list *words_out, bool *is_done_out, hd_error *error) {
    *words_out = (hd_config_list){0};
    *is_done_out = false;
    size_t flags_max = 0; /* bundled letters give several flags a word */
    for (int i = 1; i < argc; i++) flags_max += strlen(argv[i]) + 1;
    config_parser p = {
        .program = program,
        .usage = usage,
        .options = options,
        .option_count = option_count,
        .argc = argc,
        .at = 1,
        .argv = argv,
        .flags = hd_alloc_zero(flags_max, sizeof(given_flag)),
        .is_set = hd_alloc_zero(option_count, sizeof(bool)),
        .words = words_out,
        .error = error,
    };
    hd_status status = HD_OK;
    HD_GOTO(read_words(&p));
    if (p.is_help) write_help(&p);
    if (p.is_version) printf("%s %s\n", program, HD_VERSION);
    *is_done_out = p.is_help || p.is_version;
    if (!*is_done_out) HD_GOTO(apply_all(&p));
out:
    hd_free(p.flags);
    hd_free(p.is_set);
    return status;
}
