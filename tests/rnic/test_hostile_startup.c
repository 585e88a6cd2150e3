// MPA start-up against a peer that gets it wrong, in either role: the connection ends with a name
// in the counters, the program is told at most once, nothing is left, and nobody else notices.

#include <string.h>
#include <unistd.h>

#include "tests/rnic/bystander.h"
#include "tests/rnic/device.h"
#include "tests/rnic/raw.h"

static struct device device;
static struct bystander bystander;
static struct end listener;
static struct sockaddr_in addr;

static void begin(duration_ns patience_ns)
{
    struct rnic_config config = device_config();
    config.peer_to_peer = false; // raw peers do not say it either
    config.mpa_timeout_ns = patience_ns;
    device_open(&device, &config, 0);
    bystander_start(&bystander, &device);
    end_listen(&listener, &device, &addr);
}

static int setup(void **state)
{
    begin(DEVICE_PATIENCE_NS);
    return 0;
}

// For peers that say too little: what they are refused for is that their time is over.
static int setup_impatient(void **state)
{
    begin(1 * NS_PER_S);
    return 0;
}

static int teardown(void **state)
{
    bystander_stop(&bystander);
    end_fini(&listener);
    device_close(&device);
    return 0;
}

// What is there without an attack: two listeners, and the bystander's end.
static void expect_nothing_left(void)
{
    assert_true(device_waits_for_endpoints(&device, 3));
    bystander_expect_progress(&bystander);
}

/* ---- a raw client against the listener ------------------------------------------------------- */

// The listener's program has been asked, or not; what it has got is taken back.
static void requests_drop(void)
{
    while (end_has_event(&listener)) {
        struct rnic_ep *ep;
        struct rnic_ep_event event = end_take_any(&listener, &ep);
        if (event.type == RNIC_EP_CONNECT_REQUEST) {
            rnic_ep_destroy(event.new_ep); // no event of it comes any more
        }
    }
}

static uint64_t startups_ended(void)
{
    uint64_t sum = 0;
    for (unsigned i = 1; i < CONN_FAILURE_COUNT; i++) {
        sum += device_count(&device, conn_failure_name((enum conn_failure)i));
    }
    return sum;
}

// Sends what may be no Request, then FIN. Either it is refused by a name, or the program is asked
// and the FIN ends it, by a name too.
static void expect_refusal(const uint8_t *octets, size_t len)
{
    uint64_t before = startups_ended();
    int fd = raw_connect(&addr);
    raw_send(fd, octets, len);
    raw_finish(fd);
    bool has_octets;
    raw_read_end(fd, &has_octets);
    close(fd);
    assert_false(has_octets);
    assert_int_equal(startups_ended(), before + 1);
    requests_drop();
}

static void test_request_that_is_wrong_at_any_octet(void **state)
{
    uint8_t good[MPA_STARTUP_MAX_LEN], wrong[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REQUEST, good);
    for (size_t i = 0; i < len; i++) {
        static const uint8_t flips[] = {0xff, 0x01, 0x80};
        for (unsigned k = 0; k < sizeof flips; k++) {
            memcpy(wrong, good, len);
            wrong[i] ^= flips[k];
            expect_refusal(wrong, len);
        }
    }
    expect_nothing_left();
}

static void test_request_that_ends_at_any_octet(void **state)
{
    uint8_t good[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REQUEST, good);
    for (size_t i = 0; i < len; i++) {
        expect_refusal(good, i);
    }
    expect_nothing_left();
}

static void test_reset_at_any_octet_of_a_request(void **state)
{
    uint8_t good[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REQUEST, good);
    for (size_t i = 0; i <= len; i++) {
        uint64_t before = startups_ended();
        int fd = raw_connect(&addr);
        raw_send(fd, good, i);
        if (i % 2 == 0) {
            assert_true(device_waits_for_endpoints(&device, 4)); // accepted before the reset
        }
        raw_reset(fd);
        for (unsigned waited = 0; startups_ended() == before; waited++) {
            assert_true(waited < 20000);
            pause_ms(1);
        }
        requests_drop();
    }
    expect_nothing_left();
}

