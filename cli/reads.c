// weft reads: how running processes divide their RDMA Reads, and commands to change it.

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/answer.h"
#include "cli/asking.h"
#include "cli/command.h"
#include "cli/say.h"
#include "text/quantity.h"

enum reads_option {
    OPTION_HELP = 'h',
    OPTION_JSON = 'j',
    OPTION_ALLOTMENT = 'a',
    OPTION_MEMORY = 'm',
};
enum { REQUEST_LEN = 64 };
enum { ALLOTMENT_MAX = 1 << 30 }; // as WEFT_READ_ALLOTMENT

struct wishes {
    bool is_json, is_done; // is_done: the help was all
    char request[REQUEST_LEN];
    bool is_command; // not only a question
};

static void reads_help(FILE *out)
{
    fputs(
        "Usage: weft reads [OPTION...] [PID...]\n"
        "\n"
        "Shows how running programs divide their RDMA Reads: the allotment, the read contexts and\n"
        "who waits for one; of all your programs, or of those with the process ids PID. With a\n"
        "command, which needs a PID, changes it first; the peers of their connections are told.\n"
        "\n"
        "Options:\n"
        "  -a, --allotment=OCTETS  what one request of a Read fetches at most; 0: undivided;\n"
        "                          auto: as if none had been given\n"
        "  -m, --memory=STATE      short: memory is, so take a quarter; enough: it is not\n"
        "  -j, --json              a JSON array with an object per device\n"
        "  -h, --help              this text\n"
        "\n"
        "Exit status: 0, also when there is no such program; 1: a process could not be asked;\n"
        "2: wrong command line.\n",
        out);
}

static int allotment_wish(const char *text, struct wishes *ret)
{
    uint64_t octets;
    if (strcmp(text, "auto") != 0 && !text_number_parse(text, 0, ALLOTMENT_MAX, &octets)) {
        return say_usage("reads", "--allotment=%s: it must be 0 to %d octets, or auto", text,
                         ALLOTMENT_MAX);
    }
    snprintf(ret->request, sizeof ret->request, "reads allotment %s\n", text);
    ret->is_command = true;
    return 0;
}

static int memory_wish(const char *text, struct wishes *ret)
{
    if (strcmp(text, "short") != 0 && strcmp(text, "enough") != 0) {
        return say_usage("reads", "--memory=%s: it must be short or enough", text);
    }
    snprintf(ret->request, sizeof ret->request, "reads memory %s\n", text);
    ret->is_command = true;
    return 0;
}

static int option_take(int option, struct wishes *ret, char **argv)
{
    switch (option) {
    case OPTION_HELP:
        reads_help(stdout);
        ret->is_done = true;
        return 0;
    case OPTION_JSON:
        ret->is_json = true;
        return 0;
    case OPTION_ALLOTMENT:
    case OPTION_MEMORY:
        if (ret->is_command) {
            return say_usage("reads", "one command at a time, --allotment or --memory");
        }
        return option == OPTION_MEMORY ? memory_wish(optarg, ret) : allotment_wish(optarg, ret);
    case ':':
        return say_usage("reads", "%s needs a value", argv[optind - 1]);
    default:
        return say_usage("reads", "there is no option %s", argv[optind - 1]);
    }
}

static int options_read(int argc, char **argv, struct wishes *ret)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPTION_HELP},
        {"json", no_argument, NULL, OPTION_JSON},
        {"allotment", required_argument, NULL, OPTION_ALLOTMENT},
        {"memory", required_argument, NULL, OPTION_MEMORY},
        {0},
    };
    *ret = (struct wishes){.request = "reads\n"};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hja:m:", options, NULL)) != -1;) {
        int result = option_take(option, ret, argv);
        if (result != 0 || ret->is_done) {
            return result;
        }
    }
    return 0;
}

/* ---- showing --------------------------------------------------------------------------------- */

static void length_print(uint64_t len)
{
    if (len == 0) {
        fputs("undivided", stdout);
    } else {
        printf("%" PRIu64, len);
    }
}

