// The captures that a process writes, as /proc shows its open files.
#pragma once

#include <limits.h>
#include <stdbool.h>

// The longest of them. `pid`: digits. False: it writes none, or may not be looked at.
bool draw_process_capture(const char *pid, char ret_path[PATH_MAX]);
