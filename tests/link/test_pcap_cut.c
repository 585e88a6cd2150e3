#include "link/pcap/cut.h"
#include "tests/link/mpa_stream.h"

static struct mpa_stream stream;

// Walks the stream in pieces of `piece_len` octets and compares where units end.
static void assert_units(const struct mpa_stream *s, size_t piece_len)
{
    struct pcap_cut cut = {0};
    size_t at = 0;
    unsigned unit = 0;
    while (at < s->len) {
        bool is_end;
        size_t left_of_piece = piece_len - at % piece_len;
        size_t len = left_of_piece < s->len - at ? left_of_piece : s->len - at;
        at += pcap_cut_next(&cut, span_of(s->octets + at, len), &is_end);
        if (is_end) {
            assert_int_equal(at, s->ends[unit]);
            unit++;
        }
    }
    assert_int_equal(unit, s->count);
}

static void units_end_where_they_were_made_to(void **state)
{
    static const size_t pieces[] = {1, 2, 3, 5, 7, 64, 511, 512, 513, 4096, 1 << 20};
    for (int markers = 0; markers < 2; markers++) {
        stream_fill(&stream, MPA_REQUEST, markers != 0);
        for (unsigned i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
            assert_units(&stream, pieces[i]);
        }
    }
}

static void stream_that_is_not_mpa_is_cut_as_it_comes(void **state)
{
    struct pcap_cut cut = {0};
    bool is_end;
    static const char text[] = "GET / HTTP/1.1\r\nHost: here\r\n\r\n";
    assert_int_equal(pcap_cut_next(&cut, span_of(text, 5), &is_end), 5);
    assert_false(is_end);
    assert_int_equal(pcap_cut_next(&cut, span_of(text + 5, 25), &is_end), 15);
    assert_true(is_end);
    assert_int_equal(pcap_cut_next(&cut, span_of(text + 20, 10), &is_end), 10);
    assert_true(is_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_end_where_they_were_made_to),
        cmocka_unit_test(stream_that_is_not_mpa_is_cut_as_it_comes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
