// NVMe/TCP: the listener, the hosts' sockets, and the TTS as the UMA sees it.

#include "node/tts/nvme_tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node/tts/address.h"
#include "node/tts/nvme_tcp_connection.h"

enum { ACCEPT_BATCH = 16, READ_AT_ONCE = 1 << 20, LINE_MAX = 256 };

static const duration_ns handshake_ns = 10 * NS_PER_S;
static const duration_ns leave_ns = 5 * NS_PER_S;

void nvme_tcp_touch(struct nvme_tcp_connection *c)
{
    if (list_is_empty(&c->dirty_link)) {
        list_push_tail(&c->tcp->dirty, &c->dirty_link);
    }
}

/* ---- a connection's life --------------------------------------------------------------------- */

static void memory_free(struct nvme_tcp_connection *c)
{
    free(c->in);
    free(c->commands);
    free(c->staging);
    free(c->scratch);
    free(c);
}

static void connection_free(struct nvme_tcp_connection *c)
{
    struct nvme_tcp *tcp = c->tcp;
    nvme_queue_destroy(c->queue);
    list_remove(&c->link);
    list_remove(&c->dirty_link);
    tcp->connection_count--;
    memory_free(c);
}

// Closes the socket. What is under way at the controllers ends as it will.
static void connection_end(struct nvme_tcp_connection *c, instant_ns now)
{
    if (c->state == NVME_TCP_ENDED) {
        return;
    }
    c->state = NVME_TCP_ENDED;
    c->deadline = INSTANT_NEVER;
    c->receiving.is_awaited = c->sending.is_awaited = false;
    loop_unwatch(c->watch);
    c->watch = NULL;
    close(c->fd);
    c->fd = -1;
    if (c->queue != NULL) {
        nvme_queue_close(c->queue, now);
    }
    nvme_tcp_abandon(c, now);
    nvme_tcp_touch(c);
}

static void watch_change(struct nvme_tcp_connection *c, uint32_t events)
{
    if (c->watched != events) {
        c->watched = events;
        loop_watch_change(c->watch, events);
    }
}

static void in_make_room(struct nvme_tcp_connection *c)
{
    if (c->in_at > 0) {
        memmove(c->in, c->in + c->in_at, c->in_len - c->in_at);
        c->in_len -= c->in_at;
        c->in_at = 0;
    }
}

// A connection without input needs no place for it.
static void in_rest(struct nvme_tcp_connection *c)
{
    if (c->in != NULL && c->in_at == c->in_len) {
        spare_give(&c->tcp->spare, c->in);
        c->in = NULL;
        c->in_at = c->in_len = 0;
    }
}

// The count of octets, -EAGAIN, or another negative errno: the host is gone. Large data go straight
// into place.
static ssize_t in_read(struct nvme_tcp_connection *c)
{
    uint32_t direct_len;
    uint8_t *direct = nvme_tcp_direct(c, &direct_len);
    bool is_direct = direct != NULL && direct_len >= NVME_TCP_IN_LEN / 16;
    in_make_room(c);
    c->in = c->in != NULL ? c->in : spare_take(&c->tcp->spare, NVME_TCP_IN_LEN);
    if (c->in == NULL) {
        return -ENOMEM;
    }
    ssize_t got = is_direct
                      ? recv(c->fd, direct, direct_len, MSG_DONTWAIT)
                      : recv(c->fd, c->in + c->in_len, NVME_TCP_IN_LEN - c->in_len, MSG_DONTWAIT);
    if (got <= 0) {
        return got == 0 ? -ECONNRESET : (errno == EINTR ? -EAGAIN : -errno);
    }
    if (is_direct) {
        nvme_tcp_received(c, (uint32_t)got);
    } else {
        c->in_len += (uint32_t)got;
    }
    return got;
}

// Takes what there is, reads more, until nothing is there, something else must happen first, or
// others should have their turn.
static void take_all(struct nvme_tcp_connection *c, instant_ns now)
{
    ssize_t left = READ_AT_ONCE;
    for (;;) {
        enum nvme_tcp_verdict verdict = nvme_tcp_take(c, now);
        if (verdict == NVME_TCP_GOES_ON) {
            continue;
        }
        if (verdict == NVME_TCP_STOPS || left <= 0) {
            return;
        }
        ssize_t got = in_read(c);
        if (got == -EAGAIN) {
            return;
        }
        if (got < 0) {
            connection_end(c, now);
            return;
        }
        left -= got;
        progress_note(&c->receiving, (uint64_t)got, c->tcp->parts.patience_ns, now);
    }
}

