#include "link/compound.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/counter_sums.h"
#include "base/list.h"
#include "base/sockaddr.h"
#include "base/time.h"
#include "link/link_forward.h"
#include "link/rest.h"
#include "link/sys.h"

enum { PORT_TRIES = 32 }; // until a port is found that is free on all members

struct compound_link {
    struct link base;
    struct link_compound_config config;
    struct link *members[LINK_COMPOUND_MEMBER_MAX];
    int epoll_fd;             // of the members' descriptors, and ...
    int wake_fd;              // ... this eventfd, whose report carries a NULL member
    unsigned polled_first;    // member that the next look begins with
    struct list_link streams; // open ones
    struct rest rest;
};

struct compound_stream {
    // Its inner stream is the one that carries it; until that is known, the first of `of`.
    struct link_forward_stream forward;
    struct list_link link;                            // in `streams`, or at rest
    struct link_stream *of[LINK_COMPOUND_MEMBER_MAX]; // by member; NULL: it has no place there
    bool is_listening;
    bool is_carried;        // by one, for good
    unsigned accepted_from; // member that the last connection came by
};

static inline struct compound_link *compound_link_of(const struct link *link)
{
    return (struct compound_link *)link;
}

static inline struct compound_stream *compound_stream_of(const struct link_stream *stream)
{
    return (struct compound_stream *)stream;
}

/* ---- made, and at rest ----------------------------------------------------------------------- */

static struct compound_stream *stream_new(struct compound_link *l, void *owner)
{
    struct list_link *rested = rest_take(&l->rest);
    struct compound_stream *s =
        rested != NULL ? LIST_ENTRY(rested, struct compound_stream, link) : malloc(sizeof *s);
    if (s != NULL) {
        *s = (struct compound_stream){
            .forward.base = {.link = &l->base, .owner = owner, .facts = l->base.facts}};
        list_push_tail(&l->streams, &s->link);
    }
    return s;
}

static void place_give_back(struct compound_stream *s, bool abort)
{
    for (unsigned i = 0; i < LINK_COMPOUND_MEMBER_MAX; i++) {
        if (s->of[i] != NULL) {
            link_close(s->of[i], abort);
            s->of[i] = NULL;
        }
    }
    s->forward.inner = NULL;
}

static void compound_close(struct link_stream *stream, bool abort)
{
    struct compound_stream *s = compound_stream_of(stream);
    place_give_back(s, abort);
    stream->owner = NULL;
    list_remove(&s->link);
    rest_put(&compound_link_of(stream->link)->rest, &s->link);
}

// From now on it is of this member alone.
static void carry(struct compound_stream *s, unsigned member)
{
    struct link_stream *by = s->of[member];
    s->of[member] = NULL;
    place_give_back(s, true);
    s->of[member] = s->forward.inner = by;
    s->forward.base.facts = by->facts;
    s->is_carried = true;
}

/* ---- bound and listening --------------------------------------------------------------------- */

static bool addr_copy(const struct sockaddr *from, struct sockaddr_storage *ret)
{
    *ret = (struct sockaddr_storage){0};
    memcpy(ret, from, sockaddr_len(from));
    return sockaddr_len(from) > 0;
}

// On each member that has the address, at the port that the first of them found if any would do.
static int place_take(struct compound_stream *s, struct sockaddr_storage addr, unsigned flags)
{
    struct compound_link *l = compound_link_of(s->forward.base.link);
    int error = 0;
    for (unsigned i = 0; i < l->config.member_count; i++) {
        error = link_bind(l->members[i], (struct sockaddr *)&addr, flags, s, &s->of[i]);
        if (error == -EADDRNOTAVAIL) {
            continue; // it is another's
        }
        struct sockaddr_storage taken;
        if (error == 0) {
            error = link_local_addr(s->of[i], &taken);
        }
        if (error != 0) {
            return error;
        }
        sockaddr_set_port((struct sockaddr *)&addr, sockaddr_port((struct sockaddr *)&taken));
        s->forward.inner = s->forward.inner == NULL ? s->of[i] : s->forward.inner;
    }
    return s->forward.inner == NULL ? error : 0;
}

static int place_find(struct compound_stream *s, const struct sockaddr *wanted, unsigned flags)
{
    struct sockaddr_storage addr;
    int error = -EADDRINUSE;
    if (!addr_copy(wanted, &addr)) {
        return -EAFNOSUPPORT;
    }
    unsigned tries = sockaddr_port((struct sockaddr *)&addr) == 0 ? PORT_TRIES : 1;
    for (unsigned i = 0; i < tries && error == -EADDRINUSE; i++) {
        place_give_back(s, true);
        error = place_take(s, addr, flags);
    }
    return error;
}

