#include "cli/volume.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <uuid/uuid.h>

#include "base/check.h"
#include "base/why.h"
#include "cli/say.h"
#include "text/show.h"

// A copy polls between reads and writes of files, which may take their time.
enum { KEEP_ALIVE_MS = 60000 };

STATIC_CHECK((int)WEFT_NVME_WHY_MAX <= (int)WHY_MAX); // the initiator writes its reasons into ours

static const char scheme[] = "nvme+rdma://";

bool volume_is_uri(const char *text)
{
    return strncmp(text, scheme, sizeof scheme - 1) == 0;
}

int volume_refuse_other(const char *command, const char *text)
{
    static const struct {
        const char *scheme, *clients;
    } others[] = {{"nbd://", "nbdcopy, qemu-img or nbd-client"},
                  {"nbd+unix://", "nbdcopy or qemu-img"},
                  {"nvme+tcp://", "nvme connect -t tcp"}};
    for (unsigned i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strncmp(text, others[i].scheme, strlen(others[i].scheme)) == 0) {
            return say_usage(command,
                             "%s: weft's clients speak NVMe over RDMA, "
                             "nvme+rdma://HOST[:PORT]/NQN; for this one use %s",
                             text, others[i].clients);
        }
    }
    return 0;
}

int volume_address(const char *command, const char *text, struct weft_nvme_address *ret)
{
    struct why why;
    int result = volume_refuse_other(command, text);
    if (result != 0) {
        return result;
    }
    if (weft_nvme_address_parse(text, ret, why.text) != 0) {
        return say_usage(command, "%s: %s", text, why.text);
    }
    return 0;
}

/* ---- what is said ---------------------------------------------------------------------------- */

static const char *remedy_of(int error)
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

int volume_say_failed(const char *what, const struct weft_nvme_address *address, int error,
                      const char *why)
{
    char uri[VOLUME_URI_MAX];
    weft_nvme_address_format(address, uri, sizeof uri);
    say_error(what, uri, remedy_of(error), "%s", why);
    return EXIT_FAILED;
}

const char *volume_uuid(const struct weft_nvme_namespace *ns, char ret[VOLUME_UUID_MAX])
{
    snprintf(ret, VOLUME_UUID_MAX, "-");
    if (ns->has_uuid) {
        uuid_unparse_lower(ns->uuid, ret);
    }
    return ret;
}

static void hex_add(struct json_object *to, const char *key, const uint8_t octets[16])
{
    char text[33];
    json_object_object_add(to, key, json_object_new_string(text_hex(octets, 16, text)));
}

struct json_object *volume_json(const struct weft_nvme_address *address,
                                const struct weft_nvme_namespace *ns)
{
    struct json_object *object = json_object_new_object();
    struct weft_nvme_address full = *address;
    char uri[VOLUME_URI_MAX], uuid[VOLUME_UUID_MAX];
    full.nsid = ns->nsid;
    weft_nvme_address_format(&full, uri, sizeof uri);
    json_object_object_add(object, "uri", json_object_new_string(uri));
    json_object_object_add(object, "nqn", json_object_new_string(address->nqn));
    json_object_object_add(object, "nsid", json_object_new_int64(ns->nsid));
    json_object_object_add(object, "size", json_object_new_uint64(ns->len));
    json_object_object_add(object, "block_size", json_object_new_int64(ns->block_len));
    json_object_object_add(object, "read_only", json_object_new_boolean(ns->is_read_only));
    if (ns->has_uuid) {
        json_object_object_add(object, "uuid", json_object_new_string(volume_uuid(ns, uuid)));
    }
    if (ns->has_nguid) {
        hex_add(object, "nguid", ns->nguid);
    }
    return object;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static int namespace_choose(struct volume *volume, struct why *ret_why)
{
    uint32_t nsid = volume->address.nsid;
    if (nsid == 0) {
        uint32_t nsids[2];
        int count = weft_nvme_namespaces(volume->nvme, nsids, 2, ret_why->text);
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
    return weft_nvme_identify(volume->nvme, nsid, &volume->ns, ret_why->text);
}

int volume_open(const struct weft_nvme_address *address, unsigned depth, struct volume *ret)
{
    struct why why;
    const struct weft_nvme_attr attr = {
        .address = address, .depth = depth, .keep_alive_ms = KEEP_ALIVE_MS};
    *ret = (struct volume){.address = *address};
    int error = weft_nvme_connect(&attr, &ret->nvme, why.text);
    if (error == 0) {
        weft_nvme_info(ret->nvme, &ret->info);
        error = namespace_choose(ret, &why);
    }
    if (error != 0) {
        volume_close(ret);
        return volume_say_failed("cannot use the volume", address, error, why.text);
    }
    return 0;
}

void volume_close(struct volume *volume)
{
    weft_nvme_disconnect(volume->nvme);
    volume->nvme = NULL;
}

int volume_discover(const struct weft_nvme_address *address, struct weft_nvme_entry **ret,
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
    return error != 0 ? volume_say_failed("cannot discover", &discovery, error, why.text) : 0;
}
