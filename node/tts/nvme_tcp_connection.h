// One NVMe/TCP connection, for the files of that TTS: its stream, the PDU that is coming, the PDUs
// that are to go.
//
//     nvme_tcp.c             the TTS as the UMA sees it; what the server of streams asks
//     nvme_tcp_receive.c     PDUs from the host: headers, checks, data on their way into place
//     nvme_tcp_send.c        PDUs to the host; what the controllers ask for
//     nvme_tcp_connection.c  a connection becomes a queue, and leaves; its capsules
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "format/nvme_tcp_wire.h"
#include "listen/address.h"
#include "node/nvme/controller.h"
#include "node/stream/server.h"
#include "node/tts/nvme_tcp.h"
#include "text/addresses.h"

enum nvme_tcp_limits {
    NVME_TCP_CONNECTION_MAX = 2560,
    NVME_TCP_CONNECTION_OF_HOST_MAX =
        1280, // from one address: 64 hosts with 16 I/O queues and more
    NVME_TCP_COMMAND_COUNT = NVME_QUEUE_DEPTH_MAX,
    NVME_TCP_IN_LEN = 64 << 10,
    NVME_TCP_DATA_MAX = NVME_DATA_LEN_MAX, // of one H2CData PDU
    NVME_TCP_ALIGN_MAX = 4 * (NVME_TCP_PDA_MAX + 1),
    NVME_TCP_HEAD_MAX = 2 * NVME_TCP_HEADER_MAX,
    NVME_TCP_TAIL_MAX = 2 * NVME_TCP_DIGEST_LEN + NVME_TCP_RESP_HLEN,
};

enum nvme_tcp_state {
    NVME_TCP_WAITS_IC, // for ICReq
    NVME_TCP_OPEN,
    NVME_TCP_TERMINATED, // C2HTermReq is queued or out; what comes is thrown away until the host
                         // ends the connection, so that no reset overtakes the reason
    NVME_TCP_LEAVING,    // nothing is read any more; what is queued is sent
    NVME_TCP_ENDED,      // the socket is closed; commands are under way
};

// Octets on their way out: a head, data, a tail.
struct nvme_tcp_out {
    struct list_link link;
    uint8_t head[NVME_TCP_HEAD_MAX];
    uint8_t tail[NVME_TCP_TAIL_MAX];
    const uint8_t *data;
    uint32_t head_len, data_len, tail_len;
    uint64_t sent;
};

enum nvme_tcp_stage {
    NVME_TCP_FREE,
    NVME_TCP_PENDING,    // at the controllers
    NVME_TCP_IN_CAPSULE, // fetch: data come, or came, with the capsule
    NVME_TCP_ASKING,     // fetch: an R2T is to be sent
    NVME_TCP_ASKED,      // and has been: data come as H2CData
    NVME_TCP_DELIVERING, // deliver: data are to be sent, and others behind them
    NVME_TCP_ANSWERING,  // the response is to be sent
};

// A capsule, until its response is out. Its place in the connection's table is the tag of its R2T.
struct nvme_tcp_command {
    struct nvme_tcp_connection *connection;
    struct nvme_command *command; // while the controllers have lent it
    enum nvme_tcp_stage stage;
    bool is_staged; // the data in the capsule are there, in the staging area
    bool is_bad;    // a data digest was wrong
    uint16_t cid;
    uint32_t filled; // ASKED: octets that have come
    struct nvme_tcp_out out;
    struct list_link link; // free
};

// Data of the PDU under way: skip, then `to`, then drop.
struct nvme_tcp_incoming {
    struct nvme_tcp_command *command; // whose they are; NULL: nobody's
    uint32_t left;                    // octets of data still to come, of all three
    uint32_t skip;
    uint8_t *to;
    uint32_t to_len;
    bool has_digest;
    bool is_on;     // such a PDU is under way
    bool is_direct; // in-capsule data: to where the device takes them from
    uint32_t crc;
};

struct nvme_tcp_connection {
    struct stream stream; // silent until the Connect, or the end of leaving
    struct nvme_tcp *tcp;
    enum nvme_tcp_state state;
    instant_ns connect_by;
    bool is_full; // a capsule waits for room
    bool has_header_digest, has_data_digest;
    uint32_t align;       // of data that the host receives
    uint32_t asked_count; // commands whose data are awaited

    struct nvme_tcp_incoming incoming;
    struct list_link outs;
    struct nvme_tcp_out control; // ICResp, C2HTermReq
    struct list_link free;
    // From ICReq on; NULL before.
    struct nvme_queue *queue;
    struct nvme_tcp_command *commands; // NVME_TCP_COMMAND_COUNT
    uint8_t *staging;                  // NVME_TCP_IN_CAPSULE_MAX octets for each command
    uint8_t *scratch;
};

struct nvme_tcp {
    struct nvme_tcp_parts parts;
    struct stream_server server;
    struct address_end ends[ADDRESSES_COUNT_MAX]; // of the listeners of the server
    struct nvme_tcp_counters counters;            // but for those of the server
};

/* ---- nvme_tcp_receive.c ---------------------------------------------------------------------- */

// Takes what has come as far as it goes, one step.
enum stream_verdict nvme_tcp_take(struct nvme_tcp_connection *c, instant_ns now);
// Where data may be received straight into place: `*ret_len` octets; NULL: nowhere now.
uint8_t *nvme_tcp_direct(const struct nvme_tcp_connection *c, uint32_t *ret_len);
// So many have been.
void nvme_tcp_received(struct nvme_tcp_connection *c, uint32_t len);

/* ---- nvme_tcp_send.c ------------------------------------------------------------------------- */

extern const struct nvme_transport nvme_tcp_transport;
void nvme_tcp_send_ic_resp(struct nvme_tcp_connection *c);
// The host has broken the protocol: says so, at octet or value `fei`, and is done with it.
void nvme_tcp_send_term(struct nvme_tcp_connection *c, const uint8_t *header, uint32_t header_len,
                        enum nvme_tcp_fatal fes, uint32_t fei);
// Sends what is queued. 0, -EAGAIN, or another negative errno: the host is gone.
int nvme_tcp_flush(struct nvme_tcp_connection *c, instant_ns now);

/* ---- nvme_tcp_connection.c ------------------------------------------------------------------- */

// The host has said ICReq: the connection becomes a queue. False: no memory.
bool nvme_tcp_open(struct nvme_tcp_connection *c);
// Nothing is read any more; when all is sent the connection ends.
void nvme_tcp_leave(struct nvme_tcp_connection *c);
// The controllers want the data of a capsule that has come.
void nvme_tcp_fetch_in_capsule(struct nvme_tcp_command *t, instant_ns now);
// Gives the command back.
void nvme_tcp_done(struct nvme_tcp_command *t, enum nvme_status status, instant_ns now);
// The connection is gone: everything that is lent goes back.
void nvme_tcp_abandon(struct nvme_tcp_connection *c, instant_ns now);
