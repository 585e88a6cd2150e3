// Reservations of a volume, by no protocol: who may do what, what clients may ask for, what is
// written down and read again, and how the CTA keeps all its clients to them.

#include <inttypes.h>
#include <stddef.h>
#include <stdint.h>

#include "node/reservation/book.h"
#include "node/reservation/store.h"
#include "tests/node/rig.h"
#include "text/append.h"

enum { BLOCK = 4096, OTHER = RIG_CONNECTION + 1, TEXT_MAX = 4096 };

#define HOLDER     "holder"
#define REGISTRANT "registrant"
#define STRANGER   "stranger"

/* ---- the book -------------------------------------------------------------------------------- */

static char told[TEXT_MAX];

static void tell(void *ctx, const char *registrant, enum reservation_event event)
{
    static const char *const words[] = {"gone", "aborted", "released", "cleared"};
    text_append(told, sizeof told, "%s %s, ", registrant, words[event]);
}

static enum reservation_outcome ask(struct reservation *book, const char *name,
                                    struct reservation_wish wish)
{
    told[0] = '\0';
    return book_act(book, name, 1, &wish, &(struct book_listener){NULL, tell});
}

static void enrol(struct reservation *book, const char *name, uint64_t key)
{
    struct reservation_wish wish = {.action = RESERVATION_REGISTER, .new_key = key};
    assert_int_equal(ask(book, name, wish), RESERVATION_DONE);
}

// The holder has key 1, another registrant key 2.
static struct reservation reserved(unsigned type)
{
    struct reservation book = {.can_persist = true};
    enrol(&book, HOLDER, 1);
    enrol(&book, REGISTRANT, 2);
    struct reservation_wish wish = {.action = RESERVATION_ACQUIRE, .type = (uint8_t)type, .key = 1};
    assert_int_equal(ask(&book, HOLDER, wish), RESERVATION_DONE);
    return book;
}

static void each_type_lets_in_whom_it_is_for(void **state)
{
    static const struct {
        unsigned type;
        const char *may; // of holder, registrant and stranger: read, write
    } rows[] = {
        {WRITE_EXCLUSIVE, "rw r- r-"},
        {EXCLUSIVE_ACCESS, "rw -- --"},
        {WRITE_EXCLUSIVE_REGISTRANTS, "rw rw r-"},
        {EXCLUSIVE_ACCESS_REGISTRANTS, "rw rw --"},
        {WRITE_EXCLUSIVE_ALL, "rw rw r-"},
        {EXCLUSIVE_ACCESS_ALL, "rw rw --"},
    };
    static const char *const names[] = {HOLDER, REGISTRANT, STRANGER};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct reservation book = reserved(rows[i].type);
        char may[16] = "";
        for (unsigned n = 0; n < 3; n++) {
            bool reads = reservation_allows(&book, names[n], 7, RESERVATION_TO_READ);
            bool writes = reservation_allows(&book, names[n], 7, RESERVATION_TO_WRITE);
            text_append(may, sizeof may, "%s%s%s", n > 0 ? " " : "", reads ? "r" : "-",
                        writes ? "w" : "-");
        }
        assert_string_equal(may, rows[i].may);
        assert_int_equal(reservation_is_held_by(&book, REGISTRANT),
                         rows[i].type >= WRITE_EXCLUSIVE_ALL);
    }
}

static void who_has_no_name_is_no_registrant(void **state)
{
    struct reservation book = reserved(EXCLUSIVE_ACCESS_ALL);
    assert_null(reservation_registrant(&book, ""));
    assert_false(reservation_allows(&book, "", 7, RESERVATION_TO_READ));
}

