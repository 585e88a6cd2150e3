// Capture files of every format, order and unit of time; and what is none.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "draw/capture.h"

struct file {
    uint8_t octets[512];
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pcap_is_read_in_both_orders_and_units),
        cmocka_unit_test(pcapng_counts_time_as_each_interface_does),
        cmocka_unit_test(whatever_is_cut_asks_for_more),
        cmocka_unit_test(what_is_no_capture_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
