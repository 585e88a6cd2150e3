// Many connections between two processes: what scale.c measures, and a carrier of its requests.
#pragma once

enum {
    SCALE_REQUEST_LEN = 64,
    SCALE_DEPTH = 16,          // requests that are out at a time, in all
    SCALE_CONNECTING_MAX = 32, // connections that are being made at a time
};

// Requests of SCALE_REQUEST_LEN octets and answers to them, over connections 0 … count - 1. What
// fails ends the program.
struct scale_carrier {
    const char *name;
    // The server, in a process of its own: writes its port, accepts `count` connections, answers
    // each request with its octets, by the connection that it came by, and never ends.
    void (*serve)(unsigned count, int port_fd);
    // The client: makes them all, and returns when they are made.
    void (*connect)(unsigned count, int port_fd);
    void (*request)(unsigned connection);
    // Looks once: how many answers have come since the last look.
    unsigned (*answers)(void);
};

extern const struct scale_carrier scale_verbs;
extern const struct scale_carrier scale_tcp;
