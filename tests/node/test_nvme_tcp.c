// NVMe/TCP by its PDUs (NVMe over Fabrics 1.1, section 7.4): what a host says, what it hears, and
// what the CTA is asked meanwhile.

#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"
#include "node/nvme/controller.h"
#include "node/tts/nvme_tcp.h"
#include "tests/node/octet_stage.h"
#include "wire/crc32c.h"

enum { PDU_MAX = 2 << 20, DEPTH = 32, BLOCK = 512, DATA_OFFSET_MAX = 128 };

// A PDU as it came.
struct pdu {
    uint8_t head[256]; // with its digest and padding
    uint8_t type, flags, head_len, data_offset;
    uint32_t len, data_len;
    uint8_t data[PDU_MAX];
};

static struct octet_stage *stage;
static struct nvme_target *target;
static struct nvme_tcp *tcp;
static struct loop_member member;
static unsigned digests; // of the connection that is spoken on
static bool is_open;     // ICReq is over
static uint16_t cid;
static struct pdu pdu; // the last that came

/* ---- the service ----------------------------------------------------------------------------- */

static void on_batch_end(void *ctx, instant_ns now)
{
    nvme_target_on_batch_end(target, now);
}

static bool may_sleep(void *ctx)
{
    return nvme_target_is_settled(target);
}

static int begin(void **state)
{
    stage = stage_create(false);
    target = nvme_target_create(&(struct nvme_target_parts){.uma = &stage_uma,
                                                            .uma_ctx = stage,
                                                            .cta = &stage_cta,
                                                            .cta_ctx = stage,
                                                            .say = stage_say});
    tcp = nvme_tcp_create(&(struct nvme_tcp_parts){.loop = stage->loop,
                                                   .listen = stage->listen,
                                                   .target = target,
                                                   .patience_ns = STAGE_PATIENCE_S * NS_PER_S,
                                                   .say = stage_say});
    member = (struct loop_member){.on_batch_end = on_batch_end, .may_sleep = may_sleep};
    loop_join(stage->loop, &member);
    digests = 0;
    is_open = false;
    cid = 0;
    stage_start(stage, &nvme_tcp_for_uma, tcp);
    return 0;
}

static int end(void **state)
{
    stage_end(stage);
    nvme_tcp_destroy(tcp);
    nvme_target_destroy(target);
    loop_leave(stage->loop, &member);
    stage_destroy(stage);
    return 0;
}

static struct nvme_tcp_counters counters(void)
{
    stage_settle(stage);
    return nvme_tcp_counters(tcp);
}

/* ---- PDUs ------------------------------------------------------------------------------------ */

enum spoilt { NOTHING_SPOILT, HEADER_SPOILT, DATA_SPOILT };

static void digest_put(uint8_t *at, const void *octets, uint32_t len, bool is_spoilt)
{
    crc32c_put(at, crc32c(octets, len) ^ (is_spoilt ? 1 : 0));
}

// A PDU whose header has `head_len` octets, the common one not filled in.
static void put(uint8_t type, uint8_t flags, uint8_t *head, uint8_t head_len, const void *data,
                uint32_t data_len, enum spoilt spoilt)
{
    static uint8_t octets[PDU_MAX];
    bool has_head = is_open && (digests & NVME_TCP_IC_HDGST) != 0;
    bool has_data = is_open && (digests & NVME_TCP_IC_DDGST) != 0 && data_len > 0;
    uint32_t offset = head_len + (has_head ? 4U : 0);
    uint32_t whole = offset + data_len + (has_data ? 4U : 0);
    head[NVME_TCP_OFF_TYPE] = type;
    head[NVME_TCP_OFF_FLAGS] =
        (uint8_t)(flags | (has_head ? NVME_TCP_HDGST : 0) | (has_data ? NVME_TCP_DDGST : 0));
    head[NVME_TCP_OFF_HLEN] = head_len;
    head[NVME_TCP_OFF_PDO] = data_len > 0 ? (uint8_t)offset : 0;
    put_le32(head + NVME_TCP_OFF_PLEN, whole);
    memcpy(octets, head, head_len);
    if (has_head) {
        digest_put(octets + head_len, head, head_len, spoilt == HEADER_SPOILT);
    }
    if (data_len > 0) {
        memcpy(octets + offset, data, data_len);
    }
    if (has_data) {
        digest_put(octets + offset + data_len, data, data_len, spoilt == DATA_SPOILT);
    }
    say_octets(stage, octets, whole);
}

