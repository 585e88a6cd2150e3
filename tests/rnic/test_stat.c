// What `weft stat` shows of a device, member by member, and the lines that say why a connection
// ended badly.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/trace.h"
#include "rnic/reads.h"
#include "rnic/stat.h"
#include "tests/rnic/device.h"
#include "tests/rnic/json.h"

/* ---- the lines ------------------------------------------------------------------------------- */

enum { LINES_LEN = 4096 };

static char lines[LINES_LEN];
static pthread_mutex_t lines_lock = PTHREAD_MUTEX_INITIALIZER;

static void keep_line(struct trace *trace, enum trace_room room, const char *line)
{
    pthread_mutex_lock(&lines_lock);
    size_t len = strlen(lines);
    snprintf(lines + len, sizeof lines - len, "%s%s\n", room == TRACE_ERROR ? "" : "?", line);
    pthread_mutex_unlock(&lines_lock);
}

static struct trace errors = {.rooms = 1U << TRACE_ERROR, .emit = keep_line};

/* ---- two ends -------------------------------------------------------------------------------- */

static struct device device;
static struct sockaddr_in addr;
static struct end listener, active, passive;

static int setup(void **state)
{
    const struct rnic_config config = device_config();
    device_open_traced(&device, &config, 0, &errors);
    end_listen(&listener, &device, &addr);
    end_init(&active, &device);
    end_init(&passive, &device);
    lines[0] = '\0';
    return 0;
}

static int teardown(void **state)
{
    end_fini(&active);
    end_fini(&passive);
    end_fini(&listener);
    device_close(&device);
    return 0;
}

static char text[1 << 16];

static void look_with(void (*write)(struct rnic *, FILE *))
{
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    write(device.rnic, out);
    fclose(out);
}

static void look(void)
{
    look_with(stat_write);
}

static void expect(const char *part)
{
    if (strstr(text, part) == NULL) {
        fail_msg("no %s in %s", part, text);
    }
}

