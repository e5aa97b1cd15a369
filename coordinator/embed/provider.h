/* Text to vectors, as an org's provider does it. */
#ifndef CO_EMBED_PROVIDER_H
#define CO_EMBED_PROVIDER_H

#include "coordinator/cluster/catalog.h"

/* "builtin", "http", "none". */
const char *co_embedding_name(co_embedding embedding);

/* Embeds `count` texts into vectors_out (count × org->dimension floats, unit length). HD_PARAMS: the org has no provider (bring a
 * vector). HD_ARGUMENT: a text with nothing in it to embed. HD_UNAVAILABLE: the provider failed. */
HD_MUST_USE hd_status co_embed(const co_org *org, const hd_str *texts, uint32_t count, float *vectors_out, hd_error *error);

/* The built-in model: hashed word and character n-grams of the NFKC_Casefold text, signed, weighted, unit length. Lexical. The same
 * text gives the same bytes on every machine (integer sums, then one correctly rounded division each). HD_ARGUMENT: nothing but white
 * space. */
HD_MUST_USE hd_status co_embed_builtin(hd_arena *arena, hd_str text, uint32_t dimension, float *vector_out);

#endif
