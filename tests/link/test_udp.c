// TCP of our own over UDP sockets, over loopback.
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/sanitized.h"
#include "link/device/udp.h"
#include "tests/link/contract.h"
#include "tests/link/counted.h"
#include "tests/link/stranger.h"
#include "wire/icmp.h"
#include "wire/tcp.h"

/* ---- placing --------------------------------------------------------------------------------- */

struct taker {
    char got[32];
    size_t got_len;
    uint64_t position; // of the first octet offered
    bool is_stalled;
    unsigned offers;
};

static enum place_verdict take(void *ctx, const struct place_offer *offer,
                               struct place_answer *answer)
{
    struct taker *t = ctx;
    (void)answer;
    t->offers++;
    if (t->is_stalled) {
        return PLACE_BUFFER;
    }
    if (t->got_len == 0) {
        t->position = offer->position;
    }
    assert_true(t->got_len + offer->octets.len <= sizeof t->got);
    memcpy(t->got + t->got_len, offer->octets.ptr, offer->octets.len);
    t->got_len += offer->octets.len;
    return PLACE_PLACED;
}

static bool on_advance(void *ctx, uint64_t position, uint64_t last,
                       const struct place_counts *counts)
{
    (void)ctx;
    (void)position;
    (void)last;
    (void)counts;
    return true;
}

static void set_taker(struct taker *t)
{
    struct place_port port = {.place = take, .on_advance = on_advance, .ctx = t};
    the_link->ops->set_place(l.passive, &port);
}

static void octets_go_to_the_port_once_there_is_one(void **state)
{
    struct taker t = {.got_len = 0};
    char none[8];
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "frame");
    assert_int_equal(recv_some(l.passive, none, sizeof none), 5);
    set_taker(&t);
    send_text(l.active, "fpdu");
    assert_int_equal(recv_some(l.passive, none, sizeof none), 4);
    assert_int_equal(t.position, 5);
    assert_memory_equal(t.got, "fpdu", 4);
    the_link->ops->shutdown(l.active);
    assert_int_equal(recv_some(l.passive, none, sizeof none), 0);
}

static void octets_that_waited_are_offered_to_the_port(void **state)
{
    struct taker t = {.got_len = 0};
    char some[4];
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "framefpdu");
    assert_int_equal(recv_some(l.passive, some, sizeof some), 4);
    set_taker(&t);
    assert_int_equal(recv_some(l.passive, some, sizeof some), 5);
    assert_int_equal(t.position, 4);
    assert_memory_equal(t.got, "efpdu", 5);
}

static void stalled_port_goes_on_when_it_says_so(void **state)
{
    struct taker t = {.is_stalled = true};
    char none[8];
    loop_open(&l, the_link, AF_INET);
    set_taker(&t);
    send_text(l.active, "later");
    recv_some(l.passive, none, sizeof none);
    assert_int_equal(t.offers, 1);
    assert_quiet(the_link);
    assert_int_equal(t.offers, 1); // nobody asks before
    t.is_stalled = false;
    the_link->ops->resume(l.passive);
    assert_memory_equal(t.got, "later", 5);
}

/* ---- sockets --------------------------------------------------------------------------------- */

static void port_is_not_shared_with_another_process_either(void **state)
{
    struct link *other;
    struct link_stream *stream;
    struct sockaddr_storage addr;
    loop_open(&l, the_link, AF_INET); // the listener has a connection
    assert_int_equal(udp_link_make(&other), 0);
    the_link->ops->local_addr(l.listener, &addr);
    assert_int_equal(other->ops->bind(other, addr_of(&addr), LINK_BIND_REUSE, NULL, &stream),
                     -EADDRINUSE);
    other->ops->destroy(other);
}

