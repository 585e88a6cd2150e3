// What the files of the UDP datagram link share.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/lingering.h"
#include "base/list.h"
#include "base/port_datagram.h"
#include "base/span.h"
#include "base/time.h"
#include "link/datagram/door.h"
#include "link/datagram/lane.h"
#include "link/datagram/lanes.h"
#include "link/datagram/onward.h"
#include "link/datagram/share.h"
#include "link/datagram/udp.h"
#include "link/datagram/way.h"
#include "link/fault_model.h"
#include "link/local/inside.h"
#include "link/local/keys.h"
#include "wire/icrc.h"
#include "wire/icrc_id.h"
#include "wire/icrc_known.h"

enum {
    DATAGRAM_TRAINS_MAX = 256,       // staged
    DATAGRAM_TRAIN_PACKETS_MAX = 64, // of the kernel: UDP_MAX_SEGMENTS
    // ... in one of ours: 60 of 1 KiB, 30 of 2 KiB and 15 of 4 KiB, so that a turn of answers
    // (roce/rc.h) and a window between weft ends (roce/rc_greeting.c) are several whole ones.
    DATAGRAM_TRAIN_PACKETS = 60,
    DATAGRAM_TRAIN_LEN_MAX = 63500,  // octets
    DATAGRAM_BURST_LEN = 24 << 10,   // octets that leave before more is staged
    DATAGRAM_STAGE_LEN = 512 << 10,  // octets
    DATAGRAM_MESSAGES_MAX = 4,       // datagrams, or trains, in one system call
    DATAGRAM_MESSAGE_LEN = 64 << 10, // octets; none that comes together is longer
    DATAGRAM_REPORTS_MAX = 16,       // of epoll, at a look
};

#define DATAGRAM_UDP_COUNTERS(X)                                                        \
    X(packets_in, "packets received")                                                   \
    X(packets_out, "packets sent")                                                      \
    X(trains_in, "messages received, each a packet or several alike")                   \
    X(trains_out, "messages sent, likewise")                                            \
    X(waits, "times that a socket had no room")                                         \
    X(not_sent, "packets that the system would not send")                               \
    X(too_long, "of them, those that are too long for their path")                      \
    X(not_open, "of them, those from an address that is not open")                      \
    X(bad_lengths, "packets that are no BTH and ICRC long, or too long, or not padded") \
    X(icrc_wrong, "packets whose ICRC was wrong")                                       \
    X(icrc_unchecked, "packets whose ICRC is right if a stranger's identification is")  \
    X(not_ours, "packets to numbers of no process")                                     \
    X(handed_on, "packets given to the process whose they are")                         \
    X(handed_on_lost, "packets that it did not take")                                   \
    X(handed_in, "packets that another process gave")                                   \
    X(estates, "processes that ended without a word, and whose last packets were sent") \
    X(buffer_overflows, "packets that the receive buffer had no room for")

struct datagram_udp_counters {
#define X(name, text) uint64_t name;
    DATAGRAM_UDP_COUNTERS(X)
#undef X
};

// Whose packets a socket receives.
enum datagram_inlet_kind {
    DATAGRAM_INLET_SLOT,       // those of this process's queue pairs
    DATAGRAM_INLET_MANAGEMENT, // those of QP 1, for all processes
    DATAGRAM_INLET_GROUP,      // those of a multicast group
    DATAGRAM_INLET_SHARE,      // what other processes say
    DATAGRAM_INLET_ROOM,       // nothing: whether there is room to send
    DATAGRAM_INLET_WAKE,
    DATAGRAM_INLET_ESTATE,   // nothing: whether another process has ended
    DATAGRAM_INLET_HOST,     // that addresses of this host have come or gone
    DATAGRAM_INLET_LANE_OUT, // nothing: whether the process that a lane leads to has ended
    DATAGRAM_INLET_LANE_IN,  // octets that wake, of a process that a lane comes from
};

