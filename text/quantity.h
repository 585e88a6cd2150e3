// Numbers, sizes and durations as people write and read them. A parser takes the whole text: digits
// and a unit, no blanks, no signs; false leaves `ret` alone.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

enum { TEXT_SIZE_MAX = 24, TEXT_DURATION_MAX = 24 };

// "4096", within [low, high].
bool text_number_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret);

// "4096", "64K", "1M", "1G", "1T", "1P": powers of 1024, at most INT64_MAX.
bool text_size_parse(const char *text, uint64_t *ret);

// "16M", "10G": whole units where the size is a multiple, else as many digits as tell something.
const char *text_size_format(uint64_t size, char ret[TEXT_SIZE_MAX]);
// "64K", "16000": whole units where the size is a multiple, else every digit.
const char *text_size_format_exactly(uint64_t size, char ret[TEXT_SIZE_MAX]);

// "10ms", "2s", "5us", "100ns"; a number alone: seconds.
bool text_duration_parse(const char *text, duration_ns *ret);

// "812ns", "4.48us", "41.9us", "640ms", "3600s": three digits that tell something, cut off.
const char *text_duration_format(duration_ns duration, char ret[TEXT_DURATION_MAX]);
