// One connection: at one end weft, a program on verbs and rdma_cm; at the other a plain TCP socket,
// which says what a test wants. Any device's program could stand at weft's end.
//
// WEFT_TEST_ADDR and WEFT_TEST_PEER_ADDR say where the two are; both are 127.0.0.1 otherwise.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/conformance/frames.h"
#include "tests/conformance/program.h"

enum role { WEFT_RESPONDS, WEFT_INITIATES };
extern enum role responds, initiates;

// A test of full operation, whoever began: once with weft in each role.
#define IN_BOTH_ROLES(test)                                    \
    {#test ", weft responds", test, NULL, NULL, &responds},    \
    {                                                          \
#test ", weft initiates", test, NULL, NULL, &initiates \
    }
#define RESPONDING(test)                   \
    {                                      \
#test, test, NULL, NULL, &responds \
    }
#define INITIATING(test)                    \
    {                                       \
#test, test, NULL, NULL, &initiates \
    }

enum { MEMORY_LEN = 256 * 1024, RECEIVE_LEN = 4096, RECEIVES_AT = 128 * 1024 };

int program_setup(void **state); // group fixtures
int program_teardown(void **state);

struct stream {
    enum role role;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *id;
    int listen_fd, fd;
    unsigned receive_count;       // posted so far; their work requests are numbered from 0
    uint8_t frame[FRAME_MAX_LEN]; // what weft said at start-up
};

// Established, with `receive_count` receives posted, as usual. With weft as responder the peer has
// sent an empty Write, as an initiator must send first.
void stream_open(struct stream *s, void **state, unsigned receive_count);
void stream_open_as(struct stream *s, void **state, unsigned receive_count,
                    const struct startup *from_peer);
void stream_close(struct stream *s);

/* ---- in steps -------------------------------------------------------------------------------- */
// Up to weft's Request, which is in `frame`; or the peer's Request and its CONNECT_REQUEST.
void stream_begin(struct stream *s, enum role role);
void stream_ask(struct stream *s, const struct startup *request); // the peer's; until it is heard
void stream_accept(struct stream *s, unsigned receive_count); // weft's program; Reply in `frame`
void stream_answer(struct stream *s, const struct startup *reply);                  // the peer's
struct rdma_cm_event *stream_event(struct stream *s, enum rdma_cm_event_type type); // to be acked
void stream_expect_event(struct stream *s, enum rdma_cm_event_type type);
void stream_disconnect(struct stream *s);

/* ---- the peer -------------------------------------------------------------------------------- */
extern int peer_segment_len; // its maximum segment size from here on; 0: the kernel's
int peer_listen(uint16_t *ret_port);
void peer_send(struct stream *s, const void *octets, size_t len);
void peer_say(struct stream *s, const struct ulpdu *u);
bool peer_hear(struct stream *s, struct ulpdu *u); // false: the stream ended
void peer_hear_opcode(struct stream *s, struct ulpdu *u, enum opcode opcode);
bool peer_hears_nothing(struct stream *s); // for as long as a noisy machine may take to say it
void peer_receive(struct stream *s, void *octets, size_t len);
void peer_finish(struct stream *s); // FIN
void peer_reset(struct stream *s);  // RST
void peer_expect_end(struct stream *s);
// The next but for what was under way is a Terminate with these, and the stream ends behind it.
void peer_expect_terminate(struct stream *s, unsigned layer, unsigned etype, unsigned code);
// ... which this ULPDU causes.
void expect_refusal(void **state, const struct ulpdu *u, unsigned layer, unsigned etype,
                    unsigned code);

/* ---- weft's program -------------------------------------------------------------------------- */
void post_receive(struct stream *s, uint32_t len);
// Signalled; `to` in the peer's memory, of which the STag is PEER_KEY.
void post(struct stream *s, enum ibv_wr_opcode opcode, uint32_t offset, uint32_t len, uint64_t to);
bool polls_nothing(void);
