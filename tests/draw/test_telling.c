// A capture becomes a story: what is told of the captures of the fuzz corpus, whole and with
// packets lost, doubled, late, cut or wrong, compared event by event with golden files.
#include <inttypes.h>

#include "base/bytes.h"
#include "draw/owners.h"
#include "draw/telling.h"
#include "tests/draw/told.h"
#include "tests/golden.h"
#include "wire/ip.h"

enum { FILE_MAX = 1 << 15, ITEM_MAX = 256 };

static uint8_t file[FILE_MAX];
static uint8_t scratch[FRAME_SCRATCH_LEN];
static uint8_t other_octets[FILE_MAX];
static size_t other_len;

/* ---- captures -------------------------------------------------------------------------------- */

// What a file holds, in its order.
static struct item {
    bool is_record;
    struct capture_packet packet;
    struct capture_record record;
} item[ITEM_MAX];
static unsigned item_count;

static size_t file_len;

// Behind what was read before.
static void capture_append(const char *name)
{
    const char *root = getenv("WEFT_SOURCE_DIR");
    char path[1024];
    snprintf(path, sizeof path, "%s/tests/fuzz/corpus/draw/%s", root != NULL ? root : ".", name);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    struct span left =
        span_of(file + file_len, fread(file + file_len, 1, sizeof file - file_len, in));
    fclose(in);
    file_len += left.len;
    struct capture c = {0};
    enum capture_verdict verdict;
    do {
        size_t used;
        struct item *i = &item[item_count];
        verdict = capture_next(&c, left, &used, &i->packet);
        left = span_skip(left, used);
        i->is_record = verdict == CAPTURE_RECORD;
        i->record = c.record;
        item_count += verdict == CAPTURE_PACKET || verdict == CAPTURE_RECORD;
        assert_true(item_count < ITEM_MAX);
    } while (verdict != CAPTURE_MORE && left.len > 0);
}

static void capture_read(const char *name)
{
    item_count = 0;
    file_len = other_len = 0;
    capture_append(name);
}

static unsigned place_of(uint64_t packet)
{
    unsigned i = 0;
    while (i < item_count && (item[i].is_record || item[i].packet.number != packet)) {
        i++;
    }
    assert_true(i < item_count);
    return i;
}

static void lose(uint64_t packet)
{
    unsigned at = place_of(packet);
    memmove(&item[at], &item[at + 1], (--item_count - at) * sizeof item[0]);
}

// It comes again, or for the first time, behind another one.
static void put_behind(uint64_t packet, uint64_t behind, bool is_moved)
{
    struct item one = item[place_of(packet)];
    if (is_moved) {
        lose(packet);
    }
    unsigned at = place_of(behind) + 1;
    memmove(&item[at + 1], &item[at], (item_count++ - at) * sizeof item[0]);
    item[at] = one;
}

static void begin_at(uint64_t packet)
{
    unsigned at = place_of(packet);
    item_count -= at;
    memmove(&item[0], &item[at], item_count * sizeof item[0]);
}

static void cut(uint64_t packet, size_t len)
{
    struct capture_packet *p = &item[place_of(packet)].packet;
    assert_true(len < p->octets.len);
    p->octets = span_first(p->octets, len);
}

// Octets of a packet's own, which may be changed.
static uint8_t *own_octets(struct capture_packet *p, struct span octets)
{
    uint8_t *own = other_octets + other_len;
    assert_true(other_len + octets.len <= sizeof other_octets);
    memcpy(own, octets.ptr, octets.len);
    other_len += octets.len;
    p->octets = span_of(own, octets.len);
    p->len = (uint32_t)octets.len;
    return own;
}

static void spoil_last_octet(uint64_t packet)
{
    struct capture_packet *p = &item[place_of(packet)].packet;
    own_octets(p, p->octets)[p->octets.len - 1] ^= 1;
}

static void set_len(uint8_t *ip, size_t len)
{
    put_be16(ip + IPV4_OFF_TOTAL_LEN, (uint16_t)len);
    put_be16(ip + IPV4_OFF_CHECKSUM, 0);
    put_be16(ip + IPV4_OFF_CHECKSUM, inet_sum_fold(inet_sum_add(0, span_of(ip, IPV4_HEADER_LEN))));
}

