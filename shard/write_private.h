/* One group of writes on its way to the store: what write.c (queue, commit, answers) and write_plan.c (what each item does) share. */
#ifndef SH_WRITE_PRIVATE_H
#define SH_WRITE_PRIVATE_H

#include "common/map.h"
#include "shard/write.h"

/* A partition that items of the group name, as one org sees it at one epoch. Several may name the same partition wrongly; at most one
 * holds it. */
typedef struct sh_touched {
    uint64_t org, id, epoch;
    sh_partition *partition; /* pinned; NULL where it was refused … */
    hd_status code;          /* … with this */
    hd_str message;
    sh_view view;     /* of the state before the group */
    sh_commit commit; /* what will stand when the group is in */
    bool is_changed;
} sh_touched;

/* What to do to a graph once the store has taken the group, in order. */
typedef struct sh_change {
    uint32_t touched;
    const hd_event_record *record; /* SAVE: all of it; DELETE: the id */
    bool is_save;
    uint64_t number; /* SAVE: the version's record number */
} sh_change;

/* An event id that the group has saved or deleted: what an item behind it must see. */
typedef struct sh_pending {
    const hd_event_record *record; /* the version born in this group that lives now; NULL: none lives */
    uint64_t number;
} sh_pending;

/* How many events more (or fewer) a name has by this group. */
typedef struct sh_name_delta {
    uint32_t touched;
    bool is_tag;
    hd_id128 id;
    int64_t events;
} sh_name_delta;

typedef struct sh_group {
    sh_store *store;
    sh_partitions *partitions;
    sh_batch *batch;
    hd_arena *arena; /* everything of the group */
    hd_buf value;    /* scratch */
    sh_touched *touched;
    sh_change *changes;
    sh_pending *pending;
    sh_name_delta *deltas;
    sh_once *onces;
    uint32_t touched_count, change_count, pending_count, delta_count, once_count;
    uint32_t touched_room, change_room, pending_room, delta_room, once_room;
    hd_map pending_by_id, delta_by_name, once_by_key; /* keys begin with the partition */
} sh_group;

void sh_group_begin(sh_group *group);
/* Decides what the item does and adds it to the batch. Always fills the outcome; messages lie in the arena. */
void sh_group_plan(sh_group *group, uint64_t org, const hd_write_item *item, hd_write_outcome *outcome_out);
/* Adds each changed partition's numbers to the batch. */
void sh_group_close(sh_group *group);
/* The store took it: brings it into the graphs and publishes. */
void sh_group_apply(sh_group *group);
/* Releases every partition, whether the group went in or not. */
void sh_group_end(sh_group *group);

#endif
