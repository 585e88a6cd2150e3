// What `weft status` is told, beside agents of the test's whose counters are numbered in the order
// in which their structs have them: each number stands under the name that is documented.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/histogram.h"
#include "base/time.h"
#include "node/host/agent.h"
#include "node/host/privileges.h"
#include "node/host/status.h"

enum { TEXT_MAX = 4096, DISK = 7, TAPE = 9, CRATE = 11, UNIT_OF_DISK = 2, MIB = 1 << 20 };

static struct host *host;
static struct json_object *told;

/* ---- agents ---------------------------------------------------------------------------------- */

static struct resource rows[4]; // one of them behind the end of the table
static struct resource_table table = {.generation = 41, .rows = rows};
static struct cta_volume_counters *of_disk, *of_crate;
static struct client client = {.address = "192.0.2.7:9", .identity = "nqn.\xc3\xa9\n"};
static size_t crowd;
static const char *why_not_announced;

static void number(void *counters, size_t size, uint64_t first)
{
    uint64_t *numbers = counters;
    for (size_t i = 0; i < size / sizeof *numbers; i++) {
        numbers[i] = first + i;
    }
}

const struct resource_table *uma_resources(const struct uma *uma)
{
    return &table;
}

uint32_t uma_connection_count(const struct uma *uma)
{
    return 43;
}

const char *uma_volume_why(const struct uma *uma, uint32_t volume)
{
    return volume == TAPE ? "no such tape" : "";
}

struct volume_rate uma_volume_rate(const struct uma *uma, uint32_t volume)
{
    return (struct volume_rate){.iops = 1000 + volume, .bps = 2000 + volume};
}

uint32_t uma_volume_unit(const struct uma *uma, uint32_t volume)
{
    return volume == DISK ? UNIT_OF_DISK : NODE_UNIT_COUNT_MAX;
}

bool uma_unit_status(const struct uma *uma, uint32_t unit, struct uma_unit_status *ret)
{
    assert_true(unit < NODE_UNIT_COUNT_MAX);
    *ret = (struct uma_unit_status){.name = unit == UNIT_OF_DISK ? "swift" : "last",
                                    .state = "ready",
                                    .since_ns = 3 * NS_PER_S,
                                    .restarts = 51,
                                    .failures = 52,
                                    .why = "it was killed"};
    number(&ret->counters, sizeof ret->counters, 60);
    return unit == UNIT_OF_DISK || unit == NODE_UNIT_COUNT_MAX - 1;
}

instant_ns loop_now(const struct loop *loop)
{
    return 5 * NS_PER_S;
}

uint64_t cta_pool_taken_len(const struct cta *cta)
{
    return 44;
}

bool cta_unit_counters(const struct cta *cta, uint32_t unit, struct cta_unit_counters *ret)
{
    if (unit == UNIT_OF_DISK) {
        number(ret, sizeof *ret, 80);
    }
    return unit == UNIT_OF_DISK;
}

const struct cta_volume_counters *cta_volume_counters(const struct cta *cta, size_t index)
{
    assert_true(index < NODE_VOLUME_COUNT_MAX);
    return index == NODE_VOLUME_COUNT_MAX - 1 ? of_disk : index == 0 ? of_crate : NULL;
}

bool cta_connection_counters(const struct cta *cta, size_t index,
                             struct cta_connection_counters *ret)
{
    assert_true(index < NODE_CONNECTION_COUNT_MAX);
    *ret = (struct cta_connection_counters){&client, (uint32_t)index, DISK, 1, 2, 3, 4, 5};
    return index >= NODE_CONNECTION_COUNT_MAX - crowd;
}

bool host_uri(struct host *it, unsigned tts, const struct resource *row, unsigned index,
              char ret[HOST_URI_MAX])
{
    static const unsigned counts[] = {1, 2, 0, 1};
    snprintf(ret, HOST_URI_MAX, "%u:%u/%s", tts, index, row->name);
    return index < counts[tts];
}

