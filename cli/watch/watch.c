// weft watch: a page in the browser, of what runs now. Processes are asked when somebody looks, and
// at most as often as the door makes answers anew; who looks waits until all have answered or not.

#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/poll_ms.h"
#include "base/time.h"
#include "base/why.h"
#include "cli/asking.h"
#include "cli/command.h"
#include "cli/say.h"
#include "cli/top/model.h"
#include "cli/top/round.h"
#include "cli/watch/metrics.h"
#include "clock/clock.h"
#include "http/door.h"
#include "http/exposition.h"
#include "http/page.h"

#define WATCH_LISTEN_DEFAULT "127.0.0.1:9109"

enum watch_option { OPTION_HELP = 'h', OPTION_QUIET = 'q', OPTION_HTTP = 256 };
enum { ADDRESS_LEN_MAX = 160 };

struct watch_wishes {
    const char *listen;
    bool is_quiet, is_done;
};

struct watch {
    struct top_round round;
    struct top_model model;
    struct http_door *door;
    instant_ns now;
    instant_ns told_at_ns; // the end of the last round; 0: none
};

static void watch_help(FILE *out)
{
    fputs(
        "Usage: weft watch [OPTION...] [PID...]\n"
        "\n"
        "A page for browsers that shows what runs now: programs with a device, storage nodes,\n"
        "their devices, connections, volumes and RTAs; rates, latencies, the last minute. All of\n"
        "yours, or those with the process ids PID; root sees everybody's. Looking changes\n"
        "nothing. Ends by a signal.\n"
        "\n"
        "Options:\n"
        "      --http=ADDRESS   HOST:PORT or unix:PATH; " WATCH_LISTEN_DEFAULT " without it.\n"
        "                       /metrics is for Prometheus, /status.json for scripts. Whoever\n"
        "                       reaches the address may look\n"
        "  -q, --quiet          do not print the address\n"
        "  -h, --help           this text\n"
        "\n"
        "Exit status: 0 after a signal; 1: no such address; 2: wrong command line.\n",
        out);
}

/* ---- what is written ------------------------------------------------------------------------- */

// A node's answer is one object, a program's an array.
static void subject_put(struct page_status *status, const struct top_subject *s)
{
    struct json_object *answers = NULL;
    if (s->status == TOP_ANSWERS && s->answer != NULL && s->is_node) {
        answers = json_object_new_array();
        json_object_array_add(answers, json_object_get(s->answer));
    } else if (s->status == TOP_ANSWERS) {
        answers = json_object_get(s->answer);
    }
    page_status_put(status, s->pid, s->is_node, s->name, top_status_name(s->status), answers);
    json_object_put(answers);
}

static void write_status(void *ctx, FILE *out)
{
    const struct watch *watch = ctx;
    struct page_status status;
    page_status_begin(&status, out, "watch", watch->told_at_ns);
    for (size_t i = 0; i < watch->model.count; i++) {
        if (watch->model.subjects[i]->kind == TOP_PROCESS) {
            subject_put(&status, watch->model.subjects[i]);
        }
    }
    page_status_end(&status, watch->model.left_out);
}

static void write_metrics(void *ctx, FILE *out)
{
    const struct watch *watch = ctx;
    watch_metrics_write(&watch->model, out);
    http_door_write_metrics(watch->door, out);
}

// A round is begun where the last one is too old. Where none can be, what was known is told.
static bool is_ready(void *ctx)
{
    struct watch *watch = ctx;
    if (watch->told_at_ns != 0 && watch->now < instant_after(watch->told_at_ns, HTTP_FRESH_NS)) {
        return true;
    }
    return top_round_is_over(&watch->round) &&
           top_round_start(&watch->round, &watch->model, watch->now) != 0;
}

/* ---- turns ----------------------------------------------------------------------------------- */

static void round_go_on(struct watch *watch)
{
    if (!top_round_is_over(&watch->round)) {
        top_round_step(&watch->round, &watch->model, watch->now);
        if (top_round_is_over(&watch->round)) {
            watch->told_at_ns = watch->now;
            http_door_go_on(watch->door);
        }
    }
}

