#include "node/host/privileges.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { FILTERS_OF_ALL = 1, FILTERS_OF_DEVICE = 2, LINE_MAX = 256 };

static bool lines_read(const char *path, struct privileges *ret)
{
    char line[LINE_MAX];
    FILE *in = fopen(path, "re");
    if (in == NULL) {
        return false;
    }
    while (fgets(line, sizeof line, in) != NULL) {
        unsigned number;
        if (sscanf(line, "NoNewPrivs: %u", &number) == 1) {
            ret->has_no_new_privs = number != 0;
        }
        sscanf(line, "CapPrm: %" SCNx64, &ret->capabilities);
        sscanf(line, "Seccomp_filters: %u", &ret->filters);
    }
    fclose(in);
    return true;
}

struct privileges privileges_of(pid_t pid)
{
    char path[64];
    struct privileges node = {.filters = 0}, found = {.filters = 0};
    snprintf(path, sizeof path, "/proc/%ld/status", (long)pid);
    if (!lines_read("/proc/self/status", &node) || !lines_read(path, &found)) {
        return (struct privileges){.filters = 0};
    }
    found.filters -= node.filters < found.filters ? node.filters : found.filters;
    return found;
}

const char *privileges_word(const struct privileges *p)
{
    if (!p->has_no_new_privs || p->filters < FILTERS_OF_ALL) {
        return "none";
    }
    return p->filters < FILTERS_OF_DEVICE ? "common" : "device";
}
