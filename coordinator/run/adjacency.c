/* See adjacency.h: making, filling and searching adjacencies. One fetch function a sort of edge. */
#include "coordinator/run/adjacency.h"

#include "coordinator/run/shares.h"
#include "coordinator/run/similar.h"

hd_status co_adjacency_new(co_run *run, co_edge_sort sort, co_adjacency **edges_out) {
    co_adjacency *edges;
    HD_ALLOC(edges, run->arena, 1);
    edges->sort = sort;
    edges->arena = run->arena;
    hd_map64_init(&edges->first_edge[0], run->arena);
    hd_map64_init(&edges->first_edge[1], run->arena);
    *edges_out = edges;
    return HD_OK;
}

hd_status co_adjacency_get(co_run *run, co_edge_sort sort, uint32_t detail, uint32_t facets, co_adjacency **edges_out) {
    for (co_adjacency *edges = run->adjacencies; edges != NULL; edges = edges->next) {
        if (edges->sort != sort || edges->detail != detail) continue;
        edges->facets |= facets;
        *edges_out = edges;
        return HD_OK;
    }
    co_adjacency *edges;
    HD_TRY(co_adjacency_new(run, sort, &edges));
    edges->detail = detail;
    edges->facets = facets;
    edges->next = run->adjacencies;
    run->adjacencies = edges;
    *edges_out = edges;
    return HD_OK;
}

hd_status co_adjacency_of_step(co_run *run, const co_plan_step *step, co_adjacency **edges_out) {
    const co_resolved_rel *wanted = &run->resolved->rels[step->rel];
    bool is_from_event = run->query->vars[step->from].label == HD_LABEL_EVENT;
    co_edge_sort sort = CO_EDGES_WALK;
    uint32_t detail = 0;
    switch (run->query->rels[step->rel].relation) {
    case HD_REL_PARTICIPATED_IN: sort = is_from_event ? CO_EDGES_ENTITIES : CO_EDGES_ENTITY_EVENTS; break;
    case HD_REL_MEMBER_OF:
        sort = is_from_event ? CO_EDGES_TAGS : CO_EDGES_TAG_EVENTS;
        detail = wanted->kinds;
        break;
    case HD_REL_NEXT:
        sort = step->is_forward ? CO_EDGES_NEXT : CO_EDGES_PREVIOUS;
        detail = wanted->sources;
        break;
    case HD_REL_CONNECTED: sort = CO_EDGES_CONNECTED; break; /* whatever `min`: counts are only known once all have told theirs */
    case HD_REL_SHARES:
        sort = CO_EDGES_SHARES;
        detail = wanted->min;
        break;
    case HD_REL_SIMILAR:
        sort = CO_EDGES_SIMILAR;
        detail = wanted->similar_k;
        break;
    default: break;
    }
    HD_CHECK(sort != CO_EDGES_WALK);
    return co_adjacency_get(run, sort, detail, step->facets, edges_out);
}

hd_status co_adjacency_begin(co_adjacency *edges, uint32_t handle, uint8_t state) {
    HD_TRY(CO_GROW(edges->arena, edges->state, edges->state_capacity, handle));
    HD_TRY(CO_GROW(edges->arena, edges->first, edges->first_capacity, handle));
    HD_TRY(CO_GROW(edges->arena, edges->count, edges->count_capacity, handle));
    for (; edges->node_end <= handle; edges->node_end++) edges->state[edges->node_end] = CO_NODE_UNKNOWN;
    edges->state[handle] = state;
    edges->first[handle] = edges->edge_count;
    edges->count[handle] = 0;
    return HD_OK;
}

static bool has_kinds(const co_adjacency *edges) {
    return edges->sort == CO_EDGES_TAGS || edges->sort == CO_EDGES_TAG_EVENTS || edges->sort == CO_EDGES_NEXT ||
           edges->sort == CO_EDGES_PREVIOUS;
}

