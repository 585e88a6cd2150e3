// A machine's id and host name, as a test says. For programs linked with `--wrap` of fopen64 and
// gethostname.
#pragma once

#include <stdio.h>
#include <string.h>
#include <unistd.h>

// NULL: it is what the system says.
static struct {
    const char *id; // what the file of the machine's id holds
    const char *host;
} machine;

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode)
{
    return machine.id != NULL && strcmp(path, "/etc/machine-id") == 0
               ? fmemopen((char *)machine.id, strlen(machine.id), "r")
               : __real_fopen64(path, mode);
}

int __real_gethostname(char *name, size_t len);
int __wrap_gethostname(char *name, size_t len);
int __wrap_gethostname(char *name, size_t len)
{
    return machine.host == NULL                          ? __real_gethostname(name, len)
           : snprintf(name, len, "%s", machine.host) < 0 ? -1
                                                         : 0;
}