// No address yet: any member may carry it.
static int place_anywhere(struct compound_stream *s, unsigned flags)
{
    struct compound_link *l = compound_link_of(s->forward.base.link);
    int error = 0;
    for (unsigned i = 0; i < l->config.member_count && error == 0; i++) {
        error = link_bind(l->members[i], NULL, flags, s, &s->of[i]);
    }
    s->forward.inner = s->of[0];
    return error;
}

static int compound_bind(struct link *link, const struct sockaddr *addr, unsigned flags,
                         void *owner, struct link_stream **ret)
{
    struct compound_stream *s = stream_new(compound_link_of(link), owner);
    if (s == NULL) {
        return -ENOMEM;
    }
    int error = addr == NULL ? place_anywhere(s, flags) : place_find(s, addr, flags);
    if (error != 0) {
        compound_close(&s->forward.base, true);
        return error;
    }
    *ret = &s->forward.base;
    return 0;
}

static int compound_listen(struct link_stream *stream, int backlog)
{
    struct compound_stream *s = compound_stream_of(stream);
    if (s->is_carried) {
        return link_listen(s->forward.inner, backlog); // to say why not
    }
    int error = 0;
    for (unsigned i = 0; i < LINK_COMPOUND_MEMBER_MAX && error == 0; i++) {
        error = s->of[i] == NULL ? 0 : link_listen(s->of[i], backlog);
    }
    s->is_listening |= error == 0;
    return error;
}

static int accept_from(struct compound_stream *from, unsigned member, struct link_stream **ret)
{
    struct link_stream *got;
    int error = link_accept(from->of[member], &got);
    if (error != 0) {
        return error;
    }
    struct compound_stream *s = stream_new(compound_link_of(from->forward.base.link), NULL);
    if (s == NULL) {
        link_close(got, true);
        return -ENOMEM;
    }
    got->owner = s;
    s->of[member] = got;
    carry(s, member);
    from->accepted_from = member;
    *ret = &s->forward.base;
    return 0;
}

// Whichever has one, in turn; else the first trouble that one of them has.
static int compound_accept(struct link_stream *listener, struct link_stream **ret)
{
    struct compound_stream *s = compound_stream_of(listener);
    int error = -EAGAIN;
    for (unsigned i = 1; i <= LINK_COMPOUND_MEMBER_MAX; i++) {
        unsigned member = (s->accepted_from + i) % LINK_COMPOUND_MEMBER_MAX;
        int one = s->of[member] == NULL ? -EAGAIN : accept_from(s, member, ret);
        if (one == 0) {
            return 0;
        }
        error = error == -EAGAIN ? one : error;
    }
    return error;
}

/* ---- connected ------------------------------------------------------------------------------- */

static int compound_connect(struct link_stream *stream, const struct sockaddr *peer)
{
    struct compound_stream *s = compound_stream_of(stream);
    if (s->is_carried || s->is_listening) {
        return -EISCONN;
    }
    int member = link_compound_member_for(&compound_link_of(stream->link)->config, peer);
    if (member < 0) {
        return member;
    }
    if (s->of[member] == NULL) {
        return -EADDRNOTAVAIL; // it is bound to an address of others
    }
    int error = link_connect(s->of[member], peer);
    if (error == -EINPROGRESS) {
        carry(s, (unsigned)member);
    }
    return error;
}

static int compound_connect_result(struct link_stream *stream)
{
    return link_connect_result(compound_stream_of(stream)->forward.inner);
}

static ssize_t compound_recv(struct link_stream *stream, struct mspan into)
{
    return link_recv(compound_stream_of(stream)->forward.inner, into);
}

static ssize_t compound_borrow(struct link_stream *stream, struct span *ret, bool *ret_is_cut)
{
    return link_borrow(compound_stream_of(stream)->forward.inner, ret, ret_is_cut);
}

static void compound_give_back(struct link_stream *stream, size_t len)
{
    link_give_back(compound_stream_of(stream)->forward.inner, len);
}

static void compound_set_place(struct link_stream *stream, const struct place_port *port)
{
    link_set_place(compound_stream_of(stream)->forward.inner, port);
}

static void compound_resume(struct link_stream *stream)
{
    link_resume(compound_stream_of(stream)->forward.inner);
}

static ssize_t compound_send(struct link_stream *stream, const struct link_tx *tx)
{
    return link_send(compound_stream_of(stream)->forward.inner, tx);
}

