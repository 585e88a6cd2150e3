// The host from its start to its end: what it asks of its agents and in which order, where a start
// fails, and what signals, deadlines and news of sources lead to. All agents are the test's.

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "listen/passed.h"
#include "node/host/agent.h"
#include "node/host/config.h"
#include "node/host/control.h"
#include "node/host/pool.h"
#include "node/host/reservations.h"
#include "node/host/secrets.h"
#include "node/host/web.h"
#include "node/reservation/store.h"
#include "tests/node/done.h"

enum { NOW = 50, SECRET = 's' };

// Where a start can fail, in order.
enum step {
    A_LOOP = 1,
    DESCRIPTORS,
    RESERVATIONS,
    SECRETS,
    POOL,
    AN_UMA,
    A_CTA,
    SERVICES,
    THE_MASK,
    A_SIGNAL_FD,
    A_WATCH,
    METRICS,
    PAGE,
    VOLUMES,
    STEPS
};

static struct host_config config;
static struct host *host;
static enum step failing;
static struct uma_parts uma_parts;
static struct cta_parts cta_parts;
static struct loop_member *members[2];
static unsigned member_count;
static void (*on_signal)(void *ctx, uint32_t events);
static int signals;
static instant_ns uma_at, cta_at, nvme_at;
static bool is_settled, lingers, sleeps;
static int rescan_error;
static void (*within)(void); // what the loop does

static void *made(enum step step, const char *name)
{
    note("%s ", name);
    return failing == step ? NULL : &done;
}

static int error_of(enum step step, const char *name)
{
    note("%s ", name);
    return failing == step ? -EMFILE : 0;
}

// Of whom only the end is noted.
#define ENDED(function, type, word) \
    void function(type *it)         \
    {                               \
        note(word);                 \
    }
ENDED(loop_destroy, struct loop, "-loop ")
ENDED(uma_destroy, struct uma, "-uma ")
ENDED(cta_destroy, struct cta, "-cta ")
ENDED(pool_destroy, struct pool, "-pool ")
ENDED(host_reservations_destroy, struct host_reservations, "-reservations ")
ENDED(announcer_destroy, struct announcer, "-announcer ")
ENDED(announcement_end, struct announcement, "-announcement ")
ENDED(sources_destroy, struct sources, "-sources ")
ENDED(host_ttss_destroy, struct host, "-ttss ")
ENDED(host_units_close, struct host, "-units ")

struct loop *loop_create(void)
{
    return made(A_LOOP, "loop");
}

void loop_join(struct loop *loop, struct loop_member *member)
{
    note("member ");
    members[member_count++] = member;
}

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    host = ctx;
    assert_int_equal(events, EPOLLIN);
    on_signal = on_ready;
    signals = fd;
    return made(A_WATCH, "watch");
}

void loop_unwatch(struct loop_watch *watch)
{
    note(watch != NULL ? "-watch " : "");
}

int loop_run(struct loop *loop)
{
    note("run ");
    if (within != NULL) {
        done[0] = '\0';
        within();
        done[0] = '\0';
    }
    return 0;
}

void loop_stop(struct loop *loop)
{
    note("stop ");
}

instant_ns loop_now(const struct loop *loop)
{
    return NOW;
}

instant_ns loop_clock(void)
{
    return 2 * NOW;
}

struct uma *uma_create(const struct uma_parts *parts)
{
    uma_parts = *parts;
    host = parts->ctx;
    return made(AN_UMA, "uma");
}

void uma_join_cta(struct uma *uma, const struct cta_for_uma *cta, void *cta_ctx)
{
    assert_ptr_equal(cta, &cta_for_uma);
    note("join ");
}

void uma_start(struct uma *uma, instant_ns now)
{
    assert_int_equal(now, NOW);
    note("start ");
}

instant_ns uma_next_deadline(const struct uma *uma)
{
    return uma_at;
}

