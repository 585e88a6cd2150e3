// Checks of what the RoCE device wants: its UDP port, a way for packets to it, and buffers.

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/device_wire.h"
#include "base/time.h"
#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/kernel_file.h"
#include "cli/doctor/local_address.h"
#include "clock/clock.h"
#include "text/quantity.h"
#include "text/socket_row.h"

enum { ROW_MAX = 512, NAME_LEN_MAX = 32, SHARERS_MAX = 64 };

// Without this device there is another, unless programs are to have no other.
static enum finding_result result_of(const struct doctor_subject *subject)
{
    return !doctor_wants_roce(subject)        ? FINDING_NOTE
           : doctor_wants_roce_alone(subject) ? FINDING_FAILURE
                                              : FINDING_WARNING;
}

/* ---- who has a port -------------------------------------------------------------------------- */

static void rows_each(const char *path, void (*each)(void *ctx, const struct text_socket_row *row),
                      void *ctx)
{
    char line[ROW_MAX];
    struct text_socket_row row;
    FILE *list = fopen(path, "re");
    while (list != NULL && fgets(line, sizeof line, list) != NULL) {
        if (text_socket_row_parse(line, &row)) {
            each(ctx, &row);
        }
    }
    if (list != NULL) {
        fclose(list);
    }
}

static void udp_rows_each(void (*each)(void *ctx, const struct text_socket_row *row), void *ctx)
{
    rows_each("/proc/net/udp", each, ctx);
    rows_each("/proc/net/udp6", each, ctx);
}

// The processes of this user that share a port have each a name of their own
// (link/datagram/share.h).
static unsigned sharers_count(uint16_t port)
{
    char line[ROW_MAX], mark[64];
    unsigned count = 0;
    FILE *names = fopen("/proc/net/unix", "re");
    snprintf(mark, sizeof mark, "@weft-roce.%u.%u.", (unsigned)geteuid(), port);
    while (names != NULL && fgets(line, sizeof line, names) != NULL) {
        const char *slot = strstr(line, mark);
        count += slot != NULL && strspn(slot + strlen(mark), "0123456789") > 0;
    }
    if (names != NULL) {
        fclose(names);
    }
    return count;
}

// Whether a process has the socket among its descriptors, as far as they may be looked at.
static bool process_has(const char *pid, uint64_t inode)
{
    char folder[64], link[64], wanted[64];
    bool is_found = false;
    snprintf(folder, sizeof folder, "/proc/%.16s/fd", pid);
    snprintf(wanted, sizeof wanted, "socket:[%llu]", (unsigned long long)inode);
    DIR *fds = opendir(folder);
    for (struct dirent *e; fds != NULL && !is_found && (e = readdir(fds)) != NULL;) {
        const ssize_t len = readlinkat(dirfd(fds), e->d_name, link, sizeof link - 1);
        is_found =
            len > 0 && (size_t)len == strlen(wanted) && memcmp(link, wanted, (size_t)len) == 0;
    }
    if (fds != NULL) {
        closedir(fds);
    }
    return is_found;
}

// ", process 4711 (python3)"; "" where the system does not say, or not soon.
static void owner_name(uint64_t inode, char *ret, size_t capacity)
{
    char path[64], command[NAME_LEN_MAX] = "?";
    const instant_ns end = instant_after(clock_now(), NS_PER_S);
    DIR *processes = inode != 0 ? opendir("/proc") : NULL;
    *ret = '\0';
    for (struct dirent *e; processes != NULL && (e = readdir(processes)) != NULL;) {
        if (strspn(e->d_name, "0123456789") != strlen(e->d_name) ||
            !process_has(e->d_name, inode)) {
            if (clock_now() >= end) {
                break;
            }
            continue;
        }
        snprintf(path, sizeof path, "/proc/%.16s/comm", e->d_name);
        kernel_file_line(path, command, sizeof command);
        snprintf(ret, capacity, ", process %.16s (%s)", e->d_name, command);
        break;
    }
    if (processes != NULL) {
        closedir(processes);
    }
}

/* ---- the port -------------------------------------------------------------------------------- */

struct holders {
    uint16_t port;
    bool is_shared;               // by processes of this user
    struct text_socket_row other; // somebody else who has it
    bool has_other;
};

static void holder_note(void *ctx, const struct text_socket_row *row)
{
    struct holders *h = ctx;
    if (row->port == h->port && !(h->is_shared && row->uid == geteuid()) && !h->has_other) {
        h->other = *row;
        h->has_other = true;
    }
}

static bool is_held(uint16_t port)
{
    struct holders h = {.port = port};
    udp_rows_each(holder_note, &h);
    return h.has_other;
}

static bool has_rxe(void)
{
    return access("/sys/module/rdma_rxe", F_OK) == 0;
}

