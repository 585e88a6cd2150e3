// Who accepts and has enough of it at once: the peer reads all that was sent, and the end.
#include <stdlib.h>

#include "tests/rsocket/pair.h"

enum { TIMES = 20 };

static struct accepting {
    int listener;
    void (*end)(int fd); // what is done with each that is accepted
} accepting;

static void *accept_main(void *ctx)
{
    for (unsigned i = 0; i < TIMES; i++) {
        const int fd = raccept(accepting.listener, NULL, NULL);
        assert_true(fd >= 0);
        accepting.end(fd);
    }
    return NULL;
}

static void expect_end_after(size_t len, void (*end)(int fd))
{
    struct sockaddr_in addr;
    pthread_t thread;
    accepting = (struct accepting){.listener = listener_open(&addr), .end = end};
    assert_int_equal(pthread_create(&thread, NULL, accept_main, NULL), 0);
    for (unsigned i = 0; i < TIMES; i++) {
        char octets[8];
        const int fd = rsocket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(rconnect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
        if (len > 0) {
            assert_int_equal(rrecv(fd, octets, len, MSG_WAITALL), len);
        }
        assert_int_equal(rrecv(fd, octets, sizeof octets, 0), 0);
        assert_int_equal(rclose(fd), 0);
    }
    pthread_join(thread, NULL);
    rclose(accepting.listener);
}

static void close_at_once(int fd)
{
    assert_int_equal(rclose(fd), 0);
}

static void who_is_closed_at_once_reads_the_end(void **state)
{
    expect_end_after(0, close_at_once);
}

static void shut_down_at_once(int fd)
{
    assert_int_equal(rshutdown(fd, SHUT_WR), 0);
    char octet;
    assert_int_equal(rrecv(fd, &octet, 1, 0), 0); // the peer's end
    assert_int_equal(rclose(fd), 0);
}

static void who_is_shut_down_at_once_reads_the_end(void **state)
{
    expect_end_after(0, shut_down_at_once);
}

static void say_no(int fd)
{
    assert_int_equal(rsend(fd, "no", 2, 0), 2);
    assert_int_equal(rclose(fd), 0);
}

static void what_is_sent_before_is_read(void **state)
{
    expect_end_after(2, say_no);
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        setenv("WEFT_WIRE", argv[1], 1);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_closed_at_once_reads_the_end),
        cmocka_unit_test(who_is_shut_down_at_once_reads_the_end),
        cmocka_unit_test(what_is_sent_before_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