// A descriptor that is waited for.
struct datagram_inlet {
    struct list_link ready; // in the link's list, or in none
    enum datagram_inlet_kind kind;
    int fd;
    struct in6_addr local; // where its packets are sent to
    uint32_t dropped;      // by the system, as it said last
};

// What is known of the receive buffer of a process, this one or another that has the address open.
struct datagram_room {
    uint32_t left;       // octets that may be put without another look
    uint32_t taken;      // ... that were in it at the last
    instant_ns taken_ns; // since when it is as many
    uint32_t looks;      // ... that found as many
};

// What the socket that sends says for packets that say nothing themselves.
struct datagram_usual {
    uint8_t traffic_class;
    uint8_t hop_limit;   // 0: as the system has it
    unsigned else_count; // messages in a row that had to say something else
};

// A local address that is open.
struct datagram_place {
    struct list_link link;
    struct in6_addr local;
    uint32_t scope_id;
    unsigned opened; // how often
    struct datagram_door door;
    struct datagram_inlet slot, management, room; // the last is what sends
    uint16_t tx_port;
    struct datagram_usual usual;
    bool wants_room;
    struct datagram_room rooms[DATAGRAM_SHARE_SLOTS]; // of who receives here
};

// A group that was joined at a local address.
struct datagram_group {
    struct list_link link;
    struct in6_addr local;
    unsigned joined; // how often
    struct datagram_inlet inlet;
};

// What this process serves, as others can find out.
struct datagram_service {
    struct list_link link;
    uint64_t service;
    struct in6_addr local; // or a wildcard
    int fd;
};

// What is to be sent when this process has ended without a word (will.c).
struct datagram_will {
    int memory_fd;    // the packets, by place; -1: there is none yet
    int alive_fd;     // a pipe's end to write: nobody has it when the process has ended
    int token_fd;     // ... to read: one octet, for the one who is to send
    uint64_t unshown; // a bit for each slot whose process had no room to be told
};

// The will of another process.
struct datagram_estate {
    struct datagram_inlet inlet; // its token_fd; -1: it has shown none
    int memory_fd;
};

// Staged packets of one path that follow each other: each as long as the first, the last perhaps
// shorter.
struct datagram_train {
    struct datagram_place *place;
    struct datagram_path path;
    uint32_t dest_qp;
    uint32_t at, len;     // octets in the stage
    uint16_t segment_len; // of the first packet, with its ICRC
    uint16_t count;
    uint16_t sent; // of those that leave one by one
    bool is_single;
    uint32_t icrc_state; // in front of the BTH of a packet of segment_len, of identification 0
};

struct datagram_stage {
    uint8_t *octets; // DATAGRAM_STAGE_LEN
    uint32_t len;
    struct datagram_train trains[DATAGRAM_TRAINS_MAX];
    unsigned count, first; // trains; the first that has not left
    bool is_blocked;       // a socket had no room
    bool was_full;         // a packet was not taken
};

// A message that was read: a packet, or several that came together.
struct datagram_arrival {
    enum datagram_inlet_kind kind;
    struct datagram_rx rx; // what all have in common
    struct mspan left;     // packets, ICRCs included
    size_t segment_len;
    unsigned index;      // of the next packet
    uint32_t icrc_state; // in front of the BTH of a packet of icrc_len octets, of identification 0
    size_t icrc_len;     // ICRC included; 0: of none
};

struct datagram_input {
    uint8_t *buffers; // twice DATAGRAM_MESSAGES_MAX of DATAGRAM_MESSAGE_LEN octets
    unsigned half;    // of which what was read last stands in, and may have been handed up
    unsigned wanted;  // messages, with the next call: one, which is quick, where there was none
    struct datagram_inlet *last; // that had something; NULL: none is known
    struct datagram_arrival arrivals[DATAGRAM_MESSAGES_MAX];
    unsigned count, at;
    unsigned given_first;       // messages of other processes that may come before these
    struct list_link ready;     // inlets
    instant_ns now_ns;          // of this `receive`
    uint64_t others;            // a bit for each slot that another process was found in,
    instant_ns others_until_ns; // which is believed until then
    struct datagram_share_message message;
    bool has_message; // a packet that another process gave, not handed up yet
};

