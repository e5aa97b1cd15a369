/* Which provider an org's texts go to. */
#include "coordinator/embed/provider.h"

/* One text: the folded text, a few sums. Far above what 8 KiB of query or 500 characters of summary need. */
enum { EMBED_SCRATCH_MAX = 16 << 20 };

const char *co_embedding_name(co_embedding embedding) {
    switch (embedding) {
    case CO_EMBEDDING_BUILTIN: return "builtin";
    case CO_EMBEDDING_HTTP: return "http";
    case CO_EMBEDDING_NONE: break;
    }
    return "none";
}

static hd_status embed_builtin_all(const co_org *org, const hd_str *texts, uint32_t count, float *vectors_out, hd_error *error) {
    hd_arena *arena = hd_arena_new(EMBED_SCRATCH_MAX);
    hd_status status = HD_OK;
    for (uint32_t i = 0; i < count && status == HD_OK; i++) {
        status = co_embed_builtin(arena, texts[i], org->dimension, vectors_out + (size_t)i * org->dimension);
        hd_arena_reset(arena);
    }
    hd_arena_free(arena);
    if (status == HD_ARGUMENT) return hd_error_set(error, status, "embed", "the text has nothing in it to embed");
    if (status != HD_OK) return hd_error_set(error, status, "embed", "the text is too long to embed");
    return HD_OK;
}

hd_status co_embed(const co_org *org, const hd_str *texts, uint32_t count, float *vectors_out, hd_error *error) {
    switch (org->embedding) {
    case CO_EMBEDDING_BUILTIN: return embed_builtin_all(org, texts, count, vectors_out, error);
    case CO_EMBEDDING_NONE:
        return hd_error_set(error, HD_PARAMS, "embed", "this org has no embedding provider: its callers bring the vectors");
    case CO_EMBEDDING_HTTP: break; /* no org can be made with it in this version; a catalog of a newer one could hold it */
    }
    return hd_error_set(error, HD_UNAVAILABLE, "embed", "this version has no embedding provider of the kind that the org asks for");
}
