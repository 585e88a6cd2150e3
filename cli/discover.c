// weft discover, weft ls, weft info: what targets offer.

#include <getopt.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/why.h"
#include "cli/command.h"
#include "cli/say.h"
#include "cli/volume.h"
#include "cli/volume_nvme.h"
#include "text/endpoint.h"
#include "text/quantity.h"

enum { OPTION_HELP = 'h', OPTION_JSON = 'j' };

struct wishes {
    bool is_json;
    bool is_help; // nothing else is asked for
    const char *uri;
};

// The options that all three have, then one address. 0 or an exit status.
static int words_read(const struct command *command, int argc, char **argv, struct wishes *ret)
{
    static const struct option options[] = {
        {"help", no_argument, NULL, OPTION_HELP}, {"json", no_argument, NULL, OPTION_JSON}, {0}};
    *ret = (struct wishes){0};
    optind = 1;
    for (int option; (option = getopt_long(argc, argv, ":hj", options, NULL)) != -1;) {
        switch (option) {
        case OPTION_HELP:
            ret->is_help = true;
            return 0;
        case OPTION_JSON:
            ret->is_json = true;
            break;
        default:
            return say_usage(command->name, "there is no option %s", argv[optind - 1]);
        }
    }
    if (argc - optind != 1) {
        return say_usage(command->name, "one address, not %d", argc - optind);
    }
    ret->uri = argv[optind];
    return volume_check(command->name, ret->uri, command == &command_info);
}