// The next PDU that comes; its digests are checked.
static void take(uint8_t type)
{
    hear_octets(stage, pdu.head, NVME_TCP_COMMON_LEN);
    pdu.type = pdu.head[NVME_TCP_OFF_TYPE];
    pdu.flags = pdu.head[NVME_TCP_OFF_FLAGS];
    pdu.head_len = pdu.head[NVME_TCP_OFF_HLEN];
    pdu.data_offset = pdu.head[NVME_TCP_OFF_PDO];
    pdu.len = get_le32(pdu.head + NVME_TCP_OFF_PLEN);
    assert_int_equal(pdu.type, type);
    assert_in_range(pdu.head_len, NVME_TCP_COMMON_LEN, 128);
    bool has_head = (pdu.flags & NVME_TCP_HDGST) != 0, has_data = (pdu.flags & NVME_TCP_DDGST) != 0;
    uint32_t bare = pdu.head_len + (has_head ? 4U : 0);
    uint32_t offset = pdu.data_offset != 0 ? pdu.data_offset : bare;
    assert_in_range(offset, bare, sizeof pdu.head);
    hear_octets(stage, pdu.head + NVME_TCP_COMMON_LEN, offset - NVME_TCP_COMMON_LEN);
    pdu.data_len = pdu.len - offset - (has_data ? 4U : 0);
    if (pdu.data_len > 0) {
        hear_octets(stage, pdu.data, pdu.data_len);
    }
    if (has_head) {
        assert_int_equal(crc32c_get(pdu.head + pdu.head_len), crc32c(pdu.head, pdu.head_len));
    }
    if (has_data) {
        uint8_t digest[4];
        hear_octets(stage, digest, sizeof digest);
        assert_int_equal(crc32c_get(digest), crc32c(pdu.data, pdu.data_len));
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void ask_for(unsigned wished, uint8_t align)
{
    uint8_t head[NVME_TCP_IC_LEN] = {0};
    head[NVME_TCP_IC_OFF_PDA] = align;
    head[NVME_TCP_IC_OFF_DIGEST] = (uint8_t)wished;
    put(NVME_TCP_IC_REQ, 0, head, sizeof head, NULL, 0, NOTHING_SPOILT);
}

static void open_with(unsigned wished, uint8_t align)
{
    ask_for(wished, align);
    take(NVME_TCP_IC_RESP);
    digests = wished;
    is_open = true;
}

// The node's last word, the beginning of what it is about, and the end.
static void hear_term(enum nvme_tcp_fatal fes, uint32_t fei, uint32_t shown_len)
{
    uint8_t head[NVME_TCP_TERM_HLEN], shown[128];
    hear_octets(stage, head, sizeof head);
    assert_int_equal(head[NVME_TCP_OFF_TYPE], NVME_TCP_C2H_TERM);
    assert_int_equal(head[NVME_TCP_OFF_FLAGS], 0);
    assert_int_equal(head[NVME_TCP_OFF_HLEN], NVME_TCP_TERM_HLEN);
    assert_int_equal(head[NVME_TCP_OFF_PDO], 0);
    assert_int_equal(get_le32(head + NVME_TCP_OFF_PLEN), NVME_TCP_TERM_HLEN + shown_len);
    assert_int_equal(get_le16(head + NVME_TCP_TERM_OFF_FES), fes);
    assert_int_equal(get_le32(head + NVME_TCP_TERM_OFF_FEI), fei);
    hear_octets(stage, shown, shown_len);
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 1);
}

static void call_again(void)
{
    close(stage->client);
    stage->client = stage_call(stage);
    is_open = false;
}

static void each_digest_is_as_the_host_wishes(void **state)
{
    for (unsigned wished = 0; wished < 4; wished++) {
        ask_for(wished, 0);
        take(NVME_TCP_IC_RESP);
        assert_int_equal(pdu.len, 128);
        assert_int_equal(pdu.head_len, 128);
        assert_int_equal(pdu.data_offset, 0);
        assert_int_equal(pdu.flags, 0);
        assert_int_equal(get_le16(pdu.head + NVME_TCP_IC_OFF_PFV), 0);
        assert_int_equal(pdu.head[NVME_TCP_IC_OFF_PDA], 0);
        assert_int_equal(pdu.head[NVME_TCP_IC_OFF_DIGEST], wished);
        assert_int_equal(get_le32(pdu.head + NVME_TCP_IC_OFF_MAXDATA), 1 << 20);
        call_again();
    }
}

static void beginnings_that_are_wrong(void **state)
{
    static const struct {
        uint8_t at, octet;
        enum nvme_tcp_fatal fes;
        uint32_t fei;
    } table[] = {
        {NVME_TCP_OFF_TYPE, NVME_TCP_CAPSULE_CMD, NVME_TCP_SEQUENCE_ERROR, 0},
        {NVME_TCP_OFF_TYPE, 5, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_TYPE},
        {NVME_TCP_OFF_TYPE, 10, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_TYPE},
        {NVME_TCP_OFF_HLEN, 127, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_HLEN},
        {NVME_TCP_OFF_PLEN, 127, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_PLEN},
        {NVME_TCP_OFF_PLEN, 129, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_PLEN},
        {NVME_TCP_IC_OFF_PFV, 1, NVME_TCP_UNSUPPORTED, NVME_TCP_IC_OFF_PFV},
        {NVME_TCP_IC_OFF_PDA, 32, NVME_TCP_INVALID_FIELD, NVME_TCP_IC_OFF_PDA},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint8_t head[NVME_TCP_IC_LEN] = {[NVME_TCP_OFF_HLEN] = 128, [NVME_TCP_OFF_PLEN] = 128};
        head[table[i].at] = table[i].octet;
        say_octets(stage, head, sizeof head);
        stage_settle(stage);
        uint8_t term[NVME_TCP_TERM_HLEN], shown[128];
        hear_octets(stage, term, sizeof term);
        assert_int_equal(term[NVME_TCP_OFF_TYPE], NVME_TCP_C2H_TERM);
        assert_int_equal(get_le16(term + NVME_TCP_TERM_OFF_FES), table[i].fes);
        assert_int_equal(get_le32(term + NVME_TCP_TERM_OFF_FEI), table[i].fei);
        uint32_t shown_len = head[NVME_TCP_OFF_HLEN];
        assert_int_equal(get_le32(term + NVME_TCP_OFF_PLEN), NVME_TCP_TERM_HLEN + shown_len);
        hear_octets(stage, shown, shown_len);
        assert_memory_equal(shown, head, shown_len);
        assert_int_equal(counters().malformed, i + 1);
        call_again();
    }
    ask_for(0, 31);
    take(NVME_TCP_IC_RESP);
}

static void second_beginning_is_refused(void **state)
{
    open_with(0, 0);
    ask_for(0, 0);
    hear_term(NVME_TCP_SEQUENCE_ERROR, 0, 128);
}

/* ---- commands -------------------------------------------------------------------------------- */

static void sqe_fill(uint8_t head[NVME_TCP_CMD_HLEN], uint8_t opcode, uint8_t sgl, uint32_t offset,
                     uint32_t len)
{
    uint8_t *sqe = head + NVME_TCP_OFF_CAPSULE;
    memset(head, 0, NVME_TCP_CMD_HLEN);
    sqe[NVME_SQE_OFF_OPCODE] = opcode;
    sqe[NVME_SQE_OFF_FLAGS] = NVME_SQE_PSDT_SGL;
    put_le16(sqe + NVME_SQE_OFF_CID, ++cid);
    put_le32(sqe + NVME_SQE_OFF_NSID, 1);
    put_le64(sqe + NVME_SQE_OFF_SGL1, offset);
    put_le32(sqe + NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_LENGTH, len);
    sqe[NVME_SQE_OFF_SGL1 + NVME_SGL_OFF_ID] = sgl;
}

static void command(uint8_t *head, const void *data, uint32_t len)
{
    put(NVME_TCP_CAPSULE_CMD, 0, head, NVME_TCP_CMD_HLEN, data, len, NOTHING_SPOILT);
}

// The next response is of this command, with this status.
static void hear_status(uint16_t of, uint16_t status)
{
    take(NVME_TCP_CAPSULE_RESP);
    const uint8_t *cqe = pdu.head + NVME_TCP_OFF_CAPSULE;
    assert_int_equal(pdu.head_len, NVME_TCP_RESP_HLEN);
    assert_int_equal(pdu.data_len, 0);
    assert_int_equal(get_le16(cqe + NVME_CQE_OFF_CID), of);
    assert_int_equal(get_le16(cqe + NVME_CQE_OFF_STATUS) >> NVME_CQE_STATUS_SHIFT &
                         ~(NVME_STATUS_DNR | NVME_STATUS_MORE),
                     status);
}

static uint16_t connect_queue(uint16_t qid, uint16_t cntlid, uint16_t attributes)
{
    uint8_t head[NVME_TCP_CMD_HLEN], data[NVME_CONNECT_DATA_LEN] = {0};
    char nqn[NVME_NQN_MAX];
    uint8_t *sqe = head + NVME_TCP_OFF_CAPSULE;
    sqe_fill(head, NVME_FABRICS, NVME_SGL_IN_CAPSULE, 0, sizeof data);
    put_le32(sqe + NVME_SQE_OFF_NSID, 0);
    sqe[NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_CONNECT;
    put_le16(sqe + NVME_CONNECT_OFF_QID, qid);
    put_le16(sqe + NVME_CONNECT_OFF_SQSIZE, DEPTH - 1);
    put_le16(sqe + NVME_CONNECT_OFF_CATTR, attributes);
    put_le16(data + NVME_CONNECT_DATA_OFF_CNTLID, cntlid);
    nvme_subsystem_nqn(&stage->rows[0], nqn);
    memcpy(data + NVME_CONNECT_DATA_OFF_SUBNQN, nqn, strlen(nqn));
    memcpy(data + NVME_CONNECT_DATA_OFF_HOSTNQN, "nqn.test:host", 13);
    command(head, data, sizeof data);
    hear_status(cid, NVME_OK);
    return get_le16(pdu.head + NVME_TCP_OFF_CAPSULE + NVME_CQE_OFF_RESULT);
}

static void set_property(uint32_t property, uint64_t value)
{
    uint8_t head[NVME_TCP_CMD_HLEN];
    sqe_fill(head, NVME_FABRICS, NVME_SGL_IN_CAPSULE, 0, 0);
    put_le32(head + NVME_TCP_OFF_CAPSULE + NVME_SQE_OFF_NSID, 0);
    head[NVME_TCP_OFF_CAPSULE + NVME_SQE_OFF_FCTYPE] = NVME_FCTYPE_PROPERTY_SET;
    put_le32(head + NVME_TCP_OFF_CAPSULE + NVME_PROPERTY_OFF_OFFSET, property);
    put_le64(head + NVME_TCP_OFF_CAPSULE + NVME_PROPERTY_OFF_VALUE, value);
    command(head, NULL, 0);
    hear_status(cid, NVME_OK);
}

static int admin = -1; // the connection of the admin queue

// A session of an admin queue and an I/O queue, which is spoken on from then on.
static void open_session(unsigned wished, uint8_t align, uint16_t attributes)
{
    uint8_t head[NVME_TCP_CMD_HLEN];
    open_with(wished, align);
    uint16_t cntlid = connect_queue(0, NVME_CNTLID_DYNAMIC, 0);
    set_property(NVME_PROPERTY_CC, NVME_CC_EN | NVME_SQE_LEN_LOG2 << NVME_CC_IOSQES_SHIFT |
                                       NVME_CQE_LEN_LOG2 << NVME_CC_IOCQES_SHIFT);
    sqe_fill(head, NVME_ADMIN_SET_FEATURES, NVME_SGL_IN_CAPSULE, 0, 0);
    put_le32(head + NVME_TCP_OFF_CAPSULE + NVME_SQE_OFF_CDW10, NVME_FEATURE_NUMBER_OF_QUEUES);
    command(head, NULL, 0);
    hear_status(cid, NVME_OK);
    admin = stage->client;
    stage->client = stage_call(stage);
    is_open = false;
    open_with(wished, align);
    connect_queue(1, cntlid, attributes);
}

static int end_session(void **state)
{
    close(admin);
    admin = -1;
    return end(state);
}

// A Read or Write of so many blocks; `sgl` says how its data come.
static void io_fill(uint8_t *head, uint8_t opcode, uint64_t block, uint16_t count, uint8_t sgl,
                    uint32_t offset)
{
    sqe_fill(head, opcode, sgl, offset, (uint32_t)count * BLOCK);
    put_le64(head + NVME_TCP_OFF_CAPSULE + NVME_RW_OFF_SLBA, block);
    put_le16(head + NVME_TCP_OFF_CAPSULE + NVME_RW_OFF_NLB, (uint16_t)(count - 1));
}

static void fill(uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(i * 7 + i / 251 + 1);
    }
}

static void hear_data(uint16_t of, uint64_t block, uint32_t len, uint8_t flags, uint8_t offset)
{
    take(NVME_TCP_C2H_DATA);
    assert_int_equal(pdu.head_len, NVME_TCP_DATA_HLEN);
    assert_int_equal(pdu.flags, flags);
    assert_int_equal(pdu.data_offset, offset);
    assert_int_equal(get_le16(pdu.head + NVME_TCP_DATA_OFF_CCCID), of);
    assert_int_equal(get_le32(pdu.head + NVME_TCP_DATA_OFF_DATAO), 0);
    assert_int_equal(get_le32(pdu.head + NVME_TCP_DATA_OFF_DATAL), len);
    assert_int_equal(pdu.data_len, len);
    assert_memory_equal(pdu.data, stage->volume + block * BLOCK, len);
}

static void reads_have_digests_and_places_as_agreed(void **state)
{
    static const struct {
        unsigned digests;
        uint8_t align, flags, offset;
    } table[] = {
        {0, 0, 0x04, 24}, {1, 0, 0x05, 28}, {2, 0, 0x06, 24},   {3, 0, 0x07, 28},
        {0, 1, 0x04, 24}, {1, 1, 0x05, 32}, {3, 31, 0x07, 128}, {0, 6, 0x04, 28},
    };
    uint8_t head[NVME_TCP_CMD_HLEN];
    fill(stage->volume, 64 * BLOCK);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        open_session(table[i].digests, table[i].align, 0);
        io_fill(head, NVME_IO_READ, 3, 9, NVME_SGL_TRANSPORT, 0);
        command(head, NULL, 0);
        hear_data(cid, 3, 9 * BLOCK, table[i].flags, table[i].offset);
        hear_status(cid, NVME_OK);
        expect_asked(stage, "read 1536+4608\n");
        assert_int_equal(counters().octets_sent, (i + 1) * 9 * BLOCK);
        close(admin);
        call_again();
    }
}

