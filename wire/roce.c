#include "wire/roce.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* ---- opcodes --------------------------------------------------------------------------------- */

// A row of the table: what the packet's place in its message makes of it, then what is its own.
#define FIRST    .is_known = true, .payload = ROCE_PAYLOAD_PMTU, .begins = true
#define MIDDLE   .is_known = true, .payload = ROCE_PAYLOAD_PMTU
#define LAST     .is_known = true, .payload = ROCE_PAYLOAD_1_TO_PMTU, .ends = true
#define ONLY     .is_known = true, .payload = ROCE_PAYLOAD_UP_TO_PMTU, .begins = true, .ends = true
#define BARE     .is_known = true, .payload = ROCE_PAYLOAD_NONE, .begins = true, .ends = true
#define SEND     .kind = ROCE_KIND_SEND
#define WRITE    .kind = ROCE_KIND_WRITE
#define READ     .kind = ROCE_KIND_READ
#define ATOMIC   .kind = ROCE_KIND_ATOMIC
#define CLAIMS   .claims_receive = true
#define RESPONSE .is_response = true

#define HEAD(flags_, len_) .headers = (flags_), .header_len = BTH_LEN + (len_)
#define PLAIN              HEAD(0, 0)
#define IMMDT              HEAD(ROCE_HAS_IMMDT, IMMDT_LEN)
#define IETH               HEAD(ROCE_HAS_IETH, IETH_LEN)
#define RETH               HEAD(ROCE_HAS_RETH, RETH_LEN)
#define RETH_IMMDT         HEAD(ROCE_HAS_RETH | ROCE_HAS_IMMDT, RETH_LEN + IMMDT_LEN)
#define AETH               HEAD(ROCE_HAS_AETH, AETH_LEN)
#define AETH_ATOMICACKETH  HEAD(ROCE_HAS_AETH | ROCE_HAS_ATOMICACKETH, AETH_LEN + ATOMICACKETH_LEN)
#define ATOMICETH          HEAD(ROCE_HAS_ATOMICETH, ATOMICETH_LEN)
#define DETH               HEAD(ROCE_HAS_DETH, DETH_LEN)
#define DETH_IMMDT         HEAD(ROCE_HAS_DETH | ROCE_HAS_IMMDT, DETH_LEN + IMMDT_LEN)
#define CNP                HEAD(ROCE_HAS_CNP, CNP_RESERVED_LEN)

#define RC(operation_) [ROCE_RC | ROCE_##operation_]
#define UC(operation_) [ROCE_UC | ROCE_##operation_]
#define UD(operation_) [ROCE_UD | ROCE_##operation_]

