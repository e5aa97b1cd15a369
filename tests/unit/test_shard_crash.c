/* A shard killed at any instant comes back with every acknowledged write, whole, once, and in every index.
 *
 * The test runs itself as a child that writes through the real writer and tells of each acknowledged event over a pipe; kills it with
 * SIGKILL at a random moment; opens the folder and looks. The same folder goes through all rounds, so later rounds also start from
 * what earlier crashes left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/wait.h>

#include "shard/vectors/vector_index.h"
#include "tests/support/shard_fixture.h"

enum { ROUNDS = 10, PARTITIONS = 2, DIMENSION = 8, FLIGHTS = 8, ITEMS = 16, NUMBERS_MAX = 1 << 20 };

static uint64_t seed;

/* Event `number` is fully told by its number, so that the parent can check every part of it. An event whose number is divisible by 5
 * is saved twice, the second time with `replace`. */
typedef struct made {
    char id[16], summary[32], thread[16], entity[2][16];
    char content[2048];
    float vector[DIMENSION];
    hd_entity_ref entities[2];
    hd_tag_ref tags[1];
} made;

static void make_event(uint32_t number, bool is_second, made *m, hd_write_item *item) {
    snprintf(m->id, sizeof(m->id), "n%u", number);
    snprintf(m->summary, sizeof(m->summary), "%s %u", is_second ? "again" : "first", number);
    snprintf(m->thread, sizeof(m->thread), "thread %u", number % 10);
    snprintf(m->entity[0], sizeof(m->entity[0]), "rare %u", number);
    snprintf(m->entity[1], sizeof(m->entity[1]), "hub %u", number % 7);
    memset(m->content, 'a' + (int)(number % 26), sizeof(m->content));
    for (uint32_t i = 0; i < DIMENSION; i++) m->vector[i] = (float)(number + i + 1);
    m->entities[0] = (hd_entity_ref){hd_str_of(m->entity[0]), HD_STR("thing")};
    m->entities[1] = (hd_entity_ref){hd_str_of(m->entity[1]), {0}};
    m->tags[0] = (hd_tag_ref){HD_STR("ops/crash"), 1};
    *item = (hd_write_item){.kind = HD_WRITE_SAVE, .partition = number % PARTITIONS, .epoch = 1, .is_replace = is_second};
    item->event = (hd_event_record){.id = hd_str_of(m->id),
                                    .summary = hd_str_of(m->summary),
                                    .content = {m->content, sizeof(m->content)},
                                    .timestamp_us = number,
                                    .thread = hd_str_of(m->thread),
                                    .entities = m->entities,
                                    .entity_count = 2,
                                    .tags = m->tags,
                                    .tag_count = 1,
                                    .vector = m->vector,
                                    .dimension = DIMENSION};
}

/* -- the child ------------------------------------------------------------------------------------------------------------------------ */

typedef struct flight {
    made made[ITEMS];
    hd_write_item items[ITEMS];
    uint32_t told[ITEMS]; /* number × 2, + 1 for the second saving */
    hd_write_request request;
    int pipe;
    pthread_mutex_t *lock;
    pthread_cond_t *changed;
    bool *is_free;
} flight;

static void tell(void *self, const hd_write_reply *reply) {
    flight *f = self;
    uint32_t told[ITEMS], count = 0;
    for (uint32_t i = 0; i < reply->outcome_count; i++)
        if (reply->outcomes[i].code == HD_OK) told[count++] = f->told[i];
    if (count > 0 && write(f->pipe, told, count * sizeof(*told)) != (ssize_t)(count * sizeof(*told))) _exit(3);
    pthread_mutex_lock(f->lock);
    *f->is_free = true;
    pthread_cond_signal(f->changed);
    pthread_mutex_unlock(f->lock);
}

static uint32_t fill(flight *f, uint32_t number) {
    uint32_t at = 0;
    while (at < ITEMS - 1) {
        f->told[at] = number * 2;
        make_event(number, false, &f->made[at], &f->items[at]);
        at++;
        if (number % 5 == 0) {
            f->told[at] = number * 2 + 1;
            make_event(number, true, &f->made[at], &f->items[at]);
            at++;
        }
        number++;
    }
    f->request = (hd_write_request){.org = 1, .remaining_ms = 60000, .items = f->items, .item_count = at};
    return number;
}

