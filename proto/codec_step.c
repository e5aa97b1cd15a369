/* Bodies of steps. What a column must agree with inside its own message is checked here; what needs the whole request, or a request
 * beside its reply, in codec_check.c. */
#include <math.h>

#include "common/ids.h"
#include "proto/codec_private.h"

/* ---- tables and edges ---- */

static HdPb__EventBatch *put_events(hd_arena *scratch, const hd_event_batch *batch) {
    if (batch->count == 0) return NULL;
    HdPb__EventBatch *message;
    HD_CODEC_NEW(message, scratch, event_batch);
    message->count = batch->count;
    HD_CODEC_PUT_COLUMN(message, locals, batch->locals, batch->count);
    message->ids = hd_codec_put_strings(scratch, batch->ids, batch->count);
    message->flags = hd_codec_put_bytes(batch->flags, batch->count);
    HD_CODEC_PUT_COLUMN(message, timestamp_us, batch->timestamp_us, batch->count);
    HD_CODEC_PUT_COLUMN(message, order_index, batch->order_index, batch->count);
    message->threads = hd_codec_put_strings(scratch, batch->threads, batch->count);
    message->previous = hd_codec_put_strings(scratch, batch->previous, batch->count);
    message->summaries = hd_codec_put_strings(scratch, batch->summaries, batch->count);
    message->contents = hd_codec_put_strings(scratch, batch->contents, batch->count);
    HD_CODEC_PUT_COLUMN(message, scores, batch->scores, batch->count);
    HD_CODEC_PUT_COLUMN(message, vectors, batch->vectors, (size_t)batch->count * batch->dimension);
    return message;
}

/* An event that exists has a local, and one that does not has none. */
static bool are_locals_sound(const hd_event_batch *batch, uint32_t count) {
    uint32_t bad = 0;
    for (uint32_t i = 0; i < count; i++) bad |= (batch->locals[i] != HD_LOCAL_NONE) ^ (batch->flags[i] & HD_EVENT_EXISTS);
    return bad == 0;
}

static bool are_ids_there(const hd_event_batch *batch, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if ((batch->flags[i] & HD_EVENT_EXISTS) && batch->ids[i].data == NULL) return false;
    }
    return true;
}

/* Locals and flags are in every result, locals or ids in every frontier. The vectors' dimension is the same for all, 1..4096. */
static hd_status get_events(hd_arena *arena, const HdPb__EventBatch *message, bool is_result, hd_event_batch *batch) {
    *batch = (hd_event_batch){0};
    if (message == NULL) return HD_OK;
    uint32_t count = message->count;
    if (count == 0) return HD_WIRE;
    hd_codec_rule id_rule = is_result ? HD_CODEC_EVENT_ID_OR_ABSENT : HD_CODEC_EVENT_ID;
    HD_CODEC_GET_COLUMN(message, locals, count, batch->locals);
    HD_TRY(hd_codec_get_strings(arena, message->ids, count, id_rule, &batch->ids));
    HD_TRY(hd_codec_get_bytes(&message->flags, count, 1, &batch->flags));
    if (is_result ? batch->locals == NULL || batch->flags == NULL : batch->locals == NULL && batch->ids == NULL) return HD_WIRE;
    for (uint32_t i = 0; batch->flags != NULL && i < count; i++) {
        if (batch->flags[i] > (HD_EVENT_EXISTS | HD_EVENT_HAS_VECTOR | HD_EVENT_HAS_THREAD | HD_EVENT_HAS_ORDER)) return HD_WIRE;
    }
    if (is_result && !are_locals_sound(batch, count)) return HD_WIRE;
    if (is_result && batch->ids != NULL && !are_ids_there(batch, count)) return HD_WIRE;
    HD_CODEC_GET_COLUMN(message, timestamp_us, count, batch->timestamp_us);
    HD_CODEC_GET_COLUMN(message, order_index, count, batch->order_index);
    HD_TRY(hd_codec_get_strings(arena, message->threads, count, HD_CODEC_NAME_OR_ABSENT, &batch->threads));
    HD_TRY(hd_codec_get_strings(arena, message->previous, count, HD_CODEC_EVENT_ID_OR_ABSENT, &batch->previous));
    HD_TRY(hd_codec_get_strings(arena, message->summaries, count, HD_CODEC_NAME_OR_ABSENT, &batch->summaries));
    HD_TRY(hd_codec_get_strings(arena, message->contents, count, HD_CODEC_TEXT_OR_ABSENT, &batch->contents));
    HD_CODEC_GET_COLUMN(message, scores, count, batch->scores);
    for (uint32_t i = 0; batch->scores != NULL && i < count; i++) {
        if (!isfinite(batch->scores[i])) return HD_WIRE;
    }
    if (message->n_vectors > 0) {
        if (message->n_vectors % count != 0 || message->n_vectors / count > HD_DIMENSION_MAX) return HD_WIRE;
        if (!hd_codec_are_floats_finite(message->vectors, message->n_vectors)) return HD_WIRE;
        batch->vectors = message->vectors;
        batch->dimension = (uint32_t)(message->n_vectors / count);
    }
    batch->count = count;
    return HD_OK;
}

