/* The codec against itself and against damage: random messages come back as they were; every prefix and thousands of damaged copies
 * either fail as HD_WIRE or give structs that can be read from end to end. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/ids.h"
#include "proto/codec.h"
#include "tests/support/seed.h"

/* ---- random ---- */

static test_random randomness;

static uint64_t next_random(void) {
    return test_random_u64(&randomness);
}

static uint32_t below(uint32_t n) {
    return test_random_below(&randomness, n);
}

static bool coin(void) {
    return next_random() & 1;
}

/* ---- random structs ---- */

static hd_arena *made; /* what the structs of one round are made of */

static void *make(size_t count, size_t size) {
    void *memory = hd_arena_alloc_zero(made, count, size);
    assert_non_null(memory);
    return memory;
}

static hd_str make_text(uint32_t size_min, uint32_t size_max) {
    uint32_t size = size_min + below(size_max - size_min + 1);
    char *text = make(size + 1, 1);
    for (uint32_t i = 0; i < size; i++) text[i] = (char)('!' + below(90));
    return (hd_str){text, size};
}

static hd_str make_optional(uint32_t size_max) {
    return coin() ? make_text(0, size_max) : (hd_str){NULL, 0};
}

static hd_str *make_texts(uint32_t count, uint32_t size_min, bool is_optional) {
    hd_str *texts = make(count, sizeof(*texts));
    for (uint32_t i = 0; i < count; i++) texts[i] = is_optional && coin() ? (hd_str){NULL, 0} : make_text(size_min, 40);
    return texts;
}

static void fill_random(void *bytes, size_t size) {
    for (size_t i = 0; i < size; i++) ((uint8_t *)bytes)[i] = (uint8_t)next_random();
}

static float *make_floats(size_t count) {
    float *values = make(count, sizeof(*values));
    for (size_t i = 0; i < count; i++) values[i] = (float)below(2000) / 1000.0F - 1.0F;
    return values;
}

/* Of a frontier: locals, or ids, or both. `flags`: what every event has, −1: no column. */
static hd_event_batch make_events(uint32_t count, uint32_t facets, int flags, uint32_t dimension) {
    hd_event_batch batch = {.count = count};
    if (count == 0) return batch;
    bool has_ids = (facets & HD_FACET_ID) || coin();
    if (has_ids) batch.ids = make_texts(count, 1, false);
    if (!has_ids || coin()) fill_random(batch.locals = make(count, 8), count * 8);
    if (flags >= 0) {
        batch.flags = make(count, 1);
        for (uint32_t i = 0; i < count; i++) batch.flags[i] = (uint8_t)(flags | below(16));
    }
    if (facets & HD_FACET_TIME) fill_random(batch.timestamp_us = make(count, 8), count * 8);
    if (facets & HD_FACET_ORDER) fill_random(batch.order_index = make(count, 8), count * 8);
    if (facets & HD_FACET_THREAD) batch.threads = make_texts(count, 0, true);
    if (facets & HD_FACET_PREVIOUS) batch.previous = make_texts(count, 1, true);
    if (facets & HD_FACET_SUMMARY) batch.summaries = make_texts(count, 0, true);
    if (facets & HD_FACET_CONTENT) batch.contents = make_texts(count, 0, true);
    if (facets & HD_FACET_VECTOR) {
        batch.vectors = make_floats((size_t)count * dimension);
        batch.dimension = dimension;
    }
    return batch;
}

/* Of a result: locals in one of the partitions asked, and `flags` as above; where nothing exists there is no local, maybe no id. */
static hd_event_batch make_found(const hd_step_request *request, uint32_t count, uint32_t facets, int flags) {
    hd_event_batch batch = make_events(count, facets, flags, 0);
    if (count == 0) return batch;
    if (!(facets & HD_FACET_ID) && coin()) batch.ids = NULL;
    batch.locals = make(count, 8);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t ordinal = request->partitions[below(request->partition_count)].ordinal;
        bool exists = batch.flags[i] & HD_EVENT_EXISTS;
        batch.locals[i] = exists ? hd_local(ordinal, (uint32_t)next_random()) : HD_LOCAL_NONE;
        if (!exists && batch.ids != NULL && coin()) batch.ids[i] = (hd_str){NULL, 0};
    }
    return batch;
}

static hd_name_batch make_names(uint32_t count, bool is_result, bool has_types) {
    hd_name_batch batch = {.count = count};
    if (count == 0) return batch;
    fill_random(batch.ids = make(count, sizeof(hd_id128)), count * sizeof(hd_id128));
    if (is_result) {
        batch.names = make_texts(count, 0, true);
        fill_random(batch.event_count = make(count, 8), count * 8);
    }
    if (has_types) {
        batch.types = make_texts(count, 0, true);
        fill_random(batch.type_at_us = make(count, 8), count * 8);
        batch.type_events = make_texts(count, 1, false);
    }
    return batch;
}

static hd_edges make_edges(uint32_t from_count, uint32_t to_count, bool has_kinds, uint32_t via_count) {
    hd_edges edges = {.from_count = from_count};
    if (to_count == 0 || below(8) == 0) return edges;
    edges.offsets = make(from_count + 1, 4);
    for (uint32_t i = 0; i < from_count; i++) edges.offsets[i + 1] = edges.offsets[i] + below(4);
    uint32_t count = hd_edges_count(&edges);
    if (count == 0) return edges;
    edges.to = make(count, 4);
    for (uint32_t i = 0; i < count; i++) edges.to[i] = below(to_count);
    if (has_kinds) {
        edges.kinds = make(count, 1);
        for (uint32_t i = 0; i < count; i++) edges.kinds[i] = (uint8_t)(1 + below(2));
    }
    if (via_count > 0) {
        edges.via_offsets = make(count + 1, 4);
        for (uint32_t i = 0; i < count; i++) edges.via_offsets[i + 1] = edges.via_offsets[i] + 1 + below(3);
        uint32_t total = edges.via_offsets[count];
        edges.via = make(total, 4);
        for (uint32_t i = 0; i < total; i++) edges.via[i] = below(via_count);
    }
    return edges;
}

static hd_name_group *make_groups(uint32_t count) {
    hd_name_group *groups = make(count, sizeof(*groups));
    for (uint32_t i = 0; i < count; i++) {
        groups[i].count = below(4);
        if (groups[i].count == 0) continue;
        fill_random(groups[i].ids = make(groups[i].count, sizeof(hd_id128)), groups[i].count * sizeof(hd_id128));
    }
    return groups;
}

static hd_start make_start(void) {
    hd_start start = {.mode = coin() ? HD_START_NEWEST : HD_START_CLOSEST, .k = 1 + below(200)};
    start.entity_groups = below(3);
    start.tag_groups = below(3);
    if (start.entity_groups > 0) start.entities = make_groups(start.entity_groups);
    if (start.tag_groups > 0) start.tags = make_groups(start.tag_groups);
    start.has_since = coin();
    start.since_us = -(int64_t)below(1000);
    start.has_until = coin();
    start.until_us = (int64_t)(next_random() >> 1);
    if (start.mode == HD_START_CLOSEST) {
        start.dimension = 1 + below(20);
        start.vector = make_floats(start.dimension);
    }
    start.is_exact = coin();
    start.vectors_exact = next_random();
    start.facets = HD_FACET_TIME | (coin() ? HD_FACET_ORDER | HD_FACET_PREVIOUS | HD_FACET_THREAD : 0);
    return start;
}

