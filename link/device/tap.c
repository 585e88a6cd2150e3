#include "link/device/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include "base/check.h"
#include "base/errno_name.h"
#include "base/prng.h"
#include "base/span.h"
#include "base/time.h"
#include "link/device/ip_device.h"
#include "link/sys.h"
#include "net/segment.h"
#include "wire/eth.h"

enum {
    FRAME_MAX = ETH_HEADER_LEN + NET_MTU_MAX,
    READS_MAX = 64, // packets at a look
    MTU_DEFAULT = 1500,
    FRAME_IOV_MAX = NET_SEGMENT_IOV_MAX + 1,
};

struct tap_device {
    struct ip_device ip;
    struct trace *trace;
    int fd;
    int epoll_fd;
    int wake_fd; // eventfd
    bool wants_out;
    unsigned reads_left; // of those that were asked for
    uint8_t buffer[FRAME_MAX];
};

static struct tap_device *tap_of(const struct device *d)
{
    return (struct tap_device *)d;
}

static void watch(struct tap_device *t, bool wants_out)
{
    struct epoll_event event = {.events = EPOLLIN | (wants_out ? EPOLLOUT : 0), .data.fd = t->fd};
    if (t->wants_out != wants_out) {
        t->wants_out = wants_out;
        sys_epoll_ctl(t->epoll_fd, EPOLL_CTL_MOD, t->fd, &event);
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

static struct virtio_net_hdr offload_header(const struct net_frame *frame)
{
    struct virtio_net_hdr h = {.gso_type = VIRTIO_NET_HDR_GSO_NONE};
    if (frame->checksum_at != 0) {
        h.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM;
        h.csum_start = frame->checksum_at;
        h.csum_offset = frame->checksum_off;
    }
    if (frame->segment_len != 0) {
        h.gso_type = frame->is_ipv6 ? VIRTIO_NET_HDR_GSO_TCPV6 : VIRTIO_NET_HDR_GSO_TCPV4;
        h.gso_size = frame->segment_len;
        h.hdr_len = frame->header_len;
    }
    return h;
}

// What the kernel does not take for another reason than room is lost: it will be sent again.
static bool tap_write(void *ctx, const struct net_frame *frame)
{
    struct tap_device *t = ctx;
    struct virtio_net_hdr h = offload_header(frame);
    struct iovec iov[FRAME_IOV_MAX] = {{&h, sizeof h}};
    CHECK(frame->iov_count <= NET_SEGMENT_IOV_MAX);
    memcpy(iov + 1, frame->iov, frame->iov_count * sizeof *iov);
    ssize_t error = sys_writev(t->fd, iov, frame->iov_count + 1);
    if (error == -EAGAIN) {
        watch(t, true);
        return false;
    }
    if (error < 0) {
        TRACE(t->trace, TRACE_LINK, "frame not sent: %s", errno_name((int)-error));
    }
    return true;
}

// The checksum was never computed, or the kernel has looked at it.
static bool is_checked(const struct virtio_net_hdr *h)
{
    return (h->flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
}

static void tap_receive(struct device *d, struct channel *channel, size_t max_len)
{
    tap_of(d)->reads_left = READS_MAX; // the rest is reported again
}

static bool read_frame(struct tap_device *t, instant_ns now, struct device_event *ret)
{
    struct virtio_net_hdr h;
    struct iovec iov[] = {{&h, sizeof h}, {t->buffer, sizeof t->buffer}};
    ssize_t len = sys_readv(t->fd, iov, 2);
    if (len < (ssize_t)sizeof h) {
        t->reads_left = 0;
        return false;
    }
    t->reads_left--;
    return ip_device_on_frame(&t->ip, mspan_of(t->buffer, (size_t)len - sizeof h), is_checked(&h),
                              now, ret);
}

static bool tap_next(struct device *d, instant_ns now, struct device_event *ret)
{
    struct tap_device *t = tap_of(d);
    while (t->reads_left > 0) {
        if (read_frame(t, now, ret)) {
            return true;
        }
    }
    return ip_device_next(&t->ip, ret);
}

static bool tap_poll(struct device *d, instant_ns now)
{
    struct tap_device *t = tap_of(d);
    struct epoll_event events[2];
    ip_device_poll(&t->ip, now);
    int count = sys_epoll_wait(t->epoll_fd, events, 2, 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd != t->fd) {
            continue; // a wake
        }
        if ((events[i].events & EPOLLOUT) != 0) {
            watch(t, false);
            t->ip.news |= IP_DEVICE_ROOM;
        }
        if ((events[i].events & EPOLLIN) != 0) {
            t->ip.news |= IP_DEVICE_READABLE;
        }
    }
    return t->ip.news != 0;
}

/* ---- the device ------------------------------------------------------------------------------ */

static instant_ns tap_next_deadline(struct device *d)
{
    return ip_device_next_deadline(&tap_of(d)->ip);
}

static void tap_wait(struct device *d, duration_ns timeout_ns)
{
    struct tap_device *t = tap_of(d);
    struct epoll_event events[2];
    int count = sys_epoll_wait(t->epoll_fd, events, 2, timeout_ns);
    for (int i = 0; i < count; i++) {
        uint64_t times;
        if (events[i].data.fd == t->wake_fd) {
            sys_read(t->wake_fd, &times, sizeof times);
        }
    }
}

static void tap_wake(struct device *d)
{
    uint64_t once = 1;
    sys_write(tap_of(d)->wake_fd, &once, sizeof once);
}

static int tap_descriptor(const struct device *d)
{
    return tap_of(d)->epoll_fd;
}

static void tap_abandon(struct device *d)
{
    struct tap_device *t = tap_of(d);
    sys_close_fd(&t->fd);
    sys_close_fd(&t->epoll_fd);
    sys_close_fd(&t->wake_fd);
}

static void tap_destroy(struct device *d)
{
    tap_abandon(d);
    ip_device_fini(&tap_of(d)->ip);
    free(d);
}

static const struct device_ops tap_ops = {
    .name = "tap",
    .open = ip_device_open,
    .connect = ip_device_connect,
    .accept = ip_device_accept,
    .close = ip_device_close,
    .set_tos = ip_device_set_tos,
    .segment_len_max = ip_device_segment_len_max,
    .route = ip_device_route,
    .send = ip_device_send,
    .poll = tap_poll,
    .receive = tap_receive,
    .next = tap_next,
    .corrupt = ip_device_corrupt,
    .counters = ip_device_counters,
    .next_deadline = tap_next_deadline,
    .wait = tap_wait,
    .wake = tap_wake,
    .descriptor = tap_descriptor,
    .abandon = tap_abandon,
    .destroy = tap_destroy,
};

/* ---- making it ------------------------------------------------------------------------------- */

// Takes the interface, with the kernel's help for checksums and large packets if it is wanted.
static int interface_take(struct tap_device *t, const struct device_tap_config *config)
{
    struct ifreq request = {.ifr_flags = IFF_NO_PI | IFF_VNET_HDR};
    unsigned long offloads = config->offloads ? TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 : 0;
    request.ifr_flags |= config->is_tun ? IFF_TUN : IFF_TAP;
    memcpy(request.ifr_name, config->name, sizeof config->name);
    int error = sys_ioctl(t->fd, TUNSETIFF, &request);
    return error != 0 ? error : sys_ioctl(t->fd, TUNSETOFFLOAD, (void *)offloads);
}

// Brings the interface up, if that is allowed and needed, and asks for its MTU.
static uint16_t interface_up(const struct device_tap_config *config)
{
    struct ifreq request = {0};
    int mtu = MTU_DEFAULT;
    int fd = sys_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return MTU_DEFAULT;
    }
    memcpy(request.ifr_name, config->name, sizeof config->name);
    if (sys_ioctl(fd, SIOCGIFFLAGS, &request) == 0 && (request.ifr_flags & IFF_UP) == 0) {
        request.ifr_flags |= IFF_UP;
        sys_ioctl(fd, SIOCSIFFLAGS, &request);
    }
    if (sys_ioctl(fd, SIOCGIFMTU, &request) == 0) {
        mtu = request.ifr_mtu;
    }
    sys_close(fd);
    return (uint16_t)(mtu < NET_MTU_MIN ? NET_MTU_MIN : mtu > NET_MTU_MAX ? NET_MTU_MAX : mtu);
}

// One that somebody chose for this machine alone (IEEE 802: locally administered).
static struct eth_addr eth_addr_draw(struct prng *rng)
{
    uint64_t bits = prng_next(rng);
    struct eth_addr eth;
    memcpy(eth.octets, &bits, ETH_ADDR_LEN);
    eth.octets[0] = (uint8_t)((eth.octets[0] & 0xfc) | 0x02);
    return eth;
}

static void iface_make(struct tap_device *t, const struct device_tap_config *config)
{
    struct prng rng;
    uint16_t mtu = interface_up(config);
    prng_init(&rng, config->seed);
    struct net_iface_config iface = {
        .addr_count = config->addr_count,
        .gateway_ipv4 = config->gateway_ipv4,
        .gateway_ipv6 = config->gateway_ipv6,
        .mtu = config->mtu != 0 ? config->mtu : mtu,
        .has_ethernet = !config->is_tun,
        .eth = eth_addr_draw(&rng),
        .offloads = config->offloads,
        .port = {.send = tap_write, .ctx = t},
    };
    memcpy(iface.addrs, config->addrs, sizeof iface.addrs);
    ip_device_init(&t->ip, &tap_ops, &iface, prng_next(&rng));
}

static int descriptors_open(struct tap_device *t, const struct device_tap_config *config)
{
    t->epoll_fd = sys_epoll_create(EPOLL_CLOEXEC);
    t->wake_fd = sys_eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->fd = sys_open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC, 0);
    int error = t->epoll_fd < 0  ? t->epoll_fd
                : t->wake_fd < 0 ? t->wake_fd
                : t->fd < 0      ? t->fd
                                 : interface_take(t, config);
    struct epoll_event wake = {.events = EPOLLIN, .data.fd = t->wake_fd};
    struct epoll_event frames = {.events = EPOLLIN, .data.fd = t->fd};
    if (error == 0) {
        error = sys_epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->wake_fd, &wake);
    }
    return error == 0 ? sys_epoll_ctl(t->epoll_fd, EPOLL_CTL_ADD, t->fd, &frames) : error;
}

int device_tap_create(const struct device_tap_config *config, struct device **ret)
{
    struct tap_device *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return -ENOMEM;
    }
    t->trace = config->trace;
    int error = descriptors_open(t, config);
    if (error != 0) {
        tap_abandon(&t->ip.base);
        free(t);
        return error;
    }
    iface_make(t, config);
    *ret = &t->ip.base;
    return 0;
}

const struct net_iface_counters *device_tap_counters(const struct device *d)
{
    return &tap_of(d)->ip.iface.counters;
}