static void who_is_bound_while_descriptors_are_out_is_told_so_and_may_try_again(void **state)
{
    struct rlimit before;
    struct link_stream *stream;
    const struct sockaddr_in here = {.sin_family = AF_INET,
                                     .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int error =
        the_link->ops->bind(the_link, (const struct sockaddr *)&here, 0, NULL, &stream);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(error, -EMFILE);
    assert_int_equal(
        the_link->ops->bind(the_link, (const struct sockaddr *)&here, 0, NULL, &stream), 0);
    the_link->ops->close(stream, true);
}

// The stream that is reported as broken, within 20 seconds.
static struct link_stream *broken_one(struct link *link)
{
    struct link_ready ready[4];
    for (int turn = 0; turn < 200; turn++) {
        int count = link->ops->poll(link, ready, 4);
        for (int i = 0; i < count; i++) {
            if ((ready[i].what & LINK_READY_ERR) != 0) {
                return ready[i].stream;
            }
        }
        link->ops->wait(link, 100 * NS_PER_MS);
    }
    return NULL;
}

static void connection_that_broke_while_it_waited_is_accepted_as_what_it_is(void **state)
{
    struct sockaddr_storage addr;
    char got[4];
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &addr);
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &l.active), 0);
    assert_int_equal(the_link->ops->connect(l.active, addr_of(&addr)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    the_link->ops->close(l.active, true);
    struct link_stream *broken = broken_one(the_link);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    assert_ptr_equal(l.passive, broken);
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of((uint8_t *)got, 4)), -ECONNRESET);
    the_link->ops->close(l.passive, true);
}

static void peer_that_vanished_is_found_when_something_is_sent(void **state)
{
    struct link *other;
    struct link_stream *lost, *listener;
    struct sockaddr_storage addr = loopback(AF_INET);
    char got[4];
    assert_int_equal(udp_link_make(&other), 0);
    assert_int_equal(other->ops->bind(other, addr_of(&addr), 0, NULL, &listener), 0);
    assert_int_equal(other->ops->listen(listener, 1), 0);
    other->ops->local_addr(listener, &addr);
    the_link->ops->bind(the_link, NULL, 0, NULL, &lost);
    assert_int_equal(the_link->ops->connect(lost, addr_of(&addr)), -EINPROGRESS);
    for (int turn = 0; turn < 100 && the_link->ops->connect_result(lost) != 0; turn++) {
        struct link_ready ready[4];
        other->ops->poll(other, ready, 4); // answers the SYN
        the_link->ops->wait(the_link, 100 * NS_PER_MS);
        the_link->ops->poll(the_link, ready, 4);
    }
    assert_int_equal(the_link->ops->connect_result(lost), 0);
    other->ops->abandon(other); // as by SIGKILL: nothing is said
    send_text(lost, "anybody?");
    assert_int_equal(recv_some(lost, got, sizeof got), -ECONNRESET);
    other->ops->destroy(other);
}

static void datagrams_are_counted_on_both_sides(void **state)
{
    char got[8];
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "octets");
    assert_int_equal(recv_some(l.passive, got, sizeof got), 6);
    uint64_t count;
    unsigned turn = 0;
    do { // until the last acknowledgement has arrived
        assert_quiet(the_link);
        count = packets_counted(the_link, "packets_out");
    } while (packets_counted(the_link, "packets_in") != count && ++turn < 100);
    assert_true(count >= 4); // a handshake and the octets
    assert_int_equal(packets_counted(the_link, "packets_in"), count);
    assert_int_equal(packets_counted(the_link, "segments"), count);
    assert_int_equal(packets_counted(the_link, "bad_checksums"), 0);
    assert_int_equal(tcp_counted(the_link, l.active, "octets_out"), 6);
    assert_int_equal(tcp_counted(the_link, l.passive, "octets_in"), 6);
}

static void both_ends_send_segments_as_long_as_the_path_takes(void **state)
{
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->emss(l.active), the_link->ops->emss(l.passive));
}

