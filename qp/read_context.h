// A read context: the scarce thing that each outstanding request to the peer owns until its answer
// is complete. It is reserved for the window of one request, at most the data allotment of its
// connection. A device has a pool of them, which read_sched.h hands out.
//
// No word of iWARP here: remote address, key, length, cookie.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "qp/read_task.h"

struct read_context {
    struct list_link link; // free, or granted to its flow, or among the outstanding requests
    struct read_task *task;
    uint64_t offset;      // of the window in the task
    uint64_t remote_addr; // of the window's first octet
    uint32_t remote_key;
    uint32_t length;      // octets of the window: what the answer may fill
    uint32_t named_len;   // octets that the request may name: the window, or all that remains
    uint32_t least_len;   // octets that an answer has at least: the window, or an allotment of it
    uint32_t arrived_len; // octets of the window placed so far
    uint32_t local_key;   // names the window to the peer, while is_open
    bool is_open;
    uint32_t request_number; // the order of requests on their queue
    bool is_alone;           // issued when no other request of its flow was out
    instant_ns issued_ns;
    uint64_t sent_at;       // position in the stream where the request begins
    uint64_t delivered_len; // what the flow's pace had seen when the request was issued

    bool has_early_end;   // the end of its answer has come, beyond a hole of the stream
    uint64_t early_end;   // position in the stream behind it
    uint32_t early_len;   // octets of the window that the answer fills
    uint64_t early_value; // atomics: what the answer brings back
};
