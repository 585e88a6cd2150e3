// What the options of the two SYNs come to, for connections and listeners alike: maximum segment
// size (RFC 6691), window scale and timestamps (RFC 7323), SACK (RFC 2018).
#pragma once

#include "tcp/tcb.h"
#include "wire/tcp.h"

// The options of our SYN; of our SYN,ACK, where `peer` are those of the SYN that it answers.
struct tcp_options tcp_syn_options(const struct tcp_config *config, const struct tcp_options *peer);

struct tcp_agreed tcp_agree(const struct tcp_config *config, const struct tcp_options *peer);

// The shift count with which the window fits 16 bits.
uint8_t tcp_scale_for(uint32_t window_len);

// The window that a SYN offers: it is never scaled (RFC 7323 section 2.2).
static inline uint16_t tcp_syn_window(const struct tcp_config *config)
{
    return (uint16_t)(config->window_len < UINT16_MAX ? config->window_len : UINT16_MAX);
}
