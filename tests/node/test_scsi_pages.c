// What SCSI devices tell of themselves: capacities, pages and sense data, whole or cut short.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "format/scsi.h"

static void a_capacity_that_cannot_be_is_refused(void **state)
{
    struct scsi_capacity capacity;
    uint8_t octets[32] = {[7] = 0xff, [10] = 2, [13] = 3};
    assert_true(scsi_capacity_parse(octets, sizeof octets, &capacity));
    assert_int_equal(capacity.blocks, 256);
    assert_int_equal(capacity.block_size, 512);
    assert_int_equal(capacity.physical_size, 4096);
    assert_false(scsi_capacity_parse(octets, 11, &capacity));
    octets[11] = 8; // blocks of 520 octets
    assert_false(scsi_capacity_parse(octets, sizeof octets, &capacity));
    octets[11] = 0;
    memset(octets, 0xff, 8); // more octets than 64 bits count
    assert_false(scsi_capacity_parse(octets, sizeof octets, &capacity));
}

static void capacities_are_those_of_blocks_that_can_be(void **state)
{
    static const struct {
        uint64_t last;
        uint32_t block_size;
        uint8_t exponent, len;
        bool is_possible;
        uint32_t physical_size;
    } table[] = {
        {7, 512, 0, 32, true, 512},
        {7, 256, 0, 32, false, 256},
        {7, 1024, 3, 32, true, 8192},
        {7, 65536, 0, 32, true, 65536},
        {7, 1 << 17, 0, 32, false, 1 << 17},
        {7, 768, 0, 32, false, 768},
        {7, 512, 3, 12, true, 512},
        {7, 512, 3, 13, true, 512}, // no exponent there
        {7, 512, 3, 14, true, 4096},
        {7, 512, 0x73, 14, true, 4096},
        {7, 512, 15, 14, true, 512 << 15},
        {UINT64_MAX / 512 - 1, 512, 0, 32, true, 512},
        {UINT64_MAX / 512, 512, 0, 32, false, 512},
    };
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        struct scsi_capacity capacity;
        uint8_t octets[32] = {0};
        put_be64(octets, table[i].last);
        put_be32(octets + 8, table[i].block_size);
        octets[13] = table[i].exponent;
        assert_int_equal(scsi_capacity_parse(octets, table[i].len, &capacity),
                         table[i].is_possible);
        assert_int_equal(capacity.blocks, table[i].last + 1);
        assert_int_equal(capacity.physical_size, table[i].physical_size);
    }
}

static void an_inquiry_has_its_type_and_its_names_without_spaces(void **state)
{
    uint8_t octets[36] = "\x21......."
                         " WEFT\177  "
                         "  a\001b  c    end ";
    struct scsi_inquiry inquiry;
    assert_true(scsi_inquiry_parse(octets, sizeof octets, &inquiry));
    assert_int_equal(inquiry.peripheral, 0x21);
    assert_string_equal(inquiry.vendor, "WEFT");
    assert_string_equal(inquiry.product, "a b  c    end");
}

static void what_a_device_provisions_is_three_bits(void **state)
{
    for (unsigned bits = 0; bits <= UINT8_MAX; bits++) {
        const uint8_t octets[6] = {[5] = (uint8_t)bits};
        struct scsi_provisioning p;
        assert_true(scsi_provisioning_parse(octets, sizeof octets, &p));
        assert_int_equal(p.can_unmap, (bits & 0x80) != 0);
        assert_int_equal(p.can_same_unmap, (bits & 0x40) != 0);
        assert_int_equal(p.reads_zeroes, (bits >> 2 & 7) == 1);
    }
}

static void a_mode_is_protected_has_fua_and_a_cache(void **state)
{
    for (unsigned bits = 0; bits <= UINT8_MAX; bits++) {
        // The page is behind a descriptor of two octets; its high bits are others.
        const uint8_t octets[] = {0, 0, (uint8_t)bits, 2, 0x08, 0, 0xc8, 1, (uint8_t)bits};
        struct scsi_mode mode;
        assert_true(scsi_mode_parse(octets, sizeof octets, &mode));
        assert_int_equal(mode.is_write_protected, (bits & 0x80) != 0);
        assert_int_equal(mode.has_fua, (bits & 0x10) != 0);
        assert_int_equal(mode.has_write_cache, (bits & 0x04) != 0);
        assert_true(scsi_mode_parse(octets, sizeof octets - 1, &mode)); // the octet is missing
        assert_true(mode.has_write_cache);
        assert_true(scsi_mode_parse(octets, 4, &mode));
        assert_int_equal(mode.has_fua, (bits & 0x10) != 0);
    }
    const uint8_t other[] = {0, 0, 0, 0, 0x09, 1, 0}; // another page
    struct scsi_mode mode;
    assert_true(scsi_mode_parse(other, sizeof other, &mode));
    assert_true(mode.has_write_cache);
}

