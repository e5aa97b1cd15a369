#include "common/base.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

void hd_panic(const char *file, int line, const char *what) {
    /* stderr may be a pipe that nobody reads any more; there is nothing left to do about that. */
    fprintf(stderr, "heddle: stopped at %s:%d: this must hold: %s\n", file, line, what);
    fflush(stderr);
    abort();
}

static void stop_without_memory(size_t size) HD_NORETURN;
static void stop_without_memory(size_t size) {
    fprintf(stderr, "heddle: stopped: the process has no memory for %zu more bytes\n", size);
    fflush(stderr);
    abort();
}

hd_str hd_str_of(const char *text) {
    return text == NULL ? (hd_str){NULL, 0} : (hd_str){text, strlen(text)};
}

int hd_str_compare(hd_str a, hd_str b) {
    size_t common = HD_MIN(a.size, b.size);
    int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static unsigned char lower_ascii(char c) {
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool hd_str_is_equal_nocase(hd_str a, hd_str b) {
    if (a.size != b.size) return false;
    for (size_t i = 0; i < a.size; i++) {
        if (lower_ascii(a.data[i]) != lower_ascii(b.data[i])) return false;
    }
    return true;
}

void *hd_alloc(size_t size) {
    void *memory = malloc(HD_MAX(size, 1));
    if (HD_UNLIKELY(memory == NULL)) stop_without_memory(size);
    return memory;
}

void *hd_alloc_zero(size_t count, size_t size) {
    void *memory = calloc(HD_MAX(count, 1), HD_MAX(size, 1));
    if (HD_UNLIKELY(memory == NULL)) stop_without_memory(size == 0 || count <= SIZE_MAX / size ? count * size : SIZE_MAX);
    return memory;
}

void *hd_realloc(void *memory, size_t size) {
    void *grown = realloc(memory, HD_MAX(size, 1));
    if (HD_UNLIKELY(grown == NULL)) stop_without_memory(size);
    return grown;
}

char *hd_strdup(const char *text) {
    return hd_str_to_c(hd_str_of(text));
}

char *hd_str_to_c(hd_str text) {
    char *copy = hd_alloc(text.size + 1);
    if (text.size > 0) memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

void hd_free(void *memory) {
    free(memory);
}

void hd_alloc_stay_warm(void) {
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 20);
    mallopt(M_TOP_PAD, 1 << 20);
}
