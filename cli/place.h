// What `weft cp` copies from and to: a file, a volume, or a stream ("-": standard input or output).
// They take reads, writes and zeroes of pieces; a volume's end later, the others' at once, and all
// are taken from place_ended. A stream is read and written in order, and where its end is shows
// when it has been read.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "cli/volume.h"

#define PLACE_LEN_UNKNOWN UINT64_MAX

struct copy_place {
    const char *name; // as the user wrote it
    bool is_volume;
    struct volume volume;
    int fd;
    bool is_regular; // a file that may have holes
    bool is_stream;
    uint64_t len;           // PLACE_LEN_UNKNOWN: a stream whose end has not been read
    uint32_t block_len;     // of a volume; 1
    uint32_t piece_max;     // octets of a piece
    struct list_link ended; // pieces of which nobody has been told
};

// One piece on its way. The fields above `error` are the caller's.
struct piece {
    uint8_t *data;
    uint64_t offset;
    uint32_t len;
    void *context;
    int error;          // 0, or a negative errno,
    const char *answer; // and what a target said of it; empty: nothing
    struct volume_io io;
    struct list_link link; // ended
};

// "-": standard input or output.
bool place_is_stream(const char *name);

// Opens what is to be read. 0 or an exit status, after saying what is wrong.
int place_open_source(const char *name, unsigned depth, struct copy_place *ret);
// Opens what is to be written: a file is made, and emptied if it was there. Too small a volume is
// refused. `len` octets will come, or PLACE_LEN_UNKNOWN.
int place_open_destination(const char *name, unsigned depth, uint64_t len, struct copy_place *ret);
void place_close(struct copy_place *place);

// What lies behind the end of a file or a stream reads as zeroes; a volume's last block is written
// whole, with zeroes behind a file's end.
void place_read(struct copy_place *place, struct piece *piece);
void place_write(struct copy_place *place, struct piece *piece);
// Is it known, without reading, that the range is zeroes? A volume's target may be asked.
bool place_is_zero(struct copy_place *place, uint64_t offset, uint32_t len);
// The range reads as zeroes afterwards, without taking room where that is possible.
void place_zero(struct copy_place *place, struct piece *piece);

// The range is known to be zeroes: it has been read without asking anybody.
void place_read_zeroes(struct copy_place *place, struct piece *piece);
// The next piece that has ended, in the order in which they did. NULL: none.
struct piece *place_ended(struct copy_place *place);

// Everything written is stable, with no piece under way. 0 or a negative errno.
int place_flush(struct copy_place *place);
// Waits for a piece of a volume to end. 0, or a negative errno: the connection is lost, and all
// have ended.
int place_wait(struct copy_place *place);
// The same, but no longer than this.
int place_wait_for(struct copy_place *place, int timeout_ms);
