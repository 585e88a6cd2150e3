// The capture of scripted connections over the socket link, read back packet by packet; with tshark
// on this machine, read by it too. And all that a link does, through it.
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/pcap/pcap.h"
#include "link/socket.h"
#include "tests/link/capture.h"
#include "tests/link/contract.h"
#include "tests/link/mpa_stream.h"

static struct mpa_stream there, back;
static char path[64];

static int begin(void **state)
{
    struct link_socket_config config = {0};
    struct link *inner;
    descriptors_note();
    snprintf(path, sizeof path, "/tmp/weft-test-pcap-%d", (int)getpid());
    int error = link_socket_create(&config, &inner);
    return error != 0 ? error : link_pcap_wrap(inner, path, &the_link);
}

static int end(void **state)
{
    if (the_link != NULL) {
        the_link->ops->destroy(the_link);
    }
    descriptors_check();
    return unlink(path);
}

static void finish(void)
{
    the_link->ops->destroy(the_link);
    the_link = NULL;
}

/* ---- the script ------------------------------------------------------------------------------ */

// The octets of `s` from `first` to `last`, sent in pieces of `send_len` octets in two elements
// each, received in other pieces.
static void transfer(struct link_stream *from, struct link_stream *to, const struct mpa_stream *s,
                     size_t first, size_t last, size_t send_len)
{
    static uint8_t got[1 << 20];
    size_t out = first, in = first;
    while (in < last) {
        size_t len = send_len < last - out ? send_len : last - out;
        uint8_t *at = (uint8_t *)s->octets + out;
        struct iovec iov[2] = {{at, len / 2}, {at + len / 2, len - len / 2}};
        struct link_tx tx = {.iov = iov, .iov_count = 2};
        ssize_t taken = len > 0 ? the_link->ops->send(from, &tx) : 0;
        out += taken > 0 ? (size_t)taken : 0;
        taken = the_link->ops->recv(to, mspan_of(got + in, 4096 + in % 777));
        in += taken > 0 ? (size_t)taken : 0;
    }
    assert_memory_equal(got + first, s->octets + first, last - first);
}

static void run_script(int family, size_t send_len, bool markers)
{
    stream_fill(&there, MPA_REQUEST, markers);
    stream_fill(&back, MPA_REPLY, markers);
    loop_open(&l, the_link, family);
    transfer(l.active, l.passive, &there, 0, there.ends[0], send_len);
    transfer(l.passive, l.active, &back, 0, back.ends[0], send_len);
    transfer(l.active, l.passive, &there, there.ends[0], there.len, send_len);
    transfer(l.passive, l.active, &back, back.ends[0], back.len, send_len);
    the_link->ops->shutdown(l.active);
    char got[4];
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    the_link->ops->close(l.passive, false);
    assert_int_equal(recv_some(l.active, got, sizeof got), 0);
    the_link->ops->close(l.active, false);
}

/* ---- reading it back ------------------------------------------------------------------------- */

// Each direction's segments follow on each other, acknowledge what was seen, hold one unit each.
static void assert_capture(int family)
{
    const struct mpa_stream *streams[2] = {&there, &back};
    uint32_t seq[2] = {0};
    size_t octets[2] = {0}, at = CAPTURE_BEGIN;
    unsigned units[2] = {0}, syns = 0, fins = 0;
    uint16_t initiator_port = 0;
    struct packet p;
    capture_read(path);
    while (packet_next(&at, &p)) {
        if (p.tcp.flags == TCP_SYN) {
            initiator_port = p.tcp.src_port;
        }
        int side = p.tcp.src_port == initiator_port ? 0 : 1;
        assert_int_equal(p.family, family);
        if ((p.tcp.flags & TCP_SYN) != 0) {
            syns++;
        } else {
            assert_int_equal(p.tcp.seq, seq[side]);
            assert_int_equal(p.tcp.ack, seq[1 - side]);
        }
        if (p.payload.len > 0) {
            assert_memory_equal(p.payload.ptr, streams[side]->octets + octets[side], p.payload.len);
            octets[side] += p.payload.len;
            assert_int_equal(octets[side], streams[side]->ends[units[side]]);
            units[side]++;
        }
        fins += (p.tcp.flags & TCP_FIN) != 0;
        seq[side] = p.tcp.seq + (uint32_t)p.payload.len + ((p.tcp.flags & 3) != 0);
    }
    assert_int_equal(syns, 2);
    assert_int_equal(fins, 2);
    assert_int_equal(octets[0], there.len);
    assert_int_equal(octets[1], back.len);
}

