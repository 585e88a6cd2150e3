// What two links of a host share beside the memory of each stream: one channel for all streams that
// one of them connects to the same listener of the other. In it a stream is a number, with which
// the other side says that there is news of it (doorbell.h), and a socket, by which a side that
// sleeps is woken, whichever stream it is for.
//
// Each side gives its own number to a stream, and is told that one. So a number names a stream of
// whoever looks, or nothing; marks that come late are harmless.
//
// Who connects makes the channel and hands it over with the memory of each stream; who accepts
// keeps what he does not know yet. A channel has one side that accepts: whoever claims it first.
// It stands as long as a stream, or memory that waits for its stream, needs it.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/faster.h"
#include "base/list.h"
#include "link/local/doorbell.h"
#include "link/local/memory.h"
#include "net/addr.h"

struct link_stream;
struct local_stream;

enum local_channel_offset {
    LOCAL_CHANNEL_CLAIMED = 0,        // 64 bits: somebody accepts by it
    LOCAL_CHANNEL_ACTIVE_BELL = 4096, // what the active side is told
    LOCAL_CHANNEL_PASSIVE_BELL = LOCAL_CHANNEL_ACTIVE_BELL + DOORBELL_LEN, // ... the passive side
    LOCAL_CHANNEL_LEN = LOCAL_CHANNEL_PASSIVE_BELL + DOORBELL_LEN,
};

// What is handed over of a channel.
struct local_channel_means {
    uint64_t id; // drawn at random
    int memory_fd;
    int socket_fd; // the passive side's end
};

struct local_number {
    struct local_stream *stream; // NULL: it is free
    uint32_t next_free;
};

struct local_channel {
    struct list_link link;
    enum local_side side; // ours
    pid_t process;        // the other's
    struct net_flow to;   // active: the listener, as `remote`
    uint8_t *memory;
    struct local_channel_means means; // but for the id the active side's alone; -1: none
    int own_fd;                       // our end of the socket
    struct link_stream *bell;    // ... which is watched, and closed by who does. NULL: it is not
    struct doorbell_taker taker; // of what we are told
    uint8_t *other_bell;         // of what we tell
    struct local_number *numbers;
    uint32_t number_count, first_free; // DOORBELL_NUMBERS: none is free
    unsigned user_count;
    // How what we send is stored: past this processor's caches, or LOCAL_STORES_NEAR.
    struct faster stores;
};

enum { LOCAL_STORES_NEAR = 1 };

// New ones have one user. 0, -ENOMEM, -EMFILE or another negative errno.
int local_channel_create(struct local_channel **ret);
// By what was handed over, whose descriptors stay the caller's. -EINVAL: it is no channel's;
// -EBUSY: somebody accepts by it already.
int local_channel_adopt(const struct local_channel_means *means, struct local_channel **ret);
// A bell is released before.
void local_channel_destroy(struct local_channel *c);
// In the child of a fork: the memory is not its own, and the descriptors are not its business.
void local_channel_abandon(struct local_channel *c);

// Gives the stream a number: 0, -ENOMEM or -ENOSPC.
int local_channel_number(struct local_channel *c, struct local_stream *s, uint32_t *ret);
void local_channel_free_number(struct local_channel *c, uint32_t number);
// NULL: no stream has this number, whatever it is.
struct local_stream *local_channel_stream(const struct local_channel *c, uint32_t number);
