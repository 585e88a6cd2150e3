// NBD's negotiation by its octets, as doc/proto.md of the project NetworkBlockDevice/nbd has them:
// what a client says and what it hears.

#include "tests/node/nbd_stage.h"

enum { MIB = 1 << 20 };

// What is refused with words.
static void option_refused(const char *said, uint32_t number, uint32_t type, const char *why)
{
    uint8_t reply[20];
    char text[128];
    say(stage, OPTION);
    say(stage, said);
    hear_octets(stage, reply, sizeof reply);
    assert_int_equal(get_be64(reply), NBD_OPTION_REPLY);
    assert_int_equal(get_be32(reply + 8), number);
    assert_int_equal(get_be32(reply + 12), type);
    assert_int_equal(get_be32(reply + 16), strlen(why));
    hear_octets(stage, text, strlen(why));
    assert_memory_equal(text, why, strlen(why));
}

static void wrong_beginnings_end_the_connection(void **state)
{
    say(stage, "00000004"); // a flag that was not offered
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 1);
    assert_int_equal(stage->disconnects, 0);
}

static void what_is_no_option_ends_the_connection(void **state)
{
    greet();
    say(stage, "49484156454f5055 00000003 00000000");
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 1);
}

static void abort_is_answered_and_ends_the_connection(void **state)
{
    greet();
    option("00000002 00000000", REPLY "00000002 00000001 00000000");
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 0);
}

static void unknown_options_are_refused_and_leave_the_rest_as_it_was(void **state)
{
    greet();
    option("00000004 00000002 abcd", REPLY "00000004 80000001 00000000");
    option("0000000c 00000000", REPLY "0000000c 80000001 00000000");
    option("00000008 00000000", REPLY "00000008 00000001 00000000");
    assert_int_equal(counters().malformed, 0);
}

static void list_has_every_volume_that_the_client_may_see(void **state)
{
    greet();
    option("00000003 00000000",
           REPLY "00000003 00000002 00000008" DISK REPLY "00000003 00000002 00000009" OTHER REPLY
                 "00000003 00000001 00000000");
    stage->hidden = STAGE_VOLUME;
    option("00000003 00000000",
           REPLY "00000003 00000002 00000009" OTHER REPLY "00000003 00000001 00000000");
    stage->rows[1].state = RESOURCE_FAILED;
    option("00000003 00000000", REPLY "00000003 00000001 00000000");
    option_refused("00000003 00000001 00", NBD_OPT_LIST, NBD_REP_INVALID, "malformed");
}

static void option_is_read_up_to_8_kib_and_skipped_beyond(void **state)
{
    uint8_t octets[8193] = {0};
    greet();
    say(stage, OPTION "00000004 00002000");
    say_octets(stage, octets, 8192);
    hear(stage, REPLY "00000004 80000001 00000000");
    say(stage, OPTION "00000004 00002001");
    hear(stage, REPLY "00000004 80000009 00000000");
    say_octets(stage, octets, 8193);
    option("00000008 00000000", REPLY "00000008 00000001 00000000");
}

static void name_that_is_too_long_cannot_be_refused_in_the_old_manner(void **state)
{
    greet();
    say(stage, OPTION "00000001 00002001");
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 1);
}

/* ---- what a volume is ------------------------------------------------------------------------ */

#define BLOCK_SIZE(option) REPLY option "00000003 0000000e 0003 00000001 00001000 04000000 "
#define EXPORT(option)     REPLY option "00000003 0000000c 0000 0000000006000000 0d6d "

static void info_tells_what_was_asked_for(void **state)
{
    greet();
    option("00000006 0000000a" DISK "0000",
           BLOCK_SIZE("00000006") EXPORT("00000006") ACK("00000006"));
    option("00000006 0000000e" DISK "0002 0001 0002", BLOCK_SIZE("00000006") REPLY
           "00000006 00000003 00000006 0001 6469736b" REPLY
           "00000006 00000003 00000005 0002 72616d" EXPORT("00000006") ACK("00000006"));
    option("00000006 00000006 00000000 0000", // the first that there is
           BLOCK_SIZE("00000006") EXPORT("00000006") ACK("00000006"));
    assert_int_equal(stage->connects, 0);
}

static void go_connects(void **state)
{
    char address[CLIENT_ADDRESS_MAX];
    greet();
    stage->rows[1].profile.size = 0x1234;
    stage->rows[1].profile.alignment = 512;
    stage->rows[1].profile.preferred = 65536;
    option("00000007 0000000b" OTHER "0000",
           REPLY "00000007 00000003 0000000e 0003 00000200 00010000 04000000" REPLY
                 "00000007 00000003 0000000c 0000 0000000000001234 0d6d" ACK("00000007"));
    assert_int_equal(counters().established, 1);
    assert_int_equal(stage->connects, 1);
    snprintf(address, sizeof address, "unix, process %d", (int)getpid());
    assert_string_equal(stage->asker.address, address);
}

