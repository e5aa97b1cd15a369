/* heddle import jsonl: a file of memories, one save_memory object a line. */
#include "client/import/jsonl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/command.h"
#include "client/import/import.h"
#include "common/ids.h"
#include "common/text.h"

enum {
    READ_SIZE = 1 << 18,
    LINE_BYTES_MAX = 8 << 20, /* a body is 16 MiB at most, and a memory of the largest texts stays far below this */
};

/* ---- one line ---- */

void cl_jsonl_line_fini(cl_jsonl_line *line) {
    hd_buf_fini(&line->json);
    hd_buf_fini(&line->id);
    hd_buf_fini(&line->previous);
}

/* A member that is there and not null. */
static const json_t *get_member(const json_t *object, const char *name) {
    const json_t *value = json_object_get(object, name);
    return json_is_null(value) ? NULL : value;
}

static void take_text(const json_t *value, hd_buf *text_out) {
    hd_buf_clear(text_out);
    if (json_is_string(value)) hd_buf_add(text_out, json_string_value(value), json_string_length(value));
}

/* What "payload" wraps, where it wraps an object and stands alone; else NULL, and the coordinator says what is wrong. */
static json_t *unwrap_payload(const json_t *object) {
    const json_t *payload = get_member(object, "payload");
    json_t *inner = NULL;
    if (payload == NULL || json_object_size(object) != 1) return NULL;
    if (json_is_object(payload)) inner = json_incref((json_t *)(uintptr_t)payload);
    if (json_is_string(payload))
        inner = json_loadb(json_string_value(payload), json_string_length(payload), JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(inner)) return inner;
    json_decref(inner);
    return NULL;
}

/* ---- numbers are skipped ----
 *
 * A vector is most of a line, and making an object of each of its numbers most of the work of reading it. So lists of nothing but plain
 * numbers are read over, and the JSON library sees them as []. A line that the library then refuses is given to it once more as it is,
 * for the right message; the coordinator reads every number anyhow. */

/* number = ["-"] (0 | nonzero {digit}) ["." digit {digit}] ["e" ["+"|"-"] digit {digit}], of a size that no parser refuses: 18 digits
 * before the point, 2 in the exponent. The end of the one at `at`, or NULL. */
static const char *skip_number(const char *at, const char *end) {
    at += at < end && *at == '-';
    const char *start = at;
    while (at < end && *at >= '0' && *at <= '9') at++;
    if (at == start || at - start > 18 || (*start == '0' && at - start > 1)) return NULL;
    if (at < end && *at == '.') {
        start = ++at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        if (at == start) return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        at += at < end && (*at == '+' || *at == '-');
        start = at;
        while (at < end && *at >= '0' && *at <= '9') at++;
        if (at == start || at - start > 2) return NULL;
    }
    return at;
}

static const char *skip_blanks(const char *at, const char *end) {
    while (at < end && (*at == ' ' || *at == '\t')) at++;
    return at;
}

/* The end of the list of numbers that begins at `at` (a bracket), or NULL where it is another one. */
static const char *skip_number_list(const char *at, const char *end) {
    do {
        at = skip_number(skip_blanks(at + 1, end), end);
        if (at == NULL) return NULL;
        at = skip_blanks(at, end);
    } while (at < end && *at == ',');
    return at < end && *at == ']' ? at + 1 : NULL;
}

static void drop_number_lists(hd_str line, hd_buf *short_out) {
    const char *at = line.data, *end = line.data + line.size, *from = at;
    bool is_string = false;
    hd_buf_clear(short_out);
    while (at < end) {
        const char *list_end = !is_string && *at == '[' ? skip_number_list(at, end) : NULL;
        if (list_end != NULL) {
            hd_buf_add(short_out, from, (size_t)(at - from));
            hd_buf_add_str(short_out, HD_STR("[]"));
            at = from = list_end;
            continue;
        }
        if (*at == '"') is_string = !is_string;
        if (is_string && *at == '\\') at++;
        at++;
    }
    hd_buf_add(short_out, from, (size_t)(end - from));
}

/* `scratch` holds the short form. */
static hd_status parse_line(hd_str line, hd_buf *scratch, json_t **object_out, hd_error *error) {
    json_error_t problem;
    drop_number_lists(line, scratch);
    json_t *object = json_loadb(scratch->data != NULL ? scratch->data : "", scratch->size, JSON_REJECT_DUPLICATES, NULL);
    if (object == NULL) object = json_loadb(line.data, line.size, JSON_REJECT_DUPLICATES, &problem);
    if (object == NULL) {
        /* The library quotes a piece of the line, which may be cut inside a character. */
        const char *near = strstr(problem.text, " near ");
        return hd_error_set(error, HD_ARGUMENT, "jsonl", "no JSON, at character %d: %.*s", problem.column,
                            (int)(near != NULL ? (size_t)(near - problem.text) : strlen(problem.text)), problem.text);
    }
    if (!json_is_object(object)) {
        json_decref(object);
        return hd_error_set(error, HD_ARGUMENT, "jsonl", "a line has to be a JSON object");
    }
    *object_out = object;
    return HD_OK;
}

