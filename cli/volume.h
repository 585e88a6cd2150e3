// Volumes that a target serves by NVMe over RDMA, for the commands that use them: addresses, the
// controller behind one, and what is said when it cannot be had.
#pragma once

#include <stdbool.h>

#include <weft/nvme.h>

struct json_object;

// "nvme+rdma://...": as opposed to a file's name.
bool volume_is_uri(const char *text);

// An address that `weft serve` prints for clients of other protocols, "nbd://...", is neither a
// file nor a volume here: EXIT_USAGE after saying which programs use it. 0: it is none.
int volume_refuse_other(const char *command, const char *text);

// 0, or EXIT_USAGE after saying what is wrong with the address.
int volume_address(const char *command, const char *text, struct weft_nvme_address *ret);

struct volume {
    struct weft_nvme_address address;
    struct weft_nvme *nvme;
    struct weft_nvme_info info;
    struct weft_nvme_namespace ns;
};

// Connects with one I/O queue, and looks at the namespace that the address names, or else at the
// first. `depth` 0: the default. 0, or EXIT_FAILED after saying why not.
int volume_open(const struct weft_nvme_address *address, unsigned depth, struct volume *ret);
void volume_close(struct volume *volume);

// Connects to the discovery service, gets its log. 0, and an array that the caller frees; or
// EXIT_FAILED after saying why not.
int volume_discover(const struct weft_nvme_address *address, struct weft_nvme_entry **ret,
                    size_t *ret_count);

// An error of the initiator's, with what to do about it. Gives EXIT_FAILED back.
int volume_say_failed(const char *what, const struct weft_nvme_address *address, int error,
                      const char *why);

// The namespace as JSON, with the address that names it.
struct json_object *volume_json(const struct weft_nvme_address *address,
                                const struct weft_nvme_namespace *ns);

enum { VOLUME_URI_MAX = 640, VOLUME_UUID_MAX = 37 };
// "-" if it has none.
const char *volume_uuid(const struct weft_nvme_namespace *ns, char ret[VOLUME_UUID_MAX]);
