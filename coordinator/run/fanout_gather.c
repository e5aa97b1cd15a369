/* One round: every ask is sent as soon as its shard takes it, then replies are matched by request id and by the shard they come
 * from. What is late, doubled or forged is counted and dropped. Requests given up on are cancelled. */
#include "common/clock.h"
#include "common/log.h"
#include "coordinator/run/fanout_private.h"

enum {
    CONNECT_WAIT_US = 250000, /* as long as hd_wire_client_send waits for a fresh connection */
    SLICE_UNSENT_US = 2000,   /* between two attempts to send */
    SLICE_US = 25000,         /* between two looks at the caller and the topology */
    REPLY_MARGIN_MS = 5       /* a shard stops this much before us, so that what it has by then arrives */
};

static const char NO_ANSWER[] = "no answer by the deadline";
static const char NOT_REACHED[] = "the shard cannot be reached";
static const char NOT_THERE[] = "the shard is down or not known";
static const char NOT_READABLE[] = "its answer does not fit the request";

static void lose(co_ask *ask, const char *why) {
    ask->state = CO_ASK_LOST;
    ask->why = why;
}

/* ---- requests ---- */

static hd_status build_request(co_fanout *fanout, co_ask *ask) {
    uint64_t now = hd_clock_monotonic_us();
    uint64_t remaining_ms = fanout->deadline_us > now ? (fanout->deadline_us - now) / 1000 : 0;
    hd_step_request *request = &ask->request;
    *request = (hd_step_request){.query = fanout->query,
                                 .org = fanout->org->id,
                                 .partition_count = ask->partition_count,
                                 .is_whole_org = ask->partition_count == fanout->org->partition_count,
                                 .org_partitions = fanout->org->partition_count,
                                 .remaining_ms = remaining_ms > REPLY_MARGIN_MS ? (uint32_t)(remaining_ms - REPLY_MARGIN_MS) : 1,
                                 .frontier_max = fanout->budget->caps[HD_CAP_FRONTIER],
                                 .scanned_max = ask->scanned_share,
                                 .measured_max = ask->measured_share,
                                 .steps = (hd_step *)(uintptr_t)ask->steps, /* only read */
                                 .step_count = ask->step_count};
    HD_ALLOC(request->partitions, fanout->scratch, ask->partition_count);
    for (uint32_t i = 0; i < ask->partition_count; i++) {
        const co_partition *partition = &fanout->org->partitions[ask->partitions[i]];
        const co_snapshot *snapshot = &fanout->snapshots[ask->partitions[i]];
        request->partitions[i] = (hd_partition_ref){.id = partition->id,
                                                    .ordinal = ask->partitions[i],
                                                    .epoch = partition->epoch,
                                                    .incarnation = snapshot->incarnation,
                                                    .sequence = snapshot->sequence};
        if (ask->is_resumed) request->partitions[i].resume = fanout->parts[ask->partitions[i]].resume;
    }
    if (hd_codec_check_request(request) == HD_OK) return HD_OK;
    hd_log(HD_LOG_ERROR, "fanout", "a step of kind %d breaks the step contract", ask->steps[0].kind);
    return HD_INTERNAL;
}

/* Finds the shard and encodes the request; LOST where the shard is down or not known. */
static hd_status open_ask(co_fanout *fanout, co_ask *ask) {
    co_group *group = &fanout->groups[ask->group];
    char endpoint[256];
    HD_TRY(build_request(fanout, ask));
    if (co_topology_find(fanout->topology, group->uuid, endpoint) != HD_OK ||
        hd_wire_client_connect(fanout->wire, endpoint, &group->wire) != HD_OK) {
        lose(ask, NOT_THERE);
        return HD_OK;
    }
    group->has_wire = true;
    ask->id = co_topology_request_id(fanout->topology);
    hd_request request = {.id = ask->id, .kind = HD_MESSAGE_STEP, .step = ask->request};
    hd_codec_encode_request(&request, &ask->bytes);
    return HD_OK;
}

