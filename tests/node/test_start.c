// The node's start as its user sees it: what is said on standard output and standard error, what
// the service manager hears, and when the start has failed. All agents are the test's.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "cgroup/memory.h"
#include "listen/passed.h"
#include "node/host/agent.h"
#include "node/host/announcement.h"
#include "node/host/notify.h"
#include "node/host/web.h"
#include "tests/node/done.h"

enum { LOG_MAX = 8192, MIB = 1 << 20, TTS_COUNT = 2 };

static struct host *host;
static struct host_config config;
static struct resource rows[3];
static struct resource_table table = {.rows = rows};
static int volume_error, unit_error, captive_error, port;
static const char *tts_why;
static int tts_error, tts_of_why;
static unsigned unit_failures;
static bool has_source, is_settled, has_started;
static uint64_t memory_limit;

const struct resource_table *uma_resources(const struct uma *uma)
{
    return &table;
}

const char *uma_volume_why(const struct uma *uma, uint32_t volume)
{
    return volume == 2 ? "no such file" : "?";
}

int uma_volume_error(const struct uma *uma, uint32_t volume)
{
    return volume == 2 ? volume_error : 0;
}

bool uma_unit_status(const struct uma *uma, uint32_t unit, struct uma_unit_status *ret)
{
    *ret = (struct uma_unit_status){
        .name = "swift", .why = "it ended", .failures = unit_failures, .error = unit_error};
    return unit == 1;
}

const char *uma_tts_why(const struct uma *uma, size_t index)
{
    return (int)index == tts_of_why ? tts_why : NULL;
}

int uma_tts_error(const struct uma *uma, size_t index)
{
    assert_int_equal(index, tts_of_why);
    return tts_error;
}

bool uma_has_started(const struct uma *uma)
{
    return has_started;
}

unsigned sources_at(const struct sources *sources, size_t index, struct source_status *ret)
{
    return index == 0 && has_source ? 1 : 0;
}

bool host_volumes_are_settled(const struct host *it)
{
    return is_settled;
}

const struct volume_wish *host_wish_find(const struct host_config *it, const char *name)
{
    static const struct volume_wish named, found = {.source = 1};
    return strcmp(name, "found") == 0 ? &found : strcmp(name, "named") == 0 ? &named : NULL;
}

bool host_uri(struct host *it, unsigned tts, const struct resource *row, unsigned index,
              char ret[HOST_URI_MAX])
{
    snprintf(ret, HOST_URI_MAX, "%u:%u/%s", tts, index, row->name);
    return index < 2 - tts;
}

bool passed_is(const char *address)
{
    return strcmp(address, "passed") == 0;
}

void cgroup_memory_find(const char *proc, struct cgroup_memory *ret)
{
    assert_string_equal(proc, "/proc/self");
    ret->most_len = memory_limit;
}

void notify_send(const char *state)
{
    note("<%s>\n", state);
}

void announcement_begin(struct announcement *a, struct loop *loop, char *text, size_t len)
{
    assert_ptr_equal(a, &host->announcement);
    assert_int_equal(len, strlen(text));
    note("%s", text);
    free(text);
}

struct announcer *announcer_create(const struct announcer_parts *parts)
{
    assert_ptr_equal(parts->ctx, host);
    note("mdns %u\n", parts->port);
    return (struct announcer *)&done;
}

uint16_t nvme_tcp_port(const struct nvme_tcp *tcp)
{
    return (uint16_t)port;
}

void web_address(const struct host_web *web, char *ret, size_t capacity)
{
    snprintf(ret, capacity, "http://h:80/");
}

void host_say(void *ctx, const char *line)
{
    note("%s\n", line);
}

void host_say_failure(const char *what, const char *object, const char *why, const char *remedy)
{
    note("%s: %s: %s; %s\n", what, object, why, remedy);
}

const char *host_remedy(int error)
{
    return error == -EMFILE ? "more descriptors" : "more memory";
}

void host_end(struct host *it, int exit_status)
{
    note("end %d\n", exit_status);
}

