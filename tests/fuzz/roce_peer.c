// A hostile peer of live queue pairs: a whole device, with a queue pair of each service that is
// ready to send, a listener, and a program; the peer knows numbers, keys and PSNs, and says what is
// right but for an octet. Checks of the ICRC are the link's (`roce_icrc`).
//
//     octets, seven of each step
//         0  an opcode, or what the program does, time, or a message of the connection manager
//         1  PSN from what is due
//         2  key and place
//         3  length
//         4  syndrome, immediate data, which message, AckReq, SE
//         5  where an octet is changed, from the BTH on
//         6  ... by these bits; 0: not
//
// After every step no octet is where it may not be, what leaves is what may be read or was posted
// and goes to the peer, an atomic that comes again is answered as before, and without a right of
// the queue pairs, which the program gives and takes, nothing is read, written or changed. At the
// end the peer falls silent: all that was posted is complete then, and until then who is ready is
// answered.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "link/datagram/sim.h"
#include "rnic/connect.h"
#include "rnic/create.h"
#include "rnic/internal.h"
#include "rnic/post.h"
#include "roce/rc_internal.h"
#include "wire/ibcm.h"
#include "wire/roce.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
    PART_LEN = 1 << 12,
    STEP_LEN = 7,
    STEPS_MAX = 120,
    PMTU = 256,
    PSN = 0xfffff8,
    PEER_NUM = 0x00abcd, // of its queue pair of each service
    PORT = 7471,
    QKEY = 0x11111111,
    CLOSED = 0xcc,
    WRITABLE = 0xee,
    READABLE = 0x77,
    SOURCE = 0x33,
    FRESH = 0x11,
    ATOMICS_MAX = 64,
    ROUNDS_MAX = 100000, // of one wait: more are a circle
};

enum part { PART_CLOSED, PART_WRITABLE, PART_READABLE, PART_SOURCE, PART_SINK, PART_ATOMIC, PARTS };
enum action { RECEIVE = 0xf0, SEND, TIME, POLL, MESSAGE, RIGHTS };
enum service { RC, UC, UD, SERVICES };

static _Alignas(4096) uint8_t memory[PARTS][PART_LEN];
static uint8_t before[PARTS][PART_LEN]; // ... as it was when it could still be changed

static const uint32_t all_rights =
    MEM_ACCESS_REMOTE_READ | MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_ATOMIC;

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

static const struct in6_addr ours = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
static const struct in6_addr theirs = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 2}};

struct atomic_answer {
    uint32_t psn;
    uint64_t original;
};

static struct {
    instant_ns now;
    struct datagram_net *net;
    struct datagram_link *peer;
    struct rnic *rnic;
    uint32_t pd, keys[PARTS];
    struct rnic_cq *cq;
    struct rnic_qp *qps[SERVICES];
    uint32_t rights; // that they give
    struct rnic_conn *listener, *asked;
    unsigned sends_posted, sends_done;
    struct atomic_answer atomics[ATOMICS_MAX];
    unsigned atomic_count;
    bool is_answered; // of queue pair RC, since this was set to false
} s;

/* ---- oracles --------------------------------------------------------------------------------- */

static bool is_filled(const uint8_t *octets, size_t len, uint8_t with)
{
    return len == 0 || (octets[0] == with && memcmp(octets, octets + 1, len - 1) == 0);
}

static void check_right(enum part part, uint32_t right)
{
    if ((s.rights & right) == 0) {
        CHECK(memcmp(memory[part], before[part], PART_LEN) == 0);
    }
    memcpy(before[part], memory[part], PART_LEN);
}

static void check_memory(void)
{
    check_right(PART_WRITABLE, MEM_ACCESS_REMOTE_WRITE);
    check_right(PART_ATOMIC, MEM_ACCESS_REMOTE_ATOMIC);
    CHECK(is_filled(memory[PART_CLOSED], PART_LEN, CLOSED));
    CHECK(is_filled(memory[PART_READABLE], PART_LEN, READABLE));
    CHECK(is_filled(memory[PART_SOURCE], PART_LEN, SOURCE));
}

// Who executes one again brings another value.
static void check_atomic(const struct roce_packet *p)
{
    for (unsigned i = 0; i < s.atomic_count; i++) {
        if (s.atomics[i].psn == p->bth.psn) {
            CHECK(s.atomics[i].original == p->atomicacketh.original);
            return;
        }
    }
    if (s.atomic_count < ATOMICS_MAX) {
        s.atomics[s.atomic_count++] = (struct atomic_answer){p->bth.psn, p->atomicacketh.original};
    }
}

