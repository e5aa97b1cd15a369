/* The tables that steps build: rows of distinct events, edges, names; and how they become the columns of a result. */
#include "common/base.h"
#include "shard/step_private.h"
#include "shard/vectors/vector_index.h"

enum { PACK_BYTES = 1 << 14, ROWS_AHEAD = 16, PARTS_AHEAD = 8 };
enum {
    FACETS_OF_ROWS = HD_FACET_ID | HD_FACET_TIME | HD_FACET_ORDER | HD_FACET_THREAD | HD_FACET_PREVIOUS | HD_FACET_SUMMARY |
                     HD_FACET_CONTENT | HD_FACET_VECTOR
};

hd_status sh_grow(hd_arena *arena, void *items, uint32_t *capacity, uint32_t need, size_t size) {
    if (need <= *capacity) return HD_OK;
    void **at = items;
    uint64_t more = HD_MAX((uint64_t)*capacity * 2, HD_MAX((uint64_t)need, (uint64_t)64));
    if (more > UINT32_MAX) return HD_MEMORY;
    void *grown = hd_arena_grow(arena, *at, (size_t)*capacity * size, (size_t)more * size);
    if (!grown) return HD_MEMORY;
    *at = grown;
    *capacity = (uint32_t)more;
    return HD_OK;
}

hd_status sh_run_copy(sh_run *run, hd_str text, hd_str *copy_out) {
    if (!text.data || text.size == 0) {
        *copy_out = text.data ? HD_STR("") : text;
        return HD_OK;
    }
    if (text.size > PACK_BYTES / 8) return hd_arena_dup(run->arena, text, copy_out);
    if (text.size > run->pack_left) {
        run->pack_at = hd_arena_alloc(run->arena, PACK_BYTES);
        if (!run->pack_at) {
            run->pack_left = 0;
            return HD_MEMORY;
        }
        run->pack_left = PACK_BYTES;
    }
    memcpy(run->pack_at, text.data, text.size);
    *copy_out = (hd_str){run->pack_at, text.size};
    run->pack_at += text.size;
    run->pack_left -= text.size;
    return HD_OK;
}

sh_slot sh_frontier_slot(const sh_run *run, const sh_frontier *frontier, uint32_t index, uint32_t part) {
    if (!frontier->where) return sh_view_find_event(&run->parts[part].view, frontier->ids[index]);
    uint64_t where = frontier->where[index];
    return where != SH_NOWHERE && sh_where_part(run, where) == part ? sh_where_slot(where) : SH_NONE;
}

static bool is_seen(const sh_run *run, uint64_t local) {
    uint32_t ordinal = hd_local_ordinal(local);
    if (ordinal >= HD_PARTITIONS_MAX || run->part_of[ordinal] == SH_NO_PART) return false;
    uint32_t part = run->part_of[ordinal];
    /* Without its incarnation nobody knows what the number stood for. */
    if (run->parts[part].code != HD_OK || run->request->partitions[part].incarnation == 0) return false;
    return sh_view_is_visible(&run->parts[part].view, sh_where_slot(local));
}

hd_status sh_run_check_locals(const sh_run *run, const uint64_t *locals, uint32_t count, const uint64_t **where_out) {
    uint64_t *where;
    HD_ALLOC(where, run->arena, count);
    for (uint32_t i = 0; i < count; i++) where[i] = is_seen(run, locals[i]) ? locals[i] : SH_NOWHERE;
    *where_out = where;
    return HD_OK;
}

/* -- rows, edges, names -------------------------------------------------------------------------------------------------------- */
hd_status sh_work_row(sh_run *run, sh_work *work, uint64_t where, uint32_t *row_out) {
    bool is_new;
    if (work->row_at) {
        uint32_t *row = &work->row_at[sh_where_slot(where)];
        is_new = *row == 0;
        if (is_new) *row = work->count + 1;
        *row_out = *row - 1;
    } else {
        HD_TRY(hd_map64_put(&work->row_of, where, work->count, row_out, &is_new));
    }
    if (!is_new) return HD_OK;
    HD_TRY(sh_grow(run->arena, &work->where, &work->capacity, work->count + 1, sizeof(*work->where)));
    work->where[work->count++] = where;
    return HD_OK;
}

