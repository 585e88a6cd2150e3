// A session with a logical unit by iSCSI, before a libiscsi whose target does as a test says: how
// it logs in, when the unit is reset, what is sent again when the session is lost, how long
// commands wait, and what each answer comes to. Time is the test's.

#include <errno.h>
#include <iscsi/iscsi.h>
#include <iscsi/scsi-lowlevel.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "base/why.h"
#include "node/ddm/scsi_session.h"
#include "node/ddm/scsi_transport.h"
#include "tests/node/scsi_session_stage.h"

enum { TASK_MAX = JOB_MAX, NEVER = -1, UNSUPPORTED = 5 };

/* ---- the target ------------------------------------------------------------------------------ */

struct iscsi_context {
    int fd;
    iscsi_command_cb on_login, on_reset; // NULL: not asked, or answered
    void *login_ctx, *reset_ctx;
    struct {
        struct scsi_task *task;
        iscsi_command_cb on_end;
        void *ctx;
    } tasks[TASK_MAX];
    unsigned task_count;
};

static struct {
    int login, reset; // statuses; NEVER: no answer
    bool refuses_connect, refuses_reset, refuses_commands, is_cut, bad_url;
    const char *error;
    char user[32], target_user[32];
    const char *password, *portal; // as the library has cut the URL; NULL: as usual
    unsigned contexts, logins, resets, logouts;
    uint32_t isid, qualifier;
    char sent[SAID_MAX]; // the first octets of commands behind the operation code, in order
    char initiator[64], users[64];
} target;

static struct iscsi_context *current;

struct iscsi_context *iscsi_create_context(const char *initiator_name)
{
    struct iscsi_context *context = calloc(1, sizeof *context);
    context->fd = eventfd(1, EFD_CLOEXEC); // always readable
    snprintf(target.initiator, sizeof target.initiator, "%s", initiator_name);
    target.contexts++;
    current = context;
    return context;
}

int iscsi_destroy_context(struct iscsi_context *context)
{
    while (context->task_count > 0) {
        context->task_count--;
        context->tasks[context->task_count].on_end(context, (int)SCSI_STATUS_CANCELLED, NULL,
                                                   context->tasks[context->task_count].ctx);
    }
    close(context->fd);
    free(context);
    target.contexts--;
    current = NULL;
    return 0;
}

const char *iscsi_get_error(struct iscsi_context *context)
{
    return target.error;
}

void iscsi_set_noautoreconnect(struct iscsi_context *context, int state)
{
    assert_int_equal(state, 1);
}

int iscsi_set_isid_random(struct iscsi_context *context, uint32_t random, uint32_t qualifier)
{
    target.isid = random;
    target.qualifier = qualifier;
    return 0;
}

int iscsi_set_targetname(struct iscsi_context *context, const char *name)
{
    assert_string_equal(name, "iqn.t");
    return 0;
}

int iscsi_set_session_type(struct iscsi_context *context, enum iscsi_session_type type)
{
    assert_int_equal(type, ISCSI_SESSION_NORMAL);
    return 0;
}

int iscsi_set_header_digest(struct iscsi_context *context, enum iscsi_header_digest digest)
{
    return 0;
}

int iscsi_set_timeout(struct iscsi_context *context, int timeout)
{
    assert_true(timeout > 0 && timeout < 10);
    return 0;
}

int iscsi_set_initiator_username_pwd(struct iscsi_context *context, const char *user,
                                     const char *password)
{
    snprintf(target.users, sizeof target.users, "%s/%s", user, password);
    return 0;
}

int iscsi_set_target_username_pwd(struct iscsi_context *context, const char *user,
                                  const char *password)
{
    size_t len = strlen(target.users);
    snprintf(target.users + len, sizeof target.users - len, " %s/%s", user, password);
    return 0;
}

