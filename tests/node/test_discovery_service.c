// An NVMe discovery service that is asked, before an initiator that is a few tables: which
// subsystems are asked for their namespaces and where, what is kept of who fails, and the
// controller that stays for news.

#include <errno.h>
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

#include <weft/nvme.h>

#include "base/time.h"
#include "node/discovery/asker.h"
#include "node/discovery/asking.h"
#include "node/discovery/remote_uri.h"
#include "node/discovery/report.h"
#include "node/loop/loop.h"

enum { SAID_MAX = 2048, ENTRY_MAX = 4 };

/* ---- the service, and its subsystems --------------------------------------------------------- */

static struct {
    const struct weft_nvme_entry *entries;
    size_t count;
    const char *fails; // "connect", "discover", or the NQN that cannot be ...
    const char *deaf;  // the host at which nobody answers
    int namespaces;    // ... connected to (0), or asked (negative)
    int polled;
    bool has_changed, is_lost;
    char told[SAID_MAX]; // who was connected to
    unsigned open;
    unsigned asked;        // of a namespace, what it is made of
    struct asking *asking; // has no time left behind the next connection; NULL: it has
} service;

struct weft_nvme {
    bool is_service, is_a;
};

int weft_nvme_connect(const struct weft_nvme_attr *attr, struct weft_nvme **ret, char *ret_why)
{
    const struct weft_nvme_address *at = attr->address;
    size_t len = strlen(service.told);
    bool is_service = (attr->flags & WEFT_NVME_PERSISTENT) != 0;
    bool is_it =
        service.fails != NULL && strcmp(service.fails, is_service ? "connect" : at->nqn) == 0;
    snprintf(service.told + len, sizeof service.told - len, "%s:%s/%s ", at->host, at->port,
             at->nqn);
    assert_int_equal(at->transport, WEFT_NVME_TCP);
    assert_int_equal(at->nsid, 0);
    assert_true(attr->timeout_ms >= 1000);
    assert_true(!is_service || attr->keep_alive_ms >= 60000); // a reading may last
    if (service.asking != NULL && !is_service) {
        service.asking->until = 0;
    }
    bool is_deaf = service.deaf != NULL && strcmp(service.deaf, at->host) == 0;
    if (is_deaf || (is_it && (is_service || service.namespaces == 0))) {
        snprintf(ret_why, WEFT_NVME_WHY_MAX, "refused");
        return -ECONNREFUSED;
    }
    *ret = calloc(1, sizeof **ret);
    (*ret)->is_service = is_service;
    (*ret)->is_a = strcmp(at->nqn, "nqn.a") == 0;
    service.open++;
    return 0;
}

void weft_nvme_disconnect(struct weft_nvme *nvme)
{
    service.open -= nvme != NULL;
    free(nvme);
}

int weft_nvme_discover(struct weft_nvme *nvme, struct weft_nvme_entry **ret, size_t *ret_count,
                       char *ret_why)
{
    assert_true(nvme->is_service);
    if (service.fails != NULL && strcmp(service.fails, "discover") == 0) {
        snprintf(ret_why, WEFT_NVME_WHY_MAX, "it changed again and again");
        return -EAGAIN;
    }
    *ret = calloc(ENTRY_MAX, sizeof **ret);
    for (unsigned i = 0; i < service.count; i++) {
        (*ret)[i] = service.entries[i];
    }
    *ret_count = service.count;
    return 0;
}

// Those of "nqn.c" are 7 alone, "nqn.empty" has none, all others' are 1 and 3.
int weft_nvme_namespaces(struct weft_nvme *nvme, uint32_t *ret, size_t count, char *ret_why)
{
    assert_false(nvme->is_service);
    assert_true(count >= 1024);
    bool is_c = strstr(service.told, "nqn.c ") != NULL;
    if (strstr(service.told, "nqn.empty ") != NULL) {
        return 0;
    }
    if (service.namespaces < 0) {
        snprintf(ret_why, WEFT_NVME_WHY_MAX, "it does not tell");
        return service.namespaces;
    }
    ret[0] = is_c ? 7 : 1;
    ret[1] = 3;
    return is_c ? 1 : 2;
}

