/* See nodes.h. */
#include "coordinator/run/nodes.h"

#include "common/ids.h"
#include "coordinator/plan/plan.h"
#include "coordinator/run/rows.h"

void co_nodes_init(co_nodes *nodes, hd_arena *arena) {
    *nodes = (co_nodes){.arena = arena};
    hd_map64_init(&nodes->event_by_local, arena);
    hd_map_init(&nodes->entities.by_id, arena);
    hd_map_init(&nodes->tags.by_id, arena);
}

co_name_table *co_nodes_names(co_nodes *nodes, hd_label label) {
    HD_CHECK(label == HD_LABEL_ENTITY || label == HD_LABEL_TAG);
    return label == HD_LABEL_ENTITY ? &nodes->entities : &nodes->tags;
}

co_name *co_nodes_name(co_nodes *nodes, hd_label label, uint32_t handle) {
    co_name_table *table = co_nodes_names(nodes, label);
    HD_CHECK(handle < table->count);
    return &table->items[handle];
}

/* -- events by local: a map, and beside it plain arrays for partitions of which a large part is met ------------------------------- */

enum { DENSE_ROWS_MIN = 1024, DENSE_NUMBERS_A_ROW = 16 }; /* at most so many numbers, of four bytes, for each event of a table */

static struct co_dense_handles *dense_of(const co_nodes *nodes, uint64_t local) {
    uint32_t ordinal = hd_local_ordinal(local);
    return nodes->dense != NULL && ordinal < HD_PARTITIONS_MAX ? &nodes->dense[ordinal] : NULL;
}

/* Gives a partition its array, with those of its events that are known. */
static hd_status open_dense(co_nodes *nodes, uint32_t ordinal, uint32_t end) {
    struct co_dense_handles *dense = &nodes->dense[ordinal];
    HD_ALLOC(dense->handles, nodes->arena, end);
    dense->end = end;
    for (uint32_t handle = 0; handle < nodes->event_count; handle++) {
        uint64_t local = nodes->events[handle].local;
        if (hd_local_ordinal(local) == ordinal && (uint32_t)local < end) dense->handles[(uint32_t)local] = handle + 1;
    }
    return HD_OK;
}

/* Makes room for the events of a table, in the way that fits how many there are. */
static hd_status expect_events(co_nodes *nodes, const hd_event_batch *batch) {
    if (batch->count >= DENSE_ROWS_MIN) {
        uint32_t rows[HD_PARTITIONS_MAX] = {0}, ends[HD_PARTITIONS_MAX] = {0};
        if (nodes->dense == NULL) HD_ALLOC(nodes->dense, nodes->arena, HD_PARTITIONS_MAX);
        for (uint32_t i = 0; i < batch->count; i++) {
            uint32_t ordinal = hd_local_ordinal(batch->locals[i]) % HD_PARTITIONS_MAX;
            rows[ordinal]++;
            ends[ordinal] = HD_MAX(ends[ordinal], (uint32_t)batch->locals[i] + 1);
        }
        for (uint32_t p = 0; p < HD_PARTITIONS_MAX; p++) {
            bool is_wide = rows[p] > 0 && ends[p] / DENSE_NUMBERS_A_ROW <= rows[p];
            if (is_wide && ends[p] > nodes->dense[p].end)
                HD_TRY(open_dense(nodes, p, (uint32_t)HD_MIN(ends[p] + (uint64_t)ends[p] / 8, (uint64_t)UINT32_MAX)));
        }
    } else {
        HD_TRY(hd_map64_reserve(&nodes->event_by_local, batch->count));
    }
    return batch->count == 0 ? HD_OK
                             : CO_GROW(nodes->arena, nodes->events, nodes->event_capacity, nodes->event_count + batch->count - 1);
}

