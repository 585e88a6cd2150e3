// A session with a logical unit by iSCSI over RDMA, before an initiator of the test's own: which
// URIs name a unit, what the initiator is asked, what its answers come to, and what goes when a
// session does.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "base/why.h"
#include "initiator/iscsi/iscsi.h"
#include "node/ddm/scsi_session.h"
#include "node/ddm/scsi_transport.h"
#include "tests/node/scsi_session_stage.h"

enum { ASKED_MAX = SCSI_SESSION_DEPTH + 8 };

/* ---- the initiator --------------------------------------------------------------------------- */

struct iscsi_initiator {
    int fd;
};

static struct {
    enum iscsi_initiator_state state;
    bool cannot_begin, cannot_reset;
    int submits; // what submit says
    unsigned begun, open, looks, polls, logouts, resets;
    char asked[SAID_MAX]; // of the last that began
    uint8_t isid[ISCSI_ISID_LEN];
    unsigned depth;
    struct iscsi_request *requests[ASKED_MAX];
    unsigned request_count;
    void (*on_reset)(void *context, uint8_t response);
    void *on_reset_ctx;
    uint8_t response; // to a reset
} it;

struct iscsi_initiator *iscsi_initiator_begin(const struct iscsi_initiator_attr *attr,
                                              struct why *ret_why)
{
    it.begun++;
    if (it.cannot_begin) {
        why_say(ret_why, "no device");
        return NULL;
    }
    snprintf(it.asked, sizeof it.asked, "%s %s %s %s %s %u", attr->host, attr->port, attr->target,
             attr->user != NULL ? attr->user : "-", attr->user != NULL ? attr->secret : "-",
             attr->lun);
    memcpy(it.isid, attr->isid, sizeof it.isid);
    it.depth = attr->depth;
    struct iscsi_initiator *initiator = calloc(1, sizeof *initiator);
    initiator->fd = eventfd(1, EFD_CLOEXEC); // always readable
    it.open++;
    return initiator;
}

void iscsi_initiator_end(struct iscsi_initiator *initiator)
{
    close(initiator->fd);
    free(initiator);
    it.open--;
    it.request_count = 0;
}

void iscsi_initiator_log_out(struct iscsi_initiator *initiator)
{
    it.logouts++;
}

int iscsi_initiator_fd(const struct iscsi_initiator *initiator)
{
    return initiator->fd;
}

enum iscsi_initiator_state iscsi_initiator_poll(struct iscsi_initiator *initiator, bool looks)
{
    it.polls++;
    it.looks += looks;
    if (it.on_reset != NULL && it.response != 0xff) {
        it.on_reset(it.on_reset_ctx, it.response);
        it.on_reset = NULL;
    }
    return it.state;
}

enum iscsi_initiator_state iscsi_initiator_state(const struct iscsi_initiator *initiator)
{
    return it.state;
}

const char *iscsi_initiator_why(const struct iscsi_initiator *initiator)
{
    return "the peer left";
}

const struct iscsi_initiator_counters *iscsi_initiator_counters(
    const struct iscsi_initiator *initiator)
{
    return NULL;
}

int iscsi_initiator_submit(struct iscsi_initiator *initiator, struct iscsi_request *request)
{
    if (it.submits == 0) {
        assert_true(it.request_count < ASKED_MAX);
        it.requests[it.request_count++] = request;
    }
    return it.submits;
}

int iscsi_initiator_reset(struct iscsi_initiator *initiator,
                          void (*on_end)(void *context, uint8_t response), void *context)
{
    it.resets++;
    it.on_reset = on_end;
    it.on_reset_ctx = context;
    return it.cannot_reset ? -ENOTCONN : 0;
}

// The oldest request ends.
static void answer(int error)
{
    struct iscsi_request *request = it.requests[0];
    it.request_count--;
    memmove(&it.requests[0], &it.requests[1], it.request_count * sizeof it.requests[0]);
    request->error = error;
    request->on_end(request);
}

/* ---- who has the session --------------------------------------------------------------------- */

static int open_it(const char *object, bool is_restart)
{
    return open_at(&scsi_transport_iscsi_rdma, object, is_restart, (struct ddm_parameter){NULL});
}

static void open_well(void)
{
    assert_int_equal(open_it("//h/iqn.t/3", false), 0);
    step = 0;
}

static void close_all(void)
{
    transport->kind->close(transport);
    ended_note();
    assert_int_equal(it.open, 0);
}

static int fresh(void **state)
{
    memset(&it, 0, sizeof it);
    it.state = ISCSI_INITIATOR_READY;
    stage_reset();
    return 0;
}

/* ---- which unit ------------------------------------------------------------------------------ */

