#include "node/stream/server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "listen/address.h"
#include "node/interface/uma_tts.h"
#include "text/address.h"

enum { ACCEPT_BATCH = 16, LINE_MAX = 512, REASON_MAX = 128 };

/* ---- accepting ------------------------------------------------------------------------------- */

// Why one more stream from this host cannot be had; false: it can.
static bool is_beyond_limits(const struct stream_server *server, const char *host,
                             char ret_why[REASON_MAX])
{
    const struct stream_protocol *p = server->protocol;
    unsigned count = 0;
    for (const struct list_link *l = server->streams.next; l != &server->streams; l = l->next) {
        count += strcmp(LIST_ENTRY(l, struct stream, link)->host, host) == 0;
    }
    if (server->stream_count >= p->stream_max) {
        snprintf(ret_why, REASON_MAX, "the node has as many %s connections as it can", p->title);
        return true;
    }
    snprintf(ret_why, REASON_MAX, "too many connections come from there");
    return count >= p->stream_of_host_max;
}

static void refuse(struct stream_server *server, int fd, const char *host, const char *why)
{
    const struct stream_protocol *p = server->protocol;
    char line[LINE_MAX], address[TEXT_ADDRESS_MAX];
    address_of_peer(fd, address);
    snprintf(line, sizeof line, "%s: a %s at %s is refused: %s", p->name, p->peer, address, why);
    server->parts.say(server->parts.say_ctx, host, line);
    server->counters.refused++;
    close(fd);
}

static void on_listener(void *ctx, uint32_t events)
{
    struct stream_listener *listener = ctx;
    struct stream_server *server = listener->server;
    for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
        int fd = loop_accept(listener->watch);
        if (fd < 0) {
            return;
        }
        char host[CLIENT_HOST_MAX], why[REASON_MAX];
        address_host_of_peer(fd, host, sizeof host);
        server->counters.accepted++;
        if (is_beyond_limits(server, host, why)) {
            refuse(server, fd, host, why);
        } else {
            stream_open(server, fd, host, loop_now(server->parts.loop));
        }
    }
}

static int listener_open(struct stream_listener *l, struct why *ret_why)
{
    l->fd = address_listen(l->text, l->server->protocol->default_port, l->unix_path,
                           sizeof l->unix_path, ret_why);
    if (l->fd < 0) {
        return l->fd;
    }
    l->watch = loop_watch(l->server->parts.loop, l->fd, EPOLLIN, on_listener, l);
    if (l->watch == NULL) {
        close(l->fd);
        address_unlink(l->text, l->unix_path);
        why_say(ret_why, "%.64s: %s", l->text, strerror(ENOMEM));
        return -ENOMEM;
    }
    address_of_listener(l->fd, l->authority, sizeof l->authority);
    return 0;
}

static void listener_close(struct stream_listener *l)
{
    loop_unwatch(l->watch);
    close(l->fd);
    address_unlink(l->text, l->unix_path);
}

int stream_server_listen(struct stream_server *server, struct why *ret_why)
{
    const struct addresses *listen = &server->parts.listen;
    while (server->listener_count < listen->count) {
        struct stream_listener *l = &server->listeners[server->listener_count];
        *l = (struct stream_listener){.server = server, .text = listen->of[server->listener_count]};
        int error = listener_open(l, ret_why);
        if (error != 0) {
            stream_server_close(server);
            return error;
        }
        server->listener_count++;
    }
    return 0;
}

void stream_server_close(struct stream_server *server)
{
    while (server->listener_count > 0) {
        listener_close(&server->listeners[--server->listener_count]);
    }
}

/* ---- a member of the loop -------------------------------------------------------------------- */

static void on_batch_end(void *ctx, instant_ns now)
{
    struct stream_server *server = ctx;
    for (struct list_link *l; (l = list_pop_head(&server->dirty)) != NULL;) {
        stream_update(LIST_ENTRY(l, struct stream, dirty_link), now);
    }
}

// An answer at once to what one client says alone brings its next message, often sooner than this
// thread falls asleep and is woken. Of several that speak the kernel tells with one look. Behind
// another answer the RTA that gave it looks on, and of three on two processors one had none.
static bool looks_on(struct stream_server *server)
{
    instant_ns now = loop_clock();
    return server->heard != NULL && server->is_alone && server->is_answered &&
           lookout_goes_on(&server->lookout, server->heard_count, now) &&
           loop_give_way(&server->lookout, now);
}

// Members behind this one touch streams too: a buffer that somebody waited for is given at the end.
static bool may_sleep(void *ctx)
{
    struct stream_server *server = ctx;
    bool is_settled = list_is_empty(&server->dirty);
    server->is_looking = is_settled && looks_on(server);
    return is_settled && !server->is_looking;
}

static void on_wake(void *ctx)
{
    struct stream_server *server = ctx;
    if (server->is_looking && server->heard != NULL) {
        stream_look(server->heard, loop_now(server->parts.loop));
    }
    server->is_looking = false;
}

static instant_ns server_next_deadline(void *ctx)
{
    const struct stream_server *server = ctx;
    return deadlines_next(&server->deadlines);
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct stream_server *server = ctx;
    struct deadline *d;
    while ((d = deadlines_take_due(&server->deadlines, now)) != NULL) {
        server->counters.stalled++;
        stream_abort(DEADLINE_ENTRY(d, struct stream, deadline), now);
    }
}

void stream_server_init(struct stream_server *server, const struct stream_protocol *protocol,
                        const struct stream_server_parts *parts)
{
    *server = (struct stream_server){.protocol = protocol, .parts = *parts};
    list_init(&server->streams);
    list_init(&server->dirty);
    server->member = (struct loop_member){.ctx = server,
                                          .on_batch_end = on_batch_end,
                                          .may_sleep = may_sleep,
                                          .on_wake = on_wake,
                                          .next_deadline = server_next_deadline,
                                          .on_deadline = on_deadline};
    loop_join(parts->loop, &server->member);
}

void stream_server_fini(struct stream_server *server)
{
    stream_server_close(server);
    while (!list_is_empty(&server->streams)) {
        stream_destroy(LIST_ENTRY(server->streams.next, struct stream, link));
    }
    spare_fini(&server->spare);
    loop_leave(server->parts.loop, &server->member);
}
