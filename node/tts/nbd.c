// NBD: the listener, the clients' sockets, and the TTS as the UMA sees it.

#include "node/tts/nbd.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "node/tts/address.h"
#include "node/tts/nbd_connection.h"

enum { ACCEPT_BATCH = 16, URI_MAX = 512, LINE_MAX = 256 };

static const duration_ns handshake_ns = 10 * NS_PER_S;
static const duration_ns drain_ns = 5 * NS_PER_S;

void nbd_touch(struct nbd_connection *c)
{
    if (list_is_empty(&c->dirty_link)) {
        list_push_tail(&c->nbd->dirty, &c->dirty_link);
    }
}

bool nbd_is_there(const struct nbd *nbd, const struct resource *row, const struct client *client)
{
    bool is_probed = row->profile.block_size > 0; // the volume may be empty
    return row->state != RESOURCE_FAILED && is_probed &&
           nbd->parts.uma->may_see(nbd->parts.uma_ctx, row->volume, client);
}

const struct resource *nbd_volume(const struct nbd *nbd, const char *name,
                                  const struct client *client)
{
    const struct nbd_parts *parts = &nbd->parts;
    const struct resource_table *table = parts->uma->resources(parts->uma_ctx);
    for (size_t i = 0; i < table->count; i++) {
        const struct resource *row = &table->rows[i];
        bool is_named = *name == '\0' || strcmp(row->name, name) == 0;
        if (is_named && nbd_is_there(nbd, row, client)) {
            return row;
        }
    }
    return NULL;
}

/* ---- a connection's life --------------------------------------------------------------------- */

static void memory_free(struct nbd_connection *c)
{
    free(c->in);
    free(c->out);
    free(c->requests);
    free(c);
}

static void connection_free(struct nbd_connection *c)
{
    struct nbd *nbd = c->nbd;
    list_remove(&c->link);
    list_remove(&c->dirty_link);
    nbd->connection_count--;
    memory_free(c);
}

// Closes the socket. What is under way at the CTA ends as it will.
static void connection_end(struct nbd_connection *c, instant_ns now)
{
    if (c->state == NBD_ENDING) {
        return;
    }
    bool is_connecting = c->state == NBD_CONNECTING;
    c->state = NBD_ENDING;
    c->deadline = INSTANT_NEVER;
    c->receiving.is_awaited = c->sending.is_awaited = false;
    loop_unwatch(c->watch);
    c->watch = NULL;
    close(c->fd);
    c->fd = -1;
    nbd_abandon(c, now);
    c->has_left = !is_connecting; // else once the UMA has answered
    nbd_touch(c);
}

static void watch_change(struct nbd_connection *c, uint32_t events)
{
    if (c->watched != events) {
        c->watched = events;
        loop_watch_change(c->watch, events);
    }
}

static int out_send(struct nbd_connection *c)
{
    while (c->out_sent < c->out_len) {
        ssize_t sent = send(c->fd, c->out + c->out_sent, c->out_len - c->out_sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            return errno == EINTR ? -EAGAIN : -errno;
        }
        c->out_sent += (uint32_t)sent;
    }
    free(c->out);
    c->out = NULL;
    c->out_len = c->out_sent = 0;
    if (c->is_full) {
        c->is_full = false;
        nbd_touch(c);
    }
    return 0;
}

static void in_make_room(struct nbd_connection *c)
{
    if (c->in_at > 0) {
        memmove(c->in, c->in + c->in_at, c->in_len - c->in_at);
        c->in_len -= c->in_at;
        c->in_at = 0;
    }
}

// A connection without input needs no place for it.
static void in_rest(struct nbd_connection *c)
{
    if (c->in != NULL && c->in_at == c->in_len) {
        spare_give(&c->nbd->spare, c->in);
        c->in = NULL;
        c->in_at = c->in_len = 0;
    }
}

// 0, -EAGAIN, or another negative errno: the client is gone.
static int in_read(struct nbd_connection *c)
{
    in_make_room(c);
    c->in = c->in != NULL ? c->in : spare_take(&c->nbd->spare, NBD_IN_LEN);
    if (c->in == NULL) {
        return -ENOMEM;
    }
    ssize_t got = recv(c->fd, c->in + c->in_len, NBD_IN_LEN - c->in_len, MSG_DONTWAIT);
    if (got <= 0) {
        return got == 0 ? -ECONNRESET : (errno == EINTR ? -EAGAIN : -errno);
    }
    c->in_len += (uint32_t)got;
    return 0;
}