static void hear(const struct datagram_rx *rx)
{
    struct roce_packet p;
    CHECK(memcmp(&rx->local, &theirs, sizeof theirs) == 0);
    CHECK(memcmp(&rx->remote, &ours, sizeof ours) == 0);
    CHECK(roce_packet_parse(rx->octets, &p) == ROCE_PARSE_OK);
    CHECK(p.bth.dest_qp == PEER_NUM || p.bth.dest_qp == 1);
    if (p.bth.dest_qp == 1) {
        CHECK(p.payload.len == MAD_LEN);
        return;
    }
    const bool is_answer = p.facts->is_response && p.bth.opcode < ROCE_UC;
    if (p.facts->kind == ROCE_KIND_ACK) {
        s.is_answered = true;
        return; // what weft ends tell each other beside may follow
    }
    s.is_answered |= is_answer;
    if (p.bth.opcode == (ROCE_RC | ROCE_ATOMIC_ACKNOWLEDGE)) {
        check_atomic(&p);
    }
    const bool is_read = is_answer && p.facts->kind == ROCE_KIND_READ && p.payload.len > 0;
    CHECK(!is_read || (s.rights & MEM_ACCESS_REMOTE_READ) != 0);
    const uint8_t fill = is_answer ? READABLE : SOURCE;
    CHECK(is_filled(p.payload.ptr, p.payload.len, fill));
}

/* ---- time ------------------------------------------------------------------------------------ */

static instant_ns clock_of(void *ctx)
{
    return s.now;
}

static void listen_to_device(void)
{
    struct datagram_rx rx[16];
    unsigned count;
    datagram_poll(s.peer, s.now);
    while ((count = datagram_receive(s.peer, rx, 16, s.now)) > 0) {
        for (unsigned i = 0; i < count; i++) {
            hear(&rx[i]);
        }
    }
}

static bool move(void)
{
    bool moved = datagram_net_advance(s.net);
    moved |= rnic_step(s.rnic);
    return moved;
}

static void settle(void)
{
    while (move()) {
        listen_to_device();
    }
    listen_to_device();
    check_memory();
}

static void poll(void)
{
    struct cqe cqes[16];
    unsigned count;
    while ((count = (unsigned)rnic_cq_poll(s.cq, cqes, 16)) > 0) {
        for (unsigned i = 0; i < count; i++) {
            s.sends_done += cqes[i].wr_id == SEND;
        }
    }
}

// Until nothing happens by itself any more, or then.
static void run_until(instant_ns until)
{
    for (unsigned rounds = 0;; rounds++) {
        CHECK(rounds < ROUNDS_MAX);
        settle();
        poll();
        instant_ns next = instant_min(datagram_net_next_event(s.net), rnic_next_deadline(s.rnic));
        if (next > until || next == INSTANT_NEVER) {
            break;
        }
        s.now = next > s.now ? next : s.now;
    }
}

/* ---- the peer -------------------------------------------------------------------------------- */

static uint16_t source_port(void)
{
    return 0xc123;
}

static void say(uint8_t *octets, size_t len, const uint8_t *step)
{
    const struct datagram_path path = {
        .local = theirs, .remote = ours, .source_port = source_port(), .hop_limit = 64};
    if (step != NULL && step[6] != 0) {
        octets[step[5] % len] ^= step[6];
    }
    const struct datagram_tx tx = {.path = &path, .head = span_of(octets, len)};
    datagram_put(s.peer, &tx);
    datagram_flush(s.peer);
}

static uint32_t length_of(uint8_t octet)
{
    static const uint32_t lengths[] = {
        0, 1, 4, 8, PMTU - 4, PMTU, PMTU + 4, 2 * PMTU, 3 * PMTU, PART_LEN, 1U << 31, UINT32_MAX};
    return octet < 24 ? lengths[octet / 2] : octet;
}

static uint64_t place_of(uint8_t octet)
{
    static const uint32_t offsets[] = {0, 8, 256, 1000, PART_LEN - 256, PART_LEN - 8, PART_LEN, 4};
    return (uintptr_t)memory[(octet >> 3) % PARTS] + offsets[octet & 7];
}

static enum service service_of(uint8_t opcode)
{
    const uint8_t transport = opcode & ROCE_TRANSPORT_MASK;
    return transport == ROCE_UC ? UC : transport == ROCE_UD ? UD : RC;
}

