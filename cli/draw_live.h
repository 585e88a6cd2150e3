// When a picture is to be drawn again, for `weft draw --live`: captures grow, are closed by who
// writes them, or somebody has seen enough. Captures are looked at, never locked.
#pragma once

#include <stdbool.h>

#include "base/time.h"
#include "cli/draw_file.h"

struct draw_live {
    int signals; // SIGINT and SIGTERM
    int notices; // inotify's
    int watch[DRAW_FILE_MAX];
    unsigned open_count; // captures that somebody may still write
    instant_ns drawn_at; // when the last picture was finished
    duration_ns pause;   // from then to the next
};

enum draw_live_news {
    DRAW_LIVE_GREW,
    DRAW_LIVE_OVER,    // nobody writes the captures any more
    DRAW_LIVE_STOPPED, // by a signal, which goes on with the next
    DRAW_LIVE_FAILED,  // it was said why
};

// False: it was said why.
bool draw_live_open(struct draw_live *live);
void draw_live_close(struct draw_live *live);

// Waits until there is a file of this name. False: a signal came before.
bool draw_live_await(struct draw_live *live, const char *path);
// From here on the file is one of those that are waited for. `is_new`: it was awaited, so that who
// wrote it may have closed it already.
void draw_live_follow(struct draw_live *live, const struct draw_file *file, unsigned number,
                      bool is_new);
// Waits for news of `count` files. Of what grows all the time there is news once in a second, and
// so seldom that drawing takes a fifth of the time at most.
enum draw_live_news draw_live_wait(struct draw_live *live, struct draw_file *files, unsigned count);
// A picture was begun at `began`, and is finished.
void draw_live_on_drawn(struct draw_live *live, instant_ns began);