// What holds on the connections there are, where both ends' wishes count.
static void in_force_print(struct json_object *reads)
{
    uint64_t least = answer_number(reads, "in_force_min"),
             most = answer_number(reads, "in_force_max");
    uint64_t count = answer_number(reads, "connections");
    if (count == 0) {
        return;
    }
    fputs(", in force ", stdout);
    length_print(least);
    if (most != least) {
        fputs(" to ", stdout);
        length_print(most);
    }
    printf(" on %" PRIu64 " connection%s", count, count == 1 ? "" : "s");
}

static void device_print(struct json_object *answer)
{
    struct json_object *reads = json_object_object_get(answer, "reads");
    printf("%" PRIu64 " %s, %s: allotment %" PRIu64 " of %" PRIu64 " octets",
           answer_number(answer, "pid"), answer_text(answer, "program"),
           answer_text(answer, "device"), answer_number(reads, "allotment"),
           answer_number(reads, "allotment_base"));
    in_force_print(reads);
    printf(", contexts %" PRIu64 " of %" PRIu64 ", waiting %" PRIu64 "\n",
           answer_number(reads, "contexts_in_use"), answer_number(reads, "contexts"),
           answer_number(reads, "waiting"));
}

// One of its connections: what one request may fetch now, each way.
static void connection_print(struct json_object *connection)
{
    const char *peer = answer_text(connection, "peer");
    printf("  qp %" PRIu64 "%s%s: a request ", answer_number(connection, "qp_num"),
           *peer != '\0' ? " to " : "", peer);
    length_print(answer_number(connection, "read_request_len"));
    if (answer_number(connection, "read_answer_len") > 0) {
        fputs(", an answer ", stdout);
        length_print(answer_number(connection, "read_answer_len"));
    }
    printf(", %" PRIu64 " out\n", answer_number(connection, "reads_outstanding"));
}

static void connections_print(struct json_object *answer)
{
    for (size_t i = 0; i < answer_count(answer, "connections"); i++) {
        connection_print(answer_element(answer, "connections", i));
    }
}

static void array_print(struct json_object *array, bool is_json, bool has_named_pids)
{
    if (is_json) {
        puts(json_object_to_json_string_ext(array, JSON_C_TO_STRING_PRETTY |
                                                       JSON_C_TO_STRING_SPACED |
                                                       JSON_C_TO_STRING_NOSLASHESCAPE));
        return;
    }
    if (json_object_array_length(array) == 0 && !has_named_pids) {
        asking_say_nobody();
    }
    for (size_t i = 0; i < json_object_array_length(array); i++) {
        device_print(json_object_array_get_idx(array, i));
        connections_print(json_object_array_get_idx(array, i));
    }
}

static int ask(const struct wishes *wishes, const pid_t *pids, size_t pid_count)
{
    const struct question question = {.request = wishes->request, .what = "reads unknown"};
    struct json_object *array = json_object_new_array();
    if (array == NULL) {
        say_error("reads unknown", "this process", "free some memory", "no memory");
        return EXIT_FAILED;
    }
    int result = asking_collect(&question, array, pids, pid_count);
    array_print(array, wishes->is_json, pid_count > 0);
    json_object_put(array);
    return result;
}

static int reads_main(int argc, char **argv)
{
    struct wishes wishes;
    int result = options_read(argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    size_t pid_count = (size_t)(argc - optind);
    if (wishes.is_command && pid_count == 0) {
        return say_usage("reads", "a command needs the process ids of whom it is for");
    }
    pid_t *pids;
    result = asking_pids_create("reads", argv + optind, pid_count, &pids);
    if (result == 0) {
        result = ask(&wishes, pids, pid_count);
    }
    free(pids);
    return result;
}

const struct command command_reads = {
    .name = "reads",
    .summary = "show and change how running programs divide RDMA Reads",
    .run = reads_main,
    .help = reads_help,
};