void uma_on_deadline(struct uma *uma, instant_ns now)
{
    note("uma@%d ", (int)now);
}

const struct uma_for_cta uma_for_cta;
const struct cta_for_uma cta_for_uma;

struct cta *cta_create(const struct cta_parts *parts)
{
    cta_parts = *parts;
    return made(A_CTA, "cta");
}

void cta_flush(struct cta *cta, instant_ns now)
{
    note("flush@%d ", (int)now);
}

instant_ns cta_next_deadline(const struct cta *cta)
{
    return cta_at;
}

void cta_on_deadline(struct cta *cta, instant_ns now)
{
    note("cta@%d ", (int)now);
}

bool nvme_target_is_settled(const struct nvme_target *target)
{
    return is_settled;
}

void nvme_target_on_batch_end(struct nvme_target *target, instant_ns now)
{
    note("nvme.end@%d ", (int)now);
}

instant_ns nvme_target_next_deadline(const struct nvme_target *target)
{
    return nvme_at;
}

void nvme_target_on_deadline(struct nvme_target *target, instant_ns now)
{
    note("nvme@%d ", (int)now);
}

int pool_create(struct pool *pool, uint64_t len)
{
    assert_int_equal(len, 4096);
    return error_of(POOL, "pool");
}

struct node_pool pool_view(const struct pool *pool)
{
    return (struct node_pool){0};
}

bool pool_part_make(void *pool, uint32_t unit)
{
    return false;
}

void pool_part_drop(void *pool, uint32_t unit)
{
}

void pool_part_trim(void *pool, uint32_t unit, uint64_t offset, uint64_t len)
{
}

void host_pool_look(const struct host *it)
{
    note("look ");
}

struct host_reservations *host_reservations_create(struct loop *loop, const char *path,
                                                   struct why *ret_why)
{
    why_say(ret_why, "it is broken");
    return made(RESERVATIONS, "reservations");
}

struct reservation_store *host_reservations_store(struct host_reservations *reservations)
{
    return (struct reservation_store *)reservations;
}

uint64_t host_reservations_write(void *ctx)
{
    return 0;
}

void host_reservations_tell(struct host_reservations *reservations, struct cta *cta)
{
    note("tell ");
}

struct reservation *reservation_store_join(struct reservation_store *store,
                                           const uint8_t uuid[VOLUME_UUID_LEN])
{
    assert_ptr_equal(store, &done);
    assert_int_equal(uuid[0], 5);
    return (struct reservation *)&failing;
}

void reservation_store_leave(struct reservation_store *store, struct reservation *reservation)
{
    assert_ptr_equal(store, &done);
    assert_ptr_equal(reservation, &failing);
    note("leave ");
}

int secrets_read(const char *path, struct iscsi_accounts *ret, struct why *ret_why)
{
    assert_string_equal(path, "/secrets");
    memset(ret, SECRET, sizeof *ret);
    why_say(ret_why, "line 3");
    return error_of(SECRETS, "secrets");
}

struct host_web *web_create(struct host *it, const char *listen, bool has_page, struct why *ret_why)
{
    why_say(ret_why, "it is taken");
    return made(has_page ? PAGE : METRICS, listen);
}

void web_destroy(struct host_web *web)
{
    note(web != NULL ? "-web " : "");
}

struct host_control *control_create(struct host *it)
{
    note("control ");
    return (struct host_control *)&done;
}

void control_destroy(struct host_control *control)
{
    note(control != NULL ? "-control " : "");
}

void control_note(struct host_control *control, const char *volume, const char *what)
{
    assert_ptr_equal(control, &done);
    note("control(%s %s) ", volume, what);
}

int host_ttss_create(struct host *it)
{
    return error_of(SERVICES, "ttss");
}

int host_volumes_add(struct host *it)
{
    return error_of(VOLUMES, "volumes");
}

void host_volumes_come(struct host *it)
{
    note("come ");
}

