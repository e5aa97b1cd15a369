/* What had to wait for parameters: are they there, of the right type, in range; then START and the relations' parameters as plain
 * numbers and strings, with their defaults.
 *
 * Literals were checked when the query was bound, so that every fault found here is a parameter's. */
#include <inttypes.h>

#include "common/clock.h"
#include "common/map.h"
#include "common/text.h"
#include "coordinator/language/language_private.h"

enum { K_DEFAULT = 5, K_MAX_CLOSEST = 20, K_MAX_NEWEST = 200, SIMILAR_K_DEFAULT = 10, SIMILAR_K_MAX = 50 };

typedef struct resolver {
    co_faults faults;
    co_checker checker;
    const co_query *query;
    const co_params *given;
    co_resolved *out;
    uint32_t note_capacity;
} resolver;

/* ---- parameters ---- */

static hd_status add_note(resolver *r, hd_str note) {
    HD_TRY(co_push(r->faults.arena, (void *)&r->out->notes, &r->out->note_count, &r->note_capacity, sizeof *r->out->notes));
    r->out->notes[r->out->note_count - 1] = note;
    return HD_OK;
}

static hd_status report_fault(resolver *r, uint32_t param, hd_str fault) {
    co_advice advice = {0};
    HD_TRY(hd_arena_printf(r->faults.arena, &advice.hint,
                           "Give a string, a number, true, false, null or a list of these, nested at most %d deep.",
                           CO_NESTING_MAX));
    return co_fault(&r->faults, CO_BLOCKED_PARAMS, r->query->param_offsets[param], &advice,
                    "the parameter $" HD_STR_FMT " cannot be used: " HD_STR_FMT, HD_STR_ARG(co_excerpt(r->query->params[param])),
                    HD_STR_ARG(fault));
}

/* By HD_EXPR_PARAM's index what was given; reports what was not, and notes what is not used. */
static hd_status match_params(resolver *r) {
    const co_query *query = r->query;
    hd_value *values;
    bool *is_missing;
    HD_ALLOC(values, r->faults.arena, query->param_count);
    HD_ALLOC(is_missing, r->faults.arena, query->param_count);
    hd_map names;
    uint32_t index;
    bool is_new;
    hd_map_init(&names, r->faults.arena);
    for (uint32_t i = 0; i < query->param_count; i++) {
        is_missing[i] = true;
        HD_TRY(hd_map_put(&names, query->params[i], i, &index, &is_new));
    }
    for (uint32_t i = 0; i < r->given->count; i++) {
        index = hd_map_get(&names, r->given->names[i]);
        if (index == HD_MAP_NONE) {
            hd_str note;
            HD_TRY(hd_arena_printf(r->faults.arena, &note, "the parameter $" HD_STR_FMT " is not used by the query",
                                   HD_STR_ARG(co_excerpt(r->given->names[i]))));
            HD_TRY(add_note(r, note));
            continue;
        }
        if (r->given->faults && r->given->faults[i].data) { /* counts as missing from here on; of two faults the first told stays */
            HD_TRY(report_fault(r, index, r->given->faults[i]));
            continue;
        }
        values[index] = r->given->values[i];
        is_missing[index] = false;
    }
    for (uint32_t i = 0; i < query->param_count; i++) {
        if (!is_missing[i]) continue;
        co_advice advice = {0};
        hd_str name = co_excerpt(query->params[i]);
        HD_TRY(hd_arena_printf(r->faults.arena, &advice.hint, "Give it a value in params: {\"" HD_STR_FMT "\": …}.",
                               HD_STR_ARG(name)));
        HD_TRY(co_fault(&r->faults, CO_BLOCKED_PARAMS, query->param_offsets[i], &advice, "the parameter $" HD_STR_FMT " is missing",
                        HD_STR_ARG(name)));
    }
    r->checker.params = r->out->params = values;
    r->checker.is_missing = is_missing;
    return HD_OK;
}

/* Lists have at most CO_LIST_MAX items, the one of `vector` aside. */
static hd_status check_list_sizes(resolver *r) {
    const co_query *query = r->query;
    const hd_expr *vector = query->start.vector;
    for (uint32_t i = 0; i < query->param_count; i++) {
        const hd_value *value = &r->checker.params[i];
        bool is_vector = vector && vector->kind == HD_EXPR_PARAM && vector->index == i;
        if (value->type != HD_TYPE_LIST || value->list.count <= CO_LIST_MAX || is_vector) continue;
        HD_TRY(co_fault(&r->faults, CO_BLOCKED_PARAMS, query->param_offsets[i], CO_HINT("Ask with several queries."),
                        "the parameter $" HD_STR_FMT " is a list of %" PRIu32 ", over the limit of %d items",
                        HD_STR_ARG(co_excerpt(query->params[i])), value->list.count, CO_LIST_MAX));
    }
    return HD_OK;
}

/* ---- what the parameters are used for ---- */

