// The program on verbs that weft serves, of both suites: its memory, its work and what completes.
#pragma once

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

enum { PATIENCE_S = 30, PEER_KEY = 0x5757 }; // the peer's memory has that key

// What all tests of a program share.
struct program {
    struct ibv_pd *pd, *foreign_pd;
    struct ibv_cq *cq;
    uint8_t *memory;
    struct ibv_mr *mr;      // all of it, all rights
    struct ibv_mr *closed;  // ... for the program alone
    struct ibv_mr *foreign; // ... in another domain
};
extern struct program program;
// `channel` may be NULL. Lengths in octets.
void program_open(struct ibv_context *context, struct ibv_comp_channel *channel, int cq_len,
                  size_t memory_len);
void program_close(void);
static inline uint64_t at(uint64_t offset) // in the program's memory, as keys see it
{
    return (uintptr_t)program.memory + offset;
}

void program_post_receive(struct ibv_qp *qp, uint64_t wr_id, uint32_t offset, uint32_t len);
// Signalled; `to` in the peer's memory.
struct ibv_send_wr work(enum ibv_wr_opcode opcode, struct ibv_sge *sge, uint64_t to);
void program_post_wr(struct ibv_qp *qp, struct ibv_send_wr *wr);
void program_post(struct ibv_qp *qp, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t len,
                  uint64_t to);
struct ibv_wc poll_one(void);
void expect_success(enum ibv_wc_opcode opcode);
