/* The step protocol as plain C: what a coordinator asks of a shard about the graph, and what comes back. codec.c turns these into
 * protobuf messages and back; nobody else sees generated structs.
 *
 * A request names partitions of one org and a chain of steps. Every step works on a *frontier*, given in the request or taken from
 * an earlier step of the same chain, and gives node tables and edges (CSR over the frontier). The shard runs on to the next step
 * only while the request says that it holds all partitions of the org (`is_whole_org`) and no step was cut; `step_count` results
 * come back, maybe fewer than were asked.
 *
 * By whom a step is answered:
 *   FACTS of events, MEASURE                        the partition that owns the event (MEASURE: the edge's `to` end)
 *   START, POSTINGS, SHARES, NEXT, CONNECTED, SIMILAR, FACTS of entities and tags, RESOLVE
 *                                                   every partition of the org; the caller merges
 * A shard merges over the partitions it was given; the coordinator merges over shards. Both use the same rules:
 *   event_count, n_live, n_vectors, counts of CONNECTED: sums. type: the one with the smallest (type_at_us, type_event).
 *   NEXT by thread: of all candidates for one frontier event the nearest in thread order.
 *   START: the k best over all.
 *   SIMILAR: of each frontier event the k best over all, by cosine, then id; the event itself is not among them. A step of its own
 *   carries the vectors of its frontier, since its partitions may be asked apart; behind another step of a chain they are read where
 *   they are. Of several pieces of a cut one each has the k best of the rows it searched.
 *   NEXT that does not cover the whole org, or was cut, or goes on: every candidate is given, whatever `kinds` says, and an event
 *   that is both the nearest in the thread (of the partitions asked) and explicit has two edges. Whoever has all candidates lets the
 *   nearest stand as `thread`, drops the explicit edge to the same event, and only then applies `kinds`. Otherwise the edges are
 *   final; the same rule changes nothing in them.
 * Going on after a cut (`resume`): event_count and group_counts are those of the partitions asked *without* a token, whether they
 * were cut or not; a partition that goes on counts 0, so that the replies' sums are right. `candidates` counts what this request
 * examined; of several pieces the last one's is_candidates_exact holds. n_live and n_vectors are given each time. In a request where
 * any partition has a token, one without is taken to be finished already: it is not run and its verdict is COMPLETE. Lists of FACTS
 * of events (ENTITIES, TAGS) come whole or not at all; one that does not fit in what is left of `scanned` is not read and costs nothing.
 * CONNECTED: the names table has no event_count (0 throughout), since an entity is met only where it shares an event. Every piece gives
 * what it counted itself. A pair's count is that of the org where no partition is missing and its frontier node stands below every
 * cut verdict's `done`; otherwise it is a lower bound.
 * How an event is named. Its *local* is a number that every shard and the coordinator agree on: (ordinal of the partition in the org)
 * << 32 | the version's number in the partition. It holds for one incarnation of the partition, so within one query; in one snapshot
 * an event has exactly one. Every result carries locals; ids (text, and dear where tables are wide) only where they are always
 * needed (START, NEXT, SIMILAR, FACTS of events that were given by id) or asked for. A frontier of events is given by locals, or by ids
 * where there are none; NEXT has ids in any case, since a place in a thread ends with one. A local of a partition that is not asked,
 * or that the request knows no incarnation of, or of a version that is not seen, means an event that does not exist.
 * A result is checked against its request by hd_codec_check_reply; what that demands is the contract. */
#ifndef HD_PROTO_STEP_H
#define HD_PROTO_STEP_H

#include "common/arena.h"
#include "common/budget.h"
#include "common/graph.h"
#include "common/status.h"

enum { HD_STEPS_MAX = 64, HD_DIMENSION_MAX = 4096, HD_START_K_MAX = 1000, HD_SIMILAR_K_MAX = 50 };
/* of one chain; of vectors; of START's k; of SIMILAR's */

/* A flat batch of events. Columns that were not asked for are NULL. All memory: the arena of the owner of the batch. */
typedef struct hd_event_batch {
    uint32_t count;
    uint64_t *locals;      /* always present in results; HD_LOCAL_NONE where the event does not exist */
    hd_str *ids;           /* results: where they always come, or HD_FACET_ID; absent string where not known */
    uint8_t *flags;        /* HD_EVENT_*; always present in results; EXISTS alone where no other column was asked for */
    int64_t *timestamp_us; /* HD_FACET_TIME */
    int64_t *order_index;  /* HD_FACET_ORDER; valid where HD_EVENT_HAS_ORDER */
    hd_str *threads;       /* HD_FACET_THREAD; valid where HD_EVENT_HAS_THREAD */
    hd_str *previous;      /* HD_FACET_PREVIOUS: the explicit prev_event_id; absent string where none */
    hd_str *summaries;     /* HD_FACET_SUMMARY */
    hd_str *contents;      /* HD_FACET_CONTENT */
    double *scores;        /* START by vector: rounded cosines */
    float *vectors;        /* HD_FACET_VECTOR: count × dimension; valid where HD_EVENT_HAS_VECTOR, else zeros */
    uint32_t dimension;    /* of `vectors`, wherever these are not NULL */
} hd_event_batch;