static uint32_t psn_due(enum service service, const struct roce_opcode_facts *facts)
{
    if (service != RC) {
        return PSN; // of UC each message begins anew, of UD none counts
    }
    const struct rc *rc = rc_of(s.qps[RC]->transport);
    return (uint32_t)(facts->is_response ? rc->req.acked_mark : rc->resp.expected_mark) & PSN_MASK;
}

static void say_packet(const uint8_t *step)
{
    static const uint8_t fresh[PMTU + 8] = {[0 ... PMTU + 7] = FRESH};
    const struct roce_opcode_facts *facts = roce_opcode_facts(step[0]);
    const enum service service = service_of(step[0]);
    uint8_t octets[ROCE_HEAD_MAX_LEN + sizeof fresh + 4] = {0};
    const uint32_t len = length_of(step[3]), mtu_len = len < sizeof fresh ? len : PMTU;
    const size_t payload_len = facts->payload == ROCE_PAYLOAD_NONE ? 0 : mtu_len;
    const uint32_t key = s.keys[(step[2] >> 3) % PARTS];
    const struct roce_packet p = {
        .bth = {.opcode = step[0],
                .solicited = (step[4] & 1) != 0,
                .pad_len = roce_pad_len(payload_len),
                .pkey = BTH_PKEY_DEFAULT,
                .dest_qp = s.qps[service]->qp_num,
                .ack_req = (step[4] & 2) != 0,
                .psn = (psn_due(service, facts) + (uint32_t)(int8_t)step[1]) & PSN_MASK},
        .deth = {.qkey = QKEY, .src_qp = PEER_NUM},
        .reth = {place_of(step[2]), key, step[4] < 128 ? len : 3 * PMTU},
        .atomiceth = {place_of(step[2]), key, step[4] | 1, step[3]},
        .aeth = {.syndrome = step[4]},
        .ieth = {key},
        .atomicacketh = {0x1111111111111111},
    };
    const size_t head_len = facts->is_known ? roce_head_emit(&p, octets) : bth_emit(&p.bth, octets);
    memcpy(octets + head_len, fresh, payload_len);
    say(octets, head_len + payload_len + p.bth.pad_len, step);
}

/* ---- the connection manager ------------------------------------------------------------------ */

static struct ibcm_message request(const uint8_t *step)
{
    static uint8_t header[IP_CM_HEADER_LEN];
    const struct ip_cm_header from_to = {
        .source_port = 4000, .source = theirs, .destination = ours};
    ip_cm_header_emit(&from_to, header);
    return (struct ibcm_message){
        .kind = IBCM_REQ,
        .transaction_id = 1,
        .req = {.local_id = step[1],
                .service_id = ip_cm_service_id(IP_CM_PS_TCP, PORT),
                .ca_guid = 9,
                .qp_num = PEER_NUM + step[2],
                .remote_timeout = 10,
                .local_timeout = 10,
                .pkey = 0xffff,
                .path_mtu = 1,
                .max_cm_retries = 2,
                .primary = {.local_gid = theirs, .remote_gid = ours, .hop_limit = 64},
                .private_data = span_of(header, sizeof header)},
    };
}

static void say_message(const uint8_t *step)
{
    uint8_t octets[BTH_LEN + DETH_LEN + MAD_LEN];
    struct ibcm_message m = request(step);
    const struct roce_packet p = {
        .bth = {.opcode = ROCE_UD | ROCE_SEND_ONLY, .pkey = BTH_PKEY_DEFAULT, .dest_qp = 1},
        .deth = {.qkey = MAD_QKEY, .src_qp = 1}};
    if (step[4] % 4 == 1) {
        m = (struct ibcm_message){.kind = IBCM_RTU, .ids = {.local_id = step[1]}};
    } else if (step[4] % 4 == 2) {
        m = (struct ibcm_message){.kind = IBCM_DREQ, .dreq = {.local_id = step[1]}};
    } else if (step[4] % 4 == 3) {
        m = (struct ibcm_message){.kind = IBCM_REJ,
                                  .rej = {.local_id = step[1], .reason = step[3]}};
    }
    const size_t head_len = roce_head_emit(&p, octets);
    ibcm_message_emit(&m, octets + head_len);
    const uint16_t attribute = step[3] % 16;
    if (attribute >= 12) { // unknown ones too
        octets[head_len + MAD_OFF_ATTRIBUTE + 1] = (uint8_t)(0x10 + attribute);
    }
    say(octets, head_len + MAD_LEN, step);
}

