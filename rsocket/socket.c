// A socket is made around an id and its channel, or around a UDP socket, and given back with all
// that it has.

#include <stdlib.h>
#include <unistd.h>

#include "rsocket/rsocket.h"

static void rs_free(struct rs *rs)
{
    if (rs_is_datagram(rs)) {
        rs_datagrams_free(rs->datagrams);
        close(rs->fd);
    } else {
        rs_stream_close(rs);
        rs_iomap_free_all(rs);
        rdma_destroy_id(rs->id);
        rdma_destroy_event_channel(rs->channel);
    }
    pthread_mutex_destroy(&rs->lock);
    free(rs);
}

// As `first`, and in the table.
static int enter(const struct rs *first, struct rs **ret)
{
    struct rs *rs = malloc(sizeof *rs);
    if (rs == NULL) {
        return rs_fail(ENOMEM);
    }
    *rs = *first;
    pthread_mutex_init(&rs->lock, NULL);
    list_init(&rs->iomaps);
    list_init(&rs->waiters);
    if (!rs_insert(rs)) {
        pthread_mutex_destroy(&rs->lock);
        free(rs);
        return rs_fail(ENOMEM);
    }
    *ret = rs;
    return 0;
}

int rs_open(struct rdma_event_channel *channel, struct rdma_cm_id *id,
            const struct rs_options *options, struct rs **ret)
{
    const struct rs first = {.fd = channel->fd, .channel = channel, .id = id, .options = *options};
    // Waiting is done in poll(), so nothing else may block on it.
    fcntl(channel->fd, F_SETFL, O_NONBLOCK);
    if (enter(&first, ret) != 0) {
        rdma_destroy_id(id);
        rdma_destroy_event_channel(channel);
        return rs_fail(ENOMEM);
    }
    return 0;
}

int rs_open_datagrams(int udp_fd, struct rs_datagrams *datagrams, const struct rs_options *options,
                      struct rs **ret)
{
    const struct rs first = {.fd = udp_fd,
                             .datagrams = datagrams,
                             .options = *options,
                             .may_read = true,
                             .may_write = true};
    if (enter(&first, ret) != 0) {
        rs_datagrams_free(datagrams);
        close(udp_fd);
        return rs_fail(ENOMEM);
    }
    return 0;
}

void rs_close(struct rs *rs)
{
    rs_remove(rs);
    rs_epoll_forget(rs->fd);
    rs_free(rs);
}
