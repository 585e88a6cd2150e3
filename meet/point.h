// Points: how a queue pair's number tells where to find it. Programs that do without a connection
// manager tell each other a GID, which holds an IP address, and a number of 24 bits, no more. So
// the number is made of a TCP port and an index:
//
//     queue pair number = TCP port << 8 | index
//
// A point is a port of this host together with the queue pairs whose numbers name it. The port is
// bound from the first of them to the last; it listens only once a queue pair expects to be asked
// for, so that a program with a connection manager opens nothing by it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { MEETING_POINT_NUMBERS = 256, MEETING_POINT_BITS = 8 };

struct meeting_point {
    uint16_t port;
    uint16_t index_next; // where the search for a free number goes on: they come back late
    unsigned qp_count;
};

static inline uint16_t meeting_port_of(uint32_t qp_num)
{
    return (uint16_t)(qp_num >> MEETING_POINT_BITS);
}

// A number that is not taken, by the caller's word; 0: there is none.
uint32_t meeting_point_take(struct meeting_point *point,
                            bool (*is_taken)(const void *ctx, uint32_t qp_num), const void *ctx);
// One of its queue pairs is gone. True: it was the last.
bool meeting_point_release(struct meeting_point *point);
