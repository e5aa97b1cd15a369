#include "client/import/git_memory.h"

#include <stdarg.h>
#include <stdio.h>

#include "client/call.h"
#include "common/clock.h"
#include "common/map.h"
#include "common/text.h"

enum {
    LIST_CHARACTERS_MIN = 10000, /* of the content, kept free for the files where the message is over-long */
    LIST_TAIL_MAX = 60,          /* "… and 12345 more files" */
    ISSUE_DIGITS_MAX = 9,
};

static const hd_str mark = {" [\xe2\x80\xa6]", 6}; /* " […]": four characters */
enum { MARK_CHARACTERS = 4 };

/* Names over a limit, for one warning. */
typedef struct left_out {
    hd_buf names;
    uint32_t count;
} left_out;

typedef struct making {
    hd_arena *arena;
    const cl_git_event *event;
    cl_git_warn *warn;
    void *self;
    json_t *memory;
    hd_str message; /* UTF-8 */
    json_t *entities, *tags;
    hd_map entity_names, tag_names; /* tags: kind and name */
    left_out entities_left, tags_left;
} making;

static void warn(making *m, const char *format, ...) HD_PRINTF(2, 3);
static void warn(making *m, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    m->warn(m->self, hd_str_of(text));
}

static void set_text(json_t *object, const char *name, hd_str text) {
    json_t *value = json_stringn(text.data != NULL ? text.data : "", text.size);
    HD_CHECK(value != NULL); /* all texts are UTF-8 by now */
    HD_CHECK(json_object_set_new(object, name, value) == 0);
}

/* ---- names ---- */

/* Controls (C0, DEL, C1) become U+FFFD. */
static hd_status replace_controls(hd_arena *arena, hd_str *name) {
    hd_buf clean = {0};
    for (size_t at = 0; at < name->size;) {
        hd_str character = hd_text_prefix((hd_str){name->data + at, name->size - at}, 1);
        hd_buf_add_str(&clean, hd_text_has_control(character, false) ? HD_STR("\xef\xbf\xbd") : character);
        at += character.size;
    }
    hd_status status = hd_arena_dup(arena, hd_buf_get(&clean), name);
    hd_buf_fini(&clean);
    return status;
}

hd_status cl_git_name(hd_arena *arena, hd_str bytes, hd_str encoding, size_t characters_max, hd_str *name_out, bool *is_cut_out) {
    bool is_repaired;
    HD_TRY(cl_git_text(arena, bytes, encoding, name_out, &is_repaired));
    if (hd_text_has_control(*name_out, false)) HD_TRY(replace_controls(arena, name_out));
    if (hd_text_trim(*name_out).size == 0) HD_TRY(hd_arena_printf(arena, name_out, "\"" HD_STR_FMT "\"", HD_STR_ARG(*name_out)));
    *is_cut_out = hd_text_length(*name_out) > characters_max;
    if (!*is_cut_out) return HD_OK;
    hd_str kept = hd_text_prefix(*name_out, characters_max - MARK_CHARACTERS);
    return hd_arena_printf(arena, name_out, HD_STR_FMT HD_STR_FMT, HD_STR_ARG(kept), HD_STR_ARG(mark));
}

static hd_status make_name(making *m, hd_str bytes, hd_str encoding, const char *what, hd_str *name_out) {
    bool is_cut;
    HD_TRY(cl_git_name(m->arena, bytes, encoding, CL_NAME_MAX, name_out, &is_cut));
    if (is_cut)
        warn(m, "the name of a %s is over %d characters and is cut: " HD_STR_FMT, what, CL_NAME_MAX,
             HD_STR_ARG(hd_text_prefix(*name_out, 80)));
    return HD_OK;
}

static void leave_out(left_out *left, hd_str name) {
    if (left->count++ > 0) hd_buf_add_str(&left->names, HD_STR(", "));
    hd_buf_add_str(&left->names, name);
}

static void tell_left_out(making *m, left_out *left, const char *what, int max) {
    if (left->count == 0) return;
    hd_buf text = {0};
    hd_buf_printf(&text, "more than %d %s; %u left out: ", max, what, left->count);
    hd_buf_add_str(&text, hd_buf_get(&left->names));
    m->warn(m->self, hd_buf_get(&text));
    hd_buf_fini(&text);
}

/* Once each, by name; the first type stays. */
static hd_status add_entity(making *m, hd_str name, const char *type) {
    uint32_t index;
    bool is_new;
    HD_TRY(hd_map_put(&m->entity_names, name, 0, &index, &is_new));
    if (!is_new) return HD_OK;
    if (json_array_size(m->entities) == CL_ENTITIES_MAX) {
        leave_out(&m->entities_left, name);
        return HD_OK;
    }
    json_t *entity = json_object();
    set_text(entity, "name", name);
    set_text(entity, "type", hd_str_of(type));
    json_array_append_new(m->entities, entity);
    return HD_OK;
}

