// A read context: the scarce thing that each outstanding request to the peer owns until its answer
// is complete. It is reserved for the window of one request, at most the data allotment of its
// connection. A device has a pool of them, which read_sched.h hands out.
//
// What stands here holds for any transport: a window, an order, and what a request may name. What
// one of them needs besides, to know the answer again, is in its tail.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/time.h"
#include "wq/read_task.h"

enum { READ_TAIL_WORDS = 5 };

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
    bool is_alone;        // issued when no other request of its flow was out
    instant_ns issued_ns;
    uint64_t sent_mark;             // of the transport, where the request begins
    uint64_t delivered_len;         // what the flow's pace had seen when the request was issued
    uint64_t tail[READ_TAIL_WORDS]; // the transport's own; 0 at first
};
