#include "listen/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "listen/passed.h"
#include "text/endpoint.h"

enum { BACKLOG = 128 };

static int fail(struct why *ret_why, const char *text, int error, const char *why)
{
    why_say(ret_why, "%.64s: %s", text, why);
    return error;
}

/* ---- Unix ------------------------------------------------------------------------------------ */

// A file that is no socket refuses connections, too, and is somebody's. So is a socket whose
// listener has no room for one more (EAGAIN).
static bool is_abandoned(const struct sockaddr_un *addr)
{
    struct stat found;
    if (lstat(addr->sun_path, &found) != 0 || !S_ISSOCK(found.st_mode)) {
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool result = fd >= 0 && connect(fd, (const struct sockaddr *)addr, sizeof *addr) != 0 &&
                  errno == ECONNREFUSED;
    if (fd >= 0) {
        close(fd);
    }
    return result;
}

static int bind_to(int fd, const struct sockaddr_un *addr)
{
    return bind(fd, (const struct sockaddr *)addr, sizeof *addr) == 0 ? 0 : -errno;
}

static int listen_unix(const char *path, char *ret_path, size_t capacity, struct why *ret_why)
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
    int error = bind_to(fd, &addr);
    if (error == -EADDRINUSE && is_abandoned(&addr)) {
        unlink(path);
        error = bind_to(fd, &addr);
    }
    if (error == 0 && listen(fd, BACKLOG) != 0) {
        error = -errno;
    }
    if (error != 0) {
        close(fd);
        return fail(ret_why, path, error, strerror(-error));
    }
    snprintf(ret_path, capacity, "%s", path);
    return fd;
}

// Where a socket that was passed listens, if it has a path.
static int listen_passed(const char *text, char *ret_path, size_t capacity, struct why *ret_why)
{
    struct sockaddr_un addr = {.sun_family = AF_UNSPEC};
    socklen_t len = sizeof addr;
    int fd = passed_open(text, ret_why);
    if (fd >= 0 && getsockname(fd, (struct sockaddr *)&addr, &len) == 0 &&
        addr.sun_family == AF_UNIX) {
        snprintf(ret_path, capacity, "%.*s", (int)sizeof addr.sun_path, addr.sun_path);
    }
    return fd;
}

/* ---- IP -------------------------------------------------------------------------------------- */

// A host and a port for the resolver, each with its end.
struct parts {
    char host[256], port[32];
    bool has_port;
};

static enum text_endpoint_verdict parts_take(const char *text, struct parts *ret)
{
    struct text_endpoint e;
    enum text_endpoint_verdict verdict = text_endpoint_split(text, strlen(text), &e);
    ret->has_port = e.port != NULL;
    snprintf(ret->host, sizeof ret->host, "%.*s", (int)e.host_len, e.host);
    snprintf(ret->port, sizeof ret->port, "%.*s", (int)e.port_len, ret->has_port ? e.port : "");
    return verdict;
}

static void port_complete(struct parts *parts, const char *port)
{
    if (!parts->has_port) {
        snprintf(parts->port, sizeof parts->port, "%s", port);
    }
}

// 0 and an address to free, of a socket that listens; no host stands for every address.
static int resolve(const char *text, const struct parts *parts, struct addrinfo **ret,
                   struct why *ret_why)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    if (!text_port_exists(parts->port, strlen(parts->port))) {
        return fail(ret_why, text, -EINVAL, "no such port");
    }
    int error = getaddrinfo(*parts->host != '\0' ? parts->host : NULL, parts->port, &hints, ret);
    return error != 0 ? fail(ret_why, text, -EADDRNOTAVAIL, gai_strerror(error)) : 0;
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

// A listening descriptor at "HOST:PORT".
static int listen_ip(const char *text, const char *port, struct why *ret_why)
{
    struct parts parts = {0};
    struct addrinfo *info;
    enum text_endpoint_verdict verdict =
        strlen(text) < sizeof parts.host ? parts_take(text, &parts) : TEXT_ENDPOINT_BRACKET;
    if (verdict == TEXT_ENDPOINT_BARE_6) {
        return fail(ret_why, text, -EINVAL, "an IPv6 number stands in brackets: [NUMBER]:PORT");
    }
    bool is_whole = parts.has_port || (port != NULL && *text != '\0');
    if (verdict != TEXT_ENDPOINT_OK || !is_whole) {
        return fail(ret_why, text, -EINVAL,
                    port != NULL ? "not HOST, HOST:PORT, unix:PATH or fd:NAME"
                                 : "not HOST:PORT, unix:PATH or fd:NAME");
    }
    port_complete(&parts, port);
    int error = resolve(text, &parts, &info, ret_why);
    if (error != 0) {
        return error;
    }
    int fd = listen_at(info);
    freeaddrinfo(info);
    return fd < 0 ? fail(ret_why, text, fd, strerror(-fd)) : fd;
}