static void octets_are_settled_when_they_are_acknowledged(void **state)
{
    struct link *settling;
    struct loop own = {0};
    unsigned what = 0;
    char got[4];
    assert_int_equal(udp_link_make_settling(true, &settling), 0);
    loop_open(&own, settling, AF_INET);
    send_text(own.active, "abc");
    assert_int_equal(settling->ops->unsettled(own.active), 3);
    assert_int_equal(recv_some(own.passive, got, sizeof got), 3);
    for (unsigned turn = 0; turn < 100 && (what & LINK_READY_SETTLED) == 0; turn++) {
        settling->ops->recv(own.passive, mspan_of(got, 1)); // nothing more: it is waited for
        what = ready_of(settling, own.active);
        settling->ops->recv(own.active, mspan_of(got, 1)); // an ACK is no octets
    }
    assert_true((what & LINK_READY_SETTLED) != 0);
    assert_int_equal(settling->ops->unsettled(own.active), 0);
    settling->ops->destroy(settling);
}

static void octets_of_a_link_that_does_not_say_are_settled_at_once(void **state)
{
    loop_open(&l, the_link, AF_INET);
    send_text(l.active, "abc");
    assert_int_equal(the_link->ops->unsettled(l.active), 0);
}

static void link_without_connections_waits_for_nothing(void **state)
{
    loop_listen(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->next_deadline(the_link), INSTANT_NEVER);
}

static void links_have_a_name(void **state)
{
    assert_string_equal(the_link->ops->name, "packet");
}

/* ---- strangers ------------------------------------------------------------------------------- */

static void answer_goes_to_where_the_datagram_came_from_or_nowhere(void **state)
{
    uint16_t port, victim_port;
    int fd = stranger_socket(&port), victim_fd = stranger_socket(&victim_port);
    loop_listen(&l, the_link, AF_INET);
    stranger_sends_syn(fd, victim_port);
    stranger_was_heard(1);
    assert_int_equal(packets_counted(the_link, "bad_ports"), 1);
    assert_int_equal(packets_counted(the_link, "packets_out"), 0);
    stranger_sends_syn(fd, port);
    stranger_was_heard(2);
    assert_int_equal(stranger_datagrams(fd), 1);
    assert_int_equal(stranger_datagrams(victim_fd), 0);
    close(fd);
    close(victim_fd);
}

static void one_datagram_of_a_stranger_makes_one_leave(void **state)
{
    struct link_ready ready[4];
    uint16_t port;
    int fd = stranger_socket(&port);
    loop_listen(&l, the_link, AF_INET);
    stranger_sends_syn(fd, port);
    stranger_was_heard(1);
    for (unsigned second = 0; second < 300; second++) {
        udp_link_ahead_ns += NS_PER_S;
        the_link->ops->poll(the_link, ready, 4);
    }
    assert_int_equal(stranger_datagrams(fd), 1);
    assert_int_equal(packets_counted(the_link, "packets_out"), 1);
    close(fd);
}

