/* What the fuzz targets share: a claim that must hold, and a look at what was written for a client. */
#ifndef HD_TESTS_FUZZ_H
#define HD_TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <jansson.h>

#include "common/buf.h"
#include "common/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A claim that does not hold is a finding like a crash: the fuzzer keeps the input. */
#define FUZZ_CHECK(claim)                                                                   \
    do {                                                                                    \
        if (!(claim)) {                                                                     \
            fprintf(stderr, "%s:%d: this does not hold: %s\n", __FILE__, __LINE__, #claim); \
            abort();                                                                        \
        }                                                                                   \
    } while (0)

/* A copy that ends where its heap block ends, so that the sanitizer sees a read past it. Free it with hd_free. */
static inline hd_str fuzz_copy(const void *data, size_t size) {
    char *copy = hd_alloc(size > 0 ? size : 1);
    if (size > 0) memcpy(copy, data, size);
    return (hd_str){copy, size};
}

/* One JSON object, as a client would read it. */
static inline void fuzz_check_json(const hd_buf *text) {
    hd_str bytes = hd_buf_get(text);
    json_error_t problem;
    json_t *json = json_loadb(bytes.data, bytes.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (json == NULL) fprintf(stderr, "%s at byte %d of: %.*s\n", problem.text, problem.position, (int)bytes.size, bytes.data);
    FUZZ_CHECK(json != NULL && json_is_object(json));
    json_decref(json);
}

#endif
