// NBD's transmission by its octets: what a client asks, what the CTA is asked then, and what the
// client hears.

#include "tests/node/nbd_stage.h"

#define COOKIE "1122334455667788 "
#define MARK   "67446698 "
#define CHUNK  "668e33ef "

enum { MIB = 1 << 20, KIB = 1 << 10, REQUEST_LEN = 28 };

/* ---- transmission ---------------------------------------------------------------------------- */

static void establish(bool is_structured, bool has_context)
{
    uint8_t reply[34 + 32 + 20];
    greet();
    if (is_structured) {
        option("00000008 00000000", ACK("00000008"));
    }
    if (has_context) {
        option(CHOOSE_CONTEXT, CHOSEN ACK("0000000a"));
    }
    say(stage, OPTION "00000007 0000000a" DISK "0000");
    hear_octets(stage, reply, sizeof reply);
}

static void ask(uint16_t flags, uint16_t command, uint64_t offset, uint32_t len)
{
    uint8_t request[REQUEST_LEN];
    put_be32(request, NBD_REQUEST_MAGIC);
    put_be16(request + 4, flags);
    put_be16(request + 6, command);
    put_be64(request + 8, UINT64_C(0x1122334455667788));
    put_be64(request + 16, offset);
    put_be32(request + 24, len);
    say_octets(stage, request, sizeof request);
}

static void hear_error(uint32_t error)
{
    uint8_t reply[16];
    hear_octets(stage, reply, sizeof reply);
    assert_int_equal(get_be32(reply), NBD_SIMPLE_MAGIC);
    assert_int_equal(get_be32(reply + 4), error);
    assert_int_equal(get_be64(reply + 8), UINT64_C(0x1122334455667788));
}

static void hear_ok(void)
{
    hear_error(NBD_OK);
}

static void fill(uint8_t *octets, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        octets[i] = (uint8_t)(i * 7 + i / 251 + 1);
    }
}

static void read_is_answered_with_the_octets(void **state)
{
    uint8_t octets[1000];
    fill(stage->volume, 4096);
    establish(false, false);
    ask(0, NBD_CMD_READ, 512, sizeof octets);
    hear_ok();
    hear_octets(stage, octets, sizeof octets);
    assert_memory_equal(octets, stage->volume + 512, sizeof octets);
    expect_asked(stage, "read 512+1000\n");
    assert_int_equal(stage->outcome, NODE_OK);
    assert_int_equal(counters().requests, 1);
    assert_int_equal(counters().errors, 0);
}

// Up to 64 KiB a write waits for its data, beyond that they go straight into its buffer.
static void writes_of_every_length_arrive(void **state)
{
    static const uint32_t lens[] = {1, 4095, 4096, 65536, 65537, 200000, 3 * MIB};
    static uint8_t octets[3 * MIB];
    establish(false, false);
    fill(octets, sizeof octets);
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        char trace[64];
        memset(stage->volume, 0, 4 * MIB);
        ask(0, NBD_CMD_WRITE, 3, lens[i]);
        say_octets(stage, octets, lens[i] / 2);
        stage_settle(stage);
        say_octets(stage, octets + lens[i] / 2, lens[i] - lens[i] / 2);
        hear_ok();
        assert_memory_equal(stage->volume + 3, octets, lens[i]);
        assert_int_equal(stage->volume[2] | stage->volume[3 + lens[i]], 0);
        snprintf(trace, sizeof trace, "write 3+%u\n", lens[i]);
        expect_asked(stage, trace);
    }
}

static void short_write_asks_for_a_buffer_once_its_data_are_there(void **state)
{
    static uint8_t octets[65537];
    establish(false, false);
    ask(0, NBD_CMD_WRITE, 0, 65536);
    say_octets(stage, octets, 65535);
    expect_asked(stage, "");
    say_octets(stage, octets, 1);
    hear_ok();
    expect_asked(stage, "write 0+65536\n");
    ask(0, NBD_CMD_WRITE, 0, 65537);
    expect_asked(stage, "write 0+65537\n");
    say_octets(stage, octets, 65537);
    hear_ok();
}

