/*
 * One end of a connection, for the small programs that say over public verbs what no tool of the
 * distribution says (invalidate.c, terminate.c, crowd.c). They run unchanged on any stack: on weft
 * and on the kernel's siw, each as client and as server.
 *
 *     PROGRAM server ADDR PORT [WORD]
 *     PROGRAM client ADDR PORT [WORD]
 *
 * Everything blocks; what fails ends the program with status 1 and one line, and a program that
 * hangs is ended by SIGALRM after PEER_LIMIT_S.
 */
#ifndef WEFT_TESTS_SIW_PEER_H
#define WEFT_TESTS_SIW_PEER_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    PEER_LIMIT_S = 100,     /* an emulated processor on a busy machine takes its time */
    PEER_MESSAGE_LEN = 64,  /* of every Send */
    PEER_RECEIVE_COUNT = 4, /* posted before the connection is made */
    PEER_REGION_LEN = 8192, /* what the other end may read and write: several FPDUs */
};

/* What a Send carries: words of the program's own, and where a region can be reached. */
struct message {
    char text[PEER_MESSAGE_LEN - 16];
    uint64_t to;
    uint32_t rkey;
    uint32_t len;
};

struct peer {
    struct rdma_cm_id *id;
    struct ibv_mr *mr; /* of this structure; remotely it may be read and written */
    unsigned received; /* receive completions so far: the next one is in inbox[received % COUNT] */
    struct message inbox[PEER_RECEIVE_COUNT];
    struct message outbox;
    uint8_t region[PEER_REGION_LEN];
};

/* Prints the line (and errno, if set) and ends the program with status 1. */
void peer_die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* True for the words `server ADDR PORT`, false for `client`; starts the time limit. */
bool peer_is_server(int argc, char **argv);

/* Listens on argv's address; backlog in connections. */
struct rdma_cm_id *peer_listen(char **argv, int backlog);

/* Accepts the next connection, receives posted. The peer comes from calloc() and is never freed. */
struct peer *peer_accept(struct rdma_cm_id *listener);

/* Connects to argv's address, receives posted. */
struct peer *peer_connect(char **argv);

/* Sends `text` and the place of len octets at `to`, and waits for the completion. */
void peer_send(struct peer *peer, const char *text, uint64_t to, uint32_t rkey, uint32_t len);

/*
 * The same without waiting, for a message whose answer ends the connection: siw fails a Send that
 * was received long ago when the end overtakes its completion.
 */
void peer_send_last(struct peer *peer, const char *text, uint64_t to, uint32_t rkey, uint32_t len);

/* peer_send as Send with Invalidate of `revoked`. */
void peer_send_invalidate(struct peer *peer, const char *text, uint32_t revoked);

/* Waits for a message; *ret_wc may be NULL. Dies unless its text is `text`. */
const struct message *peer_receive(struct peer *peer, const char *text, struct ibv_wc *ret_wc);

/*
 * Posts one RDMA Write or Read of the first len octets of the own region and waits for its
 * completion; gives the completion's status.
 */
enum ibv_wc_status peer_access(struct peer *peer, enum ibv_wr_opcode opcode, uint64_t to,
                               uint32_t rkey, uint32_t len);

/* Waits until the connection has come to its end; dies unless posted receives are flushed. */
void peer_await_end(struct peer *peer);

/* Disconnects. */
void peer_end(struct peer *peer);

/* Fills the region with an octet; tells whether it is filled so. */
void peer_region_fill(struct peer *peer, uint8_t octet);
bool peer_region_is(const struct peer *peer, uint8_t octet);

#endif