// A segment comes as two, the second with a number of its own. Of raw IP, without options.
static void split(uint64_t packet, size_t payload, uint64_t number)
{
    enum { HEADERS_LEN = 40, OFF_SEQ = 24 };
    put_behind(packet, packet, false);
    unsigned at = place_of(packet);
    struct capture_packet *first = &item[at].packet, *second = &item[at + 1].packet;
    const uint8_t *whole = first->octets.ptr;
    size_t rest = first->octets.len - HEADERS_LEN - payload;
    uint8_t *own = own_octets(first, span_first(first->octets, HEADERS_LEN + payload));
    set_len(own, HEADERS_LEN + payload);
    own = own_octets(second, span_first(second->octets, HEADERS_LEN + rest));
    memcpy(own + HEADERS_LEN, whole + HEADERS_LEN + payload, rest);
    set_len(own, HEADERS_LEN + rest);
    put_be32(own + OFF_SEQ, get_be32(own + OFF_SEQ) + (uint32_t)payload);
    second->number = number;
}

/* ---- two readings ---------------------------------------------------------------------------- */

static struct registry registry;
static struct owners owners;

static void see_packet(struct telling *t, const struct capture_packet *packet)
{
    struct frame f;
    struct registry_sighting seen;
    enum frame_verdict verdict = frame_parse(packet, FRAME_ROCE_PORT, scratch, &f);
    if (verdict != FRAME_OK || f.kind == FRAME_OTHER) {
        return;
    }
    do {
        if (t != NULL) {
            telling_see(t, packet, &f);
        } else {
            registry_see(&registry, packet, &f, &seen);
        }
    } while (frame_next(&f));
}

static void see_all(struct telling *t)
{
    for (unsigned i = 0; i < item_count; i++) {
        if (!item[i].is_record) {
            see_packet(t, &item[i].packet);
        } else if (t != NULL) {
            telling_see_record(t, 0, &item[i].record);
        } else {
            owners_see(&owners, 0, &item[i].record);
        }
    }
}

static void say_connections(void)
{
    for (uint32_t i = 0; i < registry.connection_count; i++) {
        const struct registry_connection *c = &registry.connection[i];
        char end[2][FRAME_END_TEXT_MAX];
        say("connection %" PRIu32 " %s %s QP %" PRIx32 " %s QP %" PRIx32
            " by %u%s: packets %" PRIu64 " octets %" PRIu64 " first #%" PRIu64 " for %" PRIu64 "\n",
            c->number, registry_wire_name(c->wire), frame_end_format(&c->end[0], end[0]), c->qp[0],
            frame_end_format(&c->end[1], end[1]), c->qp[1], c->initiator,
            c->has_start ? " started" : "", c->packet_count, c->payload_len, c->first_packet,
            c->last - c->first);
    }
}

static void say_story(const struct story *s)
{
    for (uint32_t i = 0; i < s->event_count; i++) {
        const struct story_event *e = &s->event[i];
        say("%" PRIu32 ": #%" PRIu64 ".%" PRIu64 " +%" PRIu64
            " %s %s%u flags %u fpdus %u message %" PRIu32 " len %" PRIu32 " \"%s\" (%s)\n",
            i, e->packet, e->record, e->at - s->begin, story_kind_name(e->kind),
            e->side == 0 ? "->" : "<-", e->connection, e->flags, e->fpdus, e->message, e->len,
            e->label, e->detail);
    }
    for (uint32_t i = 0; i < s->span_count; i++) {
        const struct story_span *p = &s->span[i];
        say("%s of %u.%u from %" PRIu32 " to %" PRIu32 "%s group %" PRIu32 " \"%s\" (%s)\n",
            story_span_kind_name(p->kind), p->connection, p->side, p->begin, p->end,
            p->is_open ? " open" : "", p->group, p->label, p->detail);
    }
    say("left out %" PRIu64 " before, %" PRIu64 " behind\n", s->left_out_before,
        s->left_out_behind);
}

