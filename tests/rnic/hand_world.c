#include "tests/rnic/hand_world.h"

#include <string.h>

#include "rnic/ep/ep.h"
#include "tests/iwarp/craft.h"
#include "tests/rnic/raw.h"
#include "wq/status.h"

struct hand_world hand;

static instant_ns clock_of(void *ctx)
{
    return ((struct hand_world *)ctx)->now;
}

struct rnic_config hand_config(void)
{
    struct rnic_config config = device_config();
    config.peer_to_peer = false;
    config.crc = false;
    return config;
}

void hand_open(const struct rnic_config *config, unsigned facts, int backlog)
{
    hand = (struct hand_world){.now = NS_PER_S, .link = hand_link_begin()};
    hand.link->base.facts = hand.link->facts = facts;
    const struct rnic_parts parts = {.config = *config,
                                     .link = &hand.link->base,
                                     .clock = clock_of,
                                     .clock_ctx = &hand,
                                     .stag_key = {1, 2, 3},
                                     .half_open_max = 40,
                                     .is_simulated = true};
    device_open_parts(&hand.device, &parts);
    end_init(&hand.listener, &hand.device);
    end_bind(&hand.listener);
    assert_int_equal(rnic_ep_listen(hand.listener.ep, backlog), 0);
    end_init(&hand.end, &hand.device);
}

void hand_close(void)
{
    end_fini(&hand.end);
    end_fini(&hand.listener);
    device_close(&hand.device);
}

int hand_set_up(void **state)
{
    const struct rnic_config config = hand_config();
    hand_open(&config, 0, 0);
    return 0;
}

int hand_tear_down(void **state)
{
    hand_close();
    return 0;
}

void hand_open_anew(const struct rnic_config *config, unsigned facts)
{
    hand_close();
    hand_open(config, facts, 0);
}

void hand_end_anew(void)
{
    end_fini(&hand.end);
    end_init(&hand.end, &hand.device);
}

void hand_run(void)
{
    unsigned steps = 0;
    while (rnic_step(hand.device.rnic)) {
        assert_true(++steps < 1000);
    }
}

void hand_pass(duration_ns ns)
{
    hand.now += ns;
    hand_run();
}

struct rnic_ep_event hand_event(struct end *e, enum rnic_ep_event_type type)
{
    assert_true(end_has_event(e));
    return end_take(e, type);
}

struct cqe hand_completion(void)
{
    struct cqe cqe;
    assert_int_equal(rnic_cq_poll(hand.device.cq, &cqe, 1), 1);
    return cqe;
}

void hand_expect_no_completion(void)
{
    struct cqe cqe;
    assert_int_equal(rnic_cq_poll(hand.device.cq, &cqe, 1), 0);
}

uint32_t hand_endpoints(void)
{
    return rnic_live(hand.device.rnic).endpoints;
}

/* ---- streams --------------------------------------------------------------------------------- */

struct hand_stream *hand_of(struct end *e)
{
    return hand_stream_of(e->ep->stream);
}

struct hand_stream *hand_arrive(void)
{
    struct hand_stream *s = &hand.link->streams[hand.link->count];
    hand.link->waiting = 1;
    hand_run();
    assert_true(s->is_open);
    return s;
}

struct mpa_startup_frame hand_frame(enum mpa_frame_kind kind)
{
    return (struct mpa_startup_frame){
        .kind = kind, .enhanced = true, .revision = 2, .ird = 2, .ord = 2};
}

void hand_say(struct hand_stream *s, const struct mpa_startup_frame *frame)
{
    uint8_t octets[MPA_STARTUP_MAX_LEN];
    hand_come(s, octets, mpa_startup_frame_emit(frame, octets));
}

size_t hand_heard(struct hand_stream *s, enum mpa_frame_kind kind, struct mpa_startup_frame *ret)
{
    size_t len;
    assert_int_equal(mpa_startup_frame_parse(span_of(s->out, s->out_len), kind, ret, &len),
                     MPA_FRAME_OK);
    return len;
}

struct hand_stream *hand_establish(const struct mpa_startup_frame *request)
{
    struct mpa_startup_frame reply;
    struct hand_stream *s = hand_arrive();
    hand_say(s, request);
    hand_run();
    end_take_request(&hand.end, &hand.listener);
    end_accept(&hand.end);
    hand_event(&hand.end, RNIC_EP_ESTABLISHED);
    assert_int_equal(hand_heard(s, MPA_REPLY, &reply), s->out_len);
    s->out_len = 0;
    return s;
}

void hand_send(struct hand_stream *s, uint32_t msn, uint8_t fill, size_t len)
{
    uint8_t payload[2048], fpdu[4096];
    memset(payload, fill, len);
    const struct craft c = craft_untagged(RDMAP_SEND, msn, 0, true, payload, len);
    hand_come(s, fpdu, raw_fpdu(fpdu, c.octets, c.len));
}

struct hand_stream *hand_establish_plain(void)
{
    const struct mpa_startup_frame request = hand_frame(MPA_REQUEST);
    return hand_establish(&request);
}

struct hand_stream *hand_establish_to_speak(void)
{
    struct hand_stream *s = hand_establish_plain();
    hand_pass(HAND_SILENCE_NS);
    return s;
}

/* ---- what came of it ------------------------------------------------------------------------- */

void hand_expect_disconnected(const struct hand_stream *s, const char *reason, bool is_aborted)
{
    static const char *const reasons[] = {"by_peer", "by_reset", "by_timeout", "here"};
    hand_event(&hand.end, RNIC_EP_DISCONNECTED);
    assert_false(end_has_event(&hand.end));
    assert_false(s->is_open);
    assert_int_equal(s->is_aborted, is_aborted);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(device_count(&hand.device, reasons[i]), strcmp(reason, reasons[i]) == 0);
    }
    assert_int_equal(rnic_qp_state(hand.end.qp), QP_ERR);
    assert_int_equal(rnic_next_deadline(hand.device.rnic), INSTANT_NEVER);
}

void hand_expect_received(uint64_t wr_id, uint32_t offset, uint8_t fill, uint32_t len)
{
    const struct cqe cqe = hand_completion();
    assert_int_equal(cqe.status, WC_SUCCESS);
    assert_int_equal(cqe.wr_id, wr_id);
    assert_int_equal(cqe.byte_len, len);
    for (uint32_t i = 0; i < len; i++) {
        assert_int_equal(hand.device.buf[offset + i], fill);
    }
}
