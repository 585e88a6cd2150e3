// The door at which memory is handed over: its name, who is let in, and what is heard. Both sides
// are this process, and a third writes its messages by hand.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/local/door.h"
#include "tests/link/descriptors.h"
#include "tests/link/loop.h"
#include "tests/own_port.h"

enum { RING_LEN = 4096, PORT = 0x1234, NOBODY = 65534 };

static struct local_door door;
static unsigned left;

// Of addresses that nobody has, with this process as the interface: no other's name is like it.
static struct net_flow flow_of(const char *remote)
{
    struct net_flow flow = {.scope = (uint32_t)getpid(), .local_port = 0x5678, .remote_port = PORT};
    assert_true(net_addr_parse("192.0.2.1", &flow.local));
    assert_true(net_addr_parse(remote, &flow.remote));
    return flow;
}

// Where the peer of such a connection listens.
static struct net_flow place_of(const struct net_flow *flow, const char *addr, uint32_t scope)
{
    struct net_flow place = {.scope = scope, .local_port = flow->remote_port};
    assert_true(net_addr_parse(addr, &place.local));
    return place;
}

static int begin(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.9");
    const struct net_flow place = place_of(&flow, "192.0.2.9", flow.scope);
    own_port(); // whose name stays
    descriptors_note();
    left = LOCAL_DOOR_LOOK;
    return local_door_open(&door, &place);
}

static int end(void **state)
{
    local_door_close(&door);
    assert_int_equal(door.fd, -1);
    assert_int_equal(door.knocking_count, 0);
    local_door_close(&door); // harmless
    descriptors_check();
    return 0;
}

static int knock(void)
{
    const struct net_flow flow = flow_of("192.0.2.9");
    pid_t process = -1;
    const int fd = local_door_knock(&flow, &process);
    assert_true(fd < 0 || process == getpid());
    return fd;
}

static bool is_over(int fd)
{
    char octet;
    return recv(fd, &octet, 1, MSG_DONTWAIT) == 0;
}

static void limit_descriptors(rlim_t count)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = count;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static rlim_t descriptors_limit(void)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

/* ---- names ----------------------------------------------------------------------------------- */

static void a_door_is_named_after_the_place_that_is_listened_at(void **state)
{
    static const struct {
        const char *addr, *text;
    } rows[] = {
        {"192.0.2.77", "00000000000000000000ffffc000024d"},
        {"2001:db8::a0f", "20010db8000000000000000000000a0f"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct net_flow flow = flow_of(rows[i].addr);
        const struct net_flow place = place_of(&flow, rows[i].addr, flow.scope);
        struct local_door other;
        struct sockaddr_un name;
        char wanted[sizeof name.sun_path];
        socklen_t len = sizeof name;
        assert_int_equal(local_door_open(&other, &place), 0);
        assert_int_equal(other.knocking_count + other.stranger_count, 0);
        assert_int_equal(getsockname(other.fd, (struct sockaddr *)&name, &len), 0);
        const int text_len =
            snprintf(wanted, sizeof wanted, "weft-stream/%s/%u/%u", rows[i].text, flow.scope, PORT);
        assert_int_equal(len, offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)text_len);
        assert_int_equal(name.sun_path[0], 0);
        assert_memory_equal(name.sun_path + 1, wanted, (size_t)text_len);
        local_door_close(&other);
    }
}

static void a_place_has_one_door(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.9");
    const struct net_flow place = place_of(&flow, "192.0.2.9", flow.scope);
    struct local_door second = {.fd = 4711, .knocking_count = 3};
    assert_int_equal(local_door_open(&second, &place), -EADDRINUSE);
    assert_int_equal(second.fd, -1);
    assert_int_equal(second.knocking_count, 0);
    local_door_close(&door);
    assert_int_equal(local_door_open(&second, &place), 0);
    local_door_close(&second);
    assert_int_equal(local_door_open(&door, &place), 0);
}