/* Tries to send what is not sent yet; how many that leaves. */
static uint32_t send_unsent(co_fanout *fanout, co_ask *asks, uint32_t count, uint64_t give_up_us) {
    uint32_t left = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (asks[i].state != CO_ASK_UNSENT) continue;
        co_group *group = &fanout->groups[asks[i].group];
        if (hd_wire_client_try_send(fanout->wire, group->wire, hd_buf_get(&asks[i].bytes)) == HD_OK) {
            asks[i].state = CO_ASK_WAITING;
            group->is_away = false;
        } else if (group->is_away || hd_clock_monotonic_us() >= give_up_us) {
            lose(&asks[i], NOT_REACHED);
            group->is_away = true;
        } else {
            left++;
        }
    }
    return left;
}

static void send_cancel(co_fanout *fanout, co_group *group) {
    hd_request request = {.id = co_topology_request_id(fanout->topology),
                          .kind = HD_MESSAGE_CONTROL,
                          .control = {.kind = HD_CONTROL_CANCEL, .org = fanout->org->id, .query = fanout->query}};
    hd_buf bytes = {0};
    hd_codec_encode_request(&request, &bytes);
    hd_status ignored = hd_wire_client_try_send(fanout->wire, group->wire, hd_buf_get(&bytes)); /* away: nothing to cancel */
    (void)ignored;
    hd_buf_fini(&bytes);
}

void co_fanout_cancel(co_fanout *fanout) {
    for (uint32_t g = 0; g < fanout->group_count; g++) {
        if (fanout->groups[g].has_wire) send_cancel(fanout, &fanout->groups[g]);
    }
}

/* ---- replies ---- */

/* Vectors that are not as long as those of the org would be read past their end. */
static bool are_dimensions_right(const co_fanout *fanout, const hd_step_reply *reply) {
    for (uint32_t i = 0; i < reply->result_count; i++) {
        const hd_event_batch *events = &reply->results[i].events;
        if (events->vectors != NULL && events->dimension != fanout->org->dimension) return false;
    }
    return true;
}

static hd_status take_reply(co_fanout *fanout, co_ask *ask, hd_str bytes) {
    hd_reply reply;
    hd_status status = hd_codec_decode_reply(fanout->arena, bytes, &reply);
    if (status == HD_MEMORY) return HD_MEMORY;
    if (status == HD_OK && reply.kind != HD_MESSAGE_STEP) status = HD_WIRE;
    if (status == HD_OK && reply.step.status == HD_OK) {
        status = hd_codec_check_reply(&ask->request, &reply.step);
        if (status == HD_OK && (reply.step.result_count == 0 || !are_dimensions_right(fanout, &reply.step))) status = HD_WIRE;
    }
    if (status != HD_OK) {
        hd_log(HD_LOG_ERROR, "fanout", "shard %s answers a step of kind %d with what does not fit it",
               fanout->groups[ask->group].uuid, ask->steps[0].kind);
        lose(ask, NOT_READABLE);
        return HD_OK;
    }
    ask->reply = reply.step;
    ask->state = CO_ASK_ANSWERED;
    return HD_OK;
}

/* The ask that waits for this message; NULL: it is nobody's. */
static co_ask *find_ask(co_fanout *fanout, co_ask *asks, uint32_t count, uint32_t wire, hd_str bytes) {
    uint64_t id;
    if (hd_codec_peek_reply(bytes, &id) != HD_OK) return NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (asks[i].state == CO_ASK_WAITING && asks[i].id == id && fanout->groups[asks[i].group].wire == wire) return &asks[i];
    }
    return NULL;
}

static bool is_any_open(const co_ask *asks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (asks[i].state == CO_ASK_UNSENT || asks[i].state == CO_ASK_WAITING) return true;
    }
    return false;
}

/* Shards that have gone silent for long are not waited for. */
static void lose_silent(co_fanout *fanout, co_ask *asks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        char endpoint[256];
        if (asks[i].state != CO_ASK_WAITING) continue;
        if (co_topology_find(fanout->topology, fanout->groups[asks[i].group].uuid, endpoint) != HD_OK) lose(&asks[i], NOT_THERE);
    }
}