int host_captive_start(struct host *it)
{
    note("captive\n");
    return captive_error;
}

static void hint(void *ctx, const struct resource *row, char *ret, size_t capacity)
{
    snprintf(ret, capacity, "use %s by %s", row->name, (const char *)ctx);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static int err, err_before; // standard error is read from there

static void volume_add(const char *name, enum resource_state state)
{
    struct resource *row = &rows[table.count++];
    *row = (struct resource){.volume = (uint32_t)table.count, .state = state};
    row->profile = (struct volume_profile){.size = MIB, .block_size = 512, .driver = "file"};
    row->abilities = VOLUME_CAN_WRITE;
    row->identity.uuid[0] = (uint8_t)(0xa0 + table.count);
    snprintf(row->name, sizeof row->name, "%s", name);
}

static int set_up(void **state)
{
    static const struct tts_for_uma tts = {.hint = hint};
    static struct addresses free_address = {.count = 1, .of = {"h:1"}};
    host = calloc(1, sizeof *host);
    assert_non_null(host);
    config = (struct host_config){.is_announced = true};
    host->config = &config;
    host->tts_count = TTS_COUNT;
    host->ttss[0] = (struct host_tts){&tts, "nbd", &free_address, "nbd"};
    host->ttss[1] = (struct host_tts){&tts, "nvme", &free_address, "nvme-tcp"};
    host->unit_end = 2;
    table.count = 0;
    volume_add("disk", RESOURCE_READY);
    volume_error = unit_error = captive_error = port = tts_error = tts_of_why = 0;
    tts_why = NULL;
    unit_failures = 0;
    has_source = false;
    is_settled = has_started = true;
    memory_limit = UINT64_MAX;
    done[0] = '\0';
    FILE *file = tmpfile();
    assert_non_null(file);
    err = dup(fileno(file));
    fclose(file);
    fflush(stderr);
    err_before = dup(STDERR_FILENO);
    dup2(err, STDERR_FILENO);
    return 0;
}

static int tear_down(void **state)
{
    fflush(stderr);
    dup2(err_before, STDERR_FILENO);
    close(err_before);
    close(err);
    free(host);
    return 0;
}

// What was said on standard error.
static void expect_said(const char *lines)
{
    char said[LOG_MAX] = "";
    assert_true(pread(err, said, sizeof said - 1, 0) >= 0);
    assert_int_equal(ftruncate(err, 0), 0);
    lseek(err, 0, SEEK_SET);
    assert_string_equal(said, lines);
}

#define OF_DISK                                                                 \
    "volume disk: 1M octets, file, uuid a1000000-0000-0000-0000-000000000000\n" \
    "  0:0/disk\n  0:1/disk\n  use disk by nbd\n  1:0/disk\n  use disk by nvme\n"
#define READY "<READY=1\nSTATUS=serving 1 volume by nbd nvme-tcp>\n"

/* ---- it serves ------------------------------------------------------------------------------- */

static void volumes_are_announced_once(void **state)
{
    host_check_started(host);
    expect(OF_DISK READY);
    expect_said("");
    assert_true(host->has_announced);
    host_check_started(host);
    expect("");
}

static void who_is_quiet_tells_the_service_manager_alone(void **state)
{
    config.is_quiet = true;
    host_check_started(host);
    expect(READY);
}

static void nothing_is_said_before_all_have_begun(void **state)
{
    has_started = false;
    host_check_started(host);
    expect("");
    has_started = true;
    has_source = true;
    is_settled = false;
    host_check_started(host);
    expect("");
    is_settled = true;
    host_check_started(host);
    expect(OF_DISK READY);
}

static void volumes_are_told_with_what_is_particular(void **state)
{
    volume_add("found", RESOURCE_FAILED);
    volume_add("cd", RESOURCE_STANDBY);
    rows[2].abilities = VOLUME_ABILITY_ALL & ~VOLUME_CAN_WRITE;
    host->tts_count = 1;
    host->page = (struct host_web *)host;
    host_check_started(host);
    expect("volume disk: 1M octets, file, uuid a1000000-0000-0000-0000-000000000000\n"
           "  0:0/disk\n  0:1/disk\n  use disk by nbd\n"
           "volume cd: 1M octets, file, read-only, uuid a3000000-0000-0000-0000-000000000000\n"
           "  0:0/cd\n  0:1/cd\n  use cd by nbd\n"
           "page http://h:80/\n"
           "<READY=1\nSTATUS=serving 3 volumes by nbd>\n");
    expect_said("weft: volume found: not opened: no such file\n");
}

static void who_sees_blocks_is_told_of_a_tail(void **state)
{
    static const char *const said =
        "weft: volume disk: NVMe and iSCSI see whole blocks of 512 octets, not its last 100\n";
    static const struct {
        unsigned tcp, rdma, iscsi, iscsi_rdma;
        uint64_t size;
        bool is_told;
    } cases[] = {{0, 0, 0, 0, 1124, false}, {1, 0, 0, 0, 1124, true}, {0, 1, 0, 0, 1124, true},
                 {0, 0, 1, 0, 1124, true},  {0, 0, 0, 1, 1124, true}, {1, 1, 1, 1, 1024, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.nvme_tcp_listen.count = cases[i].tcp;
        config.nvme_rdma_listen.count = cases[i].rdma;
        config.iscsi_listen.count = cases[i].iscsi;
        config.iscsi_rdma_listen.count = cases[i].iscsi_rdma;
        rows[0].profile.size = cases[i].size;
        host->has_announced = false;
        host_check_started(host);
        expect_said(cases[i].is_told ? said : "");
    }
}

static void mdns_has_the_port_of_nvme_over_tcp(void **state)
{
    static const struct {
        bool is_announced, has_tcp;
        int port;
        const char *words;
    } cases[] = {{true, true, 4420, "mdns 4420\n" READY},
                 {true, true, 1, "mdns 1\n" READY},
                 {true, true, 0, READY},
                 {true, false, 4420, READY},
                 {false, true, 4420, READY}};
    config.is_quiet = true;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        config.is_announced = cases[i].is_announced;
        host->nvme_tcp = cases[i].has_tcp ? (struct nvme_tcp *)host : NULL;
        port = cases[i].port;
        host->has_announced = false;
        host->announcer = NULL;
        host_check_started(host);
        expect(cases[i].words);
        assert_int_equal(host->announcer != NULL, i < 2);
    }
}

static void a_captive_begins_when_volumes_are_there(void **state)
{
    char *const command[] = {"fio", NULL};
    config.captive = command;
    config.is_quiet = true;
    host_check_started(host);
    expect("captive\n" READY);
    host->has_announced = false;
    captive_error = -ENOENT;
    host_check_started(host);
    expect("captive\ncannot run: fio: No such file or directory; give a command that can be run\n"
           "end 1\n");
}

/* ---- it does not ----------------------------------------------------------------------------- */

static void a_volume_that_was_named_and_fails_is_the_end(void **state)
{
    static const char far[] =
        "see whether the target runs there, on this port, and can be reached from here";
    static const struct {
        int error;
        const char *remedy;
    } cases[] = {
        {-ENOENT, "see whether the name is right; `truncate -s 1G FILE` makes a new file"},
        {-ENXIO, "see whether the name is right; `truncate -s 1G FILE` makes a new file"},
        {-EACCES, "serve it with -r if it may only be read, or have it opened to this user"},
        {-EPERM, "serve it with -r if it may only be read, or have it opened to this user"},
        {-EROFS, "serve it with -r if it may only be read, or have it opened to this user"},
        {-EISDIR, "end it with / to serve the files in it"},
        {-EBUSY, "end the other process, or be a client of it: see `weft status`"},
        {-ECONNREFUSED, far},
        {-EHOSTUNREACH, far},
        {-ENETUNREACH, far},
        {-ETIMEDOUT, far},
        {-EMFILE, "more descriptors"},
        {-ENFILE, "more memory"},
        {-EAGAIN, "more memory"},
        {-ENOMEM, "more memory"},
        {-EINVAL, "see `weft help serve` for what a URI may be"},
    };
    static const char *const names[] = {"named", "nobody's"};
    volume_add("named", RESOURCE_FAILED);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[256];
        const char *name = names[i % 2];
        snprintf(rows[1].name, sizeof rows[1].name, "%s", name);
        volume_error = cases[i].error;
        snprintf(words, sizeof words, "cannot serve: %s: no such file; %s\nend 1\n", name,
                 cases[i].remedy);
        host->has_announced = false;
        host_check_started(host);
        expect(words);
        host_check_started(host); // once
        expect("");
    }
}

