// A scripted peer for one connection, in the spirit of packetdrill: a test says what the peer sends
// and what must leave in answer. Sequence numbers count from each side's initial one, as tcpdump
// shows them: 1 is the first octet. Octet p of a stream is script_octet(p).
//
//   struct script s;
//   script_open(&s, NULL);                 three-way handshake; MSS 1000, no timestamps, 10 ms
//   peer_data(&s, 1, 1000);                the peer sends octets
//   expect_ack(&s, 1001);                  we acknowledge
//   expect_nothing(&s);
//   script_close(&s);                      frees; also says whether anything left was not expected
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tcp/tcb.h"
#include "tcp/tcp.h"

enum {
    SCRIPT_ISS = 1000000,  // ours
    SCRIPT_IRS = 50000000, // the peer's
    SCRIPT_OUT_MAX = 4096,
    SCRIPT_STREAM_MAX = 1 << 18,
    SCRIPT_MSS = 1000,
};

#define SCRIPT_RTT_NS (10 * NS_PER_MS)

struct script_segment {
    struct tcp_header header;
    enum tcp_reason reason;
    uint32_t len;
    uint64_t position; // of its first octet in our stream
};

struct script {
    struct tcp_config config;
    struct tcp_options peer; // what the peer's SYN says
    uint16_t peer_window;    // not scaled, in every segment of the peer
    uint32_t irs, iss;

    struct tcb *tcb;
    instant_ns now;
    uint32_t peer_ack; // what the peer acknowledges, relative
    unsigned events;   // all so far
    unsigned out_room; // how many segments the link takes yet

    struct script_segment out[SCRIPT_OUT_MAX];
    unsigned out_count, out_read;

    // The place port: what it answers, and what it was given.
    enum place_verdict in_order, beyond, from_buffer;
    size_t answer_len_max; // of one answer
    bool advance;
    uint64_t handed; // position up to which octets were delivered
    uint64_t placed_octets, placed_calls;
    uint8_t is_placed[SCRIPT_STREAM_MAX];
    struct place_counts released; // all so far
    unsigned advances;

    struct tcp_counters seen;    // what the counters must say: counted here, from outside
    uint64_t placed_in_order;    // octets
    uint64_t placed_from_buffer; // likewise
    tcp_seq sent_end;            // of our stream
};

uint8_t script_octet(uint64_t position);

// Prepares a script to be changed before script_begin. / Creates the connection, CLOSED.
void script_prepare(struct script *s);
void script_begin(struct script *s);
// All of it, the handshake opened by us included. `change` may adapt what was prepared.
void script_open(struct script *s, void (*change)(struct script *s));
void script_close(struct script *s);

// Lets time pass; whatever becomes due happens at its time.
void script_wait(struct script *s, duration_ns duration);
// tcp_output if it is wanted, tcp_check, events.
void script_run(struct script *s);

// The connection's counters say what went through this script.
void script_check_counters(const struct script *s);

// Octets of the user, as `records` equal records if that is not 0.
void user_send(struct script *s, uint32_t len, unsigned records);

// The peer sends.
enum tcp_refusal peer_segment(struct script *s, uint8_t flags, uint32_t seq, uint32_t ack,
                              uint32_t len, const struct tcp_options *options);
enum tcp_refusal peer_segment_as_is(struct script *s, const struct tcp_segment *segment);
void peer_data(struct script *s, uint32_t seq, uint32_t len);
void peer_ack(struct script *s, uint32_t ack);
// ... with up to two SACK blocks (0, 0: none).
void peer_sack(struct script *s, uint32_t ack, uint32_t left, uint32_t right, uint32_t left2,
               uint32_t right2);

// The next segment that left.
struct script_segment *next_segment(struct script *s);
void expect_nothing(struct script *s);
void expect_ack(struct script *s, uint32_t ack);
void expect_sack(struct script *s, uint32_t ack, unsigned count, ...); // pairs left, right
void expect_data(struct script *s, uint32_t seq, uint32_t len);
void expect_flags(struct script *s, uint8_t flags, uint32_t seq);

static inline uint64_t refusals(const struct script *s, enum tcp_refusal refusal)
{
    return s->tcb->counters.refusals[refusal];
}
