// An iSCSI portal that is asked, before a libiscsi that is a few tables: whom it logs in to and
// how, which units it reports, and what becomes of who answers badly or late.

#include <errno.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
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
#include "format/scsi.h"
#include "node/discovery/asker.h"
#include "node/discovery/asking.h"
#include "node/discovery/remote_uri.h"
#include "node/discovery/report.h"
#include "node/loop/loop.h"

enum { SAID_MAX = 4096, UNIT_COUNT = 6 };

/* ---- the portal ------------------------------------------------------------------------------ */

struct iscsi_context {
    char initiator[128], target[128], user[64], password[64];
    enum iscsi_session_type type;
    bool has_isid;
};

static struct {
    struct iscsi_discovery_address *targets;
    const char *error;               // of who fails
    const char *fails;               // the call, of discovery sessions ...
    const char *fails_target;        // ... or (not NULL) of the one to this target
    bool is_late;                    // from the first unit on
    char told[SAID_MAX];             // sessions, in order
    unsigned contexts, tasks, lists; // lent and not given back
    uint8_t qualifier, device_type, status;
    uint16_t other; // the unit that is no disk as these say
    struct asking *asking;
} portal;

static void tell(const char *what, const char *whom)
{
    size_t len = strlen(portal.told);
    snprintf(portal.told + len, sizeof portal.told - len, "%s%s ", what, whom);
}

static bool fails(const struct iscsi_context *context, const char *call)
{
    const char *target = portal.fails_target != NULL ? portal.fails_target : "";
    return portal.fails != NULL && strcmp(target, context->target) == 0 &&
           strcmp(portal.fails, call) == 0;
}

struct iscsi_context *iscsi_create_context(const char *initiator_name)
{
    if (portal.fails != NULL && strcmp(portal.fails, "create") == 0) {
        return NULL;
    }
    struct iscsi_context *context = calloc(1, sizeof *context);
    snprintf(context->initiator, sizeof context->initiator, "%s", initiator_name);
    portal.contexts++;
    return context;
}

int iscsi_destroy_context(struct iscsi_context *context)
{
    portal.contexts--;
    free(context);
    return 0;
}

const char *iscsi_get_error(struct iscsi_context *context)
{
    return portal.error;
}

int iscsi_set_timeout(struct iscsi_context *context, int timeout)
{
    assert_true(timeout > 0); // no end: never
    return 0;
}

void iscsi_set_tcp_syncnt(struct iscsi_context *context, int value)
{
    assert_true(value > 0);
}

void iscsi_set_noautoreconnect(struct iscsi_context *context, int state)
{
    assert_int_equal(state, 1);
}

int iscsi_set_isid_random(struct iscsi_context *context, uint32_t random, uint32_t qualifier)
{
    assert_true(random <= 0xffffff && qualifier <= 0xffff);
    context->has_isid = true;
    return 0;
}

int iscsi_set_session_type(struct iscsi_context *context, enum iscsi_session_type type)
{
    context->type = type;
    return 0;
}

int iscsi_set_header_digest(struct iscsi_context *context, enum iscsi_header_digest digest)
{
    return 0;
}

int iscsi_set_targetname(struct iscsi_context *context, const char *name)
{
    snprintf(context->target, sizeof context->target, "%s", name);
    return 0;
}

int iscsi_set_initiator_username_pwd(struct iscsi_context *context, const char *user,
                                     const char *password)
{
    snprintf(context->user, sizeof context->user, "%s", user);
    snprintf(context->password, sizeof context->password, "%s", password);
    return 0;
}

int iscsi_connect_sync(struct iscsi_context *context, const char *where)
{
    assert_true(context->has_isid);
    assert_true((context->type == ISCSI_SESSION_NORMAL) == (context->target[0] != '\0'));
    tell("at:", where);
    return fails(context, "connect") ? -1 : 0;
}

