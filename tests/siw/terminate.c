/*
 * An access that must be refused, one of
 *
 *     write-stag     RDMA Write to an STag that nobody handed out
 *     write-bounds   RDMA Write that runs past the end of the region
 *     read-stag      RDMA Read from an STag that nobody handed out
 *
 * The server's region stays as it is, and the connection ends at both sides (the server's stack
 * says why in a Terminate message, which the capture shows).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/siw/peer.h"

enum { KEPT = 0x3c, FORBIDDEN = 0xee };

static void serve(struct peer *peer)
{
    peer_region_fill(peer, KEPT);
    peer_receive(peer, "hello", NULL);
    peer_send_last(peer, "here", (uintptr_t)peer->region, peer->mr->rkey, PEER_REGION_LEN);
    peer_await_end(peer);
    if (!peer_region_is(peer, KEPT))
        peer_die("the region was written");
    printf("refused\n");
}

static void offend(struct peer *peer, const char *kind)
{
    const struct message *here;
    enum ibv_wc_status status;

    peer_region_fill(peer, FORBIDDEN);
    peer_send(peer, "hello", 0, 0, 0);
    here = peer_receive(peer, "here", NULL);
    errno = 0;
    if (strcmp(kind, "write-stag") == 0) {
        peer_access(peer, IBV_WR_RDMA_WRITE, here->to, here->rkey ^ 0x5a5a5a00, 16);
    } else if (strcmp(kind, "write-bounds") == 0) {
        /* The region ends the registered memory: nothing of it lies behind. */
        peer_access(peer, IBV_WR_RDMA_WRITE, here->to + here->len - 8, here->rkey, 4096);
    } else if (strcmp(kind, "read-stag") == 0) {
        status = peer_access(peer, IBV_WR_RDMA_READ, here->to, here->rkey ^ 0x5a5a5a00, 16);
        if (status == IBV_WC_SUCCESS)
            peer_die("the read succeeds");
    } else {
        peer_die("no such offence: %s", kind);
    }
    peer_await_end(peer);
    if (!peer_region_is(peer, FORBIDDEN))
        peer_die("the read brought something");
    printf("refused\n");
}

int main(int argc, char **argv)
{
    if (peer_is_server(argc, argv))
        serve(peer_accept(peer_listen(argv, 1)));
    else
        offend(peer_connect(argv), argc > 4 ? argv[4] : "write-stag");
    return 0;
}
