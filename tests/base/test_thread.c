#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/thread.h"

static void *own_pointer(void *ret)
{
    *(const void **)ret = thread_pointer();
    return (void *)thread_pointer_by_abi();
}

static void threads_differ(void **state)
{
    pthread_t other;
    const void *of_other = NULL;
    assert_int_equal(pthread_create(&other, NULL, own_pointer, &of_other), 0);
    assert_ptr_not_equal(of_other, thread_pointer());
    assert_ptr_equal(thread_pointer(), thread_pointer());
    pthread_join(other, NULL);
}

static void the_abi_and_the_compiler_agree(void **state)
{
    pthread_t other;
    const void *of_other = NULL;
    void *by_abi = NULL;
    assert_int_equal(pthread_create(&other, NULL, own_pointer, &of_other), 0);
    assert_int_equal(pthread_join(other, &by_abi), 0);
    assert_ptr_equal(by_abi, of_other);
    assert_ptr_equal(thread_pointer_by_abi(), thread_pointer());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_differ),
        cmocka_unit_test(the_abi_and_the_compiler_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
