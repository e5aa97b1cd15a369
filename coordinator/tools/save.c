/* The life of a batch of memories:
 *
 *     read        each object is checked and normalised (memory_input.c)
 *     embed       the summaries that came without a vector, in one go
 *     order       who waits for whom: an item goes out in a later wave than an earlier item that its prev_event_id names, and not in an
 *                 earlier wave than an earlier item of the same id
 *     look up     prev_event_ids that no earlier item has: they have to exist
 *     quota       where the org has one: items that would make it more events than allowed are refused (saves that run at the same
 *                 moment may overshoot by what they bring: the count is a look, not a lock)
 *     write       wave by wave: one request a shard, all shards at once; the next wave after every reply of this one
 *
 * A shard handles the items of one request in order, which keeps items of one id in order within a wave. */
#include "coordinator/tools/save.h"

#include <stdio.h>

#include "common/clock.h"
#include "common/ids.h"
#include "common/map.h"
#include "coordinator/cluster/gather.h"
#include "coordinator/embed/provider.h"
#include "coordinator/run/fanout.h"

/* Earlier items of one event id. */
typedef struct same_id {
    uint32_t wave;     /* the latest wave of an item of this id so far */
    uint32_t saved_by; /* the first item that saved it; HD_MAP_NONE while none has */
    bool is_counted;   /* an item of this id was found to fit into the quota */
} same_id;

typedef struct saving {
    co_tool_call *call;
    co_saved *items;
    uint32_t count;
    uint32_t *waves;    /* an item's wave */
    uint32_t *ids;      /* an item's id: index into `known` */
    uint32_t *previous; /* the id that its prev_event_id names, where an earlier item has it; else HD_MAP_NONE */
    same_id *known;
    uint32_t wave_count;
    uint64_t deadline_us;
} saving;

/* ---- read and embed ---- */

static hd_status read_items(saving *s, const json_t *const *objects) {
    for (uint32_t i = 0; i < s->count; i++) {
        char what[32];
        if (s->count == 1)
            snprintf(what, sizeof(what), "the memory");
        else
            snprintf(what, sizeof(what), "item %u", i + 1);
        co_saved *item = &s->items[i];
        item->status = co_memory_read(s->call->arena, s->call->org, objects[i], what, &item->memory, &item->fault);
        if (item->status == HD_MEMORY) return HD_MEMORY;
    }
    return HD_OK;
}

/* One by one, when the batch as a whole was refused for what one of them holds. */
static hd_status embed_each(saving *s, const uint32_t *wanting, uint32_t count, const hd_str *texts, float *vectors) {
    const co_org *org = s->call->org;
    for (uint32_t i = 0; i < count; i++) {
        co_saved *item = &s->items[wanting[i]];
        float *vector = vectors + (size_t)i * org->dimension;
        item->status = co_embed(org, &texts[i], 1, vector, &item->fault.error);
        item->memory.event.vector = vector;
        item->memory.event.dimension = org->dimension;
    }
    return HD_OK;
}

static hd_status embed_items(saving *s) {
    const co_org *org = s->call->org;
    if (org->embedding == CO_EMBEDDING_NONE) return HD_OK;
    uint32_t *wanting, count = 0;
    hd_str *texts;
    float *vectors;
    HD_ALLOC(wanting, s->call->arena, s->count);
    HD_ALLOC(texts, s->call->arena, s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->items[i].status != HD_OK || s->items[i].memory.event.vector != NULL) continue;
        texts[count] = s->items[i].memory.event.summary;
        wanting[count++] = i;
    }
    if (count == 0) return HD_OK;
    HD_ALLOC(vectors, s->call->arena, (size_t)count * org->dimension);
    hd_error error = {0};
    hd_status status = co_embed(org, texts, count, vectors, &error);
    if (status == HD_ARGUMENT && count > 1) return embed_each(s, wanting, count, texts, vectors);
    for (uint32_t i = 0; i < count; i++) {
        co_saved *item = &s->items[wanting[i]];
        item->memory.event.vector = vectors + (size_t)i * org->dimension;
        item->memory.event.dimension = org->dimension;
        item->status = status;
        if (status != HD_OK) item->fault.error = error;
    }
    return HD_OK;
}

