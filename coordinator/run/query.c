/* The life of one query. Read this first; everything else in the room is one of its lines.
 *
 *     bind      text → query, names resolved                     language/         refused: syntax, grammar
 *     resolve   parameters → values                              language/         refused: params
 *     plan      query → steps in order                           plan/
 *     start     the start's text → a vector                      embed/
 *     run       pull rows through the operators                  op.h, op_*.c      each step one scatter and gather (fanout.h)
 *     answer    rows, how far it got, what it cost → JSON        answer.c
 *
 * A run whose snapshot is gone (a shard restarted, a partition moved) starts again once, from nothing; after that it is a cut. */
#include "coordinator/run/query.h"

#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/metrics.h"
#include "common/text.h"
#include "coordinator/embed/provider.h"
#include "coordinator/run/answer.h"
#include "coordinator/run/op.h"

enum {
    QUERY_BYTES_MAX = 768 << 20,   /* of one query: 250,000 rows, 200,000 frontier nodes and their edges many times over */
    SCRATCH_BYTES_MAX = 256 << 20, /* vectors of one MEASURE step, and a batch's working arrays */
    RESERVE_MS_MAX = 250,          /* of the deadline, kept for fetching what is returned … */
    RESERVE_SHARE = 8,             /* … or this part of a short deadline */
    REWALK_MAX = 500000,           /* scanned and measured of a walk that is worth walking again without its chain */
};

/* One query from end to end; the run's state is made anew when it starts again. */
typedef struct query_job {
    const co_query_input *input;
    hd_arena *arena, *scratch;
    hd_budget budget;
    hd_error error;
    co_refusal refusal;
    uint64_t start_us;
    const co_query *query;
    co_resolved resolved;
    const co_plan *plan;
    const float *start_vector;
    co_fanout *fanout;
    co_run *run;
} query_job;

/* What only the org tells of a start's value: a parameter's fault, or a literal that is out of range. */
static hd_status refuse_value(query_job *job, const hd_expr *at, co_blocked_by blocked_by, hd_str detail, hd_str hint) {
    co_refusal *refusal = &job->refusal;
    *refusal = (co_refusal){.blocked_by = blocked_by, .line = 1, .detail = detail, .hint = hint};
    size_t line_start = 0;
    for (size_t i = 0; i < at->offset; i++) {
        if (job->query->text.data[i] != '\n') continue;
        refusal->line++;
        line_start = i + 1;
    }
    refusal->column = (uint32_t)hd_text_length((hd_str){job->query->text.data + line_start, at->offset - line_start}) + 1;
    return blocked_by == CO_BLOCKED_PARAMS ? HD_PARAMS : HD_GRAMMAR;
}

static co_blocked_by blocked_by_of(const hd_expr *value) {
    return value->kind == HD_EXPR_PARAM ? CO_BLOCKED_PARAMS : CO_BLOCKED_GRAMMAR;
}

static hd_status embed_text(query_job *job) {
    const co_org *org = job->input->org;
    float *vector;
    HD_ALLOC(vector, job->arena, org->dimension);
    hd_status status = co_embed(org, &job->resolved.start_text, 1, vector, &job->error);
    const hd_expr *at = job->query->start.text;
    if (status == HD_PARAMS)
        return refuse_value(job, at, CO_BLOCKED_PARAMS, HD_STR("the org has no embedding provider, so a text cannot be searched"),
                            HD_STR("Bring the text's embedding: START a = events(vector: $v)."));
    if (status == HD_ARGUMENT)
        return refuse_value(job, at, blocked_by_of(at), HD_STR("the text has no letter, digit or symbol to embed"),
                            HD_STR("Give a text with at least one word."));
    HD_TRY(status);
    job->start_vector = vector;
    return HD_OK;
}

