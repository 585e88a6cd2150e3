// Full operation against a peer that breaks the rules: a Terminate with the right cause, or the
// end of the connection; the refusal is counted by its name, memory is untouched, nothing is left,
// and a bystander on the same device goes on.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "tests/iwarp/craft.h"
#include "tests/rnic/bystander.h"
#include "tests/rnic/device.h"
#include "tests/rnic/raw.h"
#include "wire/crc32c.h"

enum {
    RECV_OFFSET = BYSTANDER_LEN, // where the victim's receive lies
    RECV_LEN = 64,
    CANARY_OFFSET = 2 * BYSTANDER_LEN, // from here on nobody writes
    NO_STAG = 0x12345678,
};

static struct device device;
static struct bystander bystander;
static struct end listener;
static struct sockaddr_in addr;
static uint32_t read_only_stag, foreign_pd, foreign_stag;
static uint8_t canary[DEVICE_BUF_LEN - CANARY_OFFSET];

static uint64_t here(uint64_t offset)
{
    return (uintptr_t)device.buf + offset;
}

static int setup(void **state)
{
    struct rnic_config config = device_config();
    config.peer_to_peer = false; // raw peers do not say it either
    device_open(&device, &config, 0);
    memset(device.buf + CANARY_OFFSET, 0xa5, sizeof canary);
    memset(canary, 0xa5, sizeof canary);
    assert_int_equal(rnic_region_register(device.rnic, device.pd, device.buf, DEVICE_BUF_LEN,
                                          here(0), MEM_ACCESS_LOCAL_WRITE, &read_only_stag),
                     0);
    assert_int_equal(rnic_pd_alloc(device.rnic, &foreign_pd), 0);
    assert_int_equal(rnic_region_register(
                         device.rnic, foreign_pd, device.buf, DEVICE_BUF_LEN, here(0),
                         MEM_ACCESS_LOCAL_WRITE | MEM_ACCESS_REMOTE_WRITE | MEM_ACCESS_REMOTE_READ,
                         &foreign_stag),
                     0);
    bystander_start(&bystander, &device);
    end_listen(&listener, &device, &addr);
    return 0;
}

static int teardown(void **state)
{
    bystander_stop(&bystander);
    end_fini(&listener);
    assert_int_equal(rnic_region_deregister(device.rnic, read_only_stag), 0);
    assert_int_equal(rnic_region_deregister(device.rnic, foreign_stag), 0);
    assert_int_equal(rnic_pd_dealloc(device.rnic, foreign_pd), 0);
    device_close(&device);
    return 0;
}

/* ---- a victim and its raw peer --------------------------------------------------------------- */

struct attack {
    struct end victim;
    int fd;
};

// Established, with one receive posted. `flags`: more of them in the Request.
static void attack_begin_as(struct attack *a, uint16_t flags)
{
    uint8_t frame[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REQUEST, frame);
    put_be16(frame + MPA_OFF_FLAGS, get_be16(frame + MPA_OFF_FLAGS) | flags);
    end_init(&a->victim, &device);
    a->fd = raw_connect(&addr);
    raw_send(a->fd, frame, len);
    end_take_request(&a->victim, &listener);
    end_accept(&a->victim);
    end_post_recv(&a->victim, 1, RECV_OFFSET, RECV_LEN);
    assert_true(raw_receive_frame(a->fd));
    end_take(&a->victim, RNIC_EP_ESTABLISHED);
}

static void attack_begin(struct attack *a)
{
    attack_begin_as(a, 0);
}

// The connection has ended: the receive came back, the program was told, memory is untouched.
static void expect_ended(struct attack *a)
{
    end_take(&a->victim, RNIC_EP_DISCONNECTED);
    assert_int_equal(rnic_qp_state(a->victim.qp), QP_ERR);
    assert_int_equal(device_poll(&device).wr_id, 1);
    assert_memory_equal(device.buf + CANARY_OFFSET, canary, sizeof canary);
    assert_false(end_has_event(&a->victim));
    end_fini(&a->victim);
}

static void attack_end(struct attack *a)
{
    if (a->fd >= 0) {
        close(a->fd);
    }
    expect_ended(a);
}

static void expect_nothing_left(void)
{
    assert_true(device_waits_for_endpoints(&device, 3));
    assert_int_equal(rnic_live(device.rnic).qps, 1);
    bystander_expect_progress(&bystander);
}

