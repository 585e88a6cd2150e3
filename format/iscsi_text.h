// The data of Login and Text PDUs: pairs of KEY=VALUE, each with a zero behind it (RFC 7143 section
// 6.1).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ISCSI_TEXT_MAX = 16 << 10, // octets of a whole request, of which a PDU may have a part
    ISCSI_KEY_MAX = 64,        // with the terminator
};

// Pairs that have come. The texts are as long as they last.
struct iscsi_text {
    const char *at;
    size_t left;
};

struct iscsi_pair {
    char key[ISCSI_KEY_MAX];
    const char *value; // terminated
};

enum iscsi_text_verdict {
    ISCSI_TEXT_PAIR,
    ISCSI_TEXT_END,
    ISCSI_TEXT_BROKEN, // no zero at its end, no equals sign, or a key that is none
};

enum iscsi_text_verdict iscsi_text_next(struct iscsi_text *text, struct iscsi_pair *ret);

// Pairs that are to go.
struct iscsi_text_out {
    char *ptr;
    size_t len, capacity;
    bool is_full; // something did not fit
};

__attribute__((format(printf, 3, 4))) void iscsi_text_put(struct iscsi_text_out *out,
                                                          const char *key, const char *format, ...);

// Is `word` one of the values in a list with commas?
bool iscsi_list_has(const char *list, const char *word);
// Decimal, or hexadecimal with 0x, of 32 bits. False: it is neither.
bool iscsi_number_parse(const char *text, uint32_t *ret);
