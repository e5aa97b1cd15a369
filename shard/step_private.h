/* What the files of the step module share: the state of one request, the tables a step builds, and the accounts it keeps. Only
 * step.c, step_tables.c, start.c, expand.c, connected.c, project.c, measure.c and similar.c include it (and the module's own unit test).
 *
 * A step kind is three functions (sh_step_ops): `open` once, `visit` for each partition that could be had, one after the other, and
 * `close` once. `visit` says how far it got in the partition's verdict; a status it returns is a failure of the whole request (memory,
 * or a token that does not decode). */
#ifndef SH_STEP_PRIVATE_H
#define SH_STEP_PRIVATE_H

#include "common/ids.h"
#include "common/map.h"
#include "shard/step.h"

/* Where one partition of the request is read. Borrowed for the run. */
typedef struct sh_source {
    hd_status code; /* not HD_OK: it could not be had, and the rest is not read */
    sh_graph *graph;
    uint64_t incarnation;
    hd_status (*get_text)(void *self, uint64_t record, hd_arena *arena, hd_str *summary_out, hd_str *content_out);
    void *self;
} sh_source;

/* The chain over these sources, one a partition of the request, in the same order. sh_step_run without the acquiring. */
void sh_step_run_over(const sh_source *sources, const hd_step_request *request, const sh_check *check, hd_arena *arena,
                      hd_step_reply *reply_out);

/* Where a cut step goes on in one partition: up to four numbers whose meaning is the step kind's own. All zero: the beginning. */
typedef struct sh_token {
    uint64_t at[4];
} sh_token;

/* One partition of the request. */
typedef struct sh_part {
    const sh_source *source;
    hd_status code;  /* not HD_OK: no view of it could be entered */
    sh_view view;    /* entered when code is HD_OK */
    bool is_resumed; /* the request carries tokens: what is told once a partition (counts) was told by the first piece */
    bool is_done;    /* … and this partition has none: it was complete before */
    sh_token token;
    hd_verdict *verdict; /* of the step that runs */
} sh_part;

/* What a step starts from. */
typedef struct sh_frontier {
    hd_label label;
    uint32_t count;
    const hd_str *ids;           /* of events; may be NULL where `where` is not */
    const uint64_t *where;       /* of events that an earlier step found, or that were given by locals; NULL: by ids */
    const hd_event_batch *batch; /* an explicit frontier of events, with its columns; else NULL */
    const hd_name_batch *names;  /* of entities or tags: the frontier; SHARES: what `edges` point to */
    const hd_edges *edges;       /* SHARES: event → names; MEASURE: what is to be measured */
} sh_frontier;

typedef struct sh_edge {
    uint32_t from, to;
    uint32_t via, via_count; /* SHARES: in work.via */
    uint8_t kind;
} sh_edge;

typedef struct sh_met {
    hd_id128 id;
    hd_str name;
    uint64_t event_count;
} sh_met;

/* One step at work: growing tables, in the request's arena, that sh_work_put_* turn into the columns of its result. It stays as
 * long as the request, since later steps of the chain start from it. */
typedef struct sh_work {
    const hd_step *step;
    hd_step_result *result;
    sh_frontier frontier;
    void *state; /* the step kind's own */

    uint64_t *where; /* the result's events, in order */
    uint32_t count, capacity;
    hd_map64 row_of;  /* where → row */
    uint32_t *row_at; /* by slot of the part that is visited: 1 + row, 0: none; NULL: row_of has them */

    sh_edge *edges;
    uint32_t edge_count, edge_capacity;
    uint32_t *via;
    uint32_t via_count, via_capacity;

    sh_met *names; /* entities or tags met, distinct */
    uint32_t name_count, name_capacity;
    hd_map name_of;     /* id → index in names */
    hd_map64 number_of; /* (part, number) → index in names */
} sh_work;

typedef struct sh_run {
    const hd_step_request *request;
    const sh_check *check;
    hd_arena *arena;
    sh_part *parts;
    uint32_t part_count;
    uint16_t part_of[HD_PARTITIONS_MAX]; /* by ordinal: index in parts, or SH_NO_PART */
    sh_work *works;                      /* one a step, those run so far filled */
    const hd_step *step;                 /* the one that runs */
    uint64_t scanned, measured;          /* used so far, by all steps and partitions */
    uint32_t until_check;                /* units of work before the deadline is asked for again */
    bool is_late;                        /* it has passed (or the query was cancelled): nothing goes on */
    hd_cap stop;                         /* what the last refusal was for */
    char *pack_at;                       /* where the next copied string goes (sh_run_copy) */
    size_t pack_left;
} sh_run;

/* An event of this request is known by its local (step.h): the ordinal of its partition and its slot. */
#define SH_NOWHERE HD_LOCAL_NONE
enum { SH_NO_PART = UINT16_MAX };
static inline uint64_t sh_where(const sh_run *run, uint32_t part, sh_slot slot) {
    return hd_local(run->request->partitions[part].ordinal, slot);
}
/* Of a local that was made here, or checked by sh_run_check_locals. */
static inline uint32_t sh_where_part(const sh_run *run, uint64_t where) {
    return run->part_of[hd_local_ordinal(where)];
}
static inline sh_slot sh_where_slot(uint64_t where) {
    return (sh_slot)where;
}