struct iscsi_url *iscsi_parse_full_url(struct iscsi_context *context, const char *text)
{
    assert_string_equal(text, "iscsi://h/iqn.t/3");
    struct iscsi_url *url = target.bad_url ? NULL : calloc(1, sizeof *url);
    if (url != NULL) {
        snprintf(url->portal, sizeof url->portal, "%s",
                 target.portal != NULL ? target.portal : "h:3260");
        snprintf(url->target, sizeof url->target, "iqn.t");
        snprintf(url->user, sizeof url->user, "%s", target.user);
        snprintf(url->passwd, sizeof url->passwd, "%s",
                 target.password != NULL ? target.password : "secret");
        snprintf(url->target_user, sizeof url->target_user, "%s", target.target_user);
        snprintf(url->target_passwd, sizeof url->target_passwd, "other");
        url->lun = 3;
    }
    return url;
}

void iscsi_destroy_url(struct iscsi_url *url)
{
    free(url);
}

int iscsi_full_connect_async(struct iscsi_context *context, const char *portal, int lun,
                             iscsi_command_cb on_login, void *ctx)
{
    assert_string_equal(portal, "h:3260");
    assert_int_equal(lun, 3);
    context->on_login = on_login;
    context->login_ctx = ctx;
    target.logins++;
    return target.refuses_connect ? -1 : 0;
}

int iscsi_task_mgmt_lun_reset_async(struct iscsi_context *context, uint32_t lun,
                                    iscsi_command_cb on_reset, void *ctx)
{
    assert_int_equal(lun, 3);
    context->on_reset = on_reset;
    context->reset_ctx = ctx;
    target.resets++;
    return target.refuses_reset ? -1 : 0;
}

int iscsi_logout_sync(struct iscsi_context *context)
{
    target.logouts++;
    return 0;
}

int iscsi_get_fd(struct iscsi_context *context)
{
    return context->fd;
}

int iscsi_which_events(struct iscsi_context *context)
{
    return POLLIN;
}

int iscsi_scsi_command_async(struct iscsi_context *context, int lun, struct scsi_task *task,
                             iscsi_command_cb on_end, struct iscsi_data *data, void *ctx)
{
    size_t len = strlen(target.sent);
    assert_int_equal(lun, 3);
    if (target.refuses_commands) {
        return -1;
    }
    assert_true(context->task_count < TASK_MAX);
    context->tasks[context->task_count].task = task;
    context->tasks[context->task_count].on_end = on_end;
    context->tasks[context->task_count++].ctx = ctx;
    snprintf(target.sent + len, sizeof target.sent - len, "%u ", task->cdb[1]);
    return 0;
}

// Answers what is to be answered of logins and resets.
int iscsi_service(struct iscsi_context *context, int events)
{
    iscsi_command_cb on_login = context->on_login, on_reset = context->on_reset;
    if (target.is_cut) {
        return -1;
    }
    if (on_login != NULL && target.login != NEVER) {
        context->on_login = NULL;
        on_login(context, target.login, NULL, context->login_ctx);
    }
    if (on_reset != NULL && target.reset != NEVER) {
        uint32_t response = (uint32_t)target.reset;
        context->on_reset = NULL;
        on_reset(context, SCSI_STATUS_GOOD, &response, context->reset_ctx);
    }
    return 0;
}

// The oldest command ends so.
static void answer(int status)
{
    iscsi_command_cb on_end = current->tasks[0].on_end;
    void *ctx = current->tasks[0].ctx;
    current->task_count--;
    memmove(&current->tasks[0], &current->tasks[1], current->task_count * sizeof current->tasks[0]);
    on_end(current, status, NULL, ctx);
}

/* ---- who has the session --------------------------------------------------------------------- */

static int open_as(bool is_restart, const char *key, const char *value)
{
    return open_at(&scsi_transport_iscsi, "//h/iqn.t/3", is_restart,
                   (struct ddm_parameter){key, value});
}

static void open_well(void)
{
    assert_int_equal(open_as(false, NULL, NULL), 0);
    step = 0;
}

static void close_all(void)
{
    transport->kind->close(transport);
    ended_note();
    assert_int_equal(target.contexts, 0);
}