// Whatever a driver prefers: a power of two between a sector and the longest request.
static void preferred_size_is_one_that_a_client_can_use(void **state)
{
    static const struct {
        uint32_t alignment, preferred, told;
    } table[] = {{1, 1, 512},        {256, 256, 512},         {512, 512, 512},
                 {4096, 4096, 4096}, {1, 32 * MIB, 32 * MIB}, {1, UINT32_C(1) << 31, 32 * MIB}};
    uint8_t reply[34 + 32 + 20];
    greet();
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        stage->rows[0].profile.alignment = table[i].alignment;
        stage->rows[0].profile.preferred = table[i].preferred;
        say(stage, OPTION "00000006 0000000a" DISK "0000");
        hear_octets(stage, reply, sizeof reply);
        assert_int_equal(get_be32(reply + 22), table[i].alignment);
        assert_int_equal(get_be32(reply + 26), table[i].told);
    }
}

static void what_names_no_volume_is_refused(void **state)
{
    static const char *const malformed[] = {
        "00000007 00000003 000000",                    // the name's length is cut
        "00000007 00000007 00000004 646973",           // the name
        "00000007 00000009 00000004 6469736b 00",      // the count
        "00000007 0000000a 00000004 6469736b 0001",    // a wish
        "00000007 0000000b 00000004 6469736b 0000 00", // too much
    };
    greet();
    for (unsigned i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        option_refused(malformed[i], NBD_OPT_GO, NBD_REP_INVALID, "malformed");
    }
    option_refused("00000007 00000009 00000003 646973 0000", NBD_OPT_GO, NBD_REP_UNKNOWN,
                   "there is no such volume");
    option_refused("00000007 0000000b 00000005 6469736b00 0000", NBD_OPT_GO, NBD_REP_UNKNOWN,
                   "there is no such volume"); // a zero within
    stage->hidden = STAGE_VOLUME;
    option_refused("00000006 0000000a" DISK "0000", NBD_OPT_INFO, NBD_REP_UNKNOWN,
                   "there is no such volume");
    assert_int_equal(stage->connects, 0);
    assert_int_equal(counters().malformed, 0);
}

// The longest name that a volume may have is found, a longer one is not cut to it.
static void names_are_compared_whole(void **state)
{
    uint8_t octets[10 + 64] = {0, 0, 0, 63};
    memset(stage->rows[1].name, 'n', 63);
    memset(octets + 4, 'n', 64);
    octets[67] = octets[68] = 0; // the count
    greet();
    say(stage, OPTION "00000006 00000045");
    say_octets(stage, octets, 69);
    hear(stage, BLOCK_SIZE("00000006") EXPORT("00000006") ACK("00000006"));
    octets[3] = 64;
    octets[67] = 'n';
    octets[69] = 0;
    say(stage, OPTION "00000006 00000046");
    say_octets(stage, octets, 70);
    hear(stage, REPLY "00000006 80000006 00000017"); // 23 octets of words
}

static void old_manner_has_zeroes_unless_they_are_not_wanted(void **state)
{
    uint8_t octets[124], zeroes[124] = {0};
    say(stage, "00000001");
    say(stage, OPTION "00000001 00000004 6469736b");
    hear(stage, "0000000006000000 0d6d");
    hear_octets(stage, octets, sizeof octets);
    assert_memory_equal(octets, zeroes, sizeof zeroes);
    hear_nothing(stage);
    assert_int_equal(counters().established, 1);
}

static void old_manner_without_zeroes_is_ten_octets(void **state)
{
    greet();
    say(stage, OPTION "00000001 00000000");
    hear(stage, "0000000006000000 0d6d");
    hear_nothing(stage);
}

static void old_manner_without_such_a_volume_ends(void **state)
{
    greet();
    say(stage, OPTION "00000001 00000005 6469736b6b");
    hear_the_end(stage);
    assert_int_equal(stage->connects, 0);
}

