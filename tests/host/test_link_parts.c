// Of which parts a process's link is made, what each is told, and what is given back when one
// cannot be had. The parts stand in for the product's.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/key_mirror.h"
#include "base/time.h"
#include "host/link.h"
#include "host/link_kind.h"
#include "link/compound.h"
#include "link/device/fault.h"
#include "link/device/tap.h"
#include "link/device/udp.h"
#include "link/local/local.h"
#include "link/packet/packet.h"
#include "link/pcap/pcap.h"
#include "link/socket.h"

static char made[256];      // parts, in the order of their making; "~": given back
static const char *missing; // the part that cannot be had
static struct link_socket_config socket_config;
static struct link_local_config local_config;
static struct device_udp_config udp_config;
static struct device_tap_config tap_config;
static struct link_packet_config packet_config;
static struct fault_config fault_config;
static const char *captured_into;
static unsigned member_count;

static int make(const char *part)
{
    size_t len = strlen(made);
    snprintf(made + len, sizeof made - len, "%s%s", len > 0 ? " " : "", part);
    bool is_missing = missing != NULL && strcmp(missing, part) == 0;
    return is_missing ? -EMFILE : 0;
}

static void link_gone(struct link *link)
{
    make("~link");
}

static void device_gone(struct device *device)
{
    make("~device");
}

static const struct link_ops link_ops = {.destroy = link_gone};
static const struct device_ops device_ops = {.destroy = device_gone};
static struct link a_link = {.ops = &link_ops};
static struct device a_device = {.ops = &device_ops};
static struct trace *const a_trace = (struct trace *)&made;

int link_socket_create(const struct link_socket_config *config, struct link **ret)
{
    socket_config = *config;
    *ret = &a_link;
    return make("socket");
}

int link_local_wrap(struct link *inner, const struct link_local_config *config, struct link **ret)
{
    assert_ptr_equal(inner, &a_link);
    local_config = *config;
    return make("local");
}

int link_pcap_wrap(struct link *inner, const char *path, struct link **ret)
{
    assert_ptr_equal(inner, &a_link);
    captured_into = path;
    return make("capture");
}

int device_udp_create(const struct device_udp_config *config, struct device **ret)
{
    udp_config = *config;
    *ret = &a_device;
    return make("udp");
}

int device_tap_create(const struct device_tap_config *config, struct device **ret)
{
    tap_config = *config;
    *ret = &a_device;
    return make("tap");
}

int device_pcap_wrap(struct device *inner, const char *path, struct device **ret)
{
    assert_ptr_equal(inner, &a_device);
    captured_into = path;
    return make("capture");
}

int device_fault_wrap(struct device *inner, const struct fault_config *config, struct device **ret)
{
    assert_ptr_equal(inner, &a_device);
    fault_config = *config;
    return make("fault");
}

void link_packet_tune(struct tcp_config *tcp)
{
    make("tuned");
}

int link_packet_create(const struct link_packet_config *config, struct device *device,
                       struct link **ret)
{
    assert_ptr_equal(device, &a_device);
    packet_config = *config;
    *ret = &a_link;
    return make("packet");
}

int link_compound_create(const struct link_compound_config *config, struct link *const *members,
                         struct link **ret)
{
    member_count = config->member_count;
    for (unsigned i = 0; i < member_count; i++) {
        assert_ptr_equal(members[i], &a_link);
    }
    return make("compound");
}

static struct host_settings settings_of(const char *link)
{
    struct host_settings settings = {.ecn = TCP_ECN_REQUEST,
                                     .peer_timeout_ns = 60 * NS_PER_S,
                                     .sndbuf_len = 1000,
                                     .rcvbuf_len = 2000};
    snprintf(settings.link, sizeof settings.link, "%s", link);
    return settings;
}

static int begin(void **state)
{
    missing = NULL;
    made[0] = '\0';
    captured_into = NULL;
    return 0;
}

static char said[512]; // on standard error

static FILE *listen_begin(int *ret_kept)
{
    FILE *file = tmpfile();
    assert_non_null(file);
    *ret_kept = dup(STDERR_FILENO);
    dup2(fileno(file), STDERR_FILENO);
    return file;
}

static void listen_end(FILE *file, int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
}

static int create(const struct host_settings *settings)
{
    struct link *link = NULL;
    int kept;
    made[0] = '\0';
    FILE *file = listen_begin(&kept);
    int error = host_link_create(settings, a_trace, &link);
    listen_end(file, kept);
    return error;
}

/* ---- parts ----------------------------------------------------------------------------------- */

#define TAP "tap:weft0,10.0.0.2/24"
#define TWO "10.0.0.0/8=udp;*=socket"

