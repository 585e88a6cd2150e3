// The first line of a script: who the kernel starts for it.
#pragma once

#include <limits.h>
#include <stdbool.h>

enum { SCRIPT_WORD_MAX = 256 }; // as much of a first line as the kernel reads

struct script {
    char interpreter[SCRIPT_WORD_MAX]; // as it stands there: "/usr/bin/env"
    char argument[SCRIPT_WORD_MAX];    // all that follows: "python3", "-S python3 -u"; or empty
};

// False: it does not begin with "#!", or cannot be read.
bool script_read(const char *path, struct script *ret);

// Whether a line that is no comment has this word, as a command or anywhere else.
bool script_has_word(const char *path, const char *word);

// Of "/usr/bin/env python3" the name that env looks for, into `ret`; false: it is not env's.
bool script_of_env(const struct script *script, char ret[SCRIPT_WORD_MAX]);
