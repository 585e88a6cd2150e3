// What the files of the packet link share.
#pragma once

#include <stdbool.h>

#include "base/check.h"
#include "base/list.h"
#include "base/time.h"
#include "link/packet/cut.h"
#include "link/packet/packet.h"
#include "link/packet/state.h"
#include "link/rest.h"
#include "net/host.h"

struct packet_link {
    struct link base;
    struct link_packet_config config;
    struct device *device;
    struct net_host *host;
    struct list_link streams;   // open ones
    struct list_link ready;     // of these, those that may be worth a report
    struct list_link lingering; // closed, their connections not yet; longest first
    unsigned lingering_count;
    struct tcp_counters ended; // of connections that are gone
    struct rest rest;
    struct packet_cut cut; // what is being sent
};

struct packet_stream {
    struct link_stream base;
    struct list_link link; // in `streams` or `lingering` of the link, or at rest
    struct list_link ready_link;
    enum packet_stream_state state;
    int family;              // in which addresses are told; AF_UNSPEC: none is known yet
    struct channel *channel; // NULL: none yet
    struct net_flow flow;
    struct net_connection connection; // from CONNECTING to LINGERING
    struct net_listener listener;     // LISTENING
    struct list_link waiting;         // LISTENING: connections to be accepted
    struct list_link waiting_link;
    instant_ns linger_until_ns;
    uint8_t tos;
    int error;           // negative errno: why it is BROKEN
    bool is_error_named; // to the user
    bool wants_in, wants_out;
    bool is_up;       // connected, and connect_result has said so
    bool is_readable; // the device has something for it
    bool has_settled; // more than `unsettled` has told
    bool is_stalled;  // TCP keeps octets that are in order
    bool has_fin;     // the peer's, and all before it was taken
    bool is_fin_told;
    struct mspan into;      // where `recv` under way wants octets: what is left
    struct place_port port; // who takes octets in place of recv; all NULL: nobody
    bool is_port_told;      // what waited when it was set has been offered to it
    size_t offered_len;     // to the port, during the present recv
};

static inline struct packet_link *packet_link_of(const struct link *link)
{
    return (struct packet_link *)link;
}

static inline struct packet_stream *packet_stream_of(const struct link_stream *stream)
{
    return (struct packet_stream *)stream;
}

static inline instant_ns packet_now(const struct packet_link *l)
{
    return l->config.clock(l->config.clock_ctx);
}

static inline bool packet_has_connection(const struct packet_stream *s)
{
    return s->state >= PACKET_STREAM_CONNECTING && s->state <= PACKET_STREAM_LINGERING;
}

// What happens to it may happen in its state (link/packet/state.h).
static inline void packet_stream_move(struct packet_stream *s, enum packet_stream_event event)
{
    CHECK(packet_stream_may(s->state, event));
    s->state = packet_stream_after(s->state, event);
}

// ready.c

// The stream may be worth a report.
void packet_note_ready(struct packet_stream *s);
// Fills `ret` with those that are, and returns how many there are.
int packet_collect_ready(struct packet_link *l, struct link_ready *ret, unsigned max);

// events.c

// All that the device has come by.
void packet_take_events(struct packet_link *l, instant_ns now);

// stream.c

// A stream without anything, in `streams`. NULL: no memory.
struct packet_stream *packet_stream_new(struct packet_link *l, void *owner);
// What struct net_port has for connections.
void packet_on_events(void *ctx, struct net_connection *c, unsigned events);
struct net_connection *packet_on_incoming(void *ctx, struct net_listener *listener,
                                          const struct net_flow *flow, void *via,
                                          const struct tcp_config *config);
// The connection is to go; a stream that lingered rests.
void packet_connection_end(struct packet_stream *s);
// Gives up a connection whose user has closed it; net_output is due.
void packet_linger_end(struct packet_stream *s);
// As in struct link_ops.
int packet_bind(struct link *link, const struct sockaddr *addr, unsigned flags, void *owner,
                struct link_stream **ret);
int packet_listen(struct link_stream *stream, int backlog);
int packet_accept(struct link_stream *listener, struct link_stream **ret);
int packet_connect(struct link_stream *stream, const struct sockaddr *peer);
int packet_connect_result(struct link_stream *stream);
void packet_close(struct link_stream *stream, bool abort);
int packet_local_addr(const struct link_stream *stream, struct sockaddr_storage *ret);
int packet_peer_addr(const struct link_stream *stream, struct sockaddr_storage *ret);
int packet_set_tos(struct link_stream *stream, uint8_t tos);

// counters.c

// The connection ends: what it counted stays.
void packet_count_ended(struct packet_link *l, const struct packet_stream *s);
void packet_stream_counters(const struct link *link, const struct link_stream *stream,
                            counter_each each, void *ctx);

// io.c

// The place port of a stream's connection: octets in order go to who calls recv.
struct place_port packet_place_port(struct packet_stream *s);
ssize_t packet_recv(struct link_stream *stream, struct mspan into);
void packet_set_place(struct link_stream *stream, const struct place_port *port);
void packet_resume(struct link_stream *stream);
ssize_t packet_send(struct link_stream *stream, const struct link_tx *tx);
uint64_t packet_unsettled(struct link_stream *stream);
void packet_want_out(struct link_stream *stream, bool wanted);
void packet_want_in(struct link_stream *stream, bool wanted);
int packet_shutdown(struct link_stream *stream);
uint32_t packet_emss(const struct link_stream *stream);
// Has less than all that was given to it been acknowledged?
bool packet_is_unacknowledged(const struct packet_stream *s);
