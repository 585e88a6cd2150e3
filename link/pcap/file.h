// A capture file in the pcap format with nanoseconds (magic 0xa1b23c4d), link type RAW.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

enum {
    PCAP_BUFFER_LEN = 256 * 1024,
    PCAP_SNAP_LEN = 65535, // no packet is longer
};

struct pcap_file {
    int fd;     // -1: let go
    int error;  // negative errno: nothing is written any more
    size_t len; // octets in `buffer`
    uint8_t buffer[PCAP_BUFFER_LEN];
};

// Opens and locks the file and writes its header, see link_pcap_wrap. 0 or a negative errno.
int pcap_file_open(struct pcap_file *f, const char *path);
// Adds a packet in parts, at most PCAP_SNAP_LEN octets together, stamped with the time of day.
void pcap_file_put(struct pcap_file *f, const struct iovec *iov, unsigned count);
// Hands what was added to the kernel.
void pcap_file_flush(struct pcap_file *f);
void pcap_file_close(struct pcap_file *f);
