// weft run: a program on weft's libraries.

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/environment.h"
#include "cli/objection.h"
#include "cli/program.h"
#include "cli/say.h"

enum { OPTION_HELP = 'h', OPTION_QUIET = 'q' };

static void run_help(FILE *out)
{
    fputs(
        "Usage: weft run [OPTION...] PROGRAM [ARGUMENT...]\n"
        "\n"
        "Runs PROGRAM with weft in place of the system's libibverbs and librdmacm. Before that it\n"
        "checks that the loader will take weft's libraries and that they have what PROGRAM needs.\n"
        "\n"
        "Options:\n"
        "  -q, --quiet              do not name functions that are not supported\n"
        "  -h, --help               this text\n",
        out);
    environment_options_print(out);
    fputs("\n"
          "Exit status: that of PROGRAM, or 2: wrong command line; 125: weft is not whole;\n"
          "126: PROGRAM cannot run on weft; 127: there is no PROGRAM.\n"
          "\n"
          "Examples:\n"
          "  weft run ibv_devinfo -v\n"
          "  weft run --trace=conn,qp --pcap=ping.pcap rping -c -a 127.0.0.1 -C 3\n"
          "  weft run --peer-timeout=3 --crc=off ./my_rdma_test\n",
          out);
}

/* ---- options --------------------------------------------------------------------------------- */

struct wishes {
    bool is_quiet;
    enum environment_view view;
    bool is_done; // the help was all
};

// 0 with optind at the program; or an exit status.
static int options_read(int argc, char **argv, struct wishes *ret)
{
    struct option options[ENVIRONMENT_OPTION_MAX + 3] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"quiet", no_argument, NULL, OPTION_QUIET},
    };
    environment_options(options + 2);
    *ret = (struct wishes){0};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "+:hq", options, NULL)) != -1;) {
        if (option == OPTION_HELP) {
            run_help(stdout);
            ret->is_done = true;
            return 0;
        }
        if (option == OPTION_QUIET) {
            ret->is_quiet = true;
            continue;
        }
        int result = environment_option_apply("run", option, argv, &ret->view);
        if (result != 0) {
            return result;
        }
    }
    if (optind == argc) {
        return say_usage("run", "which program?");
    }
    return 0;
}

static int run_main(int argc, char **argv)
{
    char library_dir[PATH_MAX], path[PATH_MAX];
    struct wishes wishes;
    int result = options_read(argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    argv += optind;
    if ((result = environment_library_dir(library_dir)) != 0 ||
        (result = program_find(argv[0], path, &hearer_aloud)) != 0 ||
        (result = program_check(path, library_dir, wishes.is_quiet)) != 0 ||
        (result = environment_set(library_dir, wishes.view)) != 0) {
        return result;
    }
    execv(path, argv);
    if (errno == ENOEXEC && !program_is_elf(path)) {
        execvp(path, argv); // a script without a first line that says so: the shell's
    }
    say_error("cannot run program", path, "weft doctor PROGRAM says what is wrong with the file",
              "%m");
    return EXIT_CANNOT;
}

const struct command command_run = {
    .name = "run",
    .summary = "run a program on weft's libibverbs and librdmacm",
    .run = run_main,
    .help = run_help,
};
