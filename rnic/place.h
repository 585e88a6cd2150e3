// Places: how a queue pair's number tells where to find it. Programs that do without a connection
// manager tell each other a GID, which holds an IPv4 address, and a number of 24 bits, no more. So
// the number is made of a TCP port and an index:
//
//     queue pair number = TCP port << 8 | index
//
// A place is a port of this host together with the queue pairs whose numbers name it. The port is
// bound from the first of them to the last; it listens only once a queue pair expects to be asked
// for (rnic/meeting.h), so that a program with a connection manager opens nothing by it.
//
// Everything here runs under the shard's lock.
#pragma once

#include <stdint.h>

#include "base/list.h"

struct rnic;
struct rnic_ep;

enum { PLACE_INDEX_COUNT = 256, PLACE_INDEX_BITS = 8 };

struct place {
    struct list_link link; // in rnic->places
    struct rnic_ep *ep;    // bound, or listening
    uint16_t port;
    uint16_t index_next; // where the search for a free number goes on
    unsigned qp_count;
};

static inline uint16_t place_port_of(uint32_t qp_num)
{
    return (uint16_t)(qp_num >> PLACE_INDEX_BITS);
}

// A number that no queue pair of the device has, and its place; NULL: no port is to be had. The
// caller fills the number's slot in rnic->qps.
struct place *place_take(struct rnic *rnic, uint32_t *ret_qp_num);
void place_release(struct place *place); // NULL: harmless

// Lets others connect to it. Harmless when it listens already. What listen says.
int place_listen(struct place *place);