static void data_say_that_all_is_well_without_flow_control(void **state)
{
    uint8_t head[NVME_TCP_CMD_HLEN];
    open_session(0, 0, NVME_CATTR_NO_SQ_FLOW_CONTROL);
    io_fill(head, NVME_IO_READ, 0, 1, NVME_SGL_TRANSPORT, 0);
    command(head, NULL, 0);
    hear_data(cid, 0, BLOCK, NVME_TCP_LAST_PDU | NVME_TCP_SUCCESS, 24);
    hear_nothing(stage);
    io_fill(head, NVME_IO_FLUSH, 0, 1, NVME_SGL_TRANSPORT, 0);
    command(head, NULL, 0);
    hear_status(cid, NVME_OK);
}

static void writes_take_their_data_out_of_the_capsule(void **state)
{
    uint8_t head[NVME_TCP_CMD_HLEN], data[NVME_TCP_IN_CAPSULE_MAX];
    uint32_t in_connects = 2 * NVME_CONNECT_DATA_LEN;
    fill(data, sizeof data);
    open_session(3, 0, 0);
    io_fill(head, NVME_IO_WRITE, 2, 16, NVME_SGL_IN_CAPSULE, 0);
    command(head, data, sizeof data);
    hear_status(cid, NVME_OK);
    assert_memory_equal(stage->volume + 2 * BLOCK, data, sizeof data);
    io_fill(head, NVME_IO_WRITE, 2, 1, NVME_SGL_IN_CAPSULE, 100); // from an octet on
    command(head, data, 700);
    hear_status(cid, NVME_OK);
    assert_memory_equal(stage->volume + 2 * BLOCK, data + 100, BLOCK);
    assert_memory_equal(stage->volume + 3 * BLOCK, data + BLOCK, BLOCK);
    expect_asked(stage, "write 1024+8192\nwrite 1024+512\n");
    assert_int_equal(counters().octets_in_capsules, in_connects + sizeof data + 700);
    stage->holds = true; // they wait in the capsule until there is a buffer
    io_fill(head, NVME_IO_WRITE, 40, 1, NVME_SGL_IN_CAPSULE, 88);
    command(head, data, 600);
    expect_asked(stage, "write 20480+512\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_status(cid, NVME_OK);
    assert_memory_equal(stage->volume + 40 * BLOCK, data + 88, BLOCK);
    assert_int_equal(counters().octets_asked, 0);
}

static void hear_r2t(uint16_t of, uint32_t len)
{
    take(NVME_TCP_R2T);
    assert_int_equal(pdu.head_len, NVME_TCP_DATA_HLEN);
    assert_int_equal(pdu.data_len, 0);
    assert_int_equal(get_le16(pdu.head + NVME_TCP_DATA_OFF_CCCID), of);
    assert_int_equal(get_le32(pdu.head + NVME_TCP_DATA_OFF_DATAO), 0);
    assert_int_equal(get_le32(pdu.head + NVME_TCP_DATA_OFF_DATAL), len);
}

static void give(uint16_t of, uint16_t tag, uint32_t offset, const uint8_t *data, uint32_t len,
                 uint8_t flags, enum spoilt spoilt)
{
    uint8_t head[NVME_TCP_DATA_HLEN] = {0};
    put_le16(head + NVME_TCP_DATA_OFF_CCCID, of);
    put_le16(head + NVME_TCP_DATA_OFF_TTAG, tag);
    put_le32(head + NVME_TCP_DATA_OFF_DATAO, offset);
    put_le32(head + NVME_TCP_DATA_OFF_DATAL, len);
    put(NVME_TCP_H2C_DATA, flags, head, sizeof head, data + offset, len, spoilt);
}

// A Write whose data are asked for; the tag.
static uint16_t ask_to_write(uint16_t count)
{
    uint8_t head[NVME_TCP_CMD_HLEN];
    io_fill(head, NVME_IO_WRITE, 8, count, NVME_SGL_TRANSPORT, 0);
    command(head, NULL, 0);
    hear_r2t(cid, (uint32_t)count * BLOCK);
    return get_le16(pdu.head + NVME_TCP_DATA_OFF_TTAG);
}

static void writes_ask_for_their_data(void **state)
{
    static uint8_t data[256 * BLOCK];
    fill(data, sizeof data);
    open_session(3, 0, 0);
    uint16_t tag = ask_to_write(256);
    give(cid, tag, 0, data, 5 * BLOCK, 0, NOTHING_SPOILT);
    hear_nothing(stage);
    give(cid, tag, 5 * BLOCK, data, 251 * BLOCK, NVME_TCP_LAST_PDU, NOTHING_SPOILT);
    hear_status(cid, NVME_OK);
    assert_memory_equal(stage->volume + 8 * BLOCK, data, sizeof data);
    assert_int_equal(counters().octets_asked, sizeof data);
    assert_int_equal(counters().digest_errors, 0);
}

static void data_whose_digest_is_wrong_are_not_written(void **state)
{
    uint8_t head[NVME_TCP_CMD_HLEN], data[4 * BLOCK];
    fill(data, sizeof data);
    open_session(2, 0, 0);
    uint16_t tag = ask_to_write(4);
    give(cid, tag, 0, data, BLOCK, 0, DATA_SPOILT); // the rest is taken all the same
    hear_nothing(stage);
    give(cid, tag, BLOCK, data, 3 * BLOCK, NVME_TCP_LAST_PDU, NOTHING_SPOILT);
    hear_status(cid, NVME_TRANSIENT_TRANSPORT_ERROR);
    io_fill(head, NVME_IO_WRITE, 8, 4, NVME_SGL_IN_CAPSULE, 0);
    put(NVME_TCP_CAPSULE_CMD, 0, head, sizeof head, data, sizeof data, DATA_SPOILT);
    hear_status(cid, NVME_TRANSIENT_TRANSPORT_ERROR);
    assert_int_equal(stage->volume[8 * BLOCK], 0);
    assert_int_equal(counters().digest_errors, 2);
    assert_int_equal(counters().malformed, 0);
    tag = ask_to_write(4); // what was wrong of one is not of the next
    give(cid, tag, 0, data, sizeof data, NVME_TCP_LAST_PDU, NOTHING_SPOILT);
    hear_status(cid, NVME_OK);
}

static void header_whose_digest_is_wrong_ends_the_connection(void **state)
{
    uint8_t head[NVME_TCP_CMD_HLEN];
    open_session(1, 0, 0);
    io_fill(head, NVME_IO_FLUSH, 0, 1, NVME_SGL_TRANSPORT, 0);
    put(NVME_TCP_CAPSULE_CMD, 0, head, sizeof head, NULL, 0, HEADER_SPOILT);
    hear_term(NVME_TCP_HEADER_DIGEST_ERROR, crc32c(head, sizeof head), sizeof head);
    assert_int_equal(counters().digest_errors, 1);
    assert_string_equal(stage->trace, "");
}

/* ---- what breaks the rules ------------------------------------------------------------------- */

// Data of a Write of 4 blocks that are not those asked for.
static void data_that_nobody_asked_for(void **state)
{
    static const struct {
        uint16_t of, tag; // more than what was asked for
        uint32_t offset, len;
        uint8_t flags;
        enum nvme_tcp_fatal fes;
        uint32_t fei;
    } table[] = {
        {1, 0, 0, 2048, 4, NVME_TCP_INVALID_FIELD, NVME_TCP_DATA_OFF_CCCID},
        {0, 1, 0, 2048, 4, NVME_TCP_INVALID_FIELD, NVME_TCP_DATA_OFF_TTAG},
        {0, 128, 0, 2048, 4, NVME_TCP_INVALID_FIELD, NVME_TCP_DATA_OFF_TTAG},
        {0, 0, 4, 2044, 4, NVME_TCP_OUT_OF_RANGE, 0},
        {0, 0, 0, 2052, 4, NVME_TCP_OUT_OF_RANGE, 0},
        {0, 0, 0, 2048, 0, NVME_TCP_OUT_OF_RANGE, 0}, // the last that does not say so
        {0, 0, 0, 1024, 4, NVME_TCP_OUT_OF_RANGE, 0}, // not the last, and says so
    };
    uint8_t data[4096], term[NVME_TCP_TERM_HLEN];
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        open_session(0, 0, 0);
        uint16_t tag = ask_to_write(4);
        give((uint16_t)(cid + table[i].of), (uint16_t)(tag + table[i].tag), table[i].offset, data,
             table[i].len, table[i].flags, NOTHING_SPOILT);
        hear_octets(stage, term, sizeof term);
        assert_int_equal(term[NVME_TCP_OFF_TYPE], NVME_TCP_C2H_TERM);
        assert_int_equal(get_le16(term + NVME_TCP_TERM_OFF_FES), table[i].fes);
        assert_int_equal(get_le32(term + NVME_TCP_TERM_OFF_FEI), table[i].fei);
        assert_int_equal(counters().malformed, i + 1);
        assert_int_equal(stage->outcome, NODE_TRANSFER); // the Write is over
        close(admin);
        call_again();
    }
}