static hd_status check_vector(query_job *job) {
    uint32_t dimension = job->input->org->dimension;
    job->start_vector = job->resolved.start_vector;
    if (job->resolved.start_vector_size == dimension) return HD_OK;
    hd_str detail;
    HD_TRY(hd_arena_printf(job->arena, &detail, "the vector has %u elements, the org's vectors have %u",
                           job->resolved.start_vector_size, dimension));
    return refuse_value(job, job->query->start.vector, blocked_by_of(job->query->start.vector), detail,
                        HD_STR("Bring a vector of the org's embedding model."));
}

/* -- the stages ------------------------------------------------------------------------------------------------------------------ */

static hd_status bind_query(query_job *job) {
    return co_language_bind(job->arena, job->input->text, &job->query, &job->refusal);
}

static hd_status resolve_params(query_job *job) {
    return co_language_resolve(job->arena, job->query, &job->input->params, &job->resolved, &job->refusal);
}

/* HEDDLE_PLAN_RULES=off leaves the optional rules out, for tests that compare the answers. */
static hd_status make_plan(query_job *job) {
    const char *rules = getenv("HEDDLE_PLAN_RULES");
    return co_plan_build(job->arena, job->query, rules == NULL || strcmp(rules, "off") != 0, &job->plan);
}

static hd_status find_start_vector(query_job *job) {
    if (job->resolved.start_vector != NULL) return check_vector(job);
    if (job->resolved.start_text.data == NULL) return HD_OK;
    /* EXPLAIN runs nothing, but what would be refused is refused. */
    return job->query->is_explain && job->input->org->embedding != CO_EMBEDDING_NONE ? HD_OK : embed_text(job);
}

static hd_status make_run(query_job *job) {
    co_run *run;
    HD_ALLOC(run, job->arena, 1);
    *run = (co_run){.input = job->input,
                    .query = job->query,
                    .resolved = &job->resolved,
                    .plan = job->plan,
                    .arena = job->arena,
                    .scratch = job->scratch,
                    .fanout = job->fanout,
                    .budget = &job->budget,
                    .error = &job->error,
                    .start_us = job->start_us,
                    .start_vector = job->start_vector};
    uint64_t deadline_ms = job->budget.caps[HD_CAP_DEADLINE];
    uint64_t reserve_us = HD_MIN(deadline_ms * 1000 / RESERVE_SHARE, (uint64_t)RESERVE_MS_MAX * 1000);
    run->deadline_us = job->start_us + deadline_ms * 1000;
    run->walk_deadline_us = run->deadline_us - reserve_us;
    memset(job->budget.used, 0, sizeof(job->budget.used));
    co_nodes_init(&run->nodes, job->arena);
    hd_map64_init(&run->cos_of_pair, job->arena);
    HD_ALLOC(run->rel_edges, job->arena, job->query->rel_count);
    job->run = run;
    return HD_OK;
}

static hd_status open_fanout(query_job *job) {
    const co_query_input *input = job->input;
    HD_TRY(co_fanout_new(job->arena, input->topology, input->wire, input->org, &job->budget, job->run->walk_deadline_us,
                         &job->fanout));
    co_fanout_set_gone(job->fanout, input->is_client_gone, input->self);
    job->run->fanout = job->fanout;
    return HD_OK;
}

/* Pulls until the last operator ends; the few rows that are returned stay in its hands. */
static hd_status pull_rows(query_job *job, co_rows *rows) {
    co_op *last;
    co_run *run = job->run;
    co_rows_init(rows, job->arena, run->query->var_count + 1);
    HD_ALLOC(run->profiles, job->arena, run->plan->step_count);
    HD_TRY(co_op_build(run, &last));
    while (!last->is_end) {
        HD_TRY(co_op_next(last));
        for (uint32_t i = 0; i < last->out.count; i++) {
            uint32_t *added;
            HD_TRY(co_rows_append(rows, co_rows_get(&last->out, i), &added));
        }
    }
    if (run->notable.is_far_measured) HD_TRY(co_run_fetch_org_counts(run, &run->plan->steps[run->plan->step_count - 1]));
    return HD_OK;
}

/* A chain reads twice what two of its steps have in common; operators never do. A plan may not use more than the walk as written, so
 * where a count cap ended a walk that had a chain, the walk is done again without. Of a long walk a chain is a small part, and
 * walking that again would cost more than it could bring. */