static hd_status check_start(resolver *r) {
    for (uint32_t i = 0; i < co_start_rule_count; i++) {
        const hd_expr *const *field = (const void *)((const char *)&r->query->start + co_start_rules[i].field);
        if (*field) HD_TRY(co_rule_check(&r->checker, &co_start_rules[i], "events(…)", *field));
    }
    return HD_OK;
}

static hd_status check_rels(resolver *r) {
    for (uint32_t i = 0; i < r->query->rel_count; i++) {
        const co_rel *rel = &r->query->rels[i];
        const co_relation_rule *rule = co_relation_rule_of(rel->relation);
        for (uint32_t k = 0; k < rule->param_count; k++) {
            const hd_expr *const *field = (const void *)((const char *)rel + rule->params[k].field);
            if (*field) HD_TRY(co_rule_check(&r->checker, &rule->params[k], hd_relation_name(rel->relation), *field));
        }
    }
    return HD_OK;
}

static hd_status check_expressions(resolver *r) {
    const co_query *query = r->query;
    co_type type;
    for (uint32_t i = 0; i < query->where_count; i++) HD_TRY(co_type_check_condition(&r->checker, query->where[i]));
    for (uint32_t i = 0; i < query->item_count; i++) HD_TRY(co_type_check(&r->checker, query->items[i].expr, &type));
    for (uint32_t i = 0; i < query->order_count; i++) {
        HD_TRY(co_type_check_order(&r->checker, query->orders[i].expr, query->orders[i].expr->offset));
    }
    return query->limit ? co_rule_check(&r->checker, &co_limit_rule, NULL, query->limit) : HD_OK;
}

/* ---- values ---- */

static const hd_value *value_of(const resolver *r, const hd_expr *expr) {
    const hd_value *value = co_operand_of(&r->checker, expr).value;
    HD_CHECK(value != NULL);
    return value;
}

static double number_of(const resolver *r, const hd_expr *expr, double otherwise) {
    if (!expr) return otherwise;
    const hd_value *value = value_of(r, expr);
    return value->type == HD_TYPE_INT ? (double)value->integer : value->number;
}

/* A whole number of at least 1, at most `max`. */
static uint32_t count_of(const resolver *r, const hd_expr *expr, uint32_t otherwise, uint32_t max) {
    if (!expr) return otherwise;
    int64_t number = value_of(r, expr)->integer;
    return number > (int64_t)max ? max : (uint32_t)number;
}

static bool is_word(const resolver *r, const hd_expr *expr, const char *word) {
    return expr && hd_str_is_equal(value_of(r, expr)->text, hd_str_of(word));
}

static hd_status resolve_rels(resolver *r) {
    HD_ALLOC(r->out->rels, r->faults.arena, r->query->rel_count);
    for (uint32_t i = 0; i < r->query->rel_count; i++) {
        const co_rel *rel = &r->query->rels[i];
        co_resolved_rel *out = &r->out->rels[i];
        *out = (co_resolved_rel){.min = 1,
                                 .min_w = number_of(r, rel->min_w, 0),
                                 .far_max = number_of(r, rel->max, 0.5),
                                 .sources = HD_SOURCE_THREAD | HD_SOURCE_EXPLICIT,
                                 .kinds = HD_KIND_CONTAINS | HD_KIND_REFERS};
        if (rel->relation == HD_REL_SHARES || rel->relation == HD_REL_CONNECTED) out->min = count_of(r, rel->min, 1, UINT32_MAX);
        if (rel->relation == HD_REL_SIMILAR) out->similar_k = count_of(r, rel->k, SIMILAR_K_DEFAULT, SIMILAR_K_MAX);
        if (rel->relation == HD_REL_SIMILAR) out->similar_min = number_of(r, rel->min, -1);
        if (rel->source) out->sources = is_word(r, rel->source, "thread") ? HD_SOURCE_THREAD : HD_SOURCE_EXPLICIT;
        if (rel->kind) out->kinds = is_word(r, rel->kind, "contains") ? HD_KIND_CONTAINS : HD_KIND_REFERS;
    }
    return HD_OK;
}

/* The strings of one value or list, doubles once. Names are trimmed and put in NFC; ids are taken as they are. */
static hd_status resolve_strings(resolver *r, const hd_expr *expr, bool is_name, hd_str **strings_out, uint32_t *count_out) {
    hd_arena *arena = r->faults.arena;
    uint32_t count, index;
    bool is_known, is_new;
    bool is_list = co_operand_is_list(&r->checker, expr, &count, &is_known);
    if (!is_list) count = 1;
    hd_map seen;
    hd_map_init(&seen, arena);
    HD_ALLOC(*strings_out, arena, count);
    for (uint32_t i = 0; i < count; i++) {
        co_operand operand = is_list ? co_operand_item(&r->checker, expr, i) : co_operand_of(&r->checker, expr);
        hd_str text = operand.value->text;
        if (is_name) {
            hd_status status = hd_text_name(arena, text, &text);
            if (status == HD_ARGUMENT) {
                return co_refuse(&r->faults, CO_BLOCKED_PARAMS, operand.expr->offset, CO_HINT("Send names in UTF-8."),
                                 "a name is not valid UTF-8");
            }
            HD_TRY(status);
        }
        HD_TRY(hd_map_put(&seen, text, i, &index, &is_new));
        if (is_new) (*strings_out)[(*count_out)++] = text;
    }
    return HD_OK;
}

