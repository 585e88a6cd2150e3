// A connection and a peer that sends anything: segments, user calls and time are drawn from the
// input. The invariants hold after every step, no octet is placed twice, and what is delivered is
// what was placed.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/check.h"
#include "tcp/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STREAM_MAX = 1 << 17, ISS = 1000, IRS = 2000 };

struct input {
    const uint8_t *at;
    size_t left;
};

static struct {
    uint8_t is_placed[STREAM_MAX];
    uint64_t handed;
    uint8_t answers; // how the port answers, two bits each time
    unsigned offers;
} r;

static uint8_t draw(struct input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->at++;
}

static uint32_t draw16(struct input *in)
{
    uint32_t high = draw(in);
    return high << 8 | draw(in);
}

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    (void)ctx;
    unsigned wish = r.answers >> (r.offers++ % 4 * 2) & 3;
    CHECK(offer->position + offer->octets.len <= STREAM_MAX);
    if (wish == 1 && offer->octets.len > 1) {
        answer->len = offer->octets.len / 2;
    }
    if (wish == 2) {
        return PLACE_BUFFER;
    }
    if (wish == 3 && offer->order != PLACE_FROM_BUFFER) {
        return PLACE_DROP;
    }
    for (size_t i = 0; i < answer->len; i++) {
        CHECK(r.is_placed[offer->position + i] == 0);
        r.is_placed[offer->position + i] = 1;
    }
    if (offer->order == PLACE_BEYOND_HOLE) {
        answer->counts.n[7] = (uint32_t)answer->len;
    } else {
        CHECK(offer->position == r.handed);
        r.handed += answer->len;
    }
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    (void)ctx;
    CHECK(position == r.handed);
    CHECK(counts->n[7] == end - position);
    if ((r.answers & 3) == 3) {
        return false;
    }
    r.handed = end;
    return true;
}

static unsigned on_send(void *ctx, const struct tcp_batch *batch)
{
    static volatile uint8_t sum; // the payload is read
    uint8_t room = *(const uint8_t *)ctx, buf[TCP_HEADER_MAX_LEN];
    uint32_t len = 0;
    CHECK(tcp_header_emit(&batch->header, buf) <= sizeof buf);
    for (unsigned i = 0; i < batch->iov_count; i++) {
        const uint8_t *octets = batch->iov[i].iov_base;
        sum = (uint8_t)(sum + octets[0] + octets[batch->iov[i].iov_len - 1]);
        len += (uint32_t)batch->iov[i].iov_len;
    }
    CHECK(len == batch->payload_len);
    return room < batch->segment_count ? room : batch->segment_count;
}

static void segment(struct tcb *tcb, struct input *in, instant_ns now)
{
    static uint8_t octets[4096];
    uint8_t kind = draw(in);
    struct tcp_segment s = {
        .header = {.seq = IRS + draw16(in),
                   .ack = ISS + draw16(in),
                   .flags = (kind & 0x1f) | ((kind & 0x20) != 0 ? TCP_ECE | TCP_CWR : 0),
                   .window = (uint16_t)draw16(in)},
        .payload = span_of(octets, draw16(in) % sizeof octets),
        .ecn = (kind & 0x20) != 0 ? IP_ECN_CE : IP_ECN_NOT_ECT,
    };
    if ((kind & 0x40) != 0) {
        s.header.options.has_timestamps = true;
        s.header.options.ts_value = draw16(in);
        s.header.options.ts_echo = draw16(in);
    }
    if ((kind & 0x80) != 0) {
        s.header.options.mss = (uint16_t)draw16(in);
        s.header.options.sack_permitted = true;
        s.header.options.has_scale = true;
        s.header.options.scale = draw(in);
        s.header.options.sack_count = draw(in) % (TCP_SACK_BLOCK_MAX + 1);
        for (unsigned i = 0; i < s.header.options.sack_count; i++) {
            s.header.options.sack[i].left = ISS + draw16(in);
            s.header.options.sack[i].right = ISS + draw16(in);
        }
    }
    tcp_on_segment(tcb, &s, now);
}

static void user_call(struct tcb *tcb, struct input *in, instant_ns now)
{
    static uint8_t octets[8192];
    struct iovec iov = {octets, draw16(in) % sizeof octets};
    switch (draw(in) % 8) {
    case 0:
        tcp_close(tcb, now);
        break;
    case 1:
        tcp_resume(tcb, now);
        break;
    case 2:
        tcp_set_window(tcb, (uint32_t)iov.iov_len);
        break;
    case 3:
        tcp_on_path_mss(tcb, ISS + draw16(in), (uint16_t)draw16(in));
        break;
    default:
        tcp_send(tcb, &iov, 1, draw(in) & 3);
    }
}

static void step(struct tcb *tcb, struct input *in, instant_ns *now)
{
    uint8_t what = draw(in), room = what & 0x40 ? 1 : 255;
    const struct tcp_port port = {.send = on_send, .ctx = &room};
    r.answers = draw(in);
    switch (what % 4) {
    case 0:
        user_call(tcb, in, *now);
        break;
    case 1:
        *now += (duration_ns)draw16(in) * NS_PER_MS;
        if (tcp_next_deadline(tcb) <= *now) {
            tcp_on_deadline(tcb, *now);
        }
        break;
    default:
        segment(tcb, in, *now);
    }
    tcp_check(tcb);
    if ((what & 0x80) == 0 && tcp_wants_output(tcb, *now)) {
        tcp_output(tcb, &port, *now);
        tcp_check(tcb);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    instant_ns now = NS_PER_S;
    struct tcp_config config = tcp_config_default;
    uint8_t mode = draw(&in), open[] = {255};
    const struct tcp_port port = {.send = on_send, .ctx = open};
    memset(&r, 0, sizeof r);
    config.wishes = mode & TCP_WISH_ALL;
    config.ecn = TCP_ECN_REQUEST;
    config.window_len = 30000;
    config.buffer_len = mode & 8 ? 3000 : 30000;
    config.range_max = mode & 16 ? 4 : 32;
    config.flight_max = 16;
    config.piece_max = 16;
    config.send_len = 10000;
    config.nagle = mode & 32;
    config.cc = mode & 64 ? TCP_CC_NEWRENO : TCP_CC_CUBIC;
    config.keepalive_idle_ns = 20 * NS_PER_S;
    config.place = (struct place_port){.place = on_place, .on_advance = on_advance};
    struct tcb *tcb = tcp_create(&config);
    tcp_connect(tcb, ISS, now);
    tcp_output(tcb, &port, now);
    if ((mode & 128) == 0) { // most begin where it is interesting
        struct tcp_segment s = {.header = {.seq = IRS,
                                           .ack = ISS + 1,
                                           .flags = TCP_SYN | TCP_ACK | TCP_ECE,
                                           .window = 60000,
                                           .options = {.mss = 1000,
                                                       .sack_permitted = true,
                                                       .has_timestamps = true,
                                                       .has_scale = true}}};
        tcp_on_segment(tcb, &s, now);
    }
    while (in.left > 0) {
        step(tcb, &in, &now);
    }
    tcp_destroy(tcb);
    return 0;
}
