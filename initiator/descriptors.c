// The clock, and the descriptors that whoever waits for a controller waits on.

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>

#include "initiator/agent.h"

bool initiator_watch(const struct weft_nvme *nvme, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(nvme->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

bool initiator_set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

void initiator_sleep(const struct weft_nvme *nvme, int timeout_ms)
{
    struct pollfd ready = {.fd = nvme->epoll_fd, .events = POLLIN};
    if (!nvme->is_lost) {
        poll(&ready, 1, timeout_ms);
    }
}
