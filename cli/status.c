// weft status, weft rescan: running storage nodes.

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/answer.h"
#include "cli/asking.h"
#include "cli/command.h"
#include "cli/say.h"
#include "control/find.h"
#include "text/quantity.h"
#include "text/show.h"

enum { OPTION_HELP = 'h', OPTION_JSON = 'j', OPTION_ADD = 256, OPTION_REMOVE, OPTION_STAND_BY };
enum { REQUEST_MAX = 2048, SINCE_TEXT_MAX = 24, OPERATION_TEXT_MAX = 32 };

/* ---- which node ------------------------------------------------------------------------------ */

// The caller's nodes, or the one with the process id `pid` (0: all). 0, or EXIT_FAILED after saying
// why.
static int nodes_find(pid_t pid, struct process **ret, size_t *ret_count)
{
    struct process *all;
    size_t count;
    int error = processes_find(PROCESS_NODE, &all, &count);
    if (error != 0) {
        say_error("no nodes", "the runtime folder", "see WEFT_RUNTIME_DIR in weft-status(1)", "%s",
                  strerror(-error));
        return EXIT_FAILED;
    }
    size_t kept = processes_keep_own(all, count);
    if (pid != 0) {
        const struct process *wanted = processes_at(all, kept, pid);
        kept = 0;
        if (wanted != NULL) {
            all[0] = *wanted;
            kept = 1;
        }
    }
    *ret = all;
    *ret_count = kept;
    if (pid != 0 && kept == 0) {
        char object[48];
        snprintf(object, sizeof object, "process %d", (int)pid);
        free(all);
        say_error("no node", object, "weft status without a PID lists those there are",
                  "it is no weft serve of yours, or has another runtime folder");
        return EXIT_FAILED;
    }
    return 0;
}

// 0, and the process id that the words name, or 0 for none; or EXIT_USAGE.
static int pid_read(const char *command, int argc, char **argv, pid_t *ret)
{
    *ret = 0;
    if (argc - optind > 1) {
        return say_usage(command, "one process id at most");
    }
    return asking_pids(command, argv + optind, (size_t)(argc - optind), ret);
}

/* ---- for people ------------------------------------------------------------------------------ */

static uint64_t sum_of(struct json_object *object, const char *name)
{
    struct json_object *numbers = answer_member(object, name, json_type_object);
    uint64_t sum = 0;
    if (numbers != NULL) {
        json_object_object_foreach(numbers, key, value)
        {
            (void)key;
            sum += json_object_get_uint64(value);
        }
    }
    return sum;
}

// Where there is a limit.
static void rate_print(struct json_object *v)
{
    uint64_t iops = answer_number(v, "iops"), bps = answer_number(v, "bps");
    char requests[TEXT_SIZE_MAX], octets[TEXT_SIZE_MAX];
    if (iops == 0 && bps == 0) {
        return;
    }
    snprintf(requests, sizeof requests, "%" PRIu64, iops);
    printf("      limit: %s requests and %s octets a second; %" PRIu64 " requests have waited\n",
           iops > 0 ? requests : "any", bps > 0 ? text_size_format(bps, octets) : "any",
           answer_number(v, "throttled"));
}

// Of a subsystem or target that has a name, and not the volume's UUID in place of one.
static void place_print(struct json_object *v, const char *what, const char *group,
                        const char *member, uint64_t first)
{
    const char *name = answer_text(v, group);
    bool is_alone =
        strstr(name, answer_text(v, "uuid")) != NULL && answer_number(v, member) == first;
    if (*name != '\0' && !is_alone) {
        printf("      %s: %" PRIu64 " of %s\n", what, answer_number(v, member), name);
    }
}

static void source_print(struct json_object *v)
{
    if (*answer_text(v, "source") != '\0') {
        printf("      source: %s\n", answer_text(v, "source"));
    }
}

