/* Fan-out and merge against shards made of threads in this process, over real sockets. Each answers naively from its partitions of a
 * small random graph, within the budget it is given, with tokens to go on. Whatever way the graph is spread, and in whatever order
 * replies come, the merged result is that of one place that knows all; under a budget it is a part of that, nothing of the budget is
 * left unused, and the outcome says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/figure.h"
#include "common/ids.h"
#include "coordinator/run/fanout.h"
#include "tests/support/seed.h"

enum { EVENTS_MAX = 60, ENTITIES = 8, DIMENSION = 3, SHARDS_MAX = 4, PARTITIONS_MAX = 4, ORG = 7 };

static test_random randomness;
static char folder[64];

static uint32_t below(uint32_t n) {
    return test_random_below(&randomness, n);
}

/* ---- the graph ---- */

typedef struct model_event {
    char id_text[16], previous_text[16];
    hd_str id, previous, thread;
    int64_t timestamp_us, order_index;
    bool has_order, has_vector;
    bool has_entity[ENTITIES];
    float vector[DIMENSION];
} model_event;

typedef struct model {
    model_event events[EVENTS_MAX];
    uint32_t count;
    uint32_t partition_count;
} model;

static model graph;
/* Held for writing while the graph is made, for reading while a shard answers from it. */
static pthread_rwlock_t graph_lock = PTHREAD_RWLOCK_INITIALIZER;

static hd_id128 entity_id(uint32_t entity) {
    char name[8];
    snprintf(name, sizeof(name), "N%u", entity);
    return hd_name_id(hd_str_of(name));
}

static hd_str entity_name(uint32_t entity) {
    static const char *const names[ENTITIES] = {"N0", "N1", "N2", "N3", "N4", "N5", "N6", "N7"};
    return hd_str_of(names[entity]);
}

static uint32_t entity_of(hd_id128 id) {
    for (uint32_t e = 0; e < ENTITIES; e++) {
        if (hd_id128_is_equal(id, entity_id(e))) return e;
    }
    return ENTITIES;
}

static void make_graph(uint32_t partition_count) {
    static const char *const threads[] = {"alpha", "beta"};
    pthread_rwlock_wrlock(&graph_lock);
    memset(&graph, 0, sizeof(graph));
    graph.partition_count = partition_count;
    graph.count = 10 + below(EVENTS_MAX - 9);
    for (uint32_t i = 0; i < graph.count; i++) {
        model_event *event = &graph.events[i];
        snprintf(event->id_text, sizeof(event->id_text), "e%04u", i * 37 % 1000);
        event->id = hd_str_of(event->id_text);
        event->timestamp_us = (int64_t)below(12); /* many ties */
        event->has_order = below(2) == 0;
        event->order_index = (int64_t)below(4);
        if (below(4) != 0) event->thread = hd_str_of(threads[below(2)]);
        if (i > 0 && below(3) == 0) {
            snprintf(event->previous_text, sizeof(event->previous_text), "e%04u", below(i) * 37 % 1000);
            event->previous = hd_str_of(event->previous_text);
        }
        for (uint32_t e = 0; e < ENTITIES; e++) event->has_entity[e] = below(3) == 0;
        event->has_vector = below(5) != 0;
        for (uint32_t d = 0; d < DIMENSION; d++) event->vector[d] = (float)below(3) - 0.75F;
    }
    pthread_rwlock_unlock(&graph_lock);
}

static const model_event *find_event(hd_str id) {
    for (uint32_t i = 0; i < graph.count; i++) {
        if (hd_str_is_equal(graph.events[i].id, id)) return &graph.events[i];
    }
    return NULL;
}

static uint32_t partition_of(const model_event *event) {
    return hd_event_partition(event->id, graph.partition_count);
}

static int compare_places(const model_event *a, const model_event *b) {
    if (a->has_order != b->has_order) return a->has_order ? -1 : 1;
    if (a->has_order && a->order_index != b->order_index) return a->order_index < b->order_index ? -1 : 1;
    if (a->timestamp_us != b->timestamp_us) return a->timestamp_us < b->timestamp_us ? -1 : 1;
    return hd_str_compare(a->id, b->id);
}

/* ---- a naive shard: step in, result out ---- */

typedef struct work {
    hd_arena *arena;
    const hd_step_request *request;
    const hd_step *step;
    hd_step_result *result;
    uint64_t scanned, measured;
    const model_event *rows[EVENTS_MAX]; /* of result->events */
    uint32_t *edge_from, *edge_to, edge_count;
    uint8_t *edge_kinds;
    uint32_t *via_of_edge[4096];
    uint32_t via_count[4096];
    uint64_t common[ENTITIES + 1][ENTITIES]; /* CONNECTED: by frontier node and entity */
} work;

static void *get(hd_arena *arena, size_t count, size_t size) {
    void *memory = hd_arena_alloc_zero(arena, count, size);
    if (memory == NULL) abort();
    return memory;
}

static uint32_t row_of(work *w, const model_event *event) {
    for (uint32_t i = 0; i < w->result->events.count; i++) {
        if (w->rows[i] == event) return i;
    }
    w->rows[w->result->events.count] = event;
    return w->result->events.count++;
}

static uint32_t add_edge(work *w, uint32_t from, const model_event *to, uint8_t kind) {
    if (w->edge_count >= 4096) abort();
    w->edge_from[w->edge_count] = from;
    w->edge_to[w->edge_count] = row_of(w, to);
    w->edge_kinds[w->edge_count] = kind;
    return w->edge_count++;
}

static uint8_t flags_of(const model_event *event) {
    return (uint8_t)(HD_EVENT_EXISTS | (event->has_vector ? HD_EVENT_HAS_VECTOR : 0) |
                     (event->thread.data != NULL ? HD_EVENT_HAS_THREAD : 0) | (event->has_order ? HD_EVENT_HAS_ORDER : 0));
}

/* An event's number in its partition is its number in the graph. */
static uint64_t local_of(const model_event *event) {
    return event != NULL ? hd_local(partition_of(event), (uint32_t)(event - graph.events)) : HD_LOCAL_NONE;
}

static const model_event *event_of_local(uint64_t local) {
    if (local == HD_LOCAL_NONE || (uint32_t)local >= graph.count) return NULL;
    const model_event *event = &graph.events[(uint32_t)local];
    return partition_of(event) == hd_local_ordinal(local) ? event : NULL;
}

/* Gives a frontier of locals the ids that the answers here go by. */
static void name_events(hd_arena *arena, hd_event_batch *batch) {
    if (batch->ids != NULL || batch->count == 0) return;
    batch->ids = get(arena, batch->count, sizeof(hd_str));
    for (uint32_t i = 0; i < batch->count; i++) {
        const model_event *event = event_of_local(batch->locals[i]);
        batch->ids[i] = event != NULL ? event->id : hd_str_of("nobody");
    }
}

/* All columns; more than was asked does no harm. */
static void put_columns(hd_arena *arena, hd_event_batch *batch, const model_event *const *rows, const hd_str *ids, uint32_t count) {
    *batch = (hd_event_batch){.count = count, .dimension = DIMENSION};
    batch->locals = get(arena, count, sizeof(uint64_t));
    batch->ids = get(arena, count, sizeof(hd_str));
    batch->flags = get(arena, count, 1);
    batch->timestamp_us = get(arena, count, 8);
    batch->order_index = get(arena, count, 8);
    batch->threads = get(arena, count, sizeof(hd_str));
    batch->previous = get(arena, count, sizeof(hd_str));
    batch->summaries = get(arena, count, sizeof(hd_str));
    batch->vectors = get(arena, (size_t)count * DIMENSION, sizeof(float));
    for (uint32_t i = 0; i < count; i++) {
        batch->locals[i] = local_of(rows[i]);
        batch->ids[i] = ids != NULL ? ids[i] : rows[i]->id;
        if (rows[i] == NULL) continue;
        batch->flags[i] = flags_of(rows[i]);
        batch->timestamp_us[i] = rows[i]->timestamp_us;
        batch->order_index[i] = rows[i]->has_order ? rows[i]->order_index : 0;
        batch->threads[i] = rows[i]->thread;
        batch->previous[i] = rows[i]->previous;
        batch->summaries[i] = rows[i]->id;
        if (rows[i]->has_vector) memcpy(&batch->vectors[(size_t)i * DIMENSION], rows[i]->vector, sizeof(rows[i]->vector));
    }
}

static bool is_in(const model_event *event, uint64_t partition) {
    return partition_of(event) + 1 == partition; /* ids of partitions are 1.. */
}

static uint64_t event_count(uint32_t entity, uint64_t partition) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < graph.count; i++) count += is_in(&graph.events[i], partition) && graph.events[i].has_entity[entity];
    return count;
}

/* An entity's type: every event whose entities it is the first of gives "t" and that event's number modulo 3. */
static void add_name(work *w, hd_name_batch *names, uint32_t row, uint32_t entity, uint64_t partition, bool is_resumed) {
    (void)w;
    if (entity == ENTITIES) return;
    uint64_t count = event_count(entity, partition);
    if (count > 0) names->names[row] = entity_name(entity);
    if (!is_resumed) names->event_count[row] += count;
    if (names->types == NULL) return;
    static const char *const types[] = {"t0", "t1", "t2"};
    for (uint32_t i = 0; i < graph.count; i++) {
        const model_event *event = &graph.events[i];
        if (!is_in(event, partition) || !event->has_entity[entity] || i % 2 == 1) continue;
        bool is_earlier = names->types[row].data == NULL || event->timestamp_us < names->type_at_us[row] ||
                          (event->timestamp_us == names->type_at_us[row] && hd_str_compare(event->id, names->type_events[row]) < 0);
        if (!is_earlier) continue;
        names->types[row] = hd_str_of(types[i % 3]);
        names->type_at_us[row] = event->timestamp_us;
        names->type_events[row] = event->id;
    }
}

static void alloc_names(work *w, uint32_t count) {
    hd_name_batch *names = &w->result->names;
    names->count = count;
    names->ids = get(w->arena, count, sizeof(hd_id128));
    names->names = get(w->arena, count, sizeof(hd_str));
    names->event_count = get(w->arena, count, 8);
    if (!(w->step->facets & HD_FACET_TYPE)) return;
    names->types = get(w->arena, count, sizeof(hd_str));
    names->type_at_us = get(w->arena, count, 8);
    names->type_events = get(w->arena, count, sizeof(hd_str));
}

