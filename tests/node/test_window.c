// Read windows: what is read without the RTA, and when it is not.

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/uio.h>
#include <unistd.h>

#include "node/host/agent.h"
#include "tests/node/rig.h"

enum { BLOCK = 4096, FD = 7 };

/* ---- in the CTA ------------------------------------------------------------------------------ */

static struct rig *rig_with_window(void)
{
    struct rig *rig = rig_ready();
    memset(rig->volume, 0x5a, sizeof rig->volume);
    cta_for_uma.window_set(rig->cta, RIG_VOLUME, FD, RIG_VOLUME_LEN);
    return rig;
}

static uint64_t window_reads(const struct rig *rig)
{
    return cta_volume_counters(rig->cta, 0)->window_reads;
}

// Was it read by the window? It is answered in any case, with what the device has.
static bool reads_by_window(struct rig *rig, uint64_t offset, uint32_t len)
{
    struct service_request read = rig_request(NODE_READ, offset, len);
    uint64_t before = window_reads(rig);
    unsigned transferred = rig->transferred;
    rig->trace[0] = '\0';
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_int_equal(rig->transferred, transferred + 1);
    assert_memory_equal(read.data, rig->volume + offset, len);
    bool went_by_bus = strstr(rig->trace, "CTA>RTA request") != NULL;
    assert_true(went_by_bus == (window_reads(rig) == before));
    return !went_by_bus;
}

static void what_the_window_shows_needs_no_rta(void **state)
{
    struct rig *rig = rig_with_window();
    assert_true(reads_by_window(rig, 3 * BLOCK, BLOCK));
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->latency[NODE_READ].count, 1);
    assert_true(cta_check(rig->cta));
    rig_destroy(rig);
}

static void a_read_by_window_takes_as_long_as_it_takes(void **state)
{
    struct rig *rig = rig_with_window();
    rig->window_takes_ns = 7 * NS_PER_US;
    assert_true(reads_by_window(rig, 3 * BLOCK, BLOCK));
    const struct histogram *latency = &cta_volume_counters(rig->cta, 0)->latency[NODE_READ];
    assert_int_equal(latency->count, 1);
    assert_int_equal(latency->sum, 7 * NS_PER_US);
    rig_destroy(rig);
}

static void no_window_is_asked_that_has_gone(void **state)
{
    struct rig *rig = rig_with_window();
    cta_for_uma.window_set(rig->cta, RIG_VOLUME, -1, 0);
    assert_false(reads_by_window(rig, 0, BLOCK));
    assert_int_equal(rig->window_asked, 0);
    rig_destroy(rig);
}

static void what_is_being_changed_is_the_rtas(void **state)
{
    static const enum node_operation changes[] = {NODE_WRITE, NODE_TRIM, NODE_WRITE_ZEROES};
    for (unsigned i = 0; i < 3; i++) {
        struct rig *rig = rig_with_window();
        struct service_request change = rig_request(changes[i], 2 * BLOCK, 2 * BLOCK);
        rig->holds = true;
        rig_submit_request(rig, &change);
        rig_run(rig);
        rig->holds = false; // the change is at the device
        assert_false(reads_by_window(rig, 3 * BLOCK, BLOCK));
        assert_true(reads_by_window(rig, 4 * BLOCK, BLOCK));
        assert_true(reads_by_window(rig, BLOCK, BLOCK));
        rig_release(rig, 0);
        rta_on_bus(rig->rta, rig->now);
        rig_run(rig);
        assert_true(reads_by_window(rig, 3 * BLOCK, BLOCK)); // it is over
        rig_destroy(rig);
    }
}

static void a_change_that_has_not_gone_out_counts_as_one(void **state)
{
    struct rig *rig = rig_with_window();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig_submit_request(rig, &write); // no batch has ended yet
    rig_submit_request(rig, &read);
    assert_int_equal(window_reads(rig), 0);
    rig_run(rig);
    assert_int_equal(rig->completed, 1);
    rig_destroy(rig);
}

static void while_the_unit_is_lost_nothing_is_read(void **state)
{
    struct rig *rig = rig_with_window();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig_rta_kill(rig);
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_int_equal(rig->transferred, 0);
    assert_int_equal(rig->window_asked, 0);
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
    assert_int_equal(rig->transferred, 1);
    rig_destroy(rig);
}

static void a_replay_is_a_change_under_way(void **state)
{
    struct rig *rig = rig_with_window();
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    rig->holds = true;
    rig_submit_request(rig, &write);
    rig_run(rig);
    rig_rta_kill(rig);
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig_run(rig);
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig_submit_request(rig, &read);
    rig_run(rig);
    assert_int_equal(rig->window_asked, 0);
    rig_destroy(rig);
}