void host_note_said(void *ctx, const char *volume, const char *what)
{
    assert_ptr_equal(ctx, host);
    note("said(%s %s) ", volume, what);
}

int host_rescan(struct host *it, host_note *told, void *ctx, struct why *ret_why)
{
    note("rescan ");
    told(ctx, "v", "added");
    why_say(ret_why, "no file");
    return rescan_error;
}

int host_look(struct host *it, host_note *told, void *ctx, struct why *ret_why)
{
    note("look again ");
    told(ctx, "v", "found");
    why_say(ret_why, "no source");
    return rescan_error;
}

int host_descriptors_check(const struct host_config *it, struct why *ret_why)
{
    why_say(ret_why, "too few");
    return error_of(DESCRIPTORS, "descriptors");
}

void host_descriptors_raise(void)
{
    note("raise ");
}

void passed_keep(void)
{
    note("keep ");
}

void host_captive_close(struct host *it)
{
    host = it;
    note("-captive ");
}

void config_free(struct host_config *it)
{
    note(it == &host->in_file  ? "-file "
         : it == &host->wanted ? "-wanted "
         : it == &host->coming ? "-coming "
                               : "-? ");
}

void host_units_receive(struct host *it, instant_ns now)
{
    note("receive@%d ", (int)now);
}

bool host_units_linger(struct host *it)
{
    note("linger ");
    return lingers;
}

bool host_units_sleep(struct host *it)
{
    note("sleep ");
    return sleeps;
}

void host_units_wake(struct host *it)
{
    note("wake ");
}

int host_unit_spawn(void *ctx, uint32_t unit)
{
    return 0;
}

void host_unit_kill(void *ctx, uint32_t unit)
{
}

int host_unit_send(void *ctx, uint32_t unit, const struct unit_message *message, int keepsake)
{
    return 0;
}

struct frame_port host_unit_bus(void *ctx, uint32_t unit)
{
    return (struct frame_port){0};
}

bool host_window_read(void *ctx, int fd, uint64_t offset, void *data, uint32_t len)
{
    return false;
}

void host_identify(void *ctx, const struct volume_profile *profile, struct volume_identity *ret)
{
}

void host_check_started(struct host *it)
{
    note("started? ");
}

void host_end(struct host *it, int exit_status)
{
    it->exit_status = exit_status;
    it->stop_by_ns = 1000;
    note("end ");
}

void host_say(void *ctx, const char *line)
{
    note("say(%s) ", line);
}

void host_say_failure(const char *what, const char *object, const char *why, const char *remedy)
{
    note("\n%s: %s: %s; %s\n", what, object, why, remedy);
}

const char *host_remedy(int error)
{
    return error == -EMFILE ? "more descriptors" : error == -ENOMEM ? "more memory" : "?";
}

int __real_sigprocmask(int how, const sigset_t *set, sigset_t *ret_old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *ret_old);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *ret_old)
{
    errno = EMFILE;
    return error_of(THE_MASK, "mask") != 0 ? -1 : __real_sigprocmask(how, set, ret_old);
}

int __real_signalfd(int fd, const sigset_t *mask, int flags);
int __wrap_signalfd(int fd, const sigset_t *mask, int flags);
int __wrap_signalfd(int fd, const sigset_t *mask, int flags)
{
    errno = EMFILE;
    assert_int_equal(flags, SFD_CLOEXEC | SFD_NONBLOCK);
    return error_of(A_SIGNAL_FD, "signals") != 0 ? -1 : __real_signalfd(fd, mask, flags);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
static bool no_memory;
void *__wrap_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : __real_calloc(count, size);
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
    if (host != NULL && memory == host) {
        for (size_t i = 0; i < sizeof host->accounts; i++) {
            assert_int_equal(((char *)&host->accounts)[i], 0); // no secret stays in memory
        }
        host = NULL;
    }
    __real_free(memory);
}

/* ---- the stage ------------------------------------------------------------------------------- */