// The object of this name has a number for each of these counters.
static void expect_number(const char *object, const char *name)
{
    char key[128];
    snprintf(key, sizeof key, "\"%s\":{", object);
    const char *from = strstr(text, key);
    assert_non_null(from);
    const char *end = strchr(from, '}');
    snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(from, key);
    if (at == NULL || end == NULL || at > end || strspn(at + strlen(key), "0123456789") == 0) {
        fail_msg("no number %s in %s of %s", name, object, text);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void expect_json(void)
{
    json_expect(text);
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void every_state_of_a_device_is_json(void **state)
{
    look();
    expect_json();
    expect("\"connections\":[{\"state\":\"listening\",\"local\":\"127.0.0.1:");
    ends_connect(&active, &passive, &listener, &addr);
    look();
    expect_json();
    look_with(stat_write_reads);
    expect_json();
    end_fini(&active);
    end_fini(&passive);
    end_init(&active, &device);
    end_init(&passive, &device);
    look();
    expect_json();
}

static void process_and_objects_are_told(void **state)
{
    char part[64];
    look();
    snprintf(part, sizeof part, "{\"pid\":%d,\"program\":\"%s\"", (int)getpid(),
             program_invocation_short_name);
    expect(part);
    expect("\"weft0\":{\"qps\":2,\"cqs\":1,\"srqs\":0,\"pds\":1,\"regions\":1,\"windows\":0,"
           "\"oneshots\":0,");
    look_with(stat_write_reads);
    expect(part);
    expect("\"allotment\":262144,\"allotment_base\":262144,\"connections\":0,\"in_force_min\":0,"
           "\"in_force_max\":0,\"memory_short\":0,\"contexts\":128,\"contexts_in_use\":0,"
           "\"waiting\":0,");
    assert_null(strstr(text, "\"weft0\":{"));
    rnic_reads_set_memory(device.rnic, RNIC_MEMORY_TOLD, true);
    look_with(stat_write_reads);
    expect("\"memory_short\":1");
    expect("\"allotment_changes\":{\"memory\":1}");
}

static void every_counter_is_told(void **state)
{
    ends_connect(&active, &passive, &listener, &addr);
    look();
#define X(name, what)               \
    expect_number("mpa_in", #name); \
    expect_number("mpa_in_total", #name);
    MPA_RX_COUNTERS(X)
#undef X
#define X(name, what)                \
    expect_number("mpa_out", #name); \
    expect_number("mpa_out_total", #name);
    MPA_TX_COUNTERS(X)
#undef X
#define X(name, what) expect_number("mpa_early_total", #name);
    MPA_PLACER_COUNTERS(X)
#undef X
#define X(name, what) expect_number("startup", #name);
    CONN_COUNTERS(X)
#undef X
#define X(name, what) expect_number("admissions", #name);
    CONN_LISTENER_COUNTERS(X)
#undef X
#define X(name, what) expect_number("reads", #name);
    READ_SCHED_COUNTERS(X)
#undef X
    expect("\"closes\":{\"by_peer\":0,\"by_reset\":0,\"by_timeout\":0,\"here\":0}");
    expect("\"memory_refusals\":{}");
}

static void connection_and_its_queue_pair_are_told(void **state)
{
    char part[160];
    ends_connect(&active, &passive, &listener, &addr);
    end_post_recv(&passive, 1, 0, 64);
    end_post_recv(&passive, 2, 0, 64);
    end_post_send(&active, WQE_SEND, 1024, 8, NULL, 0);
    device_poll(&device);
    device_poll(&device);
    look();
    snprintf(part, sizeof part, "\"role\":\"initiator\",\"startup\":\"established\",\"qp_num\":%u,",
             active.qp->qp_num);
    expect(part);
    expect("\"state\":\"open\"");
    expect("\"role\":\"responder\"");
    snprintf(part, sizeof part, "\"peer\":\"127.0.0.1:%u\"", ntohs(addr.sin_port));
    expect(part);
    snprintf(part, sizeof part, "{\"qp_num\":%u,\"state\":\"RTS\",\"stream\":\"",
             passive.qp->qp_num);
    expect(part);
    expect("\"ird\":2,\"ord\":2,");
    expect("\"oneshot\":\"none\"");
    expect("\"sq_count\":0,\"rq_count\":1,\"reads_outstanding\":0,\"reads_due\":0,\"counters\":{");
}

// Some of many, and only of the end that posted them.
static void work_requests_are_measured_by_operation(void **state)
{
    enum { POST_COUNT = 400, SAMPLE_COUNT_MIN = POST_COUNT / 31 };
    ends_connect(&active, &passive, &listener, &addr);
    for (unsigned i = 0; i < POST_COUNT; i++) {
        end_post_send(&active, WQE_RDMA_WRITE, 0, 8, &device, 4096);
        device_poll(&device);
        end_post_send(&active, WQE_RDMA_READ, 0, 8, &device, 4096);
        device_poll(&device);
    }
    look();
    expect_json();
    expect("\"latency\":{\"sampled_one_in\":16,\"write\":{\"count\":");
    expect("\"read\":{\"count\":");
    static const char *const names[] = {"count",  "sum_ns",  "p50_ns", "p90_ns",
                                        "p99_ns", "p999_ns", "max_ns"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        expect_number("write", names[i]);
        expect_number("read", names[i]);
    }
    assert_null(strstr(text, "\"send\":{"));
    const struct latency *latency = &device.rnic->latency;
    assert_in_range(latency->of[LATENCY_WRITE].count, SAMPLE_COUNT_MIN, POST_COUNT);
    assert_in_range(latency->of[LATENCY_READ].count, SAMPLE_COUNT_MIN, POST_COUNT);
    // A Read goes there and back.
    assert_true(histogram_percentile(&latency->of[LATENCY_READ], 500) > 0);
    assert_true(latency->of[LATENCY_READ].max < DEVICE_PATIENCE_NS);
}

static void what_was_closed_is_counted_by_reason(void **state)
{
    ends_connect(&active, &passive, &listener, &addr);
    assert_int_equal(rnic_ep_disconnect(active.ep), 0);
    end_take(&active, RNIC_EP_DISCONNECTED);
    end_take(&passive, RNIC_EP_DISCONNECTED);
    look();
    expect("\"by_reset\":0,\"by_timeout\":0");
    assert_int_equal(device_count(&device, "by_peer") + device_count(&device, "here"), 2);
    assert_true(device_count(&device, "by_peer") >= 1);
    assert_string_equal(lines, ""); // an orderly end is no news
}

// Counters of a device only grow: what went away with its work is in the sums.
static void what_a_queue_pair_did_is_counted_when_it_is_gone(void **state)
{
    static const char *const names[] = {"send_completions", "recv_completions"};
    uint64_t before[2];
    ends_connect(&active, &passive, &listener, &addr);
    end_post_recv(&passive, 1, 0, 64);
    end_post_send(&active, WQE_SEND, 1024, 8, NULL, 0);
    device_poll(&device);
    device_poll(&device);
    assert_int_equal(rnic_ep_disconnect(active.ep), 0);
    end_take(&active, RNIC_EP_DISCONNECTED);
    end_take(&passive, RNIC_EP_DISCONNECTED);
    for (unsigned i = 0; i < 2; i++) {
        before[i] = device_count(&device, names[i]);
        assert_true(before[i] > 0);
    }
    end_fini(&active);
    end_fini(&passive);
    end_init(&active, &device);
    end_init(&passive, &device);
    for (unsigned i = 0; i < 2; i++) {
        if (device_count(&device, names[i]) != before[i]) {
            fail_msg("%s: %llu, before %llu", names[i],
                     (unsigned long long)device_count(&device, names[i]),
                     (unsigned long long)before[i]);
        }
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static void counters_go_to_a_file_of_the_process(void **state)
{
    char dir[] = "/tmp/weft-test-XXXXXX", path[64], expected[64];
    struct stat st;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a%%pb", dir);
    snprintf(expected, sizeof expected, "%s/a%db", dir, (int)getpid());
    stat_write_file(&device.rnic, 1, path);
    assert_int_equal(stat(expected, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_true(st.st_size > 100);
    FILE *file = fopen(expected, "a");
    fputs("more", file);
    fclose(file);
    stat_write_file(&device.rnic, 1, expected); // what was in it is gone
    file = fopen(expected, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    expect_json();
    unlink(expected);
    rmdir(dir);
    stat_write_file(&device.rnic, 1, expected); // no such folder: said on stderr, and that is all
}

/* ---- bad ends -------------------------------------------------------------------------------- */

static void expect_line(const char *part)
{
    for (unsigned i = 0; i < 5000; i++) {
        pthread_mutex_lock(&lines_lock);
        bool is_there = strstr(lines, part) != NULL;
        pthread_mutex_unlock(&lines_lock);
        if (is_there) {
            return;
        }
        pause_ms(1);
    }
    fail_msg("no \"%s\" in: %s", part, lines);
}

static void write_out_of_bounds_is_named_at_both_ends(void **state)
{
    char part[200];
    struct sockaddr_storage own;
    ends_connect(&active, &passive, &listener, &addr);
    assert_int_equal(rnic_ep_local_addr(active.ep, &own), 0);
    end_post_send(&active, WQE_RDMA_WRITE, 0, 64, &device, DEVICE_BUF_LEN);
    snprintf(part, sizeof part,
             "QP %u, peer 127.0.0.1:%u: our Terminate ended the connection: ", passive.qp->qp_num,
             ntohs(((struct sockaddr_in *)&own)->sin_port));
    expect_line(part);
    snprintf(part, sizeof part,
             "QP %u, peer 127.0.0.1:%u: the peer's Terminate ended the connection: ",
             active.qp->qp_num, ntohs(addr.sin_port));
    expect_line(part);
    snprintf(part, sizeof part, "; message: RDMA Write to STag 0x%08x, offset 0x%llx\n",
             device.stag, (unsigned long long)((uintptr_t)device.buf + DEVICE_BUF_LEN));
    expect_line(part);
    look();
    expect("\"memory_refusals\":{\"");
    expect("\"refused\":\"");
    expect("\"refused_by_peer\":\"");
}

static void send_that_is_too_long_is_named(void **state)
{
    ends_connect(&active, &passive, &listener, &addr);
    end_post_recv(&passive, 1, 0, 8);
    end_post_send(&active, WQE_SEND, 1024, 64, NULL, 0);
    expect_line("our Terminate ended the connection: ");
    expect_line("the peer's Terminate ended the connection: ");
    expect_line("; message: Send, queue 0, MSN 1\n");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_state_of_a_device_is_json),
        CASE(process_and_objects_are_told),
        CASE(every_counter_is_told),
        CASE(connection_and_its_queue_pair_are_told),
        CASE(work_requests_are_measured_by_operation),
        CASE(what_was_closed_is_counted_by_reason),
        CASE(what_a_queue_pair_did_is_counted_when_it_is_gone),
        CASE(counters_go_to_a_file_of_the_process),
        CASE(write_out_of_bounds_is_named_at_both_ends),
        CASE(send_that_is_too_long_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
