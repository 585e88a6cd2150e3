// A remote transport agent: between the bus (interface 322, to the CTA), the UMA (324 and 326,
// which are 261, 263 and 267 seen from here) and its device driver modules (320). It is idle until
// the UMA has it open a device and add a connection.
//
//     rta.c           the agent: the UMA's messages (the connection manager among them)
//     cta_interface.c frames from the CTA
//     result.c        results back to it
//     store.c         the transaction store table
//     converter.c     the I/O converter, with a file for each format: format_scsi.c, format_ata.c
//     dma.c           the DMA manager
//     io_interface.c  commands to and from the DDMs
//
// Sans-I/O: whoever runs it (node/unit) has the sockets, the shared memory and the clock, and calls
// in when a message has come, the bus was rung, a device is readable, or the deadline is there.
// One thread at a time. Memory is taken in create.
#pragma once

#include <stdint.h>

#include "base/time.h"
#include "node/interface/cta_rta.h"
#include "node/interface/rta_ddm.h"
#include "node/interface/uma_rta.h"
#include "node/rta/converter.h"

struct rta;

struct rta_parts {
    struct frame_port bus;
    struct unit_port uma;
    void *pool; // the unit's part of it, as mapped here
    uint64_t pool_len;
    bool is_alone;                          // in a process of its own
    uint32_t landlock;                      // what confines that, for status
    const struct io_format *const *formats; // ended by NULL
    // Opens the chain of DDMs that a URI names. 0 or a negative errno with a reason.
    int (*ddm_open)(const char *uri, const struct ddm_host *host, struct ddm **ret,
                    struct why *ret_why);
    void *ctx; // of the rest
    // For DDMs that need it; the agent itself is told the time.
    instant_ns (*clock)(void *ctx);
    // A device is open, and no other will be: what it does not need may be given up. May be NULL.
    void (*on_only)(void *ctx, const struct ddm *chain);
    // A device that another node has is waited for, in open, or no longer: nothing is heard of the
    // UMA meanwhile. May be NULL.
    void (*on_waiting)(void *ctx, bool waits);
    // One line for the operator.
    void (*say)(void *ctx, const char *line);
    // Closes a keepsake that came for a device that is not asked.
    void (*drop)(void *ctx, int keepsake);
    // A device's descriptor comes or goes: when readable, call rta_on_device.
    void (*watch)(void *ctx, int fd, struct ddm *ddm);
    void (*unwatch)(void *ctx, int fd);
};

struct rta *rta_create(const struct rta_parts *parts);
// Closes what is open.
void rta_destroy(struct rta *rta);

// Says hello to the UMA.
void rta_start(struct rta *rta);

// A message of the UMA. A descriptor that came with it becomes the RTA's; -1: none. False: it broke
// the rules and the process should end.
bool rta_on_message(struct rta *rta, const struct unit_message *message, int keepsake,
                    instant_ns now);

// The bus was rung. False: it is broken, and the process should end.
bool rta_on_bus(struct rta *rta, instant_ns now);

// The device's descriptor is readable.
void rta_on_device(struct rta *rta, struct ddm *ddm, instant_ns now);

// Before a sleep, while a command is at a device: whether answers that are looked for have come.
bool rta_look_on(struct rta *rta, instant_ns now);
instant_ns rta_next_deadline(struct rta *rta);
bool rta_on_deadline(struct rta *rta, instant_ns now);

// Has the UMA asked it to end, and has everything under way ended?
bool rta_is_drained(const struct rta *rta);

// Is a command at a device?
bool rta_awaits_device(const struct rta *rta);

// Is a message to the CTA waiting for room, or a request for its end? Then there is nothing to do
// but wait for the next event all the same; for tests.
uint64_t rta_under_way(const struct rta *rta);
