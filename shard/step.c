/* The life of a step request in a shard: get hold of its partitions, fix what is seen of each, run the chain, give all of it back.
 *
 * What holds here:
 *   - A partition that cannot be had (not here, another epoch or org, a sequence that is gone) fails alone; the others are answered.
 *   - A step visits its partitions one after the other and merges into one result. It ends with a verdict for every partition.
 *   - The caps are the request's: what one partition or step used is not there for the next.
 *   - The chain goes on only after a step that every partition finished, and only where the request covers the whole org.
 *   - Nothing in a reply points into a graph: strings are copied, since the views are left before the reply is encoded. */
#include "shard/step.h"

#include "common/buf.h"
#include "common/clock.h"
#include "shard/step_private.h"

enum { TOKEN_VERSION = 1 };

static const sh_step_ops *const OPS[] = {
    [HD_STEP_START] = &sh_start_ops,     [HD_STEP_FACTS] = &sh_facts_ops,         [HD_STEP_POSTINGS] = &sh_postings_ops,
    [HD_STEP_SHARES] = &sh_shares_ops,   [HD_STEP_NEXT] = &sh_next_ops,           [HD_STEP_MEASURE] = &sh_measure_ops,
    [HD_STEP_RESOLVE] = &sh_resolve_ops, [HD_STEP_CONNECTED] = &sh_connected_ops, [HD_STEP_SIMILAR] = &sh_similar_ops,
};

bool sh_check_now(const sh_check *check) {
    if (check->is_cancelled && __atomic_load_n(check->is_cancelled, __ATOMIC_RELAXED)) return true;
    return hd_clock_monotonic_us() >= check->deadline_us;
}

bool sh_run_check(sh_run *run) {
    if (!run->is_late) run->is_late = sh_check_now(run->check);
    run->until_check = SH_CHECK_UNITS;
    if (run->is_late) run->stop = HD_CAP_DEADLINE;
    return !run->is_late;
}

bool sh_run_take_list(sh_run *run, uint64_t count) {
    if (!sh_run_go_on(run, (uint32_t)HD_MIN(count + 1, (uint64_t)UINT32_MAX))) return false;
    if (count > run->request->scanned_max - run->scanned) {
        run->stop = HD_CAP_SCANNED;
        return false;
    }
    run->scanned += count;
    return true;
}

/* -- tokens: version, step kind, four varints --------------------------------------------------------------------------------- */
static hd_status write_token(hd_arena *arena, hd_step_kind kind, const sh_token *token, hd_str *text_out) {
    hd_buf buf = {0};
    hd_buf_add_u8(&buf, TOKEN_VERSION);
    hd_buf_add_u8(&buf, (uint8_t)kind);
    for (size_t i = 0; i < HD_COUNT_OF(token->at); i++) hd_buf_add_varint(&buf, token->at[i]);
    hd_status status = hd_arena_dup(arena, hd_buf_get(&buf), text_out);
    hd_buf_fini(&buf);
    return status;
}

static hd_status read_token(hd_str text, hd_step_kind kind, sh_token *token_out) {
    hd_reader reader = hd_reader_of(text.data, text.size);
    uint8_t version = hd_reader_u8(&reader), of_kind = hd_reader_u8(&reader);
    for (size_t i = 0; i < HD_COUNT_OF(token_out->at); i++) token_out->at[i] = hd_reader_varint(&reader);
    if (reader.is_bad || hd_reader_left(&reader) > 0 || version != TOKEN_VERSION || of_kind != (uint8_t)kind) return HD_WIRE;
    return HD_OK;
}

hd_status sh_run_cut(sh_run *run, uint32_t part, const sh_token *token) {
    hd_verdict *verdict = run->parts[part].verdict;
    verdict->reach = HD_REACH_CUT;
    verdict->cap = run->stop;
    verdict->resume = (hd_str){0};
    if (run->stop != HD_CAP_SCANNED && run->stop != HD_CAP_MEASURED) return HD_OK;
    return write_token(run->arena, run->step->kind, token, &verdict->resume);
}

