// A report is made in as much room as it needs, and written as JSON.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>

#include "report/report.h"
#include "tests/golden.h"

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

static void fill(void)
{
    report_begin(&report);
    report.pid = 42;
    report.program = "exa\"mple\n";
    report.device.qp_count = 2;
    report.device.startup.refusals[CONN_FAILURE_BAD_KEY] = 3;
    report.device.meetings.kept = 4;
    report.device.packets = two_pairs("received", "sent");
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
    struct report_qp *qp = report_add_qp(&report);
    *qp = (struct report_qp){.qp_num = 100, .attributes = {.state = QP_RTS, .ird = 4, .ord = 5}};
    qp->counters.wq.send_completions = 9;
    *report_add_qp(&report) = (struct report_qp){.qp_num = 101};
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

static void reads_are_written_alone(void **state)
{
    report.pid = 42;
    report.program = "example";
    report.device.reads = (struct report_reads){.allotment_len = 65536, .context_count = 7};
    golden_compare("report/golden/reads.txt", written(report_write_reads));
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
    while (report_add_qp(&report) != NULL) {
    }
    assert_false(report_is_whole(&report));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(report_is_written_as_it_is_written_down),
        CASE(reads_are_written_alone),
        CASE(report_that_is_not_whole_has_room_the_next_time),
        CASE(each_list_alone_makes_a_report_less_than_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