static int compound_shutdown(struct link_stream *stream)
{
    return link_shutdown(compound_stream_of(stream)->forward.inner);
}

/* ---- wishes, which whoever will carry it is to know ------------------------------------------ */

static void compound_want_out(struct link_stream *stream, bool wanted)
{
    struct compound_stream *s = compound_stream_of(stream);
    for (unsigned i = 0; i < LINK_COMPOUND_MEMBER_MAX; i++) {
        if (s->of[i] != NULL) {
            link_want_out(s->of[i], wanted);
        }
    }
}

static void compound_want_in(struct link_stream *stream, bool wanted)
{
    struct compound_stream *s = compound_stream_of(stream);
    for (unsigned i = 0; i < LINK_COMPOUND_MEMBER_MAX; i++) {
        if (s->of[i] != NULL) {
            link_want_in(s->of[i], wanted);
        }
    }
}

static int compound_set_tos(struct link_stream *stream, uint8_t tos)
{
    struct compound_stream *s = compound_stream_of(stream);
    int error = 0;
    for (unsigned i = 0; i < LINK_COMPOUND_MEMBER_MAX && error == 0; i++) {
        error = s->of[i] == NULL ? 0 : link_set_tos(s->of[i], tos);
    }
    return error;
}

/* ---- looking --------------------------------------------------------------------------------- */

// Each look begins with another member, so that none has to wait for all that others have.
static int compound_poll(struct link *link, struct link_ready *ret, unsigned max)
{
    struct compound_link *l = compound_link_of(link);
    unsigned count = l->config.member_count, ready = 0;
    int error = 0;
    for (unsigned i = 0; i < count && ready < max; i++) {
        struct link *member = l->members[(l->polled_first + i) % count];
        int got = link_poll(member, ret + ready, max - ready);
        ready += got > 0 ? (unsigned)link_forward_reports(ret + ready, got) : 0;
        error = got < 0 ? got : error;
    }
    l->polled_first = (l->polled_first + 1) % count;
    return ready > 0 ? (int)ready : error;
}

static instant_ns compound_next_deadline(struct link *link)
{
    struct compound_link *l = compound_link_of(link);
    instant_ns at_ns = INSTANT_NEVER;
    for (unsigned i = 0; i < l->config.member_count; i++) {
        at_ns = instant_min(at_ns, link_next_deadline(l->members[i]));
    }
    return at_ns;
}

// One sleep for all: each member's descriptor is readable while that member would not sleep.
static bool compound_may_wait(struct link *link)
{
    struct compound_link *l = compound_link_of(link);
    for (unsigned i = 0; i < l->config.member_count; i++) {
        if (!link_may_wait(l->members[i])) {
            return false;
        }
    }
    return true;
}

static void compound_wait(struct link *link, duration_ns timeout_ns)
{
    struct compound_link *l = compound_link_of(link);
    struct epoll_event events[LINK_COMPOUND_MEMBER_MAX + 1]; // a wake may stand behind all members
    int count = sys_epoll_wait(l->epoll_fd, events, LINK_COMPOUND_MEMBER_MAX + 1, timeout_ns);
    for (int i = 0; i < count; i++) {
        uint64_t times;
        if (events[i].data.ptr == NULL) {
            sys_read(l->wake_fd, &times, sizeof times);
        }
    }
}

static void compound_wake(struct link *link)
{
    uint64_t once = 1;
    sys_write(compound_link_of(link)->wake_fd, &once, sizeof once);
}

static int compound_descriptor(const struct link *link)
{
    return compound_link_of(link)->epoll_fd;
}

static bool compound_is_busy(struct link *link)
{
    struct compound_link *l = compound_link_of(link);
    bool is_busy = false;
    for (unsigned i = 0; i < l->config.member_count; i++) {
        is_busy |= link_is_busy(l->members[i]);
    }
    return is_busy;
}

static int compound_route(struct link *link, const struct sockaddr *peer,
                          struct sockaddr_storage *ret_src)
{
    struct compound_link *l = compound_link_of(link);
    int member = link_compound_member_for(&l->config, peer);
    return member < 0 ? member : link_route(l->members[member], peer, ret_src);
}

/* ---- counters -------------------------------------------------------------------------------- */

static void compound_stream_counters(const struct link *link, const struct link_stream *stream,
                                     counter_each each, void *ctx)
{
    const struct compound_link *l = compound_link_of(link);
    struct counter_sums sums;
    counter_sums_init(&sums);
    for (unsigned i = 0; i < l->config.member_count; i++) {
        const struct link_stream *of = stream == NULL ? NULL : compound_stream_of(stream)->of[i];
        if (stream == NULL || of != NULL) {
            link_stream_counters(l->members[i], of, counter_sums_add, &sums);
        }
    }
    counter_sums_each(&sums, each, ctx);
}

