// A report is made in as much room as it needs, and written as JSON.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "iwarp/counters.h"
#include "iwarp/qp.h"
#include "report/report.h"
#include "tests/golden.h"
#include "wq/latency.h"

static struct report report;

static int setup(void **state)
{
    report_init(&report);
    return report_make_room(&report);
}

static int teardown(void **state)
{
    report_fini(&report);
    return 0;
}

static struct sockaddr_storage ipv4(uint32_t addr, uint16_t port)
{
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(addr)}};
    struct sockaddr_storage storage = {0};
    memcpy(&storage, &in, sizeof in);
    return storage;
}

static struct report_pairs two_pairs(const char *first, const char *second)
{
    struct report_pairs pairs = {.has_any = true, .first = report_next_pair(&report), .count = 2};
    report_add_pair(&report, first, 1);
    report_add_pair(&report, second, 2);
    return pairs;
}

static struct report_qp qp_of(uint32_t qp_num, const struct qp_counters *counters)
{
    return (struct report_qp){
        .qp_num = qp_num,
        .ops = &iwarp_transport_ops,
        .attributes = {.phase = "IDLE"},
        .counters = report_add_counters(&report, &iwarp_transport_ops, counters),
    };
}

static void device_totals(const struct qp_counters *counters)
{
    report.device.total_count = 1;
    report.device.totals[0] = report_add_counters(&report, &iwarp_transport_ops, counters);
}

static void fill(void)
{
    report_begin(&report);
    report.pid = 42;
    report.program = "exa\"mple\n";
    report.device.has_streams = true;
    report.device.name = "weft0";
    report.device.qp_count = 2;
    report.device.startup.refusals[CONN_FAILURE_BAD_KEY] = 3;
    report.device.meetings.kept = 4;
    report.device.packets = two_pairs("received", "sent");
    report.latency = (struct latency){0};
    histogram_add(&report.latency.of[LATENCY_READ], 15);
    histogram_add(&report.latency.of[LATENCY_READ], 5000);
    struct report_endpoint *listener = report_add_endpoint(&report);
    *listener = (struct report_endpoint){
        .state = "listening", .is_listening = true, .local = ipv4(0, 7471)};
    struct report_endpoint *open = report_add_endpoint(&report);
    *open = (struct report_endpoint){.state = "open",
                                     .role = "initiator",
                                     .startup = "established",
                                     .has_qp = true,
                                     .qp_num = 100,
                                     .local = ipv4(0x0a000001, 1000),
                                     .peer = ipv4(0x0a000002, 2000),
                                     .tcp = two_pairs("segments", "refused.some")};
    const struct qp_counters counters = {.wq = {.send_completions = 9}};
    *report_add_qp(&report) = qp_of(100, &counters);
    report.qps[0].attributes.state = QP_RTS;
    report.qps[0].attributes.ird = 4;
    report.qps[0].attributes.ord = 5;
    *report_add_qp(&report) = qp_of(101, &(struct qp_counters){0});
    device_totals(&(struct qp_counters){0});
}

// Another number for each counter of a struct that has nothing but counters.
static void number(void *counters, size_t len)
{
    static uint64_t next;
    uint64_t *at = counters;
    for (size_t i = 0; i < len / sizeof *at; i++) {
        at[i] = ++next;
    }
}

#define NUMBER(counters) number(&(counters), sizeof(counters))

