/* AGGREGATE: groups rows by the items without aggregates, adds up the aggregates, and gives one row a group: the group's first row in the
 * total order, with the group in its last cell (the expression environment finds the aggregates by it). Rows stream through, only
 * groups are held; where an aggregate feels the order of rows, the plan put a SORT before this. Without such items there is one
 * group, even of no rows. */
#include "coordinator/plan/needs.h"
#include "coordinator/run/accumulate.h"
#include "coordinator/run/groups.h"
#include "coordinator/run/op.h"

/* Pairs of a group and a node's handle that were met: a bit each, in words of 64 neighbouring handles. Handles are given in the order in
 * which nodes come, so a group's lie close together, and the word wanted is mostly the last one. */
typedef struct seen_pairs {
    hd_map64 word_of; /* group << 32 | handle / 64 → index of the word */
    uint64_t *words;
    uint32_t count, capacity;
    uint64_t last_key;
    uint32_t last_word;
} seen_pairs;

typedef struct aggregate_state {
    co_cursor cursor;
    const hd_expr **keys; /* the items without aggregates */
    uint32_t key_count;
    hd_value *values; /* of the current row's keys */
    co_groups groups;
    co_accumulator *accumulators; /* group × aggregate */
    uint32_t accumulator_capacity;
    co_groups *seen;        /* by aggregate with DISTINCT: (group, value) */
    seen_pairs *seen_nodes; /* the same where the value is a node */
    bool are_counts;        /* no aggregate looks at a value */
    uint32_t *key_vars;     /* variables that the keys stand on */
    uint32_t key_var_count;
    uint32_t *last_row; /* rows that follow each other mostly share their keys' variables, and so their group */
    uint32_t last_group;
    bool is_taken;
    uint32_t emitted;
} aggregate_state;

static hd_status list_key_vars(co_op *op, aggregate_state *state) {
    const co_query *query = op->run->query;
    co_needs needs;
    HD_TRY(co_needs_init(&needs, op->run->arena, query));
    HD_ALLOC(state->key_vars, op->run->arena, query->var_count);
    for (uint32_t i = 0; i < query->item_count; i++)
        if (!query->items[i].has_aggregate) HD_TRY(co_needs_add(&needs, query->items[i].expr));
    for (uint32_t v = 0; v < query->var_count; v++)
        if (needs.vars[v]) state->key_vars[state->key_var_count++] = v;
    return HD_OK;
}

static bool is_node_var(const co_query *query, const hd_expr *expr) {
    return expr->kind == HD_EXPR_VAR && !query->vars[expr->index].is_relation;
}

/* count asks of its argument only whether it is null, which a node never is. */
static bool is_counted(const co_query *query, const hd_expr *aggregate) {
    return aggregate->aggregate == HD_AGG_COUNT && (aggregate->arg_count == 0 || is_node_var(query, aggregate->args[0]));
}

static hd_status open_aggregate(co_op *op) {
    const co_query *query = op->run->query;
    aggregate_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    HD_ALLOC(state->keys, op->run->arena, query->item_count);
    HD_ALLOC(state->values, op->run->arena, query->item_count);
    HD_ALLOC(state->seen, op->run->arena, query->aggregate_count);
    HD_ALLOC(state->seen_nodes, op->run->arena, query->aggregate_count);
    HD_ALLOC(state->last_row, op->run->arena, query->var_count);
    for (uint32_t i = 0; i < query->item_count; i++)
        if (!query->items[i].has_aggregate) state->keys[state->key_count++] = query->items[i].expr;
    co_groups_init(&state->groups, op->run, state->key_count, op->step->order_end);
    state->are_counts = true;
    for (uint32_t i = 0; i < query->aggregate_count; i++) {
        co_groups_init(&state->seen[i], op->run, 2, 0);
        hd_map64_init(&state->seen_nodes[i].word_of, op->run->arena);
        state->seen_nodes[i].last_key = UINT64_MAX;
        state->are_counts = state->are_counts && is_counted(query, query->aggregates[i]);
    }
    state->last_group = CO_CELL_NONE;
    op->state = state;
    return list_key_vars(op, state);
}

static hd_status find_word(hd_arena *arena, seen_pairs *seen, uint64_t key, uint64_t **word_out) {
    bool is_new;
    if (key != seen->last_key) {
        HD_TRY(hd_map64_put(&seen->word_of, key, seen->count, &seen->last_word, &is_new));
        seen->last_key = key;
        if (is_new) {
            HD_TRY(CO_GROW(arena, seen->words, seen->capacity, seen->count));
            seen->words[seen->count++] = 0;
        }
    }
    *word_out = &seen->words[seen->last_word];
    return HD_OK;
}

/* DISTINCT: has this value not been met in this group? */
static hd_status is_first(co_op *op, aggregate_state *state, const uint32_t *row, uint32_t group, uint32_t index,
                          const hd_value *value, bool *is_first_out) {
    const hd_expr *argument = op->run->query->aggregates[index]->args[0];
    uint32_t place;
    if (is_node_var(op->run->query, argument)) {
        uint32_t handle = row[argument->index];
        uint64_t *word, bit = UINT64_C(1) << handle % 64;
        HD_TRY(find_word(op->run->arena, &state->seen_nodes[index], (uint64_t)group << 32 | handle / 64, &word));
        *is_first_out = !(*word & bit);
        *word |= bit;
        return HD_OK;
    }
    hd_value pair[2] = {hd_value_int(group), *value};
    return co_groups_put(&state->seen[index], pair, NULL, CO_CELL_NONE, &place, is_first_out);
}

