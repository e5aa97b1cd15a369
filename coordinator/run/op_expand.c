/* EXPAND: one hop along PARTICIPATED_IN, MEMBER_OF or NEXT. With both ends bound it keeps the rows whose ends are joined. */
#include "coordinator/run/expand.h"

static hd_status fetch_edges(co_op *op, const uint32_t *frontier, uint32_t count) {
    return co_adjacency_fetch(op->run, op->step, ((co_expand *)op->state)->edges, frontier, count);
}

static hd_status open_expand(co_op *op) {
    co_expand *expand;
    HD_ALLOC(expand, op->run->arena, 1);
    op->state = expand;
    expand->fetch = fetch_edges;
    const co_resolved_rel *wanted = &op->run->resolved->rels[op->step->rel];
    bool is_from_event = op->run->query->vars[op->step->from].label == HD_LABEL_EVENT;
    co_edge_sort sort = CO_EDGES_ENTITIES;
    uint32_t detail = 0;
    switch (op->run->query->rels[op->step->rel].relation) {
    case HD_REL_PARTICIPATED_IN: sort = is_from_event ? CO_EDGES_ENTITIES : CO_EDGES_ENTITY_EVENTS; break;
    case HD_REL_MEMBER_OF:
        sort = is_from_event ? CO_EDGES_TAGS : CO_EDGES_TAG_EVENTS;
        detail = wanted->kinds;
        break;
    case HD_REL_NEXT:
        sort = op->step->is_forward ? CO_EDGES_NEXT : CO_EDGES_PREVIOUS;
        detail = wanted->sources;
        break;
    default: HD_CHECK(!"a relation that EXPAND does not walk");
    }
    HD_TRY(co_adjacency_get(op->run, sort, detail, op->step->facets, &expand->edges));
    return co_expand_open(op, expand);
}

const co_op_table co_op_expand_table = {open_expand, co_expand_next, NULL};
