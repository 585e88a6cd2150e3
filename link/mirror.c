#include "link/mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "link/link_none.h"

// Positions count from the beginning of the stream; an octet's place in the ring is its position
// modulo the length.
struct mirror {
    struct link link;
    struct link_stream stream;
    struct link_mirror_config config;
    uint64_t sent, received;
    bool is_shut;   // FIN follows what was sent
    bool is_deaf;   // LINK_READY_IN is not wanted
    bool wants_out; // LINK_READY_OUT is
    uint8_t ring[LINK_MIRROR_LEN];
};

static struct mirror *mirror_of(const struct link_stream *stream)
{
    return (struct mirror *)(void *)((uint8_t *)(uintptr_t)stream -
                                     offsetof(struct mirror, stream));
}

static size_t octets_inside(const struct mirror *m)
{
    return (size_t)(m->sent - m->received);
}

static void tell_reader(struct mirror *m)
{
    if (!m->is_deaf && (octets_inside(m) > 0 || m->is_shut)) {
        m->config.on_ready(m->config.ctx);
    }
}

/* ---- octets ---------------------------------------------------------------------------------- */

static size_t put(struct mirror *m, const uint8_t *octets, size_t len)
{
    size_t room = LINK_MIRROR_LEN - octets_inside(m);
    size_t at = m->sent % LINK_MIRROR_LEN;
    len = len < room ? len : room;
    if (len == 0) {
        return 0; // of a span without octets, which may have no address
    }
    size_t first = len < LINK_MIRROR_LEN - at ? len : LINK_MIRROR_LEN - at;
    memcpy(m->ring + at, octets, first);
    memcpy(m->ring, octets + first, len - first);
    m->sent += len;
    return len;
}

static ssize_t mirror_send(struct link_stream *stream, const struct link_tx *tx)
{
    struct mirror *m = mirror_of(stream);
    size_t taken = 0;
    if (m->is_shut) {
        return -EPIPE;
    }
    for (unsigned i = 0; i < tx->iov_count; i++) {
        taken += put(m, tx->iov[i].iov_base, tx->iov[i].iov_len);
    }
    if (taken == 0) {
        return -EAGAIN;
    }
    tell_reader(m);
    return (ssize_t)taken;
}

static ssize_t mirror_recv(struct link_stream *stream, struct mspan into)
{
    struct mirror *m = mirror_of(stream);
    size_t len = octets_inside(m) < into.len ? octets_inside(m) : into.len;
    size_t at = m->received % LINK_MIRROR_LEN;
    size_t first = len < LINK_MIRROR_LEN - at ? len : LINK_MIRROR_LEN - at;
    if (len == 0) {
        return m->is_shut ? 0 : -EAGAIN;
    }
    memcpy(into.ptr, m->ring + at, first);
    memcpy(into.ptr + first, m->ring, len - first);
    m->received += len;
    if (m->wants_out) {
        m->config.on_ready(m->config.ctx);
    }
    return (ssize_t)len;
}

static void mirror_want_out(struct link_stream *stream, bool wanted)
{
    struct mirror *m = mirror_of(stream);
    m->wants_out = wanted;
    if (wanted && octets_inside(m) < LINK_MIRROR_LEN) {
        m->config.on_ready(m->config.ctx);
    }
}

static void mirror_want_in(struct link_stream *stream, bool wanted)
{
    struct mirror *m = mirror_of(stream);
    m->is_deaf = !wanted;
    tell_reader(m);
}

static int mirror_shutdown(struct link_stream *stream)
{
    struct mirror *m = mirror_of(stream);
    m->is_shut = true;
    tell_reader(m);
    return 0;
}

static void mirror_close(struct link_stream *stream, bool abort)
{
    free(mirror_of(stream));
}

/* ---- what it says of itself ------------------------------------------------------------------ */

static int mirror_addr(const struct link_stream *stream, struct sockaddr_storage *ret)
{
    *ret = mirror_of(stream)->config.addr;
    return 0;
}

static uint32_t mirror_emss(const struct link_stream *stream)
{
    return LINK_MIRROR_LEN; // nothing cuts it into segments
}

static int mirror_set_tos(struct link_stream *stream, uint8_t tos)
{
    return 0;
}

static const struct link_ops mirror_ops = {
    .name = "mirror",
    .recv = mirror_recv,
    .borrow = link_none_borrow,
    .give_back = link_none_give_back,
    .set_place = link_none_set_place,
    .resume = link_none_resume,
    .send = mirror_send,
    .unsettled = link_none_unsettled,
    .want_out = mirror_want_out,
    .want_in = mirror_want_in,
    .shutdown = mirror_shutdown,
    .close = mirror_close,
    .local_addr = mirror_addr,
    .peer_addr = mirror_addr,
    .emss = mirror_emss,
    .set_tos = mirror_set_tos,
    .stream_counters = link_none_stream_counters,
};

int link_mirror_create(const struct link_mirror_config *config, struct link_stream **ret)
{
    struct mirror *m = calloc(1, sizeof *m);
    if (m == NULL) {
        return -ENOMEM;
    }
    m->link.ops = &mirror_ops;
    m->stream.link = &m->link;
    m->config = *config;
    *ret = &m->stream;
    return 0;
}