/* The state of one partition's visit: units of work from `at` on, each costing one. False: the cap ends it here. */
static bool take_unit(uint64_t *used, uint64_t max) {
    if (*used >= max) return false;
    (*used)++;
    return true;
}

typedef enum visit_end { VISIT_COMPLETE, VISIT_CUT_SCANNED, VISIT_CUT_MEASURED } visit_end;

static double score_of(const float *query, const model_event *event) {
    return hd_figure_round((double)query[0] * event->vector[0] + (double)query[1] * event->vector[1] +
                           (double)query[2] * event->vector[2]);
}

static bool is_in_start_scope(const hd_start *start, const model_event *event) {
    for (uint32_t g = 0; g < start->entity_groups; g++) {
        bool is_member = false;
        for (uint32_t i = 0; i < start->entities[g].count; i++) {
            uint32_t entity = entity_of(start->entities[g].ids[i]);
            is_member |= entity < ENTITIES && event->has_entity[entity];
        }
        if (!is_member) return false;
    }
    return start->mode == HD_START_NEWEST || event->has_vector;
}

/* Everything in scope goes to rows[]; the k best are chosen when all partitions were visited. */
static visit_end visit_start(work *w, uint64_t partition, uint64_t *at) {
    for (; *at < graph.count; ++*at) {
        const model_event *event = &graph.events[*at];
        if (!is_in(event, partition)) continue;
        if (!take_unit(&w->scanned, w->request->scanned_max)) return VISIT_CUT_SCANNED;
        if (!is_in_start_scope(&w->step->start, event)) continue;
        (void)row_of(w, event);
        w->result->candidates++;
    }
    return VISIT_COMPLETE;
}

static visit_end visit_facts(work *w, uint64_t partition, uint64_t *at) {
    for (; *at < w->step->events.count; ++*at) {
        const model_event *event = find_event(w->step->events.ids[*at]);
        if (event == NULL || !is_in(event, partition)) continue;
        if (w->step->facets & HD_FACET_ENTITIES) {
            if (!take_unit(&w->scanned, w->request->scanned_max)) return VISIT_CUT_SCANNED;
        }
        w->rows[*at] = event;
        for (uint32_t e = 0; (w->step->facets & HD_FACET_ENTITIES) && e < ENTITIES; e++) {
            if (!event->has_entity[e]) continue;
            w->edge_from[w->edge_count] = (uint32_t)*at;
            w->edge_to[w->edge_count++] = e;
        }
    }
    return VISIT_COMPLETE;
}

static visit_end visit_postings(work *w, uint64_t partition, uint64_t *at) {
    uint64_t end = (uint64_t)w->step->names.count * graph.count;
    for (; *at < end; ++*at) {
        uint32_t from = (uint32_t)(*at / graph.count), entity = entity_of(w->step->names.ids[from]);
        const model_event *event = &graph.events[*at % graph.count];
        if (entity == ENTITIES || !is_in(event, partition) || !event->has_entity[entity]) continue;
        if (!take_unit(&w->scanned, w->request->scanned_max)) return VISIT_CUT_SCANNED;
        add_edge(w, from, event, 0);
    }
    return VISIT_COMPLETE;
}

/* Where the table of SHARES has name `i` of the request: in an order of each request's own. */
static uint32_t name_row(const work *w, uint32_t i) {
    uint64_t turn = w->request->partition_count > 0 ? w->request->partitions[0].id : 0;
    return (uint32_t)((i + turn) % w->step->names.count);
}

static visit_end visit_shares(work *w, uint64_t partition, uint64_t *at) {
    const hd_edges *lists = &w->step->edges;
    uint64_t end = (uint64_t)w->step->events.count * graph.count;
    for (; *at < end; ++*at) {
        uint32_t from = (uint32_t)(*at / graph.count);
        const model_event *event = &graph.events[*at % graph.count];
        if (!is_in(event, partition) || hd_str_is_equal(event->id, w->step->events.ids[from])) continue;
        if (!take_unit(&w->scanned, w->request->scanned_max)) return VISIT_CUT_SCANNED;
        uint32_t via[ENTITIES], shared = 0;
        for (uint32_t k = lists->offsets[from]; k < lists->offsets[from + 1]; k++) {
            uint32_t entity = entity_of(w->step->names.ids[lists->to[k]]);
            if (event->has_entity[entity]) via[shared++] = name_row(w, lists->to[k]);
        }
        if (shared < w->step->shares_min) continue;
        uint32_t edge = add_edge(w, from, event, 0);
        w->via_of_edge[edge] = get(w->arena, shared, 4);
        memcpy(w->via_of_edge[edge], via, shared * 4);
        w->via_count[edge] = shared;
    }
    return VISIT_COMPLETE;
}

/* A unit is an event of the frontier's entity; it counts for all others that it has. */
static visit_end visit_connected(work *w, uint64_t partition, uint64_t *at) {
    uint64_t end = (uint64_t)w->step->names.count * graph.count;
    for (; *at < end; ++*at) {
        uint32_t from = (uint32_t)(*at / graph.count), entity = entity_of(w->step->names.ids[from]);
        const model_event *event = &graph.events[*at % graph.count];
        if (entity == ENTITIES || !is_in(event, partition) || !event->has_entity[entity]) continue;
        if (!take_unit(&w->scanned, w->request->scanned_max)) return VISIT_CUT_SCANNED;
        for (uint32_t e = 0; e < ENTITIES; e++) w->common[from][e] += e != entity && event->has_entity[e];
    }
    return VISIT_COMPLETE;
}

/* An edge a pair that was met, to a table whose order is each request's own. */
static void close_connected(work *w) {
    hd_name_batch *names = &w->result->names;
    hd_edges *edges = &w->result->edges;
    uint32_t turn = (uint32_t)(w->request->partitions[0].id % ENTITIES), at = 0;
    alloc_names(w, ENTITIES);
    for (uint32_t i = 0; i < ENTITIES; i++) {
        names->ids[i] = entity_id((i + turn) % ENTITIES);
        names->names[i] = entity_name((i + turn) % ENTITIES);
    }
    edges->from_count = w->step->names.count;
    edges->offsets = get(w->arena, edges->from_count + 1, 4);
    edges->to = get(w->arena, (size_t)edges->from_count * ENTITIES + 1, 4);
    edges->counts = get(w->arena, (size_t)edges->from_count * ENTITIES + 1, 8);
    for (uint32_t from = 0; from < edges->from_count; from++) {
        for (uint32_t i = 0; i < ENTITIES; i++) {
            uint64_t count = w->common[from][(i + turn) % ENTITIES];
            if (count == 0) continue;
            edges->to[at] = i;
            edges->counts[at++] = count;
        }
        edges->offsets[from + 1] = at;
    }
}

static visit_end visit_next(work *w, uint64_t partition, uint64_t *at) {
    for (; *at < w->step->events.count; ++*at) {
        const model_event *from = find_event(w->step->events.ids[*at]), *nearest = NULL;
        if (!take_unit(&w->scanned, w->request->scanned_max)) return VISIT_CUT_SCANNED;
        if (from == NULL) continue;
        bool is_backward = w->step->is_backward;
        for (uint32_t i = 0; i < graph.count; i++) {
            const model_event *to = &graph.events[i];
            if (!is_in(to, partition) || to == from) continue;
            bool is_explicit = is_backward ? hd_str_is_equal(from->previous, to->id) && from->previous.data != NULL
                                           : hd_str_is_equal(to->previous, from->id) && to->previous.data != NULL;
            if (is_explicit) add_edge(w, (uint32_t)*at, to, HD_SOURCE_EXPLICIT);
            if (from->thread.data == NULL || !hd_str_is_equal(from->thread, to->thread)) continue;
            int order = compare_places(to, from);
            if (is_backward ? order > 0 : order < 0) continue;
            order = nearest != NULL ? compare_places(to, nearest) : 0;
            if (nearest == NULL || (is_backward ? order > 0 : order < 0)) nearest = to;
        }
        if (nearest != NULL) add_edge(w, (uint32_t)*at, nearest, HD_SOURCE_THREAD);
    }
    return VISIT_COMPLETE;
}

static uint32_t from_of_edge(const hd_edges *edges, uint32_t edge) {
    uint32_t from = 0;
    while (edges->offsets[from + 1] <= edge) from++;
    return from;
}

static visit_end visit_measure(work *w, uint64_t partition, uint64_t *at) {
    const hd_edges *edges = &w->step->edges;
    for (; *at < hd_edges_count(edges); ++*at) {
        uint32_t edge = (uint32_t)*at, from = from_of_edge(edges, edge);
        const model_event *to = find_event(w->step->to_events.ids[edges->to[edge]]);
        if (to == NULL || !is_in(to, partition)) continue;
        if (!take_unit(&w->measured, w->request->measured_max)) return VISIT_CUT_MEASURED;
        w->result->edges.is_answered[edge] = 1;
        if (!to->has_vector || !(w->step->events.flags[from] & HD_EVENT_HAS_VECTOR)) continue;
        w->result->edges.cos[edge] = score_of(&w->step->events.vectors[(size_t)from * DIMENSION], to);
    }
    return VISIT_COMPLETE;
}

/* Every pair is looked at; the k best are chosen when all partitions were visited. */
static visit_end visit_similar(work *w, uint64_t partition, uint64_t *at) {
    for (; *at < (uint64_t)w->step->events.count * graph.count; ++*at) {
        uint32_t from = (uint32_t)(*at / graph.count);
        const model_event *to = &graph.events[*at % graph.count];
        if (!is_in(to, partition) || !to->has_vector || !(w->step->events.flags[from] & HD_EVENT_HAS_VECTOR)) continue;
        if (hd_str_is_equal(to->id, w->step->events.ids[from])) continue;
        if (!take_unit(&w->measured, w->request->measured_max)) return VISIT_CUT_MEASURED;
        (void)add_edge(w, from, to, 0);
    }
    return VISIT_COMPLETE;
}

