/* The embedded catalog: a model in memory, reopening, refusals, and the lock on the file. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/ids.h"
#include "coordinator/cluster/catalog.h"

static char folder[64], path[96], key_path[96];

static int make_folder(void **state) {
    snprintf(folder, sizeof(folder), "/tmp/heddle-catalog-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/catalog.db", folder);
    snprintf(key_path, sizeof(key_path), "%s/admin.key", folder);
    return 0;
}

static int drop_folder(void **state) {
    char file[128];
    const char *const names[] = {"catalog.db", "catalog.db-wal", "catalog.db-shm", "admin.key"};
    for (size_t i = 0; i < HD_COUNT_OF(names); i++) {
        snprintf(file, sizeof(file), "%s/%s", folder, names[i]);
        unlink(file);
    }
    return rmdir(folder);
}

static co_catalog *open_catalog(void) {
    co_catalog *catalog;
    hd_error error = {0};
    hd_status status = co_catalog_open_local(path, key_path, &catalog, &error);
    if (status != HD_OK) fail_msg("%s", error.message);
    return catalog;
}

static hd_status try_open(hd_error *error) {
    co_catalog *catalog;
    *error = (hd_error){0};
    hd_status status = co_catalog_open_local(path, key_path, &catalog, error);
    if (status == HD_OK) co_catalog_close(catalog);
    return status;
}

static hd_status create_org(co_catalog *catalog, const char *name, uint32_t partitions, uint64_t *org_out) {
    hd_error error = {0};
    uint64_t ids[256], first;
    const char *shards[256];
    assert_int_equal(co_catalog_reserve_ids(catalog, 1 + partitions, &first, &error), HD_OK);
    for (uint32_t i = 0; i < partitions; i++) {
        ids[i] = first + 1 + i;
        shards[i] = i % 2 ? "shard-one" : "shard-two";
    }
    co_org_spec spec = {.name = hd_str_of(name),
                        .partitions = partitions,
                        .dimension = 8 + partitions,
                        .embedding = CO_EMBEDDING_NONE,
                        .events_max = 7,
                        .shards = shards};
    *org_out = first;
    return co_catalog_create_org(catalog, &spec, first, ids, &error);
}

static void expect_org(co_catalog *catalog, const char *name, uint64_t id, uint32_t partitions) {
    const co_org *org, *same;
    assert_int_equal(co_catalog_find_org(catalog, hd_str_of(name), &org), HD_OK);
    assert_int_equal(co_catalog_get_org(catalog, id, &same), HD_OK);
    assert_ptr_equal(org, same);
    assert_string_equal(org->name, name);
    assert_true(org->id == id);
    assert_int_equal(org->partition_count, partitions);
    assert_int_equal(org->dimension, 8 + partitions);
    assert_int_equal(org->embedding, CO_EMBEDDING_NONE);
    assert_int_equal(org->events_max, 7);
    assert_false(org->is_suspended);
    for (uint32_t i = 0; i < partitions; i++) {
        assert_true(org->partitions[i].id == id + 1 + i);
        assert_int_equal(org->partitions[i].epoch, 1);
        assert_string_equal(org->partitions[i].shard, i % 2 ? "shard-one" : "shard-two");
    }
    co_org_release(same);
    co_org_release(org);
}

static void read_admin_key(char *text_out, size_t size) {
    FILE *file = fopen(key_path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text_out, (int)size, file));
    text_out[strcspn(text_out, "\n")] = '\0';
    fclose(file);
}

static void test_admin_key(void **state) {
    char key[600];
    struct stat info;
    co_catalog *catalog = open_catalog();
    read_admin_key(key, sizeof(key));
    assert_int_equal(strlen(key), 4 + 64);
    assert_memory_equal(key, "hd_c", 4);
    assert_int_equal(stat(key_path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0600);
    co_principal who;
    assert_int_equal(co_catalog_authenticate(catalog, hd_str_of(key), &who), HD_OK);
    assert_true(who.is_cluster_admin);
    assert_int_equal(who.org, 0);
    key[10] ^= 1;
    assert_int_equal(co_catalog_authenticate(catalog, hd_str_of(key), &who), HD_UNAUTHORIZED);
    assert_int_equal(co_catalog_authenticate(catalog, HD_STR(""), &who), HD_UNAUTHORIZED);
    key[10] ^= 1;
    co_catalog_close(catalog);
    /* the key outlives its file */
    assert_int_equal(unlink(key_path), 0);
    catalog = open_catalog();
    assert_int_equal(co_catalog_authenticate(catalog, hd_str_of(key), &who), HD_OK);
    co_catalog_close(catalog);
    assert_int_not_equal(access(key_path, F_OK), 0);
}