// Without a volatile cache what has completed is stable; the driver may know no such command.
static void flush_of_what_has_no_cache_is_done_at_once(void **state)
{
    stage->rows[0].abilities &= ~(uint32_t)VOLUME_CAN_FLUSH;
    establish(false, false);
    ask(0, NBD_CMD_FLUSH, 0, 0);
    hear_ok();
    expect_asked(stage, "");
    assert_int_equal(counters().requests, 1);
}

static void commands_carry_their_ranges_and_flags(void **state)
{
    static const struct {
        uint16_t flags, command;
        const char *asked;
    } table[] = {
        {0, NBD_CMD_FLUSH, "flush 0+0\n"},
        {1, NBD_CMD_FLUSH, "flush 0+0\n"},
        {0, NBD_CMD_TRIM, "trim 8192+4096\n"},
        {1, NBD_CMD_TRIM, "trim 8192+4096 fua\n"},
        {0, NBD_CMD_CACHE, "read 8192+4096\n"},
        {1, NBD_CMD_CACHE, "read 8192+4096\n"},
        {0, NBD_CMD_WRITE_ZEROES, "write zeroes 8192+4096\n"},
        {1, NBD_CMD_WRITE_ZEROES, "write zeroes 8192+4096 fua\n"},
        {2, NBD_CMD_WRITE_ZEROES, "write zeroes 8192+4096 no hole\n"},
        {16, NBD_CMD_WRITE_ZEROES, "write zeroes 8192+4096 fast\n"},
        {19, NBD_CMD_WRITE_ZEROES, "write zeroes 8192+4096 fua no hole fast\n"},
    };
    uint8_t octets[512] = {0};
    establish(false, false);
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        ask(table[i].flags, table[i].command, 8192, 4096);
        hear_ok();
        expect_asked(stage, table[i].asked);
    }
    ask(1, NBD_CMD_WRITE, 512, 512);
    say_octets(stage, octets, 512);
    hear_ok();
    expect_asked(stage, "write 512+512 fua\n");
    ask(1, NBD_CMD_READ, 512, 512);
    hear_ok();
    hear_octets(stage, octets, 512);
    expect_asked(stage, "read 512+512\n");
}

static void flags_that_were_not_offered_are_refused(void **state)
{
    stage->rows[0].abilities &= ~(uint32_t)(VOLUME_CAN_FUA | VOLUME_CAN_ZERO_FAST);
    establish(false, false);
    ask(NBD_CMD_FLAG_FUA, NBD_CMD_TRIM, 0, 512);
    hear_error(NBD_EINVAL);
    ask(NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_WRITE_ZEROES, 0, 512);
    hear_error(NBD_EINVAL);
    ask(NBD_CMD_FLAG_DF, NBD_CMD_READ, 0, 512); // replies are not structured
    hear_error(NBD_EINVAL);
    expect_asked(stage, "");
    ask(0, NBD_CMD_TRIM, 0, 512);
    hear_ok();
}

static void requests_that_cannot_be_are_refused_at_the_door(void **state)
{
    static const struct {
        uint16_t flags, command;
        uint32_t len, error;
    } table[] = {
        {0, 9, 512, NBD_EINVAL},
        {0, 8, 512, NBD_EINVAL},
        {2, NBD_CMD_READ, 512, NBD_EINVAL},
        {16, NBD_CMD_TRIM, 512, NBD_EINVAL},
        {4, NBD_CMD_WRITE_ZEROES, 512, NBD_EINVAL},
        {2, NBD_CMD_FLUSH, 0, NBD_EINVAL},
        {0, NBD_CMD_READ, 0, NBD_EINVAL},
        {0, NBD_CMD_TRIM, 0, NBD_EINVAL},
        {0, NBD_CMD_CACHE, 0, NBD_EINVAL},
        {0, NBD_CMD_WRITE_ZEROES, 0, NBD_EINVAL},
        {0, NBD_CMD_WRITE, 0, NBD_EINVAL},
        {0, NBD_CMD_BLOCK_STATUS, 512, NBD_EINVAL}, // no context was chosen
        {0, NBD_CMD_READ, 64 * MIB + 1, NBD_EINVAL},
        {0, NBD_CMD_CACHE, STAGE_LEN + 1, NBD_EINVAL},
    };
    unsigned count = sizeof table / sizeof table[0];
    establish(false, false);
    for (unsigned i = 0; i < count; i++) {
        ask(table[i].flags, table[i].command, 0, table[i].len);
        hear_error(table[i].error);
    }
    expect_asked(stage, "");
    assert_int_equal(counters().requests, count);
    assert_int_equal(counters().errors, count);
}

