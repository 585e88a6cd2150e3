// A peer of a reliable connection that sends anything: packets of all opcodes, with PSNs near what
// is due, right and wrong keys, places and lengths; a program that posts beside it, time that
// passes, a sink that has no room.
//
//     octet 0            the state that it begins in, and whether the peer is a weft end
//     five octets each   an opcode, or an action of the program | PSN from what is due | key and
//                        place | length | syndrome, immediate, which message
//
// After every step the invariants hold, and no octet is where it may not be: what the peer may only
// read, or not even that, is as it was; what leaves as an answer is what may be read, what leaves
// as a message is what was posted.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "roce/rc_internal.h"
#include "roce/rc_store.h"
#include "wire/greeting.h"
#include "wire/sack.h"
#include "wq/filling.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    PART_LEN = 1 << 12,
    STEP_LEN = 5,
    PMTU = 256,
    PSN = 0xfffff8,
    QP_NUM = 5,
    PEER_NUM = 9,
    BLOCKS = 6, // for what comes beyond a hole: soon there are none
    // What the parts of memory are filled with, and what comes.
    CLOSED = 0xcc,
    WRITABLE = 0xee,
    READABLE = 0x77,
    SOURCE = 0x33,
    FRESH = 0x11,
};

enum part { PART_CLOSED, PART_WRITABLE, PART_READABLE, PART_SOURCE, PART_SINK, PART_ATOMIC, PARTS };

static _Alignas(4096) uint8_t memory[PARTS][PART_LEN];
static uint32_t keys[PARTS];
static struct mem_table *mem;
static uint32_t pd;
static struct cq *cq;
static struct rc *rc;
static struct rc_store *store;
static struct transport *transport;
static instant_ns now;
static bool has_no_room;

static const struct in6_addr ours = {.s6_addr = {[15] = 1}}, theirs = {.s6_addr = {[15] = 2}};

static const struct {
    uint8_t fill;
    uint32_t access;
} parts[PARTS] = {
    [PART_CLOSED] = {CLOSED, 0},
    [PART_WRITABLE] = {WRITABLE, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE},
    [PART_READABLE] = {READABLE, MEM_ACCESS_REMOTE_READ},
    [PART_SOURCE] = {SOURCE, 0},
    [PART_SINK] = {FRESH, MEM_ACCESS_LOCAL_WRITE},
    [PART_ATOMIC] = {0, MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_ATOMIC},
};

/* ---- oracles --------------------------------------------------------------------------------- */

static bool is_filled(const uint8_t *octets, size_t len, uint8_t with, uint8_t or_with)
{
    for (size_t i = 0; i < len; i++) {
        if (octets[i] != with && octets[i] != or_with) {
            return false;
        }
    }
    return true;
}

static void check_all(void)
{
    CHECK(transport->ops->check(transport));
    CHECK(is_filled(memory[PART_CLOSED], PART_LEN, CLOSED, CLOSED));
    CHECK(is_filled(memory[PART_READABLE], PART_LEN, READABLE, READABLE));
    CHECK(is_filled(memory[PART_SOURCE], PART_LEN, SOURCE, SOURCE));
    CHECK(is_filled(memory[PART_WRITABLE], PART_LEN, WRITABLE, FRESH));
    CHECK(transport->ops->state(transport) != QP_ERR || wq_send_count(rc_wq(rc)) == 0);
}

static bool put(void *ctx, const struct datagram_tx *tx)
{
    struct roce_packet p = {.payload = {.len = 0}};
    if (has_no_room) {
        return false;
    }
    p.facts = roce_opcode_facts(tx->head.ptr[0]);
    CHECK(p.facts->is_known && tx->head.len == p.facts->header_len);
    for (unsigned i = 0; i < tx->piece_count; i++) {
        uint8_t fill = p.facts->is_response ? READABLE : SOURCE;
        CHECK(p.facts->kind != ROCE_KIND_ACK || rc->greeting.is_known);
        CHECK(p.facts->kind == ROCE_KIND_ACK ||
              is_filled(tx->pieces[i].ptr, tx->pieces[i].len, fill, fill));
    }
    return true;
}

static void output(void)
{
    struct datagram_sink sink = {put, NULL};
    transport->ops->output(transport, &sink, now);
}

/* ---- the peer -------------------------------------------------------------------------------- */