static void test_given_admin_key(void **state) {
    hd_error error;
    FILE *file = fopen(key_path, "w");
    fputs("too short\n", file);
    fclose(file);
    assert_int_equal(try_open(&error), HD_ARGUMENT);
    assert_non_null(strstr(error.message, key_path));
    file = fopen(key_path, "w");
    fputs("0123456789abcdef0123456789abcdef\n", file);
    fclose(file);
    co_catalog *catalog = open_catalog();
    co_principal who;
    assert_int_equal(co_catalog_authenticate(catalog, HD_STR("0123456789abcdef0123456789abcdef"), &who), HD_OK);
    assert_true(who.is_cluster_admin);
    co_catalog_close(catalog);
}

static void test_orgs_survive(void **state) {
    uint64_t a, b, c;
    co_catalog *catalog = open_catalog();
    assert_int_equal(create_org(catalog, "alpha", 1, &a), HD_OK);
    assert_int_equal(create_org(catalog, "beta.2_x-", 256, &b), HD_OK);
    assert_int_equal(create_org(catalog, "alpha", 2, &c), HD_ALREADY_EXISTS);
    assert_int_equal(create_org(catalog, "", 1, &c), HD_ARGUMENT);
    assert_int_equal(create_org(catalog, "has space", 1, &c), HD_ARGUMENT);
    assert_int_equal(create_org(catalog, "0123456789012345678901234567890123456789012345678901234567890123", 1, &c), HD_OK);
    assert_int_equal(create_org(catalog, "01234567890123456789012345678901234567890123456789012345678901234", 1, &c), HD_ARGUMENT);
    for (int round = 0; round < 2; round++) {
        expect_org(catalog, "alpha", a, 1);
        expect_org(catalog, "beta.2_x-", b, 256);
        const co_org *org;
        assert_int_equal(co_catalog_find_org(catalog, HD_STR("gamma"), &org), HD_NOT_FOUND);
        assert_int_equal(co_catalog_get_org(catalog, 999999, &org), HD_NOT_FOUND);
        co_catalog_close(catalog);
        catalog = open_catalog();
    }
    co_catalog_close(catalog);
}

static void test_ids_are_never_reused(void **state) {
    hd_error error = {0};
    uint64_t a, again, first, second;
    co_catalog *catalog = open_catalog();
    assert_int_equal(create_org(catalog, "alpha", 4, &a), HD_OK);
    assert_int_equal(co_catalog_reserve_ids(catalog, 10, &first, &error), HD_OK);
    assert_true(first >= a + 5);
    assert_int_equal(co_catalog_delete_org(catalog, a, &error), HD_OK);
    co_catalog_close(catalog);
    catalog = open_catalog();
    assert_int_equal(co_catalog_reserve_ids(catalog, 1, &second, &error), HD_OK);
    assert_true(second >= first + 10);
    assert_int_equal(create_org(catalog, "alpha", 4, &again), HD_OK);
    assert_true(again > second);
    co_catalog_close(catalog);
}

/* A catalog that was lost and made anew, over shards that still hold what the lost one had made. */
static void test_a_new_catalog_hands_out_other_ids(void **state) {
    hd_error error = {0};
    uint64_t before, after;
    co_catalog *catalog = open_catalog();
    assert_int_equal(co_catalog_reserve_ids(catalog, 1000, &before, &error), HD_OK);
    co_catalog_close(catalog);
    assert_int_equal(unlink(path), 0);
    catalog = open_catalog();
    assert_int_equal(co_catalog_reserve_ids(catalog, 1000, &after, &error), HD_OK);
    assert_true(after >= before + 1000 || before >= after + 1000);
    assert_true(before > 0 && before < UINT64_C(1) << 53 && after > 0 && after < UINT64_C(1) << 53);
    co_catalog_close(catalog);
}

