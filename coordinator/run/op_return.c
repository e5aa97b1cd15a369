/* RETURN: fetches what the returned rows show of their nodes, for these rows alone and in one trip for all events, one for entities, one for
 * tags. A row whose event could not be looked up is left out. */
#include "coordinator/plan/needs.h"
#include "coordinator/run/op.h"

enum { FACETS_SHOWN = HD_FACET_ID | HD_FACET_SUMMARY | HD_FACET_TIME | HD_FACET_ORDER }; /* of an event that comes back */

/* Nodes to look up, of one label. */
typedef struct wanted_nodes {
    uint32_t *handles;
    uint32_t count, capacity, facets;
} wanted_nodes;

typedef struct return_state {
    uint32_t *facets; /* by variable: what its nodes have to show */
    wanted_nodes wanted[HD_LABEL_END];
} return_state;

static hd_status open_return(co_op *op) {
    const co_query *query = op->run->query;
    return_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    co_needs needs;
    HD_TRY(co_needs_init(&needs, op->run->arena, query));
    for (uint32_t i = 0; i < query->item_count; i++) {
        const hd_expr *expr = query->items[i].expr;
        HD_TRY(co_needs_add(&needs, query->items[i].expr));
        if (expr->kind != HD_EXPR_VAR || query->vars[expr->index].is_relation) continue;
        needs.facets[expr->index] |= query->vars[expr->index].label == HD_LABEL_EVENT ? FACETS_SHOWN : HD_FACET_TYPE;
    }
    state->facets = needs.facets;
    op->state = state;
    return HD_OK;
}

static hd_status want(co_op *op, hd_label label, uint32_t handle, uint32_t facets) {
    wanted_nodes *wanted = &((return_state *)op->state)->wanted[label];
    if (label == HD_LABEL_TAG) facets &= ~(uint32_t)HD_FACET_TYPE; /* tags have none */
    if (facets == 0) return HD_OK;
    HD_TRY(CO_GROW(op->run->arena, wanted->handles, wanted->capacity, wanted->count));
    wanted->handles[wanted->count++] = handle;
    wanted->facets |= facets;
    return HD_OK;
}

/* Nodes inside of values: collect(b), min(b). */
static hd_status want_value(co_op *op, const hd_value *value) {
    if (value->type == HD_TYPE_NODE)
        return want(op, value->node.label, value->node.handle, value->node.label == HD_LABEL_EVENT ? FACETS_SHOWN : HD_FACET_TYPE);
    for (uint32_t i = 0; value->type == HD_TYPE_LIST && i < value->list.count; i++) HD_TRY(want_value(op, &value->list.items[i]));
    return HD_OK;
}

static hd_status want_row(co_op *op, const return_state *state, const uint32_t *row) {
    const co_query *query = op->run->query;
    for (uint32_t v = 0; v < query->var_count; v++)
        if (state->facets[v] != 0 && row[v] != CO_CELL_NONE) HD_TRY(want(op, query->vars[v].label, row[v], state->facets[v]));
    if (!query->has_aggregates) return HD_OK;
    const hd_value *aggregates = op->run->group_values + (size_t)row[query->var_count] * query->aggregate_count;
    for (uint32_t i = 0; i < query->aggregate_count; i++) HD_TRY(want_value(op, &aggregates[i]));
    return HD_OK;
}

static hd_status fetch_wanted(co_op *op, return_state *state) {
    for (hd_label label = HD_LABEL_EVENT; label < HD_LABEL_END; label++) {
        wanted_nodes *wanted = &state->wanted[label];
        if (wanted->count == 0) continue;
        if (label == HD_LABEL_EVENT)
            HD_TRY(co_run_fetch_events(op->run, op->step, wanted->handles, wanted->count, wanted->facets));
        else
            HD_TRY(co_run_fetch_names(op->run, op->step, label, wanted->handles, wanted->count, wanted->facets));
        wanted->count = wanted->facets = 0;
    }
    return HD_OK;
}

static bool is_known(const co_op *op, const return_state *state, const uint32_t *row) {
    const co_query *query = op->run->query;
    for (uint32_t v = 0; v < query->var_count; v++) {
        if (state->facets[v] == 0 || row[v] == CO_CELL_NONE || query->vars[v].label != HD_LABEL_EVENT) continue;
        if (state->facets[v] & ~co_nodes_event(&op->run->nodes, row[v])->known) return false;
    }
    return true;
}

static hd_status next_return(co_op *op) {
    return_state *state = op->state;
    HD_TRY(co_op_next(op->input));
    const co_rows *rows = &op->input->out;
    for (uint32_t i = 0; i < rows->count; i++) HD_TRY(want_row(op, state, co_rows_get(rows, i)));
    HD_TRY(fetch_wanted(op, state));
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t *added;
        if (is_known(op, state, co_rows_get(rows, i))) HD_TRY(co_rows_append(&op->out, co_rows_get(rows, i), &added));
    }
    op->is_end = op->input->is_end;
    return HD_OK;
}

const co_op_table co_op_return_table = {open_return, next_return, NULL};
