/* Whom to ask, and for what. What only an event's owner can answer (FACTS of events, MEASURE) is cut up: a shard gets the frontier
 * nodes and edges that its partitions own, and only these partitions are asked. Everything else goes to all, whole. */
#include "common/ids.h"
#include "coordinator/run/fanout_private.h"

/* Adds an ask with the partitions of the group that `is_wanted` (by partition; NULL: all) names; none when there are none. */
static hd_status add_ask(co_fanout *fanout, uint32_t group, const bool *is_wanted, const hd_step *step, co_ask *asks,
                         uint32_t *count) {
    const co_group *shard = &fanout->groups[group];
    co_ask *ask = &asks[*count];
    *ask = (co_ask){.group = group, .steps = step, .step_count = 1};
    HD_ALLOC(ask->partitions, fanout->scratch, shard->partition_count);
    for (uint32_t i = 0; i < shard->partition_count; i++) {
        if (is_wanted == NULL || is_wanted[shard->partitions[i]]) ask->partitions[ask->partition_count++] = shard->partitions[i];
    }
    if (ask->partition_count > 0) (*count)++;
    return HD_OK;
}

static hd_status owners_of(const co_fanout *fanout, const hd_event_batch *events, bool *is_wanted, uint32_t **owners_out) {
    HD_ALLOC(*owners_out, fanout->scratch, events->count);
    for (uint32_t i = 0; i < events->count; i++) {
        (*owners_out)[i] = events->locals != NULL ? hd_local_ordinal(events->locals[i])
                                                  : hd_event_partition(events->ids[i], fanout->org->partition_count);
        HD_CHECK((*owners_out)[i] < fanout->org->partition_count);
        is_wanted[(*owners_out)[i]] = true;
    }
    return HD_OK;
}

/* The rows of a batch, as many columns as a frontier of these steps has. */
static hd_status pick_events(hd_arena *scratch, const hd_event_batch *from, const uint32_t *rows, uint32_t count,
                             hd_event_batch *to) {
    *to = (hd_event_batch){.count = count, .dimension = from->dimension};
    if (from->locals != NULL) HD_ALLOC(to->locals, scratch, count);
    if (from->ids != NULL) HD_ALLOC(to->ids, scratch, count);
    if (from->flags != NULL) HD_ALLOC(to->flags, scratch, count);
    if (from->vectors != NULL) HD_ALLOC(to->vectors, scratch, (size_t)count * from->dimension);
    for (uint32_t i = 0; i < count; i++) {
        if (to->locals != NULL) to->locals[i] = from->locals[rows[i]];
        if (to->ids != NULL) to->ids[i] = from->ids[rows[i]];
        if (to->flags != NULL) to->flags[i] = from->flags[rows[i]];
        if (to->vectors == NULL) continue;
        memcpy(to->vectors + (size_t)i * to->dimension, from->vectors + (size_t)rows[i] * to->dimension,
               to->dimension * sizeof(float));
    }
    return HD_OK;
}

/* ---- FACTS of events ---- */

static hd_status split_facts(co_fanout *fanout, const hd_step *step, const bool *is_wanted, const uint32_t *owners, co_ask *asks,
                             uint32_t *count) {
    for (uint32_t g = 0; g < fanout->group_count; g++) {
        uint32_t before = *count, picked = 0, *rows;
        hd_step *part;
        HD_ALLOC(part, fanout->scratch, 1);
        HD_ALLOC(rows, fanout->scratch, step->events.count);
        for (uint32_t i = 0; i < step->events.count; i++) {
            if (fanout->group_of[owners[i]] == g) rows[picked++] = i;
        }
        *part = *step;
        HD_TRY(pick_events(fanout->scratch, &step->events, rows, picked, &part->events));
        HD_TRY(add_ask(fanout, g, is_wanted, part, asks, count));
        if (*count > before) asks[before].rows = rows;
    }
    return HD_OK;
}

/* ---- MEASURE ---- */