enum {
    ANY_EVENT_FACETS = HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS | HD_FACET_SUMMARY | HD_FACET_CONTENT
};

/* A step with a frontier of its own. */
static hd_step make_step(hd_step_kind kind) {
    hd_step step = {.kind = kind, .number = below(100), .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    step.relation = (hd_relation)below(HD_REL_END);
    uint32_t count = below(12);
    switch (kind) {
    case HD_STEP_START:
        step.frontier_label = HD_LABEL_NONE;
        step.start = make_start();
        break;
    case HD_STEP_FACTS:
        step.frontier_label = (hd_label)(1 + below(3));
        if (step.frontier_label == HD_LABEL_EVENT) {
            step.facets = (below(64) & ANY_EVENT_FACETS) | (coin() ? HD_FACET_ENTITIES : coin() ? HD_FACET_TAGS : 0);
            step.facets |= coin() ? HD_FACET_ID : 0;
            step.events = make_events(count, 0, -1, 0);
        } else {
            step.facets = coin() ? HD_FACET_TYPE : 0;
            step.names = make_names(count, false, false);
        }
        break;
    case HD_STEP_POSTINGS:
        step.frontier_label = coin() ? HD_LABEL_ENTITY : HD_LABEL_TAG;
        step.facets = (below(64) & ANY_EVENT_FACETS) | (coin() ? HD_FACET_ID : 0);
        step.kinds = (uint8_t)below(4);
        step.names = make_names(count, false, false);
        break;
    case HD_STEP_SHARES:
        step.shares_min = 1 + below(3);
        step.events = make_events(count, 0, -1, 0);
        step.names = make_names(1 + below(9), false, false);
        step.edges = make_edges(count, step.names.count, false, 0);
        break;
    case HD_STEP_NEXT:
        step.is_backward = coin();
        step.facets = HD_FACET_TIME | HD_FACET_ORDER;
        step.events = make_events(count, HD_FACET_ID | (ANY_EVENT_FACETS & ~(HD_FACET_SUMMARY | HD_FACET_CONTENT)), 0, 0);
        break;
    case HD_STEP_MEASURE:
        step.dimension = 1 + below(20);
        step.events = make_events(count, coin() ? HD_FACET_VECTOR : 0, -1, step.dimension);
        step.to_events = make_events(1 + below(9), 0, -1, 0);
        step.edges = make_edges(count, step.to_events.count, false, 0);
        break;
    case HD_STEP_CONNECTED:
        step.frontier_label = HD_LABEL_ENTITY;
        step.names = make_names(count, false, false);
        break;
    case HD_STEP_RESOLVE:
        step.frontier_label = coin() ? HD_LABEL_ENTITY : HD_LABEL_TAG;
        step.folded_count = 1 + below(5);
        step.folded = make_texts(step.folded_count, 0, false);
        break;
    case HD_STEP_SIMILAR:
        step.dimension = 1 + below(20);
        step.similar_k = 1 + below(HD_SIMILAR_K_MAX);
        step.facets = (below(64) & ANY_EVENT_FACETS) | (coin() ? HD_FACET_ID : 0);
        step.events = make_events(count, HD_FACET_VECTOR, 0, step.dimension);
        break;
    }
    return step;
}

static hd_partition_ref *make_refs(uint32_t count) {
    hd_partition_ref *refs = make(count, sizeof(*refs));
    bool has_resume = coin();
    uint32_t turn = count & (count - 1) ? 0 : below(count); /* all below the next power of two, and different */
    for (uint32_t i = 0; i < count; i++) {
        refs[i] = (hd_partition_ref){
            .id = i + 1, .ordinal = i ^ turn, .epoch = below(3), .incarnation = next_random(), .sequence = next_random()};
        if (has_resume) refs[i].resume = make_optional(30);
    }
    return refs;
}

static hd_request make_step_request(void) {
    hd_request request = {.id = next_random() | 1, .kind = HD_MESSAGE_STEP};
    hd_step_request *step = &request.step;
    step->query = next_random();
    step->org = next_random();
    step->org_partitions = 1U << below(4);
    step->is_whole_org = coin();
    step->partition_count = step->is_whole_org ? step->org_partitions : 1 + below(step->org_partitions);
    step->partitions = make_refs(step->partition_count);
    step->remaining_ms = below(5000);
    step->frontier_max = next_random();
    step->scanned_max = next_random();
    step->measured_max = below(100);
    if (below(4) == 0) { /* start → its entities → what shares them → measured */
        step->step_count = 4;
        step->steps = make(4, sizeof(*step->steps));
        step->steps[0] = make_step(HD_STEP_START);
        step->steps[1] = (hd_step){.kind = HD_STEP_FACTS, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ENTITIES};
        step->steps[2] = (hd_step){.kind = HD_STEP_SHARES, .from_result = 1, .frontier_label = HD_LABEL_EVENT, .shares_min = 1};
        step->steps[3] = (hd_step){.kind = HD_STEP_MEASURE, .from_result = 2, .frontier_label = HD_LABEL_EVENT};
    } else {
        step->step_count = 1 + below(3);
        step->steps = make(step->step_count, sizeof(*step->steps));
        for (uint32_t i = 0; i < step->step_count; i++) step->steps[i] = make_step((hd_step_kind)(1 + below(HD_STEP_SIMILAR)));
    }
    return request;
}

static hd_verdict *make_verdicts(const hd_step_request *request) {
    hd_verdict *verdicts = make(request->partition_count, sizeof(*verdicts));
    for (uint32_t i = 0; i < request->partition_count; i++) {
        verdicts[i] = (hd_verdict){.partition = request->partitions[i].id,
                                   .reach = (hd_reach)(1 + below(3)),
                                   .cap = (hd_cap)below(HD_CAP_NONE + 1),
                                   .code = coin() ? HD_OK : HD_MAP_STALE,
                                   .resume = make_optional(20),
                                   .n_live = below(1000),
                                   .n_vectors = next_random()};
    }
    return verdicts;
}

/* A result that answers an explicit step. */
static hd_step_result make_result(const hd_step_request *request, const hd_step *step) {
    hd_step_result result = {.number = step->number};
    uint32_t from = step->frontier_label == HD_LABEL_EVENT ? step->events.count : step->names.count;
    uint32_t other = 1 + below(9);
    switch (step->kind) {
    case HD_STEP_START:
        result.events = make_found(request, HD_MIN(other, step->start.k), step->start.facets | HD_FACET_ID, HD_EVENT_EXISTS);
        if (coin() || step->start.mode == HD_START_CLOSEST) {
            result.events.scores = make(result.events.count, 8);
            for (uint32_t i = 0; i < result.events.count; i++) result.events.scores[i] = below(1000) / 1000.0;
        }
        for (uint32_t i = 0; i < step->start.entity_groups; i++) result.group_count_count += step->start.entities[i].count;
        for (uint32_t i = 0; i < step->start.tag_groups; i++) result.group_count_count += step->start.tags[i].count;
        if (result.group_count_count > 0) result.group_counts = make(result.group_count_count, 8);
        for (uint32_t i = 0; i < result.group_count_count; i++) result.group_counts[i] = next_random();
        break;
    case HD_STEP_FACTS:
        if (step->frontier_label == HD_LABEL_EVENT) {
            result.events = make_found(request, from, step->facets | (step->events.locals ? 0 : HD_FACET_ID), 0);
            bool has_lists = step->facets & (HD_FACET_ENTITIES | HD_FACET_TAGS);
            if (has_lists) result.names = make_names(other, true, false);
            if (has_lists) result.edges = make_edges(from, other, step->facets & HD_FACET_TAGS, 0);
        } else {
            result.names = make_names(from, true, step->facets & HD_FACET_TYPE);
        }
        break;
    case HD_STEP_POSTINGS:
        result.names = make_names(from, true, false);
        result.events = make_found(request, other, step->facets, HD_EVENT_EXISTS);
        result.edges = make_edges(from, other, true, 0);
        break;
    case HD_STEP_SHARES:
        result.names = make_names(other, true, false);
        result.events = make_found(request, 3, step->facets, HD_EVENT_EXISTS);
        result.edges = make_edges(from, 3, false, other);
        break;
    case HD_STEP_NEXT:
        result.events = make_found(request, other, step->facets | HD_FACET_ID, HD_EVENT_EXISTS);
        result.edges = make_edges(from, other, true, 0);
        break;
    case HD_STEP_MEASURE: {
        result.edges = step->edges;
        uint32_t count = hd_edges_count(&result.edges);
        if (coin()) result.edges.to = NULL;
        if (count == 0) break;
        result.edges.cos = make(count, 8);
        result.edges.is_answered = make(count, 1);
        for (uint32_t i = 0; i < count; i++) {
            uint64_t nan = UINT64_C(0x7ff8000000000000);
            if (coin()) {
                memcpy(&result.edges.cos[i], &nan, 8);
            } else {
                result.edges.cos[i] = -0.25;
            }
            result.edges.is_answered[i] = (uint8_t)coin();
        }
        break;
    }
    case HD_STEP_CONNECTED:
        result.names = make_names(other, true, false);
        result.edges = make_edges(from, other, false, 0);
        if (hd_edges_count(&result.edges) > 0) result.edges.counts = make(hd_edges_count(&result.edges), 8);
        for (uint32_t i = 0; i < hd_edges_count(&result.edges); i++) result.edges.counts[i] = 1 + (next_random() >> 2);
        break;
    case HD_STEP_RESOLVE:
        result.names = make_names(other, true, false);
        result.fold_of = make(other, 4);
        for (uint32_t i = 0; i < other; i++) result.fold_of[i] = below(step->folded_count);
        break;
    case HD_STEP_SIMILAR:
        result.events = make_found(request, other, step->facets | HD_FACET_ID, HD_EVENT_EXISTS);
        result.edges.from_count = from;
        result.edges.offsets = make(from + 1, 4);
        for (uint32_t i = 0; i < from; i++) {
            result.edges.offsets[i + 1] = result.edges.offsets[i] + below(1 + HD_MIN(step->similar_k, other));
        }
        result.edges.to = make(1 + hd_edges_count(&result.edges), 4);
        result.edges.cos = make(1 + hd_edges_count(&result.edges), 8);
        for (uint32_t i = 0; i < hd_edges_count(&result.edges); i++) {
            result.edges.to[i] = below(other);
            result.edges.cos[i] = below(1000) / 1000.0;
        }
        if (hd_edges_count(&result.edges) == 0) result.edges.to = NULL;
        if (hd_edges_count(&result.edges) == 0) result.edges.cos = NULL;
        break;
    }
    result.candidates = next_random();
    result.is_candidates_exact = coin();
    result.has_more = coin();
    result.is_approximate = coin();
    result.verdict_count = request->partition_count;
    result.verdicts = make_verdicts(request);
    for (uint32_t i = 0; i < request->partition_count && step->kind == HD_STEP_CONNECTED; i++)
        result.verdicts[i].done = below(from + 1);
    result.used_scanned = next_random();
    result.used_measured = below(10);
    result.shard_us = below(10000);
    return result;
}

static hd_reply make_step_reply(const hd_request *request) {
    hd_reply reply = {.id = request->id, .kind = HD_MESSAGE_STEP};
    reply.step.status = coin() ? HD_OK : HD_BUSY;
    reply.step.message = make_optional(60);
    reply.step.partition_count = request->step.partition_count;
    reply.step.partitions = make_refs(request->step.partition_count);
    reply.step.shard_us = below(100000);
    bool is_chain = request->step.step_count == 4;
    reply.step.result_count = is_chain ? 1 : request->step.step_count;
    reply.step.results = make(reply.step.result_count, sizeof(hd_step_result));
    for (uint32_t i = 0; i < reply.step.result_count; i++) {
        reply.step.results[i] = make_result(&request->step, &request->step.steps[i]);
    }
    return reply;
}

static hd_request make_write_request(void) {
    hd_request request = {.id = next_random() | 1, .kind = HD_MESSAGE_WRITE};
    request.write.org = next_random();
    request.write.remaining_ms = below(1000);
    request.write.item_count = below(6);
    request.write.items = make(request.write.item_count, sizeof(hd_write_item));
    for (uint32_t i = 0; i < request.write.item_count; i++) {
        hd_write_item *item = &request.write.items[i];
        *item = (hd_write_item){.kind = coin() ? HD_WRITE_SAVE : HD_WRITE_DELETE, .partition = next_random(), .epoch = below(9)};
        item->is_replace = coin();
        item->idempotency_key = make_optional(30);
        hd_event_record *event = &item->event;
        event->id = make_text(1, 64);
        event->previous = coin() ? make_text(1, 64) : (hd_str){NULL, 0};
        event->summary = make_text(0, 500);
        event->content = make_optional(2000);
        event->thread = make_optional(20);
        event->timestamp_us = (int64_t)next_random();
        event->has_order = coin();
        event->order_index = (int64_t)next_random();
        event->entity_count = below(5);
        event->entities = make(event->entity_count, sizeof(hd_entity_ref));
        for (uint32_t e = 0; e < event->entity_count; e++) {
            event->entities[e] = (hd_entity_ref){make_text(1, 30), make_optional(8)};
        }
        event->tag_count = below(5);
        event->tags = make(event->tag_count, sizeof(hd_tag_ref));
        for (uint32_t t = 0; t < event->tag_count; t++) event->tags[t] = (hd_tag_ref){make_text(1, 30), (uint8_t)(1 + below(2))};
        event->dimension = coin() ? 1 + below(20) : 0;
        event->vector = event->dimension > 0 ? make_floats(event->dimension) : NULL;
    }
    return request;
}

static hd_reply make_write_reply(const hd_request *request) {
    hd_reply reply = {.id = request->id, .kind = HD_MESSAGE_WRITE};
    reply.write.status = coin() ? HD_OK : HD_STORE_FULL;
    reply.write.message = make_optional(30);
    reply.write.outcome_count = request->write.item_count;
    reply.write.outcomes = make(reply.write.outcome_count, sizeof(hd_write_outcome));
    for (uint32_t i = 0; i < reply.write.outcome_count; i++) {
        reply.write.outcomes[i] = (hd_write_outcome){.code = coin() ? HD_OK : HD_ALREADY_EXISTS,
                                                     .message = make_optional(40),
                                                     .event = make_optional(20),
                                                     .is_created = coin(),
                                                     .is_replaced = coin(),
                                                     .is_deleted = coin(),
                                                     .is_repeat = coin()};
    }
    return reply;
}

static hd_request make_control_request(void) {
    hd_request request = {.id = next_random() | 1, .kind = HD_MESSAGE_CONTROL};
    request.control = (hd_control_request){
        .kind = (hd_control_kind)(1 + below(HD_CONTROL_CANCEL)), .remaining_ms = below(1000), .org = next_random()};
    if (request.control.kind == HD_CONTROL_CANCEL) request.control.query = next_random();
    request.control.partition = (hd_partition_spec){next_random(), next_random(), below(9), 1 + below(4096)};
    if (request.control.kind == HD_CONTROL_CREATE_PARTITION) request.control.org = request.control.partition.org;
    return request;
}

static hd_reply make_control_reply(const hd_request *request) {
    hd_reply reply = {.id = request->id, .kind = HD_MESSAGE_CONTROL};
    hd_control_reply *control = &reply.control;
    *control = (hd_control_reply){.status = HD_OK,
                                  .message = make_optional(30),
                                  .shard_uuid = make_text(36, 36),
                                  .version = make_text(1, 9),
                                  .format = below(9),
                                  .memory_bytes = next_random(),
                                  .disk_bytes = next_random(),
                                  .uptime_s = below(1000)};
    control->partition_count = below(5);
    control->partitions = make(control->partition_count, sizeof(hd_partition_stats));
    for (uint32_t i = 0; i < control->partition_count; i++) {
        control->partitions[i] = (hd_partition_stats){.id = next_random(),
                                                      .org = next_random(),
                                                      .is_loaded = coin(),
                                                      .events = next_random(),
                                                      .vectors = below(9),
                                                      .entities = below(9),
                                                      .tags = next_random(),
                                                      .memory_bytes = next_random()};
    }
    return reply;
}

/* ---- reading a struct from end to end, as text ---- */

static void dump_text(hd_buf *out, hd_str text) {
    hd_buf_printf(out, "%s%zu:", text.data != NULL ? "" : "-", text.size);
    hd_buf_add(out, text.data != NULL ? text.data : "", text.size);
    hd_buf_add_char(out, ' ');
}

static void dump_texts(hd_buf *out, const char *name, const hd_str *texts, uint32_t count) {
    hd_buf_printf(out, "\n%s%s", name, texts != NULL ? " " : " none");
    for (uint32_t i = 0; texts != NULL && i < count; i++) dump_text(out, texts[i]);
}

static void dump_bytes(hd_buf *out, const char *name, const void *bytes, size_t size) {
    hd_buf_printf(out, "\n%s%s", name, bytes != NULL ? " " : " none");
    for (size_t i = 0; bytes != NULL && i < size; i++) hd_buf_printf(out, "%02x", ((const uint8_t *)bytes)[i]);
}

static void dump_events(hd_buf *out, const hd_event_batch *batch) {
    uint32_t n = batch->count;
    hd_buf_printf(out, "\nevents %u of dimension %u", n, batch->dimension);
    dump_bytes(out, "locals", batch->locals, n * 8);
    dump_texts(out, "ids", batch->ids, n);
    dump_bytes(out, "flags", batch->flags, n);
    dump_bytes(out, "times", batch->timestamp_us, n * 8);
    dump_bytes(out, "orders", batch->order_index, n * 8);
    dump_texts(out, "threads", batch->threads, n);
    dump_texts(out, "previous", batch->previous, n);
    dump_texts(out, "summaries", batch->summaries, n);
    dump_texts(out, "contents", batch->contents, n);
    dump_bytes(out, "scores", batch->scores, n * 8);
    dump_bytes(out, "vectors", batch->vectors, (size_t)n * batch->dimension * 4);
}

static void dump_names(hd_buf *out, const hd_name_batch *batch) {
    hd_buf_printf(out, "\nnames %u", batch->count);
    dump_bytes(out, "ids", batch->ids, batch->count * 16);
    dump_texts(out, "names", batch->names, batch->count);
    dump_bytes(out, "counts", batch->event_count, batch->count * 8);
    dump_texts(out, "types", batch->types, batch->count);
    dump_bytes(out, "type times", batch->type_at_us, batch->count * 8);
    dump_texts(out, "type events", batch->type_events, batch->count);
}

/* Follows every edge: node i's own run, and the via runs. */
static void dump_edges(hd_buf *out, const hd_edges *edges) {
    uint32_t count = hd_edges_count(edges);
    hd_buf_printf(out, "\nedges %u from %u", count, edges->from_count);
    uint32_t seen = 0;
    for (uint32_t i = 0; edges->offsets != NULL && i < edges->from_count; i++) {
        for (uint32_t e = edges->offsets[i]; e < edges->offsets[i + 1]; e++, seen++) assert_int_equal(e, seen);
        hd_buf_printf(out, " %u", edges->offsets[i + 1]);
    }
    assert_int_equal(seen, count);
    dump_bytes(out, "to", edges->to, count * 4);
    dump_bytes(out, "kinds", edges->kinds, count);
    dump_bytes(out, "cos", edges->cos, count * 8);
    dump_bytes(out, "answered", edges->is_answered, count);
    dump_bytes(out, "counts", edges->counts, count * 8);
    dump_bytes(out, "via offsets", edges->via_offsets, edges->via_offsets != NULL ? (count + 1) * 4 : 0);
    dump_bytes(out, "via", edges->via, edges->via_offsets != NULL ? edges->via_offsets[count] * 4 : 0);
}

static void dump_refs(hd_buf *out, const hd_partition_ref *refs, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        hd_buf_printf(out, "\npartition %lx %u %lx %lx %lx ", refs[i].id, refs[i].ordinal, refs[i].epoch, refs[i].incarnation,
                      refs[i].sequence);
        dump_text(out, refs[i].resume);
    }
}

