#include "cli/doctor/kernel_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX_LEN = 64, DECIMAL = 10 };

bool kernel_file_line(const char *path, char *ret, size_t capacity)
{
    FILE *in = fopen(path, "re");
    bool is_read = in != NULL && fgets(ret, (int)capacity, in) != NULL;
    if (in != NULL) {
        fclose(in);
    }
    if (is_read) {
        ret[strcspn(ret, "\n")] = '\0';
    }
    return is_read;
}

bool kernel_file_number(const char *path, int64_t *ret)
{
    char line[NUMBER_MAX_LEN], *end;
    if (!kernel_file_line(path, line, sizeof line)) {
        return false;
    }
    errno = 0;
    const long long number = strtoll(line, &end, DECIMAL);
    if (end == line || errno != 0) {
        return false;
    }
    *ret = number;
    return true;
}
