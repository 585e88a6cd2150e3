// iSCSI over TCP: a connection as a stream of octets, for its files.
//
//     iscsi_tcp.c          the TTS, what its server of streams asks a connection
//     iscsi_tcp_receive.c  PDUs from the initiator: headers, checks, data on their way into place
//     iscsi_tcp_data.c     data of commands: what comes unasked, R2T, Data-In
//     iscsi_tcp_send.c     PDUs to the initiator
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "node/scsi/device.h"
#include "node/stream/server.h"
#include "node/stream/stream.h"
#include "node/tts/iscsi_tcp.h"

enum iscsi_tcp_limits {
    ISCSI_CONNECTION_MAX = 1024,
    ISCSI_CONNECTION_OF_HOST_MAX = 512, // from one address
    ISCSI_IN_LEN = 64 << 10,
};

// Data of the PDU under way.
struct iscsi_incoming {
    struct iscsi_task *task; // whose they are; NULL: nobody's
    uint8_t *collected;      // or those of a PDU that is looked at as a whole, and is long
    uint32_t collected_len;  // of them, so far
    uint32_t left;           // octets of data still to come,
    uint32_t pad_left;       // and of padding
    bool is_on;
    bool has_digest;
    bool is_asked; // by R2T
    bool is_final;
    uint32_t crc;
    uint8_t head[ISCSI_HEADER_LEN]; // with a digest: what a Reject shows; and with `collected`
};

struct iscsi_stream {
    struct iscsi_connection c;
    struct stream stream;
    struct iscsi_incoming incoming;
    unsigned asked_count; // tasks whose data are awaited
};

struct iscsi_tcp {
    struct iscsi_door door;
    struct stream_server server;
};

static inline struct iscsi_stream *iscsi_stream_of(struct iscsi_connection *c)
{
    return LIST_ENTRY(c, struct iscsi_stream, c);
}

/* ---- iscsi_tcp.c ----------------------------------------------------------------------------- */

extern const struct iscsi_carrier iscsi_tcp_carrier;

/* ---- iscsi_tcp_receive.c --------------------------------------------------------------------- */

// Takes what has come as far as it goes, one step.
enum stream_verdict iscsi_take(struct iscsi_stream *cs, instant_ns now);
// Where data may be received straight into place: `*ret_len` octets; NULL: nowhere now.
uint8_t *iscsi_direct(const struct iscsi_stream *cs, uint32_t *ret_len);
// What has come of a PDU that will not come is dropped.
void iscsi_incoming_drop(struct iscsi_stream *cs);
// So many have been.
void iscsi_received(struct iscsi_stream *cs, uint32_t len);

/* ---- iscsi_tcp_data.c ------------------------------------------------------------------------ */

extern const struct scsi_transport iscsi_tcp_transport;
// The data behind this header go to the task, or to nobody.
void iscsi_incoming_begin(struct iscsi_connection *c, const struct iscsi_header *h,
                          struct iscsi_task *task);
void iscsi_take_data(struct iscsi_connection *c, const struct iscsi_header *h);
// Where the next octets of its data go, and how many of them do; NULL: they are dropped.
uint8_t *iscsi_task_place(struct iscsi_task *task, uint32_t *ret_len);
// A PDU of its data has come, whole, or with a wrong digest.
void iscsi_task_received(struct iscsi_task *task, const struct iscsi_incoming *incoming,
                         bool is_bad, instant_ns now);
// It has been sent, as far as it was formed.
void iscsi_task_sent(struct iscsi_task *task, instant_ns now);
// As struct iscsi_carrier has them.
void iscsi_stream_on_command(struct iscsi_connection *c, const struct iscsi_header *h,
                             struct iscsi_task *task);
void iscsi_stream_on_task_free(struct iscsi_task *task);

/* ---- iscsi_tcp_send.c ------------------------------------------------------------------------ */

// Sends what is queued. 0, -EAGAIN, or another negative errno: the initiator is gone.
int iscsi_flush(struct iscsi_stream *cs, instant_ns now);
