// A socket is made around an id and its channel, and given back with all that it has.

#include <stdlib.h>

#include "rsocket/rsocket.h"

static void rs_free(struct rs *rs)
{
    rs_stream_close(rs);
    rs_iomap_free_all(rs);
    rdma_destroy_id(rs->id);
    rdma_destroy_event_channel(rs->channel);
    pthread_mutex_destroy(&rs->lock);
    free(rs);
}

int rs_open(struct rdma_event_channel *channel, struct rdma_cm_id *id,
            const struct rs_options *options, struct rs **ret)
{
    struct rs *rs = calloc(1, sizeof *rs);
    if (rs == NULL) {
        rdma_destroy_id(id);
        rdma_destroy_event_channel(channel);
        return rs_fail(ENOMEM);
    }
    *rs = (struct rs){.fd = channel->fd, .channel = channel, .id = id, .options = *options};
    pthread_mutex_init(&rs->lock, NULL);
    list_init(&rs->iomaps);
    list_init(&rs->waiters);
    // Waiting is done in poll(), so nothing else may block on it.
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    if (!rs_insert(rs)) {
        rs_free(rs);
        return rs_fail(ENOMEM);
    }
    *ret = rs;
    return 0;
}

void rs_close(struct rs *rs)
{
    rs_remove(rs);
    rs_free(rs);
}
