// A stream through memory, both of whose ends are this process, by a clock that the test sets and
// with the answers of TCP as the test gives them.
#pragma once

#include <arpa/inet.h>
#include <unistd.h>

#include "link/local/doorbell.h"
#include "tests/link/local_loop.h"

enum { RING_LEN = 64 * 1024 };
#define LINGER_NS       (20 * NS_PER_US)
#define PEER_TIMEOUT_NS (200 * NS_PER_MS)
#define TCP_GAP_NS      (50 * NS_PER_US)

static instant_ns now_ns; // goes on with each look, unless it is held
static bool is_held;

static inline instant_ns clock_of_test(void *ctx)
{
    now_ns += is_held ? 0 : NS_PER_MS;
    return now_ns;
}

static const struct link_local_config config = {.ring_len = RING_LEN,
                                                .peer_timeout_ns = PEER_TIMEOUT_NS,
                                                .linger_ns = LINGER_NS,
                                                .clock = clock_of_test};

/* ---- TCP, as the test has it ----------------------------------------------------------------- */

static struct link_ops tcp_ops;
static const struct link_ops *plain_ops;
static unsigned poll_count, send_count;
static size_t sent_len; // by TCP, as far as it was offered
static int addr_error;
static const char *peer_text; // in place of the peer's address

static struct link_ready tcp_report; // what it reports next; no stream: what there is
static int poll_error;
static ssize_t recv_said; // 1: what there is
static int result_said;   // likewise
static unsigned wake_count;
static duration_ns waited_ns; // by the last wait
static int in_wanted;         // by the last wish; -1: there was none

static inline int count_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    poll_count++;
    if (poll_error != 0) {
        return poll_error;
    }
    if (tcp_report.stream != NULL) {
        *ret = tcp_report;
        tcp_report.stream = NULL;
        return 1;
    }
    return plain_ops->poll(link, ret, max);
}

static inline ssize_t count_send(struct link_stream *stream, const struct link_tx *tx)
{
    send_count++;
    for (unsigned i = 0; i < tx->iov_count; i++) {
        sent_len += tx->iov[i].iov_len;
    }
    return plain_ops->send(stream, tx);
}

static unsigned recv_refusals; // -EAGAIN, whatever there is

static inline ssize_t recv_by_hand(struct link_stream *stream, struct mspan into)
{
    if (recv_refusals > 0) {
        recv_refusals--;
        return -EAGAIN;
    }
    if (recv_said != 1) {
        return recv_said;
    }
    return plain_ops->recv(stream, into);
}

static inline int local_addr_by_hand(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    return addr_error != 0 ? addr_error : plain_ops->local_addr(stream, ret);
}

static inline int peer_addr_by_hand(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    const int error = plain_ops->peer_addr(stream, ret);
    if (error == 0 && peer_text != NULL) {
        inet_pton(AF_INET, peer_text, &((struct sockaddr_in *)ret)->sin_addr);
    }
    return error;
}

static inline int result_by_hand(struct link_stream *stream)
{
    return result_said != 1 ? result_said : plain_ops->connect_result(stream);
}

static inline void count_wake(struct link *link)
{
    wake_count++;
    plain_ops->wake(link);
}

static inline void note_wait(struct link *link, duration_ns timeout_ns)
{
    waited_ns = timeout_ns;
    plain_ops->wait(link, timeout_ns);
}

static inline void note_want_in(struct link_stream *stream, bool wanted)
{
    in_wanted = wanted;
    plain_ops->want_in(stream, wanted);
}

static inline int begin(void **state)
{
    struct link *inner;
    is_held = false;
    now_ns = NS_PER_S;
    addr_error = 0;
    recv_refusals = 0;
    tcp_report.stream = NULL;
    poll_error = 0;
    recv_said = result_said = 1;
    in_wanted = -1;
    peer_text = NULL;
    descriptors_note();
    local_link_open(&config);
    inner = local_link_of(the_link)->forward.inner;
    plain_ops = inner->ops;
    tcp_ops = *plain_ops;
    tcp_ops.poll = count_poll;
    tcp_ops.send = count_send;
    tcp_ops.recv = recv_by_hand;
    tcp_ops.connect_result = result_by_hand;
    tcp_ops.wake = count_wake;
    tcp_ops.wait = note_wait;
    tcp_ops.want_in = note_want_in;
    tcp_ops.local_addr = local_addr_by_hand;
    tcp_ops.peer_addr = peer_addr_by_hand;
    inner->ops = &tcp_ops;
    return 0;
}

static inline struct local_stream *near_end(void)
{
    return local_stream_of(l.active);
}

static inline struct local_stream *far_end(void)
{
    return local_stream_of(l.passive);
}

static inline void go_over(void)
{
    local_loop_open();
    assert_int_equal(near_end()->path, LOCAL_PATH_MEMORY);
    assert_int_equal(far_end()->path, LOCAL_PATH_MEMORY);
    is_held = true;
}

static inline void hold_off_tcp(void)
{
    local_link_of(the_link)->tcp_asked_ns = now_ns;
}

// What `stream` is ready for at one look at the memory, at this instant.
static inline unsigned look(const struct link_stream *stream)
{
    struct link_ready ready[8];
    const int count = the_link->ops->poll(the_link, ready, 8);
    for (int i = 0; i < count; i++) {
        if (ready[i].stream == stream) {
            return ready[i].what;
        }
    }
    return 0;
}

static uint8_t octets[2 * RING_LEN];

static inline ssize_t send_len(struct link_stream *stream, size_t len)
{
    struct iovec iov = {octets, len};
    const struct link_tx tx = {.iov = &iov, .iov_count = 1};
    return link_send(stream, &tx);
}

static inline ssize_t recv_len(struct link_stream *stream, size_t len)
{
    static uint8_t got[2 * RING_LEN];
    return link_recv(stream, mspan_of(got, len));
}