// Lengths that say one thing here and another there, or more than a PDU may have.
static void data_of_a_length_that_cannot_be(void **state)
{
    static const struct {
        uint32_t said, data_len;
        enum nvme_tcp_fatal fes;
        uint32_t fei;
    } table[] = {
        {2049, 2048, NVME_TCP_INVALID_FIELD, NVME_TCP_DATA_OFF_DATAL},
        {0, 0, NVME_TCP_INVALID_FIELD, NVME_TCP_DATA_OFF_DATAL},
        {(1 << 20) + 4, (1 << 20) + 4, NVME_TCP_LIMIT_EXCEEDED, 0},
        {1 << 20, 1 << 20, NVME_TCP_OUT_OF_RANGE, 0},
    };
    uint8_t term[NVME_TCP_TERM_HLEN];
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        uint8_t head[NVME_TCP_DATA_HLEN] = {NVME_TCP_H2C_DATA, NVME_TCP_LAST_PDU, sizeof head};
        open_session(0, 0, 0);
        uint16_t tag = ask_to_write(4);
        head[NVME_TCP_OFF_PDO] = table[i].data_len > 0 ? sizeof head : 0;
        put_le32(head + NVME_TCP_OFF_PLEN, (uint32_t)sizeof head + table[i].data_len);
        put_le16(head + NVME_TCP_DATA_OFF_CCCID, cid);
        put_le16(head + NVME_TCP_DATA_OFF_TTAG, tag);
        put_le32(head + NVME_TCP_DATA_OFF_DATAL, table[i].said);
        say_octets(stage, head, sizeof head);
        hear_octets(stage, term, sizeof term);
        assert_int_equal(get_le16(term + NVME_TCP_TERM_OFF_FES), table[i].fes);
        assert_int_equal(get_le32(term + NVME_TCP_TERM_OFF_FEI), table[i].fei);
        close(admin);
        call_again();
    }
}

