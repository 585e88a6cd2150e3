// A source whose envoy is in the hands of whoever it was to ask: what the host believes of it.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/time.h"
#include "node/discovery/envoy.h"
#include "node/discovery/remote_uri.h"
#include "node/discovery/report.h"
#include "node/discovery/source.h"
#include "node/discovery/sources.h"
#include "node/loop/loop.h"

enum { MANY = 3000, MOST = 5, SAID_MAX = 4096 };

/* ---- the envoy ------------------------------------------------------------------------------- */

static void tell(enum report_kind kind, const char *where, const char *target, uint32_t number)
{
    struct report report = {.kind = kind, .number = number};
    snprintf(report.where, sizeof report.where, "%s", where);
    snprintf(report.target, sizeof report.target, "%s", target);
    snprintf(report.text, sizeof report.text, "%s", target);
    send(ENVOY_FD_CHANNEL, &report, sizeof report, MSG_NOSIGNAL);
}

static void tell_many(void)
{
    for (uint32_t i = 0; i < MANY; i++) {
        tell(REPORT_UNIT, "", "iqn.a", i);
    }
    tell(REPORT_KEPT, "", "iqn.a", 0);
}

static void tell_strange(void)
{
    tell(REPORT_UNIT, "", "../../etc/shadow", 1);
    tell(REPORT_UNIT, "me@h", "iqn.a", 1);
    tell(REPORT_UNIT, "h/x?", "iqn.a", 1);
    tell(REPORT_UNIT, "", "iqn.a\n\x1b[2J", 1);
    tell(REPORT_UNIT, "", "iqn.good", 2);
    tell(REPORT_UNIT, "", "iqn.good", 2);
}

static void tell_own(void)
{
    tell(REPORT_UNIT, "", "iqn.own", 1);
    tell(REPORT_KEPT, "", "iqn.own", 0);
    tell(REPORT_UNIT, "", "iqn.good", 2);
}

static void tell_made_of_own(void)
{
    struct report report = {.kind = REPORT_UNIT, .target = "iqn.loop", .lineage.count = 2};
    send(ENVOY_FD_CHANNEL, &report, sizeof report, MSG_NOSIGNAL);
    tell(REPORT_UNIT, "", "iqn.good", 2);
}

static void tell_endless(void)
{
    struct report report;
    memset(&report, 'x', sizeof report);
    report.kind = REPORT_UNIT;
    send(ENVOY_FD_CHANNEL, &report, sizeof report, MSG_NOSIGNAL);
}

static void tell_nonsense(void)
{
    tell((enum report_kind)4711, "", "", 0);
}

static void tell_half(void)
{
    send(ENVOY_FD_CHANNEL, "half", 4, MSG_NOSIGNAL);
}

static const struct {
    const char *name;
    void (*tell)(void);
} parts[] = {{"many", tell_many},       {"strange", tell_strange},   {"own", tell_own},
             {"endless", tell_endless}, {"nonsense", tell_nonsense}, {"half", tell_half},
             {"loop", tell_made_of_own}};

