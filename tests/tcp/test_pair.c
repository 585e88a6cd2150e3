// Two connections over a bad link, everything drawn from a seed: whatever happens, every octet
// arrives once, is placed where it belongs, and is delivered in order; and it comes to an end.
#include "base/sanitized.h"
#include "tests/seeds.h"
#include "tests/tcp/net.h"

// Under a sanitizer a quarter of those that run without one.
enum { SEED_COUNT = IS_SANITIZED ? 50 : 200, SEED_COUNT_SOAK = 20000 };

static uint64_t pick(struct prng *prng, uint64_t low, uint64_t high)
{
    return low + prng_next(prng) % (high - low + 1);
}

// Half of the time none; else up to `most`.
static unsigned chance_up_to(struct prng *prng, unsigned most)
{
    return prng_below(prng, 2) == 0 ? 0 : prng_below(prng, most + 1);
}

static void draw_link(struct net *net)
{
    struct prng *prng = &net->prng;
    net->delay_ns = pick(prng, 0, 3) == 0 ? pick(prng, 0, 1000) : pick(prng, 1000, 20 * NS_PER_MS);
    net->faults = (struct net_faults){
        .loss = chance_up_to(prng, 100),
        .duplicate = chance_up_to(prng, 100),
        .late = chance_up_to(prng, 300),
        .late_ns = pick(prng, 0, 4 * net->delay_ns + 1000),
        .mark = chance_up_to(prng, 100),
    };
    net->faults_end = 20 * NS_PER_S;
}

static void draw_config(struct net *net)
{
    struct prng *prng = &net->prng;
    struct tcp_config *c = &net->config;
    c->mss = (uint16_t)pick(prng, TCP_MSS_MIN, 3000);
    c->wishes = prng_below(prng, 2) == 0 ? TCP_WISH_ALL : prng_below(prng, TCP_WISH_ALL + 1);
    c->window_len = (uint32_t)pick(prng, 2000, 200000);
    // Without SACK each octet that found no room costs a time-out.
    bool may_be_short = (c->wishes & TCP_WISH_SACK) != 0 && prng_below(prng, 2) == 0;
    c->buffer_len = may_be_short ? (uint32_t)pick(prng, 1, 20000) : c->window_len;
    c->range_max = (uint16_t)pick(prng, 4, 40);
    c->send_len = (uint32_t)pick(prng, 4000, 100000);
    c->piece_max = (uint16_t)pick(prng, 4, 100);
    c->flight_max = (uint16_t)pick(prng, 4, 300);
    c->cc = prng_below(prng, 2) == 0 ? TCP_CC_CUBIC : TCP_CC_NEWRENO;
    c->ecn = (enum tcp_ecn_wish)prng_below(prng, TCP_ECN_WISH_COUNT);
    c->nagle = prng_below(prng, 4) == 0;
    c->delayed_ack_ns = pick(prng, 0, 1) * pick(prng, 0, 40 * NS_PER_MS);
    c->user_timeout_ns = 4000 * NS_PER_S;
    c->time_wait_ns = 10000 * NS_PER_S; // the last ACK may be lost again and again
}

static void draw_side(struct net *net, struct net_side *side)
{
    struct prng *prng = &net->prng;
    side->send_len = pick(prng, 0, 150000);
    side->uses_references = prng_below(prng, 2) == 0;
    side->record_len = prng_below(prng, 2) == 0 ? 0 : (uint32_t)pick(prng, 1, 3000);
    side->policy = (struct net_policy){
        .buffer = chance_up_to(prng, 1024),
        .drop = chance_up_to(prng, 50),
        .partial = chance_up_to(prng, 200),
        .stall = chance_up_to(prng, 100),
        .refuse_advance = chance_up_to(prng, 300),
    };
}

static void run(uint64_t seed)
{
    struct net net;
    net_init(&net, seed);
    draw_link(&net);
    draw_config(&net);
    draw_side(&net, &net.side[0]);
    draw_side(&net, &net.side[1]);
    net_run(&net, 4000 * NS_PER_S);
    net_fini(&net);
}

int main(void)
{
    return seeds_main("every_octet_arrives_once_and_in_order", run,
                      getenv("WEFT_SOAK") != NULL ? SEED_COUNT_SOAK : SEED_COUNT);
}
