// Names by which processes of a user share RoCE's port, and another user who takes them first.
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/why.h"
#include "host/clock.h"
#include "link/datagram/names.h"
#include "link/datagram/udp.h"
#include "tests/own_port.h"

enum { NOBODY = 65534, SERVICE = 0x77 };

static uint16_t port;
static const struct in6_addr here = {.s6_addr = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
static pid_t taker; // 0: nobody

static void name_of(const char *what, char ret[DATAGRAM_NAME_LEN])
{
    snprintf(ret, DATAGRAM_NAME_LEN, "weft-roce.%u.%u.%s", (unsigned)geteuid(), port, what);
}

static bool take(const char *name)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const size_t len = strlen(name);
    memcpy(addr.sun_path + 1, name, len);
    const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    return bind(fd, (const struct sockaddr *)&addr,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) == 0;
}

// A process of this user has it from now on.
static void taken_by(uid_t uid, const char *what)
{
    char name[DATAGRAM_NAME_LEN], said;
    int fds[2];
    name_of(what, name);
    assert_int_equal(pipe(fds), 0);
    taker = fork();
    assert_true(taker >= 0);
    if (taker == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        said = (uid == geteuid() || setuid(uid) == 0) && take(name) ? 'y' : 'n';
        _exit(write(fds[1], &said, 1) == 1 && pause() == 0);
    }
    assert_int_equal(read(fds[0], &said, 1), 1);
    assert_int_equal(said, 'y');
    close(fds[0]);
    close(fds[1]);
}

static int begin(void **state)
{
    port = own_port();
    taker = 0;
    return 0;
}

static int end(void **state)
{
    if (taker > 0) {
        kill(taker, SIGKILL);
        waitpid(taker, NULL, 0);
    }
    return 0;
}

static void need_another_user(void)
{
    if (geteuid() != 0) {
        print_message("SKIP: only root is two users\n");
        skip();
    }
}

static struct datagram_link *link_open(void)
{
    const struct datagram_udp_config config = {.port = port, .clock = host_clock};
    struct datagram_link *link;
    assert_int_equal(datagram_udp_create(&config, &link), 0);
    return link;
}

static void a_name_is_another_users_or_not(void **state)
{
    char name[DATAGRAM_NAME_LEN], found[DATAGRAM_NAME_LEN];
    unsigned uid;
    need_another_user();
    name_of("making", name);
    assert_false(datagram_names_stranger(name, false, found, &uid));
    taken_by(NOBODY, "making");
    assert_true(datagram_names_stranger(name, false, found, &uid));
    assert_int_equal(uid, NOBODY);
    assert_string_equal(found, name);
    name[strlen(name) - 1] = '\0';
    assert_false(datagram_names_stranger(name, false, found, &uid)); // not all of it
    assert_true(datagram_names_stranger(name, true, found, &uid));
}

static void a_name_of_ones_own_is_no_strangers(void **state)
{
    char name[DATAGRAM_NAME_LEN], found[DATAGRAM_NAME_LEN];
    unsigned uid;
    taken_by(geteuid(), "making");
    name_of("making", name);
    assert_false(datagram_names_stranger(name, false, found, &uid));
}

// Not as long as a process of ours is waited for.
static void who_is_locked_out_is_told_by_whom_at_once(void **state)
{
    struct why why = {.text = ""};
    char expected[64];
    need_another_user();
    taken_by(NOBODY, "making");
    struct datagram_link *link = link_open();
    assert_int_equal(datagram_open(link, &here, 0), -EADDRINUSE);
    assert_true(datagram_udp_stranger(port, &why));
    snprintf(expected, sizeof expected, "is held by user %u", NOBODY);
    assert_non_null(strstr(why.text, expected));
    datagram_destroy(link);
}

// It says nothing of what we serve, and keeps nobody from it.
static void a_service_is_not_another_users_to_forbid(void **state)
{
    char what[64];
    need_another_user();
    snprintf(what, sizeof what, "serves.%x.::ffff:127.0.0.1", SERVICE);
    taken_by(NOBODY, what);
    struct datagram_link *link = link_open();
    assert_false(datagram_is_served(link, SERVICE, &here));
    assert_int_equal(datagram_serve(link, SERVICE, &here), 0);
    datagram_unserve(link, SERVICE, &here);
    datagram_destroy(link);
}

static void a_service_of_another_process_of_ours_is_taken(void **state)
{
    char what[64];
    snprintf(what, sizeof what, "serves.%x.::ffff:127.0.0.1", SERVICE);
    taken_by(geteuid(), what);
    struct datagram_link *link = link_open();
    assert_true(datagram_is_served(link, SERVICE, &here));
    assert_int_equal(datagram_serve(link, SERVICE, &here), -EADDRINUSE);
    datagram_destroy(link);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_name_is_another_users_or_not),
        CASE(a_name_of_ones_own_is_no_strangers),
        CASE(who_is_locked_out_is_told_by_whom_at_once),
        CASE(a_service_is_not_another_users_to_forbid),
        CASE(a_service_of_another_process_of_ours_is_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