static void dump_start(hd_buf *out, const hd_start *start) {
    hd_buf_printf(out, "\nstart %d k %u %d %ld %d %ld exact %d %lx facets %u", start->mode, start->k, start->has_since,
                  start->since_us, start->has_until, start->until_us, start->is_exact, start->vectors_exact, start->facets);
    dump_bytes(out, "vector", start->vector, start->dimension * 4);
    for (uint32_t i = 0; i < start->entity_groups; i++)
        dump_bytes(out, "entities", start->entities[i].ids, start->entities[i].count * 16);
    for (uint32_t i = 0; i < start->tag_groups; i++) dump_bytes(out, "tags", start->tags[i].ids, start->tags[i].count * 16);
}

static void dump_step(hd_buf *out, const hd_step *step) {
    hd_buf_printf(out, "\nstep %d %u from %d label %d relation %d facets %u min %u backward %d kinds %u dimension %u", step->kind,
                  step->number, step->from_result, step->frontier_label, step->relation, step->facets, step->shares_min,
                  step->is_backward, step->kinds, step->dimension);
    dump_events(out, &step->events);
    dump_names(out, &step->names);
    dump_edges(out, &step->edges);
    dump_events(out, &step->to_events);
    if (step->kind == HD_STEP_START) dump_start(out, &step->start);
    dump_texts(out, "folded", step->folded, step->folded_count);
}

