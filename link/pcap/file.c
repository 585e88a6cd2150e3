#include "link/pcap/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/list.h"
#include "base/span.h"
#include "base/time.h"
#include "link/own_file.h"
#include "link/sys.h"
#include "wire/journal.h"

// All in the octet order of the machine, as readers expect.
struct pcap_header {
    uint32_t magic;
    uint16_t major, minor;
    int32_t zone;
    uint32_t accuracy, snap_len, link_type;
};
STATIC_CHECK(sizeof(struct pcap_header) == 24);

struct pcap_record {
    uint32_t seconds, nanoseconds, captured_len, wire_len;
};
STATIC_CHECK(sizeof(struct pcap_record) == 16);

enum { PCAP_MAGIC_NS = 0xa1b23c4d, PCAP_LINK_TYPE_RAW = 101 };

// pcapng: a section of one interface, whose times are nanoseconds.
struct pcapng_begin {
    uint32_t section_type, section_len, order;
    uint16_t major, minor;
    uint32_t unknown_len[2], section_len_again;
    uint32_t interface_type, interface_len;
    uint16_t link_type, reserved;
    uint32_t snap_len;
    uint16_t resolution_code, resolution_len;
    uint8_t resolution, padding[3];
    uint16_t end_code, end_len;
    uint32_t interface_len_again;
};
STATIC_CHECK(sizeof(struct pcapng_begin) == 28 + 32);
STATIC_CHECK(sizeof(struct pcapng_begin) <= OWN_FILE_HEAD_LEN);

struct pcapng_block {
    uint32_t type, len;
};

struct pcapng_packet {
    struct pcapng_block block;
    uint32_t interface, time_high, time_low, captured_len, wire_len;
};
STATIC_CHECK(sizeof(struct pcapng_packet) == 28);

enum { BLOCK_SECTION = 0x0a0d0d0a, BLOCK_INTERFACE = 1, BLOCK_PACKET = 6 };
enum { SECTION_ORDER = 0x1a2b3c4d, OPTION_RESOLUTION = 9, RESOLUTION_NS = 9, BLOCK_ALIGN = 4 };

/* ---- writing --------------------------------------------------------------------------------- */

static void buffer_add(struct pcap_file *f, const void *octets, size_t len)
{
    if (len > 0) {
        memcpy(f->buffer + f->len, octets, len);
        f->len += len;
    }
}

static void flush(struct pcap_file *f)
{
    size_t done = 0;
    while (done < f->len && f->error == 0) {
        ssize_t len = sys_write(f->fd, f->buffer + done, f->len - done);
        if (len >= 0) {
            done += (size_t)len;
        } else if (len != -EINTR) {
            f->error = (int)len;
        }
    }
    f->len = 0;
}

void pcap_file_flush(struct pcap_file *f)
{
    pthread_mutex_lock(&f->lock);
    flush(f);
    pthread_mutex_unlock(&f->lock);
}

static instant_ns time_of_day(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (instant_ns)t.tv_sec * NS_PER_S + (instant_ns)t.tv_nsec;
}

static void head_add_pcap(struct pcap_file *f, size_t len, instant_ns at)
{
    struct pcap_record record = {.seconds = (uint32_t)(at / NS_PER_S),
                                 .nanoseconds = (uint32_t)(at % NS_PER_S),
                                 .captured_len = (uint32_t)len,
                                 .wire_len = (uint32_t)len};
    buffer_add(f, &record, sizeof record);
}

static size_t padding_of(size_t len)
{
    return (BLOCK_ALIGN - len % BLOCK_ALIGN) % BLOCK_ALIGN;
}

static uint32_t packet_block_len(size_t len)
{
    return (uint32_t)(sizeof(struct pcapng_packet) + len + padding_of(len) + sizeof(uint32_t));
}

static void head_add_pcapng(struct pcap_file *f, size_t len, instant_ns at)
{
    struct pcapng_packet packet = {.block = {BLOCK_PACKET, packet_block_len(len)},
                                   .time_high = (uint32_t)(at >> 32),
                                   .time_low = (uint32_t)at,
                                   .captured_len = (uint32_t)len,
                                   .wire_len = (uint32_t)len};
    buffer_add(f, &packet, sizeof packet);
}

static void tail_add_pcapng(struct pcap_file *f, size_t len)
{
    static const uint8_t zeroes[BLOCK_ALIGN];
    uint32_t block_len = packet_block_len(len);
    buffer_add(f, zeroes, padding_of(len));
    buffer_add(f, &block_len, sizeof block_len);
}

void pcap_file_put(struct pcap_file *f, const struct iovec *iov, unsigned count)
{
    size_t len = 0;
    for (unsigned i = 0; i < count; i++) {
        len += iov[i].iov_len;
    }
    CHECK(len <= PCAP_SNAP_LEN);
    pthread_mutex_lock(&f->lock);
    if (PCAP_BUFFER_LEN - f->len < packet_block_len(len)) {
        flush(f);
    }
    void (*head_add)(struct pcap_file * f, size_t len, instant_ns at) =
        f->is_pcapng ? head_add_pcapng : head_add_pcap;
    head_add(f, len, time_of_day());
    for (unsigned i = 0; i < count; i++) {
        buffer_add(f, iov[i].iov_base, iov[i].iov_len);
    }
    if (f->is_pcapng) {
        tail_add_pcapng(f, len);
    }
    pthread_mutex_unlock(&f->lock);
}

