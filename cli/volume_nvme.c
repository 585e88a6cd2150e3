// Volumes of NVMe targets: namespaces, over RDMA or TCP.

#include "cli/volume_nvme.h"

#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/list.h"
#include "base/why.h"
#include "cli/say.h"
#include "cli/volume.h"
#include "text/quantity.h"

enum {
    KEEP_ALIVE_MS = 60000, // a copy polls between reads and writes of files, which may take time
    NAMESPACE_LIST_MAX = 1024,
};

STATIC_CHECK((int)WEFT_NVME_WHY_MAX <= (int)WHY_MAX); // the initiator writes its reasons into ours

struct session {
    struct weft_nvme_address address;
    struct weft_nvme *nvme;
    struct weft_nvme_info info;
};

// An I/O's own.
struct command {
    struct volume *volume;
    struct iovec memory;
    struct weft_nvme_io io;
};

STATIC_CHECK(sizeof(struct command) <= sizeof(uint64_t[VOLUME_IO_WORDS]));

static const char *const schemes[] = {"nvme+rdma://", "nvme+tcp://", NULL};

static const struct session *session_of(const struct volume *volume)
{
    return volume->session;
}

/* ---- addresses ------------------------------------------------------------------------------- */

static int nvme_check(const char *uri, bool is_one, struct why *ret_why)
{
    struct weft_nvme_address address;
    int error = weft_nvme_address_parse(uri, &address, ret_why->text);
    if (error == 0 && is_one && address.nqn[0] == '\0') {
        why_say(ret_why, "it names no subsystem; `weft ls %s` lists them", uri);
        return -EINVAL;
    }
    return error;
}

static const char *nvme_remedy(int error)
{
    switch (error) {
    case -ETIMEDOUT:
        return "see whether `weft serve` runs there, with the same WEFT_LINK, and by `weft status` "
               "there whether the volume is ready";
    case -ECONNREFUSED:
    case -EHOSTUNREACH:
        return "see whether `weft serve` runs there, on this port, and with the same WEFT_LINK";
    case -EADDRNOTAVAIL:
        return "give the target's address as a number, or a name that is known here";
    case -ENOENT:
        return "see what there is: weft ls HOST:PORT";
    case -EACCES:
        return "have the target let this host in, see `allow` in weft-serve(1)";
    case -ENODEV:
        return "see weft-run(1) for RNICs; `weft run ibv_devinfo` shows weft's";
    default:
        return "see what the target says of it";
    }
}

static int say_failed(const char *what, const struct weft_nvme_address *address, int error,
                      const char *why)
{
    char uri[VOLUME_URI_MAX];
    weft_nvme_address_format(address, uri, sizeof uri);
    return volume_say_failed(what, uri, nvme_remedy(error), why);
}

/* ---- opening --------------------------------------------------------------------------------- */

static void facts_fill(const struct weft_nvme_address *address, const struct weft_nvme_info *info,
                       const struct weft_nvme_namespace *ns, struct volume_facts *ret)
{
    struct weft_nvme_address full = *address;
    full.nsid = ns->nsid;
    *ret = (struct volume_facts){.name_key = "nqn",
                                 .nsid = ns->nsid,
                                 .len = ns->len,
                                 .block_len = ns->block_len,
                                 .transfer_max_len = info->transfer_max_len,
                                 .is_read_only = ns->is_read_only,
                                 .can_write_zeroes = info->can_write_zeroes,
                                 .has_uuid = ns->has_uuid,
                                 .has_nguid = ns->has_nguid};
    weft_nvme_address_format(&full, ret->uri, sizeof ret->uri);
    snprintf(ret->name, sizeof ret->name, "%s", address->nqn);
    memcpy(ret->uuid, ns->uuid, sizeof ret->uuid);
    memcpy(ret->nguid, ns->nguid, sizeof ret->nguid);
}

