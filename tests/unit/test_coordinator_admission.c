/* Admission: bounds, turns between orgs, stopping, and many threads at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/front/admission.h"

static void test_turns(void **state) {
    co_admission *admission =
        co_admission_new(&(co_admission_limits){.waiting_max = 100, .org_waiting_max = 50, .org_running_max = 10});
    co_job jobs[9] = {{.org = 1}, {.org = 1}, {.org = 1}, {.org = 1}, {.org = 2}, {.org = 2}, {.org = 3}, {.org = 257}, {.org = 1}};
    for (size_t i = 0; i < HD_COUNT_OF(jobs); i++) assert_int_equal(co_admission_submit(admission, &jobs[i]), HD_OK);
    static const uint32_t expected[] = {0, 4, 6, 7, 1, 5, 2, 3, 8};
    for (size_t i = 0; i < HD_COUNT_OF(expected); i++) assert_ptr_equal(co_admission_take(admission), &jobs[expected[i]]);
    for (size_t i = 0; i < HD_COUNT_OF(jobs); i++) co_admission_done(admission, &jobs[i]);
    co_admission_stop(admission);
    assert_null(co_admission_take(admission));
    co_admission_free(admission);
}

static void test_bounds(void **state) {
    co_admission *admission =
        co_admission_new(&(co_admission_limits){.waiting_max = 5, .org_waiting_max = 3, .org_running_max = 1});
    co_job one[5] = {{.org = 1}, {.org = 1}, {.org = 1}, {.org = 1}, {.org = 1}},
           two[4] = {{.org = 2}, {.org = 2}, {.org = 2}, {.org = 2}};
    for (int i = 0; i < 3; i++) assert_int_equal(co_admission_submit(admission, &one[i]), HD_OK);
    assert_int_equal(co_admission_submit(admission, &one[3]), HD_BUSY);
    assert_int_equal(co_admission_submit(admission, &two[0]), HD_OK);
    assert_int_equal(co_admission_submit(admission, &two[1]), HD_OK);
    assert_int_equal(co_admission_submit(admission, &two[2]), HD_BUSY);
    /* one of an org at a time: the second of org 1 waits although it came before org 2's */
    assert_ptr_equal(co_admission_take(admission), &one[0]);
    assert_ptr_equal(co_admission_take(admission), &two[0]);
    assert_int_equal(co_admission_submit(admission, &one[3]), HD_OK);
    co_admission_done(admission, &two[0]);
    assert_ptr_equal(co_admission_take(admission), &two[1]);
    co_admission_done(admission, &one[0]);
    assert_ptr_equal(co_admission_take(admission), &one[1]);
    co_admission_stop(admission);
    assert_int_equal(co_admission_submit(admission, &one[4]), HD_UNAVAILABLE);
    co_admission_done(admission, &one[1]);
    assert_ptr_equal(co_admission_take(admission), &one[2]); /* what waits is still given out */
    co_admission_done(admission, &one[2]);
    assert_ptr_equal(co_admission_take(admission), &one[3]);
    assert_null(co_admission_take(admission));
    co_admission_done(admission, &one[3]);
    co_admission_done(admission, &two[1]);
    co_admission_free(admission);
}

enum { WORKERS = 6, JOBS = 4000, ORGS = 5, ORG_RUNNING_MAX = 2 };
typedef struct counted {
    co_job job;
    atomic_uint runs;
} counted;
static counted all[JOBS];
static atomic_uint running[ORGS], over;

static void *work(void *self) {
    co_admission *admission = self;
    co_job *job;
    while ((job = co_admission_take(admission)) != NULL) {
        if (atomic_fetch_add(&running[job->org], 1) >= ORG_RUNNING_MAX) atomic_fetch_add(&over, 1);
        atomic_fetch_add(&((counted *)job)->runs, 1);
        sched_yield();
        atomic_fetch_sub(&running[job->org], 1);
        co_admission_done(admission, job);
    }
    return NULL;
}

/* Every job runs once, never more of an org than allowed, and all threads end. */
static void test_threads(void **state) {
    co_admission *admission =
        co_admission_new(&(co_admission_limits){.waiting_max = 64, .org_waiting_max = 32, .org_running_max = ORG_RUNNING_MAX});
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, work, admission), 0);
    for (uint32_t i = 0; i < JOBS; i++) {
        all[i].job.org = i * 7 % ORGS;
        while (co_admission_submit(admission, &all[i].job) == HD_BUSY) sched_yield();
    }
    co_admission_stop(admission);
    for (int i = 0; i < WORKERS; i++) pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < JOBS; i++) assert_int_equal(atomic_load(&all[i].runs), 1);
    assert_int_equal(atomic_load(&over), 0);
    co_admission_free(admission);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns), cmocka_unit_test(test_bounds), cmocka_unit_test(test_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
