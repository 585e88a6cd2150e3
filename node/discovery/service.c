// An NVMe discovery service that is asked, over TCP or RDMA: its log by a controller that is kept,
// so that it tells of changes; then each subsystem that is reached by the same transport, for its
// active namespaces.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/nvme.h>

#include "node/ddm/network.h"
#include "node/discovery/asker.h"
#include "node/discovery/asking.h"
#include "node/discovery/remote_uri.h"
#include "node/discovery/ways.h"
#include "node/interface/volume.h"
#include "text/endpoint.h"

enum {
    KEEP_ALIVE_MS = 120000, // a reading may last, and sends none
    TIMEOUT_MS = 7000,
    NAMESPACE_MAX = 1024, // of a subsystem
};

struct service {
    struct weft_nvme_address address;
    const char *transport;  // as entries of the log have it
    struct weft_nvme *nvme; // the controller that is kept; NULL: none
    struct ways ways;
    uint32_t nsids[NAMESPACE_MAX];
};

static void *service_create(const struct remote_uri *uri)
{
    struct service *service = calloc(1, sizeof *service);
    struct why why;
    char text[REMOTE_HOST_MAX + 32];
    snprintf(text, sizeof text, "%s://%s", uri->driver, uri->where);
    if (service != NULL && weft_nvme_address_parse(text, &service->address, why.text) != 0) {
        service->address = (struct weft_nvme_address){0}; // which cannot be connected to
    }
    if (service != NULL) {
        service->transport = service->address.transport == WEFT_NVME_TCP ? "tcp" : "rdma";
    }
    return service;
}

static void controller_end(struct service *service)
{
    weft_nvme_disconnect(service->nvme);
    service->nvme = NULL;
}

// The log. 0, and an array to be freed; or a negative errno with the reason.
static int log_read(struct service *service, struct weft_nvme_entry **ret, size_t *ret_count,
                    struct why *ret_why)
{
    const struct weft_nvme_attr attr = {.address = &service->address,
                                        .flags = WEFT_NVME_PERSISTENT,
                                        .keep_alive_ms = KEEP_ALIVE_MS,
                                        .timeout_ms = TIMEOUT_MS};
    if (service->nvme != NULL && weft_nvme_why(service->nvme) != NULL) {
        controller_end(service);
    }
    int error = service->nvme == NULL ? weft_nvme_connect(&attr, &service->nvme, ret_why->text) : 0;
    if (error == 0) {
        error = weft_nvme_discover(service->nvme, ret, ret_count, ret_why->text);
    }
    if (error != 0) {
        controller_end(service);
    }
    return error;
}

// Where the entry's subsystem is, and nothing else.
static void address_of(const struct service *service, const struct weft_nvme_entry *entry,
                       struct weft_nvme_address *ret)
{
    *ret = (struct weft_nvme_address){.transport = service->address.transport};
    snprintf(ret->host, sizeof ret->host, "%s", entry->host);
    snprintf(ret->port, sizeof ret->port, "%.*s", WEFT_NVME_PORT_MAX - 1, entry->port);
    snprintf(ret->nqn, sizeof ret->nqn, "%s", entry->nqn);
}

static void lineage_find(struct weft_nvme *nvme, const struct asking *asking, uint32_t nsid,
                         struct volume_lineage *ret)
{
    uint8_t said[VOLUME_LINEAGE_LEN] = {0};
    if (asking_has_time(asking)) {
        weft_nvme_vendor_data(nvme, nsid, said, sizeof said, NULL);
    }
    volume_lineage_parse(said, sizeof said, ret);
}

static void namespaces_tell(struct service *service, struct asking *asking, struct weft_nvme *nvme,
                            const struct weft_nvme_address *address, int count)
{
    struct volume_lineage lineage;
    char where[REMOTE_HOST_MAX];
    bool is_there = strcmp(address->host, service->address.host) == 0 &&
                    strcmp(address->port, service->address.port) == 0;
    text_endpoint_format(address->host, address->port, where, sizeof where);
    for (int i = 0; i < count && !asking_is_full(asking); i++) {
        lineage_find(nvme, asking, service->nsids[i], &lineage);
        asking_unit(asking, is_there ? "" : where, address->nqn, service->nsids[i], &lineage);
    }
}

