// One NVMe/TCP connection, as a host has it: capsules and their data as PDUs over a socket. A
// command is known by its CID; what it means is not its business.
//
//     connect.c   the socket, ICReq and ICResp
//     send.c      capsules, and the data that the controller asks for (R2T)
//     receive.c   PDUs from the controller: checks, data into place, answers
//     memory.c    pieces of memory, run by run
//
// Source: NVM Express over Fabrics 1.1, section 7.4.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "base/time.h"
#include "base/why.h"
#include "format/nvme_tcp_wire.h"
#include "format/nvme_wire.h"

enum pdu_limits {
    PDU_HEAD_MAX = 160, // a CapsuleCmd's header, its digest, padding to what controllers may wish
    PDU_IN_LEN = 64 << 10,
    PDU_DIRECT_MIN = 4096, // so many octets are received into place
};

// A range of the pieces of a command's memory, from front to back.
struct pdu_cursor {
    const struct iovec *piece;
    size_t at; // within it
};

enum pdu_way {
    PDU_NOTHING,    // no data
    PDU_IN_CAPSULE, // to the controller, with the command
    PDU_ASKED,      // to the controller, when it asks
    PDU_READ,       // from the controller
};

// Place for one command; its number is the lower part of its CID.
struct pdu_command {
    uint8_t head[PDU_HEAD_MAX]; // of the PDU on its way; the SQE lies in it
    uint8_t tail[NVME_TCP_DIGEST_LEN];
    bool is_out; // its answer has not come
    enum pdu_way way;
    uint16_t cid;
    uint32_t len; // of its data
    bool is_bad;  // a digest of them was wrong

    struct pdu_cursor cursor; // reads: where the next octets go; writes: the next to be sent
    uint32_t done;            // reads: octets that have come; writes: asked for
    uint32_t left;            // writes: of what was asked for, not in a PDU yet
    uint16_t tag;             // and the controller's name for it
    uint32_t head_len, tail_len, data_left; // of the PDU on its way
    uint32_t head_sent, tail_sent;
    struct list_link link; // on its way
};

struct pdu_stream {
    int fd; // -1: closed
    bool has_header_digest, has_data_digest;
    uint32_t align;    // of data that the controller receives
    uint32_t data_max; // of one H2CData PDU
    unsigned depth;
    unsigned index_bits; // of a CID: which command
    struct pdu_command *commands;
    struct list_link outs; // commands with a PDU on its way

    uint8_t *in; // PDU_IN_LEN octets
    uint32_t in_at, in_len;
    // Data of the PDU under way.
    struct pdu_command *incoming; // NULL: none
    uint32_t incoming_left;
    uint32_t incoming_crc;
    bool incoming_is_success; // and no answer follows
};

/* ---- connect.c ------------------------------------------------------------------------------- */

// Memory for so many commands. 0 or -ENOMEM.
int pdu_stream_init(struct pdu_stream *s, unsigned depth, unsigned index_bits);
void pdu_stream_destroy(struct pdu_stream *s);

// Connects, and agrees on digests: those that the host wishes (NVME_TCP_IC_HDGST, _DDGST), if the
// controller does not refuse. Blocks until then at most. 0, or a negative errno with the reason.
int pdu_stream_connect(struct pdu_stream *s, const char *host, const char *port, uint8_t digests,
                       unsigned timeout_ms, struct why *ret_why);
// Nobody's memory is reached any more.
void pdu_stream_close(struct pdu_stream *s);

/* ---- send.c ---------------------------------------------------------------------------------- */

uint8_t *pdu_stream_sqe(struct pdu_stream *s, unsigned index);

// The capsule whose SQE is there, but for its data pointer. `memory`, and the list, until the
// answer. 0, or a negative errno: the connection is lost.
int pdu_stream_send(struct pdu_stream *s, unsigned index, enum pdu_way way,
                    const struct iovec *memory, uint32_t len);
// Data that an R2T asks for are to follow.
void pdu_stream_ask(struct pdu_stream *s, struct pdu_command *c, uint32_t len, uint16_t tag);
// 0, also where the socket is full; or a negative errno: the connection is lost.
int pdu_stream_flush(struct pdu_stream *s);

/* ---- receive.c ------------------------------------------------------------------------------- */

// Takes the next answer. 1: a CQE; 0: nothing more has come; negative: what came is against the
// protocol (-EPROTO), or the connection is lost.
int pdu_stream_take(struct pdu_stream *s, uint8_t ret_cqe[NVME_CQE_LEN], struct why *ret_why);
// The same of what is in the buffer alone.
int pdu_stream_parse(struct pdu_stream *s, uint8_t ret_cqe[NVME_CQE_LEN], struct why *ret_why);

/* ---- memory.c -------------------------------------------------------------------------------- */

// The longest run at the cursor, at most `len` octets; moves behind it.
struct iovec pdu_cursor_take(struct pdu_cursor *cursor, uint32_t len);