hd_status co_adjacency_add(co_adjacency *edges, uint32_t handle, uint32_t to, uint8_t kind) {
    HD_TRY(CO_GROW(edges->arena, edges->to, edges->to_capacity, edges->edge_count));
    edges->to[edges->edge_count] = to;
    if (has_kinds(edges)) {
        HD_TRY(CO_GROW(edges->arena, edges->kinds, edges->kinds_capacity, edges->edge_count));
        edges->kinds[edges->edge_count] = kind;
    }
    edges->edge_count++;
    edges->count[handle]++;
    return HD_OK;
}

void co_adjacency_clear(co_adjacency *edges) {
    HD_CHECK(edges->sort == CO_EDGES_WALK);
    for (uint32_t i = 0; i < edges->node_end; i++) edges->state[i] = CO_NODE_UNKNOWN;
    edges->edge_count = 0;
}

enum { LIST_LONG = 32 }; /* longer lists are found in by a map */

static uint64_t pair_key(uint32_t from, uint32_t to) {
    return (uint64_t)from << 32 | to;
}

static hd_map64 *map_of_kind(co_adjacency *edges, uint32_t edge) {
    return &edges->first_edge[has_kinds(edges) && edges->kinds[edge] == HD_KIND_REFERS];
}

static hd_status index_list(co_adjacency *edges, uint32_t handle) {
    HD_TRY(CO_GROW(edges->arena, edges->is_indexed, edges->indexed_capacity, handle));
    for (; edges->indexed_end <= handle; edges->indexed_end++) edges->is_indexed[edges->indexed_end] = 0;
    if (edges->is_indexed[handle]) return HD_OK;
    for (uint32_t i = edges->first[handle]; i < edges->first[handle] + edges->count[handle]; i++) {
        uint32_t value;
        bool is_new;
        HD_TRY(hd_map64_put(map_of_kind(edges, i), pair_key(handle, edges->to[i]), i, &value, &is_new));
    }
    edges->is_indexed[handle] = 1;
    return HD_OK;
}

hd_status co_adjacency_find(co_adjacency *edges, uint32_t handle, uint32_t to, uint32_t from, uint32_t *edge_out) {
    *edge_out = CO_CELL_NONE;
    if (co_adjacency_state(edges, handle) == CO_NODE_UNKNOWN) return HD_OK;
    if (edges->count[handle] > LIST_LONG && edges->sort != CO_EDGES_WALK) { /* a walk's lists are forgotten, an index would stay */
        HD_TRY(index_list(edges, handle));
        for (int i = 0; i < 2; i++) {
            uint32_t edge = hd_map64_get(&edges->first_edge[i], pair_key(handle, to));
            if (edge != HD_MAP_NONE && edge >= from) *edge_out = HD_MIN(*edge_out, edge);
        }
        return HD_OK;
    }
    uint32_t end = edges->first[handle] + edges->count[handle];
    for (uint32_t i = HD_MAX(from, edges->first[handle]); i < end && *edge_out == CO_CELL_NONE; i++)
        if (edges->to[i] == to) *edge_out = i;
    return HD_OK;
}

/* -- taking what came back ------------------------------------------------------------------------------------------------------ */

hd_status co_adjacency_claim(co_adjacency *edges, uint32_t handle, bool *is_new_out) {
    *is_new_out = co_adjacency_state(edges, handle) == CO_NODE_UNKNOWN;
    return *is_new_out ? co_adjacency_begin(edges, handle, CO_NODE_CUT) : HD_OK;
}

uint8_t co_fetched_state(const co_adjacency *edges, const co_fetched *fetched, uint32_t row) {
    if (fetched->outcome.is_complete) return CO_NODE_WHOLE;
    const hd_event_batch *events = &fetched->result.events; /* an event's own lists come whole, where its owner answered at all */
    bool is_of_owner = edges->sort == CO_EDGES_ENTITIES || edges->sort == CO_EDGES_TAGS;
    if (is_of_owner && row < events->count && (events->flags[row] & HD_EVENT_EXISTS)) return CO_NODE_WHOLE;
    return CO_NODE_CUT;
}

