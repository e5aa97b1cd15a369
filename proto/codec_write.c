/* Bodies of writes and of administration. */
#include "common/ids.h"
#include "proto/codec_private.h"

/* ---- writes ---- */

enum { TEXT_ID, TEXT_SUMMARY, TEXT_CONTENT, TEXT_THREAD, TEXT_PREVIOUS, TEXT_KEY, TEXT_COUNT };
enum { BIT_CREATED = 1, BIT_REPLACED = 2, BIT_DELETED = 4, BIT_REPEAT = 8, BITS_ALL = 15 };

static HdPb__WriteItem *put_item(hd_arena *scratch, const hd_write_item *item) {
    const hd_event_record *event = &item->event;
    HdPb__WriteItem *message;
    HD_CODEC_NEW(message, scratch, write_item);
    message->kind = item->kind;
    message->partition = item->partition;
    message->epoch = item->epoch;
    message->is_replace = item->is_replace;
    const hd_str texts[TEXT_COUNT] = {
        [TEXT_ID] = event->id,         [TEXT_SUMMARY] = event->summary,   [TEXT_CONTENT] = event->content,
        [TEXT_THREAD] = event->thread, [TEXT_PREVIOUS] = event->previous, [TEXT_KEY] = item->idempotency_key};
    message->texts = hd_codec_put_strings(scratch, texts, TEXT_COUNT);
    message->timestamp_us = event->timestamp_us;
    message->has_order = event->has_order;
    message->order_index = event->order_index;
    HD_CODEC_PUT_COLUMN(message, vector, event->vector, event->dimension);
    uint32_t count = HD_MAX(event->entity_count, event->tag_count);
    hd_str *names = hd_arena_alloc(scratch, count * sizeof(*names));
    hd_str *types = hd_arena_alloc(scratch, count * sizeof(*types));
    uint8_t *kinds = hd_arena_alloc(scratch, count);
    HD_CHECK(names != NULL && types != NULL && kinds != NULL);
    for (uint32_t i = 0; i < event->entity_count; i++) {
        names[i] = event->entities[i].name;
        types[i] = event->entities[i].type;
    }
    message->entity_names = hd_codec_put_strings(scratch, names, event->entity_count);
    message->entity_types = hd_codec_put_strings(scratch, types, event->entity_count);
    for (uint32_t i = 0; i < event->tag_count; i++) {
        names[i] = event->tags[i].name;
        kinds[i] = event->tags[i].kind;
    }
    message->tag_names = hd_codec_put_strings(scratch, names, event->tag_count);
    message->tag_kinds = hd_codec_put_bytes(kinds, event->tag_count);
    return message;
}

HdPb__WriteRequest *hd_codec_put_write_request(hd_arena *scratch, const hd_write_request *request) {
    HdPb__WriteRequest *message;
    HD_CODEC_NEW(message, scratch, write_request);
    message->n_items = request->item_count;
    message->items = hd_arena_alloc(scratch, request->item_count * sizeof(*message->items));
    HD_CHECK(message->items != NULL);
    for (uint32_t i = 0; i < request->item_count; i++) message->items[i] = put_item(scratch, &request->items[i]);
    return message;
}

static hd_status get_participations(hd_arena *arena, const HdPb__WriteItem *message, hd_event_record *event) {
    size_t entity_count = message->entity_names != NULL ? message->entity_names->n_sizes : 0;
    size_t tag_count = message->tag_names != NULL ? message->tag_names->n_sizes : 0;
    if (entity_count > HD_CODEC_PARTICIPATIONS_MAX || tag_count > HD_CODEC_PARTICIPATIONS_MAX) return HD_WIRE;
    hd_str *names, *types;
    HD_TRY(hd_codec_get_strings(arena, message->entity_names, entity_count, HD_CODEC_NAME, &names));
    HD_TRY(hd_codec_get_strings(arena, message->entity_types, entity_count, HD_CODEC_NAME_OR_ABSENT, &types));
    HD_ALLOC(event->entities, arena, entity_count);
    event->entity_count = (uint32_t)entity_count;
    for (size_t i = 0; i < entity_count; i++) {
        if (names[i].size == 0) return HD_WIRE;
        event->entities[i] = (hd_entity_ref){names[i], types != NULL ? types[i] : (hd_str){NULL, 0}};
    }
    uint8_t *kinds;
    HD_TRY(hd_codec_get_strings(arena, message->tag_names, tag_count, HD_CODEC_NAME, &names));
    HD_TRY(hd_codec_get_bytes(&message->tag_kinds, tag_count, 1, &kinds));
    if (tag_count > 0 && kinds == NULL) return HD_WIRE;
    HD_ALLOC(event->tags, arena, tag_count);
    event->tag_count = (uint32_t)tag_count;
    for (size_t i = 0; i < tag_count; i++) {
        if (names[i].size == 0 || (kinds[i] != HD_KIND_CONTAINS && kinds[i] != HD_KIND_REFERS)) return HD_WIRE;
        event->tags[i] = (hd_tag_ref){names[i], kinds[i]};
    }
    return HD_OK;
}