static bool wants_input(const struct nvme_tcp_connection *c)
{
    return c->state < NVME_TCP_LEAVING && !c->is_full;
}

// How long silence may last now. A Connect has until `connect_by`, however many are refused; while
// one is under way, the node is awaited.
static void deadline_set(struct nvme_tcp_connection *c, instant_ns now)
{
    duration_ns patience = c->tcp->parts.patience_ns;
    if (c->state == NVME_TCP_LEAVING) {
        c->deadline = instant_min(c->deadline, instant_after(now, leave_ns));
    } else if (c->queue != NULL &&
               (nvme_queue_is_connected(c->queue) || !nvme_queue_is_idle(c->queue))) {
        c->deadline = INSTANT_NEVER;
    } else {
        c->deadline = c->connect_by;
    }
    progress_await(&c->receiving, c->incoming.is_on || c->asked_count > 0, patience, now);
    progress_await(&c->sending, !list_is_empty(&c->outs), patience, now);
}

static void send_and_watch(struct nvme_tcp_connection *c, instant_ns now)
{
    int error = nvme_tcp_flush(c, now);
    bool is_over = c->state == NVME_TCP_LEAVING && error == 0;
    if (is_over || (error != 0 && error != -EAGAIN)) {
        connection_end(c, now);
        return;
    }
    deadline_set(c, now);
    watch_change(c, (wants_input(c) ? EPOLLIN : 0U) | (error != 0 ? EPOLLOUT : 0U));
}

static void update(struct nvme_tcp_connection *c, instant_ns now)
{
    if (c->is_dropped && c->state < NVME_TCP_LEAVING) {
        c->state = NVME_TCP_LEAVING;
    }
    // What was read with an earlier capsule, and had to wait, can go on without the socket.
    if (wants_input(c) && c->in_at < c->in_len) {
        take_all(c, now);
    }
    if (c->state != NVME_TCP_ENDED) {
        send_and_watch(c, now);
    }
    in_rest(c);
    if (c->state == NVME_TCP_ENDED && (c->queue == NULL || nvme_queue_is_over(c->queue))) {
        connection_free(c);
    }
}

static void on_socket(void *ctx, uint32_t events)
{
    struct nvme_tcp_connection *c = ctx;
    instant_ns now = loop_now(c->tcp->parts.loop);
    nvme_tcp_touch(c);
    if ((events & (EPOLLERR | EPOLLHUP)) != 0 && (events & EPOLLIN) == 0) {
        connection_end(c, now);
    } else if ((events & EPOLLIN) != 0 && wants_input(c)) {
        take_all(c, now);
    }
}

/* ---- accepting ------------------------------------------------------------------------------- */

static struct nvme_queue *queue_create(struct nvme_tcp_connection *c)
{
    struct nvme_queue_parts parts = {.target = c->tcp->parts.target,
                                     .transport = &nvme_tcp_transport,
                                     .connection = c,
                                     .command_count = NVME_TCP_COMMAND_COUNT,
                                     .qid = -1,
                                     .scratch = mspan_of(c->scratch, NVME_SCRATCH_LEN)};
    struct address_end own;
    address_of_peer(c->fd, parts.host_address, sizeof parts.host_address);
    memcpy(parts.host, c->host, sizeof parts.host);
    if (address_of_own_end(c->fd, &own)) {
        snprintf(parts.local_address, sizeof parts.local_address, "%s", own.host);
    }
    return nvme_queue_create(&parts);
}

bool nvme_tcp_open(struct nvme_tcp_connection *c)
{
    c->scratch = malloc(NVME_SCRATCH_LEN);
    c->staging = malloc((size_t)NVME_TCP_COMMAND_COUNT * NVME_TCP_IN_CAPSULE_MAX);
    if (c->scratch == NULL || c->staging == NULL || !nvme_tcp_command_init(c)) {
        return false;
    }
    c->queue = queue_create(c);
    return c->queue != NULL;
}