static visit_end visit_one(work *w, uint64_t partition, uint64_t *at, bool is_resumed) {
    hd_step_result *result = w->result;
    switch (w->step->kind) {
    case HD_STEP_START:
        for (uint32_t i = 0, g = 0; g < w->step->start.entity_groups; g++) {
            for (uint32_t k = 0; k < w->step->start.entities[g].count; k++, i++) {
                uint32_t entity = entity_of(w->step->start.entities[g].ids[k]);
                if (!is_resumed && entity < ENTITIES) result->group_counts[i] += event_count(entity, partition);
            }
        }
        return visit_start(w, partition, at);
    case HD_STEP_FACTS:
        for (uint32_t i = 0; i < result->names.count; i++) {
            add_name(w, &result->names, i, entity_of(result->names.ids[i]), partition, is_resumed);
        }
        return w->step->frontier_label == HD_LABEL_EVENT ? visit_facts(w, partition, at) : VISIT_COMPLETE;
    case HD_STEP_POSTINGS:
    case HD_STEP_SHARES:
        for (uint32_t i = 0; i < result->names.count; i++) {
            add_name(w, &result->names, i, entity_of(result->names.ids[i]), partition, is_resumed);
        }
        return w->step->kind == HD_STEP_POSTINGS ? visit_postings(w, partition, at) : visit_shares(w, partition, at);
    case HD_STEP_NEXT: return visit_next(w, partition, at);
    case HD_STEP_CONNECTED: return visit_connected(w, partition, at);
    case HD_STEP_MEASURE: return visit_measure(w, partition, at);
    case HD_STEP_SIMILAR: return visit_similar(w, partition, at);
    case HD_STEP_RESOLVE:
        for (uint32_t i = 0; i < result->names.count; i++) add_name(w, &result->names, i, i, partition, is_resumed);
        return VISIT_COMPLETE;
    }
    return VISIT_COMPLETE;
}

static void open_work(work *w) {
    hd_step_result *result = w->result;
    result->number = w->step->number;
    w->edge_from = get(w->arena, 4096, 4);
    w->edge_to = get(w->arena, 4096, 4);
    w->edge_kinds = get(w->arena, 4096, 1);
    bool is_facts = w->step->kind == HD_STEP_FACTS;
    if (w->step->kind == HD_STEP_RESOLVE || (is_facts && (w->step->facets & HD_FACET_ENTITIES))) {
        alloc_names(w, ENTITIES);
        for (uint32_t e = 0; e < ENTITIES; e++) result->names.ids[e] = entity_id(e);
    } else if (w->step->names.count > 0 && w->step->kind != HD_STEP_CONNECTED) {
        alloc_names(w, w->step->names.count);
        for (uint32_t i = 0; i < w->step->names.count; i++) {
            result->names.ids[w->step->kind == HD_STEP_SHARES ? name_row(w, i) : i] = w->step->names.ids[i];
        }
    }
    for (uint32_t g = 0; g < w->step->start.entity_groups; g++) result->group_count_count += w->step->start.entities[g].count;
    result->group_counts = get(w->arena, result->group_count_count, 8);
    if (w->step->kind != HD_STEP_MEASURE) return;
    result->edges = w->step->edges;
    uint32_t count = hd_edges_count(&result->edges);
    result->edges.cos = get(w->arena, count, 8);
    result->edges.is_answered = get(w->arena, count, 1);
    for (uint32_t e = 0; e < count; e++) result->edges.cos[e] = NAN;
}

/* Edges were added in any order; here they become CSR. */
static void close_edges(work *w, uint32_t from_count) {
    hd_edges *edges = &w->result->edges;
    *edges = (hd_edges){.from_count = from_count};
    edges->offsets = get(w->arena, from_count + 1, 4);
    edges->to = get(w->arena, w->edge_count, 4);
    edges->kinds = get(w->arena, w->edge_count, 1);
    edges->via_offsets = get(w->arena, w->edge_count + 1, 4);
    edges->via = get(w->arena, w->edge_count * ENTITIES + 1, 4);
    uint32_t at = 0, via_at = 0;
    for (uint32_t from = 0; from < from_count; from++) {
        for (uint32_t e = 0; e < w->edge_count; e++) {
            if (w->edge_from[e] != from) continue;
            edges->to[at] = w->edge_to[e];
            edges->kinds[at] = w->edge_kinds[e];
            for (uint32_t v = 0; v < w->via_count[e]; v++) edges->via[via_at++] = w->via_of_edge[e][v];
            edges->via_offsets[++at] = via_at;
        }
        edges->offsets[from + 1] = at;
    }
}

static const hd_start *sorted_by;

static int compare_start_rows(const void *left, const void *right) {
    const model_event *a = *(const model_event *const *)left, *b = *(const model_event *const *)right;
    if (sorted_by->mode == HD_START_CLOSEST) {
        double difference = score_of(sorted_by->vector, a) - score_of(sorted_by->vector, b);
        if (difference != 0) return difference > 0 ? -1 : 1;
    } else if (a->timestamp_us != b->timestamp_us) {
        return a->timestamp_us > b->timestamp_us ? -1 : 1;
    }
    return hd_str_compare(a->id, b->id);
}

static pthread_mutex_t sort_mutex = PTHREAD_MUTEX_INITIALIZER;

static void close_start(work *w) {
    const hd_start *start = &w->step->start;
    uint32_t count = w->result->events.count;
    pthread_mutex_lock(&sort_mutex);
    sorted_by = start;
    qsort(w->rows, count, sizeof(w->rows[0]), compare_start_rows);
    pthread_mutex_unlock(&sort_mutex);
    w->result->has_more = count > start->k;
    count = HD_MIN(count, start->k);
    put_columns(w->arena, &w->result->events, w->rows, NULL, count);
    if (start->mode == HD_START_CLOSEST) {
        w->result->events.scores = get(w->arena, count, 8);
        for (uint32_t i = 0; i < count; i++) w->result->events.scores[i] = score_of(start->vector, w->rows[i]);
    }
}

/* Where all candidates of the org are here: one edge a pair, the nearest as `thread`, then the sources that are wanted. */
static void settle_next(work *w) {
    uint32_t kept = 0, nearest[EVENTS_MAX];
    for (uint32_t f = 0; f < w->step->events.count; f++) {
        nearest[f] = UINT32_MAX;
        for (uint32_t e = 0; e < w->edge_count; e++) {
            if (w->edge_from[e] != f || w->edge_kinds[e] != HD_SOURCE_THREAD) continue;
            int order = nearest[f] == UINT32_MAX ? 0 : compare_places(w->rows[w->edge_to[e]], w->rows[nearest[f]]);
            if (nearest[f] == UINT32_MAX || (w->step->is_backward ? order > 0 : order < 0)) nearest[f] = w->edge_to[e];
        }
    }
    for (uint32_t e = 0; e < w->edge_count; e++) {
        bool is_nearest = w->edge_to[e] == nearest[w->edge_from[e]], is_thread = w->edge_kinds[e] == HD_SOURCE_THREAD;
        if (is_thread != is_nearest) continue; /* a farther thread candidate, or an explicit double of the nearest */
        if (w->step->kinds != 0 && !(w->step->kinds & w->edge_kinds[e])) continue;
        w->edge_from[kept] = w->edge_from[e];
        w->edge_to[kept] = w->edge_to[e];
        w->edge_kinds[kept++] = w->edge_kinds[e];
    }
    w->edge_count = kept;
}

static double cos_of_edge(const work *w, uint32_t edge) {
    return score_of(&w->step->events.vectors[(size_t)w->edge_from[edge] * DIMENSION], w->rows[w->edge_to[edge]]);
}

/* Keeps an edge where fewer than k of the same event are better. */
static void settle_similar(work *w) {
    bool *is_kept = get(w->arena, w->edge_count + 1, 1);
    for (uint32_t e = 0; e < w->edge_count; e++) {
        uint32_t better = 0;
        for (uint32_t o = 0; o < w->edge_count; o++) {
            if (w->edge_from[o] != w->edge_from[e]) continue;
            double difference = cos_of_edge(w, o) - cos_of_edge(w, e);
            int order = hd_str_compare(w->rows[w->edge_to[o]]->id, w->rows[w->edge_to[e]]->id);
            better += difference > 0 || (difference == 0 && order < 0);
        }
        is_kept[e] = better < w->step->similar_k;
    }
    uint32_t kept = 0;
    for (uint32_t e = 0; e < w->edge_count; e++) {
        if (!is_kept[e]) continue;
        w->edge_from[kept] = w->edge_from[e];
        w->edge_to[kept++] = w->edge_to[e];
    }
    w->edge_count = kept;
}

/* The cosines of edges that became CSR. */
static void put_cosines(work *w) {
    hd_edges *edges = &w->result->edges;
    edges->cos = get(w->arena, w->edge_count, 8);
    for (uint32_t i = 0; i < edges->from_count; i++) {
        for (uint32_t e = edges->offsets[i]; e < edges->offsets[i + 1]; e++) {
            edges->cos[e] = score_of(&w->step->events.vectors[(size_t)i * DIMENSION], w->rows[edges->to[e]]);
        }
    }
}

static void close_work(work *w, bool is_final) {
    hd_step_result *result = w->result;
    bool is_event = w->step->frontier_label == HD_LABEL_EVENT;
    uint32_t from_count = is_event ? w->step->events.count : w->step->names.count;
    result->used_scanned = w->scanned;
    result->used_measured = w->measured;
    if (w->step->kind == HD_STEP_START) {
        close_start(w);
        return;
    }
    if (w->step->kind == HD_STEP_CONNECTED) {
        close_connected(w);
        return;
    }
    if (w->step->kind == HD_STEP_MEASURE || w->step->kind == HD_STEP_RESOLVE) {
        result->fold_of = get(w->arena, result->names.count, 4);
        for (uint32_t i = 0; i < result->names.count && w->step->folded_count > 0; i++)
            result->fold_of[i] = i % w->step->folded_count;
        return;
    }
    if (w->step->kind == HD_STEP_NEXT && is_final) settle_next(w);
    if (w->step->kind == HD_STEP_SIMILAR) settle_similar(w);
    if (w->step->kind == HD_STEP_FACTS && is_event) {
        put_columns(w->arena, &result->events, w->rows, w->step->events.ids, w->step->events.count);
    } else if (w->step->kind != HD_STEP_FACTS) {
        put_columns(w->arena, &result->events, w->rows, NULL, result->events.count);
    }
    if (w->step->kind != HD_STEP_FACTS || is_event) close_edges(w, from_count);
    if (w->step->kind != HD_STEP_SHARES) result->edges.via_offsets = result->edges.via = NULL;
    if (w->step->kind == HD_STEP_SIMILAR) put_cosines(w);
    if (w->step->kind != HD_STEP_NEXT) result->edges.kinds = NULL;
}