static void who_preempts_takes_over_and_the_others_are_told(void **state)
{
    struct reservation book = reserved(WRITE_EXCLUSIVE_REGISTRANTS);
    struct reservation_wish wish = {
        .action = RESERVATION_PREEMPT, .type = EXCLUSIVE_ACCESS, .key = 2, .new_key = 1};
    enrol(&book, STRANGER, 3);
    assert_int_equal(ask(&book, REGISTRANT, wish), RESERVATION_DONE);
    assert_string_equal(told, HOLDER " gone, " STRANGER " released, ");
    assert_true(reservation_is_held_by(&book, REGISTRANT));
    assert_null(reservation_registrant(&book, HOLDER));
    assert_int_equal(book.type, EXCLUSIVE_ACCESS);
}

// The registrants with their keys, in order, and what is held.
static const char *looks(const struct reservation *book)
{
    static char text[TEXT_MAX];
    text[0] = '\0';
    for (unsigned i = 0; i < book->registrant_count; i++) {
        text_append(text, sizeof text, "%s:%u ", book->registrants[i].name,
                    (unsigned)book->registrants[i].key);
    }
    text_append(text, sizeof text, "| %s %u", book->holder, book->type);
    return text;
}

#define THIRD  "third"
#define FOURTH "fourth" // is not registered
#define ALL    "holder:1 registrant:2 third:3 "

static const struct {
    unsigned type; // held before by the holder
    const char *name;
    struct reservation_wish wish;
    unsigned generations;
    const char *told, *looks;
} acts[] = {
    // Registering: a key comes, changes and goes, and what its owner holds with it.
    {1, FOURTH, {.action = RESERVATION_REGISTER, .new_key = 4}, 1, "", ALL "fourth:4 | holder 1"},
    {1,
     FOURTH,
     {.action = RESERVATION_REGISTER_ANY, .key = 9, .new_key = 4},
     1,
     "",
     ALL "fourth:4 | holder 1"},
    {1, FOURTH, {.action = RESERVATION_REGISTER}, 0, "", ALL "| holder 1"},
    {1,
     HOLDER,
     {.action = RESERVATION_REGISTER, .key = 1, .new_key = 7},
     1,
     "",
     "holder:7 registrant:2 third:3 | holder 1"},
    {1,
     HOLDER,
     {.action = RESERVATION_REGISTER_ANY, .key = 9, .new_key = 7},
     1,
     "",
     "holder:7 registrant:2 third:3 | holder 1"},
    {1,
     REGISTRANT,
     {.action = RESERVATION_REGISTER, .key = 2},
     1,
     "",
     "holder:1 third:3 | holder 1"},
    {1, HOLDER, {.action = RESERVATION_REGISTER, .key = 1}, 1, "", "third:3 registrant:2 |  0"},
    {3,
     HOLDER,
     {.action = RESERVATION_REGISTER, .key = 1},
     1,
     "third released, registrant released, ",
     "third:3 registrant:2 |  0"},
    {5,
     HOLDER,
     {.action = RESERVATION_REGISTER, .key = 1},
     1,
     "",
     "third:3 registrant:2 | holder 5"},
    // Acquiring and releasing.
    {0,
     REGISTRANT,
     {.action = RESERVATION_ACQUIRE, .key = 2, .type = 2},
     0,
     "",
     ALL "| registrant 2"},
    {1, HOLDER, {.action = RESERVATION_ACQUIRE, .key = 1, .type = 1}, 0, "", ALL "| holder 1"},
    {1, HOLDER, {.action = RESERVATION_RELEASE, .key = 1, .type = 1}, 0, "", ALL "|  0"},
    {3,
     HOLDER,
     {.action = RESERVATION_RELEASE, .key = 1, .type = 3},
     0,
     "registrant released, third released, ",
     ALL "|  0"},
    {5,
     REGISTRANT,
     {.action = RESERVATION_RELEASE, .key = 2, .type = 5},
     0,
     "holder released, third released, ",
     ALL "|  0"},
    {1, REGISTRANT, {.action = RESERVATION_RELEASE, .key = 2, .type = 1}, 0, "", ALL "| holder 1"},
    {1,
     HOLDER,
     {.action = RESERVATION_CLEAR, .key = 1},
     1,
     "registrant cleared, third cleared, ",
     "|  0"},
    {1,
     REGISTRANT,
     {.action = RESERVATION_CLEAR, .key = 2},
     1,
     "holder cleared, third cleared, ",
     "|  0"},
    // Preempting: the holder, somebody else, all, and with one's own key.
    {1,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT, .key = 2, .new_key = 1, .type = 3},
     1,
     "holder gone, third released, ",
     "registrant:2 third:3 | registrant 3"},
    {1,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT, .key = 2, .new_key = 1, .type = 1},
     1,
     "holder gone, ",
     "registrant:2 third:3 | registrant 1"},
    {1,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT_AND_ABORT, .key = 2, .new_key = 1, .type = 1},
     1,
     "holder gone, holder aborted, ",
     "registrant:2 third:3 | registrant 1"},
    {1,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT, .key = 2, .new_key = 3},
     1,
     "third gone, ",
     "holder:1 registrant:2 | holder 1"},
    {0,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT, .key = 2, .new_key = 1},
     1,
     "holder gone, ",
     "registrant:2 third:3 |  0"},
    {5,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT, .key = 2, .type = 5},
     1,
     "holder gone, third gone, ",
     "registrant:2 | registrant 5"},
    {5,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT, .key = 2, .new_key = 3, .type = 5},
     1,
     "third gone, ",
     "holder:1 registrant:2 | holder 5"},
    {1,
     HOLDER,
     {.action = RESERVATION_PREEMPT, .key = 1, .new_key = 1, .type = 3},
     1,
     "registrant released, third released, ",
     ALL "| holder 3"},
    {1,
     REGISTRANT,
     {.action = RESERVATION_PREEMPT, .key = 2, .new_key = 2, .type = 3},
     1,
     "",
     ALL "| holder 1"},
};