// Right ones more often than not.
static uint32_t key_of(uint8_t octet)
{
    return keys[(octet >> 3) % PARTS] ^ (octet >= 0xf0 ? 0x100 : 0);
}

static uint64_t place_of(uint8_t octet, uint8_t place)
{
    static const uint32_t offsets[] = {0, 8, 256, 1000, PART_LEN - 256, PART_LEN - 8, PART_LEN, 4};
    return (uintptr_t)memory[(octet >> 3) % PARTS] + offsets[place & 7];
}

static uint32_t length_of(uint8_t octet)
{
    static const uint32_t lengths[] = {
        0, 1, 4, 8, PMTU - 4, PMTU, PMTU + 4, 2 * PMTU, 3 * PMTU, PART_LEN, 1U << 31, UINT32_MAX};
    return octet < 24 ? lengths[octet / 2] : octet;
}

// As a weft end has it: what an acknowledgement says beside, for all that the step is, and greeted.
static size_t add_sack(const uint8_t *step, uint8_t *octets)
{
    struct sack sack = {.bit_count = 0};
    for (unsigned i = 0; i < 16; i++) {
        if ((step[2] << 8 | step[3]) >> i & 1) {
            sack_set(&sack, i * (step[3] % 3 + 1));
        }
    }
    return sack.bit_count > 0 ? sack_emit(&sack, octets) : 0;
}

static void take_packet(const uint8_t *step)
{
    static const uint8_t fresh[PMTU + 8] = {[0 ... PMTU + 7] = FRESH};
    const struct roce_opcode_facts *facts = roce_opcode_facts(step[0]);
    uint8_t octets[ROCE_HEAD_MAX_LEN + sizeof fresh + 4] = {0};
    uint64_t due = facts->is_response ? rc->req.acked_mark : rc->resp.expected_mark;
    uint32_t len = length_of(step[3]), mtu_len = len < sizeof fresh ? len : PMTU;
    size_t payload_len = facts->payload == ROCE_PAYLOAD_NONE ? 0 : mtu_len;
    struct roce_packet p = {
        .bth = {.opcode = step[0],
                .solicited = (step[4] & 1) != 0,
                .pad_len = roce_pad_len(payload_len),
                .pkey = BTH_PKEY_DEFAULT,
                .dest_qp = QP_NUM,
                .ack_req = (step[4] & 2) != 0,
                .psn = (uint32_t)(due + (uint64_t)(int64_t)(int8_t)step[1]) & PSN_MASK},
        .reth = {place_of(step[2], step[2]), key_of(step[2]), step[4] < 128 ? len : 3 * PMTU},
        .atomiceth = {place_of(step[2], step[2]), key_of(step[2]), step[4], step[3]},
        .aeth = {.syndrome = step[4]},
        .ieth = {key_of(step[2])},
        .atomicacketh = {0x1111111111111111},
    };
    if (rc->greeting.is_known) {
        p.bth.greeting = greeting_of(&p.bth, PEER_NUM);
    }
    size_t head_len = facts->is_known ? roce_head_emit(&p, octets) : bth_emit(&p.bth, octets);
    memcpy(octets + head_len, fresh, payload_len);
    if (step[0] == (ROCE_RC | ROCE_ACKNOWLEDGE) && rc->greeting.is_known) {
        payload_len = add_sack(step, octets + head_len);
    }
    struct datagram_rx rx = {
        .local = ours,
        .remote = theirs,
        .octets = span_of(octets, head_len + payload_len + p.bth.pad_len),
    };
    transport_take_packet(transport, &rx, now);
}

/* ---- the program ----------------------------------------------------------------------------- */

static void post_receive(const uint8_t *step)
{
    struct recv_wqe *wqe = wq_receive_slot(rc_wq(rc), 0);
    if (wqe != NULL) {
        wqe->wr_id = step[1];
        wqe->sge_count = 1;
        wqe->sge[0] = (struct sge){(uintptr_t)memory[PART_SINK], length_of(step[3]) % PART_LEN,
                                   keys[step[4] < 250 ? PART_SINK : PART_CLOSED]};
        wq_receive_commit(rc_wq(rc), 1);
    }
    transport->ops->on_receive_posted(transport, now);
}

