// A link of streams that a test works by hand: what comes of it and what fails is said beforehand,
// what the device has asked of it is read afterwards. Nothing happens by itself.
#pragma once

#include <netinet/in.h>

#include "base/port_link.h"
#include "base/port_place.h"

enum { HAND_STREAM_MAX = 64, HAND_OCTETS_MAX = 400 * 1024 };

enum { HAND_NO_END = 1 }; // no errno, and no FIN

struct hand_stream {
    struct link_stream base;
    bool is_open; // the device has not closed it
    bool is_listening, is_shut, is_aborted;
    bool wants_in, wants_out;
    uint8_t tos;
    struct sockaddr_storage peer;

    size_t in_len, in_done;
    int end;          // behind that: 0, the peer's FIN, or a negative errno; HAND_NO_END
    bool is_end_told; // which the link does once
    unsigned recv_count;
    bool is_cut;             // what is lent goes on elsewhere
    struct place_port place; // where octets go when they come; none: to recv
    bool is_place_stalled;   // until it is resumed
    unsigned resume_count;

    size_t out_len;
    size_t room; // octets that may follow
    int send_error;
    unsigned record_count; // of the last send
    uint64_t unsettled;

    unsigned said; // enum link_ready_what: reported once, whatever there is

    uint8_t in[HAND_OCTETS_MAX];  // what comes to the device
    uint8_t out[HAND_OCTETS_MAX]; // what it has sent
};

struct hand_link {
    struct link base;
    struct hand_stream streams[HAND_STREAM_MAX]; // in the order of their making
    unsigned count;
    unsigned facts; // of streams
    uint32_t emss;
    unsigned waiting; // connections that can be accepted
    int accept_error; // ... in place of one of these
    int bind_error, connect_error, result, local_error, route_error;
    struct sockaddr_storage bound_to; // by the last bind; AF_UNSPEC: nowhere
    unsigned bind_flags;
    unsigned poll_count;
    bool is_abandoned, is_destroyed, is_busy;
};

// For one device at a time.
struct hand_link *hand_link_begin(void);
struct hand_stream *hand_stream_of(struct link_stream *stream);
// These octets come next; the device has not looked yet.
void hand_come(struct hand_stream *s, const void *octets, size_t len);
// All that has come is offered to the port, as by a link that was not asked. How many octets.
size_t hand_place(struct hand_stream *s);