static void on_request(void *ctx, const struct rnic_conn_event *event)
{
    if (event->new_conn != NULL && s.asked == NULL) { // others are refused
        s.asked = event->new_conn;
        *event->new_conn_port = (struct rnic_conn_port){on_request, NULL};
    }
}

// Every other one is accepted, and let go of by the next step of this kind.
static void answer_request(const uint8_t *step)
{
    const struct ibcm_params params = {.qp_num = s.qps[RC]->qp_num, .responder_resources = 1};
    if (s.asked == NULL) {
        return;
    }
    if (step[4] & 8 && rnic_conn_accept(s.asked, NULL, &params) == 0) {
        return;
    }
    rnic_conn_destroy(s.asked);
    s.asked = NULL;
}

/* ---- the program ----------------------------------------------------------------------------- */

static struct sge piece(enum part part, uint32_t len)
{
    return (struct sge){(uintptr_t)memory[part], len, s.keys[part]};
}

static void post_receive(const uint8_t *step)
{
    struct rnic_rq_cursor cursor;
    rnic_rq_begin(&cursor, s.qps[step[4] % SERVICES]);
    struct recv_wqe *wqe = rnic_rq_slot(&cursor);
    if (wqe != NULL) {
        wqe->wr_id = RECEIVE;
        wqe->sge_count = 1;
        wqe->sge[0] = piece(PART_SINK, length_of(step[3]) % PART_LEN);
        rnic_rq_commit(&cursor);
    }
    rnic_rq_end(&cursor);
}

// On RC, which alone is answered.
static void post_send(const uint8_t *step)
{
    struct rnic_sq_cursor cursor;
    rnic_sq_begin(&cursor, s.qps[RC]);
    struct send_wqe *wqe = rnic_sq_slot(&cursor);
    if (wqe != NULL) {
        const enum wqe_opcode opcode = step[4] % (WQE_ATOMIC_FETCH_AND_ADD + 1);
        const bool brings = opcode >= WQE_RDMA_READ;
        const bool is_atomic = opcode > WQE_RDMA_READ;
        const uint32_t len = is_atomic ? 8 : length_of(step[3]) % PART_LEN;
        memset(wqe, 0, sizeof *wqe);
        wqe->wr_id = SEND;
        wqe->opcode = opcode;
        wqe->flags = (uint8_t)(WQE_SIGNALED | (step[1] & 2 ? WQE_FENCE : 0));
        wqe->length = len;
        wqe->sge_count = 1;
        wqe->sge[0] = piece(brings ? PART_SINK : PART_SOURCE, len);
        wqe->remote_addr = step[2] * 8U;
        rnic_sq_commit(&cursor);
        s.sends_posted++;
    }
    rnic_sq_end(&cursor);
}

static void change_rights(const uint8_t *step)
{
    const struct qp_change change = {.mask = QP_CHANGE_RIGHTS, .rights = step[3] & all_rights};
    for (unsigned i = RC; i <= UC; i++) {
        CHECK(rnic_qp_change(s.qps[i], &change) == 0);
    }
    s.rights = change.rights;
}

static void step_on(const uint8_t *step)
{
    switch (step[0]) {
    case RECEIVE:
        post_receive(step);
        break;
    case SEND:
        post_send(step);
        break;
    case TIME:
        run_until(s.now + step[3] * 100 * NS_PER_US);
        break;
    case POLL:
        poll();
        answer_request(step);
        break;
    case MESSAGE:
        say_message(step);
        break;
    case RIGHTS:
        change_rights(step);
        break;
    default:
        say_packet(step);
    }
    settle();
}

/* ---- begin and end --------------------------------------------------------------------------- */

static void open_device(void)
{
    struct rnic_parts device = {
        .config = {.rnr_store_len = 64 * 1024,
                   .read_contexts = 16,
                   .read_allotment_len = 64 * 1024,
                   .read_turn_len = 64 * 1024},
        .datagrams = datagram_net_attach(s.net, &ours, 1),
        .port = {.addrs = {{.addr = ours}}, .addr_count = 1, .path_mtu = PMTU},
        .clock = clock_of,
        .is_simulated = true,
    };
    CHECK(rnic_create(&device, &s.rnic) == 0);
    CHECK(rnic_pd_alloc(s.rnic, &s.pd) == 0);
    for (unsigned i = 0; i < PARTS; i++) {
        memset(memory[i], parts[i].fill, PART_LEN);
        memcpy(before[i], memory[i], PART_LEN);
        CHECK(rnic_region_register(s.rnic, s.pd, memory[i], PART_LEN, (uintptr_t)memory[i],
                                   parts[i].access, &s.keys[i]) == 0);
    }
    s.rights = all_rights;
    const struct cq_port quiet = {0};
    CHECK(rnic_cq_create(s.rnic, 256, &quiet, &s.cq) == 0);
}

