/* Settings from flags, HEDDLE_* variables and one INI file (--config FILE), in that order of precedence. Every program gives a
 * table of its settings; --help is printed from it; an unknown flag, or an unknown key in the file, is an error.
 * Flag "--listen-url" = variable HEDDLE_LISTEN_URL = INI key listen_url. Unknown HEDDLE_* variables are left alone (they may be
 * another program's); an empty one counts as not set. The file holds `key = value` lines, whole-line comments (# or ;) and, if one
 * likes, a [heddle] section; HEDDLE_CONFIG names it where --config does not. To be called before threads are started. */
#ifndef HD_COMMON_CONFIG_H
#define HD_COMMON_CONFIG_H

#include "common/status.h"

typedef enum hd_config_type {
    HD_CONFIG_TEXT,   /* const char ** */
    HD_CONFIG_LIST,   /* hd_config_list *: may be given several times, or comma-separated in the environment and the file */
    HD_CONFIG_COUNT,  /* uint64_t * */
    HD_CONFIG_BYTES,  /* uint64_t *: 512, 64K, 256M, 1G, 2T (powers of 1024) */
    HD_CONFIG_MS,     /* uint64_t *: 250ms, 30s, 5m, 2h; a bare number is milliseconds */
    HD_CONFIG_SWITCH, /* bool *: --name, or true/false in the environment and the file */
} hd_config_type;

typedef struct hd_config_list {
    const char **items;
    size_t count;
} hd_config_list;

typedef struct hd_config_option {
    const char *name; /* without the dashes */
    char letter;      /* one-letter form, or 0 */
    hd_config_type type;
    void *target;           /* holds the default when parsing starts */
    const char *value_name; /* "DIR", for --help */
    const char *help;
} hd_config_option;

/* Parses argv[1..] (argv[0] is not looked at; a command's words may come before, between and after its flags); words that are no options go, in order, to `words_out` (owned by the config, "--" ends the options).
 * Strings stored to targets live until the process ends. --help and --version print and set *is_done_out.
 * HD_ARGUMENT with `error` naming the setting, the value and what would be right. */
HD_MUST_USE hd_status hd_config_parse(const char *program, const char *usage, const hd_config_option *options, size_t option_count,
                                      int argc, char **argv, hd_config_list *words_out, bool *is_done_out, hd_error *error);

#define HD_VERSION "0.1.0"

#endif