static int run_child(const char *folder, int pipe, uint32_t number) {
    fixture x = {.memory_max = (uint64_t)1 << 30};
    hd_error error = {0};
    snprintf(x.folder, sizeof(x.folder), "%s", folder);
    if (sh_store_open(folder, FIXTURE_CACHE, &x.store, &error) != HD_OK) return 4;
    if (sh_partitions_new(x.store, x.memory_max, &x.partitions, &error) != HD_OK) return 5;
    if (sh_writer_new(x.store, x.partitions, &x.writer, &error) != HD_OK) return 6;
    for (uint32_t i = 0; i < PARTITIONS; i++) {
        hd_partition_spec spec = {.id = i, .org = 1, .epoch = 1, .dimension = DIMENSION};
        if (sh_partitions_create(x.partitions, &spec, &error) != HD_OK) return 7;
    }
    static flight flights[FLIGHTS];
    static bool is_free[FLIGHTS];
    pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    memset(is_free, true, sizeof(is_free));
    for (;;) {
        uint32_t at = 0;
        pthread_mutex_lock(&lock);
        while (!is_free[at]) {
            if (++at < FLIGHTS) continue;
            pthread_cond_wait(&changed, &lock);
            at = 0;
        }
        is_free[at] = false;
        pthread_mutex_unlock(&lock);
        flight *f = &flights[at];
        f->pipe = pipe;
        f->lock = &lock;
        f->changed = &changed;
        f->is_free = &is_free[at];
        number = fill(f, number);
        if (number >= NUMBERS_MAX || sh_writer_submit(x.writer, &f->request, tell, f) != HD_OK) return 8;
    }
}

/* -- the parent ----------------------------------------------------------------------------------------------------------------------- */

static uint8_t *acknowledged; /* bit 0: first saving, bit 1: second */
static uint32_t numbers_end;  /* above every number that was acknowledged or found */

static void read_told(int pipe) {
    uint32_t told;
    while (read(pipe, &told, sizeof(told)) == (ssize_t)sizeof(told)) {
        assert_true(told / 2 < NUMBERS_MAX);
        acknowledged[told / 2] |= (uint8_t)(1 << (told % 2));
        numbers_end = HD_MAX(numbers_end, told / 2 + 1);
    }
}

/* Starts the child, lets it run until at least one write was acknowledged and then for a random while, kills it. */
static void run_and_kill(const char *folder, test_random *r) {
    int pipes[2];
    char number[16], descriptor[16];
    assert_int_equal(pipe(pipes), 0);
    snprintf(number, sizeof(number), "%u", numbers_end);
    snprintf(descriptor, sizeof(descriptor), "%d", pipes[1]);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(pipes[0]);
        execl("/proc/self/exe", "test_shard_crash", "child", folder, descriptor, number, (char *)NULL);
        _exit(9);
    }
    close(pipes[1]);
    uint32_t first = 0;
    assert_int_equal(read(pipes[0], &first, sizeof(first)), (ssize_t)sizeof(first)); /* 0 bytes: the child could not start */
    acknowledged[first / 2] |= (uint8_t)(1 << (first % 2));
    numbers_end = HD_MAX(numbers_end, first / 2 + 1);
    usleep(test_random_below(r, 150000));
    assert_int_equal(kill(child, SIGKILL), 0);
    int ended = 0;
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFSIGNALED(ended));
    read_told(pipes[0]);
    close(pipes[0]);
}

static uint32_t count_slot(sh_postings postings, sh_slot slot) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < postings.count; i++) count += postings.slots[i] == slot;
    return count;
}