static int fresh(void **state)
{
    memset(&target, 0, sizeof target);
    target.error = "refused\nmore";
    stage_reset();
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void a_session_logs_in_once_and_resets_after_a_restart_alone(void **state)
{
    static const struct {
        bool is_restart;
        int reset;
        unsigned resets;
    } cases[] = {{false, 0, 0}, {true, 0, 1}, {true, UNSUPPORTED, 1}};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        target.reset = cases[i].reset;
        assert_int_equal(open_as(cases[i].is_restart, NULL, NULL), 0);
        assert_int_equal(target.logins, 1);
        assert_int_equal(target.resets, cases[i].resets);
        assert_string_equal(transport->kind->address(transport), "h:3260/iqn.t/3");
        assert_true(transport->kind->transfer_max(transport) >= 1 << 20);
        assert_true(target.isid <= 0xffffff && target.qualifier <= 0xffff);
        assert_string_equal(target.users, "");
        assert_string_equal(said, "");
        close_all();
        assert_int_equal(target.logouts, 1);
    }
}

static void the_isid_is_the_units(void **state)
{
    uint32_t isid, qualifier;
    open_well();
    isid = target.isid;
    qualifier = target.qualifier;
    close_all();
    fresh(NULL);
    open_well();
    assert_true(target.isid == isid && target.qualifier == qualifier);
    assert_true(isid != 0 || qualifier != 0);
    close_all();
}

static void users_prove_themselves_where_the_url_names_them(void **state)
{
    snprintf(target.user, sizeof target.user, "me");
    open_well();
    assert_string_equal(target.users, "me/secret");
    close_all();
    snprintf(target.target_user, sizeof target.target_user, "it");
    open_well();
    assert_string_equal(target.users, "me/secret it/other");
    close_all();
}

#define TEN  "0123456789"
#define MANY TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN

// The library ends it at the first @, and takes the rest for a part of the host, which is shown.
static void a_password_ends_at_the_last_at_sign_before_the_host(void **state)
{
    snprintf(target.user, sizeof target.user, "me");
    target.portal = "b@c@h:3260";
    open_well();
    assert_string_equal(target.users, "me/secret@b@c");
    assert_string_equal(transport->kind->address(transport), "h:3260/iqn.t/3");
    close_all();
    static const char *const passwords[] = {"", MANY};
    for (unsigned i = 0; i < 2; i++) {
        fresh(NULL);
        target.password = passwords[i];
        target.portal = MANY "@h:3260";
        assert_int_equal(open_as(false, NULL, NULL), -EINVAL);
        assert_string_equal(why.text, "not //HOST[:PORT]/TARGET/LUN");
        assert_int_equal(target.contexts, 0);
    }
}

static void a_session_that_cannot_begin_says_why(void **state)
{
    static const struct {
        int login, reset;
        bool refuses_connect, refuses_reset, is_cut, bad_url;
        const char *key, *value;
        int error;
        const char *why;
    } cases[] = {
        {1, 0, false, false, false, false, NULL, NULL, -ENOTCONN, "h:3260/iqn.t/3: refused"},
        {NEVER, 0, false, false, false, false, NULL, NULL, -ENOTCONN, "does not answer"},
        {0, 0, true, false, false, false, NULL, NULL, -ENOTCONN, "h:3260/iqn.t/3: refused"},
        {0, 0, false, false, true, false, NULL, NULL, -ENOTCONN, "h:3260/iqn.t/3: refused"},
        {0, 1, false, false, false, false, NULL, NULL, -ENOTCONN, "unit could not be reset"},
        {0, NEVER, false, false, false, false, NULL, NULL, -ENOTCONN, "does not answer"},
        {0, 0, false, true, false, false, NULL, NULL, -ENOTCONN, "unit could not be reset"},
        {0, 0, false, false, false, true, NULL, NULL, -EINVAL, "not //HOST[:PORT]/TARGET/LUN"},
        {0, 0, false, false, false, false, "timeout", "long", -EINVAL, ""},
        {0, 0, false, false, false, false, "patience", "long", -EINVAL, ""},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        target.login = cases[i].login;
        target.reset = cases[i].reset;
        target.refuses_connect = cases[i].refuses_connect;
        target.refuses_reset = cases[i].refuses_reset;
        target.is_cut = cases[i].is_cut;
        target.bad_url = cases[i].bad_url;
        assert_int_equal(open_as(true, cases[i].key, cases[i].value), cases[i].error);
        assert_non_null(strstr(why.text, cases[i].why));
        assert_null(strchr(why.text, '\n'));
        assert_int_equal(target.contexts, 0);
        assert_int_equal(target.logouts, 0);
    }
}

