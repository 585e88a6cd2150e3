// Work queue entries: what the program posted, and how far the engine has come with it. The
// program's side fills every field above `progress` of a slot it took; the engine writes `progress`
// only. Values equal those of the verbs (IBV_WR_*, IBV_SEND_*), which verbs/ asserts.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/check.h"
#include "base/sge.h"
#include "base/time.h"
#include "cq/cqe.h"
#include "wq/read_task.h"

struct wq;

enum wqe_opcode {
    WQE_RDMA_WRITE = 0,
    WQE_RDMA_WRITE_WITH_IMM = 1,
    WQE_SEND = 2,
    WQE_SEND_WITH_IMM = 3, // a transport may refuse it
    WQE_RDMA_READ = 4,
    WQE_ATOMIC_CMP_AND_SWP = 5,
    WQE_ATOMIC_FETCH_AND_ADD = 6,
    WQE_LOCAL_INV = 7,
    WQE_BIND_MW = 8,
    WQE_SEND_WITH_INV = 9,
    WQE_OPCODE_COUNT,
};

enum wqe_flags {
    WQE_FENCE = 1,     // starts when all earlier reads and atomics of the queue are complete
    WQE_SIGNALED = 2,  // raises a completion; without it only a failure does
    WQE_SOLICITED = 4, // asks the peer for a solicited event
    WQE_INLINE = 8,    // the payload is in inline_data, sge_count is not looked at
    // None of the verbs; Reads only:
    WQE_MAY_PASS = 1 << 15, // what is left of Reads before it; WEFT_READ_MAY_PASS
    // ... Sends only:
    WQE_ADVERTISE = 1 << 16, // opens and advertises `command` of the one-shot table
    WQE_CLOSE = 1 << 17,     // closes the peer's one-shot region `imm_or_inv`; WEFT_ONESHOT_CLOSES
};

struct wqe_bind {
    uint32_t mw_rkey; // the window's key from now on
    uint32_t lkey;    // the region
    uint64_t addr;
    uint64_t length;
    uint32_t access; // enum mem_access
};

enum send_phase {
    SEND_QUEUED, // not all of its messages have left
    SEND_SENT,   // waits for the transport to take what was put, or for its requests' answers
    SEND_DONE,   // its completion is due as soon as all before it are complete
};

// The engine's.
struct send_progress {
    enum send_phase phase;
    uint32_t status;        // SEND_DONE: IBV_WC_SUCCESS or why not
    uint64_t end_mark;      // SEND_SENT: what the transport has to reach for it to be over
    uint64_t note;          // the transport's own, by which it knows the entry again; 0 at first
    uint32_t message_count; // messages of it that were put
    bool has_opened;        // WQE_ADVERTISE: the command's region was opened
    struct read_task task;  // reads, atomics, flushing writes: how far their requests have come
};

struct send_wqe {
    uint64_t wr_id;
    enum wqe_opcode opcode;
    uint32_t flags;      // enum wqe_flags
    uint32_t imm_or_inv; // immediate data (network order), or the key to invalidate or close (host
                         // order)
    union {
        uint32_t rkey;
        uint32_t command; // WQE_ADVERTISE: its index
    };
    union {
        uint64_t remote_addr; // of what has one
        void *window;         // WQE_BIND_MW: the poster's own, who tells it of its key
    };
    union {
        struct {
            uint64_t compare_add; // CMP_AND_SWP: compare; FETCH_AND_ADD: add
            uint64_t swap;
        };
        struct wqe_bind bind;
    };
    uint32_t sge_count;
    uint64_t length;         // octets of payload, inline or in the elements: their sum
    instant_ns posted_at_ns; // 0: it is not measured (wq/latency.h)
    struct send_progress progress;
    union {
        struct sge sge[0]; // sge_count elements
        uint8_t inline_data[0];
    };
};
// A queue of short messages is what most of an idle connection's memory is.
STATIC_CHECK(offsetof(struct send_wqe, inline_data) == 192);

// The engine's: what the message that took this receive was. It waits here until the completion is
// polled; only then is the receive free again.
struct recv_message {
    struct cqe_source source;
    struct wq *wq; // whose message it was
    uint32_t opcode;
    uint32_t byte_len;
    uint32_t wc_flags;
    uint32_t imm_or_inv;
    union { // as in struct cqe
        uint64_t reference;
        struct {
            uint32_t src_qp, sl;
        };
    };
};

enum { RECV_TAIL_WORDS = 6 };

struct recv_wqe {
    uint64_t wr_id;
    uint32_t sge_count;
    struct recv_message message;
    uint64_t tail[RECV_TAIL_WORDS]; // the transport's own, while a message is in it
    struct sge sge[];
};
