// An initiator (<weft/nvme.h>) whose targets are a table: what is asked of them is written down,
// and answered as a test says. For tests of who stands on it; included once.
#pragma once

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <cmocka.h>

#include <weft/nvme.h>

enum { OUT_MAX = 16, END_COUNT = 2 };

static struct end {
    int connect_error, namespaces_error, identify_error, submit_error;
    bool has_namespaces;
    struct weft_nvme_namespace ns;
    struct weft_nvme_info info;
    uint64_t trim_max, zeroes_max;
    enum weft_nvme_access access;
    unsigned change_ms;
    bool is_lost;
    unsigned connects, open;
    struct weft_nvme_attr asked;
    uint32_t asked_nsid;
    struct weft_nvme_io *out[OUT_MAX]; // commands, the oldest first
    unsigned out_count, sent;
    unsigned waiting; // of those that are out, they have not left
    unsigned done;    // so many of them end at the next poll ...
    int error;        // ... so
    uint16_t status;
    bool is_final;
} ends[END_COUNT];

struct weft_nvme {
    struct end *end;
    int fd;
};

static struct end *end_at(const struct weft_nvme_address *address)
{
    return &ends[address->host[0] - 'a'];
}

int weft_nvme_connect(const struct weft_nvme_attr *attr, struct weft_nvme **ret, char *ret_why)
{
    struct end *end = end_at(attr->address);
    end->connects++;
    end->asked = *attr;
    if (end->connect_error != 0) {
        snprintf(ret_why, WEFT_NVME_WHY_MAX, "%s refuses", attr->address->host);
        return end->connect_error;
    }
    *ret = calloc(1, sizeof **ret);
    **ret = (struct weft_nvme){.end = end, .fd = eventfd(0, EFD_CLOEXEC)};
    end->open++;
    return 0;
}

static void out_end(struct end *end, int error, uint16_t status)
{
    struct weft_nvme_io *io = end->out[0];
    end->out_count--;
    memmove(&end->out[0], &end->out[1], end->out_count * sizeof end->out[0]);
    io->error = error;
    io->status = status;
    io->may_retry = !end->is_final;
    io->on_complete(io);
}

void weft_nvme_disconnect(struct weft_nvme *nvme)
{
    nvme->end->open--;
    close(nvme->fd);
    free(nvme);
}

void weft_nvme_info(const struct weft_nvme *nvme, struct weft_nvme_info *ret)
{
    *ret = nvme->end->info;
}

int weft_nvme_namespaces(struct weft_nvme *nvme, uint32_t *ret, size_t count, char *ret_why)
{
    assert_int_equal(count, 1);
    *ret = nvme->end->ns.nsid;
    return nvme->end->namespaces_error != 0 ? nvme->end->namespaces_error
                                            : nvme->end->has_namespaces;
}

int weft_nvme_identify(struct weft_nvme *nvme, uint32_t nsid, struct weft_nvme_namespace *ret,
                       char *ret_why)
{
    nvme->end->asked_nsid = nsid;
    *ret = nvme->end->ns;
    return nvme->end->identify_error;
}

int weft_nvme_vendor_data(struct weft_nvme *nvme, uint32_t nsid, uint8_t *ret, size_t len,
                          char *ret_why)
{
    assert_int_equal(nsid, nvme->end->ns.nsid);
    return -ENOENT; // it has nothing more to say
}

uint64_t weft_nvme_range_max_len(const struct weft_nvme *nvme, uint32_t nsid,
                                 enum weft_nvme_operation operation)
{
    assert_int_equal(nsid, nvme->end->ns.nsid);
    return operation == WEFT_NVME_TRIM ? nvme->end->trim_max : nvme->end->zeroes_max;
}

int weft_nvme_fd(const struct weft_nvme *nvme)
{
    return nvme->fd;
}

enum weft_nvme_access weft_nvme_access(const struct weft_nvme *nvme, uint32_t nsid)
{
    assert_int_equal(nsid, nvme->end->ns.nsid);
    return nvme->end->access;
}

unsigned weft_nvme_access_change_ms(const struct weft_nvme *nvme)
{
    return nvme->end->change_ms;
}

const char *weft_nvme_why(const struct weft_nvme *nvme)
{
    return nvme->end->is_lost ? "the peer is gone" : NULL;
}

int weft_nvme_submit(struct weft_nvme *nvme, struct weft_nvme_io *io)
{
    struct end *end = nvme->end;
    if (end->submit_error == 0) {
        assert_true(end->out_count < OUT_MAX);
        end->out[end->out_count++] = io;
        end->sent++;
        end->waiting = (io->flags & WEFT_NVME_MORE) != 0 ? end->waiting + 1 : 0;
    }
    return end->submit_error;
}

void weft_nvme_send(struct weft_nvme *nvme)
{
    nvme->end->waiting = 0;
}

int weft_nvme_poll(struct weft_nvme *nvme)
{
    struct end *end = nvme->end;
    int count = 0;
    end->waiting = 0;
    for (; end->done > 0; end->done--, count++) {
        out_end(end, end->error, end->status);
    }
    while (end->is_lost && end->out_count > 0) {
        out_end(end, -ECONNRESET, 0);
    }
    return end->is_lost ? -ECONNRESET : count;
}

int weft_nvme_wait(struct weft_nvme *nvme, int timeout_ms)
{
    assert_int_equal(timeout_ms, 0);
    return (int)nvme->end->done;
}
