// libweft-view.so, for LD_PRELOAD (`weft run --view=preload`): the calls of libc that take a path,
// each as it is but for the paths of view/paths.h. What takes a descriptor needs nothing: a folder
// that was opened here is one of the tree; nor do paths from a folder that a program has gone to.
//
// Not seen: paths relative to a folder above (openat with "infiniband" in /sys/class), and system
// calls that a program makes by itself.

// Both sets of names, those of 64-bit offsets too, and no inline functions of the same names.
#undef _FILE_OFFSET_BITS
#undef _FORTIFY_SOURCE
#undef __NO_INLINE__
#define __NO_INLINE__ 1

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "view/paths.h"

#define EXPORT __attribute__((visibility("default")))

/* ---- the calls behind ours ------------------------------------------------------------------- */

#define EACH_CALL(X)    \
    X(stat)             \
    X(stat64)           \
    X(lstat)            \
    X(lstat64)          \
    X(fstatat)          \
    X(fstatat64)        \
    X(__xstat)          \
    X(__xstat64)        \
    X(__lxstat)         \
    X(__lxstat64)       \
    X(__fxstatat)       \
    X(__fxstatat64)     \
    X(statx)            \
    X(getxattr)         \
    X(lgetxattr)        \
    X(listxattr)        \
    X(llistxattr)       \
    X(access)           \
    X(faccessat)        \
    X(euidaccess)       \
    X(eaccess)          \
    X(chdir)            \
    X(open)             \
    X(open64)           \
    X(openat)           \
    X(openat64)         \
    X(__open_2)         \
    X(__open64_2)       \
    X(__openat_2)       \
    X(__openat64_2)     \
    X(fopen)            \
    X(fopen64)          \
    X(opendir)          \
    X(scandir)          \
    X(scandir64)        \
    X(readlink)         \
    X(readlinkat)       \
    X(__readlink_chk)   \
    X(__readlinkat_chk) \
    X(realpath)         \
    X(__realpath_chk)   \
    X(canonicalize_file_name)

#define NUMBER_OF(name) CALL_##name,
#define NAME_OF(name)   #name,
enum { EACH_CALL(NUMBER_OF) CALL_COUNT };
static const char *const names[CALL_COUNT] = {EACH_CALL(NAME_OF)};
static void *_Atomic calls[CALL_COUNT];

// For a call that libc lacks: one made of what it has.
static void *stand_in_of(int number);

static void *call_find(int number)
{
    void *call = dlsym(RTLD_NEXT, names[number]);
    call = call != NULL ? call : stand_in_of(number);
    atomic_store_explicit(&calls[number], call, memory_order_relaxed);
    return call;
}

// Before the program runs: some of these may be called in a signal handler, dlsym may not.
// Libraries that are set up before this one find theirs one by one.
__attribute__((constructor)) static void calls_find(void)
{
    for (int number = 0; number < CALL_COUNT; number++) {
        call_find(number);
    }
}

static void *call_of(int number)
{
    void *call = atomic_load_explicit(&calls[number], memory_order_relaxed);
    return call != NULL ? call : call_find(number);
}

// `next` of the same type as the function that it stands in.
#define NEXT(name) __typeof__(name) *next = (__typeof__(name) *)call_of(CALL_##name)

// A call whose arguments are handed on, paths in PATH().
#define HAND_ON(type, name, parameters, ...) \
    EXPORT type name parameters              \
    {                                        \
        char room[PATHS_MAX];                \
        NEXT(name);                          \
        return next(__VA_ARGS__);            \
    }
#define PATH(path) paths_look(path, room)

/* ---- what it is, and may be ------------------------------------------------------------------ */

HAND_ON(int, stat, (const char *path, struct stat *ret), PATH(path), ret)
HAND_ON(int, stat64, (const char *path, struct stat64 *ret), PATH(path), ret)
HAND_ON(int, lstat, (const char *path, struct stat *ret), PATH(path), ret)
HAND_ON(int, lstat64, (const char *path, struct stat64 *ret), PATH(path), ret)
HAND_ON(int, fstatat, (int fd, const char *path, struct stat *ret, int flags), fd, PATH(path), ret,
        flags)
HAND_ON(int, fstatat64, (int fd, const char *path, struct stat64 *ret, int flags), fd, PATH(path),
        ret, flags)
HAND_ON(int, statx, (int fd, const char *path, int flags, unsigned mask, struct statx *ret), fd,
        PATH(path), flags, mask, ret)
HAND_ON(ssize_t, getxattr, (const char *path, const char *name, void *ret, size_t len), PATH(path),
        name, ret, len)
HAND_ON(ssize_t, lgetxattr, (const char *path, const char *name, void *ret, size_t len), PATH(path),
        name, ret, len)
HAND_ON(ssize_t, listxattr, (const char *path, char *ret, size_t len), PATH(path), ret, len)
HAND_ON(ssize_t, llistxattr, (const char *path, char *ret, size_t len), PATH(path), ret, len)
HAND_ON(int, access, (const char *path, int mode), PATH(path), mode)
HAND_ON(int, faccessat, (int fd, const char *path, int mode, int flags), fd, PATH(path), mode,
        flags)
HAND_ON(int, euidaccess, (const char *path, int mode), PATH(path), mode)
HAND_ON(int, eaccess, (const char *path, int mode), PATH(path), mode)
HAND_ON(int, chdir, (const char *path), PATH(path))

// Programs that were linked before glibc 2.33 have their stat by these names, and libc had it by no
// others. `version` has but one value where weft runs.
enum { STAT_VERSION = 1 };

