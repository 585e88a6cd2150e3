#include "report/farewell.h"

#include <stdio.h>

#include "base/span.h"
#include "text/address.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

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

void farewell_say(const struct farewell *f, struct trace *trace)
{
    char peer[TEXT_ADDRESS_MAX], cause[160], offender[96];
    text_address_format((const struct sockaddr *)&f->peer, peer);
    if (f->kind == FAREWELL_LOST) {
        TRACE(trace, TRACE_ERROR, "QP %u, peer %s: the connection is lost: the peer is silent",
              f->qp_num, peer);
        return;
    }
    TRACE(trace, TRACE_ERROR, "QP %u, peer %s: %s ended the connection: %s%s", f->qp_num, peer,
          f->kind == FAREWELL_BY_PEER ? "the peer's Terminate" : "our Terminate",
          terminate_format(&f->terminate, cause, sizeof cause),
          offender_format(&f->terminate, offender, sizeof offender));
}
