// A text on standard output, said as fast as somebody reads it: a node whose output nobody reads
// serves all the same.
#pragma once

#include <stddef.h>

#include "node/loop/loop.h"

struct announcement {
    int fd; // of standard output's file, but not to be waited for; 0 or -1: none
    struct loop_watch *watch;
    char *text;
    size_t at, len; // what is still to be said: [at, len)
};

// The text becomes the announcement's, to be freed; what is not said at once is said by the loop.
void announcement_begin(struct announcement *a, struct loop *loop, char *text, size_t len);
// What has not been said stays unsaid. Of one that is all zero, too.
void announcement_end(struct announcement *a);
