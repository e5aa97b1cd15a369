/* Control requests, answered. A shard is known by its uuid, made at its data folder's first start: endpoints change, the data does not
 * move with them. */
#include "shard/admin.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/config.h"
#include "common/ids.h"

enum { UUID_TEXT = 36 };

struct sh_admin {
    sh_store *store;
    sh_partitions *partitions;
    char uuid[UUID_TEXT + 1];
    uint64_t started_us;
};

/* A random (version 4) UUID. */
static void make_uuid(char text_out[UUID_TEXT + 1]) {
    uint8_t b[16];
    hd_random_bytes(b, sizeof(b));
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x40);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(text_out, UUID_TEXT + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1], b[2],
             b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
}

static hd_status store_uuid(sh_admin *admin, hd_error *error) {
    HD_TRY(sh_partitions_begin_commit(admin->partitions, error));
    make_uuid(admin->uuid);
    sh_batch *batch = sh_batch_new();
    sh_batch_put(batch, admin->store, SH_FAMILY_META, sh_key_meta_uuid(), hd_str_of(admin->uuid));
    hd_status status = sh_store_write(admin->store, batch, true, error);
    sh_batch_free(batch);
    sh_partitions_end_commit(admin->partitions);
    return status;
}

static hd_status find_uuid(sh_admin *admin, hd_error *error) {
    hd_arena *arena = hd_arena_new(0);
    hd_str value = {0};
    hd_status status = sh_store_get(admin->store, SH_FAMILY_META, sh_key_meta_uuid(), arena, &value, error);
    if (status == HD_NOT_FOUND) {
        status = store_uuid(admin, error);
    } else if (status == HD_OK && value.size != UUID_TEXT) {
        status = hd_error_set(error, HD_STORE_CORRUPT, "admin", "the shard's uuid does not decode");
    } else if (status == HD_OK) {
        memcpy(admin->uuid, value.data, UUID_TEXT);
    }
    hd_arena_free(arena);
    return status;
}

hd_status sh_admin_new(sh_store *store, sh_partitions *partitions, sh_admin **admin_out, hd_error *error) {
    sh_admin *admin = hd_alloc_zero(1, sizeof(*admin));
    admin->store = store;
    admin->partitions = partitions;
    admin->started_us = hd_clock_monotonic_us();
    hd_status status = find_uuid(admin, error);
    if (status != HD_OK) {
        sh_admin_free(admin);
        admin = NULL;
    }
    *admin_out = admin;
    return status;
}

void sh_admin_free(sh_admin *admin) {
    hd_free(admin);
}

const char *sh_admin_uuid(const sh_admin *admin) {
    return admin->uuid;
}

void sh_admin_hello(const sh_admin *admin, hd_control_reply *reply_out) {
    *reply_out = (hd_control_reply){.status = HD_OK,
                                    .shard_uuid = hd_str_of(admin->uuid),
                                    .version = HD_STR(HD_VERSION),
                                    .format = SH_STORE_FORMAT,
                                    .uptime_s = (hd_clock_monotonic_us() - admin->started_us) / 1000000};
}

/* Resident memory of this process, from the kernel's own count; 0 where /proc is not there. */
static uint64_t resident_bytes(void) {
    char text[128] = "";
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t size = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (size <= 0) return 0;
    char *second = NULL;
    (void)strtoull(text, &second, 10);
    return strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

void sh_admin_run(sh_admin *admin, const hd_control_request *request, hd_arena *arena, hd_control_reply *reply_out) {
    hd_error error = {0};
    hd_status status = HD_OK;
    sh_admin_hello(admin, reply_out);
    switch (request->kind) {
    case HD_CONTROL_CREATE_PARTITION: status = sh_partitions_create(admin->partitions, &request->partition, &error); break;
    case HD_CONTROL_DROP_PARTITION:
        status = sh_partitions_drop(admin->partitions, request->partition.org, request->partition.id, &error);
        break;
    case HD_CONTROL_STATS:
        reply_out->memory_bytes = resident_bytes();
        reply_out->disk_bytes = sh_store_disk_bytes(admin->store);
        status = sh_partitions_stats(admin->partitions, request->org, arena, &reply_out->partitions, &reply_out->partition_count);
        break;
    default: break; /* HELLO; CANCEL has no reply and does not come here */
    }
    reply_out->status = status;
    if (status != HD_OK && hd_arena_dup(arena, hd_str_of(error.message), &reply_out->message) != HD_OK)
        reply_out->message = HD_STR("");
}
