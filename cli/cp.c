// weft cp: a file to a volume, a volume to a file, or one volume to another.

#include <errno.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/copy.h"
#include "cli/place.h"
#include "cli/progress.h"
#include "cli/say.h"
#include "cli/volume.h"
#include "text/quantity.h"

enum cp_option {
    OPTION_HELP = 'h',
    OPTION_JSON = 'j',
    OPTION_QUIET = 'q',
    OPTION_DEPTH = 256,
    OPTION_SPARSE,
    OPTION_VERIFY,
};

enum { DEPTH_DEFAULT = 8, DEPTH_MOST = 128 };

static void cp_help(FILE *out)
{
    fputs("Usage: weft cp [OPTION...] SOURCE DESTINATION\n"
          "\n"
          "Copies a file to a volume, a volume to a file, or a volume to another. A volume is\n"
          "nvme+rdma://HOST[:PORT]/NQN[/NSID], nvme+tcp://..., nbd://HOST[:PORT][/EXPORT],\n"
          "nbd+unix:///[EXPORT]?socket=PATH, iscsi+rdma://HOST[:PORT]/TARGET/LUN or iscsi://...,\n"
          "as `weft serve` and `weft ls` print it; - is standard input or output. When it ends\n"
          "well, what was written is stable.\n"
          "\n"
          "Options:\n"
          "      --depth=N   pieces on their way at a time, 8 if not given\n"
          "  -j, --json      print what was done, as a JSON object\n"
          "  -q, --quiet     no progress bar, also on a terminal\n"
          "      --sparse    do not write zeroes: leave holes in a file, tell a volume\n"
          "      --verify    read both again afterwards and compare\n"
          "  -h, --help      this text\n"
          "\n"
          "Exit status: 0; 1: not copied, or not the same; 2: wrong command line.\n"
          "\n"
          "Examples:\n"
          "  weft cp --verify disk.img nvme+rdma://192.0.2.1/nqn.2014-08.org.nvmexpress:uuid:...\n"
          "  weft cp --sparse nvme+rdma://192.0.2.1/nqn... copy.img\n"
          "  zstdcat disk.zst | weft cp - nvme+rdma://192.0.2.1/nqn...\n"
          "  weft cp --sparse nbd://192.0.2.1/disk copy.img\n",
          out);
}

struct cp {
    struct copy_wish wish;
    bool is_json, is_quiet, is_verified, is_done;
    const char *source, *destination;
    struct copy_place from, to;
    struct copy_report report;
    struct progress progress;
    double seconds;
};

/* ---- options --------------------------------------------------------------------------------- */

static int depth_read(struct cp *cp, const char *text)
{
    uint64_t depth;
    if (!text_number_parse(text, 1, DEPTH_MOST, &depth)) {
        return say_usage("cp", "--depth=%s: it must be 1 to %d", text, DEPTH_MOST);
    }
    cp->wish.depth = (unsigned)depth;
    return 0;
}

static int option_apply(struct cp *cp, int option, char **argv)
{
    switch (option) {
    case OPTION_HELP:
        cp_help(stdout);
        cp->is_done = true;
        return 0;
    case OPTION_DEPTH:
        return depth_read(cp, optarg);
    case OPTION_JSON:
        cp->is_json = true;
        return 0;
    case OPTION_QUIET:
        cp->is_quiet = true;
        return 0;
    case OPTION_SPARSE:
        cp->wish.is_sparse = true;
        return 0;
    case OPTION_VERIFY:
        cp->is_verified = true;
        return 0;
    case ':':
        return say_usage("cp", "%s needs a value", argv[optind - 1]);
    default:
        return say_usage("cp", "there is no option %s", argv[optind - 1]);
    }
}

// A stream cannot be read again, and two things cannot be written to standard output.
static int streams_check(const struct cp *cp)
{
    bool is_output = place_is_stream(cp->destination);
    if (cp->is_verified && (is_output || place_is_stream(cp->source))) {
        return say_usage("cp", "--verify reads both again, and - can be read once");
    }
    if (cp->is_json && is_output) {
        return say_usage("cp", "--json is printed to standard output, where the copy goes");
    }
    return 0;
}

static int address_check(const char *name)
{
    return volume_is_uri(name) ? volume_check("cp", name, true) : 0;
}