// To the process in a slot (lanes.h).
struct datagram_lane_out {
    struct datagram_inlet inlet; // our end of its socket; -1: there is none
    uint8_t *memory;             // NULL: there is none
    struct lane_writer writer;
    struct datagram_way *way; // past it; NULL: nothing was written so
    unsigned offer;           // which of ours it is
    pid_t process; // who has taken it, as the kernel says; 0: nobody has said that he did
    bool is_open;
    unsigned put_count;        // packets that went by UDP meanwhile
    instant_ns retry_ns;       // before that none is offered
    struct datagram_room room; // since when it is full
};

// From the process in a slot.
struct datagram_lane_in {
    struct datagram_inlet inlet;
    struct list_link turn; // in the link's list, while it has memory
    uint8_t *memory;
    struct lane_reader reader;
    instant_ns fresh_until_ns; // 0: it is not fresh; INSTANT_NEVER: nothing has come
    bool is_over;              // nobody writes any more
    bool is_shut;              // ... nor is to, since it is broken
    pid_t process;             // who does
    unsigned offer;            // which of his it is
    unsigned tells_left;       // that it was taken, at most; 0: it is said, or is not to be
    struct local_inside inside[LANE_SLOTS];
    uint64_t leaver; // the opening by which somebody was in for long; 0: nobody is known to be
};

struct datagram_lanes {
    struct datagram_lane_out out[DATAGRAM_SHARE_SLOTS];
    struct datagram_lane_in in[DATAGRAM_SHARE_SLOTS];
    struct list_link turns; // those in, who was not taken from longest first
    struct list_link ways;  // of lanes that have ended: somebody writes past them
    struct local_own_keys own_keys;
    uint64_t openings;             // of gates, of all times
    unsigned offers;               // of lanes out, likewise
    unsigned fresh_count;          // of them
    uint64_t unpublished;          // a bit for each slot whose lane out has something unshown
    uint8_t *copies;               // LANE_COPIES_LEN; made with the first lane in
    struct datagram_lane_in *lent; // of what was handed up last; NULL: of none
    bool had_turn;                 // what was handed up last came by a lane
    atomic_bool have_lingered;     // before this wait
    instant_ns moved_ns;           // something has come, the last time
    instant_ns moved_seen_ns;
    bool is_lingering; // since then
    struct lingering lingering;
    struct datagram_lane_counters counters;
};

struct datagram_udp {
    struct datagram_link base;
    struct datagram_udp_config config;
    struct datagram_share share;
    struct datagram_onward onward;
    struct list_link places, groups, services;
    int epoll_fd, wake_fd;
    bool has_gso;
    unsigned polls;             // since the last look at everything
    bool is_to_look_around;     // at the next look
    bool has_neighbour;         // by UDP packets came from an address of this host since then
    atomic_bool has_waited;     // since then
    atomic_bool is_waiting;     // somebody may wait, or does
    instant_ns polled_ns;       // the last time
    struct lingering lingering; // before a sleep
    uint64_t rcvbuf_len;        // the least of its sockets
    struct icrc_ids ids;
    struct icrc_known known_out, known_in; // apart: each way has its ports
    struct datagram_stage stage;
    struct datagram_input in;
    struct datagram_inlet share_inlet, wake_inlet;
    struct datagram_inlet host_inlet; // fd -1: nobody tells
    bool has_host_changed;            // and nobody has been told
    struct datagram_will will;
    struct datagram_estate estates[DATAGRAM_SHARE_SLOTS]; // of the processes in these slots
    struct datagram_lanes lanes;
    instant_ns looked_ns;      // at sockets, the last time
    struct fault_model faults; // of which it does what changes octets
    struct datagram_udp_counters counters;
};

