/* Unicode at the edges (utf8proc has its only includer here): checks, NFC for identity, NFKC_Casefold for search. */
#ifndef HD_COMMON_TEXT_H
#define HD_COMMON_TEXT_H

#include "common/arena.h"

/* Well-formed UTF-8: no surrogates, nothing overlong, nothing above U+10FFFF. NUL is valid UTF-8; see has_control. */
bool hd_text_is_utf8(hd_str text);
/* Bytes of the longest well-formed beginning; *bad_size_out: bytes of the ill-formed piece (a maximal subpart, 1..3 bytes) that
 * follows it, 0 when all of the text is well-formed. */
size_t hd_text_valid_prefix(hd_str text, size_t *bad_size_out);
/* Any C0 control, DEL or C1 control (U+0080..U+009F). `allow_layout` lets tab, line feed and carriage return pass. */
bool hd_text_has_control(hd_str text, bool allow_layout);
/* Code points in valid UTF-8. */
size_t hd_text_length(hd_str text);
/* The bytes of the first `count` code points (all of them, when there are fewer). */
hd_str hd_text_prefix(hd_str text, size_t count);

/* White space (Unicode White_Space) off both ends, borrowed from `text`. */
hd_str hd_text_trim(hd_str text);
/* A name as it is stored and hashed: trimmed, NFC. In the arena. HD_ARGUMENT: not valid UTF-8. */
HD_MUST_USE hd_status hd_text_name(hd_arena *arena, hd_str text, hd_str *name_out);
/* Unicode NFKC_Casefold (default ignorables dropped), for CONTAINS and the name fallback. HD_ARGUMENT: not valid UTF-8. */
HD_MUST_USE hd_status hd_text_fold(hd_arena *arena, hd_str text, hd_str *folded_out);
/* Plain substring search in bytes; an empty needle is found. Linear time. */
bool hd_text_contains(hd_str haystack, hd_str needle);
/* Invalid bytes (maximal subparts) become U+FFFD; valid text is borrowed as it is. */
HD_MUST_USE hd_status hd_text_repair(hd_arena *arena, hd_str bytes, hd_str *text_out);
/* Damerau-Levenshtein distance (insert, delete, replace, swap of neighbours) in bytes, capped at `max` + 1; for near misses. Words of
 * more than 255 bytes are near nothing. */
uint32_t hd_text_distance(hd_str a, hd_str b, uint32_t max);
/* Columns a terminal needs for the text (wide East Asian characters are 2; combining marks, ignorable and control characters 0; an
 * ill-formed piece 1). */
size_t hd_text_width(hd_str text);

#endif
