// What a device tells of itself: a snapshot of values, which whoever holds the data path's lock
// fills in, and which is written as one JSON object when the lock is let go. `weft stat` asks a
// process for it, and WEFT_STATS_FILE holds it at exit; weft-stat(1) describes the fields.
//
//     report_init
//     do { report_make_room; lock; report_begin, report_add_*; unlock } while (!report_is_whole)
//     report_write (write.c: what each part is called)
//     report_fini
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/port_ulpdu.h"
#include "base/transport.h"
#include "conn/conn.h"
#include "conn/listener.h"
#include "iwarp/qp.h"
#include "meet/meeting.h"
#include "mem/table.h"
#include "mem/verdict.h"
#include "mpa/placer.h"
#include "mpa/rx.h"
#include "mpa/tx.h"
#include "wq/allotment.h"
#include "wq/latency.h"
#include "wq/read_sched.h"

enum {
    REPORT_NAME_LEN = 56,
    REPORT_TRANSPORT_MAX = 4, // transports that a device has
};

// A counter of a link's; the names are the link's own.
struct report_pair {
    char name[REPORT_NAME_LEN];
    uint64_t value;
};

// Some of the report's, in a row.
struct report_pairs {
    bool has_any; // false: the kernel's TCP, which counts elsewhere
    uint32_t first, count;
};

struct report_endpoint {
    const char *state;
    const char *role, *startup;          // NULL: no connection
    struct sockaddr_storage local, peer; // AF_UNSPEC: none
    bool has_qp, is_listening, is_placing;
    bool is_of_host; // its octets go through memory of both ends
    uint32_t qp_num;
    struct conn_listener_counters admissions; // is_listening
    struct mpa_rx_counters mpa_in;
    struct mpa_placer_counters mpa_early; // is_placing
    struct mpa_tx_counters mpa_out;
    struct report_pairs tcp;
};

// Counters of a transport's, a copy that lies in the report.
struct report_counters {
    const struct transport_ops *ops; // whose; NULL: none
    uint32_t first;                  // where it begins
};

struct report_qp {
    uint32_t qp_num;
    const struct transport_ops *ops;
    struct qp_attributes attributes;
    bool is_reading; // connected, by a transport whose Reads are divided
    int oneshot;     // as agreed: EXTENSION_ONESHOT_ bits
    // Of packets: to whom it is connected. AF_UNSPEC: to nobody; of a stream it is the endpoint's.
    struct sockaddr_storage peer;
    uint32_t peer_qp_num;
    struct report_counters counters;
};

// The reads of a device as a whole: its allotment, which events change while it runs, and what its
// scheduler counts.
struct report_reads {
    uint32_t allotment_len, allotment_base_len; // octets; 0: undivided. See wq/allotment_policy.h
    bool is_memory_short;
    // What one request of a connection may fetch now, where both ends' wishes count: the least and
    // the most of so many connections. 0: undivided, or no connection.
    uint32_t in_force_min_len, in_force_max_len, connection_count;
    uint32_t context_count, contexts_in_use, waiting_count;
    uint64_t changes[ALLOTMENT_EVENT_COUNT]; // of the device's allotment, by event
    struct read_sched_counters counters;
};

struct report_device {
    bool has_streams; // false: packets carry its queue pairs
    const char *name;
    uint32_t qp_count, cq_count, srq_count;
    struct mem_live live;
    struct report_reads reads;
    struct mpa_rx_counters mpa_in_total; // of connections that have ended
    struct mpa_placer_counters mpa_early_total;
    struct mpa_tx_counters mpa_out_total;
    // Of queue pairs that were destroyed, by transport.
    struct report_counters totals[REPORT_TRANSPORT_MAX];
    unsigned total_count;
    struct report_pairs tcp_total, packets;
    struct conn_counters startup;
    struct meeting_counters meetings;
    uint64_t closes[QP_CLOSE_REASON_COUNT];
    uint64_t memory_refusals[MEM_VERDICT_COUNT];
};

struct report {
    uint32_t pid;
    const char *program;
    struct report_device device;
    struct latency latency; // of work requests
    // Of each the first `max` are there; `count` goes on behind them.
    struct report_endpoint *endpoints;
    struct report_qp *qps;
    struct report_pair *pairs;
    uint64_t *words; // of counters
    uint32_t endpoint_max, qp_max, pair_max, word_max;
    uint32_t endpoint_count, qp_count, pair_count, word_count;
};

void report_init(struct report *r);
// For as many as were counted, and some. -ENOMEM.
int report_make_room(struct report *r);
void report_fini(struct report *r);

void report_begin(struct report *r);
struct report_endpoint *report_add_endpoint(struct report *r); // all zero; NULL: no room
struct report_qp *report_add_qp(struct report *r);
struct report_counters report_add_counters(struct report *r, const struct transport_ops *ops,
                                           const void *counters);
// A counter_each of the report, and what is called between its calls.
void report_add_pair(void *report, const char *name, uint64_t value);
static inline uint32_t report_next_pair(const struct report *r)
{
    return r->pair_count;
}
bool report_is_whole(const struct report *r);

void report_write(const struct report *r, FILE *out);
// The device's reads alone.
void report_write_reads(const struct report *r, FILE *out);
