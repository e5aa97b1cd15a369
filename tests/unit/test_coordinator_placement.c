/* Placement: even, stable, and on live shards only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "coordinator/cluster/placement.h"
#include "tests/support/seed.h"

static test_random randomness;

enum { SHARDS = 7, PARTITIONS = 64 };

static void make_shards(co_shard_info *shards, uint32_t count) {
    memset(shards, 0, count * sizeof(*shards));
    for (uint32_t s = 0; s < count; s++) {
        snprintf(shards[s].uuid, sizeof(shards[s].uuid), "%016llx", (unsigned long long)test_random_u64(&randomness));
        shards[s].is_alive = true;
    }
}

static void loads_differ_by_one_at_the_most(void **state) {
    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        co_shard_info shards[SHARDS];
        uint32_t count = 1 + test_random_below(&randomness, SHARDS), partitions = 1U << test_random_below(&randomness, 7);
        make_shards(shards, count);
        shards[0].is_alive = count == 1 || round % 2 == 0;
        if (count > 2 && round % 3 == 0) shards[1].uuid[0] = '\0'; /* has never answered */
        uint64_t ids[PARTITIONS];
        const char *chosen[PARTITIONS];
        for (uint32_t p = 0; p < partitions; p++) ids[p] = test_random_u64(&randomness);
        assert_int_equal(co_placement_choose(shards, count, ids, partitions, chosen), HD_OK);
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t s = 0; s < count; s++) {
            uint32_t load = 0;
            for (uint32_t p = 0; p < partitions; p++) load += chosen[p] == shards[s].uuid;
            if (!shards[s].is_alive || shards[s].uuid[0] == '\0') {
                assert_int_equal(load, 0);
                continue;
            }
            least = HD_MIN(least, load);
            most = HD_MAX(most, load);
        }
        assert_true(most - least <= 1);
    }
}

static void the_order_of_shards_does_not_matter(void **state) {
    (void)state;
    co_shard_info shards[SHARDS], turned[SHARDS];
    make_shards(shards, SHARDS);
    for (uint32_t s = 0; s < SHARDS; s++) turned[s] = shards[SHARDS - 1 - s];
    uint64_t ids[PARTITIONS];
    const char *chosen[PARTITIONS], *chosen_turned[PARTITIONS];
    for (uint32_t p = 0; p < PARTITIONS; p++) ids[p] = test_random_u64(&randomness);
    assert_int_equal(co_placement_choose(shards, SHARDS, ids, PARTITIONS, chosen), HD_OK);
    assert_int_equal(co_placement_choose(turned, SHARDS, ids, PARTITIONS, chosen_turned), HD_OK);
    for (uint32_t p = 0; p < PARTITIONS; p++) assert_string_equal(chosen[p], chosen_turned[p]);
}

/* One-partition orgs spread by their hash alone. */
static void single_partitions_spread(void **state) {
    (void)state;
    co_shard_info shards[SHARDS];
    uint32_t loads[SHARDS] = {0};
    make_shards(shards, SHARDS);
    for (uint32_t i = 0; i < 7000; i++) {
        uint64_t id = i;
        const char *chosen;
        assert_int_equal(co_placement_choose(shards, SHARDS, &id, 1, &chosen), HD_OK);
        for (uint32_t s = 0; s < SHARDS; s++) loads[s] += chosen == shards[s].uuid;
    }
    for (uint32_t s = 0; s < SHARDS; s++) assert_in_range(loads[s], 800, 1200);
}

static void without_a_live_shard_there_is_no_place(void **state) {
    (void)state;
    co_shard_info shards[SHARDS];
    make_shards(shards, SHARDS);
    for (uint32_t s = 0; s < SHARDS; s++) shards[s].is_alive = false;
    uint64_t id = 1;
    const char *chosen;
    assert_int_equal(co_placement_choose(shards, SHARDS, &id, 1, &chosen), HD_UNAVAILABLE);
    assert_int_equal(co_placement_choose(shards, 0, &id, 1, &chosen), HD_UNAVAILABLE);
}

int main(int argc, char **argv) {
    randomness.state = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_differ_by_one_at_the_most),
        cmocka_unit_test(the_order_of_shards_does_not_matter),
        cmocka_unit_test(single_partitions_spread),
        cmocka_unit_test(without_a_live_shard_there_is_no_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