static void each_action_changes_what_it_is_to(void **state)
{
    for (unsigned i = 0; i < sizeof acts / sizeof acts[0]; i++) {
        struct reservation book = reserved(WRITE_EXCLUSIVE);
        enrol(&book, THIRD, 3);
        book.type = (uint8_t)acts[i].type;
        book.holder[0] = acts[i].type == 0 ? '\0' : book.holder[0];
        uint32_t generation = book.generation;
        assert_int_equal(ask(&book, acts[i].name, acts[i].wish), RESERVATION_DONE);
        assert_string_equal(told, acts[i].told);
        assert_string_equal(looks(&book), acts[i].looks);
        assert_int_equal(book.generation - generation, acts[i].generations);
    }
}

static void what_all_hold_ends_with_the_last(void **state)
{
    struct reservation book = reserved(EXCLUSIVE_ACCESS_ALL);
    struct reservation_wish go = {.action = RESERVATION_REGISTER, .key = 1};
    assert_int_equal(ask(&book, HOLDER, go), RESERVATION_DONE);
    assert_int_equal(book.type, EXCLUSIVE_ACCESS_ALL);
    go.key = 2;
    assert_int_equal(ask(&book, REGISTRANT, go), RESERVATION_DONE);
    assert_string_equal(looks(&book), "|  0");
}

static void what_is_wrong_changes_nothing(void **state)
{
    static const struct {
        struct reservation_wish wish;
        enum reservation_outcome outcome;
    } rows[] = {
        {{.action = RESERVATION_REGISTER, .key = 9, .new_key = 3}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_ACQUIRE, .key = 9, .type = 1}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_ACQUIRE, .key = 1, .type = 2}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_ACQUIRE, .key = 1, .type = 7}, RESERVATION_BAD_TYPE},
        {{.action = RESERVATION_RELEASE, .key = 1, .type = 2}, RESERVATION_OTHER_TYPE},
        {{.action = RESERVATION_RELEASE, .key = 9, .type = 1}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_CLEAR, .key = 2}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_PREEMPT, .key = 9, .new_key = 2}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_PREEMPT_AND_ABORT, .key = 9, .new_key = 2}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_PREEMPT, .key = 1, .type = 1}, RESERVATION_BAD_KEY},
        {{.action = RESERVATION_PREEMPT, .key = 1, .new_key = 9}, RESERVATION_CONFLICT},
        {{.action = RESERVATION_PREEMPT, .key = 1, .new_key = 1, .type = 0}, RESERVATION_BAD_TYPE},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct reservation book = reserved(WRITE_EXCLUSIVE), before = book;
        assert_int_equal(ask(&book, HOLDER, rows[i].wish), rows[i].outcome);
        assert_memory_equal(&book, &before, sizeof book);
        assert_string_equal(told, "");
    }
}

