// A small door for browsers and collectors: HTTP/1.1 by libmicrohttpd, GET and HEAD alone, and of
// the paths in a table. Who opens it has a loop of its own, watches the door's descriptor for
// input, and lends it the instant.
//
//     http_door_open
//     each turn: wait for http_door_fd, until http_door_next_deadline at most; then http_door_run
//     http_door_close
//
// What a stranger can cost is bounded: connections, in all and of one address; octets and fields
// of a request; the time for a request to come, and for its answer to be taken (http/guests.h,
// http/head.h). What is made for one answer serves all who ask within HTTP_FRESH_NS.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/time.h"

struct why;
struct http_door;

// For so long an answer that was made is given again.
#define HTTP_FRESH_NS (500 * NS_PER_MS)

enum { HTTP_ETAG_LEN = 24, HTTP_RESOURCE_MAX = 16 };

// What stands at a path: octets of the tree with their tag, or what `write` says now.
struct http_resource {
    const char *path; // "/metrics"
    const char *type; // "text/css; charset=utf-8"
    const void *octets;
    size_t len;
    const char *etag; // with its quotation marks
    void (*write)(void *ctx, FILE *out);
};

struct http_door_parts {
    void *ctx; // of the functions here, and of the resources'
    // May what is written be written now? Who asked waits for http_door_go_on otherwise. NULL:
    // always.
    bool (*is_ready)(void *ctx);
    const struct http_resource *resources; // the caller's, as long as the door is open
    size_t count;                          // HTTP_RESOURCE_MAX at most
};

// `listen`: address_listen's form, the caller's as long as the door is open. NULL with the reason
// in `ret_why`.
struct http_door *http_door_open(const char *listen, const struct http_door_parts *parts,
                                 struct why *ret_why);
// NULL is allowed.
void http_door_close(struct http_door *door);

// Where people find it: "http://127.0.0.1:8080/"; of a Unix socket "unix:PATH".
void http_door_address(const struct http_door *door, char *ret, size_t capacity);

// One epoll descriptor for all connections.
int http_door_fd(const struct http_door *door);
instant_ns http_door_next_deadline(const struct http_door *door, instant_ns now);
// Goes on with all of them.
void http_door_run(struct http_door *door, instant_ns now);
// What could not be written can be now. http_door_run is called next.
void http_door_go_on(struct http_door *door);
// Somebody waits for that.
bool http_door_has_waiting(const struct http_door *door);

// What the door has counted, for Prometheus.
void http_door_write_metrics(const struct http_door *door, FILE *out);
