// What is answered about a RoCE packet, and about each of its headers (wire/bth.h and those that
// extend it, wire/roce.h).
#pragma once

enum roce_parse_verdict {
    ROCE_PARSE_OK,
    ROCE_PARSE_TOO_SHORT, // ends inside a header
    ROCE_PARSE_TVER,      // of a transport header version other than 0
    ROCE_PARSE_OPCODE,    // an opcode that is reserved, or not implemented
    ROCE_PARSE_PAD,       // more pad than there are octets behind the headers
    ROCE_PARSE_ALIGNMENT, // payload and pad are no multiple of four
    ROCE_PARSE_VERDICT_COUNT,
};

const char *roce_parse_verdict_name(enum roce_parse_verdict verdict);