static void dump_record(hd_buf *out, const hd_write_item *item) {
    const hd_event_record *event = &item->event;
    hd_buf_printf(out, "\nitem %d %lx %lx %d %lx %d %lx ", item->kind, item->partition, item->epoch, item->is_replace,
                  (uint64_t)event->timestamp_us, event->has_order, (uint64_t)event->order_index);
    const hd_str texts[] = {event->id, event->summary, event->content, event->thread, event->previous, item->idempotency_key};
    for (size_t i = 0; i < HD_COUNT_OF(texts); i++) dump_text(out, texts[i]);
    for (uint32_t i = 0; i < event->entity_count; i++) {
        dump_text(out, event->entities[i].name);
        dump_text(out, event->entities[i].type);
    }
    for (uint32_t i = 0; i < event->tag_count; i++) {
        dump_text(out, event->tags[i].name);
        hd_buf_printf(out, "%u ", event->tags[i].kind);
    }
    dump_bytes(out, "vector", event->vector, event->dimension * 4);
}

static void dump_request(hd_buf *out, const hd_request *request) {
    hd_buf_printf(out, "request %lx kind %d ", request->id, request->kind);
    if (request->kind == HD_MESSAGE_STEP) {
        const hd_step_request *step = &request->step;
        hd_buf_printf(out, "%lx %lx whole %d of %u in %u ms: %lx %lx %lx", step->query, step->org, step->is_whole_org,
                      step->org_partitions, step->remaining_ms, step->frontier_max, step->scanned_max, step->measured_max);
        dump_refs(out, step->partitions, step->partition_count);
        for (uint32_t i = 0; i < step->step_count; i++) dump_step(out, &step->steps[i]);
    } else if (request->kind == HD_MESSAGE_WRITE) {
        hd_buf_printf(out, "%lx %u", request->write.org, request->write.remaining_ms);
        for (uint32_t i = 0; i < request->write.item_count; i++) dump_record(out, &request->write.items[i]);
    } else {
        const hd_control_request *control = &request->control;
        hd_buf_printf(out, "%d %u %lx %lx %lx %u %lx %lx", control->kind, control->remaining_ms, control->partition.id,
                      control->partition.org, control->partition.epoch, control->partition.dimension, control->org, control->query);
    }
}

