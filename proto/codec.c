/* The envelope: head fields first, so that peeking needs no decoding, then one body. Encoding builds generated structs that
 * point into ours (only columns of strings are gathered), in a scratch arena that goes once the bytes are packed. Decoding unpacks
 * with an allocator over the caller's arena; our structs then point into the unpacked message. */
#include "proto/codec_private.h"

/* ---- encoding ---- */

static uint64_t org_of(const hd_request *request) {
    switch (request->kind) {
    case HD_MESSAGE_STEP: return request->step.org;
    case HD_MESSAGE_WRITE: return request->write.org;
    case HD_MESSAGE_CONTROL:
        return request->control.kind == HD_CONTROL_CREATE_PARTITION ? request->control.partition.org : request->control.org;
    }
    return 0;
}

void hd_codec_encode_request(const hd_request *request, hd_buf *bytes_out) {
    hd_arena *scratch = hd_arena_new(0);
    HdPb__Request message = HD_PB__REQUEST__INIT;
    message.id = request->id;
    message.kind = request->kind;
    message.org = org_of(request);
    switch (request->kind) {
    case HD_MESSAGE_STEP:
        message.query = request->step.query;
        message.remaining_ms = request->step.remaining_ms;
        message.body_case = HD_PB__REQUEST__BODY_STEP;
        message.step = hd_codec_put_step_request(scratch, &request->step);
        break;
    case HD_MESSAGE_WRITE:
        message.remaining_ms = request->write.remaining_ms;
        message.body_case = HD_PB__REQUEST__BODY_WRITE;
        message.write = hd_codec_put_write_request(scratch, &request->write);
        break;
    case HD_MESSAGE_CONTROL:
        message.query = request->control.query;
        message.remaining_ms = request->control.remaining_ms;
        message.control = request->control.kind;
        message.body_case = HD_PB__REQUEST__BODY_CONTROL_BODY;
        message.control_body = hd_codec_put_control_request(scratch, &request->control);
        break;
    }
    size_t size = hd_pb__request__get_packed_size(&message);
    uint8_t *at = hd_buf_reserve(bytes_out, size + 1);
    hd_pb__request__pack(&message, at);
    at[size] = 0;
    bytes_out->size += size;
    hd_arena_free(scratch);
}

void hd_codec_encode_reply(const hd_reply *reply, hd_buf *bytes_out) {
    hd_arena *scratch = hd_arena_new(0);
    HdPb__Reply message = HD_PB__REPLY__INIT;
    message.id = reply->id;
    message.kind = reply->kind;
    switch (reply->kind) {
    case HD_MESSAGE_STEP:
        message.body_case = HD_PB__REPLY__BODY_STEP;
        message.step = hd_codec_put_step_reply(scratch, &reply->step);
        break;
    case HD_MESSAGE_WRITE:
        message.body_case = HD_PB__REPLY__BODY_WRITE;
        message.write = hd_codec_put_write_reply(scratch, &reply->write);
        break;
    case HD_MESSAGE_CONTROL:
        message.body_case = HD_PB__REPLY__BODY_CONTROL;
        message.control = hd_codec_put_control_reply(scratch, &reply->control);
        break;
    }
    size_t size = hd_pb__reply__get_packed_size(&message);
    uint8_t *at = hd_buf_reserve(bytes_out, size + 1);
    hd_pb__reply__pack(&message, at);
    at[size] = 0;
    bytes_out->size += size;
    hd_arena_free(scratch);
}

/* ---- decoding ---- */

typedef struct unpack_memory {
    hd_arena *arena;
    bool is_full;
} unpack_memory;

static void *unpack_alloc(void *self, size_t size) {
    unpack_memory *memory = self;
    void *bytes = hd_arena_alloc(memory->arena, size);
    if (bytes == NULL) memory->is_full = true;
    return bytes;
}

static void unpack_free(void *self, void *bytes) {
    (void)self;
    (void)bytes; /* the arena goes as a whole */
}

/* protobuf takes the last of a field that comes twice, also from behind the body, where peeking does not look. */
static bool has_peeked_head(hd_str bytes, const HdPb__Request *message) {
    hd_request_head head;
    if (hd_codec_peek_request(bytes, &head) != HD_OK) return false;
    if (head.id != message->id || (uint32_t)head.kind != message->kind || head.org != message->org) return false;
    if (head.query != message->query || head.remaining_ms != message->remaining_ms) return false;
    return head.kind != HD_MESSAGE_CONTROL || (uint32_t)head.control == message->control;
}

