// One queue pair of weft's, of a program on verbs, and its peer: a plain UDP socket that says what
// a test wants. Each is told the other by hand, as programs do that exchange numbers by themselves;
// the PSNs of both wrap with their third packet.
//
// That weft says nothing to a packet is shown by what it says to the next one, never by a clock.
#pragma once

#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/conformance/packets.h"
#include "tests/conformance/program.h"

enum {
    PMTU = 256,
    MEMORY_LEN = 64 * 1024,
    RECEIVES_AT = 32 * 1024, // receive i at RECEIVE_LEN * i behind it
    RECEIVE_LEN = 1024,
    PEER_PSN = 0xfffffe,
    WEFT_PSN = 0xfffffd,
    PAIR_QKEY = 0x22222222,
};

// The device, and its peer's socket.
struct ends {
    struct ibv_context *context;
    struct ibv_comp_channel *channel;    // of the program's completions
    struct sockaddr_in weft_at, peer_at; // where packets go
    int fd;                              // the peer's
};
extern struct ends ends;
int program_setup(void **state); // group fixtures
int program_teardown(void **state);

struct pair_attr {
    enum ibv_qp_type type;
    enum ibv_qp_state state; // how far it goes
    int rights;
    uint8_t depth; // Reads and atomics, both ways
    uint8_t timeout, retry_count, rnr_retry, min_rnr_timer;
    uint8_t traffic_class, hop_limit;
};
struct pair {
    struct ibv_qp *qp;
    uint32_t peer_num; // of the peer's queue pair: another one in each test
    unsigned receive_count;
};
struct pair_attr pair_usual(void); // RC, ready to send, all rights, never a time-out
void pair_open(struct pair *p);
void pair_open_as(struct pair *p, const struct pair_attr *attr);
void pair_close(struct pair *p);
enum ibv_qp_state pair_state(struct pair *p);
int pair_gid_index(void); // from which weft sends

/* ---- the peer -------------------------------------------------------------------------------- */
static inline uint32_t peer_psn(unsigned n) // of its n-th packet, from 0
{
    return (PEER_PSN + n) & PSN_BITS;
}
static inline uint32_t weft_psn(unsigned n)
{
    return (WEFT_PSN + n) & PSN_BITS;
}
void say(struct pair *p, struct packet *packet); // with destination and ICRC
void say_from(struct pair *p, struct packet *packet, int fd, const struct sockaddr_in *from,
              uint32_t icrc_change); // ... from another socket; with an ICRC that is so much off
int another_socket(const char *addr, struct sockaddr_in *ret_at); // of this host's; at any port
// The peer's n-th packet of an RC message, with the headers that its opcode has, zeros in those
// that a test does not fill, and so much payload; asks for an acknowledgement at the end of it.
void request(struct packet *packet, unsigned operation, unsigned n, const void *octets, size_t len);
void say_send(struct pair *p, unsigned n, const char *text); // Send Only, asking
void say_write(struct pair *p, unsigned n, uint64_t va, uint32_t rkey, const void *octets,
               size_t len); // Write Only, asking
void say_read(struct pair *p, unsigned n, uint64_t va, uint32_t rkey, uint32_t len);
void say_add(struct pair *p, unsigned n, uint64_t va, uint32_t rkey, uint64_t add);
void say_ack(struct pair *p, unsigned n, uint8_t syndrome, uint32_t msn); // of weft's n-th

// The next to the peer's queue pair, of which the ICRC is right.
void hear(struct pair *p, struct packet *packet);
bool hear_if_any(struct pair *p, struct packet *packet); // false: nothing has come
// The next answer: an acknowledgement of the peer's n-th packet.
void hear_ack(struct pair *p, unsigned n, uint32_t msn);
void hear_nak(struct pair *p, unsigned n, uint8_t syndrome);
// ... of a Read in one packet, or of an atomic
void hear_read(struct pair *p, unsigned n, const void *octets, size_t len);
void hear_atomic(struct pair *p, unsigned n, uint64_t original);
// Weft's n-th packet; those before may have left again.
void hear_request(struct pair *p, struct packet *packet, unsigned operation, unsigned n);
// Before weft answers the peer's n-th packet, an empty Write, its own `weft_n`-th does not leave.
void expect_withheld(struct pair *p, unsigned n, unsigned weft_n);
// All is well still: a Send, n-th, is received and acknowledged at once, with nothing said before,
// nor anything else completed.
void expect_silence(struct pair *p, unsigned n, uint32_t msn);
// The same by a pair of its own, where this one takes no more, or says nothing.
void expect_no_word(struct pair *p);

/* ---- weft's program -------------------------------------------------------------------------- */
void post_receive(struct pair *p, uint32_t len);
void post_receives(struct pair *p, unsigned count);
// Signalled; `to` in the peer's memory, of which the key is PEER_KEY.
void post(struct pair *p, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t len, uint64_t to);
void post_wr(struct pair *p, struct ibv_send_wr *wr);
void expect_status(enum ibv_wc_status status);
void fill(uint8_t *octets, size_t len, uint8_t first);
