#include "node/stream/stream.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/lookout.h"
#include "base/time.h"
#include "node/loop/loop.h"
#include "node/stream/server.h"
#include "node/stream/spare.h"

enum {
    READ_AT_ONCE = 1 << 20, // then others have their turn
    DIRECT_MIN = 4 << 10,   // fewer come with what follows them
    DISCARD_TURNS = 256,
    MESSAGE_STEPS = 2, // of take: itself, and its data
};

static const duration_ns rest_within_ns = 4 * NS_PER_US;

void stream_touch(struct stream *s)
{
    if (list_is_empty(&s->dirty_link)) {
        list_push_tail(&s->server->dirty, &s->dirty_link);
    }
}

/* ---- the end --------------------------------------------------------------------------------- */

// What is under way at the agents ends as it will.
static void end(struct stream *s, instant_ns now)
{
    if (s->fd < 0) {
        return;
    }
    s->receiving.is_awaited = s->sending.is_awaited = false;
    s->server->heard = s->server->heard != s ? s->server->heard : NULL;
    deadline_disarm(&s->server->deadlines, &s->deadline);
    loop_unwatch(s->watch);
    s->watch = NULL;
    close(s->fd);
    s->fd = -1;
    s->server->protocol->on_end(s, now);
    stream_touch(s);
}

void stream_abort(struct stream *s, instant_ns now)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(s->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    end(s, now);
}

void stream_destroy(struct stream *s)
{
    struct stream_server *server = s->server;
    if (s->fd >= 0) {
        loop_unwatch(s->watch);
        close(s->fd);
    }
    deadline_disarm(&server->deadlines, &s->deadline);
    list_remove(&s->link);
    list_remove(&s->dirty_link);
    spare_give(&server->spare, s->in);
    server->stream_count--;
    server->protocol->destroy(s);
}

/* ---- input ----------------------------------------------------------------------------------- */

static void in_make_room(struct stream *s)
{
    if (s->in_at > 0) {
        memmove(s->in, s->in + s->in_at, s->in_len - s->in_at);
        s->in_len -= s->in_at;
        s->in_at = 0;
    }
}

// A stream without input needs no place for it.
static void in_rest(struct stream *s)
{
    if (s->in != NULL && s->in_at == s->in_len) {
        spare_give(&s->server->spare, s->in);
        s->in = NULL;
        s->in_at = s->in_len = 0;
    }
}

// Where octets go next, `*ret_len` of them. NULL without memory.
static uint8_t *in_aim(struct stream *s, uint32_t *ret_len, bool *ret_is_direct)
{
    const struct stream_protocol *p = s->server->protocol;
    uint8_t *direct = p->direct != NULL && s->in_at == s->in_len ? p->direct(s, ret_len) : NULL;
    *ret_is_direct = direct != NULL && *ret_len >= DIRECT_MIN;
    if (*ret_is_direct) {
        return direct;
    }
    in_make_room(s);
    s->in = s->in != NULL ? s->in : spare_take(&s->server->spare, p->in_len);
    *ret_len = p->in_len - s->in_len;
    return s->in != NULL ? s->in + s->in_len : NULL;
}

// The count of octets, -EAGAIN, or another negative errno: the peer is gone.
static ssize_t in_read(struct stream *s, instant_ns now)
{
    uint32_t room;
    bool is_direct;
    uint8_t *to = in_aim(s, &room, &is_direct);
    if (to == NULL) {
        return -ENOMEM;
    }
    ssize_t got = recv(s->fd, to, room, MSG_DONTWAIT);
    if (s->is_lingering) {
        s->is_lingering = false;
        lookout_note(&s->lookout, got > 0);
    }
    if (got <= 0) {
        s->is_dry = got < 0 && errno == EAGAIN;
        return got == 0 ? -ECONNRESET : (errno == EINTR ? -EAGAIN : -errno);
    }
    s->is_dry = (size_t)got < room; // there is no more: what comes later is told of
    progress_note(&s->receiving, (uint64_t)got, s->server->parts.patience_ns, now);
    if (is_direct) {
        s->server->protocol->received(s, (uint32_t)got, now);
    } else {
        s->in_len += (uint32_t)got;
    }
    return got;
}

// A message has begun to come. Its rest is often sent by another call, which follows closer than
// this thread falls asleep and is woken: it is given a moment.
static void rest_await(struct stream *s)
{
    if (s->in_at < s->in_len && lookout_is_worth_it(&s->lookout)) {
        instant_ns until = instant_after(loop_clock(), rest_within_ns);
        while (loop_clock() < until) {
        }
        s->is_lingering = true;
        s->is_dry = false;
    }
}

// What take has asked for: the count of octets, -EAGAIN: not now, or another negative errno: the
// end.
static ssize_t go_on(struct stream *s, enum stream_verdict verdict, ssize_t left, instant_ns now)
{
    if (verdict == STREAM_LEAVES) {
        return -ECONNRESET;
    }
    if (s->is_dry) {
        rest_await(s);
    }
    return left <= 0 || s->is_dry ? -EAGAIN : in_read(s, now);
}

static void leave(struct stream *s, instant_ns now)
{
    s->server->protocol->flush(s, now); // the goodbye
    end(s, now);
}