static inline struct datagram_udp *datagram_udp_of(const struct datagram_link *link)
{
    return (struct datagram_udp *)link;
}

// What wakes is left for him.
static inline bool datagram_is_waited_for(struct datagram_udp *d)
{
    return atomic_load_explicit(&d->is_waiting, memory_order_acquire);
}

static inline bool datagram_addr_is(const struct in6_addr *a, const struct in6_addr *b)
{
    return IN6_ARE_ADDR_EQUAL(a, b);
}

// NULL: it is not open.
static inline struct datagram_place *datagram_place_find(const struct datagram_udp *d,
                                                         const struct in6_addr *local)
{
    for (struct list_link *l = d->places.next; l != &d->places; l = l->next) {
        struct datagram_place *place = LIST_ENTRY(l, struct datagram_place, link);
        if (datagram_addr_is(&place->local, local)) {
            return place;
        }
    }
    return NULL;
}

// inlet.c
void datagram_inlet_init(struct datagram_inlet *inlet, enum datagram_inlet_kind kind, int fd,
                         const struct in6_addr *local);
int datagram_inlet_watch(struct datagram_udp *d, struct datagram_inlet *inlet);
void datagram_inlet_wake(struct datagram_udp *d); // as datagram_wake
// What was read of it, and not handed up, is dropped.
void datagram_inlet_forget(struct datagram_udp *d, struct datagram_inlet *inlet);

// linger.c
struct epoll_event;
// What epoll reports before it is time to sleep; 0: nothing did.
int datagram_linger(struct datagram_udp *d, struct epoll_event *ret, int max,
                    duration_ns timeout_ns);

// place.c, as in struct datagram_link_ops
int datagram_udp_open(struct datagram_link *link, const struct in6_addr *local, uint32_t scope_id);
void datagram_udp_close(struct datagram_link *link, const struct in6_addr *local,
                        uint32_t scope_id);
void datagram_place_free(struct datagram_udp *d, struct datagram_place *place);
// Gives another process the sockets that it asks for, and takes what one has made. Packets are
// lost.
void datagram_message_answer(struct datagram_udp *d, const struct datagram_share_message *m);

// host_changes.c
void datagram_host_watch(struct datagram_udp *d);
void datagram_host_take(struct datagram_udp *d);

// group.c, likewise
int datagram_udp_join(struct datagram_link *link, const struct in6_addr *group,
                      const struct in6_addr *local, uint32_t scope_id);
void datagram_udp_leave(struct datagram_link *link, const struct in6_addr *group,
                        const struct in6_addr *local, uint32_t scope_id);
void datagram_group_free(struct datagram_udp *d, struct datagram_group *g);

// serve.c, likewise
int datagram_udp_serve(struct datagram_link *link, uint64_t service, const struct in6_addr *local);
void datagram_udp_unserve(struct datagram_link *link, uint64_t service,
                          const struct in6_addr *local);
bool datagram_udp_is_served(struct datagram_link *link, uint64_t service,
                            const struct in6_addr *local);
void datagram_service_free(struct datagram_service *it);

// will.c, likewise
void datagram_udp_bequeath(struct datagram_link *link, uint32_t place,
                           const struct datagram_tx *tx);
void datagram_udp_revoke(struct datagram_link *link, uint32_t place);
void datagram_wills_init(struct datagram_udp *d);
// Asks the processes that are there for theirs.
void datagram_wills_ask(struct datagram_udp *d);
// The process in this slot has come.
void datagram_will_show(struct datagram_udp *d, unsigned slot);
// Takes what a process in this slot has shown.
void datagram_estate_take(struct datagram_udp *d, const struct datagram_share_message *m);
// The process whose will this is has ended.
void datagram_estate_settle(struct datagram_udp *d, struct datagram_inlet *inlet);
// Nothing is to be sent for this process any more, nor by it for others.
void datagram_wills_fini(struct datagram_udp *d);
// Closes descriptors: the child of a fork.
void datagram_wills_abandon(struct datagram_udp *d);