static void an_operation_is_supported_as_the_standard_or_the_vendor_has_it(void **state)
{
    bool is_supported;
    for (unsigned bits = 0; bits <= UINT8_MAX; bits++) {
        const uint8_t octets[2] = {5, (uint8_t)bits};
        assert_true(scsi_operation_parse(octets, 2, &is_supported));
        assert_int_equal(is_supported, (bits & 7) == 3 || (bits & 7) == 5);
        assert_false(scsi_operation_parse(octets, 1, &is_supported));
    }
}

static void a_list_of_pages_ends_where_it_says_or_is_cut(void **state)
{
    static const uint8_t list[] = {0, 0, 0, 3, 0x00, 0x80, 0xb0, 0xb2};
    static const uint8_t longer[] = {0, 0, 1, 0, 0x00, 0x80, 0xb0, 0xb2};
    assert_true(scsi_pages_have(list, sizeof list, 0xb0));
    assert_true(scsi_pages_have(list, sizeof list, 0x00));
    assert_false(scsi_pages_have(list, sizeof list, 0xb2));
    assert_false(scsi_pages_have(list, 6, 0xb0));
    assert_true(scsi_pages_have(longer, sizeof longer, 0xb2));
    assert_false(scsi_pages_have(longer, sizeof longer, 0x01));
    assert_false(scsi_pages_have(list, 3, 0x00));
}

static void a_serial_number_has_no_spaces_around_it(void **state)
{
    static const uint8_t page[] = "\0\x80\0\x08  ab 12 z";
    static const uint8_t blank[] = "\0\x80\0\x03   z";
    char serial[SCSI_NAME_MAX];
    assert_true(scsi_serial_parse(page, sizeof page - 1, serial));
    assert_string_equal(serial, "ab 12");
    assert_true(scsi_serial_parse(page, 7, serial)); // cut
    assert_string_equal(serial, "a");
    assert_false(scsi_serial_parse(blank, sizeof blank - 1, serial));
}

static void the_first_of_equal_names_stays_and_long_ones_are_cut(void **state)
{
    static const uint8_t page[] = {0, 0x83, 0, 22, 1, 2, 0, 0, // empty
                                   1, 2,    0, 4,  1, 2, 3, 4, // EUI-64
                                   1, 2,    0, 2,  9, 9};      // another
    uint8_t longest[4 + 4 + 255] = {0, 0x83, 1, 3, 1, 3, 0, 255};
    char name[SCSI_NAME_MAX];
    assert_true(scsi_identification_parse(page, sizeof page, name));
    assert_string_equal(name, "0x01020304");
    assert_true(scsi_identification_parse(longest, sizeof longest, name));
    assert_int_equal(strlen(name), SCSI_NAME_MAX - 2); // an even number of digits
}

static void a_descriptor_of_sense_data_is_found_as_far_as_they_go(void **state)
{
    static const uint8_t sense[] = {0x72, 0, 0, 0, 0, 0,    0, 9,    0x01, 1,
                                    5,    3, 2, 7, 7, 0x09, 0, 0x0a, 0};
    uint8_t copy[sizeof sense], len = 0;
    memcpy(copy, sense, sizeof sense);
    assert_ptr_equal(scsi_sense_descriptor(copy, sizeof copy, 1, &len), copy + 8);
    assert_int_equal(len, 1);
    assert_ptr_equal(scsi_sense_descriptor(copy, sizeof copy, 3, &len), copy + 11);
    assert_int_equal(len, 2);
    assert_ptr_equal(scsi_sense_descriptor(copy, sizeof copy, 9, &len), copy + 15);
    assert_int_equal(len, 0);
    assert_null(scsi_sense_descriptor(copy, sizeof copy, 0x0a, &len)); // beyond what it says
    assert_null(scsi_sense_descriptor(copy, 14, 3, &len));             // cut
    assert_null(scsi_sense_descriptor(copy, 7, 1, &len));
    for (unsigned code = 0; code <= UINT8_MAX; code++) {
        bool has = (code & 0x7f) == 0x72 || (code & 0x7f) == 0x73;
        copy[0] = (uint8_t)code;
        assert_int_equal(scsi_sense_descriptor(copy, sizeof copy, 1, &len) != NULL, has);
        struct scsi_failure failure;
        bool is_fixed = (code & 0x7f) == 0x70 || (code & 0x7f) == 0x71;
        assert_int_equal(scsi_sense_parse(copy, sizeof copy, &failure), has || is_fixed);
    }
}