static void make_id(hd_str line, hd_buf *id_out) {
    hd_id128 hash = hd_name_id(line);
    hd_buf_clear(id_out);
    hd_buf_add_str(id_out, HD_STR("line:"));
    for (size_t i = 0; i < sizeof(hash.bytes); i++) hd_buf_printf(id_out, "%02x", hash.bytes[i]);
}

/* The line with the id put in front of its first member. It holds one, and no event_id, not even a null one. */
static void insert_id(hd_str line, hd_str id, hd_buf *json_out) {
    hd_buf_printf(json_out, "{\"event_id\":\"" HD_STR_FMT "\",", HD_STR_ARG(id));
    hd_buf_add(json_out, line.data + 1, line.size - 1);
}

/* The line taken apart and written anew, for where the id cannot be put in front: unwrapped from a payload, or event_id is there as
 * null. Read once more, with its numbers. */
static hd_status rewrite(hd_str line, hd_str id, hd_buf *json_out, hd_error *error) {
    json_t *object;
    json_error_t problem;
    object = json_loadb(line.data, line.size, JSON_REJECT_DUPLICATES, &problem);
    if (object == NULL) return hd_error_set(error, HD_ARGUMENT, "jsonl", "no JSON, at character %d", problem.column);
    json_t *inner = unwrap_payload(object), *memory = inner != NULL ? inner : object;
    if (id.size > 0) json_object_set_new(memory, "event_id", json_stringn(id.data, id.size));
    cl_json_add(json_out, memory);
    json_decref(inner);
    json_decref(object);
    return HD_OK;
}

hd_status cl_jsonl_read(hd_str line, cl_jsonl_line *line_out, hd_error *error) {
    json_t *object;
    line = hd_text_trim(line);
    HD_TRY(parse_line(line, &line_out->json, &object, error));
    json_t *inner = unwrap_payload(object);
    const json_t *memory = inner != NULL ? inner : object;
    bool has_id = get_member(memory, "event_id") != NULL, is_null_id = !has_id && json_object_get(memory, "event_id") != NULL;
    take_text(get_member(memory, "event_id"), &line_out->id);
    take_text(get_member(memory, "prev_event_id"), &line_out->previous);
    bool is_id_wanted = !has_id && get_member(memory, "idempotency_key") == NULL && json_object_size(memory) > 0;
    bool is_wrapped = inner != NULL;
    json_decref(inner);
    json_decref(object);
    if (is_id_wanted) make_id(line, &line_out->id);
    hd_buf_clear(&line_out->json);
    if (is_wrapped || (is_id_wanted && is_null_id))
        return rewrite(line, is_id_wanted ? hd_buf_get(&line_out->id) : (hd_str){0}, &line_out->json, error);
    if (is_id_wanted)
        insert_id(line, hd_buf_get(&line_out->id), &line_out->json);
    else
        hd_buf_add_str(&line_out->json, line);
    return HD_OK;
}

/* ---- a file ---- */

typedef struct source {
    int file;
    hd_buf text; /* read, not yet taken: text.data[at..] */
    size_t at;
    uint64_t bytes, bytes_total; /* taken so far; of the file, 0 where not known */
    uint64_t number;             /* of the last line taken */
    bool is_end;
} source;

static hd_status open_source(const char *path, source *s, hd_error *error) {
    struct stat facts;
    *s = (source){.file = STDIN_FILENO};
    if (strcmp(path, "-") != 0) {
        s->file = open(path, O_RDONLY | O_CLOEXEC);
        if (s->file < 0) return hd_error_set(error, HD_ARGUMENT, "jsonl", "cannot open %s: %s", path, strerror(errno));
    }
    if (fstat(s->file, &facts) == 0 && S_ISDIR(facts.st_mode))
        return hd_error_set(error, HD_ARGUMENT, "jsonl", "%s is a folder; a file is wanted", path);
    if (fstat(s->file, &facts) == 0 && S_ISREG(facts.st_mode)) s->bytes_total = (uint64_t)facts.st_size;
    return HD_OK;
}

static void close_source(source *s) {
    if (s->file > STDIN_FILENO) close(s->file);
    hd_buf_fini(&s->text);
}

/* More of the file, behind what is there. */
static hd_status read_more(source *s, hd_error *error) {
    if (s->at > 0) memmove(s->text.data, s->text.data + s->at, s->text.size - s->at);
    s->text.size -= s->at;
    s->at = 0;
    ssize_t size;
    do {
        size = read(s->file, hd_buf_reserve(&s->text, READ_SIZE), READ_SIZE);
    } while (size < 0 && errno == EINTR);
    if (size < 0) return hd_error_set(error, HD_STORE_IO, "jsonl", "cannot read on: %s", strerror(errno));
    s->text.size += (size_t)size;
    s->is_end = size == 0;
    return HD_OK;
}

