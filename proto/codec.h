/* Structs ↔ protobuf bytes: the only place that touches generated code. One envelope a message, in either direction.
 * Decoding trusts nothing: every index, offset and size is checked against its table before it is handed on, so that whoever reads
 * the structs may rely on them. All failures are HD_WIRE (malformed) or HD_MEMORY (the arena's cap). */
#ifndef HD_PROTO_CODEC_H
#define HD_PROTO_CODEC_H

#include "common/buf.h"
#include "proto/control.h"
#include "proto/step.h"
#include "proto/write.h"

typedef enum hd_message_kind { HD_MESSAGE_STEP = 1, HD_MESSAGE_WRITE, HD_MESSAGE_CONTROL } hd_message_kind;

typedef struct hd_request {
    uint64_t id; /* matches the reply to it; not 0 */
    hd_message_kind kind;
    union {
        hd_step_request step;
        hd_write_request write;
        hd_control_request control;
    };
} hd_request;

typedef struct hd_reply {
    uint64_t id;
    hd_message_kind kind;
    union {
        hd_step_reply step;
        hd_write_reply write;
        hd_control_reply control;
    };
} hd_reply;

/* Appends the encoded message to `bytes_out`. Never fails on structs that keep the contracts of their headers. */
void hd_codec_encode_request(const hd_request *request, hd_buf *bytes_out);
void hd_codec_encode_reply(const hd_reply *reply, hd_buf *bytes_out);
/* Everything decoded lives in `arena`; strings are copied there, so `bytes` may go. Columns of an empty batch are NULL. A reply is
 * checked as far as it goes by itself; hd_codec_check_reply does what needs the request. */
HD_MUST_USE hd_status hd_codec_decode_request(hd_arena *arena, hd_str bytes, hd_request *request_out);
HD_MUST_USE hd_status hd_codec_decode_reply(hd_arena *arena, hd_str bytes, hd_reply *reply_out);
/* Just the id, without decoding the rest: for dropping late replies cheaply. */
HD_MUST_USE hd_status hd_codec_peek_reply(hd_str bytes, uint64_t *id_out);

/* What a server needs to route a request (fairly by org, CANCEL at once) without decoding the rest. What decodes afterwards has this
 * head: bytes that say one thing to who reads only their beginning and another to who reads all of them are HD_WIRE. */
typedef struct hd_request_head {
    uint64_t id;
    hd_message_kind kind;
    uint64_t org;            /* CREATE_PARTITION: that of the partition; 0 where the request has none */
    uint64_t query;          /* STEP, CANCEL; else 0 */
    uint32_t remaining_ms;   /* 0 for CANCEL */
    hd_control_kind control; /* CONTROL; else 0 */
} hd_request_head;
HD_MUST_USE hd_status hd_codec_peek_request(hd_str bytes, hd_request_head *head_out);

/* Does a step request keep the contract of step.h: kinds, labels, indexes, earlier results, aligned columns, sizes? Decoding asks
 * this too; a sender asks it first, since a shard answers a request that breaks it with nothing. */
HD_MUST_USE hd_status hd_codec_check_request(const hd_step_request *request);
/* Does a decoded reply with status OK fit the request? The partitions are those asked, in order; each result answers its step, has
 * a verdict for each partition (in the order asked), tables that its edges stay within, the columns that were asked for, and the
 * alignment that step.h promises (result edges start at each frontier node; FACTS and POSTINGS of names give names[i] for frontier
 * node i; MEASURE gives one cos and is_answered an edge asked). HD_WIRE where not. */
HD_MUST_USE hd_status hd_codec_check_reply(const hd_step_request *request, const hd_step_reply *reply);

#endif