// Takes what there is, reads more, until nothing is there or something else must happen first.
static void take_all(struct nbd_connection *c, instant_ns now)
{
    for (;;) {
        enum nbd_verdict verdict =
            c->state == NBD_TRANSMISSION ? nbd_transmit(c, now) : nbd_negotiate(c);
        bool must_read = verdict == NBD_NEEDS_MORE;
        int error = must_read ? in_read(c) : 0;
        if (verdict == NBD_MALFORMED) {
            c->nbd->counters.malformed++;
            connection_end(c, now);
            return;
        }
        if (verdict == NBD_LEAVES || (error != 0 && error != -EAGAIN)) {
            out_send(c); // the goodbye
            connection_end(c, now);
            return;
        }
        if (verdict == NBD_STOPS || error == -EAGAIN) {
            bool is_between = c->writing == NULL && c->skip == 0 && c->in_at == c->in_len;
            if (c->drain == NBD_TAKES_REST && error == -EAGAIN && is_between) {
                c->drain = NBD_ANSWERS_REST;
            }
            return;
        }
    }
}

// Is the next thing to come of use?
static bool wants_input(const struct nbd_connection *c)
{
    if (c->state == NBD_CONNECTING || c->is_full || c->drain == NBD_ANSWERS_REST) {
        return false;
    }
    bool waits_for_buffer = c->writing != NULL && !c->may_fill;
    return c->state != NBD_TRANSMISSION || (!waits_for_buffer && !list_is_empty(&c->free));
}

// What is awaited of the client, for which it holds memory.
static void progress_update(struct nbd_connection *c, instant_ns now)
{
    duration_ns patience = c->nbd->parts.patience_ns;
    progress_await(&c->receiving, c->writing != NULL && c->may_fill, patience, now);
    progress_await(&c->sending, !list_is_empty(&c->replies), patience, now);
}

// What has come since: closing with it unread would be a reset, and answers on their way be lost.
static void in_discard(const struct nbd_connection *c)
{
    uint8_t octets[4096];
    for (unsigned i = 0; i < 256 && recv(c->fd, octets, sizeof octets, MSG_DONTWAIT) > 0; i++) {
    }
}

static void update(struct nbd_connection *c, instant_ns now)
{
    if (c->state != NBD_ENDING && c->is_dropped && c->state != NBD_CONNECTING) {
        connection_end(c, now);
    }
    // What was read with an earlier request, and had to wait, can go on without the socket.
    bool has_more = c->in_at < c->in_len || c->may_fill || c->drain == NBD_TAKES_REST;
    if (c->state != NBD_ENDING && has_more && wants_input(c)) {
        take_all(c, now);
    }
    if (c->state != NBD_ENDING) {
        int error = out_send(c);
        if (error == 0) {
            error = nbd_reply(c, now);
        }
        bool is_drained = c->drain == NBD_ANSWERS_REST && c->under_way == 0 && error == 0;
        if (is_drained) {
            in_discard(c);
        }
        if (is_drained || (error != 0 && error != -EAGAIN)) {
            connection_end(c, now);
        } else {
            watch_change(c, (wants_input(c) ? EPOLLIN : 0U) | (error != 0 ? EPOLLOUT : 0U));
            progress_update(c, now);
        }
    }
    in_rest(c);
    if (c->state == NBD_ENDING && c->has_left && c->under_way == 0) {
        if (c->is_established) {
            c->nbd->parts.uma->disconnect(c->nbd->parts.uma_ctx, c->connection);
        }
        connection_free(c);
    }
}

static void on_socket(void *ctx, uint32_t events)
{
    struct nbd_connection *c = ctx;
    instant_ns now = loop_now(c->nbd->parts.loop);
    nbd_touch(c);
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) {
        connection_end(c, now);
    } else if ((events & EPOLLIN) != 0 && wants_input(c)) {
        take_all(c, now);
    }
}

/* ---- accepting ------------------------------------------------------------------------------- */