// One ULPDU that must end the connection with this Terminate, counted by this name.
static void expect_refusal(const struct craft *c, const char *counter, enum terminate_cause cause)
{
    struct attack a;
    attack_begin(&a);
    uint64_t before = device_count(&device, counter);
    raw_send_fpdu(a.fd, c->octets, c->len);
    raw_finish(a.fd);
    enum terminate_cause got = raw_read_end(a.fd, NULL);
    if (got != cause || device_count(&device, counter) != before + 1) {
        fail_msg("%s: Terminate says \"%s\", counted %d times", counter,
                 terminate_cause_facts(got)->text, (int)(device_count(&device, counter) - before));
    }
    attack_end(&a);
}

/* ---- headers --------------------------------------------------------------------------------- */

static struct craft craft_any(uint8_t opcode)
{
    static const uint8_t zeros[64];
    const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcode);
    size_t len = facts->fixed_len;
    return facts->is_tagged
               ? craft_tagged((enum rdmap_opcode)opcode, device.stag, here(0), true, zeros, len)
               : craft_untagged((enum rdmap_opcode)opcode, 1, 0, true, zeros, len);
}

static void test_opcodes_without_a_meaning(void **state)
{
    for (uint8_t opcode = 0; opcode < RDMAP_OPCODE_COUNT; opcode++) {
        if (!rdmap_opcode_facts(opcode)->is_known) {
            struct craft c = craft_any(opcode);
            expect_refusal(&c, "refused.opcode", TERM_RDMAP_OPCODE);
        }
    }
    expect_nothing_left();
}

static void test_opcodes_in_the_other_layout(void **state)
{
    for (uint8_t opcode = 0; opcode < RDMAP_EXTENSION; opcode++) {
        if (rdmap_opcode_facts(opcode)->is_known) {
            bool is_tagged = rdmap_opcode_facts(opcode)->is_tagged;
            struct ddp_header h = {.tagged = !is_tagged,
                                   .last = true,
                                   .rsvdulp = rdmap_control_emit((enum rdmap_opcode)opcode),
                                   .stag = device.stag,
                                   .to = here(0),
                                   .msn = 1};
            struct craft c = craft_of(&h, NULL, 28);
            expect_refusal(&c, "refused.opcode_layout", TERM_RDMAP_OPCODE);
        }
    }
    expect_nothing_left();
}

static void test_opcodes_on_other_queues(void **state)
{
    for (uint8_t opcode = 0; opcode < RDMAP_EXTENSION; opcode++) {
        const struct rdmap_opcode_facts *facts = rdmap_opcode_facts(opcode);
        if (facts->is_known && !facts->is_tagged) {
            struct craft c = craft_any(opcode);
            put_be32(c.octets + DDP_UNTAGGED_OFF_QN, (facts->qn + 1) % DDP_QN_EXTENSION);
            expect_refusal(&c, "refused.opcode_queue", TERM_DDP_QN);
            put_be32(c.octets + DDP_UNTAGGED_OFF_QN, 0xffffffff);
            expect_refusal(&c, "refused.ddp_qn", TERM_DDP_QN);
        }
    }
    expect_nothing_left();
}

static void test_other_versions(void **state)
{
    struct craft c = craft_any(RDMAP_WRITE);
    c.octets[DDP_OFF_CONTROL] ^= 3; // version 2
    expect_refusal(&c, "refused.ddp_tagged_version", TERM_DDP_TAGGED_VERSION);
    c = craft_any(RDMAP_SEND);
    c.octets[DDP_OFF_CONTROL] &= (uint8_t)~DDP_VERSION_MASK;
    expect_refusal(&c, "refused.ddp_untagged_version", TERM_DDP_UNTAGGED_VERSION);
    c = craft_any(RDMAP_SEND);
    c.octets[DDP_OFF_RSVDULP] ^= 0xc0; // RDMAP version 2
    expect_refusal(&c, "refused.version", TERM_RDMAP_VERSION);
    expect_nothing_left();
}

static void test_segments_shorter_than_their_header(void **state)
{
    struct craft tagged = craft_any(RDMAP_WRITE), untagged = craft_any(RDMAP_SEND);
    for (tagged.len = 0; tagged.len < DDP_TAGGED_HEADER_LEN; tagged.len++) {
        expect_refusal(&tagged, "refused.ddp_too_short", TERM_RDMAP_OPERATION_UNSPECIFIED);
    }
    for (untagged.len = 2; untagged.len < DDP_UNTAGGED_HEADER_LEN; untagged.len++) {
        expect_refusal(&untagged, "refused.ddp_too_short", TERM_RDMAP_OPERATION_UNSPECIFIED);
    }
    expect_nothing_left();
}

