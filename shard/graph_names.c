/* Entities and tags: numbers, names, postings, counts at a sequence, and the type of an entity.
 *
 * type_memo of an entity: (changes << 32 | slot), slot the earliest live event (timestamp, id) that gives it a type, unpublished
 * ones included; SH_NONE: none does; TYPE_STALE: that event died, and the next reader who sees the newest state looks it up and
 * writes it down for the others. `changes` grows with whatever happens while it is stale, so that such a reader's late word fails. */
#include "common/ids.h"
#include "common/text.h"
#include "shard/graph_private.h"

#define TYPE_STALE (UINT32_MAX - 1)

void sh_names_init(sh_names *names, sh_graph *graph) {
    *names = (sh_names){.graph = graph};
    sh_buckets_init(&names->rows, NAMES_BASE_LOG2, sizeof(sh_name));
    sh_hash_index_init(&names->by_id);
    sh_hash_index_init(&names->by_name);
    sh_hash_index_init(&names->by_folded);
}

void sh_names_fini(sh_names *names) {
    sh_memory *memory = &names->graph->memory;
    for (uint32_t i = 0; i < atomic_load(&names->count); i++) sh_postings_fini(&sh_names_row(names, i)->postings, memory);
    sh_buckets_fini(&names->rows, memory);
    sh_hash_index_fini(&names->by_id, memory);
    sh_hash_index_fini(&names->by_name, memory);
    sh_hash_index_fini(&names->by_folded, memory);
}

/* -- numbers ----------------------------------------------------------------------------------------------------------------- */

static hd_str name_of(const sh_names *names, uint32_t number) {
    const sh_name *row = sh_names_row(names, number);
    return (hd_str){row->text, row->name_size};
}

static hd_str folded_of(const sh_names *names, uint32_t number) {
    const sh_name *row = sh_names_row(names, number);
    if (row->folded_size == FOLDED_IS_NAME) return (hd_str){row->text, row->name_size};
    return (hd_str){row->text + row->name_size, row->folded_size};
}

static bool is_name(const void *self, const void *key, uint32_t number) {
    return hd_str_is_equal(name_of(self, number), *(const hd_str *)key);
}

static bool is_folded(const void *self, const void *key, uint32_t number) {
    return hd_str_is_equal(folded_of(self, number), *(const hd_str *)key);
}

static bool is_id(const void *self, const void *key, uint32_t number) {
    return hd_id128_is_equal(sh_names_row(self, number)->id, *(const hd_id128 *)key);
}

/* An id is a hash already. */
static uint32_t hash_id(hd_id128 id) {
    uint32_t hash;
    memcpy(&hash, id.bytes, sizeof(hash));
    return hash;
}

/* `end`: numbers at or above were given after the view was entered. */
static uint32_t find_id(const sh_names *names, hd_id128 id, uint32_t end) {
    uint32_t number = sh_hash_index_find(&names->by_id, hash_id(id), is_id, names, &id);
    return number < end ? number : SH_NONE;
}

static uint32_t find_folded(const sh_names *names, hd_str folded, uint32_t after, uint32_t end) {
    uint32_t number = after != SH_NONE ? sh_names_row(names, after)->folded_older
                                       : sh_hash_index_find(&names->by_folded, sh_hash_text(folded), is_folded, names, &folded);
    while (number != SH_NONE && number >= end) number = sh_names_row(names, number)->folded_older;
    return number;
}

uint32_t sh_names_intern(sh_names *names, hd_str name) {
    uint32_t hash = sh_hash_text(name);
    uint32_t number = sh_hash_index_find(&names->by_name, hash, is_name, names, &name);
    if (number != SH_NONE) return number;

    sh_graph *graph = names->graph;
    number = atomic_load_explicit(&names->count, memory_order_relaxed);
    HD_CHECK(number < TYPE_STALE);
    hd_str folded;
    /* Names come checked. One that is not UTF-8 all the same (a damaged store) is searched by its bytes. */
    if (hd_text_fold(graph->scratch, name, &folded) != HD_OK) folded = name;
    bool is_same = hd_str_is_equal(folded, name);
    char *text = sh_memory_bump(&graph->memory, name.size + (is_same ? 0 : folded.size));
    memcpy(text, name.data, name.size);
    if (!is_same) memcpy(text + name.size, folded.data, folded.size);

    sh_buckets_reserve(&names->rows, &graph->memory, number);
    sh_name *row = sh_names_row(names, number);
    *row = (sh_name){
        .text = text,
        .name_size = (uint32_t)name.size,
        .folded_size = is_same ? FOLDED_IS_NAME : (uint32_t)folded.size,
        .id = hd_name_id(name),
        .type_memo = SH_NONE,
        .folded_older = find_folded(names, folded, SH_NONE, number),
    };
    sh_postings_init(&row->postings);
    sh_hash_index_put(&names->by_name, &graph->epoch, hash, is_name, names, &name, number);
    sh_hash_index_put(&names->by_id, &graph->epoch, hash_id(row->id), is_id, names, &row->id, number);
    sh_hash_index_put(&names->by_folded, &graph->epoch, sh_hash_text(folded), is_folded, names, &folded, number);
    atomic_store_explicit(&names->count, number + 1, memory_order_release);
    hd_arena_reset(graph->scratch);
    return number;
}

