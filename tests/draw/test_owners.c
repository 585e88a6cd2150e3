// Which connection a queue pair's records are of, and since when.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "draw/owners.h"

static struct owners owners;

static int setup(void **state)
{
    return owners_create(&owners) ? 0 : -1;
}

static int teardown(void **state)
{
    owners_destroy(&owners);
    assert_int_equal(owners.count, 0);
    owners_destroy(&owners); // nothing is left
    return 0;
}

static struct capture_record record_of(enum journal_kind kind, uint64_t number, uint32_t qp_num)
{
    return (struct capture_record){
        .number = number, .at = 1000 * number, .what = {.kind = kind, .qp_num = qp_num}};
}

static void see(unsigned origin, enum journal_kind kind, uint64_t number, uint32_t qp_num)
{
    struct capture_record record = record_of(kind, number, qp_num);
    record.what.carried.local_port = (uint16_t)number;
    owners_see(&owners, origin, &record);
}

// The port by which the owner of that record is known; 0: it has none.
static unsigned owner_of(unsigned origin, uint64_t number, uint32_t qp_num)
{
    const struct capture_record record = record_of(JOURNAL_SEND_POSTED, number, qp_num);
    unsigned found = 0;
    for (uint32_t i = 0; i < owners.count; i++) {
        if (owner_has(&owners.owner[i], origin, &record)) {
            assert_int_equal(found, 0); // one alone
            found = owners.owner[i].carried.local_port;
        }
    }
    return found;
}

/* ---- records --------------------------------------------------------------------------------- */

static void a_record_is_of_the_latest_connection_before_it(void **state)
{
    see(0, JOURNAL_SEND_POSTED, 5, 7); // tells of none
    assert_int_equal(owners.count, 0);
    see(0, JOURNAL_CARRIED, 10, 7);
    see(0, JOURNAL_CARRIED, 15, 8);
    see(1, JOURNAL_CARRIED, 17, 7);
    see(0, JOURNAL_CARRIED, 20, 7);
    see(0, JOURNAL_CARRIED, 30, 7);
    static const struct {
        unsigned origin;
        uint64_t number;
        uint32_t qp_num;
        unsigned owner;
    } rows[] = {{0, 1, 7, 10},  {0, 10, 7, 10}, {0, 19, 7, 10}, {0, 20, 7, 20}, {0, 29, 7, 20},
                {0, 30, 7, 30}, {0, 99, 7, 30}, {0, 1, 8, 15},  {0, 99, 8, 15}, {1, 1, 7, 17},
                {1, 25, 7, 17}, {1, 25, 8, 0},  {0, 25, 9, 0}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(owner_of(rows[i].origin, rows[i].number, rows[i].qp_num), rows[i].owner);
    }
    assert_int_equal(owners.owner[0].at, 10 * 1000);
}

static void who_opens_a_hole_tells_of_holes(void **state)
{
    see(0, JOURNAL_HOLE_OPENED, 1, 7); // of no connection
    see(0, JOURNAL_CARRIED, 10, 7);
    see(0, JOURNAL_CARRIED, 11, 8);
    see(1, JOURNAL_CARRIED, 12, 7);
    see(0, JOURNAL_CARRIED, 20, 7);
    see(0, JOURNAL_HOLE_CLOSED, 21, 8);
    see(0, JOURNAL_HOLE_OPENED, 22, 7);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(owners.owner[i].tells_holes, i == 3);
    }
}

static void owners_beyond_the_room_are_counted(void **state)
{
    for (uint32_t i = 1; i <= OWNERS_MAX + 2; i++) {
        see(0, JOURNAL_CARRIED, i, 7);
    }
    assert_int_equal(owners.count, OWNERS_MAX);
    assert_int_equal(owners.left_out, 2);
    assert_int_equal(owners.owner[OWNERS_MAX - 1].to, UINT64_MAX); // the last goes on
    assert_int_equal(owners.owner[OWNERS_MAX - 2].to, OWNERS_MAX);
}

/* ---- sides ----------------------------------------------------------------------------------- */

enum { LEFT_QP = 0x11, RIGHT_QP = 0x22, LEFT_PORT = 100, RIGHT_PORT = 200 };

static struct in6_addr addr_of(uint8_t last)
{
    return (struct in6_addr){.s6_addr = {0xfe, 0x80, [15] = last}};
}

static struct registry_connection connection_of(enum registry_wire wire)
{
    return (struct registry_connection){
        .wire = wire,
        .end = {{addr_of(1), LEFT_PORT}, {addr_of(2), RIGHT_PORT}},
        .qp = {LEFT_QP, RIGHT_QP},
        .first = 10 * NS_PER_S,
        .last = 20 * NS_PER_S,
    };
}

