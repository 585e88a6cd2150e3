// Who was met. Strangers can make themselves known under as many addresses as they like, so there
// are no more than so many.

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "rsocket/datagram.h"
#include "rsocket/rsocket.h"

static unsigned bucket_of(const struct sockaddr *addr)
{
    const struct sockaddr_in *a4 = (const void *)addr;
    const struct sockaddr_in6 *a6 = (const void *)addr;
    uint32_t words[4] = {a4->sin_addr.s_addr};
    if (addr->sa_family == AF_INET6) {
        memcpy(words, &a6->sin6_addr, sizeof words);
    }
    // The port stands at the same place in both.
    uint32_t mixed = words[0] ^ words[1] ^ words[2] ^ words[3] ^ a4->sin_port * 0x9e3779b1U;
    return (mixed ^ mixed >> 8 ^ mixed >> 16 ^ mixed >> 24) % RS_PEER_BUCKET_COUNT;
}

void rs_peers_init(struct rs_peers *peers)
{
    for (unsigned i = 0; i < RS_PEER_BUCKET_COUNT; i++) {
        list_init(&peers->buckets[i]);
    }
    list_init(&peers->by_age);
    peers->count = 0;
}

static void forget(struct rs_peers *peers, struct rs_peer *peer)
{
    list_remove(&peer->of_bucket);
    list_remove(&peer->by_age);
    peers->count--;
    if (peer->ah != NULL) {
        ibv_destroy_ah(peer->ah);
    }
    free(peer);
}

void rs_peers_fini(struct rs_peers *peers)
{
    while (!list_is_empty(&peers->by_age)) {
        forget(peers, LIST_ENTRY(peers->by_age.next, struct rs_peer, by_age));
    }
}

struct rs_peer *rs_peers_find(struct rs_peers *peers, const struct sockaddr *addr)
{
    struct list_link *bucket = &peers->buckets[bucket_of(addr)];
    for (struct list_link *l = bucket->next; l != bucket; l = l->next) {
        struct rs_peer *peer = LIST_ENTRY(l, struct rs_peer, of_bucket);
        if (sockaddr_is_same((const struct sockaddr *)&peer->addr, addr)) {
            list_remove(&peer->by_age);
            list_push_tail(&peers->by_age, &peer->by_age);
            return peer;
        }
    }
    return NULL;
}

struct rs_peer *rs_peers_add(struct rs_peers *peers, const struct sockaddr *addr, struct rs_ud *ud)
{
    struct rs_peer *peer = calloc(1, sizeof *peer);
    if (peer == NULL) {
        return NULL;
    }
    if (peers->count >= RS_PEER_MAX) {
        forget(peers, LIST_ENTRY(peers->by_age.next, struct rs_peer, by_age));
    }
    memcpy(&peer->addr, addr, sockaddr_len(addr));
    peer->ud = ud;
    list_push_tail(&peers->buckets[bucket_of(addr)], &peer->of_bucket);
    list_push_tail(&peers->by_age, &peer->by_age);
    peers->count++;
    return peer;
}
