/* Creating an org touches several shards and the catalog, in this order, so that a failure or a crash at any point leaves nothing that
 * is half there:
 *
 *     reserve ids ─▶ list the partitions as drops ─▶ shards make them ─▶ one transaction: the org is there, the drops are gone
 *                                    │                     │ one fails
 *                                    └── sweep ◀───────────┘
 *
 * Deleting is one transaction (org and keys gone, partitions listed as drops), then a sweep. Changes of orgs and sweeps exclude each
 * other by a mutex: a sweep would drop what a creation is making. Every administrative act is one line of the log, module "audit". */
#include "coordinator/front/admin.h"

#include <pthread.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/ids.h"
#include "common/log.h"
#include "common/text.h"
#include "coordinator/cluster/gather.h"
#include "coordinator/cluster/placement.h"
#include "coordinator/embed/provider.h"

enum {
    SHARDS_WAIT_MS = 10000, /* for making or dropping partitions: each is one synced write on its shard */
    DIMENSION_DEFAULT = 256,
    BUILTIN_DIMENSION_MIN = 16, /* below, hashed features collide so much that nothing is told apart */
};

struct co_admin {
    const co_services *services;
    pthread_mutex_t change;
};

co_admin *co_admin_new(const co_services *services) {
    co_admin *admin = hd_alloc_zero(1, sizeof(*admin));
    admin->services = services;
    HD_CHECK(pthread_mutex_init(&admin->change, NULL) == 0);
    return admin;
}

void co_admin_free(co_admin *admin) {
    if (admin == NULL) return;
    pthread_mutex_destroy(&admin->change);
    hd_free(admin);
}

/* ---- what the handlers share ---- */

static void audit(const co_exchange *exchange, const char *act, hd_str on, hd_status status) {
    char who[48];
    if (exchange->principal.is_cluster_admin)
        snprintf(who, sizeof(who), "the cluster's admin key");
    else
        snprintf(who, sizeof(who), "key %llu", (unsigned long long)exchange->principal.key);
    hd_str name = hd_text_prefix(on, CO_NAME_MAX);
    hd_log(HD_LOG_INFO, "audit", "%s " HD_STR_FMT " by %s: %s", act, HD_STR_ARG(name), who, hd_status_reason(status));
}

/* The org that the path names, held. An org's admin key knows no org but its own. */
static hd_status find_org(const co_exchange *exchange, co_front *front, const co_org **org_out, hd_error *error) {
    hd_str name = exchange->words[0];
    *org_out = NULL;
    if (!exchange->principal.is_cluster_admin && !hd_str_is_equal(name, hd_str_of(exchange->org->name)))
        return hd_error_set(error, HD_FORBIDDEN, "admin", "this key administers its own org only");
    if (co_catalog_find_org(front->services->catalog, name, org_out) == HD_OK) return HD_OK;
    return hd_error_set(error, HD_NOT_FOUND, "admin", "there is no org named " HD_STR_FMT,
                        HD_STR_ARG(hd_text_prefix(name, CO_NAME_MAX)));
}

static hd_status check_cluster_admin(const co_exchange *exchange, hd_error *error) {
    if (exchange->principal.is_cluster_admin) return HD_OK;
    return hd_error_set(error, HD_FORBIDDEN, "admin", "this takes the cluster's admin key");
}

static void write_roles(co_json *json, uint32_t roles) {
    co_json_array(json);
    if (roles & CO_ROLE_READ) co_json_text(json, "read");
    if (roles & CO_ROLE_WRITE) co_json_text(json, "write");
    if (roles & CO_ROLE_ADMIN) co_json_text(json, "admin");
    co_json_end_array(json);
}

static void write_org(co_json *json, const co_org *org) {
    co_json_object(json);
    co_json_member_text(json, "name", org->name);
    co_json_member_uint(json, "id", org->id);
    co_json_member_uint(json, "partitions", org->partition_count);
    co_json_member_uint(json, "dimension", org->dimension);
    co_json_member_text(json, "embedding", co_embedding_name(org->embedding));
    co_json_member_bool(json, "suspended", org->is_suspended);
    co_json_key(json, "events_max");
    if (org->events_max > 0)
        co_json_uint(json, org->events_max);
    else
        co_json_null(json);
    co_json_key(json, "created_at");
    co_json_instant(json, org->created_at_us);
    co_json_end_object(json);
}

