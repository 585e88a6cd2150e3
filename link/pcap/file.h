// A capture file of packets with nanoseconds, link type RAW: in the pcap format (magic 0xa1b23c4d),
// or, where its name ends in ".pcapng", in that format, which has room for records of what no
// packet shows (wire/journal.h). Packets are put by one thread at a time, records by any.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/port_journal.h"

enum {
    PCAP_BUFFER_LEN = 256 * 1024,
    PCAP_SNAP_LEN = 65535, // no packet is longer
};

struct pcap_file {
    struct journal journal;
    pthread_mutex_t lock; // of what is below
    bool is_pcapng;
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
// In the child of a fork, in place of that: the parent goes on with the file.
void pcap_file_abandon(struct pcap_file *f);

// Where records for the file go, as long as it lives; NULL: its format has no room for them.
struct journal *pcap_file_journal(struct pcap_file *f);
