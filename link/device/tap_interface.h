// An interface of the kernel's TUN/TAP driver as this process has it: frames in and out, waiting,
// and the address that it has on its Ethernet. Who speaks over it is above: the tap device
// (link/device/tap.h) with segments, the tap link of datagrams (link/datagram/tap.h).
//
// Every frame has a virtio header in front (IFF_VNET_HDR), by which the kernel and we leave
// checksums and the cutting of large packets to each other.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "base/span.h"
#include "base/time.h"
#include "base/trace.h"
#include "link/device/tap.h"
#include "net/iface.h"

struct tap_interface {
    struct trace *trace;
    int fd; // of the interface; as the others -1 once it is closed
    int epoll_fd;
    int wake_fd; // eventfd
    bool wants_out;
};

enum tap_ready {
    TAP_READY_FRAMES = 1,
    TAP_READY_ROOM = 2, // again, behind a write that found none
};

// Takes the interface and brings it up, if that is allowed and needed; `*ret` says what it is for
// net/, with tap_interface_write as its port. Returns 0 or a negative errno, and nothing is open.
int tap_interface_open(struct tap_interface *t, const struct device_tap_config *config,
                       struct net_iface_config *ret);
void tap_interface_close(struct tap_interface *t);

// As net_frame_port has it, of a struct tap_interface. What the kernel does not take for another
// reason than room is lost: it will be sent again.
bool tap_interface_write(void *t, const struct net_frame *frame);
// The next frame that has come, as much of it as there is room for. Its length, or a negative
// errno: there is none. `*ret_is_checked`: its checksum was never computed, or is known to be good.
ssize_t tap_interface_read(struct tap_interface *t, struct mspan into, bool *ret_is_checked);

// What there is of enum tap_ready, now.
unsigned tap_interface_look(struct tap_interface *t);
void tap_interface_wait(struct tap_interface *t, duration_ns timeout_ns);
// From any thread or signal handler.
void tap_interface_wake(struct tap_interface *t);
