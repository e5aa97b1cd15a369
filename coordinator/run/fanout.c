/* The story of a step: split it, gather a round of replies, note how far each partition got, and while a share of the budget cut
 * one short that others left something of, ask again. Then merge, and say what the result is worth.
 *
 * What holds here:
 *   - Every partition asked ends with a verdict; completeness comes from verdicts alone.
 *   - The shares of a round add up to no more than the budget has left, and a shard is charged no more than its share.
 *   - Pieces are merged in the order in which they were asked for (rounds, shards, partitions), never in that of arrival. */
#include "coordinator/run/fanout.h"

#include "common/clock.h"
#include "common/ids.h"
#include "coordinator/run/fanout_private.h"
#include "coordinator/run/merge.h"

enum { ROUNDS_MAX = 1024, SCRATCH_BYTES_MAX = 512 << 20 };

/* ---- life ---- */

static void release_fanout(void *self) {
    co_fanout *fanout = self;
    hd_arena_free(fanout->scratch);
    hd_buf_fini(&fanout->received);
}

/* One group a shard, in the order of its first partition. */
static hd_status group_partitions(co_fanout *fanout) {
    const co_org *org = fanout->org;
    HD_ALLOC(fanout->groups, fanout->arena, org->partition_count);
    HD_ALLOC(fanout->group_of, fanout->arena, org->partition_count);
    for (uint32_t p = 0; p < org->partition_count; p++) {
        uint32_t g = 0;
        while (g < fanout->group_count && strcmp(fanout->groups[g].uuid, org->partitions[p].shard) != 0) g++;
        co_group *group = &fanout->groups[g];
        if (g == fanout->group_count) {
            fanout->group_count++;
            group->uuid = org->partitions[p].shard;
            HD_ALLOC(group->partitions, fanout->arena, org->partition_count);
        }
        group->partitions[group->partition_count++] = p;
        fanout->group_of[p] = g;
    }
    return HD_OK;
}

hd_status co_fanout_new(hd_arena *arena, co_topology *topology, hd_wire_client *wire, const co_org *org, hd_budget *budget,
                        uint64_t deadline_us, co_fanout **fanout_out) {
    co_fanout *fanout;
    HD_ALLOC(fanout, arena, 1);
    *fanout =
        (co_fanout){.arena = arena, .topology = topology, .wire = wire, .org = org, .budget = budget, .deadline_us = deadline_us};
    HD_TRY(hd_arena_on_release(arena, release_fanout, fanout));
    fanout->scratch = hd_arena_new(SCRATCH_BYTES_MAX);
    fanout->query = hd_random_u64();
    fanout->dropped = hd_metrics_counter("heddle_replies_dropped_total", NULL, "Replies that came late or to nobody's request");
    HD_ALLOC(fanout->snapshots, arena, org->partition_count);
    HD_ALLOC(fanout->parts, arena, org->partition_count);
    HD_TRY(group_partitions(fanout));
    *fanout_out = fanout;
    return HD_OK;
}

void co_fanout_set_deadline(co_fanout *fanout, uint64_t deadline_us) {
    fanout->deadline_us = deadline_us;
}

void co_fanout_set_gone(co_fanout *fanout, bool (*is_client_gone)(void *self), void *self) {
    fanout->is_client_gone = is_client_gone;
    fanout->gone_self = self;
}

void co_fanout_set_faults(co_fanout *fanout, const co_fanout_faults *faults) {
    fanout->faults = *faults;
}

void co_fanout_restart(co_fanout *fanout) {
    memset(fanout->snapshots, 0, fanout->org->partition_count * sizeof(*fanout->snapshots));
    fanout->budget->used[HD_CAP_SCANNED] -= HD_MIN(fanout->budget->used[HD_CAP_SCANNED], fanout->charged_scanned);
    fanout->budget->used[HD_CAP_MEASURED] -= HD_MIN(fanout->budget->used[HD_CAP_MEASURED], fanout->charged_measured);
    fanout->charged_scanned = fanout->charged_measured = 0;
    fanout->was_restarted = true;
}