int address_listen(const char *text, const char *port, char *ret_path, size_t path_capacity,
                   struct why *ret_why)
{
    static const char unix_prefix[] = "unix:";
    *ret_path = '\0';
    if (strncmp(text, unix_prefix, sizeof unix_prefix - 1) == 0) {
        return listen_unix(text + sizeof unix_prefix - 1, ret_path, path_capacity, ret_why);
    }
    if (passed_is(text)) {
        return listen_passed(text, ret_path, path_capacity, ret_why);
    }
    return listen_ip(text, port, ret_why);
}

void address_unlink(const char *text, const char *path)
{
    if (*path != '\0' && !passed_is(text)) {
        unlink(path);
    }
}

int address_resolve(const char *text, const char *port, struct sockaddr_storage *ret,
                    struct why *ret_why)
{
    struct parts parts;
    struct addrinfo *info;
    if (passed_is(text)) {
        return fail(ret_why, text, -EINVAL,
                    "a socket cannot be passed here: give HOST or HOST:PORT");
    }
    if (*text == '\0' || strlen(text) >= sizeof parts.host ||
        parts_take(text, &parts) == TEXT_ENDPOINT_BRACKET) {
        return fail(ret_why, text, -EINVAL, "not HOST or HOST:PORT");
    }
    port_complete(&parts, port); // a bare IPv6 number is a host too: no port is asked for
    int error = resolve(text, &parts, &info, ret_why);
    if (error == 0) {
        memcpy(ret, info->ai_addr, info->ai_addrlen);
        freeaddrinfo(info);
    }
    return error;
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool is_wildcard(const struct sockaddr *addr)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    return addr->sa_family == AF_INET ? in->sin_addr.s_addr == INADDR_ANY
                                      : IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr);
}

bool address_end_of(const struct sockaddr *addr, struct address_end *ret)
{
    *ret = (struct address_end){.host = ""};
    if (addr == NULL || (addr->sa_family != AF_INET && addr->sa_family != AF_INET6)) {
        return false;
    }
    text_address_host(addr, ret->host);
    ret->is_6 = addr->sa_family == AF_INET6;
    ret->is_wildcard = is_wildcard(addr);
    if (ret->is_wildcard) {
        snprintf(ret->host, sizeof ret->host, ret->is_6 ? "::1" : "127.0.0.1");
    }
    snprintf(ret->port, sizeof ret->port, "%u", text_address_port(addr));
    return true;
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
    struct address_end end;
    *ret = '\0';
    if (address_of_own_end(fd, &end)) {
        text_endpoint_format(end.host, end.port, ret, capacity);
    }
}

void address_of_peer(int fd, char ret[TEXT_ADDRESS_MAX])
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    struct ucred peer;
    socklen_t peer_len = sizeof peer;
    bool is_there = getpeername(fd, (struct sockaddr *)&addr, &len) == 0;
    if (is_there && addr.ss_family == AF_UNIX &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_len) == 0) {
        snprintf(ret, TEXT_ADDRESS_MAX, "unix, process %d", (int)peer.pid);
    } else {
        text_address_format(is_there ? (const struct sockaddr *)&addr : NULL, ret);
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
    char host[TEXT_ADDRESS_MAX];
    if (addr != NULL && addr->sa_family == AF_UNIX) {
        snprintf(ret, capacity, "unix");
    } else if (addr != NULL && addr->sa_family == AF_INET6) {
        host_of_6((const struct sockaddr_in6 *)addr, ret, capacity);
    } else {
        text_address_host(addr, host);
        snprintf(ret, capacity, "%s", host);
    }
}

void address_host_of_peer(int fd, char *ret, size_t capacity)
{
    struct sockaddr_storage addr = {0};
    socklen_t len = sizeof addr;
    bool is_there = getpeername(fd, (struct sockaddr *)&addr, &len) == 0;
    address_host(is_there ? (const struct sockaddr *)&addr : NULL, ret, capacity);
}
