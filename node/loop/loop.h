// An event loop: descriptors by epoll, and members that have deadlines and want to be asked at the
// end of each batch of events. One thread runs it and makes all calls.
//
// One turn:
//
//     every member: on_batch_end       what the batch has produced goes out
//     every member: may_sleep          does one have work that no descriptor tells of? Then no
//                                      other is asked, and these two again, after on_wake, as
//                                      often as is fair
//     wait, at most until the earliest next_deadline
//     every member: on_wake
//     every readable or writable descriptor: its function
//     every member whose deadline has passed: on_deadline
//     every descriptor that has rested: looked at again
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/lookout.h"
#include "base/time.h"

struct loop;
struct loop_watch;

// Each of them may be NULL.
struct loop_member {
    void *ctx;
    void (*on_batch_end)(void *ctx, instant_ns now);
    bool (*may_sleep)(void *ctx);
    void (*on_wake)(void *ctx);
    instant_ns (*next_deadline)(void *ctx);
    void (*on_deadline)(void *ctx, instant_ns now);
    struct list_link link; // the loop's
};

struct loop *loop_create(void);
// Nothing is watched any more.
void loop_destroy(struct loop *loop);

// A member joins, and leaves; also from within calls.
void loop_join(struct loop *loop, struct loop_member *member);
void loop_leave(struct loop *loop, struct loop_member *member);

// `events`: EPOLLIN, EPOLLOUT, EPOLLET ... NULL without memory or descriptors.
struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx);
void loop_watch_change(struct loop_watch *watch, uint32_t events);
// A connection of a listening socket that is watched, non-blocking, or -1: there is none now. Where
// descriptors or memory are short it stays in the backlog, and the watch rests for a moment, since
// it would be told of in every turn.
int loop_accept(struct loop_watch *watch);
// After this its function is not called again. Before the descriptor is closed. NULL is allowed.
void loop_unwatch(struct loop_watch *watch);

// Until loop_stop. 0 or a negative errno.
int loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

// The instant of the turn under way, CLOCK_MONOTONIC.
instant_ns loop_now(const struct loop *loop);
// The clock itself.
instant_ns loop_clock(void);

// Between two looks of a lookout, the first of them at `now`, by the clock. False: it is over,
// since somebody else wants the processor.
bool loop_give_way(struct lookout *lookout, instant_ns now);
