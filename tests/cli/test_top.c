// What `weft top` makes of answers, and its screen, read as text: no process and no terminal.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "cli/top/columns.h"
#include "cli/top/draw.h"
#include "cli/top/grid.h"
#include "cli/top/model.h"
#include "cli/top/view.h"

enum { WIDTH = 80, HEIGHT = 24, PID = 100, NODE_PID = 200 };

static struct top_model model;
static struct top_view view;
static struct grid grid;
static instant_ns now;

static int setup(void **state)
{
    now = 1000 * NS_PER_S;
    top_model_init(&model);
    top_view_init(&view, 1, false);
    return 0;
}

static int teardown(void **state)
{
    top_model_fini(&model);
    grid_fini(&grid);
    return 0;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void tell(pid_t pid, bool is_node, const char *text)
{
    struct json_object *array = json_object_new_array(), *object = json_tokener_parse(text);
    assert_non_null(object);
    json_object_array_add(array, object);
    top_answer(&model, pid, is_node, array);
    json_object_put(array);
}

// A program that has done so much by now: its first queue pair sends, the second receives.
static void tell_program(pid_t pid, unsigned work, unsigned long octets)
{
    char text[2048];
    snprintf(text, sizeof text,
             "{\"pid\":%d,\"program\":\"rping\","
             "\"weft0\":{\"qps\":2,\"windows\":3,\"qps_total\":{\"send_completions\":5},"
             "\"latency\":{\"sampled_one_in\":16,\"write\":{\"count\":%u,\"sum_ns\":1,"
             "\"max_ns\":5119,\"buckets\":[[1087,%u],[5119,1]]}},"
             "\"reads\":{\"contexts\":128,\"contexts_in_use\":7}},"
             "\"connections\":[{\"state\":\"open\",\"peer\":\"10.0.0.2:7\",\"qp_num\":11,"
             "\"tcp\":{\"ranges\":2,\"holes_opened\":9}}],"
             "\"qps\":[{\"qp_num\":11,\"state\":\"RTS\",\"refused\":\"too long\","
             "\"counters\":{\"send_completions\":%u,\"out.send.octets\":%lu}},"
             "{\"qp_num\":12,\"state\":\"ERR\",\"counters\":{\"recv_completions\":1,"
             "\"octets_in\":2048,\"send_errors\":1}}]}",
             (int)pid, work + 1, work, work, octets);
    tell(pid, false, text);
}

static void tell_node(unsigned reads)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"pid\":%d,\"connections\":4,\"volumes\":[{\"name\":\"disk\",\"state\":\"ready\","
             "\"driver\":\"file\",\"size\":1048576,\"connections\":4,\"operations\":{\"read\":%u},"
             "\"octets\":{\"read\":%u,\"write\":512},\"completions\":{\"ok\":%u,\"range\":1},"
             "\"latency\":{\"read\":{\"count\":1,\"sum_ns\":9,\"max_ns\":9,\"buckets\":[[9,1]]}}}],"
             "\"rtas\":[{\"name\":\"disk\",\"state\":\"ready\",\"pid\":201,\"restarts\":2,"
             "\"in_flight\":3,\"results\":%u}],"
             "\"clients\":[{\"connection\":5,\"address\":\"10.0.0.9:33\",\"identity\":\"nqn\","
             "\"volume\":\"disk\",\"requests\":%u,\"octets_in\":0,\"octets_out\":%u,"
             "\"in_flight\":2}]}",
             NODE_PID, reads, reads * 4096, reads, reads, reads, reads * 4096);
    tell(NODE_PID, true, text);
}

static void begin_round(void)
{
    now += NS_PER_S;
    top_round_begin(&model, now);
}

// Two rounds, a second apart: 1000 work requests and 1 MiB in it, 50 requests to the volume.
static void two_rounds(void)
{
    begin_round();
    tell_program(PID, 1, 1024);
    tell_node(10);
    top_round_end(&model);
    begin_round();
    tell_program(PID, 1001, 1024 + (1 << 20));
    tell_node(60);
    top_round_end(&model);
}

