/* The expression environment over rows: what variables, properties, cos() and aggregates are for the current row. A value that is
 * needed and could not be had (a partition that did not answer) reads as null and marks the run, so that no condition comes true
 * or false by it. */
#include <math.h>

#include "coordinator/run/adjacency.h"
#include "coordinator/run/cosines.h"
#include "coordinator/run/run.h"

typedef struct row_env {
    co_run *run;
    const uint32_t *row;
} row_env;

static hd_value unknown(co_run *run) {
    run->is_unknown_met = true;
    return HD_VALUE_NULL;
}

static hd_value text_or_null(hd_str text) {
    return text.data != NULL ? hd_value_text(text) : HD_VALUE_NULL;
}

static hd_value event_property(co_run *run, uint32_t handle, hd_property property) {
    const co_event *event = co_nodes_event(&run->nodes, handle);
    switch (property) {
    case HD_PROP_ID: return event->known & HD_FACET_ID ? hd_value_text(event->id) : unknown(run);
    case HD_PROP_SCORE: return event->has_score ? hd_value_float(event->facts->score) : HD_VALUE_NULL;
    case HD_PROP_TIMESTAMP: return event->known & HD_FACET_TIME ? hd_value_instant(event->facts->timestamp_us) : unknown(run);
    case HD_PROP_ORDER_INDEX:
        if (!(event->known & HD_FACET_ORDER)) return unknown(run);
        return event->flags & HD_EVENT_HAS_ORDER ? hd_value_int(event->facts->order_index) : HD_VALUE_NULL;
    case HD_PROP_THREAD: return event->known & HD_FACET_THREAD ? text_or_null(event->facts->thread) : unknown(run);
    case HD_PROP_SUMMARY: return event->known & HD_FACET_SUMMARY ? text_or_null(event->facts->summary) : unknown(run);
    default: HD_CHECK(!"a property that events do not have"); return HD_VALUE_NULL;
    }
}

static hd_status name_property(co_run *run, hd_label label, uint32_t handle, hd_property property, hd_value *value_out) {
    const co_name *name = co_nodes_name(&run->nodes, label, handle);
    switch (property) {
    case HD_PROP_ID:
        HD_TRY(co_nodes_value(&run->nodes, label, handle, value_out));
        *value_out = hd_value_text(value_out->node.id);
        return HD_OK;
    case HD_PROP_NAME: *value_out = text_or_null(name->name); return HD_OK;
    case HD_PROP_TYPE: *value_out = name->known & HD_FACET_TYPE ? text_or_null(name->type) : unknown(run); return HD_OK;
    case HD_PROP_EVENT_COUNT:
        *value_out = name->known & CO_FACET_EVENT_COUNT ? hd_value_int((int64_t)name->event_count) : unknown(run);
        return HD_OK;
    default: HD_CHECK(!"a property that names do not have"); return HD_INTERNAL;
    }
}

static const hd_str via_keys[] = {{"id", 2}, {"name", 4}};

/* [{id, name}, …] in the scratch arena. */
static hd_status make_via(co_run *run, const co_adjacency *edges, uint32_t edge, hd_value *value_out) {
    uint32_t count = edges->via_count[edge];
    hd_value *items, *fields;
    HD_ALLOC(items, run->scratch, count);
    HD_ALLOC(fields, run->scratch, count * 2);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t entity = edges->via[edges->via_first[edge] + i];
        hd_value *field = &fields[i * 2];
        HD_TRY(name_property(run, HD_LABEL_ENTITY, entity, HD_PROP_ID, &field[0]));
        HD_TRY(name_property(run, HD_LABEL_ENTITY, entity, HD_PROP_NAME, &field[1]));
        items[i] = (hd_value){.type = HD_TYPE_MAP, .map = {via_keys, field, 2}};
    }
    *value_out = (hd_value){.type = HD_TYPE_LIST, .list = {items, count}};
    return HD_OK;
}

static hd_value cosine_value(co_run *run, uint32_t record) {
    return isnan(run->cosines[record]) ? HD_VALUE_NULL : hd_value_float(run->cosines[record]);
}

static hd_status relation_property(co_run *run, const co_var *var, uint32_t cell, hd_property property, hd_value *value_out) {
    const co_adjacency *edges = run->rel_edges[var->rel];
    uint32_t hops = 1;
    if (run->query->rels[var->rel].is_variable_length) {
        hops = co_walk_hops(cell);
        cell = co_walk_edge(cell);
    }
    *value_out = HD_VALUE_NULL;
    switch (property) {
    case HD_PROP_COS:
        *value_out = var->relation == HD_REL_SIMILAR ? hd_value_float(edges->cos[cell]) : cosine_value(run, cell);
        break;
    case HD_PROP_COUNT: *value_out = hd_value_int(edges->via_count[cell]); break;
    case HD_PROP_EVENT_COUNT:
        *value_out = edges->counts[cell] & CO_COUNT_LEAST ? unknown(run) : hd_value_int((int64_t)edges->counts[cell]);
        break;
    case HD_PROP_WEIGHT: *value_out = isnan(edges->weight[cell]) ? unknown(run) : hd_value_float(edges->weight[cell]); break;
    case HD_PROP_VIA: return make_via(run, edges, cell, value_out);
    case HD_PROP_HOPS: *value_out = hd_value_int(hops); break;
    case HD_PROP_SOURCE:
        *value_out = hd_value_text(edges->kinds[cell] == HD_SOURCE_THREAD ? HD_STR("thread") : HD_STR("explicit"));
        break;
    case HD_PROP_KIND:
        *value_out = hd_value_text(edges->kinds[cell] == HD_KIND_CONTAINS ? HD_STR("contains") : HD_STR("refers"));
        break;
    default: HD_CHECK(!"a property that the relation does not have");
    }
    return HD_OK;
}

