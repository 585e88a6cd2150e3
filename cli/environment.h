// The environment in which programs find weft's libraries before the system's, and its settings: as
// `weft run` gives it to one program, and `weft env` to all that a shell starts.
#pragma once

#include <getopt.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/objection.h"
#include "cli/settings.h"

// What stands between a program and paths of /sys and /dev.
enum environment_view { VIEW_BY_WIRE, VIEW_OFF, VIEW_PRELOAD };

enum { ENVIRONMENT_OPTION_MAX = SETTING_COUNT_MAX + 3 };

// The options that commands share: --set, --stats, --view, and one for each setting. The names live
// as long as the process.
void environment_options(struct option ret_options[ENVIRONMENT_OPTION_MAX]);
// Their part of a command's help.
void environment_options_print(FILE *out);
// What getopt_long has found, which may be one of them. 0; or an exit status after saying why, also
// of '?' and ':'. `command` is who says it.
int environment_option_apply(const char *command, int option, char **argv,
                             enum environment_view *ret_view);

// The folder of our libraries. 0, or an exit status after saying why there is none.
int environment_library_dir(char ret_dir[PATH_MAX]);
// The same, told to `hearer`.
int environment_library_find(char ret_dir[PATH_MAX], const struct hearer *hearer);
// Sets the loader's variables, so that what is in `library_dir` comes first. 0, or an exit status
// after saying why.
int environment_set(const char *library_dir, enum environment_view view);
