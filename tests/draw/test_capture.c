// Capture files of every format, order and unit of time; and what is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "draw/capture.h"

struct file {
    uint8_t octets[4096];
    size_t len;
    bool is_swapped; // the order that is not this machine's
};

static void put16(struct file *f, uint16_t v)
{
    v = f->is_swapped ? __builtin_bswap16(v) : v;
    memcpy(f->octets + f->len, &v, sizeof v);
    f->len += sizeof v;
}

static void put32(struct file *f, uint32_t v)
{
    v = f->is_swapped ? __builtin_bswap32(v) : v;
    memcpy(f->octets + f->len, &v, sizeof v);
    f->len += sizeof v;
}

static void put_text(struct file *f, const char *text)
{
    memcpy(f->octets + f->len, text, strlen(text));
    f->len += strlen(text);
}

static void pcap_begin(struct file *f, uint32_t magic)
{
    put32(f, magic);
    put16(f, 2);
    put16(f, 4);
    put32(f, 0);
    put32(f, 0);
    put32(f, 65535);
    put32(f, 113);
}

static void pcap_packet(struct file *f, uint32_t seconds, uint32_t part, const char *octets,
                        uint32_t len)
{
    put32(f, seconds);
    put32(f, part);
    put32(f, (uint32_t)strlen(octets));
    put32(f, len);
    put_text(f, octets);
}

static void section(struct file *f)
{
    put32(f, 0x0a0d0d0a);
    put32(f, 28);
    put32(f, 0x1a2b3c4d);
    put16(f, 1);
    put16(f, 0);
    put32(f, UINT32_MAX);
    put32(f, UINT32_MAX);
    put32(f, 28);
}

// An interface whose times count in this unit (if_tsresol).
static void interface(struct file *f, uint16_t link_type, uint8_t resolution)
{
    put32(f, 1);
    put32(f, 32);
    put16(f, link_type);
    put16(f, 0);
    put32(f, 0);
    put16(f, 9);
    put16(f, 1);
    f->octets[f->len++] = resolution;
    put_text(f, "\1\1\1");
    put16(f, 0);
    put16(f, 0);
    put32(f, 32);
}

static void enhanced(struct file *f, uint32_t index, uint64_t ticks, uint32_t captured)
{
    put32(f, 6);
    put32(f, 36);
    put32(f, index);
    put32(f, (uint32_t)(ticks >> 32));
    put32(f, (uint32_t)ticks);
    put32(f, captured);
    put32(f, 90);
    put_text(f, "four");
    put32(f, 36);
}

// Goes on to the next packet, or what ends the file, at most `step` octets being there at a time
// beyond what is asked for.
static enum capture_verdict next(struct capture *c, const struct file *f, size_t *at,
                                 struct capture_packet *ret)
{
    for (;;) {
        size_t used;
        struct span rest = span_of(f->octets + *at, f->len - *at);
        enum capture_verdict verdict = capture_next(c, rest, &used, ret);
        *at += used;
        if (verdict != CAPTURE_NOTHING) {
            return verdict;
        }
    }
}

static void assert_packet(const struct file *f, size_t *at, struct capture *c, instant_ns when,
                          uint32_t link_type, const char *octets, uint32_t len)
{
    struct capture_packet p;
    assert_int_equal(next(c, f, at, &p), CAPTURE_PACKET);
    assert_int_equal(p.at, when);
    assert_int_equal(p.link_type, link_type);
    assert_int_equal(p.octets.len, strlen(octets));
    assert_memory_equal(p.octets.ptr, octets, p.octets.len);
    assert_int_equal(p.len, len);
}

static void pcap_is_read_in_both_orders_and_units(void **state)
{
    for (unsigned i = 0; i < 4; i++) {
        bool is_ns = (i & 2) != 0;
        struct file f = {.is_swapped = (i & 1) != 0};
        struct capture c = {0};
        size_t at = 0;
        pcap_begin(&f, is_ns ? 0xa1b23c4d : 0xa1b2c3d4);
        pcap_packet(&f, 3, 7, "abc", 3);
        pcap_packet(&f, 4, 8, "de", 60);
        uint64_t unit = is_ns ? 1 : 1000;
        assert_packet(&f, &at, &c, 3 * NS_PER_S + 7 * unit, 113, "abc", 3);
        assert_packet(&f, &at, &c, 4 * NS_PER_S + 8 * unit, 113, "de", 60);
        assert_int_equal(c.packet_count, 2);
        struct capture_packet p;
        assert_int_equal(next(&c, &f, &at, &p), CAPTURE_MORE);
    }
}

