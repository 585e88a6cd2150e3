// Sockets over RDMA (rsocket(7)): streams between two rings of memory, written by RDMA Writes, each
// followed by a 4-octet Send that says what was written. What stands on the wire is rdma-core's
// protocol as it speaks it on iWARP (docs/rsocket there, "version 1"). Sockets of datagrams have a
// page of their own, rsocket/datagram.h; what both have in common is here.
//
// From the bottom up:
//
//   wire.c     start-up data and messages
//   state.c    what a socket goes through: a table
//   table.c    descriptors to sockets; life across fork
//   source.c   what the program sends
//   look.c     so many completions at a time
//   stream.c   rings, credits, work requests, completions: never waits
//   datagram.c, ud.c, peers.c, datagram_wire.c   datagrams
//   startup.c  the events of the channel while connecting: never waits either
//   wait.c     threads that wait for a socket, rpoll, rselect
//   epoll.c    repoll_create and its relatives
//   iomap.c    memory that the peer writes into directly
//   socket.c   creation and end
//   name.c     rgetsockname, rgetpeername
//   connect.c  bind, listen, connect, accept, shutdown, close
//   data.c     rsend, rrecv and their relatives
//   option.c   options, rfcntl
//
// A socket's number is the descriptor of its event channel, or of its UDP socket: a real one of the
// process.
//
// Locking. Each socket has a lock over all of it. Nobody waits with it held: who waits leaves a
// link in the socket's list of waiters, and whoever moves the socket on wakes them.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/list.h"
#include "base/sockaddr.h"

enum {
    RS_SGE_COUNT = 2,         // places for received data that are known to the sender at a time
    RS_SEND_LOW_WATER = 2048, // free octets of the ring before a socket is writable
    RS_RING_MIN = 2 * RS_SEND_LOW_WATER,
    RS_RING_MAX = 1 << 30,
    RS_TRANSFER_MAX = 65536, // octets of one transfer
    RS_INLINE_MAX = 512,     // octets that a work request carries itself, at most
    RS_CONTROL_WR_MAX = 4,   // work requests of control messages under way
    RS_QP_SIZE_MIN = 16,
    RS_QP_SIZE_MAX = 0xfffe, // sequence numbers have 16 bits
    RS_IOMAP_MAX = 127 << 8, // what the scaled octet of the start-up data can say
};

static inline int64_t rs_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// errno for a public function that fails; `error` is positive.
static inline int rs_fail(int error)
{
    errno = error;
    return -1;
}

/* ---- on the wire (wire.c) -------------------------------------------------------------------- */

// Where the peer may write. These, and the messages, are in the byte order of their hosts, which
// must be the same.
struct rs_sge {
    uint64_t addr;
    uint32_t key;
    uint32_t length;
};

struct rs_iomap_entry {
    uint64_t offset; // of the mapped memory, in the peer's riowrite
    struct rs_sge sge;
};

// The upper 3 bits of a message; the lower 29 are its value.
enum rs_op {
    RS_OP_DATA = 0,    // octets written
    RS_OP_CREDIT = 4,  // sequence number up to which the peer may send; an rs_sge may be new, too
    RS_OP_IOMAP = 6,   // index of the entry written
    RS_OP_CONTROL = 7, // enum rs_control
};

enum rs_control { RS_CONTROL_DISCONNECT = 0, RS_CONTROL_KEEPALIVE = 1, RS_CONTROL_SHUTDOWN = 2 };

#define RS_MESSAGE_VALUE_MASK 0x1fffffffU

static inline uint32_t rs_message(enum rs_op op, uint32_t value)
{
    return (uint32_t)op << 29 | (value & RS_MESSAGE_VALUE_MASK);
}

enum { RS_HELLO_LEN = 40 };

// The private data of both sides' connection set-up, in host order.
struct rs_hello {
    uint16_t credits;     // receives posted
    uint16_t iomap_count; // entries behind the list of places
    struct rs_sge list;   // the list of places: address, key, entries
    struct rs_sge first;  // the first place: address, key, octets
};

void rs_hello_emit(const struct rs_hello *hello, uint8_t buf[RS_HELLO_LEN]);
// 0, or a positive errno: too short, another version, another byte order.
int rs_hello_parse(const uint8_t *octets, size_t len, struct rs_hello *ret);
// The nearest count of iomap entries that the start-up data can say.
uint16_t rs_iomap_count_fit(uint32_t wanted);

