// RDMAP send side: one message on its way out, cut into segments.
//
//     rdmap_tx_send(...)                 which message; gives it its MSN
//     while (!rdmap_tx_is_done(tx)) {
//         rdmap_tx_next_len(...)         octets of ULP payload in the next segment
//         rdmap_tx_emit(...)             its header
//     }
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ddp/tx.h"
#include "rdmap/stream.h"
#include "wire/ddp.h"
#include "wire/extension.h"
#include "wire/oneshot.h"
#include "wire/rdmap.h"
#include "wire/terminate.h"

// Octets of the longest header: untagged DDP header and what RDMAP puts behind it.
enum { RDMAP_TX_HEADER_MAX_LEN = DDP_UNTAGGED_HEADER_LEN + TERMINATE_MAX_LEN };
STATIC_CHECK((int)RDMAP_ATOMIC_REQUEST_LEN <= (int)TERMINATE_MAX_LEN);

struct rdmap_tx {
    struct ddp_tx ddp;
    enum rdmap_opcode opcode; // a marked Send is RDMAP_SEND or RDMAP_SEND_SE in either encoding
    size_t fixed_len; // octets in `fixed`, which are the whole message; 0: it carries ULP payload
    uint8_t fixed[TERMINATE_MAX_LEN];
};

struct rdmap_send {
    uint64_t length;
    bool solicited;
    bool invalidates;       // `stag_or_immediate` is the STag to invalidate
    bool has_immediate;     // ... immediate data, network order; only with extensions agreed
    enum oneshot_mark mark; // ... the STag to advertise or close; only where that is agreed
    uint32_t stag_or_immediate;
};

void rdmap_tx_write(struct rdmap_tx *tx, uint32_t stag, uint64_t to, uint64_t length);
void rdmap_tx_send(struct rdmap_tx *tx, struct rdmap_stream *stream, const struct rdmap_send *send);
// `immediate`: network order. Its second half, of which the verbs know nothing, says between weft
// ends how long the Write before it is: who places that beyond a hole cannot always count.
void rdmap_tx_immediate(struct rdmap_tx *tx, struct rdmap_stream *stream, uint32_t immediate,
                        uint32_t written_len, bool solicited);
void rdmap_tx_read_request(struct rdmap_tx *tx, struct rdmap_stream *stream,
                           const struct rdmap_read_request *request);
void rdmap_tx_read_response(struct rdmap_tx *tx, uint32_t sink_stag, uint64_t sink_to,
                            uint32_t length);
void rdmap_tx_atomic_request(struct rdmap_tx *tx, struct rdmap_stream *stream,
                             const struct rdmap_atomic_request *request);
void rdmap_tx_atomic_response(struct rdmap_tx *tx, struct rdmap_stream *stream,
                              const struct rdmap_atomic_response *response);
void rdmap_tx_terminate(struct rdmap_tx *tx, struct rdmap_stream *stream,
                        const struct terminate *terminate);
void rdmap_tx_extension(struct rdmap_tx *tx, struct rdmap_stream *stream,
                        const struct extension_message *message);

static inline uint32_t rdmap_tx_msn(const struct rdmap_tx *tx)
{
    return tx->ddp.header.msn;
}

static inline bool rdmap_tx_is_done(const struct rdmap_tx *tx)
{
    return tx->ddp.is_done;
}

// Octets of ULP payload in the next segment; 0 for messages that carry none.
static inline size_t rdmap_tx_next_len(const struct rdmap_tx *tx, size_t mulpdu)
{
    return tx->fixed_len > 0 ? 0 : ddp_tx_next_len(&tx->ddp, mulpdu);
}

// Octets of the ULPDU around it.
static inline size_t rdmap_tx_header_len(const struct rdmap_tx *tx)
{
    return ddp_header_len(&tx->ddp.header) + tx->fixed_len;
}

// Makes the header of the next segment, `payload_len` octets of ULP payload behind it, into `buf`
// (room for RDMAP_TX_HEADER_MAX_LEN); returns its length.
size_t rdmap_tx_emit(struct rdmap_tx *tx, size_t payload_len, uint8_t *buf);