static void post_send(const uint8_t *step)
{
    struct send_wqe *wqe = wq_send_slot(rc_wq(rc), 0);
    if (wqe == NULL) {
        return;
    }
    memset(wqe, 0, sizeof *wqe);
    wqe->opcode = step[4] % (WQE_ATOMIC_FETCH_AND_ADD + 1);
    wqe->flags = (step[1] & 1 ? WQE_SIGNALED : 0) | (step[1] & 2 ? WQE_FENCE : 0);
    bool brings = wqe->opcode >= WQE_RDMA_READ;
    wqe->length = length_of(step[3]) % PART_LEN;
    wqe->sge_count = 1;
    wqe->sge[0] = (struct sge){(uintptr_t)memory[brings ? PART_SINK : PART_SOURCE],
                               (uint32_t)wqe->length, keys[brings ? PART_SINK : PART_SOURCE]};
    wqe->remote_addr = step[2];
    wq_send_commit(rc_wq(rc), 1);
    transport->ops->on_send_posted(transport, now);
}

static void pass_time(const uint8_t *step)
{
    now += step[3] * NS_PER_US;
    if (transport->ops->next_deadline(transport) <= now) {
        transport->ops->on_deadline(transport, now);
    }
}

static void change_state(const uint8_t *step)
{
    struct qp_change change = {.mask = QP_CHANGE_STATE, .state = step[4] % QP_STATE_COUNT};
    if (change.state != QP_RESET && change.state != QP_INIT) { // its attributes would be gone
        transport->ops->modify(transport, &change, now);
    }
}

static void poll(void)
{
    struct cqe cqe;
    while (cq_poll(cq, &cqe, 1) == 1) {
    }
}

static void step_on(const uint8_t *step)
{
    switch (step[0]) {
    case 0xf0:
        post_receive(step);
        break;
    case 0xf1:
        post_send(step);
        break;
    case 0xf2:
        pass_time(step);
        break;
    case 0xf3:
        has_no_room = !has_no_room;
        break;
    case 0xf4:
        change_state(step);
        break;
    case 0xf5:
        poll();
        break;
    default:
        take_packet(step);
    }
    output();
    check_all();
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void open_memory(void)
{
    uint8_t key[STAG_KEY_LEN] = {1};
    mem = mem_table_create(key, 64, (struct mem_probe){0});
    CHECK(mem != NULL && mem_pd_alloc(mem, &pd) == 0);
    for (unsigned i = 0; i < PARTS; i++) {
        memset(memory[i], parts[i].fill, PART_LEN);
        CHECK(mem_region_register(mem, pd, memory[i], PART_LEN, (uintptr_t)memory[i],
                                  parts[i].access, &keys[i]) == 0);
    }
}

static void open_queue_pair(void)
{
    struct rc_config config = {
        .wq = {.qp_num = QP_NUM,
               .pd = pd,
               .caps = {16, 16, 2, 2, 0},
               .send_cq = cq,
               .recv_cq = cq,
               .mem = mem,
               .ord_max = 4},
        .remembered_max = 4,
        .store = store,
    };
    CHECK(rc_create(&config, &rc) == 0);
    transport = rc_transport(rc);
}

static void come_to(uint8_t octet)
{
    struct qp_change change = {
        .mask = UINT32_MAX & ~(uint32_t)QP_CHANGE_CURRENT,
        .rights = MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC,
        .path = {.local = ours, .remote = theirs},
        .path_mtu = PMTU,
        .dest_qp_num = PEER_NUM,
        .rq_psn = PSN,
        .sq_psn = PSN,
        .max_rd_atomic = 4,
        .max_dest_rd_atomic = 1 + octet / 8 % 4,
        .timeout = 4,
        .retry_count = octet / 32 % 8,
        .rnr_retry_count = octet / 64,
        .min_rnr_timer = 1,
    };
    enum qp_state last = QP_INIT + octet % 4;
    for (change.state = QP_INIT; change.state <= last; change.state++) {
        CHECK(transport->ops->modify(transport, &change, now) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    now = 1000;
    has_no_room = false;
    open_memory();
    cq = cq_create(64, (struct cq_port){0});
    store = rc_store_create(BLOCKS);
    open_queue_pair();
    come_to(data[0]);
    rc->greeting.is_known = (data[0] & 4) != 0;
    for (size_t at = 1; at + STEP_LEN <= size && at < 400 * STEP_LEN; at += STEP_LEN) {
        step_on(data + at);
    }
    transport->ops->destroy(transport);
    rc_store_destroy(store);
    cq_destroy(cq);
    mem_table_destroy(mem);
    return 0;
}