static void a_unit_is_one_sessions_at_a_time(void **state)
{
    open_well();
    struct scsi_transport *first = transport;
    assert_int_equal(open_as(false, NULL, NULL), -EBUSY);
    assert_non_null(strstr(why.text, "another process has it open through weft"));
    transport = first;
    transport->kind->close(transport);
    open_well();
    close_all();
}

/* ---- commands -------------------------------------------------------------------------------- */

static void a_command_goes_as_it_is_and_its_answer_comes_back(void **state)
{
    static const struct {
        enum scsi_direction direction;
        int expected, status;
        enum scsi_residual residual_kind;
        size_t residual;
        uint32_t expected_residual;
        int sense_len; // with the two octets before it
        uint32_t expected_sense_len;
    } cases[] = {
        {SCSI_NO_DATA, SCSI_XFER_NONE, 0, SCSI_RESIDUAL_NO_RESIDUAL, 7, 0, 0, 0},
        {SCSI_FROM_DEVICE, SCSI_XFER_READ, 0, SCSI_RESIDUAL_UNDERFLOW, 7, 7, 0, 0},
        {SCSI_TO_DEVICE, SCSI_XFER_WRITE, 0, SCSI_RESIDUAL_OVERFLOW, 7, 0, 0, 0},
        {SCSI_TO_DEVICE, SCSI_XFER_WRITE, 8, SCSI_RESIDUAL_NO_RESIDUAL, 0, 0, 20, 0},
        {SCSI_NO_DATA, SCSI_XFER_NONE, 2, SCSI_RESIDUAL_NO_RESIDUAL, 0, 0, 0, 0},
        {SCSI_NO_DATA, SCSI_XFER_NONE, 2, SCSI_RESIDUAL_NO_RESIDUAL, 0, 0, 2, 0},
        {SCSI_NO_DATA, SCSI_XFER_NONE, 2, SCSI_RESIDUAL_NO_RESIDUAL, 0, 0, 3, 1},
        {SCSI_NO_DATA, SCSI_XFER_NONE, 2, SCSI_RESIDUAL_NO_RESIDUAL, 0, 0, 20, 18},
        {SCSI_NO_DATA, SCSI_XFER_NONE, 2, SCSI_RESIDUAL_NO_RESIDUAL, 0, 0, SCSI_SENSE_MAX + 9,
         SCSI_SENSE_MAX},
    };
    open_well();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t data[16];
        memset(data, 0xee, sizeof data);
        ended[0] = '\0';
        jobs[0] = (struct scsi_job){.cdb = {0x28, 0, 1, 2, 3, 4, 5, 6, 7, 8},
                                    .direction = cases[i].direction,
                                    .data = data,
                                    .data_len = cases[i].direction != SCSI_NO_DATA ? 16 : 0,
                                    .ended = &done};
        list_init(&jobs[0].link);
        transport->kind->submit(transport, &jobs[0]);
        assert_int_equal(current->task_count, 1);
        struct scsi_task *task = current->tasks[0].task;
        assert_int_equal(task->cdb_size, 10);
        assert_memory_equal(task->cdb, jobs[0].cdb, 10);
        assert_int_equal(task->xfer_dir, cases[i].expected);
        assert_int_equal(task->expxferlen, jobs[0].data_len);
        assert_int_equal(data[0], cases[i].direction == SCSI_FROM_DEVICE ? 0 : 0xee);
        assert_int_equal(data[15], cases[i].direction == SCSI_FROM_DEVICE ? 0 : 0xee);
        assert_int_equal(task->iovector_in.niov, cases[i].direction == SCSI_FROM_DEVICE);
        assert_int_equal(task->iovector_out.niov, cases[i].direction == SCSI_TO_DEVICE);
        task->residual_status = cases[i].residual_kind;
        task->residual = cases[i].residual;
        task->datain.size = cases[i].sense_len;
        task->datain.data = calloc(1, SCSI_SENSE_MAX + 16);
        task->datain.data[2] = 0x70;
        answer(cases[i].status);
        assert_string_equal(ended, ""); // not from within
        polled_at(now);
        assert_string_equal(ended, "0:0 ");
        assert_int_equal(jobs[0].status, cases[i].status);
        assert_int_equal(jobs[0].residual, cases[i].expected_residual);
        assert_int_equal(jobs[0].sense_len, cases[i].expected_sense_len);
        assert_true(jobs[0].sense_len == 0 || jobs[0].sense[0] == 0x70);
    }
    close_all();
}

