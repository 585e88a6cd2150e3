// A program's loop drives the RNIC. What comes is otherwise done by a thread of weft's own, which
// then wakes up the program's by a completion channel. A program that has a loop of its own waits
// for one descriptor more instead, and does the work itself when that is readable: a wake-up less
// for each message. weft-drive(3) has it at length.
//
//     fd = weft_drive_begin(channel);            // watched for POLLIN beside channel->fd
//
//     fd is readable:                            // each turn of the loop:
//         weft_drive_pass(channel);
//         while (weft_drive_event(channel, &cq, &context) == 0) …  // as of ibv_get_cq_event
//     channel->fd is readable:                   // events that another thread has made
//         ibv_get_cq_event(channel, …)
//     before it waits:                           // 0: a pass first
//         weft_drive_may_wait(channel)
//
// weft's thread stays and sees that the loop comes: where it does not for some ten milliseconds,
// the thread does what there is to do. So nothing depends on a loop but speed. Programs may poll
// and post from any thread meanwhile.
//
// The functions work on channels of weft's own libibverbs.so.1, which exports them. A program that
// may run on another RNIC looks for them with weft_drive_find().
#pragma once

#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

// From now on a loop that waits for this channel's events drives its device. Gives the descriptor
// that it waits for, which is the device's: it is not closed, and other loops may have the same.
// -1 with errno. EBUSY: the channel has one already. EOPNOTSUPP: the device has no such descriptor
// (RoCE). EMFILE, ENFILE, ENOMEM: of a descriptor for weft's own. EIO: in the child of a fork.
int weft_drive_begin(struct ibv_comp_channel *channel);
// No more. What weft_drive_event() would have told is to be had by ibv_get_cq_event(). A channel
// that is destroyed ends it too.
void weft_drive_end(struct ibv_comp_channel *channel);

// Does what there is to be done, in the calling thread. Blocks on no peer.
void weft_drive_pass(struct ibv_comp_channel *channel);

// Before a pass of a loop that has waited and is awake for something else: the descriptor was not
// readable. That spares the pass a system call, by which it asks for what makes it so. Nothing
// is lost if it was.
void weft_drive_rise(struct ibv_comp_channel *channel);

// A completion event of this channel that a pass has brought: those do not come by the channel's
// descriptor. As ibv_get_cq_event(), acknowledged by ibv_ack_cq_events(), but never waits: -1 with
// EAGAIN: there is none.
int weft_drive_event(struct ibv_comp_channel *channel, struct ibv_cq **ret_cq, void **ret_context);

// Asked before the loop waits: 1, and what comes then makes the descriptor readable; 0: there is
// something to be done, or to be told, first.
int weft_drive_may_wait(struct ibv_comp_channel *channel);

/* ---- at run time ----------------------------------------------------------------------------- */

struct weft_drive_calls {
    __typeof__(&weft_drive_begin) begin;
    __typeof__(&weft_drive_end) end;
    __typeof__(&weft_drive_pass) pass;
    __typeof__(&weft_drive_rise) rise;
    __typeof__(&weft_drive_event) event;
    __typeof__(&weft_drive_may_wait) may_wait;
};

// In place of weft_drive_rise(), where the library is of before it: the pass asks the system.
static inline void no_weft_drive_rise(struct ibv_comp_channel *channel)
{
    (void)channel;
}

// Fills `ret` if the process runs on weft's verbs; false: on another RNIC's. Needs no library at
// link time. Where the library is older than this header, what it has not is a call that does
// nothing: so is weft_drive_rise() where there was none yet.
static inline bool weft_drive_find(struct weft_drive_calls *ret)
{
    void *program = dlopen(NULL, RTLD_LAZY);
    const struct {
        void *call;
        const char *name;
        void *instead; // NULL: each of weft's libraries has it
    } calls[] = {
        {&ret->begin, "weft_drive_begin", NULL},
        {&ret->end, "weft_drive_end", NULL},
        {&ret->pass, "weft_drive_pass", NULL},
        {&ret->rise, "weft_drive_rise", (void *)no_weft_drive_rise},
        {&ret->event, "weft_drive_event", NULL},
        {&ret->may_wait, "weft_drive_may_wait", NULL},
    };
    for (unsigned int i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        void *found = program != NULL ? dlsym(program, calls[i].name) : NULL;
        *(void **)calls[i].call = found != NULL ? found : calls[i].instead;
        if (*(void **)calls[i].call == NULL) {
            return false;
        }
    }
    return true;
}

#ifdef __cplusplus
}
#endif
