// Capture files as packets and records, for `weft draw`: read in order, twice if need be. What
// cannot be read twice (a pipe) is kept in an unnamed temporary file first, or, of one that is
// followed, as it comes.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "draw/capture.h"
#include "draw/frame.h"

enum { DRAW_FILE_MAX = 2 }; // captures: one of each end

struct draw_file {
    const char *path;
    int fd;
    uint8_t *buffer;  // for octets of the file
    uint8_t *scratch; // for packets that were not captured whole
    uint16_t roce_port;
    int pipe;        // followed: where what comes is put into the file from; -1: none, or it ended
    uint64_t len;    // octets that are read: followed, what was there when it was last looked at
    bool is_growing; // more is to come: the end cuts nothing

    // Of the reading that is under way, or was the last.
    struct capture capture;
    size_t begin, end;            // octets of the buffer that are to be read
    uint64_t left;                // of `len`, not yet in the buffer
    bool is_at_end;               // of the file
    struct capture_packet packet; // DRAW_FILE_PACKET
    uint64_t unread_count;        // packets that are of no known kind, or wrong
    uint64_t first_unread;
    char why_unread[96];     // of the first
    uint64_t unread_records; // records that are wrong
    uint64_t first_unread_record;
    const char *why_unread_record;
    bool is_cut;     // the file ends inside its last packet or record
    bool is_refused; // it was said why
};

// "-" is standard input. False: it was said why.
bool draw_file_open(struct draw_file *file, const char *path, uint16_t roce_port, bool is_followed);
void draw_file_close(struct draw_file *file);

// Of one that is followed: takes what its pipe has, which may be waited for, where there is one.
// False: it was said why; the pipe is let go.
bool draw_file_take(struct draw_file *file);
// Looks how long it is now: whether that has changed.
bool draw_file_look(struct draw_file *file);

struct draw_eye {
    void (*see)(void *ctx, const struct capture_packet *packet, const struct frame *frame);
    void (*see_record)(void *ctx, unsigned origin, const struct capture_record *record);
    void *ctx;
};

// Gives every packet of the first file that could be parsed, from the first, and the records of all
// `count` files, in the order of time as far as the files have it. `origin` is the number of a
// file, from 0. Packets of the others are what the first has too. False: it was said why, and what
// came before was given.
bool draw_file_read(struct draw_file *files, unsigned count, const struct draw_eye *eye);