// What the peer has written there meanwhile. Its key and length come last, and together.
static inline struct rs_sge rs_sge_load(const struct rs_sge *sge)
{
    uint64_t tail = __atomic_load_n((const uint64_t *)&sge->key, __ATOMIC_ACQUIRE);
    struct rs_sge loaded = {0};
    memcpy(&loaded.key, &tail, sizeof tail);
    if (loaded.length > 0) {
        loaded.addr = sge->addr;
    }
    return loaded;
}

/* ---- states (state.c) ------------------------------------------------------------------------ */

enum rs_state {
    RS_NEW,
    RS_BOUND,
    RS_LISTENING,
    RS_CONNECTING,
    RS_ACCEPTING, // the answer was sent; usable when the peer goes on
    RS_CONNECTED,
    RS_FAILED,       // connecting failed
    RS_DISCONNECTED, // both directions ended in order
    RS_BROKEN,       // ended otherwise
    RS_STATE_COUNT,
};

enum rs_event {
    RS_ON_BIND,
    RS_ON_LISTEN,
    RS_ON_CONNECT, // asked the peer
    RS_ON_ANSWER,  // accepted a peer that asks
    RS_ON_ESTABLISHED,
    RS_ON_FAILURE, // before that
    RS_ON_GOODBYE, // said or heard: nothing flows any more
    RS_ON_BREAK,
    RS_EVENT_COUNT,
};

struct rs;

// The state that follows, or RS_STATE_COUNT: the event means nothing here.
enum rs_state rs_state_after(enum rs_state state, enum rs_event event);
// Moves the socket there; false: it stays.
bool rs_move(struct rs *rs, enum rs_event event);

/* ---- sockets --------------------------------------------------------------------------------- */

struct rs_options {
    int domain;
    uint32_t send_ring_len, recv_ring_len;
    uint32_t inline_len;
    uint16_t sq_size, rq_size;
    uint16_t iomap_count;
    uint32_t so, tcp, ipv6; // bits of options that are only kept, by option number
    uint8_t tos;
    int keep_idle_s;
    int linger_s; // with SO_LINGER
};

// What sockets begin with (defaults.c).
struct rs_defaults {
    struct rs_options options;
    int64_t spin_ns; // how long a call looks before it sleeps
};

const struct rs_defaults *rs_defaults(void);
// With the files of a folder.
void rs_defaults_read(const char *folder, struct rs_defaults *ret);

struct rs_send_side {
    uint8_t *ring;
    struct ibv_mr *mr;
    uint32_t len, at, free_len;
    uint32_t wr_count;      // under way, data and iomap entries
    uint32_t control_count; // under way, control messages and the writes that go with them
    uint16_t seq, seq_end;  // messages sent, and where the peer's credits end
    struct rs_sge place;    // to write into; length: what is left of it
    unsigned place_index;   // where the next one will be found
    struct rs_sge list;     // the peer's list of places
    unsigned list_index;    // its entry to be written next
    struct rs_sge iomap;    // the peer's iomap entries; length: how many
};

struct rs_recv_side {
    uint8_t *ring; // behind it: 4 octets for the message of each receive
    struct ibv_mr *mr;
    uint32_t len, at, ready_len; // ready_len octets from `at` on, around the end
    uint32_t announced_len;      // octets the peer may still write
    uint32_t free_len, free_at;  // read by the program and not announced again
    uint32_t receive_count;      // receives that are posted in turn
    uint16_t seq, seq_credit;    // messages taken, and where new credits are due
};

struct rs_iomap;
struct rs_datagrams;

struct rs {
    pthread_mutex_t lock;
    unsigned ref_count; // of the table's lock
    int fd;
    struct rs_datagrams *datagrams; // NULL: a stream, which alone has what is of a connection
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    enum rs_state state;
    bool is_closing;          // rclose was called: calls that wait give up
    bool may_read, may_write; // directions that were not shut down
    bool is_armed;            // the CQ will raise an event
    bool has_more;            // the last look has ended before the CQ was empty
    int flags;                // O_NONBLOCK, as rfcntl has it
    int descriptor_flags;     // FD_CLOEXEC, likewise: kept alone, who is executed has no sockets
    int error;                // for SO_ERROR
    bool is_bound;            // by the program, so that it has the same address in a next try
    bool is_failure_told;     // RS_FAILED: the next rconnect is a new one
    struct rs_options options;
    struct rs_hello peer; // RS_ACCEPTING: kept until data may flow
    struct rs_send_side tx;
    struct rs_recv_side rx;
    // Memory the peer writes: RS_SGE_COUNT places, then its iomap entries.
    struct rs_sge *targets;
    struct ibv_mr *targets_mr;
    struct list_link iomaps;  // of riomap
    bool is_iomap_due;        // the peer does not know all of them
    struct list_link waiters; // of threads that sleep for it
};

