// How a connection to an NVMe/TCP target begins (NVMe/TCP 1.0 section 3.4): what is asked, which
// answers are taken and what they settle, and who is no target. The target is a thread of the test.

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/why.h"
#include "format/nvme_tcp_wire.h"
#include "initiator/tcp/stream.h"

enum { LONG_MS = 30000, SHORT_MS = 50, DEPTH = 4 };

static struct target {
    int listener;
    char port[8];
    uint8_t asked[NVME_TCP_IC_LEN];
    uint8_t answer[NVME_TCP_IC_LEN];
    size_t answer_len; // so much of it comes, in two pieces
    bool stays;        // and nothing more, until the client has gone
} target;

static void *target_main(void *ctx)
{
    uint8_t octet;
    int fd = accept(target.listener, NULL, NULL);
    recv(fd, target.asked, sizeof target.asked, MSG_WAITALL);
    size_t first = target.answer_len / 2;
    send(fd, target.answer, first, MSG_NOSIGNAL);
    send(fd, target.answer + first, target.answer_len - first, MSG_NOSIGNAL);
    if (target.stays) {
        recv(fd, &octet, 1, 0);
    }
    close(fd);
    return NULL;
}

static int begin(void **state)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    memset(&target, 0, sizeof target);
    target.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(target.listener, (struct sockaddr *)&addr, len) != 0 ||
        listen(target.listener, 4) != 0 ||
        getsockname(target.listener, (struct sockaddr *)&addr, &len) != 0) {
        return -1;
    }
    snprintf(target.port, sizeof target.port, "%u", ntohs(addr.sin_port));
    return 0;
}

static int end(void **state)
{
    return close(target.listener);
}

static void answer_well(void)
{
    memset(target.answer, 0, sizeof target.answer);
    target.answer[NVME_TCP_OFF_TYPE] = NVME_TCP_IC_RESP;
    target.answer[NVME_TCP_OFF_HLEN] = NVME_TCP_IC_LEN;
    put_le32(target.answer + NVME_TCP_OFF_PLEN, NVME_TCP_IC_LEN);
    put_le32(target.answer + NVME_TCP_IC_OFF_MAXDATA, 1 << 17);
    target.answer_len = NVME_TCP_IC_LEN;
    target.stays = true;
}

static struct pdu_stream stream;
static struct why why;

static int meet(uint8_t digests, unsigned timeout_ms)
{
    pthread_t thread;
    why = (struct why){""};
    assert_int_equal(pdu_stream_init(&stream, DEPTH, 8), 0);
    assert_int_equal(pthread_create(&thread, NULL, target_main, NULL), 0);
    int error = pdu_stream_connect(&stream, "127.0.0.1", target.port, digests, timeout_ms, &why);
    pdu_stream_close(&stream);
    assert_int_equal(stream.fd, -1);
    pthread_join(thread, NULL);
    return error;
}

static void what_both_ends_want_of_digests_is_settled(void **state)
{
    enum { H = NVME_TCP_IC_HDGST, D = NVME_TCP_IC_DDGST };
    static const struct {
        uint8_t wished, answered;
        int error;
    } cases[] = {{0, 0, 0},
                 {H, H, 0},
                 {D, D, 0},
                 {H | D, H | D, 0},
                 {H | D, 0, 0},
                 {H | D, H, 0},
                 {0, H, -EPROTO},
                 {0, D, -EPROTO},
                 {H, D, -EPROTO},
                 {D, H | D, -EPROTO},
                 {H | D, H | D | 4, -EPROTO}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        answer_well();
        target.answer[NVME_TCP_IC_OFF_DIGEST] = cases[i].answered;
        assert_int_equal(meet(cases[i].wished, LONG_MS), cases[i].error);
        assert_int_equal(target.asked[NVME_TCP_OFF_TYPE], NVME_TCP_IC_REQ);
        assert_int_equal(target.asked[NVME_TCP_OFF_HLEN], NVME_TCP_IC_LEN);
        assert_int_equal(get_le32(target.asked + NVME_TCP_OFF_PLEN), NVME_TCP_IC_LEN);
        assert_int_equal(get_le16(target.asked + NVME_TCP_IC_OFF_PFV), 0);
        assert_int_equal(target.asked[NVME_TCP_IC_OFF_DIGEST], cases[i].wished);
        if (cases[i].error == 0) {
            assert_int_equal(stream.has_header_digest, (cases[i].answered & H) != 0);
            assert_int_equal(stream.has_data_digest, (cases[i].answered & D) != 0);
        }
        pdu_stream_destroy(&stream);
    }
}

