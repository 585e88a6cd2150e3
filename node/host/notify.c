#include "node/host/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

// A path, or a name without a file behind '@'. 0: neither.
static socklen_t address_make(const char *name, struct sockaddr_un *ret)
{
    const size_t len = strlen(name);
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((name[0] != '/' && name[0] != '@') || len >= sizeof ret->sun_path) {
        return 0;
    }
    memcpy(ret->sun_path, name, len);
    if (name[0] == '@') {
        ret->sun_path[0] = '\0';
    }
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

void notify_send(const char *state)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr;
    const socklen_t addr_len = name != NULL ? address_make(name, &addr) : 0;
    const int fd = addr_len > 0 ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0) {
        sendto(fd, state, strlen(state), MSG_DONTWAIT | MSG_NOSIGNAL,
               (const struct sockaddr *)&addr, addr_len);
        close(fd);
    }
}
