#include "cli/needs.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/elf_file.h"
#include "cli/objection.h"
#include "cli/say.h"
#include "cli/unsupported.h"

static const char cannot[] = "cannot run program on weft";
static const char *const front_names[] = {"libibverbs.so.1", "librdmacm.so.1"};
enum {
    FRONT_COUNT = sizeof front_names / sizeof front_names[0],
    OBJECT_MAX = 512,     // libraries looked into, the program among them
    NAMES_MAX_LEN = 1024, // of a list of functions
};

// A program or library of the closure, by path; `origin_len` is the length of its folder's name.
struct object {
    char path[PATH_MAX];
    char runpath[PATH_MAX];
    bool is_rpath; // DT_RPATH: searched before LD_LIBRARY_PATH
    bool uses_fronts;
};

struct closure {
    struct object *objects; // [0] is the program; the rest found by needing, each once
    size_t object_count, checked_count;
    struct elf_file fronts[FRONT_COUNT];
    Dl_serinfo *search;          // LD_LIBRARY_PATH and the system's folders
    char missing[NAMES_MAX_LEN]; // of the object being checked
    char unsupported[NAMES_MAX_LEN];
    int result;
    const char *library_dir;
    const struct hearer *hearer;
    struct needs needs;
};

/* ---- symbols --------------------------------------------------------------------------------- */

struct wanted {
    const struct elf_symbol *symbol;
    bool is_found;
};

static void compare(void *ctx, const struct elf_symbol *defined)
{
    struct wanted *wanted = ctx;
    if (strcmp(wanted->symbol->name, defined->name) == 0 &&
        strcmp(wanted->symbol->version, defined->version) == 0) {
        wanted->is_found = true;
    }
}

static void name_add(char names[NAMES_MAX_LEN], const char *name, const char *at, const char *tail)
{
    size_t len = strlen(names);
    snprintf(names + len, NAMES_MAX_LEN - len, "%s%s%s%s", len > 0 ? ", " : "", name, at, tail);
}

static void need_check(void *ctx, const struct elf_symbol *symbol)
{
    struct closure *c = ctx;
    for (unsigned i = 0; i < FRONT_COUNT; i++) {
        if (strcmp(symbol->library, front_names[i]) != 0) {
            continue;
        }
        struct wanted wanted = {.symbol = symbol};
        c->needs.function_count++;
        elf_file_each_symbol(&c->fronts[i], true, compare, &wanted);
        if (!wanted.is_found && !symbol->is_weak) {
            name_add(c->missing, symbol->name, "@", symbol->version);
        }
        // Of the libraries, the drivers of other devices need much that nothing will call.
        if (c->checked_count == 0 && is_unsupported(symbol->name)) {
            name_add(c->unsupported, symbol->name, "", "");
        }
    }
}

static void symbols_check(struct closure *c, const struct elf_file *file)
{
    c->missing[0] = '\0';
    elf_file_each_symbol(file, false, need_check, c);
    if (c->missing[0] != '\0') {
        c->result = object_to(c->hearer, EXIT_CANNOT, cannot, c->objects[c->checked_count].path,
                              "use a build against rdma-core 39 to 65, whose functions weft has",
                              "it needs %s, and weft's libraries do not have that", c->missing);
    }
}

/* ---- libraries ------------------------------------------------------------------------------- */

static bool is_listed(const struct closure *c, const char *path)
{
    for (size_t i = 0; i < c->object_count; i++) {
        if (strcmp(c->objects[i].path, path) == 0) {
            return true;
        }
    }
    return false;
}

// Adds a file to the closure if it is there.
static bool path_add(struct closure *c, const char *path)
{
    if (access(path, R_OK) != 0) {
        return false;
    }
    if (!is_listed(c, path) && c->object_count < OBJECT_MAX) {
        struct object *object = &c->objects[c->object_count++];
        *object = (struct object){0};
        snprintf(object->path, sizeof object->path, "%s", path);
    }
    return true;
}

// The same for FOLDER/NAME; the folder of `origin`, a path, stands for $ORIGIN in FOLDER.
static bool object_add(struct closure *c, const char *folder, int folder_len, const char *origin,
                       const char *name)
{
    char path[PATH_MAX];
    static const char mark[] = "$ORIGIN";
    bool is_relative = strncmp(folder, mark, sizeof mark - 1) == 0;
    int skip = is_relative ? (int)sizeof mark - 1 : 0;
    int len = snprintf(path, sizeof path, "%.*s%.*s/%s",
                       is_relative ? (int)(strrchr(origin, '/') - origin) : 0, origin,
                       folder_len - skip, folder + skip, name);
    return len < PATH_MAX && path_add(c, path);
}

// Looks for a library as the loader does, near enough: what is not found is not looked into.
static void library_find(struct closure *c, const char *name)
{
    const struct object needing = c->objects[c->checked_count];
    if (strchr(name, '/') != NULL) {
        path_add(c, name);
        return;
    }
    for (const char *at = needing.runpath; *at != '\0';) {
        const char *end = strchrnul(at, ':');
        if (object_add(c, at, (int)(end - at), needing.path, name)) {
            return;
        }
        at = *end == ':' ? end + 1 : end;
    }
    for (unsigned i = 0; i < c->search->dls_cnt; i++) {
        const char *folder = c->search->dls_serpath[i].dls_name;
        if (object_add(c, folder, (int)strlen(folder), "/", name)) {
            return;
        }
    }
}

static bool is_front(const char *name)
{
    return strcmp(name, front_names[0]) == 0 || strcmp(name, front_names[1]) == 0;
}

