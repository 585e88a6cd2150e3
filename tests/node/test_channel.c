// The socket between host and RTA, and the memory they share, as either end may misuse them: what
// is no message, descriptors that may not come, texts that do not end, and memory that could
// shrink.

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "node/unit/channel.h"
#include "node/unit/segment.h"

enum { PAGE = 4096 };

static int pair[2];

static int open_pair(void **state)
{
    return channel_pair(pair);
}

static int close_pair(void **state)
{
    close(pair[0]);
    close(pair[1]);
    return 0;
}

static int count_open(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) {
        count += fcntl(fd, F_GETFD) >= 0;
    }
    return count;
}

// So many octets of a message, with so many descriptors.
static void send_raw(const struct unit_message *message, size_t len, unsigned fd_count)
{
    union {
        struct cmsghdr header;
        char octets[CMSG_SPACE(8 * sizeof(int))];
    } ancillary = {.octets = {0}};
    struct iovec iov = {(void *)message, len};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
    if (fd_count > 0) {
        int fds[8] = {0};
        header.msg_control = ancillary.octets;
        header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&header);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        memcpy(CMSG_DATA(c), fds, fd_count * sizeof(int));
    }
    assert_int_equal(sendmsg(pair[0], &header, 0), len);
}

static void a_message_arrives_with_its_descriptor(void **state)
{
    struct unit_message sent = {.kind = UNIT_OPEN, .volume = 7, .uri = "ram:1M"}, got;
    int keepsake;
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), -EAGAIN);
    assert_int_equal(keepsake, -1);
    assert_int_equal(channel_send(pair[0], &sent, -1), 0);
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), 1);
    assert_memory_equal(&got, &sent, sizeof sent);
    assert_int_equal(keepsake, -1);
    int fd = memfd_create("test", 0);
    struct stat ours, theirs;
    assert_int_equal(channel_send(pair[0], &sent, fd), 0);
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), 1);
    assert_true(keepsake > 2 && keepsake != fd);
    assert_int_equal(fcntl(keepsake, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fstat(fd, &ours) + fstat(keepsake, &theirs), 0);
    assert_int_equal(theirs.st_ino, ours.st_ino);
    channel_drop(keepsake);
    close(fd);
    assert_int_equal(fcntl(pair[0], F_GETFD), FD_CLOEXEC);
    while (channel_send(pair[0], &sent, -1) == 0) {
    }
    assert_int_equal(channel_send(pair[0], &sent, -1), -EAGAIN); // nobody reads
    close_pair(NULL);
    assert_int_equal(channel_pair(pair), 0);
    close(pair[1]);
    assert_int_equal(channel_send(pair[0], &sent, -1), -EPIPE);
    close(pair[0]);
    assert_int_equal(channel_pair(pair), 0);
    close(pair[0]);
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), 0); // the other side is gone
    pair[0] = dup(0);
}

static void who_leaves_what_has_come_unread_is_gone_too(void **state)
{
    struct unit_message message = {.kind = UNIT_OPEN};
    int keepsake;
    assert_int_equal(channel_send(pair[1], &message, -1), 0);
    close(pair[0]);
    assert_int_equal(channel_receive(pair[1], &message, &keepsake), 0);
    pair[0] = dup(0);
}

// What else the kernel says of a message is no descriptor.
static void credentials_are_no_descriptors(void **state)
{
    struct unit_message message = {.kind = UNIT_OPEN}, got;
    int keepsake, yes = 1;
    setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
    assert_int_equal(channel_send(pair[0], &message, -1), 0);
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), 1);
    assert_int_equal(keepsake, -1);
}

static void what_is_no_message_is_refused_and_its_descriptors_are_closed(void **state)
{
    static const struct {
        size_t missing;
        unsigned fds;
        uint32_t kind;
        int result;
    } cases[] = {
        {0, 0, UNIT_OPEN, 1},
        {0, 1, UNIT_OPEN, 1},
        {0, 0, UNIT_PROBE, 1},
        {0, 1, UNIT_PROBE, -EPROTO},
        {0, 2, UNIT_OPEN, -EPROTO},
        {0, 4, UNIT_OPEN, -EPROTO},
        {0, 5, UNIT_OPEN, -EPROTO},
        {0, 8, UNIT_OPEN, -EPROTO},
        {1, 0, UNIT_OPEN, -EPROTO},
        {1, 1, UNIT_OPEN, -EPROTO},
        {sizeof(struct unit_message) - 1, 0, UNIT_OPEN, -EPROTO},
    };
    int before = count_open();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct unit_message message = {.kind = cases[i].kind}, got;
        int keepsake;
        send_raw(&message, sizeof message - cases[i].missing, cases[i].fds);
        assert_int_equal(channel_receive(pair[1], &got, &keepsake), cases[i].result);
        assert_true((keepsake >= 0) == (cases[i].result == 1 && cases[i].fds == 1));
        if (keepsake >= 0) {
            channel_drop(keepsake);
        }
        assert_int_equal(count_open(), before);
    }
    struct {
        struct unit_message message;
        char more;
    } longer = {{.kind = UNIT_OPEN}, 0};
    struct unit_message got;
    int keepsake;
    assert_int_equal(send(pair[0], &longer, sizeof longer.message + 1, 0),
                     sizeof longer.message + 1);
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), -EPROTO);
}

