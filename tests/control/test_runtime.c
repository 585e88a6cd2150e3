// Where the control sockets of a user's nodes lie, and which names there are those of nodes.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "control/runtime.h"

static uid_t user;

uid_t __wrap_geteuid(void);

uid_t __wrap_geteuid(void)
{
    return user;
}

static int setup(void **state)
{
    user = 1000;
    unsetenv("WEFT_RUNTIME_DIR");
    unsetenv("XDG_RUNTIME_DIR");
    return 0;
}

static void expect_folder(const char *wanted)
{
    char folder[RUNTIME_PATH_MAX];
    assert_int_equal(runtime_folder(folder), 0);
    assert_string_equal(folder, wanted);
}

static void a_folder_is_of_its_user_or_as_it_was_wished(void **state)
{
    expect_folder("/run/user/1000/weft");
    setenv("XDG_RUNTIME_DIR", "", 1);
    expect_folder("/run/user/1000/weft");
    setenv("XDG_RUNTIME_DIR", "/tmp/session", 1);
    expect_folder("/tmp/session/weft");
    user = 0;
    expect_folder("/run/weft");
    setenv("WEFT_RUNTIME_DIR", "", 1);
    expect_folder("/run/weft");
    setenv("WEFT_RUNTIME_DIR", "/tmp/wish", 1);
    expect_folder("/tmp/wish");
}

// An address of a socket has 108 octets, the terminator included.
static void what_does_not_fit_an_address_is_refused(void **state)
{
    char wish[RUNTIME_PATH_MAX + 1], folder[RUNTIME_PATH_MAX], path[RUNTIME_PATH_MAX];
    memset(wish, 'a', sizeof wish);
    wish[RUNTIME_PATH_MAX - 1] = '\0';
    setenv("WEFT_RUNTIME_DIR", wish, 1);
    expect_folder(wish);
    assert_int_equal(runtime_path(wish, RUNTIME_NODE, 1, path), -ENAMETOOLONG);
    wish[RUNTIME_PATH_MAX - 1] = 'a';
    wish[RUNTIME_PATH_MAX] = '\0';
    setenv("WEFT_RUNTIME_DIR", wish, 1);
    assert_int_equal(runtime_folder(folder), -ENAMETOOLONG);
    unsetenv("WEFT_RUNTIME_DIR");
    setenv("XDG_RUNTIME_DIR", wish, 1);
    assert_int_equal(runtime_folder(folder), -ENAMETOOLONG);
}

static void a_socket_is_named_after_its_process(void **state)
{
    char path[RUNTIME_PATH_MAX];
    assert_int_equal(runtime_path("/run/weft", RUNTIME_YOUNG, 12, path), 0);
    assert_string_equal(path, "/run/weft/new.12");
    assert_int_equal(runtime_young_pid("new.12"), 12);
    assert_int_equal(runtime_young_pid("node.12"), 0);
    assert_int_equal(runtime_node_pid("node.12"), 12);
    assert_int_equal(runtime_node_pid("node.2147483647"), INT32_MAX);
    static const char *const others[] = {"new.12",  "node.",    "node.0",          "node.012",
                                         "node.-1", "node.12x", "node.2147483648", "xnode.12"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        assert_int_equal(runtime_node_pid(others[i]), 0);
    }
}

static void a_folder_that_others_may_write_to_is_refused(void **state)
{
    char own[] = "/tmp/weft-runtime.XXXXXX", inner[64], file[64];
    struct why why = {0};
    assert_non_null(mkdtemp(own));
    struct stat status;
    assert_int_equal(stat(own, &status), 0);
    user = status.st_uid;
    snprintf(inner, sizeof inner, "%s/inner", own);
    snprintf(file, sizeof file, "%s/inner/deeper", own);
    assert_int_equal(runtime_folder_check(inner, &why), -EPERM);
    assert_int_equal(runtime_folder_make(file, &why), -ENOENT);
    assert_non_null(strstr(why.text, "/inner/deeper: No such file"));
    assert_int_equal(runtime_folder_make(inner, &why), 0);
    assert_int_equal(runtime_folder_make(inner, &why), 0);
    assert_int_equal(stat(inner, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    static const mode_t open_modes[] = {0720, 0702};
    for (size_t i = 0; i < 2; i++) {
        chmod(inner, open_modes[i]);
        assert_int_equal(runtime_folder_make(inner, &why), -EPERM);
    }
    chmod(inner, 0755);
    assert_int_equal(runtime_folder_check(inner, &why), 0);
    user++;
    assert_int_equal(runtime_folder_check(inner, &why), -EPERM);
    assert_non_null(strstr(why.text, "inner: not a folder of this user"));
    rmdir(inner);
    assert_int_equal(symlink("/", inner), 0); // not where it leads to
    assert_int_equal(runtime_folder_check(inner, &why), -EPERM);
    unlink(inner);
    rmdir(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_folder_is_of_its_user_or_as_it_was_wished, setup),
        cmocka_unit_test_setup(what_does_not_fit_an_address_is_refused, setup),
        cmocka_unit_test_setup(a_socket_is_named_after_its_process, setup),
        cmocka_unit_test_setup(a_folder_that_others_may_write_to_is_refused, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
