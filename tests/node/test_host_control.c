// The node's control socket, request by request: what each asks of the UMA, what it waits for and
// what is answered, in time or late. Askers are real sockets; the loop, its time and the UMA are
// the test's.

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "control/socket.h"
#include "node/host/agent.h"
#include "node/host/control.h"
#include "node/host/status.h"
#include "node/host/wish.h"
#include "tests/node/done.h"

enum { TEXT_LEN = 1 << 20, ASKERS = 16, WATCHES = 32, DISK = 7 };

static struct host *host;
static struct host_config config;
static struct host_control *control;
static instant_ns now;
static struct loop_member *member;
static struct resource rows[3], *const tape = &rows[0], *const disk = &rows[1],
                                       *const beyond = &rows[2];
static char path_of_socket[RUNTIME_PATH_MAX];
static struct resource_table table = {.rows = rows};
static int rescan_error, add_error, remove_error, stand_by_error, next_asker, asker_uid;
static bool is_settled, still_there, no_socket, no_watch;
static const char *why_of_source, *why_of_other;
static struct json_object *status;

struct loop_watch {
    int fd;
    uint32_t events;
    void (*on_ready)(void *ctx, uint32_t events);
    void *ctx;
};
static struct loop_watch watches[WATCHES];

/* ---- others ---------------------------------------------------------------------------------- */

struct loop_watch *loop_watch(struct loop *loop, int fd, uint32_t events,
                              void (*on_ready)(void *ctx, uint32_t events), void *ctx)
{
    for (unsigned i = 0; i < WATCHES && !no_watch; i++) {
        if (watches[i].on_ready == NULL) {
            watches[i] = (struct loop_watch){fd, events, on_ready, ctx};
            return &watches[i];
        }
    }
    return NULL;
}

void loop_unwatch(struct loop_watch *watch)
{
    if (watch != NULL) {
        assert_non_null(watch->on_ready);
        watch->on_ready = NULL;
    }
}

void loop_watch_change(struct loop_watch *watch, uint32_t events)
{
    watch->events = events;
}

int loop_accept(struct loop_watch *watch)
{
    int fd = next_asker;
    next_asker = -1;
    return fd;
}

void loop_join(struct loop *loop, struct loop_member *it)
{
    member = it;
}

void loop_leave(struct loop *loop, struct loop_member *it)
{
    assert_ptr_equal(it, member);
    member = NULL;
}

instant_ns loop_now(const struct loop *loop)
{
    return now;
}

int control_socket_listen(int backlog, char ret_path[RUNTIME_PATH_MAX], struct why *ret_why)
{
    assert_int_equal(backlog, ASKERS);
    why_say(ret_why, "no folder");
    if (no_socket) {
        snprintf(ret_path, RUNTIME_PATH_MAX, "/tried");
        return -EACCES;
    }
    snprintf(ret_path, RUNTIME_PATH_MAX, "%s/weft-control-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    int fd = mkstemp(ret_path);
    snprintf(path_of_socket, sizeof path_of_socket, "%s", ret_path);
    return fd;
}

int __real_getsockopt(int fd, int level, int name, void *ret, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *ret, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *ret, socklen_t *len)
{
    int error = __real_getsockopt(fd, level, name, ret, len);
    if (level == SOL_SOCKET && name == SO_PEERCRED && asker_uid >= 0) {
        ((struct ucred *)ret)->uid = (uid_t)asker_uid;
    }
    return asker_uid == -2 ? -1 : error;
}

uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void)
{
    return 1000;
}

const struct resource_table *uma_resources(const struct uma *uma)
{
    return &table;
}

const char *uma_volume_why(const struct uma *uma, uint32_t volume)
{
    return volume == DISK ? "no such file" : "?";
}

int uma_volume_remove(struct uma *uma, const char *name, instant_ns at)
{
    assert_true(at == now);
    note("remove %s ", name);
    return remove_error;
}

int uma_volume_stand_by(struct uma *uma, const char *name, instant_ns at)
{
    assert_true(at == now);
    note("stand by %s ", name);
    return stand_by_error;
}

bool uma_has_volume(const struct uma *uma, const char *name)
{
    return still_there;
}

void uma_ask_counters(struct uma *uma)
{
    note("counters ");
}

bool host_volumes_are_settled(const struct host *it)
{
    return is_settled;
}

int host_rescan(struct host *it, host_note *told, void *ctx, struct why *ret_why)
{
    note("rescan ");
    told(ctx, "disk", "another rate");
    why_say(ret_why, "line 1: no");
    return rescan_error;
}

