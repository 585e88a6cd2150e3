// A controller of the tests' own target, with its first namespace known, and memory to move.
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <weft/nvme.h>

#include "tests/initiator/target.h"

enum { LEN = 256 << 10, DEPTH = 8 };

struct scene {
    struct target *target;
    struct weft_nvme *nvme;
    struct weft_nvme_info info;
    struct weft_nvme_counters counters;
    uint8_t *data;
};

static inline void scene_open(struct scene *s, const struct target_wish *wish, unsigned flags,
                              unsigned queue_count)
{
    char why[WEFT_NVME_WHY_MAX];
    struct weft_nvme_namespace ns;
    struct weft_nvme_address address = {.host = "127.0.0.1", .nqn = TARGET_NQN};
    struct weft_nvme_attr attr = {.address = &address,
                                  .depth = DEPTH,
                                  .queue_count = queue_count,
                                  .flags = flags,
                                  .keep_alive_ms = 60000,
                                  .timeout_ms = 20000};
    s->target = target_start(wish);
    memcpy(address.port, target_port(s->target), strlen(target_port(s->target)));
    if (weft_nvme_connect(&attr, &s->nvme, why) != 0) {
        fail_msg("%s", why);
    }
    assert_int_equal(weft_nvme_identify(s->nvme, 1, &ns, why), 0);
    weft_nvme_info(s->nvme, &s->info);
    weft_nvme_counters(s->nvme, &s->counters);
    s->data = calloc(2, LEN);
    for (unsigned i = 0; i < LEN; i++) {
        s->data[i] = (uint8_t)(i * 7 + (i >> 9));
    }
}

static inline void scene_close(struct scene *s)
{
    weft_nvme_disconnect(s->nvme);
    target_stop(s->target);
    free(s->data);
}

static inline void on_complete(struct weft_nvme_io *io)
{
    ++*(unsigned *)io->context;
}

// Submits one and waits for its end; its error.
static inline int run(struct scene *s, struct weft_nvme_io *io)
{
    unsigned done = 0;
    io->nsid = io->nsid == 0 ? 1 : io->nsid;
    io->on_complete = on_complete;
    io->context = &done;
    int error = weft_nvme_submit(s->nvme, io);
    if (error != 0) {
        return error;
    }
    assert_int_equal(done, 0);
    while (done == 0) {
        weft_nvme_wait(s->nvme, 1000);
    }
    weft_nvme_counters(s->nvme, &s->counters);
    return io->error;
}

static inline int move(struct scene *s, enum weft_nvme_operation operation, uint64_t offset,
                       uint8_t *at, uint32_t len)
{
    const struct iovec piece = {at, len};
    struct weft_nvme_io io = {
        .operation = operation, .offset = offset, .len = len, .memory = &piece, .memory_count = 1};
    return run(s, &io);
}