static hd_status resolve_vector(resolver *r, const hd_expr *expr) {
    uint32_t count;
    bool is_known;
    float *vector;
    HD_CHECK(co_operand_is_list(&r->checker, expr, &count, &is_known));
    HD_ALLOC(vector, r->faults.arena, count);
    for (uint32_t i = 0; i < count; i++) {
        const hd_value *value = co_operand_item(&r->checker, expr, i).value;
        vector[i] = value->type == HD_TYPE_INT ? (float)value->integer : (float)value->number;
    }
    r->out->start_vector = vector;
    r->out->start_vector_size = count;
    return HD_OK;
}

static co_start_kind start_kind_of(const co_start *start) {
    bool has_entity = start->entity || start->entity_all, has_tag = start->tag || start->tag_all;
    bool is_narrowed = has_entity || has_tag || start->since || start->until;
    if (start->ids) return CO_START_IDS;
    if (start->text || start->vector) return is_narrowed ? CO_START_SCOPED : start->text ? CO_START_TEXT : CO_START_VECTOR;
    if (has_entity) return has_tag ? CO_START_ENTITY_TAG : CO_START_ENTITY;
    return has_tag ? CO_START_TAG : CO_START_NEWEST;
}

static hd_status resolve_k(resolver *r) {
    const co_start *start = &r->query->start;
    uint32_t max = start->text || start->vector ? K_MAX_CLOSEST : K_MAX_NEWEST;
    if (start->ids) return HD_OK;
    r->out->k = count_of(r, start->k, K_DEFAULT, max);
    if (!start->k || value_of(r, start->k)->integer <= (int64_t)max) return HD_OK;
    hd_str note;
    HD_TRY(hd_arena_printf(r->faults.arena, &note, "k %" PRId64 " is above the maximum of this start; %" PRIu32 " is used",
                           value_of(r, start->k)->integer, max));
    return add_note(r, note);
}

static hd_status resolve_start(resolver *r) {
    const co_start *start = &r->query->start;
    co_resolved *out = r->out;
    const hd_expr *entity = start->entity ? start->entity : start->entity_all, *tag = start->tag ? start->tag : start->tag_all;
    out->start_kind = start_kind_of(start);
    HD_TRY(resolve_k(r));
    if (start->text) out->start_text = value_of(r, start->text)->text;
    if (start->vector) HD_TRY(resolve_vector(r, start->vector));
    if (start->ids) HD_TRY(resolve_strings(r, start->ids, false, &out->ids, &out->id_count));
    if (entity) HD_TRY(resolve_strings(r, entity, true, &out->entities, &out->entity_count));
    if (tag) HD_TRY(resolve_strings(r, tag, true, &out->tags, &out->tag_count));
    out->is_entity_all = start->entity_all != NULL;
    out->is_tag_all = start->tag_all != NULL;
    out->has_since = start->since != NULL;
    out->has_until = start->until != NULL;
    if (out->has_since) HD_CHECK(hd_instant_parse(value_of(r, start->since)->text, &out->since_us));
    if (out->has_until) HD_CHECK(hd_instant_parse(value_of(r, start->until)->text, &out->until_us));
    out->is_exact = start->exact && value_of(r, start->exact)->boolean;
    return HD_OK;
}

static hd_status check_size(resolver *r) {
    if (r->given->json_bytes <= CO_PARAMS_BYTES_MAX) return HD_OK;
    uint32_t offset = r->query->param_count ? r->query->param_offsets[0] : 0;
    return co_refuse(&r->faults, CO_BLOCKED_PARAMS, offset, CO_HINT("Send smaller parameters, with several queries."),
                     "the parameters are %zu bytes of JSON, over the limit of %d", r->given->json_bytes, CO_PARAMS_BYTES_MAX);
}

hd_status co_language_resolve(hd_arena *arena, const co_query *query, const co_params *params, co_resolved *resolved_out,
                              co_refusal *refusal_out) {
    *resolved_out = (co_resolved){0};
    resolver r = {.query = query, .given = params, .out = resolved_out};
    co_faults_init(&r.faults, arena, query->text, refusal_out);
    r.checker = (co_checker){.faults = &r.faults, .query = query};
    HD_TRY(check_size(&r));
    HD_TRY(match_params(&r));
    HD_TRY(check_list_sizes(&r));
    HD_TRY(check_start(&r));
    HD_TRY(check_rels(&r));
    HD_TRY(check_expressions(&r));
    HD_TRY(co_faults_status(&r.faults));
    resolved_out->limit = count_of(&r, query->limit, CO_LIMIT_DEFAULT, CO_LIMIT_MAX);
    resolved_out->is_limit_default = query->limit == NULL;
    HD_TRY(resolve_rels(&r));
    return resolve_start(&r);
}
