// What a device is lent while an RTA opens it, and what the UMA is told of it.

#include "tests/node/rta_stage.h"

static void an_rta_says_hello_with_its_version(void **state)
{
    rta_start(stage.rta);
    expect_said(&stage.said[0],
                &(struct unit_message){.kind = UNIT_HELLO, .version = UMA_RTA_VERSION});
    assert_int_equal(stage.said_keepsakes[0], -1);
    assert_int_equal(stage.said_count, 1);
}

static void what_is_opened_is_told_with_its_profile(void **state)
{
    expect_said(
        told(ask_open(VOLUME)),
        &(struct unit_message){.kind = UNIT_OPEN, .volume = VOLUME, .profile = stage.profile});
    assert_int_equal(stage.said_keepsakes[0], -1);
    assert_string_equal(stage.uri, "device:it");
    assert_string_equal(stage.waiting, ""); // it was there
}

static void a_device_is_lent_what_its_volume_asks_for(void **state)
{
    struct unit_message ask = ask_open(VOLUME);
    told_with(&ask, -1);
    assert_ptr_equal(stage.host.pool, stage.pool);
    assert_int_equal(stage.host.pool_len, POOL_LEN);
    assert_int_equal(stage.host.keepsake, -1);
    assert_false(stage.host.is_restart || stage.host.read_only || stage.host.is_alone);
    assert_true(stage.host.lend != NULL && stage.host.stand_by == NULL);
    assert_int_equal(stage.host.clock(stage.host.ctx), stage.now);
    stage.host.say(stage.host.ctx, "a line");
    assert_string_equal(stage.line, "a line");
    ask = ask_open(VOLUME + 1);
    ask.is_restart = 1;
    told_with(&ask, 33);
    assert_int_equal(stage.host.keepsake, 33);
    assert_true(stage.host.is_restart);
    ask = ask_open(VOLUME + 2);
    ask.read_only = ask.may_stand_by = 1;
    told_with(&ask, -1);
    assert_true(stage.host.read_only && !stage.host.is_restart);
    assert_true(stage.host.lend == NULL && stage.host.stand_by != NULL);
    ask = ask_open(VOLUME + 3);
    ask.is_only = 1;
    told_with(&ask, -1);
    assert_true(stage.host.is_alone);
}

static void an_rta_in_a_process_of_its_own_keeps_nobody_waiting(void **state)
{
    struct rta_parts parts = parts_of();
    parts.is_alone = true;
    rta_destroy(stage.rta);
    begin_with(&parts);
    open_volume(VOLUME);
    assert_true(stage.host.is_alone);
}

// Either goes with the answer; who keeps something is not read past it, nor is a filter.
static void one_descriptor_goes_with_the_answer(void **state)
{
    static const struct {
        int keeps, lends;
        bool has_filter;
        int handed;
        bool is_window;
    } table[] = {
        {-1, -1, false, -1, false}, {5, -1, false, 5, false}, {0, -1, false, 0, false},
        {-1, 6, false, 6, true},    {-1, 0, false, 0, true},  {5, 6, false, 5, false},
        {-1, 6, true, -1, false},   {0, 6, false, 0, false},  {5, 6, true, 5, false},
        {-1, -1, false, -1, false},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        stage.keeps = table[i].keeps;
        stage.lends = table[i].lends;
        stage.has_filter = table[i].has_filter;
        const struct unit_message *said = told(ask_open(VOLUME + i));
        assert_int_equal(said->error, 0);
        assert_int_equal(said->is_window, table[i].is_window);
        assert_int_equal(stage.said_keepsakes[0], table[i].handed);
    }
}

static void nothing_goes_with_a_refusal(void **state)
{
    stage.keeps = 5;
    stage.lends = 6;
    stage.probe_error = -EIO;
    assert_int_equal(told(ask_open(VOLUME))->error, -EIO);
    assert_int_equal(stage.said_keepsakes[0], -1);
    stage.keeps = -1;
    assert_int_equal(told(ask_open(VOLUME))->error, -EIO);
    assert_int_equal(stage.said[0].is_window, 0);
    assert_int_equal(stage.said_keepsakes[0], -1);
}