static void registrants_are_so_many_at_most(void **state)
{
    struct reservation book = {0};
    char name[16];
    for (unsigned i = 0; i < RESERVATION_REGISTRANT_MAX; i++) {
        snprintf(name, sizeof name, "client %u", i);
        enrol(&book, name, 1);
    }
    struct reservation_wish wish = {.action = RESERVATION_REGISTER, .new_key = 1};
    assert_int_equal(ask(&book, "one more", wish), RESERVATION_FULL);
    assert_int_equal(book.registrant_count, RESERVATION_REGISTRANT_MAX);
}

static void what_cannot_be_stored_is_not_promised(void **state)
{
    struct reservation book = {.can_persist = false};
    struct reservation_wish wish = {
        .action = RESERVATION_REGISTER, .new_key = 1, .persistence = RESERVATION_PERSISTS};
    assert_int_equal(ask(&book, HOLDER, wish), RESERVATION_NO_STORE);
    assert_int_equal(book.registrant_count, 0);
}

/* ---- the store ------------------------------------------------------------------------------- */

static const uint8_t uuid[VOLUME_UUID_LEN] = {0xa1, 2, 3, 4};

static void put(void *ctx, const char *line)
{
    text_append(ctx, TEXT_MAX, "%s\n", line);
}

static void what_outlives_the_node_is_written_and_read_again(void **state)
{
    static const char odd[] = "iqn.a b\n%,i,0x1";
    char text[TEXT_MAX] = "", again[TEXT_MAX] = "";
    struct why why;
    struct reservation_store *store = reservation_store_create(true);
    struct reservation *book = reservation_store_join(store, uuid);
    *book = reserved(WRITE_EXCLUSIVE_REGISTRANTS);
    book->persists = true;
    enrol(book, odd, UINT64_MAX);
    reservation_store_emit(store, put, text);
    memcpy(again, text, sizeof again);
    struct reservation_store *successor = reservation_store_create(true);
    assert_true(reservation_store_parse(successor, text, &why));
    struct reservation *read = reservation_store_join(successor, uuid);
    assert_memory_equal(read, book, sizeof *read);
    text[0] = '\0';
    reservation_store_emit(successor, put, text);
    assert_string_equal(text, again);
    reservation_store_destroy(store);
    reservation_store_destroy(successor);
}

static void only_what_is_to_persist_outlives_its_volume(void **state)
{
    char text[TEXT_MAX] = "";
    struct reservation_store *store = reservation_store_create(true);
    for (unsigned persists = 0; persists < 2; persists++) {
        struct reservation *book = reservation_store_join(store, uuid);
        *book = reserved(WRITE_EXCLUSIVE);
        book->persists = persists != 0;
        reservation_store_leave(store, book);
        book = reservation_store_join(store, uuid);
        assert_int_equal(book->registrant_count, persists != 0 ? 2 : 0);
        reservation_store_leave(store, book);
    }
    reservation_store_emit(store, put, text);
    assert_non_null(strstr(text, "volume a1020304"));
    reservation_store_destroy(store);
}

#define HEADER "weft reservations 1\n"
#define VOLUME "volume a1020304000000000000000000000000 4 1\n"

