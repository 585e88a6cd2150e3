// The stream that leads back: what is sent is what comes, and who can go on is told.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "link/mirror.h"

static struct link_stream *stream;
static unsigned ready_count;

static void on_ready(void *ctx)
{
    ready_count++;
}

static int setup(void **state)
{
    const struct link_mirror_config config = {.on_ready = on_ready};
    ready_count = 0;
    return link_mirror_create(&config, &stream);
}

static int teardown(void **state)
{
    stream->link->ops->close(stream, false);
    return 0;
}

static ssize_t send_pieces(const void *first, size_t first_len, const void *second,
                           size_t second_len)
{
    const struct iovec iov[] = {{(void *)(uintptr_t)first, first_len},
                                {(void *)(uintptr_t)second, second_len}};
    const struct link_tx tx = {.iov = iov, .iov_count = 2};
    return stream->link->ops->send(stream, &tx);
}

static ssize_t receive(void *into, size_t len)
{
    return stream->link->ops->recv(stream, mspan_of(into, len));
}

static void octets_come_back_in_order(void **state)
{
    uint8_t out[1000], in[1000];
    for (unsigned round = 0; round < 500; round++) { // around the ring's end many times
        for (unsigned i = 0; i < sizeof out; i++) {
            out[i] = (uint8_t)(round + i * 3);
        }
        assert_int_equal(send_pieces(out, 300, out + 300, 700), 1000);
        assert_int_equal(receive(in, 400), 400);
        assert_int_equal(receive(in + 400, 600), 600);
        assert_memory_equal(in, out, sizeof out);
    }
    assert_int_equal(receive(in, sizeof in), -EAGAIN);
}

static void no_more_is_taken_than_there_is_room_for(void **state)
{
    static uint8_t octets[LINK_MIRROR_LEN];
    assert_int_equal(send_pieces(octets, 10, octets, sizeof octets), LINK_MIRROR_LEN);
    assert_int_equal(send_pieces(octets, 1, octets, 0), -EAGAIN);
    assert_int_equal(receive(octets, 7), 7);
    assert_int_equal(send_pieces(octets, 4, octets, 4), 7);
}

static void end_stands_behind_what_was_sent(void **state)
{
    char in[8];
    assert_int_equal(send_pieces("last", 4, NULL, 0), 4);
    assert_int_equal(stream->link->ops->shutdown(stream), 0);
    assert_int_equal(send_pieces("more", 4, NULL, 0), -EPIPE);
    assert_int_equal(receive(in, sizeof in), 4);
    assert_int_equal(receive(in, sizeof in), 0);
    assert_int_equal(receive(in, sizeof in), 0);
}

static void reader_is_told_of_octets_and_of_the_end(void **state)
{
    send_pieces("a", 1, NULL, 0);
    assert_int_equal(ready_count, 1);
    stream->link->ops->shutdown(stream);
    assert_int_equal(ready_count, 2);
}

static void reader_who_stopped_is_told_when_it_goes_on(void **state)
{
    stream->link->ops->want_in(stream, false);
    send_pieces("a", 1, NULL, 0);
    assert_int_equal(ready_count, 0);
    stream->link->ops->want_in(stream, true);
    assert_int_equal(ready_count, 1);
}

static void writer_who_waits_is_told_of_room(void **state)
{
    static uint8_t octets[LINK_MIRROR_LEN];
    send_pieces(octets, sizeof octets, NULL, 0);
    ready_count = 0;
    receive(octets, 1);
    assert_int_equal(ready_count, 0); // nobody waits
    send_pieces(octets, 1, NULL, 0);
    ready_count = 0;
    stream->link->ops->want_out(stream, true);
    assert_int_equal(ready_count, 0); // there is none
    receive(octets, 1);
    assert_int_equal(ready_count, 1);
    stream->link->ops->want_out(stream, true); // asked for once more, when there is room
    assert_int_equal(ready_count, 2);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(octets_come_back_in_order),
        CASE(no_more_is_taken_than_there_is_room_for),
        CASE(end_stands_behind_what_was_sent),
        CASE(reader_is_told_of_octets_and_of_the_end),
        CASE(reader_who_stopped_is_told_when_it_goes_on),
        CASE(writer_who_waits_is_told_of_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