static size_t resident_len(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void handshake_of_a_stranger_takes_little_memory(void **state)
{
    enum { STRANGERS = 200, EACH_MAX = 16 << 10 };
    int fd[STRANGERS];
    size_t before = 0;
    mallopt(M_PERTURB, 0); // who runs the test may have asked for octets in all that is taken
    loop_listen(&l, the_link, AF_INET);
    for (unsigned i = 0; i < STRANGERS; i++) {
        uint16_t port;
        before = i == 1 ? resident_len() : before; // the first finds room for the link itself
        fd[i] = stranger_socket(&port);
        stranger_sends_syn(fd[i], port);
        stranger_was_heard(2 * i + 1);
        struct tcp_header ack = {
            .src_port = port, .seq = 1001, .ack = stranger_hears(fd[i]).seq + 1, .flags = TCP_ACK};
        stranger_sends(fd[i], &ack);
        stranger_was_heard(2 * i + 2);
        assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
        l.passive = NULL;
    }
    size_t each = (resident_len() - before) / (STRANGERS - 1);
    for (unsigned i = 0; i < STRANGERS; i++) {
        close(fd[i]);
    }
#if !IS_SANITIZED
    assert_true(each <= EACH_MAX);
#else
    (void)each; // a sanitizer's shadow is resident too
#endif
}

static void closed_stream_that_nobody_answers_is_reset_in_time(void **state)
{
    struct link_ready ready[4];
    uint16_t port;
    int fd = stranger_socket(&port);
    loop_listen(&l, the_link, AF_INET);
    stranger_connects(fd, port);
    assert_false(the_link->ops->is_busy(the_link));
    the_link->ops->close(l.passive, false);
    assert_int_equal(stranger_hears(fd).flags & TCP_FIN, TCP_FIN);
    assert_true(the_link->ops->is_busy(the_link));
    udp_link_ahead_ns += 9 * NS_PER_S;
    the_link->ops->poll(the_link, ready, 4);
    assert_true(the_link->ops->is_busy(the_link));
    udp_link_ahead_ns += 2 * NS_PER_S;
    the_link->ops->poll(the_link, ready, 4);
    assert_false(the_link->ops->is_busy(the_link));
    while ((stranger_hears(fd).flags & TCP_RST) == 0) { // behind what was sent again
    }
    close(fd);
}

static int tos_heard(int fd)
{
    uint8_t octets[200];
    _Alignas(struct cmsghdr) uint8_t control[100];
    struct iovec iov = {octets, sizeof octets};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    assert_true(recvmsg(fd, &msg, 0) > 0);
    for (struct cmsghdr *at = CMSG_FIRSTHDR(&msg); at != NULL; at = CMSG_NXTHDR(&msg, at)) {
        if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_TOS) {
            return *CMSG_DATA(at);
        }
    }
    return -1;
}

static void tos_of_a_listener_is_that_of_its_connections(void **state)
{
    uint16_t port;
    int fd = stranger_socket(&port);
    loop_listen(&l, the_link, AF_INET);
    assert_int_equal(the_link->ops->set_tos(l.listener, 0x48), 0);
    stranger_connects(fd, port);
    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &(int){1}, sizeof(int));
    send_text(l.passive, "x");
    assert_int_equal(tos_heard(fd), 0x48);
    assert_int_equal(the_link->ops->set_tos(l.passive, 0x28), 0);
    send_text(l.passive, "y");
    assert_int_equal(tos_heard(fd), 0x28);
    close(fd);
}

// The lowest two bits are TCP's own, which a program's class does not reach.
static void class_of_a_program_marks_nothing(void **state)
{
    uint16_t port;
    int fd = stranger_socket(&port);
    loop_listen(&l, the_link, AF_INET);
    stranger_connects(fd, port);
    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &(int){1}, sizeof(int));
    assert_int_equal(the_link->ops->set_tos(l.passive, 0x4b), 0);
    send_text(l.passive, "x");
    assert_int_equal(tos_heard(fd), 0x48);
    close(fd);
}

// Octets may be marked beside the program's class, once both ends have agreed to it.
static void octets_may_be_marked_where_the_stranger_asks(void **state)
{
    uint16_t port;
    int fd = stranger_socket(&port);
    loop_listen(&l, the_link, AF_INET);
    struct tcp_header answer = stranger_connects_asking(fd, port, TCP_ECE | TCP_CWR);
    assert_int_equal(answer.flags, TCP_SYN | TCP_ACK | TCP_ECE);
    assert_int_equal(the_link->ops->set_tos(l.passive, 0x48), 0);
    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &(int){1}, sizeof(int));
    send_text(l.passive, "x");
    assert_int_equal(tos_heard(fd), 0x48 | IP_ECN_ECT_0);
    close(fd);
}