static int words_read(int argc, char **argv, struct cp *cp)
{
    static const struct option options[] = {{"depth", required_argument, NULL, OPTION_DEPTH},
                                            {"help", no_argument, NULL, OPTION_HELP},
                                            {"json", no_argument, NULL, OPTION_JSON},
                                            {"quiet", no_argument, NULL, OPTION_QUIET},
                                            {"sparse", no_argument, NULL, OPTION_SPARSE},
                                            {"verify", no_argument, NULL, OPTION_VERIFY},
                                            {0}};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hjq", options, NULL)) != -1;) {
        int result = option_apply(cp, option, argv);
        if (result != 0 || cp->is_done) {
            return result;
        }
    }
    if (argc - optind != 2) {
        return say_usage("cp", "a source and a destination, not %d words", argc - optind);
    }
    cp->source = argv[optind];
    cp->destination = argv[optind + 1];
    if (!volume_is_uri(cp->source) && !volume_is_uri(cp->destination)) {
        return say_usage("cp", "one of the two must be a volume, nvme+tcp://... or the like");
    }
    int result = address_check(cp->source);
    if (result == 0) {
        result = address_check(cp->destination);
    }
    return result == 0 ? streams_check(cp) : result;
}

/* ---- copying --------------------------------------------------------------------------------- */

static const char *lost_why(const struct copy_place *place)
{
    return place->volume.protocol->lost_why(&place->volume);
}

static int say_copy_failed(const struct cp *cp, const char *what)
{
    const struct copy_report *report = &cp->report;
    const struct copy_place *place = report->error_place;
    unsigned long long at = report->error_at;
    if (place == NULL) {
        say_error("the copy differs", cp->destination, "copy again, while nobody else writes to it",
                  "octet %llu is not that of %s", at, cp->source);
    } else if (place->is_volume && lost_why(place) != NULL) {
        volume_say_failed(what, place->volume.facts.uri,
                          place->volume.protocol->remedy(report->error), lost_why(place));
    } else if (report->answer[0] != '\0') {
        say_error(what, place->name,
                  report->error == -ESHUTDOWN
                      ? "another node serves it: name that one, or both, by "
                        "?paths=HOST:PORT behind it"
                      : "see what the target says of it",
                  "at octet %llu the target answers: %s", at, report->answer);
    } else {
        say_error(what, place->name, "make room, or see whether the device is well",
                  "at octet %llu: %s", at, strerror(-report->error));
    }
    return EXIT_FAILED;
}

static int run(struct cp *cp, bool is_comparison)
{
    struct copy_wish wish = cp->wish;
    wish.is_comparison = is_comparison;
    progress_begin(&cp->progress, is_comparison ? "comparing" : "copying");
    int result =
        copy_run(&cp->from, &cp->to, &wish, cp->is_quiet ? NULL : &cp->progress, &cp->report);
    if (result == 0 && !is_comparison) {
        cp->report.error = place_flush(&cp->to);
        cp->report.error_place = &cp->to;
        result = cp->report.error;
    }
    double seconds = progress_end(&cp->progress);
    cp->seconds = is_comparison ? cp->seconds : seconds;
    return result == 0 ? 0 : say_copy_failed(cp, is_comparison ? "not compared" : "not copied");
}

/* ---- what was done --------------------------------------------------------------------------- */

static void counters_add(struct json_object *to, const char *key, const struct copy_place *place)
{
    const struct volume *volume = &place->volume;
    if (place->is_volume && volume->protocol->count != NULL) {
        struct json_object *object = json_object_new_object();
        volume->protocol->count(volume, object);
        json_object_object_add(to, key, object);
    }
}

static void report_print(const struct cp *cp, uint64_t zero_len)
{
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "octets", json_object_new_uint64(cp->report.len));
    json_object_object_add(object, "zeroes", json_object_new_uint64(zero_len));
    json_object_object_add(object, "seconds", json_object_new_double(cp->seconds));
    json_object_object_add(object, "verified", json_object_new_boolean(cp->is_verified));
    counters_add(object, "source", &cp->from);
    counters_add(object, "destination", &cp->to);
    puts(json_object_to_json_string_ext(object, JSON_C_TO_STRING_PRETTY));
    json_object_put(object);
}

static int cp_main(int argc, char **argv)
{
    struct cp cp = {.wish = {.depth = DEPTH_DEFAULT}, .from.fd = -1, .to.fd = -1};
    int result = words_read(argc, argv, &cp);
    if (result != 0 || cp.is_done) {
        return result;
    }
    result = place_open_source(cp.source, cp.wish.depth, &cp.from);
    if (result == 0) {
        result = place_open_destination(cp.destination, cp.wish.depth, cp.from.len, &cp.to);
    }
    if (result == 0) {
        result = run(&cp, false);
    }
    uint64_t zero_len = cp.report.zero_len;
    if (result == 0 && cp.is_verified) {
        result = run(&cp, true);
    }
    if (result == 0 && cp.is_json) {
        report_print(&cp, zero_len);
    }
    place_close(&cp.from);
    place_close(&cp.to);
    return result;
}

const struct command command_cp = {
    .name = "cp",
    .summary = "copy a file to a volume, or a volume to a file",
    .run = cp_main,
    .help = cp_help,
};
