#include "node/unit/process.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "node/loop/loop.h"
#include "node/unit/confinement.h"
#include "node/unit/runner.h"
#include "node/unit/segment.h"
#include "node/unit/self.h"

// No driver looks for RDMA devices in files: unless it is said, none are written for it. A third of
// what a driver over RDMA asks of the system until it is open was for those.
static void show_no_devices(void)
{
    setenv("WEFT_VIEW_FILES", "off", 0);
}

int unit_process_main(void)
{
    struct runner_parts parts = {
        .channel = UNIT_FD_CHANNEL, .bell_rta = UNIT_FD_BELL_RTA, .bell_cta = UNIT_FD_BELL_CTA};
    parts.landlock = confinement_begin();
    self_ignore_signals();
    show_no_devices();
    prctl(PR_SET_NAME, "weft-rta");
    for (int fd = UNIT_FD_CHANNEL; fd < UNIT_FD_END; fd++) {
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
            fputs("weft: this command is for weft itself\n", stderr);
            return EXIT_FAILURE;
        }
    }
    if (segment_open(UNIT_FD_POOL, &parts.pool) != 0 ||
        segment_open(UNIT_FD_BUS, &parts.bus) != 0 || parts.bus.len < sizeof(struct bus_memory)) {
        fputs("weft: RTA: no shared memory\n", stderr);
        return EXIT_FAILURE;
    }
    parts.loop = loop_create();
    struct runner *runner = parts.loop != NULL ? runner_create(&parts) : NULL;
    if (runner == NULL) {
        fputs("weft: RTA: no memory\n", stderr);
        return EXIT_FAILURE;
    }
    int error = loop_run(parts.loop);
    runner_destroy(runner);
    loop_destroy(parts.loop);
    return error == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