static void tos_is_kept_for_a_socket_that_comes_later(void **state)
{
    uint16_t port;
    int fd = stranger_socket(&port);
    struct sockaddr_storage addr = loopback(AF_INET);
    ((struct sockaddr_in *)&addr)->sin_port = htons(port);
    setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &(int){1}, sizeof(int));
    assert_int_equal(the_link->ops->bind(the_link, NULL, 0, NULL, &l.active), 0);
    assert_int_equal(the_link->ops->set_tos(l.active, 0x48), 0);
    assert_int_equal(the_link->ops->connect(l.active, addr_of(&addr)), -EINPROGRESS);
    assert_int_equal(tos_heard(fd), 0x48);
    close(fd);
}

static void answer_leaves_from_the_address_that_was_asked(void **state)
{
    struct sockaddr_storage any = {.ss_family = AF_INET}, addr = loopback(AF_INET), at;
    assert_int_equal(the_link->ops->bind(the_link, addr_of(&any), 0, NULL, &l.listener), 0);
    assert_int_equal(the_link->ops->listen(l.listener, 1), 0);
    the_link->ops->local_addr(l.listener, &any);
    ((struct sockaddr_in *)&addr)->sin_port = ((struct sockaddr_in *)&any)->sin_port;
    ((struct sockaddr_in *)&addr)->sin_addr.s_addr = htonl(INADDR_LOOPBACK + 5);
    the_link->ops->bind(the_link, NULL, 0, NULL, &l.active);
    assert_int_equal(the_link->ops->connect(l.active, addr_of(&addr)), -EINPROGRESS);
    assert_true(ready_of(the_link, l.listener) & LINK_READY_IN);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    the_link->ops->local_addr(l.passive, &at);
    assert_memory_equal(&at, &addr, sizeof(struct sockaddr_in));
    assert_true(ready_of(the_link, l.active) & LINK_READY_OUT);
    assert_int_equal(the_link->ops->connect_result(l.active), 0);
}

static void checksum_that_is_there_must_be_right(void **state)
{
    uint16_t port;
    int fd = stranger_socket(&port);
    struct sockaddr_storage to;
    struct tcp_header syn = {.src_port = port, .seq = 1000, .flags = TCP_SYN, .window = 1000};
    uint8_t octets[TCP_HEADER_MAX_LEN];
    loop_listen(&l, the_link, AF_INET);
    the_link->ops->local_addr(l.listener, &to);
    syn.dst_port = ntohs(((struct sockaddr_in *)&to)->sin_port);
    size_t len = tcp_header_emit(&syn, octets);
    put_be16(octets + TCP_OFF_CHECKSUM, 0x1234);
    sendto(fd, octets, len, 0, addr_of(&to), sizeof(struct sockaddr_in));
    stranger_was_heard(1);
    assert_int_equal(packets_counted(the_link, "bad_checksums"), 1);
    assert_int_equal(packets_counted(the_link, "packets_out"), 0);
    close(fd);
}

static void checksums_are_computed_where_they_are_wanted(void **state)
{
    static uint8_t octets[3001];
    uint8_t heard[200];
    struct link *summing;
    struct loop own = {0};
    uint16_t port;
    int fd = stranger_socket(&port);
    struct sockaddr_storage addr = loopback(AF_INET);
    udp_link_config.checksums = true;
    assert_int_equal(udp_link_make(&summing), 0);
    loop_open(&own, summing, AF_INET6);
    struct iovec iov = {octets, sizeof octets};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    assert_int_equal(summing->ops->send(own.active, &tx), sizeof octets);
    for (size_t in = 0; in < sizeof octets;) { // the other end looks at each
        ssize_t taken = recv_some(own.passive, octets, sizeof octets);
        assert_true(taken > 0);
        in += (size_t)taken;
    }
    assert_int_equal(packets_counted(summing, "bad_checksums"), 0);
    ((struct sockaddr_in *)&addr)->sin_port = htons(port);
    summing->ops->bind(summing, NULL, 0, NULL, &own.active);
    summing->ops->connect(own.active, addr_of(&addr));
    assert_true(recv(fd, heard, sizeof heard, 0) >= TCP_HEADER_LEN);
    assert_true(get_be16(heard + TCP_OFF_CHECKSUM) != 0);
    close(fd);
    summing->ops->destroy(summing);
}