#define BEGINNING "raise keep loop look "
#define ENDING                                                                              \
    "-captive -announcer -sources -announcement -control -web -web -units -ttss -uma -cta " \
    "-reservations -watch -pool -loop -file -wanted -coming "

static int set_up(void **state)
{
    config = (struct host_config){.pool_len = 4096,
                                  .iscsi_secrets = "/secrets",
                                  .reservations = "/reservations",
                                  .metrics_listen = "m:1",
                                  .http_listen = "h:1"};
    done[0] = '\0';
    failing = 0;
    member_count = 0;
    signals = -1;
    uma_at = cta_at = nvme_at = INSTANT_NEVER;
    rescan_error = 0;
    within = NULL;
    no_memory = false;
    is_settled = sleeps = true;
    lingers = false;
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static void it_begins_and_ends_in_order(void **state)
{
    assert_int_equal(host_run(&config), EXIT_FAILURE); // nobody has said that all is well
    expect(BEGINNING "descriptors reservations secrets pool uma cta tell join member ttss member "
                     "mask signals watch m:1 h:1 control volumes start run " ENDING);
    assert_true(signal(SIGPIPE, SIG_DFL) == SIG_IGN);
    assert_true(signal(SIGXFSZ, SIG_DFL) == SIG_IGN);
    assert_int_equal(close(signals), -1); // it is
}

static void what_nobody_asked_for_is_not_there(void **state)
{
    config.metrics_listen[0] = config.http_listen[0] = '\0';
    host_run(&config);
    assert_null(strstr(done, "m:1"));
    assert_null(strstr(done, "h:1"));
    assert_null(strstr(done, "-web"));
}

static void who_cannot_begin_says_why_and_ends_what_had_begun(void **state)
{
#define NOT_SERVED "\ncannot serve: this process: "
    static const char *const words[STEPS] = {
        [A_LOOP] = "raise keep loop ",
        [DESCRIPTORS] = BEGINNING "descriptors " NOT_SERVED "too few; more descriptors\n",
        [RESERVATIONS] =
            BEGINNING "descriptors reservations \ncannot serve: /reservations: it is broken; "
                      "mend or remove the file of reservations, or name another one\n",
        [SECRETS] = BEGINNING "descriptors reservations secrets \ncannot serve: /secrets: line 3; "
                              "see weft-serve(1) for what stands in it\n",
        [POOL] = BEGINNING "descriptors reservations secrets pool " NOT_SERVED
                           "Too many open files; more descriptors\n",
        [AN_UMA] = BEGINNING "descriptors reservations secrets pool uma cta " NOT_SERVED
                             "Cannot allocate memory; more memory\n",
        [A_CTA] = BEGINNING "descriptors reservations secrets pool uma cta " NOT_SERVED
                            "Cannot allocate memory; more memory\n",
        [SERVICES] = BEGINNING "descriptors reservations secrets pool uma cta tell join member "
                               "ttss member " NOT_SERVED "Too many open files; more descriptors\n",
        [THE_MASK] =
            BEGINNING "descriptors reservations secrets pool uma cta tell join member ttss member "
                      "mask " NOT_SERVED "Too many open files; more descriptors\n",
        [A_SIGNAL_FD] =
            BEGINNING "descriptors reservations secrets pool uma cta tell join member ttss member "
                      "mask signals " NOT_SERVED "Too many open files; more descriptors\n",
        [A_WATCH] =
            BEGINNING "descriptors reservations secrets pool uma cta tell join member ttss member "
                      "mask signals watch " NOT_SERVED "Cannot allocate memory; more memory\n",
        [METRICS] =
            BEGINNING "descriptors reservations secrets pool uma cta tell join member ttss member "
                      "mask signals watch m:1 \nno metrics: m:1: it is taken; "
                      "choose another address, HOST:PORT\n",
        [PAGE] =
            BEGINNING "descriptors reservations secrets pool uma cta tell join member ttss member "
                      "mask signals watch m:1 h:1 \nno page: h:1: it is taken; "
                      "choose another address, HOST:PORT\n",
        [VOLUMES] =
            BEGINNING "descriptors reservations secrets pool uma cta tell join member ttss member "
                      "mask signals watch m:1 h:1 control volumes ",
    };
    for (failing = A_LOOP; failing < STEPS; failing++) {
        member_count = 0;
        assert_int_equal(host_run(&config), EXIT_FAILURE);
        char *end = strstr(done, "-captive");
        assert_non_null(end);
        assert_null(strstr(done, "start "));
        assert_int_not_equal(fcntl(STDIN_FILENO, F_GETFD), -1);
        assert_non_null(strstr(end, "-reservations "));
        assert_non_null(strstr(end, "-pool -loop "));
        *end = '\0';
        expect(words[failing]);
    }
    failing = RESERVATIONS;
    config.reservations[0] = '\0';
    host_run(&config);
    assert_non_null(strstr(done, NOT_SERVED "it is broken; "));
    done[0] = '\0';
    no_memory = true;
    assert_int_equal(host_run(&config), EXIT_FAILURE);
    expect(NOT_SERVED "Cannot allocate memory; free some memory\n");
}

/* ---- turns of the loop ----------------------------------------------------------------------- */

static void turn(void)
{
    struct loop_member *before = members[0], *after = members[1];
    before->on_batch_end(before->ctx, 60);
    expect("receive@60 nvme.end@60 ");
    before->on_wake(before->ctx);
    expect("wake ");
    host->has_news = false;
    after->on_batch_end(after->ctx, 61);
    expect("come flush@61 started? ");
    host->has_news = true;
    after->on_batch_end(after->ctx, 62);
    expect("look again said(v found) control(v found) come flush@62 started? ");
    rescan_error = -EINVAL;
    after->on_batch_end(after->ctx, 63); // it is no news any more
    expect("come flush@63 started? ");
    host->has_news = true;
    after->on_batch_end(after->ctx, 64);
    expect("look again said(v found) control(v found) say(no source) come flush@64 started? ");
}

static void rtas_are_heard_first_and_answers_leave_last(void **state)
{
    within = turn;
    host_run(&config);
}

static void sleep_or_not(void)
{
    static const struct {
        bool is_settled, lingers, sleeps, may;
        const char *words;
    } cases[] = {{true, false, true, true, "linger sleep "},
                 {true, false, false, false, "linger sleep "},
                 {true, true, true, false, "linger "},
                 {false, false, true, false, ""}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        is_settled = cases[i].is_settled;
        lingers = cases[i].lingers;
        sleeps = cases[i].sleeps;
        assert_int_equal(members[0]->may_sleep(members[0]->ctx), cases[i].may);
        expect(cases[i].words);
    }
}

static void nobody_sleeps_who_has_something_to_do(void **state)
{
    within = sleep_or_not;
    host_run(&config);
}

static void deadlines(void)
{
    struct loop_member *member = members[0];
    const instant_ns at[][5] = {
        // of the UMA, the CTA, NVMe, the end; the least
        {5, 6, 7, 8, 5},
        {6, 5, 7, 8, 5},
        {7, 6, 5, 8, 5},
        {8, 7, 6, 5, 5},
        {INSTANT_NEVER, INSTANT_NEVER, INSTANT_NEVER, INSTANT_NEVER, INSTANT_NEVER}};
    for (unsigned i = 0; i < sizeof at / sizeof at[0]; i++) {
        uma_at = at[i][0];
        cta_at = at[i][1];
        nvme_at = at[i][2];
        host->stop_by_ns = at[i][3];
        assert_int_equal(member->next_deadline(member->ctx), at[i][4]);
    }
    uma_at = 10;
    cta_at = 11;
    nvme_at = 12;
    host->stop_by_ns = 13;
    static const char *const words[] = {"", "uma@10 ", "uma@11 cta@11 ", "uma@12 cta@12 nvme@12 ",
                                        ("say(some requests do not end: stopping without them) "
                                         "stop ")};
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        member->on_deadline(member->ctx, 9 + i);
        expect(words[i]);
    }
}