// Headers of a queue that is open, as they stand there, and which field is wrong.
static void headers_that_are_wrong(void **state)
{
    static const struct {
        uint8_t type, flags, head_len, offset;
        uint32_t len;
        enum nvme_tcp_fatal fes;
        uint32_t fei;
    } table[] = {
        {NVME_TCP_CAPSULE_CMD, 0, 71, 0, 72, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_HLEN},
        {NVME_TCP_CAPSULE_CMD, 0, 73, 0, 73, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_HLEN},
        {NVME_TCP_CAPSULE_CMD, 0, 72, 0, 71, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_PLEN},
        {NVME_TCP_CAPSULE_CMD, 0, 72, 71, 200, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_PDO},
        {NVME_TCP_CAPSULE_CMD, 0, 72, 74, 200, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_PDO},
        {NVME_TCP_CAPSULE_CMD, 0, 72, 76, 76, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_PLEN},
        {NVME_TCP_CAPSULE_CMD, 0, 72, 72, 72 + 8193, NVME_TCP_LIMIT_EXCEEDED, 0},
        {NVME_TCP_CAPSULE_CMD, NVME_TCP_HDGST, 72, 0, 72, NVME_TCP_INVALID_FIELD,
         NVME_TCP_OFF_FLAGS},
        {NVME_TCP_CAPSULE_CMD, NVME_TCP_DDGST, 72, 72, 80, NVME_TCP_INVALID_FIELD,
         NVME_TCP_OFF_FLAGS},
        {NVME_TCP_H2C_DATA, 0, 24, 24, 28, NVME_TCP_INVALID_FIELD, NVME_TCP_DATA_OFF_TTAG},
        {NVME_TCP_CAPSULE_RESP, 0, 24, 0, 24, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_TYPE},
        {NVME_TCP_C2H_TERM, 0, 24, 0, 24, NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_TYPE},
    };
    uint8_t head[128], term[NVME_TCP_TERM_HLEN];
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        open_with(0, 0);
        memset(head, 0, sizeof head);
        head[NVME_TCP_OFF_TYPE] = table[i].type;
        head[NVME_TCP_OFF_FLAGS] = table[i].flags;
        head[NVME_TCP_OFF_HLEN] = table[i].head_len;
        head[NVME_TCP_OFF_PDO] = table[i].offset;
        put_le32(head + NVME_TCP_OFF_PLEN, table[i].len);
        say_octets(stage, head, 80);
        hear_octets(stage, term, sizeof term);
        assert_int_equal(term[NVME_TCP_OFF_TYPE], NVME_TCP_C2H_TERM);
        assert_int_equal(get_le16(term + NVME_TCP_TERM_OFF_FES), table[i].fes);
        assert_int_equal(get_le32(term + NVME_TCP_TERM_OFF_FEI), table[i].fei);
        assert_int_equal(counters().malformed, i + 1);
        call_again();
    }
}

