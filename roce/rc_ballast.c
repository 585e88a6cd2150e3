// Ballast: between weft ends a packet of the path MTU is as long as the first of its message, whose
// headers are longer. A burst is of equal packets (UDP_SEGMENT), so a message is one burst, and
// several are. It stands behind the payload; InfiniBand knows no such thing, and would find the
// payload too long.
#include "base/span.h"
#include "roce/rc_internal.h"
#include "wire/aeth.h"
#include "wire/bth.h"
#include "wire/reth.h"

enum { BALLAST_MAX_LEN = RETH_LEN };

// By which a packet of this opcode is shorter than the first.
static size_t ballast_len(const struct roce_opcode_facts *facts)
{
    static const size_t first_len[] = {
        [ROCE_KIND_SEND] = 0,
        [ROCE_KIND_WRITE] = BTH_LEN + RETH_LEN,
        [ROCE_KIND_READ] = BTH_LEN + AETH_LEN,
        [ROCE_KIND_ATOMIC] = 0,
        [ROCE_KIND_ACK] = 0,
        [ROCE_KIND_CNP] = 0,
    };
    return first_len[facts->kind] > facts->header_len ? first_len[facts->kind] - facts->header_len
                                                      : 0;
}

struct span rc_ballast_of(const struct rc *rc, uint8_t opcode, size_t payload_len)
{
    static const uint8_t zeros[BALLAST_MAX_LEN];
    bool has_ballast = rc->greeting.is_known && payload_len == rc_pmtu(rc);
    return span_of(zeros, has_ballast ? ballast_len(roce_opcode_facts(opcode)) : 0);
}

void rc_ballast_drop(const struct rc *rc, struct roce_packet *p)
{
    if (p->payload.len > rc_pmtu(rc) && p->payload.len - rc_pmtu(rc) == ballast_len(p->facts) &&
        rc_greeting_is_right(rc, p)) {
        p->payload = span_first(p->payload, rc_pmtu(rc));
    }
}