/* The next line, without its end, lent until the next call; *has_line_out false at the end. A line that is too long is dropped and
 * *is_too_long_out set. */
static hd_status take_line(source *s, hd_str *line_out, bool *has_line_out, bool *is_too_long_out, hd_error *error) {
    size_t looked = 0;
    *is_too_long_out = *has_line_out = false;
    for (;;) {
        size_t left = s->text.size - s->at;
        const char *start = left > 0 ? s->text.data + s->at : "";
        const char *end = left > looked ? memchr(start + looked, '\n', left - looked) : NULL;
        if (end == NULL && left > LINE_BYTES_MAX) { /* what was read of it goes, the rest follows */
            s->at = s->text.size;
            s->bytes += left;
            *is_too_long_out = true;
            looked = 0;
        } else if (end != NULL || (s->is_end && (left > 0 || *is_too_long_out))) {
            size_t size = end != NULL ? (size_t)(end - start) : left;
            s->at += size + (end != NULL);
            s->bytes += size + (end != NULL);
            s->number++;
            *line_out = (hd_str){start, size};
            *is_too_long_out = *is_too_long_out || size > LINE_BYTES_MAX;
            *has_line_out = true;
            return HD_OK;
        } else {
            looked = left;
        }
        if (s->is_end) return HD_OK;
        HD_TRY(read_more(s, error));
    }
}

static bool is_blank(hd_str line) {
    return hd_text_trim(line).size == 0;
}

static hd_status import_line(cl_import *import, const source *s, hd_str line, bool is_too_long, cl_jsonl_line *scratch,
                             hd_error *error) {
    char place[40];
    hd_error problem = {0};
    snprintf(place, sizeof(place), "line %llu", (unsigned long long)s->number);
    if (s->number == 1 && line.size >= 3 && memcmp(line.data, "\xef\xbb\xbf", 3) == 0)
        line = (hd_str){line.data + 3, line.size - 3};
    if (!is_too_long && is_blank(line)) return HD_OK;
    hd_status status;
    if (is_too_long)
        status = hd_error_set(&problem, HD_ARGUMENT, "jsonl", "the line is over %d MiB", LINE_BYTES_MAX >> 20);
    else
        status = cl_jsonl_read(line, scratch, &problem);
    if (status != HD_OK) return cl_import_refuse(import, hd_str_of(place), s->number, problem.message, error);
    cl_memory memory = {.json = hd_buf_get(&scratch->json), .place = hd_str_of(place), .number = s->number};
    if (scratch->id.size > 0) memory.id = hd_buf_get(&scratch->id);
    if (scratch->previous.size > 0) memory.previous = hd_buf_get(&scratch->previous);
    double fraction = s->bytes_total > 0 ? (double)s->bytes / (double)s->bytes_total : -1;
    return cl_import_add(import, &memory, fraction, error);
}

static hd_status import_lines(cl_import *import, source *s, hd_error *error) {
    cl_jsonl_line scratch = {0};
    hd_status status = HD_OK;
    while (status == HD_OK) {
        hd_str line = {0};
        bool has_line, is_too_long;
        status = take_line(s, &line, &has_line, &is_too_long, error);
        if (status != HD_OK || !has_line) break;
        status = import_line(import, s, line, is_too_long, &scratch, error);
    }
    cl_jsonl_line_fini(&scratch);
    return status;
}

int cl_import_jsonl_run(int argc, char **argv) {
    static const char usage[] =
        "heddle import jsonl FILE|-\n\n"
        "Saves a file of memories (or the standard input): one object with the arguments of save_memory a line. A second run adds\n"
        "only what is new: by event_id, by idempotency_key, or, where a line has neither, by its own text. A line that is refused "
        "is\n"
        "told with its number and the reason, and the rest goes on. Exit: 0 all is there, 1 something was refused or it stopped.";
    cl_import_options o = CL_IMPORT_DEFAULTS;
    const hd_config_option options[] = {CL_IMPORT_OPTIONS(o)};
    hd_config_list words = {0};
    hd_error error = {0};
    cl_import *import = NULL;
    source s;
    int code;
    if (!cl_options_read(usage, options, HD_COUNT_OF(options), 1, 1, &o.target, argc, argv, &words, &code)) return code;
    hd_status status = open_source(words.items[0], &s, &error);
    if (status == HD_OK) status = cl_import_new(&o, "events", 0, &import, &error);
    if (status == HD_OK) status = import_lines(import, &s, &error);
    code = cl_import_finish(import, &o, status, &error);
    close_source(&s);
    return code;
}