/* ---- budget ---- */

static uint64_t share_of(uint64_t left, uint32_t count, uint32_t index) {
    return left / count + (index < left % count);
}

static void share_out(const co_fanout *fanout, co_ask *asks, uint32_t count) {
    uint64_t scanned = hd_budget_left(fanout->budget, HD_CAP_SCANNED), measured = hd_budget_left(fanout->budget, HD_CAP_MEASURED);
    for (uint32_t i = 0; i < count; i++) {
        asks[i].scanned_share = share_of(scanned, count, i);
        asks[i].measured_share = share_of(measured, count, i);
    }
}

static uint64_t charge(co_fanout *fanout, const co_ask *ask) {
    uint64_t scanned = 0, measured = 0;
    for (uint32_t i = 0; i < ask->reply.result_count; i++) {
        scanned += HD_MIN(ask->reply.results[i].used_scanned, ask->scanned_share);
        measured += HD_MIN(ask->reply.results[i].used_measured, ask->measured_share);
    }
    scanned = HD_MIN(scanned, ask->scanned_share);
    measured = HD_MIN(measured, ask->measured_share);
    fanout->budget->used[HD_CAP_SCANNED] += scanned;
    fanout->budget->used[HD_CAP_MEASURED] += measured;
    fanout->charged_scanned += scanned;
    fanout->charged_measured += measured;
    return scanned + measured;
}

/* ---- verdicts ---- */

static hd_cap cap_of_failure(hd_status code) {
    switch (code) {
    case HD_SNAPSHOT_GONE: return HD_CAP_SNAPSHOT;
    case HD_STORE_IO:
    case HD_STORE_FULL:
    case HD_STORE_CORRUPT: return HD_CAP_STORE;
    case HD_MEMORY: return HD_CAP_MEMORY;
    case HD_DEADLINE:
    case HD_CANCELLED: return HD_CAP_DEADLINE;
    default: return HD_CAP_SHARD_UNAVAILABLE;
    }
}

static void fail_part(co_part *part, hd_status code, const char *why) {
    part->reach = HD_REACH_FAILED;
    part->code = code;
    part->cap = cap_of_failure(code);
    part->why = why;
    part->resume = (hd_str){NULL, 0};
}

static void mark_asked(co_part *part) {
    *part = (co_part){.is_asked = true};
    fail_part(part, HD_DEADLINE, "the deadline passed before it was asked");
}

static void mark_all_asked(co_fanout *fanout) {
    for (uint32_t p = 0; p < fanout->org->partition_count; p++) mark_asked(&fanout->parts[p]);
}

static void note_verdict(co_part *part, const hd_verdict *verdict) {
    if (verdict->reach == HD_REACH_FAILED) {
        fail_part(part, verdict->code, hd_status_meaning(verdict->code));
        return;
    }
    part->is_answered = true;
    part->reach = verdict->reach;
    part->cap = verdict->reach == HD_REACH_CUT ? verdict->cap : HD_CAP_NONE;
    if (part->reach == HD_REACH_CUT && part->cap == HD_CAP_NONE) fail_part(part, HD_INTERNAL, "it stopped without saying why");
    part->resume = verdict->reach == HD_REACH_CUT ? verdict->resume : (hd_str){NULL, 0};
    part->done = verdict->done;
    part->n_live = verdict->n_live;
    part->n_vectors = verdict->n_vectors;
}

/* What result `index` of an answered ask says of its partitions; the first reply of a partition fixes what is seen of it. */
static void note_result(co_fanout *fanout, const co_ask *ask, uint32_t index) {
    for (uint32_t i = 0; i < ask->partition_count; i++) {
        const hd_verdict *verdict = &ask->reply.results[index].verdicts[i];
        co_snapshot *snapshot = &fanout->snapshots[ask->partitions[i]];
        note_verdict(&fanout->parts[ask->partitions[i]], verdict);
        /* Also where it failed half-way: rows that came back name events of this incarnation. */
        if (ask->reply.partitions[i].incarnation == 0 || snapshot->sequence != 0 || snapshot->incarnation != 0) continue;
        *snapshot = (co_snapshot){ask->reply.partitions[i].incarnation, ask->reply.partitions[i].sequence};
    }
}