typedef struct sh_step_ops {
    hd_status (*open)(sh_run *run, sh_work *work);
    hd_status (*visit)(sh_run *run, sh_work *work, uint32_t part);
    hd_status (*close)(sh_run *run, sh_work *work);
} sh_step_ops;

extern const sh_step_ops sh_start_ops, sh_postings_ops, sh_shares_ops, sh_next_ops, sh_facts_ops, sh_resolve_ops, sh_measure_ops,
    sh_connected_ops, sh_similar_ops;

/* -- accounts: each asks before the work is done, so that a cap that is just enough is no cut --------------------------------- */
enum { SH_CHECK_UNITS = 1024 };
bool sh_run_check(sh_run *run); /* asks the deadline; false: stop */

/* May `units` of work that no cap counts be done? False: the deadline. */
static inline bool sh_run_go_on(sh_run *run, uint32_t units) {
    if (HD_LIKELY(!run->is_late && run->until_check > units)) {
        run->until_check -= units;
        return true;
    }
    return sh_run_check(run);
}

/* May one more posting (or list entry) be read? Charges it. */
static inline bool sh_run_take_scanned(sh_run *run) {
    if (HD_UNLIKELY(!sh_run_go_on(run, 1))) return false;
    if (HD_UNLIKELY(run->scanned >= run->request->scanned_max)) {
        run->stop = HD_CAP_SCANNED;
        return false;
    }
    run->scanned++;
    return true;
}
/* The same for a list that is of use only whole. One that does not fit is not read and costs nothing, so that a budget which is just
 * enough for all lists stays enough however it is shared out. */
bool sh_run_take_list(sh_run *run, uint64_t count);

static inline bool sh_run_take_measured(sh_run *run) {
    if (HD_UNLIKELY(!sh_run_go_on(run, 1))) return false;
    if (HD_UNLIKELY(run->measured >= run->request->measured_max)) {
        run->stop = HD_CAP_MEASURED;
        return false;
    }
    run->measured++;
    return true;
}

/* Ends the visit of a part for the reason of the last refusal; `token` says where to go on. */
HD_MUST_USE hd_status sh_run_cut(sh_run *run, uint32_t part, const sh_token *token);
/* Ends the visit of a part with a failure of its own. */
void sh_run_fail(sh_run *run, uint32_t part, hd_status code);

/* -- tables ------------------------------------------------------------------------------------------------------------------- */
/* Room for `need` items of `size` bytes, doubling; what is there stays. */
HD_MUST_USE hd_status sh_grow(hd_arena *arena, void *items, uint32_t *capacity, uint32_t need, size_t size);
/* A copy that outlives the views, packed beside the others. Absent stays absent. */
HD_MUST_USE hd_status sh_run_copy(sh_run *run, hd_str text, hd_str *copy_out);

/* The row of an event in the result, added when it is new. */
HD_MUST_USE hd_status sh_work_row(sh_run *run, sh_work *work, uint64_t where, uint32_t *row_out);
HD_MUST_USE hd_status sh_work_edge(sh_run *run, sh_work *work, uint32_t from, uint32_t to, uint8_t kind);
/* The index of an entity (or tag) of a part among work.names, added when it is new. */
HD_MUST_USE hd_status sh_work_name(sh_run *run, sh_work *work, uint32_t part, bool is_tag, uint32_t number, uint32_t *index_out);

/* result.events from work.where, with these facets. A text that cannot be read fails its partition (and, `is_aligned`: its event). */
HD_MUST_USE hd_status sh_work_put_events(sh_run *run, sh_work *work, uint32_t facets, bool is_aligned);
/* result.edges from work.edges, sorted by `from` and otherwise in the order they were added. */
HD_MUST_USE hd_status sh_work_put_edges(sh_run *run, sh_work *work, uint32_t from_count, bool has_kinds, bool has_via);
/* result.names from work.names. */
HD_MUST_USE hd_status sh_work_put_names(sh_run *run, sh_work *work);
/* result.names as wide as `frontier`, its ids copied, nothing known yet: for tables aligned with the frontier. */
HD_MUST_USE hd_status sh_work_align_names(sh_run *run, sh_work *work, const hd_name_batch *frontier, bool has_types);
/* Adds what a part knows of names[index]: the name, and the count where this piece is the one to tell it. Returns the number, or
 * SH_NONE when it does not exist there; *count_out is its event_count in the part. */
HD_MUST_USE hd_status sh_work_meet_name(sh_run *run, sh_work *work, uint32_t part, bool is_tag, uint32_t index,
                                        uint32_t *number_out, uint64_t *count_out);

/* Locals from outside: those that are of a part of this request and seen there; SH_NOWHERE in place of the others. */
HD_MUST_USE hd_status sh_run_check_locals(const sh_run *run, const uint64_t *locals, uint32_t count, const uint64_t **where_out);
/* Where a frontier's event is in a part; SH_NONE: not there. */
sh_slot sh_frontier_slot(const sh_run *run, const sh_frontier *frontier, uint32_t index, uint32_t part);

#endif
