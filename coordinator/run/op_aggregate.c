/* AGGREGATE: groups rows by the items without aggregates, adds up the aggregates, and gives one row a group: the group's first row in the
 * total order, with the group in its last cell (the expression environment finds the aggregates by it). Rows stream through, only
 * groups are held; where an aggregate feels the order of rows, the plan put a SORT before this. Without such items there is one
 * group, even of no rows. */
#include "coordinator/run/accumulate.h"
#include "coordinator/run/groups.h"
#include "coordinator/run/op.h"

typedef struct aggregate_state {
    co_cursor cursor;
    const hd_expr **keys; /* the items without aggregates */
    uint32_t key_count;
    hd_value *values; /* of the current row's keys */
    co_groups groups;
    co_accumulator *accumulators; /* group × aggregate */
    uint32_t accumulator_capacity;
    co_groups *seen; /* by aggregate with DISTINCT: (group, value) */
    bool is_taken;
    uint32_t emitted;
} aggregate_state;

static hd_status open_aggregate(co_op *op) {
    const co_query *query = op->run->query;
    aggregate_state *state;
    HD_ALLOC(state, op->run->arena, 1);
    HD_ALLOC(state->keys, op->run->arena, query->item_count);
    HD_ALLOC(state->values, op->run->arena, query->item_count);
    HD_ALLOC(state->seen, op->run->arena, query->aggregate_count);
    for (uint32_t i = 0; i < query->item_count; i++)
        if (!query->items[i].has_aggregate) state->keys[state->key_count++] = query->items[i].expr;
    co_groups_init(&state->groups, op->run, state->key_count);
    for (uint32_t i = 0; i < query->aggregate_count; i++) co_groups_init(&state->seen[i], op->run, 2);
    op->state = state;
    return HD_OK;
}

static hd_status add_value(co_op *op, aggregate_state *state, const uint32_t *row, uint32_t group, uint32_t index) {
    co_run *run = op->run;
    const hd_expr *aggregate = run->query->aggregates[index];
    co_accumulator *accumulator = &state->accumulators[(size_t)group * run->query->aggregate_count + index];
    hd_value value = HD_VALUE_NULL;
    if (aggregate->arg_count > 0) {
        HD_TRY(co_run_eval(run, row, aggregate->args[0], &value));
        if (value.type == HD_TYPE_NULL) return HD_OK;
    }
    if (aggregate->is_distinct) {
        hd_value pair[2] = {hd_value_int(group), value};
        uint32_t place;
        bool is_new;
        HD_TRY(co_groups_put(&state->seen[index], pair, NULL, CO_CELL_NONE, &place, &is_new));
        if (!is_new) return HD_OK;
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

static hd_status take_row(co_op *op, aggregate_state *state, const uint32_t *row) {
    co_run *run = op->run;
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    for (uint32_t i = 0; i < state->key_count; i++) HD_TRY(co_run_eval(run, row, state->keys[i], &state->values[i]));
    uint32_t group;
    HD_TRY(find_group(op, state, row, &group));
    for (uint32_t i = 0; i < run->query->aggregate_count && group != CO_CELL_NONE; i++) HD_TRY(add_value(op, state, row, group, i));
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
