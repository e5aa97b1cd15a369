/* What fanout's files share: the fanout itself, its partitions during a step, and asks (one request to one shard each).
 *   fanout.c         the story of a step: rounds of asks, budget, verdicts, outcome
 *   fanout_split.c   which partitions are asked, and what part of the frontier each shard gets
 *   fanout_gather.c  sending, waiting, matching replies */
#ifndef CO_RUN_FANOUT_PRIVATE_H
#define CO_RUN_FANOUT_PRIVATE_H

#include "common/metrics.h"
#include "coordinator/run/fanout.h"

/* A shard that holds partitions of the org. */
typedef struct co_group {
    const char *uuid;
    uint32_t *partitions; /* indexes into the org's */
    uint32_t partition_count;
    uint32_t wire; /* index in the wire client, once it was asked */
    bool has_wire;
    bool is_away; /* it was not reached in this query, and is not waited for again */
} co_group;

/* The state that a partition is seen in; zeros until its first reply. */
typedef struct co_snapshot {
    uint64_t incarnation, sequence;
} co_snapshot;

/* How far the step at hand got in one partition. */
typedef struct co_part {
    bool is_asked, is_answered; /* answered: it gave something, whole or not */
    bool is_retried;            /* it was said to be elsewhere, and asked once more */
    hd_reach reach;
    hd_cap cap;      /* CUT and FAILED */
    hd_status code;  /* FAILED */
    const char *why; /* FAILED: static, for people */
    hd_str resume;   /* CUT by a COUNT cap */
    uint32_t done;   /* CONNECTED: frontier nodes wholly read, while it is not COMPLETE */
    uint64_t n_live, n_vectors;
} co_part;

typedef enum co_ask_state { CO_ASK_UNSENT, CO_ASK_WAITING, CO_ASK_ANSWERED, CO_ASK_LOST } co_ask_state;

/* One request to one shard, and what became of it. */
typedef struct co_ask {
    uint32_t group;
    uint32_t *partitions; /* indexes into the org's, ascending */
    uint32_t partition_count;
    bool is_resumed;
    const hd_step *steps; /* with the frontier that this shard gets */
    uint32_t step_count;
    const uint32_t *rows, *edge_rows; /* see co_piece */
    uint64_t scanned_share, measured_share;
    co_ask_state state;
    hd_step_request request;
    uint64_t id;
    hd_buf bytes;        /* the encoded request, until it is sent */
    const char *why;     /* LOST: static, for people */
    hd_step_reply reply; /* ANSWERED: decoded, fits the request */
} co_ask;

struct co_fanout {
    hd_arena *arena, *scratch; /* results; what one step needs */
    co_topology *topology;
    hd_wire_client *wire;
    const co_org *org;
    hd_budget *budget;
    uint64_t deadline_us, query;
    bool was_restarted;
    uint64_t charged_scanned, charged_measured;
    co_group *groups; /* in the order of their first partition */
    uint32_t group_count;
    uint32_t *group_of;     /* by partition */
    co_snapshot *snapshots; /* by partition */
    co_part *parts;         /* by partition, of the step at hand */
    hd_buf received;
    bool (*is_client_gone)(void *self);
    void *gone_self;
    co_fanout_faults faults;
    hd_metric *dropped;
};

/* The first round of a step: an ask for every shard that has something to say. Memory: scratch. */
HD_MUST_USE hd_status co_fanout_split(co_fanout *fanout, const hd_step *step, co_ask **asks_out, uint32_t *count_out);

/* Sends the asks and waits until each is ANSWERED or LOST, until the deadline at the most. HD_MEMORY, HD_CANCELLED, HD_INTERNAL. */
HD_MUST_USE hd_status co_fanout_gather(co_fanout *fanout, co_ask *asks, uint32_t count);

#endif