// In the file when the call returns, like packets: nothing may come behind it that would flush it.
static void journal_put(struct journal *journal, const struct journal_record *record)
{
    struct pcap_file *f = LIST_ENTRY(journal, struct pcap_file, journal);
    uint8_t octets[JOURNAL_MAX_LEN];
    pthread_mutex_lock(&f->lock);
    size_t len = journal_emit(record, time_of_day(), octets);
    uint32_t block_len = (uint32_t)(sizeof(struct pcapng_block) + len + sizeof(uint32_t));
    struct pcapng_block head = {JOURNAL_BLOCK_TYPE, block_len};
    if (PCAP_BUFFER_LEN - f->len < block_len) {
        flush(f);
    }
    buffer_add(f, &head, sizeof head);
    buffer_add(f, octets, len);
    buffer_add(f, &block_len, sizeof block_len);
    flush(f);
    pthread_mutex_unlock(&f->lock);
}

struct journal *pcap_file_journal(struct pcap_file *f)
{
    return f->is_pcapng ? &f->journal : NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void path_expand(const char *path, char *ret, size_t len)
{
    size_t at = 0;
    while (*path != '\0' && at + 1 < len) {
        if (path[0] == '%' && path[1] == 'p') {
            int digits = snprintf(ret + at, len - at, "%d", (int)getpid());
            at += (size_t)digits < len - at ? (size_t)digits : len - at - 1;
            path += 2;
        } else {
            ret[at++] = *path++;
        }
    }
    ret[at] = '\0';
}

static const struct pcap_header begin_of_pcap = {
    .magic = PCAP_MAGIC_NS,
    .major = 2,
    .minor = 4,
    .snap_len = PCAP_SNAP_LEN,
    .link_type = PCAP_LINK_TYPE_RAW,
};

static const struct pcapng_begin begin_of_pcapng = {
    .section_type = BLOCK_SECTION,
    .section_len = 28,
    .order = SECTION_ORDER,
    .major = 1,
    .unknown_len = {UINT32_MAX, UINT32_MAX},
    .section_len_again = 28,
    .interface_type = BLOCK_INTERFACE,
    .interface_len = 32,
    .link_type = PCAP_LINK_TYPE_RAW,
    .snap_len = PCAP_SNAP_LEN,
    .resolution_code = OPTION_RESOLUTION,
    .resolution_len = 1,
    .resolution = RESOLUTION_NS,
    .interface_len_again = 32,
};

static bool begins_with(struct span head, const void *begin, size_t len)
{
    return head.len >= len && memcmp(head.ptr, begin, len) == 0;
}

// Of either format, since a name may have been given another end.
static bool is_capture(struct span head)
{
    return begins_with(head, &begin_of_pcap, sizeof begin_of_pcap) ||
           begins_with(head, &begin_of_pcapng, sizeof begin_of_pcapng);
}

// A descriptor of the file, locked and empty; -EWOULDBLOCK when another process is writing it. A
// pipe or device has neither lock nor length, and is taken as it is.
static int open_locked(const char *path)
{
    int fd = own_file_open(path, 0, is_capture);
    if (fd < 0) {
        return fd;
    }
    if (sys_flock(fd, LOCK_EX | LOCK_NB) == -EWOULDBLOCK) {
        sys_close(fd);
        return -EWOULDBLOCK;
    }
    sys_ftruncate(fd, 0);
    return fd;
}

// The name as it was asked for, before anything is put into or behind it.
static bool is_pcapng(const char *path)
{
    static const char end[] = ".pcapng";
    size_t len = strlen(path), end_len = sizeof end - 1;
    return len >= end_len && strcmp(path + len - end_len, end) == 0;
}

int pcap_file_open(struct pcap_file *f, const char *path)
{
    char expanded[PATH_MAX], other[PATH_MAX + 16];
    path_expand(path, expanded, sizeof expanded);
    f->fd = open_locked(expanded);
    if (f->fd == -EWOULDBLOCK) {
        snprintf(other, sizeof other, "%s.%d", expanded, (int)getpid());
        f->fd = open_locked(other);
    }
    if (f->fd < 0) {
        return f->fd;
    }
    f->error = 0;
    f->len = 0;
    f->is_pcapng = is_pcapng(path);
    f->journal.put = journal_put;
    pthread_mutex_init(&f->lock, NULL);
    if (f->is_pcapng) {
        buffer_add(f, &begin_of_pcapng, sizeof begin_of_pcapng);
    } else {
        buffer_add(f, &begin_of_pcap, sizeof begin_of_pcap);
    }
    pcap_file_flush(f);
    return f->error;
}

void pcap_file_close(struct pcap_file *f)
{
    if (f->fd >= 0) {
        sys_close(f->fd);
    }
    f->fd = -1;
    f->error = f->error == 0 ? -EBADF : f->error;
}

void pcap_file_abandon(struct pcap_file *f)
{
    pthread_mutex_init(&f->lock, NULL); // a thread that the child does not have may hold it
    pcap_file_close(f);                 // what the buffer has is the parent's to write
}
