/* See gather.h. Replies to anything else that reaches this thread's sockets meanwhile are late ones, and dropped. */
#include "coordinator/cluster/gather.h"

#include "common/clock.h"

static hd_status send_call(co_topology *topology, hd_wire_client *wire, co_gather_call *call, hd_buf *scratch) {
    char endpoint[256];
    uint32_t index;
    HD_TRY(co_topology_find(topology, call->shard, endpoint));
    HD_TRY(hd_wire_client_connect(wire, endpoint, &index));
    call->request.id = co_topology_request_id(topology);
    hd_buf_clear(scratch);
    hd_codec_encode_request(&call->request, scratch);
    HD_TRY(hd_wire_client_send(wire, index, hd_buf_get(scratch)));
    call->was_sent = true;
    return HD_OK;
}

/* The call that waits for the reply in `payload`; NULL: none does. */
static co_gather_call *find_waiting(co_gather_call *calls, uint32_t count, hd_str payload) {
    uint64_t id;
    if (hd_codec_peek_reply(payload, &id) != HD_OK) return NULL;
    for (uint32_t i = 0; i < count; i++)
        if (calls[i].was_sent && calls[i].status == HD_SHARD_DOWN && calls[i].request.id == id) return &calls[i];
    return NULL;
}

void co_gather(co_topology *topology, hd_wire_client *wire, co_gather_call *calls, uint32_t count, uint64_t deadline_us,
               hd_arena *arena) {
    hd_buf buffer = {0};
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < count; i++) {
        calls[i].was_sent = false;
        calls[i].status = send_call(topology, wire, &calls[i], &buffer);
        if (calls[i].status == HD_OK) {
            calls[i].status = HD_SHARD_DOWN; /* until its reply is there */
            waiting++;
        }
    }
    uint32_t index;
    while (waiting > 0 && hd_wire_client_receive(wire, deadline_us, &index, &buffer) == HD_OK) {
        co_gather_call *call = find_waiting(calls, count, hd_buf_get(&buffer));
        if (call == NULL) continue;
        call->status = hd_codec_decode_reply(arena, hd_buf_get(&buffer), &call->reply);
        if (call->status == HD_OK && call->reply.kind != call->request.kind) call->status = HD_WIRE;
        waiting--;
    }
    hd_buf_fini(&buffer);
}

static hd_status ask_holders(const co_org *org, uint64_t deadline_us, hd_arena *arena, co_gather_call **calls_out,
                             uint32_t *count_out) {
    uint64_t now_us = hd_clock_monotonic_us();
    uint32_t count = 0;
    co_gather_call *calls;
    HD_ALLOC(calls, arena, org->partition_count);
    for (uint32_t i = 0; i < org->partition_count; i++) {
        uint32_t c = 0;
        while (c < count && strcmp(calls[c].shard, org->partitions[i].shard) != 0) c++;
        if (c < count) continue;
        calls[count++] = (co_gather_call){.shard = org->partitions[i].shard, .request = {.kind = HD_MESSAGE_CONTROL}};
        calls[c].request.control = (hd_control_request){.kind = HD_CONTROL_STATS, .org = org->id};
        if (deadline_us > now_us) calls[c].request.control.remaining_ms = (uint32_t)((deadline_us - now_us) / 1000);
    }
    *calls_out = calls;
    *count_out = count;
    return HD_OK;
}

hd_status co_gather_org_figures(co_topology *topology, hd_wire_client *wire, const co_org *org, uint64_t deadline_us,
                                hd_arena *arena, co_org_figures *figures_out) {
    co_gather_call *calls;
    uint32_t count;
    *figures_out = (co_org_figures){.is_complete = true};
    HD_TRY(ask_holders(org, deadline_us, arena, &calls, &count));
    co_gather(topology, wire, calls, count, deadline_us, arena);
    for (uint32_t c = 0; c < count; c++) {
        const hd_control_reply *reply = &calls[c].reply.control;
        if (calls[c].status != HD_OK || reply->status != HD_OK) {
            figures_out->is_complete = false;
            continue;
        }
        for (uint32_t i = 0; i < reply->partition_count; i++) {
            if (reply->partitions[i].org != org->id) continue;
            figures_out->events += reply->partitions[i].events;
            figures_out->vectors += reply->partitions[i].vectors;
        }
    }
    return HD_OK;
}