static void test_delete_leaves_drops(void **state) {
    hd_error error = {0};
    hd_arena *arena = hd_arena_new(0);
    uint64_t a, b;
    co_drop *drops;
    uint32_t count;
    co_catalog *catalog = open_catalog();
    assert_int_equal(create_org(catalog, "alpha", 2, &a), HD_OK);
    assert_int_equal(create_org(catalog, "beta", 1, &b), HD_OK);
    const co_org *held;
    assert_int_equal(co_catalog_get_org(catalog, a, &held), HD_OK);
    assert_int_equal(co_catalog_delete_org(catalog, a, &error), HD_OK);
    assert_int_equal(co_catalog_delete_org(catalog, a, &(hd_error){0}), HD_NOT_FOUND);
    assert_string_equal(held->name, "alpha"); /* who holds it still sees it */
    assert_string_equal(held->partitions[1].shard, "shard-one");
    co_org_release(held);
    for (int round = 0; round < 2; round++) {
        assert_int_equal(co_catalog_list_drops(catalog, arena, &drops, &count, &error), HD_OK);
        assert_int_equal(count, 2);
        assert_true(drops[0].partition == a + 1 && drops[1].partition == a + 2);
        assert_true(drops[0].org == a);
        assert_int_equal(drops[0].dimension, 10);
        assert_true(hd_str_is_equal(drops[0].shard, HD_STR("shard-two")));
        co_catalog_close(catalog);
        catalog = open_catalog();
    }
    assert_int_equal(co_catalog_forget_drop(catalog, a + 1, &error), HD_OK);
    assert_int_equal(co_catalog_list_drops(catalog, arena, &drops, &count, &error), HD_OK);
    assert_int_equal(count, 1);
    expect_org(catalog, "beta", b, 1);
    /* what was listed before an org is made goes off the list with its making */
    co_drop intent = {.partition = 1000, .org = 999, .epoch = 1, .dimension = 4, .shard = HD_STR("shard-two")};
    assert_int_equal(co_catalog_add_drops(catalog, &intent, 1, &error), HD_OK);
    const char *shard = "shard-two";
    co_org_spec spec = {
        .name = HD_STR("gamma"), .partitions = 1, .dimension = 4, .embedding = CO_EMBEDDING_BUILTIN, .shards = &shard};
    uint64_t partition = 1000;
    assert_int_equal(co_catalog_create_org(catalog, &spec, 999, &partition, &error), HD_OK);
    assert_int_equal(co_catalog_list_drops(catalog, arena, &drops, &count, &error), HD_OK);
    assert_int_equal(count, 1);
    assert_true(drops[0].partition == a + 2);
    co_catalog_close(catalog);
    hd_arena_free(arena);
}

static void test_keys(void **state) {
    hd_error error = {0};
    hd_arena *arena = hd_arena_new(0);
    uint64_t a, b, id[40], other;
    hd_str key[40], ignored;
    co_principal who;
    co_catalog *catalog = open_catalog();
    assert_int_equal(create_org(catalog, "alpha", 1, &a), HD_OK);
    assert_int_equal(create_org(catalog, "beta", 1, &b), HD_OK);
    static const uint32_t roles[] = {CO_ROLE_READ, CO_ROLE_WRITE, CO_ROLE_ADMIN, CO_ROLE_READ | CO_ROLE_ADMIN};
    static const uint32_t effective[] = {CO_ROLE_READ, CO_ROLE_READ | CO_ROLE_WRITE, CO_ROLE_ADMIN, CO_ROLE_READ | CO_ROLE_ADMIN};
    for (uint32_t i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "key-%u", i);
        assert_int_equal(co_catalog_create_key(catalog, a, hd_str_of(name), roles[i % 4], arena, &id[i], &key[i], &error), HD_OK);
    }
    assert_memory_equal(key[0].data, "hd_r", 4);
    assert_memory_equal(key[1].data, "hd_w", 4);
    assert_memory_equal(key[2].data, "hd_a", 4);
    assert_int_equal(co_catalog_create_key(catalog, a, HD_STR("key-3"), 1, arena, &other, &ignored, &(hd_error){0}),
                     HD_ALREADY_EXISTS);
    assert_int_equal(co_catalog_create_key(catalog, b, HD_STR("key-3"), 1, arena, &other, &ignored, &(hd_error){0}), HD_OK);
    assert_int_equal(co_catalog_create_key(catalog, 12345, HD_STR("x"), 1, arena, &other, &ignored, &(hd_error){0}), HD_NOT_FOUND);
    assert_int_equal(co_catalog_create_key(catalog, a, HD_STR("a b"), 1, arena, &other, &ignored, &(hd_error){0}), HD_ARGUMENT);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 40; i++) {
            assert_int_equal(co_catalog_authenticate(catalog, key[i], &who), HD_OK);
            assert_true(who.org == a && who.key == id[i] && !who.is_cluster_admin);
            assert_int_equal(who.roles, effective[i % 4]);
        }
        co_catalog_close(catalog);
        catalog = open_catalog();
    }
    /* revoking is of the org's own keys alone, and at once */
    assert_int_equal(co_catalog_revoke_key(catalog, b, id[7], &(hd_error){0}), HD_NOT_FOUND);
    for (uint32_t i = 0; i < 40; i += 2) assert_int_equal(co_catalog_revoke_key(catalog, a, id[i], &error), HD_OK);
    assert_int_equal(co_catalog_revoke_key(catalog, a, id[0], &(hd_error){0}), HD_NOT_FOUND);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(co_catalog_authenticate(catalog, key[i], &who), i % 2 ? HD_OK : HD_UNAUTHORIZED);
    co_key_info *keys;
    uint32_t count;
    assert_int_equal(co_catalog_list_keys(catalog, a, arena, &keys, &count), HD_OK);
    assert_int_equal(count, 20);
    for (uint32_t i = 0; i < count; i++) assert_true(keys[i].id == id[2 * i + 1]);
    assert_true(hd_str_is_equal(keys[0].name, HD_STR("key-1")));
    /* the keys go with their org */
    assert_int_equal(co_catalog_delete_org(catalog, a, &error), HD_OK);
    assert_int_equal(co_catalog_authenticate(catalog, key[1], &who), HD_UNAUTHORIZED);
    co_catalog_close(catalog);
    catalog = open_catalog();
    assert_int_equal(co_catalog_authenticate(catalog, key[1], &who), HD_UNAUTHORIZED);
    co_catalog_close(catalog);
    hd_arena_free(arena);
}

