// Volumes of NBD servers. libnbd brings an XML parser and cryptography, which no other command
// needs: so who speaks by it is a module of weft's own, loaded with the first address of NBD.

#include "cli/volume_nbd.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "base/why.h"
#include "cli/environment.h"
#include "cli/volume.h"

enum { PLACE_MAX = PATH_MAX + sizeof "/weft-nbd.so" };

static const struct volume_protocol *library_load(struct why *ret_why)
{
    static const struct volume_protocol *loaded;
    char folder[PATH_MAX], place[PLACE_MAX];
    if (loaded != NULL) {
        return loaded;
    }
    if (environment_library_dir(folder) != 0) {
        why_say(ret_why, "weft's libraries are not there");
        return NULL;
    }
    snprintf(place, sizeof place, "%s/weft-nbd.so", folder);
    void *library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    loaded = library != NULL ? dlsym(library, "volume_libnbd") : NULL;
    if (loaded == NULL) {
        why_say(ret_why, "weft's part for NBD is not there: %s", dlerror());
    }
    return loaded;
}

// From here on it is the library's.
static int nbd_open(struct volume *volume, const char *uri, unsigned depth, struct why *ret_why)
{
    const struct volume_protocol *library = library_load(ret_why);
    if (library == NULL) {
        return -ELIBACC;
    }
    volume->protocol = library;
    return library->open(volume, uri, depth, ret_why);
}

static void nbd_close(struct volume *volume)
{
}

static int nbd_list(const char *uri, volume_seen *seen, void *context)
{
    struct why why;
    const struct volume_protocol *library = library_load(&why);
    return library != NULL
               ? library->list(uri, seen, context)
               : volume_say_failed("cannot list", uri, volume_nbd_remedy(-ELIBACC), why.text);
}

const struct volume_protocol volume_nbd = {
    .schemes = volume_nbd_schemes,
    .check = volume_nbd_check,
    .open = nbd_open,
    .close = nbd_close,
    .remedy = volume_nbd_remedy,
    .list = nbd_list,
};
