// The unreliable services: what datagrams (UD) and unreliable connections (UC) have in common
// (InfiniBand Architecture volume 1, sections 9.8.2, 9.8.3). Nothing is acknowledged: a work
// request is over when the sink has taken its last packet; then it is released and settled. What
// finds the sink full waits, and what stands behind it too.
//
// A work request that fails stops the send queue alone: the queue pair is in SQE until the program
// asks for RTS, and receives go on. A receive whose memory is not usable ends the queue pair: ERR.
//
//     ud.h, uc.h               one service each, with a table of base/transport.h
//     unreliable_output.c      work requests become packets
//     unreliable_input.c       what is looked at in any packet, and how receives end
//     unreliable.c             creation, states, what both tables share
//     unreliable_counters.h    what they count
//
// Calls go down this list.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/qp_state.h"
#include "base/time.h"
#include "base/transport.h"
#include "roce/inbound.h"
#include "roce/state.h"
#include "roce/unreliable_counters.h"
#include "wire/roce.h"
#include "wq/wq.h"

// What has become of the packet that was to leave last.
enum unreliable_put {
    UNRELIABLE_PUT_LAST,   // of its message
    UNRELIABLE_PUT_PART,   // more of it follow
    UNRELIABLE_PUT_FULL,   // the sink had no room: nothing has changed
    UNRELIABLE_PUT_FAILED, // the work request has failed
};

// A service embeds this first in a struct of its own.
struct unreliable {
    struct transport transport;
    enum roce_service service;
    struct wq wq;
    struct wq_config config;
    struct qp_event_port events;
    enum qp_state state;
    bool tells_drained;
    uint32_t mtu; // octets of payload in a packet at most

    // Out. Marks are numbers of packets.
    uint32_t psn; // of the next packet
    uint64_t packet_count;
    uint64_t turn_end;        // packet_count at which others have their turn
    uint64_t unsettled_len;   // octets of payload that have left in this turn
    bool is_message_open;     // a part of the message at the head of the send queue has left
    enum unreliable_put last; // in this turn

    struct inbound in; // the message that is arriving; a datagram is whole when it comes
    struct unreliable_counters counters;
};

/* ---- creation, and what stands in the tables as it is ---------------------------------------- */

// The unreliable half of a queue pair, zeroed but for its table. `carries`: one bit per enum
// wqe_opcode. -EINVAL: a capability out of range; -ENOMEM. After a failure as after a success:
// unreliable_fini. In QP_RESET.
int unreliable_init(struct unreliable *u, enum roce_service service, uint32_t carries,
                    const struct wq_config *config, struct qp_event_port events);
void unreliable_fini(struct unreliable *u);

static inline struct unreliable *unreliable_of(struct transport *t)
{
    return (struct unreliable *)t;
}

static inline const struct unreliable *unreliable_look(const struct transport *t)
{
    return (const struct unreliable *)t;
}

void unreliable_silence(struct transport *t);
enum qp_state unreliable_state(const struct transport *t);
struct qp_attributes unreliable_query(const struct transport *t);
int unreliable_may_post(const struct transport *t, unsigned opcode);
void unreliable_on_send_posted(struct transport *t, instant_ns now);
void unreliable_on_receive_posted(struct transport *t, instant_ns now);
bool unreliable_wants_receive(const struct transport *t);
bool unreliable_has_output(const struct transport *t);
instant_ns unreliable_next_deadline(const struct transport *t);
void unreliable_on_deadline(struct transport *t, instant_ns now);
const void *unreliable_counters(const struct transport *t);
void unreliable_counters_add(void *total, const void *counters);
void unreliable_counters_each(const void *counters, counter_each each, void *ctx);

#define UNRELIABLE_TRANSPORT_OPS                                                                  \
    .silence = unreliable_silence, .state = unreliable_state, .query = unreliable_query,          \
    .may_post = unreliable_may_post, .on_send_posted = unreliable_on_send_posted,                 \
    .on_receive_posted = unreliable_on_receive_posted, .wants_receive = unreliable_wants_receive, \
    .has_output = unreliable_has_output, .next_deadline = unreliable_next_deadline,               \
    .on_deadline = unreliable_on_deadline, .counters_len = sizeof(struct unreliable_counters),    \
    .counters = unreliable_counters, .counters_add = unreliable_counters_add,                     \
    .counters_each = unreliable_counters_each

// What of the tables each service has something to add to.
// State, PSN, whether to tell that the send queue is drained. 0; -EINVAL: the table forbids it, or
// the state is not the one that the program takes it for.
int unreliable_modify(struct unreliable *u, const struct qp_change *change, instant_ns now);
bool unreliable_check(const struct unreliable *u);
const char *unreliable_format(const struct unreliable *u, char *buf, size_t len);

/* ---- out ------------------------------------------------------------------------------------- */

// May what has been posted leave? In SQD the rest of a message that has begun.
static inline bool unreliable_may_send(const struct unreliable *u)
{
    return roce_state_facts(u->state)->begins_sends || (u->state == QP_SQD && u->is_message_open);
}

// A turn: as long as unreliable_next says that a message is to leave, one of the two behind it.
void unreliable_begin_turn(struct unreliable *u, instant_ns now);
bool unreliable_next(struct unreliable *u, struct transport_work *ret);
// The octets [offset, offset + len) of the message leave, behind the headers in `packet`: its
// opcode, solicited, destination, and what follows the BTH.
void unreliable_put_packet(struct unreliable *u, const struct transport_work *work,
                           struct roce_packet *packet, uint64_t offset, uint32_t len,
                           const struct datagram_path *path, const struct datagram_sink *sink);
// The work request fails.
void unreliable_fail(struct unreliable *u, enum wc_status status);
// What has left is released and settled; after a failure the send queue stops.
void unreliable_end_turn(struct unreliable *u);

/* ---- in -------------------------------------------------------------------------------------- */

// A packet has come: what is looked at first in any. `*ret` is complete if it is accepted so far.
enum unreliable_refusal unreliable_on_packet(struct unreliable *u, struct span octets,
                                             struct roce_packet *ret, instant_ns now);
// What became of it is counted.
void unreliable_settle_packet(struct unreliable *u, const struct roce_packet *packet,
                              enum unreliable_refusal refusal);

// Octets into a claimed receive. Anything but ACCEPTED: it has completed with an error, and where
// its memory is not usable, the queue pair has ended.
enum unreliable_refusal unreliable_place(struct unreliable *u, struct recv_wqe *wqe,
                                         struct scatter *scatter, uint64_t offset,
                                         struct span payload);
// A claimed receive is at fault: it completes with this.
void unreliable_fail_receive(struct unreliable *u, struct recv_wqe *wqe, enum wc_status status);
// The receive completes with its message, which the caller has filled in.
void unreliable_complete_receive(struct unreliable *u, struct recv_wqe *wqe, bool is_solicited);

/* ---- states ---------------------------------------------------------------------------------- */

// The work request at the head of the send queue has failed, and nothing that was put is unsettled.
void unreliable_stop_sends(struct unreliable *u);
// A message that has begun has left as a whole.
void unreliable_follow_drained(struct unreliable *u);
// Nothing goes on: by what has happened here.
void unreliable_end(struct unreliable *u);
// The last thing in every door: a completion that found its queue full ends the queue pair.
void unreliable_follow_overrun(struct unreliable *u);
