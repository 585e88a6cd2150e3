// The port between work queues (wq/) and the transport that carries them out (iwarp/, roce/). This
// page says what crosses; wq/wq.h has the calls.
//
//     program ──posts──▶ work queues ◀──asks, places, completes── transport ◀──▶ the peer
//
// The transport asks and the work queues answer; they call nobody but mem/, cq/ and the device's
// read scheduler. So all calls go one way, once per message or per segment of it, and nothing that
// the transport is in the middle of can be called again under it.
//
// **What leaves.** wq_next says what is next, in the order that fences, limits and turns ask for:
//
//     TRANSPORT_MESSAGE   the oldest work request, of which a message may leave
//     TRANSPORT_REQUEST   a read context: something is asked of the peer
//     TRANSPORT_FAILED    a work request was at fault before anything of it left. It has its
//                         completion; what becomes of the connection is the transport's to say
//     TRANSPORT_NOTHING   not now
//
// A message has a handle. Its payload is asked for by wq_message_octets, at any offset, as often as
// a transport likes, from when wq_next gave it until it is settled: who must send again asks again.
// A cursor is kept, so that who goes straight on is not made to look for the place. The answer may
// be that the memory is not usable (any more): then wq_fail, or wq_send_fail once it has been put.
//
// To whom it goes is the transport's business: with a peer, once for all; with datagrams, in an
// address that the poster leaves in the entry (wq_config.address_len, wq_send_address). When it may
// go is the transport's too: after wq_hold nothing begins before some time.
//
// A transport may need several messages for one work request: wq_part_put after each but the last,
// wq_message_put after that. How to say it in headers is its own business: entries and read
// contexts have a note or a tail that is the transport's alone.
//
// **Marks.** A mark is a number of the transport that grows: octets of a stream, packets. Marks are
// compared, never subtracted; where octets matter they are told apart. Two facts are told by marks:
//
//     released   memory named by what ends before it is read no more. A stream that keeps its own
//                copy of what is on its way releases early; who sends again from the program's
//                memory releases when the peer has acknowledged; who copies at once, at once.
//     settled    what ends before it is over: its completion may be seen. Never before released.
//
// wq_reads_from answers from the first, completions come from the second. What was asked of the
// peer ends by its answer instead (wq_request_answered), its work request by both.
//
// **What arrives.** The transport decides when a message takes a receive, and what happens if there
// is none: wq_receive_claim answers NULL, and the transport stores, stalls, has the peer try again
// or drops. A claimed receive is the transport's, to place into at any offset (wq_receive_place),
// until wq_complete_receive or wq_receive_free. Memory that the peer names (to be read, written,
// changed by atomics, taken back) is looked up in mem/, whose verdicts each transport maps to what
// it says to its peer. In which order the peer's requests are answered, and what is kept to answer
// them again, is the transport's.
//
// **What was asked.** Read contexts come from the scheduler with a window, an order and the names
// of the remote memory. The transport sends the request, places the answer into the list of the
// work request (wq_answer_place, or a sink of mem/ that the peer names), and says how many octets
// came. Answers may end in any order; a context is out until its own has.
//
// **The end.** The states of a queue pair, and their table, are the transport's. It says when
// nothing may begin any more (wq_close) and, when nothing that it put is read any more, flushes:
// wq_flush_sends, wq_flush_receives. Where a failure stops the send queue alone, it goes on after
// wq_resume.
//
// A transport may do all of this in one call, the poster's own: put, release and settle at once.
//
// tests/transport/ has transports that the product has not: one that sends again in other cuts, one
// with an address per work request and nothing else, one that does all in the poster's call. They,
// iwarp/ and those of roce/ run the same programs.
//
// What the device asks of a transport stands in base/transport.h.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct send_wqe;
struct read_context;

enum transport_next {
    TRANSPORT_NOTHING,
    TRANSPORT_MESSAGE,
    TRANSPORT_REQUEST,
    TRANSPORT_FAILED,
};

// What wq_next found.
struct transport_work {
    uint32_t handle;              // TRANSPORT_MESSAGE: of the work request
    struct send_wqe *wqe;         // ... itself
    struct read_context *context; // TRANSPORT_REQUEST
};

// What a transport says of itself; it may change while it works.
struct transport_facts {
    uint32_t refused;   // operations that it cannot carry, one bit per opcode of work requests
    uint64_t whole_len; // messages up to this long leave in one segment: they are looked at then
    bool copies;        // octets are copied when they are asked for: nothing is read afterwards
};