static void note_ask(co_fanout *fanout, const co_ask *ask) {
    bool is_answered = ask->state == CO_ASK_ANSWERED;
    if (is_answered && ask->reply.status == HD_OK) {
        note_result(fanout, ask, 0);
        return;
    }
    hd_status code = is_answered ? ask->reply.status : HD_SHARD_DOWN;
    for (uint32_t i = 0; i < ask->partition_count; i++) {
        fail_part(&fanout->parts[ask->partitions[i]], code, is_answered ? hd_status_meaning(code) : ask->why);
    }
}

static bool is_any_code(const co_fanout *fanout, hd_status code) {
    for (uint32_t p = 0; p < fanout->org->partition_count; p++) {
        const co_part *part = &fanout->parts[p];
        if (part->is_asked && part->reach == HD_REACH_FAILED && part->code == code) return true;
    }
    return false;
}

/* ---- outcome ---- */

static hd_status describe_cut(const co_fanout *fanout, hd_cap cap, struct co_cut *cut, uint32_t asked) {
    uint32_t first = 0;
    while (fanout->parts[first].cap != cap || !fanout->parts[first].is_asked) first++;
    const co_part *part = &fanout->parts[first];
    if (part->reach == HD_REACH_CUT) {
        return hd_arena_printf(fanout->arena, &cut->detail, "in %llu of %u partitions", (unsigned long long)cut->partitions, asked);
    }
    hd_str more = {"", 0};
    if (cut->partitions > 1) {
        HD_TRY(hd_arena_printf(fanout->arena, &more, "; likewise %llu more", (unsigned long long)cut->partitions - 1));
    }
    return hd_arena_printf(fanout->arena, &cut->detail, "partition %u of %u (shard %s): %s" HD_STR_FMT, first + 1,
                           fanout->org->partition_count, fanout->org->partitions[first].shard, part->why, HD_STR_ARG(more));
}

/* One cut for each cap that ended the step somewhere, in the order of the caps. */
static hd_status sum_up(const co_fanout *fanout, uint64_t started_us, co_step_outcome *outcome) {
    *outcome = (co_step_outcome){.us = hd_clock_monotonic_us() - started_us, .done = UINT32_MAX};
    uint64_t cut_partitions[HD_CAP_NONE + 1] = {0};
    for (uint32_t p = 0; p < fanout->org->partition_count; p++) {
        const co_part *part = &fanout->parts[p];
        if (!part->is_asked) continue;
        outcome->partitions_asked++;
        if (part->reach != HD_REACH_COMPLETE) cut_partitions[part->cap]++;
        if (part->is_answered && part->reach != HD_REACH_COMPLETE) outcome->done = HD_MIN(outcome->done, part->done);
        if (part->is_answered) {
            outcome->n_live += part->n_live;
            outcome->n_vectors += part->n_vectors;
        } else {
            outcome->is_any_missing = true;
        }
    }
    HD_ALLOC(outcome->cuts, fanout->arena, HD_CAP_NONE);
    for (hd_cap cap = 0; cap < HD_CAP_NONE; cap++) {
        if (cut_partitions[cap] == 0) continue;
        struct co_cut *cut = &outcome->cuts[outcome->cut_count++];
        *cut = (struct co_cut){.cap = cap, .partitions = cut_partitions[cap]};
        HD_TRY(describe_cut(fanout, cap, cut, outcome->partitions_asked));
    }
    outcome->is_complete = outcome->cut_count == 0;
    return HD_OK;
}

/* ---- rounds ---- */

