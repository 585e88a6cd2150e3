#include "draw/capture.h"

#include <string.h>

enum {
    PCAP_HEAD_LEN = 24,
    PCAP_OFF_MAJOR = 4,
    PCAP_OFF_LINK_TYPE = 20,
    PCAP_RECORD_LEN = 16,
    PCAP_MAJOR = 2,
    LINK_TYPE_MASK = 0xffff, // the rest of pcap's word tells of frame check sequences

    BLOCK_HEAD_LEN = 8,
    BLOCK_MIN_LEN = 12,
    SECTION_MIN_LEN = 28,
    SECTION_OFF_ORDER = 8,
    SECTION_OFF_MAJOR = 12,
    INTERFACE_MIN_LEN = 20,
    ENHANCED_MIN_LEN = 32,
    SIMPLE_MIN_LEN = 16,
    RECORD_LEN_MAX = 512, // of a longer block it is clear that it is no record
};

#define PCAP_MAGIC_US      0xa1b2c3d4U
#define PCAP_MAGIC_NS      0xa1b23c4dU
#define BLOCK_SECTION      0x0a0d0d0aU // the same in both octet orders
#define BLOCK_INTERFACE    1U
#define BLOCK_PACKET       2U // of old files
#define BLOCK_SIMPLE       3U
#define BLOCK_ENHANCED     6U
#define SECTION_ORDER      0x1a2b3c4dU
#define OPTION_RESOLUTION  9U
#define OPTION_TIME_OFFSET 14U

const char *capture_verdict_name(enum capture_verdict verdict)
{
    static const char *const names[CAPTURE_VERDICT_COUNT] = {
        [CAPTURE_PACKET] = "a packet",
        [CAPTURE_RECORD] = "a record",
        [CAPTURE_NOTHING] = "no packet",
        [CAPTURE_MORE] = "the file ends inside a packet",
        [CAPTURE_FOREIGN] = "it is neither pcap nor pcapng",
        [CAPTURE_VERSION] = "it is of an unknown version of its format",
        [CAPTURE_TOO_LONG] = "the packet says that it has more than a mebibyte",
        [CAPTURE_BLOCK] = "a block has lengths that do not agree",
        [CAPTURE_INTERFACE] = "a packet is of an interface that was not described",
        [CAPTURE_INTERFACES] = "it has more interfaces than weft keeps",
    };
    return names[verdict];
}

const char *capture_record_fault(const struct capture_record *record)
{
    return record->verdict == JOURNAL_PARSE_OK ? NULL : journal_parse_verdict_text(record->verdict);
}

/* ---- numbers in either order ----------------------------------------------------------------- */

static uint16_t number16(const struct capture *c, const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return c->is_swapped ? __builtin_bswap16(v) : v;
}

static uint32_t number32(const struct capture *c, const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return c->is_swapped ? __builtin_bswap32(v) : v;
}

static uint64_t number64(const struct capture *c, const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return c->is_swapped ? __builtin_bswap64(v) : v;
}

static enum capture_verdict need(struct capture *c, size_t len)
{
    c->needed = len;
    return CAPTURE_MORE;
}

/* ---- time ------------------------------------------------------------------------------------ */

// Ticks of the interface as an instant. Times beyond the year 2554 wrap, and harm nobody.
static instant_ns instant_of(const struct capture_interface *i, uint64_t ticks)
{
    uint64_t seconds, ns;
    if (i->ticks != 0) {
        seconds = ticks / i->ticks;
        ns = (uint64_t)((unsigned __int128)(ticks % i->ticks) * NS_PER_S / i->ticks);
    } else {
        unsigned __int128 part = ticks & ((UINT64_C(1) << i->ticks_shift) - 1);
        seconds = ticks >> i->ticks_shift;
        ns = (uint64_t)(part * NS_PER_S >> i->ticks_shift);
    }
    return (seconds + i->offset_second) * NS_PER_S + ns;
}