/* ---- order ---- */

static hd_status order_items(saving *s) {
    hd_map ids;
    hd_map_init(&ids, s->call->arena);
    uint32_t known_count = 0;
    s->wave_count = 1;
    for (uint32_t i = 0; i < s->count; i++) {
        const hd_event_record *event = &s->items[i].memory.event;
        s->previous[i] = s->ids[i] = HD_MAP_NONE;
        if (event->previous.data != NULL) s->previous[i] = hd_map_get(&ids, event->previous);
        if (s->previous[i] != HD_MAP_NONE) s->waves[i] = s->known[s->previous[i]].wave + 1;
        if (event->id.data == NULL) continue; /* refused before it had an id */
        bool is_new;
        HD_TRY(hd_map_put(&ids, event->id, known_count, &s->ids[i], &is_new));
        same_id *same = &s->known[s->ids[i]];
        if (is_new) {
            *same = (same_id){.wave = s->waves[i], .saved_by = HD_MAP_NONE};
            known_count++;
        }
        s->waves[i] = same->wave = HD_MAX(same->wave, s->waves[i]);
        s->wave_count = HD_MAX(s->wave_count, s->waves[i] + 1);
    }
    return HD_OK;
}

/* ---- look up ---- */

static void refuse_unknown_previous(co_saved *item) {
    const hd_str id = item->memory.event.previous;
    item->status = hd_error_set(&item->fault.error, HD_ARGUMENT, "tools",
                                "\"prev_event_id\" names \"" HD_STR_FMT "\", and there is no such event", HD_STR_ARG(id));
    item->fault.hint = "Save the earlier event first, or in the same call before this one.";
}

static void fail_look_up(co_saved *item, const co_step_outcome *outcome) {
    const struct co_cut *cut = outcome->cut_count > 0 ? &outcome->cuts[0] : NULL;
    item->status =
        hd_error_set(&item->fault.error, HD_SHARD_DOWN, "tools",
                     "whether \"prev_event_id\" exists could not be asked, so nothing was saved"
                     "%s" HD_STR_FMT,
                     cut != NULL && cut->detail.data != NULL ? ": " : "", HD_STR_ARG(cut != NULL ? cut->detail : (hd_str){0}));
}

/* Which of these events exist? exists_out[i] belongs to ids[i]; what a cut left open is in *outcome_out. */
static hd_status ask_existing(saving *s, hd_str *ids, uint32_t count, bool *exists_out, co_step_outcome *outcome_out) {
    co_tool_call *call = s->call;
    hd_step step = {.kind = HD_STEP_FACTS,
                    .number = 1,
                    .from_result = -1,
                    .frontier_label = HD_LABEL_EVENT,
                    .events = {.count = count, .ids = ids}};
    hd_budget budget;
    hd_budget_init(&budget);
    co_fanout *fanout;
    hd_step_result result = {0};
    HD_TRY(co_fanout_new(call->arena, call->services->topology, call->wire, call->org, &budget, s->deadline_us, &fanout));
    HD_TRY(co_fanout_run(fanout, &step, &result, outcome_out));
    for (uint32_t i = 0; i < count; i++) exists_out[i] = result.events.flags != NULL && result.events.flags[i] & HD_EVENT_EXISTS;
    return HD_OK;
}