static void volumes_print(struct json_object *node)
{
    char size[TEXT_SIZE_MAX], moved[TEXT_SIZE_MAX];
    printf("  %-20s %-9s %6s %-6s %8s %10s %8s  %s\n", "VOLUME", "STATE", "SIZE", "DRIVER",
           "CLIENTS", "REQUESTS", "MOVED", "URI");
    for (size_t i = 0; i < answer_count(node, "volumes"); i++) {
        struct json_object *v = answer_element(node, "volumes", i);
        printf("  %-20s %-9s %6s %-6s %8" PRIu64 " %10" PRIu64 " %8s  %s\n", answer_text(v, "name"),
               answer_text(v, "state"), text_size_format(answer_number(v, "size"), size),
               answer_text(v, "driver"), answer_number(v, "connections"), sum_of(v, "operations"),
               text_size_format(sum_of(v, "octets"), moved), answer_text(v, "uri"));
        if (*answer_text(v, "why") != '\0') {
            printf("      why: %s\n", answer_text(v, "why"));
        }
        source_print(v);
        rate_print(v);
        place_print(v, "namespace", "nqn", "nsid", 1);
        place_print(v, "unit", "target", "lun", 0);
    }
}

static const char *latency_of(struct json_object *histogram, const char *key,
                              char ret[TEXT_DURATION_MAX])
{
    return text_duration_format(answer_number(histogram, key), ret);
}

static void latency_print(const char *volume, const char *operation, struct json_object *h)
{
    char shown[OPERATION_TEXT_MAX];
    char p50[TEXT_DURATION_MAX], p90[TEXT_DURATION_MAX], p99[TEXT_DURATION_MAX],
        p999[TEXT_DURATION_MAX], max[TEXT_DURATION_MAX];
    snprintf(shown, sizeof shown, "%s", operation);
    text_tame(shown, sizeof shown);
    printf("  %-20s %-12s %10" PRIu64 " %8s %8s %8s %8s %8s\n", volume, shown,
           answer_number(h, "count"), latency_of(h, "p50_ns", p50), latency_of(h, "p90_ns", p90),
           latency_of(h, "p99_ns", p99), latency_of(h, "p999_ns", p999),
           latency_of(h, "max_ns", max));
}

// From request to answer, of operations that there were.
static void latencies_print(struct json_object *node)
{
    bool has_head = false;
    for (size_t i = 0; i < answer_count(node, "volumes"); i++) {
        struct json_object *v = answer_element(node, "volumes", i);
        struct json_object *latency = answer_member(v, "latency", json_type_object);
        if (latency == NULL || json_object_object_length(latency) == 0) {
            continue;
        }
        if (!has_head) {
            printf("  %-20s %-12s %10s %8s %8s %8s %8s %8s\n", "LATENCY OF", "OPERATION", "COUNT",
                   "P50", "P90", "P99", "P99.9", "MAX");
            has_head = true;
        }
        json_object_object_foreach(latency, operation, histogram)
        {
            latency_print(answer_text(v, "name"), operation, histogram);
        }
    }
}

static void rtas_print(struct json_object *node)
{
    printf("  %-20s %-10s %8s %8s %9s %8s %8s %8s  %s\n", "RTA", "STATE", "PID", "SINCE",
           "RESTARTS", "FLIGHT", "REPLAYS", "RESENT", "CONFINED");
    for (size_t i = 0; i < answer_count(node, "rtas"); i++) {
        struct json_object *r = answer_element(node, "rtas", i);
        char since[SINCE_TEXT_MAX];
        snprintf(since, sizeof since, "%" PRIu64 ".%" PRIu64 "s",
                 answer_number(r, "since_ms") / 1000, answer_number(r, "since_ms") / 100 % 10);
        printf("  %-20s %-10s %8" PRIu64 " %8s %9" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64
               "  %s\n",
               answer_text(r, "name"), answer_text(r, "state"), answer_number(r, "pid"), since,
               answer_number(r, "restarts"), answer_number(r, "in_flight"),
               answer_number(r, "replays"), answer_number(r, "retransmissions"),
               answer_text(answer_member(r, "confinement", json_type_object), "kind"));
        if (*answer_text(r, "why") != '\0') {
            printf("      why: %s; processes in vain: %" PRIu64 "\n", answer_text(r, "why"),
                   answer_number(r, "failures"));
        }
    }
}

// Where there are some.
static void sources_print(struct json_object *node)
{
    size_t count = answer_count(node, "sources");
    if (count > 0) {
        printf("  %-8s %8s %8s %8s %8s  %s\n", "SOURCE", "VOLUMES", "LEFT OUT", "READ", "IN VAIN",
               "URI");
    }
    for (size_t i = 0; i < count; i++) {
        struct json_object *s = answer_element(node, "sources", i);
        printf("  %-8s %8" PRIu64 " %8" PRIu64 " %8" PRIu64 " %8" PRIu64 "  %s\n",
               answer_text(s, "state"), answer_number(s, "volumes"), answer_number(s, "left_out"),
               answer_number(s, "readings"), answer_number(s, "failures"), answer_text(s, "uri"));
        if (answer_number(s, "unasked") > 0) {
            printf("      targets that could not be asked: %" PRIu64 "\n",
                   answer_number(s, "unasked"));
        }
        if (*answer_text(s, "why") != '\0') {
            printf("      why: %s\n", answer_text(s, "why"));
        }
    }
}