/* Answers one step over the partitions of the request. */
static void answer_step(hd_arena *arena, const hd_step_request *request, hd_step_result *result) {
    work *w = get(arena, 1, sizeof(*w));
    hd_step *step = get(arena, 1, sizeof(*step));
    *step = request->steps[0];
    name_events(arena, &step->events);
    name_events(arena, &step->to_events);
    *w = (work){.arena = arena, .request = request, .step = step, .result = result};
    bool is_resumed = false, is_cut = false;
    for (uint32_t p = 0; p < request->partition_count; p++) is_resumed |= request->partitions[p].resume.data != NULL;
    open_work(w);
    result->verdict_count = request->partition_count;
    result->verdicts = get(arena, request->partition_count, sizeof(hd_verdict));
    result->is_candidates_exact = true;
    for (uint32_t p = 0; p < request->partition_count; p++) {
        hd_verdict *verdict = &result->verdicts[p];
        uint64_t partition = request->partitions[p].id, *at = get(arena, 1, 8);
        if (is_resumed) memcpy(at, request->partitions[p].resume.data, 8);
        visit_end end = visit_one(w, partition, at, is_resumed);
        *verdict = (hd_verdict){.partition = partition, .reach = HD_REACH_COMPLETE, .cap = HD_CAP_NONE};
        for (uint32_t i = 0; i < graph.count; i++) {
            verdict->n_live += is_in(&graph.events[i], partition);
            verdict->n_vectors += is_in(&graph.events[i], partition) && graph.events[i].has_vector;
        }
        if (end == VISIT_COMPLETE) continue;
        is_cut = true;
        verdict->reach = HD_REACH_CUT;
        verdict->cap = end == VISIT_CUT_SCANNED ? HD_CAP_SCANNED : HD_CAP_MEASURED;
        verdict->resume = (hd_str){(const char *)at, 8};
        if (w->step->kind == HD_STEP_CONNECTED) verdict->done = (uint32_t)(*at / graph.count);
        result->is_candidates_exact = false;
    }
    close_work(w, request->is_whole_org && !is_cut && !is_resumed);
}

/* ---- shards as threads ---- */

typedef enum manner {
    MANNER_NORMAL,
    MANNER_SILENT,     /* steps get no answer */
    MANNER_DOUBLE,     /* each answer comes twice */
    MANNER_FORGED,     /* before each answer one with another id, and one that is noise */
    MANNER_MISFIT,     /* answers that do not fit the request */
    MANNER_GONE,       /* the snapshot is gone where one is asked for */
    MANNER_STALE_ONCE, /* the first step finds no partition */
    MANNER_STALE,      /* no step finds one */
    MANNER_BUSY,
    MANNER_DEADLINE_CUT /* every partition is cut by the deadline */
} manner;

typedef struct fake_shard {
    hd_wire_server *server;
    pthread_t thread;
    char uuid[40];
    atomic_int manner, steps, cancels, hellos;
    atomic_bool is_deaf; /* to HELLO too */
    hd_wire_peer late_peer;
    hd_buf late; /* an answer held back by MANNER_SILENT, sent with the next one */
} fake_shard;

static fake_shard shards[SHARDS_MAX];
static co_topology *topology;
static hd_wire_client *wire;

static void send_reply(fake_shard *shard, const hd_wire_peer *peer, const hd_reply *reply) {
    hd_buf bytes = {0};
    hd_codec_encode_reply(reply, &bytes);
    hd_wire_server_send(shard->server, peer, &bytes);
}

/* A step of a chain with its frontier put in, as far as the tests here chain: events of START, entity lists of FACTS. */
static hd_step explicit_step(const hd_step *step, const hd_step_result *results) {
    hd_step given = *step;
    if (step->from_result < 0) return given;
    given.from_result = -1;
    given.events = results[step->from_result].events;
    given.edges = results[step->from_result].edges;
    given.names = (hd_name_batch){.count = results[step->from_result].names.count, .ids = results[step->from_result].names.ids};
    return given;
}

/* Goes on along the chain while steps are complete. */
static void answer_chain(hd_arena *arena, const hd_step_request *request, hd_step_reply *reply) {
    hd_step_request rest = *request;
    rest.step_count = 1;
    for (uint32_t s = 1; s < request->step_count; s++) {
        for (uint32_t p = 0; p < request->partition_count; p++) {
            if (reply->results[s - 1].verdicts[p].reach != HD_REACH_COMPLETE) return;
        }
        rest.scanned_max -= reply->results[s - 1].used_scanned;
        hd_step step = explicit_step(&request->steps[s], reply->results);
        rest.steps = &step;
        answer_step(arena, &rest, &reply->results[s]);
        reply->result_count = s + 1;
    }
}

static void break_reply(hd_step_reply *reply) {
    reply->results[0].number += 1;
}

static void fill_step_reply(fake_shard *shard, hd_arena *arena, const hd_step_request *request, hd_step_reply *reply) {
    int how = atomic_load(&shard->manner);
    reply->partition_count = request->partition_count;
    reply->partitions = get(arena, request->partition_count, sizeof(hd_partition_ref));
    reply->results = get(arena, request->step_count, sizeof(hd_step_result));
    reply->result_count = 1;
    answer_step(arena, request, reply->results);
    if (request->is_whole_org) answer_chain(arena, request, reply);
    for (uint32_t p = 0; p < request->partition_count; p++) {
        hd_verdict *verdict = &reply->results[0].verdicts[p];
        reply->partitions[p] = request->partitions[p];
        reply->partitions[p].resume = (hd_str){NULL, 0};
        bool is_gone = how == MANNER_GONE && request->partitions[p].sequence != 0;
        if (is_gone || how == MANNER_STALE || how == MANNER_STALE_ONCE) {
            verdict->reach = HD_REACH_FAILED;
            verdict->code = is_gone ? HD_SNAPSHOT_GONE : HD_MAP_STALE;
        } else if (how == MANNER_DEADLINE_CUT) {
            verdict->reach = HD_REACH_CUT;
            verdict->cap = HD_CAP_DEADLINE;
            verdict->resume = (hd_str){NULL, 0};
        }
        if (verdict->reach == HD_REACH_FAILED) continue;
        if (request->partitions[p].sequence == 0) reply->partitions[p].sequence = 100 + request->partitions[p].id;
        if (request->partitions[p].incarnation == 0) reply->partitions[p].incarnation = 55;
    }
    if (how == MANNER_STALE_ONCE) atomic_store(&shard->manner, MANNER_NORMAL);
    if (how == MANNER_STALE || how == MANNER_STALE_ONCE || how == MANNER_GONE) {
        bool is_any_failed = false;
        for (uint32_t p = 0; p < request->partition_count; p++)
            is_any_failed |= reply->results[0].verdicts[p].reach == HD_REACH_FAILED;
        if (is_any_failed) { /* nothing of them is in the tables */
            hd_verdict *verdicts = reply->results[0].verdicts;
            hd_step_request none = *request;
            none.partition_count = 0;
            reply->results[0] = (hd_step_result){0};
            answer_step(arena, &none, reply->results);
            reply->results[0].verdicts = verdicts;
            reply->results[0].verdict_count = request->partition_count;
        }
    }
}

static void answer_message(void *self, const hd_wire_peer *peer, hd_str payload) {
    fake_shard *shard = self;
    hd_arena *arena = hd_arena_new(0);
    hd_request request;
    if (hd_codec_decode_request(arena, payload, &request) != HD_OK) abort();
    hd_reply reply = {.id = request.id, .kind = request.kind};
    int how = atomic_load(&shard->manner);
    if (request.kind == HD_MESSAGE_CONTROL && request.control.kind == HD_CONTROL_CANCEL) {
        atomic_fetch_add(&shard->cancels, 1);
    } else if (request.kind == HD_MESSAGE_CONTROL) {
        atomic_fetch_add(&shard->hellos, 1);
        reply.control.shard_uuid = hd_str_of(shard->uuid);
        if (!atomic_load(&shard->is_deaf)) send_reply(shard, peer, &reply);
    } else {
        atomic_fetch_add(&shard->steps, 1);
        if (how == MANNER_BUSY) {
            reply.step.status = HD_BUSY;
        } else {
            pthread_rwlock_rdlock(&graph_lock);
            fill_step_reply(shard, arena, &request.step, &reply.step);
            pthread_rwlock_unlock(&graph_lock);
        }
        if (how == MANNER_SILENT) {
            hd_buf_clear(&shard->late);
            hd_codec_encode_reply(&reply, &shard->late);
            shard->late_peer = *peer;
        } else {
            if (shard->late.size > 0) hd_wire_server_send(shard->server, &shard->late_peer, &shard->late);
            if (how == MANNER_MISFIT) break_reply(&reply.step);
            if (how == MANNER_FORGED) {
                hd_buf noise = {0};
                hd_buf_add_str(&noise, HD_STR("\xff\x00 noise"));
                hd_wire_server_send(shard->server, peer, &noise);
                reply.id ^= 1;
                send_reply(shard, peer, &reply);
                reply.id ^= 1;
            }
            send_reply(shard, peer, &reply);
            if (how == MANNER_DOUBLE) send_reply(shard, peer, &reply);
        }
    }
    hd_arena_free(arena);
}

static void *run_shard(void *self) {
    fake_shard *shard = self;
    if (hd_wire_server_run(shard->server, answer_message, shard) != HD_OK) abort();
    return NULL;
}

static int start_shards(void **state) {
    (void)state;
    hd_wire_init();
    const char *endpoints[SHARDS_MAX];
    for (uint32_t s = 0; s < SHARDS_MAX; s++) {
        char endpoint[128];
        hd_error error = {0};
        snprintf(endpoint, sizeof(endpoint), "ipc://%s/shard-%u", folder, s);
        if (s == 1) snprintf(endpoint, sizeof(endpoint), "tcp://127.0.0.1:0");
        snprintf(shards[s].uuid, sizeof(shards[s].uuid), "shard-%u", s);
        if (hd_wire_server_new(endpoint, &shards[s].server, &error) != HD_OK) abort();
        endpoints[s] = hd_wire_server_endpoint(shards[s].server);
        if (pthread_create(&shards[s].thread, NULL, run_shard, &shards[s]) != 0) abort();
    }
    hd_error error = {0};
    if (co_topology_new(endpoints, SHARDS_MAX, &topology, &error) != HD_OK) abort();
    wire = hd_wire_client_new();
    return co_topology_wait(topology, hd_clock_monotonic_us() + 10000000) == SHARDS_MAX ? 0 : 1;
}

