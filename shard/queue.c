/*   ring:  lane(org 7) ⇄ lane(org 3) ⇄ lane(org 9)      each lane: its jobs, oldest first
 *            ▲ turn
 * Taking gives the first job of the lane whose turn it is; the lane then stands at the end of the ring. A lane exists while it has
 * jobs. A few hundred jobs at most wait, so lanes are found by walking the ring. */
#include "shard/queue.h"

#include <pthread.h>

typedef struct lane {
    uint64_t org;
    sh_job *first, *last;
    uint32_t count;
    struct lane *next, *previous;
} lane;

struct sh_queue {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    lane *turn, *end;
    sh_job *running;
    uint32_t waiting, running_count, jobs_max;
    bool is_stopping;
};

sh_job *sh_job_new(const hd_request_head *head, const hd_wire_peer *peer, hd_str payload, uint64_t now_us) {
    sh_job *job = hd_alloc_zero(1, sizeof(*job));
    job->head = *head;
    job->peer = *peer;
    job->arrived_us = now_us;
    job->deadline_us = now_us + (uint64_t)head->remaining_ms * 1000;
    hd_buf_add_str(&job->payload, payload);
    return job;
}

void sh_job_free(sh_job *job) {
    if (!job) return;
    hd_buf_fini(&job->payload);
    hd_free(job);
}

sh_queue *sh_queue_new(uint32_t jobs_max) {
    sh_queue *q = hd_alloc_zero(1, sizeof(*q));
    q->jobs_max = jobs_max;
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    return q;
}

/* -- lanes; locked ------------------------------------------------------------------------------------------------------------------ */

static void unlink_lane(sh_queue *q, lane *l) {
    if (l->previous)
        l->previous->next = l->next;
    else
        q->turn = l->next;
    if (l->next)
        l->next->previous = l->previous;
    else
        q->end = l->previous;
}

static void append_lane(sh_queue *q, lane *l) {
    l->next = NULL;
    l->previous = q->end;
    if (q->end)
        q->end->next = l;
    else
        q->turn = l;
    q->end = l;
}

static lane *find_lane(const sh_queue *q, uint64_t org) {
    lane *l = q->turn;
    while (l && l->org != org) l = l->next;
    return l;
}

static lane *find_longest(const sh_queue *q) {
    lane *longest = q->turn;
    for (lane *l = q->turn; l; l = l->next)
        if (l->count > longest->count) longest = l;
    return longest;
}

/* Takes the job out of its lane, and the lane out of the ring when that was the last. */
static void unlink_job(sh_queue *q, lane *l, sh_job *job) {
    if (job->previous)
        job->previous->next = job->next;
    else
        l->first = job->next;
    if (job->next)
        job->next->previous = job->previous;
    else
        l->last = job->previous;
    job->next = job->previous = NULL;
    l->count--;
    q->waiting--;
    if (l->count > 0) return;
    unlink_lane(q, l);
    hd_free(l);
}

static void append_job(sh_queue *q, sh_job *job) {
    lane *l = find_lane(q, job->head.org);
    if (!l) {
        l = hd_alloc_zero(1, sizeof(*l));
        l->org = job->head.org;
        append_lane(q, l);
    }
    job->next = NULL;
    job->previous = l->last;
    if (l->last)
        l->last->next = job;
    else
        l->first = job;
    l->last = job;
    l->count++;
    q->waiting++;
}

/* -- jobs -------------------------------------------------------------------------------------------------------------------------------- */

sh_job *sh_queue_add(sh_queue *q, sh_job *job) {
    sh_job *refused = NULL;
    pthread_mutex_lock(&q->lock);
    if (q->is_stopping) {
        refused = job;
    } else if (q->waiting >= q->jobs_max) {
        const lane *own = find_lane(q, job->head.org);
        lane *longest = find_longest(q);
        bool is_own_shorter = longest && (own ? own->count : 0) + 1 < longest->count;
        refused = is_own_shorter ? longest->last : job;
        if (is_own_shorter) unlink_job(q, longest, refused);
    }
    if (refused != job) {
        append_job(q, job);
        pthread_cond_signal(&q->changed);
    }
    pthread_mutex_unlock(&q->lock);
    return refused;
}

sh_job *sh_queue_take(sh_queue *q) {
    pthread_mutex_lock(&q->lock);
    while (!q->turn && !q->is_stopping) pthread_cond_wait(&q->changed, &q->lock);
    lane *l = q->turn;
    sh_job *job = l ? l->first : NULL;
    if (job) {
        if (l->count > 1) {
            unlink_lane(q, l);
            append_lane(q, l);
        }
        unlink_job(q, l, job);
        job->next = q->running;
        if (q->running) q->running->previous = job;
        q->running = job;
        q->running_count++;
    }
    pthread_mutex_unlock(&q->lock);
    return job;
}

void sh_queue_finish(sh_queue *q, sh_job *job) {
    pthread_mutex_lock(&q->lock);
    if (job->previous)
        job->previous->next = job->next;
    else
        q->running = job->next;
    if (job->next) job->next->previous = job->previous;
    q->running_count--;
    pthread_mutex_unlock(&q->lock);
    sh_job_free(job);
}

/* Puts the lane's waiting jobs of `query` on `list`; may free the lane. Locked. */
static void forget_waiting(sh_queue *q, lane *l, uint64_t query, sh_job **list) {
    for (sh_job *job = l->first, *next; job; job = next) {
        next = job->next;
        if (job->head.query != query) continue;
        unlink_job(q, l, job); /* frees the lane with its last job, and then there is no next one */
        job->next = *list;
        *list = job;
    }
}

void sh_queue_cancel(sh_queue *q, uint64_t org, uint64_t query) {
    sh_job *forgotten = NULL;
    pthread_mutex_lock(&q->lock);
    for (sh_job *job = q->running; job; job = job->next)
        if (job->head.query == query && (org == 0 || job->head.org == org))
            __atomic_store_n(&job->is_cancelled, true, __ATOMIC_RELAXED);
    for (lane *l = q->turn, *next; l; l = next) {
        next = l->next;
        if (org == 0 || l->org == org) forget_waiting(q, l, query, &forgotten);
    }
    pthread_mutex_unlock(&q->lock);
    while (forgotten) {
        sh_job *next = forgotten->next;
        sh_job_free(forgotten);
        forgotten = next;
    }
}

void sh_queue_cancel_all(sh_queue *q) {
    pthread_mutex_lock(&q->lock);
    for (sh_job *job = q->running; job; job = job->next) __atomic_store_n(&job->is_cancelled, true, __ATOMIC_RELAXED);
    for (lane *l = q->turn; l; l = l->next)
        for (sh_job *job = l->first; job; job = job->next) __atomic_store_n(&job->is_cancelled, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&q->lock);
}

uint32_t sh_queue_waiting(sh_queue *q) {
    pthread_mutex_lock(&q->lock);
    uint32_t waiting = q->waiting;
    pthread_mutex_unlock(&q->lock);
    return waiting;
}

bool sh_queue_is_idle(sh_queue *q) {
    pthread_mutex_lock(&q->lock);
    bool is_idle = q->waiting == 0 && q->running_count == 0;
    pthread_mutex_unlock(&q->lock);
    return is_idle;
}

void sh_queue_stop(sh_queue *q) {
    pthread_mutex_lock(&q->lock);
    q->is_stopping = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

void sh_queue_free(sh_queue *q) {
    if (!q) return;
    while (q->turn) {
        sh_job *job = q->turn->first;
        unlink_job(q, q->turn, job);
        sh_job_free(job);
    }
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    hd_free(q);
}
