// What Prometheus is told of a node: each family once, each counter under its own name and labels,
// beside a CTA and a UMA of the test's.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/histogram.h"
#include "node/host/agent.h"
#include "node/host/metrics.h"

enum { DISK = 7, GONE = 9, UNIT = 0 };

static struct host *host;
static char *text;
static size_t text_len;
static struct resource rows[1] = {{.volume = DISK, .name = "disk", .profile.driver = "file"}};
static struct resource_table table = {.count = 1, .rows = rows};
static struct cta_volume_counters *of_disk, *of_gone;

const struct resource_table *uma_resources(const struct uma *uma)
{
    return &table;
}

const char *uma_tts_name(const struct uma *uma, size_t index)
{
    static const char *const names[] = {"nbd", "nvme-tcp"};
    return index < 2 ? names[index] : NULL;
}

void uma_tts_figures(const struct uma *uma, size_t index, tts_figure *figure, void *figure_ctx)
{
    figure(figure_ctx, "refused", TTS_COUNTER, 70 + index);
    if (index == 1) {
        figure(figure_ctx, "sessions", TTS_GAUGE, 72);
    }
}

bool uma_unit_status(const struct uma *uma, uint32_t unit, struct uma_unit_status *ret)
{
    assert_true(unit < NODE_UNIT_COUNT_MAX);
    *ret = (struct uma_unit_status){.name = unit == UNIT ? "swift" : "last",
                                    .state = unit == UNIT ? "ready" : "waiting",
                                    .restarts = 51};
    return unit == UNIT || unit == NODE_UNIT_COUNT_MAX - 1;
}

bool cta_unit_counters(const struct cta *cta, uint32_t unit, struct cta_unit_counters *ret)
{
    if (unit == UNIT) {
        ret->in_flight = 61;
        ret->replays = 62;
        ret->retransmissions = 63;
    }
    return unit == UNIT;
}

const struct cta_volume_counters *cta_volume_counters(const struct cta *cta, size_t index)
{
    assert_true(index < NODE_VOLUME_COUNT_MAX);
    return index == 0 ? of_disk : index == NODE_VOLUME_COUNT_MAX - 1 ? of_gone : NULL;
}

uint64_t cta_pool_taken_len(const struct cta *cta)
{
    return 44;
}

static int set_up(void **state)
{
    host = calloc(1, sizeof *host);
    of_disk = calloc(1, sizeof *of_disk);
    of_gone = calloc(1, sizeof *of_gone);
    assert_true(host != NULL && of_disk != NULL && of_gone != NULL);
    host->pool.len = 42;
    of_disk->volume = DISK;
    of_disk->connections = 31;
    of_disk->throttled = 33;
    of_disk->window_reads = 34;
    of_disk->octets[NODE_READ] = 100;
    of_disk->octets[NODE_OPERATION_COUNT - 1] = 101;
    of_disk->completions[NODE_OK] = 200;
    of_disk->completions[NODE_COMPLETION_COUNT - 1] = 201;
    histogram_add(&of_disk->latency[NODE_READ], 1000);
    histogram_add(&of_disk->latency[NODE_READ], 1000);
    histogram_add(&of_disk->latency[NODE_OPERATION_COUNT - 1], 1000);
    of_gone->volume = GONE;
    histogram_add(&of_gone->latency[NODE_FLUSH], 1000);

    FILE *out = open_memstream(&text, &text_len);
    assert_non_null(out);
    metrics_write(host, out);
    fclose(out);
    return 0;
}

static int tear_down(void **state)
{
    free(text);
    free(of_gone);
    free(of_disk);
    free(host);
    return 0;
}

// How often a line stands there.
static unsigned times(const char *line)
{
    unsigned count = 0;
    size_t len = strlen(line);
    for (const char *at = text; (at = strstr(at, line)) != NULL; at += len) {
        count += (at == text || at[-1] == '\n') && at[len] == '\n';
    }
    return count;
}

static unsigned count_of(const char *beginning)
{
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, beginning)) != NULL; at++) {
        count += at == text || at[-1] == '\n';
    }
    return count;
}

