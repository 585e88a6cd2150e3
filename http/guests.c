#include "http/guests.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#include "listen/address.h"

bool http_guests_admit(struct http_guests *guests, const struct sockaddr *from)
{
    char host[TEXT_ADDRESS_MAX];
    unsigned there = 0;
    address_host(from, host, sizeof host);
    for (unsigned i = 0; i < HTTP_GUEST_MAX; i++) {
        const struct http_guest *guest = &guests->all[i];
        there += guest->connection != NULL && strcmp(guest->host, host) == 0;
    }
    const bool may_enter = there < HTTP_GUEST_SHARE;
    guests->admitted += may_enter;
    guests->over_share += !may_enter;
    return may_enter;
}

static bool is_loopback(const struct sockaddr_storage *addr)
{
    const struct sockaddr_in *in = (const struct sockaddr_in *)addr;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)addr;
    if (addr->ss_family == AF_INET) {
        return ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return addr->ss_family == AF_INET6 && (IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr) ||
                                           (IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr) &&
                                            in6->sin6_addr.s6_addr[12] == IN_LOOPBACKNET));
}

struct http_guest *http_guest_enter(struct http_guests *guests, struct MHD_Connection *connection,
                                    instant_ns now)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof own;
    unsigned i = 0;
    while (i < HTTP_GUEST_MAX && guests->all[i].connection != NULL) {
        i++;
    }
    if (i == HTTP_GUEST_MAX || info == NULL) {
        return NULL;
    }
    struct http_guest *guest = &guests->all[i];
    *guest = (struct http_guest){.connection = connection, .fd = info->connect_fd};
    address_host_of_peer(guest->fd, guest->host, sizeof guest->host);
    guest->is_on_loopback =
        getsockname(guest->fd, (struct sockaddr *)&own, &len) == 0 && is_loopback(&own);
    guest->deadline = instant_after(now, HTTP_REQUEST_NS);
    return guest;
}

void http_guest_leave(struct http_guests *guests, struct http_guest *guest)
{
    if (guest != NULL) {
        guests->silent += !guest->has_asked;
        *guest = (struct http_guest){0};
    }
}

void http_guest_asked(struct http_guest *guest, instant_ns now)
{
    guest->has_asked = true;
    guest->deadline = instant_after(now, HTTP_ANSWER_NS);
}

void http_guest_answered(struct http_guest *guest, instant_ns now)
{
    guest->deadline = instant_after(now, HTTP_REQUEST_NS);
}

instant_ns http_guests_next_deadline(const struct http_guests *guests)
{
    instant_ns next = INSTANT_NEVER;
    for (unsigned i = 0; i < HTTP_GUEST_MAX; i++) {
        const struct http_guest *guest = &guests->all[i];
        if (guest->connection != NULL && !guest->is_late) {
            next = instant_min(next, guest->deadline);
        }
    }
    return next;
}

// libmicrohttpd finds the end of the stream, and closes it.
void http_guests_on_deadline(struct http_guests *guests, instant_ns now)
{
    for (unsigned i = 0; i < HTTP_GUEST_MAX; i++) {
        struct http_guest *guest = &guests->all[i];
        if (guest->connection != NULL && !guest->is_late && guest->deadline <= now) {
            guest->is_late = true;
            guests->late++;
            shutdown(guest->fd, SHUT_RDWR);
        }
    }
}
