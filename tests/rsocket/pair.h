// Two connected sockets of one process, over loopback.
#pragma once

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

// How long a test waits for what must come. Only a failing test ever waits so long.
enum { PATIENCE_MS = 30000 };

struct pair {
    int listener, active, passive;
};

// A thread's rconnect.
struct connecting {
    int fd;
    struct sockaddr_in addr;
    int result;
};

int listener_open(struct sockaddr_in *ret_addr);
// Has a port, at which nobody listens yet, nor anybody else as long as it is open.
int bound_open(struct sockaddr_in *ret_addr);
void *connect_main(void *connecting);
void *close_main(void *fd);

// `buffer_len` 0: the default of both rings.
void pair_open_with(struct pair *p, int buffer_len, int iomap_count);
void pair_open(struct pair *p);
void pair_close(struct pair *p); // both at once, as two programs would
