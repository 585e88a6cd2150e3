// The control socket of a running node: a Unix socket of mode 0600 in the runtime folder
// (control/runtime.h), which answers its own user and root. A request is one line, the answer is
// JSON until the end of the stream:
//
//     status             what status.h says
//     rescan             the operator's reset event; with a configuration file, what it says now
//     add [NAME=]URI     one more volume, if the node was started so that it takes them
//     remove NAME        one less
#pragma once

struct host;
struct host_control;

// NULL without memory. A node that can have no socket, since others could enter the folder or the
// name is taken, says so and serves without.
struct host_control *control_create(struct host *host);
void control_destroy(struct host_control *control);

// What became of a volume, for those who wait for a rescan: a source has answered meanwhile. The
// control may be NULL.
void control_note(struct host_control *control, const char *volume, const char *what);
