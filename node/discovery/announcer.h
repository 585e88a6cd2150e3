// The node's NVMe discovery service over TCP, announced to the network by mDNS (node/mdns/mdns.h),
// by an envoy's process.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node/loop/loop.h"

struct announcer;

struct announcer_parts {
    struct loop *loop;
    uint16_t port;
    void *ctx;
    void (*say)(void *ctx, const char *line);
};

// NULL without memory.
struct announcer *announcer_create(const struct announcer_parts *parts);
// NULL is allowed.
void announcer_destroy(struct announcer *announcer);
// Is it announced now? What it is called, or why it is not.
bool announcer_is_announced(const struct announcer *announcer, const char **ret_text);

// In the envoy's process: until the end. The exit status.
int announcer_process_main(int channel, const char *name, uint16_t port);
