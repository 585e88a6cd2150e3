// Asks the processes there are, all at once, and tells a model what they say. Nobody is waited for:
// who calls has a screen to keep.
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/time.h"
#include "cli/top/model.h"
#include "control/exchange.h"

enum {
    TOP_ASKED_AT_ONCE = 32,       // descriptors, and answers in memory
    TOP_ANSWER_MAX_LEN = 4 << 20, // octets of one process; some thousand queue pairs
};
#define TOP_ANSWER_NS NS_PER_S // so long one may take

struct top_asked {
    struct process process;
    bool is_node;
    bool is_begun, is_told;
    struct exchange exchange;
};

struct top_round {
    const pid_t *pids; // only these; the caller's
    size_t pid_count;  // 0: all of this user, for root everybody's
    struct top_asked *asked;
    size_t count, told_count;
};

// Finds out whom to ask, and begins. 0 or a negative errno, with nothing begun.
int top_round_start(struct top_round *round, struct top_model *model, instant_ns now);

static inline bool top_round_is_over(const struct top_round *round)
{
    return round->asked == NULL;
}

// What to wait for, TOP_ASKED_AT_ONCE at most; gives back how many. `ret_until_ns`: when to go on
// at the latest.
unsigned top_round_wants(const struct top_round *round, instant_ns now, struct pollfd *ret,
                         instant_ns *ret_until_ns);

// Goes on with all of them. True: the model has changed.
bool top_round_step(struct top_round *round, struct top_model *model, instant_ns now);

// Gives up what is under way.
void top_round_stop(struct top_round *round);

// Waits until all have answered, or not; for who has nothing else to do.
int top_round_run(struct top_round *round, struct top_model *model);