/* ---- table (table.c) ------------------------------------------------------------------------- */

// The socket of a number, locked and held; NULL with EBADF.
struct rs *rs_enter(int fd);
void rs_leave(struct rs *rs);
struct rs *rs_lookup(int fd); // held, not locked; NULL without touching errno
void rs_release(struct rs *rs);

bool rs_insert(struct rs *rs); // false: no memory
// Takes it out, and waits until nobody uses it any more.
void rs_remove(struct rs *rs);

// Counts the forks between this process and the first: a parent's sockets are not the child's.
unsigned rs_generation(void);

/* ---- what the program sends (source.c) ------------------------------------------------------- */

// `left` octets from `at` of the first part on.
struct rs_source {
    const struct iovec *part;
    size_t at;
    size_t left;
};

// `len` of what is left, at most all of it.
void rs_source_copy(struct rs_source *source, uint8_t *to, size_t len);

/* ---- stream (stream.c); lock held ------------------------------------------------------------ */

// QP, rings, receives. -1 with errno.
int rs_stream_open(struct rs *rs);
void rs_stream_close(struct rs *rs);
struct rs_hello rs_stream_hello(const struct rs *rs);
// The peer's start-up data: from here on data flows.
void rs_stream_start(struct rs *rs, const struct rs_hello *peer);

// One look (rs_look), and credits for what was read; true if anything moved.
bool rs_stream_progress(struct rs *rs);
// Has the CQ raise an event; false if that was so already.
bool rs_stream_arm(struct rs *rs);
void rs_stream_take_event(struct rs *rs);

bool rs_stream_may_send(const struct rs *rs);
// Sends octets of `source`, at most `limit`, as one transfer, and returns how many; -1 with errno.
// rs_stream_may_send holds, and there are some.
ssize_t rs_stream_send(struct rs *rs, struct rs_source *source, size_t limit);
// Likewise, into memory that the peer has mapped.
ssize_t rs_stream_send_direct(struct rs *rs, struct rs_source *source,
                              const struct rs_iomap_entry *entry, uint64_t offset);
bool rs_stream_may_control(const struct rs *rs);
int rs_stream_send_control(struct rs *rs, enum rs_control control);
int rs_stream_send_iomap(struct rs *rs, unsigned index, const struct rs_iomap_entry *entry);
bool rs_stream_is_idle(const struct rs *rs); // nothing is under way
// Octets copied out, at most `len`.
size_t rs_stream_read(struct rs *rs, void *buf, size_t len);
// The same behind `from` others; all stay.
size_t rs_stream_peek(const struct rs *rs, size_t from, void *buf, size_t len);

/* ---- datagrams (datagram.c); lock held ------------------------------------------------------- */

static inline bool rs_is_datagram(const struct rs *rs)
{
    return rs->datagrams != NULL;
}

struct rs_datagrams *rs_datagrams_create(int udp_fd); // NULL with errno
void rs_datagrams_free(struct rs_datagrams *datagrams);

// Takes what has come and what was sent; true if anything moved.
bool rs_datagrams_progress(struct rs *rs);
// Has the descriptor become readable when anything comes or was sent; false if that was so already.
bool rs_datagrams_arm(struct rs *rs);
int rs_datagrams_fd(const struct rs *rs);
bool rs_datagrams_take_events(struct rs *rs); // true: it must be armed anew
short rs_datagrams_events(const struct rs *rs);
bool rs_datagrams_may_send(const struct rs *rs);
bool rs_datagrams_may_receive(const struct rs *rs); // or nothing more will come
bool rs_datagrams_are_sent(const struct rs *rs);

// Whether it has a queue pair, whose sizes are settled.
bool rs_datagrams_has_path(const struct rs *rs);
int rs_datagrams_connect(struct rs *rs, const struct sockaddr *addr); // AF_UNSPEC: no more
int rs_datagrams_shutdown(struct rs *rs, int how);
// All of `source` as one datagram to `dest`, or NULL: the peer that it is connected to. How many
// octets; -1 with errno. rs_datagrams_may_send holds.
ssize_t rs_datagrams_send(struct rs *rs, struct rs_source *source, bool is_nonblocking,
                          const struct sockaddr *dest);
