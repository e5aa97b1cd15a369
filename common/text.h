/* Unicode at the edges (utf8proc has its only includer here): checks, NFC for identity, NFKC_Casefold for search. */
#ifndef HD_COMMON_TEXT_H
#define HD_COMMON_TEXT_H

#include "common/arena.h"

/* Well-formed UTF-8 without surrogates or NUL-free requirement (NUL is valid UTF-8; see has_control). */
bool hd_text_is_utf8(hd_str text);
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
/* Damerau-Levenshtein distance in bytes of short ASCII-ish words, capped at `max` + 1; for near misses. */
uint32_t hd_text_distance(hd_str a, hd_str b, uint32_t max);
/* Columns a terminal needs for the text (wide East Asian characters are 2, combining marks 0). */
size_t hd_text_width(hd_str text);

#endif
