// Two streams of one link, connected over loopback.
#pragma once

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/port_link.h"

struct loop {
    struct link *link;
    struct link_stream *listener, *active, *passive;
};

static inline struct sockaddr_storage loopback(int family)
{
    struct sockaddr_storage addr = {.ss_family = (sa_family_t)family};
    if (family == AF_INET6) {
        ((struct sockaddr_in6 *)&addr)->sin6_addr = in6addr_loopback;
    } else {
        ((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    return addr;
}

static inline const struct sockaddr *addr_of(const struct sockaddr_storage *addr)
{
    return (const struct sockaddr *)addr;
}

// Sleeps, if there is nothing to be found.
static inline void loop_wait(struct link *link, duration_ns timeout_ns)
{
    if (link->ops->may_wait(link)) {
        link->ops->wait(link, timeout_ns);
    }
}

// What `stream` is ready for, within 20 seconds; 0 when it is not.
static inline unsigned ready_of(struct link *link, struct link_stream *stream)
{
    struct link_ready ready[8];
    for (int turn = 0; turn < 200; turn++) {
        int count = link->ops->poll(link, ready, 8);
        if (count == 0) {
            loop_wait(link, 100 * NS_PER_MS);
            count = link->ops->poll(link, ready, 8);
        }
        for (int i = 0; i < count; i++) {
            if (ready[i].stream == stream) {
                return ready[i].what;
            }
        }
    }
    return 0;
}

// Nothing is ready for a while, and then nothing at all. A stream may be reported for what turns
// out to be no octets: an acknowledgement, which a loaded machine may bring late.
static inline void assert_quiet(struct link *link)
{
    struct link_ready ready[8];
    int count = 1;
    for (int turn = 0; turn < 4 || count > 0; turn++) {
        assert_true(turn < 1000);
        count = link->ops->poll(link, ready, 8);
        for (int i = 0; i < count; i++) {
            uint8_t octet;
            assert_int_equal(ready[i].what, LINK_READY_IN);
            assert_true(link->ops->recv(ready[i].stream, mspan_of(&octet, 1)) <= 0);
        }
        loop_wait(link, 5 * NS_PER_MS);
    }
}

static inline void loop_listen(struct loop *l, struct link *link, int family)
{
    struct sockaddr_storage addr = loopback(family);
    l->link = link;
    assert_int_equal(link->ops->bind(link, addr_of(&addr), 0, NULL, &l->listener), 0);
    assert_int_equal(link->ops->listen(l->listener, 8), 0);
}

static inline void loop_connect(struct loop *l)
{
    const struct link_ops *ops = l->link->ops;
    struct sockaddr_storage addr;
    assert_int_equal(ops->local_addr(l->listener, &addr), 0);
    assert_int_equal(ops->bind(l->link, NULL, 0, NULL, &l->active), 0);
    assert_int_equal(ops->connect(l->active, addr_of(&addr)), -EINPROGRESS);
    assert_true(ready_of(l->link, l->listener) & LINK_READY_IN);
    assert_int_equal(ops->accept(l->listener, &l->passive), 0);
    assert_true(ready_of(l->link, l->active) & LINK_READY_OUT);
    assert_int_equal(ops->connect_result(l->active), 0);
}

static inline void loop_open(struct loop *l, struct link *link, int family)
{
    loop_listen(l, link, family);
    loop_connect(l);
}

static inline ssize_t send_text(struct link_stream *stream, const char *text)
{
    struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text)};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    return stream->link->ops->send(stream, &tx);
}

// Waits for octets, or the end, for a while.
static inline ssize_t recv_some(struct link_stream *stream, void *into, size_t len)
{
    ssize_t got = -EAGAIN;
    for (int turn = 0; turn < 4 && got == -EAGAIN; turn++) {
        ready_of(stream->link, stream);
        got = stream->link->ops->recv(stream, mspan_of(into, len));
    }
    return got;
}