static int stop_shards(void **state) {
    (void)state;
    co_topology_free(topology);
    hd_wire_client_free(wire);
    for (uint32_t s = 0; s < SHARDS_MAX; s++) {
        hd_wire_server_stop(shards[s].server);
        pthread_join(shards[s].thread, NULL);
        hd_wire_server_free(shards[s].server);
        hd_buf_fini(&shards[s].late);
    }
    hd_wire_fini();
    return 0;
}

static int reset_manners(void **state) {
    (void)state;
    for (uint32_t s = 0; s < SHARDS_MAX; s++) atomic_store(&shards[s].manner, MANNER_NORMAL);
    return 0;
}

/* ---- one query's fan-out ---- */

typedef struct query {
    hd_arena *arena;
    co_partition partitions[PARTITIONS_MAX];
    co_org org;
    hd_budget budget;
    co_fanout *fanout;
} query;

static uint32_t pick_any(void *self, uint32_t waiting) {
    (void)self;
    return below(waiting);
}

/* An org of the graph's partitions over the first `shard_count` shards, dealt out at random but each used where possible. */
static void open_query(query *q, uint32_t shard_count, uint64_t deadline_ms) {
    *q = (query){.arena = hd_arena_new(0)};
    for (uint32_t p = 0; p < graph.partition_count; p++) {
        uint32_t shard = p < shard_count ? p : below(shard_count);
        q->partitions[p] = (co_partition){.id = p + 1, .epoch = 3, .shard = shards[shard].uuid};
    }
    q->org = (co_org){.id = ORG, .name = "acme", .dimension = DIMENSION, .partition_count = graph.partition_count};
    q->org.partitions = q->partitions;
    hd_budget_init(&q->budget);
    assert_int_equal(
        co_fanout_new(q->arena, topology, wire, &q->org, &q->budget, hd_clock_monotonic_us() + deadline_ms * 1000, &q->fanout),
        HD_OK);
}

static void close_query(query *q) {
    hd_arena_free(q->arena);
}

/* ---- random steps ---- */

static hd_arena *made;

static hd_event_batch pick_frontier(uint32_t count) {
    hd_event_batch batch = {.count = count};
    const model_event **rows = get(made, count, sizeof(*rows));
    hd_str *ids = get(made, count, sizeof(*ids));
    uint32_t first = below(graph.count);
    for (uint32_t i = 0; i < count; i++) {
        rows[i] = &graph.events[(first + i * 7) % graph.count];
        for (uint32_t k = 0; k < i; k++) {
            if (rows[k] == rows[i]) rows[i] = NULL;
        }
        ids[i] = rows[i] != NULL ? rows[i]->id : hd_str_of("nobody");
    }
    put_columns(made, &batch, rows, ids, count);
    batch.summaries = NULL;
    batch.locals = NULL;
    return batch;
}

/* By locals instead of ids, where all are there. */
static void name_by_locals(hd_event_batch *batch) {
    uint64_t *locals = get(made, batch->count, sizeof(*locals));
    for (uint32_t i = 0; i < batch->count; i++) {
        locals[i] = local_of(find_event(batch->ids[i]));
        if (locals[i] == HD_LOCAL_NONE) return;
    }
    batch->locals = locals;
    batch->ids = NULL;
}

static hd_step make_step(hd_step_kind kind) {
    hd_step step = {
        .kind = kind, .number = 1 + below(9), .from_result = -1, .frontier_label = HD_LABEL_EVENT, .dimension = DIMENSION};
    uint32_t count = 1 + below(HD_MIN(graph.count, 12));
    step.facets = HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS | HD_FACET_SUMMARY | HD_FACET_VECTOR;
    switch (kind) {
    case HD_STEP_START: {
        float *vector = get(made, DIMENSION, sizeof(*vector));
        step.frontier_label = HD_LABEL_NONE;
        step.start = (hd_start){.mode = below(2) ? HD_START_NEWEST : HD_START_CLOSEST, .k = 1 + below(8), .facets = step.facets};
        if (step.start.mode == HD_START_CLOSEST) {
            for (uint32_t d = 0; d < DIMENSION; d++) vector[d] = (float)below(5) - 2.0F;
            step.start.vector = vector;
            step.start.dimension = DIMENSION;
        }
        step.start.entity_groups = below(3);
        step.start.entities = get(made, step.start.entity_groups, sizeof(hd_name_group));
        for (uint32_t g = 0; g < step.start.entity_groups; g++) {
            step.start.entities[g].count = 1 + below(3);
            step.start.entities[g].ids = get(made, step.start.entities[g].count, sizeof(hd_id128));
            for (uint32_t i = 0; i < step.start.entities[g].count; i++) {
                step.start.entities[g].ids[i] = entity_id(below(ENTITIES + 1));
            }
        }
        break;
    }
    case HD_STEP_FACTS:
        if (below(3) == 0) {
            step.frontier_label = HD_LABEL_ENTITY;
            step.facets = below(2) ? HD_FACET_TYPE : 0;
        } else {
            step.events = pick_frontier(count);
            step.facets |= below(2) ? HD_FACET_ENTITIES : 0;
        }
        break;
    case HD_STEP_CONNECTED: step.facets = 0; /* fall through */
    case HD_STEP_POSTINGS: step.frontier_label = HD_LABEL_ENTITY; break;
    case HD_STEP_SHARES: step.shares_min = 1 + below(3); break;
    case HD_STEP_NEXT:
        step.events = pick_frontier(count);
        step.is_backward = below(2);
        step.kinds = (uint8_t)below(4);
        break;
    case HD_STEP_MEASURE: {
        step.facets = 0;
        step.events = pick_frontier(count);
        step.to_events = pick_frontier(1 + below(8));
        step.to_events.vectors = NULL;
        step.edges.from_count = count;
        step.edges.offsets = get(made, count + 1, 4);
        step.edges.to = get(made, count * 8 + 1, 4);
        uint32_t at = 0;
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t t = 0; t < step.to_events.count; t++) {
                if (below(3) == 0) step.edges.to[at++] = t;
            }
            step.edges.offsets[i + 1] = at;
        }
        break;
    }
    case HD_STEP_RESOLVE: {
        static const hd_str folded[] = {{"n0", 2}, {"n1", 2}};
        step.facets = 0;
        step.frontier_label = HD_LABEL_ENTITY;
        step.folded = (hd_str *)(uintptr_t)folded;
        step.folded_count = 2;
        break;
    }
    case HD_STEP_SIMILAR:
        step.events = pick_frontier(count);
        step.similar_k = 1 + below(5);
        break;
    }
    bool has_names = kind == HD_STEP_POSTINGS || kind == HD_STEP_CONNECTED || kind == HD_STEP_SHARES ||
                     (kind == HD_STEP_FACTS && step.frontier_label == HD_LABEL_ENTITY);
    if (has_names) {
        step.names.count = kind == HD_STEP_SHARES ? ENTITIES : 1 + below(ENTITIES);
        step.names.ids = get(made, step.names.count, sizeof(hd_id128));
        for (uint32_t i = 0; i < step.names.count; i++) step.names.ids[i] = entity_id(i);
        if ((kind == HD_STEP_POSTINGS || kind == HD_STEP_CONNECTED) && step.names.count > 1)
            step.names.ids[0] = entity_id(99); /* nobody */
    }
    if (kind == HD_STEP_SHARES) {
        step.events = pick_frontier(count);
        step.edges.from_count = count;
        step.edges.offsets = get(made, count + 1, 4);
        step.edges.to = get(made, count * ENTITIES, 4);
        uint32_t at = 0;
        for (uint32_t i = 0; i < count; i++) {
            const model_event *event = find_event(step.events.ids[i]);
            for (uint32_t e = 0; event != NULL && e < ENTITIES; e++) {
                if (event->has_entity[e]) step.edges.to[at++] = e;
            }
            step.edges.offsets[i + 1] = at;
        }
    }
    if (kind != HD_STEP_NEXT && below(2)) name_by_locals(&step.events);
    if (below(2)) name_by_locals(&step.to_events);
    step.facets |= kind != HD_STEP_MEASURE && step.frontier_label == HD_LABEL_EVENT && below(2) ? HD_FACET_ID : 0;
    return step;
}

/* What one place that has all partitions and no budget says. */
static void ask_oracle(hd_arena *arena, const hd_step *step, hd_step_result *result) {
    hd_partition_ref *refs = get(arena, graph.partition_count, sizeof(*refs));
    for (uint32_t p = 0; p < graph.partition_count; p++) refs[p] = (hd_partition_ref){.id = p + 1, .ordinal = p};
    hd_step_request request = {.partitions = refs,
                               .partition_count = graph.partition_count,
                               .is_whole_org = true,
                               .org_partitions = graph.partition_count,
                               .scanned_max = UINT64_MAX,
                               .measured_max = UINT64_MAX,
                               .steps = (hd_step *)(uintptr_t)step,
                               .step_count = 1};
    *result = (hd_step_result){0};
    answer_step(arena, &request, result);
}

/* ---- results as sorted lines of text ---- */

typedef struct lines {
    char *items[20000];
    uint32_t count;
} lines;