static void connection_begin(struct nvme_tcp *tcp, int fd, const char *host)
{
    struct nvme_tcp_connection *c = calloc(1, sizeof *c);
    int one = 1;
    if (c == NULL) {
        close(fd);
        return;
    }
    c->tcp = tcp;
    c->fd = fd;
    c->watched = EPOLLIN;
    c->deadline = c->connect_by = instant_after(loop_now(tcp->parts.loop), handshake_ns);
    snprintf(c->host, sizeof c->host, "%s", host);
    list_init(&c->outs);
    list_init(&c->free);
    list_init(&c->control.link);
    list_init(&c->dirty_link);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    c->watch = loop_watch(tcp->parts.loop, fd, EPOLLIN, on_socket, c);
    if (c->watch == NULL) {
        close(fd);
        free(c);
        return;
    }
    list_push_tail(&tcp->connections, &c->link);
    tcp->connection_count++;
}

// NULL, or why one more connection from this host cannot be had.
static const char *refusal(const struct nvme_tcp *tcp, const char *host)
{
    unsigned count = 0;
    for (const struct list_link *l = tcp->connections.next; l != &tcp->connections; l = l->next) {
        count += strcmp(LIST_ENTRY(l, struct nvme_tcp_connection, link)->host, host) == 0;
    }
    if (tcp->connection_count >= NVME_TCP_CONNECTION_MAX) {
        return "the node has as many NVMe/TCP connections as it can";
    }
    return count >= NVME_TCP_CONNECTION_OF_HOST_MAX ? "too many connections come from there" : NULL;
}

static void connection_refuse(struct nvme_tcp *tcp, int fd, const char *host, const char *why)
{
    char line[LINE_MAX], address[CLIENT_ADDRESS_MAX];
    address_of_peer(fd, address, sizeof address);
    snprintf(line, sizeof line, "nvme-tcp: a host at %s is refused: %s", address, why);
    tcp->parts.say(tcp->parts.ctx, host, line);
    tcp->counters.refused++;
    close(fd);
}

static void on_listener(void *ctx, uint32_t events)
{
    struct nvme_tcp *tcp = ctx;
    for (unsigned i = 0; i < ACCEPT_BATCH; i++) {
        int fd = accept4(tcp->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) {
            return;
        }
        char host[CLIENT_HOST_MAX];
        address_host_of_peer(fd, host, sizeof host);
        const char *why = refusal(tcp, host);
        tcp->counters.accepted++;
        if (why != NULL) {
            connection_refuse(tcp, fd, host, why);
        } else {
            connection_begin(tcp, fd, host);
        }
    }
}

/* ---- what the UMA calls ---------------------------------------------------------------------- */

static int tts_start(void *ctx, char *ret_why)
{
    struct nvme_tcp *tcp = ctx;
    struct address_end end;
    char path[1];
    int fd = address_listen(tcp->parts.listen, path, sizeof path, ret_why);
    if (fd < 0) {
        return fd;
    }
    tcp->listen_fd = fd;
    tcp->listen_watch = loop_watch(tcp->parts.loop, fd, EPOLLIN, on_listener, tcp);
    if (tcp->listen_watch == NULL || !address_of_own_end(fd, &end)) {
        return -ENOMEM;
    }
    struct nvme_listener listener = {.trtype = NVME_TRTYPE_TCP,
                                     .adrfam = end.is_6 ? NVME_ADRFAM_IPV6 : NVME_ADRFAM_IPV4,
                                     .is_wildcard = end.is_wildcard};
    snprintf(tcp->host, sizeof tcp->host, "%s", end.host);
    snprintf(tcp->port, sizeof tcp->port, "%s", end.port);
    snprintf(listener.address, sizeof listener.address, "%s", end.host);
    snprintf(listener.service, sizeof listener.service, "%s", end.port);
    return nvme_target_listener_add(tcp->parts.target, &listener) ? 0 : -ENOSPC;
}

static void tts_advertise(void *ctx, const struct resource_table *table)
{
    // The controllers do: the discovery log, async events.
}

static void tts_uri(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct nvme_tcp *tcp = ctx;
    bool is_6 = strchr(tcp->host, ':') != NULL;
    char nqn[NVME_NQN_MAX];
    nvme_subsystem_nqn(volume, nqn);
    snprintf(ret, capacity, "nvme+tcp://%s%s%s:%s/%s", is_6 ? "[" : "", tcp->host, is_6 ? "]" : "",
             tcp->port, nqn);
}

