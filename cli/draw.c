// weft draw: a connection's life, from a capture, as a picture.

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/siphash.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/draw_file.h"
#include "cli/draw_list.h"
#include "cli/say.h"
#include "draw/capture.h"
#include "draw/frame.h"
#include "draw/owners.h"
#include "draw/page.h"
#include "draw/registry.h"
#include "draw/story.h"
#include "draw/svg.h"
#include "draw/telling.h"
#include "text/quantity.h"

enum draw_option {
    OPTION_HELP = 'h',
    OPTION_OUTPUT = 'o',
    OPTION_CONNECTION = 'c',
    OPTION_LIST = 'l',
    OPTION_JSON = 'j',
    OPTION_FROM = 256,
    OPTION_TO,
    OPTION_MAX_EVENTS,
    OPTION_TITLE,
    OPTION_UNFOLDED,
    OPTION_ROCE_PORT,
};
enum { MAX_EVENTS_DEFAULT = 150 };

struct draw_wish {
    const char *capture[DRAW_FILE_MAX];
    unsigned capture_count;
    const char *output; // NULL: standard output
    const char *title;  // NULL: made up
    uint32_t number[STORY_CONNECTION_MAX];
    unsigned number_count; // 0: whichever makes a good picture
    bool is_list, is_json, is_unfolded;
    bool is_done; // the help was all
    uint16_t roce_port;
    struct story_bounds bounds;
};

static void draw_help(FILE *out)
{
    fputs(
        "Usage: weft draw CAPTURE [CAPTURE] [-o FILE.svg | -o FILE.html] [OPTION...]\n"
        "       weft draw --list CAPTURE\n"
        "\n"
        "Draws the life of an RDMA connection from a capture (pcap or pcapng; - is standard\n"
        "input): two time lines, and between them what was said. Captures come from WEFT_PCAP,\n"
        "or from tcpdump -w; the ends may be weft, the kernel's siw and rxe, or hardware.\n"
        "A capture by WEFT_PCAP with a name in .pcapng has work requests and completions too; of\n"
        "a second one, by the other end, those are drawn beside them.\n"
        "\n"
        "Options:\n"
        "  -o, --output=FILE       where to: an SVG, or with .html a page to zoom and move in;\n"
        "                          without it the SVG goes to standard output\n"
        "  -l, --list              list the capture's connections instead\n"
        "  -j, --json              the list as JSON\n"
        "  -c, --connection=N,...  the connection with this number of the list, or up to four\n"
        "                          in one picture; else the one with the most octets\n"
        "  --from=WHEN, --to=WHEN  from, up to: 10ms since its first packet, or #120, a packet\n"
        "  --max-events=N          at most N arrows (150; up to 20000)\n"
        "  --unfolded              every segment of long messages\n"
        "  --title=TEXT            the picture's first line\n"
        "  --roce-port=PORT        the UDP port that is RoCE's (4791)\n"
        "  -h, --help              this text\n"
        "\n"
        "Exit status: 0; 1: there is nothing to draw, the capture is cut or broken (what was\n"
        "before is drawn), or the picture could not be written; 2: wrong command line.\n",
        out);
}

/* ---- the command line ------------------------------------------------------------------------ */

// "10ms", or "#120": a packet's number.
static bool when_parse(const char *text, duration_ns *ret_time, uint64_t *ret_packet)
{
    return text[0] == '#' ? text_number_parse(text + 1, 1, UINT64_MAX, ret_packet)
                          : text_duration_parse(text, ret_time);
}

// "3", "1,4": up to STORY_CONNECTION_MAX numbers.
static bool numbers_parse(const char *text, struct draw_wish *w)
{
    for (w->number_count = 0; w->number_count < STORY_CONNECTION_MAX;) {
        char one[16];
        size_t len = strcspn(text, ",");
        uint64_t number;
        if (len >= sizeof one) {
            return false;
        }
        memcpy(one, text, len);
        one[len] = '\0';
        if (!text_number_parse(one, 1, UINT32_MAX, &number)) {
            return false;
        }
        w->number[w->number_count++] = (uint32_t)number;
        if (text[len] == '\0') {
            return true;
        }
        text += len + 1;
    }
    return false;
}

