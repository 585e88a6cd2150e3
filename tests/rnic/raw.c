#include "tests/rnic/raw.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "wire/crc32c.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

static void patience_set(int fd)
{
    const struct timeval patience = {.tv_sec = 20};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
}

int raw_connect(const struct sockaddr_in *to)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    patience_set(fd);
    assert_int_equal(connect(fd, (const struct sockaddr *)to, sizeof *to), 0);
    return fd;
}

int raw_listen(struct sockaddr_in *ret_addr)
{
    socklen_t len = sizeof *ret_addr;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    patience_set(fd);
    *ret_addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (struct sockaddr *)ret_addr, sizeof *ret_addr), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)ret_addr, &len), 0);
    return fd;
}

int raw_accept(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    assert_true(fd >= 0);
    patience_set(fd);
    return fd;
}

void raw_send(int fd, const void *octets, size_t len)
{
    const uint8_t *at = octets;
    while (len > 0) {
        ssize_t sent = send(fd, at, len, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        at += sent;
        len -= (size_t)sent;
    }
}

void raw_finish(int fd)
{
    shutdown(fd, SHUT_WR);
}

void raw_reset(int fd)
{
    const struct linger at_once = {.l_onoff = 1};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

bool raw_receive(int fd, void *octets, size_t len)
{
    return len == 0 || recv(fd, octets, len, MSG_WAITALL) == (ssize_t)len;
}

/* ---- what the device says last --------------------------------------------------------------- */

enum { TAIL_LEN = 128 };
struct tail {
    uint8_t octets[TAIL_LEN]; // the last that came
    size_t len;
};

static void tail_append(struct tail *t, const uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (t->len == TAIL_LEN) {
            memmove(t->octets, t->octets + 1, TAIL_LEN - 1);
            t->len--;
        }
        t->octets[t->len++] = octets[i];
    }
}

// A Terminate is the last FPDU of its stream: the one that ends where the stream ended.
static enum terminate_cause tail_cause(const struct tail *t)
{
    for (size_t at = 0; at + MPA_LENGTH_LEN + DDP_UNTAGGED_HEADER_LEN < t->len; at++) {
        const uint8_t *fpdu = t->octets + at;
        size_t ulpdu_len = get_be16(fpdu);
        size_t len = t->len - at;
        if (mpa_fpdu_len(ulpdu_len) != len ||
            crc32c(fpdu, len - MPA_CRC_LEN) != crc32c_get(fpdu + len - MPA_CRC_LEN)) {
            continue;
        }
        struct ddp_header header;
        struct terminate terminate;
        size_t header_len;
        struct span ulpdu = span_of(fpdu + MPA_LENGTH_LEN, ulpdu_len);
        if (ddp_header_parse(ulpdu, &header, &header_len) == DDP_PARSE_OK &&
            rdmap_control_opcode(header.rsvdulp) == RDMAP_TERMINATE &&
            terminate_parse(span_skip(ulpdu, header_len), TERMINATE_ORDER_RFC, &terminate) ==
                TERMINATE_OK) {
            return terminate_cause_find(terminate.layer, terminate.etype, terminate.code);
        }
    }
    return TERM_NONE;
}

enum terminate_cause raw_read_end(int fd, bool *ret_has_octets)
{
    struct tail tail = {.len = 0};
    uint8_t octets[4096];
    ssize_t len;
    while ((len = recv(fd, octets, sizeof octets, 0)) > 0) {
        tail_append(&tail, octets, (size_t)len);
    }
    if (ret_has_octets != NULL) {
        *ret_has_octets = tail.len > 0;
    }
    return tail_cause(&tail);
}

/* ---- frames ---------------------------------------------------------------------------------- */

size_t raw_frame(enum mpa_frame_kind kind, uint8_t *buf)
{
    const struct mpa_startup_frame frame = {
        .kind = kind,
        .crc = true,
        .enhanced = true,
        .revision = 2,
        .ird = 2,
        .ord = 2,
    };
    return mpa_startup_frame_emit(&frame, buf);
}

bool raw_receive_frame(int fd)
{
    uint8_t frame[MPA_STARTUP_MAX_LEN];
    return raw_receive(fd, frame, MPA_STARTUP_HEADER_LEN) &&
           raw_receive(fd, frame, get_be16(frame + MPA_OFF_PD_LEN));
}

size_t raw_fpdu(uint8_t *buf, const void *ulpdu, size_t ulpdu_len)
{
    size_t len = mpa_fpdu_len(ulpdu_len);
    memset(buf, 0, len);
    put_be16(buf, (uint16_t)ulpdu_len);
    if (ulpdu_len > 0) {
        memcpy(buf + MPA_LENGTH_LEN, ulpdu, ulpdu_len);
    }
    crc32c_put(buf + len - MPA_CRC_LEN, crc32c(buf, len - MPA_CRC_LEN));
    return len;
}

void raw_send_fpdu(int fd, const void *ulpdu, size_t ulpdu_len)
{
    uint8_t fpdu[MPA_FPDU_MAX_LEN];
    raw_send(fd, fpdu, raw_fpdu(fpdu, ulpdu, ulpdu_len));
}
