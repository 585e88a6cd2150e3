// iSCSI over one-shot RDMA (docs/iscsi.md): a connection as a queue pair, for its files. A Send is
// a PDU; the memory of a command is lent by the Send that it comes in, and closed by the Send that
// answers it; data move by RDMA.
//
//     iscsi_rdma.c           the TTS, connection requests, a connection's life
//     iscsi_rdma_transfer.c  PDUs, data
//
// The life of a command. The response leaves behind the data as the trailer of their request, so
// the initiator has all octets when it has the response.
//
//     Send ──▶ task ──respond──▶ Send that closes ──completion──▶ over
//               │  └──fetch────▶ RDMA Read ──completion──▶ task
//               └─────deliver──▶ RDMA Write, and the Send behind it ──completion──▶ over
#pragma once

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/manager.h>

#include "base/list.h"
#include "base/time.h"
#include "format/iscsi_pdu.h"
#include "node/fabric/fabric.h"
#include "node/fabric/pair.h"
#include "node/iscsi/connection.h"
#include "node/iscsi/iscsi.h"
#include "node/scsi/device.h"
#include "node/scsi/sense.h"
#include "node/tts/iscsi_rdma.h"

enum iscsi_rdma_limits {
    ISCSI_PAIR_MAX = 512, // connections, if the operator names no other number
    ISCSI_STAG_LEN = 4,   // behind the PDU, where no header carries it
    ISCSI_RECEIVE_COUNT = ISCSI_TASK_COUNT + ISCSI_CONTROL_COUNT,
    ISCSI_RECEIVE_LEN =
        ISCSI_HEADER_LEN + ISCSI_PAD * UINT8_MAX + ISCSI_COLLECTED_MAX + ISCSI_STAG_LEN,
    ISCSI_POST_COUNT = ISCSI_TASK_COUNT + ISCSI_CONTROL_COUNT,
    ISCSI_RESPONSE_LEN = ISCSI_HEADER_LEN + ISCSI_SENSE_LEN_LEN + SCSI_SENSE_EMIT_MAX + ISCSI_PAD,
    ISCSI_CONTROL_LEN = ISCSI_HEADER_LEN + ISCSI_COLLECTED_MAX,
};

// A Send of the initiator's.
struct iscsi_receive {
    uint8_t *octets;
    uint32_t len;
    bool is_advertised;    // the header named memory,
    uint32_t stag;         // which is this
    struct list_link link; // idle or waiting
};

// A Send of ours: one for each task and each control, by their places.
struct iscsi_post {
    struct iscsi_out *out;
    uint8_t *octets;
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct list_link link; // sending
};

// What a command has lent, and what moves between it and ours.
struct iscsi_loan {
    bool is_lent;
    uint32_t stag;
    bool is_fetching; // a Read is under way
    struct weft_rdma_request request;
    struct weft_rdma_element element;
    struct weft_rdma_buffer buffer;
    struct ibv_mr
        *mr; // of the device's own data, for as long as they move; NULL: they are the pool's
};

struct iscsi_rdma_pair {
    struct iscsi_connection c;
    struct fabric_pair pair;
    struct iscsi_rdma *rdma;
    instant_ns login_until;

    uint8_t *memory; // of receives, then posts
    struct ibv_mr *mr;
    struct iscsi_receive *receives;
    struct iscsi_post *posts;
    struct iscsi_loan *loans;  // by the places of their tasks
    struct list_link idle;     // receives to be posted
    struct list_link waiting;  // PDUs that there is no room for
    struct iscsi_receive *now; // the one that is being taken
    bool has_fetches;          // RDMA Reads that leave when the batch ends
};

#define ISCSI_RDMA_COUNTERS(X)                                                \
    X(unlent, "connections ended because a command with data lent no memory") \
    X(pdus, "PDUs that have come")                                            \
    X(oneshots, "of these, whose header advertised memory")                   \
    X(closes, "responses that closed the memory of their command")            \
    X(fetched, "octets of data by RDMA Read")                                 \
    X(delivered, "octets of data by RDMA Write")

struct iscsi_rdma_counters {
#define X(name, text) uint64_t name;
    ISCSI_RDMA_COUNTERS(X)
#undef X
};

struct iscsi_rdma {
    struct iscsi_door door;
    struct fabric fabric;
    struct iscsi_rdma_counters counters;
};

static inline struct iscsi_rdma_pair *iscsi_pair_of(struct fabric_pair *p)
{
    return LIST_ENTRY(p, struct iscsi_rdma_pair, pair);
}

static inline struct iscsi_rdma_pair *iscsi_pair_of_connection(struct iscsi_connection *c)
{
    return LIST_ENTRY(c, struct iscsi_rdma_pair, c);
}

/* ---- iscsi_rdma_transfer.c ------------------------------------------------------------------- */

extern const struct scsi_transport iscsi_rdma_transport;
// As struct iscsi_carrier has it.
void iscsi_pair_on_command(struct iscsi_connection *c, const struct iscsi_header *h,
                           struct iscsi_task *task);
// As struct fabric_protocol has them.
void iscsi_pair_on_received(struct fabric_pair *p, const struct ibv_wc *wc, instant_ns now);
void iscsi_pair_on_sent(struct fabric_pair *p, const struct ibv_wc *wc);
void iscsi_pair_receives_post(struct fabric_pair *p);
void iscsi_pair_retry(struct fabric_pair *p, instant_ns now);
bool iscsi_pair_send(struct fabric_pair *p, instant_ns now);
void iscsi_pair_abandon(struct fabric_pair *p, instant_ns now);
