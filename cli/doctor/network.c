// Checks of the network: what connections and packets to one's own addresses come to.

#include <errno.h>
#include <ifaddrs.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/local_address.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

enum { SHOWN_MAX = 4, TRY_MS = 400 };

static const struct sockaddr *sockaddr_of(const struct sockaddr_storage *name)
{
    return (const struct sockaddr *)name;
}

/* ---- loopback and addresses ------------------------------------------------------------------ */

static const char no_address[] = "not tried: there is no address";

static void loopback_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct local_address all[LOCAL_ADDRESS_MAX];
    const unsigned count = local_addresses_find(all);
    for (unsigned i = 0; i < count; i++) {
        if (all[i].is_loopback) {
            finding_see_more(ret, "%s", all[i].text);
        }
    }
    if (ret->seen[0] == '\0') {
        finding_see(ret, "down, or without an address");
        finding_worsen(ret, FINDING_FAILURE,
                       "programs of this host cannot reach each other at 127.0.0.1");
        finding_cure(ret, "%sip link set lo up", finding_sudo());
    }
}

static void addresses_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct local_address all[LOCAL_ADDRESS_MAX];
    const unsigned count = local_addresses_find(all);
    unsigned found = 0;
    for (unsigned i = 0; i < count; i++) {
        if (all[i].is_loopback || all[i].is_link_local) {
            continue;
        }
        if (found < SHOWN_MAX) {
            finding_see_more(ret, "%s (%s)", all[i].text, all[i].interface);
        }
        found++;
    }
    if (found > SHOWN_MAX) {
        finding_see_more(ret, "and %u more", found - SHOWN_MAX);
    }
    if (found == 0) {
        finding_see(ret, "none but those of loopback");
        finding_worsen(ret, FINDING_NOTE, "programs reach peers on this host alone");
    }
}

/* ---- MTU ------------------------------------------------------------------------------------- */

// What headers take beside the payload of a packet of RoCE, at most.
enum { ROCE_HEADERS_LEN = 96, PATH_MTU_MIN = 256, PATH_MTU_MAX = 4096 };

static unsigned path_mtu(unsigned interface_mtu)
{
    unsigned mtu = PATH_MTU_MAX;
    while (mtu > PATH_MTU_MIN && mtu + ROCE_HEADERS_LEN > interface_mtu) {
        mtu /= 2;
    }
    return mtu;
}

static unsigned interface_mtu(int fd, const char *interface)
{
    struct ifreq request = {.ifr_mtu = 0};
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", interface);
    return ioctl(fd, SIOCGIFMTU, &request) == 0 ? (unsigned)request.ifr_mtu : 0;
}

// Of each interface once: its addresses follow each other only by family.
static bool is_first_of_interface(const struct local_address *all, unsigned index)
{
    for (unsigned i = 0; i < index; i++) {
        if (strcmp(all[i].interface, all[index].interface) == 0) {
            return false;
        }
    }
    return true;
}

static void mtu_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct local_address all[LOCAL_ADDRESS_MAX];
    const unsigned count = local_addresses_find(all);
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    unsigned largest = 0, shown = 0;
    for (unsigned i = 0; i < count && fd >= 0; i++) {
        const unsigned mtu = interface_mtu(fd, all[i].interface);
        if (mtu == 0 || !is_first_of_interface(all, i)) {
            continue;
        }
        if (shown++ < SHOWN_MAX) {
            finding_see_more(ret, "%s %u", all[i].interface, mtu);
        }
        if (!all[i].is_loopback && largest != 0 && path_mtu(mtu) < largest) {
            finding_worsen(ret, FINDING_NOTE,
                           "the RoCE device leaves out addresses of interfaces whose packets are "
                           "shorter than those of its first one, as %s here",
                           all[i].interface);
        }
        largest = all[i].is_loopback || path_mtu(mtu) < largest ? largest : path_mtu(mtu);
    }
    if (fd >= 0) {
        close(fd);
    }
    if (shown == 0) {
        finding_see(ret, "%s", no_address);
    }
    if (largest != 0) {
        finding_see_more(ret, "so RoCE's path MTU is %u", largest);
    }
}

