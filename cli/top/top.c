// weft top: what runs now, live.

#include <errno.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/asking.h"
#include "cli/command.h"
#include "cli/say.h"
#include "cli/top/model.h"
#include "cli/top/print.h"
#include "cli/top/round.h"
#include "cli/top/screen.h"
#include "text/quantity.h"

enum top_option {
    OPTION_HELP = 'h',
    OPTION_JSON = 'j',
    OPTION_BATCH = 'b',
    OPTION_COUNT = 'n',
    OPTION_DELAY = 'd',
};

struct wishes {
    bool is_batch, is_json, is_done;
    uint64_t count; // rounds that are shown; 0: no end
    uint64_t delay_seconds;
};

static void top_help(FILE *out)
{
    fputs(
        "Usage: weft top [OPTION...] [PID...]\n"
        "\n"
        "Shows what runs now, again and again: programs with a device, storage nodes, their\n"
        "connections, volumes and RTAs; rates, latencies, the last minute. All of yours, or those\n"
        "with the process ids PID; root sees everybody's. Looking changes nothing. The key h\n"
        "explains keys and columns.\n"
        "\n"
        "Options:\n"
        "  -d, --delay=SECONDS  between two looks; 1 without it\n"
        "  -b, --batch          no screen: the tables as text, for logs\n"
        "  -j, --json           no screen: an object of JSON per line\n"
        "  -n, --count=COUNT    ends after so many looks\n"
        "  -h, --help           this text\n"
        "\n"
        "Exit status: 0, also when nothing runs; 1: no terminal, or processes could not be looked\n"
        "for; 2: wrong command line.\n",
        out);
}

/* ---- without a screen ------------------------------------------------------------------------ */

static void batch_show(const struct top_model *model, const struct wishes *wishes)
{
    if (wishes->is_json) {
        top_print_json(stdout, model, time(NULL));
    } else {
        top_print_text(stdout, model, time(NULL));
    }
}

// The first look is not shown: rates need two.
static int batch_run(struct top_round *round, const struct wishes *wishes)
{
    struct top_model model;
    top_model_init(&model);
    int error = top_round_run(round, &model);
    for (uint64_t i = 0; error == 0 && (wishes->count == 0 || i < wishes->count); i++) {
        sleep((unsigned)wishes->delay_seconds);
        error = top_round_run(round, &model);
        if (error == 0) {
            batch_show(&model, wishes);
        }
        if (fflush(stdout) != 0) {
            break;
        }
    }
    top_model_fini(&model);
    if (error != 0) {
        say_error("no processes", "/proc/net/unix, the runtime folder",
                  "mount /proc; see WEFT_RUNTIME_DIR in weft-status(1)", "%s", strerror(-error));
    }
    return error == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int option_take(int option, char **argv, struct wishes *ret)
{
    switch (option) {
    case OPTION_HELP:
        top_help(stdout);
        ret->is_done = true;
        return 0;
    case OPTION_JSON:
        ret->is_json = ret->is_batch = true;
        return 0;
    case OPTION_BATCH:
        ret->is_batch = true;
        return 0;
    case OPTION_COUNT:
        if (!text_number_parse(optarg, 1, INT32_MAX, &ret->count)) {
            return say_usage("top", "--count=%s: it must be 1 to 2147483647", optarg);
        }
        return 0;
    case OPTION_DELAY:
        if (!text_number_parse(optarg, 1, 3600, &ret->delay_seconds)) {
            return say_usage("top", "--delay=%s: it must be 1 to 3600 seconds", optarg);
        }
        return 0;
    case ':':
        return say_usage("top", "%s needs a value", argv[optind - 1]);
    default:
        return say_usage("top", "there is no option %s", argv[optind - 1]);
    }
}

static int options_read(int argc, char **argv, struct wishes *ret)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"json", no_argument, NULL, OPTION_JSON},
        {"batch", no_argument, NULL, OPTION_BATCH},
        {"count", required_argument, NULL, OPTION_COUNT},
        {"delay", required_argument, NULL, OPTION_DELAY},
        {0},
    };
    int result = 0;
    *ret = (struct wishes){.delay_seconds = 1};
    optind = 1;
    for (int option; result == 0 && !ret->is_done &&
                     (option = getopt_long(argc, argv, ":hjbn:d:", options, NULL)) != -1;) {
        result = option_take(option, argv, ret);
    }
    return result;
}

static int top_run(const struct wishes *wishes, const pid_t *pids, size_t pid_count)
{
    struct top_round round = {.pids = pids, .pid_count = pid_count};
    if (wishes->is_batch) {
        return batch_run(&round, wishes);
    }
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        say_error("no screen", "weft top", "weft top --batch, or --json",
                  "standard input and output are no terminal");
        return EXIT_FAILED;
    }
    return top_screen_run(&round, (unsigned)wishes->delay_seconds, wishes->count);
}

static int top_main(int argc, char **argv)
{
    struct wishes wishes;
    int result = options_read(argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    const size_t pid_count = (size_t)(argc - optind);
    pid_t *pids;
    result = asking_pids_create("top", argv + optind, pid_count, &pids);
    result = result == 0 ? top_run(&wishes, pids, pid_count) : result;
    free(pids);
    return result;
}

const struct command command_top = {
    .name = "top",
    .summary = "show live what runs now",
    .run = top_main,
    .help = top_help,
};
