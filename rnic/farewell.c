#include "rnic/farewell.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "rnic/ep.h"
#include "rnic/internal.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

const char *address_format(const struct sockaddr_storage *addr, char *buf)
{
    char host[INET6_ADDRSTRLEN] = "";
    if (addr->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(buf, ADDRESS_TEXT_LEN, "%s:%u", host, ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(buf, ADDRESS_TEXT_LEN, "[%s]:%u", host, ntohs(in6->sin6_port));
    }
    return buf;
}

// The message that a Terminate quotes: its operation, and its MSN or STag.
static const char *offender_format(const struct terminate *t, char *buf, size_t len)
{
    struct ddp_header h;
    size_t header_len;
    buf[0] = '\0';
    if (t->has_ddp && ddp_header_parse(span_of(t->ddp_header, t->ddp_header_len), &h,
                                       &header_len) == DDP_PARSE_OK) {
        const char *name = rdmap_opcode_facts(rdmap_control_opcode(h.rsvdulp))->name;
        if (h.tagged) {
            snprintf(buf, len, "; message: %s to STag 0x%08x, offset 0x%llx", name, h.stag,
                     (unsigned long long)h.to);
        } else {
            snprintf(buf, len, "; message: %s, queue %u, MSN %u", name, h.qn, h.msn);
        }
    }
    return buf;
}

static void say_terminate(const struct rnic_ep *ep, const char *peer, const struct terminate *t,
                          const char *who)
{
    char cause[160], offender[96];
    TRACE(ep->rnic->trace, TRACE_ERROR, "QP %u, peer %s: %s ended the connection: %s%s",
          ep->qp->qp_num, peer, who, terminate_format(t, cause, sizeof cause),
          offender_format(t, offender, sizeof offender));
}

void farewell_say(const struct rnic_ep *ep, enum qp_close_reason reason)
{
    char peer[ADDRESS_TEXT_LEN];
    if (ep->qp == NULL || ep->peer_addr.ss_family == AF_UNSPEC) {
        return;
    }
    address_format(&ep->peer_addr, peer);
    if (qp_terminate_received(ep->qp->qp) != NULL) {
        say_terminate(ep, peer, qp_terminate_received(ep->qp->qp), "the peer's Terminate");
    } else if (qp_terminate_sent(ep->qp->qp) != NULL) {
        say_terminate(ep, peer, qp_terminate_sent(ep->qp->qp), "our Terminate");
    } else if (reason == QP_CLOSE_TIMEOUT) {
        TRACE(ep->rnic->trace, TRACE_ERROR, "QP %u, peer %s: the connection is lost: %s",
              ep->qp->qp_num, peer, qp_close_reason_name(reason));
    }
}
