// What volumes are called that somebody else has named: letters, digits, . _ - and no more of them
// than a name may have. The same name each time, whatever else there is.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/interface/volume.h"

bool names_char_is_good(char c);

// Of a file: its own name.
void names_of_path(const char *path, char ret[VOLUME_NAME_MAX]);

// Of a unit of a target: the target's name, `mark` and the number. Of a long one its end, behind
// eight digits that stand for all of it.
void names_of_unit(const char *target, const char *mark, uint32_t number,
                   char ret[VOLUME_NAME_MAX]);
