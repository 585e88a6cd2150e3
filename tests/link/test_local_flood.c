// A door where somebody knocks faster than he can be heard: each who is let in has another one
// behind him. A stream that is accepted meanwhile is not held.
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "link/local/door.h"
#include "tests/link/local_pair.h"

enum { NEVER_ENDING = 4 * LOCAL_DOOR_LOOK };

static struct {
    int door; // -1: nobody knocks
    struct sockaddr_un name;
    socklen_t name_len;
    bool is_another_user;
    unsigned let_in;
} flood = {.door = -1};

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

// Knocks and goes.
static void knock(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&flood.name, flood.name_len), 0);
    close(fd);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
    long result = __real_syscall(number, a, b, c, d, e, f);
    if (flood.door < 0 || result < 0) {
        return result;
    }
    if (number == SYS_accept4 && a == flood.door && ++flood.let_in < NEVER_ENDING) {
        knock();
    }
    if (number == SYS_getsockopt && c == SO_PEERCRED && flood.is_another_user) {
        ((struct ucred *)d)->uid++;
    }
    return result;
}

static void begin_flood(bool is_another_user)
{
    int door = local_stream_of(l.listener)->door.fd;
    flood.name_len = sizeof flood.name;
    assert_int_equal(getsockname(door, (struct sockaddr *)&flood.name, &flood.name_len), 0);
    flood.door = door;
    flood.is_another_user = is_another_user;
    flood.let_in = 0;
    knock();
}

// What the listener's own stream comes to. Its offer was there before the others.
static enum local_path accept_beside_flood(bool is_another_user)
{
    char got[4];
    loop_open(&l, the_link, AF_INET);
    begin_flood(is_another_user);
    assert_int_equal(send_text(l.active, "?"), 1);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 1);
    flood.door = -1;
    return path_of(l.passive);
}

static void who_knocks_without_end_holds_nobody(void **state)
{
    assert_int_equal(accept_beside_flood(false), LOCAL_PATH_MEMORY);
    assert_int_equal(flood.let_in, LOCAL_DOOR_LOOK);
    assert_int_equal(counters()->looks_cut, 1);
}

static void another_user_who_knocks_without_end_holds_nobody(void **state)
{
    assert_int_equal(accept_beside_flood(true), LOCAL_PATH_TCP);
    assert_int_equal(flood.let_in, LOCAL_DOOR_LOOK);
    assert_int_equal(counters()->looks_cut, 1);
    assert_int_equal(counters()->offers_received, 0);
}

int main(void)
{
#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        LINK_TEST(who_knocks_without_end_holds_nobody),
        LINK_TEST(another_user_who_knocks_without_end_holds_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
