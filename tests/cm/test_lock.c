// What is to be called with the lock held stops the process without it.

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "cm/cm.h"

static bool is_held;

void cm_lock(void)
{
    is_held = true;
}

void cm_unlock(void)
{
    is_held = false;
}

bool cm_lock_is_held(void)
{
    return is_held;
}

unsigned cm_generation(void)
{
    return 0;
}

void cm_fork_prepare(void)
{
}

static void post_and_withdraw(struct cm_channel *channel)
{
    struct cm_event event;
    list_init(&event.link);
    cm_channel_post(channel, &event);
    cm_channel_withdraw(channel, &event);
}

static void test_an_event_is_posted_with_the_lock_held(void **state)
{
    struct cm_channel *channel = cm_channel_of(rdma_create_event_channel());
    assert_non_null(channel);
    cm_lock();
    post_and_withdraw(channel);
    cm_unlock();
    assert_true(list_is_empty(&channel->events));
    cm_channel_bury(channel);
}

static void test_an_event_posted_without_it_stops_the_process(void **state)
{
    struct cm_channel *channel = cm_channel_of(rdma_create_event_channel());
    int status;
    assert_non_null(channel);
    pid_t pid = fork();
    if (pid == 0) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0});
        signal(SIGABRT, SIG_DFL); // a test program has a handler of its own
        close(STDERR_FILENO);
        post_and_withdraw(channel);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    cm_channel_bury(channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_event_is_posted_with_the_lock_held),
        cmocka_unit_test(test_an_event_posted_without_it_stops_the_process),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
