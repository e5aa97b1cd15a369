/* Finds the command that the first words name. Words of a command come before its flags: `heddle import git --key K PATH`. */
#include "client/command.h"

#include <stdio.h>

#include "client/call.h"
#include "common/buf.h"
#include "common/text.h"

enum { NEAR_MISS_MAX = 3, WORDS_MAX = 3 };

const cl_command cl_commands[] = {
    {"serve", "run a coordinator and its shards on this machine", cl_serve_run},
    {"admin org create", "make an org and print its first key", cl_org_create_run},
    {"admin org list", "list the orgs", cl_org_list_run},
    {"admin org show", "show one org", cl_org_show_run},
    {"admin org delete", "delete an org with all its data", cl_org_delete_run},
    {"admin key create", "make a key of an org and print it", cl_key_create_run},
    {"admin key list", "list the keys of an org", cl_key_list_run},
    {"admin key revoke", "make a key of an org useless", cl_key_revoke_run},
    {"import git", "import the history of a git repository", cl_import_git_run},
    {"import jsonl", "import a file of memories, one JSON object a line", cl_import_jsonl_run},
    {"query", "run a query and show its answer", cl_query_run},
    {"status", "show shards, orgs, events and memory", cl_status_run},
};
const size_t cl_command_count = HD_COUNT_OF(cl_commands);

/* ---- names ---- */

/* The words of argv[1..] before the first flag, joined by blanks, `count` at the most. */
static void join_words(hd_buf *out, int argc, char **argv, int count) {
    for (int i = 1; i < argc && i <= count && argv[i][0] != '-'; i++) {
        if (i > 1) hd_buf_add_char(out, ' ');
        hd_buf_add_str(out, hd_str_of(argv[i]));
    }
}

static int count_words(const char *name) {
    int count = 1;
    for (; *name != '\0'; name++) count += *name == ' ';
    return count;
}

/* The command whose words argv[1..] begins with. */
static const cl_command *find_command(int argc, char **argv) {
    for (size_t i = 0; i < cl_command_count; i++) {
        hd_buf words = {0};
        join_words(&words, argc, argv, count_words(cl_commands[i].name));
        bool is_it = hd_str_is_equal(hd_buf_get(&words), hd_str_of(cl_commands[i].name));
        hd_buf_fini(&words);
        if (is_it) return &cl_commands[i];
    }
    return NULL;
}

/* Do the given words stand at the beginning of the command's name ("admin key" of "admin key list")? */
static bool is_begun(const cl_command *command, hd_str words) {
    hd_str name = hd_str_of(command->name);
    return words.size < name.size && memcmp(name.data, words.data, words.size) == 0 && name.data[words.size] == ' ';
}

/* The command nearest in spelling to the words given, of as many words; NULL where none is near. */
static const cl_command *find_near_miss(int argc, char **argv) {
    const cl_command *nearest = NULL;
    uint32_t least = NEAR_MISS_MAX + 1;
    for (size_t i = 0; i < cl_command_count; i++) {
        hd_buf words = {0};
        join_words(&words, argc, argv, count_words(cl_commands[i].name));
        uint32_t limit = HD_MIN((uint32_t)NEAR_MISS_MAX, (uint32_t)(words.size + 2) / 3);
        uint32_t distance = hd_text_distance(hd_buf_get(&words), hd_str_of(cl_commands[i].name), limit);
        hd_buf_fini(&words);
        if (distance > limit || distance >= least) continue;
        least = distance;
        nearest = &cl_commands[i];
    }
    return nearest;
}

/* ---- help ---- */

/* The commands whose names begin with `begin` (absent: all). */
static void write_commands(FILE *file, hd_str begin) {
    for (size_t i = 0; i < cl_command_count; i++)
        if (begin.size == 0 || is_begun(&cl_commands[i], begin))
            fprintf(file, "  heddle %-18s %s\n", cl_commands[i].name, cl_commands[i].about);
}

