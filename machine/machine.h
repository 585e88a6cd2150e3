// What this machine is known by to others, the same from one start to the next: whatever is derived
// from it, a GUID, a name or a number, is one machine's own. The only place that asks.
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MACHINE_NAME_MAX = 256 };

// An image that has not been started yet has a word there, the same on all machines made of it.
static inline bool machine_id_read(char ret[MACHINE_NAME_MAX])
{
    FILE *in = fopen("/etc/machine-id", "re");
    bool is_there = in != NULL && fgets(ret, MACHINE_NAME_MAX, in) != NULL;
    if (in != NULL) {
        fclose(in);
    }
    if (is_there) {
        ret[strcspn(ret, "\n")] = '\0';
    }
    return is_there && ret[0] != '\0' && strcmp(ret, "uninitialized") != 0;
}

// Its id, machine-id(5), or where it has none, or none yet, its host name.
static inline void machine_name(char ret[MACHINE_NAME_MAX])
{
    if (machine_id_read(ret)) {
        return;
    }
    ret[0] = ret[MACHINE_NAME_MAX - 1] = '\0';
    if (gethostname(ret, MACHINE_NAME_MAX - 1) != 0 || ret[0] == '\0') {
        snprintf(ret, MACHINE_NAME_MAX, "localhost");
    }
}