static void pages_are_kept_for_whomever_in_the_chain_needs_them(void **state)
{
    assert_int_equal(told(ask_open(1))->keeps_pages, 0);
    driver = &keeping;
    assert_int_equal(told(ask_open(2))->keeps_pages, 1);
    stage.has_filter = true;
    assert_int_equal(told(ask_open(3))->keeps_pages, 1);
    stage.probe_error = -EIO;
    assert_int_equal(told(ask_open(4))->keeps_pages, 0);
}

static void a_device_that_cannot_be_served_is_closed_with_a_reason(void **state)
{
    static const struct {
        int probe_error;
        uint32_t depth; // 0: no profile
        const char *pin;
        const struct ddm_driver *driver;
        int error;
        const char *why;
    } table[] = {
        {-EIO, 8, "", &plain, -EIO, "the device could not be probed"},
        {-EIO, 0, "", &plain, -EIO, "the device could not be probed"},
        {0, 0, "", &plain, -EPROTO, "the device could not be probed"},
        {0, 8, "another origin", &plain, -ESTALE,
         "another device is there now than the one that was first opened; to serve this one, "
         "remove the volume and add it anew"},
        {0, 8, "", &strange, -EPROTONOSUPPORT, "unknown I/O format third"},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct unit_message ask = ask_open(VOLUME);
        stage.probe_error = table[i].probe_error;
        stage.profile.depth = table[i].depth;
        driver = table[i].driver;
        ask.is_only = 1;
        snprintf(ask.pin, sizeof ask.pin, "%s", table[i].pin);
        const struct unit_message *said = told_with(&ask, -1);
        assert_int_equal(said->error, table[i].error);
        assert_string_equal(said->why, table[i].why);
        assert_int_equal(said->volume, VOLUME);
        assert_int_equal(stage.closed_count, i + 1);
        assert_int_equal(stage.drained_count, 0); // nothing was ever given to it
        assert_null(stage.only);
        assert_int_equal(told((struct unit_message){.kind = UNIT_PROBE, .volume = VOLUME})->error,
                         -ENOENT);
    }
    assert_int_equal(stage.watched_fd, -1);
    driver = &plain; // who could not be served has given up nothing
    open_volume(VOLUME);
}

static void the_device_that_was_pinned_is_served(void **state)
{
    struct unit_message ask = ask_open(VOLUME);
    snprintf(ask.pin, sizeof ask.pin, "%s", stage.profile.origin);
    assert_int_equal(told_with(&ask, -1)->error, 0);
    snprintf(stage.profile.instance, sizeof stage.profile.instance, "one of two");
    ask.volume++;
    assert_int_equal(told_with(&ask, -1)->error, -ESTALE);
}

static void a_device_that_cannot_be_opened_says_why(void **state)
{
    stage.open_error = -ENODEV;
    const struct unit_message *said = told(ask_open(VOLUME));
    assert_int_equal(said->error, -ENODEV);
    assert_string_equal(said->why, "no such device");
    assert_int_equal(stage.closed_count + stage.probe_count, 0);
}

static void a_format_is_that_of_the_end_of_the_chain(void **state)
{
    driver = &formatted;
    stage.has_filter = true;
    open_volume(VOLUME);
    connect_volume(VOLUME, CONNECTION);
    request(NODE_READ, 1, 0);
    assert_true(rta_on_bus(stage.rta, stage.now));
    assert_int_equal(result_next(), NODE_UNSUPPORTED); // as that format says of all
}

static void a_volume_that_is_open_or_none_opens_nothing(void **state)
{
    open_volume(VOLUME);
    assert_int_equal(told(ask_open(VOLUME))->error, -EEXIST);
    assert_int_equal(told(ask_open(0))->error, -EEXIST);
    assert_string_equal(stage.said[0].why, "");
    assert_int_equal(stage.open_count, 1);
}

// A device that is asked has it, and closes it whatever comes of that.
static void a_keepsake_for_a_device_that_is_not_asked_is_dropped(void **state)
{
    struct unit_message ask = ask_open(VOLUME);
    ask.is_only = 1;
    stage.open_error = -ENODEV;
    assert_int_equal(told_with(&ask, 31)->error, -ENODEV);
    stage.open_error = 0;
    assert_int_equal(told_with(&ask, 32)->error, 0);
    assert_int_equal(stage.dropped, -1);
    assert_int_equal(told_with(&ask, 33)->error, -EEXIST);
    assert_int_equal(stage.dropped, 33);
    ask.volume = 0;
    assert_int_equal(told_with(&ask, 0)->error, -EEXIST);
    assert_int_equal(stage.dropped, 0);
    ask.volume = VOLUME + 1;
    assert_int_equal(told_with(&ask, 34)->error, -EPERM);
    assert_int_equal(stage.dropped, 34);
    assert_int_equal(told_with(&ask, -1)->error, -EPERM);
    assert_int_equal(stage.dropped, 34);
}