static void dump_result(hd_buf *out, const hd_step_result *result) {
    hd_buf_printf(out, "\nresult %u %lx %d %d %d used %lx %lx us %lx", result->number, result->candidates,
                  result->is_candidates_exact, result->has_more, result->is_approximate, result->used_scanned,
                  result->used_measured, result->shard_us);
    dump_events(out, &result->events);
    dump_names(out, &result->names);
    dump_edges(out, &result->edges);
    dump_bytes(out, "folds", result->fold_of, result->names.count * 4);
    dump_bytes(out, "group counts", result->group_counts, result->group_count_count * 8);
    for (uint32_t i = 0; i < result->verdict_count; i++) {
        const hd_verdict *v = &result->verdicts[i];
        hd_buf_printf(out, "\nverdict %lx %d %d %d %u %lx %lx ", v->partition, v->reach, v->cap, v->code, v->done, v->n_live,
                      v->n_vectors);
        dump_text(out, v->resume);
    }
}

static void dump_reply(hd_buf *out, const hd_reply *reply) {
    hd_buf_printf(out, "reply %lx kind %d ", reply->id, reply->kind);
    if (reply->kind == HD_MESSAGE_STEP) {
        hd_buf_printf(out, "%d %lx ", reply->step.status, reply->step.shard_us);
        dump_text(out, reply->step.message);
        dump_refs(out, reply->step.partitions, reply->step.partition_count);
        for (uint32_t i = 0; i < reply->step.result_count; i++) dump_result(out, &reply->step.results[i]);
    } else if (reply->kind == HD_MESSAGE_WRITE) {
        hd_buf_printf(out, "%d ", reply->write.status);
        dump_text(out, reply->write.message);
        for (uint32_t i = 0; i < reply->write.outcome_count; i++) {
            const hd_write_outcome *o = &reply->write.outcomes[i];
            hd_buf_printf(out, "\n%d %d%d%d%d ", o->code, o->is_created, o->is_replaced, o->is_deleted, o->is_repeat);
            dump_text(out, o->message);
            dump_text(out, o->event);
        }
    } else {
        const hd_control_reply *control = &reply->control;
        hd_buf_printf(out, "%d %u %lx %lx %lx ", control->status, control->format, control->memory_bytes, control->disk_bytes,
                      control->uptime_s);
        dump_text(out, control->message);
        dump_text(out, control->shard_uuid);
        dump_text(out, control->version);
        for (uint32_t i = 0; i < control->partition_count; i++) {
            const hd_partition_stats *s = &control->partitions[i];
            hd_buf_printf(out, "\n%lx %lx %d %lx %lx %lx %lx %lx", s->id, s->org, s->is_loaded, s->events, s->vectors, s->entities,
                          s->tags, s->memory_bytes);
        }
    }
}

/* ---- the tests ---- */

static hd_request make_request(uint32_t which) {
    return which % 3 == 0 ? make_step_request() : which % 3 == 1 ? make_write_request() : make_control_request();
}

static hd_reply make_reply(const hd_request *request) {
    switch (request->kind) {
    case HD_MESSAGE_STEP: return make_step_reply(request);
    case HD_MESSAGE_WRITE: return make_write_reply(request);
    default: return make_control_reply(request);
    }
}

static void assert_dumps_equal(const hd_buf *a, const hd_buf *b) {
    assert_int_equal(a->size, b->size);
    assert_memory_equal(a->data, b->data, a->size);
}