static void json_print(struct json_object *object)
{
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

/* ---- weft discover --------------------------------------------------------------------------- */

static void discover_help(FILE *out)
{
    fputs("Usage: weft discover [--json] HOST[:PORT] | nvme+tcp://HOST[:PORT]\n"
          "\n"
          "Asks the NVMe discovery service there, over RDMA or TCP, what it knows, and prints an\n"
          "entry per line: kind, transport, address, NQN. PORT is 4420 if not given.\n"
          "\n"
          "Options:\n"
          "  -j, --json  a JSON array with an object per entry\n"
          "  -h, --help  this text\n"
          "\n"
          "Exit status: 0; 1: the service cannot be asked; 2: wrong command line.\n",
          out);
}

static struct json_object *entry_json(const struct weft_nvme_entry *entry)
{
    struct json_object *object = json_object_new_object();
    json_object_object_add(object, "kind", json_object_new_string(entry->kind));
    json_object_object_add(object, "transport", json_object_new_string(entry->transport));
    json_object_object_add(object, "host", json_object_new_string(entry->host));
    json_object_object_add(object, "port", json_object_new_string(entry->port));
    json_object_object_add(object, "nqn", json_object_new_string(entry->nqn));
    return object;
}

static int discover_main(int argc, char **argv)
{
    struct wishes wishes;
    struct weft_nvme_address address;
    struct weft_nvme_entry *entries;
    struct why why;
    size_t count;
    int result = words_read(&command_discover, argc, argv, &wishes);
    if (wishes.is_help) {
        discover_help(stdout);
    }
    if (result != 0 || wishes.is_help) {
        return result;
    }
    if (weft_nvme_address_parse(wishes.uri, &address, why.text) != 0) {
        return say_usage("discover", "%s: %s", wishes.uri, why.text);
    }
    if ((result = volume_nvme_discover(&address, &entries, &count)) != 0) {
        return result;
    }
    struct json_object *array = wishes.is_json ? json_object_new_array() : NULL;
    for (size_t i = 0; i < count; i++) {
        const struct weft_nvme_entry *e = &entries[i];
        if (array != NULL) {
            json_object_array_add(array, entry_json(e));
        } else {
            char where[sizeof e->host + sizeof e->port + 3]; // written as other commands take it
            text_endpoint_format(e->host, e->port, where, sizeof where);
            printf("%-9s  %-4s  %s  %s\n", e->kind, e->transport, where, e->nqn);
        }
    }
    if (array != NULL) {
        json_print(array);
    }
    free(entries);
    return EXIT_SUCCESS;
}

const struct command command_discover = {
    .name = "discover",
    .summary = "ask a discovery service what it knows",
    .run = discover_main,
    .help = discover_help,
};

/* ---- weft ls --------------------------------------------------------------------------------- */

static void ls_help(FILE *out)
{
    fputs("Usage: weft ls [--json] HOST[:PORT] | nvme+rdma://HOST[:PORT][/NQN] |\n"
          "                        nvme+tcp://HOST[:PORT][/NQN] | nbd://HOST[:PORT] |\n"
          "                        iscsi+rdma://HOST[:PORT]/TARGET/LUN | iscsi://...\n"
          "\n"
          "Prints the volumes of a target, of one of its subsystems, or of an NBD server, one per\n"
          "line: size, UUID, and the URI that other commands take.\n"
          "\n"
          "Options:\n"
          "  -j, --json  a JSON array with an object per volume\n"
          "  -h, --help  this text\n"
          "\n"
          "Exit status: 0; 1: a subsystem cannot be asked; 2: wrong command line.\n",
          out);
}

static void volume_print(const struct volume_facts *facts)
{
    char uuid[VOLUME_UUID_MAX], size[TEXT_SIZE_MAX];
    printf("%8s  %-36s  %s%s\n", text_size_format(facts->len, size), volume_uuid(facts, uuid),
           facts->uri, facts->is_read_only ? "  read-only" : "");
}

// `context`: the array, or NULL.
static void on_volume(void *context, const struct volume_facts *facts)
{
    if (context != NULL) {
        json_object_array_add(context, volume_json(facts));
    } else {
        volume_print(facts);
    }
}

static int ls_main(int argc, char **argv)
{
    struct wishes wishes;
    int result = words_read(&command_ls, argc, argv, &wishes);
    if (wishes.is_help) {
        ls_help(stdout);
    }
    if (result != 0 || wishes.is_help) {
        return result;
    }
    struct json_object *array = wishes.is_json ? json_object_new_array() : NULL;
    result = volume_list(wishes.uri, on_volume, array);
    if (array != NULL) {
        json_print(array);
    }
    return result;
}

const struct command command_ls = {
    .name = "ls",
    .summary = "list the volumes of a target",
    .run = ls_main,
    .help = ls_help,
};

/* ---- weft info ------------------------------------------------------------------------------- */

static void info_help(FILE *out)
{
    fputs(
        "Usage: weft info [--json] nvme+rdma://HOST[:PORT]/NQN[/NSID] | nbd://HOST[:PORT]/EXPORT\n"
        "       weft info [--json] iscsi+rdma://HOST[:PORT]/TARGET/LUN | iscsi://...\n"
        "\n"
        "Shows a volume and the controller or server that has it: sizes, identities, limits, what\n"
        "it can do, and how data would go.\n"
        "\n"
        "Options:\n"
        "  -j, --json  a JSON object\n"
        "  -h, --help  this text\n"
        "\n"
        "Exit status: 0; 1: the volume cannot be asked; 2: wrong command line.\n",
        out);
}

static int info_main(int argc, char **argv)
{
    struct wishes wishes;
    struct volume volume;
    int result = words_read(&command_info, argc, argv, &wishes);
    if (wishes.is_help) {
        info_help(stdout);
    }
    if (result != 0 || wishes.is_help) {
        return result;
    }
    if ((result = volume_open(wishes.uri, 0, &volume)) != 0) {
        return result;
    }
    if (wishes.is_json) {
        struct json_object *object = volume_json(&volume.facts);
        volume.protocol->describe(&volume, object);
        json_print(object);
    } else {
        volume.protocol->show(&volume);
    }
    volume_close(&volume);
    return EXIT_SUCCESS;
}

const struct command command_info = {
    .name = "info",
    .summary = "show a volume and its controller",
    .run = info_main,
    .help = info_help,
};