#define BOTH_NAMES(name, old_name, parameters, old_parameters, ...) \
    int old_name old_parameters;                                    \
    EXPORT int old_name old_parameters                              \
    {                                                               \
        return name(__VA_ARGS__);                                   \
    }                                                               \
    static int name##_by_old_name parameters                        \
    {                                                               \
        NEXT(old_name);                                             \
        return next(STAT_VERSION, __VA_ARGS__);                     \
    }
#define OF_PATH(type)         (const char *path, struct type *ret)
#define OF_PATH_BEFORE(type)  (int version, const char *path, struct type *ret)
#define OF_PLACE(type)        (int fd, const char *path, struct type *ret, int flags)
#define OF_PLACE_BEFORE(type) (int version, int fd, const char *path, struct type *ret, int flags)

BOTH_NAMES(stat, __xstat, OF_PATH(stat), OF_PATH_BEFORE(stat), path, ret)
BOTH_NAMES(stat64, __xstat64, OF_PATH(stat64), OF_PATH_BEFORE(stat64), path, ret)
BOTH_NAMES(lstat, __lxstat, OF_PATH(stat), OF_PATH_BEFORE(stat), path, ret)
BOTH_NAMES(lstat64, __lxstat64, OF_PATH(stat64), OF_PATH_BEFORE(stat64), path, ret)
BOTH_NAMES(fstatat, __fxstatat, OF_PLACE(stat), OF_PLACE_BEFORE(stat), fd, path, ret, flags)
BOTH_NAMES(fstatat64, __fxstatat64, OF_PLACE(stat64), OF_PLACE_BEFORE(stat64), fd, path, ret, flags)

static void *stand_in_of(int number)
{
    switch (number) {
    case CALL_stat:
        return (void *)stat_by_old_name;
    case CALL_stat64:
        return (void *)stat64_by_old_name;
    case CALL_lstat:
        return (void *)lstat_by_old_name;
    case CALL_lstat64:
        return (void *)lstat64_by_old_name;
    case CALL_fstatat:
        return (void *)fstatat_by_old_name;
    case CALL_fstatat64:
        return (void *)fstatat64_by_old_name;
    default:
        return NULL;
    }
}

/* ---- opening --------------------------------------------------------------------------------- */

// The mode comes along only if a file may be made.
#define MODE(flags)                                                   \
    mode_t mode = 0;                                                  \
    if (((flags)&O_CREAT) != 0 || ((flags)&O_TMPFILE) == O_TMPFILE) { \
        va_list args;                                                 \
        va_start(args, flags);                                        \
        mode = va_arg(args, mode_t);                                  \
        va_end(args);                                                 \
    }

#define OPEN(name)                                    \
    EXPORT int name(const char *path, int flags, ...) \
    {                                                 \
        char room[PATHS_MAX];                         \
        NEXT(name);                                   \
        MODE(flags)                                   \
        return next(PATH(path), flags, mode);         \
    }

#define OPENAT(name)                                          \
    EXPORT int name(int fd, const char *path, int flags, ...) \
    {                                                         \
        char room[PATHS_MAX];                                 \
        NEXT(name);                                           \
        MODE(flags)                                           \
        return next(fd, PATH(path), flags, mode);             \
    }

OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int fd, const char *path, int flags);
int __openat64_2(int fd, const char *path, int flags);
HAND_ON(int, __open_2, (const char *path, int flags), PATH(path), flags)
HAND_ON(int, __open64_2, (const char *path, int flags), PATH(path), flags)
HAND_ON(int, __openat_2, (int fd, const char *path, int flags), fd, PATH(path), flags)
HAND_ON(int, __openat64_2, (int fd, const char *path, int flags), fd, PATH(path), flags)

HAND_ON(FILE *, fopen, (const char *path, const char *mode), PATH(path), mode)
HAND_ON(FILE *, fopen64, (const char *path, const char *mode), PATH(path), mode)

/* ---- folders --------------------------------------------------------------------------------- */

typedef int filter_fn(const struct dirent *);
typedef int order_fn(const struct dirent **, const struct dirent **);
typedef int filter64_fn(const struct dirent64 *);
typedef int order64_fn(const struct dirent64 **, const struct dirent64 **);

HAND_ON(DIR *, opendir, (const char *path), PATH(path))
HAND_ON(int, scandir, (const char *path, struct dirent ***ret, filter_fn *filter, order_fn *order),
        PATH(path), ret, filter, order)
HAND_ON(int, scandir64,
        (const char *path, struct dirent64 ***ret, filter64_fn *filter, order64_fn *order),
        PATH(path), ret, filter, order)

/* ---- where links lead ------------------------------------------------------------------------ */

ssize_t __readlink_chk(const char *path, char *buf, size_t len, size_t capacity);
ssize_t __readlinkat_chk(int fd, const char *path, char *buf, size_t len, size_t capacity);
char *__realpath_chk(const char *path, char *ret, size_t capacity);

HAND_ON(ssize_t, readlink, (const char *path, char *buf, size_t len), PATH(path), buf, len)
HAND_ON(ssize_t, readlinkat, (int fd, const char *path, char *buf, size_t len), fd, PATH(path), buf,
        len)
HAND_ON(ssize_t, __readlink_chk, (const char *path, char *buf, size_t len, size_t capacity),
        PATH(path), buf, len, capacity)
HAND_ON(ssize_t, __readlinkat_chk,
        (int fd, const char *path, char *buf, size_t len, size_t capacity), fd, PATH(path), buf,
        len, capacity)
HAND_ON(char *, realpath, (const char *path, char *ret), PATH(path), ret)
HAND_ON(char *, __realpath_chk, (const char *path, char *ret, size_t capacity), PATH(path), ret,
        capacity)
HAND_ON(char *, canonicalize_file_name, (const char *path), PATH(path))