static void who_connects_finds_the_address_or_one_that_stands_for_it(void **state)
{
    static const struct {
        const char *remote, *at;
        bool is_scoped, is_found;
    } rows[] = {
        {"192.0.2.5", "192.0.2.5", true, true},     {"192.0.2.5", "192.0.2.6", true, false},
        {"192.0.2.5", "192.0.2.5", false, false},   {"192.0.2.5", "0.0.0.0", false, true},
        {"192.0.2.5", "::", false, true},           {"192.0.2.5", "::", true, false},
        {"2001:db8::5", "2001:db8::5", true, true}, {"2001:db8::5", "::", false, true},
        {"2001:db8::5", "0.0.0.0", false, false},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct net_flow flow = flow_of(rows[i].remote);
        // Those of no interface are everybody's: a port that no other process has.
        flow.remote_port = own_port();
        const struct net_flow place =
            place_of(&flow, rows[i].at, rows[i].is_scoped ? flow.scope : 0);
        struct local_door other;
        pid_t process = -1;
        assert_int_equal(local_door_open(&other, &place), 0);
        const int fd = local_door_knock(&flow, &process);
        if (rows[i].is_found) {
            assert_true(fd >= 0);
            assert_int_equal(process, getpid());
            close(fd);
        } else {
            assert_int_equal(fd, -ECONNREFUSED);
        }
        local_door_close(&other);
        assert_int_equal(local_door_knock(&flow, &process), -ECONNREFUSED);
    }
}

static void without_descriptors_there_is_no_door_and_no_knock(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.10");
    const struct net_flow place = place_of(&flow, "192.0.2.10", flow.scope);
    const struct local_channel_means means = {.memory_fd = 0, .socket_fd = 0};
    struct local_memory memory = {0};
    struct local_door other;
    const int knocked = knock();
    assert_true(knocked >= 0);
    const rlim_t before = descriptors_limit();
    limit_descriptors(0);
    const int opened = local_door_open(&other, &place), again = knock();
    const int offered = local_door_offer(knocked, &flow, RING_LEN, &means, &memory);
    limit_descriptors(before);
    assert_int_equal(opened, -EMFILE);
    assert_int_equal(other.fd, -1);
    assert_int_equal(again, -EMFILE);
    assert_int_equal(offered, -EMFILE);
    assert_null(memory.base);
    close(knocked);
}

// In a program that was started without standard input.
static void descriptor_0_is_left_alone(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.12");
    const struct net_flow place = place_of(&flow, "192.0.2.12", flow.scope);
    struct local_door other;
    pid_t process;
    const int input = dup(0);
    close(0);
    const int opened = local_door_open(&other, &place), taken = fcntl(0, F_GETFD);
    const int knocked_there = local_door_knock(&flow, &process);
    local_door_close(&other);
    const int knocked = knock();
    const int taken_now = fcntl(0, F_GETFD);
    dup2(input, 0);
    close(input);
    assert_int_equal(opened, 0);
    assert_int_equal(taken, -1);
    assert_true(knocked_there > STDERR_FILENO);
    assert_true(knocked > STDERR_FILENO);
    assert_int_equal(taken_now, -1);
    close(knocked);
    close(knocked_there);
}

static void programs_that_are_started_inherit_nothing(void **state)
{
    struct local_offer offer;
    const unsigned before = descriptors_inherited();
    const int fd = knock();
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    assert_int_equal(door.knocking_count, 1);
    assert_int_equal(descriptors_inherited(), before);
    close(fd);
}

/* ---- other users ----------------------------------------------------------------------------- */

static bool is_root(void)
{
    if (geteuid() != 0) {
        print_message("SKIP: only root can be another user\n");
    }
    return geteuid() == 0;
}

static void another_users_door_is_left_alone(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.11");
    const struct net_flow place = place_of(&flow, "192.0.2.11", flow.scope);
    struct local_door other;
    pid_t process;
    if (!is_root()) {
        skip();
    }
    assert_int_equal(seteuid(NOBODY), 0);
    const int opened = local_door_open(&other, &place);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(opened, 0);
    assert_int_equal(local_door_knock(&flow, &process), -EPERM);
    local_door_close(&other);
}