static void requests_come_back_as_they_were(void **state) {
    hd_buf bytes = {0}, before = {0}, after = {0};
    hd_arena *arena = hd_arena_new(0);
    for (uint32_t round = 0; round < 1500; round++) {
        hd_arena_reset(made);
        hd_arena_reset(arena);
        hd_buf_clear(&bytes);
        hd_buf_clear(&before);
        hd_buf_clear(&after);
        hd_request request = make_request(round), decoded;
        dump_request(&before, &request);
        hd_codec_encode_request(&request, &bytes);
        assert_int_equal(hd_codec_decode_request(arena, hd_buf_get(&bytes), &decoded), HD_OK);
        dump_request(&after, &decoded);
        assert_dumps_equal(&before, &after);
        hd_request_head head;
        assert_int_equal(hd_codec_peek_request(hd_buf_get(&bytes), &head), HD_OK);
        assert_true(head.id == request.id && head.kind == request.kind);
        if (request.kind == HD_MESSAGE_STEP) assert_true(head.org == request.step.org && head.query == request.step.query);
        if (request.kind == HD_MESSAGE_WRITE) assert_true(head.org == request.write.org && head.query == 0);
        if (request.kind == HD_MESSAGE_CONTROL)
            assert_true(head.control == request.control.kind && head.org == request.control.org);
    }
    hd_buf_fini(&bytes);
    hd_buf_fini(&before);
    hd_buf_fini(&after);
    hd_arena_free(arena);
}

static void replies_come_back_as_they_were(void **state) {
    hd_buf bytes = {0}, before = {0}, after = {0};
    hd_arena *arena = hd_arena_new(0);
    for (uint32_t round = 0; round < 1500; round++) {
        hd_arena_reset(made);
        hd_arena_reset(arena);
        hd_buf_clear(&bytes);
        hd_buf_clear(&before);
        hd_buf_clear(&after);
        hd_request request = make_request(round);
        hd_reply reply = make_reply(&request), decoded;
        dump_reply(&before, &reply);
        hd_codec_encode_reply(&reply, &bytes);
        assert_int_equal(hd_codec_decode_reply(arena, hd_buf_get(&bytes), &decoded), HD_OK);
        dump_reply(&after, &decoded);
        assert_dumps_equal(&before, &after);
        uint64_t id;
        assert_int_equal(hd_codec_peek_reply(hd_buf_get(&bytes), &id), HD_OK);
        assert_true(id == reply.id);
        if (request.kind == HD_MESSAGE_STEP) assert_int_equal(hd_codec_check_reply(&request.step, &decoded.step), HD_OK);
    }
    hd_buf_fini(&bytes);
    hd_buf_fini(&before);
    hd_buf_fini(&after);
    hd_arena_free(arena);
}

/* Decodes exactly `size` bytes that end where the heap block ends, so that a read past them is seen. *is_ok_out: decoded. */
static hd_status decode_copy(hd_arena *arena, const char *bytes, size_t size, bool is_request, hd_buf *dump) {
    char *copy = hd_alloc(size > 0 ? size : 1);
    memcpy(copy, bytes, size);
    hd_arena_reset(arena);
    hd_buf_clear(dump);
    hd_status status;
    if (is_request) {
        hd_request request;
        hd_request_head head;
        hd_status peeked = hd_codec_peek_request((hd_str){copy, size}, &head);
        status = hd_codec_decode_request(arena, (hd_str){copy, size}, &request);
        hd_free(copy);
        if (status != HD_OK) return status;
        dump_request(dump, &request);
        assert_int_equal(peeked, HD_OK);
        assert_true(head.id == request.id && head.kind == request.kind);
    } else {
        hd_reply reply;
        uint64_t id;
        hd_status peeked = hd_codec_peek_reply((hd_str){copy, size}, &id);
        status = hd_codec_decode_reply(arena, (hd_str){copy, size}, &reply);
        hd_free(copy);
        if (status != HD_OK) return status;
        dump_reply(dump, &reply);
        assert_true(peeked == HD_OK && id == reply.id);
    }
    return status;
}

static void every_prefix_fails_or_reads_through(void **state) {
    hd_buf bytes = {0}, dump = {0};
    hd_arena *arena = hd_arena_new(64 << 20);
    for (uint32_t round = 0; round < 12; round++) {
        hd_arena_reset(made);
        hd_buf_clear(&bytes);
        hd_request request = make_request(round);
        hd_reply reply = make_reply(&request);
        bool is_request = round % 2 == 0;
        if (is_request) {
            hd_codec_encode_request(&request, &bytes);
        } else {
            hd_codec_encode_reply(&reply, &bytes);
        }
        for (size_t size = 0; size < bytes.size; size++) {
            hd_status status = decode_copy(arena, bytes.data, size, is_request, &dump);
            /* The body is the last field, so a cut message has a cut body. */
            assert_int_equal(status, HD_WIRE);
        }
    }
    hd_buf_fini(&bytes);
    hd_buf_fini(&dump);
    hd_arena_free(arena);
}

static void damaged_bytes_fail_or_read_through(void **state) {
    hd_buf bytes = {0}, dump = {0};
    hd_arena *arena = hd_arena_new(64 << 20);
    uint32_t accepted = 0, refused = 0;
    for (uint32_t round = 0; round < 150; round++) {
        hd_arena_reset(made);
        hd_buf_clear(&bytes);
        hd_request request = make_request(round);
        hd_reply reply = make_reply(&request);
        bool is_request = coin();
        if (is_request) {
            hd_codec_encode_request(&request, &bytes);
        } else {
            hd_codec_encode_reply(&reply, &bytes);
        }
        for (uint32_t attempt = 0; attempt < 200; attempt++) {
            char *copy = hd_alloc(bytes.size);
            memcpy(copy, bytes.data, bytes.size);
            for (uint32_t flips = 1 + below(3); flips > 0; flips--) copy[below((uint32_t)bytes.size)] ^= (char)(1 << below(8));
            hd_status status = decode_copy(arena, copy, bytes.size, is_request, &dump);
            assert_true(status == HD_OK || status == HD_WIRE || status == HD_MEMORY);
            *(status == HD_OK ? &accepted : &refused) += 1;
            hd_free(copy);
        }
    }
    assert_true(accepted > 0 && refused > 0);
    hd_buf_fini(&bytes);
    hd_buf_fini(&dump);
    hd_arena_free(arena);
}

/* Two messages put together are one to protobuf, with the second's fields; who peeks sees the first's. A server that trusted both would
 * take a step for a write. */
static void a_head_is_not_changed_behind_the_body(void **state) {
    hd_buf bytes = {0};
    hd_arena *arena = hd_arena_new(0);
    for (uint32_t pair = 0; pair < 900; pair++) {
        hd_arena_reset(made);
        hd_arena_reset(arena);
        hd_request first = make_request(pair), second = make_request(pair / 3), decoded_request;
        hd_reply first_reply = make_reply(&first), second_reply = make_reply(&second), decoded_reply;
        if (coin()) {
            second.id = first.id;
            second_reply.id = first_reply.id;
        }
        hd_buf_clear(&bytes);
        hd_codec_encode_request(&first, &bytes);
        hd_codec_encode_request(&second, &bytes);
        hd_status status = hd_codec_decode_request(arena, hd_buf_get(&bytes), &decoded_request);
        if (first.kind != second.kind || first.id != second.id) assert_int_equal(status, HD_WIRE);
        hd_buf_clear(&bytes);
        hd_codec_encode_reply(&first_reply, &bytes);
        hd_codec_encode_reply(&second_reply, &bytes);
        status = hd_codec_decode_reply(arena, hd_buf_get(&bytes), &decoded_reply);
        if (first_reply.id != second_reply.id) assert_int_equal(status, HD_WIRE);
    }
    hd_buf_fini(&bytes);
    hd_arena_free(arena);
}

