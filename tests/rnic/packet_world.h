// Two devices whose queue pairs are carried by packets, over a net on virtual time, with a queue
// pair each; for the tests of this folder.
#pragma once

#include <netinet/in.h>

#include "link/datagram/sim.h"
#include "tests/rnic/device.h"

enum { WORLD_MTU = 1024, WORLD_QKEY = 0x11111111, WORLD_QUEUE_LEN = 128 };

struct world {
    instant_ns now;
    struct datagram_net *net;
    struct device devices[2];
    struct rnic_qp *qps[2];
    bool is_one_gone; // the second device: by the test
};
extern struct world w;

struct in6_addr world_addr(unsigned i); // of a device
// The devices of the next worlds offer weft's extensions; they do at first.
void world_offer_extensions(bool offer);
void world_open(const struct datagram_net_config *config);          // without queue pairs
struct rnic_qp *world_qp(struct device *d, enum rnic_qp_type type); // in RESET
// Both ready to send, those of RC to each other.
void world_open_pair(enum rnic_qp_type type, const struct datagram_net_config *config);
void world_make_pair(
    enum rnic_qp_type type); // another, in the place of that; the test keeps the first
void world_close(void);

bool world_step(void);                   // all that is to be done now; true if anything was
bool world_pass_time(void);              // to when there is something again; false: never
void world_run(void);                    // until there is nothing
struct cqe world_completion(unsigned i); // of a device: waits for it

void world_post_recv(unsigned i, uint32_t offset, uint32_t len);
// A send that is to be committed; its list is of the device's buffer.
struct rnic_sq_cursor;
struct send_wqe *world_slot(struct rnic_sq_cursor *cursor, unsigned i, enum wqe_opcode opcode,
                            uint32_t offset, uint32_t len);
void world_post(unsigned i, enum wqe_opcode opcode, uint32_t offset, uint32_t len,
                uint32_t remote_offset);
void world_fill(uint8_t *octets, size_t len); // with a pattern