void sh_run_fail(sh_run *run, uint32_t part, hd_status code) {
    hd_verdict *verdict = run->parts[part].verdict;
    verdict->reach = HD_REACH_FAILED;
    verdict->code = code;
    verdict->resume = (hd_str){0};
}

/* -- one step ------------------------------------------------------------------------------------------------------------------- */
/* Resolves the frontier. HD_WIRE: an earlier step of the wrong kind, or a later one. */
static hd_status take_frontier(sh_run *run, uint32_t index, sh_work *work) {
    const hd_step *step = work->step;
    sh_frontier *frontier = &work->frontier;
    frontier->label = step->frontier_label;
    if (step->kind == HD_STEP_START || step->kind == HD_STEP_RESOLVE) return HD_OK;
    bool is_of_events = step->kind == HD_STEP_SHARES || step->kind == HD_STEP_NEXT || step->kind == HD_STEP_MEASURE ||
                        step->kind == HD_STEP_SIMILAR;
    if (is_of_events) frontier->label = HD_LABEL_EVENT;
    bool is_label_right = frontier->label == HD_LABEL_EVENT ? step->kind != HD_STEP_POSTINGS
                                                            : frontier->label == HD_LABEL_ENTITY || frontier->label == HD_LABEL_TAG;
    if (!is_label_right || (step->kind == HD_STEP_CONNECTED && frontier->label != HD_LABEL_ENTITY)) return HD_WIRE;
    if (step->from_result < 0) {
        frontier->batch = frontier->label == HD_LABEL_EVENT ? &step->events : NULL;
        frontier->names = &step->names;
        frontier->edges = &step->edges;
        frontier->ids = step->events.ids;
        frontier->count = frontier->label == HD_LABEL_EVENT ? step->events.count : step->names.count;
        if (frontier->label != HD_LABEL_EVENT || !step->events.locals) return HD_OK;
        return sh_run_check_locals(run, step->events.locals, frontier->count, &frontier->where);
    }
    if ((uint32_t)step->from_result >= index) return HD_WIRE;
    const sh_work *source = &run->works[step->from_result];
    hd_step_kind kind = source->step->kind;
    if (step->kind == HD_STEP_MEASURE) {
        if (kind != HD_STEP_SHARES && kind != HD_STEP_NEXT) return HD_WIRE;
        *frontier = source->frontier;
        frontier->edges = &source->result->edges;
        return HD_OK;
    }
    if (step->kind == HD_STEP_SHARES && !(kind == HD_STEP_FACTS && (source->step->facets & HD_FACET_ENTITIES))) return HD_WIRE;
    if (frontier->label == HD_LABEL_EVENT) {
        frontier->count = source->result->events.count;
        frontier->ids = source->result->events.ids;
        frontier->where = source->where;
    } else {
        frontier->count = source->result->names.count;
    }
    frontier->names = &source->result->names;
    frontier->edges = &source->result->edges;
    return HD_OK;
}

static hd_status open_verdicts(sh_run *run, hd_step_result *result) {
    HD_ALLOC(result->verdicts, run->arena, run->part_count);
    result->verdict_count = run->part_count;
    for (uint32_t p = 0; p < run->part_count; p++) {
        sh_part *part = &run->parts[p];
        hd_verdict *verdict = &result->verdicts[p];
        part->verdict = verdict;
        verdict->partition = run->request->partitions[p].id;
        verdict->cap = HD_CAP_NONE;
        verdict->reach = part->code == HD_OK ? HD_REACH_COMPLETE : HD_REACH_FAILED;
        verdict->code = part->code;
        if (part->code != HD_OK) continue;
        verdict->n_live = sh_view_live_events(&part->view);
        verdict->n_vectors = sh_view_live_vectors(&part->view);
    }
    return HD_OK;
}

