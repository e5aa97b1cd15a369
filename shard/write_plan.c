/* What a group of writes does: each item against the graph as it was before the group *and* what earlier items of the group did, so
 * that two items on one id in a group come out as if one had come after the other. Nothing here touches a graph before
 * sh_group_apply; a group that the store refuses leaves no trace.
 *
 * A version that the group both saves and replaces is stored and marked dead like any other: rare, and one way less to be wrong. */
#include <inttypes.h>
#include <math.h>

#include "common/clock.h"
#include "common/ids.h"
#include "shard/write_private.h"

enum { GROWTH_FIRST = 64 };

/* Room for one more in a growing array of the group's arena, which has no cap. */
#define ADD_ONE(group, array, count, room)                                                                          \
    do {                                                                                                            \
        if ((group)->count == (group)->room) {                                                                      \
            uint32_t room_new = (group)->room ? (group)->room * 2 : GROWTH_FIRST;                                   \
            (group)->array = hd_arena_grow((group)->arena, (group)->array, (group)->room * sizeof(*(group)->array), \
                                           room_new * sizeof(*(group)->array));                                     \
            HD_CHECK((group)->array != NULL);                                                                       \
            (group)->room = room_new;                                                                               \
        }                                                                                                           \
        (group)->array[(group)->count] = (__typeof__(*(group)->array)){0};                                          \
        (group)->count++;                                                                                           \
    } while (0)

void sh_group_begin(sh_group *g) {
    hd_arena_reset(g->arena);
    sh_batch_clear(g->batch);
    g->touched = NULL;
    g->changes = NULL;
    g->pending = NULL;
    g->deltas = NULL;
    g->onces = NULL;
    g->touched_count = g->change_count = g->pending_count = g->delta_count = g->once_count = 0;
    g->touched_room = g->change_room = g->pending_room = g->delta_room = g->once_room = 0;
    hd_map_init(&g->pending_by_id, g->arena);
    hd_map_init(&g->delta_by_name, g->arena);
    hd_map_init(&g->once_by_key, g->arena);
}

/* `value_if_new` is what a key gets that is not there yet. The arena has no cap, so it cannot fail. */
static uint32_t map_number(hd_map *map, hd_str key, uint32_t value_if_new) {
    uint32_t value = 0;
    bool is_new = false;
    HD_CHECK(hd_map_put(map, key, value_if_new, &value, &is_new) == HD_OK);
    return value;
}

static hd_str join_key(sh_group *g, uint64_t partition, const void *bytes, size_t size) {
    char *key = hd_arena_alloc(g->arena, sizeof(partition) + size);
    HD_CHECK(key != NULL);
    memcpy(key, &partition, sizeof(partition));
    memcpy(key + sizeof(partition), bytes, size);
    return (hd_str){key, sizeof(partition) + size};
}

static void set_outcome(sh_group *g, hd_write_outcome *outcome, hd_status code, const hd_error *error) {
    *outcome = (hd_write_outcome){.code = code};
    HD_CHECK(hd_arena_dup(g->arena, hd_str_of(error->message), &outcome->message) == HD_OK);
}

/* -- the partition ------------------------------------------------------------------------------------------------------------------ */

static uint32_t find_touched(sh_group *g, uint64_t org, const hd_write_item *item) {
    for (uint32_t i = g->touched_count; i-- > 0;) { /* an item is mostly where the one before it was */
        const sh_touched *t = &g->touched[i];
        if (t->id == item->partition && t->org == org && t->epoch == item->epoch) return i;
    }
    ADD_ONE(g, touched, touched_count, touched_room);
    sh_touched *t = &g->touched[g->touched_count - 1];
    *t = (sh_touched){.org = org, .id = item->partition, .epoch = item->epoch};
    hd_error error = {0};
    t->code = sh_partitions_acquire(g->partitions, org, item->partition, item->epoch, 0, &t->partition, &error);
    if (t->code != HD_OK) {
        HD_CHECK(hd_arena_dup(g->arena, hd_str_of(error.message), &t->message) == HD_OK);
        return g->touched_count - 1;
    }
    HD_CHECK(sh_view_enter(t->partition->graph, 0, &t->view));
    t->commit = t->partition->commit;
    t->commit.sequence++;
    return g->touched_count - 1;
}