static void pcapng_counts_time_as_each_interface_does(void **state)
{
    for (unsigned swapped = 0; swapped < 2; swapped++) {
        struct file f = {.is_swapped = swapped != 0};
        struct capture c = {0};
        size_t at = 0;
        section(&f);
        interface(&f, 1, 9);           // nanoseconds
        interface(&f, 101, 0x80 | 10); // 1/1024 s
        put32(&f, 5);                  // statistics: passed over
        put32(&f, 16);
        put32(&f, 0);
        put32(&f, 16);
        enhanced(&f, 0, 5 * NS_PER_S + 1, 4);
        enhanced(&f, 1, 512, 3);
        assert_packet(&f, &at, &c, 5 * NS_PER_S + 1, 1, "four", 90);
        assert_packet(&f, &at, &c, NS_PER_S / 2, 101, "fou", 90);
    }
}

static void whatever_is_cut_asks_for_more(void **state)
{
    struct file f = {0};
    section(&f);
    interface(&f, 1, 6);
    enhanced(&f, 0, 1, 4);
    size_t whole = f.len;
    for (f.len = 0; f.len < whole; f.len++) {
        struct capture c = {0};
        struct capture_packet p;
        size_t at = 0;
        assert_int_equal(next(&c, &f, &at, &p), CAPTURE_MORE);
        assert_true(c.needed > f.len - at);
        assert_true(c.needed <= CAPTURE_NEED_MAX);
    }
}

static enum capture_verdict verdict_of(const struct file *f)
{
    struct capture c = {0};
    struct capture_packet p;
    size_t at = 0;
    return next(&c, f, &at, &p);
}

static void what_is_no_capture_is_refused(void **state)
{
    struct file text = {0}, old = {0}, huge = {0}, odd = {0}, nobody = {0}, fine = {0};
    put_text(&text, "GET / HTTP/1.1");
    assert_int_equal(verdict_of(&text), CAPTURE_FOREIGN);

    pcap_begin(&old, 0xa1b2c3d4);
    old.octets[4] = 1;
    assert_int_equal(verdict_of(&old), CAPTURE_VERSION);

    pcap_begin(&huge, 0xa1b2c3d4);
    pcap_packet(&huge, 0, 0, "", CAPTURE_PACKET_MAX + 1);
    assert_int_equal(verdict_of(&huge), CAPTURE_TOO_LONG);

    section(&odd);
    interface(&odd, 1, 6);
    enhanced(&odd, 0, 0, 5); // more than the block holds
    assert_int_equal(verdict_of(&odd), CAPTURE_BLOCK);

    section(&nobody);
    enhanced(&nobody, 0, 0, 4);
    assert_int_equal(verdict_of(&nobody), CAPTURE_INTERFACE);

    section(&fine);
    interface(&fine, 1, 20); // 10^-20 s
    assert_int_equal(verdict_of(&fine), CAPTURE_BLOCK);
}

/* ---- what a block of pcapng may hold --------------------------------------------------------- */

// A block of any type, whose lengths may be told wrongly.
static void block(struct file *f, uint32_t type, const void *body, uint32_t len, uint32_t said)
{
    put32(f, type);
    put32(f, said);
    if (len > 0) {
        memcpy(f->octets + f->len, body, len);
    }
    f->len += len;
    put32(f, said);
}

static void an_interface_may_add_seconds_to_its_times(void **state)
{
    static const uint8_t body[] = {1, 0, 0, 0, 0, 0, 0, 0, 14, 0, 8, 0,
                                   3, 0, 0, 0, 0, 0, 0, 0, 0,  0, 0, 0};
    struct file f = {0};
    struct capture c = {0};
    size_t at = 0;
    section(&f);
    block(&f, 1, body, sizeof body, 12 + sizeof body);
    enhanced(&f, 0, 7, 4); // microseconds, where nothing else is said
    assert_packet(&f, &at, &c, 3 * NS_PER_S + 7000, 1, "four", 90);
}