enum { HD_EVENT_EXISTS = 1, HD_EVENT_HAS_VECTOR = 2, HD_EVENT_HAS_THREAD = 4, HD_EVENT_HAS_ORDER = 8 };

#define HD_LOCAL_NONE UINT64_MAX
static inline uint64_t hd_local(uint32_t ordinal, uint32_t number) {
    return (uint64_t)ordinal << 32 | number;
}
static inline uint32_t hd_local_ordinal(uint64_t local) {
    return (uint32_t)(local >> 32);
}

enum {
    HD_FACET_TIME = 1,
    HD_FACET_ORDER = 2,
    HD_FACET_THREAD = 4,
    HD_FACET_PREVIOUS = 8,
    HD_FACET_SUMMARY = 16,
    HD_FACET_CONTENT = 32,
    HD_FACET_VECTOR = 64,
    HD_FACET_ENTITIES = 128, /* edges from the frontier to the `names` table (entities), in the order they were saved */
    HD_FACET_TAGS = 256,     /* edges from the frontier to the `names` table (tags), `kinds` one row per (event, tag, kind) */
    HD_FACET_TYPE = 512,     /* FACTS of entities: the type columns. Of events with ENTITIES: not allowed */
    HD_FACET_ID = 1024,      /* of events */
    HD_FACET_ID_FEW = 2048,  /* the same where the table has HD_IDS_FEW rows at the most: they cost less than asking once more */
};
enum { HD_IDS_FEW = 256 };

/* Entities or tags. */
typedef struct hd_name_batch {
    uint32_t count;
    hd_id128 *ids;
    hd_str *names;         /* absent string where no partition asked knows the node */
    uint64_t *event_count; /* live events in the partitions asked; 0: does not exist there */
    hd_str *types;         /* HD_FACET_TYPE: of the earliest live event that gives one; absent string where none */
    int64_t *type_at_us;   /* HD_FACET_TYPE: that event's timestamp … */
    hd_str *type_events;   /* HD_FACET_TYPE: … and id, so that a merge can take the earliest */
} hd_name_batch;

/* Edges from a frontier (index = position in it) to a node table (index into the result's `events` or `names`). CSR:
 * the edges of frontier node i are [offsets[i], offsets[i+1]). offsets == NULL: no edges at all. */
typedef struct hd_edges {
    uint32_t from_count;
    uint32_t *offsets;
    uint32_t *to;
    uint8_t *kinds;        /* MEMBER_OF: HD_KIND_*; NEXT: HD_SOURCE_*; else NULL */
    double *cos;           /* MEASURE: rounded cosine, NAN where a vector is missing; SIMILAR: rounded cosine; else NULL */
    uint8_t *is_answered;  /* MEASURE: 0 where this shard does not hold the `to` end; else NULL */
    uint32_t *via_offsets; /* SHARES: edge count + 1 … */
    uint32_t *via;         /* … indexes into the result's `names`; the caller orders them (df is only now known) */
    uint64_t *counts;      /* CONNECTED: common live events, at least 1; one edge a pair; else NULL */
} hd_edges;
static inline uint32_t hd_edges_count(const hd_edges *e) {
    return e->offsets ? e->offsets[e->from_count] : 0;
}

typedef enum hd_step_kind {
    HD_STEP_START = 1,
    HD_STEP_FACTS,    /* of events, entities or tags */
    HD_STEP_POSTINGS, /* entity → events, tag → events */
    HD_STEP_SHARES,
    HD_STEP_NEXT,
    HD_STEP_MEASURE,
    HD_STEP_RESOLVE,   /* names by NFKC_Casefold; no cap counts it */
    HD_STEP_CONNECTED, /* entity → the entities it has live events in common with, and how many */
    HD_STEP_SIMILAR,   /* event → the events closest to it by vector */
} hd_step_kind;

/* Which of START's sources. All but IDS can carry groups; see hd_start. */
typedef enum hd_start_mode { HD_START_NEWEST = 1, HD_START_CLOSEST } hd_start_mode;

/* A set of entities (or tags): an event is in when it takes part in at least one of them. */
typedef struct hd_name_group {
    hd_id128 *ids;
    uint32_t count;
} hd_name_group;

typedef struct hd_start {
    hd_start_mode mode;
    uint32_t k;              /* how many are wanted; the shard also says whether there were more */
    hd_name_group *entities; /* an event must be in every group */
    uint32_t entity_groups;
    hd_name_group *tags;
    uint32_t tag_groups;
    bool has_since, has_until; /* since ≤ timestamp < until */
    int64_t since_us, until_us;
    float *vector; /* CLOSEST; `dimension` long */
    uint32_t dimension;
    bool is_exact; /* never through an approximate index */
    uint64_t vectors_exact;
    uint32_t facets; /* of the events that come back; TIME always does */
} hd_start;