static void each_number_has_its_name(void **state)
{
    static const char *const lines[] = {
        "weft_volume_operations_total{volume=\"disk\",operation=\"read\"} 2",
        "weft_volume_operations_total{volume=\"disk\",operation=\"write\"} 0",
        "weft_volume_operations_total{volume=\"disk\",operation=\"or write\"} 1",
        "weft_volume_operations_total{volume=\"#9\",operation=\"flush\"} 1",
        "weft_volume_octets_total{volume=\"disk\",operation=\"read\"} 100",
        "weft_volume_octets_total{volume=\"disk\",operation=\"or write\"} 101",
        "weft_volume_octets_total{volume=\"#9\",operation=\"read\"} 0",
        "weft_volume_completions_total{volume=\"disk\",completion=\"ok\"} 200",
        "weft_volume_completions_total{volume=\"disk\",completion=\"standby\"} 201",
        "weft_volume_window_reads_total{volume=\"disk\"} 34",
        "weft_volume_throttled_total{volume=\"disk\"} 33",
        "weft_volume_connections{volume=\"disk\"} 31",
        "weft_volume_connections{volume=\"#9\"} 0",
        "weft_rta_up{rta=\"swift\"} 1",
        "weft_rta_up{rta=\"last\"} 0",
        "weft_rta_restarts_total{rta=\"swift\"} 51",
        "weft_rta_in_flight{rta=\"swift\"} 61",
        "weft_rta_in_flight{rta=\"last\"} 0",
        "weft_rta_replays_total{rta=\"swift\"} 62",
        "weft_rta_retransmissions_total{rta=\"swift\"} 63",
        "weft_tts_total{tts=\"nbd\",figure=\"refused\"} 70",
        "weft_tts_total{tts=\"nvme-tcp\",figure=\"refused\"} 71",
        "weft_tts_now{tts=\"nvme-tcp\",figure=\"sessions\"} 72",
        "weft_pool_octets 42",
        "weft_pool_taken_octets 44",
    };
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (times(lines[i]) != 1) {
            fail_msg("%u times: %s\n%s", times(lines[i]), lines[i], text);
        }
    }
}

static void each_family_is_introduced_once(void **state)
{
    static const struct {
        const char *name, *type;
        unsigned count; // of its lines
    } families[] = {
        {"volume_operations_total", "counter", 2 * NODE_OPERATION_COUNT},
        {"volume_octets_total", "counter", 2 * NODE_OPERATION_COUNT},
        {"volume_completions_total", "counter", 2 * NODE_COMPLETION_COUNT},
        {"volume_window_reads_total", "counter", 2},
        {"volume_throttled_total", "counter", 2},
        {"volume_connections", "gauge", 2},
        {"tts_total", "counter", 2},
        {"tts_now", "gauge", 1},
        {"rta_up", "gauge", 2},
        {"rta_restarts_total", "counter", 2},
        {"rta_in_flight", "gauge", 2},
        {"rta_replays_total", "counter", 2},
        {"rta_retransmissions_total", "counter", 2},
    };
    char line[128];
    for (unsigned i = 0; i < sizeof families / sizeof families[0]; i++) {
        snprintf(line, sizeof line, "# TYPE weft_%s %s", families[i].name, families[i].type);
        assert_int_equal(times(line), 1);
        snprintf(line, sizeof line, "# HELP weft_%s ", families[i].name);
        assert_int_equal(count_of(line), 1);
        snprintf(line, sizeof line, "weft_%s{", families[i].name);
        assert_int_equal(count_of(line), families[i].count);
    }
    assert_int_equal(times("# HELP weft_rta_up 1: the RTA serves"), 1);
    assert_int_equal(times("# HELP weft_rta_retransmissions_total frames sent again"), 1);
    assert_int_equal(times("# TYPE weft_pool_octets gauge"), 1);
    assert_int_equal(times("# TYPE weft_pool_taken_octets gauge"), 1);
    assert_int_equal(times("# TYPE weft_volume_latency_seconds histogram"), 1);
}

static void latency_is_told_of_what_there_was(void **state)
{
    assert_int_equal(count_of("weft_volume_latency_seconds_count{"), 3);
    assert_int_equal(times("weft_volume_latency_seconds_count{volume=\"disk\",driver=\"file\","
                           "operation=\"read\"} 2"),
                     1);
    assert_int_equal(times("weft_volume_latency_seconds_count{volume=\"disk\",driver=\"file\","
                           "operation=\"or write\"} 1"),
                     1);
    assert_int_equal(times("weft_volume_latency_seconds_count{volume=\"#9\",driver=\"\","
                           "operation=\"flush\"} 1"),
                     1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_number_has_its_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_family_is_introduced_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(latency_is_told_of_what_there_was, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
