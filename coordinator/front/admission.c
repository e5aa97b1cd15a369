/* Every org with something waiting or running has a lane: a queue and a count of what runs. Lanes that have something to give (jobs
 * waiting, fewer running than allowed) stand in a ring, and workers take one job from each in turn.
 *
 *     ring:  org 7 ──▶ org 3 ──▶ org 12 ──▶ (back)        a lane that ran dry or is at its limit leaves the ring;
 *              │          │         │                      it comes back when a job is added or one is over
 *             jobs       jobs      jobs
 *
 * One mutex; what is done under it takes constant time. */
#include "coordinator/front/admission.h"

#include <pthread.h>

#include "common/metrics.h"

enum { BUCKETS = 256 };

typedef struct co_lane co_lane;
struct co_lane {
    uint64_t org;
    co_job *first, *last;
    uint32_t waiting, running;
    co_lane *bucket_next;
    co_lane *ring_next, *ring_previous; /* NULL: not in the ring */
};

struct co_admission {
    co_admission_limits limits;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    co_lane *buckets[BUCKETS];
    co_lane *turn; /* the lane whose turn it is; NULL: the ring is empty */
    uint32_t waiting, running;
    bool is_stopped;
    hd_metric *waiting_gauge, *running_gauge, *refused_counter;
};

co_admission *co_admission_new(const co_admission_limits *limits) {
    co_admission *admission = hd_alloc_zero(1, sizeof(*admission));
    admission->limits = *limits;
    HD_CHECK(pthread_mutex_init(&admission->mutex, NULL) == 0);
    HD_CHECK(pthread_cond_init(&admission->changed, NULL) == 0);
    admission->waiting_gauge = hd_metrics_gauge("heddle_calls_waiting", NULL, "Calls that wait for a worker.");
    admission->running_gauge = hd_metrics_gauge("heddle_calls_running", NULL, "Calls that workers are busy with.");
    admission->refused_counter =
        hd_metrics_counter("heddle_calls_refused_total", NULL, "Calls refused early because too much waited.");
    return admission;
}

void co_admission_free(co_admission *admission) {
    if (admission == NULL) return;
    HD_CHECK(admission->waiting == 0 && admission->running == 0);
    pthread_cond_destroy(&admission->changed);
    pthread_mutex_destroy(&admission->mutex);
    hd_free(admission);
}

static co_lane *get_lane(co_admission *admission, uint64_t org) {
    co_lane **bucket = &admission->buckets[org % BUCKETS];
    for (co_lane *lane = *bucket; lane != NULL; lane = lane->bucket_next)
        if (lane->org == org) return lane;
    co_lane *lane = hd_alloc_zero(1, sizeof(*lane));
    lane->org = org;
    lane->bucket_next = *bucket;
    *bucket = lane;
    return lane;
}

static void drop_lane_if_idle(co_admission *admission, co_lane *lane) {
    if (lane->waiting > 0 || lane->running > 0) return;
    co_lane **at = &admission->buckets[lane->org % BUCKETS];
    while (*at != lane) at = &(*at)->bucket_next;
    *at = lane->bucket_next;
    hd_free(lane);
}

static void enter_ring(co_admission *admission, co_lane *lane) {
    if (lane->ring_next != NULL || lane->waiting == 0 || lane->running >= admission->limits.org_running_max) return;
    if (admission->turn == NULL) {
        admission->turn = lane->ring_next = lane->ring_previous = lane;
    } else { /* just before the one whose turn it is: last in line */
        lane->ring_next = admission->turn;
        lane->ring_previous = admission->turn->ring_previous;
        lane->ring_previous->ring_next = lane->ring_next->ring_previous = lane;
    }
    pthread_cond_signal(&admission->changed);
}

static void leave_ring(co_admission *admission, co_lane *lane) {
    if (admission->turn == lane) admission->turn = lane->ring_next == lane ? NULL : lane->ring_next;
    lane->ring_next->ring_previous = lane->ring_previous;
    lane->ring_previous->ring_next = lane->ring_next;
    lane->ring_next = lane->ring_previous = NULL;
}

static void show(const co_admission *admission) {
    hd_metric_set(admission->waiting_gauge, admission->waiting);
    hd_metric_set(admission->running_gauge, admission->running);
}

hd_status co_admission_submit(co_admission *admission, co_job *job) {
    hd_status status = HD_OK;
    pthread_mutex_lock(&admission->mutex);
    co_lane *lane = get_lane(admission, job->org);
    if (admission->is_stopped) {
        status = HD_UNAVAILABLE;
    } else if (admission->waiting >= admission->limits.waiting_max || lane->waiting >= admission->limits.org_waiting_max) {
        status = HD_BUSY;
        hd_metric_add(admission->refused_counter, 1);
    }
    if (status == HD_OK) {
        job->next = NULL;
        job->lane = lane;
        if (lane->last != NULL)
            lane->last->next = job;
        else
            lane->first = job;
        lane->last = job;
        lane->waiting++;
        admission->waiting++;
        /* The lane may be in the ring already, and a worker idle all the same. */
        if (lane->ring_next != NULL) pthread_cond_signal(&admission->changed);
        enter_ring(admission, lane);
    }
    drop_lane_if_idle(admission, lane);
    show(admission);
    pthread_mutex_unlock(&admission->mutex);
    return status;
}

co_job *co_admission_take(co_admission *admission) {
    co_job *job = NULL;
    pthread_mutex_lock(&admission->mutex);
    while (admission->turn == NULL && !(admission->is_stopped && admission->waiting == 0))
        pthread_cond_wait(&admission->changed, &admission->mutex);
    co_lane *lane = admission->turn;
    if (lane != NULL) {
        job = lane->first;
        lane->first = job->next;
        if (lane->first == NULL) lane->last = NULL;
        lane->waiting--;
        lane->running++;
        admission->waiting--;
        admission->running++;
        admission->turn = lane->ring_next;
        if (lane->waiting == 0 || lane->running >= admission->limits.org_running_max) leave_ring(admission, lane);
        if (admission->turn != NULL) pthread_cond_signal(&admission->changed); /* there is more, and someone may be idle */
        if (admission->is_stopped && admission->waiting == 0) pthread_cond_broadcast(&admission->changed);
        show(admission);
    }
    pthread_mutex_unlock(&admission->mutex);
    return job;
}

void co_admission_done(co_admission *admission, co_job *job) {
    pthread_mutex_lock(&admission->mutex);
    co_lane *lane = job->lane;
    lane->running--;
    admission->running--;
    enter_ring(admission, lane);
    drop_lane_if_idle(admission, lane);
    show(admission);
    pthread_mutex_unlock(&admission->mutex);
}

void co_admission_stop(co_admission *admission) {
    pthread_mutex_lock(&admission->mutex);
    admission->is_stopped = true;
    pthread_cond_broadcast(&admission->changed);
    pthread_mutex_unlock(&admission->mutex);
}
