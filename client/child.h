/* One server process that `heddle serve` started: its log lines, its word that it is ready, and when it is to be started again. */
#ifndef CL_CHILD_H
#define CL_CHILD_H

#include <sys/types.h>

#include "common/buf.h"

enum { CL_CHILD_ERROR_MAX = 512 };

typedef struct cl_child {
    char name[32]; /* "shard 0" */
    char **argv;   /* owned, NULL-terminated; argv[0] is the program */
    size_t argc;
    pid_t pid;         /* 0: does not run */
    int ready, log;    /* ends of pipes to read; -1: closed */
    hd_buf ready_line; /* what it has said on --ready-fd */
    hd_buf log_line;   /* the beginning of a line of its log */
    bool is_ready;     /* since it was last started */
    int end;           /* how it last ended, as of waitpid */
    uint64_t started_us, restart_at_us;
    uint32_t backoff_ms;
    char last_error[CL_CHILD_ERROR_MAX]; /* the last line of its log that tells an error, for people */
} cl_child;

void cl_child_init(cl_child *child, const char *name);
void cl_child_fini(cl_child *child); /* it does not run any more */
void cl_child_add_word(cl_child *child, const char *format, ...) HD_PRINTF(2, 3);

/* Copies what has arrived to descriptor `log`, whole lines at a time; notes errors. To be called when child->log is readable, and once
 * more when it has ended. */
void cl_child_read_log(cl_child *child, int log);
/* The same for child->ready; sets is_ready. */
void cl_child_read_ready(cl_child *child);
/* "ended with code 1", "was killed by signal 9" */
void cl_child_add_end(const cl_child *child, hd_buf *out);
/* What the line of a log tells, when it tells an error: the message of a JSON line, or a line that is none. Absent where it tells
 * none. `room` receives the text. */
hd_str cl_child_find_error(hd_str line, char *room, size_t room_size);

#endif