const struct volume_wish *host_wish_find(const struct host_config *config, const char *name)
{
    static const struct volume_wish wishes[] = {{.source = 1}, {.source = 3}};
    assert_ptr_equal(config, &host->wanted);
    return strcmp(name, "disk") == 0 ? &wishes[0] : strcmp(name, "tape") == 0 ? &wishes[1] : NULL;
}

const char *sources_uri(const struct sources *sources, unsigned number)
{
    return number == 1 ? "glob:/srv/*" : number == 2 ? "iscsi://h/*" : NULL;
}

unsigned sources_at(const struct sources *sources, size_t index, struct source_status *ret)
{
    *ret = (struct source_status){"read", "slow", 21, 22, 23, 24, 25, 26};
    return index == 0 ? 1 : index == 1 ? 2 : 0;
}

bool announcer_is_announced(const struct announcer *announcer, const char **ret_text)
{
    *ret_text = why_not_announced != NULL ? why_not_announced : "weft on h";
    return why_not_announced == NULL;
}

void nvme_subsystem_nqn(const struct resource *volume, char ret[NVME_NQN_MAX])
{
    snprintf(ret, NVME_NQN_MAX, "nqn.%s", volume->name);
}

void iscsi_name(const struct resource *row, char ret[ISCSI_NAME_MAX])
{
    snprintf(ret, ISCSI_NAME_MAX, "iqn.%s", row->name);
}

uint32_t iscsi_lun(const struct resource *row)
{
    return 300 + row->volume;
}

uint64_t pool_part_memory(const struct pool *pool, uint32_t unit)
{
    return 700 + unit;
}

struct privileges privileges_of(pid_t pid)
{
    return (struct privileges){.has_no_new_privs = pid == 123,
                               .capabilities = pid == 123 ? 0xa : 0xb,
                               .filters = pid == 123 || pid == getpid() ? 2 : 0};
}

const char *privileges_word(const struct privileges *p)
{
    return p->has_no_new_privs ? "confined" : "open";
}

const char *uma_tts_name(const struct uma *uma, size_t index)
{
    static const char *const names[] = {"plain", "over-a-new-wire"};
    return index < 2 ? names[index] : NULL;
}

void uma_tts_figures(const struct uma *uma, size_t index, tts_figure *figure, void *figure_ctx)
{
    figure(figure_ctx, "sessions", TTS_GAUGE, 90 + index);
    if (index == 1) {
        figure(figure_ctx, "octets_sent", TTS_COUNTER, UINT64_C(1) << 40);
    }
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void volume_add(uint32_t volume, const char *name, enum resource_state state,
                       const char *driver)
{
    struct resource *row = &rows[table.count++];
    *row = (struct resource){.volume = volume, .state = state};
    row->profile = (struct volume_profile){.size = MIB * (uint64_t)volume, .block_size = 4096};
    row->places[VOLUME_IN_SUBSYSTEM].member = 200 + volume;
    row->identity.uuid[0] = (uint8_t)(0xa0 + volume);
    snprintf(row->name, sizeof row->name, "%s", name);
    snprintf(row->profile.driver, sizeof row->profile.driver, "%s", driver);
}

static int set_up(void **state)
{
    host = calloc(1, sizeof *host);
    of_disk = calloc(1, sizeof *of_disk);
    of_crate = calloc(1, sizeof *of_crate);
    assert_true(host != NULL && of_disk != NULL && of_crate != NULL);
    table.count = 0;
    volume_add(DISK, "disk", RESOURCE_READY, "file");
    volume_add(TAPE, "tape", RESOURCE_FAILED, "");
    volume_add(CRATE, "crate", RESOURCE_STANDBY, "file");
    volume_add(13, "beyond", RESOURCE_READY, "beyond");
    table.count--;
    rows[0].abilities = VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH;
    rows[1].abilities = VOLUME_ABILITY_ALL & ~VOLUME_CAN_WRITE;
    number(of_disk->octets, sizeof of_disk->octets, 400);
    number(of_disk->completions, sizeof of_disk->completions, 500);
    of_disk->volume = DISK;
    of_disk->connections = 31;
    of_disk->waits = 32;
    of_disk->throttled = 33;
    of_disk->window_reads = 34;
    of_crate->volume = CRATE;
    histogram_add(&of_disk->latency[NODE_WRITE], 5);
    histogram_add(&of_disk->latency[NODE_WRITE], 15);
    histogram_add(&of_crate->latency[NODE_READ], 0);
    histogram_add(&of_crate->latency[NODE_WRITE], 7);
    histogram_add(&of_crate->latency[NODE_FLUSH], 1);
    host->tts_count = 3;
    host->pool.len = 42;
    host->units[UNIT_OF_DISK].pid = 123;
    crowd = 0;
    why_not_announced = NULL;
    return 0;
}

static int tear_down(void **state)
{
    json_object_put(told);
    told = NULL;
    free(of_crate);
    free(of_disk);
    free(host);
    return 0;
}

// What stands under a name now.
static struct json_object *under(const char *key)
{
    struct json_object *found = NULL;
    json_object_put(told);
    told = status_object(host);
    assert_non_null(told);
    json_object_object_get_ex(told, key, &found);
    return found;
}

// `text` has ' in place of ".
static void expect(struct json_object *object, const char *text)
{
    char quoted[TEXT_MAX];
    assert_true(strlen(text) < sizeof quoted);
    snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; (c = strchr(c, '\'')) != NULL;) {
        *c = '"';
    }
    struct json_object *wanted = json_tokener_parse(quoted);
    assert_non_null(wanted);
    if (!json_object_equal(object, wanted)) {
        print_error("%s\nin place of\n%s\n", json_object_to_json_string(object), quoted);
        fail();
    }
    json_object_put(wanted);
}