// Of "nqn.a", that there is a volume behind its first namespace.
int weft_nvme_vendor_data(struct weft_nvme *nvme, uint32_t nsid, uint8_t *ret, size_t len,
                          char *ret_why)
{
    assert_false(nvme->is_service);
    assert_int_equal(len, VOLUME_LINEAGE_LEN);
    service.asked++;
    if (!nvme->is_a || nsid != 1) {
        return -EPROTO;
    }
    volume_lineage_emit(&(struct resource){.profile.lineage.count = 1}, ret);
    return 0;
}

const char *weft_nvme_why(const struct weft_nvme *nvme)
{
    return service.is_lost ? "the peer is gone" : NULL;
}

int weft_nvme_fd(const struct weft_nvme *nvme)
{
    return 42;
}

int weft_nvme_poll(struct weft_nvme *nvme)
{
    return service.polled;
}

bool weft_nvme_log_has_changed(const struct weft_nvme *nvme)
{
    return service.has_changed;
}

/* ---- who asks -------------------------------------------------------------------------------- */

static char reported[SAID_MAX];
static uint32_t lineages; // how many volumes all units together were said to be made of
static struct remote_uri uri;
static void *self;
static struct why why;

static void reports_take(int fd)
{
    struct report report;
    reported[0] = '\0';
    lineages = 0;
    while (recv(fd, &report, sizeof report, MSG_DONTWAIT) == sizeof report) {
        char *end = strchr(reported, '\0');
        size_t left = sizeof reported - (size_t)(end - reported);
        lineages += report.lineage.count;
        if (report.kind == REPORT_UNIT) {
            snprintf(end, left, "%s@%s/%u ", report.target, report.where, report.number);
        } else {
            assert_int_equal(report.kind, REPORT_KEPT);
            snprintf(end, left, "%s kept: %s; ", report.target, report.text);
        }
    }
}

static int read_once(bool is_late, uint32_t left_out)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    struct asking asking = {
        .uri = &uri, .channel = pair[1], .until = instant_after(loop_clock(), 60 * NS_PER_S)};
    service.asking = is_late ? &asking : NULL;
    service.told[0] = '\0';
    why = (struct why){""};
    int error = asker_service_tcp.read(self, &asking, &why);
    reports_take(pair[0]);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(asking.left_out, left_out);
    return error;
}

static void begin(const char *text, const struct weft_nvme_entry *entries, size_t count)
{
    memset(&service, 0, sizeof service);
    service.entries = entries;
    service.count = count;
    assert_int_equal(remote_uri_parse(text, &uri, &why), 0);
    self = asker_service_tcp.create(&uri);
    assert_non_null(self);
    assert_int_equal(asker_service_tcp.news_fd(self), -1); // nothing is kept yet
    assert_false(asker_service_tcp.has_news(self));
}

// What is left open is the controller that is kept.
static void end(unsigned open)
{
    assert_int_equal(service.open, open);
    service.is_lost = true;
    service.fails = "connect";
    assert_int_equal(read_once(false, 0), -ECONNREFUSED);
    assert_int_equal(service.open, 0);
    free(self);
}

#define ENTRY(transport_, kind_, host_, port_, nqn_)                                  \
    {                                                                                 \
        .transport = (transport_), .kind = (kind_), .host = (host_), .port = (port_), \
        .nqn = (nqn_)                                                                 \
    }

static void namespaces_of_each_subsystem_are_units(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "h", "4420", "nqn.a"),
                                                     ENTRY("tcp", "nvme", "g", "1", "nqn.b")};
    begin("nvme+tcp://h/*", entries, 2);
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.a@/1 nqn.a@/3 nqn.b@g:1/1 nqn.b@g:1/3 ");
    assert_string_equal(service.told, "h:4420/ h:4420/nqn.a g:1/nqn.b ");
    end(1);
}

static void what_a_namespace_is_made_of_is_told(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "h", "4420", "nqn.a"),
                                                     ENTRY("tcp", "nvme", "g", "1", "nqn.b")};
    begin("nvme+tcp://h/*", entries, 2);
    assert_int_equal(read_once(false, 0), 0);
    assert_int_equal(service.asked, 4);
    assert_int_equal(lineages, 2); // by the first one alone
    assert_int_equal(read_once(true, 0), 0);
    assert_int_equal(service.asked, 4); // no time for more
    end(1);
}