int wish_parse(const char *text, struct volume_wish *ret, struct why *ret_why)
{
    memset(ret, 0, sizeof *ret);
    snprintf(ret->name, sizeof ret->name, "disk");
    snprintf(ret->uri, sizeof ret->uri, "%s", text);
    why_say(ret_why, "it is no URI");
    return strcmp(text, "bad") == 0 ? -EINVAL : 0;
}

bool sources_is(const char *uri)
{
    return strncmp(uri, "glob:", 5) == 0;
}

unsigned sources_at(const struct sources *sources, size_t index, struct source_status *ret)
{
    ret->why = index == 0 ? why_of_other : why_of_source;
    return index < 2 ? (unsigned)index + 4 : 0;
}

const char *sources_uri(const struct sources *sources, unsigned number)
{
    return number == 4 ? "glob:/a/*" : number == 5 ? "iscsi://h/*" : "?";
}

int host_volume_add(struct host *it, const struct volume_wish *wish, struct why *ret_why)
{
    note("add %s ", wish->uri);
    why_say(ret_why, "there are too many");
    return add_error;
}

void host_say(void *ctx, const char *line)
{
    note("say(%s) ", line);
}

struct json_object *status_object(struct host *it)
{
    return json_object_get(status);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static int ends[ASKERS + 2]; // of askers
static unsigned asker_count;

static int set_up(void **state)
{
    host = calloc(1, sizeof *host);
    assert_non_null(host);
    config = (struct host_config){.takes_volumes = true};
    host->config = &config;
    now = NS_PER_S;
    done[0] = '\0';
    asker_count = 0;
    memset(watches, 0, sizeof watches);
    rescan_error = add_error = remove_error = stand_by_error = 0;
    asker_uid = 1000;
    next_asker = -1;
    is_settled = still_there = no_socket = no_watch = false;
    why_of_source = why_of_other = "";
    table.count = 2;
    *tape = (struct resource){
        .volume = 8, .name = "tape", .state = RESOURCE_READY, .profile.size = 1024};
    *disk = (struct resource){.volume = DISK, .name = "disk", .profile.size = 1024};
    *beyond = (struct resource){.name = "beyond", .state = RESOURCE_FAILED};
    status = json_object_new_string("all is well");
    control = control_create(host);
    assert_non_null(control);
    return 0;
}

static int tear_down(void **state)
{
    control_destroy(control);
    assert_null(member);
    for (unsigned i = 0; i < WATCHES; i++) {
        assert_null(watches[i].on_ready);
    }
    for (unsigned i = 0; i < asker_count; i++) {
        close(ends[i]);
    }
    json_object_put(status);
    free(host);
    return 0;
}

// Somebody comes: the test's end.
static int come(void)
{
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    next_asker = pair[0];
    watches[0].on_ready(watches[0].ctx, EPOLLIN);
    for (unsigned i = 1; i < WATCHES; i++) {
        assert_true(watches[i].on_ready == NULL || watches[i].fd != EPOLLIN);
    }
    return ends[asker_count++] = pair[1];
}

// The loop tells of whoever came last.
static void tell(void)
{
    for (unsigned i = WATCHES - 1; i > 0; i--) {
        if (watches[i].on_ready != NULL) {
            watches[i].on_ready(watches[i].ctx, EPOLLIN);
            return;
        }
    }
}

static int ask(const char *line)
{
    int fd = come();
    assert_int_equal(send(fd, line, strlen(line), 0), strlen(line));
    tell();
    return fd;
}

// What is answered now; "": nothing yet; NULL: the end.
static const char *answered(int fd)
{
    static char text[TEXT_LEN];
    ssize_t len = recv(fd, text, sizeof text - 1, 0);
    text[len > 0 ? len : 0] = '\0';
    return len == 0 ? NULL : text;
}

static void expect_end(int fd)
{
    char octet;
    assert_int_equal(recv(fd, &octet, 1, 0), 0);
}

// `text` has ' in place of ", and is all.
static void expect_answer(int fd, const char *text)
{
    char quoted[1024];
    const char *got = answered(fd);
    assert_true(strlen(text) < sizeof quoted);
    snprintf(quoted, sizeof quoted, "%s", text);
    for (char *c = quoted; (c = strchr(c, '\'')) != NULL;) {
        *c = '"';
    }
    assert_non_null(got);
    struct json_object *one = json_tokener_parse(got), *other = json_tokener_parse(quoted);
    if (!json_object_equal(one, other)) {
        fail_msg("%s in place of %s", got, quoted);
    }
    json_object_put(one);
    json_object_put(other);
    expect_end(fd);
}

static void expect_nothing(int fd)
{
    assert_string_equal(answered(fd), "");
}

static void end_of_turn(void)
{
    member->on_batch_end(member->ctx, now);
}

static void pass(duration_ns time)
{
    now += time;
    member->on_deadline(member->ctx, now);
}

/* ---- requests -------------------------------------------------------------------------------- */

static void status_waits_for_counters(void **state)
{
    int fd = ask("status\n");
    expect("counters ");
    assert_true(member->next_deadline(member->ctx) == now + 30 * NS_PER_MS);
    end_of_turn();
    pass(30 * NS_PER_MS - 1);
    expect_nothing(fd);
    pass(1);
    expect_answer(fd, "'all is well'");
    assert_true(member->next_deadline(member->ctx) == INSTANT_NEVER);
}

static void what_is_no_request_is_refused(void **state)
{
    static const char *const lines[] = {"\n",           "statu\n",  "status \n",
                                        "rescan now\n", "add\n",    "remove\n",
                                        "stand-by\n",   "Status\n", "adds x\n"};
    for (unsigned i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        expect_answer(ask(lines[i]), "{'ok': false, 'why': 'there is no such request'}");
        expect("");
    }
}

static void a_volume_is_added_once_it_is_open(void **state)
{
    static const struct {
        enum resource_state state;
        bool is_there;
        const char *what;
    } cases[] = {{RESOURCE_READY, true, "added"},
                 {RESOURCE_STANDBY, true, "added; another node has it"},
                 {RESOURCE_READY, false, "added; it is still being opened"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        disk->state = RESOURCE_NOT_READY;
        table.count = 2;
        int fd = ask("add file:/x\n");
        expect("add file:/x ");
        assert_true(member->next_deadline(member->ctx) == now + 3 * NS_PER_S);
        end_of_turn();
        expect_nothing(fd);
        disk->state = cases[i].state;
        table.count = cases[i].is_there ? 2 : 1;
        end_of_turn();
        snprintf(text, sizeof text, "{'ok': true, 'changes': [{'volume': 'disk', 'what': '%s'}]}",
                 cases[i].what);
        expect_answer(fd, text);
        expect("");
    }
}

static void a_volume_that_takes_long_is_added_all_the_same(void **state)
{
    int fd = ask("add file:/x\n");
    expect("add file:/x ");
    pass(3 * NS_PER_S - 1);
    expect_nothing(fd);
    pass(1);
    expect_answer(fd, "{'ok': true, 'changes': [{'volume': 'disk', "
                      "'what': 'added; it is still being opened'}]}");
}

static void a_volume_that_fails_is_not_added(void **state)
{
    int fd = ask("add file:/x\n");
    disk->state = RESOURCE_FAILED;
    end_of_turn();
    expect_answer(fd, "{'ok': false, 'why': 'no such file'}");
    expect("add file:/x remove disk ");
}

static void what_may_not_be_added_has_a_reason(void **state)
{
    static const struct {
        bool takes_volumes;
        int error;
        const char *line, *why, *done;
    } cases[] = {
        {false, 0, "add x\n", "this node takes no volumes from outside: start it with --allow-add",
         ""},
        {true, 0, "add bad\n", "it is no URI", ""},
        {true, 0, "add glob:/a/*\n",
         "a pattern stands on the command line or in the configuration file", ""},
        {true, -ENOSPC, "add x\n", "there are too many", "add x "},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        config.takes_volumes = cases[i].takes_volumes;
        add_error = cases[i].error;
        snprintf(text, sizeof text, "{'ok': false, 'why': '%s'}", cases[i].why);
        expect_answer(ask(cases[i].line), text);
        expect(cases[i].done);
    }
}

static void a_volume_is_removed_when_it_has_gone(void **state)
{
    still_there = true;
    int fd = ask("remove disk\n");
    expect("remove disk ");
    end_of_turn();
    expect_nothing(fd);
    still_there = false;
    end_of_turn();
    expect_answer(fd, "{'ok': true, 'changes': [{'volume': 'disk', 'what': 'removed'}]}");
    still_there = true;
    fd = ask("remove disk\n");
    pass(3 * NS_PER_S);
    expect_answer(fd, "{'ok': true, 'changes': [{'volume': 'disk', "
                      "'what': 'going; its device has not answered yet'}]}");
    remove_error = -ENOENT;
    expect_answer(ask("remove x\n"), "{'ok': false, 'why': 'there is no such volume'}");
}

static void who_is_to_stand_by_does_or_has_a_reason(void **state)
{
    static const struct {
        int error;
        const char *text;
    } cases[] = {
        {0, "{'ok': true, 'changes': [{'volume': 'disk', 'what': 'stands by'}]}"},
        {-EINVAL, "{'ok': false, 'why': 'no other node serves it: both serve it with standby=on'}"},
        {-EALREADY, "{'ok': false, 'why': 'it stands by: ask the node that serves it'}"},
        {-ENOENT, "{'ok': false, 'why': 'there is no such volume'}"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        stand_by_error = cases[i].error;
        expect_answer(ask("stand-by disk\n"), cases[i].text);
        expect("stand by disk ");
    }
}

/* ---- rescans --------------------------------------------------------------------------------- */

static void a_rescan_tells_what_has_changed(void **state)
{
    disk->state = RESOURCE_READY;
    come(); // who asks for nothing yet
    int fd = ask("rescan\n");
    expect("rescan ");
    end_of_turn();
    expect_nothing(fd);
    control_note(control, "found", "added");
    tape->profile.size = 2048;
    is_settled = true;
    end_of_turn();
    expect_answer(fd, "{'ok': true, 'changes': [{'volume': 'disk', 'what': 'another rate'},"
                      " {'volume': 'found', 'what': 'added'},"
                      " {'volume': 'tape', 'what': '2K octets'}]}");
    control_note(control, "found", "removed"); // nobody asks
    control_note(NULL, "found", "removed");
}

static void a_size_is_that_of_a_volume_that_is_open(void **state)
{
    come();
    int fd = ask("rescan\n");
    disk->profile.size = 0;
    table.count = 3; // one that there was not
    beyond->state = RESOURCE_READY;
    pass(3 * NS_PER_S);
    expect_answer(fd, "{'ok': true, 'changes': [{'volume': 'disk', 'what': 'another rate'}]}");
}

static void a_rescan_that_fails_has_a_reason(void **state)
{
    static const struct {
        int error;
        enum resource_state state;
        const char *other, *source, *why;
    } cases[] = {
        {-EINVAL, RESOURCE_READY, "", "", "line 1: no"},
        {0, RESOURCE_FAILED, "", "", "volume disk: no such file"},
        {0, RESOURCE_FAILED, "", "it is away", "iscsi://h/*: it is away"},
        {0, RESOURCE_READY, "", "it is away", "iscsi://h/*: it is away"},
        {0, RESOURCE_READY, "no right", "it is away", "glob:/a/*: no right"},
    };
    is_settled = true;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[256];
        rescan_error = cases[i].error;
        disk->state = cases[i].state;
        why_of_source = cases[i].source;
        why_of_other = cases[i].other;
        int fd = ask("rescan\n");
        end_of_turn();
        snprintf(text, sizeof text,
                 "{'ok': false, 'why': '%s', 'changes': [{'volume': 'disk', "
                 "'what': 'another rate'}]}",
                 cases[i].why);
        expect_answer(fd, text);
    }
    disk->state = beyond->state = RESOURCE_FAILED;
    table.count = 3;
    why_of_source = why_of_other = "";
    int fd = ask("rescan\n");
    end_of_turn();
    assert_non_null(strstr(answered(fd), "volume disk: no such file")); // the first
}

/* ---- askers ---------------------------------------------------------------------------------- */

static void who_may_ask_is_this_user_or_root(void **state)
{
    static const struct {
        int uid;
        bool may;
    } cases[] = {{1000, true}, {0, true}, {1001, false}, {1, false}, {-2, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asker_uid = cases[i].uid;
        int fd = come();
        if (cases[i].may) {
            expect_nothing(fd);
        } else {
            expect_end(fd);
        }
    }
    watches[0].on_ready(watches[0].ctx, EPOLLIN); // nobody is there
    no_watch = true;
    asker_uid = 0;
    expect_end(come());
}

static void sixteen_may_ask_at_a_time(void **state)
{
    int fds[ASKERS];
    for (unsigned i = 0; i < ASKERS; i++) {
        fds[i] = come();
    }
    for (unsigned i = 0; i < ASKERS; i++) {
        expect_nothing(fds[i]);
    }
    expect_end(come());
    assert_true(member->next_deadline(member->ctx) == now + 5 * NS_PER_S);
    pass(5 * NS_PER_S); // who says nothing is not waited for
    for (unsigned i = 0; i < ASKERS; i++) {
        expect_end(fds[i]);
    }
    expect_nothing(come());
}

static void a_request_may_come_in_pieces(void **state)
{
    int fd = ask("sta");
    tell(); // nothing is there
    expect("");
    send(fd, "tus\nrescan\n", 11, 0);
    tell();
    expect("counters ");
    tell();
    send(fd, "rescan\n", 7, 0); // it waits for an answer
    tell();
    expect("");
    pass(30 * NS_PER_MS);
    assert_string_equal(answered(fd), "\"all is well\"");
}

static void who_goes_is_let_go(void **state)
{
    int fd = come();
    shutdown(fd, SHUT_WR);
    tell();
    expect_end(fd);
    expect("");
}

static void a_line_has_a_greatest_length(void **state)
{
    enum { LENGTH_MAX = UNIT_URI_MAX + VOLUME_NAME_MAX + 15 };
    static char line[LENGTH_MAX + 2];
    memset(line, 'x', sizeof line);
    int fd = come();
    send(fd, line, LENGTH_MAX - 1, 0);
    tell();
    expect_nothing(fd);
    send(fd, "\n", 1, 0);
    tell();
    expect_answer(fd, "{'ok': false, 'why': 'there is no such request'}");
    fd = come();
    send(fd, line, LENGTH_MAX, 0);
    tell();
    expect_end(fd);
    fd = come();
    send(fd, line, sizeof line, 0);
    tell();
    char octet;
    ssize_t got = recv(fd, &octet, 1, 0);
    assert_true(got == 0 || (got < 0 && errno == ECONNRESET));
}

static void a_long_answer_leaves_as_it_is_taken(void **state)
{
    enum { LONG = 600000 };
    static char much[LONG + 1], got[LONG + 16];
    memset(much, 'y', LONG);
    json_object_put(status);
    status = json_object_new_string(much);
    int fd = ask("status\n");
    assert_int_equal(watches[1].events, EPOLLIN);
    pass(30 * NS_PER_MS);
    assert_int_equal(watches[1].events, EPOLLOUT);
    size_t len = 0;
    for (unsigned i = 0; i < 1000; i++) {
        ssize_t some = recv(fd, got + len, sizeof got - len, 0);
        if (some == 0) {
            break;
        }
        len += some > 0 ? (size_t)some : 0;
        tell();
    }
    assert_int_equal(len, LONG + 2);
    assert_memory_equal(got + 1, much, LONG);
    fd = ask("status\n");
    pass(30 * NS_PER_MS);
    assert_true(member->next_deadline(member->ctx) == now + 5 * NS_PER_S);
    pass(5 * NS_PER_S); // who does not read it is let go
    assert_true(member->next_deadline(member->ctx) == INSTANT_NEVER);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void a_node_without_a_socket_says_so(void **state)
{
    control_destroy(control);
    no_socket = true;
    control = control_create(host);
    expect("say(weft status and weft rescan will not find this node: no folder; WEFT_RUNTIME_DIR "
           "names another folder) ");
    assert_true(member->next_deadline(member->ctx) == INSTANT_NEVER);
    end_of_turn();
}

static void who_still_asks_at_the_end_is_let_go(void **state)
{
    int fd = ask("status\n");
    int listener = watches[0].fd;
    assert_int_equal(watches[0].events, EPOLLIN);
    assert_int_equal(access(path_of_socket, F_OK), 0);
    control_destroy(control);
    expect_end(fd);
    assert_int_equal(access(path_of_socket, F_OK), -1);
    assert_int_equal(lseek(listener, 0, SEEK_CUR), -1);
    control_destroy(NULL);
    control = control_create(host);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(status_waits_for_counters),
        TEST(what_is_no_request_is_refused),
        TEST(a_volume_is_added_once_it_is_open),
        TEST(a_volume_that_takes_long_is_added_all_the_same),
        TEST(a_volume_that_fails_is_not_added),
        TEST(what_may_not_be_added_has_a_reason),
        TEST(a_volume_is_removed_when_it_has_gone),
        TEST(who_is_to_stand_by_does_or_has_a_reason),
        TEST(a_rescan_tells_what_has_changed),
        TEST(a_size_is_that_of_a_volume_that_is_open),
        TEST(a_rescan_that_fails_has_a_reason),
        TEST(who_may_ask_is_this_user_or_root),
        TEST(sixteen_may_ask_at_a_time),
        TEST(a_request_may_come_in_pieces),
        TEST(who_goes_is_let_go),
        TEST(a_line_has_a_greatest_length),
        TEST(a_long_answer_leaves_as_it_is_taken),
        TEST(a_node_without_a_socket_says_so),
        TEST(who_still_asks_at_the_end_is_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