static int compare_lines(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_line(lines *l, hd_buf *text) {
    assert_true(l->count < HD_COUNT_OF(l->items));
    l->items[l->count++] = hd_str_to_c(hd_buf_get(text));
    hd_buf_clear(text);
}

static void free_lines(lines *l) {
    for (uint32_t i = 0; i < l->count; i++) hd_free(l->items[i]);
    hd_free(l);
}

static void print_event(hd_buf *text, const hd_event_batch *batch, uint32_t i, uint32_t facets) {
    const model_event *event = event_of_local(batch->locals[i]);
    hd_buf_printf(text, HD_STR_FMT " %u",
                  HD_STR_ARG(event != NULL        ? event->id
                             : batch->ids != NULL ? batch->ids[i]
                                                  : HD_STR("-")),
                  batch->flags[i]);
    if (facets & HD_FACET_ID) hd_buf_printf(text, " called " HD_STR_FMT, HD_STR_ARG(batch->ids[i]));
    if (!(batch->flags[i] & HD_EVENT_EXISTS)) return;
    if (facets & HD_FACET_TIME) hd_buf_printf(text, " at %ld", batch->timestamp_us[i]);
    if (facets & HD_FACET_ORDER) hd_buf_printf(text, " order %ld", batch->order_index[i]);
    if (facets & HD_FACET_THREAD) hd_buf_printf(text, " thread '" HD_STR_FMT "'", HD_STR_ARG(batch->threads[i]));
    if (facets & HD_FACET_PREVIOUS) hd_buf_printf(text, " previous '" HD_STR_FMT "'", HD_STR_ARG(batch->previous[i]));
    if (facets & HD_FACET_SUMMARY) hd_buf_printf(text, " summary '" HD_STR_FMT "'", HD_STR_ARG(batch->summaries[i]));
    for (uint32_t d = 0; (facets & HD_FACET_VECTOR) && d < DIMENSION; d++) {
        hd_buf_printf(text, " %g", (double)batch->vectors[(size_t)i * DIMENSION + d]);
    }
}

static void print_name(hd_buf *text, const hd_name_batch *batch, uint32_t i) {
    hd_buf_printf(text, HD_STR_FMT " in %lu", HD_STR_ARG(batch->names[i]), batch->event_count[i]);
    if (batch->types == NULL || batch->types[i].data == NULL) return;
    hd_buf_printf(text, " type " HD_STR_FMT " since %ld " HD_STR_FMT, HD_STR_ARG(batch->types[i]), batch->type_at_us[i],
                  HD_STR_ARG(batch->type_events[i]));
}

static void print_via(hd_buf *text, const hd_step_result *result, uint32_t edge) {
    char *names[ENTITIES + 1];
    uint32_t count = 0;
    const hd_edges *edges = &result->edges;
    for (uint32_t v = edges->via_offsets[edge]; v < edges->via_offsets[edge + 1]; v++) {
        names[count++] = hd_str_to_c(result->names.names[edges->via[v]]);
    }
    qsort(names, count, sizeof(*names), compare_lines);
    for (uint32_t i = 0; i < count; i++) {
        hd_buf_printf(text, " %s", names[i]);
        hd_free(names[i]);
    }
}

/* Everything that the contract promises of a result, one fact a line, sorted. */
static lines *describe(const hd_step *step, const hd_step_result *result) {
    lines *l = hd_alloc_zero(1, sizeof(*l));
    hd_buf text = {0};
    const hd_edges *edges = &result->edges;
    bool is_aligned = step->kind == HD_STEP_START || step->kind == HD_STEP_FACTS;
    for (uint32_t i = 0; i < result->events.count && is_aligned; i++) {
        hd_buf_printf(&text, "event %02u ", i);
        print_event(&text, &result->events, i, step->facets);
        if (result->events.scores != NULL) hd_buf_printf(&text, " score %g", result->events.scores[i]);
        add_line(l, &text);
    }
    bool are_names_aligned =
        step->kind == HD_STEP_POSTINGS || (step->kind == HD_STEP_FACTS && step->frontier_label != HD_LABEL_EVENT);
    bool is_table_free = (step->kind == HD_STEP_FACTS && !are_names_aligned) ||
                         step->kind == HD_STEP_CONNECTED; /* which names stand there beside the edges is open */
    for (uint32_t i = 0; i < result->names.count && !is_table_free; i++) {
        if (are_names_aligned) hd_buf_printf(&text, "%02u ", i);
        hd_buf_printf(&text, "name ");
        print_name(&text, &result->names, i);
        if (step->kind == HD_STEP_RESOLVE) hd_buf_printf(&text, " folded %u", result->fold_of[i]);
        add_line(l, &text);
    }
    for (uint32_t i = 0; i < edges->from_count && edges->offsets != NULL; i++) {
        for (uint32_t e = edges->offsets[i]; e < edges->offsets[i + 1]; e++) {
            hd_buf_printf(&text, "edge %02u ", i);
            if (step->kind == HD_STEP_MEASURE) {
                hd_buf_printf(&text, "%u: %d %.6f", e, edges->is_answered[e], isnan(edges->cos[e]) ? -9.0 : edges->cos[e]);
            } else if (step->kind == HD_STEP_CONNECTED) {
                hd_buf_printf(&text, HD_STR_FMT " %lu", HD_STR_ARG(result->names.names[edges->to[e]]), edges->counts[e]);
            } else if (step->kind == HD_STEP_FACTS) {
                hd_buf_printf(&text, HD_STR_FMT, HD_STR_ARG(result->names.names[edges->to[e]]));
            } else {
                print_event(&text, &result->events, edges->to[e], step->facets);
                if (step->kind == HD_STEP_NEXT) hd_buf_printf(&text, " source %u", edges->kinds[e]);
                if (step->kind == HD_STEP_SHARES) print_via(&text, result, e);
                if (step->kind == HD_STEP_SIMILAR) hd_buf_printf(&text, " cos %.6f", edges->cos[e]);
            }
            add_line(l, &text);
        }
    }
    if (step->kind == HD_STEP_START) {
        hd_buf_printf(&text, "more %d candidates %lu exact %d", result->has_more, result->candidates, result->is_candidates_exact);
        for (uint32_t i = 0; i < result->group_count_count; i++) hd_buf_printf(&text, " %lu", result->group_counts[i]);
        add_line(l, &text);
    }
    qsort(l->items, l->count, sizeof(l->items[0]), compare_lines);
    hd_buf_fini(&text);
    return l;
}

static void assert_same(const lines *got, const lines *wanted) {
    for (uint32_t i = 0; i < HD_MAX(got->count, wanted->count); i++) {
        const char *a = i < got->count ? got->items[i] : "(nothing)", *b = i < wanted->count ? wanted->items[i] : "(nothing)";
        if (strcmp(a, b) != 0) fail_msg("line %u: got\n  %s\nwanted\n  %s", i, a, b);
    }
}

/* Every edge is one of the full answer; of tables that are cut nothing more is promised. */
static void assert_part(const lines *got, const lines *wanted) {
    for (uint32_t i = 0, at = 0; i < got->count; i++) {
        if (strncmp(got->items[i], "edge", 4) != 0) continue;
        while (at < wanted->count && strcmp(wanted->items[at], got->items[i]) < 0) at++;
        if (at == wanted->count || strcmp(wanted->items[at], got->items[i]) != 0)
            fail_msg("not in the full answer: %s", got->items[i]);
        at++;
    }
}

/* ---- the tests ---- */

static void merged_results_are_those_of_one_place(void **state) {
    for (uint32_t round = 0; round < 400; round++) {
        make_graph(1U << below(3));
        hd_arena_reset(made);
        query q;
        open_query(&q, 1 + below(SHARDS_MAX), 10000);
        if (below(2)) co_fanout_set_faults(q.fanout, &(co_fanout_faults){.pick_next = pick_any});
        for (uint32_t kind = HD_STEP_START; kind <= HD_STEP_SIMILAR; kind++) {
            hd_step step = make_step((hd_step_kind)kind);
            hd_step_result result, wanted;
            co_step_outcome outcome;
            assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_OK);
            assert_true(outcome.is_complete && !outcome.is_any_missing && outcome.cut_count == 0);
            assert_int_equal(result.number, step.number);
            ask_oracle(q.arena, &step, &wanted);
            lines *got_lines = describe(&step, &result), *wanted_lines = describe(&step, &wanted);
            assert_same(got_lines, wanted_lines);
            free_lines(got_lines);
            free_lines(wanted_lines);
            if (kind != HD_STEP_FACTS && kind != HD_STEP_MEASURE) {
                assert_int_equal(outcome.n_live, graph.count);
                assert_int_equal(outcome.partitions_asked, graph.partition_count);
            }
        }
        close_query(&q);
    }
}

/* For each value of the budget's cap: nothing over it, nothing of it left where the step was cut, and no cut where it sufficed. */
static void budgets_are_shared_out_to_the_last_unit(void **state) {
    uint32_t cuts = 0, completes = 0;
    for (uint32_t round = 0; round < 40; round++) {
        make_graph(1U << below(3));
        hd_arena_reset(made);
        /* RESOLVE costs nothing here */
        hd_step step = make_step(round % 8 >= 6 ? (hd_step_kind)(HD_STEP_CONNECTED + round % 8 - 6)
                                                : (hd_step_kind)(HD_STEP_START + round % 8));
        hd_cap cap = step.kind == HD_STEP_MEASURE || step.kind == HD_STEP_SIMILAR ? HD_CAP_MEASURED : HD_CAP_SCANNED;
        hd_arena *arena = hd_arena_new(0);
        hd_step_result wanted;
        ask_oracle(arena, &step, &wanted);
        /* NEXT looks at each frontier event once a partition; the oracle is no partition wiser. */
        uint64_t cost = cap == HD_CAP_MEASURED ? wanted.used_measured : wanted.used_scanned;
        lines *wanted_lines = describe(&step, &wanted);
        uint32_t shard_count = 1 + below(SHARDS_MAX);
        for (uint64_t limit = 0; limit <= cost + 1;
             limit += cost > 40 && limit + 4 < cost ? 1 + below(1 + (uint32_t)cost / 20) : 1) {
            query q;
            open_query(&q, shard_count, 20000);
            q.budget.caps[cap] = limit;
            hd_step_result result;
            co_step_outcome outcome;
            assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_OK);
            if (step.kind == HD_STEP_CONNECTED) result.edges.from_count = HD_MIN(result.edges.from_count, outcome.done);
            lines *got_lines = describe(&step, &result);
            assert_true(!outcome.is_any_missing);
            if (limit >= cost) {
                assert_true(outcome.is_complete);
                assert_true(q.budget.used[cap] == cost);
                assert_same(got_lines, wanted_lines);
                completes++;
            } else {
                assert_false(outcome.is_complete);
                assert_int_equal(outcome.cut_count, 1);
                assert_int_equal(outcome.cuts[0].cap, cap);
                assert_true(outcome.cuts[0].partitions >= 1);
                assert_true(q.budget.used[cap] == limit);
                if (step.kind != HD_STEP_MEASURE && step.kind != HD_STEP_SIMILAR) assert_part(got_lines, wanted_lines);
                cuts++;
            }
            free_lines(got_lines);
            close_query(&q);
        }
        free_lines(wanted_lines);
        hd_arena_free(arena);
    }
    assert_true(cuts > 50 && completes > 50);
}

