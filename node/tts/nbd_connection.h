// One NBD client, for the files of the NBD TTS: where its stream is, and what is to go.
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "node/interface/volume.h"
#include "node/stream/server.h"
#include "node/stream/stream.h"
#include "node/tts/nbd.h"
#include "node/tts/nbd_wire.h"

enum nbd_limits {
    NBD_CONNECTION_MAX = 2048,
    NBD_CONNECTION_OF_HOST_MAX = 1024, // from one address
    NBD_REQUEST_MAX = 128,             // under way, of one client
    NBD_TRANSFER_MAX = 64 << 20,       // octets of one read or write
    NBD_PREFERRED_MIN = 512,
    NBD_PUSH_MAX = 64 << 10, // a write up to this gets a buffer when all its data are there
    NBD_IN_LEN = NBD_EXTENDED_REQUEST_LEN + NBD_PUSH_MAX,
    NBD_OUT_LEN = 104 << 10,       // of negotiation,
    NBD_ANSWER_MAX_LEN = 96 << 10, // of one option
    NBD_OPTION_MAX_LEN = 8 << 10,
    NBD_EXTENT_MAX = 1024, // in one answer to block status
    NBD_REPLY_MAX_LEN = 48,
    NBD_CONTEXT_ID = 1, // base:allocation's
};

enum nbd_state {
    NBD_CLIENT_FLAGS, // the greeting is out
    NBD_OPTIONS,
    NBD_CONNECTING, // the UMA has been asked
    NBD_TRANSMISSION,
    NBD_ENDING, // the socket is closed; requests are under way
};

// The node stops, or the client said goodbye: what has come is answered, then the connection ends.
enum nbd_drain {
    NBD_SERVES,
    NBD_TAKES_REST,   // what is in the socket, and the end of what has begun to come
    NBD_ANSWERS_REST, // nothing is read any more
};

// What a client is told; the words only where replies are structured.
struct nbd_error {
    uint32_t number; // enum nbd_errno
    const char *why;
};

// A request as it came.
struct nbd_asked {
    uint16_t flags, command;
    uint64_t cookie, offset;
    uint64_t len;         // of the volume
    uint64_t payload_len; // octets that follow
};

struct nbd_command_facts {
    bool is_known;
    enum node_operation operation;
    uint16_t flags; // those it may have
    bool has_length;
};

struct nbd_request {
    struct service_request service;
    struct nbd_connection *connection;
    uint16_t command;
    uint16_t flags;
    uint64_t cookie;
    uint64_t offset; // as it was asked for
    // The reply: a header, then data, of which `sent` octets are gone.
    uint8_t header[NBD_REPLY_MAX_LEN];
    uint32_t header_len;
    const void *data;
    uint32_t data_len;
    uint32_t sent;
    uint32_t chunked_len;  // of a read with chunks: octets that those up to this one tell of
    uint32_t left_len;     // of a read or write in parts: octets behind the one under way
    bool is_filled;        // of a write: the data of that part have come
    bool is_transfer;      // the CTA waits to hear that the data have been sent
    struct list_link link; // free, or to be answered
};

struct nbd_connection {
    struct stream stream;
    struct nbd *nbd;
    enum nbd_state state;

    // Negotiation.
    bool no_zeroes;
    bool is_structured;      // replies are chunks,
    bool is_extended;        // with headers of 64-bit lengths, as requests
    uint32_t context_volume; // base:allocation has been chosen for this one; 0: for none
    uint32_t option;         // under way, of the connect request
    bool is_export_name;     // answered in the old manner
    uint32_t option_skip;    // octets of an option that is too long
    struct connect_request connect;
    char volume_name[VOLUME_NAME_MAX];
    uint8_t *out; // NBD_OUT_LEN octets; NULL: nothing is to go
    uint32_t out_len, out_sent;
    bool is_full; // an option waits until `out` has been sent