hd_status sh_work_edge(sh_run *run, sh_work *work, uint32_t from, uint32_t to, uint8_t kind) {
    HD_TRY(sh_grow(run->arena, &work->edges, &work->edge_capacity, work->edge_count + 1, sizeof(*work->edges)));
    work->edges[work->edge_count++] = (sh_edge){.from = from, .to = to, .kind = kind};
    return HD_OK;
}

hd_status sh_work_name(sh_run *run, sh_work *work, uint32_t part, bool is_tag, uint32_t number, uint32_t *index_out) {
    uint64_t key = (uint64_t)part << 32 | number;
    uint32_t known = hd_map64_get(&work->number_of, key);
    if (known != HD_MAP_NONE) {
        *index_out = known;
        return HD_OK;
    }
    const sh_view *view = &run->parts[part].view;
    hd_id128 id = is_tag ? sh_view_tag_id(view, number) : sh_view_entity_id(view, number);
    hd_str key_text;
    bool is_new;
    /* The map borrows its keys, and `names` moves as it grows: the key gets a place of its own. */
    HD_TRY(sh_run_copy(run, (hd_str){(const char *)id.bytes, sizeof(id.bytes)}, &key_text));
    HD_TRY(hd_map_put(&work->name_of, key_text, work->name_count, index_out, &is_new));
    HD_TRY(hd_map64_put(&work->number_of, key, *index_out, &known, &(bool){false}));
    if (!is_new) return HD_OK;
    HD_TRY(sh_grow(run->arena, &work->names, &work->name_capacity, work->name_count + 1, sizeof(*work->names)));
    sh_met *name = &work->names[work->name_count++];
    *name = (sh_met){.id = id};
    return sh_run_copy(run, is_tag ? sh_view_tag_name(view, number) : sh_view_entity_name(view, number), &name->name);
}

/* -- columns of events ---------------------------------------------------------------------------------------------------------- */
static hd_status alloc_columns(sh_run *run, hd_event_batch *batch, uint32_t facets, uint32_t dimension) {
    uint32_t count = batch->count;
    HD_ALLOC(batch->flags, run->arena, count);
    if (facets & HD_FACET_ID) HD_ALLOC(batch->ids, run->arena, count);
    if (facets & HD_FACET_TIME) HD_ALLOC(batch->timestamp_us, run->arena, count);
    if (facets & HD_FACET_ORDER) HD_ALLOC(batch->order_index, run->arena, count);
    if (facets & HD_FACET_THREAD) HD_ALLOC(batch->threads, run->arena, count);
    if (facets & HD_FACET_PREVIOUS) HD_ALLOC(batch->previous, run->arena, count);
    if (facets & HD_FACET_SUMMARY) HD_ALLOC(batch->summaries, run->arena, count);
    if (facets & HD_FACET_CONTENT) HD_ALLOC(batch->contents, run->arena, count);
    if (facets & HD_FACET_VECTOR) {
        HD_ALLOC(batch->vectors, run->arena, (size_t)count * dimension);
        batch->dimension = dimension;
    }
    return HD_OK;
}

/* The columns of one row that are in memory. */
static hd_status put_row(sh_run *run, hd_event_batch *batch, uint32_t row, const sh_view *view, const sh_event *event,
                         uint32_t dimension) {
    if (batch->ids) HD_TRY(sh_run_copy(run, event->id, &batch->ids[row]));
    batch->flags[row] = HD_EVENT_EXISTS | event->flags;
    if (batch->timestamp_us) batch->timestamp_us[row] = event->timestamp_us;
    if (batch->order_index) batch->order_index[row] = event->order_index;
    if (batch->threads && event->thread != SH_NONE)
        HD_TRY(sh_run_copy(run, sh_view_thread_name(view, event->thread), &batch->threads[row]));
    if (batch->previous) HD_TRY(sh_run_copy(run, event->previous, &batch->previous[row]));
    if (batch->vectors && event->vector != SH_NONE)
        memcpy(batch->vectors + (size_t)row * dimension, sh_vector_index_get(sh_view_vectors(view), event->vector),
               dimension * sizeof(float));
    return HD_OK;
}

