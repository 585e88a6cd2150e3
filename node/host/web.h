// The node's doors for HTTP, on its loop: one for collectors of metrics, one with the page too.
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct host;
struct host_web;
struct why;

// `listen`: address_listen's form. NULL with the reason in `ret_why`.
struct host_web *web_create(struct host *host, const char *listen, bool has_page,
                            struct why *ret_why);
// NULL is allowed.
void web_destroy(struct host_web *web);

// "http://127.0.0.1:8080/".
void web_address(const struct host_web *web, char *ret, size_t capacity);