// if_tsresol: a power of 10, or with the top bit of 2. False: finer than 64 bits hold.
static bool resolution_set(struct capture_interface *i, uint8_t resolution)
{
    uint8_t exponent = resolution & 0x7f;
    if ((resolution & 0x80) != 0) {
        i->ticks = 0;
        i->ticks_shift = exponent;
        return exponent < 64;
    }
    i->ticks = 1;
    for (uint8_t n = 0; n < exponent; n++) {
        if (__builtin_mul_overflow(i->ticks, 10, &i->ticks)) {
            return false;
        }
    }
    return true;
}

/* ---- pcap ------------------------------------------------------------------------------------ */

// False: these four octets do not begin a pcap file.
static bool pcap_magic(struct capture *c, const uint8_t *p)
{
    uint32_t magic = number32(c, p);
    uint32_t turned = __builtin_bswap32(magic);
    c->is_swapped = turned == PCAP_MAGIC_US || turned == PCAP_MAGIC_NS;
    magic = c->is_swapped ? turned : magic;
    c->interface[0].ticks = magic == PCAP_MAGIC_NS ? NS_PER_S : NS_PER_S / 1000;
    return magic == PCAP_MAGIC_US || magic == PCAP_MAGIC_NS;
}

static enum capture_verdict pcap_begin(struct capture *c, struct span octets, size_t *ret_used)
{
    if (octets.len < PCAP_HEAD_LEN) {
        return need(c, PCAP_HEAD_LEN);
    }
    if (number16(c, octets.ptr + PCAP_OFF_MAJOR) != PCAP_MAJOR) {
        return CAPTURE_VERSION;
    }
    c->format = CAPTURE_PCAP;
    c->interface_count = 1;
    c->interface[0].link_type = number32(c, octets.ptr + PCAP_OFF_LINK_TYPE) & LINK_TYPE_MASK;
    *ret_used = PCAP_HEAD_LEN;
    return CAPTURE_NOTHING;
}

static enum capture_verdict pcap_packet(struct capture *c, struct span octets, size_t *ret_used,
                                        struct capture_packet *ret)
{
    if (octets.len < PCAP_RECORD_LEN) {
        return need(c, PCAP_RECORD_LEN);
    }
    uint32_t captured = number32(c, octets.ptr + 8);
    uint32_t len = number32(c, octets.ptr + 12);
    if (captured > CAPTURE_PACKET_MAX || len > CAPTURE_PACKET_MAX) {
        return CAPTURE_TOO_LONG;
    }
    if (octets.len - PCAP_RECORD_LEN < captured) {
        return need(c, PCAP_RECORD_LEN + captured);
    }
    uint64_t ticks = number32(c, octets.ptr) * c->interface[0].ticks + number32(c, octets.ptr + 4);
    *ret = (struct capture_packet){
        .number = ++c->packet_count,
        .at = instant_of(&c->interface[0], ticks),
        .link_type = c->interface[0].link_type,
        .octets = span_of(octets.ptr + PCAP_RECORD_LEN, captured),
        .len = len > captured ? len : captured,
    };
    *ret_used = PCAP_RECORD_LEN + captured;
    return CAPTURE_PACKET;
}

/* ---- pcapng ---------------------------------------------------------------------------------- */

static enum capture_verdict section_begin(struct capture *c, struct span octets, size_t *ret_used)
{
    if (octets.len < SECTION_MIN_LEN) {
        return need(c, SECTION_MIN_LEN);
    }
    c->is_swapped = false;
    uint32_t order = number32(c, octets.ptr + SECTION_OFF_ORDER);
    c->is_swapped = order == __builtin_bswap32(SECTION_ORDER);
    if (!c->is_swapped && order != SECTION_ORDER) {
        return c->format == CAPTURE_UNKNOWN ? CAPTURE_FOREIGN : CAPTURE_BLOCK;
    }
    if (number16(c, octets.ptr + SECTION_OFF_MAJOR) != 1) {
        return CAPTURE_VERSION;
    }
    uint32_t len = number32(c, octets.ptr + 4);
    if (len < SECTION_MIN_LEN || len % 4 != 0) {
        return CAPTURE_BLOCK;
    }
    c->format = CAPTURE_PCAPNG;
    c->interface_count = 0;
    *ret_used = SECTION_MIN_LEN;
    c->skip = len - SECTION_MIN_LEN;
    return CAPTURE_NOTHING;
}