// What it plays is the host that it is to ask.
static int envoy_main(void)
{
    struct order order;
    if (recv(ENVOY_FD_CHANNEL, &order, sizeof order, 0) != sizeof order) {
        return EXIT_FAILURE;
    }
    tell(REPORT_BEGIN, "", "", 0);
    for (unsigned i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (strstr(order.text, parts[i].name) != NULL) {
            parts[i].tell();
        }
    }
    tell(REPORT_END, "", "", 0);
    return recv(ENVOY_FD_CHANNEL, &order, sizeof order, 0) > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- the host -------------------------------------------------------------------------------- */

static struct loop *loop;
static struct sources *sources;
static unsigned number, count;
static char said[SAID_MAX], last_uri[UNIT_URI_MAX];
static instant_ns until;

static void say(void *ctx, const char *line)
{
    snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", line);
}

static void on_change(void *ctx)
{
}

static bool is_own(void *ctx, const char *target)
{
    return strcmp(target, "iqn.own") == 0;
}

static bool is_of_own(void *ctx, const struct volume_lineage *lineage)
{
    return lineage->count == 2;
}

// The loop ends when the source has answered or failed.
static void on_batch_end(void *ctx, instant_ns now)
{
    if (sources_are_settled(sources) || now >= until) {
        loop_stop(loop);
    }
}

static instant_ns next_deadline(void *ctx)
{
    return until;
}

static void on_deadline(void *ctx, instant_ns now)
{
}

static void seen(void *ctx, const struct source_found *found)
{
    count++;
    snprintf(last_uri, sizeof last_uri, "%s", found->uri);
}

static struct source_status ask(const char *uri)
{
    struct loop_member member = {
        .on_batch_end = on_batch_end, .next_deadline = next_deadline, .on_deadline = on_deadline};
    struct source_status status;
    number = sources_want(sources, uri);
    assert_true(number != 0);
    until = instant_after(loop_clock(), 10 * NS_PER_S);
    loop_join(loop, &member);
    loop_run(loop);
    loop_leave(loop, &member);
    assert_true(sources_are_settled(sources));
    assert_int_equal(sources_at(sources, 0, &status), number);
    count = 0;
    sources_each(sources, number, seen, NULL);
    return status;
}

static int setup(void **state)
{
    loop = loop_create();
    const struct source_host host = {
        .loop = loop, .on_change = on_change, .say = say, .is_own = is_own, .is_of_own = is_of_own};
    sources = sources_create(&host);
    said[0] = '\0';
    return loop != NULL && sources != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    sources_destroy(sources);
    loop_destroy(loop);
    return 0;
}

/* ---- what it believes ------------------------------------------------------------------------ */

static void volumes_are_no_more_than_the_operator_allows(void **state)
{
    struct source_status status = ask("iscsi://many/*?most=5");
    assert_int_equal(count, MOST);
    assert_int_equal(status.volumes, MOST);
    assert_int_equal(status.left_out, MANY - MOST);
    assert_int_equal(status.unasked, 1);
}

static void no_word_of_it_names_another_device(void **state)
{
    struct source_status status = ask("iscsi://strange/*");
    assert_int_equal(count, 1); // which it names twice
    assert_string_equal(last_uri, "iscsi://strange/iqn.good/2");
    assert_int_equal(status.left_out, 4);
    assert_null(strchr(said, '\x1b'));
}

static void what_is_shown_of_a_source_has_no_user_password_or_secret(void **state)
{
    static const struct {
        const char *uri, *shown;
    } cases[] = {
        {"iscsi://own/*", "iscsi://own/*"},
        {"log+iscsi://me%25pw@own:7/iqn.*", "log+iscsi://own:7/iqn.*"},
        {"iscsi://me%25p@w@own/*", "iscsi://own/*"},
        {"iscsi://me%25p@own/*?target_user=it&target_secret=hush&most=5",
         "iscsi://own/*?target_user=it&most=5"},
        {"iscsi://me%25p%2fw@own/*", "iscsi://own/*"},
        {"iscsi://me%25p@own/*?initiator=iqn.a@b", "iscsi://own/*?initiator=iqn.a@b"},
        {"iscsi://me%25p@own/*?target_secret=hush&target_user=it", "iscsi://own/*?target_user=it"},
        {"iscsi://own/*?target_secret=hush", "iscsi://own/*"}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        number = sources_want(sources, cases[i].uri);
        assert_string_equal(sources_uri(sources, number), cases[i].shown);
    }
}

static void what_the_host_serves_itself_is_left_out(void **state)
{
    struct source_status status = ask("iscsi://own/*");
    assert_int_equal(count, 1);
    assert_string_equal(last_uri, "iscsi://own/iqn.good/2");
    assert_int_equal(status.own, 2);
    assert_int_equal(status.left_out, 0);
    assert_int_equal(status.unasked, 0);
    assert_non_null(strstr(said, "2 volumes there are this node's own"));
}

static void what_is_made_of_it_elsewhere_is_left_out_too(void **state)
{
    struct source_status status = ask("iscsi://loop/*");
    assert_int_equal(count, 1);
    assert_string_equal(last_uri, "iscsi://loop/iqn.good/2");
    assert_int_equal(status.own, 1);
}

static void a_text_without_an_end_has_one(void **state)
{
    ask("iscsi://endless/*");
    assert_int_equal(count, 1);
    assert_int_equal(strspn(strrchr(last_uri, 'x') - (REMOTE_TARGET_MAX - 2), "x"),
                     REMOTE_TARGET_MAX - 1);
    assert_int_equal(strspn(last_uri + strlen("iscsi://"), "x"), REMOTE_HOST_MAX - 1);
}

static void what_is_no_report_ends_it(void **state)
{
    struct source_status status = ask("iscsi://nonsense/*");
    assert_int_equal(status.failures, 1);
    assert_non_null(strstr(said, "it cannot be asked: its process was ended by signal 9"));
}

static void half_a_report_ends_it_too(void **state)
{
    struct source_status status = ask("iscsi://half/*");
    assert_int_equal(status.failures, 1);
    assert_non_null(strstr(status.why, "signal 9"));
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], ENVOY_PROCESS_COMMAND) == 0) {
        return envoy_main();
    }
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(volumes_are_no_more_than_the_operator_allows),
        CASE(no_word_of_it_names_another_device),
        CASE(what_is_shown_of_a_source_has_no_user_password_or_secret),
        CASE(what_the_host_serves_itself_is_left_out),
        CASE(what_is_made_of_it_elsewhere_is_left_out_too),
        CASE(a_text_without_an_end_has_one),
        CASE(what_is_no_report_ends_it),
        CASE(half_a_report_ends_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
