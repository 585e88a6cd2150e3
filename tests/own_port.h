// A port for a test that wants to know its number: no other test of this host has it as long as the
// process lives, and the kernel gives it to nobody who asks for any port.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <cmocka.h>

enum { OWN_PORT_FIRST = 20000, OWN_PORTS = 10000 }; // below those of Linux's clients, 32768 and on

// A name beside the port, since whoever shares a port of RoCE's may bind it too. It is bound until
// the process ends: an abstract name is of the network namespace, as a port is.
static inline bool own_port_reserve(uint16_t port)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    const int len =
        snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "weft-test-port-%u", port);
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    if (bind(fd, (const struct sockaddr *)&name,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0) {
        return true;
    }
    close(fd);
    return false;
}

// Of nobody who is no test.
static inline bool own_port_is_free(uint16_t port)
{
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    const bool is_free = bind(fd, (const struct sockaddr *)&any, sizeof any) == 0;
    close(fd);
    return is_free;
}

// The same each time.
static inline uint16_t own_port(void)
{
    static uint16_t port;
    for (unsigned i = 0; port == 0 && i < OWN_PORTS; i++) {
        const unsigned at = ((unsigned)getpid() + i) % OWN_PORTS;
        const uint16_t next = (uint16_t)(OWN_PORT_FIRST + at);
        if (own_port_is_free(next) && own_port_reserve(next)) {
            port = next;
        }
    }
    assert_int_not_equal(port, 0);
    return port;
}