// Every number there is differs from all others, so that none can stand in another's place.
static void fill_with_numbers(void)
{
    struct report_device *d = &report.device;
    report_begin(&report);
    report.pid = 43;
    report.program = "numbers";
    report.latency = (struct latency){0};
    d->has_streams = true;
    report.device.name = "weft0";
    d->qp_count = 1001;
    d->cq_count = 1002;
    d->srq_count = 1003;
    d->live = (struct mem_live){
        .pds = 1004, .regions = 1005, .windows = 1006, .oneshots = 1007, .sinks = 1008};
    d->reads = (struct report_reads){.allotment_len = 1009,
                                     .allotment_base_len = 1010,
                                     .is_memory_short = true,
                                     .in_force_min_len = 1011,
                                     .in_force_max_len = 1012,
                                     .connection_count = 1013,
                                     .context_count = 1014,
                                     .contexts_in_use = 1015,
                                     .waiting_count = 1016};
    NUMBER(d->reads.changes);
    NUMBER(d->reads.counters);
    NUMBER(d->mpa_in_total);
    NUMBER(d->mpa_early_total);
    NUMBER(d->mpa_out_total);
    struct qp_counters totals;
    NUMBER(totals);
    device_totals(&totals);
    d->tcp_total = two_pairs("segments", "resets");
    NUMBER(d->startup);
    NUMBER(d->meetings);
    NUMBER(d->closes);
    NUMBER(d->memory_refusals);
    struct report_endpoint *e = report_add_endpoint(&report);
    e->state = "open";
    e->is_listening = e->is_placing = true;
    NUMBER(e->admissions);
    NUMBER(e->mpa_in);
    NUMBER(e->mpa_early);
    NUMBER(e->mpa_out);
    struct qp_counters counters;
    NUMBER(counters);
    struct report_qp *qp = report_add_qp(&report);
    *qp = qp_of(1017, &counters);
    qp->peer = ipv4(0x0a000003, 0);
    qp->peer_qp_num = 1031;
    qp->attributes = (struct qp_attributes){.state = QP_RTS,
                                            .phase = "IDLE",
                                            .ird = 1018,
                                            .ord = 1019,
                                            .segment_len = 1020,
                                            .request_len = 1021,
                                            .answer_len = 1022,
                                            .sq_count = 1023,
                                            .rq_count = 1024,
                                            .reads_outstanding = 1025,
                                            .reads_due = 1026,
                                            .refused = "too long",
                                            .refused_by_peer = "a \"key\"",
                                            .has_psns = true,
                                            .sq_psn = 1027,
                                            .rq_psn = 1028,
                                            .held_count = 1029,
                                            .in_flight_count = 1030};
}

// A line for each member, for who reads the golden file.
static char *written(void (*write)(const struct report *r, FILE *out))
{
    static char text[1 << 15], lines[1 << 16];
    size_t at = 0;
    memset(text, 0, sizeof text);
    FILE *out = fmemopen(text, sizeof text, "w");
    write(&report, out);
    fclose(out);
    for (const char *c = text; *c != '\0'; c++) {
        lines[at++] = *c;
        if (*c == ',' || *c == '{') {
            lines[at++] = '\n';
        }
    }
    lines[at] = '\0';
    return lines;
}

static void report_is_written_as_it_is_written_down(void **state)
{
    fill();
    golden_compare("report/golden/report.txt", written(report_write));
}

static void every_number_has_its_own_name(void **state)
{
    fill_with_numbers();
    golden_compare("report/golden/numbers.txt", written(report_write));
}

static void what_was_agreed_on_one_shot_is_named(void **state)
{
    enum {
        FLAGS = EXTENSION_ONESHOT_FLAGS,
        OPCODE = EXTENSION_ONESHOT_OPCODE,
        ADVERTISE = EXTENSION_ONESHOT_ADVERTISE,
        CLOSE = EXTENSION_ONESHOT_CLOSE,
    };
    static const struct {
        int agreed;
        const char *name;
    } rows[] = {
        {0, "none"},
        {-1, "none"}, // not said yet
        {FLAGS | ADVERTISE | CLOSE, "flags"},
        {OPCODE | ADVERTISE | CLOSE, "opcode"},
        {FLAGS | ADVERTISE, "flags advertise"},
        {OPCODE | ADVERTISE, "opcode advertise"},
        {FLAGS | CLOSE, "flags close"},
        {OPCODE | CLOSE, "opcode close"},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char part[64];
        report_begin(&report);
        report.program = "example";
        struct report_qp *qp = report_add_qp(&report);
        *qp = qp_of(1, &(struct qp_counters){0});
        qp->oneshot = rows[i].agreed;
        snprintf(part, sizeof part, "\"oneshot\":\"%s\",", rows[i].name);
        assert_non_null(strstr(written(report_write), part));
    }
}

static void device_over_packets_says_nothing_of_streams(void **state)
{
    report_begin(&report);
    report.program = "example";
    report.device = (struct report_device){0};
    const char *text = written(report_write);
    assert_null(strstr(text, "mpa_"));
    assert_null(strstr(text, "\"startup\""));
    assert_null(strstr(text, "\"closes\""));
    assert_non_null(strstr(text, "\"memory_refusals\""));
}

static void reads_are_written_alone(void **state)
{
    report.pid = 42;
    report.program = "example";
    report.device.name = "weft0";
    report.device.reads = (struct report_reads){.allotment_len = 65536, .context_count = 7};
    golden_compare("report/golden/reads.txt", written(report_write_reads));
}

