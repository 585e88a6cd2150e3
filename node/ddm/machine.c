#include "node/ddm/machine.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// An image that has not been started yet has a word there, the same on all machines made of it.
static const char no_id_yet[] = "uninitialized";

static bool id_read(char ret[MACHINE_NAME_MAX])
{
    FILE *in = fopen("/etc/machine-id", "re");
    bool is_there = in != NULL && fgets(ret, MACHINE_NAME_MAX, in) != NULL;
    if (in != NULL) {
        fclose(in);
    }
    if (is_there) {
        ret[strcspn(ret, "\n")] = '\0';
    }
    return is_there && ret[0] != '\0' && strcmp(ret, no_id_yet) != 0;
}

void machine_name(char ret[MACHINE_NAME_MAX])
{
    if (id_read(ret)) {
        return;
    }
    ret[0] = ret[MACHINE_NAME_MAX - 1] = '\0';
    if (gethostname(ret, MACHINE_NAME_MAX - 1) != 0 || ret[0] == '\0') {
        snprintf(ret, MACHINE_NAME_MAX, "localhost");
    }
}
