#include "node/tts/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 128 };

static int fail(char *ret_why, const char *text, int error, const char *why)
{
    snprintf(ret_why, ADDRESS_WHY_MAX, "%.64s: %s", text, why);
    return error;
}

/* ---- Unix ------------------------------------------------------------------------------------ */

static int is_abandoned(const struct sockaddr_un *addr)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int result = fd >= 0 && connect(fd, (const struct sockaddr *)addr, sizeof *addr) != 0 &&
                 errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return result;
}

static int listen_unix(const char *path, char *ret_path, size_t capacity, char *ret_why)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof addr.sun_path || strlen(path) >= capacity) {
        return fail(ret_why, path, -ENAMETOOLONG, strerror(ENAMETOOLONG));
    }
    memcpy(addr.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return fail(ret_why, path, -errno, strerror(errno));
    }
    int result = bind(fd, (struct sockaddr *)&addr, sizeof addr);
    if (result != 0 && errno == EADDRINUSE && is_abandoned(&addr)) {
        unlink(path);
        result = bind(fd, (struct sockaddr *)&addr, sizeof addr);
    }
    if (result != 0 || listen(fd, BACKLOG) != 0) {
        int error = -errno;
        close(fd);
        return fail(ret_why, path, error, strerror(-error));
    }
    snprintf(ret_path, capacity, "%s", path);
    return fd;
}

/* ---- IP -------------------------------------------------------------------------------------- */

// Takes "HOST:PORT" or "[HOST]:PORT" apart, in place. NULL: there is no port.
static char *port_split(char *text, char **ret_host)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return NULL;
    }
    *colon = '\0';
    size_t len = strlen(text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text[len - 1] = '\0';
        text++;
    }
    *ret_host = text;
    return colon + 1;
}

// The resolver takes numbers beyond 16 bits too, and drops what exceeds them.
static bool port_exists(const char *port)
{
    bool is_number = *port != '\0' && strspn(port, "0123456789") == strlen(port);
    return !is_number || (strlen(port) <= 5 && atoi(port) <= UINT16_MAX);
}

static int listen_at(const struct addrinfo *info)
{
    int one = 1;
    int fd = socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(fd, info->ai_addr, info->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0) {
        int error = -errno;
        close(fd);
        return error;
    }
    return fd;
}

int address_listen(const char *text, char *ret_path, size_t path_capacity, char *ret_why)
{
    static const char unix_prefix[] = "unix:";
    char copy[256], *host;
    *ret_path = '\0';
    if (strncmp(text, unix_prefix, sizeof unix_prefix - 1) == 0) {
        return listen_unix(text + sizeof unix_prefix - 1, ret_path, path_capacity, ret_why);
    }
    snprintf(copy, sizeof copy, "%s", text);
    char *port = strlen(text) < sizeof copy ? port_split(copy, &host) : NULL;
    if (port == NULL) {
        return fail(ret_why, text, -EINVAL, "not HOST:PORT or unix:PATH");
    }
    if (!port_exists(port)) {
        return fail(ret_why, text, -EINVAL, "no such port");
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *info;
    int error = getaddrinfo(*host != '\0' ? host : NULL, port, &hints, &info);
    if (error != 0) {
        return fail(ret_why, text, -EADDRNOTAVAIL, gai_strerror(error));
    }
    int fd = listen_at(info);
    freeaddrinfo(info);
    return fd < 0 ? fail(ret_why, text, fd, strerror(-fd)) : fd;
}

// A colon before which others stand is of an IPv6 address without brackets.
static char *port_find(char *text, char **ret_host)
{
    size_t len = strlen(text);
    bool has_port = *text == '[' ? text[len - 1] != ']' : strchr(text, ':') == strrchr(text, ':');
    if (has_port && strchr(text, ':') != NULL) {
        return port_split(text, ret_host);
    }
    bool is_bracketed = *text == '[' && text[len - 1] == ']';
    text[is_bracketed ? len - 1 : len] = '\0';
    *ret_host = text + is_bracketed;
    return NULL;
}

int address_resolve(const char *text, const char *port, struct sockaddr_storage *ret, char *ret_why)
{
    char copy[256], *host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *info;
    if (*text == '\0' || strlen(text) >= sizeof copy) {
        return fail(ret_why, text, -EINVAL, "not HOST or HOST:PORT");
    }
    snprintf(copy, sizeof copy, "%s", text);
    const char *own_port = port_find(copy, &host);
    if (own_port != NULL && !port_exists(own_port)) {
        return fail(ret_why, text, -EINVAL, "no such port");
    }
    int error =
        getaddrinfo(*host != '\0' ? host : NULL, own_port != NULL ? own_port : port, &hints, &info);
    if (error != 0) {
        return fail(ret_why, text, -EADDRNOTAVAIL, gai_strerror(error));
    }
    memcpy(ret, info->ai_addr, info->ai_addrlen);
    freeaddrinfo(info);
    return 0;
}

/* ---- texts ----------------------------------------------------------------------------------- */

bool address_end_of(const struct sockaddr *addr, struct address_end *ret)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    if (addr->sa_family == AF_INET) {
        struct in_addr loopback = {.s_addr = htonl(INADDR_LOOPBACK)};
        *ret = (struct address_end){.is_wildcard = in->sin_addr.s_addr == INADDR_ANY};
        inet_ntop(AF_INET, ret->is_wildcard ? &loopback : &in->sin_addr, ret->host,
                  sizeof ret->host);
        snprintf(ret->port, sizeof ret->port, "%u", ntohs(in->sin_port));
    } else if (addr->sa_family == AF_INET6) {
        *ret = (struct address_end){.is_6 = true,
                                    .is_wildcard = IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr)};
        inet_ntop(AF_INET6, ret->is_wildcard ? &in6addr_loopback : &in6->sin6_addr, ret->host,
                  sizeof ret->host);
        snprintf(ret->port, sizeof ret->port, "%u", ntohs(in6->sin6_port));
    } else {
        return false;
    }
    return true;
}