static const struct top_subject *subject(enum top_kind kind, pid_t pid, bool is_node,
                                         const char *id)
{
    const struct top_subject *s = top_find(&model, kind, pid, is_node, id);
    assert_non_null(s);
    return s;
}

/* ---- what is known --------------------------------------------------------------------------- */

static void rates_are_of_the_time_between_two_answers(void **state)
{
    two_rounds();
    const struct top_subject *s = subject(TOP_PROCESS, PID, false, "");
    assert_true(s->has_rates);
    assert_int_equal(s->rates.work, 1000);
    assert_int_equal(s->rates.octets_out, 1 << 20);
    assert_int_equal(s->rates.octets_in, 0);
    assert_int_equal(s->totals.work, 1001 + 1 + 5); // those of queue pairs that are no more, too
    assert_int_equal(s->connections, 2);
    now += NS_PER_S; // three seconds this time
    now += NS_PER_S;
    begin_round();
    tell_program(PID, 1301, 1024 + (1 << 20));
    top_round_end(&model);
    assert_int_equal(s->rates.work, 100);
}

static void a_first_answer_has_no_rate(void **state)
{
    begin_round();
    tell_program(PID, 1, 1);
    top_round_end(&model);
    assert_false(subject(TOP_PROCESS, PID, false, "")->has_rates);
}

static void what_began_anew_has_no_rate_below_zero(void **state)
{
    two_rounds();
    now += NS_PER_S;
    begin_round();
    tell_program(PID, 1, 1);
    top_round_end(&model);
    assert_int_equal(subject(TOP_PROCESS, PID, false, "")->rates.work, 0);
    assert_int_equal(top_latency(subject(TOP_PROCESS, PID, false, ""))->count, 2);
}

static void percentiles_are_of_what_came_since_the_last_answer(void **state)
{
    two_rounds();
    const struct histogram *h = top_latency(subject(TOP_PROCESS, PID, false, ""));
    assert_int_equal(h->count, 1000);
    assert_in_range(histogram_percentile(h, 500), 1024, 1087);
    assert_int_equal(h->max, 1087);
    begin_round(); // nothing came: those of all
    tell_program(PID, 1001, 1024 + (1 << 20));
    top_round_end(&model);
    assert_int_equal(top_latency(subject(TOP_PROCESS, PID, false, ""))->count, 1002);
}

static void a_minute_has_a_place_for_each_second(void **state)
{
    two_rounds();
    const struct top_subject *s = subject(TOP_PROCESS, PID, false, "");
    assert_int_equal(s->history[TOP_HISTORY_LEN - 1], 1 << 20);
    assert_int_equal(s->history[TOP_HISTORY_LEN - 2], 0);
    now += 9 * NS_PER_S;
    begin_round();
    tell_program(PID, 1001, 1024 + (1 << 20) + 10 * 1000);
    top_round_end(&model);
    for (unsigned i = 1; i <= 10; i++) {
        assert_int_equal(s->history[TOP_HISTORY_LEN - i], 1000);
    }
    assert_int_equal(s->history[TOP_HISTORY_LEN - 11], 1 << 20);
}

static void every_counter_is_summed_where_it_belongs(void **state)
{
    begin_round();
    tell(PID, false,
         "{\"weft0\":{\"contexts\":5},\"qps\":[{\"qp_num\":1,\"counters\":{\"send_completions\":1,"
         "\"recv_completions\":2,\"send_errors\":4,\"recv_errors\":8,\"in.send.octets\":16,"
         "\"octets_in\":32,\"out.write.octets\":64,\"octets_out\":128,\"in.send.messages\":256,"
         "\"drop.octets\":512,\"out.octets\":1024}}]}");
    top_round_end(&model);
    const struct top_subject *s = subject(TOP_PROCESS, PID, false, "");
    assert_int_equal(s->totals.work, 3);
    assert_int_equal(s->totals.errors, 12);
    assert_int_equal(s->totals.octets_in, 48);
    assert_int_equal(s->totals.octets_out, 192);
    assert_non_null(s->answer); // details are told from it
}