static hd_status take_edges(co_adjacency *edges, const co_fetched *fetched) {
    const hd_edges *from = &fetched->result.edges;
    for (uint32_t i = 0; i < fetched->count; i++) {
        uint32_t handle = fetched->handles[i];
        if (handle == CO_CELL_NONE) continue;
        HD_TRY(co_adjacency_begin(edges, handle, co_fetched_state(edges, fetched, i)));
        if (from->offsets == NULL || i >= from->from_count) continue;
        for (uint32_t k = from->offsets[i]; k < from->offsets[i + 1]; k++)
            HD_TRY(co_adjacency_add(edges, handle, fetched->to[from->to[k]], from->kinds != NULL ? from->kinds[k] : 0));
    }
    return HD_OK;
}

/* A count is exact where every partition has read all of the node's postings. Where one could not be asked it is known to be at least so
 * much; that is kept, since it may be enough for `min`. Where a cap stopped the reading, nothing of the node is: its figures would not
 * be those of the full answer. */
static hd_status take_connected(co_run *run, co_adjacency *edges, co_fetched *fetched) {
    HD_TRY(co_nodes_learn_names(&run->nodes, HD_LABEL_ENTITY, &fetched->result.names, false, &fetched->to));
    const hd_edges *from = &fetched->result.edges;
    bool is_any_missing = fetched->outcome.is_any_missing;
    for (uint32_t i = 0; i < fetched->count; i++) {
        uint32_t handle = fetched->handles[i];
        bool is_read = i < fetched->outcome.done;
        if (handle == CO_CELL_NONE) continue;
        HD_TRY(co_adjacency_begin(edges, handle, is_read && !is_any_missing ? CO_NODE_WHOLE : CO_NODE_CUT));
        if (from->offsets == NULL || i >= from->from_count || !(is_read || is_any_missing)) continue;
        for (uint32_t k = from->offsets[i]; k < from->offsets[i + 1]; k++) {
            HD_TRY(CO_GROW(edges->arena, edges->counts, edges->counts_capacity, edges->edge_count));
            edges->counts[edges->edge_count] = from->counts[k] | (is_any_missing ? CO_COUNT_LEAST : 0);
            HD_TRY(co_adjacency_add(edges, handle, fetched->to[from->to[k]], 0));
        }
    }
    return HD_OK;
}

enum { NEXT_FACETS = HD_FACET_ID | HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS };

hd_status co_adjacency_take(co_run *run, co_adjacency *edges, co_fetched *fetched) {
    hd_step_result *result = &fetched->result;
    switch (edges->sort) {
    case CO_EDGES_ENTITIES: HD_TRY(co_nodes_learn_names(&run->nodes, HD_LABEL_ENTITY, &result->names, false, &fetched->to)); break;
    case CO_EDGES_TAGS: HD_TRY(co_nodes_learn_names(&run->nodes, HD_LABEL_TAG, &result->names, false, &fetched->to)); break;
    case CO_EDGES_SHARES: return co_shares_take(run, edges, fetched);
    case CO_EDGES_CONNECTED: return take_connected(run, edges, fetched);
    case CO_EDGES_SIMILAR: return co_similar_take(run, edges, fetched);
    default: HD_TRY(co_nodes_learn_events(&run->nodes, &result->events, edges->facets | NEXT_FACETS, &fetched->to)); break;
    }
    return take_edges(edges, fetched);
}

