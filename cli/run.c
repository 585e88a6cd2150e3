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
#include "cli/program.h"
#include "cli/say.h"
#include "cli/settings.h"

enum run_option {
    OPTION_HELP = 'h',
    OPTION_QUIET = 'q',
    OPTION_VIEW = 'v',
    OPTION_SET = 256,
    OPTION_STATS,
    OPTION_SETTING
};

static void run_help(FILE *out)
{
    fputs(
        "Usage: weft run [OPTION...] PROGRAM [ARGUMENT...]\n"
        "\n"
        "Runs PROGRAM with weft in place of the system's libibverbs and librdmacm. Before that it\n"
        "checks that the loader will take weft's libraries and that they have what PROGRAM needs.\n"
        "\n"
        "Options:\n"
        "  --set NAME=VALUE         a setting by the name of its variable, WEFT_ may be left out\n"
        "  --stats=FILE             the counters at exit, like WEFT_STATS_FILE\n"
        "  --view=preload|off       show PROGRAM the devices in /sys/class/infiniband and\n"
        "                           /dev/infiniband too, by a preloaded library: by itself with\n"
        "                           --wire=roce\n"
        "  -q, --quiet              do not name functions that are not supported\n"
        "  -h, --help               this text\n"
        "\n"
        "Settings, see `weft help environment` for their values:\n",
        out);
    setting_options_print(out);
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

static int option_apply(int option, char **argv)
{
    switch (option) {
    case OPTION_SET:
        return setting_assign(optarg);
    case OPTION_STATS:
        return setting_assign_to("WEFT_STATS_FILE", optarg);
    case '?':
        return say_usage("run", "there is no option %s", argv[optind - 1]);
    case ':':
        return say_usage("run", "%s needs a value", argv[optind - 1]);
    default:
        return setting_set((size_t)(option - OPTION_SETTING), optarg);
    }
}

// What stands between a program and paths of /sys and /dev.
enum view { VIEW_BY_WIRE, VIEW_OFF, VIEW_PRELOAD };

struct wishes {
    bool is_quiet;
    enum view view;
    bool is_done; // the help was all
};

static int view_choose(const char *text, enum view *ret)
{
    if (strcmp(text, "off") == 0 || strcmp(text, "preload") == 0) {
        *ret = *text == 'p' ? VIEW_PRELOAD : VIEW_OFF;
        return 0;
    }
    return say_usage("run", "cannot use --view=%s: it must be preload or off", text);
}

// 0 with optind at the program; or an exit status.
static int options_read(int argc, char **argv, struct wishes *ret)
{
    struct option options[SETTING_COUNT_MAX + 6] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"quiet", no_argument, NULL, OPTION_QUIET},
        {"set", required_argument, NULL, OPTION_SET},
        {"stats", required_argument, NULL, OPTION_STATS},
        {"view", required_argument, NULL, OPTION_VIEW},
    };
    setting_options(options + 5, OPTION_SETTING);
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
        int result =
            option == OPTION_VIEW ? view_choose(optarg, &ret->view) : option_apply(option, argv);
        if (result != 0) {
            return result;
        }
    }
    if (optind == argc) {
        return say_usage("run", "which program?");
    }
    return 0;
}

/* ---- where our libraries are ----------------------------------------------------------------- */

static bool has_library(const char *dir)
{
    char path[PATH_MAX];
    int len = snprintf(path, sizeof path, "%s/libweft.so.1", dir);
    return len < PATH_MAX && access(path, R_OK) == 0;
}

// Beside this program in the tree it was built in, or where `make install` puts them.
static int library_dir_find(char ret_dir[PATH_MAX])
{
    static const char *const places[] = {"lib", WEFT_LIBRARY_DIR};
    char own[PATH_MAX], place[PATH_MAX];
    ssize_t len = readlink("/proc/self/exe", own, sizeof own - 1);
    if (len <= 0) {
        say_error("weft is not whole", "/proc/self/exe", "mount /proc", "%m");
        return EXIT_BROKEN;
    }
    own[len] = '\0';
    *strrchr(own, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        int place_len = snprintf(place, sizeof place, "%s/%s", own, places[i]);
        if (place_len < PATH_MAX && has_library(place) && realpath(place, ret_dir) != NULL) {
            if (strpbrk(ret_dir, ":;") == NULL) {
                return 0;
            }
            say_error("weft cannot be used here", ret_dir, "move weft to another folder",
                      "LD_LIBRARY_PATH cannot hold a path with : or ; in it");
            return EXIT_BROKEN;
        }
    }
    say_error("weft is not whole", own, "build it (make), or install it again",
              "libweft.so.1 is neither in lib/ nor in %s/ from there", WEFT_LIBRARY_DIR);
    return EXIT_BROKEN;
}

// Puts `first` before what the variable lists already.
static int list_prepend(const char *variable, const char *first)
{
    const char *before = getenv(variable);
    char *list = NULL;
    bool has_more = before != NULL && *before != '\0';
    if (asprintf(&list, "%s%s%s", first, has_more ? ":" : "", has_more ? before : "") < 0 ||
        setenv(variable, list, 1) != 0) {
        say_error("environment not set", variable, "free some memory", "%m");
        return EXIT_BROKEN;
    }
    free(list);
    return 0;
}

// The preloaded library is looked for where the others are: it reaches what they reach. Programs
// for InfiniBand look at files before they look at a device: who wants that device alone has them.
static int environment_set(const char *library_dir, enum view view)
{
    const char *wire = getenv("WEFT_WIRE");
    const bool is_roce = wire != NULL && strcmp(wire, "roce") == 0;
    const bool has_view = view == VIEW_PRELOAD || (view == VIEW_BY_WIRE && is_roce);
    int result = list_prepend("LD_LIBRARY_PATH", library_dir);
    return result != 0 || !has_view ? result : list_prepend("LD_PRELOAD", "libweft-view.so");
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
    if ((result = library_dir_find(library_dir)) != 0 ||
        (result = program_find(argv[0], path)) != 0 ||
        (result = program_check(path, library_dir, wishes.is_quiet)) != 0 ||
        (result = environment_set(library_dir, wishes.view)) != 0) {
        return result;
    }
    execv(path, argv);
    if (errno == ENOEXEC && !program_is_elf(path)) {
        execvp(path, argv); // a script without a first line that says so: the shell's
    }
    say_error("cannot run program", path, "run it without weft to see whether it starts", "%m");
    return EXIT_CANNOT;
}

const struct command command_run = {
    .name = "run",
    .summary = "run a program on weft's libibverbs and librdmacm",
    .run = run_main,
    .help = run_help,
};
