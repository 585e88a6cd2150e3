// Commands at an image: librbd's asynchronous calls, whose ends an eventfd tells.
//
// Threads: one at a time.
#pragma once

#include <rbd/librbd.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/ddm.h>

struct commands {
    const struct weft_ddm_host *host;
    int event_fd;
    uint32_t out_count;
    bool is_read_only;
    bool is_shut_out; // the cluster does not take writes of this client any more: the lock is lost
};

// Makes an eventfd for all images that come. 0 or a negative errno.
int commands_init(struct commands *commands, const struct weft_ddm_host *host, bool is_read_only);
void commands_fini(struct commands *commands);

// From now on `image` tells of ends. Nothing is under way.
int commands_attach(struct commands *commands, rbd_image_t image);

// Begins one, or ends it with an error.
void commands_submit(struct commands *commands, rbd_image_t image,
                     struct weft_ddm_command *command);

// Ends those that are over.
void commands_reap(struct commands *commands, rbd_image_t image);