// Takes what there is, reads more, until nothing is there, something else must happen first, or
// others should have their turn.
static void take_all(struct stream *s, instant_ns now)
{
    const struct stream_protocol *p = s->server->protocol;
    ssize_t left = READ_AT_ONCE;
    s->is_short = false;
    s->step_count = 0;
    for (;;) {
        enum stream_verdict verdict = p->take(s, now);
        if (verdict == STREAM_GOES_ON) {
            s->step_count++;
            continue;
        }
        if (verdict == STREAM_STOPS) {
            return;
        }
        ssize_t got = go_on(s, verdict, left, now);
        if (got == -EAGAIN) {
            s->is_short = s->is_dry;
            return;
        }
        if (got < 0) {
            leave(s, now);
            return;
        }
        left -= got;
    }
}

// Who says several things at once, or among others, goes on without an answer, or is not the next.
static void hear(struct stream *s, instant_ns now)
{
    struct stream_server *server = s->server;
    take_all(s, now);
    server->heard_at = now;
    server->is_answered = false;
    server->heard_count++;
    server->is_alone = server->heard == s && s->step_count <= MESSAGE_STEPS;
    server->heard = s->fd >= 0 ? s : NULL;
}

void stream_look(struct stream *s, instant_ns now)
{
    ssize_t got = s->server->protocol->wants_input(s) ? in_read(s, now) : -EAGAIN;
    if (got == -EAGAIN) {
        in_rest(s);
        return;
    }
    stream_touch(s);
    if (got < 0) {
        leave(s, now);
        return;
    }
    hear(s, now);
}

void stream_say_no_more(struct stream *s)
{
    shutdown(s->fd, SHUT_WR);
}

void stream_discard(struct stream *s)
{
    uint8_t octets[4096];
    for (unsigned i = 0; i < DISCARD_TURNS && recv(s->fd, octets, sizeof octets, MSG_DONTWAIT) > 0;
         i++) {
    }
}

static void on_socket(void *ctx, uint32_t events)
{
    struct stream *s = ctx;
    instant_ns now = loop_now(s->server->parts.loop);
    stream_touch(s);
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) {
        end(s, now);
    } else if ((events & EPOLLIN) != 0 && s->server->protocol->wants_input(s)) {
        s->is_dry = false;
        hear(s, now);
    }
}

/* ---- output ---------------------------------------------------------------------------------- */

ssize_t stream_send(struct stream *s, struct iovec *iov, unsigned count, instant_ns now)
{
    struct msghdr header = {.msg_iov = iov, .msg_iovlen = count};
    ssize_t sent = sendmsg(s->fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
        return errno == EINTR ? -EAGAIN : -errno;
    }
    progress_note(&s->sending, (uint64_t)sent, s->server->parts.patience_ns, now);
    s->server->is_answered |= s->server->heard == s && s->server->heard_at == now;
    return sent;
}

/* ---- the end of a batch ---------------------------------------------------------------------- */

void stream_await(struct stream *s, bool is_receiving, bool is_sending, instant_ns now)
{
    duration_ns patience = s->server->parts.patience_ns;
    progress_await(&s->receiving, is_receiving, patience, now);
    progress_await(&s->sending, is_sending, patience, now);
}

static void arm(struct stream *s)
{
    instant_ns at = instant_min(progress_deadline(&s->receiving), progress_deadline(&s->sending));
    deadline_arm(&s->server->deadlines, &s->deadline, instant_min(at, s->silent_until_ns));
}

static void watch(struct stream *s, uint32_t events)
{
    if (s->watched != events) {
        s->watched = events;
        loop_watch_change(s->watch, events);
    }
}

static void flush_and_wait(struct stream *s, instant_ns now)
{
    const struct stream_protocol *p = s->server->protocol;
    int error = p->flush(s, now);
    if (error != 0 && error != -EAGAIN) {
        end(s, now);
        return;
    }
    p->expects(s, now);
    arm(s);
    watch(s, (p->wants_input(s) ? EPOLLIN : 0U) | (error != 0 ? EPOLLOUT : 0U));
}

void stream_update(struct stream *s, instant_ns now)
{
    const struct stream_protocol *p = s->server->protocol;
    // What was read with something earlier, and had to wait, can go on without the socket.
    bool has_more =
        (s->in_at < s->in_len && !s->is_short) || (p->wants_look != NULL && p->wants_look(s));
    if (s->fd >= 0 && has_more && p->wants_input(s)) {
        s->is_dry = false;
        take_all(s, now);
    }
    if (s->fd >= 0) {
        flush_and_wait(s, now);
    }
    in_rest(s);
    if (s->fd < 0 && p->leave(s)) {
        stream_destroy(s);
    }
}

/* ---- the beginning --------------------------------------------------------------------------- */

void stream_open(struct stream_server *server, int fd, const char *host, instant_ns now)
{
    const struct stream_protocol *p = server->protocol;
    int one = 1;
    struct stream *s = p->create(server->parts.ctx);
    if (s == NULL) {
        close(fd);
        return;
    }
    s->server = server;
    s->fd = fd;
    s->watched = EPOLLIN;
    snprintf(s->host, sizeof s->host, "%s", host);
    list_init(&s->dirty_link);
    list_push_tail(&server->streams, &s->link);
    server->stream_count++;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    s->watch = loop_watch(server->parts.loop, fd, EPOLLIN, on_socket, s);
    if (s->watch == NULL) {
        stream_destroy(s);
        return;
    }
    s->silent_until_ns = instant_after(now, p->handshake_ns);
    arm(s);
    if (!p->begin(s)) {
        end(s, now);
    }
}
