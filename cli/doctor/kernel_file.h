// Small files of /proc and /sys.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The first line, without its end; false: it is not there, or cannot be read.
bool kernel_file_line(const char *path, char *ret, size_t capacity);
// The number that it begins with, in decimal.
bool kernel_file_number(const char *path, int64_t *ret);
