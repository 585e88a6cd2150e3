// What the settings of a process promise of its links, whatever carries the connections.
#include <stdio.h>
#include <time.h>

#include "host/link.h"
#include "tests/link/loop.h"

enum { PEER_TIMEOUT_S = 1, LIMIT_S = 40 };

static time_t now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec;
}

static struct link *link_of(const char *kind)
{
    struct host_settings settings;
    struct link *link;
    host_settings_read(&settings);
    snprintf(settings.link, sizeof settings.link, "%s", kind);
    settings.peer_timeout_ns = PEER_TIMEOUT_S * NS_PER_S;
    assert_int_equal(host_link_create(&settings, NULL, &link), 0);
    return link;
}

/* ---- a peer that answers and takes nothing --------------------------------------------------- */

static enum place_verdict take_nothing(void *ctx, const struct place_offer *offer,
                                       struct place_answer *answer)
{
    (void)ctx, (void)offer, (void)answer;
    return PLACE_BUFFER;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t end,
                       const struct place_counts *counts)
{
    (void)ctx, (void)position, (void)end, (void)counts;
    return false;
}

// Sends until the peer's window is shut, and then waits for what becomes of the stream, while the
// peer looks at what arrives, acknowledges it, and answers.
static ssize_t send_to_who_takes_nothing(struct loop *l)
{
    static char octets[65536], none[1];
    struct iovec iov = {octets, sizeof octets};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    struct link_ready ready[4];
    ssize_t result = 0;
    for (time_t end = now_s() + LIMIT_S; now_s() < end && (result >= 0 || result == -EAGAIN);) {
        result = l->link->ops->send(l->active, &tx);
        l->link->ops->poll(l->link, ready, 4);
        l->link->ops->recv(l->active, mspan_of(none, sizeof none));
        l->link->ops->recv(l->passive, mspan_of(none, sizeof none));
        if (result == -EAGAIN) {
            l->link->ops->wait(l->link, 10 * NS_PER_MS);
        }
    }
    return result;
}

static void peer_that_keeps_its_window_shut_is_given_up_over_udp(void **state)
{
    struct loop l;
    struct link *link = link_of("udp");
    const struct place_port port = {.place = take_nothing, .on_advance = on_advance};
    loop_open(&l, link, AF_INET);
    link->ops->set_place(l.passive, &port);
    assert_int_equal(send_to_who_takes_nothing(&l), -ETIMEDOUT);
    link->ops->destroy(link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(peer_that_keeps_its_window_shut_is_given_up_over_udp),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
