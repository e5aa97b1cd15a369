/* A shard's parts in a temporary folder, and writes that wait for their answer. For tests of the shard room; include it last. */
#ifndef SHARD_FIXTURE_H
#define SHARD_FIXTURE_H

#include <fts.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/ids.h"
#include "shard/write.h"
#include "tests/support/seed.h"

enum { FIXTURE_CACHE = 8 << 20 };

typedef struct fixture {
    char folder[64];
    uint64_t memory_max;
    sh_store *store;
    sh_partitions *partitions;
    sh_writer *writer;
} fixture;

static inline void fixture_folder(char folder_out[64]) {
    snprintf(folder_out, 64, "/tmp/heddle-test-XXXXXX");
    assert_non_null(mkdtemp(folder_out));
}

static inline void fixture_remove(const char *folder) {
    char *paths[] = {(char *)(uintptr_t)folder, NULL};
    FTS *tree = fts_open(paths, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    assert_non_null(tree);
    for (FTSENT *at = fts_read(tree); at; at = fts_read(tree))
        if (at->fts_info != FTS_D) assert_int_equal(remove(at->fts_accpath), 0);
    fts_close(tree);
}

#define ASSERT_OK(expression, error)                                                                   \
    do {                                                                                               \
        hd_status assert_status_ = (expression);                                                       \
        if (assert_status_ != HD_OK) {                                                                 \
            print_error("%s: %s: %s\n", #expression, hd_status_name(assert_status_), (error).message); \
            fail();                                                                                    \
        }                                                                                              \
    } while (0)

static inline void fixture_open(fixture *f) {
    hd_error error = {0};
    ASSERT_OK(sh_store_open(f->folder, FIXTURE_CACHE, &f->store, &error), error);
    ASSERT_OK(sh_partitions_new(f->store, f->memory_max, &f->partitions, &error), error);
    ASSERT_OK(sh_writer_new(f->store, f->partitions, &f->writer, &error), error);
}

static inline void fixture_close(fixture *f) {
    sh_writer_free(f->writer);
    sh_partitions_free(f->partitions);
    sh_store_close(f->store);
}

static inline void fixture_reopen(fixture *f) {
    fixture_close(f);
    fixture_open(f);
}

static inline void fixture_new(fixture *f) {
    memset(f, 0, sizeof(*f));
    f->memory_max = (uint64_t)1 << 30;
    fixture_folder(f->folder);
    fixture_open(f);
}

static inline void fixture_end(fixture *f) {
    fixture_close(f);
    fixture_remove(f->folder);
}

static inline void fixture_create(fixture *f, uint64_t org, uint64_t id, uint32_t dimension) {
    hd_error error = {0};
    hd_partition_spec spec = {.id = id, .org = org, .epoch = 1, .dimension = dimension};
    ASSERT_OK(sh_partitions_create(f->partitions, &spec, &error), error);
}

/* One write's answer, kept beyond the call of `done`. */
typedef struct answer {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_there;
    hd_status status;
    hd_write_outcome outcomes[64];
    char messages[64][200], events[64][HD_EVENT_ID_MAX + 1];
    uint32_t count;
} answer;

static inline void answer_init(answer *a) {
    memset(a, 0, sizeof(*a));
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
}

static inline void answer_keep(void *self, const hd_write_reply *reply) {
    answer *a = self;
    pthread_mutex_lock(&a->lock);
    a->status = reply->status;
    a->count = reply->outcome_count;
    for (uint32_t i = 0; i < HD_MIN(reply->outcome_count, 64u); i++) {
        a->outcomes[i] = reply->outcomes[i];
        snprintf(a->messages[i], sizeof(a->messages[i]), HD_STR_FMT, HD_STR_ARG(reply->outcomes[i].message));
        snprintf(a->events[i], sizeof(a->events[i]), HD_STR_FMT, HD_STR_ARG(reply->outcomes[i].event));
    }
    a->is_there = true;
    pthread_cond_signal(&a->changed);
    pthread_mutex_unlock(&a->lock);
}

static inline void answer_wait(answer *a) {
    pthread_mutex_lock(&a->lock);
    while (!a->is_there) pthread_cond_wait(&a->changed, &a->lock);
    pthread_mutex_unlock(&a->lock);
}

static inline void fixture_write(fixture *f, const hd_write_request *request, answer *a) {
    answer_init(a);
    assert_int_equal(sh_writer_submit(f->writer, request, answer_keep, a), HD_OK);
    answer_wait(a);
}

static inline hd_write_outcome fixture_write_one(fixture *f, uint64_t org, const hd_write_item *item, answer *a) {
    hd_write_item copy = *item;
    hd_write_request request = {.org = org, .remaining_ms = 60000, .items = &copy, .item_count = 1};
    fixture_write(f, &request, a);
    assert_int_equal(a->status, HD_OK);
    assert_int_equal(a->count, 1);
    return a->outcomes[0];
}

#endif