static void connection_begin(struct nbd *nbd, int fd, const char *host)
{
    struct nbd_connection *c = calloc(1, sizeof *c);
    int one = 1;
    if (c == NULL) {
        close(fd);
        return;
    }
    *c = (struct nbd_connection){.nbd = nbd, .fd = fd, .watched = EPOLLIN};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    c->watch = loop_watch(nbd->parts.loop, fd, EPOLLIN, on_socket, c);
    if (c->watch == NULL) {
        close(fd);
        free(c);
        return;
    }
    c->deadline = instant_after(loop_now(nbd->parts.loop), handshake_ns);
    c->connect.tts = &nbd_for_uma;
    c->connect.service = &nbd_for_cta;
    c->connect.tts_ctx = nbd;
    c->connect.cookie = (uint64_t)(uintptr_t)c;
    address_of_peer(fd, c->connect.client.address, sizeof c->connect.client.address);
    snprintf(c->connect.client.host, sizeof c->connect.client.host, "%s", host);
    list_push_tail(&nbd->connections, &c->link);
    list_init(&c->dirty_link);
    nbd->connection_count++;
    list_init(&c->free);
    list_init(&c->replies);
    if (!nbd_greet(c)) {
        connection_end(c, loop_now(nbd->parts.loop));
    }
}

// NULL, or why one more connection from this host cannot be had.
static const char *refusal(const struct nbd *nbd, const char *host)
{
    unsigned count = 0;
    for (const struct list_link *l = nbd->connections.next; l != &nbd->connections; l = l->next) {
        const struct client *client = &LIST_ENTRY(l, struct nbd_connection, link)->connect.client;
        count += strcmp(client->host, host) == 0;
    }
    if (nbd->connection_count >= NBD_CONNECTION_MAX) {
        return "the node has as many NBD connections as it can";
    }
    return count >= NBD_CONNECTION_OF_HOST_MAX ? "too many connections come from there" : NULL;
}

static void connection_refuse(struct nbd *nbd, int fd, const char *host, const char *why)
{
    char line[LINE_MAX], address[CLIENT_ADDRESS_MAX];
    address_of_peer(fd, address, sizeof address);
    snprintf(line, sizeof line, "nbd: a client at %s is refused: %s", address, why);
    nbd->parts.say(nbd->parts.ctx, host, line);
    nbd->counters.refused++;
    close(fd);
}

static void on_listener(void *ctx, uint32_t events)
{
    struct nbd *nbd = ctx;
    for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
        int fd = accept4(nbd->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        char host[CLIENT_HOST_MAX];
        address_host_of_peer(fd, host, sizeof host);
        const char *why = refusal(nbd, host);
        nbd->counters.accepted++;
        if (why != NULL) {
            connection_refuse(nbd, fd, host, why);
        } else {
            connection_begin(nbd, fd, host);
        }
    }
}

/* ---- what the UMA calls ---------------------------------------------------------------------- */

static int tts_start(void *ctx, char *ret_why)
{
    struct nbd *nbd = ctx;
    int fd = address_listen(nbd->parts.listen, nbd->unix_path, sizeof nbd->unix_path, ret_why);
    if (fd < 0) {
        return fd;
    }
    nbd->listen_fd = fd;
    nbd->listen_watch = loop_watch(nbd->parts.loop, fd, EPOLLIN, on_listener, nbd);
    address_of_listener(fd, nbd->authority, sizeof nbd->authority);
    return nbd->listen_watch != NULL ? 0 : -ENOMEM;
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    // Clients ask (NBD_OPT_LIST); the protocol has no way to tell them.
}

static void tts_on_connected(void *ctx, struct connect_request *request)
{
    struct nbd_connection *c = LIST_ENTRY(request, struct nbd_connection, connect);
    if (c->state == NBD_ENDING) { // the client left meanwhile
        c->connection = request->connection;
        c->is_established = request->status == CONNECT_OK;
        c->has_left = true;
    } else {
        c->deadline = INSTANT_NEVER;
        nbd_answer_connect(c);
    }
    nbd_touch(c);
}

static void tts_drop(void *ctx, uint32_t connection)
{
    struct nbd *nbd = ctx;
    for (struct list_link *l = nbd->connections.next; l != &nbd->connections; l = l->next) {
        struct nbd_connection *c = LIST_ENTRY(l, struct nbd_connection, link);
        if (c->is_established && c->connection == connection) {
            c->is_dropped = true;
            nbd_touch(c);
        }
    }
}