static struct rnic_qp *open_queue_pair(enum rnic_qp_type type)
{
    const struct rnic_qp_init init = {.type = type,
                                      .pd = s.pd,
                                      .send_cq = s.cq,
                                      .recv_cq = s.cq,
                                      .max_send_wr = 16,
                                      .max_recv_wr = 16,
                                      .max_send_sge = 1,
                                      .max_recv_sge = 1};
    struct qp_change change = {
        .mask = UINT32_MAX & ~(uint32_t)(QP_CHANGE_CURRENT | QP_CHANGE_TELLS_DRAINED),
        .rights = all_rights,
        .qkey = QKEY,
        .path = {.local = ours, .remote = theirs, .hop_limit = 64},
        .path_mtu = PMTU,
        .dest_qp_num = PEER_NUM,
        .rq_psn = PSN,
        .sq_psn = PSN,
        .max_rd_atomic = 4,
        .max_dest_rd_atomic = 4,
        .timeout = 8,
        .retry_count = 2,
        .rnr_retry_count = 2,
        .min_rnr_timer = 1,
    };
    struct rnic_qp *qp;
    CHECK(rnic_qp_create(s.rnic, &init, &qp) == 0);
    for (change.state = QP_INIT; change.state <= QP_RTS; change.state++) {
        CHECK(rnic_qp_change(qp, &change) == 0);
    }
    return qp;
}

static void open_all(void)
{
    static const enum rnic_qp_type types[SERVICES] = {RNIC_QP_RC, RNIC_QP_UC, RNIC_QP_UD};
    const struct datagram_net_config config = {.clock = clock_of};
    const struct rnic_conn_port events = {.on_event = on_request};
    memset(&s, 0, sizeof s);
    s.now = NS_PER_S;
    s.net = datagram_net_create(&config);
    CHECK(s.net != NULL);
    open_device();
    s.peer = datagram_net_attach(s.net, &theirs, 1);
    CHECK(s.peer != NULL && datagram_open(s.peer, &theirs, 0) == 0);
    for (unsigned i = 0; i < SERVICES; i++) {
        s.qps[i] = open_queue_pair(types[i]);
    }
    CHECK(rnic_conn_listen(s.rnic, IP_CM_PS_TCP, PORT, &in6addr_any, 4, &events, &s.listener) == 0);
}

static void close_all(void)
{
    if (s.asked != NULL) {
        rnic_conn_destroy(s.asked);
    }
    rnic_conn_destroy(s.listener);
    for (unsigned i = 0; i < SERVICES; i++) {
        rnic_qp_destroy(s.qps[i]);
    }
    CHECK(rnic_cq_destroy(s.cq) == 0);
    for (unsigned i = 0; i < PARTS; i++) {
        CHECK(rnic_region_deregister(s.rnic, s.keys[i]) == 0);
    }
    CHECK(rnic_pd_dealloc(s.rnic, s.pd) == 0);
    rnic_destroy(s.rnic);
    datagram_destroy(s.peer);
    datagram_net_destroy(s.net);
}

// What is due is taken or refused, with a word in any case.
static void expect_an_answer(void)
{
    const uint8_t write[STEP_LEN] = {ROCE_RC | ROCE_WRITE_ONLY, 0, PART_WRITABLE << 3, 6, 2};
    if (rnic_qp_state(s.qps[RC]) != QP_RTS) {
        return;
    }
    s.is_answered = false;
    say_packet(write);
    run_until(s.now + NS_PER_S);
    CHECK(s.is_answered);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    open_all();
    for (size_t at = 0; at + STEP_LEN <= size && at < STEPS_MAX * STEP_LEN; at += STEP_LEN) {
        step_on(data + at);
    }
    expect_an_answer();
    run_until(s.now + 60 * NS_PER_S);
    CHECK(s.sends_done == s.sends_posted);
    close_all();
    return 0;
}
