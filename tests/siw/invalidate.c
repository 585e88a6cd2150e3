/*
 * Send with Invalidate. The client lends its region; the server writes it and gives it back with
 * Send with Invalidate; a write through the revoked STag must then change nothing and must end the
 * connection.
 *
 * The client lends a type 2 memory window where the device has them, since a plain region need not
 * admit remote invalidation; elsewhere a second registration of the same octets: siw has no
 * windows. siw's user library does not report the invalidated key either, so that is asked of a
 * window only.
 */
#include <errno.h>
#include <stdio.h>

#include "tests/siw/peer.h"

enum { WRITTEN = 0xa7, OWN = 0x55, STALE = 0xee };

static void serve(struct peer *peer)
{
    const struct message *lent = peer_receive(peer, "lent", NULL);

    if (lent->len != PEER_REGION_LEN)
        peer_die("%u octets are lent", lent->len);
    peer_region_fill(peer, WRITTEN);
    if (peer_access(peer, IBV_WR_RDMA_WRITE, lent->to, lent->rkey, lent->len) != IBV_WC_SUCCESS)
        peer_die("the write fails");
    peer_send_invalidate(peer, "given back", lent->rkey);
    peer_receive(peer, "mine again", NULL);
    peer_region_fill(peer, STALE);
    peer_access(peer, IBV_WR_RDMA_WRITE, lent->to, lent->rkey, lent->len);
    peer_await_end(peer);
}

/* The key of a window over the region, 0 where the device has no windows. */
static uint32_t window_bind(struct peer *peer)
{
    struct ibv_device_attr device;
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;
    struct ibv_mr *mr;
    struct ibv_mw *mw;
    struct ibv_wc wc;

    if (ibv_query_device(peer->id->verbs, &device))
        peer_die("ibv_query_device");
    if (device.max_mw == 0)
        return 0;
    mr = ibv_reg_mr(peer->id->pd, peer->region, PEER_REGION_LEN,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    mw = ibv_alloc_mw(peer->id->pd, IBV_MW_TYPE_2);
    if (!mr || !mw)
        peer_die("no window");
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
    wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
        .mr = mr,
        .addr = (uintptr_t)peer->region,
        .length = PEER_REGION_LEN,
        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
    };
    errno = ibv_post_send(peer->id->qp, &wr, &bad);
    if (errno)
        peer_die("ibv_post_send of a bind");
    while (ibv_poll_cq(peer->id->send_cq, 1, &wc) == 0)
        ;
    if (wc.status != IBV_WC_SUCCESS)
        peer_die("the bind completes with status %d", wc.status);
    return wr.bind_mw.rkey;
}

/* The key of one more registration of the region: it is not only the remote rights that go. */
static uint32_t region_register(struct peer *peer)
{
    struct ibv_mr *mr = ibv_reg_mr(peer->id->pd, peer->region, PEER_REGION_LEN,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

    if (!mr)
        peer_die("ibv_reg_mr");
    return mr->rkey;
}

static void lend(struct peer *peer)
{
    uint32_t window = window_bind(peer);
    uint32_t rkey = window ? window : region_register(peer);
    struct ibv_wc wc;

    peer_send(peer, "lent", (uintptr_t)peer->region, rkey, PEER_REGION_LEN);
    peer_receive(peer, "given back", &wc);
    if (!peer_region_is(peer, WRITTEN))
        peer_die("the region is not what was written");
    if (window && !(wc.wc_flags & IBV_WC_WITH_INV))
        peer_die("the completion does not tell of the invalidation");
    if (window && wc.invalidated_rkey != window)
        peer_die("key %#x is invalidated, %#x was lent", wc.invalidated_rkey, window);
    peer_region_fill(peer, OWN);
    peer_send_last(peer, "mine again", 0, 0, 0);
    peer_await_end(peer);
    if (!peer_region_is(peer, OWN))
        peer_die("a revoked key could be written through");
    printf("invalidated a %s\n", window ? "window" : "region");
}

int main(int argc, char **argv)
{
    if (peer_is_server(argc, argv))
        serve(peer_accept(peer_listen(argv, 1)));
    else
        lend(peer_connect(argv));
    return 0;
}
