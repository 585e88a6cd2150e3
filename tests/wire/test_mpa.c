#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "wire/mpa.h"

// As exchanged with the kernel's siw: revision 1, and revision 2 with CRC, IRD 4 and ORD 4.
static const uint8_t request_rev1[20] = {'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q',
                                         ' ', 'F', 'r', 'a', 'm', 'e', 0,   1,   0,   0};
static const uint8_t reply_rev2[24] = {'M', 'P', 'A', ' ', 'I',  'D', ' ', 'R', 'e', 'p', ' ', 'F',
                                       'r', 'a', 'm', 'e', 0x50, 2,   0,   4,   0,   4,   0,   4};

static enum mpa_frame_verdict verdict_of(const uint8_t *octets, size_t len,
                                         enum mpa_frame_kind expected)
{
    struct mpa_startup_frame f;
    size_t frame_len;
    return mpa_startup_frame_parse(span_of(octets, len), expected, &f, &frame_len);
}

static void revision_1_request_is_read(void **state)
{
    struct mpa_startup_frame f;
    size_t len;
    assert_int_equal(mpa_startup_frame_parse(span_of(request_rev1, 20), MPA_REQUEST, &f, &len),
                     MPA_FRAME_OK);
    assert_int_equal(len, 20);
    assert_int_equal(f.revision, 1);
    assert_false(f.markers || f.crc || f.reject || f.enhanced);
    assert_int_equal(f.private_data.len, 0);
}

static void enhanced_reply_is_read(void **state)
{
    struct mpa_startup_frame f;
    size_t len;
    assert_int_equal(mpa_startup_frame_parse(span_of(reply_rev2, 24), MPA_REPLY, &f, &len),
                     MPA_FRAME_OK);
    assert_int_equal(len, 24);
    assert_true(f.crc && f.enhanced);
    assert_int_equal(f.ird, 4);
    assert_int_equal(f.ord, 4);
    assert_int_equal(f.private_data.len, 0);
}

static void every_field_survives_the_round_trip(void **state)
{
    struct mpa_startup_frame in = {.kind = MPA_REPLY,
                                   .markers = true,
                                   .crc = true,
                                   .reject = true,
                                   .enhanced = true,
                                   .revision = 2,
                                   .reserved = MPA_FLAG_EXTENSIONS | MPA_FLAG_MARKER_WISH,
                                   .peer_to_peer = true,
                                   .rtr_write = true,
                                   .ird = 0x3fff,
                                   .ord = 0x1234,
                                   .private_data = span_of("hello", 5)};
    uint8_t buf[MPA_STARTUP_MAX_LEN];
    struct mpa_startup_frame out;
    size_t len;
    assert_int_equal(mpa_startup_frame_emit(&in, buf), 29);
    assert_memory_equal(buf + 16, "\xf6\x02\x00\x09\xbf\xff\x92\x34hello", 13);
    assert_int_equal(mpa_startup_frame_parse(span_of(buf, 29), MPA_REPLY, &out, &len),
                     MPA_FRAME_OK);
    assert_memory_equal(out.private_data.ptr, "hello", 5);
    uint8_t again[MPA_STARTUP_MAX_LEN];
    assert_int_equal(mpa_startup_frame_emit(&out, again), 29);
    assert_memory_equal(again, buf, 29);
}

static void each_rtr_flag_has_its_bit(void **state)
{
    static const char octets[4][5] = {"\x80\0\0\0", "\x40\0\0\0", "\0\0\x80\0", "\0\0\x40\0"};
    for (unsigned i = 0; i < 4; i++) {
        struct mpa_startup_frame f = {.revision = 2,
                                      .enhanced = true,
                                      .peer_to_peer = i == 0,
                                      .rtr_send = i == 1,
                                      .rtr_write = i == 2,
                                      .rtr_read = i == 3};
        uint8_t buf[MPA_STARTUP_MAX_LEN];
        mpa_startup_frame_emit(&f, buf);
        assert_memory_equal(buf + MPA_STARTUP_HEADER_LEN, octets[i], 4);
    }
}

static void frame_in_parts_is_incomplete_and_says_what_it_needs(void **state)
{
    struct mpa_startup_frame f;
    size_t len;
    for (size_t cut = 0; cut < sizeof reply_rev2; cut++) {
        assert_int_equal(mpa_startup_frame_parse(span_of(reply_rev2, cut), MPA_REPLY, &f, &len),
                         MPA_FRAME_INCOMPLETE);
        assert_int_equal(len, cut < 20 ? 20 : 24);
    }
}

static void octets_behind_the_frame_are_left_alone(void **state)
{
    uint8_t in[30] = {0};
    struct mpa_startup_frame f;
    size_t len;
    memcpy(in, request_rev1, 20);
    assert_int_equal(mpa_startup_frame_parse(span_of(in, 30), MPA_REQUEST, &f, &len), MPA_FRAME_OK);
    assert_int_equal(len, 20);
}

static void wrong_key_is_refused_at_its_first_wrong_octet(void **state)
{
    assert_int_equal(verdict_of((const uint8_t *)"GET / HTTP", 1, MPA_REQUEST), MPA_FRAME_BAD_KEY);
    assert_int_equal(verdict_of((const uint8_t *)"MPA ID ReX", 10, MPA_REQUEST), MPA_FRAME_BAD_KEY);
}