static void say_frame_of(const struct picture *p)
{
    say("%s\n", p->subtitle);
    for (unsigned i = 0; i < 2; i++) {
        say("%s at %s\n", p->side[i].role, p->side[i].address);
    }
    for (unsigned i = 0; i < p->note_count; i++) {
        say("note: %s\n", p->note[i]);
    }
}

// The first `count` connections, or, of one, what makes a good picture.
static void tell_of(unsigned count, const struct story_bounds *bounds)
{
    static struct picture picture;
    struct telling t;
    uint32_t index[STORY_CONNECTION_MAX] = {0, 1, 2};
    memset(&picture, 0, sizeof picture);
    see_all(NULL);
    say_connections();
    if (count == 1) {
        assert_non_null(registry_find(&registry, registry_choice(&registry), &index[0]));
    }
    assert_true(telling_create(&t, &registry, &owners, index, count, bounds));
    see_all(&t);
    telling_finish(&t, &picture);
    say_frame_of(&picture);
    say_story(&t.story);
    telling_destroy(&t);
}

static void tell(const struct story_bounds *bounds)
{
    tell_of(1, bounds);
}

static const struct story_bounds all = {
    .to_packet = UINT64_MAX, .to = UINT64_MAX, .event_max = 500};

static int setup(void **state)
{
    static const uint8_t key[SIPHASH_KEY_LEN];
    told_len = 0;
    return registry_create(&registry, key) && owners_create(&owners) ? 0 : -1;
}

static int teardown(void **state)
{
    registry_destroy(&registry);
    owners_destroy(&owners);
    return 0;
}

/* ---- captures as they are -------------------------------------------------------------------- */