/* Only a step and a CANCEL have a query, and a control's org stands in the head and in the body: a head that says otherwise would be
 * routed, or cancelled, by what the request itself does not hold. */
static void a_head_says_no_more_than_its_kind_has(void **state) {
    enum { TAG_ORG = 3 << 3 | 1, TAG_QUERY = 4 << 3 | 1 };
    hd_buf bytes = {0};
    hd_arena *arena = hd_arena_new(0);
    for (uint32_t round = 0; round < 300; round++) {
        bool is_of_query = coin();
        hd_arena_reset(made);
        hd_arena_reset(arena);
        hd_request request = make_request(round), decoded;
        hd_buf_clear(&bytes);
        hd_buf_add_u8(&bytes, is_of_query ? TAG_QUERY : TAG_ORG);
        hd_buf_add_u64(&bytes, 77);
        hd_codec_encode_request(&request,
                                &bytes); /* of a field that comes twice, the last counts: a query is written where it is not 0 */
        bool has_own = is_of_query ? request.kind == HD_MESSAGE_STEP ||
                                         (request.kind == HD_MESSAGE_CONTROL && request.control.kind == HD_CONTROL_CANCEL)
                                   : true;
        hd_status status = hd_codec_decode_request(arena, hd_buf_get(&bytes), &decoded);
        assert_int_equal(status, has_own ? HD_OK : HD_WIRE);
        if (request.kind != HD_MESSAGE_CONTROL) continue;
        hd_buf_clear(&bytes);
        hd_codec_encode_request(&request, &bytes);
        char *head_org = bytes.data + 1 + 8 + 2; /* behind id and kind */
        assert_int_equal(*head_org, TAG_ORG);
        head_org[1] ^= 1;
        assert_int_equal(hd_codec_decode_request(arena, hd_buf_get(&bytes), &decoded), HD_WIRE);
    }
    hd_buf_fini(&bytes);
    hd_arena_free(arena);
}

static void a_full_arena_is_memory(void **state) {
    hd_arena_reset(made);
    hd_buf bytes = {0};
    hd_request request = make_write_request();
    while (request.write.item_count == 0) request = make_write_request();
    hd_codec_encode_request(&request, &bytes);
    hd_arena *arena = hd_arena_new(64);
    hd_request decoded;
    assert_int_equal(hd_codec_decode_request(arena, hd_buf_get(&bytes), &decoded), HD_MEMORY);
    hd_arena_free(arena);
    hd_buf_fini(&bytes);
}

static hd_status decode_again(const hd_request *request) {
    hd_buf bytes = {0};
    hd_arena *arena = hd_arena_new(0);
    hd_request decoded;
    hd_codec_encode_request(request, &bytes);
    hd_status status = hd_codec_decode_request(arena, hd_buf_get(&bytes), &decoded);
    hd_arena_free(arena);
    hd_buf_fini(&bytes);
    return status;
}

