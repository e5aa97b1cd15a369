/* The graph of one partition in memory (graph.h has the contract). This file: lifetime, writing, views, events, N.
 * graph_names.c: entities and tags. graph_order.c: threads and the timeline. graph_texts.c: numbered strings.
 *
 *   by_event ── id ──▶ newest slot ──older──▶ slot ──older──▶ …          (hash_index.h)
 *
 *   rows     [ born died timestamp order id* lists* thread vector older ]   one cache line a slot, in bucket arrays that never move
 *                                    │    │                                 (buckets.h); slots ascend with `born`
 *                                    ▼    ▼
 *   bump memory   "git:9f2c…"   [ record previous | entities | sorted | tags | types ]              (graph_memory.h)
 *
 *   entities, tags   [ text* id postings* last_death type_memo dead ] ──▶ [ slot slot slot … ]      (postings.h)
 *   targets ── prev_event_id ──▶ number ──▶ followers [ slot … ]
 *   thread_list, timeline: skip lists over slots (skiplist.h)
 *   deaths   [ died slot vectors ] ascending by `died`: the log that makes N at any sequence two binary searches
 *   gone     a bit a slot: has it died? Most have not, and one word tells that of 64
 *
 * How a version becomes seen: its row and lists are written; then the hash index, postings and skip lists may lead to it (each by a
 * release store, so whoever finds the slot finds its row); then the slot count and the sequence are published. Until then every view
 * has an older sequence, and `born` hides the slot. A death stores `died`, which lies in the future of every view, and is logged;
 * publishing the sequence makes it true. Dead versions stay in memory as long as the graph does; the store sweeps its own. */
#include <stdlib.h>

#include "shard/graph_private.h"
#include "shard/vectors/vector_index.h"

/* -- lifetime ------------------------------------------------------------------------------------------------------------ */

sh_graph *sh_graph_new(uint32_t dimension) {
    sh_graph *graph = hd_alloc_zero(1, sizeof(*graph));
    sh_memory_init(&graph->memory);
    sh_epoch_init(&graph->epoch, &graph->memory);
    graph->dimension = dimension;
    sh_buckets_init(&graph->rows, ROWS_BASE_LOG2, sizeof(sh_row));
    sh_buckets_init(&graph->deaths, SMALL_BASE_LOG2, sizeof(sh_death));
    sh_buckets_init(&graph->gone, GONE_BASE_LOG2, sizeof(atomic_ullong));
    sh_buckets_init(&graph->followers, SMALL_BASE_LOG2, sizeof(sh_postings_list));
    sh_hash_index_init(&graph->by_event);
    sh_names_init(&graph->entities, graph);
    sh_names_init(&graph->tags, graph);
    sh_texts_init(&graph->threads);
    sh_texts_init(&graph->types);
    sh_texts_init(&graph->targets);
    sh_order_init(graph);
    graph->vectors = sh_vector_index_new(dimension);
    graph->scratch = hd_arena_new(0);
    return graph;
}

void sh_graph_free(sh_graph *graph) {
    if (!graph) return;
    sh_memory *memory = &graph->memory;
    for (uint32_t i = 0; i < atomic_load(&graph->targets.count); i++)
        sh_postings_fini(sh_buckets_at(&graph->followers, i, sizeof(sh_postings_list)), memory);
    sh_buckets_fini(&graph->followers, memory);
    sh_texts_fini(&graph->threads, memory);
    sh_texts_fini(&graph->types, memory);
    sh_texts_fini(&graph->targets, memory);
    sh_names_fini(&graph->entities);
    sh_names_fini(&graph->tags);
    sh_hash_index_fini(&graph->by_event, memory);
    sh_buckets_fini(&graph->rows, memory);
    sh_buckets_fini(&graph->deaths, memory);
    sh_buckets_fini(&graph->gone, memory);
    sh_vector_index_free(graph->vectors);
    hd_arena_free(graph->scratch);
    sh_epoch_fini(&graph->epoch);
    sh_memory_fini(memory);
    hd_free(graph);
}

size_t sh_graph_memory_bytes(const sh_graph *graph) {
    return sizeof(*graph) + atomic_load_explicit(&graph->memory.bytes, memory_order_relaxed) +
           sh_vector_index_memory_bytes(graph->vectors);
}

/* -- writing --------------------------------------------------------------------------------------------------------------- */