typedef struct pieces {
    co_piece *items;
    uint32_t count, capacity;
    bool is_any_resumed;            /* then a partition stands behind several pieces */
    const hd_step_result **last_of; /* by group: its newest piece */
} pieces;

static hd_status add_piece(co_fanout *fanout, pieces *list, const co_ask *ask) {
    if (list->count == list->capacity) {
        uint32_t capacity = HD_MAX(8, list->capacity * 2);
        list->items = hd_arena_grow(fanout->scratch, list->items, list->capacity * sizeof(co_piece), capacity * sizeof(co_piece));
        if (list->items == NULL) return HD_MEMORY;
        list->capacity = capacity;
    }
    list->items[list->count++] = (co_piece){&ask->reply.results[0], ask->rows, ask->edge_rows};
    list->last_of[ask->group] = &ask->reply.results[0];
    list->is_any_resumed |= ask->is_resumed;
    return HD_OK;
}

/* Can the partition go on from where a share of a COUNT cap stopped it? */
static bool can_go_on(const co_fanout *fanout, const co_part *part) {
    if (part->reach != HD_REACH_CUT || part->resume.data == NULL) return false;
    return (part->cap == HD_CAP_SCANNED || part->cap == HD_CAP_MEASURED) && hd_budget_left(fanout->budget, part->cap) > 0;
}

static bool can_retry(const co_part *part) {
    return part->reach == HD_REACH_FAILED && part->code == HD_MAP_STALE && !part->is_retried;
}

/* From one ask of the last round those partitions that are asked again, for the same part of the frontier: to go on, or
 * (`is_retry`) once more because the shard did not know them. */
static hd_status ask_again(co_fanout *fanout, const co_ask *last, bool is_retry, co_ask *asks, uint32_t *count) {
    co_ask *ask = &asks[*count];
    *ask = (co_ask){.group = last->group, .is_resumed = !is_retry, .steps = last->steps, .step_count = 1};
    ask->rows = last->rows;
    ask->edge_rows = last->edge_rows;
    HD_ALLOC(ask->partitions, fanout->scratch, last->partition_count);
    for (uint32_t i = 0; i < last->partition_count; i++) {
        co_part *part = &fanout->parts[last->partitions[i]];
        if (is_retry ? !can_retry(part) : !can_go_on(fanout, part)) continue;
        part->is_retried |= is_retry;
        ask->partitions[ask->partition_count++] = last->partitions[i];
    }
    if (ask->partition_count > 0) (*count)++;
    return HD_OK;
}

/* Of the last round's asks only the first `sent_count` were sent; the others wait for their turn. */
static hd_status next_round(co_fanout *fanout, const co_ask *last, uint32_t sent_count, uint32_t last_count, co_ask **asks_out,
                            uint32_t *count_out) {
    co_ask *asks;
    uint32_t count = 0;
    HD_ALLOC(asks, fanout->scratch, (size_t)last_count * 2);
    for (uint32_t i = 0; i < last_count; i++) {
        if (i >= sent_count && !last[i].is_resumed) {
            asks[count++] = last[i];
            continue;
        }
        HD_TRY(ask_again(fanout, &last[i], false, asks, &count));
        if (i < sent_count) HD_TRY(ask_again(fanout, &last[i], true, asks, &count));
    }
    *asks_out = asks;
    *count_out = count;
    return HD_OK;
}

/* All that is left was not enough to get this ask any further. */
static void give_up(co_fanout *fanout, const co_ask *ask) {
    for (uint32_t i = 0; i < ask->partition_count; i++) fanout->parts[ask->partitions[i]].resume = (hd_str){NULL, 0};
}

/* Runs rounds until nothing is left to ask. In a round all are asked at once and share what the budget has left. When no share is
 * enough for the next thing to read, they are asked one after the other, each with all that is left: so nothing is cut that the budget
 * could have paid for. HD_SNAPSHOT_GONE as in fanout.h. */