typedef struct hd_step {
    hd_step_kind kind;
    uint32_t number;         /* given back with the result; the plan's step number */
    int32_t from_result;     /* −1: the frontier stands below; else the index of an earlier step of this chain, whose `events`
                            (kind says which: see `frontier_label`) are the frontier, or whose edges are measured (MEASURE) */
    hd_label frontier_label; /* what the frontier consists of: EVENT, ENTITY or TAG */
    hd_relation relation;    /* for the record only (truncations); HD_REL_NONE for START and FACTS */

    hd_event_batch events;    /* explicit frontier of events. SHARES: with the entity lists in `edges` + `names`. NEXT: with TIME,
                              ORDER, THREAD, PREVIOUS and flags. SIMILAR: with flags and vectors. MEASURE: the `from` ends, with
                              vectors where the request does not cover the whole org */
    hd_name_batch names;      /* explicit frontier of entities or tags (ids alone); SHARES: the entities `edges` point to */
    hd_edges edges;           /* SHARES: event → entities. MEASURE: from end → `to_events` */
    hd_event_batch to_events; /* MEASURE: the `to` ends */

    hd_start start;        /* START */
    uint32_t facets;       /* of the events (or names) that come back */
    uint32_t shares_min;   /* SHARES, at least 1 */
    bool is_backward;      /* NEXT: predecessors instead of successors */
    uint8_t kinds;         /* TAG postings and MEMBER_OF: HD_KIND_* wanted. NEXT: HD_SOURCE_* wanted; 0 means all */
    hd_str *folded;        /* RESOLVE: folded names */
    uint32_t folded_count; /* RESOLVE; frontier_label says ENTITY or TAG */
    uint32_t dimension;    /* of vectors that are sent or asked for: MEASURE and SIMILAR with vectors, HD_FACET_VECTOR */
    uint32_t similar_k;    /* SIMILAR: how many of each, from 1 */
} hd_step;

/* How far a step got in one partition. Every partition asked has one per step that was run. */
typedef enum hd_reach { HD_REACH_COMPLETE = 1, HD_REACH_CUT, HD_REACH_FAILED } hd_reach;

typedef struct hd_verdict {
    uint64_t partition;
    hd_reach reach;
    hd_cap cap;         /* CUT: what ended it */
    hd_status code;     /* FAILED: MAP_STALE, SNAPSHOT_GONE, STORE_IO, … */
    hd_str resume;      /* CUT by a COUNT cap: ask again with this to go on; else absent */
    uint32_t done;      /* CONNECTED, CUT: the frontier nodes below it are wholly counted here, by this piece and those before it */
    uint64_t n_live;    /* live events at the query's sequence */
    uint64_t n_vectors; /* those with a vector */
} hd_verdict;

typedef struct hd_step_result {
    uint32_t number;
    hd_event_batch events; /* distinct. FACTS of events: aligned with the frontier (flags say which exist here) */
    hd_name_batch names;   /* distinct. FACTS of entities or tags, POSTINGS: names[i] is frontier node i */
    hd_edges edges;
    uint32_t *fold_of; /* RESOLVE: for names[i], which of `folded` it matches */
    /* START */
    uint64_t candidates; /* CLOSEST with a scope: events in scope that have a vector … */
    bool is_candidates_exact;
    bool has_more;          /* the scope holds more than came back */
    bool is_approximate;    /* an approximate index was used */
    uint64_t *group_counts; /* START: event_count of every id of every group, entities first, in the order given */
    uint32_t group_count_count;
    hd_verdict *verdicts;
    uint32_t verdict_count;
    uint64_t used_scanned, used_measured;
    uint64_t shard_us; /* time this step took in the shard */
} hd_step_result;

typedef struct hd_partition_ref {
    uint64_t id;
    uint32_t ordinal; /* its place in the org, below org_partitions: what locals are made of */
    uint64_t epoch;
    uint64_t incarnation; /* of the loaded partition; 0: any, and tell me */
    uint64_t sequence;    /* 0: fix it now, and tell me */
    hd_str resume;        /* for chains of one step that go on after a cut */
} hd_partition_ref;

typedef struct hd_step_request {
    uint64_t query; /* random; the step's identity with its number; also names what to cancel */
    uint64_t org;
    hd_partition_ref *partitions;
    uint32_t partition_count;
    bool is_whole_org;
    uint32_t org_partitions; /* P */
    uint32_t remaining_ms;
    uint64_t frontier_max, scanned_max, measured_max; /* this request's share */
    hd_step *steps;
    uint32_t step_count;
} hd_step_request;

typedef struct hd_step_reply {
    hd_status status; /* of the request as a whole: OK, WIRE, BUSY, FORBIDDEN, … */
    hd_str message;
    hd_partition_ref *partitions; /* incarnation and sequence that were used, in the order asked */
    uint32_t partition_count;
    hd_step_result *results;
    uint32_t result_count; /* fewer than step_count: the chain stopped after these */
    uint64_t shard_us;
} hd_step_reply;

#endif
