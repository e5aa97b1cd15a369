/* The nodes of one query, interned: a dense handle per label, and what is known of each so far. Facts only grow; a fact that was
 * asked for and did not come (its partition could not be asked) stays unknown and is not asked again. An event's id is a fact like
 * others: most of the events that a walk passes are never named. */
#ifndef CO_RUN_NODES_H
#define CO_RUN_NODES_H

#include "common/map.h"
#include "common/value.h"
#include "proto/step.h"

/* What an event shows, once it is asked for. */
typedef struct co_event_facts {
    double score; /* of the start; valid where has_score */
    int64_t timestamp_us, order_index;
    hd_str thread, previous, summary; /* absent string where the event has none */
} co_event_facts;

/* Small, since a wide walk has tens of thousands. */
typedef struct co_event {
    uint64_t local;        /* what steps name it by */
    hd_str id;             /* absent string until `known` has HD_FACET_ID */
    co_event_facts *facts; /* NULL until something beside the id is known */
    uint32_t start_index;  /* place in the start, CO_CELL_NONE elsewhere */
    uint32_t known, asked; /* HD_FACET_* bits */
    uint8_t flags;         /* HD_EVENT_*: HAS_ORDER valid with ORDER, … */
    bool has_score;
} co_event;

/* An entity or a tag. */
typedef struct co_name {
    hd_id128 id;
    hd_str id_text; /* made on first use */
    hd_str name, type;
    uint64_t event_count;
    uint32_t known, asked; /* HD_FACET_TYPE, CO_FACET_EVENT_COUNT */
} co_name;

typedef struct co_name_table {
    hd_map by_id;
    co_name *items;
    uint32_t count, capacity;
} co_name_table;

typedef struct co_nodes {
    hd_arena *arena;
    hd_map64 event_by_local;
    struct co_dense_handles {
        uint32_t *handles; /* by number: 1 + the handle, 0 where it has none yet */
        uint32_t end;      /* numbers below it stand here, those from it on in the map */
    } * dense;             /* by ordinal, of partitions with wide tables; NULL until there is one */
    co_event *events;
    uint32_t event_count, event_capacity;
    co_name_table entities, tags;
} co_nodes;

void co_nodes_init(co_nodes *nodes, hd_arena *arena);

/* The handle of an event that exists. In one snapshot an event has one local, so two handles are two events. */
HD_MUST_USE hd_status co_nodes_intern_event(co_nodes *nodes, uint64_t local, uint32_t *handle_out);
/* The handle of an entity or tag; `id` is borrowed for the life of the nodes. */
HD_MUST_USE hd_status co_nodes_intern_name(co_nodes *nodes, hd_label label, const hd_id128 *id, uint32_t *handle_out);
co_name_table *co_nodes_names(co_nodes *nodes, hd_label label);
static inline co_event *co_nodes_event(const co_nodes *nodes, uint32_t handle) {
    return &nodes->events[handle];
}
co_name *co_nodes_name(co_nodes *nodes, hd_label label, uint32_t handle);

/* Interns a whole table that came back: handles_out[i] is that of row i (array in the arena of the nodes). Takes over the facets
 * that came with it; `are_counts_whole`: event_count sums over every partition. */
HD_MUST_USE hd_status co_nodes_learn_events(co_nodes *nodes, const hd_event_batch *batch, uint32_t facets, uint32_t **handles_out);
HD_MUST_USE hd_status co_nodes_learn_names(co_nodes *nodes, hd_label label, const hd_name_batch *batch, bool are_counts_whole,
                                           uint32_t **handles_out);
/* Takes over the facets of row `row` of a batch for one event. */
HD_MUST_USE hd_status co_nodes_learn_event(co_nodes *nodes, uint32_t handle, const hd_event_batch *batch, uint32_t row,
                                           uint32_t facets);
/* The same for the start's score. */
HD_MUST_USE hd_status co_nodes_learn_score(co_nodes *nodes, uint32_t handle, double score);

/* The node as a value. Formats an entity's or tag's id on first use. HD_MEMORY. */
HD_MUST_USE hd_status co_nodes_value(co_nodes *nodes, hd_label label, uint32_t handle, hd_value *value_out);
/* Two nodes of one label by id: <0, 0, >0. The ids of events have to be known. */
int co_nodes_compare(co_nodes *nodes, hd_label label, uint32_t a, uint32_t b);

#endif