/* -- is the record fit? --------------------------------------------------------------------------------------------------------------- */

static hd_status check_vector(const hd_event_record *e, uint32_t dimension, hd_error *error) {
    if (e->dimension != dimension)
        return hd_error_set(error, HD_ARGUMENT, "write", "the vector has %" PRIu32 " elements, the org's vectors have %" PRIu32,
                            e->dimension, dimension);
    bool has_other_than_zero = false;
    for (uint32_t i = 0; i < dimension; i++) {
        if (!isfinite(e->vector[i]))
            return hd_error_set(error, HD_ARGUMENT, "write", "element %" PRIu32 " of the vector is not finite", i);
        has_other_than_zero |= e->vector[i] != 0;
    }
    return has_other_than_zero ? HD_OK : hd_error_set(error, HD_ARGUMENT, "write", "the vector is all zero");
}

/* The coordinator has checked the form; what would break the graph or could not be read back is refused here all the same. */
static hd_status check_record(const hd_event_record *e, uint32_t dimension, hd_error *error) {
    if (!hd_event_id_is_valid(e->id)) return hd_error_set(error, HD_ARGUMENT, "write", "an event id is 1..64 of A-Za-z0-9._:-");
    if (e->entity_count > SH_ENTITIES_MAX || e->tag_count > SH_TAGS_MAX)
        return hd_error_set(error, HD_ARGUMENT, "write", "a record has %d entities and %d tags at most", SH_ENTITIES_MAX,
                            SH_TAGS_MAX);
    for (uint32_t i = 0; i < e->entity_count; i++) {
        if (e->entities[i].name.size == 0) return hd_error_set(error, HD_ARGUMENT, "write", "entity %" PRIu32 " has no name", i);
        for (uint32_t j = 0; j < i; j++)
            if (hd_str_is_equal(e->entities[i].name, e->entities[j].name))
                return hd_error_set(error, HD_ARGUMENT, "write", "entities %" PRIu32 " and %" PRIu32 " are the same", j, i);
    }
    for (uint32_t i = 0; i < e->tag_count; i++) {
        if (e->tags[i].name.size == 0 || (e->tags[i].kind != HD_KIND_CONTAINS && e->tags[i].kind != HD_KIND_REFERS))
            return hd_error_set(error, HD_ARGUMENT, "write", "tag %" PRIu32 " has no name or no kind", i);
        for (uint32_t j = 0; j < i; j++)
            if (e->tags[i].kind == e->tags[j].kind && hd_str_is_equal(e->tags[i].name, e->tags[j].name))
                return hd_error_set(error, HD_ARGUMENT, "write", "tags %" PRIu32 " and %" PRIu32 " are the same", j, i);
    }
    return e->vector ? check_vector(e, dimension, error) : HD_OK;
}

/* -- counting names --------------------------------------------------------------------------------------------------------------------- */

static void count_name(sh_group *g, uint32_t touched, bool is_tag, hd_id128 id, int64_t by) {
    char name[1 + sizeof(id.bytes)];
    name[0] = is_tag ? 't' : 'e';
    memcpy(name + 1, id.bytes, sizeof(id.bytes));
    uint32_t index = map_number(&g->delta_by_name, join_key(g, g->touched[touched].id, name, sizeof(name)), g->delta_count);
    if (index == g->delta_count) {
        ADD_ONE(g, deltas, delta_count, delta_room);
        g->deltas[index] = (sh_name_delta){.touched = touched, .is_tag = is_tag, .id = id};
    }
    g->deltas[index].events += by;
}

/* A tag in both kinds counts once. */
static bool is_tag_before(const hd_event_record *e, uint32_t index) {
    for (uint32_t i = 0; i < index; i++)
        if (hd_str_is_equal(e->tags[i].name, e->tags[index].name)) return true;
    return false;
}