/* ---- a peer that may be gone ----------------------------------------------------------------- */

// A peer written by hand, and the network about it.
struct hand {
    int fd, icmp_fd;
    uint16_t port;
    struct tcp_header heard; // the last
};

static void hand_acks(struct hand *h, uint32_t ack)
{
    struct tcp_header header = {.src_port = h->port, .seq = 1001, .ack = ack, .flags = TCP_ACK};
    stranger_sends(h->fd, &header);
}

// l.passive is connected with it, and octets of ours are on their way to it. False: nobody may
// forge ICMP here.
static bool hand_open(struct hand *h)
{
    *h = (struct hand){.icmp_fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP)};
    if (h->icmp_fd < 0) {
        print_message("SKIP: no raw socket: %s\n", strerror(errno));
        return false;
    }
    h->fd = stranger_socket(&h->port);
    loop_listen(&l, the_link, AF_INET);
    stranger_sends_syn(h->fd, h->port);
    stranger_was_heard(1);
    hand_acks(h, stranger_hears(h->fd).seq + 1);
    stranger_was_heard(2);
    assert_int_equal(the_link->ops->accept(l.listener, &l.passive), 0);
    send_text(l.passive, "anybody?");
    h->heard = stranger_hears(h->fd);
    return true;
}

static void hand_close(struct hand *h)
{
    close(h->fd);
    close(h->icmp_fd);
}

// Port unreachable, about the datagram in which this segment went to `h`.
static void forge_refusal(struct hand *h, uint32_t seq)
{
    enum { UDP_LEN = 8, QUOTED = IPV4_HEADER_LEN + UDP_LEN + TCP_HEADER_LEN };
    static const uint8_t addr[] = {127, 0, 0, 1};
    struct sockaddr_storage to = loopback(AF_INET);
    uint8_t quoted[QUOTED], message[ICMP_HEADER_LEN + QUOTED];
    struct ipv4_header ip = {
        .total_len = QUOTED, .ttl = 1, .protocol = IPPROTO_UDP, .src = {127, 0, 0, 1}};
    struct tcp_header tcp = {
        .src_port = h->heard.src_port, .dst_port = h->heard.dst_port, .seq = seq};
    struct icmp_header icmp = {.type = ICMP_UNREACHABLE, .code = ICMP_PORT_UNREACHABLE};
    memcpy(ip.dst, addr, sizeof addr);
    uint8_t *datagram = quoted + ipv4_header_emit(&ip, quoted);
    put_be16(datagram, tcp.src_port);
    put_be16(datagram + 2, tcp.dst_port);
    put_be16(datagram + 4, UDP_LEN + TCP_HEADER_LEN);
    put_be16(datagram + 6, 0);
    tcp_header_emit(&tcp, datagram + UDP_LEN);
    icmp_header_emit(&icmp, span_of(quoted, QUOTED), 0, message);
    memcpy(message + ICMP_HEADER_LEN, quoted, QUOTED);
    uint64_t before = packets_counted(the_link, "icmp_errors");
    assert_int_equal(
        sendto(h->icmp_fd, message, sizeof message, 0, addr_of(&to), sizeof(struct sockaddr_in)),
        sizeof message);
    for (unsigned turn = 0; turn < 200 && packets_counted(the_link, "icmp_errors") == before;
         turn++) {
        struct link_ready ready[4];
        the_link->ops->wait(the_link, 100 * NS_PER_MS);
        the_link->ops->poll(the_link, ready, 4);
    }
    assert_true(packets_counted(the_link, "icmp_errors") > before);
}