// The data of a write that is refused are passed over, and only then it is answered.
static void refused_write_is_answered_behind_its_data(void **state)
{
    static uint8_t octets[100000];
    establish(false, false);
    ask(2, NBD_CMD_WRITE, 0, sizeof octets);
    say_octets(stage, octets, sizeof octets - 1);
    hear_nothing(stage);
    say_octets(stage, octets, 1);
    hear_error(NBD_EINVAL);
    stage->completion = NODE_READ_ONLY; // by the CTA, before it has a buffer
    ask(0, NBD_CMD_WRITE, 0, sizeof octets);
    say_octets(stage, octets, sizeof octets - 1);
    hear_nothing(stage);
    say_octets(stage, octets, 1);
    hear_error(NBD_EPERM);
    stage->fails_late = true; // ... and when all have come
    stage->completion = NODE_NO_SPACE;
    ask(0, NBD_CMD_WRITE, 0, sizeof octets);
    say_octets(stage, octets, sizeof octets);
    hear_error(NBD_ENOSPC);
    stage->completion = NODE_OK;
    ask(0, NBD_CMD_FLUSH, 0, 0);
    hear_ok();
    assert_int_equal(counters().errors, 3);
}

static void every_completion_has_its_errno(void **state)
{
    static const uint32_t errors[NODE_COMPLETION_COUNT] = {
        [NODE_RETRY] = NBD_EIO,       [NODE_MALFORMED] = NBD_EINVAL,
        [NODE_RANGE] = NBD_EINVAL,    [NODE_UNSUPPORTED] = NBD_EINVAL,
        [NODE_READ_ONLY] = NBD_EPERM, [NODE_NO_SPACE] = NBD_ENOSPC,
        [NODE_MEDIA] = NBD_EIO,       [NODE_TRANSFER] = NBD_EIO,
        [NODE_TIMED_OUT] = NBD_EIO,   [NODE_NO_VOLUME] = NBD_ESHUTDOWN,
        [NODE_INTERNAL] = NBD_EIO,    [NODE_RESERVED] = NBD_EPERM,
        [NODE_MISCOMPARE] = NBD_EIO,  [NODE_STANDBY] = NBD_ESHUTDOWN,
    };
    uint8_t octet = 0;
    establish(false, false);
    for (enum node_completion c = NODE_RETRY; c < NODE_COMPLETION_COUNT; c++) {
        stage->completion = c;
        ask(0, NBD_CMD_READ, 0, 512);
        hear_error(errors[c]);
    }
    stage->completion = NODE_RANGE; // a write beyond the end has no room
    ask(0, NBD_CMD_WRITE, 0, 1);
    say_octets(stage, &octet, 1);
    hear_error(NBD_ENOSPC);
    ask(0, NBD_CMD_WRITE_ZEROES, 0, 1);
    hear_error(NBD_ENOSPC);
    ask(0, NBD_CMD_TRIM, 0, 1);
    hear_error(NBD_EINVAL);
    stage->completion = NODE_UNSUPPORTED; // only who asks for speed hears that there is none
    ask(0, NBD_CMD_WRITE_ZEROES, 0, 512);
    hear_error(NBD_EINVAL);
    ask(NBD_CMD_FLAG_FAST_ZERO, NBD_CMD_WRITE_ZEROES, 0, 512);
    hear_error(NBD_ENOTSUP);
}