hd_step co_adjacency_step(const co_adjacency *edges) {
    switch (edges->sort) {
    case CO_EDGES_ENTITIES: return (hd_step){.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ENTITIES};
    case CO_EDGES_TAGS:
        return (hd_step){
            .kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_TAGS, .kinds = (uint8_t)edges->detail};
    case CO_EDGES_ENTITY_EVENTS:
        return (hd_step){.kind = HD_STEP_POSTINGS, .frontier_label = HD_LABEL_ENTITY, .facets = edges->facets | HD_FACET_ID_FEW};
    case CO_EDGES_TAG_EVENTS:
        return (hd_step){.kind = HD_STEP_POSTINGS,
                         .frontier_label = HD_LABEL_TAG,
                         .facets = edges->facets | HD_FACET_ID_FEW,
                         .kinds = (uint8_t)edges->detail};
    case CO_EDGES_CONNECTED: return (hd_step){.kind = HD_STEP_CONNECTED, .frontier_label = HD_LABEL_ENTITY};
    case CO_EDGES_SHARES:
        return (hd_step){.kind = HD_STEP_SHARES,
                         .frontier_label = HD_LABEL_EVENT,
                         .facets = edges->facets | HD_FACET_ID_FEW,
                         .shares_min = edges->detail};
    case CO_EDGES_SIMILAR:
        return (hd_step){.kind = HD_STEP_SIMILAR,
                         .frontier_label = HD_LABEL_EVENT,
                         .facets = edges->facets | HD_FACET_ID,
                         .similar_k = edges->detail};
    default: /* the next hop starts from what comes back, so its places come along */
        return (hd_step){.kind = HD_STEP_NEXT,
                         .frontier_label = HD_LABEL_EVENT,
                         .facets = edges->facets | NEXT_FACETS,
                         .is_backward = edges->sort == CO_EDGES_PREVIOUS,
                         .kinds = (uint8_t)edges->detail};
    }
}

/* -- fetching -------------------------------------------------------------------------------------------------------------------- */

hd_status co_fetched_frontier(co_run *run, const co_fetched *wanted, hd_step *step) {
    hd_label label = step->frontier_label;
    if (label == HD_LABEL_EVENT && step->kind != HD_STEP_NEXT) {
        step->events.count = wanted->count;
        HD_ALLOC(step->events.locals, run->arena, wanted->count);
        for (uint32_t i = 0; i < wanted->count; i++)
            step->events.locals[i] = co_nodes_event(&run->nodes, wanted->handles[i])->local;
    } else if (label == HD_LABEL_EVENT) { /* a place in a thread ends with the id */
        step->events.count = wanted->count;
        HD_ALLOC(step->events.ids, run->arena, wanted->count);
        for (uint32_t i = 0; i < wanted->count; i++) step->events.ids[i] = co_nodes_event(&run->nodes, wanted->handles[i])->id;
    } else {
        step->names.count = wanted->count;
        HD_ALLOC(step->names.ids, run->arena, wanted->count);
        for (uint32_t i = 0; i < wanted->count; i++) step->names.ids[i] = co_nodes_name(&run->nodes, label, wanted->handles[i])->id;
    }
    return HD_OK;
}

/* Lists of events, and postings: one step. */
static hd_status fetch_plainly(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, co_fetched *wanted) {
    hd_step step = co_adjacency_step(edges);
    HD_TRY(co_fetched_frontier(run, wanted, &step));
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &wanted->result, &wanted->outcome));
    return co_adjacency_take(run, edges, wanted);
}

static hd_status set_places(co_run *run, const co_fetched *wanted, hd_event_batch *events) {
    HD_ALLOC(events->flags, run->arena, wanted->count);
    HD_ALLOC(events->timestamp_us, run->arena, wanted->count);
    HD_ALLOC(events->order_index, run->arena, wanted->count);
    HD_ALLOC(events->threads, run->arena, wanted->count);
    HD_ALLOC(events->previous, run->arena, wanted->count);
    for (uint32_t i = 0; i < wanted->count; i++) {
        const co_event *event = co_nodes_event(&run->nodes, wanted->handles[i]);
        events->flags[i] = event->flags | HD_EVENT_EXISTS;
        events->timestamp_us[i] = event->facts->timestamp_us;
        events->order_index[i] = event->facts->order_index;
        events->threads[i] = event->facts->thread;
        events->previous[i] = event->facts->previous;
    }
    return HD_OK;
}

