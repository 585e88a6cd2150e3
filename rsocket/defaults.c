// What sockets begin with: what stands here, or what the administrator has put into files under
// /etc/rdma/rsocket, a number in each, as rsocket(7) has them. (Its wake_up_interval guards against
// sleeping over what has come; nobody does that here.)

#include <limits.h>
#include <stdio.h>

#include "rsocket/rsocket.h"

enum { SPIN_MAX_US = 1000 * 1000 };

static const struct rs_defaults built_in = {
    .options = {.send_ring_len = 1 << 17,
                .recv_ring_len = 1 << 17,
                .inline_len = 64,
                .sq_size = 384,
                .rq_size = 384,
                .keep_idle_s = 7200},
    .spin_ns = 10 * 1000,
};

// False: there is no such file, or no number in it.
static bool number_read(const char *folder, const char *name, uint32_t least, uint32_t most,
                        uint32_t *ret)
{
    char path[PATH_MAX];
    long long number;
    int len = snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = len < (int)sizeof path ? fopen(path, "re") : NULL;
    if (file == NULL) {
        return false;
    }
    const bool is_number = fscanf(file, "%lld", &number) == 1;
    fclose(file);
    if (is_number) {
        *ret = number < (long long)least  ? least
               : number > (long long)most ? most
                                          : (uint32_t)number;
    }
    return is_number;
}

static void ring_len_read(const char *folder, const char *name, uint32_t *ret)
{
    if (number_read(folder, name, RS_RING_MIN, RS_RING_MAX, ret)) {
        *ret &= ~1U; // it has halves
    }
}

void rs_defaults_read(const char *folder, struct rs_defaults *ret)
{
    uint32_t number;
    *ret = built_in;
    ring_len_read(folder, "mem_default", &ret->options.recv_ring_len);
    ring_len_read(folder, "wmem_default", &ret->options.send_ring_len);
    number_read(folder, "inline_default", 0, RS_INLINE_MAX, &ret->options.inline_len);
    if (number_read(folder, "sqsize_default", 0, RS_QP_SIZE_MAX, &number)) {
        ret->options.sq_size = (uint16_t)number;
    }
    if (number_read(folder, "rqsize_default", 0, RS_QP_SIZE_MAX, &number)) {
        ret->options.rq_size = (uint16_t)number;
    }
    if (number_read(folder, "iomap_size", 0, UINT16_MAX, &number)) {
        ret->options.iomap_count = rs_iomap_count_fit(number);
    }
    if (number_read(folder, "polling_time", 0, SPIN_MAX_US, &number)) {
        ret->spin_ns = (int64_t)number * 1000;
    }
}

static struct rs_defaults of_host;

static void read_once(void)
{
    rs_defaults_read("/etc/rdma/rsocket", &of_host);
}

const struct rs_defaults *rs_defaults(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, read_once);
    return &of_host;
}