int iscsi_login_sync(struct iscsi_context *context)
{
    tell("in:", context->target);
    if (context->user[0] != '\0') {
        tell("user:", context->user);
        tell("password:", context->password);
    }
    return fails(context, "login") ? -1 : 0;
}

int iscsi_logout_sync(struct iscsi_context *context)
{
    tell("out:", context->target);
    return 0;
}

struct iscsi_discovery_address *iscsi_discovery_sync(struct iscsi_context *context)
{
    assert_int_equal(context->type, ISCSI_SESSION_DISCOVERY);
    portal.lists++;
    return fails(context, "discovery") ? NULL : portal.targets;
}

void iscsi_free_discovery_data(struct iscsi_context *context, struct iscsi_discovery_address *list)
{
    portal.lists--;
}

static struct scsi_task *task_of(bool is_there, int status, void *data)
{
    struct scsi_task *task = is_there ? calloc(1, sizeof *task) : NULL;
    if (task != NULL) {
        task->status = status;
        task->ptr = data;
        portal.tasks++;
    }
    return task;
}

void *scsi_datain_unmarshall(struct scsi_task *task)
{
    return task->ptr;
}

void scsi_free_scsi_task(struct scsi_task *task)
{
    portal.tasks--;
    free(task);
}

struct scsi_task *iscsi_reportluns_sync(struct iscsi_context *context, int type, int len)
{
    static struct {
        uint32_t num;
        uint16_t luns[UNIT_COUNT];
    } units = {.num = UNIT_COUNT, .luns = {0, 1, 2, 3, 4, 255}};
    assert_int_equal(type, 0);
    assert_true(len >= 16); // the least of REPORT LUNS
    bool is_bad = fails(context, "units status");
    return task_of(!fails(context, "units"), is_bad ? SCSI_STATUS_CHECK_CONDITION : 0,
                   fails(context, "units data") ? NULL : &units);
}

// The first unit tells what it is made of, the third lies about how much, the others have no page.
static struct scsi_task *lineage_page(int lun, int page, int len)
{
    static uint8_t data[4 + VOLUME_LINEAGE_LEN];
    struct scsi_task *task = task_of(lun < 4, lun == 1 ? SCSI_STATUS_CHECK_CONDITION : 0, NULL);
    assert_int_equal(page, SCSI_VOLUME_LINEAGE);
    assert_int_equal(len, sizeof data);
    volume_lineage_emit(&(struct resource){.profile.lineage.count = 1}, data + 4);
    if (task != NULL) {
        task->datain.data = data;
        task->datain.size = lun == 2 ? 3 : lun == 3 ? sizeof data - 1 : sizeof data;
    }
    return task;
}

struct scsi_task *iscsi_inquiry_sync(struct iscsi_context *context, int lun, int evpd, int page,
                                     int len)
{
    static struct scsi_inquiry_standard disk, other;
    if (evpd == 1) {
        return lineage_page(lun, page, len);
    }
    assert_int_equal(evpd, 0);
    assert_int_equal(page, 0);
    assert_true(len >= 36);
    other.qualifier = (enum scsi_inquiry_peripheral_qualifier)portal.qualifier;
    other.device_type = (enum scsi_inquiry_peripheral_device_type)portal.device_type;
    bool is_other = lun == portal.other;
    if (portal.is_late) {
        portal.asking->until = 0;
    }
    return task_of(!(is_other && fails(context, "inquiry")), is_other ? portal.status : 0,
                   is_other ? &other : &disk);
}

/* ---- who asks -------------------------------------------------------------------------------- */

static struct iscsi_target_portal anywhere = {.portal = "0.0.0.0:3260,1"},
                                  anywhere_6 = {.portal = "[::]:3260,1"},
                                  same = {.portal = "h:3260,1"}, second = {.portal = "g2:3260,1"},
                                  first = {.portal = "g1:3261,1", .next = &second},
                                  there_too = {.portal = "g3:1,2", .next = &same},
                                  empty = {.portal = ",1"};

static char reported[SAID_MAX];
static uint32_t lineages; // how many volumes all units together were said to be made of

