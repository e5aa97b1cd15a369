/* Byte layouts; the pictures are in keys.h. Readers trust nothing: a stored value that does not decode to the last byte is damage. */
#include "shard/keys.h"

#include "common/graph.h"
#include "common/ids.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "vectors are stored as the machine's floats, which must be little-endian");

enum { LAYOUT = 1 };
enum { FLAG_ORDER = 1, FLAG_THREAD = 2, FLAG_PREVIOUS = 4, FLAG_VECTOR = 8, FLAG_EVENT_ALL = 15 };
enum { ONCE_CREATED = 1, ONCE_REPLACED = 2, ONCE_ALL = 3 };

static void put_u64_be(char *out, uint64_t v) {
    for (int i = 7; i >= 0; i--, v >>= 8) out[i] = (char)(v & 0xff);
}

static uint64_t zigzag(int64_t v) {
    return ((uint64_t)v << 1) ^ (v < 0 ? UINT64_MAX : 0);
}

static int64_t unzigzag(uint64_t v) {
    return (int64_t)((v >> 1) ^ (0 - (v & 1)));
}

void sh_key_of_partition(uint64_t partition, char key_out[SH_KEY_PARTITION_SIZE]) {
    put_u64_be(key_out, partition);
}

void sh_key_after_partition(uint64_t partition, char key_out[SH_KEY_PARTITION_SIZE]) {
    put_u64_be(key_out, partition + 1);
}

void sh_key_of_record(uint64_t partition, uint64_t record, char key_out[SH_KEY_RECORD_SIZE]) {
    put_u64_be(key_out, partition);
    put_u64_be(key_out + 8, record);
}

void sh_key_of_once(uint64_t partition, hd_str idempotency_key, char key_out[SH_KEY_ONCE_SIZE]) {
    put_u64_be(key_out, partition);
    hd_id128 digest = hd_name_id(idempotency_key);
    memcpy(key_out + 8, digest.bytes, sizeof(digest.bytes));
}

void sh_key_of_meta(uint64_t partition, char key_out[SH_KEY_META_SIZE]) {
    key_out[0] = 'p';
    put_u64_be(key_out + 1, partition);
}

bool sh_key_parse_record(hd_str key, uint64_t *partition_out, uint64_t *record_out) {
    if (key.size != SH_KEY_RECORD_SIZE) return false;
    hd_reader r = hd_reader_of(key.data, key.size);
    *partition_out = hd_reader_u64_be(&r);
    *record_out = hd_reader_u64_be(&r);
    return !r.is_bad;
}

bool sh_key_parse_meta(hd_str key, uint64_t *partition_out) {
    if (key.size != SH_KEY_META_SIZE || key.data[0] != 'p') return false;
    hd_reader r = hd_reader_of(key.data + 1, key.size - 1);
    *partition_out = hd_reader_u64_be(&r);
    return !r.is_bad;
}

hd_str sh_key_meta_uuid(void) {
    return HD_STR("uuid");
}

hd_str sh_key_meta_prefix(void) {
    return HD_STR("p");
}

void sh_value_add_meta(hd_buf *buf, const hd_partition_spec *spec, const sh_commit *commit) {
    hd_buf_add_u8(buf, LAYOUT);
    hd_buf_add_varint(buf, spec->org);
    hd_buf_add_varint(buf, spec->epoch);
    hd_buf_add_varint(buf, spec->dimension);
    hd_buf_add_varint(buf, commit->record_next);
    hd_buf_add_varint(buf, commit->sequence);
    hd_buf_add_varint(buf, commit->events);
    hd_buf_add_varint(buf, commit->vectors);
    hd_buf_add_varint(buf, commit->entities);
    hd_buf_add_varint(buf, commit->tags);
}

bool sh_value_read_meta(hd_str value, hd_partition_spec *spec_out, sh_commit *commit_out) {
    hd_reader r = hd_reader_of(value.data, value.size);
    uint8_t layout = hd_reader_u8(&r);
    spec_out->org = hd_reader_varint(&r);
    spec_out->epoch = hd_reader_varint(&r);
    uint64_t dimension = hd_reader_varint(&r);
    commit_out->record_next = hd_reader_varint(&r);
    commit_out->sequence = hd_reader_varint(&r);
    commit_out->events = hd_reader_varint(&r);
    commit_out->vectors = hd_reader_varint(&r);
    commit_out->entities = hd_reader_varint(&r);
    commit_out->tags = hd_reader_varint(&r);
    spec_out->dimension = (uint32_t)dimension;
    return !r.is_bad && layout == LAYOUT && hd_reader_left(&r) == 0 && dimension >= 1 && dimension <= 4096 &&
           commit_out->record_next >= 1 && commit_out->sequence >= 1;
}