/* -- postings and counts ----------------------------------------------------------------------------------------------------- */

static sh_postings get_postings(const sh_view *view, const sh_names *names, uint32_t number) {
    sh_postings postings;
    uint32_t count = sh_postings_get(&sh_names_row(names, number)->postings, &postings.slots);
    postings.count = sh_postings_count_below(postings.slots, count, view->slot_end);
    return postings;
}

void sh_names_count_death(sh_names *names, uint32_t number, uint64_t sequence) {
    sh_name *row = sh_names_row(names, number);
    atomic_store_explicit(&row->last_death, sequence, memory_order_relaxed);
    atomic_fetch_add_explicit(&row->dead, 1, memory_order_release);
}

static bool has_name(const sh_names *names, sh_slot slot, uint32_t number) {
    const sh_row *row = sh_graph_row(names->graph, slot);
    if (names == &names->graph->entities) {
        const uint32_t *sorted = sh_row_entities_sorted(row);
        return sh_postings_count_below(sorted, row->entity_count, number + 1) >
               sh_postings_count_below(sorted, row->entity_count, number);
    }
    const sh_tag_mark *tags = sh_row_tags(row);
    for (uint32_t i = 0; i < row->tag_count; i++)
        if (tags[i].tag == number) return true;
    return false;
}

/* How many of the name's versions had died by the view's sequence, from the count of today and the log of what died since. False:
 * the writer is at it just now, or the log is longer than `steps_max`. */
static bool count_dead_by_log(const sh_view *view, const sh_names *names, uint32_t number, uint32_t steps_max, uint32_t *dead_out) {
    const sh_graph *graph = view->graph;
    uint32_t logged = atomic_load_explicit(&graph->death_count, memory_order_acquire);
    uint32_t dead = atomic_load_explicit(&sh_names_row(names, number)->dead, memory_order_acquire);
    /* A death is begun, counted at its names, then logged. None was begun beyond those logged: `dead` is of just these. */
    if (atomic_load_explicit(&graph->deaths_begun, memory_order_acquire) != logged) return false;
    for (uint32_t i = logged; i-- > 0;) {
        const sh_death *death = sh_buckets_at(&graph->deaths, i, sizeof(sh_death));
        if (death->died <= view->sequence) break;
        if (steps_max-- == 0) return false;
        if (has_name(names, death->slot, number)) dead--;
    }
    *dead_out = dead;
    return true;
}

static uint64_t count_visible(const sh_view *view, const sh_names *names, uint32_t number) {
    const sh_name *row = sh_names_row(names, number);
    sh_postings postings = get_postings(view, names, number);
    /* In this order: who sees a death counted sees its sequence. What died by the view's sequence was born by then, so it is
     * among the postings below slot_end. */
    uint32_t dead = atomic_load_explicit(&row->dead, memory_order_acquire);
    if (atomic_load_explicit(&row->last_death, memory_order_relaxed) <= view->sequence) return postings.count - dead;
    if (count_dead_by_log(view, names, number, postings.count, &dead)) return postings.count - dead;
    uint64_t count = 0;
    for (uint32_t i = 0; i < postings.count; i++)
        if (sh_row_is_visible(sh_graph_row(view->graph, postings.slots[i]), view->sequence)) count++;
    return count;
}

/* -- types --------------------------------------------------------------------------------------------------------------------- */

static uint64_t memo_of(uint64_t before, uint32_t slot) {
    return ((before >> 32) + 1) << 32 | slot;
}

void sh_names_note_type(sh_names *names, uint32_t entity, sh_slot slot) {
    sh_name *row = sh_names_row(names, entity);
    unsigned long long before = atomic_load_explicit(&row->type_memo, memory_order_acquire);
    for (;;) {
        uint32_t known = (uint32_t)before;
        if (known != TYPE_STALE && known != SH_NONE && sh_graph_compare_time(names->graph, known, slot) < 0) return;
        uint64_t after = memo_of(before, known == TYPE_STALE ? TYPE_STALE : slot);
        if (atomic_compare_exchange_weak_explicit(&row->type_memo, &before, after, memory_order_acq_rel, memory_order_acquire))
            return;
    }
}

void sh_names_forget_type(sh_names *names, uint32_t entity, sh_slot slot) {
    sh_name *row = sh_names_row(names, entity);
    unsigned long long before = atomic_load_explicit(&row->type_memo, memory_order_acquire);
    for (;;) {
        if ((uint32_t)before != slot && (uint32_t)before != TYPE_STALE) return;
        if (atomic_compare_exchange_weak_explicit(&row->type_memo, &before, memo_of(before, TYPE_STALE), memory_order_acq_rel,
                                                  memory_order_acquire))
            return;
    }
}