// The namespace that the address names, or else the only one.
static int namespace_choose(const struct session *session, struct weft_nvme_namespace *ret,
                            struct why *ret_why)
{
    uint32_t nsid = session->address.nsid;
    if (nsid == 0) {
        uint32_t nsids[2];
        int count = weft_nvme_namespaces(session->nvme, nsids, 2, ret_why->text);
        if (count < 0) {
            return count;
        }
        if (count == 0) {
            why_say(ret_why, "the subsystem has no namespace now");
            return -ENOENT;
        }
        if (count > 1) {
            why_say(ret_why, "it has several namespaces: name one, as /%u behind it", nsids[0]);
            return -EINVAL;
        }
        nsid = nsids[0];
    }
    return weft_nvme_identify(session->nvme, nsid, ret, ret_why->text);
}

static int session_open(struct volume *volume, unsigned depth, struct why *ret_why)
{
    struct session *session = volume->session;
    struct weft_nvme_namespace ns;
    const struct weft_nvme_attr attr = {
        .address = &session->address, .depth = depth, .keep_alive_ms = KEEP_ALIVE_MS};
    int error = weft_nvme_connect(&attr, &session->nvme, ret_why->text);
    if (error != 0) {
        return error;
    }
    weft_nvme_info(session->nvme, &session->info);
    error = namespace_choose(session, &ns, ret_why);
    if (error == 0) {
        facts_fill(&session->address, &session->info, &ns, &volume->facts);
    }
    return error;
}

static int nvme_open(struct volume *volume, const char *uri, unsigned depth, struct why *ret_why)
{
    struct session *session = calloc(1, sizeof *session);
    volume->session = session;
    if (session == NULL) {
        why_say(ret_why, "no memory");
        return -ENOMEM;
    }
    int error = weft_nvme_address_parse(uri, &session->address, ret_why->text);
    return error == 0 ? session_open(volume, depth, ret_why) : error;
}

static void nvme_close(struct volume *volume)
{
    struct session *session = volume->session;
    if (session != NULL) {
        weft_nvme_disconnect(session->nvme);
        free(session);
    }
}

/* ---- I/O ------------------------------------------------------------------------------------- */

static void on_complete(struct weft_nvme_io *nvme)
{
    struct volume_io *io = nvme->context;
    struct command *command = (struct command *)io->own;
    char text[32];
    io->error = nvme->error;
    io->answer[0] = '\0';
    if (nvme->status != 0) {
        snprintf(io->answer, sizeof io->answer, "%s", weft_nvme_status_str(nvme->status, text));
    }
    list_push_tail(&command->volume->ended, &io->link);
}

static int nvme_submit(struct volume *volume, struct volume_io *io)
{
    static const enum weft_nvme_operation operations[VOLUME_OPERATION_COUNT] = {
        [VOLUME_READ] = WEFT_NVME_READ,
        [VOLUME_WRITE] = WEFT_NVME_WRITE,
        [VOLUME_FLUSH] = WEFT_NVME_FLUSH,
        [VOLUME_WRITE_ZEROES] = WEFT_NVME_WRITE_ZEROES,
    };
    bool has_data = io->operation == VOLUME_READ || io->operation == VOLUME_WRITE;
    struct command *command = (struct command *)io->own;
    command->volume = volume;
    command->memory = (struct iovec){io->data, io->len};
    command->io = (struct weft_nvme_io){.operation = operations[io->operation],
                                        .nsid = volume->facts.nsid,
                                        .offset = io->offset,
                                        .len = io->len,
                                        .memory = has_data ? &command->memory : NULL,
                                        .memory_count = has_data,
                                        .on_complete = on_complete,
                                        .context = io};
    return weft_nvme_submit(session_of(volume)->nvme, &command->io);
}

static int nvme_wait(struct volume *volume, int timeout_ms)
{
    int completed = weft_nvme_wait(session_of(volume)->nvme, timeout_ms);
    return completed < 0 ? completed : 0;
}

static const char *nvme_lost_why(const struct volume *volume)
{
    return weft_nvme_why(session_of(volume)->nvme);
}