static void the_best_name_of_a_unit_is_taken(void **state)
{
    static const uint8_t page[] = {0, 0x83, 0, 32,                      // 32 octets follow
                                   2, 1,    0, 4,  'W',  'E', 'F', 'T', // T10
                                   1, 0x13, 0, 4,  9,    9,   9,   9,   // NAA of the port
                                   1, 3,    0, 8,  0x60, 1,   2,   3,
                                   4, 5,    6, 7}; // NAA of the unit
    char name[SCSI_NAME_MAX];
    assert_true(scsi_identification_parse(page, sizeof page, name));
    assert_string_equal(name, "0x6001020304050607");
    assert_true(scsi_identification_parse(page, 20, name)); // the rest is missing
    assert_string_equal(name, "WEFT");
    for (uint32_t len = 0; len < 12; len++) {
        assert_false(scsi_identification_parse(page, len, name));
    }
}

static void pages_that_are_cut_short_say_nothing(void **state)
{
    uint8_t octets[64] = {0};
    struct scsi_limits limits;
    struct scsi_provisioning provisioning;
    struct scsi_mode mode;
    struct scsi_inquiry inquiry;
    char name[SCSI_NAME_MAX];
    assert_false(scsi_limits_parse(octets, 15, &limits));
    assert_false(scsi_provisioning_parse(octets, 5, &provisioning));
    assert_false(scsi_mode_parse(octets, 3, &mode));
    assert_true(mode.has_write_cache); // to be on the safe side
    assert_false(scsi_inquiry_parse(octets, 35, &inquiry));
    assert_false(scsi_serial_parse(octets, 3, name));
    octets[3] = 0xff; // more descriptors than there are
    assert_true(scsi_mode_parse(octets, sizeof octets, &mode));
    assert_true(mode.has_write_cache);
    assert_false(scsi_pages_have(octets, 4, 0));
}

static void limits_are_taken_as_far_as_the_page_goes(void **state)
{
    uint8_t octets[64];
    struct scsi_limits limits;
    for (unsigned i = 0; i < sizeof octets; i++) {
        octets[i] = (uint8_t)i;
    }
    for (uint32_t len = 16; len <= sizeof octets; len++) {
        assert_true(scsi_limits_parse(octets, len, &limits));
        assert_int_equal(limits.transfer_max, 0x08090a0b);
        assert_int_equal(limits.transfer_best, 0x0c0d0e0f);
        assert_int_equal(limits.unmap_max, len >= 24 ? 0x14151617 : 0);
        assert_int_equal(limits.write_same_max, len >= 44 ? 0x2425262728292a2b : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capacity_that_cannot_be_is_refused),
        cmocka_unit_test(capacities_are_those_of_blocks_that_can_be),
        cmocka_unit_test(an_inquiry_has_its_type_and_its_names_without_spaces),
        cmocka_unit_test(what_a_device_provisions_is_three_bits),
        cmocka_unit_test(a_mode_is_protected_has_fua_and_a_cache),
        cmocka_unit_test(an_operation_is_supported_as_the_standard_or_the_vendor_has_it),
        cmocka_unit_test(a_list_of_pages_ends_where_it_says_or_is_cut),
        cmocka_unit_test(a_serial_number_has_no_spaces_around_it),
        cmocka_unit_test(the_first_of_equal_names_stays_and_long_ones_are_cut),
        cmocka_unit_test(a_descriptor_of_sense_data_is_found_as_far_as_they_go),
        cmocka_unit_test(the_best_name_of_a_unit_is_taken),
        cmocka_unit_test(pages_that_are_cut_short_say_nothing),
        cmocka_unit_test(limits_are_taken_as_far_as_the_page_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