static HdPb__NameBatch *put_names(hd_arena *scratch, const hd_name_batch *batch) {
    if (batch->count == 0) return NULL;
    HdPb__NameBatch *message;
    HD_CODEC_NEW(message, scratch, name_batch);
    message->count = batch->count;
    message->ids = hd_codec_put_bytes(batch->ids, (size_t)batch->count * sizeof(hd_id128));
    message->names = hd_codec_put_strings(scratch, batch->names, batch->count);
    HD_CODEC_PUT_COLUMN(message, event_count, batch->event_count, batch->count);
    message->types = hd_codec_put_strings(scratch, batch->types, batch->count);
    HD_CODEC_PUT_COLUMN(message, type_at_us, batch->type_at_us, batch->count);
    message->type_events = hd_codec_put_strings(scratch, batch->type_events, batch->count);
    return message;
}

/* Results have names and counts; the type columns are there together or not at all, and a type comes with its event. */
static hd_status get_names(hd_arena *arena, const HdPb__NameBatch *message, bool is_result, hd_name_batch *batch) {
    *batch = (hd_name_batch){0};
    if (message == NULL) return HD_OK;
    uint32_t count = message->count;
    if (count == 0) return HD_WIRE;
    HD_TRY(hd_codec_get_bytes(&message->ids, count, sizeof(hd_id128), &batch->ids));
    if (batch->ids == NULL) return HD_WIRE;
    HD_TRY(hd_codec_get_strings(arena, message->names, count, HD_CODEC_NAME_OR_ABSENT, &batch->names));
    HD_CODEC_GET_COLUMN(message, event_count, count, batch->event_count);
    if (is_result && (batch->names == NULL || batch->event_count == NULL)) return HD_WIRE;
    HD_TRY(hd_codec_get_strings(arena, message->types, count, HD_CODEC_NAME_OR_ABSENT, &batch->types));
    HD_CODEC_GET_COLUMN(message, type_at_us, count, batch->type_at_us);
    HD_TRY(hd_codec_get_strings(arena, message->type_events, count, HD_CODEC_EVENT_ID_OR_ABSENT, &batch->type_events));
    bool has_types = batch->types != NULL;
    if (has_types != (batch->type_at_us != NULL) || has_types != (batch->type_events != NULL)) return HD_WIRE;
    for (uint32_t i = 0; has_types && i < count; i++) {
        if (batch->types[i].data != NULL && batch->type_events[i].data == NULL) return HD_WIRE;
    }
    batch->count = count;
    return HD_OK;
}

static HdPb__Edges *put_edges(hd_arena *scratch, const hd_edges *edges) {
    if (edges->from_count == 0 && edges->offsets == NULL) return NULL;
    HdPb__Edges *message;
    HD_CODEC_NEW(message, scratch, edges);
    message->from_count = edges->from_count;
    if (edges->offsets == NULL) return message;
    uint32_t count = hd_edges_count(edges);
    HD_CODEC_PUT_COLUMN(message, offsets, edges->offsets, (size_t)edges->from_count + 1);
    HD_CODEC_PUT_COLUMN(message, to, edges->to, count);
    message->kinds = hd_codec_put_bytes(edges->kinds, count);
    HD_CODEC_PUT_COLUMN(message, cos, edges->cos, count);
    message->is_answered = hd_codec_put_bytes(edges->is_answered, count);
    HD_CODEC_PUT_COLUMN(message, counts, edges->counts, count);
    if (edges->via_offsets != NULL) {
        HD_CODEC_PUT_COLUMN(message, via_offsets, edges->via_offsets, (size_t)count + 1);
        HD_CODEC_PUT_COLUMN(message, via, edges->via, edges->via_offsets[count]);
    }
    return message;
}

