// An initiator for NVMe over Fabrics, on RDMA or TCP: finds the volumes of a target, and reads and
// writes them, in a program, without a kernel module. For RDMA it needs an RNIC's libibverbs and
// librdmacm and nothing else, so it runs on any RNIC; where both ends are weft, commands go by
// one-shot RDMA (<weft/oneshot.h>), and no memory is ever registered for data.
//
//     address      where a subsystem is, as text and taken apart
//     controller   connections to one subsystem: an admin queue and I/O queues (struct weft_nvme)
//     discovery    what a target offers
//     namespace    a volume: blocks with a number within its subsystem
//     I/O          one command: read, write, flush, trim, write zeroes (struct weft_nvme_io)
//
//     struct weft_nvme_attr attr = {.address = &address};
//     if (weft_nvme_connect(&attr, &nvme, why) != 0) ...
//     struct weft_nvme_io io = {.operation = WEFT_NVME_READ, .nsid = 1, .offset = 0, .len = len,
//                               .memory = &iovec, .memory_count = 1, .on_complete = on_read};
//     if (weft_nvme_submit(nvme, &io) != 0) ...
//     while (!is_done) {
//         weft_nvme_wait(nvme, -1);
//     }
//
// Threads: a controller belongs to one thread at a time; different controllers to different threads
// at once. Where it says so, a function blocks, at most for attr.timeout_ms.
//
// Errors are negative errno; with some of them `ret_why` (WEFT_NVME_WHY_MAX bytes) says in words
// which object was wrong and why. Offsets and lengths are octets.
//
// Source: NVM Express over Fabrics 1.1 with its bindings for RDMA and TCP, NVM Express 1.4.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_nvme;

enum weft_nvme_limits {
    WEFT_NVME_WHY_MAX = 320,
    WEFT_NVME_NAME_MAX = 256, // of hosts and NQNs, with the terminator
    WEFT_NVME_PORT_MAX = 32,
    WEFT_NVME_DEPTH_MAX = 1024, // commands outstanding of one queue
    WEFT_NVME_QUEUE_MAX = 16,   // I/O queues of a controller
    WEFT_NVME_PIECE_MAX = 256,  // elements of an I/O's memory
    WEFT_NVME_LENT_MAX = 64,    // ranges lent with weft_nvme_lend
    WEFT_NVME_VENDOR_MAX = 3712,
};

#define WEFT_NVME_PORT          "4420"
#define WEFT_NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

/* ---- addresses ------------------------------------------------------------------------------- */

enum weft_nvme_transport { WEFT_NVME_RDMA, WEFT_NVME_TCP };

struct weft_nvme_address {
    char host[WEFT_NVME_NAME_MAX]; // name or number; IPv6 without brackets
    char port[WEFT_NVME_PORT_MAX];
    char nqn[WEFT_NVME_NAME_MAX]; // empty: the discovery service
    uint32_t nsid;                // 0: not named
    enum weft_nvme_transport transport;
};

// "nvme+rdma://HOST[:PORT][/NQN[/NSID]]", "nvme+tcp://...", or "HOST[:PORT]", which is over RDMA.
// An IPv6 number as HOST stands in brackets; %XX stands for an octet of the NQN. -EINVAL: `ret_why`
// says what is wrong.
int weft_nvme_address_parse(const char *text, struct weft_nvme_address *ret, char *ret_why);

// The URI of it. `ret` has `capacity` bytes; a longer URI is cut off.
void weft_nvme_address_format(const struct weft_nvme_address *address, char *ret, size_t capacity);

/* ---- controllers ----------------------------------------------------------------------------- */

enum weft_nvme_flags {
    WEFT_NVME_NO_ONESHOT = 1,    // the usual way, also between weft ends
    WEFT_NVME_HEADER_DIGEST = 4, // over TCP, if the target agrees: CRC32C of headers,
    WEFT_NVME_DATA_DIGEST = 8,   // and of data
    WEFT_NVME_NO_IN_CAPSULE = 2, // data of short writes is fetched by the target, as of long ones
    WEFT_NVME_PERSISTENT = 16,   // of the discovery service: it is kept, and tells of changes
};