void address_format(const struct sockaddr *addr, char *ret, size_t capacity)
{
    struct address_end end;
    if (addr == NULL || !address_end_of(addr, &end)) {
        snprintf(ret, capacity, "unknown");
    } else {
        snprintf(ret, capacity, end.is_6 ? "[%s]:%s" : "%s:%s", end.host, end.port);
    }
}

bool address_of_own_end(int fd, struct address_end *ret)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    return getsockname(fd, (struct sockaddr *)&addr, &len) == 0 &&
           address_end_of((const struct sockaddr *)&addr, ret);
}

void address_of_listener(int fd, char *ret, size_t capacity)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    *ret = '\0';
    if (getsockname(fd, (struct sockaddr *)&addr, &len) == 0 && addr.ss_family != AF_UNIX) {
        address_format((const struct sockaddr *)&addr, ret, capacity);
    }
}

void address_of_peer(int fd, char *ret, size_t capacity)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    struct ucred peer;
    socklen_t peer_len = sizeof peer;
    snprintf(ret, capacity, "unknown");
    if (getpeername(fd, (struct sockaddr *)&addr, &len) != 0) {
        return;
    }
    if (addr.ss_family != AF_UNIX) {
        address_format((const struct sockaddr *)&addr, ret, capacity);
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0) {
        snprintf(ret, capacity, "unix, process %d", (int)peer.pid);
    }
}

static void host_of_6(const struct sockaddr_in6 *in6, char *ret, size_t capacity)
{
    struct in6_addr network = in6->sin6_addr;
    char text[INET6_ADDRSTRLEN];
    if (IN6_IS_ADDR_V4MAPPED(&network)) {
        inet_ntop(AF_INET, &network.s6_addr[12], text, sizeof text);
        snprintf(ret, capacity, "%s", text);
        return;
    }
    memset(&network.s6_addr[8], 0, 8);
    inet_ntop(AF_INET6, &network, text, sizeof text);
    snprintf(ret, capacity, "%s/64", text);
}

void address_host(const struct sockaddr *addr, char *ret, size_t capacity)
{
    struct address_end end;
    if (addr != NULL && addr->sa_family == AF_UNIX) {
        snprintf(ret, capacity, "unix");
    } else if (addr != NULL && addr->sa_family == AF_INET6) {
        host_of_6((const struct sockaddr_in6 *)addr, ret, capacity);
    } else if (addr != NULL && address_end_of(addr, &end)) {
        snprintf(ret, capacity, "%s", end.host);
    } else {
        snprintf(ret, capacity, "unknown");
    }
}

void address_host_of_peer(int fd, char *ret, size_t capacity)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    bool is_there = getpeername(fd, (struct sockaddr *)&addr, &len) == 0;
    address_host(is_there ? (const struct sockaddr *)&addr : NULL, ret, capacity);
}
