// What WEFT_LINK, WEFT_FAULT and WEFT_PCAP make: links with what stands before them.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/clock.h"
#include "host/link.h"
#include "host/link_kind.h"
#include "tests/failing_memory.h"
#include "tests/link/descriptors.h"
#include "tests/link/loop.h"

static struct host_settings settings_of(const char *link, const char *fault, const char *pcap)
{
    struct host_settings settings;
    host_settings_read(&settings);
    snprintf(settings.link, sizeof settings.link, "%s", link);
    snprintf(settings.fault, sizeof settings.fault, "%s", fault);
    snprintf(settings.pcap_path, sizeof settings.pcap_path, "%s", pcap);
    return settings;
}

// Octets go through a link made with these settings.
static void expect_works(const struct host_settings *settings)
{
    struct link *link;
    struct loop l = {0};
    char text[4];
    descriptors_note();
    assert_int_equal(host_link_create(settings, NULL, &link), 0);
    loop_open(&l, link, AF_INET);
    assert_int_equal(send_text(l.active, "weft"), 4);
    assert_int_equal(recv_some(l.passive, text, sizeof text), 4);
    assert_memory_equal(text, "weft", 4);
    link->ops->close(l.active, true);
    link->ops->close(l.passive, true);
    link->ops->close(l.listener, false);
    link->ops->destroy(link);
    descriptors_check();
}

static void links_carry_octets(void **state)
{
    static const char *const links[] = {"socket", "udp", "127.0.0.1=udp;*=socket"};
    for (unsigned i = 0; i < 3; i++) {
        struct host_settings settings = settings_of(links[i], "", "");
        assert_true(host_link_is_known(links[i]));
        expect_works(&settings);
    }
}

static void unknown_link_is_refused(void **state)
{
    static const char *const wrong[] = {"", "sockets", "socke", "tap:", "UDP"};
    struct link *link;
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct host_settings settings = settings_of(wrong[i], "", "");
        assert_false(host_link_is_known(wrong[i]));
        assert_int_equal(host_link_create(&settings, NULL, &link), -EINVAL);
    }
}

/* ---- captures -------------------------------------------------------------------------------- */

static void traffic_is_captured_when_asked_for(void **state)
{
    static const char *const links[] = {"socket", "udp", "127.0.0.1=udp"};
    for (unsigned i = 0; i < 3; i++) {
        char path[] = "/tmp/weft-test-links-XXXXXX";
        struct stat at;
        close(mkstemp(path));
        struct host_settings settings = settings_of(links[i], "", path);
        expect_works(&settings);
        assert_int_equal(stat(path, &at), 0);
        assert_true(at.st_size > 24); // more than the file's own header
        unlink(path);
    }
}

static void expect_works_and_says(const struct host_settings *settings, const char *what)
{
    char path[] = "/tmp/weft-test-links-XXXXXX", said[512] = "";
    int file = mkstemp(path), before = dup(STDERR_FILENO);
    fflush(stderr);
    dup2(file, STDERR_FILENO);
    expect_works(settings);
    dup2(before, STDERR_FILENO);
    close(before);
    assert_true(pread(file, said, sizeof said - 1, 0) > 0);
    assert_string_equal(said, what);
    close(file);
    unlink(path);
}

// A program is worth more than its capture.
static void capture_that_cannot_be_written_is_done_without(void **state)
{
    static const char *const links[] = {"socket", "udp"};
    for (unsigned i = 0; i < 2; i++) {
        struct host_settings settings = settings_of(links[i], "", "/nonexistent/capture");
        expect_works_and_says(&settings,
                              "weft: cannot capture into /nonexistent/capture (WEFT_PCAP): No such "
                              "file or directory; going on without a capture\n");
    }
}