/* start → its entities → what shares them: in one go as one by one, cut short wherever the budget ends. */
static void a_chain_is_as_good_as_its_steps(void **state) {
    uint32_t whole = 0, cut = 0;
    for (uint32_t round = 0; round < 60; round++) {
        make_graph(1U << below(3));
        hd_arena_reset(made);
        query q;
        open_query(&q, 1, 20000);
        assert_true(co_fanout_can_chain(q.fanout));
        hd_step steps[3] = {make_step(HD_STEP_START), make_step(HD_STEP_FACTS), make_step(HD_STEP_SHARES)};
        steps[1].frontier_label = HD_LABEL_EVENT;
        steps[1].facets = HD_FACET_ENTITIES;
        for (int s = 1; s < 3; s++) {
            steps[s].events = (hd_event_batch){0};
            steps[s].names = (hd_name_batch){0};
            steps[s].edges = (hd_edges){0};
            steps[s].from_result = s - 1;
        }
        if (below(2)) q.budget.caps[HD_CAP_SCANNED] = below(100);
        hd_step_result results[3], wanted[3];
        co_step_outcome outcomes[3];
        uint32_t count = 0;
        assert_int_equal(co_fanout_run_chain(q.fanout, steps, 3, results, outcomes, &count), HD_OK);
        assert_true(count >= 1 && count <= 3);
        assert_true(q.budget.used[HD_CAP_SCANNED] <= q.budget.caps[HD_CAP_SCANNED]);
        for (uint32_t s = 0; s < count; s++) {
            hd_step step = explicit_step(&steps[s], wanted);
            ask_oracle(q.arena, &step, &wanted[s]);
            if (s + 1 < count || outcomes[s].is_complete) {
                assert_true(outcomes[s].is_complete);
                lines *got_lines = describe(&step, &results[s]), *wanted_lines = describe(&step, &wanted[s]);
                assert_same(got_lines, wanted_lines);
                free_lines(got_lines);
                free_lines(wanted_lines);
            } else {
                assert_int_equal(outcomes[s].cuts[0].cap, HD_CAP_SCANNED);
                assert_true(q.budget.used[HD_CAP_SCANNED] == q.budget.caps[HD_CAP_SCANNED]);
                cut++;
            }
        }
        whole += count == 3 && outcomes[2].is_complete;
        close_query(&q);
    }
    assert_true(whole > 5 && cut > 5);
}

static void a_chain_that_is_not_answered_says_so(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    const struct {
        int manner;
        hd_cap cap;
        uint64_t deadline_ms;
    } cases[] = {{MANNER_SILENT, HD_CAP_SHARD_UNAVAILABLE, 60},
                 {MANNER_MISFIT, HD_CAP_SHARD_UNAVAILABLE, 10000},
                 {MANNER_BUSY, HD_CAP_SHARD_UNAVAILABLE, 10000},
                 {MANNER_STALE, HD_CAP_SHARD_UNAVAILABLE, 10000},
                 {MANNER_NORMAL, HD_CAP_DEADLINE, 0}};
    for (size_t i = 0; i < HD_COUNT_OF(cases); i++) {
        atomic_store(&shards[0].manner, cases[i].manner);
        query q;
        open_query(&q, 1, cases[i].deadline_ms);
        hd_step steps[2] = {make_step(HD_STEP_START), make_step(HD_STEP_FACTS)};
        steps[1] = (hd_step){.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ENTITIES};
        hd_step_result results[2];
        co_step_outcome outcomes[2];
        uint32_t count = 0;
        assert_int_equal(co_fanout_run_chain(q.fanout, steps, 2, results, outcomes, &count), HD_OK);
        assert_int_equal(count, 1);
        assert_true(outcomes[0].is_any_missing);
        assert_int_equal(outcomes[0].cuts[0].cap, cases[i].cap);
        assert_int_equal(outcomes[0].cuts[0].partitions, 2);
        assert_int_equal(results[0].events.count, 0);
        close_query(&q);
    }
    atomic_store(&shards[0].manner, MANNER_STALE_ONCE);
    query q;
    open_query(&q, 1, 10000);
    hd_step step = make_step(HD_STEP_START);
    hd_step_result result;
    co_step_outcome outcome;
    uint32_t count;
    assert_int_equal(co_fanout_run_chain(q.fanout, &step, 1, &result, &outcome, &count), HD_OK);
    assert_true(count == 1 && outcome.is_complete);
    close_query(&q);
}

static hd_step_result ask(query *q, const hd_step *step, co_step_outcome *outcome) {
    hd_step_result result;
    assert_int_equal(co_fanout_run(q->fanout, step, &result, outcome), HD_OK);
    return result;
}

static void assert_still_right(uint32_t shard_count) {
    query q;
    open_query(&q, shard_count, 10000);
    hd_step step = make_step(HD_STEP_POSTINGS);
    co_step_outcome outcome;
    hd_step_result result = ask(&q, &step, &outcome), wanted;
    assert_true(outcome.is_complete);
    ask_oracle(q.arena, &step, &wanted);
    lines *got_lines = describe(&step, &result), *wanted_lines = describe(&step, &wanted);
    assert_same(got_lines, wanted_lines);
    free_lines(got_lines);
    free_lines(wanted_lines);
    close_query(&q);
}

static void doubled_late_and_forged_replies_are_dropped(void **state) {
    make_graph(4);
    hd_arena_reset(made);
    for (int how = MANNER_DOUBLE; how <= MANNER_FORGED; how++) {
        for (uint32_t s = 0; s < SHARDS_MAX; s++) atomic_store(&shards[s].manner, how);
        for (int i = 0; i < 5; i++) assert_still_right(3);
    }
    reset_manners(NULL);
    assert_still_right(3);
}

static void a_silent_shard_costs_its_partitions_only(void **state) {
    make_graph(4);
    hd_arena_reset(made);
    atomic_store(&shards[1].manner, MANNER_SILENT);
    int cancels = atomic_load(&shards[1].cancels);
    query q;
    open_query(&q, 4, 60);
    hd_step step = make_step(HD_STEP_POSTINGS);
    co_step_outcome outcome;
    hd_step_result result = ask(&q, &step, &outcome), wanted;
    assert_true(!outcome.is_complete && outcome.is_any_missing);
    assert_int_equal(outcome.cut_count, 1);
    assert_int_equal(outcome.cuts[0].cap, HD_CAP_SHARD_UNAVAILABLE);
    assert_int_equal(outcome.cuts[0].partitions, 1);
    char *detail = hd_str_to_c(outcome.cuts[0].detail);
    assert_string_equal(detail, "partition 2 of 4 (shard shard-1): no answer by the deadline");
    hd_free(detail);
    ask_oracle(q.arena, &step, &wanted);
    lines *got_lines = describe(&step, &result), *wanted_lines = describe(&step, &wanted);
    assert_part(got_lines, wanted_lines);
    free_lines(got_lines);
    free_lines(wanted_lines);
    close_query(&q);
    uint64_t until = hd_clock_monotonic_us() + 5000000;
    while (atomic_load(&shards[1].cancels) == cancels) assert_true(hd_clock_monotonic_us() < until);
    /* The answer that was held back comes with the next query's, and is nobody's. */
    atomic_store(&shards[1].manner, MANNER_NORMAL);
    assert_still_right(4);
}

static void a_passed_deadline_asks_nobody(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    query q;
    open_query(&q, 2, 0);
    int steps = atomic_load(&shards[0].steps);
    hd_step step = make_step(HD_STEP_NEXT);
    co_step_outcome outcome;
    hd_step_result result = ask(&q, &step, &outcome);
    assert_int_equal(hd_edges_count(&result.edges), 0);
    assert_int_equal(outcome.cut_count, 1);
    assert_int_equal(outcome.cuts[0].cap, HD_CAP_DEADLINE);
    assert_true(outcome.is_any_missing);
    assert_int_equal(atomic_load(&shards[0].steps), steps);
    close_query(&q);
}

/* What every kind gives when nothing can be had: aligned tables that say so, and no edges. */
static void an_unknown_shard_is_not_waited_for(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    query q;
    open_query(&q, 1, 30000);
    for (uint32_t p = 0; p < 2; p++) q.partitions[p].shard = "no-such-shard";
    q.fanout = NULL;
    assert_int_equal(co_fanout_new(q.arena, topology, wire, &q.org, &q.budget, hd_clock_monotonic_us() + 30000000, &q.fanout),
                     HD_OK);
    uint64_t before = hd_clock_monotonic_us();
    for (uint32_t kind = HD_STEP_START; kind <= HD_STEP_SIMILAR; kind++) {
        hd_step step = make_step((hd_step_kind)kind);
        co_step_outcome outcome;
        hd_step_result result = ask(&q, &step, &outcome);
        if (outcome.partitions_asked == 0) continue; /* MEASURE without an edge */
        assert_int_equal(outcome.cuts[0].cap, HD_CAP_SHARD_UNAVAILABLE);
        assert_true(outcome.is_any_missing);
        if (kind == HD_STEP_MEASURE) {
            for (uint32_t e = 0; e < hd_edges_count(&step.edges); e++) {
                assert_true(!result.edges.is_answered[e] && isnan(result.edges.cos[e]));
            }
        } else {
            assert_int_equal(hd_edges_count(&result.edges), 0);
        }
        if (kind == HD_STEP_FACTS && step.frontier_label == HD_LABEL_EVENT) {
            assert_int_equal(result.events.count, step.events.count);
            for (uint32_t i = 0; i < step.events.count; i++) {
                assert_int_equal(result.events.flags[i], 0);
                assert_true(result.events.locals[i] == HD_LOCAL_NONE);
                if (step.events.ids != NULL) assert_true(hd_str_is_equal(result.events.ids[i], step.events.ids[i]));
            }
        }
        if (kind == HD_STEP_POSTINGS) assert_int_equal(result.names.count, step.names.count);
        if (kind == HD_STEP_START) assert_false(result.is_candidates_exact);
    }
    assert_true(hd_clock_monotonic_us() - before < 20000000); /* far below the deadline */
    close_query(&q);
}

