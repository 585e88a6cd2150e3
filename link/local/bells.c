// Who is told that there is news, and who tells: marks of streams in the channel's memory, and a
// wake-up by its socket for a side that sleeps.

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "base/list.h"
#include "link/local/channel.h"
#include "link/local/doorbell.h"
#include "link/local/stream.h"
#include "link/sys.h"

enum {
    OCTETS_PER_TURN = 64,
    MARKS_PER_TURN = 256, // of one channel, whether they name streams or not
};

/* ---- telling --------------------------------------------------------------------------------- */

// An octet that the socket has no room for is not needed: others are under way.
void local_ring_bell(struct local_stream *s)
{
    static uint8_t octet;
    struct local_channel *c = s->channel;
    if (doorbell_mark(c->other_bell, s->peer_number) && c->bell != NULL) {
        struct iovec iov = {&octet, 1};
        const struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
        local_link_at(s)->counters.bells_sent++;
        sys_sendmsg(c->own_fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
}

/* ---- being told ------------------------------------------------------------------------------ */

// Whose socket has ended rings no more.
bool local_channel_hear(struct local_link *l, struct local_channel *c)
{
    uint8_t octets[OCTETS_PER_TURN];
    ssize_t len = sys_recv(c->own_fd, octets, sizeof octets, MSG_DONTWAIT);
    if (len > 0) {
        l->counters.bells_received += (uint64_t)len;
    } else if (len != -EAGAIN && len != -EINTR) {
        local_channel_unwatch(c);
    }
    return len > 0;
}

bool local_channels_rise(struct local_link *l)
{
    bool has_heard = false;
    for (struct list_link *at = l->channels.next; at != &l->channels; at = at->next) {
        struct local_channel *c = LIST_ENTRY(at, struct local_channel, link);
        if (doorbell_rise(&c->taker) && c->bell != NULL) {
            has_heard |= local_channel_hear(l, c);
        }
    }
    return has_heard;
}

// None of them was to be slept beside.
static void stay_awake(struct local_link *l)
{
    for (struct list_link *at = l->channels.next; at != &l->channels; at = at->next) {
        doorbell_rise(&LIST_ENTRY(at, struct local_channel, link)->taker);
    }
}

bool local_channels_sleep(struct local_link *l)
{
    for (struct list_link *at = l->channels.next; at != &l->channels; at = at->next) {
        if (!doorbell_sleep(&LIST_ENTRY(at, struct local_channel, link)->taker)) {
            stay_awake(l);
            return false;
        }
    }
    return true;
}

// False: there is more than the turn had room for.
static bool take_marks(struct local_link *l, struct local_channel *c, struct local_stream **ret,
                       unsigned max, unsigned *count)
{
    uint32_t number;
    doorbell_begin(&c->taker);
    for (unsigned i = 0; i < MARKS_PER_TURN && *count < max; i++) {
        if (!doorbell_next(&c->taker, &number)) {
            return true;
        }
        struct local_stream *s = local_channel_stream(c, number);
        if (s != NULL) {
            ret[(*count)++] = s;
        } else {
            l->counters.marks_idle++;
        }
    }
    return !doorbell_is_marked(&c->taker);
}

unsigned local_take_marks(struct local_link *l, struct local_stream **ret, unsigned max,
                          bool *ret_is_whole)
{
    unsigned count = 0;
    *ret_is_whole = true;
    for (struct list_link *at = l->channels.next; at != &l->channels; at = at->next) {
        struct local_channel *c = LIST_ENTRY(at, struct local_channel, link);
        *ret_is_whole &= take_marks(l, c, ret, max, &count);
    }
    if (!*ret_is_whole) { // another one is the first next time
        struct list_link *first = list_pop_head(&l->channels);
        list_push_tail(&l->channels, first);
    }
    return count;
}
