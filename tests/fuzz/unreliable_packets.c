// Anything sent to a queue pair of the unreliable services: octets as they are, from BTH on; a
// program that posts, polls and changes states beside it, a sink that has no room.
//
//     octet 0           UD or UC, an SRQ or none
//     three octets each  what happens | two of its own, of a packet: its length; then its octets.
//                        R_Keys 1, 2 … stand for those of the parts of memory
//
// After every step the invariants hold; each packet was taken or refused, once; a receive that
// completes says no more octets than it has; what may not be written is as it was, and what leaves
// is what was posted.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "roce/address.h"
#include "roce/uc.h"
#include "roce/ud.h"
#include "roce/unreliable.h"
#include "wq/filling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    PART_LEN = 1 << 12,
    RECEIVE_LEN = 600,
    STEP_LEN = 3,
    PMTU = 256,
    PSN = 0xfffff8,
    QKEY = 0x11111111,
    QP_NUM = 5,
    PLACE = 0x1000, // where each part begins, by the numbering of its region
    CLOSED = 0xcc,
    SOURCE = 0x33,
};

enum part { PART_CLOSED, PART_WRITABLE, PART_SOURCE, PART_SINK, PARTS };
enum what { PACKET, RECEIVE, SEND, ROOM, STATE, POLL, WHATS };

static _Alignas(4096) uint8_t memory[PARTS][PART_LEN];
static struct {
    struct mem_table *mem;
    uint32_t pd, keys[PARTS];
    struct cq *cq;
    struct srq *srq;
    struct transport *t;
    struct wq *wq;
    bool has_no_room;
    uint64_t packet_count;
} s;

static const struct in6_addr ours = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
static const struct in6_addr theirs = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 2}};

/* ---- oracles --------------------------------------------------------------------------------- */

static bool is_filled(const uint8_t *octets, size_t len, uint8_t with)
{
    for (size_t i = 0; i < len; i++) {
        if (octets[i] != with) {
            return false;
        }
    }
    return true;
}

static void check_all(void)
{
    const struct unreliable_counters *c = s.t->ops->counters(s.t);
    uint64_t sum = c->packets_in;
    for (unsigned i = 0; i < UNRELIABLE_REFUSAL_COUNT; i++) {
        sum += c->refusals[i];
    }
    CHECK(sum == s.packet_count);
    CHECK(s.t->ops->check(s.t));
    CHECK(is_filled(memory[PART_CLOSED], PART_LEN, CLOSED));
    CHECK(is_filled(memory[PART_SOURCE], PART_LEN, SOURCE));
    CHECK(s.t->ops->state(s.t) != QP_ERR || wq_send_count(s.wq) == 0);
}

static bool put(void *ctx, const struct datagram_tx *tx)
{
    (void)ctx;
    size_t len = 0;
    for (unsigned i = 0; i < tx->piece_count; i++) {
        CHECK(is_filled(tx->pieces[i].ptr, tx->pieces[i].len, SOURCE));
        len += tx->pieces[i].len;
    }
    CHECK(len <= PMTU && (len + tx->pad_len) % 4 == 0);
    CHECK(tx->head.len == roce_opcode_facts(tx->head.ptr[0])->header_len);
    return !s.has_no_room;
}

/* ---- steps ----------------------------------------------------------------------------------- */

static void translate_key(uint8_t *octets, size_t len)
{
    const struct roce_opcode_facts *facts = roce_opcode_facts(octets[0]);
    const size_t at = BTH_LEN + RETH_OFF_RKEY;
    if ((facts->headers & ROCE_HAS_RETH) != 0 && len >= BTH_LEN + RETH_LEN) {
        uint32_t part = get_be32(octets + at) - 1;
        put_be32(octets + at, part < PARTS ? s.keys[part] : part);
    }
}

// Each packet in memory of its own, which has no octet behind it.
static size_t take_packet(const uint8_t *own, const uint8_t *rest, size_t left)
{
    static uint8_t octets[DATAGRAM_LEN_MAX];
    size_t len = get_be16(own) % sizeof octets;
    len = len < left ? len : left;
    if (len < BTH_LEN) {
        return len;
    }
    memcpy(octets + sizeof octets - len, rest, len);
    translate_key(octets + sizeof octets - len, len);
    struct datagram_rx rx = {
        .local = ours,
        .remote = theirs,
        .hop_limit = 64,
        .octets = span_of(octets + sizeof octets - len, len),
    };
    s.packet_count++;
    transport_take_packet(s.t, &rx, 1);
    return len;
}

static void post_receive(const uint8_t *own)
{
    struct recv_wqe *wqe = s.srq != NULL ? srq_slot(s.srq, 0) : wq_receive_slot(s.wq, 0);
    if (wqe != NULL) {
        const uint32_t len = own[0] * 4U % RECEIVE_LEN;
        wqe->wr_id = len;
        wqe->sge_count = 2;
        wqe->sge[0] = (struct sge){PLACE, len / 2, s.keys[PART_SINK]};
        wqe->sge[1] = (struct sge){PLACE + len / 2, len - len / 2,
                                   s.keys[own[1] == 0xff ? PART_CLOSED : PART_SINK]};
        if (s.srq != NULL) {
            srq_commit(s.srq, 1);
        } else {
            wq_receive_commit(s.wq, 1);
        }
    }
    s.t->ops->on_receive_posted(s.t, 1);
}

