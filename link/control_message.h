// Control messages beside what a socket sends (cmsg(3)).
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

// Adds one behind those that are there, `msg_controllen` octets of them. There is room for it.
static inline void control_message_add(struct msghdr *msg, int level, int type, const void *value,
                                       size_t len)
{
    struct cmsghdr *at = (struct cmsghdr *)((uint8_t *)msg->msg_control + msg->msg_controllen);
    *at = (struct cmsghdr){.cmsg_level = level, .cmsg_type = type, .cmsg_len = CMSG_LEN(len)};
    memset(CMSG_DATA(at), 0, CMSG_SPACE(len) - CMSG_LEN(0)); // what fills it up is said, too
    memcpy(CMSG_DATA(at), value, len);
    msg->msg_controllen += CMSG_SPACE(len);
}
