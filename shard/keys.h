/* How a partition lies in the store, byte by byte: keys and values of every column family. Knows nothing of RocksDB.
 *
 * Keys start with the partition's id in big-endian, so that a partition is one contiguous range of every family and its records stand
 * in the order they were made. A *record number* counts the event versions of a partition from 1 and is never used twice.
 *
 *   family   key                                                         value
 *   event    | partition u64 be | record u64 be |                        | 1 | born | flags | timestamp | order | id | thread |
 *                                                                          | previous | entities… | tags… |
 *   text     | partition u64 be | record u64 be |                        | 1 | summary | content |
 *   vector   | partition u64 be | record u64 be |                        float32 little-endian × dimension; no row: no vector
 *   dead     | partition u64 be | record u64 be |                        | 1 | died at sequence | wall time u64 |
 *   once     | partition u64 be | BLAKE2b-128 of the idempotency key |   | 1 | flags | fingerprint u64 | event id |
 *   meta     | 'p' | partition u64 be |                                  | 1 | org | epoch | dimension | next record | sequence |
 *                                                                          | events | vectors | entities | tags |
 *   meta     "uuid"                                                      36 characters
 *
 * Values begin with their layout's version. Numbers are varints (signed ones zigzag) unless their width is given; strings carry their
 * size in front. A version lives while it has no row in `dead`; what is dead stays readable until it is swept. */
#ifndef SH_KEYS_H
#define SH_KEYS_H

#include "common/arena.h"
#include "common/buf.h"
#include "proto/control.h"
#include "proto/write.h"

enum {
    SH_KEY_PARTITION_SIZE = 8, /* prefix of all keys of a partition, but in meta */
    SH_KEY_RECORD_SIZE = 16,
    SH_KEY_ONCE_SIZE = 24,
    SH_KEY_META_SIZE = 9,
};

/* What a record may hold at most; the writer refuses more, the reader takes more for damage. */
enum { SH_ENTITIES_MAX = 64, SH_TAGS_MAX = 64 };

void sh_key_of_partition(uint64_t partition, char key_out[SH_KEY_PARTITION_SIZE]);
/* The first key behind the partition's; partition ids stop short of UINT64_MAX. */
void sh_key_after_partition(uint64_t partition, char key_out[SH_KEY_PARTITION_SIZE]);
void sh_key_of_record(uint64_t partition, uint64_t record, char key_out[SH_KEY_RECORD_SIZE]);
void sh_key_of_once(uint64_t partition, hd_str idempotency_key, char key_out[SH_KEY_ONCE_SIZE]);
void sh_key_of_meta(uint64_t partition, char key_out[SH_KEY_META_SIZE]);
/* False: a key of another form. */
bool sh_key_parse_record(hd_str key, uint64_t *partition_out, uint64_t *record_out);
bool sh_key_parse_meta(hd_str key, uint64_t *partition_out);
hd_str sh_key_meta_uuid(void);
hd_str sh_key_meta_prefix(void); /* of all partitions' meta keys */

/* Where a partition's numbering stands and what is alive in it: written with every group that touches it. */
typedef struct sh_commit {
    uint64_t record_next;                     /* the next version gets this number; at least 1 */
    uint64_t sequence;                        /* of the last group; at least 1 */
    uint64_t events, vectors, entities, tags; /* alive */
} sh_commit;

void sh_value_add_meta(hd_buf *buf, const hd_partition_spec *spec, const sh_commit *commit);
/* `id` of the spec is the key's; the caller sets it. */
bool sh_value_read_meta(hd_str value, hd_partition_spec *spec_out, sh_commit *commit_out);

/* Everything of the record but summary, content and the vector itself. */
void sh_value_add_event(hd_buf *buf, const hd_event_record *record, uint64_t born);
/* Strings point into `value`, arrays lie in `arena`. *has_vector_out: a row in `vector` belongs to it. HD_STORE_CORRUPT, HD_MEMORY. */
HD_MUST_USE hd_status sh_value_read_event(hd_arena *arena, hd_str value, hd_event_record *record_out, uint64_t *born_out,
                                          bool *has_vector_out);

void sh_value_add_text(hd_buf *buf, hd_str summary, hd_str content);
bool sh_value_read_text(hd_str value, hd_str *summary_out, hd_str *content_out);
/* From the first bytes of such a value; false also when the summary is not all in them. */
bool sh_value_read_summary(hd_str head, hd_str *summary_out);

/* Appends `dimension` floats as they are stored. */
void sh_value_add_vector(hd_buf *buf, const float *vector, uint32_t dimension);
bool sh_value_read_vector(hd_str value, uint32_t dimension, float *vector_out);

void sh_value_add_dead(hd_buf *buf, uint64_t died, int64_t wall_us);
bool sh_value_read_dead(hd_str value, uint64_t *died_out, int64_t *wall_us_out);

/* What a save with an idempotency key was answered. */
typedef struct sh_once {
    bool is_created, is_replaced;
    uint64_t fingerprint; /* of what was saved, sh_record_fingerprint */
    hd_str event;
} sh_once;
void sh_value_add_once(hd_buf *buf, const sh_once *once);
bool sh_value_read_once(hd_str value, sh_once *once_out);

/* Tells whether a repeat under the same idempotency key says the same thing. Leaves out timestamp and vector, which are given by the
 * engine where the caller gives none, and so differ between two sendings of the same save. */
uint64_t sh_record_fingerprint(const hd_event_record *record);

#endif