static hd_status run_rounds(co_fanout *fanout, const hd_step *step, pieces *list) {
    co_ask *asks;
    uint32_t count;
    bool is_in_turn = false;
    HD_TRY(co_fanout_split(fanout, step, &asks, &count));
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < asks[i].partition_count; k++) mark_asked(&fanout->parts[asks[i].partitions[k]]);
    }
    for (uint32_t round = 0; round < ROUNDS_MAX && count > 0; round++) {
        uint64_t used = 0;
        uint32_t sent = is_in_turn ? 1 : count;
        if (hd_clock_monotonic_us() >= fanout->deadline_us) break;
        share_out(fanout, asks, sent);
        HD_TRY(co_fanout_gather(fanout, asks, sent));
        for (uint32_t i = 0; i < sent; i++) {
            note_ask(fanout, &asks[i]);
            if (asks[i].state != CO_ASK_ANSWERED || asks[i].reply.status != HD_OK) continue;
            used += charge(fanout, &asks[i]);
            HD_TRY(add_piece(fanout, list, &asks[i]));
        }
        if (!fanout->was_restarted && is_any_code(fanout, HD_SNAPSHOT_GONE)) return HD_SNAPSHOT_GONE;
        if (used == 0 && sent == 1) give_up(fanout, &asks[0]);
        is_in_turn |= used == 0;
        HD_TRY(next_round(fanout, asks, sent, count, &asks, &count));
    }
    if (hd_clock_monotonic_us() < fanout->deadline_us) return HD_OK;
    for (uint32_t p = 0; p < fanout->org->partition_count; p++) {
        co_part *part = &fanout->parts[p];
        if (part->is_asked && can_go_on(fanout, part)) part->cap = HD_CAP_DEADLINE; /* not the budget stopped it */
    }
    return HD_OK;
}

/* ---- a step ---- */

static void begin_step(co_fanout *fanout) {
    hd_arena_reset(fanout->scratch);
    memset(fanout->parts, 0, fanout->org->partition_count * sizeof(*fanout->parts));
}

/* The step as it is sent: vectors know their length, and NEXT has what its merge needs. */
static hd_step complete_step(const hd_step *step) {
    hd_step sent = *step;
    if (sent.events.vectors != NULL && sent.events.dimension == 0) sent.events.dimension = step->dimension;
    if (sent.kind == HD_STEP_NEXT) sent.facets |= HD_FACET_TIME | HD_FACET_ORDER;
    return sent;
}

static hd_status finish_step(co_fanout *fanout, const hd_step *step, uint32_t frontier_count, const pieces *list,
                             uint64_t started_us, hd_step_result *result_out, co_step_outcome *outcome_out) {
    HD_TRY(sum_up(fanout, started_us, outcome_out));
    co_merge merge = {.arena = fanout->arena,
                      .scratch = fanout->scratch,
                      .step = step,
                      .frontier_count = frontier_count,
                      .edge_count = step->kind == HD_STEP_MEASURE ? hd_edges_count(&step->edges) : 0,
                      .pieces = list->items,
                      .piece_count = list->count,
                      .are_pieces_disjoint = !list->is_any_resumed,
                      .is_whole = outcome_out->is_complete};
    HD_TRY(co_merge_run(&merge, result_out));
    result_out->is_candidates_exact = !outcome_out->is_any_missing;
    for (uint32_t g = 0; g < fanout->group_count; g++) {
        if (list->last_of[g] != NULL && !list->last_of[g]->is_candidates_exact) result_out->is_candidates_exact = false;
    }
    return HD_OK;
}

hd_status co_fanout_run(co_fanout *fanout, const hd_step *step, hd_step_result *result_out, co_step_outcome *outcome_out) {
    uint64_t started_us = hd_clock_monotonic_us();
    hd_step sent = complete_step(step);
    pieces list = {0};
    begin_step(fanout);
    HD_ALLOC(list.last_of, fanout->scratch, fanout->group_count);
    HD_TRY(run_rounds(fanout, &sent, &list));
    uint32_t frontier_count = step->frontier_label == HD_LABEL_EVENT ? step->events.count : step->names.count;
    return finish_step(fanout, &sent, frontier_count, &list, started_us, result_out, outcome_out);
}

