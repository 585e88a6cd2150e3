// The control socket of a running node: an abstract Unix socket named "weft-node.<uid>.<pid>",
// which answers its own user and root. A request is one line, the answer is JSON until the end of
// the stream:
//
//     status             what status.h says
//     rescan             the operator's reset event; with a configuration file, what it says now
//     add [NAME=]URI     one more volume
//     remove NAME        one less
#pragma once

struct host;
struct host_control;

// NULL: not to be seen, which is no error of the node.
struct host_control *control_create(struct host *host);
void control_destroy(struct host_control *control);