static void test_messages_out_of_their_order(void **state)
{
    static const uint32_t wrong_msns[] = {0, 2, 0x80000000, 0xffffffff};
    struct craft c;
    for (unsigned i = 0; i < 4; i++) {
        c = craft_untagged(RDMAP_SEND, wrong_msns[i], 0, true, NULL, 8);
        expect_refusal(&c, "refused.ddp_msn_range", TERM_DDP_MSN_RANGE);
        c = craft_read_request(wrong_msns[i], device.stag, here(0), 8);
        expect_refusal(&c, "refused.ddp_msn_range", TERM_DDP_MSN_RANGE);
    }
    c = craft_untagged(RDMAP_SEND, 1, 1, true, NULL, 8);
    expect_refusal(&c, "refused.ddp_mo", TERM_DDP_MO);
    c = craft_untagged(RDMAP_SEND, 1, 0xffffffff, true, NULL, 8);
    expect_refusal(&c, "refused.ddp_mo", TERM_DDP_MO);
    expect_nothing_left();
}

static void test_messages_of_another_length(void **state)
{
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, RECV_LEN + 1);
    expect_refusal(&c, "refused.ddp_too_long", TERM_DDP_TOO_LONG);
    for (uint8_t opcode = 0; opcode < RDMAP_EXTENSION; opcode++) {
        size_t fixed_len = rdmap_opcode_facts(opcode)->fixed_len;
        if (fixed_len != 0) {
            c = craft_any(opcode);
            c.len--;
            expect_refusal(&c, "refused.truncated", TERM_RDMAP_OPERATION_UNSPECIFIED);
            c.len += 2;
            expect_refusal(&c, "refused.overlong", TERM_DDP_TOO_LONG);
        }
    }
    expect_nothing_left();
}

/* ---- memory ---------------------------------------------------------------------------------- */

// What both Writes and Read Requests may be refused for.
struct access_case {
    const uint32_t *stag;
    uint64_t to; // relative to the buffer, unless is_absolute
    bool is_absolute;
    const char *write_counter, *read_counter;
    enum terminate_cause write_cause, read_cause;
};

static const uint32_t no_stag = NO_STAG;

static void test_memory_that_the_peer_may_not_touch(void **state)
{
    static const struct access_case cases[] = {
        {&no_stag, 0, false, "refused.ddp_invalid_stag", "refused.remote_invalid_stag",
         TERM_DDP_INVALID_STAG, TERM_RDMAP_INVALID_STAG},
        {&foreign_stag, CANARY_OFFSET, false, "refused.ddp_stream", "refused.remote_stream",
         TERM_DDP_STREAM, TERM_RDMAP_STREAM},
        {&read_only_stag, CANARY_OFFSET, false, "refused.ddp_access", "refused.remote_access",
         TERM_DDP_INVALID_STAG, TERM_RDMAP_ACCESS},
        {&device.stag, DEVICE_BUF_LEN - 7, false, "refused.ddp_bounds", "refused.remote_bounds",
         TERM_DDP_BOUNDS, TERM_RDMAP_BOUNDS},
        {&device.stag, (uint64_t)-1, false, "refused.ddp_bounds", "refused.remote_bounds",
         TERM_DDP_BOUNDS, TERM_RDMAP_BOUNDS},
        {&device.stag, UINT64_MAX - 3, true, "refused.ddp_to_wrap", "refused.remote_to_wrap",
         TERM_DDP_TO_WRAP, TERM_RDMAP_TO_WRAP},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct access_case *t = &cases[i];
        uint64_t to = t->is_absolute ? t->to : here(t->to);
        struct craft c = craft_tagged(RDMAP_WRITE, *t->stag, to, true, NULL, 8);
        expect_refusal(&c, t->write_counter, t->write_cause);
        c = craft_read_request(1, *t->stag, to, 8);
        expect_refusal(&c, t->read_counter, t->read_cause);
    }
    expect_nothing_left();
}

static void test_invalidation_of_what_is_not_the_peers(void **state)
{
    struct craft c = craft_untagged(RDMAP_SEND_INV, 1, 0, true, NULL, 8);
    put_be32(c.octets + DDP_UNTAGGED_OFF_RSVDULP_STAG, NO_STAG);
    expect_refusal(&c, "refused.invalidate_invalid_stag", TERM_RDMAP_INVALID_STAG);
    put_be32(c.octets + DDP_UNTAGGED_OFF_RSVDULP_STAG, device.stag);
    expect_refusal(&c, "refused.invalidate", TERM_RDMAP_PROTECTION_INVALIDATE);
    expect_nothing_left();
}

