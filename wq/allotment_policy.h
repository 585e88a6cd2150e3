// The allotment that a device wishes, and the events that change it. The base is the setting, or
// what an operator commanded last; what the device feels bends it:
//
//     memory is short            a quarter of the base
//     readers wait               half of it when 4 wait per context, a quarter when 16 do
//     the pipe holds more than   what fills it, up to ALLOTMENT_PIPE_MAX_LEN,
//     the requests that may be   if nothing of the above holds, and the base
//     out at that length         is no command
//     one flow alone reads       what a request must fetch to last (READ_LASTS_NS), up to
//                                ALLOTMENT_ALONE_MAX_LEN; likewise, and until another reads
//
// A reason that grew counts at once, one that shrank after it has been so for ALLOTMENT_CALM_COUNT
// samples, and for twice as many each time that it has come back, so that the value does not swing
// with a reason that comes and goes: that another reads is one, too. After ALLOTMENT_QUIET_COUNT
// samples without it all is as it was at first. Where nobody reads, what is of one who reads alone
// stays as it is. A base of 0 (undivided) is not bent. Numbers in, a number out.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "wq/allotment.h"

enum {
    ALLOTMENT_FLOOR_LEN = 4096, // not bent below it, if the base is above
    ALLOTMENT_ALONE_MAX_LEN = 1 << 20,
    ALLOTMENT_CALM_COUNT = 10,
    ALLOTMENT_CALM_MOST_COUNT = 1280,
    ALLOTMENT_QUIET_COUNT = 3000,
};

struct allotment_sample {
    uint32_t waiting_count; // flows that wait for a context
    uint32_t context_count; // that the device has
    uint64_t pipe_len;      // octets that each request must fetch to fill its pipe; the largest
    uint64_t lasting_len;   // ... to last, of a flow that read alone
    uint32_t reader_count;  // flows that read at one time, at most
};

// When a reason that shrank counts, in samples.
struct allotment_calm {
    unsigned count;       // that asked for less
    unsigned wanted;      // ... that are wanted; 0: the reason has not come yet
    unsigned quiet_count; // without any reason
};

// What is wanted beyond the base.
struct allotment_growth {
    uint32_t len;      // 0: nothing
    uint32_t seen_len; // by the last sample: one alone says little
    struct allotment_calm calm;
};

struct allotment_policy {
    uint32_t base_len;
    uint32_t len;      // what is wished now
    bool is_commanded; // by an operator: no pipe raises it
    bool is_memory_short;
    unsigned crowd_shift; // how often the base is halved for the readers that wait
    bool is_shared;       // more than one flow reads
    struct allotment_calm crowd_calm, shared_calm;
    struct allotment_growth pipe, alone;
    uint64_t changes[ALLOTMENT_EVENT_COUNT]; // by event
};

void allotment_policy_init(struct allotment_policy *p, uint32_t base_len);

// Each returns whether `len` changed.
bool allotment_policy_on_operator(struct allotment_policy *p, uint32_t base_len);
// The operator's command no longer holds: the setting is the base again.
bool allotment_policy_on_release(struct allotment_policy *p, uint32_t base_len);
bool allotment_policy_on_memory(struct allotment_policy *p, bool is_short);
// `*ret_event` is why.
bool allotment_policy_on_sample(struct allotment_policy *p, const struct allotment_sample *sample,
                                enum allotment_event *ret_event);
// Will more than `len` do, if a peer's pipe holds more?
bool allotment_policy_may_follow(const struct allotment_policy *p);
// Is it as long as it is since one flow alone reads? Then a second one is worth a sample at once.
bool allotment_policy_is_of_one(const struct allotment_policy *p);
// Would calm samples change it?
bool allotment_policy_is_at_rest(const struct allotment_policy *p);