static void texts_end_within_the_message(void **state)
{
    struct unit_message message, got;
    int keepsake;
    memset(&message, 'x', sizeof message);
    message.kind = UNIT_OPEN;
    memcpy(message.why, "\x1b[2J\n", 5);
    send_raw(&message, sizeof message, 0);
    assert_int_equal(channel_receive(pair[1], &got, &keepsake), 1);
    assert_int_equal(strnlen(got.uri, sizeof got.uri), sizeof got.uri - 1);
    assert_int_equal(strnlen(got.pin, sizeof got.pin), sizeof got.pin - 1);
    assert_true(strnlen(got.why, sizeof got.why) < sizeof got.why);
    assert_null(memchr(got.why, 0x1b, sizeof got.why));
    assert_null(memchr(got.why, '\n', sizeof got.why));
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void memory_is_shared_with_who_has_its_descriptor(void **state)
{
    struct segment one, two;
    assert_int_equal(segment_create("test", 2 * PAGE, &one), 0);
    assert_int_equal(one.len, 2 * PAGE);
    assert_int_equal(ftruncate(one.fd, PAGE), -1); // nobody changes its size
    assert_int_equal(ftruncate(one.fd, 3 * PAGE), -1);
    assert_int_equal(segment_open(dup(one.fd), &two), 0);
    assert_int_equal(two.len, 2 * PAGE);
    ((char *)one.ptr)[2 * PAGE - 1] = 42;
    assert_int_equal(((char *)two.ptr)[2 * PAGE - 1], 42);
    int fd = two.fd;
    segment_close(&two);
    assert_null(two.ptr);
    assert_int_equal(two.fd, -1);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    segment_close(&two); // once more
    segment_close(&one);
}

static void memory_may_be_put_where_it_is_wanted(void **state)
{
    struct segment segment;
    void *place = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(segment_create_at("test", PAGE, place, &segment), 0);
    assert_ptr_equal(segment.ptr, place);
    segment_close(&segment);
}

static void memory_that_cannot_be_had_leaves_nothing_behind(void **state)
{
    struct rlimit limit, none;
    struct segment segment;
    int before = count_open();
    assert_int_equal(segment_create("test", UINT64_MAX, &segment), -EINVAL);
    assert_int_equal(segment_create("test", 0, &segment), -EINVAL);
    assert_int_equal(segment_create_at("test", PAGE, (void *)1, &segment), -EINVAL);
    assert_int_equal(count_open(), before);
    getrlimit(RLIMIT_NOFILE, &limit);
    none = (struct rlimit){0, limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &none);
    int error = segment_create("test", PAGE, &segment);
    setrlimit(RLIMIT_NOFILE, &limit);
    assert_int_equal(error, -EMFILE);
}

static void memory_that_could_shrink_is_not_taken(void **state)
{
    static const int seals[] = {0, F_SEAL_SHRINK, F_SEAL_SHRINK | F_SEAL_GROW,
                                F_SEAL_GROW | F_SEAL_SEAL, F_SEAL_SHRINK | F_SEAL_SEAL};
    for (unsigned i = 0; i < sizeof seals / sizeof seals[0]; i++) {
        struct segment segment = {0};
        int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        assert_int_equal(ftruncate(fd, PAGE), 0);
        assert_int_equal(fcntl(fd, F_ADD_SEALS, seals[i]), 0);
        assert_int_equal(segment_open(fd, &segment), -EPERM);
        assert_null(segment.ptr);
        assert_int_equal(fcntl(fd, F_GETFD), -1); // it was given away
    }
    struct segment segment = {0};
    assert_int_equal(segment_open(open("/dev/null", O_RDWR | O_CLOEXEC), &segment), -EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_message_arrives_with_its_descriptor, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(who_leaves_what_has_come_unread_is_gone_too, open_pair,
                                        close_pair),
        cmocka_unit_test_setup_teardown(credentials_are_no_descriptors, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(
            what_is_no_message_is_refused_and_its_descriptors_are_closed, open_pair, close_pair),
        cmocka_unit_test_setup_teardown(texts_end_within_the_message, open_pair, close_pair),
        cmocka_unit_test(memory_is_shared_with_who_has_its_descriptor),
        cmocka_unit_test(memory_may_be_put_where_it_is_wanted),
        cmocka_unit_test(memory_that_cannot_be_had_leaves_nothing_behind),
        cmocka_unit_test(memory_that_could_shrink_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