static void mdns_print(struct json_object *mdns)
{
    if (mdns != NULL && *answer_text(mdns, "name") != '\0') {
        printf("  mDNS: announced as \"%s\"\n", answer_text(mdns, "name"));
    } else if (mdns != NULL) {
        printf("  mDNS: not announced: %s\n", answer_text(mdns, "why"));
    }
}

static void node_print(struct json_object *node)
{
    char pool[TEXT_SIZE_MAX], taken[TEXT_SIZE_MAX];
    printf("node %" PRIu64 ": %" PRIu64 " clients, pool %s of %s in use\n",
           answer_number(node, "pid"), answer_number(node, "connections"),
           text_size_format(answer_number(node, "pool_taken"), taken),
           text_size_format(answer_number(node, "pool"), pool));
    volumes_print(node);
    sources_print(node);
    mdns_print(answer_member(node, "mdns", json_type_object));
    latencies_print(node);
    rtas_print(node);
}

/* ---- weft status ----------------------------------------------------------------------------- */

static void status_help(FILE *out)
{
    fputs(
        "Usage: weft status [OPTION...] [PID]\n"
        "\n"
        "Shows running storage nodes, yours or the one with the process id PID: their volumes and\n"
        "the processes that drive these.\n"
        "\n"
        "Options:\n"
        "  -j, --json  a JSON array with an object per node\n"
        "  -h, --help  this text\n"
        "\n"
        "Exit status: 0, also when there is none; 1: a node could not be asked; 2: wrong command\n"
        "line.\n",
        out);
}

static int status_run(bool is_json, pid_t pid)
{
    struct process *nodes;
    size_t count;
    struct json_object *array = json_object_new_array();
    int result = nodes_find(pid, &nodes, &count);
    if (result != 0) {
        json_object_put(array);
        return result;
    }
    const struct question question = {.request = "status\n", .what = "no status"};
    result = asking_add(&question, array, nodes, count);
    if (is_json) {
        puts(json_object_to_json_string_ext(array, JSON_C_TO_STRING_PRETTY |
                                                       JSON_C_TO_STRING_SPACED |
                                                       JSON_C_TO_STRING_NOSLASHESCAPE));
    } else if (count == 0) {
        puts("No storage node of yours runs now. Start one with: weft serve FILE");
    }
    for (size_t i = 0; i < json_object_array_length(array) && !is_json; i++) {
        node_print(json_object_array_get_idx(array, i));
    }
    free(nodes);
    json_object_put(array);
    return result;
}

static int status_main(int argc, char **argv)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPTION_HELP}, {"json", no_argument, NULL, OPTION_JSON}, {0}};
    bool is_json = false;
    pid_t pid;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hj", options, NULL)) != -1;) {
        if (option == OPTION_HELP) {
            status_help(stdout);
            return EXIT_SUCCESS;
        }
        if (option != OPTION_JSON) {
            return say_usage("status", "there is no option %s", argv[optind - 1]);
        }
        is_json = true;
    }
    int result = pid_read("status", argc, argv, &pid);
    return result != 0 ? result : status_run(is_json, pid);
}

const struct command command_status = {
    .name = "status",
    .summary = "show running storage nodes",
    .run = status_main,
    .help = status_help,
};

/* ---- weft rescan ----------------------------------------------------------------------------- */

static void rescan_help(FILE *out)
{
    fputs("Usage: weft rescan [OPTION...] [PID]\n"
          "\n"
          "Has the running storage node look at its devices anew, and read its configuration file\n"
          "again if it has one: volumes come, go and change, sizes too. Prints what changed, when\n"
          "that is done. Without PID there must be one node of yours.\n"
          "\n"
          "Options:\n"
          "  --add=[NAME=]URI  one more volume; the node must have been started with --allow-add\n"
          "  --remove=NAME     one less; its clients are disconnected\n"
          "  --stand-by=NAME   another node that waits for this volume gets it\n"
          "  -h, --help        this text\n"
          "\n"
          "Exit status: 0; 1: the node refused, or there is none; 2: wrong command line.\n",
          out);
}

