// Events on a file descriptor: what ibv_get_cq_event and ibv_get_async_event read. A queue is an
// eventfd that counts what waits, and a list of who waits. The descriptor is one the program may
// poll, hand to epoll or make non-blocking; entries can be withdrawn when their object goes, which
// a pipe would not allow.
//
// Invariant: the count, plus readers that have taken one and not yet looked at the list, plus
// raisers that have not counted yet what they put there, equal the events in the list; a reader
// that finds nothing waits again.
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"

struct event_queue {
    int fd; // eventfd(EFD_SEMAPHORE | EFD_CLOEXEC)
    pthread_mutex_t lock;
    struct list_link waiting; // of event_source.link
    struct list_link told;    // of event_source.told_link: not counted by the descriptor
};

// One kind of event of one object. Guarded by the queue's lock.
struct event_source {
    struct list_link link;
    void *object;
    int kind;               // what the owner calls it
    unsigned waiting_count; // raised and not taken; the source is in the list while it is not 0
    struct list_link told_link;
    unsigned told_count;  // likewise, in the queue's other list
    unsigned taken_count; // ever; ibv_destroy_* waits until as many were acknowledged
};

// 0 or a positive errno of eventfd(2).
int event_queue_init(struct event_queue *queue);
void event_queue_fini(struct event_queue *queue); // closes the descriptor

void event_source_init(struct event_source *source, void *object, int kind);

// Any thread, under any lock: blocks on nothing but the queue's own lock. Not beside the source's
// withdrawal: who raises holds the shard's lock, and an object that goes has left the shard before.
void event_queue_raise(struct event_queue *queue, struct event_source *source);
// As event_queue_raise, but an event that nobody has taken yet stands for both.
void event_raise_once(struct event_queue *queue, struct event_source *source);

// The oldest event, taken from the list; NULL with errno as read(2) has it (EAGAIN when the program
// made the descriptor non-blocking). A cancellation point, with no lock held and nothing taken.
// `on_taken` runs under the queue's lock, so while it runs the source cannot be withdrawn.
struct event_source *event_wait(struct event_queue *queue,
                                void (*on_taken)(struct event_source *source, void *ctx),
                                void *ctx);

// An event for who takes it without having waited at the descriptor, as he does behind making it.
void event_tell(struct event_queue *queue, struct event_source *source);
// The oldest of these, as event_wait; NULL: none.
struct event_source *event_take(struct event_queue *queue,
                                void (*on_taken)(struct event_source *source, void *ctx),
                                void *ctx);
bool event_is_told(struct event_queue *queue);
// What was told is raised: nobody will take it otherwise.
void event_raise_told(struct event_queue *queue);

// Takes back what nobody has read; returns how many events of the source were ever taken.
unsigned event_withdraw(struct event_queue *queue, struct event_source *source);