static const struct roce_opcode_facts facts_of_opcode[256] = {
    RC(SEND_FIRST) = {"RC SEND FIRST", FIRST, SEND, PLAIN, CLAIMS},
    RC(SEND_MIDDLE) = {"RC SEND MIDDLE", MIDDLE, SEND, PLAIN},
    RC(SEND_LAST) = {"RC SEND LAST", LAST, SEND, PLAIN},
    RC(SEND_LAST_IMM) = {"RC SEND LAST with immediate", LAST, SEND, IMMDT},
    RC(SEND_ONLY) = {"RC SEND ONLY", ONLY, SEND, PLAIN, CLAIMS},
    RC(SEND_ONLY_IMM) = {"RC SEND ONLY with immediate", ONLY, SEND, IMMDT, CLAIMS},
    RC(SEND_LAST_INV) = {"RC SEND LAST with invalidate", LAST, SEND, IETH},
    RC(SEND_ONLY_INV) = {"RC SEND ONLY with invalidate", ONLY, SEND, IETH, CLAIMS},
    RC(WRITE_FIRST) = {"RC WRITE FIRST", FIRST, WRITE, RETH},
    RC(WRITE_MIDDLE) = {"RC WRITE MIDDLE", MIDDLE, WRITE, PLAIN},
    RC(WRITE_LAST) = {"RC WRITE LAST", LAST, WRITE, PLAIN},
    RC(WRITE_LAST_IMM) = {"RC WRITE LAST with immediate", LAST, WRITE, IMMDT, CLAIMS},
    RC(WRITE_ONLY) = {"RC WRITE ONLY", ONLY, WRITE, RETH},
    RC(WRITE_ONLY_IMM) = {"RC WRITE ONLY with immediate", ONLY, WRITE, RETH_IMMDT, CLAIMS},
    RC(READ_REQUEST) = {"RC READ REQUEST", BARE, READ, RETH},
    RC(READ_RESPONSE_FIRST) = {"RC READ RESPONSE FIRST", FIRST, READ, AETH, RESPONSE},
    RC(READ_RESPONSE_MIDDLE) = {"RC READ RESPONSE MIDDLE", MIDDLE, READ, PLAIN, RESPONSE},
    RC(READ_RESPONSE_LAST) = {"RC READ RESPONSE LAST", LAST, READ, AETH, RESPONSE},
    RC(READ_RESPONSE_ONLY) = {"RC READ RESPONSE ONLY", ONLY, READ, AETH, RESPONSE},
    RC(ACKNOWLEDGE) = {"RC ACKNOWLEDGE", BARE, .kind = ROCE_KIND_ACK, AETH, RESPONSE},
    RC(ATOMIC_ACKNOWLEDGE) = {"RC ATOMIC ACKNOWLEDGE", BARE, ATOMIC, AETH_ATOMICACKETH, RESPONSE},
    RC(CMP_SWAP) = {"RC CMP SWAP", BARE, ATOMIC, ATOMICETH},
    RC(FETCH_ADD) = {"RC FETCH ADD", BARE, ATOMIC, ATOMICETH},

    UC(SEND_FIRST) = {"UC SEND FIRST", FIRST, SEND, PLAIN, CLAIMS},
    UC(SEND_MIDDLE) = {"UC SEND MIDDLE", MIDDLE, SEND, PLAIN},
    UC(SEND_LAST) = {"UC SEND LAST", LAST, SEND, PLAIN},
    UC(SEND_LAST_IMM) = {"UC SEND LAST with immediate", LAST, SEND, IMMDT},
    UC(SEND_ONLY) = {"UC SEND ONLY", ONLY, SEND, PLAIN, CLAIMS},
    UC(SEND_ONLY_IMM) = {"UC SEND ONLY with immediate", ONLY, SEND, IMMDT, CLAIMS},
    UC(WRITE_FIRST) = {"UC WRITE FIRST", FIRST, WRITE, RETH},
    UC(WRITE_MIDDLE) = {"UC WRITE MIDDLE", MIDDLE, WRITE, PLAIN},
    UC(WRITE_LAST) = {"UC WRITE LAST", LAST, WRITE, PLAIN},
    UC(WRITE_LAST_IMM) = {"UC WRITE LAST with immediate", LAST, WRITE, IMMDT, CLAIMS},
    UC(WRITE_ONLY) = {"UC WRITE ONLY", ONLY, WRITE, RETH},
    UC(WRITE_ONLY_IMM) = {"UC WRITE ONLY with immediate", ONLY, WRITE, RETH_IMMDT, CLAIMS},

    UD(SEND_ONLY) = {"UD SEND ONLY", ONLY, SEND, DETH, CLAIMS},
    UD(SEND_ONLY_IMM) = {"UD SEND ONLY with immediate", ONLY, SEND, DETH_IMMDT, CLAIMS},

    [ROCE_CNP] = {"CNP", BARE, .kind = ROCE_KIND_CNP, CNP, RESPONSE},
};

const struct roce_opcode_facts *roce_opcode_facts(uint8_t opcode)
{
    static const struct roce_opcode_facts reserved = {"reserved"};
    const struct roce_opcode_facts *facts = &facts_of_opcode[opcode];
    return facts->is_known ? facts : &reserved;
}

bool roce_payload_fits(const struct roce_opcode_facts *facts, size_t len, uint32_t pmtu)
{
    switch (facts->payload) {
    case ROCE_PAYLOAD_NONE:
        return len == 0;
    case ROCE_PAYLOAD_PMTU:
        return len == pmtu;
    case ROCE_PAYLOAD_1_TO_PMTU:
        return len >= 1 && len <= pmtu;
    case ROCE_PAYLOAD_UP_TO_PMTU:
        return len <= pmtu;
    }
    return false;
}

const char *roce_parse_verdict_name(enum roce_parse_verdict verdict)
{
    static const char *const names[ROCE_PARSE_VERDICT_COUNT] = {
        [ROCE_PARSE_OK] = "ok",
        [ROCE_PARSE_TOO_SHORT] = "packet ends inside a header",
        [ROCE_PARSE_TVER] = "unknown transport header version",
        [ROCE_PARSE_OPCODE] = "reserved opcode",
        [ROCE_PARSE_PAD] = "more pad than payload",
        [ROCE_PARSE_ALIGNMENT] = "payload and pad are no multiple of four",
    };
    return names[verdict];
}

/* ---- packets --------------------------------------------------------------------------------- */

// Reads the headers behind the BTH; `rest` is at least as long as the opcode's are together.
static struct span parse_headers(struct span rest, struct roce_packet *p)
{
    unsigned headers = p->facts->headers;
    if (headers & ROCE_HAS_DETH) {
        deth_parse(rest, &p->deth);
        rest = span_skip(rest, DETH_LEN);
    }
    if (headers & ROCE_HAS_RETH) {
        reth_parse(rest, &p->reth);
        rest = span_skip(rest, RETH_LEN);
    }
    if (headers & ROCE_HAS_ATOMICETH) {
        atomiceth_parse(rest, &p->atomiceth);
        rest = span_skip(rest, ATOMICETH_LEN);
    }
    if (headers & ROCE_HAS_AETH) {
        aeth_parse(rest, &p->aeth);
        rest = span_skip(rest, AETH_LEN);
    }
    if (headers & ROCE_HAS_ATOMICACKETH) {
        atomicacketh_parse(rest, &p->atomicacketh);
        rest = span_skip(rest, ATOMICACKETH_LEN);
    }
    if (headers & ROCE_HAS_IMMDT) {
        immdt_parse(rest, &p->immdt);
        rest = span_skip(rest, IMMDT_LEN);
    }
    if (headers & ROCE_HAS_IETH) {
        ieth_parse(rest, &p->ieth);
        rest = span_skip(rest, IETH_LEN);
    }
    return headers & ROCE_HAS_CNP ? span_skip(rest, CNP_RESERVED_LEN) : rest;
}