static void where_a_subsystem_is_is_told_where_it_is_elsewhere(void **state)
{
    static const struct {
        struct weft_nvme_entry entry;
        const char *expected;
    } cases[] = {{ENTRY("tcp", "nvme", "h", "4420", "nqn.c"), "nqn.c@/7 "},
                 {ENTRY("tcp", "nvme", "h", "4421", "nqn.c"), "nqn.c@h:4421/7 "},
                 {ENTRY("tcp", "nvme", "i", "4420", "nqn.c"), "nqn.c@i:4420/7 "},
                 {ENTRY("tcp", "nvme", "::1", "4420", "nqn.c"), "nqn.c@[::1]:4420/7 "}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin("nvme+tcp://h:4420/*", &cases[i].entry, 1);
        assert_int_equal(read_once(false, 0), 0);
        assert_string_equal(reported, cases[i].expected);
        end(1);
    }
}

static void others_are_not_asked(void **state)
{
    static const struct weft_nvme_entry cases[] = {
        ENTRY("rdma", "nvme", "h", "1", "nqn.a"), ENTRY("tcp", "discovery", "h", "1", "nqn.a"),
        ENTRY("tcp", "referral", "h", "1", "nqn.a"), ENTRY("tcp", "nvme", "h", "1", "nqn.z"),
        ENTRY("fc", "nvme", "h", "1", "nqn.a")};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin("nvme+tcp://h/*a", &cases[i], 1);
        assert_int_equal(read_once(false, 0), 0);
        assert_string_equal(reported, "");
        assert_string_equal(service.told, "h:4420/ ");
        end(1);
    }
}

static void a_second_way_to_a_subsystem_is_none_of_another_volume(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("rdma", "nvme", "e", "1", "nqn.c"),
                                                     ENTRY("tcp", "nvme", "f", "1", "nqn.c"),
                                                     ENTRY("tcp", "nvme", "g", "1", "nqn.c")};
    begin("nvme+tcp://h/*", entries, 3);
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.c@f:1/7 ");
    end(1);
    begin("nvme+tcp://h/*", entries + 1, 2);
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.c@f:1/7 ");
    end(1);
}

static void a_subsystem_is_asked_by_its_next_way_where_one_does_not_answer(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "f", "1", "nqn.c"),
                                                     ENTRY("tcp", "nvme", "g", "1", "nqn.c")};
    begin("nvme+tcp://h/*", entries, 2);
    service.deaf = "f";
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.c@g:1/7 ");
    assert_string_equal(service.told, "h:4420/ f:1/nqn.c g:1/nqn.c ");
    end(1);
}

// It would be another volume, and its clients would lose this one.
static void a_subsystem_stays_where_it_answered_when_an_earlier_way_comes_back(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "f", "1", "nqn.c"),
                                                     ENTRY("tcp", "nvme", "g", "1", "nqn.c")};
    begin("nvme+tcp://h/*", entries, 2);
    service.deaf = "f";
    assert_int_equal(read_once(false, 0), 0);
    service.deaf = NULL;
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.c@g:1/7 ");
    assert_string_equal(service.told, "g:1/nqn.c ");
    service.deaf = "g";
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.c@f:1/7 ");
    assert_string_equal(service.told, "g:1/nqn.c f:1/nqn.c ");
    end(1);
}

static void a_subsystem_whose_ways_all_fail_keeps_what_it_had_once(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "f", "1", "nqn.a"),
                                                     ENTRY("tcp", "nvme", "g", "1", "nqn.a")};
    begin("nvme+tcp://h/*", entries, 2);
    service.fails = "nqn.a";
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.a kept: refused; ");
    assert_string_equal(service.told, "h:4420/ f:1/nqn.a g:1/nqn.a ");
    end(1);
}

static void a_subsystem_of_no_namespaces_has_lost_those_it_had(void **state)
{
    static const struct weft_nvme_entry entry = ENTRY("tcp", "nvme", "h", "1", "nqn.empty");
    begin("nvme+tcp://h/*", &entry, 1);
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, ""); // nor is anything kept
    end(1);
}

static void there_are_no_more_than_are_wanted(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "h", "1", "nqn.a"),
                                                     ENTRY("tcp", "nvme", "h", "2", "nqn.b"),
                                                     ENTRY("tcp", "nvme", "h", "3", "nqn.d")};
    begin("nvme+tcp://h/*?most=3", entries, 3);
    assert_int_equal(read_once(false, 1), 0);
    assert_string_equal(reported, "nqn.a@h:1/1 nqn.a@h:1/3 nqn.b@h:2/1 ");
    end(1);
}