    // Transmission.
    uint32_t connection; // the UMA's number
    bool is_established;
    bool has_left;   // the client said goodbye
    bool is_dropped; // the UMA wants it gone
    enum nbd_drain drain;
    uint32_t abilities;
    bool has_context; // the client may ask for base:allocation
    uint32_t under_way;
    bool is_one_run; // what is under way, or comes next, is a read in parts with a simple reply
    struct nbd_request *writing; // what comes next on the socket is its data, now or in a while
    bool may_fill;               // and there is a buffer for it
    uint64_t filled;
    uint64_t skip;               // octets to be dropped: data of a write that was refused,
    struct nbd_request *refused; // which is answered when they have come, with
    struct nbd_error refused_error;
    struct nbd_request *requests; // NBD_REQUEST_MAX
    struct list_link free;
    struct list_link replies;
};

struct nbd {
    struct nbd_parts parts;
    struct stream_server server;
    struct nbd_counters counters; // but for those of the server
};

// The client does not keep to the protocol.
static inline enum stream_verdict nbd_malformed(struct nbd_connection *c)
{
    c->nbd->counters.malformed++;
    return STREAM_LEAVES;
}

/* ---- nbd_handshake.c ------------------------------------------------------------------------- */

// False: no memory.
bool nbd_greet(struct nbd_connection *c);
// Takes what has come as far as it goes.
enum stream_verdict nbd_negotiate(struct nbd_connection *c);
// Sends what is to go of it. 0, -EAGAIN, or another negative errno: the client is gone.
int nbd_out_send(struct nbd_connection *c, instant_ns now);
// The UMA has answered.
void nbd_answer_connect(struct nbd_connection *c);

/* ---- nbd_request.c --------------------------------------------------------------------------- */

// Octets of the header of each.
uint32_t nbd_request_len(const struct nbd_connection *c);
// False: it is none, or more follows than the client may send.
bool nbd_request_parse(const struct nbd_connection *c, const uint8_t *at, struct nbd_asked *ret);
// NULL: there is no such command.
const struct nbd_command_facts *nbd_facts_of(uint16_t command);
// NBD_OK, or why it is refused at the door. `payload` is there if it has no more than NBD_PUSH_MAX
// octets; what it says of the length is in `asked` then.
struct nbd_error nbd_request_check(const struct nbd_connection *c, struct nbd_asked *asked,
                                   const uint8_t *payload);
// A read in parts with a simple reply, which is said to go well when the first part is there.
bool nbd_is_in_one_run(const struct nbd_connection *c, const struct nbd_asked *asked);

/* ---- nbd_answer.c ---------------------------------------------------------------------------- */

// What the client is told of a completion.
struct nbd_error nbd_completion_error(const struct nbd_request *r, enum node_completion completion);
// The error, or (NBD_OK) that it is done and has no data to answer with.
void nbd_answer(struct nbd_request *r, struct nbd_error error);
// What was read: one simple reply, or a chunk for each run of data and each hole.
void nbd_answer_read(struct nbd_request *r);
// A chunk has gone, and the next one follows, once it has begun.
bool nbd_has_more_chunks(const struct nbd_request *r);
void nbd_chunk_begin(struct nbd_request *r);
// A simple reply has begun, and said that all is well.
bool nbd_is_continued(const struct nbd_request *r);
// Which parts of the volume are allocated. False: the device has told of nothing.
bool nbd_answer_extents(struct nbd_request *r);

/* ---- nbd_transmission.c ---------------------------------------------------------------------- */

extern const struct tts_for_cta nbd_for_cta;
// False: no memory.
bool nbd_transmission_init(struct nbd_connection *c);
enum stream_verdict nbd_transmit(struct nbd_connection *c, instant_ns now);
// Where data of a write are received straight into its buffer, and then they have been.
uint8_t *nbd_direct(struct nbd_connection *c, uint32_t *ret_len);
void nbd_received(struct nbd_connection *c, uint32_t len);
// Sends replies. 0, -EAGAIN, or another negative errno: the client is gone.
int nbd_reply(struct nbd_connection *c, instant_ns now);
// The client is gone: transfers under way are over.
void nbd_abandon(struct nbd_connection *c, instant_ns now);
