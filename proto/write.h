/* Writes on the wire: events to save, replace or delete, all in one partition each; and what became of each. */
#ifndef HD_PROTO_WRITE_H
#define HD_PROTO_WRITE_H

#include "common/arena.h"
#include "common/status.h"

typedef struct hd_entity_ref {
    hd_str name; /* trimmed, NFC */
    hd_str type; /* absent string where none */
} hd_entity_ref;

typedef struct hd_tag_ref {
    hd_str name;
    uint8_t kind; /* HD_KIND_CONTAINS or HD_KIND_REFERS */
} hd_tag_ref;

/* One event, checked and normalised by the coordinator; the shard trusts its form but not its fit (dimension, existence). */
typedef struct hd_event_record {
    hd_str id;
    hd_str summary, content;
    int64_t timestamp_us;
    bool has_order;
    int64_t order_index;
    hd_str thread;   /* absent string where none */
    hd_str previous; /* prev_event_id; its existence was checked by the coordinator; absent string where none */
    hd_entity_ref *entities;
    uint32_t entity_count; /* distinct names, in the order given */
    hd_tag_ref *tags;
    uint32_t tag_count; /* distinct (name, kind) */
    float *vector;      /* NULL where none */
    uint32_t dimension;
} hd_event_record;

typedef enum hd_write_kind { HD_WRITE_SAVE = 1, HD_WRITE_DELETE } hd_write_kind;

typedef struct hd_write_item {
    hd_write_kind kind;
    uint64_t partition;
    uint64_t epoch;
    bool is_replace;        /* SAVE */
    hd_event_record event;  /* DELETE: id alone */
    hd_str idempotency_key; /* absent string where none; kept with the event for a repeat to be answered as the first time */
} hd_write_item;

typedef struct hd_write_request {
    uint64_t org;
    uint32_t remaining_ms;
    hd_write_item *items;
    uint32_t item_count;
} hd_write_request;

typedef struct hd_write_outcome {
    hd_status code; /* OK, ALREADY_EXISTS, ARGUMENT (dimension), MAP_STALE, STORE_FULL, … */
    hd_str message;
    bool is_created, is_replaced, is_deleted, is_repeat; /* is_repeat: the answer to an idempotency key seen before */
    hd_str event; /* of a repeat: the id that was saved the first time; `message` says so where it was another record */
} hd_write_outcome;

typedef struct hd_write_reply {
    hd_status status; /* of the request as a whole */
    hd_str message;
    hd_write_outcome *outcomes; /* one an item, in order */
    uint32_t outcome_count;
} hd_write_reply;

#endif
