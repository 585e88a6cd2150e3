// MPA start-up: which frames go, what they mean, what both ends have agreed on afterwards.
// RFC 5044 section 7.1 (revision 1), RFC 6581 (revision 2, "enhanced").
//
//   initiator                                   responder
//   mpa_startup_emit_request ── Request ──────▶ mpa_startup_on_request: facts for the application
//   mpa_startup_on_reply ◀───── Reply ───────── mpa_startup_emit_accept | mpa_startup_emit_reject
//   first FPDU ───────────────────────────────▶ mpa_agreement_confirm (extensions only)
//
// The extensions of wire/extension.h are offered by a reserved bit of the Request. A responder that
// takes them appends its block to the private data of its Reply, if all private data stays within
// 256 octets; the initiator takes them as agreed only when the block is there and answers this very
// Request, strips it, and sends its choices as first FPDU. Until then the responder uses none.
//
// No I/O, no clock: time limits are the caller's. One thread at a time per object.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/extension.h"
#include "wire/mpa.h"
#include "wire/terminate.h"

// Kinds of ready-to-receive indication (RFC 6581 section 9.2), as a set of bits.
enum mpa_rtr {
    MPA_RTR_NONE = 0,
    MPA_RTR_SEND = 1,
    MPA_RTR_WRITE = 2,
    MPA_RTR_READ = 4,
    MPA_RTR_ALL = 7,
};

// More private data than this, the enhanced octets included, makes siw drop the connection.
enum { MPA_PRIVATE_DATA_CAREFUL_LEN = 256 };

struct mpa_startup_config {
    uint8_t revision;    // 1: RFC 5044 only; 2: the initiator asks for the enhanced exchange, the
                         // responder follows the Request
    bool crc_wanted;     // one side that wants CRCs is enough
    bool markers_wanted; // the peer must insert markers
    uint16_t ird;        // Read and Atomic requests that we take at a time, up to 0x3ffe
    uint16_t ird_max;    // what `ird` may be raised to; less than `ird` counts as `ird`
    uint16_t ord;        // that we send at a time, up to 0x3ffe
    bool leave_ird_ord;  // initiator: no negotiation wanted, both sides keep what they have
    bool peer_to_peer;   // initiator: the peer may send first; needs a first FPDU from us
    uint8_t rtr_kinds;   // enum mpa_rtr bits. Initiator with peer_to_peer: those that we can send,
                         // not empty. Responder: those that we take; 0 stands for all
    bool extensions;     // offer or take the extensions
    bool marker_wish;    // with extensions: we would like markers
    uint8_t encodings;   // with extensions: EXTENSION_ONESHOT_ bits that we understand and want
    uint32_t allotment_len; // with extensions: our read allotment, octets; 0: none
    struct span private_data;
};

struct mpa_agreement {
    bool crc;                // both directions
    bool tx_markers;         // we insert markers
    bool rx_markers;         // the peer inserts them
    bool rx_markers_if_seen; // the peer may yet insert them: its first two octets tell (zero: yes)
    uint8_t revision;        // of the frames
    bool enhanced;           // IRD, ORD and RTR were exchanged
    uint16_t ird;            // ours from now on
    uint16_t ord;            // ours from now on
    uint8_t rtr;      // initiator: the one kind to send first; responder: the kinds that may come
    bool peer_echoes; // initiator: the Reply repeats our offer without a block, as siw does

    bool extensions;               // agreed; at the responder: offered, until confirmed
    bool extensions_await_choices; // responder: mpa_agreement_confirm is due at the first FPDU
    bool peer_marker_wish;         // responder: the initiator would like markers, once confirmed
    uint8_t encoding;              // one-shot: EXTENSION_ONESHOT_ bits agreed; 0: none
    uint8_t encodings;             // one-shot: what is still open to choose
    uint32_t allotment_len;        // read allotment in force, octets; 0: none
    uint32_t own_allotment_len;    // what either side said of it
    uint32_t peer_allotment_len;
    enum extension_verdict extension_verdict; // initiator: what was found where the block belongs
};

// What a frame from the peer says; private data lies in the start-up object's own buffer.
struct mpa_peer_facts {
    uint8_t revision;
    bool enhanced;
    bool crc;
    bool markers;
    bool peer_to_peer;
    uint8_t rtr_kinds;
    uint16_t ird; // 0 without `enhanced`; 0x3fff: the peer wants no negotiation
    uint16_t ord;
    bool extensions_offered;  // Request only
    bool marker_wish;         // Request only
    struct span private_data; // the ULP's own octets: enhanced octets and block are stripped
};