/* The event is there once, with all its parts and in every index. */
static void check_whole(fixture *x, const sh_partition *p, const sh_view *view, sh_slot slot, uint32_t number) {
    hd_error error = {0};
    hd_write_item item;
    made m;
    sh_event e;
    sh_view_get_event(view, slot, &e);
    hd_arena *arena = hd_arena_new(0);
    hd_str summary, content;
    ASSERT_OK(sh_partition_get_text(x->partitions, p, e.record, arena, &summary, &content, &error), error);
    bool is_second = summary.size > 5 && memcmp(summary.data, "again", 5) == 0;
    make_event(number, is_second, &m, &item);
    assert_true(hd_str_is_equal(summary, item.event.summary) && hd_str_is_equal(content, item.event.content));
    if (acknowledged[number] & 2) assert_true(is_second);
    assert_true(e.timestamp_us == number && e.entity_count == 2 && e.tag_count == 1 && e.vector != SH_NONE);
    assert_memory_equal(sh_vector_index_get(sh_view_vectors(view), e.vector), m.vector, sizeof(m.vector));
    assert_true(hd_str_is_equal(sh_view_thread_name(view, e.thread), item.event.thread));
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t entity = sh_view_find_entity(view, hd_name_id(item.event.entities[i].name));
        assert_int_equal(entity, e.entities[i]);
        assert_int_equal(count_slot(sh_view_entity_postings(view, entity), slot), 1);
    }
    assert_int_equal(sh_view_entity_count(view, e.entities[0]), 1); /* its own entity: were it there twice, this would say so */
    assert_int_equal(count_slot(sh_view_tag_postings(view, e.tags[0].tag), slot), 1);
    hd_arena_free(arena);
}

static uint32_t check_partition(fixture *x, uint32_t partition, uint32_t *lost_out) {
    hd_error error = {0};
    sh_partition *p;
    sh_view view;
    uint32_t found = 0;
    ASSERT_OK(sh_partitions_acquire(x->partitions, 1, partition, 1, 0, &p, &error), error);
    assert_true(sh_view_enter(p->graph, 0, &view));
    uint32_t end = numbers_end;
    for (uint32_t number = partition; number < end + FLIGHTS * ITEMS && number < NUMBERS_MAX; number += PARTITIONS) {
        char id[16];
        snprintf(id, sizeof(id), "n%u", number);
        sh_slot slot = sh_view_find_event(&view, hd_str_of(id));
        if (slot == SH_NONE) {
            *lost_out += acknowledged[number] != 0;
            continue;
        }
        found++;
        numbers_end = HD_MAX(numbers_end, number + 1);
        check_whole(x, p, &view, slot, number);
    }
    assert_int_equal(sh_view_live_events(&view), found);
    assert_int_equal(sh_view_live_vectors(&view), found);
    sh_timeline timeline; /* and the timeline has each once */
    uint32_t in_time = 0;
    sh_view_timeline_start(&view, false, 0, &timeline);
    for (sh_slot slot = sh_view_timeline_next(&view, &timeline); slot != SH_NONE; slot = sh_view_timeline_next(&view, &timeline))
        in_time += sh_view_is_visible(&view, slot);
    assert_int_equal(in_time, found);
    assert_int_equal(p->commit.events, found);
    sh_view_leave(&view);
    sh_partitions_release(x->partitions, p);
    return found;
}

static void test_kill(void **state) {
    test_random r = {seed};
    fixture x = {.memory_max = (uint64_t)1 << 30};
    acknowledged = calloc(NUMBERS_MAX, 1);
    fixture_folder(x.folder);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t lost = 0, found = 0;
        run_and_kill(x.folder, &r);
        fixture_open(&x);
        for (uint32_t i = 0; i < PARTITIONS; i++) found += check_partition(&x, i, &lost);
        print_message("round %d: %u events found, %u acknowledged ones lost\n", round, found, lost);
        assert_int_equal(lost, 0);
        fixture_close(&x);
    }
    fixture_remove(x.folder);
    free(acknowledged);
}

int main(int argc, char **argv) {
    if (argc == 5 && strcmp(argv[1], "child") == 0)
        return run_child(argv[2], (int)strtol(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10));
    seed = test_seed(argc, argv);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_kill)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