static void requests_that_break_the_contract_are_refused(void **state) {
    hd_arena_reset(made);
    hd_partition_ref refs[2] = {{.id = 1}, {.id = 2, .ordinal = 1}};
    hd_step steps[3];
    hd_request request = {.id = 1,
                          .kind = HD_MESSAGE_STEP,
                          .step = {.partitions = refs, .partition_count = 2, .org_partitions = 2, .steps = steps, .step_count = 1}};
    steps[0] = (hd_step){.kind = HD_STEP_START, .from_result = -1, .start = {.mode = HD_START_NEWEST, .k = 1000}};
    assert_int_equal(decode_again(&request), HD_OK);
    steps[0].start.k = 1001;
    assert_int_equal(decode_again(&request), HD_WIRE);
    steps[0].start.k = 0;
    assert_int_equal(decode_again(&request), HD_WIRE);
    steps[0].start.k = 1;
    steps[0].start.mode = HD_START_CLOSEST; /* without a vector */
    assert_int_equal(decode_again(&request), HD_WIRE);
    float nan_vector[1];
    uint32_t nan_bits = 0x7fc00000U;
    memcpy(nan_vector, &nan_bits, 4);
    steps[0].start.vector = nan_vector;
    steps[0].start.dimension = 1;
    assert_int_equal(decode_again(&request), HD_WIRE);
    nan_vector[0] = 1;
    assert_int_equal(decode_again(&request), HD_OK);
    refs[1].id = 1; /* a partition twice */
    assert_int_equal(decode_again(&request), HD_WIRE);
    refs[1].id = 2;
    refs[1].ordinal = 0; /* a place twice */
    assert_int_equal(decode_again(&request), HD_WIRE);
    refs[1].ordinal = 2; /* of two */
    assert_int_equal(decode_again(&request), HD_WIRE);
    refs[1].ordinal = 1;
    request.step.org_partitions = 3; /* no power of two */
    assert_int_equal(decode_again(&request), HD_WIRE);
    request.step.org_partitions = 4;
    request.step.is_whole_org = true; /* but two of four */
    assert_int_equal(decode_again(&request), HD_WIRE);
    request.step.is_whole_org = false;
    request.step.step_count = 3;
    steps[1] = (hd_step){.kind = HD_STEP_FACTS, .from_result = 0, .frontier_label = HD_LABEL_EVENT, .facets = HD_FACET_ENTITIES};
    steps[2] = (hd_step){.kind = HD_STEP_SHARES, .from_result = 1, .frontier_label = HD_LABEL_EVENT, .shares_min = 1};
    assert_int_equal(decode_again(&request), HD_OK);
    steps[2].from_result = 2; /* itself */
    assert_int_equal(decode_again(&request), HD_WIRE);
    steps[2].from_result = 0; /* START has no entity lists */
    assert_int_equal(decode_again(&request), HD_WIRE);
    steps[2].from_result = 1;
    steps[2].shares_min = 0;
    assert_int_equal(decode_again(&request), HD_WIRE);
    steps[2].shares_min = 1;
    steps[1].facets = HD_FACET_TAGS; /* no entities now */
    assert_int_equal(decode_again(&request), HD_WIRE);
    steps[1].facets = HD_FACET_TAGS | HD_FACET_ENTITIES; /* one table for two */
    assert_int_equal(decode_again(&request), HD_WIRE);
    request.step.step_count = 1;
    hd_str id = HD_STR("e");
    uint32_t offsets[] = {0, 1}, to[] = {1};
    steps[0] = (hd_step){.kind = HD_STEP_MEASURE, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    steps[0].events = (hd_event_batch){.count = 1, .ids = &id};
    steps[0].to_events = steps[0].events;
    steps[0].edges = (hd_edges){.from_count = 1, .offsets = offsets, .to = to};
    assert_int_equal(decode_again(&request), HD_WIRE); /* to 1 of 1 */
    to[0] = 0;
    assert_int_equal(decode_again(&request), HD_OK);
    uint64_t local = hd_local(1, 5);
    steps[0].events.ids = NULL; /* neither id nor local */
    assert_int_equal(decode_again(&request), HD_WIRE);
    steps[0].events.locals = &local;
    assert_int_equal(decode_again(&request), HD_OK);
    uint8_t flags = HD_EVENT_EXISTS;
    int64_t number = 0;
    hd_str none = {NULL, 0};
    hd_step next = {.kind = HD_STEP_NEXT, .from_result = -1, .frontier_label = HD_LABEL_EVENT};
    next.events = (hd_event_batch){.count = 1,
                                   .ids = &id,
                                   .flags = &flags,
                                   .timestamp_us = &number,
                                   .order_index = &number,
                                   .threads = &none,
                                   .previous = &none};
    request.step.steps = &next;
    assert_int_equal(decode_again(&request), HD_OK);
    next.events.ids = NULL; /* a place in a thread ends with one */
    next.events.locals = &local;
    assert_int_equal(decode_again(&request), HD_WIRE);
    request.step.steps = steps;
    steps[0].events.ids = &id;
    id = make_text(65, 65);
    assert_int_equal(decode_again(&request), HD_WIRE);
    request.id = 0;
    id = HD_STR("e");
    assert_int_equal(decode_again(&request), HD_WIRE);
}

/* A local of no partition that was asked; none outside of FACTS; no column, and no ids where they have to be. */
static void check_locals(const hd_step_request *request, const hd_step_reply *reply) {
    hd_event_batch *events = &reply->results[0].events;
    uint32_t row = below(events->count);
    uint64_t before = events->locals[row];
    events->locals[row] = hd_local(request->org_partitions + below(300), 7);
    assert_int_equal(hd_codec_check_reply(request, reply), HD_WIRE);
    events->locals[row] = HD_LOCAL_NONE;
    bool is_facts = request->steps[0].kind == HD_STEP_FACTS;
    assert_int_equal(hd_codec_check_reply(request, reply), is_facts ? HD_OK : HD_WIRE);
    events->locals[row] = before;
    hd_event_batch whole = *events;
    events->locals = NULL;
    assert_int_equal(hd_codec_check_reply(request, reply), HD_WIRE);
    *events = whole;
    events->ids = NULL;
    hd_step_kind kind = request->steps[0].kind;
    bool are_needed = kind == HD_STEP_START || kind == HD_STEP_NEXT || kind == HD_STEP_SIMILAR ||
                      (request->steps[0].facets & HD_FACET_ID) || (is_facts && request->steps[0].events.locals == NULL);
    assert_int_equal(hd_codec_check_reply(request, reply), are_needed ? HD_WIRE : HD_OK);
    *events = whole;
}

/* Counts that are there and at least 1, nobody connected to itself, nothing done beyond the frontier. */
static void check_connected(const hd_step_request *request, const hd_step_reply *reply) {
    hd_step_result *result = &reply->results[0];
    hd_edges *edges = &result->edges;
    uint64_t *counts = edges->counts;
    result->verdicts[0].done = request->steps[0].names.count + 1;
    assert_int_equal(hd_codec_check_reply(request, reply), HD_WIRE);
    result->verdicts[0].done = request->steps[0].names.count;
    assert_int_equal(hd_codec_check_reply(request, reply), HD_OK);
    if (hd_edges_count(edges) == 0) return;
    edges->counts = NULL;
    assert_int_equal(hd_codec_check_reply(request, reply), HD_WIRE);
    edges->counts = counts;
    uint64_t before = counts[0];
    counts[0] = 0;
    assert_int_equal(hd_codec_check_reply(request, reply), HD_WIRE);
    counts[0] = before;
    uint32_t from = 0;
    while (edges->offsets[from + 1] == 0) from++;
    hd_id128 other = result->names.ids[edges->to[0]];
    result->names.ids[edges->to[0]] = request->steps[0].names.ids[from];
    assert_int_equal(hd_codec_check_reply(request, reply), HD_WIRE);
    result->names.ids[edges->to[0]] = other;
}

static void replies_that_do_not_fit_are_refused(void **state) {
    uint32_t checked = 0;
    for (uint32_t round = 0; round < 600; round++) {
        hd_arena_reset(made);
        hd_request request = make_step_request();
        hd_reply reply = make_step_reply(&request);
        if (request.step.step_count == 4) continue;
        assert_int_equal(hd_codec_check_reply(&request.step, &reply.step), HD_OK);
        hd_step_result *result = &reply.step.results[0];
        const hd_step *step = &request.step.steps[0];
        uint32_t edges = hd_edges_count(&result->edges);
        result->number++;
        assert_int_equal(hd_codec_check_reply(&request.step, &reply.step), HD_WIRE);
        result->number--;
        result->verdicts[0].partition += 1000;
        assert_int_equal(hd_codec_check_reply(&request.step, &reply.step), HD_WIRE);
        result->verdicts[0].partition -= 1000;
        if (result->events.count > 0) check_locals(&request.step, &reply.step);
        if (step->kind == HD_STEP_CONNECTED) check_connected(&request.step, &reply.step);
        if (step->kind == HD_STEP_MEASURE && edges > 0) {
            result->edges.is_answered = NULL;
        } else if (step->kind == HD_STEP_SIMILAR && edges > 0) {
            hd_step *asked = &request.step.steps[0];
            uint32_t k = asked->similar_k, widest = 0;
            for (uint32_t f = 0; f < result->edges.from_count; f++)
                widest = HD_MAX(widest, result->edges.offsets[f + 1] - result->edges.offsets[f]);
            asked->similar_k = widest - 1; /* more than were asked for */
            assert_int_equal(hd_codec_check_reply(&request.step, &reply.step), HD_WIRE);
            asked->similar_k = k;
            result->edges.cos[below(edges)] = (double)NAN;
            assert_int_equal(hd_codec_check_reply(&request.step, &reply.step), HD_WIRE);
            result->edges.cos = NULL;
        } else if (edges > 0) {
            result->edges.to[below(edges)] = HD_MAX(result->events.count, result->names.count);
        } else if (step->kind == HD_STEP_RESOLVE) {
            result->fold_of[0] = step->folded_count;
        } else if (step->kind == HD_STEP_START) {
            result->group_count_count++;
        } else {
            continue;
        }
        assert_int_equal(hd_codec_check_reply(&request.step, &reply.step), HD_WIRE);
        checked++;
    }
    assert_true(checked > 50);
}

int main(int argc, char **argv) {
    randomness.state = test_seed(argc, argv);
    made = hd_arena_new(0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_come_back_as_they_were),
        cmocka_unit_test(replies_come_back_as_they_were),
        cmocka_unit_test(every_prefix_fails_or_reads_through),
        cmocka_unit_test(damaged_bytes_fail_or_read_through),
        cmocka_unit_test(a_head_is_not_changed_behind_the_body),
        cmocka_unit_test(a_head_says_no_more_than_its_kind_has),
        cmocka_unit_test(a_full_arena_is_memory),
        cmocka_unit_test(requests_that_break_the_contract_are_refused),
        cmocka_unit_test(replies_that_do_not_fit_are_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hd_arena_free(made);
    return failed;
}