static hd_status get_uint(const json_t *body, const char *name, uint64_t initial, uint64_t min, uint64_t max, uint64_t *number_out,
                          hd_error *error) {
    const json_t *value = co_arguments_get(body, name);
    *number_out = initial;
    if (value == NULL) return HD_OK;
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    if (number < 0 || (uint64_t)number < min || (uint64_t)number > max)
        return hd_error_set(error, HD_ARGUMENT, "admin", "\"%s\" has to be a whole number from %llu to %llu", name,
                            (unsigned long long)min, (unsigned long long)max);
    *number_out = (uint64_t)number;
    return HD_OK;
}

static hd_status get_text(const json_t *body, const char *name, hd_str *text_out, hd_error *error) {
    const json_t *value = co_arguments_get(body, name);
    *text_out = (hd_str){0};
    if (value == NULL) return HD_OK;
    if (!json_is_string(value)) return hd_error_set(error, HD_ARGUMENT, "admin", "\"%s\" has to be a string", name);
    *text_out = (hd_str){json_string_value(value), json_string_length(value)};
    return HD_OK;
}

static hd_status get_roles(const json_t *body, uint32_t *roles_out, hd_error *error) {
    const json_t *list = co_arguments_get(body, "roles");
    *roles_out = CO_ROLE_READ | CO_ROLE_WRITE;
    if (list == NULL) return HD_OK;
    *roles_out = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *role = json_string_value(json_array_get(list, i));
        if (role != NULL && strcmp(role, "read") == 0)
            *roles_out |= CO_ROLE_READ;
        else if (role != NULL && strcmp(role, "write") == 0)
            *roles_out |= CO_ROLE_WRITE | CO_ROLE_READ;
        else if (role != NULL && strcmp(role, "admin") == 0)
            *roles_out |= CO_ROLE_ADMIN;
        else
            return hd_error_set(error, HD_ARGUMENT, "admin", "\"roles\" is a list of \"read\", \"write\", \"admin\"");
    }
    if (*roles_out != 0) return HD_OK;
    return hd_error_set(error, HD_ARGUMENT, "admin", "\"roles\" is a list of at least one of \"read\", \"write\", \"admin\"");
}

/* ---- partitions on shards ---- */

/* One control request a partition, all at once; how many shards said OK. The first failure is told in `error`. */
static uint32_t tell_shards(co_admin *admin, hd_wire_client *wire, hd_arena *arena, hd_control_kind kind, const co_drop *partitions,
                            uint32_t count, bool *is_done_out, hd_error *error) {
    co_gather_call *calls = hd_arena_alloc_zero(arena, count, sizeof(*calls));
    if (calls == NULL) {
        (void)hd_error_set(error, HD_MEMORY, "admin", "too many partitions at once");
        return 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        const co_drop *p = &partitions[i];
        calls[i] = (co_gather_call){.shard = p->shard.data, .request = {.kind = HD_MESSAGE_CONTROL}};
        calls[i].request.control =
            (hd_control_request){.kind = kind,
                                 .remaining_ms = SHARDS_WAIT_MS,
                                 .org = p->org,
                                 .partition = {.id = p->partition, .org = p->org, .epoch = p->epoch, .dimension = p->dimension}};
    }
    co_gather(admin->services->topology, wire, calls, count, hd_clock_monotonic_us() + SHARDS_WAIT_MS * 1000ull, arena);
    uint32_t done = 0;
    for (uint32_t i = 0; i < count; i++) {
        hd_status status = calls[i].status != HD_OK ? calls[i].status : calls[i].reply.control.status;
        /* What a shard does not have need not be dropped. */
        bool is_done = status == HD_OK || (kind == HD_CONTROL_DROP_PARTITION && status == HD_NOT_FOUND);
        if (is_done_out != NULL) is_done_out[i] = is_done;
        done += is_done;
        if (is_done) continue;
        hd_str message = calls[i].status == HD_OK ? calls[i].reply.control.message : (hd_str){0};
        (void)hd_error_set(error, status, "admin", "shard %s: " HD_STR_FMT, calls[i].shard,
                           HD_STR_ARG(message.size > 0 ? message : hd_str_of(hd_status_meaning(status))));
    }
    return done;
}

/* With the change mutex held. */
static uint32_t sweep(co_admin *admin, hd_wire_client *wire) {
    hd_arena *arena = hd_arena_new(0);
    co_drop *drops = NULL;
    uint32_t count = 0, left = 0;
    hd_error error = {0};
    hd_status status = co_catalog_list_drops(admin->services->catalog, arena, &drops, &count, &error);
    bool *is_done = hd_arena_alloc_zero(arena, count, sizeof(*is_done));
    if (status == HD_OK && count > 0) tell_shards(admin, wire, arena, HD_CONTROL_DROP_PARTITION, drops, count, is_done, &error);
    for (uint32_t i = 0; i < count; i++) {
        hd_error ignored = {0}; /* it stays listed and is dropped once more, which does no harm */
        if (!is_done[i] || co_catalog_forget_drop(admin->services->catalog, drops[i].partition, &ignored) != HD_OK) left++;
    }
    if (left > 0) hd_log(HD_LOG_WARN, "admin", "%u partitions without an org are still to be dropped: %s", left, error.message);
    hd_arena_free(arena);
    return left;
}