/* ---- to oneself ------------------------------------------------------------------------------ */

// One try at each address: a socket that waits, one that speaks to it.
struct attempt {
    const struct local_address *address;
    int waits_fd, speaks_fd;
    int error; // a negative errno; -EINPROGRESS: nothing has come so far
};

static int bind_any_port(int fd, const struct local_address *address, struct sockaddr_storage *ret)
{
    socklen_t len = sizeof *ret;
    return bind(fd, sockaddr_of(&address->name), address->name_len) != 0 ||
                   getsockname(fd, (struct sockaddr *)ret, &len) != 0
               ? -errno
               : 0;
}

static int attempt_begin(struct attempt *a, int type)
{
    struct sockaddr_storage name;
    const int family = a->address->name.ss_family;
    a->waits_fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    a->speaks_fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->waits_fd < 0 || a->speaks_fd < 0) {
        return -errno;
    }
    int error = bind_any_port(a->waits_fd, a->address, &name);
    if (error == 0 && type == SOCK_STREAM && listen(a->waits_fd, 1) != 0) {
        error = -errno;
    }
    if (error == 0 && connect(a->speaks_fd, sockaddr_of(&name), a->address->name_len) != 0 &&
        errno != EINPROGRESS) {
        error = -errno;
    }
    if (error == 0 && type == SOCK_DGRAM && send(a->speaks_fd, "", 1, 0) != 1) {
        error = -errno;
    }
    return error == 0 ? -EINPROGRESS : error;
}

static void attempt_end(struct attempt *a)
{
    close(a->waits_fd);
    close(a->speaks_fd);
    a->error = a->error == -EINPROGRESS ? -ETIMEDOUT : a->error;
}

// What came, at each; waits while some are missing, as long as TRY_MS each time that one has come.
static void attempts_wait(struct attempt *all, unsigned count)
{
    struct pollfd fds[LOCAL_ADDRESS_MAX];
    for (bool is_missing = true; is_missing;) {
        is_missing = false;
        for (unsigned i = 0; i < count; i++) {
            const bool is_open = all[i].error == -EINPROGRESS;
            fds[i] = (struct pollfd){.fd = is_open ? all[i].waits_fd : -1, .events = POLLIN};
            is_missing = is_missing || is_open;
        }
        if (!is_missing || poll(fds, count, TRY_MS) <= 0) {
            return;
        }
        for (unsigned i = 0; i < count; i++) {
            all[i].error = (fds[i].revents & POLLIN) != 0 ? 0 : all[i].error;
        }
    }
}

static void self_look(int type, struct finding *ret)
{
    struct local_address all[LOCAL_ADDRESS_MAX];
    struct attempt attempts[LOCAL_ADDRESS_MAX];
    const unsigned count = local_addresses_find(all);
    const char *what = type == SOCK_STREAM ? "connections" : "datagrams";
    unsigned failed = 0;
    for (unsigned i = 0; i < count; i++) {
        attempts[i] = (struct attempt){.address = &all[i]};
        attempts[i].error = attempt_begin(&attempts[i], type);
    }
    attempts_wait(attempts, count);
    unsigned tried = 0;
    for (unsigned i = 0; i < count; i++) {
        attempt_end(&attempts[i]);
        tried += attempts[i].error != -EMFILE;
        if (attempts[i].error != 0 && attempts[i].error != -EMFILE && failed++ < SHOWN_MAX) {
            finding_see_more(ret, "%s: %s", all[i].text, strerror(-attempts[i].error));
        }
    }
    if (count == 0) {
        finding_see(ret, "%s", no_address); // of which `loopback` says what to do
    } else if (failed == 0) {
        finding_see(ret, "%s to each of %u own addresses arrive", what, tried);
    } else if (finding_worsen(ret, failed == tried ? FINDING_FAILURE : FINDING_WARNING,
                              "%s to this host's own address do not arrive: a firewall, most "
                              "likely",
                              what)) {
        finding_cure(ret, "%siptables -I INPUT -i lo -j ACCEPT", finding_sudo());
    }
}

