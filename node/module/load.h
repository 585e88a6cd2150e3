// How the shared object of a module gets into the process: what it must be, before anything of it
// runs, and what it says that it is.
#pragma once

#include <weft/ddm.h>

#include "base/why.h"

// A module of the operator's choice, at `path`. It is refused unless it is a file of root's or of
// the node's user, which not everybody can write; and a process apart loads it first, which may end
// over it. 0, or -EINVAL with the reason. It stays loaded until the process ends.
int module_load(const char *path, struct weft_ddm_driver *ret, struct why *ret_why);

// A module of weft's own, by the name of its file, which the loader looks for where weft's
// libraries are. 0, or -EINVAL: it, or a library that it needs, is not there.
int module_load_own(const char *file, struct weft_ddm_driver *ret, struct why *ret_why);
