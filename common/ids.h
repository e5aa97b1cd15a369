/* Identities: of events, entities, tags, partitions; and who owns what. */
#ifndef HD_COMMON_IDS_H
#define HD_COMMON_IDS_H

#include "common/arena.h"

enum { HD_EVENT_ID_MAX = 64, HD_ENTITY_ID_TEXT = 36, HD_PARTITIONS_MAX = 256 };

/* 1..64 of A-Za-z0-9._:- */
bool hd_event_id_is_valid(hd_str id);
/* A fresh ULID (26 characters, Crockford base 32), from the clock and the system's random source. NUL-terminated. */
void hd_event_id_new(char text_out[27]);
/* A ULID-shaped id derived from an org and an idempotency key, so that a repeated save names the same event. NUL-terminated. */
void hd_event_id_from_key(uint64_t org, hd_str idempotency_key, char text_out[27]);
/* The low log2(partition_count) bits of XXH3-64(id, seed 0); partition_count is a power of two, 1..256. */
uint32_t hd_event_partition(hd_str event_id, uint32_t partition_count);

/* BLAKE2b-128 of the name in UTF-8 (which is already trimmed and NFC). */
hd_id128 hd_name_id(hd_str name);
/* "ent_" or "tag_" and 32 lower-case hex digits, NUL-terminated. */
void hd_entity_id_format(hd_id128 id, char text_out[37]);
void hd_tag_id_format(hd_id128 id, char text_out[37]);
/* False: not of that form (upper-case hex is not). */
bool hd_entity_id_parse(hd_str text, hd_id128 *id_out);
bool hd_tag_id_parse(hd_str text, hd_id128 *id_out);

/* 64 bits of XXH3 with seed 0. */
uint64_t hd_hash64(const void *bytes, size_t size);
/* Bytes from the system's random source. */
void hd_random_bytes(void *bytes_out, size_t size);
uint64_t hd_random_u64(void);

#endif
