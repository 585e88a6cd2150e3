#include "view/paths.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "view/place.h"
#include "view/wires.h"

static const struct {
    const char *seen; // and what lies within
    const char *within;
    bool has_devices; // each is a character device, not a link to one
} rows[] = {
    {"/sys/class/infiniband", "class/infiniband", false},
    {"/sys/class/infiniband_verbs", "class/infiniband_verbs", false},
    {"/sys/devices/virtual/weft", "devices/virtual/weft", false},
    {"/dev/infiniband", "dev/infiniband", true},
};

// What of `path` lies within `folder`, "" if it is the folder itself; NULL: it is another path.
static const char *rest_of(const char *path, const char *folder)
{
    const size_t len = strlen(folder);
    return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/') ? path + len
                                                                                      : NULL;
}

static bool is_link(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

const char *paths_look(const char *path, char room[PATHS_MAX])
{
    if (path == NULL || path[0] != '/') {
        return path;
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *rest = rest_of(path, rows[i].seen);
        if (rest == NULL || !place_make(view_wires())) {
            continue;
        }
        const int len = snprintf(room, PATHS_MAX, "%s/%s%s", place_root(), rows[i].within, rest);
        if (len >= PATHS_MAX) {
            return path;
        }
        return rows[i].has_devices && is_link(room) ? "/dev/null" : room;
    }
    return path;
}