static void other_users_are_sent_away_unheard(void **state)
{
    struct local_offer offer;
    if (!is_root()) {
        skip();
    }
    struct sockaddr_un name;
    socklen_t len = sizeof name;
    assert_int_equal(getsockname(door.fd, (struct sockaddr *)&name, &len), 0);
    const int stranger = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_int_equal(seteuid(NOBODY), 0);
    const int connected = connect(stranger, (const struct sockaddr *)&name, len);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(connected, 0);
    const int friend = knock();
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    assert_int_equal(door.stranger_count, 1);
    assert_int_equal(door.knocking_count, 1);
    assert_int_equal(left, LOCAL_DOOR_LOOK - 2);
    assert_true(is_over(stranger));
    assert_false(is_over(friend));
    close(stranger);
    close(friend);
}

/* ---- messages -------------------------------------------------------------------------------- */

// As the figure in door.h has it, from a connection's active side.
static void message_of(const struct net_flow *flow, uint64_t channel, uint8_t *ret)
{
    const struct net_flow theirs = net_flow_turned(flow);
    memcpy(ret, "weft-mem", 8);
    put_be32(ret + 8, 3);
    put_be32(ret + 12, RING_LEN);
    put_be64(ret + 16, channel);
    memcpy(ret + 24, &theirs, sizeof theirs);
}

static void say(int to, const uint8_t *octets, size_t len, const int *fds, unsigned fd_count)
{
    _Alignas(struct cmsghdr) uint8_t control[CMSG_SPACE(5 * sizeof(int))] = {0};
    struct iovec iov = {(void *)(uintptr_t)octets, len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > 0) {
        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        *CMSG_FIRSTHDR(&msg) = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                                .cmsg_type = SCM_RIGHTS,
                                                .cmsg_len = CMSG_LEN(fd_count * sizeof(int))};
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&msg)), fds, fd_count * sizeof(int));
    }
    assert_int_equal(sendmsg(to, &msg, MSG_NOSIGNAL), len);
}

// Memory for a stream, and two descriptors that stand for a channel's.
struct hand_over {
    struct local_memory memory;
    int fds[5];
    uint8_t octets[LOCAL_OFFER_LEN + 1];
};

static struct hand_over hand_over_make(void)
{
    const struct net_flow flow = flow_of("192.0.2.9");
    struct hand_over h = {.fds = {-1, -1, -1, -1, -1}};
    assert_int_equal(local_memory_create(RING_LEN, &h.memory, &h.fds[0]), 0);
    for (unsigned i = 1; i < 5; i++) {
        h.fds[i] = memfd_create("test", MFD_CLOEXEC);
        assert_true(h.fds[i] >= 0);
        assert_int_equal(ftruncate(h.fds[i], i), 0); // which tells them apart
    }
    message_of(&flow, 0x0123456789abcdef, h.octets);
    return h;
}

static void hand_over_end(struct hand_over *h)
{
    local_memory_release(&h->memory);
    for (unsigned i = 0; i < 5; i++) {
        close(h->fds[i]);
    }
}

static void offer_let_go(struct local_offer *offer)
{
    local_memory_release(&offer->memory);
    close(offer->means.memory_fd);
    close(offer->means.socket_fd);
}

static void a_whole_offer_is_taken(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.9"), theirs = net_flow_turned(&flow);
    struct hand_over h = hand_over_make();
    struct local_offer offer;
    const int fd = knock();
    say(fd, h.octets, LOCAL_OFFER_LEN, h.fds, 3);
    assert_int_equal(local_door_take(&door, &left, &offer), 0);
    assert_memory_equal(&offer.flow, &theirs, sizeof theirs);
    assert_int_equal(offer.process, getpid());
    assert_true(offer.means.id == 0x0123456789abcdef);
    assert_int_equal(lseek(offer.means.memory_fd, 0, SEEK_END), 1);
    assert_int_equal(lseek(offer.means.socket_fd, 0, SEEK_END), 2);
    assert_int_equal(offer.memory.ring_len, RING_LEN);
    offer.memory.base[100] = 77;
    assert_int_equal(h.memory.base[100], 77);
    assert_int_equal(door.knocking_count, 0);
    assert_true(is_over(fd)); // one message each
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    offer_let_go(&offer);
    hand_over_end(&h);
    close(fd);
}