static void a_volume_and_its_rta_have_rates_too(void **state)
{
    two_rounds();
    const struct top_subject *volume = subject(TOP_VOLUME, NODE_PID, true, "disk");
    assert_int_equal(volume->rates.work, 50);
    assert_int_equal(volume->rates.octets_out, 50 * 4096);
    assert_int_equal(volume->totals.errors, 1);
    assert_int_equal(volume->connections, 4);
    assert_int_equal(subject(TOP_RTA, NODE_PID, true, "disk")->rates.work, 50);
    assert_int_equal(subject(TOP_PROCESS, NODE_PID, true, "")->rates.work, 50);
}

static void who_does_not_answer_is_told_apart_from_who_is_gone(void **state)
{
    static const struct {
        int error;
        enum top_status status;
    } rows[] = {{-ETIMEDOUT, TOP_SILENT},
                {-EACCES, TOP_REFUSES},
                {-EBADMSG, TOP_NONSENSE},
                {-EMSGSIZE, TOP_NONSENSE}};
    two_rounds();
    const struct top_subject *s = subject(TOP_PROCESS, PID, false, "");
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        begin_round();
        top_no_answer(&model, PID, false, rows[i].error);
        tell_node(60);
        top_round_end(&model);
        assert_int_equal(s->status, rows[i].status);
        assert_false(s->has_rates);
        assert_int_equal(subject(TOP_CONNECTION, PID, false, "weft0 11")->status, rows[i].status);
        assert_int_equal(subject(TOP_PROCESS, NODE_PID, true, "")->status, TOP_ANSWERS);
    }
}

static void who_is_gone_is_shown_for_a_while_without_its_parts(void **state)
{
    two_rounds();
    begin_round();
    top_no_answer(&model, PID, false, -ECONNREFUSED);
    top_round_end(&model);
    assert_int_equal(subject(TOP_PROCESS, PID, false, "")->status, TOP_GONE);
    assert_null(top_find(&model, TOP_CONNECTION, PID, false, "weft0 11"));
    assert_null(top_find(&model, TOP_VOLUME, NODE_PID, true, "disk"));
    for (unsigned i = 0; i <= TOP_GONE_SECONDS; i++) {
        begin_round();
        top_round_end(&model);
    }
    assert_int_equal(model.count, 0);
}

static void any_shape_of_an_answer_is_taken(void **state)
{
    static const char *const texts[] = {
        "{}",
        "{\"weft0\":3}",
        "{\"weft0\":{},\"qps\":{}}",
        "{\"weft0\":{},\"qps\":[1,null,[],{}]}",
        "{\"weft0\":{\"latency\":[],\"qps_total\":7}}",
        "{\"weft0\":{\"latency\":{\"a\":{\"buckets\":[[1],[1,2,3],7,[[],{}],[-1,-1],[5,\"x\"]]}}}}",
        ("{\"program\":{},\"weft0\":{\"latency\":{\"a\":1}},\"connections\":[{\"qp_num\":{}}],"
         "\"qps\":[{\"qp_num\":\"1\",\"counters\":{\"in.a.octets\":\"b\"}}]}"),
        "{\"volumes\":[{}],\"rtas\":[{\"name\":[]}],\"clients\":[{\"connection\":{}}]}",
        "{\"volumes\":{},\"rtas\":7,\"connections\":-1}",
    };
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        begin_round();
        tell(PID, false, texts[i]);
        tell(NODE_PID, true, texts[i]);
        top_round_end(&model);
        for (unsigned kind = 0; kind < TOP_KIND_COUNT; kind++) {
            view.kind = kind;
            view.is_detail = false;
            top_view_key(&view, &model, 10, TOP_KEY_ENTER);
            assert_int_equal(grid_init(&grid, WIDTH, HEIGHT), 0);
            top_draw(&grid, &model, &view);
            grid_fini(&grid);
        }
    }
}

