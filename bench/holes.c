// What a segment costs the receiver when others lie beyond holes.
//
//     bench-holes segment_cost HOLES PATTERN SECONDS     {"ns_per_segment": …, "segments": …}
//
// One connection of the TCP engine, no link: segments of 64 octets go in, the ACKs that they call
// for come out and are dropped. PATTERN `extend`: each makes a range longer; `join`: each second
// opens a range in the middle of the table, each other joins two.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/prng.h"
#include "bench/measure.h"
#include "tcp/tcp.h"

enum { LEN = 64, SPACING = 1 << 16, HOLES_MAX = 512, RUN = 256, ISS = 1000, IRS = 2000 };

static enum place_verdict on_place(void *ctx, const struct place_offer *offer,
                                   struct place_answer *answer)
{
    (void)ctx, (void)offer;
    answer->counts.n[0] = 1;
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    (void)ctx, (void)position, (void)end, (void)counts;
    return true;
}

static unsigned on_send(void *ctx, const struct tcp_batch *batch)
{
    (void)ctx;
    return batch->segment_count;
}

static const struct tcp_port port = {.send = on_send};

static void output(struct tcb *tcb, instant_ns now)
{
    if (tcp_wants_output(tcb, now)) {
        tcp_output(tcb, &port, now);
    }
}

static void arrives(struct tcb *tcb, uint32_t position, instant_ns now)
{
    static const uint8_t octets[LEN];
    struct tcp_segment segment = {.header = {.seq = IRS + 1 + position,
                                             .ack = ISS + 1,
                                             .flags = TCP_ACK,
                                             .window = UINT16_MAX},
                                  .payload = span_of(octets, LEN)};
    CHECK(tcp_on_segment(tcb, &segment, now) == TCP_TAKEN);
    output(tcb, now);
}

static struct tcb *open_connection(void)
{
    struct tcp_config config = tcp_config_default;
    config.window_len = 1 << 30;
    config.buffer_len = 0;
    config.range_max = HOLES_MAX;
    config.place = (struct place_port){.place = on_place, .on_advance = on_advance};
    struct tcb *tcb = tcp_create(&config);
    CHECK(tcb != NULL);
    tcp_connect(tcb, ISS, 1);
    output(tcb, 1);
    struct tcp_segment segment = {
        .header = {.seq = IRS,
                   .ack = ISS + 1,
                   .flags = TCP_SYN | TCP_ACK,
                   .window = UINT16_MAX,
                   .options = {.mss = 1460, .sack_permitted = true, .has_scale = true}}};
    tcp_on_segment(tcb, &segment, 2);
    output(tcb, 2);
    return tcb;
}

// The least time of a segment over runs of RUN segments: a run is so short that most are not
// disturbed by whatever else the machine does.
struct cost {
    double best_ns;
    uint64_t segments;
};

static void measure(struct cost *cost, double from, unsigned run)
{
    double ns = (now_s() - from) * 1e9 / run;
    cost->best_ns = cost->segments == 0 || ns < cost->best_ns ? ns : cost->best_ns;
    cost->segments += run;
}

// Where segments of a run go: behind the range that the next draw names.
static uint32_t *draw(uint32_t *end, unsigned holes, struct prng *prng)
{
    for (unsigned tries = 0; tries < 4 * HOLES_MAX; tries++) {
        unsigned i = prng_below(prng, holes);
        if (end[i] + 4 * LEN < (i + 2) * SPACING) {
            return &end[i];
        }
    }
    return NULL; // all are full
}

// One connection's worth of segments, `holes` ranges being there all the time.
static void fill(struct tcb *tcb, unsigned holes, bool is_join, struct prng *prng,
                 struct cost *cost)
{
    uint32_t end[HOLES_MAX];
    uint32_t *at = end;
    for (unsigned i = 0; i < holes; i++) {
        end[i] = (i + 1) * SPACING;
        arrives(tcb, end[i], 3);
        end[i] += LEN;
    }
    while (at != NULL) {
        double from = now_s();
        unsigned run = 0;
        while (run < RUN && (at = draw(end, holes, prng)) != NULL) {
            if (is_join) {
                arrives(tcb, *at + LEN, 3); // opens
            }
            arrives(tcb, *at, 3); // extends, or joins
            *at += is_join ? 2 * LEN : LEN;
            run += is_join ? 2 : 1;
        }
        if (run == RUN) {
            measure(cost, from, run);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 5 || strcmp(argv[1], "segment_cost") != 0) {
        fprintf(stderr, "usage: bench-holes segment_cost HOLES extend|join SECONDS\n");
        return 2;
    }
    unsigned holes = (unsigned)atoi(argv[2]);
    bool is_join = strcmp(argv[3], "join") == 0;
    double limit = atof(argv[4]);
    struct cost cost = {0};
    struct prng prng;
    CHECK(holes >= 1 && holes < HOLES_MAX - 1);
    prng_init(&prng, 1);
    for (double begun = now_s(); now_s() - begun < limit;) {
        struct tcb *tcb = open_connection();
        fill(tcb, holes, is_join, &prng, &cost);
        tcp_destroy(tcb);
    }
    printf("{\"ns_per_segment\": %.1f, \"segments\": %llu}\n", cost.best_ns,
           (unsigned long long)cost.segments);
    return 0;
}
