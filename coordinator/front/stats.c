/* GET /v1/admin/stats: what the coordinator, the shards and the orgs hold. An org's admin key sees its own org alone, and no shards. */
#include <stdio.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/map.h"
#include "coordinator/cluster/gather.h"
#include "coordinator/embed/provider.h"
#include "coordinator/front/routes.h"

enum { STATS_WAIT_MS = 2000 };

/* What all shards answered, and a way from a partition to its figures. */
typedef struct figures {
    co_shard_info *shards;
    uint32_t shard_count;
    co_gather_call *calls; /* one a shard that has said who it is */
    uint32_t call_count;
    hd_map64 partitions; /* id → index into `found` */
    const hd_partition_stats **found;
    uint32_t found_count;
} figures;

/* Resident bytes of this process; 0 where the system does not tell. */
static uint64_t read_resident_bytes(void) {
    unsigned long long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) return 0;
    int count = fscanf(file, "%llu %llu", &total, &resident);
    fclose(file);
    return count == 2 ? resident * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

static hd_status ask_shards(co_front *front, uint64_t org, figures *f) {
    HD_TRY(co_topology_list(front->services->topology, front->arena, &f->shards, &f->shard_count));
    HD_ALLOC(f->calls, front->arena, f->shard_count);
    for (uint32_t i = 0; i < f->shard_count; i++) {
        if (f->shards[i].uuid[0] == '\0' || !f->shards[i].is_alive) continue;
        f->calls[f->call_count] = (co_gather_call){.shard = f->shards[i].uuid, .request = {.kind = HD_MESSAGE_CONTROL}};
        f->calls[f->call_count++].request.control =
            (hd_control_request){.kind = HD_CONTROL_STATS, .remaining_ms = STATS_WAIT_MS, .org = org};
    }
    uint64_t deadline_us = hd_clock_monotonic_us() + STATS_WAIT_MS * 1000ull;
    co_gather(front->services->topology, front->wire, f->calls, f->call_count, deadline_us, front->arena);
    return HD_OK;
}

static bool is_answered(const co_gather_call *call) {
    return call->status == HD_OK && call->reply.control.status == HD_OK;
}

static hd_status index_partitions(co_front *front, figures *f) {
    uint64_t count = 0;
    for (uint32_t c = 0; c < f->call_count; c++)
        if (is_answered(&f->calls[c])) count += f->calls[c].reply.control.partition_count;
    HD_ALLOC(f->found, front->arena, count);
    hd_map64_init(&f->partitions, front->arena);
    for (uint32_t c = 0; c < f->call_count; c++) {
        const hd_control_reply *reply = &f->calls[c].reply.control;
        for (uint32_t i = 0; is_answered(&f->calls[c]) && i < reply->partition_count; i++) {
            uint32_t at;
            bool is_new;
            HD_TRY(hd_map64_put(&f->partitions, reply->partitions[i].id, f->found_count, &at, &is_new));
            if (is_new) f->found[f->found_count++] = &reply->partitions[i];
        }
    }
    return HD_OK;
}

static void write_shard(co_json *json, const co_shard_info *shard, const co_gather_call *call) {
    bool is_known = call != NULL && is_answered(call);
    co_json_object(json);
    co_json_member_text(json, "uuid", shard->uuid);
    co_json_member_text(json, "endpoint", shard->endpoint);
    co_json_member_bool(json, "alive", shard->is_alive);
    if (is_known) {
        const hd_control_reply *reply = &call->reply.control;
        co_json_member_str(json, "version", reply->version);
        co_json_member_uint(json, "memory_bytes", reply->memory_bytes);
        co_json_member_uint(json, "disk_bytes", reply->disk_bytes);
        co_json_member_uint(json, "uptime_s", reply->uptime_s);
        co_json_member_uint(json, "partitions", reply->partition_count);
    }
    co_json_end_object(json);
}

static void write_shards(co_json *json, const figures *f) {
    co_json_array(json);
    for (uint32_t i = 0, c = 0; i < f->shard_count; i++) {
        const co_gather_call *call = c < f->call_count && f->calls[c].shard == f->shards[i].uuid ? &f->calls[c++] : NULL;
        write_shard(json, &f->shards[i], call);
    }
    co_json_end_array(json);
}

/* `events` and `vectors` are null where a shard that holds a part of the org did not answer. */
static void write_org(co_json *json, const figures *f, const co_org *org) {
    uint64_t events = 0, vectors = 0, memory = 0;
    bool is_complete = true;
    for (uint32_t i = 0; i < org->partition_count; i++) {
        uint32_t at = hd_map64_get(&f->partitions, org->partitions[i].id);
        if (at == HD_MAP_NONE) {
            is_complete = false;
            continue;
        }
        events += f->found[at]->events;
        vectors += f->found[at]->vectors;
        memory += f->found[at]->memory_bytes;
    }
    co_json_object(json);
    co_json_member_text(json, "name", org->name);
    co_json_member_uint(json, "partitions", org->partition_count);
    co_json_member_uint(json, "dimension", org->dimension);
    co_json_member_text(json, "embedding", co_embedding_name(org->embedding));
    co_json_key(json, "events");
    if (is_complete)
        co_json_uint(json, events);
    else
        co_json_null(json);
    co_json_key(json, "vectors");
    if (is_complete)
        co_json_uint(json, vectors);
    else
        co_json_null(json);
    co_json_member_uint(json, "memory_bytes", memory);
    co_json_end_object(json);
}

static hd_status write_all_orgs(co_json *json, co_front *front, const figures *f) {
    const co_org **orgs;
    uint32_t count;
    HD_TRY(co_catalog_list_orgs(front->services->catalog, front->arena, &orgs, &count));
    for (uint32_t i = 0; i < count; i++) {
        write_org(json, f, orgs[i]);
        co_org_release(orgs[i]);
    }
    return HD_OK;
}

static hd_status write_stats(co_exchange *exchange, co_front *front) {
    bool is_all = exchange->principal.is_cluster_admin;
    figures f = {0};
    HD_TRY(ask_shards(front, is_all ? 0 : exchange->org->id, &f));
    HD_TRY(index_partitions(front, &f));
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    if (is_all) {
        co_json_key(&json, "coordinator");
        co_json_object(&json);
        co_json_member_text(&json, "version", HD_VERSION);
        co_json_member_uint(&json, "memory_bytes", read_resident_bytes());
        co_json_member_uint(&json, "uptime_s", (hd_clock_monotonic_us() - front->services->started_us) / 1000000);
        co_json_end_object(&json);
        co_json_key(&json, "shards");
        write_shards(&json, &f);
    }
    co_json_key(&json, "orgs");
    co_json_array(&json);
    if (is_all)
        HD_TRY(write_all_orgs(&json, front, &f));
    else
        write_org(&json, &f, exchange->org);
    co_json_end_array(&json);
    co_json_end_object(&json);
    return HD_OK;
}

void co_stats_show(co_exchange *exchange, co_front *front) {
    hd_status status = write_stats(exchange, front);
    if (status != HD_OK) co_exchange_fail(exchange, status, NULL);
}
