// The socket of a connection, and what both ends agree on before the first capsule.

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/list.h"
#include "base/poll_ms.h"
#include "base/time.h"
#include "clock/clock.h"
#include "descriptor/descriptor.h"
#include "format/nvme_tcp_wire.h"
#include "initiator/tcp/stream.h"

// What it did.
static int say(struct why *ret_why, int error, const char *host, const char *port, const char *what)
{
    why_say(ret_why, "%s:%s %s", host, port, what);
    return error;
}

// What the system says of it.
static int say_of_system(struct why *ret_why, int error, const char *host, const char *port,
                         const char *what)
{
    why_say(ret_why, "%s:%s: %s", host, port, what);
    return error;
}

/* ---- memory ---------------------------------------------------------------------------------- */

int pdu_stream_init(struct pdu_stream *s, unsigned depth, unsigned index_bits)
{
    *s = (struct pdu_stream){.fd = -1, .depth = depth, .index_bits = index_bits, .align = 4};
    list_init(&s->outs);
    s->commands = calloc(depth, sizeof *s->commands);
    s->in = malloc(PDU_IN_LEN);
    if (s->commands == NULL || s->in == NULL) {
        return -ENOMEM;
    }
    for (unsigned i = 0; i < depth; i++) {
        list_init(&s->commands[i].link);
    }
    return 0;
}

void pdu_stream_close(struct pdu_stream *s)
{
    if (s->fd >= 0) {
        close(s->fd);
        s->fd = -1;
    }
    s->incoming = NULL;
    s->in_at = s->in_len = 0;
}

void pdu_stream_destroy(struct pdu_stream *s)
{
    pdu_stream_close(s);
    free(s->commands);
    free(s->in);
}

/* ---- time ------------------------------------------------------------------------------------ */

// False: the time is up.
static bool await(int fd, short events, instant_ns until)
{
    struct pollfd ready = {.fd = fd, .events = events};
    for (;;) {
        instant_ns now = clock_now();
        int left_ms = poll_ms(now, until);
        int count = poll(&ready, 1, left_ms);
        if (count > 0 || left_ms == 0 || (count < 0 && errno != EINTR)) {
            return count > 0;
        }
    }
}

/* ---- the socket ------------------------------------------------------------------------------ */

static int socket_open(const struct addrinfo *to, instant_ns until, int *ret_fd)
{
    int error = 0, on = 1;
    socklen_t len = sizeof error;
    int fd = descriptor_above_standard(
        socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (fd < 0) {
        return -errno;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
        error = errno;
        if (error == EINPROGRESS) {
            error = !await(fd, POLLOUT, until)                                ? ETIMEDOUT
                    : getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0 ? errno
                                                                              : error;
        }
    }
    if (error != 0) {
        close(fd);
        return -error;
    }
    *ret_fd = fd;
    return 0;
}

// Tries the host's addresses in turn.
static int reach(struct pdu_stream *s, const char *host, const char *port, instant_ns until,
                 struct why *ret_why)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int error = getaddrinfo(host, port, &hints, &found);
    if (error != 0) {
        return say_of_system(ret_why, -EADDRNOTAVAIL, host, port, gai_strerror(error));
    }
    error = -EHOSTUNREACH;
    for (const struct addrinfo *i = found; i != NULL && error != 0; i = i->ai_next) {
        error = socket_open(i, until, &s->fd);
    }
    freeaddrinfo(found);
    return error == 0 ? 0 : say_of_system(ret_why, error, host, port, strerror(-error));
}

/* ---- ICReq and ICResp ------------------------------------------------------------------------ */

// All `len` octets, one way or the other.
static int exchange(int fd, uint8_t *data, size_t len, bool is_out, instant_ns until)
{
    for (size_t done = 0; done < len;) {
        ssize_t part = is_out ? send(fd, data + done, len - done, MSG_NOSIGNAL)
                              : recv(fd, data + done, len - done, 0);
        if (part == 0) {
            return -ECONNRESET;
        }
        if (part < 0 && errno != EINTR && errno != EAGAIN) {
            return -errno;
        }
        if (part < 0 && errno == EAGAIN && !await(fd, is_out ? POLLOUT : POLLIN, until)) {
            return -ETIMEDOUT;
        }
        done += part > 0 ? (size_t)part : 0;
    }
    return 0;
}

static int response_take(struct pdu_stream *s, const uint8_t *pdu, uint8_t wished)
{
    uint8_t digests = pdu[NVME_TCP_IC_OFF_DIGEST], align = pdu[NVME_TCP_IC_OFF_PDA];
    uint32_t most = get_le32(pdu + NVME_TCP_IC_OFF_MAXDATA);
    if (pdu[NVME_TCP_OFF_TYPE] != NVME_TCP_IC_RESP || pdu[NVME_TCP_OFF_HLEN] != NVME_TCP_IC_LEN ||
        get_le32(pdu + NVME_TCP_OFF_PLEN) != NVME_TCP_IC_LEN ||
        get_le16(pdu + NVME_TCP_IC_OFF_PFV) != 0 || align > NVME_TCP_PDA_MAX ||
        (digests & ~wished) != 0 || most < 4096) {
        return -EPROTO;
    }
    s->has_header_digest = (digests & NVME_TCP_IC_HDGST) != 0;
    s->has_data_digest = (digests & NVME_TCP_IC_DDGST) != 0;
    s->align = 4 * (align + 1u);
    s->data_max = most;
    return 0;
}

static int initialize(struct pdu_stream *s, uint8_t digests, instant_ns until)
{
    uint8_t pdu[NVME_TCP_IC_LEN] = {[NVME_TCP_OFF_TYPE] = NVME_TCP_IC_REQ,
                                    [NVME_TCP_OFF_HLEN] = NVME_TCP_IC_LEN,
                                    [NVME_TCP_IC_OFF_DIGEST] = digests};
    put_le32(pdu + NVME_TCP_OFF_PLEN, NVME_TCP_IC_LEN);
    int error = exchange(s->fd, pdu, sizeof pdu, true, until);
    if (error == 0) {
        error = exchange(s->fd, pdu, sizeof pdu, false, until);
    }
    return error == 0 ? response_take(s, pdu, digests) : error;
}

int pdu_stream_connect(struct pdu_stream *s, const char *host, const char *port, uint8_t digests,
                       unsigned timeout_ms, struct why *ret_why)
{
    instant_ns until = instant_after(clock_now(), timeout_ms * NS_PER_MS);
    int error = reach(s, host, port, until, ret_why);
    if (error != 0) {
        return error;
    }
    switch (error = initialize(s, digests, until)) {
    case 0:
        return 0;
    case -EPROTO:
        return say(ret_why, error, host, port, "answers, but not as an NVMe/TCP target");
    case -ETIMEDOUT:
        return say(ret_why, error, host, port, "did not answer in time");
    default:
        return say(ret_why, -ECONNRESET, host, port, "ended the connection: no NVMe/TCP target?");
    }
}
