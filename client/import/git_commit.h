/* A commit object's bytes → its parts, and texts of any encoding → UTF-8. Own parsing rather than the library's, which refuses commits
 * that old or odd tools wrote; here every commit lands. Pure. */
#ifndef CL_IMPORT_GIT_COMMIT_H
#define CL_IMPORT_GIT_COMMIT_H

#include "common/arena.h"

enum { CL_GIT_HASH_TEXT = 40 };

/* Strings are borrowed from the object's bytes. */
typedef struct cl_git_commit {
    hd_str tree;           /* hex; absent where the object has none */
    const hd_str *parents; /* hex, in the arena */
    uint32_t parent_count;
    hd_str author_name, author_email; /* raw bytes, trimmed of blanks; may be empty */
    bool has_time;                    /* of the commit; else of the author; false: neither can be read */
    int64_t time_s;                   /* Unix time */
    hd_str encoding;                  /* "ISO-8859-1"; absent: UTF-8 */
    hd_str message;                   /* raw bytes */
} cl_git_commit;

/* Headers that cannot be read are left out; there is no failure but HD_MEMORY. */
HD_MUST_USE hd_status cl_git_commit_parse(hd_arena *arena, hd_str object, cl_git_commit *commit_out);

/* The text in UTF-8, without NULs. Bytes that are none of the encoding, or of an encoding that is not known, become U+FFFD;
 * *is_repaired_out says so. In the arena, or borrowed where it was fine as it stood. */
HD_MUST_USE hd_status cl_git_text(hd_arena *arena, hd_str bytes, hd_str encoding, hd_str *text_out, bool *is_repaired_out);

#endif
