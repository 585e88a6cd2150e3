// The control socket of a storage node, in the runtime folder, for its own user alone (mode 0600).
#pragma once

#include "base/why.h"
#include "control/runtime.h"

// Listens, without blocking, under this process's name, which nobody sees before. Removes what
// nodes that were killed have left in the folder. The descriptor and where it is, or a negative
// errno with the reason.
int control_socket_listen(int backlog, char ret_path[RUNTIME_PATH_MAX], struct why *ret_why);
