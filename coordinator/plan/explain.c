/* Plans in words: the names of operators, and a plan as text. (The answer's `plan` is written by run/answer.c, which has the figures
 * of the run.) */
#include "common/buf.h"
#include "coordinator/plan/plan.h"
#include "proto/step.h"

static const char *const op_names[] = {
#define OP(name, text) #text,
#include "coordinator/plan/ops.def"
};

const char *co_op_name(co_op_kind op) {
    HD_CHECK(op < CO_OP_COUNT);
    return op_names[op];
}

static void print_var(const co_plan *plan, uint32_t var, hd_buf *out) {
    hd_str name = plan->query->vars[var].name;
    if (name.data != NULL)
        hd_buf_add_str(out, name);
    else
        hd_buf_printf(out, "_%u", var);
}

static void print_facets(uint32_t facets, hd_buf *out) {
    static const struct {
        uint32_t facet;
        const char *text;
    } names[] = {
        {HD_FACET_ID, "id"},
        {HD_FACET_TIME, "time"},
        {HD_FACET_ORDER, "order"},
        {HD_FACET_THREAD, "thread"},
        {HD_FACET_PREVIOUS, "previous"},
        {HD_FACET_SUMMARY, "summary"},
        {HD_FACET_TYPE, "type"},
        {CO_FACET_EVENT_COUNT, "event_count"},
    };
    const char *separator = " facets=";
    for (size_t i = 0; i < HD_COUNT_OF(names); i++) {
        if (!(facets & names[i].facet)) continue;
        hd_buf_printf(out, "%s%s", separator, names[i].text);
        separator = ",";
    }
}

static void print_step(const co_plan *plan, const co_plan_step *step, hd_buf *out) {
    const co_query *query = plan->query;
    hd_buf_printf(out, "%u %s", step->number, co_op_name(step->op));
    if (step->rel != CO_PLAN_NONE) hd_buf_printf(out, " %s", hd_relation_name(query->rels[step->rel].relation));
    if (step->from != CO_PLAN_NONE || step->to != CO_PLAN_NONE) hd_buf_add_char(out, ' ');
    if (step->from != CO_PLAN_NONE) {
        print_var(plan, step->from, out);
        hd_buf_printf(out, "%s", step->op == CO_OP_MEASURE ? "~" : step->is_filter ? "=" : ">");
    }
    if (step->to != CO_PLAN_NONE) print_var(plan, step->to, out);
    if (step->rel != CO_PLAN_NONE && query->rels[step->rel].relation == HD_REL_NEXT)
        hd_buf_printf(out, " %s", step->is_forward ? "forward" : "backward");
    if (step->rides_along) hd_buf_printf(out, " rides");
    print_facets(step->facets, out);
    for (uint32_t i = 0; i < step->distinct_from_count; i++)
        hd_buf_printf(out, "%s%u", i ? "," : " distinct_from=", step->distinct_from[i]);
    for (uint32_t i = 0; i < step->filter_count; i++) {
        const hd_expr *filter = step->filters[i];
        hd_buf_printf(out, "%s", i ? "; " : " ");
        hd_buf_add(out, query->text.data + filter->offset, filter->size);
    }
    if (step->op == CO_OP_SORT) {
        bool is_late = step->ids_end < step->order_end;
        hd_buf_printf(out, "%s%s%s", step->is_whole_order ? " whole" : "", step->is_top ? " top" : "", is_late ? " late_ids" : "");
    }
    bool is_grouping = step->op == CO_OP_AGGREGATE || step->op == CO_OP_DISTINCT;
    if (is_grouping) hd_buf_printf(out, " order_end=%u", step->order_end);
    hd_buf_add_char(out, '\n');
}

void co_plan_print(const co_plan *plan, hd_buf *text_out) {
    for (uint32_t i = 0; i < plan->step_count; i++) print_step(plan, &plan->steps[i], text_out);
}
