/* The graph of one partition in memory: events (each version), names, postings, threads, all multi-version by commit sequence.
 * Derived from the store, rebuilt from it at load; knows nothing of RocksDB or of the wire.
 *
 * One writer at a time (the shard's writer thread, or the loader before anyone else sees the graph); any number of readers, which
 * take no lock. What makes that safe:
 *   - An event version is a *slot* (u32), given in order and never reused while the graph lives. Columns are bucket arrays whose
 *     buckets never move. A slot's columns are written before the slot count is published.
 *   - Postings, threads and the timeline only grow. Memory that growth replaces is retired (epoch.h) and freed when no reader that
 *     could hold it is left.
 *   - What a reader sees is decided by its *sequence*: born ≤ sequence < died. A view fixes it.
 * A replaced event is a new slot; the old one dies at the same sequence. A deleted event's slot dies. */
#ifndef SH_GRAPH_H
#define SH_GRAPH_H

#include "common/graph.h"
#include "proto/write.h"

typedef struct sh_graph sh_graph;
typedef uint32_t sh_slot;
enum { SH_NONE = UINT32_MAX };
#define SH_ALIVE UINT64_MAX /* `died` of a live version */

/* A reader's pin on one state of a graph. On the reader's stack; valid between enter and leave, within one thread. */
typedef struct sh_view {
    sh_graph *graph;
    uint64_t sequence;            /* what is seen */
    sh_slot slot_end;             /* slots at or above were born later */
    uint32_t entity_end, tag_end; /* numbers at or above were given later */
    uint32_t epoch;               /* for leave */
} sh_view;

typedef struct sh_tag_mark {
    uint32_t tag;  /* tag number */
    uint8_t kinds; /* HD_KIND_* bits */
} sh_tag_mark;

/* The columns of one slot, lent until the view is left. Strings point into the graph's memory. */
typedef struct sh_event {
    hd_str id;
    int64_t timestamp_us, order_index;
    uint8_t flags;                   /* HD_EVENT_EXISTS | HAS_VECTOR | HAS_THREAD | HAS_ORDER */
    uint8_t entity_count, tag_count; /* tags: distinct */
    uint32_t thread;                 /* thread number or SH_NONE */
    uint32_t vector;                 /* row in the vector index, or SH_NONE */
    hd_str previous;                 /* explicit prev_event_id; absent string where none */
    const uint32_t *entities;        /* entity numbers, in the order saved */
    const uint32_t *entities_sorted; /* the same, ascending by number: for intersections */
    const sh_tag_mark *tags;         /* in the order saved */
    uint64_t record;                 /* the store's number of this version: key of summary, content */
} sh_event;

/* -- lifetime ------------------------------------------------------------------------------------------------------------ */
sh_graph *sh_graph_new(uint32_t dimension);
void sh_graph_free(sh_graph *graph); /* no reader may be inside */
size_t sh_graph_memory_bytes(const sh_graph *graph);

/* -- writing (writer thread) ---------------------------------------------------------------------------------------------- */
/* Adds a version born at `sequence`; what the record points to is copied. If a live version of the id exists, it dies at
 * `sequence`. Nothing is seen before sh_graph_publish. Sequences never go back, and are above the published one. A vector is of the
 * graph's dimension: the writer has checked it. Beyond 255 distinct entities or tags the rest is left out (tools.md: 64, 32). */
sh_slot sh_graph_apply_save(sh_graph *graph, const hd_event_record *record, uint64_t record_number, uint64_t sequence);
/* The live version of `id` dies at `sequence`; false when there is none. */
bool sh_graph_apply_delete(sh_graph *graph, hd_str id, uint64_t sequence);
/* Makes everything up to `sequence` visible to views entered from now on, and frees what no reader can hold any more. The first
 * call is the end of the load: views of an older sequence are refused. */
void sh_graph_publish(sh_graph *graph, uint64_t sequence);
/* The live version of an id for the writer itself (unpublished ones included), or SH_NONE. */
sh_slot sh_graph_find_live(const sh_graph *graph, hd_str id);

/* -- views ------------------------------------------------------------------------------------------------------------------ */
/* `sequence` 0: the newest published. False: it lies in the future of this graph, or before what its load can show. */
bool sh_view_enter(sh_graph *graph, uint64_t sequence, sh_view *view_out);
void sh_view_leave(sh_view *view);