/* The properties that a relation comes back with, in the order of the language's table. */
static const hd_property *properties_of(hd_relation relation) {
    static const hd_property shares[] = {HD_PROP_COUNT, HD_PROP_WEIGHT, HD_PROP_VIA, HD_PROP_HOPS, HD_PROP_NONE};
    static const hd_property cosine[] = {HD_PROP_COS, HD_PROP_NONE};
    static const hd_property next[] = {HD_PROP_SOURCE, HD_PROP_HOPS, HD_PROP_NONE};
    static const hd_property member[] = {HD_PROP_KIND, HD_PROP_NONE};
    static const hd_property connected[] = {HD_PROP_EVENT_COUNT, HD_PROP_NONE};
    static const hd_property none[] = {HD_PROP_NONE};
    switch (relation) {
    case HD_REL_SHARES: return shares;
    case HD_REL_SIMILAR:
    case HD_REL_FAR: return cosine;
    case HD_REL_NEXT: return next;
    case HD_REL_MEMBER_OF: return member;
    case HD_REL_CONNECTED: return connected;
    default: return none;
    }
}

static hd_status make_relation(co_run *run, const co_var *var, uint32_t cell, hd_value *value_out) {
    const hd_property *properties = properties_of(var->relation);
    uint32_t count = 0;
    while (properties[count] != HD_PROP_NONE) count++;
    hd_value *fields;
    hd_str *keys;
    HD_ALLOC(fields, run->scratch, count);
    HD_ALLOC(keys, run->scratch, count);
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = hd_str_of(hd_property_name(properties[i]));
        HD_TRY(relation_property(run, var, cell, properties[i], &fields[i]));
    }
    *value_out = (hd_value){.type = HD_TYPE_MAP, .map = {keys, fields, count}};
    return HD_OK;
}

static hd_status get_leaf(void *self, const hd_expr *leaf, hd_value *value_out) {
    const row_env *env = self;
    co_run *run = env->run;
    if (leaf->kind == HD_EXPR_AGGREGATE) {
        uint32_t group = env->row[run->query->var_count];
        HD_CHECK(group != CO_CELL_NONE && run->group_values != NULL);
        *value_out = run->group_values[(size_t)group * run->query->aggregate_count + leaf->index];
        return HD_OK;
    }
    const co_var *var = &run->query->vars[leaf->index];
    uint32_t cell = env->row[leaf->index];
    if (cell == CO_CELL_NONE) { /* the one group of no rows */
        *value_out = HD_VALUE_NULL;
        return HD_OK;
    }
    if (leaf->kind == HD_EXPR_COS) {
        uint32_t record = co_cosines_find(run, cell, env->row[leaf->index2]);
        *value_out = record == HD_MAP_NONE ? unknown(run) : cosine_value(run, record);
        return HD_OK;
    }
    if (leaf->kind == HD_EXPR_VAR) {
        if (!var->is_relation && var->label == HD_LABEL_EVENT && !(co_nodes_event(&run->nodes, cell)->known & HD_FACET_ID)) {
            *value_out = unknown(run);
            return HD_OK;
        }
        return var->is_relation ? make_relation(run, var, cell, value_out)
                                : co_nodes_value(&run->nodes, var->label, cell, value_out);
    }
    HD_CHECK(leaf->kind == HD_EXPR_PROPERTY);
    if (var->is_relation) return relation_property(run, var, cell, leaf->property, value_out);
    if (var->label != HD_LABEL_EVENT) return name_property(run, var->label, cell, leaf->property, value_out);
    *value_out = event_property(run, cell, leaf->property);
    return HD_OK;
}

hd_status co_run_eval(co_run *run, const uint32_t *row, const hd_expr *expr, hd_value *value_out) {
    row_env self = {run, row};
    hd_expr_env env = {.self = &self, .get = get_leaf, .params = run->resolved->params, .arena = run->scratch};
    return hd_expr_eval(expr, &env, value_out);
}

hd_status co_run_is_true(co_run *run, const uint32_t *row, const hd_expr *expr, bool *is_true_out) {
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    row_env self = {run, row};
    hd_expr_env env = {.self = &self, .get = get_leaf, .params = run->resolved->params, .arena = run->scratch};
    run->is_unknown_met = false;
    hd_status status = hd_expr_is_true(expr, &env, is_true_out);
    hd_arena_rollback(run->scratch, mark);
    HD_TRY(status);
    if (!run->is_unknown_met) return HD_OK;
    *is_true_out = false;
    if (run->truncations.count > 0) return HD_OK; /* what could not be had was reported */
    return hd_error_set(run->error, HD_INTERNAL, "filter", "a value was needed that no step had fetched");
}
