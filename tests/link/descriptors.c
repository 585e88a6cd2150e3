#include "tests/link/descriptors.h"

#include <dirent.h>
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