static void nvme_lend(struct volume *volume, void *data, size_t len)
{
    weft_nvme_lend(session_of(volume)->nvme, data, len);
}

static void nvme_take_back(struct volume *volume, void *data)
{
    weft_nvme_take_back(session_of(volume)->nvme, data);
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void nvme_count(const struct volume *volume, struct json_object *to)
{
    struct weft_nvme_counters c;
    weft_nvme_counters(session_of(volume)->nvme, &c);
    const struct {
        const char *key;
        uint64_t value;
    } fields[] = {{"commands", c.commands},
                  {"octets_read", c.octets_read},
                  {"octets_written", c.octets_written},
                  {"oneshots", c.oneshots},
                  {"closes", c.closes},
                  {"revokes", c.revokes},
                  {"in_capsules", c.in_capsules},
                  {"lent", c.lent},
                  {"registrations", c.registrations},
                  {"copies", c.copies},
                  {"errors", c.errors},
                  {"strange", c.strange}};
    for (unsigned i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_object_object_add(to, fields[i].key, json_object_new_uint64(fields[i].value));
    }
}

static const char *access_of(const struct volume *volume)
{
    switch (weft_nvme_access(session_of(volume)->nvme, volume->facts.nsid)) {
    case WEFT_NVME_OPTIMIZED:
        return "optimized";
    case WEFT_NVME_NON_OPTIMIZED:
        return "non-optimized";
    case WEFT_NVME_INACCESSIBLE:
        return "inaccessible";
    case WEFT_NVME_UNREACHABLE:
        return "persistent loss";
    case WEFT_NVME_CHANGING:
        return "change";
    }
    return "";
}

static void nvme_describe(const struct volume *volume, struct json_object *to)
{
    const struct weft_nvme_info *info = &session_of(volume)->info;
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
    json_object_object_add(object, "access", json_object_new_string(access_of(volume)));
    json_object_object_add(object, "serial", json_object_new_string(info->serial));
    json_object_object_add(object, "firmware", json_object_new_string(info->firmware));
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        json_object_object_add(object, numbers[i].key, json_object_new_uint64(numbers[i].value));
    }
    for (unsigned i = 0; i < sizeof bits / sizeof bits[0]; i++) {
        json_object_object_add(object, bits[i].key, json_object_new_boolean(bits[i].value));
    }
    json_object_object_add(to, "controller", object);
}

static const char *way_of(const struct session *session)
{
    if (session->address.transport == WEFT_NVME_TCP) {
        return "TCP";
    }
    return session->info.is_oneshot ? "one-shot RDMA" : "keyed SGLs";
}

static void nvme_show(const struct volume *volume)
{
    const struct weft_nvme_info *info = &session_of(volume)->info;
    const struct volume_facts *facts = &volume->facts;
    char uuid[VOLUME_UUID_MAX], size[TEXT_SIZE_MAX], transfer[TEXT_SIZE_MAX];
    printf("namespace %u of %s\n", facts->nsid, info->nqn);
    printf("  size          %s, %" PRIu64 " octets in blocks of %u%s\n",
           text_size_format(facts->len, size), facts->len, facts->block_len,
           facts->is_read_only ? ", read-only" : "");
    printf("  uuid          %s\n", volume_uuid(facts, uuid));
    printf("  access        %s\n", access_of(volume));
    printf("controller %u\n", info->controller);
    printf("  model         %s, serial %s, firmware %s, NVMe %u.%u\n", info->model, info->serial,
           info->firmware, info->version >> 16, info->version >> 8 & 0xff);
    printf("  transfer      at most %s; data of up to %u octets in the capsule\n",
           text_size_format(info->transfer_max_len, transfer), info->in_capsule_len);
    printf("  can           flush%s%s\n", info->can_trim ? ", trim" : "",
           info->can_write_zeroes ? ", write zeroes" : "");
    printf("  data          %s\n", way_of(session_of(volume)));
}

/* ---- targets --------------------------------------------------------------------------------- */

