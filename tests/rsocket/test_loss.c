// A stream over packets of which some are lost: it goes on.
#include <stdlib.h>
#include <string.h>

#include "tests/rsocket/pair.h"
#include "tests/verbs/roce.h"

enum { STREAM_LEN = 640 << 10, PIECE_LEN = 5000 };

static uint8_t sent[STREAM_LEN], received[STREAM_LEN];

static void *send_main(void *fd)
{
    for (size_t at = 0; at < STREAM_LEN;) {
        const size_t left = STREAM_LEN - at;
        const ssize_t len = rsend(*(int *)fd, sent + at, left < PIECE_LEN ? left : PIECE_LEN, 0);
        if (len <= 0) {
            break;
        }
        at += (size_t)len;
    }
    return NULL;
}

static size_t receive_all(int fd)
{
    size_t at = 0;
    ssize_t len = 1;
    while (at < STREAM_LEN && len > 0) {
        len = rrecv(fd, received + at, STREAM_LEN - at, 0);
        at += len > 0 ? (size_t)len : 0;
    }
    return at;
}

static void a_stream_outlives_lost_packets(void **state)
{
    struct pair p;
    pthread_t sender;
    for (size_t i = 0; i < STREAM_LEN; i++) {
        sent[i] = (uint8_t)(i * 2654435761U >> 24);
    }
    pair_open(&p);
    assert_int_equal(pthread_create(&sender, NULL, send_main, &p.active), 0);
    assert_int_equal(receive_all(p.passive), STREAM_LEN);
    pthread_join(sender, NULL);
    assert_memory_equal(received, sent, STREAM_LEN);
    pair_close(&p);
}

int main(void)
{
    roce_port_of_own();
    setenv("WEFT_WIRE", "roce", 1);
    setenv("WEFT_FAULT", "loss=25%,seed=1", 1);
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_stream_outlives_lost_packets)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
