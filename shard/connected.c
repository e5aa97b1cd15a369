/* CONNECTED (entity – entity by common events): for each entity of the frontier its postings are read, and for each event that is
 * seen the other entities of the event are counted. Token {frontier index, offset in its postings}: a piece gives only what it
 * counted itself, so counts of pieces, like those of partitions, add up. A verdict that was cut tells in `done` how many nodes are
 * wholly counted. */
#include "shard/step_private.h"

typedef struct connected_pair {
    uint32_t from, to; /* index in the frontier; in work.names */
    uint64_t count;
} connected_pair;

typedef struct connected_state {
    connected_pair *pairs; /* distinct */
    uint32_t pair_count, pair_capacity;
    hd_map64 pair_of;  /* (from, to) → index in pairs */
    uint32_t *tally;   /* by number in the part that is visited: events counted for the node at hand */
    uint32_t *touched; /* the numbers whose tally is not 0, as they were met */
    uint32_t touched_count;
} connected_state;

static hd_status open_connected(sh_run *run, sh_work *work) {
    connected_state *state;
    HD_ALLOC(state, run->arena, 1);
    hd_map64_init(&state->pair_of, run->arena);
    work->state = state;
    return HD_OK;
}

static void count_event(connected_state *state, const sh_view *view, sh_slot slot, uint32_t self) {
    uint32_t count;
    const uint32_t *numbers = sh_view_entities_sorted(view, slot, &count);
    for (uint32_t k = 0; k < count; k++) {
        if (numbers[k] == self) continue;
        if (state->tally[numbers[k]]++ == 0) state->touched[state->touched_count++] = numbers[k];
    }
}

/* Adds what was counted for a frontier node in this part to its pairs, and leaves the tally empty. */
static hd_status add_pairs(sh_run *run, sh_work *work, uint32_t part, uint32_t from) {
    connected_state *state = work->state;
    for (uint32_t t = 0; t < state->touched_count; t++) {
        uint32_t number = state->touched[t], to, index;
        bool is_new;
        HD_TRY(sh_work_name(run, work, part, false, number, &to));
        HD_TRY(hd_map64_put(&state->pair_of, (uint64_t)from << 32 | to, state->pair_count, &index, &is_new));
        if (is_new) {
            HD_TRY(sh_grow(run->arena, &state->pairs, &state->pair_capacity, state->pair_count + 1, sizeof(*state->pairs)));
            state->pairs[state->pair_count++] = (connected_pair){.from = from, .to = to};
        }
        state->pairs[index].count += state->tally[number];
        state->tally[number] = 0;
    }
    state->touched_count = 0;
    return HD_OK;
}

static hd_status cut_at(sh_run *run, uint32_t part, uint32_t i, uint32_t offset) {
    run->parts[part].verdict->done = i;
    return sh_run_cut(run, part, &(sh_token){{i, offset}});
}

static hd_status visit_connected(sh_run *run, sh_work *work, uint32_t part) {
    connected_state *state = work->state;
    const sh_view *view = &run->parts[part].view;
    const sh_token *token = &run->parts[part].token;
    HD_ALLOC(state->tally, run->arena, sh_view_entity_numbers(view));
    HD_ALLOC(state->touched, run->arena, sh_view_entity_numbers(view));
    /* Beyond any frontier or list: a token from elsewhere just finds nothing left. */
    uint32_t first = (uint32_t)HD_MIN(token->at[0], (uint64_t)UINT32_MAX),
             offset = (uint32_t)HD_MIN(token->at[1], (uint64_t)UINT32_MAX);
    for (uint32_t i = first; i < work->frontier.count; i++) {
        if (!sh_run_go_on(run, 1)) return cut_at(run, part, i, i == first ? offset : 0);
        uint32_t number = sh_view_find_entity(view, work->frontier.names->ids[i]);
        if (number == SH_NONE || sh_view_entity_count(view, number) == 0) continue;
        sh_postings postings = sh_view_entity_postings(view, number);
        for (uint32_t p = i == first ? offset : 0; p < postings.count; p++) {
            if (!sh_run_take_scanned(run)) {
                HD_TRY(add_pairs(run, work, part, i));
                return cut_at(run, part, i, p);
            }
            if (sh_view_is_visible(view, postings.slots[p])) count_event(state, view, postings.slots[p], number);
        }
        HD_TRY(add_pairs(run, work, part, i));
    }
    return HD_OK;
}

static hd_status close_connected(sh_run *run, sh_work *work) {
    const connected_state *state = work->state;
    hd_edges *edges = &work->result->edges;
    uint32_t *next;
    edges->from_count = work->frontier.count;
    HD_ALLOC(edges->offsets, run->arena, (size_t)edges->from_count + 1);
    HD_ALLOC(edges->to, run->arena, state->pair_count);
    HD_ALLOC(edges->counts, run->arena, state->pair_count);
    HD_ALLOC(next, run->arena, edges->from_count);
    for (uint32_t e = 0; e < state->pair_count; e++) edges->offsets[state->pairs[e].from + 1]++;
    for (uint32_t f = 0; f < edges->from_count; f++) {
        next[f] = edges->offsets[f];
        edges->offsets[f + 1] += edges->offsets[f];
    }
    for (uint32_t e = 0; e < state->pair_count; e++) {
        uint32_t at = next[state->pairs[e].from]++;
        edges->to[at] = state->pairs[e].to;
        edges->counts[at] = state->pairs[e].count;
    }
    return sh_work_put_names(run, work);
}

const sh_step_ops sh_connected_ops = {.open = open_connected, .visit = visit_connected, .close = close_connected};
