/* The inside of graph.h, for graph*.c alone. The picture is at the top of graph.c. */
#ifndef SH_GRAPH_PRIVATE_H
#define SH_GRAPH_PRIVATE_H

#include "proto/step.h"
#include "shard/buckets.h"
#include "shard/graph.h"
#include "shard/hash_index.h"
#include "shard/postings.h"
#include "shard/skiplist.h"

enum {
    ROWS_BASE_LOG2 = 5,
    GONE_BASE_LOG2 = 2,
    GONE_SLOTS = 64, /* bits a word */
    NAMES_BASE_LOG2 = 5,
    SMALL_BASE_LOG2 = 3,
    NUMBERS_PER_EVENT_MAX = UINT8_MAX, /* sh_event counts in a byte; tools.md allows 64 entities and 32 tags */
    ROW_HAS_TYPES = 0x80,              /* in sh_row.flags, beside HD_EVENT_*: the lists end with type numbers */
};

/* The lists of one version, in one piece of bump memory: entities as saved | entities ascending | tags | types of the entities as
 * saved (where any has one). */
typedef struct sh_lists {
    uint64_t record;
    uint32_t previous; /* target number of prev_event_id, or SH_NONE */
    uint32_t numbers[];
} sh_lists;

/* One version of an event; a cache line. All but `died` is written before anyone can find the slot, and never again. */
typedef struct sh_row {
    uint64_t born;
    atomic_ullong died; /* SH_ALIVE while live */
    int64_t timestamp_us;
    int64_t order_index;
    const char *id;
    const sh_lists *lists;
    uint32_t thread; /* SH_NONE: none */
    uint32_t vector; /* vector rows before this slot: with HD_EVENT_HAS_VECTOR its own row */
    uint32_t older;  /* the version of the same id before this one, or SH_NONE */
    uint8_t id_size, flags, entity_count, tag_count;
} sh_row;
_Static_assert(sizeof(sh_row) == 64, "a row is a cache line");

/* One death, in the order of their sequences: what makes N at an older sequence a binary search. */
typedef struct sh_death {
    uint64_t died;
    uint32_t slot;
    uint32_t vectors; /* deaths up to and with this one that had a vector */
} sh_death;

/* An entity or a tag; a cache line. */
typedef struct sh_name {
    const char *text; /* the name, then its folded form, unless that is the same */
    uint32_t name_size;
    uint32_t folded_size; /* FOLDED_IS_NAME: the same */
    hd_id128 id;
    sh_postings_list postings;
    atomic_ullong last_death; /* sequence of the latest death among its events; stored before `dead` counts it */
    atomic_ullong type_memo;  /* entities; see graph_names.c */
    atomic_uint dead;         /* postings whose version has died, published or not */
    uint32_t folded_older;    /* the number before this one with the same folded name, or SH_NONE */
} sh_name;
_Static_assert(sizeof(sh_name) == 64, "a name is a cache line");
#define FOLDED_IS_NAME UINT32_MAX

typedef struct sh_names {
    sh_graph *graph;
    sh_buckets rows; /* of sh_name */
    atomic_uint count;
    sh_hash_index by_id;     /* hd_id128 */
    sh_hash_index by_name;   /* the writer's: saves it the hashing to an id */
    sh_hash_index by_folded; /* newest number with that folded name */
} sh_names;

/* A string with a number: thread names, types. */
typedef struct sh_texts {
    sh_buckets rows; /* of hd_str */
    atomic_uint count;
    sh_hash_index by_text;
} sh_texts;

struct sh_graph {
    sh_memory memory;
    sh_epoch epoch;
    uint32_t dimension;

    atomic_ullong sequence;    /* the newest published */
    atomic_ullong base;        /* the first published: older states cannot be shown */
    atomic_uint slot_count;    /* published */
    atomic_uint death_count;   /* logged, published or not: what died at a later sequence is not counted by a view */
    atomic_uint deaths_begun;  /* death_count, or one more while a death is being counted at its names */
    uint32_t slots_written;    /* the writer's: published and not */
    bool is_published;         /* the writer's: was there a first one? */
    uint64_t sequence_writing; /* the writer's: sequences never go back */

    sh_buckets rows;   /* of sh_row */
    sh_buckets deaths; /* of sh_death */
    sh_buckets gone;   /* of atomic_ullong, a bit a slot: set before `died` is published. Most slots live, and this fits in cache */
    sh_hash_index by_event;
    sh_names entities, tags;
    sh_texts threads, types, targets;
    sh_buckets followers; /* of sh_postings_list, by target number */
    sh_skiplist thread_list, timeline;
    struct sh_vector_index *vectors;
    hd_arena *scratch; /* the writer's */
};

static inline sh_row *sh_graph_row(const sh_graph *graph, sh_slot slot) {
    return sh_buckets_at(&graph->rows, slot, sizeof(sh_row));
}
static inline sh_name *sh_names_row(const sh_names *names, uint32_t number) {
    return sh_buckets_at(&names->rows, number, sizeof(sh_name));
}
static inline hd_str sh_row_id(const sh_row *row) {
    return (hd_str){row->id, row->id_size};
}
static inline bool sh_row_is_visible(const sh_row *row, uint64_t sequence) {
    return row->born <= sequence && sequence < atomic_load_explicit(&row->died, memory_order_acquire);
}
static inline atomic_ullong *sh_graph_gone(const sh_graph *graph, sh_slot slot) {
    return sh_buckets_at(&graph->gone, slot / GONE_SLOTS, sizeof(atomic_ullong));
}
/* The parts of a version's lists. */
static inline const uint32_t *sh_row_entities(const sh_row *row) {
    return row->lists->numbers;
}
static inline const uint32_t *sh_row_entities_sorted(const sh_row *row) {
    return row->lists->numbers + row->entity_count;
}
static inline const sh_tag_mark *sh_row_tags(const sh_row *row) {
    return (const sh_tag_mark *)(row->lists->numbers + 2 * (size_t)row->entity_count);
}
static inline const uint32_t *sh_row_types(const sh_row *row) {
    return (const uint32_t *)(sh_row_tags(row) + row->tag_count);
}

/* graph_names.c */
void sh_names_init(sh_names *names, sh_graph *graph);
void sh_names_fini(sh_names *names);
uint32_t sh_names_intern(sh_names *names, hd_str name);
/* A version of slot `slot` died at `sequence`: the counts of a name it has. */
void sh_names_count_death(sh_names *names, uint32_t number, uint64_t sequence);
/* Keep the memo of the earliest event that gives a type: `slot`, which is posted already, gives one; `slot` died. */
void sh_names_note_type(sh_names *names, uint32_t entity, sh_slot slot);
void sh_names_forget_type(sh_names *names, uint32_t entity, sh_slot slot);

/* graph_texts.c */
void sh_texts_init(sh_texts *texts);
void sh_texts_fini(sh_texts *texts, sh_memory *memory);
uint32_t sh_texts_intern(sh_texts *texts, sh_epoch *epoch, hd_str text);
uint32_t sh_texts_find(const sh_texts *texts, hd_str text); /* SH_NONE: not there */
hd_str sh_texts_get(const sh_texts *texts, uint32_t number);

/* graph_order.c: threads and the timeline */
void sh_order_init(sh_graph *graph);
void sh_order_insert(sh_graph *graph, sh_slot slot);

/* <0, 0, >0: by (timestamp, id, slot). */
int sh_graph_compare_time(const sh_graph *graph, sh_slot a, sh_slot b);

#endif
