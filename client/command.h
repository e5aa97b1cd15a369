/* The commands of `heddle`: one table, and what all of them share. */
#ifndef CL_COMMAND_H
#define CL_COMMAND_H

#include "common/config.h"

/* Exit codes. PARTIAL and REJECTED are `query`'s alone. */
enum { CL_EXIT_OK = 0, CL_EXIT_FAILED = 1, CL_EXIT_REJECTED = 2, CL_EXIT_PARTIAL = 3 };

typedef struct cl_command {
    const char *name;  /* "import git" */
    const char *about; /* one line */
    /* argv[0] is not looked at; the command's own words are left out of argv. Returns the exit code. */
    int (*run)(int argc, char **argv);
} cl_command;

extern const cl_command cl_commands[];
extern const size_t cl_command_count;

/* All of `heddle`: finds the command and runs it. Returns the exit code. */
int cl_main(int argc, char **argv);

int cl_serve_run(int argc, char **argv);
int cl_query_run(int argc, char **argv);
int cl_status_run(int argc, char **argv);
int cl_import_git_run(int argc, char **argv);
int cl_import_jsonl_run(int argc, char **argv);
int cl_org_create_run(int argc, char **argv);
int cl_org_list_run(int argc, char **argv);
int cl_org_show_run(int argc, char **argv);
int cl_org_delete_run(int argc, char **argv);
int cl_key_create_run(int argc, char **argv);
int cl_key_list_run(int argc, char **argv);
int cl_key_revoke_run(int argc, char **argv);

#endif
