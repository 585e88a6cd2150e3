#include "link/link_none.h"

#include <errno.h>

#include "base/check.h"
#include "base/time.h"

// Who asks has not looked at the facts of the stream.
ssize_t link_none_borrow(struct link_stream *stream, struct span *ret, bool *ret_is_cut)
{
    CHECK((stream->facts & LINK_LENDS) != 0);
    return -EOPNOTSUPP;
}

void link_none_give_back(struct link_stream *stream, size_t len)
{
    CHECK((stream->facts & LINK_LENDS) != 0);
}

void link_none_set_place(struct link_stream *stream, const struct place_port *port)
{
    CHECK((stream->facts & LINK_HAS_PLACES) != 0);
}

void link_none_resume(struct link_stream *stream)
{
    CHECK((stream->facts & LINK_HAS_PLACES) != 0);
}

uint64_t link_none_unsettled(struct link_stream *stream)
{
    return 0;
}

instant_ns link_none_next_deadline(struct link *link)
{
    return INSTANT_NEVER;
}

bool link_none_may_wait(struct link *link)
{
    return true;
}

int link_none_descriptor(const struct link *link)
{
    return -EOPNOTSUPP;
}

void link_none_stream_counters(const struct link *link, const struct link_stream *stream,
                               counter_each each, void *ctx)
{
}

void link_none_packet_counters(const struct link *link, counter_each each, void *ctx)
{
}

bool link_none_is_busy(struct link *link)
{
    return false;
}