static void alignment_and_length_are_the_targets(void **state)
{
    static const struct {
        uint8_t align;
        uint32_t most;
        int error;
    } cases[] = {{0, 4096, 0},
                 {NVME_TCP_PDA_MAX, UINT32_MAX, 0},
                 {NVME_TCP_PDA_MAX + 1, 4096, -EPROTO},
                 {0, 4095, -EPROTO},
                 {0, 0, -EPROTO}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        answer_well();
        target.answer[NVME_TCP_IC_OFF_PDA] = cases[i].align;
        put_le32(target.answer + NVME_TCP_IC_OFF_MAXDATA, cases[i].most);
        assert_int_equal(meet(0, LONG_MS), cases[i].error);
        if (cases[i].error == 0) {
            assert_int_equal(stream.align, 4 * (cases[i].align + 1));
            assert_int_equal(stream.data_max, cases[i].most);
        }
        pdu_stream_destroy(&stream);
    }
}

static void who_answers_otherwise_is_no_target(void **state)
{
    static const struct {
        uint32_t at;
        uint8_t octet;
    } cases[] = {{NVME_TCP_OFF_TYPE, NVME_TCP_IC_REQ},
                 {NVME_TCP_OFF_HLEN, NVME_TCP_IC_LEN - 1},
                 {NVME_TCP_OFF_PLEN, 0},
                 {NVME_TCP_OFF_PLEN + 1, 1},
                 {NVME_TCP_IC_OFF_PFV, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[128];
        answer_well();
        target.answer[cases[i].at] = cases[i].octet;
        assert_int_equal(meet(0, LONG_MS), -EPROTO);
        snprintf(text, sizeof text, "127.0.0.1:%s answers, but not as an NVMe/TCP target",
                 target.port);
        assert_string_equal(why.text, text);
        pdu_stream_destroy(&stream);
    }
}

static void who_ends_the_connection_or_does_not_answer_is_left(void **state)
{
    answer_well();
    target.answer_len--;
    target.stays = false;
    assert_int_equal(meet(0, LONG_MS), -ECONNRESET);
    assert_non_null(strstr(why.text, "ended the connection: no NVMe/TCP target?"));
    pdu_stream_destroy(&stream);
    target.stays = true;
    assert_int_equal(meet(0, SHORT_MS), -ETIMEDOUT);
    assert_non_null(strstr(why.text, "did not answer in time"));
    pdu_stream_destroy(&stream);
}

static void where_nobody_listens_and_what_is_no_host_is_said(void **state)
{
    char text[128];
    close(target.listener);
    assert_int_equal(pdu_stream_init(&stream, DEPTH, 8), 0);
    assert_int_equal(pdu_stream_connect(&stream, "127.0.0.1", target.port, 0, LONG_MS, &why),
                     -ECONNREFUSED);
    snprintf(text, sizeof text, "127.0.0.1:%s: %s", target.port, strerror(ECONNREFUSED));
    assert_string_equal(why.text, text);
    assert_int_equal(pdu_stream_connect(&stream, "127.0.0.1", "no port", 0, LONG_MS, &why),
                     -EADDRNOTAVAIL);
    assert_int_equal(stream.fd, -1);
    pdu_stream_destroy(&stream);
    target.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_both_ends_want_of_digests_is_settled, begin, end),
        cmocka_unit_test_setup_teardown(alignment_and_length_are_the_targets, begin, end),
        cmocka_unit_test_setup_teardown(who_answers_otherwise_is_no_target, begin, end),
        cmocka_unit_test_setup_teardown(who_ends_the_connection_or_does_not_answer_is_left, begin,
                                        end),
        cmocka_unit_test_setup_teardown(where_nobody_listens_and_what_is_no_host_is_said, begin,
                                        end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