hd_status hd_codec_decode_request(hd_arena *arena, hd_str bytes, hd_request *request_out) {
    *request_out = (hd_request){0};
    unpack_memory memory = {arena, false};
    ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &memory};
    const HdPb__Request *message = hd_pb__request__unpack(&allocator, bytes.size, (const uint8_t *)bytes.data);
    if (message == NULL) return memory.is_full ? HD_MEMORY : HD_WIRE;
    if (!has_peeked_head(bytes, message)) return HD_WIRE;
    request_out->id = message->id;
    request_out->kind = (hd_message_kind)message->kind;
    switch (message->body_case) {
    case HD_PB__REQUEST__BODY_STEP:
        if (message->kind != HD_MESSAGE_STEP || message->step == NULL) return HD_WIRE;
        request_out->step.query = message->query;
        request_out->step.org = message->org;
        request_out->step.remaining_ms = message->remaining_ms;
        return hd_codec_get_step_request(arena, message->step, &request_out->step);
    case HD_PB__REQUEST__BODY_WRITE:
        if (message->kind != HD_MESSAGE_WRITE || message->write == NULL) return HD_WIRE;
        request_out->write.org = message->org;
        request_out->write.remaining_ms = message->remaining_ms;
        if (message->query != 0) return HD_WIRE; /* a CANCEL of that query would take the write out of the queue */
        return hd_codec_get_write_request(arena, message->write, &request_out->write);
    case HD_PB__REQUEST__BODY_CONTROL_BODY:
        if (message->kind != HD_MESSAGE_CONTROL || message->control_body == NULL) return HD_WIRE;
        if (message->control < HD_CONTROL_HELLO || message->control > HD_CONTROL_CANCEL) return HD_WIRE;
        request_out->control.kind = (hd_control_kind)message->control;
        request_out->control.query = message->query;
        request_out->control.remaining_ms = message->remaining_ms;
        if (message->query != 0 && message->control != HD_CONTROL_CANCEL) return HD_WIRE;
        HD_TRY(hd_codec_get_control_request(message->control_body, &request_out->control));
        return message->org == org_of(request_out) ? HD_OK : HD_WIRE; /* the org stands in the body too */
    default: return HD_WIRE;
    }
}

hd_status hd_codec_decode_reply(hd_arena *arena, hd_str bytes, hd_reply *reply_out) {
    *reply_out = (hd_reply){0};
    unpack_memory memory = {arena, false};
    ProtobufCAllocator allocator = {unpack_alloc, unpack_free, &memory};
    const HdPb__Reply *message = hd_pb__reply__unpack(&allocator, bytes.size, (const uint8_t *)bytes.data);
    if (message == NULL) return memory.is_full ? HD_MEMORY : HD_WIRE;
    uint64_t peeked_id;
    if (hd_codec_peek_reply(bytes, &peeked_id) != HD_OK || peeked_id != message->id) return HD_WIRE;
    reply_out->id = message->id;
    reply_out->kind = (hd_message_kind)message->kind;
    switch (message->body_case) {
    case HD_PB__REPLY__BODY_STEP:
        if (message->kind != HD_MESSAGE_STEP || message->step == NULL) return HD_WIRE;
        return hd_codec_get_step_reply(arena, message->step, &reply_out->step);
    case HD_PB__REPLY__BODY_WRITE:
        if (message->kind != HD_MESSAGE_WRITE || message->write == NULL) return HD_WIRE;
        return hd_codec_get_write_reply(arena, message->write, &reply_out->write);
    case HD_PB__REPLY__BODY_CONTROL:
        if (message->kind != HD_MESSAGE_CONTROL || message->control == NULL) return HD_WIRE;
        return hd_codec_get_control_reply(arena, message->control, &reply_out->control);
    default: return HD_WIRE;
    }
}

/* ---- peeking ---- */

/* Reads head fields (numbers below 16, fixed64 or varint) until the body or the end. */
static hd_status read_head(hd_str bytes, uint64_t fields_out[16]) {
    enum { TYPE_VARINT = 0, TYPE_FIXED64 = 1 };
    memset(fields_out, 0, 16 * sizeof(*fields_out));
    hd_reader reader = hd_reader_of(bytes.data, bytes.size);
    while (hd_reader_left(&reader) > 0) {
        uint64_t tag = hd_reader_varint(&reader);
        if ((tag >> 3) >= 16) break;
        switch (tag & 7) {
        case TYPE_VARINT: fields_out[tag >> 3] = hd_reader_varint(&reader); break;
        case TYPE_FIXED64: fields_out[tag >> 3] = hd_reader_u64(&reader); break;
        default: return HD_WIRE;
        }
    }
    return reader.is_bad ? HD_WIRE : HD_OK;
}

enum { HEAD_ID = 1, HEAD_KIND, HEAD_ORG, HEAD_QUERY, HEAD_REMAINING, HEAD_CONTROL };

hd_status hd_codec_peek_reply(hd_str bytes, uint64_t *id_out) {
    uint64_t fields[16];
    HD_TRY(read_head(bytes, fields));
    *id_out = fields[HEAD_ID];
    return fields[HEAD_ID] != 0 ? HD_OK : HD_WIRE;
}

hd_status hd_codec_peek_request(hd_str bytes, hd_request_head *head_out) {
    uint64_t fields[16];
    HD_TRY(read_head(bytes, fields));
    uint64_t kind = fields[HEAD_KIND], control = fields[HEAD_CONTROL];
    if (fields[HEAD_ID] == 0 || kind < HD_MESSAGE_STEP || kind > HD_MESSAGE_CONTROL) return HD_WIRE;
    if (kind == HD_MESSAGE_CONTROL && (control < HD_CONTROL_HELLO || control > HD_CONTROL_CANCEL)) return HD_WIRE;
    *head_out = (hd_request_head){.id = fields[HEAD_ID],
                                  .kind = (hd_message_kind)kind,
                                  .org = fields[HEAD_ORG],
                                  .query = fields[HEAD_QUERY],
                                  .remaining_ms = (uint32_t)HD_MIN(fields[HEAD_REMAINING], UINT32_MAX),
                                  .control = kind == HD_MESSAGE_CONTROL ? (hd_control_kind)control : (hd_control_kind)0};
    return HD_OK;
}