static void tcp_look(const struct doctor_subject *subject, struct finding *ret)
{
    self_look(SOCK_STREAM, ret);
}

static void udp_look(const struct doctor_subject *subject, struct finding *ret)
{
    self_look(SOCK_DGRAM, ret);
}

/* ---- offloads -------------------------------------------------------------------------------- */

enum { SEGMENT_LEN = 1000, BURST_LEN = 2500 };

// Two and a half packets in one call. 0 or a negative errno.
static int burst_send(int fd, const struct sockaddr_storage *to, socklen_t to_len)
{
    char octets[BURST_LEN] = {0};
    union {
        char room[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr align;
    } control = {.room = {0}};
    struct iovec iov = {.iov_base = octets, .iov_len = sizeof octets};
    struct msghdr msg = {.msg_name = (void *)to,
                         .msg_namelen = to_len,
                         .msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = control.room,
                         .msg_controllen = sizeof control.room};
    struct cmsghdr *head = CMSG_FIRSTHDR(&msg);
    const uint16_t len = SEGMENT_LEN;
    *head = (struct cmsghdr){
        .cmsg_level = IPPROTO_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof len)};
    memcpy(CMSG_DATA(head), &len, sizeof len);
    return sendmsg(fd, &msg, 0) == BURST_LEN ? 0 : -errno;
}

static void offloads_try(int fd, const struct local_address *at, struct finding *ret)
{
    static const char one_by_one[] = "packets of RoCE and of --link=udp go one by one, several "
                                     "times as slow";
    struct sockaddr_storage name;
    const int on = 1;
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    char octets[2 * BURST_LEN];
    if (setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof on) != 0) {
        finding_see_more(ret, "UDP_GRO: %s", strerror(errno));
        finding_worsen(ret, FINDING_WARNING, "%s", one_by_one);
    }
    int error = bind_any_port(fd, at, &name);
    if (error == 0) {
        error = burst_send(fd, &name, at->name_len);
    }
    if (error != 0) {
        finding_see_more(ret, "UDP_SEGMENT: %s", strerror(-error));
        finding_worsen(ret, FINDING_WARNING, "%s", one_by_one);
    } else if (poll(&poll_fd, 1, TRY_MS) <= 0) {
        finding_see_more(ret, "what was sent to %s did not arrive", at->text);
        finding_worsen(ret, FINDING_NOTE, "so it could not be tried");
    } else if (recv(fd, octets, sizeof octets, 0) < BURST_LEN) {
        finding_see_more(ret, "UDP_SEGMENT sends several packets, but they arrive one by one");
        finding_worsen(ret, FINDING_NOTE, "receiving costs more than it need");
    } else {
        finding_see_more(ret, "UDP_SEGMENT and UDP_GRO take several packets at a time");
    }
}

static void offloads_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct local_address all[LOCAL_ADDRESS_MAX];
    const unsigned count = local_addresses_find(all);
    const int fd = count > 0 ? socket(all[0].name.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd < 0) {
        finding_see(ret, "%s", no_address);
        return;
    }
    offloads_try(fd, &all[0], ret);
    close(fd);
}

static const struct doctor_check checks[] = {
    {"loopback", "whether this host reaches itself", loopback_look},
    {"addresses", "the addresses at which others reach this host", addresses_look},
    {"mtu", "how long packets of the interfaces may be", mtu_look},
    {"tcp", "connections to own addresses", tcp_look},
    {"udp", "datagrams to own addresses", udp_look},
    {"offloads", "several datagrams in one call", offloads_look},
};

const struct doctor_group doctor_network = {"Network", checks, sizeof checks / sizeof checks[0],
                                            false};
