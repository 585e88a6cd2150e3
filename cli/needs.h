// What a program and the libraries it needs ask of libibverbs.so.1 and librdmacm.so.1.
#pragma once

#include <limits.h>
#include <stdbool.h>

struct elf_file;
struct hearer;

struct needs {
    char user[PATH_MAX];     // the first that needs one of the two; empty: nothing does
    bool is_program_itself;  // it is the program, no library of it
    unsigned function_count; // asked for by all, the same one by several counted as several
};

// Compares it with what the libraries in `library_dir` export, and objects to what is not there
// (fatal), or only answers EOPNOTSUPP (not fatal; `is_quiet` leaves it out). 0, EXIT_CANNOT or
// EXIT_BROKEN. `ret_needs` may be NULL.
int needs_check(const struct elf_file *program, const char *path, const char *library_dir,
                bool is_quiet, const struct hearer *hearer, struct needs *ret_needs);
