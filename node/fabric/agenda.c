// What is to be done with a connection when the batch ends, and what the operator is told of it.

#include <stdio.h>

#include "base/list.h"
#include "base/why.h"
#include "listen/address.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/interface/uma_tts.h"
#include "text/address.h"

enum { LINE_MAX = 384 };

void fabric_touch(struct fabric_pair *p)
{
    if (list_is_empty(&p->dirty_link)) {
        list_push_tail(&p->fabric->dirty, &p->dirty_link);
    }
}

void fabric_say(const struct fabric *fabric, struct rdma_cm_id *id, const char *what,
                const char *why)
{
    char line[LINE_MAX], client[TEXT_ADDRESS_MAX], host[CLIENT_HOST_MAX];
    text_address_format(rdma_get_peer_addr(id), client);
    address_host(rdma_get_peer_addr(id), host, sizeof host);
    snprintf(line, sizeof line, "%s: %s: %s: %s", fabric->protocol->name, client, what, why);
    fabric->parts.say(fabric->parts.say_ctx, host, line);
}

void fabric_end(struct fabric_pair *p, const char *why)
{
    if (!why_is_said(&p->why)) {
        why_say(&p->why, "%s", why);
    }
    fabric_touch(p);
}

void fabric_fail(struct fabric_pair *p, const char *why)
{
    if (!why_is_said(&p->why)) {
        fabric_say(p->fabric, p->id, "the connection ends", why);
    }
    fabric_end(p, why);
}