// What the entry's subsystem has, at the entry's address. 0, or a negative errno with the reason.
static int way_read(struct service *service, struct asking *asking,
                    const struct weft_nvme_entry *entry, struct why *ret_why)
{
    struct weft_nvme_address address;
    struct weft_nvme *nvme = NULL;
    address_of(service, entry, &address);
    const struct weft_nvme_attr attr = {.address = &address, .depth = 1, .timeout_ms = TIMEOUT_MS};
    int result = weft_nvme_connect(&attr, &nvme, ret_why->text);
    int count = result == 0
                    ? weft_nvme_namespaces(nvme, service->nsids, NAMESPACE_MAX, ret_why->text)
                    : result;
    if (count >= 0) {
        ways_note(&service->ways, entry);
        namespaces_tell(service, asking, nvme, &address, count);
    }
    weft_nvme_disconnect(nvme);
    return count < 0 ? count : 0;
}

static bool is_way_to(const struct service *service, const struct weft_nvme_entry *entry,
                      const char *nqn)
{
    return strcmp(entry->kind, "nvme") == 0 && strcmp(entry->transport, service->transport) == 0 &&
           strcmp(entry->nqn, nqn) == 0;
}

// Another way to a subsystem that was asked before is none of another volume.
static bool is_first(const struct service *service, const struct weft_nvme_entry *entries,
                     size_t index)
{
    size_t first = 0;
    while (!is_way_to(service, &entries[first], entries[index].nqn)) {
        first++;
    }
    return first == index;
}

// By the way that it answered by last, else by the first that it does.
static void subsystem_read(struct service *service, struct asking *asking,
                           const struct weft_nvme_entry *entries, size_t count, const char *nqn)
{
    struct why why = {"it answers too slowly"};
    int error = -ETIMEDOUT;
    for (size_t i = 0; i < 2 * count && error != 0 && asking_has_time(asking); i++) {
        const struct weft_nvme_entry *e = &entries[i % count];
        bool is_its_turn = ways_is_last(&service->ways, e) == (i < count);
        if (is_way_to(service, e, nqn) && is_its_turn) {
            error = way_read(service, asking, e, &why);
        }
    }
    if (error != 0) {
        asking_keep(asking, nqn, why.text);
    }
}

static int service_read(void *self, struct asking *asking, struct why *ret_why)
{
    struct service *service = self;
    struct weft_nvme_entry *entries = NULL;
    size_t count = 0;
    int error = log_read(service, &entries, &count, ret_why);
    for (size_t i = 0; i < count && error == 0; i++) {
        const char *nqn = entries[i].nqn;
        if (!is_way_to(service, &entries[i], nqn) || !asking_wants(asking, nqn) ||
            !is_first(service, entries, i)) {
            continue;
        }
        if (asking_is_full(asking)) {
            asking->left_out++;
        } else {
            subsystem_read(service, asking, entries, count, nqn);
        }
    }
    free(entries);
    return error;
}

/* ---- news ------------------------------------------------------------------------------------ */

static int service_news_fd(void *self)
{
    const struct service *service = self;
    return service->nvme != NULL ? weft_nvme_fd(service->nvme) : -1;
}

// The end of the connection is news, too.
static bool service_has_news(void *self)
{
    struct service *service = self;
    return service->nvme != NULL &&
           (weft_nvme_poll(service->nvme) < 0 || weft_nvme_log_has_changed(service->nvme));
}

static const char *const *tcp_calls(void)
{
    return network_calls;
}

static const char *const *rdma_calls(void)
{
    return network_rnic_is_known() ? rnic_calls : NULL;
}

const struct asker asker_service_tcp = {
    .driver = "nvme+tcp",
    .calls = tcp_calls,
    .create = service_create,
    .read = service_read,
    .news_fd = service_news_fd,
    .has_news = service_has_news,
};

const struct asker asker_service_rdma = {
    .driver = "nvme+rdma",
    .calls = rdma_calls,
    .create = service_create,
    .read = service_read,
    .news_fd = service_news_fd,
    .has_news = service_has_news,
};