static void port_look(const struct doctor_subject *subject, struct finding *ret)
{
    char owner[96] = "";
    const unsigned sharers = sharers_count(subject->roce_port);
    struct holders h = {.port = subject->roce_port, .is_shared = sharers > 0};
    udp_rows_each(holder_note, &h);
    if (h.has_other) {
        uint16_t other = subject->roce_port;
        while (++other < UINT16_MAX && is_held(other)) {
        }
        owner_name(h.other.inode, owner, sizeof owner);
        finding_see(ret, "UDP port %u is held by user %u%s", subject->roce_port, h.other.uid,
                    h.other.inode == 0 && has_rxe() ? ", the kernel's rxe" : owner);
        finding_worsen(ret, result_of(subject),
                       DEVICE_NAME_ROCE " cannot be opened where somebody else has its port; with "
                                        "another one it speaks with weft ends that have the same");
        finding_cure(ret, "export WEFT_ROCE_PORT=%u", other);
    } else if (sharers >= SHARERS_MAX) {
        finding_see(ret, "UDP port %u is shared by %u programs of yours", subject->roce_port,
                    sharers);
        finding_worsen(ret, result_of(subject), "no more than %d can share it", SHARERS_MAX);
        finding_cure(ret, "export WEFT_ROCE_PORT=%u", subject->roce_port + 1);
    } else if (sharers > 0) {
        finding_see(ret, "UDP port %u is shared by %u program%s of yours", subject->roce_port,
                    sharers, sharers == 1 ? "" : "s");
    } else {
        finding_see(ret, "UDP port %u is free", subject->roce_port);
    }
}

/* ---- the way to it --------------------------------------------------------------------------- */

// Nobody is there, and the system says so to who asks: if it is silent, the question was dropped on
// its way. Where somebody has the port he is not asked: it would be a packet to him.
enum { ANSWER_MS = 300 };

static int question_send(const struct local_address *address, uint16_t port)
{
    const struct sockaddr_storage name = local_address_at(address, port);
    const int fd = socket(name.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && (connect(fd, (const struct sockaddr *)&name, address->name_len) != 0 ||
                    send(fd, "", 1, 0) != 1)) {
        const int error = -errno;
        close(fd);
        return error;
    }
    return fd >= 0 ? fd : -errno;
}

// 0: it got there; or a negative errno. The socket, or the errno of sending, is `fd`.
static int answer_take(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};
    int error = 0;
    socklen_t len = sizeof error;
    if (fd < 0) {
        return fd;
    }
    if (poll(&poll_fd, 1, ANSWER_MS) <= 0) {
        error = ETIMEDOUT;
    } else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0) {
        error = errno;
    }
    close(fd);
    return error == ECONNREFUSED ? 0 : -error;
}

static void way_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct local_address all[LOCAL_ADDRESS_MAX];
    const unsigned count = local_addresses_find(all);
    int fds[LOCAL_ADDRESS_MAX];
    unsigned failed = 0;
    if (is_held(subject->roce_port) || count == 0) {
        finding_see(ret, "not tried: %s",
                    count == 0 ? "there is no address" : "the port is in use");
        return;
    }
    for (unsigned i = 0; i < count; i++) {
        fds[i] = question_send(&all[i], subject->roce_port);
    }
    for (unsigned i = 0; i < count; i++) {
        // Who has been silent while another was waited for is not waited for again.
        const int error = failed < 3 ? answer_take(fds[i]) : 0;
        if (error != 0) {
            finding_see_more(ret, "%s: %s", all[i].text, strerror(-error));
            failed++;
        }
    }
    if (failed == 0) {
        finding_see(ret, "datagrams get to UDP port %u at %u own addresses", subject->roce_port,
                    count);
    } else if (finding_worsen(
                   ret, result_of(subject),
                   "packets of RoCE, UDP port %u, do not arrive: a firewall, most likely",
                   subject->roce_port)) {
        finding_cure(ret, "%siptables -I INPUT -p udp --dport %u -j ACCEPT", finding_sudo(),
                     subject->roce_port);
    }
}

/* ---- buffers --------------------------------------------------------------------------------- */

enum { RCVBUF_WANTED = 4 << 20, RCVBUF_OF_PACKET = 8448 };

static void buffers_look(const struct doctor_subject *subject, struct finding *ret)
{
    char size[TEXT_SIZE_MAX];
    const int wanted = RCVBUF_WANTED;
    int has = 0;
    socklen_t len = sizeof has;
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &wanted, sizeof wanted) != 0) {
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &wanted, sizeof wanted);
    }
    getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &has, &len);
    close(fd);
    has /= 2; // the kernel counts twice what was asked for
    finding_see(ret, "%s of %s wanted for what arrives", text_size_format((uint64_t)has, size),
                "4M");
    if (has < wanted) {
        finding_worsen(
            ret, FINDING_NOTE,
            "all queue pairs of a program share room for some %d packets of 4096 octets, "
            "and their windows are as small",
            2 * has / RCVBUF_OF_PACKET);
        finding_cure(ret, "%ssysctl -w net.core.rmem_max=%d", finding_sudo(), wanted);
    }
}

static const struct doctor_check checks[] = {
    {"port", "who has the UDP port of RoCE", port_look},
    {"firewall", "whether packets get to the UDP port of RoCE", way_look},
    {"buffers", "how large the kernel lets receive buffers be", buffers_look},
};

const struct doctor_group doctor_roce = {"RoCE", checks, sizeof checks / sizeof checks[0], false};
