/* See answer.h. Key order, spellings and notes live here. */
#include "coordinator/run/answer.h"

#include "coordinator/front/json.h"

/* -- rows ------------------------------------------------------------------------------------------------------------------------ */

static void write_text_or_null(co_json *json, const char *key, hd_str text) {
    co_json_key(json, key);
    if (text.data != NULL)
        co_json_str(json, text);
    else
        co_json_null(json);
}

static void write_event(co_json *json, const co_event *event) {
    co_json_member_str(json, "id", event->id);
    write_text_or_null(json, "summary", event->known & HD_FACET_SUMMARY ? event->facts->summary : (hd_str){NULL, 0});
    co_json_key(json, "timestamp");
    if (event->known & HD_FACET_TIME)
        co_json_instant(json, event->facts->timestamp_us);
    else
        co_json_null(json);
    co_json_key(json, "order_index");
    if ((event->known & HD_FACET_ORDER) && (event->flags & HD_EVENT_HAS_ORDER))
        co_json_int(json, event->facts->order_index);
    else
        co_json_null(json);
}

static void write_node(co_run *run, co_json *json, const hd_value *value) {
    co_json_object(json);
    if (value->node.label == HD_LABEL_EVENT) {
        write_event(json, co_nodes_event(&run->nodes, value->node.handle));
    } else {
        const co_name *name = co_nodes_name(&run->nodes, value->node.label, value->node.handle);
        co_json_member_str(json, "id", value->node.id);
        write_text_or_null(json, "name", name->name);
        if (value->node.label == HD_LABEL_ENTITY)
            write_text_or_null(json, "type", name->known & HD_FACET_TYPE ? name->type : (hd_str){NULL, 0});
    }
    co_json_end_object(json);
}

static void write_value(co_run *run, co_json *json, const hd_value *value) {
    if (value->type == HD_TYPE_NODE) {
        write_node(run, json, value);
    } else if (value->type == HD_TYPE_LIST) {
        co_json_array(json);
        for (uint32_t i = 0; i < value->list.count; i++) write_value(run, json, &value->list.items[i]);
        co_json_end_array(json);
    } else {
        co_json_value(json, value);
    }
}

static hd_status write_row(co_run *run, co_json *json, const uint32_t *row) {
    hd_arena_mark mark = hd_arena_get_mark(run->scratch);
    co_json_array(json);
    for (uint32_t i = 0; i < run->query->item_count; i++) {
        hd_value value;
        HD_TRY(co_run_eval(run, row, run->query->items[i].expr, &value));
        write_value(run, json, &value);
    }
    co_json_end_array(json);
    hd_arena_rollback(run->scratch, mark);
    return HD_OK;
}

/* Whole rows, as many as fit under the `bytes` cap, which counts their JSON text. */
static hd_status write_rows(co_run *run, co_json *json, const co_rows *rows, uint32_t *written_out) {
    hd_buf *out = json->out;
    size_t first = out->size, kept = first;
    uint64_t cap = run->budget->caps[HD_CAP_BYTES];
    uint32_t written = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        HD_TRY(write_row(run, json, co_rows_get(rows, i)));
        if (written == i && out->size - first <= cap) {
            kept = out->size;
            written++;
        }
    }
    if (written < rows->count)
        HD_TRY(co_run_cut(run, &run->plan->steps[run->plan->step_count - 1], "answer", HD_CAP_BYTES, out->size - first));
    out->size = kept;
    if (out->data != NULL) out->data[kept] = '\0';
    hd_budget_peak(run->budget, HD_CAP_BYTES, kept - first);
    *written_out = written;
    return HD_OK;
}

static void write_columns(const co_run *run, co_json *json) {
    co_json_key(json, "columns");
    co_json_array(json);
    for (uint32_t i = 0; i < run->query->item_count; i++) co_json_str(json, run->query->items[i].column);
    co_json_end_array(json);
}

/* -- start ------------------------------------------------------------------------------------------------------------------------ */

static const char *const start_kind_names[] = {
    [CO_START_IDS] = "ids",       [CO_START_TEXT] = "text",     [CO_START_VECTOR] = "vector",
    [CO_START_ENTITY] = "entity", [CO_START_TAG] = "tag",       [CO_START_ENTITY_TAG] = "entity_tag",
    [CO_START_NEWEST] = "newest", [CO_START_SCOPED] = "scoped",
};

static void write_candidates(const co_start_report *report, co_json *json) {
    co_json_key(json, "candidates");
    co_json_object(json);
    co_json_member_uint(json, "count", report->candidates);
    co_json_member_bool(json, "exact", report->is_candidates_exact);
    co_json_end_object(json);
}

static void write_unresolved(const co_start_report *report, co_json *json) {
    co_json_key(json, "unresolved");
    co_json_array(json);
    for (uint32_t i = 0; i < report->unresolved_count; i++) co_json_str(json, report->unresolved[i]);
    co_json_end_array(json);
}