/* Looks for the prev_event_ids that no earlier item of this call has. */
static hd_status check_previous(saving *s) {
    uint32_t *asking, count = 0;
    hd_str *ids;
    bool *exists;
    HD_ALLOC(asking, s->call->arena, s->count);
    HD_ALLOC(ids, s->call->arena, s->count);
    HD_ALLOC(exists, s->call->arena, s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        const hd_event_record *event = &s->items[i].memory.event;
        if (s->items[i].status != HD_OK || event->previous.data == NULL || s->previous[i] != HD_MAP_NONE) continue;
        ids[count] = event->previous;
        asking[count++] = i;
    }
    if (count == 0) return HD_OK;
    co_step_outcome outcome = {0};
    HD_TRY(ask_existing(s, ids, count, exists, &outcome));
    for (uint32_t i = 0; i < count; i++) {
        if (exists[i]) continue;
        if (outcome.is_complete)
            refuse_unknown_previous(&s->items[asking[i]]);
        else
            fail_look_up(&s->items[asking[i]], &outcome);
    }
    return HD_OK;
}

/* ---- quota ---- */

/* Of the items that are still to be written: those whose event is there already add nothing. */
static hd_status find_new_items(saving *s, uint32_t *items_out, bool *exists_out, uint32_t *count_out) {
    hd_str *ids;
    co_step_outcome outcome = {0};
    uint32_t count = 0;
    HD_ALLOC(ids, s->call->arena, s->count);
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->items[i].status != HD_OK) continue;
        ids[count] = s->items[i].memory.event.id;
        items_out[count++] = i;
    }
    *count_out = count;
    return count > 0 ? ask_existing(s, ids, count, exists_out, &outcome) : HD_OK;
}

static void refuse_over_quota(co_saved *item, uint64_t events_max) {
    item->status = hd_error_set(&item->fault.error, HD_QUOTA, "tools", "the org's quota of %llu events is used up",
                                (unsigned long long)events_max);
}

static hd_status check_quota(saving *s) {
    const co_org *org = s->call->org;
    if (org->events_max == 0) return HD_OK;
    co_org_figures figures;
    HD_TRY(co_gather_org_figures(s->call->services->topology, s->call->wire, org, s->deadline_us, s->call->arena, &figures));
    for (uint32_t i = 0; i < s->count && !figures.is_complete; i++) {
        if (s->items[i].status != HD_OK) continue;
        s->items[i].status = hd_error_set(&s->items[i].fault.error, HD_SHARD_DOWN, "tools",
                                          "the org has a quota, and not every shard could be asked how much of it is used");
    }
    if (figures.is_complete && figures.events + s->count <= org->events_max) return HD_OK;
    uint64_t left = org->events_max > figures.events ? org->events_max - figures.events : 0;
    uint32_t *items, count = 0;
    bool *exists;
    HD_ALLOC(items, s->call->arena, s->count);
    HD_ALLOC(exists, s->call->arena, s->count);
    HD_TRY(find_new_items(s, items, exists, &count));
    for (uint32_t i = 0; i < count; i++) {
        same_id *same = &s->known[s->ids[items[i]]];
        if (exists[i] || same->is_counted) continue;
        if (left == 0) {
            refuse_over_quota(&s->items[items[i]], org->events_max);
            continue;
        }
        left--;
        same->is_counted = true;
    }
    return HD_OK;
}

/* ---- write ---- */

/* An item whose earlier one (in this call) was not saved is not saved either. */
static bool is_ready(saving *s, uint32_t i) {
    co_saved *item = &s->items[i];
    if (item->status != HD_OK) return false;
    if (s->previous[i] == HD_MAP_NONE) return true;
    uint32_t saved_by = s->known[s->previous[i]].saved_by;
    if (saved_by != HD_MAP_NONE && saved_by < i) return true;
    const hd_str id = item->memory.event.previous;
    item->status =
        hd_error_set(&item->fault.error, HD_ARGUMENT, "tools",
                     "\"prev_event_id\" names \"" HD_STR_FMT "\", an earlier item of this call that was not saved", HD_STR_ARG(id));
    return false;
}

/* The requests of one wave: one a shard, with the items that its partitions own. */
typedef struct wave {
    co_gather_call *calls;
    uint32_t **items; /* by call: the item indexes, in order */
    uint32_t call_count;
} wave;

static uint32_t find_call(const wave *w, const char *shard) {
    uint32_t i = 0;
    while (i < w->call_count && strcmp(w->calls[i].shard, shard) != 0) i++;
    return i;
}

