/* Error answers and bodies, the same for every route. */
#include "coordinator/front/exchange.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/text.h"

void co_exchange_fail(co_exchange *exchange, hd_status status, const co_fault *fault) {
    static const co_fault none = {0};
    exchange->status = hd_status_http(status);
    exchange->is_passing = hd_status_retry(status) != HD_RETRY_NEVER;
    exchange->content_type = "application/json";
    hd_buf_clear(&exchange->answer);
    co_fault_write(&exchange->answer, status, fault != NULL ? fault : &none);
}

void co_exchange_fail_text(co_exchange *exchange, hd_status status, const char *format, ...) {
    co_fault fault = {0};
    va_list arguments;
    va_start(arguments, format);
    char text[HD_ERROR_MESSAGE_MAX];
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)hd_error_set(&fault.error, status, "http", "%s", text);
    co_exchange_fail(exchange, status, &fault);
}

static bool is_blank(hd_str text) {
    for (size_t i = 0; i < text.size; i++)
        if (strchr(" \t\r\n", text.data[i]) == NULL || text.data[i] == '\0') return false;
    return true;
}

/* The commonest faults in our own words; jansson's for the rest. */
static const char *explain(const json_error_t *problem) {
    switch (json_error_code(problem)) {
    case json_error_invalid_utf8: return "it is not valid UTF-8";
    case json_error_null_character:
    case json_error_null_byte_in_key: return "the character U+0000 is not allowed in a text";
    case json_error_duplicate_key: return "an object has the same name twice";
    case json_error_premature_end_of_input: return "it ends too early";
    case json_error_stack_overflow: return "it is nested too deep";
    case json_error_numeric_overflow: return "a number is too large";
    default: return strstr(problem->text, "invalid Unicode") != NULL ? "a lone surrogate is no character" : problem->text;
    }
}

/* jansson cuts the piece of text it quotes at a byte; the message has to be UTF-8 all the same. */
static hd_status refuse_body(const json_error_t *problem, hd_error *error) {
    hd_arena *arena = hd_arena_new(0);
    hd_str text = {0};
    hd_status status = hd_text_repair(arena, hd_str_of(explain(problem)), &text);
    if (status == HD_OK) {
        status = hd_error_set(error, HD_ARGUMENT, "http", "the body is no JSON, at line %d, column %d (byte %d): " HD_STR_FMT,
                              problem->line, problem->column, problem->position, HD_STR_ARG(text));
    }
    hd_arena_free(arena);
    return status;
}

hd_status co_exchange_parse_body(const co_exchange *exchange, json_t **object_out, hd_error *error) {
    json_error_t problem;
    hd_str body = hd_buf_get(&exchange->body);
    json_t *json = is_blank(body) ? json_object() : json_loadb(body.data, body.size, JSON_REJECT_DUPLICATES, &problem);
    if (json == NULL) return refuse_body(&problem, error);
    if (!json_is_object(json)) {
        json_decref(json);
        return hd_error_set(error, HD_ARGUMENT, "http", "the body has to be a JSON object");
    }
    *object_out = json;
    return HD_OK;
}
