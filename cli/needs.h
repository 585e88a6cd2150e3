// What a program and the libraries it needs ask of libibverbs.so.1 and librdmacm.so.1.
#pragma once

#include <stdbool.h>

struct elf_file;

// Compares it with what the libraries in `library_dir` export, and says on stderr what is not there
// (fatal), or only answers EOPNOTSUPP (not fatal; `is_quiet` leaves it out). 0, EXIT_CANNOT or
// EXIT_BROKEN.
int needs_check(const struct elf_file *program, const char *path, const char *library_dir,
                bool is_quiet);