static void a_subsystem_that_fails_keeps_what_it_had(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "h", "1", "nqn.a"),
                                                     ENTRY("tcp", "nvme", "h", "2", "nqn.b")};
    begin("nvme+tcp://h/*", entries, 2);
    service.fails = "nqn.a";
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.a kept: refused; nqn.b@h:2/1 nqn.b@h:2/3 ");
    service.namespaces = -EIO;
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(reported, "nqn.a kept: it does not tell; nqn.b kept: it does not tell; ");
    service.namespaces = 0;
    service.fails = NULL;
    assert_int_equal(read_once(true, 0), 0); // no time behind the first
    assert_string_equal(reported, "nqn.a@h:1/1 nqn.a@h:1/3 nqn.b kept: it answers too slowly; ");
    end(1);
}

static void a_service_that_fails_is_said_and_asked_anew_next_time(void **state)
{
    static const struct weft_nvme_entry entries[] = {ENTRY("tcp", "nvme", "h", "1", "nqn.c")};
    begin("nvme+tcp://h/*", entries, 1);
    service.fails = "connect";
    assert_int_equal(read_once(false, 0), -ECONNREFUSED);
    assert_string_equal(why.text, "refused");
    service.fails = "discover";
    assert_int_equal(read_once(false, 0), -EAGAIN);
    assert_string_equal(why.text, "it changed again and again");
    assert_string_equal(reported, "");
    assert_int_equal(service.open, 0);
    assert_int_equal(asker_service_tcp.news_fd(self), -1);
    service.fails = NULL;
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(service.told, "h:4420/ h:1/nqn.c ");
    assert_int_equal(read_once(false, 0), 0); // by the controller that is there
    assert_string_equal(service.told, "h:1/nqn.c ");
    service.is_lost = true;
    assert_int_equal(read_once(false, 0), 0);
    assert_string_equal(service.told, "h:4420/ h:1/nqn.c ");
    end(1);
}

static void news_are_a_change_or_the_end_of_the_connection(void **state)
{
    static const struct {
        int polled;
        bool has_changed, has_news;
    } cases[] = {{0, false, false}, {1, false, false}, {0, true, true}, {-ECONNRESET, false, true}};
    begin("nvme+tcp://h/*", NULL, 0);
    assert_int_equal(read_once(false, 0), 0);
    assert_int_equal(asker_service_tcp.news_fd(self), 42);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        service.polled = cases[i].polled;
        service.has_changed = cases[i].has_changed;
        assert_true(asker_service_tcp.has_news(self) == cases[i].has_news);
    }
    end(1);
}

static void both_transports_are_asked_in_the_same_way(void **state)
{
    const struct asker *tcp = &asker_service_tcp, *rdma = &asker_service_rdma;
    assert_string_equal(tcp->driver, "nvme+tcp");
    assert_string_equal(rdma->driver, "nvme+rdma");
    assert_non_null(tcp->calls());
    assert_true(rdma->calls != NULL && rdma->calls != tcp->calls);
    assert_true(tcp->create != NULL && rdma->create == tcp->create);
    assert_true(tcp->read != NULL && rdma->read == tcp->read);
    assert_true(tcp->news_fd != NULL && rdma->news_fd == tcp->news_fd);
    assert_true(tcp->has_news != NULL && rdma->has_news == tcp->has_news);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(namespaces_of_each_subsystem_are_units),
        cmocka_unit_test(what_a_namespace_is_made_of_is_told),
        cmocka_unit_test(where_a_subsystem_is_is_told_where_it_is_elsewhere),
        cmocka_unit_test(others_are_not_asked),
        cmocka_unit_test(a_second_way_to_a_subsystem_is_none_of_another_volume),
        cmocka_unit_test(a_subsystem_is_asked_by_its_next_way_where_one_does_not_answer),
        cmocka_unit_test(a_subsystem_stays_where_it_answered_when_an_earlier_way_comes_back),
        cmocka_unit_test(a_subsystem_whose_ways_all_fail_keeps_what_it_had_once),
        cmocka_unit_test(a_subsystem_of_no_namespaces_has_lost_those_it_had),
        cmocka_unit_test(there_are_no_more_than_are_wanted),
        cmocka_unit_test(a_subsystem_that_fails_keeps_what_it_had),
        cmocka_unit_test(a_service_that_fails_is_said_and_asked_anew_next_time),
        cmocka_unit_test(news_are_a_change_or_the_end_of_the_connection),
        cmocka_unit_test(both_transports_are_asked_in_the_same_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
