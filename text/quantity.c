#include "text/quantity.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// What follows the digits that `text` begins with; NULL: none, or more than 64 bits hold.
static const char *digits_take(const char *text, uint64_t *ret)
{
    const char *at = text;
    uint64_t number = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(number, 10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*at - '0'), &number)) {
            return NULL;
        }
    }
    *ret = number;
    return at == text ? NULL : at;
}

bool text_number_parse(const char *text, uint64_t low, uint64_t high, uint64_t *ret)
{
    uint64_t number;
    const char *end = digits_take(text, &number);
    if (end == NULL || *end != '\0' || number < low || number > high) {
        return false;
    }
    *ret = number;
    return true;
}

struct unit_of_measure {
    const char *suffix;
    uint64_t worth;
};

// A number, then a unit of the table, which an entry without suffix ends.
static bool measure(const char *text, const struct unit_of_measure *units, uint64_t most,
                    uint64_t *ret)
{
    uint64_t number;
    const char *end = digits_take(text, &number);
    if (end == NULL) {
        return false;
    }
    while (units->suffix != NULL && strcmp(end, units->suffix) != 0) {
        units++;
    }
    if (units->suffix == NULL || __builtin_mul_overflow(number, units->worth, &number) ||
        number > most) {
        return false;
    }
    *ret = number;
    return true;
}

bool text_size_parse(const char *text, uint64_t *ret)
{
    static const struct unit_of_measure units[] = {
        {"", 1},           {"K", 1ULL << 10}, {"M", 1ULL << 20}, {"G", 1ULL << 30},
        {"T", 1ULL << 40}, {"P", 1ULL << 50}, {NULL, 0}};
    return measure(text, units, INT64_MAX, ret);
}

// In units that divide it, and coarser ones while it has more than four digits if `is_rounded`.
static const char *size_format(uint64_t size, bool is_rounded, char ret[TEXT_SIZE_MAX])
{
    static const char units[] = " KMGTP";
    unsigned unit = 0;
    while (units[unit + 1] != '\0' &&
           ((is_rounded && size >= 10240) || (size > 0 && size % 1024 == 0))) {
        size /= 1024;
        unit++;
    }
    snprintf(ret, TEXT_SIZE_MAX, unit == 0 ? "%" PRIu64 : "%" PRIu64 "%c", size, units[unit]);
    return ret;
}

const char *text_size_format(uint64_t size, char ret[TEXT_SIZE_MAX])
{
    return size_format(size, true, ret);
}

const char *text_size_format_exactly(uint64_t size, char ret[TEXT_SIZE_MAX])
{
    return size_format(size, false, ret);
}

bool text_duration_parse(const char *text, duration_ns *ret)
{
    static const struct unit_of_measure units[] = {{"", NS_PER_S},    {"s", NS_PER_S},
                                                   {"ms", NS_PER_MS}, {"us", NS_PER_US},
                                                   {"ns", 1},         {NULL, 0}};
    return measure(text, units, UINT64_MAX, ret);
}

const char *text_duration_format(duration_ns duration, char ret[TEXT_DURATION_MAX])
{
    static const struct unit_of_measure units[] = {
        {"us", NS_PER_US}, {"ms", NS_PER_MS}, {"s", NS_PER_S}};
    if (duration < NS_PER_US) {
        snprintf(ret, TEXT_DURATION_MAX, "%" PRIu64 "ns", duration);
        return ret;
    }
    const struct unit_of_measure *unit = units;
    while (unit < units + 2 && duration >= 1000 * unit->worth) {
        unit++;
    }
    const uint64_t whole = duration / unit->worth,
                   percent = duration % unit->worth * 100 / unit->worth;
    if (whole < 10) {
        snprintf(ret, TEXT_DURATION_MAX, "%" PRIu64 ".%02" PRIu64 "%s", whole, percent,
                 unit->suffix);
    } else if (whole < 100) {
        snprintf(ret, TEXT_DURATION_MAX, "%" PRIu64 ".%" PRIu64 "%s", whole, percent / 10,
                 unit->suffix);
    } else {
        snprintf(ret, TEXT_DURATION_MAX, "%" PRIu64 "%s", whole, unit->suffix);
    }
    return ret;
}
