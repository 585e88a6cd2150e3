// A child finds its parent's ids and channels dead but harmless, and can make its own.

#include <errno.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/cm/loopback.h"

// Runs `body` in a child; true if it returned true there. For how long it may take is the business
// of who runs the tests: a machine may stand still.
static bool in_child(bool (*body)(void *ctx), void *ctx)
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        _exit(body(ctx) ? 0 : 1);
    }
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static bool parents_objects_answer_eio(void *ctx)
{
    struct loopback *l = ctx;
    struct rdma_cm_event *event;
    struct rdma_cm_id *id;
    return rdma_get_cm_event(l->listener.channel, &event) == -1 && errno == EIO &&
           rdma_create_id(l->listener.channel, &id, NULL, RDMA_PS_TCP) == -1 && errno == EIO &&
           rdma_disconnect(l->active.id) == -1 && errno == EIO &&
           rdma_listen(l->listener.id, 0) == -1 && errno == EIO;
}

static bool parents_objects_can_be_destroyed(void *ctx)
{
    loopback_close(ctx);
    return true;
}

static bool own_objects_work(void *ctx)
{
    struct loopback own;
    loopback_open(&own);
    rdma_disconnect(own.active.id);
    event_take(own.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    loopback_close(&own);
    return true;
}

// The last words of a program that is checked for leaks are its exit status.
static void test_a_child_that_exits_leaks_nothing(void **state)
{
    struct loopback l;
    int status, fd = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    loopback_open(&l);
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        struct loopback own;
        loopback_open(&own);
        loopback_close(&own);
        pid = fork(); // a second device is left behind
        if (pid == 0) {
            exit(EXIT_SUCCESS);
        }
        waitpid(pid, &status, 0);
        exit(status == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    loopback_close(&l);
    rclose(fd);
}

static void test_the_parents_objects_are_dead_in_the_child(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_true(in_child(parents_objects_answer_eio, &l));
    loopback_close(&l);
}

static void test_the_child_can_destroy_them_and_the_parent_goes_on(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_true(in_child(parents_objects_can_be_destroyed, &l));
    assert_false(event_waits(l.active.channel));
    assert_int_equal(rdma_disconnect(l.active.id), 0);
    event_take(l.active.channel, RDMA_CM_EVENT_DISCONNECTED);
    event_take(l.listener.channel, RDMA_CM_EVENT_DISCONNECTED);
    loopback_close(&l);
}

static void test_the_child_can_have_its_own(void **state)
{
    struct loopback l;
    loopback_open(&l);
    assert_true(in_child(own_objects_work, NULL));
    loopback_close(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_parents_objects_are_dead_in_the_child),
        cmocka_unit_test(test_the_child_can_destroy_them_and_the_parent_goes_on),
        cmocka_unit_test(test_the_child_can_have_its_own),
        cmocka_unit_test(test_a_child_that_exits_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
