// Who is at the door: HTTP_GUEST_MAX connections, HTTP_GUEST_SHARE of one address, and until when
// each must have said what it wants, or have taken its answer. A connection that is late is shut
// down; it is not asked whether something of it came in between, so one that sends an octet now and
// then gains nothing.
#pragma once

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/time.h"
#include "text/address.h"

enum { HTTP_GUEST_MAX = 64, HTTP_GUEST_SHARE = 24 };

#define HTTP_REQUEST_NS (10 * NS_PER_S) // from the connection, or the answer before, to the request
#define HTTP_ANSWER_NS  (30 * NS_PER_S) // from the request until its answer is taken

struct http_guest {
    struct MHD_Connection *connection; // NULL: free
    int fd;
    char host[TEXT_ADDRESS_MAX]; // as address_host has it
    bool is_on_loopback;         // it came to an address of this machine alone
    bool has_asked;              // a whole request, ever
    bool is_late;
    bool waits; // for http_door_go_on
    instant_ns deadline;
};

struct http_guests {
    struct http_guest all[HTTP_GUEST_MAX];
    uint64_t admitted, over_share, late, silent;
};

// May one more come from there?
bool http_guests_admit(struct http_guests *guests, const struct sockaddr *from);
// It has come. NULL: there is no room.
struct http_guest *http_guest_enter(struct http_guests *guests, struct MHD_Connection *connection,
                                    instant_ns now);
void http_guest_leave(struct http_guests *guests, struct http_guest *guest);

// Its request is here; its answer is gone.
void http_guest_asked(struct http_guest *guest, instant_ns now);
void http_guest_answered(struct http_guest *guest, instant_ns now);

instant_ns http_guests_next_deadline(const struct http_guests *guests);
void http_guests_on_deadline(struct http_guests *guests, instant_ns now);