// Whatever it was, nothing is kept of it, and the next is heard.
static void what_is_no_offer_is_refused(void **state)
{
    static const struct {
        unsigned at;
        uint8_t change; // of that octet
        size_t len;
        unsigned fd_count;
    } rows[] = {
        {0, 1, LOCAL_OFFER_LEN, 3},
        {7, 1, LOCAL_OFFER_LEN, 3},
        {11, 1, LOCAL_OFFER_LEN, 3},
        {11, 7, LOCAL_OFFER_LEN, 3},
        {8, 1, LOCAL_OFFER_LEN, 3},
        {0, 0, LOCAL_OFFER_LEN - 1, 3},
        {0, 0, 1, 3},
        {0, 0, LOCAL_OFFER_LEN + 1, 3},
        {0, 0, LOCAL_OFFER_LEN, 0},
        {0, 0, LOCAL_OFFER_LEN, 1},
        {0, 0, LOCAL_OFFER_LEN, 2},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct hand_over h = hand_over_make();
        struct local_offer offer;
        const int fd = knock();
        h.octets[rows[i].at] ^= rows[i].change;
        say(fd, h.octets, rows[i].len, h.fds, rows[i].fd_count);
        hand_over_end(&h);
        assert_int_equal(local_door_take(&door, &left, &offer), -EPROTO);
        assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
        close(fd);
        assert_int_equal(descriptors_more(), 1); // the door
    }
}

static void memory_of_another_length_is_refused(void **state)
{
    struct hand_over h = hand_over_make();
    struct local_offer offer;
    const int fd = knock();
    put_be32(h.octets + 12, 2 * RING_LEN);
    say(fd, h.octets, LOCAL_OFFER_LEN, h.fds, 3);
    hand_over_end(&h);
    assert_int_equal(local_door_take(&door, &left, &offer), -EINVAL);
    close(fd);
}

// More than belongs to an offer: what does is taken, the rest closed.
static void descriptors_too_many_are_closed(void **state)
{
    for (unsigned count = 4; count < 6; count++) {
        struct hand_over h = hand_over_make();
        struct local_offer offer;
        const int fd = knock();
        say(fd, h.octets, LOCAL_OFFER_LEN, h.fds, count);
        assert_int_equal(local_door_take(&door, &left, &offer), 0);
        assert_int_equal(lseek(offer.means.socket_fd, 0, SEEK_END), 2);
        offer_let_go(&offer);
        hand_over_end(&h);
        close(fd);
        assert_int_equal(descriptors_more(), 1);
    }
}

static void what_is_sent_is_what_is_heard(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.9");
    struct hand_over h = hand_over_make();
    const struct local_channel_means means = {
        .id = 0x0123456789abcdef, .memory_fd = h.fds[1], .socket_fd = h.fds[2]};
    struct local_memory memory;
    struct local_offer offer;
    uint8_t octets[LOCAL_OFFER_LEN + 1];
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(local_door_offer(pair[0], &flow, RING_LEN, &means, &memory), 0);
    assert_int_equal(recv(pair[1], octets, sizeof octets, MSG_DONTWAIT), LOCAL_OFFER_LEN);
    assert_memory_equal(octets, h.octets, LOCAL_OFFER_LEN);
    local_memory_release(&memory);
    const int fd = knock();
    assert_int_equal(local_door_offer(fd, &flow, RING_LEN, &means, &memory), 0);
    assert_int_equal(local_door_take(&door, &left, &offer), 0);
    memory.base[7] = 99;
    assert_int_equal(offer.memory.base[7], 99);
    assert_int_equal(lseek(offer.means.memory_fd, 0, SEEK_END), 1);
    assert_int_equal(lseek(offer.means.socket_fd, 0, SEEK_END), 2);
    local_memory_release(&memory);
    offer_let_go(&offer);
    close(fd);
    close(pair[1]);
    memory.base = NULL;
    assert_int_equal(local_door_offer(pair[0], &flow, RING_LEN, &means, &memory), -EPIPE);
    assert_null(memory.base);
    close(pair[0]);
    hand_over_end(&h);
}

