// A picture: a story, and the words around it.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "draw/story.h"

enum { PICTURE_NOTE_MAX = 6, PICTURE_TEXT_MAX = 512 };

struct picture {
    const struct story *story;
    char title[PICTURE_TEXT_MAX];    // the first line
    char subtitle[PICTURE_TEXT_MAX]; // what is below it, of any length
    struct {
        char role[48];    // "initiator"
        char address[96]; // where it is
    } side[2];
    unsigned connection_count;
    uint32_t connection_number[STORY_CONNECTION_MAX]; // as --list has them
    char note[PICTURE_NOTE_MAX][PICTURE_TEXT_MAX];    // below: what was left out, and the like
    unsigned note_count;
    bool folds;   // runs of segments of a message
    bool is_live; // it will be drawn again: a page comes anew by itself
};