static void reports_take(int fd)
{
    struct report report;
    reported[0] = '\0';
    lineages = 0;
    while (recv(fd, &report, sizeof report, MSG_DONTWAIT) == sizeof report) {
        char *end = strchr(reported, '\0');
        size_t left = sizeof reported - (size_t)(end - reported);
        lineages += report.lineage.count;
        if (report.kind == REPORT_UNIT) {
            snprintf(end, left, "%s@%s/%u ", report.target, report.where, report.number);
        } else {
            assert_int_equal(report.kind, REPORT_KEPT);
            snprintf(end, left, "%s kept: %s; ", report.target, report.text);
        }
    }
}

// Asks what `uri` names until it has no time any more. What it says, and how many it leaves out.
static int ask(const char *uri_text, uint32_t left_out, struct why *ret_why)
{
    struct remote_uri uri;
    int pair[2];
    assert_int_equal(remote_uri_parse(uri_text, &uri, ret_why), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    struct asking asking = {
        .uri = &uri, .channel = pair[1], .until = instant_after(loop_clock(), 60 * NS_PER_S)};
    portal.asking = &asking;
    portal.told[0] = '\0';
    void *self = asker_portal.create(&uri);
    assert_non_null(self);
    ret_why->text[0] = '\0';
    int error = asker_portal.read(self, &asking, ret_why);
    free(self);
    reports_take(pair[0]);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(portal.contexts, 0);
    assert_int_equal(portal.tasks, 0);
    assert_int_equal(portal.lists, 0);
    assert_int_equal(asking.left_out, left_out);
    return error;
}

static int fresh(void **state)
{
    memset(&portal, 0, sizeof portal);
    portal.error = "";
    portal.other = 999;
    return 0;
}

static void each_disk_of_each_target_is_a_unit(void **state)
{
    struct iscsi_discovery_address b = {.target_name = "iqn.b"},
                                   a = {.target_name = "iqn.a", .next = &b};
    struct why why;
    portal.targets = &a;
    assert_int_equal(ask("iscsi://h:3260/*", 0, &why), 0);
    assert_string_equal(reported, "iqn.a@/0 iqn.a@/1 iqn.a@/2 iqn.a@/3 iqn.a@/4 iqn.a@/255 "
                                  "iqn.b@/0 iqn.b@/1 iqn.b@/2 iqn.b@/3 iqn.b@/4 iqn.b@/255 ");
    assert_string_equal(portal.told, "at:h:3260 in: at:h:3260 in:iqn.a out:iqn.a "
                                     "at:h:3260 in:iqn.b out:iqn.b out: ");
}

static void a_unit_tells_what_it_is_made_of(void **state)
{
    struct iscsi_discovery_address a = {.target_name = "iqn.a"};
    struct why why;
    portal.targets = &a;
    assert_int_equal(ask("iscsi://h:3260/*", 0, &why), 0);
    assert_int_equal(lineages, 2); // by the first one's page alone
}

static void the_pattern_says_which_targets_are_asked(void **state)
{
    struct iscsi_discovery_address b = {.target_name = "iqn.b"},
                                   a = {.target_name = "iqn.a", .next = &b};
    struct why why;
    portal.targets = &a;
    assert_int_equal(ask("iscsi://h:3260/*b", 0, &why), 0);
    assert_string_equal(portal.told, "at:h:3260 in: at:h:3260 in:iqn.b out:iqn.b out: ");
}

static void what_is_no_disk_is_no_unit(void **state)
{
    static const struct {
        uint8_t qualifier, device_type, status;
        const char *fails;
        bool is_disk;
    } cases[] = {{0, 0, 0, NULL, true},      {1, 0, 0, NULL, false}, // no device there now
                 {3, 0, 0, NULL, false},                             // nor ever
                 {0, 5, 0, NULL, false},                             // a drive of CDs
                 {0, 12, 0, NULL, false},    {0, 0, SCSI_STATUS_CHECK_CONDITION, NULL, false},
                 {0, 0, 0, "inquiry", false}};
    struct iscsi_discovery_address a = {.target_name = "iqn.a"};
    struct why why;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        portal.targets = &a;
        portal.other = 2;
        portal.qualifier = cases[i].qualifier;
        portal.device_type = cases[i].device_type;
        portal.status = cases[i].status;
        portal.fails = cases[i].fails;
        portal.fails_target = "iqn.a";
        assert_int_equal(ask("iscsi://h/*", 0, &why), 0);
        assert_string_equal(
            reported, cases[i].is_disk ? "iqn.a@/0 iqn.a@/1 iqn.a@/2 iqn.a@/3 iqn.a@/4 iqn.a@/255 "
                                       : "iqn.a@/0 iqn.a@/1 iqn.a@/3 iqn.a@/4 iqn.a@/255 ");
    }
}