// An option with a value. 0, or EXIT_USAGE: it was said why.
static int value_take(int option, struct draw_wish *w)
{
    uint64_t number;
    switch (option) {
    case OPTION_CONNECTION:
        return numbers_parse(optarg, w)
                   ? 0
                   : say_usage("draw",
                               "--connection=%s: it must be one to four numbers of the list",
                               optarg);
    case OPTION_FROM:
        return when_parse(optarg, &w->bounds.from, &w->bounds.from_packet)
                   ? 0
                   : say_usage("draw", "--from=%s: it must be a time or a #packet", optarg);
    case OPTION_TO:
        return when_parse(optarg, &w->bounds.to, &w->bounds.to_packet)
                   ? 0
                   : say_usage("draw", "--to=%s: it must be a time or a #packet", optarg);
    case OPTION_MAX_EVENTS:
        if (!text_number_parse(optarg, 1, STORY_EVENT_MAX, &number)) {
            return say_usage("draw", "--max-events=%s: it must be 1 to %d", optarg,
                             STORY_EVENT_MAX);
        }
        w->bounds.event_max = (uint32_t)number;
        return 0;
    default:
        if (!text_number_parse(optarg, 1, UINT16_MAX, &number)) {
            return say_usage("draw", "--roce-port=%s: it must be 1 to 65535", optarg);
        }
        w->roce_port = (uint16_t)number;
        return 0;
    }
}

static int option_take(int option, char **argv, struct draw_wish *w)
{
    switch (option) {
    case OPTION_HELP:
        draw_help(stdout);
        w->is_done = true;
        return 0;
    case OPTION_OUTPUT:
        w->output = optarg;
        return 0;
    case OPTION_TITLE:
        w->title = optarg;
        return 0;
    case OPTION_LIST:
        w->is_list = true;
        return 0;
    case OPTION_JSON:
        w->is_list = w->is_json = true;
        return 0;
    case OPTION_UNFOLDED:
        w->is_unfolded = true;
        return 0;
    case ':':
        return say_usage("draw", "%s needs a value", argv[optind - 1]);
    case '?':
        return say_usage("draw", "there is no option %s", argv[optind - 1]);
    default:
        return value_take(option, w);
    }
}

static int words_read(int argc, char **argv, struct draw_wish *w)
{
    int count = argc - optind;
    if (count < 1 || count > DRAW_FILE_MAX) {
        return say_usage("draw", "one capture, or two of the same, not %d", count);
    }
    for (; optind < argc; optind++) {
        w->capture[w->capture_count++] = argv[optind];
    }
    if (!w->is_list && w->output == NULL && isatty(STDOUT_FILENO)) {
        return say_usage("draw", "where to? -o FILE.svg or -o FILE.html");
    }
    return 0;
}

static int options_read(int argc, char **argv, struct draw_wish *w)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"output", required_argument, NULL, OPTION_OUTPUT},
        {"list", no_argument, NULL, OPTION_LIST},
        {"json", no_argument, NULL, OPTION_JSON},
        {"connection", required_argument, NULL, OPTION_CONNECTION},
        {"from", required_argument, NULL, OPTION_FROM},
        {"to", required_argument, NULL, OPTION_TO},
        {"max-events", required_argument, NULL, OPTION_MAX_EVENTS},
        {"title", required_argument, NULL, OPTION_TITLE},
        {"unfolded", no_argument, NULL, OPTION_UNFOLDED},
        {"roce-port", required_argument, NULL, OPTION_ROCE_PORT},
        {0},
    };
    *w = (struct draw_wish){
        .roce_port = FRAME_ROCE_PORT,
        .bounds = {.to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = MAX_EVENTS_DEFAULT}};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":ho:ljc:", options, NULL)) != -1;) {
        int result = option_take(option, argv, w);
        if (result != 0 || w->is_done) {
            return result;
        }
    }
    return words_read(argc, argv, w);
}