static void connection_is_recorded_once_and_unit_by_unit(void **state)
{
    run_script(AF_INET, 100, false);
    finish();
    assert_capture(AF_INET);
}

static void ipv6_is_recorded_too(void **state)
{
    run_script(AF_INET6, 5000, false);
    finish();
    assert_capture(AF_INET6);
}

static void markers_do_not_hide_where_units_end(void **state)
{
    run_script(AF_INET, 777, true);
    finish();
    assert_capture(AF_INET);
}

static void record_is_in_the_file_when_the_call_returns(void **state)
{
    struct packet p;
    size_t at = CAPTURE_BEGIN;
    stream_frame(&there, MPA_REQUEST, false);
    loop_open(&l, the_link, AF_INET);
    struct iovec iov = {there.octets, there.len};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    the_link->ops->send(l.active, &tx);
    // The passive end was connected first and records the connection, as it sees it.
    the_link->ops->recv(l.passive, mspan_of(there.octets, there.len));
    capture_read(path);
    for (int i = 0; i < 4; i++) {
        assert_true(packet_next(&at, &p));
    }
    assert_int_equal(p.payload.len, there.len);
    assert_false(packet_next(&at, &p));
}

static unsigned packets_recorded(void)
{
    struct packet p;
    size_t at = CAPTURE_BEGIN;
    unsigned count = 0;
    capture_read(path);
    while (packet_next(&at, &p)) {
        count++;
    }
    return count;
}

static void handshake_and_ends_are_in_the_file_when_the_call_returns(void **state)
{
    char got[4];
    assert_int_equal(packets_recorded(), 0);
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(packets_recorded(), 3);
    the_link->ops->shutdown(l.passive);
    assert_int_equal(packets_recorded(), 4);
    assert_int_equal(recv_some(l.active, got, sizeof got), 0);
    the_link->ops->shutdown(l.active);
    assert_int_equal(recv_some(l.passive, got, sizeof got), 0);
    assert_int_equal(packets_recorded(), 5);
    the_link->ops->close(l.passive, true);
    assert_int_equal(packets_recorded(), 6);
}

static void recording_that_finds_no_room_ends_and_the_connection_goes_on(void **state)
{
    enum { ROOM = 100 }; // less than a handshake takes
    struct rlimit before, little = {.rlim_cur = ROOM};
    char got[8];
    getrlimit(RLIMIT_FSIZE, &before);
    little.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &little);
    loop_open(&l, the_link, AF_INET);
    ssize_t sent = send_text(l.active, "octets"), taken = recv_some(l.passive, got, sizeof got);
    int error = link_pcap_flush(the_link);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(error, -EFBIG);
    assert_int_equal(sent, 6);
    assert_int_equal(taken, 6);
    send_text(l.active, "more");
    assert_int_equal(recv_some(l.passive, got, sizeof got), 4);
    struct stat at;
    assert_int_equal(stat(path, &at), 0);
    assert_int_equal(at.st_size, ROOM); // nothing was added when there was room again
}

// Its name may stand in a folder that others write to.
static void file_of_two_names_is_refused_and_left_as_it_is(void **state)
{
    struct link *wrapped;
    char one[96], two[112];
    snprintf(one, sizeof one, "%s-one", path);
    snprintf(two, sizeof two, "%s-two", path);
    int fd = open(one, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "kept", 4), 4);
    close(fd);
    assert_int_equal(link(one, two), 0);
    unsigned before = descriptors_more();
    assert_int_equal(link_pcap_wrap(the_link, two, &wrapped), -EPERM);
    assert_int_equal(descriptors_more(), before);
    struct stat at;
    assert_int_equal(stat(one, &at), 0);
    assert_int_equal(at.st_size, 4);
    unlink(one);
    unlink(two);
}