static void simple_packets_are_of_the_first_interface_and_of_no_time(void **state)
{
    static const struct {
        uint32_t snap_len, len;
        const char *octets;
    } rows[] = {{0, 4, "abcd"}, {0, 3, "abc"}, {0, 90, "abcd"}, {2, 90, "ab"}, {9, 4, "abcd"}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint8_t interface_body[8] = {113}, body[8];
        struct file f = {0};
        struct capture c = {0};
        size_t at = 0;
        memcpy(interface_body + 4, &rows[i].snap_len, 4);
        memcpy(body, &rows[i].len, 4);
        memcpy(body + 4, "abcd", 4);
        section(&f);
        block(&f, 1, interface_body, sizeof interface_body, 20);
        block(&f, 3, body, sizeof body, 20);
        assert_packet(&f, &at, &c, 0, 113, rows[i].octets, rows[i].len);
    }
}

static void packets_of_old_files_name_their_interface_in_two_octets(void **state)
{
    uint8_t body[24] = {[0] = 1, [2] = 9, [8] = 5, [12] = 4, [16] = 4, [20] = 'a', 'b', 'c', 'd'};
    struct file f = {0};
    struct capture c = {0};
    size_t at = 0;
    section(&f);
    interface(&f, 1, 9);
    interface(&f, 101, 9);
    block(&f, 2, body, sizeof body, 12 + sizeof body); // 9 packets were dropped before it
    assert_packet(&f, &at, &c, 5, 101, "abcd", 4);
}

static void as_many_interfaces_as_are_kept_are_taken(void **state)
{
    for (unsigned more = 0; more < 2; more++) {
        struct file f = {0};
        section(&f);
        for (unsigned i = 0; i < CAPTURE_INTERFACE_MAX + more; i++) {
            interface(&f, 1, 9);
        }
        enhanced(&f, CAPTURE_INTERFACE_MAX - 1, 1, 4);
        assert_int_equal(verdict_of(&f), more == 0 ? CAPTURE_PACKET : CAPTURE_INTERFACES);
    }
}

static void a_section_begins_anew_in_its_own_order(void **state)
{
    struct file f = {0};
    struct capture c = {0};
    size_t at = 0;
    section(&f);
    interface(&f, 1, 9);
    enhanced(&f, 0, 1, 4);
    f.is_swapped = true;
    section(&f);
    interface(&f, 101, 9);
    enhanced(&f, 0, 2, 4);
    assert_packet(&f, &at, &c, 1, 1, "four", 90);
    assert_packet(&f, &at, &c, 2, 101, "four", 90);
    assert_int_equal(c.packet_count, 2);
    assert_int_equal(c.interface_count, 1);
}

static void lengths_are_held_to_their_exact_bounds(void **state)
{
    static const uint8_t zeroes[32];
    static const struct {
        uint32_t type, len, said;
        enum capture_verdict verdict;
    } rows[] = {
        {1, 8, 20, CAPTURE_MORE},
        {1, 4, 16, CAPTURE_BLOCK},
        {3, 4, 16, CAPTURE_PACKET},
        {3, 0, 12, CAPTURE_BLOCK},
        {6, 20, 32, CAPTURE_PACKET},
        {6, 16, 28, CAPTURE_BLOCK},
        {2, 20, 32, CAPTURE_PACKET},
        {2, 16, 28, CAPTURE_BLOCK},
        {77, 0, 8, CAPTURE_BLOCK},
        {77, 0, 12, CAPTURE_MORE},
        {77, 1, 13, CAPTURE_BLOCK},
        {77, 4, 14, CAPTURE_BLOCK},
        {6, 20, CAPTURE_NEED_MAX + 4, CAPTURE_TOO_LONG},
        {6, 20, CAPTURE_NEED_MAX, CAPTURE_MORE},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file f = {0};
        section(&f);
        interface(&f, 1, 9);
        block(&f, rows[i].type, zeroes, rows[i].len, rows[i].said);
        assert_int_equal(verdict_of(&f), rows[i].verdict);
    }
    struct file lies = {0};
    section(&lies);
    interface(&lies, 1, 9);
    lies.octets[lies.len - 4]++; // the length behind the block is another
    assert_int_equal(verdict_of(&lies), CAPTURE_BLOCK);
}