static void a_text_that_no_node_has_written_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "weft reservations 2\nend\n",
        HEADER,
        HEADER "end",
        HEADER "end\nend\n",
        HEADER "something 1 2\nend\n",
        HEADER "registrant 1 a\nend\n",
        HEADER VOLUME "end\n",                                   // nobody
        HEADER VOLUME "registrant 1 a\nend\n",                   // nobody who holds it
        HEADER VOLUME "holder 1 a\nholder 1 b\nend\n",           // two
        HEADER VOLUME "holder 1 a\nregistrant 2 a\nend\n",       // one twice
        HEADER VOLUME "holder 0 a\nend\n",                       // no key
        HEADER VOLUME "holder 10000000000000000 a\nend\n",       // a key too long
        HEADER VOLUME "holder 1 a\n" VOLUME "holder 1 a\nend\n", // a volume twice
        HEADER "volume a102 4 1\nholder 1 a\nend\n",
        HEADER "volume a1020304000000000000000000000000 4 7\nholder 1 a\nend\n",
        HEADER "volume a1020304000000000000000000000000 -4 1\nholder 1 a\nend\n",
    };
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct reservation_store *store = reservation_store_create(true);
        char text[TEXT_MAX];
        struct why why = {""};
        snprintf(text, sizeof text, "%s", texts[i]);
        if (reservation_store_parse(store, text, &why)) {
            fail_msg("taken: %s", texts[i]);
        }
        assert_non_null(strstr(why.text, "line "));
        reservation_store_destroy(store);
    }
}

/* ---- the CTA --------------------------------------------------------------------------------- */

// Two connections of a volume: of a client that registers, and of one whose protocol has no names.
struct stage {
    struct rig *rig;
    struct reservation book;
    unsigned answers;
    char events[TEXT_MAX];
    uint64_t tickets;
};

static struct stage *stage;

static void on_reserved(void *ctx, struct reservation_request *request, instant_ns now)
{
    stage->answers++;
}

static void on_reservation(void *ctx, uint32_t connection, enum reservation_event event,
                           instant_ns now)
{
    tell(NULL, connection == RIG_CONNECTION ? "first" : "other", event);
    text_append(stage->events, sizeof stage->events, "%s", told);
    told[0] = '\0';
}

static uint64_t note_store(void *ctx)
{
    return ++stage->tickets;
}

static const struct tts_for_cta tts = {.transfer = rig_transfer,
                                       .complete = rig_complete,
                                       .on_reserved = on_reserved,
                                       .on_reservation = on_reservation};

static void route_add(struct rig *rig, uint32_t connection, const char *registrant)
{
    struct client_route route = rig_route(rig, connection);
    route.reservation = &stage->book;
    route.tts = &tts;
    snprintf(route.client.registrant, sizeof route.client.registrant, "%s", registrant);
    cta_for_uma.route_add(rig->cta, &route);
    assert_int_equal(rig->route_status, CONNECT_OK);
}

static struct rig *stage_begin(const char *other)
{
    stage = calloc(1, sizeof *stage);
    struct rig *rig = rig_create();
    rig->reservations_store = note_store;
    rig_rta_start(rig);
    rig_tell(rig, (struct unit_message){
                      .kind = UNIT_CONNECTION_ADD, .volume = RIG_VOLUME, .connection = OTHER});
    route_add(rig, RIG_CONNECTION, HOLDER);
    route_add(rig, OTHER, other);
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    stage->rig = rig;
    return rig;
}

static void stage_end(void)
{
    rig_destroy(stage->rig);
    free(stage);
}

static struct reservation_request wish(uint32_t connection, struct reservation_wish wish)
{
    return (struct reservation_request){.connection = connection, .wish = wish};
}

// Answered at once.
static void reserve(struct rig *rig, uint32_t connection, struct reservation_wish what)
{
    struct reservation_request request = wish(connection, what);
    unsigned before = stage->answers;
    cta_for_tts.reserve(rig->cta, &request, rig->now);
    assert_int_equal(stage->answers, before + 1);
    assert_int_equal(request.outcome, RESERVATION_DONE);
}

static void reserve_type(struct rig *rig, uint8_t type)
{
    reserve(rig, RIG_CONNECTION,
            (struct reservation_wish){.action = RESERVATION_REGISTER, .new_key = 1});
    reserve(rig, RIG_CONNECTION,
            (struct reservation_wish){.action = RESERVATION_ACQUIRE, .type = type, .key = 1});
}