/* A thread's next event may be in the partition that is missing; a farther one must not stand in for it. */
static void without_a_partition_no_thread_edge_is_claimed(void **state) {
    for (uint32_t round = 0; round < 20; round++) {
        make_graph(4);
        hd_arena_reset(made);
        query q;
        open_query(&q, 4, 30000);
        q.partitions[2].shard = "no-such-shard";
        assert_int_equal(co_fanout_new(q.arena, topology, wire, &q.org, &q.budget, hd_clock_monotonic_us() + 30000000, &q.fanout),
                         HD_OK);
        hd_step step = make_step(HD_STEP_NEXT);
        co_step_outcome outcome;
        hd_step_result result = ask(&q, &step, &outcome), wanted;
        assert_true(outcome.is_any_missing);
        for (uint32_t e = 0; e < hd_edges_count(&result.edges); e++) assert_int_equal(result.edges.kinds[e], HD_SOURCE_EXPLICIT);
        ask_oracle(q.arena, &step, &wanted);
        lines *got_lines = describe(&step, &result), *wanted_lines = describe(&step, &wanted);
        assert_part(got_lines, wanted_lines);
        free_lines(got_lines);
        free_lines(wanted_lines);
        close_query(&q);
    }
}

static void answers_that_do_not_fit_are_not_used(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    atomic_store(&shards[0].manner, MANNER_MISFIT);
    query q;
    open_query(&q, 2, 10000);
    hd_step step = make_step(HD_STEP_POSTINGS);
    co_step_outcome outcome;
    (void)ask(&q, &step, &outcome);
    assert_int_equal(outcome.cut_count, 1);
    assert_int_equal(outcome.cuts[0].cap, HD_CAP_SHARD_UNAVAILABLE);
    assert_int_equal(outcome.cuts[0].partitions, 1);
    atomic_store(&shards[0].manner, MANNER_BUSY);
    (void)ask(&q, &step, &outcome);
    assert_int_equal(outcome.cuts[0].cap, HD_CAP_SHARD_UNAVAILABLE);
    assert_non_null(strstr(outcome.cuts[0].detail.data, "waiting"));
    close_query(&q);
}

static void a_stale_map_is_asked_once_more(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    atomic_store(&shards[0].manner, MANNER_STALE_ONCE);
    assert_still_right(2);
    assert_int_equal(atomic_load(&shards[0].manner), MANNER_NORMAL);
    atomic_store(&shards[0].manner, MANNER_STALE);
    int steps = atomic_load(&shards[0].steps);
    query q;
    open_query(&q, 2, 10000);
    hd_step step = make_step(HD_STEP_POSTINGS);
    co_step_outcome outcome;
    (void)ask(&q, &step, &outcome);
    assert_int_equal(outcome.cuts[0].cap, HD_CAP_SHARD_UNAVAILABLE);
    assert_int_equal(atomic_load(&shards[0].steps), steps + 2);
    close_query(&q);
}

static void a_snapshot_that_is_gone_restarts_once_then_cuts(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    query q;
    open_query(&q, 2, 10000);
    hd_step step = make_step(HD_STEP_POSTINGS);
    co_step_outcome outcome;
    hd_step_result result;
    assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_OK); /* fixes the snapshots */
    uint64_t used = q.budget.used[HD_CAP_SCANNED];
    atomic_store(&shards[1].manner, MANNER_GONE);
    assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_SNAPSHOT_GONE);
    co_fanout_restart(q.fanout);
    assert_int_equal(q.budget.used[HD_CAP_SCANNED], 0);
    assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_OK); /* asks for no sequence now */
    assert_true(outcome.is_complete);
    assert_true(q.budget.used[HD_CAP_SCANNED] == used);
    assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_OK);
    assert_false(outcome.is_complete);
    assert_int_equal(outcome.cuts[0].cap, HD_CAP_SNAPSHOT);
    close_query(&q);
}

static void a_cut_by_the_deadline_is_not_gone_on_with(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    for (uint32_t s = 0; s < 2; s++) atomic_store(&shards[s].manner, MANNER_DEADLINE_CUT);
    int steps = atomic_load(&shards[0].steps);
    query q;
    open_query(&q, 2, 10000);
    hd_step step = make_step(HD_STEP_POSTINGS);
    co_step_outcome outcome;
    (void)ask(&q, &step, &outcome);
    assert_int_equal(outcome.cuts[0].cap, HD_CAP_DEADLINE);
    assert_int_equal(outcome.cuts[0].partitions, 2);
    assert_false(outcome.is_any_missing);
    assert_int_equal(atomic_load(&shards[0].steps), steps + 1);
    close_query(&q);
}

static bool is_gone_at_once(void *self) {
    (void)self;
    return true;
}

static void a_caller_that_is_gone_ends_the_step(void **state) {
    make_graph(2);
    hd_arena_reset(made);
    atomic_store(&shards[0].manner, MANNER_SILENT);
    int cancels = atomic_load(&shards[0].cancels);
    query q;
    open_query(&q, 2, 60000);
    co_fanout_set_gone(q.fanout, is_gone_at_once, NULL);
    hd_step step = make_step(HD_STEP_POSTINGS);
    co_step_outcome outcome;
    hd_step_result result;
    assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_CANCELLED);
    close_query(&q);
    uint64_t until = hd_clock_monotonic_us() + 5000000;
    while (atomic_load(&shards[0].cancels) == cancels) assert_true(hd_clock_monotonic_us() < until);
}

static void only_owners_are_asked_for_events(void **state) {
    make_graph(4);
    hd_arena_reset(made);
    query q;
    open_query(&q, 4, 10000);
    const model_event *event = &graph.events[0];
    uint32_t owner = partition_of(event);
    int before[SHARDS_MAX];
    for (uint32_t s = 0; s < SHARDS_MAX; s++) before[s] = atomic_load(&shards[s].steps);
    hd_str id = event->id;
    hd_step step = {.kind = HD_STEP_FACTS, .from_result = -1, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_TIME};
    step.events = (hd_event_batch){.count = 1, .ids = &id};
    co_step_outcome outcome;
    hd_step_result result = ask(&q, &step, &outcome);
    assert_int_equal(outcome.partitions_asked, 1);
    assert_int_equal(result.events.timestamp_us[0], event->timestamp_us);
    for (uint32_t s = 0; s < SHARDS_MAX; s++) assert_int_equal(atomic_load(&shards[s].steps) - before[s], s == owner);
    step.events.count = 0;
    result = ask(&q, &step, &outcome);
    assert_true(outcome.is_complete && outcome.partitions_asked == 0 && result.events.count == 0);
    close_query(&q);
}

static void a_step_that_breaks_the_contract_is_not_sent(void **state) {
    make_graph(1);
    hd_arena_reset(made);
    query q;
    open_query(&q, 1, 10000);
    hd_step step = make_step(HD_STEP_SHARES);
    step.shares_min = 0;
    co_step_outcome outcome;
    hd_step_result result;
    assert_int_equal(co_fanout_run(q.fanout, &step, &result, &outcome), HD_INTERNAL);
    close_query(&q);
}

static void a_shard_that_goes_silent_is_down_after_a_while(void **state) {
    char endpoint[256];
    assert_int_equal(co_topology_find(topology, "shard-3", endpoint), HD_OK);
    assert_string_equal(endpoint, hd_wire_server_endpoint(shards[3].server));
    assert_int_equal(co_topology_find(topology, "", endpoint), HD_SHARD_DOWN);
    atomic_store(&shards[3].is_deaf, true);
    uint64_t until = hd_clock_monotonic_us() + 20000000;
    while (co_topology_find(topology, "shard-3", endpoint) == HD_OK) {
        assert_true(hd_clock_monotonic_us() < until);
        usleep(10000);
    }
    atomic_store(&shards[3].is_deaf, false);
    while (co_topology_find(topology, "shard-3", endpoint) != HD_OK) {
        assert_true(hd_clock_monotonic_us() < until);
        usleep(10000);
    }
    co_shard_info *infos;
    uint32_t count;
    hd_arena *arena = hd_arena_new(0);
    assert_int_equal(co_topology_list(topology, arena, &infos, &count), HD_OK);
    assert_int_equal(count, SHARDS_MAX);
    for (uint32_t s = 0; s < count; s++) assert_true(infos[s].is_alive);
    hd_arena_free(arena);
}

int main(int argc, char **argv) {
    randomness.state = test_seed(argc, argv);
    made = hd_arena_new(0);
    snprintf(folder, sizeof(folder), "/tmp/heddle-fanout-%d", (int)getpid());
    mkdir(folder, 0700);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(merged_results_are_those_of_one_place, reset_manners),
        cmocka_unit_test_setup(budgets_are_shared_out_to_the_last_unit, reset_manners),
        cmocka_unit_test_setup(a_chain_is_as_good_as_its_steps, reset_manners),
        cmocka_unit_test_setup(a_chain_that_is_not_answered_says_so, reset_manners),
        cmocka_unit_test_setup(doubled_late_and_forged_replies_are_dropped, reset_manners),
        cmocka_unit_test_setup(a_silent_shard_costs_its_partitions_only, reset_manners),
        cmocka_unit_test_setup(a_passed_deadline_asks_nobody, reset_manners),
        cmocka_unit_test_setup(an_unknown_shard_is_not_waited_for, reset_manners),
        cmocka_unit_test_setup(without_a_partition_no_thread_edge_is_claimed, reset_manners),
        cmocka_unit_test_setup(answers_that_do_not_fit_are_not_used, reset_manners),
        cmocka_unit_test_setup(a_stale_map_is_asked_once_more, reset_manners),
        cmocka_unit_test_setup(a_snapshot_that_is_gone_restarts_once_then_cuts, reset_manners),
        cmocka_unit_test_setup(a_cut_by_the_deadline_is_not_gone_on_with, reset_manners),
        cmocka_unit_test_setup(a_caller_that_is_gone_ends_the_step, reset_manners),
        cmocka_unit_test_setup(only_owners_are_asked_for_events, reset_manners),
        cmocka_unit_test_setup(a_step_that_breaks_the_contract_is_not_sent, reset_manners),
        cmocka_unit_test_setup(a_shard_that_goes_silent_is_down_after_a_while, reset_manners),
    };
    int failed = cmocka_run_group_tests(tests, start_shards, stop_shards);
    hd_arena_free(made);
    rmdir(folder);
    return failed;
}