static void count_record(sh_group *g, uint32_t touched, const hd_event_record *e, int64_t by) {
    sh_commit *commit = &g->touched[touched].commit;
    commit->events += (uint64_t)by;
    if (e->vector) commit->vectors += (uint64_t)by;
    for (uint32_t i = 0; i < e->entity_count; i++) count_name(g, touched, false, hd_name_id(e->entities[i].name), by);
    for (uint32_t i = 0; i < e->tag_count; i++)
        if (!is_tag_before(e, i)) count_name(g, touched, true, hd_name_id(e->tags[i].name), by);
}

static void count_stored_death(sh_group *g, uint32_t touched, const sh_event *e) {
    const sh_view *view = &g->touched[touched].view;
    sh_commit *commit = &g->touched[touched].commit;
    commit->events--;
    if (e->flags & HD_EVENT_HAS_VECTOR) commit->vectors--;
    for (uint32_t i = 0; i < e->entity_count; i++) count_name(g, touched, false, sh_view_entity_id(view, e->entities[i]), -1);
    for (uint32_t i = 0; i < e->tag_count; i++) count_name(g, touched, true, sh_view_tag_id(view, e->tags[i].tag), -1);
}

/* -- versions ---------------------------------------------------------------------------------------------------------------------------- */

static void put_row(sh_group *g, sh_family family, const char *key, size_t key_size) {
    sh_batch_put(g->batch, g->store, family, (hd_str){key, key_size}, hd_buf_get(&g->value));
    hd_buf_clear(&g->value);
}

static void put_version(sh_group *g, const sh_touched *t, const hd_event_record *e, uint64_t number) {
    char key[SH_KEY_RECORD_SIZE];
    sh_key_of_record(t->id, number, key);
    sh_value_add_event(&g->value, e, t->commit.sequence);
    put_row(g, SH_FAMILY_EVENT, key, sizeof(key));
    sh_value_add_text(&g->value, e->summary, e->content);
    put_row(g, SH_FAMILY_TEXT, key, sizeof(key));
    if (!e->vector) return;
    sh_value_add_vector(&g->value, e->vector, e->dimension);
    put_row(g, SH_FAMILY_VECTOR, key, sizeof(key));
}

static void put_death(sh_group *g, const sh_touched *t, uint64_t number) {
    char key[SH_KEY_RECORD_SIZE];
    sh_key_of_record(t->id, number, key);
    sh_value_add_dead(&g->value, t->commit.sequence, hd_clock_wall_us());
    put_row(g, SH_FAMILY_DEAD, key, sizeof(key));
}

/* Kills the version of `id` that lives at this point of the group; false when none does. */
static bool kill_living(sh_group *g, uint32_t touched, sh_pending *pending, bool is_first, hd_str id) {
    sh_touched *t = &g->touched[touched];
    if (!is_first) {
        if (!pending->record) return false;
        put_death(g, t, pending->number);
        count_record(g, touched, pending->record, -1);
        pending->record = NULL;
        return true;
    }
    sh_slot slot = sh_view_find_event(&t->view, id);
    if (slot == SH_NONE) return false;
    sh_event e;
    sh_view_get_event(&t->view, slot, &e);
    put_death(g, t, e.record);
    count_stored_death(g, touched, &e);
    return true;
}

static bool is_living(sh_group *g, uint32_t touched, hd_str id) {
    uint32_t index = hd_map_get(&g->pending_by_id, join_key(g, g->touched[touched].id, id.data, id.size));
    if (index != HD_MAP_NONE) return g->pending[index].record != NULL;
    return sh_view_find_event(&g->touched[touched].view, id) != SH_NONE;
}

/* *is_first_out: no item of the group has touched this id before. */
static sh_pending *find_pending(sh_group *g, uint32_t touched, hd_str id, bool *is_first_out) {
    uint32_t index = map_number(&g->pending_by_id, join_key(g, g->touched[touched].id, id.data, id.size), g->pending_count);
    *is_first_out = index == g->pending_count;
    if (*is_first_out) ADD_ONE(g, pending, pending_count, pending_room);
    return &g->pending[index];
}

static void add_change(sh_group *g, uint32_t touched, const hd_event_record *record, bool is_save, uint64_t number) {
    ADD_ONE(g, changes, change_count, change_room);
    g->changes[g->change_count - 1] = (sh_change){.touched = touched, .record = record, .is_save = is_save, .number = number};
    g->touched[touched].is_changed = true;
}