static void the_least_deadline_counts_and_the_end_comes_before_all(void **state)
{
    within = deadlines;
    host_run(&config);
}

/* ---- signals, and what agents ask for -------------------------------------------------------- */

static void signal_all(void)
{
    raise(SIGHUP);
    on_signal(host, EPOLLIN);
    expect("rescan said(v added) ");
    rescan_error = -EINVAL;
    raise(SIGHUP);
    on_signal(host, EPOLLIN);
    expect("rescan said(v added) say(no file) ");
    on_signal(host, EPOLLIN); // there is none
    expect("");
    raise(SIGTERM);
    on_signal(host, EPOLLIN);
    expect("end ");
    raise(SIGINT); // asked twice
    on_signal(host, EPOLLIN);
    expect("stop ");
}

static void signals_rescan_end_and_stop(void **state)
{
    within = signal_all;
    assert_int_equal(host_run(&config), EXIT_SUCCESS);
}

static void ask_as_agents_do(void)
{
    int ends[2];
    char octet;
    const struct volume_identity identity = {.uuid = {5}};
    assert_int_equal(pipe(ends), 0);
    uma_parts.close_keepsake(uma_parts.ctx, ends[1]);
    assert_int_equal(read(ends[0], &octet, 1), 0);
    close(ends[0]);
    struct reservation *joined = uma_parts.reservation_join(uma_parts.ctx, &identity);
    assert_ptr_equal(joined, &failing);
    uma_parts.reservation_leave(uma_parts.ctx, joined);
    expect("leave ");
    uma_parts.on_stopped(uma_parts.ctx);
    expect("stop ");
    assert_int_equal(cta_parts.clock(cta_parts.ctx), 2 * NOW);
    assert_ptr_equal(uma_parts.spawn, host_unit_spawn);
    assert_ptr_equal(uma_parts.kill, host_unit_kill);
    assert_ptr_equal(uma_parts.send, host_unit_send);
    assert_ptr_equal(uma_parts.bus, host_unit_bus);
    assert_ptr_equal(uma_parts.identify, host_identify);
    assert_ptr_equal(uma_parts.say, host_say);
    assert_ptr_equal(cta_parts.ctx, &host->pool);
    assert_ptr_equal(cta_parts.uma, &uma_for_cta);
    assert_ptr_equal(cta_parts.uma_ctx, &done);
    assert_ptr_equal(cta_parts.part_make, pool_part_make);
    assert_ptr_equal(cta_parts.part_drop, pool_part_drop);
    assert_ptr_equal(cta_parts.part_trim, pool_part_trim);
    assert_ptr_equal(cta_parts.window_read, host_window_read);
    assert_ptr_equal(cta_parts.reservations_store, host_reservations_write);
    assert_ptr_equal(cta_parts.reservations_ctx, &done);
}

static void agents_reach_each_other_through_it(void **state)
{
    within = ask_as_agents_do;
    host_run(&config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_begins_and_ends_in_order, set_up),
        cmocka_unit_test_setup(what_nobody_asked_for_is_not_there, set_up),
        cmocka_unit_test_setup(who_cannot_begin_says_why_and_ends_what_had_begun, set_up),
        cmocka_unit_test_setup(rtas_are_heard_first_and_answers_leave_last, set_up),
        cmocka_unit_test_setup(nobody_sleeps_who_has_something_to_do, set_up),
        cmocka_unit_test_setup(the_least_deadline_counts_and_the_end_comes_before_all, set_up),
        cmocka_unit_test_setup(signals_rescan_end_and_stop, set_up),
        cmocka_unit_test_setup(agents_reach_each_other_through_it, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