static void more_volumes_than_there_may_be_are_refused(void **state)
{
    for (uint32_t volume = 1; volume <= NODE_VOLUME_COUNT_MAX; volume++) {
        open_volume(volume);
    }
    assert_int_equal(told(ask_open(NODE_VOLUME_COUNT_MAX + 1))->error, -ENOSPC);
    assert_string_equal(stage.said[0].why, "too many volumes");
    assert_int_equal(stage.closed_count, 1);
    assert_int_equal(told((struct unit_message){.kind = UNIT_CLOSE, .volume = 3})->error, 0);
    open_volume(NODE_VOLUME_COUNT_MAX + 1); // in the place of that
}

static void who_opens_the_only_device_is_told_once_it_is_there(void **state)
{
    struct unit_message ask = ask_open(VOLUME);
    ask.is_only = 1;
    stage.has_filter = true;
    told_with(&ask, -1);
    assert_non_null(stage.only);
    assert_ptr_equal(stage.only->next, stage.opened);
    assert_int_equal(told(ask_open(VOLUME + 1))->error, -EPERM);
    assert_int_equal(stage.open_count, 1);
}

static void where_nobody_gives_up_anything_the_only_device_may_be_followed(void **state)
{
    struct rta_parts parts = parts_of();
    struct unit_message ask = ask_open(VOLUME);
    parts.on_only = NULL;
    parts.on_waiting = NULL;
    rta_destroy(stage.rta);
    begin_with(&parts);
    ask.is_only = 1;
    assert_int_equal(told_with(&ask, -1)->error, 0);
    stage.stands_by = true;
    stage.said_count = 0;
    ask = ask_open(VOLUME + 1);
    ask.may_stand_by = 1;
    assert_true(rta_on_message(stage.rta, &ask, -1, stage.now));
    assert_int_equal(stage.said_count, 2);
    assert_int_equal(stage.said[1].error, 0);
}

static void who_waits_for_another_node_says_so_first(void **state)
{
    struct unit_message ask = ask_open(VOLUME);
    ask.may_stand_by = 1;
    stage.stands_by = true;
    assert_true(rta_on_message(stage.rta, &ask, -1, stage.now));
    assert_int_equal(stage.said_count, 2);
    expect_said(
        &stage.said[0],
        &(struct unit_message){.kind = UNIT_STANDBY, .volume = VOLUME, .profile = stage.profile});
    assert_int_equal(stage.said_keepsakes[0], -1);
    assert_int_equal(stage.said[1].kind, UNIT_OPEN);
    assert_string_equal(stage.waiting, "wg");
    stage.stands_by = false;
    stage.waiting[0] = '\0';
    open_volume(VOLUME + 1);
    assert_string_equal(stage.waiting, ""); // that one was there
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_rta_says_hello_with_its_version),
        TEST(what_is_opened_is_told_with_its_profile),
        TEST(a_device_is_lent_what_its_volume_asks_for),
        TEST(an_rta_in_a_process_of_its_own_keeps_nobody_waiting),
        TEST(one_descriptor_goes_with_the_answer),
        TEST(nothing_goes_with_a_refusal),
        TEST(pages_are_kept_for_whomever_in_the_chain_needs_them),
        TEST(a_device_that_cannot_be_served_is_closed_with_a_reason),
        TEST(the_device_that_was_pinned_is_served),
        TEST(a_device_that_cannot_be_opened_says_why),
        TEST(a_format_is_that_of_the_end_of_the_chain),
        TEST(a_volume_that_is_open_or_none_opens_nothing),
        TEST(a_keepsake_for_a_device_that_is_not_asked_is_dropped),
        TEST(more_volumes_than_there_may_be_are_refused),
        TEST(who_opens_the_only_device_is_told_once_it_is_there),
        TEST(where_nobody_gives_up_anything_the_only_device_may_be_followed),
        TEST(who_waits_for_another_node_says_so_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
