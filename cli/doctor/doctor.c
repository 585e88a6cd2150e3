// weft doctor: what is in the way of programs on weft, and what cures it.

#include "cli/doctor/doctor.h"

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/device_wire.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/objection.h"
#include "cli/say.h"
#include "text/quantity.h"

enum { OPTION_HELP = 'h', OPTION_JSON = 'j', OPTION_QUIET = 'q' };
enum { WIDTH_DEFAULT = 80, WIDTH_MIN = 60, WIDTH_MAX = 100, ROCE_PORT_DEFAULT = 4791 };

static const struct doctor_group *const groups[] = {
    &doctor_kernel,  &doctor_limits,      &doctor_network, &doctor_roce,
    &doctor_devices, &doctor_environment, &doctor_files};
enum { GROUP_COUNT = sizeof groups / sizeof groups[0] };

struct wishes {
    bool is_json, is_quiet;
    bool is_done; // the help was all
};

static void doctor_help(FILE *out)
{
    fputs("Usage: weft doctor [OPTION...] [PROGRAM [ARGUMENT...]]\n"
          "\n"
          "Looks at this machine, and at PROGRAM without running it, and says what is in the way\n"
          "of programs on weft: what was seen, why it matters, and a line that cures it. Options\n"
          "and variables are those that the programs would have. Nothing is changed, and running\n"
          "programs notice nothing.\n"
          "\n"
          "Options:\n"
          "  -j, --json               one JSON object, see weft-doctor(1)\n"
          "  -q, --quiet              warnings and failures alone\n"
          "  -h, --help               this text\n",
          out);
    environment_options_print(out);
    fputs("\n"
          "Exit status: 0: nothing is in the way; 1: something is; 2: wrong command line.\n"
          "\n"
          "Examples:\n"
          "  weft doctor\n"
          "  weft doctor --wire=roce ./my_rdma_server\n"
          "  weft doctor --json | jq '.checks[] | select(.result == \"failure\")'\n",
          out);
}

/* ---- the command line ------------------------------------------------------------------------ */

static int options_read(int argc, char **argv, struct wishes *ret)
{
    struct option options[ENVIRONMENT_OPTION_MAX + 4] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"json", no_argument, NULL, OPTION_JSON},
        {"quiet", no_argument, NULL, OPTION_QUIET},
    };
    enum environment_view view;
    environment_options(options + 3);
    *ret = (struct wishes){0};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, "+:hjq", options, NULL)) != -1;) {
        int result = 0;
        switch (option) {
        case OPTION_HELP:
            doctor_help(stdout);
            ret->is_done = true;
            return 0;
        case OPTION_JSON:
            ret->is_json = true;
            break;
        case OPTION_QUIET:
            ret->is_quiet = true;
            break;
        default:
            result = environment_option_apply("doctor", option, argv, &view);
        }
        if (result != 0) {
            return result;
        }
    }
    return 0;
}

// What programs would read from the same environment; a value that is none is as if it were absent.
static void subject_read(const char *program, struct doctor_subject *ret)
{
    const char *wire = getenv("WEFT_WIRE"), *port = getenv("WEFT_ROCE_PORT");
    uint64_t roce_port = ROCE_PORT_DEFAULT;
    *ret = (struct doctor_subject){.program = program, .library_dir = ""};
    device_wires_parse("both", &ret->wires);
    if (wire != NULL) {
        device_wires_parse(wire, &ret->wires);
    }
    if (port != NULL) {
        text_number_parse(port, 1024, 49151, &roce_port);
    }
    ret->roce_port = (uint16_t)roce_port;
}

/* ---- showing --------------------------------------------------------------------------------- */

static unsigned width_of_output(void)
{
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < WIDTH_MIN) {
        return WIDTH_DEFAULT;
    }
    return size.ws_col < WIDTH_MAX ? size.ws_col : WIDTH_MAX;
}

// https://no-color.org: any value but an empty one.
static bool has_color(void)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && (none == NULL || *none == '\0') && terminal != NULL &&
           strcmp(terminal, "dumb") != 0;
}

static int report_make(struct doctor_report *report, const struct doctor_subject *subject,
                       const struct wishes *wishes)
{
    for (unsigned i = 0; i < GROUP_COUNT; i++) {
        doctor_report_add(report, groups[i]);
    }
    if (subject->program != NULL) {
        doctor_report_add(report, &doctor_program);
    }
    fflush(stdout); // once, not by each process
    int error = doctor_report_run(report, subject);
    if (error != 0) {
        say_error("cannot look", "this machine", "close programs, or raise limits: ulimit -a", "%s",
                  strerror(-error));
        return EXIT_FAILED;
    }
    if (wishes->is_json) {
        doctor_report_print_json(report, subject, wishes->is_quiet);
    } else {
        doctor_report_print(report, subject, wishes->is_quiet, width_of_output(), has_color());
    }
    return doctor_report_tally(report, FINDING_FAILURE) > 0 ? EXIT_FAILED : EXIT_SUCCESS;
}

static int doctor_main(int argc, char **argv)
{
    char library_dir[PATH_MAX];
    struct wishes wishes;
    struct doctor_subject subject;
    int result = options_read(argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    struct doctor_report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        say_error("cannot look", "this machine", "free some memory", "no memory");
        return EXIT_FAILED;
    }
    subject_read(optind < argc ? argv[optind] : NULL, &subject);
    if (environment_library_find(library_dir, &hearer_deaf) == 0) { // or the check of them says why
        subject.library_dir = library_dir;
    }
    result = report_make(report, &subject, &wishes);
    free(report);
    return result;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "say what is in the way of programs on weft, and what cures it",
    .run = doctor_main,
    .help = doctor_help,
};