// Behind a slip of the pen there is somebody's letter.
static void capture_goes_over_nothing_but_captures(void **state)
{
    static const char *const links[] = {"socket", "udp"};
    for (unsigned i = 0; i < 2; i++) {
        char path[] = "/tmp/weft-test-links-XXXXXX", text[8] = "", said[256];
        int file = mkstemp(path);
        struct host_settings settings = settings_of(links[i], "", path);
        assert_int_equal(write(file, "Dear", 4), 4);
        snprintf(said, sizeof said,
                 "weft: cannot capture into %s (WEFT_PCAP): what is there was not written by weft: "
                 "move it away, or name another file; going on without a capture\n",
                 path);
        expect_works_and_says(&settings, said);
        assert_int_equal(pread(file, text, sizeof text - 1, 0), 4);
        assert_string_equal(text, "Dear");
        close(file);
        unlink(path);
    }
}

/* ---- faults and patience --------------------------------------------------------------------- */

// Nothing arrives, so connecting ends when WEFT_PEER_TIMEOUT is over, and not before.
static void lost_packets_are_waited_for_as_long_as_a_peer_may_be_silent(void **state)
{
    struct host_settings settings = settings_of("udp", "loss=100%", "");
    struct link *link;
    struct loop l = {0};
    struct sockaddr_storage addr;
    settings.peer_timeout_ns = 1 * NS_PER_S;
    assert_int_equal(host_link_create(&settings, NULL, &link), 0);
    loop_listen(&l, link, AF_INET);
    assert_int_equal(link->ops->local_addr(l.listener, &addr), 0);
    assert_int_equal(link->ops->bind(link, NULL, 0, NULL, &l.active), 0);
    instant_ns began = host_clock(NULL);
    assert_int_equal(link->ops->connect(l.active, addr_of(&addr)), -EINPROGRESS);
    assert_true(ready_of(link, l.active) & (LINK_READY_ERR | LINK_READY_OUT));
    assert_int_equal(link->ops->connect_result(l.active), -ETIMEDOUT);
    assert_true(host_clock(NULL) - began >= settings.peer_timeout_ns);
    link->ops->close(l.active, true);
    link->ops->close(l.listener, false);
    link->ops->destroy(link);
}

static void faults_of_nothing_change_nothing(void **state)
{
    struct host_settings settings = settings_of("udp", "loss=0%", "");
    expect_works(&settings);
}

/* ---- without memory -------------------------------------------------------------------------- */

// Whichever allocation fails: an error and nothing left over, or a link (without its capture).
static void link_without_memory_is_refused_or_whole(void **state)
{
    static const struct {
        const char *link, *fault, *pcap;
    } rows[] = {
        {"socket", "", ""},
        {"socket", "", "/dev/null"},
        {"udp", "", ""},
        {"udp", "loss=1%", "/dev/null"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct host_settings settings = settings_of(rows[i].link, rows[i].fault, rows[i].pcap);
        bool is_over = false;
        unsigned refusals = 0;
        for (uint64_t n = 1; !is_over; n++) {
            int64_t blocks = memory_blocks;
            struct link *link = NULL;
            descriptors_note();
            memory_fail_at(n);
            int error = host_link_create(&settings, NULL, &link);
            is_over = memory_calls < n;
            memory_fail_at(0);
            assert_true(error == 0 || error == -ENOMEM);
            assert_true(error == 0 || !is_over);
            refusals += error != 0;
            if (error == 0) {
                link->ops->destroy(link);
            }
            assert_int_equal(memory_blocks, blocks);
            descriptors_check();
        }
        assert_true(refusals > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_carry_octets),
        cmocka_unit_test(unknown_link_is_refused),
        cmocka_unit_test(traffic_is_captured_when_asked_for),
        cmocka_unit_test(capture_that_cannot_be_written_is_done_without),
        cmocka_unit_test(capture_goes_over_nothing_but_captures),
        cmocka_unit_test(lost_packets_are_waited_for_as_long_as_a_peer_may_be_silent),
        cmocka_unit_test(faults_of_nothing_change_nothing),
        cmocka_unit_test(link_without_memory_is_refused_or_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