/* Copies the edges that end in group `g`, with the ends they need, each once. */
static hd_status pick_edges(co_fanout *fanout, const hd_step *step, const uint32_t *owners, uint32_t g, hd_step *part,
                            uint32_t **edge_rows_out) {
    hd_arena *scratch = fanout->scratch;
    const hd_edges *edges = &step->edges;
    uint32_t from_count = 0, to_count = 0, edge_count = 0, *from_rows, *to_rows, *to_place, *edge_rows;
    HD_ALLOC(from_rows, scratch, step->events.count);
    HD_ALLOC(to_rows, scratch, step->to_events.count);
    HD_ALLOC(to_place, scratch, step->to_events.count); /* 1 + the new row */
    HD_ALLOC(edge_rows, scratch, hd_edges_count(edges));
    *part = *step;
    part->edges = (hd_edges){0};
    HD_ALLOC(part->edges.offsets, scratch, (size_t)step->events.count + 1);
    HD_ALLOC(part->edges.to, scratch, hd_edges_count(edges));
    for (uint32_t i = 0; i < step->events.count; i++) {
        uint32_t before = edge_count;
        for (uint32_t e = edges->offsets[i]; e < edges->offsets[i + 1]; e++) {
            uint32_t to = edges->to[e];
            if (fanout->group_of[owners[to]] != g) continue;
            if (to_place[to] == 0) {
                to_rows[to_count++] = to;
                to_place[to] = to_count;
            }
            part->edges.to[edge_count] = to_place[to] - 1;
            edge_rows[edge_count++] = e;
        }
        if (edge_count == before) continue;
        from_rows[from_count++] = i;
        part->edges.offsets[from_count] = edge_count;
    }
    part->edges.from_count = from_count;
    *edge_rows_out = edge_rows;
    HD_TRY(pick_events(scratch, &step->events, from_rows, from_count, &part->events));
    return pick_events(scratch, &step->to_events, to_rows, to_count, &part->to_events);
}

static hd_status split_measure(co_fanout *fanout, const hd_step *step, const bool *is_wanted, const uint32_t *owners, co_ask *asks,
                               uint32_t *count) {
    for (uint32_t g = 0; g < fanout->group_count; g++) {
        uint32_t before = *count, *edge_rows;
        hd_step *part;
        HD_ALLOC(part, fanout->scratch, 1);
        HD_TRY(add_ask(fanout, g, is_wanted, part, asks, count));
        if (*count == before) continue;
        HD_TRY(pick_edges(fanout, step, owners, g, part, &edge_rows));
        asks[before].edge_rows = edge_rows;
    }
    return HD_OK;
}

/* ---- all ---- */

/* An owner's step for an empty frontier asks nobody; the merge of no pieces is the empty answer. */
static hd_status split_by_owner(co_fanout *fanout, const hd_step *step, co_ask *asks, uint32_t *count) {
    bool is_measure = step->kind == HD_STEP_MEASURE;
    bool *is_wanted;
    uint32_t *owners, *from_owners;
    HD_ALLOC(is_wanted, fanout->scratch, fanout->org->partition_count);
    if (is_measure && hd_edges_count(&step->edges) == 0) return HD_OK;
    HD_TRY(owners_of(fanout, is_measure ? &step->to_events : &step->events, is_wanted, &owners));
    /* Vectors that do not come along have to be found among the partitions asked. */
    if (is_measure && step->events.vectors == NULL) HD_TRY(owners_of(fanout, &step->events, is_wanted, &from_owners));
    if (fanout->group_count == 1) return add_ask(fanout, 0, is_wanted, step, asks, count);
    return is_measure ? split_measure(fanout, step, is_wanted, owners, asks, count)
                      : split_facts(fanout, step, is_wanted, owners, asks, count);
}

hd_status co_fanout_split(co_fanout *fanout, const hd_step *step, co_ask **asks_out, uint32_t *count_out) {
    co_ask *asks;
    uint32_t count = 0;
    HD_ALLOC(asks, fanout->scratch, fanout->group_count);
    *count_out = 0;
    *asks_out = asks;
    bool is_by_owner = step->kind == HD_STEP_MEASURE || (step->kind == HD_STEP_FACTS && step->frontier_label == HD_LABEL_EVENT);
    if (is_by_owner) {
        HD_TRY(split_by_owner(fanout, step, asks, &count));
    } else {
        for (uint32_t g = 0; g < fanout->group_count; g++) HD_TRY(add_ask(fanout, g, NULL, step, asks, &count));
    }
    *count_out = count;
    return HD_OK;
}