// Whoever made the link chose the file: oneself may, as /dev/stdout does, somebody else may not.
static void links_of_others_are_not_followed(void **state)
{
    struct link *inner, *wrapped;
    char folder[96], file[112], name[112]; // in /tmp itself the kernel may refuse them too
    struct stat at;
    snprintf(folder, sizeof folder, "%s-folder", path);
    snprintf(file, sizeof file, "%s/file", folder);
    snprintf(name, sizeof name, "%s/name", folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    int fd = open(file, O_WRONLY | O_CREAT, 0600);
    close(fd);
    assert_int_equal(symlink(file, name), 0);
    if (geteuid() == 0) {
        assert_int_equal(lchown(name, 65534, 65534), 0);
        assert_int_equal(link_pcap_wrap(the_link, name, &wrapped), -ELOOP);
        assert_int_equal(stat(file, &at), 0);
        assert_int_equal(at.st_size, 0);
        assert_int_equal(lchown(name, 0, 0), 0);
    }
    assert_int_equal(link_socket_create(&(struct link_socket_config){0}, &inner), 0);
    assert_int_equal(link_pcap_wrap(inner, name, &wrapped), 0);
    assert_int_equal(stat(file, &at), 0);
    assert_true(at.st_size > 4); // begun anew
    wrapped->ops->destroy(wrapped);
    unlink(name);
    unlink(file);
    rmdir(folder);
}

static void file_is_for_its_user_s_eyes_and_begins_anew(void **state)
{
    struct stat at;
    assert_int_equal(stat(path, &at), 0);
    assert_int_equal(at.st_mode & 0777, 0600);
    loop_open(&l, the_link, AF_INET);
    assert_int_equal(packets_recorded(), 3);
    finish();
    descriptors_check();
    begin(NULL);
    assert_int_equal(packets_recorded(), 0);
}

static void reset_is_recorded(void **state)
{
    struct packet p;
    size_t at = CAPTURE_BEGIN;
    unsigned resets = 0;
    loop_open(&l, the_link, AF_INET);
    the_link->ops->close(l.passive, true);
    finish();
    capture_read(path);
    while (packet_next(&at, &p)) {
        resets += (p.tcp.flags & TCP_RST) != 0;
    }
    assert_int_equal(resets, 1);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void second_writer_takes_a_name_of_its_own(void **state)
{
    struct link_socket_config config = {0};
    struct link *inner, *second;
    char other[96];
    snprintf(other, sizeof other, "%s.%d", path, (int)getpid());
    assert_int_equal(link_socket_create(&config, &inner), 0);
    assert_int_equal(link_pcap_wrap(inner, path, &second), 0);
    second->ops->destroy(second);
    assert_int_equal(unlink(other), 0);
}

static void process_id_stands_in_the_name(void **state)
{
    struct link_socket_config config = {0};
    struct link *inner, *second;
    char expected[96];
    snprintf(expected, sizeof expected, "/tmp/weft-test-%d-pcap", (int)getpid());
    assert_int_equal(link_socket_create(&config, &inner), 0);
    assert_int_equal(link_pcap_wrap(inner, "/tmp/weft-test-%p-pcap", &second), 0);
    second->ops->destroy(second);
    assert_int_equal(unlink(expected), 0);
}

static void file_that_cannot_be_made_is_refused(void **state)
{
    struct link *wrapped;
    assert_int_equal(link_pcap_wrap(the_link, "/nonexistent/x", &wrapped), -ENOENT);
}

static void full_disk_ends_the_recording_alone(void **state)
{
    struct link_socket_config config = {0};
    struct link *inner, *full;
    assert_int_equal(link_socket_create(&config, &inner), 0);
    assert_int_equal(link_pcap_wrap(inner, "/dev/full", &full), -ENOSPC);
    inner->ops->destroy(inner);
    assert_int_equal(link_pcap_flush(the_link), 0);
}

/* ---- the link inside ------------------------------------------------------------------------- */

static bool yes(struct link *link)
{
    (void)link;
    return true;
}

static void leave(struct link *link)
{
    (void)link;
}

// Otherwise a process that is recorded would exit before its own TCP has brought across what it
// took, and would send FPDUs that are cut anywhere.
static void what_the_inner_link_says_of_itself_is_handed_on(void **state)
{
    const struct link_ops ops = {.is_busy = yes, .destroy = leave};
    struct link inner = {&ops, LINK_HAS_SEGMENTS | LINK_HAS_PLACES | LINK_IS_OF_PROCESS}, *wrapped;
    assert_int_equal(the_link->facts, 0);
    assert_false(link_is_busy(the_link));
    assert_int_equal(link_pcap_wrap(&inner, "/tmp/weft-test-%p-pcap-inner", &wrapped), 0);
    assert_int_equal(wrapped->facts, LINK_HAS_SEGMENTS | LINK_IS_OF_PROCESS); // none is placed
    assert_true(link_is_busy(wrapped));
    wrapped->ops->destroy(wrapped);
    char made[64];
    snprintf(made, sizeof made, "/tmp/weft-test-%d-pcap-inner", (int)getpid());
    assert_int_equal(unlink(made), 0);
}

/* ---- tshark ---------------------------------------------------------------------------------- */

static bool has_tshark(void)
{
    FILE *out = popen("command -v tshark", "r");
    assert_non_null(out);
    bool found = fgetc(out) == '/';
    pclose(out);
    return found;
}

// By a port or by a guess, other dissectors would claim what is not theirs.
static void tshark_read(void)
{
    char command[512];
    snprintf(command, sizeof command,
             "tshark --disable-protocol rpcordma --disable-protocol smb_direct "
             "-o tcp.try_heuristic_first:TRUE -o tcp.check_checksum:TRUE "
             "-o ip.check_checksum:TRUE -r %s -V >%s.text",
             path, path);
    FILE *run = popen(command, "w");
    assert_non_null(run);
    assert_int_equal(pclose(run), 0);
}

static unsigned tshark_count(const char *pattern)
{
    char command[256];
    unsigned lines = 0;
    int c;
    snprintf(command, sizeof command, "grep -c -i -E '%s' %s.text", pattern, path);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    while ((c = fgetc(out)) >= '0' && c <= '9') {
        lines = lines * 10 + (unsigned)(c - '0');
    }
    pclose(out);
    return lines;
}

static void tshark_finds_every_fpdu_good(int family, bool markers)
{
    char text_path[80];
    if (!has_tshark()) {
        print_message("SKIP: no tshark on this machine\n");
        skip();
    }
    run_script(family, 333, markers);
    finish();
    tshark_read();
    assert_int_equal(tshark_count("Good CRC32"), there.count - 1 + back.count - 1);
    assert_int_equal(tshark_count("malformed|bad crc32|checksum.*incorrect"), 0);
    assert_int_equal(tshark_count("retransmission|unseen segment|previous segment"), 0);
    snprintf(text_path, sizeof text_path, "%s.text", path);
    assert_int_equal(unlink(text_path), 0);
}

static void tshark_finds_every_fpdu_good_over_ipv4(void **state)
{
    tshark_finds_every_fpdu_good(AF_INET, false);
}

static void tshark_finds_every_fpdu_good_over_ipv6(void **state)
{
    tshark_finds_every_fpdu_good(AF_INET6, false);
}

static void tshark_finds_every_fpdu_good_with_markers(void **state)
{
    tshark_finds_every_fpdu_good(AF_INET, true);
}

#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
#define X(name) LINK_TEST(name),
    const struct CMUnitTest tests[] = {
        CONTRACT_TESTS(X) LINK_TEST(connection_is_recorded_once_and_unit_by_unit),
        LINK_TEST(ipv6_is_recorded_too),
        LINK_TEST(markers_do_not_hide_where_units_end),
        LINK_TEST(record_is_in_the_file_when_the_call_returns),
        LINK_TEST(handshake_and_ends_are_in_the_file_when_the_call_returns),
        LINK_TEST(recording_that_finds_no_room_ends_and_the_connection_goes_on),
        LINK_TEST(file_of_two_names_is_refused_and_left_as_it_is),
        LINK_TEST(links_of_others_are_not_followed),
        LINK_TEST(file_is_for_its_user_s_eyes_and_begins_anew),
        LINK_TEST(reset_is_recorded),
        LINK_TEST(second_writer_takes_a_name_of_its_own),
        LINK_TEST(process_id_stands_in_the_name),
        LINK_TEST(file_that_cannot_be_made_is_refused),
        LINK_TEST(full_disk_ends_the_recording_alone),
        LINK_TEST(what_the_inner_link_says_of_itself_is_handed_on),
        LINK_TEST(tshark_finds_every_fpdu_good_over_ipv4),
        LINK_TEST(tshark_finds_every_fpdu_good_over_ipv6),
        LINK_TEST(tshark_finds_every_fpdu_good_with_markers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