// Of packets a queue pair knows its peer, of a stream its endpoint does; some have none yet.
static void reads_of_each_connection_name_its_peer(void **state)
{
    static const struct {
        uint32_t qp_num;
        bool is_reading;
        uint32_t peer; // the queue pair's own word
    } rows[] = {
        {100, true, 0}, {101, false, 0}, {102, true, 0x0a000009}, {103, true, 0}, {105, true, 7}};
    report_begin(&report);
    report.program = "example";
    report.device = (struct report_device){.name = "weft0"};
    for (uint32_t qp_num = 104; qp_num >= 99; qp_num--) {
        struct report_endpoint *e = report_add_endpoint(&report);
        *e = (struct report_endpoint){.state = "open",
                                      .has_qp = qp_num != 103,
                                      .qp_num = qp_num == 102 ? 0 : qp_num,
                                      .peer = ipv4(0x0a000000 + qp_num, 2000)};
    }
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct report_qp *qp = report_add_qp(&report);
        *qp = qp_of(rows[i].qp_num, &(struct qp_counters){0});
        qp->is_reading = rows[i].is_reading;
        qp->attributes.request_len = 10 + i;
        qp->attributes.answer_len = 20 + i;
        qp->attributes.reads_outstanding = 30 + i;
        if (rows[i].peer != 0) {
            qp->peer = ipv4(rows[i].peer, 1);
        }
    }
    golden_compare("report/golden/reads_of_connections.txt", written(report_write_reads));
}

static void connection_through_memory_says_so(void **state)
{
    for (unsigned is_of_host = 0; is_of_host < 2; is_of_host++) {
        report_begin(&report);
        report.program = "example";
        report.device = (struct report_device){.name = "weft0"};
        struct report_endpoint *e = report_add_endpoint(&report);
        *e = (struct report_endpoint){.state = "open", .is_of_host = is_of_host};
        const char *text = written(report_write);
        assert_int_equal(strstr(text, "\"path\":\"memory\"") != NULL, is_of_host);
    }
}

// The first bucket and a single one count as the others do.
static void one_short_latency_is_written(void **state)
{
    report_begin(&report);
    report.program = "example";
    report.latency = (struct latency){0};
    histogram_add(&report.latency.of[LATENCY_READ], 0);
    assert_non_null(strstr(written(report_write),
                           "\"latency\":{\n\"sampled_one_in\":16,\n\"read\":{\n\"count\":1,\n"));
    assert_non_null(strstr(written(report_write), "\"buckets\":[[0,\n1]]}},"));
}

static void fill_with(uint32_t endpoint_count, uint32_t pair_count)
{
    report_begin(&report);
    for (uint32_t i = 0; i < endpoint_count; i++) {
        assert_int_equal(report_add_endpoint(&report) != NULL, i < report.endpoint_max);
    }
    for (uint32_t i = 0; i < pair_count; i++) {
        report_add_pair(&report, "name", i);
    }
}

static void report_that_is_not_whole_has_room_the_next_time(void **state)
{
    const uint32_t endpoint_count = report.endpoint_max + 5, pair_count = report.pair_max + 1000;
    fill_with(endpoint_count, pair_count);
    assert_false(report_is_whole(&report));
    assert_int_equal(report_make_room(&report), 0);
    fill_with(endpoint_count, pair_count);
    assert_true(report_is_whole(&report));
    assert_int_equal(report.pairs[pair_count - 1].value, pair_count - 1);
}

static void each_list_alone_makes_a_report_less_than_whole(void **state)
{
    fill_with(report.endpoint_max + 1, 0);
    assert_false(report_is_whole(&report));
    fill_with(0, report.pair_max + 1);
    assert_false(report_is_whole(&report));
    fill_with(report.endpoint_max, report.pair_max);
    assert_true(report_is_whole(&report));
    report.word_count = report.word_max;
    assert_true(report_is_whole(&report));
    report.word_count++;
    assert_false(report_is_whole(&report));
    report.word_count = 0;
    while (report_add_qp(&report) != NULL) {
    }
    assert_false(report_is_whole(&report));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(report_is_written_as_it_is_written_down),
        CASE(every_number_has_its_own_name),
        CASE(what_was_agreed_on_one_shot_is_named),
        CASE(device_over_packets_says_nothing_of_streams),
        CASE(reads_are_written_alone),
        CASE(reads_of_each_connection_name_its_peer),
        CASE(connection_through_memory_says_so),
        CASE(one_short_latency_is_written),
        CASE(report_that_is_not_whole_has_room_the_next_time),
        CASE(each_list_alone_makes_a_report_less_than_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