int volume_nvme_discover(const struct weft_nvme_address *address, struct weft_nvme_entry **ret,
                         size_t *ret_count)
{
    struct why why;
    struct weft_nvme_address discovery = *address;
    const struct weft_nvme_attr attr = {.address = &discovery};
    struct weft_nvme *nvme = NULL;
    discovery.nqn[0] = '\0';
    discovery.nsid = 0;
    int error = weft_nvme_connect(&attr, &nvme, why.text);
    if (error == 0) {
        error = weft_nvme_discover(nvme, ret, ret_count, why.text);
    }
    weft_nvme_disconnect(nvme);
    return error != 0 ? say_failed("cannot discover", &discovery, error, why.text) : 0;
}

// Every namespace of one subsystem.
static int subsystem_list(const struct weft_nvme_address *address, volume_seen *seen, void *context)
{
    static uint32_t nsids[NAMESPACE_LIST_MAX];
    struct why why;
    struct weft_nvme *nvme = NULL;
    struct weft_nvme_info info;
    struct weft_nvme_namespace ns;
    struct volume_facts facts;
    const struct weft_nvme_attr attr = {.address = address, .depth = 1};
    int error = weft_nvme_connect(&attr, &nvme, why.text);
    int count =
        error == 0 ? weft_nvme_namespaces(nvme, nsids, NAMESPACE_LIST_MAX, why.text) : error;
    error = count < 0 ? count : 0;
    for (int i = 0; i < count && error == 0; i++) {
        error = weft_nvme_identify(nvme, nsids[i], &ns, why.text);
        if (error == 0) {
            weft_nvme_info(nvme, &info);
            facts_fill(address, &info, &ns, &facts);
            seen(context, &facts);
        }
    }
    weft_nvme_disconnect(nvme);
    return error != 0 ? say_failed("cannot list", address, error, why.text) : 0;
}

// Every subsystem that the discovery service has for this transport.
static int target_list(const struct weft_nvme_address *address, volume_seen *seen, void *context)
{
    static const char *const transports[] = {[WEFT_NVME_RDMA] = "rdma", [WEFT_NVME_TCP] = "tcp"};
    struct weft_nvme_entry *entries;
    size_t count;
    int result = volume_nvme_discover(address, &entries, &count);
    if (result != 0) {
        return result;
    }
    for (size_t i = 0; i < count; i++) {
        const struct weft_nvme_entry *e = &entries[i];
        struct weft_nvme_address subsystem = {.transport = address->transport};
        bool is_ours = strcmp(e->transport, transports[address->transport]) == 0 &&
                       strcmp(e->kind, "nvme") == 0;
        if (is_ours) {
            snprintf(subsystem.host, sizeof subsystem.host, "%s", e->host);
            snprintf(subsystem.port, sizeof subsystem.port, "%.*s", WEFT_NVME_PORT_MAX - 1,
                     e->port);
            snprintf(subsystem.nqn, sizeof subsystem.nqn, "%s", e->nqn);
            result |= subsystem_list(&subsystem, seen, context);
        }
    }
    free(entries);
    return result;
}

static int nvme_list(const char *uri, volume_seen *seen, void *context)
{
    struct weft_nvme_address address;
    struct why why;
    if (weft_nvme_address_parse(uri, &address, why.text) != 0) {
        return volume_say_failed("cannot list", uri, nvme_remedy(-EINVAL), why.text);
    }
    return address.nqn[0] != '\0' ? subsystem_list(&address, seen, context)
                                  : target_list(&address, seen, context);
}

const struct volume_protocol volume_nvme = {
    .schemes = schemes,
    .check = nvme_check,
    .open = nvme_open,
    .close = nvme_close,
    .submit = nvme_submit,
    .wait = nvme_wait,
    .lost_why = nvme_lost_why,
    .remedy = nvme_remedy,
    .lend = nvme_lend,
    .take_back = nvme_take_back,
    .count = nvme_count,
    .show = nvme_show,
    .describe = nvme_describe,
    .list = nvme_list,
};