// lanes_out.c
// The lane that this packet goes by; NULL: there is none, or it is not open.
struct datagram_lane_out *datagram_lane_of(struct datagram_udp *d, const struct datagram_tx *tx);
// The packet goes by UDP, as others did: one may be made. True: one may be opened now, if nothing
// is left of what went before.
bool datagram_lane_note(struct datagram_udp *d, const struct datagram_tx *tx);
struct datagram_lane_out *datagram_lane_open(struct datagram_udp *d, const struct datagram_tx *tx);
// It leaves from `place`, or is lost where the other process takes nothing. False: it has to go by
// UDP, since there is no lane any more.
bool datagram_lane_put(struct datagram_udp *d, struct datagram_lane_out *lane,
                       const struct datagram_place *place, const struct datagram_tx *tx);
// Shows what was put, and wakes who sleeps.
void datagram_lanes_publish(struct datagram_udp *d);
// Something was heard of its socket: the end, if anything.
void datagram_lane_out_hear(struct datagram_udp *d, struct datagram_inlet *inlet);
// The process in a slot says that it has taken the lane.
void datagram_lane_note_taken(struct datagram_udp *d, const struct datagram_share_message *m);
// Packets go by UDP again.
void datagram_lane_leave(struct datagram_udp *d, struct datagram_lane_out *lane);

// lanes_in.c
// Takes what a process in a slot hands over, or refuses it.
void datagram_lane_take_over(struct datagram_udp *d, const struct datagram_share_message *m);
// Octets that wake, or the end.
void datagram_lane_in_hear(struct datagram_udp *d, struct datagram_inlet *inlet);
bool datagram_lanes_have_news(struct datagram_udp *d);
// Packets of one lane, in turn. What was handed up before is given back. `is_dry`: nothing is in
// the sockets.
unsigned datagram_lanes_take(struct datagram_udp *d, struct datagram_rx *ret, unsigned max,
                             bool is_dry);
void datagram_lanes_give_back(struct datagram_udp *d);
// Who waits from now on is woken. False: something has come, or is likely to come soon.
bool datagram_lanes_sleep(struct datagram_udp *d);
void datagram_lanes_rise(struct datagram_udp *d);
void datagram_lanes_in_fini(struct datagram_udp *d);

// lanes.c
void datagram_lanes_init(struct datagram_udp *d);
void datagram_lanes_fini(struct datagram_udp *d);
// Closes descriptors: the child of a fork.
void datagram_lanes_abandon(struct datagram_udp *d);

// udp_tx.c, as in struct datagram_link_ops
bool datagram_udp_put(struct datagram_link *link, const struct datagram_tx *tx);
bool datagram_udp_flush(struct datagram_link *link);
// The socket of a place has room again.
void datagram_udp_on_room(struct datagram_udp *d, struct datagram_inlet *room);
// The place is closed: what is staged for it is lost.
void datagram_stage_forget(struct datagram_udp *d, const struct datagram_place *place);

// room.c, likewise
bool datagram_udp_has_room(struct datagram_link *link, const struct datagram_tx *tx);

// udp_rx.c
// Something was read, or is known to be there.
bool datagram_sockets_have(const struct datagram_udp *d);
// Reads where something was last, if nothing is known to be anywhere.
void datagram_udp_look(struct datagram_udp *d);
unsigned datagram_udp_receive(struct datagram_link *link, struct datagram_rx *ret, unsigned max,
                              instant_ns now);
bool datagram_udp_hand_on(struct datagram_link *link, const struct datagram_rx *rx, unsigned slot);