/* ---- volumes --------------------------------------------------------------------------------- */

static void a_volume_has_what_its_agents_know_of_it(void **state)
{
    expect(json_object_array_get_idx(under("volumes"), 0),
           "{'name': 'disk', 'state': 'ready', 'why': '', 'source': 'glob:/srv/*', 'rta': 'swift',"
           " 'driver': 'file', 'uuid': 'a7000000-0000-0000-0000-000000000000',"
           " 'uri': '0:0/disk', 'uris': ['0:0/disk', '1:0/disk', '1:1/disk'],"
           " 'nqn': 'nqn.disk', 'nsid': 207, 'target': 'iqn.disk', 'lun': 307,"
           " 'size': 7340032, 'block_size': 4096, 'read_only': false, 'iops': 1007, 'bps': 2007,"
           " 'connections': 31, 'waits': 32, 'throttled': 33, 'window_reads': 34,"
           " 'operations': {'read': 0, 'write': 2, 'flush': 0, 'trim': 0, 'write zeroes': 0,"
           " 'extents': 0, 'profile': 0, 'compare': 0, 'compare and write': 0,"
           " 'or write': 0},"
           " 'octets': {'read': 400, 'write': 401, 'flush': 402, 'trim': 403,"
           " 'write zeroes': 404, 'extents': 405, 'profile': 406, 'compare': 407,"
           " 'compare and write': 408, 'or write': 409},"
           " 'completions': {'ok': 500, 'retry': 501, 'malformed': 502, 'range': 503,"
           " 'unsupported': 504, 'read only': 505, 'no space': 506, 'media': 507,"
           " 'transfer': 508, 'timed out': 509, 'no volume': 510, 'internal': 511,"
           " 'reserved': 512, 'miscompare': 513, 'standby': 514},"
           " 'latency': {'write': {'count': 2, 'sum_ns': 20, 'p50_ns': 5, 'p90_ns': 15,"
           " 'p99_ns': 15, 'p999_ns': 15, 'max_ns': 15, 'buckets': [[5, 1], [15, 1]]}}}");
}

static void a_volume_that_nobody_has_opened_has_no_counters(void **state)
{
    expect(json_object_array_get_idx(under("volumes"), 1),
           "{'name': 'tape', 'state': 'failed', 'why': 'no such tape', 'source': '', 'rta': '',"
           " 'driver': '', 'uuid': 'a9000000-0000-0000-0000-000000000000',"
           " 'uri': '0:0/tape', 'uris': ['0:0/tape', '1:0/tape', '1:1/tape'],"
           " 'nqn': 'nqn.tape', 'nsid': 209, 'target': 'iqn.tape', 'lun': 309,"
           " 'size': 9437184, 'block_size': 4096, 'read_only': true, 'iops': 1009, 'bps': 2009,"
           " 'connections': 0}");
}

