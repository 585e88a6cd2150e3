// Where the control sockets of a user's nodes lie: "node.<pid>" in a folder that only that user may
// enter:
//
//     $WEFT_RUNTIME_DIR        if set
//     /run/weft                root's
//     $XDG_RUNTIME_DIR/weft    of others, which login sessions have;
//     /run/user/<uid>/weft     the same without the variable
#pragma once

#include <sys/types.h>

#include "base/why.h"

enum { RUNTIME_PATH_MAX = 108 }; // with the terminator: what an address of a Unix socket holds

#define RUNTIME_NODE  "node." // a process id follows
#define RUNTIME_YOUNG "new."  // the same, before it listens

// The folder of this user, there or not. 0; -ENAMETOOLONG.
int runtime_folder(char ret[RUNTIME_PATH_MAX]);

// The socket of a node in the folder: RUNTIME_... and its process id. 0; -ENAMETOOLONG.
int runtime_path(const char *folder, const char *prefix, pid_t pid, char ret[RUNTIME_PATH_MAX]);

// The process id of a node by the name of its socket within the folder; 0: it is none.
pid_t runtime_node_pid(const char *name);
// ... of one that does not listen yet.
pid_t runtime_young_pid(const char *name);

// Makes the folder if need be. 0, or a negative errno with the reason: it cannot be made, or is
// open to others.
int runtime_folder_make(const char *folder, struct why *ret_why);
// What is there, and not made: 0, or -EPERM with the reason.
int runtime_folder_check(const char *folder, struct why *ret_why);
