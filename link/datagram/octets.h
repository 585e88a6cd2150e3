// Packets as a run of octets, from the BTH on.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/port_datagram.h"
#include "wire/bth.h"
#include "wire/icrc.h"

// What is to be sent: head, pieces and pad, without the ICRC.
static inline size_t datagram_tx_len(const struct datagram_tx *tx)
{
    size_t len = tx->head.len + tx->pad_len;
    for (unsigned i = 0; i < tx->piece_count; i++) {
        len += tx->pieces[i].len;
    }
    return len;
}

// ... to that place; what is behind it.
static inline uint8_t *datagram_tx_copy(const struct datagram_tx *tx, uint8_t *to)
{
    memcpy(to, tx->head.ptr, tx->head.len);
    to += tx->head.len;
    for (unsigned i = 0; i < tx->piece_count; i++) {
        memcpy(to, tx->pieces[i].ptr, tx->pieces[i].len);
        to += tx->pieces[i].len;
    }
    memset(to, 0, tx->pad_len);
    return to + tx->pad_len;
}

// Of a packet that has come, with its ICRC.
static inline bool datagram_len_is_good(size_t len)
{
    return len >= BTH_LEN + ICRC_LEN && len <= DATAGRAM_LEN_MAX + ICRC_LEN && len % 4 == 0;
}
