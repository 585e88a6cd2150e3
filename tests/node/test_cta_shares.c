// Shares of the pool and of the requests under way: who waits, for whom, and who does not.

#include <stddef.h>
#include <stdint.h>

#include "tests/node/rig.h"

enum { MIB = 1 << 20, KIB = 1 << 10, REQUEST_MAX = 300 };

// A rig whose clients are slow: what they asked for is lent until the test says otherwise.
static struct rig *slow_rig(void)
{
    struct rig *rig = rig_create();
    rig_rta_start(rig);
    rig->is_slow = true;
    cta_for_uma.unit_ready(rig->cta, RIG_UNIT, rig->now);
    return rig;
}

static uint32_t connect(struct rig *rig, uint32_t number, uint32_t volume, const char *host)
{
    struct client_route route = rig_route(rig, RIG_CONNECTION + number);
    route.volume = volume;
    snprintf(route.client.host, sizeof route.client.host, "%s", host);
    cta_for_uma.route_add(rig->cta, &route);
    assert_int_equal(rig->route_status, CONNECT_OK);
    return route.connection;
}

// How many of `count` writes get a buffer.
static unsigned write_some(struct rig *rig, struct service_request *writes, uint32_t connection,
                           unsigned count, uint32_t len)
{
    unsigned before = rig->transfer_count;
    for (unsigned i = 0; i < count; i++) {
        writes[i] = rig_request(NODE_WRITE, 0, len);
        writes[i].connection = connection;
        rig_submit_request(rig, &writes[i]);
    }
    return rig->transfer_count - before;
}

// The client has not sent what it promised.
static void give_up(struct rig *rig, unsigned transfer)
{
    cta_for_tts.transferred(rig->cta, rig->transfers[transfer], NODE_TRANSFER, rig->now);
    cta_flush(rig->cta, rig->now);
}