/* ---- people and issues ---- */

/* By name; two people of one name are one entity, as everywhere in Heddle. */
static hd_status add_person(making *m, hd_str name_bytes, hd_str email_bytes, hd_str encoding) {
    hd_str name;
    if (name_bytes.size == 0) name_bytes = email_bytes;
    if (name_bytes.size == 0) return HD_OK;
    HD_TRY(make_name(m, name_bytes, encoding, "person", &name));
    return add_entity(m, name, "person");
}

/* trailer = "Co-authored-by:" name [ "<" email ">" ], at the beginning of a line, in any case */
static hd_status add_co_author(making *m, hd_str line) {
    static const hd_str key = {"co-authored-by:", 15};
    line = hd_text_trim(line);
    if (line.size < key.size || !hd_str_is_equal_nocase((hd_str){line.data, key.size}, key)) return HD_OK;
    hd_str value = {line.data + key.size, line.size - key.size}, email = HD_STR("");
    const char *open = memchr(value.data, '<', value.size);
    hd_str name = hd_text_trim((hd_str){value.data, open != NULL ? (size_t)(open - value.data) : value.size});
    if (open != NULL) {
        size_t left = value.size - (size_t)(open + 1 - value.data);
        const char *close = memchr(open + 1, '>', left);
        email = hd_text_trim((hd_str){open + 1, close != NULL ? (size_t)(close - open) - 1 : left});
    }
    return add_person(m, name, email, (hd_str){0});
}

static hd_status add_people(making *m) {
    const cl_git_commit *commit = m->event->commit;
    if (commit->author_name.size == 0 && commit->author_email.size == 0) warn(m, "it names no author");
    HD_TRY(add_person(m, commit->author_name, commit->author_email, commit->encoding));
    for (size_t at = 0; at < m->message.size;) {
        const char *end = memchr(m->message.data + at, '\n', m->message.size - at);
        size_t size = end != NULL ? (size_t)(end - m->message.data) - at : m->message.size - at;
        HD_TRY(add_co_author(m, (hd_str){m->message.data + at, size}));
        at += size + 1;
    }
    return HD_OK;
}