static void test_atomics_that_cannot_be_done(void **state)
{
    struct craft c = craft_atomic_request(1, 1, device.stag, here(CANARY_OFFSET));
    expect_refusal(&c, "refused.atomic_opcode", TERM_RDMAP_OPCODE);
    c = craft_atomic_request(1, RDMAP_ATOMIC_FETCH_ADD, device.stag, here(CANARY_OFFSET + 1));
    expect_refusal(&c, "refused.atomic_alignment", TERM_RDMAP_CATASTROPHIC_STREAM);
    expect_nothing_left();
}

static void test_more_requests_than_ird(void **state)
{
    struct attack a;
    uint8_t *burst = malloc(16 * 128);
    size_t len = 0;
    attack_begin(&a);
    uint64_t before = device_count(&device, "refused.ird_exceeded");
    for (uint32_t msn = 1; msn <= 16; msn++) { // they come in one piece, before any answer
        struct craft c = craft_read_request(msn, device.stag, here(CANARY_OFFSET), 1024);
        len += raw_fpdu(burst + len, c.octets, c.len);
    }
    raw_send(a.fd, burst, len);
    free(burst);
    assert_int_equal(raw_read_end(a.fd, NULL), TERM_RDMAP_CATASTROPHIC_STREAM);
    assert_int_equal(device_count(&device, "refused.ird_exceeded"), before + 1);
    attack_end(&a);
    expect_nothing_left();
}

static void test_responses_that_nobody_asked_for(void **state)
{
    struct craft c =
        craft_tagged(RDMAP_READ_RESPONSE, device.stag, here(CANARY_OFFSET), true, NULL, 8);
    expect_refusal(&c, "refused.response_unasked", TERM_RDMAP_OPCODE);
    c = craft_any(RDMAP_ATOMIC_RESPONSE);
    expect_refusal(&c, "refused.response_unasked", TERM_RDMAP_OPCODE);
    expect_nothing_left();
}

/* ---- the stream ------------------------------------------------------------------------------ */

static void test_wrong_crc(void **state)
{
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 8);
    uint8_t fpdu[MPA_FPDU_MAX_LEN];
    size_t len = raw_fpdu(fpdu, c.octets, c.len);
    for (size_t i = MPA_LENGTH_LEN; i < len; i++) { // a changed length is another test
        struct attack a;
        attack_begin(&a);
        uint64_t before = device_count(&device, "crc_errors");
        fpdu[i] ^= 0x10;
        raw_send(a.fd, fpdu, len);
        fpdu[i] ^= 0x10;
        assert_int_equal(raw_read_end(a.fd, NULL), TERM_MPA_CRC);
        assert_int_equal(device_count(&device, "crc_errors"), before + 1);
        attack_end(&a);
    }
    expect_nothing_left();
}

static void test_end_or_reset_at_any_octet_of_an_fpdu(void **state)
{
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, false, NULL, 8); // more would follow
    uint8_t fpdu[MPA_FPDU_MAX_LEN];
    size_t len = raw_fpdu(fpdu, c.octets, c.len);
    for (size_t i = 0; i <= len; i++) {
        struct attack a;
        attack_begin(&a);
        bool is_whole = i == 0 || i == len;
        const char *counter = is_whole && i % 2 == 0 ? "by_peer" : "by_reset";
        uint64_t before = device_count(&device, counter);
        raw_send(a.fd, fpdu, i);
        if (i % 2 == 0) {
            raw_finish(a.fd);
            assert_int_equal(raw_read_end(a.fd, NULL), TERM_NONE);
        } else {
            raw_reset(a.fd);
            a.fd = -1;
        }
        assert_true(device_waits_for_count(&device, counter, before + 1));
        attack_end(&a);
    }
    expect_nothing_left();
}

// The peer is there and says no more. That is its right; the program may end it at any time.
static void test_half_an_fpdu_and_silence_until_the_program_ends_it(void **state)
{
    struct attack a;
    struct craft c = craft_untagged(RDMAP_SEND, 1, 0, true, NULL, 8);
    uint8_t fpdu[MPA_FPDU_MAX_LEN];
    attack_begin(&a);
    raw_send(a.fd, fpdu, raw_fpdu(fpdu, c.octets, c.len) / 2);
    bystander_expect_progress(&bystander);
    assert_int_equal(rnic_ep_disconnect(a.victim.ep), 0); // and no FIN comes in answer
    expect_ended(&a);
    close(a.fd);
    expect_nothing_left();
}