static void who_takes_nothing_holds_nobody(void **state)
{
    const struct net_flow flow = flow_of("192.0.2.9");
    const struct local_channel_means means = {.memory_fd = 0, .socket_fd = 0};
    int pair[2], error = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    for (unsigned i = 0; i < 10000 && error == 0; i++) {
        struct local_memory memory = {0};
        error = local_door_offer(pair[0], &flow, RING_LEN, &means, &memory);
        local_memory_release(&memory);
    }
    assert_int_equal(error, -EAGAIN);
    close(pair[0]);
    close(pair[1]);
}

/* ---- many ------------------------------------------------------------------------------------ */

static void who_speaks_is_heard_whatever_others_do(void **state)
{
    static const unsigned order[] = {1, 3, 0, 2};
    struct hand_over h = hand_over_make();
    struct local_offer offer;
    int fds[4];
    for (unsigned i = 0; i < 4; i++) {
        fds[i] = knock();
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
        assert_int_equal(left, LOCAL_DOOR_LOOK - 4);
        put_be64(h.octets + 16, order[i]);
        say(fds[order[i]], h.octets, LOCAL_OFFER_LEN, h.fds, 3);
        assert_int_equal(local_door_take(&door, &left, &offer), 0);
        assert_int_equal(offer.means.id, order[i]);
        assert_int_equal(door.knocking_count, 3 - i);
        offer_let_go(&offer);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_true(is_over(fds[i]));
        close(fds[i]);
    }
    hand_over_end(&h);
}

static void who_has_been_silent_for_longest_makes_room(void **state)
{
    struct local_offer offer;
    int fds[LOCAL_DOOR_KNOCKING_MAX + 3];
    const unsigned count = sizeof fds / sizeof fds[0];
    for (unsigned i = 0; i < count; i++) {
        fds[i] = knock();
        assert_true(fds[i] >= 0);
    }
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    assert_int_equal(door.knocking_count, LOCAL_DOOR_KNOCKING_MAX);
    assert_int_equal(left, LOCAL_DOOR_LOOK - LOCAL_DOOR_KNOCKING_MAX);
    assert_false(is_over(fds[0]));
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN); // the others, one by one
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    assert_int_equal(left, LOCAL_DOOR_LOOK - count);
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(is_over(fds[i]), i < 3);
        close(fds[i]);
    }
}

static void a_look_lets_in_so_many_and_no_more(void **state)
{
    struct local_offer offer;
    int fds[3];
    for (unsigned i = 0; i < 3; i++) {
        fds[i] = knock();
    }
    left = 2;
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    assert_int_equal(left, 0);
    assert_int_equal(door.knocking_count, 2);
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
    assert_int_equal(door.knocking_count, 2);
    for (unsigned i = 0; i < 3; i++) {
        close(fds[i]);
    }
    left = LOCAL_DOOR_LOOK; // who is gone has said nothing that is an offer
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(local_door_take(&door, &left, &offer), -EPROTO);
    }
    assert_int_equal(local_door_take(&door, &left, &offer), -EAGAIN);
}

int main(void)
{
#define DOOR_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        DOOR_TEST(a_door_is_named_after_the_place_that_is_listened_at),
        DOOR_TEST(a_place_has_one_door),
        DOOR_TEST(who_connects_finds_the_address_or_one_that_stands_for_it),
        DOOR_TEST(without_descriptors_there_is_no_door_and_no_knock),
        DOOR_TEST(descriptor_0_is_left_alone),
        DOOR_TEST(programs_that_are_started_inherit_nothing),
        DOOR_TEST(another_users_door_is_left_alone),
        DOOR_TEST(other_users_are_sent_away_unheard),
        DOOR_TEST(a_whole_offer_is_taken),
        DOOR_TEST(what_is_no_offer_is_refused),
        DOOR_TEST(memory_of_another_length_is_refused),
        DOOR_TEST(descriptors_too_many_are_closed),
        DOOR_TEST(what_is_sent_is_what_is_heard),
        DOOR_TEST(who_takes_nothing_holds_nobody),
        DOOR_TEST(who_speaks_is_heard_whatever_others_do),
        DOOR_TEST(who_has_been_silent_for_longest_makes_room),
        DOOR_TEST(a_look_lets_in_so_many_and_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
