// Two ends of a connection over 127.0.0.1, or the address that WEFT_BENCH_ADDR names, for the
// measured programs: ordinary users of libibverbs and librdmacm. The target tells in its private
// data where its memory is; the requester learns the port through a pipe, since the two are
// processes of their own. What fails ends the program.
#pragma once

#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>

// What the target tells the requester.
struct bench_target {
    uint64_t addr;
    uint32_t rkey;
};

struct bench_end {
    struct ibv_qp_cap cap; // of its queue pair
    // What the peer may read and write; NULL: memory_len octets are taken, and zeroed.
    uint8_t *memory;
    size_t memory_len;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_mr *mr; // of the memory
    struct bench_target peer;
};

void bench_fail(const char *what) __attribute__((noreturn));

// The target listens, writes its port to `port_fd` and prepares its end for the connection.
void end_listen(struct bench_end *end, int port_fd);
// The target accepts, and waits until the connection is made.
void end_accept(struct bench_end *end);

// The requester; and its end, which is not needed where the process ends as well.
void end_connect(struct bench_end *end, int port_fd);
void end_disconnect(struct bench_end *end);