static void forged_refusal_is_denied_by_the_peer(void **state)
{
    struct hand h;
    char got[4];
    if (!hand_open(&h)) {
        skip();
    }
    forge_refusal(&h, h.heard.seq);
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of(got, sizeof got)), -EAGAIN);
    assert_int_equal(stranger_hears(h.fd).seq, h.heard.seq - 1); // it is asked
    hand_acks(&h, h.heard.seq + 8);
    stranger_was_heard(3);
    struct link_ready ready[4];
    for (unsigned second = 0; second < 60; second++) {
        udp_link_ahead_ns += NS_PER_S;
        the_link->ops->poll(the_link, ready, 4);
    }
    assert_int_equal(the_link->ops->recv(l.passive, mspan_of(got, sizeof got)), -EAGAIN);
    hand_close(&h);
}

static void refusal_of_a_segment_that_was_not_sent_is_not_believed(void **state)
{
    struct hand h;
    if (!hand_open(&h)) {
        skip();
    }
    uint64_t before = packets_counted(the_link, "packets_out");
    forge_refusal(&h, h.heard.seq + 1); // in the window, but nothing began there
    assert_int_equal(packets_counted(the_link, "packets_out"), before);
    hand_close(&h);
}

static void refusal_is_confirmed_by_silence(void **state)
{
    struct hand h;
    char got[4];
    ssize_t error = -EAGAIN;
    if (!hand_open(&h)) {
        skip();
    }
    forge_refusal(&h, h.heard.seq);
    for (unsigned turn = 0; turn < 100 && error == -EAGAIN; turn++) {
        struct link_ready ready[4];
        udp_link_ahead_ns += 100 * NS_PER_MS;
        the_link->ops->poll(the_link, ready, 4);
        error = the_link->ops->recv(l.passive, mspan_of(got, sizeof got));
    }
    assert_int_equal(error, -ECONNRESET);
    hand_close(&h);
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, udp_link_begin, udp_link_end)
#define X(name)         LINK_TEST(name),
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(X) LINK_TEST(octets_go_to_the_port_once_there_is_one),
        LINK_TEST(octets_that_waited_are_offered_to_the_port),
        LINK_TEST(stalled_port_goes_on_when_it_says_so),
        LINK_TEST(port_is_not_shared_with_another_process_either),
        LINK_TEST(who_is_bound_while_descriptors_are_out_is_told_so_and_may_try_again),
        LINK_TEST(connection_that_broke_while_it_waited_is_accepted_as_what_it_is),
        LINK_TEST(peer_that_vanished_is_found_when_something_is_sent),
        LINK_TEST(datagrams_are_counted_on_both_sides),
        LINK_TEST(both_ends_send_segments_as_long_as_the_path_takes),
        LINK_TEST(octets_of_a_link_that_does_not_say_are_settled_at_once),
        LINK_TEST(link_without_connections_waits_for_nothing),
        LINK_TEST(links_have_a_name),
        LINK_TEST(closed_stream_that_nobody_answers_is_reset_in_time),
        LINK_TEST(tos_of_a_listener_is_that_of_its_connections),
        LINK_TEST(class_of_a_program_marks_nothing),
        LINK_TEST(octets_may_be_marked_where_the_stranger_asks),
        LINK_TEST(tos_is_kept_for_a_socket_that_comes_later),
        LINK_TEST(answer_leaves_from_the_address_that_was_asked),
        LINK_TEST(checksum_that_is_there_must_be_right),
        LINK_TEST(checksums_are_computed_where_they_are_wanted),
        LINK_TEST(answer_goes_to_where_the_datagram_came_from_or_nowhere),
        LINK_TEST(handshake_of_a_stranger_takes_little_memory),
        LINK_TEST(forged_refusal_is_denied_by_the_peer),
        LINK_TEST(refusal_of_a_segment_that_was_not_sent_is_not_believed),
        LINK_TEST(refusal_is_confirmed_by_silence),
        LINK_TEST(one_datagram_of_a_stranger_makes_one_leave),
        cmocka_unit_test(octets_are_settled_when_they_are_acknowledged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