static void an_address_that_cannot_be_had_is_the_end(void **state)
{
    static struct addresses of_socket_unit = {.count = 1, .of = {"passed"}};
    static const struct {
        int error;
        bool is_passed;
        const char *remedy;
    } cases[] = {
        {-EADDRINUSE, false,
         "choose another address with --nvme-tcp=HOST:PORT, or port 0 for a free one"},
        {-EADDRINUSE, true, "give a socket unit one ListenStream= and FileDescriptorName=nvme-tcp"},
        {-EMFILE, true, "more descriptors"},
        {-ENFILE, false, "more memory"},
        {-EAGAIN, true, "more memory"},
        {-ENOMEM, false, "more memory"},
    };
    tts_why = "it is taken";
    tts_of_why = TTS_COUNT - 1;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[256];
        const struct addresses *listen = host->ttss[1].listen;
        host->ttss[1].listen = cases[i].is_passed ? &of_socket_unit : listen;
        tts_error = cases[i].error;
        snprintf(words, sizeof words, "cannot listen: nvme-tcp: it is taken; %s\nend 1\n",
                 cases[i].remedy);
        host->has_announced = false;
        host_check_started(host);
        expect(words);
        host->ttss[1].listen = listen;
    }
    tts_of_why = TTS_COUNT;
    host->has_announced = false;
    host_check_started(host);
    expect(OF_DISK READY);
}

