// What the files of the socket link share.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/list.h"
#include "base/time.h"
#include "link/rest.h"
#include "link/socket.h"
#include "link/sys.h"

struct socket_link {
    struct link base;
    struct link_socket_config config;
    int epoll_fd;
    int wake_fd;          // eventfd; its report carries a NULL stream
    atomic_bool has_wake; // it was written to since `wait` looked last: never false too early
    int spare_fd; // given up for a moment to refuse a connection when descriptors have run out
    struct list_link streams; // open ones
    struct list_link starved; // listeners that found no descriptor even so
    struct rest rest;
};

struct socket_stream {
    struct link_stream base;
    struct list_link link;         // in `streams`, or at rest
    struct list_link starved_link; // in `starved`, or in none
    int fd;                        // -1: no address family is known yet, or abandoned
    int family;
    int tos; // -1: the kernel's
    bool is_listener;
    bool is_connected; // connect or accept was successful, or is under way
    bool is_up;        // ... and connect_result has said so
    bool is_adopted;   // no TCP
    bool wants_in;
    bool wants_out;
    bool has_fin;     // the peer's
    bool is_shut;     // ours
    bool is_broken;   // an error was reported: nothing more will happen
    bool is_watched;  // in the epoll set ...
    uint32_t watched; // ... for these events
};

static inline struct socket_link *socket_link_of(struct link *link)
{
    return (struct socket_link *)link;
}

static inline struct socket_stream *socket_stream_of(const struct link_stream *stream)
{
    return (struct socket_stream *)stream;
}

// Brings the epoll set into line with what the stream wants: one system call when something
// changed, none otherwise. Returns 0 or a negative errno.
int socket_watch(struct socket_stream *s);

// Once connected: to a peer with the same address nothing is paced.
void socket_forgo_pacing(int fd);

// socket_io.c, as in struct link_ops
ssize_t socket_recv(struct link_stream *stream, struct mspan into);
ssize_t socket_send(struct link_stream *stream, const struct link_tx *tx);
void socket_want_out(struct link_stream *stream, bool wanted);
void socket_want_in(struct link_stream *stream, bool wanted);
// Before FIN: what TCP keeps of the connection (TIME-WAIT) keeps the option, so the next who wants
// the port may replace it.
static inline void socket_yield_port(int fd)
{
    sys_setsockopt_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
}

int socket_shutdown(struct link_stream *stream);
int socket_connect_result(struct link_stream *stream);
int socket_poll(struct link *link, struct link_ready *ret, unsigned max);
void socket_wait(struct link *link, duration_ns timeout_ns);
void socket_wake(struct link *link);