enum mpa_startup_verdict {
    MPA_STARTUP_OK,
    MPA_STARTUP_INCOMPLETE,           // the frame has not all arrived
    MPA_STARTUP_REJECTED,             // the peer's application said no; facts hold
    MPA_STARTUP_BAD_KEY,              // not MPA: close
    MPA_STARTUP_WRONG_ROLE,           // both ends initiate, or both respond: close
    MPA_STARTUP_REVISION,             // a revision that we do not speak: close
    MPA_STARTUP_PD_TOO_LONG,          // over 512 octets of private data: close
    MPA_STARTUP_ENHANCED_MISSING,     // S without IRD and ORD octets: close
    MPA_STARTUP_ENHANCED_UNSUPPORTED, // responder of revision 1, enhanced Request: close
    MPA_STARTUP_ENHANCED_MISMATCH,    // enhanced Request and plain Reply, or the reverse: close
    MPA_STARTUP_INSUFFICIENT_IRD,     // the responder's ORD is more than we can take: Terminate
    MPA_STARTUP_NO_RTR,               // no ready-to-receive indication in common: Terminate
    MPA_STARTUP_VERDICT_COUNT,
};

const char *mpa_startup_verdict_name(enum mpa_startup_verdict verdict);

// The cause to report. TERM_NONE for OK, INCOMPLETE and REJECTED; TERM_MPA_STARTUP for what closes
// the connection without a word on the wire; the others go out in a Terminate (RFC 6581 section 9).
enum terminate_cause mpa_startup_verdict_cause(enum mpa_startup_verdict verdict);

// One connection's start-up, either role. About 1 KiB; needed until the agreement is made.
struct mpa_startup {
    struct mpa_startup_config config;
    uint32_t request_crc;           // CRC32C of the Request frame, whichever side sent it
    struct mpa_startup_frame frame; // the peer's frame, once complete
    size_t rx_len;                  // octets of the peer's frame so far
    uint8_t rx[MPA_STARTUP_MAX_LEN];
};

// Copies `config`; its private data must stay until the frame has been emitted. A responder may
// give another configuration with its answer.
void mpa_startup_init(struct mpa_startup *s, const struct mpa_startup_config *config);

// The most private data that fits beside the enhanced octets, in a Request or Reply of ours.
size_t mpa_startup_private_data_max(bool enhanced);

// Initiator: writes the Request into `buf` (room for MPA_STARTUP_MAX_LEN octets) and returns its
// length; 0 when the private data does not fit.
size_t mpa_startup_emit_request(struct mpa_startup *s, uint8_t *buf);

// Initiator: takes our wish for CRCs back from the Request of `len` octets in `buf`, which has not
// been sent; the peer may still have it.
void mpa_startup_forgo_crc(struct mpa_startup *s, uint8_t *buf, size_t len);

// Responder: takes octets of the Request, in pieces of any size. `*ret_consumed` says how many;
// what lies behind the frame is not touched. `*ret` holds with MPA_STARTUP_OK.
enum mpa_startup_verdict mpa_startup_on_request(struct mpa_startup *s, struct span stream,
                                                size_t *ret_consumed, struct mpa_peer_facts *ret);

// Responder, after MPA_STARTUP_OK: writes the accepting Reply for `config` (its `revision` does not
// matter: the Reply follows the Request) into `buf` (room for MPA_STARTUP_MAX_LEN octets), tells
// what is agreed, and returns the length; 0 when the private data does not fit.
size_t mpa_startup_emit_accept(struct mpa_startup *s, const struct mpa_startup_config *config,
                               uint8_t *buf, struct mpa_agreement *ret);

// Responder, after MPA_STARTUP_OK: writes the rejecting Reply. Of `config` only private data, IRD
// and ORD (what we would have needed: RFC 6581 section 9.1) and RTR kinds count.
size_t mpa_startup_emit_reject(struct mpa_startup *s, const struct mpa_startup_config *config,
                               uint8_t *buf);

// Initiator: takes octets of the Reply, as mpa_startup_on_request. `*ret_facts` holds with
// MPA_STARTUP_OK, _REJECTED, _INSUFFICIENT_IRD and _NO_RTR, `*ret` with all of these but _REJECTED:
// a Terminate must be framed as agreed too.
enum mpa_startup_verdict mpa_startup_on_reply(struct mpa_startup *s, struct span stream,
                                              size_t *ret_consumed,
                                              struct mpa_peer_facts *ret_facts,
                                              struct mpa_agreement *ret);

// Responder, when `extensions_await_choices` and the first FPDU is in: `choices` is the initiator's
// extension message, NULL when the FPDU is any other (then nothing of ours is agreed). Returns
// false when the choices name an encoding that was not offered; then nothing is agreed either.
bool mpa_agreement_confirm(struct mpa_agreement *a, const struct extension_message *choices);

// The choices that an initiator sends as its first FPDU when `extensions` is set.
struct extension_message mpa_agreement_choices(const struct mpa_agreement *a);

// One trace line. Returns `buf`.
const char *mpa_agreement_format(const struct mpa_agreement *a, char *buf, size_t len);
