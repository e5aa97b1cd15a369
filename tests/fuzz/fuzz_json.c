/* A call's body through the JSON reader, the tool's argument checks and (for saves) the reading of each memory, up to what would go to
 * the shards and the answer that comes of it. The input: a byte that picks the tool, one that picks the org and how the shards behave,
 * and the body.
 *
 * The shards are models behind the linker's --wrap (see CMakeLists.txt): co_gather and co_fanout_* answer at once, from here.
 *
 * Beyond not crashing:
 *   - every answer, good or bad, is one JSON object of valid UTF-8, and a failure says what it is;
 *   - what a write sends to a shard is a request that a shard can decode. */
#include "common/ids.h"
#include "coordinator/cluster/gather.h"
#include "coordinator/front/exchange.h"
#include "coordinator/run/fanout.h"
#include "coordinator/run/query.h"
#include "coordinator/tools/save.h"
#include "tests/fuzz/fuzz.h"

typedef enum mood { MOOD_WELL, MOOD_DOWN, MOOD_REFUSING, MOOD_EMPTY, MOOD_COUNT } mood;
static mood shards;

/* ---- the shards ---- */

void __wrap_co_gather(co_topology *topology, hd_wire_client *wire, co_gather_call *calls, uint32_t count, uint64_t deadline_us,
                      hd_arena *arena);
hd_status __wrap_co_gather_org_figures(co_topology *topology, hd_wire_client *wire, const co_org *org, uint64_t deadline_us,
                                       hd_arena *arena, co_org_figures *figures_out);
hd_status __wrap_co_fanout_new(hd_arena *arena, co_topology *topology, hd_wire_client *wire, const co_org *org, hd_budget *budget,
                               uint64_t deadline_us, co_fanout **fanout_out);
hd_status __wrap_co_fanout_run(co_fanout *fanout, const hd_step *step, hd_step_result *result_out, co_step_outcome *outcome_out);
hd_status __wrap_co_query_run(const co_query_input *input, hd_buf *json_out, int *status_http_out);

static void check_sendable(hd_arena *arena, const hd_request *request) {
    hd_buf bytes = {0};
    hd_request decoded, named = *request;
    named.id = 1;
    hd_codec_encode_request(&named, &bytes);
    FUZZ_CHECK(hd_codec_decode_request(arena, hd_buf_get(&bytes), &decoded) == HD_OK);
    FUZZ_CHECK(decoded.write.item_count == request->write.item_count);
    hd_buf_fini(&bytes);
}

static void answer_write(hd_arena *arena, co_gather_call *call) {
    const hd_write_request *request = &call->request.write;
    hd_write_reply *reply = &call->reply.write;
    hd_write_outcome *outcomes = hd_arena_alloc(arena, request->item_count * sizeof(*outcomes));
    FUZZ_CHECK(outcomes != NULL && request->item_count > 0);
    for (uint32_t i = 0; i < request->item_count; i++) {
        outcomes[i] = (hd_write_outcome){.code = HD_OK, .event = request->items[i].event.id, .is_deleted = i % 2 == 0};
        if (shards == MOOD_REFUSING && i % 2 == 0) outcomes[i].code = HD_ALREADY_EXISTS;
    }
    *reply = (hd_write_reply){.status = HD_OK, .outcomes = outcomes, .outcome_count = request->item_count};
    if (shards == MOOD_EMPTY) *reply = (hd_write_reply){.status = HD_BUSY};
}

void __wrap_co_gather(co_topology *topology, hd_wire_client *wire, co_gather_call *calls, uint32_t count, uint64_t deadline_us,
                      hd_arena *arena) {
    (void)topology, (void)wire, (void)deadline_us;
    for (uint32_t i = 0; i < count; i++) {
        FUZZ_CHECK(calls[i].request.kind == HD_MESSAGE_WRITE);
        check_sendable(arena, &calls[i].request);
        calls[i].was_sent = true;
        calls[i].status = shards == MOOD_DOWN ? HD_SHARD_DOWN : HD_OK;
        if (calls[i].status == HD_OK) answer_write(arena, &calls[i]);
    }
}

hd_status __wrap_co_gather_org_figures(co_topology *topology, hd_wire_client *wire, const co_org *org, uint64_t deadline_us,
                                       hd_arena *arena, co_org_figures *figures_out) {
    (void)topology, (void)wire, (void)org, (void)deadline_us, (void)arena;
    *figures_out = (co_org_figures){.events = 3, .is_complete = shards != MOOD_DOWN};
    return HD_OK;
}

static hd_arena *fanout_arena;

hd_status __wrap_co_fanout_new(hd_arena *arena, co_topology *topology, hd_wire_client *wire, const co_org *org, hd_budget *budget,
                               uint64_t deadline_us, co_fanout **fanout_out) {
    (void)topology, (void)wire, (void)org, (void)budget, (void)deadline_us;
    fanout_arena = arena;
    *fanout_out = NULL;
    return HD_OK;
}