static void a_volumes_state_has_a_name(void **state)
{
    static const char *const names[] = {[RESOURCE_NOT_READY] = "not ready",
                                        [RESOURCE_READY] = "ready",
                                        [RESOURCE_FAILED] = "failed",
                                        [RESOURCE_STANDBY] = "standby"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        rows[2].state = i;
        struct json_object *volume = json_object_array_get_idx(under("volumes"), 2);
        assert_string_equal(json_object_get_string(json_object_object_get(volume, "state")),
                            names[i]);
        assert_string_equal(json_object_get_string(json_object_object_get(volume, "source")), "");
    }
}

static void volumes_of_one_driver_are_added_up(void **state)
{
    expect(under("latency_by_driver"),
           "{'file': {'read': {'count': 1, 'sum_ns': 0, 'p50_ns': 0, 'p90_ns': 0, 'p99_ns': 0,"
           " 'p999_ns': 0, 'max_ns': 0, 'buckets': [[0, 1]]},"
           " 'write': {'count': 3, 'sum_ns': 27, 'p50_ns': 7, 'p90_ns': 15,"
           " 'p99_ns': 15, 'p999_ns': 15, 'max_ns': 15, 'buckets': [[5, 1], [7, 1], [15, 1]]},"
           " 'flush': {'count': 1, 'sum_ns': 1, 'p50_ns': 1, 'p90_ns': 1, 'p99_ns': 1,"
           " 'p999_ns': 1, 'max_ns': 1, 'buckets': [[1, 1]]}}}");
}

static void volumes_of_two_drivers_are_not(void **state)
{
    snprintf(rows[2].profile.driver, sizeof rows[2].profile.driver, "null");
    under("latency_by_driver");
    struct json_object *drivers = json_object_object_get(told, "latency_by_driver");
    expect(json_object_object_get(json_object_object_get(drivers, "null"), "write"),
           "{'count': 1, 'sum_ns': 7, 'p50_ns': 7, 'p90_ns': 7, 'p99_ns': 7, 'p999_ns': 7,"
           " 'max_ns': 7, 'buckets': [[7, 1]]}");
    struct json_object *file = json_object_object_get(drivers, "file");
    assert_non_null(json_object_object_get(file, "write"));
    assert_null(json_object_object_get(file, "flush"));
}

/* ---- the others ------------------------------------------------------------------------------ */

static void the_node_has_numbers_of_its_own(void **state)
{
    static const struct {
        const char *key;
        uint64_t number;
    } rows_of[] = {{"generation", 41}, {"pool", 42}, {"connections", 43}, {"pool_taken", 44}};
    for (unsigned i = 0; i < sizeof rows_of / sizeof rows_of[0]; i++) {
        assert_int_equal(json_object_get_uint64(under(rows_of[i].key)), rows_of[i].number);
    }
    assert_int_equal(json_object_get_uint64(under("pid")), getpid());
}

static void an_rta_has_its_own_counters_and_those_of_who_speaks_with_it(void **state)
{
    expect(under("rtas"),
           "[{'name': 'swift', 'state': 'ready', 'pid': 123, 'since_ms': 2000, 'restarts': 51,"
           " 'failures': 52, 'why': 'it was killed', 'confinement': {'kind': 'confined',"
           " 'no_new_privileges': true, 'capabilities': '000000000000000a', 'filters': 2,"
           " 'landlock': 70}, 'requests': 80, 'results': 81, 'replays': 82,"
           " 'retransmissions': 146, 'duplicates': 148, 'violations': 85, 'in_flight': 86,"
           " 'waiting': 87, 'lent': 88, 'memory': 702, 'refusals': 65, 'resubmissions': 66,"
           " 'buffers_held': 67, 'octets_held': 68, 'turns': 69},"
           "{'name': 'last', 'state': 'ready', 'pid': 0, 'since_ms': 2000, 'restarts': 51,"
           " 'failures': 52, 'why': 'it was killed', 'confinement': {'kind': 'open',"
           " 'no_new_privileges': false, 'capabilities': '000000000000000b', 'filters': 2,"
           " 'landlock': 70}, 'requests': 0, 'results': 0, 'replays': 0,"
           " 'retransmissions': 63, 'duplicates': 64, 'violations': 0, 'in_flight': 0,"
           " 'waiting': 0, 'lent': 0, 'memory': 1723, 'refusals': 65, 'resubmissions': 66,"
           " 'buffers_held': 67, 'octets_held': 68, 'turns': 69}]");
}