void sh_value_add_event(hd_buf *buf, const hd_event_record *record, uint64_t born) {
    uint8_t flags = 0;
    if (record->has_order) flags |= FLAG_ORDER;
    if (record->thread.data) flags |= FLAG_THREAD;
    if (record->previous.data) flags |= FLAG_PREVIOUS;
    if (record->vector) flags |= FLAG_VECTOR;
    hd_buf_add_u8(buf, LAYOUT);
    hd_buf_add_varint(buf, born);
    hd_buf_add_u8(buf, flags);
    hd_buf_add_varint(buf, zigzag(record->timestamp_us));
    if (record->has_order) hd_buf_add_varint(buf, zigzag(record->order_index));
    hd_buf_add_sized(buf, record->id);
    if (record->thread.data) hd_buf_add_sized(buf, record->thread);
    if (record->previous.data) hd_buf_add_sized(buf, record->previous);
    hd_buf_add_varint(buf, record->entity_count);
    for (uint32_t i = 0; i < record->entity_count; i++) {
        hd_buf_add_sized(buf, record->entities[i].name);
        hd_buf_add_u8(buf, record->entities[i].type.data != NULL);
        if (record->entities[i].type.data) hd_buf_add_sized(buf, record->entities[i].type);
    }
    hd_buf_add_varint(buf, record->tag_count);
    for (uint32_t i = 0; i < record->tag_count; i++) {
        hd_buf_add_u8(buf, record->tags[i].kind);
        hd_buf_add_sized(buf, record->tags[i].name);
    }
}

static hd_status read_names(hd_arena *arena, hd_reader *r, hd_event_record *record) {
    uint64_t entity_count = hd_reader_varint(r);
    if (entity_count > SH_ENTITIES_MAX) return HD_STORE_CORRUPT;
    record->entity_count = (uint32_t)entity_count;
    HD_ALLOC(record->entities, arena, entity_count);
    for (uint64_t i = 0; i < entity_count; i++) {
        record->entities[i].name = hd_reader_sized(r);
        if (hd_reader_u8(r)) record->entities[i].type = hd_reader_sized(r);
    }
    uint64_t tag_count = hd_reader_varint(r);
    if (tag_count > SH_TAGS_MAX) return HD_STORE_CORRUPT;
    record->tag_count = (uint32_t)tag_count;
    HD_ALLOC(record->tags, arena, tag_count);
    for (uint64_t i = 0; i < tag_count; i++) {
        record->tags[i].kind = hd_reader_u8(r);
        record->tags[i].name = hd_reader_sized(r);
        if (record->tags[i].kind != HD_KIND_CONTAINS && record->tags[i].kind != HD_KIND_REFERS) return HD_STORE_CORRUPT;
    }
    return HD_OK;
}

hd_status sh_value_read_event(hd_arena *arena, hd_str value, hd_event_record *record_out, uint64_t *born_out,
                              bool *has_vector_out) {
    *record_out = (hd_event_record){0};
    hd_reader r = hd_reader_of(value.data, value.size);
    uint8_t layout = hd_reader_u8(&r);
    *born_out = hd_reader_varint(&r);
    uint8_t flags = hd_reader_u8(&r);
    if (r.is_bad || layout != LAYOUT || (flags & ~FLAG_EVENT_ALL)) return HD_STORE_CORRUPT;
    record_out->timestamp_us = unzigzag(hd_reader_varint(&r));
    record_out->has_order = (flags & FLAG_ORDER) != 0;
    if (record_out->has_order) record_out->order_index = unzigzag(hd_reader_varint(&r));
    record_out->id = hd_reader_sized(&r);
    if (flags & FLAG_THREAD) record_out->thread = hd_reader_sized(&r);
    if (flags & FLAG_PREVIOUS) record_out->previous = hd_reader_sized(&r);
    *has_vector_out = (flags & FLAG_VECTOR) != 0;
    HD_TRY(read_names(arena, &r, record_out));
    return r.is_bad || hd_reader_left(&r) != 0 || !hd_event_id_is_valid(record_out->id) ? HD_STORE_CORRUPT : HD_OK;
}