/* ---- chunks ---------------------------------------------------------------------------------- */

// The head of a chunk; what is behind it is the caller's.
static uint32_t hear_chunk(uint16_t flags, uint16_t type)
{
    uint8_t head[20];
    hear_octets(stage, head, sizeof head);
    assert_int_equal(get_be32(head), NBD_STRUCTURED_MAGIC);
    assert_int_equal(get_be16(head + 4), flags);
    assert_int_equal(get_be16(head + 6), type);
    assert_int_equal(get_be64(head + 8), UINT64_C(0x1122334455667788));
    return get_be32(head + 16);
}

static void hear_data(uint16_t flags, uint64_t offset, uint32_t len)
{
    uint8_t at[8], *octets = malloc(len);
    assert_int_equal(hear_chunk(flags, NBD_REPLY_TYPE_OFFSET_DATA), 8 + len);
    hear_octets(stage, at, sizeof at);
    assert_int_equal(get_be64(at), offset);
    hear_octets(stage, octets, len);
    assert_memory_equal(octets, stage->volume + offset, len);
    free(octets);
}

static void hear_hole(uint16_t flags, uint64_t offset, uint32_t len)
{
    uint8_t payload[12];
    assert_int_equal(hear_chunk(flags, NBD_REPLY_TYPE_OFFSET_HOLE), sizeof payload);
    hear_octets(stage, payload, sizeof payload);
    assert_int_equal(get_be64(payload), offset);
    assert_int_equal(get_be32(payload + 8), len);
}

static void zeroes_of_64_kib_and_all_that_was_read_are_holes(void **state)
{
    uint8_t *at = stage->volume;
    establish(true, false);
    ask(0, NBD_CMD_READ, 512, 100); // nothing but zeroes
    hear_hole(1, 512, 100);
    memset(at, 1, 4 * KIB); // data, a hole, data with a few zeroes in them, and some at the end
    memset(at + 68 * KIB, 1, KIB);
    memset(at + 200 * KIB, 1, KIB);
    ask(0, NBD_CMD_READ, 0, 256 * KIB);
    hear_data(0, 0, 4 * KIB);
    hear_hole(0, 4 * KIB, 64 * KIB);
    hear_data(0, 68 * KIB, 4 * KIB);
    hear_hole(0, 72 * KIB, 128 * KIB);
    hear_data(1, 200 * KIB, 56 * KIB); // 52 KiB of zeroes are too few
    memset(at + 8 * KIB, 1, 1);        // 60 KiB are no hole either
    ask(0, NBD_CMD_READ, 0, 69 * KIB);
    hear_data(1, 0, 69 * KIB);
    ask(NBD_CMD_FLAG_DF, NBD_CMD_READ, 0, 256 * KIB); // in one piece
    hear_data(1, 0, 256 * KIB);
    ask(NBD_CMD_FLAG_DF, NBD_CMD_READ, 300 * KIB, 256 * KIB);
    hear_hole(1, 300 * KIB, 256 * KIB);
    expect_asked(stage, "read 512+100\nread 0+262144\nread 0+70656\nread 0+262144\n"
                        "read 307200+262144\n");
}

// A chunk that ends a reply: the error, and words for who reads them.
static void hear_error_chunk(uint32_t error, const char *why)
{
    uint8_t payload[6];
    char text[128];
    assert_int_equal(hear_chunk(1, NBD_REPLY_TYPE_ERROR), sizeof payload + strlen(why));
    hear_octets(stage, payload, sizeof payload);
    assert_int_equal(get_be32(payload), error);
    assert_int_equal(get_be16(payload + 4), strlen(why));
    hear_octets(stage, text, strlen(why));
    assert_memory_equal(text, why, strlen(why));
}

