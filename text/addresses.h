// The addresses that a service was told to listen at, in the order in which they were given.
#pragma once

enum addresses_limits { ADDRESSES_COUNT_MAX = 8, ADDRESS_MAX = 128 };

struct addresses {
    unsigned count;
    char of[ADDRESSES_COUNT_MAX][ADDRESS_MAX];
};

enum addresses_verdict {
    ADDRESSES_OK,
    ADDRESSES_TOO_LONG, // the text
    ADDRESSES_TOO_MANY,
    ADDRESSES_TWICE, // it is there already
};

// Adds one, or leaves them as they are and says why. Whether it can be listened at is not asked.
enum addresses_verdict addresses_add(struct addresses *addresses, const char *text);

// "the address is too long" ...
const char *addresses_verdict_name(enum addresses_verdict verdict);
