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

hd_status co_gather(co_topology *topology, hd_wire_client *wire, co_gather_call *calls, uint32_t count, uint64_t deadline_us,
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
    hd_status status = HD_OK;
    while (waiting > 0 && status == HD_OK) {
        uint32_t index;
        status = hd_wire_client_receive(wire, deadline_us, &index, &buffer);
        if (status != HD_OK) break;
        co_gather_call *call = find_waiting(calls, count, hd_buf_get(&buffer));
        if (call == NULL) continue;
        call->status = hd_codec_decode_reply(arena, hd_buf_get(&buffer), &call->reply);
        if (call->status == HD_OK && call->reply.kind != call->request.kind) call->status = HD_WIRE;
        if (call->status == HD_MEMORY) status = HD_MEMORY;
        waiting--;
    }
    hd_buf_fini(&buffer);
    return status == HD_MEMORY ? status : HD_OK;
}