/* A second process finds the file in use, says so, and harms nothing. */
static void test_in_use(void **state) {
    co_catalog *catalog = open_catalog();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        hd_error error;
        hd_status status = try_open(&error);
        _exit(status == HD_UNAVAILABLE && strstr(error.message, "in use by another process") != NULL ? 7 : 1);
    }
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(WEXITSTATUS(result), 7);
    uint64_t a;
    assert_int_equal(create_org(catalog, "alpha", 1, &a), HD_OK);
    co_catalog_close(catalog);
}

/* Killed in the middle of nothing in particular, what was answered is there. */
static void test_killed(void **state) {
    co_catalog_close(open_catalog());
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        co_catalog *catalog = open_catalog();
        for (uint32_t i = 0; i < 1000; i++) {
            char name[32];
            uint64_t id;
            snprintf(name, sizeof(name), "org-%u", i);
            if (create_org(catalog, name, 2, &id) != HD_OK || write(pipes[1], &id, sizeof(id)) != sizeof(id)) _exit(1);
        }
        _exit(1);
    }
    close(pipes[1]);
    uint64_t ids[20];
    for (size_t i = 0; i < HD_COUNT_OF(ids); i++) assert_int_equal(read(pipes[0], &ids[i], sizeof(ids[i])), sizeof(ids[i]));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(pipes[0]);
    co_catalog *catalog = open_catalog();
    for (uint32_t i = 0; i < HD_COUNT_OF(ids); i++) {
        char name[32];
        snprintf(name, sizeof(name), "org-%u", i);
        expect_org(catalog, name, ids[i], 2);
    }
    co_catalog_close(catalog);
}

static void write_file(const char *bytes, size_t size) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, size), size);
    close(file);
}

static void test_foreign_files(void **state) {
    hd_error error;
    char noise[4096];
    hd_random_bytes(noise, sizeof(noise));
    write_file(noise, sizeof(noise));
    assert_int_equal(try_open(&error), HD_STORE_CORRUPT);
    assert_non_null(strstr(error.message, path));
    unlink(path);
    /* another version: the format stands at offset 60 of an SQLite file, big-endian */
    co_catalog_close(open_catalog());
    int file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, "\0\0\0\x63", 4, 60), 4);
    close(file);
    assert_int_equal(try_open(&error), HD_STORE_CORRUPT);
    assert_non_null(strstr(error.message, "format 99"));
    /* another program's: its application id stands at offset 68 */
    file = open(path, O_RDWR);
    assert_int_equal(pwrite(file, "abcd", 4, 68), 4);
    close(file);
    assert_int_equal(try_open(&error), HD_STORE_CORRUPT);
    assert_non_null(strstr(error.message, "another program"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_admin_key, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_given_admin_key, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_orgs_survive, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_ids_are_never_reused, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_a_new_catalog_hands_out_other_ids, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_delete_leaves_drops, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_keys, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_in_use, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_killed, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(test_foreign_files, make_folder, drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