uint64_t sh_view_live_events(const sh_view *view);  /* N: O(log) */
uint64_t sh_view_live_vectors(const sh_view *view); /* of those, with a vector */
bool sh_view_is_visible(const sh_view *view, sh_slot slot);
sh_slot sh_view_find_event(const sh_view *view, hd_str id); /* the visible version, or SH_NONE */
void sh_view_get_event(const sh_view *view, sh_slot slot, sh_event *event_out);
/* Just the hot parts, for loops. */
int64_t sh_view_timestamp(const sh_view *view, sh_slot slot);
hd_str sh_view_event_id(const sh_view *view, sh_slot slot);
/* For loops over many events in no order of memory: has the event's row on its way to the cache; its id and lists, once the row is. */
void sh_view_prefetch_row(const sh_view *view, sh_slot slot);
void sh_view_prefetch_parts(const sh_view *view, sh_slot slot);
/* Just the entity numbers, ascending; and them alone on their way to the cache, once the row is there. */
const uint32_t *sh_view_entities_sorted(const sh_view *view, sh_slot slot, uint32_t *count_out);
void sh_view_prefetch_entities(const sh_view *view, sh_slot slot);

/* -- names: entities and tags have dense numbers of their own --------------------------------------------------------------- */
uint32_t sh_view_find_entity(const sh_view *view, hd_id128 id); /* number, or SH_NONE; existing means event_count > 0 */
uint32_t sh_view_find_tag(const sh_view *view, hd_id128 id);
uint32_t sh_view_entity_numbers(const sh_view *view); /* all that this view gives out are below; does not change under it */
uint32_t sh_view_tag_numbers(const sh_view *view);
hd_str sh_view_entity_name(const sh_view *view, uint32_t entity);
hd_str sh_view_tag_name(const sh_view *view, uint32_t tag);
hd_str sh_view_entity_folded(const sh_view *view, uint32_t entity); /* NFKC_Casefold of the name, made when first interned */
hd_str sh_view_tag_folded(const sh_view *view, uint32_t tag);
hd_id128 sh_view_entity_id(const sh_view *view, uint32_t entity);
hd_id128 sh_view_tag_id(const sh_view *view, uint32_t tag);
/* event_count in this partition at the view's sequence. O(1) when nothing of it died after the sequence was fixed, else a scan. */
uint64_t sh_view_entity_count(const sh_view *view, uint32_t entity);
uint64_t sh_view_tag_count(const sh_view *view, uint32_t tag);
/* The type given by the earliest visible event (timestamp, id) that gives one; *at_us_out and *event_out say which. False: none. */
bool sh_view_entity_type(const sh_view *view, uint32_t entity, hd_str *type_out, int64_t *at_us_out, hd_str *event_out);

/* Numbers whose folded name is `folded`, one after the other: `after` is SH_NONE for the first, then the number before. SH_NONE at the
 * end. Names without a visible event are among them. */
uint32_t sh_view_find_entity_folded(const sh_view *view, hd_str folded, uint32_t after);
uint32_t sh_view_find_tag_folded(const sh_view *view, hd_str folded, uint32_t after);

/* A posting list, ascending by slot, dead and unborn ones included: test each with sh_view_is_visible. Lent until leave. */
typedef struct sh_postings {
    const uint32_t *slots;
    uint32_t count; /* cut at the view's slot_end already */
} sh_postings;
sh_postings sh_view_entity_postings(const sh_view *view, uint32_t entity);
sh_postings sh_view_tag_postings(const sh_view *view, uint32_t tag);
/* Slots whose explicit prev_event_id is `id`. */
sh_postings sh_view_followers(const sh_view *view, hd_str id);

/* -- threads and the timeline (skip lists) ------------------------------------------------------------------------------------ */
/* A place in a thread: order_index (nulls last), timestamp, id. */
typedef struct sh_place {
    bool has_order;
    int64_t order_index;
    int64_t timestamp_us;
    hd_str id;
} sh_place;
int sh_place_compare(const sh_place *a, const sh_place *b);
uint32_t sh_view_find_thread(const sh_view *view, hd_str thread); /* number, or SH_NONE */
hd_str sh_view_thread_name(const sh_view *view, uint32_t thread);
/* The visible event of the thread nearest after (before) a place, the place itself left out; SH_NONE where there is none.
 * *scanned_out grows by the list entries looked at. */
sh_slot sh_view_thread_after(const sh_view *view, uint32_t thread, const sh_place *place, uint64_t *scanned);
sh_slot sh_view_thread_before(const sh_view *view, uint32_t thread, const sh_place *place, uint64_t *scanned);

/* The org's events from newest to oldest (timestamp descending, then id ascending), visible or not. */
typedef struct sh_timeline {
    const void *at; /* private */
    bool has_until;
    int64_t until_us;
} sh_timeline;
/* From the newest, or from just before `until_us`. */
void sh_view_timeline_start(const sh_view *view, bool has_until, int64_t until_us, sh_timeline *timeline_out);
sh_slot sh_view_timeline_next(const sh_view *view, sh_timeline *timeline); /* SH_NONE at the end */

/* -- vectors -------------------------------------------------------------------------------------------------------------------- */
struct sh_vector_index;
struct sh_vector_index *sh_view_vectors(const sh_view *view);
uint32_t sh_view_vector_row_end(const sh_view *view); /* rows of the vector index that the view may see are below it */
uint32_t sh_view_dimension(const sh_view *view);

#endif
