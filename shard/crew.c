/* See crew.h. A caller lays its task on the pile and begins; hands take the newest task that still wants members. When the caller is
 * through, it takes the task off the pile, so that nobody else joins, and waits for those who did. */
#include "shard/crew.h"

#include <pthread.h>

typedef struct task {
    void (*work)(void *self, uint32_t member);
    void *self;
    uint32_t members, members_max; /* joined so far, the caller included */
    uint32_t working;              /* hands inside `work` */
    struct task *below;            /* the pile */
} task;

struct sh_crew {
    pthread_mutex_t lock;
    pthread_cond_t wanted; /* a task was laid down, or the crew is to stop */
    pthread_cond_t home;   /* a hand came out of a task */
    pthread_t *hands;
    uint32_t hand_count;
    uint32_t cores, busy; /* callers and hands inside `work` */
    task *pile;
    bool is_stopping;
};

/* A task that one more hand may join, or NULL. With all cores busy there is none. */
static task *find_task(const sh_crew *crew) {
    if (crew->busy >= crew->cores) return NULL;
    for (task *t = crew->pile; t; t = t->below)
        if (t->members < t->members_max) return t;
    return NULL;
}

static void *run_hand(void *self) {
    sh_crew *crew = self;
    pthread_mutex_lock(&crew->lock);
    while (!crew->is_stopping) {
        task *t = find_task(crew);
        if (!t) {
            pthread_cond_wait(&crew->wanted, &crew->lock);
            continue;
        }
        uint32_t member = t->members++;
        t->working++;
        crew->busy++;
        pthread_mutex_unlock(&crew->lock);
        t->work(t->self, member);
        pthread_mutex_lock(&crew->lock);
        crew->busy--;
        t->working--;
        pthread_cond_broadcast(&crew->home);
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

sh_crew *sh_crew_new(uint32_t cores) {
    sh_crew *crew = hd_alloc_zero(1, sizeof(*crew));
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->wanted, NULL);
    pthread_cond_init(&crew->home, NULL);
    crew->cores = HD_MAX(cores, 1u);
    crew->hands = hd_alloc_zero(crew->cores, sizeof(*crew->hands));
    while (crew->hand_count + 1 < crew->cores && pthread_create(&crew->hands[crew->hand_count], NULL, run_hand, crew) == 0)
        crew->hand_count++;
    return crew;
}

void sh_crew_free(sh_crew *crew) {
    if (!crew) return;
    pthread_mutex_lock(&crew->lock);
    crew->is_stopping = true;
    pthread_cond_broadcast(&crew->wanted);
    pthread_mutex_unlock(&crew->lock);
    for (uint32_t i = 0; i < crew->hand_count; i++) pthread_join(crew->hands[i], NULL);
    pthread_cond_destroy(&crew->wanted);
    pthread_cond_destroy(&crew->home);
    pthread_mutex_destroy(&crew->lock);
    hd_free(crew->hands);
    hd_free(crew);
}

void sh_crew_share(sh_crew *crew, uint32_t members_max, void (*work)(void *self, uint32_t member), void *self) {
    if (!crew || crew->hand_count == 0 || members_max < 2) {
        work(self, 0);
        return;
    }
    task t = {.work = work, .self = self, .members = 1, .members_max = members_max};
    pthread_mutex_lock(&crew->lock);
    crew->busy++;
    t.below = crew->pile;
    crew->pile = &t;
    if (crew->busy < crew->cores) pthread_cond_broadcast(&crew->wanted);
    pthread_mutex_unlock(&crew->lock);

    work(self, 0);

    pthread_mutex_lock(&crew->lock);
    task **at = &crew->pile;
    while (*at != &t) at = &(*at)->below;
    *at = t.below;
    while (t.working > 0) pthread_cond_wait(&crew->home, &crew->lock);
    crew->busy--;
    if (crew->pile) pthread_cond_broadcast(&crew->wanted); /* a core is free for another's task */
    pthread_mutex_unlock(&crew->lock);
}