static void test_garbage_after_establishment(void **state)
{
    uint64_t x = 0x9e3779b97f4a7c15;
    uint8_t octets[4096];
    for (unsigned round = 0; round < 20; round++) {
        for (size_t i = 0; i < sizeof octets; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            octets[i] = (uint8_t)x;
        }
        octets[0] &= 0x0f; // an FPDU of at most 4095 octets is whole: wrong by its CRC
        struct attack a;
        attack_begin(&a);
        uint64_t before = device_count(&device, "crc_errors");
        raw_send(a.fd, octets, sizeof octets);
        raw_finish(a.fd);
        raw_read_end(a.fd, NULL);
        attack_end(&a);
        assert_true(device_count(&device, "crc_errors") + device_count(&device, "by_reset") >
                    before);
    }
    expect_nothing_left();
}

static void test_terminates_of_the_peer(void **state)
{
    static const uint8_t messages[][8] = {{0x12, 0x02, 0, 0}, {0xff, 0xff, 0xff, 0xff}, {0}};
    static const uint8_t lens[] = {4, 8, 3, 0};
    for (unsigned i = 0; i < 3; i++) {
        for (unsigned k = 0; k < sizeof lens; k++) {
            struct attack a;
            struct craft c = craft_untagged(RDMAP_TERMINATE, 1, 0, true, messages[i], lens[k]);
            attack_begin(&a);
            raw_send_fpdu(a.fd, c.octets, c.len);
            raw_finish(a.fd);
            raw_read_end(a.fd, NULL);
            attack_end(&a);
        }
    }
    expect_nothing_left();
}

/* ---- a hostile responder --------------------------------------------------------------------- */

struct response_case {
    const char *counter;
    bool is_other_stag;
    uint32_t to_skip, len;
    bool is_last;
};

// The victim reads 64 octets; what answers is never right.
static void test_responses_that_are_not_what_was_asked_for(void **state)
{
    static const struct response_case cases[] = {
        {"refused.response_stag", true, 0, 64, true},
        {"refused.response_to", false, 1, 63, true},
        {"refused.response_length", false, 0, 65, true},
        {"refused.response_last", false, 0, 63, true},
    };
    struct sockaddr_in server;
    int listen_fd = raw_listen(&server);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct response_case *t = &cases[i];
        uint8_t reply[MPA_STARTUP_MAX_LEN], request[128];
        struct attack a;
        end_init(&a.victim, &device);
        end_connect(&a.victim, &server);
        a.fd = raw_accept(listen_fd);
        assert_true(raw_receive_frame(a.fd));
        raw_send(a.fd, reply, raw_frame(MPA_REPLY, reply));
        end_take(&a.victim, RNIC_EP_ESTABLISHED);
        end_post_send(&a.victim, WQE_RDMA_READ, RECV_OFFSET, 64, &device, 0);
        size_t fpdu_len = mpa_fpdu_len(DDP_UNTAGGED_HEADER_LEN + RDMAP_READ_REQUEST_LEN);
        assert_true(raw_receive(a.fd, request, fpdu_len));
        const uint8_t *asked = request + MPA_LENGTH_LEN + DDP_UNTAGGED_HEADER_LEN;
        uint32_t stag = get_be32(asked) ^ (t->is_other_stag ? 0x100 : 0);
        struct craft c = craft_tagged(RDMAP_READ_RESPONSE, stag, get_be64(asked + 4) + t->to_skip,
                                      t->is_last, NULL, t->len);
        uint64_t before = device_count(&device, t->counter);
        raw_send_fpdu(a.fd, c.octets, c.len);
        raw_finish(a.fd);
        assert_int_not_equal(raw_read_end(a.fd, NULL), TERM_NONE);
        assert_int_equal(device_count(&device, t->counter), before + 1);
        end_take(&a.victim, RNIC_EP_DISCONNECTED);
        assert_int_not_equal(device_poll(&device).status, 0);
        close(a.fd);
        end_fini(&a.victim);
        assert_int_equal(rnic_live(device.rnic).sinks, 0);
    }
    close(listen_fd);
    expect_nothing_left();
}