/* -- idempotency keys ----------------------------------------------------------------------------------------------------------------------- */

/* Was the key seen, in this group or before? Then *once_out is what it was answered. */
static hd_status find_once(sh_group *g, hd_str key, bool *is_seen_out, sh_once *once_out, hd_error *error) {
    uint32_t index = hd_map_get(&g->once_by_key, key);
    *is_seen_out = index != HD_MAP_NONE;
    if (*is_seen_out) {
        *once_out = g->onces[index];
        return HD_OK;
    }
    hd_str value = {0};
    hd_status status = sh_store_get(g->store, SH_FAMILY_ONCE, key, g->arena, &value, error);
    if (status == HD_NOT_FOUND) return HD_OK;
    HD_TRY(status);
    if (!sh_value_read_once(value, once_out))
        return hd_error_set(error, HD_STORE_CORRUPT, "write", "an idempotency key does not decode");
    *is_seen_out = true;
    return HD_OK;
}

static void answer_repeat(sh_group *g, const sh_once *once, uint64_t fingerprint, hd_write_outcome *outcome) {
    *outcome =
        (hd_write_outcome){.code = HD_OK, .is_repeat = true, .is_created = once->is_created, .is_replaced = once->is_replaced};
    /* The id may lie in another request of the group, whose memory goes before this one's reply. */
    HD_CHECK(hd_arena_dup(g->arena, once->event, &outcome->event) == HD_OK);
    if (once->fingerprint != fingerprint)
        outcome->message = HD_STR("this idempotency key was used before, for another record; that one was kept");
}

static void keep_once(sh_group *g, hd_str key, const sh_once *once) {
    (void)map_number(&g->once_by_key, key, g->once_count);
    ADD_ONE(g, onces, once_count, once_room);
    g->onces[g->once_count - 1] = *once;
    sh_value_add_once(&g->value, once);
    put_row(g, SH_FAMILY_ONCE, key.data, key.size);
}

/* -- items ------------------------------------------------------------------------------------------------------------------------------------ */

static hd_str once_key(sh_group *g, const hd_write_item *item) {
    char *key = hd_arena_alloc(g->arena, SH_KEY_ONCE_SIZE);
    HD_CHECK(key != NULL);
    sh_key_of_once(item->partition, item->idempotency_key, key);
    return (hd_str){key, SH_KEY_ONCE_SIZE};
}

static hd_status plan_save(sh_group *g, uint32_t touched, const hd_write_item *item, hd_write_outcome *outcome, hd_error *error) {
    const hd_event_record *e = &item->event;
    sh_touched *t = &g->touched[touched];
    hd_str key = {0};
    sh_once once = {0};
    if (item->idempotency_key.data) {
        bool is_seen = false;
        key = once_key(g, item);
        HD_TRY(find_once(g, key, &is_seen, &once, error));
        uint64_t fingerprint = sh_record_fingerprint(e);
        if (is_seen) {
            answer_repeat(g, &once, fingerprint, outcome);
            return HD_OK;
        }
        once.fingerprint = fingerprint;
    }
    HD_TRY(check_record(e, t->partition->spec.dimension, error));
    if (!item->is_replace && is_living(g, touched, e->id))
        return hd_error_set(error, HD_ALREADY_EXISTS, "write", "event " HD_STR_FMT " exists", HD_STR_ARG(e->id));
    bool is_first = false;
    sh_pending *pending = find_pending(g, touched, e->id, &is_first);
    outcome->is_replaced = kill_living(g, touched, pending, is_first, e->id);
    outcome->is_created = !outcome->is_replaced;
    pending->record = e;
    pending->number = t->commit.record_next++;
    put_version(g, t, e, pending->number);
    count_record(g, touched, e, 1);
    add_change(g, touched, e, true, pending->number);
    if (key.data) {
        once.is_created = outcome->is_created;
        once.is_replaced = outcome->is_replaced;
        once.event = e->id;
        keep_once(g, key, &once);
    }
    return HD_OK;
}

