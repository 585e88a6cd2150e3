// URIs that stand for several volumes: [FILTER+]glob:FOLDER/PATTERN[?KEY=VALUE...], one for each
// file or block device of the folder whose name matches the pattern (glob(7)).
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/why.h"
#include "node/interface/uma_rta.h"

enum { PATTERN_PATH_MAX = UNIT_URI_MAX };

bool pattern_is(const char *uri);

// The folder and the pattern of a URI that is one. -EINVAL with the reason: there is a wildcard in
// the folder, or no pattern.
int pattern_parse(const char *uri, char ret_folder[PATTERN_PATH_MAX],
                  char ret_pattern[PATTERN_PATH_MAX], struct why *ret_why);

// The URI of one file that it stands for. False: it would be too long.
bool pattern_uri_of(const char *uri, const char *path, char ret[UNIT_URI_MAX]);