static void write_help(FILE *file) {
    fprintf(file,
            "heddle COMMAND [OPTIONS]: the command line of Heddle, a query engine for the memory of AI agents\n\n"
            "Commands:\n");
    write_commands(file, (hd_str){0});
    fprintf(file,
            "  heddle %-18s %s\n\n"
            "Every command: --json for machine-readable output, --help for its options. `man heddle` tells all.\n"
            "Where: --url or HEDDLE_URL (http://127.0.0.1:7700). Who: --key or HEDDLE_KEY; for admin and status the admin key, by\n"
            "--admin-key-file, --data or HEDDLE_ADMIN_KEY.\n"
            "Exit: 0 it worked, 1 it did not; query: 3 the answer is partial, 2 the query was rejected.\n",
            "help COMMAND", "the options of a command");
}

/* `command --help`; its own words are gone from argv. */
static int run_help(const cl_command *command) {
    char program[] = "heddle", flag[] = "--help";
    char *argv[] = {program, flag, NULL};
    return command->run(2, argv);
}

static int refuse_words(int argc, char **argv) {
    hd_buf words = {0};
    const cl_command *near = find_near_miss(argc, argv);
    join_words(&words, argc, argv, near != NULL ? count_words(near->name) : 1); /* the rest are its arguments */
    if (near != NULL)
        fprintf(stderr, "heddle: there is no command \"%s\"; did you mean `heddle %s`?\n", words.data, near->name);
    else
        fprintf(stderr, "heddle: there is no command \"%s\"; `heddle help` lists them\n", words.data);
    hd_buf_fini(&words);
    return CL_EXIT_FAILED;
}

/* Words that begin commands and are none yet: "heddle admin". */
static int list_begun(int argc, char **argv, bool is_asked, bool *is_begun_out) {
    hd_buf words = {0};
    join_words(&words, argc, argv, WORDS_MAX);
    *is_begun_out = false;
    for (size_t i = 0; i < cl_command_count; i++) *is_begun_out |= is_begun(&cl_commands[i], hd_buf_get(&words));
    if (*is_begun_out) {
        if (!is_asked) fprintf(stderr, "heddle: \"%s\" is the beginning of several commands:\n", words.data);
        write_commands(is_asked ? stdout : stderr, hd_buf_get(&words));
    }
    hd_buf_fini(&words);
    return is_asked ? CL_EXIT_OK : CL_EXIT_FAILED;
}

static bool is_help_flag(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* `heddle help [COMMAND]` */
static int help(int argc, char **argv) {
    if (argc < 2 || argv[1][0] == '-') {
        write_help(stdout);
        return CL_EXIT_OK;
    }
    const cl_command *command = find_command(argc, argv);
    if (command != NULL) return run_help(command);
    bool is_listed;
    int code = list_begun(argc, argv, true, &is_listed);
    return is_listed ? code : refuse_words(argc, argv);
}

int cl_main(int argc, char **argv) {
    if (argc < 2) {
        write_help(stderr);
        return CL_EXIT_FAILED;
    }
    if (is_help_flag(argv[1]) || strcmp(argv[1], "help") == 0) return help(argc - 1, argv + 1);
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "version") == 0) {
        printf("heddle %s\n", HD_VERSION);
        return CL_EXIT_OK;
    }
    if (argv[1][0] == '-') {
        fprintf(stderr, "heddle: a command comes first, then its options; `heddle help` lists the commands\n");
        return CL_EXIT_FAILED;
    }
    const cl_command *command = find_command(argc, argv);
    if (command != NULL) {
        int words = count_words(command->name);
        argv[words] = argv[0];
        return command->run(argc - words, argv + words);
    }
    bool is_listed;
    int code = list_begun(argc, argv, is_help_flag(argv[argc - 1]), &is_listed);
    return is_listed ? code : refuse_words(argc, argv);
}