static bool is_event(const void *self, const void *key, uint32_t slot) {
    return hd_str_is_equal(sh_row_id(sh_graph_row(self, slot)), *(const hd_str *)key);
}

static sh_slot find_newest(const sh_graph *graph, hd_str id) {
    return sh_hash_index_find(&graph->by_event, sh_hash_text(id), is_event, graph, &id);
}

sh_slot sh_graph_find_live(const sh_graph *graph, hd_str id) {
    sh_slot slot = find_newest(graph, id);
    if (slot == SH_NONE) return SH_NONE;
    return atomic_load_explicit(&sh_graph_row(graph, slot)->died, memory_order_relaxed) == SH_ALIVE ? slot : SH_NONE;
}

static void note_sequence(sh_graph *graph, uint64_t sequence) {
    HD_CHECK(sequence >= graph->sequence_writing && sequence != SH_ALIVE);
    /* What is published does not change any more. */
    HD_CHECK(!graph->is_published || sequence > atomic_load_explicit(&graph->sequence, memory_order_relaxed));
    graph->sequence_writing = sequence;
}

static void kill_slot(sh_graph *graph, sh_slot slot, uint64_t sequence) {
    sh_row *row = sh_graph_row(graph, slot);
    uint32_t count = atomic_load_explicit(&graph->death_count, memory_order_relaxed);
    sh_buckets_reserve(&graph->deaths, &graph->memory, count);
    sh_death *death = sh_buckets_at(&graph->deaths, count, sizeof(*death));
    const sh_death *before = count ? sh_buckets_at(&graph->deaths, count - 1, sizeof(*death)) : NULL;
    *death = (sh_death){.died = sequence, .slot = slot, .vectors = before ? before->vectors : 0};
    if (row->flags & HD_EVENT_HAS_VECTOR) death->vectors++;

    atomic_store_explicit(&row->died, sequence, memory_order_release);
    atomic_fetch_or_explicit(sh_graph_gone(graph, slot), 1ull << slot % GONE_SLOTS, memory_order_release);
    atomic_store_explicit(&graph->deaths_begun, count + 1, memory_order_release);
    for (uint32_t i = 0; i < row->entity_count; i++) {
        sh_names_count_death(&graph->entities, sh_row_entities(row)[i], sequence);
        sh_names_forget_type(&graph->entities, sh_row_entities(row)[i], slot);
    }
    for (uint32_t i = 0; i < row->tag_count; i++) sh_names_count_death(&graph->tags, sh_row_tags(row)[i].tag, sequence);
    atomic_store_explicit(&graph->death_count, count + 1, memory_order_release);
}

