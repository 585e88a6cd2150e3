// What a process leaves to be sent by others is sent only if it has ended, and without a word. Two
// links in one process are to each other what two processes are; processes that die have
// tests/cm/test_ends.c.
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "link/datagram/share.h"
#include "link/datagram/udp.h"
#include "tests/link/descriptors.h"
#include "tests/own_port.h"

enum { LOOKS = 64, PACKETS_MAX = 64 };

static const struct in6_addr here = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};

static struct datagram_link *link_make(void)
{
    const struct datagram_udp_config config = {.port = own_port()};
    struct datagram_link *link;
    assert_int_equal(datagram_udp_create(&config, &link), 0);
    return link;
}

static void look(struct datagram_link *link)
{
    struct datagram_rx rx[PACKETS_MAX];
    for (unsigned i = 0; i < LOOKS; i++) {
        if ((datagram_poll(link, i + 1) & DATAGRAM_READY_IN) != 0) {
            datagram_receive(link, rx, PACKETS_MAX, i + 1);
        }
    }
}

static void take_estates(void *ctx, const char *name, uint64_t value)
{
    if (strcmp(name, "estates") == 0) {
        *(uint64_t *)ctx = value;
    }
}

static uint64_t estates(const struct datagram_link *link)
{
    uint64_t count = UINT64_MAX;
    datagram_counters(link, take_estates, &count);
    return count;
}

static void bequeath_one(struct datagram_link *link)
{
    static const uint8_t head[12] = {0x64, [7] = 1};
    const struct datagram_path path = {.local = here, .remote = here};
    const struct datagram_tx tx = {.path = &path, .head = {head, sizeof head}};
    datagram_bequeath(link, 0, &tx);
}

// The second comes before the first has a will, and is shown it when it is made, and again as one
// who has come.
static void who_shows_its_will_twice_has_not_ended(void **state)
{
    struct datagram_link *one = link_make(), *other = link_make();
    bequeath_one(one);
    look(one);
    look(other);
    assert_int_equal(estates(other), 0);
    datagram_destroy(one);
    datagram_destroy(other);
}

static void nothing_is_sent_for_who_ends_in_order(void **state)
{
    struct datagram_link *one = link_make(), *other = link_make();
    bequeath_one(one);
    look(one);
    look(other);
    datagram_destroy(one);
    look(other);
    assert_int_equal(estates(other), 0);
    datagram_destroy(other);
}

// As of a process that is gone: nobody has taken the word back.
static void one_of_the_others_sends_for_who_ends_without_a_word(void **state)
{
    struct datagram_link *one = link_make(), *others[] = {link_make(), link_make()};
    bequeath_one(one);
    look(others[0]);
    look(others[1]);
    datagram_abandon(one);
    look(others[0]);
    look(others[1]);
    assert_int_equal(estates(others[0]) + estates(others[1]), 1);
    datagram_destroy(others[0]);
    datagram_destroy(others[1]);
    datagram_destroy(one);
}

// One that lies might have whoever reads it wait for ever.
static void will_that_is_no_memory_is_refused(void **state)
{
    struct datagram_link *link = link_make();
    struct datagram_share liar;
    int will[2], token[2];
    assert_int_equal(datagram_share_init(&liar, own_port()), 0);
    assert_int_equal(pipe(will), 0);
    assert_int_equal(pipe(token), 0);
    assert_int_equal(datagram_share_show(&liar, 0, (int[]){will[0], token[0]}), 0);
    close(will[0]);
    close(token[0]);
    look(link);
    struct pollfd ends[] = {{.fd = will[1]}, {.fd = token[1]}};
    assert_int_equal(poll(ends, 2, 0), 2); // nobody has their other ends
    close(will[1]);
    close(token[1]);
    datagram_share_fini(&liar);
    datagram_destroy(link);
}

// A socket may report an error with nothing to read: who then reads may wait for ever.
static void will_whose_word_is_in_no_pipe_is_refused(void **state)
{
    struct datagram_link *link = link_make();
    struct datagram_share liar;
    int memory = memfd_create("will", MFD_CLOEXEC), ends[2];
    assert_int_equal(datagram_share_init(&liar, own_port()), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(datagram_share_show(&liar, 0, (int[]){memory, ends[0]}), 0);
    close(memory);
    close(ends[0]);
    look(link);
    struct pollfd end = {.fd = ends[1]};
    assert_int_equal(poll(&end, 1, 0), 1); // nobody has its other end
    close(ends[1]);
    datagram_share_fini(&liar);
    datagram_destroy(link);
}

static void no_descriptor_is_left(void **state)
{
    descriptors_note();
    nothing_is_sent_for_who_ends_in_order(state);
    one_of_the_others_sends_for_who_ends_without_a_word(state);
    descriptors_check();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_shows_its_will_twice_has_not_ended),
        cmocka_unit_test(nothing_is_sent_for_who_ends_in_order),
        cmocka_unit_test(one_of_the_others_sends_for_who_ends_without_a_word),
        cmocka_unit_test(will_that_is_no_memory_is_refused),
        cmocka_unit_test(will_whose_word_is_in_no_pipe_is_refused),
        cmocka_unit_test(no_descriptor_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