static void key_of_the_other_role_is_told_apart(void **state)
{
    assert_int_equal(verdict_of(request_rev1, 20, MPA_REPLY), MPA_FRAME_WRONG_KIND);
    assert_int_equal(verdict_of(request_rev1, 10, MPA_REPLY), MPA_FRAME_WRONG_KIND);
    assert_int_equal(verdict_of(reply_rev2, 24, MPA_REQUEST), MPA_FRAME_WRONG_KIND);
    // What follows the telling octet changes nothing: octets may come one at a time.
    assert_int_equal(verdict_of((const uint8_t *)"MPA ID ReqXYZ", 13, MPA_REPLY),
                     MPA_FRAME_WRONG_KIND);
}

static void unknown_revisions_are_refused(void **state)
{
    uint8_t in[20];
    memcpy(in, request_rev1, 20);
    for (unsigned revision = 0; revision < 256; revision++) {
        in[17] = (uint8_t)revision;
        assert_int_equal(verdict_of(in, 20, MPA_REQUEST),
                         revision == 1 || revision == 2 ? MPA_FRAME_OK : MPA_FRAME_REVISION);
    }
}

static void private_data_over_512_octets_is_refused(void **state)
{
    uint8_t in[MPA_STARTUP_MAX_LEN + 1] = {0};
    memcpy(in, request_rev1, 20);
    in[18] = 2;
    assert_int_equal(verdict_of(in, sizeof in, MPA_REQUEST), MPA_FRAME_OK);
    in[19] = 1;
    assert_int_equal(verdict_of(in, sizeof in, MPA_REQUEST), MPA_FRAME_PD_TOO_LONG);
}

static void enhanced_frame_without_its_octets_is_refused(void **state)
{
    uint8_t in[24];
    memcpy(in, reply_rev2, 24);
    in[19] = 3;
    assert_int_equal(verdict_of(in, 24, MPA_REPLY), MPA_FRAME_ENHANCED_MISSING);
}

static void s_bit_means_nothing_in_revision_1(void **state)
{
    uint8_t in[24];
    struct mpa_startup_frame f;
    size_t len;
    memcpy(in, reply_rev2, 24);
    in[17] = 1;
    assert_int_equal(mpa_startup_frame_parse(span_of(in, 24), MPA_REPLY, &f, &len), MPA_FRAME_OK);
    assert_false(f.enhanced);
    assert_int_equal(f.private_data.len, 4);
}

static void pad_makes_the_fpdu_a_multiple_of_four(void **state)
{
    for (size_t len = 0; len <= MPA_ULPDU_MAX_LEN; len++) {
        assert_int_equal(mpa_fpdu_len(len) % 4, 0);
        assert_true(mpa_pad_len(len) <= MPA_PAD_MAX_LEN);
    }
    assert_int_equal(mpa_fpdu_len(42), 48); // RFC 5044 figure 5, without its marker
    assert_true(mpa_fpdu_len(MPA_ULPDU_MAX_LEN) <= MPA_FPDU_MAX_LEN);
}

// RFC 5044 section 4.5, worked by hand.
static void mulpdu_follows_the_formula(void **state)
{
    assert_int_equal(mpa_mulpdu(1460, false), 1454);
    assert_int_equal(mpa_mulpdu(1460, true), 1442);
    assert_int_equal(mpa_mulpdu(1447, false), 1438);
    assert_int_equal(mpa_mulpdu(8948, true), 8870);
    assert_int_equal(mpa_mulpdu(1 << 20, false), MPA_ULPDU_MAX_LEN);
}

static void mulpdu_is_never_below_128(void **state)
{
    assert_int_equal(mpa_mulpdu(0, false), 128);
    assert_int_equal(mpa_mulpdu(127, true), 128);
    assert_int_equal(mpa_mulpdu(140, true), 130);
}

static void formats_and_names(void **state)
{
    char line[200];
    struct mpa_startup_frame f = {.kind = MPA_REPLY,
                                  .crc = true,
                                  .enhanced = true,
                                  .revision = 2,
                                  .ird = 4,
                                  .ord = 5,
                                  .peer_to_peer = true,
                                  .rtr_read = true};
    assert_string_equal(mpa_startup_frame_format(&f, line, sizeof line),
                        "MPA Reply rev=2 crc reserved=0x0 ird=4 ord=5 p2p rtr-read "
                        "private_data=0");
    for (int v = 0; v < MPA_FRAME_VERDICT_COUNT; v++) {
        assert_non_null(mpa_frame_verdict_name(v));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revision_1_request_is_read),
        cmocka_unit_test(enhanced_reply_is_read),
        cmocka_unit_test(every_field_survives_the_round_trip),
        cmocka_unit_test(each_rtr_flag_has_its_bit),
        cmocka_unit_test(frame_in_parts_is_incomplete_and_says_what_it_needs),
        cmocka_unit_test(octets_behind_the_frame_are_left_alone),
        cmocka_unit_test(wrong_key_is_refused_at_its_first_wrong_octet),
        cmocka_unit_test(key_of_the_other_role_is_told_apart),
        cmocka_unit_test(unknown_revisions_are_refused),
        cmocka_unit_test(private_data_over_512_octets_is_refused),
        cmocka_unit_test(enhanced_frame_without_its_octets_is_refused),
        cmocka_unit_test(s_bit_means_nothing_in_revision_1),
        cmocka_unit_test(pad_makes_the_fpdu_a_multiple_of_four),
        cmocka_unit_test(mulpdu_follows_the_formula),
        cmocka_unit_test(mulpdu_is_never_below_128),
        cmocka_unit_test(formats_and_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