static void sections_are_held_to_their_exact_bounds(void **state)
{
    static const struct {
        uint8_t at, value;
        enum capture_verdict first, second;
    } rows[] = {
        {4, 24, CAPTURE_BLOCK, CAPTURE_BLOCK},     {4, 30, CAPTURE_BLOCK, CAPTURE_BLOCK},
        {4, 32, CAPTURE_MORE, CAPTURE_MORE},       {8, 0, CAPTURE_FOREIGN, CAPTURE_BLOCK},
        {12, 2, CAPTURE_VERSION, CAPTURE_VERSION},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file f = {0}, again = {0};
        section(&f);
        f.octets[rows[i].at] = rows[i].value;
        assert_int_equal(verdict_of(&f), rows[i].first);
        section(&again);
        section(&again);
        again.octets[28 + rows[i].at] = rows[i].value;
        assert_int_equal(verdict_of(&again), rows[i].second);
    }
}

static void times_may_be_as_fine_as_64_bits_hold(void **state)
{
    static const struct {
        uint8_t resolution;
        enum capture_verdict verdict;
    } rows[] = {{19, CAPTURE_PACKET},
                {20, CAPTURE_BLOCK},
                {0x80 | 63, CAPTURE_PACKET},
                {0x80 | 64, CAPTURE_BLOCK}};
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct file f = {0};
        section(&f);
        interface(&f, 1, rows[i].resolution);
        enhanced(&f, 0, 1, 4);
        assert_int_equal(verdict_of(&f), rows[i].verdict);
    }
}

static void the_longest_packet_is_taken_and_no_longer_one(void **state)
{
    for (unsigned more = 0; more < 2; more++) {
        struct file f = {0}, ng = {0};
        pcap_begin(&f, 0xa1b2c3d4);
        pcap_packet(&f, 0, 0, "ab", CAPTURE_PACKET_MAX + more);
        assert_int_equal(verdict_of(&f), more == 0 ? CAPTURE_PACKET : CAPTURE_TOO_LONG);
        section(&ng);
        interface(&ng, 1, 9);
        enhanced(&ng, 0, 1, 4);
        const uint32_t len = CAPTURE_PACKET_MAX + more;
        memcpy(ng.octets + ng.len - 12, &len, sizeof len);
        assert_int_equal(verdict_of(&ng), more == 0 ? CAPTURE_PACKET : CAPTURE_TOO_LONG);
    }
}

static void what_is_needed_is_told_to_the_octet(void **state)
{
    struct file f = {0};
    struct capture c = {0};
    struct capture_packet p;
    size_t at = 0;
    assert_int_equal(next(&c, &f, &at, &p), CAPTURE_MORE);
    assert_int_equal(c.needed, 4);
    pcap_begin(&f, 0xa1b2c3d4);
    size_t head = f.len;
    f.len = 4;
    assert_int_equal(next(&c, &f, &at, &p), CAPTURE_MORE);
    assert_int_equal(c.needed, head);
    f.len = head;
    assert_int_equal(next(&c, &f, &at, &p), CAPTURE_MORE);
    assert_int_equal(c.needed, 16);
    pcap_packet(&f, 0, 0, "abc", 3);
    f.len--;
    assert_int_equal(next(&c, &f, &at, &p), CAPTURE_MORE);
    assert_int_equal(c.needed, 19);
}

/* ---- records --------------------------------------------------------------------------------- */

static void record(struct file *f, const struct journal_record *r, instant_ns at)
{
    uint8_t body[JOURNAL_MAX_LEN];
    uint32_t len = (uint32_t)journal_emit(r, at, body);
    block(f, JOURNAL_BLOCK_TYPE, body, len, 12 + len);
}