uint32_t co_admin_sweep(co_admin *admin, hd_wire_client *wire) {
    pthread_mutex_lock(&admin->change);
    uint32_t left = sweep(admin, wire);
    pthread_mutex_unlock(&admin->change);
    return left;
}

/* ---- orgs ---- */

static hd_status read_embedding(const json_t *body, co_embedding *embedding_out, hd_error *error) {
    hd_str text;
    HD_TRY(get_text(body, "embedding", &text, error));
    *embedding_out = CO_EMBEDDING_BUILTIN;
    if (text.data == NULL || hd_str_is_equal(text, HD_STR("builtin"))) return HD_OK;
    if (hd_str_is_equal(text, HD_STR("http"))) {
        return hd_error_set(
            error, HD_ARGUMENT, "admin",
            "the embedding \"http\" is not available yet in this version; use \"builtin\", or \"none\" and bring the vectors");
    }
    *embedding_out = CO_EMBEDDING_NONE;
    return hd_str_is_equal(text, HD_STR("none"))
               ? HD_OK
               : hd_error_set(error, HD_ARGUMENT, "admin", "\"embedding\" is \"builtin\" or \"none\"");
}

static hd_status read_spec(const json_t *body, co_org_spec *spec_out, uint32_t *roles_out, hd_error *error) {
    static const char *const known[] = {"name", "partitions", "dimension", "embedding", "events_max", "bytes_max", "roles", NULL};
    uint64_t partitions, dimension, events_max;
    *spec_out = (co_org_spec){0};
    HD_TRY(co_arguments_check(body, known, "the org", error));
    HD_TRY(get_text(body, "name", &spec_out->name, error));
    if (spec_out->name.data == NULL) return hd_error_set(error, HD_ARGUMENT, "admin", "the argument \"name\" is missing");
    HD_TRY(co_catalog_check_name(spec_out->name, "an org", error));
    HD_TRY(get_uint(body, "partitions", 1, 1, HD_PARTITIONS_MAX, &partitions, error));
    if ((partitions & (partitions - 1)) != 0)
        return hd_error_set(error, HD_ARGUMENT, "admin", "\"partitions\" has to be a power of two, 1 to %d", HD_PARTITIONS_MAX);
    HD_TRY(read_embedding(body, &spec_out->embedding, error));
    uint64_t dimension_min = spec_out->embedding == CO_EMBEDDING_BUILTIN ? BUILTIN_DIMENSION_MIN : 1;
    HD_TRY(get_uint(body, "dimension", DIMENSION_DEFAULT, dimension_min, CO_DIMENSION_MAX, &dimension, error));
    HD_TRY(get_uint(body, "events_max", 0, 1, INT64_MAX, &events_max, error));
    if (co_arguments_get(body, "bytes_max") != NULL)
        return hd_error_set(error, HD_ARGUMENT, "admin", "\"bytes_max\" is not available yet in this version; \"events_max\" is");
    HD_TRY(get_roles(body, roles_out, error));
    spec_out->partitions = (uint32_t)partitions;
    spec_out->dimension = (uint32_t)dimension;
    spec_out->events_max = events_max;
    return HD_OK;
}

/* Where the partitions of a new org go, as a list that also serves to take them back. */
static hd_status place_partitions(co_admin *admin, hd_arena *arena, const co_org_spec *spec, uint64_t first_id, co_drop **drops_out,
                                  uint64_t **ids_out, const char ***shards_out, hd_error *error) {
    co_shard_info *shards;
    uint32_t shard_count;
    HD_TRY(co_topology_list(admin->services->topology, arena, &shards, &shard_count));
    HD_ALLOC(*drops_out, arena, spec->partitions);
    HD_ALLOC(*ids_out, arena, spec->partitions);
    HD_ALLOC(*shards_out, arena, spec->partitions);
    for (uint32_t i = 0; i < spec->partitions; i++) (*ids_out)[i] = first_id + 1 + i;
    hd_status status = co_placement_choose(shards, shard_count, *ids_out, spec->partitions, *shards_out);
    if (status != HD_OK) return hd_error_set(error, status, "admin", "no shard is alive to hold the org's partitions");
    for (uint32_t i = 0; i < spec->partitions; i++)
        (*drops_out)[i] = (co_drop){.partition = (*ids_out)[i],
                                    .org = first_id,
                                    .epoch = 1,
                                    .dimension = spec->dimension,
                                    .shard = hd_str_of((*shards_out)[i])};
    return HD_OK;
}

