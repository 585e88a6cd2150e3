// The commands of `weft`: one table in main.c, one file each.
//
//     run.c        a program on weft's libraries
//     env.c        ... and all that a shell starts
//     stat.c       the counters of running processes
//     reads.c      how they divide their RDMA Reads
//     draw.c       a connection's life, from a capture, as a picture
//     serve.c      a storage node
//     status.c     running nodes: weft status, weft rescan
//     attach.c     a volume of a target as a local one
//     discover.c   what targets offer: weft discover, weft ls, weft info
//     cp.c         files and volumes, from the one to the other
//     doctor/, top/, watch/   those of many files
#pragma once

#include <stdio.h>

struct command {
    const char *name;
    const char *summary; // one line for the list of commands
    // argv[0] is the command's name; the result is the exit status.
    int (*run)(int argc, char **argv);
    // The whole help text.
    void (*help)(FILE *out);
};

extern const struct command command_attach, command_cp, command_discover, command_doctor,
    command_draw, command_env, command_info, command_ls, command_reads, command_rescan, command_run,
    command_serve, command_stat, command_status, command_top, command_watch;

// Prints the settings: variable, option, what a value may be, what holds without one.
void settings_print(FILE *out);