/* Which members apply is decided by the query alone, so that they are there whatever the data says. */
static void write_start(const co_run *run, co_json *json) {
    const co_start_report *report = &run->start;
    const co_resolved *resolved = run->resolved;
    co_start_kind kind = resolved->start_kind;
    co_json_key(json, "start");
    co_json_object(json);
    co_json_member_text(json, "kind", start_kind_names[kind]);
    co_json_member_uint(json, "count", report->count);
    if (kind != CO_START_IDS) co_json_member_uint(json, "k", resolved->k);
    if (kind == CO_START_TEXT || kind == CO_START_VECTOR)
        co_json_member_text(json, "search", report->is_approximate ? "ann" : "exact");
    if (kind == CO_START_SCOPED) {
        co_json_member_text(json, "scoped_mode", report->is_approximate ? "filtered_ann" : "exact");
        write_candidates(report, json);
        co_json_member_bool(json, "filled", !(report->is_cut && report->count < resolved->k));
    }
    if (kind == CO_START_SCOPED || kind == CO_START_TAG || kind == CO_START_ENTITY_TAG || kind == CO_START_NEWEST)
        co_json_member_bool(json, "has_more", report->has_more);
    if (kind == CO_START_ENTITY || kind == CO_START_TAG) co_json_member_bool(json, "hub", report->has_more);
    if (kind == CO_START_IDS || resolved->entity_count > 0 || resolved->tag_count > 0) write_unresolved(report, json);
    if (resolved->entity_count > 0) co_json_member_bool(json, "entities_truncated", report->are_entities_truncated);
    if (resolved->tag_count > 0) co_json_member_bool(json, "tags_truncated", report->are_tags_truncated);
    co_json_end_object(json);
}

/* -- how far it got -------------------------------------------------------------------------------------------------------------- */

static void write_truncated(const co_run *run, co_json *json) {
    co_json_member_bool(json, "partial", run->truncations.count > 0);
    co_json_key(json, "truncated");
    co_json_array(json);
    for (uint32_t i = 0; i < run->truncations.count; i++) {
        const hd_truncation *cut = &run->truncations.items[i];
        co_json_object(json);
        co_json_member_text(json, "stage", cut->stage);
        if (cut->step != 0) co_json_member_uint(json, "step", cut->step);
        if (cut->relation != HD_REL_NONE) co_json_member_text(json, "relation", hd_relation_name(cut->relation));
        co_json_member_text(json, "cap", hd_cap_name(cut->cap));
        co_json_member_uint(json, "limit", cut->limit);
        co_json_member_uint(json, "reached", cut->reached);
        if (cut->detail.data != NULL && cut->detail.size > 0) co_json_member_str(json, "detail", cut->detail);
        co_json_end_object(json);
    }
    co_json_end_array(json);
}

static void write_variable(const co_run *run, co_json *json, const char *key, uint32_t var) {
    if (var == CO_PLAN_NONE || run->query->vars[var].name.data == NULL) return;
    co_json_member_str(json, key, run->query->vars[var].name);
}

static void write_plan(const co_run *run, co_json *json) {
    co_json_key(json, "plan");
    co_json_array(json);
    for (uint32_t i = 0; i < run->plan->step_count; i++) {
        const co_plan_step *step = &run->plan->steps[i];
        co_profile nothing = {0}, profile = run->profiles != NULL ? run->profiles[i] : nothing;
        uint64_t below_us = run->profiles != NULL && i > 0 ? run->profiles[i - 1].us : 0;
        co_json_object(json);
        co_json_member_uint(json, "step", step->number);
        co_json_member_text(json, "op", co_op_name(step->op));
        if (step->rel != CO_PLAN_NONE)
            co_json_member_text(json, "relation", hd_relation_name(run->query->rels[step->rel].relation));
        write_variable(run, json, "from", step->from);
        write_variable(run, json, "to", step->to);
        if (step->op == CO_OP_SIMILAR) co_json_member_text(json, "search", run->notable.is_similar_approximate ? "ann" : "exact");
        co_json_member_uint(json, "rows_in", profile.rows_in);
        co_json_member_uint(json, "rows_out", profile.rows_out);
        co_json_member_uint(json, "partitions", profile.partitions);
        co_json_key(json, "ms");
        co_json_double(json, (double)(profile.us > below_us ? profile.us - below_us : 0) / 1000.0);
        co_json_end_object(json);
    }
    co_json_end_array(json);
}

/* A SWITCH cap is a threshold, not a store: nothing of it is used. */
static bool is_switch(hd_cap cap) {
    return cap == HD_CAP_VECTORS_EXACT;
}

static void write_budget(const co_run *run, co_json *json) {
    co_json_key(json, "budget");
    co_json_object(json);
    co_json_key(json, "caps");
    co_json_object(json);
    for (hd_cap cap = 0; cap < HD_CAP_COUNT; cap++) co_json_member_uint(json, hd_cap_name(cap), run->budget->caps[cap]);
    co_json_end_object(json);
    co_json_key(json, "used");
    co_json_object(json);
    for (hd_cap cap = 0; cap < HD_CAP_COUNT; cap++)
        if (!is_switch(cap)) co_json_member_uint(json, hd_cap_name(cap), run->budget->used[cap]);
    co_json_end_object(json);
    co_json_end_object(json);
}