static int turns_run(struct watch *watch, int signal_fd)
{
    struct pollfd wanted[2 + TOP_ASKED_AT_ONCE] = {
        {.fd = signal_fd, .events = POLLIN},
        {.fd = http_door_fd(watch->door), .events = POLLIN},
    };
    for (;;) {
        instant_ns until_ns;
        watch->now = clock_now();
        round_go_on(watch);
        http_door_run(watch->door, watch->now);
        const unsigned count = top_round_wants(&watch->round, watch->now, wanted + 2, &until_ns);
        until_ns = instant_min(until_ns, http_door_next_deadline(watch->door, watch->now));
        if (poll(wanted, 2 + count, poll_ms(watch->now, until_ns)) < 0 && errno != EINTR) {
            return -errno;
        }
        if ((wanted[0].revents & POLLIN) != 0) {
            return 0;
        }
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int signals_open(void)
{
    sigset_t taken;
    sigemptyset(&taken);
    sigaddset(&taken, SIGINT);
    sigaddset(&taken, SIGTERM);
    sigaddset(&taken, SIGHUP);
    signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &taken, NULL) != 0) {
        return -1;
    }
    return signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
}

static struct http_door *door_open(struct watch *watch, const char *listen,
                                   struct http_resource resources[HTTP_RESOURCE_MAX])
{
    static const struct http_resource own[] = {
        {.path = "/metrics", .type = EXPOSITION_TYPE, .write = write_metrics},
        {.path = "/status.json", .type = "application/json", .write = write_status},
    };
    struct why why;
    const struct http_door_parts parts = {
        .ctx = watch,
        .is_ready = is_ready,
        .resources = resources,
        .count = page_resources(own, sizeof own / sizeof own[0], resources)};
    struct http_door *door = http_door_open(listen, &parts, &why);
    if (door == NULL) {
        say_error("no page", listen, "choose another address, HOST:PORT, or port 0 for a free one",
                  "%s", why.text);
    }
    return door;
}

static void announce(const struct watch *watch, const struct watch_wishes *wishes)
{
    char address[ADDRESS_LEN_MAX];
    if (!wishes->is_quiet) {
        http_door_address(watch->door, address, sizeof address);
        printf("page %s\n", address);
        fflush(stdout);
    }
}

static int watch_run(const struct watch_wishes *wishes, const pid_t *pids, size_t pid_count)
{
    struct http_resource resources[HTTP_RESOURCE_MAX];
    struct watch watch = {.round = {.pids = pids, .pid_count = pid_count}};
    const int signal_fd = signals_open();
    if (signal_fd < 0) {
        say_error("no page", "this process", "raise the limit on open files (ulimit -n)", "%m");
        return EXIT_FAILED;
    }
    top_model_init(&watch.model);
    watch.door = door_open(&watch, wishes->listen, resources);
    int error = watch.door != NULL ? 0 : -EADDRNOTAVAIL;
    if (error == 0) {
        announce(&watch, wishes);
        error = turns_run(&watch, signal_fd);
        top_round_stop(&watch.round);
        http_door_close(watch.door);
    }
    top_model_fini(&watch.model);
    close(signal_fd);
    return error == 0 ? EXIT_SUCCESS : EXIT_FAILED;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int options_read(int argc, char **argv, struct watch_wishes *ret)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"http", required_argument, NULL, OPTION_HTTP},
        {"quiet", no_argument, NULL, OPTION_QUIET},
        {0},
    };
    *ret = (struct watch_wishes){.listen = WATCH_LISTEN_DEFAULT};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hq", options, NULL)) != -1;) {
        switch (option) {
        case OPTION_HELP:
            watch_help(stdout);
            ret->is_done = true;
            return 0;
        case OPTION_HTTP:
            ret->listen = optarg;
            break;
        case OPTION_QUIET:
            ret->is_quiet = true;
            break;
        case ':':
            return say_usage("watch", "%s needs a value", argv[optind - 1]);
        default:
            return say_usage("watch", "there is no option %s", argv[optind - 1]);
        }
    }
    return 0;
}

static int watch_main(int argc, char **argv)
{
    struct watch_wishes wishes;
    int result = options_read(argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    const size_t pid_count = (size_t)(argc - optind);
    pid_t *pids;
    result = asking_pids_create("watch", argv + optind, pid_count, &pids);
    result = result == 0 ? watch_run(&wishes, pids, pid_count) : result;
    free(pids);
    return result;
}

const struct command command_watch = {
    .name = "watch",
    .summary = "show live what runs now, in a browser",
    .run = watch_main,
    .help = watch_help,
};