static enum node_completion outcome(struct rig *rig, uint32_t connection, unsigned operation)
{
    struct service_request request = rig_request(operation, 0, BLOCK);
    unsigned done = rig->completed, moved = rig->transferred;
    request.connection = connection;
    if (operation == NODE_FLUSH) {
        request.offset = request.len = 0;
    }
    rig_submit_request(rig, &request);
    rig_run(rig);
    assert_true(rig->completed > done || rig->transferred > moved);
    return rig->completed > done ? rig->last_completion : NODE_OK;
}

static void a_client_without_a_name_obeys_too(void **state)
{
    struct rig *rig = stage_begin("");
    assert_int_equal(outcome(rig, OTHER, NODE_WRITE), NODE_OK);
    reserve_type(rig, WRITE_EXCLUSIVE);
    static const unsigned changes[] = {NODE_WRITE, NODE_TRIM, NODE_WRITE_ZEROES, NODE_FLUSH};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(outcome(rig, OTHER, changes[i]), NODE_RESERVED);
        assert_int_equal(outcome(rig, RIG_CONNECTION, changes[i]), NODE_OK);
    }
    assert_int_equal(outcome(rig, OTHER, NODE_READ), NODE_OK);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->completions[NODE_RESERVED], 4);
    stage_end();
}

// What he may read he may have made stable.
static void a_flush_for_who_reads_is_a_read(void **state)
{
    static const struct {
        uint8_t type;
        enum node_completion completion;
    } rows[] = {{WRITE_EXCLUSIVE, NODE_OK}, {EXCLUSIVE_ACCESS, NODE_RESERVED}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct rig *rig = stage_begin("");
        reserve_type(rig, rows[i].type);
        struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
        flush.connection = OTHER;
        flush.flags = NODE_FOR_READ;
        rig_submit_request(rig, &flush);
        rig_run(rig);
        assert_int_equal(rig->last_completion, rows[i].completion);
        stage_end();
    }
}

static void a_claim_is_its_connections_and_ends_with_it(void **state)
{
    struct rig *rig = stage_begin("");
    assert_true(cta_for_tts.claim(rig->cta, RIG_CONNECTION));
    assert_false(cta_for_tts.claim(rig->cta, OTHER));
    assert_int_equal(outcome(rig, OTHER, NODE_READ), NODE_RESERVED);
    cta_for_tts.unclaim(rig->cta, OTHER, false);
    assert_int_equal(outcome(rig, OTHER, NODE_READ), NODE_RESERVED);
    cta_for_uma.route_remove(rig->cta, RIG_CONNECTION);
    assert_int_equal(outcome(rig, OTHER, NODE_READ), NODE_OK);
    stage_end();
}

// A slow client's data come when the volume has become somebody else's.
static void data_that_come_too_late_are_not_written(void **state)
{
    struct rig *rig = stage_begin("");
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    write.connection = OTHER;
    rig->is_slow = true;
    rig_submit_request(rig, &write);
    assert_int_equal(rig->transfer_count, 1);
    reserve_type(rig, WRITE_EXCLUSIVE);
    memset(write.data, 0xee, BLOCK);
    cta_for_tts.transferred(rig->cta, &write, NODE_OK, rig->now);
    rig_run(rig);
    assert_int_equal(rig->last_completion, NODE_RESERVED);
    assert_int_equal(rig->volume[0], 0);
    stage_end();
}

static const struct reservation_wish preempt = {
    .action = RESERVATION_PREEMPT_AND_ABORT, .type = WRITE_EXCLUSIVE, .key = 1, .new_key = 2};

