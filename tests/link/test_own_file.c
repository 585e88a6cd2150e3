// Files that a process writes for its user: for whose eyes they are, and over what nothing is
// written.

#include <errno.h>
#include <fcntl.h>
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

#include "link/own_file.h"

static char folder[64], name[96], other[96];

static int begin(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/weft-own-file.XXXXXX");
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(name, sizeof name, "%s/name", folder);
    snprintf(other, sizeof other, "%s/other", folder);
    return 0;
}

static int end(void **state)
{
    unlink(name);
    unlink(other);
    rmdir(name);
    return rmdir(folder);
}

static bool begins_with_weft(struct span head)
{
    return head.len >= 4 && memcmp(head.ptr, "weft", 4) == 0;
}

static int own_open(const char *path)
{
    return own_file_open(path, 0, begins_with_weft);
}

static void make(const char *path, const char *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void expect_holds(const char *path, const char *text)
{
    char octets[16] = "";
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(read(fd, octets, sizeof octets - 1) >= 0);
    assert_string_equal(octets, text);
    close(fd);
}

static void expect_taken(const char *path)
{
    const int fd = own_open(path);
    assert_true(fd >= 0);
    close(fd);
}

/* ---- whose it is ----------------------------------------------------------------------------- */

static void own_files_are_for_their_user_alone(void **state)
{
    struct stat at;
    const int fd = own_file_open(name, O_EXCL, begins_with_weft);
    assert_int_equal(fstat(fd, &at), 0);
    assert_int_equal(at.st_mode & 0777, 0600);
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_WRONLY);
    close(fd);
    assert_int_equal(own_file_open(name, O_EXCL, begins_with_weft), -EEXIST);
    expect_taken(name); // it is there, ours, and empty
}

static void file_with_a_second_name_is_refused(void **state)
{
    expect_taken(name);
    assert_int_equal(link(name, other), 0);
    assert_int_equal(own_open(name), -EPERM);
}

static void own_link_is_followed_and_that_of_somebody_else_is_not(void **state)
{
    assert_int_equal(symlink("other", name), 0);
    expect_taken(name);
    if (geteuid() != 0) {
        return; // only root makes links of others
    }
    assert_int_equal(lchown(name, 12345, 12345), 0);
    assert_int_equal(own_open(name), -ELOOP);
}

static void file_of_somebody_else_is_refused_and_a_device_is_not(void **state)
{
    expect_taken("/dev/null");
    if (geteuid() != 0) {
        return;
    }
    make(name, "weft");
    assert_int_equal(chown(name, 12345, 12345), 0);
    assert_int_equal(own_open(name), -EPERM);
}

/* ---- what is in it --------------------------------------------------------------------------- */

static void file_that_weft_has_written_is_taken_again(void **state)
{
    make(name, "weft's words");
    expect_taken(name);
}

static void file_of_other_words_is_refused_and_kept(void **state)
{
    make(name, "a letter");
    assert_int_equal(own_open(name), -EEXIST);
    expect_holds(name, "a letter");
}

static void file_that_is_too_short_to_tell_is_refused(void **state)
{
    make(name, "wef");
    assert_int_equal(own_open(name), -EEXIST);
    expect_holds(name, "wef");
}

static void file_of_other_words_is_refused_behind_a_link_too(void **state)
{
    make(other, "a letter");
    assert_int_equal(symlink("other", name), 0);
    assert_int_equal(own_open(name), -EEXIST);
    expect_holds(other, "a letter");
}

static void folder_is_refused(void **state)
{
    assert_int_equal(mkdir(name, 0700), 0);
    assert_int_equal(own_open(name), -EEXIST);
}

static void pipe_is_taken_as_it_is(void **state)
{
    assert_int_equal(mkfifo(name, 0600), 0);
    const int reader = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    expect_taken(name);
    close(reader);
}

static void refusals_say_what_to_do(void **state)
{
    assert_string_equal(own_file_error(-EEXIST), "what is there was not written by weft: move it "
                                                 "away, or name another file");
    assert_string_equal(own_file_error(-EPERM),
                        "it is another user's, or has a second name: name another file");
    assert_string_equal(own_file_error(-ELOOP), "it is another user's link: name another file");
    assert_string_equal(own_file_error(-ENOENT), "No such file or directory");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(own_files_are_for_their_user_alone),
        TEST(file_with_a_second_name_is_refused),
        TEST(own_link_is_followed_and_that_of_somebody_else_is_not),
        TEST(file_of_somebody_else_is_refused_and_a_device_is_not),
        TEST(file_that_weft_has_written_is_taken_again),
        TEST(file_of_other_words_is_refused_and_kept),
        TEST(file_that_is_too_short_to_tell_is_refused),
        TEST(file_of_other_words_is_refused_behind_a_link_too),
        TEST(folder_is_refused),
        TEST(pipe_is_taken_as_it_is),
        TEST(refusals_say_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
