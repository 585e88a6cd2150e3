// What the loader will ask of an ELF file, read with libelf: machine, interpreter, needed
// libraries, search paths, versioned symbols. Files are believed in nothing: a table that is not
// there or not whole is as if it were empty.
#pragma once

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>

enum { ELF_INTERPRETER_MAX = 128 };

struct elf_file {
    int fd;
    Elf *elf;
    int class; // ELFCLASS64 ...
    int machine;
    bool has_interpreter;                  // false: the loader never sees it, it is static
    char interpreter[ELF_INTERPRETER_MAX]; // the loader's path
};

enum elf_answer {
    ELF_IS_READ,
    ELF_IS_OTHER, // no ELF file
    ELF_IS_UNREADABLE,
};

// On ELF_IS_READ the caller closes it.
enum elf_answer elf_file_open(const char *path, struct elf_file *ret);
void elf_file_close(struct elf_file *file);

// Strings handed to these live until elf_file_close.
struct elf_dynamic_entry {
    long tag; // DT_NEEDED, DT_RUNPATH, DT_RPATH
    const char *text;
};
void elf_file_each_dynamic(const struct elf_file *file,
                           void (*visit)(void *ctx, const struct elf_dynamic_entry *entry),
                           void *ctx);

struct elf_symbol {
    const char *name, *version;
    const char *library; // whose version it is; NULL for symbols that the file defines
    bool is_weak;
};
// Dynamic symbols with a version: those the file defines, or those it needs.
void elf_file_each_symbol(const struct elf_file *file, bool is_defined,
                          void (*visit)(void *ctx, const struct elf_symbol *symbol), void *ctx);

// Whether it has a section of this name.
bool elf_file_has_section(const struct elf_file *file, const char *name);

// Whether these octets stand anywhere in the file.
bool elf_file_contains(const struct elf_file *file, const void *octets, size_t len);