/* ---- the two readings ------------------------------------------------------------------------ */

// What the first reading is for.
struct survey {
    struct registry registry;
    struct owners owners;
};

static void see_first(void *ctx, const struct capture_packet *packet, const struct frame *frame)
{
    struct survey *survey = ctx;
    struct registry_sighting seen;
    registry_see(&survey->registry, packet, frame, &seen);
}

static void see_record_first(void *ctx, unsigned origin, const struct capture_record *record)
{
    struct survey *survey = ctx;
    owners_see(&survey->owners, origin, record);
}

static void see_again(void *ctx, const struct capture_packet *packet, const struct frame *frame)
{
    telling_see(ctx, packet, frame);
}

static void see_record_again(void *ctx, unsigned origin, const struct capture_record *record)
{
    telling_see_record(ctx, origin, record);
}

static void say_unread(const struct draw_file *file)
{
    const struct capture *c = &file->capture;
    if (file->unread_count > 0) {
        say_note("%" PRIu64 " of %" PRIu64 " packets were passed over; the first is packet %" PRIu64
                 ": %s",
                 file->unread_count, c->packet_count, file->first_unread, file->why_unread);
    }
    if (file->unread_records > 0) {
        say_note("%" PRIu64 " of %" PRIu64 " records were passed over; the first is record %" PRIu64
                 ": %s",
                 file->unread_records, c->record_count, file->first_unread_record,
                 file->why_unread_record);
    }
    if (file->is_cut) {
        say_note("%s ends inside %s %" PRIu64 "; what is before is there", file->path,
                 c->is_in_record ? "record" : "packet",
                 (c->is_in_record ? c->record_count : c->packet_count) + 1);
    }
}

// The connections that were asked for, or the one that makes a good picture. False: it was said.
static bool choose(const struct registry *r, const struct draw_file *file, struct draw_wish *w,
                   uint32_t index[STORY_CONNECTION_MAX])
{
    uint32_t choice = registry_choice(r);
    if (choice == 0) {
        say_error("nothing to draw", file->path,
                  "capture whole packets (tcpdump -s 0), from before the connection is made",
                  "none of its %" PRIu64 " packets are of an RDMA connection",
                  file->capture.packet_count);
        return false;
    }
    if (w->number_count == 0) {
        w->number[w->number_count++] = choice;
        if (r->number_count > 1) {
            say_note("connection %" PRIu32 " of %" PRIu32
                     " is drawn; weft draw --list shows all, --connection=N chooses",
                     choice, r->number_count);
        }
    }
    for (unsigned i = 0; i < w->number_count; i++) {
        if (registry_find(r, w->number[i], &index[i]) == NULL) {
            say_error("no such connection", file->path, "see weft draw --list",
                      "it has %" PRIu32 " of RDMA, and none has number %" PRIu32, r->number_count,
                      w->number[i]);
            return false;
        }
    }
    return true;
}

/* ---- the picture ----------------------------------------------------------------------------- */

static void put(void *ctx, const char *text, size_t len)
{
    fwrite(text, 1, len, ctx);
}

static bool is_page(const char *path)
{
    const char *dot = path != NULL ? strrchr(path, '.') : NULL;
    return dot != NULL && (strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0);
}

static void title_make(const struct draw_wish *w, const struct draw_file *file, struct picture *p)
{
    const char *slash = strrchr(file->path, '/');
    if (w->title != NULL) {
        snprintf(p->title, sizeof p->title, "%s", w->title);
    } else {
        snprintf(p->title, sizeof p->title, "%s, connection%s",
                 slash != NULL ? slash + 1 : file->path, w->number_count > 1 ? "s" : "");
        for (unsigned i = 0; i < w->number_count; i++) {
            size_t len = strlen(p->title);
            snprintf(p->title + len, sizeof p->title - len, "%s %" PRIu32, i > 0 ? "," : "",
                     w->number[i]);
        }
    }
}

static int write_failed(const char *path)
{
    say_error("no picture", path, "name a place with room that you may write to", "%m");
    return EXIT_FAILED;
}