static void listener_close(struct nbd *nbd)
{
    if (nbd->listen_fd >= 0) {
        loop_unwatch(nbd->listen_watch);
        close(nbd->listen_fd);
        nbd->listen_fd = -1;
        if (nbd->unix_path[0] != '\0') {
            unlink(nbd->unix_path);
        }
    }
}

static void tts_stop(void *ctx)
{
    struct nbd *nbd = ctx;
    instant_ns now = loop_now(nbd->parts.loop);
    listener_close(nbd);
    for (struct list_link *l = nbd->connections.next; l != &nbd->connections; l = l->next) {
        struct nbd_connection *c = LIST_ENTRY(l, struct nbd_connection, link);
        if (c->state == NBD_TRANSMISSION) {
            c->drain = NBD_TAKES_REST;
            c->deadline = instant_after(now, drain_ns);
        } else {
            c->is_dropped = true;
        }
        nbd_touch(c);
    }
}

static void tts_uri(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct nbd *nbd = ctx;
    if (nbd->unix_path[0] != '\0') {
        snprintf(ret, capacity, "nbd+unix:///%s?socket=%s", volume->name, nbd->unix_path);
    } else {
        snprintf(ret, capacity, "nbd://%s/%s", nbd->authority, volume->name);
    }
}

static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    char uri[URI_MAX];
    tts_uri(ctx, volume, uri, sizeof uri);
    snprintf(ret, capacity, "qemu-img info '%s'", uri);
}

const struct tts_for_uma nbd_for_uma = {
    .name = "nbd",
    .start = tts_start,
    .advertise = tts_advertise,
    .on_connected = tts_on_connected,
    .drop = tts_drop,
    .stop = tts_stop,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- a member of the loop -------------------------------------------------------------------- */

static void on_batch_end(void *ctx, instant_ns now)
{
    struct nbd *nbd = ctx;
    for (struct list_link *l; (l = list_pop_head(&nbd->dirty)) != NULL;) {
        update(LIST_ENTRY(l, struct nbd_connection, dirty_link), now);
    }
}

static instant_ns deadline_of(const struct nbd_connection *c)
{
    instant_ns at = instant_min(progress_deadline(&c->receiving), progress_deadline(&c->sending));
    return instant_min(at, c->deadline);
}

static instant_ns next_deadline(void *ctx)
{
    struct nbd *nbd = ctx;
    instant_ns at = INSTANT_NEVER;
    for (struct list_link *l = nbd->connections.next; l != &nbd->connections; l = l->next) {
        at = instant_min(at, deadline_of(LIST_ENTRY(l, struct nbd_connection, link)));
    }
    return at;
}

// What the kernel has for the client goes with the connection.
static void connection_abort(struct nbd_connection *c, instant_ns now)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    connection_end(c, now);
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct nbd *nbd = ctx;
    struct list_link *next;
    for (struct list_link *l = nbd->connections.next; l != &nbd->connections; l = next) {
        struct nbd_connection *c = LIST_ENTRY(l, struct nbd_connection, link);
        next = l->next;
        if (deadline_of(c) <= now) {
            nbd->counters.stalled++;
            connection_abort(c, now);
        }
    }
}

struct nbd *nbd_create(const struct nbd_parts *parts)
{
    struct nbd *nbd = calloc(1, sizeof *nbd);
    if (nbd == NULL) {
        return NULL;
    }
    nbd->parts = *parts;
    nbd->listen_fd = -1;
    list_init(&nbd->connections);
    list_init(&nbd->dirty);
    nbd->member = (struct loop_member){.ctx = nbd,
                                       .on_batch_end = on_batch_end,
                                       .next_deadline = next_deadline,
                                       .on_deadline = on_deadline};
    loop_join(parts->loop, &nbd->member);
    return nbd;
}

void nbd_destroy(struct nbd *nbd)
{
    if (nbd == NULL) {
        return;
    }
    listener_close(nbd);
    for (struct list_link *l; (l = list_pop_head(&nbd->connections)) != NULL;) {
        struct nbd_connection *c = LIST_ENTRY(l, struct nbd_connection, link);
        if (c->fd >= 0) {
            loop_unwatch(c->watch);
            close(c->fd);
        }
        memory_free(c);
    }
    spare_fini(&nbd->spare);
    loop_leave(nbd->parts.loop, &nbd->member);
    free(nbd);
}

struct nbd_counters nbd_counters(const struct nbd *nbd)
{
    return nbd->counters;
}
