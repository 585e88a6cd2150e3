// All of the module weft-mdns.so.

#include "node/mdns/mdns.h"

#include <avahi-client/client.h>
#include <avahi-client/publish.h>
#include <avahi-common/alternative.h>
#include <avahi-common/error.h>
#include <avahi-common/malloc.h>
#include <avahi-common/simple-watch.h>
#include <stddef.h>

struct announcing {
    const struct mdns *mdns;
    AvahiSimplePoll *poll;
    AvahiEntryGroup *group;
    char *name; // of the library's memory
};

__attribute__((visibility("default"))) mdns_announce_fn mdns_announce;

static void failed(const struct announcing *a, int error)
{
    a->mdns->on_failed(a->mdns->ctx, avahi_strerror(error));
}

static void name_next(struct announcing *a)
{
    char *next = avahi_alternative_service_name(a->name);
    avahi_free(a->name);
    a->name = next;
}

static int service_put(const struct announcing *a)
{
    int error = avahi_entry_group_add_service(a->group, AVAHI_IF_UNSPEC, AVAHI_PROTO_UNSPEC,
                                              (AvahiPublishFlags)0, a->name, "_nvme-disc._tcp",
                                              NULL, NULL, a->mdns->port, "p=tcp",
                                              "nqn=nqn.2014-08.org.nvmexpress.discovery", NULL);
    return error == 0 ? avahi_entry_group_commit(a->group) : error;
}

// The name may be another one's: then the next is taken.
static void service_announce(struct announcing *a)
{
    int error;
    avahi_entry_group_reset(a->group);
    while ((error = service_put(a)) == AVAHI_ERR_COLLISION) {
        name_next(a);
        avahi_entry_group_reset(a->group);
    }
    if (error != 0) {
        failed(a, error);
    }
}

static void on_group(AvahiEntryGroup *group, AvahiEntryGroupState state, void *ctx)
{
    struct announcing *a = ctx;
    a->group = group;
    if (state == AVAHI_ENTRY_GROUP_ESTABLISHED) {
        a->mdns->on_announced(a->mdns->ctx, a->name);
    } else if (state == AVAHI_ENTRY_GROUP_COLLISION) {
        name_next(a);
        service_announce(a);
    } else if (state == AVAHI_ENTRY_GROUP_FAILURE) {
        failed(a, avahi_client_errno(avahi_entry_group_get_client(group)));
    }
}

// The daemon is there, takes another name for the host, is away or gone.
static void on_client(AvahiClient *client, AvahiClientState state, void *ctx)
{
    struct announcing *a = ctx;
    switch (state) {
    case AVAHI_CLIENT_S_RUNNING:
        a->group = a->group != NULL ? a->group : avahi_entry_group_new(client, on_group, a);
        if (a->group != NULL) {
            service_announce(a);
        } else {
            failed(a, avahi_client_errno(client));
        }
        break;
    case AVAHI_CLIENT_CONNECTING:
        failed(a, AVAHI_ERR_NO_DAEMON);
        break;
    case AVAHI_CLIENT_FAILURE:
        failed(a, avahi_client_errno(client));
        avahi_simple_poll_quit(a->poll);
        break;
    default:
        if (a->group != NULL) {
            avahi_entry_group_reset(a->group);
        }
    }
}

void mdns_announce(const struct mdns *mdns)
{
    struct announcing a = {
        .mdns = mdns, .poll = avahi_simple_poll_new(), .name = avahi_strdup(mdns->name)};
    int error = AVAHI_ERR_NO_MEMORY;
    AvahiClient *client = NULL;
    if (a.poll != NULL) {
        client = avahi_client_new(avahi_simple_poll_get(a.poll), AVAHI_CLIENT_NO_FAIL, on_client,
                                  &a, &error);
    }
    if (client == NULL) {
        failed(&a, error);
        return;
    }
    while (avahi_simple_poll_iterate(a.poll, -1) == 0) {
    }
    avahi_client_free(client);
}