// Flags of an export by what its volume can.
static void abilities_are_told_as_flags(void **state)
{
    static const struct {
        uint32_t abilities;
        uint16_t flags;
    } table[] = {
        {0, 0x0507},
        {VOLUME_CAN_WRITE, 0x0505},
        {VOLUME_CAN_WRITE | VOLUME_CAN_FLUSH, 0x0505},
        {VOLUME_CAN_WRITE | VOLUME_CAN_FUA, 0x050d},
        {VOLUME_CAN_WRITE | VOLUME_IS_ROTATIONAL, 0x0515},
        {VOLUME_CAN_WRITE | VOLUME_CAN_TRIM, 0x0525},
        {VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES, 0x0545},
        {VOLUME_CAN_WRITE | VOLUME_CAN_ZERO_FAST, 0x0505},
        {VOLUME_CAN_WRITE | VOLUME_CAN_WRITE_ZEROES | VOLUME_CAN_ZERO_FAST, 0x0d45},
        {VOLUME_CAN_WRITE | VOLUME_CAN_EXTENTS, 0x0505},
    };
    uint8_t reply[34 + 32 + 20];
    greet();
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        stage->rows[0].abilities = table[i].abilities;
        say(stage, OPTION "00000006 0000000a" DISK "0000");
        hear_octets(stage, reply, sizeof reply);
        assert_int_equal(get_be16(reply + 34 + 30), table[i].flags);
    }
    option("00000008 00000000", ACK("00000008")); // structured replies: in one piece if wished
    say(stage, OPTION "00000006 0000000a" DISK "0000");
    hear_octets(stage, reply, sizeof reply);
    assert_int_equal(get_be32(reply + 30), 64 * MIB); // and longer ones
    assert_int_equal(get_be16(reply + 34 + 30), 0x0585);
    option_refused("00000008 00000001 00", NBD_OPT_STRUCTURED_REPLY, NBD_REP_INVALID, "malformed");
}

/* ---- the context ----------------------------------------------------------------------------- */

static void context_is_for_who_takes_structured_replies(void **state)
{
    greet();
    option_refused(CHOOSE_CONTEXT, NBD_OPT_SET_META_CONTEXT, NBD_REP_INVALID,
                   "malformed, or before structured replies");
    option("00000008 00000000", ACK("00000008"));
    option(CHOOSE_CONTEXT, CHOSEN ACK("0000000a"));
}

static void contexts_are_listed_and_chosen_by_query(void **state)
{
    static const char listed[] =
        REPLY "00000009 00000004 00000013 00000000 626173653a616c6c6f636174696f6e" ACK("00000009");
    greet();
    option("00000008 00000000", ACK("00000008"));
    option("00000009 0000000c" DISK "00000000", listed); // all
    option("00000009 00000015" DISK "00000001 00000005 626173653a", listed);
    option("00000009 0000001f" DISK "00000001 0000000f 626173653a616c6c6f636174696f6e", listed);
    option("00000009 00000015" DISK "00000001 00000005 626173653b", ACK("00000009"));
    option("0000000a 00000015" DISK "00000001 00000005 626173653a", ACK("0000000a"));
    option("0000000a 0000000c" DISK "00000000", ACK("0000000a")); // chosen: none
    option_refused("0000000a 0000000c" DISK "00000001", NBD_OPT_SET_META_CONTEXT, NBD_REP_INVALID,
                   "malformed");
    option_refused("0000000a 0000000f" DISK "00000001 000000", NBD_OPT_SET_META_CONTEXT,
                   NBD_REP_INVALID, "malformed");
    option_refused("0000000a 0000000d" DISK "00000000 78", NBD_OPT_SET_META_CONTEXT,
                   NBD_REP_INVALID, "malformed"); // too much
    option_refused("00000009 00000016" DISK "00000001 00000005 626173653a 78",
                   NBD_OPT_LIST_META_CONTEXT, NBD_REP_INVALID, "malformed");
    option_refused("0000000a 00000004 00000001", NBD_OPT_SET_META_CONTEXT, NBD_REP_INVALID,
                   "malformed, or before structured replies");
    option_refused("0000000a 00000009 00000001 78 00000000", NBD_OPT_SET_META_CONTEXT,
                   NBD_REP_UNKNOWN, "there is no such volume");
    stage->rows[0].abilities &= ~(uint32_t)VOLUME_CAN_EXTENTS;
    option("00000009 0000000c" DISK "00000000", ACK("00000009"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(wrong_beginnings_end_the_connection),
        TEST(what_is_no_option_ends_the_connection),
        TEST(abort_is_answered_and_ends_the_connection),
        TEST(unknown_options_are_refused_and_leave_the_rest_as_it_was),
        TEST(list_has_every_volume_that_the_client_may_see),
        TEST(option_is_read_up_to_8_kib_and_skipped_beyond),
        TEST(name_that_is_too_long_cannot_be_refused_in_the_old_manner),
        TEST(info_tells_what_was_asked_for),
        TEST(go_connects),
        TEST(preferred_size_is_one_that_a_client_can_use),
        TEST(what_names_no_volume_is_refused),
        TEST(names_are_compared_whole),
        TEST(old_manner_has_zeroes_unless_they_are_not_wanted),
        TEST(old_manner_without_zeroes_is_ten_octets),
        TEST(old_manner_without_such_a_volume_ends),
        TEST(abilities_are_told_as_flags),
        TEST(context_is_for_who_takes_structured_replies),
        TEST(contexts_are_listed_and_chosen_by_query),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