/* The number of an event id that others are saved after, with a list of these. */
static uint32_t intern_target(sh_graph *graph, hd_str id) {
    uint32_t target = sh_texts_find(&graph->targets, id);
    if (target != SH_NONE) return target;
    uint32_t known = atomic_load_explicit(&graph->targets.count, memory_order_relaxed);
    sh_buckets_reserve(&graph->followers, &graph->memory, known);
    sh_postings_init(sh_buckets_at(&graph->followers, known, sizeof(sh_postings_list)));
    return sh_texts_intern(&graph->targets, &graph->epoch, id);
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Interns what the record names, a double once (the first counts), and writes the lists behind `row`. */
static void write_lists(sh_graph *graph, sh_row *row, const hd_event_record *record, uint64_t record_number) {
    uint32_t entities[NUMBERS_PER_EVENT_MAX], types[NUMBERS_PER_EVENT_MAX];
    sh_tag_mark tags[NUMBERS_PER_EVENT_MAX];
    uint32_t entity_count = 0, tag_count = 0;
    bool has_types = false;
    for (uint32_t i = 0; i < record->entity_count && entity_count < NUMBERS_PER_EVENT_MAX; i++) {
        uint32_t number = sh_names_intern(&graph->entities, record->entities[i].name);
        uint32_t at = 0;
        while (at < entity_count && entities[at] != number) at++;
        if (at < entity_count) continue;
        entities[entity_count] = number;
        hd_str type = record->entities[i].type;
        types[entity_count++] = type.data ? sh_texts_intern(&graph->types, &graph->epoch, type) : SH_NONE;
        has_types = has_types || type.data;
    }
    for (uint32_t i = 0; i < record->tag_count && tag_count < NUMBERS_PER_EVENT_MAX; i++) {
        uint32_t number = sh_names_intern(&graph->tags, record->tags[i].name);
        uint32_t at = 0;
        while (at < tag_count && tags[at].tag != number) at++;
        if (at == tag_count) tags[tag_count++] = (sh_tag_mark){.tag = number};
        tags[at].kinds |= record->tags[i].kind;
    }

    size_t size = offsetof(sh_lists, numbers) + (2 + has_types) * entity_count * sizeof(uint32_t) + tag_count * sizeof(sh_tag_mark);
    sh_lists *lists = sh_memory_bump(&graph->memory, size);
    lists->record = record_number;
    lists->previous = record->previous.data ? intern_target(graph, record->previous) : SH_NONE;
    memcpy(lists->numbers, entities, entity_count * sizeof(uint32_t));
    memcpy(lists->numbers + entity_count, entities, entity_count * sizeof(uint32_t));
    qsort(lists->numbers + entity_count, entity_count, sizeof(uint32_t), compare_numbers);
    row->lists = lists;
    row->entity_count = (uint8_t)entity_count;
    row->tag_count = (uint8_t)tag_count;
    memcpy((sh_tag_mark *)sh_row_tags(row), tags, tag_count * sizeof(*tags));
    if (!has_types) return;
    row->flags |= ROW_HAS_TYPES;
    memcpy((uint32_t *)sh_row_types(row), types, entity_count * sizeof(uint32_t));
}

/* Makes a row that is written reachable from everywhere but the id. */
static void post(sh_graph *graph, sh_slot slot) {
    const sh_row *row = sh_graph_row(graph, slot);
    for (uint32_t i = 0; i < row->entity_count; i++) {
        uint32_t entity = sh_row_entities(row)[i];
        sh_postings_add(&sh_names_row(&graph->entities, entity)->postings, &graph->epoch, slot);
        if ((row->flags & ROW_HAS_TYPES) && sh_row_types(row)[i] != SH_NONE) sh_names_note_type(&graph->entities, entity, slot);
    }
    for (uint32_t i = 0; i < row->tag_count; i++)
        sh_postings_add(&sh_names_row(&graph->tags, sh_row_tags(row)[i].tag)->postings, &graph->epoch, slot);
    uint32_t target = row->lists->previous;
    if (target != SH_NONE) sh_postings_add(sh_buckets_at(&graph->followers, target, sizeof(sh_postings_list)), &graph->epoch, slot);
    sh_order_insert(graph, slot);
}

sh_slot sh_graph_apply_save(sh_graph *graph, const hd_event_record *record, uint64_t record_number, uint64_t sequence) {
    note_sequence(graph, sequence);
    HD_CHECK(record->id.size > 0 && record->id.size <= UINT8_MAX);
    HD_CHECK(!record->vector || record->dimension == graph->dimension);
    HD_CHECK(graph->slots_written < SH_NONE - 1);

    sh_slot older = find_newest(graph, record->id);
    if (older != SH_NONE && atomic_load_explicit(&sh_graph_row(graph, older)->died, memory_order_relaxed) == SH_ALIVE)
        kill_slot(graph, older, sequence);

    sh_slot slot = graph->slots_written;
    sh_buckets_reserve(&graph->rows, &graph->memory, slot);
    sh_buckets_reserve(&graph->gone, &graph->memory, slot / GONE_SLOTS);
    if (slot % GONE_SLOTS == 0) atomic_init(sh_graph_gone(graph, slot), 0);
    sh_row *row = sh_graph_row(graph, slot);
    *row = (sh_row){
        .born = sequence,
        .died = SH_ALIVE,
        .timestamp_us = record->timestamp_us,
        .order_index = record->has_order ? record->order_index : 0,
        /* Versions of one event share the bytes of its id. */
        .id = older != SH_NONE ? sh_graph_row(graph, older)->id : sh_memory_copy(&graph->memory, record->id).data,
        .thread = record->thread.data ? sh_texts_intern(&graph->threads, &graph->epoch, record->thread) : SH_NONE,
        .vector = sh_vector_index_rows(graph->vectors),
        .older = older,
        .id_size = (uint8_t)record->id.size,
        .flags = HD_EVENT_EXISTS,
    };
    if (record->has_order) row->flags |= HD_EVENT_HAS_ORDER;
    if (row->thread != SH_NONE) row->flags |= HD_EVENT_HAS_THREAD;
    if (record->vector) {
        row->flags |= HD_EVENT_HAS_VECTOR;
        uint32_t vector = sh_vector_index_add(graph->vectors, slot, record->vector);
        HD_CHECK(vector == row->vector);
    }
    write_lists(graph, row, record, record_number);

    graph->slots_written = slot + 1;
    sh_hash_index_put(&graph->by_event, &graph->epoch, sh_hash_text(record->id), is_event, graph, &record->id, slot);
    post(graph, slot);
    return slot;
}

bool sh_graph_apply_delete(sh_graph *graph, hd_str id, uint64_t sequence) {
    note_sequence(graph, sequence);
    sh_slot slot = sh_graph_find_live(graph, id);
    if (slot == SH_NONE) return false;
    kill_slot(graph, slot, sequence);
    return true;
}

void sh_graph_publish(sh_graph *graph, uint64_t sequence) {
    HD_CHECK(sequence >= graph->sequence_writing && sequence != SH_ALIVE);
    HD_CHECK(!graph->is_published || sequence >= atomic_load_explicit(&graph->sequence, memory_order_relaxed));
    graph->sequence_writing = sequence;
    atomic_store_explicit(&graph->slot_count, graph->slots_written, memory_order_release);
    atomic_store_explicit(&graph->sequence, sequence, memory_order_release);
    if (!graph->is_published) atomic_store_explicit(&graph->base, sequence, memory_order_release);
    graph->is_published = true;
    sh_epoch_advance(&graph->epoch);
}

/* -- views ------------------------------------------------------------------------------------------------------------------ */

/* How many slots were born at or before `sequence`: slots ascend with `born`. */
static sh_slot count_born(const sh_graph *graph, uint64_t sequence) {
    uint32_t low = 0, high = atomic_load_explicit(&graph->slot_count, memory_order_acquire);
    if (high == 0 || sh_graph_row(graph, high - 1)->born <= sequence) return high;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sh_graph_row(graph, middle)->born <= sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool sh_view_enter(sh_graph *graph, uint64_t sequence, sh_view *view_out) {
    uint32_t epoch = sh_epoch_enter(&graph->epoch);
    uint64_t base = atomic_load_explicit(&graph->base, memory_order_acquire);
    uint64_t newest = atomic_load_explicit(&graph->sequence, memory_order_acquire);
    if (sequence == 0) sequence = newest;
    if (sequence > newest || sequence < base) {
        sh_epoch_leave(&graph->epoch, epoch);
        return false;
    }
    *view_out = (sh_view){
        .graph = graph,
        .sequence = sequence,
        .slot_end = count_born(graph, sequence),
        .entity_end = atomic_load_explicit(&graph->entities.count, memory_order_acquire),
        .tag_end = atomic_load_explicit(&graph->tags.count, memory_order_acquire),
        .epoch = epoch,
    };
    return true;
}

void sh_view_leave(sh_view *view) {
    sh_epoch_leave(&view->graph->epoch, view->epoch);
    view->graph = NULL;
}

/* The deaths that the view knows of: how many, and how many of them had a vector. */
static uint32_t count_deaths(const sh_view *view, uint32_t *vectors_out) {
    const sh_buckets *deaths = &view->graph->deaths;
    uint32_t low = 0, high = atomic_load_explicit(&view->graph->death_count, memory_order_acquire);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (((const sh_death *)sh_buckets_at(deaths, middle, sizeof(sh_death)))->died <= view->sequence)
            low = middle + 1;
        else
            high = middle;
    }
    *vectors_out = low ? ((const sh_death *)sh_buckets_at(deaths, low - 1, sizeof(sh_death)))->vectors : 0;
    return low;
}

uint64_t sh_view_live_events(const sh_view *view) {
    uint32_t vectors;
    return view->slot_end - count_deaths(view, &vectors);
}

uint32_t sh_view_vector_row_end(const sh_view *view) {
    if (view->slot_end == 0) return 0;
    const sh_row *last = sh_graph_row(view->graph, view->slot_end - 1);
    return last->vector + ((last->flags & HD_EVENT_HAS_VECTOR) ? 1 : 0);
}

uint64_t sh_view_live_vectors(const sh_view *view) {
    uint32_t vectors;
    count_deaths(view, &vectors);
    return sh_view_vector_row_end(view) - vectors;
}

bool sh_view_is_visible(const sh_view *view, sh_slot slot) {
    if (slot >= view->slot_end) return false;
    /* Below slot_end all were born by then. A death that the view must know of was marked before its sequence was published. */
    if (!(atomic_load_explicit(sh_graph_gone(view->graph, slot), memory_order_acquire) >> slot % GONE_SLOTS & 1)) return true;
    return sh_row_is_visible(sh_graph_row(view->graph, slot), view->sequence);
}

sh_slot sh_view_find_event(const sh_view *view, hd_str id) {
    sh_slot slot = find_newest(view->graph, id);
    /* Versions of one id do not overlap in time: the newest that was born by then is the only candidate. */
    while (slot != SH_NONE) {
        const sh_row *row = sh_graph_row(view->graph, slot);
        if (row->born <= view->sequence) {
            if (sh_row_is_visible(row, view->sequence)) return slot;
            /* Replaced at its own birth, in one batch: the one that replaced it was looked at before. */
            return SH_NONE;
        }
        slot = row->older;
    }
    return SH_NONE;
}

void sh_view_get_event(const sh_view *view, sh_slot slot, sh_event *event_out) {
    const sh_row *row = sh_graph_row(view->graph, slot);
    *event_out = (sh_event){
        .id = sh_row_id(row),
        .timestamp_us = row->timestamp_us,
        .order_index = row->order_index,
        .flags = row->flags & ~ROW_HAS_TYPES,
        .entity_count = row->entity_count,
        .tag_count = row->tag_count,
        .thread = row->thread,
        .vector = (row->flags & HD_EVENT_HAS_VECTOR) ? row->vector : SH_NONE,
        .entities = sh_row_entities(row),
        .entities_sorted = sh_row_entities_sorted(row),
        .tags = sh_row_tags(row),
        .record = row->lists->record,
    };
    if (row->lists->previous != SH_NONE) event_out->previous = sh_texts_get(&view->graph->targets, row->lists->previous);
}

int64_t sh_view_timestamp(const sh_view *view, sh_slot slot) {
    return sh_graph_row(view->graph, slot)->timestamp_us;
}

hd_str sh_view_event_id(const sh_view *view, sh_slot slot) {
    return sh_row_id(sh_graph_row(view->graph, slot));
}

void sh_view_prefetch_row(const sh_view *view, sh_slot slot) {
    __builtin_prefetch(sh_graph_row(view->graph, slot));
}

void sh_view_prefetch_parts(const sh_view *view, sh_slot slot) {
    const sh_row *row = sh_graph_row(view->graph, slot);
    __builtin_prefetch(row->id);
    __builtin_prefetch(row->lists);
}

const uint32_t *sh_view_entities_sorted(const sh_view *view, sh_slot slot, uint32_t *count_out) {
    const sh_row *row = sh_graph_row(view->graph, slot);
    *count_out = row->entity_count;
    return sh_row_entities_sorted(row);
}

void sh_view_prefetch_entities(const sh_view *view, sh_slot slot) {
    __builtin_prefetch(sh_row_entities_sorted(sh_graph_row(view->graph, slot)));
}

int sh_graph_compare_time(const sh_graph *graph, sh_slot a, sh_slot b) {
    const sh_row *x = sh_graph_row(graph, a), *y = sh_graph_row(graph, b);
    if (x->timestamp_us != y->timestamp_us) return x->timestamp_us < y->timestamp_us ? -1 : 1;
    int by_id = hd_str_compare(sh_row_id(x), sh_row_id(y));
    return by_id ? by_id : (a > b) - (a < b);
}

sh_postings sh_view_followers(const sh_view *view, hd_str id) {
    sh_postings postings = {0};
    uint32_t target = sh_texts_find(&view->graph->targets, id);
    if (target == SH_NONE) return postings;
    uint32_t count = sh_postings_get(sh_buckets_at(&view->graph->followers, target, sizeof(sh_postings_list)), &postings.slots);
    postings.count = sh_postings_count_below(postings.slots, count, view->slot_end);
    return postings;
}

struct sh_vector_index *sh_view_vectors(const sh_view *view) {
    return view->graph->vectors;
}

uint32_t sh_view_dimension(const sh_view *view) {
    return view->graph->dimension;
}
