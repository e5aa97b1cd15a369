/* What the codec's files share: columns of strings, bytes and numbers to and from generated structs. Only codec*.c include this. */
#ifndef HD_PROTO_CODEC_PRIVATE_H
#define HD_PROTO_CODEC_PRIVATE_H

#include "columns.pb-c.h"
#include "control.pb-c.h"
#include "envelope.pb-c.h"
#include "proto/codec.h"
#include "step.pb-c.h"
#include "write.pb-c.h"

/* Sizes that a message may have beyond what its columns say about each other. */
enum {
    HD_CODEC_NAME_MAX = 64 << 10,     /* names, threads, types, messages */
    HD_CODEC_TEXT_MAX = 16 << 20,     /* contents: the largest body a coordinator takes */
    HD_CODEC_TOKEN_MAX = 4096,        /* resume tokens */
    HD_CODEC_PARTICIPATIONS_MAX = 255 /* entities or tags of one event: a shard counts them in a byte */
};

/* What strings of a column may look like. */
typedef struct hd_codec_rule {
    uint32_t size_min, size_max;
    bool is_absent_allowed;
} hd_codec_rule;
#define HD_CODEC_EVENT_ID ((hd_codec_rule){1, 64, false})
#define HD_CODEC_EVENT_ID_OR_ABSENT ((hd_codec_rule){1, 64, true})
#define HD_CODEC_NAME ((hd_codec_rule){0, HD_CODEC_NAME_MAX, false})
#define HD_CODEC_NAME_OR_ABSENT ((hd_codec_rule){0, HD_CODEC_NAME_MAX, true})
#define HD_CODEC_TEXT_OR_ABSENT ((hd_codec_rule){0, HD_CODEC_TEXT_MAX, true})
#define HD_CODEC_TOKEN_OR_ABSENT ((hd_codec_rule){0, HD_CODEC_TOKEN_MAX, true})

/* Encoding: `scratch` has no cap and lives until the message is packed; NULL columns and empty ones give nothing. */
#define HD_CODEC_NEW(message, scratch, name)                       \
    do {                                                           \
        (message) = hd_arena_alloc((scratch), sizeof(*(message))); \
        HD_CHECK((message) != NULL);                               \
        hd_pb__##name##__init(message);                            \
    } while (0)
#define HD_CODEC_PUT_COLUMN(message, field, source, count) \
    do {                                                   \
        if ((source) != NULL && (count) > 0) {             \
            (message)->n_##field = (count);                \
            (message)->field = (void *)(source);           \
        }                                                  \
    } while (0)
HdPb__Strings *hd_codec_put_strings(hd_arena *scratch, const hd_str *strings, size_t count);
HdPb__Strings *hd_codec_put_string(hd_arena *scratch, hd_str text); /* absent: NULL */
ProtobufCBinaryData hd_codec_put_bytes(const void *bytes, size_t size);

/* Decoding: columns point into the unpacked message; arrays of hd_str are made in the arena. A column that is not there is NULL. */
#define HD_CODEC_GET_COLUMN(message, field, count, column_out)                            \
    do {                                                                                  \
        if ((message)->n_##field != 0 && (message)->n_##field != (count)) return HD_WIRE; \
        (column_out) = (message)->n_##field != 0 ? (void *)(message)->field : NULL;       \
    } while (0)
#define HD_CODEC_GET_FULL_COLUMN(message, field, count, column_out)    \
    do {                                                               \
        if ((message)->n_##field != (count)) return HD_WIRE;           \
        (column_out) = (count) != 0 ? (void *)(message)->field : NULL; \
    } while (0)
HD_MUST_USE hd_status hd_codec_get_strings(hd_arena *arena, const HdPb__Strings *message, size_t count, hd_codec_rule rule,
                                           hd_str **strings_out);
HD_MUST_USE hd_status hd_codec_get_string(const HdPb__Strings *message, hd_codec_rule rule, hd_str *text_out);
/* `unit` bytes an item; NULL when empty. */
HD_MUST_USE hd_status hd_codec_get_bytes(const ProtobufCBinaryData *bytes, size_t count, size_t unit, void *column_out);
bool hd_codec_are_floats_finite(const float *values, size_t count);

/* Each body; the `get` functions check everything that needs no other message. */
HdPb__StepRequest *hd_codec_put_step_request(hd_arena *scratch, const hd_step_request *request);
HdPb__StepReply *hd_codec_put_step_reply(hd_arena *scratch, const hd_step_reply *reply);
HdPb__WriteRequest *hd_codec_put_write_request(hd_arena *scratch, const hd_write_request *request);
HdPb__WriteReply *hd_codec_put_write_reply(hd_arena *scratch, const hd_write_reply *reply);
HdPb__ControlRequest *hd_codec_put_control_request(hd_arena *scratch, const hd_control_request *request);
HdPb__ControlReply *hd_codec_put_control_reply(hd_arena *scratch, const hd_control_reply *reply);
HD_MUST_USE hd_status hd_codec_get_step_request(hd_arena *arena, const HdPb__StepRequest *message, hd_step_request *request_out);
HD_MUST_USE hd_status hd_codec_get_step_reply(hd_arena *arena, const HdPb__StepReply *message, hd_step_reply *reply_out);
HD_MUST_USE hd_status hd_codec_get_write_request(hd_arena *arena, const HdPb__WriteRequest *message, hd_write_request *request_out);
HD_MUST_USE hd_status hd_codec_get_write_reply(hd_arena *arena, const HdPb__WriteReply *message, hd_write_reply *reply_out);
HD_MUST_USE hd_status hd_codec_get_control_request(const HdPb__ControlRequest *message, hd_control_request *request_out);
HD_MUST_USE hd_status hd_codec_get_control_reply(hd_arena *arena, const HdPb__ControlReply *message, hd_control_reply *reply_out);

#endif