// Every 0 or NULL stands for a default.
struct weft_nvme_attr {
    const struct weft_nvme_address *address;
    const char *host_nqn; // who the target is told this is; default: that of /etc/nvme/hostnqn, or
                          // one made of the machine's id
    uint8_t host_id[16];  // default: that of the default name, or of a digest of host_nqn
    unsigned queue_count; // I/O queues; default 1. Discovery has none
    unsigned depth;       // commands outstanding of each; default 32
    unsigned flags;       // enum weft_nvme_flags
    unsigned keep_alive_ms; // default 5000; of discovery only with WEFT_NVME_PERSISTENT
    unsigned timeout_ms;    // for connecting, and for answers of the admin queue; default 10000
};

// Connects, enables the controller, connects its I/O queues. Blocks. *ret is set on success only,
// and is the caller's to give to weft_nvme_disconnect. -ECONNREFUSED: the target refuses;
// -ETIMEDOUT; -ENODEV: there is no RNIC; -EPROTO: what it answers is against the protocol;
// -EADDRNOTAVAIL: no such host; -EACCES: the target does not let this host in; -ENOENT: there is no
// such subsystem; or another negative errno; `ret_why` says more in each case.
int weft_nvme_connect(const struct weft_nvme_attr *attr, struct weft_nvme **ret, char *ret_why);

// Ends the connections. I/O that is outstanding completes with -ECANCELED, from within this call.
// Blocks for a moment, so that the target hears of it. NULL is allowed.
void weft_nvme_disconnect(struct weft_nvme *nvme);

// Facts of a controller, as it identified itself.
struct weft_nvme_info {
    char nqn[WEFT_NVME_NAME_MAX];
    char model[41], serial[21], firmware[9];
    uint16_t controller;       // its number
    uint32_t version;          // 0x00010400: 1.4.0
    uint32_t namespace_count;  // at most
    uint32_t transfer_max_len; // of one read or write: longer I/O is refused with -EMSGSIZE
    uint32_t in_capsule_len;   // data of writes up to this goes with the command
    unsigned queue_count;      // connected
    unsigned depth;            // outstanding at a time, all queues together
    bool has_volatile_cache;   // completed writes are stable only after a flush
    bool can_trim, can_write_zeroes;
    bool is_oneshot; // data goes by one-shot RDMA: both ends are weft
};

void weft_nvme_info(const struct weft_nvme *nvme, struct weft_nvme_info *ret);

/* ---- discovery ------------------------------------------------------------------------------- */

// One entry of the discovery log. Texts are as the target sent them, with anything that is not
// printable replaced by '?'.
struct weft_nvme_entry {
    char transport[8]; // "rdma", "tcp", or a number
    char kind[12];     // "nvme", "discovery", "referral", or a number
    char host[WEFT_NVME_NAME_MAX];
    char port[WEFT_NVME_PORT_MAX + 1];
    char nqn[WEFT_NVME_NAME_MAX];
};

// The log of a controller that was connected without an NQN. Blocks. 0, and an array that the
// caller frees. -EAGAIN: it changed again and again while it was read.
int weft_nvme_discover(struct weft_nvme *nvme, struct weft_nvme_entry **ret, size_t *ret_count,
                       char *ret_why);

// Has the log changed since it was read last, as a controller that was connected with
// WEFT_NVME_PERSISTENT has told by weft_nvme_poll? Reading it again is what lets that tell of the
// next change. Always false of one that tells of nothing.
bool weft_nvme_log_has_changed(const struct weft_nvme *nvme);

/* ---- namespaces ------------------------------------------------------------------------------ */

struct weft_nvme_namespace {
    uint32_t nsid;
    uint32_t block_len; // 512 .. 65536: offsets and lengths of I/O are multiples of it
    uint64_t len;       // octets
    bool is_read_only;
    bool has_uuid, has_nguid;
    uint8_t uuid[16], nguid[16];
};