/* With the change mutex held. */
static hd_status make_org(co_admin *admin, co_front *front, co_org_spec *spec, uint64_t *org_id_out, hd_error *error) {
    co_catalog *catalog = admin->services->catalog;
    const co_org *other;
    if (co_catalog_find_org(catalog, spec->name, &other) == HD_OK) {
        co_org_release(other);
        return hd_error_set(error, HD_ALREADY_EXISTS, "admin", "there is an org named " HD_STR_FMT " already",
                            HD_STR_ARG(spec->name));
    }
    co_drop *drops;
    uint64_t *ids;
    const char **shards;
    HD_TRY(co_catalog_reserve_ids(catalog, 1 + spec->partitions, org_id_out, error));
    HD_TRY(place_partitions(admin, front->arena, spec, *org_id_out, &drops, &ids, &shards, error));
    HD_TRY(co_catalog_add_drops(catalog, drops, spec->partitions, error));
    uint32_t made =
        tell_shards(admin, front->wire, front->arena, HD_CONTROL_CREATE_PARTITION, drops, spec->partitions, NULL, error);
    hd_status status = made == spec->partitions ? HD_OK : error->code;
    spec->shards = shards;
    if (status == HD_OK) status = co_catalog_create_org(catalog, spec, *org_id_out, ids, error);
    if (status != HD_OK) sweep(admin, front->wire);
    return status;
}

static void write_created(co_exchange *exchange, const co_org *org, hd_str key, uint64_t key_id, uint32_t roles) {
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_key(&json, "org");
    write_org(&json, org);
    co_json_member_str(&json, "key", key);
    co_json_member_uint(&json, "key_id", key_id);
    co_json_key(&json, "roles");
    write_roles(&json, roles);
    co_json_end_object(&json);
}

static hd_status create_org(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error) {
    co_admin *admin = front->admin;
    co_org_spec spec;
    uint32_t roles;
    uint64_t org_id, key_id;
    hd_str key;
    const co_org *org;
    HD_TRY(check_cluster_admin(exchange, error));
    HD_TRY(read_spec(body, &spec, &roles, error));
    pthread_mutex_lock(&admin->change);
    hd_status status = make_org(admin, front, &spec, &org_id, error);
    if (status == HD_OK)
        status =
            co_catalog_create_key(admin->services->catalog, org_id, HD_STR("first"), roles, front->arena, &key_id, &key, error);
    if (status == HD_OK) status = co_catalog_get_org(admin->services->catalog, org_id, &org);
    pthread_mutex_unlock(&admin->change);
    audit(exchange, "create org", spec.name, status);
    HD_TRY(status);
    write_created(exchange, org, key, key_id, roles);
    co_org_release(org);
    return HD_OK;
}

static hd_status list_orgs(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error) {
    (void)body;
    const co_org **orgs;
    uint32_t count;
    HD_TRY(check_cluster_admin(exchange, error));
    HD_TRY(co_catalog_list_orgs(front->services->catalog, front->arena, &orgs, &count));
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_key(&json, "orgs");
    co_json_array(&json);
    for (uint32_t i = 0; i < count; i++) {
        write_org(&json, orgs[i]);
        co_org_release(orgs[i]);
    }
    co_json_end_array(&json);
    co_json_end_object(&json);
    return HD_OK;
}

static hd_status show_org(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error) {
    (void)body;
    const co_org *org;
    HD_TRY(find_org(exchange, front, &org, error));
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_key(&json, "org");
    write_org(&json, org);
    co_json_end_object(&json);
    co_org_release(org);
    return HD_OK;
}

static hd_status delete_org(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error) {
    (void)body;
    const co_org *org;
    HD_TRY(check_cluster_admin(exchange, error));
    HD_TRY(find_org(exchange, front, &org, error));
    pthread_mutex_lock(&front->admin->change);
    hd_status status = co_catalog_delete_org(front->services->catalog, org->id, error);
    uint32_t left = status == HD_OK ? sweep(front->admin, front->wire) : 0;
    pthread_mutex_unlock(&front->admin->change);
    audit(exchange, "delete org", exchange->words[0], status);
    co_org_release(org);
    HD_TRY(status);
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_member_str(&json, "org", exchange->words[0]);
    co_json_member_bool(&json, "deleted", true);
    co_json_member_uint(&json, "partitions_pending", left);
    co_json_end_object(&json);
    return HD_OK;
}

