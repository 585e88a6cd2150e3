// A host that nobody has invited, on a net of datagrams: it sends packets of every kind to queue
// pairs whose numbers it knows. From its own address it also knows keys, addresses and all that can
// be known, and nothing at all may come of it. Under the address of a peer it knows no PSN and no
// key: work may fail, and no memory may change.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>

struct datagram_link;
struct sim;

struct sim_stranger {
    struct datagram_link *link; // NULL: there is none
};

struct in_addr sim_stranger_addr(void);
// If the wire has datagrams. False: no memory.
bool sim_stranger_init(struct sim *sim);
void sim_stranger_fini(struct sim *sim);
// Sends one packet to a drawn queue pair.
void sim_stranger_act(struct sim *sim);
