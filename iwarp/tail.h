// What this transport keeps in the tails of receives and read contexts, of which wq/ knows the
// length alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/check.h"
#include "wq/read_context.h"
#include "wq/wqe.h"

// Of a message of which something was placed beyond a hole, what is needed when the
// hole closes.
struct recv_early {
    bool is_touched; // something was; else nothing below holds
    bool has_last;   // its last segment was among it
    bool is_whole;   // that was all of it
    uint64_t end;    // has_last: position in the stream behind it
    uint32_t length; // has_last: octets of the message
    uint32_t written_len;
    uint32_t send_stag, immediate; // as in struct rdmap_arrival, like the rest
    uint8_t opcode, mark;
    bool is_solicited, invalidates, has_immediate;
    uint8_t captured[8]; // octets of the one-shot reference
};
STATIC_CHECK(sizeof(struct recv_early) <= sizeof((struct recv_wqe){0}.tail));

static inline struct recv_early *recv_early_of(const struct recv_wqe *wqe)
{
    return (struct recv_early *)(void *)(uintptr_t)wqe->tail;
}

// Of a request that is out: by what its answer is known.
struct read_answer {
    bool is_open;            // the sink names the window to the peer
    bool has_early_end;      // the end of the answer has come, beyond a hole of the stream
    uint32_t sink;           // STag
    uint32_t request_number; // MSN of the request
    uint32_t early_len;      // octets of the window that the answer fills
    uint64_t early_end;      // position in the stream behind it
    uint64_t early_value;    // atomics: what the answer brings back
};
STATIC_CHECK(sizeof(struct read_answer) <= sizeof((struct read_context){0}.tail));

static inline struct read_answer *read_answer_of(const struct read_context *context)
{
    return (struct read_answer *)(void *)(uintptr_t)context->tail;
}