static hd_status get_item(hd_arena *arena, const HdPb__WriteItem *message, hd_write_item *item) {
    if (message->kind != HD_WRITE_SAVE && message->kind != HD_WRITE_DELETE) return HD_WIRE;
    item->kind = (hd_write_kind)message->kind;
    item->partition = message->partition;
    item->epoch = message->epoch;
    item->is_replace = message->is_replace;
    hd_event_record *event = &item->event;
    hd_str *texts;
    HD_TRY(hd_codec_get_strings(arena, message->texts, TEXT_COUNT, HD_CODEC_TEXT_OR_ABSENT, &texts));
    if (texts == NULL) return HD_WIRE;
    event->id = texts[TEXT_ID];
    event->summary = texts[TEXT_SUMMARY];
    event->content = texts[TEXT_CONTENT];
    event->thread = texts[TEXT_THREAD];
    event->previous = texts[TEXT_PREVIOUS];
    item->idempotency_key = texts[TEXT_KEY];
    if (event->id.size < 1 || event->id.size > HD_EVENT_ID_MAX) return HD_WIRE;
    if (event->previous.data != NULL && (event->previous.size < 1 || event->previous.size > HD_EVENT_ID_MAX)) return HD_WIRE;
    if (event->summary.size > HD_CODEC_NAME_MAX || event->thread.size > HD_CODEC_NAME_MAX) return HD_WIRE;
    if (item->idempotency_key.size > HD_CODEC_NAME_MAX) return HD_WIRE;
    if (item->kind == HD_WRITE_SAVE && event->summary.data == NULL) return HD_WIRE;
    event->timestamp_us = message->timestamp_us;
    event->has_order = message->has_order;
    event->order_index = message->order_index;
    if (message->n_vector > 4096 || !hd_codec_are_floats_finite(message->vector, message->n_vector)) return HD_WIRE;
    event->dimension = (uint32_t)message->n_vector;
    event->vector = message->n_vector > 0 ? message->vector : NULL;
    return get_participations(arena, message, event);
}

hd_status hd_codec_get_write_request(hd_arena *arena, const HdPb__WriteRequest *message, hd_write_request *request_out) {
    if (message->n_items > UINT32_MAX) return HD_WIRE;
    HD_ALLOC(request_out->items, arena, message->n_items);
    request_out->item_count = (uint32_t)message->n_items;
    for (size_t i = 0; i < message->n_items; i++) HD_TRY(get_item(arena, message->items[i], &request_out->items[i]));
    return HD_OK;
}

HdPb__WriteReply *hd_codec_put_write_reply(hd_arena *scratch, const hd_write_reply *reply) {
    HdPb__WriteReply *message;
    HD_CODEC_NEW(message, scratch, write_reply);
    message->status = reply->status;
    message->message = hd_codec_put_string(scratch, reply->message);
    uint32_t count = reply->outcome_count;
    uint32_t *codes = hd_arena_alloc(scratch, count * sizeof(*codes));
    hd_str *messages = hd_arena_alloc(scratch, count * sizeof(*messages));
    hd_str *events = hd_arena_alloc(scratch, count * sizeof(*events));
    uint8_t *bits = hd_arena_alloc(scratch, count);
    HD_CHECK(codes != NULL && messages != NULL && events != NULL && bits != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const hd_write_outcome *outcome = &reply->outcomes[i];
        codes[i] = outcome->code;
        messages[i] = outcome->message;
        events[i] = outcome->event;
        bits[i] = (uint8_t)((outcome->is_created ? BIT_CREATED : 0) | (outcome->is_replaced ? BIT_REPLACED : 0) |
                            (outcome->is_deleted ? BIT_DELETED : 0) | (outcome->is_repeat ? BIT_REPEAT : 0));
    }
    HD_CODEC_PUT_COLUMN(message, codes, codes, count);
    message->messages = hd_codec_put_strings(scratch, messages, count);
    message->events = hd_codec_put_strings(scratch, events, count);
    message->bits = hd_codec_put_bytes(bits, count);
    return message;
}