#define TEN     "0123456789"
#define HUNDRED TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN
#define MOST    HUNDRED HUNDRED TEN TEN TEN TEN TEN "01234" // 255 octets

static void a_uri_names_a_unit(void **state)
{
    static const struct {
        const char *object, *asked, *address;
    } cases[] = {
        {"//h/iqn.t/3", "h 3260 iqn.t - - 3", "h:3260/iqn.t/3"},
        {"//h:17/iqn.t/0", "h 17 iqn.t - - 0", "h:17/iqn.t/0"},
        {"//[::1]/t/16383", "::1 3260 t - - 16383", "[::1]:3260/t/16383"},
        {"//h/t//1", "h 3260 t/ - - 1", "h:3260/t//1"},
        {"//[::1]:9/t/1", "::1 9 t - - 1", "[::1]:9/t/1"},
        {"//h/a/b/3", "h 3260 a/b - - 3", "h:3260/a/b/3"},
        {"//me%word@h/t/1", "h 3260 t me word 1", "h:3260/t/1"},
        {"//me%w@r%d@h:1/t/1", "h 1 t me w@r%d 1", "h:1/t/1"},
        {"//h/t/a@b/1", "h 3260 t/a@b - - 1", "h:3260/t/a@b/1"},
        {"//h/" MOST "/1", "h 3260 " MOST " - - 1", "h:3260/" MOST "/1"},
        {"//" MOST "/t/1", MOST " 3260 t - - 1", MOST ":3260/t/1"},
        {"//u%" MOST "@h/t/1", "h 3260 t u " MOST " 1", "h:3260/t/1"},
        {"//" MOST "%s@h/t/1", "h 3260 t " MOST " s 1", "h:3260/t/1"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        assert_int_equal(open_it(cases[i].object, false), 0);
        assert_string_equal(it.asked, cases[i].asked);
        assert_string_equal(transport->kind->address(transport), cases[i].address);
        assert_int_equal(it.depth, SCSI_SESSION_DEPTH);
        assert_int_equal(it.begun, 1);
        assert_int_equal(it.resets, 0);
        close_all();
        assert_int_equal(it.logouts, 1);
    }
}

static void what_names_no_unit_is_refused(void **state)
{
    static const char *const objects[] = {
        "",
        "h/t/1",
        "/h/t/1",
        "//h",
        "//h/",
        "//h/t",
        "//h/t/",
        "//h//1",
        "///t/1",
        "//h/t/x",
        "//h/t/1x",
        "//h/t/-1",
        "//h/t/16384",
        "//h:/t/1",
        "//[::1/t/1",
        "//me@h/t/1",
        "//%word@h/t/1",
        "//me%@h/t/1",
        "//me%word@/t/1",
        "//h:1234567890123456/t/1",
        "//h/" MOST "6/1",
        "//" MOST "6/t/1",
        "//u%" MOST "6@h/t/1",
        "//" MOST "6%s@h/t/1",
    };
    for (unsigned i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        fresh(NULL);
        assert_int_equal(open_it(objects[i], false), -EINVAL);
        assert_string_equal(why.text, "not //[USER%25SECRET@]HOST[:PORT]/TARGET/LUN");
        assert_int_equal(it.begun, 0);
    }
}

// RFC 7143 section 11.12.5: type "random", the same each time, another one of another unit.
static void the_isid_is_the_units(void **state)
{
    uint8_t first[ISCSI_ISID_LEN];
    open_well();
    memcpy(first, it.isid, sizeof first);
    assert_int_equal(first[0], 0x80);
    uint64_t unit = ((struct scsi_session *)transport)->unit;
    for (unsigned i = 1; i < ISCSI_ISID_LEN; i++) {
        assert_int_equal(first[i], (uint8_t)(unit >> (40 - 8 * i)));
    }
    close_all();
    open_well();
    assert_memory_equal(it.isid, first, sizeof first);
    close_all();
    assert_int_equal(open_it("//h/iqn.t/4", false), 0);
    assert_memory_not_equal(it.isid, first, sizeof first);
    close_all();
}

static void a_session_that_cannot_begin_says_why(void **state)
{
    it.cannot_begin = true;
    assert_int_equal(open_it("//h/iqn.t/3", false), -ENOTCONN);
    assert_string_equal(why.text, "h:3260/iqn.t/3: no device");
    assert_int_equal(it.begun, 1);
    fresh(NULL);
    it.state = ISCSI_INITIATOR_LOST;
    assert_int_equal(open_it("//h/iqn.t/3", false), -ENOTCONN);
    assert_string_equal(why.text, "h:3260/iqn.t/3: the peer left");
    assert_int_equal(it.open, 0);
    fresh(NULL);
    it.state = ISCSI_INITIATOR_BEGINS;
    assert_int_equal(open_it("//h/iqn.t/3", false), -ENOTCONN);
    assert_string_equal(why.text, "h:3260/iqn.t/3: the target does not answer");
    assert_int_equal(it.logouts, 0);
}

static void a_unit_is_reset_after_a_restart(void **state)
{
    static const struct {
        uint8_t response;
        bool cannot;
        int error;
    } cases[] = {
        {ISCSI_TASK_COMPLETE, false, 0},
        {ISCSI_TASK_UNSUPPORTED, false, 0},
        {ISCSI_TASK_COMPLETE, true, -ENOTCONN},
        {1, false, -ENOTCONN},
        {255, false, -ENOTCONN}, // never
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        it.response = cases[i].response;
        it.cannot_reset = cases[i].cannot;
        assert_int_equal(open_it("//h/iqn.t/3", true), cases[i].error);
        assert_int_equal(it.resets, 1);
        if (cases[i].error == 0) {
            close_all();
        }
        assert_int_equal(it.open, 0);
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

static void a_command_goes_as_it_is_and_its_answer_comes_back(void **state)
{
    static const struct {
        enum scsi_direction direction;
        enum iscsi_direction asked;
        uint8_t status;
        uint32_t residual, sense_len;
    } cases[] = {
        {SCSI_NO_DATA, ISCSI_NO_DATA, 0, 0, 0},
        {SCSI_FROM_DEVICE, ISCSI_FROM_TARGET, 0, 7, 0},
        {SCSI_TO_DEVICE, ISCSI_TO_TARGET, 2, 0, 18},
        {SCSI_TO_DEVICE, ISCSI_TO_TARGET, 8, 16, SCSI_SENSE_MAX},
    };
    open_well();
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint8_t data[16];
        ended[0] = '\0';
        jobs[0] = (struct scsi_job){.cdb = {0x28, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14},
                                    .direction = cases[i].direction,
                                    .data = data,
                                    .data_len = sizeof data - i,
                                    .error = JOB_UNDER_WAY,
                                    .ended = &done};
        list_init(&jobs[0].link);
        transport->kind->submit(transport, &jobs[0]);
        assert_int_equal(it.request_count, 1);
        struct iscsi_request *request = it.requests[0];
        assert_memory_equal(request->cdb, jobs[0].cdb, SCSI_CDB_LEN);
        assert_int_equal(request->direction, cases[i].asked);
        assert_ptr_equal(request->data, data);
        assert_int_equal(request->data_len, sizeof data - i);
        request->status = cases[i].status;
        request->residual = cases[i].residual;
        request->sense_len = cases[i].sense_len;
        memset(request->sense, 0x70 + (int)i, sizeof request->sense);
        answer(0);
        assert_string_equal(ended, ""); // not from within
        polled_at(now);
        assert_string_equal(ended, "0:0 ");
        assert_int_equal(jobs[0].status, cases[i].status);
        assert_int_equal(jobs[0].residual, cases[i].residual);
        assert_int_equal(jobs[0].sense_len, cases[i].sense_len);
        for (unsigned at = 0; at < cases[i].sense_len; at++) {
            assert_int_equal(jobs[0].sense[at], 0x70 + i);
        }
    }
    close_all();
}

static void as_many_are_out_as_there_is_room_for(void **state)
{
    open_well();
    for (uint8_t round = 0; round < 2; round++) {
        for (uint8_t i = 0; i < SCSI_SESSION_DEPTH + 2; i++) {
            submit(i);
        }
        assert_int_equal(it.request_count, SCSI_SESSION_DEPTH);
        answer(0);
        polled_at(now);
        assert_int_equal(it.request_count, SCSI_SESSION_DEPTH);
        assert_int_equal(it.requests[SCSI_SESSION_DEPTH - 1]->cdb[1], SCSI_SESSION_DEPTH);
        for (unsigned i = 0; i <= SCSI_SESSION_DEPTH; i++) {
            answer(0);
            polled_at(now);
        }
        assert_int_equal(it.request_count, 0);
    }
    assert_string_equal(said, "");
    close_all();
}

static void what_the_initiator_has_no_room_for_waits(void **state)
{
    open_well();
    it.submits = -EAGAIN;
    submit(9);
    for (unsigned i = 0; i < 2 * SCSI_SESSION_DEPTH; i++) {
        polled_at(now);
    }
    assert_int_equal(it.request_count, 0);
    it.submits = 0;
    polled_at(now);
    assert_int_equal(it.request_count, 1);
    answer(0);
    polled_at(now);
    assert_string_equal(ended, "9:0 ");
    assert_string_equal(said, "");
    close_all();
}

/* ---- events ---------------------------------------------------------------------------------- */

static void descriptors_are_looked_at_when_there_is_an_event(void **state)
{
    open_well();
    unsigned seen = it.looks, polls = it.polls;
    assert_true(seen > 0); // the login came by one
    transport->kind->flush(transport);
    assert_int_equal(it.looks, seen);
    assert_int_equal(it.polls, polls + 1);
    polled_at(now);
    assert_int_equal(it.looks, seen + 1);
    close_all();
}

/* ---- lost ------------------------------------------------------------------------------------ */

#define LOST "iscsi+rdma: the session with h:3260/iqn.t/3 is lost, commands wait: "

static void what_was_out_is_sent_again_in_order_after_a_reset(void **state)
{
    static const struct {
        bool has_left;
        int error, submits;
        const char *said;
    } cases[] = {
        {true, 0, 0, LOST "the peer left\n"},
        {false, -EREMOTEIO, 0, LOST "the target gives a command up\n"},
        {false, -ECANCELED, 0, LOST "the target gives a command up\n"},
        {false, 0, -ENOTCONN, LOST "no memory, or no connection\n"},
    };
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fresh(NULL);
        open_well();
        submit(1);
        submit(2);
        if (cases[i].has_left) {
            it.state = ISCSI_INITIATOR_LOST;
        } else if (cases[i].error != 0) {
            answer(cases[i].error);
        }
        it.submits = cases[i].submits;
        submit(3);
        polled_at(now);
        assert_string_equal(said, cases[i].said);
        assert_int_equal(it.open, 0);
        assert_string_equal(ended, "");
        polled_at(now); // nobody is there
        it.state = ISCSI_INITIATOR_READY;
        it.submits = 0;
        polled_at(now + 20 * NS_PER_MS);
        assert_int_equal(it.open, 1);
        for (unsigned round = 0; round < 3; round++) {
            polled_at(now);
        }
        assert_int_equal(it.resets, 1);
        assert_int_equal(it.request_count, 3);
        for (uint8_t n = 1; n <= 3; n++) {
            assert_int_equal(it.requests[0]->cdb[1], n);
            answer(0);
        }
        polled_at(now);
        assert_string_equal(ended, "1:0 2:0 3:0 ");
        close_all();
    }
}

static void all_have_room_again_in_a_new_session(void **state)
{
    open_well();
    for (uint8_t i = 0; i < SCSI_SESSION_DEPTH; i++) {
        submit(i);
    }
    it.state = ISCSI_INITIATOR_LOST;
    polled_at(now);
    it.state = ISCSI_INITIATOR_READY;
    polled_at(now + 20 * NS_PER_MS);
    for (unsigned round = 0; round < 3; round++) {
        polled_at(now);
    }
    assert_int_equal(it.request_count, SCSI_SESSION_DEPTH);
    for (uint8_t i = 0; i < SCSI_SESSION_DEPTH; i++) {
        assert_int_equal(it.requests[i]->cdb[1], i);
    }
    close_all();
    assert_int_equal(it.logouts, 0); // commands were out
    assert_non_null(strstr(ended, "0:-125 1:-125 "));
}

static void a_login_is_told_once_a_session(void **state)
{
    open_well();
    polled_at(now);
    polled_at(now);
    assert_int_equal(it.begun, 1);
    assert_int_equal(it.resets, 0);
    it.state = ISCSI_INITIATOR_LOST;
    polled_at(now);
    it.state = ISCSI_INITIATOR_READY;
    polled_at(now + 20 * NS_PER_MS);
    for (unsigned round = 0; round < 4; round++) {
        polled_at(now);
    }
    assert_int_equal(it.begun, 2);
    assert_int_equal(it.resets, 1);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_uri_names_a_unit, fresh),
        cmocka_unit_test_setup(what_names_no_unit_is_refused, fresh),
        cmocka_unit_test_setup(the_isid_is_the_units, fresh),
        cmocka_unit_test_setup(a_session_that_cannot_begin_says_why, fresh),
        cmocka_unit_test_setup(a_unit_is_reset_after_a_restart, fresh),
        cmocka_unit_test_setup(a_command_goes_as_it_is_and_its_answer_comes_back, fresh),
        cmocka_unit_test_setup(as_many_are_out_as_there_is_room_for, fresh),
        cmocka_unit_test_setup(what_the_initiator_has_no_room_for_waits, fresh),
        cmocka_unit_test_setup(descriptors_are_looked_at_when_there_is_an_event, fresh),
        cmocka_unit_test_setup(what_was_out_is_sent_again_in_order_after_a_reset, fresh),
        cmocka_unit_test_setup(all_have_room_again_in_a_new_session, fresh),
        cmocka_unit_test_setup(a_login_is_told_once_a_session, fresh),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
