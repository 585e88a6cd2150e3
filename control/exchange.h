// One question to a running process of weft, and its answer, without waiting: whoever asks many
// processes, or has a screen to keep, waits for all of them in one place. control/ask.h is the same
// for who has nothing else to do.
//
//     exchange_begin
//     while (!exchange_is_over) { poll for exchange_wants; exchange_step }
//     exchange_take, exchange_end
//
// A process that is stopped, hostile or gone costs no more than its deadline and `answer_max_len`.
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/time.h"
#include "control/process.h"

enum exchange_state {
    EXCHANGE_CONNECTING, // its queue of connections is full: to be tried again
    EXCHANGE_SENDING,
    EXCHANGE_READING,
    EXCHANGE_OVER,
};

struct exchange {
    struct process process;
    const char *request; // one line with its end, the caller's
    size_t answer_max_len;
    instant_ns deadline_ns;
    enum exchange_state state;
    int error; // EXCHANGE_OVER: 0, or as process_ask
    int fd;
    bool is_own; // this user's
    size_t sent_len;
    char *answer;
    size_t answer_len, answer_capacity;
};

// `deadline_ns` on the clock of `now`, any that does not go back.
void exchange_begin(struct exchange *e, const struct process *process, const char *request,
                    size_t answer_max_len, instant_ns now, instant_ns deadline_ns);

// What to wait for; fd -1, which poll passes over: only time, EXCHANGE_RETRY_NS at most.
#define EXCHANGE_RETRY_NS (20 * NS_PER_MS)
struct pollfd exchange_wants(const struct exchange *e);

// Goes on as far as it can now; behind the deadline it is over with -ETIMEDOUT.
void exchange_step(struct exchange *e, instant_ns now);

static inline bool exchange_is_over(const struct exchange *e)
{
    return e->state == EXCHANGE_OVER;
}

// Of one that is over: 0 and the answer, now the caller's to free, or the error.
int exchange_take(struct exchange *e, char **ret_text, size_t *ret_len);

// At any time after exchange_begin; gives up what is under way.
void exchange_end(struct exchange *e);