// More than the buffers between the two hold: it is taken, for a reset would hide the reason.
static void host_that_talks_on_hears_why(void **state)
{
    static uint8_t more[8 << 20];
    uint8_t head[NVME_TCP_CMD_HLEN] = {0};
    open_with(0, 0);
    put(NVME_TCP_R2T, 0, head, NVME_TCP_DATA_HLEN, NULL, 0, NOTHING_SPOILT);
    for (unsigned i = 0; i < 4; i++) {
        say_octets(stage, more, sizeof more);
    }
    hear_term(NVME_TCP_INVALID_FIELD, NVME_TCP_OFF_TYPE, NVME_TCP_DATA_HLEN);
}

// What the host itself ends is answered with the end.
static void host_that_complains_is_let_go(void **state)
{
    uint8_t head[NVME_TCP_TERM_HLEN] = {0}, shown[72] = {0};
    open_with(0, 0);
    put(NVME_TCP_H2C_TERM, 0, head, sizeof head, shown, sizeof shown, NOTHING_SPOILT);
    stage_settle(stage);
    assert_int_equal(counters().malformed, 1);
}

/* ---- order and ends -------------------------------------------------------------------------- */

static void commands_beyond_the_depth_wait(void **state)
{
    uint8_t head[NVME_TCP_CMD_HLEN];
    open_session(0, 0, 0);
    stage->holds = true;
    for (unsigned i = 0; i < DEPTH + 3; i++) {
        io_fill(head, NVME_IO_READ, i, 1, NVME_SGL_TRANSPORT, 0);
        command(head, NULL, 0);
    }
    stage_settle(stage);
    unsigned at_once = stage->held_count;
    for (unsigned i = 0; i < DEPTH + 3; i++) {
        stage_tell(stage, STAGE_RELEASE);
        hear_data((uint16_t)(cid - (DEPTH + 3) + 1 + i), i, BLOCK, NVME_TCP_LAST_PDU, 24);
        hear_status((uint16_t)(cid - (DEPTH + 3) + 1 + i), NVME_OK);
        stage_settle(stage);
    }
    assert_in_range(at_once, DEPTH, DEPTH + 3);
    assert_int_equal(stage->held_count, 0);
}

