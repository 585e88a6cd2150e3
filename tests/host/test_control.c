// The socket that `weft stat` and `weft reads` ask, and the same for the program itself.
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

#include <weft/reads.h>

#include "host/process.h"
#include "rnic/reads.h"

static char text[1 << 16];

static int connected(void)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int name_len = snprintf(addr.sun_path + 1, sizeof addr.sun_path - 1, "weft.%u.%d",
                            (unsigned)getuid(), (int)getpid());
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)name_len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, len), 0);
    return fd;
}

// What the process answers; empty: nothing.
static const char *ask(const char *request)
{
    int fd = connected();
    send(fd, request, strlen(request), MSG_NOSIGNAL); // strangers may be shown the door before
    size_t got = 0;
    ssize_t n;
    while ((n = recv(fd, text + got, sizeof text - 1 - got, 0)) > 0) {
        got += (size_t)n;
    }
    text[got] = '\0';
    close(fd);
    return text;
}

static void expect(const char *request, const char *part)
{
    if (strstr(ask(request), part) == NULL) {
        fail_msg("%s answers %s", request, text);
    }
}

static struct rnic *rnic;

static int setup(void **state)
{
    int error;
    rnic = host_rnic(DEVICE_WIRE_IWARP, NULL, &error);
    return rnic == NULL;
}

static void counters_are_answered(void **state)
{
    char part[64];
    snprintf(part, sizeof part, "{\"pid\":%d,\"program\":\"test_host_control\",\"weft0\":{",
             (int)getpid());
    expect("stat\n", part);
    assert_string_equal(text + strlen(text) - 3, "]}\n");
    expect("reads\n", "\"reads\":{\"allotment\":262144,");
    assert_null(strstr(text, "\"weft0\":{"));
}

static void allotment_is_commanded(void **state)
{
    expect("reads allotment 65536\n", "\"allotment\":65536,\"allotment_base\":65536");
    assert_int_equal(rnic_reads(rnic).allotment_len, 65536);
    expect("reads memory short\n", "\"memory_short\":1");
    expect("reads memory enough\n", "\"memory_short\":0");
    expect("reads allotment auto\n", "\"allotment\":262144,\"allotment_base\":262144");
    assert_int_equal(rnic_reads(rnic).changes[ALLOTMENT_OPERATOR], 2);
}

static void what_is_no_request_is_not_answered(void **state)
{
    static const char *const wrong[] = {"stat",           "stats\n", "reads", "reads allotment\n",
                                        "reads memory\n", "\n"};
    const uint64_t changes = rnic_reads(rnic).changes[ALLOTMENT_OPERATOR];
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_string_equal(ask(wrong[i]), "");
    }
    assert_int_equal(rnic_reads(rnic).changes[ALLOTMENT_OPERATOR], changes);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void who_says_nothing_is_let_go_and_the_next_is_heard(void **state)
{
    char octet;
    int silent = connected(), gone = connected();
    close(gone);
    expect("stat\n", "\"weft0\":{");
    assert_int_equal(recv(silent, &octet, 1, 0), 0);
    close(silent);
}

// Of this thread alone, which connects: the peer's credentials are those at that moment.
static void thread_becomes(unsigned uid)
{
    if (syscall(SYS_setresuid, -1, uid, -1) != 0) {
        print_message("SKIP: only root can be another user\n");
        skip();
    }
}

static void strangers_are_told_nothing(void **state)
{
    thread_becomes(65534);
    const char *told = ask("stat\n");
    const uint64_t changes = rnic_reads(rnic).changes[ALLOTMENT_OPERATOR];
    ask("reads allotment 4096\n");
    thread_becomes(0);
    assert_string_equal(told, "");
    assert_int_equal(rnic_reads(rnic).changes[ALLOTMENT_OPERATOR], changes);
    expect("stat\n", "\"weft0\":{");
}

/* ---- signals --------------------------------------------------------------------------------- */

static atomic_uint signals;

static void on_signal(int number)
{
    atomic_fetch_add(&signals, 1);
}

// A program that blocks a signal to wait for it hears of it: no thread of the device's takes it.
static void signals_are_the_programs(void **state)
{
    static const int numbers[] = {SIGUSR1, SIGTERM, SIGCHLD};
    const struct timespec at_once = {0};
    for (unsigned i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        sigset_t set, before;
        sigemptyset(&set);
        sigaddset(&set, numbers[i]);
        assert_int_equal(pthread_sigmask(SIG_BLOCK, &set, &before), 0);
        assert_false(sigismember(&before, numbers[i])); // bringing up the device left it as it was
        void (*handler)(int) = signal(numbers[i], on_signal);
        assert_int_equal(kill(getpid(), numbers[i]), 0);
        expect("stat\n", "\"weft0\":{"); // the thread has run
        assert_int_equal(sigtimedwait(&set, NULL, &at_once), numbers[i]);
        assert_int_equal(atomic_load(&signals), 0);
        signal(numbers[i], handler);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
}

// <weft/reads.h>: the same for the program itself.
static void program_commands_its_own_reads(void **state)
{
    struct weft_reads reads;
    assert_int_equal(weft_reads_query(&reads), 0);
    assert_int_equal(reads.allotment, 262144);
    assert_int_equal(reads.allotment_base, 262144);
    assert_int_equal(reads.contexts, 128);
    assert_int_equal(reads.contexts_in_use, 0);
    assert_int_equal(reads.waiting, 0);
    assert_int_equal(weft_reads_set_allotment(1U << 31), -EINVAL);
    assert_int_equal(weft_reads_set_allotment(32768), 0);
    assert_int_equal(weft_reads_set_memory_short(true), 0);
    assert_int_equal(weft_reads_query(&reads), 0);
    assert_int_equal(reads.allotment_base, 32768);
    assert_int_equal(reads.allotment, 32768 / 4);
    assert_int_equal(weft_reads_set_memory_short(false), 0);
    assert_int_equal(weft_reads_release_allotment(), 0);
    assert_int_equal(weft_reads_query(&reads), 0);
    assert_int_equal(reads.allotment, 262144);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_answered),
        cmocka_unit_test(allotment_is_commanded),
        cmocka_unit_test(what_is_no_request_is_not_answered),
        cmocka_unit_test(who_says_nothing_is_let_go_and_the_next_is_heard),
        cmocka_unit_test(strangers_are_told_nothing),
        cmocka_unit_test(signals_are_the_programs),
        cmocka_unit_test(program_commands_its_own_reads),
    };
    setenv("WEFT_READ_PRESSURE", "off", 1); // the machine's memory is none of this test's business
    return cmocka_run_group_tests(tests, setup, NULL);
}