static void errors_are_chunks_with_words(void **state)
{
    uint8_t octets[8] = {0};
    establish(true, false);
    stage->completion = NODE_MEDIA;
    ask(0, NBD_CMD_READ, 0, 512);
    hear_error_chunk(NBD_EIO, "the device could not read or write there");
    ask(0, NBD_CMD_TRIM, 0, 512);
    hear_error_chunk(NBD_EIO, "the device could not read or write there");
    ask(0, NBD_CMD_BLOCK_STATUS, 0, 512);
    hear_error_chunk(NBD_EINVAL, "no such context was chosen for this export");
    ask(NBD_CMD_FLAG_DF, NBD_CMD_READ, 0, 32 * MIB + 1);
    hear_error_chunk(NBD_EOVERFLOW, "it is too long");
    ask(0, NBD_CMD_READ, 0, 64 * MIB + 1);
    hear_error_chunk(NBD_EOVERFLOW, "it is too long");
    ask(NBD_CMD_FLAG_DF, NBD_CMD_WRITE, 0, sizeof octets);
    say_octets(stage, octets, sizeof octets);
    hear_error_chunk(NBD_EINVAL, "the command has no such flag here");
    stage->completion = NODE_OK;
    ask(0, NBD_CMD_TRIM, 0, 512);
    hear(stage, MARK "00000000" COOKIE);
}

static void extents_are(const struct node_extent *extents, unsigned count)
{
    memcpy(stage->extents, extents, count * sizeof *extents);
    stage->extent_count = count;
}

static void block_status_has_the_extents(void **state)
{
    static const struct node_extent extents[] = {
        {.len = 4096, .flags = 0},
        {.len = 8192, .flags = NODE_EXTENT_HOLE},
        {.len = 4096, .flags = NODE_EXTENT_ZERO},
        {.len = UINT32_MAX, .flags = NODE_EXTENT_HOLE | NODE_EXTENT_ZERO},
    };
    extents_are(extents, 4);
    establish(true, true);
    ask(0, NBD_CMD_BLOCK_STATUS, 4096, 65536);
    hear(stage, CHUNK "0001 0005" COOKIE "00000024 00000001 00001000 00000000 00002000 00000001 "
                      "00001000 00000002 fffff000 00000003");
    expect_asked(stage, "extents 4096+65536\n");
    ask(0, NBD_CMD_BLOCK_STATUS, 0, 4097); // the last one only may reach beyond
    hear(stage, CHUNK "0001 0005" COOKIE "00000014 00000001 00001000 00000000 00002000 00000001");
}

// One that ends where the request does, though the device knows more.
static void one_extent_is_no_longer_than_what_was_asked_for(void **state)
{
    static const struct node_extent extents[] = {{.len = 4096, .flags = NODE_EXTENT_HOLE},
                                                 {.len = 4096, .flags = 0}};
    extents_are(extents, 2);
    establish(true, true);
    ask(NBD_CMD_FLAG_REQ_ONE, NBD_CMD_BLOCK_STATUS, 0, 512);
    hear(stage, CHUNK "0001 0005" COOKIE "0000000c 00000001 00000200 00000001");
    ask(NBD_CMD_FLAG_REQ_ONE, NBD_CMD_BLOCK_STATUS, 0, 8192);
    hear(stage, CHUNK "0001 0005" COOKIE "0000000c 00000001 00001000 00000001");
}

// A descriptor has 32 bits: what is behind one that was cut off would stand in the wrong place.
static void nothing_is_told_behind_an_extent_that_is_cut_off(void **state)
{
    static const struct node_extent extents[] = {
        {.len = 0, .flags = 0}, // nor is one told of that has no octets
        {.len = 4096, .flags = 0},
        {.len = UINT64_C(1) << 33, .flags = NODE_EXTENT_ZERO},
        {.len = 4096, .flags = 0},
    };
    extents_are(extents, 4);
    establish(true, true);
    ask(0, NBD_CMD_BLOCK_STATUS, 4096, UINT32_MAX);
    hear(stage, CHUNK "0001 0005" COOKIE "00000014 00000001 00001000 00000000 fffff000 00000002");
    stage->extent_count = 1;
    ask(0, NBD_CMD_BLOCK_STATUS, 0, 512);
    hear_error_chunk(NBD_EIO, "a fault of the node");
}