static void who_preempts_and_aborts_hears_when_the_device_is_done(void **state)
{
    struct rig *rig = stage_begin(REGISTRANT);
    reserve_type(rig, WRITE_EXCLUSIVE_REGISTRANTS);
    reserve(rig, OTHER, (struct reservation_wish){.action = RESERVATION_REGISTER, .new_key = 2});
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    write.connection = OTHER;
    rig->holds = true;
    rig_submit_request(rig, &write);
    rig_run(rig);
    assert_int_equal(rig->held_count, 1);
    struct reservation_request request = wish(RIG_CONNECTION, preempt);
    unsigned before = stage->answers;
    cta_for_tts.reserve(rig->cta, &request, rig->now);
    rig_run(rig);
    assert_int_equal(stage->answers, before);
    assert_string_equal(stage->events, "other gone, other aborted, ");
    rig->holds = false;
    rig_release(rig, 0);
    rig_run(rig);
    cta_flush(rig->cta, rig->now);
    assert_int_equal(stage->answers, before + 1);
    assert_int_equal(request.outcome, RESERVATION_DONE);
    assert_int_equal(outcome(rig, OTHER, NODE_WRITE), NODE_RESERVED);
    stage_end();
}

static void what_has_not_gone_to_the_device_is_aborted(void **state)
{
    struct rig *rig = stage_begin(REGISTRANT);
    reserve_type(rig, WRITE_EXCLUSIVE_REGISTRANTS);
    reserve(rig, OTHER, (struct reservation_wish){.action = RESERVATION_REGISTER, .new_key = 2});
    struct service_request write = rig_request(NODE_WRITE, 0, BLOCK);
    write.connection = OTHER;
    rig_submit_request(rig, &write); // not flushed: it is ready to go
    reserve(rig, RIG_CONNECTION, preempt);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(rig->last_completion, NODE_RESERVED);
    rig_run(rig);
    assert_int_equal(rig->volume[0], 0);
    stage_end();
}

static void what_is_to_persist_is_answered_when_it_is_stored(void **state)
{
    for (unsigned is_stored = 0; is_stored < 2; is_stored++) {
        struct rig *rig = stage_begin("");
        stage->book.can_persist = true;
        struct reservation_request request =
            wish(RIG_CONNECTION, (struct reservation_wish){.action = RESERVATION_REGISTER,
                                                           .new_key = 1,
                                                           .persistence = RESERVATION_PERSISTS});
        cta_for_tts.reserve(rig->cta, &request, rig->now);
        cta_flush(rig->cta, rig->now);
        assert_int_equal(stage->tickets, 1);
        assert_int_equal(stage->answers, 0);
        cta_reservations_stored(rig->cta, 1, is_stored != 0);
        cta_flush(rig->cta, rig->now);
        assert_int_equal(stage->answers, 1);
        assert_int_equal(request.outcome,
                         is_stored != 0 ? RESERVATION_DONE : RESERVATION_NOT_STORED);
        stage_end();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_type_lets_in_whom_it_is_for),
        cmocka_unit_test(who_has_no_name_is_no_registrant),
        cmocka_unit_test(who_preempts_takes_over_and_the_others_are_told),
        cmocka_unit_test(each_action_changes_what_it_is_to),
        cmocka_unit_test(what_all_hold_ends_with_the_last),
        cmocka_unit_test(what_is_wrong_changes_nothing),
        cmocka_unit_test(registrants_are_so_many_at_most),
        cmocka_unit_test(what_cannot_be_stored_is_not_promised),
        cmocka_unit_test(what_outlives_the_node_is_written_and_read_again),
        cmocka_unit_test(only_what_is_to_persist_outlives_its_volume),
        cmocka_unit_test(a_text_that_no_node_has_written_is_refused),
        cmocka_unit_test(a_client_without_a_name_obeys_too),
        cmocka_unit_test(a_flush_for_who_reads_is_a_read),
        cmocka_unit_test(a_claim_is_its_connections_and_ends_with_it),
        cmocka_unit_test(data_that_come_too_late_are_not_written),
        cmocka_unit_test(who_preempts_and_aborts_hears_when_the_device_is_done),
        cmocka_unit_test(what_has_not_gone_to_the_device_is_aborted),
        cmocka_unit_test(what_is_to_persist_is_answered_when_it_is_stored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
