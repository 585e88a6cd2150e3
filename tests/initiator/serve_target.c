// The target of these tests as a program, for scripts: prints its port, and serves until its
// standard input ends. Words on the command line say how it misbehaves.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/nvme_wire.h"
#include "tests/initiator/target.h"

int main(int argc, char **argv)
{
    struct target_wish wish = {0};
    for (int i = 1; i < argc; i++) {
        wish.is_read_only |= strcmp(argv[i], "read-only") == 0;
        wish.has_no_oneshot |= strcmp(argv[i], "usual") == 0;
        wish.drops_after = strcmp(argv[i], "drops") == 0 ? 5 : wish.drops_after;
        wish.io_status = strcmp(argv[i], "full") == 0 ? NVME_CAPACITY_EXCEEDED | NVME_STATUS_DNR
                                                      : wish.io_status;
    }
    struct target *target = target_start(&wish);
    char octet;
    printf("%s\n", target_port(target));
    fflush(stdout);
    while (read(STDIN_FILENO, &octet, 1) > 0) {
    }
    target_stop(target);
    return 0;
}