// A choice that fails leaves none.
static void context_that_was_chosen_goes_with_the_next_choice(void **state)
{
    uint8_t reply[34 + 32 + 20];
    greet();
    option("00000008 00000000", ACK("00000008"));
    option(CHOOSE_CONTEXT, CHOSEN ACK("0000000a"));
    option("0000000a 0000000c" DISK "00000000", ACK("0000000a"));
    say(stage, OPTION "00000007 0000000a" DISK "0000");
    hear_octets(stage, reply, sizeof reply);
    ask(0, NBD_CMD_BLOCK_STATUS, 0, 512);
    hear_error_chunk(NBD_EINVAL, "no such context was chosen for this export");
}

static void client_that_is_slow_to_read_has_all_octets(void **state)
{
    enum { COUNT = 24 };
    fill(stage->volume, 2 * MIB);
    establish(true, false);
    for (uint64_t i = 0; i < COUNT; i++) {
        ask(0, NBD_CMD_READ, i * 512, MIB);
    }
    stage_settle(stage);
    for (uint64_t i = 0; i < COUNT; i++) {
        hear_data(1, i * 512, MIB);
    }
}

/* ---- in parts -------------------------------------------------------------------------------- */

static void long_reads_are_asked_for_in_parts(void **state)
{
    establish(true, false);
    fill(stage->volume + 33 * MIB, 4096);
    ask(0, NBD_CMD_READ, 512, 33 * MIB + 1024);
    hear_hole(0, 512, 32 * MIB);
    hear_hole(0, 32 * MIB + 512, MIB - 4 * KIB); // zeroes are looked for by 4 KiB of a part
    hear_data(1, 33 * MIB + 512 - 4 * KIB, 5 * KIB);
    expect_asked(stage, "read 512+33554432\nread 33554944+1049600\n");
    ask(0, NBD_CMD_CACHE, 0, 33 * MIB); // is advice
    hear_ok();
    expect_asked(stage, "read 0+33554432\n");
    ask(0, NBD_CMD_TRIM, 0, 64 * MIB + 512); // moves nothing
    hear_ok();
    expect_asked(stage, "trim 0+67109376\n");
}