// The next one into `parts`, what does not fit is lost (MSG_TRUNC in `ret_flags`). `ret_sender` is
// AF_UNSPEC when the socket was shut down. rs_datagrams_may_receive holds.
ssize_t rs_datagrams_receive(struct rs *rs, const struct iovec *parts, size_t count, int flags,
                             struct sockaddr_storage *ret_sender, int *ret_flags);

/* ---- connecting (startup.c); lock held ------------------------------------------------------- */

// Takes the events of the socket's channel; true if there was one.
bool rs_startup_progress(struct rs *rs);
void rs_failed(struct rs *rs, int error);

static inline bool rs_is_starting(const struct rs *rs)
{
    return rs->state == RS_CONNECTING || rs->state == RS_ACCEPTING;
}

/* ---- completions (look.c); lock held --------------------------------------------------------- */

// Gives what has completed to `take`, as many as one look may. How many; -1: the CQ is broken. With
// `ret_has_more` no event tells of what is left, so who would sleep looks again first.
int rs_look(struct ibv_cq *cq, void (*take)(void *ctx, const struct ibv_wc *wc), void *ctx,
            bool *ret_has_more);

/* ---- waiting (wait.c); lock held ------------------------------------------------------------- */

// Moves the socket on, as far as one look goes (look.c); true if anything moved.
bool rs_progress(struct rs *rs);
// Wakes who waits for the socket.
void rs_wake(struct rs *rs);
// Lets go of the lock while waiting. Until `is_met`; -1 with errno: EAGAIN when that would have to
// wait and `is_nonblocking`, EINTR, EBADF when the socket is closed meanwhile.
int rs_wait_until(struct rs *rs, bool is_nonblocking, bool (*is_met)(const struct rs *rs));
// The same, no longer than until then: ETIMEDOUT.
int rs_wait_within(struct rs *rs, int64_t until_ns, bool (*is_met)(const struct rs *rs));
// 0 once data may flow; -1 with errno (EAGAIN too).
int rs_await_connected(struct rs *rs, bool is_nonblocking);
// Until rs_stream_may_send. -1 with errno: EAGAIN, ECONNRESET when nothing can be sent any more.
int rs_await_sendable(struct rs *rs, bool is_nonblocking);

// Did the program say by SO_LINGER how long rclose waits (options.linger_s)? (option.c)
bool rs_lingers(const struct rs *rs);

// When a time-out that begins now is over; below 0: it has no end.
int64_t rs_until_ns(int timeout_ms);
// What is left of it, rounded up, for poll(); -1: it has no end.
int rs_left_ms(int64_t until_ns);

static inline bool rs_is_nonblocking(const struct rs *rs, int message_flags)
{
    return (rs->flags & O_NONBLOCK) != 0 || (message_flags & MSG_DONTWAIT) != 0;
}

/* ---- sets of sockets (epoll.c) --------------------------------------------------------------- */

// Of <rdma/rsocket.h> newer than rdma-core 64.
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

int rs_epoll_close(int fd); // -1 with EBADF: no set; who waits there gives up
// No set watches that socket any more.
void rs_epoll_forget(int fd);

/* ---- mapped memory (iomap.c); lock held ------------------------------------------------------ */

// Tells the peer of what riomap has mapped meanwhile. -1 with errno.
int rs_iomap_flush(struct rs *rs, bool is_nonblocking);
void rs_iomap_free_all(struct rs *rs);

/* ---- creation and end (socket.c) ------------------------------------------------------------- */

// A socket around `id` on `channel`; both become its own, also on failure. -1 with errno.
int rs_open(struct rdma_event_channel *channel, struct rdma_cm_id *id,
            const struct rs_options *options, struct rs **ret);
// Likewise, a socket of datagrams around a UDP socket.
int rs_open_datagrams(int udp_fd, struct rs_datagrams *datagrams, const struct rs_options *options,
                      struct rs **ret);
// Takes it out of the table, waits until nobody uses it any more, frees it.
void rs_close(struct rs *rs);

/* ---- names (name.c) -------------------------------------------------------------------------- */

// As much of an address as there is room for; `addrlen` is what there would be.
void rs_addr_copy(const struct sockaddr *from, struct sockaddr *addr, socklen_t *addrlen);