static bool is_word(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* "#12" that begins at `at`: its size, or 0. Not in the middle of a word or of an address ("repo#12", "&#39;", "/#3"), nor a colour
 * ("#12ab"), nor a number that begins with 0. */
static size_t match_issue(hd_str text, size_t at) {
    if (text.data[at] != '#') return 0;
    if (at > 0 && (is_word(text.data[at - 1]) || strchr("&/#", text.data[at - 1]) != NULL)) return 0;
    size_t size = 1;
    while (at + size < text.size && text.data[at + size] >= '0' && text.data[at + size] <= '9') size++;
    if (size == 1 || size > 1 + ISSUE_DIGITS_MAX || text.data[at + 1] == '0') return 0;
    return at + size < text.size && is_word(text.data[at + size]) ? 0 : size;
}

static hd_status add_issues(making *m) {
    for (size_t at = 0; at < m->message.size; at++) {
        size_t size = match_issue(m->message, at);
        if (size > 0) HD_TRY(add_entity(m, (hd_str){m->message.data + at, size}, "issue"));
    }
    return HD_OK;
}

/* ---- files and folders ---- */

static hd_status add_folder(making *m, hd_str path, const char *kind) {
    const char *slash = memchr(path.data, '/', path.size);
    hd_str name, key;
    uint32_t index;
    bool is_new;
    if (slash == NULL || slash == path.data) return HD_OK;
    HD_TRY(make_name(m, (hd_str){path.data, (size_t)(slash - path.data)}, (hd_str){0}, "folder", &name));
    HD_TRY(hd_arena_printf(m->arena, &key, "%c" HD_STR_FMT, kind[0], HD_STR_ARG(name)));
    HD_TRY(hd_map_put(&m->tag_names, key, 0, &index, &is_new));
    if (!is_new) return HD_OK;
    if (json_array_size(m->tags) == CL_TAGS_MAX) {
        leave_out(&m->tags_left, name);
        return HD_OK;
    }
    json_t *tag = json_object();
    set_text(tag, "name", name);
    set_text(tag, "kind", hd_str_of(kind));
    json_array_append_new(m->tags, tag);
    return HD_OK;
}

/* A renamed file is touched under both its names; the old ones come last, so that they are the first to be left out. */
static hd_status add_files(making *m) {
    for (int is_old = 0; is_old <= 1; is_old++) {
        for (uint32_t i = 0; i < m->event->change_count; i++) {
            const cl_git_change *change = &m->event->changes[i];
            hd_str path = is_old ? change->old_path : change->path, name;
            if (path.size == 0) continue;
            HD_TRY(make_name(m, path, (hd_str){0}, "file", &name));
            HD_TRY(add_entity(m, name, "file"));
            HD_TRY(add_folder(m, path, is_old ? "refers" : "contains"));
        }
    }
    return HD_OK;
}

/* ---- summary and content ---- */

/* subject = the first lines that are not blank, up to a blank one, joined by blanks */
static hd_status make_subject(making *m, hd_str *subject_out) {
    hd_buf subject = {0};
    for (size_t at = 0; at < m->message.size;) {
        const char *end = memchr(m->message.data + at, '\n', m->message.size - at);
        size_t size = end != NULL ? (size_t)(end - m->message.data) - at : m->message.size - at;
        hd_str line = hd_text_trim((hd_str){m->message.data + at, size});
        at += size + 1;
        if (line.size == 0 && subject.size > 0) break;
        if (line.size == 0) continue;
        if (subject.size > 0) hd_buf_add_char(&subject, ' ');
        hd_buf_add_str(&subject, line);
    }
    hd_status status = hd_arena_dup(m->arena, hd_buf_get(&subject), subject_out);
    hd_buf_fini(&subject);
    return status;
}

static hd_status add_summary(making *m) {
    hd_str subject;
    HD_TRY(make_subject(m, &subject));
    if (hd_text_has_control(subject, false)) HD_TRY(replace_controls(m->arena, &subject));
    if (subject.size == 0) subject = HD_STR("(no subject)");
    size_t length = hd_text_length(subject);
    if (length > CL_SUMMARY_MAX) {
        warn(m, "its subject has %zu characters; %d are kept (the content has all of it)", length, CL_SUMMARY_MAX);
        hd_str kept = hd_text_prefix(subject, CL_SUMMARY_MAX - MARK_CHARACTERS);
        HD_TRY(hd_arena_printf(m->arena, &subject, HD_STR_FMT HD_STR_FMT, HD_STR_ARG(kept), HD_STR_ARG(mark)));
    }
    set_text(m->memory, "summary", subject);
    return HD_OK;
}

/* "R old -> new". Paths are mended as they are for names, but never cut. */
static hd_status add_file_line(making *m, const cl_git_change *change, hd_buf *line_out) {
    hd_str path, old = {0};
    bool is_cut;
    hd_buf_clear(line_out);
    HD_TRY(cl_git_name(m->arena, change->path, (hd_str){0}, SIZE_MAX, &path, &is_cut));
    if (change->old_path.size > 0) HD_TRY(cl_git_name(m->arena, change->old_path, (hd_str){0}, SIZE_MAX, &old, &is_cut));
    hd_buf_printf(line_out, "%c ", change->status);
    hd_buf_add_str(line_out, old);
    if (old.size > 0) hd_buf_add_str(line_out, HD_STR(" -> "));
    hd_buf_add_str(line_out, path);
    hd_buf_add_char(line_out, '\n');
    return HD_OK;
}

/* The list of files in at most `room` characters, and how many files it had to leave out. */
static hd_status make_list(making *m, size_t room, hd_buf *list_out, uint32_t *left_out_count) {
    static const hd_str title = {"Files:\n", 7};
    const cl_git_event *event = m->event;
    hd_buf line = {0};
    size_t used = title.size;
    hd_status status = HD_OK;
    *left_out_count = 0;
    if (event->change_count == 0 || room < title.size + LIST_TAIL_MAX) {
        *left_out_count = event->change_count;
        return HD_OK;
    }
    hd_buf_add_str(list_out, title);
    for (uint32_t i = 0; i < event->change_count; i++) {
        HD_GOTO(add_file_line(m, &event->changes[i], &line));
        size_t length = hd_text_length(hd_buf_get(&line)), tail = i + 1 < event->change_count ? LIST_TAIL_MAX : 0;
        if (used + length + tail > room) {
            *left_out_count = event->change_count - i;
            hd_buf_printf(list_out, "\xe2\x80\xa6 and %u more files\n", *left_out_count);
            break;
        }
        used += length;
        hd_buf_add_str(list_out, hd_buf_get(&line));
    }
    list_out->size--; /* the last line end */
out:
    hd_buf_fini(&line);
    return status;
}

static hd_str trim_end(hd_str text) {
    while (text.size > 0 && strchr(" \t\r\n", text.data[text.size - 1]) != NULL && text.data[text.size - 1] != '\0') text.size--;
    return text;
}

/* message, blank line, list. The list may take what the message leaves; an over-long message leaves LIST_CHARACTERS_MIN, if the list
 * needs as much. */
static hd_status add_content(making *m) {
    hd_buf content = {0}, list = {0};
    hd_str message = trim_end(m->message);
    size_t length = hd_text_length(message), room = CL_CONTENT_MAX - 2;
    uint32_t left_out_count;
    hd_status status = HD_OK;
    size_t list_room = length < room - LIST_CHARACTERS_MIN ? room - length : LIST_CHARACTERS_MIN;
    HD_GOTO(make_list(m, list_room, &list, &left_out_count));
    room -= hd_text_length(hd_buf_get(&list));
    if (length > room) {
        warn(m, "its message has %zu characters; %zu are kept", length, room - MARK_CHARACTERS);
        hd_buf_add_str(&content, hd_text_prefix(message, room - MARK_CHARACTERS));
        hd_buf_add_str(&content, mark);
    } else {
        hd_buf_add_str(&content, message);
    }
    if (left_out_count > 0)
        warn(m, "its list of %u files does not fit into the content; %u are left out there", m->event->change_count,
             left_out_count);
    if (content.size > 0 && list.size > 0) hd_buf_add_str(&content, HD_STR("\n\n"));
    hd_buf_add_str(&content, hd_buf_get(&list));
    if (content.size > 0) set_text(m->memory, "content", hd_buf_get(&content));
out:
    hd_buf_fini(&content);
    hd_buf_fini(&list);
    return status;
}

/* ---- all of it ---- */

static void add_place(making *m) {
    static const int64_t first_s = -62135596800, last_s = 253402300799; /* years 1 to 9999 */
    const cl_git_event *event = m->event;
    char id[64], time[HD_INSTANT_TEXT_MAX];
    int64_t time_s = event->commit->time_s;
    snprintf(id, sizeof(id), "git:%s", event->hash);
    set_text(m->memory, "event_id", hd_str_of(id));
    if (!event->commit->has_time) warn(m, "it has no time that can be read; 1970-01-01 stands for it");
    if (time_s < first_s || time_s > last_s) {
        warn(m, "its time is outside the years 1 to 9999");
        time_s = time_s < first_s ? first_s : last_s;
    }
    hd_instant_format(time_s * 1000000, time);
    set_text(m->memory, "timestamp", hd_str_of(time));
    if (event->thread.data != NULL) {
        set_text(m->memory, "thread", event->thread);
        json_object_set_new(m->memory, "order_index", json_integer((json_int_t)event->order_index));
    } else if (event->first_parent != NULL) {
        snprintf(id, sizeof(id), "git:%s", event->first_parent);
        set_text(m->memory, "prev_event_id", hd_str_of(id));
    }
    /* A commit may well talk of such markers; nothing of it is cut but what this file cuts, with another mark. */
    json_object_set_new(m->memory, "allow_truncation_marker", json_true());
}

static hd_status make_all(making *m) {
    bool is_repaired;
    HD_TRY(cl_git_text(m->arena, m->event->commit->message, m->event->commit->encoding, &m->message, &is_repaired));
    if (is_repaired) warn(m, "its message has bytes that are no text in its encoding; they are replaced");
    add_place(m);
    HD_TRY(add_summary(m));
    HD_TRY(add_content(m));
    HD_TRY(add_people(m));
    HD_TRY(add_issues(m));
    HD_TRY(add_files(m));
    if (json_array_size(m->entities) > 0) json_object_set(m->memory, "entities", m->entities);
    if (json_array_size(m->tags) > 0) json_object_set(m->memory, "tags", m->tags);
    tell_left_out(m, &m->entities_left, "entities", CL_ENTITIES_MAX);
    tell_left_out(m, &m->tags_left, "tags", CL_TAGS_MAX);
    return HD_OK;
}

hd_status cl_git_memory_make(hd_arena *arena, const cl_git_event *event, cl_git_warn *warn_fn, void *self, json_t **memory_out) {
    making m = {.arena = arena,
                .event = event,
                .warn = warn_fn,
                .self = self,
                .memory = json_object(),
                .entities = json_array(),
                .tags = json_array()};
    hd_map_init(&m.entity_names, arena);
    hd_map_init(&m.tag_names, arena);
    hd_status status = make_all(&m);
    *memory_out = status == HD_OK ? json_incref(m.memory) : NULL;
    json_decref(m.memory);
    json_decref(m.entities);
    json_decref(m.tags);
    hd_buf_fini(&m.entities_left.names);
    hd_buf_fini(&m.tags_left.names);
    return status;
}
