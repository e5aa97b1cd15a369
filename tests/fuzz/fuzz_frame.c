/* Every decoder of proto/codec*.c: requests and replies of all kinds, and a reply against the request that it answers. The input: the
 * size of the first message (four bytes, little-endian; past the end: all of it), the request, the reply.
 *
 * Beyond not crashing: what decodes has the head that a look at its beginning gave; it can be encoded, and what is encoded decodes to
 * the same message; a reply that fits its request still does after that. */
#include "proto/codec.h"
#include "tests/fuzz/fuzz.h"

enum { ARENA_BYTES_MAX = 64 << 20 };

static void check_control_head(const hd_request_head *head, const hd_control_request *control) {
    FUZZ_CHECK(head->control == control->kind && head->query == control->query);
    FUZZ_CHECK(control->kind == HD_CONTROL_CANCEL || control->query == 0);
    FUZZ_CHECK(head->org == (control->kind == HD_CONTROL_CREATE_PARTITION ? control->partition.org : control->org));
}

static bool read_request(hd_arena *arena, hd_str bytes, hd_request *request_out) {
    hd_str copy = fuzz_copy(bytes.data, bytes.size);
    hd_request_head head;
    hd_status peeked = hd_codec_peek_request(copy, &head);
    hd_status status = hd_codec_decode_request(arena, copy, request_out);
    hd_free((void *)(uintptr_t)copy.data);
    FUZZ_CHECK(status == HD_OK || status == HD_WIRE || status == HD_MEMORY);
    if (status != HD_OK) return false;
    FUZZ_CHECK(peeked == HD_OK && head.id == request_out->id && head.kind == request_out->kind);
    if (head.kind == HD_MESSAGE_STEP) FUZZ_CHECK(head.org == request_out->step.org && head.query == request_out->step.query);
    if (head.kind == HD_MESSAGE_WRITE) FUZZ_CHECK(head.org == request_out->write.org && head.query == 0);
    if (head.kind == HD_MESSAGE_CONTROL) check_control_head(&head, &request_out->control);
    return true;
}

static bool read_reply(hd_arena *arena, hd_str bytes, hd_reply *reply_out) {
    hd_str copy = fuzz_copy(bytes.data, bytes.size);
    uint64_t id;
    hd_status peeked = hd_codec_peek_reply(copy, &id);
    hd_status status = hd_codec_decode_reply(arena, copy, reply_out);
    hd_free((void *)(uintptr_t)copy.data);
    FUZZ_CHECK(status == HD_OK || status == HD_WIRE || status == HD_MEMORY);
    if (status != HD_OK) return false;
    FUZZ_CHECK(peeked == HD_OK && id == reply_out->id);
    return true;
}

/* Encoding reads every column to its end; the second encoding is the first one's bytes. */
static void check_request(hd_arena *arena, const hd_request *request, hd_request *again_out) {
    hd_buf first = {0}, second = {0};
    if (request->kind == HD_MESSAGE_STEP) FUZZ_CHECK(hd_codec_check_request(&request->step) == HD_OK);
    hd_codec_encode_request(request, &first);
    FUZZ_CHECK(read_request(arena, hd_buf_get(&first), again_out));
    hd_codec_encode_request(again_out, &second);
    FUZZ_CHECK(hd_str_is_equal(hd_buf_get(&first), hd_buf_get(&second)));
    hd_buf_fini(&first);
    hd_buf_fini(&second);
}

static void check_reply(hd_arena *arena, const hd_reply *reply, hd_reply *again_out) {
    hd_buf first = {0}, second = {0};
    hd_codec_encode_reply(reply, &first);
    FUZZ_CHECK(read_reply(arena, hd_buf_get(&first), again_out));
    hd_codec_encode_reply(again_out, &second);
    FUZZ_CHECK(hd_str_is_equal(hd_buf_get(&first), hd_buf_get(&second)));
    hd_buf_fini(&first);
    hd_buf_fini(&second);
}

static void run(hd_arena *arena, hd_str request_bytes, hd_str reply_bytes) {
    /* Either half in either place: a decoder gets whatever a peer sends. */
    hd_request request, request_again, odd_request;
    hd_reply reply, reply_again, odd_reply;
    bool is_request = read_request(arena, request_bytes, &request), is_reply = read_reply(arena, reply_bytes, &reply);
    if (read_request(arena, reply_bytes, &odd_request)) check_request(arena, &odd_request, &request_again);
    if (read_reply(arena, request_bytes, &odd_reply)) check_reply(arena, &odd_reply, &reply_again);
    if (is_request) check_request(arena, &request, &request_again);
    if (is_reply) check_reply(arena, &reply, &reply_again);
    if (!is_request || !is_reply || request.kind != HD_MESSAGE_STEP || reply.kind != HD_MESSAGE_STEP) return;
    if (reply.step.status != HD_OK) return;
    hd_status status = hd_codec_check_reply(&request.step, &reply.step);
    FUZZ_CHECK(status == HD_OK || status == HD_WIRE);
    FUZZ_CHECK(hd_codec_check_reply(&request_again.step, &reply_again.step) == status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 4) return 0;
    size_t request_size = (size_t)data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16 | (size_t)data[3] << 24;
    const char *at = (const char *)data + 4;
    size -= 4;
    if (request_size > size) request_size = size;
    hd_arena *arena = hd_arena_new(ARENA_BYTES_MAX);
    run(arena, (hd_str){at, request_size}, (hd_str){at + request_size, size - request_size});
    hd_arena_free(arena);
    return 0;
}