// The options of an interface that change how times are read. False: they do not fit their block.
static bool interface_options(const struct capture *c, struct span options,
                              struct capture_interface *i)
{
    while (options.len >= 4) {
        uint16_t code = number16(c, options.ptr), len = number16(c, options.ptr + 2);
        options = span_skip(options, 4);
        size_t padded = ((size_t)len + 3) & ~(size_t)3;
        if (code == 0) {
            return true;
        }
        if (padded > options.len) {
            return false;
        }
        if (code == OPTION_RESOLUTION && len == 1 && !resolution_set(i, options.ptr[0])) {
            return false;
        }
        if (code == OPTION_TIME_OFFSET && len == 8) {
            i->offset_second = number64(c, options.ptr);
        }
        options = span_skip(options, padded);
    }
    return true;
}

static enum capture_verdict interface_add(struct capture *c, struct span block)
{
    if (block.len < INTERFACE_MIN_LEN) {
        return CAPTURE_BLOCK;
    }
    if (c->interface_count == CAPTURE_INTERFACE_MAX) {
        return CAPTURE_INTERFACES;
    }
    struct capture_interface *i = &c->interface[c->interface_count++];
    *i = (struct capture_interface){.link_type = number16(c, block.ptr + 8),
                                    .snap_len = number32(c, block.ptr + 12),
                                    .ticks = NS_PER_S / 1000};
    struct span options = span_of(block.ptr + 16, block.len - INTERFACE_MIN_LEN);
    return interface_options(c, options, i) ? CAPTURE_NOTHING : CAPTURE_BLOCK;
}

static enum capture_verdict packet_make(struct capture *c, const struct capture_interface *i,
                                        uint64_t ticks, struct span octets, uint32_t len,
                                        struct capture_packet *ret)
{
    if (octets.len > CAPTURE_PACKET_MAX || len > CAPTURE_PACKET_MAX) {
        return CAPTURE_TOO_LONG;
    }
    *ret = (struct capture_packet){
        .number = ++c->packet_count,
        .at = instant_of(i, ticks),
        .link_type = i->link_type,
        .octets = octets,
        .len = len > octets.len ? len : (uint32_t)octets.len,
    };
    return CAPTURE_PACKET;
}

// Enhanced, and what stood in its place in old files, whose interface has 16 bits.
static enum capture_verdict enhanced_take(struct capture *c, struct span block, bool is_old,
                                          struct capture_packet *ret)
{
    if (block.len < ENHANCED_MIN_LEN) {
        return CAPTURE_BLOCK;
    }
    uint32_t index = is_old ? number16(c, block.ptr + 8) : number32(c, block.ptr + 8);
    uint64_t ticks = (uint64_t)number32(c, block.ptr + 12) << 32 | number32(c, block.ptr + 16);
    uint32_t captured = number32(c, block.ptr + 20);
    if (index >= c->interface_count) {
        return CAPTURE_INTERFACE;
    }
    if (captured > block.len - ENHANCED_MIN_LEN) {
        return CAPTURE_BLOCK;
    }
    return packet_make(c, &c->interface[index], ticks, span_of(block.ptr + 28, captured),
                       number32(c, block.ptr + 24), ret);
}

static enum capture_verdict simple_take(struct capture *c, struct span block,
                                        struct capture_packet *ret)
{
    if (block.len < SIMPLE_MIN_LEN) {
        return CAPTURE_BLOCK;
    }
    if (c->interface_count == 0) {
        return CAPTURE_INTERFACE;
    }
    uint32_t len = number32(c, block.ptr + 8);
    size_t captured = block.len - SIMPLE_MIN_LEN;
    uint32_t snap_len = c->interface[0].snap_len;
    captured = len < captured ? len : captured;
    captured = snap_len != 0 && snap_len < captured ? snap_len : captured;
    return packet_make(c, &c->interface[0], 0, span_of(block.ptr + 12, captured), len, ret);
}