/* Does the step carry, or ask for, vectors of a length that is not the partition's? */
static bool is_dimension_wrong(const hd_step *step, const sh_view *view) {
    uint32_t dimension = sh_view_dimension(view), facets = step->facets;
    if (step->kind == HD_STEP_START) facets |= step->start.facets;
    bool is_wrong = (facets & HD_FACET_VECTOR) && step->dimension != dimension;
    if (step->kind == HD_STEP_START && step->start.mode == HD_START_CLOSEST) is_wrong |= step->start.dimension != dimension;
    bool carries_vectors = (step->kind == HD_STEP_MEASURE || step->kind == HD_STEP_SIMILAR) && step->from_result < 0;
    if (carries_vectors && step->events.vectors) is_wrong |= step->dimension != dimension;
    return is_wrong;
}

static hd_status run_step(sh_run *run, sh_work *work) {
    const sh_step_ops *ops = OPS[work->step->kind];
    uint64_t begin_us = hd_clock_monotonic_us(), scanned = run->scanned, measured = run->measured;
    hd_step_result *result = work->result;
    result->number = work->step->number;
    run->step = work->step;
    hd_map64_init(&work->row_of, run->arena);
    hd_map64_init(&work->number_of, run->arena);
    hd_map_init(&work->name_of, run->arena);
    HD_TRY(open_verdicts(run, result));
    HD_TRY(ops->open(run, work));
    for (uint32_t p = 0; p < run->part_count; p++) {
        if (run->parts[p].code != HD_OK || run->parts[p].is_done) continue;
        if (is_dimension_wrong(work->step, &run->parts[p].view)) {
            sh_run_fail(run, p, HD_ARGUMENT);
            continue;
        }
        HD_TRY(ops->visit(run, work, p));
    }
    HD_TRY(ops->close(run, work));
    result->used_scanned = run->scanned - scanned;
    result->used_measured = run->measured - measured;
    result->shard_us = hd_clock_monotonic_us() - begin_us;
    return HD_OK;
}

static bool is_step_complete(const hd_step_result *result) {
    for (uint32_t p = 0; p < result->verdict_count; p++)
        if (result->verdicts[p].reach != HD_REACH_COMPLETE) return false;
    return true;
}

/* -- the chain -------------------------------------------------------------------------------------------------------------------- */
static hd_status run_chain(sh_run *run, hd_step_reply *reply) {
    const hd_step_request *request = run->request;
    bool can_chain = request->is_whole_org && request->partition_count == request->org_partitions;
    HD_ALLOC(run->works, run->arena, request->step_count);
    HD_ALLOC(reply->results, run->arena, request->step_count);
    for (uint32_t s = 0; s < request->step_count; s++) {
        sh_work *work = &run->works[s];
        work->step = &request->steps[s];
        work->result = &reply->results[s];
        if ((uint32_t)work->step->kind >= HD_COUNT_OF(OPS) || !OPS[work->step->kind]) return HD_WIRE;
        HD_TRY(take_frontier(run, s, work));
        /* A frontier over its cap goes back to the caller, who knows which nodes come first and writes the report. */
        if (s > 0 && work->frontier.count > request->frontier_max) break;
        HD_TRY(run_step(run, work));
        reply->result_count = s + 1;
        if (!can_chain || !is_step_complete(work->result)) break;
    }
    return HD_OK;
}