static hd_status plan_delete(sh_group *g, uint32_t touched, const hd_write_item *item, hd_write_outcome *outcome, hd_error *error) {
    if (!hd_event_id_is_valid(item->event.id))
        return hd_error_set(error, HD_ARGUMENT, "write", "an event id is 1..64 of A-Za-z0-9._:-");
    bool is_first = false;
    sh_pending *pending = find_pending(g, touched, item->event.id, &is_first);
    outcome->is_deleted = kill_living(g, touched, pending, is_first, item->event.id);
    if (outcome->is_deleted) add_change(g, touched, &item->event, false, 0);
    return HD_OK;
}

void sh_group_plan(sh_group *g, uint64_t org, const hd_write_item *item, hd_write_outcome *outcome_out) {
    *outcome_out = (hd_write_outcome){.code = HD_OK};
    hd_error error = {0};
    hd_status status = HD_OK;
    uint32_t touched = find_touched(g, org, item);
    if (!g->touched[touched].partition) {
        outcome_out->code = g->touched[touched].code;
        outcome_out->message = g->touched[touched].message;
        return;
    }
    switch (item->kind) {
    case HD_WRITE_SAVE: status = plan_save(g, touched, item, outcome_out, &error); break;
    case HD_WRITE_DELETE: status = plan_delete(g, touched, item, outcome_out, &error); break;
    default: status = hd_error_set(&error, HD_WIRE, "write", "unknown kind of write %d", (int)item->kind); break;
    }
    if (status != HD_OK) set_outcome(g, outcome_out, status, &error);
}

/* -- the whole group ------------------------------------------------------------------------------------------------------------------------------ */

static void settle_names(sh_group *g) {
    for (uint32_t i = 0; i < g->delta_count; i++) {
        const sh_name_delta *d = &g->deltas[i];
        sh_touched *t = &g->touched[d->touched];
        uint32_t number = d->is_tag ? sh_view_find_tag(&t->view, d->id) : sh_view_find_entity(&t->view, d->id);
        uint64_t before = 0;
        if (number != SH_NONE) before = d->is_tag ? sh_view_tag_count(&t->view, number) : sh_view_entity_count(&t->view, number);
        bool is_here_after = (int64_t)before + d->events > 0;
        uint64_t *count = d->is_tag ? &t->commit.tags : &t->commit.entities;
        *count += (uint64_t)((int)is_here_after - (int)(before > 0));
    }
}

void sh_group_close(sh_group *g) {
    settle_names(g);
    for (uint32_t i = 0; i < g->touched_count; i++) {
        const sh_touched *t = &g->touched[i];
        if (!t->is_changed) continue;
        char key[SH_KEY_META_SIZE];
        sh_key_of_meta(t->id, key);
        sh_value_add_meta(&g->value, &t->partition->spec, &t->commit);
        put_row(g, SH_FAMILY_META, key, sizeof(key));
    }
}

static void leave_view(sh_touched *t) {
    if (t->view.graph) sh_view_leave(&t->view);
    t->view.graph = NULL;
}

void sh_group_apply(sh_group *g) {
    for (uint32_t i = 0; i < g->touched_count; i++) leave_view(&g->touched[i]); /* publishing frees what no reader holds */
    for (uint32_t i = 0; i < g->change_count; i++) {
        const sh_change *c = &g->changes[i];
        const sh_touched *t = &g->touched[c->touched];
        if (c->is_save)
            (void)sh_graph_apply_save(t->partition->graph, c->record, c->number, t->commit.sequence);
        else
            HD_CHECK(sh_graph_apply_delete(t->partition->graph, c->record->id, t->commit.sequence));
    }
    for (uint32_t i = 0; i < g->touched_count; i++) {
        sh_touched *t = &g->touched[i];
        if (!t->is_changed) continue;
        sh_graph_publish(t->partition->graph, t->commit.sequence);
        t->partition->commit = t->commit;
        sh_partitions_note_commit(g->partitions, t->partition);
    }
}

void sh_group_end(sh_group *g) {
    for (uint32_t i = 0; i < g->touched_count; i++) {
        sh_touched *t = &g->touched[i];
        if (!t->partition) continue;
        leave_view(t);
        sh_partitions_release(g->partitions, t->partition);
    }
}