struct named {
    counter_each each;
    void *ctx;
    const char *member;
};

static void named_tell(void *ctx, const char *name, uint64_t value)
{
    const struct named *n = ctx;
    char whole[LINK_COMPOUND_NAME_MAX + COUNTER_NAME_MAX];
    snprintf(whole, sizeof whole, "%s.%s", n->member, name);
    n->each(n->ctx, whole, value);
}

static void compound_packet_counters(const struct link *link, counter_each each, void *ctx)
{
    const struct compound_link *l = compound_link_of(link);
    for (unsigned i = 0; i < l->config.member_count; i++) {
        struct named named = {each, ctx, l->config.members[i].name};
        link_packet_counters(l->members[i], named_tell, &named);
    }
}

/* ---- the link -------------------------------------------------------------------------------- */

static void compound_abandon(struct link *link)
{
    struct compound_link *l = compound_link_of(link);
    for (unsigned i = 0; i < l->config.member_count; i++) {
        link_abandon(l->members[i]);
    }
    sys_close_fd(&l->epoll_fd);
    sys_close_fd(&l->wake_fd);
}

// But for the members.
static void own_free(struct compound_link *l)
{
    struct list_link *at;
    while ((at = list_pop_head(&l->rest.streams)) != NULL) {
        free(LIST_ENTRY(at, struct compound_stream, link));
    }
    sys_close_fd(&l->epoll_fd);
    sys_close_fd(&l->wake_fd);
    free(l);
}

static void compound_destroy(struct link *link)
{
    struct compound_link *l = compound_link_of(link);
    while (!list_is_empty(&l->streams)) {
        struct list_link *first = l->streams.next;
        compound_close(&LIST_ENTRY(first, struct compound_stream, link)->forward.base, true);
    }
    for (unsigned i = 0; i < l->config.member_count; i++) {
        link_destroy(l->members[i]);
    }
    own_free(l);
}

static const struct link_ops compound_ops = {
    .name = "compound",
    .bind = compound_bind,
    .listen = compound_listen,
    .accept = compound_accept,
    .connect = compound_connect,
    .connect_result = compound_connect_result,
    .recv = compound_recv,
    .borrow = compound_borrow,
    .give_back = compound_give_back,
    .set_place = compound_set_place,
    .resume = compound_resume,
    .send = compound_send,
    .unsettled = link_forward_unsettled,
    .want_out = compound_want_out,
    .want_in = compound_want_in,
    .shutdown = compound_shutdown,
    .close = compound_close,
    .local_addr = link_forward_local_addr,
    .peer_addr = link_forward_peer_addr,
    .emss = link_forward_emss,
    .set_tos = compound_set_tos,
    .route = compound_route,
    .poll = compound_poll,
    .next_deadline = compound_next_deadline,
    .may_wait = compound_may_wait,
    .wait = compound_wait,
    .rise = link_rise_by_wait,
    .wake = compound_wake,
    .descriptor = compound_descriptor,
    .stream_counters = compound_stream_counters,
    .packet_counters = compound_packet_counters,
    .is_busy = compound_is_busy,
    .abandon = compound_abandon,
    .destroy = compound_destroy,
};

static int watch(struct compound_link *l, int fd, struct link *member)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = member};
    return fd < 0 ? fd : sys_epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

int link_compound_create(const struct link_compound_config *config, struct link *const *members,
                         struct link **ret)
{
    struct compound_link *l = calloc(1, sizeof *l);
    if (l == NULL) {
        return -ENOMEM;
    }
    l->base.ops = &compound_ops;
    l->config = *config;
    list_init(&l->streams);
    rest_init(&l->rest);
    l->epoll_fd = sys_epoll_create(EPOLL_CLOEXEC);
    l->wake_fd = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = l->epoll_fd < 0 ? l->epoll_fd : watch(l, l->wake_fd, NULL);
    for (unsigned i = 0; i < config->member_count && error == 0; i++) {
        l->members[i] = members[i];
        l->base.facts |= members[i]->facts;
        l->base.journal = l->base.journal != NULL ? l->base.journal : members[i]->journal;
        error = watch(l, link_descriptor(members[i]), members[i]);
    }
    if (error != 0) {
        own_free(l);
        return error;
    }
    *ret = &l->base;
    return 0;
}