static void an_rta_that_fails_thrice_is_the_end(void **state)
{
    unit_failures = 2;
    host_check_started(host);
    expect(OF_DISK READY);
    unit_failures = 3;
    host->has_announced = false;
    host_check_started(host);
    expect("cannot start the RTA: swift: it ended; see what it said before it ended, and whether "
           "the limits here (ulimit -a) let this program run\nend 1\n");
    unit_error = -EMFILE;
    host->has_announced = false;
    host_check_started(host);
    expect("cannot start the RTA: swift: it ended; more descriptors\nend 1\n");
    host->unit_end = 1;
    host->has_announced = false;
    host_check_started(host);
    expect(OF_DISK READY);
}

static void a_pool_of_more_than_half_of_the_limit_is_told_of(void **state)
{
    config.pool_len = 64 * MIB;
    memory_limit = 128 * MIB;
    host_pool_look(host);
    expect_said("");
    memory_limit = 126 * MIB;
    host_pool_look(host);
    expect_said("weft: the pool of 64M is large beside the memory limit of 126M here: under "
                "load the kernel may end this process; raise the limit, or give a smaller "
                "--pool\n");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(volumes_are_announced_once),
        TEST(who_is_quiet_tells_the_service_manager_alone),
        TEST(nothing_is_said_before_all_have_begun),
        TEST(volumes_are_told_with_what_is_particular),
        TEST(who_sees_blocks_is_told_of_a_tail),
        TEST(mdns_has_the_port_of_nvme_over_tcp),
        TEST(a_captive_begins_when_volumes_are_there),
        TEST(a_volume_that_was_named_and_fails_is_the_end),
        TEST(an_address_that_cannot_be_had_is_the_end),
        TEST(an_rta_that_fails_thrice_is_the_end),
        TEST(a_pool_of_more_than_half_of_the_limit_is_told_of),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