/* Offsets start at 0, never fall, and their last is the length of what they cut up. */
static bool are_offsets_sound(const uint32_t *offsets, size_t offset_count, size_t total) {
    if (offsets[0] != 0) return false;
    for (size_t i = 1; i < offset_count; i++) {
        if (offsets[i] < offsets[i - 1]) return false;
    }
    return offsets[offset_count - 1] == total;
}

static hd_status get_edges(const HdPb__Edges *message, hd_edges *edges) {
    *edges = (hd_edges){0};
    if (message == NULL) return HD_OK;
    edges->from_count = message->from_count;
    if (message->n_offsets == 0) {
        bool is_empty = message->n_to == 0 && message->n_cos == 0 && message->n_via_offsets == 0 && message->n_via == 0 &&
                        message->n_counts == 0;
        return is_empty && message->kinds.len == 0 && message->is_answered.len == 0 ? HD_OK : HD_WIRE;
    }
    if (message->n_offsets != (size_t)message->from_count + 1) return HD_WIRE;
    uint32_t count = message->offsets[message->from_count];
    if (!are_offsets_sound(message->offsets, message->n_offsets, count)) return HD_WIRE;
    edges->offsets = message->offsets;
    HD_CODEC_GET_COLUMN(message, to, count, edges->to);
    HD_TRY(hd_codec_get_bytes(&message->kinds, count, 1, &edges->kinds));
    HD_CODEC_GET_COLUMN(message, cos, count, edges->cos);
    HD_TRY(hd_codec_get_bytes(&message->is_answered, count, 1, &edges->is_answered));
    HD_CODEC_GET_COLUMN(message, counts, count, edges->counts);
    for (uint32_t i = 0; edges->cos != NULL && i < count; i++) {
        if (isinf(edges->cos[i])) return HD_WIRE;
    }
    /* Without any column the count itself would be a claim that no bytes back. */
    if (count > 0 && edges->to == NULL && edges->cos == NULL) return HD_WIRE;
    if (message->n_via_offsets == 0) return message->n_via == 0 ? HD_OK : HD_WIRE;
    if (message->n_via_offsets != (size_t)count + 1) return HD_WIRE;
    if (!are_offsets_sound(message->via_offsets, message->n_via_offsets, message->n_via)) return HD_WIRE;
    edges->via_offsets = message->via_offsets;
    edges->via = message->n_via > 0 ? message->via : NULL;
    return HD_OK;
}

/* ---- partitions and verdicts ---- */

static HdPb__PartitionRefs *put_refs(hd_arena *scratch, const hd_partition_ref *refs, uint32_t count) {
    HdPb__PartitionRefs *message;
    HD_CODEC_NEW(message, scratch, partition_refs);
    uint64_t *columns = hd_arena_alloc(scratch, (size_t)count * 4 * sizeof(*columns));
    uint32_t *ordinals = hd_arena_alloc(scratch, count * sizeof(*ordinals));
    hd_str *resumes = hd_arena_alloc(scratch, count * sizeof(*resumes));
    HD_CHECK(columns != NULL && ordinals != NULL && resumes != NULL);
    bool has_resume = false;
    for (uint32_t i = 0; i < count; i++) {
        columns[i] = refs[i].id;
        ordinals[i] = refs[i].ordinal;
        columns[count + i] = refs[i].epoch;
        columns[2 * (size_t)count + i] = refs[i].incarnation;
        columns[3 * (size_t)count + i] = refs[i].sequence;
        resumes[i] = refs[i].resume;
        has_resume |= refs[i].resume.data != NULL;
    }
    HD_CODEC_PUT_COLUMN(message, ids, columns, count);
    HD_CODEC_PUT_COLUMN(message, epochs, columns + count, count);
    HD_CODEC_PUT_COLUMN(message, incarnations, columns + 2 * (size_t)count, count);
    HD_CODEC_PUT_COLUMN(message, sequences, columns + 3 * (size_t)count, count);
    HD_CODEC_PUT_COLUMN(message, ordinals, ordinals, count);
    if (has_resume) message->resumes = hd_codec_put_strings(scratch, resumes, count);
    return message;
}