// A stream is known by addresses and ports, a queue pair of packets by addresses and numbers.
static void a_queue_pair_is_the_end_that_it_says(void **state)
{
    static const struct {
        uint8_t local, remote;
        uint16_t local_port, remote_port;
        uint32_t qp_num, remote_qp_num;
        unsigned iwarp, rc, ud;
    } rows[] = {
        {1, 2, LEFT_PORT, RIGHT_PORT, 99, 0, 0, 2, 2},
        {2, 1, RIGHT_PORT, LEFT_PORT, 99, 0, 1, 2, 2},
        {1, 2, RIGHT_PORT, LEFT_PORT, 99, 0, 2, 2, 2},
        {1, 2, LEFT_PORT, LEFT_PORT, 99, 0, 2, 2, 2},
        {2, 2, LEFT_PORT, RIGHT_PORT, 99, 0, 2, 2, 2},
        {1, 1, LEFT_PORT, RIGHT_PORT, 99, 0, 2, 2, 2},
        {1, 2, 0, 0, LEFT_QP, RIGHT_QP, 2, 0, 2},
        {2, 1, 0, 0, RIGHT_QP, LEFT_QP, 2, 1, 2},
        {1, 2, 0, 0, RIGHT_QP, LEFT_QP, 2, 2, 2},
        {1, 2, 0, 0, LEFT_QP, 99, 2, 2, 2},
        {1, 2, 0, 0, 99, RIGHT_QP, 2, 2, 2},
        {1, 2, LEFT_PORT, RIGHT_PORT, LEFT_QP, RIGHT_QP, 0, 2, 2},
        {0, 0, 0, 0, LEFT_QP, 0, 2, 2, 0}, // datagrams, from any address to any
        {0, 0, 0, 0, RIGHT_QP, 0, 2, 2, 1},
        {0, 0, 0, 0, 99, 0, 2, 2, 2},
        {0, 0, LEFT_PORT, 0, LEFT_QP, 0, 2, 2, 2},
    };
    const struct registry_connection iwarp = connection_of(REGISTRY_IWARP),
                                     rc = connection_of(REGISTRY_RC),
                                     uc = connection_of(REGISTRY_UC),
                                     ud = connection_of(REGISTRY_UD);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct owner o = {.qp_num = rows[i].qp_num,
                          .at = 15 * NS_PER_S,
                          .carried = {.local_port = rows[i].local_port,
                                      .remote_port = rows[i].remote_port,
                                      .remote_qp_num = rows[i].remote_qp_num}};
        if (rows[i].local != 0) {
            o.carried.local = addr_of(rows[i].local);
            o.carried.remote = addr_of(rows[i].remote);
        }
        assert_int_equal(owner_side(&o, &iwarp), rows[i].iwarp);
        assert_int_equal(owner_side(&o, &rc), rows[i].rc);
        assert_int_equal(owner_side(&o, &uc), rows[i].rc);
        assert_int_equal(owner_side(&o, &ud), rows[i].ud);
    }
}

static void who_has_one_number_at_both_ends_is_the_first(void **state)
{
    struct registry_connection ud = connection_of(REGISTRY_UD);
    const struct owner o = {.qp_num = LEFT_QP, .at = 15 * NS_PER_S};
    ud.qp[1] = LEFT_QP;
    assert_int_equal(owner_side(&o, &ud), 0);
}

// The record and the packets may be a second apart; a queue pair of datagrams is older than those.
static void a_record_is_of_the_connection_of_its_time(void **state)
{
    static const struct {
        instant_ns at;
        bool is_iwarp, is_ud;
    } rows[] = {
        {0, false, true},
        {9 * NS_PER_S - 1, false, true},
        {9 * NS_PER_S, true, true},
        {21 * NS_PER_S, true, true},
        {21 * NS_PER_S + 1, false, false},
    };
    const struct registry_connection iwarp = connection_of(REGISTRY_IWARP),
                                     ud = connection_of(REGISTRY_UD);
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct owner stream = {.at = rows[i].at,
                                     .carried = {.local = addr_of(1),
                                                 .remote = addr_of(2),
                                                 .local_port = LEFT_PORT,
                                                 .remote_port = RIGHT_PORT}};
        const struct owner datagrams = {.at = rows[i].at, .qp_num = RIGHT_QP};
        assert_int_equal(owner_side(&stream, &iwarp), rows[i].is_iwarp ? 0 : 2);
        assert_int_equal(owner_side(&datagrams, &ud), rows[i].is_ud ? 1 : 2);
    }
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_record_is_of_the_latest_connection_before_it),
        CASE(who_opens_a_hole_tells_of_holes),
        CASE(owners_beyond_the_room_are_counted),
        CASE(a_queue_pair_is_the_end_that_it_says),
        CASE(who_has_one_number_at_both_ends_is_the_first),
        CASE(a_record_is_of_the_connection_of_its_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