#define TOLD_AS_IT_IS(name, path)                          \
    static void name(void **state)                         \
    {                                                      \
        capture_read(path);                                \
        tell(&all);                                        \
        golden_compare("draw/golden/" #name ".txt", told); \
    }
TOLD_AS_IT_IS(wefts_own_capture, "rping-weft")
TOLD_AS_IT_IS(records_beside_packets, "rping-records")
TOLD_AS_IT_IS(the_kernels_iwarp, "siw-sll2")
TOLD_AS_IT_IS(packets_of_roce, "rping-roce")
TOLD_AS_IT_IS(the_kernels_roce, "rxe-sll2")

/* ---- ... and as they might have been --------------------------------------------------------- */

// The same capture with something else wrong each time, told from the beginning of each.
static void again(const char *what, const char *path)
{
    teardown(NULL);
    assert_true(registry_create(&registry, (const uint8_t[SIPHASH_KEY_LEN]){0}));
    assert_true(owners_create(&owners));
    capture_read(path);
    say("\n%s\n", what);
}

static void tell_beginning(unsigned packets)
{
    struct story_bounds bounds = all;
    bounds.to_packet = packets;
    tell(&bounds);
}

static void what_iwarp_loses_repeats_or_spoils(void **state)
{
    const char *path = "siw-sll2";
    enum { TOLD = 17 };
    for (uint64_t lost = 1; lost <= 13; lost += 2) {
        again("lost", path);
        lose(lost);
        tell_beginning(TOLD);
    }
    again("late", path);
    put_behind(10, 16, true);
    put_behind(12, 15, true);
    tell_beginning(TOLD);
    again("twice", path);
    put_behind(10, 14, false);
    put_behind(13, 13, false);
    tell_beginning(TOLD);
    again("cut", path);
    cut(8, 80);
    cut(13, 120);
    tell_beginning(TOLD);
    again("wrong", path);
    spoil_last_octet(13);
    tell_beginning(TOLD);
    again("begun later", path);
    begin_at(12);
    tell_beginning(TOLD + 3);
    golden_compare("draw/golden/iwarp_spoilt.txt", told);
}

static void segments_of_long_messages_are_lost_late_or_cut(void **state)
{
    const char *path = "rping-weft";
    for (uint64_t lost = 6; lost <= 14; lost++) {
        again("lost", path);
        lose(lost);
        tell(&all);
    }
    again("late", path);
    put_behind(9, 11, true);
    tell(&all);
    again("later", path);
    put_behind(8, 14, true);
    tell(&all);
    again("cut", path);
    cut(10, 70);
    cut(12, 200);
    tell(&all);
    golden_compare("draw/golden/segments_spoilt.txt", told);
}

// Of three segments, cut within the length, the payload and the CRC, one is lost, late or twice.
static void fpdus_of_several_segments_are_put_together(void **state)
{
    enum { SECOND = 101, THIRD = 102, FPDU_LEN = 3020 };
    static const size_t first_len[] = {1, 2, 17, 1000, FPDU_LEN - 3};
    for (unsigned i = 0; i < sizeof first_len / sizeof first_len[0]; i++) {
        again("in two", "rping-weft");
        split(9, first_len[i], SECOND);
        tell(&all);
    }
    for (uint64_t lost = 0; lost < 3; lost++) {
        for (unsigned how = 0; how < 3; how++) {
            again("in three, one of them lost, late or twice", "rping-weft");
            split(9, 1000, SECOND);
            split(SECOND, 1000, THIRD);
            uint64_t which = lost == 0 ? 9 : lost == 1 ? SECOND : THIRD;
            if (how == 0) {
                lose(which);
            } else {
                put_behind(which, 11, how == 1);
            }
            tell(&all);
        }
    }
    golden_compare("draw/golden/segments_split.txt", told);
}

static void what_roce_loses_repeats_or_spoils(void **state)
{
    const char *path = "rxe-sll2";
    enum { TOLD = 14 };
    for (uint64_t lost = 1; lost <= 9; lost++) {
        again("lost", path);
        lose(lost);
        tell_beginning(TOLD);
    }
    again("late", path);
    put_behind(8, 12, true);
    tell_beginning(TOLD);
    again("twice", path);
    put_behind(7, 9, false);
    put_behind(8, 13, false);
    tell_beginning(TOLD);
    again("cut", path);
    cut(7, 90);
    cut(1, 120);
    tell_beginning(TOLD);
    again("wrong", path);
    spoil_last_octet(8);
    tell_beginning(TOLD);
    again("begun later", path);
    begin_at(6);
    tell_beginning(TOLD + 3);
    golden_compare("draw/golden/roce_spoilt.txt", told);
}

static void packets_of_long_messages_of_roce_are_lost(void **state)
{
    for (uint64_t lost = 4; lost <= 11; lost++) {
        again("lost", "rping-roce");
        lose(lost);
        tell(&all);
    }
    golden_compare("draw/golden/roce_segments_spoilt.txt", told);
}

// Of both wires, of the same host and of others, in either order.
static void connections_of_one_picture_are_told_apart(void **state)
{
    static const char *const paths[] = {"rping-weft", "rping-records", "rping-roce"};
    for (unsigned first = 0; first < 3; first++) {
        struct story_bounds bounds = all;
        again("three", paths[first]);
        capture_append(paths[(first + 1) % 3]);
        capture_append(paths[(first + 2) % 3]);
        bounds.event_max = 12;
        tell_of(3, &bounds);
    }
    golden_compare("draw/golden/three_connections.txt", told);
}

// By packets, by time and by number.
static void bounds_leave_out(void **state)
{
    struct story_bounds bounds = all;
    again("from packet 12 to packet 15", "siw-sll2");
    bounds.from_packet = 12;
    bounds.to_packet = 15;
    tell(&bounds);
    again("from 12.598 to 69.727 ms", "siw-sll2");
    bounds = all;
    bounds.from = 12598000;
    bounds.to = 69727000;
    tell(&bounds);
    again("7 events", "siw-sll2");
    bounds = all;
    bounds.event_max = 7;
    tell(&bounds);
    golden_compare("draw/golden/telling_bounds.txt", told);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(wefts_own_capture),
        CASE(records_beside_packets),
        CASE(the_kernels_iwarp),
        CASE(packets_of_roce),
        CASE(the_kernels_roce),
        CASE(what_iwarp_loses_repeats_or_spoils),
        CASE(segments_of_long_messages_are_lost_late_or_cut),
        CASE(fpdus_of_several_segments_are_put_together),
        CASE(what_roce_loses_repeats_or_spoils),
        CASE(packets_of_long_messages_of_roce_are_lost),
        CASE(connections_of_one_picture_are_told_apart),
        CASE(bounds_leave_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
