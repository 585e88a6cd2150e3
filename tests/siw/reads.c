/*
 * Large RDMA Reads on a connection, small ones on another meanwhile. A large one is a single work
 * request; whether it goes over the wire as one request is the reader's business. Small ones must
 * pass: at least one completes before the large ones do.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/siw/peer.h"

enum { LARGE_LEN = 8 << 20, LARGE_COUNT = 4, SMALL_LEN = 4096 };

static uint8_t octet_at(size_t at)
{
    return (uint8_t)(at * 31 + (at >> 12));
}

static struct ibv_mr *buffer_create(struct peer *peer)
{
    uint8_t *buffer = calloc(1, LARGE_LEN);
    struct ibv_mr *mr = buffer ? ibv_reg_mr(peer->id->pd, buffer, LARGE_LEN,
                                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
                               : NULL;

    if (!mr)
        peer_die("no buffer");
    return mr;
}

static void lend(struct peer *peer)
{
    struct ibv_mr *mr = buffer_create(peer);
    uint8_t *buffer = mr->addr;

    for (size_t at = 0; at < LARGE_LEN; at++)
        buffer[at] = octet_at(at);
    peer_send(peer, "there", (uintptr_t)mr->addr, mr->rkey, LARGE_LEN);
}

static void read_post(struct peer *peer, const struct ibv_mr *mr, const struct message *source,
                      uint32_t at, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)mr->addr + at, len, mr->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = source->to + at, .rkey = source->rkey},
    };
    struct ibv_send_wr *bad;

    errno = ibv_post_send(peer->id->qp, &wr, &bad);
    if (errno)
        peer_die("ibv_post_send of a read");
}

static bool is_complete(struct peer *peer)
{
    struct ibv_wc wc;
    int count = ibv_poll_cq(peer->id->send_cq, 1, &wc);

    if (count < 0 || (count == 1 && wc.status != IBV_WC_SUCCESS))
        peer_die("a read completes with status %d", count < 0 ? -1 : (int)wc.status);
    return count == 1;
}

static void expect_read(const struct ibv_mr *mr, size_t at, size_t len)
{
    const uint8_t *buffer = mr->addr;

    for (size_t end = at + len; at < end; at++) {
        if (buffer[at] != octet_at(at))
            peer_die("octet %zu is %u", at, buffer[at]);
    }
}

static unsigned read_both(struct peer *large, struct peer *small)
{
    struct ibv_mr *large_mr = buffer_create(large), *small_mr = buffer_create(small);
    const struct message *large_source = peer_receive(large, "there", NULL);
    const struct message *small_source = peer_receive(small, "there", NULL);
    unsigned count = 0, left = LARGE_COUNT;

    for (unsigned i = 0; i < LARGE_COUNT; i++)
        read_post(large, large_mr, large_source, 0, LARGE_LEN);
    while (left > 0) {
        uint32_t at = count % (LARGE_LEN / SMALL_LEN) * SMALL_LEN;

        read_post(small, small_mr, small_source, at, SMALL_LEN);
        while (!is_complete(small))
            left -= is_complete(large);
        expect_read(small_mr, at, SMALL_LEN);
        count += left > 0;
    }
    expect_read(large_mr, 0, LARGE_LEN);
    return count;
}

static void serve(char **argv)
{
    struct rdma_cm_id *listener = peer_listen(argv, 2);
    struct peer *first = peer_accept(listener), *second = peer_accept(listener);

    lend(first);
    lend(second);
    peer_receive(first, "thanks", NULL);
    peer_receive(second, "thanks", NULL);
    peer_end(first);
    peer_end(second);
}

int main(int argc, char **argv)
{
    struct peer *large, *small;
    unsigned count;

    if (peer_is_server(argc, argv)) {
        serve(argv);
        return 0;
    }
    large = peer_connect(argv);
    small = peer_connect(argv);
    count = read_both(large, small);
    printf("%u small reads passed\n", count);
    if (count == 0)
        peer_die("no small read passed the large ones");
    peer_send_last(large, "thanks", 0, 0, 0);
    peer_send_last(small, "thanks", 0, 0, 0);
    peer_await_end(large);
    peer_await_end(small);
    return 0;
}
