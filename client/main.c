/* heddle: the command line. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/command.h"
#include "common/log.h"

/* What a command printed may not have arrived: a disk without room shows when the last of it is written. */
static int end_output(int code) {
    int problem = fflush(stdout) != 0 ? errno : 0;
    if (problem == 0 && !ferror(stdout)) return code;
    fprintf(stderr, "heddle: the output could not be written%s%s\n", problem != 0 ? ": " : "",
            problem != 0 ? strerror(problem) : "");
    return CL_EXIT_FAILED;
}

int main(int argc, char **argv) {
    hd_log_hold_descriptors();
    return end_output(cl_main(argc, argv));
}