static int picture_write(const struct draw_wish *w, const struct picture *picture)
{
    FILE *file = w->output != NULL ? fopen(w->output, "we") : stdout;
    if (file == NULL) {
        return write_failed(w->output);
    }
    struct xml_out out = {put, file};
    bool is_put = is_page(w->output) ? page_put(&out, picture) : svg_put(&out, picture, false);
    bool is_lost = fflush(file) != 0 || ferror(file);
    if (w->output != NULL && (fclose(file) != 0 || is_lost)) {
        return write_failed(w->output);
    }
    if (!is_put) {
        say_error("no picture", w->capture[0], "free some memory", "no memory");
    }
    return is_put ? EXIT_SUCCESS : EXIT_FAILED;
}

static int no_memory(const struct draw_wish *w)
{
    say_error("no picture", w->capture[0], "free some memory", "no memory");
    return EXIT_FAILED;
}

static bool is_any_cut(const struct draw_wish *w, const struct draw_file *files)
{
    return files[0].is_cut || (w->capture_count > 1 && files[1].is_cut);
}

static int tell(struct draw_wish *w, struct draw_file *files, const struct survey *survey)
{
    uint32_t index[STORY_CONNECTION_MAX];
    struct telling telling;
    if (!choose(&survey->registry, &files[0], w, index)) {
        return EXIT_FAILED;
    }
    if (!telling_create(&telling, &survey->registry, &survey->owners, index, w->number_count,
                        &w->bounds)) {
        return no_memory(w);
    }
    static struct picture picture;
    const struct draw_eye eye = {see_again, see_record_again, &telling};
    bool is_whole = draw_file_read(files, w->capture_count, &eye);
    telling_finish(&telling, &picture);
    picture.folds = !w->is_unfolded;
    title_make(w, &files[0], &picture);
    int result = picture_write(w, &picture);
    telling_destroy(&telling);
    return is_whole && !is_any_cut(w, files) ? result : EXIT_FAILED;
}

static bool survey_create(struct survey *survey)
{
    uint8_t key[SIPHASH_KEY_LEN];
    *survey = (struct survey){0};
    return getrandom(key, sizeof key, 0) == sizeof key && owners_create(&survey->owners) &&
           registry_create(&survey->registry, key);
}

static int draw(struct draw_wish *w, struct draw_file *files)
{
    struct survey survey;
    int result = EXIT_FAILED;
    if (!survey_create(&survey)) {
        owners_destroy(&survey.owners);
        return no_memory(w);
    }
    const struct draw_eye eye = {see_first, see_record_first, &survey};
    bool is_whole = draw_file_read(files, w->capture_count, &eye);
    if (is_whole || files[0].capture.packet_count > 0) {
        for (unsigned i = 0; i < w->capture_count; i++) {
            say_unread(&files[i]);
        }
        if (!w->is_list) {
            result = tell(w, files, &survey);
        } else if (draw_list_print(&survey.registry, &files[0], w->is_json)) {
            result = is_whole && !is_any_cut(w, files) ? EXIT_SUCCESS : EXIT_FAILED;
        }
    }
    owners_destroy(&survey.owners);
    registry_destroy(&survey.registry);
    return result;
}

static int draw_main(int argc, char **argv)
{
    struct draw_wish wish;
    struct draw_file files[DRAW_FILE_MAX];
    unsigned open_count = 0;
    int result = options_read(argc, argv, &wish);
    if (result != 0 || wish.is_done) {
        return result;
    }
    while (open_count < wish.capture_count &&
           draw_file_open(&files[open_count], wish.capture[open_count], wish.roce_port)) {
        open_count++;
    }
    result = open_count == wish.capture_count ? draw(&wish, files) : EXIT_FAILED;
    while (open_count > 0) {
        draw_file_close(&files[--open_count]);
    }
    return result;
}

const struct command command_draw = {
    .name = "draw",
    .summary = "draw a connection's life from a capture",
    .run = draw_main,
    .help = draw_help,
};
