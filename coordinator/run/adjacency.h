/* Edges of one sort, as far as they were fetched: node → edges. Expansions walk over these; what one fetched, another finds. A node is
 * unknown, whole, or (some of its edges could not be had) cut. Edges never change once they are here.
 *
 *     state, first, count     by handle of the from node
 *     to, kinds, weight, …    by edge; the edges of a node stand together                                                          */
#ifndef CO_RUN_ADJACENCY_H
#define CO_RUN_ADJACENCY_H

#include "coordinator/run/run.h"

typedef enum co_edge_sort {
    CO_EDGES_ENTITIES,      /* event → the entities that take part */
    CO_EDGES_TAGS,          /* event → its tags, an edge per kind */
    CO_EDGES_ENTITY_EVENTS, /* entity → events */
    CO_EDGES_TAG_EVENTS,    /* tag → events, an edge per kind */
    CO_EDGES_NEXT,          /* event → the events that follow directly */
    CO_EDGES_PREVIOUS,
    CO_EDGES_SHARES,
    CO_EDGES_CONNECTED, /* entity → the entities it has events in common with */
    CO_EDGES_SIMILAR,   /* event → the events closest to it */
    CO_EDGES_WALK,      /* of NEXT_WALK and SHARES_WALK their own: start → ends, with a record of the last step */
} co_edge_sort;

#define CO_COUNT_LEAST (UINT64_C(1) << 63)

enum { CO_NODE_UNKNOWN, CO_NODE_WHOLE, CO_NODE_CUT };

struct co_adjacency {
    co_adjacency *next; /* in run->adjacencies */
    co_edge_sort sort;
    uint32_t detail; /* TAGS, TAG_EVENTS, NEXT, PREVIOUS: kind or source bits wanted; SHARES: the least count; SIMILAR: k */
    uint32_t facets; /* of the nodes at the far end */
    hd_arena *arena;

    uint8_t *state;
    uint32_t *first, *count;
    uint32_t state_capacity, first_capacity, count_capacity, node_end; /* handles below node_end have a state */

    hd_map64 first_edge[2]; /* long lists, for finding: (from, to) → first edge; the second for kind REFERS */
    uint8_t *is_indexed;
    uint32_t indexed_capacity, indexed_end;

    uint32_t edge_count;
    uint32_t *to;
    uint32_t to_capacity;
    uint8_t *kinds; /* TAGS, TAG_EVENTS: HD_KIND_*; NEXT, PREVIOUS: HD_SOURCE_*; else NULL */
    uint32_t kinds_capacity;
    uint32_t *records; /* WALK: hops and the edge of the last step among the direct ones (co_walk_record); else NULL */
    uint32_t record_capacity;
    uint64_t *counts; /* CONNECTED: common events; with CO_COUNT_LEAST: at least so many, the figure is not known */
    uint32_t counts_capacity;
    double *cos; /* SIMILAR: rounded */
    uint32_t cos_capacity;
    double *weight;      /* SHARES: rounded; NAN: not known */
    uint32_t *via_first; /* SHARES: into via */
    uint32_t *via_count; /* SHARES */
    uint32_t weight_capacity, via_first_capacity, via_count_capacity;
    uint32_t *via; /* SHARES: entity handles, rarest first */
    uint32_t via_size, via_capacity;
};

/* The run's adjacency of that sort and detail, made on first use; `facets` are added to what it asks for. HD_MEMORY. */
HD_MUST_USE hd_status co_adjacency_get(co_run *run, co_edge_sort sort, uint32_t detail, uint32_t facets, co_adjacency **edges_out);
/* The one that a step of the plan walks over; of a walk of variable length, the direct neighbours. */
HD_MUST_USE hd_status co_adjacency_of_step(co_run *run, const co_plan_step *step, co_adjacency **edges_out);
HD_MUST_USE hd_status co_adjacency_new(co_run *run, co_edge_sort sort, co_adjacency **edges_out);

/* Fetches the edges of those nodes that are unknown. After it each is whole or cut. `plan_step` is whom it is for. */
HD_MUST_USE hd_status co_adjacency_fetch(co_run *run, const co_plan_step *plan_step, co_adjacency *edges, const uint32_t *handles,
                                         uint32_t count);

/* What one step gave for a frontier of nodes. `handles`: by frontier row, CO_CELL_NONE where the row is to be passed over. */
typedef struct co_fetched {
    uint32_t *handles;
    uint32_t count;
    uint32_t *to; /* by row of the table of nodes that came back: its handle; filled by taking */
    hd_step_result result;
    co_step_outcome outcome;
} co_fetched;
/* Makes a node this fetch's own: false where its edges are known already, or claimed. */
HD_MUST_USE hd_status co_adjacency_claim(co_adjacency *edges, uint32_t handle, bool *is_new_out);
/* Enters the edges of claimed nodes. */
HD_MUST_USE hd_status co_adjacency_take(co_run *run, co_adjacency *edges, co_fetched *fetched);
/* Is the node of that frontier row whole, or cut? */
uint8_t co_fetched_state(const co_adjacency *edges, const co_fetched *fetched, uint32_t row);
/* Puts the nodes into the step as its frontier. HD_MEMORY. */
HD_MUST_USE hd_status co_fetched_frontier(co_run *run, const co_fetched *wanted, hd_step *step);
/* What a step asks for: kind, facets, kinds or least count. The frontier is the caller's to set. */
hd_step co_adjacency_step(const co_adjacency *edges);

static inline uint8_t co_adjacency_state(const co_adjacency *edges, uint32_t handle) {
    return handle < edges->node_end ? edges->state[handle] : (uint8_t)CO_NODE_UNKNOWN;
}
/* Begins the edges of a node: those added next are its own. HD_MEMORY. */
HD_MUST_USE hd_status co_adjacency_begin(co_adjacency *edges, uint32_t handle, uint8_t state);
HD_MUST_USE hd_status co_adjacency_add(co_adjacency *edges, uint32_t handle, uint32_t to, uint8_t kind);
/* All nodes are unknown again. Of WALK only, whose edges nobody points to. */
void co_adjacency_clear(co_adjacency *edges);
/* SHARES: has the edge a weight of at least `min`? One that is not known (NAN) passes only where none is asked. */
static inline bool co_adjacency_is_heavy(const co_adjacency *edges, uint32_t edge, double min) {
    return min <= 0 || edges->weight[edge] >= min;
}

/* What the cell of a variable-length relation holds: how far the end is, and the last step to it. So a row keeps what it needs of a walk,
 * and the ends themselves may be forgotten. */
enum { CO_WALK_EDGE_BITS = 30 };
static inline uint32_t co_walk_record(uint32_t hops, uint32_t edge) {
    HD_CHECK(edge < (1u << CO_WALK_EDGE_BITS) - 1 && hops <= CO_HOPS_MAX);
    return hops << CO_WALK_EDGE_BITS | edge;
}
static inline uint32_t co_walk_hops(uint32_t record) {
    return record >> CO_WALK_EDGE_BITS;
}
static inline uint32_t co_walk_edge(uint32_t record) {
    return record & ((1u << CO_WALK_EDGE_BITS) - 1);
}
/* The first edge of `handle` to `to` at or after edge `from`; CO_CELL_NONE when there is no other. HD_MEMORY. */
HD_MUST_USE hd_status co_adjacency_find(co_adjacency *edges, uint32_t handle, uint32_t to, uint32_t from, uint32_t *edge_out);

#endif
