/* delete_memory: the event is gone from every answer at once. Saying it twice is no error. */
#include "common/clock.h"
#include "common/ids.h"
#include "coordinator/cluster/gather.h"
#include "coordinator/tools/memory_schema.h"
#include "coordinator/tools/tool.h"

static const char *const known[] = {"event_id", NULL};

/* After a delete was sent and not answered, asking again is safe: it says what became of it. */
static hd_status fail(co_tool_call *call, hd_status status, hd_str message, bool was_sent, hd_str id) {
    hd_str text = message.size > 0 ? message : hd_str_of(hd_status_meaning(status));
    (void)hd_error_set(&call->fault.error, status, "tools", HD_STR_FMT, HD_STR_ARG(text));
    if (was_sent && status != HD_BUSY && status != HD_MAP_STALE) {
        call->fault.error.outcome = "unknown";
        call->fault.event_id = id;
        call->fault.hint = "Delete it again: saying it twice is no error.";
    }
    return status;
}

static hd_status run(co_tool_call *call) {
    hd_str id;
    HD_TRY(co_tool_check_known(call, known));
    HD_TRY(co_tool_get_event_id(call, "event_id", &id));
    const co_org *org = call->org;
    const co_partition *partition = &org->partitions[hd_event_partition(id, org->partition_count)];
    hd_write_item item = {.kind = HD_WRITE_DELETE, .partition = partition->id, .epoch = partition->epoch, .event = {.id = id}};
    co_gather_call gather = {.shard = partition->shard, .request = {.kind = HD_MESSAGE_WRITE}};
    gather.request.write = (hd_write_request){
        .org = org->id, .remaining_ms = (uint32_t)call->services->write_timeout_ms, .items = &item, .item_count = 1};
    uint64_t deadline_us = hd_clock_monotonic_us() + call->services->write_timeout_ms * 1000;
    co_gather(call->services->topology, call->wire, &gather, 1, deadline_us, call->arena);
    if (gather.status != HD_OK) return fail(call, gather.status, (hd_str){0}, gather.was_sent, id);
    const hd_write_reply *reply = &gather.reply.write;
    if (reply->status != HD_OK) return fail(call, reply->status, reply->message, true, id);
    if (reply->outcome_count != 1) return fail(call, HD_WIRE, (hd_str){0}, true, id);
    if (reply->outcomes[0].code != HD_OK) return fail(call, reply->outcomes[0].code, reply->outcomes[0].message, true, id);
    co_json json;
    co_json_init(&json, call->out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_member_str(&json, "event_id", id);
    co_json_member_bool(&json, "deleted", reply->outcomes[0].is_deleted);
    co_json_end_object(&json);
    return HD_OK;
}

const co_tool co_tool_delete_memory = {
    .name = "delete_memory",
    .title = "Delete a memory",
    .description = "Deletes one event for good. `deleted` is false where there was none; saying it twice is no error.",
    .role = CO_ROLE_WRITE,
    .is_idempotent = true,
    .is_destructive = true,
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"required\":[\"event_id\"],\"properties\":{"
        "\"event_id\":{\"type\":\"string\",\"pattern\":\"^[A-Za-z0-9._:-]{1,64}$\"}}}",
    .output_schema =
        "{\"type\":\"object\",\"required\":[\"status\"],\"properties\":{\"status\":{\"enum\":[\"ok\",\"error\"]},"
        "\"event_id\":{\"type\":\"string\"},\"deleted\":{\"type\":\"boolean\"}," CO_ERROR_PROPERTIES "}}",
    .run = run,
};
