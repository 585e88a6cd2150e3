#include "tcp/agree.h"

uint8_t tcp_scale_for(uint32_t window_len)
{
    uint8_t scale = 0;
    while (scale < TCP_SCALE_MAX && window_len >> scale > UINT16_MAX) {
        scale++;
    }
    return scale;
}

struct tcp_options tcp_syn_options(const struct tcp_config *config, const struct tcp_options *peer)
{
    unsigned wishes = config->wishes;
    return (struct tcp_options){
        .mss = config->mss,
        .has_scale = (wishes & TCP_WISH_SCALE) != 0 && (peer == NULL || peer->has_scale),
        .scale = tcp_scale_for(config->window_len),
        .sack_permitted = (wishes & TCP_WISH_SACK) != 0 && (peer == NULL || peer->sack_permitted),
        .has_timestamps =
            (wishes & TCP_WISH_TIMESTAMPS) != 0 && (peer == NULL || peer->has_timestamps),
    };
}

static uint16_t smaller(uint16_t a, uint16_t b)
{
    return a < b ? a : b;
}

// What is said, or `unsaid`, and never less than what is worth a segment.
static uint16_t mss_of(uint16_t said, uint16_t unsaid)
{
    uint16_t mss = said == 0 ? unsaid : said;
    return mss < TCP_MSS_MIN ? TCP_MSS_MIN : mss;
}

struct tcp_agreed tcp_agree(const struct tcp_config *config, const struct tcp_options *peer)
{
    struct tcp_options ours = tcp_syn_options(config, peer);
    uint16_t theirs = mss_of(peer->mss, config->mss_unsaid);
    uint16_t path = mss_of(config->path_mss, config->mss);
    return (struct tcp_agreed){
        .sack = ours.sack_permitted,
        .timestamps = ours.has_timestamps,
        .scale = ours.has_scale,
        .snd_scale = !ours.has_scale               ? 0
                     : peer->scale > TCP_SCALE_MAX ? TCP_SCALE_MAX
                                                   : peer->scale,
        .rcv_scale = ours.has_scale ? ours.scale : 0,
        .mss = smaller(theirs, smaller(path, config->mss)),
    };
}
