// One side of the example over verbs: a connection, its queue pair and completion queue, registered
// room for its messages, and a count of the calls into the library.
//
// A message is an iSCSI PDU. Where the STag does not travel in the header of the Send, a trailer
// stands behind the PDU and says where the initiator's memory is.
#pragma once

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/oneshot.h>

#include "examples/iscsi.h"
#include "examples/target.h"

// How the initiator makes the memory of a command reachable, and who ends that.
enum way {
    WAY_MR,      // a region per command; the initiator deregisters it
    WAY_MR_INV,  // the same; the target's Send invalidates it, where the RNIC lets it
    WAY_MW1,     // a region and a type 1 window per command; the initiator unbinds and deregisters
    WAY_MW2,     // a type 2 window per command, bound in front of the Send; the target's Send
                 // invalidates it
    WAY_ONESHOT, // one post opens it, the target's Send closes it
    WAY_COUNT,
};
extern const char *const way_names[WAY_COUNT];

enum {
    MESSAGE_OFF_STAG = ISCSI_PDU_LEN, // four octets, then four of zero
    MESSAGE_OFF_TO = MESSAGE_OFF_STAG + 8,
    MESSAGE_MAX_LEN = MESSAGE_OFF_TO + 8,
};

struct side {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_cq *cq; // receives, and Sends too if send_cq is the same
    struct ibv_cq *send_cq;
    struct ibv_mr *mr; // of `messages`
    uint8_t *messages; // sends, then receives: `depth` and 2 * `depth` of MESSAGE_MAX_LEN
    unsigned depth;
    enum way way;
    bool has_oneshot; // this side's RNIC has it, whatever the peer's has
    struct weft_oneshot_calls oneshot;
    uint64_t calls, completions; // into the library since the start; polls are not counted
    uint64_t sends;              // since the last signalled one
};

// Prints the line, with errno if it is set, and exits with status 1.
void side_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

// Waits for the next event, which must be of this type. The caller acknowledges it.
struct rdma_cm_event *side_event(struct side *side, enum rdma_cm_event_type type);

// Makes queue pair, completion queue and messages on side->id, and the command table if there is
// such a thing. Posts this many receives, at most 2 * depth.
void side_prepare(struct side *side, unsigned receive_count, bool has_send_cq);
void side_unprepare(struct side *side); // the connection has ended

// Address and port as users write them; false: no such address.
bool side_address(const char *host, const char *port, struct sockaddr_in *ret);

static inline uint8_t *side_send_message(const struct side *side, unsigned slot)
{
    return side->messages + (size_t)slot * MESSAGE_MAX_LEN;
}
static inline uint8_t *side_receive_message(const struct side *side, uint64_t index)
{
    return side->messages + (side->depth + index) * MESSAGE_MAX_LEN;
}

// Work requests that leave with one call: side_chain_post. The lists are the caller's.
struct chain {
    struct ibv_send_wr *wrs;
    struct ibv_sge *sges; // one for each
    unsigned count;
};
// The next one, zeroed but for its element, which is of no octets.
struct ibv_send_wr *chain_add(struct chain *chain);
void side_chain_post(struct side *side, struct chain *chain);

struct ibv_sge side_sge(const struct side *side, const uint8_t *message, uint32_t len);
// Receives leave together too.
struct receives {
    struct ibv_recv_wr *wrs;
    struct ibv_sge *sges; // one for each
    unsigned count;
};
void receives_add(struct side *side, struct receives *receives, uint64_t index);
void side_receives_post(struct side *side, struct receives *receives);
// Every few Sends one has to be signalled, or the send queue of a usual RNIC never empties.
unsigned side_send_flags(struct side *side);

// The trailer.
void message_put_memory(uint8_t *message, struct target_memory memory);
struct target_memory message_get_memory(const uint8_t *message);