static void a_client_is_shown_in_ascii(void **state)
{
    crowd = 1;
    struct json_object *clients = under("clients");
    assert_int_equal(json_object_array_length(clients), 1);
    struct json_object *first = json_object_array_get_idx(clients, 0);
    assert_int_equal(json_object_get_uint64(json_object_object_get(first, "connection")),
                     NODE_CONNECTION_COUNT_MAX - 1);
    json_object_object_del(first, "connection");
    expect(first, "{'address': '192.0.2.7:9', 'identity': 'nqn.??\?', 'volume': 'disk',"
                  " 'requests': 1, 'failed': 2, 'octets_in': 3, 'octets_out': 4, 'in_flight': 5}");
    rows[0].volume = 8;
    first = json_object_array_get_idx(under("clients"), 0);
    assert_string_equal(json_object_get_string(json_object_object_get(first, "volume")), "");
}

static void of_a_crowd_the_first_1024_are_shown(void **state)
{
    crowd = 1023;
    assert_int_equal(json_object_array_length(under("clients")), 1023);
    crowd = 1030;
    assert_int_equal(json_object_array_length(under("clients")), 1024);
}

static void a_source_is_shown_with_what_it_has(void **state)
{
    expect(under("sources"), "[{'uri': 'glob:/srv/*', 'state': 'read', 'why': 'slow',"
                             " 'volumes': 21, 'left_out': 22, 'unasked': 23, 'own': 24,"
                             " 'readings': 25, 'failures': 26},"
                             "{'uri': 'iscsi://h/*', 'state': 'read', 'why': 'slow',"
                             " 'volumes': 21, 'left_out': 22, 'unasked': 23, 'own': 24,"
                             " 'readings': 25, 'failures': 26}]");
}

static void mdns_has_a_name_or_a_reason(void **state)
{
    assert_null(under("mdns"));
    host->announcer = (struct announcer *)host;
    expect(under("mdns"), "{'announced': true, 'name': 'weft on h'}");
    why_not_announced = "no daemon";
    expect(under("mdns"), "{'announced': false, 'why': 'no daemon'}");
}

static void the_latest_event_comes_first(void **state)
{
    expect(under("events"), "[]");
    host_event_add(&host->events, 1, "one");
    host_event_add(&host->events, 951782400, "two");
    expect(under("events"), "[{'time': '2000-02-29T00:00:00Z', 'text': 'two'},"
                            " {'time': '1970-01-01T00:00:01Z', 'text': 'one'}]");
}

static void a_service_has_figures_under_its_name(void **state)
{
    expect(under("plain"), "{'sessions': 90}");
    expect(under("over_a_new_wire"), "{'sessions': 91, 'octets_sent': 1099511627776}");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_volume_has_what_its_agents_know_of_it),
        TEST(a_volume_that_nobody_has_opened_has_no_counters),
        TEST(a_volumes_state_has_a_name),
        TEST(volumes_of_one_driver_are_added_up),
        TEST(volumes_of_two_drivers_are_not),
        TEST(the_node_has_numbers_of_its_own),
        TEST(an_rta_has_its_own_counters_and_those_of_who_speaks_with_it),
        TEST(a_client_is_shown_in_ascii),
        TEST(of_a_crowd_the_first_1024_are_shown),
        TEST(a_source_is_shown_with_what_it_has),
        TEST(mdns_has_a_name_or_a_reason),
        TEST(the_latest_event_comes_first),
        TEST(a_service_has_figures_under_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
