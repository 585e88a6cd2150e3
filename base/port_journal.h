// The port between those who post and decide (wq/, rnic/) and who writes it down: records of what
// no wire shows. The first calls, the second implements (link/pcap/file.h, beside the packets of a
// capture). When nobody asked for records a journal is NULL, and each place costs one test.
//
// What a record is in octets says wire/journal.h.
#pragma once

#include <netinet/in.h>
#include <stdint.h>

enum journal_kind {
    JOURNAL_CARRIED = 1,     // the queue pair has a connection: `carried`
    JOURNAL_SEND_POSTED,     // opcode, wr_id, len; key: the peer's STag of a Write or Read; of a
                             // datagram the queue pair it goes to
    JOURNAL_RECEIVE_POSTED,  // wr_id, len
    JOURNAL_COMPLETED,       // opcode (of completions), status, wr_id, len; key: of the receive of
                             // a datagram, the queue pair it came from
    JOURNAL_CONTEXT_GRANTED, // key: the read context's number; opcode, wr_id; len: of its request
    JOURNAL_CONTEXT_GONE,    // key, opcode, wr_id; len: what of its Read was not asked for yet
    JOURNAL_STAG_LENT,       // one-shot: key; wr_id: its reference; len
    JOURNAL_STAG_CLOSED,     // ... by the peer
    JOURNAL_STAG_TAKEN_BACK, // ... by this side, which did not wait for the peer
    JOURNAL_HOLE_OPENED,     // of the stream; key: its number until it closes; wr_id: the position
                             // of its first octet; len: its octets
    JOURNAL_HOLE_CLOSED,     // key; wr_id: messages that it held back; len: octets behind it
    JOURNAL_RECEIVE_TAKEN,   // wr_id, len: of a shared queue, by this queue pair
    JOURNAL_KIND_COUNT,
};

// Where a connection of a queue pair leads. IPv4 is mapped. All zero: it sends datagrams, from any
// address to any.
struct journal_carried {
    struct in6_addr local, remote;
    uint16_t local_port, remote_port; // of TCP; 0: packets
    uint32_t remote_qp_num;           // of packets; 0: a stream
};

struct journal_record {
    enum journal_kind kind;
    uint32_t qp_num;
    uint8_t opcode, status; // as the verbs number them
    uint32_t key;
    uint64_t wr_id, len;
    struct journal_carried carried; // JOURNAL_CARRIED
};

struct journal {
    // By any thread, under any lock: it calls nobody back.
    void (*put)(struct journal *journal, const struct journal_record *record);
};

#define JOURNAL_IS_KEPT(journal) __builtin_expect((journal) != NULL, 0)
