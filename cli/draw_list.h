// The connections of a capture, listed.
#pragma once

#include <stdbool.h>

#include "cli/draw_file.h"
#include "draw/registry.h"

// A table for people, or a JSON object. False: no memory.
bool draw_list_print(const struct registry *r, const struct draw_file *file, bool is_json);
