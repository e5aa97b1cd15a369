#include "common/ids.h"

#include <pthread.h>
#include <sodium.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/clock.h"

enum { ULID_TEXT = 26 };

static void start_sodium(void) {
    HD_CHECK(sodium_init() >= 0); /* negative only where the system has no random source */
}

static void need_sodium(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start_sodium);
}

uint64_t hd_hash64(const void *bytes, size_t size) {
    return XXH3_64bits(bytes, size);
}

void hd_random_bytes(void *bytes_out, size_t size) {
    need_sodium();
    randombytes_buf(bytes_out, size);
}

uint64_t hd_random_u64(void) {
    uint64_t number;
    hd_random_bytes(&number, sizeof(number));
    return number;
}

bool hd_event_id_is_valid(hd_str id) {
    if (id.size == 0 || id.size > HD_EVENT_ID_MAX) return false;
    for (size_t i = 0; i < id.size; i++) {
        char c = id.data[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        bool is_digit = c >= '0' && c <= '9';
        if (!is_letter && !is_digit && c != '.' && c != '_' && c != ':' && c != '-') return false;
    }
    return true;
}

/* 128 bits, most significant first, as 26 digits of 5 bits; the first digit carries the upper 3. */
static void format_ulid(const uint8_t bytes[16], char text_out[ULID_TEXT + 1]) {
    static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    unsigned pending = 0;
    int pending_bits = 2; /* 26 × 5 = 130: two zero bits lead */
    size_t at = 0;
    for (size_t i = 0; i < 16; i++) {
        pending = (pending << 8 | bytes[i]) & 0xfff;
        pending_bits += 8;
        while (pending_bits >= 5) {
            pending_bits -= 5;
            text_out[at++] = digits[pending >> pending_bits & 31];
        }
    }
    text_out[at] = '\0';
}

void hd_event_id_new(char text_out[27]) {
    uint8_t bytes[16];
    hd_random_bytes(bytes, sizeof(bytes));
    uint64_t ms = (uint64_t)hd_clock_wall_us() / 1000;
    for (int i = 0; i < 6; i++) bytes[i] = (uint8_t)(ms >> (8 * (5 - i)));
    format_ulid(bytes, text_out);
}

void hd_event_id_from_key(uint64_t org, hd_str idempotency_key, char text_out[27]) {
    static const char purpose[] = "heddle idempotency key";
    uint8_t org_bytes[8], bytes[16];
    for (int i = 0; i < 8; i++) org_bytes[i] = (uint8_t)(org >> (8 * i));
    need_sodium();
    crypto_generichash_state state;
    crypto_generichash_init(&state, NULL, 0, sizeof(bytes));
    crypto_generichash_update(&state, (const unsigned char *)purpose, sizeof(purpose));
    crypto_generichash_update(&state, org_bytes, sizeof(org_bytes));
    crypto_generichash_update(&state, (const unsigned char *)idempotency_key.data, idempotency_key.size);
    crypto_generichash_final(&state, bytes, sizeof(bytes));
    format_ulid(bytes, text_out);
}

uint32_t hd_event_partition(hd_str event_id, uint32_t partition_count) {
    HD_CHECK(partition_count >= 1 && partition_count <= HD_PARTITIONS_MAX && (partition_count & (partition_count - 1)) == 0);
    return (uint32_t)hd_hash64(event_id.data, event_id.size) & (partition_count - 1);
}

hd_id128 hd_name_id(hd_str name) {
    hd_id128 id;
    need_sodium();
    crypto_generichash(id.bytes, sizeof(id.bytes), (const unsigned char *)name.data, name.size, NULL, 0);
    return id;
}

static void format_id(const char prefix[4], hd_id128 id, char text_out[HD_ENTITY_ID_TEXT + 1]) {
    static const char digits[] = "0123456789abcdef";
    memcpy(text_out, prefix, 4);
    for (int i = 0; i < 16; i++) {
        text_out[4 + 2 * i] = digits[id.bytes[i] >> 4];
        text_out[5 + 2 * i] = digits[id.bytes[i] & 15];
    }
    text_out[HD_ENTITY_ID_TEXT] = '\0';
}

void hd_entity_id_format(hd_id128 id, char text_out[37]) {
    format_id("ent_", id, text_out);
}

void hd_tag_id_format(hd_id128 id, char text_out[37]) {
    format_id("tag_", id, text_out);
}

static bool parse_id(const char prefix[4], hd_str text, hd_id128 *id_out) {
    if (text.size != HD_ENTITY_ID_TEXT || memcmp(text.data, prefix, 4) != 0) return false;
    hd_id128 id = {{0}};
    for (int i = 0; i < 32; i++) {
        char c = text.data[4 + i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0) return false;
        id.bytes[i / 2] = (uint8_t)(id.bytes[i / 2] << 4 | digit);
    }
    *id_out = id;
    return true;
}

bool hd_entity_id_parse(hd_str text, hd_id128 *id_out) {
    return parse_id("ent_", text, id_out);
}

bool hd_tag_id_parse(hd_str text, hd_id128 *id_out) {
    return parse_id("tag_", text, id_out);
}