/* -- notes ------------------------------------------------------------------------------------------------------------------------- */

static void write_query_notes(const co_run *run, co_json *json) {
    for (uint32_t i = 0; i < run->query->note_count; i++) co_json_str(json, run->query->notes[i]);
    for (uint32_t i = 0; i < run->resolved->note_count; i++) co_json_str(json, run->resolved->notes[i]);
}

/* In a fixed order, so that the same run says the same. */
static void write_run_notes(const co_run *run, co_json *json, uint32_t row_count) {
    const co_notable *notable = &run->notable;
    bool is_partial = run->truncations.count > 0;
    if (notable->is_far_measured && run->has_org_counts && run->n_vectors < run->n_live)
        co_json_text(json, "some events of the org have no vector; FAR does not pass a pair with one of them");
    if (run->start.is_approximate)
        co_json_text(json, "the start was searched approximately; add exact: true to measure every vector");
    if (notable->is_similar_approximate)
        co_json_text(json, "SIMILAR was searched approximately; add exact: true to measure every vector");
    if (notable->is_similar_cut) co_json_text(json, "SIMILAR was cut: its events are the best of what was examined, not of all");
    if (notable->is_walk_cut)
        co_json_text(
            json, "a variable-length walk was cut: hops is an upper bound, and its other properties may be those of another way");
    if (is_partial && run->query->has_aggregates)
        co_json_text(json, "aggregates are over a partial walk, not over the full answer");
    if (notable->is_collect_capped) co_json_text(json, "collect keeps 100 elements at most; a list was cut to its first 100");
    if (notable->is_limit_cut && run->resolved->is_limit_default)
        co_json_text(json, "rows cut to the default LIMIT 20; add LIMIT to return more");
    if (is_partial && row_count == 0) co_json_text(json, "not confirmed: no rows were found, and the walk was cut before its end");
}

/* -- whole answers ------------------------------------------------------------------------------------------------------------------ */

hd_status co_answer_write(co_run *run, const co_rows *rows, hd_buf *json_out) {
    co_json json;
    uint32_t row_count;
    co_json_init(&json, json_out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    write_columns(run, &json);
    co_json_key(&json, "rows");
    co_json_array(&json);
    HD_TRY(write_rows(run, &json, rows, &row_count));
    co_json_end_array(&json);
    co_json_member_uint(&json, "row_count", row_count);
    write_start(run, &json);
    write_truncated(run, &json);
    write_plan(run, &json);
    write_budget(run, &json);
    co_json_key(&json, "notes");
    co_json_array(&json);
    write_query_notes(run, &json);
    write_run_notes(run, &json, row_count);
    co_json_end_array(&json);
    co_json_end_object(&json);
    return HD_OK;
}

void co_answer_write_plan(const co_run *run, hd_buf *json_out) {
    co_json json;
    co_json_init(&json, json_out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "ok");
    write_columns(run, &json);
    co_json_key(&json, "rows");
    co_json_array(&json);
    co_json_end_array(&json);
    co_json_member_uint(&json, "row_count", 0);
    write_truncated(run, &json);
    write_plan(run, &json);
    write_budget(run, &json);
    co_json_key(&json, "notes");
    co_json_array(&json);
    write_query_notes(run, &json);
    co_json_end_array(&json);
    co_json_end_object(&json);
}

void co_answer_write_refusal(const co_refusal *refusal, hd_buf *json_out) {
    static const char *const blocked_by[] = {
        [CO_BLOCKED_SYNTAX] = "syntax", [CO_BLOCKED_GRAMMAR] = "grammar", [CO_BLOCKED_PARAMS] = "params"};
    co_json json;
    co_json_init(&json, json_out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "error");
    co_json_member_text(&json, "error", "rejected");
    co_json_member_text(&json, "reason", "rejected");
    co_json_member_str(&json, "detail", refusal->detail);
    co_json_member_text(&json, "blocked_by", blocked_by[refusal->blocked_by]);
    co_json_member_uint(&json, "line", refusal->line);
    co_json_member_uint(&json, "column", refusal->column);
    if (refusal->hint.data != NULL) co_json_member_str(&json, "hint", refusal->hint);
    if (refusal->allowed_key != NULL) {
        co_json_key(&json, refusal->allowed_key);
        co_json_array(&json);
        for (const char *const *word = refusal->allowed; *word != NULL; word++) co_json_text(&json, *word);
        co_json_end_array(&json);
    }
    co_json_end_object(&json);
}

void co_answer_write_error(hd_status status, const hd_error *error, hd_buf *json_out) {
    co_json json;
    co_json_init(&json, json_out);
    co_json_object(&json);
    co_json_member_text(&json, "status", "error");
    co_json_member_text(&json, "error", hd_status_reason(status));
    co_json_member_text(&json, "reason", hd_status_reason(status));
    co_json_member_text(&json, "detail", error->message[0] != '\0' ? error->message : hd_status_meaning(status));
    co_json_end_object(&json);
}