// The numbers of those that are there, ascending, at most `count` of them; gives back how many.
// Blocks.
int weft_nvme_namespaces(struct weft_nvme *nvme, uint32_t *ret_nsids, size_t count, char *ret_why);

// Asks anew each time. Blocks. -ENOENT: there is none of that number. I/O is allowed to a namespace
// that has been asked for.
int weft_nvme_identify(struct weft_nvme *nvme, uint32_t nsid, struct weft_nvme_namespace *ret,
                       char *ret_why);

// What the vendor of the target says of a namespace beyond the specification: the first `len`
// octets of that part of Identify Namespace, WEFT_NVME_VENDOR_MAX at most, zeroes where it says
// nothing. Right behind weft_nvme_identify of the namespace it is what that was told; else the
// target is asked, which blocks.
int weft_nvme_vendor_data(struct weft_nvme *nvme, uint32_t nsid, uint8_t *ret, size_t len,
                          char *ret_why);

/* ---- I/O ------------------------------------------------------------------------------------- */

enum weft_nvme_operation {
    WEFT_NVME_READ,
    WEFT_NVME_WRITE,
    WEFT_NVME_FLUSH,        // every write completed before becomes stable; no range
    WEFT_NVME_TRIM,         // the contents of the range are no longer needed: advice
    WEFT_NVME_WRITE_ZEROES, // the range reads as zeroes afterwards
};

enum weft_nvme_io_flags {
    WEFT_NVME_FUA = 1,     // completed means stable: writes and zeroes
    WEFT_NVME_NO_HOLE = 2, // zeroes: keep the blocks allocated
    WEFT_NVME_MORE = 4,    // any: others follow at once, or weft_nvme_send
};

enum { WEFT_NVME_IO_WORDS = 4 };

// To be embedded where the program likes, zeroed before its first use. From submission to
// completion, it, its list and its memory belong to the controller; then it may be filled in again.
struct weft_nvme_io {
    enum weft_nvme_operation operation;
    unsigned flags; // enum weft_nvme_io_flags
    uint32_t nsid;
    uint64_t offset, len;
    // Reads and writes: pieces of `len` octets together. One-shot reaches them as they are. The
    // usual way reaches one piece as it is, registering it for the time if it was not lent before
    // (weft_nvme_lend), and copies several.
    const struct iovec *memory;
    unsigned memory_count;
    // Called once, from within weft_nvme_poll and other calls that say so; may submit more, and may
    // free the I/O, but not disconnect.
    void (*on_complete)(struct weft_nvme_io *io);
    void *context; // the program's

    int error;       // when complete: 0 or a negative errno; -EBADE: another host has reserved the
                     // namespace
    uint16_t status; // as NVM Express numbers them: type in bits 10..8, code in 7..0; 0 also where
                     // no answer came, as after -ECONNRESET, -ETIMEDOUT, -ECANCELED
    bool may_retry;  // the target does not say that asking again is useless

    uint64_t own[WEFT_NVME_IO_WORDS]; // the controller's
};

// Sends the command, without blocking. When it returns 0, on_complete comes later, never from
// within. -EAGAIN: as many as the queues hold are outstanding: after a completion. -EINVAL: an
// unknown operation or flag, memory of another length than `len`, or too many pieces; a range that
// is not in whole blocks or beyond the end; a namespace that was not asked for. -EMSGSIZE: longer
// than transfer_max_len, or the range is longer than one command can name. -EOPNOTSUPP: the
// controller has no such command. -EROFS. -ENOTCONN: the connection is lost. -ENOMEM, -EFAULT.
//
// With WEFT_NVME_MORE, and from within on_complete, it may wait for others, since commands that
// leave together cost less: until one does not say so, until weft_nvme_send or weft_nvme_poll, or
// until the call that called on_complete returns. One that cannot be sent then ends with the error.
int weft_nvme_submit(struct weft_nvme *nvme, struct weft_nvme_io *io);

// Sends what waits for others. Calls on_complete of what cannot be sent.
void weft_nvme_send(struct weft_nvme *nvme);