static void what_has_no_room_at_the_target_waits_for_it(void **state)
{
    open_well();
    for (unsigned i = 0; i < SCSI_SESSION_DEPTH + 10; i++) {
        submit((uint8_t)i);
    }
    unsigned most = current->task_count;
    assert_int_equal(most, SCSI_SESSION_DEPTH + 8);
    answer(0);
    polled_at(now);
    assert_int_equal(current->task_count, most);
    while (current->task_count > 0) {
        answer(0);
        polled_at(now);
    }
    assert_non_null(strstr(target.sent, "135 136 137 "));
    assert_non_null(strstr(ended, "135:0 136:0 137:0 "));
    close_all();
}

/* ---- lost ------------------------------------------------------------------------------------ */

static void what_was_out_is_sent_again_in_order_after_a_reset(void **state)
{
    open_well();
    for (uint8_t i = 1; i <= 3; i++) {
        submit(i);
    }
    answer(0); // of the first
    target.is_cut = true;
    polled_at(now);
    assert_string_equal(ended, "1:0 ");
    assert_string_equal(said, "iscsi: the session with h:3260/iqn.t/3 is lost, commands wait: the "
                              "connection has ended\n");
    assert_null(current);
    submit(4);
    target.is_cut = false;
    target.reset = NEVER;
    target.sent[0] = '\0';
    instant_ns lost_at = now;
    polled_at(lost_at + 20 * NS_PER_MS - 1);
    assert_int_equal(target.logins, 1);
    polled_at(lost_at + 20 * NS_PER_MS);
    assert_int_equal(target.logins, 2);
    polled_at(now); // logged in
    polled_at(now);
    assert_int_equal(target.resets, 1);
    assert_string_equal(target.sent, ""); // not before the reset
    target.reset = 0;
    polled_at(now);
    polled_at(now);
    assert_string_equal(target.sent, "2 3 4 ");
    assert_non_null(strstr(said, "h:3260/iqn.t/3 is back\n"));
    for (unsigned i = 0; i < 3; i++) {
        answer(0);
    }
    polled_at(now);
    assert_string_equal(ended, "1:0 2:0 3:0 4:0 ");
    close_all();
}

static void a_command_that_is_cancelled_or_not_taken_loses_the_session(void **state)
{
    open_well();
    submit(1);
    answer((int)SCSI_STATUS_CANCELLED);
    polled_at(now);
    assert_null(current);
    assert_string_equal(ended, "");
    close_all();
    assert_string_equal(ended, "1:-125 "); // ECANCELED
    fresh(NULL);
    open_well();
    target.refuses_commands = true;
    submit(1);
    polled_at(now);
    assert_null(current);
    assert_non_null(strstr(said, "no memory, or no connection"));
    close_all();
    assert_string_equal(ended, "1:-125 ");
}

static void a_target_that_does_not_answer_in_time_is_left(void **state)
{
    open_well();
    submit(1);
    instant_ns sent_at = now;
    assert_true(transport->kind->next_deadline(transport) == sent_at + 30 * NS_PER_S);
    polled_at(sent_at + 30 * NS_PER_S - 1);
    assert_string_equal(said, "");
    polled_at(sent_at + 30 * NS_PER_S);
    assert_non_null(strstr(said, "is lost, commands wait: the target does not answer"));
    close_all();
    fresh(NULL);
    assert_int_equal(open_as(false, "timeout", "2s"), 0);
    step = 0;
    assert_true(transport->kind->next_deadline(transport) == INSTANT_NEVER);
    submit(1);
    assert_true(transport->kind->next_deadline(transport) == now + 2 * NS_PER_S);
    close_all();
}

