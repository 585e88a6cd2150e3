// Checks of devices of the system: those that weft may stand on, those that are beside it.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cli/doctor/doctor.h"
#include "cli/doctor/finding.h"
#include "cli/doctor/kernel_file.h"

/* ---- interfaces for our own TCP -------------------------------------------------------------- */

struct wanted {
    char name[IF_NAMESIZE];
    const char *mode; // "tap", "tun"
};

// The interface that WEFT_LINK names; false: it wants none.
static bool wanted_read(struct wanted *ret)
{
    const char *link = getenv("WEFT_LINK");
    const char *tap = link != NULL ? strstr(link, "tap:") : NULL;
    const char *tun = link != NULL ? strstr(link, "tun:") : NULL;
    const char *at = tap != NULL ? tap : tun;
    if (at == NULL) {
        return false;
    }
    const char *name = at + strlen("tap:");
    ret->mode = at == tap ? "tap" : "tun";
    snprintf(ret->name, sizeof ret->name, "%.*s", (int)strcspn(name, ",;"), name);
    return true;
}

static bool may_make_interfaces(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
    return syscall(SYS_capget, &header, data) == 0 &&
           (data[CAP_TO_INDEX(CAP_NET_ADMIN)].effective & CAP_TO_MASK(CAP_NET_ADMIN)) != 0;
}

// Is it made by /dev/net/tun? True also where that cannot be asked.
static bool is_tunnel(const char *name)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (char *)&info};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    const int error = fd >= 0 && ioctl(fd, SIOCETHTOOL, &request) != 0 ? errno : 0;
    if (fd >= 0) {
        close(fd);
    }
    return error == 0 ? strcmp(info.driver, "tun") == 0 : error != EOPNOTSUPP;
}

// False: the system does not say, since its list is of another network namespace.
static bool owner_find(const char *name, int64_t *ret)
{
    char path[64];
    int64_t index;
    snprintf(path, sizeof path, "/sys/class/net/%.15s/ifindex", name);
    if (!kernel_file_number(path, &index) || index != (int64_t)if_nametoindex(name)) {
        return false;
    }
    snprintf(path, sizeof path, "/sys/class/net/%.15s/owner", name);
    return kernel_file_number(path, ret);
}

// May this user have it? It is not opened: one process has an interface at a time.
static void interface_look(const struct wanted *wanted, struct finding *ret)
{
    const char *name = wanted->name, *mode = wanted->mode;
    int64_t owner;
    const bool is_there = if_nametoindex(name) != 0, may_make = may_make_interfaces();
    finding_see_more(ret, "%s is %s", name, is_there ? "there" : "made when it is needed");
    if (is_there && !is_tunnel(name)) {
        finding_worsen(ret, FINDING_FAILURE, "WEFT_LINK wants %s, which is no tap or tun interface",
                       name);
    } else if (!may_make && (!is_there || (owner_find(name, &owner) && owner != geteuid()))) {
        finding_worsen(ret, FINDING_FAILURE, "WEFT_LINK wants %s, which this user may not %s", name,
                       is_there ? "open" : "make");
        if (is_there) {
            finding_cure(ret,
                         "%sip tuntap del dev %s mode %s && "
                         "%sip tuntap add dev %s mode %s user \"$(id -un)\"",
                         finding_sudo(), name, mode, finding_sudo(), name, mode);
        } else {
            finding_cure(ret, "%sip tuntap add dev %s mode %s user \"$(id -un)\"", finding_sudo(),
                         name, mode);
        }
    }
}

static void tap_look(const struct doctor_subject *subject, struct finding *ret)
{
    struct wanted wanted;
    const bool is_wanted = wanted_read(&wanted);
    const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    const int error = errno;
    if (fd >= 0) {
        close(fd);
        finding_see(ret, "/dev/net/tun may be opened");
        if (is_wanted) {
            interface_look(&wanted, ret);
        }
        return;
    }
    finding_see(ret, "/dev/net/tun: %s", strerror(error));
    if (is_wanted) {
        finding_worsen(ret, FINDING_FAILURE, "WEFT_LINK wants %s", wanted.name);
    } else {
        finding_worsen(ret, FINDING_NOTE, "only --link=tap: and tun: want it");
    }
    finding_cure(ret, error == ENOENT ? "%smodprobe tun" : "%schmod a+rw /dev/net/tun",
                 finding_sudo());
}

/* ---- RDMA devices ---------------------------------------------------------------------------- */

// Those of the kernel, whose names stand in a folder.
static void kernel_devices_look(const struct doctor_subject *subject, struct finding *ret)
{
    DIR *names = opendir("/sys/class/infiniband");
    for (struct dirent *e; names != NULL && (e = readdir(names)) != NULL;) {
        if (e->d_name[0] != '.') {
            finding_see_more(ret, "%s", e->d_name);
        }
    }
    if (names != NULL) {
        closedir(names);
    }
    if (ret->seen[0] == '\0') {
        finding_see(ret, "none, and none is needed");
    } else {
        finding_worsen(ret, FINDING_NOTE,
                       "programs on weft see weft's devices alone; these are for programs on the "
                       "system's libraries");
    }
}

static const struct doctor_check checks[] = {
    {"tap", "interfaces for weft's own TCP", tap_look},
    {"rdma", "RDMA devices of the kernel", kernel_devices_look},
};

const struct doctor_group doctor_devices = {"Devices", checks, sizeof checks / sizeof checks[0],
                                            false};
