// Sockets and sets of a process that has closed its standard descriptors.

#include <rdma/rsocket.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/daemon.h"
#include "tests/rsocket/pair.h"

int repoll_create(int flags); // of <rdma/rsocket.h> newer than rdma-core 64

// Waits for what is there already, so that the thread has what it sleeps by.
static int streams_run(void)
{
    struct pair p;
    pair_open(&p);
    struct pollfd ready = {.fd = p.passive, .events = POLLIN};
    assert_int_equal(rsend(p.active, "x", 1, 0), 1);
    assert_int_equal(rpoll(&ready, 1, PATIENCE_MS), 1);
    const int in_use = standard_in_use();
    pair_close(&p);
    return in_use;
}

static int datagrams_run(void)
{
    const int fd = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_true(fd >= 0);
    const int in_use = standard_in_use();
    rclose(fd);
    return in_use;
}

static int set_run(void)
{
    const int set = repoll_create(EPOLL_CLOEXEC);
    assert_true(set >= 0);
    const int in_use = standard_in_use();
    rclose(set);
    return in_use;
}

static void no_descriptor_of_a_stream_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("streams"), 0);
}

static void no_descriptor_of_a_datagram_socket_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("datagrams"), 0);
}

static void no_descriptor_of_a_set_has_a_standard_number(void **state)
{
    assert_int_equal(daemon_status("set"), 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_descriptor_of_a_stream_has_a_standard_number),
        cmocka_unit_test(no_descriptor_of_a_datagram_socket_has_a_standard_number),
        cmocka_unit_test(no_descriptor_of_a_set_has_a_standard_number),
    };
    if (argc == 2) {
        daemon_begin();
        return strcmp(argv[1], "streams") == 0     ? streams_run()
               : strcmp(argv[1], "datagrams") == 0 ? datagrams_run()
                                                   : set_run();
    }
    return cmocka_run_group_tests_name("rsocket/daemon", tests, NULL, NULL);
}