/* ---- a chain ---- */

bool co_fanout_can_chain(const co_fanout *fanout) {
    return fanout->group_count == 1;
}

static uint32_t frontier_of(const hd_step *step, const hd_step_result *results) {
    bool is_event = step->frontier_label == HD_LABEL_EVENT;
    if (step->from_result < 0) return is_event ? step->events.count : step->names.count;
    const hd_step_result *source = &results[step->from_result];
    if (step->kind == HD_STEP_MEASURE) return source->edges.from_count;
    return is_event ? source->events.count : source->names.count;
}

/* Results and outcomes of a chain that was answered. */
static hd_status finish_chain(co_fanout *fanout, const hd_step *steps, const co_ask *ask, uint64_t started_us,
                              hd_step_result *results_out, co_step_outcome *outcomes_out, uint32_t *count_out) {
    pieces list = {0};
    HD_ALLOC(list.last_of, fanout->scratch, fanout->group_count);
    for (uint32_t i = 0; i < ask->reply.result_count; i++) {
        hd_step step = steps[i];
        if (step.kind == HD_STEP_MEASURE && step.from_result >= 0) step.edges = results_out[step.from_result].edges;
        co_piece piece = {.result = &ask->reply.results[i]};
        mark_all_asked(fanout);
        note_result(fanout, ask, i);
        list.items = &piece;
        list.count = 1;
        list.last_of[0] = piece.result;
        HD_TRY(finish_step(fanout, &step, frontier_of(&step, results_out), &list, started_us, &results_out[i], &outcomes_out[i]));
        *count_out = i + 1;
    }
    return HD_OK;
}

hd_status co_fanout_run_chain(co_fanout *fanout, const hd_step *steps, uint32_t step_count, hd_step_result *results_out,
                              co_step_outcome *outcomes_out, uint32_t *count_out) {
    HD_CHECK(co_fanout_can_chain(fanout) && step_count >= 1);
    uint64_t started_us = hd_clock_monotonic_us();
    *count_out = 0;
    begin_step(fanout);
    hd_step *sent;
    co_ask *ask;
    HD_ALLOC(sent, fanout->scratch, step_count);
    HD_ALLOC(ask, fanout->scratch, 1);
    for (uint32_t i = 0; i < step_count; i++) sent[i] = complete_step(&steps[i]);
    *ask = (co_ask){.group = 0,
                    .partitions = fanout->groups[0].partitions,
                    .partition_count = fanout->groups[0].partition_count,
                    .steps = sent,
                    .step_count = step_count};
    share_out(fanout, ask, 1);
    mark_all_asked(fanout);
    if (started_us < fanout->deadline_us) {
        HD_TRY(co_fanout_gather(fanout, ask, 1));
        note_ask(fanout, ask);
    }
    if (!fanout->was_restarted && is_any_code(fanout, HD_SNAPSHOT_GONE)) return HD_SNAPSHOT_GONE;
    if (is_any_code(fanout, HD_MAP_STALE)) { /* the first step, alone, may get further at the second attempt */
        *count_out = 1;
        return co_fanout_run(fanout, &steps[0], &results_out[0], &outcomes_out[0]);
    }
    if (ask->state != CO_ASK_ANSWERED || ask->reply.status != HD_OK) {
        pieces none = {0};
        HD_ALLOC(none.last_of, fanout->scratch, fanout->group_count);
        *count_out = 1;
        return finish_step(fanout, &sent[0], frontier_of(&sent[0], NULL), &none, started_us, &results_out[0], &outcomes_out[0]);
    }
    (void)charge(fanout, ask);
    return finish_chain(fanout, sent, ask, started_us, results_out, outcomes_out, count_out);
}