// The longest trim and write zeroes that one command can name, in octets.
uint64_t weft_nvme_range_max_len(const struct weft_nvme *nvme, uint32_t nsid,
                                 enum weft_nvme_operation operation);

// Registers memory that I/O will come from or go to, so that the usual way need not do so with each
// command. Nothing is done where data goes by one-shot RDMA. Gone with the controller, before that
// with weft_nvme_take_back, when no I/O uses it. -ENOSPC: WEFT_NVME_LENT_MAX are lent. -ENOMEM ...
int weft_nvme_lend(struct weft_nvme *nvme, void *ptr, size_t len);
void weft_nvme_take_back(struct weft_nvme *nvme, void *ptr);

// Takes what has come: calls on_complete of I/O that has ended, sends keep-alives. How many I/O
// completed; 0: nothing has come, and weft_nvme_fd tells when there is more. Negative: the
// connection is lost (as weft_nvme_why says), and all that was outstanding has completed with
// -ECONNRESET or -ETIMEDOUT.
int weft_nvme_poll(struct weft_nvme *nvme);

// Readable when weft_nvme_poll has something to do, but only once that has returned 0. The same for
// the controller's whole life.
int weft_nvme_fd(const struct weft_nvme *nvme);

// Polls, waits at most this long for something to come (-1: for ever), and polls again. As
// weft_nvme_poll; 0 also when the time is up. Before it sleeps it looks on for answers that are
// awaited, for 100 us at most and as long as that nearly always pays; of 0 ms it does that alone.
int weft_nvme_wait(struct weft_nvme *nvme, int timeout_ms);

// Why the connection was lost; NULL: it was not.
const char *weft_nvme_why(const struct weft_nvme *nvme);

/* ---- access ---------------------------------------------------------------------------------- */

// How well a namespace is reached by this controller (Asymmetric Namespace Access): a namespace may
// have several controllers, in several nodes, and not be served by all of them at a time.
enum weft_nvme_access {
    WEFT_NVME_OPTIMIZED = 1, // the way to go; also where the controller has no such states
    WEFT_NVME_NON_OPTIMIZED = 2,
    WEFT_NVME_INACCESSIBLE = 3, // by another one, or later by this one
    WEFT_NVME_UNREACHABLE = 4,  // for good
    WEFT_NVME_CHANGING = 15,    // for weft_nvme_access_change_ms at most
};

// What is known of a namespace that was asked for. The controller tells of changes, in
// weft_nvme_poll; a command that ends with one of the path's statuses (0x301 to 0x303) counts until
// the log was read again, which takes such calls, too.
enum weft_nvme_access weft_nvme_access(const struct weft_nvme *nvme, uint32_t nsid);

// How long a change takes at most, as the controller says; 0: it has no such states.
unsigned weft_nvme_access_change_ms(const struct weft_nvme *nvme);

// Does an I/O's status say that the way to the namespace failed, not the command? Then it may be
// sent again, by another controller at once.
bool weft_nvme_is_path_status(uint16_t status);

// "LBA Out of Range" for 0x080; a number that is none of the known ones: "status 0x3ff".
const char *weft_nvme_status_str(uint16_t status, char ret[32]);

/* ---- counters -------------------------------------------------------------------------------- */

struct weft_nvme_counters {
    uint64_t commands; // sent by the I/O queues
    uint64_t octets_read, octets_written;
    uint64_t oneshots;      // commands whose memory was advertised by their own Send
    uint64_t closes;        // and closed by the answer
    uint64_t revokes;       // ... that the answer left open, and that were taken back
    uint64_t in_capsules;   // writes whose data went with the command
    uint64_t lent;          // commands whose memory was registered before
    uint64_t registrations; // made for one command
    uint64_t copies;        // commands whose pieces were copied together
    uint64_t errors;        // I/O that ended with one
    uint64_t strange;       // answers to nothing that was asked
};

void weft_nvme_counters(const struct weft_nvme *nvme, struct weft_nvme_counters *ret);

#ifdef __cplusplus
}
#endif