/* Waits for one message or one slice of time. */
static hd_status wait_once(co_fanout *fanout, co_ask *asks, uint32_t count, uint32_t unsent) {
    uint64_t now = hd_clock_monotonic_us();
    uint64_t until = HD_MIN(now + (unsent > 0 ? SLICE_UNSENT_US : SLICE_US), fanout->deadline_us);
    uint32_t wire;
    hd_status status = hd_wire_client_receive(fanout->wire, until, &wire, &fanout->received);
    if (status == HD_DEADLINE) {
        if (fanout->is_client_gone != NULL && fanout->is_client_gone(fanout->gone_self)) return HD_CANCELLED;
        lose_silent(fanout, asks, count);
        return HD_OK;
    }
    HD_TRY(status);
    co_ask *ask = find_ask(fanout, asks, count, wire, hd_buf_get(&fanout->received));
    if (ask != NULL) return take_reply(fanout, ask, hd_buf_get(&fanout->received));
    hd_metric_add(fanout->dropped, 1);
    return HD_OK;
}

/* ---- replies in an order of the test's choosing ---- */

typedef struct held_reply {
    uint32_t wire;
    hd_buf bytes;
} held_reply;

/* Holds messages back until as many have come as are waited for, or the deadline; then takes them as the faults pick. */
static hd_status take_held(co_fanout *fanout, co_ask *asks, uint32_t count) {
    held_reply *held;
    uint32_t held_count = 0, waiting = 0;
    hd_status status = HD_OK;
    HD_ALLOC(held, fanout->scratch, count);
    for (uint32_t i = 0; i < count; i++) waiting += asks[i].state == CO_ASK_WAITING;
    while (held_count < waiting) {
        held_reply *next = &held[held_count];
        if (hd_wire_client_receive(fanout->wire, fanout->deadline_us, &next->wire, &next->bytes) != HD_OK) break;
        if (find_ask(fanout, asks, count, next->wire, hd_buf_get(&next->bytes)) != NULL) held_count++;
    }
    while (held_count > 0 && status == HD_OK) {
        uint32_t picked = fanout->faults.pick_next(fanout->faults.self, held_count);
        HD_CHECK(picked < held_count);
        held_reply taken = held[picked];
        held[picked] = held[--held_count];
        held[held_count] = taken; /* still to be released below */
        co_ask *ask = find_ask(fanout, asks, count, taken.wire, hd_buf_get(&taken.bytes));
        if (ask != NULL) status = take_reply(fanout, ask, hd_buf_get(&taken.bytes));
    }
    for (uint32_t i = 0; i < count; i++) hd_buf_fini(&held[i].bytes);
    return status;
}

/* ---- a round ---- */

static hd_status gather_all(co_fanout *fanout, co_ask *asks, uint32_t count) {
    uint64_t give_up_us = hd_clock_monotonic_us() + CONNECT_WAIT_US;
    for (uint32_t i = 0; i < count; i++) HD_TRY(open_ask(fanout, &asks[i]));
    uint32_t unsent = send_unsent(fanout, asks, count, give_up_us);
    if (unsent == 0 && fanout->faults.pick_next != NULL) HD_TRY(take_held(fanout, asks, count));
    while (is_any_open(asks, count) && hd_clock_monotonic_us() < fanout->deadline_us) {
        HD_TRY(wait_once(fanout, asks, count, unsent));
        if (unsent > 0) unsent = send_unsent(fanout, asks, count, give_up_us);
    }
    return HD_OK;
}

hd_status co_fanout_gather(co_fanout *fanout, co_ask *asks, uint32_t count) {
    hd_status status = gather_all(fanout, asks, count);
    for (uint32_t i = 0; i < count; i++) {
        co_ask *ask = &asks[i];
        if (ask->state == CO_ASK_WAITING) send_cancel(fanout, &fanout->groups[ask->group]);
        if (ask->state == CO_ASK_WAITING || ask->state == CO_ASK_UNSENT) {
            lose(ask, ask->state == CO_ASK_WAITING ? NO_ANSWER : NOT_REACHED);
        }
        hd_buf_fini(&ask->bytes);
    }
    return status;
}