/* Enters a view of each partition at its sequence and reads the tokens. */
static hd_status open_parts(sh_run *run, const sh_source *sources, hd_step_reply *reply) {
    const hd_step_request *request = run->request;
    HD_ALLOC(run->parts, run->arena, request->partition_count);
    HD_ALLOC(reply->partitions, run->arena, request->partition_count);
    memset(run->part_of, 0xff, sizeof(run->part_of));
    reply->partition_count = request->partition_count;
    bool is_any_token = false;
    for (uint32_t p = 0; p < request->partition_count; p++) is_any_token |= request->partitions[p].resume.data != NULL;
    if (is_any_token && request->step_count != 1) return HD_WIRE;
    for (uint32_t p = 0; p < request->partition_count; p++) {
        const hd_partition_ref *asked = &request->partitions[p];
        sh_part *part = &run->parts[p];
        run->part_count = p + 1;
        if (asked->ordinal >= HD_PARTITIONS_MAX || run->part_of[asked->ordinal] != SH_NO_PART) return HD_WIRE;
        run->part_of[asked->ordinal] = (uint16_t)p;
        part->source = &sources[p];
        part->code = sources[p].code;
        part->is_resumed = is_any_token;
        part->is_done = is_any_token && !asked->resume.data;
        reply->partitions[p] = (hd_partition_ref){.id = asked->id,
                                                  .ordinal = asked->ordinal,
                                                  .epoch = asked->epoch,
                                                  .incarnation = asked->incarnation,
                                                  .sequence = asked->sequence};
        for (uint32_t q = 0; q < p; q++)
            if (request->partitions[q].id == asked->id) part->code = HD_WIRE;
        if (part->code == HD_OK && !sh_view_enter(sources[p].graph, asked->sequence, &part->view)) part->code = HD_SNAPSHOT_GONE;
        if (part->code == HD_WIRE) return HD_WIRE;
        if (part->code != HD_OK) continue;
        reply->partitions[p].incarnation = sources[p].incarnation;
        reply->partitions[p].sequence = part->view.sequence;
        if (asked->resume.data) HD_TRY(read_token(asked->resume, request->steps[0].kind, &part->token));
    }
    return HD_OK;
}

void sh_step_run_over(const sh_source *sources, const hd_step_request *request, const sh_check *check, hd_arena *arena,
                      hd_step_reply *reply_out) {
    uint64_t begin_us = hd_clock_monotonic_us();
    sh_run run = {.request = request, .check = check, .arena = arena, .stop = HD_CAP_NONE};
    *reply_out = (hd_step_reply){0};
    hd_status status = HD_OK;
    HD_GOTO(request->step_count > 0 ? HD_OK : HD_WIRE);
    HD_GOTO(open_parts(&run, sources, reply_out));
    HD_GOTO(run_chain(&run, reply_out));
out:
    for (uint32_t p = run.part_count; p-- > 0;)
        if (run.parts[p].code == HD_OK) sh_view_leave(&run.parts[p].view);
    if (status != HD_OK) {
        reply_out->result_count = 0;
        reply_out->message = hd_str_of(hd_status_meaning(status));
    }
    reply_out->status = status;
    reply_out->shard_us = hd_clock_monotonic_us() - begin_us;
}

/* -- partitions of this shard -------------------------------------------------------------------------------------------------- */
typedef struct text_source {
    sh_partitions *partitions;
    sh_partition *partition;
} text_source;

static hd_status get_text(void *self, uint64_t record, hd_arena *arena, hd_str *summary_out, hd_str *content_out) {
    const text_source *source = self;
    return sh_partition_get_text(source->partitions, source->partition, record, arena, summary_out, content_out, NULL);
}

void sh_step_run(sh_partitions *partitions, const hd_step_request *request, const sh_check *check, hd_arena *arena,
                 hd_step_reply *reply_out) {
    uint32_t count = request->partition_count;
    sh_source *sources = hd_arena_alloc_zero(arena, count, sizeof(*sources));
    text_source *texts = hd_arena_alloc_zero(arena, count, sizeof(*texts));
    if (!sources || !texts) {
        *reply_out = (hd_step_reply){.status = HD_MEMORY, .message = hd_str_of(hd_status_meaning(HD_MEMORY))};
        return;
    }
    for (uint32_t p = 0; p < count; p++) {
        const hd_partition_ref *asked = &request->partitions[p];
        texts[p].partitions = partitions;
        sources[p].code =
            sh_partitions_acquire(partitions, request->org, asked->id, asked->epoch, asked->incarnation, &texts[p].partition, NULL);
        if (sources[p].code != HD_OK) continue;
        sources[p].graph = texts[p].partition->graph;
        sources[p].incarnation = texts[p].partition->incarnation;
        sources[p].get_text = get_text;
        sources[p].self = &texts[p];
    }
    sh_step_run_over(sources, request, check, arena, reply_out);
    for (uint32_t p = count; p-- > 0;)
        if (sources[p].code == HD_OK) sh_partitions_release(partitions, texts[p].partition);
}
