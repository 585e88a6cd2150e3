// The process of an RTA. The host starts the program again, as the hidden command
// UNIT_PROCESS_COMMAND, with these descriptors and no others.
#pragma once

#define UNIT_PROCESS_COMMAND "rta-process"

enum unit_process_fd {
    UNIT_FD_CHANNEL = 3,
    UNIT_FD_POOL,
    UNIT_FD_BUS,
    UNIT_FD_BELL_RTA,
    UNIT_FD_BELL_CTA,
    UNIT_FD_END
};

// Runs until the host is gone or has had enough. The exit status.
int unit_process_main(void);