/* The direct neighbours along threads and prev_event_id. An event whose place is not known (its owner did not answer) has none. */
static hd_status fetch_next(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, co_fetched *wanted) {
    HD_TRY(co_run_fetch_events(run, plan_step, wanted->handles, wanted->count, NEXT_FACETS));
    uint32_t *placed;
    HD_ALLOC(placed, run->arena, wanted->count);
    uint32_t placed_count = 0;
    for (uint32_t i = 0; i < wanted->count; i++) {
        if ((co_nodes_event(&run->nodes, wanted->handles[i])->known & NEXT_FACETS) == NEXT_FACETS)
            placed[placed_count++] = wanted->handles[i];
        else
            HD_TRY(co_adjacency_begin(edges, wanted->handles[i], CO_NODE_CUT));
    }
    if (placed_count == 0) return HD_OK;
    co_fetched known = {.handles = placed, .count = placed_count};
    hd_step step = co_adjacency_step(edges);
    HD_TRY(co_fetched_frontier(run, &known, &step));
    HD_TRY(set_places(run, &known, &step.events));
    HD_TRY(co_run_step(run, plan_step, "expand", &step, &known.result, &known.outcome));
    return co_adjacency_take(run, edges, &known);
}

static hd_status fetch_chunk(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, co_fetched *wanted) {
    switch (edges->sort) {
    case CO_EDGES_NEXT:
    case CO_EDGES_PREVIOUS: return fetch_next(run, plan_step, edges, wanted);
    case CO_EDGES_SHARES: return co_shares_fetch(run, plan_step, edges, wanted);
    case CO_EDGES_SIMILAR: return co_similar_fetch(run, plan_step, edges, wanted);
    default: HD_CHECK(edges->sort != CO_EDGES_WALK); return fetch_plainly(run, plan_step, edges, wanted);
    }
}

/* How many nodes one trip asks for. Where a node can have very many edges, few at first, then as many as should bring EDGES_A_TRIP: so
 * that a reply stays small enough to come back in time, and what came back before a deadline is not lost. */
enum { EDGES_A_TRIP = 200000, NODES_A_TRIP = 16384, SHARES_FIRST = 32, POSTINGS_FIRST = 256, SIMILAR_NODES = 256 };

static uint32_t next_chunk(const co_adjacency *edges, uint32_t nodes_done, uint32_t edges_done) {
    if (nodes_done == 0 && edges->sort == CO_EDGES_SHARES) return SHARES_FIRST;
    if (nodes_done == 0 && edges->sort == CO_EDGES_CONNECTED) return POSTINGS_FIRST;
    if (nodes_done == 0 && (edges->sort == CO_EDGES_ENTITY_EVENTS || edges->sort == CO_EDGES_TAG_EVENTS)) return POSTINGS_FIRST;
    if (edges->sort == CO_EDGES_SIMILAR) return SIMILAR_NODES; /* vectors go along, and each is searched for */
    uint64_t per_node = nodes_done == 0 ? 1 : edges_done / nodes_done + 1;
    return (uint32_t)HD_MAX(HD_MIN(EDGES_A_TRIP / per_node, (uint64_t)NODES_A_TRIP), 1u);
}

hd_status co_adjacency_fetch(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, const uint32_t *handles,
                             uint32_t count) {
    uint32_t *claimed, claimed_count = 0, edges_before = edges->edge_count;
    HD_ALLOC(claimed, run->arena, count);
    for (uint32_t i = 0; i < count; i++) {
        bool is_new;
        HD_TRY(co_adjacency_claim(edges, handles[i], &is_new));
        if (is_new) claimed[claimed_count++] = handles[i];
    }
    for (uint32_t done = 0; done < claimed_count;) {
        bool is_over = false;
        if (done > 0) HD_TRY(co_run_check(run, plan_step, "expand", &is_over));
        if (is_over) break; /* the rest is claimed, and so cut */
        uint32_t chunk = HD_MIN(next_chunk(edges, done, edges->edge_count - edges_before), claimed_count - done);
        co_fetched wanted = {.handles = claimed + done, .count = chunk};
        HD_TRY(fetch_chunk(run, plan_step, edges, &wanted));
        done += chunk;
    }
    return HD_OK;
}