static void it_is_tried_again_less_and_less_often_and_commands_have_their_patience(void **state)
{
    static const unsigned waits_ms[] = {20, 40, 80, 160, 320, 640, 1280};
    assert_int_equal(open_as(false, "patience", "5s"), 0);
    step = 0;
    submit(1);
    target.is_cut = true;
    polled_at(now);
    instant_ns lost_at = now;
    target.is_cut = false;
    target.refuses_connect = true;
    submit(2);
    for (unsigned i = 0; i < 7; i++) {
        instant_ns due = now + waits_ms[i] * NS_PER_MS;
        assert_true(transport->kind->next_deadline(transport) == due);
        polled_at(due - 1);
        assert_int_equal(target.logins, 1 + i);
        polled_at(due); // begun, and refused
        polled_at(due);
        assert_int_equal(target.logins, 2 + i);
    }
    assert_string_equal(ended, "");
    assert_true(transport->kind->next_deadline(transport) <= lost_at + 5 * NS_PER_S);
    polled_at(lost_at + 5 * NS_PER_S - 1);
    assert_string_equal(ended, "");
    polled_at(lost_at + 5 * NS_PER_S);
    assert_string_equal(ended, "1:-107 2:-107 "); // ENOTCONN
    polled_at(now);
    target.refuses_connect = false;
    instant_ns due = transport->kind->next_deadline(transport);
    assert_true(due <= now + 2 * NS_PER_S);
    for (unsigned i = 0; i < 4; i++) {
        polled_at(due);
    }
    submit(3);
    assert_string_equal(target.sent, "1 3 ");
    answer(0);
    polled_at(now);
    target.is_cut = true; // from the beginning, once it was back
    polled_at(now);
    assert_true(transport->kind->next_deadline(transport) == now + 20 * NS_PER_MS);
    close_all();
}

static void a_login_that_does_not_end_is_given_up(void **state)
{
    open_well();
    target.is_cut = true;
    polled_at(now);
    target.is_cut = false;
    target.login = NEVER;
    polled_at(now + 20 * NS_PER_MS);
    assert_int_equal(target.logins, 2);
    assert_true(transport->kind->next_deadline(transport) == now + 10 * NS_PER_S);
    polled_at(now + 10 * NS_PER_S);
    assert_null(current);
    assert_true(transport->kind->next_deadline(transport) == now + 40 * NS_PER_MS);
    close_all();
    assert_int_equal(target.logouts, 0);
}

static void what_is_under_way_at_the_end_is_cancelled(void **state)
{
    open_well();
    submit(1);
    submit(2);
    submit(3);
    answer(0);
    close_all();
    assert_int_equal(target.logouts, 0);
    assert_string_equal(ended, "1:0 2:-125 3:-125 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_session_logs_in_once_and_resets_after_a_restart_alone, fresh),
        cmocka_unit_test_setup(the_isid_is_the_units, fresh),
        cmocka_unit_test_setup(users_prove_themselves_where_the_url_names_them, fresh),
        cmocka_unit_test_setup(a_password_ends_at_the_last_at_sign_before_the_host, fresh),
        cmocka_unit_test_setup(a_session_that_cannot_begin_says_why, fresh),
        cmocka_unit_test_setup(a_unit_is_one_sessions_at_a_time, fresh),
        cmocka_unit_test_setup(a_command_goes_as_it_is_and_its_answer_comes_back, fresh),
        cmocka_unit_test_setup(what_has_no_room_at_the_target_waits_for_it, fresh),
        cmocka_unit_test_setup(what_was_out_is_sent_again_in_order_after_a_reset, fresh),
        cmocka_unit_test_setup(a_command_that_is_cancelled_or_not_taken_loses_the_session, fresh),
        cmocka_unit_test_setup(a_target_that_does_not_answer_in_time_is_left, fresh),
        cmocka_unit_test_setup(
            it_is_tried_again_less_and_less_often_and_commands_have_their_patience, fresh),
        cmocka_unit_test_setup(a_login_that_does_not_end_is_given_up, fresh),
        cmocka_unit_test_setup(what_is_under_way_at_the_end_is_cancelled, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