static void what_was_read_outlives_its_unit(void **state)
{
    struct rig *rig = rig_with_window();
    struct service_request read = rig_request(NODE_READ, 0, BLOCK);
    rig->is_slow = true; // the TTS is sending it
    rig_submit_request(rig, &read);
    rig_rta_kill(rig);
    rig_rta_start(rig);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    rig->trace[0] = '\0';
    cta_for_tts.transferred(rig->cta, &read, NODE_OK, rig->now);
    rig_run(rig);
    assert_null(strstr(rig->trace, "completion")); // no RTA has heard of it
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    assert_true(cta_check(rig->cta));
    rig_destroy(rig);
}

static void beyond_the_volume_and_beyond_64_kib_the_rta_is_asked(void **state)
{
    struct rig *rig = rig_with_window();
    assert_false(reads_by_window(rig, 0, 17 * BLOCK));
    assert_true(reads_by_window(rig, 0, 16 * BLOCK));
    cta_for_uma.window_set(rig->cta, RIG_VOLUME, FD, 8 * BLOCK); // the device has shrunk
    assert_true(reads_by_window(rig, 7 * BLOCK, BLOCK));
    assert_false(reads_by_window(rig, 7 * BLOCK + 1, BLOCK));
    assert_false(reads_by_window(rig, 8 * BLOCK, BLOCK));
    rig_destroy(rig);
}

// Of 1,000 reads of what is not there, a few look; of what is there again, soon all.
static void a_window_without_a_view_is_left_alone(void **state)
{
    struct rig *rig = rig_with_window();
    rig->window_misses = UINT_MAX;
    for (unsigned i = 0; i < 1000; i++) {
        assert_false(reads_by_window(rig, 0, BLOCK));
    }
    assert_in_range(rig->window_asked, 5, 25);
    rig->window_misses = 0;
    for (unsigned i = 0; i < 64; i++) {
        reads_by_window(rig, 0, BLOCK);
    }
    uint64_t before = window_reads(rig);
    for (unsigned i = 0; i < 100; i++) {
        reads_by_window(rig, 0, BLOCK);
    }
    assert_int_equal(window_reads(rig) - before, 100);
    rig_destroy(rig);
}

/* ---- what an RTA may hand over --------------------------------------------------------------- */

static int file_make(int flags)
{
    char path[] = "window-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "contents", 8) == 8);
    int other = open(path, flags | O_CLOEXEC, 0600);
    assert_true(other >= 0 && unlink(path) == 0);
    close(fd);
    return other;
}

static bool is_refused(int fd)
{
    bool is_one = host_window_open(fd) < 0;
    assert_true(fcntl(fd, F_GETFD) < 0 && errno == EBADF); // closed in any case
    return is_one;
}

static void a_file_is_read_by_a_description_of_the_hosts_own(void **state)
{
    char octets[9] = {0};
    int handed = file_make(O_RDWR), stays = dup(handed);
    struct iovec iov = {.iov_base = octets, .iov_len = 1};
    if (preadv2(handed, &iov, 1, 0, RWF_NOWAIT) < 0 && errno == EOPNOTSUPP) {
        puts("SKIP: no RWF_NOWAIT in this file system");
        skip();
    }
    int fd = host_window_open(handed);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_GETFL) & O_ACCMODE, O_RDONLY);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(fcntl(stays, F_SETFL, O_APPEND), 0); // the other side does what it likes
    assert_false(fcntl(fd, F_GETFL) & O_APPEND);
    assert_true(host_window_read(NULL, fd, 0, octets, 8));
    assert_string_equal(octets, "contents");
    assert_false(host_window_read(NULL, fd, 0, octets, 9)); // cut short: the RTA says so
    close(fd);
    close(stays);
}

static void what_is_no_file_to_read_is_no_window(void **state)
{
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(is_refused(ends[0]));
    close(ends[1]);
    assert_true(is_refused(open("/dev/zero", O_RDONLY | O_CLOEXEC)));
    assert_true(is_refused(open("/dev/null", O_RDONLY | O_CLOEXEC)));
    assert_true(is_refused(open(".", O_RDONLY | O_CLOEXEC)));
    assert_true(is_refused(file_make(O_WRONLY)));
    assert_true(is_refused(file_make(O_PATH)));
    // A file whose system cannot say that it would wait.
    assert_true(is_refused(open("/proc/self/stat", O_RDONLY | O_CLOEXEC)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_window_shows_needs_no_rta),
        cmocka_unit_test(a_read_by_window_takes_as_long_as_it_takes),
        cmocka_unit_test(no_window_is_asked_that_has_gone),
        cmocka_unit_test(what_is_being_changed_is_the_rtas),
        cmocka_unit_test(a_change_that_has_not_gone_out_counts_as_one),
        cmocka_unit_test(while_the_unit_is_lost_nothing_is_read),
        cmocka_unit_test(a_replay_is_a_change_under_way),
        cmocka_unit_test(what_was_read_outlives_its_unit),
        cmocka_unit_test(beyond_the_volume_and_beyond_64_kib_the_rta_is_asked),
        cmocka_unit_test(a_window_without_a_view_is_left_alone),
        cmocka_unit_test(a_file_is_read_by_a_description_of_the_hosts_own),
        cmocka_unit_test(what_is_no_file_to_read_is_no_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