// A host that does not read for a while has all of it then, in order.
static void host_that_is_slow_to_read_has_all_octets(void **state)
{
    enum { COUNT = 24, BLOCKS = 2048 };
    uint8_t head[NVME_TCP_CMD_HLEN];
    fill(stage->volume, (COUNT + 1) * BLOCKS * BLOCK);
    open_session(3, 0, 0);
    for (unsigned i = 0; i < COUNT; i++) {
        io_fill(head, NVME_IO_READ, i * 8, BLOCKS, NVME_SGL_TRANSPORT, 0);
        command(head, NULL, 0);
    }
    stage_settle(stage);
    for (unsigned i = 0; i < COUNT; i++) {
        uint16_t of = (uint16_t)(cid - COUNT + 1 + i);
        hear_data(of, i * 8, BLOCKS * BLOCK, 0x07, 28);
        hear_status(of, NVME_OK);
    }
}

static void queue_knows_who_asks(void **state)
{
    struct sockaddr_in own;
    socklen_t len = sizeof own;
    char address[64];
    uint8_t head[NVME_TCP_CMD_HLEN];
    open_session(0, 0, 0);
    assert_int_equal(getsockname(stage->client, (struct sockaddr *)&own, &len), 0);
    io_fill(head, NVME_IO_FLUSH, 0, 1, NVME_SGL_TRANSPORT, 0);
    command(head, NULL, 0);
    hear_status(cid, NVME_OK);
    snprintf(address, sizeof address, "127.0.0.1:%u", ntohs(own.sin_port));
    assert_string_equal(stage->asker.address, address);
    assert_string_equal(stage->asker.host, "127.0.0.1");
    assert_string_equal(stage->asker.identity, "nqn.test:host");
}

