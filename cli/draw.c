// weft draw: a connection's life, from a capture, as a picture.

#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
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
#include "cli/draw_live.h"
#include "cli/draw_output.h"
#include "cli/draw_process.h"
#include "cli/say.h"
#include "clock/clock.h"
#include "draw/capture.h"
#include "draw/frame.h"
#include "draw/owners.h"
#include "draw/registry.h"
#include "draw/story.h"
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
    OPTION_TAIL,
    OPTION_LIVE,
};
enum { MAX_EVENTS_DEFAULT = 150 };

struct draw_wish {
    const char *capture[DRAW_FILE_MAX];
    unsigned capture_count;
    const char *output; // NULL: standard output
    const char *title;  // NULL: made up
    uint32_t number[STORY_CONNECTION_MAX];
    unsigned number_count; // 0: whichever makes a good picture
    bool is_list, is_json, is_unfolded, is_tail, is_live;
    bool is_done;      // the help was all
    bool is_to_grow;   // the picture is one of several, and not the last
    uint32_t favoured; // the connection of the picture before; 0: none
    uint16_t roce_port;
    struct story_bounds bounds;
};

static void draw_help(FILE *out)
{
    fputs(
        "Usage: weft draw CAPTURE [CAPTURE] [-o FILE.svg | -o FILE.html] [OPTION...]\n"
        "       weft draw --live CAPTURE|PID -o FILE [OPTION...]\n"
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
        "  --max-events=N          at most N arrows (150; up to 20000): the first,\n"
        "  --tail                  or the last\n"
        "  --live                  draws again as the capture grows, the last events, until it is\n"
        "                          closed or a signal comes; of a process, the capture it writes\n"
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
    case OPTION_TAIL:
        w->is_tail = true;
        return 0;
    case OPTION_LIVE:
        w->is_live = w->is_tail = true;
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
    if (w->is_live && (w->is_list || w->output == NULL)) {
        return say_usage("draw", "--live draws a picture again and again: -o FILE.html, no --list");
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
        {"tail", no_argument, NULL, OPTION_TAIL},
        {"live", no_argument, NULL, OPTION_LIVE},
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

// The one that makes a good picture; where there was one before, that, until another has moved
// twice as many octets.
static uint32_t choice_of(const struct registry *r, uint32_t favoured)
{
    uint32_t index, choice = registry_choice(r);
    const struct registry_connection *before = registry_find(r, favoured, &index);
    const struct registry_connection *best = registry_find(r, choice, &index);
    bool is_kept = before != NULL && before->has_start == best->has_start &&
                   best->payload_len < 2 * before->payload_len;
    return is_kept ? favoured : choice;
}

// The connections that were asked for, or the one that makes a good picture. False: there is none,
// yet, or it was said.
static bool choose(const struct registry *r, const struct draw_file *file, struct draw_wish *w,
                   uint32_t index[STORY_CONNECTION_MAX])
{
    uint32_t choice = choice_of(r, w->favoured);
    if (choice == 0 && w->is_to_grow) {
        return false;
    }
    if (choice == 0) {
        say_error("nothing to draw", file->path,
                  "capture whole packets (tcpdump -s 0), from before the connection is made",
                  "none of its %" PRIu64 " packets are of an RDMA connection",
                  file->capture.packet_count);
        return false;
    }
    if (w->number_count == 0) {
        w->number[w->number_count++] = choice;
        if (r->number_count > 1 && !w->is_to_grow) {
            say_note("connection %" PRIu32 " of %" PRIu32
                     " is drawn; weft draw --list shows all, --connection=N chooses",
                     choice, r->number_count);
        }
    }
    for (unsigned i = 0; i < w->number_count; i++) {
        if (registry_find(r, w->number[i], &index[i]) == NULL && w->is_to_grow) {
            return false;
        }
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

static int no_memory(const struct draw_wish *w)
{
    say_error("no picture", w->capture[0], "free some memory", "no memory");
    return EXIT_FAILED;
}

static bool is_any_cut(const struct draw_wish *w, const struct draw_file *files)
{
    return files[0].is_cut || (w->capture_count > 1 && files[1].is_cut);
}

// With --tail: how many events there are before the last that the picture has room for. False: it
// was said why.
static bool tail_find(struct draw_wish *w, struct draw_file *files, const struct survey *survey,
                      const uint32_t *index)
{
    struct story_bounds counting = w->bounds;
    struct telling telling;
    counting.first_event = UINT64_MAX;
    if (!telling_create(&telling, &survey->registry, &survey->owners, index, w->number_count,
                        &counting)) {
        no_memory(w);
        return false;
    }
    const struct draw_eye eye = {see_again, see_record_again, &telling};
    draw_file_read(files, w->capture_count, &eye);
    uint64_t count = telling.story.within_count;
    w->bounds.first_event = count > w->bounds.event_max ? count - w->bounds.event_max : 0;
    telling_destroy(&telling);
    return true;
}

static int tell(struct draw_wish *w, struct draw_file *files, const struct survey *survey)
{
    uint32_t index[STORY_CONNECTION_MAX];
    struct telling telling;
    if (!choose(&survey->registry, &files[0], w, index)) {
        return w->is_to_grow ? EXIT_SUCCESS : EXIT_FAILED;
    }
    if (w->is_tail && !tail_find(w, files, survey, index)) {
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
    picture.is_live = w->is_to_grow;
    title_make(w, &files[0], &picture);
    int result = draw_output_write(w->output, &picture, w->is_live) ? EXIT_SUCCESS : EXIT_FAILED;
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
        for (unsigned i = 0; i < w->capture_count && !w->is_to_grow; i++) {
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

/* ---- live ------------------------------------------------------------------------------------ */

static bool is_capture_there(const char *word)
{
    return strcmp(word, "-") == 0 || access(word, F_OK) == 0;
}

// What --live follows: a file that need not be there yet, or the capture of a process. NULL: it was
// said, or a signal came.
static const char *live_capture(struct draw_live *live, const char *word, char found[PATH_MAX])
{
    bool is_there = is_capture_there(word);
    bool is_process = !is_there && word[strspn(word, "0123456789")] == '\0';
    if (is_process && !draw_process_capture(word, found)) {
        say_error("no capture", word, "start the program with weft run --pcap=FILE.pcapng",
                  "no process of this number writes one that you may look at");
        return NULL;
    }
    if (!is_there && !is_process) {
        say_note("waiting for %s", word);
        return draw_live_await(live, word) ? word : NULL;
    }
    return is_process ? found : word;
}

static bool is_any_refused(const struct draw_wish *w, const struct draw_file *files)
{
    return files[0].is_refused || (w->capture_count > 1 && files[1].is_refused);
}

// Draws what there is whenever there is more; at the end once more, as if it had never grown.
static int draw_again(struct draw_wish *w, struct draw_file *files, struct draw_live *live)
{
    enum draw_live_news news;
    while ((news = draw_live_wait(live, files, w->capture_count)) == DRAW_LIVE_GREW) {
        struct draw_wish once = *w;
        const instant_ns began = clock_now();
        once.is_to_grow = true;
        if (draw(&once, files) != EXIT_SUCCESS && !is_any_refused(w, files)) {
            return EXIT_FAILED;
        }
        if (is_any_refused(w, files)) {
            break;
        }
        w->favoured = w->number_count == 0 ? once.number[0] : 0;
        draw_live_on_drawn(live, began);
    }
    if (news == DRAW_LIVE_FAILED) {
        return EXIT_FAILED;
    }
    for (unsigned i = 0; i < w->capture_count; i++) {
        files[i].is_growing = news == DRAW_LIVE_STOPPED;
    }
    return draw(w, files);
}

/* ---- all ------------------------------------------------------------------------------------- */

// How many of the captures were opened; all, or it was said why.
static unsigned captures_open(struct draw_wish *w, struct draw_file *files, struct draw_live *live)
{
    static char found[DRAW_FILE_MAX][PATH_MAX];
    for (unsigned i = 0; i < w->capture_count; i++) {
        bool is_new = !is_capture_there(w->capture[i]);
        if (w->is_live) {
            w->capture[i] = live_capture(live, w->capture[i], found[i]);
        }
        if (w->capture[i] == NULL ||
            !draw_file_open(&files[i], w->capture[i], w->roce_port, w->is_live)) {
            return i;
        }
        if (w->is_live) {
            draw_live_follow(live, &files[i], i, is_new);
        }
    }
    return w->capture_count;
}

static int draw_main(int argc, char **argv)
{
    struct draw_wish wish;
    struct draw_live live;
    struct draw_file files[DRAW_FILE_MAX];
    int result = options_read(argc, argv, &wish);
    if (result != 0 || wish.is_done) {
        return result;
    }
    if (wish.is_live && !draw_live_open(&live)) {
        return EXIT_FAILED;
    }
    unsigned open_count = captures_open(&wish, files, &live);
    result = EXIT_FAILED;
    if (open_count == wish.capture_count) {
        result = wish.is_live ? draw_again(&wish, files, &live) : draw(&wish, files);
    }
    while (open_count > 0) {
        draw_file_close(&files[--open_count]);
    }
    if (wish.is_live) {
        draw_live_close(&live);
    }
    return result;
}

const struct command command_draw = {
    .name = "draw",
    .summary = "draw a connection's life from a capture",
    .run = draw_main,
    .help = draw_help,
};