// A record that cannot be read counts all the same, so that its number can be told.
static enum capture_verdict record_take(struct capture *c, struct span block)
{
    struct span body = span_of(block.ptr + BLOCK_HEAD_LEN, block.len - BLOCK_MIN_LEN);
    struct capture_record *r = &c->record;
    *r = (struct capture_record){0};
    r->verdict = journal_parse(body, &r->what, &r->at);
    if (r->verdict == JOURNAL_PARSE_FOREIGN) {
        return CAPTURE_NOTHING;
    }
    r->number = ++c->record_count;
    return CAPTURE_RECORD;
}

static bool block_matters(uint32_t type, uint32_t len)
{
    return (type == JOURNAL_BLOCK_TYPE && len <= RECORD_LEN_MAX) || type == BLOCK_INTERFACE ||
           type == BLOCK_PACKET || type == BLOCK_SIMPLE || type == BLOCK_ENHANCED;
}

static enum capture_verdict block_take(struct capture *c, uint32_t type, struct span block,
                                       struct capture_packet *ret)
{
    if (number32(c, block.ptr + block.len - 4) != block.len) {
        return CAPTURE_BLOCK;
    }
    switch (type) {
    case BLOCK_INTERFACE:
        return interface_add(c, block);
    case BLOCK_SIMPLE:
        return simple_take(c, block, ret);
    case JOURNAL_BLOCK_TYPE:
        return record_take(c, block);
    default:
        return enhanced_take(c, block, type == BLOCK_PACKET, ret);
    }
}

static enum capture_verdict block_next(struct capture *c, struct span octets, size_t *ret_used,
                                       struct capture_packet *ret)
{
    if (octets.len < BLOCK_HEAD_LEN) {
        return need(c, BLOCK_HEAD_LEN);
    }
    uint32_t type = number32(c, octets.ptr), len = number32(c, octets.ptr + 4);
    if (type == BLOCK_SECTION) {
        return section_begin(c, octets, ret_used);
    }
    if (len < BLOCK_MIN_LEN || len % 4 != 0) {
        return CAPTURE_BLOCK;
    }
    if (!block_matters(type, len)) {
        *ret_used = BLOCK_HEAD_LEN;
        c->skip = len - BLOCK_HEAD_LEN;
        return CAPTURE_NOTHING;
    }
    if (len > CAPTURE_NEED_MAX) {
        return CAPTURE_TOO_LONG;
    }
    if (octets.len < len) {
        c->is_in_record = type == JOURNAL_BLOCK_TYPE;
        return need(c, len);
    }
    *ret_used = len;
    return block_take(c, type, span_first(octets, len), ret);
}

/* ---- either ---------------------------------------------------------------------------------- */

static enum capture_verdict format_find(struct capture *c, struct span octets, size_t *ret_used)
{
    if (octets.len < 4) {
        return need(c, 4);
    }
    if (number32(c, octets.ptr) == BLOCK_SECTION) {
        return section_begin(c, octets, ret_used);
    }
    return pcap_magic(c, octets.ptr) ? pcap_begin(c, octets, ret_used) : CAPTURE_FOREIGN;
}

enum capture_verdict capture_next(struct capture *c, struct span octets, size_t *ret_used,
                                  struct capture_packet *ret_packet)
{
    *ret_used = 0;
    c->is_in_record = false;
    if (c->skip > 0) {
        *ret_used = c->skip < octets.len ? (size_t)c->skip : octets.len;
        c->skip -= *ret_used;
        return *ret_used > 0 ? CAPTURE_NOTHING : need(c, 1);
    }
    switch (c->format) {
    case CAPTURE_UNKNOWN:
        c->is_swapped = false;
        return format_find(c, octets, ret_used);
    case CAPTURE_PCAP:
        return pcap_packet(c, octets, ret_used, ret_packet);
    case CAPTURE_PCAPNG:
        break;
    }
    return block_next(c, octets, ret_used, ret_packet);
}
