/*
 * Many connections of one process, all open at the same time: WORD of them (default 100). Each
 * carries its own number there and back before any of them is closed.
 *
 *     crowd server ADDR PORT COUNT
 *     crowd client ADDR PORT COUNT [PORTS]     an equal share to each of PORTS ports from PORT on
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/siw/peer.h"

static void serve(char **argv, unsigned peer_count)
{
    struct rdma_cm_id *listener = peer_listen(argv, (int)peer_count);
    struct peer **peers = calloc(peer_count, sizeof(*peers));
    unsigned i;

    for (i = 0; i < peer_count; i++)
        peers[i] = peer_accept(listener);
    for (i = 0; i < peer_count; i++)
        peer_send(peers[i], "echo", peer_receive(peers[i], "number", NULL)->to, 0, 0);
    for (i = 0; i < peer_count; i++)
        peer_await_end(peers[i]);
}

static void attend(char **argv, unsigned peer_count, unsigned port_count)
{
    struct peer **peers = calloc(peer_count, sizeof(*peers));
    unsigned first_port = (unsigned)atoi(argv[3]);
    char port[8];
    unsigned i;

    argv[3] = port;
    for (i = 0; i < peer_count; i++) {
        snprintf(port, sizeof(port), "%hu",
                 (unsigned short)(first_port + i * port_count / peer_count));
        peers[i] = peer_connect(argv);
    }
    for (i = 0; i < peer_count; i++)
        peer_send(peers[i], "number", i, 0, 0);
    errno = 0;
    for (i = 0; i < peer_count; i++) {
        if (peer_receive(peers[i], "echo", NULL)->to != i)
            peer_die("connection %u brings another one's number", i);
    }
    for (i = 0; i < peer_count; i++)
        peer_end(peers[i]);
    printf("%u connections\n", peer_count);
}

int main(int argc, char **argv)
{
    bool server = peer_is_server(argc, argv);
    unsigned peer_count = argc > 4 ? (unsigned)atoi(argv[4]) : 100;

    if (server)
        serve(argv, peer_count);
    else
        attend(argv, peer_count, argc > 5 ? (unsigned)atoi(argv[5]) : 1);
    return 0;
}
