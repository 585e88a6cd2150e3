#include "rdmap/tx.h"

#include <string.h>

#include "base/bytes.h"
#include "base/check.h"
#include "rdmap/rx.h"

static void begin_tagged(struct rdmap_tx *tx, enum rdmap_opcode opcode, uint32_t stag, uint64_t to,
                         uint64_t length)
{
    struct ddp_header header = {
        .tagged = true,
        .rsvdulp = rdmap_control_emit(opcode),
        .stag = stag,
        .to = to,
    };
    tx->opcode = opcode;
    tx->fixed_len = 0;
    ddp_tx_init(&tx->ddp, &header, length);
}

static void begin_untagged(struct rdmap_tx *tx, struct rdmap_stream *stream,
                           enum rdmap_opcode opcode, uint64_t length)
{
    uint32_t qn = rdmap_opcode_facts(opcode)->qn;
    struct ddp_header header = {
        .rsvdulp = rdmap_control_emit(opcode),
        .qn = qn,
        .msn = stream->tx_msn[qn]++,
    };
    tx->opcode = opcode;
    tx->fixed_len = 0;
    ddp_tx_init(&tx->ddp, &header, length);
}

// The message is what has been written to `fixed`.
static void begin_fixed(struct rdmap_tx *tx, struct rdmap_stream *stream, enum rdmap_opcode opcode,
                        size_t len)
{
    begin_untagged(tx, stream, opcode, len);
    tx->fixed_len = len;
}

void rdmap_tx_write(struct rdmap_tx *tx, uint32_t stag, uint64_t to, uint64_t length)
{
    begin_tagged(tx, RDMAP_WRITE, stag, to, length);
}

void rdmap_tx_send(struct rdmap_tx *tx, struct rdmap_stream *stream, const struct rdmap_send *send)
{
    static const enum rdmap_opcode opcodes[2][2] = {
        {RDMAP_SEND, RDMAP_SEND_SE},
        {RDMAP_SEND_INV, RDMAP_SEND_SE_INV},
    };
    bool is_solicited = send->solicited || (send->mark != ONESHOT_NONE &&
                                            (stream->oneshot & EXTENSION_ONESHOT_OPCODE) != 0);
    begin_untagged(tx, stream, opcodes[send->invalidates][is_solicited], send->length);
    if (send->mark != ONESHOT_NONE) {
        oneshot_write(stream->oneshot, send->mark, send->stag_or_immediate, &tx->ddp.header);
    } else if (send->invalidates) {
        tx->ddp.header.rsvdulp_stag = send->stag_or_immediate;
    } else if (send->has_immediate) {
        tx->ddp.header.rsvdulp_stag = be32toh(send->stag_or_immediate);
        tx->ddp.header.rsvd = EXTENSION_RSVD_IMMEDIATE;
    }
}

void rdmap_tx_immediate(struct rdmap_tx *tx, struct rdmap_stream *stream, uint32_t immediate,
                        uint32_t written_len, bool solicited)
{
    put_be32(tx->fixed, be32toh(immediate));
    put_be32(tx->fixed + sizeof immediate, stream->extensions_agreed ? written_len : 0);
    begin_fixed(tx, stream, solicited ? RDMAP_IMMEDIATE_SE : RDMAP_IMMEDIATE, RDMAP_IMMEDIATE_LEN);
}

void rdmap_tx_read_request(struct rdmap_tx *tx, struct rdmap_stream *stream,
                           const struct rdmap_read_request *request)
{
    begin_fixed(tx, stream, RDMAP_READ_REQUEST, rdmap_read_request_emit(request, tx->fixed));
}

void rdmap_tx_read_response(struct rdmap_tx *tx, uint32_t sink_stag, uint64_t sink_to,
                            uint32_t length)
{
    begin_tagged(tx, RDMAP_READ_RESPONSE, sink_stag, sink_to, length);
}

void rdmap_tx_atomic_request(struct rdmap_tx *tx, struct rdmap_stream *stream,
                             const struct rdmap_atomic_request *request)
{
    begin_fixed(tx, stream, RDMAP_ATOMIC_REQUEST, rdmap_atomic_request_emit(request, tx->fixed));
}

void rdmap_tx_atomic_response(struct rdmap_tx *tx, struct rdmap_stream *stream,
                              const struct rdmap_atomic_response *response)
{
    begin_fixed(tx, stream, RDMAP_ATOMIC_RESPONSE, rdmap_atomic_response_emit(response, tx->fixed));
}

void rdmap_tx_terminate(struct rdmap_tx *tx, struct rdmap_stream *stream,
                        const struct terminate *terminate)
{
    begin_fixed(tx, stream, RDMAP_TERMINATE, terminate_emit(terminate, tx->fixed));
}

void rdmap_tx_extension(struct rdmap_tx *tx, struct rdmap_stream *stream,
                        const struct extension_message *message)
{
    begin_fixed(tx, stream, RDMAP_EXTENSION, extension_message_emit(message, tx->fixed));
}

size_t rdmap_tx_emit(struct rdmap_tx *tx, size_t payload_len, uint8_t *buf)
{
    if (tx->fixed_len == 0) {
        return ddp_tx_emit(&tx->ddp, payload_len, buf);
    }
    size_t header_len = ddp_tx_emit(&tx->ddp, tx->fixed_len, buf);
    memcpy(buf + header_len, tx->fixed, tx->fixed_len);
    return header_len + tx->fixed_len;
}
