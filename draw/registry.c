#include "draw/registry.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/span.h"
#include "draw/registry_roce.h"
#include "draw/registry_table.h"
#include "mpa/fpdu.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/tcp.h"

const char *registry_wire_name(enum registry_wire wire)
{
    static const char *const names[REGISTRY_WIRE_COUNT] = {
        [REGISTRY_TCP] = "TCP",    [REGISTRY_IWARP] = "iWARP", [REGISTRY_RC] = "RoCE RC",
        [REGISTRY_UC] = "RoCE UC", [REGISTRY_UD] = "RoCE UD",
    };
    return names[wire];
}

/* ---- TCP ------------------------------------------------------------------------------------- */

static struct registry_key tcp_key(const struct frame_end *from, const struct frame_end *to)
{
    return (struct registry_key){.src = from->addr,
                                 .dst = to->addr,
                                 .kind = REGISTRY_KEY_TCP,
                                 .low = from->port,
                                 .high = to->port};
}

// A connection of the same ports as one before: both begin with a SYN, of other numbers.
static bool is_begun_anew(const struct registry_connection *c, const struct tcp_header *tcp)
{
    bool is_syn = (tcp->flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
    return is_syn && (c->has_data[0] || c->has_data[1] || c->has_syn) &&
           !(c->has_syn && c->syn_seq == tcp->seq);
}

static bool tcp_find(struct registry *r, const struct frame *f, struct registry_sighting *ret)
{
    struct registry_key key = tcp_key(&f->src, &f->dst);
    if (registry_table_find(r, &key, ret) && !is_begun_anew(&r->connection[ret->index], &f->tcp)) {
        return true;
    }
    struct registry_key back = tcp_key(&f->dst, &f->src);
    if (!registry_table_begin(r, f, ret)) {
        return false;
    }
    return registry_table_put(r, &back, ret->index, 1) &&
           registry_table_put(r, &key, ret->index, 0);
}

// Whether the octets begin with FPDUs without markers: one that is whole, with a CRC that is right
// and a header of DDP's version.
static bool is_fpdu(struct span octets)
{
    struct mpa_framing framing = {.crc = true};
    struct span ulpdu;
    struct ddp_header header;
    size_t header_len, len = mpa_fpdu_measure(framing, 0, octets);
    return len != 0 && len <= octets.len &&
           mpa_fpdu_unwrap(framing, 0, span_first(octets, len), NULL, &ulpdu) == MPA_FPDU_OK &&
           ddp_header_parse(ulpdu, &header, &header_len) == DDP_PARSE_OK;
}

static void tcp_recognise(struct registry *r, struct registry_connection *c, unsigned side,
                          struct span payload)
{
    static const char request[] = "MPA ID Req Frame", reply[] = "MPA ID Rep Frame";
    bool begins = payload.len >= MPA_KEY_LEN;
    if (begins && memcmp(payload.ptr, request, MPA_KEY_LEN) == 0) {
        c->initiator = side;
        c->has_start = true;
    } else if (begins && memcmp(payload.ptr, reply, MPA_KEY_LEN) == 0) {
        c->initiator = 1 - side;
    } else if (!is_fpdu(payload)) {
        return;
    }
    c->wire = REGISTRY_IWARP;
    c->number = ++r->number_count;
}

enum { TRIES = 8 }; // segments of a side that are looked at for an FPDU

static void tcp_note(struct registry *r, struct registry_connection *c, unsigned side,
                     const struct frame *f)
{
    if ((f->tcp.flags & (TCP_SYN | TCP_ACK)) == TCP_SYN) {
        c->has_syn = true;
        c->syn_seq = f->tcp.seq;
        c->initiator = side;
    }
    if (f->payload.len > 0) {
        if (c->number == 0 && (!c->has_data[side] || c->packet_count < TRIES)) {
            tcp_recognise(r, c, side, f->payload);
        }
        c->has_data[side] = true;
    }
}

/* ---- either ---------------------------------------------------------------------------------- */

bool registry_see(struct registry *r, const struct capture_packet *packet, const struct frame *f,
                  struct registry_sighting *ret)
{
    bool is_there = f->kind == FRAME_TCP ? tcp_find(r, f, ret) : registry_roce_find(r, f, ret);
    if (!is_there) {
        return false;
    }
    struct registry_connection *c = &r->connection[ret->index];
    if (c->packet_count++ == 0) {
        c->first_packet = packet->number;
        c->first = packet->at;
    }
    c->last = packet->at;
    c->payload_len += f->payload.len;
    if (f->kind == FRAME_TCP) {
        tcp_note(r, c, ret->side, f);
    }
    return true;
}

const struct registry_connection *registry_find(const struct registry *r, uint32_t number,
                                                uint32_t *ret_index)
{
    for (uint32_t i = 0; i < r->connection_count; i++) {
        if (r->connection[i].number == number && number != 0) {
            *ret_index = i;
            return &r->connection[i];
        }
    }
    return NULL;
}

uint32_t registry_choice(const struct registry *r)
{
    const struct registry_connection *best = NULL;
    for (uint32_t i = 0; i < r->connection_count; i++) {
        const struct registry_connection *c = &r->connection[i];
        if (c->number == 0 || (best != NULL && best->has_start && !c->has_start)) {
            continue;
        }
        if (best == NULL || (c->has_start && !best->has_start) ||
            c->payload_len > best->payload_len) {
            best = c;
        }
    }
    return best != NULL ? best->number : 0;
}