static void post_send(const uint8_t *own)
{
    struct send_wqe *wqe = wq_send_slot(s.wq, 0);
    if (wqe == NULL) {
        return;
    }
    memset(wqe, 0, sizeof *wqe);
    wqe->opcode = own[0] % WQE_OPCODE_COUNT;
    wqe->flags = own[0] & 0x80 ? WQE_SIGNALED : 0;
    wqe->length = own[1] * 4U;
    wqe->sge_count = 1;
    wqe->sge[0] =
        (struct sge){PLACE, (uint32_t)wqe->length, own[0] & 0x40 ? 0 : s.keys[PART_SOURCE]};
    if (s.t->ops->address_len > 0) {
        *(struct roce_address *)wq_send_address(s.wq, wqe) =
            (struct roce_address){.path = {.local = ours, .remote = theirs}, .qpn = 9};
    }
    wq_send_commit(s.wq, 1);
    s.t->ops->on_send_posted(s.t, 1);
}

static void change_state(const uint8_t *own)
{
    struct qp_change change = {.mask = QP_CHANGE_STATE, .state = own[0] % QP_STATE_COUNT};
    if (change.state != QP_RESET) { // its attributes would be gone
        s.t->ops->modify(s.t, &change, 1);
    }
}

static void poll(void)
{
    struct cqe cqe;
    while (cq_poll(s.cq, &cqe, 1) == 1) {
        CHECK(cqe.opcode != WC_RECV || cqe.status != WC_SUCCESS || cqe.byte_len <= cqe.wr_id);
    }
}

// Returns the octets behind the step that belong to it.
static size_t step_on(const uint8_t *step, const uint8_t *rest, size_t left)
{
    struct datagram_sink sink = {put, NULL};
    size_t len = 0;
    switch (step[0] % WHATS) {
    case PACKET:
        len = take_packet(step + 1, rest, left);
        break;
    case RECEIVE:
        post_receive(step + 1);
        break;
    case SEND:
        post_send(step + 1);
        break;
    case ROOM:
        s.has_no_room = !s.has_no_room;
        break;
    case STATE:
        change_state(step + 1);
        break;
    case POLL:
        poll();
        break;
    }
    s.t->ops->output(s.t, &sink, 1);
    check_all();
    return len;
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void open_memory(void)
{
    static const struct {
        uint8_t fill;
        uint32_t access;
    } parts[PARTS] = {
        [PART_CLOSED] = {CLOSED, 0},
        [PART_WRITABLE] = {0, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE},
        [PART_SOURCE] = {SOURCE, 0},
        [PART_SINK] = {0, MEM_ACCESS_LOCAL_WRITE},
    };
    uint8_t key[STAG_KEY_LEN] = {1};
    s.mem = mem_table_create(key, 64, (struct mem_probe){0});
    CHECK(s.mem != NULL && mem_pd_alloc(s.mem, &s.pd) == 0);
    for (unsigned i = 0; i < PARTS; i++) {
        memset(memory[i], parts[i].fill, PART_LEN);
        CHECK(mem_region_register(s.mem, s.pd, memory[i], PART_LEN, PLACE, parts[i].access,
                                  &s.keys[i]) == 0);
    }
}

static void open_queue_pair(uint8_t octet)
{
    const struct wq_config wq = {
        .qp_num = QP_NUM,
        .pd = s.pd,
        .caps = {16, 16, 2, 2, 0},
        .send_cq = s.cq,
        .recv_cq = s.cq,
        .srq = s.srq,
        .mem = s.mem,
    };
    if (octet & 1) {
        struct uc *uc;
        CHECK(uc_create(&(struct uc_config){.wq = wq}, &uc) == 0);
        s.t = uc_transport(uc);
        s.wq = uc_wq(uc);
    } else {
        struct ud *ud;
        CHECK(ud_create(&(struct ud_config){.wq = wq, .port_mtu = PMTU}, &ud) == 0);
        s.t = ud_transport(ud);
        s.wq = ud_wq(ud);
    }
    struct qp_change change = {
        .mask = UINT32_MAX & ~(uint32_t)QP_CHANGE_CURRENT,
        .rights = MEM_ACCESS_REMOTE_WRITE,
        .qkey = QKEY,
        .path = {.local = ours, .remote = theirs},
        .path_mtu = PMTU,
        .dest_qp_num = 9,
        .rq_psn = PSN,
        .sq_psn = PSN,
    };
    for (change.state = QP_INIT; change.state <= QP_RTS; change.state++) {
        CHECK(s.t->ops->modify(s.t, &change, 1) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    memset(&s, 0, sizeof s);
    open_memory();
    s.cq = cq_create(64, (struct cq_port){0});
    if (data[0] & 2) {
        struct srq_config config = {.pd = s.pd, .max_wr = 16, .max_sge = 2};
        CHECK(srq_create(&config, &s.srq) == 0);
    }
    open_queue_pair(data[0]);
    for (size_t at = 1; at + STEP_LEN <= size;) {
        const uint8_t *step = data + at;
        at += STEP_LEN;
        at += step_on(step, data + at, size - at);
    }
    poll();
    s.t->ops->destroy(s.t);
    srq_destroy(s.srq);
    cq_destroy(s.cq);
    mem_table_destroy(s.mem);
    return 0;
}