// What became of which volume.
static void changes_print(struct json_object *answer)
{
    for (size_t i = 0; i < answer_count(answer, "changes"); i++) {
        struct json_object *change = answer_element(answer, "changes", i);
        printf("%s: %s\n", answer_text(change, "volume"), answer_text(change, "what"));
    }
}

static int request_send(const struct process *node, const char *verb, const char *object)
{
    char request[REQUEST_MAX];
    struct json_object *answer;
    int len =
        snprintf(request, sizeof request, *object != '\0' ? "%s %s\n" : "%s%s\n", verb, object);
    if (len >= (int)sizeof request || strchr(object, '\n') != NULL) {
        return say_usage("rescan", "%.64s: too long, or of several lines", object);
    }
    int error = answer_get(node, request, &answer);
    if (error != 0) {
        answer_say_failed(node, "not done", error);
        return EXIT_FAILED;
    }
    bool is_done = json_object_get_boolean(json_object_object_get(answer, "ok"));
    changes_print(answer);
    if (!is_done) {
        say_error("not done", *object != '\0' ? object : verb, "see weft status", "%s",
                  answer_text(answer, "why"));
    }
    json_object_put(answer);
    return is_done ? EXIT_SUCCESS : EXIT_FAILED;
}

static int node_choose(pid_t pid, struct process *ret)
{
    struct process *nodes;
    size_t count;
    int result = nodes_find(pid, &nodes, &count);
    if (result != 0) {
        return result;
    }
    if (count != 1) {
        say_error("no node", "weft rescan",
                  count == 0 ? "start one: weft serve FILE"
                             : "give its process id: weft status lists them",
                  "%zu nodes of yours run now", count);
        free(nodes);
        return EXIT_FAILED;
    }
    *ret = nodes[0];
    free(nodes);
    return 0;
}

// 0 with optind at the words; the options are looked at again later.
static int rescan_options_check(int argc, char **argv, bool *ret_is_help)
{
    static const char short_options[] = ":h";
    static const struct option options[] = {{"help", no_argument, NULL, OPTION_HELP},
                                            {"add", required_argument, NULL, OPTION_ADD},
                                            {"remove", required_argument, NULL, OPTION_REMOVE},
                                            {"stand-by", required_argument, NULL, OPTION_STAND_BY},
                                            {0}};
    *ret_is_help = false;
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, short_options, options, NULL)) != -1;) {
        if (option == ':') {
            return say_usage("rescan", "%s needs a value", argv[optind - 1]);
        }
        if (option == '?') {
            return say_usage("rescan", "there is no option %s", argv[optind - 1]);
        }
        *ret_is_help |= option == OPTION_HELP;
    }
    return 0;
}

static const char *verb_of(int option)
{
    return option == OPTION_ADD ? "add" : option == OPTION_REMOVE ? "remove" : "stand-by";
}

static int rescan_carry_out(const struct process *node, int argc, char **argv)
{
    static const struct option options[] = {{"add", required_argument, NULL, OPTION_ADD},
                                            {"remove", required_argument, NULL, OPTION_REMOVE},
                                            {"stand-by", required_argument, NULL, OPTION_STAND_BY},
                                            {0}};
    bool has_change = false;
    int result = 0;
    optind = 1;
    for (int option; result == 0 && (option = getopt_long(argc, argv, ":", options, NULL)) != -1;) {
        has_change = true;
        result = request_send(node, verb_of(option), optarg);
    }
    return has_change || result != 0 ? result : request_send(node, "rescan", "");
}

static int rescan_main(int argc, char **argv)
{
    bool is_help;
    pid_t pid;
    struct process node;
    int result = rescan_options_check(argc, argv, &is_help);
    if (result == 0 && is_help) {
        rescan_help(stdout);
        return EXIT_SUCCESS;
    }
    if (result == 0) {
        result = pid_read("rescan", argc, argv, &pid);
    }
    if (result == 0) {
        result = node_choose(pid, &node);
    }
    return result != 0 ? result : rescan_carry_out(&node, argc, argv);
}

const struct command command_rescan = {
    .name = "rescan",
    .summary = "have a storage node look at its devices anew",
    .run = rescan_main,
    .help = rescan_help,
};