static void give_up_all(struct rig *rig)
{
    for (unsigned i = 0; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void a_connection_has_a_sixteenth_of_the_pool(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request writes[8];
    uint32_t connection = connect(rig, 1, 1, "");
    assert_int_equal(write_some(rig, writes, connection, 8, MIB), 4);
    assert_int_equal(cta_pool_taken_len(rig->cta), RIG_POOL_LEN / 16);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->waits, 4);
    give_up(rig, 0);
    assert_int_equal(rig->transfer_count, 5);
    assert_ptr_equal(rig->transfers[4], &writes[4]);
    rig->transfers[0] = &writes[5];
    give_up(rig, 1);
    give_up(rig, 2);
    give_up(rig, 3);
    assert_int_equal(rig->transfer_count, 8);
    for (unsigned i = 4; i < 8; i++) {
        give_up(rig, i);
    }
    assert_int_equal(rig->completed, 8);
    rig_destroy(rig);
}

static void what_is_taken_counts_not_what_is_asked_for(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request writes[8];
    uint32_t connection = connect(rig, 1, 1, "");
    assert_int_equal(write_some(rig, writes, connection, 8, MIB + 1), 2);
    give_up_all(rig);
}

static void a_client_has_a_quarter_and_each_connection_its_floor(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request writes[7][REQUEST_MAX];
    for (unsigned i = 0; i < 4; i++) {
        uint32_t connection = connect(rig, i + 1, i + 1, "here");
        assert_int_equal(write_some(rig, writes[i], connection, 5, MIB), 4);
    }
    uint32_t fifth = connect(rig, 5, 5, "here");
    assert_int_equal(write_some(rig, writes[4], fifth, 6, 64 * KIB), 4);
    uint32_t other = connect(rig, 6, 6, "there");
    assert_int_equal(write_some(rig, writes[5], other, 5, MIB), 4);
    uint32_t sixth = connect(rig, 7, 7, "here");
    assert_int_equal(write_some(rig, writes[6], sixth, 6, 4 * KIB), 4);
    give_up_all(rig);
}

static void a_client_that_has_gone_has_its_share_again(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request writes[4];
    for (unsigned turn = 0; turn < 3; turn++) {
        rig->transfer_count = 0;
        for (unsigned i = 0; i < 4; i++) {
            uint32_t connection = connect(rig, i + 1, i + 1, "here");
            assert_int_equal(write_some(rig, writes, connection, 4, MIB), 4);
            for (unsigned j = 0; j < 4; j++) {
                give_up(rig, i * 4 + j);
            }
            cta_for_uma.route_remove(rig->cta, connection);
        }
    }
    rig->transfer_count = 0;
    give_up_all(rig);
}

static void clients_that_have_gone_leave_their_places(void **state)
{
    struct rig *rig = slow_rig();
    for (unsigned i = 0; i <= NODE_CONNECTION_COUNT_MAX; i++) {
        char host[CLIENT_HOST_MAX];
        snprintf(host, sizeof host, "host %u", i);
        cta_for_uma.route_remove(rig->cta, connect(rig, 1, 1, host));
    }
    rig_destroy(rig);
}

static void a_volume_has_three_eighths(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request writes[9][8];
    static const char *const hosts[] = {"a", "a", "a", "a", "b", "b", "b", "b"};
    unsigned lent = 0;
    for (unsigned i = 0; i < 8; i++) {
        lent += write_some(rig, writes[i], connect(rig, i + 1, 1, hosts[i]), 4, MIB);
    }
    assert_int_equal(lent, 24);
    assert_int_equal(write_some(rig, writes[8], connect(rig, 9, 2, "b"), 4, MIB), 4);
    give_up_all(rig);
}

static void read_some(struct rig *rig, struct service_request *reads, uint32_t connection,
                      unsigned count, uint32_t len)
{
    for (unsigned i = 0; i < count; i++) {
        reads[i] = rig_request(NODE_READ, 0, len);
        reads[i].connection = connection;
        rig_submit_request(rig, &reads[i]);
    }
}

// What of the pool is lent behind four reads of another connection.
static uint64_t taken_behind(struct rig *rig, struct service_request *reads, uint32_t number)
{
    uint32_t connection = connect(rig, number, RIG_VOLUME, "reader");
    read_some(rig, reads, connection, 4, MIB);
    return cta_pool_taken_len(rig->cta) / MIB;
}

// They have three sixteenths beside that; what has come is no longer awaited, and counts there.
static void whatever_its_clients_do_not_send_a_volume_is_read(void **state)
{
    struct rig *rig = slow_rig();
    static const char *const hosts[] = {"a", "a", "a", "a", "b", "b", "b", "b"};
    struct service_request writes[8][8], reads[3][4];
    unsigned lent = 0;
    for (unsigned i = 0; i < 8; i++) {
        lent += write_some(rig, writes[i], connect(rig, i + 1, RIG_VOLUME, hosts[i]), 8, MIB);
    }
    assert_int_equal(lent, 24);
    assert_int_equal(taken_behind(rig, reads[0], 9), 28);
    assert_int_equal(taken_behind(rig, reads[1], 10), 32);
    for (unsigned i = 0; i < 3; i++) {
        cta_for_tts.transferred(rig->cta, rig->transfers[i], NODE_OK, rig->now);
    }
    assert_int_equal(taken_behind(rig, reads[2], 11), 33);
    give_up(rig, 3);
    assert_int_equal(rig->transfer_count, 24); // no write goes on with what is for reads
    assert_int_equal(cta_pool_taken_len(rig->cta) / MIB, 32);
    rig_run(rig); // the RTA knows none of these connections
    for (unsigned i = 4; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    rig_run(rig);
    assert_int_equal(rig->completed, 8 * 8 + 3 * 4);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void nor_do_many_small_writes_that_are_not_sent_keep_it_from_that(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request writes[8][40];
    struct service_request reads[4];
    for (unsigned i = 0; i < 8; i++) {
        uint32_t connection = connect(rig, i + 1, RIG_VOLUME, i < 4 ? "a" : "b");
        const unsigned lent = write_some(rig, writes[i], connection, 40, 4 * KIB);
        assert_int_equal(lent, i < 6 ? 40 : i == 6 ? 16 : 4);
    }
    assert_int_equal(taken_behind(rig, reads, 9), 1 + 4);
    for (unsigned i = 0; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    rig_run(rig);
    assert_int_equal(rig->completed, 8 * 40 + 4);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void requests_have_shares_as_the_pool_has(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request flushes[5][REQUEST_MAX];
    struct cta_unit_counters counters;
    rig->holds = true;
    for (unsigned c = 0; c < 5; c++) {
        uint32_t connection = connect(rig, c + 1, RIG_VOLUME, c < 4 ? "here" : "there");
        for (unsigned i = 0; i < 100; i++) {
            flushes[c][i] = rig_request(NODE_FLUSH, 0, 0);
            flushes[c][i].connection = connection;
            rig_submit_request(rig, &flushes[c][i]);
        }
    }
    assert_true(cta_unit_counters(rig->cta, RIG_UNIT, &counters));
    // 64 of a connection, 192 of a client, four of each whatever others have, 256 of the volume.
    assert_int_equal(counters.waiting + counters.in_flight, 192 + 4 + 60);
    for (unsigned c = 0; c < 5; c++) {
        cta_for_uma.route_fail(rig->cta, RIG_CONNECTION + c + 1, rig->now);
    }
    assert_int_equal(rig->completed, 500);
    rig_destroy(rig);
}

static void an_oversized_request_keeps_only_its_like_waiting(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request oversized[2], large[2][4];
    uint32_t one = connect(rig, 1, 1, "a"), two = connect(rig, 2, 2, "b");
    assert_int_equal(write_some(rig, &oversized[0], one, 1, NODE_TRANSFER_MAX), 1);
    assert_int_equal(write_some(rig, &oversized[1], two, 1, NODE_TRANSFER_MAX), 0);
    cta_flush(rig->cta, rig->now);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(write_some(rig, large[i], connect(rig, i + 3, i + 3, "c"), 4, MIB), 4);
    }
    give_up(rig, 0);
    assert_ptr_equal(rig->transfers[rig->transfer_count - 1], &oversized[1]);
    rig->transfers[0] = rig->transfers[--rig->transfer_count];
    give_up_all(rig);
}

static void a_connection_has_one_oversized_request_at_a_time(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request here[2], there;
    uint32_t one = connect(rig, 1, 1, "a"), two = connect(rig, 2, 1, "a");
    assert_int_equal(write_some(rig, here, one, 2, 8 * MIB), 1);
    assert_int_equal(write_some(rig, &there, two, 1, 8 * MIB), 1);
    give_up(rig, 0);
    assert_ptr_equal(rig->transfers[rig->transfer_count - 1], &here[1]);
    rig->transfers[0] = rig->transfers[--rig->transfer_count];
    give_up_all(rig);
}

static void oversized_requests_have_half_of_the_pool(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request writes[6];
    for (unsigned i = 0; i < 6; i++) {
        uint32_t connection = connect(rig, i + 1, i + 1, "");
        assert_int_equal(write_some(rig, &writes[i], connection, 1, 8 * MIB), i < 4);
    }
    give_up_all(rig);
}

enum { FILLED_MIB = 56, FILLED_WRITES = 40, FILLED_HOSTS = 20 };

// All that is for large requests is lent: 40 of them are for what ten clients have yet to send.
static void fill(struct rig *rig)
{
    static struct service_request requests[FILLED_HOSTS][4];
    char host[] = "fill a";
    for (unsigned i = 0; i < FILLED_HOSTS; i++, host[5]++) {
        uint32_t connection = connect(rig, i + 1, i + 1, host);
        if (i < FILLED_WRITES / 4) {
            assert_int_equal(write_some(rig, requests[i], connection, 4, MIB), 4);
        } else {
            read_some(rig, requests[i], connection, i < 12 ? 4 : 1, MIB);
        }
    }
    assert_int_equal(cta_pool_taken_len(rig->cta) / MIB, FILLED_MIB);
}

// The reads end too: the RTA knows none of these connections.
static void end(struct rig *rig)
{
    rig_run(rig);
    assert_int_equal(cta_pool_taken_len(rig->cta), 0);
    rig_destroy(rig);
}

static void an_oversized_request_that_waits_for_room_gets_it(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request oversized, late;
    fill(rig);
    uint32_t one = connect(rig, 31, 31, "x"), two = connect(rig, 32, 32, "y");
    assert_int_equal(write_some(rig, &oversized, one, 1, NODE_TRANSFER_MAX), 0);
    cta_flush(rig->cta, rig->now);
    give_up(rig, 0);
    assert_int_equal(write_some(rig, &late, two, 1, MIB), 0); // others do not take what comes back
    for (unsigned i = 1; i < 32; i++) {
        assert_int_equal(rig->transfer_count, FILLED_WRITES);
        give_up(rig, i);
    }
    assert_ptr_equal(rig->transfers[FILLED_WRITES], &oversized);
    give_up(rig, FILLED_WRITES);
    assert_ptr_equal(rig->transfers[FILLED_WRITES + 1], &late);
    give_up(rig, FILLED_WRITES + 1);
    for (unsigned i = 32; i < FILLED_WRITES; i++) {
        give_up(rig, i);
    }
    end(rig);
}

static void pass(struct rig *rig, duration_ns time)
{
    rig->now += time;
    cta_on_deadline(rig->cta, rig->now);
    cta_flush(rig->cta, rig->now);
}

// It waits for who may never go on; others do not wait for that with it.
static void who_is_slow_keeps_an_oversized_request_waiting_and_nobody_else(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request writes[10][4], oversized, late;
    char host[] = "slow a";
    for (unsigned i = 0; i < 10; i++, host[5]++) {
        write_some(rig, writes[i], connect(rig, i + 1, i + 1, host), 4, MIB);
    }
    uint32_t one = connect(rig, 31, 31, "x"), two = connect(rig, 32, 32, "y");
    assert_int_equal(write_some(rig, &oversized, one, 1, NODE_TRANSFER_MAX), 0);
    cta_flush(rig->cta, rig->now);
    assert_int_equal(write_some(rig, &late, two, 1, MIB), 0);
    cta_flush(rig->cta, rig->now);
    pass(rig, 500 * NS_PER_MS); // they may be about to end
    assert_int_equal(rig->transfer_count, FILLED_WRITES);
    const instant_ns at = cta_next_deadline(rig->cta);
    assert_in_range(at, rig->now, rig->now + 1100 * NS_PER_MS);
    pass(rig, at - rig->now);
    assert_int_equal(rig->transfer_count, FILLED_WRITES + 1);
    assert_ptr_equal(rig->transfers[FILLED_WRITES], &late);
    give_up(rig, FILLED_WRITES);
    for (unsigned i = 0; i < 32; i++) {
        assert_int_equal(rig->transfer_count, FILLED_WRITES + 1);
        give_up(rig, i);
    }
    assert_ptr_equal(rig->transfers[FILLED_WRITES + 1], &oversized);
    give_up(rig, FILLED_WRITES + 1);
    for (unsigned i = 32; i < FILLED_WRITES; i++) {
        give_up(rig, i);
    }
    end(rig);
}

// Of seven clients that do not go on each has all that it may have, at eight volumes.
static void slow_writers_of_many_volumes_keep_nobody_from_large_requests(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request writes[7][16], write[2], read[2];
    char host[] = "slow a";
    for (unsigned i = 0; i < 7; i++, host[5]++) {
        for (unsigned c = 0; c < 4; c++) {
            uint32_t connection = connect(rig, 4 * i + c + 1, RIG_VOLUME + (i + c) % 8, host);
            write_some(rig, &writes[i][4 * c], connection, 4, MIB);
        }
    }
    assert_int_equal(cta_pool_taken_len(rig->cta) / MIB, 44);
    uint32_t reader = connect(rig, 100, RIG_VOLUME, "reader");
    uint32_t second = connect(rig, 101, RIG_VOLUME + 1, "second");
    read_some(rig, read, reader, 1, MIB);
    read_some(rig, &read[1], second, 1, 4 * MIB);
    assert_int_equal(cta_pool_taken_len(rig->cta) / MIB, 44 + 5);
    uint32_t writer = connect(rig, 102, RIG_VOLUME, "writer");
    assert_int_equal(write_some(rig, &write[0], writer, 1, MIB), 1);
    assert_int_equal(write_some(rig, &write[1], writer, 1, MIB), 0); // what it holds is not little
    for (unsigned i = 0; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    end(rig);
}

// Those have their share of its volume; whoever holds little has a large request beside that.
static void slow_writers_of_a_volume_do_not_keep_it_from_large_writes(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request slow[8][4], write;
    static const char *const hosts[] = {"a", "a", "a", "a", "b", "b", "b", "b"};
    for (unsigned i = 0; i < 8; i++) {
        write_some(rig, slow[i], connect(rig, i + 1, RIG_VOLUME, hosts[i]), 4, MIB);
    }
    assert_int_equal(cta_pool_taken_len(rig->cta) / MIB, 24);
    assert_int_equal(write_some(rig, &write, connect(rig, 9, RIG_VOLUME, "c"), 1, 4 * MIB), 1);
    for (unsigned i = 0; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    end(rig);
}

static void who_has_nothing_there_does_not_take_more_of_a_volume_that_answers_nobody(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request reads[14], other;
    char host[] = "host a";
    for (unsigned i = 0; i < 14; i++, host[5]++) {
        read_some(rig, &reads[i], connect(rig, i + 1, RIG_VOLUME, host), 1, 4 * MIB);
    }
    assert_int_equal(cta_pool_taken_len(rig->cta) / MIB, 24);
    read_some(rig, &other, connect(rig, 20, RIG_VOLUME + 1, "other"), 1, 4 * MIB);
    assert_int_equal(cta_pool_taken_len(rig->cta) / MIB, 28);
    end(rig);
}

static void an_oversized_write_takes_nothing_of_what_is_for_others(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request oversized, writes[4][4];
    unsigned lent = 0;
    write_some(rig, &oversized, connect(rig, 1, 1, "x"), 1, NODE_TRANSFER_MAX);
    for (unsigned i = 0; i < 4; i++) {
        lent += write_some(rig, writes[i], connect(rig, i + 2, i + 2, "busy"), 4, MIB);
    }
    assert_int_equal(lent, 16);
    give_up_all(rig);
}

// Eleven hosts write 4 MiB each, to a volume of their own, and `busy` 1 MiB more than that: it has
// to wait until less is out than others have to.
struct crowd {
    struct service_request of_busy[2], of_hosts[24];
    unsigned count;
};

static void one_more_writes(struct rig *rig, struct crowd *crowd)
{
    char host[] = "host a";
    host[5] = (char)(host[5] + crowd->count);
    const uint32_t connection = connect(rig, crowd->count + 2, crowd->count + 2, host);
    write_some(rig, &crowd->of_hosts[crowd->count++], connection, 1, 4 * MIB);
}

static struct rig *rig_with_crowd(struct crowd *crowd)
{
    struct rig *rig = slow_rig();
    *crowd = (struct crowd){.count = 0};
    assert_int_equal(write_some(rig, crowd->of_busy, connect(rig, 1, 1, "busy"), 1, MIB), 1);
    while (crowd->count < 11) {
        one_more_writes(rig, crowd);
    }
    assert_int_equal(rig->transfer_count, 12);
    crowd->of_busy[1] = rig_request(NODE_WRITE, 0, MIB);
    crowd->of_busy[1].connection = crowd->of_busy[0].connection;
    rig_submit_request(rig, &crowd->of_busy[1]);
    return rig;
}

static void who_gets_on_overtakes_nobody_for_long(void **state)
{
    static struct crowd crowd;
    struct rig *rig = rig_with_crowd(&crowd);
    pass(rig, 600 * NS_PER_MS);
    for (unsigned i = 1; i < 12; i++) { // others come as these end, and go before
        give_up(rig, i);
        one_more_writes(rig, &crowd);
        assert_int_equal(rig->transfer_count, 12 + i);
    }
    pass(rig, 600 * NS_PER_MS);
    give_up(rig, 12);
    one_more_writes(rig, &crowd);
    assert_int_equal(rig->transfer_count, 23);
    give_up(rig, 13);
    assert_ptr_equal(rig->transfers[23], &crowd.of_busy[1]);
    assert_int_equal(rig->transfer_count, 25);
    give_up(rig, 0);
    for (unsigned i = 14; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    end(rig);
}

static void who_does_not_go_on_is_passed_as_long_as_he_likes(void **state)
{
    static struct crowd crowd;
    struct rig *rig = rig_with_crowd(&crowd);
    pass(rig, 1500 * NS_PER_MS);
    give_up(rig, 1);
    one_more_writes(rig, &crowd);
    assert_ptr_equal(rig->transfers[12], &crowd.of_hosts[11]);
    give_up(rig, 0);
    for (unsigned i = 2; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    end(rig);
}

// 27 clients: places for requests are left over as memory is.
static void nor_do_those_who_do_not_send_small_writes_keep_all_places(void **state)
{
    enum { CLIENTS = 27, CONNECTIONS = 3, EACH = 64 };
    struct rig *rig = slow_rig();
    static struct service_request writes[CLIENTS * CONNECTIONS][EACH], read;
    char host[] = "slow A";
    for (unsigned i = 0; i < CLIENTS * CONNECTIONS; i++) {
        host[5] = (char)('A' + i / CONNECTIONS);
        write_some(rig, writes[i], connect(rig, i + 1, i / CONNECTIONS + 1, host), EACH, 4 * KIB);
    }
    assert_in_range(rig->transfer_count, 3000, NODE_TRANSACTION_COUNT_MAX / 16 * 14);
    const uint64_t taken = cta_pool_taken_len(rig->cta);
    read_some(rig, &read, connect(rig, 100, RIG_VOLUME, "reader"), 1, MIB);
    assert_int_equal(cta_pool_taken_len(rig->cta) - taken, MIB);
    for (unsigned i = 0; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    end(rig);
}

static void an_eighth_is_for_small_requests(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request small[16][64], late[4];
    char host[] = "small a";
    fill(rig);
    cta_flush(rig->cta, rig->now);
    assert_int_equal(write_some(rig, small[0], connect(rig, 31, 31, host), 64, 64 * KIB), 64);
    unsigned hosts = 1; // the last sixteenth is for who holds little
    while (cta_pool_taken_len(rig->cta) < RIG_POOL_LEN) {
        host[6]++;
        uint32_t connection = connect(rig, 31 + hosts, 31 + hosts, host);
        assert_in_range(write_some(rig, small[hosts], connection, 64, 64 * KIB), 4, 5);
        hosts++;
    }
    for (unsigned i = 0; i < 4; i++) {
        uint32_t connection = connect(rig, 61 + i, 61 + i, "late");
        assert_int_equal(write_some(rig, &late[i], connection, 1, 64 * KIB), 0);
    }
    // What comes back is for who waits, the small ones first: nobody's size is before them.
    const unsigned lent = rig->transfer_count;
    for (unsigned i = 0; i < 4; i++) {
        give_up(rig, FILLED_WRITES + i);
        assert_int_equal(rig->transfer_count, lent + i + 1);
        assert_int_equal(rig->transfers[lent + i]->data_len, 64 * KIB);
    }
    for (unsigned i = 0; i < rig->transfer_count; i++) {
        if (i < FILLED_WRITES || i >= FILLED_WRITES + 4) {
            give_up(rig, i);
        }
    }
    end(rig);
}

// New ones of the same size get behind it, others pass.
static void who_waits_for_room_is_not_overtaken(void **state)
{
    struct rig *rig = slow_rig();
    static struct service_request writes[5][2];
    fill(rig);
    uint32_t first = connect(rig, 31, 31, "first");
    assert_int_equal(write_some(rig, writes[0], first, 1, 4 * MIB), 0);
    cta_flush(rig->cta, rig->now);
    give_up(rig, 0); // 1 MiB: not enough for the first
    uint32_t second = connect(rig, 32, 32, "second");
    assert_int_equal(write_some(rig, writes[1], second, 1, MIB), 0);
    assert_int_equal(write_some(rig, writes[2], second, 1, 64 * KIB), 0); // behind its own
    assert_int_equal(write_some(rig, writes[3], connect(rig, 33, 33, "third"), 1, 64 * KIB), 1);
    for (unsigned i = 1; i < 4; i++) {
        give_up(rig, i);
    }
    assert_ptr_equal(rig->transfers[rig->transfer_count - 1], &writes[0][0]);
    give_up(rig, 4);
    assert_ptr_equal(rig->transfers[rig->transfer_count - 2], &writes[1][0]);
    assert_ptr_equal(rig->transfers[rig->transfer_count - 1], &writes[2][0]);
    for (unsigned i = 5; i < rig->transfer_count; i++) {
        give_up(rig, i);
    }
    end(rig);
}

// What comes back with acknowledgements is asked for, once, when somebody waits for room.
static void an_rta_is_rung_for_what_others_wait_for(void **state)
{
    for (unsigned waits = 0; waits < 2; waits++) {
        struct rig *rig = rig_ready();
        struct service_request read = rig_request(NODE_READ, 0, 4 * KIB), block[2];
        rig->is_slow = true;
        rig_submit_request(rig, &read);
        rig_run(rig);
        assert_int_equal(rig->transfer_count, 1);
        write_some(rig, &block[0], connect(rig, 1, 1, ""), 1, NODE_TRANSFER_MAX);
        write_some(rig, &block[1], connect(rig, 2, 2, ""), waits, NODE_TRANSFER_MAX);
        unsigned rings = rig->bus.cta.rings;
        cta_for_tts.transferred(rig->cta, &read, NODE_OK, rig->now);
        cta_flush(rig->cta, rig->now);
        assert_int_equal(rig->bus.cta.rings - rings, waits);
        cta_flush(rig->cta, rig->now);
        assert_int_equal(rig->bus.cta.rings - rings, waits);
        rig_run(rig);
        give_up(rig, 1);
        if (waits > 0) {
            give_up(rig, 2);
        }
        rig_destroy(rig);
    }
}

static void connections_that_wait_are_served_in_turn(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request block, a[4], b[4];
    uint32_t one = connect(rig, 1, 1, ""), two = connect(rig, 2, 2, ""),
             three = connect(rig, 3, 3, "");
    write_some(rig, &block, one, 1, NODE_TRANSFER_MAX);
    write_some(rig, a, two, 4, NODE_TRANSFER_MAX);
    write_some(rig, b, three, 4, NODE_TRANSFER_MAX);
    for (unsigned i = 0; i < 8; i++) {
        give_up(rig, i);
        assert_int_equal(rig->transfer_count, i + 2);
        assert_ptr_equal(rig->transfers[i + 1], i % 2 == 0 ? &a[i / 2] : &b[i / 2]);
    }
    give_up(rig, 8);
    rig_destroy(rig);
}

static void a_waiting_request_ends_at_its_deadline(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request block, late = rig_request(NODE_WRITE, 0, NODE_TRANSFER_MAX);
    uint32_t one = connect(rig, 1, 1, ""), two = connect(rig, 2, 2, "");
    write_some(rig, &block, one, 1, NODE_TRANSFER_MAX);
    late.connection = two;
    late.deadline = rig->now + NS_PER_S;
    rig_submit_request(rig, &late);
    assert_true(cta_next_deadline(rig->cta) <= late.deadline);
    rig->now = late.deadline;
    cta_on_deadline(rig->cta, rig->now);
    assert_int_equal(rig->completed, 1);
    assert_int_equal(rig->last_completion, NODE_TIMED_OUT);
    give_up_all(rig);
}

static void a_frame_that_is_not_acknowledged_has_a_deadline(void **state)
{
    struct rig *rig = slow_rig();
    struct service_request flush = rig_request(NODE_FLUSH, 0, 0);
    struct cta_unit_counters counters;
    struct frame frame;
    rig_tell(rig, (struct unit_message){.kind = UNIT_CONNECTION_ADD,
                                        .volume = RIG_VOLUME,
                                        .connection = connect(rig, 0, RIG_VOLUME, "")});
    cta_flush(rig->cta, rig->now);
    assert_int_equal(cta_next_deadline(rig->cta), INSTANT_NEVER);
    rig_submit_request(rig, &flush);
    cta_flush(rig->cta, rig->now);
    assert_true(fake_bus_receive(&rig->bus.rta, &frame)); // and lost
    instant_ns at = cta_next_deadline(rig->cta);
    assert_true(at > rig->now && at < rig->now + 10 * NS_PER_S);
    for (; rig->bus.count[1] == 0; at = cta_next_deadline(rig->cta)) {
        assert_true(at != INSTANT_NEVER);
        rig->now = at;
        cta_on_deadline(rig->cta, rig->now);
    }
    assert_true(cta_unit_counters(rig->cta, RIG_UNIT, &counters));
    assert_int_equal(counters.retransmissions, 1);
    rig_run(rig);
    assert_int_equal(rig->completed, 1);
    rig_destroy(rig);
}

static void what_was_answered_is_counted_for_its_volume(void **state)
{
    struct rig *rig = rig_ready();
    struct service_request write = rig_request(NODE_WRITE, 4096, 8192);
    struct service_request read = rig_request(NODE_READ, 0, 4096);
    struct service_request beyond = rig_request(NODE_READ, RIG_VOLUME_LEN, 4096);
    rig_submit_request(rig, &write);
    rig_submit_request(rig, &read);
    rig_submit_request(rig, &beyond);
    rig->now += 1000;
    rig_run(rig);
    const struct cta_volume_counters *c = cta_volume_counters(rig->cta, 0);
    assert_int_equal(c->volume, RIG_VOLUME);
    assert_int_equal(c->connections, 1);
    assert_int_equal(c->octets[NODE_WRITE], 8192);
    assert_int_equal(c->octets[NODE_READ], 4096);
    assert_int_equal(c->completions[NODE_OK], 2);
    assert_int_equal(c->completions[NODE_RANGE], 1);
    assert_int_equal(c->waits, 0);
    assert_int_equal(c->latency[NODE_WRITE].count, 1);
    assert_int_equal(c->latency[NODE_READ].count, 2);
    assert_int_equal(c->latency[NODE_READ].sum, 2 * 1000);
    assert_int_equal(c->latency[NODE_READ].max, 1000);
    assert_null(cta_volume_counters(rig->cta, 1));
    struct cta_connection_counters own;
    size_t slot = 0;
    while (!cta_connection_counters(rig->cta, slot, &own)) {
        slot++;
    }
    assert_int_equal(own.volume, RIG_VOLUME);
    assert_int_equal(own.requests, 3);
    assert_int_equal(own.failed, 1);
    assert_int_equal(own.octets_in, 8192);
    assert_int_equal(own.octets_out, 4096);
    assert_int_equal(own.in_flight, 0);
    assert_false(cta_connection_counters(rig->cta, NODE_CONNECTION_COUNT_MAX, &own));
    assert_null(cta_volume_counters(rig->cta, NODE_VOLUME_COUNT_MAX));
    rig_destroy(rig);
}

static void counters_of_a_volume_go_with_its_last_connection(void **state)
{
    struct rig *rig = slow_rig();
    uint32_t one = connect(rig, 1, 7, ""), two = connect(rig, 2, 7, "");
    cta_for_uma.volume_remove(rig->cta, 7);
    cta_for_uma.volume_remove(rig->cta, 8); // never had a connection
    cta_for_uma.route_remove(rig->cta, one);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->volume, 7);
    assert_int_equal(cta_volume_counters(rig->cta, 0)->connections, 1);
    cta_for_uma.route_remove(rig->cta, two);
    assert_null(cta_volume_counters(rig->cta, 0));
    rig_destroy(rig);
}

static void a_volume_too_many_is_refused(void **state)
{
    struct rig *rig = slow_rig();
    for (uint32_t i = 1; i <= NODE_VOLUME_COUNT_MAX; i++) {
        connect(rig, i, i, "");
    }
    struct client_route route = rig_route(rig, RIG_CONNECTION + NODE_VOLUME_COUNT_MAX + 1);
    route.volume = NODE_VOLUME_COUNT_MAX + 1;
    cta_for_uma.route_add(rig->cta, &route);
    assert_int_equal(rig->route_status, CONNECT_TOO_MANY);
    rig_destroy(rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_connection_has_a_sixteenth_of_the_pool),
        cmocka_unit_test(what_is_taken_counts_not_what_is_asked_for),
        cmocka_unit_test(a_client_has_a_quarter_and_each_connection_its_floor),
        cmocka_unit_test(a_client_that_has_gone_has_its_share_again),
        cmocka_unit_test(clients_that_have_gone_leave_their_places),
        cmocka_unit_test(a_volume_has_three_eighths),
        cmocka_unit_test(whatever_its_clients_do_not_send_a_volume_is_read),
        cmocka_unit_test(nor_do_many_small_writes_that_are_not_sent_keep_it_from_that),
        cmocka_unit_test(requests_have_shares_as_the_pool_has),
        cmocka_unit_test(an_oversized_request_keeps_only_its_like_waiting),
        cmocka_unit_test(a_connection_has_one_oversized_request_at_a_time),
        cmocka_unit_test(oversized_requests_have_half_of_the_pool),
        cmocka_unit_test(an_oversized_request_that_waits_for_room_gets_it),
        cmocka_unit_test(who_is_slow_keeps_an_oversized_request_waiting_and_nobody_else),
        cmocka_unit_test(slow_writers_of_many_volumes_keep_nobody_from_large_requests),
        cmocka_unit_test(slow_writers_of_a_volume_do_not_keep_it_from_large_writes),
        cmocka_unit_test(who_has_nothing_there_does_not_take_more_of_a_volume_that_answers_nobody),
        cmocka_unit_test(an_oversized_write_takes_nothing_of_what_is_for_others),
        cmocka_unit_test(who_gets_on_overtakes_nobody_for_long),
        cmocka_unit_test(who_does_not_go_on_is_passed_as_long_as_he_likes),
        cmocka_unit_test(nor_do_those_who_do_not_send_small_writes_keep_all_places),
        cmocka_unit_test(an_eighth_is_for_small_requests),
        cmocka_unit_test(who_waits_for_room_is_not_overtaken),
        cmocka_unit_test(an_rta_is_rung_for_what_others_wait_for),
        cmocka_unit_test(connections_that_wait_are_served_in_turn),
        cmocka_unit_test(a_waiting_request_ends_at_its_deadline),
        cmocka_unit_test(a_frame_that_is_not_acknowledged_has_a_deadline),
        cmocka_unit_test(what_was_answered_is_counted_for_its_volume),
        cmocka_unit_test(counters_of_a_volume_go_with_its_last_connection),
        cmocka_unit_test(a_volume_too_many_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
