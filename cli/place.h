// What `weft cp` copies from and to: a file, a volume, or a stream ("-": standard input or output).
// They take reads, writes and zeroes of pieces; a volume's end later, the others' at once. A stream
// is read and written in order, and where its end is shows when it has been read.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/volume.h"

#define PLACE_LEN_UNKNOWN UINT64_MAX

struct place {
    const char *name; // as the user wrote it
    bool is_volume;
    struct volume volume;
    int fd;
    bool is_regular; // a file that may have holes
    bool is_stream;
    uint64_t len;       // PLACE_LEN_UNKNOWN: a stream whose end has not been read
    uint32_t block_len; // of a volume; 1
    uint32_t piece_max; // octets of a piece
};

// One piece on its way. The fields above `on_end` are the caller's.
struct piece {
    uint8_t *data;
    uint64_t offset;
    uint32_t len;
    // `answer`: what a target said of it; empty: nothing.
    void (*on_end)(struct piece *piece, int error, const char *answer);
    void *context;
    struct volume_io io;
};

// "-": standard input or output.
bool place_is_stream(const char *name);

// Opens what is to be read. 0 or an exit status, after saying what is wrong.
int place_open_source(const char *name, unsigned depth, struct place *ret);
// Opens what is to be written: a file is made, and emptied if it was there. Too small a volume is
// refused. `len` octets will come, or PLACE_LEN_UNKNOWN.
int place_open_destination(const char *name, unsigned depth, uint64_t len, struct place *ret);
void place_close(struct place *place);

// on_end may come before these return. What lies behind the end of a file or a stream reads as
// zeroes; a volume's last block is written whole, with zeroes behind a file's end.
void place_read(struct place *place, struct piece *piece);
void place_write(struct place *place, struct piece *piece);
// Is it known, without reading, that the range is zeroes? A volume's target may be asked.
bool place_is_zero(struct place *place, uint64_t offset, uint32_t len);
// The range reads as zeroes afterwards, without taking room where that is possible.
void place_zero(struct place *place, struct piece *piece);

// Everything written is stable. 0 or a negative errno.
int place_flush(struct place *place);
// Waits for a piece to end. 0, or a negative errno: the connection is lost.
int place_wait(struct place *place);
// The same, but no longer than this.
int place_wait_for(struct place *place, int timeout_ms);
