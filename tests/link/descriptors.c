#include "tests/link/descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static unsigned before;

static unsigned descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir) != NULL) {
        count++;
    }
    closedir(dir);
    return count;
}

unsigned descriptors_inherited(void)
{
    unsigned count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        int flags = fcntl(fd, F_GETFD);
        count += flags >= 0 && (flags & FD_CLOEXEC) == 0;
    }
    return count;
}

void descriptors_note(void)
{
    before = descriptors();
}

unsigned descriptors_more(void)
{
    return descriptors() - before;
}

void descriptors_check(void)
{
    assert_int_equal(descriptors(), before);
}