/* The type number that a version gives to an entity, or SH_NONE. */
static uint32_t type_in(const sh_row *row, uint32_t entity) {
    if (!(row->flags & ROW_HAS_TYPES)) return SH_NONE;
    for (uint32_t i = 0; i < row->entity_count; i++)
        if (sh_row_entities(row)[i] == entity) return sh_row_types(row)[i];
    return SH_NONE;
}

static sh_slot scan_for_type(const sh_view *view, uint32_t entity) {
    const sh_graph *graph = view->graph;
    sh_postings postings = get_postings(view, &graph->entities, entity);
    sh_slot best = SH_NONE;
    for (uint32_t i = 0; i < postings.count; i++) {
        const sh_row *row = sh_graph_row(graph, postings.slots[i]);
        if (!(row->flags & ROW_HAS_TYPES) || !sh_row_is_visible(row, view->sequence)) continue;
        if (best != SH_NONE && sh_graph_compare_time(graph, best, postings.slots[i]) < 0) continue;
        if (type_in(row, entity) != SH_NONE) best = postings.slots[i];
    }
    return best;
}

bool sh_view_entity_type(const sh_view *view, uint32_t entity, hd_str *type_out, int64_t *at_us_out, hd_str *event_out) {
    sh_graph *graph = view->graph;
    sh_name *name = sh_names_row(&graph->entities, entity);
    unsigned long long memo = atomic_load_explicit(&name->type_memo, memory_order_acquire);
    sh_slot slot = (uint32_t)memo;
    bool is_scanned = slot == TYPE_STALE || (slot != SH_NONE && slot >= view->slot_end) ||
                      atomic_load_explicit(&name->last_death, memory_order_relaxed) > view->sequence;
    if (is_scanned) slot = scan_for_type(view, entity);
    if ((uint32_t)memo == TYPE_STALE) {
        /* Good for all when this view sees every event of the entity as it stands today; else, and when anything happened since
         * the memo was read, it is left to another reader. */
        const uint32_t *slots;
        uint32_t count = sh_postings_get(&name->postings, &slots);
        bool sees_all = (count == 0 || slots[count - 1] < view->slot_end) &&
                        atomic_load_explicit(&name->last_death, memory_order_relaxed) <= view->sequence;
        if (sees_all) atomic_compare_exchange_strong(&name->type_memo, &memo, memo_of(memo, slot));
    }
    if (slot == SH_NONE) return false;
    const sh_row *row = sh_graph_row(graph, slot);
    *type_out = sh_texts_get(&graph->types, type_in(row, entity));
    *at_us_out = row->timestamp_us;
    *event_out = sh_row_id(row);
    return true;
}

/* -- the two kinds, spelled out -------------------------------------------------------------------------------------------------- */

uint32_t sh_view_find_entity(const sh_view *view, hd_id128 id) {
    return find_id(&view->graph->entities, id, view->entity_end);
}
uint32_t sh_view_find_tag(const sh_view *view, hd_id128 id) {
    return find_id(&view->graph->tags, id, view->tag_end);
}
uint32_t sh_view_find_entity_folded(const sh_view *view, hd_str folded, uint32_t after) {
    return find_folded(&view->graph->entities, folded, after, view->entity_end);
}
uint32_t sh_view_find_tag_folded(const sh_view *view, hd_str folded, uint32_t after) {
    return find_folded(&view->graph->tags, folded, after, view->tag_end);
}
uint32_t sh_view_entity_numbers(const sh_view *view) {
    return view->entity_end;
}
uint32_t sh_view_tag_numbers(const sh_view *view) {
    return view->tag_end;
}
hd_str sh_view_entity_name(const sh_view *view, uint32_t entity) {
    return name_of(&view->graph->entities, entity);
}
hd_str sh_view_tag_name(const sh_view *view, uint32_t tag) {
    return name_of(&view->graph->tags, tag);
}
hd_str sh_view_entity_folded(const sh_view *view, uint32_t entity) {
    return folded_of(&view->graph->entities, entity);
}
hd_str sh_view_tag_folded(const sh_view *view, uint32_t tag) {
    return folded_of(&view->graph->tags, tag);
}
hd_id128 sh_view_entity_id(const sh_view *view, uint32_t entity) {
    return sh_names_row(&view->graph->entities, entity)->id;
}
hd_id128 sh_view_tag_id(const sh_view *view, uint32_t tag) {
    return sh_names_row(&view->graph->tags, tag)->id;
}
uint64_t sh_view_entity_count(const sh_view *view, uint32_t entity) {
    return count_visible(view, &view->graph->entities, entity);
}
uint64_t sh_view_tag_count(const sh_view *view, uint32_t tag) {
    return count_visible(view, &view->graph->tags, tag);
}
sh_postings sh_view_entity_postings(const sh_view *view, uint32_t entity) {
    return get_postings(view, &view->graph->entities, entity);
}
sh_postings sh_view_tag_postings(const sh_view *view, uint32_t tag) {
    return get_postings(view, &view->graph->tags, tag);
}
