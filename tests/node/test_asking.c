// What a process that asks reports of it, in the host's words: when, of what, how many, and what
// becomes of it when the host is gone.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "node/discovery/asking.h"
#include "node/discovery/report.h"
#include "node/loop/loop.h"

static instant_ns now;
static int pair[2];
static struct remote_uri uri = {.pattern = "iqn.*:a", .most = 2};

instant_ns __wrap_loop_clock(void);
instant_ns __wrap_loop_clock(void)
{
    return now;
}

// The next report; none: its kind is 0.
static struct report heard(void)
{
    struct report report;
    bool is_there = recv(pair[0], &report, sizeof report, MSG_DONTWAIT) == sizeof report;
    return is_there ? report : (struct report){0};
}

static struct asking begun(void)
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    return (struct asking){.uri = &uri, .channel = pair[1], .until = 1000};
}

static void end(void)
{
    assert_int_equal(heard().kind, 0); // nothing more has been said
    close(pair[0]);
    close(pair[1]);
}

static void it_has_time_until_then(void **state)
{
    struct asking asking = {.until = 1000};
    now = 999;
    assert_true(asking_has_time(&asking));
    now = 1000;
    assert_false(asking_has_time(&asking));
}

static void it_wants_what_the_pattern_matches(void **state)
{
    struct asking asking = {.uri = &uri};
    assert_true(asking_wants(&asking, "iqn.x/y:a"));
    assert_false(asking_wants(&asking, "iqn.x:b"));
    assert_false(asking_wants(&asking, uri.pattern + 1));
}

static void a_reading_begins_and_ends(void **state)
{
    struct asking asking = begun();
    asking.left_out = 7;
    asking_begin(&asking);
    struct report report = heard();
    assert_int_equal(report.kind, REPORT_BEGIN);
    assert_string_equal(report.text, "");
    static const struct {
        int error;
        enum report_kind kind;
    } cases[] = {{0, REPORT_END}, {-1, REPORT_FAILED}, {1, REPORT_FAILED}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        asking_end(&asking, cases[i].error, "why it is so");
        report = heard();
        assert_int_equal(report.kind, cases[i].kind);
        assert_int_equal(report.number, 7);
        assert_string_equal(report.text, "why it is so");
        assert_string_equal(report.target, "");
    }
    end();
}

static const struct volume_lineage nothing;

static void a_unit_is_said_where_it_is(void **state)
{
    const struct volume_lineage made_of = {.count = 2, .uuids = {{5}, {6}}};
    struct asking asking = begun();
    asking_unit(&asking, "h:1", "iqn.a", 9, &made_of);
    struct report report = heard();
    assert_int_equal(report.kind, REPORT_UNIT);
    assert_int_equal(report.number, 9);
    assert_string_equal(report.where, "h:1");
    assert_string_equal(report.target, "iqn.a");
    assert_memory_equal(&report.lineage, &made_of, sizeof made_of);
    assert_false(asking_is_full(&asking));
    asking_unit(&asking, "", "iqn.b", 1, &nothing);
    assert_string_equal(heard().where, "");
    assert_true(asking_is_full(&asking));
    asking_unit(&asking, "", "iqn.c", 2, &nothing); // one too many
    assert_int_equal(asking.units, 2);
    assert_int_equal(asking.left_out, 1);
    end();
}

// Names as long as there is room for are said whole; longer ones are left out.
static void no_name_is_said_in_part(void **state)
{
    static const struct {
        size_t where_len, target_len;
        bool is_said;
    } cases[] = {{REMOTE_HOST_MAX - 1, REMOTE_TARGET_MAX - 1, true},
                 {REMOTE_HOST_MAX, 1, false},
                 {1, REMOTE_TARGET_MAX, false}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct asking asking = begun();
        char where[REMOTE_HOST_MAX + 1] = "", target[REMOTE_TARGET_MAX + 1] = "";
        memset(where, 'w', cases[i].where_len);
        memset(target, 't', cases[i].target_len);
        asking_unit(&asking, where, target, 3, &nothing);
        struct report report = heard();
        assert_int_equal(report.kind, cases[i].is_said ? REPORT_UNIT : 0);
        assert_int_equal(asking.units, cases[i].is_said);
        assert_int_equal(asking.left_out, !cases[i].is_said);
        if (cases[i].is_said) {
            assert_string_equal(report.where, where);
            assert_string_equal(report.target, target);
        }
        end();
    }
}

static void what_could_not_be_asked_is_kept(void **state)
{
    struct asking asking = begun();
    asking_keep(&asking, "iqn.a", "it is shy");
    struct report report = heard();
    assert_int_equal(report.kind, REPORT_KEPT);
    assert_string_equal(report.target, "iqn.a");
    assert_string_equal(report.text, "it is shy");
    assert_int_equal(asking.units + asking.left_out, 0);
    end();
}

static void who_asks_ends_where_nobody_listens(void **state)
{
    struct asking asking = begun();
    close(pair[0]);
    pid_t child = fork();
    if (child == 0) {
        asking_begin(&asking);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status)); // and not by SIGPIPE
    assert_int_equal(WEXITSTATUS(status), EXIT_FAILURE);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_time_until_then),
        cmocka_unit_test(it_wants_what_the_pattern_matches),
        cmocka_unit_test(a_reading_begins_and_ends),
        cmocka_unit_test(a_unit_is_said_where_it_is),
        cmocka_unit_test(no_name_is_said_in_part),
        cmocka_unit_test(what_could_not_be_asked_is_kept),
        cmocka_unit_test(who_asks_ends_where_nobody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
