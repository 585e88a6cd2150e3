// Functions that weft exports so that programs load, and that answer EOPNOTSUPP whatever they are
// asked for.
#pragma once

#include <stdbool.h>

bool is_unsupported(const char *function);
