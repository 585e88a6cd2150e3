// Finding the program that `weft run` is to turn into, and asking before whether it can run on
// weft: afterwards the loader would say less, or nothing, and use other libraries.
#pragma once

#include <limits.h>
#include <stdbool.h>

// Looks `name` up as execvp does. 0 and the path, or EXIT_MISSING or EXIT_CANNOT after saying why.
int program_find(const char *name, char ret_path[PATH_MAX]);

// Whether it begins as ELF files do, whole or not.
bool program_is_elf(const char *path);

// Whether the loader will put the libraries in `library_dir` before others for this program, and
// whether they have what it needs. Scripts, and files of kinds that only the kernel knows, are not
// looked into. `is_quiet`: refusals only. 0, EXIT_CANNOT or EXIT_BROKEN after saying why.
int program_check(const char *path, const char *library_dir, bool is_quiet);
