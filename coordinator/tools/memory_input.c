/* Reads and checks one memory. The checks stand in the order of tools.md's list of arguments, the id first, so that a refused memory
 * can still be named by what depends on it. */
#include "coordinator/tools/memory_input.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/graph.h"
#include "common/ids.h"
#include "common/map.h"
#include "common/text.h"

const char *const co_memory_known[] = {
    "summary",       "content",  "entities", "tags",    "timestamp",       "thread",
    "order_index",   "event_id", "vector",   "replace", "idempotency_key", "allow_truncation_marker",
    "prev_event_id", "payload",  NULL,
};

static const char split_hint[] = "Split it into several memories and chain them by prev_event_id.";

/* What one reading shares between its checks. */
typedef struct reading {
    hd_arena *arena;
    const co_org *org;
    const json_t *object;
    const char *what;
    co_memory *memory;
    co_fault *fault;
    uint32_t warning_capacity;
} reading;

static hd_status refuse(reading *r, const char *format, ...) HD_PRINTF(2, 3);
static hd_status refuse(reading *r, const char *format, ...) {
    char text[HD_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return hd_error_set(&r->fault->error, HD_ARGUMENT, "tools", "%s: %s", r->what, text);
}

static hd_status refuse_with_hint(reading *r, const char *hint, const char *text) {
    r->fault->hint = hint;
    return refuse(r, "%s", text);
}

static hd_status warn(reading *r, const char *format, ...) HD_PRINTF(2, 3);
static hd_status warn(reading *r, const char *format, ...) {
    char text[HD_ERROR_MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    co_memory *memory = r->memory;
    if (memory->warning_count == r->warning_capacity) {
        uint32_t capacity = HD_MAX(4u, r->warning_capacity * 2);
        memory->warnings =
            hd_arena_grow(r->arena, memory->warnings, r->warning_capacity * sizeof(hd_str), capacity * sizeof(hd_str));
        if (memory->warnings == NULL) return HD_MEMORY;
        r->warning_capacity = capacity;
    }
    return hd_arena_dup(r->arena, hd_str_of(text), &memory->warnings[memory->warning_count++]);
}

static hd_str string_of(const json_t *value) {
    return (hd_str){json_string_value(value), json_string_length(value)};
}

/* The string member `name`, borrowed; absent where it is not there. */
static hd_status read_string(reading *r, const char *name, hd_str *text_out) {
    const json_t *value = co_arguments_get(r->object, name);
    *text_out = (hd_str){0};
    if (value == NULL) return HD_OK;
    if (!json_is_string(value)) return refuse(r, "\"%s\" has to be a string", name);
    *text_out = string_of(value);
    return HD_OK;
}

static hd_status read_switch(reading *r, const char *name, bool *is_on_out) {
    const json_t *value = co_arguments_get(r->object, name);
    *is_on_out = value != NULL && json_is_true(value);
    return value == NULL || json_is_boolean(value) ? HD_OK : refuse(r, "\"%s\" has to be true or false", name);
}

/* A name: trimmed, NFC, 1..length_max characters, no controls. `place` says whose: "entity 2", "tag 1", "thread". */
static hd_status read_name(reading *r, hd_str given, const char *place, uint32_t length_max, hd_str *name_out) {
    hd_status status = hd_text_name(r->arena, given, name_out);
    if (status == HD_ARGUMENT) return refuse(r, "the name of %s is not valid UTF-8", place);
    HD_TRY(status);
    if (name_out->size == 0) return refuse(r, "the name of %s is empty", place);
    if (hd_text_has_control(*name_out, false)) return refuse(r, "the name of %s holds a control character", place);
    size_t length = hd_text_length(*name_out);
    if (length > length_max) return refuse(r, "the name of %s has %zu characters; %u are allowed", place, length, length_max);
    return HD_OK;
}

/* ---- the id ---- */

static hd_status read_id(reading *r) {
    hd_str id, key;
    HD_TRY(read_string(r, "event_id", &id));
    HD_TRY(read_string(r, "idempotency_key", &key));
    if (key.data != NULL) {
        if (key.size == 0 || hd_text_length(key) > CO_IDEMPOTENCY_KEY_MAX || hd_text_has_control(key, false))
            return refuse(r, "\"idempotency_key\" is 1 to %d characters without control characters", CO_IDEMPOTENCY_KEY_MAX);
        r->memory->idempotency_key = key;
    }
    if (id.data != NULL) {
        if (!hd_event_id_is_valid(id))
            return refuse(r, "\"event_id\" is no event id: 1 to %d characters of A-Z a-z 0-9 . _ : -", HD_EVENT_ID_MAX);
        r->memory->event.id = id;
        return HD_OK;
    }
    char made[27];
    if (key.data != NULL)
        hd_event_id_from_key(r->org->id, key, made);
    else
        hd_event_id_new(made);
    return hd_arena_dup(r->arena, hd_str_of(made), &r->memory->event.id);
}

/* ---- texts ---- */

static bool is_prefix_nocase(hd_str text, hd_str prefix) {
    return text.size >= prefix.size && hd_str_is_equal_nocase((hd_str){text.data, prefix.size}, prefix);
}

/* "…12 tokens truncated…" at the beginning of `text`: its size, or 0. */
static size_t match_token_marker(hd_str text) {
    static const hd_str ellipsis = {"\xe2\x80\xa6", 3}, words = {" tokens truncated", 17};
    size_t at = ellipsis.size;
    while (at < text.size && text.data[at] >= '0' && text.data[at] <= '9') at++;
    if (at == ellipsis.size || text.size < at + words.size + ellipsis.size) return 0;
    if (!hd_str_is_equal_nocase((hd_str){text.data + at, words.size}, words)) return 0;
    at += words.size;
    return memcmp(text.data + at, ellipsis.data, ellipsis.size) == 0 ? at + ellipsis.size : 0;
}

hd_str co_memory_find_marker(hd_str text) {
    static const hd_str plain[] = {{"[truncated]", 11}, {"<response clipped>", 18}};
    for (size_t i = 0; i < text.size; i++) {
        hd_str rest = {text.data + i, text.size - i};
        switch (text.data[i]) {
        case '[':
        case '<':
            for (size_t m = 0; m < HD_COUNT_OF(plain); m++)
                if (is_prefix_nocase(rest, plain[m])) return (hd_str){rest.data, plain[m].size};
            break;
        case '\xe2': {
            size_t size = rest.size > 3 && memcmp(rest.data, "\xe2\x80\xa6", 3) == 0 ? match_token_marker(rest) : 0;
            if (size > 0) return (hd_str){rest.data, size};
            break;
        }
        default: break;
        }
    }
    return (hd_str){0};
}

static hd_status check_marker(reading *r, const char *name, hd_str text) {
    hd_str marker = co_memory_find_marker(text);
    if (marker.data == NULL) return HD_OK;
    r->fault->reason = "truncation_marker_detected";
    r->fault->hint =
        "Save the whole text, or say allow_truncation_marker: true where the marker is part of what is to be remembered.";
    return refuse(r, "\"%s\" holds the truncation marker " HD_STR_FMT, name, HD_STR_ARG(marker));
}

static hd_status read_texts(reading *r) {
    hd_event_record *event = &r->memory->event;
    bool is_marker_fine;
    HD_TRY(read_string(r, "summary", &event->summary));
    HD_TRY(read_string(r, "content", &event->content));
    HD_TRY(read_switch(r, "allow_truncation_marker", &is_marker_fine));
    if (event->summary.data == NULL) return refuse(r, "the argument \"summary\" is missing");
    if (hd_text_trim(event->summary).size == 0) return refuse(r, "\"summary\" is empty");
    size_t length = hd_text_length(event->summary);
    if (length > CO_SUMMARY_MAX) {
        r->fault->hint = split_hint;
        return refuse(r, "\"summary\" has %zu characters; %d are allowed", length, CO_SUMMARY_MAX);
    }
    length = event->content.data != NULL ? hd_text_length(event->content) : 0;
    if (length > CO_CONTENT_MAX) {
        r->fault->hint = split_hint;
        return refuse(r, "\"content\" has %zu characters; %d are allowed", length, CO_CONTENT_MAX);
    }
    if (is_marker_fine) return HD_OK;
    HD_TRY(check_marker(r, "summary", event->summary));
    return check_marker(r, "content", event->content);
}

/* ---- entities and tags ---- */

static hd_status read_entity(reading *r, const json_t *value, size_t number, hd_entity_ref *entity_out) {
    static const char *const known[] = {"name", "type", NULL};
    char place[32];
    snprintf(place, sizeof(place), "entity %zu", number);
    if (!json_is_object(value))
        return refuse_with_hint(r, "Give every entity as {\"name\": …, \"type\": …}; type may be absent.",
                                "an entity has to be an object");
    HD_TRY(co_arguments_check(value, known, place, &r->fault->error));
    const json_t *name = co_arguments_get(value, "name"), *type = co_arguments_get(value, "type");
    if (name == NULL || !json_is_string(name)) return refuse(r, "%s has no \"name\", which has to be a string", place);
    if (type != NULL && !json_is_string(type)) return refuse(r, "the type of %s has to be a string", place);
    HD_TRY(read_name(r, string_of(name), place, CO_ENTITY_NAME_MAX, &entity_out->name));
    if (type == NULL) return HD_OK;
    snprintf(place, sizeof(place), "entity %zu's type", number);
    return read_name(r, string_of(type), place, CO_TYPE_MAX, &entity_out->type);
}

/* Two of one name become one: the first that gives a type says it. */
static hd_status fold_entity(reading *r, hd_entity_ref *first, const hd_entity_ref *again) {
    hd_str name = hd_text_prefix(first->name, 60);
    HD_TRY(warn(r, "the entity \"" HD_STR_FMT "\" was given more than once and is kept once", HD_STR_ARG(name)));
    if (first->type.data == NULL) {
        first->type = again->type;
    } else if (again->type.data != NULL && !hd_str_is_equal(first->type, again->type)) {
        return warn(r, "the entity \"" HD_STR_FMT "\" was given two types; the first, \"" HD_STR_FMT "\", is kept",
                    HD_STR_ARG(name), HD_STR_ARG(first->type));
    }
    return HD_OK;
}

static hd_status read_entities(reading *r) {
    const json_t *list = co_arguments_get(r->object, "entities");
    if (list == NULL) return HD_OK;
    if (!json_is_array(list)) return refuse(r, "\"entities\" has to be a list");
    size_t count = json_array_size(list);
    /* Doubles fold away, but nothing is read without bound. */
    if (count > CO_ENTITIES_MAX * 8) return refuse(r, "%zu entities were given; %d are allowed", count, CO_ENTITIES_MAX);
    hd_event_record *event = &r->memory->event;
    hd_map seen;
    hd_map_init(&seen, r->arena);
    HD_ALLOC(event->entities, r->arena, count);
    for (size_t i = 0; i < count; i++) {
        hd_entity_ref entity = {0};
        uint32_t index;
        bool is_new;
        HD_TRY(read_entity(r, json_array_get(list, i), i + 1, &entity));
        HD_TRY(hd_map_put(&seen, entity.name, event->entity_count, &index, &is_new));
        if (is_new)
            event->entities[event->entity_count++] = entity;
        else
            HD_TRY(fold_entity(r, &event->entities[index], &entity));
    }
    if (event->entity_count > CO_ENTITIES_MAX)
        return refuse(r, "%u entities were given; %d are allowed", event->entity_count, CO_ENTITIES_MAX);
    return HD_OK;
}

static hd_status read_tag(reading *r, const json_t *value, size_t number, hd_tag_ref *tag_out) {
    static const char *const known[] = {"name", "kind", NULL};
    char place[32];
    snprintf(place, sizeof(place), "tag %zu", number);
    tag_out->kind = HD_KIND_CONTAINS;
    if (json_is_string(value)) return read_name(r, string_of(value), place, CO_TAG_NAME_MAX, &tag_out->name);
    if (!json_is_object(value)) return refuse(r, "%s has to be a name or {\"name\": …, \"kind\": …}", place);
    HD_TRY(co_arguments_check(value, known, place, &r->fault->error));
    const json_t *name = co_arguments_get(value, "name"), *kind = co_arguments_get(value, "kind");
    if (name == NULL || !json_is_string(name)) return refuse(r, "%s has no \"name\", which has to be a string", place);
    if (kind != NULL) {
        hd_str text = json_is_string(kind) ? string_of(kind) : HD_STR("");
        if (hd_str_is_equal(text, HD_STR("refers")))
            tag_out->kind = HD_KIND_REFERS;
        else if (!hd_str_is_equal(text, HD_STR("contains")))
            return refuse(r, "the kind of %s is \"contains\" or \"refers\"", place);
    }
    return read_name(r, string_of(name), place, CO_TAG_NAME_MAX, &tag_out->name);
}

/* Up to 32 different (name, kind); a name in both kinds counts twice. */
static hd_status read_tags(reading *r) {
    const json_t *list = co_arguments_get(r->object, "tags");
    if (list == NULL) return HD_OK;
    if (!json_is_array(list)) return refuse(r, "\"tags\" has to be a list");
    size_t count = json_array_size(list);
    if (count > CO_TAGS_MAX * 8) return refuse(r, "%zu tags were given; %d are allowed", count, CO_TAGS_MAX);
    hd_event_record *event = &r->memory->event;
    HD_ALLOC(event->tags, r->arena, count);
    for (size_t i = 0; i < count; i++) {
        hd_tag_ref tag = {0};
        bool is_new = true;
        HD_TRY(read_tag(r, json_array_get(list, i), i + 1, &tag));
        for (uint32_t t = 0; t < event->tag_count && is_new; t++)
            is_new = event->tags[t].kind != tag.kind || !hd_str_is_equal(event->tags[t].name, tag.name);
        if (is_new)
            event->tags[event->tag_count++] = tag;
        else
            HD_TRY(warn(r, "the tag \"" HD_STR_FMT "\" was given more than once and is kept once",
                        HD_STR_ARG(hd_text_prefix(tag.name, 60))));
    }
    if (event->tag_count > CO_TAGS_MAX) return refuse(r, "%u tags were given; %d are allowed", event->tag_count, CO_TAGS_MAX);
    return HD_OK;
}

/* ---- place in time and thread ---- */

static hd_status read_place(reading *r) {
    hd_event_record *event = &r->memory->event;
    hd_str timestamp, thread;
    HD_TRY(read_string(r, "timestamp", &timestamp));
    if (timestamp.data == NULL) {
        event->timestamp_us = hd_clock_wall_us();
    } else if (!hd_instant_parse(timestamp, &event->timestamp_us)) {
        return refuse_with_hint(r, "Write it like 2025-01-31 or 2025-01-31T10:20:30Z; without an offset it is UTC.",
                                "\"timestamp\" is no RFC 3339 date-time and no ISO 8601 date");
    }
    HD_TRY(read_string(r, "thread", &thread));
    if (thread.data != NULL) HD_TRY(read_name(r, thread, "the thread", CO_THREAD_MAX, &event->thread));
    const json_t *order = co_arguments_get(r->object, "order_index");
    if (order != NULL) {
        if (!json_is_integer(order)) return refuse(r, "\"order_index\" has to be a whole number");
        event->has_order = true;
        event->order_index = json_integer_value(order);
    }
    HD_TRY(read_string(r, "prev_event_id", &event->previous));
    if (event->previous.data == NULL) return HD_OK;
    if (!hd_event_id_is_valid(event->previous))
        return refuse(r, "\"prev_event_id\" is no event id: 1 to %d characters of A-Z a-z 0-9 . _ : -", HD_EVENT_ID_MAX);
    if (hd_str_is_equal(event->previous, event->id))
        return refuse(r, "an event cannot follow itself: \"prev_event_id\" is its own id");
    return HD_OK;
}

/* ---- the vector ---- */

static hd_status read_vector(reading *r) {
    const json_t *list = co_arguments_get(r->object, "vector");
    if (list == NULL) return HD_OK;
    if (!json_is_array(list)) return refuse(r, "\"vector\" has to be a list of numbers");
    size_t count = json_array_size(list);
    if (count != r->org->dimension)
        return refuse(r, "\"vector\" has %zu numbers; the org's vectors have %u", count, r->org->dimension);
    float *vector;
    HD_ALLOC(vector, r->arena, count);
    bool is_zero = true;
    for (size_t i = 0; i < count; i++) {
        const json_t *value = json_array_get(list, i);
        if (!json_is_number(value)) return refuse(r, "\"vector\" holds something that is no number, at place %zu", i + 1);
        vector[i] = (float)json_number_value(value);
        if (!isfinite(vector[i]))
            return refuse(r, "\"vector\" holds a number that is not finite as a 32-bit float, at place %zu", i + 1);
        is_zero = is_zero && vector[i] == 0;
    }
    if (is_zero) return refuse(r, "\"vector\" is all zero (as 32-bit floats): it has no direction");
    r->memory->event.vector = vector;
    r->memory->event.dimension = r->org->dimension;
    return HD_OK;
}

/* ---- all of it ---- */

/* `payload` holds all arguments, as an object or as the JSON text of one; it stands alone. */
static hd_status unwrap_payload(reading *r, json_t **parsed_out) {
    const json_t *payload = co_arguments_get(r->object, "payload");
    if (payload == NULL) return HD_OK;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)r->object, key, value) {
        if (strcmp(key, "payload") != 0 && !json_is_null(value))
            return refuse(r, "\"payload\" holds all arguments and stands alone; \"%s\" is beside it", key);
    }
    if (json_is_string(payload)) {
        json_error_t problem;
        *parsed_out = json_loadb(json_string_value(payload), json_string_length(payload), JSON_REJECT_DUPLICATES, &problem);
        if (*parsed_out == NULL) return refuse(r, "\"payload\" is no JSON (line %d, column %d)", problem.line, problem.column);
        payload = *parsed_out;
    }
    if (!json_is_object(payload)) return refuse(r, "\"payload\" has to be an object, or the JSON text of one");
    if (co_arguments_get(payload, "payload") != NULL) return refuse(r, "\"payload\" holds a \"payload\"");
    r->object = payload;
    return HD_OK;
}

static void release_json(void *json) {
    json_decref(json);
}

hd_status co_memory_read(hd_arena *arena, const co_org *org, const json_t *object, const char *what, co_memory *memory_out,
                         co_fault *fault) {
    *memory_out = (co_memory){0};
    reading r = {.arena = arena, .org = org, .object = object, .what = what, .memory = memory_out, .fault = fault};
    if (!json_is_object(object)) return refuse(&r, "a memory has to be an object");
    json_t *parsed = NULL;
    hd_status status = unwrap_payload(&r, &parsed);
    /* Strings are borrowed from the parsed payload: it lives as long as the arena. */
    if (parsed != NULL && hd_arena_on_release(arena, release_json, parsed) != HD_OK) {
        json_decref(parsed);
        return HD_MEMORY;
    }
    HD_TRY(status);
    HD_TRY(read_id(&r));
    HD_TRY(co_arguments_check(r.object, co_memory_known, what, &fault->error));
    HD_TRY(read_texts(&r));
    HD_TRY(read_entities(&r));
    HD_TRY(read_tags(&r));
    HD_TRY(read_place(&r));
    HD_TRY(read_vector(&r));
    return read_switch(&r, "replace", &memory_out->is_replace);
}
