// weft stat: the counters of running processes.

#include <getopt.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/asking.h"
#include "cli/command.h"
#include "cli/report.h"
#include "cli/say.h"
#include "text/quantity.h"

enum stat_option { OPTION_HELP = 'h', OPTION_JSON = 'j', OPTION_WATCH = 'w' };
enum { WIDTH_DEFAULT = 100, WIDTH_MIN = 40 };

static const struct question counters = {.request = "stat\n", .what = "no counters"};

struct wishes {
    bool is_json;
    uint64_t watch_seconds; // 0: once
    bool is_done;           // the help was all
};

static void stat_help(FILE *out)
{
    fputs("Usage: weft stat [OPTION...] [PID...]\n"
          "\n"
          "Shows the counters of running programs that use weft's device: all of yours, or those\n"
          "with the process ids PID. Root sees everybody's.\n"
          "\n"
          "Options:\n"
          "  -j, --json           a JSON array with an object per process and device, with zeroes\n"
          "  -w, --watch=SECONDS  again and again; with --json one array per line\n"
          "  -h, --help           this text\n"
          "\n"
          "Exit status: 0, also when there is no such program; 1: a process could not be asked;\n"
          "2: wrong command line.\n",
          out);
}

/* ---- showing --------------------------------------------------------------------------------- */

static unsigned width_of_output(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < WIDTH_MIN) {
        return WIDTH_DEFAULT;
    }
    return size.ws_col;
}

static void array_print(struct json_object *array, const struct wishes *wishes, bool has_named_pids)
{
    if (wishes->is_json) {
        int form = wishes->watch_seconds == 0 ? JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED
                                              : JSON_C_TO_STRING_PLAIN;
        puts(json_object_to_json_string_ext(array, form | JSON_C_TO_STRING_NOSLASHESCAPE));
        return;
    }
    size_t count = json_object_array_length(array);
    if (count == 0 && !has_named_pids) {
        asking_say_nobody();
    }
    for (size_t i = 0; i < count; i++) {
        if (i > 0) {
            putchar('\n');
        }
        report_print(stdout, json_object_array_get_idx(array, i), width_of_output());
    }
}

static int round_run(const struct wishes *wishes, const pid_t *pids, size_t pid_count)
{
    struct json_object *array = json_object_new_array();
    if (array == NULL) {
        say_error("no counters", "this process", "free some memory", "no memory");
        return EXIT_FAILED;
    }
    int result = asking_collect(&counters, array, pids, pid_count);
    array_print(array, wishes, pid_count > 0);
    json_object_put(array);
    return result;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int options_read(int argc, char **argv, struct wishes *ret)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"json", no_argument, NULL, OPTION_JSON},
        {"watch", required_argument, NULL, OPTION_WATCH},
        {0},
    };
    *ret = (struct wishes){0};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hjw:", options, NULL)) != -1;) {
        switch (option) {
        case OPTION_HELP:
            stat_help(stdout);
            ret->is_done = true;
            return 0;
        case OPTION_JSON:
            ret->is_json = true;
            break;
        case OPTION_WATCH:
            if (!text_number_parse(optarg, 1, 86400, &ret->watch_seconds)) {
                return say_usage("stat", "--watch=%s: it must be 1 to 86400 seconds", optarg);
            }
            break;
        case ':':
            return say_usage("stat", "%s needs a value", argv[optind - 1]);
        default:
            return say_usage("stat", "there is no option %s", argv[optind - 1]);
        }
    }
    return 0;
}

static int stat_main(int argc, char **argv)
{
    struct wishes wishes;
    int result = options_read(argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    size_t pid_count = (size_t)(argc - optind);
    pid_t *pids;
    result = asking_pids_create("stat", argv + optind, pid_count, &pids);
    if (result != 0) {
        return result;
    }
    for (;;) {
        if (wishes.watch_seconds > 0 && !wishes.is_json && isatty(STDOUT_FILENO)) {
            fputs("\033[H\033[2J", stdout);
        }
        result = round_run(&wishes, pids, pid_count);
        if (wishes.watch_seconds == 0 || fflush(stdout) != 0) {
            break;
        }
        sleep((unsigned)wishes.watch_seconds);
        if (!wishes.is_json && !isatty(STDOUT_FILENO)) {
            putchar('\n');
        }
    }
    free(pids);
    return result;
}

const struct command command_stat = {
    .name = "stat",
    .summary = "show the counters of running programs",
    .run = stat_main,
    .help = stat_help,
};