// Where it is asked, if it is there; else where it says first.
static void a_target_is_asked_where_it_is(void **state)
{
    static const struct {
        struct iscsi_target_portal *portals;
        const char *where;
    } cases[] = {{NULL, ""},       {&same, ""},  {&anywhere, ""},     {&anywhere_6, ""},
                 {&there_too, ""}, {&empty, ""}, {&first, "g1:3261"}, {&second, "g2:3260"}};
    struct why why;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct iscsi_discovery_address a = {.target_name = "iqn.a", .portals = cases[i].portals};
        char expected[SAID_MAX], at[64];
        portal.targets = &a;
        assert_int_equal(ask("iscsi://h:3260/*?most=1", 0, &why), 0);
        snprintf(expected, sizeof expected, "iqn.a@%s/0 ", cases[i].where);
        assert_string_equal(reported, expected);
        snprintf(at, sizeof at, "at:%s in:iqn.a",
                 cases[i].where[0] != '\0' ? cases[i].where : "h:3260");
        assert_non_null(strstr(portal.told, at));
    }
}

static void an_address_of_any_length_is_taken_or_left(void **state)
{
    char host[2 * REMOTE_HOST_MAX];
    struct iscsi_target_portal one = {.portal = host};
    struct iscsi_discovery_address a = {.target_name = "iqn.a", .portals = &one};
    struct why why;
    portal.targets = &a;
    for (size_t len = REMOTE_HOST_MAX - 2; len <= REMOTE_HOST_MAX + 1; len++) {
        memset(host, 'g', len);
        snprintf(host + len, 8, ",1");
        assert_int_equal(ask("iscsi://h/*?most=1", 0, &why), 0);
        assert_int_equal(strlen(reported), strlen("iqn.a@/0 ") + (len < REMOTE_HOST_MAX ? len : 0));
    }
}

static void there_are_no_more_than_are_wanted(void **state)
{
    struct iscsi_discovery_address c = {.target_name = "iqn.c"},
                                   b = {.target_name = "iqn.b", .next = &c},
                                   a = {.target_name = "iqn.a", .next = &b};
    struct why why;
    portal.targets = &a;
    assert_int_equal(ask("iscsi://h/*?most=7", 1, &why), 0); // a target that was not asked
    assert_string_equal(reported,
                        "iqn.a@/0 iqn.a@/1 iqn.a@/2 iqn.a@/3 iqn.a@/4 iqn.a@/255 iqn.b@/0 ");
    assert_int_equal(ask("iscsi://h/*?most=6", 2, &why), 0);
    assert_null(strstr(portal.told, "iqn.b"));
}

static void a_user_and_a_password_stand_before_the_host(void **state)
{
    struct why why;
    struct iscsi_discovery_address a = {.target_name = "iqn.a"};
    portal.targets = &a;
    assert_int_equal(ask("iscsi://me%25pa%40ss@h/*", 0, &why), 0);
    assert_string_equal(portal.told, "at:h in: user:me password:pa@ss at:h in:iqn.a user:me "
                                     "password:pa@ss out:iqn.a out: ");
    assert_int_equal(ask("iscsi://me@h/*", 0, &why), 0);
    assert_non_null(strstr(portal.told, "user:me password: "));
}