struct named_request {
    const char *counter;
    size_t at; // the octet that is set ...
    uint8_t to;
};

static void test_refusals_of_requests_have_names(void **state)
{
    static const struct named_request cases[] = {
        {"BAD_KEY", 3, 0x00},
        {"REVISION", MPA_OFF_FLAGS + 1, 0},
        {"REVISION", MPA_OFF_FLAGS + 1, 3},
        {"PD_TOO_LONG", MPA_OFF_PD_LEN, 0x03},
        {"ENHANCED_MISSING", MPA_OFF_PD_LEN + 1, 3},
        {"LLP_CLOSED", MPA_OFF_PD_LEN + 1, 200}, // the FIN comes before the private data
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t frame[MPA_STARTUP_MAX_LEN];
        size_t len = raw_frame(MPA_REQUEST, frame);
        frame[cases[i].at] = cases[i].to;
        uint64_t before = device_count(&device, cases[i].counter);
        expect_refusal(frame, len);
        assert_int_equal(device_count(&device, cases[i].counter), before + 1);
    }
    uint8_t reply[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REPLY, reply);
    uint64_t before = device_count(&device, "WRONG_ROLE");
    expect_refusal(reply, len);
    assert_int_equal(device_count(&device, "WRONG_ROLE"), before + 1);
    expect_nothing_left();
}

static void test_half_a_request_and_silence_runs_out_of_time(void **state)
{
    uint8_t frame[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REQUEST, frame);
    uint64_t before = device_count(&device, "REQUEST_TIMEOUT");
    int nothing = raw_connect(&addr), half = raw_connect(&addr);
    raw_send(half, frame, len / 2);
    assert_int_equal(raw_read_end(nothing, NULL), TERM_NONE);
    assert_int_equal(raw_read_end(half, NULL), TERM_NONE);
    assert_int_equal(device_count(&device, "REQUEST_TIMEOUT"), before + 2);
    close(nothing);
    close(half);
    expect_nothing_left();
}

// How many may wait at most is the listener's affair: tests/conn/test_listener.c.
static void test_silent_peers_keep_nobody_out(void **state)
{
    enum { SILENT_COUNT = 200 };
    int fds[SILENT_COUNT];
    uint8_t frame[MPA_STARTUP_MAX_LEN];
    struct end served;
    uint64_t before = device_count(&device, "REQUEST_TIMEOUT");
    for (unsigned i = 0; i < SILENT_COUNT; i++) {
        fds[i] = raw_connect(&addr);
    }
    end_init(&served, &device);
    int fd = raw_connect(&addr);
    raw_send(fd, frame, raw_frame(MPA_REQUEST, frame));
    end_take_request(&served, &listener);
    end_accept(&served);
    end_take(&served, RNIC_EP_ESTABLISHED);
    assert_true(device_waits_for_count(&device, "REQUEST_TIMEOUT", before + SILENT_COUNT));
    for (unsigned i = 0; i < SILENT_COUNT; i++) {
        close(fds[i]);
    }
    close(fd);
    end_take(&served, RNIC_EP_DISCONNECTED);
    end_fini(&served);
    expect_nothing_left();
}

static void test_octets_behind_the_request_before_any_reply(void **state)
{
    uint8_t octets[MPA_STARTUP_MAX_LEN + 64] = {0};
    size_t len = raw_frame(MPA_REQUEST, octets);
    uint64_t before = device_count(&device, "EARLY_FPDU");
    expect_refusal(octets, len + 64);
    assert_int_equal(device_count(&device, "EARLY_FPDU"), before + 1);
    expect_nothing_left();
}

// The program answers when the peer is gone already.
static void test_peer_that_is_gone_when_it_is_accepted(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        uint8_t frame[MPA_STARTUP_MAX_LEN];
        struct end victim;
        end_init(&victim, &device);
        int fd = raw_connect(&addr);
        raw_send(fd, frame, raw_frame(MPA_REQUEST, frame));
        end_take_request(&victim, &listener);
        if (i == 0) {
            raw_reset(fd);
        } else {
            close(fd);
        }
        const struct rnic_ep_params params = {.ird = 2, .ord = 2};
        rnic_ep_accept(victim.ep, victim.qp, &params); // fails, or an event says so
        pause_ms(20);
        end_fini(&victim);
    }
    expect_nothing_left();
}