// A simple reply is one run of octets, so nothing else is asked for or answered amid its parts.
static void long_read_with_a_simple_reply_has_the_connection_alone(void **state)
{
    static uint8_t octets[33 * MIB];
    establish(false, false);
    fill(stage->volume, 34 * MIB);
    stage->holds = true;
    ask(0, NBD_CMD_TRIM, 0, 512);
    ask(0, NBD_CMD_READ, 512, sizeof octets);
    ask(0, NBD_CMD_FLUSH, 0, 0);
    expect_asked(stage, "trim 0+512\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
    expect_asked(stage, "read 512+33554432\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
    hear_octets(stage, octets, 32 * MIB);
    expect_asked(stage, "read 33554944+1048576\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_octets(stage, octets + 32 * MIB, MIB);
    assert_memory_equal(octets, stage->volume + 512, sizeof octets);
    expect_asked(stage, "flush 0+0\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
}

// It is too late for an error then: the connection ends. Beyond the end it never gets so far.
static void simple_reply_that_cannot_go_on_ends_the_connection(void **state)
{
    static uint8_t octets[32 * MIB];
    establish(false, false);
    ask(0, NBD_CMD_READ, STAGE_LEN - 33 * MIB + 512, 33 * MIB);
    hear_error(NBD_EINVAL);
    expect_asked(stage, "");
    stage->holds = true;
    ask(0, NBD_CMD_READ, 0, 33 * MIB);
    expect_asked(stage, "read 0+33554432\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
    hear_octets(stage, octets, sizeof octets);
    expect_asked(stage, "read 33554432+1048576\n");
    stage->completion = NODE_MEDIA;
    stage_tell(stage, STAGE_RELEASE);
    hear_the_end(stage);
    assert_int_equal(counters().errors, 2);
}

static void long_writes_are_taken_in_parts(void **state)
{
    uint8_t *octets = malloc(33 * MIB);
    establish(false, false);
    fill(octets, 33 * MIB);
    ask(0, NBD_CMD_WRITE, 512, 33 * MIB);
    say_octets(stage, octets, 33 * MIB);
    hear_ok();
    assert_memory_equal(stage->volume + 512, octets, 33 * MIB);
    expect_asked(stage, "write 512+33554432\nwrite 33554944+1048576\n");
    stage->fails_late = true; // the first part is in vain: the rest is passed over
    stage->completion = NODE_MEDIA;
    ask(0, NBD_CMD_WRITE, 0, 33 * MIB);
    say_octets(stage, octets, 33 * MIB);
    hear_error(NBD_EIO);
    expect_asked(stage, "write 0+33554432\n");
    assert_int_equal(counters().requests, 2);
    free(octets);
}

/* ---- order and ends -------------------------------------------------------------------------- */

static void requests_are_answered_as_they_end(void **state)
{
    establish(false, false);
    stage->holds = true;
    ask(0, NBD_CMD_TRIM, 0, 512);
    ask(0, NBD_CMD_FLUSH, 0, 0);
    expect_asked(stage, "trim 0+512\nflush 0+0\n");
    hear_nothing(stage);
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
    hear_nothing(stage);
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
}

static void what_follows_a_write_waits_until_it_has_a_buffer(void **state)
{
    uint8_t octets[512] = {0};
    establish(false, false);
    stage->holds = true;
    ask(0, NBD_CMD_WRITE, 0, 512);
    say_octets(stage, octets, sizeof octets);
    ask(0, NBD_CMD_FLUSH, 0, 0);
    expect_asked(stage, "write 0+512\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
    expect_asked(stage, "flush 0+0\n");
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
}

static void only_so_many_requests_are_under_way(void **state)
{
    enum { MAX = 128 };
    establish(false, false);
    stage->holds = true;
    for (unsigned i = 0; i < MAX + 2; i++) {
        ask(0, NBD_CMD_FLUSH, 0, 0);
    }
    stage_settle(stage);
    assert_int_equal(stage->held_count, MAX);
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
    stage_settle(stage);
    assert_int_equal(stage->held_count, MAX);
    for (unsigned i = 0; i < MAX + 1; i++) {
        stage_tell(stage, STAGE_RELEASE);
        hear_ok();
        stage_settle(stage);
    }
    assert_int_equal(stage->held_count, 0);
}

static void what_is_no_request_ends_the_connection(void **state)
{
    establish(false, false);
    say(stage, "25609514 0000 0003 1122334455667788 0000000000000000 00000000");
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 1);
    assert_int_equal(stage->disconnects, 1);
}

static void goodbye_ends_the_connection(void **state)
{
    establish(false, false);
    ask(0, NBD_CMD_DISC, 0, 0);
    hear_the_end(stage);
    assert_int_equal(counters().malformed, 0);
    assert_int_equal(stage->disconnects, 1);
}

static void client_that_goes_is_let_go_when_its_requests_have_ended(void **state)
{
    establish(false, false);
    stage->holds = true;
    ask(0, NBD_CMD_READ, 0, 512);
    expect_asked(stage, "read 0+512\n");
    shutdown(stage->client, SHUT_RDWR);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 0);
    stage_tell(stage, STAGE_RELEASE);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 1);
    assert_int_equal(stage->outcome, NODE_TRANSFER);
}

static void write_of_a_client_that_goes_changes_nothing(void **state)
{
    static uint8_t octets[100000] = {1};
    establish(false, false);
    ask(0, NBD_CMD_WRITE, 0, sizeof octets);
    say_octets(stage, octets, sizeof octets - 1);
    expect_asked(stage, "write 0+100000\n");
    shutdown(stage->client, SHUT_RDWR);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 1);
    assert_int_equal(stage->outcome, NODE_TRANSFER);
    assert_int_equal(stage->volume[0], 0);
}

static void connection_whose_volume_goes_is_dropped(void **state)
{
    establish(false, false);
    stage_tell(stage, STAGE_DROP);
    hear_the_end(stage);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 1);
}

static void stopping_answers_what_has_come(void **state)
{
    establish(false, false);
    stage->holds = true;
    ask(0, NBD_CMD_FLUSH, 0, 0);
    expect_asked(stage, "flush 0+0\n");
    stage_tell(stage, STAGE_STOP);
    hear_nothing(stage);
    stage_tell(stage, STAGE_RELEASE);
    hear_ok();
    hear_the_end(stage);
    stage_settle(stage);
    assert_int_equal(stage->disconnects, 1);
}

static void stopping_ends_who_is_not_there_yet(void **state)
{
    greet();
    stage_settle(stage);
    stage_tell(stage, STAGE_STOP);
    hear_the_end(stage);
}

static void volumes_have_uris(void **state)
{
    char uri[256], wanted[256];
    snprintf(wanted, sizeof wanted, "nbd+unix:///disk?socket=%s", stage->path);
    assert_true(nbd_for_uma.uri(nbd, &stage->rows[0], 0, uri, sizeof uri));
    assert_string_equal(uri, wanted);
    assert_false(nbd_for_uma.uri(nbd, &stage->rows[0], 1, uri, sizeof uri));
    snprintf(wanted, sizeof wanted, "qemu-img info 'nbd+unix:///disk?socket=%s'", stage->path);
    nbd_for_uma.hint(nbd, &stage->rows[0], uri, sizeof uri);
    assert_string_equal(uri, wanted);
    assert_string_equal(nbd_for_uma.name, "nbd");
    assert_int_equal(counters().accepted, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(read_is_answered_with_the_octets),
        TEST(writes_of_every_length_arrive),
        TEST(short_write_asks_for_a_buffer_once_its_data_are_there),
        TEST(flush_of_what_has_no_cache_is_done_at_once),
        TEST(commands_carry_their_ranges_and_flags),
        TEST(flags_that_were_not_offered_are_refused),
        TEST(requests_that_cannot_be_are_refused_at_the_door),
        TEST(refused_write_is_answered_behind_its_data),
        TEST(every_completion_has_its_errno),
        TEST(zeroes_of_64_kib_and_all_that_was_read_are_holes),
        TEST(errors_are_chunks_with_words),
        TEST(block_status_has_the_extents),
        TEST(one_extent_is_no_longer_than_what_was_asked_for),
        TEST(nothing_is_told_behind_an_extent_that_is_cut_off),
        TEST(context_that_was_chosen_goes_with_the_next_choice),
        TEST(client_that_is_slow_to_read_has_all_octets),
        TEST(long_reads_are_asked_for_in_parts),
        TEST(long_read_with_a_simple_reply_has_the_connection_alone),
        TEST(simple_reply_that_cannot_go_on_ends_the_connection),
        TEST(long_writes_are_taken_in_parts),
        TEST(requests_are_answered_as_they_end),
        TEST(what_follows_a_write_waits_until_it_has_a_buffer),
        TEST(only_so_many_requests_are_under_way),
        TEST(what_is_no_request_ends_the_connection),
        TEST(goodbye_ends_the_connection),
        TEST(client_that_goes_is_let_go_when_its_requests_have_ended),
        TEST(write_of_a_client_that_goes_changes_nothing),
        TEST(connection_whose_volume_goes_is_dropped),
        TEST(stopping_answers_what_has_come),
        TEST(stopping_ends_who_is_not_there_yet),
        TEST(volumes_have_uris),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