static void memory_is_bounded_whatever_is_told(void **state)
{
    for (unsigned i = 0; i < TOP_SUBJECT_MAX + 10; i++) {
        if (i == 0) {
            begin_round();
        }
        tell_program((pid_t)(1000 + i), 1, 1);
    }
    top_round_end(&model);
    assert_int_equal(model.count, TOP_SUBJECT_MAX);
    assert_true(model.left_out > 0);
}

static void of_thousands_of_connections_some_are_shown_and_all_are_counted(void **state)
{
    enum { COUNT = 20000, ENTRY_LEN = 64 };
    char *text = malloc((size_t)COUNT * ENTRY_LEN + 100);
    size_t len = (size_t)snprintf(text, ENTRY_LEN, "{\"weft0\":{},\"qps\":[");
    for (unsigned i = 0; i < COUNT; i++) {
        len += (size_t)snprintf(text + len, ENTRY_LEN,
                                "%s{\"qp_num\":%u,\"counters\":{\"send_completions\":1}}",
                                i > 0 ? "," : "", i);
    }
    memcpy(text + len, "]}", 3);
    begin_round();
    tell(PID, false, text);
    top_round_end(&model);
    free(text);
    assert_int_equal(subject(TOP_PROCESS, PID, false, "")->totals.work, COUNT);
    assert_true(model.count <= TOP_SUBJECT_MAX);
    assert_int_equal(model.count + model.left_out, COUNT + 1);
}

/* ---- the screen ------------------------------------------------------------------------------ */

static void draw(unsigned width, unsigned height)
{
    grid_fini(&grid);
    assert_int_equal(grid_init(&grid, width, height), 0);
    top_draw(&grid, &model, &view);
}

static const char *row(unsigned number)
{
    static char text[GRID_ROW_MAX];
    return grid_row(&grid, number, text);
}

static void expect_row(unsigned number, const char *text)
{
    assert_string_equal(row(number), text);
}

// Somewhere on the screen.
static void expect(const char *text)
{
    for (unsigned i = 0; i < grid.height; i++) {
        if (strstr(row(i), text) != NULL) {
            return;
        }
    }
    fail_msg("no \"%s\" on the screen", text);
}

static void press(const char *keys)
{
    for (; *keys != '\0'; keys++) {
        assert_true(top_view_key(&view, &model, top_draw_page(HEIGHT), *keys));
    }
}

static void what_is_beyond_the_edge_is_left_out(void **state)
{
    assert_int_equal(grid_init(&grid, 10, 2), 0);
    grid_put(&grid, 0, 8, 5, GRID_PLAIN, "abcde");
    grid_put(&grid, 2, 0, 5, GRID_PLAIN, "abcde");
    expect_row(0, "        ab");
    expect_row(1, "");
}

static void the_tables_at_80_by_24(void **state)
{
    two_rounds();
    draw(WIDTH, HEIGHT);
    expect_row(0,
               "1 processes 2  2 connections 2  3 volumes 1  4 RTAs 1  5 clients 1      every 1s");
    expect_row(1, "    PID PROGRAM      STATE     CONN  WR/s  IN/s OUT/s    P50    P99 DEVICES");
    expect_row(2, "    100 rping        ok           2  1.0k     0  1.0M 1.05us 1.05us weft0");
    expect_row(3,
               "    200 weft serve   ok           4    50     0  200K    9ns    9ns storage node");
    expect_row(4, "");
    expect_row(23, "q quit  1-5 Tab tables  s S sort  r reverse  / filter  Enter details  h help");
    press("2");
    draw(WIDTH, HEIGHT);
    expect_row(1, "    PID DEVICE AND QP         STATE      WR/s  IN/s OUT/s PEER");
    expect_row(2, "    100 weft0 11              RTS        1.0k     0  1.0M 10.0.0.2:7");
    expect_row(3, "    100 weft0 12              ERR           0     0     0 -");
    press("3");
    draw(WIDTH, HEIGHT);
    expect_row(2, "    200 disk         ready        4    50     0  200K    9ns    9ns    1M file");
    press("4");
    draw(WIDTH, HEIGHT);
    expect_row(2, "    200 disk                 ready          201    50      3        2     0");
    press("5");
    draw(WIDTH, HEIGHT);
    expect_row(2, "    200 10.0.0.9:33           disk            50     0  200K      2 nqn");
}