void sh_value_add_text(hd_buf *buf, hd_str summary, hd_str content) {
    hd_buf_add_u8(buf, LAYOUT);
    hd_buf_add_sized(buf, summary);
    hd_buf_add_u8(buf, content.data != NULL);
    if (content.data) hd_buf_add_sized(buf, content);
}

bool sh_value_read_text(hd_str value, hd_str *summary_out, hd_str *content_out) {
    hd_reader r = hd_reader_of(value.data, value.size);
    uint8_t layout = hd_reader_u8(&r);
    *summary_out = hd_reader_sized(&r);
    *content_out = (hd_str){0};
    if (hd_reader_u8(&r)) *content_out = hd_reader_sized(&r);
    return !r.is_bad && layout == LAYOUT && hd_reader_left(&r) == 0;
}

bool sh_value_read_summary(hd_str head, hd_str *summary_out) {
    hd_reader r = hd_reader_of(head.data, head.size);
    uint8_t layout = hd_reader_u8(&r);
    *summary_out = hd_reader_sized(&r);
    return !r.is_bad && layout == LAYOUT;
}

void sh_value_add_vector(hd_buf *buf, const float *vector, uint32_t dimension) {
    hd_buf_add(buf, vector, (size_t)dimension * sizeof(float));
}

bool sh_value_read_vector(hd_str value, uint32_t dimension, float *vector_out) {
    if (value.size != (size_t)dimension * sizeof(float)) return false;
    memcpy(vector_out, value.data, value.size);
    return true;
}

void sh_value_add_dead(hd_buf *buf, uint64_t died, int64_t wall_us) {
    hd_buf_add_u8(buf, LAYOUT);
    hd_buf_add_varint(buf, died);
    hd_buf_add_u64(buf, (uint64_t)wall_us);
}

bool sh_value_read_dead(hd_str value, uint64_t *died_out, int64_t *wall_us_out) {
    hd_reader r = hd_reader_of(value.data, value.size);
    uint8_t layout = hd_reader_u8(&r);
    *died_out = hd_reader_varint(&r);
    *wall_us_out = (int64_t)hd_reader_u64(&r);
    return !r.is_bad && layout == LAYOUT && hd_reader_left(&r) == 0;
}

void sh_value_add_once(hd_buf *buf, const sh_once *once) {
    hd_buf_add_u8(buf, LAYOUT);
    hd_buf_add_u8(buf, (uint8_t)((once->is_created ? ONCE_CREATED : 0) | (once->is_replaced ? ONCE_REPLACED : 0)));
    hd_buf_add_u64(buf, once->fingerprint);
    hd_buf_add_sized(buf, once->event);
}

bool sh_value_read_once(hd_str value, sh_once *once_out) {
    hd_reader r = hd_reader_of(value.data, value.size);
    uint8_t layout = hd_reader_u8(&r);
    uint8_t flags = hd_reader_u8(&r);
    once_out->is_created = (flags & ONCE_CREATED) != 0;
    once_out->is_replaced = (flags & ONCE_REPLACED) != 0;
    once_out->fingerprint = hd_reader_u64(&r);
    once_out->event = hd_reader_sized(&r);
    return !r.is_bad && layout == LAYOUT && hd_reader_left(&r) == 0 && (flags & ~ONCE_ALL) == 0;
}

/* A string's place is marked by its size and whether it is there at all, so that ("ab", "c") and ("a", "bc") differ. */
static void add_marked(hd_buf *buf, hd_str text) {
    hd_buf_add_u8(buf, text.data != NULL);
    hd_buf_add_sized(buf, text);
}

uint64_t sh_record_fingerprint(const hd_event_record *record) {
    hd_buf buf;
    hd_buf_init(&buf);
    add_marked(&buf, record->id);
    add_marked(&buf, record->summary);
    add_marked(&buf, record->content);
    add_marked(&buf, record->thread);
    add_marked(&buf, record->previous);
    hd_buf_add_u8(&buf, record->has_order);
    hd_buf_add_u64(&buf, record->has_order ? (uint64_t)record->order_index : 0);
    for (uint32_t i = 0; i < record->entity_count; i++) {
        add_marked(&buf, record->entities[i].name);
        add_marked(&buf, record->entities[i].type);
    }
    for (uint32_t i = 0; i < record->tag_count; i++) {
        hd_buf_add_u8(&buf, record->tags[i].kind);
        add_marked(&buf, record->tags[i].name);
    }
    uint64_t fingerprint = hd_hash64(buf.data, buf.size);
    hd_buf_fini(&buf);
    return fingerprint;
}
