// The capture of scripted connections over the socket link, read back packet by packet; with tshark
// on this machine, read by it too.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/pcap.h"
#include "link/socket.h"
#include "tests/link/loop.h"
#include "tests/link/mpa_stream.h"
#include "wire/ip.h"
#include "wire/tcp.h"

static struct loop l;
static struct link *the_link;
static struct mpa_stream there, back;
static char path[64];
static uint8_t capture[1 << 20];
static size_t capture_len;

static int begin(void **state)
{
    (void)state;
    struct link_socket_config config = {0};
    struct link *inner;
    snprintf(path, sizeof path, "/tmp/weft-test-pcap-%d", (int)getpid());
    int error = link_socket_create(&config, &inner);
    return error != 0 ? error : link_pcap_wrap(inner, path, &the_link);
}

static int end(void **state)
{
    (void)state;
    if (the_link != NULL) {
        the_link->ops->destroy(the_link);
    }
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

struct packet {
    int family;
    struct tcp_header tcp;
    struct span payload;
};

static void capture_read(void)
{
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    capture_len = fread(capture, 1, sizeof capture, in);
    fclose(in);
    assert_true(capture_len >= 24);
    uint32_t magic;
    memcpy(&magic, capture, 4);
    assert_int_equal(magic, 0xa1b23c4d);
}

static uint64_t pseudo_sum_of(const uint8_t *ip, size_t len)
{
    struct ipv4_header v4 = {.protocol = IP_PROTOCOL_TCP};
    struct ipv6_header v6 = {.next_header = IP_PROTOCOL_TCP};
    memcpy(v4.src, ip + IPV4_OFF_SRC, 4);
    memcpy(v4.dst, ip + IPV4_OFF_DST, 4);
    memcpy(v6.src, ip + IPV6_OFF_SRC, 16);
    memcpy(v6.dst, ip + IPV6_OFF_DST, 16);
    return ip[0] >> 4 == 4 ? inet_sum_ipv4(&v4, (uint32_t)len) : inet_sum_ipv6(&v6, (uint32_t)len);
}

// The packet at *at, its lengths and checksums proven; false at the end.
static bool packet_next(size_t *at, struct packet *ret)
{
    uint32_t record[4];
    if (*at == capture_len) {
        return false;
    }
    assert_true(capture_len - *at >= sizeof record);
    memcpy(record, capture + *at, sizeof record);
    const uint8_t *ip = capture + *at + sizeof record;
    *at += sizeof record + record[2];
    assert_int_equal(record[2], record[3]);
    assert_true(*at <= capture_len);

    bool is_v4 = ip[0] >> 4 == 4;
    size_t ip_len = is_v4 ? IPV4_HEADER_LEN : IPV6_HEADER_LEN, len = record[2] - ip_len;
    if (is_v4) {
        assert_int_equal(get_be16(ip + IPV4_OFF_TOTAL_LEN), record[2]);
        assert_int_equal(inet_sum_fold(inet_sum_add(0, span_of(ip, ip_len))), 0);
    } else {
        assert_int_equal(get_be16(ip + IPV6_OFF_PAYLOAD_LEN), len);
    }
    const uint8_t *tcp = ip + ip_len;
    uint64_t sum = inet_sum_add(pseudo_sum_of(ip, len), span_of(tcp, len));
    assert_int_equal(inet_sum_fold(sum), 0);
    size_t tcp_len = (size_t)(tcp[TCP_OFF_DATA_OFFSET] >> 4) * 4;
    *ret = (struct packet){.family = is_v4 ? AF_INET : AF_INET6,
                           .tcp = {.src_port = get_be16(tcp + TCP_OFF_SRC_PORT),
                                   .seq = get_be32(tcp + TCP_OFF_SEQ),
                                   .ack = get_be32(tcp + TCP_OFF_ACK),
                                   .flags = tcp[TCP_OFF_FLAGS]},
                           .payload = span_of(tcp + tcp_len, len - tcp_len)};
    return true;
}

// Each direction's segments follow on each other, acknowledge what was seen, hold one unit each.
static void assert_capture(int family)
{
    const struct mpa_stream *streams[2] = {&there, &back};
    uint32_t seq[2] = {0};
    size_t octets[2] = {0}, at = 24;
    unsigned units[2] = {0}, syns = 0, fins = 0;
    uint16_t initiator_port = 0;
    struct packet p;
    capture_read();
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
    (void)state;
    run_script(AF_INET, 100, false);
    finish();
    assert_capture(AF_INET);
}

static void ipv6_is_recorded_too(void **state)
{
    (void)state;
    run_script(AF_INET6, 5000, false);
    finish();
    assert_capture(AF_INET6);
}

static void markers_do_not_hide_where_units_end(void **state)
{
    (void)state;
    run_script(AF_INET, 777, true);
    finish();
    assert_capture(AF_INET);
}

static void record_is_in_the_file_when_the_call_returns(void **state)
{
    (void)state;
    struct packet p;
    size_t at = 24;
    stream_frame(&there, MPA_REQUEST, false);
    loop_open(&l, the_link, AF_INET);
    struct iovec iov = {there.octets, there.len};
    struct link_tx tx = {.iov = &iov, .iov_count = 1};
    the_link->ops->send(l.active, &tx);
    // The passive end was connected first and records the connection, as it sees it.
    the_link->ops->recv(l.passive, mspan_of(there.octets, there.len));
    capture_read();
    for (int i = 0; i < 4; i++) {
        assert_true(packet_next(&at, &p));
    }
    assert_int_equal(p.payload.len, there.len);
    assert_false(packet_next(&at, &p));
}

static void reset_is_recorded(void **state)
{
    (void)state;
    struct packet p;
    size_t at = 24;
    unsigned resets = 0;
    loop_open(&l, the_link, AF_INET);
    the_link->ops->close(l.passive, true);
    finish();
    capture_read();
    while (packet_next(&at, &p)) {
        resets += (p.tcp.flags & TCP_RST) != 0;
    }
    assert_int_equal(resets, 1);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void second_writer_takes_a_name_of_its_own(void **state)
{
    (void)state;
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
    (void)state;
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
    (void)state;
    struct link *wrapped;
    assert_int_equal(link_pcap_wrap(the_link, "/nonexistent/x", &wrapped), -ENOENT);
}

static void full_disk_ends_the_recording_alone(void **state)
{
    (void)state;
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
    (void)state;
    const struct link_ops ops = {.has_segments = true, .is_busy = yes, .destroy = leave};
    struct link inner = {.ops = &ops}, *wrapped;
    assert_false(the_link->ops->has_segments);
    assert_null(the_link->ops->is_busy);
    assert_int_equal(link_pcap_wrap(&inner, "/tmp/weft-test-%p-pcap-inner", &wrapped), 0);
    assert_true(wrapped->ops->has_segments);
    assert_non_null(wrapped->ops->is_busy);
    assert_true(wrapped->ops->is_busy(wrapped));
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
    (void)state;
    tshark_finds_every_fpdu_good(AF_INET, false);
}

static void tshark_finds_every_fpdu_good_over_ipv6(void **state)
{
    (void)state;
    tshark_finds_every_fpdu_good(AF_INET6, false);
}

static void tshark_finds_every_fpdu_good_with_markers(void **state)
{
    (void)state;
    tshark_finds_every_fpdu_good(AF_INET, true);
}

#define LINK_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINK_TEST(connection_is_recorded_once_and_unit_by_unit),
        LINK_TEST(ipv6_is_recorded_too),
        LINK_TEST(markers_do_not_hide_where_units_end),
        LINK_TEST(record_is_in_the_file_when_the_call_returns),
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