static void the_minute_of_the_chosen_row_is_drawn(void **state)
{
    two_rounds();
    draw(WIDTH, HEIGHT);
    assert_memory_equal(row(21), "minute, of 1M/s ____", 20);
    assert_string_equal(row(21) + strlen(row(21)) - 3, "__#");
    view.has_unicode = true;
    draw(WIDTH, HEIGHT);
    assert_string_equal(row(21) + strlen(row(21)) - 6, "▁█");
}

static void rows_are_sorted_by_any_column_both_ways(void **state)
{
    two_rounds();
    begin_round();
    tell_program(PID, 1001, 1024 + (1 << 20));
    tell_node(160);
    tell_program(PID + 1, 1, 1);
    top_round_end(&model);
    draw(WIDTH, HEIGHT); // by work requests
    assert_memory_equal(row(2), "    200", 7);
    press("r");
    draw(WIDTH, HEIGHT);
    assert_memory_equal(row(4), "    200", 7);
    press("rssssss"); // round to the first, PID
    draw(WIDTH, HEIGHT);
    assert_memory_equal(row(2), "    200", 7);
    assert_memory_equal(row(4), "    100", 7);
    press("s"); // the program's name
    draw(WIDTH, HEIGHT);
    assert_memory_equal(row(2), "    100 rping", 13);
    assert_memory_equal(row(4), "    200 weft", 12);
}

static void a_filter_leaves_what_holds_it(void **state)
{
    two_rounds();
    press("/Serve");
    draw(WIDTH, HEIGHT);
    expect_row(22, "filter: Serve_");
    assert_memory_equal(row(2), "    200", 7);
    expect_row(3, "");
    press("x\n");
    draw(WIDTH, HEIGHT);
    expect_row(2, "Nothing holds the filter.");
    expect_row(22, "filter: Servex");
    press("\033");
    draw(WIDTH, HEIGHT);
    assert_memory_equal(row(3), "    200", 7);
}

// What a key of the table of processes does, beside nothing.
struct key_row {
    int key;
    enum top_kind shows; // TOP_PROCESS: the same
    int sort;            // columns further
    bool reverses, types, opens;
    pid_t chooses; // 0: what was chosen before
};

static void expect_key(const struct key_row *row, int at, pid_t chosen_before)
{
    top_view_init(&view, 1, false);
    top_view_key(&view, &model, 10, at);
    const struct top_order before = view.orders[TOP_PROCESS];
    assert_true(top_view_key(&view, &model, 10, row->key));
    const struct top_order after = view.orders[TOP_PROCESS];
    assert_int_equal(view.kind, row->shows);
    assert_int_equal((int)after.sorted_by - (int)before.sorted_by, row->sort);
    assert_int_equal(after.is_reversed != before.is_reversed, row->reverses);
    assert_int_equal(view.is_typing, row->types);
    assert_int_equal(view.is_detail, row->opens);
    if (view.kind == TOP_PROCESS) {
        assert_int_equal(top_view_chosen(&view, &model)->pid,
                         row->chooses != 0 ? row->chooses : chosen_before);
    }
}