static hd_status get_refs(hd_arena *arena, const HdPb__PartitionRefs *message, hd_partition_ref **refs_out, uint32_t *count_out) {
    size_t count = message != NULL ? message->n_ids : 0;
    *refs_out = NULL;
    *count_out = 0;
    if (count == 0) return HD_OK;
    if (count > HD_PARTITIONS_MAX) return HD_WIRE;
    uint64_t *epochs, *incarnations, *sequences;
    uint32_t *ordinals;
    hd_str *resumes;
    HD_CODEC_GET_FULL_COLUMN(message, epochs, count, epochs);
    HD_CODEC_GET_FULL_COLUMN(message, incarnations, count, incarnations);
    HD_CODEC_GET_FULL_COLUMN(message, sequences, count, sequences);
    HD_CODEC_GET_FULL_COLUMN(message, ordinals, count, ordinals);
    HD_TRY(hd_codec_get_strings(arena, message->resumes, count, HD_CODEC_TOKEN_OR_ABSENT, &resumes));
    hd_partition_ref *refs;
    HD_ALLOC(refs, arena, count);
    for (size_t i = 0; i < count; i++) {
        refs[i] = (hd_partition_ref){.id = message->ids[i],
                                     .ordinal = ordinals[i],
                                     .epoch = epochs[i],
                                     .incarnation = incarnations[i],
                                     .sequence = sequences[i],
                                     .resume = resumes != NULL ? resumes[i] : (hd_str){NULL, 0}};
    }
    *refs_out = refs;
    *count_out = (uint32_t)count;
    return HD_OK;
}

static HdPb__Verdicts *put_verdicts(hd_arena *scratch, const hd_verdict *verdicts, uint32_t count) {
    HdPb__Verdicts *message;
    HD_CODEC_NEW(message, scratch, verdicts);
    uint64_t *columns = hd_arena_alloc(scratch, (size_t)count * 3 * sizeof(*columns));
    uint8_t *bytes = hd_arena_alloc(scratch, (size_t)count * 2);
    uint32_t *codes = hd_arena_alloc(scratch, (size_t)count * 2 * sizeof(*codes));
    hd_str *resumes = hd_arena_alloc(scratch, count * sizeof(*resumes));
    HD_CHECK(columns != NULL && bytes != NULL && codes != NULL && resumes != NULL);
    bool has_resume = false, has_done = false;
    for (uint32_t i = 0; i < count; i++) {
        columns[i] = verdicts[i].partition;
        columns[count + i] = verdicts[i].n_live;
        columns[2 * (size_t)count + i] = verdicts[i].n_vectors;
        bytes[i] = (uint8_t)verdicts[i].reach;
        bytes[count + i] = (uint8_t)verdicts[i].cap;
        codes[i] = verdicts[i].code;
        codes[count + i] = verdicts[i].done;
        has_done |= verdicts[i].done > 0;
        resumes[i] = verdicts[i].resume;
        has_resume |= verdicts[i].resume.data != NULL;
    }
    HD_CODEC_PUT_COLUMN(message, partitions, columns, count);
    HD_CODEC_PUT_COLUMN(message, n_live, columns + count, count);
    HD_CODEC_PUT_COLUMN(message, n_vectors, columns + 2 * (size_t)count, count);
    message->reaches = hd_codec_put_bytes(bytes, count);
    message->caps = hd_codec_put_bytes(bytes + count, count);
    HD_CODEC_PUT_COLUMN(message, codes, codes, count);
    if (has_done) HD_CODEC_PUT_COLUMN(message, done, codes + count, count);
    if (has_resume) message->resumes = hd_codec_put_strings(scratch, resumes, count);
    return message;
}

