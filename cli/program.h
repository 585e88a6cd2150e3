// Finding the program that `weft run` is to turn into, and asking before whether it can run on
// weft: afterwards the loader would say less, or nothing, and use other libraries.
#pragma once

#include <limits.h>
#include <stdbool.h>

struct elf_file;
struct hearer;

// Looks `name` up as execvp does. 0 and the path, or EXIT_MISSING or EXIT_CANNOT after an
// objection.
int program_find(const char *name, char ret_path[PATH_MAX], const struct hearer *hearer);

// Whether it begins as ELF files do, whole or not.
bool program_is_elf(const char *path);

// Whether the loader will put the libraries in `library_dir` before others for this program, and
// whether they have what it needs. Scripts, and files of kinds that only the kernel knows, are not
// looked into. `is_quiet`: refusals only. 0, EXIT_CANNOT or EXIT_BROKEN after saying why.
int program_check(const char *path, const char *library_dir, bool is_quiet);

// Its parts, but for cli/needs.h: whether the loader listens to its environment, whether it is of
// this machine, whether there is a loader at all. 0, or EXIT_CANNOT after an objection.
int program_rights_check(const char *path, const struct hearer *hearer);
int program_machine_check(const struct elf_file *program, const char *path,
                          const struct hearer *hearer);
int program_linking_check(const struct elf_file *program, const char *path,
                          const struct hearer *hearer);
