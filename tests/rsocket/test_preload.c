// A program behind librspreload of newer rdma-core, whose calls of socket and epoll lead to
// rsockets: those that the libraries make for themselves must not.
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/rsocket/pair.h"
#include "tests/verbs/roce.h"

// Of <rdma/rsocket.h> newer than rdma-core 64.
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

static _Atomic unsigned sockets_made;

/* ---- what stands before libc ----------------------------------------------------------------- */

// Those are rsockets there.
int socket(int domain, int type, int protocol)
{
    sockets_made += domain == AF_INET || domain == AF_INET6;
    return (int)syscall(SYS_socket, domain, type, protocol);
}

int epoll_create1(int flags)
{
    return repoll_create(flags);
}

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *event)
{
    return repoll_ctl(epfd, op, fd, event);
}

int epoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout)
{
    return repoll_wait(epfd, events, maxevents, timeout);
}

/* ---- what the program does ------------------------------------------------------------------- */

static void watch(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
}

static void assert_told(int set, int fd)
{
    struct epoll_event event = {0};
    assert_int_equal(epoll_wait(set, &event, 1, PATIENCE_MS), 1);
    assert_int_equal(event.data.fd, fd);
}

static void a_set_has_sockets_and_descriptors_of_the_kernel(void **state)
{
    struct pair p;
    int ends[2];
    char octet;
    pair_open(&p);
    assert_int_equal(pipe(ends), 0);
    int set = epoll_create1(EPOLL_CLOEXEC);
    assert_true(set >= 0);
    watch(set, p.passive);
    watch(set, ends[0]);
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    assert_told(set, p.passive);
    assert_int_equal(rrecv(p.passive, &octet, 1, 0), 1);
    assert_int_equal(write(ends[1], "y", 1), 1);
    assert_told(set, ends[0]);
    assert_int_equal(rclose(set), 0);
    close(ends[0]);
    close(ends[1]);
    pair_close(&p);
}

static void a_socket_of_datagrams_is_made(void **state)
{
    int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(rclose(fd), 0);
}

// The MTU of an interface, and a port of the system's that is held: each by a socket.
static void what_a_device_asks_the_kernel_is_asked_of_the_kernel(void **state)
{
    static const enum rdma_port_space spaces[] = {RDMA_PS_TCP, RDMA_PS_UDP};
    struct ibv_port_attr port;
    sockets_made = 0;
    struct ibv_context *context = bench_open();
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    assert_true(port.active_mtu >= IBV_MTU_1024);
    for (unsigned i = 0; i < sizeof spaces / sizeof spaces[0]; i++) {
        struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
        struct rdma_cm_id *id;
        assert_int_equal(rdma_create_id(NULL, &id, NULL, spaces[i]), 0);
        assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
        assert_int_not_equal(rdma_get_src_port(id), 0);
        assert_int_equal(rdma_destroy_id(id), 0);
    }
    assert_int_equal(ibv_close_device(context), 0);
    assert_int_equal(sockets_made, 0);
}

static void what_datagrams_ask_the_kernel_is_asked_of_the_kernel(void **state)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    sockets_made = 0;
    int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(rconnect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(rclose(fd), 0);
    assert_int_equal(sockets_made, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1) { // a variant: the other device
        roce_port_of_own();
        setenv("WEFT_WIRE", argv[1], 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_has_sockets_and_descriptors_of_the_kernel),
        cmocka_unit_test(a_socket_of_datagrams_is_made),
        cmocka_unit_test(what_a_device_asks_the_kernel_is_asked_of_the_kernel),
        cmocka_unit_test(what_datagrams_ask_the_kernel_is_asked_of_the_kernel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