/* Summary and content of a row. False: they could not be had, and the verdict of its part says why. */
static hd_status put_text(sh_run *run, hd_event_batch *batch, uint32_t row, uint32_t part, uint64_t record, bool *is_there_out) {
    *is_there_out = false;
    hd_verdict *verdict = run->parts[part].verdict;
    if (verdict->reach == HD_REACH_FAILED) return HD_OK;
    /* A read of the store costs about as much as a few dozen entries in memory. */
    if (!sh_run_go_on(run, 32)) return verdict->reach == HD_REACH_COMPLETE ? sh_run_cut(run, part, &(sh_token){0}) : HD_OK;
    const sh_source *source = run->parts[part].source;
    hd_status status = source->get_text(source->self, record, run->arena, batch->summaries ? &batch->summaries[row] : NULL,
                                        batch->contents ? &batch->contents[row] : NULL);
    if (status == HD_MEMORY) return status;
    if (status != HD_OK) sh_run_fail(run, part, status);
    *is_there_out = status == HD_OK;
    return HD_OK;
}

/* Rows are read in the order they were met, which is none in memory: the next ones are sent for in time. */
static void prefetch_events(const sh_run *run, const sh_work *work, uint32_t row) {
    if (row + ROWS_AHEAD < work->count && work->where[row + ROWS_AHEAD] != SH_NOWHERE) {
        uint64_t where = work->where[row + ROWS_AHEAD];
        sh_view_prefetch_row(&run->parts[sh_where_part(run, where)].view, sh_where_slot(where));
    }
    if (row + PARTS_AHEAD < work->count && work->where[row + PARTS_AHEAD] != SH_NOWHERE) {
        uint64_t where = work->where[row + PARTS_AHEAD];
        sh_view_prefetch_parts(&run->parts[sh_where_part(run, where)].view, sh_where_slot(where));
    }
}

static hd_status put_rows(sh_run *run, sh_work *work, uint32_t facets, bool is_aligned) {
    hd_event_batch *batch = &work->result->events;
    bool has_text = facets & (HD_FACET_SUMMARY | HD_FACET_CONTENT);
    for (uint32_t row = 0; row < work->count; row++) {
        prefetch_events(run, work, row);
        if (work->where[row] == SH_NOWHERE) {
            if (batch->ids && work->frontier.ids) HD_TRY(sh_run_copy(run, work->frontier.ids[row], &batch->ids[row]));
            continue;
        }
        uint32_t part = sh_where_part(run, work->where[row]);
        const sh_view *view = &run->parts[part].view;
        sh_event event;
        sh_view_get_event(view, sh_where_slot(work->where[row]), &event);
        HD_TRY(put_row(run, batch, row, view, &event, work->step->dimension));
        if (!has_text) continue;
        bool is_there;
        HD_TRY(put_text(run, batch, row, part, event.record, &is_there));
        if (is_there || !is_aligned) continue;
        batch->flags[row] = 0;
        work->where[row] = SH_NOWHERE;
    }
    return HD_OK;
}

hd_status sh_work_put_events(sh_run *run, sh_work *work, uint32_t facets, bool is_aligned) {
    hd_event_batch *batch = &work->result->events;
    if ((facets & HD_FACET_ID_FEW) && work->count <= HD_IDS_FEW) facets |= HD_FACET_ID;
    batch->count = work->count;
    batch->locals = work->where;
    HD_TRY(alloc_columns(run, batch, facets, work->step->dimension));
    if (facets & FACETS_OF_ROWS) return put_rows(run, work, facets, is_aligned);
    /* Nothing is asked of them but that they are there, and wide tables of such rows are not worth a look at each. */
    for (uint32_t row = 0; row < work->count; row++) batch->flags[row] = work->where[row] != SH_NOWHERE ? HD_EVENT_EXISTS : 0;
    return HD_OK;
}

/* -- edges ---------------------------------------------------------------------------------------------------------------------- */
static bool are_edges_sorted(const sh_work *work) {
    for (uint32_t e = 1; e < work->edge_count; e++)
        if (work->edges[e].from < work->edges[e - 1].from) return false;
    return true;
}

static void sort_edges(const sh_work *work, const uint32_t *offsets, uint32_t *next, uint32_t from_count, uint32_t *order_out) {
    for (uint32_t f = 0; f < from_count; f++) next[f] = offsets[f];
    for (uint32_t e = 0; e < work->edge_count; e++) order_out[next[work->edges[e].from]++] = e;
}

