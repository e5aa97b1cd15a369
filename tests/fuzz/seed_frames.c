/* Writes frames of the codec's own unit test, as seeds for fuzz_frame: seed_frames FOLDER. The unit test's makers are taken as they
 * are, so that a column added there is in the seeds too. */
#define main codec_tests_main
#include "tests/unit/test_proto_codec.c"
#undef main

enum { SEED_ROUNDS = 400, SEEDS_A_KIND = 24, SEED_BYTES_MAX = 700 };

static int write_seed(const char *folder, const char *kind, uint32_t number, const hd_buf *request, const hd_buf *reply) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s-%02u", folder, kind, number);
    FILE *file = fopen(path, "wb");
    if (file == NULL) {
        perror(path);
        return 1;
    }
    uint8_t size[4] = {(uint8_t)request->size, (uint8_t)(request->size >> 8), (uint8_t)(request->size >> 16), 0};
    fwrite(size, 1, sizeof(size), file);
    fwrite(request->data, 1, request->size, file);
    fwrite(reply->data, 1, reply->size, file);
    return fclose(file) == 0 ? 0 : 1;
}

int main(int argc, char **argv) {
    static const char *const kinds[] = {"", "step", "write", "control"};
    if (argc != 2) {
        fprintf(stderr, "seed_frames FOLDER\n");
        return 2;
    }
    randomness.state = 1;
    made = hd_arena_new(0);
    uint32_t counts[HD_COUNT_OF(kinds)] = {0};
    int failed = 0;
    hd_buf request_bytes = {0}, reply_bytes = {0};
    for (uint32_t round = 0; round < SEED_ROUNDS; round++) {
        hd_arena_reset(made);
        hd_buf_clear(&request_bytes);
        hd_buf_clear(&reply_bytes);
        hd_request request = make_request(round);
        hd_reply reply = make_reply(&request);
        hd_codec_encode_request(&request, &request_bytes);
        hd_codec_encode_reply(&reply, &reply_bytes);
        if (request_bytes.size + reply_bytes.size > SEED_BYTES_MAX || counts[request.kind] == SEEDS_A_KIND) continue;
        failed |= write_seed(argv[1], kinds[request.kind], ++counts[request.kind], &request_bytes, &reply_bytes);
    }
    hd_buf_fini(&request_bytes);
    hd_buf_fini(&reply_bytes);
    hd_arena_free(made);
    return failed;
}