static void a_portal_that_fails_is_said_and_why(void **state)
{
    static const struct {
        const char *fails, *why, *told;
    } cases[] = {{"create", "no session: no memory", ""},
                 {"connect", "it cannot be connected to: refused", "at:h "},
                 {"login", "it refuses the login: refused", "at:h in: "},
                 {"discovery", "it does not tell its targets: refused", "at:h in: out: "}};
    struct why why;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        portal.error = "refused\nmore";
        portal.fails = cases[i].fails;
        assert_int_equal(ask("iscsi://h/*", 0, &why), -ECONNREFUSED);
        assert_string_equal(why.text, cases[i].why);
        assert_string_equal(portal.told, cases[i].told);
        assert_string_equal(reported, "");
    }
}

static void a_portal_without_targets_has_none(void **state)
{
    struct why why;
    assert_int_equal(ask("iscsi://h/*", 0, &why), 0);
    assert_string_equal(why.text, "");
    assert_string_equal(portal.told, "at:h in: out: ");
}

static void a_target_that_fails_keeps_what_it_had(void **state)
{
    static const struct {
        const char *fails, *why, *out;
    } cases[] = {{"connect", "it cannot be connected to: refused", NULL},
                 {"login", "it refuses the login: refused", NULL},
                 {"units", "it does not tell its units: refused", "out:iqn.a"},
                 {"units status", "it does not tell its units: refused", "out:iqn.a"},
                 {"units data", "it does not tell its units: refused", "out:iqn.a"}};
    struct iscsi_discovery_address b = {.target_name = "iqn.b"},
                                   a = {.target_name = "iqn.a", .next = &b};
    char expected[SAID_MAX];
    struct why why;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        portal.targets = &a;
        portal.error = "refused";
        portal.fails = cases[i].fails;
        portal.fails_target = "iqn.a";
        assert_int_equal(ask("iscsi://h/*?most=1", 0, &why), 0);
        snprintf(expected, sizeof expected, "iqn.a kept: %s; iqn.b@/0 ", cases[i].why);
        assert_string_equal(reported, expected);
        assert_true((strstr(portal.told, "out:iqn.a") != NULL) == (cases[i].out != NULL));
    }
}

static void who_answers_too_slowly_is_not_waited_for(void **state)
{
    struct iscsi_discovery_address b = {.target_name = "iqn.b"},
                                   a = {.target_name = "iqn.a", .next = &b};
    struct why why;
    portal.targets = &a;
    portal.is_late = true;
    assert_int_equal(ask("iscsi://h/*", 0, &why), 0);
    assert_string_equal(reported, "iqn.a@/0 iqn.a kept: it answers too slowly: ; "
                                  "iqn.b kept: it answers too slowly; ");
    assert_null(strstr(portal.told, "iqn.b"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(each_disk_of_each_target_is_a_unit, fresh),
        cmocka_unit_test_setup(a_unit_tells_what_it_is_made_of, fresh),
        cmocka_unit_test_setup(the_pattern_says_which_targets_are_asked, fresh),
        cmocka_unit_test_setup(what_is_no_disk_is_no_unit, fresh),
        cmocka_unit_test_setup(a_target_is_asked_where_it_is, fresh),
        cmocka_unit_test_setup(an_address_of_any_length_is_taken_or_left, fresh),
        cmocka_unit_test_setup(there_are_no_more_than_are_wanted, fresh),
        cmocka_unit_test_setup(a_user_and_a_password_stand_before_the_host, fresh),
        cmocka_unit_test_setup(a_portal_that_fails_is_said_and_why, fresh),
        cmocka_unit_test_setup(a_portal_without_targets_has_none, fresh),
        cmocka_unit_test_setup(a_target_that_fails_keeps_what_it_had, fresh),
        cmocka_unit_test_setup(who_answers_too_slowly_is_not_waited_for, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