/* ---- a raw server against an initiator ------------------------------------------------------- */

enum ending { ENDING_FIN, ENDING_RESET, ENDING_COUNT };

// The initiator is told once, whatever the answer was.
static void expect_failed_connect(int listen_fd, const struct sockaddr_in *server,
                                  const uint8_t *octets, size_t len, enum ending ending)
{
    struct end victim;
    struct rnic_ep *ep;
    end_init(&victim, &device);
    end_connect(&victim, server);
    int fd = raw_accept(listen_fd);
    assert_true(raw_receive_frame(fd));
    raw_send(fd, octets, len);
    if (ending == ENDING_RESET) {
        raw_reset(fd);
    } else {
        raw_finish(fd);
        raw_read_end(fd, NULL);
        close(fd);
    }
    struct rnic_ep_event event = end_take_any(&victim, &ep);
    if (event.type == RNIC_EP_ESTABLISHED) { // the change did not matter
        end_take(&victim, RNIC_EP_DISCONNECTED);
    } else {
        assert_in_range(event.type, RNIC_EP_REJECTED, RNIC_EP_CONNECT_ERROR);
        assert_true(event.status < 0);
    }
    end_fini(&victim);
}

static void test_reply_that_is_wrong_at_any_octet(void **state)
{
    struct sockaddr_in server;
    int listen_fd = raw_listen(&server);
    uint8_t good[MPA_STARTUP_MAX_LEN], wrong[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REPLY, good);
    for (size_t i = 0; i < len; i++) {
        memcpy(wrong, good, len);
        wrong[i] ^= 0xff;
        expect_failed_connect(listen_fd, &server, wrong, len, ENDING_FIN);
    }
    close(listen_fd);
    expect_nothing_left();
}

static void test_reply_that_ends_at_any_octet(void **state)
{
    struct sockaddr_in server;
    int listen_fd = raw_listen(&server);
    uint8_t good[MPA_STARTUP_MAX_LEN];
    size_t len = raw_frame(MPA_REPLY, good);
    for (size_t i = 0; i < len; i++) {
        expect_failed_connect(listen_fd, &server, good, i, (enum ending)(i % ENDING_COUNT));
    }
    close(listen_fd);
    expect_nothing_left();
}

static void test_server_that_never_replies(void **state)
{
    struct sockaddr_in server;
    int listen_fd = raw_listen(&server);
    struct end victim;
    uint64_t before = device_count(&device, "REPLY_TIMEOUT");
    end_init(&victim, &device);
    end_connect(&victim, &server);
    int fd = raw_accept(listen_fd);
    end_take(&victim, RNIC_EP_UNREACHABLE);
    assert_int_equal(device_count(&device, "REPLY_TIMEOUT"), before + 1);
    end_fini(&victim);
    close(fd);
    close(listen_fd);
    expect_nothing_left();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request_that_is_wrong_at_any_octet),
        cmocka_unit_test(test_request_that_ends_at_any_octet),
        cmocka_unit_test(test_reset_at_any_octet_of_a_request),
        cmocka_unit_test(test_refusals_of_requests_have_names),
        cmocka_unit_test(test_octets_behind_the_request_before_any_reply),
        cmocka_unit_test(test_peer_that_is_gone_when_it_is_accepted),
        cmocka_unit_test(test_reply_that_is_wrong_at_any_octet),
        cmocka_unit_test(test_reply_that_ends_at_any_octet),
    };
    const struct CMUnitTest tests_of_time[] = {
        cmocka_unit_test(test_half_a_request_and_silence_runs_out_of_time),
        cmocka_unit_test(test_silent_peers_keep_nobody_out),
        cmocka_unit_test(test_server_that_never_replies),
    };
    return cmocka_run_group_tests(tests, setup, teardown) +
           cmocka_run_group_tests(tests_of_time, setup_impatient, teardown);
}
