// A fork while the device is up: the parent's goes on, and the child has one of its own.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "host/process.h"
#include "rnic/create.h"
#include "tests/link/descriptors.h"

static struct rnic *rnic; // of the parent

static int setup(void **state)
{
    int error;
    descriptors_note();
    rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    return rnic == NULL;
}

// Does the process `pid` answer `weft stat`, and as itself? To the end: a child that is made
// meanwhile would hold the connection too.
static bool answers(pid_t pid)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    char text[64] = "", rest[512], expected[64];
    int name_len = snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "weft.%u.%d",
                            (unsigned)getuid(), (int)pid);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)name_len);
    int expected_len = snprintf(expected, sizeof expected, "{\"pid\":%d,", (int)pid);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_right = connect(fd, (struct sockaddr *)&addr, len) == 0 &&
                    send(fd, "stat\n", 5, 0) == 5 &&
                    recv(fd, text, (size_t)expected_len, MSG_WAITALL) == expected_len &&
                    strcmp(text, expected) == 0;
    while (is_right && recv(fd, rest, sizeof rest, 0) > 0) {
    }
    close(fd);
    return is_right;
}

// What a child finds, as its exit status: 0, or the number of what did not hold.
static int status_of(int (*check)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(check());
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define HOLD(number, condition) \
    if (!(condition)) {         \
        return number;          \
    }

static int parents_device_is_left_behind(void)
{
    HOLD(1, !rnic_is_alive(rnic))
    HOLD(2, descriptors_more() == 0) // the child holds none of its sockets, or files
    HOLD(3, !answers(getpid()))
    HOLD(4, answers(getppid()))
    return 0;
}

static void child_lets_go_of_the_parents_device(void **state)
{
    assert_int_equal(status_of(parents_device_is_left_behind), 0);
}

static int has_its_own_device(void)
{
    int error;
    struct rnic *own = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    HOLD(1, own != NULL && own != rnic)
    HOLD(2, host_rnic(DEVICE_WIRE_IWARP, NULL, &error) == own && rnic_is_alive(own))
    HOLD(3, answers(getpid()))
    HOLD(4, rnic_live(own).qps == 0)
    return 0;
}

static int has_its_own_device_and_so_has_its_child(void)
{
    int found = has_its_own_device();
    return found != 0 ? found : 10 * status_of(has_its_own_device);
}

static void child_gets_a_device_of_its_own(void **state)
{
    assert_int_equal(status_of(has_its_own_device_and_so_has_its_child), 0);
}

static void parent_goes_on(void **state)
{
    int error;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(status_of(parents_device_is_left_behind), 0);
        assert_true(rnic_is_alive(rnic));
        assert_ptr_equal(host_rnic(DEVICE_WIRE_IWARP, NULL, &error), rnic);
        assert_int_equal(rnic_live(rnic).qps, 0);
        assert_true(answers(getpid()));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(child_lets_go_of_the_parents_device),
        cmocka_unit_test(child_gets_a_device_of_its_own),
        cmocka_unit_test(parent_goes_on),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