static void each_key_does_one_thing(void **state)
{
    static const struct key_row rows[] = {
        {TOP_KEY_UP, .chooses = PID},
        {'k', .chooses = PID},
        {TOP_KEY_DOWN, .chooses = NODE_PID},
        {'j', .chooses = NODE_PID},
        {TOP_KEY_PAGE_UP, .chooses = PID},
        {TOP_KEY_PAGE_DOWN, .chooses = NODE_PID},
        {TOP_KEY_HOME, .chooses = PID},
        {TOP_KEY_END, .chooses = NODE_PID},
        {TOP_KEY_TAB, .shows = TOP_CONNECTION},
        {'1'},
        {'2', .shows = TOP_CONNECTION},
        {'3', .shows = TOP_VOLUME},
        {'4', .shows = TOP_RTA},
        {'5', .shows = TOP_CLIENT},
        {'6'},
        {'s', .sort = 1},
        {TOP_KEY_RIGHT, .sort = 1},
        {'S', .sort = -1},
        {TOP_KEY_LEFT, .sort = -1},
        {'r', .reverses = true},
        {'/', .types = true},
        {TOP_KEY_ENTER, .opens = true},
        {TOP_KEY_ESCAPE},
        {'x'},
    };
    two_rounds();
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        expect_key(&rows[i], TOP_KEY_HOME, PID);
        expect_key(&rows[i], TOP_KEY_END, NODE_PID);
    }
}

static void tab_goes_through_all_tables_and_round(void **state)
{
    two_rounds();
    for (unsigned i = 1; i <= 2 * TOP_KIND_COUNT; i++) {
        assert_true(top_view_key(&view, &model, 10, TOP_KEY_TAB));
        assert_int_equal(view.kind, i % TOP_KIND_COUNT);
    }
}

static void the_choice_stays_with_its_row(void **state)
{
    two_rounds();
    assert_true(top_view_key(&view, &model, 10, TOP_KEY_DOWN));
    assert_int_equal(top_view_chosen(&view, &model)->pid, NODE_PID);
    press("r"); // now it is the first
    draw(WIDTH, HEIGHT);
    assert_int_equal(grid_at(&grid, 2, 0)->style, GRID_SELECTED);
    assert_int_equal(top_view_chosen(&view, &model)->pid, NODE_PID);
    assert_true(top_view_key(&view, &model, 10, TOP_KEY_HOME));
    assert_true(top_view_key(&view, &model, 10, TOP_KEY_END));
    assert_int_equal(top_view_chosen(&view, &model)->pid, PID);
}

static void details_of_a_connection_tell_states_and_holes_and_refusals(void **state)
{
    two_rounds();
    press("2\n");
    draw(WIDTH, 40);
    expect_row(1, "connection weft0 11 of process 100: 10.0.0.2:7");
    expect("state: RTS");
    expect("work requests 1000  in 0B  out 1MB  errors 0");
    expect("refused too long");
    expect("ranges 2  holes opened 9");
    expect("windows 3");
    expect("contexts 128  contexts in use 7");
    press("\033");
    draw(WIDTH, HEIGHT);
    expect("DEVICE AND QP");
}

static void words_of_details_flow_into_lines(void **state)
{
    two_rounds();
    press("2\n");
    draw(40, 60);
    expect_row(4, "  work requests 1000  in 0B  out 1MB");
    expect_row(5, "  errors 0");
}

static void details_scroll_as_far_as_there_are_lines(void **state)
{
    two_rounds();
    press("2\n");
    draw(WIDTH, 12);
    expect("state: RTS");
    expect_row(10, ""); // they end above the last minute
    for (unsigned i = 0; i < 100; i++) {
        assert_true(top_view_key(&view, &model, 7, TOP_KEY_DOWN));
    }
    draw(WIDTH, 12);
    expect("contexts in use 7");
    draw(WIDTH, 40);
    expect("state: RTS"); // and no further than they must
}