enum roce_parse_verdict roce_packet_parse(struct span octets, struct roce_packet *ret)
{
    enum roce_parse_verdict verdict = bth_parse(octets, &ret->bth);
    if (verdict != ROCE_PARSE_OK) {
        return verdict;
    }
    ret->facts = roce_opcode_facts(ret->bth.opcode);
    ret->payload = span_of(NULL, 0);
    if (!ret->facts->is_known) {
        return ROCE_PARSE_OPCODE;
    }
    if (octets.len < ret->facts->header_len) {
        return ROCE_PARSE_TOO_SHORT;
    }
    struct span rest = parse_headers(span_skip(octets, BTH_LEN), ret);
    if (rest.len < ret->bth.pad_len) {
        return ROCE_PARSE_PAD;
    }
    if (rest.len % 4 != 0) {
        return ROCE_PARSE_ALIGNMENT;
    }
    ret->payload = span_first(rest, rest.len - ret->bth.pad_len);
    return ROCE_PARSE_OK;
}

size_t roce_head_emit(const struct roce_packet *p, uint8_t *buf)
{
    const struct roce_opcode_facts *facts = roce_opcode_facts(p->bth.opcode);
    CHECK(facts->is_known);
    unsigned headers = facts->headers;
    uint8_t *at = buf + bth_emit(&p->bth, buf);
    at += headers & ROCE_HAS_DETH ? deth_emit(&p->deth, at) : 0;
    at += headers & ROCE_HAS_RETH ? reth_emit(&p->reth, at) : 0;
    at += headers & ROCE_HAS_ATOMICETH ? atomiceth_emit(&p->atomiceth, at) : 0;
    at += headers & ROCE_HAS_AETH ? aeth_emit(&p->aeth, at) : 0;
    at += headers & ROCE_HAS_ATOMICACKETH ? atomicacketh_emit(&p->atomicacketh, at) : 0;
    at += headers & ROCE_HAS_IMMDT ? immdt_emit(&p->immdt, at) : 0;
    at += headers & ROCE_HAS_IETH ? ieth_emit(&p->ieth, at) : 0;
    if (headers & ROCE_HAS_CNP) {
        memset(at, 0, CNP_RESERVED_LEN);
        at += CNP_RESERVED_LEN;
    }
    return (size_t)(at - buf);
}

/* ---- text ------------------------------------------------------------------------------------ */

// Puts words behind what stands in `buf` at `*at`, as far as there is room.
__attribute__((format(printf, 4, 5))) static void add(char *buf, size_t len, size_t *at,
                                                      const char *format, ...)
{
    va_list words;
    va_start(words, format);
    int wanted = vsnprintf(buf + *at, len - *at, format, words);
    va_end(words);
    size_t left = len - *at - 1;
    *at += (size_t)wanted < left ? (size_t)wanted : left;
}

const char *roce_packet_format(const struct roce_packet *p, char *buf, size_t len)
{
    unsigned headers = p->facts->headers;
    char part[120];
    size_t at = 0;
    add(buf, len, &at, "%s %s", p->facts->name, bth_format(&p->bth, part, sizeof part));
    if (headers & ROCE_HAS_DETH) {
        add(buf, len, &at, " %s", deth_format(&p->deth, part, sizeof part));
    }
    if (headers & ROCE_HAS_RETH) {
        add(buf, len, &at, " %s", reth_format(&p->reth, part, sizeof part));
    }
    if (headers & ROCE_HAS_ATOMICETH) {
        add(buf, len, &at, " %s", atomiceth_format(&p->atomiceth, part, sizeof part));
    }
    if (headers & ROCE_HAS_AETH) {
        add(buf, len, &at, " %s", aeth_format(&p->aeth, part, sizeof part));
    }
    if (headers & ROCE_HAS_ATOMICACKETH) {
        add(buf, len, &at, " %s", atomicacketh_format(&p->atomicacketh, part, sizeof part));
    }
    if (headers & ROCE_HAS_IMMDT) {
        add(buf, len, &at, " %s", immdt_format(&p->immdt, part, sizeof part));
    }
    if (headers & ROCE_HAS_IETH) {
        add(buf, len, &at, " %s", ieth_format(&p->ieth, part, sizeof part));
    }
    add(buf, len, &at, " payload=%zu", p->payload.len);
    return buf;
}