hd_status hd_codec_get_write_reply(hd_arena *arena, const HdPb__WriteReply *message, hd_write_reply *reply_out) {
    reply_out->status = hd_status_from_wire(message->status);
    HD_TRY(hd_codec_get_string(message->message, HD_CODEC_NAME_OR_ABSENT, &reply_out->message));
    size_t count = message->n_codes;
    hd_str *messages, *events;
    uint8_t *bits;
    if (count > UINT32_MAX) return HD_WIRE;
    HD_TRY(hd_codec_get_strings(arena, message->messages, count, HD_CODEC_NAME_OR_ABSENT, &messages));
    HD_TRY(hd_codec_get_strings(arena, message->events, count, HD_CODEC_NAME_OR_ABSENT, &events));
    HD_TRY(hd_codec_get_bytes(&message->bits, count, 1, &bits));
    if (count > 0 && bits == NULL) return HD_WIRE;
    HD_ALLOC(reply_out->outcomes, arena, count);
    reply_out->outcome_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        if (bits[i] > BITS_ALL) return HD_WIRE;
        reply_out->outcomes[i] = (hd_write_outcome){.code = hd_status_from_wire(message->codes[i]),
                                                    .message = messages != NULL ? messages[i] : (hd_str){NULL, 0},
                                                    .event = events != NULL ? events[i] : (hd_str){NULL, 0},
                                                    .is_created = (bits[i] & BIT_CREATED) != 0,
                                                    .is_replaced = (bits[i] & BIT_REPLACED) != 0,
                                                    .is_deleted = (bits[i] & BIT_DELETED) != 0,
                                                    .is_repeat = (bits[i] & BIT_REPEAT) != 0};
    }
    return HD_OK;
}

/* ---- administration ---- */

HdPb__ControlRequest *hd_codec_put_control_request(hd_arena *scratch, const hd_control_request *request) {
    HdPb__ControlRequest *message;
    HD_CODEC_NEW(message, scratch, control_request);
    message->partition_id = request->partition.id;
    message->partition_org = request->partition.org;
    message->partition_epoch = request->partition.epoch;
    message->partition_dimension = request->partition.dimension;
    message->org = request->org;
    return message;
}

hd_status hd_codec_get_control_request(const HdPb__ControlRequest *message, hd_control_request *request_out) {
    request_out->partition = (hd_partition_spec){.id = message->partition_id,
                                                 .org = message->partition_org,
                                                 .epoch = message->partition_epoch,
                                                 .dimension = message->partition_dimension};
    request_out->org = message->org;
    if (request_out->kind == HD_CONTROL_CREATE_PARTITION &&
        (request_out->partition.dimension < 1 || request_out->partition.dimension > 4096)) {
        return HD_WIRE;
    }
    return HD_OK;
}