static hd_status get_verdicts(hd_arena *arena, const HdPb__Verdicts *message, hd_step_result *result) {
    size_t count = message != NULL ? message->n_partitions : 0;
    if (count == 0) return HD_OK;
    if (count > HD_PARTITIONS_MAX) return HD_WIRE;
    uint8_t *reaches, *caps;
    uint32_t *codes, *done;
    uint64_t *n_live, *n_vectors;
    hd_str *resumes;
    HD_TRY(hd_codec_get_bytes(&message->reaches, count, 1, &reaches));
    HD_TRY(hd_codec_get_bytes(&message->caps, count, 1, &caps));
    if (reaches == NULL || caps == NULL) return HD_WIRE;
    HD_CODEC_GET_FULL_COLUMN(message, codes, count, codes);
    HD_CODEC_GET_COLUMN(message, done, count, done);
    HD_CODEC_GET_FULL_COLUMN(message, n_live, count, n_live);
    HD_CODEC_GET_FULL_COLUMN(message, n_vectors, count, n_vectors);
    HD_TRY(hd_codec_get_strings(arena, message->resumes, count, HD_CODEC_TOKEN_OR_ABSENT, &resumes));
    HD_ALLOC(result->verdicts, arena, count);
    result->verdict_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        if (reaches[i] < HD_REACH_COMPLETE || reaches[i] > HD_REACH_FAILED || caps[i] > HD_CAP_NONE) return HD_WIRE;
        result->verdicts[i] = (hd_verdict){.partition = message->partitions[i],
                                           .reach = (hd_reach)reaches[i],
                                           .cap = (hd_cap)caps[i],
                                           .code = hd_status_from_wire(codes[i]),
                                           .resume = resumes != NULL ? resumes[i] : (hd_str){NULL, 0},
                                           .done = done != NULL ? done[i] : 0,
                                           .n_live = n_live[i],
                                           .n_vectors = n_vectors[i]};
    }
    return HD_OK;
}

/* ---- steps ---- */

static HdPb__NameGroups *put_groups(hd_arena *scratch, const hd_name_group *groups, uint32_t count) {
    if (count == 0) return NULL;
    HdPb__NameGroups *message;
    HD_CODEC_NEW(message, scratch, name_groups);
    size_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += groups[i].count;
    message->n_sizes = count;
    message->sizes = hd_arena_alloc(scratch, count * sizeof(*message->sizes));
    message->ids.len = total * sizeof(hd_id128);
    message->ids.data = hd_arena_alloc(scratch, message->ids.len);
    HD_CHECK(message->sizes != NULL && message->ids.data != NULL);
    uint8_t *at = message->ids.data;
    for (uint32_t i = 0; i < count; i++) {
        message->sizes[i] = groups[i].count;
        if (groups[i].count > 0) memcpy(at, groups[i].ids, groups[i].count * sizeof(hd_id128));
        at += groups[i].count * sizeof(hd_id128);
    }
    return message;
}

static hd_status get_groups(hd_arena *arena, const HdPb__NameGroups *message, hd_name_group **groups_out, uint32_t *count_out) {
    if (message == NULL) return HD_OK;
    if (message->n_sizes > UINT32_MAX) return HD_WIRE;
    hd_name_group *groups;
    HD_ALLOC(groups, arena, message->n_sizes);
    size_t left = message->ids.len;
    uint8_t *at = message->ids.data;
    for (size_t i = 0; i < message->n_sizes; i++) {
        size_t size = message->sizes[i] * sizeof(hd_id128);
        if (size > left) return HD_WIRE;
        groups[i] = (hd_name_group){.ids = size > 0 ? (hd_id128 *)(void *)at : NULL, .count = message->sizes[i]};
        if (size > 0) at += size;
        left -= size;
    }
    if (left != 0) return HD_WIRE;
    *groups_out = groups;
    *count_out = (uint32_t)message->n_sizes;
    return HD_OK;
}

static HdPb__Start *put_start(hd_arena *scratch, const hd_start *start) {
    HdPb__Start *message;
    HD_CODEC_NEW(message, scratch, start);
    message->mode = start->mode;
    message->k = start->k;
    message->entities = put_groups(scratch, start->entities, start->entity_groups);
    message->tags = put_groups(scratch, start->tags, start->tag_groups);
    message->has_since = start->has_since;
    message->has_until = start->has_until;
    message->since_us = start->since_us;
    message->until_us = start->until_us;
    HD_CODEC_PUT_COLUMN(message, vector, start->vector, start->dimension);
    message->is_exact = start->is_exact;
    message->vectors_exact = start->vectors_exact;
    message->facets = start->facets;
    return message;
}