static hd_status add_to_wave(saving *s, wave *w, uint32_t i) {
    const co_org *org = s->call->org;
    const co_memory *memory = &s->items[i].memory;
    const co_partition *partition = &org->partitions[hd_event_partition(memory->event.id, org->partition_count)];
    uint32_t c = find_call(w, partition->shard);
    hd_write_request *request = &w->calls[c].request.write;
    if (c == w->call_count) {
        w->call_count++;
        w->calls[c] = (co_gather_call){.shard = partition->shard, .request = {.kind = HD_MESSAGE_WRITE}};
        request->org = org->id;
        HD_ALLOC(request->items, s->call->arena, s->count);
        HD_ALLOC(w->items[c], s->call->arena, s->count);
    }
    w->items[c][request->item_count] = i;
    request->items[request->item_count++] = (hd_write_item){.kind = HD_WRITE_SAVE,
                                                            .partition = partition->id,
                                                            .epoch = partition->epoch,
                                                            .is_replace = memory->is_replace,
                                                            .event = memory->event,
                                                            .idempotency_key = memory->idempotency_key};
    return HD_OK;
}

/* Failures after which the write may have happened all the same. */
static bool is_outcome_unknown(hd_status status) {
    switch (status) {
    case HD_SHARD_DOWN:
    case HD_WIRE:
    case HD_DEADLINE:
    case HD_CANCELLED:
    case HD_STORE_IO:
    case HD_STORE_FULL:
    case HD_MEMORY:
    case HD_INTERNAL: return true;
    default: return false;
    }
}

static void fail_item(co_saved *item, hd_status status, hd_str message, bool was_sent) {
    item->status = hd_error_set(&item->fault.error, status, "write", HD_STR_FMT,
                                HD_STR_ARG(message.size > 0 ? message : hd_str_of(hd_status_meaning(status))));
    if (!was_sent || !is_outcome_unknown(status)) return;
    item->fault.error.outcome = "unknown";
    item->fault.event_id = item->memory.event.id;
    item->fault.hint =
        "Ask for the event by its id, or save again with the same event_id (or idempotency_key): it is not stored twice.";
}

/* A repeat of an idempotency key with another record than the first time; outcome->message says so. */
static bool is_repeat_of_other(const hd_write_outcome *outcome) {
    return outcome->is_repeat && outcome->message.size > 0;
}

static void take_outcome(saving *s, uint32_t i, const hd_write_outcome *outcome) {
    co_saved *item = &s->items[i];
    item->outcome = *outcome;
    if (outcome->code == HD_OK) {
        same_id *same = &s->known[s->ids[i]];
        bool is_of_other = is_repeat_of_other(outcome) && !hd_str_is_equal(outcome->event, item->memory.event.id);
        if (same->saved_by == HD_MAP_NONE && !is_of_other) same->saved_by = i;
        return;
    }
    fail_item(item, outcome->code, outcome->message, true);
    if (outcome->code == HD_ALREADY_EXISTS) {
        item->fault.event_id = item->memory.event.id;
        item->fault.hint = "Give replace: true to put this record wholly in the old one's place.";
    }
}

static void take_reply(saving *s, const wave *w, uint32_t c) {
    const co_gather_call *call = &w->calls[c];
    const hd_write_request *request = &call->request.write;
    const hd_write_reply *reply = &call->reply.write;
    hd_status status = call->status != HD_OK ? call->status : reply->status;
    if (status == HD_OK && reply->outcome_count != request->item_count) status = HD_WIRE;
    for (uint32_t i = 0; i < request->item_count; i++) {
        uint32_t item = w->items[c][i];
        if (status == HD_OK)
            take_outcome(s, item, &reply->outcomes[i]);
        else
            fail_item(&s->items[item], status, call->status == HD_OK ? reply->message : (hd_str){0}, call->was_sent);
    }
}