static hd_status find_handle(co_nodes *nodes, uint64_t local, uint32_t *handle_out, bool *is_new_out) {
    struct co_dense_handles *dense = dense_of(nodes, local);
    if (dense == NULL || (uint32_t)local >= dense->end)
        return hd_map64_put(&nodes->event_by_local, local, nodes->event_count, handle_out, is_new_out);
    uint32_t *handle = &dense->handles[(uint32_t)local];
    *is_new_out = *handle == 0;
    if (*is_new_out) *handle = nodes->event_count + 1;
    *handle_out = *handle - 1;
    return HD_OK;
}

hd_status co_nodes_intern_event(co_nodes *nodes, uint64_t local, uint32_t *handle_out) {
    bool is_new;
    HD_TRY(find_handle(nodes, local, handle_out, &is_new));
    if (!is_new) return HD_OK;
    HD_TRY(CO_GROW(nodes->arena, nodes->events, nodes->event_capacity, nodes->event_count));
    nodes->events[nodes->event_count++] = (co_event){.local = local, .start_index = CO_CELL_NONE};
    return HD_OK;
}

hd_status co_nodes_intern_name(co_nodes *nodes, hd_label label, const hd_id128 *id, uint32_t *handle_out) {
    co_name_table *table = co_nodes_names(nodes, label);
    bool is_new;
    HD_TRY(hd_map_put(&table->by_id, (hd_str){(const char *)id->bytes, sizeof(id->bytes)}, table->count, handle_out, &is_new));
    if (!is_new) return HD_OK;
    HD_TRY(CO_GROW(nodes->arena, table->items, table->capacity, table->count));
    table->items[table->count++] = (co_name){.id = *id};
    return HD_OK;
}

static hd_status open_facts(co_nodes *nodes, co_event *event) {
    if (event->facts == NULL) HD_ALLOC(event->facts, nodes->arena, 1);
    return HD_OK;
}

hd_status co_nodes_learn_score(co_nodes *nodes, uint32_t handle, double score) {
    co_event *event = &nodes->events[handle];
    HD_TRY(open_facts(nodes, event));
    event->facts->score = score;
    event->has_score = true;
    return HD_OK;
}

hd_status co_nodes_learn_event(co_nodes *nodes, uint32_t handle, const hd_event_batch *batch, uint32_t row, uint32_t facets) {
    co_event *event = &nodes->events[handle];
    uint8_t flags = batch->flags != NULL ? batch->flags[row] : 0;
    if ((facets & HD_FACET_ID) && batch->ids != NULL && batch->ids[row].data != NULL) {
        event->id = batch->ids[row];
        event->known |= HD_FACET_ID;
    }
    if ((facets & ~(uint32_t)HD_FACET_ID) == 0) return HD_OK;
    HD_TRY(open_facts(nodes, event));
    if ((facets & HD_FACET_TIME) && batch->timestamp_us != NULL) {
        event->facts->timestamp_us = batch->timestamp_us[row];
        event->known |= HD_FACET_TIME;
    }
    if ((facets & HD_FACET_ORDER) && batch->order_index != NULL) {
        event->facts->order_index = batch->order_index[row];
        event->flags |= flags & HD_EVENT_HAS_ORDER;
        event->known |= HD_FACET_ORDER;
    }
    if ((facets & HD_FACET_THREAD) && batch->threads != NULL) {
        event->facts->thread = (flags & HD_EVENT_HAS_THREAD) ? batch->threads[row] : (hd_str){NULL, 0};
        event->flags |= flags & HD_EVENT_HAS_THREAD;
        event->known |= HD_FACET_THREAD;
    }
    if ((facets & HD_FACET_PREVIOUS) && batch->previous != NULL) {
        event->facts->previous = batch->previous[row];
        event->known |= HD_FACET_PREVIOUS;
    }
    if ((facets & HD_FACET_SUMMARY) && batch->summaries != NULL) {
        event->facts->summary = batch->summaries[row];
        event->known |= HD_FACET_SUMMARY;
    }
    return HD_OK;
}