static void records_stand_between_packets_and_count_by_themselves(void **state)
{
    static const struct journal_record posted = {.kind = JOURNAL_SEND_POSTED, .wr_id = 3};
    for (unsigned swapped = 0; swapped < 2; swapped++) {
        struct file f = {.is_swapped = swapped != 0};
        struct capture c = {0};
        struct capture_packet p;
        size_t at = 0;
        section(&f);
        interface(&f, 1, 9);
        record(&f, &posted, 77);
        enhanced(&f, 0, 1, 4);
        record(&f, &(struct journal_record){.kind = JOURNAL_CARRIED}, 78);
        assert_int_equal(next(&c, &f, &at, &p), CAPTURE_RECORD);
        assert_int_equal(c.record.number, 1);
        assert_int_equal(c.record.at, 77);
        assert_int_equal(c.record.what.wr_id, 3);
        assert_packet(&f, &at, &c, 1, 1, "four", 90);
        assert_int_equal(c.packet_count, 1);
        assert_int_equal(next(&c, &f, &at, &p), CAPTURE_RECORD);
        assert_int_equal(c.record.number, 2);
        assert_int_equal(c.record.what.kind, JOURNAL_CARRIED);
    }
}

static void a_wrong_record_counts_and_a_block_of_others_does_not(void **state)
{
    static const uint8_t theirs[600] = {'t', 'h', 'e', 'm'}, wrong[8] = {'w', 'e', 'f', 't', 9};
    struct file f = {0};
    struct capture c = {0};
    struct capture_packet p;
    size_t at = 0;
    section(&f);
    block(&f, JOURNAL_BLOCK_TYPE, theirs, 40, 52);
    block(&f, JOURNAL_BLOCK_TYPE, theirs, sizeof theirs, 12 + sizeof theirs);
    block(&f, JOURNAL_BLOCK_TYPE, NULL, 0, 12);
    block(&f, JOURNAL_BLOCK_TYPE, wrong, sizeof wrong, 12 + sizeof wrong);
    assert_int_equal(next(&c, &f, &at, &p), CAPTURE_RECORD);
    assert_int_equal(c.record.verdict, JOURNAL_PARSE_VERSION);
    assert_int_equal(c.record.number, 1);
    assert_int_equal(next(&c, &f, &at, &p), CAPTURE_MORE);
}

static void a_record_that_is_cut_is_told_from_a_packet(void **state)
{
    struct file f = {0};
    section(&f);
    size_t begin = f.len;
    record(&f, &(struct journal_record){.kind = JOURNAL_COMPLETED}, 1);
    for (size_t whole = f.len; f.len > begin + 8; f.len--) {
        struct capture c = {0};
        struct capture_packet p;
        size_t at = 0;
        enum capture_verdict verdict = next(&c, &f, &at, &p);
        assert_int_equal(verdict, f.len == whole ? CAPTURE_RECORD : CAPTURE_MORE);
        assert_int_equal(c.is_in_record, f.len != whole);
    }
}

static void every_verdict_has_a_sentence_of_its_own(void **state)
{
    for (unsigned i = CAPTURE_MORE; i < CAPTURE_VERDICT_COUNT; i++) {
        assert_true(strlen(capture_verdict_name(i)) > 10);
        for (unsigned other = CAPTURE_MORE; other < i; other++) {
            assert_string_not_equal(capture_verdict_name(i), capture_verdict_name(other));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pcap_is_read_in_both_orders_and_units),
        cmocka_unit_test(pcapng_counts_time_as_each_interface_does),
        cmocka_unit_test(whatever_is_cut_asks_for_more),
        cmocka_unit_test(what_is_no_capture_is_refused),
        cmocka_unit_test(an_interface_may_add_seconds_to_its_times),
        cmocka_unit_test(simple_packets_are_of_the_first_interface_and_of_no_time),
        cmocka_unit_test(packets_of_old_files_name_their_interface_in_two_octets),
        cmocka_unit_test(as_many_interfaces_as_are_kept_are_taken),
        cmocka_unit_test(a_section_begins_anew_in_its_own_order),
        cmocka_unit_test(lengths_are_held_to_their_exact_bounds),
        cmocka_unit_test(sections_are_held_to_their_exact_bounds),
        cmocka_unit_test(times_may_be_as_fine_as_64_bits_hold),
        cmocka_unit_test(the_longest_packet_is_taken_and_no_longer_one),
        cmocka_unit_test(what_is_needed_is_told_to_the_octet),
        cmocka_unit_test(records_stand_between_packets_and_count_by_themselves),
        cmocka_unit_test(a_wrong_record_counts_and_a_block_of_others_does_not),
        cmocka_unit_test(a_record_that_is_cut_is_told_from_a_packet),
        cmocka_unit_test(every_verdict_has_a_sentence_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