static void who_is_stopped_or_gone_stands_out(void **state)
{
    two_rounds();
    begin_round();
    top_no_answer(&model, PID, false, -ETIMEDOUT);
    top_round_end(&model);
    draw(WIDTH, HEIGHT);
    expect("rping        no answer    2     -     -     -");
    expect("weft serve   gone");
    press("s"); // not the chosen row, which has a style of its own
    assert_true(top_view_key(&view, &model, 10, TOP_KEY_END));
    draw(WIDTH, HEIGHT);
    assert_int_equal(grid_at(&grid, 2, 0)->style, GRID_TROUBLE);
}

static void strangers_texts_do_not_reach_the_terminal(void **state)
{
    begin_round();
    tell(PID, false,
         "{\"program\":\"a\\u001b[2J\\u00e9\\n\",\"weft0\":{\"\\u001b\":1},"
         "\"qps\":[{\"qp_num\":1,\"state\":\"\\u0007\"}]}");
    top_round_end(&model);
    for (unsigned i = 0; i < 4; i++) {
        press(i % 2 == 0 ? "1" : "2");
        view.is_detail = i >= 2;
        draw(WIDTH, HEIGHT);
        for (size_t c = 0; c < (size_t)WIDTH * HEIGHT; c++) {
            assert_in_range(grid.cells[c].character, ' ', 0x7e);
        }
    }
}

static void a_screen_of_any_size_is_drawn(void **state)
{
    two_rounds();
    for (unsigned width = 0; width < 100; width += 7) {
        for (unsigned height = 1; height < 30; height++) {
            view.is_detail = false;
            view.is_help = false;
            draw(width, height);
            press("\n");
            draw(width, height);
            press("h");
            draw(width, height);
            press("h\033");
        }
    }
}

static void nothing_that_runs_is_said_plainly(void **state)
{
    draw(WIDTH, HEIGHT);
    expect_row(2, "Nothing runs now. Start something with: weft run PROGRAM, weft serve FILE");
    press("\n"); // and there is nothing to open
    assert_false(view.is_detail);
}

static void help_fits_the_screen_and_any_key_ends_it(void **state)
{
    press("h");
    draw(WIDTH, HEIGHT);
    expect("q                 quit");
    for (unsigned i = 0; i < HEIGHT; i++) {
        assert_int_equal(grid_at(&grid, i, WIDTH - 1)->character, ' ');
    }
    press("q");
    assert_false(view.is_help);
    assert_false(top_view_key(&view, &model, 10, 'q'));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rates_are_of_the_time_between_two_answers),
        CASE(a_first_answer_has_no_rate),
        CASE(what_began_anew_has_no_rate_below_zero),
        CASE(percentiles_are_of_what_came_since_the_last_answer),
        CASE(a_minute_has_a_place_for_each_second),
        CASE(every_counter_is_summed_where_it_belongs),
        CASE(a_volume_and_its_rta_have_rates_too),
        CASE(who_does_not_answer_is_told_apart_from_who_is_gone),
        CASE(who_is_gone_is_shown_for_a_while_without_its_parts),
        CASE(any_shape_of_an_answer_is_taken),
        CASE(memory_is_bounded_whatever_is_told),
        CASE(of_thousands_of_connections_some_are_shown_and_all_are_counted),
        CASE(the_tables_at_80_by_24),
        CASE(the_minute_of_the_chosen_row_is_drawn),
        CASE(rows_are_sorted_by_any_column_both_ways),
        CASE(a_filter_leaves_what_holds_it),
        CASE(each_key_does_one_thing),
        CASE(tab_goes_through_all_tables_and_round),
        CASE(the_choice_stays_with_its_row),
        CASE(details_of_a_connection_tell_states_and_holes_and_refusals),
        CASE(words_of_details_flow_into_lines),
        CASE(details_scroll_as_far_as_there_are_lines),
        CASE(what_is_beyond_the_edge_is_left_out),
        CASE(who_is_stopped_or_gone_stands_out),
        CASE(strangers_texts_do_not_reach_the_terminal),
        CASE(a_screen_of_any_size_is_drawn),
        CASE(nothing_that_runs_is_said_plainly),
        CASE(help_fits_the_screen_and_any_key_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
