/* A plan: the steps of one query in the order they run, each pulling rows from the one before it. Read-only once built, holds
 * nothing of a run and no parameter's value, so it can be printed, compared and shared by runs. Built from the bound query alone. */
#ifndef CO_PLAN_PLAN_H
#define CO_PLAN_PLAN_H

#include "common/buf.h"
#include "coordinator/language/ast.h"

typedef enum co_op_kind {
#define OP(name, text) CO_OP_##name,
#include "coordinator/plan/ops.def"
    CO_OP_COUNT
} co_op_kind;

#define CO_PLAN_NONE UINT32_MAX

/* A property of entities and tags that a FACTS step can fetch; beside the HD_FACET_* bits of proto/step.h. */
enum { CO_FACET_EVENT_COUNT = 1 << 16 };

typedef struct co_plan_step {
    co_op_kind op;
    uint32_t number; /* from 1, in the order of the plan */
    uint32_t
        rel; /* EXPAND, NEXT_WALK, SHARES, SHARES_WALK, SIMILAR, MEASURE of a FAR: index into the query's rels; else CO_PLAN_NONE */
    uint32_t from, to;       /* node variables; `to` of START and FACTS: the one bound or looked up; else CO_PLAN_NONE */
    bool is_filter;          /* both ends are bound when the step runs */
    bool is_forward;         /* NEXT: from → to is along the arrow */
    bool rides_along;        /* may be asked for in one trip with the start: its frontier is all that the step before it binds */
    uint32_t facets;         /* HD_FACET_* and CO_FACET_*: what is learnt of `to` */
    uint32_t *distinct_from; /* rels of the same name and clause bound by then: one relation is never used twice */
    uint32_t distinct_from_count;
    hd_expr **filters; /* FILTER: all must be true */
    uint32_t filter_count;
    bool is_whole_order; /* SORT: by the total order alone, keeping every row, for what must see rows in order */
    bool is_top;         /* SORT: keeps no more rows than LIMIT lets through */
    uint32_t
        order_end; /* AGGREGATE, DISTINCT, SORT: no two groups (or rows) are alike in the variables below it, so the total order
                            goes no further; 0: what stands before it (ORDER BY) tells them apart */
    uint32_t
        ids_end; /* SORT: the ids of events among the variables below it are known; what lies between it and order_end is looked
                            up for the rows that come down to it */
} co_plan_step;

typedef struct co_plan {
    const co_query *query;
    co_plan_step *steps;
    uint32_t step_count, step_capacity;
} co_plan;

/* `are_rules_on`: false leaves the optional rules out; the answer is the same (plan and budget aside). HD_MEMORY alone. */
HD_MUST_USE hd_status co_plan_build(hd_arena *arena, const co_query *query, bool are_rules_on, const co_plan **plan_out);

/* "expand" for CO_OP_EXPAND. */
const char *co_op_name(co_op_kind op);

/* A plan as lines of text, one a step, for golden tests and debugging: "3 expand PARTICIPATED_IN a->e facets=name". */
void co_plan_print(const co_plan *plan, hd_buf *text_out);

#endif