static HdPb__PartitionStats *put_stats(hd_arena *scratch, const hd_partition_stats *stats, uint32_t count) {
    HdPb__PartitionStats *message;
    HD_CODEC_NEW(message, scratch, partition_stats);
    uint64_t *columns = hd_arena_alloc(scratch, (size_t)count * 7 * sizeof(*columns));
    uint8_t *is_loaded = hd_arena_alloc(scratch, count);
    HD_CHECK(columns != NULL && is_loaded != NULL);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t row[7] = {stats[i].id,       stats[i].org,  stats[i].events,      stats[i].vectors,
                                 stats[i].entities, stats[i].tags, stats[i].memory_bytes};
        for (uint32_t c = 0; c < 7; c++) columns[(size_t)c * count + i] = row[c];
        is_loaded[i] = stats[i].is_loaded;
    }
    uint64_t *at = columns;
    HD_CODEC_PUT_COLUMN(message, ids, at, count);
    HD_CODEC_PUT_COLUMN(message, orgs, at + count, count);
    HD_CODEC_PUT_COLUMN(message, events, at + 2 * (size_t)count, count);
    HD_CODEC_PUT_COLUMN(message, vectors, at + 3 * (size_t)count, count);
    HD_CODEC_PUT_COLUMN(message, entities, at + 4 * (size_t)count, count);
    HD_CODEC_PUT_COLUMN(message, tags, at + 5 * (size_t)count, count);
    HD_CODEC_PUT_COLUMN(message, memory_bytes, at + 6 * (size_t)count, count);
    message->is_loaded = hd_codec_put_bytes(is_loaded, count);
    return message;
}

static hd_status get_stats(hd_arena *arena, const HdPb__PartitionStats *message, hd_control_reply *reply) {
    size_t count = message->n_ids;
    uint64_t *orgs, *events, *vectors, *entities, *tags, *memory_bytes;
    uint8_t *is_loaded;
    if (count > UINT32_MAX) return HD_WIRE;
    HD_CODEC_GET_FULL_COLUMN(message, orgs, count, orgs);
    HD_CODEC_GET_FULL_COLUMN(message, events, count, events);
    HD_CODEC_GET_FULL_COLUMN(message, vectors, count, vectors);
    HD_CODEC_GET_FULL_COLUMN(message, entities, count, entities);
    HD_CODEC_GET_FULL_COLUMN(message, tags, count, tags);
    HD_CODEC_GET_FULL_COLUMN(message, memory_bytes, count, memory_bytes);
    HD_TRY(hd_codec_get_bytes(&message->is_loaded, count, 1, &is_loaded));
    if (count > 0 && is_loaded == NULL) return HD_WIRE;
    HD_ALLOC(reply->partitions, arena, count);
    reply->partition_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        reply->partitions[i] = (hd_partition_stats){.id = message->ids[i],
                                                    .org = orgs[i],
                                                    .is_loaded = is_loaded[i] != 0,
                                                    .events = events[i],
                                                    .vectors = vectors[i],
                                                    .entities = entities[i],
                                                    .tags = tags[i],
                                                    .memory_bytes = memory_bytes[i]};
    }
    return HD_OK;
}

HdPb__ControlReply *hd_codec_put_control_reply(hd_arena *scratch, const hd_control_reply *reply) {
    HdPb__ControlReply *message;
    HD_CODEC_NEW(message, scratch, control_reply);
    message->status = reply->status;
    message->message = hd_codec_put_string(scratch, reply->message);
    message->shard_uuid = hd_codec_put_string(scratch, reply->shard_uuid);
    message->version = hd_codec_put_string(scratch, reply->version);
    message->format = reply->format;
    message->memory_bytes = reply->memory_bytes;
    message->disk_bytes = reply->disk_bytes;
    message->uptime_s = reply->uptime_s;
    if (reply->partition_count > 0) message->partitions = put_stats(scratch, reply->partitions, reply->partition_count);
    return message;
}

hd_status hd_codec_get_control_reply(hd_arena *arena, const HdPb__ControlReply *message, hd_control_reply *reply_out) {
    reply_out->status = hd_status_from_wire(message->status);
    HD_TRY(hd_codec_get_string(message->message, HD_CODEC_NAME_OR_ABSENT, &reply_out->message));
    HD_TRY(hd_codec_get_string(message->shard_uuid, HD_CODEC_NAME_OR_ABSENT, &reply_out->shard_uuid));
    HD_TRY(hd_codec_get_string(message->version, HD_CODEC_NAME_OR_ABSENT, &reply_out->version));
    reply_out->format = message->format;
    reply_out->memory_bytes = message->memory_bytes;
    reply_out->disk_bytes = message->disk_bytes;
    reply_out->uptime_s = message->uptime_s;
    return message->partitions != NULL ? get_stats(arena, message->partitions, reply_out) : HD_OK;
}