static void search_path_note(void *ctx, const struct elf_dynamic_entry *entry)
{
    struct closure *c = ctx;
    struct object *object = &c->objects[c->checked_count];
    if (entry->tag == DT_RUNPATH || (entry->tag == DT_RPATH && object->runpath[0] == '\0')) {
        snprintf(object->runpath, sizeof object->runpath, "%s", entry->text);
        object->is_rpath = entry->tag == DT_RPATH;
    }
    if (entry->tag == DT_NEEDED && is_front(entry->text)) {
        object->uses_fronts = true;
    }
}

static void library_note(void *ctx, const struct elf_dynamic_entry *entry)
{
    if (entry->tag == DT_NEEDED && !is_front(entry->text)) {
        library_find(ctx, entry->text);
    }
}

// DT_RPATH, an old way to name folders, comes before LD_LIBRARY_PATH: with libraries of that name
// there, weft's would not be used.
static void rpath_check(struct closure *c)
{
    const struct object needing = c->objects[c->checked_count];
    size_t count = c->object_count;
    if (!needing.is_rpath || !needing.uses_fronts) {
        return;
    }
    for (unsigned i = 0; i < FRONT_COUNT; i++) {
        for (const char *at = needing.runpath; *at != '\0';) {
            const char *end = strchrnul(at, ':');
            if (object_add(c, at, (int)(end - at), needing.path, front_names[i])) {
                c->result = object_to(c->hearer, EXIT_CANNOT, cannot, needing.path,
                                      "remove the old search path: patchelf --remove-rpath FILE",
                                      "its DT_RPATH %s has a %s, and the loader looks there first",
                                      needing.runpath, front_names[i]);
            }
            at = *end == ':' ? end + 1 : end;
        }
    }
    c->object_count = count;
}

static void user_note(struct closure *c)
{
    struct needs *needs = &c->needs;
    if (needs->user[0] == '\0') {
        snprintf(needs->user, sizeof needs->user, "%s", c->objects[c->checked_count].path);
        needs->is_program_itself = c->checked_count == 0;
    }
}

static void object_check(struct closure *c, const struct elf_file *file)
{
    elf_file_each_dynamic(file, search_path_note, c);
    if (c->objects[c->checked_count].uses_fronts) {
        user_note(c);
        rpath_check(c);
        symbols_check(c, file);
    }
    elf_file_each_dynamic(file, library_note, c);
}

/* ---- the whole ------------------------------------------------------------------------------- */

static Dl_serinfo *search_path(void)
{
    Dl_serinfo size;
    void *self = dlopen(NULL, RTLD_LAZY);
    Dl_serinfo *search = NULL;
    if (self != NULL && dlinfo(self, RTLD_DI_SERINFOSIZE, &size) == 0) {
        search = calloc(1, size.dls_size);
        if (search != NULL) {
            search->dls_size = size.dls_size;
            search->dls_cnt = size.dls_cnt;
            if (dlinfo(self, RTLD_DI_SERINFO, search) != 0) {
                search->dls_cnt = 0;
            }
        }
    }
    return search;
}

// 0, or EXIT_BROKEN after saying which library is not there.
static int fronts_open(struct closure *c)
{
    for (unsigned i = 0; i < FRONT_COUNT; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", c->library_dir, front_names[i]);
        if (elf_file_open(path, &c->fronts[i]) != ELF_IS_READ) {
            while (i-- > 0) {
                elf_file_close(&c->fronts[i]);
            }
            return object_to(c->hearer, EXIT_BROKEN, "weft is not whole", path,
                             "build it (make), or install it again",
                             "the library is not there, or is none");
        }
    }
    return 0;
}

static void closure_check(struct closure *c, const struct elf_file *program)
{
    object_check(c, program);
    for (c->checked_count = 1; c->checked_count < c->object_count; c->checked_count++) {
        struct elf_file file;
        if (elf_file_open(c->objects[c->checked_count].path, &file) == ELF_IS_READ) {
            object_check(c, &file);
            elf_file_close(&file);
        }
    }
}

// What is unsupported is worth knowing where nothing worse was found.
static void unsupported_tell(struct closure *c, const char *path)
{
    if (c->result == 0 && c->unsupported[0] != '\0') {
        object_to(c->hearer, 0, "unsupported functions", basename(path), "",
                  "may call functions that only answer EOPNOTSUPP here: %s", c->unsupported);
    }
}

int needs_check(const struct elf_file *program, const char *path, const char *library_dir,
                bool is_quiet, const struct hearer *hearer, struct needs *ret_needs)
{
    struct closure c = {.library_dir = library_dir, .object_count = 1, .hearer = hearer};
    int result = fronts_open(&c);
    if (result != 0) {
        return result;
    }
    c.objects = calloc(OBJECT_MAX, sizeof *c.objects);
    c.search = search_path();
    if (c.objects == NULL || c.search == NULL) {
        result = object_to(hearer, EXIT_BROKEN, "cannot look into program", path,
                           "free some memory", "no memory");
    } else {
        snprintf(c.objects[0].path, sizeof c.objects[0].path, "%s", path);
        closure_check(&c, program);
        result = c.result;
        if (!is_quiet) {
            unsupported_tell(&c, path);
        }
        if (ret_needs != NULL) {
            *ret_needs = c.needs;
        }
    }
    for (unsigned i = 0; i < FRONT_COUNT; i++) {
        elf_file_close(&c.fronts[i]);
    }
    free(c.objects);
    free(c.search);
    return result;
}
