/* Refusals: which of a query's faults is told, where it stands, and what would mend it.
 *
 * Of all faults that were reported the one told is: syntax before grammar before params, then the first in the text, then the first
 * reported. Messages are made only for a fault that is kept, so that reporting costs little. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "common/text.h"
#include "coordinator/language/language_private.h"

enum { EXCERPT_MAX = 40, MESSAGE_MAX = 1024 };

void co_faults_init(co_faults *faults, hd_arena *arena, hd_str text, co_refusal *refusal_out) {
    *refusal_out = (co_refusal){0};
    *faults = (co_faults){.arena = arena, .text = text, .refusal = refusal_out};
}

void co_position(hd_str text, uint32_t offset, uint32_t *line_out, uint32_t *column_out) {
    uint32_t line = 1, column = 1;
    for (size_t i = 0; i < offset && i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];
        if (c == '\n') {
            line++;
            column = 1;
        } else if ((c & 0xC0) != 0x80) {
            column++;
        }
    }
    *line_out = line;
    *column_out = column;
}

static bool is_kept(const co_faults *faults, co_blocked_by blocked_by, uint32_t offset) {
    co_blocked_by kept = faults->refusal->blocked_by;
    if (kept == 0) return true;
    return blocked_by != kept ? blocked_by < kept : offset < faults->offset;
}

static hd_status keep_fault(co_faults *faults, co_blocked_by blocked_by, uint32_t offset, const co_advice *advice,
                            const char *format, va_list arguments) HD_PRINTF(5, 0);

static hd_status keep_fault(co_faults *faults, co_blocked_by blocked_by, uint32_t offset, const co_advice *advice,
                            const char *format, va_list arguments) {
    if (!is_kept(faults, blocked_by, offset)) return HD_OK;
    char message[MESSAGE_MAX];
    int size = vsnprintf(message, sizeof message, format, arguments);
    HD_CHECK(size >= 0 && (size_t)size < sizeof message);
    co_refusal refusal = {.blocked_by = blocked_by};
    HD_TRY(hd_arena_dup(faults->arena, (hd_str){message, (size_t)size}, &refusal.detail));
    if (advice) {
        refusal.hint = advice->hint;
        refusal.allowed_key = advice->allowed_key;
        refusal.allowed = advice->allowed;
    }
    co_position(faults->text, offset, &refusal.line, &refusal.column);
    *faults->refusal = refusal;
    faults->offset = offset;
    return HD_OK;
}

hd_status co_fault(co_faults *faults, co_blocked_by blocked_by, uint32_t offset, const co_advice *advice, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    hd_status status = keep_fault(faults, blocked_by, offset, advice, format, arguments);
    va_end(arguments);
    return status;
}

hd_status co_refuse(co_faults *faults, co_blocked_by blocked_by, uint32_t offset, const co_advice *advice, const char *format,
                    ...) {
    va_list arguments;
    va_start(arguments, format);
    hd_status status = keep_fault(faults, blocked_by, offset, advice, format, arguments);
    va_end(arguments);
    return status == HD_OK ? co_faults_status(faults) : status;
}

hd_status co_faults_status(const co_faults *faults) {
    switch (faults->refusal->blocked_by) {
    case CO_BLOCKED_SYNTAX: return HD_SYNTAX;
    case CO_BLOCKED_GRAMMAR: return HD_GRAMMAR;
    case CO_BLOCKED_PARAMS: return HD_PARAMS;
    }
    return HD_OK;
}

/* Longer words may be further off: one slip in three letters is a different word, two in eight are a slip of the fingers. */
static uint32_t slips_max(hd_str word) {
    return word.size <= 2 ? 0 : word.size <= 4 ? 1 : 2;
}

const char *co_nearest(hd_str word, const char *const *words) {
    const char *nearest = NULL;
    uint32_t distance_best = slips_max(word) + 1;
    for (size_t i = 0; words[i]; i++) {
        hd_str candidate = hd_str_of(words[i]);
        if (hd_str_is_equal_nocase(word, candidate)) return words[i];
        uint32_t distance = hd_text_distance(word, candidate, slips_max(word));
        if (distance < distance_best) {
            distance_best = distance;
            nearest = words[i];
        }
    }
    return nearest;
}

hd_status co_advise(co_faults *faults, hd_str word, const char *allowed_key, const char *const *allowed, hd_str fallback,
                    co_advice *advice_out) {
    const char *nearest = co_nearest(word, allowed);
    *advice_out = (co_advice){.hint = fallback, .allowed_key = allowed_key, .allowed = allowed};
    if (!nearest) return HD_OK;
    return hd_arena_printf(faults->arena, &advice_out->hint, "Did you mean %s?", nearest);
}

hd_str co_excerpt(hd_str text) {
    return hd_text_prefix(text, EXCERPT_MAX);
}

hd_status co_describe(hd_arena *arena, const hd_value *value, hd_str *text_out) {
    switch (value->type) {
    case HD_TYPE_BOOL: *text_out = value->boolean ? HD_STR("true") : HD_STR("false"); return HD_OK;
    case HD_TYPE_INT: return hd_arena_printf(arena, text_out, "the integer %" PRId64, value->integer);
    case HD_TYPE_FLOAT: return hd_arena_printf(arena, text_out, "the float %.9g", value->number);
    case HD_TYPE_STRING:
        return hd_arena_printf(arena, text_out, "the string '" HD_STR_FMT "'", HD_STR_ARG(co_excerpt(value->text)));
    case HD_TYPE_LIST: return hd_arena_printf(arena, text_out, "a list of %" PRIu32, value->list.count);
    case HD_TYPE_NULL: *text_out = HD_STR("null"); return HD_OK;
    default: *text_out = HD_STR("of another type"); return HD_OK;
    }
}