/* Facts of events: every one exists, or none. */
hd_status __wrap_co_fanout_run(co_fanout *fanout, const hd_step *step, hd_step_result *result_out, co_step_outcome *outcome_out) {
    FUZZ_CHECK(fanout == NULL && step->kind == HD_STEP_FACTS && step->events.count > 0);
    for (uint32_t i = 0; i < step->events.count; i++) FUZZ_CHECK(hd_event_id_is_valid(step->events.ids[i]));
    *result_out = (hd_step_result){0};
    *outcome_out = (co_step_outcome){.is_complete = shards != MOOD_DOWN};
    uint8_t *flags = hd_arena_alloc(fanout_arena, step->events.count);
    FUZZ_CHECK(flags != NULL);
    memset(flags, step->facets == 0 && shards == MOOD_WELL ? HD_EVENT_EXISTS : 0, step->events.count);
    result_out->events = (hd_event_batch){.count = step->events.count, .ids = step->events.ids, .flags = flags};
    return HD_OK;
}

/* The language alone: fuzz_query has the rest. */
hd_status __wrap_co_query_run(const co_query_input *input, hd_buf *json_out, int *status_http_out) {
    hd_arena *arena = hd_arena_new(0);
    const co_query *query = NULL;
    co_refusal refusal = {0};
    co_resolved resolved;
    hd_status status = co_language_bind(arena, input->text, &query, &refusal);
    if (status == HD_OK) status = co_language_resolve(arena, query, &input->params, &resolved, &refusal);
    for (int cap = 0; cap < HD_CAP_COUNT; cap++) FUZZ_CHECK(cap == HD_CAP_DEADLINE || input->budget.caps[cap] <= INT64_MAX);
    co_json json;
    co_json_init(&json, json_out);
    co_json_object(&json);
    if (status != HD_OK) co_json_member_str(&json, "detail", refusal.detail);
    co_json_end_object(&json);
    *status_http_out = hd_status_http(status);
    hd_arena_free(arena);
    return HD_OK;
}

/* ---- one call ---- */

static const co_partition partitions[] = {{11, 1, "shard-a"}, {12, 1, "shard-b"}, {13, 1, "shard-a"}, {14, 1, "shard-b"}};
static const co_org orgs[] = {
    {.id = 7, .name = "bare", .dimension = 3, .embedding = CO_EMBEDDING_NONE, .partition_count = 4, .partitions = partitions},
    {.id = 8, .name = "full", .dimension = 16, .embedding = CO_EMBEDDING_BUILTIN, .partition_count = 1, .partitions = partitions},
    {.id = 9,
     .name = "tight",
     .dimension = 3,
     .embedding = CO_EMBEDDING_NONE,
     .partition_count = 4,
     .partitions = partitions,
     .events_max = 4},
};
static const co_services services = {.write_timeout_ms = 600000, .query_deadline_ms = 600000};

static void check_fault(const co_exchange *exchange) {
    hd_str bytes = hd_buf_get(&exchange->answer);
    json_t *json = json_loadb(bytes.data, bytes.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    static const char *const members[] = {"status", "error", "reason", "detail"};
    for (size_t i = 0; i < HD_COUNT_OF(members); i++) {
        const char *text = json_string_value(json_object_get(json, members[i]));
        FUZZ_CHECK(text != NULL && text[0] != '\0');
    }
    FUZZ_CHECK(exchange->status >= 400);
    json_decref(json);
}

/* As the front's handler does it. */
static void call_tool(const co_tool *tool, co_exchange *exchange, hd_arena *arena) {
    co_tool_call call = {.services = &services, .org = exchange->org, .arena = arena, .out = &exchange->answer, .status_http = 200};
    json_t *arguments = NULL;
    hd_status status = co_exchange_parse_body(exchange, &arguments, &call.fault.error);
    call.arguments = arguments;
    if (status == HD_OK) status = tool->run(&call);
    if (status == HD_OK) {
        exchange->status = call.status_http;
        fuzz_check_json(&exchange->answer);
    } else {
        hd_buf_clear(&exchange->answer);
        co_exchange_fail(exchange, status, &call.fault);
        fuzz_check_json(&exchange->answer);
        check_fault(exchange);
    }
    json_decref(arguments);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) return 0;
    const co_tool *tool = co_tools[data[0] % co_tool_count];
    shards = (mood)(data[1] % MOOD_COUNT);
    co_exchange exchange = {.org = &orgs[data[1] / MOOD_COUNT % HD_COUNT_OF(orgs)]};
    hd_buf_add(&exchange.body, data + 2, size - 2);
    hd_arena *arena = hd_arena_new(0);
    call_tool(tool, &exchange, arena);
    hd_arena_free(arena);
    hd_buf_fini(&exchange.body);
    hd_buf_fini(&exchange.answer);
    return 0;
}