static hd_status get_start(hd_arena *arena, const HdPb__Start *message, hd_start *start) {
    start->mode = (hd_start_mode)message->mode;
    start->k = message->k;
    HD_TRY(get_groups(arena, message->entities, &start->entities, &start->entity_groups));
    HD_TRY(get_groups(arena, message->tags, &start->tags, &start->tag_groups));
    start->has_since = message->has_since;
    start->has_until = message->has_until;
    start->since_us = message->since_us;
    start->until_us = message->until_us;
    if (message->n_vector > HD_DIMENSION_MAX || !hd_codec_are_floats_finite(message->vector, message->n_vector)) return HD_WIRE;
    start->vector = message->n_vector > 0 ? message->vector : NULL;
    start->dimension = (uint32_t)message->n_vector;
    start->is_exact = message->is_exact;
    start->vectors_exact = message->vectors_exact;
    start->facets = message->facets;
    return HD_OK;
}

static HdPb__Step *put_step(hd_arena *scratch, const hd_step *step) {
    HdPb__Step *message;
    HD_CODEC_NEW(message, scratch, step);
    message->kind = step->kind;
    message->number = step->number;
    message->from_result = (uint32_t)(step->from_result + 1);
    message->frontier_label = step->frontier_label;
    message->relation = step->relation;
    message->events = put_events(scratch, &step->events);
    message->names = put_names(scratch, &step->names);
    message->edges = put_edges(scratch, &step->edges);
    message->to_events = put_events(scratch, &step->to_events);
    if (step->kind == HD_STEP_START) message->start = put_start(scratch, &step->start);
    message->facets = step->facets;
    message->shares_min = step->shares_min;
    message->is_backward = step->is_backward;
    message->kinds = step->kinds;
    message->folded = hd_codec_put_strings(scratch, step->folded, step->folded_count);
    message->dimension = step->dimension;
    message->similar_k = step->similar_k;
    return message;
}

static hd_status get_step(hd_arena *arena, const HdPb__Step *message, hd_step *step) {
    step->kind = (hd_step_kind)message->kind;
    step->number = message->number;
    if (message->from_result > HD_STEPS_MAX || message->kinds > UINT8_MAX) return HD_WIRE;
    if (message->frontier_label >= HD_LABEL_END || message->relation >= HD_REL_END) return HD_WIRE;
    step->from_result = (int32_t)message->from_result - 1;
    step->frontier_label = (hd_label)message->frontier_label;
    step->relation = (hd_relation)message->relation;
    HD_TRY(get_events(arena, message->events, false, &step->events));
    HD_TRY(get_names(arena, message->names, false, &step->names));
    HD_TRY(get_edges(message->edges, &step->edges));
    HD_TRY(get_events(arena, message->to_events, false, &step->to_events));
    if (message->start != NULL) HD_TRY(get_start(arena, message->start, &step->start));
    step->facets = message->facets;
    step->shares_min = message->shares_min;
    step->is_backward = message->is_backward;
    step->kinds = (uint8_t)message->kinds;
    size_t folded_count = message->folded != NULL ? message->folded->n_sizes : 0;
    if (folded_count > UINT32_MAX) return HD_WIRE;
    HD_TRY(hd_codec_get_strings(arena, message->folded, folded_count, HD_CODEC_NAME, &step->folded));
    step->folded_count = (uint32_t)folded_count;
    step->dimension = message->dimension;
    step->similar_k = message->similar_k;
    return HD_OK;
}

HdPb__StepRequest *hd_codec_put_step_request(hd_arena *scratch, const hd_step_request *request) {
    HdPb__StepRequest *message;
    HD_CODEC_NEW(message, scratch, step_request);
    message->partitions = put_refs(scratch, request->partitions, request->partition_count);
    message->is_whole_org = request->is_whole_org;
    message->org_partitions = request->org_partitions;
    message->frontier_max = request->frontier_max;
    message->scanned_max = request->scanned_max;
    message->measured_max = request->measured_max;
    message->n_steps = request->step_count;
    message->steps = hd_arena_alloc(scratch, request->step_count * sizeof(*message->steps));
    HD_CHECK(message->steps != NULL);
    for (uint32_t i = 0; i < request->step_count; i++) message->steps[i] = put_step(scratch, &request->steps[i]);
    return message;
}