static void a_link_is_made_of_what_was_asked_for(void **state)
{
    static const struct {
        const char *link, *fault, *path;
        bool local;
        const char *made;
    } cases[] = {
        {"socket", "", "", false, "socket"},
        {"socket", "", "", true, "socket local"},
        {"socket", "", "file", true, "socket capture"},
        {"socket", "loss=1%", "", true, "socket"},
        {"udp", "", "", true, "udp tuned packet"},
        {"udp", "", "file", false, "udp capture tuned packet"},
        {"udp", "loss=1%", "", false, "udp fault tuned packet"},
        {"udp", "loss=1%", "file", false, "udp capture fault tuned packet"},
        {"udp", "loss=0%", "", false, "udp tuned packet"},
        {"udp", "no sense", "", false, "udp tuned packet"},
        {TAP, "loss=1%", "file", false, "tap capture fault packet"},
        {TWO, "", "", true, "udp tuned packet socket compound"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct host_settings settings = settings_of(cases[i].link);
        settings.local = cases[i].local;
        snprintf(settings.fault, sizeof settings.fault, "%s", cases[i].fault);
        snprintf(settings.pcap_path, sizeof settings.pcap_path, "%s", cases[i].path);
        assert_int_equal(create(&settings), 0);
        assert_string_equal(made, cases[i].made);
        assert_string_equal(said, "");
        if (cases[i].path[0] != '\0') {
            assert_ptr_equal(captured_into, settings.pcap_path);
        }
    }
}

// But for a capture, which a program does without.
static void without_one_of_its_parts_there_is_no_link(void **state)
{
    static const struct {
        const char *link, *missing;
        int error;
        const char *made;
    } cases[] = {
        {"socket", "socket", -EMFILE, "socket"},
        {"socket", "local", -EMFILE, "socket local ~link"},
        {"udp", "udp", -EMFILE, "udp"},
        {"udp", "fault", -EMFILE, "udp capture fault ~device"},
        {"udp", "capture", 0, "udp capture fault tuned packet"},
        {"udp", "packet", -EMFILE, "udp capture fault tuned packet"},
        {TAP, "tap", -EMFILE, "tap"},
        {"10.0.0.0/8=udp;*=" TAP, "tap", -EMFILE, "udp capture fault tuned packet tap ~link"},
        {"10.0.0.0/8=udp;*=" TAP, "compound", -EMFILE,
         "udp capture fault tuned packet tap capture fault packet compound ~link ~link"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct host_settings settings = settings_of(cases[i].link);
        missing = cases[i].missing;
        if (strcmp(cases[i].link, "socket") == 0) {
            settings.local = true;
        } else {
            snprintf(settings.pcap_path, sizeof settings.pcap_path, "%s", "file");
            snprintf(settings.fault, sizeof settings.fault, "%s", "loss=1%");
        }
        assert_int_equal(create(&settings), cases[i].error);
        assert_string_equal(made, cases[i].made);
    }
}

static void links_are_known_by_their_names(void **state)
{
    static const char *const known[] = {"socket", "udp", TAP, "tun:weft0,10.0.0.2/24", TWO};
    static const char *const unknown[] = {
        "", "sockets", "tap:", "tap:weft0", "*=nothing", "10.0.0.0/8=udp;*=nothing"};
    for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++) {
        assert_true(host_link_is_known(known[i]));
    }
    for (unsigned i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct host_settings settings = settings_of(unknown[i]);
        assert_false(host_link_is_known(unknown[i]));
        assert_int_equal(create(&settings), -EINVAL);
        assert_string_equal(made, "");
    }
}

static void what_a_user_can_mend_is_said(void **state)
{
    static const struct {
        const char *link, *missing, *said;
    } cases[] = {
        {"socket", "capture", "cannot capture into f (WEFT_PCAP): Too many open files"},
        {"udp", "capture", "cannot capture into f (WEFT_PCAP): Too many open files"},
        {TAP, "tap", "cannot use the network interface weft0 (WEFT_LINK): Too many open files"},
        {"10.0.0.0/8=udp;*=socket", "socket", "cannot bring up socket, which WEFT_LINK names"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct host_settings settings = settings_of(cases[i].link);
        snprintf(settings.pcap_path, sizeof settings.pcap_path, "%s", "f");
        missing = cases[i].missing;
        create(&settings);
        assert_non_null(strstr(said, cases[i].said));
    }
}

static void who_is_waited_for_is_said(void **state)
{
    struct host_settings settings = settings_of("socket");
    int kept;
    settings.local = true;
    assert_int_equal(create(&settings), 0);
    FILE *file = listen_begin(&kept);
    local_config.on_long_revocation(11, 12);
    listen_end(file, kept);
    assert_non_null(strstr(said, "waiting for thread 12 of process 11"));
}

/* ---- what they are told ---------------------------------------------------------------------- */

static void sockets_are_told_of_patience_and_buffers(void **state)
{
    struct host_settings settings = settings_of("socket");
    assert_int_equal(create(&settings), 0);
    assert_int_equal(socket_config.peer_timeout_ns, 60 * NS_PER_S);
    assert_int_equal(socket_config.sndbuf_len, 1000);
    assert_int_equal(socket_config.rcvbuf_len, 2000);
    assert_ptr_equal(socket_config.trace, a_trace);
}

static void peers_of_the_host_are_given_the_rights_of_the_settings(void **state)
{
    struct host_settings settings = settings_of("socket");
    settings.local = true;
    for (unsigned i = 0; i < 4; i++) {
        settings.push = (i & 1) != 0;
        settings.pull = (i & 2) != 0;
        assert_int_equal(create(&settings), 0);
        assert_int_equal(local_config.rights,
                         (settings.push ? KEY_MAY_WRITE : 0) | (settings.pull ? KEY_MAY_READ : 0));
    }
    assert_int_equal(local_config.ring_len, LINK_LOCAL_RING_LEN);
    assert_int_equal(local_config.peer_timeout_ns, 60 * NS_PER_S);
    assert_int_equal(local_config.linger_ns, LINK_LOCAL_LINGER_NS);
    assert_non_null(local_config.clock);
    assert_non_null(local_config.on_long_revocation);
    assert_ptr_equal(local_config.trace, a_trace);
}

static void datagrams_are_summed_where_they_are_changed_on_purpose(void **state)
{
    struct host_settings settings = settings_of("udp");
    assert_int_equal(create(&settings), 0);
    assert_false(udp_config.checksums);
    assert_int_equal(udp_config.sndbuf_len, 1000);
    assert_int_equal(udp_config.rcvbuf_len, 2000);
    assert_non_null(udp_config.transport);
    assert_ptr_equal(udp_config.trace, a_trace);
    snprintf(settings.fault, sizeof settings.fault, "%s", "loss=10%,seed=7");
    assert_int_equal(create(&settings), 0);
    assert_true(udp_config.checksums);
    assert_int_equal(fault_config.seed, 7);
    snprintf(settings.fault, sizeof settings.fault, "%s", "?");
    assert_int_equal(create(&settings), 0);
    assert_true(udp_config.checksums);
}

static void our_own_tcp_is_as_patient_as_sockets_are(void **state)
{
    static const char *const links[] = {"udp", TAP};
    for (unsigned i = 0; i < 2; i++) {
        struct host_settings settings = settings_of(links[i]);
        const uint8_t nothing[SIPHASH_KEY_LEN] = {0};
        bool is_udp = i == 0;
        assert_int_equal(create(&settings), 0);
        const struct tcp_config *tcp = &packet_config.tcp;
        assert_int_equal(tcp->user_timeout_ns, 60 * NS_PER_S);
        assert_true(tcp->user_timeout_when_shut);
        assert_int_equal(tcp->connect_timeout_ns, 60 * NS_PER_S);
        assert_int_equal(tcp->keepalive_idle_ns, 30 * NS_PER_S);
        assert_int_equal(tcp->keepalive_interval_ns, 10 * NS_PER_S);
        assert_int_equal(tcp->keepalive_count, 3);
        assert_int_equal(tcp->ecn, TCP_ECN_REQUEST);
        assert_ptr_equal(tcp->trace, a_trace);
        assert_int_equal(packet_config.linger_ns, 60 * NS_PER_S);
        assert_int_equal(packet_config.settles_when_acknowledged, is_udp);
        assert_int_equal(packet_config.refusal_is_reset, is_udp);
        assert_int_equal(packet_config.answers_once, is_udp);
        assert_memory_not_equal(packet_config.secret, nothing, sizeof nothing);
        assert_non_null(packet_config.clock);
        assert_ptr_equal(packet_config.trace, a_trace);
    }
}

static void an_interface_is_told_its_name_and_a_seed(void **state)
{
    struct host_settings settings = settings_of(TAP);
    assert_int_equal(create(&settings), 0);
    assert_string_equal(tap_config.name, "weft0");
    uint64_t seed = tap_config.seed;
    assert_int_equal(create(&settings), 0);
    assert_int_not_equal(tap_config.seed, seed); // it is drawn
    assert_ptr_equal(tap_config.trace, a_trace);
}

static void a_compound_has_its_members_by_their_names(void **state)
{
    struct host_settings settings = settings_of("10.0.0.0/8=udp;11.0.0.0/8=" TAP ";*=socket");
    assert_int_equal(create(&settings), 0);
    assert_int_equal(member_count, 3);
    assert_string_equal(made, "udp tuned packet tap packet socket compound");
}

#define TEST_OF(name) cmocka_unit_test_setup(name, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST_OF(a_link_is_made_of_what_was_asked_for),
        TEST_OF(without_one_of_its_parts_there_is_no_link),
        TEST_OF(what_a_user_can_mend_is_said),
        TEST_OF(who_is_waited_for_is_said),
        TEST_OF(links_are_known_by_their_names),
        TEST_OF(sockets_are_told_of_patience_and_buffers),
        TEST_OF(peers_of_the_host_are_given_the_rights_of_the_settings),
        TEST_OF(datagrams_are_summed_where_they_are_changed_on_purpose),
        TEST_OF(our_own_tcp_is_as_patient_as_sockets_are),
        TEST_OF(an_interface_is_told_its_name_and_a_seed),
        TEST_OF(a_compound_has_its_members_by_their_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
