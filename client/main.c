/* heddle: the command line. */
#include "client/command.h"

int main(int argc, char **argv) {
    return cl_main(argc, argv);
}
