// weft discover, weft ls, weft info: what targets offer.

#include <getopt.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/say.h"
#include "cli/volume.h"
#include "text/endpoint.h"
#include "text/quantity.h"

enum { OPTION_HELP = 'h', OPTION_JSON = 'j' };
enum { NAMESPACE_LIST_MAX = 1024 };

struct wishes {
    bool is_json;
    bool is_done; // the help was all
    struct weft_nvme_address address;
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
            command->help(stdout);
            ret->is_done = true;
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
    return volume_address(command->name, argv[optind], &ret->address);
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
    fputs("Usage: weft discover [--json] HOST[:PORT]\n"
          "\n"
          "Asks the NVMe discovery service there what it knows, and prints an entry per line:\n"
          "kind, transport, address, NQN. PORT is 4420 if not given.\n"
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
    struct weft_nvme_entry *entries;
    size_t count;
    int result = words_read(&command_discover, argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    if ((result = volume_discover(&wishes.address, &entries, &count)) != 0) {
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
    fputs("Usage: weft ls [--json] HOST[:PORT] | nvme+rdma://HOST[:PORT]/NQN\n"
          "\n"
          "Prints the volumes of a target, or of one of its subsystems, one per line: size, UUID,\n"
          "and the URI that other commands take.\n"
          "\n"
          "Options:\n"
          "  -j, --json  a JSON array with an object per volume\n"
          "  -h, --help  this text\n"
          "\n"
          "Exit status: 0; 1: a subsystem cannot be asked; 2: wrong command line.\n",
          out);
}

static void volume_print(const struct weft_nvme_address *address,
                         const struct weft_nvme_namespace *ns)
{
    struct weft_nvme_address full = *address;
    char uri[VOLUME_URI_MAX], uuid[VOLUME_UUID_MAX], size[TEXT_SIZE_MAX];
    full.nsid = ns->nsid;
    weft_nvme_address_format(&full, uri, sizeof uri);
    printf("%8s  %-36s  %s%s\n", text_size_format(ns->len, size), volume_uuid(ns, uuid), uri,
           ns->is_read_only ? "  read-only" : "");
}

// Every namespace of one subsystem.
static int subsystem_list(const struct weft_nvme_address *address, struct json_object *array)
{
    static uint32_t nsids[NAMESPACE_LIST_MAX];
    char why[WEFT_NVME_WHY_MAX];
    struct volume volume = {.address = *address};
    const struct weft_nvme_attr attr = {.address = address, .depth = 1};
    int error = weft_nvme_connect(&attr, &volume.nvme, why);
    int count =
        error == 0 ? weft_nvme_namespaces(volume.nvme, nsids, NAMESPACE_LIST_MAX, why) : error;
    error = count < 0 ? count : 0;
    for (int i = 0; i < count && error == 0; i++) {
        error = weft_nvme_identify(volume.nvme, nsids[i], &volume.ns, why);
        if (error == 0 && array != NULL) {
            json_object_array_add(array, volume_json(address, &volume.ns));
        } else if (error == 0) {
            volume_print(address, &volume.ns);
        }
    }
    volume_close(&volume);
    return error != 0 ? volume_say_failed("cannot list", address, error, why) : 0;
}

// Every subsystem that the discovery service has for this transport.
static int target_list(const struct weft_nvme_address *address, struct json_object *array)
{
    struct weft_nvme_entry *entries;
    size_t count;
    int result = volume_discover(address, &entries, &count);
    if (result != 0) {
        return result;
    }
    for (size_t i = 0; i < count; i++) {
        const struct weft_nvme_entry *e = &entries[i];
        struct weft_nvme_address subsystem = {0};
        bool is_ours = strcmp(e->transport, "rdma") == 0 && strcmp(e->kind, "nvme") == 0;
        if (is_ours) {
            snprintf(subsystem.host, sizeof subsystem.host, "%s", e->host);
            snprintf(subsystem.port, sizeof subsystem.port, "%.*s", WEFT_NVME_PORT_MAX - 1,
                     e->port);
            snprintf(subsystem.nqn, sizeof subsystem.nqn, "%s", e->nqn);
            result |= subsystem_list(&subsystem, array);
        }
    }
    free(entries);
    return result;
}

static int ls_main(int argc, char **argv)
{
    struct wishes wishes;
    int result = words_read(&command_ls, argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    struct json_object *array = wishes.is_json ? json_object_new_array() : NULL;
    result = wishes.address.nqn[0] != '\0' ? subsystem_list(&wishes.address, array)
                                           : target_list(&wishes.address, array);
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
    fputs("Usage: weft info [--json] nvme+rdma://HOST[:PORT]/NQN[/NSID]\n"
          "\n"
          "Shows a volume and the controller that has it: sizes, identities, limits, what it can\n"
          "do, and whether data would go by one-shot RDMA.\n"
          "\n"
          "Options:\n"
          "  -j, --json  a JSON object\n"
          "  -h, --help  this text\n"
          "\n"
          "Exit status: 0; 1: the volume cannot be asked; 2: wrong command line.\n",
          out);
}

static struct json_object *controller_json(const struct weft_nvme_info *info)
{
    struct json_object *object = json_object_new_object();
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"number", info->controller},
                   {"version", info->version},
                   {"transfer_max", info->transfer_max_len},
                   {"in_capsule", info->in_capsule_len},
                   {"depth", info->depth}};
    const struct {
        const char *key;
        bool value;
    } bits[] = {{"volatile_cache", info->has_volatile_cache},
                {"trim", info->can_trim},
                {"write_zeroes", info->can_write_zeroes},
                {"oneshot", info->is_oneshot}};
    json_object_object_add(object, "model", json_object_new_string(info->model));
    json_object_object_add(object, "serial", json_object_new_string(info->serial));
    json_object_object_add(object, "firmware", json_object_new_string(info->firmware));
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_object_object_add(object, numbers[i].key, json_object_new_uint64(numbers[i].value));
    }
    for (unsigned i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        json_object_object_add(object, bits[i].key, json_object_new_boolean(bits[i].value));
    }
    return object;
}

static void info_print(const struct volume *volume)
{
    const struct weft_nvme_info *info = &volume->info;
    const struct weft_nvme_namespace *ns = &volume->ns;
    char uuid[VOLUME_UUID_MAX], size[TEXT_SIZE_MAX], transfer[TEXT_SIZE_MAX];
    printf("namespace %u of %s\n", ns->nsid, info->nqn);
    printf("  size          %s, %" PRIu64 " octets in blocks of %u%s\n",
           text_size_format(ns->len, size), ns->len, ns->block_len,
           ns->is_read_only ? ", read-only" : "");
    printf("  uuid          %s\n", volume_uuid(ns, uuid));
    printf("controller %u\n", info->controller);
    printf("  model         %s, serial %s, firmware %s, NVMe %u.%u\n", info->model, info->serial,
           info->firmware, info->version >> 16, info->version >> 8 & 0xff);
    printf("  transfer      at most %s; data of up to %u octets in the capsule\n",
           text_size_format(info->transfer_max_len, transfer), info->in_capsule_len);
    printf("  can           flush%s%s\n", info->can_trim ? ", trim" : "",
           info->can_write_zeroes ? ", write zeroes" : "");
    printf("  data          %s\n", info->is_oneshot ? "one-shot RDMA" : "keyed SGLs");
}

static int info_main(int argc, char **argv)
{
    struct wishes wishes;
    struct volume volume;
    int result = words_read(&command_info, argc, argv, &wishes);
    if (result != 0 || wishes.is_done) {
        return result;
    }
    if (wishes.address.nqn[0] == '\0') {
        return say_usage("info", "the address names no subsystem; `weft ls %s` lists them",
                         wishes.address.host);
    }
    if ((result = volume_open(&wishes.address, 0, &volume)) != 0) {
        return result;
    }
    if (wishes.is_json) {
        struct json_object *object = volume_json(&wishes.address, &volume.ns);
        json_object_object_add(object, "controller", controller_json(&volume.info));
        json_print(object);
    } else {
        info_print(&volume);
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