static bool is_chain_to_blame(const query_job *job) {
    const co_run *run = job->run;
    uint64_t half_us = (run->walk_deadline_us - run->start_us) / 2;
    if (!run->has_chained || hd_clock_monotonic_us() - run->start_us > half_us) return false;
    if (job->budget.used[HD_CAP_SCANNED] + job->budget.used[HD_CAP_MEASURED] > REWALK_MAX) return false;
    for (uint32_t i = 0; i < run->truncations.count; i++) {
        hd_cap cap = run->truncations.items[i].cap;
        if (cap == HD_CAP_SCANNED || cap == HD_CAP_MEASURED) return true;
    }
    return false;
}

static hd_status run_plan(query_job *job, hd_buf *json_out) {
    co_rows rows;
    HD_TRY(make_run(job));
    HD_TRY(open_fanout(job));
    hd_status status = pull_rows(job, &rows);
    if (status == HD_SNAPSHOT_GONE) {
        co_fanout_restart(job->fanout);
        HD_TRY(make_run(job));
        co_fanout_set_deadline(job->fanout, job->run->walk_deadline_us);
        status = pull_rows(job, &rows);
    }
    if (status == HD_OK && is_chain_to_blame(job)) {
        HD_TRY(make_run(job));
        job->run->is_chain_off = true;
        co_fanout_set_deadline(job->fanout, job->run->walk_deadline_us);
        status = pull_rows(job, &rows);
    }
    if (status != HD_OK) co_fanout_cancel(job->fanout);
    HD_TRY(status);
    hd_budget_peak(&job->budget, HD_CAP_DEADLINE, (hd_clock_monotonic_us() - job->start_us) / 1000);
    return co_answer_write(job->run, &rows, json_out);
}

static hd_status run_query(query_job *job, hd_buf *json_out) {
    HD_TRY(bind_query(job));
    HD_TRY(resolve_params(job));
    HD_TRY(find_start_vector(job));
    HD_TRY(make_plan(job));
    if (!job->query->is_explain) return run_plan(job, json_out);
    HD_TRY(make_run(job));
    co_answer_write_plan(job->run, json_out);
    return HD_OK;
}

/* -- the door ---------------------------------------------------------------------------------------------------------------------- */

static void count_query(const query_job *job, hd_status status) {
    bool is_refused = job->refusal.blocked_by != 0;
    bool is_partial = status == HD_OK && job->run != NULL && job->run->truncations.count > 0;
    const char *outcome = is_refused        ? "outcome=\"rejected\""
                          : status != HD_OK ? "outcome=\"error\""
                          : is_partial      ? "outcome=\"partial\""
                                            : "outcome=\"complete\"";
    hd_metric_add(hd_metrics_counter("heddle_queries_total", outcome, "Queries by how they ended"), 1);
    hd_metric_observe_us(hd_metrics_histogram_us("heddle_query_seconds", NULL, "Time of a query in the coordinator"),
                         hd_clock_monotonic_us() - job->start_us);
}

hd_status co_query_run(const co_query_input *input, hd_buf *json_out, int *status_http_out) {
    size_t size_before = json_out->size;
    query_job job = {.input = input, .budget = input->budget, .start_us = hd_clock_monotonic_us()};
    job.arena = hd_arena_new(QUERY_BYTES_MAX);
    job.scratch = hd_arena_new(SCRATCH_BYTES_MAX);
    hd_status status = run_query(&job, json_out);
    if (status != HD_OK) { /* whatever was begun of an answer goes */
        json_out->size = size_before;
        if (job.refusal.blocked_by != 0)
            co_answer_write_refusal(&job.refusal, json_out);
        else
            co_answer_write_error(status, &job.error, json_out);
    }
    *status_http_out = hd_status_http(status);
    count_query(&job, status);
    hd_arena_free(job.scratch);
    hd_arena_free(job.arena);
    return HD_OK;
}