// FPDUs with markers are shorter: also where the wish for markers came before they were agreed on.
static void test_a_wish_for_markers_limits_what_is_sent(void **state)
{
    static uint8_t got[DEVICE_BUF_LEN];
    const struct extension_message choices = {.kind = EXTENSION_CHOICES};
    uint8_t octets[EXTENSION_MESSAGE_LEN];
    struct attack a;
    attack_begin_as(&a, MPA_FLAG_EXTENSIONS | MPA_FLAG_MARKER_WISH);
    extension_message_emit(&choices, octets);
    struct craft c = craft_untagged(RDMAP_EXTENSION, 1, 0, true, octets, sizeof octets);
    raw_send_fpdu(a.fd, c.octets, c.len);
    end_post_send(&a.victim, WQE_SEND, 0, DEVICE_BUF_LEN, NULL, 0);
    assert_true(raw_receive(a.fd, got, sizeof got));
    assert_int_equal(get_be32(got), 0); // the first marker
    assert_int_equal(device_poll(&device).status, 0);
    attack_end(&a);
    expect_nothing_left();
}

// A peer that gives one octet for a request would have one made for each.
static void test_a_tiny_allotment_counts_as_the_least(void **state)
{
    const struct extension_message choices = {.kind = EXTENSION_CHOICES, .allotment_len = 1};
    const size_t request_len = mpa_fpdu_len(DDP_UNTAGGED_HEADER_LEN + RDMAP_READ_REQUEST_LEN);
    uint8_t octets[EXTENSION_MESSAGE_LEN], request[128];
    struct attack a;
    attack_begin_as(&a, MPA_FLAG_EXTENSIONS);
    uint64_t before = device_count(&device, "refused.response_last");
    extension_message_emit(&choices, octets);
    struct craft c = craft_untagged(RDMAP_EXTENSION, 1, 0, true, octets, sizeof octets);
    raw_send_fpdu(a.fd, c.octets, c.len);
    end_post_send(&a.victim, WQE_RDMA_READ, RECV_OFFSET, 4096, &device, 0);
    do { // notices of the allotment may stand before it
        assert_true(raw_receive(a.fd, request, MPA_LENGTH_LEN));
        size_t len = mpa_fpdu_len(get_be16(request));
        assert_true(len <= sizeof request);
        assert_true(raw_receive(a.fd, request + MPA_LENGTH_LEN, len - MPA_LENGTH_LEN));
    } while (mpa_fpdu_len(get_be16(request)) != request_len);
    const uint8_t *asked = request + MPA_LENGTH_LEN + DDP_UNTAGGED_HEADER_LEN;
    c = craft_tagged(RDMAP_READ_RESPONSE, get_be32(asked), get_be64(asked + 4), true, NULL, 1);
    raw_send_fpdu(a.fd, c.octets, c.len);
    raw_finish(a.fd);
    assert_int_equal(raw_read_end(a.fd, NULL), TERM_RDMAP_OPERATION_UNSPECIFIED);
    assert_int_equal(device_count(&device, "refused.response_last"), before + 1);
    assert_int_not_equal(device_poll(&device).status, 0);
    attack_end(&a);
    expect_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opcodes_without_a_meaning),
        cmocka_unit_test(test_opcodes_in_the_other_layout),
        cmocka_unit_test(test_opcodes_on_other_queues),
        cmocka_unit_test(test_other_versions),
        cmocka_unit_test(test_segments_shorter_than_their_header),
        cmocka_unit_test(test_messages_out_of_their_order),
        cmocka_unit_test(test_messages_of_another_length),
        cmocka_unit_test(test_memory_that_the_peer_may_not_touch),
        cmocka_unit_test(test_invalidation_of_what_is_not_the_peers),
        cmocka_unit_test(test_atomics_that_cannot_be_done),
        cmocka_unit_test(test_more_requests_than_ird),
        cmocka_unit_test(test_responses_that_nobody_asked_for),
        cmocka_unit_test(test_wrong_crc),
        cmocka_unit_test(test_end_or_reset_at_any_octet_of_an_fpdu),
        cmocka_unit_test(test_half_an_fpdu_and_silence_until_the_program_ends_it),
        cmocka_unit_test(test_garbage_after_establishment),
        cmocka_unit_test(test_terminates_of_the_peer),
        cmocka_unit_test(test_responses_that_are_not_what_was_asked_for),
        cmocka_unit_test(test_a_wish_for_markers_limits_what_is_sent),
        cmocka_unit_test(test_a_tiny_allotment_counts_as_the_least),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