/* ---- keys ---- */

static hd_status create_key(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error) {
    static const char *const known[] = {"name", "roles", NULL};
    const co_org *org;
    hd_str name, key = {0};
    uint32_t roles;
    uint64_t id;
    HD_TRY(co_arguments_check(body, known, "the key", error));
    HD_TRY(get_text(body, "name", &name, error));
    HD_TRY(get_roles(body, &roles, error));
    if (name.data == NULL) return hd_error_set(error, HD_ARGUMENT, "admin", "the argument \"name\" is missing");
    HD_TRY(find_org(exchange, front, &org, error));
    hd_status status = co_catalog_create_key(front->services->catalog, org->id, name, roles, front->arena, &id, &key, error);
    co_org_release(org);
    audit(exchange, "create a key of", exchange->words[0], status);
    HD_TRY(status);
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_member_str(&json, "key", key);
    co_json_member_uint(&json, "key_id", id);
    co_json_member_str(&json, "name", name);
    co_json_key(&json, "roles");
    write_roles(&json, roles);
    co_json_end_object(&json);
    return HD_OK;
}

static hd_status list_keys(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error) {
    (void)body;
    const co_org *org;
    co_key_info *keys;
    uint32_t count;
    HD_TRY(find_org(exchange, front, &org, error));
    hd_status status = co_catalog_list_keys(front->services->catalog, org->id, front->arena, &keys, &count);
    co_org_release(org);
    HD_TRY(status);
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_key(&json, "keys");
    co_json_array(&json);
    for (uint32_t i = 0; i < count; i++) {
        co_json_object(&json);
        co_json_member_uint(&json, "id", keys[i].id);
        co_json_member_str(&json, "name", keys[i].name);
        co_json_key(&json, "roles");
        write_roles(&json, keys[i].roles);
        co_json_key(&json, "created_at");
        co_json_instant(&json, keys[i].created_at_us);
        co_json_end_object(&json);
    }
    co_json_end_array(&json);
    co_json_end_object(&json);
    return HD_OK;
}

/* Decimal digits alone, at most 18 of them: every id there is fits. */
static bool parse_id(hd_str text, uint64_t *id_out) {
    if (text.size == 0 || text.size > 18) return false;
    *id_out = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') return false;
        *id_out = *id_out * 10 + (uint64_t)(text.data[i] - '0');
    }
    return true;
}

static hd_status revoke_key(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error) {
    (void)body;
    const co_org *org;
    uint64_t id = 0;
    HD_TRY(find_org(exchange, front, &org, error));
    hd_status status = HD_OK;
    if (parse_id(exchange->words[1], &id))
        status = co_catalog_revoke_key(front->services->catalog, org->id, id, error);
    else
        status = hd_error_set(error, HD_NOT_FOUND, "admin", "a key is named by its id, a number");
    co_org_release(org);
    audit(exchange, "revoke a key of", exchange->words[0], status);
    HD_TRY(status);
    co_json json;
    co_json_init(&json, &exchange->answer);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    co_json_member_uint(&json, "key_id", id);
    co_json_member_bool(&json, "revoked", true);
    co_json_end_object(&json);
    return HD_OK;
}

/* ---- the routes ---- */

/* Parses the body, runs the act, turns a failure into its answer. */
static void handle(co_exchange *exchange, co_front *front,
                   hd_status (*act)(co_exchange *exchange, co_front *front, const json_t *body, hd_error *error)) {
    co_fault fault = {0};
    json_t *body = NULL;
    hd_status status = co_exchange_parse_body(exchange, &body, &fault.error);
    if (status == HD_OK) status = act(exchange, front, body, &fault.error);
    if (status != HD_OK) co_exchange_fail(exchange, status, &fault);
    json_decref(body);
}

void co_admin_create_org(co_exchange *exchange, co_front *front) {
    handle(exchange, front, create_org);
}
void co_admin_list_orgs(co_exchange *exchange, co_front *front) {
    handle(exchange, front, list_orgs);
}
void co_admin_show_org(co_exchange *exchange, co_front *front) {
    handle(exchange, front, show_org);
}
void co_admin_delete_org(co_exchange *exchange, co_front *front) {
    handle(exchange, front, delete_org);
}
void co_admin_create_key(co_exchange *exchange, co_front *front) {
    handle(exchange, front, create_key);
}
void co_admin_list_keys(co_exchange *exchange, co_front *front) {
    handle(exchange, front, list_keys);
}
void co_admin_revoke_key(co_exchange *exchange, co_front *front) {
    handle(exchange, front, revoke_key);
}