static hd_status add_value(co_op *op, aggregate_state *state, const uint32_t *row, uint32_t group, uint32_t index) {
    co_run *run = op->run;
    const hd_expr *aggregate = run->query->aggregates[index];
    co_accumulator *accumulator = &state->accumulators[(size_t)group * run->query->aggregate_count + index];
    hd_value value = HD_VALUE_NULL;
    if (!is_counted(run->query, aggregate)) {
        HD_TRY(co_run_eval(run, row, aggregate->args[0], &value));
        if (value.type == HD_TYPE_NULL) return HD_OK;
    }
    if (aggregate->is_distinct) {
        bool is_first_met;
        HD_TRY(is_first(op, state, row, group, index, &value, &is_first_met));
        if (!is_first_met) return HD_OK;
    }
    HD_TRY(co_accumulate(run->arena, accumulator, aggregate->aggregate, &value));
    if (accumulator->is_capped) run->notable.is_collect_capped = true;
    return HD_OK;
}

static hd_status find_group(co_op *op, aggregate_state *state, const uint32_t *row, uint32_t *group_out) {
    co_run *run = op->run;
    uint32_t per_group = run->query->aggregate_count;
    bool is_new;
    HD_TRY(co_groups_put(&state->groups, state->values, row, co_run_rows_max(run), group_out, &is_new));
    if (*group_out == CO_CELL_NONE) return co_run_cut(run, op->step, "rows", HD_CAP_ROWS, (uint64_t)state->groups.count + 1);
    if (!is_new) return HD_OK;
    HD_TRY(co_grow(run->arena, (void **)&state->accumulators, &state->accumulator_capacity, *group_out,
                   per_group * sizeof(co_accumulator)));
    memset(&state->accumulators[(size_t)*group_out * per_group], 0, per_group * sizeof(co_accumulator));
    return HD_OK;
}

static bool is_of_last_group(const aggregate_state *state, const uint32_t *row) {
    if (state->last_group == CO_CELL_NONE) return false;
    for (uint32_t i = 0; i < state->key_var_count; i++)
        if (row[state->key_vars[i]] != state->last_row[state->key_vars[i]]) return false;
    return true;
}

static hd_status take_row(co_op *op, aggregate_state *state, const uint32_t *row) {
    co_run *run = op->run;
    if (is_of_last_group(state, row) && state->are_counts && state->groups.order_end == 0) { /* nothing to compute or compare */
        for (uint32_t i = 0; i < run->query->aggregate_count; i++) HD_TRY(add_value(op, state, row, state->last_group, i));
        return HD_OK;
    }
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    if (is_of_last_group(state, row)) {
        co_groups_offer(&state->groups, state->last_group, row);
    } else {
        for (uint32_t i = 0; i < state->key_count; i++) HD_TRY(co_run_eval(run, row, state->keys[i], &state->values[i]));
        HD_TRY(find_group(op, state, row, &state->last_group));
        memcpy(state->last_row, row, run->query->var_count * sizeof(*row));
    }
    for (uint32_t i = 0; i < run->query->aggregate_count && state->last_group != CO_CELL_NONE; i++)
        HD_TRY(add_value(op, state, row, state->last_group, i));
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}

/* The aggregates of every group, where the expression environment looks for them. */
static hd_status publish_values(co_op *op, aggregate_state *state) {
    co_run *run = op->run;
    uint32_t per_group = run->query->aggregate_count;
    HD_ALLOC(run->group_values, run->arena, (size_t)state->groups.count * per_group);
    for (size_t i = 0; i < (size_t)state->groups.count * per_group; i++)
        run->group_values[i] = co_accumulator_value(&state->accumulators[i], run->query->aggregates[i % per_group]->aggregate);
    hd_budget_peak(run->budget, HD_CAP_ROWS, state->groups.count);
    return HD_OK;
}

static hd_status take_all(co_op *op, aggregate_state *state) {
    for (;;) {
        const uint32_t *row;
        HD_TRY(co_op_pull(op, &state->cursor, &row));
        if (row == NULL) break;
        HD_TRY(take_row(op, state, row));
    }
    if (state->key_count == 0 && state->groups.count == 0) {
        uint32_t *nothing, group;
        co_rows empty;
        co_rows_init(&empty, op->run->arena, op->run->query->var_count + 1);
        HD_TRY(co_rows_append(&empty, NULL, &nothing));
        HD_TRY(find_group(op, state, nothing, &group));
    }
    state->is_taken = true;
    return publish_values(op, state);
}

static hd_status next_aggregate(co_op *op) {
    aggregate_state *state = op->state;
    if (!state->is_taken) HD_TRY(take_all(op, state));
    uint32_t batch_max = co_run_batch_max(op->run), *added;
    for (; state->emitted < state->groups.count && op->out.count < batch_max; state->emitted++) {
        HD_TRY(co_rows_append(&op->out, co_rows_get(&state->groups.rows, state->emitted), &added));
        added[op->run->query->var_count] = state->emitted;
    }
    op->is_end = state->emitted == state->groups.count;
    return HD_OK;
}

const co_op_table co_op_aggregate_table = {open_aggregate, next_aggregate, NULL};