hd_status sh_work_put_edges(sh_run *run, sh_work *work, uint32_t from_count, bool has_kinds, bool has_via) {
    hd_edges *edges = &work->result->edges;
    uint32_t count = work->edge_count, *order = NULL, *next;
    edges->from_count = from_count;
    HD_ALLOC(edges->offsets, run->arena, (size_t)from_count + 1);
    HD_ALLOC(edges->to, run->arena, count);
    if (has_kinds) HD_ALLOC(edges->kinds, run->arena, count);
    if (has_via) HD_ALLOC(edges->via_offsets, run->arena, (size_t)count + 1);
    if (has_via) HD_ALLOC(edges->via, run->arena, work->via_count);
    for (uint32_t e = 0; e < count; e++) edges->offsets[work->edges[e].from + 1]++;
    for (uint32_t f = 0; f < from_count; f++) edges->offsets[f + 1] += edges->offsets[f];
    if (!are_edges_sorted(work)) { /* several parts were visited, one after the other */
        HD_ALLOC(order, run->arena, count);
        HD_ALLOC(next, run->arena, from_count);
        sort_edges(work, edges->offsets, next, from_count, order);
    }
    uint32_t via = 0;
    for (uint32_t e = 0; e < count; e++) {
        const sh_edge *edge = &work->edges[order ? order[e] : e];
        edges->to[e] = edge->to;
        if (has_kinds) edges->kinds[e] = edge->kind;
        if (!has_via) continue;
        edges->via_offsets[e] = via;
        memcpy(edges->via + via, work->via + edge->via, edge->via_count * sizeof(*edges->via));
        via += edge->via_count;
    }
    if (has_via) edges->via_offsets[count] = via;
    return HD_OK;
}

/* -- names ---------------------------------------------------------------------------------------------------------------------- */
hd_status sh_work_put_names(sh_run *run, sh_work *work) {
    hd_name_batch *batch = &work->result->names;
    batch->count = work->name_count;
    HD_ALLOC(batch->ids, run->arena, batch->count);
    HD_ALLOC(batch->names, run->arena, batch->count);
    HD_ALLOC(batch->event_count, run->arena, batch->count);
    for (uint32_t n = 0; n < batch->count; n++) {
        batch->ids[n] = work->names[n].id;
        batch->names[n] = work->names[n].name;
        batch->event_count[n] = work->names[n].event_count;
    }
    return HD_OK;
}

hd_status sh_work_align_names(sh_run *run, sh_work *work, const hd_name_batch *frontier, bool has_types) {
    hd_name_batch *batch = &work->result->names;
    batch->count = frontier->count;
    HD_ALLOC(batch->ids, run->arena, batch->count);
    HD_ALLOC(batch->names, run->arena, batch->count);
    HD_ALLOC(batch->event_count, run->arena, batch->count);
    if (batch->count > 0) memcpy(batch->ids, frontier->ids, batch->count * sizeof(*batch->ids));
    if (!has_types) return HD_OK;
    HD_ALLOC(batch->types, run->arena, batch->count);
    HD_ALLOC(batch->type_at_us, run->arena, batch->count);
    HD_ALLOC(batch->type_events, run->arena, batch->count);
    return HD_OK;
}

hd_status sh_work_meet_name(sh_run *run, sh_work *work, uint32_t part, bool is_tag, uint32_t index, uint32_t *number_out,
                            uint64_t *count_out) {
    hd_name_batch *batch = &work->result->names;
    const sh_view *view = &run->parts[part].view;
    uint32_t number = is_tag ? sh_view_find_tag(view, batch->ids[index]) : sh_view_find_entity(view, batch->ids[index]);
    uint64_t count = 0;
    if (number != SH_NONE) count = is_tag ? sh_view_tag_count(view, number) : sh_view_entity_count(view, number);
    *number_out = count > 0 ? number : SH_NONE;
    *count_out = count;
    if (count == 0) return HD_OK;
    if (!run->parts[part].is_resumed) batch->event_count[index] += count;
    if (batch->names[index].data) return HD_OK;
    return sh_run_copy(run, is_tag ? sh_view_tag_name(view, number) : sh_view_entity_name(view, number), &batch->names[index]);
}