static void host_that_goes_is_let_go_when_its_commands_have_ended(void **state)
{
    uint8_t head[NVME_TCP_CMD_HLEN];
    open_session(0, 0, 0);
    stage->holds = true;
    io_fill(head, NVME_IO_READ, 0, 1, NVME_SGL_TRANSPORT, 0);
    command(head, NULL, 0);
    expect_asked(stage, "read 0+512\n");
    shutdown(stage->client, SHUT_RDWR);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 0);
    stage_tell(stage, STAGE_RELEASE);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 1);
    assert_int_equal(stage->outcome, NODE_TRANSFER);
}

static void data_of_a_host_that_goes_are_not_written(void **state)
{
    uint8_t data[4 * BLOCK];
    fill(data, sizeof data);
    open_session(0, 0, 0);
    uint16_t tag = ask_to_write(4);
    give(cid, tag, 0, data, 2 * BLOCK, 0, NOTHING_SPOILT);
    stage_settle(stage);
    shutdown(stage->client, SHUT_RDWR);
    stage_settle(stage);
    assert_int_equal(stage->outcome, NODE_TRANSFER);
    assert_int_equal(stage->volume[8 * BLOCK], 0);
    assert_int_equal(stage->disconnects, 1);
}

static void stopping_ends_every_connection(void **state)
{
    open_with(0, 0);
    stage_tell(stage, STAGE_STOP);
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 0);
}

static void volumes_have_uris(void **state)
{
    char uri[512], nqn[NVME_NQN_MAX], wanted[600];
    struct sockaddr_in peer;
    socklen_t len = sizeof peer;
    assert_int_equal(getpeername(stage->client, (struct sockaddr *)&peer, &len), 0);
    unsigned port = ntohs(peer.sin_port);
    nvme_subsystem_nqn(&stage->rows[0], nqn);
    assert_true(nvme_tcp_for_uma.uri(tcp, &stage->rows[0], 0, uri, sizeof uri));
    snprintf(wanted, sizeof wanted, "nvme+tcp://127.0.0.1:%u/%s", port, nqn);
    assert_string_equal(uri, wanted);
    assert_false(nvme_tcp_for_uma.uri(tcp, &stage->rows[0], 1, uri, sizeof uri));
    nvme_tcp_for_uma.hint(tcp, &stage->rows[0], uri, sizeof uri);
    snprintf(wanted, sizeof wanted, "nvme connect -t tcp -a 127.0.0.1 -s %u -n %s", port, nqn);
    assert_string_equal(uri, wanted);
    assert_int_equal(counters().accepted, 1);
    assert_int_equal(counters().refused, 0);
}

#define TEST(name)         cmocka_unit_test_setup_teardown(name, begin, end)
#define SESSION_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end_session)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_digest_is_as_the_host_wishes),
        TEST(beginnings_that_are_wrong),
        TEST(second_beginning_is_refused),
        TEST(reads_have_digests_and_places_as_agreed),
        SESSION_TEST(data_say_that_all_is_well_without_flow_control),
        SESSION_TEST(writes_take_their_data_out_of_the_capsule),
        SESSION_TEST(writes_ask_for_their_data),
        SESSION_TEST(data_whose_digest_is_wrong_are_not_written),
        SESSION_TEST(header_whose_digest_is_wrong_ends_the_connection),
        TEST(data_that_nobody_asked_for),
        TEST(data_of_a_length_that_cannot_be),
        TEST(headers_that_are_wrong),
        TEST(host_that_talks_on_hears_why),
        TEST(host_that_complains_is_let_go),
        SESSION_TEST(commands_beyond_the_depth_wait),
        SESSION_TEST(host_that_is_slow_to_read_has_all_octets),
        SESSION_TEST(queue_knows_who_asks),
        SESSION_TEST(host_that_goes_is_let_go_when_its_commands_have_ended),
        SESSION_TEST(data_of_a_host_that_goes_are_not_written),
        TEST(stopping_ends_every_connection),
        TEST(volumes_have_uris),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