static hd_status write_wave(saving *s, uint32_t number) {
    co_tool_call *call = s->call;
    wave w = {0};
    HD_ALLOC(w.calls, call->arena, call->org->partition_count);
    HD_ALLOC(w.items, call->arena, call->org->partition_count);
    for (uint32_t i = 0; i < s->count; i++)
        if (s->waves[i] == number && is_ready(s, i)) HD_TRY(add_to_wave(s, &w, i));
    uint64_t now_us = hd_clock_monotonic_us();
    uint32_t remaining_ms = s->deadline_us > now_us ? (uint32_t)((s->deadline_us - now_us) / 1000) : 0;
    if (remaining_ms == 0) { /* nothing was sent, so nothing is in doubt */
        for (uint32_t c = 0; c < w.call_count; c++)
            for (uint32_t i = 0; i < w.calls[c].request.write.item_count; i++)
                fail_item(&s->items[w.items[c][i]], HD_DEADLINE, HD_STR("the time for this call was over before this item's turn"),
                          false);
        return HD_OK;
    }
    for (uint32_t c = 0; c < w.call_count; c++) w.calls[c].request.write.remaining_ms = remaining_ms;
    co_gather(call->services->topology, call->wire, w.calls, w.call_count, s->deadline_us, call->arena);
    for (uint32_t c = 0; c < w.call_count; c++) take_reply(s, &w, c);
    return HD_OK;
}

hd_status co_save_all(co_tool_call *call, const json_t *const *objects, uint32_t count, co_saved **saved_out) {
    saving s = {.call = call, .count = count, .deadline_us = hd_clock_monotonic_us() + call->services->write_timeout_ms * 1000};
    HD_ALLOC(s.items, call->arena, count);
    HD_ALLOC(s.waves, call->arena, count);
    HD_ALLOC(s.ids, call->arena, count);
    HD_ALLOC(s.previous, call->arena, count);
    HD_ALLOC(s.known, call->arena, count);
    *saved_out = s.items;
    HD_TRY(read_items(&s, objects));
    HD_TRY(embed_items(&s));
    HD_TRY(order_items(&s));
    HD_TRY(check_previous(&s));
    HD_TRY(check_quota(&s));
    for (uint32_t wave_number = 0; wave_number < s.wave_count; wave_number++) HD_TRY(write_wave(&s, wave_number));
    return HD_OK;
}

/* ---- the answer ---- */

static void write_entities(co_json *json, const hd_event_record *event) {
    co_json_key(json, "entities");
    co_json_array(json);
    for (uint32_t i = 0; i < event->entity_count; i++) {
        char id[37];
        hd_entity_id_format(hd_name_id(event->entities[i].name), id);
        co_json_object(json);
        co_json_member_text(json, "id", id);
        co_json_member_str(json, "name", event->entities[i].name);
        co_json_key(json, "type");
        if (event->entities[i].type.data != NULL)
            co_json_str(json, event->entities[i].type);
        else
            co_json_null(json);
        co_json_end_object(json);
    }
    co_json_end_array(json);
}

/* A repeat answers as the first time did. Where this record is another one than then, its entities and warnings are not that answer's. */
void co_save_write_members(co_json *json, const co_saved *saved) {
    if (saved->status != HD_OK) {
        co_fault_write_members(json, saved->status, &saved->fault);
        return;
    }
    const hd_write_outcome *outcome = &saved->outcome;
    bool is_of_other = is_repeat_of_other(outcome);
    co_json_member_text(json, "status", "ok");
    co_json_member_str(json, "event_id", is_of_other ? outcome->event : saved->memory.event.id);
    co_json_member_bool(json, outcome->is_replaced ? "replaced" : "created", true);
    if (!is_of_other) write_entities(json, &saved->memory.event);
    co_json_key(json, "warnings");
    co_json_array(json);
    if (is_of_other) co_json_str(json, outcome->message);
    for (uint32_t i = 0; i < saved->memory.warning_count && !is_of_other; i++) co_json_str(json, saved->memory.warnings[i]);
    co_json_end_array(json);
}