static void tts_hint(void *ctx, const struct resource *volume, char *ret, size_t capacity)
{
    const struct nvme_tcp *tcp = ctx;
    char nqn[NVME_NQN_MAX];
    nvme_subsystem_nqn(volume, nqn);
    snprintf(ret, capacity, "nvme connect -t tcp -a %s -s %s -n %s", tcp->host, tcp->port, nqn);
}

static void listener_close(struct nvme_tcp *tcp)
{
    if (tcp->listen_fd >= 0) {
        loop_unwatch(tcp->listen_watch);
        close(tcp->listen_fd);
        tcp->listen_fd = -1;
    }
}

// The controllers end the queues that are theirs; this ends all others.
static void tts_stop(void *ctx)
{
    struct nvme_tcp *tcp = ctx;
    listener_close(tcp);
    for (struct list_link *l = tcp->connections.next; l != &tcp->connections; l = l->next) {
        struct nvme_tcp_connection *c = LIST_ENTRY(l, struct nvme_tcp_connection, link);
        c->is_dropped = true;
        nvme_tcp_touch(c);
    }
}

const struct tts_for_uma nvme_tcp_for_uma = {
    .name = "nvme-tcp",
    .start = tts_start,
    .advertise = tts_advertise,
    .stop = tts_stop,
    .uri = tts_uri,
    .hint = tts_hint,
};

/* ---- a member of the loop -------------------------------------------------------------------- */

static void on_batch_end(void *ctx, instant_ns now)
{
    struct nvme_tcp *tcp = ctx;
    for (struct list_link *l; (l = list_pop_head(&tcp->dirty)) != NULL;) {
        update(LIST_ENTRY(l, struct nvme_tcp_connection, dirty_link), now);
    }
}

static instant_ns deadline_of(const struct nvme_tcp_connection *c)
{
    instant_ns at = instant_min(progress_deadline(&c->receiving), progress_deadline(&c->sending));
    return instant_min(at, c->deadline);
}

static instant_ns next_deadline(void *ctx)
{
    struct nvme_tcp *tcp = ctx;
    instant_ns at = INSTANT_NEVER;
    for (struct list_link *l = tcp->connections.next; l != &tcp->connections; l = l->next) {
        at = instant_min(at, deadline_of(LIST_ENTRY(l, struct nvme_tcp_connection, link)));
    }
    return at;
}

// What the kernel has for the host goes with the connection.
static void connection_abort(struct nvme_tcp_connection *c, instant_ns now)
{
    struct linger at_once = {.l_onoff = 1};
    setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    connection_end(c, now);
}

static void on_deadline(void *ctx, instant_ns now)
{
    struct nvme_tcp *tcp = ctx;
    struct list_link *next;
    for (struct list_link *l = tcp->connections.next; l != &tcp->connections; l = next) {
        struct nvme_tcp_connection *c = LIST_ENTRY(l, struct nvme_tcp_connection, link);
        next = l->next;
        if (deadline_of(c) <= now) {
            tcp->counters.stalled++;
            connection_abort(c, now);
        }
    }
}

struct nvme_tcp *nvme_tcp_create(const struct nvme_tcp_parts *parts)
{
    struct nvme_tcp *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) {
        return NULL;
    }
    tcp->parts = *parts;
    tcp->listen_fd = -1;
    list_init(&tcp->connections);
    list_init(&tcp->dirty);
    tcp->member = (struct loop_member){.ctx = tcp,
                                       .on_batch_end = on_batch_end,
                                       .next_deadline = next_deadline,
                                       .on_deadline = on_deadline};
    loop_join(parts->loop, &tcp->member);
    return tcp;
}

void nvme_tcp_destroy(struct nvme_tcp *tcp)
{
    if (tcp == NULL) {
        return;
    }
    listener_close(tcp);
    for (struct list_link *l; (l = list_pop_head(&tcp->connections)) != NULL;) {
        struct nvme_tcp_connection *c = LIST_ENTRY(l, struct nvme_tcp_connection, link);
        loop_unwatch(c->watch);
        if (c->fd >= 0) {
            close(c->fd);
        }
        nvme_queue_force_destroy(c->queue);
        memory_free(c);
    }
    spare_fini(&tcp->spare);
    loop_leave(tcp->parts.loop, &tcp->member);
    free(tcp);
}

struct nvme_tcp_counters nvme_tcp_counters(const struct nvme_tcp *tcp)
{
    return tcp->counters;
}
