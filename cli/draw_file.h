// A capture file as packets, for `weft draw`: read in order, twice if need be. What cannot be read
// twice (a pipe) is kept in an unnamed temporary file first.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "draw/capture.h"
#include "draw/frame.h"

struct draw_file {
    const char *path;
    int fd;
    uint8_t *buffer;  // for octets of the file
    uint8_t *scratch; // for packets that were not captured whole
    uint16_t roce_port;

    uint64_t packet_count; // of the last reading
    uint64_t unread_count; // packets that are of no known kind, or wrong
    uint64_t first_unread;
    char why_unread[96]; // of the first
    bool is_cut;         // the file ends inside its last packet
    bool is_refused;     // it was said why
};

// "-" is standard input. False: it was said why.
bool draw_file_open(struct draw_file *file, const char *path, uint16_t roce_port);
void draw_file_close(struct draw_file *file);

// Gives every packet that could be parsed to `see`, from the first. False: it was said why, and
// what came before was given.
bool draw_file_read(struct draw_file *file,
                    void (*see)(void *ctx, const struct capture_packet *packet,
                                const struct frame *frame),
                    void *ctx);
