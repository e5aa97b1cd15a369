/* Events in order: threads (order_index with nulls last, then timestamp, then id) and the org's timeline (newest first, then id).
 * Both are skip lists over slots that hold every version; what a view may not see is passed over.
 *
 * Keys: thread_list  group = 2 · thread + (has no order)   first = order_index or 0   second = timestamp
 *       timeline     group = 0                             first = ~timestamp         second = 0
 * (~x turns the order of integers without overflow.) */
#include "shard/graph_private.h"

static hd_str id_of(const void *self, uint32_t slot) {
    return sh_row_id(sh_graph_row(self, slot));
}

void sh_order_init(sh_graph *graph) {
    sh_skiplist_init(&graph->thread_list, id_of, graph);
    sh_skiplist_init(&graph->timeline, id_of, graph);
}

static sh_skipkey thread_key(uint32_t thread, const sh_place *place, sh_slot slot) {
    return (sh_skipkey){
        .group = 2 * thread + !place->has_order,
        .slot = slot,
        .first = place->has_order ? place->order_index : 0,
        .second = place->timestamp_us,
        .id = place->id,
    };
}

void sh_order_insert(sh_graph *graph, sh_slot slot) {
    const sh_row *row = sh_graph_row(graph, slot);
    sh_skipkey key = {.slot = slot, .first = ~row->timestamp_us, .id = sh_row_id(row)};
    sh_skiplist_insert(&graph->timeline, &graph->memory, &key);
    if (row->thread == SH_NONE) return;
    HD_CHECK(row->thread < UINT32_MAX / 2);
    sh_place place = {(row->flags & HD_EVENT_HAS_ORDER) != 0, row->order_index, row->timestamp_us, sh_row_id(row)};
    key = thread_key(row->thread, &place, slot);
    sh_skiplist_insert(&graph->thread_list, &graph->memory, &key);
}

/* -- threads -------------------------------------------------------------------------------------------------------------------- */

int sh_place_compare(const sh_place *a, const sh_place *b) {
    if (a->has_order != b->has_order) return a->has_order ? -1 : 1;
    if (a->has_order && a->order_index != b->order_index) return a->order_index < b->order_index ? -1 : 1;
    if (a->timestamp_us != b->timestamp_us) return a->timestamp_us < b->timestamp_us ? -1 : 1;
    return hd_str_compare(a->id, b->id);
}

uint32_t sh_view_find_thread(const sh_view *view, hd_str thread) {
    return sh_texts_find(&view->graph->threads, thread);
}

hd_str sh_view_thread_name(const sh_view *view, uint32_t thread) {
    return sh_texts_get(&view->graph->threads, thread);
}

sh_slot sh_view_thread_after(const sh_view *view, uint32_t thread, const sh_place *place, uint64_t *scanned) {
    /* Behind every version that stands at the very place. */
    sh_skipkey key = thread_key(thread, place, UINT32_MAX);
    const sh_skipnode *node = sh_skiplist_above(&view->graph->thread_list, &key);
    for (; node && sh_skipnode_group(node) / 2 == thread; node = sh_skipnode_next(node)) {
        ++*scanned;
        if (sh_view_is_visible(view, sh_skipnode_slot(node))) return sh_skipnode_slot(node);
    }
    return SH_NONE;
}

sh_slot sh_view_thread_before(const sh_view *view, uint32_t thread, const sh_place *place, uint64_t *scanned) {
    const sh_skiplist *list = &view->graph->thread_list;
    sh_skipkey key = thread_key(thread, place, 0);
    /* Links go one way: each step back is a search of its own. */
    for (;;) {
        const sh_skipnode *node = sh_skiplist_below(list, &key);
        if (!node || sh_skipnode_group(node) / 2 != thread) return SH_NONE;
        ++*scanned;
        if (sh_view_is_visible(view, sh_skipnode_slot(node))) return sh_skipnode_slot(node);
        key = sh_skiplist_key(list, node);
    }
}

/* -- the timeline --------------------------------------------------------------------------------------------------------------- */

void sh_view_timeline_start(const sh_view *view, bool has_until, int64_t until_us, sh_timeline *timeline_out) {
    const sh_skiplist *list = &view->graph->timeline;
    /* The last key that `until` itself could have; what is above it is older. Ids are at most 0x7f in every byte. */
    sh_skipkey key = {.slot = UINT32_MAX, .first = ~until_us, .id = HD_STR("\xff")};
    const sh_skipnode *node = has_until ? sh_skiplist_above(list, &key) : sh_skiplist_first(list);
    *timeline_out = (sh_timeline){.at = node, .has_until = has_until, .until_us = until_us};
}

sh_slot sh_view_timeline_next(const sh_view *view, sh_timeline *timeline) {
    const sh_skipnode *node = timeline->at;
    while (node && sh_skipnode_slot(node) >= view->slot_end) node = sh_skipnode_next(node); /* born later: not the view's matter */
    timeline->at = node ? sh_skipnode_next(node) : NULL;
    return node ? sh_skipnode_slot(node) : SH_NONE;
}