static uint32_t facets_of(const hd_event_batch *batch) {
    return (batch->ids != NULL ? HD_FACET_ID : 0) | (batch->timestamp_us != NULL ? HD_FACET_TIME : 0) |
           (batch->order_index != NULL ? HD_FACET_ORDER : 0) | (batch->threads != NULL ? HD_FACET_THREAD : 0) |
           (batch->previous != NULL ? HD_FACET_PREVIOUS : 0) | (batch->summaries != NULL ? HD_FACET_SUMMARY : 0);
}

hd_status co_nodes_learn_events(co_nodes *nodes, const hd_event_batch *batch, uint32_t facets, uint32_t **handles_out) {
    uint32_t *handles;
    HD_ALLOC(handles, nodes->arena, batch->count);
    facets = (facets | HD_FACET_ID) & facets_of(batch); /* ids may have come for nothing else than that they were few */
    HD_TRY(expect_events(nodes, batch));
    for (uint32_t i = 0; i < batch->count; i++) {
        HD_TRY(co_nodes_intern_event(nodes, batch->locals[i], &handles[i]));
        if (facets & ~nodes->events[handles[i]].known) HD_TRY(co_nodes_learn_event(nodes, handles[i], batch, i, facets));
    }
    *handles_out = handles;
    return HD_OK;
}

hd_status co_nodes_learn_names(co_nodes *nodes, hd_label label, const hd_name_batch *batch, bool are_counts_whole,
                               uint32_t **handles_out) {
    uint32_t *handles;
    HD_ALLOC(handles, nodes->arena, batch->count);
    for (uint32_t i = 0; i < batch->count; i++) {
        HD_TRY(co_nodes_intern_name(nodes, label, &batch->ids[i], &handles[i]));
        co_name *name = co_nodes_name(nodes, label, handles[i]);
        if (name->name.data == NULL && batch->names != NULL) name->name = batch->names[i];
        if (!are_counts_whole) continue;
        if (batch->event_count != NULL) {
            name->event_count = batch->event_count[i];
            name->known |= CO_FACET_EVENT_COUNT;
        }
        if (batch->types != NULL) {
            name->type = batch->types[i];
            name->known |= HD_FACET_TYPE;
        }
    }
    *handles_out = handles;
    return HD_OK;
}

static hd_status make_id_text(co_nodes *nodes, hd_label label, co_name *name) {
    if (name->id_text.data != NULL) return HD_OK;
    char text[37];
    if (label == HD_LABEL_ENTITY)
        hd_entity_id_format(name->id, text);
    else
        hd_tag_id_format(name->id, text);
    return hd_arena_dup(nodes->arena, hd_str_of(text), &name->id_text);
}

hd_status co_nodes_value(co_nodes *nodes, hd_label label, uint32_t handle, hd_value *value_out) {
    hd_value value = {.type = HD_TYPE_NODE};
    value.node.label = label;
    value.node.handle = handle;
    if (label == HD_LABEL_EVENT) {
        value.node.id = nodes->events[handle].id;
    } else {
        co_name *name = co_nodes_name(nodes, label, handle);
        HD_TRY(make_id_text(nodes, label, name));
        value.node.id = name->id_text;
    }
    *value_out = value;
    return HD_OK;
}

int co_nodes_compare(co_nodes *nodes, hd_label label, uint32_t a, uint32_t b) {
    if (a == b) return 0;
    if (label == HD_LABEL_EVENT) {
        HD_CHECK(nodes->events[a].known & nodes->events[b].known & HD_FACET_ID);
        return hd_str_compare(nodes->events[a].id, nodes->events[b].id);
    }
    const co_name_table *table = co_nodes_names(nodes, label); /* equal prefixes and lower-case hex: byte order is text order */
    return memcmp(table->items[a].id.bytes, table->items[b].id.bytes, sizeof(table->items[a].id.bytes));
}
