#include "link/device/tap_interface.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>

#include "base/check.h"
#include "base/errno_name.h"
#include "base/prng.h"
#include "link/sys.h"
#include "net/segment.h"
#include "wire/eth.h"

enum { MTU_DEFAULT = 1500, FRAME_IOV_MAX = NET_SEGMENT_IOV_MAX + 1 };

static void watch(struct tap_interface *t, bool wants_out)
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

bool tap_interface_write(void *ctx, const struct net_frame *frame)
{
    struct tap_interface *t = ctx;
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

static bool is_checked(const struct virtio_net_hdr *h)
{
    return (h->flags & (VIRTIO_NET_HDR_F_NEEDS_CSUM | VIRTIO_NET_HDR_F_DATA_VALID)) != 0;
}

ssize_t tap_interface_read(struct tap_interface *t, struct mspan into, bool *ret_is_checked)
{
    struct virtio_net_hdr h;
    struct iovec iov[] = {{&h, sizeof h}, {into.ptr, into.len}};
    ssize_t len = sys_readv(t->fd, iov, 2);
    if (len < (ssize_t)sizeof h) {
        return len < 0 ? len : -EAGAIN;
    }
    *ret_is_checked = is_checked(&h);
    return len - (ssize_t)sizeof h;
}

unsigned tap_interface_look(struct tap_interface *t)
{
    struct epoll_event events[2];
    unsigned ready = 0;
    int count = sys_epoll_wait(t->epoll_fd, events, 2, 0);
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd != t->fd) {
            continue; // a wake
        }
        if ((events[i].events & EPOLLOUT) != 0) {
            watch(t, false);
            ready |= TAP_READY_ROOM;
        }
        if ((events[i].events & EPOLLIN) != 0) {
            ready |= TAP_READY_FRAMES;
        }
    }
    return ready;
}

/* ---- waiting --------------------------------------------------------------------------------- */

void tap_interface_wait(struct tap_interface *t, duration_ns timeout_ns)
{
    struct epoll_event events[2];
    int count = sys_epoll_wait(t->epoll_fd, events, 2, timeout_ns);
    for (int i = 0; i < count; i++) {
        uint64_t times;
        if (events[i].data.fd == t->wake_fd) {
            sys_read(t->wake_fd, &times, sizeof times);
        }
    }
}

void tap_interface_wake(struct tap_interface *t)
{
    uint64_t once = 1;
    sys_write(t->wake_fd, &once, sizeof once);
}

/* ---- taking it ------------------------------------------------------------------------------- */

// Takes the interface, with the kernel's help for checksums and large packets if it is wanted.
static int interface_take(struct tap_interface *t, const struct device_tap_config *config)
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

static void describe(struct tap_interface *t, const struct device_tap_config *config,
                     struct net_iface_config *ret)
{
    struct prng rng;
    uint16_t mtu = interface_up(config);
    prng_init(&rng, config->seed);
    *ret = (struct net_iface_config){
        .addr_count = config->addr_count,
        .gateway_ipv4 = config->gateway_ipv4,
        .gateway_ipv6 = config->gateway_ipv6,
        .mtu = config->mtu != 0 ? config->mtu : mtu,
        .hops = config->ttl,
        .has_ethernet = !config->is_tun,
        .eth = eth_addr_draw(&rng),
        .offloads = config->offloads,
        .reports_groups = true,
        .seed = prng_next(&rng),
        .port = {.send = tap_interface_write, .ctx = t},
    };
    memcpy(ret->addrs, config->addrs, sizeof ret->addrs);
}

static int descriptors_open(struct tap_interface *t, const struct device_tap_config *config)
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

int tap_interface_open(struct tap_interface *t, const struct device_tap_config *config,
                       struct net_iface_config *ret)
{
    *t = (struct tap_interface){.trace = config->trace, .fd = -1, .epoll_fd = -1, .wake_fd = -1};
    int error = descriptors_open(t, config);
    if (error != 0) {
        tap_interface_close(t);
        return error;
    }
    describe(t, config, ret);
    return 0;
}

void tap_interface_close(struct tap_interface *t)
{
    sys_close_fd(&t->fd);
    sys_close_fd(&t->epoll_fd);
    sys_close_fd(&t->wake_fd);
}