hd_status hd_codec_get_step_request(hd_arena *arena, const HdPb__StepRequest *message, hd_step_request *request_out) {
    HD_TRY(get_refs(arena, message->partitions, &request_out->partitions, &request_out->partition_count));
    request_out->is_whole_org = message->is_whole_org;
    request_out->org_partitions = message->org_partitions;
    request_out->frontier_max = message->frontier_max;
    request_out->scanned_max = message->scanned_max;
    request_out->measured_max = message->measured_max;
    if (message->n_steps > HD_STEPS_MAX) return HD_WIRE;
    HD_ALLOC(request_out->steps, arena, message->n_steps);
    request_out->step_count = (uint32_t)message->n_steps;
    for (size_t i = 0; i < message->n_steps; i++) HD_TRY(get_step(arena, message->steps[i], &request_out->steps[i]));
    return hd_codec_check_request(request_out);
}

/* ---- results ---- */

static HdPb__StepResult *put_result(hd_arena *scratch, const hd_step_result *result) {
    HdPb__StepResult *message;
    HD_CODEC_NEW(message, scratch, step_result);
    message->number = result->number;
    message->events = put_events(scratch, &result->events);
    message->names = put_names(scratch, &result->names);
    message->edges = put_edges(scratch, &result->edges);
    HD_CODEC_PUT_COLUMN(message, fold_of, result->fold_of, result->names.count);
    message->candidates = result->candidates;
    message->is_candidates_exact = result->is_candidates_exact;
    message->has_more = result->has_more;
    message->is_approximate = result->is_approximate;
    HD_CODEC_PUT_COLUMN(message, group_counts, result->group_counts, result->group_count_count);
    message->verdicts = put_verdicts(scratch, result->verdicts, result->verdict_count);
    message->used_scanned = result->used_scanned;
    message->used_measured = result->used_measured;
    message->shard_us = result->shard_us;
    return message;
}

static hd_status get_result(hd_arena *arena, const HdPb__StepResult *message, hd_step_result *result) {
    result->number = message->number;
    HD_TRY(get_events(arena, message->events, true, &result->events));
    HD_TRY(get_names(arena, message->names, true, &result->names));
    HD_TRY(get_edges(message->edges, &result->edges));
    HD_CODEC_GET_COLUMN(message, fold_of, result->names.count, result->fold_of);
    result->candidates = message->candidates;
    result->is_candidates_exact = message->is_candidates_exact;
    result->has_more = message->has_more;
    result->is_approximate = message->is_approximate;
    if (message->n_group_counts > UINT32_MAX) return HD_WIRE;
    result->group_counts = message->n_group_counts > 0 ? message->group_counts : NULL;
    result->group_count_count = (uint32_t)message->n_group_counts;
    HD_TRY(get_verdicts(arena, message->verdicts, result));
    result->used_scanned = message->used_scanned;
    result->used_measured = message->used_measured;
    result->shard_us = message->shard_us;
    return HD_OK;
}

HdPb__StepReply *hd_codec_put_step_reply(hd_arena *scratch, const hd_step_reply *reply) {
    HdPb__StepReply *message;
    HD_CODEC_NEW(message, scratch, step_reply);
    message->status = reply->status;
    message->message = hd_codec_put_string(scratch, reply->message);
    message->partitions = put_refs(scratch, reply->partitions, reply->partition_count);
    message->n_results = reply->result_count;
    message->results = hd_arena_alloc(scratch, reply->result_count * sizeof(*message->results));
    HD_CHECK(message->results != NULL);
    for (uint32_t i = 0; i < reply->result_count; i++) message->results[i] = put_result(scratch, &reply->results[i]);
    message->shard_us = reply->shard_us;
    return message;
}

hd_status hd_codec_get_step_reply(hd_arena *arena, const HdPb__StepReply *message, hd_step_reply *reply_out) {
    reply_out->status = hd_status_from_wire(message->status);
    HD_TRY(hd_codec_get_string(message->message, HD_CODEC_NAME_OR_ABSENT, &reply_out->message));
    HD_TRY(get_refs(arena, message->partitions, &reply_out->partitions, &reply_out->partition_count));
    if (message->n_results > HD_STEPS_MAX) return HD_WIRE;
    HD_ALLOC(reply_out->results, arena, message->n_results);
    reply_out->result_count = (uint32_t)message->n_results;
    for (size_t i = 0; i < message->n_results; i++) HD_TRY(get_result(arena, message->results[i], &reply_out->results[i]));
    reply_out->shard_us = message->shard_us;
    return HD_OK;
}
